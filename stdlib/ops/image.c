/* Images: resizing, and morphology. */
#include "stdlib/ops/ops.h"

#include "base/number.h"

#include <math.h>
#include <string.h>

enum { SPATIAL_MOST = 3, LETTERS_MOST = SPATIAL_MOST + 2 + LAYOUT_SPLIT, TAPS_MOST = 4 };

static const DType float32_dtype = {DTYPE_CODE_FLOAT, 32, 1};
static const DType wide = {DTYPE_CODE_INT, 64, 1};
static const char *const letters[] = {"NC", "NCW", "NCHW", "NCDHW"};

/* ---- what a resize does along one axis ----------------------------------------------------------- */

typedef enum Method { NEAREST, LINEAR, CUBIC } Method;

typedef struct Resize {
    Method method;
    Str coordinates, rounding;
    double alpha;
    bool exclude; /* cubic: taps outside count nothing */
    double extrapolation;
    Te *roi[2 * SPATIAL_MOST]; /* starts, then ends, in parts of the image */
} Resize;

static Method method_of(const Attrs *a)
{
    Str name = attrs_string(a, "method");
    return str_is(name, "nearest_neighbor")                   ? NEAREST
           : str_is(name, "cubic") || str_is(name, "bicubic") ? CUBIC
                                                              : LINEAR;
}

static Te *number(TeBuilder *b, double v)
{
    return te_number(b, float32_dtype, v);
}

static Te *add(TeBuilder *b, Te *x, double v)
{
    return te_binary(b, TE_ADD, x, number(b, v));
}

static Te *times(TeBuilder *b, Te *x, double v)
{
    return te_binary(b, TE_MUL, x, number(b, v));
}

/* Where output o of `to` lies among `from` inputs. */
static Te *source_of(TeBuilder *b, const Resize *z, Te *o, int64_t from, int64_t to, Te *const *roi)
{
    double scale = (double)from / (double)to, end = (double)(from - 1);
    Te *x = te_cast(b, float32_dtype, o);
    if (str_is(z->coordinates, "align_corners"))
        return times(b, x, to > 1 ? end / (double)(to - 1) : 0);
    if (str_is(z->coordinates, "asymmetric"))
        return times(b, x, scale);
    if (str_is(z->coordinates, "tf_half_pixel_for_nn"))
        return times(b, add(b, x, 0.5), scale);
    if (str_is(z->coordinates, "pytorch_half_pixel") && to == 1)
        return number(b, 0);
    if (str_is(z->coordinates, "tf_crop_and_resize")) {
        if (to <= 1)
            return times(b, te_binary(b, TE_ADD, roi[0], roi[1]), 0.5 * end);
        Te *step = times(b, te_binary(b, TE_SUB, roi[1], roi[0]), end / (double)(to - 1));
        return te_binary(b, TE_ADD, te_binary(b, TE_MUL, x, step), times(b, roi[0], end));
    }
    return add(b, times(b, add(b, x, 0.5), scale), -0.5);
}

static Te *nearest_of(TeBuilder *b, const Resize *z, Te *x)
{
    Str how = z->rounding;
    if (how.len == 0)
        how = str_of(str_is(z->coordinates, "align_corners") ? "round" : "floor");
    if (str_is(how, "round"))
        return te_unary(b, TE_ROUND, x);
    if (str_is(how, "ceil"))
        return te_unary(b, TE_CEIL, add(b, x, -1e-5));
    if (str_is(how, "round_prefer_floor"))
        return te_unary(b, TE_CEIL, add(b, x, -0.5));
    if (str_is(how, "round_prefer_ceil"))
        return te_unary(b, TE_FLOOR, add(b, x, 0.5));
    return te_unary(b, TE_FLOOR, add(b, x, 1e-5));
}

/* Positions and weights of the inputs that an output is made of, as stages over the output's axis. */
typedef struct Taps {
    int n;
    TeTensor at[TAPS_MOST], weight[TAPS_MOST];
} Taps;

/* The weight of a cubic tap at distance d. */
static Te *cubic_weight(TeBuilder *b, double a, Te *d, bool near)
{
    /* near: (a + 2) d^3 - (a + 3) d^2 + 1; far: a d^3 - 5 a d^2 + 8 a d - 4 a */
    double c3 = near ? a + 2 : a, c2 = near ? -(a + 3) : -5 * a, c1 = near ? 0 : 8 * a,
           c0 = near ? 1 : -4 * a;
    Te *p = add(b, times(b, d, c3), c2);
    p = add(b, te_binary(b, TE_MUL, p, d), c1);
    return add(b, te_binary(b, TE_MUL, p, d), c0);
}

