#include "passes/fold_scale.h"

#include "base/number.h"
#include "passes/types.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *op;
    ScaleKind kind;
} kinds[] = {
    {"nn.conv2d", SCALE_WEIGHTED}, {"nn.conv3d", SCALE_WEIGHTED}, {"nn.dense", SCALE_WEIGHTED},
    {"nn.relu", SCALE_RELU},       {"nn.leaky_relu", SCALE_RELU}, {"add", SCALE_SUM},
    {"subtract", SCALE_SUM},       {"nn.bias_add", SCALE_BIAS},   {"multiply", SCALE_PRODUCT},
};

ScaleKind scale_kind(const Expr *e)
{
    const Op *op = expr_call_of_op(e);
    for (size_t i = 0; op && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].op, op->name))
            return kinds[i].kind;
    return SCALE_OTHER;
}

static Channels channels(Str layout, char letter)
{
    return (Channels){layout_axis(layout, letter), layout_axis(layout, (char)(letter - 'A' + 'a'))};
}

/* Channels are whole in all layouts, or in blocks in all, and nothing else is in blocks. */
static bool is_uniform(const ScaleAxes *a, int blocks)
{
    bool split = a->in.block >= 0 && a->out.block >= 0 && a->weight_in.block >= 0 &&
                 a->weight_out.block >= 0;
    return blocks == 0 || (split && blocks == 4);
}

/* How many channels there are; -1: nobody knows. */
static int64_t extent(const Type *t, Channels at)
{
    int64_t n = t->dims[at.axis], block = at.block < 0 ? 1 : t->dims[at.block];
    return n < 0 || block < 0 || !int64_mul(n, block, &n) ? -1 : n;
}

bool scale_axes(const Call *call, ScaleAxes *out)
{
    const Type *x = expr_tensor_type(call->args.at[0]), *w = expr_tensor_type(call->args.at[1]);
    const Type *y = expr_tensor_type(&call->base);
    /* Factors have the type of what they multiply, on either side, and products of integers wrap. */
    if (!x || !w || !y || !dtype_is_float(y->dtype) || !dtype_eq(x->dtype, y->dtype) ||
        !dtype_eq(w->dtype, y->dtype))
        return false;
    if (!strcmp(expr_call_of_op(&call->base)->name, "nn.dense")) {
        Channels first = {0, -1}, second = {1, -1};
        *out = (ScaleAxes){second, second, second, first};
        return x->n == 2 && w->n == 2;
    }
    Str data = attrs_string(call->attrs, "data_layout");
    Str kernel = attrs_string(call->attrs, "kernel_layout");
    Str result = ops_out_layout(call->attrs, "data_layout", "out_layout");
    int blocks = layout_blocks(data) + layout_blocks(kernel) + layout_blocks(result);
    if (layout_rank(data) != x->n || layout_rank(kernel) != w->n || layout_rank(result) != y->n)
        return false;
    *out = (ScaleAxes){channels(data, 'C'), channels(result, 'C'), channels(kernel, 'I'),
                       channels(kernel, 'O')};
    if (out->in.axis < 0 || out->out.axis < 0 || out->weight_in.axis < 0 ||
        out->weight_out.axis < 0 || !is_uniform(out, blocks) ||
        (blocks && (extent(w, out->weight_in) < 0 || extent(w, out->weight_out) < 0)))
        return false;
    int64_t groups = attrs_int(call->attrs, "groups", 1);
    bool depthwise = extent(w, out->weight_out) == groups && extent(w, out->weight_in) == 1;
    if (depthwise)
        out->weight_in = out->weight_out;
    return groups == 1 || depthwise;
}

bool scale_matches(const Type *t, const Type *operand, Channels at, int64_t *squeezed, int *n)
{
    int base = (int)t->n - (int)operand->n;
    *n = 0;
    if (at.axis < 0 || base < 0 || at.axis < base || extent(t, at) < 0)
        return false;
    for (int i = base; i < (int)t->n; i++) {
        bool channel = i == at.axis || i == at.block;
        if (operand->dims[i - base] != (channel ? t->dims[i] : 1))
            return false;
        if (!channel)
            squeezed[(*n)++] = i - base;
    }
    return true;
}

