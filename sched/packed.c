/* Matrix products in register tiles, of the first operand as it lies. A second operand that is known is laid out once, when code is made,
 * in vectors of columns ("packed"); one that is not is laid out so each time ("turned"), or is read as it lies where its columns lie side by
 * side ("plain"). What is done with the results is done where they are stored. */
#include "sched/conv.h"

typedef struct Packed {
    Sched *s;
    const NestProduct *q;
    const Tail *tail;
    int stage;
    DType dtype;
    int64_t blocks; /* vectors of columns */
    int64_t height, vectors; /* of a tile */
    int rows, columns; /* buffers */
    int64_t row_from, row_pitch;
    int64_t column_from, vector_step,
        turn_step; /* from vector to vector and from row to row of the second */
    bool plain;
    NestNode *batch; /* the loop over products, or NULL */
    int64_t batch_step; /* of the second */
} Packed;

/* columns[o, k, lane] = b[k, lanes * o + lane] */
static int packed_columns(const Packed *d)
{
    Sched *s = d->s;
    const TeTensor *in = &s->p->inputs[d->q->b];
    TeBuilder b;
    te_begin(&b, s->cx, s->arena);
    TeTensor w = te_add_input(&b, in->dtype, in->rank, in->shape);
    int64_t shape[3] = {d->blocks, d->q->k.extent, s->lanes};
    NestLinear at = {.c = d->q->b_from};
    int64_t step[3] = {s->lanes * d->q->n.b, d->q->k.b, d->q->n.b};
    Te *flat = te_int(&b, at.c), *index[TENSOR_RANK_MOST];
    for (int i = 0; i < 3; i++)
        flat =
            te_binary(&b, TE_ADD, flat, te_binary(&b, TE_MUL, te_axis(&b, i), te_int(&b, step[i])));
    /* Lanes behind the last column hold anything, as long as it is no element outside. */
    int64_t size;
    shape_size(in->rank, in->shape, &size);
    flat = te_binary(&b, TE_MIN, flat, te_int(&b, size - 1));
    te_unflatten(&b, in->rank, in->shape, flat, index);
    TeTensor out = te_map(&b, in->dtype, 3, shape, te_load(&b, w, index));
    return sched_constant(s, "columns", te_finish(&b, 1, &out, false), &s->known[d->q->b]);
}

/* The first operand; a copy with rows further apart where its own would drive each other out of the cache. */
static void spread_rows(Packed *d)
{
    const NestProduct *q = d->q;
    Nest *n = d->s->n;
    d->rows = q->a;
    d->row_from = q->a_from;
    d->row_pitch = q->m.a;
    if (d->plain || q->batch.extent > 1 || q->k.a != 1 || spread_pitch(q->m.a) == q->m.a ||
        q->m.extent < 8 || d->blocks < 8)
        return;
    int64_t pitch = spread_pitch(q->k.extent);
    int copy = scratch_of(n, "rows", d->dtype, q->m.extent * pitch);
    NestNode *row = loop_in(n, NULL, "i", q->m.extent), *k = loop_in(n, row, "k", q->k.extent);
    NestLinear from = {.c = q->a_from}, to = {0};
    nest_add_term(&from, row->var, q->m.a);
    nest_add_term(&from, k->var, 1);
    nest_add_term(&to, row->var, pitch);
    nest_add_term(&to, k->var, 1);
    Te *v = nest_load(n, q->a, nest_position(n, &from));
    nest_append(n, k, nest_store(n, copy, nest_position(n, &to), v));
    sched_map(d->s, row);
    d->rows = copy;
    d->row_from = 0;
    d->row_pitch = pitch;
}

