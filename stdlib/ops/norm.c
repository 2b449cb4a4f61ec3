/* Normalisation, and what adds or scales along one axis. */
#include "stdlib/ops/ops.h"

#include <string.h>

/* ---- nn.bias_add, nn.prelu ----------------------------------------------------------------------- */

#define SHAPES_rel_along_axis "(d...), (d[axis]) -> (d...)"
/* The second argument has one element for each along `axis` of the first. */
static RelResult rel_along_axis(Rel *r)
{
    const Type *x = rel_tensor(r, 0);
    if (!x)
        return rel_blocked(r);
    int axis = rel_axis(r, attrs_int(r->attrs, "axis", 1), x->n);
    if (axis < 0)
        return REL_FAILED;
    Dim extent = x->dims[axis];
    const Type *v = type_find(r->in[1])->kind == TYPE_HOLE ? NULL : rel_tensor(r, 1);
    if (r->failed)
        return REL_FAILED;
    if (v && (v->n != 1 || !dim_agrees(v->dims[0], extent))) {
        Diag *d = rel_error(
            r, E0202_SHAPE, 1,
            "`%s` of `%s` must have shape (%lld), one element for each along axis %d, "
            "but this is `%s`",
            r->op->args[1].name, r->op->name, (long long)extent, axis, type_str(r->cx, v));
        diag_help(d, "`axis` says which axis of `%s` is meant", type_str(r->cx, x));
        return REL_FAILED;
    }
    if (v && !rel_dtypes_agree(r, 0, x, 1, v))
        return REL_FAILED;
    if (!rel_set_tensor(r, 1, x->dtype, 1, &extent))
        return REL_FAILED;
    return rel_set_output(r, x);
}

/* Element of a vector at the output's `axis`. */
static Te *along(TeBuilder *b, TeTensor v, int axis)
{
    Te *index[1] = {v.shape[0] == 1 ? te_int(b, 0) : te_axis(b, axis)};
    return te_load(b, v, index);
}

static void compute_bias_add(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    Te *bias = along(b, te_input(b, 1), ops_axis(b->attrs, "axis", x.rank));
    ops_emit(b, te_binary(b, TE_ADD, ops_at_axes(b, x), bias));
}

static void compute_prelu(TeBuilder *b)
{
    Te *x = ops_at_axes(b, te_input(b, 0));
    Te *alpha = along(b, te_input(b, 1), ops_axis(b->attrs, "axis", te_out_rank(b, 0)));
    Te *positive = te_binary(b, TE_GT, x, ops_number(b, 0));
    ops_emit(b, te_select(b, positive, x, te_binary(b, TE_MUL, x, alpha)));
}

/* ---- scale and shift ----------------------------------------------------------------------------- */

/* Arguments 1 … are vectors along the axis; REL_DONE when they are. */
static RelResult channel_vectors(Rel *r, const Type *x, int *axis)
{
    *axis = rel_axis(r, attrs_int(r->attrs, "axis", 1), x->n);
    if (*axis < 0)
        return REL_FAILED;
    for (uint32_t i = 1; i < r->n; i++)
        if (!rel_set_tensor(r, i, x->dtype, 1, &x->dims[*axis]))
            return REL_FAILED;
    return REL_DONE;
}

#define SHAPES_rel_batch_norm "(d...), (c), (c), (c), (c) -> ((d...), (c), (c))"
static RelResult rel_batch_norm(Rel *r)
{
    const Type *x = rel_tensor(r, 0);
    int axis;
    if (!x)
        return rel_blocked(r);
    if (!rel_is_float(r, x) || channel_vectors(r, x, &axis) != REL_DONE)
        return REL_FAILED;
    const Type *v = type_tensor(r->cx, x->dtype, 1, &x->dims[axis]);
    return rel_set_output(r, type_tuple(r->cx, 3, (const Type *[]){x, v, v}));
}

