/* Matrix products. */
#include "stdlib/ops/ops.h"

#include <string.h>

static bool out_dtype(Rel *r, const Type *a, const Type *b, DType *out)
{
    *out = ops_dtype(r->attrs, "out_dtype", a->dtype);
    /* Both become the type to sum in first, where one is told; quantised data and weights int32. */
    return (r->op->flags & OP_QUANTISED) || !dtype_is_void(attrs_dtype(r->attrs, "out_dtype")) ||
           rel_dtypes_agree(r, 0, a, 1, b);
}

/* The other matrix axis of argument 1 would fit: it is transposed. */
static void help_transposed(const Rel *r, Diag *d, Dim k, const Type *b, int j)
{
    int last = (int)b->n - 1, other = j == last ? last - 1 : last;
    if (last < 1 || b->dims[other] < 0 || b->dims[other] != k)
        return;
    if (attrs_find(r->attrs, "transpose_b"))
        diag_help(d, "its transpose would fit: give `transpose_b=%s`",
                  attrs_bool(r->attrs, "transpose_b") ? "False" : "True");
    else
        diag_help(d,
                  "its transpose would fit: `transpose(…, axes=[1, 0])`; the `%s` of `%s` is "
                  "(units, inputs)",
                  r->op->args[1].name, r->op->name);
}

/* Reports that axis i of argument 0 and axis j of argument 1 must agree, and do not. */
static RelResult contraction_error(Rel *r, const Type *a, int i, const Type *b, int j)
{
    Diag *d =
        rel_error(r, E0202_SHAPE, 1,
                  "`%s` sums over axis %d of `%s` with %lld elements and axis %d of `%s` with %lld",
                  r->op->name, i, r->op->args[0].name, (long long)a->dims[i], j,
                  r->op->args[1].name, (long long)b->dims[j]);
    diag_note(d, "they are `%s` and `%s`", type_str(r->cx, a), type_str(r->cx, b));
    help_transposed(r, d, a->dims[i], b, j);
    if (!d->helps)
        diag_help(d, "a `%s` with %lld elements along axis %d would fit", r->op->args[1].name,
                  (long long)a->dims[i], j);
    return REL_FAILED;
}

static bool needs_rank(Rel *r, uint32_t i, const Type *t)
{
    if (t->n > 0)
        return true;
    rel_error(r, E0202_SHAPE, (int)i, "`%s` takes a `%s` of rank 1 or more, but this is a scalar",
              r->op->name, r->op->args[i].name);
    return false;
}

/* ---- nn.dense ------------------------------------------------------------------------------------ */

/* The layout of a weight in blocks; "" where the operator has none. */
static Str weight_blocks(const Attrs *a)
{
    return attrs_find(a, "weight_layout") ? attrs_string(a, "weight_layout") : (Str){"", 0};
}

/* The weight as (units, inputs), set from `units` where it is unknown. NULL when it stays so, or after a diagnostic. */
static const Type *dense_weight(Rel *r, const Type *x, Dim units, bool *failed)
{
    Str blocks = weight_blocks(r->attrs), plain = str_of("NC");
    if (type_find(r->in[1])->kind == TYPE_HOLE && units >= 0) {
        const Type *w = type_tensor(r->cx, x->dtype, 2, (Dim[]){units, x->dims[x->n - 1]});
        const Type *set = blocks.len ? rel_layout_type(r, 1, w, plain, blocks) : w;
        *failed = !set || !rel_set_input(r, 1, set);
        return *failed ? NULL : w;
    }
    const Type *w = rel_tensor(r, 1);
    if (!w)
        return NULL;
    if (blocks.len)
        w = rel_layout_type(r, 1, w, blocks, plain);
    else if (!rel_rank(r, 1, w, 2))
        w = NULL;
    *failed = !w;
    return w;
}

RelResult rel_dense(Rel *r)
{
    const Type *x = rel_tensor(r, 0);
    if (!x)
        return rel_blocked(r);
    if (!needs_rank(r, 0, x))
        return REL_FAILED;
    Dim units = attrs_int(r->attrs, "units", -2), k = x->dims[x->n - 1];
    bool failed = false;
    const Type *w = dense_weight(r, x, units, &failed);
    DType dtype;
    if (!w)
        return failed ? REL_FAILED : rel_blocked(r);
    if (!out_dtype(r, x, w, &dtype))
        return REL_FAILED;
    if (!dim_agrees(k, w->dims[1])) {
        contraction_error(r, x, (int)x->n - 1, w, 1);
        return REL_FAILED;
    }
    if (units >= 0 && !dim_agrees(units, w->dims[0])) {
        Diag *d = rel_error(r, E0202_SHAPE, 1, "`units` is %lld, but `weight` has %lld rows",
                            (long long)units, (long long)w->dims[0]);
        diag_help(d, "the weight of `nn.dense` is (units, inputs); `units=None` takes its rows");
        return REL_FAILED;
    }
    Dim dims[TENSOR_RANK_MOST];
    for (uint32_t i = 0; i + 1 < x->n; i++)
        dims[i] = x->dims[i];
    dims[x->n - 1] = units >= 0 ? units : w->dims[0];
    return rel_out_tensor(r, dtype, x->n, dims);
}

