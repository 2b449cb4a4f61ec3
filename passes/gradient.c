/* The gradient of @main, or of the function that is meant, by running the program backward.
 *
 * Each tensor becomes a pair of itself and a reference to its adjoint. Each function takes one parameter more, a reference to the
 * backpropagator: a function that adds to the adjoints what follows from those of later values. Each call of an operator puts one in
 * front of it that does its own part first.
 *
 *     exp(%x)
 *  => let %x_0 = %x; let %x_1 = %x_0.0; let %x_2 = exp(%x_1); let %x_3 = (%x_2, ref(zeros_like(%x_2))); let %x_4 = %x_3;
 *     let %x_5 = ref_read(%bp);
 *     let %x_6 = ref_write(%bp, fn () { …ref_write(%x_0.1, add(ref_read(%x_0.1), multiply(ref_read(%x_4.1), exp(%x_1))))…; %x_5() });
 *     %x_4
 *
 * Everything else is translated part by part, functions that are called too (@f_grad). A value must not be shared by several places
 * without a variable: run ToANormalForm first. */
#include "passes/gradient.h"

#include "passes/types.h"

#include "stdlib/ops/ops.h"

#include <string.h>

void gradient_refuse(PassRun *run, const Expr *e, const char *what)
{
    diag_error(run->cx->diags, E0605_NO_GRADIENT, e->span, "this has no place in %s", what);
}

static bool is_data(const Type *type)
{
    const Type *t = type ? type_find(type) : NULL;
    bool data = t && (t->kind == TYPE_TENSOR || t->kind == TYPE_TUPLE);
    for (uint32_t i = 0; data && t->kind == TYPE_TUPLE && i < t->n; i++)
        data = is_data(t->parts[i]);
    return data;
}

bool gradient_has_types(PassRun *run, const Def *def, bool aloud)
{
    const Function *f = def->fn;
    const Expr *bad = f->type_params.n ? &f->base : NULL;
    for (uint32_t i = 0; i < f->params.n && !bad; i++)
        bad = is_data(f->params.at[i]->base.type) ? NULL : &f->params.at[i]->base;
    bad = !bad && !is_data(f->body->type) ? f->body : bad;
    if (bad && aloud)
        diag_error(run->cx->diags, E0605_NO_GRADIENT, bad->span,
                   "the gradient is of tensors in tensors and tuples of them, and this is none");
    return !bad;
}

/* ---- what is meant ------------------------------------------------------------------------------------------------ */

const Def *gradient_meant(const PassRun *run, const Module *old, Def *literal)
{
    const Name *name = run->context->meant;
    *literal = (Def){.name = ctx_name(run->cx, ""), .fn = expr_as_function(old->expr)};
    if (!name && literal->fn)
        return literal;
    const Def *def = name ? module_find(old, name) : module_find_text(old, "main");
    return def && def->fn ? def : NULL;
}

bool gradient_put(PassRun *run, const Def *def, Function *f)
{
    if (f && def->name->text[0])
        module_define(run->module, def->name, f, def->span, run->module);
    else if (f)
        run->module->expr = &f->base;
    return f != NULL;
}

bool gradient_outer(PassRun *run, const Function *f, void (*found)(void *data, Var *v), void *data)
{
    PtrMap outer = {0};
    const Var *bad = NULL;
    ir_free_set(&f->base, &outer);
    for (size_t i = 0; i < outer.n && !bad; i++) {
        Var *v = (Var *)(uintptr_t)outer.entries[i].key;
        bad = is_data(v->base.type) ? NULL : v;
        if (!bad)
            found(data, v);
    }
    if (bad)
        diag_error(run->cx->diags, E0605_NO_GRADIENT, bad->base.span,
                   "the gradient is of tensors and tuples of them, and `%%%s` is bound to `%s`",
                   bad->name->text, type_str(run->cx, bad->base.type));
    ptrmap_deinit(&outer);
    return !bad;
}

/* ---- types ------------------------------------------------------------------------------------------------------ */

typedef struct Reverse {
    PassRun *run;
    LetMaker make;
    const Module *old;
    PtrMap types; /* Type -> what it becomes */
    PtrMap defs; /* data types whose fields were looked at */
    bool refused; /* one of them */
    PtrMap twins; /* name of a function -> that of its translation */
    Vec(const Def *) todo; /* functions that are called */
    Vec(Var *) backs; /* the backpropagators of the functions around */
    PtrMap outer; /* Var that is bound outside -> its pair */
    Lets *start; /* in front of what is differentiated */
    PtrMap uses; /* nodes that were met */
    const Expr *shared; /* a node that several places use */
} Reverse;

