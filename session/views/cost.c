#include "session/views/cost.h"

#include "runtime/pool.h"
#include "runtime/speed.h"

#include <math.h>
#include <string.h>

#define STEPS_SHOWN 24
#define BAR 40

CostView cost_view(RelaySession *s, const JitReport *report, const Buf *nests,
                   const CostClocks *measured)
{
    CostView v = {.s = s, .report = report, .nests = nests, .measured = measured};
    if (s->peak == 0)
        s->peak = speed_of_sums();
    v.core = s->peak;
    v.peak = s->peak * pool_threads(s->cx.pool);
    v.bandwidth = speed_of_copies(s->cx.pool, cost_total(&v).bytes);
    return v;
}

JitKernelCost cost_total(const CostView *v)
{
    JitKernelCost all = {.name = "all"};
    for (size_t i = 0; i < v->report->kernels.n; i++) {
        const JitKernelCost *k = &v->report->kernels.at[i];
        all.work += k->work;
        all.operations += k->operations;
        all.bytes += k->bytes;
    }
    return all;
}

static double by_memory(const CostView *v, const JitKernelCost *k)
{
    return v->bandwidth > 0 ? k->bytes / v->bandwidth : 0;
}

bool cost_by_memory(const CostView *v, const JitKernelCost *k)
{
    return k->operations / v->peak <= by_memory(v, k);
}

/* Each operation on a vector is one of a multiplication with an addition. */
double cost_predicted(const CostView *v, const JitKernelCost *k)
{
    return fmax(k->work * 2 * v->report->vector_bytes / 4 / v->core, by_memory(v, k));
}

double cost_bound(const CostView *v, const JitKernelCost *k)
{
    return fmax(k->operations / v->peak, by_memory(v, k));
}

const JitClock *cost_clock(const CostView *v, size_t kernel)
{
    const CostClocks *m = v->measured;
    if (!m || m->kernels.n != v->report->kernels.n || !m->kernels.at[kernel].calls)
        return NULL;
    return &m->kernels.at[kernel];
}

double cost_taken(const CostView *v, size_t kernel)
{
    const JitClock *c = cost_clock(v, kernel);
    return c ? c->least : cost_predicted(v, &v->report->kernels.at[kernel]);
}

double cost_taken_by_all(const CostView *v)
{
    double all = 0;
    for (size_t i = 0; i < v->report->kernels.n; i++)
        all += cost_taken(v, i);
    return all;
}

/* ---- memory ------------------------------------------------------------------------------------------------------------------- */

size_t cost_in_use(const JitReport *r, int step)
{
    size_t n = 0;
    for (size_t i = 0; i < r->rooms.n; i++)
        if (r->rooms.at[i].first <= step && step <= r->rooms.at[i].last)
            n += r->rooms.at[i].size;
    return n;
}

int cost_steps(const JitReport *r)
{
    int last = -1;
    for (size_t i = 0; i < r->rooms.n; i++)
        last = r->rooms.at[i].last > last ? r->rooms.at[i].last : last;
    return last + 1;
}

int cost_peak(const JitReport *r)
{
    int peak = 0;
    for (int i = 1; i < cost_steps(r); i++)
        if (cost_in_use(r, i) > cost_in_use(r, peak))
            peak = i;
    return peak;
}

static void print_memory(const CostView *v, Buf *out)
{
    const JitReport *r = v->report;
    int n = cost_steps(r), peak = cost_peak(r);
    size_t most = n ? cost_in_use(r, peak) : 0;
    if (!most)
        return;
    buf_printf(out, "memory    %zu bytes between kernels, in a block of %zu\n", most, r->block);
    for (int i = 0; i < n && i < STEPS_SHOWN; i++) {
        size_t used = cost_in_use(r, i);
        size_t bar = (used * BAR + most - 1) / most;
        buf_printf(out, "%8d  ", i + 1);
        for (size_t k = 0; k < bar; k++)
            buf_str(out, "█");
        buf_printf(out, " %zu%s\n", used, i == peak ? "  the peak" : "");
    }
    if (n > STEPS_SHOWN)
        buf_printf(out, "          … and %d more kernels; the peak is at %d\n", n - STEPS_SHOWN,
                   peak + 1);
}

/* ---- text --------------------------------------------------------------------------------------------------------------------- */

static void print_clock(const JitClock *c, Buf *out)
{
    if (!c) {
        buf_str(out, "           -           -");
        return;
    }
    buf_char(out, ' ');
    print_time(out, c->least);
    buf_char(out, ' ');
    print_time(out, c->all / (double)c->calls);
}

static void print_kernels(const CostView *v, Buf *out)
{
    buf_str(out,
            "\n  predicted    measured        mean     share  of bound  operations      bytes\n");
    for (size_t i = 0; i < v->report->kernels.n; i++) {
        const JitKernelCost *k = &v->report->kernels.at[i];
        double took = cost_taken(v, i);
        print_time(out, cost_predicted(v, k));
        print_clock(cost_clock(v, i), out);
        buf_printf(out, "  %6.1f %%   %5.0f %%  %10.3g %10.3g  %s, by %s\n",
                   100 * took / fmax(cost_taken_by_all(v), 1e-30),
                   100 * cost_bound(v, k) / fmax(took, 1e-30), k->operations, k->bytes, k->name,
                   cost_by_memory(v, k) ? "memory" : "arithmetic");
    }
}

/* The kernel that takes most of the time. */
static size_t slowest(const CostView *v)
{
    size_t most = 0;
    for (size_t i = 1; i < v->report->kernels.n; i++)
        most = cost_taken(v, i) > cost_taken(v, most) ? i : most;
    return most;
}

