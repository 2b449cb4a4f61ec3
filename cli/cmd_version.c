#include "cli/cli.h"

const CliCommand cmd_version = {
    .name = "version",
    .args = "",
    .doc = "Prints the versions of the program and of its libraries.",
    .run = cli_stage_alone,
};
