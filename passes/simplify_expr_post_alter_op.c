/* What pipelines of the original name behind AlterOpLayout. There it is a part of SimplifyExpr, for the layouts that came in; every rule
 * of that keeps the result, so here it is all of them. */
#include "passes/pass.h"

const Pass pass_simplify_expr_post_alter_op = {
    .name = "SimplifyExprPostAlterOp",
    .doc = "SimplifyExpr once more, for what AlterOpLayout left.",
    .opt_level = 0,
    .reorders = true,
    .needs_types = true,
    .parts = "SimplifyExpr",
};
