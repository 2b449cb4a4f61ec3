/* Reading images between their pixels, at places that are data. */
#include "stdlib/ops/ops.h"

#include "base/number.h"

#include <math.h>

enum { SPATIAL_MOST = 3, TAPS_MOST = 4 };

static const DType wide = {DTYPE_CODE_INT, 64, 1};

/* The type to compute in: float64 for float64, else float32. */
static DType real_dtype(DType d)
{
    return (DType){DTYPE_CODE_FLOAT, dtype_is_float(d) && d.bits == 64 ? 64 : 32, 1};
}

static Te *plus(TeBuilder *b, Te *x, double v)
{
    return te_binary(b, TE_ADD, x, te_number(b, x->dtype, v));
}

static Te *times(TeBuilder *b, Te *x, double v)
{
    return te_binary(b, TE_MUL, x, te_number(b, x->dtype, v));
}

/* What to do with places outside: nothing (they count as 0), bring them to the border, or turn them back there. */
typedef enum Outside { ZEROS, BORDER, REFLECTION } Outside;
typedef enum Method { NEAREST, LINEAR, CUBIC } Method;

typedef struct Sampling {
    Method method;
    Outside outside;
    bool corners; /* the border runs through the middle of the last pixel, not behind it */
} Sampling;

/* The pixels that a result is made of along one axis, and their weights: stages over the axes of the coordinates. */
typedef struct Taps {
    int n;
    TeTensor at[TAPS_MOST], weight[TAPS_MOST];
} Taps;

static Te *reflected(TeBuilder *b, Te *x, double low, double span)
{
    if (span <= 0)
        return te_number(b, x->dtype, 0);
    Te *d = te_unary(b, TE_ABS, plus(b, x, -low)), *s = te_number(b, x->dtype, span);
    Te *rest = te_binary(b, TE_MOD, d, s);
    Te *turns = te_unary(b, TE_FLOOR, te_binary(b, TE_DIV, d, s));
    Te *odd = te_binary(b, TE_EQ, te_binary(b, TE_MOD, turns, te_number(b, x->dtype, 2)),
                        te_number(b, x->dtype, 1));
    return plus(b, te_select(b, odd, te_binary(b, TE_SUB, s, rest), rest), low);
}

static Te *brought_in(TeBuilder *b, const Sampling *s, Te *x, int64_t extent)
{
    double last = (double)(extent - 1);
    if (s->outside == ZEROS)
        return x;
    if (s->outside == REFLECTION)
        x = reflected(b, x, s->corners ? 0 : -0.5, s->corners ? last : last + 1);
    x = te_binary(b, TE_MAX, x, te_number(b, x->dtype, 0));
    return te_binary(b, TE_MIN, x, te_number(b, x->dtype, last));
}

/* To the nearest whole number, halves to the even one. */
static Te *nearest(TeBuilder *b, Te *x)
{
    Te *up = te_unary(b, TE_FLOOR, plus(b, x, 0.5)), *two = te_number(b, x->dtype, 2);
    Te *half = te_binary(b, TE_EQ, te_binary(b, TE_SUB, up, x), te_number(b, x->dtype, 0.5));
    Te *odd = te_binary(b, TE_NE, te_binary(b, TE_FLOORMOD, up, two), te_number(b, x->dtype, 0));
    return te_select(b, te_binary(b, TE_AND, half, odd), plus(b, up, -1), up);
}

/* Cubic convolution with a = -0.75 at distance d, below 1 or between 1 and 2. */
static Te *cubic(TeBuilder *b, Te *d, bool near)
{
    const double a = -0.75;
    Te *v = plus(b, times(b, d, near ? a + 2 : a), near ? -(a + 3) : -5 * a);
    v = te_binary(b, TE_MUL, v, d);
    v = te_binary(b, TE_MUL, near ? v : plus(b, v, 8 * a), d);
    return plus(b, v, near ? 1 : -4 * a);
}

static void add_tap(TeBuilder *b, Taps *t, TeTensor x, Te *at, Te *weight)
{
    t->at[t->n] = te_map(b, wide, x.rank, x.shape, te_cast(b, wide, at));
    t->weight[t->n++] = te_map(b, weight->dtype, x.rank, x.shape, weight);
}

