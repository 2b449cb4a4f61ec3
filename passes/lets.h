/* A chain of `let`s while it is written: values are bound one after the other, then the body closes them.
 *
 *     Lets l = {.make = &make};
 *     Expr *sum = lets_push(&l, add(x, y));
 *     return lets_close(&l, sum);                      // let %x_0 = add(%x, %y); %x_0 */
#ifndef PASSES_LETS_H
#define PASSES_LETS_H

#include "passes/pass.h"

/* What all chains of a pass share. */
typedef struct LetMaker {
    Ctx *cx;
    Arena *arena; /* of the nodes */
    Arena *scratch; /* of the lists */
    Span span;
    uint32_t numbers; /* of the variables so far */
} LetMaker;

typedef struct LetBinding {
    Var *var; /* NULL: what the pattern binds */
    Expr *value;
    Pattern *pattern;
    bool complete; /* the pattern always fits */
} LetBinding;

typedef struct Lets {
    LetMaker *make;
    Vec(LetBinding) bindings;
} Lets;

/* A new variable %x_N. */
Var *lets_var(LetMaker *make);
/* The variable to which the value is now bound. */
Expr *lets_push(Lets *l, Expr *value);
void lets_bind(Lets *l, Var *var, Expr *value);
/* Takes the value apart: what follows becomes the only clause of a `match`. The pattern may be given later; returns the binding's number. */
size_t lets_match(Lets *l, Expr *value, bool complete);
/* The body behind all bindings from number `from` on, which are taken off. */
Expr *lets_close_from(Lets *l, size_t from, Expr *body);
Expr *lets_close(Lets *l, Expr *body);

/* A pattern of the constructor with a new variable for each field. */
Pattern *lets_pattern(LetMaker *make, const Constructor *con, Var **vars);
/* The constructor of these fields. */
Expr *lets_construct(const LetMaker *make, const Constructor *con, Expr *const *fields);

#endif
