#include "passes/declared_shapes.h"

#include "ir/walk.h"
#include "passes/facts.h"
#include "stdlib/ops/ops.h"

#include <string.h>

#define EXPECT "annotation.expect_shape"

typedef struct Declared {
    Ctx *cx;
    Module *into;
    const Module *m, *env, *home;
    PtrMap values; /* Var -> what a `let` binds it to */
    PtrMap
        ends; /* Let, If, Match whose value is the result of a function -> the type that is declared for it */
    Arena scratch;
    uint32_t fields; /* of tuples that may still be taken apart at the place at work */
} Declared;

/* So many fields are looked at in one place: a tuple may have more than there is memory for. */
#define FIELDS_MOST 256

/* ---- what is looked at ------------------------------------------------------------------------------------------------------- */

/* Types share parts, and may be far larger than what is stored: `seen` has those that say nothing. */
static bool opens(PtrMap *seen, const Type *wanted, const Type *found)
{
    wanted = type_find(wanted);
    found = type_find(found);
    if (wanted == found || wanted->kind != found->kind || wanted->n != found->n)
        return false;
    if (found->kind == TYPE_TUPLE && ptrmap_find(seen, found) == wanted)
        return false;
    for (uint32_t i = 0; wanted->kind == TYPE_TENSOR && i < wanted->n; i++)
        if (wanted->dims[i] >= 0 && found->dims[i] == DIM_ANY)
            return true;
    for (uint32_t i = 0; wanted->kind == TYPE_TUPLE && i < wanted->n; i++)
        if (opens(seen, wanted->parts[i], found->parts[i]))
            return true;
    if (found->kind == TYPE_TUPLE)
        ptrmap_put(seen, found, (void *)(uintptr_t)wanted);
    return false;
}

/* Whether `found` leaves an extent open that `wanted` has. */
static bool leaves_open(const Type *wanted, const Type *found)
{
    PtrMap seen = {0};
    bool open = opens(&seen, wanted, found);
    ptrmap_deinit(&seen);
    return open;
}

static const Expr *value_behind(const Declared *d, const Expr *e)
{
    const Expr *value;
    while (e->kind == EXPR_VAR && (value = ptrmap_find(&d->values, e)))
        e = value;
    return e;
}

/* The result that is declared for what a call calls: its own body looks at that, and calls of it stay the last thing that a function
 * does. */
static const Type *result_behind(const Declared *d, const Expr *callee)
{
    const GlobalVar *g = expr_as_global(callee);
    const Def *def = g ? find_global(d->m, d->env, g->name) : NULL;
    const Function *f = def ? def->fn : expr_as_function(value_behind(d, callee));
    return f ? f->ret_type : NULL;
}

static bool is_looked_at(const Declared *d, const Expr *e, const Type *wanted)
{
    const Call *call = expr_as_call(value_behind(d, e));
    if (!call)
        return false;
    const Op *op = expr_call_of_op(&call->base);
    if (op)
        return !strcmp(op->name, EXPECT);
    const Type *result = result_behind(d, call->callee);
    return result && type_find(result)->kind == type_find(wanted)->kind &&
           !leaves_open(wanted, result);
}

/* ---- looking ------------------------------------------------------------------------------------------------------------------- */

static Expr *expect_tensor(Declared *d, Expr *e, const Type *wanted, Span span)
{
    OpsMake make = {d->cx, &d->into->arena, span};
    int64_t *shape = arena_alloc_must(&d->scratch, wanted->n + 1, sizeof *shape);
    for (uint32_t i = 0; i < wanted->n; i++)
        shape[i] = wanted->dims[i] >= 0 ? wanted->dims[i] : -1;
    Expr *made = ops_call_ints(&make, EXPECT, e, "shape", wanted->n, shape);
    if (made)
        made->type = e->type;
    return made;
}

/* The value of e, looked at; its type says as little as before, as the checker's rules want. */
static Expr *expect(Declared *d, Expr *e, const Type *wanted, Span span)
{
    const Type *t = type_find(e->type);
    Arena *a = &d->into->arena;
    wanted = type_find(wanted);
    if (!leaves_open(wanted, t))
        return e;
    if (t->kind == TYPE_TENSOR)
        return expect_tensor(d, e, wanted, span);
    if (t->n > d->fields)
        return e;
    d->fields -= t->n;
    Var *v = expr_var(a, span, ctx_name(d->cx, "fields"), NULL);
    v->base.type = e->type;
    Expr **fields = arena_alloc_must(&d->scratch, t->n, sizeof *fields);
    for (uint32_t i = 0; i < t->n; i++) {
        Expr *field = expr_tuple_get(a, span, &v->base, i);
        field->type = t->parts[i];
        fields[i] = expect(d, field, wanted->parts[i], span);
        if (!fields[i])
            return NULL;
    }
    Expr *tuple = expr_tuple(a, span, t->n, fields);
    tuple->type = e->type;
    Expr *made = expr_let(a, span, v, e, tuple);
    made->type = e->type;
    return made;
}

