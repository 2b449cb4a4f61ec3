/* Divides by constants in that it multiplies with what one is when it is divided by them.
 *
 *     divide(%x, 4f)      =>      multiply(%x, 0.25f) */
#include "passes/fold.h"
#include "passes/types.h"

#include "stdlib/ops/ops.h"

static Expr *to_product(Rewriter *rw, const Expr *old, Expr *now)
{
    const Op *op = expr_call_of_op(now);
    expr_keep_type(now, old);
    if (!op || op != op_find(rw->cx, str_of("divide")))
        return now;
    const Call *call = expr_as_call(now);
    const Type *t = expr_tensor_type(call->args.at[1]);
    if (call->args.at[1]->kind != EXPR_CONSTANT || !t || !dtype_is_float(t->dtype))
        return now;
    OpsMake m = {rw->cx, &rw->module->arena, now->span};
    Expr *inverse =
        fold_new(rw->cx, rw->module,
                 ops_call2(&m, "divide", ops_constant(&m, t->dtype, 1), call->args.at[1]));
    Expr *product = ops_call2(&m, "multiply", call->args.at[0], inverse);
    if (product)
        expr_type_ops(rw->cx, product);
    return product;
}

const Pass pass_div_to_mul = {
    .name = "DivToMul",
    .doc = "Divides by constants in that it multiplies.",
    .opt_level = 0,
    .reorders = true,
    .needs_types = true,
    .order = ORDER_ALL,
    .before = "FoldConstant",
    .rewrite = to_product,
};
