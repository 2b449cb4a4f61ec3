/* Writes a convolution of every b-th element, which was taken apart into batches, as one that is dilated.
 *
 *     %0 = nn.space_to_batch_nd(%x, block_shape=[2, 2], paddings=[[2, 3], [2, 3]]);
 *     %1 = nn.conv2d(%0, %w, padding=[0, 0, 0, 0], kernel_size=[3, 3], data_layout="NHWC", kernel_layout="HWIO");
 *     nn.batch_to_space_nd(%1, block_shape=[2, 2], crops=[[0, 1], [0, 1]])
 *  => nn.conv2d(%x, %w, padding=[2, 2, 2, 2], dilation=[2, 2], kernel_size=[3, 3], data_layout="NHWC", kernel_layout="HWIO")
 *
 * What is cropped must have been padded, and by zeros; for `qnn.conv2d`, by the zero point. */
#include "passes/pass.h"
#include "passes/qnn_lower.h"
#include "passes/types.h"

#include "stdlib/ops/ops.h"

#include <string.h>

static const Call *call_of(const Expr *e, const char *name)
{
    const Op *op = expr_call_of_op(e);
    return op && !strcmp(op->name, name) ? expr_as_call(e) : NULL;
}

/* Number `side` of the pair of one axis. */
static int64_t pair_at(const Attrs *attrs, const char *key, int axis, int side)
{
    const AttrValue *pair = &attrs_find(attrs, key)->list.at[axis];
    return pair->list.at[side].i;
}

static bool is_plain(const Attrs *conv)
{
    int at[4];
    int64_t strides[2], before[2], after[2];
    ops_ints(conv, "strides", 2, strides);
    ops_padding(conv, "padding", 2, before, after);
    Str layout = attrs_string(conv, "data_layout");
    return layout_positions(layout, "NCHW", at) && at[0] == 0 && at[2] == 1 && at[3] == 2 &&
           str_eq(ops_out_layout(conv, "data_layout", "out_layout"), layout) && strides[0] == 1 &&
           strides[1] == 1 && !before[0] && !before[1] && !after[0] && !after[1];
}

/* The blocks of both sides, and the padding that the crops leave; false when they do not belong together. */
static bool net_padding(const Attrs *apart, const Attrs *together, int64_t *blocks,
                        int64_t *padding)
{
    int64_t other[2];
    if (attrs_ints(apart, "block_shape", blocks, 2) != 2 ||
        attrs_ints(together, "block_shape", other, 2) != 2)
        return false;
    for (int i = 0; i < 2; i++) {
        padding[i] = pair_at(apart, "paddings", i, 0) - pair_at(together, "crops", i, 0);
        padding[i + 2] = pair_at(apart, "paddings", i, 1) - pair_at(together, "crops", i, 1);
        if (blocks[i] != other[i] || padding[i] < 0 || padding[i + 2] < 0)
            return false;
    }
    return true;
}

/* Whether what is put around the data is what the convolution would put there: its zero. */
static bool pads_by_zero(const Call *apart, const Call *conv)
{
    double zero = 0;
    return (conv->args.n == 2 || qnn_constant_number(conv->args.at[2], &zero)) &&
           attrs_float(apart->attrs, "pad_value") == zero;
}

static const Call *conv_of(const Expr *e)
{
    const Call *conv = call_of(e, "nn.conv2d");
    return conv ? conv : call_of(e, "qnn.conv2d");
}

static Expr *flatten(Rewriter *rw, const Expr *old, Expr *now)
{
    expr_keep_type(now, old);
    const Call *together = call_of(now, "nn.batch_to_space_nd");
    const Call *conv = together ? conv_of(together->args.at[0]) : NULL;
    const Call *apart = conv ? call_of(conv->args.at[0], "nn.space_to_batch_nd") : NULL;
    int64_t blocks[2], padding[4], dilation[2];
    if (!apart || !is_plain(conv->attrs) || !pads_by_zero(apart, conv) ||
        !net_padding(apart->attrs, together->attrs, blocks, padding))
        return now;
    ops_ints(conv->attrs, "dilation", 2, dilation);
    for (int i = 0; i < 2; i++)
        dilation[i] *= blocks[i];
    OpsMake m = {rw->cx, &rw->module->arena, now->span};
    const Attrs *attrs =
        attrs_with(m.arena, conv->attrs, "padding", ops_attr_ints(&m, "padding", 4, padding).value);
    attrs =
        attrs_with(m.arena, attrs, "dilation", ops_attr_ints(&m, "dilation", 2, dilation).value);
    Expr *args[6] = {apart->args.at[0]};
    for (uint32_t i = 1; i < conv->args.n && i < 6; i++)
        args[i] = conv->args.at[i];
    Expr *flat = expr_call(m.arena, now->span, conv->callee, conv->args.n, args, attrs);
    expr_keep_type(flat, old);
    return flat;
}

const Pass pass_flatten_atrous_conv = {
    .name = "FlattenAtrousConv",
    .doc = "Writes a convolution between space_to_batch_nd and batch_to_space_nd as one that is "
           "dilated.",
    .opt_level = 0,
    .needs_types = true,
    .rewrite = flatten,
};