/* Sum over the reduced axis of the product of two elements in the output's dtype. */
static void emit_product(TeBuilder *b, int64_t extent, Te *x, Te *y)
{
    DType d = te_out_dtype(b, 0);
    Te *body = te_binary(b, TE_MUL, te_cast(b, d, x), te_cast(b, d, y));
    te_output(b, te_reduce(b, TE_SUM, d, te_out_rank(b, 0), te_out_shape(b, 0), 1, &extent, body));
}

void ops_dense(TeBuilder *b, TeTensor x, TeTensor w)
{
    Str blocks = weight_blocks(b->attrs);
    if (blocks.len)
        w = ops_layout(b, w, blocks, str_of("NC"));
    int r = te_out_rank(b, 0);
    Te *xi[TENSOR_RANK_MOST], *k = te_axis(b, r), *wi[2] = {te_axis(b, r - 1), k};
    ops_axes(b, 0, r - 1, xi);
    xi[r - 1] = k;
    emit_product(b, x.shape[r - 1], te_load(b, x, xi), te_load(b, w, wi));
}

static void compute_dense(TeBuilder *b)
{
    ops_dense(b, te_input(b, 0), te_input(b, 1));
}

/* ---- nn.matmul, nn.batch_matmul ------------------------------------------------------------------ */

#define SHAPES_rel_matmul \
    "(d..., M, K), (K, N) -> (d..., M, N); turned round where transpose_a or transpose_b"
static RelResult rel_matmul(Rel *r)
{
    const Type *a = rel_tensor(r, 0);
    if (!a)
        return rel_blocked(r);
    int ta = attrs_bool(r->attrs, "transpose_a"), tb = attrs_bool(r->attrs, "transpose_b");
    if (a->n < 2 && (ta || !needs_rank(r, 0, a)))
        return rel_rank(r, 0, a, 2) ? REL_WAIT : REL_FAILED;
    int summed = (int)a->n - 1 - ta;
    Dim units = attrs_int(r->attrs, "units", -2), k = a->dims[summed], dims[TENSOR_RANK_MOST];
    const Type *set = NULL;
    if (type_find(r->in[1])->kind == TYPE_HOLE && units >= 0) {
        set = type_tensor(r->cx, a->dtype, 2, (Dim[]){tb ? units : k, tb ? k : units});
        if (!rel_set_input(r, 1, set))
            return REL_FAILED;
    }
    const Type *b = set ? set : rel_tensor(r, 1);
    DType dtype;
    if (!b)
        return rel_blocked(r);
    if (!rel_rank(r, 1, b, 2) || !out_dtype(r, a, b, &dtype))
        return REL_FAILED;
    if (!dim_agrees(k, b->dims[tb ? 1 : 0]))
        return contraction_error(r, a, summed, b, tb ? 1 : 0);
    if (units >= 0 && !dim_agrees(units, b->dims[tb ? 0 : 1])) {
        rel_error(r, E0202_SHAPE, 1, "`units` is %lld, but the matrix has %lld columns",
                  (long long)units, (long long)b->dims[tb ? 0 : 1]);
        return REL_FAILED;
    }
    memcpy(dims, a->dims, a->n * sizeof *dims);
    if (ta)
        dims[a->n - 2] = a->dims[a->n - 1];
    dims[a->n - 1] = b->dims[tb ? 0 : 1];
    return rel_out_tensor(r, dtype, a->n, dims);
}

static void compute_matmul(TeBuilder *b)
{
    TeTensor x = te_input(b, 0), y = te_input(b, 1);
    bool ta = attrs_bool(b->attrs, "transpose_a"), tb = attrs_bool(b->attrs, "transpose_b");
    int last = x.rank - 1;
    Te *j = te_axis(b, last), *k = te_axis(b, x.rank), *xi[TENSOR_RANK_MOST];
    Te *yi[2] = {tb ? j : k, tb ? k : j};
    ops_axes(b, 0, last, xi);
    xi[last] = ta ? xi[last - 1] : k;
    if (ta)
        xi[last - 1] = k;
    emit_product(b, x.shape[last - ta], te_load(b, x, xi), te_load(b, y, yi));
}

