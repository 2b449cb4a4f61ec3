/* Puts the bodies of functions marked `Inline=1` in place of their calls, and removes the functions.
 *
 *     def @g(%x: int32, Inline=1) { multiply(%x, 2) }  def @main(%x: int32) { @g(%x) }
 *  => def @main(%x: int32) { multiply(%x, 2) }
 *
 * Every call gets fresh variables. A function as a value becomes a literal, and so does one for another compiler
 * (`Compiler`, `Extern`), called or not, with its attributes. Functions with type parameters, and those that reach
 * themselves or one that stays, stay. */
#include "passes/beta.h"
#include "passes/pass.h"

#include <string.h>

typedef struct Inliner {
    PassRun *run;
    Module *old;
    PtrMap named; /* names that something uses: the others stay, as entries */
    PtrMap bodies; /* name -> Function: marked, and free of calls of others that are */
    /* of the definition at hand */
    Purity purity;
    PtrMap literals; /* name -> what stands for the function as a value */
    bool blocked; /* it needs a function that stays */
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

static bool is_marked(const Inliner *in, const Def *def)
{
    const Function *f = def->fn;
    const AttrValue *mark = attrs_find(f->attrs, "Inline");
    const AttrValue *skip = attrs_find(f->attrs, "SkipOptimization");
    if (in->names)
        return is_listed(in->names, def->name) && attrs_find(f->attrs, "Compiler") &&
               f->type_params.n == 0;
    return mark && mark->kind == ATTR_INT && mark->i != 0 && f->type_params.n == 0 &&
           !(skip && skip->kind == ATTR_INT && skip->i != 0);
}

/* Another compiler is given the function whole: it stands as a literal, called or not. */
static bool stays_whole(const Inliner *in, const Function *f)
{
    if (in->names)
        return false;
    return attrs_find(f->attrs, "Compiler") || attrs_find(f->attrs, "Extern");
}

static WalkNext find_blocker(void *data, const Expr *e)
{
    Inliner *in = data;
    const GlobalVar *g = expr_as_global(e);
    in->blocked |= g && !ptrmap_has(&in->bodies, g->name);
    return in->blocked ? WALK_STOP : WALK_ON;
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

static Expr *literal_of(Inliner *in, const Name *name)
{
    void **known = ptrmap_slot(&in->literals, name);
    if (known && !*known)
        *known = make_literal(in, ptrmap_find(&in->bodies, name));
    return known ? *known : NULL;
}

static Expr *put_call(Inliner *in, const Call *was, const Call *now, const Function *f)
{
    PassRun *run = in->run;
    if (!stays_whole(in, f))
        return beta(run->cx, run->module, &in->purity, f, was->args.n, now->args.at, was->args.at);
    Expr *literal = make_literal(in, f);
    return literal ? expr_call(&run->module->arena, was->base.span, literal, now->args.n,
                               now->args.at, now->attrs)
                   : NULL;
}

static Expr *put_body(Rewriter *rw, const Expr *old, Expr *now)
{
    Inliner *in = rw->data;
    const GlobalVar *value = expr_as_global(old);
    const Call *was = expr_as_call(old);
    const GlobalVar *callee = was ? expr_as_global(was->callee) : NULL;
    if (value)
        return ptrmap_has(&in->bodies, value->name) ? literal_of(in, value->name) : now;
    const Function *f = callee ? ptrmap_find(&in->bodies, callee->name) : NULL;
    return f ? put_call(in, was, expr_as_call(now), f) : now;
}

/* Calls of what is put in place have the effects of its body, although another compiler was meant to make them. */
static WalkNext note_pure(void *data, const Expr *e)
{
    Inliner *in = data;
    const GlobalVar *g = expr_as_global(e);
    const Def *def = g && ptrmap_has(&in->bodies, g->name) ? module_find(in->old, g->name) : NULL;
    if (def && purity_of(&in->purity, def->fn->body))
        ptrmap_put(&in->purity.known, e, NULL);
    return WALK_ON;
}

static Expr *inline_calls(Inliner *in, Expr *root)
{
    Rewriter rw;
    purity_init(&in->purity, in->old, in->run->context->env, root);
    if (in->names)
        ir_walk(root, note_pure, NULL, in);
    rewriter_init(&rw, in->run->cx, in->run->module, put_body, in);
    Expr *now = ir_rewrite(&rw, root);
    rewriter_deinit(&rw);
    purity_deinit(&in->purity);
    ptrmap_clear(&in->literals);
    return now;
}

/* Makes the bodies, those of called functions first; each round finds the functions that need none but the ones before. */
static bool make_bodies(Inliner *in)
{
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < in->old->defs.n; i++) {
            const Def *def = &in->old->defs.at[i];
            if (!def->fn || def->imported || !is_marked(in, def) ||
                ptrmap_has(&in->bodies, def->name))
                continue;
            in->blocked = false;
            ir_walk(&def->fn->base, find_blocker, NULL, in);
            if (in->blocked)
                continue;
            Expr *body = inline_calls(in, &def->fn->base);
            if (!body)
                return false;
            ptrmap_put(&in->bodies, def->name, body);
            more = true;
        }
    }
    return true;
}

static bool put_bodies(Inliner *in)
{
    Module *now = in->run->module;
    for (size_t i = 0; i < in->old->defs.n; i++) {
        const Def *def = &in->old->defs.at[i];
        if (!def->fn || def->imported)
            continue;
        if (ptrmap_has(&in->bodies, def->name) && ptrmap_has(&in->named, def->name) &&
            strcmp(def->name->text, "main") != 0) {
            module_remove(now, def->name);
            continue;
        }
        Function *f = expr_as_function(inline_calls(in, &def->fn->base));
        if (!f)
            return false;
        if (f != def->fn)
            module_define(now, def->name, f, def->span, now);
    }
    if (in->old->expr)
        now->expr = inline_calls(in, in->old->expr);
    return !in->old->expr || now->expr;
}

static bool inline_where(PassRun *run, Module *old, const AttrValue *names)
{
    Inliner in = {.run = run, .old = old, .names = names};
    note_named(old, &in.named);
    bool ok = make_bodies(&in) && (!in.bodies.n || put_bodies(&in));
    ptrmap_deinit(&in.named);
    ptrmap_deinit(&in.bodies);
    ptrmap_deinit(&in.literals);
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

static const OpAttr bound_params[] = {
    {"global_vars", ATTR_TYPE_STRINGS, .otherwise = {.kind = ATTR_LIST},
     .doc = "the names of the functions"},
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
    .module = inline_marked,
};
