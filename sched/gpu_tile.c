/* Sums of products on tensor cores: 16-bit floats, float32 rounded to TF32 where that was asked for, and bytes.
 *
 * A block makes a tile of the result, each of its warps a part of that. Pieces of both factors wait in shared memory, some steps ahead:
 * what lies side by side is copied there while the warps multiply, all else (other types, windows, padding) is taken to registers before
 * a step and put into its place behind it. Fragments come from there as matrices (loop/nest.h). What lies outside of a side is any row
 * inside: its sums are not stored. What is done with the sums alone is done before they are.
 *
 * Where the card has it, groups of four warps multiply straight from shared memory factors that lie along the folds. Where it has that too,
 * those come as boxes, of any type and any size: one thread asks for both of a step, some steps ahead, and all wait at the step's gate. Else
 * they are copied by all threads, and have 16 bits and whole tiles. */
#include "sched/gpu_matrix.h"

/* A block's tile, and how its warps share it. */
typedef struct Shape {
    int64_t rows, columns, down, across;
} Shape;

static const Shape shapes[] = {{128, 128, 2, 4}, {64, 64, 2, 2}, {32, 32, 2, 2}};

/* Of groups of warps, each of which has all columns. */
static const Shape grouped = {128, 128, 8, 1};

/* Bytes of a step along the folds, and of what fragments hold of it. */
#define STEP_BYTES 64
#define STEP_BYTES_GROUPED 128
#define FRAGMENT_BYTES 32

/* Steps that pieces are ready for: copies take longer than what the threads bring themselves. */
#define STAGES_COPIED 3
#define STAGES_TAKEN 2

typedef struct Build {
    GpuBuild w;
    const Shape *shape;
    GpuMatrix piece[2];
    int words[2]; /* buffers: fragments of both */
    DType sums;
    int acc;
    bool groups; /* of warps multiply, */
    bool boxed; /* what comes by itself */
    int gates; /* buffer: of each stage */
    int64_t steps, stages;
    int64_t down, over; /* tiles of sums of a warp: of rows and of columns */
    Te *warp_row, *warp_column; /* where its part begins */
    Te *group; /* the number of the warp's group */
    GpuLane lane;
} Build;

/* ---- what tensor cores take ---------------------------------------------------------------------------------------------- */

static bool takes(Gpu *s, int stage, DType factors[2], DType *sums)
{
    const TeStage *st = &s->p->stages[stage];
    static const DType single = {DTYPE_CODE_FLOAT, 32, 1};
    factors[0] = gpu_narrow(st->body->a)->dtype;
    factors[1] = gpu_narrow(st->body->b)->dtype;
    *sums = dtype_is_float(st->dtype) && st->dtype.bits == 16 ? single : st->dtype;
    return nest_has_tile(factors, *sums) && (factors[0].bits < 32 || s->m->tf32);
}

/* ---- from there to the sums ---------------------------------------------------------------------------------------------------- */

static void multiply(Build *m, NestNode *in, NestNode *stage)
{
    GpuBuild *w = &m->w;
    NestNode *fragment = gpu_loop(w, in, "part", NEST_UNROLLED, STEP_BYTES / FRAGMENT_BYTES);
    for (int i = 0; i < 2; i++) {
        int64_t pairs = i ? m->over / 2 : m->down;
        NestNode *pair = gpu_loop(w, fragment, "pair", NEST_UNROLLED, pairs);
        const GpuMatrix *f = &m->piece[i];
        Te *place = gpu_by(w, TE_MUL, gpu_var(w, pair), 16);
        place = gpu_plus(w, i ? m->warp_column : m->warp_row, place);
        gpu_matrix_fetch(f, &m->lane, pair, gpu_var(w, stage), place,
                         gpu_by(w, TE_MUL, gpu_var(w, fragment), 2 * f->each), m->words[i],
                         gpu_by(w, TE_MUL, gpu_var(w, pair), 4));
    }
    NestNode *row = gpu_loop(w, fragment, "row", NEST_UNROLLED, m->down);
    NestNode *column = gpu_loop(w, row, "column", NEST_UNROLLED, m->over);
    Te *tile = gpu_plus(w, gpu_by(w, TE_MUL, gpu_var(w, row), m->over), gpu_var(w, column));
    DType factors[2] = {m->piece[0].dtype, m->piece[1].dtype};
    Te *first = nest_load(w->n, m->words[0], gpu_by(w, TE_MUL, gpu_var(w, row), NEST_TILE_FIRST));
    Te *second =
        nest_load(w->n, m->words[1], gpu_by(w, TE_MUL, gpu_var(w, column), NEST_TILE_SECOND));
    nest_append(
        w->n, column,
        nest_tile(w->n, m->acc, gpu_by(w, TE_MUL, tile, NEST_TILE_SUMS), factors, first, second));
}

