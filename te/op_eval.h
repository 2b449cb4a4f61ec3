/* Running one operator on values. */
#ifndef TE_OP_EVAL_H
#define TE_OP_EVAL_H

#include "ir/ctx.h"

/* Runs an operator on concrete values: sizes the result by `rel`, computes it by `compute` or `kernel`. The result is the caller's;
 * VALUE_NONE after a diagnostic at `span`. */
Value op_eval(Ctx *cx, const Op *op, const Attrs *attrs, Span span, uint32_t n, const Value *args);

#endif
