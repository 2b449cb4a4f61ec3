/* Elements around a tensor. */
#include "stdlib/ops/ops.h"

#include "base/number.h"

/* The pairs in argument 1; false while they are not known. */
static bool pad_values(Rel *r, uint32_t n, int64_t *before, int64_t *after)
{
    int64_t v[2 * TENSOR_RANK_MOST];
    if (rel_ints_of(r, 1, v, 2 * TENSOR_RANK_MOST) != 2 * (int)n)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        before[i] = v[2 * i];
        after[i] = v[2 * i + 1];
    }
    return true;
}

static RelResult pad_rel(Rel *r, const Type *t)
{
    int64_t before[TENSOR_RANK_MOST], after[TENSOR_RANK_MOST];
    Dim dims[TENSOR_RANK_MOST];
    bool dynamic = r->n == 3;
    if (dynamic && !pad_values(r, t->n, before, after))
        return rel_unknown(r, t->dtype, t->n);
    if (!dynamic && !ops_pairs(r->attrs, "pad_width", t->n, before, after)) {
        Diag *d = rel_error(r, E0216_OPERATOR_ARGUMENT, 0, "`pad_width` of `%s` must hold %u pairs",
                            r->op->name, (unsigned)t->n);
        diag_help(d, "one pair for each axis of `%s`: [before, after]", type_str(r->cx, t));
        return REL_FAILED;
    }
    for (uint32_t i = 0; i < t->n; i++) {
        int64_t more, extent = 0;
        bool counted = int64_add(before[i], after[i], &more) &&
                       (t->dims[i] < 0 || int64_add(t->dims[i], more, &extent));
        if (!counted)
            return rel_uncounted(r, (int)i);
        if (extent < 0) {
            rel_error(r, E0202_SHAPE, 0, "axis %u has %lld elements and would get %lld",
                      (unsigned)i, (long long)t->dims[i], (long long)extent);
            return REL_FAILED;
        }
        dims[i] = dim_offset(r->cx, t->dims[i], more);
    }
    return rel_out_tensor(r, t->dtype, t->n, dims);
}

#define SHAPES_rel_pad "(d...), () -> (d + pad_width...)"
static RelResult rel_pad(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *v = t ? rel_tensor(r, r->n - 1) : NULL;
    const Type *width = v && r->n == 3 ? rel_tensor(r, 1) : v;
    if (!width)
        return rel_blocked(r);
    if (!rel_is_scalar(r, r->n - 1, v))
        return REL_FAILED;
    if (r->n == 3 && (!rel_is_int(r, 1, width) || !rel_has_shape(r, 1, width, 2, (Dim[]){t->n, 2})))
        return REL_FAILED;
    return pad_rel(r, t);
}

#define SHAPES_rel_mirror_pad "(d...) -> (d + pad_width...)"
static RelResult rel_mirror_pad(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    return t ? pad_rel(r, t) : rel_blocked(r);
}

/* i turned back at both ends; with `border` the element at the end comes twice. Far outside it is turned back
 * several times. */
static Te *mirrored(TeBuilder *b, Te *i, int64_t extent, int border, bool far)
{
    int64_t period = 2 * (extent - 1 + border);
    if (period < 1)
        return te_int(b, 0);
    if (far)
        i = te_binary(b, TE_FLOORMOD, i, te_int(b, period));
    else
        i = te_binary(b, TE_MAX, i, te_binary(b, TE_SUB, te_int(b, -border), i));
    return te_binary(b, TE_MIN, i, te_binary(b, TE_SUB, te_int(b, period - border), i));
}

typedef enum PadMode { PAD_CONSTANT, PAD_EDGE, PAD_REFLECT, PAD_SYMMETRIC } PadMode;

/* How many elements come before axis i, whether there may be some on either side, and more than the axis has. */
static Te *pad_before(TeBuilder *b, int i, bool *grows, bool *far)
{
    int64_t before[TENSOR_RANK_MOST], after[TENSOR_RANK_MOST];
    if (te_n_inputs(b) == 3) {
        *grows = *far = true;
        return te_cast(b, (DType){DTYPE_CODE_INT, 64, 1},
                       te_load(b, te_input(b, 1), (Te *[]){te_int(b, i), te_int(b, 0)}));
    }
    ops_pairs(b->attrs, "pad_width", (uint32_t)te_input(b, 0).rank, before, after);
    int64_t extent = te_input(b, 0).shape[i];
    *grows = before[i] > 0 || after[i] > 0;
    *far = before[i] >= extent || after[i] >= extent;
    return te_int(b, before[i]);
}

static void emit_pad(TeBuilder *b, PadMode mode, Te *value)
{
    TeTensor x = te_input(b, 0);
    Te *index[TENSOR_RANK_MOST];
    bool outside = false;
    for (int i = 0; i < x.rank; i++) {
        bool grows, far;
        Te *at = te_binary(b, TE_SUB, te_axis(b, i), pad_before(b, i, &grows, &far));
        outside = outside || (grows && mode == PAD_CONSTANT) || x.shape[i] == 0;
        if (mode == PAD_EDGE && grows)
            at = ops_clamp(b, at, x.shape[i]);
        else if (mode >= PAD_REFLECT && grows)
            at = mirrored(b, at, x.shape[i], mode == PAD_SYMMETRIC, far);
        index[i] = at;
    }
    ops_emit(b, outside ? te_load_or(b, x, index, value) : te_load(b, x, index));
}

