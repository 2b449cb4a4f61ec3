/* Runs on a card that follow each other as they did before, as one graph of launches: the steps of a recurrence, of a stack of layers or
 * of training are then asked for once and not one by one.
 *
 * What is asked for between two looks at the card (something goes there or comes back) is a sequence of runs with the places of their
 * buffers. Numbers that they are given lie together, in their order, and go there at once, so they may be others each time. A sequence that
 * is new is launched as it comes and remembered. While runs come as in one that is
 * remembered they wait, and behind the last one all are one graph, which is made the first time. Where something else comes, or somebody
 * looks, those that wait are launched one by one. So nobody decides beforehand what repeats, and the host's control flow goes on as ever. */
#ifndef JIT_GPU_QUEUE_H
#define JIT_GPU_QUEUE_H

#include "jit/gpu/run.h"

/* A run with what it is given. */
struct DeviceTaken {
    DeviceRun *r;
    uint64_t *given; /* by buffer: its address; of a number its bits, until it has a place */
    Span span;
};

/* Takes over `given`. False after a diagnostic. */
bool queue_take(Jit *jit, const DeviceTaken *t);
/* The same for a run that does not only launch: what waits is launched, and its numbers are brought and have addresses. The caller goes on. */
bool queue_numbers(Jit *jit, const DeviceTaken *t);
/* The sequence ends here: nothing waits any more. False after a diagnostic. */
bool queue_settle(Jit *jit);
/* Forgets the sequences with this run, which ends; NULL: all. Runs end between calls, and each call waits for the card at its end, so that
 * none of them is one that somebody wants and that is not launched yet. */
void queue_forget(Jit *jit, const DeviceRun *r);

#endif
