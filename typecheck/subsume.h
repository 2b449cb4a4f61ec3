/* Subsumption: which values of one type are values of another, and where a program relies on it.
 *
 * A function that can be called at every type is one that can be called at a single one, not the other way; what holds functions follows
 * them. This is the relation of M. Odersky and K. Läufer, "Putting type annotations to work" (POPL 1996): the type parameters of what is
 * needed stand for types that nothing is known of, those of what is found for any that fit, and none of the former leaves its function. */
#ifndef TYPECHECK_SUBSUME_H
#define TYPECHECK_SUBSUME_H

#include "base/table.h"
#include "ir/ctx.h"
#include "ir/expr.h"

typedef enum Fit {
    FIT_AS_IT_IS, /* the types are the same, up to names and extents */
    FIT_CALLED_AT_ONE, /* a function of all types where one of a single type is needed */
    FIT_INSIDE, /* such a function inside of it */
    FIT_NOT,
    FIT_TOO_LARGE, /* to be found out */
} Fit;

/* How a value of type `found` is one of type `needed`, both without holes. Extents are not looked at beyond what no value could have.
 * `holders` keeps what def_only_holds found. */
Fit type_fit(Ctx *cx, PtrMap *holders, const Type *found, const Type *needed);

/* Whether values of the data type only hold what its type parameters are, so that a type argument may be any that the values fit: nothing that
 * can be reached from its fields is a function, which would take such a value, or a reference, which could be given one. What is found is
 * kept in `known`: TypeDef -> itself, or something else where it is not so. */
bool def_only_holds(PtrMap *known, const TypeDef *def);

/* The operator that a function type is that of; NULL: of none. */
const Op *op_behind(const Type *f);

/* A value that a node uses, or is, and what its type has to be for that. */
typedef struct Use {
    const Expr *value; /* what is used; the node itself where it is what its parts make of it */
    Expr *const *slot; /* of the node, in which the value stands; NULL: in none */
    const Type *found, *needed;
} Use;

/* Calls `use` with each of a node whose parts have types, until it says false. False when it did. */
bool expr_uses(Ctx *cx, const Expr *e, bool (*use)(void *data, const Use *use), void *data);

#endif
