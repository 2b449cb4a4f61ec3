#include "loop/primitive.h"

#include "base/number.h"
#include "loop/access.h"
#include "te/walk.h"

#include <string.h>

/* ---- independence ---------------------------------------------------------------------------------------------------- */

static bool is_inside(const NestNode *loop, const NestNode *node, int var)
{
    const NestNode *of = nest_loop_of(node, var);
    return of && nest_holds(loop, of);
}

/* Whether the first has no step outside of the loop in which it stands that the second has not. */
static bool steps_outside_of(const NestNode *loop, const NestAccess *a, const NestAccess *b)
{
    for (int i = 0; i < a->at.n; i++)
        if (!is_inside(loop, a->node, a->at.term[i].var) &&
            nest_coefficient(&b->at, a->at.term[i].var) != a->at.term[i].by)
            return false;
    return true;
}

/* Whether two accesses step alike outside of the loop, so that their distance is known inside of it. */
static bool same_outside(const NestNode *loop, const NestAccess *a, const NestAccess *b)
{
    return steps_outside_of(loop, a, b) && steps_outside_of(loop, b, a);
}

static int64_t magnitude(int64_t v)
{
    return v < 0 ? -v : v;
}

/* Whether no two values of the variables in the position that are of the loop, or inside of it, give the same one: each step is longer than
 * all shorter ones make together. */
static bool steps_apart(const NestNode *loop, const NestAccess *a)
{
    for (int i = 0; i < a->at.n; i++) {
        int64_t by = magnitude(a->at.term[i].by), below = 0;
        if (!is_inside(loop, a->node, a->at.term[i].var))
            continue;
        for (int k = 0; k < a->at.n; k++) {
            const NestNode *of = nest_loop_of(a->node, a->at.term[k].var);
            int64_t other = magnitude(a->at.term[k].by);
            if (k == i || !of || !nest_holds(loop, of) || other > by || (other == by && k > i))
                continue;
            below += other * (of->extent - 1);
        }
        if (below >= by)
            return false;
    }
    return true;
}

static bool is_injective(const NestNode *loop, const NestAccess *a)
{
    return steps_apart(loop, a) && nest_coefficient(&a->at, loop->var) != 0;
}

/* Equal positions but for the names of loops inside, which then must be the same loops. */
static bool same_position(const NestAccess *a, const NestAccess *b)
{
    if (a->at.c != b->at.c || a->at.n != b->at.n)
        return false;
    for (int i = 0; i < a->at.n; i++)
        if (nest_coefficient(&b->at, a->at.term[i].var) != a->at.term[i].by)
            return false;
    return true;
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* How far apart planes may lie that hold all iterations: what all large steps are multiples of, or with `places` what those and the least
 * large distance of two positions are; 0: there are no planes. */
static int64_t plane_of(const NestNode *loop, const NestAccesses *all, int buffer, int64_t whole,
                        bool places)
{
    const NestAccess *first = NULL;
    int64_t plane = 0, least = 0;
    for (size_t i = 0; i < all->n; i++) {
        const NestAccess *a = &all->at[i];
        if (a->buffer != buffer)
            continue;
        first = first ? first : a;
        int64_t far = magnitude(a->at.c - first->at.c);
        if (far >= whole && (least == 0 || far < least))
            least = far;
        for (int k = 0; k < a->at.n; k++)
            if (a->at.term[k].var != loop->var && magnitude(a->at.term[k].by) >= whole)
                plane = gcd(magnitude(a->at.term[k].by), plane);
    }
    return places ? gcd(least, plane) : plane;
}

/* Whether iterations are told apart by the position within planes: all other steps are either multiples of a plane, in which the iterations
 * lie one behind the other, or stay within one of them. So the rows of an image are, whose planes are channels. */
static bool apart_in_planes(const NestNode *loop, const NestAccesses *all, int buffer, int64_t step,
                            bool places)
{
    int64_t whole, plane, least = 0, most = 0;
    bool any = false;
    if (__builtin_mul_overflow(step, loop->extent, &whole))
        return false;
    plane = plane_of(loop, all, buffer, whole, places);
    if (plane < whole)
        return false;
    for (size_t i = 0; i < all->n; i++) {
        const NestAccess *a = &all->at[i];
        int64_t low, high;
        if (a->buffer != buffer)
            continue;
        NestLinear inner = {.c = (a->at.c % plane + plane) % plane};
        for (int k = 0; k < a->at.n; k++)
            if (a->at.term[k].var != loop->var && magnitude(a->at.term[k].by) < whole)
                nest_add_term(&inner, a->at.term[k].var, a->at.term[k].by);
        nest_range(&inner, a->node, loop, &low, &high);
        least = !any || low < least ? low : least;
        most = !any || high > most ? high : most;
        any = true;
    }
    return most - least < step;
}

/* Whether each iteration keeps to a part of the buffer of its own. */
static bool keeps_apart(const NestNode *loop, const NestAccesses *all, int buffer)
{
    const NestAccess *first = NULL;
    int64_t least = 0, most = 0;
    bool same = true;
    for (size_t i = 0; i < all->n; i++) {
        const NestAccess *a = &all->at[i];
        int64_t low, high, step;
        if (a->buffer != buffer)
            continue;
        if (!a->linear)
            return false;
        NestLinear rest = a->at;
        step = nest_coefficient(&rest, loop->var);
        nest_add_term(&rest, loop->var, -step);
        nest_range(&rest, a->node, loop, &low, &high);
        if (!first) {
            first = a;
            least = low;
            most = high;
        }
        least = low < least ? low : least;
        most = high > most ? high : most;
        same = same && same_position(first, a);
        if (step != nest_coefficient(&first->at, loop->var) || !same_outside(loop, first, a))
            return false;
    }
    if (!first)
        return true;
    if (same && is_injective(loop, first))
        return true;
    int64_t step = magnitude(nest_coefficient(&first->at, loop->var));
    return step > most - least || (step > 0 && (apart_in_planes(loop, all, buffer, step, false) ||
                                                apart_in_planes(loop, all, buffer, step, true)));
}

bool nest_independent(Nest *n, const NestNode *loop)
{
    NestAccesses all = nest_accesses(n, (NestNode *)(uintptr_t)loop);
    for (size_t i = 0; i < all.n && loop->extent > 1; i++) {
        const NestAccess *a = &all.at[i];
        if (a->writes && !nest_is_private(n, a->buffer, loop) &&
            !keeps_apart(loop, &all, a->buffer))
            return false;
    }
    return true;
}

typedef struct Reach {
    bool any, writes;
    int64_t low, high;
} Reach;

/* The same position in the first plane where there are planes: what is told apart there is apart in any. */
static NestLinear within_plane(const NestLinear *l, int64_t plane)
{
    NestLinear out = {.c = l->c};
    if (plane)
        out.c = (l->c % plane + plane) % plane;
    for (int i = 0; i < l->n; i++)
        if (!plane || l->term[i].by % plane)
            out.term[out.n++] = l->term[i];
    return out;
}

/* What each of the loops that stand in `loop` touches of a plane of the buffer, or of all of it; false where that is not known. */
static bool reach_of(const NestNode *loop, const NestAccesses *all, int buffer, int64_t plane,
                     Reach *out)
{
    const NestAccess *first = NULL;
    const NestNode *of_first = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const NestAccess *a = &all->at[i];
        size_t body = 0;
        int64_t low, high;
        if (a->buffer != buffer)
            continue;
        while (body < loop->body.n && !nest_holds(loop->body.at[body], a->node))
            body++;
        if (body == loop->body.n)
            return false;
        const NestNode *of = loop->body.at[body];
        Reach *r = &out[body];
        first = first ? first : a;
        of_first = of_first ? of_first : of;
        if (!a->linear || !steps_outside_of(of, a, first) || !steps_outside_of(of_first, first, a))
            return false;
        NestLinear at = within_plane(&a->at, plane);
        nest_range(&at, a->node, of, &low, &high);
        if (plane && (low < 0 || high >= plane))
            return false;
        *r = (Reach){true, r->writes || a->writes, r->any && r->low < low ? r->low : low,
                     r->any && r->high > high ? r->high : high};
    }
    return true;
}