static void add_tap(TeBuilder *b, Taps *t, int64_t from, int64_t to, Te *at, Te *weight)
{
    t->at[t->n] = te_map(b, wide, 1, &to, ops_clamp(b, te_cast(b, wide, at), from));
    t->weight[t->n++] = te_map(b, float32_dtype, 1, &to, weight);
}

static void taps_of(TeBuilder *b, const Resize *z, int64_t from, int64_t to, Te *const *roi,
                    Taps *t)
{
    Te *x = source_of(b, z, te_axis(b, 0), from, to, roi);
    t->n = 0;
    if (z->method == NEAREST) {
        add_tap(b, t, from, to, nearest_of(b, z, x), number(b, 1));
        return;
    }
    Te *low = te_unary(b, TE_FLOOR, x), *part = te_binary(b, TE_SUB, x, low), *one = number(b, 1);
    if (z->method == LINEAR) {
        add_tap(b, t, from, to, low, te_binary(b, TE_SUB, one, part));
        add_tap(b, t, from, to, add(b, low, 1), part);
        return;
    }
    Te *weight[TAPS_MOST], *sum = NULL;
    for (int k = 0; k < TAPS_MOST; k++) {
        Te *d = k < 2 ? add(b, part, 1 - k) : te_binary(b, TE_SUB, number(b, k - 1), part);
        weight[k] = cubic_weight(b, z->alpha, d, k == 1 || k == 2);
        if (z->exclude) {
            Te *at = add(b, low, k - 1);
            Te *in = te_binary(b, TE_AND, te_binary(b, TE_GE, at, number(b, 0)),
                               te_binary(b, TE_LT, at, number(b, (double)from)));
            weight[k] = te_select(b, in, weight[k], number(b, 0));
            sum = sum ? te_binary(b, TE_ADD, sum, weight[k]) : weight[k];
        }
    }
    for (int k = 0; k < TAPS_MOST; k++)
        add_tap(b, t, from, to, add(b, low, k - 1),
                sum ? te_binary(b, TE_DIV, weight[k], sum) : weight[k]);
}

/* ---- resizing ------------------------------------------------------------------------------------ */

/* The sum over all combinations of taps, one an axis, of the axes from `first` to `last`. */
static Te *sum_taps(TeBuilder *b, TeTensor x, int first, int last, const int *at, const Taps *taps)
{
    Te *index[LETTERS_MOST], *sum = NULL;
    int k[SPATIAL_MOST] = {0};
    ops_axes(b, 0, x.rank, index);
    for (;;) {
        Te *v = NULL, *weight = NULL;
        for (int i = first; i <= last; i++) {
            Te *axis = te_axis(b, at[2 + i]), *place[1] = {axis};
            index[at[2 + i]] = te_load(b, taps[i].at[k[i]], place);
            Te *w = te_load(b, taps[i].weight[k[i]], place);
            weight = taps[i].n == 1 ? weight : weight ? te_binary(b, TE_MUL, weight, w) : w;
        }
        v = te_cast(b, float32_dtype, te_load(b, x, index));
        v = weight ? te_binary(b, TE_MUL, v, weight) : v;
        sum = sum ? te_binary(b, TE_ADD, sum, v) : v;
        int i = last;
        while (i >= first && ++k[i] == taps[i].n)
            k[i--] = 0;
        if (i < first)
            return sum;
    }
}

/* The sums along one axis after the other, where what lies between is not much more than the result; the last of them. */
static Te *sum_axes(TeBuilder *b, TeTensor x, int n, const int *at, const Taps *taps)
{
    const int64_t *out = te_out_shape(b, 0);
    int first = 0;
    for (int i = 0; i + 1 < n; i++) {
        int64_t shape[LETTERS_MOST];
        bool small = taps[i].n > 1 && taps[i + 1].n > 1;
        for (int k = 0; k < x.rank; k++)
            shape[k] = x.shape[k];
        for (int k = i + 1; k < n; k++)
            small &= x.shape[at[2 + k]] <= 2 * out[at[2 + k]];
        for (int k = first; k <= i; k++)
            shape[at[2 + k]] = out[at[2 + k]];
        if (!small)
            continue;
        x = te_map(b, float32_dtype, x.rank, shape, sum_taps(b, x, first, i, at, taps));
        first = i + 1;
    }
    return sum_taps(b, x, first, n - 1, at, taps);
}

