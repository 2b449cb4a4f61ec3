/* The extents behind `?`.
 *
 * An instance is made for the shapes that its parameters have where it is called. From there its variables are gone through in order,
 * as inference would if the parameters had been written so: operators say the shape of their result, definitions that are called with
 * known shapes are instances of their own, and small values that decide shapes are computed. What cannot be told keeps the type that
 * is written and is found when the code runs. */
#include "jit/internal.h"
#include "passes/fold.h"

#define ARGS_MOST 16
#define NESTED_MOST 100
/* Elements of a value that may decide a shape. */
#define VALUE_MOST 64

/* ---- one instance ----------------------------------------------------------------------------------------------- */

typedef struct Looking {
    Gen *g;
    Instance *in;
    Facts *facts;
    PtrMap groups; /* Var -> Function: groups of operators, each of them called where it stands */
    int nested;
} Looking;

static const Type *type_in(Gen *g, const Instance *in, const Expr *e)
{
    const Type *known = in->facts ? ptrmap_find(&in->facts->types, e) : NULL;
    return known ? known : instance_type(g, in, e->type);
}

static const Type *type_at(Looking *l, const Expr *e)
{
    return type_in(l->g, l->in, e);
}

static const Constant *value_of(Looking *l, const Expr *e)
{
    const Constant *c = expr_as_constant(e);
    return c ? c : ptrmap_find(&l->facts->values, e);
}

static void learn(Looking *l, const Var *v, const Type *t)
{
    const Type *written = instance_type(l->g, l->in, v->base.type);
    t = shapes_refined(written, t);
    if (t == written)
        return;
    vec_push(&l->g->unit->types, &l->g->unit->arena, t);
    ptrmap_put(&l->facts->types, v, (void *)(uintptr_t)t);
}

static bool is_small(const Value *v)
{
    TensorView view;
    return value_view(v, &view) && view.t.size <= VALUE_MOST;
}

static void learn_value(Looking *l, const Var *v, const Constant *c)
{
    if (c && is_small(&c->value))
        ptrmap_put(&l->facts->values, v, (void *)(uintptr_t)c);
}

/* ---- operators ---- */

typedef struct OpUse {
    const Op *op;
    const Attrs *attrs;
    Span span;
    uint32_t n;
    const Type *types[ARGS_MOST];
    const Constant *known[ARGS_MOST];
} OpUse;

static bool use_of(Looking *l, const Call *call, OpUse *u)
{
    *u =
        (OpUse){expr_call_of_op(&call->base), call->attrs, call->base.span, call->args.n, {0}, {0}};
    for (uint32_t i = 0; i < u->n && u->n <= ARGS_MOST; i++) {
        u->types[i] = type_at(l, call->args.at[i]);
        u->known[i] = value_of(l, call->args.at[i]);
    }
    return u->n <= ARGS_MOST;
}

/* A failure is reported where the program comes there. */
static const Type *result_of(Looking *l, const OpUse *u)
{
    const Value *values[ARGS_MOST];
    Ctx *cx = l->g->cx;
    Attempt attempt;
    for (uint32_t i = 0; i < u->n; i++) {
        if (shapes_unknown(u->types[i]))
            return NULL;
        values[i] = u->known[i] ? &u->known[i]->value : NULL;
    }
    attempt_begin(&attempt, cx);
    const Type *t = op_type(cx, u->op, u->attrs, u->span, u->n, u->types, values);
    attempt_end(&attempt, cx);
    return t;
}

static const Constant *evaluated(Looking *l, const OpUse *u)
{
    Ctx *cx = l->g->cx;
    Value args[ARGS_MOST], v = value_none();
    uint32_t have = 0;
    bool from_type = u->op->flags & OP_FROM_TYPE;
    if (u->op->flags & FOLD_NEVER || u->n == 0)
        return NULL;
    for (; have < u->n; have++) {
        if (!from_type && !u->known[have])
            break;
        args[have] =
            from_type ? fold_any_of_type(cx, u->types[have]) : value_retain(u->known[have]->value);
        if (value_is_none(args[have]))
            break;
    }
    const Type *t = have == u->n ? result_of(l, u) : NULL;
    int64_t size = t && t->kind == TYPE_TENSOR && type_is_static(t) ? 1 : 0;
    for (uint32_t i = 0; size > 0 && i < t->n; i++)
        size = t->dims[i] > VALUE_MOST ? 0 : size * t->dims[i];
    if (size > 0 && size <= VALUE_MOST)
        v = fold_eval(cx, u->op, u->attrs, u->span, u->n, args);
    for (uint32_t i = 0; i < have; i++)
        value_release(args[i]);
    if (value_is_none(v))
        return NULL;
    Expr *e = expr_constant(&l->g->code->arena, u->span, v);
    e->type = t;
    value_release(v);
    return expr_as_constant(e);
}

