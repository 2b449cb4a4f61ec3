/* Sums of products of two things: matrix products, one or many, and convolutions, which are products of weights and windows.
 *
 * The axes of the result fall into those that only the first factor depends on (rows), only the second (columns) and both (a product each).
 * A block makes a tile of the result: step by step its threads bring pieces of both factors to shared memory, whatever they are made of,
 * and each adds the products of its rows and columns in registers. What is done with the sums alone is done before they are stored. */
#include "sched/gpu.h"
#include "te/walk.h"

/* A block's tile, the length of a step, and a thread's share of rows and columns, which come in groups of neighbours. */
typedef struct Tile {
    int64_t rows, columns, depth, own, lanes;
} Tile;

static const Tile tiles[] = {{128, 128, 8, 8, 4}, {64, 64, 8, 4, 4}, {32, 32, 16, 2, 2}};

/* Blocks that keep a card busy, and the least sizes of what is worth a tile. */
#define BLOCKS_ENOUGH 128
#define SIDE_LEAST 8

typedef struct Side {
    int axis[TENSOR_RANK_MOST];
    int n;
    int64_t extent;
} Side;

typedef struct Product {
    Side batch, rows, columns, folds;
    bool turned; /* the first factor is that of the columns */
} Product;

/* ---- which stages are products ------------------------------------------------------------------------------------------- */

typedef struct Depends {
    uint64_t axes;
} Depends;

static void find_axis(void *data, Te *e)
{
    Depends *d = data;
    if (e->kind == TE_NODE_AXIS)
        d->axes |= (uint64_t)1 << e->axis;
}

static uint64_t axes_of(Arena *arena, Te *e)
{
    Depends d = {0};
    PtrMap seen = {0};
    te_each(arena, &seen, e, find_axis, &d);
    ptrmap_deinit(&seen);
    return d.axes;
}

static bool add_axis(Side *s, int axis, int64_t extent)
{
    if (s->n == TENSOR_RANK_MOST)
        return false;
    s->axis[s->n++] = axis;
    s->extent *= extent;
    return true;
}

static bool product_of(Gpu *s, int stage, Product *p)
{
    const TeStage *st = &s->p->stages[stage];
    bool order = dtype_is_float(st->dtype) && !s->m->reorders;
    *p = (Product){{.extent = 1}, {.extent = 1}, {.extent = 1}, {.extent = 1}, false};
    if (st->reduce != TE_SUM || st->body->kind != TE_NODE_BINARY || st->body->op != TE_MUL ||
        order || st->rank == 0 || te_holds_fault(s->arena, st->body))
        return false;
    uint64_t a = axes_of(s->arena, st->body->a), b = axes_of(s->arena, st->body->b);
    /* The last axis, along which results lie side by side, is of the columns. */
    int last = st->rank - 1;
    while (last > 0 && st->shape[last] == 1)
        last--;
    p->turned = a >> last & 1;
    bool fits = true;
    for (int i = 0; i < st->rank; i++) {
        bool of_rows = (p->turned ? b : a) >> i & 1, of_columns = (p->turned ? a : b) >> i & 1;
        Side *side = of_rows == of_columns ? &p->batch : of_rows ? &p->rows : &p->columns;
        fits = fits && (st->shape[i] == 1 || add_axis(side, i, st->shape[i]));
    }
    for (int i = 0; i < st->n_reduced; i++)
        fits = fits && add_axis(&p->folds, st->rank + i, st->reduced[i]);
    return fits && p->rows.extent >= SIDE_LEAST && p->columns.extent >= SIDE_LEAST &&
           p->folds.extent >= SIDE_LEAST && p->batch.extent <= 65535;
}

/* ---- what is done with the sums ---------------------------------------------------------------------------------------------- */

typedef struct Readers {
    int tensor, stage, at; /* the stage that reads it; the one that is looked at */
    int loads;
    const Te *load;
} Readers;

