#include "cli/cli.h"

static const CliOption options[] = {
    {.name = "entry", .arg = "NAME", .doc = "the function that is asked about; default `main`"},
    {.name = "number", .arg = "K", .doc = "for `intermediate_expr`: which one", .number = true},
    {.name = "missing",
     .arg = "random|zeros",
     .doc = "what constants are that the metadata lacks; their types stand in comments"},
    {0},
};

static int run_analyze(const CliArgs *args)
{
    if (args->n_operands == 0)
        return cli_stage_alone(args);
    if (args->n_operands == 1)
        return cli_wrong(args->command, "what is `%s` to be asked about?", args->operands[0]);
    return cli_stage_with(args, "analyze", args->operands[1], "analysis", args->operands[0]);
}

const CliCommand cmd_analyze = {
    .name = "analyze",
    .args = "[NAME FILE]",
    .doc = "Answers a question about a program: variables, features, costs, the call graph.",
    .more = "Without arguments it lists the questions; docs/analyses.md explains them.\n",
    .options = options,
    .limits = true,
    .most = 2,
    .run = run_analyze,
};
