/* Schedules by hand: `split i 16; vectorise i4` are primitives by name, on the loops and buffers as they are printed. */
#ifndef SCHED_HAND_H
#define SCHED_HAND_H

#include "base/buf.h"
#include "loop/primitive.h"

/* Why they are refused where several nests are. */
#define HAND_ONE_KERNEL "steps by hand are for one kernel, and here are several"

/* The names of the steps by number; NULL behind the last. */
const char *hand_name(size_t i);
/* Where steps begin behind an expression; NULL: there are none. */
const char *hand_steps(const char *text, size_t len);
/* Whether this word stands there alone: `direct`, where strategies are to decide after all, but take no fast transforms, or `plain`. */
bool hand_is(const char *steps, const char *word);
/* Applies them one after the other; false when one cannot be, then `why` says which. The nest is of no use then. */
bool hand_apply(Nest *n, const char *steps, Buf *why);

#endif