#define SHAPES_rel_channel_norm "(d...), (c), (c) -> (d...)"
static RelResult rel_channel_norm(Rel *r)
{
    const Type *x = rel_tensor(r, 0);
    int axis;
    if (!x)
        return rel_blocked(r);
    if (!rel_is_float(r, x) || channel_vectors(r, x, &axis) != REL_DONE)
        return REL_FAILED;
    return rel_set_output(r, x);
}

#define SHAPES_rel_instance_norm "(d...), (c), (c) -> (d...)"
static RelResult rel_instance_norm(Rel *r)
{
    const Type *x = rel_tensor(r, 0);
    if (x && x->n <= 2) {
        rel_error(r, E0202_SHAPE, 0,
                  "`nn.instance_norm` takes a tensor of rank 3 or more, but this is `%s`",
                  type_str(r->cx, x));
        return REL_FAILED;
    }
    return rel_channel_norm(r);
}

#define SHAPES_rel_group_norm "(d...), (c), (c) -> (d...)"
static RelResult rel_group_norm(Rel *r)
{
    const Type *x = rel_tensor(r, 0);
    if (!x)
        return rel_blocked(r);
    int axis = rel_axis(r, attrs_int(r->attrs, "axis", 1), x->n);
    int64_t groups = attrs_int(r->attrs, "num_groups", 0);
    if (axis < 0)
        return REL_FAILED;
    if (groups < 1 || (x->dims[axis] >= 0 && x->dims[axis] % groups)) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, 0, "%lld channels cannot be parted in %lld groups",
                  (long long)x->dims[axis], (long long)groups);
        return REL_FAILED;
    }
    return rel_channel_norm(r);
}

/* Halves are normalised as float32. */
static DType wide_dtype(DType d)
{
    return dtype_is_float(d) && d.bits == 16 ? (DType){DTYPE_CODE_FLOAT, 32, 1} : d;
}

/* Scale and shift of each channel first, so that each element takes one product and one sum. */
static void compute_batch_norm(TeBuilder *b)
{
    TeTensor x = te_input(b, 0), gamma = te_input(b, 1), beta = te_input(b, 2);
    TeTensor mean = te_input(b, 3), var = te_input(b, 4);
    int axis = ops_axis(b->attrs, "axis", x.rank);
    DType d = wide_dtype(x.dtype);
    Te *eps = te_number(b, d, attrs_float(b->attrs, "epsilon"));
    Te *root = te_unary(b, TE_SQRT, te_binary(b, TE_ADD, te_cast(b, d, ops_at_axes(b, var)), eps));
    Te *one = te_binary(b, TE_DIV, te_number(b, d, 1), root);
    if (attrs_bool(b->attrs, "scale"))
        one = te_binary(b, TE_MUL, one, te_cast(b, d, ops_at_axes(b, gamma)));
    TeTensor scale = te_map(b, d, 1, var.shape, one);
    Te *down = te_binary(b, TE_MUL, te_cast(b, d, ops_at_axes(b, mean)), ops_at_axes(b, scale));
    Te *move = te_unary(b, TE_NEG, down);
    if (attrs_bool(b->attrs, "center"))
        move = te_binary(b, TE_ADD, move, te_cast(b, d, ops_at_axes(b, beta)));
    TeTensor shift = te_map(b, d, 1, var.shape, move);
    Te *y = te_binary(b, TE_MUL, te_cast(b, d, ops_at_axes(b, x)), along(b, scale, axis));
    ops_emit(b, te_cast(b, x.dtype, te_binary(b, TE_ADD, y, along(b, shift, axis))));
    te_output(b, mean);
    te_output(b, var);
}

/* Sum over the marked axes of body, whose axes are the kept ones and then the marked. */
static TeTensor sum_marked(TeBuilder *b, TeTensor x, const bool *on, Te *body)
{
    int64_t kept[TENSOR_RANK_MOST], folded[TENSOR_RANK_MOST];
    int n = 0, m = 0;
    for (int i = 0; i < x.rank; i++)
        if (on[i])
            folded[m++] = x.shape[i];
        else
            kept[n++] = x.shape[i];
    return te_reduce(b, TE_SUM, body->dtype, n, kept, m, folded, body);
}

