/* Attention in one kernel: products of queries and keys, the shares of each row of those, and values summed by the shares.
 *
 * A block takes some queries and goes through the keys in steps. What the shares of a row are shares of is known behind the last step
 * alone, so each step keeps the greatest score so far, and brings what was summed before to that. Neither scores nor shares are ever in
 * memory. Eight threads have a row of a step: they find its greatest score together. */
#include "sched/gpu_attention.h"

#include "sched/gpu_matrix.h"
#include "te/walk.h"

/* Queries and keys of a step; the thread's own of both; threads of a row; folds that are straight code. */
#define QUERIES 32
#define KEYS 32
#define OWN 4
#define ACROSS (KEYS / OWN)
#define THREADS (QUERIES / OWN * ACROSS)
#define STRAIGHT 8
/* ---- which stages are attention ------------------------------------------------------------------------------------------ */

typedef struct Reads {
    int tensor, n;
} Reads;

static void count_read(void *data, Te *e)
{
    Reads *r = data;
    r->n += e->kind == TE_NODE_LOAD && e->tensor == r->tensor;
}

static int reads_of(Gpu *s, int stage)
{
    Reads r = {.tensor = s->p->n_inputs + stage};
    PtrMap seen = {0};
    for (int i = 0; i < s->p->n_stages; i++) {
        te_each(s->arena, &seen, s->p->stages[i].body, count_read, &r);
        ptrmap_clear(&seen);
    }
    ptrmap_deinit(&seen);
    for (int i = 0; i < s->p->n_outputs; i++)
        r.n += s->p->outputs[i] == r.tensor;
    return r.n;
}

/* The stage of which the load reads the element at the first `n` axes, of which the last may be another; -1: it is no such load. */
static int stage_at(const Gpu *s, const Te *load, int n, int last)
{
    int stage = load->kind == TE_NODE_LOAD && !load->otherwise ? load->tensor - s->p->n_inputs : -1;
    if (stage < 0 || load->n != n)
        return -1;
    for (int i = 0; i < n; i++) {
        const Te *at = load->index[i];
        int axis = i == n - 1 ? last : i;
        if (s->p->stages[stage].shape[i] > 1 && (at->kind != TE_NODE_AXIS || at->axis != axis))
            return -1;
    }
    return stage;
}

/* The stage, which the load reads and so many loads read in all, and which is of this kind; it becomes one of those inside. */
static const TeStage *inside(Gpu *s, GpuAttention *t, const Te *load, int rank, int last,
                             TeReduce kind, int reads)
{
    DType dtype = s->p->stages[t->out].dtype;
    int stage = stage_at(s, load, rank, last);
    const TeStage *st = stage < 0 ? NULL : &s->p->stages[stage];
    if (!st || st->reduce != kind || !dtype_eq(st->dtype, dtype) || reads_of(s, stage) != reads ||
        (kind != TE_NO_REDUCE && (st->n_reduced != 1 || st->rank != rank)))
        return NULL;
    t->inside[t->n++] = stage;
    return st;
}

static bool is_of(const TeStage *st, TeOp op)
{
    return st && (st->body->kind == TE_NODE_BINARY || st->body->kind == TE_NODE_UNARY) &&
           st->body->op == op;
}

static bool same_side(const GpuSide *a, const GpuSide *b)
{
    bool same = a->n == b->n;
    for (int i = 0; same && i < a->n; i++)
        same = a->axis[i] == b->axis[i];
    return same && a->extent == b->extent;
}

/* exp(x - most) over its sum: as one quotient, or by the sum's inverse. */
static const TeStage *powers_of(Gpu *s, GpuAttention *t, const TeStage *shares, int rank)
{
    bool inverse = is_of(shares, TE_MUL);
    if (!shares || (!inverse && !is_of(shares, TE_DIV)))
        return NULL;
    const TeStage *over =
        inside(s, t, shares->body->b, rank - 1, rank - 2, inverse ? TE_NO_REDUCE : TE_SUM, 1);
    if (inverse) {
        const Te *one = is_of(over, TE_DIV) ? over->body->a : NULL;
        if (!one || one->kind != TE_NODE_CONST || value_as_double(one->value) != 1)
            return NULL;
        over = inside(s, t, over->body->b, rank - 1, rank - 2, TE_SUM, 1);
    }
    int powers = stage_at(s, shares->body->a, rank, rank - 1);
    if (!over || powers < 0 || stage_at(s, over->body, rank, rank - 1) != powers)
        return NULL;
    return inside(s, t, shares->body->a, rank, rank - 1, TE_NO_REDUCE, 2);
}

