#include "base/thread.h"

#include <signal.h>

bool thread_begin(pthread_t *thread, void *(*body)(void *data), void *data)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool ok = pthread_create(thread, NULL, body, data) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}
