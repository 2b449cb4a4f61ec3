/* Makes each function literal a function of the module.
 *
 *     def @main(%x: int32) { let %f = fn (%a: int32) -> int32 { add(%a, %x) }; %f(2) }
 *  => def @lifted_name_0(%x: int32, Closure=1) -> fn (int32) -> int32 { fn (%a: int32) -> int32 { add(%a, %x) } }
 *     def @main(%x: int32) { let %f = @lifted_name_0(%x); %f(2) }
 *
 * Variables of the places around it become parameters; a literal without them is the function itself. A literal that calls itself
 * does so through the module. Equal literals of one definition share a function. Type variables of the places around it become type parameters; a literal
 * that neither its type nor what it captures tells them of stays, and so do those next to effects that several blocks share. A bare
 * expression stays: its text has no place for functions. */
#include "passes/beta.h"
#include "passes/pass.h"
#include "passes/to_basic_block_normal_form.h"
#include "passes/types.h"

#include "ir/equal.h"

#include <stdio.h>

typedef struct Lifted {
    const Name *name;
    const Function *fn;
    size_t older; /* with the same hash, from 1; 0: none */
} Lifted;

typedef struct Lift {
    PassRun *run;
    const Expr *root;
    PtrMap bound;           /* literal -> Var of its `let` */
    Vec(Lifted) made;
    PtrMap by_hash; /* hash -> the newest of them with it, from 1 */
    unsigned number; /* of the last name that was free */
    bool generic; /* there are type parameters */
    PtrMap type_vars_of; /* literal -> TypeVarList */
    /* of the literal at hand */
    const Var *self;
    bool recursive;
    Vec(Var *) captured;
    TypeVarList type_vars; /* that something around it binds */
    bool
        told; /* what it captures tells them, or the annotation of the variable that is bound to it */
} Lift;

static WalkNext find_type_params(void *data, const Expr *e)
{
    (void)data;
    const Function *f = expr_as_function(e);
    return f && f->type_params.n ? WALK_STOP : WALK_ON;
}

/* It becomes a function that makes it. */
static bool is_closure(const Lift *l)
{
    return l->captured.n || l->type_vars.n;
}

static void note_captured(void *data, Var *v)
{
    Lift *l = data;
    if (v == l->self)
        l->recursive = true;
    else
        vec_push(&l->captured, &l->run->scratch, v);
}

/* False: a type variable that it uses would be known at no call. */
static bool note_type_vars(Lift *l, const Expr *literal)
{
    TypesOf all, own = {0}, known = {0};
    bool ok = true;
    types_of(literal, &l->type_vars_of, &all);
    types_of_note(&own, literal->type);
    for (size_t i = 0; i < l->captured.n; i++)
        types_of_note(&known, l->captured.at[i]->base.type);
    TypeVarList *list = arena_alloc_must(&l->run->scratch, 1, sizeof *list);
    const TypeVar **at =
        arena_alloc_must(&l->run->scratch, all.free.n + 1, sizeof(const TypeVar *));
    *list = (TypeVarList){at, 0};
    for (size_t i = 0; i < all.free.n; i++) {
        const TypeVar *v = all.free.entries[i].key;
        if (ptrmap_has(&all.params, v))
            continue;
        bool told = ptrmap_has(&known.free, v);
        l->told = l->told && told;
        ok = ok && (told || ptrmap_has(&own.free, v));
        at[list->n++] = v;
    }
    ptrmap_put(&l->type_vars_of, literal, list);
    l->type_vars = *list;
    types_of_free(&all);
    types_of_free(&own);
    types_of_free(&known);
    return ok;
}

/* With type parameters of its own for those that it uses. */
static Function *with_type_params(Lift *l, Function *f)
{
    Ctx *cx = l->run->cx;
    Arena *arena = &l->run->module->arena;
    uint32_t n = l->type_vars.n;
    const TypeVar **own = arena_new_array(arena, const TypeVar *, n);
    const Type **types = arena_new_array(&l->run->scratch, const Type *, n);
    for (uint32_t i = 0; own && types && i < n; i++) {
        own[i] = typevar_new(cx, l->type_vars.at[i]->name, l->type_vars.at[i]->span);
        types[i] = type_var(cx, own[i]);
    }
    f->type_params = l->type_vars;
    Function *now = own && types ? beta_instance(cx, l->run->module, f, types) : NULL;
    if (now)
        now->type_params = (TypeVarList){own, n};
    return now;
}

static const Name *free_name(Lift *l)
{
    char text[32];
    const Name *name;
    for (;; l->number++) {
        snprintf(text, sizeof text, "lifted_name_%u", l->number);
        name = ctx_name(l->run->cx, text);
        if (!module_find(l->run->module, name))
            return name;
    }
}

/* What makes the closure again of what it captured. Where that does not tell its type, as the places that use it may not either, a variable
 * does. */
static Expr *closure_of(const Lift *l, Span span, Expr *maker, Expr *const *captured,
                        const Type *type)
{
    Arena *arena = &l->run->module->arena;
    Expr *made = expr_call(arena, span, maker, (uint32_t)l->captured.n, captured, NULL);
    if (!made || l->told)
        return made;
    Var *v = expr_var(arena, span, ctx_name(l->run->cx, "closure"), type);
    return v ? expr_let(arena, span, v, made, &v->base) : NULL;
}

