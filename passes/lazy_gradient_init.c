/* Makes tensors of zeros and ones only where they are needed, inside functions of tensors.
 *
 *     def @main(%x: T) -> T { multiply(zeros_like(%x), %x) }
 *  => def @main(%x: T) -> T {
 *       let %x_0 = (fn (%x: GradCell[T]) {
 *         @MultiplyGradCell(fn (%lhs: T, %rhs: T) { multiply(%lhs, %rhs) }, Zero(fn () { zeros_like(@FromGradCell(%x)) }), %x) })(Raw(%x));
 *       @FromGradCell(%x_0)
 *     }
 *
 * Inside, every tensor is a GradCell of the prelude. A function stays that has data types or type parameters, calls others, or has
 * operators on anything but tensors or as values. */
#include "passes/facts.h"
#include "passes/lets.h"

#include "parser/parser.h"
#include "stdlib/ops/ops.h"
#include "stdlib/stdlib.h"
#include "typecheck/typecheck.h"

#include <string.h>

typedef struct Lazy {
    PassRun *run;
    LetMaker make;
    const TypeDef *cell;
    PtrMap types; /* Type -> what it becomes */
    Purity purity; /* of the function at work */
} Lazy;

/* ---- types ------------------------------------------------------------------------------------------------------ */

/* Types do not nest deep. */
static const Type *lazy_type(Lazy *z, const Type *type)
{
    Ctx *cx = z->make.cx;
    const Type *t = type_find(type), *known = ptrmap_find(&z->types, t);
    if (known)
        return known;
    const Type **parts = arena_alloc_must(&cx->arena, t->n + 1, sizeof *parts);
    for (uint32_t i = 0; t->kind != TYPE_TENSOR && i < t->n; i++)
        parts[i] = lazy_type(z, t->parts[i]);
    if (t->kind == TYPE_TENSOR)
        known = type_adt(cx, z->cell, 1, &t);
    else if (t->kind == TYPE_TUPLE)
        known = type_tuple(cx, t->n, parts);
    else if (t->kind == TYPE_REF)
        known = type_ref(cx, parts[0]);
    else if (t->kind == TYPE_FUNC)
        known = type_func(cx, 0, NULL, t->n, parts, lazy_type(z, t->result));
    else
        return t;
    ptrmap_put(&z->types, t, (void *)(uintptr_t)known);
    return known;
}

/* Types that can be lazy: anywhere, and inside a function. */
typedef struct Able {
    PtrMap known[2];
    bool odd; /* something cannot */
} Able;

/* Tensors, tuples of them, and what is inside a function: functions and references. */
static bool can_be_lazy(Able *able, const Type *type, bool inside)
{
    const Type *t = type ? type_find(type) : NULL;
    if (t && ptrmap_has(&able->known[inside], t))
        return true;
    if (!t || (t->kind == TYPE_FUNC && t->n_params) ||
        (t->kind != TYPE_TENSOR && t->kind != TYPE_TUPLE &&
         !(inside && (t->kind == TYPE_FUNC || t->kind == TYPE_REF))))
        return false;
    bool lazy = t->kind != TYPE_FUNC || can_be_lazy(able, t->result, inside);
    for (uint32_t i = 0; lazy && t->kind != TYPE_TENSOR && i < t->n; i++)
        lazy = can_be_lazy(able, t->parts[i], inside);
    if (lazy)
        ptrmap_put(&able->known[inside], t, NULL);
    return lazy;
}

/* An operator takes and gives tensors out of cells: one on a reference or a function has none to take out. */
static bool is_on_others(Able *able, const Expr *e)
{
    const Call *call = expr_call_of_op(e) ? expr_as_call(e) : NULL;
    bool others = call && !can_be_lazy(able, e->type, false);
    for (uint32_t i = 0; call && i < call->args.n; i++)
        others = others || !can_be_lazy(able, call->args.at[i]->type, false);
    return others;
}

static void count_op(void *data, Expr *const *slot)
{
    *(int *)data += (*slot)->kind == EXPR_OP;
}

static WalkNext find_odd(void *data, const Expr *e)
{
    const Function *f = expr_as_function(e);
    Able *able = data;
    int ops = 0;
    if (e->kind == EXPR_OP)
        return WALK_ON;
    ir_children(e, count_op, &ops);
    bool is_value = ops > (expr_call_of_op(e) != NULL);
    if (is_value || is_on_others(able, e) || e->kind == EXPR_GLOBAL || e->kind == EXPR_CON ||
        e->kind == EXPR_MATCH || (f && (f->type_params.n || function_is_primitive(f))) ||
        !can_be_lazy(able, e->type, true))
        able->odd = true;
    return able->odd ? WALK_STOP : WALK_ON;
}

static bool is_eligible(const Function *f)
{
    Able able = {0};
    able.odd = f->type_params.n || !can_be_lazy(&able, f->body->type, false);
    for (uint32_t i = 0; i < f->params.n && !able.odd; i++)
        able.odd = !can_be_lazy(&able, f->params.at[i]->base.type, false);
    if (!able.odd)
        ir_walk(f->body, find_odd, NULL, &able);
    ptrmap_deinit(&able.known[0]);
    ptrmap_deinit(&able.known[1]);
    return !able.odd && !function_is_primitive(f);
}