/* `x` holds coordinates in pixels. */
static Taps taps_of(TeBuilder *b, const Sampling *s, TeTensor x, int64_t extent)
{
    Taps t = {0};
    Te *v = ops_at_axes(b, x), *one = te_number(b, x.dtype, 1);
    if (s->method != CUBIC)
        v = brought_in(b, s, v, extent);
    if (s->method == NEAREST) {
        add_tap(b, &t, x, nearest(b, v), one);
        return t;
    }
    Te *low = te_unary(b, TE_FLOOR, v), *part = te_binary(b, TE_SUB, v, low);
    if (s->method == LINEAR) {
        add_tap(b, &t, x, low, te_binary(b, TE_SUB, one, part));
        add_tap(b, &t, x, plus(b, low, 1), part);
        return t;
    }
    for (int k = -1; k < 3; k++) {
        Te *d = k < 1 ? plus(b, part, -k) : te_binary(b, TE_SUB, te_number(b, x.dtype, k), part);
        add_tap(b, &t, x, brought_in(b, s, plus(b, low, k), extent), cubic(b, d, k == 0 || k == 1));
    }
    return t;
}

/* The sum over all combinations of taps, one an axis. `index` is of the data, the spatial axes at `at`; `place` of the coordinates.
 * Pixels outside are 0. */
static Te *sum_taps(TeBuilder *b, TeTensor x, Te **index, int n, const int *at, const Taps *taps,
                    Te *const *const *place)
{
    DType d = taps[0].weight[0].dtype;
    int k[SPATIAL_MOST] = {0}, i;
    Te *sum = NULL;
    do {
        Te *weight = NULL;
        for (i = 0; i < n; i++) {
            index[at[i]] = te_load(b, taps[i].at[k[i]], place[i]);
            Te *w = te_load(b, taps[i].weight[k[i]], place[i]);
            weight = weight ? te_binary(b, TE_MUL, weight, w) : w;
        }
        Te *v = te_cast(b, d, te_load_or(b, x, index, te_number(b, x.dtype, 0)));
        v = te_binary(b, TE_MUL, v, weight);
        sum = sum ? te_binary(b, TE_ADD, sum, v) : v;
        for (i = n - 1; i >= 0 && ++k[i] == taps[i].n; i--)
            k[i] = 0;
    } while (i >= 0);
    return sum;
}

/* ---- image.grid_sample ---------------------------------------------------------------------------- */

static const char *const grid_letters[] = {NULL, NULL, "NCHW", "NCDHW"};

static void sampling_of(const Attrs *a, Sampling *s)
{
    Str method = attrs_string(a, "method"), outside = attrs_string(a, "padding_mode");
    s->corners = attrs_bool(a, "align_corners");
    s->method = str_is(method, "nearest") ? NEAREST : str_is(method, "bicubic") ? CUBIC : LINEAR;
    s->outside = str_is(outside, "border")       ? BORDER
                 : str_is(outside, "reflection") ? REFLECTION
                                                 : ZEROS;
}

static RelResult rel_grid_sample(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *grid = t ? rel_tensor(r, 1) : NULL;
    Sampling s;
    int at[SPATIAL_MOST + 2];
    if (!grid)
        return rel_blocked(r);
    if (t->n != 5 && !rel_rank(r, 0, t, 4))
        return REL_FAILED;
    int n = (int)t->n - 2;
    if (!rel_rank(r, 1, grid, t->n) || !rel_layout(r, "layout", grid_letters[n], at))
        return REL_FAILED;
    sampling_of(r->attrs, &s);
    if (n == 3 && s.method == CUBIC) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`method` is \"bicubic\" of images alone");
        return REL_FAILED;
    }
    if (!dim_agrees(grid->dims[1], n) || !dim_agrees(grid->dims[0], t->dims[at[0]])) {
        rel_error(r, E0202_SHAPE, 1, "`%s` does not hold %d coordinates for each place of `%s`",
                  type_str(r->cx, grid), n, type_str(r->cx, t));
        return REL_FAILED;
    }
    Dim dims[SPATIAL_MOST + 2];
    for (int i = 0; i < n + 2; i++)
        dims[at[i]] = i < 2 ? t->dims[at[i]] : grid->dims[i];
    return rel_out_tensor(r, t->dtype, t->n, dims);
}

