#include "passes/lets.h"

#include <stdio.h>

Var *lets_var(LetMaker *make)
{
    char name[24];
    snprintf(name, sizeof name, "x_%u", make->numbers++);
    return expr_var(make->arena, make->span, ctx_name(make->cx, name), NULL);
}

void lets_bind(Lets *l, Var *var, Expr *value)
{
    vec_push(&l->bindings, l->make->scratch, ((LetBinding){var, value}));
}

Expr *lets_push(Lets *l, Expr *value)
{
    Var *var = lets_var(l->make);
    lets_bind(l, var, value);
    return &var->base;
}

Expr *lets_close_from(Lets *l, size_t from, Expr *body)
{
    while (l->bindings.n > from) {
        LetBinding b = vec_pop(&l->bindings);
        body = expr_let(l->make->arena, l->make->span, b.var, b.value, body);
    }
    return body;
}

Expr *lets_close(Lets *l, Expr *body)
{
    return lets_close_from(l, 0, body);
}
