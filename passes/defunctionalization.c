/* Makes a first-order program of one with functions as values.
 *
 *     def @ap(%f: fn (int32) -> int32, %v: int32) -> int32 { %f(%v) }
 *     def @main(%x: int32) -> int32 { @ap(fn (%a: int32) -> int32 { %a + %x }, 3) }
 *  => type F0 { F0C0(int32) }
 *     def @apply_F0(%f: F0, %p: int32) -> int32 { match (%f) { F0C0(%x) => %p + %x } }
 *     def @ap_0(%f: F0, %v: int32) -> int32 { @apply_F0(%f, %v) }
 *     def @main(%x: int32) -> int32 { @ap_0(F0C0(%x), 3) }
 *
 * Each type of functions becomes a data type with a constructor for each function of that type that is used as a value; its fields
 * are the variables that the function sees. Functions may stand wherever values may: in tuples, references, data, results and
 * `let`s. What `@main` reaches is made once for each choice of its type parameters; the rest goes.
 *
 * The program stays as it is where `@main` takes or gives functions, where a field of a data type is declared a function, where a
 * literal has type parameters, where a function with type parameters is bound and not passed on at once, where the type of a
 * function is not known to its last extent, where an effect is shared by several blocks, and where a function asks for itself at ever new types.
 * What `call_lowered` and `vm.invoke_tvm_op` call stays a function: by name or as a literal; a program stays where they call another value. */
#include "passes/facts.h"
#include "passes/order.h"
#include "passes/pass.h"
#include "passes/to_basic_block_normal_form.h"

#include <stdio.h>
#include <string.h>

/* Copies, and how deep the types nest that they are for: beyond, a function asks for itself at ever new types. */
enum { SPECIALS_MOST = 1000, DEPTH_MOST = TYPE_DEPTH_MOST / 2 };

typedef struct Family {
    const Type *type; /* of the functions */
    TypeDef *def; /* that stands for it */
    const Name *apply;
    Var *self, **params;
    Vec(Clause) clauses;
} Family;

/* A definition at these types. */
typedef struct Special {
    const Def *def;
    uint32_t n;
    const Type **with;
    const Name *name;
    Function *made;
} Special;

typedef struct Known {
    const Family *family;
    const void *what; /* name, operator or constructor */
    const Constructor *con;
} Known;

typedef struct Defunctionalizer {
    PassRun *run;
    const Module *old;
    Module *m;
    PtrMap by_type; /* type -> Family */
    Vec(Family *) families;
    Vec(Special *) specials; /* in order of discovery, which is that of the work */
    Vec(Known) known;
    uint32_t number; /* of the next name */
    bool stays;
    /* of the definition at hand */
    const Function *root;
    const Special *special;
    PtrMap
        values; /* function, global, operator or constructor that is not only called -> its type */
    PtrMap called; /* global that an operator calls */
    PtrMap bound; /* literal -> Var of its `let` */
    /* of the literal at hand */
    const Var *self;
    Vec(Var *) captured;
} Defunctionalizer;

/* ---- names ------------------------------------------------------------------------------------------------------------ */

static bool is_taken(const Defunctionalizer *d, const Name *name)
{
    const Module *in[] = {d->old, d->run->context->env};
    for (size_t i = 0; i < 2; i++)
        if (in[i] && (module_find(in[i], name) || module_find_type(in[i], name) ||
                      module_find_con(in[i], name)))
            return true;
    return false;
}

/* A name that is nowhere in the program: the text with a number behind it. */
static const Name *free_name(Defunctionalizer *d, const char *text)
{
    Buf b = {0};
    const Name *name;
    do {
        buf_clear(&b);
        buf_printf(&b, "%s%u", text, d->number++);
        name = ctx_name(d->run->cx, buf_text(&b));
    } while (is_taken(d, name));
    buf_deinit(&b);
    return name;
}

/* ---- types ------------------------------------------------------------------------------------------------------------ */