/* Coordinate i of the grid, which goes from -1 to 1 over the image, in pixels: a stage over batch and places. The grid's first
 * coordinate is of the last axis. */
static TeTensor grid_pixels(TeBuilder *b, const Sampling *s, int i, int64_t extent, DType d)
{
    TeTensor grid = te_input(b, 1);
    int n = grid.rank - 2;
    int64_t shape[SPATIAL_MOST + 1] = {grid.shape[0]};
    Te *index[SPATIAL_MOST + 2] = {te_axis(b, 0), te_int(b, n - 1 - i)};
    for (int k = 0; k < n; k++) {
        shape[k + 1] = grid.shape[k + 2];
        index[k + 2] = te_axis(b, k + 1);
    }
    Te *v = plus(b, te_cast(b, d, te_load(b, grid, index)), 1);
    v = s->corners ? times(b, v, (double)(extent - 1) / 2)
                   : times(b, plus(b, times(b, v, (double)extent), -1), 0.5);
    return te_map(b, d, n + 1, shape, v);
}

static void compute_grid_sample(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int n = x.rank - 2, at[SPATIAL_MOST + 2];
    Sampling s;
    sampling_of(b->attrs, &s);
    layout_positions(attrs_string(b->attrs, "layout"), grid_letters[n], at);
    Taps taps[SPATIAL_MOST];
    Te *index[SPATIAL_MOST + 2], *place[SPATIAL_MOST + 1] = {te_axis(b, at[0])};
    Te *const *places[SPATIAL_MOST] = {place, place, place};
    for (int i = 0; i < n; i++) {
        int64_t extent = x.shape[at[2 + i]];
        taps[i] = taps_of(b, &s, grid_pixels(b, &s, i, extent, real_dtype(x.dtype)), extent);
        place[i + 1] = te_axis(b, at[2 + i]);
    }
    ops_axes(b, 0, x.rank, index);
    ops_emit(b, te_cast(b, x.dtype, sum_taps(b, x, index, n, at + 2, taps, places)));
}

/* ---- image.affine_grid ---------------------------------------------------------------------------- */

static RelResult rel_affine_grid(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    int64_t size[2];
    if (!t)
        return rel_blocked(r);
    if (!rel_rank(r, 0, t, 3) || !rel_extents(r, "target_shape", 2, size))
        return REL_FAILED;
    if (!dim_agrees(t->dims[1], 2) || !dim_agrees(t->dims[2], 3)) {
        rel_error(r, E0202_SHAPE, 0,
                  "each map is a matrix of 2 rows and 3 columns, but this is `%s`",
                  type_str(r->cx, t));
        return REL_FAILED;
    }
    return rel_out_tensor(r, t->dtype, 4, (Dim[]){t->dims[0], 2, size[0], size[1]});
}

/* The map applied to (x, y, 1), where both go from -1 to 1 over the target. */
static void compute_affine_grid(TeBuilder *b)
{
    TeTensor m = te_input(b, 0);
    const int64_t *out = te_out_shape(b, 0);
    Te *row[3], *v[2];
    for (int i = 0; i < 3; i++)
        row[i] = te_load(b, m, (Te *[]){te_axis(b, 0), te_axis(b, 1), te_int(b, i)});
    for (int i = 0; i < 2; i++) {
        int64_t extent = out[3 - i];
        Te *at = te_cast(b, m.dtype, te_axis(b, 3 - i));
        v[i] = plus(b, times(b, at, extent > 1 ? 2.0 / (double)(extent - 1) : 0), -1);
        v[i] = te_binary(b, TE_MUL, row[i], v[i]);
    }
    ops_emit(b, te_binary(b, TE_ADD, te_binary(b, TE_ADD, v[0], v[1]), row[2]));
}

/* ---- image.crop_and_resize ------------------------------------------------------------------------ */

