/* The steps of a strip, as strip.c makes them and strip_eval.c runs them. */
#ifndef TE_STRIP_H
#define TE_STRIP_H

#include "te/internal.h"

typedef enum StepKind {
    STEP_CONST,
    STEP_RAMP,          /* a linear int64 */
    STEP_LOAD,          /* a load of linear position */
    STEP_WINDOW,        /* the same, cut at the borders: c is what stands outside */
    STEP_GATHER,        /* a position: b in range (or -1), c what stands outside (or -1) */
    STEP_RANGE,         /* whether a lies in [0, extent), and b (or -1) */
    STEP_UNARY,
    STEP_BINARY,
    STEP_CAST,
    STEP_SELECT,
} StepKind;

/* A linear function along consecutive positions: a nest of loops over merged axes. */
typedef struct Runs {
    int64_t base;
    int n;
    int64_t *extent, *stride;   /* outermost first */
    int64_t *fixed;             /* by fixed axis */
} Runs;

/* Where one index of a padded load is inside. */
typedef struct Border {
    int64_t extent, c;
    int64_t *k;                 /* by inner axis */
    int64_t *fixed;
} Border;

typedef struct Step {
    uint8_t kind, op;
    bool invariant, checked;    /* computed once a frame; may fault */
    DTypeId id, from;           /* of the result and of the operands */
    int a, b, c;                /* steps, -1: none */
    int slot;
    int last_use;
    uint64_t bits;              /* CONST */
    const char *data;           /* loads */
    Runs runs;
    int64_t *window;            /* WINDOW: strides by inner axis, which are not merged */
    Border *borders;
    int n_borders;
    int64_t extent;             /* RANGE; GATHER: elements of the tensor */
} Step;

struct Strip {
    Vec(Step) steps;
    int n_slots;
    int64_t length;
    StripSpace space;
};

#endif
