/* Softmax and the losses. */
#include "stdlib/ops/ops.h"

#define SHAPES_rel_softmax "(d...) -> (d...)"
static RelResult rel_softmax(Rel *r)
{
    const Type *x = rel_tensor(r, 0);
    if (x && rel_axis(r, attrs_int(r->attrs, "axis", -1), x->n) < 0)
        return REL_FAILED;
    return rel_same_float(r);
}

/* The axes of x where `axis` is folded: kept ones first. */
static void folded_index(TeBuilder *b, TeTensor x, int axis, Te **index)
{
    for (int i = 0; i < x.rank; i++)
        index[i] = te_axis(b, i == axis ? x.rank - 1 : i < axis ? i : i - 1);
}

static TeTensor fold_axis(TeBuilder *b, TeTensor x, int axis, TeReduce kind, Te *body)
{
    int64_t kept[TENSOR_RANK_MOST];
    for (int i = 0, n = 0; i < x.rank; i++)
        if (i != axis)
            kept[n++] = x.shape[i];
    return te_reduce(b, kind, body->dtype, x.rank - 1, kept, 1, &x.shape[axis], body);
}

static Te *load_folded(TeBuilder *b, TeTensor x, int axis)
{
    Te *index[TENSOR_RANK_MOST] = {NULL};
    folded_index(b, x, axis, index);
    return te_load(b, x, index);
}

/* Element of a folded tensor at the data's axes. */
static Te *load_kept(TeBuilder *b, TeTensor t, int rank, int axis)
{
    Te *index[TENSOR_RANK_MOST];
    for (int i = 0, n = 0; i < rank; i++)
        if (i != axis)
            index[n++] = te_axis(b, i);
    return te_load(b, t, index);
}

/* The greatest element along the axis goes first, so that no power overflows. */
static Te *lowered(TeBuilder *b, TeTensor x, int axis)
{
    TeTensor most = fold_axis(b, x, axis, TE_REDUCE_MAX, load_folded(b, x, axis));
    return te_binary(b, TE_SUB, ops_at_axes(b, x), load_kept(b, most, x.rank, axis));
}

/* The powers, and their sums along the axis. */
static TeTensor powers(TeBuilder *b, TeTensor x, int axis, Te *down, TeTensor *sum)
{
    TeTensor power = te_map(b, x.dtype, x.rank, x.shape, te_unary(b, TE_EXP, down));
    *sum = fold_axis(b, x, axis, TE_SUM, load_folded(b, power, axis));
    return power;
}

TeTensor ops_softmax(TeBuilder *b, TeTensor x, int axis)
{
    TeTensor sum, power = powers(b, x, axis, lowered(b, x, axis), &sum);
    Te *part = te_binary(b, TE_DIV, ops_at_axes(b, power), load_kept(b, sum, x.rank, axis));
    return te_map(b, x.dtype, x.rank, x.shape, part);
}

/* One quotient a row, where the rounding of two steps is no more than that of the powers. */
static void compute_softmax(TeBuilder *b)
{
    TeTensor x = te_input(b, 0), sum;
    int axis = ops_axis(b->attrs, "axis", x.rank);
    if (x.dtype.bits < 32) {
        te_output(b, ops_softmax(b, x, axis));
        return;
    }
    TeTensor power = powers(b, x, axis, lowered(b, x, axis), &sum);
    Te *share = te_binary(b, TE_DIV, te_number(b, x.dtype, 1), ops_at_axes(b, sum));
    TeTensor shares = te_map(b, x.dtype, sum.rank, sum.shape, share);
    ops_emit(b, te_binary(b, TE_MUL, ops_at_axes(b, power), load_kept(b, shares, x.rank, axis)));
}

static void compute_log_softmax(TeBuilder *b)
{
    TeTensor x = te_input(b, 0), sum;
    int axis = ops_axis(b->attrs, "axis", x.rank);
    Te *down = lowered(b, x, axis);
    powers(b, x, axis, down, &sum);
    TeTensor logs =
        te_map(b, x.dtype, sum.rank, sum.shape, te_unary(b, TE_LOG, ops_at_axes(b, sum)));
    ops_emit(b, te_binary(b, TE_SUB, down, load_kept(b, logs, x.rank, axis)));
}

/* ---- losses -------------------------------------------------------------------------------------- */