/* Stores the tile, whose first row and vector are given. */
static void store_rows(const Packed *d, NestNode *home, const Tile *t, int acc,
                       const NestLinear *row, const NestLinear *block, int64_t columns)
{
    Nest *n = d->s->n;
    const NestProduct *q = d->q;
    int64_t lanes = t->lanes;
    int of = d->s->p->n_inputs + (d->tail->stage < 0 ? d->stage : d->tail->stage);
    for (int64_t v = 0; v < t->vectors; v++) {
        int64_t size = columns - v * lanes < lanes ? columns - v * lanes : lanes;
        NestNode *i = unrolled_in(n, home, "i", t->rows), *lane = vector_in(n, i, size, t->lanes);
        NestLinear from = {.c = v * lanes}, at[2] = {*row, {.c = v * lanes}}, to = {0};
        nest_add_term(&from, i->var, t->vectors * lanes);
        nest_add_term(&from, lane->var, 1);
        nest_add_term(&at[0], i->var, 1);
        linear_add(&at[1], block, lanes);
        nest_add_term(&at[1], lane->var, 1);
        linear_add(&to, &at[0], q->m.extent == 1 ? 0 : q->m.c);
        linear_add(&to, &at[1], 1);
        if (d->batch)
            nest_add_term(&to, d->batch->var, q->batch.c);
        Te *value = nest_load(n, acc, nest_position(n, &from));
        if (d->tail->stage >= 0) {
            const TeStage *stage = &d->s->p->stages[d->tail->stage];
            NestLinear axes[TENSOR_RANK_MOST] = {0};
            int first = tail_columns(stage, q->n.extent);
            axes[tail_axis(d->s, d->tail->stage, first, stage->rank - 1)] = at[1];
            if (first > 0)
                axes[tail_axis(d->s, d->tail->stage, 0, first - 1)] = at[0];
            value = nest_expression(n, d->s->p, d->tail->stage, axes, d->tail->of, value);
        }
        nest_append(n, lane, nest_store(n, of, nest_position(n, &to), value));
    }
}

/* All rows of some vectors of columns. */
static void add_columns(const Packed *d, NestNode *in, const NestLinear *block, int64_t vectors,
                        int64_t columns)
{
    Nest *n = d->s->n;
    const NestProduct *q = d->q;
    int64_t lanes = d->s->lanes;
    Piece rows[2];
    int count = pieces_of(n, in, "i", q->m.extent, d->height, rows);
    for (int i = 0; i < count; i++) {
        NestNode *home = unrolled_in(n, rows[i].in, "i", 1);
        Tile t = {.rows = rows[i].size,
                  .vectors = vectors,
                  .lanes = (int)lanes,
                  .a = d->rows,
                  .b = d->columns,
                  .a_at = {.c = d->row_from},
                  .a_row = d->row_pitch,
                  .b_at = {.c = d->column_from},
                  .b_vector = d->vector_step,
                  .width = columns < lanes ? (int)columns : 0,
                  .n_axes = 1,
                  .axis = {{q->k.extent, q->k.a, d->turn_step}}};
        linear_add(&t.a_at, &rows[i].from, d->row_pitch);
        linear_add(&t.b_at, block, t.b_vector);
        if (d->batch) {
            nest_add_term(&t.a_at, d->batch->var, q->batch.a);
            nest_add_term(&t.b_at, d->batch->var, d->batch_step);
        }
        store_rows(d, home, &t, tile_in(n, home, &t), &rows[i].from, block, columns);
    }
}

bool packed_fits(const Sched *s, int stage)
{
    NestProduct q;
    return product_sides(s->p, stage, &q) && sched_is_known(s, q.b) && q.batch.extent == 1 &&
           s->p->stages[stage].dtype.bits == 32 && q.n.extent >= s->lanes / 2 && q.k.extent >= 4 &&
           q.m.extent * q.n.extent * q.k.extent >= 512;
}

double packed_cost(const Sched *s, int stage)
{
    NestProduct q;
    product_sides(s->p, stage, &q);
    int64_t blocks = (q.n.extent + s->lanes - 1) / s->lanes;
    double bytes = 4 * (double)((q.m.extent + q.n.extent) * q.k.extent);
    return (double)q.k.extent * tile_cost(s->m, q.m.extent, blocks) + SCHED_BYTE_COST * bytes;
}