static void emit_resize(TeBuilder *b, const Resize *z, int n, const int *at)
{
    TeTensor x = te_input(b, 0);
    const int64_t *out = te_out_shape(b, 0);
    Taps taps[SPATIAL_MOST] = {0};
    Te *outside = NULL;
    for (int i = 0; i < n; i++) {
        Te *roi[2] = {z->roi[i], z->roi[n + i]};
        int64_t from = x.shape[at[2 + i]], to = out[at[2 + i]];
        taps_of(b, z, from, to, roi, &taps[i]);
        if (!str_is(z->coordinates, "tf_crop_and_resize"))
            continue;
        Te *s = source_of(b, z, te_axis(b, at[2 + i]), from, to, roi);
        Te *off = te_binary(b, TE_OR, te_binary(b, TE_LT, s, number(b, 0)),
                            te_binary(b, TE_GT, s, number(b, (double)(from - 1))));
        outside = outside ? te_binary(b, TE_OR, outside, off) : off;
    }
    Te *v = sum_axes(b, x, n, at, taps);
    if (outside)
        v = te_select(b, outside, number(b, z->extrapolation), v);
    bool whole = z->method == NEAREST && !outside;
    DType d = te_out_dtype(b, 0);
    if (whole && dtype_eq(d, x.dtype)) {
        /* Elements are only copied: not through float32, which cannot hold every integer. */
        Te *index[LETTERS_MOST];
        ops_axes(b, 0, x.rank, index);
        for (int i = 0; i < n; i++) {
            Te *place[1] = {te_axis(b, at[2 + i])};
            index[at[2 + i]] = te_load(b, taps[i].at[0], place);
        }
        v = te_load(b, x, index);
    }
    ops_emit(b, te_cast(b, d, v));
}

/* A start and an end of each axis, where they are given; what crops needs them. */
static bool check_roi(Rel *r, int n)
{
    const AttrValue *roi = attrs_find(r->attrs, "roi");
    bool crops =
        str_is(attrs_string(r->attrs, "coordinate_transformation_mode"), "tf_crop_and_resize");
    if (roi->kind == ATTR_LIST ? roi->list.n == 2 * (uint32_t)n : !crops)
        return true;
    Diag *d = rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`roi` of `%s` must hold %d numbers",
                        r->op->name, 2 * n);
    diag_help(d, "give a list of where each axis starts, and then of where each ends");
    return false;
}

#define SHAPES_rel_resize "(N, C, d...) -> (N, C, size...)"
static RelResult rel_resize(Rel *r)
{
    int n = ops_spatial(r->op);
    const Type *t = rel_tensor(r, 0);
    int at[LETTERS_MOST];
    int64_t size[SPATIAL_MOST];
    if (!t)
        return rel_blocked(r);
    if (!rel_places(r, 0, t, letters[n], at))
        return REL_FAILED;
    if (r->n > 1) {
        const Type *given = rel_tensor(r, 1), *roi = given ? rel_tensor(r, 2) : NULL;
        if (!roi)
            return rel_blocked(r);
        if (!rel_is_int(r, 1, given) || !rel_has_shape(r, 1, given, 1, (Dim[]){n}) ||
            !rel_has_shape(r, 2, roi, 1, (Dim[]){2 * (Dim)n}))
            return REL_FAILED;
        if (rel_ints_of(r, 1, size, n) != n)
            size[0] = size[1] = DIM_ANY;
        else if (!ops_extents_good(r, 1, n, size))
            return REL_FAILED;
    }
    if (r->n == 1 && !(rel_extents(r, "size", n, size) && check_roi(r, n)))
        return REL_FAILED;
    Dim dims[LETTERS_MOST];
    memcpy(dims, t->dims, t->n * sizeof *dims);
    for (int i = 0; i < n; i++) {
        if (dims[at[2 + i]] == 0) {
            rel_error(r, E0202_SHAPE, 0, "an image without elements cannot be resized: `%s`",
                      type_str(r->cx, t));
            return REL_FAILED;
        }
        dims[at[2 + i]] = size[i];
    }
    return rel_out_tensor(r, ops_dtype(r->attrs, "out_dtype", t->dtype), t->n, dims);
}

static void roi_of(TeBuilder *b, Resize *z)
{
    const AttrValue *roi = attrs_find(b->attrs, "roi");
    for (uint32_t i = 0; i < 2 * SPATIAL_MOST; i++) {
        const AttrValue *v = roi->kind == ATTR_LIST && i < roi->list.n ? &roi->list.at[i] : NULL;
        z->roi[i] = number(b, !v ? 0 : v->kind == ATTR_INT ? (double)v->i : v->f);
    }
    for (int i = 0; te_n_inputs(b) > 2 && i < te_input(b, 2).shape[0] && i < 2 * SPATIAL_MOST; i++)
        z->roi[i] = te_cast(b, float32_dtype, te_load(b, te_input(b, 2), (Te *[]){te_int(b, i)}));
}

