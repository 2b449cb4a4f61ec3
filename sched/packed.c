/* Matrix products in register tiles, of the first operand as it lies. A second operand that is known is laid out once, when code is made,
 * in vectors of columns ("packed"); one that is not is laid out so each time ("turned"), or is read as it lies where its columns lie side by
 * side ("plain"). What is done with the results is done where they are stored. Small integers are laid out in words along the sum (words.h),
 * both operands of them. */
#include "sched/conv.h"

typedef struct Packed {
    Sched *s;
    const NestProduct *q;
    NestSide outer; /* batches of what `q` says */
    const Tail *tail;
    int stage;
    DType dtype; /* of the sums */
    Words words;
    int64_t lanes; /* of a vector of sums */
    int64_t turns; /* of the sum */
    int64_t blocks; /* vectors of columns */
    int64_t height, vectors; /* of a tile */
    int rows, columns, start; /* buffers */
    int64_t row_from, row_pitch, row_turn; /* from row to row and from turn to turn of the first */
    int64_t row_batch[2]; /* from product to product of the outer batches, and of the inner ones */
    int64_t column_from, vector_step,
        turn_step; /* from vector to vector and from row to row of the second */
    bool plain;
    bool matrices; /* tiles are of registers of matrices */
    int64_t row_room; /* behind the last row */
    NestNode *batch[2]; /* the loops over products, or NULL */
    Piece part; /* of the rows, within which all columns are gone through */
    int64_t column_batch[2];
} Packed;

/* Bytes of a sum, and of words or elements. */
static int64_t size_of(const Sched *s, int stage)
{
    return (int64_t)dtype_size(s->p->stages[stage].dtype);
}

static int64_t lanes_of(const Sched *s, int stage)
{
    return (int64_t)s->m->vector_bytes / size_of(s, stage);
}

#define LANES_LEAST 4

/* Those of a vector of columns: a part of a register holds few of them. */
static int64_t column_lanes(const Packed *d)
{
    int64_t lanes = lanes_of(d->s, d->stage);
    while (d->words.each == 1 && lanes > LANES_LEAST && d->q->n.extent <= lanes / 2)
        lanes /= 2;
    return lanes;
}

/* The loops over products, the outer batches' first, NULL where there is one; the innermost of them. */
static NestNode *each_product(const Packed *d, NestNode *loop[2])
{
    const int64_t extent[2] = {d->outer.extent, d->q->batch.extent};
    NestNode *in = NULL;
    for (int i = 0; i < 2; i++) {
        loop[i] = extent[i] > 1 ? loop_in(d->s->n, in, "b", extent[i]) : NULL;
        in = loop[i] ? loop[i] : in;
    }
    return in;
}

static void add_products(NestLinear *at, NestNode *const loop[2], const int64_t step[2])
{
    for (int i = 0; i < 2; i++)
        if (loop[i])
            nest_add_term(at, loop[i]->var, step[i]);
}

/* Steps of what is laid out for one product after another, so many elements each; the elements of all of them. */
static int64_t side_by_side(const Packed *d, int64_t size, int64_t step[2])
{
    step[1] = size;
    step[0] = d->q->batch.extent * size;
    return d->outer.extent * step[0];
}

/* Element i of word (o, k, lane) of columns: b[k, lanes * o + lane], or zero behind the last k. Lanes behind the last column hold anything. */
static Te *column_element(const Packed *d, TeBuilder *b, TeTensor w, int i)
{
    const NestProduct *q = d->q;
    int64_t step[3] = {d->lanes * q->n.b, d->words.each * q->k.b, q->n.b};
    Te *flat = te_int(b, q->b_from + i * q->k.b);
    for (int a = 0; a < 3; a++)
        flat = te_binary(b, TE_ADD, flat, te_binary(b, TE_MUL, te_axis(b, a), te_int(b, step[a])));
    Te *v = te_load_or(b, w, &flat, te_number(b, w.dtype, 0));
    if (d->turns * d->words.each == q->k.extent)
        return v;
    Te *k = te_binary(b, TE_MUL, te_axis(b, 1), te_int(b, d->words.each));
    k = te_binary(b, TE_LT, te_binary(b, TE_ADD, k, te_int(b, i)), te_int(b, q->k.extent));
    return te_select(b, k, v, te_number(b, w.dtype, 0));
}

