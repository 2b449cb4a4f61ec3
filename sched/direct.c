/* Convolutions as sums in register tiles: vectors of output channels by results side by side in a row, for any window, stride and
 * dilation. Weights are laid out once, when code is made, so that the channels of a vector lie side by side; the data stays as it is, or
 * is copied with a border of zeros, small integers in words of neighbouring channels (words.h). */
#include "sched/conv.h"

#include "te/walk.h"

typedef struct Direct {
    Sched *s;
    const Conv *c;
    const Tail *tail;
    DType dtype; /* of the sums */
    Words words;
    int64_t turns; /* words of a group's input channels */
    int64_t blocks; /* vectors of output channels */
    int64_t height, vectors; /* of a tile */
    int64_t rows,
        columns; /* of results: a window of one element goes over a plane as over one row */
    int64_t chunk; /* results that are stored at once */
    bool skips; /* rows of the window that lie in the border */
    ConvData data;
    int weights, start, results; /* buffers */
} Direct;

/* weights[g, o, y, x, i, lane] = weight[g * channels + lanes * o + lane, i, y, x], words of such; and where their sums start */
static bool pack_weights(Direct *d)
{
    Sched *s = d->s;
    const Conv *c = d->c;
    TeBuilder b;
    te_begin(&b, s->cx, s->n->arena);
    int64_t ws[4] = {c->groups * c->oc, c->ic, c->y.taps, c->x.taps};
    int64_t shape[6] = {c->groups, d->blocks, ws[2], ws[3], d->turns, s->lanes};
    if (c->rank == 3)
        ws[2] = ws[3];
    TeTensor w = te_add_input(&b, c->of_weight, c->rank, ws);
    Te *g = te_binary(&b, TE_MUL, te_axis(&b, 0), te_int(&b, c->oc));
    Te *o = te_binary(&b, TE_MUL, te_axis(&b, 1), te_int(&b, s->lanes));
    o = te_binary(&b, TE_ADD, g, te_binary(&b, TE_ADD, o, te_axis(&b, 5)));
    Te *element[4];
    for (int i = 0; i < d->words.each; i++) {
        Te *in = te_binary(&b, TE_MUL, te_axis(&b, 4), te_int(&b, d->words.each));
        Te *wi[4] = {o, te_binary(&b, TE_ADD, in, te_int(&b, i)), te_axis(&b, 2), te_axis(&b, 3)};
        if (c->rank == 3)
            wi[2] = wi[3];
        element[i] = te_load_or(&b, w, wi, te_number(&b, w.dtype, 0));
    }
    TeTensor out = te_map(&b, words_dtype(&d->words, w.dtype), 6, shape,
                          words_pack(&b, &d->words, element, d->words.each, false));
    d->weights = sched_constant(s, "weights", te_finish(&b, 1, &out, false), &s->known[c->weight]);
    if (!d->words.flips || d->weights < 0)
        return d->weights >= 0;
    int64_t lanes[3] = {c->groups, d->blocks, s->lanes};
    Te *at[6] = {te_axis(&b, 0), te_axis(&b, 1), te_axis(&b, 3),
                 te_axis(&b, 4), te_axis(&b, 5), te_axis(&b, 2)};
    out = te_reduce(&b, TE_SUM, d->dtype, 3, lanes, 3, shape + 2,
                    words_start(&b, &d->words, te_load(&b, out, at)));
    d->start = sched_constant(s, "start", te_finish(&b, 1, &out, false), &s->known[c->weight]);
    return d->start >= 0;
}

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

static bool has_border(const ConvAxis *a)
{
    return a->before > 0 || last_read(a) > a->in;
}

