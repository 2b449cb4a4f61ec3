/* What the ways to compute convolutions share: which stage is one, blocks of extents, register tiles, and the store of turned rows. */
#include "sched/conv.h"

#include "base/number.h"
#include "te/walk.h"

/* ---- which stage is one -------------------------------------------------------------------------------------------------- */

static int64_t extent_of(const TeStage *s, int axis)
{
    return axis < s->rank ? s->shape[axis] : s->reduced[axis - s->rank];
}

/* The axes of a convolution's stage: one with groups has the channels of a group on their own. */
typedef struct ConvAxes {
    int n, group, oc, y, x, ic, tap_y, tap_x; /* group: -1 where there are none */
} ConvAxes;

/* Whether the index is by[0] * axes[0] + by[1] * axes[1] + c, for axes with more than one value. */
static bool index_of(const TeStage *s, const Te *index, const int *axes, int64_t *by, int64_t *c)
{
    NestLinear l;
    bool is = nest_linear(index, &l);
    *c = l.c;
    by[0] = by[1] = 0;
    for (int i = 0; i < l.n; i++) {
        int k = 0;
        while (k < 2 && axes[k] != l.term[i].var)
            k++;
        if (k < 2)
            by[k] = l.term[i].by;
        else
            is &= extent_of(s, l.term[i].var) == 1;
    }
    return is;
}

/* Whether the index is outer * (extent of inner) + inner. */
static bool is_channel(const TeStage *s, const Te *index, int outer, int inner)
{
    int axes[2] = {inner, outer};
    int64_t by[2], c, extent = extent_of(s, inner);
    return index_of(s, index, axes, by, &c) && c == 0 && (by[0] == 1 || extent == 1) &&
           (outer < 0 || by[1] == extent || extent_of(s, outer) == 1);
}

static bool axis_of(const TeStage *s, const Te *index, int64_t in, int space, int tap,
                    ConvAxis *out)
{
    int axes[2] = {space, tap};
    int64_t by[2], c;
    if (!index_of(s, index, axes, by, &c) || by[0] < 0 || by[1] < 0 || c > 0)
        return false;
    *out = (ConvAxis){in, extent_of(s, space), extent_of(s, tap), by[0], by[1], -c};
    /* What an axis of one value steps by is not known. */
    out->stride = out->out == 1 ? 1 : out->stride;
    out->dilation = out->taps == 1 ? 1 : out->dilation;
    return out->stride > 0 && out->dilation > 0;
}

static TeTensor tensor_of(const TeProgram *p, int id)
{
    if (id < p->n_inputs)
        return p->inputs[id];
    const TeStage *s = &p->stages[id - p->n_inputs];
    return (TeTensor){.id = id, .dtype = s->dtype, .rank = s->rank, .shape = s->shape};
}

/* A row is an image of one row. */
static const ConvAxis one_row = {1, 1, 1, 1, 1, 0};

bool is_float32(DType t)
{
    return t.code == DTYPE_CODE_FLOAT && t.bits == 32;
}

/* Whether the elements lie in the order of these axes, outermost first, without gaps; axes below 0 there are none. */
static bool lies_as(const TeProgram *p, const TeStage *s, const TeAffine *w, int n,
                    const int *order)
{
    TeTensor t = tensor_of(p, w->tensor);
    int64_t step = 1, size;
    while (n-- > 0) {
        int64_t extent = order[n] < 0 ? 1 : extent_of(s, order[n]);
        if (extent > 1 && w->stride[order[n]] != step)
            return false;
        step *= extent;
    }
    return w->offset == 0 && !w->padded && shape_size(t.rank, t.shape, &size) && size == step;
}

