/* Convolutions and pools of each channel on its own, over channels that lie in blocks of a vector: each vector of results is a sum over
 * vectors of the data. Some results of a row at a time stand in registers. Where windows reach over the border their code is without
 * what lies outside, so that nothing is copied. */
#include "sched/conv.h"

#include <math.h>

/* Results of a row in registers: enough for sums not to wait for each other, and few, for each border has code of its own. */
#define COLUMNS_MOST 8

typedef struct Channels {
    Sched *s;
    const Conv *c;
    const Tail *tail;
    NestLinear image, block;
} Channels;

/* Results along an axis whose windows have the same taps inside of the data: [first, first + size), taps [from, to). */
typedef struct Run {
    int64_t first, size, from, to;
} Run;

static bool is_inside(const ConvAxis *a, int64_t out, int64_t tap)
{
    int64_t at = out * a->stride + tap * a->dilation - a->before;
    return at >= 0 && at < a->in;
}

static Run taps_at(const ConvAxis *a, int64_t out)
{
    Run r = {.first = out, .size = 1};
    while (r.from < a->taps && !is_inside(a, out, r.from))
        r.from++;
    for (r.to = r.from; r.to < a->taps && is_inside(a, out, r.to);)
        r.to++;
    return r;
}

/* The run that begins at a row. */
static Run run_at(const ConvAxis *a, int64_t first)
{
    Run r = taps_at(a, first);
    for (; first + r.size < a->out; r.size++) {
        Run next = taps_at(a, first + r.size);
        if (next.from != r.from || next.to != r.to)
            break;
    }
    return r;
}

/* ---- sums ---------------------------------------------------------------------------------------------------------------- */

/* Results of a row that stand side by side, from column `x`, `size` of them. Where `at` is the loop over such, all of their windows lie
 * inside; else `x.c` says which columns they are. */
typedef struct Columns {
    NestNode *in;
    NestLinear y, x;
    int64_t size;
    bool inside;
} Columns;

static Te *register_of(const Channels *d, int64_t i, const NestNode *lane)
{
    NestLinear l = {.c = i * d->s->lanes};
    nest_add_term(&l, lane->var, 1);
    return nest_position(d->s->n, &l);
}

/* What row `tap` of the windows gives. */
static void add_row(const Channels *d, NestNode *lane, int acc, const Columns *q, NestLinear tap)
{
    const ConvAxis *x = &d->c->x, *y = &d->c->y;
    Nest *n = d->s->n;
    int64_t lanes = d->s->lanes, last = (q->size - 1) * x->stride + (x->taps - 1) * x->dilation;
    for (int64_t in = 0; in <= last; in++) {
        NestLinear at = {.c = (in - x->before) * lanes - y->before * x->in * lanes};
        linear_add(&at, &d->image, d->c->groups * y->in * x->in);
        linear_add(&at, &d->block, y->in * x->in * lanes);
        linear_add(&at, &q->y, y->stride * x->in * lanes);
        linear_add(&at, &tap, y->dilation * x->in * lanes);
        linear_add(&at, &q->x, x->stride * lanes);
        nest_add_term(&at, lane->var, 1);
        Te *v = nest_load(n, d->c->data, nest_position(n, &at));
        for (int64_t i = 0; i < q->size; i++) {
            int64_t far = in - i * x->stride, k = far / x->dilation;
            if (far < 0 || far % x->dilation || k >= x->taps ||
                (!q->inside && !is_inside(x, q->x.c + i, k)))
                continue;
            Te *value = v;
            if (d->c->weight >= 0) {
                NestLinear w = {.c = k * lanes};
                linear_add(&w, &d->block, y->taps * x->taps * lanes);
                linear_add(&w, &tap, x->taps * lanes);
                nest_add_term(&w, lane->var, 1);
                value =
                    te_binary(&n->te, TE_MUL, v, nest_load(n, d->c->weight, nest_position(n, &w)));
            }
            nest_append(n, lane, nest_fold(n, d->c->fold, acc, register_of(d, i, lane), value));
        }
    }
}

static void add_columns(const Channels *d, const Columns *q, const Run *rows)
{
    Nest *n = d->s->n;
    int lanes = d->s->lanes;
    NestNode *home = unrolled_in(n, q->in, "i", 1), *lane = vector_in(n, home, lanes, lanes);
    NestBuffer b = {.name = "acc",
                    .dtype = d->c->dtype,
                    .place = NEST_REGISTER,
                    .size = q->size * lanes,
                    .home = home};
    int acc = nest_buffer(n, b);
    for (int64_t i = 0; i < q->size; i++)
        nest_append(
            n, lane,
            nest_store(n, acc, register_of(d, i, lane), nest_start_of(n, d->c->fold, d->c->dtype)));
    if (rows->to > rows->from) {
        NestNode *tap = loop_in(n, home, "k", rows->to - rows->from);
        NestLinear k = {.c = rows->from};
        nest_add_term(&k, tap->var, 1);
        add_row(d, vector_in(n, tap, lanes, lanes), acc, q, k);
        lane = vector_in(n, home, lanes, lanes);
    }
    for (int64_t i = 0; i < q->size; i++) {
        NestLinear at[CONV_AXES] = {d->image, d->block, q->y, q->x};
        at[3].c += i;
        nest_add_term(&at[4], lane->var, 1);
        Te *sum = nest_load(n, acc, register_of(d, i, lane));
        nest_append(n, lane, store_result(d->s, d->c, d->tail, at, sum));
    }
}

