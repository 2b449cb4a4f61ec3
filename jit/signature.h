/* Which tuples cross the calls of a program field by field.
 *
 * A parameter does that is looked into, or handed on to such a one, where the function does nothing else with it but give it back: then
 * no call makes a tuple that is taken apart at once. A result does where each way to it writes the tuple or calls a function of which that is
 * true. Calls by name and the functions that they mean agree about it; what is called
 * in another way, by C or as a value, is a function that takes the tuple apart and calls. */
#ifndef JIT_SIGNATURE_H
#define JIT_SIGNATURE_H

#include "jit/internal.h"
#include "jit/open_tuples.h"

/* Finds them for all that the definition reaches, before anything of the unit is made. */
void signatures_find(Gen *g, const Name *root);
/* The function in A normal form, which is made once; a definition has a name, and is as calls by that name call it. NULL when a limit is
 * hit. */
Function *signature_form(Gen *g, const Function *fn, const Name *name);
/* Whether calls by that name give the fields of a tuple. */
bool signature_gives_fields(const Gen *g, const Name *name);
/* Whether calls by that name hand tuples on field by field. */
bool signature_opens(const Gen *g, const Name *name);
/* The definition as all others call it. */
Function *signature_value(Gen *g, const Def *def);

#endif
