/* A definition for the extents that it is called with. */
#ifndef PASSES_SPECIALIZE_SHAPES_H
#define PASSES_SPECIALIZE_SHAPES_H

#include "passes/pass.h"

/* Whether the types of parameters leave extents open. */
bool specialize_leaves_open(const Function *f);
/* `name` of m, which has all that it reaches, over parameters of these types (NULL: one stays as it is declared): definitions whose
 * parameters leave extents open stand in it where they are called, types follow from its parameters, and what decides shapes is
 * computed. A module with it and what it still calls, the caller's; NULL where what it calls calls it, or it has no types then: nothing
 * is reported. */
Module *specialize_shapes(PassContext *pc, Module *m, const Name *name, const Type *const *types);

#endif