/* Columns that are known, and where their sums start. */
static bool pack_columns(Packed *d)
{
    Sched *s = d->s;
    const TeTensor *in = &s->p->inputs[d->q->b];
    TeBuilder b;
    te_begin(&b, s->cx, s->arena);
    int64_t shape[3] = {d->blocks, d->turns, d->lanes}, size;
    shape_size(in->rank, in->shape, &size);
    TeTensor w = te_add_input(&b, in->dtype, 1, &size); /* as it lies */
    Te *element[4];
    for (int i = 0; i < d->words.each; i++)
        element[i] = column_element(d, &b, w, i);
    TeTensor out = te_map(&b, words_dtype(&d->words, in->dtype), 3, shape,
                          words_pack(&b, &d->words, element, d->words.each, false));
    d->columns = sched_constant(s, "columns", te_finish(&b, 1, &out, false), &s->known[d->q->b]);
    if (!d->words.flips || d->columns < 0)
        return d->columns >= 0;
    int64_t lanes[2] = {d->blocks, d->lanes};
    Te *at[3] = {te_axis(&b, 0), te_axis(&b, 2), te_axis(&b, 1)};
    out = te_reduce(&b, TE_SUM, d->dtype, 2, lanes, 1, &d->turns,
                    words_start(&b, &d->words, te_load(&b, out, at)));
    d->start = sched_constant(s, "start", te_finish(&b, 1, &out, false), &s->known[d->q->b]);
    return d->start >= 0;
}

/* Words of the first operand, of a piece of the sum. */
static void copy_rows(const Packed *d, const Piece *turns)
{
    const NestProduct *q = d->q;
    Nest *n = d->s->n;
    NestNode *batch[2], *in = each_product(d, batch);
    NestNode *row = loop_in(n, in, "i", q->m.extent), *k = loop_in(n, row, "k", turns->size);
    NestLinear from = {.c = q->a_from + turns->from.c * d->words.each * q->k.a}, to = turns->from;
    add_products(&from, batch, (const int64_t[]){d->outer.a, q->batch.a});
    nest_add_term(&from, row->var, q->m.a);
    nest_add_term(&from, k->var, d->words.each * q->k.a);
    add_products(&to, batch, d->row_batch);
    nest_add_term(&to, row->var, d->row_pitch);
    nest_add_term(&to, k->var, 1);
    int64_t left = q->k.extent - turns->from.c * d->words.each;
    Te *element[4];
    int count = left < d->words.each ? (int)left : d->words.each;
    for (int i = 0; i < count; i++) {
        NestLinear at = from;
        at.c += i * q->k.a;
        element[i] = nest_load(n, q->a, nest_position(n, &at));
    }
    Te *word = words_pack(&n->te, &d->words, element, count, true);
    nest_append(n, k, nest_store(n, d->rows, nest_position(n, &to), word));
    sched_map(d->s, batch[0] ? batch[0] : batch[1] ? batch[1] : row);
}

static void lay_out_rows(Packed *d, int64_t pitch)
{
    const NestProduct *q = d->q;
    int64_t whole = q->k.extent / d->words.each;
    d->row_from = 0;
    d->row_turn = 1;
    d->row_pitch = pitch;
    int64_t size = side_by_side(d, q->m.extent * pitch, d->row_batch);
    d->rows = scratch_of(d->s->n, "rows", words_dtype(&d->words, product_dtype(d->s->p, q->a)),
                         size + d->row_room);
    if (whole > 0)
        copy_rows(d, &(Piece){.size = whole});
    if (q->k.extent % d->words.each)
        copy_rows(d, &(Piece){.from = {.c = whole}, .size = 1});
}

