/* Puts the bodies of functions marked `Inline=1` in place of their calls, and removes the functions. Before code is made, the bodies of small
 * functions of scalars and data too, so that a constructor meets the match that takes it apart, and what `worthwhile` says; these
 * functions stay.
 *
 *     def @g(%x: int32, Inline=1) { multiply(%x, 2) }  def @main(%x: int32) { @g(%x) }
 *  => def @main(%x: int32) { multiply(%x, 2) }
 *
 * Every call gets fresh variables. A function as a value becomes a literal, and so does one for another compiler
 * (`Compiler`, `Extern`), called or not, with its attributes. Functions with type parameters, and those that reach
 * themselves or one that stays, stay; and so do calls whose bodies would make the program too large (budget.h). */
#include "passes/beta.h"
#include "passes/budget.h"
#include "passes/pass.h"
#include "passes/types.h"

#include <string.h>

typedef struct Local {
    const Expr *value;
    uint32_t calls;
    bool other; /* it is used as a value */
    bool gone; /* its body stands in place of the one call */
} Local;

typedef struct Inliner {
    PassRun *run;
    Module *old;
    PtrMap named; /* names that something uses: the others stay, as entries */
    PtrMap bodies; /* name -> Function: marked, and free of calls of others that are */
    PtrMap sizes; /* Function among them -> its nodes, as a number */
    PtrMap kept; /* names of which a use stays */
    SizeBudget budget;
    uint64_t small_left; /* nodes that the bodies of small functions may still add */
    /* of the definition at hand */
    Purity purity;
    Totality total;
    PtrMap values; /* mentions of functions elsewhere than in front of arguments */
    const Expr *root; /* a definition's function; NULL: an expression */
    PtrMap
        within; /* calls in functions that may outlive what they call now, and find that by name then */
    PtrMap literals; /* name -> what stands for the function as a value */
    bool worthwhile; /* what had better stand where it is called is put there without a mark */
    PtrMap calls; /* name -> Calls of what may be */
    PtrMap locals; /* Var -> Local, of the definition at hand */
    const AttrValue *
        names; /* the functions for other compilers that are put in place; NULL: those with `Inline` */
} Inliner;

static bool is_listed(const AttrValue *names, const Name *name)
{
    for (uint32_t i = 0; i < names->list.n; i++)
        if (str_is(names->list.at[i].s, name->text))
            return true;
    return false;
}

static bool is_set(const Function *f, const char *attr)
{
    const AttrValue *v = attrs_find(f->attrs, attr);
    return v && v->kind == ATTR_INT && v->i != 0;
}

/* Nodes of a function that is small; those that such functions add to a program, beside as many as it has. */
#define SMALL_MOST 150
#define SMALL_GROWTH 2048
#define PARTS_MOST 1024 /* of a type */

/* A type whose parts are the same twice at each level has very many: those beyond `most` are taken for elements. */
static bool has_elements(const Type *t, int *most)
{
    bool has = (t->kind == TYPE_TENSOR && t->n > 0) || --*most < 0;
    for (uint32_t i = 0; t->kind == TYPE_TUPLE && i < t->n && !has; i++)
        has = has_elements(t->parts[i], most);
    return has;
}

/* What is more than scalars and data is left to the passes about tensors. */
static WalkNext note_elements(void *data, const Expr *e)
{
    (void)data;
    if (e->kind == EXPR_OP || e->kind == EXPR_CON)
        return WALK_ON;
    bool other = e->kind == EXPR_FUNCTION || e->kind == EXPR_REF_NEW || !e->type;
    int most = PARTS_MOST;
    return other || has_elements(type_find(e->type), &most) ? WALK_STOP : WALK_ON;
}

static bool is_small(const Inliner *in, const Function *f)
{
    return in->run->context->for_code && !f->attrs && has_at_most(f->body, SMALL_MOST) &&
           ir_walk(f->body, note_elements, NULL, NULL);
}

/* How a function is used. */
typedef struct Calls {
    uint32_t n; /* mentions elsewhere than in front of arguments count as two */
    bool knows; /* some call gives it a constant */
} Calls;

static void note_mention(void *data, Expr *const *slot)
{
    const Inliner *in = data;
    Calls *c =
        (*slot)->kind == EXPR_GLOBAL ? ptrmap_find(&in->calls, expr_as_global(*slot)->name) : NULL;
    if (c)
        c->n += 2;
}