/* The axes of a convolution over so many of an image; false: the stage has others. */
static bool axes_of(const TeStage *s, int dims, ConvAxes *a)
{
    int grouped = s->rank == dims + 3, r = s->rank;
    if (dims < 1 || dims > 2 || s->rank != dims + 2 + grouped || s->n_reduced != dims + 1)
        return false;
    *a = (ConvAxes){.n = 0, .group = grouped ? 1 : -1, .oc = 1 + grouped, .x = r - 1, .ic = r};
    a->y = dims == 2 ? r - 2 : -1;
    a->tap_y = dims == 2 ? r + 1 : -1;
    a->tap_x = r + dims;
    return true;
}

/* The same over channels in blocks, the result's axes being [n, block, y, x, channel of the block]. */
static bool blocked_of(const TeProgram *p, int stage, const TeContraction *t, Conv *out)
{
    const TeStage *s = &p->stages[stage];
    const Te *x = t->a.load;
    TeTensor in = tensor_of(p, x->tensor), w = tensor_of(p, t->b.tensor);
    bool each = s->n_reduced == 2, blocks = x->n == 5;
    int tap_y = each ? 5 : 6, ic = each ? 1 : 5, lane = each ? 4 : 8;
    int of_in = each ? -1 : ic, of_lane = each || !blocks ? -1 : lane;
    const int packed[6] = {1, of_in, tap_y, tap_y + 1, of_lane, 4};
    const int plain[6] = {1, 4, of_in, of_lane, tap_y, tap_y + 1};
    if (s->rank != 5 || s->n_reduced != (each ? 2 : 3 + blocks) || (each && !blocks) ||
        !is_float32(s->dtype) || !is_float32(in.dtype) || !is_float32(w.dtype))
        return false;
    bool in_blocks = lies_as(p, s, &t->b, 6, packed);
    if (!in_blocks && !lies_as(p, s, &t->b, 6, plain))
        return false;
    *out = (Conv){.stage = stage, .data = in.id, .weight = w.id, .fold = TE_SUM, .rank = 4};
    out->dtype = out->of_data = out->of_weight = s->dtype;
    out->n = s->shape[0];
    out->out_block = s->shape[4];
    out->packed = in_blocks;
    out->in_block = blocks ? in.shape[4] : 1;
    out->groups = each ? s->shape[1] * s->shape[4] : 1;
    out->oc = each ? 1 : s->shape[1] * s->shape[4];
    out->ic = each ? 1 : in.shape[1] * out->in_block;
    /* Where the result's channels are in blocks of one, its planes are taken for plain ones, and so must the data's be. */
    return (out->out_block > 1 || out->in_block == 1) && is_channel(s, x->index[0], -1, 0) &&
           is_channel(s, x->index[1], -1, ic) &&
           (!blocks || is_channel(s, x->index[4], -1, lane)) && in.shape[0] == out->n &&
           in.shape[1] == extent_of(s, ic) && (!blocks || in.shape[4] == extent_of(s, lane)) &&
           axis_of(s, x->index[2], in.shape[2], 2, tap_y, &out->y) &&
           axis_of(s, x->index[3], in.shape[3], 3, tap_y + 1, &out->x);
}

/* Whether there is work, and so much that sums of bytes of it stay within 64 bits: no machine has the memory for more, and what costs
 * are made of need not look. */
static bool is_counted(const Conv *c)
{
    const int64_t factors[] = {c->n,     c->groups, c->oc,     c->ic,  c->y.out,
                               c->x.out, c->y.taps, c->x.taps, 1 << 10};
    int64_t all = 1;
    bool counted = true;
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        counted = counted && factors[i] > 0 && int64_mul(all, factors[i], &all);
    return counted;
}