/* Lines so many bytes apart have the same set of the first cache, which takes twice as many of them as may be a tile's. */
#define SETS_BYTES 4096
#define LINES_OF_A_SET 4
/* Columns for which a copy of the rows pays. */
#define COLUMNS_MANY 1024
/* Of products of a batch, whose rows have rows of others between them: these so many bytes apart, or a multiple. */
#define PITCH_CROWDED 2048

/* Whether rows of a tile drive each other out of the first cache, and that as often as makes up for a copy; of products of a batch, out of
 * the second, too. Others had better not be copied: a copy takes room in the second cache, and what one thread copies the others have to
 * fetch. */
static bool rows_crowd(const Packed *d)
{
    const NestProduct *q = d->q;
    int64_t pitch = q->m.a * size_of(d->s, d->stage), power = pitch & -pitch;
    if (q->batch.extent > 1)
        return pitch % PITCH_CROWDED == 0;
    return d->height * (power < SETS_BYTES ? power : SETS_BYTES) > LINES_OF_A_SET * SETS_BYTES &&
           q->n.extent >= COLUMNS_MANY;
}

/* The first operand; a copy with rows further apart where its own would drive each other out of the cache, or of rows side by side where
 * the elements of one lie so far apart that each has a line and a page of its own. */
static void spread_rows(Packed *d)
{
    const NestProduct *q = d->q;
    d->rows = q->a;
    d->row_from = q->a_from;
    d->row_pitch = q->m.a;
    d->row_turn = q->k.a;
    d->row_batch[0] = d->outer.a;
    d->row_batch[1] = q->batch.a;
    if (d->words.each > 1) {
        lay_out_rows(d, spread_pitch(d->turns));
        return;
    }
    int64_t size = size_of(d->s, d->stage);
    bool apart = q->k.a == 1 ? rows_crowd(d) : q->k.extent * q->k.a * size > d->s->m->second_cache;
    /* Of products of a batch only those with rows of others between theirs, which drive each other out of the second cache, too. */
    bool between = q->batch.a < q->m.a && q->m.extent * q->m.a * size > d->s->m->second_cache / 2;
    if (d->plain || (q->batch.extent > 1 && !between) || d->outer.extent > 1 || !apart ||
        q->m.extent < 8 || d->blocks < 8)
        return;
    lay_out_rows(d, spread_pitch(q->k.extent));
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
        NestNode *i =
            d->matrices ? loop_in(n, home, "i", t->rows) : unrolled_in(n, home, "i", t->rows);
        NestNode *lane = vector_in(n, i, size, t->lanes);
        NestLinear from = {.c = v * lanes}, at[2] = {*row, {.c = v * lanes}}, to = {0};
        nest_add_term(&from, i->var, t->vectors * lanes);
        nest_add_term(&from, lane->var, 1);
        nest_add_term(&at[0], i->var, 1);
        linear_add(&at[1], block, lanes);
        nest_add_term(&at[1], lane->var, 1);
        linear_add(&to, &at[0], q->m.extent == 1 ? 0 : q->m.c);
        linear_add(&to, &at[1], 1);
        add_products(&to, d->batch, (const int64_t[]){d->outer.c, q->batch.c});
        Te *value = nest_load(n, acc, nest_position(n, &from));
        if (d->tail->stage >= 0) {
            const int64_t extent[TAIL_SIDES] = {q->n.extent, q->m.extent, q->batch.extent,
                                                d->outer.extent};
            NestLinear axes[TENSOR_RANK_MOST] = {0}, side[TAIL_SIDES] = {at[1], at[0]};
            add_products(&side[2], d->batch, (const int64_t[]){0, 1});
            add_products(&side[3], d->batch, (const int64_t[]){1, 0});
            int axis[TAIL_SIDES];
            tail_sides(d->s, d->tail->stage, extent, axis);
            for (int a = 0; a < TAIL_SIDES; a++)
                if (axis[a] >= 0)
                    axes[axis[a]] = side[a];
            value = nest_expression(n, d->s->p, d->tail->stage, axes, d->tail->of, value);
        }
        nest_append(n, lane, nest_store(n, of, nest_position(n, &to), value));
    }
}