static const Type *back_type(Ctx *cx)
{
    return type_ref(cx, type_func(cx, 0, NULL, 0, NULL, type_unit(cx)));
}

static const Type *dual_type(Reverse *r, const Type *type);

static const Type **dual_parts(Reverse *r, const Type *t, uint32_t more)
{
    const Type **parts = arena_new_array(&r->run->cx->arena, const Type *, t->n + more + 1);
    for (uint32_t i = 0; parts && i < t->n; i++)
        parts[i] = dual_type(r, t->parts[i]);
    return parts;
}

/* What a definition says itself of a field stays as it is. */
static void look_at_fields(Reverse *r, const TypeDef *def)
{
    bool found = false;
    if (ptrmap_has(&r->defs, def))
        return;
    ptrmap_put(&r->defs, def, r);
    for (uint32_t i = 0; i < def->n_cons; i++)
        for (uint32_t k = 0; k < def->cons[i]->n; k++)
            found |= dual_type(r, def->cons[i]->fields[k]) != type_find(def->cons[i]->fields[k]);
    if (!found)
        return;
    r->refused = true;
    Diag *d = diag_error(r->run->cx->diags, E0605_NO_GRADIENT, def->span,
                         "`%s` has fields without a place for their gradient", def->name->text);
    diag_help(d, "make the types of these fields its type parameters, or write `grad(@f)`, which "
                 "goes through data of every type");
}

/* Types do not nest deep. */
static const Type *dual_type(Reverse *r, const Type *type)
{
    Ctx *cx = r->run->cx;
    const Type *t = type_find(type), *known = ptrmap_find(&r->types, t);
    if (known)
        return known;
    const Type **parts;
    switch ((TypeKind)t->kind) {
    case TYPE_TENSOR: known = type_tuple(cx, 2, (const Type *[]){t, type_ref(cx, t)}); break;
    case TYPE_TUPLE: known = type_tuple(cx, t->n, dual_parts(r, t, 0)); break;
    case TYPE_REF: known = type_ref(cx, dual_type(r, t->parts[0])); break;
    case TYPE_ADT:
        look_at_fields(r, t->def);
        known = type_adt(cx, t->def, t->n, dual_parts(r, t, 0));
        break;
    case TYPE_FUNC:
        parts = dual_parts(r, t, 1);
        parts[t->n] = back_type(cx);
        known = type_func(cx, t->n_params, t->params, t->n + 1, parts, dual_type(r, t->result));
        break;
    case TYPE_VAR:
    case TYPE_HOLE:
    case TYPE_POISON: return t;
    }
    ptrmap_put(&r->types, t, (void *)(uintptr_t)known);
    return known;
}

/* ---- pairs ------------------------------------------------------------------------------------------------------ */

static OpsMake ops_make(const Reverse *r)
{
    return (OpsMake){r->make.cx, r->make.arena, r->make.span};
}

static Expr *get(const Reverse *r, Expr *e, int64_t i)
{
    return expr_tuple_get(r->make.arena, r->make.span, e, i);
}

static Expr *tuple_of(const Reverse *r, uint32_t n, Expr *const *fields)
{
    return expr_tuple(r->make.arena, r->make.span, n, fields);
}

static Expr *read_ref(const Reverse *r, Expr *ref)
{
    return expr_ref_read(r->make.arena, r->make.span, ref);
}

static Expr *write_ref(const Reverse *r, Expr *ref, Expr *value)
{
    return expr_ref_write(r->make.arena, r->make.span, ref, value);
}

static Expr *ops_like(const Reverse *r, const char *op, Expr *e)
{
    OpsMake m = ops_make(r);
    return ops_call1(&m, op, e);
}

static Expr *fresh_pair(const Reverse *r, Expr *e)
{
    Expr *both[2] = {e, expr_ref_new(r->make.arena, r->make.span, ops_like(r, "zeros_like", e))};
    return tuple_of(r, 2, both);
}

typedef Expr *Lift(const Reverse *r, Lets *l, Expr *e);

static Expr *lift_value(const Reverse *r, Lets *l, Expr *e)
{
    return lets_push(l, get(r, e, 0));
}

static Expr *lift_pair(const Reverse *r, Lets *l, Expr *e)
{
    return lets_push(l, fresh_pair(r, e));
}

