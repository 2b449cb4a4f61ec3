/* Calls of operators that are known before the program runs. */
#ifndef PASSES_FOLD_H
#define PASSES_FOLD_H

#include "passes/pass.h"

#include "ir/op.h"

/* Flags of operators that are never folded. */
#define FOLD_NEVER (OP_STATEFUL | OP_NON_COMPUTATIONAL)

/* The value of the call `now` of constants as an expression, or `now` where it is not known, fails, is too large, or the operator
 * has a flag of `kept`. `typed` is the same call with types. NULL when the limit is reached. */
Expr *fold_op_call(Ctx *cx, Module *module, const Call *typed, Expr *now, unsigned kept);
/* What a new expression of operators comes to: a constant where it is known, else itself, typed. */
Expr *fold_new(Ctx *cx, Module *module, Expr *e);

/* A value as a constant expression: a tensor, or a tuple of such; NULL for what cannot stand in a program. */
Expr *fold_value_expr(Arena *arena, Span span, Value v);
/* The value of an operator on constants; NONE when it fails, which it may do when the program runs. */
Value fold_eval(Ctx *cx, const Op *op, const Attrs *attrs, Span span, uint32_t n,
                const Value *args);
/* A tensor of that type, the caller's, whose elements do not matter; NONE when the type is not static. */
Value fold_any_of_type(Ctx *cx, const Type *t);
/* A call of an operator whose shape is an argument, where that is a constant, as one whose shape is an attribute; NULL: it is none. */
Expr *fold_shape_argument(Ctx *cx, Module *module, const Call *call);

#endif