/* The indices of x from kept axes 0 … and marked ones behind them. */
static void marked_index(TeBuilder *b, TeTensor x, const bool *on, Te **index)
{
    int kept = 0, at = 0;
    for (int i = 0; i < x.rank; i++)
        kept += !on[i];
    for (int i = 0, k = kept; i < x.rank; i++)
        index[i] = te_axis(b, on[i] ? k++ : at++);
}

/* Element of a tensor over the kept axes at the output's axes. */
static Te *kept_at(TeBuilder *b, TeTensor t, int rank, const bool *on)
{
    Te *index[TENSOR_RANK_MOST];
    for (int i = 0, k = 0; i < rank; i++)
        if (!on[i])
            index[k++] = te_axis(b, i);
    return te_load(b, t, index);
}

/* x minus its mean over the marked axes, divided by its deviation. */
static TeTensor normalised(TeBuilder *b, TeTensor x, const bool *on)
{
    DType d = wide_dtype(x.dtype);
    double count = 1;
    for (int i = 0; i < x.rank; i++)
        count *= on[i] ? (double)x.shape[i] : 1;
    Te *index[TENSOR_RANK_MOST], *n = te_number(b, d, count);
    marked_index(b, x, on, index);
    TeTensor sum = sum_marked(b, x, on, te_cast(b, d, te_load(b, x, index)));
    TeTensor mean = te_map(b, d, sum.rank, sum.shape, te_binary(b, TE_DIV, ops_at_axes(b, sum), n));
    Te *off = te_binary(b, TE_SUB, te_cast(b, d, te_load(b, x, index)), ops_at_axes(b, mean));
    TeTensor squares = sum_marked(b, x, on, te_binary(b, TE_MUL, off, off));
    Te *var = te_binary(b, TE_DIV, ops_at_axes(b, squares), n);
    var = te_binary(b, TE_ADD, var, te_number(b, d, attrs_float(b->attrs, "epsilon")));
    TeTensor dev = te_map(b, d, sum.rank, sum.shape, te_unary(b, TE_SQRT, var));
    Te *y = te_binary(b, TE_SUB, te_cast(b, d, ops_at_axes(b, x)), kept_at(b, mean, x.rank, on));
    return te_map(b, d, x.rank, x.shape, te_binary(b, TE_DIV, y, kept_at(b, dev, x.rank, on)));
}

/* gamma and beta along the axis, as the attributes say. */
static void emit_scaled(TeBuilder *b, TeTensor y, int axis)
{
    Te *v = ops_at_axes(b, y);
    if (attrs_bool(b->attrs, "scale"))
        v = te_binary(b, TE_MUL, v, te_cast(b, y.dtype, along(b, te_input(b, 1), axis)));
    if (attrs_bool(b->attrs, "center"))
        v = te_binary(b, TE_ADD, v, te_cast(b, y.dtype, along(b, te_input(b, 2), axis)));
    ops_emit(b, te_cast(b, te_out_dtype(b, 0), v));
}

static void compute_layer_norm(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int axis = ops_axis(b->attrs, "axis", x.rank);
    bool on[TENSOR_RANK_MOST] = {false};
    on[axis] = true;
    emit_scaled(b, normalised(b, x, on), axis);
}

static void compute_instance_norm(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int axis = ops_axis(b->attrs, "axis", x.rank);
    bool on[TENSOR_RANK_MOST];
    for (int i = 0; i < x.rank; i++)
        on[i] = i != 0 && i != axis;
    emit_scaled(b, normalised(b, x, on), axis);
}

/* The shape with the channels split in groups, which stand at axis `*at`. Where there is no room for an axis more, those before the groups
 * are one, and those behind. */
