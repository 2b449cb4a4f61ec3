#define _GNU_SOURCE 1
#include "runtime/pool.h"

#include "base/memory.h"
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A loop is cut into at most so many parts; more than cores, so that a slow one does not hold up
 * the rest. */
#define PARTS_MOST 64
/* How often a worker looks for the next loop before it sleeps: about the time that waking takes. */
#define SPINS 4000

typedef void Body(void *data, int64_t from, int64_t to);

/* A loop that is handed out: all that a worker wants lies in one line. Two of them take turns, so that who is late does not read one that
 * is being written. */
typedef struct Loop {
    _Alignas(64) _Atomic(uint64_t) number; /* from 1; written last */
    _Atomic(Body *) body;
    _Atomic(void *) data;
    _Atomic(int64_t) n, parts;
    atomic_bool joins; /* several parts may be one */
} Loop;

typedef struct View {
    uint64_t number;
    Body *body;
    void *data;
    int64_t n, parts;
    bool joins;
} View;

/* The parts that a thread begins with: always those of the same place, so that it finds in its cache what it made of them in the loop
 * before. Who has none left takes from the other end of another's. In `left` stand the loop's number, and in bytes the first part and that
 * behind the last; of a loop that came before, nobody has taken any yet. So who hands a loop out writes to none of them. */
typedef struct Share {
    _Alignas(64) _Atomic(uint64_t) left;
} Share;

enum { LEFT_BITS = 8, LEFT_MASK = (1 << LEFT_BITS) - 1 };
_Static_assert(PARTS_MOST <= LEFT_MASK, "the number of a part stands in a byte");

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
    atomic_bool busy; /* a loop runs: one within it runs in its caller */
    uint64_t number; /* of the loop that runs or ran last */
    uint64_t awaited; /* parts that workers have finished when it has ended */
    Share *shares; /* one a thread */
    Loop loops[2]; /* by number */
    _Alignas(64) atomic_int asleep; /* workers that wait for a loop */
    _Alignas(64) _Atomic(uint64_t) finished; /* parts, by workers */
    atomic_bool waits; /* the caller sleeps until enough are */
};

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
    Pool *p = memory_aligned(64, sizeof *p);
    if (!p)
        return NULL;
    memset(p, 0, sizeof *p);
    p->threads = threads > 0 ? threads : pool_cores();
    p->threads = p->threads < PARTS_MOST ? p->threads : PARTS_MOST;
    p->shares = memory_aligned(64, (size_t)p->threads * sizeof *p->shares);
    if (!p->shares) {
        free(p);
        return NULL;
    }
    memset(p->shares, 0, (size_t)p->threads * sizeof *p->shares);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->more, NULL);
    pthread_cond_init(&p->done, NULL);
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

/* Takes the first parts of the share of thread `of`, or its last one; false: none is left, or the loop has ended. */
static bool take(Pool *p, const View *v, int of, bool front, int64_t *from, int64_t *to)
{
    Share *s = &p->shares[of];
    uint64_t left = atomic_load_explicit(&s->left, memory_order_relaxed);
    for (;;) {
        uint64_t number = left >> 2 * LEFT_BITS;
        *from = (int64_t)(left >> LEFT_BITS & LEFT_MASK);
        *to = (int64_t)(left & LEFT_MASK);
        if (number < v->number) {
            *from = part_start(v->parts, p->threads, of);
            *to = part_start(v->parts, p->threads, of + 1);
        }
        if (number > v->number || *from >= *to)
            return false;
        int64_t count = v->joins && front ? (*to - *from + 1) / 2 : 1;
        int64_t first = front ? *from + count : *from, behind = front ? *to : *to - 1;
        uint64_t now = v->number << 2 * LEFT_BITS | (uint64_t)first << LEFT_BITS | (uint64_t)behind;
        *from = front ? *from : behind;
        *to = *from + count;
        if (atomic_compare_exchange_weak_explicit(&s->left, &left, now, memory_order_acq_rel,
                                                  memory_order_relaxed))
            return true;
    }
}

/* Workers that went to sleep before they saw the loop. */
static void wake(Pool *p)
{
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->more);
    pthread_mutex_unlock(&p->lock);
}

/* Gives how many parts the thread ran. The caller looks a second time for who fell asleep, when it has work behind it and need not wait
 * until its number is seen. */
