/* A module becomes ready: it gets its types, and what stands for programs in it (`grad(@loss)`) is replaced by them. */
#include "ir/walk.h"
#include "passes/forms.h"
#include "session/internal.h"

static const Local *local_of(const RelaySession *s, const Var *v)
{
    for (size_t i = 0; i < s->n_locals; i++)
        if (s->locals[i].var == v)
            return &s->locals[i];
    return NULL;
}

typedef struct Current {
    const RelaySession *s;
    bool all;
} Current;

static void note_current(void *data, Var *v)
{
    Current *c = data;
    c->all = c->all && local_of(c->s, v);
}

/* What the cell wrote behind `let %f =`, if the variables in it are still what they were. */
const Expr *session_written(void *data, const Var *v)
{
    const Local *l = local_of(data, v);
    const Let *let = l ? expr_as_let(l->module->expr) : NULL;
    if (!let || let->var != v || !let->value->type)
        return NULL;
    Current c = {data, true};
    ir_free_vars(&let->base, note_current, &c);
    return c.all ? let->value : NULL;
}

bool session_check(RelaySession *s, Module *m, const Module *env, CheckWish wish)
{
    return typecheck_module_as(&s->cx, m, env, wish) &&
           forms_expand(&s->cx, m, env, (FormsWish){session_written, s});
}
