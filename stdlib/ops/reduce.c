/* Reductions over axes. */
#include "stdlib/ops/ops.h"

bool ops_reduced_axes(const Attrs *a, int rank, bool *on, int64_t *bad)
{
    int64_t axes[TENSOR_RANK_MOST];
    int n = attrs_ints(a, "axis", axes, TENSOR_RANK_MOST);
    bool exclude = n > 0 && attrs_bool(a, "exclude");
    for (int i = 0; i < rank; i++)
        on[i] = n <= 0 || exclude;
    for (int i = 0; i < n; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (axis < 0 || axis >= rank)
            return *bad = axes[i], false;
        on[axis] = !exclude;
    }
    return true;
}

static RelResult reduce_to(Rel *r, const Type *t, DType dtype)
{
    bool on[TENSOR_RANK_MOST];
    int64_t bad;
    if (!ops_reduced_axes(r->attrs, (int)t->n, on, &bad)) {
        rel_axis(r, bad, t->n);
        return REL_FAILED;
    }
    bool keep = attrs_bool(r->attrs, "keepdims");
    Dim dims[TENSOR_RANK_MOST];
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n; i++)
        if (!on[i] || keep)
            dims[n++] = on[i] ? 1 : t->dims[i];
    return rel_out_tensor(r, dtype, n, dims);
}

#define SHAPES_rel_reduce                                                                     \
    "(d...) -> (without(d, axis)...); the other axes where exclude; (d[axis := 1]...) where " \
    "keepdims"
static RelResult rel_reduce(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    return t ? reduce_to(r, t, t->dtype) : rel_blocked(r);
}

#define SHAPES_rel_reduce_bool SHAPES_rel_reduce
static RelResult rel_reduce_bool(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (t && !dtype_is_bool(t->dtype)) {
        Diag *d = rel_error(r, E0203_DTYPE, 0, "`%s` takes elements of type bool, but this is `%s`",
                            r->op->name, type_str(r->cx, t));
        diag_help(d, "compare first: `not_equal(…, …)`, or `cast(…, dtype=\"bool\")`");
        return REL_FAILED;
    }
    return rel_reduce(r);
}

#define SHAPES_rel_variance                                                                     \
    "(d...), (m...) -> (without(d, axis)...); the other axes where exclude; (d[axis := 1]...) " \
    "where keepdims"
static RelResult rel_variance(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *m = t ? rel_tensor(r, 1) : NULL;
    if (!m)
        return rel_blocked(r);
    if (!rel_dtypes_agree(r, 0, t, 1, m) || !rel_rank(r, 1, m, t->n))
        return REL_FAILED;
    for (uint32_t i = 0; i < t->n; i++) {
        if (m->dims[i] == 1 || dim_agrees(m->dims[i], t->dims[i]))
            continue;
        Diag *d = rel_error(r, E0202_SHAPE, 1, "the mean `%s` does not fit the data, `%s`",
                            type_str(r->cx, m), type_str(r->cx, t));
        diag_help(d, "compute it with `keepdims=True`");
        return REL_FAILED;
    }
    return reduce_to(r, t, t->dtype);
}

#define SHAPES_rel_arg SHAPES_rel_reduce
static RelResult rel_arg(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    if (t->n == 0) {
        rel_error(r, E0202_SHAPE, 0, "`%s` takes a tensor of rank 1 or more, but this is `%s`",
                  r->op->name, type_str(r->cx, t));
        return REL_FAILED;
    }
    return reduce_to(r, t, (DType){DTYPE_CODE_INT, 32, 1});
}

/* ---- computing ----------------------------------------------------------------------------------- */

typedef struct Reduction {
    Te *index[TENSOR_RANK_MOST]; /* of the data */
    int64_t extents[TENSOR_RANK_MOST]; /* of the reduced axes */
    int n;
    int64_t count; /* elements that are folded into one */
} Reduction;

static void reduction(TeBuilder *b, Reduction *to)
{
    TeTensor x = te_input(b, 0);
    bool on[TENSOR_RANK_MOST], keep = attrs_bool(b->attrs, "keepdims");
    int64_t bad;
    ops_reduced_axes(b->attrs, x.rank, on, &bad);
    int r = te_out_rank(b, 0), at = 0;
    to->n = 0;
    to->count = 1;
    for (int i = 0; i < x.rank; i++) {
        if (on[i]) {
            to->index[i] = te_axis(b, r + to->n);
            to->extents[to->n++] = x.shape[i];
            to->count *= x.shape[i];
            at += keep;
        } else {
            to->index[i] = te_axis(b, at++);
        }
    }
}

static TeTensor reduce_as(TeBuilder *b, TeReduce kind, DType dtype, const Reduction *red, Te *body)
{
    return te_reduce(b, kind, dtype, te_out_rank(b, 0), te_out_shape(b, 0), red->n, red->extents,
                     body);
}

