/* Calls of known functions, unfolded; and functions as literals that call them. */
#ifndef PASSES_BETA_H
#define PASSES_BETA_H

#include "passes/facts.h"

/* The body of a copy of f, with fresh variables, over these arguments. Arguments that may be moved stand in place of their
 * parameters, others are bound by a `let` in front of the body. `sources[i]` is args[i] as it was when it had types. f has no type
 * parameters. With `total`, for code, only values and data move: what operators compute is computed once, where it was, and stops there
 * with its errors. NULL when memory ran out. */
Expr *beta(Ctx *cx, Module *module, Purity *purity, Totality *total, const Function *f, uint32_t n,
           Expr *const *args, Expr *const *sources);

/* A copy of a polymorphic function at these types, one for each of its type parameters, without types of its own. NULL when memory ran out. */
Function *beta_instance(Ctx *cx, Module *module, const Function *f, const Type *const *with);

/* fn [A](params) -> R { callee(params) } around what is of this type, with these attributes; where it is an operator the call has its defaults.
 * NULL when memory ran out. */
Function *eta(Ctx *cx, Module *module, Arena *scratch, Expr *callee, const Type *t,
              const Attrs *attrs);

#endif
