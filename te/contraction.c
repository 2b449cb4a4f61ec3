/* Contractions as matrix products: C[m, n] = sum over k of P[m, k] * Q[k, n], once for each position of
 * the axes that are left over.
 *
 * The last axes of the space that only one factor knows are n, and that factor is Q; of the other factor's
 * axes the largest neighbouring ones are m. A factor that lies as a matrix is used where it is, also
 * transposed; another (the data of a convolution, which is read many times and padded) is first packed,
 * a few megabytes at a time. Where both k and m are few, that and the library would cost more than the product:
 * the rows of Q are then taken a strip at a time, within the first cache. */
#include "te/internal.h"

#include "base/memory.h"
#include "base/number.h"

#include <stdlib.h>

typedef struct Axes {
    int n;
    int at[TE_AXES_MOST];
    int64_t size; /* product of the extents */
} Axes;

/* One factor: where it lies, and how it is packed where it cannot be used so. */
typedef struct Factor {
    const Te *load;
    TeAffine at;
    bool direct;
    int64_t row, column; /* strides of a direct one: of m and k, or of k and n */
    Strip *pack;
} Factor;

typedef struct Gemm {
    TeRun *run;
    const TeStage *s;
    Factor p, q;
    Axes m, n, k, outer;
    int64_t row; /* stride of m in C */
    size_t size; /* bytes an element */
    char *room_p, *room_q; /* packed parts */
    int64_t part_m, part_n; /* how much is packed at once */
    bool thin; /* few rows of few terms */
    int64_t fixed[TE_AXES_MOST]; /* values of the outer axes */
    char *out;
} Gemm;

static int64_t extent_of(const TeStage *s, int axis)
{
    return axis < s->rank ? s->shape[axis] : s->reduced[axis - s->rank];
}

static void add_axis(Axes *a, int axis, int64_t extent)
{
    a->at[a->n++] = axis;
    a->size *= extent;
}

/* Sorts the axes of the space into n, m and outer ones; false when there is no n. */
static bool find_axes(Gemm *g, TeContraction *c)
{
    const TeStage *s = g->s;
    const TeSide *side = c->sides.of;
    bool turned = c->sides.turned;
    int last = s->rank - 1;
    while (last >= 0 && side[last] == TE_SIDE_NONE)
        last--;
    if (last < 0 || side[last] != TE_SIDE_COLUMNS)
        return false;
    g->p.load = turned ? s->body->b : s->body->a;
    g->q.load = turned ? s->body->a : s->body->b;
    g->p.at = turned ? c->b : c->a;
    g->q.at = turned ? c->a : c->b;
    int first = last;
    while (first > 0 && (side[first - 1] == TE_SIDE_NONE || side[first - 1] == TE_SIDE_COLUMNS))
        first--;
    int best = -1, end = -1;
    int64_t most = 0;
    for (int i = 0; i < first; i++) {
        if (side[i] != TE_SIDE_ROWS)
            continue;
        int64_t size = 1;
        int j = i;
        for (; j < first && (side[j] == TE_SIDE_NONE || side[j] == TE_SIDE_ROWS); j++)
            size *= s->shape[j];
        if (size > most)
            most = size, best = i, end = j;
        i = j - 1;
    }
    for (int i = 0; i <= last; i++)
        if (side[i] != TE_SIDE_NONE)
            add_axis(i >= first ? &g->n : i >= best && i < end ? &g->m : &g->outer, i, s->shape[i]);
    for (int i = s->rank; i < s->rank + s->n_reduced; i++) {
        if (side[i] == TE_SIDE_EACH)
            return false;
        if (side[i] == TE_SIDE_FOLDS)
            add_axis(&g->k, i, extent_of(s, i));
    }
    return true;
}

/* The stride of neighbouring axes taken as one; false when they are not evenly spaced. */
static bool merged(const TeStage *s, const TeAffine *f, const Axes *a, int64_t *stride)
{
    *stride = a->n ? f->stride[a->at[a->n - 1]] : 1;
    for (int i = a->n - 1; i > 0; i--)
        if (f->stride[a->at[i - 1]] != f->stride[a->at[i]] * extent_of(s, a->at[i]))
            return false;
    return *stride > 0;
}

