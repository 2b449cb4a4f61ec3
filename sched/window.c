/* Sums of products over windows (convolutions), made ready for the processor by a copy of the windowed operand.
 *
 * Windows that step by one are summed over whole planes of a copy with its border of zeros. Large ones that step further become one matrix
 * product: the operand is written out with an element for each position of the window and of the result ("columns"). The others read a
 * copy with a border, so that no load has to ask whether it lies inside. Planes are taken instead of another way, too, where they cost less:
 * output channels that fill no vector leave no lane idle when vectors run along the plane. */
#include "sched/conv.h"

#include "te/walk.h"

#include <string.h>

#define COLUMNS_MOST ((size_t)64 << 20)
#define AXES_MOST (2 * TENSOR_RANK_MOST)

typedef struct Window {
    TeBuilder b; /* of the new program */
    const Sched *s;
    const TeProgram *p;
    TeTensor *made; /* by id of the old program */
    int64_t lanes; /* of a vector of the commonest elements */
} Window;

static Te *move_load(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    const Window *w = data;
    (void)old;
    if (e->kind != TE_NODE_LOAD)
        return NULL;
    return te_load_or(b, w->made[e->tensor], e->index, e->otherwise);
}

static Te *moved(Window *w, const Te *e)
{
    return te_rewrite(&w->b, e, move_load, w);
}

static int64_t extent_of(const TeStage *s, int axis)
{
    return axis < s->rank ? s->shape[axis] : s->reduced[axis - s->rank];
}

/* The sum over the copy instead of the operand that was copied. */
static TeTensor sum_of(TeBuilder *b, const TeStage *s, Te *now, Te *other)
{
    Te *body = te_binary(b, TE_MUL, te_cast(b, s->dtype, now), other);
    return te_reduce(b, TE_SUM, s->dtype, s->rank, s->shape, s->n_reduced, s->reduced, body);
}

/* ---- columns --------------------------------------------------------------------------------------------------------- */

typedef struct Columns {
    int n;
    int axis
        [AXES_MOST]; /* those of the reduction and those of the space that the operand steps along */
    int64_t shape[AXES_MOST];
} Columns;

/* `inner`: the axes of the reduction stand last. */
static Columns columns_of(const TeStage *s, const TeAffine *at, bool inner)
{
    Columns c = {0};
    for (int pass = 0; pass < 2; pass++) {
        bool space = pass ? !inner : inner;
        for (int a = space ? 0 : s->rank; a < (space ? s->rank : s->rank + s->n_reduced); a++) {
            if (at->stride[a] == 0 || extent_of(s, a) == 1)
                continue;
            c.shape[c.n] = extent_of(s, a);
            c.axis[c.n++] = a;
        }
    }
    return c;
}

static Te *rename_axis(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    Te *const *axes = data;
    (void)b;
    (void)old;
    return e->kind == TE_NODE_AXIS ? axes[e->axis] : NULL;
}

/* An element of the copy, where the sum reads the operand. */
static Te *column_load(Window *w, const Columns *c, const Te *load)
{
    TeBuilder *b = &w->b;
    Te *to_copy[AXES_MOST], *index[TENSOR_RANK_MOST], *of_sum[TENSOR_RANK_MOST];
    for (int a = 0; a < AXES_MOST; a++)
        to_copy[a] = te_int(b, 0);
    for (int i = 0; i < c->n; i++) {
        to_copy[c->axis[i]] = te_axis(b, i);
        of_sum[i] = te_axis(b, c->axis[i]);
    }
    for (int i = 0; i < load->n; i++)
        index[i] = te_rewrite(b, load->index[i], rename_axis, to_copy);
    Te *body = te_load_or(b, w->made[load->tensor], index, load->otherwise);
    return te_load(b, te_map(b, load->dtype, c->n, c->shape, body), of_sum);
}

/* A sum over windows whose operand is written out, and the other one too where its columns are given. */
typedef struct Written {
    const TeStage *s;
    const Te *load, *other;
    Columns c, of_other; /* of_other.n 0: it stays */
} Written;

