/* Convolutions with 3 x 3 taps by Winograd's transforms: of a tile of m x m results, from (m + 2) x (m + 2) elements d and taps g,
 *
 *     results = A' ((G g G') * (B' d B)) A        the product element by element, summed over the input channels
 *
 * which takes (m + 2)² products instead of 9 m². The taps are transformed once. The data is turned so that channels lie side by side,
 * with its border of zeros; then a few rows of tiles at a time are transformed, multiplied for each of the (m + 2)² elements, and
 * transformed back, all within the second cache. F(4, 3) rounds to about 1e-5 of the largest result, F(2, 3) as a plain sum does. */
#include "sched/conv.h"

#include "te/walk.h"

enum { TAPS = 3, POINTS_MOST = 6, STEPS_MOST = 10 };

/* A matrix as sums of two steps: rows over the inputs and the sums before them. The last `out` sums are the product. */
typedef struct Transform {
    int in, sums, out;
    double row[STEPS_MOST][POINTS_MOST + STEPS_MOST];
} Transform;

typedef struct Winograd {
    int tile; /* results along an axis */
    double taps[POINTS_MOST][TAPS]; /* G */
    Transform data, results; /* B' and A' */
} Winograd;

/* Points 0, 1, -1 and infinity. */
static const Winograd f2 = {
    .tile = 2,
    .taps = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}},
    .data = {4, 4, 4, {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}}},
    .results = {4, 2, 2, {{1, 1, 1, 0}, {0, 1, -1, -1}}},
};

/* Points 0, 1, -1, 2, -2 and infinity; sums and differences of pairs come first. */
static const Winograd f4 = {
    .tile = 4,
    .taps = {{1 / 4.0, 0, 0},
             {-1 / 6.0, -1 / 6.0, -1 / 6.0},
             {-1 / 6.0, 1 / 6.0, -1 / 6.0},
             {1 / 24.0, 1 / 12.0, 1 / 6.0},
             {1 / 24.0, -1 / 12.0, 1 / 6.0},
             {0, 0, 1}},
    .data = {6,
             10,
             6,
             {{0, 0, -4, 0, 1, 0},
              {0, -4, 0, 1, 0, 0},
              {0, 0, -1, 0, 1, 0},
              {0, -2, 0, 2, 0, 0},
              {4, 0, -5, 0, 1, 0},
              {0, 0, 0, 0, 0, 0, 1, 1},
              {0, 0, 0, 0, 0, 0, 1, -1},
              {0, 0, 0, 0, 0, 0, 0, 0, 1, 1},
              {0, 0, 0, 0, 0, 0, 0, 0, 1, -1},
              {0, 4, 0, -5, 0, 1}}},
    .results = {6,
                8,
                4,
                {{0, 1, 1, 0, 0, 0},
                 {0, 1, -1, 0, 0, 0},
                 {0, 0, 0, 1, 1, 0},
                 {0, 0, 0, 1, -1, 0},
                 {1, 0, 0, 0, 0, 0, 1, 0, 1, 0},
                 {0, 0, 0, 0, 0, 0, 0, 1, 0, 2},
                 {0, 0, 0, 0, 0, 0, 1, 0, 4, 0},
                 {0, 0, 0, 0, 0, 1, 0, 1, 0, 8}}},
};

typedef struct Plan {
    Sched *s;
    const Conv *c;
    const Tail *tail;
    const Winograd *w;
    DType dtype;
    int points; /* along an axis: tile + 2 */
    int64_t down, across; /* tiles of the image */
    int64_t height, width; /* of the turned data with its border */
    int64_t blocks; /* vectors of output channels */
    int64_t pitch; /* of the transformed data of a tile */
    int64_t rows, turns; /* of tiles that are transformed at a time, so often */
    int64_t part; /* elements of a channel of what is transformed at once */
    int taps, turned, data, sums; /* buffers */
} Plan;