static void multiply_grouped(Build *m, NestNode *in, NestNode *stage)
{
    GpuBuild *w = &m->w;
    NestGroup g = {
        (int)w->columns, w->depth, {m->piece[0].pitch, m->piece[1].pitch}, {{0}}, m->boxed};
    Te *from[2];
    for (int i = 0; i < 2; i++) {
        const GpuMatrix *f = &m->piece[i];
        Te *rows = gpu_by(w, TE_MUL, m->group, NEST_GROUP_ROWS);
        Te *place = gpu_matrix_place(f, gpu_var(w, stage), i ? te_int(w->b, 0) : rows);
        g.factors[i] = f->dtype;
        from[i] = nest_load(w->n, f->shared, place);
    }
    nest_append(w->n, in, nest_group(w->n, m->acc, te_int(w->b, 0), &g, from[0], from[1]));
}

/* Brings both pieces of a step to a stage: all of it, or what can be done before the threads multiply, or what is left then. */
enum { BEFORE = 1, BEHIND = 2 };

static void bring(Build *m, NestNode *in, Te *step, NestNode *stage, int when)
{
    for (int i = 0; i < 2; i++) {
        const GpuMatrix *f = &m->piece[i];
        Te *tile = i ? m->w.column : m->w.row, *number = gpu_step(&m->w, step);
        if (f->boxed && when & BEFORE)
            gpu_matrix_ask(f, in, tile, number, gpu_var(&m->w, stage), m->gates);
        else if (f->copied && when & BEFORE)
            gpu_matrix_copy(f, in, tile, number, gpu_var(&m->w, stage));
        if (!f->copied && when & BEFORE)
            gpu_matrix_take(f, in, tile, number);
    }
    for (int i = 0; i < 2; i++)
        if (!m->piece[i].copied && when & BEHIND)
            gpu_matrix_put(&m->piece[i], in, gpu_var(&m->w, stage));
}

static bool copies(const Build *m)
{
    return m->piece[0].copied || m->piece[1].copied;
}

static NestNode *wait_for(Build *m, int64_t groups)
{
    NestNode *wait = nest_wait(m->w.n, (int)groups);
    wait->shown = m->groups;
    return wait;
}

/* One thread alone goes on. */
static NestNode *one_thread(Build *m, NestNode *in)
{
    return gpu_let(&m->w, in, "one", 1, m->w.thread);
}

/* Gates for both factors of each stage, which all threads see; and the first boxes. */
static void begin_boxes(Build *m)
{
    GpuBuild *w = &m->w;
    NestNode *one = one_thread(m, w->body);
    NestNode *stage = gpu_loop(w, one, "stage", NEST_UNROLLED, m->stages);
    nest_append(w->n, stage, nest_open(w->n, m->gates, gpu_var(w, stage), 2));
    nest_append(w->n, w->body, nest_barrier(w->n));
    one = one_thread(m, w->body);
    for (int64_t k = 0; k < m->stages - 1 && k < m->steps; k++) {
        stage = gpu_let(w, one, "stage", m->stages, te_int(w->b, k));
        bring(m, stage, te_int(w->b, k), stage, BEFORE);
    }
}

