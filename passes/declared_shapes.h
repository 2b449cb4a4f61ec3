/* Run-time checks of declared shapes.
 *
 * The checker lets `?` meet a number: `Tensor[(?), float32]` may stand where `Tensor[(3), float32]` is declared. Whether it was 3 turns out
 * when the program runs, and this is the one place that says where that is looked at: at results of functions, at arguments of functions
 * and constructors, at values of annotated `let`s and at what is written to a reference, tensors and tensors in tuples. */
#ifndef PASSES_DECLARED_SHAPES_H
#define PASSES_DECLARED_SHAPES_H

#include "ir/module.h"

/* Whether there is a `?` in it at all. */
bool declared_shapes_open(const Expr *root);
/* `root`, which has types, with calls of `annotation.expect_shape` there. What is made lies in `into` and has types. `m` and `env` (may be
 * NULL) have the definitions that it calls, `home` (may be NULL) knows where uses were written. Itself where nothing is to be looked at: at
 * once, where it has no `?`. NULL after a diagnostic. */
Expr *declared_shapes(Ctx *cx, Module *into, const Module *m, const Module *env, const Module *home,
                      Expr *root);
/* The same for each definition of a module and its expression, as a new module, or m itself, counted. NULL after a diagnostic. */
Module *declared_shapes_of_module(Ctx *cx, Module *m, const Module *env);

#endif