static int64_t taps_bytes(const Plan *p)
{
    return p->points * p->points * p->c->ic * p->blocks * p->s->lanes * 4;
}

/* ---- the taps, once -------------------------------------------------------------------------------------------------------- */

static Tensor *products_of_taps(Sched *s, const Winograd *w, int points)
{
    int64_t shape[3] = {points * points, TAPS, TAPS};
    DType f32 = {DTYPE_CODE_FLOAT, 32, 1};
    Tensor *t = tensor_new(&s->cx->limits, f32, 3, shape);
    for (int e = 0; t && e < points * points; e++)
        for (int i = 0; i < TAPS * TAPS; i++)
            ((float *)(void *)t->data)[e * TAPS * TAPS + i] =
                (float)(w->taps[e / points][i / TAPS] * w->taps[e % points][i % TAPS]);
    return t;
}

/* taps[e, o, i, lane] = sum over the window of g[e, y, x] * weight[lanes * o + lane, i, y, x] */
static int transformed_taps(Plan *p)
{
    Sched *s = p->s;
    TeBuilder b;
    te_begin(&b, s->cx, s->n->arena);
    int64_t gs[3] = {p->points * p->points, TAPS, TAPS}, ws[4] = {p->c->oc, p->c->ic, TAPS, TAPS};
    int64_t shape[4] = {gs[0], p->blocks, p->c->ic, s->lanes};
    TeTensor g = te_add_input(&b, p->dtype, 3, gs), w = te_add_input(&b, p->dtype, 4, ws);
    Te *y = te_axis(&b, 4), *x = te_axis(&b, 5);
    Te *o = te_binary(&b, TE_MUL, te_axis(&b, 1), te_int(&b, s->lanes));
    Te *wi[4] = {te_binary(&b, TE_ADD, o, te_axis(&b, 3)), te_axis(&b, 2), y, x};
    Te *gi[3] = {te_axis(&b, 0), y, x};
    Te *product = te_binary(&b, TE_MUL, te_load(&b, g, gi),
                            te_load_or(&b, w, wi, te_number(&b, p->dtype, 0)));
    TeTensor out = te_reduce(&b, TE_SUM, p->dtype, 4, shape, 2, gs + 1, product);
    const Tensor *inputs[2] = {products_of_taps(s, p->w, p->points), s->known[p->c->weight]};
    int buffer = inputs[0] ? sched_constant(s, "taps", te_finish(&b, 1, &out, false), inputs) : -1;
    tensor_release((Tensor *)(uintptr_t)inputs[0]);
    return buffer;
}

/* ---- the data, turned ---------------------------------------------------------------------------------------------------------- */

static void turn_data(const Plan *p)
{
    const Conv *c = p->c;
    Nest *n = p->s->n;
    int64_t pitch = p->width * c->ic, top = c->y.before, left = c->x.before;
    zero_border(p->s, p->turned, (Bordered){c->n, c->ic, p->height, p->width, &c->y, &c->x, 0});
    NestLinear image;
    NestNode *row = loop_in(n, images_in(n, c, &image), "y", c->y.in);
    Piece channels[2], columns[2];
    int n_channels = pieces_of(n, row, "c", c->ic, p->s->lanes, channels);
    for (int i = 0; i < n_channels; i++) {
        int n_columns = pieces_of(n, channels[i].in, "x", c->x.in, TURNED_AT_ONCE, columns);
        for (int k = 0; k < n_columns; k++) {
            NestNode *x = unrolled_in(n, columns[k].in, "x", columns[k].size);
            NestNode *lane = vector_in(n, x, channels[i].size, p->s->lanes);
            NestLinear channel = channels[i].from, column = columns[k].from, from = {0}, to = {0};
            nest_add_term(&channel, lane->var, 1);
            nest_add_term(&column, x->var, 1);
            linear_add(&from, &image, c->ic * c->y.in * c->x.in);
            nest_add_term(&from, row->var, c->x.in * c->in_block);
            linear_add(&from, &channels[i].from, c->y.in * c->x.in);
            nest_add_term(&from, lane->var, c->in_block > 1 ? 1 : c->y.in * c->x.in);
            linear_add(&from, &column, c->in_block);
            to.c = top * pitch + left * c->ic;
            linear_add(&to, &image, p->height * pitch);
            nest_add_term(&to, row->var, pitch);
            linear_add(&to, &column, c->ic);
            linear_add(&to, &channel, 1);
            Te *v = nest_load(n, c->data, nest_position(n, &from));
            nest_append(n, lane, nest_store(n, p->turned, nest_position(n, &to), v));
        }
    }
}