/* As nodes of the definition at hand have it, at the types that it is made for. */
static const Type *type_here(const Defunctionalizer *d, const Type *t)
{
    const Special *s = d->special;
    return s->n ? type_subst(d->run->cx, t, s->n, d->root->type_params.at, s->with) : t;
}

/* Types share parts. `seen`: those that are not vague. */
static bool finds_vague(const Type *t, PtrMap *seen)
{
    if (t->kind == TYPE_TENSOR) {
        for (uint32_t i = 0; i < t->n; i++)
            if (t->dims[i] < 0)
                return true;
        return false;
    }
    if (t->kind == TYPE_VAR || t->kind == TYPE_HOLE || t->kind == TYPE_POISON)
        return true;
    if (ptrmap_has(seen, t))
        return false;
    ptrmap_put(seen, t, NULL);
    for (uint32_t i = 0; i < t->n; i++)
        if (finds_vague(t->parts[i], seen))
            return true;
    return t->kind == TYPE_FUNC && (t->n_params || finds_vague(t->result, seen));
}

static bool is_vague(const Type *t)
{
    PtrMap seen = {0};
    bool vague = finds_vague(t, &seen);
    ptrmap_deinit(&seen);
    return vague;
}

/* `seen`: types without functions. */
static bool finds_function(const Type *t, PtrMap *seen)
{
    if (t->kind == TYPE_FUNC)
        return true;
    bool parts = t->kind == TYPE_TUPLE || t->kind == TYPE_ADT || t->kind == TYPE_REF;
    if (!parts || ptrmap_has(seen, t))
        return false;
    ptrmap_put(seen, t, NULL);
    for (uint32_t i = 0; i < t->n; i++)
        if (finds_function(t->parts[i], seen))
            return true;
    return false;
}

static bool has_function(const Type *t)
{
    PtrMap seen = {0};
    bool found = finds_function(t, &seen);
    ptrmap_deinit(&seen);
    return found;
}

static bool takes_or_gives_functions(const Type *f)
{
    bool any = has_function(f->result);
    for (uint32_t i = 0; i < f->n; i++)
        any |= has_function(f->parts[i]);
    return any;
}

static const Type *first_order(Defunctionalizer *d, const Type *t);

/* The family of a type of functions; NULL for one that can have none. */
static Family *family_of(Defunctionalizer *d, const Type *t)
{
    Family *known = ptrmap_find(&d->by_type, t);
    if (known || t->kind != TYPE_FUNC || is_vague(t)) {
        d->stays |= !known;
        return known;
    }
    Ctx *cx = d->run->cx;
    Arena *arena = &d->m->arena;
    Span none = {0};
    Family *f = arena_new(&d->run->scratch, Family);
    const Name *name = free_name(d, "F");
    Buf apply = {0};
    buf_printf(&apply, "apply_%s", name->text);
    *f = (Family){.type = t, .def = typedef_new(cx, name, 0, NULL, none)};
    f->apply = ctx_name(cx, buf_text(&apply));
    if (is_taken(d, f->apply)) {
        buf_char(&apply, '_');
        f->apply = free_name(d, buf_text(&apply));
    }
    buf_deinit(&apply);
    ptrmap_put(&d->by_type, t, f);
    vec_push(&d->families, &d->run->scratch, f);
    f->self = expr_var(arena, none, ctx_name(cx, "f"), type_adt(cx, f->def, 0, NULL));
    f->params = arena_new_array(arena, Var *, t->n + 1);
    for (uint32_t i = 0; f->params && i < t->n; i++)
        f->params[i] = expr_var(arena, none, ctx_name(cx, "p"), first_order(d, t->parts[i]));
    return f;
}

