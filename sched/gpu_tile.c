/* Sums of products on tensor cores: 16-bit floats, float32 rounded to TF32 where that was asked for, and bytes.
 *
 * A block makes a tile of the result, each of its warps a part of that. Pieces of both factors wait in shared memory, some steps ahead:
 * what lies side by side is copied there while the warps multiply, all else (other types, windows, padding) is taken to registers before
 * a step and put into its place behind it. Fragments come from there as matrices (loop/nest.h). What lies outside of a side is any row
 * inside: its sums are not stored. What is done with the sums alone is done before they are. */
#include "sched/gpu_product.h"

/* A block's tile, and how its warps share it. */
typedef struct Shape {
    int64_t rows, columns, down, across;
} Shape;

static const Shape shapes[] = {{128, 128, 2, 4}, {64, 64, 2, 2}, {32, 32, 2, 2}};

/* Bytes of a step along the folds, and of what fragments hold of it. */
#define STEP_BYTES 64
#define FRAGMENT_BYTES 32

/* Steps that pieces are ready for: copies take longer than what the threads bring themselves. */
#define STAGES_COPIED 3
#define STAGES_TAKEN 2

/* A factor's way to shared memory: row after row of places along the folds, or of folds along the places. */
typedef struct Piece {
    GpuSide side, folds; /* those that lie side by side as one axis */
    DType dtype;
    int64_t tile, pitch; /* places in the block's tile; elements from row to row */
    int64_t size; /* of a stage */
    bool columns, along, copied;
    int shared, taken, words; /* buffers */
} Piece;

typedef struct Build {
    GpuBuild w;
    const Shape *shape;
    Piece piece[2];
    DType sums;
    int acc;
    int64_t each, steps, stages; /* elements in a row of a matrix */
    int64_t down, over; /* tiles of sums of a warp: of rows and of columns */
    Te *warp_row, *warp_column; /* where its part begins */
    Te *lane, *low, *group, *part; /* thread of the warp; % 8, / 8 % 2, / 16 */
} Build;

/* ---- what tensor cores take ---------------------------------------------------------------------------------------------- */

/* What a factor is made of before it is widened. */
static const Te *narrow(const Te *factor)
{
    while (factor->kind == TE_NODE_CAST) {
        DType to = factor->dtype, from = factor->a->dtype;
        bool floats = dtype_is_float(to) && dtype_is_float(from) && from.bits == 16 && to.bits > 16;
        bool bytes = dtype_is_int(to) && to.bits == 32 && dtype_is_int(from) && from.bits == 8;
        if (!floats && !bytes)
            break;
        factor = factor->a;
    }
    return factor;
}

static bool takes(Gpu *s, int stage, DType factors[2], DType *sums)
{
    const TeStage *st = &s->p->stages[stage];
    static const DType single = {DTYPE_CODE_FLOAT, 32, 1};
    factors[0] = narrow(st->body->a)->dtype;
    factors[1] = narrow(st->body->b)->dtype;
    *sums = dtype_is_float(st->dtype) && st->dtype.bits == 16 ? single : st->dtype;
    return nest_has_tile(factors, *sums) && (factors[0].bits < 32 || s->m->tf32);
}

/* ---- how the factors lie --------------------------------------------------------------------------------------------------- */

static bool even(int64_t v, int64_t by)
{
    return v % by == 0;
}

/* The side's axes as one, where the load goes through them in even steps. */
static void merge(const GpuBuild *w, const TeAffine *at, GpuSide *side)
{
    const TeStage *st = &w->s->p->stages[w->stage];
    int64_t step = at->stride[side->axis[side->n - 1]];
    for (int i = side->n - 1; i > 0; i--) {
        int axis = side->axis[i];
        step *= axis < st->rank ? st->shape[axis] : st->reduced[axis - st->rank];
        if (at->stride[side->axis[i - 1]] != step)
            return;
    }
    /* All of the number goes along the last axis; the others stay where they begin. */
    side->axis[0] = side->axis[side->n - 1];
    side->n = 1;
}