/* Some vectors of columns after another: whole tiles, what is left of whole vectors, and a part of a vector, which stands alone where
 * what lies behind it is not to be read. */
static void add_all(const Packed *d)
{
    int64_t lanes = d->s->lanes, columns = d->q->n.extent;
    int64_t whole = columns / lanes / d->vectors, from = whole * d->vectors;
    if (whole > 0) {
        NestNode *group = loop_in(d->s->n, d->batch, "o", whole);
        NestLinear block = {0};
        nest_add_term(&block, group->var, d->vectors);
        add_columns(d, group, &block, d->vectors, d->vectors * lanes);
    }
    while (from < d->blocks) {
        int64_t full = columns / lanes - from,
                count = d->plain && full > 0 ? full : d->blocks - from;
        int64_t rest = columns - from * lanes;
        NestLinear block = {.c = from};
        add_columns(d, loop_in(d->s->n, d->batch, "o", 1), &block, count,
                    rest < count * lanes ? rest : count * lanes);
        from += count;
    }
}

static Packed product_in(Sched *s, const NestProduct *q, int stage, const Tail *tail)
{
    Packed d = {.s = s, .q = q, .tail = tail, .stage = stage, .dtype = s->p->stages[stage].dtype};
    d.blocks = (q->n.extent + s->lanes - 1) / s->lanes;
    tile_size(s->m, q->m.extent, d.blocks, &d.height, &d.vectors);
    return d;
}

void packed_build(Sched *s, int stage, const Tail *tail)
{
    NestProduct q;
    product_sides(s->p, stage, &q);
    Packed d = product_in(s, &q, stage, tail);
    d.columns = packed_columns(&d);
    if (d.columns < 0)
        return;
    d.vector_step = q.k.extent * s->lanes;
    d.turn_step = s->lanes;
    spread_rows(&d);
    add_all(&d);
}

/* ---- as it lies ------------------------------------------------------------------------------------------------------------- */

bool plain_fits(const Sched *s, int stage)
{
    NestProduct q;
    return product_sides(s->p, stage, &q) && q.n.b == 1 && s->p->stages[stage].dtype.bits == 32 &&
           q.n.extent >= s->lanes && q.k.extent >= 4 && q.m.extent >= 2;
}

/* Bytes of a tile's columns, beyond which they are fetched anew for each of its rows. */
#define COLUMNS_FEW 24576.0

double plain_cost(const Sched *s, int stage)
{
    NestProduct q;
    product_sides(s->p, stage, &q);
    int64_t blocks = (q.n.extent + s->lanes - 1) / s->lanes, height, vectors;
    tile_size(s->m, q.m.extent, blocks, &height, &vectors);
    double k = (double)q.k.extent, tiles = (double)((q.m.extent + height - 1) / height);
    double bytes = k * (double)(vectors * s->lanes) * 4;
    /* Rows that lie a power of two apart share few sets of the cache. */
    bool crowded = q.k.b * 4 % 1024 == 0 && k > 32;
    double fetched = (bytes > COLUMNS_FEW ? 0.02 : 0) + (crowded ? 0.1 : 0);
    double all = 4 * k * (double)(q.m.extent + q.n.extent);
    return (double)q.batch.extent *
           (k * tile_cost(s->m, q.m.extent, blocks) + SCHED_BYTE_COST * all +
            fetched * 4 * k * tiles * (double)q.n.extent);
}