static void compute_reduce(TeBuilder *b, TeReduce kind)
{
    Reduction red;
    reduction(b, &red);
    te_output(b,
              reduce_as(b, kind, te_out_dtype(b, 0), &red, te_load(b, te_input(b, 0), red.index)));
}

/* Halves are summed and divided as float32. */
static DType wide_dtype(DType d)
{
    return dtype_is_float(d) && d.bits == 16 ? (DType){DTYPE_CODE_FLOAT, 32, 1} : d;
}

static void mean_of(TeBuilder *b, const Reduction *red, Te *body, double count)
{
    DType wide = body->dtype;
    TeTensor sum = reduce_as(b, TE_SUM, wide, red, body);
    Te *mean = te_binary(b, TE_DIV, ops_at_axes(b, sum), te_number(b, wide, count));
    ops_emit(b, te_cast(b, te_out_dtype(b, 0), mean));
}

static void compute_mean(TeBuilder *b)
{
    Reduction red;
    reduction(b, &red);
    Te *x = te_load(b, te_input(b, 0), red.index);
    mean_of(b, &red, te_cast(b, wide_dtype(x->dtype), x), (double)red.count);
}

static void compute_variance(TeBuilder *b)
{
    Reduction red;
    reduction(b, &red);
    TeTensor x = te_input(b, 0), m = te_input(b, 1);
    Te *at[TENSOR_RANK_MOST];
    for (int i = 0; i < m.rank; i++)
        at[i] = m.shape[i] == 1 ? te_int(b, 0) : red.index[i];
    DType wide = wide_dtype(x.dtype);
    Te *d = te_binary(b, TE_SUB, te_cast(b, wide, te_load(b, x, red.index)),
                      te_cast(b, wide, te_load(b, m, at)));
    mean_of(b, &red, te_binary(b, TE_MUL, d, d),
            (double)(red.count - (attrs_bool(b->attrs, "unbiased") ? 1 : 0)));
}

static void compute_sum(TeBuilder *b)
{
    compute_reduce(b, TE_SUM);
}

static void compute_prod(TeBuilder *b)
{
    compute_reduce(b, TE_PROD);
}

static void compute_max(TeBuilder *b)
{
    compute_reduce(b, TE_REDUCE_MAX);
}

static void compute_min(TeBuilder *b)
{
    compute_reduce(b, TE_REDUCE_MIN);
}

static void compute_all(TeBuilder *b)
{
    compute_reduce(b, TE_ALL);
}

static void compute_any(TeBuilder *b)
{
    compute_reduce(b, TE_ANY);
}

/* A position that the result's type does not have is no answer: it would be another's, or negative. */
static void compute_position(TeBuilder *b, TeReduce first, TeReduce last)
{
    Reduction red;
    reduction(b, &red);
    if (red.count - 1 > INT32_MAX) {
        Diag *d = diag_error(b->cx->diags, E0303_RUNTIME_SHAPE, b->span,
                             "`%s` among %lld elements gives positions that int32 does not have",
                             b->op->name, (long long)red.count);
        diag_help(d, "fold fewer axes at once, or parts of them");
        b->failed = true;
        return;
    }
    compute_reduce(b, attrs_bool(b->attrs, "select_last_index") ? last : first);
}

static void compute_argmax(TeBuilder *b)
{
    compute_position(b, TE_ARGMAX, TE_ARGMAX_LAST);
}

static void compute_argmin(TeBuilder *b)
{
    compute_position(b, TE_ARGMIN, TE_ARGMIN_LAST);
}

/* ---- rows ---------------------------------------------------------------------------------------- */

#define AXIS_ATTR ATTR_NONE("axis", INTS, "the axes that are folded; None: all")
#define KEEPDIMS_ATTR ATTR_B("keepdims", 0, "keep folded axes with extent 1")
#define EXCLUDE_ATTR ATTR_B("exclude", 0, "fold all axes except the listed")

static const OpAttr reduce_attrs[] = {AXIS_ATTR, KEEPDIMS_ATTR, EXCLUDE_ATTR, {0}};
static const OpAttr variance_attrs[] = {
    AXIS_ATTR,
    KEEPDIMS_ATTR,
    EXCLUDE_ATTR,
    ATTR_B("unbiased", 0, "divide by one less than the number of elements"),
    {0}};
static const OpAttr arg_attrs[] = {
    AXIS_ATTR,
    KEEPDIMS_ATTR,
    ATTR_B("select_last_index", 0, "of equal elements the last, not the first"),
    EXCLUDE_ATTR,
    {0}};
static const OpArg variance_args[] = {
    {"data", "the tensor"}, {"mean", "its mean over the same axes, with `keepdims=True`"}, {0}};

#define REDUCE_SAMPLES                                                                 \
    "(float32[2,3]) (float32[2,3,4], axis=[1]) (int32[2,3], axis=[0], keepdims=True) " \
    "(float32[2,3,4], axis=[1], exclude=True)"