/* Words of a piece of the channels, in one loop over all. */
static void copy_words(Sched *s, const Conv *c, const Words *w, int64_t turns, const ConvData *d,
                       const Piece *channels)
{
    Nest *n = s->n;
    NestNode *group = loop_in(n, channels->in, "g", c->n * c->groups);
    NestNode *y = loop_in(n, group, "y", c->y.in), *x = loop_in(n, y, "x", c->x.in);
    NestLinear to = linear_over(&channels->from, w->each);
    to = linear_times(&to, d->plane);
    to.c += c->y.before * d->pitch + c->x.before;
    nest_add_term(&to, group->var, turns * d->plane);
    nest_add_term(&to, y->var, d->pitch);
    nest_add_term(&to, x->var, 1);
    Te *element[4];
    for (int i = 0; i < channels->size; i++) {
        NestLinear from = linear_times(&channels->from, c->y.in * c->x.in);
        from.c += i * c->y.in * c->x.in;
        nest_add_term(&from, group->var, c->ic * c->y.in * c->x.in);
        nest_add_term(&from, y->var, c->x.in);
        nest_add_term(&from, x->var, 1);
        element[i] = nest_load(n, c->data, nest_position(n, &from));
    }
    Te *word = words_pack(&n->te, w, element, (int)channels->size, true);
    nest_append(n, x, nest_store(n, d->buffer, nest_position(n, &to), word));
    sched_map(s, channels->in ? channels->in : group);
}

/* Elements, of which a multiple is apart in memory what is read in one turn after the other. */
#define PLANE_CROWDED 256

ConvData lay_out_data(Sched *s, const Conv *c, const Words *w, int64_t turns, int64_t room)
{
    ConvData d = {c->data, c->x.in, c->y.in * c->x.in};
    if (!has_border(&c->y) && !has_border(&c->x) && w->each == 1)
        return d;
    int64_t height = extent_of(&c->y), planes = c->n * c->groups * turns;
    d.pitch = extent_of(&c->x);
    /* Planes whose elements would lie in few sets of the first cache; one that is gone over as one row has no gaps. */
    bool one_row = conv_is_one_row(c);
    while (!one_row && height * d.pitch % PLANE_CROWDED == 0)
        d.pitch++;
    d.plane = height * d.pitch;
    d.plane += one_row && d.plane % PLANE_CROWDED == 0;
    d.buffer = scratch_of(s->n, "bordered", words_dtype(w, c->of_data), planes * d.plane + room);
    zero_border(s, d.buffer, (Bordered){planes, 1, height, d.pitch, &c->y, &c->x, words_zero(w)});
    Piece channels[2];
    int count = pieces_of(s->n, NULL, "c", c->ic, w->each, channels);
    for (int i = 0; i < count; i++)
        copy_words(s, c, w, turns, &d, &channels[i]);
    return d;
}

/* ---- the sums ------------------------------------------------------------------------------------------------------------ */

/* Where the code of some results goes: their image, group of channels, row, and vectors of channels; and what they read. */
typedef struct Results {
    NestNode *in;
    NestLinear image, group, row, block;
    int64_t vectors;
    Taps taps;
} Results;

static void add_tile(const Direct *d, const Results *r, const Piece *chunk, const Piece *tile)
{
    const Conv *c = d->c;
    Nest *n = d->s->n;
    int64_t lanes = d->s->lanes, taps = c->y.taps * c->x.taps;
    int64_t a_tap = c->y.dilation * d->data.pitch, b_tap = c->x.taps * d->turns * lanes;
    NestNode *home = unrolled_in(n, tile->in, "i", 1);
    Tile t = {.rows = tile->size,
              .vectors = r->vectors,
              .lanes = (int)lanes,
              .a = d->data.buffer,
              .b = d->weights,
              .words = d->words,
              .start = d->start,
              .a_row = c->x.stride,
              .b_vector = d->turns * taps * lanes,
              .n_axes = 3,
              .axis = {{r->taps.count, a_tap, b_tap},
                       {c->x.taps, c->x.dilation, d->turns * lanes},
                       {d->turns, d->data.plane, lanes}}};
    linear_add(&t.start_at, &r->group, d->blocks * lanes);
    linear_add(&t.start_at, &r->block, lanes);
    linear_add(&t.a_at, &r->image, c->groups * d->turns * d->data.plane);
    linear_add(&t.a_at, &r->group, d->turns * d->data.plane);
    linear_add(&t.a_at, &r->row, c->y.stride * d->data.pitch);
    linear_add(&t.a_at, &chunk->from, c->x.stride);
    linear_add(&t.a_at, &tile->from, c->x.stride);
    linear_add(&t.b_at, &r->group, d->blocks * t.b_vector);
    linear_add(&t.b_at, &r->block, t.b_vector);
    t.a_at.c += r->taps.first * a_tap;
    t.b_at.c += r->taps.first * b_tap;
    int acc = tile_in(n, home, &t);
    NestLinear to = linear_times(&tile->from, lanes);
    store_tile(n, home, &t, acc, d->results, &to, lanes, d->chunk * lanes);
}

