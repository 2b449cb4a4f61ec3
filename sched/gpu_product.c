/* Sums of products of two things: matrix products, one or many, and convolutions, which are products of weights and windows.
 *
 * The axes of the result fall into those that only the first factor depends on (rows), only the second (columns) and both (a product each).
 * A block makes a tile of the result: step by step its threads bring pieces of both factors to shared memory, whatever they are made of,
 * and each adds the products of its rows and columns in registers. What is done with the sums alone is done before they are stored. */
#include "sched/gpu_product.h"

#include "te/walk.h"

/* A block's tile, the length of a step, and a thread's share of rows and columns, which come in groups of neighbours. */
typedef struct Tile {
    int64_t rows, columns, depth, own, lanes;
} Tile;

static const Tile tiles[] = {{128, 128, 8, 8, 4}, {64, 64, 8, 4, 4}, {32, 32, 16, 2, 2}};

/* The turns of a grid's outer loops. */
#define GRID_MOST 65535
/* The least sizes of what is worth a tile. */
#define SIDE_LEAST 8

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

static bool add_axis(GpuSide *s, int axis, int64_t extent)
{
    if (s->n == TENSOR_RANK_MOST)
        return false;
    s->axis[s->n++] = axis;
    s->extent *= extent;
    return true;
}

bool gpu_product_of(Gpu *s, int stage, GpuProduct *p)
{
    const TeStage *st = &s->p->stages[stage];
    bool order = dtype_is_float(st->dtype) && !s->m->reorders;
    *p = (GpuProduct){{.extent = 1}, {.extent = 1}, {.extent = 1}, {.extent = 1}, false};
    if (st->reduce != TE_SUM || st->at || st->body->kind != TE_NODE_BINARY ||
        st->body->op != TE_MUL || order || st->rank == 0 || te_holds_fault(s->arena, st->body))
        return false;
    uint64_t a = axes_of(s->arena, st->body->a), b = axes_of(s->arena, st->body->b);
    TeSides sides = te_sides(st, a, b);
    p->turned = sides.turned;
    GpuSide *const side[] = {
        [TE_SIDE_EACH] = &p->batch, [TE_SIDE_ROWS] = &p->rows, [TE_SIDE_COLUMNS] = &p->columns};
    bool fits = true;
    for (int i = 0; i < st->rank; i++)
        fits =
            fits && (sides.of[i] == TE_SIDE_NONE || add_axis(side[sides.of[i]], i, st->shape[i]));
    for (int i = 0; i < st->n_reduced; i++)
        fits = fits && add_axis(&p->folds, st->rank + i, st->reduced[i]);
    return fits && p->rows.extent >= SIDE_LEAST && p->columns.extent >= SIDE_LEAST &&
           p->folds.extent >= SIDE_LEAST && p->batch.extent <= GRID_MOST;
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
    if (r.loads != 1 || !r.load || to->reduce != TE_NO_REDUCE || to->at || to->rank != from->rank ||
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

/* ---- what both ways share ------------------------------------------------------------------------------------------------------ */

Te *gpu_plus(GpuBuild *w, Te *a, Te *b)
{
    return te_binary(w->b, TE_ADD, a, b);
}

Te *gpu_by(GpuBuild *w, TeOp op, Te *a, int64_t v)
{
    return te_binary(w->b, op, a, te_int(w->b, v));
}

Te *gpu_var(GpuBuild *w, const NestNode *loop)
{
    return te_axis(w->b, loop->var);
}

NestNode *gpu_loop(GpuBuild *w, NestNode *in, const char *name, NestWay way, int64_t extent)
{
    NestNode *loop = nest_loop(w->n, name, extent);
    loop->way = way;
    loop->lanes = way == NEST_VECTOR ? (int)extent : 0;
    nest_append(w->n, in, loop);
    return loop;
}

NestNode *gpu_let(GpuBuild *w, NestNode *in, const char *name, int64_t extent, Te *value)
{
    NestNode *loop = gpu_loop(w, in, name, NEST_BOUND, extent);
    loop->value = value;
    return loop;
}

int gpu_buffer(GpuBuild *w, const char *name, DType dtype, NestPlace place, int64_t size,
               NestNode *home)
{
    return nest_buffer(
        w->n,
        (NestBuffer){.name = name, .dtype = dtype, .place = place, .size = size, .home = home});
}

static int64_t steps_of(const GpuProduct *p, int64_t depth)
{
    return (p->folds.extent + depth - 1) / depth;
}

Te *gpu_step(GpuBuild *w, Te *step)
{
    int64_t steps = steps_of(w->p, w->depth) / w->parts;
    return gpu_plus(w, gpu_by(w, TE_MUL, w->part, steps), step);
}

/* Sums of 16-bit floats are kept in float32 and rounded once. */
static DType summed_dtype(DType t)
{
    return dtype_is_float(t) && t.bits == 16 ? (DType){DTYPE_CODE_FLOAT, 32, 1} : t;
}

static int64_t extent_of(const GpuBuild *w, int axis)
{
    const TeStage *st = &w->s->p->stages[w->stage];
    return axis < st->rank ? st->shape[axis] : st->reduced[axis - st->rank];
}

NestNode *gpu_bind_side(GpuBuild *w, NestNode *in, const GpuSide *side, Te *number,
                        const GpuLanes *lanes, NestLinear *axes)
{
    int64_t together = lanes ? lanes->n : 1, inside = side->extent / together;
    NestNode *flat = gpu_let(w, in, "n", inside, number);
    in = flat;
    for (int i = 0; i < side->n; i++) {
        bool last = i == side->n - 1;
        int64_t extent = extent_of(w, side->axis[i]) / (last ? together : 1);
        NestLinear *at = &axes[side->axis[i]];
        *at = (NestLinear){.n = 1};
        at->term[0].by = last ? together : 1;
        if (side->n > 1) {
            inside /= extent;
            Te *value = gpu_by(w, TE_DIV, gpu_var(w, flat), inside);
            in = gpu_let(w, in, "a", extent, i == 0 ? value : gpu_by(w, TE_MOD, value, extent));
        }
        at->term[0].var = in->var;
        if (last && lanes)
            nest_add_term(at, lanes->lane, 1);
    }
    return in;
}

NestLinear *gpu_axes(GpuBuild *w)
{
    const TeStage *st = &w->s->p->stages[w->stage];
    return arena_alloc_must(w->n->arena, (size_t)(st->rank + st->n_reduced) + 1,
                            sizeof(NestLinear));
}

const Te *gpu_factor(const GpuBuild *w, bool columns)
{
    const TeStage *st = &w->s->p->stages[w->stage];
    return columns != w->p->turned ? st->body->b : st->body->a;
}

bool gpu_along_folds(GpuBuild *w, bool columns)
{
    TeAffine at;
    const GpuSide *side = columns ? &w->p->columns : &w->p->rows;
    const Te *factor = gpu_factor(w, columns);
    int fold = w->p->folds.axis[w->p->folds.n - 1], axis = side->axis[side->n - 1];
    while (factor->kind == TE_NODE_CAST)
        factor = factor->a;
    return factor->kind == TE_NODE_LOAD && te_load_affine(w->s->p, factor, &at) &&
           at.stride[fold] == 1 && at.stride[axis] != 1;
}

static int scratch_of_parts(GpuBuild *w)
{
    const GpuProduct *p = w->p;
    int64_t *size = arena_new(w->n->arena, int64_t);
    *size = w->parts * p->batch.extent * p->rows.extent * p->columns.extent;
    NestBuffer b = {.name = "parts",
                    .dtype = summed_dtype(w->s->p->stages[w->stage].dtype),
                    .place = NEST_SCRATCH,
                    .size = *size,
                    .rank = 1,
                    .shape = size};
    return nest_buffer(w->n, b);
}

void gpu_open_product(GpuBuild *w)
{
    const GpuProduct *p = w->p;
    NestNode *batch = gpu_loop(w, NULL, "product", NEST_GRID, p->batch.extent * w->parts);
    NestNode *rows =
        gpu_loop(w, batch, "rows", NEST_GRID, (p->rows.extent + w->rows - 1) / w->rows);
    w->grid =
        gpu_loop(w, rows, "columns", NEST_GRID, (p->columns.extent + w->columns - 1) / w->columns);
    w->body = gpu_loop(w, w->grid, "thread", NEST_THREADS, w->threads);
    w->batch = gpu_var(w, batch);
    w->row = gpu_var(w, rows);
    w->column = gpu_var(w, w->grid);
    w->thread = gpu_var(w, w->body);
    w->part = te_int(w->b, 0);
    if (w->parts == 1)
        return;
    w->body = gpu_let(w, w->body, "part", w->parts, gpu_by(w, TE_MOD, w->batch, w->parts));
    w->part = gpu_var(w, w->body);
    w->body = gpu_let(w, w->body, "of", p->batch.extent, gpu_by(w, TE_DIV, w->batch, w->parts));
    w->batch = gpu_var(w, w->body);
    w->of_parts = scratch_of_parts(w);
}

/* Where the element of the result is. */
static Te *place_of(GpuBuild *w, const NestLinear *axes)
{
    const TeStage *st = &w->s->p->stages[w->stage];
    NestLinear at = {0};
    int64_t stride = 1;
    for (int i = st->rank - 1; i >= 0; stride *= st->shape[i--])
        for (int k = 0; k < axes[i].n; k++)
            nest_add_term(&at, axes[i].term[k].var, axes[i].term[k].by * stride);
    return nest_position(w->n, &at);
}

static Te *place_of_part(GpuBuild *w, Te *part, const NestLinear *axes)
{
    int64_t size = w->n->buffers.at[w->of_parts].size / w->parts;
    return gpu_plus(w, gpu_by(w, TE_MUL, part, size), place_of(w, axes));
}

static void store_result(GpuBuild *w, NestNode *in, Te *sum, NestLinear *axes)
{
    const TeProgram *p = w->s->p;
    sum = te_cast(w->b, p->stages[w->stage].dtype, sum);
    int to = p->n_inputs + (w->tail < 0 ? w->stage : w->tail);
    if (w->tail >= 0)
        sum = nest_expression(w->n, p, w->tail, axes, p->n_inputs + w->stage, sum);
    nest_append(w->n, in, nest_store(w->n, to, place_of(w, axes), sum));
}

void gpu_store_sum(GpuBuild *w, NestNode *in, Te *sum, NestLinear *axes)
{
    if (w->parts == 1)
        store_result(w, in, sum, axes);
    else
        nest_append(w->n, in, nest_store(w->n, w->of_parts, place_of_part(w, w->part, axes), sum));
}

void gpu_add_parts(GpuBuild *w)
{
    if (w->parts == 1)
        return;
    const TeStage *st = &w->s->p->stages[w->stage];
    NestLinear *axes = gpu_axes(w);
    NestNode *in = NULL;
    for (int i = 0; i < st->rank; i++) {
        if (st->shape[i] == 1)
            continue;
        in = gpu_loop(w, in, "i", NEST_SERIAL, st->shape[i]);
        nest_add_term(&axes[i], in->var, 1);
    }
    DType dtype = w->n->buffers.at[w->of_parts].dtype;
    int sum = gpu_buffer(w, "sum", dtype, NEST_REGISTER, 1, in);
    Te *zero = te_int(w->b, 0);
    nest_append(w->n, in, nest_store(w->n, sum, zero, te_number(w->b, dtype, 0)));
    NestNode *part = gpu_loop(w, in, "part", NEST_SERIAL, w->parts);
    Te *value = nest_load(w->n, w->of_parts, place_of_part(w, gpu_var(w, part), axes));
    nest_append(w->n, part, nest_fold(w->n, TE_SUM, sum, zero, value));
    store_result(w, in, nest_load(w->n, sum, zero), axes);
}

/* Parts of the folds that are taken apart, at most, and what is long enough for one beside folds that threads share. */
#define PARTS_MOST 64
#define PART_LEAST 8

static int64_t blocks_of(const GpuProduct *p, int64_t rows, int64_t columns)
{
    return p->batch.extent * ((p->rows.extent + rows - 1) / rows) *
           ((p->columns.extent + columns - 1) / columns);
}

/* Parts of the folds, all alike, that together keep the card busy. */
static int64_t parts_of(const Gpu *s, const GpuProduct *p, int64_t rows, int64_t columns,
                        int64_t depth)
{
    int64_t blocks = blocks_of(p, rows, columns), steps = steps_of(p, depth);
    int64_t parts = (s->m->blocks + blocks - 1) / blocks;
    int64_t most = p->folds.extent / (s->m->folds_least * PART_LEAST);
    most = most < PARTS_MOST ? most : PARTS_MOST;
    parts = parts < most ? parts : most;
    while (parts > 1 && (steps % parts != 0 || p->batch.extent * parts > GRID_MOST))
        parts--;
    return parts > 1 ? parts : 1;
}

bool gpu_is_wide(const Gpu *s, const GpuProduct *p, int64_t rows, int64_t columns, int64_t depth)
{
    int64_t blocks = blocks_of(p, rows, columns) * parts_of(s, p, rows, columns, depth);
    return blocks < s->m->blocks || p->rows.extent * 2 <= rows || p->columns.extent * 2 <= columns;
}

int64_t gpu_part_steps(GpuBuild *w)
{
    w->parts = parts_of(w->s, w->p, w->rows, w->columns, w->depth);
    return steps_of(w->p, w->depth) / w->parts;
}

/* Elements of a piece that a thread brings as straight code. */
#define STRAIGHT_MOST 16

void gpu_bring(GpuBuild *w, NestNode *in, const GpuPiece *f)
{
    bool along = gpu_along_folds(w, f->columns);
    int64_t all = f->places * f->folds, inner = along ? f->folds : f->places;
    int64_t turns = (all + w->threads - 1) / w->threads;
    NestWay way = turns <= STRAIGHT_MOST ? NEST_UNROLLED : NEST_SERIAL;
    NestNode *turn = gpu_loop(w, in, "turn", way, turns);
    Te *number = gpu_plus(w, gpu_by(w, TE_MUL, gpu_var(w, turn), w->threads), w->thread);
    NestNode *place =
        gpu_let(w, turn, "place", f->places, gpu_by(w, along ? TE_DIV : TE_MOD, number, inner));
    NestNode *fold =
        gpu_let(w, place, "fold", f->folds, gpu_by(w, along ? TE_MOD : TE_DIV, number, inner));
    int value = gpu_buffer(w, "value", f->dtype, NEST_REGISTER, 1, fold);
    Te *zero = te_int(w->b, 0);
    nest_append(w->n, fold, nest_store(w->n, value, zero, te_number(w->b, f->dtype, 0)));
    NestLinear *axes = gpu_axes(w);
    NestNode *body = gpu_bind_side(w, fold, &w->p->batch, w->batch, NULL, axes);
    body = gpu_bind_side(w, body, f->columns ? &w->p->columns : &w->p->rows,
                         gpu_plus(w, f->place, gpu_var(w, place)), NULL, axes);
    body = gpu_bind_side(w, body, &w->p->folds, gpu_plus(w, f->fold, gpu_var(w, fold)), NULL, axes);
    Te *product = nest_expression(w->n, w->s->p, w->stage, axes, -1, NULL);
    Te *factor = te_cast(w->b, f->dtype, f->columns != w->p->turned ? product->b : product->a);
    nest_append(w->n, body, nest_store(w->n, value, zero, factor));
    Te *to = gpu_plus(w, gpu_by(w, TE_MUL, gpu_var(w, fold), f->pitch), gpu_var(w, place));
    nest_append(w->n, fold, nest_store(w->n, f->buffer, to, nest_load(w->n, value, zero)));
}

/* ---- building ------------------------------------------------------------------------------------------------------------------ */

typedef struct Build {
    GpuBuild w;
    const Tile *t;
    Te *ty, *tx; /* places of the thread in the tile */
    DType dtype; /* of the sums */
    int64_t steps; /* of a part */
    int acc, pieces[2], own[2]; /* buffers: of rows and of columns */
} Build;

/* A step between the folds of a piece in shared memory: so that neither way of writing it meets the same bank often. */
static int64_t pitch(const Build *m, int64_t extent)
{
    return extent + m->t->lanes;
}

static void bring(Build *m, NestNode *in, Te *step, bool columns)
{
    GpuBuild *w = &m->w;
    int64_t extent = columns ? w->columns : w->rows;
    gpu_bring(w, in,
              &(GpuPiece){.columns = columns,
                          .places = extent,
                          .folds = w->depth,
                          .place = gpu_by(w, TE_MUL, columns ? w->column : w->row, extent),
                          .fold = gpu_by(w, TE_MUL, gpu_step(w, step), w->depth),
                          .dtype = m->dtype,
                          .buffer = m->pieces[columns],
                          .pitch = pitch(m, extent)});
}

/* Where the thread's own row or column of the tile is: groups of neighbours, far from each other, so that threads read side by side. */
static Te *place_in_tile(Build *m, bool columns, Te *group, Te *lane)
{
    GpuBuild *w = &m->w;
    int64_t extent = columns ? w->columns : w->rows, groups = m->t->own / m->t->lanes;
    Te *at = gpu_plus(w, gpu_by(w, TE_MUL, columns ? m->tx : m->ty, m->t->lanes), lane);
    return groups > 1 ? gpu_plus(w, gpu_by(w, TE_MUL, group, extent / groups), at) : at;
}

/* The thread's part of a fold's rows or columns comes to registers. */
static void take(Build *m, NestNode *in, Te *fold, bool columns)
{
    GpuBuild *w = &m->w;
    int64_t extent = columns ? w->columns : w->rows, lanes = m->t->lanes;
    NestNode *group = gpu_loop(w, in, "group", NEST_UNROLLED, m->t->own / lanes);
    NestNode *lane = gpu_loop(w, group, "lane", NEST_VECTOR, lanes);
    Te *own = gpu_plus(w, gpu_by(w, TE_MUL, gpu_var(w, group), lanes), gpu_var(w, lane));
    Te *at = gpu_plus(w, gpu_by(w, TE_MUL, fold, pitch(m, extent)),
                      place_in_tile(m, columns, gpu_var(w, group), gpu_var(w, lane)));
    nest_append(w->n, lane,
                nest_store(w->n, m->own[columns], own, nest_load(w->n, m->pieces[columns], at)));
}

/* Loops over the thread's sums: a row each, and vectors of columns. */
static NestNode *over_sums(Build *m, NestNode *in, NestWay way, NestNode **row, NestNode **group)
{
    *row = gpu_loop(&m->w, in, "row", NEST_UNROLLED, m->t->own);
    *group = gpu_loop(&m->w, *row, "group", NEST_UNROLLED, m->t->own / m->t->lanes);
    return gpu_loop(&m->w, *group, "lane", way, m->t->lanes);
}

static Te *column_of(Build *m, NestNode *group, NestNode *lane)
{
    GpuBuild *w = &m->w;
    return gpu_plus(w, gpu_by(w, TE_MUL, gpu_var(w, group), m->t->lanes), gpu_var(w, lane));
}

static Te *sum_place(Build *m, NestNode *row, NestNode *group, NestNode *lane)
{
    GpuBuild *w = &m->w;
    return gpu_plus(w, gpu_by(w, TE_MUL, gpu_var(w, row), m->t->own), column_of(m, group, lane));
}

static void make_steps(Build *m)
{
    GpuBuild *w = &m->w;
    NestNode *row, *group, *lane = over_sums(m, w->body, NEST_VECTOR, &row, &group);
    Te *at = sum_place(m, row, group, lane);
    nest_append(w->n, lane, nest_store(w->n, m->acc, at, te_number(w->b, m->dtype, 0)));
    NestNode *step = gpu_loop(w, w->body, "step", NEST_SERIAL, m->steps);
    bring(m, step, gpu_var(w, step), false);
    bring(m, step, gpu_var(w, step), true);
    nest_append(w->n, step, nest_barrier(w->n));
    NestNode *fold = gpu_loop(w, step, "fold", NEST_UNROLLED, w->depth);
    take(m, fold, gpu_var(w, fold), false);
    take(m, fold, gpu_var(w, fold), true);
    lane = over_sums(m, fold, NEST_VECTOR, &row, &group);
    Te *a = nest_load(w->n, m->own[0], gpu_var(w, row));
    Te *b = nest_load(w->n, m->own[1], column_of(m, group, lane));
    at = sum_place(m, row, group, lane);
    nest_append(w->n, lane, nest_fold(w->n, TE_SUM, m->acc, at, te_binary(w->b, TE_MUL, a, b)));
    nest_append(w->n, step, nest_barrier(w->n));
}

/* The sums, or what the tail makes of them, where they belong. */
static void store_sums(Build *m)
{
    GpuBuild *w = &m->w;
    int64_t lanes = m->t->lanes;
    NestNode *row, *group, *lane = over_sums(m, w->body, NEST_UNROLLED, &row, &group);
    NestLinear *axes = gpu_axes(w);
    Te *own_row = place_in_tile(m, false, gpu_by(w, TE_DIV, gpu_var(w, row), lanes),
                                gpu_by(w, TE_MOD, gpu_var(w, row), lanes));
    Te *own_column = place_in_tile(m, true, gpu_var(w, group), gpu_var(w, lane));
    Te *first_row = gpu_by(w, TE_MUL, w->row, w->rows);
    Te *first_column = gpu_by(w, TE_MUL, w->column, w->columns);
    NestNode *in = gpu_bind_side(w, lane, &w->p->batch, w->batch, NULL, axes);
    in = gpu_bind_side(w, in, &w->p->rows, gpu_plus(w, first_row, own_row), NULL, axes);
    in = gpu_bind_side(w, in, &w->p->columns, gpu_plus(w, first_column, own_column), NULL, axes);
    gpu_store_sum(w, in, nest_load(w->n, m->acc, sum_place(m, row, group, lane)), axes);
}

/* The largest tile that gives every part of the card something to do. */
static const Tile *tile_of(const Gpu *s, const GpuProduct *p)
{
    const Tile *t = tiles, *last = tiles + sizeof tiles / sizeof *tiles - 1;
    while (t < last && gpu_is_wide(s, p, t->rows, t->columns, t->depth))
        t++;
    return t;
}

bool gpu_is_product(Gpu *s, int stage)
{
    GpuProduct p;
    return gpu_product_of(s, stage, &p);
}

void gpu_product(Gpu *s, int stage, int tail)
{
    GpuProduct p;
    gpu_product_of(s, stage, &p);
    if (gpu_attention(s, stage, tail) || gpu_tile(s, &p, stage, tail))
        return;
    const Tile *t = tile_of(s, &p);
    Build m = {.t = t, .dtype = summed_dtype(s->p->stages[stage].dtype)};
    GpuBuild *w = &m.w;
    int64_t across = t->columns / t->own;
    *w = (GpuBuild){.s = s,
                    .n = s->n,
                    .b = &s->n->te,
                    .p = &p,
                    .rows = t->rows,
                    .columns = t->columns,
                    .depth = t->depth,
                    .threads = across * (t->rows / t->own),
                    .stage = stage,
                    .tail = tail};
    m.steps = gpu_part_steps(w);
    gpu_open_product(w);
    NestNode *ty = gpu_let(w, w->body, "y", t->rows / t->own, gpu_by(w, TE_DIV, w->thread, across));
    NestNode *tx = gpu_let(w, ty, "x", across, gpu_by(w, TE_MOD, w->thread, across));
    m.ty = gpu_var(w, ty);
    m.tx = gpu_var(w, tx);
    w->body = tx;
    m.acc = gpu_buffer(w, "sum", m.dtype, NEST_REGISTER, t->own * t->own, tx);
    for (int i = 0; i < 2; i++) {
        int64_t extent = i ? t->columns : t->rows;
        m.pieces[i] = gpu_buffer(w, i ? "columns" : "rows", m.dtype, NEST_SHARED,
                                 t->depth * pitch(&m, extent), w->grid);
        m.own[i] = gpu_buffer(w, i ? "column" : "row", m.dtype, NEST_REGISTER, t->own, tx);
    }
    make_steps(&m);
    store_sums(&m);
    gpu_add_parts(w);
}
