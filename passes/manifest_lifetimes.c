/* Says in a program in A normal form where values are needed for the last time.
 *
 *     let %a = add(%x, %y); let %b = exp(%a); %b
 *  => let %a = add(%x, %y); let %x_0 = memory.kill(%x); let %x_1 = memory.kill(%y); let %b = exp(%a); let %x_2 = memory.kill(%a); %b
 *
 * A function that shares a `let` or a branch stays. A second name for a value goes. What ends in one branch has no end in another, and what is never used has none at all. */
#include "passes/facts.h"
#include "passes/pass.h"
#include "passes/types.h"

#include "stdlib/ops/ops.h"

#include <stdio.h>

/* Branches within branches are looked at by functions that call themselves; deeper ones are taken as they are. */
enum { DEPTH_MOST = 200 };

typedef struct Lifetimes {
    PassRun *run;
    unsigned number;
    int depth;
} Lifetimes;

typedef struct Names {
    Arena *arena;
    Vec(Var *) at;
} Names;

static Expr *end_chain(Lifetimes *l, Expr *chain, PtrMap *live);

static void note_var(void *data, Var *v)
{
    Names *names = data;
    vec_push(&names->at, names->arena, v);
}

/* Each level of branches asks for those of all within, so that this is where the time goes. */
static Names uses_of(Lifetimes *l, const Expr *e)
{
    Names uses = {.arena = &l->run->scratch};
    if (!limit_hit(&l->run->cx->limits))
        ir_free_vars(e, note_var, &uses);
    return uses;
}

static void add_uses(Lifetimes *l, const Expr *e, PtrMap *live)
{
    Names uses = uses_of(l, e);
    for (size_t i = 0; i < uses.at.n; i++)
        ptrmap_put(live, uses.at.at[i], NULL);
}

/* A branch, behind which `after` is live; what is live before it joins `before`. */
static Expr *end_branch(Lifetimes *l, Expr *branch, const Names *after, PtrMap *before)
{
    PtrMap live = {0};
    for (size_t i = 0; i < after->at.n; i++)
        ptrmap_put(&live, after->at.at[i], NULL);
    Expr *now = end_chain(l, branch, &live);
    add_uses(l, branch, before);
    ptrmap_deinit(&live);
    return now;
}

/* What is used in e and live behind it: all that a branch of it can tell from what it ends itself. */
static Names live_within(Lifetimes *l, const Expr *e, const PtrMap *live)
{
    Names uses = uses_of(l, e), after = {.arena = &l->run->scratch};
    for (size_t i = 0; i < uses.at.n; i++)
        if (ptrmap_has(live, uses.at.at[i]))
            vec_push(&after.at, after.arena, uses.at.at[i]);
    return after;
}

/* The value with its branches ended; `inner` gets what they use. The value itself where it has none. */
static Expr *end_branches(Lifetimes *l, Expr *value, const PtrMap *live, PtrMap *inner)
{
    Arena *arena = &l->run->module->arena;
    const If *i = expr_as_if(value);
    const Match *m = expr_as_match(value);
    const Call *call = expr_as_call(value);
    const Op *op = expr_call_of_op(value);
    if (op && str_is(str_of(op->name), "on_device")) {
        Expr *of = end_branches(l, call->args.at[0], live, inner);
        if (of == call->args.at[0])
            return value;
        return expr_call(arena, value->span, call->callee, 1, &of, call->attrs);
    }
    if ((!i && !m) || l->depth >= DEPTH_MOST || limit_hit(&l->run->cx->limits))
        return value;
    l->depth++;
    Names after = live_within(l, value, live);
    Expr *now;
    if (i) {
        Expr *then = end_branch(l, i->then, &after, inner);
        Expr *otherwise = end_branch(l, i->otherwise, &after, inner);
        now = expr_if(arena, value->span, i->cond, then, otherwise);
    } else {
        Clause *clauses = arena_copy(arena, m->clauses.at, m->clauses.n * sizeof *clauses);
        for (uint32_t k = 0; k < m->clauses.n; k++)
            clauses[k].body = end_branch(l, clauses[k].body, &after, inner);
        now = expr_match(arena, value->span, m->scrutinee, m->clauses.n, clauses, m->complete);
    }
    l->depth--;
    return now;
}

