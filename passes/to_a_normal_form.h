/* A normal form: every value is bound by a `let` in its block, operands are atoms. */
#ifndef PASSES_TO_A_NORMAL_FORM_H
#define PASSES_TO_A_NORMAL_FORM_H

#include "ir/module.h"

/* The expression, or the function with its body, in A normal form. New nodes lie in the module's arena and take over the types, so
 * that a typed expression stays typed. Functions with the attribute Primitive stay as they are, except `root` itself. NULL where a
 * limit is hit. */
Expr *to_anf(Ctx *cx, Module *module, Expr *root);
/* The same with new variables whose names are empty, for what nobody reads. */
Expr *to_anf_unnamed(Ctx *cx, Module *module, Expr *root);

#endif
