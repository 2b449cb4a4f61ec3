/* Commands of the command line: one row each, in a file of its own; main.c has the table of all.
 *
 *     const CliCommand cmd_doctor = {
 *         .name = "doctor",
 *         .args = "",
 *         .doc = "Says what was found on this machine.",
 *         .run = run_doctor,
 *     };
 *
 * The options of a command stand in one table that parsing, help and the request to the session
 * read. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/attached.h"
#include "base/buf.h"
#include "include/relay.h"
#include "repl/show.h"

typedef struct CliCommand CliCommand;

typedef struct CliOption {
    char letter;                /* -p; 0: none */
    const char *name;           /* --pipeline; NULL: none */
    const char *arg; /* what its value is called, or `a|b|c`, all that it may be; NULL: none */
    const char *doc;
    bool number; /* the value is a number, not negative, */
    double most; /* and not above this; 0: any */
    bool seed; /* the value is a whole number below 2^64 */
    const char *key; /* in the request; NULL: the name */
} CliOption;

typedef struct CliArgs {
    const CliCommand *command;
    ColorMode color;
    RelayParam *params; /* the options that were given, in order */
    size_t n_params;
    char **operands;
    size_t n_operands;
} CliArgs;

struct CliCommand {
    const char *program; /* that has this command alone; NULL: relay */
    const char *name;
    const char *args; /* "FILE", "WORKLOAD…"; "" when it takes none */
    const char *doc; /* one sentence */
    const char *more; /* further lines of its help; NULL: none */
    const RelayCommand *(*list)(size_t *n); /* names and what they mean, for its help; NULL: none */
    const CliOption *options; /* ended by an empty row; NULL: none but those of every command */
    bool limits; /* works on programs: takes what these may use up, too, which face_init reads */
    size_t least, most; /* operands */
    int (*run)(const CliArgs *args);
    int (*raw)(int argc, char **argv); /* instead: parses its arguments itself */
};

/* Runs what `relay compile --emit exe` put behind this program, under the name argv[0]. The exit code. */
int cli_run_attached(const Attached *code, int argc, char **argv);

extern const CliCommand cmd_fmt, cmd_check, cmd_opt, cmd_run, cmd_compile, cmd_bench, cmd_new,
    cmd_import, cmd_summary, cmd_equal, cmd_analyze, cmd_kernel, cmd_lsp, cmd_explain, cmd_doctor,
    cmd_version, cmd_export;

/* ---- arguments ----------------------------------------------------------------------------- */

/* Parses what stands behind the command and runs it. Answers --help. The exit code. */
int cli_run(const CliCommand *command, int argc, char **argv);
/* The value of an option, the last that was given; NULL: not given. Options without a value have
 * "1". */
const char *cli_value(const CliArgs *args, const char *key);
/* Reports what is wrong with the command line, and where help is; RELAY_USAGE. */
int cli_wrong(const CliCommand *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Prints it on standard output; the exit code. */
int cli_help(const CliCommand *command);

/* ---- work ---------------------------------------------------------------------------------- */

/* What diagnostics call it. */
const char *cli_name_of(const char *path);
/* Takes the file (NULL: none) to a stage and shows what comes out. The exit code. */
int cli_stage(const CliArgs *args, const char *stage, const char *path);
/* The same with one more parameter in the request. */
int cli_stage_with(const CliArgs *args, const char *stage, const char *path, const char *key,
                   const char *value);
/* Takes bytes that are no file to a stage. */
int cli_stage_of_bytes(const CliArgs *args, const char *stage, const char *at, size_t n);
/* For `run` of commands that take one file to the stage of the same name. */
int cli_stage_of_file(const CliArgs *args);
/* For `run` of commands that ask the session about itself. */
int cli_stage_alone(const CliArgs *args);

#endif
