/* Matches whose clauses cover the scrutinee's type. */
#include "tests/random/internal.h"

#define CLAUSES_MOST 12

typedef struct Patterns {
    Pattern *at[CLAUSES_MOST];
    uint32_t n;
} Patterns;

static Pattern *any_pattern(Gen *g, const Type *t)
{
    if (once_in(g, 2))
        return pattern_wildcard(g->arena, (Span){0});
    return pattern_var(g->arena, (Span){0}, fresh_var(g, once_in(g, 2) ? t : NULL));
}

/* The type of field i of a value of type t. */
static const Type *part(Gen *g, const Type *t, const Constructor *con, uint32_t i)
{
    return con ? field_type(g, t, con, i) : t->parts[i];
}

static Patterns cover(Gen *g, const Type *t, int depth);

/* Patterns for the values made by `con` (NULL: of a tuple): one field is taken further apart. */
static void cover_fields(Gen *g, const Type *t, const Constructor *con, int depth, Patterns *out)
{
    uint32_t n = con ? con->n : t->n, split = n ? below(g, n) : 0;
    Patterns inner = {.n = 1};
    if (n)
        inner = cover(g, part(g, t, con, split), depth - 1);
    for (uint32_t k = 0; k < inner.n && out->n < CLAUSES_MOST; k++) {
        Pattern *fields[8];
        for (uint32_t i = 0; i < n; i++)
            fields[i] = i == split ? inner.at[k] : any_pattern(g, part(g, t, con, i));
        out->at[out->n++] = con ? pattern_con(g->arena, (Span){0}, con, n, fields)
                                : pattern_tuple(g->arena, (Span){0}, n, fields);
    }
}

static Patterns cover(Gen *g, const Type *t, int depth)
{
    Patterns all = {0};
    bool sum = (t->kind == TYPE_ADT && t->def->n_cons) || t->kind == TYPE_TUPLE;
    if (depth <= 0 || !sum || once_in(g, 4)) {
        all.at[all.n++] = any_pattern(g, t);
        return all;
    }
    if (t->kind == TYPE_TUPLE)
        cover_fields(g, t, NULL, depth, &all);
    for (uint32_t i = 0; t->kind == TYPE_ADT && i < t->def->n_cons; i++)
        cover_fields(g, t, t->def->cons[i], depth, &all);
    if (all.n == CLAUSES_MOST)
        all.n--;
    else if (all.n == 1 || !once_in(g, 4))
        return all;
    else
        all.n -= 1 + below(g, all.n - 1);
    all.at[all.n++] = any_pattern(g, t);
    return all;
}

/* A pattern that looks at several fields, each of which may not fit. */
static Pattern *deep_pattern(Gen *g, const Type *t, int depth)
{
    bool sum = (t->kind == TYPE_ADT && t->def->n_cons) || t->kind == TYPE_TUPLE;
    if (depth <= 0 || !sum || once_in(g, 4))
        return any_pattern(g, t);
    const Constructor *con = t->kind == TYPE_ADT ? t->def->cons[below(g, t->def->n_cons)] : NULL;
    Pattern *fields[8];
    uint32_t n = con ? con->n : t->n;
    for (uint32_t i = 0; i < n; i++)
        fields[i] = deep_pattern(g, part(g, t, con, i), depth - 1);
    return con ? pattern_con(g->arena, (Span){0}, con, n, fields)
               : pattern_tuple(g->arena, (Span){0}, n, fields);
}

/* Some of these in front: what they do not take, the others do. */
static void look_deeper(Gen *g, const Type *t, Patterns *all)
{
    uint32_t more = below(g, 4);
    for (; more > 0 && all->n < CLAUSES_MOST; more--) {
        for (uint32_t i = all->n; i > 0; i--)
            all->at[i] = all->at[i - 1];
        all->at[0] = deep_pattern(g, t, 3);
        all->n++;
        count_form(g, "a pattern that looks deeper");
    }
}

/* The variables of the pattern come into scope. */
static void learn_pattern(Gen *g, const Pattern *p, const Type *t)
{
    if (p->kind == PATTERN_VAR)
        learn(g, &p->var->base, t);
    for (uint32_t i = 0; i < p->n; i++)
        learn_pattern(g, p->fields[i], part(g, t, p->con, i));
}

Expr *make_match(Gen *g, const Type *t, int size)
{
    const Type *over = random_sum(g, 2);
    Expr *e = make(g, over, size / 3);
    Patterns patterns = cover(g, over, 3);
    if (g->data)
        look_deeper(g, over, &patterns);
    Clause clauses[CLAUSES_MOST];
    for (uint32_t i = 0; i < patterns.n; i++) {
        size_t known = g->known.n;
        learn_pattern(g, patterns.at[i], over);
        clauses[i] = (Clause){patterns.at[i], make(g, t, size * 2 / 3 / (int)patterns.n), {0}};
        forget(g, known);
    }
    return expr_match(g->arena, (Span){0}, e, patterns.n, clauses, !once_in(g, 5));
}
