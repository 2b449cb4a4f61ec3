/* Convolutions and pools of each channel on its own: for a plane at a time, a copy with its border of zeros in the first cache, then a few rows of
 * results by vectors along them. Where windows step by more than one element, the copy has the columns of each phase of the step side
 * by side, so that all loads of the sums are of elements side by side.
 *
 * Where the processor adds four products of bytes at once (words.h) and the weights are known, the copy is of bytes, without phases, and a
 * row of a window is a word or a few: each lane has the bytes of its own window's row, which the next lane's overlap, those of a dilated one
 * some apart. Behind the row's taps weights are zero. */
#include "sched/conv.h"

/* Rows of results that share what they load. */
#define ROWS_AT_ONCE 4
/* Products in straight code: of a row of a vector, and of a block of more than two vectors. */
#define STRAIGHT_MOST 160
#define BLOCK_MOST 320
/* A plane with its border, in a thread's frame. */
#define PLANE_BYTES ((int64_t)128 << 10)

typedef struct Depthwise {
    Sched *s;
    const Conv *c;
    const Tail *tail;
    NestNode *in; /* the loop over planes */
    NestLinear image, channel, at; /* of the plane; where its copy begins */
    DType dtype;
    Words words; /* of columns, `dilation` apart */
    int64_t turns; /* words of a window's row, or its taps */
    int64_t rows, pitch; /* of a phase of the copy */
    int copy; /* -1: there is none */
    int weights, start; /* words, and where their sums start; buffers */
} Depthwise;

static int64_t rows_read(const Conv *c)
{
    int64_t last = (c->y.out - 1) * c->y.stride + (c->y.taps - 1) * c->y.dilation + 1;
    int64_t all = c->y.before + c->y.in;
    return last > all ? last : all;
}

static int64_t columns_read(const Conv *c)
{
    int64_t last = (c->x.out - 1) * c->x.stride + (c->x.taps - 1) * c->x.dilation + 1;
    int64_t all = c->x.before + c->x.in;
    return last > all ? last : all;
}

/* The words of columns in which the sums are computed; of one element each: they are not. A vector of them comes of one of bytes as long as no
 * byte lies further off. */
static Words words_for(const Sched *s, const Conv *c)
{
    Words w = {.each = 1};
    int64_t bytes = NEST_WORD * s->lanes;
    bool is_near = c->x.stride <= bytes && c->x.dilation <= NEST_APART_MOST &&
                   (s->lanes - 1) * c->x.stride + (NEST_WORD - 1) * c->x.dilation < bytes;
    bool fits = c->weight >= 0 && sched_is_known(s, c->weight) && is_near &&
                words_of(s->m->dots, c->dtype, c->of_data, c->of_weight, &w) &&
                w.each == NEST_WORD && words_along(&w, c->x.taps) < c->x.taps;
    return fits ? w : (Words){.each = 1};
}

/* What is loaded for a row of a window. */
static int64_t turns_of(const Conv *c, const Words *w)
{
    return words_along(w, c->x.taps);
}

/* Of a vector of bytes of the copy, and how many vectors are straight code. */
static int64_t bytes_at_once(const Sched *s)
{
    return NEST_WORD * s->lanes;
}

#define VECTORS_STRAIGHT 64

/* Whether each vector of the copy is one of the plane with its bytes exchanged: rows are shorter than it. */
static bool copies_at_once(const Sched *s, const Conv *c, int64_t size)
{
    return s->m->exchanges && c->x.in < bytes_at_once(s) &&
           size <= VECTORS_STRAIGHT * bytes_at_once(s);
}

/* The last vector of a row may read more than is used. */
static int64_t copy_size(const Sched *s, const Conv *c, const Words *w)
{
    int64_t columns = columns_read(c), stride = c->x.stride;
    if (w->each > 1) {
        int64_t behind = w->each * (turns_of(c, w) * c->x.dilation + s->lanes);
        int64_t size = rows_read(c) * columns + behind;
        int64_t vectors = (size + bytes_at_once(s) - 1) / bytes_at_once(s);
        return copies_at_once(s, c, size) ? vectors * bytes_at_once(s) : size;
    }
    return stride * rows_read(c) * ((columns + stride - 1) / stride) + s->lanes;
}