static bool apart_in(const NestNode *loop, const NestAccesses *all, int buffer, int64_t plane,
                     Reach *at)
{
    size_t n = loop->body.n;
    memset(at, 0, n * sizeof *at);
    bool apart = reach_of(loop, all, buffer, plane, at);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            apart &= !at[i].any || !at[k].any || (!at[i].writes && !at[k].writes) ||
                     at[i].low > at[k].high || at[k].low > at[i].high;
    return apart;
}

/* Planes may be as far apart as two positions are. */
static bool bodies_keep_apart(const NestNode *loop, const NestAccesses *all, int buffer, Reach *at)
{
    const NestAccess *first = NULL;
    bool apart = apart_in(loop, all, buffer, 0, at);
    int64_t tried = 0;
    for (size_t i = 0; i < all->n && !apart; i++) {
        const NestAccess *a = &all->at[i];
        if (a->buffer != buffer)
            continue;
        first = first ? first : a;
        int64_t far = magnitude(a->at.c - first->at.c);
        if (far > tried)
            apart = apart_in(loop, all, buffer, far, at);
        tried = far > tried ? far : tried;
    }
    return apart;
}

bool nest_bodies_apart(Nest *n, const NestNode *loop)
{
    NestAccesses all = nest_accesses(n, (NestNode *)(uintptr_t)loop);
    bool *seen = arena_alloc_must(n->arena, n->buffers.n + 1, sizeof *seen), apart = true;
    Reach *at = arena_alloc_must(n->arena, loop->body.n + 1, sizeof *at);
    for (size_t i = 0; i < loop->body.n; i++)
        apart &= loop->body.at[i]->kind == NEST_LOOP;
    for (size_t i = 0; i < all.n && apart; i++) {
        int buffer = all.at[i].buffer;
        const NestNode *home = n->buffers.at[buffer].home;
        bool own = home && home != loop && nest_is_private(n, buffer, loop);
        if (!all.at[i].writes || own || seen[buffer])
            continue;
        seen[buffer] = true;
        apart = bodies_keep_apart(loop, &all, buffer, at);
    }
    return apart;
}

/* ---- split, reorder, fuse ---------------------------------------------------------------------------------------------- */

static void move_home(Nest *n, const NestNode *from, NestNode *to)
{
    for (size_t i = 0; i < n->buffers.n; i++)
        if (n->buffers.at[i].home == from)
            n->buffers.at[i].home = to;
}

