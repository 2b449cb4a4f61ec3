/* What the ways to sums of products share: gpu_product.c on the cores that do everything, gpu_tile.c on tensor cores. */
#ifndef SCHED_GPU_PRODUCT_H
#define SCHED_GPU_PRODUCT_H

#include "sched/gpu.h"

/* Axes that together are one number. */
typedef struct GpuSide {
    int axis[TENSOR_RANK_MOST];
    int n;
    int64_t extent;
} GpuSide;

/* The axes of the result fall into those that only one factor depends on and those of both, a product each. */
typedef struct GpuProduct {
    GpuSide batch, rows, columns, folds;
    bool turned; /* the first factor is that of the columns */
} GpuProduct;

typedef struct GpuBuild {
    Gpu *s;
    Nest *n;
    TeBuilder *b;
    const GpuProduct *p;
    int64_t rows, columns, depth, threads; /* of a block's tile, of a step, of the block */
    int stage, tail; /* the sums, and what is done with them alone; -1: nothing */
    int64_t parts; /* of the folds, a block for each */
    int of_parts; /* where their sums go; nothing while there is one part */
    NestNode *grid, *body; /* the innermost loop of the grid; where code goes */
    Te *batch, *row, *column, *part, *thread; /* numbers of the block, and the thread's */
} GpuBuild;

/* The same place for so many neighbours at once: `lane` goes through them. */
typedef struct GpuLanes {
    int64_t n;
    int lane; /* variable */
} GpuLanes;

Te *gpu_plus(GpuBuild *w, Te *a, Te *b);
Te *gpu_by(GpuBuild *w, TeOp op, Te *a, int64_t v);
Te *gpu_var(GpuBuild *w, const NestNode *loop);
NestNode *gpu_loop(GpuBuild *w, NestNode *in, const char *name, NestWay way, int64_t extent);
NestNode *gpu_let(GpuBuild *w, NestNode *in, const char *name, int64_t extent, Te *value);
int gpu_buffer(GpuBuild *w, const char *name, DType dtype, NestPlace place, int64_t size,
               NestNode *home);
/* Whether the stage is a sum of products of two things. */
bool gpu_product_of(Gpu *s, int stage, GpuProduct *p);
/* Room for what each axis of the stage is. */
NestLinear *gpu_axes(GpuBuild *w);
/* The side's axes become variables that together are the number, which is that of the lanes (NULL: one) side by side. Where it is beyond the
 * side the innermost node, which comes back, is left out. */
NestNode *gpu_bind_side(GpuBuild *w, NestNode *in, const GpuSide *side, Te *number,
                        const GpuLanes *lanes, NestLinear *axes);
/* Takes the folds in as many parts as keep the card busy: how many steps each of them has. */
int64_t gpu_part_steps(GpuBuild *w);
/* A step of the block's part among all steps. */
Te *gpu_step(GpuBuild *w, Te *step);
/* The block's loops, and the loop of its threads. */
void gpu_open_product(GpuBuild *w);
/* The factor of the rows or of the columns, as the program has it. */
const Te *gpu_factor(const GpuBuild *w, bool columns);
/* Whether threads side by side had better go along the folds: there the factor lies one behind the other. */
bool gpu_along_folds(GpuBuild *w, bool columns);
/* So many places and folds of a factor, from these on, come to shared memory, fold after fold; what lies outside of the factor is 0. */
typedef struct GpuPiece {
    bool columns; /* of the columns' factor, not of the rows' */
    int64_t places, folds;
    Te *place, *fold;
    DType dtype;
    int buffer;
    int64_t pitch; /* between folds */
} GpuPiece;

void gpu_bring(GpuBuild *w, NestNode *in, const GpuPiece *f);
/* A sum, or what the tail makes of it, goes where it belongs; `axes` says where that is. A part's sum waits for those of the others. */
void gpu_store_sum(GpuBuild *w, NestNode *in, Te *sum, NestLinear *axes);
/* Behind the product, where there are parts: their sums are added, and stored. */
void gpu_add_parts(GpuBuild *w);
/* Whether such tiles leave parts of the card without work, or are half empty; a step is so many folds. */
bool gpu_is_wide(const Gpu *s, const GpuProduct *p, int64_t rows, int64_t columns, int64_t depth);

/* On tensor cores, where the factors are what those multiply; false: they are not, and nothing has changed. */
bool gpu_tile(Gpu *s, const GpuProduct *p, int stage, int tail);

#endif
