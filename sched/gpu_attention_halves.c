/* Attention of 16-bit floats on tensor cores, in one kernel.
 *
 * Each warp of a block has 16 queries, whose fragments stay in registers, and goes through the keys in steps with all others. What tensor
 * cores leave of the scores in a thread are two rows, as what they take: so shares become fragments where they are, and only the four
 * threads of a row have to find its greatest score together. Keys and values of the next step are copied meanwhile. */
#include "sched/gpu_attention.h"
#include "sched/gpu_matrix.h"

#define WARPS 4
#define QUERIES (WARPS * NEST_TILE_ROWS)
#define KEYS 64
/* Places of a fragment's two matrices; rows that a thread has, and threads that have a row. */
#define SIDE 16
#define HALVES 2
#define ROW_THREADS 4

typedef struct Build {
    GpuBuild keys, values; /* the two products */
    const GpuAttention *t;
    Nest *n;
    TeBuilder *b;
    NestNode *body;
    GpuLane lane;
    Te *warp;
    GpuMatrix q, k, v;
    DType half;
    int64_t depth, width, steps, stages;
    int words[3], shares; /* registers: fragments of queries, keys, values and shares */
    GpuShares r;
    int acc;
} Build;

static DType single(void)
{
    return (DType){DTYPE_CODE_FLOAT, 32, 1};
}

static NestNode *over(Build *m, NestNode *in, const char *name, int64_t extent)
{
    return gpu_loop(&m->values, in, name, NEST_UNROLLED, extent);
}

static Te *var(Build *m, const NestNode *loop)
{
    return te_axis(m->b, loop->var);
}

/* a * by + b */
static Te *scaled(Build *m, Te *a, int64_t by, Te *b)
{
    return gpu_plus(&m->values, gpu_by(&m->values, TE_MUL, a, by), b);
}

static Te *times(Build *m, Te *a, int64_t by)
{
    return gpu_by(&m->values, TE_MUL, a, by);
}

static Te *load(Build *m, int buffer, Te *at)
{
    return nest_load(m->n, buffer, at);
}

static void store(Build *m, NestNode *in, int buffer, Te *at, Te *value)
{
    nest_append(m->n, in, nest_store(m->n, buffer, at, value));
}

static void fold(Build *m, NestNode *in, TeReduce kind, int buffer, Te *at, Te *value)
{
    nest_append(m->n, in, nest_fold(m->n, kind, buffer, at, value));
}

static Te *number(Build *m, double v)
{
    return te_number(m->b, single(), v);
}

static void set(Build *m, NestNode *in, int buffer, Te *value)
{
    NestNode *each = over(m, in, "each", m->n->buffers.at[buffer].size);
    store(m, each, buffer, var(m, each), value);
}

/* Tiles of sums: of the fragment of rows `first` by so many pairs of columns, whose fragments were fetched. */
static void multiply(Build *m, NestNode *in, Te *first, int second, int64_t pairs, int to)
{
    DType factors[2] = {m->half, m->half};
    NestNode *tile = over(m, in, "tile", 2 * pairs);
    nest_append(m->n, tile,
                nest_tile(m->n, to, times(m, var(m, tile), NEST_TILE_SUMS), factors, first,
                          load(m, second, times(m, var(m, tile), NEST_TILE_SECOND))));
}

/* A thread's sums of a row of tiles: all of one of its rows. */
static NestNode *over_row(Build *m, NestNode *in, int64_t tiles, Te *half, Te **at, Te **column)
{
    NestNode *tile = over(m, in, "tile", tiles), *pair = over(m, tile, "pair", 2);
    *at = scaled(m, var(m, tile), NEST_TILE_SUMS, scaled(m, half, 2, var(m, pair)));
    Te *two = times(m, gpu_by(&m->values, TE_MOD, m->lane.lane, 4), 2);
    *column = scaled(m, var(m, tile), NEST_TILE_COLUMNS, gpu_plus(&m->values, two, var(m, pair)));
    return pair;
}

/* The number of the thread's row among all queries. */
static Te *query_of(Build *m, Te *half)
{
    Te *row = scaled(m, half, 8, gpu_by(&m->values, TE_DIV, m->lane.lane, 4));
    return scaled(m, m->values.row, QUERIES, scaled(m, m->warp, NEST_TILE_ROWS, row));
}

static void make_scores(Build *m, NestNode *in, Te *stage, Te *step)
{
    set(m, in, m->r.score, number(m, 0));
    NestNode *part = over(m, in, "part", m->depth / SIDE);
    NestNode *pair = over(m, part, "pair", KEYS / SIDE);
    gpu_matrix_fetch(&m->k, &m->lane, pair, stage, times(m, var(m, pair), SIDE),
                     times(m, var(m, part), SIDE), m->words[1], times(m, var(m, pair), 4));
    multiply(m, part, load(m, m->words[0], times(m, var(m, part), NEST_TILE_FIRST)), m->words[1],
             KEYS / SIDE, m->r.score);
    NestNode *half = over(m, in, "half", HALVES);
    Te *at, *column;
    NestNode *each = over_row(m, half, KEYS / NEST_TILE_COLUMNS, var(m, half), &at, &column);
    gpu_attention_score(&m->keys, m->t, each, query_of(m, var(m, half)),
                        scaled(m, step, KEYS, column), m->r.score, at, m->r.next);
}