/* Vectors of channels from `first` of the results on, at `in`: `channels` of each count. */
static void store_vectors(const Direct *d, const Results *r, const Piece *chunk, NestNode *in,
                          const NestLinear *first, int64_t channels)
{
    int64_t lanes = d->s->lanes;
    Turned from = {.buffer = d->results,
                   .channels = channels,
                   .n = r->image,
                   .y = r->row,
                   .x = chunk->from,
                   .rows = 1,
                   .columns = chunk->size};
    from.channel = linear_times(&r->block, lanes);
    linear_add(&from.channel, &r->group, d->c->oc);
    linear_add(&from.channel, first, lanes);
    linear_add(&from.at, first, d->chunk * lanes);
    store_turned(d->s, in, d->c, d->tail, &from);
}

static void store_results(const Direct *d, const Results *r, const Piece *chunk)
{
    int64_t lanes = d->s->lanes, rest = d->c->oc % lanes;
    /* The vector of all channels that there are stands last. */
    bool last = rest && r->block.n == 0 && r->block.c + r->vectors == d->blocks;
    Piece whole[2];
    int count = pieces_of(d->s->n, chunk->in, "o", r->vectors - last, 1, whole);
    for (int i = 0; i < count; i++)
        store_vectors(d, r, chunk, whole[i].in, &whole[i].from, lanes);
    NestLinear end = {.c = r->vectors - 1};
    if (last)
        store_vectors(d, r, chunk, chunk->in, &end, rest);
}

static void add_results(const Direct *d, const Results *r)
{
    Nest *n = d->s->n;
    Piece chunks[2], tiles[2];
    int n_chunks = pieces_of(n, r->in, "x", d->columns, d->chunk, chunks);
    for (int i = 0; i < n_chunks; i++) {
        Direct here = *d;
        NestBuffer b = {.name = "results",
                        .dtype = d->dtype,
                        .place = NEST_LOCAL,
                        .size = r->vectors * d->chunk * d->s->lanes,
                        .home = chunks[i].in};
        here.results = nest_buffer(n, b);
        int n_tiles = pieces_of(n, chunks[i].in, "x", chunks[i].size, d->height, tiles);
        for (int k = 0; k < n_tiles; k++)
            add_tile(&here, r, &chunks[i], &tiles[k]);
        store_results(&here, r, &chunks[i]);
    }
}

/* ---- all of it -------------------------------------------------------------------------------------------------------------- */

/* Bytes of weights up to which all of them are gone through for each row. */
#define WEIGHTS_FEW ((int64_t)256 << 10)
/* Results of a plane that are stored at once: a multiple of all vectors and of most tiles. */
#define CHUNK_OF_PLANE 112

/* Of a group. */
static int64_t weights_bytes(const Direct *d)
{
    return d->blocks * d->s->lanes * d->turns * d->c->y.taps * d->c->x.taps * 4;
}

/* Parts of a plane, equal where they can be. */
static int64_t chunk_of(int64_t columns)
{
    int64_t parts = (columns + CHUNK_OF_PLANE - 1) / CHUNK_OF_PLANE;
    return columns % parts == 0 ? columns / parts : CHUNK_OF_PLANE;
}

/* So many vectors of channels, those of a tile after the other, row by row or for all rows. */
static void add_rows(const Direct *d, const Results *r, NestNode *in, int64_t blocks, bool by_rows)
{
    const Conv *c = d->c;
    Nest *n = d->s->n;
    Results here = *r;
    if (!by_rows && blocks > r->vectors) {
        in = loop_in(n, in, "o", blocks / r->vectors);
        nest_add_term(&here.block, in->var, r->vectors);
    }
    int64_t rows = d->rows;
    for (int64_t y = 0; y < d->rows; y += rows) {
        Results some = here;
        some.taps = (Taps){0, c->y.taps};
        if (d->skips)
            rows = conv_rows_alike(&c->y, y, &some.taps);
        some.in = loop_in(n, in, "y", rows);
        some.row.c += y;
        nest_add_term(&some.row, some.in->var, 1);
        if (by_rows && blocks > r->vectors) {
            some.in = loop_in(n, some.in, "o", blocks / r->vectors);
            nest_add_term(&some.block, some.in->var, r->vectors);
        }
        add_results(d, &some);
    }
}