static void find_load(void *data, Te *e)
{
    Readers *r = data;
    if (e->kind != TE_NODE_LOAD || e->tensor != r->tensor)
        return;
    r->loads++;
    r->stage = r->at;
    r->load = e;
}

int gpu_tail(Gpu *s, int stage)
{
    const TeProgram *p = s->p;
    Readers r = {.tensor = p->n_inputs + stage};
    for (r.at = 0; r.at < p->n_stages; r.at++) {
        PtrMap seen = {0};
        te_each(s->arena, &seen, p->stages[r.at].body, find_load, &r);
        ptrmap_deinit(&seen);
    }
    for (int i = 0; i < p->n_outputs; i++)
        r.loads += p->outputs[i] == r.tensor;
    const TeStage *from = &p->stages[stage], *to = &p->stages[r.stage];
    if (r.loads != 1 || !r.load || to->reduce != TE_NO_REDUCE || to->rank != from->rank ||
        r.load->otherwise || te_holds_fault(s->arena, to->body))
        return -1;
    for (int i = 0; i < to->rank; i++) {
        const Te *at = r.load->index[i];
        bool same = from->shape[i] == 1 ||
                    (at->kind == TE_NODE_AXIS && at->axis == i && to->shape[i] == from->shape[i]);
        if (!same || to->shape[i] != from->shape[i])
            return -1;
    }
    return r.stage;
}

/* ---- building ------------------------------------------------------------------------------------------------------------------ */

typedef struct Build {
    Gpu *s;
    Nest *n;
    TeBuilder *b;
    const Product *p;
    const Tile *t;
    int stage, tail; /* -1: none */
    NestNode *grid, *body; /* of the innermost loop; where code goes */
    Te *batch, *row, *column, *thread; /* numbers of the block, and the thread's */
    Te *ty, *tx; /* places of the thread in the tile */
    int64_t threads;
    DType dtype; /* of the sums */
    int acc, pieces[2], own[2]; /* buffers: of rows and of columns */
} Build;

static Te *plus(Build *w, Te *a, Te *b)
{
    return te_binary(w->b, TE_ADD, a, b);
}

static Te *times(Build *w, Te *a, int64_t by)
{
    return te_binary(w->b, TE_MUL, a, te_int(w->b, by));
}

static Te *by(Build *w, TeOp op, Te *a, int64_t v)
{
    return te_binary(w->b, op, a, te_int(w->b, v));
}

static NestNode *loop_in(Build *w, NestNode *in, const char *name, NestWay way, int64_t extent)
{
    NestNode *loop = nest_loop(w->n, name, extent);
    loop->way = way;
    nest_append(w->n, in, loop);
    return loop;
}

static NestNode *let(Build *w, NestNode *in, const char *name, int64_t extent, Te *value)
{
    NestNode *loop = loop_in(w, in, name, NEST_BOUND, extent);
    loop->value = value;
    return loop;
}

static Te *var(Build *w, const NestNode *loop)
{
    return te_axis(w->b, loop->var);
}

static int buffer(Build *w, const char *name, DType dtype, NestPlace place, int64_t size,
                  NestNode *home)
{
    return nest_buffer(
        w->n,
        (NestBuffer){.name = name, .dtype = dtype, .place = place, .size = size, .home = home});
}

/* The side's axes become variables that together are the number, which is less than the side. */
static NestNode *bind_side(Build *w, NestNode *in, const Side *side, Te *number, NestLinear *axes)
{
    NestNode *flat = let(w, in, "n", side->extent, number);
    int64_t inside = side->extent;
    in = flat;
    for (int i = 0; i < side->n; i++) {
        const TeStage *st = &w->s->p->stages[w->stage];
        int axis = side->axis[i];
        int64_t extent = axis < st->rank ? st->shape[axis] : st->reduced[axis - st->rank];
        NestLinear *at = &axes[axis];
        *at = (NestLinear){.n = 1};
        at->term[0].var = flat->var;
        at->term[0].by = 1;
        if (side->n == 1)
            break;
        inside /= extent;
        Te *value = by(w, TE_DIV, var(w, flat), inside);
        in = let(w, in, "a", extent, i == 0 ? value : by(w, TE_MOD, value, extent));
        at->term[0].var = in->var;
    }
    return in;
}