bool conv_of(const TeProgram *p, int stage, Conv *out)
{
    const TeStage *s = &p->stages[stage];
    TeContraction t;
    ConvAxes a;
    Words words;
    if (!te_contraction(p, stage, &t))
        return false;
    if (blocked_of(p, stage, &t, out))
        return is_counted(out);
    if (!axes_of(s, t.a.load->n - 2, &a))
        return false;
    const Te *x = t.a.load;
    int last = x->n - 1;
    TeTensor in = tensor_of(p, x->tensor), w = tensor_of(p, t.b.tensor);
    const int weights[5] = {a.group, a.oc, a.ic, a.tap_y, a.tap_x};
    if (!words_of(false, s->dtype, in.dtype, w.dtype, &words) || !lies_as(p, s, &t.b, 5, weights))
        return false;
    *out = (Conv){.stage = stage, .data = in.id, .weight = w.id, .fold = TE_SUM};
    out->in_block = out->out_block = 1;
    out->rank = x->n;
    out->dtype = s->dtype;
    out->of_data = in.dtype;
    out->of_weight = w.dtype;
    out->n = s->shape[0];
    out->groups = a.group < 0 ? 1 : s->shape[a.group];
    out->oc = s->shape[a.oc];
    out->ic = s->reduced[0];
    out->y = one_row;
    bool ok = is_channel(s, x->index[0], -1, a.n) && is_channel(s, x->index[1], a.group, a.ic) &&
              in.shape[0] == out->n && in.shape[1] == out->ic * out->groups &&
              (a.y < 0 || axis_of(s, x->index[2], in.shape[2], a.y, a.tap_y, &out->y)) &&
              axis_of(s, x->index[last], in.shape[last], a.x, a.tap_x, &out->x);
    return ok && is_counted(out);
}

bool pool_of(const TeProgram *p, int stage, Conv *out)
{
    const TeStage *s = &p->stages[stage];
    const Te *x = s->body;
    bool folds = s->reduce == TE_SUM || s->reduce == TE_REDUCE_MAX || s->reduce == TE_REDUCE_MIN;
    int rank = s->rank;
    int axes = rank == 3 ? 1 : 2;
    if (!folds || rank < 3 || rank > 5 || s->n_reduced != axes || x->kind != TE_NODE_LOAD ||
        x->n != rank || !is_float32(s->dtype) || !is_float32(x->dtype) ||
        (x->otherwise && x->otherwise->kind != TE_NODE_CONST))
        return false;
    TeTensor in = tensor_of(p, x->tensor);
    *out = (Conv){.stage = stage, .data = in.id, .weight = -1, .fold = s->reduce};
    out->dtype = out->of_data = s->dtype;
    out->rank = rank == 3 ? 3 : 4;
    out->outside = x->otherwise;
    out->n = s->shape[0];
    out->in_block = out->out_block = rank == 5 ? s->shape[4] : 1;
    out->groups = s->shape[1] * out->out_block;
    out->ic = out->oc = 1;
    out->y = one_row;
    int last = rank == 3 ? 2 : 3;
    bool ok = is_channel(s, x->index[0], -1, 0) && is_channel(s, x->index[1], -1, 1) &&
              (rank < 5 || is_channel(s, x->index[4], -1, 4)) && in.shape[0] == out->n &&
              in.shape[1] == s->shape[1] && (rank < 5 || in.shape[4] == s->shape[4]) &&
              (rank == 3 || axis_of(s, x->index[2], in.shape[2], 2, rank, &out->y)) &&
              axis_of(s, x->index[last], in.shape[last], last, rank + axes - 1, &out->x);
    return ok && is_counted(out);
}

bool conv_is_one_row(const Conv *c)
{
    return c->y.taps * c->x.taps == 1 && c->y.stride == 1 && c->x.stride == 1 &&
           c->x.out == c->x.in && c->y.before == 0 && c->x.before == 0;
}

/* ---- linear positions ------------------------------------------------------------------------------------------------------ */

NestLinear linear_times(const NestLinear *l, int64_t by)
{
    NestLinear out = {0};
    linear_add(&out, l, by);
    return out;
}

void linear_add(NestLinear *to, const NestLinear *l, int64_t by)
{
    to->c += l->c * by;
    for (int i = 0; i < l->n; i++)
        nest_add_term(to, l->term[i].var, l->term[i].by * by);
}

NestLinear linear_over(const NestLinear *l, int64_t by)
{
    NestLinear out = *l;
    out.c /= by;
    for (int i = 0; i < out.n; i++)
        out.term[i].by /= by;
    return out;
}