/* Whether each row of 16 bytes of the piece lies in one place of memory, where the card can take it. */
static bool can_copy(Build *m, Piece *f)
{
    GpuBuild *w = &m->w;
    const Gpu *s = w->s;
    const Te *load = narrow(gpu_factor(w, f->columns));
    TeAffine at;
    if (load->kind != TE_NODE_LOAD || load->otherwise || !te_load_affine(s->p, load, &at) ||
        !dtype_eq(load->dtype, f->dtype) ||
        (load->tensor < s->p->n_inputs && s->loose && s->loose[load->tensor]) ||
        w->p->folds.extent % w->depth)
        return false;
    GpuSide side = f->side, folds = f->folds;
    merge(w, &at, &folds);
    merge(w, &at, &side);
    const GpuSide *rows = f->along ? &folds : &side;
    int last = rows->axis[rows->n - 1];
    const TeStage *st = &s->p->stages[w->stage];
    int64_t extent = rows->n == 1      ? rows->extent
                     : last < st->rank ? st->shape[last]
                                       : st->reduced[last - st->rank];
    bool fits = at.stride[last] == 1 && even(extent, m->each) && even(at.offset, m->each);
    for (int i = 0; i < st->rank + st->n_reduced && fits; i++)
        fits = i == last || even(at.stride[i], m->each);
    if (fits) {
        f->side = side;
        f->folds = folds;
    }
    return fits;
}

static void plan_piece(Build *m, bool columns, DType dtype)
{
    GpuBuild *w = &m->w;
    Piece *f = &m->piece[columns];
    *f = (Piece){.side = columns ? w->p->columns : w->p->rows,
                 .folds = w->p->folds,
                 .dtype = dtype,
                 .tile = columns ? w->columns : w->rows,
                 .columns = columns};
    /* Only elements of 16 bits can be turned on their way to the fragments. */
    f->along = gpu_along_folds(w, columns) || dtype.bits != 16;
    f->copied = can_copy(m, f);
    /* A row of a matrix more, so that eight rows begin in different banks. */
    f->pitch = (f->along ? w->depth : f->tile) + m->each;
    f->size = f->pitch * (f->along ? f->tile : w->depth);
}

/* ---- to shared memory -------------------------------------------------------------------------------------------------------- */

/* The number, or the last one that there is. */
static Te *at_most(GpuBuild *w, Te *number, int64_t extent, bool may_leave)
{
    return may_leave ? te_binary(w->b, TE_MIN, number, te_int(w->b, extent - 1)) : number;
}

/* A place of the piece, or several side by side, as the program's axes. */
static NestNode *bind_place(Build *m, const Piece *f, NestNode *in, Te *step, Te *place, Te *fold,
                            const GpuLanes *lanes, NestLinear *axes)
{
    GpuBuild *w = &m->w;
    int64_t n = lanes ? lanes->n : 1, across = f->along ? 1 : n, along = f->along ? n : 1;
    Te *first = gpu_by(w, TE_MUL, f->columns ? w->column : w->row, f->tile / across);
    Te *number = at_most(w, gpu_plus(w, first, place), f->side.extent / across,
                         !even(f->side.extent, f->tile));
    in = gpu_bind_side(w, in, &w->p->batch, w->batch, NULL, axes);
    in = gpu_bind_side(w, in, &f->side, number, f->along ? NULL : lanes, axes);
    Te *from = gpu_by(w, TE_MUL, gpu_step(w, step), w->depth / along);
    return gpu_bind_side(w, in, &f->folds, gpu_plus(w, from, fold), f->along ? lanes : NULL, axes);
}

static const Te *value_at(Build *m, const Piece *f, NestLinear *axes)
{
    GpuBuild *w = &m->w;
    Te *body = nest_expression(w->n, w->s->p, w->stage, axes, -1, NULL);
    return narrow(f->columns != w->p->turned ? body->b : body->a);
}

static Te *in_stage(Build *m, const Piece *f, NestNode *stage, Te *row, Te *at)
{
    GpuBuild *w = &m->w;
    Te *from = gpu_by(w, TE_MUL, gpu_var(w, stage), f->size);
    return gpu_plus(w, gpu_plus(w, from, gpu_by(w, TE_MUL, row, f->pitch)), at);
}

