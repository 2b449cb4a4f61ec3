/* Operators whose shape is an argument. Their types are unknown until they run. */
#include "stdlib/ops/ops.h"

#include <string.h>

int rel_ints_of(Rel *r, uint32_t i, int64_t *out, int most)
{
    const Value *v = r->values ? r->values[i] : NULL;
    TensorView view;
    if (!v || !value_view(v, &view))
        return -1;
    for (int64_t k = 0; k < view.t.size && k < most; k++)
        out[k] = tensor_get_int(&view.t, k);
    return view.t.size < most ? (int)view.t.size : most;
}

bool rel_double_of(Rel *r, uint32_t i, double *out)
{
    const Value *v = r->values ? r->values[i] : NULL;
    TensorView view;
    if (!v || !value_view(v, &view) || view.t.size != 1)
        return false;
    *out = tensor_get_double(&view.t, 0);
    return true;
}

RelResult rel_unknown(Rel *r, DType dtype, Dim n)
{
    Dim dims[TENSOR_RANK_MOST];
    if (n < 0 || n > TENSOR_RANK_MOST) {
        rel_error(r, E0202_SHAPE, -1, "the rank of the result of `%s` is not known", r->op->name);
        return REL_FAILED;
    }
    for (Dim i = 0; i < n; i++)
        dims[i] = DIM_ANY;
    return rel_out_tensor(r, dtype, (uint32_t)n, dims);
}

/* Argument i as a vector of integers, the last argument there is to know; NULL after a diagnostic or
 * while it is not known. */
static const Type *shape_arg(Rel *r, uint32_t i)
{
    const Type *t = rel_tensor(r, i);
    if (!t)
        return NULL;
    r->failed = !rel_rank(r, i, t, 1) || !rel_is_int(r, i, t);
    return r->failed ? NULL : t;
}

/* Argument i, of type t, as one integer: a scalar or a vector of one. Reports else. */
static bool is_number(Rel *r, uint32_t i, const Type *t)
{
    bool one = t->n == 1 && dim_agrees(t->dims[0], 1);
    return rel_is_int(r, i, t) && (one || rel_is_scalar(r, i, t));
}

bool ops_extents_good(Rel *r, uint32_t i, int n, const int64_t *dims)
{
    for (int k = 0; k < n; k++) {
        if (dims[k] >= 0)
            continue;
        rel_error(r, E0303_RUNTIME_SHAPE, (int)i, "`%s` was given the extent %lld", r->op->name,
                  (long long)dims[k]);
        return false;
    }
    return true;
}

#define SHAPES_rel_dyn_reshape "(d...), (r) -> as newshape says"
static RelResult rel_dyn_reshape(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *shape = t ? shape_arg(r, 1) : NULL;
    int64_t codes[TENSOR_RANK_MOST];
    if (!shape)
        return rel_blocked(r);
    int n = rel_ints_of(r, 1, codes, TENSOR_RANK_MOST);
    return n < 0 ? rel_unknown(r, t->dtype, shape->dims[0]) : rel_reshape_to(r, t, codes, n);
}

static RelResult filled(Rel *r, uint32_t arg, DType dtype)
{
    const Type *shape = shape_arg(r, arg);
    Dim dims[TENSOR_RANK_MOST];
    if (!shape)
        return rel_blocked(r);
    int n = rel_ints_of(r, arg, dims, TENSOR_RANK_MOST);
    if (n < 0)
        return rel_unknown(r, dtype, shape->dims[0]);
    return ops_extents_good(r, arg, n, dims) ? rel_out_tensor(r, dtype, (uint32_t)n, dims)
                                             : REL_FAILED;
}

#define SHAPES_rel_dyn_filled "(r) -> (shape...)"
static RelResult rel_dyn_filled(Rel *r)
{
    return filled(r, 0, ops_dtype(r->attrs, "dtype", (DType){DTYPE_CODE_FLOAT, 32, 1}));
}

#define SHAPES_rel_dyn_full "(), (r) -> (shape...)"
static RelResult rel_dyn_full(Rel *r)
{
    const Type *v = rel_tensor(r, 0);
    if (!v)
        return rel_blocked(r);
    if (!rel_is_scalar(r, 0, v))
        return REL_FAILED;
    return filled(r, 1, ops_dtype(r->attrs, "dtype", v->dtype));
}