Expr *scale_spread(const OpsMake *m, Expr *vector, const Type *t, Channels at)
{
    if (at.block < 0)
        return ops_expand_to_axis(m, vector, (int)t->n, at.axis);
    int64_t shape[TENSOR_RANK_MOST];
    for (int i = 0; i < (int)t->n; i++)
        shape[i] = i == at.axis || i == at.block ? t->dims[i] : 1;
    Attr attr = ops_attr_ints(m, "newshape", t->n, shape);
    return ops_call(m, "reshape", 1, &vector, 1, &attr);
}

static bool only_moves(const Op *op)
{
    static const char *const names[] = {"squeeze", "expand_dims", "reshape", "transpose", "repeat"};
    for (size_t i = 0; op && i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], op->name))
            return true;
    return false;
}

static bool constant_of(const Expr *e, TensorView *v)
{
    while (only_moves(expr_call_of_op(e)))
        e = expr_as_call(e)->args.at[0];
    const Constant *c = expr_as_constant(e);
    return c && value_view(&c->value, v);
}

bool scale_is_positive(const Expr *e)
{
    TensorView v;
    if (!constant_of(e, &v))
        return false;
    for (int64_t i = 0; i < v.t.size; i++)
        if (!(tensor_get_double(&v.t, i) > 0))
            return false;
    return true;
}

bool scale_may_divide(const PassRun *run, const Expr *e)
{
    TensorView v;
    if (!constant_of(e, &v))
        return !run->context->for_code;
    /* What one is away from the next number: halves are soon too great. */
    DType t = v.t.dtype;
    double least = t.code == DTYPE_CODE_FLOAT && t.bits == 16 ? 0x1p-10 : 0x1p-23;
    for (int64_t i = 0; i < v.t.size; i++)
        if (!(fabs(tensor_get_double(&v.t, i)) >= least))
            return false;
    return true;
}

/* Computed from constants, in a few steps. */
static bool is_known(const Expr *e, int depth)
{
    const Call *call = expr_call_of_op(e) ? expr_as_call(e) : NULL;
    bool known = call && depth > 0;
    for (uint32_t i = 0; known && i < call->args.n; i++)
        known = is_known(call->args.at[i], depth - 1);
    return known || e->kind == EXPR_CONSTANT;
}

bool scale_is_known(const PassRun *run, const Expr *e)
{
    enum { STEPS_MOST = 6 };
    return !run->context->for_code || is_known(e, STEPS_MOST);
}

enum { RULE_GOES, RULE_STAYS, RULE_WEIGHT };

const PassRule scale_rules[] = {
    [RULE_GOES] = {"goes", "{at} goes: its factor {with} becomes part of a weight"},
    [RULE_STAYS] = {"stays", "{at} stays: {a}"},
    [RULE_WEIGHT] = {"weight", "the weight of {at} is multiplied by {with}"},
    {0},
};

void scale_tell_goes(const PassRun *run, const Call *product, const Expr *factor)
{
    pass_decides(
        run, (PassEvent){.rule = &scale_rules[RULE_GOES], .at = &product->base, .with = factor});
}

void scale_tell_stays(const PassRun *run, const Call *product, const char *why)
{
    pass_decides(run,
                 (PassEvent){.rule = &scale_rules[RULE_STAYS], .at = &product->base, .a = why});
}

void scale_tell_weight(const PassRun *run, const Call *weighted, const Expr *factor)
{
    pass_decides(
        run, (PassEvent){.rule = &scale_rules[RULE_WEIGHT], .at = &weighted->base, .with = factor});
}

const char *scale_stop(const PassRun *run, Demand d, bool matches, const Expr *factor)
{
    if (!matches)
        return "it has no factor that is one number for each channel";
    if (d.positive && !scale_is_positive(factor))
        return "there is a `relu` between it and the weight, and its factor may not be above 0";
    if (d.divides && !scale_may_divide(run, factor))
        return "what is added to it would be divided by a factor near 0";
    return scale_is_known(run, factor) ? NULL : "its factor is not known beforehand";
}

Expr *scale_vector(const OpsMake *m, Expr *operand, int n, const int64_t *squeezed)
{
    Attr attr = ops_attr_ints(m, "axis", (uint32_t)n, squeezed);
    return n ? ops_call(m, "squeeze", 1, &operand, 1, &attr) : operand;
}