/* ---- transforms ------------------------------------------------------------------------------------------------------------------ */

/* A transform of a matrix in registers: columns, then rows, each the turn of an unrolled loop. */
typedef struct Pass {
    Nest *n;
    NestNode *home;
    const Transform *t;
    int buffer; /* where elements and the sums of a step stand: registers */
    int64_t width; /* lanes that count */
    int lanes;
} Pass;

/* Register `first`, or in a turn of a loop one further on for each of `each`. */
static Te *register_at(const Pass *q, int64_t first, const NestNode *turn, int64_t each,
                       const NestNode *lane)
{
    NestLinear l = {.c = first * q->lanes};
    if (turn)
        nest_add_term(&l, turn->var, each * q->lanes);
    nest_add_term(&l, lane->var, 1);
    return nest_position(q->n, &l);
}

/* The transform's sums of elements, `apart` registers from each other from `from` on: sum k into register to + k, in each turn `each`
 * further on. */
static void transform(const Pass *q, NestNode *turn, int64_t from, int64_t from_each, int64_t apart,
                      int64_t to, int64_t to_each)
{
    Nest *n = q->n;
    const Transform *t = q->t;
    DType dtype = n->buffers.at[q->buffer].dtype;
    NestNode *lane = vector_in(n, turn, q->width, q->lanes);
    for (int k = 0; k < t->sums; k++) {
        Te *at = register_at(q, to + k, turn, to_each, lane);
        bool first = true;
        for (int i = 0; i < t->in + k; i++) {
            double by = t->row[k][i];
            if (by == 0)
                continue;
            Te *v = nest_load(n, q->buffer,
                              i < t->in ? register_at(q, from + i * apart, turn, from_each, lane)
                                        : register_at(q, to + i - t->in, turn, to_each, lane));
            if (by != 1)
                v = te_binary(&n->te, TE_MUL, v, te_number(&n->te, dtype, by));
            nest_append(n, lane,
                        first ? nest_store(n, q->buffer, at, v)
                              : nest_fold(n, TE_SUM, q->buffer, at, v));
            first = false;
        }
    }
}

/* A matrix in memory: its first element's first lane, and the steps of its elements. */
typedef struct Matrix {
    int buffer;
    NestLinear at;
    int64_t down, across;
} Matrix;

static Te *element_of(Nest *n, const Matrix *m, const NestNode *down, const NestNode *across,
                      const NestNode *lane)
{
    NestLinear at = m->at;
    nest_add_term(&at, down->var, m->down);
    nest_add_term(&at, across->var, m->across);
    nest_add_term(&at, lane->var, 1);
    return nest_position(n, &at);
}