/* What stands in the slot of a node at work, where `was` stood in that of the old one. False after a diagnostic. */
static bool look(Declared *d, Expr **slot, Expr *const *was, const Type *wanted)
{
    if (!(*was)->type || !leaves_open(wanted, (*was)->type) || is_looked_at(d, *was, wanted))
        return true;
    d->fields = FIELDS_MOST;
    *slot = expect(d, *slot, wanted, d->home ? ir_use_span(d->home, was) : (*was)->span);
    return *slot != NULL;
}

static bool is_inner(const Expr *e)
{
    return e->kind == EXPR_LET || e->kind == EXPR_IF || e->kind == EXPR_MATCH;
}

/* What gives the result of a function is looked at where it stands, in the branches. */
static void note_end(Declared *d, const Expr *e, const Type *wanted)
{
    if (is_inner(e))
        ptrmap_put(&d->ends, e, (void *)(uintptr_t)wanted);
}

/* Comes to a node before its children. */
static bool enter(Rewriter *rw, const Expr *old, Expr **now)
{
    (void)now;
    Declared *d = rw->data;
    const Function *f = expr_as_function(old);
    const Type *wanted = f ? f->ret_type : ptrmap_find(&d->ends, old);
    if (!wanted)
        return false;
    if (f)
        note_end(d, f->body, wanted);
    else if (old->kind == EXPR_LET)
        note_end(d, expr_as_let(old)->body, wanted);
    else if (old->kind == EXPR_IF) {
        note_end(d, expr_as_if(old)->then, wanted);
        note_end(d, expr_as_if(old)->otherwise, wanted);
    } else {
        const Match *match = expr_as_match(old);
        for (uint32_t i = 0; i < match->clauses.n; i++)
            note_end(d, match->clauses.at[i].body, wanted);
    }
    return false;
}

static bool look_at_end(Declared *d, Expr **slot, Expr *const *was, const Type *wanted)
{
    return is_inner(*was) || look(d, slot, was, wanted);
}

static bool look_at_arguments(Declared *d, const Call *was, ExprList args)
{
    const Type *f = was->callee->type ? type_find(was->callee->type) : NULL;
    if (expr_as_op(was->callee) || !f || f->kind != TYPE_FUNC || f->n != args.n)
        return true;
    for (uint32_t i = 0; i < args.n; i++)
        if (!look(d, &args.at[i], &was->args.at[i], f->parts[i]))
            return false;
    return true;
}

/* The slots of the node e, a copy of `old` whose lists are copies, too. */
static bool look_in(Declared *d, const Expr *old, Expr *e)
{
    const Type *wanted = ptrmap_find(&d->ends, old);
    switch ((ExprKind)old->kind) {
    case EXPR_FUNCTION: {
        Function *was = expr_as_function(old);
        return !was->ret_type ||
               look_at_end(d, &expr_as_function(e)->body, &was->body, was->ret_type);
    }
    case EXPR_LET: {
        Let *was = expr_as_let(old), *is = expr_as_let(e);
        const Type *t = was->var->annotation;
        return (!t || look(d, &is->value, &was->value, t)) &&
               (!wanted || look_at_end(d, &is->body, &was->body, wanted));
    }
    case EXPR_IF: {
        If *was = expr_as_if(old), *is = expr_as_if(e);
        return !wanted || (look_at_end(d, &is->then, &was->then, wanted) &&
                           look_at_end(d, &is->otherwise, &was->otherwise, wanted));
    }
    case EXPR_MATCH: {
        ClauseList was = expr_as_match(old)->clauses, is = expr_as_match(e)->clauses;
        for (uint32_t i = 0; wanted && i < was.n; i++)
            if (!look_at_end(d, &is.at[i].body, &was.at[i].body, wanted))
                return false;
        return true;
    }
    case EXPR_CALL: return look_at_arguments(d, expr_as_call(old), expr_as_call(e)->args);
    case EXPR_REF_WRITE: {
        RefWrite *was = expr_as_ref_write(old);
        const Type *t = was->ref->type ? type_find(was->ref->type) : NULL;
        return !t || t->kind != TYPE_REF ||
               look(d, &expr_as_ref_write(e)->value, &was->value, t->parts[0]);
    }
    case EXPR_CONSTANT:
    case EXPR_VAR:
    case EXPR_GLOBAL:
    case EXPR_OP:
    case EXPR_CON:
    case EXPR_TUPLE:
    case EXPR_TUPLE_GET:
    case EXPR_REF_NEW:
    case EXPR_REF_READ:
    case EXPR_KINDS: break;
    }
    return true;
}