static int64_t take_parts(Pool *p, const View *v, int self)
{
    int64_t count = 0, from, to;
    for (int k = 0; k < p->threads; k++)
        while (take(p, v, (self + k) % p->threads, k == 0, &from, &to)) {
            v->body(v->data, part_start(v->n, v->parts, from), part_start(v->n, v->parts, to));
            if (count == 0 && self == 0 && atomic_fetch_add(&p->asleep, 0) > 0)
                wake(p);
            count += to - from;
        }
    return count;
}

static void pause_a_little(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Waits for a loop after `last`; false when the pool ends. */
static bool wait_for_loop(Pool *p, uint64_t last)
{
    Loop *next = &p->loops[(last + 1) % 2];
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&next->number, memory_order_acquire) > last)
            return true;
        pause_a_little();
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->asleep, 1);
    while (!p->stop && atomic_load(&next->number) <= last)
        pthread_cond_wait(&p->more, &p->lock);
    atomic_fetch_sub(&p->asleep, 1);
    bool go_on = !p->stop;
    pthread_mutex_unlock(&p->lock);
    return go_on;
}

/* The loop after `last` that was handed out there; false when the next one is, too: then this one has ended and may be written over. */
static bool see(Pool *p, uint64_t last, View *out)
{
    Loop *l = &p->loops[(last + 1) % 2], *other = &p->loops[last % 2];
    out->number = atomic_load_explicit(&l->number, memory_order_acquire);
    out->body = atomic_load_explicit(&l->body, memory_order_acquire);
    out->data = atomic_load_explicit(&l->data, memory_order_acquire);
    out->n = atomic_load_explicit(&l->n, memory_order_acquire);
    out->parts = atomic_load_explicit(&l->parts, memory_order_acquire);
    out->joins = atomic_load_explicit(&l->joins, memory_order_acquire);
    return atomic_load_explicit(&other->number, memory_order_acquire) < out->number;
}

static void *work(void *data)
{
    Worker *w = data;
    Pool *p = w->pool;
    View v;
    for (uint64_t last = 0; wait_for_loop(p, last); last = v.number) {
        int64_t count = see(p, last, &v) ? take_parts(p, &v, w->number) : 0;
        if (count == 0)
            continue;
        atomic_fetch_add(&p->finished, (uint64_t)count);
        if (!atomic_load(&p->waits))
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

static void hand_out(Pool *p, const View *v)
{
    Loop *l = &p->loops[v->number % 2];
    atomic_store_explicit(&l->body, v->body, memory_order_release);
    atomic_store_explicit(&l->data, v->data, memory_order_release);
    atomic_store_explicit(&l->n, v->n, memory_order_release);
    atomic_store_explicit(&l->parts, v->parts, memory_order_release);
    atomic_store_explicit(&l->joins, v->joins, memory_order_release);
    atomic_store_explicit(&l->number, v->number, memory_order_release);
    if (atomic_load_explicit(&p->asleep, memory_order_relaxed) > 0)
        wake(p);
}

/* Whoever wakes when all parts are taken finds none, and nobody waits for him: on a busy machine a worker may be late. */
static void run_loop(Pool *p, const View *v)
{
    hand_out(p, v);
    p->awaited += (uint64_t)(v->parts - take_parts(p, v, 0));
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&p->finished, memory_order_acquire) == p->awaited)
            return;
        pause_a_little();
    }
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->waits, true);
    while (atomic_load(&p->finished) != p->awaited)
        pthread_cond_wait(&p->done, &p->lock);
    atomic_store(&p->waits, false);
    pthread_mutex_unlock(&p->lock);
}

static void run(Pool *p, int64_t n, int64_t grain, Body *body, void *data, bool joins)
{
    if (n <= 0)
        return;
    int64_t parts = n / (grain > 1 ? grain : 1);
    if (parts > PARTS_MOST)
        parts = PARTS_MOST;
    if (parts < 1)
        parts = 1;
    /* As many for each thread, so that the halves of loops of any length are the same. */
    if (joins && parts > pool_threads(p))
        parts -= parts % pool_threads(p);
    bool threaded = p && p->threads > 1 && parts > 1 && !atomic_exchange(&p->busy, true);
    if (threaded) {
        start_workers(p);
        run_loop(p, &(View){++p->number, body, data, n, parts, joins});
        atomic_store(&p->busy, false);
        return;
    }
    for (int64_t i = 0; i < parts; i++)
        body(data, part_start(n, parts, i), part_start(n, parts, i + 1));
}

void pool_for(Pool *p, int64_t n, int64_t grain, Body *body, void *data)
{
    run(p, n, grain, body, data, false);
}

void pool_share(Pool *p, int64_t n, int64_t grain, Body *body, void *data)
{
    run(p, n, grain, body, data, true);
}