/* The type with data types in place of functions. */
static const Type *first_order(Defunctionalizer *d, const Type *t)
{
    Ctx *cx = d->run->cx;
    if (!has_function(t))
        return t;
    if (t->kind == TYPE_FUNC) {
        const Family *f = family_of(d, t);
        return f ? type_adt(cx, f->def, 0, NULL) : t;
    }
    const Type **parts = arena_new_array(&d->run->scratch, const Type *, t->n + 1);
    for (uint32_t i = 0; parts && i < t->n; i++)
        parts[i] = first_order(d, t->parts[i]);
    if (!parts)
        return t;
    if (t->kind == TYPE_REF)
        return type_ref(cx, parts[0]);
    return t->kind == TYPE_TUPLE ? type_tuple(cx, t->n, parts) : type_adt(cx, t->def, t->n, parts);
}

/* What the n variables of `declared` are in `actual`. */
static void learn(const Type *declared, const Type *actual, const Type *f, const Type **with)
{
    if (declared->kind == TYPE_VAR) {
        for (uint32_t i = 0; i < f->n_params; i++)
            if (f->params[i] == declared->var)
                with[i] = actual;
        return;
    }
    if (declared->kind != actual->kind || declared->kind == TYPE_TENSOR || declared->n != actual->n)
        return;
    for (uint32_t i = 0; i < declared->n; i++)
        learn(declared->parts[i], actual->parts[i], f, with);
    if (declared->kind == TYPE_FUNC)
        learn(declared->result, actual->result, f, with);
}

/* ---- definitions ------------------------------------------------------------------------------------------------------ */

static const Def *find_def(const Defunctionalizer *d, const Name *name)
{
    return find_global(d->old, d->run->context->env, name);
}

static const Name *special_name(Defunctionalizer *d, const Def *def, uint32_t n)
{
    Buf text = {0};
    const Name *name = def->name;
    if (n || takes_or_gives_functions(def->fn->base.type) || module_find(d->old, name) != def ||
        def->imported) {
        buf_printf(&text, "%s_", name->text);
        name = free_name(d, buf_text(&text));
    }
    buf_deinit(&text);
    return name;
}

/* What the definition is called at the types of a call, or as a value of type `t` where no list is given. */
static const Name *special_of(Defunctionalizer *d, const Name *name, TypeList given, const Type *t)
{
    const Def *def = find_def(d, name);
    const Type *type = def && def->fn ? def->fn->base.type : NULL;
    if (!type || function_is_skipped(def->fn) || d->specials.n >= SPECIALS_MOST) {
        d->stays = true;
        return name;
    }
    uint32_t n = type->n_params;
    const Type **with = arena_new_array(&d->run->scratch, const Type *, n + 1);
    for (uint32_t i = 0; with && i < n; i++)
        with[i] = given.n == n ? type_here(d, given.at[i]) : NULL;
    if (!with || (n && !given.n && !t))
        d->stays = true;
    else if (n && given.n != n)
        for (uint32_t i = 0; i <= type->n && t->n == type->n; i++)
            learn(i < type->n ? type->parts[i] : type->result,
                  i < type->n ? t->parts[i] : t->result, type, with);
    for (uint32_t i = 0; with && i < n; i++)
        d->stays |= !with[i] || with[i]->kind == TYPE_HOLE || with[i]->kind == TYPE_POISON ||
                    with[i]->depth > DEPTH_MOST;
    if (d->stays)
        return name;
    for (size_t i = 0; i < d->specials.n; i++) {
        const Special *s = d->specials.at[i];
        if (s->def == def && (!n || !memcmp(s->with, with, n * sizeof *with)))
            return s->name;
    }
    Special *s = arena_new(&d->run->scratch, Special);
    *s = (Special){.def = def, .n = n, .with = with, .name = special_name(d, def, n)};
    vec_push(&d->specials, &d->run->scratch, s);
    return s->name;
}

/* ---- values ----------------------------------------------------------------------------------------------------------- */

