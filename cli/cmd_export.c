#include "cli/cli.h"

static const CliOption options[] = {
    {.name = "to", .arg = "onnx", .doc = "the format to write; default `onnx`"},
    {.letter = 'o',
     .name = "out",
     .arg = "FILE",
     .doc = "the file to write; default: the program's name with the format's ending"},
    {.name = "entry", .arg = "NAME", .doc = "the function that is the model; default `main`"},
    {.name = "params",
     .arg = "FILE",
     .doc = "parameters of the function by name, which become weights: .npz or .params"},
    {0},
};

const CliCommand cmd_export = {
    .name = "export",
    .args = "FILE|DIR",
    .doc = "Turns a program and its weights into a model of another framework.",
    .more =
        "Parameters without an array are the model's inputs. If the format cannot say all of it,\n"
        "everything that it cannot is listed and nothing is written.",
    .options = options,
    .limits = true,
    .least = 1,
    .most = 1,
    .run = cli_stage_of_file,
};
