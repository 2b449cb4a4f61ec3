/* Calls of kernels wait until something needs a value of theirs, and then become one run.
 *
 * A kernel is a group that the optimiser made, `fn (%p0, …, Primitive=1) { … }(%x, …)`, or an operator that stands alone; what is fused
 * is decided there and nowhere else. What lies between the kernels of a run is in one block of memory that is planned here: a
 * tensor takes the place of one that nobody reads any more, and where a kernel reads each element only to write it, its result
 * takes the argument's. */
#ifndef JIT_PLAN_H
#define JIT_PLAN_H

#include "jit/internal.h"

void plan_begin(Fn *f);
void plan_end(Fn *f);
/* Takes over the let at the current position; false when it is nothing for a plan. */
bool plan_add(Fn *f, Let *let, const Type *type);
/* The value of this variable is still to be computed. */
bool plan_waits(const Fn *f, const Expr *atom);
/* Binds a group; false when the value is none. */
bool plan_group(Fn *f, const Let *let, const Type *type);
/* Before a value that cannot wait is computed: what waits is computed first when that value takes, or is the last to use, something
 * that it reads. */
void plan_before(Fn *f, const Expr *value);
/* Computes what waits and is still needed, or may stop with an error. */
void plan_flush(Fn *f);

#endif
