/* The specification that every module satisfies between passes: types.md section 12. */
#ifndef IR_VERIFY_H
#define IR_VERIFY_H

#include "ir/module.h"

/* Variables bound at most once and used in scope, call arity of operators, attributes in the schema's order, globals defined
 * there or in `env` (NULL: there), types present when `typed`. Reports E0215 or a bug and returns false. */
bool ir_verify(Ctx *cx, const Module *m, const Module *env, bool typed);
/* Of these only that variables are bound once, and that all but those of the module's expression are, where they are used: E0215. */
bool ir_verify_scopes(Ctx *cx, const Module *m);

#endif