#define SHAPES_rel_dyn_broadcast_to "(d...), (r) -> (shape...)"
static RelResult rel_dyn_broadcast_to(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *shape = t ? shape_arg(r, 1) : NULL;
    Dim dims[TENSOR_RANK_MOST];
    if (!shape)
        return rel_blocked(r);
    int n = rel_ints_of(r, 1, dims, TENSOR_RANK_MOST);
    bool fits = shape->dims[0] < 0 || (Dim)t->n <= shape->dims[0];
    for (int k = 1; fits && n >= 0 && k <= (int)t->n; k++)
        fits = t->dims[t->n - (uint32_t)k] == 1 ||
               dim_agrees(t->dims[t->n - (uint32_t)k], dims[n - k]);
    if (fits)
        return filled(r, 1, t->dtype);
    Diag *d =
        rel_error(r, E0202_SHAPE, 0, "`%s` cannot be broadcast to the shape that is asked for",
                  type_str(r->cx, t));
    diag_help(d, "only axes with one element are repeated, and new axes come first");
    return REL_FAILED;
}

#define SHAPES_rel_dyn_tile "(d...), (r) -> (front(d)*front(reps)...)"
static RelResult rel_dyn_tile(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *reps = t ? shape_arg(r, 1) : NULL;
    int64_t times[TENSOR_RANK_MOST];
    Dim dims[TENSOR_RANK_MOST];
    if (!reps)
        return rel_blocked(r);
    Dim given = reps->dims[0], rank = given > (Dim)t->n ? given : (Dim)t->n;
    int n = rel_ints_of(r, 1, times, TENSOR_RANK_MOST);
    if (n < 0)
        return rel_unknown(r, t->dtype, given < 0 ? DIM_ANY : rank);
    if (!ops_extents_good(r, 1, n, times))
        return REL_FAILED;
    for (int k = 1; k <= (int)rank; k++)
        dims[rank - k] = dims_product(2, (Dim[]){k <= (int)t->n ? t->dims[t->n - (uint32_t)k] : 1,
                                                 k <= n ? times[n - k] : 1});
    return rel_out_tensor(r, t->dtype, (uint32_t)rank, dims);
}

#define SHAPES_rel_dyn_one_hot "(d...), (), (), () -> (insert(d, axis, depth)...)"
static RelResult rel_dyn_one_hot(Rel *r)
{
    const Type *index = rel_tensor(r, 0), *on = index ? rel_tensor(r, 1) : NULL;
    const Type *off = on ? rel_tensor(r, 2) : NULL, *depth = off ? rel_tensor(r, 3) : NULL;
    Dim dims[TENSOR_RANK_MOST + 1], d = DIM_ANY;
    if (!depth)
        return rel_blocked(r);
    int axis = rel_axis(r, attrs_int(r->attrs, "axis", -1), index->n + 1);
    if (axis < 0 || !rel_is_int(r, 0, index) || !rel_is_scalar(r, 1, on) ||
        !rel_is_scalar(r, 2, off) || !rel_is_int(r, 3, depth) || !rel_is_scalar(r, 3, depth))
        return REL_FAILED;
    if (rel_ints_of(r, 3, &d, 1) == 1 && !ops_extents_good(r, 3, 1, &d))
        return REL_FAILED;
    for (uint32_t i = 0, j = 0; i <= index->n; i++)
        dims[i] = (int)i == axis ? d : index->dims[j++];
    return rel_out_tensor(r, ops_dtype(r->attrs, "dtype", on->dtype), index->n + 1, dims);
}

#define SHAPES_rel_dyn_topk                                                                \
    "(d...), () -> ((d[axis := k]...), (d[axis := k]...)); one of them where ret_type != " \
    "\"both\"; whole axes where k is None or k < 1"
static RelResult rel_dyn_topk(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *count = t ? rel_tensor(r, 1) : NULL;
    Dim dims[TENSOR_RANK_MOST], k = DIM_ANY;
    if (!count)
        return rel_blocked(r);
    int axis = rel_axis(r, attrs_int(r->attrs, "axis", -1), t->n);
    if (axis < 0 || !is_number(r, 1, count))
        return REL_FAILED;
    for (uint32_t i = 0; i < t->n; i++)
        dims[i] = t->dims[i];
    dims[axis] = DIM_ANY;
    if (rel_ints_of(r, 1, &k, 1) == 1)
        dims[axis] = k < 1 || k > t->dims[axis] ? t->dims[axis] : k;
    const Type *values = type_tensor(r->cx, t->dtype, t->n, dims);
    DType at = ops_dtype(r->attrs, "dtype", (DType){DTYPE_CODE_INT, 32, 1});
    const Type *indices = type_tensor(r->cx, at, t->n, dims);
    Str ret = attrs_string(r->attrs, "ret_type");
    if (str_is(ret, "values") || str_is(ret, "indices"))
        return rel_set_output(r, str_is(ret, "values") ? values : indices);
    return rel_set_output(r, type_tuple(r->cx, 2, (const Type *[]){values, indices}));
}

