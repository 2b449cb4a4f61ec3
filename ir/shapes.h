/* Extents that a type leaves open, as `?` or by a symbol, and what the values of a call say of them. */
#ifndef IR_SHAPES_H
#define IR_SHAPES_H

#include "ir/type.h"

#include "runtime/value.h"

/* Whether a value of the type may have a shape that is not known: of tensors, and of tuples of them. */
bool shapes_unknown(const Type *t);
/* The type with the extents of the other one where that says more; itself when they do not agree. */
const Type *shapes_refined(const Type *t, const Type *more);
/* The type with the extents of this value of it. */
const Type *shapes_of_value(Ctx *cx, const Type *t, Value v);

#endif
