#include "cli/cli.h"

static const CliOption options[] = {
    {.letter = 'p',
     .name = "pipeline",
     .arg = "PIPELINE",
     .doc = "the passes, separated by commas; may be repeated; default `-O2`"},
    {.letter = 'O',
     .key = "O",
     .arg = "N",
     .number = true,
     .doc = "the level up to which passes run; not given: all that are named"},
    {.name = "disable", .arg = "A,B", .doc = "passes that do not run"},
    {.name = "require", .arg = "A,B", .doc = "passes that run at any level"},
    {.name = "config", .arg = "KEY=VALUE", .doc = "a setting of the pass context; may be repeated"},
    {.name = "print-after-all", .doc = "prints the module after each pass"},
    {.name = "diff", .doc = "prints what each pass changed, and why, in place of the module"},
    {.name = "columns",
     .arg = "N",
     .number = true,
     .most = 10000,
     .doc = "the width of that; from 160 on what was stands beside what is"},
    {.name = "time", .doc = "prints how long each pass took"},
    {.name = "html", .arg = "OUT", .doc = "writes what each pass changed, and why, into a page"},
    {.name = "trace", .arg = "OUT", .doc = "writes the same as JSON"},
    {.name = "params",
     .arg = "FILE",
     .doc = "parameters of the function by name, which become constants: .npz or .params"},
    {.name = "missing",
     .arg = "random|zeros",
     .doc = "what constants are that the metadata lacks; their types stand in comments"},
    {0},
};

const CliCommand cmd_opt = {
    .name = "opt",
    .args = "FILE",
    .doc = "Runs passes and prints the module after them.",
    .more = "A pipeline names passes, each with parameters in braces if it has any:\n"
            "    InferType,FoldConstant,FuseOps{fuse_opt_level=2}\n"
            "`-O0` to `-O3` in place of a pass stand for the default pipelines.\n",
    .options = options,
    .limits = true,
    .least = 1,
    .most = 1,
    .run = cli_stage_of_file,
};