static RelResult rel_crop(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *boxes = t ? rel_tensor(r, 1) : NULL;
    const Type *which = boxes ? rel_tensor(r, 2) : NULL;
    int64_t size[2];
    int at[4];
    if (!which)
        return rel_blocked(r);
    if (!rel_rank(r, 0, t, 4) || !rel_rank(r, 1, boxes, 2) || !rel_rank(r, 2, which, 1) ||
        !rel_is_int(r, 2, which) || !rel_layout(r, "layout", "NCHW", at) ||
        !rel_extents(r, "crop_size", 2, size))
        return REL_FAILED;
    if (!dim_agrees(boxes->dims[1], 4) || !dim_agrees(boxes->dims[0], which->dims[0])) {
        rel_error(r, E0202_SHAPE, 1, "boxes `%s` and indices `%s` do not fit: four numbers a box",
                  type_str(r->cx, boxes), type_str(r->cx, which));
        return REL_FAILED;
    }
    Dim dims[4];
    dims[at[0]] = boxes->dims[0];
    dims[at[1]] = t->dims[at[1]];
    dims[at[2]] = size[0];
    dims[at[3]] = size[1];
    return rel_out_tensor(r, ops_dtype(r->attrs, "out_dtype", t->dtype), 4, dims);
}

/* Where the results along an axis lie in the image: a stage over boxes and results. */
static TeTensor crop_pixels(TeBuilder *b, int i, int64_t extent, int64_t to, DType d)
{
    TeTensor boxes = te_input(b, 1);
    double last = (double)(extent - 1);
    Te *box = te_axis(b, 0), *edge[2];
    for (int k = 0; k < 2; k++)
        edge[k] = te_cast(b, d, te_load(b, boxes, (Te *[]){box, te_int(b, i + 2 * k)}));
    Te *v = times(b, te_binary(b, TE_ADD, edge[0], edge[1]), 0.5 * last);
    if (to > 1) {
        Te *step = times(b, te_binary(b, TE_SUB, edge[1], edge[0]), last / (double)(to - 1));
        v = te_binary(b, TE_MUL, te_cast(b, d, te_axis(b, 1)), step);
        v = te_binary(b, TE_ADD, times(b, edge[0], last), v);
    }
    return te_map(b, d, 2, (int64_t[]){boxes.shape[0], to}, v);
}

static void compute_crop(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int at[4];
    layout_positions(attrs_string(b->attrs, "layout"), "NCHW", at);
    bool linear = str_is(attrs_string(b->attrs, "method"), "bilinear");
    Sampling s = {.method = linear ? LINEAR : NEAREST, .outside = BORDER};
    DType d = real_dtype(x.dtype);
    Taps taps[2];
    Te *box = te_axis(b, at[0]), *place[2][2], *outside = NULL, *index[4];
    for (int i = 0; i < 2; i++) {
        int64_t extent = x.shape[at[2 + i]];
        TeTensor where = crop_pixels(b, i, extent, te_out_shape(b, 0)[at[2 + i]], d);
        taps[i] = taps_of(b, &s, where, extent);
        place[i][0] = box;
        place[i][1] = te_axis(b, at[2 + i]);
        Te *v = te_load(b, where, place[i]);
        Te *off = te_binary(b, TE_OR, te_binary(b, TE_LT, v, te_number(b, d, 0)),
                            te_binary(b, TE_GT, v, te_number(b, d, (double)(extent - 1))));
        outside = outside ? te_binary(b, TE_OR, outside, off) : off;
    }
    ops_axes(b, 0, 4, index);
    Te *image = te_cast(b, wide, te_load(b, te_input(b, 2), &box));
    Te *none = te_binary(b, TE_OR, te_binary(b, TE_LT, image, te_int(b, 0)),
                         te_binary(b, TE_GE, image, te_int(b, x.shape[at[0]])));
    outside = te_binary(b, TE_OR, outside, none);
    index[at[0]] = ops_clamp(b, image, x.shape[at[0]] ? x.shape[at[0]] : 1);
    Te *v = sum_taps(b, x, index, 2, at + 2, taps, (Te *const *const[]){place[0], place[1]});
    Te *rest = te_number(b, d, attrs_float(b->attrs, "extrapolation_value"));
    ops_emit(b, te_cast(b, te_out_dtype(b, 0), te_select(b, outside, rest, v)));
}