RelResult rel_batch_matmul(Rel *r)
{
    const Type *a = rel_tensor(r, 0), *b = a ? rel_tensor(r, 1) : NULL;
    if (!b)
        return rel_blocked(r);
    DType dtype;
    if (!rel_rank(r, 0, a, 3) || !rel_rank(r, 1, b, 3) || !out_dtype(r, a, b, &dtype))
        return REL_FAILED;
    int ta = attrs_bool(r->attrs, "transpose_a"), tb = attrs_bool(r->attrs, "transpose_b");
    Dim batches, p = a->dims[0], q = b->dims[0];
    uint32_t one;
    if (!dims_broadcast(r->cx, 1, &p, 1, &q, &one, &batches)) {
        Diag *d = rel_error(r, E0202_SHAPE, 1, "the batches have %lld and %lld matrices",
                            (long long)p, (long long)q);
        diag_help(d, "their numbers must be equal, or one of them 1");
        return REL_FAILED;
    }
    if (!dim_agrees(a->dims[ta ? 1 : 2], b->dims[tb ? 2 : 1])) {
        return contraction_error(r, a, ta ? 1 : 2, b, tb ? 2 : 1);
    }
    return rel_out_tensor(r, dtype, 3, (Dim[]){batches, a->dims[ta ? 2 : 1], b->dims[tb ? 1 : 2]});
}

void ops_batch_matmul(TeBuilder *b, TeTensor x, TeTensor y)
{
    bool ta = attrs_bool(b->attrs, "transpose_a"), tb = attrs_bool(b->attrs, "transpose_b");
    Te *n = te_axis(b, 0), *i = te_axis(b, 1), *j = te_axis(b, 2), *k = te_axis(b, 3);
    Te *zero = te_int(b, 0);
    Te *xi[3] = {x.shape[0] == 1 ? zero : n, ta ? k : i, ta ? i : k};
    Te *yi[3] = {y.shape[0] == 1 ? zero : n, tb ? j : k, tb ? k : j};
    emit_product(b, x.shape[ta ? 1 : 2], te_load(b, x, xi), te_load(b, y, yi));
}

static void compute_batch_matmul(TeBuilder *b)
{
    ops_batch_matmul(b, te_input(b, 0), te_input(b, 1));
}

/* ---- rows ---------------------------------------------------------------------------------------- */

#define OUT_DTYPE ATTR_D("out_dtype", "", "the type to sum in and of the result")
static const OpArg dense_args[] = {
    {"data", "rows of inputs, in the last axis"}, {"weight", "(units, inputs)"}, {0}};
static const OpArg matmul_args[] = {
    {"tensor_a", "the left matrix, in the last two axes"}, {"tensor_b", "the right one"}, {0}};
static const OpArg batch_matmul_args[] = {
    {"tensor_a", "the left matrices, in the last two axes"}, {"tensor_b", "the right ones"}, {0}};
const OpAttr dense_attrs[] = {
    ATTR_MUST_NONE("units", INT, "the number of outputs; None: the rows of the weight"),
    OUT_DTYPE,
    {0}};
const OpAttr dense_pack_attrs[] = {
    ATTR_MUST_NONE("units", INT, "the number of outputs; None: the rows of the weight"),
    OUT_DTYPE,
    ATTR_S("weight_layout", "NC", "the order of the weight's axes, such as \"NC8n\""),
    {0}};
#define TRANSPOSES                                                   \
    ATTR_B("transpose_a", 0, "the left matrix is given transposed"), \
        ATTR_B("transpose_b", 0, "the right matrix is given transposed")
static const OpAttr matmul_attrs[] = {
    ATTR_MUST_NONE("units", INT, "the columns of the result; None: of the right matrix"),
    OUT_DTYPE,
    TRANSPOSES,
    {0}};
const OpAttr batch_matmul_attrs[] = {OUT_DTYPE, TRANSPOSES, {0}};

/* Gradients are summed in the type of the result, which `out_dtype` may say, and are of the types of what they are by. */
#define SUMMED(X) "cast(" X ", dtype=%out.dtype)"
#define OF(G, X) "collapse_sum_like(cast(" G ", dtype=" X ".dtype), " X ")"
#define LEFT_AND_RIGHT "let %x = " SUMMED("%tensor_a") "; let %y = " SUMMED("%tensor_b") "; "