/* Asks for the copies of a step. */
static void copy_piece(Build *m, const Piece *f, NestNode *in, Te *step, NestNode *stage)
{
    GpuBuild *w = &m->w;
    int64_t length = (f->along ? w->depth : f->tile) / m->each;
    int64_t rows = f->along ? f->tile : w->depth, all = rows * length;
    NestNode *turn = gpu_loop(w, in, "turn", NEST_UNROLLED, (all + w->threads - 1) / w->threads);
    Te *number = gpu_plus(w, gpu_by(w, TE_MUL, gpu_var(w, turn), w->threads), w->thread);
    NestNode *row = gpu_let(w, turn, "row", rows, gpu_by(w, TE_DIV, number, length));
    NestNode *at = gpu_let(w, row, "at", length, gpu_by(w, TE_MOD, number, length));
    NestNode *lane = nest_loop(w->n, "lane", m->each);
    GpuLanes lanes = {m->each, lane->var};
    NestLinear *axes = gpu_axes(w);
    Te *place = gpu_var(w, f->along ? row : at), *fold = gpu_var(w, f->along ? at : row);
    NestNode *inner = bind_place(m, f, at, step, place, fold, &lanes, axes);
    lane->way = NEST_VECTOR;
    lane->lanes = (int)m->each;
    nest_append(w->n, inner, lane);
    Te *side_by_side = gpu_plus(w, gpu_by(w, TE_MUL, gpu_var(w, at), m->each), gpu_var(w, lane));
    Te *to = in_stage(m, f, stage, gpu_var(w, row), side_by_side);
    NestNode *store = nest_store(w->n, f->shared, to, (Te *)(uintptr_t)value_at(m, f, axes));
    store->copies = true;
    nest_append(w->n, lane, store);
}

/* The thread's turns over a piece that is not copied: where each is in the tile. */
static NestNode *over_piece(Build *m, const Piece *f, NestNode *in, NestNode **turn,
                            NestNode **place, NestNode **fold)
{
    GpuBuild *w = &m->w;
    bool along = gpu_along_folds(w, f->columns);
    int64_t inner = along ? w->depth : f->tile;
    *turn = gpu_loop(w, in, "turn", NEST_UNROLLED, f->tile * w->depth / w->threads);
    Te *number = gpu_plus(w, gpu_by(w, TE_MUL, gpu_var(w, *turn), w->threads), w->thread);
    *place = gpu_let(w, *turn, "place", f->tile, gpu_by(w, along ? TE_DIV : TE_MOD, number, inner));
    *fold = gpu_let(w, *place, "fold", w->depth, gpu_by(w, along ? TE_MOD : TE_DIV, number, inner));
    return *fold;
}

/* Takes a step's elements to registers: 0 beyond the last fold. */
static void take_piece(Build *m, const Piece *f, NestNode *in, Te *step)
{
    GpuBuild *w = &m->w;
    NestNode *turn, *place, *fold, *inner = over_piece(m, f, in, &turn, &place, &fold);
    NestLinear *axes = gpu_axes(w);
    Te *none = te_number(w->b, f->dtype, 0);
    nest_append(w->n, fold, nest_store(w->n, f->taken, gpu_var(w, turn), none));
    inner = bind_place(m, f, fold, step, gpu_var(w, place), gpu_var(w, fold), NULL, axes);
    Te *value = (Te *)(uintptr_t)value_at(m, f, axes);
    nest_append(w->n, inner, nest_store(w->n, f->taken, gpu_var(w, turn), value));
}

static void put_piece(Build *m, const Piece *f, NestNode *in, NestNode *stage)
{
    GpuBuild *w = &m->w;
    NestNode *turn, *place, *fold, *inner = over_piece(m, f, in, &turn, &place, &fold);
    Te *row = gpu_var(w, f->along ? place : fold), *at = gpu_var(w, f->along ? fold : place);
    Te *value = nest_load(w->n, f->taken, gpu_var(w, turn));
    nest_append(w->n, inner, nest_store(w->n, f->shared, in_stage(m, f, stage, row, at), value));
}

/* ---- from there to the sums ---------------------------------------------------------------------------------------------------- */

/* Fragments of two neighbouring lots of 8 rows or columns: each thread says where a row of one of four matrices begins. The matrices of
 * the rows come place by place, those of the columns fold by fold. */