static void compute_resize(TeBuilder *b)
{
    int n = ops_spatial(b->op);
    int at[LETTERS_MOST];
    Resize z = {.coordinates = attrs_string(b->attrs, "coordinate_transformation_mode"),
                .rounding = attrs_string(b->attrs, "rounding_method"),
                .alpha = attrs_float(b->attrs, "cubic_alpha"),
                .exclude = attrs_int(b->attrs, "cubic_exclude", 0) != 0,
                .extrapolation = attrs_float(b->attrs, "extrapolation_value")};
    roi_of(b, &z);
    z.method = method_of(b->attrs);
    layout_places(attrs_string(b->attrs, "layout"), letters[n], at);
    emit_resize(b, &z, n, at);
}

/* ---- nn.upsampling ------------------------------------------------------------------------------- */

static const char *const scale_keys[] = {"scale_d", "scale_h", "scale_w"};

#define SHAPES_rel_upsampling "(N, C, d...) -> (N, C, round(d*scale)...)"
static RelResult rel_upsampling(Rel *r)
{
    int n = ops_spatial(r->op);
    const Type *t = rel_tensor(r, 0);
    int at[LETTERS_MOST];
    if (!t)
        return rel_blocked(r);
    if (!rel_places(r, 0, t, letters[n], at))
        return REL_FAILED;
    RelResult scalars = rel_are_scalars(r, 1);
    if (scalars != REL_DONE)
        return scalars;
    Dim dims[LETTERS_MOST];
    memcpy(dims, t->dims, t->n * sizeof *dims);
    for (int i = 0; i < n; i++) {
        double scale = 1;
        Dim *d = &dims[at[2 + i]];
        if (r->n == 1)
            scale = attrs_float(r->attrs, scale_keys[SPATIAL_MOST - n + i]);
        else if (!rel_double_of(r, (uint32_t)i + 1, &scale))
            *d = DIM_ANY;
        if (!(scale > 0 && scale <= (double)OPS_MOST)) {
            Diag *diag = rel_error(
                r, E0216_OPERATOR_ARGUMENT, -1, "`%s` of `%s` must be positive, and %lld at most",
                scale_keys[SPATIAL_MOST - n + i], r->op->name, (long long)OPS_MOST);
            diag_help(diag, "it says how many times as long the axis becomes: `2f` doubles it");
            return REL_FAILED;
        }
        if (dim_is_symbol(*d))
            *d = scale == nearbyint(scale) && scale < (double)OPS_MOST
                     ? dim_mul(r->cx, *d, (Dim)scale)
                     : DIM_ANY;
        else if (*d >= 0)
            *d = (Dim)fmin(nearbyint((double)*d * scale), (double)OPS_MOST * (double)OPS_MOST);
    }
    return rel_out_tensor(r, t->dtype, t->n, dims);
}

static void compute_upsampling(TeBuilder *b)
{
    int at[LETTERS_MOST];
    bool corners = attrs_bool(b->attrs, "align_corners");
    Resize z = {.coordinates = str_of(corners ? "align_corners" : "asymmetric"), .alpha = -0.5};
    z.method = method_of(b->attrs);
    layout_places(attrs_string(b->attrs, "layout"), letters[2], at);
    emit_resize(b, &z, 2, at);
}

static void compute_upsampling3d(TeBuilder *b)
{
    int at[LETTERS_MOST];
    Resize z = {.coordinates = attrs_string(b->attrs, "coordinate_transformation_mode"),
                .alpha = -0.5};
    z.method = method_of(b->attrs);
    if (z.method == NEAREST)
        z.coordinates = str_of("asymmetric");
    layout_places(attrs_string(b->attrs, "layout"), letters[3], at);
    emit_resize(b, &z, 3, at);
}

/* ---- image.dilation2d ---------------------------------------------------------------------------- */

typedef struct Dilation {
    int x[4], w[3];
    int64_t strides[2], dilations[2], before[2], after[2];
} Dilation;

/* The list, or the first two of its four numbers, which are what the original reads of them. */
static bool two_of(Rel *r, const char *key, int64_t *out)
{
    int64_t all[4];
    if (!rel_ints(r, key, attrs_ints(r->attrs, key, all, 4) == 4 ? 4 : 2, all))
        return false;
    memcpy(out, all, 2 * sizeof *out);
    return true;
}