bool nest_split(Nest *n, NestNode *loop, int64_t factor, NestNode **inner, NestNode **tail)
{
    int64_t whole = loop->extent / factor, rest = loop->extent % factor;
    if (factor < 2 || loop->extent <= factor || loop->way != NEST_SERIAL)
        return false;
    *tail = NULL;
    if (rest) {
        *tail = nest_copy(n, loop);
        (*tail)->extent = rest;
        NestLinear at = {.c = whole * factor, .n = 1};
        at.term[0].var = (*tail)->var;
        at.term[0].by = 1;
        nest_substitute(n, *tail, (*tail)->var, &at);
        nest_insert(n, loop->parent, nest_index(n, loop) + 1, *tail);
    }
    *inner = nest_loop(n, n->vars.at[loop->var], factor);
    (*inner)->body = loop->body;
    for (size_t i = 0; i < (*inner)->body.n; i++)
        (*inner)->body.at[i]->parent = *inner;
    move_home(n, loop, *inner);
    NestLinear at = {0};
    nest_add_term(&at, loop->var, factor);
    nest_add_term(&at, (*inner)->var, 1);
    nest_substitute(n, *inner, loop->var, &at);
    loop->body = (NestBlock){0};
    loop->extent = whole;
    nest_append(n, loop, *inner);
    return true;
}

bool nest_reorder(Nest *n, NestNode *outer)
{
    NestNode *inner = nest_only_loop(outer);
    if (!inner || outer->way == NEST_PARALLEL || !nest_independent(n, outer))
        return false;
    /* The loops stay where they are and change what they count. */
    NestNode was = *outer;
    outer->var = inner->var;
    outer->extent = inner->extent;
    outer->way = inner->way;
    outer->lanes = inner->lanes;
    inner->var = was.var;
    inner->extent = was.extent;
    inner->way = was.way;
    inner->lanes = was.lanes;
    /* Vectors have nothing of their own. */
    bool lanes = inner->way == NEST_VECTOR;
    move_home(n, lanes ? inner : outer, lanes ? outer : inner);
    return true;
}

typedef struct Fuse {
    Nest *n;
    int outer, inner;
    int64_t extent;
    bool uneven;
    bool divides; /* uneven positions divide the fused variable */
} Fuse;

static bool fuse_linear(Fuse *f, NestLinear *l)
{
    int64_t by = nest_coefficient(l, f->outer);
    if (by != nest_coefficient(l, f->inner) * f->extent)
        return false;
    return nest_add_term(l, f->outer, -by);
}

/* What the outer or inner variable was, of the fused one, which counts with the inner. */
static Te *divided(Fuse *f, TeOp op)
{
    TeBuilder *b = &f->n->te;
    return te_binary(b, op, te_axis(b, f->inner), te_int(b, f->extent));
}

static Te *divided_position(Fuse *f, NestLinear *l)
{
    TeBuilder *b = &f->n->te;
    int64_t outer = nest_coefficient(l, f->outer), inner = nest_coefficient(l, f->inner);
    nest_add_term(l, f->outer, -outer);
    nest_add_term(l, f->inner, -inner);
    Te *o = te_binary(b, TE_MUL, divided(f, TE_DIV), te_int(b, outer));
    Te *i = te_binary(b, TE_MUL, divided(f, TE_MOD), te_int(b, inner));
    return te_binary(b, TE_ADD, te_binary(b, TE_ADD, o, i), nest_position(f->n, l));
}

static Te *fuse_node(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    Fuse *f = data;
    NestLinear l;
    (void)b;
    if (f->divides && e->kind == TE_NODE_AXIS && (e->axis == f->outer || e->axis == f->inner))
        return divided(f, e->axis == f->outer ? TE_DIV : TE_MOD);
    if (e->kind != TE_NODE_LOAD || e->n != 1 || e->otherwise || !nest_linear(old->index[0], &l))
        return NULL;
    bool even = fuse_linear(f, &l);
    f->uneven |= !even && !f->divides;
    Te *at = even || !f->divides ? nest_position(f->n, &l) : divided_position(f, &l);
    return nest_load_like(f->n, e, e->tensor, at);
}

/* The fused loop counts with the inner variable; beside even positions neither may stand. */
static void find_either(void *data, Te *e)
{
    Fuse *f = data;
    f->uneven |= e->kind == TE_NODE_AXIS && (e->axis == f->inner || e->axis == f->outer);
}

/* An axis that there is not in the place of each even load: unlike a number it folds with nothing. */
static Te *hide_loads(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    NestLinear l;
    (void)data;
    bool flat =
        e->kind == TE_NODE_LOAD && e->n == 1 && !e->otherwise && nest_linear(old->index[0], &l);
    if (!flat)
        return NULL;
    Te *hidden = te_axis(b, -1);
    hidden->dtype = e->dtype;
    return hidden;
}

static Te *fused_value(Fuse *f, Te *e)
{
    PtrMap seen = {0};
    Te *made = te_rewrite(&f->n->te, e, fuse_node, f);
    if (f->divides)
        return made;
    Te *hidden = te_rewrite(&f->n->te, e, hide_loads, f);
    te_each(f->n->arena, &seen, hidden, find_either, f);
    ptrmap_deinit(&seen);
    return made;
}