static void fetch_pair(Build *m, const Piece *f, NestNode *in, NestNode *stage, NestNode *fragment,
                       Te *pair)
{
    GpuBuild *w = &m->w;
    Te *eight = f->columns ? m->part : m->group, *fold = f->columns ? m->group : m->part;
    Te *place = gpu_plus(w, gpu_by(w, TE_MUL, pair, 16), gpu_by(w, TE_MUL, eight, 8));
    place = gpu_plus(w, f->columns ? m->warp_column : m->warp_row, place);
    Te *folds = gpu_by(w, TE_MUL, gpu_var(w, fragment), 2 * m->each);
    folds = gpu_plus(w, folds, gpu_by(w, TE_MUL, fold, m->each));
    Te *row = f->along ? gpu_plus(w, place, m->low) : gpu_plus(w, folds, m->low);
    Te *at = in_stage(m, f, stage, row, f->along ? folds : place);
    NestNode *fetch =
        nest_fetch(w->n, f->words, gpu_by(w, TE_MUL, pair, 4), 4, nest_load(w->n, f->shared, at));
    fetch->turned = !f->along;
    nest_append(w->n, in, fetch);
}

static void multiply(Build *m, NestNode *in, NestNode *stage)
{
    GpuBuild *w = &m->w;
    NestNode *fragment = gpu_loop(w, in, "part", NEST_UNROLLED, STEP_BYTES / FRAGMENT_BYTES);
    for (int i = 0; i < 2; i++) {
        int64_t pairs = i ? m->over / 2 : m->down;
        NestNode *pair = gpu_loop(w, fragment, "pair", NEST_UNROLLED, pairs);
        fetch_pair(m, &m->piece[i], pair, stage, fragment, gpu_var(w, pair));
    }
    NestNode *row = gpu_loop(w, fragment, "row", NEST_UNROLLED, m->down);
    NestNode *column = gpu_loop(w, row, "column", NEST_UNROLLED, m->over);
    Te *tile = gpu_plus(w, gpu_by(w, TE_MUL, gpu_var(w, row), m->over), gpu_var(w, column));
    DType factors[2] = {m->piece[0].dtype, m->piece[1].dtype};
    Te *first =
        nest_load(w->n, m->piece[0].words, gpu_by(w, TE_MUL, gpu_var(w, row), NEST_TILE_FIRST));
    Te *second =
        nest_load(w->n, m->piece[1].words, gpu_by(w, TE_MUL, gpu_var(w, column), NEST_TILE_SECOND));
    nest_append(
        w->n, column,
        nest_tile(w->n, m->acc, gpu_by(w, TE_MUL, tile, NEST_TILE_SUMS), factors, first, second));
}

/* Brings both pieces of a step to a stage: all of it, or what can be done before the threads multiply, or what is left then. */
enum { BEFORE = 1, BEHIND = 2 };

static void bring(Build *m, NestNode *in, Te *step, NestNode *stage, int when)
{
    for (int i = 0; i < 2; i++) {
        const Piece *f = &m->piece[i];
        if (f->copied && when & BEFORE)
            copy_piece(m, f, in, step, stage);
        if (!f->copied && when & BEFORE)
            take_piece(m, f, in, step);
    }
    for (int i = 0; i < 2; i++)
        if (!m->piece[i].copied && when & BEHIND)
            put_piece(m, &m->piece[i], in, stage);
}

static bool copies(const Build *m)
{
    return m->piece[0].copied || m->piece[1].copied;
}

/* The first steps are brought before all others. */
static void begin_steps(Build *m)
{
    GpuBuild *w = &m->w;
    int64_t sums = m->down * m->over * NEST_TILE_SUMS;
    NestNode *each = gpu_loop(w, w->body, "sum", NEST_UNROLLED, sums);
    nest_append(w->n, each,
                nest_store(w->n, m->acc, gpu_var(w, each), te_number(w->b, m->sums, 0)));
    for (int i = 0; i < 2; i++) {
        const Piece *f = &m->piece[i];
        if (f->copied)
            continue;
        int64_t n = w->n->buffers.at[f->taken].size;
        each = gpu_loop(w, w->body, "turn", NEST_UNROLLED, n);
        Te *none = te_number(w->b, f->dtype, 0);
        nest_append(w->n, each, nest_store(w->n, f->taken, gpu_var(w, each), none));
    }
    for (int64_t k = 0; k < m->stages - 1; k++) {
        NestNode *stage = gpu_let(w, w->body, "stage", m->stages, te_int(w->b, k));
        if (k < m->steps)
            bring(m, stage, te_int(w->b, k), stage, BEFORE | BEHIND);
        if (copies(m))
            nest_append(w->n, w->body, nest_wait(w->n, (int)m->stages));
    }
}