/* The literal over parameters of its own for what it captures, as a function of the module that is called `name`. */
static Function *closed_function(Lift *l, const Function *f, const Type *type, const Name *name)
{
    Module *m = l->run->module;
    Arena *arena = &m->arena;
    uint32_t n = (uint32_t)l->captured.n;
    Var **params = arena_new_array(arena, Var *, n + 1);
    Expr **args = arena_new_array(arena, Expr *, n + 1);
    PtrMap map = {0};
    for (uint32_t i = 0; params && args && i < n; i++) {
        const Var *v = l->captured.at[i];
        params[i] = expr_var(arena, v->base.span, v->name, v->base.type);
        args[i] = &params[i]->base;
        ptrmap_put(&map, v, params[i]);
    }
    Expr *self = l->recursive ? expr_global(arena, f->base.span, name) : NULL;
    if (self)
        ptrmap_put(&map, l->self,
                   is_closure(l) ? closure_of(l, f->base.span, self, args, type) : self);
    Expr *body =
        params && args ? ir_substitute(l->run->cx, m, (Expr *)(uintptr_t)&f->base, &map) : NULL;
    ptrmap_deinit(&map);
    if (!body || !is_closure(l))
        return expr_as_function(body);
    const Attrs *attrs = attrs_with(arena, NULL, "Closure", (AttrValue){.kind = ATTR_INT, .i = 1});
    Function *maker =
        expr_function(arena, f->base.span, (TypeVarList){0}, n, params, attrs, type, body);
    return maker && l->type_vars.n ? with_type_params(l, maker) : maker;
}

/* A hash of 0 is none. */
static const void *hash_key(const Function *f)
{
    return (const void *)(uintptr_t)(ir_hash(&f->base) | 1);
}

static const Name *known_name(Lift *l, const Function *f)
{
    size_t i = (size_t)(uintptr_t)ptrmap_find(&l->by_hash, hash_key(f));
    while (i && !ir_equal(&l->made.at[i - 1].fn->base, &f->base, false))
        i = l->made.at[i - 1].older;
    return i ? l->made.at[i - 1].name : NULL;
}

static void note_made(Lift *l, const Name *name, const Function *f)
{
    size_t older = (size_t)(uintptr_t)ptrmap_find(&l->by_hash, hash_key(f));
    vec_push(&l->made, &l->run->scratch, ((Lifted){name, f, older}));
    ptrmap_put(&l->by_hash, hash_key(f), (void *)(uintptr_t)l->made.n);
}

static Expr *lift_literal(Rewriter *rw, const Expr *old, Expr *now)
{
    Lift *l = rw->data;
    expr_keep_type(now, old);
    const Function *f = expr_as_function(now);
    if (!f || old == l->root || function_is_primitive(f) || pass_is_done(l->run))
        return now;
    l->captured.n = 0;
    l->recursive = false;
    l->self = ptrmap_find(&l->bound, old);
    ir_free_vars(now, note_captured, l);
    l->type_vars = (TypeVarList){0};
    l->told = true;
    if (l->generic && !note_type_vars(l, old))
        return now;
    const Name *name = free_name(l);
    Function *closed = closed_function(l, f, old->type, name);
    if (!closed)
        return NULL;
    const Name *known = l->recursive ? NULL : known_name(l, closed);
    if (!known)
        module_define(l->run->module, name, closed, now->span, l->run->module);
    if (!known && !l->recursive)
        note_made(l, name, closed);
    Arena *arena = &rw->module->arena;
    Expr *global = expr_global(arena, now->span, known ? known : name);
    global->type = is_closure(l) ? NULL : old->type;
    if (!is_closure(l))
        return global;
    Expr **args = arena_new_array(arena, Expr *, l->captured.n + 1);
    for (size_t i = 0; args && i < l->captured.n; i++)
        args[i] = &l->captured.at[i]->base;
    l->told |= l->self && l->self->annotation;
    return args ? closure_of(l, now->span, global, args, old->type) : NULL;
}

static bool note_let(Rewriter *rw, const Expr *old, Expr **now)
{
    Lift *l = rw->data;
    const Let *let = expr_as_let(old);
    const Function *f = expr_as_function(old);
    if (let && let->value->kind == EXPR_FUNCTION)
        ptrmap_put(&l->bound, let->value, let->var);
    *now = (Expr *)(uintptr_t)old;
    return f && function_is_primitive(f);
}

static Function *lift(PassRun *run, const Def *def)
{
    bool shares = false;
    if (def->name->len == 0)
        return def->fn;
    Function *f = function_to_blocks(run, def->fn, &shares);
    if (!f || shares)
        return f ? def->fn : NULL;
    Lift l = {
        .run = run, .root = &f->base, .generic = !ir_walk(&f->base, find_type_params, NULL, NULL)};
    Rewriter rw;
    pass_rewriter_init(&rw, run, lift_literal, &l);
    rw.enter = note_let;
    Expr *now = ir_rewrite(&rw, &f->base);
    rewriter_deinit(&rw);
    ptrmap_deinit(&l.bound);
    ptrmap_deinit(&l.by_hash);
    ptrmap_deinit(&l.type_vars_of);
    return expr_as_function(now);
}

const Pass pass_lambda_lift = {
    .name = "LambdaLift",
    .doc = "Makes each function literal a function of the module.",
    .opt_level = 1,
    .needs_types = true,
    .function = lift,
};
