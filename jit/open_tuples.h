/* Tuples that are only looked into are taken apart where they are bound, and what is written to be matched is not made.
 *
 *     let %p = @f(%x); … %p.0 … %p.1 …
 *  => let %p = @f(%x); let %r = match (%p) { (%a, %b) => … %a … %b … }; %r
 *
 * and likewise a parameter in front of the function's body. So the fields move out of a tuple that nobody else holds: each is alone, and what
 * works in place does so with them. A tuple, or a value of
 * a constructor, that is written and then only matched is not made: the match has its fields as its scrutinee, as far as clauses that fit
 * look into them.
 *
 *     let %p = (%x, %y); … match (%p) { (Cons(%a, _), %b) => … %b … }
 *  => … match ((%x)) { (Cons(%a, _)) => … %y … }
 *     let %p = Some(%x); … match (%p) { None => …, Some(%a) => … %a … }
 *  => … %x …
 *
 * A match with one clause that ends with what is matched next has the rest of the block in its clause. */
#ifndef JIT_OPEN_TUPLES_H
#define JIT_OPEN_TUPLES_H

#include "ir/module.h"

/* A definition's tuples may cross calls field by field (signature.h): then its parameter is no tuple, its calls hand on the fields, and what
 * it returns of it is made where a block ends with it. Calls of a definition that gives the fields of its result are followed by a
 * projection of each:
 *
 *     let %p = @f(%x); … %p …
 *  => let %q = @f(%x); let %a = %q.0; let %b = %q.1; … (%a, %b) … */
#define SIGNATURE_ROUNDS 2
typedef struct Signature {
    bool gives_fields; /* of the tuple that is its result */
    uint64_t opened
        [SIGNATURE_ROUNDS]; /* parameters, as bits, that come field by field; then those of what came of these */
} Signature;

typedef struct Opens {
    const PtrMap *signatures; /* Name -> Signature */
    unsigned round;
    uint64_t params; /* of the function at hand */
    bool results; /* what calls give is looked at, and no arguments */
} Opens;

/* Kernels make and take tuples of tensors by themselves. */
bool tuple_is_worth_opening(const Type *t);
/* Whether the call gives the fields of its result. */
bool opens_result(const Opens *opens, const Call *call);
/* The arguments of the call, as bits, that are handed on field by field. */
uint64_t opens_args(const Opens *opens, const Call *call);
/* Whether the slot of the node is the end of a block whose value another node has. */
bool expr_is_end(const Expr *e, Expr *const *slot);
/* Whether no clause wants the value itself. */
bool match_only_looks(const Match *m);

/* The function, in A normal form, with such tuples opened; new nodes lie in the module. Opens: NULL where calls take tuples as they are.
 * NULL when a limit is hit. */
Function *open_tuples(Ctx *cx, Module *module, Function *fn, const Opens *opens);

#endif