/* Scores become powers of what they are above the greatest, which may be a new one; what was summed before is brought to that. */
static void make_shares(Build *m, NestNode *in)
{
    NestNode *half = over(m, in, "half", HALVES);
    Te *r = var(m, half), *at, *column;
    store(m, half, m->r.scale, r, load(m, m->r.most, r));
    NestNode *each = over_row(m, half, KEYS / NEST_TILE_COLUMNS, r, &at, &column);
    fold(m, each, TE_REDUCE_MAX, m->r.most, r, load(m, m->r.score, at));
    gpu_new_greatest(&m->values, half, &m->r, r, ROW_THREADS);
    each = over_row(m, half, KEYS / NEST_TILE_COLUMNS, r, &at, &column);
    gpu_make_share(&m->values, each, &m->r, r, at);
    each = over_row(m, half, m->width / NEST_TILE_COLUMNS, r, &at, &column);
    store(m, each, m->acc, at,
          te_binary(m->b, TE_MUL, load(m, m->acc, at), load(m, m->r.scale, r)));
}

/* Two neighbours of a row are a word of a fragment: of two tiles the upper and lower row of the left one, then of the right one. */
static void pack_shares(Build *m, NestNode *in)
{
    NestNode *word = over(m, in, "word", KEYS / NEST_TILE_COLUMNS * HALVES);
    Te *two = times(m, var(m, word), 2), *next = gpu_plus(&m->values, two, te_int(m->b, 1));
    nest_append(m->n, word,
                nest_pair(m->n, m->shares, var(m, word),
                          te_cast(m->b, m->half, load(m, m->r.score, two)),
                          te_cast(m->b, m->half, load(m, m->r.score, next))));
}

static void add_values(Build *m, NestNode *in, Te *stage)
{
    int64_t pairs = m->width / SIDE;
    NestNode *part = over(m, in, "part", KEYS / SIDE), *pair = over(m, part, "pair", pairs);
    gpu_matrix_fetch(&m->v, &m->lane, pair, stage, times(m, var(m, pair), SIDE),
                     times(m, var(m, part), SIDE), m->words[2], times(m, var(m, pair), 4));
    multiply(m, part, load(m, m->shares, times(m, var(m, part), NEST_TILE_FIRST)), m->words[2],
             pairs, m->acc);
}

/* ---- the steps --------------------------------------------------------------------------------------------------------------- */

static void bring(const GpuMatrix *f, NestNode *in, Te *tile, Te *step, Te *stage)
{
    if (f->copied) {
        gpu_matrix_copy(f, in, tile, step, stage);
        return;
    }
    gpu_matrix_take(f, in, tile, step);
    gpu_matrix_put(f, in, stage);
}

static void bring_step(Build *m, NestNode *in, Te *step, Te *stage)
{
    bring(&m->k, in, step, te_int(m->b, 0), stage);
    bring(&m->v, in, te_int(m->b, 0), step, stage);
}

static void arrive(Build *m, NestNode *in)
{
    if (m->q.copied || m->k.copied || m->v.copied)
        nest_append(m->n, in, nest_wait(m->n, 0));
    nest_append(m->n, in, nest_barrier(m->n));
}

static void begin(Build *m)
{
    Te *zero = te_int(m->b, 0);
    set(m, m->body, m->r.most, te_bound(m->b, single(), true));
    set(m, m->body, m->r.sum, number(m, 0));
    set(m, m->body, m->acc, number(m, 0));
    bring(&m->q, m->body, m->keys.row, zero, zero);
    if (m->stages > 1)
        bring_step(m, m->body, zero, zero);
    arrive(m, m->body);
    NestNode *part = over(m, m->body, "part", m->depth / SIDE);
    gpu_matrix_fetch(&m->q, &m->lane, part, zero, times(m, m->warp, NEST_TILE_ROWS),
                     times(m, var(m, part), SIDE), m->words[0],
                     times(m, var(m, part), NEST_TILE_FIRST));
}