#define SHAPES_rel_dyn_expand_dims "(d...), () -> (insert(d, axis, 1, num_newaxis)...)"
static RelResult rel_dyn_expand_dims(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *at = t ? rel_tensor(r, 1) : NULL;
    int64_t axis, more = attrs_int(r->attrs, "num_newaxis", 1);
    Dim dims[TENSOR_RANK_MOST];
    if (!at)
        return rel_blocked(r);
    if (!is_number(r, 1, at))
        return REL_FAILED;
    if (rel_ints_of(r, 1, &axis, 1) < 1)
        return rel_unknown(r, t->dtype, more < 0 || more > TENSOR_RANK_MOST ? -1 : t->n + more);
    int first = rel_axis(r, axis, t->n + 1);
    if (first < 0 || (int64_t)t->n + more > TENSOR_RANK_MOST)
        return REL_FAILED;
    for (int i = 0; i < (int)(t->n + more); i++)
        dims[i] = i < first ? t->dims[i] : i < first + more ? 1 : t->dims[i - more];
    return rel_out_tensor(r, t->dtype, (uint32_t)(t->n + more), dims);
}

#define SHAPES_rel_dyn_squeeze "(d...), (r) -> (without(d, axis)...)"
static RelResult rel_dyn_squeeze(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *axes = t ? rel_tensor(r, 1) : NULL;
    int64_t at[TENSOR_RANK_MOST];
    bool drop[TENSOR_RANK_MOST] = {false};
    Dim dims[TENSOR_RANK_MOST];
    uint32_t rank = 0;
    if (!axes)
        return rel_blocked(r);
    if (!rel_is_int(r, 1, axes) || (axes->n > 0 && !rel_rank(r, 1, axes, 1)))
        return REL_FAILED;
    int n = rel_ints_of(r, 1, at, TENSOR_RANK_MOST);
    Dim dropped = axes->n == 0 ? 1 : axes->dims[0]; /* negative: nobody knows */
    if (n < 0)
        return rel_unknown(r, t->dtype, dropped < 0 || dropped > t->n ? -1 : t->n - dropped);
    for (int i = 0; i < n; i++) {
        int axis = rel_axis(r, at[i], t->n);
        if (axis < 0)
            return REL_FAILED;
        if (drop[axis]) {
            rel_error(r, E0303_RUNTIME_SHAPE, 1, "axis %d cannot be dropped twice", axis);
            return REL_FAILED;
        }
        if (t->dims[axis] != 1 && t->dims[axis] >= 0) {
            rel_error(r, E0303_RUNTIME_SHAPE, 0, "axis %d has %lld elements and cannot be dropped",
                      axis, (long long)t->dims[axis]);
            return REL_FAILED;
        }
        drop[axis] = true;
    }
    for (uint32_t i = 0; i < t->n; i++)
        if (!drop[i])
            dims[rank++] = t->dims[i];
    return rel_out_tensor(r, t->dtype, rank, dims);
}

/* ---- dyn.strided_slice --------------------------------------------------------------------------- */

/* Axes that no begin is for are taken whole. */
static int slices_of(int rank, const int64_t *shape, bool sizes,
                     const int64_t (*v)[TENSOR_RANK_MOST], const int *n, Slice *out)
{
    for (int i = 0; i < rank; i++) {
        bool cut = i < n[0];
        int64_t step = cut && i < n[2] && !sizes ? v[2][i] : 1;
        if (step == 0)
            return i;
        slice_axis(shape[i], sizes, cut ? &v[0][i] : NULL, cut && i < n[1] ? &v[1][i] : NULL, step,
                   &out[i]);
    }
    return -1;
}

#define SHAPES_rel_dyn_strided_slice \
    "(d...), (r), (r), (r) -> (ceil((end - begin)/strides)...), whole axes behind them"
