/* Makes kernels that go through the same elements one, with several results.
 *
 *     let %m = fn (%p0, %p1, Primitive=1) { add(multiply(0.9f, %p0), %p1) }(%m0, %g);
 *     let %w = fn (%p0, %p1, Primitive=1) { subtract(%p0, %p1) }(%w0, %m);
 *     (%w, %m)
 *  => let %x = fn (%p0, %p1, %p2, Primitive=1) { let %0 = add(multiply(0.9f, %p0), %p1); (%0, subtract(%p2, %0)) }(%m0, %g, %w0);
 *     (%x.1, %x.0)
 *
 * A group of FuseOps has one result, so what two of them read comes from memory twice. Here what one makes the other has at hand. A kernel
 * joins at the place of the first, where all that it reads is there already; the step of an optimiser, or of a recurrence with several
 * states, becomes one loop. */
#include "passes/facts.h"
#include "passes/lets.h"
#include "passes/to_a_normal_form.h"
#include "passes/types.h"

#include "ir/op.h"

#include <string.h>

enum {
    TENSORS_MOST = 16, /* that one kernel reads and makes: processors bring about so many at once */
    CALLS_MOST =
        256, /* in one kernel, as in a group of FuseOps: scheduling takes more than its length */
    GROUPS_OPEN = 8, /* that a kernel may still join */
};

typedef struct Group {
    size_t at; /* the binding of its first member */
    const Type *type;
    size_t calls; /* of operators in its members */
    Vec(size_t) members;
    PtrMap own; /* variables of the members */
    PtrMap reads; /* what they read besides -> its parameter */
    Vec(Var *) params;
    Vec(Expr *) args;
} Group;

typedef struct Joining {
    PassRun *run;
    Places uses; /* of each variable, in the whole function */
    PtrMap inner; /* `let`s that are the body of another */
    PtrMap maps; /* kernels that may join -> how many operators they call */
    PtrMap functions; /* Var -> the one that it is bound to */
    Totality totality;
    bool any; /* some were joined */
} Joining;

/* ---- kernels that may join ----------------------------------------------------------------------------------------------------- */

static WalkNext look_for_other(void *data, const Expr *e)
{
    size_t *calls = data;
    const Op *op = expr_call_of_op(e);
    const Type *t = e->type ? type_find(e->type) : NULL;
    *calls += op != NULL;
    if (e->kind == EXPR_CALL && (!op || op->pattern > OP_BROADCAST || !t || !type_is_static(t)))
        return WALK_STOP;
    return e->kind == EXPR_LET || e->kind == EXPR_TUPLE ? WALK_STOP : WALK_ON;
}

/* How many operators the kernel calls; 0: it does not compute each element of one tensor by itself, or can fail. One that says more of
 * itself, as for whom it is compiled, stays as it is. */
static size_t calls_of_map(Joining *j, const Function *f)
{
    size_t calls = 0;
    const Type *t = f->body->type ? type_find(f->body->type) : NULL;
    bool is = function_is_primitive(f) && f->attrs->n == 1 && t && t->kind == TYPE_TENSOR &&
              t->n > 0 && f->body->kind == EXPR_CALL && type_is_static(t) &&
              ir_walk(f->body, look_for_other, NULL, &calls) && total_of(&j->totality, f->body);
    return is ? calls : 0;
}

static WalkNext note_map(void *data, const Expr *e)
{
    Joining *j = data;
    const Function *f = expr_as_function(e);
    size_t calls = f ? calls_of_map(j, f) : 0;
    if (calls > 0)
        ptrmap_put(&j->maps, f, (void *)(uintptr_t)calls);
    return f && function_is_primitive(f) ? WALK_SKIP : WALK_ON;
}

/* What the call calls, where it is a kernel that may join. */
static const Function *kernel_of(const Joining *j, const Expr *e)
{
    const Call *call = expr_as_call(e);
    return call ? ptrmap_find(&j->functions, call->callee) : NULL;
}

static WalkNext note_let(void *data, const Expr *e)
{
    Joining *j = data;
    const Let *let = expr_as_let(e);
    Function *f = let ? expr_as_function(let->value) : expr_as_function(e);
    if (let && let->body->kind == EXPR_LET)
        ptrmap_put(&j->inner, let->body, j);
    if (let && f && ptrmap_has(&j->maps, f))
        ptrmap_put(&j->functions, let->var, f);
    return !let && f && function_is_primitive(f) ? WALK_SKIP : WALK_ON;
}