/* ---- nn.deformable_conv2d ------------------------------------------------------------------------- */

typedef struct Deformable {
    int x[4], w[4],
        o[4]; /* positions of N C H W in data and offsets, O I H W in the weight, N C H W in the result */
    int64_t strides[2], dilation[2], before[2], after[2], groups, parts;
} Deformable;

static void deformable_of(const Attrs *a, Deformable *c)
{
    layout_positions(attrs_string(a, "data_layout"), "NCHW", c->x);
    layout_positions(attrs_string(a, "kernel_layout"), "OIHW", c->w);
    layout_positions(ops_out_layout(a, "data_layout", "out_layout"), "NCHW", c->o);
    ops_ints(a, "strides", 2, c->strides);
    ops_ints(a, "dilation", 2, c->dilation);
    ops_padding(a, "padding", 2, c->before, c->after);
    c->groups = attrs_int(a, "groups", 1);
    c->parts = attrs_int(a, "deformable_groups", 1);
}

static RelResult deformable_result(Rel *r, const Type *x, const Type *offset, const Type *w)
{
    Deformable c;
    deformable_of(r->attrs, &c);
    Dim dims[4], in = x->dims[c.x[1]], kernel = 1;
    dims[c.o[0]] = x->dims[c.x[0]];
    dims[c.o[1]] = w->dims[c.w[0]];
    int64_t channels, reach, room, offsets;
    bool fits = c.groups > 0 && c.parts > 0 && int64_mul(w->dims[c.w[1]], c.groups, &channels) &&
                in == channels && in % c.parts == 0 && w->dims[c.w[0]] % c.groups == 0;
    for (int i = 0; i < 2; i++) {
        Dim k = w->dims[c.w[2 + i]], d = x->dims[c.x[2 + i]];
        fits = fits && int64_mul(k - 1, c.dilation[i], &reach) && int64_add(reach, 1, &reach) &&
               int64_add(d, c.before[i], &room) && int64_add(room, c.after[i], &room) &&
               int64_sub(room, reach, &room) && room >= 0 &&
               int64_add(room / c.strides[i], 1, &dims[c.o[2 + i]]) &&
               offset->dims[c.x[2 + i]] == dims[c.o[2 + i]] && int64_mul(kernel, k, &kernel);
    }
    fits = fits && int64_mul(kernel, 2, &offsets) && int64_mul(offsets, c.parts, &offsets);
    if (fits && offset->dims[c.x[1]] == offsets)
        return rel_out_tensor(r, ops_dtype(r->attrs, "out_dtype", x->dtype), 4, dims);
    Diag *d = rel_error(r, E0202_SHAPE, 1, "data `%s`, offsets `%s` and weight `%s` do not fit",
                        type_str(r->cx, x), type_str(r->cx, offset), type_str(r->cx, w));
    diag_help(d,
              "there are two offsets for each place of the kernel and each element of the result");
    return REL_FAILED;
}

/* The weight that channels and kernel_size tell, where it is not known; false after a diagnostic. */
static bool tell_weight(Rel *r, const Type *x)
{
    Deformable c;
    Dim dims[4];
    int64_t k[2], channels = attrs_int(r->attrs, "channels", -1);
    if (type_find(r->in[2])->kind != TYPE_HOLE || channels < 0 ||
        attrs_find(r->attrs, "kernel_size")->kind == ATTR_NONE)
        return true;
    deformable_of(r->attrs, &c);
    if (c.groups < 1 || !rel_ints(r, "kernel_size", 2, k))
        return c.groups < 1;
    dims[c.w[0]] = channels;
    dims[c.w[1]] = dim_windows(r->cx, x->dims[c.x[1]], 0, c.groups, c.groups);
    dims[c.w[2]] = k[0];
    dims[c.w[3]] = k[1];
    return rel_set_tensor(r, 2, x->dtype, 4, dims);
}

