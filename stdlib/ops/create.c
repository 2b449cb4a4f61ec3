/* Tensors from nothing or from a scalar, casts, and questions about shapes. */
#include "stdlib/ops/ops.h"

#include <math.h>

static const DType int32_dtype = {DTYPE_CODE_INT, 32, 1};

/* The dims of attribute `shape`; false after a diagnostic. */
static bool shape_attr(Rel *r, uint32_t *n, Dim *dims)
{
    int given = attrs_ints(r->attrs, "shape", dims, TENSOR_RANK_MOST);
    if (given < 0) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`%s` needs its `shape`", r->op->name);
        return false;
    }
    for (int i = 0; i < given; i++) {
        if (dims[i] >= 0)
            continue;
        rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`shape` of `%s` holds the extent %lld",
                  r->op->name, (long long)dims[i]);
        return false;
    }
    *n = (uint32_t)given;
    return true;
}

#define SHAPES_rel_filled "-> (shape...)"
static RelResult rel_filled(Rel *r)
{
    Dim dims[TENSOR_RANK_MOST];
    uint32_t n;
    if (!shape_attr(r, &n, dims))
        return REL_FAILED;
    return rel_out_tensor(
        r, ops_dtype(r->attrs, "dtype", type_scalar(r->cx, (DType){2, 32, 1})->dtype), n, dims);
}

#define SHAPES_rel_full "() -> (shape...)"
static RelResult rel_full(Rel *r)
{
    const Type *v = rel_tensor(r, 0);
    if (!v)
        return rel_blocked(r);
    Dim dims[TENSOR_RANK_MOST];
    uint32_t n;
    if (!rel_is_scalar(r, 0, v) || !shape_attr(r, &n, dims))
        return REL_FAILED;
    return rel_out_tensor(r, ops_dtype(r->attrs, "dtype", v->dtype), n, dims);
}

#define SHAPES_rel_full_like "(d...), () -> (d...)"
static RelResult rel_full_like(Rel *r)
{
    const Type *data = rel_tensor(r, 0), *v = data ? rel_tensor(r, 1) : NULL;
    if (!v)
        return rel_blocked(r);
    if (!rel_is_scalar(r, 1, v))
        return REL_FAILED;
    return rel_set_output(r, data);
}

void compute_zeros(TeBuilder *b)
{
    ops_emit(b, ops_number(b, 0));
}

void compute_ones(TeBuilder *b)
{
    ops_emit(b, ops_number(b, 1));
}

void compute_full(TeBuilder *b)
{
    ops_emit(b, te_cast(b, te_out_dtype(b, 0), ops_scalar(b, te_input(b, 0))));
}

static void compute_full_like(TeBuilder *b)
{
    ops_emit(b, te_cast(b, te_out_dtype(b, 0), ops_scalar(b, te_input(b, 1))));
}

/* ---- arange -------------------------------------------------------------------------------------- */

/* How many steps lead from start to stop, not reaching it; -1 when they are endless, 0 also when stop lies the other way. */
static int64_t arange_steps(DType dtype, const Value *start, const Value *stop, const Value *step)
{
    double n = ceil((value_as_double(*stop) - value_as_double(*start)) / value_as_double(*step));
    if (dtype_id(dtype) == DT_UINT64) {
        uint64_t a = (uint64_t)value_as_int(*start), z = (uint64_t)value_as_int(*stop);
        uint64_t s = (uint64_t)value_as_int(*step);
        uint64_t steps = s && z > a ? (z - a) / s + ((z - a) % s != 0) : 0;
        return s == 0 || steps > INT64_MAX ? -1 : (int64_t)steps;
    }
    if (!dtype_is_float(dtype)) {
        int64_t a = value_as_int(*start), z = value_as_int(*stop), s = value_as_int(*step);
        if (s == 0)
            return -1;
        if ((s > 0) != (z > a))
            return 0;
        uint64_t way = s > 0 ? (uint64_t)z - (uint64_t)a : (uint64_t)a - (uint64_t)z;
        uint64_t stride = s > 0 ? (uint64_t)s : 0 - (uint64_t)s;
        uint64_t steps = way / stride + (way % stride != 0);
        return steps > INT64_MAX ? -1 : (int64_t)steps;
    }
    if (value_as_double(*step) == 0 || !(n < 9e18))
        return -1;
    return n >= 1 ? (int64_t)n : 0;
}

