#include "ir/verify.h"

#include "ir/ctx.h"
#include "ir/op.h"
#include "ir/walk.h"

typedef struct Verify {
    Ctx *cx;
    const Module *module, *env;
    const Name
        *def; /* what is looked at; NULL: the expression, whose free variables are no error */
    PtrMap bound; /* the variables that were bound so far */
    PtrMap open; /* those in scope now, and from 1 their places in `scopes` */
    Vec(const Var *) scopes; /* the same, the innermost last */
    PtrMap
        home; /* a node and the innermost variable that was in scope where it stands, or that it uses */
    PtrMap told;
    Arena arena;
    size_t crossings;
    Span at; /* of the use that is looked at */
    const Var *deepest; /* variable of those met that are in scope */
    bool whole; /* not only scopes */
    bool typed;
    bool ok;
} Verify;

/* ---- scopes ---------------------------------------------------------------------------------------------------------------- */

static void open_binder(void *data, Var *var)
{
    Verify *v = data;
    if (ptrmap_has(&v->bound, var)) {
        v->ok = false;
        diag_error(v->cx->diags, E0215_SCOPE, var->base.span,
                   "variable `%%%s` is bound more than once", var->name->text);
    }
    vec_push(&v->scopes, &v->arena, var);
    ptrmap_put(&v->bound, var, NULL);
    ptrmap_put(&v->open, var, (void *)v->scopes.n);
}

static void close_binder(void *data, Var *var)
{
    Verify *v = data;
    ptrmap_remove(&v->open, var);
    v->scopes.n--;
}

static size_t depth_of(const Verify *v, const Var *var)
{
    return (size_t)ptrmap_find(&v->open, var);
}

/* A variable that is used at `at`. */
static void check_use(void *data, Var *var)
{
    Verify *v = data;
    if (depth_of(v, var) > (v->deepest ? depth_of(v, v->deepest) : 0))
        v->deepest = var;
    bool bound = ptrmap_has(&v->bound, var);
    if (depth_of(v, var) > 0 || (!v->def && !bound) || ptrmap_has(&v->told, var))
        return;
    v->ok = false;
    ptrmap_put(&v->told, var, NULL);
    Diag *d = diag_error(v->cx->diags, E0215_SCOPE, v->at,
                         bound ? "variable `%%%s` is used outside its scope"
                               : "nothing binds the variable `%%%s`",
                         var->name->text);
    if (!bound)
        diag_help(d, "make it a parameter of `@%s`", v->def->text);
    else
        diag_help(d, "it has a value only in what binds it: hand that on as an argument, or give "
                     "it as a result");
}

/* Nodes that are used where what was in scope at their own place is not; each is gone through once more. */
#define CROSSINGS_MOST 20000

/* What is used a second time, and was looked at where it stood first, has its variables here, too. */
static void check_child(void *data, Expr *const *slot)
{
    Verify *v = data;
    const Expr *e = *slot;
    v->at = ir_use_span(v->module, slot);
    v->deepest = NULL;
    if (e->kind == EXPR_VAR) {
        check_use(v, expr_as_var(e));
        return;
    }
    const Var *home = ptrmap_find(&v->home, e);
    if (!home || ptrmap_has(&v->open, home))
        return;
    if (v->crossings++ < CROSSINGS_MOST) {
        ir_free_vars(e, check_use, v);
        ptrmap_put(&v->home, e, (void *)(uintptr_t)v->deepest);
    } else if (v->crossings == CROSSINGS_MOST + 1) {
        v->ok = false;
        diag_error(v->cx->diags, E0215_SCOPE, v->at,
                   "more than %d values are used outside the function in which they stand",
                   CROSSINGS_MOST);
    }
}

static void enter_node(Verify *v, const Expr *e)
{
    if (v->scopes.n)
        ptrmap_put(&v->home, e, (void *)(uintptr_t)vec_last(&v->scopes));
    ir_binders(e, open_binder, v);
}

/* By now all that it is made of was looked at somewhere. */
static void leave_node(Verify *v, const Expr *e)
{
    ir_children(e, check_child, v);
    ir_binders(e, close_binder, v);
}

/* ---- the rest -------------------------------------------------------------------------------------------------------------- */

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

static void check_node(Verify *v, const Expr *e)
{
    if (e->kind == EXPR_CALL)
        check_call(v, expr_as_call(e));
    const GlobalVar *g = expr_as_global(e);
    if (g && v->def && !module_find(v->module, g->name) &&
        !(v->env && module_find(v->env, g->name))) {
        v->ok = false;
        diag_error(v->cx->diags, E0215_SCOPE, e->span, "`@%s` is not defined", g->name->text);
    }
    if (v->typed && !e->type && e->kind != EXPR_OP && e->kind != EXPR_CON &&
        e->kind != EXPR_GLOBAL) {
        v->ok = false;
        diag_bug(v->cx->diags, e->span, "a %s has no type", node_info((ExprKind)e->kind)->name);
    }
}

static WalkNext verify_before(void *data, const Expr *e)
{
    Verify *v = data;
    if (e->kind == EXPR_VAR)
        return WALK_ON;
    if (ptrmap_has(&v->home, e)) /* of an earlier definition */
        return WALK_SKIP;
    enter_node(v, e);
    if (v->whole)
        check_node(v, e);
    return WALK_ON;
}

static WalkNext verify_after(void *data, const Expr *e)
{
    if (e->kind != EXPR_VAR)
        leave_node(data, e);
    return WALK_ON;
}

static bool verify(Verify *v)
{
    const Module *m = v->module;
    arena_init(&v->arena, NULL);
    v->ok = true;
    for (size_t i = 0; i < m->holes.n; i++)
        ptrmap_put(&v->told, m->holes.at[i].var, NULL);
    for (size_t i = 0; i < m->defs.n; i++) {
        v->def = m->defs.at[i].name;
        if (m->defs.at[i].fn)
            ir_walk(&m->defs.at[i].fn->base, verify_before, verify_after, v);
    }
    v->def = NULL;
    if (m->expr)
        ir_walk(m->expr, verify_before, verify_after, v);
    ptrmap_deinit(&v->bound);
    ptrmap_deinit(&v->open);
    ptrmap_deinit(&v->home);
    ptrmap_deinit(&v->told);
    arena_deinit(&v->arena);
    return v->ok;
}

bool ir_verify(Ctx *cx, const Module *m, const Module *env, bool typed)
{
    return verify(&(Verify){.cx = cx, .module = m, .env = env, .typed = typed, .whole = true});
}

bool ir_verify_scopes(Ctx *cx, const Module *m)
{
    return verify(&(Verify){.cx = cx, .module = m});
}