#define BOOL_SAMPLES "(bool[2,3]) (bool[2,3], axis=[1])"

/* clang-format off */
/* The result with the axes that went as extents of 1; how many elements each result is of, as one over it. */
#define FOLDED "axis=%axis, keepdims=True, exclude=%exclude"
#define KEPT "sum(%data, " FOLDED ")"
#define PUT_BACK "reshape(%g, newshape=shape_of(" KEPT "), allowzero=True)"
#define SHARE                                                       \
    "cast_like(divide(ndarray_size(%out, dtype=\"float64\"), "      \
    "ndarray_size(%data, dtype=\"float64\")), %data)"
#define EXTREME_GRAD                                                                         \
    "let %kept = " KEPT "; let %wins = cast_like(equal(%data, reshape_like(%out, %kept)), %data); " \
    "multiply(%wins, divide(reshape_like(%g, %kept), sum(%wins, " FOLDED ")))"
/* The product of the others. Where one element is 0 that is its own; where two are, it is 0 and grows with the other one, which is the sum
 * of both without this one; where more are, it stays 0. */
#define PROD_GRAD                                                                            \
    "let %kept = " KEPT "; let %ones = ones_like(%data); let %zeros = zeros_like(%data); "   \
    "let %null = equal(%data, %zeros); let %full = where(%null, %ones, %data); "             \
    "let %none = where(%null, %data, %zeros); "                                              \
    "let %nulls = sum(where(%null, %ones, %zeros), " FOLDED "); "                            \
    "let %once = ones_like(%nulls); "                                                        \
    "let %other = where(equal(%nulls, %once), %ones, subtract(sum(%none, " FOLDED "), %none)); " \
    "let %one = multiply(prod(%full, " FOLDED "), %other); "                                 \
    "let %others = where(%null, %one, divide(reshape_like(%out, %kept), %full)); "           \
    "let %many = logical_and(%null, greater(%nulls, add(%once, %once))); "                   \
    "multiply(reshape_like(%g, %kept), where(%many, %zeros, %others))"
/* 2 (x - m) g over n, or over n - 1: what variance gives for a distance of 1. */
#define VARIANCE_GRAD                                                                        \
    "let %apart = multiply(cast_like(2f, %data), subtract(%data, %mean)); "                  \
    "let %share = multiply(" SHARE ", variance(ones_like(%data), zeros_like(%mean), "        \
    FOLDED ", unbiased=%unbiased)); "                                                        \
    "let %back = multiply(multiply(reshape_like(%g, " KEPT "), %apart), %share); "           \
    "(%back, collapse_sum_like(negative(%back), %mean))"
#define ROW(NAME, ID, ATTRS, REL, SAMPLES, GRAD, DOC)                                             \
    {.name = NAME, .doc = DOC, .args = args_data, .attrs = ATTRS, .samples = SAMPLES,             \
     .pattern = OP_REDUCE, OP_REL(REL), .compute = compute_##ID, .grad = GRAD},

const Op reduce_ops[] = {
    ROW("sum", sum, reduce_attrs, rel_reduce, REDUCE_SAMPLES, "broadcast_to_like(" PUT_BACK ", %data)", "The sum of the elements.")
    ROW("mean", mean, reduce_attrs, rel_reduce, REDUCE_SAMPLES, "broadcast_to_like(multiply(" PUT_BACK ", " SHARE "), %data)", "The mean of the elements.")
    ROW("prod", prod, reduce_attrs, rel_reduce, REDUCE_SAMPLES, PROD_GRAD,
        "The product of the elements.")
    ROW("max", max, reduce_attrs, rel_reduce, REDUCE_SAMPLES, EXTREME_GRAD, "The greatest element.")
    ROW("min", min, reduce_attrs, rel_reduce, REDUCE_SAMPLES, EXTREME_GRAD, "The least element.")
    ROW("all", all, reduce_attrs, rel_reduce_bool, BOOL_SAMPLES, NULL,
        "Whether every element is True.")
    ROW("any", any, reduce_attrs, rel_reduce_bool, BOOL_SAMPLES, NULL,
        "Whether some element is True.")
    ROW("argmax", argmax, arg_attrs, rel_arg, REDUCE_SAMPLES, NULL,
        "The position of the greatest element, counted through the folded axes.")
    ROW("argmin", argmin, arg_attrs, rel_arg, REDUCE_SAMPLES, NULL,
        "The position of the least element, counted through the folded axes.")
    {.name = "variance",
     .doc = "The mean of the squared differences from `mean`.",
     .args = variance_args,
     .attrs = variance_attrs,
     .samples = "(float32[2,3], float32[2,1], axis=[1])",
     .pattern = OP_REDUCE,
     OP_REL(rel_variance),
     .compute = compute_variance,
     .grad = VARIANCE_GRAD},
    {0},
};
/* clang-format on */
