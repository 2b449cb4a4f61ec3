#include "cli/cli.h"

static const CliOption options[] = {
    {.name = "emit", .arg = "KIND", .doc = "what to make"},
    {.name = "target",
     .arg = "GPU",
     .doc = "what ptx, or the loops of lowered, are for: sm_80, sm_86, sm_89, sm_90 or sm_90a; "
            "default for ptx: sm_80"},
    {.name = "entry",
     .arg = "NAME",
     .doc = "the function; default `main`; of lib and header all, and it may be repeated"},
    {.letter = 'o',
     .name = "out",
     .arg = "FILE",
     .doc = "where to write it; default standard output"},
    {.name = "params",
     .arg = "FILE",
     .doc = "parameters of the function by name, which become constants: .npz or .params"},
    {.letter = 'O',
     .key = "O",
     .arg = "N",
     .number = true,
     .doc = "the level of the pipeline before code is made; default 2; 0: as written"},
    {.name = "exact", .doc = "no sum in another order than written, nothing approximated"},
    {.name = "tf32", .doc = "on a card, products of float32 may round their factors to TF32"},
    {.name = "missing",
     .arg = "random|zeros",
     .doc = "what constants are that the metadata lacks; their types stand in comments"},
    {0},
};

static int run_compile(const CliArgs *args)
{
    if (!cli_value(args, "emit"))
        return cli_wrong(args->command, "--emit KIND is missing");
    return cli_stage_of_file(args);
}

const CliCommand cmd_compile = {
    .name = "compile",
    .args = "FILE",
    .doc = "Compiles a module ahead of time.",
    .list = relay_kinds,
    .options = options,
    .limits = true,
    .least = 1,
    .most = 1,
    .run = run_compile,
};