/* The least number of lanes that hold the extent, or all. */
static int lanes_for(const Sched *s, int64_t extent)
{
    int lanes = 2;
    while (lanes < s->lanes && lanes < extent)
        lanes *= 2;
    return lanes;
}

static NestNode *lanes_in(const Depthwise *d, NestNode *parent, int64_t extent)
{
    return vector_in(d->s->n, parent, extent, lanes_for(d->s, extent));
}

static const DType u8 = {DTYPE_CODE_UINT, 8, 1};

/* The vectors of bytes that so many are, none of them partly there: the last one begins before the others end. How many loops they are, where
 * a lane stands and the loop of lanes. */
static int bytes_in(const Sched *s, NestNode *parent, int64_t extent, NestLinear at[2],
                    NestNode *lane[2])
{
    int64_t lanes = 1;
    while (2 * lanes <= extent && 2 * lanes <= NEST_WORD * s->lanes)
        lanes *= 2;
    int64_t whole = extent / lanes;
    int count = extent % lanes ? 2 : 1;
    for (int i = 0; i < count; i++) {
        NestNode *in = parent;
        at[i] = (NestLinear){.c = i ? extent - lanes : 0};
        if (i == 0 && whole > 1) {
            in = loop_in(s->n, parent, "x", whole);
            nest_add_term(&at[i], in->var, lanes);
        }
        lane[i] = vector_in(s->n, in, lanes, (int)lanes);
        nest_add_term(&at[i], lane[i]->var, 1);
    }
    return count;
}

/* The bytes and the border, vector by vector: which of a row a lane has is known when code is made. */
static void copy_exchanged(const Depthwise *d, int64_t size)
{
    const Conv *c = d->c;
    Nest *n = d->s->n;
    TeBuilder *b = &n->te;
    const NestBuffer *data = &n->buffers.at[c->data];
    NestNode *turn = unrolled_in(n, d->in, "z", size / bytes_at_once(d->s));
    NestNode *lane = vector_in(n, turn, bytes_at_once(d->s), (int)bytes_at_once(d->s));
    NestLinear place = {0}, to;
    nest_add_term(&place, turn->var, bytes_at_once(d->s));
    nest_add_term(&place, lane->var, 1);
    to = place;
    linear_add(&to, &d->at, 1);
    Te *at = nest_position(n, &place), *pitch = te_int(b, d->pitch);
    Te *index[4] = {nest_position(n, &d->image), nest_position(n, &d->channel),
                    te_binary(b, TE_SUB, te_binary(b, TE_DIV, at, pitch), te_int(b, c->y.before)),
                    te_binary(b, TE_SUB, te_binary(b, TE_MOD, at, pitch), te_int(b, c->x.before))};
    if (c->rank == 3)
        index[2] = index[3];
    TeTensor from = {c->data, data->dtype, data->rank, data->shape};
    Te *v = te_cast(b, u8, te_load_or(b, from, index, te_number(b, data->dtype, 0)));
    v = d->words.flips ? te_binary(b, TE_XOR, v, te_number(b, u8, 0x80)) : v;
    nest_append(n, lane, nest_store(n, d->copy, nest_position(n, &to), v));
}

/* The plane as bytes that words are of, in its border. */
static void copy_bytes(const Depthwise *d)
{
    const ConvAxis *x = &d->c->x, *y = &d->c->y;
    Nest *n = d->s->n;
    NestLinear to[2];
    NestNode *lane[2];
    int64_t size = copy_size(d->s, d->c, &d->words);
    Te *flip = te_number(&n->te, u8, d->words.flips ? 0x80 : 0);
    if (copies_at_once(d->s, d->c, size)) {
        copy_exchanged(d, size);
        return;
    }
    int count = bytes_in(d->s, d->in, size, to, lane);
    for (int i = 0; i < count; i++) {
        linear_add(&to[i], &d->at, 1);
        nest_append(n, lane[i], nest_store(n, d->copy, nest_position(n, &to[i]), flip));
    }
    NestNode *row = loop_in(n, d->in, "y", y->in);
    count = bytes_in(d->s, row, x->in, to, lane);
    for (int i = 0; i < count; i++) {
        NestLinear from = to[i];
        linear_add(&from, &d->image, d->c->groups * y->in * x->in);
        linear_add(&from, &d->channel, y->in * x->in);
        nest_add_term(&from, row->var, x->in);
        to[i].c += y->before * d->pitch + x->before;
        linear_add(&to[i], &d->at, 1);
        nest_add_term(&to[i], row->var, d->pitch);
        Te *v = te_cast(&n->te, u8, nest_load(n, d->c->data, nest_position(n, &from)));
        v = d->words.flips ? te_binary(&n->te, TE_XOR, v, flip) : v;
        nest_append(n, lane[i], nest_store(n, d->copy, nest_position(n, &to[i]), v));
    }
}

