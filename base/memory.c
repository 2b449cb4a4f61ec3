#include "base/memory.h"

#include "base/guard.h"
#include "base/limit.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

static atomic_ullong refusals;

uint64_t memory_refusals(void)
{
    return atomic_load_explicit(&refusals, memory_order_relaxed);
}

void memory_refused(void)
{
    atomic_fetch_add_explicit(&refusals, 1, memory_order_relaxed);
}

/* Pieces up to LENT lie side by side; the end of the heap goes back once so much of it is free. */
#define LENT (8 << 20)
#define KEPT (64 << 20)
#define AHEAD (256 << 10)

void memory_linger(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, LENT);
    mallopt(M_TRIM_THRESHOLD, KEPT);
    mallopt(M_TOP_PAD, AHEAD);
#endif
}

/* ---- patience ---------------------------------------------------------------------------------- */

#define PAUSE_MS 10
#define PATIENCE_SECONDS 5
/* A wait so long after the one before is a new one: what other libraries ask for says nothing when it is given. */
#define APART_SECONDS 0.5
/* What is larger than any message is not waited for. */
#define PATIENT_MOST ((size_t)64 << 20)

static _Thread_local bool patient;
static _Thread_local double waits_since, waited_last; /* clock_seconds */

bool memory_patient(bool on)
{
    bool before = patient;
    patient = on;
    return before;
}

static atomic_int voice = STDERR_FILENO;

void memory_voice(int fd)
{
    atomic_store(&voice, fd);
}

_Noreturn void memory_end(const char *line)
{
    ssize_t written = write(atomic_load(&voice), line, strlen(line));
    (void)written;
    _exit(3);
}

_Noreturn static void end(void)
{
    memory_end("relay: the system gives no more memory\n");
}

void memory_wait(void)
{
    double now = clock_seconds();
    if (waited_last == 0 || now - waited_last > APART_SECONDS)
        waits_since = now;
    if (now - waits_since > PATIENCE_SECONDS)
        end();
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
    waited_last = clock_seconds();
}

/* Whether what was refused is asked for again. */
static bool again(size_t n)
{
    if (!patient || n > PATIENT_MOST) {
        memory_refused();
        return false;
    }
    memory_wait();
    return true;
}

static void *given(void *p)
{
    if (p)
        waited_last = 0;
    return p;
}

/* ---- asking ------------------------------------------------------------------------------------ */

void *memory_try(size_t n)
{
    return given(malloc(n + !n));
}

void *memory_alloc(size_t n)
{
    void *p;
    while (!(p = memory_try(n)) && again(n))
        continue;
    return p;
}

void *memory_zeroed(size_t n, size_t size)
{
    void *p;
    while (!(p = given(calloc(n + !n, size + !size))) &&
           again(n > SIZE_MAX / (size + !size) ? SIZE_MAX : n * size))
        continue;
    return p;
}

void *memory_resize(void *p, size_t n)
{
    void *larger;
    while (!(larger = given(realloc(p, n + !n))) && again(n))
        continue;
    return larger;
}

void *memory_try_aligned(size_t align, size_t n)
{
    return n > SIZE_MAX - align ? NULL
                                : given(aligned_alloc(align, (n + align - 1) & ~(align - 1)));
}

void *memory_aligned(size_t align, size_t n)
{
    void *p;
    while (!(p = given(aligned_alloc(align, n))) && again(n))
        continue;
    return p;
}

char *memory_text(const char *text, size_t n)
{
    char *copy = memory_alloc(n + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, n);
    copy[n] = '\0';
    return copy;
}

/* ---- the stock --------------------------------------------------------------------------------- */

#define STOCK_SIZE ((size_t)2 << 20)
#define UNIT ((size_t)16)

/* A stock lives until its last piece is given back; then it is as good as new, or goes when a newer one stands. */
typedef struct Stock {
    struct Stock *older; /* those that were used up and still have pieces out */
    size_t used;
    size_t pieces; /* out now */
    alignas(16) char at[];
} Stock;

/* The first costs nothing until it is touched. */
static union {
    Stock stock;
    char bytes[sizeof(Stock) + STOCK_SIZE];
} first;
static Stock *stocks = &first.stock;
static atomic_size_t pieces_out;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void memory_stock(void)
{
    if (atomic_load(&pieces_out) == 0)
        return;
    pthread_mutex_lock(&lock);
    Stock *s = stocks->used > 0 ? malloc(sizeof *s + STOCK_SIZE) : NULL;
    if (s) {
        *s = (Stock){.older = stocks};
        stocks = s;
    }
    pthread_mutex_unlock(&lock);
}

static void *stock_take(size_t n)
{
    pthread_mutex_lock(&lock);
    Stock *s = stocks;
    void *p = NULL;
    if (n <= STOCK_SIZE - UNIT - s->used) {
        p = s->at + s->used;
        s->used += (n + UNIT - 1) & ~(UNIT - 1);
        s->pieces++;
        atomic_fetch_add(&pieces_out, 1);
    }
    pthread_mutex_unlock(&lock);
    return p;
}

/* The stock that the piece is of; the lock is held. */
static Stock *stock_of(const void *p)
{
    Stock *s = stocks;
    while (s && ((const char *)p < s->at || (const char *)p >= s->at + STOCK_SIZE))
        s = s->older;
    return s;
}

bool memory_is_stock(const void *p)
{
    if (atomic_load_explicit(&pieces_out, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&lock);
    bool is = stock_of(p) != NULL;
    pthread_mutex_unlock(&lock);
    return is;
}

static void stock_give(Stock *s)
{
    atomic_fetch_sub(&pieces_out, 1);
    if (--s->pieces > 0)
        return;
    s->used = 0;
    if (s == stocks || s == &first.stock)
        return;
    Stock *newer = stocks;
    while (newer->older != s)
        newer = newer->older;
    newer->older = s->older;
    free(s);
}

void memory_free(void *p)
{
    if (!p || atomic_load_explicit(&pieces_out, memory_order_relaxed) == 0) {
        free(p);
        return;
    }
    pthread_mutex_lock(&lock);
    Stock *s = stock_of(p);
    if (s)
        stock_give(s);
    pthread_mutex_unlock(&lock);
    if (!s)
        free(p);
}

/* ---- what must be had -------------------------------------------------------------------------- */

bool memory_guard(void (*work)(void *data), void *data)
{
    bool was = memory_patient(false);
    bool whole = guard_call(GUARD_MEMORY, work, data) == 0;
    memory_patient(was);
    return whole;
}

_Noreturn void memory_gone(void)
{
    memory_refused();
    guard_leave(GUARD_MEMORY, 1);
    end();
}

void *memory_must(size_t n)
{
    void *p = memory_alloc(n);
    if (!p)
        p = stock_take(n + !n);
    if (!p)
        memory_gone();
    return p;
}
