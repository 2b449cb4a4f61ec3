#include "sched/sched.h"

#include "loop/access.h"

/* ---- what the strategies share --------------------------------------------------------------------------------------- */

int sched_lanes(Sched *s, NestNode *node)
{
    NestAccesses all = nest_accesses(s->n, node);
    size_t widest = 1;
    for (size_t i = 0; i < all.n; i++) {
        size_t size = dtype_size(s->n->buffers.at[all.at[i].buffer].dtype);
        bool own = s->n->buffers.at[all.at[i].buffer].place == NEST_REGISTER;
        widest = size > widest && !own ? size : widest;
    }
    size_t lanes = s->m->vector_bytes / widest;
    return lanes > 16 ? 16 : (int)lanes;
}

static int lanes_for(const Sched *s, int64_t extent)
{
    int lanes = 2;
    while (lanes < s->lanes && lanes < extent)
        lanes *= 2;
    return lanes;
}

static void as_vector(Sched *s, NestNode *loop)
{
    if (nest_run_as(s->n, loop, NEST_VECTOR, lanes_for(s, loop->extent)))
        nest_jam(s->n, loop);
}

void sched_vectors(Sched *s, NestNode *loop, int unroll)
{
    NestNode *inner, *tail, *lane, *none;
    if (loop->extent < 2)
        return;
    if (unroll > 1 && loop->extent >= (int64_t)unroll * s->lanes) {
        if (nest_split(s->n, loop, (int64_t)unroll * s->lanes, &inner, &tail)) {
            if (tail)
                sched_vectors(s, tail, 1);
        } else {
            inner = loop;
        }
        nest_split(s->n, inner, s->lanes, &lane, &none);
        as_vector(s, lane);
        if (nest_run_as(s->n, inner, NEST_UNROLLED, 0))
            nest_jam(s->n, inner);
        return;
    }
    if (!nest_split(s->n, loop, s->lanes, &lane, &tail)) {
        as_vector(s, loop);
        return;
    }
    if (tail && tail->extent > 1)
        as_vector(s, tail);
    as_vector(s, lane);
}

static NestNode *only_loop(const NestNode *loop)
{
    NestNode *inner = loop->body.n == 1 ? loop->body.at[0] : NULL;
    return inner && inner->kind == NEST_LOOP ? inner : NULL;
}

void sched_fuse(Sched *s, NestNode *loop)
{
    for (NestNode *l = loop; l;) {
        if (only_loop(l) && nest_fuse(s->n, l))
            continue;
        l = only_loop(l);
    }
}

double sched_vector_cost(Sched *s, NestNode *loop)
{
    double cost = 0.5;
    NestAccesses all = nest_accesses(s->n, loop);
    for (size_t i = 0; i < all.n; i++) {
        const NestAccess *a = &all.at[i];
        if (a->writes || s->n->buffers.at[a->buffer].place == NEST_REGISTER)
            continue;
        int64_t stride = a->linear ? nest_coefficient(&a->at, loop->var) : 2;
        cost += stride == 0 ? 0 : stride == 1 ? 1 : 16;
    }
    double lanes = loop->extent < s->lanes ? (double)loop->extent : (double)s->lanes;
    return cost / lanes;
}

/* ---- elements on their own --------------------------------------------------------------------------------------------- */

static NestNode *innermost(NestNode *loop)
{
    while (only_loop(loop))
        loop = only_loop(loop);
    return loop;
}

void sched_map(Sched *s, NestNode *node)
{
    if (node->kind != NEST_LOOP)
        return;
    sched_fuse(s, node);
    sched_vectors(s, innermost(node), 2);
}

/* ---- the parts of a program ------------------------------------------------------------------------------------------------ */

typedef struct Kinds {
    bool folds, maps;
} Kinds;

static void find_kinds(void *data, NestNode *node)
{
    Kinds *k = data;
    k->folds |= node->kind == NEST_FOLD;
}

static void schedule(Sched *s, NestNode *node)
{
    Kinds k = {0};
    if (node->kind != NEST_LOOP)
        return;
    nest_each(node, find_kinds, &k);
    s->lanes = sched_lanes(s, node);
    if (k.folds)
        sched_reduction(s, node);
    else
        sched_map(s, node);
}

static bool is_empty_reduction(const TeStage *st)
{
    for (int a = 0; a < st->n_reduced; a++)
        if (st->reduced[a] == 0)
            return true;
    return false;
}

Nest *sched_program(Ctx *cx, Arena *arena, const Machine *m, const TeProgram *p, const char **why)
{
    p = window_program(cx, arena, p);
    if (!p)
        return NULL;
    const NestProduct **products =
        arena_alloc_must(arena, (size_t)p->n_stages + 1, sizeof *products);
    for (int i = 0; i < p->n_stages; i++) {
        if (is_empty_reduction(&p->stages[i])) {
            *why = p->stages[i].name;
            return NULL;
        }
        products[i] = product_of(arena, p, i);
    }
    Sched s = {.cx = cx, .n = nest_of(cx, arena, p, products), .m = m};
    /* Strategies change what stands in the root. */
    NestBlock parts = {0};
    for (size_t i = 0; i < s.n->root.n; i++)
        vec_push(&parts, arena, s.n->root.at[i]);
    for (size_t i = 0; i < parts.n; i++)
        schedule(&s, parts.at[i]);
    return s.n;
}
