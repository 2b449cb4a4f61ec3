#include "cli/cli.h"

const CliCommand cmd_doctor = {
    .name = "doctor",
    .args = "",
    .doc = "Says what it found on this machine, and what to do about what is missing.",
    .run = cli_stage_alone,
};
