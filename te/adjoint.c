#include "te/adjoint.h"

#include "te/internal.h"

#include <string.h>

enum { EVALUATED_MOST = 1 << 18, DEPTH_MOST = 64 };

/* A sum of so few terms is no loop: what it is made of is then put in order as in any map. */
enum { TERMS_MOST = 4 };

typedef struct Adjoint {
    TeBuilder *b;
    bool *active;  /* by tensor: it depends on what is asked for */
    TeTensor *sum; /* by tensor: its adjoint so far; of rank -1: none */
} Adjoint;

/* The stage whose body is gone through. */
typedef struct Back {
    Adjoint *a;
    TeStage s;
    Vec(Te *) nodes; /* of the body, operands first */
    PtrMap active;   /* those that depend on what is asked for */
    PtrMap slopes;   /* node -> the adjoint of its value */
} Back;

static bool is_float(DType t)
{
    return dtype_is_float(t);
}

static Te *zero(TeBuilder *b, DType t)
{
    return te_number(b, t, 0);
}

static Te *times(TeBuilder *b, Te *x, double v)
{
    return te_binary(b, TE_MUL, x, te_number(b, x->dtype, v));
}

static Te *load_all(TeBuilder *b, TeTensor t)
{
    Te *index[TENSOR_RANK_MOST];
    for (int i = 0; i < t.rank; i++)
        index[i] = te_axis(b, i);
    return te_load(b, t, index);
}

/* ---- from the element to the positions that read it --------------------------------------------------------------------- */

/* Axes 0 … rank-1 are those of the tensor that was read, the ones behind them those of the stage that reads it, and behind those
 * the ones that count the positions an index leaves open. */
typedef struct Solve {
    TeBuilder *b;
    TeTensor t;
    int n; /* axes so far */
    int64_t extent[TE_AXES_MOST]; /* by axis */
    Te *is[TE_AXES_MOST]; /* what stands for the axis; itself: it is still open */
    Vec(Te *) conditions;
    bool any_wild, wild[TE_AXES_MOST]; /* by axis: it may come out beyond its extent */
} Solve;

static Te *put_axis(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    Te *const *is = data;
    (void)b, (void)old;
    return e->kind == TE_NODE_AXIS ? is[e->axis] : NULL;
}

static Te *with_axes(TeBuilder *b, Te *const *is, const Te *e)
{
    return te_rewrite(b, e, put_axis, (void *)(uintptr_t)is);
}

static bool is_open(const Solve *s, int axis)
{
    return axis >= s->t.rank && s->is[axis]->kind == TE_NODE_AXIS && s->is[axis]->axis == axis;
}

/* Where the expression lies wherever its axes run; false: nobody knows. */
static bool bounds(const Solve *s, const Te *e, int64_t *low, int64_t *high, int depth)
{
    TeLinear at;
    if (te_linear(e, &at)) {
        *low = *high = at.c;
        for (int i = 0; i < s->n; i++) {
            int64_t reach = at.k[i] * (s->extent[i] - 1);
            *(reach < 0 ? low : high) += reach;
        }
        return true;
    }
    bool divides = e->kind == TE_NODE_BINARY && e->b->kind == TE_NODE_CONST &&
                   (e->op == TE_FLOORDIV || e->op == TE_FLOORMOD || e->op == TE_DIV);
    int64_t by = divides ? value_as_int(e->b->value) : 0, other_low, other_high;
    if (by > 0) {
        if (depth == DEPTH_MOST || !bounds(s, e->a, low, high, depth + 1) ||
            (*low < 0 && e->op != TE_FLOORMOD))
            return false;
        *low = e->op == TE_FLOORMOD ? 0 : *low / by;
        *high = e->op == TE_FLOORMOD ? by - 1 : *high / by;
        return true;
    }
    if (e->kind != TE_NODE_BINARY || e->op != TE_ADD || depth == DEPTH_MOST ||
        !bounds(s, e->a, low, high, depth + 1) ||
        !bounds(s, e->b, &other_low, &other_high, depth + 1))
        return false;
    *low += other_low;
    *high += other_high;
    return true;
}

static bool is_within(const Solve *s, const Te *e, int64_t extent)
{
    int64_t low, high;
    return bounds(s, e, &low, &high, 0) && low >= 0 && high < extent;
}

static void demand_equal(Solve *s, Te *x, Te *y)
{
    vec_push(&s->conditions, s->b->arena, te_binary(s->b, TE_EQ, x, y));
}

static Te *both(TeBuilder *b, Te *x, Te *y)
{
    return x && y ? te_binary(b, TE_AND, x, y) : x ? x : y;
}

