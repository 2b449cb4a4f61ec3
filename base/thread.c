#include "base/thread.h"

#include "base/guard.h"

#include <signal.h>

bool thread_begin(pthread_t *thread, void *(*body)(void *data), void *data)
{
    sigset_t all, before;
    sigfillset(&all);
    /* Where the processor raises one that is blocked, the process ends without a word. */
    for (size_t i = 0; guard_signal(i); i++)
        sigdelset(&all, guard_signal(i));
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool ok = pthread_create(thread, NULL, body, data) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}