/* The stage of a step. */
static NestNode *stage_of(Build *m, NestNode *in, Te *step)
{
    return gpu_let(&m->w, in, "stage", m->stages, gpu_by(&m->w, TE_MOD, step, m->stages));
}

/* What is wanted some steps further on, where there is such a step. */
static void bring_next(Build *m, NestNode *in, Te *step, int when)
{
    GpuBuild *w = &m->w;
    if (m->steps < m->stages)
        return;
    Te *number = gpu_plus(w, step, te_int(w->b, m->stages - 1));
    NestNode *next = gpu_let(w, in, "next", m->steps, number);
    NestNode *stage = stage_of(m, next, gpu_var(w, next));
    bring(m, stage, gpu_var(w, next), stage, when);
}

static void make_steps(Build *m)
{
    GpuBuild *w = &m->w;
    begin_steps(m);
    NestNode *step = gpu_loop(w, w->body, "step", NEST_SERIAL, m->steps);
    if (copies(m))
        nest_append(w->n, step, nest_wait(w->n, (int)m->stages - 2));
    nest_append(w->n, step, nest_barrier(w->n));
    bring_next(m, step, gpu_var(w, step), BEFORE);
    NestNode *stage = stage_of(m, step, gpu_var(w, step));
    multiply(m, stage, stage);
    if (!m->piece[0].copied || !m->piece[1].copied)
        bring_next(m, step, gpu_var(w, step), BEHIND);
}

/* ---- the sums -------------------------------------------------------------------------------------------------------------------- */

static void store_sums(Build *m)
{
    GpuBuild *w = &m->w;
    NestNode *down = gpu_loop(w, w->body, "row", NEST_UNROLLED, m->down);
    NestNode *half = gpu_loop(w, down, "half", NEST_UNROLLED, 2);
    NestNode *over = gpu_loop(w, half, "column", NEST_UNROLLED, m->over);
    NestNode *pair = gpu_loop(w, over, "pair", NEST_UNROLLED, 2);
    NestLinear *axes = gpu_axes(w);
    Te *row = gpu_plus(w, gpu_by(w, TE_MUL, gpu_var(w, down), 16),
                       gpu_by(w, TE_MUL, gpu_var(w, half), 8));
    row = gpu_plus(w, gpu_plus(w, m->warp_row, row), gpu_by(w, TE_DIV, m->lane, 4));
    row = gpu_plus(w, gpu_by(w, TE_MUL, w->row, w->rows), row);
    Te *two = gpu_by(w, TE_MUL, gpu_by(w, TE_MOD, m->lane, 4), 2);
    Te *column =
        gpu_plus(w, gpu_plus(w, gpu_by(w, TE_MUL, gpu_var(w, over), 8), two), gpu_var(w, pair));
    column =
        gpu_plus(w, gpu_by(w, TE_MUL, w->column, w->columns), gpu_plus(w, m->warp_column, column));
    NestNode *in = gpu_bind_side(w, pair, &w->p->batch, w->batch, NULL, axes);
    in = gpu_bind_side(w, in, &w->p->rows, row, NULL, axes);
    in = gpu_bind_side(w, in, &w->p->columns, column, NULL, axes);
    Te *at = gpu_plus(w, gpu_by(w, TE_MUL, gpu_var(w, down), m->over), gpu_var(w, over));
    at = gpu_plus(w, gpu_by(w, TE_MUL, at, 4), gpu_by(w, TE_MUL, gpu_var(w, half), 2));
    at = gpu_plus(w, at, gpu_var(w, pair));
    gpu_store_sum(w, in, nest_load(w->n, m->acc, at), axes);
}

/* ---- blocks and warps ------------------------------------------------------------------------------------------------------------ */

