/* A node keeps the type that it had when what told it goes: `Nil` knows that it is an empty list of integers behind the branch that put
 * one in front of it. A text has types at binders alone. So what would be read is inferred, a copy in which only these have types, and
 * what that does not find is bound to a variable. */
#include "passes/say_types.h"

#include "ir/walk.h"
#include "typecheck/typecheck.h"

static bool is_general(const Type *t)
{
    t = t ? type_find(t) : NULL;
    return t && t->kind == TYPE_FUNC && t->n_params;
}

/* Without what has a type for each use there is nothing that a use could leave open. */
static WalkNext find_general(void *data, const Expr *e)
{
    const ConRef *con = expr_as_con(e);
    bool found = con ? con->con->type->n_params > 0 : e != data && is_general(e->type);
    return found ? WALK_STOP : WALK_ON;
}

/* ---- what is read --------------------------------------------------------------------------------------------------------------- */

static void copy_binder(void *data, Var *v)
{
    Rewriter *rw = data;
    rewriter_put(rw, v,
                 expr_var(&rw->module->arena, v->base.span, v->name,
                          v->base.type ? v->base.type : v->annotation));
}

static bool enter_copy(Rewriter *rw, const Expr *old, Expr **now)
{
    (void)now;
    ir_binders(old, copy_binder, rw);
    return false;
}

static Expr *note_copy(Rewriter *rw, const Expr *old, Expr *now)
{
    Function *f = expr_as_function(now);
    const Type *t = f && old->type ? type_find(old->type) : NULL;
    if (t && t->kind == TYPE_FUNC)
        f->ret_type = t->result;
    ptrmap_put(rw->data, now, (void *)(uintptr_t)old);
    return now;
}

/* `origin`: node of the copy -> node of m. */
static Module *copy_general(Ctx *cx, Module *m, PtrMap *origin)
{
    Module *copy = module_derive(m);
    if (!copy)
        return NULL;
    Rewriter rw;
    rewriter_init(&rw, cx, copy, note_copy, origin);
    rw.enter = enter_copy;
    rw.copying = true;
    for (size_t i = 0; i < m->defs.n && !rw.failed; i++) {
        const Def *def = &m->defs.at[i];
        if (!def->fn || def->imported || ir_walk(&def->fn->base, NULL, find_general, def->fn))
            continue;
        Function *f = expr_as_function(ir_rewrite(&rw, &def->fn->base));
        if (f)
            module_define(copy, def->name, f, def->span, copy);
    }
    if (m->expr && !rw.failed && !ir_walk(m->expr, NULL, find_general, NULL))
        copy->expr = ir_rewrite(&rw, m->expr);
    rewriter_deinit(&rw);
    return copy;
}

/* ---- what is written ------------------------------------------------------------------------------------------------------------ */

static Expr *bind_unsaid(Rewriter *rw, const Expr *old, Expr *now)
{
    if (!ptrmap_has(rw->data, old))
        return now;
    Arena *arena = &rw->module->arena;
    Var *var = expr_var(arena, old->span, ctx_name(rw->cx, "x"), old->type);
    return expr_let(arena, old->span, var, now, &var->base);
}

Module *say_types(Ctx *cx, Module *m, const Module *env)
{
    PtrMap origin = {0}, found = {0}, unsaid = {0};
    Module *copy = copy_general(cx, m, &origin);
    if (copy && origin.n) {
        Attempt attempt;
        attempt_begin(&attempt, cx);
        typecheck_module_as(cx, copy, env, (CheckWish){.unsaid = &found});
        attempt_end(&attempt, cx);
    }
    for (size_t i = 0; i < found.n; i++) {
        void *old = ptrmap_find(&origin, found.entries[i].key);
        if (old)
            ptrmap_put(&unsaid, old, old);
    }
    Module *now = m;
    if (unsaid.n) {
        now = ir_rewrite_module(cx, m, bind_unsaid, &unsaid);
        if (now && !typecheck_module(cx, now, env)) {
            module_release(now);
            now = NULL;
        }
        module_release(m);
    }
    module_release(copy);
    ptrmap_deinit(&origin);
    ptrmap_deinit(&found);
    ptrmap_deinit(&unsaid);
    return now;
}
