/* Typed forms: calls such as `grad(@loss)` that are written, checked and read like any call, and that stand for a program.
 *
 * An operator with the flag OP_FORM has a type and no meaning of its own. Once a module has types, each call of one is replaced by
 * what it stands for, so that nobody behind this sees a form: neither printer, pass nor engine. */
#ifndef PASSES_FORMS_H
#define PASSES_FORMS_H

#include "ir/ctx.h"
#include "ir/module.h"

typedef struct FormsWish {
    /* The value with types that a variable of the surroundings was bound to; NULL: nobody knows. */
    const Expr *(*value_of)(void *data, const Var *v);
    /* Whether a definition of the surroundings has an error, which was reported: a form of what calls it stays. NULL: none has. */
    bool (*is_wrong)(void *data, const Name *name);
    void *data;
} FormsWish;

/* Replaces the forms in the definitions and the expression of a module that was just checked, and checks what takes their place. The
 * definitions remember how they were written (Def.written). False after a diagnostic. */
bool forms_expand(Ctx *cx, Module *m, const Module *env, FormsWish wish);

#endif