/* Puts the transformed matrix into another one. */
static void transform_matrix(const Plan *p, NestNode *in, int64_t width, const Transform *t,
                             const Matrix *from, const Matrix *to)
{
    Nest *n = p->s->n;
    NestNode *home = unrolled_in(n, in, "i", 1);
    int64_t last = (int64_t)t->in * t->sums, elements = last + t->sums;
    NestBuffer b = {.name = "part",
                    .dtype = p->dtype,
                    .place = NEST_REGISTER,
                    .size = (elements + t->in) * p->s->lanes,
                    .home = home};
    Pass q = {n, home, t, nest_buffer(n, b), width, p->s->lanes};
    NestNode *column = unrolled_in(n, home, "c", t->in), *i = unrolled_in(n, column, "i", t->in);
    NestNode *lane = vector_in(n, i, width, q.lanes);
    Te *v = nest_load(n, from->buffer, element_of(n, from, i, column, lane));
    nest_append(n, lane, nest_store(n, q.buffer, register_at(&q, elements, i, 1, lane), v));
    transform(&q, column, elements, 0, 1, 0, t->sums);
    NestNode *row = unrolled_in(n, home, "r", t->out);
    transform(&q, row, t->sums - t->out, 1, t->sums, last, 0);
    NestNode *j = unrolled_in(n, row, "j", t->out);
    lane = vector_in(n, j, width, q.lanes);
    v = nest_load(n, q.buffer, register_at(&q, last + t->sums - t->out, j, 1, lane));
    nest_append(n, lane, nest_store(n, to->buffer, element_of(n, to, row, j, lane), v));
}

/* ---- a few rows of tiles ----------------------------------------------------------------------------------------------------------- */

/* Rows of tiles from `first` of image `image` on; `part` is the place in the scratch buffers. */
typedef struct Rows {
    NestNode *in;
    NestLinear image, first, part;
    int64_t rows;
} Rows;

static int64_t tiles_of(const Plan *p, const Rows *r)
{
    return r->rows * p->across;
}

static void transform_data(const Plan *p, const Rows *r)
{
    Nest *n = p->s->n;
    int64_t ic = p->c->ic, pitch = p->width * ic, tile = p->w->tile,
            most = tiles_of(p, r) * p->pitch;
    NestNode *down = loop_in(n, r->in, "y", r->rows), *apart = unrolled_in(n, down, "i", 1);
    NestNode *across = loop_in(n, apart, "x", p->across);
    apart->apart = true;
    Piece channels[2];
    int count = pieces_of(n, across, "c", ic, p->s->lanes, channels);
    for (int i = 0; i < count; i++) {
        Matrix from = {.buffer = p->turned, .down = pitch, .across = ic};
        linear_add(&from.at, &r->image, p->height * pitch);
        linear_add(&from.at, &r->first, tile * pitch);
        nest_add_term(&from.at, down->var, tile * pitch);
        nest_add_term(&from.at, across->var, tile * ic);
        linear_add(&from.at, &channels[i].from, 1);
        Matrix to = {.buffer = p->data, .down = most * p->points, .across = most};
        linear_add(&to.at, &r->part, p->part * p->pitch);
        nest_add_term(&to.at, down->var, p->across * p->pitch);
        nest_add_term(&to.at, across->var, p->pitch);
        linear_add(&to.at, &channels[i].from, 1);
        transform_matrix(p, channels[i].in, channels[i].size, &p->w->data, &from, &to);
    }
}