/* ---- cells -------------------------------------------------------------------------------------------------------- */

static Expr *con_call(Lazy *z, const char *name, Expr *arg)
{
    for (uint32_t i = 0; i < z->cell->n_cons; i++)
        if (!strcmp(z->cell->cons[i]->name->text, name))
            return expr_call(z->make.arena, z->make.span,
                             expr_con(z->make.arena, z->make.span, z->cell->cons[i]), 1, &arg,
                             NULL);
    return NULL;
}

static Expr *global_call(Lazy *z, const char *name, uint32_t n, Expr *const *args)
{
    Expr *f = expr_global(z->make.arena, z->make.span, ctx_name(z->make.cx, name));
    return expr_call(z->make.arena, z->make.span, f, n, args, NULL);
}

static Expr *field(Lazy *z, Expr *e, uint32_t i)
{
    return expr_tuple_get(z->make.arena, z->make.span, e, i);
}

/* The tensors in cells; with `lets` each field is bound to a variable first. Types share parts, and what is made of them does not: where
 * it is too much, it is never used. */
static Expr *unwrap(Lazy *z, const Type *type, Expr *e, Lets *lets)
{
    const Type *t = type_find(type);
    if (t->kind != TYPE_TUPLE || limit_hit(&z->make.cx->limits))
        return global_call(z, "FromGradCell", 1, &e);
    Expr **fields = arena_alloc_must(z->make.scratch, t->n + 1, sizeof *fields);
    for (uint32_t i = 0; i < t->n; i++) {
        Expr *part = lets ? lets_push(lets, field(z, e, i)) : field(z, e, i);
        fields[i] = unwrap(z, t->parts[i], part, lets);
    }
    return expr_tuple(z->make.arena, z->make.span, t->n, fields);
}

static Expr *wrap(Lazy *z, const Type *type, Expr *e, Lets *lets)
{
    const Type *t = type_find(type);
    if (t->kind != TYPE_TUPLE || limit_hit(&z->make.cx->limits))
        return con_call(z, "Raw", e);
    Expr **fields = arena_alloc_must(z->make.scratch, t->n + 1, sizeof *fields);
    for (uint32_t i = 0; i < t->n; i++) {
        Expr *part = lets ? lets_push(lets, field(z, e, i)) : field(z, e, i);
        fields[i] = wrap(z, t->parts[i], part, lets);
    }
    return expr_tuple(z->make.arena, z->make.span, t->n, fields);
}

/* ---- operators ---------------------------------------------------------------------------------------------------- */

/* What is computed late, once, often or never, has no effect and depends on none. */
static bool can_wait(Lazy *z, const Call *call)
{
    bool pure = true;
    for (uint32_t i = 0; i < call->args.n; i++)
        pure = pure && purity_of(&z->purity, call->args.at[i]);
    return pure;
}

/* fn (%lhs: T, %rhs: T) { op(%lhs, %rhs) } */
static Expr *function_of_op(Lazy *z, const Call *call)
{
    Var *params[2];
    Expr *args[2];
    static const char *const names[2] = {"lhs", "rhs"};
    for (uint32_t i = 0; i < 2; i++) {
        params[i] =
            expr_var(z->make.arena, z->make.span, ctx_name(z->make.cx, names[i]), call->base.type);
        args[i] = &params[i]->base;
    }
    Expr *body = expr_call(z->make.arena, z->make.span, call->callee, 2, args, call->attrs);
    return &expr_function(z->make.arena, z->make.span, (TypeVarList){0}, 2, params, NULL,
                          call->base.type, body)
                ->base;
}

static Expr *lazy_op(Lazy *z, const Call *old, const Call *now)
{
    const char *name = expr_call_of_op(&old->base)->name;
    bool add = !strcmp(name, "add"), multiply = !strcmp(name, "multiply");
    bool zeros = !strcmp(name, "zeros") || !strcmp(name, "zeros_like");
    bool ones = !strcmp(name, "ones") || !strcmp(name, "ones_like");
    z->make.span = old->base.span;
    if ((add || multiply) && type_equal(old->args.at[0]->type, old->base.type) &&
        type_equal(old->args.at[1]->type, old->base.type)) {
        Expr *args[3] = {function_of_op(z, old), now->args.at[0], now->args.at[1]};
        return global_call(z, add ? "AddGradCell" : "MultiplyGradCell", 3, args);
    }
    Expr **args = arena_alloc_must(z->make.scratch, now->args.n + 1, sizeof *args);
    for (uint32_t i = 0; i < now->args.n; i++)
        args[i] = unwrap(z, old->args.at[i]->type, now->args.at[i], NULL);
    Expr *made =
        expr_call(z->make.arena, old->base.span, old->callee, now->args.n, args, old->attrs);
    if ((!zeros && !ones) || !can_wait(z, old))
        return wrap(z, old->base.type, made, NULL);
    Function *thunk = expr_function(z->make.arena, old->base.span, (TypeVarList){0}, 0, NULL, NULL,
                                    old->base.type, made);
    return con_call(z, zeros ? "Zero" : "One", &thunk->base);
}