static Expr *con_value(Defunctionalizer *d, const Constructor *con, uint32_t n, Var *const *fields)
{
    Arena *arena = &d->m->arena;
    Expr *value = expr_con(arena, (Span){0}, con);
    Expr **args = arena_new_array(arena, Expr *, n + 1);
    for (uint32_t i = 0; args && i < n; i++)
        args[i] = &fields[i]->base;
    return args ? expr_call(arena, (Span){0}, value, n, args, NULL) : NULL;
}

static const Constructor *add_con(Defunctionalizer *d, Family *f, uint32_t n,
                                  const Type *const *types)
{
    Buf text = {0};
    buf_printf(&text, "%sC", f->def->name->text);
    const Name *name = free_name(d, buf_text(&text));
    buf_deinit(&text);
    return typedef_con(d->run->cx, f->def, name, n, types, (Span){0});
}

static void add_clause(Defunctionalizer *d, Family *f, const Constructor *con,
                       Pattern *const *fields, Expr *body)
{
    Pattern *pattern = pattern_con(&d->m->arena, (Span){0}, con, con->n, fields);
    vec_push(&f->clauses, &d->run->scratch, ((Clause){.pattern = pattern, .body = body}));
}

static Expr *call_with_params(Defunctionalizer *d, const Family *f, Expr *callee)
{
    Arena *arena = &d->m->arena;
    Expr **args = arena_new_array(arena, Expr *, f->type->n + 1);
    for (uint32_t i = 0; args && i < f->type->n; i++)
        args[i] = &f->params[i]->base;
    return args ? expr_call(arena, callee->span, callee, f->type->n, args, NULL) : NULL;
}

/* The value that stands for what has a name of its own. */
static Expr *named_value(Defunctionalizer *d, Family *f, const void *what, Expr *callee)
{
    for (size_t i = 0; i < d->known.n; i++)
        if (d->known.at[i].family == f && d->known.at[i].what == what)
            return con_value(d, d->known.at[i].con, 0, NULL);
    const Constructor *con = add_con(d, f, 0, NULL);
    vec_push(&d->known, &d->run->scratch, ((Known){f, what, con}));
    add_clause(d, f, con, NULL, call_with_params(d, f, callee));
    return con_value(d, con, 0, NULL);
}

static void note_captured(void *data, Var *v)
{
    Defunctionalizer *d = data;
    if (v != d->self)
        vec_push(&d->captured, &d->run->scratch, v);
}

/* The value of a literal, which becomes a clause of its family. */
static Expr *literal_value(Defunctionalizer *d, Family *family, Function *f)
{
    Arena *arena = &d->m->arena;
    uint32_t n = (uint32_t)d->captured.n;
    Var **seen = arena_new_array(arena, Var *, n + 1);
    Pattern **fields = arena_new_array(arena, Pattern *, n + 1);
    const Type **types = arena_new_array(&d->run->scratch, const Type *, n + 1);
    PtrMap map = {0};
    for (uint32_t i = 0; seen && fields && types && i < n; i++) {
        Var *v = d->captured.at[i];
        seen[i] = expr_var(arena, v->base.span, v->name, NULL);
        fields[i] = pattern_var(arena, v->base.span, seen[i]);
        types[i] = v->annotation;
        d->stays |= !types[i];
        ptrmap_put(&map, v, seen[i]);
    }
    Expr *value = NULL;
    if (!d->stays && seen && fields && types) {
        const Constructor *con = add_con(d, family, n, types);
        if (d->self)
            ptrmap_put(&map, d->self, con_value(d, con, n, seen));
        for (uint32_t i = 0; !f->attrs && i < f->params.n; i++)
            ptrmap_put(&map, f->params.at[i], family->params[i]);
        Expr *body = f->attrs ? call_with_params(d, family, &f->base) : f->body;
        body = body ? ir_substitute(d->run->cx, d->m, body, &map) : NULL;
        if (body)
            add_clause(d, family, con, fields, body);
        value = body ? con_value(d, con, n, d->captured.at) : NULL;
    }
    ptrmap_deinit(&map);
    return value;
}

