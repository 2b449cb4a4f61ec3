/* What code costs: each kernel by what is counted of its loops, all of them by the clock, beside what this machine could do at best; and
 * the memory between kernels over time. */
#ifndef SESSION_VIEWS_COST_H
#define SESSION_VIEWS_COST_H

#include "session/commands.h"
#include "session/timing.h"

typedef struct CostClocks {
    Timing whole; /* a call of all */
    Vec(JitClock)
        kernels; /* as the report has them; where it has others, nobody knows whose they are */
} CostClocks;

typedef struct CostView {
    RelaySession *s;
    const JitReport *report;
    const Buf *nests; /* the loops, as text */
    double core, peak; /* operations in a second, of one core and of all */
    double bandwidth; /* bytes in a second */
    const CostClocks *measured; /* NULL: nothing was called */
} CostView;

/* Of the machine, for what these kernels touch. */
CostView cost_view(RelaySession *s, const JitReport *report, const Buf *nests,
                   const CostClocks *measured);

/* Seconds of a kernel: as its loops are, and at best. */
double cost_predicted(const CostView *v, const JitKernelCost *k);
double cost_bound(const CostView *v, const JitKernelCost *k);
bool cost_by_memory(const CostView *v, const JitKernelCost *k);
/* What the kernel of that number took in a call of its, at least; NULL: it was not called, or nobody knows. */
const JitClock *cost_clock(const CostView *v, size_t kernel);
/* That, or else what is predicted; and of all kernels, each called once. */
double cost_taken(const CostView *v, size_t kernel);
double cost_taken_by_all(const CostView *v);
/* All kernels as one. */
JitKernelCost cost_total(const CostView *v);

/* The bytes in use while a step runs, and the last step. */
size_t cost_in_use(const JitReport *r, int step);
int cost_steps(const JitReport *r);
/* The first step at which most is in use. */
int cost_peak(const JitReport *r);

/* What was predicted, the bound and what sets it, what was measured: a line each. */
void cost_sums(const CostView *v, Buf *out);
/* What each kernel needs, in at most 80 columns; and as a table for pages, whose rows have the classes that `classes` writes (NULL: none). */
void cost_needs_text(const CostView *v, Buf *out);
void cost_style(Buf *out);
void cost_table(const CostView *v, Buf *out,
                void (*classes)(void *data, Buf *out, const char *kernel), void *data);
void cost_text(const CostView *v, Buf *out);
/* The same with what the kernels need first, and the loops of each as a part. */
void cost_parts(const CostView *v, Buf *out);
void cost_html(const CostView *v, Buf *out);
void cost_json(const CostView *v, Buf *out);

#endif