static Te *fused_position(Fuse *f, Te *e)
{
    NestLinear l;
    if (!nest_linear(e, &l) || !fuse_linear(f, &l)) {
        f->uneven = true;
        return e;
    }
    return nest_position(f->n, &l);
}

static void fuse_statement(void *data, NestNode *s)
{
    Fuse *f = data;
    if (s->kind == NEST_LOOP)
        return;
    s->at = fused_position(f, s->at);
    s->value = s->value ? fused_value(f, s->value) : NULL;
    s->number = s->number ? fused_position(f, s->number) : NULL;
}

static bool fuse(Nest *n, NestNode *outer, bool divides)
{
    NestNode *inner = nest_only_loop(outer);
    int64_t turns;
    if (!inner || outer->way != NEST_SERIAL || inner->way != NEST_SERIAL ||
        !int64_mul(outer->extent, inner->extent, &turns))
        return false;
    Fuse f = {n, outer->var, inner->var, inner->extent, false, divides};
    NestNode *trial = nest_copy(n, inner);
    f.inner = trial->var;
    nest_each(trial, fuse_statement, &f);
    if (f.uneven)
        return false;
    /* The outer node stays the loop that callers know. */
    outer->var = trial->var;
    outer->extent = turns;
    outer->body = trial->body;
    for (size_t i = 0; i < outer->body.n; i++)
        outer->body.at[i]->parent = outer;
    move_home(n, trial, outer);
    return true;
}

bool nest_fuse(Nest *n, NestNode *outer)
{
    return fuse(n, outer, false);
}

bool nest_flatten(Nest *n, NestNode *outer)
{
    return fuse(n, outer, true);
}

/* ---- how loops run; jam ------------------------------------------------------------------------------------------------------ */

static bool is_under(const NestNode *node, NestWay way)
{
    for (node = node->parent; node; node = node->parent)
        if (node->kind == NEST_LOOP && node->way == way)
            return true;
    return false;
}

static void find_vector(void *data, NestNode *node)
{
    *(bool *)data |= node->kind == NEST_LOOP && node->way == NEST_VECTOR;
}

/* Whether a word is of bytes that each iteration has for itself: for a vector these would lie apart. */
static bool has_words(Nest *n, NestNode *loop)
{
    NestAccesses all = nest_accesses(n, loop);
    for (size_t i = 0; i < all.n; i++)
        if (all.at[i].word && nest_is_private(n, all.at[i].buffer, loop))
            return true;
    return false;
}

/* Whether nothing is done with the buffer but to fold into it. Folds may share a place: their order is free. */
static bool folds_only(const NestAccesses *all, int buffer)
{
    for (size_t i = 0; i < all->n; i++) {
        const NestNode *s = all->at[i].node;
        bool folds = s->kind == NEST_FOLD && !nest_is_position(s->fold);
        if (all->at[i].buffer == buffer && !(folds && all->at[i].writes))
            return false;
    }
    return true;
}

/* Whether iterations may run in any order, or at once where what they share is gathered behind them. */
static bool is_free(Nest *n, const NestNode *loop)
{
    NestAccesses all = nest_accesses(n, (NestNode *)(uintptr_t)loop);
    for (size_t i = 0; i < all.n && loop->extent > 1; i++) {
        int buffer = all.at[i].buffer;
        if (all.at[i].writes && !nest_is_private(n, buffer, loop) &&
            !keeps_apart(loop, &all, buffer) && !folds_only(&all, buffer))
            return false;
    }
    return true;
}

typedef struct Widen {
    Nest *n;
    int buffer, var;
    int64_t times, step; /* position * times + var * step */
} Widen;

static Te *widened(const Widen *w, const Te *at)
{
    NestLinear l;
    if (!nest_linear(at, &l))
        return (Te *)(uintptr_t)at;
    l.c *= w->times;
    for (int i = 0; i < l.n; i++)
        l.term[i].by *= w->times;
    nest_add_term(&l, w->var, w->step);
    return nest_position(w->n, &l);
}

static Te *widen_node(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    const Widen *w = data;
    (void)b;
    (void)old;
    if (e->kind != TE_NODE_LOAD || e->tensor != w->buffer)
        return NULL;
    return nest_load_like(w->n, e, e->tensor, widened(w, e->index[0]));
}

static void widen_statement(void *data, NestNode *s)
{
    Widen *w = data;
    if (s->kind == NEST_LOOP)
        return;
    if (s->value)
        s->value = te_rewrite(&w->n->te, s->value, widen_node, w);
    bool same = s->buffer == w->buffer || (s->number && s->winner == w->buffer);
    /* A position fold has one place in both of its buffers: they are widened together, by the first. */
    if (same && !(s->number && s->winner == w->buffer))
        s->at = widened(w, s->at);
}

/* A place in the buffers that live in `home` for each iteration of the loop, whose variable is `var`. */
static void widen_buffers(Nest *n, NestNode *home, NestNode *to, NestNode *part,
                          const NestNode *loop)
{
    size_t known = n->buffers.n;
    for (size_t i = 0; i < known; i++) {
        NestBuffer *b = &n->buffers.at[i];
        if (b->home != home || (b->place != NEST_LOCAL && b->place != NEST_REGISTER))
            continue;
        bool vector = loop->way == NEST_VECTOR;
        Widen w = {n, (int)i, loop->var, vector ? loop->lanes : 1, vector ? 1 : b->size};
        b->size *= vector ? loop->lanes : loop->extent;
        b->home = to;
        nest_each(part, widen_statement, &w);
    }
}