/* All rows of the part, of some vectors of columns. */
static void add_columns(const Packed *d, NestNode *in, const NestLinear *block, int64_t vectors,
                        int64_t columns)
{
    Nest *n = d->s->n;
    int64_t lanes = d->lanes;
    Piece rows[2];
    int count = pieces_of(n, in, "i", d->part.size, d->height, rows);
    for (int i = 0; i < count; i++) {
        NestNode *home = unrolled_in(n, rows[i].in, "i", 1);
        linear_add(&rows[i].from, &d->part.from, 1);
        Tile t = {.rows = rows[i].size,
                  .vectors = vectors,
                  .lanes = (int)lanes,
                  .a = d->rows,
                  .b = d->columns,
                  .words = d->words,
                  .start = d->start,
                  .a_at = {.c = d->row_from},
                  .a_row = d->row_pitch,
                  .b_at = {.c = d->column_from},
                  .b_vector = d->vector_step,
                  .width = d->plain && columns < lanes ? (int)columns : 0,
                  .n_axes = 1,
                  .axis = {{d->turns, d->row_turn, d->turn_step}}};
        linear_add(&t.a_at, &rows[i].from, d->row_pitch);
        linear_add(&t.b_at, block, t.b_vector);
        linear_add(&t.start_at, block, lanes);
        int64_t starts[2];
        side_by_side(d, d->blocks * lanes, starts);
        add_products(&t.a_at, d->batch, d->row_batch);
        add_products(&t.start_at, d->batch, starts);
        add_products(&t.b_at, d->batch, d->column_batch);
        const DType factors[2] = {product_dtype(d->s->p, d->q->a), product_dtype(d->s->p, d->q->b)};
        int acc = d->matrices ? matrix_in(n, home, &t, factors) : tile_in(n, home, &t);
        store_rows(d, home, &t, acc, &rows[i].from, block, columns);
    }
}

bool packed_fits(const Sched *s, int stage)
{
    NestProduct q;
    return product_sides(s->p, stage, &q, NULL) && sched_is_known(s, q.b) && q.batch.extent == 1 &&
           q.n.extent >= 2 && q.k.extent >= 4 && q.m.extent * q.n.extent * q.k.extent >= 512;
}

/* Turns of the sum; of elements or words of 32 bits each. */
static int64_t turns_of(const Sched *s, int stage, const NestProduct *q, Words *w)
{
    const TeProgram *p = s->p;
    words_of(s->m->dots, p->stages[stage].dtype, product_dtype(p, q->a), product_dtype(p, q->b), w);
    return words_along(w, q->k.extent);
}

double packed_cost(const Sched *s, int stage)
{
    NestProduct q;
    Words w;
    product_sides(s->p, stage, &q, NULL);
    int64_t lanes = lanes_of(s, stage), blocks = (q.n.extent + lanes - 1) / lanes;
    int64_t turns = turns_of(s, stage, &q, &w), size = size_of(s, stage);
    double bytes = (double)(size * (q.m.extent + q.n.extent) * turns);
    return (double)turns * tile_cost(s->m, q.m.extent, blocks) + SCHED_BYTE_COST * bytes;
}

/* Some vectors of columns after another: whole tiles, what is left of whole vectors, and a part of a vector, which stands alone where
 * what lies behind it is not to be read. */