static int group_shape(const int64_t *shape, int rank, int axis, int64_t groups, int64_t *out,
                       int *at)
{
    int64_t each = shape[axis] / groups;
    int n = 0;
    if (rank == TENSOR_RANK_MOST) {
        out[0] = 1, out[1] = groups, out[2] = each;
        for (int i = 0; i < rank; i++)
            out[i < axis ? 0 : 2] *= i == axis ? 1 : shape[i];
        *at = 1;
        return 3;
    }
    for (int i = 0; i < rank; i++) {
        if (i == axis)
            out[n++] = groups;
        out[n++] = i == axis ? each : shape[i];
    }
    *at = axis;
    return n;
}

static void compute_group_norm(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int axis = ops_axis(b->attrs, "axis", x.rank), at;
    int64_t split[TENSOR_RANK_MOST];
    int n = group_shape(x.shape, x.rank, axis, attrs_int(b->attrs, "num_groups", 1), split, &at);
    bool on[TENSOR_RANK_MOST];
    for (int i = 0; i < n; i++)
        on[i] = i > at;
    TeTensor y = normalised(b, ops_reshape(b, x, n, split), on);
    emit_scaled(b, ops_reshape(b, y, x.rank, x.shape), axis);
}

/* ---- nn.l2_normalize, nn.lrn --------------------------------------------------------------------- */

#define SHAPES_rel_l2_normalize "(d...) -> (d...)"
static RelResult rel_l2_normalize(Rel *r)
{
    const Type *x = rel_tensor(r, 0);
    int64_t axes[TENSOR_RANK_MOST];
    if (!x)
        return rel_same_float(r);
    int n = attrs_ints(r->attrs, "axis", axes, TENSOR_RANK_MOST);
    for (int i = 0; i < n; i++)
        if (rel_axis(r, axes[i], x->n) < 0)
            return REL_FAILED;
    return rel_same_float(r);
}

static void compute_l2_normalize(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    DType d = wide_dtype(x.dtype);
    int64_t axes[TENSOR_RANK_MOST];
    int n = attrs_ints(b->attrs, "axis", axes, TENSOR_RANK_MOST);
    bool on[TENSOR_RANK_MOST];
    for (int i = 0; i < x.rank; i++)
        on[i] = n <= 0;
    for (int i = 0; i < n; i++)
        on[axes[i] < 0 ? axes[i] + x.rank : axes[i]] = true;
    Te *index[TENSOR_RANK_MOST];
    marked_index(b, x, on, index);
    Te *v = te_cast(b, d, te_load(b, x, index));
    TeTensor sum = sum_marked(b, x, on, te_binary(b, TE_MUL, v, v));
    Te *least = te_number(b, d, attrs_float(b->attrs, "eps"));
    Te *root = te_unary(b, TE_SQRT, te_binary(b, TE_MAX, ops_at_axes(b, sum), least));
    TeTensor norm = te_map(b, d, sum.rank, sum.shape, root);
    Te *y = te_binary(b, TE_DIV, te_cast(b, d, ops_at_axes(b, x)), kept_at(b, norm, x.rank, on));
    ops_emit(b, te_cast(b, x.dtype, y));
}

#define SHAPES_rel_lrn "(d...) -> (d...)"
static RelResult rel_lrn(Rel *r)
{
    const Type *x = rel_tensor(r, 0);
    int64_t size = attrs_int(r->attrs, "size", 5);
    if (x && rel_axis(r, attrs_int(r->attrs, "axis", 1), x->n) < 0)
        return REL_FAILED;
    if (size < 1) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`size` of `nn.lrn` is %lld, but at least one",
                  (long long)size);
        return REL_FAILED;
    }
    return rel_same_float(r);
}

