/* Tensors that are turned: what lies side by side along one axis is stored side by side along another. A block brings a square of it to
 * shared memory, as it lies, and stores it as it is wanted. */
#include "loop/access.h"
#include "sched/gpu.h"
#include "te/walk.h"

/* The side of a square, the threads of a block, and how many rows of the square these are. */
#define SQUARE 32
#define THREADS 256
#define ROWS (THREADS / SQUARE)
/* Squares of one kernel, and the least extent that is worth one. */
#define TURNED_MOST 4
#define SIDE_LEAST 8

typedef struct Turn {
    Gpu *s;
    Nest *n;
    NestNode *store;
    NestNode *across, *along; /* the loops by which it is read and stored side by side */
    const Te *load[TURNED_MOST]; /* those that are turned */
    int tile[TURNED_MOST];
    int loads;
    bool fits;
    Te *thread, *x,
        *y; /* the thread's number, and the square's place in units of squares: along, across */
} Turn;

static void find_turned(void *data, Te *e)
{
    Turn *t = data;
    NestLinear at;
    if (e->kind != TE_NODE_LOAD || e->n != 1 || e->otherwise || !nest_linear(e->index[0], &at))
        return;
    int64_t by = nest_coefficient(&at, t->along->var);
    if (by == 0 || by == 1 || by == -1)
        return;
    NestNode *across = NULL;
    for (NestNode *l = t->along->parent; l && !across; l = l->parent)
        across = nest_coefficient(&at, l->var) == 1 ? l : NULL;
    if (!across)
        return;
    t->fits = t->fits && t->loads < TURNED_MOST && (!t->across || t->across == across);
    t->across = across;
    if (t->fits)
        t->load[t->loads++] = e;
}

static Te *number(Turn *t, int64_t v)
{
    return te_int(&t->n->te, v);
}

static Te *of(Turn *t, TeOp op, Te *a, int64_t v)
{
    return te_binary(&t->n->te, op, a, number(t, v));
}

static Te *plus(Turn *t, Te *a, Te *b)
{
    return te_binary(&t->n->te, TE_ADD, a, b);
}

static NestNode *let(Turn *t, NestNode *in, const char *name, int64_t extent, Te *value)
{
    NestNode *loop = nest_loop(t->n, name, extent);
    nest_bind(loop, value);
    nest_append(t->n, in, loop);
    return loop;
}

/* The rows of the square that a thread sees to, as straight code: `*row` and `*column` in the square. */
static NestNode *over_rows(Turn *t, NestNode *in, Te **row, Te **column)
{
    TeBuilder *b = &t->n->te;
    NestNode *turn = nest_loop(t->n, "turn", SQUARE / ROWS);
    turn->way = NEST_UNROLLED;
    nest_append(t->n, in, turn);
    NestNode *y =
        let(t, turn, "row", SQUARE,
            plus(t, of(t, TE_MUL, te_axis(b, turn->var), ROWS), of(t, TE_DIV, t->thread, SQUARE)));
    NestNode *x = let(t, y, "column", SQUARE, of(t, TE_MOD, t->thread, SQUARE));
    *row = te_axis(b, y->var);
    *column = te_axis(b, x->var);
    return x;
}

/* A row more than wide, so that neither way through it meets the same bank often. */
static Te *in_tile(Turn *t, Te *row, Te *column)
{
    return plus(t, of(t, TE_MUL, row, SQUARE + 1), column);
}

static void put_variable(Turn *t, NestNode *statement, const NestNode *loop, const NestNode *now)
{
    NestLinear with = {.n = 1};
    with.term[0].var = now->var;
    with.term[0].by = 1;
    nest_substitute(t->n, statement, loop->var, &with);
}

static void bring(Turn *t, NestNode *in)
{
    Te *row, *column;
    NestNode *at = over_rows(t, in, &row, &column);
    NestNode *across =
        let(t, at, "across", t->across->extent, plus(t, of(t, TE_MUL, t->y, SQUARE), column));
    NestNode *along =
        let(t, across, "along", t->along->extent, plus(t, of(t, TE_MUL, t->x, SQUARE), row));
    for (int i = 0; i < t->loads; i++) {
        Te *load = (Te *)(uintptr_t)t->load[i];
        NestNode *s = nest_store(t->n, t->tile[i], in_tile(t, row, column), load);
        nest_append(t->n, along, s);
        put_variable(t, s, t->across, across);
        put_variable(t, s, t->along, along);
    }
}