void cost_sums(const CostView *v, Buf *out)
{
    JitKernelCost all = cost_total(v);
    double bound = cost_bound(v, &all);
    size_t most = slowest(v);
    const JitKernelCost *slow = &v->report->kernels.at[most];
    if (v->report->kernels.n > 1)
        buf_printf(out, "slowest   %s: %.0f %% of the time, at %.0f %% of its bound\n", slow->name,
                   100 * cost_taken(v, most) / fmax(cost_taken_by_all(v), 1e-30),
                   100 * cost_bound(v, slow) / fmax(cost_taken(v, most), 1e-30));
    buf_str(out, "predicted ");
    print_time(out, cost_predicted(v, &all));
    buf_str(out, "\nbound     ");
    print_time(out, bound);
    if (cost_by_memory(v, &all))
        buf_printf(out, "   by memory: %.3g bytes at %.3g a second\n", all.bytes, v->bandwidth);
    else
        buf_printf(out, "   by arithmetic: %.3g operations at %.3g a second\n", all.operations,
                   v->peak);
    if (v->measured) {
        buf_str(out, "measured  ");
        const Timing *t = &v->measured->whole;
        print_time(out, t->least);
        buf_printf(out, "   %.0f %% of the bound, %d run%s\n", 100 * bound / t->least, t->runs,
                   t->runs == 1 ? "" : "s");
    } else {
        buf_str(out, "measured  a call with arguments would be, as of `let %x = …;`\n");
    }
}

/* A name that is longer without its end. */
static void print_name(Buf *out, const char *name)
{
    enum { COLUMNS = 25 };
    size_t n = strlen(name);
    if (n > COLUMNS)
        buf_printf(out, "%.*s…", COLUMNS - 1, name);
    else
        buf_printf(out, "%-*s", COLUMNS, name);
}

void cost_needs_text(const CostView *v, Buf *out)
{
    buf_printf(out, "%-25s%12s%10s%11s%10s\n", "kernel", "predicted", "of bound", "operations",
               "bytes");
    for (size_t i = 0; i < v->report->kernels.n; i++) {
        const JitKernelCost *k = &v->report->kernels.at[i];
        print_name(out, k->name);
        buf_char(out, ' ');
        print_time(out, cost_predicted(v, k));
        buf_printf(out, "%8.0f %% %10.3g%10.3g by %s\n",
                   100 * cost_bound(v, k) / fmax(cost_predicted(v, k), 1e-30), k->operations,
                   k->bytes, cost_by_memory(v, k) ? "memory" : "arithmetic");
    }
}

/* All but the loops. */
static void print_needs(const CostView *v, Buf *out)
{
    if (v->report->kernels.n > 1)
        print_kernels(v, out);
    buf_char(out, '\n');
    cost_sums(v, out);
    print_memory(v, out);
}

void cost_text(const CostView *v, Buf *out)
{
    buf_bytes(out, buf_text(v->nests), v->nests->n);
    print_needs(v, out);
}

void cost_parts(const CostView *v, Buf *out)
{
    print_needs(v, out);
    for (const char *nest = buf_text(v->nests); *nest;) {
        const char *end = strstr(nest, "\n\n");
        size_t n = end ? (size_t)(end - nest) : strlen(nest);
        buf_char(out, '\f');
        buf_bytes(out, nest, n);
        nest += n + (end ? strlen("\n\n") : 0);
    }
}

/* ---- JSON ----------------------------------------------------------------------------------------------------------------------- */

static void put_kernel(const CostView *v, Buf *out, const JitKernelCost *k, const JitClock *c)
{
    buf_printf(out,
               "{\"kernel\": \"%s\", \"predicted_us\": %.6g, \"bound_us\": %.6g, \"by\": \"%s\", "
               "\"operations\": %.6g, \"bytes\": %.6g",
               k->name, cost_predicted(v, k) * 1e6, cost_bound(v, k) * 1e6,
               cost_by_memory(v, k) ? "memory" : "arithmetic", k->operations, k->bytes);
    if (c)
        buf_printf(out, ", \"calls\": %llu, \"least_us\": %.6g, \"mean_us\": %.6g",
                   (unsigned long long)c->calls, c->least * 1e6, c->all / (double)c->calls * 1e6);
    buf_char(out, '}');
}

void cost_json(const CostView *v, Buf *out)
{
    const JitReport *r = v->report;
    JitKernelCost all = cost_total(v);
    buf_printf(out, "{\"peak\": %.6g, \"bandwidth\": %.6g, \"measured_us\": ", v->peak,
               v->bandwidth);
    if (v->measured)
        buf_printf(out, "%.6g", v->measured->whole.least * 1e6);
    else
        buf_str(out, "null");
    buf_printf(out, ", \"slowest\": %zu, \"all\": ", slowest(v));
    put_kernel(v, out, &all, NULL);
    buf_str(out, ", \"kernels\": [");
    for (size_t i = 0; i < r->kernels.n; i++) {
        buf_str(out, i ? ",\n" : "\n");
        put_kernel(v, out, &r->kernels.at[i], cost_clock(v, i));
    }
    buf_printf(out, "], \"block\": %zu, \"memory\": [", r->block);
    for (int i = 0; i < cost_steps(r); i++)
        buf_printf(out, "%s%zu", i ? ", " : "", cost_in_use(r, i));
    buf_str(out, "], ");
    buf_json_field(out, "loops", buf_text(v->nests), v->nests->n);
    buf_str(out, "}\n");
}