/* clang-format off */
#define DENSE_GRAD                                                                     \
    "let %n = take(shape_of(%weight), 0); let %k = take(shape_of(%weight), 1); "       \
    "let %x = " SUMMED("%data") "; let %w = " SUMMED("%weight") "; "                   \
    "let %rows = reshape(%g, newshape=[-1, %n]); "                                     \
    "let %seen = reshape(%x, newshape=[-1, %k]); "                                     \
    "(" OF("nn.dense(%g, transpose(%w, axes=None), units=%k)", "%data") ", "           \
    OF("nn.dense(transpose(%rows, axes=None), transpose(%seen, axes=None), units=%k)", \
       "%weight") ")"
/* clang-format on */

const Op matmul_ops[] = {
    {.name = "nn.dense",
     .doc = "Each row of inputs times the transposed weight.",
     .args = dense_args,
     .attrs = dense_attrs,
     .samples = "(float32[2,3], float32[4,3], units=4) (float32[2,5,3], float32[4,3], units=None)",
     .pattern = OP_OUT_FUSABLE,
     OP_REL(rel_dense),
     .compute = compute_dense,
     .grad = DENSE_GRAD},
    {.name = "nn.contrib_dense_pack",
     .doc = "`nn.dense` with a weight whose axes are split in blocks.",
     .args = dense_args,
     .attrs = dense_pack_attrs,
     .samples = "(float32[2,3], float32[2,3,4], units=8, weight_layout=\"NC4n\") "
                "(float32[2,4], float32[2,2,4,2], units=None, weight_layout=\"NC4n2c\")",
     .pattern = OP_OUT_FUSABLE,
     OP_REL(rel_dense),
     .compute = compute_dense},
    {.name = "nn.matmul",
     .doc = "The product of a matrix, or of several in the last two axes, and a matrix.",
     .args = matmul_args,
     .attrs = matmul_attrs,
     .samples = "(float32[2,3], float32[3,4], units=None) "
                "(float32[3,2], float32[4,3], units=None, transpose_a=True, transpose_b=True)",
     .pattern = OP_OUT_FUSABLE,
     OP_REL(rel_matmul),
     .compute = compute_matmul,
     .grad = LEFT_AND_RIGHT
     "let %a = if (%transpose_a) { nn.matmul(%y, %g, units=None, "
     "transpose_a=%transpose_b, transpose_b=True) } else if (%transpose_b) { nn.dense(%g, "
     "transpose(%y, axes=None), units=take(shape_of(%y), 1)) } else { "
     "nn.matmul(%g, %y, units=None, transpose_b=True) }; "
     "let %b = if (logical_not(%transpose_b)) { nn.matmul(%x, %g, units=None, "
     "transpose_a=logical_not(%transpose_a)) } else if (%transpose_a) { nn.matmul(%g, "
     "%x, units=None, transpose_a=True, transpose_b=True) } else { nn.dense(transpose("
     "%g, axes=None), transpose(%x, axes=None), units=take(shape_of(%x), 1)) }; "
     "(" OF("%a", "%tensor_a") ", " OF("%b", "%tensor_b") ")"},
    {.name = "nn.batch_matmul",
     .doc = "The products of the matrices of two batches.",
     .args = batch_matmul_args,
     .attrs = batch_matmul_attrs,
     .samples =
         "(float32[2,3,4], float32[2,4,5]) (float32[2,3,4], float32[1,5,4], transpose_b=True)",
     .pattern = OP_OUT_FUSABLE,
     OP_REL(rel_batch_matmul),
     .compute = compute_batch_matmul,
     .grad = LEFT_AND_RIGHT
     "let %a = if (%transpose_a) { nn.batch_matmul(%y, %g, transpose_a=%transpose_b, "
     "transpose_b=True) } else if (%transpose_b) { nn.batch_matmul(%g, transpose(%y, "
     "axes=[0, 2, 1]), transpose_b=True) } else { nn.batch_matmul(%g, %y, "
     "transpose_b=True) }; "
     "let %b = if (logical_not(%transpose_b)) { nn.batch_matmul(%x, %g, "
     "transpose_a=logical_not(%transpose_a)) } else if (%transpose_a) { nn.batch_matmul(%g, "
     "%x, transpose_a=True, transpose_b=True) } else { nn.batch_matmul(transpose(%g, "
     "axes=[0, 2, 1]), transpose(%x, axes=[0, 2, 1]), transpose_b=True) }; "
     "(" OF("%a", "%tensor_a") ", " OF("%b", "%tensor_b") ")"},
    {0},
};
