/* From a tensor program to loops in LLVM IR.
 *
 *     plan.c      which operators become one program, and the call of its kernel
 *     kernel.c    a program as one function: where stages lie in memory, which of them are matrix products
 *     schedule.c  for each stage the order of its loops, the vectorised axis, tiles in registers
 *     loops.c     the loops of a stage;   element.c  the value of its expression in them */
#ifndef JIT_LOOPS_H
#define JIT_LOOPS_H

#include "te/te.h"
#include "jit/internal.h"

#define AXES_MOST 64
#define TILES_MOST 8
#define VECTORS_MOST 4
#define COPIES_MOST (TILES_MOST * VECTORS_MOST)

/* ---- schedule.c -------------------------------------------------------------------------------------------------- */

typedef enum LoopKind {
    LOOP_SERIAL,
    LOOP_TILE, /* `block` values at once, each with registers of its own */
    LOOP_VECTOR, /* `block` vectors at once */
} LoopKind;

typedef struct Loop {
    LoopKind kind;
    int axis;
    int64_t extent;
    int block;
} Loop;

/* What a load reads. */
typedef struct LoadInfo {
    TeAffine at;
    bool affine;
} LoadInfo;

typedef struct Schedule {
    Loop loops[AXES_MOST]; /* outermost first; those of the space, then the reduced ones */
    int n, n_space;
    int level[AXES_MOST]; /* by axis: position of its loop + 1; 0: it stays at zero */
    int vector_axis, tile_axis; /* -1: none */
    unsigned lanes;
    PtrMap loads; /* Te -> LoadInfo */
    PtrMap axes; /* Te -> the axes in it, as bits */
    int depth; /* of the expression */
} Schedule;

/* Decides; schedule_deinit frees the maps. False when the expression is too large for recursion. `in_order`: what is reduced is taken
 * one by one. */
bool schedule_make(Schedule *s, Arena *arena, size_t vector_bytes, const TeProgram *p,
                   const TeStage *stage, bool in_order);
void schedule_deinit(Schedule *s);
uint64_t schedule_axes(const Schedule *s, const Te *e);
/* The reduction runs inside vectors, whose lanes are folded at the end. */
bool schedule_folds_lanes(const Schedule *s, const TeStage *stage);

/* An index as a constant plus multiples of axes; false when it is none. */
typedef struct Linear {
    int64_t c;
    int64_t k[AXES_MOST];
} Linear;

bool linear_of(const Te *e, Linear *out);
/* The least and the greatest value over the axes' extents. */
void linear_range(const Linear *l, const TeStage *stage, int64_t *low, int64_t *high);
int64_t stage_extent(const TeStage *stage, int axis);
TeTensor program_tensor(const TeProgram *p, int id);

/* ---- kernel.c ------------------------------------------------------------------------------------------------------ */

typedef struct Kernel {
    Gen *g;
    const TeProgram *p;
    Span span;
    Ssa fn, state;
    Ssa *base; /* by tensor: where its elements are; of a rank-0 input its value */
} Kernel;

/* A function void (state, inputs…, outputs…, scratch) for the program. `constants[i]` is the value of a rank-0 input that is known
 * now, or NULL. Gives the bytes of scratch memory that it wants. NULL after refusing. */
Ssa kernel_make(Gen *g, const TeProgram *p, Span span, const Ssa *constants, size_t *scratch);

/* Whether the stage is a matrix product that BLAS does well. */
bool product_is_gemm(const TeProgram *p, int stage);

/* ---- window.c ------------------------------------------------------------------------------------------------------ */

/* A program of two stages, a copy and a sum, that does what this stage of k->p does; its inputs are the tensors of k->p. NULL when the
 * stage is better left as it is. */
TeProgram *window_program(Kernel *k, int stage);

/* ---- loops.c, element.c ------------------------------------------------------------------------------------------- */

typedef struct Nest {
    Kernel *k;
    const TeProgram *p;
    const TeStage *stage;
    Schedule s;
    Ssa out; /* where the stage's elements go */
    Lanes one, many; /* scalars and vectors */
    Ssa axis[AXES_MOST]; /* the value of each axis now: of tiles and vectors the first */
    int tiles, vectors; /* copies being made */
    int acc_vectors; /* accumulators a tile */
    Ssa mask; /* of the last vector, when it is not full; else NULL */
    int level; /* loops entered */
    PtrMap values[AXES_MOST + 1]; /* by level: Te -> Ssa for each copy */
    PtrMap
        places[AXES_MOST + 1]; /* by level: load -> address with the axes of that level and above */
    Ssa acc[COPIES_MOST], pos[COPIES_MOST]; /* the reduction so far */
    Ssa doubt; /* an i1 in memory: a result is NaN, so the order matters; else NULL */
} Nest;

/* The loops of one stage. */
bool nest_make(Kernel *k, const TeStage *stage, Ssa out);
/* The expression's value in a copy: a vector when it depends on the vector axis. */
Ssa element_value(Nest *n, const Te *e, int vector, int tile);
Ssa element_vector(Nest *n, const Te *e, int vector, int tile);
bool element_is_vector(const Nest *n, const Te *e);
/* Computes what needs no further loop, so that it stands outside of them. */
void element_hoist(Nest *n, const Te *e);
void element_enter(Nest *n);
void element_leave(Nest *n);
/* The mask of a vector copy, NULL when it is full. */
Ssa element_mask(const Nest *n, int vector);

#endif