static TeTensor with_columns(Window *w, const Written *o)
{
    Te *now = column_load(w, &o->c, o->load);
    return sum_of(&w->b, o->s, now,
                  o->of_other.n ? column_load(w, &o->of_other, o->other) : moved(w, o->other));
}

static bool columns_fit(const Columns *c, DType dtype)
{
    int64_t size;
    return c->n > 0 && c->n <= TENSOR_RANK_MOST && shape_size(c->n, c->shape, &size) &&
           (size_t)size * dtype_size(dtype) <= COLUMNS_MOST;
}

/* Whether the sum over columns is a product for the library. */
static bool columns_pay(Window *w, const Written *o)
{
    bool both = o->of_other.n > 0;
    if (!dtype_is_float(o->s->dtype) || !columns_fit(&o->c, o->load->dtype) ||
        (both && (o->other->kind != TE_NODE_LOAD || !columns_fit(&o->of_other, o->other->dtype))))
        return false;
    Window trial = *w;
    te_begin(&trial.b, w->b.cx, w->b.arena);
    trial.made = arena_alloc_must(w->b.arena, (size_t)(w->p->n_inputs + w->p->n_stages) + 1,
                                  sizeof *trial.made);
    for (int i = 0; i < w->p->n_inputs + w->p->n_stages; i++) {
        const TeStage *old = i < w->p->n_inputs ? NULL : &w->p->stages[i - w->p->n_inputs];
        trial.made[i] = old ? te_add_input(&trial.b, old->dtype, old->rank, old->shape)
                            : te_add_input(&trial.b, w->p->inputs[i].dtype, w->p->inputs[i].rank,
                                           w->p->inputs[i].shape);
    }
    TeTensor sum = with_columns(&trial, o);
    const TeProgram *p = te_finish(&trial.b, 1, &sum, false);
    int copies = both ? 2 : 1;
    return p && p->n_stages == copies + 1 && w->s->m->reorders &&
           product_fits(&(Sched){.p = p}, copies);
}

/* ---- borders ----------------------------------------------------------------------------------------------------------- */

static bool linear_range(const TeStage *s, const Te *index, int64_t *low, int64_t *high)
{
    NestLinear l;
    if (!nest_linear(index, &l))
        return false;
    *low = *high = l.c;
    for (int i = 0; i < l.n; i++) {
        int64_t far = l.term[i].by * (extent_of(s, l.term[i].var) - 1);
        *(far < 0 ? low : high) += far;
    }
    return true;
}

/* The operand with all that lies outside and is read: the copy, and where in it the sum's indices are. Its axis `last`, if not -1, comes
 * behind the others. Behind the last but one there is room for `more` elements of a plane. */
static bool border_copy(Window *w, const TeStage *s, const Te *load, int last, int64_t more,
                        TeTensor *copy, Te **of_sum)
{
    TeBuilder *b = &w->b;
    TeTensor t = w->made[load->tensor];
    int64_t shape[TENSOR_RANK_MOST], low[TENSOR_RANK_MOST], high;
    Te *index[TENSOR_RANK_MOST];
    int at[TENSOR_RANK_MOST];
    for (int i = 0; i < load->n; i++) {
        if (!linear_range(s, load->index[i], &low[i], &high))
            return false;
        at[i] = last < 0 || i < last ? i : i == last ? load->n - 1 : i - 1;
        low[i] = low[i] < 0 ? low[i] : 0;
        high = high >= t.shape[i] ? high : t.shape[i] - 1;
        shape[at[i]] = high - low[i] + 1;
    }
    if (more && load->otherwise)
        shape[load->n - 2] += (more + shape[load->n - 1] - 1) / shape[load->n - 1];
    for (int i = 0; i < load->n; i++) {
        index[i] = te_binary(b, TE_ADD, te_axis(b, at[i]), te_int(b, low[i]));
        of_sum[at[i]] = te_binary(b, TE_ADD, load->index[i], te_int(b, -low[i]));
    }
    *copy = !load->otherwise
                ? t
                : te_map(b, load->dtype, t.rank, shape, te_load_or(b, t, index, load->otherwise));
    return true;
}