static void add_part(const Packed *d)
{
    int64_t lanes = d->lanes, columns = d->q->n.extent;
    int64_t whole = columns / lanes / d->vectors, from = whole * d->vectors;
    if (whole > 0) {
        NestNode *group = loop_in(d->s->n, d->part.in, "o", whole);
        NestLinear block = {0};
        nest_add_term(&block, group->var, d->vectors);
        add_columns(d, group, &block, d->vectors, d->vectors * lanes);
    }
    while (from < d->blocks) {
        int64_t full = columns / lanes - from,
                count = d->plain && full > 0 ? full : d->blocks - from;
        int64_t rest = columns - from * lanes;
        NestLinear block = {.c = from};
        add_columns(d, loop_in(d->s->n, d->part.in, "o", 1), &block, count,
                    rest < count * lanes ? rest : count * lanes);
        from += count;
    }
}

/* Tiles that a part of the rows has at least. */
#define TILES_LEAST 4

/* Few known columns stay in the caches of all threads, and of the rows each has those that it made before: to share out columns instead would
 * let every thread fetch what the others made. */
static int64_t rows_of_a_thread(const Packed *d)
{
    const Machine *m = d->s->m;
    int64_t rows = d->q->m.extent, each = rows / m->threads;
    int64_t bytes = d->blocks * d->turns * d->lanes * size_of(d->s, d->stage);
    bool few =
        d->s->n->buffers.at[d->columns].place == NEST_CONSTANT && bytes <= m->second_cache / 8;
    return few && rows % m->threads == 0 && each >= TILES_LEAST * d->height ? each : rows;
}

/* Tiles whose rows of results are written one beside the other, as far as they go: pages that the processor knows at once. */
#define TILES_WRITTEN 8

/* Whether the columns stay in the second cache while more results are written than it holds. */
static bool writes_far(const Packed *d)
{
    int64_t cache = d->s->m->second_cache, results = (int64_t)dtype_size(d->dtype);
    int64_t columns = d->blocks * d->turns * d->lanes * size_of(d->s, d->stage);
    results *= d->q->m.extent * d->q->n.extent;
    return columns <= cache / 4 && results > cache;
}

/* Rows for which all columns are gone through before further rows come: all of them where they stay in the second cache beside the columns
 * of a tile, else parts that fill half of it, as many for each thread; and few where results are written that it does not hold. */
static int64_t rows_at_once(const Packed *d)
{
    const Machine *m = d->s->m;
    int64_t rows = d->q->m.extent, size = size_of(d->s, d->stage);
    int64_t bytes = rows * d->turns * size, half = m->second_cache / 2;
    if (writes_far(d))
        return TILES_WRITTEN * d->height;
    if (bytes <= half + half / 2)
        return rows_of_a_thread(d);
    int64_t parts = (bytes + half - 1) / half, threads = m->threads;
    int64_t high = d->height, tiles = (rows + parts * high - 1) / (parts * high);
    if (threads > 1)
        tiles = rows / ((parts + threads - 1) / threads * threads * high);
    return (tiles < TILES_LEAST ? TILES_LEAST : tiles) * high;
}

static void add_all(Packed *d)
{
    int64_t rows = rows_at_once(d);
    Piece parts[2];
    NestNode *in = each_product(d, d->batch);
    int count = pieces_of(d->s->n, in, "p", d->q->m.extent, rows, parts);
    for (int i = 0; i < count; i++) {
        d->part = parts[i];
        add_part(d);
    }
}

/* Rows of a tile of one vector, as many as hide how long a sum takes: what few columns cost is that the rows are read, and further ones are
 * only further places in memory that are read at once. */
#define STREAMS_MOST 10

