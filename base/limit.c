#include "base/limit.h"

#include "base/diag.h"
#include "base/memory.h"

void limits_init(Limits *l, Diags *diags)
{
    *l = (Limits){.diags = diags};
    atomic_init(&l->interrupted, false);
    atomic_init(&l->memory, 0);
    limits_start(l);
}

void limits_deinit(Limits *l)
{
    if (l->heap)
        l->heap_free(l->heap);
    l->heap = NULL;
}

void limits_start(Limits *l)
{
    atomic_store(&l->interrupted, false);
    limits_next(l);
}

void limits_next(Limits *l)
{
    /* Whoever waited for the time to be over set the flag. */
    if (l->hit == LIMIT_TIME)
        atomic_store(&l->interrupted, false);
    l->hit = LIMIT_NONE;
    l->refused = 0;
    l->started = l->seconds_most > 0 ? clock_seconds() : 0;
    l->refusals = memory_refusals();
    memory_stock();
    if (l->heap && l->memory_most > 0 && l->memory > l->memory_most / 2)
        l->heap_trim(l->heap);
}

void limit_interrupt(Limits *l)
{
    atomic_store(&l->interrupted, true);
    atomic_store(&l->words.guard, UINTPTR_MAX);
}

/* Seconds on a clock that is quick to read and goes forward a few times in a hundredth of a second. */
static double clock_coarse(void)
{
#ifdef CLOCK_MONOTONIC_COARSE
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
#else
    return clock_seconds();
#endif
}

bool limit_is_late(const Limits *l)
{
    return clock_coarse() - l->started >= l->seconds_most;
}

/* Whoever waits for the time to be over sets the flag: so an interrupt that late is none. The clocks may differ by some rounding. */
static LimitKind kind_of_waiting(const Limits *l)
{
    bool late = l->seconds_most > 0 && clock_seconds() - l->started >= l->seconds_most - 1e-5;
    return late ? LIMIT_TIME : LIMIT_INTERRUPT;
}

bool limit_hit(Limits *l)
{
    if (l->hit != LIMIT_NONE)
        return true;
    if (limit_waits(l))
        return limit_reach(l, kind_of_waiting(l));
    return limit_refused(l);
}

typedef struct Amount {
    double n;
    const char *unit;
} Amount;

static Amount amount_of(size_t bytes)
{
    static const char *const units[] = {"MiB", "GiB", "TiB", "PiB", "EiB"};
    Amount a = {(double)bytes / (1 << 20), units[0]};
    for (size_t i = 1; i < sizeof units / sizeof *units && a.n >= 1024; i++)
        a = (Amount){a.n / 1024, units[i]};
    return a;
}

/* What alone is more than the limit never reached it, and neither did what the system refuses. */
static void report_memory(Limits *l)
{
    Amount most = amount_of(l->memory_most), more = amount_of(l->refused);
    Span nowhere = {0};
    Diag *d;
    if (l->refused == 0 || l->memory_most == 0)
        d = diag_error(l->diags, E0503_MEMORY, nowhere, "the system gives no more memory");
    else if (l->refused > l->memory_most)
        d = diag_error(l->diags, E0503_MEMORY, nowhere,
                       "this needs %.1f %s of memory, and the limit is %.1f %s", more.n, more.unit,
                       most.n, most.unit);
    else
        d = diag_error(l->diags, E0503_MEMORY, nowhere, "the memory limit of %.1f %s was reached",
                       most.n, most.unit);
    diag_help(d, "is a shape larger than it should be, or does a recursion never end?");
}

static void report(Limits *l, LimitKind kind)
{
    Span nowhere = {0};
    Diag *d;
    switch (kind) {
    case LIMIT_NONE: return;
    case LIMIT_INTERRUPT: diag_error(l->diags, E0501_INTERRUPTED, nowhere, "interrupted"); return;
    case LIMIT_TIME:
        d = diag_error(l->diags, E0502_TIME, nowhere, "the time limit of %g seconds was reached",
                       l->seconds_most);
        diag_help(d, "`:limit time SECONDS` (or `--time-limit SECONDS`) sets another");
        return;
    case LIMIT_MEMORY: report_memory(l); return;
    case LIMIT_DEPTH:
        d = diag_error(l->diags, E0504_DEPTH, nowhere, "calls are nested too deeply");
        if (l->depth_most > 0)
            diag_note(d, "the limit is %llu calls", (unsigned long long)l->depth_most);
        diag_help(d,
                  "is there a recursion that never ends? A call in tail position needs no depth");
        return;
    }
}

bool limit_reach(Limits *l, LimitKind kind)
{
    if (l->hit != LIMIT_NONE)
        return true;
    /* First, because the report itself allocates. */
    l->hit = kind;
    report(l, kind);
    return true;
}

bool limit_refused(Limits *l)
{
    return memory_refusals() != l->refusals && limit_reach(l, LIMIT_MEMORY);
}

bool limit_charge(Limits *l, size_t bytes)
{
    l->charges++;
    size_t before = atomic_fetch_add_explicit(&l->memory, bytes, memory_order_relaxed);
    bool fits =
        before + bytes >= before && (l->memory_most == 0 || before + bytes <= l->memory_most);
    if (fits && (l->refuse == 0 || l->charges != l->refuse))
        return true;
    atomic_fetch_sub_explicit(&l->memory, bytes, memory_order_relaxed);
    l->refused = bytes;
    return !limit_reach(l, LIMIT_MEMORY);
}

void limit_release(Limits *l, size_t bytes)
{
    atomic_fetch_sub_explicit(&l->memory, bytes, memory_order_relaxed);
}

double clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct timespec clock_after(double seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    int64_t nanoseconds = t.tv_nsec + (int64_t)(seconds * 1e9);
    t.tv_sec += (time_t)(nanoseconds / 1000000000);
    t.tv_nsec = (long)(nanoseconds % 1000000000);
    return t;
}