typedef struct Instead {
    Turn *t;
    Te *at;
} Instead;

static Te *from_tile(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    const Instead *in = data;
    (void)b;
    (void)e;
    for (int i = 0; i < in->t->loads; i++)
        if (in->t->load[i] == old)
            return nest_load(in->t->n, in->t->tile[i], in->at);
    return NULL;
}

static void store(Turn *t, NestNode *in)
{
    Te *row, *column;
    NestNode *at = over_rows(t, in, &row, &column);
    Instead instead = {t, in_tile(t, column, row)};
    nest_bind(t->across, plus(t, of(t, TE_MUL, t->y, SQUARE), row));
    nest_bind(t->along, plus(t, of(t, TE_MUL, t->x, SQUARE), column));
    nest_append(t->n, at, t->across);
    nest_append(t->n, t->across, t->along);
    nest_append(t->n, t->along, t->store);
    t->store->value = te_rewrite(&t->n->te, t->store->value, from_tile, &instead);
}

static int64_t squares(const NestNode *loop)
{
    return (loop->extent + SQUARE - 1) / SQUARE;
}

static void build(Turn *t, GpuChain *chain)
{
    Nest *n = t->n;
    TeBuilder *b = &n->te;
    NestNode *parent = chain->at[0]->parent;
    size_t place = nest_index(n, chain->at[0]);
    GpuChain others = {.turns = 1};
    nest_remove(n, t->store);
    for (int i = 0; i < chain->n; i++) {
        nest_remove(n, chain->at[i]);
        if (chain->at[i] == t->across || chain->at[i] == t->along)
            continue;
        others.at[others.n++] = chain->at[i];
        others.turns *= chain->at[i]->extent;
    }
    int64_t across = squares(t->across), along = squares(t->along);
    NestNode *grid = nest_loop(n, "block", across * along * others.turns);
    NestNode *thread = nest_loop(n, "thread", THREADS), *in = thread;
    grid->way = NEST_GRID;
    thread->way = NEST_THREADS;
    nest_insert(n, parent, place, grid);
    nest_append(n, grid, thread);
    Te *block = te_axis(b, grid->var);
    t->thread = te_axis(b, thread->var);
    t->x = of(t, TE_MOD, block, along);
    t->y = of(t, TE_MOD, of(t, TE_DIV, block, along), across);
    gpu_bind(t->s, &others, of(t, TE_DIV, block, along * across));
    for (int i = 0; i < others.n; i++) {
        nest_append(n, in, others.at[i]);
        in = others.at[i];
    }
    for (int i = 0; i < t->loads; i++) {
        NestBuffer tile = {.name = "square",
                           .dtype = n->buffers.at[t->load[i]->tensor].dtype,
                           .place = NEST_SHARED,
                           .size = SQUARE * (SQUARE + 1),
                           .home = grid};
        t->tile[i] = nest_buffer(n, tile);
    }
    bring(t, in);
    nest_append(n, in, nest_barrier(n));
    store(t, in);
}

/* Loops alone in each other around one store. */
static bool is_map(const NestNode *node)
{
    while (nest_only_loop(node))
        node = nest_only_loop(node);
    return node->kind == NEST_LOOP && node->body.n == 1 && node->body.at[0]->kind == NEST_STORE;
}

bool gpu_turn(Gpu *s, NestNode *node)
{
    if (!is_map(node))
        return false;
    gpu_fuse(s, node);
    GpuChain c = gpu_chain(s, node);
    Turn t = {.s = s, .n = s->n, .fits = true};
    t.along = c.n > 1 ? c.at[c.n - 1] : NULL;
    if (!t.along || nest_only_loop(t.along))
        return false;
    t.store = t.along->body.at[0];
    PtrMap seen = {0};
    te_each(s->arena, &seen, t.store->value, find_turned, &t);
    ptrmap_deinit(&seen);
    if (!t.fits || t.loads == 0 || t.along->extent < SIDE_LEAST || t.across->extent < SIDE_LEAST)
        return false;
    build(&t, &c);
    return true;
}