static WalkNext note_calls(void *data, const Expr *e)
{
    const Inliner *in = data;
    const Call *call = expr_as_call(e);
    const GlobalVar *g = call ? expr_as_global(call->callee) : NULL;
    Calls *c = g ? ptrmap_find(&in->calls, g->name) : NULL;
    ir_children(e, note_mention, data);
    if (!c)
        return WALK_ON;
    c->n--;
    for (uint32_t i = 0; i < call->args.n; i++)
        c->knows |= call->args.at[i]->kind == EXPR_CONSTANT && expr_tensor_type(call->args.at[i]) &&
                    expr_tensor_type(call->args.at[i])->n > 0;
    return WALK_ON;
}

static WalkNext find_tensor_op(void *data, const Expr *e)
{
    const Type *t = expr_call_of_op(e) ? expr_tensor_type(e) : NULL;
    *(bool *)data |= t && t->n > 0;
    return *(bool *)data ? WALK_STOP : WALK_ON;
}

/* What computes tensors and is called once, or with tensors that are known, is better off where it is called: it is fused with what is
 * around it, and its weights are constants there. */
static void find_calls(Inliner *in)
{
    Arena *arena = &in->run->scratch;
    for (size_t i = 0; i < in->old->defs.n; i++) {
        const Def *def = &in->old->defs.at[i];
        bool computes = false;
        if (def->fn && !def->imported && def->fn->type_params.n == 0 && !def->fn->attrs)
            ir_walk(def->fn->body, find_tensor_op, NULL, &computes);
        if (computes)
            ptrmap_put(&in->calls, def->name, arena_new(arena, Calls));
    }
    for (size_t i = 0; i < in->old->defs.n; i++)
        if (in->old->defs.at[i].fn && !in->old->defs.at[i].imported)
            ir_walk(&in->old->defs.at[i].fn->base, note_calls, NULL, in);
    if (in->old->expr)
        ir_walk(in->old->expr, note_calls, NULL, in);
}

static bool is_worth(const Inliner *in, const Name *name)
{
    const Calls *c = ptrmap_find(&in->calls, name);
    return c && c->n > 0 && (c->n == 1 || c->knows);
}

static bool is_marked(const Inliner *in, const Def *def)
{
    const Function *f = def->fn;
    if (in->names)
        return is_listed(in->names, def->name) && attrs_find(f->attrs, "Compiler") &&
               f->type_params.n == 0;
    return (is_set(f, "Inline") && f->type_params.n == 0 && !is_set(f, "SkipOptimization")) ||
           is_small(in, f) || is_worth(in, def->name);
}

/* Another compiler is given the function whole: it stands as a literal, called or not. */
static bool stays_whole(const Inliner *in, const Function *f)
{
    if (in->names)
        return false;
    return attrs_find(f->attrs, "Compiler") || attrs_find(f->attrs, "Extern");
}

static Expr *make_literal(Inliner *in, const Function *f)
{
    const Function *copy = expr_as_function(ir_copy(in->run->cx, in->run->module, &f->base));
    if (!copy)
        return NULL;
    return &expr_function(&in->run->module->arena, f->base.span, copy->type_params, copy->params.n,
                          copy->params.at, stays_whole(in, f) ? f->attrs : NULL, copy->ret_type,
                          copy->body)
                ->base;
}

/* Whether the program may have one more copy of the body; else a use of the function stays. */
static bool may_copy(Inliner *in, const Name *name, const Function *f, const Expr *at)
{
    uint64_t nodes = (uint64_t)(uintptr_t)ptrmap_find(&in->sizes, f);
    if (pass_is_done(in->run)) {
        ptrmap_put(&in->kept, name, NULL);
        return false;
    }
    if (in->run->context->for_code && !is_set(f, "Inline") && ptrmap_has(&in->within, at))
        return false;
    if (in->run->context->for_code && !is_set(f, "Inline") && !is_worth(in, name)) {
        bool fits = nodes <= in->small_left;
        in->small_left -= fits ? nodes : 0;
        return fits;
    }
    if (size_spend(&in->budget, nodes))
        return true;
    ptrmap_put(&in->kept, name, NULL);
    return false;
}

static Expr *literal_of(Inliner *in, const Name *name, Expr *now)
{
    const Function *f = ptrmap_find(&in->bodies, name);
    Expr *known = ptrmap_find(&in->literals, name);
    if (known || !may_copy(in, name, f, now))
        return known ? known : now;
    known = make_literal(in, f);
    ptrmap_put(&in->literals, name, known);
    return known;
}

static Totality *total_for(Inliner *in)
{
    return in->run->context->for_code ? &in->total : NULL;
}

/* Whether the types at which the call wants a polymorphic function are known. */
static bool is_at_types(const Call *call, const Function *f)
{
    bool known = f->type_params.n == 0 || call->type_args.n == f->type_params.n;
    for (uint32_t i = 0; i < f->type_params.n && known; i++)
        known = !type_find(call->type_args.at[i])->open;
    return known;
}