#define SHAPES_rel_cross_entropy "(b, n), (b, n) -> ()"
static RelResult rel_cross_entropy(Rel *r)
{
    const Type *x = rel_tensor(r, 0), *y = x ? rel_tensor(r, 1) : NULL;
    if (!y)
        return rel_blocked(r);
    if (!rel_rank(r, 0, x, 2) || !rel_rank(r, 1, y, 2) || !rel_dtypes_agree(r, 0, x, 1, y))
        return REL_FAILED;
    if (!dim_agrees(x->dims[0], y->dims[0]) || !dim_agrees(x->dims[1], y->dims[1])) {
        rel_error(r, E0202_SHAPE, 1, "`%s` takes two tensors of one shape, not `%s` and `%s`",
                  r->op->name, type_str(r->cx, x), type_str(r->cx, y));
        return REL_FAILED;
    }
    return rel_set_output(r, type_scalar(r->cx, x->dtype));
}

static void cross_entropy(TeBuilder *b, bool logarithm)
{
    TeTensor x = te_input(b, 0), y = te_input(b, 1);
    Te *index[2] = {te_axis(b, 0), te_axis(b, 1)}, *p = te_load(b, x, index);
    if (logarithm)
        p = te_unary(b, TE_LOG, p);
    Te *body = te_binary(b, TE_MUL, p, te_load(b, y, index));
    TeTensor sum = te_reduce(b, TE_SUM, x.dtype, 0, NULL, 2, x.shape, body);
    Te *mean = te_binary(b, TE_DIV, ops_scalar(b, sum), ops_number(b, (double)x.shape[0]));
    ops_emit(b, te_unary(b, TE_NEG, mean));
}

static void compute_cross_entropy(TeBuilder *b)
{
    cross_entropy(b, true);
}

static void compute_cross_entropy_with_logits(TeBuilder *b)
{
    cross_entropy(b, false);
}

#define SHAPES_rel_nll_loss \
    "(b, C, t...), (b, t...), (C) -> (); (b, t...) where reduction == \"none\""
static RelResult rel_nll_loss(Rel *r)
{
    const Type *p = rel_tensor(r, 0), *t = p ? rel_tensor(r, 1) : NULL,
               *w = t ? rel_tensor(r, 2) : NULL;
    if (!w)
        return rel_blocked(r);
    Str reduction = attrs_string(r->attrs, "reduction");
    if (!rel_is_int(r, 1, t) || !rel_rank(r, 2, w, 1) || !rel_dtypes_agree(r, 0, p, 2, w))
        return REL_FAILED;
    bool fits =
        p->n >= 1 && (t->n + 1 == p->n) && (p->n == 1 || dim_agrees(p->dims[0], t->dims[0]));
    for (uint32_t i = 2; fits && i < p->n; i++)
        fits = dim_agrees(p->dims[i], t->dims[i - 1]);
    if (!fits || !dim_agrees(p->dims[p->n > 1], w->dims[0])) {
        rel_error(r, E0202_SHAPE, 1, "predictions `%s`, targets `%s` and weights `%s` do not fit",
                  type_str(r->cx, p), type_str(r->cx, t), type_str(r->cx, w));
        return REL_FAILED;
    }
    if (str_is(reduction, "none"))
        return rel_out_tensor(r, p->dtype, t->n, t->dims);
    return rel_set_output(r, type_scalar(r->cx, p->dtype));
}

static void compute_nll_loss(TeBuilder *b)
{
    TeTensor p = te_input(b, 0), t = te_input(b, 1), w = te_input(b, 2);
    Str reduction = attrs_string(b->attrs, "reduction");
    bool whole = str_is(reduction, "none");
    Te *at[TENSOR_RANK_MOST], *index[TENSOR_RANK_MOST];
    ops_axes(b, 0, t.rank, at);
    Te *target = te_cast(b, (DType){DTYPE_CODE_INT, 64, 1}, te_load(b, t, at));
    Te *zero = te_number(b, p.dtype, 0);
    Te *ignored = te_binary(b, TE_EQ, target, te_int(b, attrs_int(b->attrs, "ignore_index", 0)));
    /* Another than the ignored one must be a class. */
    Te *class = ops_place(b, te_select(b, ignored, te_int(b, 0), target), w.shape[0]);
    int channel = p.rank > 1;
    for (int i = 0; i < p.rank; i++)
        index[i] = i == channel ? class : at[i < channel ? i : i - 1];
    Te *weight = te_select(b, ignored, zero, te_load(b, w, &class));
    Te *loss = te_select(b, ignored, zero,
                         te_binary(b, TE_MUL, te_unary(b, TE_NEG, te_load(b, p, index)), weight));
    if (whole) {
        ops_emit(b, loss);
        return;
    }
    TeTensor sum = te_reduce(b, TE_SUM, p.dtype, 0, NULL, t.rank, t.shape, loss);
    if (str_is(reduction, "sum")) {
        te_output(b, sum);
        return;
    }
    TeTensor weights = te_reduce(b, TE_SUM, p.dtype, 0, NULL, t.rank, t.shape, weight);
    ops_emit(b, te_binary(b, TE_DIV, ops_scalar(b, sum), ops_scalar(b, weights)));
}

