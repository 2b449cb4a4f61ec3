/* Factors of products on tensor cores: their way to shared memory, and from there to fragments in registers (loop/nest.h). */
#ifndef SCHED_GPU_MATRIX_H
#define SCHED_GPU_MATRIX_H

#include "sched/gpu_product.h"

/* Row after row of places along the folds, or of folds along the places. */
typedef struct GpuMatrix {
    GpuBuild *w; /* of the product */
    GpuSide side, folds; /* those that lie side by side as one axis */
    DType dtype;
    int64_t tile, depth; /* places and folds of it that are in shared memory at once */
    int64_t each, pitch; /* elements in a row of a fragment's matrix; from row to row */
    int64_t size; /* of a stage */
    bool columns, along, copied;
    bool
        grouped; /* it lies as a group's tensor cores read it: `pitch` is from one matrix along the folds to the next */
    int shared, taken; /* buffers */
} GpuMatrix;

/* Numbers of a thread: in its warp, and that % 8, / 8 % 2 and / 16. */
typedef struct GpuLane {
    Te *lane, *low, *group, *part;
} GpuLane;

/* What a factor is made of before it is widened. */
const Te *gpu_narrow(const Te *factor);
/* How the factor of the rows or of the columns comes there. */
void gpu_matrix_plan(GpuMatrix *f, GpuBuild *w, bool columns, DType dtype, int64_t tile,
                     int64_t depth);
/* Whether a group can read it, as gpu_matrix_group lets it lie. */
bool gpu_matrix_can_group(const GpuMatrix *f);
void gpu_matrix_group(GpuMatrix *f);
/* Its buffers, with so many stages. */
void gpu_matrix_room(GpuMatrix *f, int64_t stages);
/* Asks for copies of a tile's step, both by number, where it is one that is copied. */
void gpu_matrix_copy(const GpuMatrix *f, NestNode *in, Te *tile, Te *step, Te *stage);
/* Else: its elements come to registers, 0 beyond the last fold; and go from there to shared memory. */
void gpu_matrix_take(const GpuMatrix *f, NestNode *in, Te *tile, Te *step);
void gpu_matrix_put(const GpuMatrix *f, NestNode *in, Te *stage);
/* Opens the variables of a thread's numbers in the product's body. */
GpuLane gpu_open_lanes(GpuBuild *w);
/* The place of its first element from a place of the tile on. */
Te *gpu_matrix_place(const GpuMatrix *f, Te *stage, Te *place);
/* Words of 16 places and two rows of matrices along the folds, from these on, of which the warp has parts. */
void gpu_matrix_fetch(const GpuMatrix *f, const GpuLane *lane, NestNode *in, Te *stage, Te *place,
                      Te *fold, int words, Te *at);

#endif