static void multiply(const Plan *p, const Rows *r)
{
    Nest *n = p->s->n;
    int64_t ic = p->c->ic, lanes = p->s->lanes, tiles = tiles_of(p, r), height, vectors;
    int64_t oc = p->blocks * lanes, points = p->points * p->points;
    tile_size(p->s->m, tiles, p->blocks, taps_bytes(p), 1, &height, &vectors);
    NestNode *point = loop_in(n, r->in, "e", points);
    Piece blocks[2], heights[2];
    int n_blocks = pieces_of(n, point, "o", p->blocks, vectors, blocks);
    for (int i = 0; i < n_blocks; i++) {
        int n_heights = pieces_of(n, blocks[i].in, "t", tiles, height, heights);
        for (int k = 0; k < n_heights; k++) {
            /* A loop of one turn for the registers to live in. */
            NestNode *home = unrolled_in(n, heights[k].in, "i", 1);
            Tile t = {.words = {.each = 1},
                      .rows = heights[k].size,
                      .vectors = blocks[i].size,
                      .lanes = (int)lanes,
                      .a = p->data,
                      .b = p->taps,
                      .a_row = p->pitch,
                      .b_vector = ic * lanes,
                      .n_axes = 1,
                      .axis = {{ic, 1, lanes}}};
            linear_add(&t.a_at, &r->part, p->part * p->pitch);
            nest_add_term(&t.a_at, point->var, tiles * p->pitch);
            linear_add(&t.a_at, &heights[k].from, p->pitch);
            nest_add_term(&t.b_at, point->var, oc * ic);
            linear_add(&t.b_at, &blocks[i].from, ic * lanes);
            int acc = tile_in(n, home, &t);
            NestLinear to = {0};
            linear_add(&to, &r->part, p->part * oc);
            nest_add_term(&to, point->var, tiles * oc);
            linear_add(&to, &heights[k].from, oc);
            linear_add(&to, &blocks[i].from, lanes);
            store_tile(n, home, &t, acc, p->sums, &to, oc, lanes);
        }
    }
}

/* Tiles side by side whose results are stored at once. */
#define TILES_AT_ONCE 32

/* Some tiles of a row for a vector of output channels: their results are computed, then stored where they belong. */
typedef struct Strip {
    NestNode *in;
    Piece channels;
    NestLinear row; /* of tiles */
    int64_t rows, tiles, columns; /* rows and columns of the image */
    NestLinear first; /* tile */
} Strip;

static void store_strip(const Plan *p, const Rows *r, const Strip *q)
{
    Nest *n = p->s->n;
    int64_t lanes = p->s->lanes, tile = p->w->tile, oc = p->blocks * lanes;
    int64_t most = tiles_of(p, r) * oc, pitch = q->tiles * tile * lanes;
    NestBuffer b = {.name = "results",
                    .dtype = p->dtype,
                    .place = NEST_LOCAL,
                    .size = tile * pitch,
                    .home = q->in};
    int results = nest_buffer(n, b);
    NestNode *apart = unrolled_in(n, q->in, "i", 1), *across = loop_in(n, apart, "x", q->tiles);
    apart->apart = true;
    Matrix sums = {.buffer = p->sums, .down = most * p->points, .across = most};
    linear_add(&sums.at, &r->part, p->part * oc);
    linear_add(&sums.at, &q->row, p->across * oc);
    linear_add(&sums.at, &q->first, oc);
    nest_add_term(&sums.at, across->var, oc);
    linear_add(&sums.at, &q->channels.from, 1);
    Matrix to = {.buffer = results, .down = pitch, .across = lanes};
    nest_add_term(&to.at, across->var, tile * lanes);
    transform_matrix(p, across, lanes, &p->w->results, &sums, &to);
    Turned from = {.buffer = results,
                   .row_step = pitch,
                   .channels = q->channels.size,
                   .channel = q->channels.from,
                   .n = r->image,
                   .y = linear_times(&r->first, tile),
                   .x = linear_times(&q->first, tile),
                   .rows = q->rows,
                   .columns = q->columns};
    linear_add(&from.y, &q->row, tile);
    store_turned(p->s, q->in, p->c, p->tail, &from);
}

