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
    vec_push(&l->bindings, l->make->scratch, ((LetBinding){.var = var, .value = value}));
}

size_t lets_match(Lets *l, Expr *value, bool complete)
{
    vec_push(&l->bindings, l->make->scratch, ((LetBinding){.value = value, .complete = complete}));
    return l->bindings.n - 1;
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
        Arena *arena = l->make->arena;
        Span at = l->make->span;
        Clause clause = {b.pattern, body, at};
        body = b.var ? expr_let(arena, at, b.var, b.value, body)
                     : expr_match(arena, at, b.value, 1, &clause, b.complete);
    }
    return body;
}

Expr *lets_close(Lets *l, Expr *body)
{
    return lets_close_from(l, 0, body);
}

Pattern *lets_pattern(LetMaker *make, const Constructor *con, Var **vars)
{
    Pattern **fields = arena_alloc_must(make->scratch, con->n + 1, sizeof *fields);
    for (uint32_t i = 0; i < con->n; i++) {
        vars[i] = lets_var(make);
        fields[i] = pattern_var(make->arena, make->span, vars[i]);
    }
    return pattern_con(make->arena, make->span, con, con->n, fields);
}

Expr *lets_construct(const LetMaker *make, const Constructor *con, Expr *const *fields)
{
    Expr *callee = expr_con(make->arena, make->span, con);
    return expr_call(make->arena, make->span, callee, con->n, fields, NULL);
}
