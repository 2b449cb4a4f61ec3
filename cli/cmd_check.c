#include "cli/cli.h"

static const CliOption options[] = {
    {.name = "json", .doc = "diagnostics as JSON lines"},
    {.name = "explain", .doc = "shows how inference got to the types, step by step"},
    {0},
};

const CliCommand cmd_check = {
    .name = "check",
    .args = "FILE",
    .doc = "Infers types and prints the module with every type filled in.",
    .options = options,
    .least = 1,
    .most = 1,
    .run = cli_stage_of_file,
};