/* A copy with lists of its own, in the scratch arena. */
static Expr *draft_of(Declared *d, const Expr *e)
{
    Arena *a = &d->scratch;
    Expr *draft = arena_copy(a, e, node_info((ExprKind)e->kind)->size);
    Call *call = expr_as_call(draft);
    Match *match = expr_as_match(draft);
    if (call)
        call->args.at = arena_copy(a, call->args.at, call->args.n * sizeof *call->args.at);
    if (match)
        match->clauses.at =
            arena_copy(a, match->clauses.at, match->clauses.n * sizeof *match->clauses.at);
    return draft;
}

/* The draft, if anything in it is another than in `now`, as a node of the module. */
static Expr *kept(Declared *d, Expr *now, const Expr *draft)
{
    Arena *a = &d->into->arena;
    const NodeInfo *info = node_info((ExprKind)now->kind);
    const Call *call = expr_as_call(draft);
    const Match *match = expr_as_match(draft);
    bool same = true;
    if (call)
        for (uint32_t i = 0; i < call->args.n; i++)
            same &= call->args.at[i] == expr_as_call(now)->args.at[i];
    else if (match)
        for (uint32_t i = 0; i < match->clauses.n; i++)
            same &= match->clauses.at[i].body == expr_as_match(now)->clauses.at[i].body;
    else
        same = !memcmp(draft, now, info->size);
    if (same)
        return now;
    Expr *made = arena_copy(a, draft, info->size);
    if (call)
        expr_as_call(made)->args.at =
            arena_copy(a, call->args.at, call->args.n * sizeof *call->args.at);
    if (match)
        expr_as_match(made)->clauses.at =
            arena_copy(a, match->clauses.at, match->clauses.n * sizeof *match->clauses.at);
    return made;
}

/* Types stay: what is put in gives what it is given. */
static Expr *insert(Rewriter *rw, const Expr *old, Expr *now)
{
    Declared *d = rw->data;
    if (now != old) {
        now->type = old->type;
        if (now->kind == EXPR_CALL)
            expr_as_call(now)->type_args = expr_as_call(old)->type_args;
    }
    bool may = old->kind == EXPR_FUNCTION || old->kind == EXPR_LET || old->kind == EXPR_CALL ||
               old->kind == EXPR_REF_WRITE || ptrmap_has(&d->ends, old);
    if (!may)
        return now;
    Expr *draft = draft_of(d, now);
    return look_in(d, old, draft) ? kept(d, now, draft) : NULL;
}

/* ---- programs without `?` ------------------------------------------------------------------------------------------------------- */

static WalkNext find_unknown(void *data, const Expr *e)
{
    (void)data;
    return e->type && type_has_unknown_extent(e->type) ? WALK_STOP : WALK_ON;
}

bool declared_shapes_open(const Expr *root)
{
    return !ir_walk(root, find_unknown, NULL, NULL);
}

/* ---- the whole ----------------------------------------------------------------------------------------------------------------- */

Expr *declared_shapes(Ctx *cx, Module *into, const Module *m, const Module *env, const Module *home,
                      Expr *root)
{
    if (!declared_shapes_open(root))
        return root;
    Declared d = {.cx = cx, .into = into, .m = m, .env = env, .home = home};
    Rewriter rw;
    arena_init(&d.scratch, &cx->limits);
    note_lets(root, &d.values);
    rewriter_init(&rw, cx, into, insert, &d);
    rw.enter = enter;
    Expr *now = ir_rewrite(&rw, root);
    rewriter_deinit(&rw);
    ptrmap_deinit(&d.values);
    ptrmap_deinit(&d.ends);
    arena_deinit(&d.scratch);
    return now;
}

Module *declared_shapes_of_module(Ctx *cx, Module *m, const Module *env)
{
    Module *out = module_derive(m);
    bool ok = out != NULL, changed = false;
    for (size_t i = 0; ok && i < m->defs.n; i++) {
        const Def *def = &m->defs.at[i];
        if (!def->fn || def->imported)
            continue;
        Expr *now = declared_shapes(cx, out, m, env, def->home ? def->home : m, &def->fn->base);
        ok = now != NULL;
        if (!ok || now == &def->fn->base)
            continue;
        module_define(out, def->name, expr_as_function(now), def->span, out);
        changed = true;
    }
    if (ok && m->expr) {
        out->expr = declared_shapes(cx, out, m, env, m, m->expr);
        ok = out->expr != NULL;
        changed |= out->expr != m->expr;
    }
    if (ok && changed)
        return out;
    module_release(out);
    return ok ? module_retain(m) : NULL;
}
