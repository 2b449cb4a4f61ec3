/* Products of the same batch of matrices with several batches as one.
 *
 *     (nn.batch_matmul(%x, %a, transpose_b=True), nn.batch_matmul(%x, %b, transpose_b=True))
 *  => %0 = nn.batch_matmul(%x, concatenate((%a, %b), axis=1), transpose_b=True); (strided_slice(%0, …), strided_slice(%0, …)) */
#include "passes/combine_parallel.h"
#include "passes/types.h"

static bool same_depth(const Call *a, const Call *b)
{
    static const char *const keys[] = {"out_dtype", "transpose_a", "transpose_b", NULL};
    const Type *ta = expr_tensor_type(a->args.at[1]), *tb = expr_tensor_type(b->args.at[1]);
    return combine_same_attrs(a, b, keys) && !attrs_bool(a->attrs, "transpose_a") &&
           attrs_bool(a->attrs, "transpose_b") && dtype_eq(ta->dtype, tb->dtype) && ta->n == 3 &&
           ta->dims[0] == tb->dims[0] && ta->dims[2] == tb->dims[2];
}

static int rows_axis(const Call *call)
{
    (void)call;
    return 1;
}

static int out_axis(const Call *call)
{
    (void)call;
    return -1;
}

static Expr *whole(const OpsMake *m, const Call *first, Expr *data, Expr *weight, int64_t size)
{
    (void)size;
    Expr *args[2] = {data, weight};
    return expr_call(m->arena, m->span, first->callee, 2, args, first->attrs);
}

static const Combiner how = {.op = "nn.batch_matmul",
                             .from_end = true,
                             .alike = same_depth,
                             .weight_axis = rows_axis,
                             .out_axis = out_axis,
                             .whole = whole};

static Function *combine(PassRun *run, const Def *def)
{
    return combine_parallel(run, def, &how, attrs_int(run->params, "min_num_branches", 3));
}

const Pass pass_combine_parallel_batch_matmul = {
    .name = "CombineParallelBatchMatmul",
    .doc = "Makes one product of several of the same batch of matrices.",
    .opt_level = 4,
    .needs_types = true,
    .order = ORDER_ALL,
    .params = combine_params,
    .function = combine,
};
