/* Threads beside the one that has the session. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Signals are for the thread that knows what to do with them: this one takes none but those of
 * its own faults (base/guard.h). False when there is no thread. */
bool thread_begin(pthread_t *thread, void *(*body)(void *data), void *data);

#endif