static void compute_lrn(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int axis = ops_axis(b->attrs, "axis", x.rank);
    int64_t size = attrs_int(b->attrs, "size", 5);
    /* What lies beyond the axis, on both sides, is zero. */
    int64_t before = size / 2, behind = size - 1 - before, most = x.shape[axis];
    before = before < most ? before : most;
    int64_t seen = before + (behind < most ? behind : most) + 1;
    Te *index[TENSOR_RANK_MOST];
    ops_axes(b, 0, x.rank, index);
    index[axis] = te_binary(b, TE_ADD, te_binary(b, TE_ADD, index[axis], te_axis(b, x.rank)),
                            te_int(b, -before));
    Te *v = te_load_or(b, x, index, te_number(b, x.dtype, 0));
    TeTensor sum =
        te_reduce(b, TE_SUM, x.dtype, x.rank, x.shape, 1, &seen, te_binary(b, TE_MUL, v, v));
    Te *alpha = ops_number(b, attrs_float(b->attrs, "alpha") / (double)size);
    Te *base = te_binary(b, TE_ADD, ops_number(b, attrs_float(b->attrs, "bias")),
                         te_binary(b, TE_MUL, alpha, ops_at_axes(b, sum)));
    Te *power = te_binary(b, TE_POW, base, ops_number(b, attrs_float(b->attrs, "beta")));
    ops_emit(b, te_binary(b, TE_DIV, ops_at_axes(b, x), power));
}

/* ---- nn.dropout ---------------------------------------------------------------------------------- */

#define SHAPES_rel_dropout "(d...) -> ((d...), (d...))"
static RelResult rel_dropout(Rel *r)
{
    const Type *x = rel_tensor(r, 0);
    if (!x)
        return rel_blocked(r);
    return rel_set_output(r, type_tuple(r->cx, 2, (const Type *[]){x, x}));
}

/* Outside training nothing is dropped: the data, and a mask of ones. */
static void compute_dropout(TeBuilder *b)
{
    te_output(b, te_input(b, 0));
    ops_emit(b, ops_number(b, 1));
}

/* ---- at inference -------------------------------------------------------------------------------- */

static Expr *infer_dropout(Ctx *cx, Arena *arena, const Call *call, int64_t index)
{
    (void)cx, (void)arena;
    return index == 0 ? call->args.at[0] : NULL;
}

static const Type *data_type(const Call *call)
{
    const Type *t = call->args.at[0]->type;
    t = t ? type_find(t) : NULL;
    return t && t->kind == TYPE_TENSOR ? t : NULL;
}

/* The type of the data where the vectors are sure to fit the axis; NULL: the operator stays, and sees when it runs. */
static const Type *data_with_vectors(const Ctx *cx, const Call *call)
{
    const Type *t = data_type(call);
    for (uint32_t i = 1; t && i < call->args.n; i++)
        if (!ops_is_along(cx, call->args.at[i], t, ops_axis(call->attrs, "axis", (int)t->n)))
            return NULL;
    return t;
}

static Expr *infer_batch_norm(Ctx *cx, Arena *arena, const Call *call, int64_t index)
{
    const Type *t = data_with_vectors(cx, call);
    if (index != 0 || !t)
        return NULL;
    OpsMake m = {cx, arena, call->base.span};
    Expr *const *a = call->args.at;
    int rank = (int)t->n, axis = ops_axis(call->attrs, "axis", rank);
    Expr *eps = ops_constant(&m, t->dtype, attrs_float(call->attrs, "epsilon"));
    Expr *root = ops_call1(&m, "sqrt", ops_call2(&m, "add", a[4], eps));
    Expr *scale = ops_call2(&m, "divide", ops_constant(&m, t->dtype, 1), root);
    if (attrs_bool(call->attrs, "scale"))
        scale = ops_call2(&m, "multiply", scale, a[1]);
    Expr *shift = ops_call2(&m, "multiply", ops_call1(&m, "negative", a[3]), scale);
    if (attrs_bool(call->attrs, "center"))
        shift = ops_call2(&m, "add", shift, a[2]);
    Expr *out = ops_call2(&m, "multiply", a[0], ops_expand_to_axis(&m, scale, rank, axis));
    return ops_call2(&m, "add", out, ops_expand_to_axis(&m, shift, rank, axis));
}