/* `q` is filled in. */
static Packed product_in(Sched *s, NestProduct *q, int stage, const Tail *tail)
{
    Packed d = {.s = s, .q = q, .tail = tail, .stage = stage, .dtype = s->p->stages[stage].dtype};
    product_sides(s->p, stage, q, &d.outer);
    d.turns = turns_of(s, stage, q, &d.words);
    d.lanes = column_lanes(&d);
    d.blocks = (q->n.extent + d.lanes - 1) / d.lanes;
    int64_t bytes = d.blocks * d.turns * d.lanes * size_of(s, stage);
    tile_size(s->m, q->m.extent, d.blocks, bytes, 1, &d.height, &d.vectors);
    if (d.blocks == 1 && d.height > STREAMS_MOST) {
        int64_t tiles = (q->m.extent + STREAMS_MOST - 1) / STREAMS_MOST;
        d.height = (q->m.extent + tiles - 1) / tiles;
    }
    return d;
}

void packed_build(Sched *s, int stage, const Tail *tail)
{
    NestProduct q;
    Packed d = product_in(s, &q, stage, tail);
    if (!pack_columns(&d))
        return;
    d.vector_step = d.turns * d.lanes;
    d.turn_step = d.lanes;
    spread_rows(&d);
    add_all(&d);
}

/* ---- in registers of matrices ---------------------------------------------------------------------------------------------- */

bool matrices_fits(const Sched *s, int stage)
{
    NestProduct q;
    return packed_fits(s, stage) && product_sides(s->p, stage, &q, NULL) &&
           matrix_takes(s, s->p->stages[stage].dtype, product_dtype(s->p, q.a),
                        product_dtype(s->p, q.b));
}

static int64_t whole_turns(const NestProduct *q)
{
    return matrix_sides(words_along(&matrix_words, q->k.extent)) * NEST_MATRIX_SIDE;
}

double matrices_cost(const Sched *s, int stage)
{
    NestProduct q;
    product_sides(s->p, stage, &q, NULL);
    double bytes = 4 * (double)((q.m.extent + q.n.extent) * whole_turns(&q));
    return matrix_tiles_cost(q.m.extent, q.n.extent, whole_turns(&q)) + SCHED_BYTE_COST * bytes;
}

void matrices_build(Sched *s, int stage, const Tail *tail)
{
    NestProduct q;
    Packed d = product_in(s, &q, stage, tail);
    d.matrices = true;
    d.words = matrix_words;
    d.turns = whole_turns(&q);
    d.height = 2 * NEST_MATRIX_SIDE;
    d.vectors = 2;
    if (!pack_columns(&d))
        return;
    int64_t pitch = spread_pitch(d.turns);
    d.vector_step = d.turns * d.lanes;
    d.turn_step = d.lanes;
    /* The last rows of a part need not fill a register. */
    d.row_room = (NEST_MATRIX_SIDE - 1) * pitch;
    lay_out_rows(&d, pitch);
    add_all(&d);
}

/* ---- as it lies ------------------------------------------------------------------------------------------------------------- */

bool plain_fits(const Sched *s, int stage)
{
    NestProduct q;
    NestSide outer;
    Words w;
    return product_sides(s->p, stage, &q, &outer) && turns_of(s, stage, &q, &w) == q.k.extent &&
           w.each == 1 && q.n.b == 1 && q.n.extent >= lanes_of(s, stage) && q.k.extent >= 4 &&
           q.m.extent >= 2;
}

/* Bytes of a tile's columns, beyond which they are fetched anew for each of its rows. */
#define COLUMNS_FEW 24576.0

double plain_cost(const Sched *s, int stage)
{
    NestProduct q;
    NestSide outer;
    product_sides(s->p, stage, &q, &outer);
    int64_t lanes = lanes_of(s, stage), blocks = (q.n.extent + lanes - 1) / lanes, height, vectors;
    tile_size(s->m, q.m.extent, blocks, 0, 1, &height, &vectors);
    double k = (double)q.k.extent, tiles = (double)((q.m.extent + height - 1) / height);
    double size = (double)size_of(s, stage), bytes = k * (double)(vectors * lanes) * size;
    /* Rows that lie a power of two apart share few sets of the cache. */
    bool crowded = q.k.b * size_of(s, stage) % 1024 == 0 && k > 32;
    double fetched = (bytes > COLUMNS_FEW ? 0.02 : 0) + (crowded ? 0.1 : 0);
    double all = size * k * (double)(q.m.extent + q.n.extent);
    return (double)(outer.extent * q.batch.extent) *
           (k * tile_cost(s->m, q.m.extent, blocks) + SCHED_BYTE_COST * all +
            fetched * size * k * tiles * (double)q.n.extent);
}

