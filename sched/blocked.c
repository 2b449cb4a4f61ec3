/* Convolutions over channels that lie in blocks of a vector, or of half of one where whole ones leave some over: data "NCHW16c" with weights "OIHW16i16o", or planes with "OIHW16o". A
 * register tile reads data and weights as they lie and stores vectors of channels, so nothing is laid out and nothing is turned; only
 * data with a border is copied. */
#include "sched/conv.h"

typedef struct Blocked {
    Sched *s;
    const Conv *c;
    const Tail *tail;
    int64_t lanes, blocks; /* of results */
    int64_t height, vectors; /* of a tile */
    int64_t pitch, plane; /* of the data that is read, in its blocks */
    int64_t rows, columns; /* of results that are gone through as an image */
    int data; /* buffer */
} Blocked;

/* ---- the data ---------------------------------------------------------------------------------------------------------- */

static int64_t last_read(const ConvAxis *a)
{
    return (a->out - 1) * a->stride + (a->taps - 1) * a->dilation + 1;
}

/* Elements of an axis with its border. */
static int64_t extent_of(const ConvAxis *a)
{
    int64_t all = a->before + a->in, last = last_read(a);
    return all > last ? all : last;
}

/* The data, or a copy of it with its border. */
static int bordered_data(Blocked *d)
{
    const Conv *c = d->c;
    Nest *n = d->s->n;
    int64_t block = c->in_block, planes = c->n * c->ic / block, height = extent_of(&c->y);
    d->pitch = c->x.in;
    d->plane = c->y.in * c->x.in;
    if (c->y.before == 0 && c->x.before == 0 && last_read(&c->y) <= c->y.in &&
        last_read(&c->x) <= c->x.in)
        return c->data;
    d->pitch = extent_of(&c->x);
    d->plane = height * d->pitch;
    int copy = scratch_of(n, "bordered", c->of_data, planes * d->plane * block);
    zero_border(d->s, copy, (Bordered){planes, block, height, d->pitch, &c->y, &c->x, 0});
    NestNode *plane = loop_in(n, NULL, "c", planes), *y = loop_in(n, plane, "y", c->y.in);
    NestNode *x = loop_in(n, y, "x", c->x.in * block);
    NestLinear to = {.c = (c->y.before * d->pitch + c->x.before) * block}, from = {0};
    nest_add_term(&to, plane->var, d->plane * block);
    nest_add_term(&to, y->var, d->pitch * block);
    nest_add_term(&to, x->var, 1);
    nest_add_term(&from, plane->var, c->y.in * c->x.in * block);
    nest_add_term(&from, y->var, c->x.in * block);
    nest_add_term(&from, x->var, 1);
    Te *v = nest_load(n, c->data, nest_position(n, &from));
    nest_append(n, x, nest_store(n, copy, nest_position(n, &to), v));
    sched_map(d->s, plane);
    return copy;
}

/* ---- the sums ------------------------------------------------------------------------------------------------------------ */

/* Some results: where their code goes, their image, row, what that reads of the window, first block, and blocks; `chunk` of the row. */
typedef struct Results {
    NestNode *in;
    NestLinear image, row, block;
    Taps taps;
    int64_t vectors;
    Piece chunk;
} Results;

static void add_tile(const Blocked *d, const Results *r, const Piece *tile)
{
    const Conv *c = d->c;
    Nest *n = d->s->n;
    int64_t lanes = d->lanes, taps = c->y.taps * c->x.taps, in = c->in_block;
    int64_t a_tap = c->y.dilation * d->pitch * in, b_tap = c->x.taps * in * lanes;
    NestNode *home = unrolled_in(n, tile->in, "i", 1);
    NestLinear x = tile->from;
    linear_add(&x, &r->chunk.from, 1);
    Tile t = {.rows = tile->size,
              .vectors = r->vectors,
              .lanes = (int)lanes,
              .a = d->data,
              .b = c->weight,
              .words = {.each = 1},
              .a_row = c->x.stride * in,
              .b_vector = c->ic * taps * lanes,
              .near = d->s->m->threads > 1,
              .n_axes = 4,
              .axis = {{c->ic / in, d->plane * in, taps * in * lanes},
                       {r->taps.count, a_tap, b_tap},
                       {c->x.taps, c->x.dilation * in, in * lanes},
                       {in, 1, lanes}}};
    linear_add(&t.a_at, &r->image, c->ic * d->plane);
    linear_add(&t.a_at, &r->row, c->y.stride * d->pitch * in);
    linear_add(&t.a_at, &x, c->x.stride * in);
    linear_add(&t.b_at, &r->block, t.b_vector);
    t.a_at.c += r->taps.first * a_tap;
    t.b_at.c += r->taps.first * b_tap;
    int acc = tile_in(n, home, &t);
    for (int64_t v = 0; v < t.vectors; v++) {
        NestNode *i = unrolled_in(n, home, "i", t.rows), *lane = vector_in(n, i, lanes, (int)lanes);
        NestLinear from = {.c = v * lanes}, at[CONV_AXES] = {r->image, r->block, r->row, x};
        at[1].c += v;
        nest_add_term(&at[3], i->var, 1);
        nest_add_term(&at[4], lane->var, 1);
        nest_add_term(&from, i->var, t.vectors * lanes);
        nest_add_term(&from, lane->var, 1);
        Te *value = nest_load(n, acc, nest_position(n, &from));
        nest_append(n, lane, store_result(d->s, c, d->tail, at, value));
    }
}

static void add_tiles(const Blocked *d, const Results *r)
{
    Piece tiles[2];
    int count = pieces_of(d->s->n, r->in, "x", r->chunk.size, d->height, tiles);
    for (int i = 0; i < count; i++)
        add_tile(d, r, &tiles[i]);
}

