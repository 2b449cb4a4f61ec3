/* Running one operator on values. */
#ifndef TE_OP_EVAL_H
#define TE_OP_EVAL_H

#include "ir/ctx.h"

/* Runs an operator on concrete values: sizes the result by `rel`, computes it by `compute` or `kernel`. The result is the caller's;
 * VALUE_NONE after a diagnostic at `span`. */
Value op_eval(Ctx *cx, const Op *op, const Attrs *attrs, Span span, uint32_t n, const Value *args);
/* The same for a caller that gives up a count of the first argument behind the call: where nobody else has one, a kernel that changes few
 * elements writes these, and copies none. */
Value op_eval_last(Ctx *cx, const Op *op, const Attrs *attrs, Span span, uint32_t n,
                   const Value *args);
/* The type of the result for arguments of these types, one whose values memory can hold. NULL after a diagnostic at `span`. */
const Type *op_eval_type(Ctx *cx, const Op *op, const Attrs *attrs, Span span, uint32_t n,
                         const Type *const *types, const Value *const *values);

#endif
