/* Cuts the loops of elements that are computed otherwise from some place on, so that no element asks:
 *
 *     for i in 0..8: t[i] = i < 3 ? (x[i] or 0) : (y[i - 3] or 0)    ⇒    for i in 0..3: t[i] = x[i];  for i in 0..5: t[i + 3] = y[i]  */
#include "loop/access.h"
#include "loop/primitive.h"
#include "te/walk.h"

/* Parts that a node may become. */
#define PARTS_MOST 64

/* A variable and a value from which on a condition is another. */
typedef struct Place {
    Nest *n;
    const NestNode *statement;
    NestNode *loop; /* NULL: none is found */
    int64_t at;
} Place;

typedef enum Known { KNOWN_NOT, KNOWN_FALSE, KNOWN_TRUE } Known;

/* The condition as `difference < 0`, for comparisons of positions. */
static bool as_difference(const Te *e, NestLinear *out, bool *turned)
{
    NestLinear b;
    if (e->kind != TE_NODE_BINARY ||
        (e->op != TE_LT && e->op != TE_GE && e->op != TE_GT && e->op != TE_LE) ||
        !nest_linear(e->a, out) || !nest_linear(e->b, &b))
        return false;
    /* a < b: a - b < 0; a > b: b - a < 0; the others are their opposites. */
    bool swap = e->op == TE_GT || e->op == TE_LE;
    *turned = e->op == TE_GE || e->op == TE_LE;
    NestLinear diff = swap ? b : *out, other = swap ? *out : b;
    diff.c -= other.c;
    for (int i = 0; i < other.n; i++)
        if (!nest_add_term(&diff, other.term[i].var, -other.term[i].by))
            return false;
    *out = diff;
    return true;
}

static Known is_true(const Te *e, const NestNode *statement)
{
    NestLinear l;
    bool turned;
    int64_t low, high;
    if (!as_difference(e, &l, &turned))
        return KNOWN_NOT;
    nest_range(&l, statement, NULL, &low, &high);
    if (low < 0 && high >= 0)
        return KNOWN_NOT;
    return (high < 0) != turned ? KNOWN_TRUE : KNOWN_FALSE;
}

static void find_place(void *data, Te *e)
{
    Place *p = data;
    NestLinear l;
    bool turned;
    if (p->loop || e->kind != TE_NODE_SELECT || !as_difference(e->a, &l, &turned) || l.n != 1)
        return;
    const NestNode *loop = nest_loop_of(p->statement, l.term[0].var);
    int64_t by = l.term[0].by;
    /* by * v + c < 0 holds below ceil(-c / by), or above floor(-c / by) for steps back. */
    if (!loop || (by > 0 ? l.c >= 0 : l.c < 0))
        return;
    int64_t at = by > 0 ? (-l.c + by - 1) / by : l.c / -by + 1;
    if (at >= loop->extent)
        return;
    p->loop = (NestNode *)(uintptr_t)loop;
    p->at = at;
}

static void find_in_statement(void *data, NestNode *node)
{
    Place *p = data;
    if (p->loop || node->kind != NEST_STORE)
        return;
    PtrMap seen = {0};
    p->statement = node;
    te_each(p->n->arena, &seen, node->value, find_place, p);
    ptrmap_deinit(&seen);
}

/* ---- what the ranges of the loops decide ------------------------------------------------------------------------------------ */

typedef struct Settle {
    Nest *n;
    const NestNode *statement;
} Settle;

/* A load that lies inside for all turns reads its position. */
static Te *settled_load(const Settle *s, const Te *e)
{
    const NestBuffer *b = &s->n->buffers.at[e->tensor];
    NestLinear at = {0}, l;
    int64_t stride = 1, low, high;
    if (!e->otherwise || e->n != b->rank)
        return NULL;
    for (int i = e->n - 1; i >= 0; i--) {
        if (!nest_linear(e->index[i], &l))
            return NULL;
        nest_range(&l, s->statement, NULL, &low, &high);
        if (low < 0 || high >= b->shape[i])
            return NULL;
        at.c += l.c * stride;
        for (int k = 0; k < l.n; k++)
            if (!nest_add_term(&at, l.term[k].var, l.term[k].by * stride))
                return NULL;
        stride *= b->shape[i];
    }
    return nest_load(s->n, e->tensor, nest_position(s->n, &at));
}

static Te *settle_node(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    const Settle *s = data;
    (void)b;
    (void)old;
    if (e->kind == TE_NODE_LOAD)
        return settled_load(s, e);
    Known known = e->kind == TE_NODE_SELECT ? is_true(e->a, s->statement) : KNOWN_NOT;
    return known == KNOWN_NOT ? NULL : known == KNOWN_TRUE ? e->b : e->c;
}

static void settle_statement(void *data, NestNode *node)
{
    Settle s = {data, node};
    if (node->kind == NEST_STORE)
        node->value = te_rewrite(&s.n->te, node->value, settle_node, &s);
}

/* ---- the cut ------------------------------------------------------------------------------------------------------------------ */

typedef struct Whole {
    Nest *n;
    bool fits;
} Whole;

/* Whether all turns of all loops may come in any order, and nothing but elements is stored. */
static void look_at_node(void *data, NestNode *node)
{
    Whole *w = data;
    if (node->kind == NEST_LOOP)
        w->fits = w->fits && node->way == NEST_SERIAL && nest_independent(w->n, node);
    else
        w->fits = w->fits && node->kind == NEST_STORE;
}

/* The loop in `copy` that stands where `loop` does in `node`. */
static NestNode *twin_of(NestNode *copy, const NestNode *node, const NestNode *loop)
{
    while (node != loop) {
        size_t i = 0;
        while (!nest_holds(node->body.at[i], loop))
            i++;
        node = node->body.at[i];
        copy = copy->body.at[i];
    }
    return copy;
}

static bool has_free_order(Nest *n, NestNode *node)
{
    Whole w = {n, true};
    nest_each(node, look_at_node, &w);
    return w.fits && !node->parent && node->kind == NEST_LOOP;
}

static NestNode *part(Nest *n, NestNode *node, NestNode *loop, int64_t at)
{
    NestNode *rest = nest_copy(n, node), *twin = twin_of(rest, node, loop);
    NestLinear from = {.c = at, .n = 1};
    from.term[0].var = twin->var;
    from.term[0].by = 1;
    nest_substitute(n, twin, twin->var, &from);
    twin->extent -= at;
    loop->extent = at;
    nest_insert(n, NULL, nest_index(n, node) + 1, rest);
    return rest;
}

NestNode *nest_part(Nest *n, NestNode *node, NestNode *loop, int64_t at)
{
    if (at <= 0 || at >= loop->extent || !nest_holds(node, loop) || !has_free_order(n, node))
        return NULL;
    return part(n, node, loop, at);
}

bool nest_cut(Nest *n, NestNode *node)
{
    NestNode *parts[PARTS_MOST] = {node};
    int count = 1;
    if (!has_free_order(n, node))
        return false;
    for (int i = 0; i < count && count < PARTS_MOST;) {
        Place p = {.n = n};
        nest_each(parts[i], find_in_statement, &p);
        if (!p.loop) {
            nest_each(parts[i++], settle_statement, n);
            continue;
        }
        NestNode *rest = part(n, parts[i], p.loop, p.at);
        for (int k = count++; k > i + 1; k--)
            parts[k] = parts[k - 1];
        parts[i + 1] = rest;
        nest_each(parts[i], settle_statement, n);
        nest_each(rest, settle_statement, n);
    }
    return count > 1;
}