static Te *is_inside(TeBuilder *b, Te *x, int64_t extent)
{
    return both(b, te_binary(b, TE_GE, x, te_int(b, 0)), te_binary(b, TE_LT, x, te_int(b, extent)));
}

/* From here on `e` stands for the axis. */
static void solved(Solve *s, int axis, Te *e)
{
    TeBuilder *b = s->b;
    s->is[axis] = e;
    Te *one[TE_AXES_MOST];
    for (int i = 0; i < TE_AXES_MOST; i++)
        one[i] = i == axis ? e : te_axis(b, i);
    for (int i = s->t.rank; i < s->n; i++)
        s->is[i] = i == axis ? e : with_axes(b, one, s->is[i]);
    for (size_t i = 0; i < s->conditions.n; i++)
        s->conditions.at[i] = with_axes(b, one, s->conditions.at[i]);
    s->wild[axis] = !is_within(s, e, s->extent[axis]);
    s->any_wild |= s->wild[axis];
}

/* The axes of an index. */
typedef struct IndexAxes {
    bool loads;
    bool on[TE_AXES_MOST];
} IndexAxes;

static void note_axis(void *data, Te *e)
{
    IndexAxes *x = data;
    x->loads |= e->kind == TE_NODE_LOAD;
    if (e->kind == TE_NODE_AXIS)
        x->on[e->axis] = true;
}

static IndexAxes index_axes(TeBuilder *b, Te *index)
{
    IndexAxes x = {0};
    PtrMap seen = {0};
    te_each(b->arena, &seen, index, note_axis, &x);
    ptrmap_deinit(&seen);
    return x;
}

/* What the expression grows by with the axis, the same everywhere; false where there is no such number. */
static bool slope_by(TeBuilder *b, Te *e, int axis, int64_t *k, int depth)
{
    int64_t x = 0, y = 0;
    *k = e->kind == TE_NODE_AXIS && e->axis == axis;
    if (e->kind == TE_NODE_AXIS || !index_axes(b, e).on[axis])
        return true;
    if (e->kind != TE_NODE_BINARY || depth == DEPTH_MOST ||
        !slope_by(b, e->a, axis, &x, depth + 1) || !slope_by(b, e->b, axis, &y, depth + 1))
        return false;
    if (e->op == TE_ADD || e->op == TE_SUB)
        return *k = e->op == TE_ADD ? x + y : x - y, true;
    const Te *c = y ? e->a : e->b;
    return *k = (x + y) * (c->kind == TE_NODE_CONST ? value_as_int(c->value) : 0),
           e->op == TE_MUL && *k != 0;
}

/* The expression with 0 for an axis. */
static Te *without_axis(TeBuilder *b, Te *e, int axis)
{
    Te *is[TE_AXES_MOST];
    for (int i = 0; i < TE_AXES_MOST; i++)
        is[i] = i == axis ? te_int(b, 0) : te_axis(b, i);
    return with_axes(b, is, e);
}

/* index = k * axis + other + rest: where the other one is less than k, both are what is left of a division; else it is that and as many
 * times k more as the axis is less. */
static bool solve_apart(Solve *s, Te *rest, Te *place, int axis, int64_t k)
{
    TeBuilder *b = s->b;
    int other = -1;
    for (int i = s->t.rank; i < s->n; i++) {
        int64_t slope = 0;
        if (!is_open(s, i) || s->extent[i] == 1 || !index_axes(b, rest).on[i])
            continue;
        if (other >= 0 || !slope_by(b, rest, i, &slope, 0) || slope != 1)
            return false;
        other = i;
    }
    if (other < 0 || k < 2 || s->n + 1 >= TE_AXES_MOST)
        return false;
    Te *flat = te_binary(b, TE_SUB, place, without_axis(b, rest, other)), *by = te_int(b, k);
    Te *quotient = te_binary(b, TE_FLOORDIV, flat, by), *left = te_binary(b, TE_FLOORMOD, flat, by);
    if (s->extent[other] > k) {
        int more = s->n++;
        s->extent[more] = (s->extent[other] + k - 1) / k;
        s->is[more] = te_axis(b, more);
        quotient = te_binary(b, TE_SUB, quotient, te_axis(b, more));
        left = te_binary(b, TE_ADD, left, te_binary(b, TE_MUL, te_axis(b, more), by));
    }
    solved(s, axis, quotient);
    solved(s, other, left);
    return true;
}