static void add_parts(const Direct *d)
{
    const Conv *c = d->c;
    Nest *n = d->s->n;
    /* What has a vector that is not full stands behind the rest. */
    int64_t whole = d->blocks - (c->oc % d->s->lanes != 0);
    int64_t extents[2] = {whole / d->vectors * d->vectors, d->blocks};
    int64_t from = 0;
    for (int part = 0; part < 2; part++) {
        int64_t blocks = extents[part] - from, vectors = part ? blocks : d->vectors;
        if (blocks == 0)
            continue;
        Results r = {.vectors = vectors, .block = {.c = from}};
        NestNode *outer = images_in(n, c, &r.image);
        if (c->groups > 1) {
            outer = loop_in(n, outer, "g", c->groups);
            nest_add_term(&r.group, outer->var, 1);
        }
        add_rows(d, &r, outer, blocks, weights_bytes(d) <= WEIGHTS_FEW);
        from = extents[part];
    }
}

/* Products of a result, of which the others are sums over copies (window.c): of few their storing decides. Results of such sums whose
 * windows are several columns wide, each beside the one before, have gaps in their rows and are moved once more, which whole vectors of
 * channels need not be. */
#define SUMS_LEAST 16
#define SUMS_LEAST_WHOLE 9

bool direct_fits(const Sched *s, int stage)
{
    Conv c;
    if (!conv_of(s->p, stage, &c) || c.out_block != 1 || !sched_is_known(s, c.weight))
        return false;
    bool whole = c.oc % s->lanes == 0 && c.x.taps > 1 && c.x.stride == 1;
    int64_t sums = c.ic * c.y.taps * c.x.taps;
    return c.oc >= s->lanes / 2 && sums >= (whole ? SUMS_LEAST_WHOLE : SUMS_LEAST);
}

double direct_cost(const Sched *s, int stage)
{
    Conv c;
    Words words;
    conv_of(s->p, stage, &c);
    words_of(s->m->dots, c.dtype, c.of_data, c.of_weight, &words);
    int64_t blocks = (c.oc + s->lanes - 1) / s->lanes, turns = words_along(&words, c.ic);
    int64_t planes = c.n * c.groups, rows = conv_is_one_row(&c) ? 1 : c.y.out;
    int64_t columns = c.y.out / rows * c.x.out, sums = turns * c.y.taps * c.x.taps;
    double turned = 10.0 * (double)(planes * c.y.out * c.x.out * blocks);
    int64_t taps = words.flips ? c.y.out * c.y.taps : conv_taps_read(&c);
    double turns_all = (double)(planes * rows * sums * taps) / (double)(c.y.out * c.y.taps);
    return turns_all * tile_cost(s->m, columns, blocks) + turned +
           SCHED_BYTE_COST * 4 * (double)c.groups *
               (double)(sums * blocks * s->lanes + c.n * turns * c.y.in * c.x.in);
}

void direct_build(Sched *s, int stage, const Tail *tail)
{
    Conv image, *c = &image;
    conv_of(s->p, stage, c);
    Direct d = {.s = s, .c = c, .tail = tail, .rows = c->y.out, .columns = c->x.out};
    d.dtype = c->dtype;
    words_of(s->m->dots, c->dtype, c->of_data, c->of_weight, &d.words);
    d.turns = words_along(&d.words, c->ic);
    d.blocks = (c->oc + s->lanes - 1) / s->lanes;
    d.data = lay_out_data(s, c, &d.words, d.turns, 0);
    if (c->rank == 4 && conv_is_one_row(c) &&
        (tail->stage < 0 || tail_axis(s, tail->stage, 2, 3) == 3)) {
        d.columns *= d.rows;
        d.rows = 1;
    }
    d.chunk = chunk_of(d.columns);
    d.skips = !d.words.flips && conv_taps_read(c) < c->y.out * c->y.taps;
    int64_t times = d.rows * ((d.columns + d.chunk - 1) / d.chunk);
    tile_size(s->m, d.chunk, d.blocks, weights_bytes(&d), times, &d.height, &d.vectors);
    if (pack_weights(&d))
        add_parts(&d);
}