static void add_blocks(const Blocked *d, Results *r, int64_t first, int64_t blocks)
{
    r->block = (NestLinear){.c = first};
    if (blocks > r->vectors) {
        r->in = loop_in(d->s->n, r->in, "o", blocks / r->vectors);
        nest_add_term(&r->block, r->in->var, r->vectors);
    }
}

/* ---- all of it -------------------------------------------------------------------------------------------------------------- */

/* Bytes of weights up to which all of them are gone through for each part of a row; and results of such a part. */
#define WEIGHTS_FEW ((int64_t)256 << 10)
#define CHUNK_MOST 112

/* Parts of a row, equal and of whole tiles where they can be. */
static int64_t chunk_of(const Blocked *d)
{
    int64_t tiles = d->columns / d->height, at_once = CHUNK_MOST / d->height;
    if (d->columns % d->height == 0)
        while (at_once > 1 && tiles % at_once)
            at_once--;
    return at_once > 1 && tiles > at_once ? at_once * d->height : d->columns;
}

/* Whether all weights are gone through for each part of a row. Threads had better share the blocks where that makes more channels of few: they
 * come from all, and those who go on with a channel have it. */
static bool goes_by_rows(const Blocked *d)
{
    const Conv *c = d->c;
    const Machine *m = d->s->m;
    return d->blocks * d->lanes * c->ic * c->y.taps * c->x.taps * 4 <= WEIGHTS_FEW &&
           (m->threads < 2 || conv_by_rows(m, c) || c->oc <= c->ic);
}

/* `blocks` of the results from `first` on, `vectors` at a time; `rows` of them from `y` on, which read the same of the window. */
static void add_rows(const Blocked *d, const Results *of, Piece y, int64_t first, int64_t blocks)
{
    Nest *n = d->s->n;
    bool few = goes_by_rows(d);
    Results all = *of;
    if (d->rows > 1 || !all.in) {
        all.in = loop_in(n, all.in, "y", y.size);
        all.row = y.from;
        nest_add_term(&all.row, all.in->var, 1);
    }
    Piece chunks[2];
    int count = pieces_of(n, all.in, "x", d->columns, few ? chunk_of(d) : d->columns, chunks);
    for (int i = 0; i < count; i++) {
        Results r = all;
        r.in = chunks[i].in;
        r.chunk = chunks[i];
        if (few)
            add_blocks(d, &r, first, blocks);
        add_tiles(d, &r);
    }
}

static void add_part(const Blocked *d, int64_t first, int64_t blocks, int64_t vectors)
{
    const Conv *c = d->c;
    bool skips = conv_taps_read(c) < c->y.out * c->y.taps;
    Results all = {.vectors = vectors, .taps = {0, c->y.taps}};
    all.in = images_in(d->s->n, c, &all.image);
    if (!goes_by_rows(d))
        add_blocks(d, &all, first, blocks);
    int64_t rows = d->rows;
    for (int64_t y = 0; y < d->rows; y += rows) {
        if (skips)
            rows = conv_rows_alike(&c->y, y, &all.taps);
        add_rows(d, &all, (Piece){.from = {.c = y}, .size = rows}, first, blocks);
    }
}

bool blocked_fits(const Sched *s, int stage)
{
    Conv c;
    return conv_of(s->p, stage, &c) && c.groups == 1 && c.packed && c.out_block >= s->lanes / 2 &&
           c.out_block <= s->lanes && (c.out_block & (c.out_block - 1)) == 0;
}

static double cost_of(const Sched *s, const Conv *c, int64_t block)
{
    int64_t sums = c->ic * c->y.taps * c->x.taps;
    int64_t rows = conv_is_one_row(c) ? 1 : c->y.out, columns = c->y.out / rows * c->x.out;
    double turns =
        (double)(c->n * rows * sums * conv_taps_read(c)) / (double)(c->y.out * c->y.taps);
    return turns * tile_cost(s->m, columns, c->oc / block) +
           SCHED_BYTE_COST * 4 * (double)(sums * c->oc + c->n * c->ic * c->y.in * c->x.in);
}

double blocked_cost(const Sched *s, int stage)
{
    Conv c;
    conv_of(s->p, stage, &c);
    return cost_of(s, &c, c.out_block);
}

double blocked_elsewhere(const Sched *s, int stage, SchedLayout *out)
{
    Conv c;
    bool ok = conv_of(s->p, stage, &c) && c.rank == 4 && c.groups == 1 && is_float32(c.of_data) &&
              is_float32(c.dtype);
    /* The few channels of a picture are planes. */
    *out = (SchedLayout){sched_block(s, c.ic), sched_block(s, c.oc), true};
    return ok && out->out > 1 ? cost_of(s, &c, out->out) : -1;
}

void blocked_build(Sched *s, int stage, const Tail *tail)
{
    Conv image, *c = &image;
    conv_of(s->p, stage, c);
    Blocked d = {.s = s, .c = c, .tail = tail, .rows = c->y.out, .columns = c->x.out};
    d.lanes = c->out_block;
    d.blocks = c->oc / d.lanes;
    d.data = bordered_data(&d);
    if (conv_is_one_row(c) && (tail->stage < 0 || tail_axis(s, tail->stage, 2, 3) == 3)) {
        d.columns *= d.rows;
        d.rows = 1;
    }
    int64_t bytes = d.blocks * d.lanes * c->ic * c->y.taps * c->x.taps * 4;
    tile_size(s->m, d.columns, d.blocks, bytes, d.rows, &d.height, &d.vectors);
    int64_t whole = d.blocks / d.vectors * d.vectors;
    add_part(&d, 0, whole, d.vectors);
    if (whole < d.blocks)
        add_part(&d, whole, d.blocks - whole, d.blocks - whole);
}
