/* The time limit of a call: generated code looks at the interrupt flag alone, so a thread sets it when the time is over. */
#include "jit/watch.h"

#include "base/memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct Watch {
    Limits *limits;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct timespec until;
    bool done;
};

static void *watch_main(void *data)
{
    Watch *w = data;
    pthread_mutex_lock(&w->lock);
    int status = 0;
    while (!w->done && status != ETIMEDOUT)
        status = pthread_cond_timedwait(&w->ended, &w->lock, &w->until);
    if (!w->done)
        limit_interrupt(w->limits);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static struct timespec time_after(double seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double whole = (double)(int64_t)seconds;
    t.tv_sec += (time_t)whole;
    t.tv_nsec += (long)((seconds - whole) * 1e9);
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

Watch *watch_begin(Limits *limits)
{
    double left = limits->seconds_most - (clock_seconds() - limits->started);
    Watch *w = limits->seconds_most > 0 ? memory_zeroed(1, sizeof *w) : NULL;
    if (!w)
        return NULL;
    w->limits = limits;
    w->until = time_after(left > 0 ? left : 0);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&w->lock, NULL);
    if (pthread_create(&w->thread, NULL, watch_main, w) == 0)
        return w;
    pthread_cond_destroy(&w->ended);
    pthread_mutex_destroy(&w->lock);
    free(w);
    memory_refused();
    return NULL;
}

void watch_end(Watch *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->done = true;
    pthread_cond_signal(&w->ended);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->ended);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
