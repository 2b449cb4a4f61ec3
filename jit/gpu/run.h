/* Runs of compiled code on a card: what a DeviceProgram says, step by step (program.h).
 *
 * A run belongs to the unit whose code begins it. What it needs on the card for all its calls, the kernels and the constants, is brought
 * there by the first call, and again when the driver's context was made anew. Arguments go there where they are not there already; the
 * card works while the code goes on, and tensors stay there until something here reads them (twin.h). */
#ifndef JIT_GPU_RUN_H
#define JIT_GPU_RUN_H

#include "jit/gpu/program.h"
#include "jit/internal.h"

typedef struct DeviceRun DeviceRun;
/* The kernels that are loaded together. */
typedef struct DeviceCode DeviceCode;

/* Opens the card, and finds for which target code is made; false: `why` says why there is none. */
bool device_open(Jit *jit, Buf *why);
void device_close(Jit *jit);

/* In the arena, whose end takes from the card what lies there. NULL when memory is refused. */
DeviceCode *device_code_make(Jit *jit, Arena *arena);
DeviceRun *device_run_make(DeviceCode *code, Arena *arena, const DeviceProgram *p);
const DeviceProgram *device_run_program(const DeviceRun *r);

typedef struct DeviceValue {
    void *at; /* its elements */
    const Tensor *tensor; /* that they are of; NULL: a number's */
} DeviceValue;

/* The arguments, then the results: numbers are there at once, tensors behind twins_home. False after a diagnostic. */
bool device_run(DeviceRun *r, const DeviceValue *values);
/* What queue.c does with a run and all that it is given: its steps are launched, as a graph where they were before; or one by one. */
typedef struct DeviceTaken DeviceTaken;
bool device_run_take(const DeviceTaken *t);
bool device_run_launch(const DeviceTaken *t);
/* The end of a call from outside, which ran or failed: the card has done its work, and values are here, unless they are to be left
 * there. False after a diagnostic. */
bool device_end(Jit *jit, bool ran);

#endif
