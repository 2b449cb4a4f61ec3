#include "cli/cli.h"

static const CliOption options[] = {
    {.name = "json", .doc = "diagnostics as JSON lines"},
    {.name = "explain", .doc = "shows how inference got to the types, step by step"},
    {.name = "comments",
     .arg = "types|spans|both|none",
     .doc = "what stands in comments; default `types`; `spans`: where nodes were written"},
    {.name = "digits",
     .arg = "short|six",
     .doc = "of floats: as few as read back, or six, as the original prints"},
    {.name = "strict",
     .doc = "refuses what the original could not read, or reads as something else"},
    {.name = "missing",
     .arg = "random|zeros",
     .doc = "what constants are that the metadata lacks; their types stand in comments"},
    {0},
};

const CliCommand cmd_check = {
    .name = "check",
    .args = "FILE",
    .doc = "Infers types and prints the module with every type filled in.",
    .options = options,
    .limits = true,
    .least = 1,
    .most = 1,
    .run = cli_stage_of_file,
};
