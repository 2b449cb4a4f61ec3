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

/* ---- functions over data */

enum { PARTS_MOST = 4 };

/* What stands for parts of the data in a clause. */
typedef struct Parts {
    Var *at[PARTS_MOST];
    uint32_t n;
} Parts;

static void find_parts(Gen *g, const Pattern *p, const Type *t, const Type *over, Parts *out)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const Type *field = part(g, t, p->con, i);
        if (p->fields[i]->kind == PATTERN_VAR && field == over && out->n < PARTS_MOST)
            out->at[out->n++] = p->fields[i]->var;
        find_parts(g, p->fields[i], field, over, out);
    }
}

/* Mostly the function is called for all parts; else, or besides, where the value of the clause wants it. */
static Expr *clause_over(Gen *g, const Pattern *p, const Known *self, int size)
{
    Parts parts = {0};
    Var *results[PARTS_MOST];
    const Type *over = self->type->parts[0], *t = self->type->result;
    find_parts(g, p, over, over, &parts);
    uint32_t n = self->type->n, calls = once_in(g, 3) ? 0 : parts.n;
    Expr *args[PARTS_MOST][2] = {0};
    for (uint32_t i = 0; i < parts.n; i++) {
        Known k = *self;
        k.counter = args[i][0] = &parts.at[i]->base;
        args[i][1] = n > 1 ? make(g, self->type->parts[1], 2) : NULL;
        learn_function(g, k);
    }
    for (uint32_t i = 0; i < calls; i++) {
        results[i] = fresh_var(g, t);
        learn(g, &results[i]->base, t);
    }
    Expr *body = make(g, t, size);
    for (uint32_t i = calls; i-- > 0;)
        body = make_let(g, results[i], expr_call(g->arena, (Span){0}, self->e, n, args[i], NULL),
                        body);
    return body;
}

static Function *function_over(Gen *g, const Known *self, int size)
{
    const Type *over = self->type->parts[0];
    Var *params[2] = {fresh_var(g, over), NULL}; /* what comes with the data is used, or not */
    if (self->type->n > 1)
        params[1] = fresh_var(g, self->type->parts[1]);
    Patterns patterns = {0};
    Clause clauses[CLAUSES_MOST];
    int recursions = g->recursions;
    size_t known = g->known.n;
    g->level++;
    if (params[1] && once_in(g, 2))
        learn(g, &params[1]->base, self->type->parts[1]);
    size_t outside = g->known.n;
    for (uint32_t i = 0; i < over->def->n_cons; i++)
        cover_fields(g, over, over->def->cons[i], 1 + (int)below(g, 2), &patterns);
    for (uint32_t i = 0; i < patterns.n; i++) {
        learn_pattern(g, patterns.at[i], over);
        g->recursions = 2;
        clauses[i] = (Clause){
            patterns.at[i], clause_over(g, patterns.at[i], self, size / (int)patterns.n), {0}};
        forget(g, outside);
    }
    forget(g, known);
    g->level--;
    g->recursions = recursions;
    Expr *body = expr_match(g->arena, (Span){0}, &params[0]->base, patterns.n, clauses,
                            patterns.n < CLAUSES_MOST);
    return expr_function(g->arena, (Span){0}, (TypeVarList){0}, self->type->n, params, NULL,
                         self->type->result, body);
}

/* Data of some levels: parts of the same type are made here, too. */
static Expr *deep_value(Gen *g, const Type *t, int levels)
{
    const Constructor *con = t->def->cons[levels > 0 ? below(g, t->def->n_cons) : 0];
    Expr *fields[8];
    for (uint32_t i = 0; i < con->n; i++) {
        const Type *field = field_type(g, t, con, i);
        fields[i] = field == t ? deep_value(g, t, levels - 1) : make(g, field, 2);
    }
    Expr *value = expr_con(g->arena, (Span){0}, con);
    return expr_call(g->arena, (Span){0}, value, con->n, fields, NULL);
}

Expr *make_fold(Gen *g, const Type *t, int size)
{
    const Type *over = random_sum(g, 1);
    if (size < 10 || over->kind != TYPE_ADT || over->def->n_cons < 2)
        return NULL;
    const Type *types[2] = {over, random_type(g, 1)};
    const Type *f = type_func(g->cx, 0, NULL, 1 + below(g, 2), types, t);
    Var *v = fresh_var(g, f);
    Known self = {.e = &v->base, .type = f, .cost = 20, .level = g->level + 1, .whole = true};
    size_t effects = g->effects;
    double cost = g->cost;
    Function *fn = function_over(g, &self, size / 2);
    self.pure = g->effects == effects;
    self.cost = (g->cost - cost) * 8;
    size_t known = g->known.n;
    learn_function(g, self);
    Expr *args[2] = {deep_value(g, over, 3), f->n > 1 ? make(g, types[1], 3) : NULL};
    Expr *body = once_in(g, 3) ? make(g, t, size / 3)
                               : expr_call(g->arena, (Span){0}, &v->base, f->n, args, NULL);
    forget(g, known);
    return make_let(g, v, &fn->base, body);
}