void plain_build(Sched *s, int stage, const Tail *tail)
{
    NestProduct q;
    Packed d = product_in(s, &q, stage, tail);
    d.plain = true;
    spread_rows(&d);
    d.columns = q.b;
    d.column_from = q.b_from;
    d.vector_step = d.lanes;
    d.turn_step = q.k.b;
    d.column_batch[0] = d.outer.b;
    d.column_batch[1] = q.batch.b;
    add_all(&d);
}

/* ---- laid out each time ------------------------------------------------------------------------------------------------------ */

/* Vector operations for a vector of columns: elements that lie apart are turned in registers. */
#define TURN_COST 6.0
#define COPY_COST 2.0
/* Bytes of a vector of words stand in 64 places. */
#define WORD_COST 80.0

bool turned_fits(const Sched *s, int stage)
{
    NestProduct q;
    NestSide outer;
    return product_sides(s->p, stage, &q, &outer) && q.n.extent >= 2 && q.k.extent >= 8 &&
           q.m.extent >= 8;
}

double turned_cost(const Sched *s, int stage)
{
    NestProduct q;
    NestSide outer;
    Words w;
    product_sides(s->p, stage, &q, &outer);
    int64_t lanes = lanes_of(s, stage), blocks = (q.n.extent + lanes - 1) / lanes;
    int64_t turns = turns_of(s, stage, &q, &w);
    double k = (double)turns, size = (double)size_of(s, stage),
           bytes = size * k * (double)(q.m.extent + 2 * q.n.extent);
    double each = w.each > 1 ? WORD_COST : q.n.b == 1 ? COPY_COST : TURN_COST;
    return (double)(outer.extent * q.batch.extent) *
           (k * tile_cost(s->m, q.m.extent, blocks) + each * k * (double)blocks +
            SCHED_BYTE_COST * bytes);
}

/* columns[batch, o, k, lane] = b[batch, k, lanes * o + lane], or words of `count` such. */
static void turn_some(const Packed *d, NestNode *const batch[2], NestNode *in, const Piece *block,
                      const Piece *turns, int count)
{
    const NestProduct *q = d->q;
    Nest *n = d->s->n;
    int64_t lanes = d->lanes;
    NestNode *k = unrolled_in(n, in, "k", turns->size);
    NestLinear column = block->from, turn = turns->from, from = {.c = q->b_from};
    nest_add_term(&turn, k->var, 1);
    /* Blocks lie all turns' vectors apart, as many elements as their columns count. */
    NestLinear to = linear_times(&column, d->turns);
    linear_add(&to, &turn, lanes);
    if (block->size < lanes) {
        /* Sums of what lay there before could be slow: subnormal numbers. */
        NestNode *zero = vector_in(n, k, lanes, (int)lanes);
        NestLinear at = to;
        add_products(&at, batch, d->column_batch);
        nest_add_term(&at, zero->var, 1);
        Te *none = te_number(&n->te, n->buffers.at[d->columns].dtype, 0);
        nest_append(n, zero, nest_store(n, d->columns, nest_position(n, &at), none));
    }
    NestNode *lane = vector_in(n, k, block->size, (int)lanes);
    nest_add_term(&to, lane->var, 1);
    nest_add_term(&column, lane->var, 1);
    linear_add(&from, &column, q->n.b);
    linear_add(&from, &turn, d->words.each * q->k.b);
    add_products(&from, batch, (const int64_t[]){d->outer.b, q->batch.b});
    add_products(&to, batch, d->column_batch);
    Te *element[4];
    for (int i = 0; i < count; i++, from.c += q->k.b)
        element[i] = nest_load(n, q->b, nest_position(n, &from));
    Te *v = words_pack(&n->te, &d->words, element, count, false);
    nest_append(n, lane, nest_store(n, d->columns, nest_position(n, &to), v));
}

