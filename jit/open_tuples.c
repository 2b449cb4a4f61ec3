#include "jit/open_tuples.h"

#include "base/limit.h"
#include "ir/ctx.h"
#include "ir/walk.h"
#include "passes/types.h"

typedef struct Opened {
    const Var *var;
    uint32_t n;
    Var **fields; /* NULL: not looked at */
} Opened;

typedef struct Opening {
    Ctx *cx;
    Module *module;
    Arena scratch;
    PtrMap opened; /* Var -> Opened; NULL for one that is more than looked into */
    bool any;
} Opening;

/* Kernels make and take tuples of tensors by themselves. */
static bool is_worth_opening(const Type *t)
{
    if (t->kind != TYPE_TUPLE)
        return false;
    for (uint32_t i = 0; i < t->n; i++)
        if (t->parts[i]->kind == TYPE_TENSOR && t->parts[i]->n > 0)
            return false;
    return t->n > 0;
}

static void note_use(void *data, Expr *const *slot)
{
    Opening *o = data;
    if (expr_as_var(*slot) && ptrmap_has(&o->opened, *slot))
        ptrmap_put(&o->opened, *slot, NULL);
}

/* Variables are bound before they are used. */
static WalkNext note(void *data, const Expr *e)
{
    Opening *o = data;
    const Let *let = expr_as_let(e);
    const Call *call = let ? expr_as_call(let->value) : NULL;
    if (call && call->callee->kind == EXPR_GLOBAL && let->var->base.type &&
        is_worth_opening(type_resolve(o->cx, let->var->base.type))) {
        Opened *opened = arena_new(&o->scratch, Opened);
        opened->var = let->var;
        opened->n = type_resolve(o->cx, let->var->base.type)->n;
        opened->fields = arena_alloc_must(&o->module->arena, opened->n, sizeof(Var *));
        ptrmap_put(&o->opened, let->var, opened);
    }
    if (e->kind != EXPR_TUPLE_GET)
        ir_children(e, note_use, o);
    return WALK_ON;
}

static Var *field_of(Opening *o, Opened *opened, Span span, uint32_t i)
{
    if (!opened->fields[i]) {
        const Var *tuple = opened->var;
        opened->fields[i] = expr_var(&o->module->arena, span, ctx_name(o->cx, ""), NULL);
        opened->fields[i]->base.type = type_resolve(o->cx, tuple->base.type)->parts[i];
    }
    return opened->fields[i];
}

/* The rest of the block as the one clause of a match. */
static Expr *open_rest(Opening *o, const Opened *opened, Let *let)
{
    Arena *a = &o->module->arena;
    Span span = let->base.span;
    Pattern **fields = arena_alloc_must(a, opened->n, sizeof *fields);
    for (uint32_t i = 0; i < opened->n; i++)
        fields[i] =
            opened->fields[i] ? pattern_var(a, span, opened->fields[i]) : pattern_wildcard(a, span);
    Clause clause = {pattern_tuple(a, span, opened->n, fields), let->body, span};
    const Expr *last = let->body;
    while (expr_as_let(last))
        last = expr_as_let(last)->body;
    Var *result = expr_var(a, span, ctx_name(o->cx, ""), NULL);
    result->base.type = last->type;
    Expr *match = expr_match(a, span, &let->var->base, 1, &clause, true);
    match->type = last->type;
    Expr *rest = expr_let(a, span, result, match, &result->base);
    Expr *out = expr_let(a, span, let->var, let->value, rest);
    rest->type = out->type = last->type;
    return out;
}

static Expr *node_now(Rewriter *rw, const Expr *old, Expr *now)
{
    Opening *o = rw->data;
    expr_keep_type(now, old);
    const TupleGet *get = expr_as_tuple_get(old);
    Opened *opened = get ? ptrmap_find(&o->opened, get->tuple) : NULL;
    if (opened)
        return &field_of(o, opened, old->span, (uint32_t)get->index)->base;
    const Let *let = expr_as_let(old);
    opened = let ? ptrmap_find(&o->opened, let->var) : NULL;
    return opened ? open_rest(o, opened, expr_as_let(now)) : now;
}

Function *open_tuples(Ctx *cx, Module *module, Function *fn)
{
    Opening o = {.cx = cx, .module = module};
    arena_init(&o.scratch, &cx->limits);
    ir_walk(&fn->base, note, NULL, &o);
    for (size_t i = 0; i < o.opened.n && !o.any; i++)
        o.any = o.opened.entries[i].key && o.opened.entries[i].value;
    if (o.any && !limit_hit(&cx->limits)) {
        Rewriter rw;
        rewriter_init(&rw, cx, module, node_now, &o);
        fn = expr_as_function(ir_rewrite(&rw, &fn->base));
        rewriter_deinit(&rw);
    }
    ptrmap_deinit(&o.opened);
    arena_deinit(&o.scratch);
    return limit_hit(&cx->limits) ? NULL : fn;
}