void plain_build(Sched *s, int stage, const Tail *tail)
{
    NestProduct q;
    product_sides(s->p, stage, &q);
    Packed d = product_in(s, &q, stage, tail);
    d.plain = true;
    d.rows = q.a;
    d.row_from = q.a_from;
    d.row_pitch = q.m.a;
    d.columns = q.b;
    d.column_from = q.b_from;
    d.vector_step = s->lanes;
    d.turn_step = q.k.b;
    d.batch_step = q.batch.b;
    if (q.batch.extent > 1)
        d.batch = loop_in(s->n, NULL, "b", q.batch.extent);
    add_all(&d);
}

/* ---- laid out each time ------------------------------------------------------------------------------------------------------ */

/* Vector operations for a vector of columns: elements that lie apart are turned in registers. */
#define TURN_COST 6.0
#define COPY_COST 2.0

bool turned_fits(const Sched *s, int stage)
{
    NestProduct q;
    return product_sides(s->p, stage, &q) && s->p->stages[stage].dtype.bits == 32 &&
           q.n.extent >= s->lanes && q.k.extent >= 8 && q.m.extent >= 8;
}

double turned_cost(const Sched *s, int stage)
{
    NestProduct q;
    product_sides(s->p, stage, &q);
    int64_t blocks = (q.n.extent + s->lanes - 1) / s->lanes;
    double k = (double)q.k.extent, bytes = 4 * k * (double)(q.m.extent + 2 * q.n.extent);
    double each = q.n.b == 1 ? COPY_COST : TURN_COST;
    return (double)q.batch.extent * (k * tile_cost(s->m, q.m.extent, blocks) +
                                     each * k * (double)blocks + SCHED_BYTE_COST * bytes);
}

/* columns[batch, o, k, lane] = b[batch, k, lanes * o + lane] */
static void turn_columns(Packed *d)
{
    const NestProduct *q = d->q;
    Nest *n = d->s->n;
    int64_t lanes = d->s->lanes;
    d->batch_step = d->blocks * q->k.extent * lanes;
    d->columns = scratch_of(n, "columns", d->dtype, q->batch.extent * d->batch_step);
    NestNode *batch = q->batch.extent > 1 ? loop_in(n, NULL, "b", q->batch.extent) : NULL;
    Piece blocks[2], turns[2];
    int n_blocks = pieces_of(n, batch, "o", q->n.extent, lanes, blocks);
    for (int i = 0; i < n_blocks; i++) {
        int n_turns = pieces_of(n, blocks[i].in, "k", q->k.extent, TURNED_AT_ONCE, turns);
        for (int j = 0; j < n_turns; j++) {
            NestNode *k = unrolled_in(n, turns[j].in, "k", turns[j].size);
            NestNode *lane = vector_in(n, k, blocks[i].size, (int)lanes);
            NestLinear column = blocks[i].from, turn = turns[j].from, from = {.c = q->b_from};
            nest_add_term(&turn, k->var, 1);
            /* Blocks lie `k` vectors apart, as many elements as their columns count. */
            NestLinear to = linear_times(&column, q->k.extent);
            linear_add(&to, &turn, lanes);
            nest_add_term(&to, lane->var, 1);
            nest_add_term(&column, lane->var, 1);
            linear_add(&from, &column, q->n.b);
            linear_add(&from, &turn, q->k.b);
            if (batch) {
                nest_add_term(&from, batch->var, q->batch.b);
                nest_add_term(&to, batch->var, d->batch_step);
            }
            Te *v = nest_load(n, q->b, nest_position(n, &from));
            nest_append(n, lane, nest_store(n, d->columns, nest_position(n, &to), v));
        }
    }
}

void turned_build(Sched *s, int stage, const Tail *tail)
{
    NestProduct q;
    product_sides(s->p, stage, &q);
    Packed d = product_in(s, &q, stage, tail);
    turn_columns(&d);
    d.vector_step = q.k.extent * s->lanes;
    d.turn_step = s->lanes;
    spread_rows(&d);
    if (q.batch.extent > 1)
        d.batch = loop_in(s->n, NULL, "b", q.batch.extent);
    add_all(&d);
}
