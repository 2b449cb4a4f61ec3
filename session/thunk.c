/* An expression of a cell as a function, which is what the JIT compiles: variables of the session are its parameters. A function that a
 * variable holds and whose text is known stands in it as that text, with the values that it captured as constants. */
#include "base/memory.h"
#include "ir/walk.h"
#include "passes/fold.h"
#include "session/internal.h"
#include "session/optimise.h"
#include "typecheck/typecheck.h"

#include <stdlib.h>

/* Functions that captured each other, one in the other; deeper ones are called as values. */
enum { CAPTURES_MOST = 100 };

typedef struct Captured {
    RelaySession *s;
    Module *module;
    Closures closures;
    PtrMap texts; /* Var -> Expr of a function's text; NULL: there is none */
    Vec(Var *) vars;
} Captured;

typedef struct FreeVars {
    Arena *arena;
    Vec(Var *) vars;
} FreeVars;

static void note_free(void *data, Var *v)
{
    FreeVars *f = data;
    vec_push(&f->vars, f->arena, v);
}

static Expr *text_of(Captured *c, Var *v, int depth);

static bool is_atom(const Expr *e)
{
    return e->kind == EXPR_VAR || e->kind == EXPR_CONSTANT;
}

/* A function that does nothing but call a definition on its parameters and constants, as that of an imported model on its weights, is the
 * definition's body with them in it: so they decide as much there as if they had been bound. */
static Expr *called(Captured *c, Expr *e)
{
    Function *fn = expr_as_function(e);
    const Call *call = expr_as_call(fn->body);
    const GlobalVar *global = call ? expr_as_global(call->callee) : NULL;
    const Def *def = global ? module_find(c->module, global->name) : NULL;
    if (!def || !def->fn || def->fn->type_params.n || def->fn->params.n != call->args.n)
        return e;
    PtrMap map = {0};
    bool any = false, atoms = true;
    for (uint32_t i = 0; i < call->args.n; i++) {
        atoms = atoms && is_atom(call->args.at[i]);
        any = any || call->args.at[i]->kind == EXPR_CONSTANT;
        ptrmap_put(&map, def->fn->params.at[i], call->args.at[i]);
    }
    Expr *body = atoms && any ? ir_substitute(&c->s->cx, c->module, def->fn->body, &map) : fn->body;
    ptrmap_deinit(&map);
    return body ? &expr_function(&c->module->arena, e->span, fn->type_params, fn->params.n,
                                 fn->params.at, fn->attrs, fn->ret_type, body)
                       ->base
                : NULL;
}

/* The function with constants and texts in place of what it captured; NULL: something in it is known as a value alone. */
static Expr *closed(Captured *c, Function *fn, const Var *self, int depth)
{
    FreeVars free_vars = {.arena = &c->module->arena};
    PtrMap map = {0};
    bool known = true;
    ir_free_vars(&fn->base, note_free, &free_vars);
    for (size_t i = 0; i < free_vars.vars.n && known; i++) {
        Var *v = free_vars.vars.at[i];
        const Value *value = ptrmap_find(&c->s->local_values, v);
        if (v == self)
            continue;
        Expr *e = value && value->kind == VALUE_FUNCTION ? text_of(c, v, depth + 1)
                  : value ? fold_value_expr(&c->module->arena, v->base.span, *value)
                          : NULL;
        known = e != NULL;
        ptrmap_put(&map, v, e);
    }
    Expr *now = known ? ir_substitute(&c->s->cx, c->module, &fn->base, &map) : NULL;
    ptrmap_deinit(&map);
    now = now ? called(c, now) : NULL;
    /* Nothing in it is shared with the session, where it has been checked. */
    return now ? ir_copy(&c->s->cx, c->module, now) : NULL;
}

static bool has_free(Expr *e, Var *v, Arena *arena)
{
    FreeVars f = {.arena = arena};
    ir_free_vars(e, note_free, &f);
    for (size_t i = 0; i < f.vars.n; i++)
        if (f.vars.at[i] == v)
            return true;
    return false;
}

static Expr *text_of(Captured *c, Var *v, int depth)
{
    void **at = ptrmap_slot(&c->texts, v);
    Var *name = v;
    Function *fn = *at || depth == CAPTURES_MOST
                       ? NULL
                       : expr_as_function(session_behind(c->s, &v->base, &name));
    if (!fn)
        return *at;
    Arena *arena = &c->module->arena;
    const Local *local = session_local(c->s, name->name, false);
    if (local && local->var == name)
        module_use(c->module, local->module);
    Expr *e = closed(c, fn, name, depth);
    if (e && has_free(e, name, arena))
        e = expr_let(arena, e->span, name, e, &name->base);
    ptrmap_put(&c->texts, v, e);
    return e;
}

/* A call of one that the JIT made is a call of its code; one of the evaluator's would be evaluated. */
static bool is_wanted(const Captured *c, const Value *v)
{
    return v->kind == VALUE_FUNCTION && object_info(v->object)->function &&
           (c->closures == CLOSURES_ALL || !function_kind(v->object)->source);
}

/* Takes the variable as a parameter, or its text. */
static bool take_var(Captured *c, Var *v, PtrMap *texts)
{
    const Value *value = ptrmap_find(&c->s->local_values, v);
    if (!value)
        return false;
    Expr *text = is_wanted(c, value) ? text_of(c, v, 0) : NULL;
    if (text)
        ptrmap_put(texts, v, text);
    else
        vec_push(&c->vars, &c->module->arena, v);
    return true;
}

