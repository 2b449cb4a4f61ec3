/* Recursive functions that hand matrices on to themselves. */
#include "passes/vjp.h"

#include "passes/facts.h"

#include <string.h>

/* What is found out about a definition. */
typedef struct Look {
    const Def *def;
    bool *same; /* a parameter is handed on as it came */
    bool value; /* the definition is used other than in calls, or called otherwise */
    bool multiplies; /* by a matrix that is handed on */
    PtrMap matrices; /* Var */
} Look;

static bool names(const Look *l, const Expr *e)
{
    const GlobalVar *g = expr_as_global(e);
    return g && g->name == l->def->name;
}

typedef struct Uses {
    Look *look;
    const Call *of;
} Uses;

static void note_value(void *data, Expr *const *slot)
{
    const Uses *u = data;
    bool called = u->of && slot == &u->of->callee && u->of->args.n == u->look->def->fn->params.n;
    u->look->value |= names(u->look, *slot) && !called;
}

static WalkNext note_calls(void *data, const Expr *e)
{
    Look *l = data;
    const Call *call = expr_as_call(e);
    ir_children(e, note_value, &(Uses){l, call});
    for (uint32_t i = 0; call && !l->value && names(l, call->callee) && i < call->args.n; i++)
        l->same[i] &= call->args.at[i] == &l->def->fn->params.at[i]->base;
    return WALK_ON;
}

static void note_matrix(void *data, Var *var)
{
    ptrmap_put(data, var, NULL);
}

static WalkNext note_products(void *data, const Expr *e)
{
    Look *l = data;
    const Op *op = expr_call_of_op(e);
    bool product = op && (!strcmp(op->name, "nn.dense") || !strcmp(op->name, "nn.matmul"));
    l->multiplies |= product && ptrmap_has(&l->matrices, expr_as_call(e)->args.at[1]);
    return l->multiplies ? WALK_STOP : WALK_ON;
}

/* `match (%p) { C(%w, …) => … }` as a whole, of a parameter that is handed on: taken apart once, it gives the same every time. */
static const Match *opening(const Function *f, const bool *same)
{
    const Match *m = expr_as_match(f->body);
    bool one = m && m->clauses.n == 1 && m->complete;
    for (uint32_t i = 0; one && i < f->params.n; i++)
        if (m->scrutinee == &f->params.at[i]->base)
            return same[i] ? m : NULL;
    return NULL;
}

bool loop_find(Vjp *v, const Def *def, Loop *out)
{
    const Function *f = def->fn;
    Look l = {.def = def,
              .same = arena_alloc_must(v->make.scratch, f->params.n + 1, sizeof *l.same)};
    memset(l.same, true, f->params.n);
    ir_walk(&f->base, note_calls, NULL, &l);
    const Match *m = l.value ? NULL : opening(f, l.same);
    if (m)
        ir_binders(&m->base, note_matrix, &l.matrices);
    for (uint32_t i = 0; !l.value && i < f->params.n; i++)
        if (l.same[i])
            ptrmap_put(&l.matrices, f->params.at[i], NULL);
    if (l.matrices.n)
        ir_walk(&f->base, note_products, NULL, &l);
    ptrmap_deinit(&l.matrices);
    *out = (Loop){def, l.same};
    return l.multiplies;
}

static Expr *call_inside(Vjp *v, Span at, const Loop *loop, Var *self, Expr *const *args)
{
    uint32_t n = loop->def->fn->params.n, kept = 0;
    Expr **left = arena_alloc_must(v->make.scratch, n + 1, sizeof *left);
    for (uint32_t i = 0; i < n; i++)
        if (!loop->outside[i])
            left[kept++] = args[i];
    return expr_call(v->make.arena, at, &self->base, kept, left, NULL);
}

typedef struct Calls {
    Vjp *v;
    const Loop *loop;
    Var *self;
} Calls;

static Expr *put_call(Rewriter *rw, const Expr *old, Expr *now)
{
    (void)old;
    const Calls *c = rw->data;
    const Call *call = expr_as_call(now);
    const GlobalVar *g = call ? expr_as_global(call->callee) : NULL;
    return g && g->name == c->loop->def->name
               ? call_inside(c->v, now->span, c->loop, c->self, call->args.at)
               : now;
}

Expr *loop_inside(Vjp *v, const Loop *loop, const Call *call)
{
    Arena *arena = v->make.arena;
    Span at = call->base.span;
    const Function *was = loop->def->fn;
    uint32_t n = was->params.n, kept = 0;
    Calls calls = {v, loop, expr_var(arena, at, loop->def->name, NULL)};
    Rewriter rw;
    rewriter_init(&rw, v->cx, v->call->module, put_call, &calls);
    Expr *copy = ir_copy(v->cx, v->call->module, &was->base);
    const Function *f = copy ? expr_as_function(ir_rewrite(&rw, copy)) : NULL;
    rewriter_deinit(&rw);
    if (!f)
        return NULL;
    Var **params = arena_alloc_must(v->make.scratch, n + 1, sizeof *params);
    Expr **args = arena_alloc_must(v->make.scratch, n + 1, sizeof *args);
    for (uint32_t i = 0; i < n; i++) {
        f->params.at[i]->annotation = type_resolve(v->cx, was->params.at[i]->base.type);
        args[i] = &f->params.at[i]->base;
        if (!loop->outside[i]) {
            params[kept++] = f->params.at[i];
            args[i] = &expr_var(arena, at, f->params.at[i]->name, NULL)->base;
        }
    }
    const Match *m = opening(f, loop->outside);
    const Expr *body = m ? m->clauses.at[0].body : f->body;
    Function *inner =
        expr_function(arena, at, (TypeVarList){0}, kept, params, NULL,
                      type_resolve(v->cx, was->base.type)->result, (Expr *)(uintptr_t)body);
    Expr *e =
        expr_let(arena, at, calls.self, &inner->base, call_inside(v, at, loop, calls.self, args));
    if (m) {
        Clause clause = m->clauses.at[0];
        clause.body = e;
        e = expr_match(arena, at, m->scrutinee, 1, &clause, true);
    }
    for (uint32_t i = n; i-- > 0;)
        e = expr_let(arena, at, expr_as_var(args[i]), call->args.at[i], e);
    return e;
}
