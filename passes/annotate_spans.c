/* Places and copies of nodes, for pipelines of others: nothing shows in the text. */
#include "passes/pass.h"

#include <string.h>

/* Nodes have places from the beginning, and what a pass makes takes over those of what it replaces. */
static Function *keep(PassRun *run, const Def *def)
{
    (void)run;
    return def->fn;
}

static Function *deduplicate(PassRun *run, const Def *def)
{
    if (strcmp(def->name->text, "main") != 0)
        return def->fn;
    return expr_as_function(ir_copy(run->cx, run->module, &def->fn->base));
}

const Pass pass_annotate_spans = {
    .name = "AnnotateSpans",
    .doc = "Sees to it that every node has a place in a text, as it has here anyway.",
    .opt_level = 0,
    .function = keep,
};

const Pass pass_deduplicate_expr = {
    .name = "DeduplicateExpr",
    .doc = "Gives every function and `let` of `@main` variables of their own.",
    .opt_level = 0,
    .function = deduplicate,
};
