/* Gradients of operators, from the text in their rows (Op.grad). */
#ifndef PASSES_ADJOINT_H
#define PASSES_ADJOINT_H

#include "passes/pass.h"

/* One call whose arguments' gradients are asked for. */
typedef struct AdjointCall {
    Ctx *cx;
    Arena *arena;
    const Call *typed; /* the call as it was, with types */
    Expr *const *args; /* what stands for the arguments */
    Expr *out;         /* what stands for the result */
    Expr *grad;        /* the gradient of the result */
} AdjointCall;

/* Sets adjoints[i] for each argument; parts of the same words are one node. False after a diagnostic: the operator has no gradient. */
bool adjoints(const AdjointCall *call, Expr **out);

#endif