/* Where the sums of the columns start. */
static void add_starts(Packed *d)
{
    Nest *n = d->s->n;
    int64_t lanes = d->lanes, batches = d->outer.extent * d->q->batch.extent;
    d->start = scratch_of(n, "start", d->dtype, batches * d->blocks * lanes);
    NestNode *block = loop_in(n, NULL, "o", batches * d->blocks),
             *home = unrolled_in(n, block, "i", 1);
    NestBuffer b = {
        .name = "acc", .dtype = d->dtype, .place = NEST_REGISTER, .size = lanes, .home = home};
    int acc = nest_buffer(n, b);
    NestNode *begin = vector_in(n, home, lanes, (int)lanes), *k = loop_in(n, home, "k", d->turns);
    NestNode *lane = vector_in(n, k, lanes, (int)lanes),
             *end = vector_in(n, home, lanes, (int)lanes);
    NestLinear from = {0}, to = {0};
    nest_append(n, begin,
                nest_store(n, acc, te_axis(&n->te, begin->var), te_number(&n->te, d->dtype, 0)));
    nest_add_term(&from, block->var, d->turns * lanes);
    nest_add_term(&from, k->var, lanes);
    nest_add_term(&from, lane->var, 1);
    Te *v = words_start(&n->te, &d->words, nest_load(n, d->columns, nest_position(n, &from)));
    nest_append(n, lane, nest_fold(n, TE_SUM, acc, te_axis(&n->te, lane->var), v));
    nest_add_term(&to, block->var, lanes);
    nest_add_term(&to, end->var, 1);
    v = nest_load(n, acc, te_axis(&n->te, end->var));
    nest_append(n, end, nest_store(n, d->start, nest_position(n, &to), v));
}

static void turn_columns(Packed *d)
{
    const NestProduct *q = d->q;
    Nest *n = d->s->n;
    int64_t lanes = d->lanes, whole = q->k.extent / d->words.each;
    int64_t size = side_by_side(d, d->blocks * d->turns * lanes, d->column_batch);
    d->columns =
        scratch_of(n, "columns", words_dtype(&d->words, product_dtype(d->s->p, q->b)), size);
    NestNode *batch[2], *home = each_product(d, batch);
    /* Columns that lie side by side come row by row: they are read as they lie. */
    bool by_rows = q->n.b == 1 && d->words.each == 1;
    const char *const name[2] = {"o", "k"};
    int64_t extent[2] = {q->n.extent, whole}, most[2] = {lanes, TURNED_AT_ONCE};
    Piece outer[2], inner[2];
    int n_outer = pieces_of(n, home, name[by_rows], extent[by_rows], most[by_rows], outer);
    for (int i = 0; i < n_outer; i++) {
        NestNode *in = outer[i].in;
        int n_inner = pieces_of(n, in, name[!by_rows], extent[!by_rows], most[!by_rows], inner);
        for (int j = 0; j < n_inner; j++)
            turn_some(d, batch, inner[j].in, by_rows ? &inner[j] : &outer[i],
                      by_rows ? &outer[i] : &inner[j], d->words.each);
        if (whole < d->turns)
            turn_some(d, batch, in, &outer[i], &(Piece){in, {.c = whole}, 1},
                      (int)(q->k.extent - whole * d->words.each));
    }
    if (d->words.flips)
        add_starts(d);
}

void turned_build(Sched *s, int stage, const Tail *tail)
{
    NestProduct q;
    Packed d = product_in(s, &q, stage, tail);
    turn_columns(&d);
    d.vector_step = d.turns * d.lanes;
    d.turn_step = d.lanes;
    spread_rows(&d);
    add_all(&d);
}