static bool is_serial(const NestNode *node)
{
    return node->kind == NEST_LOOP && node->way == NEST_SERIAL;
}

typedef struct WidenAll {
    Nest *n;
    NestNode *loop;
    bool serial; /* only what lives in loops that stay around the loop's iterations */
} WidenAll;

static void widen_inside(void *data, NestNode *node)
{
    WidenAll *w = data;
    if (node != w->loop && node->kind == NEST_LOOP && (!w->serial || is_serial(node)))
        widen_buffers(w->n, node, node, w->loop, w->loop);
}

bool nest_run_as(Nest *n, NestNode *loop, NestWay way, int lanes)
{
    bool vectors = false;
    nest_each(loop, find_vector, &vectors);
    const NestNode *around = loop->parent;
    bool alone = !around || (around->way == NEST_PARALLEL &&
                             (nest_only_loop(around) == loop || nest_bodies_apart(n, around)));
    if (loop->way != NEST_SERIAL || (way == NEST_PARALLEL && !alone) ||
        (way == NEST_VECTOR && (vectors || is_under(loop, NEST_VECTOR) || loop->extent > lanes)))
        return false;
    /* Unrolled iterations are made one after the other. */
    if ((way == NEST_VECTOR && (!is_free(n, loop) || has_words(n, loop))) ||
        (way == NEST_PARALLEL && !nest_independent(n, loop)))
        return false;
    loop->way = way;
    loop->lanes = way == NEST_VECTOR ? lanes : 0;
    if (way == NEST_VECTOR) {
        WidenAll w = {n, loop, false};
        widen_buffers(n, loop, loop->parent, loop, loop);
        nest_each(loop, widen_inside, &w);
    }
    return true;
}

static bool holds_serial(const NestNode *node)
{
    for (size_t i = 0; i < node->body.n; i++)
        if (is_serial(node->body.at[i]) || holds_serial(node->body.at[i]))
            return true;
    return false;
}

/* A loop like `like` around the node, which stands alone in it. */
static NestNode *wrap(Nest *n, const NestNode *like, NestNode *parent)
{
    NestNode *loop = nest_loop(n, n->vars.at[like->var], like->extent);
    loop->way = like->way;
    loop->lanes = like->lanes;
    nest_append(n, parent, loop);
    return loop;
}

static void distribute(Nest *n, const NestNode *like, NestNode *into, NestBlock body)
{
    NestNode *open = NULL;
    for (size_t i = 0; i < body.n; i++) {
        NestNode *child = body.at[i];
        if (is_serial(child) || child->kind == NEST_IF) {
            open = NULL;
            NestBlock inner = child->body;
            child->body = (NestBlock){0};
            nest_append(n, into, child);
            distribute(n, like, child, inner);
            continue;
        }
        if (!open)
            open = wrap(n, like, into);
        nest_append(n, open, child);
        NestLinear at = {.n = 1};
        at.term[0].var = open->var;
        at.term[0].by = 1;
        nest_substitute(n, child, like->var, &at);
    }
}

static void find_condition(void *data, NestNode *node)
{
    *(bool *)data |= node->kind == NEST_IF;
}

bool nest_jam(Nest *n, NestNode *loop)
{
    bool condition = false;
    nest_each(loop, find_condition, &condition);
    if (condition || loop->way == NEST_PARALLEL || !nest_independent(n, loop))
        return false;
    if (!holds_serial(loop))
        return true;
    NestNode *parent = loop->parent;
    WidenAll w = {n, loop, true};
    if (loop->way != NEST_VECTOR) { /* whose iterations have their places already */
        widen_buffers(n, loop, parent, loop, loop);
        nest_each(loop, widen_inside, &w);
    }
    /* A block that stands where the loop stood. */
    NestNode room = {.kind = NEST_LOOP, .parent = parent};
    NestBlock body = loop->body;
    size_t at = nest_index(n, loop);
    nest_remove(n, loop);
    distribute(n, loop, &room, body);
    for (size_t i = 0; i < room.body.n; i++)
        nest_insert(n, parent, at + i, room.body.at[i]);
    return true;
}

/* ---- partial results ------------------------------------------------------------------------------------------------------ */

typedef struct Partial {
    NestNode *fold;
    int folds;
} Partial;

static void find_fold(void *data, NestNode *node)
{
    Partial *p = data;
    p->folds += node->kind == NEST_FOLD;
    p->fold = node->kind == NEST_FOLD ? node : p->fold;
}

static NestNode *only_fold(NestNode *loop)
{
    Partial p = {0};
    nest_each(loop, find_fold, &p);
    return p.folds == 1 && p.fold && !nest_is_position(p.fold->fold) ? p.fold : NULL;
}

static void fold_into(Nest *n, NestNode *fold, const NestNode *loop, int part, int64_t size)
{
    Widen w = {n, part, loop->var, loop->way == NEST_VECTOR ? loop->lanes : 1,
               loop->way == NEST_VECTOR ? 1 : size};
    fold->at = widened(&w, fold->at);
    fold->buffer = part;
}

