/* Convolutions and pools of each channel on its own: for a plane at a time, a copy with its border of zeros in the first cache, then a few rows of
 * results by vectors along them. Where windows step by more than one element, the copy has the columns of each phase of the step side
 * by side, so that all loads of the sums are of elements side by side. */
#include "sched/conv.h"

/* Rows of results that share what they load. */
#define ROWS_AT_ONCE 4
/* Products in straight code. */
#define STRAIGHT_MOST 160
/* A plane with its border, in a thread's frame. */
#define PLANE_BYTES ((int64_t)128 << 10)

typedef struct Depthwise {
    Sched *s;
    const Conv *c;
    const Tail *tail;
    NestNode *in; /* the loop over planes */
    NestLinear image, channel;
    DType dtype;
    int64_t rows, pitch; /* of a phase of the copy */
    int copy;
} Depthwise;

static int64_t rows_read(const Conv *c)
{
    int64_t last = (c->y.out - 1) * c->y.stride + (c->y.taps - 1) * c->y.dilation + 1;
    int64_t all = c->y.before + c->y.in;
    return last > all ? last : all;
}

/* Columns of a phase. */
static int64_t columns_read(const Conv *c)
{
    int64_t last = (c->x.out - 1) * c->x.stride + (c->x.taps - 1) * c->x.dilation + 1;
    int64_t all = c->x.before + c->x.in;
    return ((last > all ? last : all) + c->x.stride - 1) / c->x.stride;
}

static int64_t copy_size(const Conv *c)
{
    return c->x.stride * rows_read(c) * columns_read(c);
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

static void fill_border(const Depthwise *d)
{
    Nest *n = d->s->n;
    Te *outside = d->c->outside ? d->c->outside : te_number(&n->te, d->dtype, 0);
    Piece pieces[2];
    int count = pieces_of(n, d->in, "z", copy_size(d->c), d->s->lanes, pieces);
    for (int i = 0; i < count; i++) {
        NestNode *lane = lanes_in(d, pieces[i].in, pieces[i].size);
        NestLinear at = pieces[i].from;
        nest_add_term(&at, lane->var, 1);
        nest_append(n, lane, nest_store(n, d->copy, nest_position(n, &at), outside));
    }
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
        Te *v = te_cast(&n->te, d->dtype, nest_load(n, d->c->data, nest_position(n, &load)));
        nest_append(n, lane, nest_store(n, d->copy, nest_position(n, &to), v));
    }
}

/* ---- sums ---------------------------------------------------------------------------------------------------------------- */

static Te *lane_of(Nest *n, int64_t row, const NestNode *lane)
{
    NestLinear l = {.c = row * lane->lanes};
    nest_add_term(&l, lane->var, 1);
    return nest_position(n, &l);
}

/* Adds what row `in` of the copy gives to the rows of results. */
static void add_row(const Depthwise *d, NestNode *lane, int acc, const Piece *rows,
                    const Piece *columns, int64_t in)
{
    const ConvAxis *x = &d->c->x, *y = &d->c->y;
    Nest *n = d->s->n;
    for (int64_t k = 0; k < x->taps; k++) {
        int64_t column = k * x->dilation;
        NestLinear at = {.c = (column % x->stride * d->rows + in) * d->pitch + column / x->stride};
        linear_add(&at, &rows->from, y->stride * d->pitch);
        linear_add(&at, &columns->from, 1);
        nest_add_term(&at, lane->var, 1);
        Te *v = nest_load(n, d->copy, nest_position(n, &at));
        for (int64_t r = 0; r < rows->size; r++) {
            int64_t far = in - r * y->stride, tap = far / y->dilation;
            if (far < 0 || far % y->dilation || tap >= y->taps)
                continue;
            NestLinear w = {.c = tap * x->taps + k};
            linear_add(&w, &d->channel, y->taps * x->taps);
            Te *value = v;
            if (d->c->weight >= 0)
                value = te_binary(
                    &n->te, TE_MUL, v,
                    te_cast(&n->te, d->dtype, nest_load(n, d->c->weight, nest_position(n, &w))));
            nest_append(n, lane, nest_fold(n, d->c->fold, acc, lane_of(n, r, lane), value));
        }
    }
}

static void add_block(const Depthwise *d, const Piece *rows, const Piece *columns)
{
    const ConvAxis *y = &d->c->y;
    Nest *n = d->s->n;
    NestNode *home = unrolled_in(n, columns->in, "i", 1), *lane = lanes_in(d, home, columns->size);
    NestBuffer b = {.name = "acc",
                    .dtype = d->dtype,
                    .place = NEST_REGISTER,
                    .size = rows->size * lane->lanes,
                    .home = home};
    int acc = nest_buffer(n, b);
    for (int64_t r = 0; r < rows->size; r++)
        nest_append(
            n, lane,
            nest_store(n, acc, lane_of(n, r, lane), nest_start_of(n, d->c->fold, d->dtype)));
    int64_t last = (rows->size - 1) * y->stride + (y->taps - 1) * y->dilation;
    for (int64_t in = 0; in <= last; in++)
        add_row(d, lane, acc, rows, columns, in);
    for (int64_t r = 0; r < rows->size; r++) {
        NestLinear at[CONV_AXES] = {d->image, d->channel, rows->from, columns->from};
        at[2].c += r;
        nest_add_term(&at[3], lane->var, 1);
        Te *sum = nest_load(n, acc, lane_of(n, r, lane));
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

bool depthwise_fits(const Sched *s, int stage)
{
    Conv c;
    return planes_of(s->p, stage, &c) && c.out_block == 1 && c.x.out >= 2 &&
           c.y.taps * c.x.taps <= STRAIGHT_MOST && copy_size(&c) * 4 <= PLANE_BYTES;
}

double depthwise_cost(const Sched *s, int stage)
{
    Conv c;
    planes_of(s->p, stage, &c);
    int64_t vectors = (c.x.out + s->lanes - 1) / s->lanes, planes = c.n * c.groups;
    return (double)planes * ((double)(c.y.out * vectors * c.y.taps * c.x.taps) +
                             3.0 * (double)(copy_size(&c) / s->lanes));
}

void depthwise_build(Sched *s, int stage, const Tail *tail)
{
    Conv image, *c = &image;
    planes_of(s->p, stage, c);
    Nest *n = s->n;
    Depthwise d = {.s = s, .c = c, .tail = tail, .rows = rows_read(c), .pitch = columns_read(c)};
    d.dtype = c->dtype;
    d.in = loop_in(n, images_in(n, c, &d.image), "c", c->groups);
    nest_add_term(&d.channel, d.in->var, 1);
    NestBuffer b = {
        .name = "plane", .dtype = d.dtype, .place = NEST_LOCAL, .size = copy_size(c), .home = d.in};
    d.copy = nest_buffer(n, b);
    fill_border(&d);
    NestNode *row = loop_in(n, d.in, "y", c->y.in);
    for (int64_t phase = 0; phase < c->x.stride; phase++)
        copy_phase(&d, row, phase);
    int64_t most = STRAIGHT_MOST / (c->y.taps * c->x.taps);
    Piece rows[2], columns[2];
    int n_rows = pieces_of(n, d.in, "y", c->y.out, most < ROWS_AT_ONCE ? most : ROWS_AT_ONCE, rows);
    for (int i = 0; i < n_rows; i++) {
        int n_columns = pieces_of(n, rows[i].in, "x", c->x.out, s->lanes, columns);
        for (int k = 0; k < n_columns; k++)
            add_block(&d, &rows[i], &columns[k]);
    }
}