static void transform_results(const Plan *p, const Rows *r, int64_t rows_of_image)
{
    Nest *n = p->s->n;
    int64_t tile = p->w->tile, strips = (p->across + TILES_AT_ONCE - 1) / TILES_AT_ONCE;
    int64_t at_once = (p->across + strips - 1) / strips;
    Piece blocks[2], rows[2], columns[2];
    int n_blocks = pieces_of(n, r->in, "o", p->c->oc, p->s->lanes, blocks);
    for (int i = 0; i < n_blocks; i++) {
        int n_rows = pieces_of(n, blocks[i].in, "y", rows_of_image, tile, rows);
        for (int k = 0; k < n_rows; k++) {
            int n_columns = pieces_of(n, rows[k].in, "x", p->c->x.out, at_once * tile, columns);
            for (int j = 0; j < n_columns; j++) {
                Strip q = {.in = loop_in(n, columns[j].in, "s", 1),
                           .channels = blocks[i],
                           .rows = rows[k].size,
                           .columns = columns[j].size,
                           .tiles = (columns[j].size + tile - 1) / tile};
                /* Of whole tiles all terms are multiples. */
                q.row = linear_over(&rows[k].from, tile);
                q.first = linear_over(&columns[j].from, tile);
                store_strip(p, r, &q);
            }
        }
    }
}

static void add_rows(const Plan *p, const Rows *r, int64_t rows_of_image)
{
    transform_data(p, r);
    multiply(p, r);
    transform_results(p, r, rows_of_image);
}

/* The turns, the first ones for the first of the shares, and so on. */
static void turns_in(const Plan *p, int64_t shares, Rows *r)
{
    Nest *n = p->s->n;
    if (shares > 1) {
        r->in = loop_in(n, r->in, "t", shares);
        nest_add_term(&r->first, r->in->var, p->turns / shares * p->rows);
        nest_add_term(&r->part, r->in->var, 1);
    }
    r->in = loop_in(n, r->in, "b", p->turns / shares);
    nest_add_term(&r->first, r->in->var, p->rows);
}

/* ---- all of it --------------------------------------------------------------------------------------------------------------------- */

/* What a few rows of tiles take, transformed, in second caches: little enough for one to hold much of it, and much, for each such part
 * reads all taps. */
#define ROWS_CACHES 2
/* What a byte costs that goes through a larger cache between the stages, beside one of the taps, which are read one after the other. */
#define STAGE_COST 5

/* Tiles of each thread for which the taps come as fast as they are multiplied. */
#define TILES_EACH 20

/* A few rows at a time, and those that are left over at once; or all, where an image is small, or the taps are so many that to read them
 * again for each part costs more than the cache gains. Parts are as many for each thread, whose caches they stay in, also of an image that
 * one cache would hold; in what is done at once threads share the work of each stage. */
static void share_rows(Plan *p)
{
    int64_t points = p->points * p->points * 4, threads = p->s->m->threads;
    int64_t row = p->across * (p->c->ic + p->c->oc) * points;
    int64_t taps = taps_bytes(p);
    int64_t rows = ROWS_CACHES * p->s->m->second_cache / row;
    rows = rows > 1 ? rows : 1;
    int64_t parts = (p->down + rows - 1) / rows;
    bool many = p->down * p->across >= TILES_EACH * threads && p->c->n % threads != 0;
    if (many && p->down % threads == 0 && parts < threads)
        parts = threads;
    p->rows = p->down;
    p->turns = 0;
    if (parts == 1 || (parts - 1) * taps > STAGE_COST * p->down * row)
        return;
    parts = (parts + threads - 1) / threads * threads;
    p->rows = (p->down + parts - 1) / parts;
    p->turns = p->c->y.out / p->w->tile / p->rows / threads * threads;
}

bool winograd_fits(const Sched *s, int stage)
{
    Conv c;
    if (!s->m->transforms || !conv_of(s->p, stage, &c) || !sched_is_known(s, c.weight))
        return false;
    const ConvAxis *y = &c.y, *x = &c.x;
    return dtype_is_float(c.dtype) && c.groups == 1 && y->taps == TAPS && x->taps == TAPS &&
           y->stride == 1 && x->stride == 1 && y->dilation == 1 && x->dilation == 1 && c.ic >= 32 &&
           c.oc >= 32 && y->out >= 6 && x->out >= 6 && !c.packed &&
           (c.out_block == 1 || (c.out_block == s->lanes && c.in_block == s->lanes));
}