/* index = k * axis + rest = place: the open axis of the greatest extent is (place - rest) / k. */
static bool solve_linear(Solve *s, Te *index, Te *place)
{
    TeBuilder *b = s->b;
    int axis = -1;
    int64_t k = 0, other;
    for (int i = s->t.rank; i < s->n; i++)
        if (is_open(s, i) && (axis < 0 || s->extent[i] > s->extent[axis]) &&
            slope_by(b, index, i, &other, 0) && other) {
            axis = i;
            k = other;
        }
    if (axis < 0)
        return false;
    Te *rest = without_axis(b, index, axis);
    if (solve_apart(s, rest, place, axis, k))
        return true;
    Te *e = k > 0 ? te_binary(b, TE_SUB, place, rest) : te_binary(b, TE_SUB, rest, place);
    if (k != 1 && k != -1) {
        Te *by = te_int(b, k > 0 ? k : -k), *quotient = te_binary(b, TE_FLOORDIV, e, by);
        demand_equal(s, te_binary(b, TE_MUL, quotient, by), e);
        e = quotient;
    }
    solved(s, axis, e);
    return true;
}

/* Stages that are only looked up are computed where they are read; `axes` NULL: those of the expression stay. */
static Te *put_stage(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    Te *const *axes = data;
    (void)old;
    if (e->kind == TE_NODE_AXIS && axes)
        return axes[e->axis];
    if (e->kind != TE_NODE_LOAD || e->tensor < b->n_inputs || e->otherwise)
        return NULL;
    const TeStage *s = &b->stages.at[e->tensor - b->n_inputs];
    return s->reduce == TE_NO_REDUCE ? te_rewrite(b, s->body, put_stage, e->index) : NULL;
}

/* The index at all positions of its axes, the last of `axes` fastest; the caller releases. NULL: it is not known. */
static Tensor *evaluated(const Solve *s, const Te *index, int n, const int *axes)
{
    TeBuilder b;
    Te *is[TE_AXES_MOST] = {0};
    int64_t shape[TE_AXES_MOST];
    Tensor *values = NULL;
    te_begin(&b, s->b->cx, s->b->arena);
    for (int i = 0; i < n; i++) {
        is[axes[i]] = te_axis(&b, i);
        shape[i] = s->extent[axes[i]];
    }
    TeTensor t = te_map(&b, index->dtype, n, shape, with_axes(&b, is, index));
    const TeProgram *p = te_finish(&b, 1, &t, false);
    return p && te_run(s->b->cx, p, s->b->span, NULL, &values) ? values : NULL;
}

/* Around place * by / of + from, so many positions of the axis may read the place. */
typedef struct Window {
    int64_t by, of, from, width;
    bool all; /* each of them does */
} Window;

/* v: the values at all positions of some axes, of which this one has `along` positions that lie `stride` apart. */
static Window window_of(const int64_t *v, int64_t n, int64_t along, int64_t stride, int64_t places)
{
    Window w = {.by = along, .of = places};
    int64_t low = 0, high = 0, inside = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t off = i / stride % along - v[i] * along / places;
        if (v[i] < 0 || v[i] >= places)
            continue;
        low = !inside || off < low ? off : low;
        high = !inside || off > high ? off : high;
        inside++;
    }
    w.from = low;
    w.width = inside ? high - low + 1 : 0;
    w.all = inside == n && along % places == 0 && inside == n / along * places * w.width;
    return w;
}

/* The index runs through the places again and again. */
static bool is_cycle(const int64_t *v, int64_t n, int64_t places)
{
    bool cycle = n > places;
    for (int64_t i = 0; cycle && i < n; i++)
        cycle = v[i] == i % places;
    return cycle;
}