static NestLinear *no_axes(Build *w)
{
    const TeStage *st = &w->s->p->stages[w->stage];
    return arena_alloc_must(w->n->arena, (size_t)(st->rank + st->n_reduced) + 1,
                            sizeof(NestLinear));
}

/* Whether threads side by side had better go along the folds: there the factor lies one behind the other. */
static bool goes_along_folds(Build *w, const Side *side, const Te *factor)
{
    TeAffine at;
    int fold = w->p->folds.axis[w->p->folds.n - 1], axis = side->axis[side->n - 1];
    while (factor->kind == TE_NODE_CAST)
        factor = factor->a;
    return factor->kind == TE_NODE_LOAD && te_load_affine(w->s->p, factor, &at) &&
           at.stride[fold] == 1 && at.stride[axis] != 1;
}

/* A step between the folds of a piece in shared memory: so that neither way of writing it meets the same bank often. */
static int64_t pitch(const Build *w, int64_t extent)
{
    return extent + w->t->lanes;
}

/* Brings a piece of a factor to shared memory: what lies outside of it is 0. */
static void bring(Build *w, NestNode *in, Te *step, bool columns)
{
    const Side *side = columns ? &w->p->columns : &w->p->rows;
    int64_t extent = columns ? w->t->columns : w->t->rows, depth = w->t->depth;
    const TeStage *st = &w->s->p->stages[w->stage];
    bool second = columns != w->p->turned;
    const Te *factor = second ? st->body->b : st->body->a;
    bool along = goes_along_folds(w, side, factor);
    NestNode *turn = loop_in(w, in, "turn", NEST_UNROLLED, extent * depth / w->threads);
    Te *number = plus(w, times(w, var(w, turn), w->threads), w->thread);
    NestNode *place = let(w, turn, "place", extent,
                          along ? by(w, TE_DIV, number, depth) : by(w, TE_MOD, number, extent));
    NestNode *fold = let(w, place, "fold", depth,
                         along ? by(w, TE_MOD, number, depth) : by(w, TE_DIV, number, extent));
    int piece = buffer(w, "value", w->dtype, NEST_REGISTER, 1, fold);
    Te *zero = te_int(w->b, 0);
    nest_append(w->n, fold, nest_store(w->n, piece, zero, te_number(w->b, w->dtype, 0)));
    NestLinear *axes = no_axes(w);
    NestNode *inner = bind_side(w, fold, &w->p->batch, w->batch, axes);
    Te *block = times(w, columns ? w->column : w->row, extent);
    inner = bind_side(w, inner, side, plus(w, block, var(w, place)), axes);
    inner = bind_side(w, inner, &w->p->folds, plus(w, times(w, step, depth), var(w, fold)), axes);
    Te *body = nest_expression(w->n, w->s->p, w->stage, axes, -1, NULL);
    Te *value = te_cast(w->b, w->dtype, second ? body->b : body->a);
    nest_append(w->n, inner, nest_store(w->n, piece, zero, value));
    Te *to = plus(w, times(w, var(w, fold), pitch(w, extent)), var(w, place));
    nest_append(w->n, fold, nest_store(w->n, w->pieces[columns], to, nest_load(w->n, piece, zero)));
}

/* Where the thread's own row or column of the tile is: groups of neighbours, far from each other, so that threads read side by side. */
static Te *place_in_tile(Build *w, bool columns, Te *group, Te *lane)
{
    int64_t extent = columns ? w->t->columns : w->t->rows, groups = w->t->own / w->t->lanes;
    Te *at = plus(w, times(w, columns ? w->tx : w->ty, w->t->lanes), lane);
    return groups > 1 ? plus(w, times(w, group, extent / groups), at) : at;
}

