/* Operators on tensors of known shape wait until something needs a value of theirs, and then become one kernel together.
 *
 * The waiting calls are one tensor program; what is fused in it, in which order loops run and where intermediate tensors lie is
 * decided when the plan is flushed (schedule.c). */
#ifndef JIT_PLAN_H
#define JIT_PLAN_H

#include "jit/internal.h"

void plan_begin(Fn *f);
void plan_end(Fn *f);
/* Takes over the let at the current position; false when it is nothing for a plan. */
bool plan_add(Fn *f, Let *let, const Type *type);
/* Before a value that cannot wait is computed: what waits is computed first when that value takes, or is the last to use, something
 * that it reads. */
void plan_before(Fn *f, const Expr *value);
/* Computes what waits and is still needed, or may stop with an error. */
void plan_flush(Fn *f);

#endif