/* An index of any form whose values can be told now narrows an axis to a window, that which leaves the fewest positions. */
static bool solve_window(Solve *s, Te *index, Te *place, int64_t places)
{
    TeBuilder *b = s->b;
    Te *told = te_rewrite(b, index, put_stage, NULL);
    IndexAxes x = index_axes(b, told);
    int axes[TE_AXES_MOST], n = 0, axis = -1;
    int64_t size = 1, stride = 1;
    for (int i = 0; i < s->n; i++) {
        if (!x.on[i])
            continue;
        if (!is_open(s, i) || s->n + 1 >= TE_AXES_MOST || size * s->extent[i] > EVALUATED_MOST)
            return false;
        size *= s->extent[i];
        axes[n++] = i;
    }
    Tensor *values = x.loads || !n || !size ? NULL : evaluated(s, told, n, axes);
    if (!values)
        return false;
    const int64_t *v = (const int64_t *)values->data;
    Window w = {0};
    bool cycle = n == 1 && is_cycle(v, size, places);
    for (int i = n; i-- > 0; stride *= s->extent[axes[i]]) {
        int64_t along = s->extent[axes[i]];
        Window one = window_of(v, size, along, stride, places);
        if (one.width < along && (axis < 0 || one.width * s->extent[axis] < w.width * along)) {
            axis = axes[i];
            w = one;
        }
    }
    tensor_release(values);
    if (cycle) {
        axis = axes[0];
        w = (Window){.by = 1, .of = 1, .width = (size + places - 1) / places};
    }
    if (axis < 0)
        return false;
    int open = s->n++;
    s->extent[open] = w.width;
    s->is[open] = te_axis(b, open);
    Te *first =
        w.by % w.of == 0
            ? te_binary(b, TE_MUL, place, te_int(b, w.by / w.of))
            : te_binary(b, TE_DIV, te_binary(b, TE_MUL, place, te_int(b, w.by)), te_int(b, w.of));
    Te *step = te_binary(b, TE_MUL, te_axis(b, open), te_int(b, cycle ? places : 1));
    if (!w.all && !cycle)
        demand_equal(s, index, place);
    solved(s, axis, te_binary(b, TE_ADD, te_binary(b, TE_ADD, first, te_int(b, w.from)), step));
    return true;
}

/* Reads stay within their tensors where axes may not. */
typedef struct Guarded {
    const Solve *s;
    Te *const *is;
} Guarded;

static Te *guard_load(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    const Guarded *g = data;
    (void)old;
    if (e->kind == TE_NODE_AXIS)
        return g->is[e->axis];
    if (e->kind != TE_NODE_LOAD || e->otherwise || !g->s->any_wild)
        return NULL;
    TeTensor t = b->tensors.at[e->tensor];
    bool within = true;
    for (int i = 0; i < e->n; i++)
        within = within && is_within(g->s, e->index[i], t.shape[i]);
    return within ? NULL : te_load_or(b, t, e->index, zero(b, e->dtype));
}

static bool is_zero(const Te *e)
{
    return !e || (e->kind == TE_NODE_CONST && value_as_double(e->value) == 0);
}

/* A product of the result's adjoint and other elements: it is 0 where the adjoint is read outside. */
static bool is_product(const Te *e)
{
    while (e->kind == TE_NODE_BINARY && e->op == TE_MUL && e->b->kind == TE_NODE_LOAD &&
           is_zero(e->b->otherwise))
        e = e->a;
    return e->kind == TE_NODE_LOAD;
}

/* `said`: so many axes of the stage need no condition. */
static Te *all_conditions(const Solve *s, int said)
{
    Te *all = NULL, *itself[TE_AXES_MOST];
    for (int i = 0; i < TE_AXES_MOST; i++)
        itself[i] = te_axis(s->b, i);
    for (size_t i = 0; i < s->conditions.n; i++)
        all = both(s->b, all, s->conditions.at[i]);
    for (int i = s->t.rank + said; i < s->n; i++)
        if (s->wild[i])
            all = both(s->b, all, is_inside(s->b, s->is[i], s->extent[i]));
    return all ? te_rewrite(s->b, all, guard_load, &(Guarded){s, itself}) : NULL;
}

/* The sum over axes behind those of the tensor, as an expression. */
static Te *written_out(const Solve *s, int n, const int64_t *reduced, int64_t terms, Te *body)
{
    TeBuilder *b = s->b;
    Te *is[TE_AXES_MOST], *sum = NULL;
    for (int i = 0; i < TE_AXES_MOST; i++)
        is[i] = te_axis(b, i);
    for (int64_t t = 0; t < terms; t++) {
        int64_t left = t;
        for (int i = n; i-- > 0; left /= reduced[i])
            is[s->t.rank + i] = te_int(b, left % reduced[i]);
        Te *term = with_axes(b, is, body);
        sum = sum ? te_binary(b, TE_ADD, sum, term) : term;
    }
    return sum;
}

/* The open axes, which are summed over, behind those of the tensor. */
static TeTensor summed(Solve *s, Te *body, bool product)
{
    TeBuilder *b = s->b;
    Te *now[TE_AXES_MOST];
    int64_t reduced[TE_AXES_MOST];
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        now[i] = te_axis(b, i);
        if (!is_open(s, i))
            continue;
        now[i] = s->extent[i] == 1 ? te_int(b, 0) : te_axis(b, s->t.rank + n);
        if (s->extent[i] != 1)
            reduced[n++] = s->extent[i];
    }
    int64_t terms = 1;
    for (int i = 0; i < n && terms <= TERMS_MOST; i++)
        terms *= reduced[i];
    body = with_axes(b, now, body);
    if (n && terms > 0 && terms <= TERMS_MOST && !product)
        return te_map(b, s->t.dtype, s->t.rank, s->t.shape,
                      written_out(s, n, reduced, terms, body));
    return te_reduce(b, n ? TE_SUM : TE_NO_REDUCE, s->t.dtype, s->t.rank, s->t.shape, n, reduced,
                     body);
}