/* The first steps are brought before all others. */
static void begin_steps(Build *m)
{
    GpuBuild *w = &m->w;
    int64_t sums = m->down * m->over * NEST_TILE_SUMS;
    NestNode *each = gpu_loop(w, w->body, "sum", NEST_UNROLLED, sums);
    nest_append(w->n, each,
                nest_store(w->n, m->acc, gpu_var(w, each), te_number(w->b, m->sums, 0)));
    if (m->boxed) {
        begin_boxes(m);
        return;
    }
    for (int i = 0; i < 2; i++) {
        const GpuMatrix *f = &m->piece[i];
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
            nest_append(w->n, w->body, wait_for(m, m->stages));
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
    in = m->boxed ? one_thread(m, in) : in;
    NestNode *next = gpu_let(w, in, "next", m->steps, number);
    NestNode *stage = stage_of(m, next, gpu_var(w, next));
    bring(m, stage, gpu_var(w, next), stage, when);
}

static void make_steps(Build *m)
{
    GpuBuild *w = &m->w;
    begin_steps(m);
    NestNode *step = gpu_loop(w, w->body, "step", NEST_SERIAL, m->steps);
    NestNode *stage = stage_of(m, step, gpu_var(w, step));
    if (m->boxed)
        nest_append(w->n, stage,
                    nest_pass(w->n, m->gates, gpu_var(w, stage),
                              gpu_by(w, TE_DIV, gpu_var(w, step), m->stages)));
    else if (copies(m))
        nest_append(w->n, stage, wait_for(m, m->stages - 2));
    /* All have multiplied what lies where the next pieces go. */
    nest_append(w->n, stage, nest_barrier(w->n));
    bring_next(m, stage, gpu_var(w, step), BEFORE);
    if (m->groups)
        multiply_grouped(m, stage, stage);
    else
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
    row = gpu_plus(w, gpu_plus(w, m->warp_row, row), gpu_by(w, TE_DIV, m->lane.lane, 4));
    row = gpu_plus(w, gpu_by(w, TE_MUL, w->row, w->rows), row);
    Te *two = gpu_by(w, TE_MUL, gpu_by(w, TE_MOD, m->lane.lane, 4), 2);
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
    m->lane = gpu_open_lanes(w);
    NestNode *warp =
        gpu_let(w, w->body, "warp", t->down * t->across, gpu_by(w, TE_DIV, w->thread, NEST_WARP));
    NestNode *down =
        gpu_let(w, warp, "down", t->down, gpu_by(w, TE_DIV, gpu_var(w, warp), t->across));
    w->body = gpu_let(w, down, "across", t->across, gpu_by(w, TE_MOD, gpu_var(w, warp), t->across));
    m->warp_row = gpu_by(w, TE_MUL, gpu_var(w, down), w->rows / t->down);
    m->warp_column = gpu_by(w, TE_MUL, gpu_var(w, w->body), w->columns / t->across);
    if (!m->groups)
        return;
    w->body = gpu_let(w, w->body, "group", w->threads / NEST_GROUP_THREADS,
                      gpu_by(w, TE_DIV, w->thread, NEST_GROUP_THREADS));
    m->group = gpu_var(w, w->body);
}

static void make_buffers(Build *m)
{
    static const DType word = {DTYPE_CODE_UINT, 32, 1}, gate = {DTYPE_CODE_UINT, 64, 1};
    GpuBuild *w = &m->w;
    m->acc =
        gpu_buffer(w, "sum", m->sums, NEST_REGISTER, m->down * m->over * NEST_TILE_SUMS, w->body);
    for (int i = 0; i < 2; i++) {
        int64_t words = i ? m->over * NEST_TILE_SECOND : m->down * NEST_TILE_FIRST;
        gpu_matrix_room(&m->piece[i], m->stages);
        if (m->groups)
            continue;
        m->words[i] = gpu_buffer(w, i ? "column" : "row", word, NEST_REGISTER, words, w->body);
    }
    if (m->boxed)
        m->gates = gpu_buffer(w, "gates", gate, NEST_SHARED, m->stages, w->grid);
}

static void plan(Build *m, Gpu *s, const GpuProduct *p, const Shape *t, const DType factors[2],
                 int stage, int tail)
{
    int64_t bytes = t == &grouped ? STEP_BYTES_GROUPED : STEP_BYTES;
    int64_t depth = bytes / (int64_t)dtype_size(factors[0]);
    *m = (Build){.shape = t};
    m->w = (GpuBuild){.s = s,
                      .n = s->n,
                      .b = &s->n->te,
                      .p = p,
                      .rows = t->rows,
                      .columns = t->columns,
                      .depth = depth,
                      .threads = t->down * t->across * NEST_WARP,
                      .stage = stage,
                      .tail = tail};
    for (int i = 0; i < 2; i++)
        gpu_matrix_plan(&m->piece[i], &m->w, i == 1, factors[(i == 1) != p->turned],
                        i ? t->columns : t->rows, depth);
}

/* Whether groups multiply, and then so planned. */
static bool plan_grouped(Build *m, Gpu *s, const GpuProduct *p, const DType factors[2], int stage,
                         int tail)
{
    if (!s->m->groups)
        return false;
    plan(m, s, p, &grouped, factors, stage, tail);
    if (gpu_is_wide(s, p, m->w.rows, m->w.columns, m->w.depth))
        return false;
    if (s->m->boxes && gpu_matrix_box(&m->piece[0]) && gpu_matrix_box(&m->piece[1]))
        return m->groups = m->boxed = true;
    plan(m, s, p, &grouped, factors, stage, tail);
    for (int i = 0; i < 2; i++)
        if (!gpu_matrix_can_group(&m->piece[i]))
            return false;
    for (int i = 0; i < 2; i++)
        gpu_matrix_group(&m->piece[i]);
    return m->groups = true;
}

bool gpu_tile(Gpu *s, const GpuProduct *p, int stage, int tail)
{
    DType factors[2], sums;
    Build m;
    GpuBuild *w = &m.w;
    if (!takes(s, stage, factors, &sums))
        return false;
    if (!plan_grouped(&m, s, p, factors, stage, tail))
        plan(&m, s, p, shape_of(s, p, STEP_BYTES / (int64_t)dtype_size(factors[0])), factors, stage,
             tail);
    m.sums = sums;
    m.steps = gpu_part_steps(w);
    m.stages = copies(&m) ? STAGES_COPIED : STAGES_TAKEN;
    m.down = m.shape->rows / m.shape->down / NEST_TILE_ROWS;
    m.over = m.shape->columns / m.shape->across / NEST_TILE_COLUMNS;
    gpu_open_product(w);
    open_warps(&m);
    make_buffers(&m);
    make_steps(&m);
    store_sums(&m);
    gpu_add_parts(w);
    return true;
}