static Expr *put_call(Inliner *in, const Call *was, const Call *now, const Name *name)
{
    PassRun *run = in->run;
    const Function *f = ptrmap_find(&in->bodies, name);
    Expr *callee = was->callee;
    if (!is_at_types(was, f) || !may_copy(in, name, f, &was->base))
        return now->callee == callee ? (Expr *)(uintptr_t)now
                                     : expr_call(&run->module->arena, was->base.span, callee,
                                                 now->args.n, now->args.at, now->attrs);
    if (f->type_params.n > 0)
        f = beta_instance(run->cx, run->module, f, was->type_args.at);
    if (!f)
        return NULL;
    if (!stays_whole(in, f))
        return beta(run->cx, run->module, &in->purity, total_for(in), f, was->args.n, now->args.at,
                    was->args.at);
    callee = make_literal(in, f);
    return callee ? expr_call(&run->module->arena, was->base.span, callee, now->args.n,
                              now->args.at, now->attrs)
                  : NULL;
}

/* A function that is called where it stands, or by the variable that a `let` binds it to and nothing else uses. */
static Expr *put_literal(Inliner *in, Rewriter *rw, const Call *was, Expr *e)
{
    const Call *now = expr_as_call(e);
    Local *local = ptrmap_find(&in->locals, was->callee);
    bool once = local && local->calls == 1 && !local->other;
    const Expr *literal = once ? local->value : was->callee;
    Expr *callee = once ? rewriter_now(rw, local->value) : now ? now->callee : NULL;
    const Function *f = expr_as_function(callee);
    if (!f || (literal->kind == EXPR_FUNCTION && !purity_copyable(&in->purity, literal)) ||
        f->type_params.n || function_is_primitive(f) || attrs_find(f->attrs, "Compiler") ||
        pass_is_done(in->run))
        return e;
    if (local)
        local->gone = true;
    return beta(in->run->cx, in->run->module, &in->purity, total_for(in), f, was->args.n,
                now->args.at, was->args.at);
}

static Expr *put_body(Rewriter *rw, const Expr *old, Expr *now)
{
    Inliner *in = rw->data;
    const GlobalVar *value = expr_as_global(old);
    const Call *was = expr_as_call(old);
    const GlobalVar *callee = was ? expr_as_global(was->callee) : NULL;
    const Function *whole = value ? ptrmap_find(&in->bodies, value->name) : NULL;
    if (whole && ptrmap_has(&in->values, old) && (in->names || is_set(whole, "Inline")))
        return literal_of(in, value->name, now);
    if (callee && ptrmap_has(&in->bodies, callee->name))
        return put_call(in, was, expr_as_call(now), callee->name);
    const Let *let = in->worthwhile ? expr_as_let(now) : NULL;
    const Local *local = let ? ptrmap_find(&in->locals, let->var) : NULL;
    if (local && local->gone)
        return let->body;
    return in->worthwhile && was ? put_literal(in, rw, was, now) : now;
}

typedef struct Mention {
    PtrMap *values;
    const Expr *owner;
} Mention;

static void note_value(void *data, Expr *const *slot)
{
    Mention *m = data;
    const Call *call = expr_as_call(m->owner);
    if ((*slot)->kind == EXPR_GLOBAL && !(call && slot == &call->callee))
        ptrmap_put(m->values, *slot, NULL);
}

/* Functions that a `let` binds, and how its variable is used. */
static void note_local(void *data, Expr *const *slot)
{
    Mention *m = data;
    Local *local = (*slot)->kind == EXPR_VAR ? ptrmap_find(m->values, *slot) : NULL;
    const Call *call = expr_as_call(m->owner);
    if (local && call && slot == &call->callee)
        local->calls++;
    else if (local)
        local->other = true;
}

static WalkNext note_locals(void *data, const Expr *e)
{
    Inliner *in = data;
    const Let *let = expr_as_let(e);
    if (let && let->value->kind == EXPR_FUNCTION) {
        Local *local = arena_new(&in->run->scratch, Local);
        local->value = let->value;
        ptrmap_put(&in->locals, let->var, local);
    }
    ir_children(e, note_local, &(Mention){&in->locals, e});
    return WALK_ON;
}

static WalkNext note_values(void *data, const Expr *e)
{
    ir_children(e, note_value, &(Mention){data, e});
    return WALK_ON;
}