/* Whether rows × columns lie as a matrix or a transposed one. */
static bool lies_as_matrix(const TeStage *s, Factor *f, const Axes *rows, const Axes *columns)
{
    if (f->load->otherwise || !merged(s, &f->at, rows, &f->row) ||
        !merged(s, &f->at, columns, &f->column))
        return f->direct = false;
    /* A single row or column has no stride of its own. */
    if (rows->n == 0)
        f->row = f->column == 1 ? columns->size : 1;
    if (columns->n == 0)
        f->column = f->row == 1 ? rows->size : 1;
    return f->direct = (f->column == 1 && f->row >= columns->size) ||
                       (f->row == 1 && f->column >= rows->size);
}

static void sort_axes(Axes *a, const TeAffine *by)
{
    for (int i = 1; i < a->n; i++)
        for (int j = i; j > 0 && by->stride[a->at[j]] > by->stride[a->at[j - 1]]; j--) {
            int axis = a->at[j];
            a->at[j] = a->at[j - 1];
            a->at[j - 1] = axis;
        }
}

/* The order of the reduced axes in which most factors lie as matrices. */
static void order_reduced(Gemm *g)
{
    Axes best = g->k;
    int most = -1;
    for (int order = 0; order < 3; order++) {
        if (order)
            sort_axes(&g->k, order == 1 ? &g->p.at : &g->q.at);
        int good =
            lies_as_matrix(g->s, &g->p, &g->m, &g->k) + lies_as_matrix(g->s, &g->q, &g->k, &g->n);
        if (good > most)
            most = good, best = g->k;
    }
    g->k = best;
    lies_as_matrix(g->s, &g->p, &g->m, &g->k);
    lies_as_matrix(g->s, &g->q, &g->k, &g->n);
}

/* ---- packing ------------------------------------------------------------------------------------- */

static void add_inner(const TeStage *s, StripSpace *space, const Axes *a)
{
    for (int i = 0; i < a->n; i++) {
        space->axis[space->n] = a->at[i];
        space->extent[space->n++] = space->high[a->at[i]] = extent_of(s, a->at[i]);
    }
}

static void add_fixed(const TeStage *s, StripSpace *space, const Axes *a)
{
    for (int i = 0; i < a->n; i++) {
        space->fixed[space->n_fixed++] = a->at[i];
        space->high[a->at[i]] = extent_of(s, a->at[i]);
    }
}

enum { PART = 1 << 20, THIN_TERMS = 16, THIN_ROWS = 64, THIN_STRIP = 512 };

/* P is packed along m and k, Q along n for one k after the other. */
static bool prepare(Gemm *g)
{
    TeRun *run = g->run;
    g->part_m = g->m.size;
    g->part_n = g->n.size;
    if (!g->p.direct) {
        StripSpace space = {0};
        add_inner(g->s, &space, &g->m);
        add_inner(g->s, &space, &g->k);
        add_fixed(g->s, &space, &g->outer);
        g->p.pack = strip_make(&run->arena, run->p, run->data, g->p.load, &space);
        int64_t rows = PART / g->k.size + 1;
        g->part_m = rows < g->m.size ? rows : g->m.size;
    }
    if (!g->q.direct) {
        StripSpace space = {0};
        add_inner(g->s, &space, &g->n);
        add_fixed(g->s, &space, &g->outer);
        add_fixed(g->s, &space, &g->k);
        g->q.pack = strip_make(&run->arena, run->p, run->data, g->q.load, &space);
        int64_t columns = (PART / g->k.size + 63) & ~(int64_t)63;
        g->part_n = columns < g->n.size ? columns : g->n.size;
    }
    g->thin = g->p.direct && g->q.pack && g->k.size <= THIN_TERMS && g->m.size <= THIN_ROWS;
    if (g->thin)
        return true;
    size_t p = g->p.pack ? (size_t)g->part_m * (size_t)g->k.size * g->size : 0;
    size_t q = g->q.pack ? (size_t)g->part_n * (size_t)g->k.size * g->size : 0;
    if (p + q && !(g->room_p = arena_alloc_array(&run->arena, p + q + 64, 1)))
        return false;
    g->room_q = g->room_p ? g->room_p + ((p + 63) & ~(size_t)63) : NULL;
    return true;
}