static const Shape *shape_of(const Gpu *s, const GpuProduct *p, int64_t depth)
{
    const Shape *t = shapes, *last = shapes + sizeof shapes / sizeof *shapes - 1;
    while (t < last && gpu_is_wide(s, p, t->rows, t->columns, depth))
        t++;
    return t;
}

/* Where the warp and its thread stand. */
static void open_warps(Build *m)
{
    GpuBuild *w = &m->w;
    const Shape *t = m->shape;
    NestNode *lane =
        gpu_let(w, w->body, "lane", NEST_WARP, gpu_by(w, TE_MOD, w->thread, NEST_WARP));
    NestNode *warp =
        gpu_let(w, lane, "warp", t->down * t->across, gpu_by(w, TE_DIV, w->thread, NEST_WARP));
    NestNode *down =
        gpu_let(w, warp, "down", t->down, gpu_by(w, TE_DIV, gpu_var(w, warp), t->across));
    NestNode *across =
        gpu_let(w, down, "across", t->across, gpu_by(w, TE_MOD, gpu_var(w, warp), t->across));
    m->lane = gpu_var(w, lane);
    NestNode *low = gpu_let(w, across, "low", 8, gpu_by(w, TE_MOD, m->lane, 8));
    NestNode *part = gpu_let(w, low, "part", 2, gpu_by(w, TE_DIV, m->lane, 16));
    NestNode *group =
        gpu_let(w, part, "group", 2, gpu_by(w, TE_MOD, gpu_by(w, TE_DIV, m->lane, 8), 2));
    m->low = gpu_var(w, low);
    m->part = gpu_var(w, part);
    m->group = gpu_var(w, group);
    m->warp_row = gpu_by(w, TE_MUL, gpu_var(w, down), w->rows / t->down);
    m->warp_column = gpu_by(w, TE_MUL, gpu_var(w, across), w->columns / t->across);
    w->body = group;
}

static void make_buffers(Build *m)
{
    static const DType word = {DTYPE_CODE_UINT, 32, 1};
    GpuBuild *w = &m->w;
    m->acc =
        gpu_buffer(w, "sum", m->sums, NEST_REGISTER, m->down * m->over * NEST_TILE_SUMS, w->body);
    for (int i = 0; i < 2; i++) {
        Piece *f = &m->piece[i];
        int64_t turns = f->tile * w->depth / w->threads,
                words = i ? m->over * NEST_TILE_SECOND : m->down * NEST_TILE_FIRST;
        f->shared = gpu_buffer(w, i ? "columns" : "rows", f->dtype, NEST_SHARED,
                               m->stages * f->size, w->grid);
        f->words = gpu_buffer(w, i ? "column" : "row", word, NEST_REGISTER, words, w->body);
        if (!f->copied)
            f->taken = gpu_buffer(w, "taken", f->dtype, NEST_REGISTER, turns, w->body);
    }
}

bool gpu_tile(Gpu *s, const GpuProduct *p, int stage, int tail)
{
    DType factors[2], sums;
    if (!takes(s, stage, factors, &sums))
        return false;
    int64_t size = (int64_t)dtype_size(factors[0]), depth = STEP_BYTES / size;
    const Shape *t = shape_of(s, p, depth);
    Build m = {.shape = t, .sums = sums, .each = NEST_ROW_BYTES / size};
    m.w = (GpuBuild){.s = s,
                     .n = s->n,
                     .b = &s->n->te,
                     .p = p,
                     .rows = t->rows,
                     .columns = t->columns,
                     .depth = depth,
                     .threads = t->down * t->across * NEST_WARP,
                     .stage = stage,
                     .tail = tail};
    GpuBuild *w = &m.w;
    for (int i = 0; i < 2; i++)
        plan_piece(&m, i == 1, factors[(i == 1) != p->turned]);
    m.steps = gpu_part_steps(w);
    m.stages = copies(&m) ? STAGES_COPIED : STAGES_TAKEN;
    m.down = t->rows / t->down / NEST_TILE_ROWS;
    m.over = t->columns / t->across / NEST_TILE_COLUMNS;
    gpu_open_product(w);
    open_warps(&m);
    make_buffers(&m);
    make_steps(&m);
    store_sums(&m);
    gpu_add_parts(w);
    return true;
}
