/* The test runner: one file, one verdict.
 *
 *     runner [--engines interp,jit] [--bless] FILE
 *
 * What a file expects stands in the file, or beside it in NAME.out:
 *   RUN lines      `// RUN: relay opt -p FoldConstant %s`, run by the shell in the root of the source tree; `%s` is the
 *                  file, `%t` a path that is free. The output is compared with NAME.out (golden) or, where the file
 *                  has them, with `// CHECK:`, `// CHECK-NEXT:` and `// CHECK-NOT:` lines. What goes to standard error
 *                  follows after `--- stderr`, an exit status other than 0 after `--- exit`.
 *   values         `add(1, 2)  // => 3` in a file without RUN lines: each such line ends a cell, and the cell's value must
 *                  read so; `// ~> 0.333` allows the last digits to differ. `foo(1)  // error: E0104` and `// warning:`
 *                  expect a diagnostic on that line; such a cell ends at the next blank line. A cell without an
 *                  expectation must run without an error. All cells are run by every engine; for `auto` every
 *                  definition is hot.
 *   transcripts    NAME.txt and the fenced blocks of NAME.md that begin with a prompt: input after `relay> `, continued after
 *                  `  ...> `, or a command after `$ relay`; output below. `...` stands for any text in a line, alone on its
 *                  line for any lines. Fenced blocks marked `relay` in NAME.md are run as files of values.
 * `--bless` writes what happens into the file. `// NEEDS: jit` skips the file (status 77) where that engine is absent. */
#ifndef TESTS_RUNNER_H
#define TESTS_RUNNER_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct Line {
    const char *at;
    size_t n; /* without the line end */
} Line;

typedef struct Test {
    const char *path;    /* as given, below the root of the source tree */
    const char *engines; /* comma-separated */
    bool bless;
    Line *lines;
    size_t n_lines;
    char *scratch; /* a folder for temporary files, removed at the end */
    int failures;
} Test;

/* Says on standard output what is wrong at `line`, counted from 1; 0 is the file as a whole. */
void test_fail(Test *t, size_t line, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool read_file(const char *path, Buf *out);
bool write_file(const char *path, const Buf *text);

bool line_starts(Line l, const char *prefix);
bool line_blank(Line l);
/* What follows `mark` in the line, trimmed; false when the mark is not there. */
bool line_after(Line l, const char *mark, Line *rest);

/* Runs `command` in the shell; its exit status, and what it printed. A signal or the status of an
   internal error is a failure of the test whatever was expected. */
int shell_run(Test *t, size_t line, Line command, Buf *out, Buf *err);

/* runner_golden.c */
bool golden_wanted(const Test *t);
void golden_run(Test *t);
/* runner_cells.c: the lines [from, to) as a file of values, by one engine. */
void cells_run(Test *t, const char *engine, size_t from, size_t to);
/* runner_transcript.c */
void transcript_run(Test *t);

#endif
