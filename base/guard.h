/* Work that can be left at once, from anywhere within it: because memory is gone, or because it died.
 *
 * A guard is a place to which the thread comes back. What the work had begun and not finished stays as it is, locks included, so that
 * whoever guards must do without what it was changing. Guards lie in each other; each is for one cause, and what leaves one leaves all
 * within it. That a library which works on memory of its own dies need not end the process: clang treats its own crashes so
 * (llvm/Support/CrashRecoveryContext.h). */
#ifndef BASE_GUARD_H
#define BASE_GUARD_H

#include <stdbool.h>
#include <stddef.h>

typedef enum GuardCause {
    GUARD_MEMORY, /* left by memory_gone (base/memory.h) */
    GUARD_DEATH, /* left by a signal of the processor's, or by guard_leave */
} GuardCause;

/* Calls work(data); 0, or with what it was left. */
int guard_call(GuardCause cause, void (*work)(void *data), void *data);
/* Leaves the thread's innermost guard for this cause; `with` is not 0. Returns when there is none. */
void guard_leave(GuardCause cause, int with);
/* As guard_call for GUARD_DEATH, which catches a place in memory that is not there, a stack that is used up, a division by zero and an
 * instruction that does not exist: left with the signal's number. Under the address sanitizer, which has more to say of it, it does not. */
int guard_death(void (*work)(void *data), void *data);
/* The i-th of these signals; 0 behind the last. */
int guard_signal(size_t i);
/* Such a one in words; also in a signal handler. */
const char *guard_signal_words(int number);

#endif
