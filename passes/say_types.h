/* What the text of a program says of types, where passes took away what said it. */
#ifndef PASSES_SAY_TYPES_H
#define PASSES_SAY_TYPES_H

#include "ir/ctx.h"
#include "ir/module.h"

/* The typed module with `let %x: T = e; %x` for each value e of which its text says no type, so that it can be read again. Takes m and
 * gives it back where nothing is missing; NULL where a limit is hit. */
Module *say_types(Ctx *cx, Module *m, const Module *env);

#endif
