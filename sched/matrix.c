/* Tiles of bytes on registers of matrices (NEST_MATRIX), and the convolutions that they compute, which step by one column: output channels are
 * rows, neighbouring results of an image's row are columns, as they lie in the data's words (words.h). Weights are laid out once, when code
 * is made. */
#include "sched/conv.h"

#include "te/walk.h"

enum { SIDE = NEST_MATRIX_SIDE, MOST = 2 * SIDE };

/* ---- tiles --------------------------------------------------------------------------------------------------------------- */

const Words matrix_words = {.each = NEST_WORD};

int64_t matrix_sides(int64_t extent)
{
    return (extent + SIDE - 1) / SIDE;
}

bool matrix_takes(const Sched *s, DType sum, DType first, DType second)
{
    Words w;
    return s->m->matrices && s->lanes == SIDE && words_of(true, sum, first, second, &w) &&
           w.each == NEST_WORD;
}

int matrix_in(Nest *n, NestNode *home, const Tile *t, const DType factors[2])
{
    int last = t->n_axes - 1;
    NestLinear zero = {0};
    NestMatrix m = {.rows = (int)matrix_sides(t->rows) * SIDE,
                    .columns = (int)t->vectors * SIDE,
                    .factors = {factors[0], factors[1]},
                    .row_step = t->vectors * SIDE,
                    .first_row = t->a_row,
                    .second_word = t->axis[last].b,
                    .second_block = t->b_vector,
                    .n = t->n_axes};
    for (int i = 0; i < t->n_axes; i++) {
        m.axis[i].extent = t->axis[i].extent / (i == last ? SIDE : 1);
        m.axis[i].first = t->axis[i].a * (i == last ? SIDE : 1);
        m.axis[i].second = t->axis[i].b * (i == last ? SIDE : 1);
    }
    int sums = nest_buffer(n, (NestBuffer){.name = "sums",
                                           .dtype = n->buffers.at[t->b].dtype,
                                           .place = NEST_LOCAL,
                                           .size = m.rows * m.row_step,
                                           .home = home});
    nest_append(n, home,
                nest_matrix(n, sums, nest_position(n, &zero), &m,
                            nest_load(n, t->a, nest_position(n, &t->a_at)),
                            nest_load(n, t->b, nest_position(n, &t->b_at))));
    return sums;
}

/* What a product of two registers takes, and the least that a turn does, for the next one waits until its sums are there; making the registers
 * ready for a sum, and a vector that is stored and loaded again. */
#define PRODUCT_COST 36
#define TURN_COST 110
#define READY_COST 500.0
#define STORED_COST 4.0

static double block_cost(int64_t high, int64_t wide, int64_t turns)
{
    int64_t products = high * wide * PRODUCT_COST;
    return high * wide == 0
               ? 0
               : READY_COST + (double)((products > TURN_COST ? products : TURN_COST) * turns);
}

double sched_matrix_cost(const NestMatrix *m)
{
    int64_t turns = 1;
    for (int i = 0; i < m->n; i++)
        turns *= m->axis[i].extent;
    return block_cost(m->rows / SIDE, m->columns / SIDE, turns);
}

double matrix_tiles_cost(int64_t rows, int64_t columns, int64_t turns)
{
    int64_t high = matrix_sides(rows), wide = matrix_sides(columns), each = turns / SIDE;
    return (double)(high / 2 * (wide / 2)) * block_cost(2, 2, each) +
           (double)(high / 2) * block_cost(2, wide % 2, each) +
           (double)(wide / 2) * block_cost(high % 2, 2, each) +
           block_cost(high % 2, wide % 2, each) + STORED_COST * (double)(rows * wide);
}

/* ---- convolutions -------------------------------------------------------------------------------------------------------- */

typedef struct Matrix {
    Sched *s;
    const Conv *c;
    const Tail *tail;
    int64_t turns; /* words of a group's input channels, a multiple of a side */
    int64_t rows,
        columns; /* of results: a window of one element goes over a plane as over one row */
    ConvData data;
    int weights;
} Matrix;

/* weights[g, o, y, x, i] = word i of output channel o, zero behind the last one */
static bool pack_weights(Matrix *d)
{
    Sched *s = d->s;
    const Conv *c = d->c;
    TeBuilder b;
    te_begin(&b, s->cx, s->n->arena);
    int64_t ws[4] = {c->groups * c->oc, c->ic, c->y.taps, c->x.taps};
    int64_t shape[5] = {c->groups, matrix_sides(c->oc) * SIDE, ws[2], ws[3], d->turns};
    if (c->rank == 3)
        ws[2] = ws[3];
    TeTensor w = te_add_input(&b, c->of_weight, c->rank, ws);
    Te *o = te_binary(&b, TE_MUL, te_axis(&b, 0), te_int(&b, c->oc));
    o = te_binary(&b, TE_ADD, o, te_axis(&b, 1));
    Te *element[NEST_WORD];
    for (int i = 0; i < NEST_WORD; i++) {
        Te *in = te_binary(&b, TE_MUL, te_axis(&b, 4), te_int(&b, NEST_WORD));
        Te *wi[4] = {o, te_binary(&b, TE_ADD, in, te_int(&b, i)), te_axis(&b, 2), te_axis(&b, 3)};
        if (c->rank == 3)
            wi[2] = wi[3];
        element[i] = te_load_or(&b, w, wi, te_number(&b, w.dtype, 0));
    }
    Te *word = words_pack(&b, &matrix_words, element, NEST_WORD, false);
    TeTensor out = te_map(&b, words_dtype(&matrix_words, w.dtype), 5, shape, word);
    d->weights = sched_constant(s, "weights", te_finish(&b, 1, &out, false), &s->known[c->weight]);
    return d->weights >= 0;
}