static Expr *lazy_node(Rewriter *rw, const Expr *old, Expr *now)
{
    Lazy *z = rw->data;
    z->make.span = old->span;
    const If *branches = expr_as_if(now);
    const Function *f = expr_as_function(now);
    if (old->kind == EXPR_CONSTANT)
        return con_call(z, "Raw", now);
    if (old->kind == EXPR_VAR)
        return &expr_var(z->make.arena, old->span, expr_as_var(old)->name,
                         old->type ? lazy_type(z, old->type) : NULL)
                    ->base;
    if (expr_call_of_op(old))
        return lazy_op(z, expr_as_call(old), expr_as_call(now));
    if (branches)
        return expr_if(z->make.arena, old->span, global_call(z, "FromGradCell", 1, &branches->cond),
                       branches->then, branches->otherwise);
    if (f)
        return &expr_function(z->make.arena, old->span, f->type_params, f->params.n, f->params.at,
                              f->attrs, lazy_type(z, expr_as_function(old)->body->type), f->body)
                    ->base;
    return now;
}

static Function *make_lazy(Lazy *z, const Module *m, const Function *f)
{
    Rewriter rw;
    purity_init(&z->purity, m, NULL, &f->base);
    rewriter_init(&rw, z->make.cx, z->run->module, lazy_node, z);
    rw.copying = true;
    const Function *inner = expr_as_function(ir_rewrite(&rw, (Expr *)(uintptr_t)&f->base));
    rewriter_deinit(&rw);
    purity_deinit(&z->purity);
    if (!inner)
        return NULL;
    Arena *arena = z->make.arena;
    Lets l = {.make = &z->make};
    z->make.span = f->base.span;
    Expr **args = arena_alloc_must(z->make.scratch, f->params.n + 1, sizeof *args);
    for (uint32_t i = 0; i < f->params.n; i++)
        args[i] = wrap(z, f->params.at[i]->base.type, &f->params.at[i]->base, &l);
    Expr *callee = &expr_function(arena, f->base.span, (TypeVarList){0}, f->params.n,
                                  inner->params.at, NULL, inner->ret_type, inner->body)
                        ->base;
    Expr *result = lets_push(&l, expr_call(arena, f->base.span, callee, f->params.n, args, NULL));
    Expr *body = lets_close(&l, unwrap(z, f->body->type, result, &l));
    return expr_function(arena, f->base.span, (TypeVarList){0}, f->params.n, f->params.at, f->attrs,
                         f->ret_type, body);
}

/* ---- the pass -------------------------------------------------------------------------------------------------------- */

/* The prelude's cells, as definitions of the module. */
static bool find_cells(PassRun *run, Lazy *z)
{
    z->cell = module_find_type(run->module, ctx_name(run->cx, "GradCell"));
    if (z->cell)
        return true;
    const PreludeFile *file = stdlib_text(str_of("gradient.rly"));
    uint32_t source = file ? sources_add(&run->cx->sources, file->name, file->text, file->len) : 0;
    Module *library = file ? parse_text(run->cx, source, &(ParseEnv){0}) : NULL;
    if (!library || !typecheck_module(run->cx, library, NULL)) {
        module_release(library);
        return false;
    }
    for (size_t i = 0; i < library->types.n; i++)
        module_define_type(run->module, library->types.at[i]);
    for (size_t i = 0; i < library->defs.n; i++)
        module_define(run->module, library->defs.at[i].name, library->defs.at[i].fn,
                      library->defs.at[i].span, library);
    module_release(library);
    z->cell = module_find_type(run->module, ctx_name(run->cx, "GradCell"));
    return z->cell != NULL;
}

static bool lazy_gradient_init(PassRun *run, Module *old)
{
    Lazy z = {.run = run};
    z.make = (LetMaker){.cx = run->cx, .arena = &run->module->arena, .scratch = &run->scratch};
    bool ok = true;
    for (size_t i = 0; i < old->defs.n && ok; i++) {
        const Def *def = &old->defs.at[i];
        if (!def->fn || def->imported || function_is_skipped(def->fn) || !is_eligible(def->fn))
            continue;
        Function *f = z.cell || find_cells(run, &z) ? make_lazy(&z, old, def->fn) : NULL;
        ok = f != NULL;
        if (f)
            module_define(run->module, def->name, f, def->span, run->module);
    }
    ptrmap_deinit(&z.types);
    return ok;
}

const Pass pass_lazy_gradient_init = {
    .name = "LazyGradientInit",
    .doc = "Makes tensors of zeros and ones only where they are needed.",
    .opt_level = 2,
    .needs_types = true,
    .module = lazy_gradient_init,
};