/* The loop or statement around the node that stands in `home`. */
static NestNode *child_of(const NestNode *home, NestNode *node)
{
    while (node->parent != home)
        node = node->parent;
    return node;
}

static bool are_twins(const NestNode *loop, const NestNode *fold, NestNode *const *twins)
{
    for (; *twins; twins++) {
        const NestNode *other = only_fold(*twins);
        if (!other || other->buffer != fold->buffer || (*twins)->way != loop->way ||
            (*twins)->extent > loop->extent || (*twins)->lanes != loop->lanes)
            return false;
    }
    return true;
}

/* Whether nothing but the folds reads or writes the accumulator until all of them are done. */
static bool folds_alone(Nest *n, int buffer, NestNode *home, NestNode *loop, NestNode *const *twins)
{
    for (int i = -1; i < 0 || twins[i]; i++) {
        NestAccesses all = nest_accesses_of(n, child_of(home, i < 0 ? loop : twins[i]), buffer);
        for (size_t k = 0; k < all.n; k++)
            if (all.at[k].node->kind != NEST_FOLD)
                return false;
        if (!twins[0])
            break;
    }
    return true;
}

bool nest_partial(Nest *n, NestNode *loop, NestNode *const *twins)
{
    NestNode *fold = only_fold(loop);
    NestLinear at;
    if (!fold || nest_is_private(n, fold->buffer, loop) || !are_twins(loop, fold, twins))
        return false;
    NestBuffer acc = n->buffers.at[fold->buffer];
    bool vector = loop->way == NEST_VECTOR;
    int64_t granule = vector ? loop->lanes : 1;
    if (!nest_linear(fold->at, &at) || acc.place != NEST_REGISTER ||
        (!vector && loop->way != NEST_UNROLLED) ||
        !folds_alone(n, fold->buffer, acc.home, loop, twins) ||
        (vector && (at.n > 0 || acc.size != 1)))
        return false;
    /* What the folding behind counts: a place of its own for each iteration, and all places of the accumulator inside of it. */
    const NestNode *lanes = NULL;
    for (int i = 0; i < at.n; i++) {
        const NestNode *of = nest_loop_of(fold, at.term[i].var);
        if (!of || at.n > 1 || at.c || of->way != NEST_VECTOR || of->lanes != acc.size ||
            (acc.home && nest_holds(of, acc.home)))
            return false;
        lanes = of;
    }
    if (!lanes && acc.size != 1)
        return false;
    int whole = fold->buffer;
    NestBuffer b = acc;
    b.size *= vector ? granule : loop->extent;
    int part = nest_buffer(n, b);
    NestNode *top = child_of(acc.home, loop), *last = top;
    for (; *twins; twins++) {
        last = child_of(acc.home, *twins);
        fold_into(n, only_fold(*twins), *twins, part, acc.size);
    }
    TeReduce kind = fold->fold;
    fold_into(n, fold, loop, part, acc.size);
    NestNode shell = {.kind = NEST_LOOP, .parent = acc.home};
    for (int turn = 0; turn < 2; turn++) {
        NestNode *outer = wrap(n, loop, &shell), *inner = outer;
        outer->extent = vector ? granule : loop->extent;
        NestLinear from = {0}, to = {0};
        nest_add_term(&from, outer->var, vector ? 1 : acc.size);
        if (lanes) {
            inner = wrap(n, lanes, outer);
            inner->extent = lanes->lanes;
            nest_add_term(&from, inner->var, 1);
            nest_add_term(&to, inner->var, 1);
        }
        Te *place = nest_position(n, &from);
        if (turn == 0) {
            Te *start = nest_start_of(n, kind, acc.dtype);
            nest_append(n, inner, nest_store(n, part, place, start));
            nest_insert(n, acc.home, nest_index(n, top), outer);
            continue;
        }
        NestNode *sum = nest_fold(n, kind, whole, nest_position(n, &to), nest_load(n, part, place));
        sum->any_order = fold->any_order;
        nest_append(n, inner, sum);
        nest_insert(n, acc.home, nest_index(n, last) + 1, outer);
    }
    return true;
}

/* ---- join, raise, narrow ---------------------------------------------------------------------------------------------------- */

typedef struct Touched {
    bool any, written;
} Touched;

static void touch(void *data, const NestAccess *a)
{
    Touched *t = data;
    t[a->buffer].any = true;
    t[a->buffer].written |= a->writes;
}

/* By buffer. */
static Touched *touched(Nest *n, NestNode *node)
{
    Touched *all = arena_alloc_must(n->arena, n->buffers.n, sizeof *all);
    memset(all, 0, n->buffers.n * sizeof *all);
    nest_each_access(n, node, touch, all);
    return all;
}

/* Whether an iteration of the second loop may run before later ones of the first: in `both`, where they are one, iterations keep apart in
 * whatever each of the two touches. */
static bool keeps_order(Nest *n, NestNode *first, NestNode *second, NestNode *both)
{
    const Touched *here = touched(n, first), *there = touched(n, second);
    for (size_t i = 0; i < n->buffers.n && both->extent > 1; i++) {
        if (!here[i].any || !there[i].any || !(here[i].written || there[i].written))
            continue;
        NestAccesses all = nest_accesses_of(n, both, (int)i);
        if (!keeps_apart(both, &all, (int)i))
            return false;
    }
    return true;
}