/* Where the code of some results goes: their image, group of channels, channels of it, row and columns. */
typedef struct Results {
    NestNode *in;
    NestLinear image, group, channel, row, column;
    int64_t channels, columns;
} Results;

static void store_results(const Matrix *d, const Results *r, NestNode *home, const Tile *t,
                          int sums)
{
    Nest *n = d->s->n;
    Piece columns[2];
    NestNode *each = loop_in(n, home, "c", r->channels);
    int count = pieces_of(n, each, "x", r->columns, SIDE, columns);
    for (int i = 0; i < count; i++) {
        NestNode *lane = vector_in(n, columns[i].in, columns[i].size, SIDE);
        NestLinear at[CONV_AXES] = {r->image, r->channel, r->row, r->column};
        NestLinear from = columns[i].from;
        linear_add(&at[1], &r->group, d->c->oc);
        nest_add_term(&at[1], each->var, 1);
        nest_add_term(&from, lane->var, 1);
        linear_add(&at[3], &from, 1);
        nest_add_term(&from, each->var, t->vectors * SIDE);
        Te *sum = nest_load(n, sums, nest_position(n, &from));
        nest_append(n, lane, store_result(d->s, d->c, d->tail, at, sum));
    }
}

static void add_matrix(const Matrix *d, const Results *r)
{
    const Conv *c = d->c;
    int64_t row = c->y.taps * c->x.taps * d->turns;
    NestNode *home = unrolled_in(d->s->n, r->in, "i", 1);
    Tile t = {.rows = r->channels,
              .vectors = matrix_sides(r->columns),
              .lanes = SIDE,
              .a = d->weights,
              .b = d->data.buffer,
              .a_row = row,
              .b_vector = SIDE,
              .n_axes = 3,
              .axis = {{c->y.taps, c->x.taps * d->turns, c->y.dilation * d->data.pitch},
                       {c->x.taps, d->turns, c->x.dilation},
                       {d->turns, 1, d->data.plane}}};
    linear_add(&t.a_at, &r->group, matrix_sides(c->oc) * SIDE * row);
    linear_add(&t.a_at, &r->channel, row);
    linear_add(&t.b_at, &r->image, c->groups * d->turns * d->data.plane);
    linear_add(&t.b_at, &r->group, d->turns * d->data.plane);
    linear_add(&t.b_at, &r->row, c->y.stride * d->data.pitch);
    linear_add(&t.b_at, &r->column, 1);
    store_results(d, r, home, &t,
                  matrix_in(d->s->n, home, &t, (DType[]){c->of_weight, c->of_data}));
}

/* Bytes of weights of some channels stay in the first cache while all rows of an image go by. */
static void add_all(const Matrix *d)
{
    const Conv *c = d->c;
    Nest *n = d->s->n;
    Results r = {0};
    NestNode *outer = images_in(n, c, &r.image);
    if (c->groups > 1) {
        outer = loop_in(n, outer, "g", c->groups);
        nest_add_term(&r.group, outer->var, 1);
    }
    Piece channels[2], columns[2];
    int n_channels = pieces_of(n, outer, "o", c->oc, MOST, channels);
    for (int i = 0; i < n_channels; i++) {
        NestNode *row = loop_in(n, channels[i].in, "y", d->rows);
        r.channel = channels[i].from;
        r.channels = channels[i].size;
        r.row = (NestLinear){0};
        nest_add_term(&r.row, row->var, 1);
        int n_columns = pieces_of(n, row, "x", d->columns, MOST, columns);
        for (int k = 0; k < n_columns; k++) {
            r.in = columns[k].in;
            r.column = columns[k].from;
            r.columns = columns[k].size;
            add_matrix(d, &r);
        }
    }
}

bool matrix_fits(const Sched *s, int stage)
{
    Conv c;
    return conv_of(s->p, stage, &c) && c.out_block == 1 && c.x.stride == 1 &&
           sched_is_known(s, c.weight) && matrix_takes(s, c.dtype, c.of_weight, c.of_data);
}

double matrix_cost(const Sched *s, int stage)
{
    Conv c;
    conv_of(s->p, stage, &c);
    int64_t turns = matrix_sides(words_along(&matrix_words, c.ic)) * SIDE;
    int64_t taps = c.y.taps * c.x.taps, rows = conv_is_one_row(&c) ? 1 : c.y.out;
    double tiles = matrix_tiles_cost(c.oc, c.y.out / rows * c.x.out, turns * taps);
    return (double)(c.n * c.groups * rows) * tiles +
           SCHED_BYTE_COST * 4 * (double)(c.groups * turns) *
               (double)(taps * c.oc + c.n * c.y.in * c.x.in);
}

void matrix_build(Sched *s, int stage, const Tail *tail)
{
    Conv image, *c = &image;
    conv_of(s->p, stage, c);
    Matrix d = {.s = s, .c = c, .tail = tail, .rows = c->y.out, .columns = c->x.out};
    d.turns = matrix_sides(words_along(&matrix_words, c->ic)) * SIDE;
    /* The last columns of a matrix may lie behind the last row. */
    d.data = lay_out_data(s, c, &matrix_words, d.turns, MOST);
    if (c->rank == 4 && conv_is_one_row(c) &&
        (tail->stage < 0 || tail_axis(s, tail->stage, 2, 3) == 3)) {
        d.columns *= d.rows;
        d.rows = 1;
    }
    if (pack_weights(&d))
        add_all(&d);
}
