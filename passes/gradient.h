/* Gradients of functions: by dataflow, and through everything the language has. */
#ifndef PASSES_GRADIENT_H
#define PASSES_GRADIENT_H

#include "passes/adjoint.h"
#include "passes/lets.h"

/* Every function without control flow, closures or references gives its result and its gradient; others stay, but for the one that is
 * meant. */
bool gradient_first_order(PassRun *run, Module *old);
/* Whether gradients can be asked for at all: parameters are tensors and tuples of them, there are no type parameters. Says why not
 * when `aloud`. */
bool gradient_has_types(PassRun *run, const Def *def, bool aloud);
/* The function that is meant: the one that the context names, a function literal that is the whole program, or @main. `literal` has room
 * for it. NULL where there is none, or none with a body. */
const Def *gradient_meant(const PassRun *run, const Module *old, Def *literal);
/* Puts what was made of a function in its place; `f` NULL is passed on as false. */
bool gradient_put(PassRun *run, const Def *def, Function *f);
/* Calls `found` with each variable that is bound outside of the function. False after saying that one of them holds no tensors. */
bool gradient_outer(PassRun *run, const Function *f, void (*found)(void *data, Var *v), void *data);
/* Says that the place has no gradient. */
void gradient_refuse(PassRun *run, const Expr *e, const char *what);

#endif