/* Calls of what is put in place have the effects of its body, although another compiler was meant to make them. */
static WalkNext note_pure(void *data, const Expr *e)
{
    Inliner *in = data;
    const GlobalVar *g = expr_as_global(e);
    const Def *def = g && ptrmap_has(&in->bodies, g->name) ? module_find(in->old, g->name) : NULL;
    if (def && purity_of(&in->purity, def->fn->body))
        ptrmap_put(&in->purity.known, g->name, NULL);
    return WALK_ON;
}

static WalkNext note_within(void *data, const Expr *e)
{
    PtrMap *within = data;
    if (ptrmap_has(within, e))
        return WALK_SKIP;
    ptrmap_put(within, e, NULL);
    return WALK_ON;
}

static WalkNext note_literal(void *data, const Expr *e)
{
    Inliner *in = data;
    if (e->kind != EXPR_FUNCTION || e == in->root)
        return WALK_ON;
    ir_walk(e, note_within, NULL, &in->within);
    return WALK_SKIP;
}

static Expr *inline_calls(Inliner *in, Expr *root)
{
    Rewriter rw;
    in->root = root == in->old->expr ? NULL : root;
    if (in->run->context->for_code)
        ir_walk(root, note_literal, NULL, in);
    purity_init(&in->purity, in->old, in->run->context->env, root);
    in->total = (Totality){.cx = in->run->cx, .data = true};
    if (in->names)
        ir_walk(root, note_pure, NULL, in);
    if (root->kind == EXPR_GLOBAL)
        ptrmap_put(&in->values, root, NULL);
    ir_walk(root, note_values, NULL, &in->values);
    if (in->worthwhile)
        ir_walk(root, note_locals, NULL, in);
    pass_rewriter_init(&rw, in->run, put_body, in);
    Expr *now = ir_rewrite(&rw, root);
    rewriter_deinit(&rw);
    purity_deinit(&in->purity);
    totality_deinit(&in->total);
    ptrmap_clear(&in->literals);
    ptrmap_clear(&in->values);
    ptrmap_clear(&in->locals);
    ptrmap_clear(&in->within);
    return now;
}

/* ---- which functions, in which order --------------------------------------------------------------------------------------- */

/* A marked function, and what needs it. */
typedef struct Marked {
    const Def *def;
    size_t missing; /* mentions of functions whose bodies are not made yet */
    Vec(size_t) callers;
} Marked;

typedef struct Order {
    Inliner *in;
    Marked *at;
    size_t n;
    PtrMap places; /* name -> place in `at`, from 1 */
    size_t caller;
} Order;

static WalkNext note_need(void *data, const Expr *e)
{
    Order *o = data;
    const GlobalVar *g = expr_as_global(e);
    if (!g)
        return WALK_ON;
    size_t place = (size_t)(uintptr_t)ptrmap_find(&o->places, g->name);
    o->at[o->caller].missing++;
    if (place)
        vec_push(&o->at[place - 1].callers, &o->in->run->scratch, o->caller);
    return WALK_ON;
}

static void find_order(Order *o)
{
    const Module *old = o->in->old;
    o->at = arena_alloc_must(&o->in->run->scratch, old->defs.n + 1, sizeof *o->at);
    for (size_t i = 0; i < old->defs.n; i++) {
        const Def *def = &old->defs.at[i];
        if (!def->fn || def->imported || !is_marked(o->in, def))
            continue;
        o->at[o->n++].def = def;
        ptrmap_put(&o->places, def->name, (void *)(uintptr_t)o->n);
    }
    for (o->caller = 0; o->caller < o->n; o->caller++)
        ir_walk(&o->at[o->caller].def->fn->base, note_need, NULL, o);
}

/* Makes the bodies, those of called functions first. A function that reaches itself, or one that stays, never lacks none. */
static bool make_bodies(Inliner *in)
{
    Order o = {.in = in};
    Vec(size_t) ready = {0};
    find_order(&o);
    for (size_t i = 0; i < o.n; i++)
        if (o.at[i].missing == 0)
            vec_push(&ready, &in->run->scratch, i);
    bool ok = true;
    for (size_t next = 0; next < ready.n && ok; next++) {
        const Marked *m = &o.at[ready.at[next]];
        Expr *body = inline_calls(in, &m->def->fn->base);
        ok = body != NULL && !limit_hit(&in->run->cx->limits);
        if (!ok)
            break;
        uint64_t nodes = count_nodes(body);
        if (nodes > SMALL_MOST && !in->names && !is_set(m->def->fn, "Inline") &&
            !is_worth(in, m->def->name))
            continue; /* of what it calls it has become large */
        ptrmap_put(&in->bodies, m->def->name, body);
        ptrmap_put(&in->sizes, body, (void *)(uintptr_t)nodes);
        for (size_t i = 0; i < m->callers.n; i++)
            if (--o.at[m->callers.at[i]].missing == 0)
                vec_push(&ready, &in->run->scratch, m->callers.at[i]);
    }
    ptrmap_deinit(&o.places);
    return ok;
}