static size_t calls_in(const Joining *j, const Function *f)
{
    return (uintptr_t)ptrmap_find(&j->maps, f);
}

/* ---- groups -------------------------------------------------------------------------------------------------------------------- */

/* A chain of `let`s. */
typedef struct Chain {
    Joining *j;
    Arena *scratch;
    Vec(LetBinding) lets;
    PtrMap at; /* Var -> its number + 1 */
    Vec(Group *) groups;
    Group **of; /* by binding: whose member it is */
    PtrMap dropped; /* Var of a kernel -> how many of its calls became others */
} Chain;

/* Whether the tensor is there at the group's place, or made by it. */
static bool is_there(const Chain *c, const Group *g, const Expr *arg)
{
    return ptrmap_has(&g->own, arg) || (uintptr_t)ptrmap_find(&c->at, arg) <= g->at;
}

static bool fits(size_t tensors, size_t calls)
{
    return tensors <= TENSORS_MOST && calls <= CALLS_MOST;
}

/* Whether all that the call reads is there, and something of it is what the group has. */
static bool may_join(const Chain *c, const Group *g, const Call *call)
{
    size_t more = 1, calls = g->calls + calls_in(c->j, kernel_of(c->j, &call->base));
    bool shares = false, there = true;
    for (uint32_t i = 0; i < call->args.n && there; i++) {
        const Expr *arg = call->args.at[i];
        bool own = ptrmap_has(&g->own, arg), read = ptrmap_has(&g->reads, arg);
        there = is_there(c, g, arg);
        shares |= own || (read && arg->kind == EXPR_VAR);
        more += !own && !read;
    }
    return there && shares && fits(g->members.n + g->params.n + more, calls);
}

static void join(Chain *c, Group *g, size_t number)
{
    Ctx *cx = c->j->run->cx;
    const Call *call = expr_as_call(c->lets.at[number].value);
    const Function *f = kernel_of(c->j, &call->base);
    for (uint32_t i = 0; i < call->args.n; i++) {
        Expr *arg = call->args.at[i];
        if (ptrmap_has(&g->own, arg) || ptrmap_has(&g->reads, arg))
            continue;
        Buf name = {0};
        buf_printf(&name, "p%zu", g->params.n);
        Var *v = expr_var(&c->j->run->module->arena, arg->span, ctx_name(cx, buf_text(&name)),
                          f->params.at[i]->base.type);
        buf_deinit(&name);
        vec_push(&g->params, c->scratch, v);
        vec_push(&g->args, c->scratch, arg);
        ptrmap_put(&g->reads, arg, v);
    }
    vec_push(&g->members, c->scratch, number);
    ptrmap_put(&g->own, c->lets.at[number].var, g);
    g->calls += calls_in(c->j, f);
    c->of[number] = g;
}

/* What the call reads of two groups makes one of them, at the place of the first. */
static void merge_groups(Chain *c, const Call *call)
{
    Group *first = NULL;
    for (uint32_t i = 0; i < call->args.n; i++) {
        uintptr_t at = (uintptr_t)ptrmap_find(&c->at, call->args.at[i]);
        Group *g = at ? c->of[at - 1] : NULL;
        if (!g || g == first)
            continue;
        Group *later = first && first->at > g->at ? first : g;
        first = first && first->at < g->at ? first : g;
        size_t tensors = first->members.n + first->params.n + later->members.n + later->params.n;
        bool may = later != first && types_same_shape(first->type, later->type) &&
                   fits(tensors, first->calls + later->calls);
        for (size_t k = 0; k < later->args.n && may; k++)
            may = is_there(c, first, later->args.at[k]);
        for (size_t k = 0; k < later->members.n && may; k++)
            join(c, first, later->members.at[k]);
        later->members.n = may ? 0 : later->members.n;
    }
}

