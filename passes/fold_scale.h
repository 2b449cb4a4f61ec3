/* What moving scales into weights, forward and backward, has in common. */
#ifndef PASSES_FOLD_SCALE_H
#define PASSES_FOLD_SCALE_H

#include "passes/pass.h"

#include "stdlib/ops/ops.h"

/* Where the channels are: along an axis, and, in a layout that has them in blocks, along a second one. */
typedef struct Channels {
    int axis; /* -1: nowhere */
    int block; /* -1: none */
} Channels;

/* What a value would take: a factor for each channel, in some places a positive one, in some one by which something else is divided. */
typedef struct Demand {
    Channels at;
    bool positive, divides;
} Demand;

#define DEMAND_NONE ((Demand){.at = {-1, -1}})

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
/* Of a convolution or dense: where its input, its result and its weight have the channels for which one factor each may stand; false
 * where there is none. */
typedef struct ScaleAxes {
    Channels in, out;
    Channels weight_in, weight_out;
} ScaleAxes;
bool scale_axes(const Call *call, ScaleAxes *out);
/* The operand has one element for each channel of `t` and is the same along all other axes. `squeezed` gets those of its own axes
 * that are without channels, n of them. */
bool scale_matches(const Type *t, const Type *operand, Channels at, int64_t *squeezed, int *n);
/* The factor that scale_vector gave, brought to the channels of type `t`. */
Expr *scale_spread(const OpsMake *m, Expr *vector, const Type *t, Channels at);
/* A constant, perhaps in another shape, of numbers above 0. */
bool scale_is_positive(const Expr *e);
/* A constant of numbers so far from 0 that quotients by them stay numbers; where it is not for code, as in the original, also what is no constant. */
bool scale_may_divide(const PassRun *run, const Expr *e);
/* For code a factor is worth moving only where both it and the weight are known: kernels multiply what they have in registers, and a weight
 * that is none would be multiplied in each call. Elsewhere, as in the original, always. */
bool scale_is_known(const PassRun *run, const Expr *e);
/* What both passes tell: of a product that it goes or why it stays, and of a weight what it is now. */
extern const PassRule scale_rules[];
void scale_tell_goes(const PassRun *run, const Call *product, const Expr *factor);
void scale_tell_stays(const PassRun *run, const Call *product, const char *why);
void scale_tell_weight(const PassRun *run, const Call *weighted, const Expr *factor);
/* Why this factor of a product cannot go where a demand is; NULL: it can. */
const char *scale_stop(const PassRun *run, Demand d, bool matches, const Expr *factor);
/* The operand without the axes that are squeezed: a vector, or blocks of one. */
Expr *scale_vector(const OpsMake *m, Expr *operand, int n, const int64_t *squeezed);

#endif