bool nest_join(Nest *n, NestNode *loop)
{
    NestBlock *block = nest_block(n, loop->parent);
    size_t i = nest_index(n, loop) + 1;
    NestNode *next = i < block->n ? block->at[i] : NULL;
    if (!next || next->kind != NEST_LOOP || next->extent != loop->extent ||
        next->way != loop->way || loop->way != NEST_SERIAL)
        return false;
    /* The home of the second's buffers is told from the first's until it is known that they join. */
    NestNode *trial = nest_copy(n, loop), *other = nest_copy(n, next);
    NestLinear at = {.n = 1};
    at.term[0].by = 1;
    at.term[0].var = trial->var;
    nest_substitute(n, other, other->var, &at);
    for (size_t k = 0; k < other->body.n; k++)
        nest_append(n, trial, other->body.at[k]);
    move_home(n, other, trial);
    if (!keeps_order(n, loop, next, trial))
        return false;
    nest_remove(n, next);
    loop->var = trial->var;
    loop->body = trial->body;
    for (size_t k = 0; k < loop->body.n; k++)
        loop->body.at[k]->parent = loop;
    move_home(n, trial, loop);
    return true;
}

bool nest_raise(Nest *n, NestNode *node)
{
    size_t i = nest_index(n, node);
    if (i == 0)
        return false;
    NestBlock *block = nest_block(n, node->parent);
    NestAccesses here = nest_accesses(n, node), before = nest_accesses(n, block->at[i - 1]);
    for (size_t a = 0; a < here.n; a++)
        for (size_t b = 0; b < before.n; b++)
            if (here.at[a].buffer == before.at[b].buffer &&
                (here.at[a].writes || before.at[b].writes))
                return false;
    block->at[i] = block->at[i - 1];
    block->at[i - 1] = node;
    return true;
}

/* The innermost loop around all of them; NULL: none. */
static NestNode *loop_around(const NestAccesses *all)
{
    NestNode *around = all->n ? all->at[0].node->parent : NULL;
    for (size_t i = 1; i < all->n; i++) {
        const NestNode *node = all->at[i].node->parent;
        while (around && !nest_holds(around, node))
            around = around->parent;
    }
    while (around && around->kind != NEST_LOOP)
        around = around->parent;
    return around;
}

typedef struct Shift {
    Nest *n;
    int buffer, var; /* the terms of this variable go */
    int64_t by, c;
} Shift;

static Te *shifted(const Shift *s, const Te *at)
{
    NestLinear l;
    nest_linear(at, &l);
    nest_add_term(&l, s->var, -s->by);
    l.c -= s->c;
    return nest_position(s->n, &l);
}

static Te *shift_node(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    const Shift *s = data;
    (void)b;
    (void)old;
    if (e->kind != TE_NODE_LOAD || e->tensor != s->buffer)
        return NULL;
    return nest_load_like(s->n, e, e->tensor, shifted(s, e->index[0]));
}

static void shift_statement(void *data, NestNode *node)
{
    Shift *s = data;
    if (node->kind == NEST_LOOP)
        return;
    if (node->value)
        node->value = te_rewrite(&s->n->te, node->value, shift_node, s);
    if (node->buffer == s->buffer)
        node->at = shifted(s, node->at);
}

/* Drops the variable of a loop from the positions; false where iterations do not keep apart. */
static bool drop_loop(Nest *n, NestNode *loop, int buffer)
{
    NestAccesses all = nest_accesses_of(n, loop, buffer);
    int64_t least = INT64_MAX, most = INT64_MIN;
    if (loop->extent > 1 && !keeps_apart(loop, &all, buffer))
        return false;
    Shift s = {.n = n, .buffer = buffer, .var = loop->var};
    for (size_t i = 0; i < all.n; i++) {
        const NestAccess *a = &all.at[i];
        int64_t low, high;
        NestLinear rest = a->at;
        s.by = nest_coefficient(&rest, loop->var);
        nest_add_term(&rest, loop->var, -s.by);
        nest_range(&rest, a->node, NULL, &low, &high);
        least = low < least ? low : least;
        most = high > most ? high : most;
    }
    if (loop->extent > 1 && magnitude(s.by) <= most - least)
        return false;
    s.c = least;
    nest_each(loop, shift_statement, &s);
    NestBuffer *b = &n->buffers.at[buffer];
    b->size = most - least + 1;
    b->rank = 1;
    b->shape = NULL;
    b->place = NEST_LOCAL;
    b->home = loop;
    b->name = "row";
    return true;
}

bool nest_narrow(Nest *n, int buffer)
{
    NestBuffer *b = &n->buffers.at[buffer];
    if (b->place != NEST_SCRATCH)
        return false;
    NestAccesses all = {0};
    for (size_t i = 0; i < n->root.n; i++) {
        NestAccesses more = nest_accesses_of(n, n->root.at[i], buffer);
        for (size_t k = 0; k < more.n; k++)
            vec_push(&all, n->arena, more.at[k]);
    }
    NestNode *around = loop_around(&all);
    if (!around)
        return false;
    for (size_t i = 0; i < all.n; i++)
        if (!all.at[i].linear)
            return false;
    /* From the outside: within an iteration only its own part is left. */
    NestNode *loops[NEST_TERMS_MOST];
    int depth = 0;
    for (NestNode *l = around; l && depth < NEST_TERMS_MOST; l = l->parent)
        if (l->kind == NEST_LOOP && l->way != NEST_VECTOR)
            loops[depth++] = l;
    int kept = depth;
    while (kept > 0 && drop_loop(n, loops[kept - 1], buffer))
        kept--;
    return kept < depth;
}

