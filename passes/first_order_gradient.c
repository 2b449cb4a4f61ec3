/* The gradient of a dataflow program, written as a dataflow program.
 *
 *     fn (%x: T, %y: T) { multiply(%x, %y) }
 *  => fn (%x: T, %y: T) {
 *       let %x_0 = %x; let %x_1 = zeros_like(%x_0); let %x_2 = %y; let %x_3 = zeros_like(%x_2);
 *       let %x_4 = multiply(%x_0, %x_2); let %x_5 = zeros_like(%x_4); %0 = ones_like(%x_4);
 *       (%x_4, (let %x_6 = add(%x_1, collapse_sum_like(multiply(%0, %x_2), %x_0)); let %x_7 = …; (%x_6, %x_7)))
 *     }
 *
 * Every value has a variable and an adjoint, zeros at first. The operators are gone through backward; each adds to the adjoints of its
 * operands what follows from that of its result. */
#include "passes/gradient.h"

#include "passes/facts.h"
#include "passes/types.h"

#include "stdlib/ops/ops.h"

typedef struct Dual {
    const Type *type;
    Expr *forward; /* a variable */
    Expr *made;    /* what it is bound to */
    Expr *reverse;
} Dual;

typedef struct First {
    PassRun *run;
    LetMaker make;
    Lets lets; /* of the values, then of the adjoints */
    PtrMap duals; /* node -> Dual */
    PtrMap bound; /* Var -> its Let */
    Vec(const Expr *) tape; /* calls, tuples and projections in the order of evaluation */
    bool is_meant;
    const Expr *odd; /* the first thing that cannot be differentiated */
} First;

static OpsMake ops_make(const First *f)
{
    return (OpsMake){f->make.cx, f->make.arena, f->make.span};
}

static Expr *field_of(const First *f, Expr *e, uint32_t i)
{
    return expr_tuple_get(f->make.arena, f->make.span, e, i);
}

/* Tensors like those in e, tuple by tuple. Types do not nest deep. */
static Expr *filled_like(const First *f, const char *op, const Type *type, Expr *e)
{
    const Type *t = type_find(type);
    if (t->kind != TYPE_TUPLE) {
        OpsMake m = ops_make(f);
        return ops_call1(&m, op, e);
    }
    Expr **fields = arena_new_array(f->make.scratch, Expr *, t->n + 1);
    for (uint32_t i = 0; fields && i < t->n; i++)
        fields[i] = filled_like(f, op, t->parts[i], field_of(f, e, i));
    return expr_tuple(f->make.arena, f->make.span, t->n, fields);
}

static Expr *add_to(First *f, const Type *type, Expr *x, Expr *y)
{
    const Type *t = type_find(type);
    if (t->kind != TYPE_TUPLE) {
        OpsMake m = ops_make(f);
        return lets_push(&f->lets, ops_call2(&m, "add", x, y));
    }
    Expr **fields = arena_new_array(f->make.scratch, Expr *, t->n + 1);
    for (uint32_t i = 0; fields && i < t->n; i++)
        fields[i] = add_to(f, t->parts[i], field_of(f, x, i), field_of(f, y, i));
    return lets_push(&f->lets, expr_tuple(f->make.arena, f->make.span, t->n, fields));
}