#define ROWS_EACH 8

bool conv_by_rows(const Machine *m, const Conv *c)
{
    return m->threads > 1 && c->y.out >= (int64_t)m->threads * ROWS_EACH;
}

/* ---- loops ------------------------------------------------------------------------------------------------------------------ */

NestNode *loop_in(Nest *n, NestNode *parent, const char *name, int64_t extent)
{
    NestNode *loop = nest_loop(n, name, extent);
    nest_append(n, parent, loop);
    return loop;
}

NestNode *unrolled_in(Nest *n, NestNode *parent, const char *name, int64_t extent)
{
    NestNode *loop = loop_in(n, parent, name, extent);
    loop->way = NEST_UNROLLED;
    return loop;
}

NestNode *vector_in(Nest *n, NestNode *parent, int64_t extent, int lanes)
{
    NestNode *loop = loop_in(n, parent, "v", extent);
    loop->way = NEST_VECTOR;
    loop->lanes = lanes;
    return loop;
}

NestNode *images_in(Nest *n, const Conv *c, NestLinear *image)
{
    *image = (NestLinear){0};
    if (c->n == 1)
        return NULL;
    NestNode *loop = loop_in(n, NULL, "n", c->n);
    nest_add_term(image, loop->var, 1);
    return loop;
}

int pieces_of(Nest *n, NestNode *parent, const char *name, int64_t extent, int64_t block,
              Piece out[2])
{
    int count = 0;
    int64_t whole = extent / block, rest = extent % block;
    if (whole > 0) {
        Piece p = {.in = parent, .size = block};
        if (whole > 1) {
            p.in = loop_in(n, parent, name, whole);
            nest_add_term(&p.from, p.in->var, block);
        }
        out[count++] = p;
    }
    if (rest > 0)
        out[count++] = (Piece){.in = parent, .from = {.c = whole * block}, .size = rest};
    return count;
}

int scratch_of(Nest *n, const char *name, DType dtype, int64_t size)
{
    NestBuffer b = {.name = name, .dtype = dtype, .place = NEST_SCRATCH, .size = size, .rank = 1};
    int64_t *shape = arena_new(n->arena, int64_t);
    *shape = size;
    b.shape = shape;
    return nest_buffer(n, b);
}

/* ---- register tiles ------------------------------------------------------------------------------------------------------------ */

/* Multiply-adds of one turn of the innermost loop that runs, and of an axis that is straight code from end to end: more would only take
 * time to compile. */
#define TURN_CODE_MOST 48
#define AXIS_CODE_MOST 96
#define AXIS_TURNS_MOST 8

typedef struct Filling {
    Nest *n;
    const Tile *t;
    int acc;
    int64_t block; /* turns of the innermost axis that are straight code, at a time */
    int64_t ahead; /* bytes of the second operand (NestNode.ahead) */
} Filling;

static NestLinear place_in_tile(const Tile *t, NestNode *row, NestNode *vector, NestNode *lane)
{
    NestLinear l = {0};
    nest_add_term(&l, row->var, t->vectors * t->lanes);
    nest_add_term(&l, vector->var, t->lanes);
    nest_add_term(&l, lane->var, 1);
    return l;
}

typedef struct TileLoops {
    NestNode *row, *vector, *lane;
} TileLoops;

static TileLoops tile_loops(Nest *n, NestNode *parent, const Tile *t)
{
    TileLoops l;
    l.row = unrolled_in(n, parent, "i", t->rows);
    l.vector = unrolled_in(n, l.row, "j", t->vectors);
    l.lane = vector_in(n, l.vector, t->width ? t->width : t->lanes, t->lanes);
    return l;
}

#define LINE_BYTES 64

/* The rows of the next turn of the axis around the innermost one, where they lie in other lines than those of this turn: none of them would
 * come by itself, and the tile would wait for them all. */