static void find_groups(Chain *c)
{
    c->of = arena_alloc_must(c->scratch, c->lets.n + 1, sizeof *c->of);
    memset(c->of, 0, (c->lets.n + 1) * sizeof *c->of);
    for (size_t i = 0; i < c->lets.n && !limit_hit(&c->j->run->cx->limits); i++) {
        const Function *f = kernel_of(c->j, c->lets.at[i].value);
        if (!f)
            continue;
        const Call *call = expr_as_call(c->lets.at[i].value);
        const Type *t = type_find(f->body->type);
        Group *g = NULL;
        merge_groups(c, call);
        for (size_t k = c->groups.n; k-- > 0 && k + GROUPS_OPEN >= c->groups.n && !g;)
            if (types_same_shape(c->groups.at[k]->type, t) && c->groups.at[k]->members.n > 0 &&
                may_join(c, c->groups.at[k], call))
                g = c->groups.at[k];
        if (!g) {
            g = arena_new(c->scratch, Group);
            *g = (Group){.at = i, .type = t};
            vec_push(&c->groups, c->scratch, g);
        }
        join(c, g, i);
    }
}

/* ---- the joint kernel ---------------------------------------------------------------------------------------------------------- */

/* Whether something besides the group's members reads the variable. */
static bool is_read_outside(const Chain *c, const Group *g, const Var *v)
{
    uintptr_t inside = 0;
    for (size_t i = 0; i < g->members.n; i++) {
        const Call *call = expr_as_call(c->lets.at[g->members.at[i]].value);
        for (uint32_t k = 0; k < call->args.n; k++)
            inside += call->args.at[k] == &v->base;
    }
    return times_used(&c->j->uses, &v->base) > inside;
}

/* The members' values over the parameters of the joint kernel; false where a limit is hit. */
static bool member_values(Chain *c, const Group *g, Expr **values)
{
    PassRun *run = c->j->run;
    PtrMap made = {0};
    bool ok = true;
    for (size_t i = 0; i < g->members.n && ok; i++) {
        const LetBinding *b = &c->lets.at[g->members.at[i]];
        const Call *call = expr_as_call(b->value);
        const Function *f = kernel_of(c->j, b->value);
        PtrMap map = {0};
        for (uint32_t k = 0; k < call->args.n; k++) {
            Expr *own = ptrmap_find(&made, call->args.at[k]);
            Var *param = own ? NULL : ptrmap_find(&g->reads, call->args.at[k]);
            ptrmap_put(&map, f->params.at[k], own ? own : &param->base);
        }
        values[i] = ir_substitute(run->cx, run->module, f->body, &map);
        ptrmap_deinit(&map);
        ok = values[i] != NULL;
        ptrmap_put(&made, b->var, values[i]);
    }
    ptrmap_deinit(&made);
    return ok;
}

/* Puts the group's bindings behind those in `out`. */
static bool make_joint(Chain *c, const Group *g, Lets *out)
{
    PassRun *run = c->j->run;
    Arena *arena = &run->module->arena;
    Expr **values = arena_alloc_must(c->scratch, g->members.n, sizeof *values);
    Expr **results = arena_alloc_must(c->scratch, g->members.n, sizeof *results);
    Var **vars = arena_alloc_must(c->scratch, g->members.n, sizeof *vars);
    uint32_t n = 0;
    if (!member_values(c, g, values))
        return false;
    for (size_t i = 0; i < g->members.n; i++) {
        Var *v = c->lets.at[g->members.at[i]].var;
        if (!is_read_outside(c, g, v))
            continue;
        vars[n] = v;
        results[n++] = values[i];
    }
    if (n == 0)
        return true;
    Span span = c->lets.at[g->at].value->span;
    Expr *body = n == 1 ? results[0] : expr_tuple(arena, span, n, results);
    const Attrs *attrs =
        attrs_with(arena, NULL, "Primitive", (AttrValue){.kind = ATTR_INT, .i = 1});
    Function *f = expr_function(arena, span, (TypeVarList){0}, (uint32_t)g->params.n, g->params.at,
                                attrs, NULL, body);
    Expr *call = expr_call(arena, span, &f->base, (uint32_t)g->args.n, g->args.at, NULL);
    Var *all = n == 1 ? vars[0] : expr_var(arena, span, ctx_name(run->cx, "x"), NULL);
    lets_bind(out, all, call);
    for (uint32_t i = 0; i < n && n > 1; i++)
        lets_bind(out, vars[i], expr_tuple_get(arena, span, &all->base, i));
    return true;
}