/* The value of bound i: an argument that is known, or the attribute that repeats it. */
static const Value *arange_bound(Rel *r, uint32_t i)
{
    static const char *const keys[] = {"start", "stop", "step"};
    const Value *v = rel_value(r, i);
    const AttrValue *a = v ? NULL : attrs_find(r->attrs, keys[i]);
    const Constant *c = a && a->kind == ATTR_EXPR ? expr_as_constant(a->e) : NULL;
    return v ? v : c && c->value.kind == VALUE_SCALAR ? &c->value : NULL;
}

#define SHAPES_rel_arange "(), (), () -> (ceil((stop - start)/step))"
static RelResult rel_arange(Rel *r)
{
    DType dtype = attrs_dtype(r->attrs, "dtype");
    if (dtype_is_void(dtype)) {
        const Type *start = rel_tensor(r, 0);
        if (!start)
            return rel_blocked(r);
        dtype = start->dtype;
    }
    const Value *v[3];
    for (uint32_t i = 0; i < 3; i++) {
        if (!rel_set_tensor(r, i, dtype, 0, NULL))
            return REL_FAILED;
        v[i] = arange_bound(r, i);
    }
    Dim n = DIM_ANY;
    if (v[0] && v[1] && v[2]) {
        n = arange_steps(dtype, v[0], v[1], v[2]);
        /* Of bounds that are written, that is a mistake; of computed ones it is what a loop of no turns is. */
        if (n < (r->running ? 0 : 1)) {
            Diag *d = rel_error(r, E0216_OPERATOR_ARGUMENT, 1, "this `arange` has %s",
                                n ? "no end" : "no elements");
            diag_help(d,
                      "`stop` must lie behind `start` in the direction of `step`, which is not 0");
            return REL_FAILED;
        }
    }
    return rel_out_tensor(r, dtype, 1, &n);
}

static void compute_arange(TeBuilder *b)
{
    DType d = te_out_dtype(b, 0);
    Te *i = te_cast(b, d, te_axis(b, 0));
    ops_emit(b, te_binary(b, TE_ADD, ops_scalar(b, te_input(b, 0)),
                          te_binary(b, TE_MUL, i, ops_scalar(b, te_input(b, 2)))));
}

/* ---- casts --------------------------------------------------------------------------------------- */

#define SHAPES_rel_cast "(d...) -> (d...)"
static RelResult rel_cast(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    DType to = attrs_dtype(r->attrs, "dtype");
    if (dtype_is_void(to)) {
        Diag *d = rel_error(r, E0203_DTYPE, -1, "`dtype` of `cast` must name an element type");
        diag_help(d, "write it as a string: `dtype=\"float32\"`");
        return REL_FAILED;
    }
    return rel_set_output(r, type_tensor(r->cx, to, t->n, t->dims));
}

#define SHAPES_rel_cast_like "(d...), (e...) -> (d...)"
static RelResult rel_cast_like(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *like = t ? rel_tensor(r, 1) : NULL;
    if (!like)
        return rel_blocked(r);
    return rel_set_output(r, type_tensor(r->cx, like->dtype, t->n, t->dims));
}

static void compute_cast(TeBuilder *b)
{
    ops_emit(b, te_cast(b, te_out_dtype(b, 0), ops_at_axes(b, te_input(b, 0))));
}

/* ---- one_hot ------------------------------------------------------------------------------------- */

#define SHAPES_rel_one_hot "(d...), (), () -> (insert(d, axis, depth)...)"
static RelResult rel_one_hot(Rel *r)
{
    const Type *index = rel_tensor(r, 0), *on = index ? rel_tensor(r, 1) : NULL;
    const Type *off = on ? rel_tensor(r, 2) : NULL;
    if (!off)
        return rel_blocked(r);
    int64_t depth = attrs_int(r->attrs, "depth", 0);
    if (!rel_is_int(r, 0, index) || !rel_is_scalar(r, 1, on) || !rel_is_scalar(r, 2, off))
        return REL_FAILED;
    if (depth <= 0) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`depth` of `one_hot` must be positive, not %lld",
                  (long long)depth);
        return REL_FAILED;
    }
    int axis = rel_axis(r, attrs_int(r->attrs, "axis", -1), index->n + 1);
    if (axis < 0)
        return REL_FAILED;
    Dim dims[TENSOR_RANK_MOST + 1];
    for (uint32_t i = 0, j = 0; i <= index->n; i++)
        dims[i] = (int)i == axis ? depth : index->dims[j++];
    return rel_out_tensor(r, ops_dtype(r->attrs, "dtype", on->dtype), index->n + 1, dims);
}