/* The argument in the type in which it is computed with; the result is cast back. */
static Expr *infer_wide(const OpsMake *m, const Call *call, uint32_t i)
{
    DType d = data_type(call)->dtype, wide = wide_dtype(d);
    return dtype_eq(d, wide) ? call->args.at[i] : ops_cast(m, call->args.at[i], wide);
}

static Expr *infer_narrow(const OpsMake *m, const Call *call, Expr *y)
{
    DType d = data_type(call)->dtype;
    return dtype_eq(d, wide_dtype(d)) ? y : ops_cast(m, y, d);
}

/* (x - mean) / sqrt(variance + epsilon) over the axes. */
static Expr *infer_normalised(const OpsMake *m, const Call *call, Expr *x, uint32_t n,
                              const int64_t *axes)
{
    DType dtype = wide_dtype(data_type(call)->dtype);
    Attr attrs[2] = {ops_attr_ints(m, "axis", n, axes), ops_attr_bool("keepdims", true)};
    Expr *mean = ops_call(m, "mean", 1, &x, 2, attrs);
    Expr *both[2] = {x, mean};
    Expr *var = ops_call(m, "variance", 2, both, 2, attrs);
    Expr *eps = ops_constant(m, dtype, attrs_float(call->attrs, "epsilon"));
    Expr *dev = ops_call1(m, "sqrt", ops_call2(m, "add", var, eps));
    return ops_call2(m, "divide", ops_call2(m, "subtract", x, mean), dev);
}

static Expr *infer_scaled(const OpsMake *m, const Call *call, Expr *y, int rank, int axis)
{
    if (attrs_bool(call->attrs, "scale"))
        y = ops_call2(m, "multiply", y, ops_expand_to_axis(m, infer_wide(m, call, 1), rank, axis));
    if (attrs_bool(call->attrs, "center"))
        y = ops_call2(m, "add", y, ops_expand_to_axis(m, infer_wide(m, call, 2), rank, axis));
    return infer_narrow(m, call, y);
}

static Expr *infer_layer_norm(Ctx *cx, Arena *arena, const Call *call, int64_t index)
{
    const Type *t = data_with_vectors(cx, call);
    if (index > 0 || !t)
        return NULL;
    OpsMake m = {cx, arena, call->base.span};
    int64_t axis = attrs_int(call->attrs, "axis", -1);
    Expr *y = infer_normalised(&m, call, infer_wide(&m, call, 0), 1, &axis);
    return infer_scaled(&m, call, y, (int)t->n, ops_axis(call->attrs, "axis", (int)t->n));
}

static Expr *infer_instance_norm(Ctx *cx, Arena *arena, const Call *call, int64_t index)
{
    const Type *t = data_with_vectors(cx, call);
    if (index > 0 || !t)
        return NULL;
    OpsMake m = {cx, arena, call->base.span};
    int axis = ops_axis(call->attrs, "axis", (int)t->n);
    int64_t axes[TENSOR_RANK_MOST];
    uint32_t n = 0;
    for (int i = 1; i < (int)t->n; i++)
        if (i != axis)
            axes[n++] = i;
    Expr *y = infer_normalised(&m, call, infer_wide(&m, call, 0), n, axes);
    return infer_scaled(&m, call, y, (int)t->n, axis);
}

static Expr *infer_group_norm(Ctx *cx, Arena *arena, const Call *call, int64_t index)
{
    const Type *t = data_with_vectors(cx, call);
    if (index > 0 || !t || !dims_static(t->n, t->dims))
        return NULL;
    OpsMake m = {cx, arena, call->base.span};
    int axis = ops_axis(call->attrs, "axis", (int)t->n), n, at;
    int64_t split[TENSOR_RANK_MOST], axes[TENSOR_RANK_MOST];
    uint32_t folded = 0;
    n = group_shape(t->dims, (int)t->n, axis, attrs_int(call->attrs, "num_groups", 1), split, &at);
    for (int i = at + 1; i < n; i++)
        axes[folded++] = i;
    Expr *x = ops_reshaped(&m, infer_wide(&m, call, 0), (uint32_t)n, split);
    Expr *y = x ? infer_normalised(&m, call, x, folded, axes) : NULL;
    y = y ? ops_reshaped(&m, y, t->n, t->dims) : NULL;
    return y ? infer_scaled(&m, call, y, (int)t->n, axis) : NULL;
}