static double cost_of(const Sched *s, const Conv *c, const Winograd *w)
{
    int64_t tile = w->tile, points = (tile + 2) * (tile + 2);
    int64_t down = (c->y.out + tile - 1) / tile, across = (c->x.out + tile - 1) / tile;
    int64_t blocks = (c->oc + s->lanes - 1) / s->lanes, in = (c->ic + s->lanes - 1) / s->lanes;
    double tiles = (double)(c->n * down * across);
    return (double)(c->n * down * points * c->ic) * tile_cost(s->m, across, blocks) +
           6.0 * tiles * (double)(points * (in + blocks)) +
           SCHED_BYTE_COST * 4 *
               (double)(points * c->ic * blocks * s->lanes + c->n * c->ic * c->y.in * c->x.in);
}

static const Winograd *transform_for(const Sched *s, const Conv *c)
{
    return cost_of(s, c, &f4) < cost_of(s, c, &f2) ? &f4 : &f2;
}

double winograd_cost(const Sched *s, int stage)
{
    Conv c;
    conv_of(s->p, stage, &c);
    return cost_of(s, &c, transform_for(s, &c));
}

void winograd_build(Sched *s, int stage, const Tail *tail)
{
    Nest *n = s->n;
    Conv image, *c = &image;
    conv_of(s->p, stage, c);
    Plan p = {.s = s, .c = c, .tail = tail, .w = transform_for(s, c)};
    int64_t tile = p.w->tile;
    p.dtype = n->buffers.at[c->weight].dtype;
    p.points = (int)tile + 2;
    p.down = (c->y.out + tile - 1) / tile;
    p.across = (c->x.out + tile - 1) / tile;
    p.height = p.down * tile + 2;
    p.width = p.across * tile + 2;
    p.height = p.height < c->y.in + c->y.before ? c->y.in + c->y.before : p.height;
    p.width = p.width < c->x.in + c->x.before ? c->x.in + c->x.before : p.width;
    p.blocks = (c->oc + s->lanes - 1) / s->lanes;
    p.pitch = spread_pitch(c->ic);
    share_rows(&p);
    p.taps = transformed_taps(&p);
    if (p.taps < 0)
        return;
    int64_t rest = p.down - p.turns * p.rows, most = rest > p.rows ? rest : p.rows;
    int64_t threads = s->m->threads, shares = p.turns > 0 ? threads : 1;
    /* What runs at once has its own. */
    int64_t parts = threads > 1 ? c->n * shares : 1;
    p.part = most * p.across * p.points * p.points;
    p.turned = scratch_of(n, "turned", p.dtype, c->n * p.height * p.width * c->ic);
    p.data = scratch_of(n, "data", p.dtype, parts * p.part * p.pitch);
    p.sums = scratch_of(n, "sums", p.dtype, parts * p.part * p.blocks * s->lanes);
    turn_data(&p);
    for (int part = 0; part < 2; part++) {
        Rows r = {.rows = part == 0 ? p.rows : rest};
        if (part == 0 ? p.turns == 0 : rest == 0)
            continue;
        r.in = images_in(n, c, &r.image);
        if (parts > 1)
            linear_add(&r.part, &r.image, shares);
        if (part == 0)
            turns_in(&p, shares, &r);
        else
            r.first.c = p.down - rest;
        add_rows(&p, &r, part == 0 ? p.rows * tile : c->y.out - r.first.c * tile);
    }
}

/* It takes the weights as they are, for it makes others of them. */
double winograd_elsewhere(const Sched *s, int stage, SchedLayout *out)
{
    Conv c;
    *out = (SchedLayout){s->lanes, s->lanes, false};
    bool ok = winograd_fits(s, stage) && conv_of(s->p, stage, &c) && c.oc % s->lanes == 0 &&
              c.ic % s->lanes == 0;
    return ok ? winograd_cost(s, stage) : -1;
}
