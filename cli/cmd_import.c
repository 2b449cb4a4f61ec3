#include "cli/cli.h"

static const CliOption options[] = {
    {.letter = 'o',
     .name = "out",
     .arg = "DIR",
     .doc = "the folder to write to; default: the one of now"},
    {.name = "shape", .arg = "NAME=1,3,224,224", .doc = "the shape of an input; may be repeated"},
    {.name = "check", .doc = "writes nothing: lists what Relay cannot say, and compares types"},
    {0},
};

static int run_import(const CliArgs *args)
{
    int worst = 0;
    for (size_t i = 0; i < args->n_operands; i++) {
        int status = cli_stage_with(args, "import", NULL, "model", args->operands[i]);
        worst = status > worst ? status : worst;
    }
    return worst;
}

const CliCommand cmd_import = {
    .name = "import",
    .args = "FILE…",
    .doc = "Turns a model of another framework into a program and its weights.",
    .more =
        "From MODEL.onnx come MODEL.rly and MODEL.npz, and a table of what became what. If Relay\n"
        "cannot say all of it, everything that it cannot is listed and nothing is written.\n"
        "With `--check` nothing is written either way, and the types that the model states are\n"
        "compared with those that the program has.",
    .options = options,
    .limits = true,
    .least = 1,
    .most = 1000,
    .run = run_import,
};