static RelResult rel_dyn_strided_slice(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *begin = t ? shape_arg(r, 1) : NULL;
    const Type *end = begin ? shape_arg(r, 2) : NULL, *strides = end ? shape_arg(r, 3) : NULL;
    int64_t v[3][TENSOR_RANK_MOST];
    int n[3];
    Slice parts[TENSOR_RANK_MOST];
    Dim dims[TENSOR_RANK_MOST];
    if (!strides)
        return rel_blocked(r);
    if (begin->dims[0] > (Dim)t->n) {
        Diag *d = rel_error(r, E0202_SHAPE, 1, "`%s` has no axis for each position in `begin`",
                            type_str(r->cx, t));
        diag_help(d, "leave out those behind the last axis");
        return REL_FAILED;
    }
    bool known = dims_static(t->n, t->dims);
    for (uint32_t i = 0; i < 3; i++) {
        n[i] = rel_ints_of(r, i + 1, v[i], TENSOR_RANK_MOST);
        known = known && n[i] >= 0;
    }
    for (uint32_t i = 0; i < t->n; i++)
        dims[i] = (Dim)i < begin->dims[0] || begin->dims[0] < 0 ? DIM_ANY : t->dims[i];
    if (!known)
        return rel_out_tensor(r, t->dtype, t->n, dims);
    int bad = slices_of((int)t->n, t->dims, str_is(attrs_string(r->attrs, "slice_mode"), "size"), v,
                        n, parts);
    if (bad >= 0) {
        rel_error(r, E0303_RUNTIME_SHAPE, 0, "a stride of 0 along axis %d", bad);
        return REL_FAILED;
    }
    for (uint32_t i = 0; i < t->n; i++)
        dims[i] = parts[i].extent;
    return rel_out_tensor(r, t->dtype, t->n, dims);
}

/* Elements that are copied at once, at most. */
#define COPY_MOST ((int64_t)1 << 18)

/* What lies side by side in both tensors is copied at once: a run of one axis, with those behind it that are taken whole. */
static void copy_slice(Limits *limits, const Tensor *x, const Tensor *out, const Slice *parts)
{
    int64_t index[TENSOR_RANK_MOST] = {0}, run = 1, since = 0;
    size_t size = dtype_size(x->dtype);
    int outer = x->rank;
    for (bool whole = true; whole && outer > 0 && parts[outer - 1].step == 1;) {
        outer--;
        run *= out->shape[outer];
        whole = out->shape[outer] == x->shape[outer];
    }
    for (int64_t i = 0, at, part; i < out->size; i += part) {
        int64_t done = i % run;
        part = run - done < COPY_MOST ? run - done : COPY_MOST;
        at = 0;
        for (int k = 0; k < x->rank; k++)
            at = at * x->shape[k] + parts[k].begin + index[k] * parts[k].step;
        memcpy(out->data + (size_t)i * size, x->data + (size_t)(at + done) * size,
               (size_t)part * size);
        since += part;
        if (since >= LIMIT_EVERY && limit_hit(limits))
            return;
        since = since >= LIMIT_EVERY ? 0 : since;
        for (int k = outer - 1; k >= 0 && done + part == run && ++index[k] == out->shape[k]; k--)
            index[k] = 0;
    }
}

/* So much smaller than what it lies in, a slice is copied: it would keep the rest. */
#define VIEW_LEAST 4

/* A slice that lies side by side, as the first rows do, is part of its tensor. */
static Tensor *slice_in_place(const Tensor *x, const Type *to, const Slice *parts)
{
    int64_t strides[TENSOR_RANK_MOST], from = 0, size = 1;
    for (int i = x->rank - 1; i >= 0; i--) {
        if (to->dims[i] > 1 && (parts[i].step != 1 || x->strides[i] != size))
            return NULL;
        from += parts[i].begin * x->strides[i];
        strides[i] = size;
        size *= to->dims[i];
    }
    if (size == 0 || x->size / size > VIEW_LEAST)
        return NULL;
    return tensor_view(x, x->rank, to->dims, strides, from);
}

