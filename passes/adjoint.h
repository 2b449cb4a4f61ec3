/* Gradients of operators, by the rules in their rows (Op.grad).
 *
 * A rule is Relay, which the parser reads when it is first needed (ParseEnv.template) and the context keeps. For each call it is filled
 * in: the argument, result and gradient for their names, and for each attribute and condition what it comes to, which is computed as any
 * program is, of the attributes of the call and of types.
 *
 *     nn.softmax     multiply(subtract(%g, sum(multiply(%g, %out), axis=[%axis], keepdims=True)), %out)
 *     stack          let %parts = split(%g, indices_or_sections=take(shape_of(%out), %axis, mode="wrap"), axis=%axis);
 *                    each(fn (%x) { squeeze(%x, axis=[%axis]) }, %parts)
 *     matmul         let %a = if (%transpose_a) { … } else { … }; …
 *
 * Left out is what changes nothing, a reshape or a change of layout to what is there, and `cast_like` of a number is that number. What
 * only attributes use is never computed by the program: the gradient of nn.conv2d asks for the shape of a convolution that nobody makes.
 * Where an attribute is not known, as an extent may be, the gradient follows from the operator's loops, as without a rule. */
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
    bool
        check; /* what has no type in a rule is reported where it stands there; nobody else looks at that */
} AdjointCall;

/* Sets adjoints[i] for each argument. False after a diagnostic: the operator has no gradient. */
bool adjoints(const AdjointCall *call, Expr **out);

#endif