void compute_one_hot(TeBuilder *b)
{
    int r = te_out_rank(b, 0), axis = ops_axis(b->attrs, "axis", r);
    Te *at[TENSOR_RANK_MOST];
    for (int i = 0, j = 0; i < r; i++)
        if (i != axis)
            at[j++] = te_axis(b, i);
    DType wide = {DTYPE_CODE_INT, 64, 1}, d = te_out_dtype(b, 0);
    Te *index = te_cast(b, wide, te_load(b, te_input(b, 0), at));
    Te *hit = te_binary(b, TE_EQ, index, te_axis(b, axis));
    ops_emit(b, te_select(b, hit, te_cast(b, d, ops_scalar(b, te_input(b, 1))),
                          te_cast(b, d, ops_scalar(b, te_input(b, 2)))));
}

/* ---- shapes as data ------------------------------------------------------------------------------ */

#define SHAPES_rel_shape_of "(d...) -> (len(d)); () where len(d) == 0"
static RelResult rel_shape_of(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    Dim n = t->n;
    return rel_out_tensor(r, ops_dtype(r->attrs, "dtype", int32_dtype), t->n ? 1 : 0, &n);
}

#define SHAPES_rel_ndarray_size "(d...) -> ()"
static RelResult rel_ndarray_size(Rel *r)
{
    if (!rel_tensor(r, 0))
        return rel_blocked(r);
    return rel_out_tensor(r, ops_dtype(r->attrs, "dtype", int32_dtype), 0, NULL);
}

static void compute_shape_of(TeBuilder *b)
{
    TeTensor t = te_input(b, 0);
    DType d = te_out_dtype(b, 0);
    Te *v = te_cast(b, d, te_int(b, t.rank ? t.shape[t.rank - 1] : 0));
    for (int i = t.rank - 2; i >= 0; i--)
        v = te_select(b, te_binary(b, TE_LT, te_axis(b, 0), te_int(b, i + 1)),
                      te_cast(b, d, te_int(b, t.shape[i])), v);
    ops_emit(b, v);
}

static void compute_ndarray_size(TeBuilder *b)
{
    TeTensor t = te_input(b, 0);
    int64_t n = 1;
    for (int i = 0; i < t.rank; i++)
        n *= t.shape[i];
    ops_emit(b, te_cast(b, te_out_dtype(b, 0), te_int(b, n)));
}

/* ---- triangles ----------------------------------------------------------------------------------- */

#define SHAPES_rel_trilu "(d...), () -> (d...)"
static RelResult rel_trilu(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *k = t ? rel_tensor(r, 1) : NULL;
    if (!k)
        return rel_blocked(r);
    if (t->n < 2) {
        rel_error(r, E0202_SHAPE, 0, "`trilu` takes a tensor of rank 2 or more, but this is `%s`",
                  type_str(r->cx, t));
        return REL_FAILED;
    }
    if (!rel_is_scalar(r, 1, k) || !rel_is_int(r, 1, k))
        return REL_FAILED;
    return rel_set_output(r, t);
}

static void compute_trilu(TeBuilder *b)
{
    TeTensor t = te_input(b, 0);
    Te *k = ops_index(b, ops_scalar(b, te_input(b, 1)));
    Te *i = te_axis(b, t.rank - 2), *j = te_axis(b, t.rank - 1);
    TeOp keeps = attrs_bool(b->attrs, "upper") ? TE_GE : TE_LE;
    Te *kept = te_binary(b, keeps, te_binary(b, TE_SUB, j, i), k);
    ops_emit(b, te_select(b, kept, ops_at_axes(b, t), ops_number(b, 0)));
}

/* ---- rows ---------------------------------------------------------------------------------------- */

static const OpArg no_args[] = {{0}};
static const OpArg full_args[] = {{"fill_value", "the value of every element: a scalar"}, {0}};
static const OpArg full_like_args[] = {
    {"data", "gives shape and type"}, {"fill_value", "the value of every element: a scalar"}, {0}};