static bool kernel_dyn_strided_slice(OpCall *c)
{
    int64_t v[3][TENSOR_RANK_MOST];
    int n[3];
    Slice parts[TENSOR_RANK_MOST];
    Tensor *x = kernel_arg(c, 0), *out = NULL;
    for (uint32_t i = 0; x && i < 3; i++) {
        Tensor *t = kernel_arg(c, i + 1);
        n[i] = t ? (int)t->size : 0;
        for (int k = 0; k < n[i] && k < TENSOR_RANK_MOST; k++)
            v[i][k] = kernel_int(t, k);
        tensor_release(t);
    }
    if (x) {
        slices_of(x->rank, x->shape, str_is(attrs_string(c->attrs, "slice_mode"), "size"), v, n,
                  parts);
        out = slice_in_place(x, c->type, parts);
    }
    if (x && !out) {
        out = tensor_new_raw(&c->cx->limits, x->dtype, x->rank, c->type->dims);
        if (out)
            copy_slice(&c->cx->limits, x, out, parts);
    }
    tensor_release(x);
    return kernel_set(c, out);
}

/* ---- rows ---------------------------------------------------------------------------------------- */

#define DATA_AND(NAME, DOC) {{"data", "the tensor"}, {NAME, DOC}, {0}}
static const OpArg reshape_args[] = DATA_AND("newshape", "the extents and codes: integers");
static const OpArg tile_args[] = DATA_AND("reps", "how often along each axis: integers");
static const OpArg broadcast_args[] = DATA_AND("shape", "the extents: integers");
static const OpArg topk_args[] = DATA_AND("k", "how many elements");
static const OpArg expand_args[] = DATA_AND("axis", "where the new axes stand");
static const OpArg squeeze_args[] = DATA_AND("axis", "the axes to drop: integers");
static const OpArg filled_args[] = {{"shape", "the extents: integers"}, {0}};
static const OpArg full_args[] = {
    {"fill_value", "a scalar"}, {"shape", "the extents: integers"}, {0}};
static const OpArg one_hot_args[] = {{"indices", "where each row is `on_value`"},
                                     {"on_value", "the value at the index: a scalar"},
                                     {"off_value", "the value elsewhere: a scalar"},
                                     {"depth", "how many different indices there are"},
                                     {0}};
static const OpArg slice_args[] = {{"data", "the tensor"},
                                   {"begin", "the first positions: integers"},
                                   {"end", "the positions behind the last"},
                                   {"strides", "from one position to the next"},
                                   {0}};

#define UNUSED(NAME) ATTR_MUST_NONE(NAME, INTS, "unused: the argument gives it")
#define DTYPE ATTR_D("dtype", "", "the type of the elements")
static const OpAttr reshape_attrs[] = {
    UNUSED("newshape"), ATTR_B("allowzero", 0, "0 is an extent of 0, not a copy"), {0}};
static const OpAttr tile_attrs[] = {UNUSED("reps"), {0}};
static const OpAttr filled_attrs[] = {UNUSED("shape"), DTYPE, {0}};
static const OpAttr one_hot_attrs[] = {
    ATTR_I("depth", 1, "unused: the argument gives it"),
    ATTR_I("axis", -1, "where the new axis stands in the result"),
    DTYPE,
    {0}};
static const OpAttr topk_attrs[] = {
    ATTR_MUST_NONE("k", INT, "unused: the argument gives it"),
    ATTR_I("axis", -1, "the axis along which to sort"),
    ATTR_ONE("ret_type", "both", "\"both\", \"values\" or \"indices\"", "both", "values",
             "indices"),
    ATTR_B("is_ascend", 0, "the least element first"),
    ATTR_D("dtype", "", "the type of the positions"),
    {0},
};
static const OpAttr expand_attrs[] = {ATTR_I("num_newaxis", 1, "how many axes"), {0}};
static const OpAttr squeeze_attrs[] = {ATTR_NONE("axis", INTS, "unused: the argument gives it"),
                                       {0}};
static const OpAttr slice_attrs[] = {
    UNUSED("begin"),
    UNUSED("end"),
    UNUSED("strides"),
    ATTR_ONE("slice_mode", "end", "\"size\": `end` holds sizes, negative ones reach to the end",
             "end", "size"),
    UNUSED("axes"),
    {0}};

#define ROW(NAME, ARGS, ATTRS, PATTERN, REL, COMPUTE, SAMPLES, ...)                       \
    OP_ROW(NAME, ARGS, ATTRS, PATTERN, REL, SAMPLES, __VA_ARGS__, .shapes = SHAPES_##REL, \
           .flags = OP_SHAPE_FROM_DATA, COMPUTE)