static void fill_border(const Depthwise *d, NestNode *outer, int64_t planes)
{
    Nest *n = d->s->n;
    Te *outside = d->c->outside ? d->c->outside : te_number(&n->te, d->dtype, 0);
    Piece pieces[2];
    int64_t size = planes * copy_size(d->s, d->c, &d->words);
    int count = pieces_of(n, outer, "z", size, d->s->lanes, pieces);
    for (int i = 0; i < count; i++) {
        NestNode *lane = lanes_in(d, pieces[i].in, pieces[i].size);
        NestLinear at = pieces[i].from;
        nest_add_term(&at, lane->var, 1);
        nest_append(n, lane, nest_store(n, d->copy, nest_position(n, &at), outside));
    }
}

/* Whether windows that do not overlap read no border: then nothing is gained by a copy. */
static bool reads_in_place(const Conv *c)
{
    return c->x.taps <= c->x.stride && c->x.dilation == 1 && c->x.before == 0 && c->y.before == 0 &&
           rows_read(c) == c->y.in && (c->x.out - 1) * c->x.stride + c->x.taps <= c->x.in;
}

/* The columns of a phase, of all rows. */
static void copy_phase(const Depthwise *d, NestNode *row, int64_t phase)
{
    const ConvAxis *x = &d->c->x, *y = &d->c->y;
    Nest *n = d->s->n;
    /* Column q of the phase is element q * stride + phase - before. */
    int64_t first = x->before > phase ? (x->before - phase + x->stride - 1) / x->stride : 0;
    int64_t from = first * x->stride + phase - x->before;
    int64_t count = from < x->in ? (x->in - from + x->stride - 1) / x->stride : 0;
    Piece pieces[2];
    int n_pieces = pieces_of(n, row, "x", count, d->s->lanes, pieces);
    for (int i = 0; i < n_pieces; i++) {
        NestNode *lane = lanes_in(d, pieces[i].in, pieces[i].size);
        NestLinear column = pieces[i].from, load = {.c = from}, to = {.c = first};
        nest_add_term(&column, lane->var, 1);
        linear_add(&load, &d->image, d->c->groups * y->in * x->in);
        linear_add(&load, &d->channel, y->in * x->in);
        nest_add_term(&load, row->var, x->in);
        linear_add(&load, &column, x->stride);
        to.c += (phase * d->rows + y->before) * d->pitch;
        nest_add_term(&to, row->var, d->pitch);
        linear_add(&to, &column, 1);
        linear_add(&to, &d->at, 1);
        Te *v = te_cast(&n->te, d->dtype, nest_load(n, d->c->data, nest_position(n, &load)));
        nest_append(n, lane, nest_store(n, d->copy, nest_position(n, &to), v));
    }
}

/* Planes that are copied before the first of them is read: so many bytes, and of bytes so many planes, of others as many as have some rows where
 * their rows fill no vector. What was just stored in short pieces is not to be had as a long one until all of them are in the cache; small
 * planes would wait for that again and again. */
#define PLANES_BYTES ((int64_t)8 << 10)
#define PLANES_AT_ONCE 8
#define PLANES_ROWS 50

/* Each thread has some turns all the same. */
static int64_t planes_at_once(const Depthwise *d)
{
    const Conv *c = d->c;
    bool bytes = d->words.each > 1;
    int64_t planes = 1, size = copy_size(d->s, c, &d->words);
    int64_t enough = bytes ? PLANES_AT_ONCE : (PLANES_ROWS + c->y.in - 1) / c->y.in;
    size *= bytes ? 1 : (int64_t)dtype_size(d->dtype);
    if (!bytes && c->x.in >= d->s->lanes)
        return 1;
    while (planes < enough && c->groups % (2 * planes) == 0 && 2 * planes * size <= PLANES_BYTES &&
           c->groups / (2 * planes) >= 2 * d->s->m->threads)
        planes *= 2;
    return planes;
}