/* ---- chains -------------------------------------------------------------------------------------------------------------------- */

static Expr *read_chain(Chain *c, Expr *e)
{
    for (Let *let; (let = expr_as_let(e)) != NULL; e = let->body) {
        vec_push(&c->lets, c->scratch, ((LetBinding){.var = let->var, .value = let->value}));
        ptrmap_put(&c->at, let->var, (void *)(uintptr_t)c->lets.n);
    }
    return e;
}

/* Kernels whose calls are all in joint ones are not kept. */
static void note_dropped(Chain *c, const Group *g)
{
    for (size_t i = 0; i < g->members.n; i++) {
        const Call *call = expr_as_call(c->lets.at[g->members.at[i]].value);
        uintptr_t so_far = (uintptr_t)ptrmap_find(&c->dropped, call->callee);
        ptrmap_put(&c->dropped, call->callee, (void *)(so_far + 1));
    }
}

static bool is_dropped(const Chain *c, const Var *v)
{
    uintptr_t calls = (uintptr_t)ptrmap_find(&c->dropped, v);
    return calls > 0 && calls == times_used(&c->j->uses, &v->base);
}

/* The chain with joint kernels; the same where there are none, NULL where a limit is hit. */
static Expr *join_chain(Chain *c, Expr *head)
{
    LetMaker make = {c->j->run->cx, &c->j->run->module->arena, c->scratch, head->span,
                     .numbers = 0};
    Lets out = {.make = &make};
    Expr *body = read_chain(c, head);
    bool any = false, ok = true;
    find_groups(c);
    for (size_t i = 0; i < c->groups.n; i++)
        if (c->groups.at[i]->members.n > 1) {
            note_dropped(c, c->groups.at[i]);
            any = true;
        }
    if (!any)
        return head;
    for (size_t i = 0; i < c->lets.n && ok; i++) {
        const Group *g = c->of[i];
        if (g && g->members.n > 1)
            ok = g->at != i || make_joint(c, g, &out);
        else if (!is_dropped(c, c->lets.at[i].var))
            lets_bind(&out, c->lets.at[i].var, c->lets.at[i].value);
    }
    c->j->any = true;
    return ok ? lets_close(&out, body) : NULL;
}

static Expr *at_head(Rewriter *rw, const Expr *old, Expr *now)
{
    Joining *j = rw->data;
    if (old->kind != EXPR_LET || ptrmap_has(&j->inner, old))
        return now;
    Chain c = {.j = j, .scratch = &j->run->scratch};
    Expr *made = join_chain(&c, now);
    for (size_t i = 0; i < c.groups.n; i++) {
        ptrmap_deinit(&c.groups.at[i]->own);
        ptrmap_deinit(&c.groups.at[i]->reads);
    }
    ptrmap_deinit(&c.at);
    ptrmap_deinit(&c.dropped);
    return made;
}

static Function *join_kernels(PassRun *run, const Def *def)
{
    Joining j = {.run = run, .totality = {.cx = run->cx, .data = true}};
    Rewriter rw;
    if (run->context->for_card || function_is_primitive(def->fn))
        return def->fn;
    ir_walk(&def->fn->base, note_map, NULL, &j);
    bool several = j.maps.n > 1;
    Expr *e = several ? to_anf(run->cx, run->module, &def->fn->base) : &def->fn->base;
    Expr *now = e;
    if (e && several) {
        ir_walk(e, note_let, NULL, &j);
        count_uses(e, &run->scratch, &j.uses);
        rewriter_init(&rw, run->cx, run->module, at_head, &j);
        rw.enter = enter_past_kernel;
        now = ir_rewrite(&rw, e);
        rewriter_deinit(&rw);
    }
    totality_deinit(&j.totality);
    ptrmap_deinit(&j.inner);
    ptrmap_deinit(&j.maps);
    ptrmap_deinit(&j.functions);
    return !now ? NULL : j.any ? expr_as_function(now) : def->fn;
}

const Pass pass_join_kernels = {
    .name = "JoinKernels",
    .doc = "Makes kernels that go through the same elements one, with several results.",
    .opt_level = 2,
    .needs_types = true,
    .function = join_kernels,
};