/* ---- bodies ----------------------------------------------------------------------------------------------------------- */

static Expr *put_function(Defunctionalizer *d, Rewriter *rw, const Expr *old, Expr *now)
{
    Function *f = expr_as_function(now);
    f = expr_function(&d->m->arena, now->span, (TypeVarList){0}, f->params.n, f->params.at,
                      f->attrs, first_order(d, type_here(d, old->type->result)), f->body);
    if (!ptrmap_has(&d->values, old))
        return &f->base;
    Family *family = family_of(d, type_here(d, old->type));
    const Var *bound = ptrmap_find(&d->bound, old);
    if (!family)
        return now;
    d->self = bound ? expr_as_var(rewriter_now(rw, bound)) : NULL;
    d->captured.n = 0;
    ir_free_vars(now, note_captured, d);
    Expr *value = literal_value(d, family, f);
    return d->stays ? now : value;
}

/* A global, an operator or a constructor. */
static Expr *put_named(Defunctionalizer *d, const Expr *old, Expr *now)
{
    const GlobalVar *global = expr_as_global(old);
    const ConRef *con = expr_as_con(old);
    if (ptrmap_has(&d->called, old)) {
        d->stays |= ptrmap_has(&d->values, old);
        return expr_global(&d->m->arena, now->span,
                           special_of(d, global->name, (TypeList){0}, old->type));
    }
    if (!ptrmap_has(&d->values, old) || (con && con->con->n == 0))
        return now;
    const Type *needed = ptrmap_find(&d->values, old);
    const Type *t = needed ? type_here(d, needed) : NULL;
    Family *family = t ? family_of(d, t) : NULL;
    d->stays |= !family;
    if (!family)
        return now;
    if (global) {
        const Name *name = special_of(d, global->name, (TypeList){0}, t);
        return named_value(d, family, name, expr_global(&d->m->arena, now->span, name));
    }
    return named_value(d, family, con ? (const void *)con->con : expr_as_op(old)->op, now);
}

static Expr *put_call(Defunctionalizer *d, const Call *old, Call *now)
{
    Arena *arena = &d->m->arena;
    Expr *callee = old->callee;
    Span span = now->base.span;
    const GlobalVar *global = expr_as_global(callee);
    if (global)
        callee =
            expr_global(arena, callee->span, special_of(d, global->name, old->type_args, NULL));
    else if (callee->kind == EXPR_FUNCTION && !ptrmap_has(&d->values, callee))
        callee = now->callee;
    else if (callee->kind != EXPR_OP && callee->kind != EXPR_CON) {
        const Family *f = family_of(d, type_here(d, callee->type));
        Expr **args = arena_new_array(arena, Expr *, now->args.n + 1);
        if (!f || !args)
            return f ? NULL : &now->base;
        args[0] = now->callee;
        if (now->args.n)
            memcpy(args + 1, now->args.at, now->args.n * sizeof *args);
        return expr_call(arena, span, expr_global(arena, span, f->apply), now->args.n + 1, args,
                         NULL);
    }
    return expr_call(arena, span, callee, now->args.n, now->args.at, now->attrs);
}

static Expr *put_first_order(Rewriter *rw, const Expr *old, Expr *now)
{
    Defunctionalizer *d = rw->data;
    if (d->stays)
        return now;
    switch (old->kind) {
    case EXPR_FUNCTION: return put_function(d, rw, old, now);
    case EXPR_CALL: return put_call(d, expr_as_call(old), expr_as_call(now));
    case EXPR_GLOBAL:
    case EXPR_OP:
    case EXPR_CON: return put_named(d, old, now);
    default: return now;
    }
}

static void fresh_binder(void *data, Var *v)
{
    Rewriter *rw = data;
    Defunctionalizer *d = rw->data;
    const Type *t = v->base.type ? first_order(d, type_here(d, v->base.type)) : NULL;
    rewriter_put(rw, v, expr_var(&d->m->arena, v->base.span, v->name, t));
}

