/* Moves a padding in front of a convolution or a pooling into its own `padding`.
 *
 *     nn.conv2d(nn.pad(%x, 0f, pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]]), %w, padding=[0, 0, 0, 0], kernel_size=[3, 3])
 *  => nn.conv2d(%x, %w, padding=[1, 1, 1, 1], kernel_size=[3, 3])
 *
 * The padding must be constant, lie on spatial axes alone and have no other use; its value is 0, in front of a maximum the least number
 * there is, of quantised numbers what stands for 0. */
#include "passes/facts.h"
#include "passes/pass.h"
#include "passes/types.h"

#include "stdlib/ops/ops.h"

#include <string.h>

typedef enum Kind { CONV, QUANTISED_CONV, AVG_POOL, MAX_POOL } Kind;

static const struct {
    const char *op;
    const char *layout; /* the attribute */
    Kind kind;
    int spatial;
} users[] = {
    {"nn.conv1d", "data_layout", CONV, 1},    {"nn.conv2d", "data_layout", CONV, 2},
    {"nn.conv3d", "data_layout", CONV, 3},    {"nn.avg_pool1d", "layout", AVG_POOL, 1},
    {"nn.avg_pool2d", "layout", AVG_POOL, 2}, {"nn.avg_pool3d", "layout", AVG_POOL, 3},
    {"nn.max_pool1d", "layout", MAX_POOL, 1}, {"nn.max_pool2d", "layout", MAX_POOL, 2},
    {"nn.max_pool3d", "layout", MAX_POOL, 3}, {"qnn.conv2d", "data_layout", QUANTISED_CONV, 2},
};

static int find_user(const Op *op)
{
    for (size_t i = 0; op && i < sizeof users / sizeof *users; i++)
        if (!strcmp(users[i].op, op->name))
            return (int)i;
    return -1;
}

static bool is_least(Value v)
{
    if (dtype_is_float(v.dtype))
        return value_as_double(v) == -dtype_largest(v.dtype);
    if (v.dtype.code == DTYPE_CODE_UINT)
        return value_as_int(v) == 0;
    return v.dtype.code == DTYPE_CODE_INT && value_as_int(v) == INT64_MIN >> (64 - v.dtype.bits);
}

static bool same_number(const Value v, const Expr *e)
{
    const Constant *c = expr_as_constant(e);
    return c && c->value.kind == VALUE_SCALAR && value_as_double(c->value) == value_as_double(v);
}

/* The value becomes one of the data's type, of which it need not be the least any more. */
static bool is_least_of(const Call *pad, Value v)
{
    const Type *t = expr_tensor_type(pad->args.at[0]);
    return t && dtype_eq(t->dtype, v.dtype) && is_least(v);
}

/* A constant padding of the call's data by a value that does not count for that kind of call. */
static const Call *neutral_pad(const Call *call, Kind kind)
{
    const Op *op = expr_call_of_op(call->args.at[0]);
    const Call *pad = op && !strcmp(op->name, "nn.pad") ? expr_as_call(call->args.at[0]) : NULL;
    const Constant *value = pad ? expr_as_constant(pad->args.at[1]) : NULL;
    if (!value || value->value.kind != VALUE_SCALAR ||
        !str_is(attrs_string(pad->attrs, "pad_mode"), "constant"))
        return NULL;
    bool neutral = kind == MAX_POOL         ? is_least_of(pad, value->value)
                   : kind == QUANTISED_CONV ? same_number(value->value, call->args.at[2])
                                            : value_as_double(value->value) == 0;
    return neutral ? pad : NULL;
}

/* Adds the padding of the data's axes to that of the spatial ones; false when it has other axes, or takes elements away. */
static bool add_widths(const Call *pad, const int *at, int n, int64_t *before, int64_t *after)
{
    const AttrValue *widths = attrs_find(pad->attrs, "pad_width");
    for (uint32_t axis = 0; axis < widths->list.n; axis++) {
        const AttrValue *pair = &widths->list.at[axis];
        int64_t left = pair->list.at[0].i, right = pair->list.at[1].i;
        int spatial = 0;
        while (spatial < n && at[spatial + 2] != (int)axis)
            spatial++;
        if (left < 0 || right < 0 || (spatial == n && (left || right)))
            return false;
        if (spatial < n) {
            before[spatial] += left;
            after[spatial] += right;
        }
    }
    return true;
}

static bool is_zero(int n, const int64_t *before, const int64_t *after)
{
    for (int i = 0; i < n; i++)
        if (before[i] || after[i])
            return false;
    return true;
}

static Expr *fold(Rewriter *rw, const Expr *old, Expr *now)
{
    expr_keep_type(now, old);
    int i = find_user(expr_call_of_op(now));
    const Call *call = expr_as_call(now);
    const Call *pad = i >= 0 ? neutral_pad(call, users[i].kind) : NULL;
    if (!pad || times_used(rw->data, expr_as_call(old)->args.at[0]) > 1)
        return now;
    static const char *const letters[] = {"", "NCW", "NCHW", "NCDHW"};
    int n = users[i].spatial, at[5];
    int64_t padding[6], after[3];
    if (!layout_positions(attrs_string(call->attrs, users[i].layout), letters[n], at))
        return now;
    ops_padding(call->attrs, "padding", n, padding, after);
    bool average = users[i].kind == AVG_POOL;
    if (average && (attrs_bool(call->attrs, "ceil_mode") ||
                    !(attrs_bool(call->attrs, "count_include_pad") || is_zero(n, padding, after))))
        return now;
    if (!add_widths(pad, at, n, padding, after))
        return now;
    memcpy(padding + n, after, (size_t)n * sizeof *after);
    OpsMake m = {rw->cx, &rw->module->arena, now->span};
    Attr attr = ops_attr_ints(&m, "padding", 2 * (uint32_t)n, padding);
    const Attrs *attrs = attrs_with(m.arena, call->attrs, "padding", attr.value);
    if (average)
        attrs = attrs_with(m.arena, attrs, "count_include_pad", ops_attr_bool("", true).value);
    Expr **args = arena_copy(m.arena, call->args.at, call->args.n * sizeof *args);
    args[0] = pad->args.at[0];
    Expr *folded = expr_call(m.arena, now->span, call->callee, call->args.n, args, attrs);
    expr_keep_type(folded, old);
    return folded;
}

static Function *fold_paddings(PassRun *run, const Def *def)
{
    Rewriter rw;
    Places uses;
    count_uses(&def->fn->base, &run->scratch, &uses);
    pass_rewriter_init(&rw, run, fold, &uses);
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    return expr_as_function(now);
}

const Pass pass_fold_explicit_padding = {
    .name = "FoldExplicitPadding",
    .doc = "Moves a padding in front of a convolution or a pooling into its own.",
    .opt_level = 0,
    .needs_types = true,
    .function = fold_paddings,
};