/* The offsets that data and weight tell, where they are not known. */
static bool tell_offsets(Rel *r, const Type *x, const Type *w)
{
    Deformable c;
    Dim dims[4], kernel = 2;
    if (type_find(r->in[1])->kind != TYPE_HOLE)
        return true;
    deformable_of(r->attrs, &c);
    dims[c.x[0]] = x->dims[c.x[0]];
    for (int i = 0; i < 2; i++) {
        Dim k = w->dims[c.w[2 + i]];
        int64_t pad = c.before[i] + c.after[i];
        kernel = dim_mul(r->cx, k, kernel);
        dims[c.x[2 + i]] = k < 0 ? DIM_ANY
                                 : dim_windows(r->cx, x->dims[c.x[2 + i]], pad,
                                               (k - 1) * c.dilation[i] + 1, c.strides[i]);
    }
    dims[c.x[1]] = dim_mul(r->cx, kernel, c.parts);
    return rel_set_tensor(r, 1, x->dtype, 4, dims);
}

static RelResult rel_deformable(Rel *r)
{
    const Type *x = rel_tensor(r, 0);
    int at[4];
    int64_t v[2], after[2];
    if (!x)
        return rel_blocked(r);
    if (!rel_rank(r, 0, x, 4) || !rel_layout(r, "data_layout", "NCHW", at) ||
        !rel_layout(r, "kernel_layout", "OIHW", at) || !rel_ints(r, "strides", 2, v) ||
        !rel_ints(r, "dilation", 2, v) || !rel_padding(r, "padding", 2, v, after))
        return REL_FAILED;
    if (attrs_string(r->attrs, "out_layout").len && !rel_layout(r, "out_layout", "NCHW", at))
        return REL_FAILED;
    if (!tell_weight(r, x))
        return REL_FAILED;
    const Type *w = rel_tensor(r, 2);
    if (!w)
        return rel_blocked(r);
    if (!rel_rank(r, 2, w, 4) || !rel_dtypes_agree(r, 0, x, 2, w) || !tell_offsets(r, x, w))
        return REL_FAILED;
    const Type *offset = rel_tensor(r, 1);
    if (!offset)
        return rel_blocked(r);
    if (!rel_rank(r, 1, offset, 4))
        return REL_FAILED;
    if (dims_static(4, x->dims) && dims_static(4, offset->dims) && dims_static(4, w->dims))
        return deformable_result(r, x, offset, w);
    return rel_unknown(r, ops_dtype(r->attrs, "out_dtype", x->dtype), 4);
}

/* Coordinates along axis i: a stage over batch, part, place in the kernel and place of the result. */
static TeTensor deformed(TeBuilder *b, const Deformable *c, int i, const int64_t *shape, DType d)
{
    TeTensor offset = te_input(b, 1);
    Te *a[6], *index[4], *kernel;
    ops_axes(b, 0, 6, a);
    kernel = te_binary(b, TE_ADD, te_binary(b, TE_MUL, a[1], te_int(b, shape[2])), a[2]);
    kernel = te_binary(b, TE_ADD, te_binary(b, TE_MUL, kernel, te_int(b, shape[3])), a[3]);
    index[c->x[0]] = a[0];
    index[c->x[1]] = te_binary(b, TE_ADD, te_binary(b, TE_MUL, kernel, te_int(b, 2)), te_int(b, i));
    index[c->x[2]] = a[4];
    index[c->x[3]] = a[5];
    Te *at = te_binary(b, TE_ADD, te_binary(b, TE_MUL, a[4 + i], te_int(b, c->strides[i])),
                       te_binary(b, TE_MUL, a[2 + i], te_int(b, c->dilation[i])));
    at = te_cast(b, d, te_binary(b, TE_ADD, at, te_int(b, -c->before[i])));
    return te_map(b, d, 6, shape,
                  te_binary(b, TE_ADD, at, te_cast(b, d, te_load(b, offset, index))));
}

