/* Tuples that are only looked into are taken apart where they are bound, and what is written to be matched is not made.
 *
 *     let %p = @f(%x); … %p.0 … %p.1 …
 *  => let %p = @f(%x); let %r = match (%p) { (%a, %b) => … %a … %b … }; %r
 *
 * So the fields move out of a tuple that nobody else holds: each is alone, and what works in place does so with them. A tuple, or a value of
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

/* The function, in A normal form, with such tuples opened; new nodes lie in the module. NULL when a limit is hit. */
Function *open_tuples(Ctx *cx, Module *module, Function *fn);

#endif
