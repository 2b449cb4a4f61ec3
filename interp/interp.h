/* The reference evaluator: a tree walker over resolved code, on a stack of its own.
 *
 * A function is prepared once: brought to A normal form (so that a shared node is evaluated once, in its scope), variables resolved to
 * slots of a frame, tail calls marked, and for each step chosen what runs it, where types tell: two scalars that they know are added
 * without a look at what they are. Evaluation keeps its frames on the heap: tail calls take constant space, recursion is limited by
 * memory or the depth limit and ends in E0504, and the interrupt flag is looked at in every few hundred calls and behind every operator
 * that may take long. */
#ifndef INTERP_INTERP_H
#define INTERP_INTERP_H

#include "ir/ctx.h"
#include "ir/module.h"

typedef struct Interp Interp;

/* Prepared code is cached by function and kept for the interpreter's life or until interp_forget. */
Interp *interp_new(Ctx *cx);
void interp_free(Interp *in);
/* Drops code prepared for definitions of this module. */
void interp_forget(Interp *in, const Module *m);

/* Evaluates a typed expression. Globals are looked up in `env` at each use; `locals` gives values to free variables: Var -> const Value *.
 * The value is the caller's; VALUE_NONE after a diagnostic. `keep` is the module in whose arena `e` lies. */
Value interp_eval(Interp *in, Module *env, Module *keep, Expr *e, const PtrMap *locals);
/* Calls a function value (closure, constructor or operator), or the named definition, on arguments (lent). */
Value interp_call(Interp *in, Module *env, Value fn, uint32_t n, const Value *args, Span span);
Value interp_call_global(Interp *in, Module *env, const Name *name, uint32_t n, const Value *args,
                         Span span);

/* Operators and calls are counted there from now on; NULL: nowhere. */
void interp_count(Interp *in, atomic_uint_least64_t *steps);

/* Where function values look up globals that compiled code calls. */
void interp_set_env(Interp *in, Module *env);

#endif
