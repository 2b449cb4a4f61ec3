/* Convolutions of the same data, whose kernels have the same size, as one with all their channels.
 *
 *     (nn.conv2d(%x, %a, channels=3, …), nn.conv2d(%x, %b, channels=5, …))
 *  => %0 = nn.conv2d(%x, concatenate((%a, %b)), channels=8, …); (strided_slice(%0, …), strided_slice(%0, …)) */
#include "passes/combine_parallel.h"
#include "passes/types.h"

static bool same_kernels(const Call *a, const Call *b)
{
    static const char *const keys[] = {"strides",       "padding",    "dilation",  "data_layout",
                                       "kernel_layout", "out_layout", "out_dtype", NULL};
    const Type *ta = expr_tensor_type(a->args.at[1]), *tb = expr_tensor_type(b->args.at[1]);
    int at[4];
    if (attrs_int(a->attrs, "groups", 1) != 1 || attrs_int(b->attrs, "groups", 1) != 1 ||
        !combine_same_attrs(a, b, keys) || !dtype_eq(ta->dtype, tb->dtype) || ta->n != 4 ||
        !layout_positions(attrs_string(a->attrs, "kernel_layout"), "OIHW", at) ||
        !layout_positions(ops_out_layout(a->attrs, "data_layout", "out_layout"), "NCHW",
                          (int[4]){0}))
        return false;
    return ta->dims[at[2]] == tb->dims[at[2]] && ta->dims[at[3]] == tb->dims[at[3]];
}

static int kernels_axis(const Call *call)
{
    int at[4];
    layout_positions(attrs_string(call->attrs, "kernel_layout"), "OIHW", at);
    return at[0];
}

static int channels_axis(const Call *call)
{
    int at[4];
    layout_positions(ops_out_layout(call->attrs, "data_layout", "out_layout"), "NCHW", at);
    return at[1];
}

static Expr *whole(const OpsMake *m, const Call *first, Expr *data, Expr *weight, int64_t size)
{
    const Attrs *attrs =
        attrs_with(m->arena, first->attrs, "channels", (AttrValue){.kind = ATTR_INT, .i = size});
    Expr *args[2] = {data, weight};
    return expr_call(m->arena, m->span, first->callee, 2, args, attrs);
}

static const Combiner how = {.op = "nn.conv2d",
                             .alike = same_kernels,
                             .weight_axis = kernels_axis,
                             .out_axis = channels_axis,
                             .whole = whole};

static Function *combine(PassRun *run, const Def *def)
{
    return combine_parallel(run, def, &how, attrs_int(run->params, "min_num_branches", 3));
}

const Pass pass_combine_parallel_conv2d = {
    .name = "CombineParallelConv2D",
    .doc = "Makes one convolution of several of the same data.",
    .opt_level = 4,
    .needs_types = true,
    .order = ORDER_ALL,
    .params = combine_params,
    .function = combine,
};