/* ---- all of it -------------------------------------------------------------------------------------------------------------- */

static bool all_inside(const ConvAxis *x, int64_t first, int64_t size)
{
    Run a = taps_at(x, first), b = taps_at(x, first + size - 1);
    return a.to - a.from == x->taps && b.to - b.from == x->taps;
}

/* The rows of a run, or a part of them. */
static void add_rows(const Channels *d, const Run *rows, const Piece *part)
{
    const ConvAxis *x = &d->c->x;
    int64_t parts = (x->out + COLUMNS_MOST - 1) / COLUMNS_MOST, size = (x->out + parts - 1) / parts;
    NestNode *apart = unrolled_in(d->s->n, part->in, "i", 1);
    Columns q = {.in = loop_in(d->s->n, apart, "y", part->size), .y = part->from};
    apart->apart = true; /* rows with other taps differ in how often loops turn */
    q.y.c += rows->first;
    nest_add_term(&q.y, q.in->var, 1);
    for (int64_t at = 0; at < x->out;) {
        int64_t left = x->out - at, turns = 0;
        while (left - turns * size >= size && all_inside(x, at + turns * size, size))
            turns++;
        Columns here = q;
        here.inside = turns > 0;
        here.size = turns || left >= size ? size : left;
        here.x.c = at;
        if (turns > 1) {
            here.in = loop_in(d->s->n, q.in, "x", turns);
            nest_add_term(&here.x, here.in->var, size);
        }
        add_columns(d, &here, rows);
        at += (turns > 1 ? turns : 1) * here.size;
    }
}

/* Parts of the rows for each thread, of some at least: what is read around them is read again. */
enum { PARTS_EACH = 8, ROWS_LEAST = 3 };

static int64_t rows_at_once(const Channels *d, int64_t rows)
{
    int64_t each = d->c->y.out / (d->s->m->threads * PARTS_EACH);
    if (!conv_by_rows(d->s->m, d->c))
        return rows;
    return each < ROWS_LEAST ? ROWS_LEAST : each;
}

static void add_run(const Channels *d, NestNode *in, const Run *rows)
{
    Piece parts[2];
    int64_t at_once = rows_at_once(d, rows->size);
    int count = pieces_of(d->s->n, in, "y", rows->size, at_once, parts);
    in->across |= at_once < rows->size;
    for (int i = 0; i < count; i++)
        add_rows(d, rows, &parts[i]);
}

static bool channels_of(const TeProgram *p, int stage, Conv *out)
{
    return conv_of(p, stage, out) ? out->groups > 1 && out->ic == 1 && out->oc == 1
                                  : pool_of(p, stage, out);
}

/* Places outside of the data count as nothing. */
static bool starts_outside(const Conv *c)
{
    double most = -(double)INFINITY, v = c->outside ? value_as_double(c->outside->value) : 0;
    return !c->outside ||
           (c->fold == TE_SUM ? v == 0 : v == (c->fold == TE_REDUCE_MAX ? most : -most));
}

/* Code is for a few runs of rows, and columns with few taps. */
#define RUNS_MOST 9
#define TAPS_MOST 8

static bool is_short(const Conv *c)
{
    int runs = 0;
    for (int64_t y = 0; y < c->y.out && runs <= RUNS_MOST; runs++)
        y += run_at(&c->y, y).size;
    return runs <= RUNS_MOST && c->x.taps <= TAPS_MOST && c->x.stride <= TAPS_MOST;
}

bool channels_fits(const Sched *s, int stage)
{
    Conv c;
    return channels_of(s->p, stage, &c) && c.out_block == s->lanes && starts_outside(&c) &&
           (c.weight < 0 || c.packed) && is_short(&c);
}

static double cost_of(const Sched *s, const Conv *c)
{
    return 1.2 *
           (double)(c->n * c->groups / s->lanes * c->y.out * c->x.out * c->y.taps * c->x.taps);
}

double channels_cost(const Sched *s, int stage)
{
    Conv c;
    channels_of(s->p, stage, &c);
    return cost_of(s, &c);
}

double channels_elsewhere(const Sched *s, int stage, SchedLayout *out)
{
    Conv c;
    bool ok = conv_of(s->p, stage, &c) && c.rank == 4 && c.ic == 1 && c.oc == 1 &&
              is_float32(c.of_data) && is_float32(c.dtype) && c.groups % s->lanes == 0 &&
              is_short(&c);
    *out = (SchedLayout){s->lanes, s->lanes, true};
    return ok ? cost_of(s, &c) : -1;
}

void channels_build(Sched *s, int stage, const Tail *tail)
{
    Conv image, *c = &image;
    channels_of(s->p, stage, c);
    Channels d = {.s = s, .c = c, .tail = tail};
    NestNode *block = loop_in(s->n, images_in(s->n, c, &d.image), "c", c->groups / s->lanes);
    nest_add_term(&d.block, block->var, 1);
    for (int64_t y = 0; y < c->y.out;) {
        Run rows = run_at(&c->y, y);
        add_run(&d, block, &rows);
        y += rows.size;
    }
}
