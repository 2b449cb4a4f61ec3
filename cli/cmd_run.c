#include "cli/cli.h"

static const CliOption options[] = {
    {.name = "entry", .arg = "NAME", .doc = "the function; default `main`"},
    {.name = "exec",
     .arg = "interp|jit|gpu",
     .doc = "the engine; default `jit` where it is built in"},
    {.name = "args",
     .arg = "FILE.json",
     .doc = "the arguments: an array, or an object by parameter name"},
    {.name = "arg", .arg = "NAME=FILE.npy", .doc = "one argument; may be repeated"},
    {.name = "bytes",
     .arg = "NAME=FILE",
     .doc = "one argument: the bytes of any file; may be repeated"},
    {.name = "params", .arg = "FILE", .doc = "arguments by parameter name, from .npz or .params"},
    {.name = "random",
     .arg = "SEED",
     .number = true,
     .doc = "uniform values for the tensors that remain"},
    {.name = "json", .doc = "prints the result as JSON, and diagnostics as JSON lines"},
    {.letter = 'o', .name = "out", .arg = "FILE", .doc = "writes the result: .npz, or .params"},
    {0},
};

const CliCommand cmd_run = {
    .name = "run",
    .args = "FILE",
    .doc = "Evaluates a function of a module, or an expression, and prints the value.",
    .options = options,
    .limits = true,
    .least = 1,
    .most = 1,
    .run = cli_stage_of_file,
};
