#include "ir/verify.h"

#include "ir/ctx.h"
#include "ir/op.h"
#include "ir/walk.h"

typedef struct Verify {
    Ctx *cx;
    const Module *module, *env;
    PtrMap bound;           /* Var -> the node that binds it */
    PtrMap open;            /* variables in scope now */
    bool typed;
    bool closed;            /* free variables are an error */
    bool ok;
} Verify;

static void open_binder(void *data, Var *var)
{
    Verify *v = data;
    if (ptrmap_has(&v->bound, var)) {
        v->ok = false;
        diag_error(v->cx->diags, E0215_SCOPE, var->base.span,
                   "variable `%%%s` is bound more than once", var->name->text);
    }
    ptrmap_put(&v->bound, var, NULL);
    ptrmap_put(&v->open, var, NULL);
}

static void close_binder(void *data, Var *var)
{
    ptrmap_remove(&((Verify *)data)->open, var);
}

static void check_child(void *data, Expr *const *slot)
{
    Verify *v = data;
    const Var *var = expr_as_var(*slot);
    if (!var || ptrmap_has(&v->open, var))
        return;
    if (!v->closed && !ptrmap_has(&v->bound, var))
        return;
    v->ok = false;
    diag_error(v->cx->diags, E0215_SCOPE, ir_use_span(v->module, slot),
               "variable `%%%s` is used outside its scope", var->name->text);
}

static void check_call(Verify *v, const Call *call)
{
    const Op *op = expr_call_of_op(&call->base);
    if (!op)
        return;
    uint32_t n = 0;
    for (const OpAttr *a = op->attrs; a && a->name; a++)
        n++;
    if ((call->attrs ? call->attrs->n : 0) != n) {
        v->ok = false;
        diag_bug(v->cx->diags, call->base.span, "a call of `%s` lacks attributes", op->name);
    }
}

static WalkNext verify_before(void *data, const Expr *e)
{
    Verify *v = data;
    if (e->kind == EXPR_VAR)
        return WALK_ON;
    ir_binders(e, open_binder, v);
    ir_children(e, check_child, v);
    if (e->kind == EXPR_CALL)
        check_call(v, expr_as_call(e));
    const GlobalVar *g = expr_as_global(e);
    if (g && v->closed && !module_find(v->module, g->name) &&
        !(v->env && module_find(v->env, g->name))) {
        v->ok = false;
        diag_error(v->cx->diags, E0215_SCOPE, e->span, "`@%s` is not defined", g->name->text);
    }
    if (v->typed && !e->type && e->kind != EXPR_OP && e->kind != EXPR_CON &&
        e->kind != EXPR_GLOBAL) {
        v->ok = false;
        diag_bug(v->cx->diags, e->span, "a %s has no type", node_info((ExprKind)e->kind)->name);
    }
    return WALK_ON;
}

static WalkNext verify_after(void *data, const Expr *e)
{
    ir_binders(e, close_binder, data);
    return WALK_ON;
}

bool ir_verify(Ctx *cx, const Module *m, const Module *env, bool typed)
{
    Verify v = {.cx = cx, .module = m, .env = env, .typed = typed, .closed = true, .ok = true};
    for (size_t i = 0; i < m->defs.n; i++)
        if (m->defs.at[i].fn)
            ir_walk(&m->defs.at[i].fn->base, verify_before, verify_after, &v);
    v.closed = false;
    if (m->expr)
        ir_walk(m->expr, verify_before, verify_after, &v);
    ptrmap_deinit(&v.bound);
    ptrmap_deinit(&v.open);
    return v.ok;
}
