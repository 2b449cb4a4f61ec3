/* What long work is at, for people who wait: the parts that are under way, one in the other.
 *
 *     unsigned outer = progress_enter(p, "passes", "", n);
 *     for (…) progress_step(p, i);
 *     progress_leave(p, outer);
 *
 * The thread that does the work enters and leaves, at no cost that counts; any thread may look. Words are constants of the program, so
 * whoever looks late sees an old word and never a lost one. A NULL progress notes nothing. */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include "base/buf.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct ProgressPart {
    _Atomic(const char *) what; /* "passes" */
    _Atomic(const char *) unit; /* "operators"; "": what it is says that already */
    _Atomic(const char *) step; /* "FuseOps"; "": no name */
    atomic_uint_least64_t done, total; /* total 0: nobody knows */
} ProgressPart;

enum { PROGRESS_MOST = 4 }; /* deeper ones are not told */

typedef struct Progress {
    ProgressPart parts[PROGRESS_MOST];
    atomic_uint depth;
} Progress;

/* Nothing is under way. */
void progress_begin(Progress *p);
/* Begins a part inside those that are under way; gives what is to be said at its end. */
unsigned progress_enter(Progress *p, const char *what, const char *unit, uint64_t total);
void progress_leave(Progress *p, unsigned outer);
/* So much of the innermost part is done. */
void progress_step(Progress *p, uint64_t done);
/* It is at this step. */
void progress_name(Progress *p, const char *step);
/* Where who does the work counts it; NULL when nothing is under way. */
atomic_uint_least64_t *progress_count(Progress *p);

/* In words, in one line: "passes 3 of 26, FuseOps"; nothing when nothing is under way. Gives the share that is done, negative where nobody
 * knows. */
double progress_print(const Progress *p, Buf *out);

#endif
