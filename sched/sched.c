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

/* The loop along which a load is contiguous that the vectors of `inner` take from scattered places; NULL: there is none. */
static NestNode *crossing(Sched *s, NestNode *node, const NestNode *inner)
{
    NestAccesses all = nest_accesses(s->n, node);
    for (size_t i = 0; i < all.n; i++) {
        const NestAccess *a = &all.at[i];
        int64_t along = a->linear ? nest_coefficient(&a->at, inner->var) : 0;
        if (a->writes || along == 0 || along == 1)
            continue;
        for (NestNode *l = node; l != inner; l = only_loop(l))
            if (nest_coefficient(&a->at, l->var) == 1)
                return l;
    }
    return NULL;
}

/* Turns of the crossing loop that read the same lines of the cache, next to each other. */
#define CROSSING_BLOCK 16

/* Blocks of a transposition: the crossing loop's turns of a block stand right around the vectors. */
static void sched_blocks(Sched *s, NestNode *cross, NestNode *inner)
{
    NestNode *lane, *tail, *block = cross;
    if (nest_split(s->n, inner, s->lanes, &lane, &tail)) {
        /* What is left over is a loop of its own beside the blocks. */
        if (tail && tail->extent > 1)
            nest_run_as(s->n, tail, NEST_VECTOR, lanes_for(s, tail->extent));
        nest_run_as(s->n, lane, NEST_VECTOR, s->lanes);
    } else {
        nest_run_as(s->n, inner, NEST_VECTOR, lanes_for(s, inner->extent));
    }
    if (!nest_split(s->n, cross, CROSSING_BLOCK, &block, &tail))
        return;
    while (only_loop(block) && only_loop(block)->way == NEST_SERIAL && nest_reorder(s->n, block))
        block = only_loop(block);
}

void sched_map(Sched *s, NestNode *node)
{
    if (node->kind != NEST_LOOP)
        return;
    sched_fuse(s, node);
    NestNode *inner = innermost(node), *cross = crossing(s, node, inner);
    if (cross && inner->extent > s->lanes)
        sched_blocks(s, cross, inner);
    else
        sched_vectors(s, inner, 2);
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
    if (sched_rows(s, node))
        return;
    if (k.folds)
        sched_reduction(s, node);
    else
        sched_map(s, node);
}

/* ---- threads --------------------------------------------------------------------------------------------------------------- */

/* Elements that are worth the start of a loop on several threads. */
#define PARALLEL_WORK 262144.0

static double work_of(const NestNode *node)
{
    double work = node->kind == NEST_LOOP ? 0 : 1;
    for (size_t i = 0; i < node->body.n; i++)
        work += work_of(node->body.at[i]);
    return node->kind == NEST_LOOP ? work * (double)node->extent : work;
}

typedef struct Faults {
    Sched *s;
    bool any;
} Faults;

static void find_fault(void *data, NestNode *node)
{
    Faults *f = data;
    f->any |= node->value && te_holds_fault(f->s->n->arena, node->value);
}

/* What may stop with an error runs on the thread that reports it. */
static void spread(Sched *s, NestNode *node)
{
    Faults f = {.s = s};
    if (s->m->threads < 2 || node->kind != NEST_LOOP || work_of(node) < PARALLEL_WORK)
        return;
    nest_each(node, find_fault, &f);
    if (!f.any)
        nest_run_as(s->n, node, NEST_PARALLEL, 0);
}

/* Whether another part took the node in. */
static bool gone(Sched *s, const NestNode *node)
{
    for (size_t i = 0; i < s->n->root.n; i++)
        if (s->n->root.at[i] == node)
            return false;
    return true;
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
    p = window_program(cx, arena, m, p);
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
        if (!gone(&s, parts.at[i]))
            schedule(&s, parts.at[i]);
    for (size_t i = 0; i < s.n->root.n; i++)
        spread(&s, s.n->root.at[i]);
    return s.n;
}