/* The data as each place of the kernel sees it: over batch, channel, place in the kernel and place of the result. */
static TeTensor deformed_data(TeBuilder *b, const Deformable *c, const int64_t *shape)
{
    TeTensor x = te_input(b, 0);
    DType d = real_dtype(x.dtype);
    int64_t parts[6] = {shape[0], c->parts, shape[2], shape[3], shape[4], shape[5]};
    Sampling s = {.method = LINEAR, .outside = BORDER};
    Taps taps[2];
    Te *place[6], *index[4], *outside = NULL;
    ops_axes(b, 0, 6, place);
    index[c->x[0]] = place[0];
    index[c->x[1]] = place[1];
    place[1] = te_binary(b, TE_DIV, place[1], te_int(b, shape[1] / c->parts));
    for (int i = 0; i < 2; i++) {
        int64_t extent = x.shape[c->x[2 + i]];
        TeTensor where = deformed(b, c, i, parts, d);
        taps[i] = taps_of(b, &s, where, extent);
        Te *v = te_load(b, where, place);
        Te *off = te_binary(b, TE_OR, te_binary(b, TE_LT, v, te_number(b, d, 0)),
                            te_binary(b, TE_GE, v, te_number(b, d, (double)extent)));
        outside = outside ? te_binary(b, TE_OR, outside, off) : off;
    }
    Te *v = sum_taps(b, x, index, 2, c->x + 2, taps, (Te *const *const[]){place, place});
    DType out = te_out_dtype(b, 0);
    return te_map(b, out, 6, shape, te_cast(b, out, te_select(b, outside, te_number(b, d, 0), v)));
}

static void compute_deformable(TeBuilder *b)
{
    TeTensor x = te_input(b, 0), w = te_input(b, 2);
    const int64_t *out = te_out_shape(b, 0);
    DType d = te_out_dtype(b, 0);
    Deformable c;
    deformable_of(b->attrs, &c);
    int64_t shape[6] = {x.shape[c.x[0]], x.shape[c.x[1]], w.shape[c.w[2]],
                        w.shape[c.w[3]], out[c.o[2]],     out[c.o[3]]};
    int64_t reduced[3] = {w.shape[c.w[1]], shape[2], shape[3]};
    TeTensor seen = deformed_data(b, &c, shape);
    Te *k[3], *wi[4], *channel = te_axis(b, c.o[1]);
    ops_axes(b, 4, 3, k);
    Te *group = te_binary(b, TE_DIV, channel, te_int(b, out[c.o[1]] / c.groups));
    Te *in = te_binary(b, TE_ADD, te_binary(b, TE_MUL, group, te_int(b, reduced[0])), k[0]);
    Te *si[6] = {te_axis(b, c.o[0]), in, k[1], k[2], te_axis(b, c.o[2]), te_axis(b, c.o[3])};
    wi[c.w[0]] = channel;
    for (int i = 0; i < 3; i++)
        wi[c.w[1 + i]] = k[i];
    Te *body = te_binary(b, TE_MUL, te_load(b, seen, si), te_cast(b, d, te_load(b, w, wi)));
    te_output(b, te_reduce(b, TE_SUM, d, 4, out, 3, reduced, body));
}

/* ---- rows ----------------------------------------------------------------------------------------- */

static const OpArg grid_args[] = {{"data", "images or volumes"},
                                  {"grid", "for each result its place: x, y (and z) from -1 to 1"},
                                  {0}};
static const OpArg affine_args[] = {{"data", "matrices of 2 rows and 3 columns"}, {0}};
static const OpArg crop_args[] = {
    {"data", "images"},
    {"boxes", "top, left, bottom and right of each, in parts of the image"},
    {"box_indices", "of which image each box is"},
    {0}};
static const OpArg deformable_args[] = {
    {"data", "batches of channels of places"},
    {"offset", "for each result and place of the kernel how far to move it: down, right"},
    {"weight", "one kernel for each pair of channels"},
    {0}};

static const OpAttr grid_attrs[] = {
    ATTR_ONE("method", "bilinear", "\"bilinear\", \"nearest\" or, of images, \"bicubic\"",
             "bilinear", "nearest", "bicubic"),
    ATTR_S("layout", "NCHW", "the order of the axes"),
    ATTR_ONE("padding_mode", "zeros", "places outside: \"zeros\", \"border\" or \"reflection\"",
             "zeros", "border", "reflection"),
    ATTR_B("align_corners", 1, "-1 and 1 are the middles of the outermost pixels"),
    {0}};