static Expr *kill(Lifetimes *l, Var *v, Expr *body)
{
    OpsMake m = {l->run->cx, &l->run->module->arena, body->span};
    char name[32];
    Expr *killed = ops_call1(&m, "memory.kill", &v->base);
    snprintf(name, sizeof name, "x_%u", l->number++);
    Var *unit = expr_var(m.arena, m.span, ctx_name(l->run->cx, name), NULL);
    return killed ? expr_let(m.arena, m.span, unit, killed, body) : NULL;
}

/* The `let` with the ends of what it uses and nothing behind it does. */
static Expr *end_let(Lifetimes *l, const Let *let, Expr *body, PtrMap *live)
{
    PtrMap inner = {0};
    ptrmap_remove(live, let->var);
    Expr *value = end_branches(l, let->value, live, &inner);
    Names uses = uses_of(l, let->value);
    for (size_t i = uses.at.n; i-- && body;) {
        Var *v = uses.at.at[i];
        if (!ptrmap_has(live, v) && !ptrmap_has(&inner, v))
            body = kill(l, v, body);
    }
    for (size_t i = 0; i < uses.at.n; i++)
        ptrmap_put(live, uses.at.at[i], NULL);
    ptrmap_deinit(&inner);
    return body ? expr_let(&l->run->module->arena, let->base.span, let->var, value, body) : NULL;
}

/* A chain of `let`s; `live` is what is live behind it, and then before it. */
static Expr *end_chain(Lifetimes *l, Expr *chain, PtrMap *live)
{
    Vec(const Let *) lets = {0};
    Expr *tail = chain;
    for (const Let *let; (let = expr_as_let(tail)); tail = let->body)
        vec_push(&lets, &l->run->scratch, let);
    PtrMap inner = {0};
    Expr *now = end_branches(l, tail, live, &inner);
    ptrmap_deinit(&inner);
    add_uses(l, tail, live);
    for (size_t i = lets.n; i-- && now && !limit_hit(&l->run->cx->limits);)
        now = end_let(l, lets.at[i], now, live);
    return now;
}

/* ---- second names ------------------------------------------------------------------------------------------------------- */

static Expr *drop_name(Rewriter *rw, const Expr *old, Expr *now)
{
    PtrMap *names = rw->data;
    const Let *let = expr_as_let(now);
    expr_keep_type(now, old);
    if (old->kind == EXPR_VAR && ptrmap_has(names, old)) {
        /* A chain of names is as long as the program may be. */
        const Expr *of = ptrmap_find(names, old);
        while (ptrmap_has(names, of))
            of = ptrmap_find(names, of);
        return (Expr *)(uintptr_t)of;
    }
    return let && expr_as_let(old)->value->kind == EXPR_VAR ? let->body : now;
}

static WalkNext note_name(void *data, const Expr *e)
{
    const Let *let = expr_as_let(e);
    if (let && let->value->kind == EXPR_VAR && let->value != &let->var->base)
        ptrmap_put(data, let->var, let->value);
    return WALK_ON;
}

static WalkNext find_shared(void *data, const Expr *e)
{
    bool blocks = e->kind == EXPR_LET || e->kind == EXPR_IF || e->kind == EXPR_MATCH;
    return blocks && times_used(data, e) > 1 ? WALK_STOP : WALK_ON;
}

/* A function with a shared `let` or branch is not in A normal form: such a part has no one end. */
static bool shares_blocks(PassRun *run, const Function *f)
{
    Places uses;
    count_uses(&f->base, &run->scratch, &uses);
    return !ir_walk(&f->base, find_shared, NULL, &uses);
}

static Function *end_lifetimes(PassRun *run, const Def *def)
{
    Lifetimes l = {.run = run};
    PtrMap names = {0}, live = {0};
    Rewriter rw;
    if (function_is_primitive(def->fn) || shares_blocks(run, def->fn))
        return def->fn;
    ir_walk(&def->fn->base, NULL, note_name, &names);
    rewriter_init(&rw, run->cx, run->module, drop_name, &names);
    const Function *f = expr_as_function(ir_rewrite(&rw, &def->fn->base));
    rewriter_deinit(&rw);
    Expr *body = f ? end_chain(&l, f->body, &live) : NULL;
    ptrmap_deinit(&names);
    ptrmap_deinit(&live);
    return body ? expr_function(&run->module->arena, f->base.span, f->type_params, f->params.n,
                                f->params.at, f->attrs, f->ret_type, body)
                : NULL;
}

const Pass pass_manifest_lifetimes = {
    .name = "ManifestLifetimes",
    .doc = "Says where values are needed for the last time.",
    .opt_level = 0,
    .needs_types = true,
    .function = end_lifetimes,
};
