#include "cli/cli.h"

static const CliOption options[] = {
    {.name = "entry", .arg = "NAME", .doc = "the function that comes first; default `main`"},
    {.name = "params",
     .arg = "FILE",
     .doc = "parameters of the function by name, which become constants: .npz or .params"},
    {.name = "missing",
     .arg = "random|zeros",
     .doc = "what constants are that the metadata lacks; their types stand in comments"},
    {0},
};

const CliCommand cmd_summary = {
    .name = "summary",
    .args = "FILE|DIR",
    .doc = "Lists the calls of a network with shapes, weights, multiply-adds and memory.",
    .more = "Weights are the parameters that operators take as weight, bias, gamma, beta and the "
            "like.\n"
            "A function that calls itself counts once.",
    .options = options,
    .limits = true,
    .least = 1,
    .most = 1,
    .run = cli_stage_of_file,
};