static void two_of_attrs(const Attrs *a, const char *key, int64_t *out)
{
    int64_t all[4];
    ops_ints(a, key, attrs_ints(a, key, all, 4) == 4 ? 4 : 2, all);
    memcpy(out, all, 2 * sizeof *out);
}

static void dilation_of(const Attrs *a, Dilation *d)
{
    layout_positions(attrs_string(a, "data_layout"), "NCHW", d->x);
    layout_positions(attrs_string(a, "kernel_layout"), "IHW", d->w);
    two_of_attrs(a, "strides", d->strides);
    two_of_attrs(a, "dilations", d->dilations);
    ops_padding(a, "padding", 2, d->before, d->after);
}

#define SHAPES_rel_dilation2d "(N, C, d...), (C, k...) -> (N, C, window(d, k)...)"
static RelResult rel_dilation2d(Rel *r)
{
    const Type *x = rel_tensor(r, 0), *w = x ? rel_tensor(r, 1) : NULL;
    Dilation d;
    if (!w)
        return rel_blocked(r);
    if (!rel_rank(r, 0, x, 4) || !rel_rank(r, 1, w, 3) ||
        !rel_layout(r, "data_layout", "NCHW", d.x) || !rel_layout(r, "kernel_layout", "IHW", d.w) ||
        !two_of(r, "strides", d.strides) || !two_of(r, "dilations", d.dilations) ||
        !rel_padding(r, "padding", 2, d.before, d.after) || !rel_dtypes_agree(r, 0, x, 1, w))
        return REL_FAILED;
    Dim dims[4];
    memcpy(dims, x->dims, sizeof dims);
    if (!dim_agrees(x->dims[d.x[1]], w->dims[d.w[0]])) {
        rel_error(r, E0202_SHAPE, 1, "`weight` has %lld channels, `data` has %lld",
                  (long long)w->dims[d.w[0]], (long long)x->dims[d.x[1]]);
        return REL_FAILED;
    }
    for (int i = 0; i < 2; i++) {
        Dim *e = &dims[d.x[2 + i]], k = w->dims[d.w[1 + i]];
        int64_t reach = 0, pad = d.before[i] + d.after[i];
        bool counted =
            k < 0 || (int64_mul(k - 1, d.dilations[i], &reach) && int64_add(reach, 1, &reach));
        if (!counted || (*e >= 0 && k >= 0 && *e < reach - pad)) {
            rel_error(r, E0202_SHAPE, 0, "the kernel is larger than axis %d of the data",
                      d.x[2 + i]);
            return REL_FAILED;
        }
        *e = k < 0 ? DIM_ANY : dim_windows(r->cx, *e, pad, reach, d.strides[i]);
    }
    return rel_out_tensor(r, ops_dtype(r->attrs, "out_dtype", x->dtype), 4, dims);
}

/* The greatest sum of an element and the kernel's element over it. */
static void compute_dilation2d(TeBuilder *b)
{
    TeTensor x = te_input(b, 0), w = te_input(b, 1);
    DType t = te_out_dtype(b, 0);
    Dilation d;
    dilation_of(b->attrs, &d);
    Te *xi[4], *wi[3];
    int64_t kernel[2];
    ops_axes(b, 0, 4, xi);
    wi[d.w[0]] = xi[d.x[1]];
    for (int i = 0; i < 2; i++) {
        Te *k = te_axis(b, 4 + i), **at = &xi[d.x[2 + i]];
        kernel[i] = w.shape[d.w[1 + i]];
        *at = ops_affine(b, *at, d.strides[i], k, d.dilations[i], -d.before[i]);
        wi[d.w[1 + i]] = k;
    }
    /* Outside neither has a part: a sum with the least integer would wrap. */
    Te *inside = NULL;
    for (int i = 0; i < 2; i++) {
        Te *at = xi[d.x[2 + i]];
        Te *above = te_binary(b, TE_GE, at, te_int(b, 0));
        Te *below = te_binary(b, TE_LT, at, te_int(b, x.shape[d.x[2 + i]]));
        Te *both = te_binary(b, TE_AND, above, below);
        inside = inside ? te_binary(b, TE_AND, inside, both) : both;
    }
    Te *v = te_cast(b, t, te_load_or(b, x, xi, te_number(b, x.dtype, 0)));
    Te *sum = te_binary(b, TE_ADD, v, te_cast(b, t, te_load(b, w, wi)));
    Te *body = te_select(b, inside, sum, te_bound(b, t, true));
    te_output(b, te_reduce(b, TE_REDUCE_MAX, t, 4, te_out_shape(b, 0), 2, kernel, body));
}