/* The thread's part of a fold's rows or columns comes to registers. */
static void take(Build *w, NestNode *in, Te *fold, bool columns)
{
    int64_t extent = columns ? w->t->columns : w->t->rows;
    NestNode *group = loop_in(w, in, "group", NEST_UNROLLED, w->t->own / w->t->lanes);
    NestNode *lane = loop_in(w, group, "lane", NEST_VECTOR, w->t->lanes);
    lane->lanes = (int)w->t->lanes;
    Te *own = plus(w, times(w, var(w, group), w->t->lanes), var(w, lane));
    Te *at = plus(w, times(w, fold, pitch(w, extent)),
                  place_in_tile(w, columns, var(w, group), var(w, lane)));
    nest_append(w->n, lane,
                nest_store(w->n, w->own[columns], own, nest_load(w->n, w->pieces[columns], at)));
}

/* Loops over the thread's sums: a row each, and vectors of columns. */
static NestNode *over_sums(Build *w, NestNode *in, NestWay way, NestNode **row, NestNode **group)
{
    *row = loop_in(w, in, "row", NEST_UNROLLED, w->t->own);
    *group = loop_in(w, *row, "group", NEST_UNROLLED, w->t->own / w->t->lanes);
    NestNode *lane = loop_in(w, *group, "lane", way, w->t->lanes);
    lane->lanes = way == NEST_VECTOR ? (int)w->t->lanes : 0;
    return lane;
}

static Te *column_of(Build *w, NestNode *group, NestNode *lane)
{
    return plus(w, times(w, var(w, group), w->t->lanes), var(w, lane));
}

static Te *sum_place(Build *w, NestNode *row, NestNode *group, NestNode *lane)
{
    return plus(w, times(w, var(w, row), w->t->own), column_of(w, group, lane));
}

static void make_steps(Build *w)
{
    NestNode *row, *group, *lane = over_sums(w, w->body, NEST_VECTOR, &row, &group);
    Te *at = sum_place(w, row, group, lane);
    nest_append(w->n, lane, nest_store(w->n, w->acc, at, te_number(w->b, w->dtype, 0)));
    int64_t steps = (w->p->folds.extent + w->t->depth - 1) / w->t->depth;
    NestNode *step = loop_in(w, w->body, "step", NEST_SERIAL, steps);
    bring(w, step, var(w, step), false);
    bring(w, step, var(w, step), true);
    nest_append(w->n, step, nest_barrier(w->n));
    NestNode *fold = loop_in(w, step, "fold", NEST_UNROLLED, w->t->depth);
    take(w, fold, var(w, fold), false);
    take(w, fold, var(w, fold), true);
    lane = over_sums(w, fold, NEST_VECTOR, &row, &group);
    Te *a = nest_load(w->n, w->own[0], var(w, row));
    Te *b = nest_load(w->n, w->own[1], column_of(w, group, lane));
    at = sum_place(w, row, group, lane);
    nest_append(w->n, lane, nest_fold(w->n, TE_SUM, w->acc, at, te_binary(w->b, TE_MUL, a, b)));
    nest_append(w->n, step, nest_barrier(w->n));
}