/* Whether all factors are halves, as tensor cores take them, or none is. */
static bool has_factors(const Gpu *s, const GpuAttention *t)
{
    const TeStage *st[2] = {&s->p->stages[t->scores], &s->p->stages[t->out]};
    DType dtype = st[1]->dtype;
    if (dtype.bits == 32)
        return !s->m->tf32;
    bool halves = dtype.bits == 16;
    for (int i = 0; i < 2; i++)
        halves = halves && dtype_eq(gpu_narrow(st[i]->body->a)->dtype, dtype) &&
                 dtype_eq(gpu_narrow(st[i]->body->b)->dtype, dtype);
    return halves;
}

bool gpu_attention_of(Gpu *s, int stage, GpuAttention *t)
{
    const TeStage *st = &s->p->stages[stage];
    int rank = st->rank;
    *t = (GpuAttention){.out = stage};
    if (!dtype_is_float(st->dtype) || rank < 2 || st->n_reduced != 1 ||
        !gpu_product_of(s, stage, &t->second))
        return false;
    const Te *factor = t->second.turned ? st->body->b : st->body->a;
    const TeStage *shares = inside(s, t, factor, rank, rank, TE_NO_REDUCE, 1);
    const TeStage *powers = powers_of(s, t, shares, rank);
    if (!is_of(powers, TE_EXP) || powers->body->a->kind != TE_NODE_BINARY ||
        powers->body->a->op != TE_SUB)
        return false;
    const Te *score = powers->body->a->a;
    const TeStage *most = inside(s, t, powers->body->a->b, rank - 1, rank - 2, TE_REDUCE_MAX, 1);
    t->scaled = t->scores = stage_at(s, score, rank, rank - 1);
    if (!most || t->scaled < 0 || stage_at(s, most->body, rank, rank - 1) != t->scaled ||
        reads_of(s, t->scaled) != 2)
        return false;
    t->inside[t->n++] = t->scaled;
    for (int i = 0; i < t->scaled && s->p->stages[t->scaled].reduce == TE_NO_REDUCE; i++)
        if (gpu_product_of(s, i, &t->first) && gpu_tail(s, i) == t->scaled)
            t->scores = i;
    if (t->scores != t->scaled)
        t->inside[t->n++] = t->scores;
    return gpu_product_of(s, t->scores, &t->first) && !t->first.turned &&
           dtype_eq(s->p->stages[t->scores].dtype, powers->dtype) &&
           s->p->stages[t->scores].rank == rank && t->first.columns.n == 1 &&
           t->first.columns.axis[0] == rank - 1 && same_side(&t->first.batch, &t->second.batch) &&
           same_side(&t->first.rows, &t->second.rows) && t->first.folds.extent <= GPU_WIDTH_MOST &&
           t->second.columns.extent <= GPU_WIDTH_MOST && has_factors(s, t);
}

void gpu_attended(Gpu *s, int stage, bool *by_stage)
{
    GpuAttention t;
    for (int i = 0; gpu_attention_of(s, stage, &t) && i < t.n; i++)
        by_stage[t.inside[i]] = true;
}

/* ---- building -------------------------------------------------------------------------------------------------------------- */

typedef struct Build {
    GpuBuild keys, values; /* the two products */
    const GpuAttention *t;
    Nest *n;
    TeBuilder *b;
    NestNode *body;
    Te *ty, *tx; /* the thread's rows, and its part of those */
    int64_t width; /* of the thread's own values */
    int q, k, v, shares; /* shared memory */
    GpuShares r;
    int acc, own[2]; /* registers */
} Build;

static DType single(void)
{
    return (DType){DTYPE_CODE_FLOAT, 32, 1};
}

static int64_t up_to(int64_t v, int64_t by)
{
    return (v + by - 1) / by * by;
}

