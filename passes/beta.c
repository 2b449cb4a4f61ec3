#include "passes/beta.h"

#include "ir/ctx.h"
#include "ir/walk.h"
#include "passes/types.h"

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
        if (may_move(purity, total, sources[i]) &&
            types_as_it_is(cx, sources[i]->type, f->params.at[i]->base.type))
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

Function *eta(Ctx *cx, Module *module, Arena *scratch, Expr *callee, const Type *t,
              const Attrs *attrs)
{
    Arena *arena = &module->arena;
    uint32_t n = t->n, k = t->n_params;
    const TypeVar **vars = arena_new_array(scratch, const TypeVar *, k + 1);
    const Type **with = arena_new_array(scratch, const Type *, k + 1);
    Var **params = arena_new_array(scratch, Var *, n + 1);
    Expr **args = arena_new_array(scratch, Expr *, n + 1);
    if (!vars || !with || !params || !args)
        return NULL;
    for (uint32_t i = 0; i < k; i++) {
        vars[i] = typevar_new(cx, t->params[i]->name, callee->span);
        with[i] = type_var(cx, vars[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        const Type *type = type_subst(cx, t->parts[i], k, t->params, with);
        params[i] = expr_var(arena, callee->span, ctx_name(cx, "eta_expand_param"), type);
        args[i] = &params[i]->base;
    }
    const Op *op = callee->kind == EXPR_OP ? expr_as_op(callee)->op : NULL;
    const Attrs *own =
        op && op->attrs ? attrs_check(cx, arena, op->name, op->attrs, NULL, callee->span) : NULL;
    Expr *body = expr_call(arena, callee->span, callee, n, args, own);
    const Type *result = type_subst(cx, t->result, k, t->params, with);
    TypeVarList type_params = {arena_copy(arena, vars, k * sizeof *vars), k};
    return expr_function(arena, callee->span, type_params, n, params, attrs, result, body);
}