/* The sums, or what the tail makes of them, where they belong. */
static void store_sums(Build *w)
{
    const TeProgram *p = w->s->p;
    const TeStage *st = &p->stages[w->tail < 0 ? w->stage : w->tail];
    int64_t lanes = w->t->lanes;
    NestNode *row, *group, *lane = over_sums(w, w->body, NEST_UNROLLED, &row, &group);
    NestLinear *axes = no_axes(w), at = {0};
    Te *own_row = place_in_tile(w, false, by(w, TE_DIV, var(w, row), lanes),
                                by(w, TE_MOD, var(w, row), lanes));
    Te *own_column = place_in_tile(w, true, var(w, group), var(w, lane));
    NestNode *in = bind_side(w, lane, &w->p->batch, w->batch, axes);
    in = bind_side(w, in, &w->p->rows, plus(w, times(w, w->row, w->t->rows), own_row), axes);
    in = bind_side(w, in, &w->p->columns, plus(w, times(w, w->column, w->t->columns), own_column),
                   axes);
    Te *sum = nest_load(w->n, w->acc, sum_place(w, row, group, lane));
    sum = te_cast(w->b, p->stages[w->stage].dtype, sum);
    int64_t stride = 1;
    for (int i = st->rank - 1; i >= 0; stride *= st->shape[i--])
        for (int k = 0; k < axes[i].n; k++)
            nest_add_term(&at, axes[i].term[k].var, axes[i].term[k].by * stride);
    int to = p->n_inputs + (w->tail < 0 ? w->stage : w->tail);
    if (w->tail >= 0)
        sum = nest_expression(w->n, p, w->tail, axes, p->n_inputs + w->stage, sum);
    nest_append(w->n, in, nest_store(w->n, to, nest_position(w->n, &at), sum));
}

static int64_t blocks_of(const Product *p, const Tile *t)
{
    return p->batch.extent * ((p->rows.extent + t->rows - 1) / t->rows) *
           ((p->columns.extent + t->columns - 1) / t->columns);
}

/* The largest tile that gives every part of the card something to do. */
static const Tile *tile_of(const Product *p)
{
    const Tile *t = tiles, *last = tiles + sizeof tiles / sizeof *tiles - 1;
    while (t < last && (blocks_of(p, t) < BLOCKS_ENOUGH || p->rows.extent * 2 <= t->rows ||
                        p->columns.extent * 2 <= t->columns))
        t++;
    return t;
}

bool gpu_is_product(Gpu *s, int stage)
{
    Product p;
    return product_of(s, stage, &p);
}

void gpu_product(Gpu *s, int stage, int tail)
{
    Product p;
    product_of(s, stage, &p);
    const Tile *t = tile_of(&p);
    DType dtype = s->p->stages[stage].dtype;
    Build w = {.s = s, .n = s->n, .b = &s->n->te, .p = &p, .t = t, .stage = stage, .tail = tail};
    w.dtype = dtype_is_float(dtype) && dtype.bits == 16 ? (DType){DTYPE_CODE_FLOAT, 32, 1} : dtype;
    int64_t across = t->columns / t->own;
    w.threads = across * (t->rows / t->own);
    NestNode *batch = loop_in(&w, NULL, "product", NEST_GRID, p.batch.extent);
    NestNode *rows = loop_in(&w, batch, "rows", NEST_GRID, (p.rows.extent + t->rows - 1) / t->rows);
    NestNode *columns =
        loop_in(&w, rows, "columns", NEST_GRID, (p.columns.extent + t->columns - 1) / t->columns);
    NestNode *thread = loop_in(&w, columns, "thread", NEST_THREADS, w.threads);
    w.grid = columns;
    w.batch = var(&w, batch);
    w.row = var(&w, rows);
    w.column = var(&w, columns);
    w.thread = var(&w, thread);
    NestNode *ty = let(&w, thread, "y", t->rows / t->own, by(&w, TE_DIV, w.thread, across));
    NestNode *tx = let(&w, ty, "x", across, by(&w, TE_MOD, w.thread, across));
    w.ty = var(&w, ty);
    w.tx = var(&w, tx);
    w.body = tx;
    w.acc = buffer(&w, "sum", w.dtype, NEST_REGISTER, t->own * t->own, tx);
    for (int i = 0; i < 2; i++) {
        int64_t extent = i ? t->columns : t->rows;
        w.pieces[i] = buffer(&w, i ? "columns" : "rows", w.dtype, NEST_SHARED,
                             t->depth * pitch(&w, extent), columns);
        w.own[i] = buffer(&w, i ? "column" : "row", w.dtype, NEST_REGISTER, t->own, tx);
    }
    make_steps(&w);
    store_sums(&w);
}
