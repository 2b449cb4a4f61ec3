/* Removes `let`s whose variable is not used and whose value has no effect.
 *
 *     let %a = %x + 1; let %b = %a * 2; let %c = %x * 3; %b      becomes      let %a = add(%x, 1); let %b = multiply(%a, 2); %b
 *     with inline_once                                           becomes      multiply(add(%x, 1), 2)
 *
 * A use in a value that is itself dead does not count, one in a value that is used twice counts twice. With inline_once a use inside a function literal counts twice, so that nothing
 * moves into one. */
#include "passes/facts.h"
#include "passes/pass.h"

typedef struct Work {
    const Expr *e;
    int depth;              /* function literals around it */
} Work;

typedef struct Dead {
    Purity purity;
    bool ignore_impurity, inline_once;
    Arena arena;
    Vec(Work) todo;
    PtrMap seen;            /* nodes that count */
    PtrMap lets;            /* Var -> Let */
    PtrMap level;           /* Var -> function literals around its `let`, plus one */
    PtrMap uses;            /* Var -> how often it is used by what counts */
    PtrMap again; /* nodes in values that are used twice */
    int depth;
} Dead;

static bool is_pure(Dead *d, const Expr *e)
{
    return d->ignore_impurity || purity_of(&d->purity, e);
}

static void push(Dead *d, const Expr *e, int depth)
{
    if (e->kind != EXPR_VAR && ptrmap_has(&d->seen, e))
        return;
    ptrmap_put(&d->seen, e, NULL);
    vec_push(&d->todo, &d->arena, ((Work){e, depth}));
}

static void push_child(void *data, Expr *const *slot)
{
    Dead *d = data;
    push(d, *slot, d->depth);
}

static void use_var(Dead *d, const Expr *var, int depth)
{
    size_t uses = (size_t)(uintptr_t)ptrmap_find(&d->uses, var);
    const Let *let = ptrmap_find(&d->lets, var);
    int home = (int)(uintptr_t)ptrmap_find(&d->level, var) - 1;
    ptrmap_put(&d->uses, var, (void *)(uintptr_t)(uses + (let && depth > home ? 2 : 1)));
    if (let && uses == 0)
        push(d, let->value, home);
}

static void count(Dead *d, Work w)
{
    const Let *let = expr_as_let(w.e);
    const Function *f = expr_as_function(w.e);
    if (w.e->kind == EXPR_VAR) {
        use_var(d, w.e, w.depth);
        return;
    }
    d->depth = w.depth + (f ? 1 : 0);
    if (!let) {
        ir_children(w.e, push_child, d);
        return;
    }
    ptrmap_put(&d->lets, let->var, (void *)(uintptr_t)let);
    ptrmap_put(&d->level, let->var, (void *)(uintptr_t)(w.depth + 1));
    if (!is_pure(d, let->value) || ptrmap_has(&d->uses, let->var))
        push(d, let->value, w.depth);
    push(d, let->body, w.depth);
}

static void use_again(void *data, const Expr *var)
{
    Dead *d = data;
    if ((uintptr_t)ptrmap_find(&d->uses, var) == 1) {
        ptrmap_put(&d->uses, var, (void *)(uintptr_t)2);
        push(d, var, 0);
    }
}

static WalkNext use_twice(void *data, const Expr *e)
{
    Dead *d = data;
    if (ptrmap_has(&d->again, e))
        return WALK_SKIP;
    ptrmap_put(&d->again, e, NULL);
    if (e->kind == EXPR_VAR)
        use_again(d, e);
    return WALK_ON;
}

/* What a value uses that is itself used twice counts twice. */
static void count_again(Dead *d)
{
    for (size_t i = 0; i < d->uses.n; i++)
        if ((uintptr_t)d->uses.entries[i].value > 1)
            vec_push(&d->todo, &d->arena, ((Work){d->uses.entries[i].key, 0}));
    while (d->todo.n) {
        const Let *let = ptrmap_find(&d->lets, vec_pop(&d->todo).e);
        if (let)
            ir_walk(let->value, use_twice, NULL, d);
    }
}

static bool is_dead(Dead *d, const Let *let)
{
    return !ptrmap_has(&d->uses, let->var) && is_pure(d, let->value);
}

static bool is_inlined(Dead *d, const Let *let)
{
    return d->inline_once && (uintptr_t)ptrmap_find(&d->uses, let->var) == 1 &&
           is_pure(d, let->value);
}

static Expr *drop(Rewriter *rw, const Expr *old, Expr *now)
{
    Dead *d = rw->data;
    const Let *let = expr_as_let(old);
    if (let && (is_dead(d, let) || is_inlined(d, let)))
        return expr_as_let(now)->body;
    const Let *bound = old->kind == EXPR_VAR ? ptrmap_find(&d->lets, old) : NULL;
    Expr *value = bound && is_inlined(d, bound) ? ptrmap_find(&rw->done, bound->value) : NULL;
    return value ? value : now;
}

static Function *eliminate(PassRun *run, const Def *def)
{
    Dead d = {.ignore_impurity = attrs_bool(run->params, "ignore_impurity"),
              .inline_once = attrs_bool(run->params, "inline_once")};
    Rewriter rw;
    arena_init(&d.arena, NULL);
    purity_init(&d.purity, run->module, run->context->env, &def->fn->base);
    push(&d, def->fn->body, 0);
    while (d.todo.n)
        count(&d, vec_pop(&d.todo));
    if (d.inline_once)
        count_again(&d);
    rewriter_init(&rw, run->cx, run->module, drop, &d);
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    purity_deinit(&d.purity);
    ptrmap_deinit(&d.seen);
    ptrmap_deinit(&d.lets);
    ptrmap_deinit(&d.level);
    ptrmap_deinit(&d.uses);
    ptrmap_deinit(&d.again);
    arena_deinit(&d.arena);
    return expr_as_function(now);
}

static const OpAttr params[] = {
    {"inline_once", ATTR_TYPE_BOOL, .otherwise = ATTR_DEFAULT_BOOL(false),
     .doc = "puts values that are used once in place of their variable"},
    {"ignore_impurity", ATTR_TYPE_BOOL, .otherwise = ATTR_DEFAULT_BOOL(false),
     .doc = "takes every value for free of effects"},
    {0},
};

const Pass pass_dead_code_elimination = {
    .name = "DeadCodeElimination",
    .doc = "Removes values that nothing uses and that have no effect.",
    .opt_level = 1,
    .needs_types = true,
    .params = params,
    .function = eliminate,
};