static void near_rows(const Filling *f, NestNode *parent, NestLinear a)
{
    Nest *n = f->n;
    const Tile *t = f->t;
    int64_t size = (int64_t)dtype_size(n->buffers.at[t->a].dtype), row = t->a_row * size;
    int64_t each = row > 0 && row < LINE_BYTES ? LINE_BYTES / row : 1;
    int around = t->n_axes - 2;
    while (around >= 0 && t->axis[around].extent == 1)
        around--;
    if (around < 0 || t->axis[around].a < t->rows * t->a_row ||
        __builtin_add_overflow(a.c, t->axis[around].a, &a.c))
        return;
    NestNode *line = unrolled_in(n, parent, "i", (t->rows + each - 1) / each);
    nest_add_term(&a, line->var, each * t->a_row);
    nest_append(n, line, nest_near(n, t->a, nest_position(n, &a)));
}

static void fill_tile(const Filling *f, NestNode *parent, int axis, NestLinear a, NestLinear b)
{
    Nest *n = f->n;
    const Tile *t = f->t;
    if (t->near && axis == t->n_axes - 1)
        near_rows(f, parent, a);
    if (axis == t->n_axes) {
        TileLoops l = tile_loops(n, parent, t);
        NestLinear acc = place_in_tile(t, l.row, l.vector, l.lane);
        nest_add_term(&a, l.row->var, t->a_row);
        nest_add_term(&b, l.vector->var, t->b_vector);
        nest_add_term(&b, l.lane->var, 1);
        Te *product = words_product(&n->te, &t->words, nest_load(n, t->a, nest_position(n, &a)),
                                    nest_load(n, t->b, nest_position(n, &b)));
        NestNode *fold = nest_fold(n, TE_SUM, f->acc, nest_position(n, &acc), product);
        fold->ahead = f->ahead;
        nest_append(n, l.lane, fold);
        return;
    }
    Piece pieces[2];
    int64_t extent = t->axis[axis].extent;
    int64_t block = axis == t->n_axes - 1 ? f->block : 1;
    int count = pieces_of(n, parent, "r", extent, block, pieces);
    for (int i = 0; i < count; i++) {
        NestLinear from = pieces[i].from, a_here = a, b_here = b;
        NestNode *in = pieces[i].in;
        if (pieces[i].size > 1) {
            in = unrolled_in(n, in, "r", pieces[i].size);
            nest_add_term(&from, in->var, 1);
        }
        linear_add(&a_here, &from, t->axis[axis].a);
        linear_add(&b_here, &from, t->axis[axis].b);
        fill_tile(f, in, axis + 1, a_here, b_here);
    }
}

/* What the sums of a vector start from. */
static Te *start_of(Nest *n, const Tile *t, const TileLoops *l)
{
    if (!t->words.flips)
        return te_number(&n->te, n->buffers.at[t->b].dtype, 0);
    NestLinear at = t->start_at;
    nest_add_term(&at, l->vector->var, t->lanes);
    nest_add_term(&at, l->lane->var, 1);
    return nest_load(n, t->start, nest_position(n, &at));
}

/* Turns of the sum by which the second operand is fetched ahead where all of it that the tile reads is more than the first cache holds
 * beside the rest, and what the rows do in a turn hides it. */
#define AHEAD_TURNS 16
#define AHEAD_BYTES_LEAST 24576
#define AHEAD_ROWS_LEAST 4

static int64_t ahead_of(const Nest *n, const Tile *t)
{
    int64_t size = (int64_t)dtype_size(n->buffers.at[t->b].dtype);
    int64_t bytes = t->vectors * t->lanes * size;
    for (int i = 0; i < t->n_axes; i++)
        bytes *= t->axis[i].extent;
    return bytes > AHEAD_BYTES_LEAST && t->rows >= AHEAD_ROWS_LEAST
               ? AHEAD_TURNS * t->axis[t->n_axes - 1].b * size
               : 0;
}

