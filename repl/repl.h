/* The face in the terminal: the prompt, and scripts that run as if they were typed.
 *
 *     return repl_run(&(ReplOptions){.engine = "interp"}); */
#ifndef REPL_REPL_H
#define REPL_REPL_H

#include "repl/show.h"

typedef struct ReplOptions {
    const char *engine;         /* NULL: the best that is built in */
    ColorMode color;
    bool
        plain; /* for who hears the screen: lines as the terminal sends them, no colours, nothing drawn again */
    int columns; /* answers are as wide; 0: as the terminal is */
    const RelayParam *params; /* options of the session by name; others are left out */
    size_t n_params;
} ReplOptions;

/* Reads cells from standard input until it ends or the person leaves: with prompts on a terminal,
 * else as a script whose cells are the shortest runs of lines that are whole. */
RelayStatus repl_run(const ReplOptions *options);

/* Runs files, "-" for standard input, each as one cell after the other in one session. The worst
 * status of all. */
RelayStatus repl_run_files(const ReplOptions *options, size_t n, char *const *paths);

#endif
