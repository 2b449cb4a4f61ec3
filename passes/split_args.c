/* Splits what joins more tensors than a kernel may have arguments.
 *
 *     concatenate((%a, %b, %c, %d, %e))                       with max_function_args=3
 *  => concatenate((annotation.stop_fusion(concatenate((%a, %b))), annotation.stop_fusion(concatenate((%c, %d))), …)) */
#include "passes/pass.h"
#include "passes/types.h"

#include "stdlib/ops/ops.h"

#include <string.h>

static Expr *split(Rewriter *rw, const Expr *old, Expr *now)
{
    PassRun *run = rw->data;
    const Op *op = expr_call_of_op(now);
    const Call *call = expr_as_call(now);
    int64_t limit = attrs_int(run->params, "max_function_args", -1) - 1; /* one is the result */
    const Tuple *all =
        op && !strcmp(op->name, "concatenate") ? expr_as_tuple(call->args.at[0]) : NULL;
    expr_keep_type(now, old);
    if (!all || limit < 1 || (int64_t)all->fields.n < limit)
        return now;
    OpsMake m = {rw->cx, &rw->module->arena, now->span};
    uint32_t step = (uint32_t)limit, n = (all->fields.n + step - 1) / step;
    Expr **groups = arena_new_array(&run->scratch, Expr *, n);
    for (uint32_t i = 0; groups && i < n; i++) {
        uint32_t from = i * step, rest = all->fields.n - from;
        Expr *part = expr_tuple(m.arena, m.span, rest < step ? rest : step, all->fields.at + from);
        part = expr_call(m.arena, m.span, call->callee, 1, &part, call->attrs);
        groups[i] = ops_call1(&m, "annotation.stop_fusion", part);
    }
    if (!groups)
        return NULL;
    Expr *whole = expr_tuple(m.arena, m.span, n, groups);
    return expr_call(m.arena, m.span, call->callee, 1, &whole, call->attrs);
}

static const OpAttr params[] = {
    {"max_function_args", ATTR_TYPE_INT, .otherwise = ATTR_DEFAULT_INT(-1), .least = -1,
     .most = INT64_MAX,
     .doc = "how many arguments a kernel may have, its result included; -1: any number"},
    {0},
};

const Pass pass_split_args = {
    .name = "SplitArgs",
    .doc = "Joins many tensors in groups, so that no kernel has too many arguments.",
    .opt_level = 1,
    .needs_types = true,
    .params = params,
    .rewrite = split,
};