static void compute_pad(TeBuilder *b)
{
    Str mode = attrs_string(b->attrs, "pad_mode");
    emit_pad(b,
             str_is(mode, "edge")      ? PAD_EDGE
             : str_is(mode, "reflect") ? PAD_REFLECT
                                       : PAD_CONSTANT,
             te_cast(b, te_out_dtype(b, 0), ops_scalar(b, te_input(b, te_n_inputs(b) - 1))));
}

static void compute_mirror_pad(TeBuilder *b)
{
    bool reflect = str_is(attrs_string(b->attrs, "mode"), "REFLECT");
    emit_pad(b, reflect ? PAD_REFLECT : PAD_SYMMETRIC, ops_number(b, 0));
}

/* ---- nn.dilate ------------------------------------------------------------------------------------ */

static RelResult rel_dilate(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    int64_t strides[TENSOR_RANK_MOST];
    Dim dims[TENSOR_RANK_MOST];
    if (!t)
        return rel_blocked(r);
    if (!rel_ints(r, "strides", (int)t->n, strides))
        return REL_FAILED;
    for (uint32_t i = 0; i < t->n; i++)
        dims[i] = t->dims[i] == 0
                      ? 0
                      : dim_offset(r->cx, dim_mul(r->cx, t->dims[i], strides[i]), 1 - strides[i]);
    return rel_out_tensor(r, t->dtype, t->n, dims);
}

static void compute_dilate(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int64_t strides[TENSOR_RANK_MOST];
    Te *index[TENSOR_RANK_MOST], *hit = NULL;
    ops_ints(b->attrs, "strides", x.rank, strides);
    for (int i = 0; i < x.rank; i++) {
        Te *s = te_int(b, strides[i]);
        Te *on = te_binary(b, TE_EQ, te_binary(b, TE_MOD, te_axis(b, i), s), te_int(b, 0));
        index[i] = te_binary(b, TE_DIV, te_axis(b, i), s);
        hit = hit ? te_binary(b, TE_AND, hit, on) : on;
    }
    Te *v = te_load(b, x, index), *fill = ops_number(b, attrs_float(b->attrs, "dilation_value"));
    ops_emit(b, hit ? te_select(b, hit, v, fill) : v);
}

/* ---- rows ---------------------------------------------------------------------------------------- */

static const OpArg pad_args[] = {
    {"data", "the tensor"}, {"pad_val", "the new elements: a scalar"}, {0}};
#define PAD_WIDTH ATTR_MUST("pad_width", INT_LISTS, "for each axis how many before and after")
#define PAD_MODE                                                                                  \
    ATTR_ONE("pad_mode", "constant", "\"constant\", \"edge\" or \"reflect\"", "constant", "edge", \
             "reflect")
static const OpAttr pad_attrs[] = {PAD_WIDTH, PAD_MODE, {0}};
static const OpAttr dyn_pad_attrs[] = {
    ATTR_MUST_NONE("pad_width", INT_LISTS, "unused: the argument gives it"), PAD_MODE, {0}};
static const OpArg dyn_pad_args[] = {{"data", "the tensor"},
                                     {"pad_width", "for each axis how many before and after"},
                                     {"pad_val", "the new elements: a scalar"},
                                     {0}};
static const OpAttr mirror_pad_attrs[] = {
    ATTR_ONE("mode", "SYMMETRIC", "whether the border is repeated (SYMMETRIC) or not (REFLECT)",
             "SYMMETRIC", "REFLECT"),
    PAD_WIDTH,
    {0}};

static const OpAttr dilate_attrs[] = {{.name = "strides",
                                       .type = ATTR_TYPE_INTS,
                                       .otherwise = {.kind = ATTR_LIST, .list = {ops_ones, 2}},
                                       .doc = "distance of the elements, one an axis"},
                                      ATTR_F("dilation_value", 0, "the new elements"),
                                      {0}};
static const OpArg dilate_args[] = {{"x", "the tensor"}, {0}};

const Op pad_ops[] = {
    {.name = "nn.pad",
     .doc = "New elements around a tensor: a value, the border, or the elements mirrored at it.",
     .args = pad_args,
     .attrs = pad_attrs,
     .samples = "(float32[2,3], float32, pad_width=[[1, 0], [2, 1]]) "
                "(float32[3,3], float32, pad_width=[[1, 1], [0, 2]], pad_mode=\"reflect\")",
     .pattern = OP_INJECTIVE,
     OP_REL(rel_pad),
     .compute = compute_pad},
    {.name = "dyn.nn.pad",
     .doc = "`nn.pad` by widths that are an argument.",
     .args = dyn_pad_args,
     .attrs = dyn_pad_attrs,
     .shapes = "(d...), (r, 2), () -> (d + pad_width...)",
     .samples = "(float32[2,3], int64[2,2], float32, pad_width=None)",
     .pattern = OP_INJECTIVE,
     .flags = OP_SHAPE_FROM_DATA,
     .rel = rel_pad,
     .compute = compute_pad},
    {.name = "nn.mirror_pad",
     .doc = "The elements mirrored around a tensor.",
     .args = args_data,
     .attrs = mirror_pad_attrs,
     .samples = "(float32[2,3], pad_width=[[1, 1], [1, 2]])",
     .pattern = OP_INJECTIVE,
     OP_REL(rel_mirror_pad),
     .compute = compute_mirror_pad},
    {.name = "nn.dilate",
     .doc = "A tensor with new elements between its own.",
     .args = dilate_args,
     .attrs = dilate_attrs,
     .shapes = "(d...) -> ((d - 1)*strides + 1...)",
     .samples = "(float32[2,3], strides=[2, 2])",
     .pattern = OP_INJECTIVE,
     .rel = rel_dilate,
     .compute = compute_dilate},
    {0},
};