static bool take_values(Captured *c, Thunk *out)
{
    out->n = (uint32_t)c->vars.n;
    out->args = memory_zeroed(c->vars.n + 1, sizeof *out->args);
    for (size_t i = 0; out->args && i < c->vars.n; i++)
        out->args[i] = *(const Value *)ptrmap_find(&c->s->local_values, c->vars.at[i]);
    return out->args != NULL;
}

/* The variables themselves are its parameters. Without texts all there is has its type: nothing is to be inferred again. */
static bool define(Captured *c, Expr *e, const PtrMap *texts, Thunk *out)
{
    Ctx *cx = &c->s->cx;
    Arena *arena = &c->module->arena;
    const Type *result = type_resolve(cx, e->type);
    const Type **types = arena_new_array(arena, const Type *, c->vars.n + 1);
    for (size_t i = 0; i < c->vars.n; i++)
        types[i] = type_resolve(cx, c->vars.at[i]->base.type);
    Expr *body = texts->n ? ir_substitute(cx, c->module, e, texts) : e;
    if (!body)
        return false;
    /* A function that says nothing of its result returns no polymorphic one: that would be used at types that nothing decides. */
    bool poly = texts->n && result->kind == TYPE_FUNC && result->n_params;
    Function *fn = expr_function(arena, e->span, (TypeVarList){0}, out->n, c->vars.at, NULL,
                                 poly ? result : NULL, body);
    if (!texts->n)
        fn->base.type = type_func(cx, 0, NULL, out->n, types, result);
    module_define(c->module, out->name, fn, e->span, c->module);
    return !texts->n || typecheck_module(cx, c->module, NULL);
}

/* What it calls is written for the extents of the values. */
static void take_shapes(RelaySession *s, Thunk *out)
{
    Module *at = optimise_for_shapes(s, out->module, out->name, out->args);
    module_release(out->module);
    out->module = at;
}

bool thunk_make(RelaySession *s, Module *env, Module *keep, Expr *e, Closures closures, Thunk *out)
{
    *out = (Thunk){.module = module_derive(env), .name = ctx_name(&s->cx, THUNK_NAME)};
    if (!out->module)
        return false;
    Captured c = {.s = s, .module = out->module, .closures = closures};
    FreeVars free_vars = {.arena = &out->module->arena};
    PtrMap texts = {0};
    bool ok = true;
    module_use(out->module, keep);
    ir_free_vars(e, note_free, &free_vars);
    for (size_t i = 0; i < free_vars.vars.n && ok; i++)
        ok = take_var(&c, free_vars.vars.at[i], &texts);
    ok = ok && take_values(&c, out) && define(&c, e, &texts, out);
    ptrmap_deinit(&texts);
    ptrmap_deinit(&c.texts);
    if (ok)
        take_shapes(s, out);
    if (!ok)
        thunk_free(s, out);
    return ok;
}

/* The function with what it captured as further parameters, of the types that it has there. */
static Function *with_captured(Captured *c, const Function *fn, const FreeVars *captured)
{
    Ctx *cx = &c->s->cx;
    Arena *arena = &c->module->arena;
    uint32_t n = fn->params.n, more = (uint32_t)captured->vars.n;
    Var **params = arena_new_array(arena, Var *, n + more + 1);
    PtrMap map = {0};
    if (!params)
        return NULL;
    for (uint32_t i = 0; i < n; i++)
        params[i] = fn->params.at[i];
    for (uint32_t i = 0; i < more; i++) {
        const Var *v = captured->vars.at[i];
        params[n + i] = expr_var(arena, v->base.span, v->name, type_resolve(cx, v->base.type));
        ptrmap_put(&map, v, params[n + i]);
    }
    Expr *body = ir_substitute(cx, c->module, fn->body, &map);
    ptrmap_deinit(&map);
    Function *now = body ? expr_function(arena, fn->base.span, fn->type_params, n + more, params,
                                         fn->attrs, fn->ret_type, body)
                         : NULL;
    return now ? expr_as_function(ir_copy(cx, c->module, &now->base)) : NULL;
}

bool thunk_of_function(RelaySession *s, Module *keep, Function *fn, Thunk *out)
{
    *out = (Thunk){.module = module_derive(s->env), .name = ctx_name(&s->cx, THUNK_NAME)};
    if (!out->module)
        return false;
    Captured c = {.s = s, .module = out->module, .closures = CLOSURES_ALL};
    FreeVars free_vars = {.arena = &out->module->arena};
    ir_free_vars(&fn->base, note_free, &free_vars);
    module_use(out->module, keep);
    bool open = free_vars.vars.n > 0;
    Function *now = open ? expr_as_function(closed(&c, fn, NULL, 0)) : fn;
    now = now ? now : with_captured(&c, fn, &free_vars);
    ptrmap_deinit(&c.texts);
    if (now)
        module_define(out->module, out->name, now, fn->base.span, out->module);
    if (now && (!open || typecheck_module(&s->cx, out->module, NULL)))
        return true;
    thunk_free(s, out);
    return false;
}

void thunk_free(RelaySession *s, Thunk *t)
{
    if (t->module)
        optimise_forget(s, t->module);
    free(t->args);
    module_release(t->module);
    *t = (Thunk){0};
}