static const OpArg arange_args[] = {{"start", "the first element"},
                                    {"stop", "the end, which is not reached"},
                                    {"step", "from one element to the next"},
                                    {0}};
static const OpArg cast_like_args[] = {
    {"data", "the tensor"}, {"dtype_like", "gives the type of the elements"}, {0}};
static const OpArg one_hot_args[] = {{"indices", "where each row is `on_value`"},
                                     {"on_value", "the value at the index: a scalar"},
                                     {"off_value", "the value elsewhere: a scalar"},
                                     {0}};
static const OpArg trilu_args[] = {{"data", "matrices in the last two axes"},
                                   {"k", "the diagonal: 0 the main one, positive above it"},
                                   {0}};

#define SHAPE_DOC "the extents of the result"
#define DTYPE_DOC "the type of the elements"
static const OpAttr filled_attrs[] = {
    ATTR_MUST_NONE("shape", INTS, SHAPE_DOC), ATTR_D("dtype", "", DTYPE_DOC), {0}};
static const OpAttr dtype_attrs[] = {ATTR_D("dtype", "", DTYPE_DOC), {0}};
static const OpAttr cast_attrs[] = {ATTR_MUST("dtype", DTYPE, DTYPE_DOC " of the result"), {0}};
static const OpAttr arange_attrs[] = {
    ATTR_NONE("start", EXPR, "the same as the argument"),
    ATTR_NONE("stop", EXPR, "the same as the argument"),
    ATTR_NONE("step", EXPR, "the same as the argument"),
    ATTR_D("dtype", "", DTYPE_DOC),
    {0},
};
static const OpAttr one_hot_attrs[] = {
    ATTR_I("depth", 1, "how many different indices there are"),
    ATTR_I("axis", -1, "where the new axis stands in the result"),
    ATTR_D("dtype", "", DTYPE_DOC),
    {0},
};
static const OpAttr trilu_attrs[] = {
    ATTR_B("upper", 1, "keep what lies on and above the diagonal, else on and below"), {0}};

