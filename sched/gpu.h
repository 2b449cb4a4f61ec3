/* From a tensor program to the kernels of a GPU that compute it: each node of the nest's root is one (loop/nest.h).
 *
 * The plain nest is made, parts of it that go well together become one, and each part goes to the first of the ways (gpu.c, a row each)
 * that takes it; the last one, an element of the result for each thread, takes everything. What a way does to a part, the nest computes
 * the same. */
#ifndef SCHED_GPU_H
#define SCHED_GPU_H

#include "loop/primitive.h"

typedef struct GpuMachine {
    int64_t threads; /* of a block of what each element is for itself */
    int64_t
        wide_least; /* elements from which on several for a thread leave no part of the card idle */
    int64_t folds_least; /* what several threads fold together */
    bool reorders; /* sums of floats may be taken in another order */
    int64_t blocks; /* of products from which on no part of the card is idle */
    bool groups; /* of four warps multiply straight from shared memory, */
    bool boxes; /* to which boxes of tensors come by themselves */
    bool tf32; /* factors of float32 may be rounded to 10 bits behind the point */
} GpuMachine;

/* The nest. `loose[i]`: input i may begin at any element, else it begins where the widest accesses may. NULL after a
 * diagnostic. */
Nest *sched_gpu(Ctx *cx, Arena *arena, const GpuMachine *m, const TeProgram *p, const bool *loose);

/* ---- what the ways share -------------------------------------------------------------------------------------------------- */

typedef struct Gpu {
    Ctx *cx;
    Arena *arena;
    Nest *n;
    const GpuMachine *m;
    const TeProgram *p;
    const bool *loose;
} Gpu;

/* Each takes a node of the root; false: it is nothing for it, and has not changed. */
typedef bool GpuWay(Gpu *s, NestNode *node);

/* Rows that are folded, and all else that is done with them, in one kernel. */
GpuWay gpu_rows;
/* Elements that are read side by side along one axis and stored along another. */
GpuWay gpu_turn;
/* Elements that are computed each for itself. */
GpuWay gpu_elements;
/* Perfectly nested loops from here inwards become one where they can. */
void gpu_fuse(Gpu *s, NestNode *loop);

/* Sums of products of two things, in tiles; with the stage (-1: none) that does something with the sums alone. */
bool gpu_is_product(Gpu *s, int stage);
void gpu_product(Gpu *s, int stage, int tail);
/* The stage as the end of attention, with a tail as above; false: it is none. The stages that are made in it on the way are noted. */
bool gpu_attention(Gpu *s, int stage, int tail);
void gpu_attended(Gpu *s, int stage, bool *by_stage);
/* Values that go to places of their own, a thread for each; false: the stage is no such one. */
bool gpu_scatter(Gpu *s, int stage);
/* The mapping stage that alone reads a stage, each element at its own place; -1: none does. */
int gpu_tail(Gpu *s, int stage);

#define GPU_CHAIN_MOST 16

/* Loops, outermost first, that stand alone in each other and whose turns do not depend on each other. */
typedef struct GpuChain {
    NestNode *at[GPU_CHAIN_MOST];
    int n;
    int64_t turns; /* of all together */
} GpuChain;

GpuChain gpu_chain(Gpu *s, NestNode *node);
/* The loops of the chain become variables that together are the number. */
void gpu_bind(Gpu *s, const GpuChain *chain, Te *number);
/* The loops of the chain become variables of threads, so many in a block, one for each turn; the last one's neighbours side by side. */
void gpu_spread(Gpu *s, const GpuChain *chain, int64_t threads);

#endif