int tile_in(Nest *n, NestNode *loop, const Tile *t)
{
    NestBuffer acc = {.name = "acc",
                      .dtype = n->buffers.at[t->b].dtype,
                      .place = NEST_REGISTER,
                      .size = t->rows * t->vectors * t->lanes,
                      .home = loop};
    loop->apart = true;
    Filling f = {n, t, nest_buffer(n, acc), 1, ahead_of(n, t)};
    TileLoops l = tile_loops(n, loop, t);
    NestLinear at = place_in_tile(t, l.row, l.vector, l.lane);
    nest_append(n, l.lane, nest_store(n, f.acc, nest_position(n, &at), start_of(n, t, &l)));
    int64_t code = t->rows * t->vectors, extent = t->axis[t->n_axes - 1].extent;
    f.block = 4;
    while (f.block > 1 && code * f.block > TURN_CODE_MOST)
        f.block /= 2;
    if (extent <= AXIS_TURNS_MOST && code * extent <= AXIS_CODE_MOST)
        f.block = extent;
    fill_tile(&f, loop, 0, t->a_at, t->b_at);
    return f.acc;
}

void store_tile(Nest *n, NestNode *loop, const Tile *t, int acc, int buffer, const NestLinear *to,
                int64_t row_step, int64_t vector_step)
{
    TileLoops l = tile_loops(n, loop, t);
    NestLinear from = place_in_tile(t, l.row, l.vector, l.lane), at = *to;
    nest_add_term(&at, l.row->var, row_step);
    nest_add_term(&at, l.vector->var, vector_step);
    nest_add_term(&at, l.lane->var, 1);
    Te *v = nest_load(n, acc, nest_position(n, &from));
    nest_append(n, l.lane, nest_store(n, buffer, nest_position(n, &at), v));
}

/* What a turn of a tile costs: multiply-adds, or loads, or the time that a sum takes until it can be added to; and loads a little even
 * where they are not what takes longest. */
static double turn_cost(int64_t rows, int64_t vectors)
{
    double adds = (double)(rows * vectors), loads = (double)(rows + vectors), least = 5;
    double most = adds > 0.75 * loads ? adds : 0.75 * loads;
    return 1 + 0.1 * loads + (most > least ? most : least);
}

/* In multiply-adds, what a byte costs that a tile waits for: 12 for a line, where two begin in a cycle and it comes from a third cache. What
 * is done meanwhile costs a little all the same. */
#define FAR_COST 0.2
#define FAR_BESIDE 0.05

/* What the first tile of some columns, whose `bytes` of each vector it brings, costs a turn more than one of columns that are near. */
static double far_cost(int64_t height, int64_t vectors, double bytes)
{
    double near = turn_cost(height, vectors), far = FAR_COST * (double)vectors * bytes;
    return far > near ? far - near + FAR_BESIDE * near : FAR_BESIDE * far;
}

/* `far`: bytes of a vector of columns where they lie behind the second cache; 0: they lie near. */
static double cover_cost(int64_t rows, int64_t height, int64_t vectors, double far)
{
    double cost = (double)(rows / height) * turn_cost(height, vectors);
    cost += rows % height ? turn_cost(rows % height, vectors) : 0;
    return far > 0 ? cost + far_cost(height, vectors, far) : cost;
}

/* What further kinds of tiles, for what is left over, are worth of the time: each takes as long to compile as the first. */
#define CODE_COST 0.012

static double best_tile(const Machine *m, int64_t rows, int64_t blocks, double far, int64_t *height,
                        int64_t *vectors)
{
    double best = 0, least = 0;
    for (int64_t v = 1; v <= 4 && v <= blocks; v++)
        for (int64_t h = 1; h <= rows && h * v + v + 1 < m->registers; h++) {
            double cost = (double)(blocks / v) * cover_cost(rows, h, v, far);
            if (blocks % v)
                cost += cover_cost(rows, h, blocks % v, far);
            double with_code = rows % h || blocks % v ? cost * (1 + CODE_COST) : cost;
            if (best == 0 || with_code < best) {
                best = with_code;
                least = cost;
                *height = h;
                *vectors = v;
            }
        }
    return least;
}

