#include "passes/types.h"

#include "ir/ctx.h"
#include "ir/op.h"
#include "ir/walk.h"
#include "typecheck/subsume.h"

bool types_as_it_is(Ctx *cx, const Type *found, const Type *needed)
{
    if (!found || !needed || found == needed || type_find(found)->kind == TYPE_TENSOR)
        return true;
    PtrMap holders = {0};
    Fit fit = type_fit(cx, &holders, found, needed);
    ptrmap_deinit(&holders);
    return fit != FIT_CALLED_AT_ONE && fit != FIT_INSIDE;
}

typedef struct Children {
    Expr *const *callee; /* NULL: the node is no call */
    bool typed;
} Children;

/* What is called by its name has the type of its definition, and need not say it there (ir/verify.c). */
static void find_untyped(void *data, Expr *const *slot)
{
    Children *c = data;
    const Expr *e = *slot;
    bool named = slot == c->callee && (e->kind == EXPR_GLOBAL || e->kind == EXPR_CON);
    c->typed = c->typed && (e->type || e->kind == EXPR_OP || named);
}

static bool children_typed(const Expr *e)
{
    const Call *call = expr_as_call(e);
    Children c = {call ? &call->callee : NULL, true};
    ir_children(e, find_untyped, &c);
    return c.typed;
}

void expr_keep_type(Expr *now, const Expr *old)
{
    if (now->type || now->kind != old->kind || !children_typed(now))
        return;
    now->type = old->type;
    Call *call = expr_as_call(now);
    if (call)
        call->type_args = expr_as_call(old)->type_args;
}

static const Type *tuple_type(Ctx *cx, const Tuple *t)
{
    const Type **fields = arena_new_array(&cx->arena, const Type *, t->fields.n);
    for (uint32_t i = 0; fields && i < t->fields.n; i++)
        fields[i] = t->fields.at[i]->type;
    return fields ? type_tuple(cx, t->fields.n, fields) : NULL;
}

static const Type *projected_type(const TupleGet *get)
{
    const Type *t = type_find(get->tuple->type);
    return t->kind == TYPE_TUPLE && get->index >= 0 && get->index < t->n ? t->parts[get->index]
                                                                         : NULL;
}

#define ARGS_MOST 16

static const Type *call_type(Ctx *cx, const Call *call)
{
    const Type *types[ARGS_MOST];
    const Op *op = expr_call_of_op(&call->base);
    if (!op || call->args.n > ARGS_MOST)
        return NULL;
    for (uint32_t i = 0; i < call->args.n; i++)
        types[i] = call->args.at[i]->type;
    /* Without the values of constants: the checker has none either, and a type is the same whoever finds it. */
    return op_type(cx, op, call->attrs, call->base.span, call->args.n, types, NULL);
}

static WalkNext skip_typed(void *data, const Expr *e)
{
    (void)data;
    return e->type || e->kind == EXPR_OP ? WALK_SKIP : WALK_ON;
}

static WalkNext type_node(void *data, const Expr *e)
{
    Ctx *cx = data;
    Expr *at = (Expr *)(uintptr_t)e;
    if (!children_typed(e))
        return WALK_ON;
    if (e->kind == EXPR_CONSTANT)
        at->type = type_of_constant(cx, expr_as_constant(e)->value);
    else if (e->kind == EXPR_TUPLE)
        at->type = tuple_type(cx, expr_as_tuple(e));
    else if (e->kind == EXPR_TUPLE_GET)
        at->type = projected_type(expr_as_tuple_get(e));
    else if (e->kind == EXPR_CALL)
        at->type = call_type(cx, expr_as_call(e));
    return WALK_ON;
}

Expr *expr_type_ops(Ctx *cx, Expr *e)
{
    if (e)
        ir_walk(e, skip_typed, type_node, cx);
    return e;
}

bool expr_try_type_ops(Ctx *cx, Expr *e)
{
    Attempt attempt;
    attempt_begin(&attempt, cx);
    expr_type_ops(cx, e);
    bool good = attempt.found.errors == 0 && e && e->type;
    attempt_end(&attempt, cx);
    return good;
}

const Type *expr_tensor_type(const Expr *e)
{
    const Type *t = e->type ? type_find(e->type) : NULL;
    return t && t->kind == TYPE_TENSOR ? t : NULL;
}