static const OpAttr affine_attrs[] = {
    ATTR_MUST("target_shape", INTS, "height and width of the result"), {0}};
static const OpAttr crop_attrs[] = {
    ATTR_NONE("crop_size", INTS, "height and width of the results"),
    ATTR_S("layout", "NCHW", "the order of the axes"),
    ATTR_ONE("method", "bilinear", "\"bilinear\" or \"nearest_neighbor\"", "bilinear",
             "nearest_neighbor"),
    ATTR_F("extrapolation_value", 0, "the result outside the image"),
    ATTR_D("out_dtype", "", "the type of the result"),
    {0}};
#define PAIR(NAME, ARRAY, DOC)                               \
    {.name = NAME,                                           \
     .type = ATTR_TYPE_INTS,                                 \
     .otherwise = {.kind = ATTR_LIST, .list = {(ARRAY), 2}}, \
     .doc = DOC}
static const OpAttr deformable_attrs[] = {
    PAIR("strides", ops_ones, "steps of the kernel, one an axis"),
    PAIR("padding", ops_zeros, "places around the data: all sides, or before and after"),
    PAIR("dilation", ops_ones, "distance of the kernel's elements, one an axis"),
    ATTR_I("deformable_groups", 1, "parts of the channels with offsets of their own"),
    ATTR_I("groups", 1, "parts of the channels that do not see each other"),
    ATTR_NONE("channels", INT, "channels of the result; None: as the weight has"),
    ATTR_NONE("kernel_size", INTS, "extents of the kernel; None: as the weight has"),
    ATTR_S("data_layout", "NCHW", "the order of the data's axes"),
    ATTR_S("kernel_layout", "OIHW", "the order of the weight's axes"),
    ATTR_S("out_layout", "", "the order of the result's axes; \"\": the data's"),
    ATTR_D("out_dtype", "", "the type to sum in and of the result"),
    {0}};

#define ROW(NAME, ID, PATTERN, SHAPES, SAMPLES, DOC)                                       \
    OP_ROW(NAME, ID##_args, ID##_attrs, PATTERN, rel_##ID, SAMPLES, DOC, .shapes = SHAPES, \
           .compute = compute_##ID)

const Op sample_ops[] = {
    {.name = "image.grid_sample",
     .doc = "Images read between their pixels, at places that a grid says.",
     .args = grid_args,
     .attrs = grid_attrs,
     .shapes = "(N, C, H, W), (N, 2, h, w) -> (N, C, h, w)",
     .samples = "(float32[1,2,3,4], float32[1,2,2,2])",
     .pattern = OP_INJECTIVE,
     .rel = rel_grid_sample,
     .compute = compute_grid_sample},
    {.name = "image.affine_grid",
     .doc = "The grid that reads an image through an affine map.",
     .args = affine_args,
     .attrs = affine_attrs,
     .shapes = "(N, 2, 3) -> (N, 2, target_shape...)",
     .samples = "(float32[1,2,3], target_shape=[3, 4])",
     .pattern = OP_INJECTIVE,
     .rel = rel_affine_grid,
     .compute = compute_affine_grid},
    ROW("image.crop_and_resize", crop, OP_INJECTIVE,
        "(N, C, H, W), (B, 4), (B) -> (B, C, crop_size...)",
        "(float32[2,1,4,4], float32[1,4], int32[1], crop_size=[2, 3])",
        "Boxes of images, all in one size."),
    ROW("nn.deformable_conv2d", deformable, OP_OUT_FUSABLE,
        "(N, C, H, W), (N, 2*kh*kw*deformable_groups, h, w), (O, C/groups, kh, kw) -> (N, O, h, w)",
        "(float32[1,2,4,4], float32[1,8,3,3], float32[3,2,2,2])",
        "A convolution whose kernel is moved, place by place, by offsets that are data."),
    {0},
};
