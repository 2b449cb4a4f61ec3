/* Sums of products along several axes that do not run on into each other, in register tiles: of one operand each element for itself, of the
 * other vectors as they lie. So are gradients by the weight of a convolution, over images, rows and places in a row, where window.c has put
 * channels last: a vector of channels, or of windows beside each other, slides over the data; and convolutions over planes with a border, whose
 * rows run on into each other. */
#include "sched/conv.h"

typedef struct Axis {
    int64_t extent, a, b, c; /* how far apart its elements lie in both operands and in the result */
} Axis;

typedef struct Slid {
    Sched *s;
    int stage, a, b; /* of the operands, the buffers */
    int64_t a_from, b_from;
    Axis rows, columns;
    int n_outer, n_sum; /* outermost first */
    Axis outer[TENSOR_RANK_MOST], sum[TILE_AXES_MOST];
    int64_t turns; /* of the sum */
    int64_t height, vectors; /* of a tile */
    int64_t chunks; /* parts of the outermost sum, each over all tiles, whose operands stay near */
} Slid;

/* Whether the axis runs on into the one that is the first behind it. */
static bool joins(const Axis *first, const Axis *axis)
{
    return axis->a == first->a * first->extent && axis->b == first->b * first->extent &&
           axis->c == first->c * first->extent;
}

/* Puts an axis in front of the others; false: there are too many. */
static bool add_sum(Slid *d, const Axis *axis)
{
    if (d->n_sum && joins(&d->sum[0], axis)) {
        d->sum[0].extent *= axis->extent;
        return true;
    }
    if (d->n_sum == TILE_AXES_MOST)
        return false;
    for (int i = d->n_sum++; i > 0; i--)
        d->sum[i] = d->sum[i - 1];
    d->sum[0] = *axis;
    return true;
}

static void add_space(Slid *d, const Axis *axis)
{
    if (d->columns.extent == 0)
        d->columns = *axis;
    else if (axis->a == 0 && d->n_outer == 0 && joins(&d->columns, axis))
        d->columns.extent *= axis->extent;
    else if (axis->b == 0 && d->rows.extent == 0)
        d->rows = *axis;
    else
        d->outer[d->n_outer++] = *axis;
}

static bool slid_of(const Sched *s, int stage, Slid *d)
{
    const TeStage *t = &s->p->stages[stage];
    TeContraction c;
    NestProduct q;
    int64_t step = 1;
    *d = (Slid){.stage = stage, .turns = 1};
    if (!is_float32(t->dtype) || t->rank < 2 || !te_contraction(s->p, stage, &c) || c.a.padded ||
        c.b.padded || !is_float32(product_dtype(s->p, c.a.tensor)) ||
        !is_float32(product_dtype(s->p, c.b.tensor)) || product_sides(s->p, stage, &q, NULL))
        return false;
    bool turned = c.a.stride[t->rank - 1] != 0;
    const TeAffine *a = turned ? &c.b : &c.a, *b = turned ? &c.a : &c.b;
    d->a = a->tensor;
    d->b = b->tensor;
    d->a_from = a->offset;
    d->b_from = b->offset;
    for (int i = t->rank + t->n_reduced - 1; i >= 0; i--) {
        bool reduced = i >= t->rank;
        Axis axis = {reduced ? t->reduced[i - t->rank] : t->shape[i], a->stride[i], b->stride[i],
                     reduced ? 0 : step};
        step *= reduced ? 1 : axis.extent;
        if (axis.extent == 1)
            continue;
        d->turns *= reduced ? axis.extent : 1;
        if (!reduced)
            add_space(d, &axis);
        else if (!add_sum(d, &axis))
            return false;
    }
    return d->columns.a == 0 && d->columns.b == 1 && d->columns.c == 1 && d->n_sum > 0;
}

bool slid_fits(const Sched *s, int stage)
{
    Slid d;
    return slid_of(s, stage, &d) && d.columns.extent >= s->lanes / 2 &&
           d.rows.extent >= SLID_ROWS_LEAST && d.turns >= SLID_TURNS_LEAST;
}

double slid_cost(const Sched *s, int stage)
{
    Slid d;
    slid_of(s, stage, &d);
    double outer = 1;
    for (int i = 0; i < d.n_outer; i++)
        outer *= (double)d.outer[i].extent;
    int64_t blocks = (d.columns.extent + s->lanes - 1) / s->lanes;
    double bytes = 4 * (double)((d.rows.extent + d.columns.extent) * d.turns);
    return outer *
           ((double)d.turns * tile_cost(s->m, d.rows.extent, blocks) + SCHED_BYTE_COST * bytes);
}

/* ---- the nest ---------------------------------------------------------------------------------------------------------- */

/* Where code goes, and where it begins in both operands and in the result. */
typedef struct Site {
    NestNode *in;
    NestLinear a, b, c;
} Site;

static void step_along(Site *at, const NestLinear *by, const Axis *axis)
{
    linear_add(&at->a, by, axis->a);
    linear_add(&at->b, by, axis->b);
    linear_add(&at->c, by, axis->c);
}

static void step_in(Nest *n, Site *at, const char *name, int64_t extent, const Axis *axis)
{
    NestLinear by = {0};
    at->in = loop_in(n, at->in, name, extent);
    nest_add_term(&by, at->in->var, 1);
    step_along(at, &by, axis);
}

