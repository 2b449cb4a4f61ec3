/* Types of new nodes while a pass still runs, for what is put above them and asks. The checker skips what is typed. */
#ifndef PASSES_TYPES_H
#define PASSES_TYPES_H

#include "base/table.h"
#include "ir/module.h"

/* A node that was rebuilt over other children and has the type it had before takes it over, unless a child has none yet. */
void expr_keep_type(Expr *now, const Expr *old);

/* Types what is new below e as far as it consists of constants, tuples, projections and calls of operators. Returns e. */
Expr *expr_type_ops(Ctx *cx, Expr *e);

/* The same without a message where there is no type. Whether there is one. */
bool expr_try_type_ops(Ctx *cx, Expr *e);

/* The tensor type of e; NULL when it has none yet, or another. */
const Type *expr_tensor_type(const Expr *e);

/* Whether both are tensors of one shape; NULL is none. */
bool types_same_shape(const Type *a, const Type *b);

/* Whether a tensor of the type (NULL: it is not known) has so many axes, with extents that are known and not 0. */
bool type_has_extents(const Type *t, uint32_t rank);

/* Whether a value of type `found` may stand where a variable of type `needed` does that is bound to it: not when it is a function of more types,
 * or holds one, for what is made of it would be of others. NULL: it is not known, and the value may. */
bool types_as_it_is(Ctx *cx, const Type *found, const Type *needed);

/* What types mention, in the order in which they do. */
typedef struct TypesOf {
    PtrMap seen; /* types */
    PtrMap bound, used; /* type variables */
    PtrMap
        free; /* those that are used where the type does not bind them; a recursive call's binds those of the places around */
    PtrMap params; /* those that functions bind */
    PtrMap defs; /* data types */
    bool dtypes[DTYPE_IDS];
    const PtrMap *parts;
} TypesOf;

/* Those of e, of the variables that it binds and of what is below it. Of the functions in `parts` (NULL: there are none) only the type
 * variables count that they say, as a TypeVarList. */
void types_of(const Expr *e, const PtrMap *parts, TypesOf *out);
/* A type more; NULL is none. */
void types_of_note(TypesOf *w, const Type *t);
void types_of_free(TypesOf *w);

#endif