static bool with_border(Window *w, const TeStage *s, const Te *load, const Te *other, TeTensor *out)
{
    TeTensor copy;
    Te *of_sum[TENSOR_RANK_MOST];
    if (!border_copy(w, s, load, -1, 0, &copy, of_sum))
        return false;
    *out = sum_of(&w->b, s, te_load(&w->b, copy, of_sum), moved(w, other));
    return true;
}

/* ---- planes ------------------------------------------------------------------------------------------------------------ */

/* Whether index `i` of the load is the axis plus what is reduced, and no other index is of the axis. */
static bool slides_along(const TeStage *s, const Te *load, int i, int axis, bool *window)
{
    NestLinear l;
    for (int k = 0; k < load->n; k++) {
        if (!nest_linear(load->index[k], &l))
            return false;
        if (nest_coefficient(&l, axis) != (k == i))
            return false;
        for (int t = 0; t < l.n && k == i; t++) {
            if (l.term[t].var != axis && (l.term[t].var < s->rank || l.term[t].by < 0))
                return false;
            *window |= l.term[t].var >= s->rank;
        }
    }
    return true;
}

/* Products in an element of the sum from which on whole tiles of registers pay for a larger copy. */
#define ROUNDED_LEAST 64

static int64_t products_of(const TeStage *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->n_reduced; i++)
        n *= s->reduced[i];
    return n;
}

/* The extent made a multiple of two or three vectors, by what adds less. */
static int64_t rounded(int64_t extent, int64_t lanes)
{
    int64_t two = (extent + 2 * lanes - 1) / (2 * lanes) * (2 * lanes);
    int64_t three = (extent + 3 * lanes - 1) / (3 * lanes) * (3 * lanes);
    return three <= two + two / 32 ? three : two;
}

/* A window that steps by one over planes is summed over whole planes at once, rows behind each other: a vector then runs on from row to
 * row, and what it computes between them is left out of the result. */
static bool with_planes(Window *w, const TeStage *s, const Te *load, const Te *other,
                        const TeAffine *of_other, TeTensor *out)
{
    TeBuilder *b = &w->b;
    TeTensor copy;
    Te *of_sum[TENSOR_RANK_MOST], *axes[AXES_MOST];
    int y = s->rank - 2, x = s->rank - 1, r = load->n;
    bool window = false;
    int64_t room = products_of(s) >= ROUNDED_LEAST ? 3 * w->lanes - 1 : 0;
    if (y < 0 || r < 2 || s->shape[x] < 2 || of_other->stride[x] || of_other->stride[y] ||
        !slides_along(s, load, r - 2, y, &window) || !slides_along(s, load, r - 1, x, &window) ||
        !window || !border_copy(w, s, load, -1, room, &copy, of_sum))
        return false;
    int64_t pitch = copy.shape[r - 1], shape[TENSOR_RANK_MOST];
    /* What would be computed for nothing is to be little. */
    if (pitch > 2 * s->shape[x])
        return false;
    for (int a = 0; a < s->rank + s->n_reduced; a++)
        axes[a] = a == y ? te_int(b, 0) : te_axis(b, a < y ? a : a - 1);
    for (int i = 0; i < r; i++)
        of_sum[i] = te_rewrite(b, of_sum[i], rename_axis, axes);
    Te *row = te_binary(b, TE_MUL, of_sum[r - 2], te_int(b, pitch));
    Te *flat = te_binary(b, TE_ADD, row, of_sum[r - 1]);
    of_sum[r - 2] = te_binary(b, TE_DIV, flat, te_int(b, pitch));
    of_sum[r - 1] = te_binary(b, TE_MOD, flat, te_int(b, pitch));
    memcpy(shape, s->shape, (size_t)s->rank * sizeof *shape);
    shape[y] = (s->shape[y] - 1) * pitch + s->shape[x];
    if (room && load->otherwise)
        shape[y] = rounded(shape[y], w->lanes);
    Te *factor = moved(w, te_rewrite(b, other, rename_axis, axes));
    Te *body = te_binary(b, TE_MUL, te_cast(b, s->dtype, te_load(b, copy, of_sum)), factor);
    TeTensor sum =
        te_reduce(b, TE_SUM, s->dtype, s->rank - 1, shape, s->n_reduced, s->reduced, body);
    Te *index[TENSOR_RANK_MOST];
    for (int a = 0; a < y; a++)
        index[a] = te_axis(b, a);
    row = te_binary(b, TE_MUL, te_axis(b, y), te_int(b, pitch));
    index[y] = te_binary(b, TE_ADD, row, te_axis(b, x));
    *out = te_map(b, s->dtype, s->rank, s->shape, te_load(b, sum, index));
    return true;
}

