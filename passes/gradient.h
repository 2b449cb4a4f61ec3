/* Gradients of functions: by dataflow, and through everything the language has. */
#ifndef PASSES_GRADIENT_H
#define PASSES_GRADIENT_H

#include "passes/adjoint.h"
#include "passes/lets.h"

/* Every function without control flow, closures or references gives its result and its gradient; others stay, but for @main. */
bool gradient_first_order(PassRun *run, Module *old);
/* Whether gradients can be asked for at all: parameters are tensors and tuples of them, there are no type parameters. Says why not
 * when `aloud`. */
bool gradient_has_types(PassRun *run, const Def *def, bool aloud);
/* Says that the place has no gradient. */
void gradient_refuse(PassRun *run, const Expr *e, const char *what);

#endif