/* What comes next is done for each of so many planes of a turn of the outer loop. */
static void each_plane(Depthwise *d, NestNode *outer, int64_t planes)
{
    d->channel = d->at = (NestLinear){0};
    nest_add_term(&d->channel, outer->var, planes);
    d->in = outer;
    if (planes == 1)
        return;
    d->in = loop_in(d->s->n, outer, "p", planes);
    nest_add_term(&d->channel, d->in->var, 1);
    nest_add_term(&d->at, d->in->var, copy_size(d->s, d->c, &d->words));
}

static void copy_planes(Depthwise *d, NestNode *outer, int64_t planes)
{
    Nest *n = d->s->n;
    d->copy = nest_buffer(n, (NestBuffer){.name = "plane",
                                          .dtype = d->words.each > 1 ? u8 : d->dtype,
                                          .place = NEST_LOCAL,
                                          .size = planes * copy_size(d->s, d->c, &d->words),
                                          .home = outer});
    if (d->words.each == 1)
        fill_border(d, outer, planes);
    each_plane(d, outer, planes);
    if (d->words.each > 1) {
        copy_bytes(d);
        return;
    }
    NestNode *row = loop_in(n, d->in, "y", d->c->y.in);
    for (int64_t phase = 0; phase < d->c->x.stride; phase++)
        copy_phase(d, row, phase);
}

/* ---- weights ------------------------------------------------------------------------------------------------------------- */

/* weights[g, y, k] = word k of row y of the window; start[g] = where its sums start */
static bool pack_weights(Depthwise *d)
{
    Sched *s = d->s;
    const Conv *c = d->c;
    TeBuilder b;
    te_begin(&b, s->cx, s->n->arena);
    int64_t ws[4] = {c->groups, 1, c->y.taps, c->x.taps}, shape[3] = {ws[0], ws[2], d->turns};
    if (c->rank == 3)
        ws[2] = ws[3];
    TeTensor w = te_add_input(&b, c->of_weight, c->rank, ws);
    Te *element[NEST_WORD], *zero = te_number(&b, w.dtype, 0);
    for (int i = 0; i < d->words.each; i++) {
        Te *tap = te_binary(&b, TE_MUL, te_axis(&b, 2), te_int(&b, d->words.each));
        Te *wi[4] = {te_axis(&b, 0), te_int(&b, 0), te_axis(&b, 1),
                     te_binary(&b, TE_ADD, tap, te_int(&b, i))};
        if (c->rank == 3)
            wi[2] = wi[3];
        element[i] = te_load_or(&b, w, wi, zero);
    }
    TeTensor out = te_map(&b, words_dtype(&d->words, w.dtype), 3, shape,
                          words_pack(&b, &d->words, element, d->words.each, false));
    d->weights = sched_constant(s, "weights", te_finish(&b, 1, &out, false), &s->known[c->weight]);
    if (!d->words.flips || d->weights < 0)
        return d->weights >= 0;
    Te *at[3] = {te_axis(&b, 0), te_axis(&b, 1), te_axis(&b, 2)};
    out = te_reduce(&b, TE_SUM, d->dtype, 1, shape, 2, shape + 1,
                    words_start(&b, &d->words, te_load(&b, out, at)));
    d->start = sched_constant(s, "start", te_finish(&b, 1, &out, false), &s->known[c->weight]);
    return d->start >= 0;
}

/* Word or tap k of row `tap` of the window. */
static Te *weight_of(const Depthwise *d, int64_t tap, int64_t k)
{
    Nest *n = d->s->n;
    NestLinear w = {.c = tap * d->turns + k};
    linear_add(&w, &d->channel, d->c->y.taps * d->turns);
    if (d->words.each > 1)
        return nest_load(n, d->weights, nest_position(n, &w));
    return te_cast(&n->te, d->dtype, nest_load(n, d->c->weight, nest_position(n, &w)));
}

/* ---- sums ---------------------------------------------------------------------------------------------------------------- */

/* Vectors of results side by side: what is loaded of the weights serves all of them. */
#define VECTORS_MOST 4

typedef struct Block {
    const Piece *rows;
    NestNode *home;
    int n; /* vectors */
    NestLinear from[VECTORS_MOST]; /* their first columns */
    int64_t size[VECTORS_MOST];
    int acc[VECTORS_MOST];
} Block;