/* With the constants in their places. */
static Expr *with_values(Looking *l, const Call *call, const OpUse *u)
{
    Arena *a = &l->g->code->arena;
    Expr **args = arena_new_array(a, Expr *, u->n + 1);
    bool any = false;
    for (uint32_t i = 0; i < u->n; i++) {
        any |= u->known[i] != NULL;
        args[i] = u->known[i] ? (Expr *)(uintptr_t)&u->known[i]->base : call->args.at[i];
    }
    if (!any)
        return NULL;
    Expr *e = expr_call(a, u->span, call->callee, u->n, args, call->attrs);
    e->type = call->base.type;
    return fold_shape_argument(l->g->cx, l->g->code, expr_as_call(e));
}

/* Whether it was checked for other shapes than those found, and does not take these. */
static bool is_misfit(Looking *l, const Call *call, const OpUse *u)
{
    bool found = false;
    for (uint32_t i = 0; i < u->n; i++) {
        if (shapes_unknown(u->types[i]))
            return false;
        found |= u->types[i] != instance_type(l->g, l->in, call->args.at[i]->type);
    }
    return found && !result_of(l, u);
}

bool shapes_misfit(const Instance *in, const Call *call)
{
    return in->facts && ptrmap_has(&in->facts->misfits, call);
}

static const Type *look_at_op(Looking *l, const Let *let, const Call *call)
{
    OpUse u;
    if (!use_of(l, call, &u))
        return NULL;
    if (is_misfit(l, call, &u)) {
        ptrmap_put(&l->facts->misfits, call, l);
        return NULL;
    }
    const Constant *value = evaluated(l, &u);
    if (value) {
        ptrmap_put(&l->facts->lets, let, (void *)(uintptr_t)&value->base);
        learn_value(l, let->var, value);
        return value->base.type;
    }
    Expr *known = u.op->flags & OP_SHAPE_FROM_DATA ? with_values(l, call, &u) : NULL;
    if (known && use_of(l, expr_as_call(known), &u))
        ptrmap_put(&l->facts->lets, let, known);
    return shapes_unknown(type_at(l, &let->var->base)) ? result_of(l, &u) : NULL;
}

/* ---- calls ---- */

Instance *shapes_callee(Gen *g, const Instance *in, const Call *call, const Type *result)
{
    uint32_t n = call->args.n, n_given = call->type_args.n;
    const Type **args = arena_new_array(g->arena, const Type *, n + 1);
    const Type **shapes = arena_new_array(g->arena, const Type *, n + 1);
    const Type **given = arena_new_array(g->arena, const Type *, n_given + 1);
    for (uint32_t i = 0; i < n; i++) {
        args[i] = instance_argument(g, in, call, i);
        shapes[i] = type_in(g, in, call->args.at[i]);
    }
    for (uint32_t i = 0; i < n_given; i++)
        given[i] = instance_type(g, in, call->type_args.at[i]);
    GlobalUse use = {expr_as_global(call->callee)->name, n,       args,  shapes,
                     instance_type(g, in, result),       n_given, given, true};
    return instance_of_global(g, &use);
}

static const Type *look_at_block(Looking *l, Expr *e);

static const Type *look_at_group(Looking *l, const Call *call, Function *group)
{
    for (uint32_t i = 0; i < call->args.n && i < group->params.n; i++) {
        learn(l, group->params.at[i], type_at(l, call->args.at[i]));
        learn_value(l, group->params.at[i], value_of(l, call->args.at[i]));
    }
    return look_at_block(l, group->body);
}

static const Type *look_at_call(Looking *l, const Let *let, const Call *call)
{
    if (call->callee->kind == EXPR_OP)
        return look_at_op(l, let, call);
    Function *group = ptrmap_find(&l->groups, call->callee);
    if (group)
        return look_at_group(l, call, group);
    if (call->callee->kind != EXPR_GLOBAL || !shapes_unknown(type_at(l, &let->var->base)))
        return NULL;
    const Instance *in = shapes_callee(l->g, l->in, call, let->var->base.type);
    return in ? in->result : NULL;
}

/* ---- blocks ---- */

static const Type *both(const Type *a, const Type *b)
{
    return a == b ? a : NULL;
}

static const Type *look_at_match(Looking *l, const Match *m)
{
    const Type *t = NULL;
    for (uint32_t i = 0; i < m->clauses.n; i++) {
        const Type *one = look_at_block(l, m->clauses.at[i].body);
        t = i == 0 ? one : both(t, one);
    }
    return t;
}