/* ---- rows ---------------------------------------------------------------------------------------- */

static const OpAttr softmax_attrs[] = {
    ATTR_I("axis", -1, "the axis along which the result sums to one"), {0}};
static const OpAttr nll_attrs[] = {
    ATTR_ONE("reduction", "mean", "\"none\", \"mean\" or \"sum\"", "none", "mean", "sum"),
    ATTR_MUST("ignore_index", INT, "a target that counts as nothing"),
    {0}};
static const OpArg loss_args[] = {
    {"predictions", "probabilities, one row each"}, {"targets", "the true ones"}, {0}};
static const OpArg nll_args[] = {
    {"predictions", "logarithms of probabilities: (batch, classes, …)"},
    {"targets", "the true classes: integers"},
    {"weights", "of the classes"},
    {0}};

#define SAMPLES "(float32[2,3]) (float32[2,3,4], axis=1)"

/* The gradient of a mean over the rows, for each of them. */
#define ROW_GRAD                                                                        \
    "let %rows = cast(take(shape_of(%predictions, dtype=\"int32\"), 0, axis=0), dtype=" \
    "%predictions.dtype); let %share = divide(%g, %rows); "

const Op softmax_ops[] = {
    {.name = "nn.softmax",
     .doc = "Exponentials of `data`, scaled to sum to one along `axis`.",
     .args = args_data,
     .attrs = softmax_attrs,
     .samples = SAMPLES,
     .pattern = OP_OUT_FUSABLE,
     OP_REL(rel_softmax),
     .compute = compute_softmax,
     .grad = "multiply(subtract(%g, sum(multiply(%g, %out), axis=[%axis], keepdims=True)), %out)"},
    {.name = "nn.fast_softmax",
     .doc = "`nn.softmax`, where some precision may be given up.",
     .args = args_data,
     .attrs = softmax_attrs,
     .samples = SAMPLES,
     .pattern = OP_OUT_FUSABLE,
     OP_REL(rel_softmax),
     .compute = compute_softmax,
     .grad = "multiply(subtract(%g, sum(multiply(%g, %out), axis=[%axis], keepdims=True)), %out)"},
    {.name = "nn.log_softmax",
     .doc = "The logarithm of `nn.softmax`, computed without losing small ones.",
     .args = args_data,
     .attrs = softmax_attrs,
     .samples = SAMPLES,
     .pattern = OP_OUT_FUSABLE,
     OP_REL(rel_softmax),
     .compute = compute_log_softmax,
     .grad = "subtract(%g, multiply(sum(%g, axis=[%axis], keepdims=True), exp(%out)))"},
    {.name = "nn.cross_entropy",
     .doc = "The mean over the rows of minus the sum of log(predictions) times targets.",
     .args = loss_args,
     .samples = "(float32[2,3], float32[2,3])",
     .pattern = OP_OPAQUE,
     OP_REL(rel_cross_entropy),
     .compute = compute_cross_entropy,
     .grad = ROW_GRAD "(divide(multiply(negative(%share), %targets), %predictions), "
                      "multiply(negative(%share), log(%predictions)))"},
    {.name = "nn.cross_entropy_with_logits",
     .doc = "The mean over the rows of minus the sum of predictions, already logarithms, times "
            "targets.",
     .args = loss_args,
     .samples = "(float32[2,3], float32[2,3])",
     .pattern = OP_OPAQUE,
     OP_REL(rel_cross_entropy),
     .compute = compute_cross_entropy_with_logits,
     .grad = ROW_GRAD
     "(multiply(negative(%share), %targets), multiply(negative(%share), %predictions))"},
    {.name = "nn.nll_loss",
     .doc = "Minus the weighted predictions of the true classes.",
     .args = nll_args,
     .attrs = nll_attrs,
     .samples = "(float32[2,3], int32[2], float32[3], ignore_index=-100)",
     .pattern = OP_OUT_FUSABLE,
     OP_REL(rel_nll_loss),
     .compute = compute_nll_loss},
    {0},
};