static Expr *infer_l2_normalize(Ctx *cx, Arena *arena, const Call *call, int64_t index)
{
    const Type *t = data_type(call);
    if (index > 0 || !t)
        return NULL;
    OpsMake m = {cx, arena, call->base.span};
    Expr *x = infer_wide(&m, call, 0), *squares = ops_call2(&m, "multiply", x, x);
    Attr attrs[2] = {{.key = "axis", .value = *attrs_find(call->attrs, "axis")},
                     ops_attr_bool("keepdims", true)};
    Expr *sum = ops_call(&m, "sum", 1, &squares, 2, attrs);
    Expr *eps = ops_constant(&m, wide_dtype(t->dtype), attrs_float(call->attrs, "eps"));
    Expr *root = ops_call1(&m, "sqrt", ops_call2(&m, "maximum", sum, eps));
    return infer_narrow(&m, call, ops_call2(&m, "divide", x, root));
}

/* ---- rows ---------------------------------------------------------------------------------------- */

static const OpArg bias_args[] = {{"data", "the tensor"}, {"bias", "a vector"}, {0}};
static const OpArg prelu_args[] = {{"data", "the tensor"}, {"alpha", "the slopes below zero"}, {0}};
static const OpArg batch_norm_args[] = {{"data", "the tensor"},
                                        {"gamma", "scale of each channel"},
                                        {"beta", "shift of each channel"},
                                        {"moving_mean", "mean of each channel"},
                                        {"moving_var", "variance of each channel"},
                                        {0}};
static const OpArg norm_args[] = {{"data", "the tensor"},
                                  {"gamma", "scale of each channel"},
                                  {"beta", "shift of each channel"},
                                  {0}};

static const OpAttr axis1_attrs[] = {ATTR_I("axis", 1, "the axis that the vector is for"), {0}};
#define NORM(AXIS)                                                                           \
    ATTR_I("axis", AXIS, "the axis of the channels"),                                        \
        ATTR_F("epsilon", 1e-5, "added to the variance"), ATTR_B("center", 1, "add `beta`"), \
        ATTR_B("scale", 1, "multiply by `gamma`")
static const OpAttr norm1_attrs[] = {NORM(1), {0}};
static const OpAttr norm_last_attrs[] = {NORM(-1), {0}};
static const OpAttr group_norm_attrs[] = {
    ATTR_I("num_groups", 0, "parts of the channels that are normalised together"), NORM(1), {0}};
static const OpAttr dropout_attrs[] = {ATTR_F("rate", 0.5, "the part that training drops"), {0}};
static const OpAttr l2_attrs[] = {ATTR_MUST("eps", FLOAT, "the least sum of squares"),
                                  ATTR_MUST_NONE("axis", INTS, "the axes of the norm"),
                                  {0}};
static const OpAttr lrn_attrs[] = {
    ATTR_I("size", 5, "channels in the window"), ATTR_I("axis", 1, "the axis of the channels"),
    ATTR_F("bias", 2, "added to the sum"),       ATTR_F("alpha", 0.0001, "scales the sum"),
    ATTR_F("beta", 0.75, "the power"),           {0}};

#define NORM_SAMPLE "(float32[2,3,4], float32[3], float32[3], axis=1)"

