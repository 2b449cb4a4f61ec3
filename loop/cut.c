/* Cuts the loops of elements that are computed otherwise from some place on, so that no element asks:
 *
 *     for i in 0..8: t[i] = i < 3 ? (x[i] or 0) : (y[i - 3] or 0)    ⇒    for i in 0..3: t[i] = x[i];  for i in 0..5: t[i + 3] = y[i]
 *
 * and splits those along which a position is divided, so that no element divides:
 *
 *     for i in 0..8: t[i] = x[i % 4] * y[i / 4]    ⇒    for o in 0..2: for i in 0..4: t[o * 4 + i] = x[i] * y[o]  */
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

/* The lesser or greater of two positions. */
static bool is_choice(const Te *e)
{
    return e->kind == TE_NODE_BINARY && (e->op == TE_MIN || e->op == TE_MAX) &&
           e->dtype.code == DTYPE_CODE_INT && e->dtype.bits == 64;
}

typedef enum Known { KNOWN_NOT, KNOWN_FALSE, KNOWN_TRUE } Known;

/* The condition as `difference < 0`, for comparisons of positions; of the lesser or greater of two, whether the first is less. */
static bool as_difference(const Te *e, NestLinear *out, bool *turned)
{
    NestLinear b;
    if (e->kind != TE_NODE_BINARY ||
        (e->op != TE_LT && e->op != TE_GE && e->op != TE_GT && e->op != TE_LE && !is_choice(e)) ||
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
    const Te *condition = e->kind == TE_NODE_SELECT ? e->a : e;
    if (p->loop || (condition == e && !is_choice(e)) || !as_difference(condition, &l, &turned) ||
        l.n != 1)
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
    if (e->n != b->rank || (!e->otherwise && e->n == 1))
        return NULL;
    for (int i = e->n - 1; i >= 0; i--) {
        if (!nest_linear(e->index[i], &l))
            return NULL;
        nest_range(&l, s->statement, NULL, &low, &high);
        if (e->otherwise && (low < 0 || high >= b->shape[i]))
            return NULL;
        at.c += l.c * stride;
        for (int k = 0; k < l.n; k++)
            if (!nest_add_term(&at, l.term[k].var, l.term[k].by * stride))
                return NULL;
        stride *= b->shape[i];
    }
    return nest_load(s->n, e->tensor, nest_position(s->n, &at));
}

/* A position that is divided by a number: `whole` is divisible by it and the `rest` less than it. */
typedef struct Division {
    NestLinear whole, rest;
    int64_t by;
} Division;

/* False: it is no such position, or one of another form. The rest may still be too large. */
static bool as_division(const Te *e, Division *d)
{
    NestLinear l, by;
    bool fits = true;
    if (e->kind != TE_NODE_BINARY || (e->op != TE_DIV && e->op != TE_MOD) ||
        !nest_linear(e->a, &l) || !nest_linear(e->b, &by) || by.n > 0 || by.c < 2 || l.c < 0)
        return false;
    *d = (Division){.by = by.c, .rest.c = l.c % by.c, .whole.c = l.c - l.c % by.c};
    for (int i = 0; i < l.n && fits; i++) {
        NestLinear *to = l.term[i].by % by.c == 0 ? &d->whole : &d->rest;
        fits = l.term[i].by > 0 && nest_add_term(to, l.term[i].var, l.term[i].by);
    }
    return fits;
}

static Te *settled_division(const Settle *s, const Te *e)
{
    Division d;
    int64_t low, high;
    if (!as_division(e, &d))
        return NULL;
    nest_range(&d.rest, s->statement, NULL, &low, &high);
    if (high >= d.by)
        return NULL;
    if (e->op == TE_MOD)
        return nest_position(s->n, &d.rest);
    d.whole.c /= d.by;
    for (int i = 0; i < d.whole.n; i++)
        d.whole.term[i].by /= d.by;
    return nest_position(s->n, &d.whole);
}

static Te *settle_node(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    const Settle *s = data;
    (void)b;
    (void)old;
    if (e->kind == TE_NODE_LOAD)
        return settled_load(s, e);
    if (is_choice(e)) {
        Known less = is_true(e, s->statement);
        return less == KNOWN_NOT ? NULL : (less == KNOWN_TRUE) == (e->op == TE_MIN) ? e->a : e->b;
    }
    if (e->kind == TE_NODE_BINARY)
        return settled_division(s, e);
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
    bool alone = at > 0 && at < loop->extent && nest_holds(node, loop) && has_free_order(n, node);
    for (const NestNode *l = loop; l != node && alone; l = l->parent)
        alone = l->parent->body.n == 1;
    if (!alone)
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

/* ---- divisions ---------------------------------------------------------------------------------------------------------------- */

typedef struct Divided {
    Arena *arena;
    const NestNode *statement;
    int64_t least;
    NestNode *loop; /* NULL: none is found */
    int64_t factor;
} Divided;

static void find_division(void *data, Te *e)
{
    Divided *f = data;
    Division d;
    if (f->loop || !as_division(e, &d) || d.rest.n != 1)
        return;
    const NestNode *loop = nest_loop_of(f->statement, d.rest.term[0].var);
    int64_t by = d.rest.term[0].by, factor = d.by / by;
    if (!loop || d.by % by != 0 || factor < 2 || loop->extent <= factor || loop->extent % factor ||
        d.rest.c + by * (factor - 1) >= d.by || (!nest_only_loop(loop) && factor < f->least))
        return;
    f->loop = (NestNode *)(uintptr_t)loop;
    f->factor = factor;
}

static void find_divided(void *data, NestNode *node)
{
    Divided *f = data;
    if (f->loop || node->kind != NEST_STORE)
        return;
    PtrMap seen = {0};
    f->statement = node;
    te_each(f->arena, &seen, node->value, find_division, f);
    ptrmap_deinit(&seen);
}

bool nest_undivide(Nest *n, NestNode *node, int64_t least)
{
    bool any = false;
    for (bool more = has_free_order(n, node); more;) {
        NestNode *inner, *tail;
        Divided f = {.arena = n->arena, .least = least};
        nest_each(node, find_divided, &f);
        more = f.loop && nest_split(n, f.loop, f.factor, &inner, &tail);
        if (more)
            nest_each(node, settle_statement, n);
        any |= more;
    }
    return any;
}