static NestNode *over(Build *m, NestNode *in, const char *name, NestWay way, int64_t extent)
{
    return gpu_loop(&m->values, in, name, way, extent);
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

static int registers(Build *m, const char *name, int64_t n)
{
    return gpu_buffer(&m->values, name, single(), NEST_REGISTER, n, m->body);
}

static int shared(Build *m, const char *name, int64_t n)
{
    return gpu_buffer(&m->values, name, single(), NEST_SHARED, n, m->values.grid);
}

/* A step between the folds of a piece, so that threads meet different banks. */
static int64_t pitch(int64_t places)
{
    return places + OWN;
}

/* Neighbours of a fold come to the thread's registers, group after group of those of all threads. */
static void take(Build *m, NestNode *in, int to, int from, Te *at, int64_t groups, Te *thread)
{
    NestNode *group = over(m, in, "group", NEST_UNROLLED, groups);
    NestNode *lane = over(m, group, "lane", NEST_VECTOR, OWN);
    Te *place = scaled(m, var(m, group), ACROSS * OWN, scaled(m, thread, OWN, var(m, lane)));
    store(m, lane, to, scaled(m, var(m, group), OWN, var(m, lane)),
          load(m, from, gpu_plus(&m->values, at, place)));
}

/* Adds products of what both pieces have at so many places, one after the other: own rows by own columns. */
static void multiply(Build *m, NestNode *in, int64_t places, const int from[2], int64_t step,
                     int64_t groups, int to)
{
    NestNode *turn = over(m, in, "turn", NEST_SERIAL, places / STRAIGHT);
    NestNode *each = over(m, turn, "fold", NEST_UNROLLED, STRAIGHT);
    Te *place = scaled(m, var(m, turn), STRAIGHT, var(m, each));
    take(m, each, m->own[0], from[0], gpu_by(&m->values, TE_MUL, place, pitch(QUERIES)), 1, m->ty);
    take(m, each, m->own[1], from[1], gpu_by(&m->values, TE_MUL, place, step), groups, m->tx);
    NestNode *row = over(m, each, "row", NEST_UNROLLED, OWN);
    NestNode *group = over(m, row, "group", NEST_UNROLLED, groups);
    NestNode *lane = over(m, group, "lane", NEST_VECTOR, OWN);
    Te *column = scaled(m, var(m, group), OWN, var(m, lane));
    Te *product =
        te_binary(m->b, TE_MUL, load(m, m->own[0], var(m, row)), load(m, m->own[1], column));
    fold(m, lane, TE_SUM, to, scaled(m, var(m, row), groups * OWN, column), product);
}

/* All of the registers begin with the number. */
static void set(Build *m, NestNode *in, int buffer, Te *value)
{
    int64_t n = m->n->buffers.at[buffer].size;
    NestNode *group = over(m, in, "group", NEST_UNROLLED, n / OWN);
    NestNode *lane = over(m, group, "lane", NEST_VECTOR, OWN);
    store(m, lane, buffer, scaled(m, var(m, group), OWN, var(m, lane)), value);
}

static void bring(GpuBuild *w, NestNode *in, GpuPiece f)
{
    f.dtype = single();
    f.pitch = pitch(f.places);
    gpu_bring(w, in, &f);
}

void gpu_attention_score(GpuBuild *w, const GpuAttention *t, NestNode *in, Te *query, Te *key,
                         int scores, Te *at, int next)
{
    const TeProgram *p = w->s->p;
    static const DType single = {DTYPE_CODE_FLOAT, 32, 1};
    NestLinear *axes = gpu_axes(w);
    nest_append(w->n, in, nest_store(w->n, next, te_int(w->b, 0), te_bound(w->b, single, true)));
    NestNode *inner = gpu_bind_side(w, in, &w->p->batch, w->batch, NULL, axes);
    inner = gpu_bind_side(w, inner, &w->p->rows, query, NULL, axes);
    inner = gpu_bind_side(w, inner, &w->p->columns, key, NULL, axes);
    Te *score = nest_load(w->n, scores, at);
    if (t->scaled != t->scores) {
        score = te_cast(w->b, p->stages[t->scores].dtype, score);
        score = nest_expression(w->n, p, t->scaled, axes, p->n_inputs + t->scores, score);
    }
    score = te_cast(w->b, single, score);
    nest_append(w->n, inner, nest_store(w->n, next, te_int(w->b, 0), score));
    nest_append(w->n, in, nest_store(w->n, scores, at, nest_load(w->n, next, te_int(w->b, 0))));
}

void gpu_fold_row(GpuBuild *w, NestNode *in, TeReduce kind, int buffer, Te *row, int threads,
                  int other)
{
    Te *zero = te_int(w->b, 0);
    for (int lanes = 1; lanes < threads; lanes *= 2) {
        Te *own = nest_load(w->n, buffer, row);
        nest_append(w->n, in, nest_shuffle(w->n, other, zero, lanes, own));
        nest_append(w->n, in, nest_fold(w->n, kind, buffer, row, nest_load(w->n, other, zero)));
    }
}

void gpu_new_greatest(GpuBuild *w, NestNode *in, const GpuShares *r, Te *row, int threads)
{
    Nest *n = w->n;
    TeBuilder *b = w->b;
    Te *zero = te_int(b, 0);
    gpu_fold_row(w, in, TE_REDUCE_MAX, r->most, row, threads, r->other);
    Te *most = nest_load(n, r->most, row), *scale = nest_load(n, r->scale, row);
    Te *none = te_binary(b, TE_EQ, most, te_bound(b, single(), true));
    Te *next = te_select(b, none, te_number(b, single(), 0), most);
    nest_append(n, in, nest_store(n, r->next, zero, next));
    Te *from = te_binary(b, TE_SUB, scale, nest_load(n, r->next, zero));
    nest_append(n, in, nest_store(n, r->scale, row, te_unary(b, TE_EXP, from)));
    Te *sum = te_binary(b, TE_MUL, nest_load(n, r->sum, row), scale);
    nest_append(n, in, nest_store(n, r->sum, row, sum));
}

void gpu_make_share(GpuBuild *w, NestNode *in, const GpuShares *r, Te *row, Te *at)
{
    Nest *n = w->n;
    Te *next = nest_load(n, r->next, te_int(w->b, 0));
    Te *above = te_binary(w->b, TE_SUB, nest_load(n, r->score, at), next);
    nest_append(n, in, nest_store(n, r->score, at, te_unary(w->b, TE_EXP, above)));
    nest_append(n, in, nest_fold(n, TE_SUM, r->sum, row, nest_load(n, r->score, at)));
}

static void scale_scores(Build *m, NestNode *in, Te *step)
{
    NestNode *row = over(m, in, "row", NEST_UNROLLED, OWN);
    NestNode *column = over(m, row, "column", NEST_UNROLLED, OWN);
    Te *at = scaled(m, var(m, row), OWN, var(m, column));
    Te *query = scaled(m, m->keys.row, QUERIES, scaled(m, m->ty, OWN, var(m, row)));
    Te *key = scaled(m, step, KEYS, scaled(m, m->tx, OWN, var(m, column)));
    gpu_attention_score(&m->keys, m->t, column, query, key, m->r.score, at, m->r.next);
}

/* Scores become powers of what they are above the greatest, which may be a new one. */
static void make_shares(Build *m, NestNode *in)
{
    NestNode *row = over(m, in, "row", NEST_UNROLLED, OWN);
    Te *r = var(m, row);
    store(m, row, m->r.scale, r, load(m, m->r.most, r));
    NestNode *column = over(m, row, "column", NEST_UNROLLED, OWN);
    fold(m, column, TE_REDUCE_MAX, m->r.most, r,
         load(m, m->r.score, scaled(m, r, OWN, var(m, column))));
    gpu_new_greatest(&m->values, row, &m->r, r, ACROSS);
    column = over(m, row, "column", NEST_UNROLLED, OWN);
    Te *c = var(m, column), *at = scaled(m, r, OWN, c);
    gpu_make_share(&m->values, column, &m->r, r, at);
    Te *place = scaled(m, scaled(m, m->tx, OWN, c), pitch(QUERIES), scaled(m, m->ty, OWN, r));
    store(m, column, m->shares, place, load(m, m->r.score, at));
}

/* What was summed before is brought to the new greatest score. */
static void rescale(Build *m, NestNode *in)
{
    NestNode *row = over(m, in, "row", NEST_UNROLLED, OWN);
    NestNode *group = over(m, row, "group", NEST_UNROLLED, m->width / OWN);
    NestNode *lane = over(m, group, "lane", NEST_VECTOR, OWN);
    Te *at = scaled(m, var(m, group), OWN, var(m, lane));
    at = scaled(m, var(m, row), m->width, at);
    Te *now = te_binary(m->b, TE_MUL, load(m, m->acc, at), load(m, m->r.scale, var(m, row)));
    store(m, lane, m->acc, at, now);
}

static void make_step(Build *m, NestNode *step)
{
    Te *first = gpu_by(&m->values, TE_MUL, var(m, step), KEYS), *zero = te_int(m->b, 0);
    int64_t values = m->values.columns;
    bring(&m->keys, step,
          (GpuPiece){.columns = true,
                     .places = KEYS,
                     .folds = m->keys.depth,
                     .place = first,
                     .fold = zero,
                     .buffer = m->k});
    bring(&m->values, step,
          (GpuPiece){.columns = true,
                     .places = values,
                     .folds = KEYS,
                     .place = zero,
                     .fold = first,
                     .buffer = m->v});
    nest_append(m->n, step, nest_barrier(m->n));
    set(m, step, m->r.score, number(m, 0));
    multiply(m, step, m->keys.depth, (int[]){m->q, m->k}, pitch(KEYS), 1, m->r.score);
    scale_scores(m, step, var(m, step));
    make_shares(m, step);
    rescale(m, step);
    nest_append(m->n, step, nest_barrier(m->n));
    multiply(m, step, KEYS, (int[]){m->shares, m->v}, pitch(values), m->width / OWN, m->acc);
    nest_append(m->n, step, nest_barrier(m->n));
}

static void store_rows(Build *m)
{
    GpuBuild *w = &m->values;
    NestNode *row = over(m, m->body, "row", NEST_UNROLLED, OWN);
    gpu_fold_row(w, row, TE_SUM, m->r.sum, var(m, row), ACROSS, m->r.other);
    NestNode *group = over(m, row, "group", NEST_UNROLLED, m->width / OWN);
    NestNode *lane = over(m, group, "lane", NEST_UNROLLED, OWN);
    Te *r = var(m, row), *own = scaled(m, var(m, group), OWN, var(m, lane));
    Te *query = scaled(m, w->row, QUERIES, scaled(m, m->ty, OWN, r));
    Te *column = scaled(m, var(m, group), ACROSS * OWN, scaled(m, m->tx, OWN, var(m, lane)));
    NestLinear *axes = gpu_axes(w);
    NestNode *in = gpu_bind_side(w, lane, &w->p->batch, w->batch, NULL, axes);
    in = gpu_bind_side(w, in, &w->p->rows, query, NULL, axes);
    in = gpu_bind_side(w, in, &w->p->columns, column, NULL, axes);
    Te *sum = load(m, m->acc, scaled(m, r, m->width, own));
    gpu_store_sum(w, in, te_binary(m->b, TE_DIV, sum, load(m, m->r.sum, r)), axes);
}

static void make_buffers(Build *m)
{
    m->q = shared(m, "queries", m->keys.depth * pitch(QUERIES));
    m->k = shared(m, "keys", m->keys.depth * pitch(KEYS));
    m->v = shared(m, "values", KEYS * pitch(m->values.columns));
    m->shares = shared(m, "shares", KEYS * pitch(QUERIES));
    m->r.score = registers(m, "score", OWN * OWN);
    m->r.most = registers(m, "most", OWN);
    m->r.next = registers(m, "next", 1);
    m->r.other = registers(m, "other", 1);
    m->r.scale = registers(m, "scale", OWN);
    m->r.sum = registers(m, "sum", OWN);
    m->acc = registers(m, "acc", OWN * m->width);
    m->own[0] = registers(m, "row", OWN);
    m->own[1] = registers(m, "column", m->width);
}

bool gpu_attention(Gpu *s, int stage, int tail)
{
    GpuAttention t;
    if (!gpu_attention_of(s, stage, &t))
        return false;
    if (s->p->stages[stage].dtype.bits == 16) {
        gpu_attention_halves(s, &t, tail);
        return true;
    }
    Build m = {.t = &t, .n = s->n, .b = &s->n->te};
    GpuBuild *w = &m.values;
    *w = (GpuBuild){.s = s,
                    .n = s->n,
                    .b = m.b,
                    .p = &t.second,
                    .rows = QUERIES,
                    .columns = up_to(t.second.columns.extent, OWN * ACROSS),
                    .depth = KEYS,
                    .threads = THREADS,
                    .stage = stage,
                    .tail = tail,
                    .parts = 1};
    gpu_open_product(w);
    NestNode *y = gpu_let(w, w->body, "y", QUERIES / OWN, gpu_by(w, TE_DIV, w->thread, ACROSS));
    m.body = gpu_let(w, y, "x", ACROSS, gpu_by(w, TE_MOD, w->thread, ACROSS));
    m.ty = var(&m, y);
    m.tx = var(&m, m.body);
    m.width = w->columns / ACROSS;
    m.keys = *w;
    m.keys.p = &t.first;
    m.keys.stage = t.scores;
    m.keys.tail = -1;
    m.keys.columns = KEYS;
    m.keys.depth = up_to(t.first.folds.extent, STRAIGHT);
    make_buffers(&m);
    set(&m, m.body, m.r.most, te_bound(m.b, single(), true));
    set(&m, m.body, m.r.sum, number(&m, 0));
    set(&m, m.body, m.acc, number(&m, 0));
    Te *zero = te_int(m.b, 0);
    bring(&m.keys, m.body,
          (GpuPiece){.places = QUERIES,
                     .folds = m.keys.depth,
                     .place = gpu_by(w, TE_MUL, w->row, QUERIES),
                     .fold = zero,
                     .buffer = m.q});
    int64_t steps = (t.first.columns.extent + KEYS - 1) / KEYS;
    make_step(&m, over(&m, m.body, "step", NEST_SERIAL, steps));
    store_rows(&m);
    return true;
}