static bool enter_node(Rewriter *rw, const Expr *old, Expr **now)
{
    Defunctionalizer *d = rw->data;
    const Let *let = expr_as_let(old);
    const Function *f = expr_as_function(old);
    (void)now;
    d->stays |= f && f != d->root && f->type_params.n;
    d->stays |= limit_hit(&d->run->cx->limits);
    if (let && let->value->kind == EXPR_FUNCTION)
        ptrmap_put(&d->bound, let->value, let->var);
    ir_binders(old, fresh_binder, rw);
    return false;
}

static void note_value_as(Defunctionalizer *d, const Expr *e, const Type *needed)
{
    if (e->kind != EXPR_FUNCTION && e->kind != EXPR_GLOBAL && e->kind != EXPR_OP &&
        e->kind != EXPR_CON)
        return;
    bool generic = e->type && e->type->kind == TYPE_FUNC && e->type->n_params;
    const Type *t = generic ? needed : e->type;
    /* One node that is passed at two types. */
    d->stays |= ptrmap_has(&d->values, e) && ptrmap_find(&d->values, e) != t;
    ptrmap_put(&d->values, e, (void *)(uintptr_t)t);
}

static void note_value(void *data, Expr *const *slot)
{
    note_value_as(data, *slot, NULL);
}

/* Whether an operator calls its first argument, which then is no value. */
static bool notes_called(Defunctionalizer *d, const Call *call)
{
    const OpRef *op = expr_as_op(call->callee);
    if (!op || !call->args.n ||
        (strcmp(op->op->name, "call_lowered") && strcmp(op->op->name, "vm.invoke_tvm_op")))
        return false;
    const Expr *e = call->args.at[0];
    if (e->kind == EXPR_GLOBAL)
        ptrmap_put(&d->called, e, NULL);
    d->stays |= e->kind != EXPR_GLOBAL && e->kind != EXPR_FUNCTION;
    return true;
}

/* The type of a callee at this call. */
static const Type *callee_type(const Defunctionalizer *d, const Call *call)
{
    const Type *t = call->callee->type;
    const GlobalVar *global = expr_as_global(call->callee);
    const Def *def = global ? find_def(d, global->name) : NULL;
    const Function *f = def ? def->fn : NULL;
    if (f && f->base.type && f->base.type->n_params) {
        const Type *generic = f->base.type;
        const Type *alone =
            type_func(d->run->cx, 0, NULL, generic->n, generic->parts, generic->result);
        return call->type_args.n == generic->n_params
                   ? type_subst(d->run->cx, alone, generic->n_params, generic->params,
                                call->type_args.at)
                   : NULL;
    }
    return t && t->kind == TYPE_FUNC && !t->n_params ? t : NULL;
}

static WalkNext note_values(void *data, const Expr *e)
{
    Defunctionalizer *d = data;
    const Call *call = expr_as_call(e);
    if (!call) {
        ir_children(e, note_value, data);
        return WALK_ON;
    }
    const Type *t = callee_type(d, call);
    for (uint32_t i = notes_called(d, call) ? 1 : 0; i < call->args.n; i++)
        note_value_as(d, call->args.at[i], t && t->n == call->args.n ? t->parts[i] : NULL);
    return WALK_ON;
}

static bool make_special(Defunctionalizer *d, Special *s)
{
    bool shares = false;
    Function *f = function_to_blocks(d->run, s->def->fn, &shares);
    d->stays |= shares;
    if (!f || d->stays)
        return f != NULL;
    d->root = f;
    d->special = s;
    ptrmap_clear(&d->values);
    ptrmap_clear(&d->called);
    ptrmap_clear(&d->bound);
    ir_walk(&f->base, note_values, NULL, d);
    Rewriter rw;
    rewriter_init(&rw, d->run->cx, d->m, put_first_order, d);
    rw.enter = enter_node;
    rw.copying = true;
    s->made = expr_as_function(ir_rewrite(&rw, &f->base));
    rewriter_deinit(&rw);
    return s->made != NULL;
}

