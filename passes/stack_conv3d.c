/* Writes a convolution over three axes as one over two: for each place of the result along the first axis the planes that the kernel sees there
 * are the channels of an image.
 *
 *     nn.conv3d(%x, %w)        // 8 planes of 16 channels, weights of 32 by 16 channels, 3 by 3 by 3
 *  => %0 = stack((%x[planes 0 .. 6], %x[planes 1 .. 7], %x[planes 2 .. 8]), axis=2);         // 6 images of 48 channels
 *     transpose(nn.conv2d(%0, reshape(%w, newshape=[32, 48, 3, 3])), …)
 *
 * The copy is as many times as large as the kernel is deep; what it gains are the strategies for images, fast transforms among them. */
#include "passes/pass.h"
#include "passes/types.h"

#include "stdlib/ops/ops.h"

#include <string.h>

/* With fewer channels the copies cost what is gained. */
enum { CHANNELS_LEAST = 16 };

enum { AXES = 3, RANK = 2 + AXES, DEPTH_MOST = 16 };

typedef struct Deep {
    const Type *x, *w, *out;
    int64_t step[AXES], dilation[AXES], before[AXES], after[AXES];
} Deep;

static bool find_deep(const Call *call, Deep *d)
{
    const Attrs *a = call->attrs;
    d->x = expr_tensor_type(call->args.at[0]);
    d->w = expr_tensor_type(call->args.at[1]);
    d->out = expr_tensor_type(&call->base);
    if (!type_has_extents(d->x, RANK) || !type_has_extents(d->w, RANK) ||
        !type_has_extents(d->out, RANK) || !str_is(attrs_string(a, "data_layout"), "NCDHW") ||
        !str_is(ops_out_layout(a, "data_layout", "out_layout"), "NCDHW") ||
        !str_is(attrs_string(a, "kernel_layout"), "OIDHW") || attrs_int(a, "groups", 1) != 1 ||
        !dtype_is_float(d->x->dtype) || !dtype_eq(d->x->dtype, d->w->dtype) ||
        !dtype_eq(d->x->dtype, d->out->dtype))
        return false;
    ops_ints(a, "strides", AXES, d->step);
    ops_ints(a, "dilation", AXES, d->dilation);
    ops_padding(a, "padding", AXES, d->before, d->after);
    bool fits = d->w->dims[2] <= DEPTH_MOST && d->w->dims[3] * d->w->dims[4] > 1 &&
                d->out->dims[1] >= CHANNELS_LEAST;
    for (int i = 0; i < AXES; i++)
        fits &= d->before[i] >= 0 && d->after[i] >= 0;
    return fits;
}

/* An image for each place along the first axis, of the channels of the planes that the kernel sees. */
static Expr *stacked(const OpsMake *m, const Deep *d, Expr *x)
{
    static const int64_t order[RANK + 1] = {0, 3, 1, 2, 4, 5}, second[1] = {2};
    const Dim *in = d->x->dims, *out = d->out->dims;
    int64_t depth = d->w->dims[2];
    int64_t before[RANK] = {0, 0, d->before[0]}, after[RANK] = {0, 0, d->after[0]};
    Expr *planes[DEPTH_MOST];
    x = ops_padded(m, x, ops_constant(m, d->x->dtype, 0), RANK, before, after);
    for (int64_t k = 0; k < depth; k++) {
        int64_t begin = k * d->dilation[0], end = begin + (out[2] - 1) * d->step[0] + 1;
        Attr part[4] = {ops_attr_ints(m, "begin", 1, &begin), ops_attr_ints(m, "end", 1, &end),
                        ops_attr_ints(m, "strides", 1, d->step),
                        ops_attr_ints(m, "axes", 1, second)};
        planes[k] = ops_call(m, "strided_slice", 1, &x, 4, part);
    }
    Expr *all = expr_tuple(m->arena, m->span, (uint32_t)depth, planes);
    Attr axis = ops_attr_int("axis", 2);
    Expr *stack = ops_call(m, "stack", 1, &all, 1, &axis);
    int64_t whole[4] = {out[0] * out[2], in[1] * depth, in[3], in[4]};
    return ops_call_ints(m, "reshape",
                         ops_call_ints(m, "transpose", stack, "axes", RANK + 1, order), "newshape",
                         4, whole);
}

static Expr *to_images(Rewriter *rw, const Expr *old, Expr *now)
{
    static const int64_t order[RANK] = {0, 2, 1, 3, 4};
    const Op *op = expr_call_of_op(now);
    Deep d;
    expr_keep_type(now, old);
    if (!op || strcmp(op->name, "nn.conv3d") != 0 || !find_deep(expr_as_call(now), &d))
        return now;
    const Call *call = expr_as_call(now);
    const Dim *w = d.w->dims, *out = d.out->dims;
    OpsMake m = {rw->cx, &rw->module->arena, now->span};
    int64_t kernel[4] = {w[0], w[1] * w[2], w[3], w[4]};
    int64_t around[4] = {d.before[1], d.before[2], d.after[1], d.after[2]};
    int64_t apart[RANK] = {out[0], out[2], out[1], out[3], out[4]};
    Expr *args[2] = {stacked(&m, &d, call->args.at[0]),
                     ops_call_ints(&m, "reshape", call->args.at[1], "newshape", 4, kernel)};
    Attr attrs[5] = {ops_attr_ints(&m, "strides", 2, d.step + 1),
                     ops_attr_ints(&m, "padding", 4, around),
                     ops_attr_ints(&m, "dilation", 2, d.dilation + 1),
                     ops_attr_int("channels", w[0]), ops_attr_ints(&m, "kernel_size", 2, w + 3)};
    Expr *y = ops_call(&m, "nn.conv2d", 2, args, 5, attrs);
    y = ops_call_ints(&m, "transpose", ops_call_ints(&m, "reshape", y, "newshape", RANK, apart),
                      "axes", RANK, order);
    return y ? expr_type_ops(rw->cx, y) : now;
}

const Pass pass_stack_conv3d = {
    .name = "StackConv3D",
    .doc = "Writes convolutions over three axes as such over two, of images whose channels are the "
           "planes that the kernel sees.",
    .opt_level = 2,
    .reorders = true,
    .needs_types = true,
    .rewrite = to_images,
};
