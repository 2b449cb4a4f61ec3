/* Smaller programs with the same fault: each node in turn is replaced by one of its children, by
 * another node of the same type below it, or by the least value of its type. */
#include "tests/random/examine.h"

#include "ir/walk.h"

#include <string.h>

typedef struct Change {
    const Expr *at;
    Expr *with;
} Change;

static Expr *replace(Rewriter *rw, const Expr *old, Expr *now)
{
    const Change *c = rw->data;
    return old == c->at ? c->with : now;
}

/* ---- what can stand instead */

typedef Vec(const Expr *) Exprs;

static WalkNext collect(void *data, const Expr *e)
{
    struct {
        Exprs *list;
        Arena *arena;
    } *to = data;
    vec_push(to->list, to->arena, e);
    return WALK_ON;
}

static Exprs nodes_below(const Expr *root, Arena *arena)
{
    Exprs all = {0};
    struct {
        Exprs *list;
        Arena *arena;
    } to = {&all, arena};
    ir_walk(root, collect, NULL, &to);
    return all;
}

/* Zeros of the type, for tensors without unknown extents. */
static Expr *zero_of(Arena *arena, const Type *t)
{
    if (!t || t->kind != TYPE_TENSOR)
        return NULL;
    for (uint32_t i = 0; i < t->n; i++)
        if (t->dims[i] < 0)
            return NULL;
    Value zeros = value_tensor(tensor_new(NULL, t->dtype, (int32_t)t->n, t->dims));
    Expr *e = expr_constant(arena, (Span){0}, zeros);
    value_release(zeros);
    return e;
}

/* ---- candidates */

typedef struct Shrinker {
    Examiner *x;
    const char *property;
    Module *best; /* typed, with the fault */
    size_t tried;
} Shrinker;

static size_t size_of(const Module *m)
{
    Arena arena;
    size_t n = 0;
    arena_init(&arena, NULL);
    for (size_t i = 0; i < m->defs.n; i++)
        if (m->defs.at[i].fn)
            n += 1 + nodes_below(&m->defs.at[i].fn->base, &arena).n;
    if (m->expr)
        n += nodes_below(m->expr, &arena).n;
    arena_deinit(&arena);
    return n + m->types.n;
}

/* The best module with a change (or none) and without one definition, as a new one without types. */
static Module *candidate(Shrinker *s, Change c, const Name *without)
{
    Ctx *cx = &s->x->cx;
    Module *changed = module_new(cx), *m = module_new(cx);
    Rewriter rw;
    module_use(changed, s->best);
    rewriter_init(&rw, cx, changed, replace, &c);
    for (size_t i = 0; i < s->best->types.n; i++)
        module_define_type(m, s->best->types.at[i]);
    for (size_t i = 0; i < s->best->defs.n; i++) {
        const Def *d = &s->best->defs.at[i];
        if (!d->fn || d->name == without)
            continue;
        Expr *now = ir_rewrite(&rw, &d->fn->base);
        now = now ? ir_copy(cx, m, now) : NULL;
        if (expr_as_function(now))
            module_define(m, d->name, expr_as_function(now), d->span, m);
    }
    for (size_t i = 0; i < s->best->free_vars.n; i++)
        vec_push(&m->free_vars, &m->arena, s->best->free_vars.at[i]);
    Expr *expr = s->best->expr ? ir_rewrite(&rw, s->best->expr) : NULL;
    m->expr = expr ? ir_copy(cx, m, expr) : NULL;
    module_use(m, changed);
    rewriter_deinit(&rw);
    module_release(changed);
    return m;
}

static bool accept(Shrinker *s, Module *m, size_t size)
{
    s->tried++;
    const char *bad = size_of(m) < size ? examine(s->x, m) : NULL;
    if (bad && !strcmp(bad, s->property)) {
        module_release(s->best);
        s->best = m;
        return true;
    }
    module_release(m);
    return false;
}

/* Below a node only what does not use its variables can take its place: a wrong choice is not well typed. */
static bool shrink_node(Shrinker *s, const Expr *e, size_t size)
{
    if (e->kind <= EXPR_CON)
        return false;
    Arena arena;
    arena_init(&arena, NULL);
    bool done = false;
    Exprs below = nodes_below(e, &arena);
    Expr *zero = e->kind == EXPR_CONSTANT ? NULL : zero_of(&s->best->arena, e->type);
    if (zero)
        done = accept(s, candidate(s, (Change){e, zero}, NULL), size);
    for (size_t i = 1; i < below.n && i < 40 && !done; i++) {
        const Expr *b = below.at[i];
        if (b != e && b->type && e->type && b->kind != EXPR_OP && b->kind != EXPR_CON &&
            type_equal(b->type, e->type))
            done = accept(s, candidate(s, (Change){e, (Expr *)(uintptr_t)b}, NULL), size);
    }
    arena_deinit(&arena);
    return done;
}

static bool shrink_body(Shrinker *s, const Expr *root, size_t size)
{
    Arena arena;
    bool done = false;
    arena_init(&arena, NULL);
    Exprs all = nodes_below(root, &arena);
    for (size_t i = 0; i < all.n && !done; i++)
        done = shrink_node(s, all.at[i], size);
    arena_deinit(&arena);
    return done;
}

static bool shrink_once(Shrinker *s)
{
    size_t size = size_of(s->best);
    for (size_t i = 0; i < s->best->defs.n; i++)
        if (s->best->defs.at[i].fn &&
            accept(s, candidate(s, (Change){0}, s->best->defs.at[i].name), size))
            return true;
    for (size_t i = 0; i < s->best->defs.n; i++)
        if (s->best->defs.at[i].fn && shrink_body(s, s->best->defs.at[i].fn->body, size))
            return true;
    return s->best->expr && shrink_body(s, s->best->expr, size);
}

Module *shrink(Examiner *x, Module *m, const char *property)
{
    Shrinker s = {x, property, module_retain(m), 0};
    while (s.tried < 5000 && shrink_once(&s))
        continue;
    buf_clear(&x->what);
    return s.best;
}

void shrink_passes(Examiner *x, Module *m, const char *property)
{
    for (size_t i = x->n_passes; i-- > 0 && x->n_passes > 1;) {
        const char *without = x->passes[i];
        size_t behind = --x->n_passes - i;
        memmove(&x->passes[i], &x->passes[i + 1], behind * sizeof *x->passes);
        const char *bad = examine(x, m);
        if (bad && !strcmp(bad, property))
            continue;
        memmove(&x->passes[i + 1], &x->passes[i], behind * sizeof *x->passes);
        x->passes[i] = without;
        x->n_passes++;
    }
}