/* ---- the module ------------------------------------------------------------------------------------------------------- */

static bool fields_have_functions(const Module *m)
{
    for (size_t i = 0; m && i < m->types.n; i++)
        for (uint32_t c = 0; c < m->types.at[i]->n_cons; c++)
            for (uint32_t k = 0; k < m->types.at[i]->cons[c]->n; k++)
                if (has_function(m->types.at[i]->cons[c]->fields[k]))
                    return true;
    return false;
}

static void define_family(Defunctionalizer *d, const Family *f)
{
    Arena *arena = &d->m->arena;
    Var **params = arena_new_array(arena, Var *, f->type->n + 1);
    if (!params)
        return;
    params[0] = f->self;
    for (uint32_t i = 0; i < f->type->n; i++)
        params[i + 1] = f->params[i];
    Expr *match =
        expr_match(arena, (Span){0}, &f->self->base, (uint32_t)f->clauses.n, f->clauses.at, true);
    Function *apply = expr_function(arena, (Span){0}, (TypeVarList){0}, f->type->n + 1, params,
                                    NULL, first_order(d, f->type->result), match);
    module_define_type(d->m, f->def);
    module_define(d->m, f->apply, apply, (Span){0}, d->m);
}

static void define_all(Defunctionalizer *d)
{
    for (size_t i = 0; i < d->old->defs.n; i++)
        if (d->old->defs.at[i].fn && !d->old->defs.at[i].imported)
            module_remove(d->m, d->old->defs.at[i].name);
    for (size_t i = 0; i < d->families.n; i++)
        define_family(d, d->families.at[i]);
    for (size_t i = 0; i < d->specials.n; i++) {
        const Special *s = d->specials.at[i];
        module_define(d->m, s->name, s->made, s->def->span, d->m);
    }
}

static bool make_all(Defunctionalizer *d, const Def *entry)
{
    special_of(d, entry->name, (TypeList){0}, entry->fn->base.type);
    for (size_t i = 0; i < d->specials.n && !d->stays; i++)
        if (!make_special(d, d->specials.at[i]))
            return false;
    for (size_t i = 0; i < d->families.n; i++)
        d->stays |= !d->families.at[i]->clauses.n;
    if (d->families.n && !d->stays)
        define_all(d);
    return true;
}

/* What is called becomes the first argument, where the others would come behind it. */
static Function *order_callees(PassRun *run, const Def *def)
{
    Expr *now = order_effects(run, ORDER_CALLEES, &def->fn->base);
    return now ? expr_as_function(now) : NULL;
}

static const Pass callees_in_order = {
    .name = "Defunctionalization", .needs_types = true, .function = order_callees};

static bool defunctionalize(PassRun *run, Module *old)
{
    Defunctionalizer d = {.run = run, .old = old, .m = run->module};
    const Def *entry = module_find_text(old, "main");
    if (!entry || !entry->fn || entry->fn->type_params.n || old->expr ||
        takes_or_gives_functions(entry->fn->base.type) || fields_have_functions(old) ||
        fields_have_functions(run->context->env))
        return true;
    Module *ordered = pass_run_row(run, old, &callees_in_order);
    if (!ordered)
        return false;
    module_use(run->module, ordered);
    d.old = ordered;
    bool ok = make_all(&d, module_find(ordered, entry->name));
    module_release(ordered);
    ptrmap_deinit(&d.by_type);
    ptrmap_deinit(&d.values);
    ptrmap_deinit(&d.called);
    ptrmap_deinit(&d.bound);
    return ok;
}

const Pass pass_defunctionalization = {
    .name = "Defunctionalization",
    .doc = "Makes data of the functions that are used as values, and a function that applies them.",
    .needs_types = true,
    .module = defunctionalize,
};