/* ---- nn.correlation ------------------------------------------------------------------------------- */

static RelResult rel_correlation(Rel *r)
{
    const Type *x = rel_tensor(r, 0), *y = x ? rel_tensor(r, 1) : NULL;
    int64_t before[2], after[2], k = attrs_int(r->attrs, "kernel_size", 1);
    int64_t reach = attrs_int(r->attrs, "max_displacement", 1);
    int64_t s1 = attrs_int(r->attrs, "stride1", 1), s2 = attrs_int(r->attrs, "stride2", 1);
    if (!y)
        return rel_blocked(r);
    if (!rel_rank(r, 0, x, 4) || !rel_set_input(r, 1, x) ||
        !rel_padding(r, "padding", 2, before, after))
        return REL_FAILED;
    if (!dtype_is_float(x->dtype)) {
        rel_error(r, E0203_DTYPE, 0, "`nn.correlation` takes reals, found `%s`",
                  type_str(r->cx, x));
        return REL_FAILED;
    }
    Dim dims[4] = {x->dims[0], 0, x->dims[2], x->dims[3]};
    bool good =
        k > 0 && k % 2 && k <= OPS_MOST && reach >= 0 && reach <= OPS_MOST && s1 > 0 && s2 > 0;
    for (int i = 0; good && i < 2; i++) {
        int64_t room = before[i] + after[i] - 2 * (reach + (k - 1) / 2);
        good = dims[2 + i] < 0 || room + dims[2 + i] > 0;
        dims[2 + i] = good ? dim_windows(r->cx, dims[2 + i], room, 1, s1) : 0;
    }
    if (!good) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, 0,
                  "an odd kernel and its displacements must fit into the data");
        return REL_FAILED;
    }
    int64_t side = 2 * (reach / s2) + 1;
    dims[1] = side * side;
    return rel_out_tensor(r, x->dtype, 4, dims);
}

/* Channel q is a displacement: the mean, over kernel and channels, of products (or distances) of both data. */
static void compute_correlation(TeBuilder *b)
{
    TeTensor t[2] = {te_input(b, 0), te_input(b, 1)};
    int64_t before[2], after[2], k = attrs_int(b->attrs, "kernel_size", 1);
    int64_t reach = attrs_int(b->attrs, "max_displacement", 1);
    int64_t s1 = attrs_int(b->attrs, "stride1", 1), s2 = attrs_int(b->attrs, "stride2", 1);
    int64_t side = 2 * (reach / s2) + 1, reduced[3] = {t[0].shape[1], k, k};
    DType d = t[0].dtype;
    ops_padding(b->attrs, "padding", 2, before, after);
    Te *q = te_axis(b, 1), *row = te_int(b, side), *v[2];
    Te *moved[2] = {te_binary(b, TE_DIV, q, row), te_binary(b, TE_MOD, q, row)};
    for (int i = 0; i < 2; i++) {
        Te *at[4] = {te_axis(b, 0), te_axis(b, 4)};
        for (int a = 0; a < 2; a++) {
            at[2 + a] =
                ops_affine(b, te_axis(b, 2 + a), s1, te_axis(b, 5 + a), 1, reach - before[a]);
            if (i)
                at[2 + a] = ops_affine(b, at[2 + a], 1, moved[a], s2, -(reach / s2) * s2);
        }
        v[i] = te_load_or(b, t[i], at, te_number(b, d, 0));
    }
    Te *body = attrs_bool(b->attrs, "is_multiply")
                   ? te_binary(b, TE_MUL, v[0], v[1])
                   : te_unary(b, TE_ABS, te_binary(b, TE_SUB, v[0], v[1]));
    body = te_binary(b, TE_DIV, body, te_number(b, d, (double)(k * k * reduced[0])));
    te_output(b, te_reduce(b, TE_SUM, d, 4, te_out_shape(b, 0), 3, reduced, body));
}

/* ---- rows ---------------------------------------------------------------------------------------- */

#define METHODS "nearest_neighbor", "linear", "bilinear", "trilinear", "cubic", "bicubic"
#define COORDINATES                                                                            \
    ATTR_ONE("coordinate_transformation_mode", "half_pixel", "where outputs lie among inputs", \
             "half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel",                \
             "tf_half_pixel_for_nn", "tf_crop_and_resize")
#define ROUNDING                                                                                 \
    ATTR_ONE("rounding_method", "round", "of nearest_neighbor: which input is nearest", "round", \
             "floor", "ceil", "round_prefer_floor", "round_prefer_ceil", "")