/* A load to be undone, with what it was read for. */
typedef struct Read {
    TeStage s;
    Te *index[TENSOR_RANK_MOST];
    bool padded;
    Te *slope;
} Read;

/* The number of steps that the axis takes in the index at a time, where it stands nowhere else but in the adjoint; else 0. */
static int64_t strides_of(TeBuilder *b, const Read *r, int n, int i, int axis)
{
    int64_t k = 0, other;
    if (!slope_by(b, r->index[i], axis, &k, 0))
        return 0;
    for (int j = 0; j < n; j++)
        if (j != i && index_axes(b, r->index[j]).on[axis])
            return 0;
    for (const Te *e = r->slope; e->kind == TE_NODE_BINARY; e = e->a)
        if (index_axes(b, e->b).on[axis])
            return 0;
    /* What lies apart needs no sum. */
    for (int j = 0; j < r->s.rank + r->s.n_reduced; j++) {
        int64_t extent = j < r->s.rank ? r->s.shape[j] : r->s.reduced[j - r->s.rank];
        if (j != axis && slope_by(b, r->index[i], j, &other, 0) && other == 1 && extent <= k &&
            extent > 1)
            return 0;
    }
    return k < 0 ? -k : k;
}

typedef struct Replaced {
    const Te *old;
    Te *now;
} Replaced;

static Te *put_leaf(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    const Replaced *r = data;
    (void)b, (void)e;
    return old == r->old ? r->now : NULL;
}

/* An axis that an index takes in steps of k becomes one of all places, with zeros between those of the adjoint: so that what was a sum of
 * products, as convolutions are, stays one. */
static void dilate(TeBuilder *b, Read *r, int n)
{
    const Te *leaf = r->slope;
    if (!is_product(leaf))
        return;
    while (leaf->kind == TE_NODE_BINARY)
        leaf = leaf->a;
    TeTensor g = b->tensors.at[leaf->tensor];
    int64_t *shape = arena_copy(b->arena, r->s.shape, (size_t)r->s.rank * sizeof *shape);
    Te *at[TENSOR_RANK_MOST], *hit = NULL;
    for (int j = 0; j < r->s.rank; j++)
        at[j] = te_axis(b, j);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < r->s.rank; j++) {
            int64_t k = strides_of(b, r, n, i, j), slope;
            if (k < 2 || shape[j] < 2 || shape[j] != r->s.shape[j])
                continue;
            slope_by(b, r->index[i], j, &slope, 0);
            r->index[i] = te_binary(b, slope > 0 ? TE_ADD : TE_SUB, without_axis(b, r->index[i], j),
                                    te_axis(b, j));
            shape[j] = (shape[j] - 1) * k + 1;
            Te *on = te_binary(b, TE_EQ, te_binary(b, TE_MOD, at[j], te_int(b, k)), te_int(b, 0));
            at[j] = te_binary(b, TE_DIV, at[j], te_int(b, k));
            hit = both(b, hit, on);
        }
    if (!hit)
        return;
    TeTensor wide = te_map(b, g.dtype, r->s.rank, shape,
                           te_select(b, hit, te_load(b, g, at), zero(b, g.dtype)));
    r->s.shape = shape;
    r->slope = te_rewrite(b, r->slope, put_leaf, &(Replaced){leaf, load_all(b, wide)});
}

/* What stands for the elements of `t` that are read. */
static TeTensor gathered(TeBuilder *b, Read r, TeTensor t)
{
    int axes = r.s.rank + r.s.n_reduced;
    Solve s = {.b = b, .t = t, .n = t.rank + axes};
    Te *shifted[TE_AXES_MOST];
    if (s.n > TE_AXES_MOST) {
        diag_error(b->cx->diags, E0605_NO_GRADIENT, b->span,
                   "`%s` has too many axes to be differentiated", b->op->name);
        b->failed = true;
        return t;
    }
    dilate(b, &r, t.rank);
    for (int i = 0; i < s.n; i++) {
        int j = i - t.rank;
        s.extent[i] = j < 0 ? t.shape[i] : j < r.s.rank ? r.s.shape[j] : r.s.reduced[j - r.s.rank];
        s.is[i] = te_axis(b, i);
    }
    for (int i = 0; i < TE_AXES_MOST; i++)
        shifted[i] = te_axis(b, i + t.rank);
    bool done[TENSOR_RANK_MOST] = {0};
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < t.rank; i++) {
            if (done[i])
                continue;
            Te *place = te_axis(b, i);
            Te *index = with_axes(b, s.is, with_axes(b, shifted, r.index[i]));
            done[i] = (t.shape[i] == 1 && !r.padded) ||
                      (round == 0 && solve_linear(&s, index, place)) ||
                      (round == 1 && solve_window(&s, index, place, t.shape[i]));
            if (round == 2 && !done[i])
                demand_equal(&s, index, place);
        }
    Te *slope = with_axes(b, shifted, r.slope);
    Te *body = te_rewrite(b, slope, guard_load, &(Guarded){&s, s.is});
    Te *only = all_conditions(&s, is_product(slope) ? r.s.rank : 0);
    return summed(&s, only ? te_select(b, only, body, zero(b, t.dtype)) : body, is_product(slope));
}