const Op create_ops[] = {
    {.name = "zeros",
     .doc = "A tensor of zeros.",
     .args = no_args,
     .attrs = filled_attrs,
     .samples = "(shape=[2, 3], dtype=\"float32\") (shape=[], dtype=\"int32\")",
     .pattern = OP_ELEMWISE,
     OP_REL(rel_filled),
     .compute = compute_zeros,
     .grad = "()"},
    {.name = "ones",
     .doc = "A tensor of ones.",
     .args = no_args,
     .attrs = filled_attrs,
     .samples = "(shape=[2, 3], dtype=\"float32\")",
     .pattern = OP_ELEMWISE,
     OP_REL(rel_filled),
     .compute = compute_ones,
     .grad = "()"},
    {.name = "full",
     .doc = "A tensor of one value.",
     .args = full_args,
     .attrs = filled_attrs,
     .samples = "(float32, shape=[2, 3])",
     .pattern = OP_ELEMWISE,
     OP_REL(rel_full),
     .compute = compute_full,
     .grad = "collapse_sum_like(%g, %fill_value)"},
    {.name = "zeros_like",
     .doc = "Zeros of the same shape and type.",
     .args = args_data,
     .samples = "(float32[2,3]) (int32)",
     .pattern = OP_ELEMWISE,
     OP_REL(rel_same),
     .compute = compute_zeros,
     .grad = "zeros_like(%data)"},
    {.name = "ones_like",
     .doc = "Ones of the same shape and type.",
     .args = args_data,
     .samples = "(float32[2,3]) (int32)",
     .pattern = OP_ELEMWISE,
     OP_REL(rel_same),
     .compute = compute_ones,
     .grad = "zeros_like(%data)"},
    {.name = "full_like",
     .doc = "One value in the same shape and type.",
     .args = full_like_args,
     .samples = "(float32[2,3], float32)",
     .pattern = OP_ELEMWISE,
     OP_REL(rel_full_like),
     .compute = compute_full_like,
     .grad = "(zeros_like(%data), collapse_sum_like(%g, %fill_value))"},
    {.name = "arange",
     .doc = "Numbers from `start` in steps of `step` as long as they lie before `stop`.",
     .args = arange_args,
     .attrs = arange_attrs,
     .example = "arange(0, 6, 2, dtype=\"int32\")",
     .samples = "(int32, int32, int32, dtype=\"int32\")",
     .pattern = OP_OPAQUE,
     .flags = OP_SHAPE_FROM_DATA,
     OP_REL(rel_arange),
     .compute = compute_arange,
     .grad = "(cast_like(sum(%g), %start), zeros_like(%stop), cast_like(sum(divide(multiply(%g, "
             "subtract(%out, cast_like(%start, %out))), cast_like(%step, %out))), %step))"},
    {.name = "cast",
     .doc = "The elements converted to another type.",
     .args = args_data,
     .attrs = cast_attrs,
     .samples = "(float32[2,3], dtype=\"int32\") (int32[4], dtype=\"bool\")",
     .pattern = OP_ELEMWISE,
     OP_REL(rel_cast),
     .compute = compute_cast,
     .grad = "cast_like(%g, %data)"},
    {.name = "cast_like",
     .doc = "The elements converted to the type of another tensor.",
     .args = cast_like_args,
     .samples = "(float32[2,3], int32[4])",
     .pattern = OP_ELEMWISE,
     OP_REL(rel_cast_like),
     .compute = compute_cast,
     .grad = "(cast_like(%g, %data), zeros_like(%dtype_like))"},
    {.name = "one_hot",
     .doc =
         "For each index a row of `depth` elements, `on_value` at the index and else `off_value`.",
     .args = one_hot_args,
     .attrs = one_hot_attrs,
     .samples = "(int32[3], float32, float32, depth=4, axis=-1, dtype=\"float32\")",
     .example = "let %indices = arange(0, 3, 1, dtype=\"int32\");\n"
                "one_hot(%indices, 1f, 0f, depth=4, axis=-1, dtype=\"float32\")",
     .pattern = OP_OUT_FUSABLE,
     OP_REL(rel_one_hot),
     .compute = compute_one_hot,
     .grad =
         "(zeros_like(%indices), cast_like(sum(multiply(%g, one_hot(%indices, "
         "ones_like(%on_value), zeros_like(%off_value), depth=%depth, axis=%axis, dtype=%dtype))), "
         "%on_value), cast_like(sum(multiply(%g, one_hot(%indices, zeros_like(%on_value), "
         "ones_like(%off_value), depth=%depth, axis=%axis, dtype=%dtype))), %off_value))"},
    {.name = "shape_of",
     .doc = "The extents of a tensor.",
     .args = args_data,
     .attrs = dtype_attrs,
     .samples = "(float32[2,3], dtype=\"int32\")",
     .pattern = OP_OPAQUE,
     .flags = OP_FROM_TYPE,
     OP_REL(rel_shape_of),
     .compute = compute_shape_of,
     .grad = "zeros_like(%data)"},
    {.name = "vm.shape_of",
     .doc = "The extents of a tensor: `shape_of` in programs with explicit memory.",
     .args = args_data,
     .attrs = dtype_attrs,
     .shapes = "(d...) -> (r)",
     .samples = "(float32[2,3], dtype=\"int64\")",
     .pattern = OP_OPAQUE,
     .flags = OP_NON_COMPUTATIONAL | OP_FROM_TYPE,
     .rel = rel_shape_of,
     .compute = compute_shape_of},
    {.name = "ndarray_size",
     .doc = "The number of elements of a tensor.",
     .args = args_data,
     .attrs = dtype_attrs,
     .samples = "(float32[2,3], dtype=\"int32\")",
     .pattern = OP_INJECTIVE,
     .flags = OP_FROM_TYPE,
     OP_REL(rel_ndarray_size),
     .compute = compute_ndarray_size,
     .grad = "zeros_like(%data)"},
    {.name = "trilu",
     .doc = "The upper or lower triangle of each matrix, zeros in the other.",
     .args = trilu_args,
     .attrs = trilu_attrs,
     .samples = "(float32[3,3], int32, upper=True)",
     .pattern = OP_ELEMWISE,
     OP_REL(rel_trilu),
     .compute = compute_trilu,
     .grad = "(trilu(%g, %k, upper=%upper), zeros_like(%k))"},
    {0},
};