void tile_size(const Machine *m, int64_t rows, int64_t blocks, int64_t bytes, int64_t times,
               int64_t *height, int64_t *vectors)
{
    double far = bytes > m->second_cache ? (double)m->vector_bytes / (double)times : 0;
    best_tile(m, rows, blocks, far, height, vectors);
}

double tile_cost(const Machine *m, int64_t rows, int64_t blocks)
{
    int64_t height, vectors;
    return best_tile(m, rows, blocks, 0, &height, &vectors);
}

int64_t spread_pitch(int64_t pitch)
{
    return pitch % 128 == 0 ? pitch + 16 : pitch;
}

/* ---- rows of a window that lie in the border --------------------------------------------------------------------------------------- */

static Taps taps_inside(const ConvAxis *a, int64_t y)
{
    int64_t above = a->before - y * a->stride, below = above + a->in;
    int64_t from = above > 0 ? (above + a->dilation - 1) / a->dilation : 0;
    int64_t to = below > 0 ? (below + a->dilation - 1) / a->dilation : 0;
    from = from < a->taps ? from : a->taps - 1;
    to = to < a->taps ? to : a->taps;
    return (Taps){from, to > from ? to - from : 1};
}

int64_t conv_rows_alike(const ConvAxis *a, int64_t y, Taps *taps)
{
    Taps next = taps_inside(a, y);
    int64_t to = y;
    *taps = next;
    while (to < a->out && next.first == taps->first && next.count == taps->count)
        next = taps_inside(a, ++to);
    return to - y;
}

/* Each choice of rows of the window has tiles of its own, which are compiled. */
#define BORDER_LEAST 0.125
#define CHOICES_MOST 8

int64_t conv_taps_read(const Conv *c)
{
    int64_t sum = 0, choices = 0, all = c->y.out * c->y.taps;
    Taps taps;
    for (int64_t y = 0, rows; y < c->y.out && choices <= CHOICES_MOST; y += rows, choices++) {
        rows = conv_rows_alike(&c->y, y, &taps);
        sum += rows * taps.count;
    }
    bool pays = (double)(all - sum) >= BORDER_LEAST * (double)all;
    return pays && choices <= CHOICES_MOST ? sum : all;
}

/* ---- borders ---------------------------------------------------------------------------------------------------------------------- */

/* Zeros in rows [y, y + rows) and columns [x, x + columns). */
static void add_zeros(Sched *s, int buffer, const Bordered *b, int64_t y, int64_t rows, int64_t x,
                      int64_t columns)
{
    Nest *n = s->n;
    if (rows < 1 || columns < 1)
        return;
    int64_t pitch = b->width * b->inner;
    NestLinear at = {.c = y * pitch + x * b->inner};
    NestNode *loop = NULL, *root = NULL;
    int64_t extent[3] = {b->outer, rows, columns * b->inner},
            step[3] = {b->height * pitch, pitch, 1};
    for (int i = 0; i < 3; i++) {
        if (extent[i] == 1 && i < 2)
            continue;
        loop = loop_in(n, loop, "z", extent[i]);
        root = root ? root : loop;
        nest_add_term(&at, loop->var, step[i]);
    }
    Te *zero = te_number(&n->te, n->buffers.at[buffer].dtype, b->zero);
    nest_append(n, loop, nest_store(n, buffer, nest_position(n, &at), zero));
    sched_map(s, root);
}

void zero_border(Sched *s, int buffer, Bordered b)
{
    int64_t top = b.y->before, left = b.x->before, low = top + b.y->in, right = left + b.x->in;
    add_zeros(s, buffer, &b, 0, top, 0, b.width);
    add_zeros(s, buffer, &b, low, b.height - low, 0, b.width);
    add_zeros(s, buffer, &b, top, b.y->in, 0, left);
    add_zeros(s, buffer, &b, top, b.y->in, right, b.width - right);
}

