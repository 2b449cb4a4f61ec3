/* What moving scales into weights, forward and backward, has in common. */
#ifndef PASSES_FOLD_SCALE_H
#define PASSES_FOLD_SCALE_H

#include "passes/pass.h"

#include "stdlib/ops/ops.h"

/* What a value would take: a factor for each element along `axis`, in some places a positive one. */
typedef struct Demand {
    int axis; /* -1: nothing */
    bool positive;
} Demand;

#define DEMAND_NONE ((Demand){.axis = -1})

typedef enum ScaleKind {
    SCALE_OTHER,
    SCALE_WEIGHTED,
    SCALE_RELU,
    SCALE_SUM,
    SCALE_BIAS,
    SCALE_PRODUCT
} ScaleKind;

/* How a call treats a factor; SCALE_OTHER for what is not in the table. */
ScaleKind scale_kind(const Expr *e);
/* Of a convolution or dense: the axis of its input, its result and its weight along which one factor for each channel may stand; false
 * where there is none. */
typedef struct ScaleAxes {
    int in, out;
    int weight_in, weight_out;
} ScaleAxes;
bool scale_axes(const Call *call, ScaleAxes *out);
/* The operand has one element for each along `axis` of `t` and is the same along all others. `squeezed` gets those of its own axes
 * that are not that one, n of them. */
bool scale_matches(const Type *t, const Type *operand, int axis, int64_t *squeezed, int *n);
/* A constant, perhaps in another shape, of numbers above 0. */
bool scale_is_positive(const Expr *e);
/* The operand as a vector. */
Expr *scale_vector(const OpsMake *m, Expr *operand, int n, const int64_t *squeezed);

#endif