static const Type *look_at_tuple(Looking *l, const Tuple *t)
{
    Ctx *cx = l->g->cx;
    const Type **fields = arena_new_array(&cx->arena, const Type *, t->fields.n + 1);
    for (uint32_t i = 0; fields && i < t->fields.n; i++)
        fields[i] = type_at(l, t->fields.at[i]);
    return fields ? type_tuple(cx, t->fields.n, fields) : NULL;
}

static const Type *look_at_field(Looking *l, const TupleGet *e)
{
    const Type *t = type_at(l, e->tuple);
    return t->kind == TYPE_TUPLE ? t->parts[e->index] : NULL;
}

/* The type of the value where it may say more than what is written. */
static const Type *look_at_value(Looking *l, const Let *let)
{
    const Expr *e = let->value;
    switch ((ExprKind)e->kind) {
    case EXPR_CONSTANT: learn_value(l, let->var, expr_as_constant(e)); return e->type;
    case EXPR_VAR: learn_value(l, let->var, value_of(l, e)); return type_at(l, e);
    case EXPR_TUPLE: return look_at_tuple(l, expr_as_tuple(e));
    case EXPR_TUPLE_GET: return look_at_field(l, expr_as_tuple_get(e));
    case EXPR_CALL: return look_at_call(l, let, expr_as_call(e));
    case EXPR_IF: {
        const Type *then = look_at_block(l, expr_as_if(e)->then);
        return both(then, look_at_block(l, expr_as_if(e)->otherwise));
    }
    case EXPR_MATCH: return look_at_match(l, expr_as_match(e));
    case EXPR_FUNCTION:
        if (live_is_group(expr_as_function(e)))
            ptrmap_put(&l->groups, let->var, instance_normal_form(l->g, expr_as_function(e)));
        return NULL;
    case EXPR_GLOBAL:
    case EXPR_OP:
    case EXPR_CON:
    case EXPR_LET:
    case EXPR_REF_NEW:
    case EXPR_REF_READ:
    case EXPR_REF_WRITE:
    case EXPR_KINDS: return NULL;
    }
    return NULL;
}

static const Type *look_at_block(Looking *l, Expr *e)
{
    if (++l->nested > NESTED_MOST) {
        l->nested--;
        return NULL;
    }
    for (Let *let = expr_as_let(e); let && !l->g->failed; let = expr_as_let(e)) {
        const Type *t = look_at_value(l, let);
        if (t)
            learn(l, let->var, t);
        e = let->body;
    }
    l->nested--;
    return type_at(l, e);
}

/* ---- whether there is anything to find ---- */

static bool any_unknown(Gen *g, const Instance *in, Expr *e, int nested)
{
    bool unknown = false;
    for (Let *let = expr_as_let(e); let && !unknown && nested < NESTED_MOST; let = expr_as_let(e)) {
        unknown = shapes_unknown(instance_type(g, in, let->var->base.type));
        const If *branch = expr_as_if(let->value);
        if (branch)
            unknown = unknown || any_unknown(g, in, branch->then, nested + 1) ||
                      any_unknown(g, in, branch->otherwise, nested + 1);
        const Match *m = expr_as_match(let->value);
        for (uint32_t i = 0; m && i < m->clauses.n && !unknown; i++)
            unknown = any_unknown(g, in, m->clauses.at[i].body, nested + 1);
        e = let->body;
    }
    return unknown;
}

static void free_facts(void *data)
{
    Facts *facts = data;
    ptrmap_deinit(&facts->types);
    ptrmap_deinit(&facts->values);
    ptrmap_deinit(&facts->lets);
    ptrmap_deinit(&facts->misfits);
}

void shapes_find(Gen *g, Instance *in)
{
    bool special = false;
    for (uint32_t i = 0; i < in->n; i++)
        special |= in->params[i] != instance_type(g, in, in->fn->params.at[i]->base.type);
    if ((!special && !any_unknown(g, in, in->fn->body, 0)) || g->looking > NESTED_MOST)
        return;
    Looking l = {.g = g, .in = in, .facts = arena_new(g->arena, Facts)};
    arena_on_free(g->arena, free_facts, l.facts);
    in->facts = l.facts;
    for (uint32_t i = 0; i < in->n; i++)
        learn(&l, in->fn->params.at[i], in->params[i]);
    for (size_t i = 0; i < in->captures.n; i++)
        learn(&l, in->captures.at[i].var, in->captures.at[i].type);
    g->looking++;
    const Type *result = look_at_block(&l, in->fn->body);
    g->looking--;
    ptrmap_deinit(&l.groups);
    if (result)
        in->result = shapes_refined(in->result, result);
}
