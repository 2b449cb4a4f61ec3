/* Puts in place of each training-time operator what it means at inference: the rows' `inference`.
 *
 *     nn.dropout(%x).0                  =>  %x
 *     nn.l2_normalize(%x, eps=1e-5f)    =>  divide(%x, sqrt(maximum(sum(multiply(%x, %x)), 1e-5f))) */
#include "passes/pass.h"
#include "passes/types.h"

#include "ir/op.h"

/* What stands for the field `index` of the call's result, -1: for all of it. NULL: it stays. */
static Expr *at_inference(Rewriter *rw, const Expr *e, int64_t index)
{
    const Op *op = expr_call_of_op(e);
    return op && op->inference ? op->inference(rw->cx, &rw->module->arena, expr_as_call(e), index)
                               : NULL;
}

static Expr *to_inference(Rewriter *rw, const Expr *old, Expr *now)
{
    const TupleGet *get = expr_as_tuple_get(now);
    expr_keep_type(now, old);
    Expr *simple = get ? at_inference(rw, get->tuple, get->index) : at_inference(rw, now, -1);
    return simple ? expr_type_ops(rw->cx, simple) : now;
}

const Pass pass_simplify_inference = {
    .name = "SimplifyInference",
    .doc = "Turns training-time operators into what they mean at inference.",
    .opt_level = 0,
    .reorders = true,
    .needs_types = true,
    .order = ORDER_ALL,
    .rewrite = to_inference,
};