typedef struct Pack {
    Gemm *g;
    int64_t from, n;
} Pack;

static bool pack_begin(const Gemm *g, StripFrame *f, const Strip *s)
{
    for (int i = 0; i < g->outer.n; i++)
        f->fixed[i] = g->fixed[i];
    for (int i = 0; i < g->k.n; i++)
        f->fixed[g->outer.n + i] = 0;
    if (strip_begin(f, s, strip_length(s)))
        return true;
    atomic_store(&g->run->refused, true);
    return false;
}

static void pack_strips(const TeRun *run, StripFrame *f, int64_t from, int64_t n, char *to,
                        size_t size)
{
    int64_t length = strip_length(f->strip);
    while (n > 0 && !te_run_waits(run)) {
        int64_t now = n < length ? n : length;
        strip_eval(f, from, now, to);
        to += (size_t)now * size;
        from += now;
        n -= now;
    }
}

/* Rows of P, each with all of k. */
static void pack_p(void *data, int64_t from, int64_t to)
{
    const Pack *p = data;
    const Gemm *g = p->g;
    StripFrame f;
    if (!pack_begin(g, &f, g->p.pack))
        return;
    pack_strips(g->run, &f, (p->from + from) * g->k.size, (to - from) * g->k.size,
                g->room_p + (size_t)(from * g->k.size) * g->size, g->size);
    strip_end(&f);
}

/* Row k of Q, some of n. */
static void pack_row(const Gemm *g, StripFrame *f, int64_t k, int64_t from, int64_t n, char *to)
{
    for (int i = g->k.n - 1; i >= 0; i--) {
        int64_t e = extent_of(g->s, g->k.at[i]);
        f->fixed[g->outer.n + i] = k % e;
        k /= e;
    }
    pack_strips(g->run, f, from, n, to, g->size);
}

/* Rows k of Q, each with some of n. */
static void pack_q(void *data, int64_t from, int64_t to)
{
    const Pack *p = data;
    const Gemm *g = p->g;
    StripFrame f;
    if (!pack_begin(g, &f, g->q.pack))
        return;
    for (int64_t k = from; k < to; k++)
        pack_row(g, &f, k, p->from, p->n, g->room_q + (size_t)(k * p->n) * g->size);
    strip_end(&f);
}

/* ---- products ------------------------------------------------------------------------------------ */

typedef struct Matrix {
    const char *at;
    int64_t ld;
    bool transposed;
} Matrix;

static int64_t offset_of(const Gemm *g, const TeAffine *f)
{
    int64_t o = f->offset;
    for (int i = 0; i < g->outer.n; i++)
        o += g->fixed[i] * f->stride[g->outer.at[i]];
    return o;
}

/* The part of a factor that begins at a row and a column. */
static Matrix matrix_of(const Gemm *g, const Factor *f, const char *room, int64_t ld, int64_t row,
                        int64_t column)
{
    if (!f->direct)
        return (Matrix){room, ld, false};
    const char *data = g->run->data[f->at.tensor];
    int64_t o = offset_of(g, &f->at) + row * f->row + column * f->column;
    bool plain = f->column == 1;
    return (Matrix){data + (size_t)o * g->size, plain ? f->row : f->column, !plain};
}

static void multiply(const Gemm *g, int64_t m0, int64_t m, int64_t n0, int64_t n, char *out)
{
    Matrix p = matrix_of(g, &g->p, g->room_p, g->k.size, m0, 0);
    Matrix q = matrix_of(g, &g->q, g->room_q, n, 0, n0);
    char *c = out + (size_t)(m0 * g->row + n0) * g->size;
    Blas *blas = g->run->cx->blas;
    if (g->size == sizeof(float))
        blas_sgemm(blas, p.transposed, q.transposed, m, n, g->k.size, 1,
                   (const float *)(const void *)p.at, p.ld, (const float *)(const void *)q.at, q.ld,
                   0, (float *)(void *)c, g->row);
    else
        blas_dgemm(blas, p.transposed, q.transposed, m, n, g->k.size, 1,
                   (const double *)(const void *)p.at, p.ld, (const double *)(const void *)q.at,
                   q.ld, 0, (double *)(void *)c, g->row);
}

typedef struct Thin {
    const Gemm *g;
    char *out;
} Thin;

