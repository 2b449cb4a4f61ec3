/* Operands with effects, for passes that move operands about.
 *
 *     subtract(ref_read(%r), multiply(@set(%r, 5f), 2f))
 *  => let %x_1 = ref_read(%r); let %x_2 = @set(%r, 5f); subtract(%x_1, multiply(%x_2, 2f))
 *
 * Behind it nothing that operators compute has an effect on references, so that nobody can tell in which order, how often, or whether at all their operands
 * are evaluated. A program without such operands stays the same node, for which one look at it is enough. */
#ifndef PASSES_ORDER_H
#define PASSES_ORDER_H

#include "passes/pass.h"

/* The function, or an expression, typed as it was; where it has operands of the kind, each value with an effect is bound by a `let` where
 * it is evaluated. NULL where a limit is hit. */
Expr *order_effects(PassRun *run, PassOrder wanted, Expr *root);

#endif