static Expr *lift_grad(const Reverse *r, Lets *l, Expr *e)
{
    return lets_push(l, read_ref(r, lets_push(l, get(r, e, 1))));
}

/* Does it to each tensor in a value of the type. */
static Expr *lift(Reverse *r, Lets *l, const Type *type, Expr *e, Lift *f)
{
    const Type *t = type_find(type);
    if (t->kind != TYPE_TUPLE)
        return f(r, l, e);
    Expr **fields = arena_new_array(&r->run->scratch, Expr *, t->n + 1);
    for (uint32_t i = 0; fields && i < t->n; i++)
        fields[i] = lift(r, l, t->parts[i], lets_push(l, get(r, e, i)), f);
    return lets_push(l, tuple_of(r, t->n, fields));
}

/* ---- calls of operators ------------------------------------------------------------------------------------------- */

/* What the call's own gradient is made of, bound one after the other. */
typedef struct Flat {
    const Reverse *r;
    Lets *lets;
    PtrMap done;
} Flat;

static void flatten_child(void *data, Expr *const *slot)
{
    Flat *f = data;
    Expr *now = ptrmap_find(&f->done, *slot);
    if (now)
        *(Expr **)(uintptr_t)slot = now;
}

static WalkNext flatten_node(void *data, const Expr *e)
{
    Flat *f = data;
    if (e->kind == EXPR_VAR || e->kind == EXPR_OP || ptrmap_has(&f->done, e))
        return WALK_ON;
    ir_children(e, flatten_child, f);
    ptrmap_put(&f->done, e, lets_push(f->lets, (Expr *)(uintptr_t)e));
    return WALK_ON;
}

static WalkNext skip_flat(void *data, const Expr *e)
{
    const Flat *f = data;
    return ptrmap_has(&f->done, e) ? WALK_SKIP : WALK_ON;
}

/* A new expression over variables, whose nodes nobody else uses yet. */
static Expr *flatten(Flat *f, Expr *e)
{
    ir_walk(e, skip_flat, flatten_node, f);
    Expr *now = ptrmap_find(&f->done, e);
    return now ? now : e;
}

/* Adds to the adjoints in `arg`; how many writes that were. */
static uint32_t add_grad(Reverse *r, Flat *f, const Type *type, Expr *arg, Expr *grad)
{
    const Type *t = type_find(type);
    Lets *l = f->lets;
    uint32_t n = 0;
    if (t->kind == TYPE_TUPLE) {
        Expr *whole = flatten(f, grad);
        for (uint32_t i = 0; i < t->n; i++)
            n += 2 + add_grad(r, f, t->parts[i], lets_push(l, get(r, arg, i)),
                              lets_push(l, get(r, whole, i)));
        return n;
    }
    OpsMake m = ops_make(r);
    Expr *before = lift_grad(r, l, arg);
    Expr *sum = lets_push(l, ops_call2(&m, "add", before, flatten(f, grad)));
    lets_push(l, write_ref(r, lets_push(l, get(r, arg, 1)), sum));
    return 1;
}

/* fn () { … add to the adjoints of the arguments …; next() } */
static Expr *back_function(Reverse *r, const Call *call, Expr *const *pairs, Expr *const *values,
                           Expr *result, Expr *next)
{
    Expr **rev = arena_new_array(&r->run->scratch, Expr *, call->args.n + 1);
    Lets l = {.make = &r->make};
    Flat flat = {.r = r, .lets = &l};
    Arena *arena = r->make.arena;
    AdjointCall adjoint = {.cx = r->make.cx, .arena = arena, .typed = call, .args = values};
    adjoint.out =
        expr_call(arena, call->base.span, call->callee, call->args.n, values, call->attrs);
    adjoint.grad = lift(r, &l, call->base.type, result, lift_grad);
    if (!adjoints(&adjoint, rev))
        return NULL;
    uint32_t steps = 1;
    for (uint32_t i = 0; i < call->args.n; i++)
        steps += add_grad(r, &flat, call->args.at[i]->type, pairs[i], rev[i]);
    Expr *last = lets_push(&l, expr_call(arena, r->make.span, next, 0, NULL, NULL));
    for (uint32_t i = 0; i < steps; i++)
        last = lets_push(&l, last);
    ptrmap_deinit(&flat.done);
    return &expr_function(arena, r->make.span, (TypeVarList){0}, 0, NULL, NULL, NULL,
                          lets_close(&l, last))
                ->base;
}

