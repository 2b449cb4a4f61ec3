/* Removes `let`s whose variable is not used and whose value has no effect.
 *
 *     let %a = %x + 1; let %b = %a * 2; let %c = %x * 3; %b      becomes      let %a = add(%x, 1); let %b = multiply(%a, 2); %b
 *     with inline_once                                           becomes      multiply(add(%x, 1), 2)
 *
 * A use in a value that is itself dead does not count. A use in a function literal of what is bound outside counts twice, so that nothing
 * moves into one; so does a use in what several places share. A value that does not say its type, as `Nil`, stays with the variable,
 * whose type is written. */
#include "passes/facts.h"
#include "passes/pass.h"
#include "passes/types.h"

typedef struct Work {
    const Expr *e;
    int depth;              /* function literals around it */
} Work;

typedef struct Dead {
    PassRun *run;
    Purity purity;
    Vagueness vague;
    bool ignore_impurity, inline_once;
    Arena arena;
    Vec(Work) todo;
    PtrMap visits; /* node that counts -> how often it was looked at, at most twice */
    PtrMap lets;   /* Var -> Let */
    PtrMap level;  /* Var -> function literals around its `let`, plus one */
    PtrMap uses;   /* Var -> how often it is used by what counts */
    PtrMap recursive; /* Var that its own value uses, if only where that is dead: it stays */
    PtrMap calls;  /* node -> how deep calls nest in it */
    int depth;
} Dead;

/* Calls that nest deeper are taken for effects: what is that large is hardly unused. */
#define CALLS_MOST 25

typedef struct Deepest {
    const Dead *d;
    uintptr_t calls;
} Deepest;

static void find_deepest(void *data, Expr *const *slot)
{
    Deepest *deepest = data;
    uintptr_t calls = (uintptr_t)ptrmap_find(&deepest->d->calls, *slot);
    deepest->calls = calls > deepest->calls ? calls : deepest->calls;
}

static WalkNext count_calls(void *data, const Expr *e)
{
    Dead *d = data;
    Deepest deepest = {d, 0};
    ir_children(e, find_deepest, &deepest);
    deepest.calls += e->kind == EXPR_CALL;
    if (deepest.calls)
        ptrmap_put(&d->calls, e, (void *)deepest.calls);
    return WALK_ON;
}

static bool is_pure(Dead *d, const Expr *e)
{
    return d->ignore_impurity ||
           ((uintptr_t)ptrmap_find(&d->calls, e) <= CALLS_MOST && purity_of(&d->purity, e));
}

static void push(Dead *d, const Expr *e, int depth)
{
    vec_push(&d->todo, &d->arena, ((Work){e, depth}));
}

static void push_child(void *data, Expr *const *slot)
{
    Dead *d = data;
    push(d, *slot, d->depth);
}

/* The value counts from the first use on, and as if it stood there. */
static void use_var(Dead *d, const Expr *var, int depth)
{
    size_t uses = (size_t)(uintptr_t)ptrmap_find(&d->uses, var);
    const Let *let = ptrmap_find(&d->lets, var);
    if (!let)
        return;
    int home = (int)(uintptr_t)ptrmap_find(&d->level, var) - 1;
    ptrmap_put(&d->uses, var, (void *)(uintptr_t)(uses + (depth > home ? 2 : 1)));
    if (uses == 0 && is_pure(d, let->value))
        push(d, let->value, depth);
}

static void count_let(Dead *d, const Let *let, int depth)
{
    ptrmap_put(&d->lets, let->var, (void *)(uintptr_t)let);
    ptrmap_put(&d->level, let->var, (void *)(uintptr_t)(depth + 1));
    push(d, let->body, depth);
    if (!is_pure(d, let->value))
        push(d, let->value, depth);
}

