/* From a tensor program to the nest that computes it: which loops, in which order, on how many lanes and threads.
 *
 * First the program itself is made ready (window.c copies what windows slide over), then its plain nest is made and each part of it
 * goes to the first strategy whose guard takes it. A strategy is a row of functions over primitives, so whatever it decides, the nest
 * means the same. */
#ifndef SCHED_SCHED_H
#define SCHED_SCHED_H

#include "loop/primitive.h"

typedef struct Machine {
    size_t vector_bytes; /* of the widest register that code is made for */
    int registers; /* of vectors */
    int threads;
    int64_t second_cache; /* bytes of that of a core */
    bool dots; /* TE_DOTS is an instruction */
    bool matrices; /* NEST_MATRIX is instructions */
    bool exchanges; /* one instruction puts the bytes of the widest register into any order */
    bool
        transforms; /* sums of products may be computed by fast transforms, which round otherwise */
    bool
        reorders; /* sums and extremes of floats may be taken in another order, sums by the library */
} Machine;

/* The nest. `known[i]` is the tensor that input i always is, which lives longer, or NULL; what is made of such alone is computed once.
 * NULL after a diagnostic. */
Nest *sched_program(Ctx *cx, Arena *arena, const Machine *m, const TeProgram *p,
                    const Tensor *const *known);

/* How the operands and the result of a convolution lie: channels of the data and of the result that lie side by side (1: planes), and
 * whether the weights lie in such blocks of both. */
typedef struct SchedLayout {
    int64_t in, out;
    bool packed;
} SchedLayout;

/* The layout in which the program, one convolution over planes, would rather be computed, where the strategy that takes it has such a
 * wish. */
bool sched_layout(Ctx *cx, Arena *arena, const Machine *m, const TeProgram *p,
                  const Tensor *const *known, SchedLayout *out);

/* The plain nest after primitives by hand (sched/hand.h); NULL after refusing, then `why` says it. */
Nest *sched_by_hand(Ctx *cx, Arena *arena, const TeProgram *p, const char *steps, Buf *why);

typedef struct SchedCost {
    double work; /* operations on vectors, on one of the threads */
    double operations; /* on elements */
    double bytes; /* of what is given, known or made, each once */
} SchedCost;

SchedCost sched_cost(Arena *arena, const Machine *m, const TeProgram *p, Nest *n);

/* ---- what the strategies share --------------------------------------------------------------------------------------- */

typedef struct Sched {
    Ctx *cx;
    Arena *arena;
    Nest *n;
    const Machine *m;
    const TeProgram *p;
    const Tensor *const *known; /* by input */
    int lanes; /* of the part that is scheduled */
    bool failed; /* with a diagnostic */
} Sched;

/* Whether the tensor is an input that is known. */
bool sched_is_known(const Sched *s, int id);
/* The program with copies in front of the sums over windows. */
const TeProgram *window_program(const Sched *s);
/* The program without tables that are the numbers of a multiplication or division; NULL: memory was refused. */
const TeProgram *table_program(const Sched *s);

/* The program with products by the inverse of a root in place of many quotients by it; NULL: memory was refused. */
const TeProgram *root_program(const Sched *s);
/* The program with folds of very many elements into few results made of partial ones; NULL: memory was refused. */
const TeProgram *partial_program(const Sched *s);

/* A buffer of what the program makes of the tensors when code is made; -1 after a diagnostic. */
int sched_constant(Sched *s, const char *name, const TeProgram *p, const Tensor *const *inputs);
/* Lanes for the widest element that the node touches. */
int sched_lanes(Sched *s, NestNode *node);
/* The loop as vectors, `unroll` of them at a time, and what is left over as a shorter one. Each new loop is jammed. */
void sched_vectors(Sched *s, NestNode *loop, int unroll);
/* Perfectly nested loops from here inwards become one where they can. */
void sched_fuse(Sched *s, NestNode *loop);
/* How dear the loads below are for a vector along the loop: nothing for what stays, 1 for contiguous elements, 16 for scattered ones,
 * over the lanes that are of use. */
double sched_vector_cost(Sched *s, NestNode *loop);

/* What a matrix costs, in vector operations. */
double sched_matrix_cost(const NestMatrix *m);
/* Whether the tensor, and as much beside it, does not stay in the second cache. */
bool sched_outgrows(const Sched *s, int buffer);
/* While the functions of a row are computed, the next turn's row of each input comes near. */
void sched_near(Sched *s, NestNode *rows);

/* strategies: each takes a part of the root */
void sched_map(Sched *s, NestNode *node);
void sched_reduction(Sched *s, NestNode *node);
/* Reductions along rows and what else is done with the rows, in one loop; false when there is nothing to join. */
bool sched_rows(Sched *s, NestNode *node);
/* The tensors between the stages of a loop: in registers, in the result, or in memory of its own. */
void sched_narrow(Sched *s, NestNode *node);

#endif
