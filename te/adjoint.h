/* The adjoint of a tensor expression, as a tensor expression. */
#ifndef TE_ADJOINT_H
#define TE_ADJOINT_H

#include "te/te.h"

/* Appends to the builder the sum over all elements of the outputs of `grads` times the slope of the output by each element of `wrt`: a
 * tensor like that. The stages from `first` on are differentiated, and read no other tensor that depends on it.
 *
 * Where a stage reads an element, its adjoint belongs to that element. No stage can write where it likes, so the way of the index is
 * gone backward: each axis that an index says is found from the place, the others are summed over. An index that is linear in an axis
 * gives it at once; one that grows with an axis, as those of poolings and resizings do, narrows it to a few positions; any other is
 * compared with the place at all positions.
 *
 * At kinks the slope is that of the original: of max and min that of the first of equals, of relu at 0 that above. */
TeTensor te_adjoint(TeBuilder *b, size_t first, int n, const TeTensor *outputs,
                    const TeTensor *grads, TeTensor wrt);

#endif
