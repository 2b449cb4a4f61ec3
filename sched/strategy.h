/* The ways to compute a sum of products, one row each: when it can, what it costs, and how it is built. The cheapest that fits is
 * taken; where none fits the loops of the sum are scheduled. A row puts what computes the stage behind the other parts of the root, and
 * says what it would cost in a layout in which it has nothing to turn. */
#ifndef SCHED_STRATEGY_H
#define SCHED_STRATEGY_H

#include "sched/sched.h"

/* The mapping stage that alone reads a stage, its elements in their order: it is computed where the sums are stored. */
typedef struct Tail {
    int stage; /* -1: none */
    int of; /* the tensor that it reads */
} Tail;

typedef struct Strategy {
    const char *name;
    bool (*fits)(const Sched *s, int stage);
    double (*cost)(const Sched *s, int stage); /* in operations on vectors */
    bool (*takes)(const Sched *s, int stage, int tail); /* as its tail; NULL: none */
    void (*build)(Sched *s, int stage, const Tail *t);
    /* What a convolution over planes would cost in another layout in which this way has nothing to turn; below 0: there is none. NULL:
     * there never is. */
    double (*elsewhere)(const Sched *s, int stage, SchedLayout *out);
} Strategy;

/* What a byte costs that comes from behind the second cache. */
#define SCHED_BYTE_COST 0.15

/* NULL: none fits or is better than the stage's plain reduction, or there is nothing to compute. */
const Strategy *strategy_of(const Sched *s, int stage);
/* Whether the stage has no element, or folds none. */
bool strategy_is_idle(const TeStage *st);

/* The axis by which axes [first, last] of the tail may be gone through as one, the others of them 0; -1: they may not. */
int tail_axis(const Sched *s, int tail, int first, int last);

/* The sides of a product's results, the innermost first. */
#define TAIL_SIDES 4

/* For each side, so many elements, the tail's axis by which it may be gone through, -1 where it has one element; false: one may not. */
bool tail_sides(const Sched *s, int tail, const int64_t extent[TAIL_SIDES], int axis[TAIL_SIDES]);

/* Sides of a stage that is a matrix product: result (i, j) lies at i * m.c + j. There is such a product for each of `outer` batches, where
 * the caller takes that (else NULL). */
bool product_sides(const TeProgram *p, int stage, NestProduct *q, NestSide *outer);
/* What such a product costs as a plain reduction whose vectors go along the sum; below 0: it is none that does well so. */
double folds_cost(const Sched *s, int stage);
/* What a convolution over planes costs whose sums run over whole planes at once, rows behind each other (window.c), with the copies in front
 * of them and behind; below 0: it is none that may be computed so. Its sums are what slid.c computes, which have so many rows and products. */
double planes_cost(const Sched *s, int stage);
enum { SLID_ROWS_LEAST = 4, SLID_TURNS_LEAST = 16 };
/* The types of its operands' elements. */
DType product_dtype(const TeProgram *p, int id);

#define STRATEGY(name)                             \
    bool name##_fits(const Sched *s, int stage);   \
    double name##_cost(const Sched *s, int stage); \
    void name##_build(Sched *s, int stage, const Tail *t);
STRATEGY(winograd)
STRATEGY(direct)
STRATEGY(matrix)
STRATEGY(blocked)
STRATEGY(depthwise)
STRATEGY(channels)
STRATEGY(packed)
STRATEGY(matrices)
STRATEGY(plain)
STRATEGY(turned)
STRATEGY(product)
STRATEGY(slid)
#undef STRATEGY

/* The block for so many channels: a vector, or half of one; 1: neither divides them. */
int64_t sched_block(const Sched *s, int64_t channels);
double winograd_elsewhere(const Sched *s, int stage, SchedLayout *out);
double blocked_elsewhere(const Sched *s, int stage, SchedLayout *out);
double channels_elsewhere(const Sched *s, int stage, SchedLayout *out);

#endif
