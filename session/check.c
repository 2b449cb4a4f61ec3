/* A module becomes ready: it gets its types, and what stands for programs in it (`grad(@loss)`) is replaced by them. */
#include "ir/walk.h"
#include "passes/forms.h"
#include "session/internal.h"

typedef struct Current {
    const RelaySession *s;
    bool all;
} Current;

static void note_current(void *data, Var *v)
{
    Current *c = data;
    c->all = c->all && (ptrmap_find(&c->s->local_names, v->name) == v ||
                        ptrmap_find(&c->s->graph_names, v->name) == v);
}

bool session_is_current(const RelaySession *s, const Expr *e)
{
    Current c = {s, true};
    ir_free_vars(e, note_current, &c);
    return c.all;
}

const Expr *session_written(void *data, const Var *v)
{
    RelaySession *s = data;
    for (int graph = 0; graph < 2; graph++) {
        const Local *l = session_local(s, v->name, graph);
        const Let *let = l && l->var == v ? expr_as_let(l->module->expr) : NULL;
        if (let && let->var == v && let->value->type)
            return session_is_current(s, &let->base) ? let->value : NULL;
    }
    return NULL;
}

Expr *session_behind(RelaySession *s, Expr *e, Var **last)
{
    const Expr *value = e->kind == EXPR_VAR ? session_written(s, expr_as_var(e)) : NULL;
    while (value && type_find(value->type)->kind == TYPE_FUNC) {
        if (last)
            *last = expr_as_var(e);
        e = (Expr *)(uintptr_t)value;
        value = e->kind == EXPR_VAR ? session_written(s, expr_as_var(e)) : NULL;
    }
    return e;
}

static bool is_wrong(void *data, const Name *name)
{
    return session_failed(data, name);
}

bool session_check(RelaySession *s, Module *m, const Module *env, CheckWish wish)
{
    return typecheck_module_as(&s->cx, m, env, wish) &&
           forms_expand(&s->cx, m, env, (FormsWish){session_written, is_wrong, s});
}