static void add_adjoint(Adjoint *a, int id, TeTensor more)
{
    TeBuilder *b = a->b;
    TeTensor *sum = &a->sum[id];
    *sum = sum->rank < 0 ? more
                         : te_map(b, more.dtype, more.rank, more.shape,
                                  te_binary(b, TE_ADD, load_all(b, *sum), load_all(b, more)));
}

/* ---- scalar functions -------------------------------------------------------------------------------------------------------- */

/* The slope of y = op(x) times g; NULL: zero. */
static Te *unary_slope(TeBuilder *b, const Te *y, Te *g)
{
    Te *x = y->a, *self = (Te *)(uintptr_t)y, *one = te_number(b, x->dtype, 1);
    Te *square = te_binary(b, TE_MUL, x, x);
    switch ((TeOp)y->op) {
    case TE_NEG: return te_unary(b, TE_NEG, g);
    case TE_ABS:
        return te_select(b, te_binary(b, TE_LT, x, zero(b, x->dtype)), te_unary(b, TE_NEG, g), g);
    case TE_EXP: return te_binary(b, TE_MUL, g, self);
    case TE_LOG: return te_binary(b, TE_DIV, g, x);
    case TE_LOG2: return te_binary(b, TE_DIV, g, times(b, x, 0.6931471805599453));
    case TE_LOG10: return te_binary(b, TE_DIV, g, times(b, x, 2.302585092994046));
    case TE_SQRT: return te_binary(b, TE_DIV, times(b, g, 0.5), self);
    case TE_RSQRT: return te_binary(b, TE_DIV, te_binary(b, TE_MUL, times(b, g, -0.5), self), x);
    case TE_TANH:
        return te_binary(b, TE_MUL, g, te_binary(b, TE_SUB, one, te_binary(b, TE_MUL, self, self)));
    case TE_SIGMOID:
        return te_binary(b, TE_MUL, te_binary(b, TE_MUL, g, self), te_binary(b, TE_SUB, one, self));
    case TE_ERF:
        return te_binary(b, TE_MUL, times(b, g, 1.1283791670955126),
                         te_unary(b, TE_EXP, te_unary(b, TE_NEG, square)));
    case TE_SIN: return te_binary(b, TE_MUL, g, te_unary(b, TE_COS, x));
    case TE_COS: return te_binary(b, TE_MUL, te_unary(b, TE_NEG, g), te_unary(b, TE_SIN, x));
    case TE_TAN:
        return te_binary(b, TE_MUL, g, te_binary(b, TE_ADD, one, te_binary(b, TE_MUL, self, self)));
    case TE_SINH: return te_binary(b, TE_MUL, g, te_unary(b, TE_COSH, x));
    case TE_COSH: return te_binary(b, TE_MUL, g, te_unary(b, TE_SINH, x));
    case TE_ASIN:
        return te_binary(b, TE_MUL, g, te_unary(b, TE_RSQRT, te_binary(b, TE_SUB, one, square)));
    case TE_ACOS:
        return te_binary(b, TE_MUL, te_unary(b, TE_NEG, g),
                         te_unary(b, TE_RSQRT, te_binary(b, TE_SUB, one, square)));
    case TE_ATAN: return te_binary(b, TE_DIV, g, te_binary(b, TE_ADD, one, square));
    case TE_ASINH:
        return te_binary(b, TE_MUL, g, te_unary(b, TE_RSQRT, te_binary(b, TE_ADD, square, one)));
    case TE_ACOSH:
        return te_binary(b, TE_MUL, g, te_unary(b, TE_RSQRT, te_binary(b, TE_SUB, square, one)));
    case TE_ATANH: return te_binary(b, TE_DIV, g, te_binary(b, TE_SUB, one, square));
    default: return NULL; /* steps, and what is no number */
    }
}