#define RESIZE(LAYOUT)                                                                           \
    ATTR_NONE("size", INTS, "spatial extents of the result"),                                    \
        ATTR_NONE("roi", FLOATS, "the part for tf_crop_and_resize: starts, then ends"),          \
        ATTR_S("layout", LAYOUT, "the order of the axes"),                                       \
        ATTR_ONE("method", "linear", "\"nearest_neighbor\", \"linear\" or \"cubic\"", METHODS),  \
        COORDINATES, ROUNDING, ATTR_F("cubic_alpha", -0.5, "the parameter of the cubic kernel"), \
        ATTR_I("cubic_exclude", 0, "1: inputs outside have no weight"),                          \
        ATTR_F("extrapolation_value", 0, "the result outside the image"),                        \
        ATTR_D("out_dtype", "", "the type of the result")
static const OpAttr resize1d_attrs[] = {RESIZE("NCW"), {0}};
static const OpAttr resize2d_attrs[] = {RESIZE("NCHW"), {0}};
static const OpAttr resize3d_attrs[] = {RESIZE("NCDHW"), {0}};
#define SCALE(AXIS, DOC) ATTR_MUST("scale_" AXIS, FLOAT, DOC)
#define UPSAMPLING                                                              \
    ATTR_S("layout", "NCHW", "the order of the axes"),                          \
        ATTR_ONE("method", "nearest_neighbor",                                  \
                 "\"nearest_neighbor\", \"bilinear\" or \"bicubic\"", METHODS), \
        ATTR_B("align_corners", 0, "the corners of both images lie on each other")
#define UPSAMPLING3D                                                                              \
    ATTR_S("layout", "NCDHW", "the order of the axes"),                                           \
        ATTR_ONE("method", "nearest_neighbor", "\"nearest_neighbor\" or \"trilinear\"", METHODS), \
        COORDINATES
static const OpAttr upsampling_attrs[] = {
    SCALE("h", "how much higher"), SCALE("w", "how much wider"), UPSAMPLING, {0}};
static const OpAttr upsampling3d_attrs[] = {SCALE("d", "how much deeper"),
                                            SCALE("h", "how much higher"),
                                            SCALE("w", "how much wider"),
                                            UPSAMPLING3D,
                                            {0}};
#define UNUSED_SCALE(AXIS) ATTR_NONE("scale_" AXIS, FLOAT, "unused: the argument gives it")
static const OpAttr dyn_upsampling_attrs[] = {
    UNUSED_SCALE("h"), UNUSED_SCALE("w"), UPSAMPLING, {0}};
static const OpAttr dyn_upsampling3d_attrs[] = {
    UNUSED_SCALE("d"), UNUSED_SCALE("h"), UNUSED_SCALE("w"), UPSAMPLING3D, {0}};
#define SCALE_ARG(AXIS) {"scale_" AXIS, "how much larger along this axis: a scalar"}
static const OpArg dyn_upsampling_args[] = {
    {"data", "images"}, SCALE_ARG("h"), SCALE_ARG("w"), {0}};
static const OpArg dyn_upsampling3d_args[] = {
    {"data", "volumes"}, SCALE_ARG("d"), SCALE_ARG("h"), SCALE_ARG("w"), {0}};
static const OpArg dyn_resize_args[] = {
    {"data", "images"},
    {"size", "spatial extents of the result"},
    {"roi", "the part for tf_crop_and_resize: starts, then ends"},
    {0}};
static const OpAttr dilation_attrs[] = {
    {.name = "strides",
     .type = ATTR_TYPE_INTS,
     .otherwise = {.kind = ATTR_LIST, .list = {ops_ones, 2}},
     .doc = "steps of the kernel"},
    {.name = "padding",
     .type = ATTR_TYPE_INTS,
     .otherwise = {.kind = ATTR_LIST, .list = {ops_zeros, 2}},
     .doc = "places around the data"},
    {.name = "dilations",
     .type = ATTR_TYPE_INTS,
     .otherwise = {.kind = ATTR_LIST, .list = {ops_ones, 2}},
     .doc = "distance of the kernel's elements"},
    ATTR_S("data_layout", "NCHW", "the order of the data's axes"),
    ATTR_S("kernel_layout", "IHW", "the order of the weight's axes"),
    ATTR_D("out_dtype", "", "the type of the result"),
    {0}};
static const OpArg dilation_args[] = {{"data", "images"}, {"weight", "one kernel a channel"}, {0}};