/* ---- results ------------------------------------------------------------------------------------------------------------------- */

NestNode *store_result(Sched *s, const Conv *c, const Tail *t, NestLinear at[CONV_AXES], Te *value)
{
    int64_t block = c->out_block, plane = c->y.out * c->x.out;
    int64_t steps[CONV_AXES] = {c->groups * c->oc * plane, plane * block, c->x.out * block, block,
                                1};
    NestLinear out = {0};
    for (int i = 0; i < (block > 1 ? CONV_AXES : 4); i++)
        linear_add(&out, &at[i], steps[i]);
    if (t->stage >= 0 && c->rank == 3)
        at[2] = at[3];
    if (t->stage >= 0)
        value = nest_expression(s->n, s->p, t->stage, at, t->of, value);
    int id = s->p->n_inputs + (t->stage < 0 ? c->stage : t->stage);
    return nest_store(s->n, id, nest_position(s->n, &out), value);
}

/* Some channels, from `channels->from` of the vector on. */
static void store_block(Sched *s, const Conv *c, const Tail *t, const Turned *from,
                        const Piece *channels, const NestLinear *row, const Piece *columns)
{
    Nest *n = s->n;
    NestNode *each = unrolled_in(n, channels->in, "c", channels->size);
    NestNode *column = vector_in(n, each, columns->size, s->lanes);
    NestLinear at = from->at, axis[CONV_AXES] = {from->n, from->channel, from->y, from->x};
    NestLinear channel = channels->from;
    nest_add_term(&channel, each->var, 1);
    linear_add(&axis[1], &channel, 1);
    linear_add(&axis[2], row, 1);
    linear_add(&axis[3], &columns->from, 1);
    nest_add_term(&axis[3], column->var, 1);
    linear_add(&at, row, from->row_step);
    linear_add(&at, &columns->from, s->lanes);
    nest_add_term(&at, column->var, s->lanes);
    linear_add(&at, &channel, 1);
    Te *value = nest_load(n, from->buffer, nest_position(n, &at));
    nest_append(n, column, store_result(s, c, t, axis, value));
}

/* A block of channels lies as its vectors do. */
static void store_vectors(Sched *s, NestNode *parent, const Conv *c, const Tail *t,
                          const Turned *from)
{
    Nest *n = s->n;
    NestNode *row = loop_in(n, parent, "y", from->rows),
             *column = loop_in(n, row, "x", from->columns);
    NestNode *lane = vector_in(n, column, s->lanes, s->lanes);
    NestLinear at = from->at,
               axis[CONV_AXES] = {from->n, linear_over(&from->channel, s->lanes), from->y, from->x};
    nest_add_term(&axis[2], row->var, 1);
    nest_add_term(&axis[3], column->var, 1);
    nest_add_term(&axis[4], lane->var, 1);
    nest_add_term(&at, row->var, from->row_step);
    nest_add_term(&at, column->var, s->lanes);
    nest_add_term(&at, lane->var, 1);
    Te *value = nest_load(n, from->buffer, nest_position(n, &at));
    nest_append(n, lane, store_result(s, c, t, axis, value));
}

void store_turned(Sched *s, NestNode *parent, const Conv *c, const Tail *t, const Turned *from)
{
    Piece rows[2], columns[2], channels[2];
    if (c->out_block > 1) {
        store_vectors(s, parent, c, t, from);
        return;
    }
    int n_rows = pieces_of(s->n, parent, "y", from->rows, 1, rows);
    for (int i = 0; i < n_rows; i++) {
        int n_columns = pieces_of(s->n, rows[i].in, "x", from->columns, s->lanes, columns);
        for (int k = 0; k < n_columns; k++) {
            int count =
                pieces_of(s->n, columns[k].in, "c", from->channels, TURNED_AT_ONCE, channels);
            for (int j = 0; j < count; j++)
                store_block(s, c, t, from, &channels[j], &rows[i].from, &columns[k]);
        }
    }
}