/* Those of z = op(x, y) times g. */
static void binary_slopes(TeBuilder *b, const Te *z, Te *g, Te *out[2])
{
    Te *x = z->a, *y = z->b, *self = (Te *)(uintptr_t)z;
    Te *none = zero(b, z->dtype);
    switch ((TeOp)z->op) {
    case TE_ADD: out[0] = out[1] = g; break;
    case TE_SUB: out[0] = g, out[1] = te_unary(b, TE_NEG, g); break;
    case TE_MUL: out[0] = te_binary(b, TE_MUL, g, y), out[1] = te_binary(b, TE_MUL, g, x); break;
    case TE_DIV:
        out[0] = te_binary(b, TE_DIV, g, y);
        out[1] = te_unary(b, TE_NEG, te_binary(b, TE_DIV, te_binary(b, TE_MUL, g, self), y));
        break;
    case TE_MOD:
    case TE_FLOORMOD: {
        TeOp whole = z->op == TE_MOD ? TE_TRUNC : TE_FLOOR;
        out[0] = g;
        out[1] = te_unary(b, TE_NEG,
                          te_binary(b, TE_MUL, g, te_unary(b, whole, te_binary(b, TE_DIV, x, y))));
        break;
    }
    case TE_POW: {
        Te *less = te_binary(b, TE_POW, x, te_binary(b, TE_SUB, y, te_number(b, y->dtype, 1)));
        out[0] = te_binary(b, TE_MUL, te_binary(b, TE_MUL, g, y), less);
        out[1] = te_binary(b, TE_MUL, te_binary(b, TE_MUL, g, self), te_unary(b, TE_LOG, x));
        break;
    }
    case TE_MAX:
    case TE_MIN: {
        Te *first = te_binary(b, z->op == TE_MAX ? TE_GE : TE_LE, x, y);
        out[0] = te_select(b, first, g, none);
        out[1] = te_select(b, first, none, g);
        break;
    }
    default: break;
    }
}

/* ---- a stage ------------------------------------------------------------------------------------------------------------------- */

static Te *note_node(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    Back *k = data;
    (void)e;
    Te *node = (Te *)(uintptr_t)old;
    bool active = node->kind == TE_NODE_LOAD && k->a->active[node->tensor];
    int from = node->kind == TE_NODE_LOAD ? node->n : 0; /* indices are no numbers with slopes */
    for (int i = from; i < te_children(node); i++)
        active = active || ptrmap_has(&k->active, te_child(node, i));
    if (active && is_float(node->dtype))
        ptrmap_put(&k->active, node, node);
    vec_push(&k->nodes, b->arena, node);
    return node;
}

static void add_slope(Back *k, Te *node, Te *more)
{
    if (!more || !ptrmap_has(&k->active, node))
        return;
    void **at = ptrmap_slot(&k->slopes, node);
    *at = *at ? te_binary(k->a->b, TE_ADD, *at, more) : more;
}

static void back_load(Back *k, Te *e, Te *g)
{
    TeBuilder *b = k->a->b;
    if (e->otherwise && ptrmap_has(&k->active, e->otherwise)) {
        TeTensor t = b->tensors.at[e->tensor];
        Te *in = NULL;
        for (int i = 0; i < e->n; i++)
            in = both(b, in, is_inside(b, e->index[i], t.shape[i]));
        if (in)
            add_slope(k, e->otherwise, te_select(b, in, zero(b, g->dtype), g));
    }
    if (!k->a->active[e->tensor])
        return;
    Read r = {.s = k->s, .padded = e->otherwise, .slope = g};
    memcpy(r.index, e->index, e->n * sizeof *e->index);
    add_adjoint(k->a, e->tensor, gathered(b, r, b->tensors.at[e->tensor]));
}

static void back_node(Back *k, Te *e, Te *g)
{
    TeBuilder *b = k->a->b;
    Te *two[2] = {0};
    switch ((TeKind)e->kind) {
    case TE_NODE_CONST:
    case TE_NODE_AXIS: break;
    case TE_NODE_LOAD: back_load(k, e, g); break;
    case TE_NODE_UNARY: add_slope(k, e->a, unary_slope(b, e, g)); break;
    case TE_NODE_BINARY:
        binary_slopes(b, e, g, two);
        add_slope(k, e->a, two[0]);
        add_slope(k, e->b, two[1]);
        break;
    case TE_NODE_CAST:
        add_slope(k, e->a, is_float(e->a->dtype) ? te_cast(b, e->a->dtype, g) : NULL);
        break;
    case TE_NODE_SELECT:
        add_slope(k, e->b, te_select(b, e->a, g, zero(b, g->dtype)));
        add_slope(k, e->c, te_select(b, e->a, zero(b, g->dtype), g));
        break;
    }
}

