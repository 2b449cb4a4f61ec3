#include "sched/gpu.h"

#include "loop/access.h"

/* ---- what the ways share ---------------------------------------------------------------------------------------------- */

GpuChain gpu_chain(Gpu *s, NestNode *node)
{
    GpuChain c = {.turns = 1};
    for (NestNode *l = node; l && l->kind == NEST_LOOP; l = nest_only_loop(l)) {
        if (l->way != NEST_SERIAL || c.n == GPU_CHAIN_MOST || !nest_independent(s->n, l))
            break;
        c.at[c.n++] = l;
        c.turns *= l->extent;
    }
    return c;
}

void gpu_fuse(Gpu *s, NestNode *loop)
{
    while (loop && loop->kind == NEST_LOOP)
        if (!nest_only_loop(loop) || !nest_fuse(s->n, loop))
            loop = nest_only_loop(loop);
}

static Te *axis(Gpu *s, const NestNode *loop)
{
    return te_axis(&s->n->te, loop->var);
}

void gpu_bind(Gpu *s, const GpuChain *chain, Te *number)
{
    TeBuilder *b = &s->n->te;
    int64_t inside = chain->turns;
    /* The outermost variable leaves its extent where the number is beyond all turns. */
    for (int i = 0; i < chain->n; i++) {
        int64_t extent = chain->at[i]->extent;
        inside /= extent;
        Te *value = te_binary(b, TE_DIV, number, te_int(b, inside));
        nest_bind(chain->at[i], i == 0 ? value : te_binary(b, TE_MOD, value, te_int(b, extent)));
    }
}

void gpu_spread(Gpu *s, const GpuChain *chain, int64_t threads)
{
    Nest *n = s->n;
    TeBuilder *b = &n->te;
    NestNode *top = chain->at[0], *parent = top->parent;
    size_t at = nest_index(n, top);
    NestNode *grid = nest_loop(n, "block", (chain->turns + threads - 1) / threads);
    NestNode *lane = nest_loop(n, "thread", threads);
    grid->way = NEST_GRID;
    lane->way = NEST_THREADS;
    nest_remove(n, top);
    nest_insert(n, parent, at, grid);
    nest_append(n, grid, lane);
    Te *number = te_binary(b, TE_ADD, te_binary(b, TE_MUL, axis(s, grid), te_int(b, threads)),
                           axis(s, lane));
    nest_append(n, lane, top);
    gpu_bind(s, chain, number);
}

static int64_t threads_for(const Gpu *s, int64_t turns)
{
    int64_t threads = NEST_WARP;
    while (threads < s->m->threads && threads < turns)
        threads *= 2;
    return threads;
}

/* ---- elements on their own ---------------------------------------------------------------------------------------------- */

/* Bytes and elements of the widest access. */
#define WIDE_BYTES 16
#define WIDE_MOST 8

typedef struct Found {
    bool any;
} Found;

static void find_fold(void *data, NestNode *node)
{
    ((Found *)data)->any |= node->kind != NEST_LOOP && node->kind != NEST_STORE;
}

/* Elements side by side along the loop that all accesses can take at once; 1: there are none. */
static int64_t width_of(Gpu *s, NestNode *loop)
{
    NestAccesses all = nest_accesses(s->n, loop);
    size_t widest = 1;
    for (size_t i = 0; i < all.n; i++) {
        size_t size = dtype_size(s->n->buffers.at[all.at[i].buffer].dtype);
        widest = size > widest ? size : widest;
    }
    int64_t width = WIDE_BYTES / (int64_t)widest;
    width = width > WIDE_MOST ? WIDE_MOST : width;
    for (size_t i = 0; i < all.n && width > 1; i++) {
        const NestAccess *a = &all.at[i];
        int64_t by = a->linear ? nest_coefficient(&a->at, loop->var) : 2;
        if (by == 0)
            continue;
        bool fits = by == 1 && a->at.c % width == 0 &&
                    !(a->buffer < s->n->n_inputs && s->loose && s->loose[a->buffer]);
        for (int k = 0; k < a->at.n; k++)
            fits &= a->at.term[k].var == loop->var || a->at.term[k].by % width == 0;
        width = fits ? width : 1;
    }
    return width;
}