/* Strips of columns. */
static void thin_columns(void *data, int64_t from, int64_t to)
{
    const Thin *t = data;
    const Gemm *g = t->g;
    StripFrame f;
    Matrix p = matrix_of(g, &g->p, NULL, 0, 0, 0);
    int64_t row = p.transposed ? 1 : p.ld, step = p.transposed ? p.ld : 1;
    char *room = memory_alloc((size_t)(THIN_STRIP * g->k.size) * g->size);
    if (!room)
        atomic_store(&g->run->refused, true);
    if (!room || !pack_begin(g, &f, g->q.pack)) {
        free(room);
        return;
    }
    for (; from < to && !te_run_waits(g->run); from++) {
        int64_t n0 = from * THIN_STRIP,
                n = g->n.size - n0 < THIN_STRIP ? g->n.size - n0 : THIN_STRIP;
        for (int64_t k = 0; k < g->k.size; k++)
            pack_row(g, &f, k, n0, n, room + (size_t)(k * n) * g->size);
        for (int64_t m = 0; m < g->m.size; m++)
            te_loop_weigh(dtype_id(g->s->dtype), t->out + (size_t)(m * g->row + n0) * g->size, room,
                          p.at + (size_t)(m * row) * g->size, step, g->k.size, n);
    }
    strip_end(&f);
    free(room);
}

static void product(Gemm *g, char *out)
{
    if (g->thin) {
        Thin t = {g, out};
        pool_for(g->run->cx->pool, (g->n.size + THIN_STRIP - 1) / THIN_STRIP, 1, thin_columns, &t);
        return;
    }
    for (int64_t n0 = 0; n0 < g->n.size; n0 += g->part_n) {
        int64_t n = g->n.size - n0 < g->part_n ? g->n.size - n0 : g->part_n;
        Pack pack = {g, n0, n};
        if (g->q.pack)
            pool_for(g->run->cx->pool, g->k.size, 1 + 16384 / n, pack_q, &pack);
        for (int64_t m0 = 0; m0 < g->m.size; m0 += g->part_m) {
            int64_t m = g->m.size - m0 < g->part_m ? g->m.size - m0 : g->part_m;
            Pack rows = {g, m0, m};
            if (g->p.pack)
                pool_for(g->run->cx->pool, m, 1 + 16384 / g->k.size, pack_p, &rows);
            if (te_run_stopped(g->run))
                return;
            multiply(g, m0, m, n0, n, out);
        }
    }
}

/* Packing pays when each packed element is used several times. */
static bool pays(const Gemm *g)
{
    if (g->k.size == 0 || g->m.size * g->n.size * g->k.size < 1024)
        return false;
    if (g->k.size < 4 && (!g->p.direct || !g->q.direct))
        return false;
    return (g->q.direct || g->m.size >= 4) && (g->p.direct || g->n.size >= 4);
}

bool te_run_contraction(TeRun *run, int stage, char *out)
{
    TeContraction c;
    const TeStage *s = &run->p->stages[stage];
    DTypeId id = dtype_id(s->dtype);
    if ((id != DT_FLOAT32 && id != DT_FLOAT64) || !te_contraction(run->p, stage, &c))
        return false;
    Gemm g = {.run = run,
              .s = s,
              .out = out,
              .size = dtype_size(s->dtype),
              .m = {.size = 1},
              .n = {.size = 1},
              .k = {.size = 1},
              .outer = {.size = 1}};
    if (!find_axes(&g, &c))
        return false;
    order_reduced(&g);
    if (!pays(&g) || !prepare(&g))
        return false;
    int64_t strides[TENSOR_RANK_MOST];
    shape_strides(s->rank, s->shape, strides);
    g.row = g.m.n ? strides[g.m.at[g.m.n - 1]] : g.n.size;
    for (int64_t i = 0; i < g.outer.size && !te_run_stopped(run); i++) {
        int64_t rest = i, at = 0;
        for (int k = g.outer.n - 1; k >= 0; k--) {
            int64_t e = extent_of(s, g.outer.at[k]);
            g.fixed[k] = rest % e;
            rest /= e;
            at += g.fixed[k] * strides[g.outer.at[k]];
        }
        product(&g, out + (size_t)at * g.size);
    }
    return true;
}
