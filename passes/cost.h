/* What types and operator calls cost, from the types and from the operators' tensor expressions. */
#ifndef PASSES_COST_H
#define PASSES_COST_H

#include "ir/expr.h"
#include "te/te.h"

/* The tensors in types; zeroes before the first is added. */
typedef struct TypeSize {
    double elements, bytes;
    bool
        unknown; /* some extent is known only at run time, or the type is too large to look through */
    uint32_t steps;
} TypeSize;

/* Adds the tensors of t, which may be NULL, through tuples; other types hold none. */
void type_size_add(TypeSize *sum, const Type *t);

/* False when the operator has no tensor expression, or a shape is known only at run time. */
bool call_cost(Ctx *cx, Arena *arena, const Call *c, const Op *op, TeCost *out);

#endif
