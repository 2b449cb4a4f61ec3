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
} Inliner;

static bool is_marked(const Function *f)
{
    const AttrValue *mark = attrs_find(f->attrs, "Inline");
    const AttrValue *skip = attrs_find(f->attrs, "SkipOptimization");
    return mark && mark->kind == ATTR_INT && mark->i != 0 && f->type_params.n == 0 &&
           !(skip && skip->kind == ATTR_INT && skip->i != 0);
}

/* Another compiler is given the function whole: it stands as a literal, called or not. */
static bool stays_whole(const Function *f)
{
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
                          copy->params.at, stays_whole(f) ? f->attrs : NULL, copy->ret_type,
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
    if (!stays_whole(f))
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

static Expr *inline_calls(Inliner *in, Expr *root)
{
    Rewriter rw;
    purity_init(&in->purity, in->old, in->run->context->env, root);
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
            if (!def->fn || def->imported || !is_marked(def->fn) ||
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

static bool inline_marked(PassRun *run, Module *old)
{
    Inliner in = {.run = run, .old = old};
    note_named(old, &in.named);
    bool ok = make_bodies(&in) && (!in.bodies.n || put_bodies(&in));
    ptrmap_deinit(&in.named);
    ptrmap_deinit(&in.bodies);
    ptrmap_deinit(&in.literals);
    return ok;
}

const Pass pass_inline = {
    .name = "Inline",
    .doc = "Puts the bodies of functions marked `Inline=1` in place of their calls.",
    .opt_level = 1,
    .needs_types = true,
    .module = inline_marked,
};
