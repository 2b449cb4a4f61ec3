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

/* The same with numbered variables, but only for the values of which `binds` holds: others stay a graph over these. One that comes last, as
 * the result of its block, gets none either. */
Expr *to_anf_where(Ctx *cx, Module *module, Expr *root, bool (*binds)(void *data, const Expr *e),
                   void *data);

#endif
