/* What is attention in a program, and what the ways to compute it in one kernel share: gpu_attention.c for float32,
 * gpu_attention_halves.c on tensor cores. */
#ifndef SCHED_GPU_ATTENTION_H
#define SCHED_GPU_ATTENTION_H

#include "sched/gpu_product.h"

/* What queries and values may have at most, so that all of it is in a block's memory. */
#define GPU_WIDTH_MOST 128

typedef struct GpuAttention {
    int scores, scaled, out; /* stages; `scaled` is what else is done with the scores, or these */
    int inside[7]; /* stages that nobody else reads */
    int n;
    GpuProduct first, second;
} GpuAttention;

/* Registers that the shares of a thread's rows are made in: a number a row in `most`, `scale` and `sum`, one alone in `next` and `other`. */
typedef struct GpuShares {
    int score; /* scores, then the powers of what they are above the greatest */
    int most, sum; /* so far */
    int scale; /* what brings what was summed before to a new greatest score */
    int next, other; /* on the way */
} GpuShares;

/* Whether the stage is the end of attention. */
bool gpu_attention_of(Gpu *s, int stage, GpuAttention *t);
/* What else is done with a score, in a register of its own at `next` on the way; it is the least where there is no such query or key. */
void gpu_attention_score(GpuBuild *w, const GpuAttention *t, NestNode *in, Te *query, Te *key,
                         int scores, Te *at, int next);
/* So many neighbouring threads fold what each of them has of a row. */
void gpu_fold_row(GpuBuild *w, NestNode *in, TeReduce kind, int buffer, Te *row, int threads,
                  int other);
/* Behind the fold of a thread's own scores into `most`, whose value before is in `scale`: the greatest score of the row over so many
 * threads, and the sum brought to it. Where all are the least there is still none. */
void gpu_new_greatest(GpuBuild *w, NestNode *in, const GpuShares *r, Te *row, int threads);
/* The score at `at` becomes a power, and is summed. */
void gpu_make_share(GpuBuild *w, NestNode *in, const GpuShares *r, Te *row, Te *at);
/* Attention of 16-bit floats; with what is done with it alone (-1: nothing). */
void gpu_attention_halves(Gpu *s, const GpuAttention *t, int tail);

#endif