/* What moving a vector costs, with all that is around it. */
#define MOVE_COST 8.0

double planes_cost(const Sched *s, int stage)
{
    Conv c;
    if (!conv_of(s->p, stage, &c) || c.rank != 4 || c.in_block != 1 || c.out_block != 1 ||
        !is_float32(c.dtype) || !is_float32(c.of_data) || !is_float32(c.of_weight) ||
        c.x.stride != 1 || c.y.stride != 1 || c.x.out < 2 || c.oc < SLID_ROWS_LEAST ||
        c.oc % s->lanes == 0) /* whole vectors of channels do as well */
        return -1;
    int64_t turns = c.ic * c.y.taps * c.x.taps, lanes = s->lanes;
    int64_t pitch = c.x.out + (c.x.taps - 1) * c.x.dilation;
    int64_t height = c.y.out + (c.y.taps - 1) * c.y.dilation;
    int64_t flat = (c.y.out - 1) * pitch + c.x.out;
    flat = turns < ROUNDED_LEAST ? (flat + lanes - 1) / lanes * lanes : rounded(flat, lanes);
    if (turns < SLID_TURNS_LEAST || turns == c.ic || pitch > 2 * c.x.out)
        return -1;
    double sums = (double)turns * tile_cost(s->m, c.oc, flat / lanes) +
                  SCHED_BYTE_COST * 4 * (double)(c.oc * turns + c.ic * height * pitch);
    double moves = (double)(c.ic * height * ((pitch + lanes - 1) / lanes) +
                            c.oc * c.y.out * ((c.x.out + lanes - 1) / lanes));
    return (double)(c.n * c.groups) * (sums + MOVE_COST * moves);
}

/* ---- channels last ------------------------------------------------------------------------------------------------------ */

/* Products in an element of the sum from which on it pays to put its axes back in order behind it. */
#define SLID_LEAST 512

/* The dimension of the load whose index is just the axis, which stands in no other; -1: there is none. */
static int dimension_of(const Te *load, int axis)
{
    int found = -1;
    for (int k = 0; k < load->n; k++) {
        NestLinear l;
        if (!nest_linear(load->index[k], &l))
            return -1;
        if (nest_coefficient(&l, axis) == 0)
            continue;
        if (found >= 0 || l.n != 1 || l.c != 0 || l.term[0].by != 1)
            return -1;
        found = k;
    }
    return found;
}

/* The gradient by a weight: sums over images and places for each pair of channels and each place of the window. With the channels of the
 * data last, in a copy with its border, vectors of them are summed as they lie (slid.c). */