static Te *lane_of(const Depthwise *d, int64_t row, const NestNode *lane)
{
    NestLinear l = {.c = row * lane->lanes};
    nest_add_term(&l, lane->var, 1);
    return nest_position(d->s->n, &l);
}

/* Element `in` rows below the first row that the block reads, `column` columns right of the first of the vector. */
static Te *element_of(const Depthwise *d, const Block *b, int v, const NestNode *lane, int64_t in,
                      int64_t column)
{
    const ConvAxis *x = &d->c->x, *y = &d->c->y;
    Nest *n = d->s->n;
    if (d->copy < 0) {
        NestLinear at = {.c = in * x->in + column};
        linear_add(&at, &d->image, d->c->groups * y->in * x->in);
        linear_add(&at, &d->channel, y->in * x->in);
        linear_add(&at, &b->rows->from, y->stride * x->in);
        linear_add(&at, &b->from[v], x->stride);
        nest_add_term(&at, lane->var, x->stride);
        return te_cast(&n->te, d->dtype, nest_load(n, d->c->data, nest_position(n, &at)));
    }
    if (d->words.each > 1) {
        NestLinear at = {.c = in * d->pitch + column};
        linear_add(&at, &d->at, 1);
        linear_add(&at, &b->rows->from, y->stride * d->pitch);
        linear_add(&at, &b->from[v], x->stride);
        nest_add_term(&at, lane->var, x->stride);
        return nest_word(n, d->copy, nest_position(n, &at), (int)x->dilation);
    }
    NestLinear at = {.c = (column % x->stride * d->rows + in) * d->pitch + column / x->stride};
    linear_add(&at, &d->at, 1);
    linear_add(&at, &b->rows->from, y->stride * d->pitch);
    linear_add(&at, &b->from[v], 1);
    nest_add_term(&at, lane->var, 1);
    return nest_load(n, d->copy, nest_position(n, &at));
}

/* The lanes of a vector; of a copy whole ones are computed, which takes no masks. */
static NestNode *vector_of(const Depthwise *d, const Block *b, int v)
{
    int lanes = lanes_for(d->s, b->size[v]);
    return vector_in(d->s->n, b->home, d->copy < 0 ? b->size[v] : lanes, lanes);
}

/* Adds what column, or word, k of row `in` gives to the rows of results. */
static void add_tap(const Depthwise *d, const Block *b, int v, int64_t in, int64_t k)
{
    const ConvAxis *x = &d->c->x, *y = &d->c->y;
    Nest *n = d->s->n;
    NestNode *lane = vector_of(d, b, v);
    Te *of = element_of(d, b, v, lane, in, k * d->words.each * x->dilation);
    for (int64_t r = 0; r < b->rows->size; r++) {
        int64_t far = in - r * y->stride, tap = far / y->dilation;
        if (far < 0 || far % y->dilation || tap >= y->taps)
            continue;
        Te *value = of;
        if (d->c->weight >= 0)
            value = words_product(&n->te, &d->words, of, weight_of(d, tap, k));
        nest_append(n, lane, nest_fold(n, d->c->fold, b->acc[v], lane_of(d, r, lane), value));
    }
}

static void begin_block(const Depthwise *d, Block *b, const Piece *columns)
{
    Nest *n = d->s->n;
    for (int64_t from = 0; from < columns->size; from += d->s->lanes) {
        int v = b->n++;
        int64_t left = columns->size - from;
        b->size[v] = left < d->s->lanes ? left : d->s->lanes;
        b->from[v] = columns->from;
        b->from[v].c += from;
        NestNode *lane = vector_of(d, b, v);
        b->acc[v] = nest_buffer(n, (NestBuffer){.name = "acc",
                                                .dtype = d->dtype,
                                                .place = NEST_REGISTER,
                                                .size = b->rows->size * lane->lanes,
                                                .home = b->home});
        for (int64_t r = 0; r < b->rows->size; r++) {
            Te *start = d->words.flips ? nest_load(n, d->start, nest_position(n, &d->channel))
                                       : nest_start_of(n, d->c->fold, d->dtype);
            nest_append(n, lane, nest_store(n, b->acc[v], lane_of(d, r, lane), start));
        }
    }
}

