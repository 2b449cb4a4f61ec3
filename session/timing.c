#include "session/timing.h"

#include "base/memory.h"

#include <stdlib.h>

/* A call that takes longer than this is not made again for nothing. */
#define TIME_LONG 5.0

typedef struct Runs {
    double *at; /* seconds of one call */
    size_t n, cap;
} Runs;

static bool note_run(Runs *r, double seconds)
{
    if (r->n == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 256;
        double *grown = memory_resize(r->at, cap * sizeof *grown);
        if (!grown)
            return false;
        r->at = grown;
        r->cap = cap;
    }
    r->at[r->n++] = seconds;
    return true;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sum_up(Runs *r, Timing *out)
{
    qsort(r->at, r->n, sizeof *r->at, by_size);
    out->least = r->at[0];
    out->low = r->at[r->n / 4];
    out->median = r->at[r->n / 2];
    out->high = r->at[(3 * r->n) / 4];
    out->most = r->at[r->n - 1];
    out->runs = (int)r->n;
}

typedef struct Clocked {
    RelaySession *s;
    const Runnable *code;
    uint32_t n;
    const Value *args;
} Clocked;

/* So many calls; the value of the last one to `result`, if that is not NULL. Seconds of one, negative after a diagnostic. */
static double clock_calls(const Clocked *c, int calls, Value *result)
{
    double start = clock_seconds();
    for (int i = 0; i < calls; i++) {
        Value v = engine_call(c->s, c->code, c->n, c->args);
        if (value_is_none(v))
            return -1;
        if (result && i == calls - 1)
            *result = v;
        else
            value_release(v);
    }
    return (clock_seconds() - start) / calls;
}

/* A second call says how many make a run; it is one itself when that is all that was asked for. */
static bool clock_runs(const Clocked *c, const TimeWish *wish, Runs *runs, double *calls)
{
    double begin = clock_seconds(), one = clock_calls(c, 1, NULL);
    if (one < 0)
        return false;
    int at_once = one < 1e-4 ? (int)(1e-4 / (one > 1e-8 ? one : 1e-8)) + 1 : 1;
    *calls = 1;
    if (at_once == 1 && one >= wish->seconds && !note_run(runs, one))
        return false;
    if (runs->n == 0)
        begin = clock_seconds();
    unsigned outer = progress_enter(&c->s->progress, "measuring", "runs", 0);
    while ((int)runs->n < wish->runs || clock_seconds() - begin < wish->seconds) {
        double seconds = clock_calls(c, at_once, NULL);
        if (seconds < 0 || !note_run(runs, seconds) || limit_hit(&c->s->cx.limits))
            return false;
        *calls += at_once;
        progress_step(&c->s->progress, runs->n);
    }
    progress_leave(&c->s->progress, outer);
    return true;
}

bool time_calls(RelaySession *s, const Runnable *code, uint32_t n, const Value *args, TimeWish wish,
                Timing *out)
{
    Clocked c = {s, code, n, args};
    Runs runs = {0};
    bool gpu = code->engine == ENGINE_GPU;
    double calls = 1; /* that the card's time is of */
    *out = (Timing){0};
    if (gpu)
        s->jit_table->gpu_work(s->jit);
    out->first = clock_calls(&c, 1, wish.result);
    bool ok = out->first >= 0;
    if (gpu)
        s->jit_table->gpu_leave(s->jit, true);
    if (ok && engine_compiles(code->engine))
        s->jit_table->settle(s->jit);
    if (ok && wish.runs == 0 && out->first >= TIME_LONG) {
        ok = note_run(&runs, out->first);
    } else if (ok) {
        if (gpu)
            s->jit_table->gpu_work(s->jit);
        ok = clock_runs(&c, &wish, &runs, &calls);
    }
    if (gpu) {
        CudaWork all = s->jit_table->gpu_work(s->jit);
        out->card = (CudaWork){all.seconds / calls, all.to / calls, all.from / calls};
        s->jit_table->gpu_leave(s->jit, false);
    }
    if (ok)
        sum_up(&runs, out);
    free(runs.at);
    return ok;
}

void print_time(Buf *b, double seconds)
{
    if (seconds > 0 && seconds < 1e-7)
        buf_printf(b, "%8.2f ns", seconds * 1e9);
    else if (seconds < 1e-3)
        buf_printf(b, "%8.2f µs", seconds * 1e6);
    else if (seconds < 1)
        buf_printf(b, "%8.2f ms", seconds * 1e3);
    else
        buf_printf(b, "%8.2f s ", seconds);
}