static bool with_channels_last(Window *w, const TeStage *s, const Te *load, const Te *other,
                               const TeAffine *of_other, TeTensor *out)
{
    TeBuilder *b = &w->b;
    int axis = -1, dim = -1;
    for (int i = 0; i < s->rank && dim < 0; i++)
        if (s->shape[i] >= w->lanes / 2 && of_other->stride[i] == 0) {
            axis = i;
            dim = dimension_of(load, i);
        }
    if (dim < 0 || s->n_reduced < 2 || products_of(s) < SLID_LEAST || !w->s->m->reorders ||
        s->dtype.code != DTYPE_CODE_FLOAT || s->dtype.bits != 32 || other->kind != TE_NODE_LOAD ||
        !load->otherwise)
        return false;
    TeTensor copy;
    Te *of_sum[TENSOR_RANK_MOST], *axes[AXES_MOST], *index[TENSOR_RANK_MOST];
    int64_t shape[TENSOR_RANK_MOST];
    if (!border_copy(w, s, load, dim, 0, &copy, of_sum))
        return false;
    /* The sum's own space in this order too, which is put back behind it. */
    for (int a = 0; a < s->rank + s->n_reduced; a++) {
        int at = a >= s->rank || a < axis ? a : a == axis ? s->rank - 1 : a - 1;
        axes[a] = te_axis(b, at);
        if (a < s->rank) {
            shape[at] = s->shape[a];
            index[at] = te_axis(b, a);
        }
    }
    for (int k = 0; k < load->n; k++)
        of_sum[k] = te_rewrite(b, of_sum[k], rename_axis, axes);
    Te *factor = moved(w, te_rewrite(b, other, rename_axis, axes));
    Te *body = te_binary(b, TE_MUL, te_cast(b, s->dtype, te_load(b, copy, of_sum)), factor);
    TeTensor sum = te_reduce(b, TE_SUM, s->dtype, s->rank, shape, s->n_reduced, s->reduced, body);
    *out = te_map(b, s->dtype, s->rank, s->shape, te_load(b, sum, index));
    return true;
}

/* ---- choice -------------------------------------------------------------------------------------------------------------- */

/* The stage with a copy in front of it; false when it is better left as it is. */
static bool with_copy(Window *w, int stage, TeTensor *out)
{
    const TeStage *s = &w->p->stages[stage];
    TeContraction t;
    if (strategy_is_idle(s))
        return false;
    const Strategy *row = strategy_of(w->s, stage);
    double planes = row ? planes_cost(w->s, stage) : 0;
    bool pays = !row || (planes >= 0 && planes < row->cost(w->s, stage));
    if (!pays || !te_contraction(w->p, stage, &t))
        return false;
    bool first = t.a.padded || !t.b.padded;
    const Te *load = first ? t.a.load : t.b.load, *other = first ? s->body->b : s->body->a;
    if (t.a.padded && t.b.padded)
        return false;
    if (row)
        return with_planes(w, s, load, other, first ? &t.b : &t.a, out);
    if (with_channels_last(w, s, load, other, first ? &t.b : &t.a, out) ||
        with_planes(w, s, load, other, first ? &t.b : &t.a, out))
        return true;
    /* The gradient by a weight sums over batch and places, which lie apart in both operands. */
    Written o = {
        .s = s, .load = load, .other = other, .c = columns_of(s, first ? &t.a : &t.b, false)};
    pays = columns_pay(w, &o);
    if (!pays && load->otherwise) {
        o.c = columns_of(s, first ? &t.a : &t.b, true);
        o.of_other = columns_of(s, first ? &t.b : &t.a, true);
        pays = columns_pay(w, &o);
    }
    if (pays) {
        *out = with_columns(w, &o);
        return true;
    }
    return load->otherwise && with_border(w, s, load, other, out);
}

const TeProgram *window_program(const Sched *sched)
{
    const TeProgram *p = sched->p;
    Window w = {.s = sched, .p = p, .lanes = sched->lanes};
    bool any = false;
    w.made = te_begin_from(&w.b, sched->cx, sched->arena, p);
    for (int i = 0; i < p->n_stages; i++) {
        const TeStage *s = &p->stages[i];
        TeTensor *out = &w.made[p->n_inputs + i];
        if (with_copy(&w, i, out))
            any = true;
        else
            *out = te_add_stage(&w.b, s, moved(&w, s->body));
        vec_last(&w.b.stages).name = s->name;
    }
    if (!any)
        return p;
    /* What is left out of planes is left out where the result is read. */
    return te_finish_from(&w.b, p, w.made);
}