#define FILLED(NAME, ID, DOC)                                                                 \
    OP_ROW(NAME, filled_args, filled_attrs, OP_ELEMWISE, rel_dyn_filled,                      \
           "(int64[2], shape=None, dtype=\"float32\")", DOC, .shapes = SHAPES_rel_dyn_filled, \
           .flags = OP_SHAPE_FROM_DATA, .compute = compute_##ID, .grad = "zeros_like(%shape)")

const Op dyn_ops[] = {
    {.name = "dyn.reshape",
     .doc = "`reshape` to a shape that is an argument.",
     .args = reshape_args,
     .attrs = reshape_attrs,
     .samples = "(float32[1], int64[2], newshape=None)",
     .pattern = OP_INJECTIVE,
     .flags = OP_SHAPE_FROM_DATA | OP_RESHAPE,
     OP_REL(rel_dyn_reshape),
     .compute = compute_reshape,
     .grad = "(reshape_like(%g, %data), zeros_like(%newshape))"},
    {.name = "dyn.squeeze",
     .doc = "`squeeze` of axes that are an argument.",
     .args = squeeze_args,
     .attrs = squeeze_attrs,
     .samples = "(float32[3,1], int64[1])",
     .pattern = OP_INJECTIVE,
     .flags = OP_SHAPE_FROM_DATA | OP_RESHAPE,
     OP_REL(rel_dyn_squeeze),
     .compute = compute_reshape,
     .grad = "(reshape_like(%g, %data), zeros_like(%axis))"},
    ROW("dyn.expand_dims", expand_args, expand_attrs, OP_INJECTIVE, rel_dyn_expand_dims,
        .compute = compute_reshape, "(float32[2,3], int64)",
        "`expand_dims` at an axis that is an argument.",
        .grad = "(reshape_like(%g, %data), zeros_like(%axis))"),
    ROW("dyn.tile", tile_args, tile_attrs, OP_INJECTIVE, rel_dyn_tile, .compute = compute_tile,
        "(float32[2], int64[1], reps=None)", "`tile` as often as an argument says."),
    ROW("dyn.broadcast_to", broadcast_args, filled_attrs, OP_BROADCAST, rel_dyn_broadcast_to,
        .compute = compute_broadcast, "(float32[1], int64[2], shape=None)",
        "`broadcast_to` a shape that is an argument.",
        .grad = "(collapse_sum_like(%g, %data), zeros_like(%shape))"),
    FILLED("dyn.zeros", zeros, "Zeros in a shape that is an argument."),
    FILLED("dyn.ones", ones, "Ones in a shape that is an argument."),
    {.name = "dyn.full",
     .doc = "One value in a shape that is an argument.",
     .args = full_args,
     .attrs = filled_attrs,
     .samples = "(float32, int64[2], shape=None)",
     .pattern = OP_ELEMWISE,
     .flags = OP_SHAPE_FROM_DATA,
     OP_REL(rel_dyn_full),
     .compute = compute_full},
    ROW("dyn.one_hot", one_hot_args, one_hot_attrs, OP_OUT_FUSABLE, rel_dyn_one_hot,
        .compute = compute_one_hot, "(int32[3], float32, float32, int32)",
        "`one_hot` with a depth that is an argument."),
    ROW("dyn.topk", topk_args, topk_attrs, OP_OPAQUE, rel_dyn_topk, .kernel = kernel_topk,
        "(float32[4], int64, k=None)", "`topk` with a number that is an argument.",
        .grad = "(" TOPK_GRAD("dyn.topk(%data, %k", ", k=None") ", zeros_like(%k))"),
    ROW("dyn.strided_slice", slice_args, slice_attrs, OP_INJECTIVE, rel_dyn_strided_slice,
        .kernel = kernel_dyn_strided_slice,
        "(float32[6], int64[1], int64[1], int64[1], begin=None, end=None, strides=None, axes=None)",
        "`strided_slice` between positions that are arguments.",
        .grad = "(" GRAD_BACK("dyn.strided_slice(" GRAD_PLACES
                              ", %begin, %end, %strides, slice_mode=%slice_mode, begin=None, "
                              "end=None, strides=None, axes=None)",
                              "%g") ", zeros_like(%begin), zeros_like(%end), "
                                    "zeros_like(%strides))"),
    {0},
};