static Expr *back_of(const Reverse *r)
{
    return &vec_last(&r->backs)->base;
}

static Expr *dual_op_call(Reverse *r, const Call *old, const Call *now)
{
    uint32_t n = old->args.n;
    Expr **pairs = arena_new_array(&r->run->scratch, Expr *, n + 1);
    Expr **values = arena_new_array(&r->run->scratch, Expr *, n + 1);
    Lets l = {.make = &r->make};
    if (!pairs || !values)
        return NULL;
    for (uint32_t i = 0; i < n; i++)
        pairs[i] = lets_push(&l, now->args.at[i]);
    for (uint32_t i = 0; i < n; i++)
        values[i] = lift(r, &l, old->args.at[i]->type, pairs[i], lift_value);
    Expr *made =
        lets_push(&l, expr_call(r->make.arena, old->base.span, old->callee, n, values, old->attrs));
    Expr *result = lets_push(&l, lift(r, &l, old->base.type, made, lift_pair));
    Expr *next = lets_push(&l, read_ref(r, back_of(r)));
    Expr *back = back_function(r, old, pairs, values, result, next);
    if (!back)
        return NULL;
    lets_push(&l, write_ref(r, back_of(r), back));
    return lets_close(&l, result);
}

/* ---- everything else ------------------------------------------------------------------------------------------------ */

static Expr *with_back(const Reverse *r, const Call *now)
{
    uint32_t n = now->args.n;
    Expr **args = arena_new_array(&r->run->scratch, Expr *, n + 1);
    if (!args)
        return NULL;
    if (n)
        memcpy(args, now->args.at, n * sizeof *args);
    args[n] = back_of(r);
    return expr_call(r->make.arena, now->base.span, now->callee, n + 1, args, NULL);
}

static Expr *dual_constant(Reverse *r, Expr *e)
{
    Lets l = {.make = &r->make};
    return lets_close(&l, fresh_pair(r, lets_push(&l, e)));
}

static Expr *dual_function(Reverse *r, const Function *old, const Function *now)
{
    uint32_t n = now->params.n;
    Var **params = arena_new_array(&r->run->scratch, Var *, n + 1);
    if (!params)
        return NULL;
    if (n)
        memcpy(params, now->params.at, n * sizeof *params);
    params[n] = vec_pop(&r->backs);
    const Type *result = old->body->type ? dual_type(r, old->body->type) : NULL;
    return &expr_function(r->make.arena, now->base.span, now->type_params, n + 1, params,
                          now->attrs, result, now->body)
                ->base;
}

static Expr *dual_global(Reverse *r, const Expr *e)
{
    const Name *name = expr_as_global(e)->name, *twin = ptrmap_find(&r->twins, name);
    const Def *def = module_find(r->old, name);
    if (!def || !def->fn) {
        gradient_refuse(r->run, e, "a gradient: its body is not in this program");
        return NULL;
    }
    if (!twin) {
        Buf text = {0};
        buf_printf(&text, "%s_grad", name->text);
        while (module_find_text(r->run->module, buf_text(&text)))
            buf_str(&text, "_");
        twin = ctx_name(r->run->cx, buf_text(&text));
        buf_deinit(&text);
        ptrmap_put(&r->twins, name, (void *)(uintptr_t)twin);
        vec_push(&r->todo, &r->run->scratch, def);
    }
    return expr_global(r->make.arena, e->span, twin);
}

static Expr *dual_if(Reverse *r, const If *now)
{
    return expr_if(r->make.arena, now->base.span, get(r, now->cond, 0), now->then, now->otherwise);
}

static Expr *dual_var(Reverse *r, const Expr *old)
{
    Expr *outer = ptrmap_find(&r->outer, old);
    const Type *type = old->type ? dual_type(r, old->type) : NULL;
    return outer ? outer : &expr_var(r->make.arena, old->span, expr_as_var(old)->name, type)->base;
}

static Expr *dual_node(Rewriter *rw, const Expr *old, Expr *now)
{
    Reverse *r = rw->data;
    r->make.span = old->span;
    switch ((ExprKind)old->kind) {
    case EXPR_CONSTANT: return dual_constant(r, now);
    case EXPR_VAR: return dual_var(r, old);
    case EXPR_GLOBAL: return dual_global(r, old);
    case EXPR_FUNCTION: return dual_function(r, expr_as_function(old), expr_as_function(now));
    case EXPR_IF: return dual_if(r, expr_as_if(now));
    case EXPR_CALL:
        if (expr_call_of_op(old))
            return dual_op_call(r, expr_as_call(old), expr_as_call(now));
        if (!expr_call_of_con(old))
            return with_back(r, expr_as_call(now));
        dual_type(r, old->type);
        break;
    case EXPR_OP:
    case EXPR_CON:
    case EXPR_TUPLE:
    case EXPR_TUPLE_GET:
    case EXPR_LET:
    case EXPR_MATCH:
    case EXPR_REF_NEW:
    case EXPR_REF_READ:
    case EXPR_REF_WRITE:
    case EXPR_KINDS: break;
    }
    return now;
}

