#define _GNU_SOURCE 1
#include "runtime/pool.h"

#include "base/memory.h"
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* A loop is cut into at most so many parts; more than cores, so that a slow one does not hold up
 * the rest. */
#define PARTS_MOST 64
/* How often a worker looks for the next loop before it sleeps: about the time that waking takes. */
#define SPINS 4000

typedef void Body(void *data, int64_t from, int64_t to);

/* The parts that a thread begins with: always those of the same place, so that it finds in its cache what it made of them in the loop
 * before. Who has none left takes from the other end of another's. */
typedef struct Share {
    _Alignas(64)
        atomic_uint_fast64_t left; /* the first in the low half, behind the last in the high one */
} Share;

typedef struct Worker {
    Pool *pool;
    int number; /* from 1; 0 is the caller */
    pthread_t thread;
} Worker;

struct Pool {
    int threads;
    int started; /* workers that exist */
    Worker *workers;
    pthread_mutex_t lock;
    pthread_cond_t more, done;
    bool stop;
    atomic_uint loop; /* number of the loop that runs or ran last */
    atomic_bool busy; /* a loop runs: one within it runs in its caller */
    Body *body;
    void *data;
    int64_t n, parts;
    Share *shares; /* one a thread */
    atomic_int inside; /* workers in the loop; CLOSED when it takes no more */
};

/* Whoever comes when all parts are taken finds the loop closed, and nobody waits for him: on a busy machine a worker may wake late. */
#define CLOSED (1 << 30)

int pool_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n > 0 ? n : 1;
}

Pool *pool_new(int threads)
{
    Pool *p = memory_zeroed(1, sizeof *p);
    if (!p)
        return NULL;
    p->threads = threads > 0 ? threads : pool_cores();
    p->threads = p->threads < PARTS_MOST ? p->threads : PARTS_MOST;
    p->shares = memory_aligned(64, (size_t)p->threads * sizeof *p->shares);
    if (!p->shares) {
        free(p);
        return NULL;
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->more, NULL);
    pthread_cond_init(&p->done, NULL);
    atomic_init(&p->inside, CLOSED);
    return p;
}

int pool_threads(const Pool *p)
{
    return p ? p->threads : 1;
}

void pool_free(Pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->more);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->started; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->more);
    pthread_cond_destroy(&p->done);
    pthread_mutex_destroy(&p->lock);
    free(p->workers);
    free(p->shares);
    free(p);
}

/* Where part `i` of `parts` begins; the quotient first, as n * i may overflow. */
static int64_t part_start(int64_t n, int64_t parts, int64_t i)
{
    return n / parts * i + n % parts * i / parts;
}

/* A part of a share, from its front or its back; -1: it is empty. */
static int64_t take_part(Share *s, bool front)
{
    uint_fast64_t left = atomic_load_explicit(&s->left, memory_order_relaxed);
    for (;;) {
        uint_fast64_t from = left & UINT32_MAX, to = left >> 32;
        if (from >= to)
            return -1;
        uint_fast64_t now = front ? left + 1 : left - ((uint_fast64_t)1 << 32);
        if (atomic_compare_exchange_weak_explicit(&s->left, &left, now, memory_order_relaxed,
                                                  memory_order_relaxed))
            return (int64_t)(front ? from : to - 1);
    }
}

static void take_parts(Pool *p, int self)
{
    for (int k = 0; k < p->threads; k++) {
        Share *s = &p->shares[(self + k) % p->threads];
        for (int64_t i; (i = take_part(s, k == 0)) >= 0;)
            p->body(p->data, part_start(p->n, p->parts, i), part_start(p->n, p->parts, i + 1));
    }
}

static void pause_a_little(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Waits for a loop after number `last`, which becomes that one's; false when the pool ends. */
static bool wait_for_loop(Pool *p, unsigned *last)
{
    unsigned now = *last;
    for (int i = 0; i < SPINS && now == *last; i++) {
        pause_a_little();
        now = atomic_load_explicit(&p->loop, memory_order_acquire);
    }
    bool go_on = true;
    if (now == *last) {
        pthread_mutex_lock(&p->lock);
        while (!p->stop && (now = atomic_load(&p->loop)) == *last)
            pthread_cond_wait(&p->more, &p->lock);
        go_on = !p->stop;
        pthread_mutex_unlock(&p->lock);
    }
    *last = now;
    return go_on;
}

static bool enter(Pool *p)
{
    int inside = atomic_load_explicit(&p->inside, memory_order_relaxed);
    while (!(inside & CLOSED))
        if (atomic_compare_exchange_weak_explicit(&p->inside, &inside, inside + 1,
                                                  memory_order_acquire, memory_order_relaxed))
            return true;
    return false;
}

static void *work(void *data)
{
    Worker *w = data;
    Pool *p = w->pool;
    for (unsigned last = 0; wait_for_loop(p, &last);) {
        if (!enter(p))
            continue;
        take_parts(p, w->number);
        if (atomic_fetch_sub_explicit(&p->inside, 1, memory_order_acq_rel) != CLOSED + 1)
            continue;
        pthread_mutex_lock(&p->lock);
        pthread_cond_signal(&p->done);
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

static void start_workers(Pool *p)
{
    if (p->workers || p->threads <= 1)
        return;
    p->workers = memory_zeroed((size_t)p->threads - 1, sizeof *p->workers);
    if (!p->workers)
        return;
    while (p->started < p->threads - 1) {
        Worker *w = &p->workers[p->started];
        *w = (Worker){.pool = p, .number = p->started + 1};
        if (!thread_begin(&w->thread, work, w))
            break;
        p->started++;
    }
}

static void run_loop(Pool *p, int64_t n, int64_t parts, Body *body, void *data)
{
    p->body = body;
    p->data = data;
    p->n = n;
    p->parts = parts;
    for (int i = 0; i < p->threads; i++) {
        int64_t from = part_start(parts, p->threads, i), to = part_start(parts, p->threads, i + 1);
        atomic_store_explicit(&p->shares[i].left, (uint_fast64_t)from | (uint_fast64_t)to << 32,
                              memory_order_relaxed);
    }
    atomic_store_explicit(&p->inside, 0, memory_order_release);
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add_explicit(&p->loop, 1, memory_order_release);
    pthread_cond_broadcast(&p->more);
    pthread_mutex_unlock(&p->lock);
    take_parts(p, 0);
    atomic_fetch_or_explicit(&p->inside, CLOSED, memory_order_acq_rel);
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&p->inside, memory_order_acquire) == CLOSED)
            return;
        pause_a_little();
    }
    pthread_mutex_lock(&p->lock);
    while (atomic_load_explicit(&p->inside, memory_order_acquire) != CLOSED)
        pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

void pool_for(Pool *p, int64_t n, int64_t grain, Body *body, void *data)
{
    if (n <= 0)
        return;
    int64_t parts = n / (grain > 1 ? grain : 1);
    if (parts > PARTS_MOST)
        parts = PARTS_MOST;
    if (parts < 1)
        parts = 1;
    bool threaded = p && p->threads > 1 && parts > 1 && !atomic_exchange(&p->busy, true);
    if (threaded) {
        start_workers(p);
        run_loop(p, n, parts, body, data);
        atomic_store(&p->busy, false);
        return;
    }
    for (int64_t i = 0; i < parts; i++)
        body(data, part_start(n, parts, i), part_start(n, parts, i + 1));
}