static void make_steps(Build *m)
{
    GpuBuild *w = &m->values;
    NestNode *step = gpu_loop(w, m->body, "step", NEST_SERIAL, m->steps);
    Te *stage = gpu_by(w, TE_MOD, var(m, step), m->stages);
    NestNode *of = gpu_let(w, step, "stage", m->stages, stage);
    stage = var(m, of);
    if (m->stages > 1) {
        arrive(m, of);
        Te *behind = gpu_plus(w, var(m, step), te_int(m->b, 1));
        NestNode *next = gpu_let(w, of, "next", m->steps, behind);
        NestNode *to =
            gpu_let(w, next, "stage", m->stages, gpu_by(w, TE_MOD, var(m, next), m->stages));
        bring_step(m, to, var(m, next), var(m, to));
    } else {
        nest_append(m->n, of, nest_barrier(m->n));
        bring_step(m, of, var(m, step), stage);
        arrive(m, of);
    }
    make_scores(m, of, stage, var(m, step));
    make_shares(m, of);
    pack_shares(m, of);
    add_values(m, of, stage);
}

static void store_rows(Build *m)
{
    GpuBuild *w = &m->values;
    NestNode *half = over(m, m->body, "half", HALVES);
    Te *r = var(m, half), *at, *column;
    gpu_fold_row(w, half, TE_SUM, m->r.sum, r, ROW_THREADS, m->r.other);
    NestNode *each = over_row(m, half, m->width / NEST_TILE_COLUMNS, r, &at, &column);
    NestLinear *axes = gpu_axes(w);
    NestNode *in = gpu_bind_side(w, each, &w->p->batch, w->batch, NULL, axes);
    in = gpu_bind_side(w, in, &w->p->rows, query_of(m, r), NULL, axes);
    in = gpu_bind_side(w, in, &w->p->columns, column, NULL, axes);
    Te *share = te_binary(m->b, TE_DIV, load(m, m->acc, at), load(m, m->r.sum, r));
    gpu_store_sum(w, in, share, axes);
}

/* ---- building -------------------------------------------------------------------------------------------------------------------- */

static int64_t up_to(int64_t v, int64_t by)
{
    return (v + by - 1) / by * by;
}

static int registers(Build *m, const char *name, DType dtype, int64_t n)
{
    return gpu_buffer(&m->values, name, dtype, NEST_REGISTER, n, m->body);
}

static void make_buffers(Build *m)
{
    static const DType word = {DTYPE_CODE_UINT, 32, 1};
    gpu_matrix_room(&m->q, 1);
    gpu_matrix_room(&m->k, m->stages);
    gpu_matrix_room(&m->v, m->stages);
    m->words[0] = registers(m, "query", word, m->depth / SIDE * NEST_TILE_FIRST);
    m->words[1] = registers(m, "key", word, KEYS / SIDE * 4);
    m->words[2] = registers(m, "value", word, m->width / SIDE * 4);
    m->shares = registers(m, "share", word, KEYS / SIDE * NEST_TILE_FIRST);
    m->r.score = registers(m, "score", single(), KEYS / NEST_TILE_COLUMNS * NEST_TILE_SUMS);
    m->acc = registers(m, "acc", single(), m->width / NEST_TILE_COLUMNS * NEST_TILE_SUMS);
    m->r.most = registers(m, "most", single(), HALVES);
    m->r.sum = registers(m, "sum", single(), HALVES);
    m->r.scale = registers(m, "scale", single(), HALVES);
    m->r.next = registers(m, "next", single(), 1);
    m->r.other = registers(m, "other", single(), 1);
}

void gpu_attention_halves(Gpu *s, const GpuAttention *t, int tail)
{
    Build m = {.t = t, .n = s->n, .b = &s->n->te, .half = s->p->stages[t->out].dtype};
    GpuBuild *w = &m.values;
    m.depth = up_to(t->first.folds.extent, SIDE);
    m.width = up_to(t->second.columns.extent, SIDE);
    m.steps = (t->first.columns.extent + KEYS - 1) / KEYS;
    *w = (GpuBuild){.s = s,
                    .n = s->n,
                    .b = m.b,
                    .p = &t->second,
                    .rows = QUERIES,
                    .columns = m.width,
                    .depth = KEYS,
                    .threads = WARPS * NEST_WARP,
                    .stage = t->out,
                    .tail = tail,
                    .parts = 1};
    gpu_open_product(w);
    m.lane = gpu_open_lanes(w);
    w->body = gpu_let(w, w->body, "warp", WARPS, gpu_by(w, TE_DIV, w->thread, NEST_WARP));
    m.warp = gpu_var(w, w->body);
    m.body = w->body;
    m.keys = *w;
    m.keys.p = &t->first;
    m.keys.stage = t->scores;
    m.keys.tail = -1;
    gpu_matrix_plan(&m.q, &m.keys, false, m.half, QUERIES, m.depth);
    gpu_matrix_plan(&m.k, &m.keys, true, m.half, KEYS, m.depth);
    gpu_matrix_plan(&m.v, w, true, m.half, m.width, KEYS);
    m.stages = m.k.copied && m.v.copied ? 2 : 1;
    make_buffers(&m);
    begin(&m);
    make_steps(&m);
    store_rows(&m);
}