#define ROW(NAME, ID, ARGS, ATTRS, PATTERN, REL, SAMPLES, DOC)                    \
    OP_ROW(NAME, ARGS, ATTRS, PATTERN, REL, SAMPLES, DOC, .shapes = SHAPES_##REL, \
           .compute = compute_##ID)

#define DYN(NAME, ID, ARGS, ATTRS, REL, SHAPES, SAMPLES, DOC) \
    {.name = NAME,                                            \
     .doc = DOC,                                              \
     .args = ARGS,                                            \
     .attrs = ATTRS,                                          \
     .shapes = SHAPES,                                        \
     .samples = SAMPLES,                                      \
     .pattern = OP_INJECTIVE,                                 \
     .flags = OP_SHAPE_FROM_DATA,                             \
     .rel = REL,                                              \
     .compute = compute_##ID}

static const OpArg correlation_args[] = {{"data1", "images"}, {"data2", "images"}, {0}};
static const OpAttr correlation_attrs[] = {
    ATTR_I("kernel_size", 1, "extent of what is compared: odd"),
    ATTR_I("max_displacement", 1, "the farthest displacement"),
    ATTR_I("stride1", 1, "from one result to the next"),
    ATTR_I("stride2", 1, "from one displacement to the next"),
    {.name = "padding",
     .type = ATTR_TYPE_INTS,
     .otherwise = {.kind = ATTR_LIST, .list = {ops_zeros, 2}},
     .doc = "zeros around the data: all sides, or before and after"},
    ATTR_B("is_multiply", 1, "products, else distances"),
    ATTR_ONE("layout", "NCHW", "the order of the axes", "NCHW"),
    {0}};

const Op image_ops[] = {
    ROW("image.resize1d", resize, args_data, resize1d_attrs, OP_INJECTIVE, rel_resize,
        "(float32[1,2,5], size=[8])", "A row of places with another number of them."),
    ROW("image.resize2d", resize, args_data, resize2d_attrs, OP_INJECTIVE, rel_resize,
        "(float32[1,2,4,5], size=[8, 3]) (float32[1,1,4,4], size=[3, 3], method=\"cubic\")",
        "An image in another size."),
    ROW("image.resize3d", resize, args_data, resize3d_attrs, OP_INJECTIVE, rel_resize,
        "(float32[1,1,3,4,5], size=[4, 3, 5])", "A volume in another size."),
    ROW("nn.upsampling", upsampling, args_data, upsampling_attrs, OP_INJECTIVE, rel_upsampling,
        "(float32[1,2,3,4], scale_h=2f, scale_w=2f)", "An image scaled up."),
    ROW("nn.upsampling3d", upsampling3d, args_data, upsampling3d_attrs, OP_INJECTIVE,
        rel_upsampling, "(float32[1,1,2,3,4], scale_d=2f, scale_h=2f, scale_w=2f)",
        "A volume scaled up."),
    DYN("dyn.image.resize2d", resize, dyn_resize_args, resize2d_attrs, rel_resize,
        "(N, C, H, W), (2), (4) -> (N, C, size...)", "(float32[1,1,2,3], int64[2], float32[4])",
        "`image.resize2d` to a size that is an argument."),
    DYN("dyn.nn.upsampling", upsampling, dyn_upsampling_args, dyn_upsampling_attrs, rel_upsampling,
        "(N, C, H, W), (), () -> (N, C, round(H*scale_h), round(W*scale_w))",
        "(float32[1,1,2,3], float32, float32)", "`nn.upsampling` by scales that are arguments."),
    DYN("dyn.nn.upsampling3d", upsampling3d, dyn_upsampling3d_args, dyn_upsampling3d_attrs,
        rel_upsampling,
        "(N, C, D, H, W), (), (), () -> (N, C, round(D*scale_d), round(H*scale_h), "
        "round(W*scale_w))",
        "(float32[1,1,2,3,4], float32, float32, float32)",
        "`nn.upsampling3d` by scales that are arguments."),
    ROW("image.dilation2d", dilation2d, dilation_args, dilation_attrs, OP_OUT_FUSABLE,
        rel_dilation2d, "(float32[1,1,4,4], float32[1,2,2])",
        "The greatest sum of elements and a kernel laid over them."),
    {.name = "nn.correlation",
     .doc = "How alike two images are at each place, for each displacement of the second.",
     .args = correlation_args,
     .attrs = correlation_attrs,
     .shapes = "(N, C, H, W), (N, C, H, W) -> (N, (2*(max_displacement/stride2) + 1)^2, h, w)",
     .samples = "(float32[1,2,4,4], float32[1,2,4,4])",
     .pattern = OP_OUT_FUSABLE,
     .rel = rel_correlation,
     .compute = compute_correlation},
    {0},
};