/* ---- local memory in a result ------------------------------------------------------------------------------------------------ */

/* What is added to a buffer's position to have that of a result. */
typedef struct Settle {
    Nest *n;
    int buffer, into;
    NestLinear by;
} Settle;

static Te *settled(const Settle *s, const Te *at)
{
    NestLinear l = {0};
    nest_linear(at, &l);
    l.c += s->by.c;
    for (int i = 0; i < s->by.n; i++)
        nest_add_term(&l, s->by.term[i].var, s->by.term[i].by);
    return nest_position(s->n, &l);
}

static Te *settle_node(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    const Settle *s = data;
    (void)b;
    (void)old;
    if (e->kind != TE_NODE_LOAD || e->tensor != s->buffer)
        return NULL;
    return nest_load_like(s->n, e, s->into, settled(s, e->index[0]));
}

static void settle_statement(void *data, NestNode *node)
{
    const Settle *s = data;
    if (node->kind == NEST_LOOP)
        return;
    if (node->value)
        node->value = te_rewrite(&s->n->te, node->value, settle_node, data);
    if (node->buffer != s->buffer)
        return;
    node->at = settled(s, node->at);
    node->buffer = s->into;
}

/* Whether the loops around the statement, inside of `home`, go over each of so many positions once. */
static bool goes_over(const NestNode *home, const NestAccess *a, int64_t size)
{
    int64_t low, high, turns = 1;
    for (const NestNode *l = a->node->parent; l != home; l = l->parent)
        if (l->kind != NEST_LOOP || nest_coefficient(&a->at, l->var) == 0 ||
            __builtin_mul_overflow(turns, l->extent, &turns))
            return false;
    nest_range(&a->at, a->node, NULL, &low, &high);
    return turns == size && low == 0 && high == size - 1 && steps_apart(home, a);
}

bool nest_settle(Nest *n, int buffer)
{
    const NestBuffer *b = &n->buffers.at[buffer];
    const NestAccess *last = NULL, *store = NULL;
    if (b->place != NEST_LOCAL || !b->home)
        return false;
    NestAccesses all = nest_accesses(n, b->home);
    for (size_t i = 0; i < all.n; i++) {
        if (all.at[i].buffer == buffer && !all.at[i].linear)
            return false;
        last = all.at[i].buffer == buffer ? &all.at[i] : last;
    }
    if (!last || last->writes || last->node->kind != NEST_STORE)
        return false;
    for (size_t i = 0; i < all.n; i++)
        if (all.at[i].node == last->node && all.at[i].writes)
            store = &all.at[i];
    const NestBuffer *to = &n->buffers.at[store->buffer];
    if (!store->linear || to->place != NEST_GIVEN || store->buffer < n->n_inputs ||
        !dtype_eq(to->dtype, b->dtype) || !goes_over(b->home, last, b->size))
        return false;
    /* The statement alone writes the result, which nobody reads, and reads of the buffer what it overwrites. */
    for (size_t i = 0; i < n->root.n; i++) {
        NestAccesses any = nest_accesses_of(n, n->root.at[i], store->buffer);
        for (size_t k = 0; k < any.n; k++)
            if (any.at[k].node != store->node)
                return false;
    }
    for (size_t i = 0; i < all.n; i++)
        if (all.at[i].node == last->node && all.at[i].buffer == buffer &&
            !same_position(last, &all.at[i]))
            return false;
    NestNode *part = child_of(b->home, last->node);
    for (size_t i = 0; i < all.n; i++)
        if (all.at[i].buffer == buffer && all.at[i].node != last->node &&
            child_of(b->home, all.at[i].node) == part)
            return false;
    Settle s = {n, buffer, store->buffer, store->at};
    s.by.c -= last->at.c;
    for (int i = 0; i < last->at.n; i++)
        nest_add_term(&s.by, last->at.term[i].var, -last->at.term[i].by);
    for (int i = 0; i < s.by.n; i++) {
        const NestNode *loop = nest_loop_of(store->node, s.by.term[i].var);
        if (nest_holds(b->home, loop) && loop != b->home)
            return false;
    }
    nest_each(b->home, settle_statement, &s);
    return true;
}

static bool is_known(const NestAccess *a)
{
    for (int i = 0; i < a->at.n; i++) {
        const NestNode *loop = nest_loop_of(a->node, a->at.term[i].var);
        /* What lived in a loop that is gone is used by nobody. */
        if (!loop || (loop->way != NEST_UNROLLED && loop->way != NEST_VECTOR))
            return false;
    }
    return a->linear;
}

bool nest_to_registers(Nest *n, int buffer)
{
    NestBuffer *b = &n->buffers.at[buffer];
    if (b->place != NEST_LOCAL || !b->home)
        return false;
    NestAccesses all = nest_accesses_of(n, b->home, buffer);
    for (size_t i = 0; i < all.n; i++)
        if (all.at[i].word || !is_known(&all.at[i]))
            return false;
    b->place = NEST_REGISTER;
    return true;
}