static void add_block(const Depthwise *d, const Piece *rows, const Piece *columns)
{
    const ConvAxis *y = &d->c->y;
    Nest *n = d->s->n;
    Block b = {.rows = rows, .home = unrolled_in(n, columns->in, "i", 1)};
    begin_block(d, &b, columns);
    int64_t last = (rows->size - 1) * y->stride + (y->taps - 1) * y->dilation;
    for (int64_t in = 0; in <= last; in++)
        for (int64_t k = 0; k < d->turns; k++)
            for (int v = 0; v < b.n; v++)
                add_tap(d, &b, v, in, k);
    /* Row by row, so that what is stored lies behind what was stored just now. */
    for (int64_t r = 0; r < rows->size; r++)
        for (int v = 0; v < b.n; v++) {
            NestNode *lane = lanes_in(d, b.home, b.size[v]);
            NestLinear at[CONV_AXES] = {d->image, d->channel, rows->from, b.from[v]};
            at[2].c += r;
            nest_add_term(&at[3], lane->var, 1);
            Te *sum = nest_load(n, b.acc[v], lane_of(d, r, lane));
            nest_append(n, lane, store_result(d->s, d->c, d->tail, at, sum));
        }
}

/* ---- all of it -------------------------------------------------------------------------------------------------------------- */

/* Taps come in the order of the sum, which matters where a greatest element is not a number. */
static bool planes_of(const TeProgram *p, int stage, Conv *out)
{
    return conv_of(p, stage, out) ? out->groups > 1 && out->ic == 1 && out->oc == 1
                                  : pool_of(p, stage, out);
}

/* Half of the registers have sums. Rows whose vectors are all there are stored from end to end. */
static int64_t vectors_at_once(const Depthwise *d)
{
    int64_t most = d->s->m->registers / (2 * ROWS_AT_ONCE);
    bool fits = ROWS_AT_ONCE * most * d->c->y.taps * d->turns <= BLOCK_MOST;
    return !fits ? 2 : most < VECTORS_MOST ? most : VECTORS_MOST;
}

bool depthwise_fits(const Sched *s, int stage)
{
    Conv c;
    if (!planes_of(s->p, stage, &c) || c.out_block > 1 || c.x.out < 2)
        return false;
    Words w = words_for(s, &c);
    return c.y.taps * turns_of(&c, &w) <= STRAIGHT_MOST &&
           copy_size(s, &c, &w) * (w.each > 1 ? 1 : 4) <= PLANE_BYTES;
}

double depthwise_cost(const Sched *s, int stage)
{
    Conv c;
    planes_of(s->p, stage, &c);
    Words w = words_for(s, &c);
    int64_t vectors = (c.x.out + s->lanes - 1) / s->lanes, planes = c.n * c.groups;
    return (double)planes * ((double)(c.y.out * vectors * c.y.taps * turns_of(&c, &w)) +
                             3.0 * (double)(copy_size(s, &c, &w) / (w.each * s->lanes)));
}

void depthwise_build(Sched *s, int stage, const Tail *tail)
{
    Conv image, *c = &image;
    planes_of(s->p, stage, c);
    Nest *n = s->n;
    Depthwise d = {.s = s, .c = c, .tail = tail, .rows = rows_read(c), .pitch = columns_read(c)};
    d.dtype = c->dtype;
    d.words = words_for(s, c);
    d.turns = turns_of(c, &d.words);
    if (d.words.each > 1 && !pack_weights(&d))
        return;
    if (d.words.each == 1)
        d.pitch = (d.pitch + c->x.stride - 1) / c->x.stride;
    bool copies = d.words.each > 1 || !reads_in_place(c);
    int64_t planes = copies ? planes_at_once(&d) : 1;
    NestNode *outer = loop_in(n, images_in(n, c, &d.image), "c", c->groups / planes);
    d.copy = -1;
    if (copies)
        copy_planes(&d, outer, planes);
    each_plane(&d, outer, planes);
    int64_t most = STRAIGHT_MOST / (c->y.taps * d.turns), lanes = vectors_at_once(&d) * s->lanes;
    Piece rows[2], columns[2];
    int n_rows = pieces_of(n, d.in, "y", c->y.out, most < ROWS_AT_ONCE ? most : ROWS_AT_ONCE, rows);
    for (int i = 0; i < n_rows; i++) {
        int n_columns = pieces_of(n, rows[i].in, "x", c->x.out, lanes, columns);
        for (int k = 0; k < n_columns; k++)
            add_block(&d, &rows[i], &columns[k]);
    }
}