bool type_has_extents(const Type *t, uint32_t rank)
{
    bool known = t && t->n == rank;
    for (uint32_t i = 0; i < rank && known; i++)
        known = t->dims[i] > 0;
    return known;
}

bool types_same_shape(const Type *a, const Type *b)
{
    if (!a || !b || a->kind != TYPE_TENSOR || b->kind != TYPE_TENSOR || a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

/* ---- everything that types mention ----------------------------------------------------------------- */

static void note_parts(TypesOf *w, const Type *t)
{
    if (t->kind == TYPE_FUNC)
        types_of_note(w, t->result);
    for (uint32_t i = 0; t->kind != TYPE_TENSOR && t->kind != TYPE_HOLE && i < t->n; i++)
        types_of_note(w, t->parts[i]);
}

static void merge(PtrMap *into, const PtrMap *from, const PtrMap *without)
{
    for (size_t i = 0; i < from->n; i++)
        if (!without || !ptrmap_has(without, from->entries[i].key))
            ptrmap_put(into, from->entries[i].key, into);
}

/* A function type with type parameters. */
static void note_polymorphic(TypesOf *w, const Type *t)
{
    TypesOf inner = {0};
    PtrMap own = {0};
    for (uint32_t i = 0; i < t->n_params; i++)
        ptrmap_put(&own, t->params[i], w);
    note_parts(&inner, t);
    merge(&w->bound, &own, NULL);
    merge(&w->bound, &inner.bound, NULL);
    merge(&w->used, &inner.used, NULL);
    merge(&w->free, &inner.free, &own);
    merge(&w->defs, &inner.defs, NULL);
    for (int i = 0; i < DTYPE_IDS; i++)
        w->dtypes[i] |= inner.dtypes[i];
    ptrmap_deinit(&own);
    types_of_free(&inner);
}

void types_of_note(TypesOf *w, const Type *t)
{
    t = t ? type_find(t) : NULL;
    if (!t || ptrmap_has(&w->seen, t))
        return;
    ptrmap_put(&w->seen, t, w);
    if (t->kind == TYPE_TENSOR && dtype_id(t->dtype) < DTYPE_IDS)
        w->dtypes[dtype_id(t->dtype)] = true;
    if (t->kind == TYPE_VAR) {
        ptrmap_put(&w->used, t->var, w);
        ptrmap_put(&w->free, t->var, w);
    }
    if (t->kind == TYPE_ADT)
        ptrmap_put(&w->defs, t->def, w);
    if (t->n_params)
        note_polymorphic(w, t);
    else
        note_parts(w, t);
}

static void note_binder(void *data, Var *v)
{
    TypesOf *w = data;
    types_of_note(w, v->annotation);
    types_of_note(w, v->base.type);
}

static WalkNext note_node(void *data, const Expr *e)
{
    TypesOf *w = data;
    const Function *f = expr_as_function(e);
    const TypeVarList *part = f && w->parts ? ptrmap_find(w->parts, e) : NULL;
    for (uint32_t i = 0; part && i < part->n; i++) {
        ptrmap_put(&w->used, part->at[i], w);
        ptrmap_put(&w->free, part->at[i], w);
    }
    if (part)
        return WALK_SKIP;
    /* The type of an operator as a value has type variables of its own. */
    if (e->kind != EXPR_OP)
        types_of_note(w, e->type);
    for (uint32_t i = 0; f && i < f->type_params.n; i++) {
        ptrmap_put(&w->bound, f->type_params.at[i], w);
        ptrmap_put(&w->params, f->type_params.at[i], w);
    }
    ir_binders(e, note_binder, w);
    return WALK_ON;
}

void types_of(const Expr *e, const PtrMap *parts, TypesOf *out)
{
    *out = (TypesOf){.parts = parts};
    ir_walk(e, note_node, NULL, out);
}

void types_of_free(TypesOf *w)
{
    ptrmap_deinit(&w->seen);
    ptrmap_deinit(&w->bound);
    ptrmap_deinit(&w->used);
    ptrmap_deinit(&w->free);
    ptrmap_deinit(&w->params);
    ptrmap_deinit(&w->defs);
}