static void add_tile(const Slid *d, const Site *at, int64_t rows, int64_t vectors, int64_t columns)
{
    Nest *n = d->s->n;
    int64_t lanes = d->s->lanes;
    NestNode *home = unrolled_in(n, at->in, "i", 1);
    Tile t = {.rows = rows,
              .vectors = vectors,
              .lanes = (int)lanes,
              .a = d->a,
              .b = d->b,
              .a_at = at->a,
              .b_at = at->b,
              .a_row = d->rows.a,
              .b_vector = lanes,
              .width = columns < lanes ? (int)columns : 0,
              .n_axes = d->n_sum};
    words_of(false, d->s->p->stages[d->stage].dtype, product_dtype(d->s->p, d->a),
             product_dtype(d->s->p, d->b), &t.words);
    for (int i = 0; i < d->n_sum; i++) {
        t.axis[i].extent = d->sum[i].extent / (i == 0 ? d->chunks : 1);
        t.axis[i].a = d->sum[i].a;
        t.axis[i].b = d->sum[i].b;
    }
    int acc = tile_in(n, home, &t), out = d->s->p->n_inputs + d->stage;
    for (int64_t v = 0; v < vectors; v++) {
        int64_t size = columns - v * lanes < lanes ? columns - v * lanes : lanes;
        NestNode *i = unrolled_in(n, home, "i", rows), *lane = vector_in(n, i, size, (int)lanes);
        NestLinear from = {.c = v * lanes}, to = at->c;
        to.c += v * lanes;
        nest_add_term(&from, i->var, vectors * lanes);
        nest_add_term(&from, lane->var, 1);
        nest_add_term(&to, i->var, d->rows.c);
        nest_add_term(&to, lane->var, 1);
        Te *value = nest_load(n, acc, nest_position(n, &from)), *place = nest_position(n, &to);
        nest_append(n, lane,
                    d->chunks > 1 ? nest_fold(n, TE_SUM, out, place, value)
                                  : nest_store(n, out, place, value));
    }
}

static void add_rows(const Slid *d, Site at, int64_t rows, int64_t vectors, int64_t columns)
{
    Piece tiles[2];
    int count = pieces_of(d->s->n, at.in, "i", rows, d->height, tiles);
    for (int i = 0; i < count; i++) {
        Site here = at;
        here.in = tiles[i].in;
        step_along(&here, &tiles[i].from, &d->rows);
        add_tile(d, &here, tiles[i].size, vectors, columns);
    }
}

/* All columns of some rows: whole tiles, whole vectors, and a part of one, which reads nothing behind it. */
static void add_columns(const Slid *d, const Site *at, int64_t rows)
{
    int64_t lanes = d->s->lanes, columns = d->columns.extent, vectors = d->vectors;
    for (int64_t from = 0; from < columns;) {
        int64_t left = columns - from;
        vectors = left / lanes < vectors ? left / lanes : vectors;
        int64_t size = vectors ? vectors * lanes : left, turns = left / size;
        Site here = *at;
        step_along(&here, &(NestLinear){.c = from}, &d->columns);
        Axis group = {turns, 0, size, size};
        step_in(d->s->n, &here, "o", turns, &group);
        add_rows(d, here, rows, vectors ? vectors : 1, size);
        from += turns * size;
    }
}

static void zero_result(const Slid *d)
{
    Nest *n = d->s->n;
    int out = d->s->p->n_inputs + d->stage;
    NestNode *loop = loop_in(n, NULL, "z", n->buffers.at[out].size);
    NestLinear at = {0};
    nest_add_term(&at, loop->var, 1);
    nest_append(
        n, loop,
        nest_store(n, out, nest_position(n, &at), te_number(&n->te, n->buffers.at[out].dtype, 0)));
    sched_map(d->s, loop);
}

/* Bytes of both operands that stay near while all tiles go over them, and tiles of rows that a thread goes over at a time. */
#define NEAR_BYTES 786432.0
#define TILES_EACH 4

static int64_t chunks_of(const Slid *d)
{
    int64_t first = d->sum[0].extent, parts = 1, rows = TILES_EACH * d->height;
    /* Of an element of the outermost sum: what lies between it and the next, or what a group of tiles reads, if that is less. */
    double step = (double)(d->sum[0].a + d->sum[0].b);
    rows = rows < d->rows.extent ? rows : d->rows.extent;
    double read = (double)(d->turns / first) * (double)(rows + d->vectors * d->s->lanes);
    step = 4 * (read < step ? read : step);
    while (parts < first && (first % parts || step * (double)(first / parts) > NEAR_BYTES))
        parts++;
    return parts;
}

void slid_build(Sched *s, int stage, const Tail *tail)
{
    Slid d;
    Piece rows[2];
    (void)tail;
    slid_of(s, stage, &d);
    d.s = s;
    tile_size(s->m, d.rows.extent, (d.columns.extent + s->lanes - 1) / s->lanes, 0, 1, &d.height,
              &d.vectors);
    d.chunks = chunks_of(&d);
    if (d.chunks > 1)
        zero_result(&d);
    Site at = {.a = {.c = d.a_from}, .b = {.c = d.b_from}};
    for (int i = d.n_outer; i-- > 0;)
        step_in(s->n, &at, "k", d.outer[i].extent, &d.outer[i]);
    int count = pieces_of(s->n, at.in, "i", d.rows.extent, TILES_EACH * d.height, rows);
    for (int i = 0; i < count; i++) {
        Site here = at;
        here.in = rows[i].in;
        step_along(&here, &rows[i].from, &d.rows);
        Axis part = {d.chunks, d.sum[0].a * (d.sum[0].extent / d.chunks),
                     d.sum[0].b * (d.sum[0].extent / d.chunks), 0};
        if (d.chunks > 1)
            step_in(s->n, &here, "n", d.chunks, &part);
        add_columns(&d, &here, rows[i].size);
    }
}