/* The position among the reduced axes, and the adjoint of the body at each. */
static Te *reduced_slope(const Back *k, Te *g)
{
    TeBuilder *b = k->a->b;
    const TeStage *s = &k->s;
    Te *at[TE_AXES_MOST], *mine = NULL;
    for (int i = 0; i < s->rank + s->n_reduced; i++)
        at[i] = te_axis(b, i);
    mine = te_flatten(b, s->n_reduced, s->reduced, at + s->rank);
    if (s->reduce == TE_REDUCE_MAX || s->reduce == TE_REDUCE_MIN) {
        TeTensor first = te_reduce(b, s->reduce == TE_REDUCE_MAX ? TE_ARGMAX : TE_ARGMIN,
                                   (DType){DTYPE_CODE_INT, 64, 1}, s->rank, s->shape, s->n_reduced,
                                   s->reduced, s->body);
        return te_select(b, te_binary(b, TE_EQ, te_load(b, first, at), mine), g, zero(b, g->dtype));
    }
    if (s->reduce != TE_PROD)
        return g;
    /* The product of the others, zeros and all. */
    int64_t shape[TE_AXES_MOST];
    Te *is[TE_AXES_MOST];
    for (int i = 0; i < s->rank + s->n_reduced; i++) {
        shape[i] = i < s->rank ? s->shape[i] : s->reduced[i - s->rank];
        is[i] = te_axis(b, i < s->rank ? i : i + s->n_reduced);
    }
    Te *body = with_axes(b, is, s->body);
    body = te_select(b, te_binary(b, TE_EQ, mine, with_axes(b, is, mine)),
                     te_number(b, body->dtype, 1), body);
    TeTensor others = te_reduce(b, TE_PROD, s->dtype, s->rank + s->n_reduced, shape, s->n_reduced,
                                s->reduced, body);
    return te_binary(b, TE_MUL, g, te_load(b, others, at));
}

static void back_stage(Adjoint *a, TeStage s, TeTensor grad)
{
    TeBuilder *b = a->b;
    Back k = {.a = a, .s = s};
    te_rewrite(b, s.body, note_node, &k);
    Te *g = reduced_slope(&k, load_all(b, grad));
    add_slope(&k, s.body, te_cast(b, s.body->dtype, g));
    for (size_t i = k.nodes.n; i-- > 0 && !b->failed;) {
        Te *slope = ptrmap_find(&k.slopes, k.nodes.at[i]);
        if (slope)
            back_node(&k, k.nodes.at[i], slope);
    }
    ptrmap_deinit(&k.active);
    ptrmap_deinit(&k.slopes);
}

typedef struct Reads {
    const bool *active;
    bool any;
} Reads;

static void note_read(void *data, Te *e)
{
    Reads *r = data;
    r->any |= e->kind == TE_NODE_LOAD && r->active[e->tensor];
}

TeTensor te_adjoint(TeBuilder *b, size_t first, int n, const TeTensor *outputs,
                    const TeTensor *grads, TeTensor wrt)
{
    size_t tensors = b->tensors.n, end = b->stages.n;
    Adjoint a = {.b = b,
                 .active = arena_alloc_must(b->arena, tensors, sizeof *a.active),
                 .sum = arena_alloc_must(b->arena, tensors, sizeof *a.sum)};
    for (size_t i = 0; i < tensors; i++)
        a.sum[i].rank = -1;
    a.active[wrt.id] = true;
    for (size_t i = first; i < end; i++) {
        Reads r = {.active = a.active};
        PtrMap seen = {0};
        te_each(b->arena, &seen, b->stages.at[i].body, note_read, &r);
        ptrmap_deinit(&seen);
        a.active[b->n_inputs + (int)i] = r.any && is_float(b->stages.at[i].dtype);
    }
    for (int i = 0; i < n; i++)
        if (a.active[outputs[i].id])
            add_adjoint(&a, outputs[i].id, grads[i]);
    for (size_t i = end; i-- > first && !b->failed;) {
        int id = b->n_inputs + (int)i;
        if (a.active[id] && a.sum[id].rank >= 0)
            back_stage(&a, b->stages.at[i], a.sum[id]);
    }
    TeTensor sum = a.sum[wrt.id];
    return sum.rank >= 0 ? sum : te_map(b, wrt.dtype, wrt.rank, wrt.shape, zero(b, wrt.dtype));
}