const Op norm_ops[] = {
    {.name = "nn.bias_add",
     .doc = "Adds a vector along one axis.",
     .args = bias_args,
     .attrs = axis1_attrs,
     .samples = "(float32[2,3,4], float32[3]) (float32[2,3], float32[3], axis=-1)",
     .pattern = OP_BROADCAST,
     OP_REL(rel_along_axis),
     .compute = compute_bias_add,
     .grad = "(collapse_sum_like(%g, %data), sum(%g, axis=[%axis], exclude=True))"},
    {.name = "nn.prelu",
     .doc = "Each element, or where it is not positive a channel's slope times it.",
     .args = prelu_args,
     .attrs = axis1_attrs,
     .samples = "(float32[2,3,4], float32[3])",
     .pattern = OP_BROADCAST,
     OP_REL(rel_along_axis),
     .compute = compute_prelu,
     .grad = "let %zeros = zeros_like(%data); let %is = greater(%data, %zeros); "
             "let %slope = nn.bias_add(%zeros, %alpha, axis=%axis); "
             "let %below = where(%is, zeros_like(%g), multiply(%g, %data)); "
             "(where(%is, %g, multiply(%g, %slope)), sum(%below, axis=[%axis], exclude=True))"},
    {.name = "nn.batch_norm",
     .doc = "Each channel moved and scaled by the mean and variance given for it.",
     .args = batch_norm_args,
     .attrs = norm1_attrs,
     .samples = "(float32[2,3,4], float32[3], float32[3], float32[3], float32[3])",
     .pattern = OP_OUT_FUSABLE,
     OP_REL(rel_batch_norm),
     .compute = compute_batch_norm,
     .inference = infer_batch_norm},
    {.name = "nn.layer_norm",
     .doc = "Elements moved and scaled to mean 0 and variance 1 along one axis.",
     .args = norm_args,
     .attrs = norm_last_attrs,
     .samples = NORM_SAMPLE,
     .pattern = OP_OPAQUE,
     OP_REL(rel_channel_norm),
     .compute = compute_layer_norm,
     .inference = infer_layer_norm},
    {.name = "nn.instance_norm",
     .doc = "Elements moved and scaled to mean 0 and variance 1 within each batch and channel.",
     .args = norm_args,
     .attrs = norm1_attrs,
     .samples = NORM_SAMPLE,
     .pattern = OP_OPAQUE,
     OP_REL(rel_instance_norm),
     .compute = compute_instance_norm,
     .inference = infer_instance_norm},
    {.name = "nn.group_norm",
     .doc = "Elements moved and scaled to mean 0 and variance 1 within groups of channels.",
     .args = norm_args,
     .attrs = group_norm_attrs,
     .samples = "(float32[2,4,3], float32[4], float32[4], num_groups=2)",
     .pattern = OP_OPAQUE,
     OP_REL(rel_group_norm),
     .compute = compute_group_norm,
     .inference = infer_group_norm},
    {.name = "nn.l2_normalize",
     .doc = "Elements divided by the root of the sum of their squares.",
     .args = args_data,
     .attrs = l2_attrs,
     .samples = "(float32[2,4], eps=0.001f, axis=[1])",
     .pattern = OP_OPAQUE,
     OP_REL(rel_l2_normalize),
     .compute = compute_l2_normalize,
     .inference = infer_l2_normalize},
    {.name = "nn.lrn",
     .doc = "Elements divided by a power of the squares of neighbouring channels.",
     .args = args_data,
     .attrs = lrn_attrs,
     .samples = "(float32[1,4,2,2], size=3)",
     .pattern = OP_OPAQUE,
     OP_REL(rel_lrn),
     .compute = compute_lrn},
    {.name = "nn.dropout",
     .doc = "In training drops elements at random; otherwise the tensor and a mask of ones.",
     .args = args_data,
     .attrs = dropout_attrs,
     .samples = "(float32[2,3], rate=0.5f)",
     .pattern = OP_OPAQUE,
     .flags = OP_STATEFUL,
     OP_REL(rel_dropout),
     .compute = compute_dropout,
     .inference = infer_dropout},
    {0},
};
