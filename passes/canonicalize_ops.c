/* Writes operators that are short forms in terms of others, so that fewer kinds have to be looked for.
 *
 *     nn.bias_add(%x, %b)  on (1, 2, 4, 4)  =>  add(%x, expand_dims(%b, axis=1, num_newaxis=2)) */
#include "passes/pass.h"
#include "passes/types.h"

#include "stdlib/ops/ops.h"

static Expr *bias_to_add(Rewriter *rw, const Call *call)
{
    const Type *t = expr_tensor_type(call->args.at[0]);
    int rank = t ? (int)t->n : 0, axis = ops_axis(call->attrs, "axis", rank);
    if (!t || !ops_is_along(rw->cx, call->args.at[1], t, axis))
        return NULL;
    OpsMake m = {rw->cx, &rw->module->arena, call->base.span};
    return ops_call2(&m, "add", call->args.at[0],
                     ops_expand_to_axis(&m, call->args.at[1], rank, axis));
}

static Expr *canonicalize(Rewriter *rw, const Expr *old, Expr *now)
{
    const Op *op = expr_call_of_op(now);
    expr_keep_type(now, old);
    Expr *simple = op && op == op_find(rw->cx, str_of("nn.bias_add"))
                       ? bias_to_add(rw, expr_as_call(now))
                       : NULL;
    return simple ? expr_type_ops(rw->cx, simple) : now;
}

const Pass pass_canonicalize_ops = {
    .name = "CanonicalizeOps",
    .doc = "Writes `nn.bias_add` as `add`.",
    .opt_level = 3,
    .needs_types = true,
    .rewrite = canonicalize,
};