static bool enter_function(Rewriter *rw, const Expr *old, Expr **now)
{
    Reverse *r = rw->data;
    (void)now;
    if (old->kind == EXPR_FUNCTION)
        vec_push(
            &r->backs, &r->run->scratch,
            expr_var(r->make.arena, old->span, ctx_name(r->run->cx, "bp"), back_type(r->run->cx)));
    return false;
}

static void note_use(void *data, Expr *const *slot)
{
    Reverse *r = data;
    const Expr *e = *slot;
    if (e->kind == EXPR_VAR || e->kind == EXPR_CONSTANT || e->kind == EXPR_GLOBAL ||
        e->kind == EXPR_OP || e->kind == EXPR_CON)
        return;
    r->shared = r->shared || !ptrmap_has(&r->uses, e) ? r->shared : e;
    ptrmap_put(&r->uses, e, NULL);
}

static WalkNext note_uses(void *data, const Expr *e)
{
    ir_children(e, note_use, data);
    return WALK_ON;
}

static Function *translate(Reverse *r, const Function *f)
{
    ir_walk(&f->base, note_uses, NULL, r);
    if (r->shared) {
        Diag *d = diag_error(r->run->cx->diags, E0605_NO_GRADIENT, r->shared->span,
                             "several places share this value, and no variable is bound to it");
        diag_help(d, "run ToANormalForm before");
        return NULL;
    }
    Rewriter rw;
    rewriter_init(&rw, r->run->cx, r->run->module, dual_node, r);
    rw.enter = enter_function;
    rw.copying = true; /* nothing keeps its type */
    Expr *now = ir_rewrite(&rw, (Expr *)(uintptr_t)&f->base);
    rewriter_deinit(&rw);
    return now && !r->refused ? expr_as_function(now) : NULL;
}

/* ---- the function around ---------------------------------------------------------------------------------------------- */

/* Pairs with adjoints of zeros for a parameter of the type. */
static Expr *start_pair(Reverse *r, const Type *type, Expr *e)
{
    const Type *t = type_find(type);
    if (t->kind != TYPE_TUPLE)
        return fresh_pair(r, e);
    Expr **fields = arena_new_array(&r->run->scratch, Expr *, t->n + 1);
    for (uint32_t i = 0; fields && i < t->n; i++)
        fields[i] = start_pair(r, t->parts[i], get(r, e, i));
    return tuple_of(r, t->n, fields);
}

/* The adjoint of the result is ones; a value that several fields of a tuple hold gets them from each. */
static void start_grad(Reverse *r, Lets *l, const Type *type, Expr *e, bool inside)
{
    const Type *t = type_find(type);
    for (uint32_t i = 0; t->kind == TYPE_TUPLE && i < t->n; i++)
        start_grad(r, l, t->parts[i], lets_push(l, get(r, e, i)), true);
    if (t->kind == TYPE_TUPLE)
        return;
    OpsMake m = ops_make(r);
    Expr *ones = ops_like(r, "ones_like", get(r, e, 0));
    Expr *sum = inside ? ops_call2(&m, "add", read_ref(r, get(r, e, 1)), ones) : ones;
    lets_push(l, write_ref(r, get(r, e, 1), sum));
}

/* The values, or the adjoints, in pairs. */
static Expr *part_of(Reverse *r, const Type *type, Expr *e, int which)
{
    const Type *t = type_find(type);
    if (t->kind != TYPE_TUPLE)
        return which ? read_ref(r, get(r, e, 1)) : get(r, e, 0);
    Expr **fields = arena_new_array(&r->run->scratch, Expr *, t->n + 1);
    for (uint32_t i = 0; fields && i < t->n; i++)
        fields[i] = part_of(r, t->parts[i], get(r, e, i), which);
    return tuple_of(r, t->n, fields);
}

