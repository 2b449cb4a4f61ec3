#include "cli/cli.h"

#include <string.h>

static const CliOption options[] = {
    {.letter = 'o',
     .name = "out",
     .arg = "FILE.rly",
     .doc = "writes the program there, its weights and inputs beside it"},
    {.name = "seed", .arg = "N", .number = true, .doc = "other weights and inputs; default 0"},
    {0},
};

static int run_new(const CliArgs *args)
{
    if (strcmp(args->operands[0], "model") != 0)
        return cli_wrong(args->command, "`%s`: what can be made is a model", args->operands[0]);
    if (args->n_operands == 1)
        return cli_stage(args, "new", NULL);
    return cli_stage_with(args, "new", NULL, "model", args->operands[1]);
}

const CliCommand cmd_new = {
    .name = "new",
    .args = "model [NAME]",
    .doc = "Prints a network as a program; without NAME, lists the networks.",
    .more =
        "With `-o NAME.rly` the weights go to NAME.weights.npz and an example of the inputs to\n"
        "NAME.inputs.json, for `relay run NAME.rly --params … --args …`.",
    .options = options,
    .least = 1,
    .most = 2,
    .run = run_new,
};
