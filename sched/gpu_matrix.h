/* Factors of products on tensor cores: their way to shared memory, and from there to fragments in registers (loop/nest.h).
 *
 * What comes by itself comes as boxes of a tensor that the driver was told the form of (`cp.async.bulk.tensor`), and not as runs of memory,
 * which need nobody told: groups of warps read factors without waiting for each other only where parts of 16 bytes are exchanged from row to
 * row, and a run of memory comes as it lies. Without the exchange the eight rows of a matrix stand 16 bytes apart there, so that each run
 * would have 16 bytes: a thousand of them for a tile's step, where one box does. A box also has zeros where the tensor ends, so that
 * neither the places nor the folds must be whole tiles. */
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
    bool columns, along, copied, boxed; /* `boxed`: it comes as boxes */
    bool
        grouped; /* it lies as a group's tensor cores read it: `pitch` is from one matrix along the folds to the next */
    int shared, taken; /* buffers */
    NestBox box; /* a step of it, where it comes as one: what is known of its places */
    int axis[NEST_BOX_AXES]; /* of the stage, by axis of the box */
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
/* Whether it can come as boxes; it does from then on, and a group can read it. */
bool gpu_matrix_box(GpuMatrix *f);
/* Asks for the box of a tile's step, both by number, which counts at a gate; for one thread. */
void gpu_matrix_ask(const GpuMatrix *f, NestNode *in, Te *tile, Te *step, Te *stage, int gates);
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