static void count(Dead *d, Work w)
{
    if (w.e->kind == EXPR_VAR) {
        use_var(d, w.e, w.depth);
        return;
    }
    void **visits = ptrmap_slot(&d->visits, w.e);
    if (!visits || (uintptr_t)*visits == 2)
        return;
    *visits = (void *)((uintptr_t)*visits + 1);
    if (w.e->kind == EXPR_LET) {
        count_let(d, expr_as_let(w.e), w.depth);
        return;
    }
    d->depth = w.depth + (w.e->kind == EXPR_FUNCTION);
    size_t first = d->todo.n;
    ir_children(w.e, push_child, d);
    for (size_t i = first, k = d->todo.n; i + 1 < k; i++) {
        Work last = d->todo.at[--k];
        d->todo.at[k] = d->todo.at[i];
        d->todo.at[i] = last;
    }
}

static uintptr_t uses_of(const Dead *d, const Let *let)
{
    return (uintptr_t)ptrmap_find(&d->uses, let->var);
}

static bool is_dead(Dead *d, const Let *let)
{
    return uses_of(d, let) == 0 && is_pure(d, let->value);
}

static bool is_inlined(Dead *d, const Let *let)
{
    return d->inline_once && uses_of(d, let) == 1 && !ptrmap_has(&d->recursive, let->var) &&
           is_pure(d, let->value) && !vague_of(&d->vague, let->value) &&
           types_as_it_is(d->run->cx, let->value->type, let->var->base.type);
}

enum { RULE_DEAD, RULE_EFFECT, RULE_INLINED };

static const PassRule rules[] = {
    [RULE_DEAD] = {"dead", "{with} goes: nothing that counts uses it"},
    [RULE_EFFECT] = {"effect", "{with} is not used and stays: its value may have an effect"},
    [RULE_INLINED] = {"inlined", "{with} is used once: its value stands there instead"},
    {0},
};

static void tell(Dead *d, const Let *let)
{
    int rule = is_dead(d, let) ? RULE_DEAD : is_inlined(d, let) ? RULE_INLINED : RULE_EFFECT;
    if (rule != RULE_EFFECT || uses_of(d, let) == 0)
        pass_decides(d->run,
                     (PassEvent){.rule = &rules[rule], .at = let->value, .with = &let->var->base});
}

static Expr *drop(Rewriter *rw, const Expr *old, Expr *now)
{
    Dead *d = rw->data;
    const Let *let = expr_as_let(old);
    if (let && d->run->context->decided)
        tell(d, let);
    if (let && (is_dead(d, let) || is_inlined(d, let)))
        return expr_as_let(now)->body;
    const Let *bound = old->kind == EXPR_VAR ? ptrmap_find(&d->lets, old) : NULL;
    if (!bound || !is_inlined(d, bound))
        return now;
    Expr *value = rewriter_now(rw, bound->value);
    if (value)
        return value;
    ptrmap_put(&d->recursive, old, NULL); /* it comes before its value is made */
    return now;
}

static Function *eliminate(PassRun *run, const Def *def)
{
    Dead d = {.run = run,
              .vague = {.cx = run->cx, .module = run->module, .env = run->context->env},
              .ignore_impurity = attrs_bool(run->params, "ignore_impurity"),
              .inline_once = attrs_bool(run->params, "inline_once")};
    Rewriter rw;
    arena_init(&d.arena, NULL);
    purity_init(&d.purity, run->module, run->context->env, &def->fn->base);
    ir_walk(&def->fn->base, NULL, count_calls, &d);
    push(&d, def->fn->body, 0);
    while (d.todo.n)
        count(&d, vec_pop(&d.todo));
    pass_rewriter_init(&rw, run, drop, &d);
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    purity_deinit(&d.purity);
    vagueness_deinit(&d.vague);
    PtrMap *maps[] = {&d.visits, &d.lets, &d.level, &d.uses, &d.recursive, &d.calls};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        ptrmap_deinit(maps[i]);
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
    .rules = rules,
    .function = eliminate,
};
