#include "passes/beta.h"

#include "ir/ctx.h"
#include "ir/walk.h"

static bool may_move(Purity *purity, Totality *total, const Expr *e)
{
    bool computed = expr_call_of_op(e) || e->kind == EXPR_TUPLE_GET || e->kind == EXPR_LET;
    return purity_movable(purity, e) && (!total || (!computed && total_of(total, e)));
}

Expr *beta(Ctx *cx, Module *module, Purity *purity, Totality *total, const Function *f, uint32_t n,
           Expr *const *args, Expr *const *sources)
{
    const Function *copy = expr_as_function(ir_copy(cx, module, &f->base));
    if (!copy || copy->params.n != n)
        return NULL;
    PtrMap map = {0};
    for (uint32_t i = 0; i < n; i++)
        if (may_move(purity, total, sources[i]))
            ptrmap_put(&map, copy->params.at[i], args[i]);
    Expr *body = ir_substitute(cx, module, copy->body, &map);
    for (uint32_t i = n; body && i-- > 0;)
        if (!ptrmap_has(&map, copy->params.at[i]))
            body = expr_let(&module->arena, f->base.span, copy->params.at[i], args[i], body);
    ptrmap_deinit(&map);
    return body;
}

typedef struct AtTypes {
    const Function *f;
    const Type *const *with;
} AtTypes;

static const Type *at_types(const Rewriter *rw, const Type *t)
{
    const AtTypes *a = rw->data;
    const TypeVarList *vars = &a->f->type_params;
    return t ? type_subst(rw->cx, type_refresh(rw->cx, t), vars->n, vars->at, a->with) : NULL;
}

static void binder_at_types(void *data, Var *v)
{
    Rewriter *rw = data;
    rewriter_put(rw, v,
                 expr_var(&rw->module->arena, v->base.span, v->name, at_types(rw, v->annotation)));
}

static bool enter_at_types(Rewriter *rw, const Expr *old, Expr **now)
{
    (void)now;
    ir_binders(old, binder_at_types, rw);
    return false;
}

static Expr *node_at_types(Rewriter *rw, const Expr *old, Expr *now)
{
    const AtTypes *a = rw->data;
    Function *f = expr_as_function(now);
    Call *call = expr_as_call(now);
    if (f)
        f->ret_type = at_types(rw, f->ret_type);
    if (f && old == &a->f->base)
        f->type_params = (TypeVarList){0};
    const Type **types =
        call ? arena_alloc_must(&rw->module->arena, call->type_args.n + 1, sizeof *types) : NULL;
    for (uint32_t i = 0; call && i < call->type_args.n; i++)
        types[i] = at_types(rw, call->type_args.at[i]);
    if (call)
        call->type_args.at = types;
    return now;
}

Function *beta_instance(Ctx *cx, Module *module, const Function *f, const Type *const *with)
{
    AtTypes at = {f, with};
    Rewriter rw;
    rewriter_init(&rw, cx, module, node_at_types, &at);
    rw.enter = enter_at_types;
    rw.copying = true;
    Expr *now = ir_rewrite(&rw, (Expr *)(uintptr_t)&f->base);
    rewriter_deinit(&rw);
    return now ? expr_as_function(now) : NULL;
}