static Dual *bind(First *f, const Expr *key, const Type *type, Expr *made)
{
    Dual *d = arena_new(f->make.scratch, Dual);
    f->make.span = key->span;
    *d = (Dual){.type = type, .made = made};
    d->forward = lets_push(&f->lets, made);
    d->reverse = lets_push(&f->lets, filled_like(f, "zeros_like", type, d->forward));
    ptrmap_put(&f->duals, key, d);
    return d;
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

static void note_dual(First *f, const Expr *e, Expr *made)
{
    bind(f, e, e->type, made);
    vec_push(&f->tape, f->make.scratch, e);
}

static Dual *dual_of(const First *f, const Expr *e)
{
    for (const Let *let = ptrmap_find(&f->bound, e); let; let = ptrmap_find(&f->bound, e))
        e = let->value;
    return ptrmap_find(&f->duals, e);
}

static Expr *forward_of(const First *f, const Expr *e)
{
    const Dual *d = dual_of(f, e);
    return d ? d->forward : NULL;
}

static Expr **forwards(const First *f, const ExprList *list)
{
    Expr **at = arena_new_array(f->make.scratch, Expr *, list->n + 1);
    for (uint32_t i = 0; at && i < list->n; i++)
        at[i] = forward_of(f, list->at[i]);
    return at;
}

static WalkNext forward(void *data, const Expr *e)
{
    First *f = data;
    const Call *call = expr_as_call(e);
    const Let *let = expr_as_let(e);
    const Tuple *tuple = expr_as_tuple(e);
    const TupleGet *get = expr_as_tuple_get(e);
    Arena *arena = f->make.arena;
    if (limit_hit(&f->make.cx->limits))
        return WALK_STOP;
    if (call && expr_call_of_op(e))
        note_dual(f, e,
                  expr_call(arena, e->span, call->callee, call->args.n, forwards(f, &call->args),
                            call->attrs));
    else if (tuple)
        note_dual(f, e, expr_tuple(arena, e->span, tuple->fields.n, forwards(f, &tuple->fields)));
    else if (get)
        note_dual(f, e, expr_tuple_get(arena, e->span, forward_of(f, get->tuple), get->index));
    else if (e->kind == EXPR_CONSTANT)
        bind(f, e, e->type, (Expr *)(uintptr_t)e);
    else if (let)
        ptrmap_put(&f->duals, e, dual_of(f, let->body));
    return WALK_ON;
}

/* Learns the variables; stops at what is no dataflow. */
static WalkNext look(void *data, const Expr *e)
{
    First *f = data;
    const Let *let = expr_as_let(e);
    bool flows = e->kind == EXPR_CONSTANT || e->kind == EXPR_VAR || e->kind == EXPR_TUPLE ||
                 e->kind == EXPR_TUPLE_GET || e->kind == EXPR_OP || expr_call_of_op(e) || let;
    if (let)
        ptrmap_put(&f->bound, let->var, (void *)(uintptr_t)let);
    f->odd = flows ? NULL : e;
    return flows ? WALK_ON : WALK_STOP;
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

static bool backward_call(First *f, const Call *call, const Dual *d)
{
    uint32_t n = call->args.n;
    Expr **rev = arena_new_array(f->make.scratch, Expr *, n + 1);
    AdjointCall adjoint = {.cx = f->make.cx,
                           .arena = f->make.arena,
                           .typed = call,
                           .args = forwards(f, &call->args),
                           .out = d->made,
                           .grad = d->reverse};
    if (!rev || !adjoints(&adjoint, rev))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        Dual *arg = dual_of(f, call->args.at[i]);
        arg->reverse = add_to(f, arg->type, arg->reverse, rev[i]);
    }
    return true;
}

static void backward_tuple(First *f, const Tuple *tuple, const Dual *d)
{
    for (uint32_t i = 0; i < tuple->fields.n; i++) {
        Dual *field = dual_of(f, tuple->fields.at[i]);
        field->reverse = add_to(f, field->type, field->reverse, field_of(f, d->reverse, i));
    }
}

static void backward_get(First *f, const TupleGet *get, const Dual *d)
{
    Dual *tuple = dual_of(f, get->tuple);
    const Type *t = type_find(tuple->type);
    Expr **fields = arena_new_array(f->make.scratch, Expr *, t->n + 1);
    for (uint32_t i = 0; fields && i < t->n; i++) {
        fields[i] = field_of(f, tuple->reverse, i);
        if (i == get->index)
            fields[i] = add_to(f, t->parts[i], fields[i], d->reverse);
    }
    tuple->reverse = lets_push(&f->lets, expr_tuple(f->make.arena, f->make.span, t->n, fields));
}

static bool backward(First *f)
{
    for (size_t i = f->tape.n; i-- > 0;) {
        const Expr *e = f->tape.at[i];
        const Dual *d = ptrmap_find(&f->duals, e);
        f->make.span = e->span;
        if (e->kind == EXPR_TUPLE)
            backward_tuple(f, expr_as_tuple(e), d);
        else if (e->kind == EXPR_TUPLE_GET)
            backward_get(f, expr_as_tuple_get(e), d);
        else if (!backward_call(f, expr_as_call(e), d))
            return false;
    }
    return true;
}

/* ---- the function ----------------------------------------------------------------------------------------------- */

static void bind_outer(void *data, Var *v)
{
    bind(data, &v->base, v->base.type, &v->base);
}

static Function *differentiate(First *f, const Function *old)
{
    uint32_t n = old->params.n;
    Arena *arena = f->make.arena;
    if (!gradient_outer(f->run, old, bind_outer, f))
        return NULL;
    for (uint32_t i = 0; i < n; i++)
        bind(f, &old->params.at[i]->base, old->params.at[i]->base.type, &old->params.at[i]->base);
    if (!ir_walk(old->body, NULL, forward, f))
        return NULL;
    Dual *result = dual_of(f, old->body);
    if (!result)
        return NULL;
    size_t values = f->lets.bindings.n;
    result->reverse = filled_like(f, "ones_like", result->type, result->forward);
    if (!backward(f))
        return NULL;
    Expr **grads = arena_new_array(f->make.scratch, Expr *, n + 1);
    for (uint32_t i = 0; grads && i < n; i++)
        grads[i] = dual_of(f, &old->params.at[i]->base)->reverse;
    Expr *gradient = lets_close_from(&f->lets, values, expr_tuple(arena, old->base.span, n, grads));
    Expr *both[2] = {result->forward, gradient};
    Expr *body = lets_close(&f->lets, expr_tuple(arena, old->base.span, 2, both));
    return expr_function(arena, old->base.span, (TypeVarList){0}, n, old->params.at, old->attrs,
                         NULL, body);
}

/* The gradient of one definition; itself where it is no dataflow and not meant. */
static Function *gradient_of(PassRun *run, First *f, const Def *def)
{
    bool flows = gradient_has_types(run, def, f->is_meant);
    if (flows && !ir_walk(def->fn->body, look, NULL, f)) {
        flows = false;
        if (f->is_meant)
            gradient_refuse(run, f->odd, "its gradient of first order");
    }
    if (!flows)
        return f->is_meant ? NULL : def->fn;
    return differentiate(f, def->fn);
}

static bool replace(PassRun *run, LetMaker *make, const Def *def, bool is_meant)
{
    First f = {.run = run, .make = *make, .is_meant = is_meant};
    f.lets.make = &f.make;
    Function *now = gradient_of(run, &f, def);
    make->numbers = f.make.numbers;
    ptrmap_deinit(&f.duals);
    ptrmap_deinit(&f.bound);
    return now == def->fn || gradient_put(run, def, now);
}

/* What other functions name they go on calling, so it stays as it is, unless somebody asked for it. */
bool gradient_first_order(PassRun *run, Module *old)
{
    LetMaker make = {.cx = run->cx, .arena = &run->module->arena, .scratch = &run->scratch};
    bool ok = true;
    PtrMap named = {0};
    Def literal;
    const Def *meant = gradient_meant(run, old, &literal);
    note_named(old, &named);
    for (size_t i = 0; i < old->defs.n && ok; i++) {
        const Def *def = &old->defs.at[i];
        if (def->fn && !def->imported && !function_is_skipped(def->fn) &&
            (!ptrmap_has(&named, def->name) || (def == meant && run->context->meant)))
            ok = replace(run, &make, def, def == meant);
    }
    ptrmap_deinit(&named);
    return ok && (meant != &literal || replace(run, &make, meant, true));
}

const Pass pass_first_order_gradient = {
    .name = "FirstOrderGradient",
    .doc = "Makes each function without control flow return its result and the gradient in its "
           "parameters, as dataflow.",
    .opt_level = 0,
    .needs_types = true,
    .other_values = true,
    .module = gradient_first_order,
};