static Expr *empty_back(const Reverse *r)
{
    Arena *arena = r->make.arena;
    Expr *unit = tuple_of(r, 0, NULL);
    return expr_ref_new(
        arena, r->make.span,
        &expr_function(arena, r->make.span, (TypeVarList){0}, 0, NULL, NULL, NULL, unit)->base);
}

static void start_outer(void *data, Var *v)
{
    Reverse *r = data;
    ptrmap_put(&r->outer, v, lets_push(r->start, start_pair(r, v->base.type, &v->base)));
}

static Function *wrap(Reverse *r, const Function *old)
{
    uint32_t n = old->params.n;
    Arena *arena = r->make.arena;
    Expr **args = arena_new_array(&r->run->scratch, Expr *, n + 1);
    Expr **grads = arena_new_array(&r->run->scratch, Expr *, n + 1);
    Lets l = {.make = &r->make};
    r->make.span = old->base.span;
    if (!args || !grads)
        return NULL;
    r->start = &l;
    if (!gradient_outer(r->run, old, start_outer, r))
        return NULL;
    args[n] = lets_push(&l, empty_back(r));
    for (uint32_t i = 0; i < n; i++)
        args[i] =
            lets_push(&l, start_pair(r, old->params.at[i]->base.type, &old->params.at[i]->base));
    const Function *reversed = translate(r, old);
    if (!reversed)
        return NULL;
    r->make.span = old->base.span;
    Expr *inner =
        &expr_function(arena, reversed->base.span, reversed->type_params, reversed->params.n,
                       reversed->params.at, NULL, reversed->ret_type, reversed->body)
             ->base;
    Expr *result = lets_push(&l, expr_call(arena, r->make.span, inner, n + 1, args, NULL));
    start_grad(r, &l, old->body->type, result, false);
    lets_push(&l, expr_call(arena, r->make.span, read_ref(r, args[n]), 0, NULL, NULL));
    for (uint32_t i = 0; i < n; i++)
        grads[i] = part_of(r, old->params.at[i]->base.type, args[i], 1);
    Expr *both[2] = {part_of(r, old->body->type, result, 0), tuple_of(r, n, grads)};
    return expr_function(arena, old->base.span, (TypeVarList){0}, n, old->params.at, old->attrs,
                         NULL, lets_close(&l, tuple_of(r, 2, both)));
}

static bool define_twins(Reverse *r)
{
    for (size_t i = 0; i < r->todo.n; i++) {
        const Def *def = r->todo.at[i];
        Function *f = translate(r, def->fn);
        if (!f)
            return false;
        module_define(r->run->module, ptrmap_find(&r->twins, def->name), f, def->span,
                      r->run->module);
    }
    return true;
}

static bool gradient_of_main(PassRun *run, Module *old)
{
    Reverse r = {.run = run, .old = old};
    r.make = (LetMaker){.cx = run->cx, .arena = &run->module->arena, .scratch = &run->scratch};
    Def literal;
    const Def *def = gradient_meant(run, old, &literal);
    Function *f = def && gradient_has_types(run, def, true) ? wrap(&r, def->fn) : NULL;
    bool ok = f && define_twins(&r) && gradient_put(run, def, f);
    if (!def) {
        Diag *d = diag_error(run->cx->diags, E0605_NO_GRADIENT, run->where,
                             "the gradient is that of @main, and there is none");
        diag_help(
            d, "`:pass gradient @f` in a session, or `grad(@f)` in a program, takes any function");
    }
    PtrMap *maps[] = {&r.types, &r.defs, &r.twins, &r.outer, &r.uses};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        ptrmap_deinit(maps[i]);
    return ok;
}

static bool gradient(PassRun *run, Module *old)
{
    Str mode = attrs_string(run->params, "mode");
    if (str_is(mode, "higher_order"))
        return gradient_of_main(run, old);
    return gradient_first_order(run, old);
}

static const OpAttr params[] = {
    {"mode", ATTR_TYPE_STRING, .otherwise = ATTR_DEFAULT_STRING("higher_order"),
     .one_of = (const char *const[]){"higher_order", "first_order", NULL},
     .doc = "\"higher_order\": @main through the whole language; \"first_order\": dataflow, as "
            "FirstOrderGradient"},
    {0},
};

const Pass pass_gradient = {
    .name = "gradient",
    .doc = "Makes @main, or the function that is asked about, return its result and the gradient "
           "in its "
           "parameters.",
    .opt_level = 0,
    .needs_types = true,
    .other_values = true,
    .params = params,
    .module = gradient,
};
