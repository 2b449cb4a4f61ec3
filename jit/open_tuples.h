/* Tuples that are only looked into are taken apart where they are bound.
 *
 *     let %p = @f(%x); … %p.0 … %p.1 …
 *  => let %p = @f(%x); let %r = match (%p) { (%a, %b) => … %a … %b … }; %r
 *
 * So the fields move out of a tuple that nobody else holds: each is alone, and what works in place does so with them. A tuple that is
 * written and then only matched is not made: the match has it as its scrutinee, and looks at its fields.
 *
 *     let %p = (%x, %y); … match (%p) { (Cons(%a, _), %b) => … %b … }
 *  => … match ((%x, %y)) { (Cons(%a, _), _) => … %y … } */
#ifndef JIT_OPEN_TUPLES_H
#define JIT_OPEN_TUPLES_H

#include "ir/module.h"

/* The function, in A normal form, with such tuples opened; new nodes lie in the module. NULL when a limit is hit. */
Function *open_tuples(Ctx *cx, Module *module, Function *fn);

#endif
