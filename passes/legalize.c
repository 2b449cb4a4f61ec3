/* What a target wants operators to be written as. No target here asks for anything: the engines compute every operator as it is. The
 * passes are named in pipelines of others. */
#include "passes/pass.h"

static Function *keep(PassRun *run, const Def *def)
{
    (void)run;
    return def->fn;
}

const Pass pass_legalize = {
    .name = "Legalize",
    .doc = "Writes operators as a target wants them; without one as they are.",
    .opt_level = 1,
    .needs_types = true,
    .function = keep,
};

const Pass pass_qnn_legalize = {
    .name = "qnn.Legalize",
    .doc = "The same for operators on quantised numbers.",
    .opt_level = 1,
    .needs_types = true,
    .function = keep,
};