/* The innermost loop's turns in vectors. What is left over is a kernel of its own behind it, where the loop stands alone. */
static void widen(Gpu *s, GpuChain *c)
{
    NestNode *last = c->at[c->n - 1], *lanes, *tail = NULL;
    int64_t width = c->turns < s->m->wide_least ? 1 : width_of(s, last);
    if (width == 1 || (last->extent % width != 0 && c->n > 1) ||
        !nest_split(s->n, last, width, &lanes, &tail))
        return;
    if (tail)
        gpu_elements(s, tail);
    nest_run_as(s->n, lanes, NEST_VECTOR, (int)width);
    c->turns = 1;
    for (int i = 0; i < c->n; i++)
        c->turns *= c->at[i]->extent;
}

bool gpu_elements(Gpu *s, NestNode *node)
{
    Found folds = {false};
    nest_each(node, find_fold, &folds);
    if (!folds.any)
        gpu_fuse(s, node);
    GpuChain c = gpu_chain(s, node);
    if (!folds.any)
        widen(s, &c);
    gpu_spread(s, &c, threads_for(s, c.turns));
    return true;
}

/* ---- the parts of a program ------------------------------------------------------------------------------------------------ */

static GpuWay *const ways[] = {gpu_rows, gpu_turn, gpu_elements};

/* Whether the node is no kernel yet, and no part before has taken it along. */
static bool is_open(const Gpu *s, const NestNode *node)
{
    for (size_t i = 0; i < s->n->root.n; i++)
        if (s->n->root.at[i] == node)
            return node->way != NEST_GRID;
    return false;
}

/* Products are built of the program's stages; all else is made of plain loops. */
typedef struct Parts {
    Gpu *s;
    int *behind; /* by stage: the product that it is the tail of, + 1 */
    bool *inside; /* by stage: another makes it on its way */
} Parts;

static bool build_part(void *data, Nest *n, int stage)
{
    Parts *parts = data;
    parts->s->n = n;
    if (parts->inside[stage])
        return true;
    if (parts->behind[stage]) {
        gpu_product(parts->s, parts->behind[stage] - 1, stage);
        return true;
    }
    if (gpu_scatter(parts->s, stage))
        return true;
    if (!gpu_is_product(parts->s, stage))
        return false;
    int tail = gpu_tail(parts->s, stage);
    if (tail >= 0 && !parts->behind[tail])
        parts->behind[tail] = stage + 1;
    else
        gpu_product(parts->s, stage, -1);
    return true;
}

Nest *sched_gpu(Ctx *cx, Arena *arena, const GpuMachine *m, const TeProgram *p, const bool *loose)
{
    Gpu s = {.cx = cx, .arena = arena, .m = m, .p = p, .loose = loose};
    Parts parts = {&s, arena_alloc_must(arena, (size_t)p->n_stages + 1, sizeof(int)),
                   arena_alloc_must(arena, (size_t)p->n_stages + 1, sizeof(bool))};
    for (int i = 0; i < p->n_stages; i++)
        gpu_attended(&s, i, parts.inside);
    s.n = nest_of(cx, arena, p, &(NestParts){.loops = true, .build = build_part, .data = &parts});
    NestBlock all = {0};
    for (size_t i = 0; i < s.n->root.n; i++)
        vec_push(&all, arena, s.n->root.at[i]);
    for (size_t i = 0; i < all.n; i++)
        for (size_t k = 0; is_open(&s, all.at[i]) && k < sizeof ways / sizeof *ways; k++)
            if (ways[k](&s, all.at[i]))
                break;
    return s.n;
}