/* ---- the pass ------------------------------------------------------------------------------------------------------------- */

/* Whether nothing needs the definition once its body stands wherever it was called. */
static bool goes(const Inliner *in, const Def *def)
{
    return ptrmap_has(&in->bodies, def->name) && ptrmap_has(&in->named, def->name) &&
           strcmp(def->name->text, "main") != 0 && (in->names || is_set(def->fn, "Inline"));
}

static bool put_bodies(Inliner *in)
{
    Module *now = in->run->module;
    for (size_t i = 0; i < in->old->defs.n; i++) {
        const Def *def = &in->old->defs.at[i];
        if (!def->fn || def->imported)
            continue;
        bool made = ptrmap_has(&in->bodies, def->name);
        Function *f = expr_as_function(made ? ptrmap_find(&in->bodies, def->name)
                                            : inline_calls(in, &def->fn->base));
        if (!f || limit_hit(&in->run->cx->limits))
            return false;
        if (f != def->fn)
            module_define(now, def->name, f, def->span, now);
    }
    if (in->old->expr)
        now->expr = inline_calls(in, in->old->expr);
    for (size_t i = 0; i < in->old->defs.n; i++) {
        const Def *def = &in->old->defs.at[i];
        if (def->fn && !def->imported && goes(in, def) && !ptrmap_has(&in->kept, def->name))
            module_remove(now, def->name);
    }
    return !in->old->expr || now->expr;
}

static bool inline_where(PassRun *run, Module *old, const AttrValue *names)
{
    Inliner in = {.run = run, .old = old, .names = names, .budget = size_budget(run, old)};
    in.small_left = SMALL_GROWTH;
    in.worthwhile = !names && attrs_bool(run->params, "worthwhile");
    /* Each of these walks over the whole program. */
    Limits *limits = &run->cx->limits;
    bool ok = !limit_hit(limits);
    for (size_t i = 0; i < old->defs.n && run->context->for_code && ok; i++) {
        in.small_left += old->defs.at[i].fn ? count_nodes(&old->defs.at[i].fn->base) : 0;
        ok = !limit_hit(limits);
    }
    if (ok)
        note_named(old, &in.named);
    ok = ok && !limit_hit(limits);
    if (ok && in.worthwhile)
        find_calls(&in);
    ok = ok && !limit_hit(limits) && make_bodies(&in) &&
         (!(in.bodies.n || in.worthwhile) || put_bodies(&in));
    size_report(&in.budget, run, "calls");
    ptrmap_deinit(&in.values);
    ptrmap_deinit(&in.named);
    ptrmap_deinit(&in.kept);
    ptrmap_deinit(&in.sizes);
    ptrmap_deinit(&in.bodies);
    ptrmap_deinit(&in.literals);
    ptrmap_deinit(&in.calls);
    ptrmap_deinit(&in.locals);
    ptrmap_deinit(&in.within);
    return ok;
}

static bool inline_marked(PassRun *run, Module *old)
{
    return inline_where(run, old, NULL);
}

static bool inline_bound(PassRun *run, Module *old)
{
    return inline_where(run, old, attrs_find(run->params, "global_vars"));
}

static const OpAttr marked_params[] = {SIZE_MOST_PARAM,
                                       {"worthwhile", ATTR_TYPE_BOOL,
                                        .otherwise = ATTR_DEFAULT_BOOL(false),
                                        .doc = "functions without the mark too: literals that are "
                                               "called, and functions of tensors that are "
                                               "called once or with constants"},
                                       {0}};

static const OpAttr bound_params[] = {
    SIZE_MOST_PARAM,
    {"global_vars", ATTR_TYPE_STRINGS, .otherwise = {.kind = ATTR_LIST},
     .names = ATTR_NAMES_FUNCTIONS, .doc = "the names of the functions"},
    {0},
};

const Pass pass_inline_compiler_functions = {
    .name = "InlineCompilerFunctionsBoundTo",
    .doc = "Puts the bodies of some functions for other compilers in place of their calls.",
    .opt_level = 0,
    .needs_types = true,
    .params = bound_params,
    .module = inline_bound,
};

const Pass pass_inline = {
    .name = "Inline",
    .doc = "Puts the bodies of functions marked `Inline=1` in place of their calls.",
    .opt_level = 1,
    .needs_types = true,
    .params = marked_params,
    .module = inline_marked,
};
