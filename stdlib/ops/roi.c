/* Pooling over regions of images. Kernels in C touch the pixels of each region alone; the gradients are those of tensor expressions that
 * say the same over all pixels. */
#include "stdlib/ops/boxes.h"

#include "base/clones.h"

#include <math.h>

static const DType float32_dtype = {DTYPE_CODE_FLOAT, 32, 1};
static const DType float64_dtype = {DTYPE_CODE_FLOAT, 64, 1};
static const DType int64_dtype = {DTYPE_CODE_INT, 64, 1};

static RelResult rel_roi(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *rois = t ? rel_tensor(r, 1) : NULL;
    int64_t size[2];
    int at[4];
    if (!rois)
        return rel_blocked(r);
    if (!rel_rank(r, 0, t, 4) || !rel_rank(r, 1, rois, 2) || !rel_ints(r, "pooled_size", 2, size) ||
        !rel_layout(r, "layout", "NCHW", at))
        return REL_FAILED;
    if (!dim_agrees(rois->dims[1], 5)) {
        rel_error(r, E0202_SHAPE, 1, "a region has five numbers: its image and four corners");
        return REL_FAILED;
    }
    int64_t ratio = attrs_int(r->attrs, "sample_ratio", -1);
    if (ratio > OPS_MOST) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`sample_ratio` of `%s` cannot be %lld",
                  r->op->name, (long long)ratio);
        return REL_FAILED;
    }
    Dim dims[4];
    dims[at[0]] = rois->dims[0];
    dims[at[1]] = t->dims[at[1]];
    dims[at[2]] = size[0];
    dims[at[3]] = size[1];
    return rel_out_tensor(r, t->dtype, 4, dims);
}

typedef struct Roi {
    Limits *limits;
    Tensor *x, *rois, *out; /* in float64; x also in float32 */
    bool single; /* it is */
    int64_t n, c, h, w; /* of the data */
    int64_t step[4]; /* from one to the next along N, C, H and W */
    int64_t ph, pw, ostep[4];
    double scale;
    int64_t ratio;
    bool max;
} Roi;

/* The greater, where v is no number the other; of zeros the first. In this form it is one instruction. */
static inline double greatest(double most, double v)
{
    return v > most ? v : most;
}

/* Where a plane of an image begins. */
static const void *plane_at(const Roi *s, int64_t image, int64_t channel)
{
    int64_t at = image * s->step[0] + channel * s->step[1];
    return s->x->data + at * (int64_t)(s->single ? sizeof(float) : sizeof(double));
}

/* ---- vision.roi_align ----------------------------------------------------------------------------- */

/* A sample along an axis lies between two pixels, so many elements from the first of all, and takes parts of them. */
typedef struct Tap {
    int64_t at[2]; /* negative: it is more than a pixel outside, and 0 */
    double part[2];
} Tap;

/* The samples along an axis: n in each part of the region, of which m are looked at, all that lie within reach and one of the others for
 * all of them. Sample j of part i is tap[j * parts + i]. */
typedef struct Taps {
    double begin, size; /* of the first part */
    int64_t parts, extent, n, m;
    Tensor *room;
    Tap *tap;
} Taps;

static double tap_place(const Taps *t, int64_t part, int64_t j)
{
    return t->begin + ((double)part + ((double)j + 0.5) / (double)t->n) * t->size;
}

/* How many samples of the part lie in front of the edge, or also at it. */
static int64_t taps_to(const Taps *t, int64_t part, double edge, bool with)
{
    int64_t low = 0, high = t->n;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        double v = tap_place(t, part, mid);
        if (with ? v <= edge : v < edge)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The samples of the part from one on, to another, are within reach. */
static void taps_reach(const Taps *t, int64_t part, int64_t *from, int64_t *to)
{
    *from = taps_to(t, part, -1, false);
    *to = t->extent > 0 ? taps_to(t, part, (double)t->extent, true) : 0;
    if (*to < *from)
        *to = *from;
}

static Tap tap_at(const Taps *t, double v, int64_t step)
{
    double last = (double)(t->extent - 1);
    v = v >= 0 ? v : 0;
    v = v <= last ? v : last;
    int64_t i = (int64_t)v, next = i + 1 < t->extent ? i + 1 : i;
    double away = v - (double)i;
    return (Tap){{i * step, next * step}, {1 - away, away}};
}

/* What is outside stands in front of the others of its part if the first is, else behind them. */
static bool taps_begin(Limits *limits, Taps *t, int64_t step)
{
    int64_t from, to;
    for (int64_t i = 0; i < t->parts; i++) {
        taps_reach(t, i, &from, &to);
        t->m = to - from < t->m ? t->m : to - from + 1;
    }
    t->m = t->m < t->n ? t->m : t->n;
    t->room = tensor_new_raw(limits, float64_dtype, 3, (int64_t[]){t->m, t->parts, 4});
    t->tap = t->room ? (Tap *)(void *)t->room->data : NULL;
    for (int64_t i = 0; t->room && i < t->parts; i++) {
        taps_reach(t, i, &from, &to);
        int64_t first = from > 0 ? to - t->m : from;
        for (int64_t j = 0; j < t->m && !limit_hit_at(limits, j); j++) {
            int64_t k = first + j;
            t->tap[j * t->parts + i] =
                k >= from && k < to ? tap_at(t, tap_place(t, i, k), step) : (Tap){{-1, -1}, {0, 0}};
        }
    }
    return t->room != NULL;
}

/* Of a row of pixels all samples along it. */
#define ROW_SAMPLES(NAME, TYPE)                                                    \
    static void NAME(const TYPE *line, const Tap *t, int64_t n, double *row)       \
    {                                                                              \
        for (int64_t i = 0; i < n; i++)                                            \
            row[i] = t[i].at[0] < 0 ? 0                                            \
                                    : (double)line[t[i].at[0]] * t[i].part[0] +    \
                                          (double)line[t[i].at[1]] * t[i].part[1]; \
    }

ROW_SAMPLES(row_single, float)
ROW_SAMPLES(row_double, double)

/* Samples between two rows, n for each part, into what the parts have. */
CLONES static void add_between(const double *a, const double *b, const double part[2], int64_t n,
                               int64_t parts, double *sum)
{
    double x = part[0], y = part[1];
    for (int64_t k = 0; k < n; k++, a += parts, b += parts)
        for (int64_t j = 0; j < parts; j++)
            sum[j] += a[j] * x + b[j] * y;
}

CLONES static void greatest_between(const double *a, const double *b, const double part[2],
                                    int64_t n, int64_t parts, double *most)
{
    double x = part[0], y = part[1];
    for (int64_t k = 0; k < n; k++, a += parts, b += parts)
        for (int64_t j = 0; j < parts; j++)
            most[j] = greatest(most[j], a[j] * x + b[j] * y);
}

/* Rows of samples of one channel: the last two that were computed, and one of zeros. */
typedef struct SampleRows {
    const void *plane;
    double *row[2], *zeros;
    int64_t at[2], n;
    int64_t turns; /* since the limits were asked */
} SampleRows;

static const double *sample_row(const Roi *s, SampleRows *r, const Taps *x, int64_t y)
{
    double *row = r->row[y & 1];
    if (r->at[y & 1] == y)
        return row;
    r->at[y & 1] = y;
    if (s->single)
        row_single((const float *)r->plane + y * s->step[2], x->tap, r->n, row);
    else
        row_double((const double *)r->plane + y * s->step[2], x->tap, r->n, row);
    return row;
}

static bool row_ends(const Roi *s, SampleRows *r)
{
    r->turns += r->n;
    if (r->turns < LIMIT_EVERY)
        return false;
    r->turns = 0;
    return limit_hit(s->limits);
}

/* The mean of the samples in each part of the region, or the greatest; `v` has room for a row of the result. */
static void align_channel(const Roi *s, const Taps *y, const Taps *x, SampleRows *r, double *v,
                          double *out)
{
    for (int64_t i = 0; i < s->ph; i++) {
        for (int64_t j = 0; j < s->pw; j++)
            v[j] = s->max ? -INFINITY : 0;
        for (int64_t k = 0; k < y->m && !row_ends(s, r); k++) {
            const Tap *t = &y->tap[k * s->ph + i];
            bool in = t->at[0] >= 0;
            const double *a = in ? sample_row(s, r, x, t->at[0]) : r->zeros;
            const double *b = in ? sample_row(s, r, x, t->at[1]) : r->zeros;
            (s->max ? greatest_between : add_between)(a, b, t->part, x->m, s->pw, v);
        }
        for (int64_t j = 0; j < s->pw; j++)
            out[i * s->ostep[2] + j * s->ostep[3]] = s->max ? v[j] : v[j] / (double)(y->n * x->n);
    }
}

static Taps taps_of(const Roi *s, double low, double high, int64_t parts, int64_t extent)
{
    Taps t = {.begin = low * s->scale, .parts = parts, .extent = extent};
    t.size = fmax(high * s->scale - t.begin, 1) / (double)parts;
    t.n = s->ratio > 0 ? s->ratio : (int64_t)fmin(ceil(t.size), 1e6);
    return t;
}

/* Where samples lie is the same in all channels. */
static bool align_region(const Roi *s, const double *roi, double *out)
{
    Taps y = taps_of(s, roi[2], roi[4], s->ph, s->h), x = taps_of(s, roi[1], roi[3], s->pw, s->w);
    bool good = taps_begin(s->limits, &y, 1) && taps_begin(s->limits, &x, s->step[3]);
    Tensor *room =
        good ? tensor_new(s->limits, float64_dtype, 2, (int64_t[]){3 * x.m + 1, s->pw}) : NULL;
    for (int64_t k = 0; room && k < s->c && !limit_hit(s->limits); k++) {
        double *at = reals(room);
        SampleRows rows = {
            .plane = plane_at(s, (int64_t)roi[0], k), .n = x.m * s->pw, .at = {-1, -1}};
        rows.row[0] = at;
        rows.row[1] = at + rows.n;
        rows.zeros = at + 2 * rows.n;
        align_channel(s, &y, &x, &rows, at + 3 * rows.n, out + k * s->ostep[1]);
    }
    return kernel_release(3, (Tensor *[]){y.room, x.room, room});
}

/* ---- vision.roi_pool ------------------------------------------------------------------------------ */

/* Of no number, 0. */
static int64_t within(double v, int64_t most)
{
    return !(v > 0) ? 0 : v < (double)most ? (int64_t)v : most;
}

/* Along an axis the parts' pixels, each the first and the one behind the last; the region's corners are whole pixels. */
static void pool_parts(const Roi *s, double low, double high, int64_t parts, int64_t extent,
                       int64_t (*edge)[2])
{
    low = round(low * s->scale);
    double size = fmax(round(high * s->scale) - low + 1, 1) / (double)parts;
    for (int64_t i = 0; i < parts && !limit_hit_at(s->limits, i); i++) {
        edge[i][0] = within(floor((double)i * size) + low, extent);
        edge[i][1] = within(ceil((double)(i + 1) * size) + low, extent);
    }
}

#define GREATEST_WITHIN(NAME, TYPE)                                                             \
    static double NAME(const Roi *s, const TYPE *plane, const int64_t y[2], const int64_t x[2]) \
    {                                                                                           \
        TYPE most = y[0] < y[1] && x[0] < x[1] ? -INFINITY : 0;                                 \
        int64_t step = s->step[3];                                                              \
        for (int64_t i = y[0]; i < y[1]; i++) {                                                 \
            const TYPE *line = plane + i * s->step[2];                                          \
            for (int64_t j = x[0]; j < x[1]; j++)                                               \
                most = line[j * step] > most ? line[j * step] : most;                           \
        }                                                                                       \
        return most;                                                                            \
    }

GREATEST_WITHIN(greatest_single, float)
GREATEST_WITHIN(greatest_double, double)

/* The greatest pixel of each part of the region; 0 where there is none. */
static bool pool_region(const Roi *s, const double *roi, double *out)
{
    Tensor *room = tensor_new(s->limits, int64_dtype, 2, (int64_t[]){s->ph + s->pw, 2});
    if (!room)
        return false;
    int64_t(*y)[2] = (int64_t(*)[2])(void *)room->data, (*x)[2] = y + s->ph;
    pool_parts(s, roi[2], roi[4], s->ph, s->h, y);
    pool_parts(s, roi[1], roi[3], s->pw, s->w, x);
    for (int64_t k = 0; k < s->c; k++) {
        const void *plane = plane_at(s, (int64_t)roi[0], k);
        double *to = out + k * s->ostep[1];
        for (int64_t i = 0; i < s->ph && !limit_hit(s->limits); i++)
            for (int64_t j = 0; j < s->pw; j++)
                to[i * s->ostep[2] + j * s->ostep[3]] = s->single
                                                            ? greatest_single(s, plane, y[i], x[j])
                                                            : greatest_double(s, plane, y[i], x[j]);
    }
    tensor_release(room);
    return true;
}

/* ---- what both do --------------------------------------------------------------------------------- */

/* What is there of one region, the result's first element given. */
typedef bool RoiRegion(const Roi *s, const double *roi, double *out);

static bool roi_one(OpCall *c, const Roi *s, RoiRegion *region, int64_t r)
{
    const double *roi = reals(s->rois) + 5 * r;
    if (!(roi[0] >= 0 && roi[0] < (double)s->n)) {
        diag_error(c->cx->diags, E0304_INDEX, c->span,
                   "region %lld is of image %g, but there are %lld", (long long)r, roi[0],
                   (long long)s->n);
        return false;
    }
    return region(s, roi, reals(s->out) + r * s->ostep[0]) && !limit_hit(s->limits);
}

static bool roi_begin(OpCall *c, Roi *s)
{
    s->limits = &c->cx->limits;
    s->x = kernel_arg(c, 0);
    s->single = s->x && dtype_eq(s->x->dtype, float32_dtype);
    if (!s->single)
        s->x = kernel_cast(c, s->x, float64_dtype);
    s->rois = kernel_arg_as(c, 1, float64_dtype);
    s->out = tensor_new(&c->cx->limits, float64_dtype, 4, c->type->dims);
    if (!s->x || !s->rois || !s->out)
        return false;
    int at[4];
    int64_t in[4], out[4];
    layout_positions(attrs_string(c->attrs, "layout"), "NCHW", at);
    shape_strides(4, s->x->shape, in);
    shape_strides(4, s->out->shape, out);
    for (int i = 0; i < 4; i++) {
        s->step[i] = in[at[i]];
        s->ostep[i] = out[at[i]];
    }
    s->n = s->x->shape[at[0]];
    s->c = s->x->shape[at[1]];
    s->h = s->x->shape[at[2]];
    s->w = s->x->shape[at[3]];
    s->ph = s->out->shape[at[2]];
    s->pw = s->out->shape[at[3]];
    s->scale = attrs_float(c->attrs, "spatial_scale");
    return true;
}

static bool roi_run(OpCall *c, Roi *s, RoiRegion *region)
{
    bool good = roi_begin(c, s);
    for (int64_t r = 0; good && r < s->rois->shape[0]; r++)
        good = roi_one(c, s, region, r);
    kernel_release(2, (Tensor *[]){s->x, s->rois});
    if (good)
        return kernel_set(c, kernel_cast(c, s->out, c->type->dtype));
    tensor_release(s->out);
    return false;
}

static bool kernel_roi_align(OpCall *c)
{
    Roi s = {.ratio = attrs_int(c->attrs, "sample_ratio", -1),
             .max = str_is(attrs_string(c->attrs, "mode"), "max")};
    return roi_run(c, &s, align_region);
}

static bool kernel_roi_pool(OpCall *c)
{
    return roi_run(c, &(Roi){0}, pool_region);
}

/* ---- as tensor expressions ------------------------------------------------------------------------ */

static Te *real(TeBuilder *b, double v)
{
    return te_number(b, float64_dtype, v);
}

static Te *add(TeBuilder *b, Te *x, Te *y)
{
    return te_binary(b, TE_ADD, x, y);
}

static Te *sub(TeBuilder *b, Te *x, Te *y)
{
    return te_binary(b, TE_SUB, x, y);
}

static Te *mul(TeBuilder *b, Te *x, Te *y)
{
    return te_binary(b, TE_MUL, x, y);
}

static Te *over(TeBuilder *b, Te *x, Te *y)
{
    return te_binary(b, TE_DIV, x, y);
}

static Te *clamp(TeBuilder *b, Te *x, Te *low, Te *high)
{
    return te_binary(b, TE_MAX, te_binary(b, TE_MIN, x, high), low);
}

/* Along one axis of the images regions have parts; all in float64, as in the kernels. */
typedef struct RoiAxis {
    int64_t regions, parts, extent; /* of pixels */
    Te *low, *high; /* corners of the region at axis 0, in pixels */
    Te *part; /* axis 1 */
} RoiAxis;

/* `i` is 0 for H and 1 for W, which are axis `at` of the data. */
static RoiAxis roi_axis(TeBuilder *b, int i, int at)
{
    TeTensor rois = te_input(b, 1);
    RoiAxis s = {.regions = rois.shape[0],
                 .parts = te_out_shape(b, 0)[at],
                 .extent = te_input(b, 0).shape[at],
                 .part = te_cast(b, float64_dtype, te_axis(b, 1))};
    Te **corner[2] = {&s.low, &s.high};
    for (int k = 0; k < 2; k++) {
        Te *x = te_load(b, rois, (Te *[]){te_axis(b, 0), te_int(b, 2 * k + 2 - i)});
        *corner[k] =
            mul(b, te_cast(b, float64_dtype, x), real(b, attrs_float(b->attrs, "spatial_scale")));
    }
    return s;
}

/* The pixel of the image of the region at axis 0, in the channel at axis 1. */
static Te *roi_pixel(TeBuilder *b, const int *at, Te *y, Te *x)
{
    TeTensor images = te_input(b, 0);
    Te *image = te_load(b, te_input(b, 1), (Te *[]){te_axis(b, 0), te_int(b, 0)}), *index[4];
    int64_t n = images.shape[at[0]];
    index[at[0]] = ops_clamp(b, te_cast(b, int64_dtype, image), n ? n : 1);
    index[at[1]] = te_axis(b, 1);
    index[at[2]] = y;
    index[at[3]] = x;
    return te_cast(b, float64_dtype, te_load(b, images, index));
}

/* The output: what [region, channel, i, j] has, where the layout has it. */
static void roi_emit(TeBuilder *b, const int *at, TeTensor t)
{
    Te *index[4];
    for (int i = 0; i < 4; i++)
        index[i] = te_axis(b, at[i]);
    ops_emit(b, te_cast(b, te_out_dtype(b, 0), te_load(b, t, index)));
}

/* Along an axis, what samples are made of: [region, part, sample, pixel] has weights; the samples behind `count` are none. */
typedef struct RoiSamples {
    int64_t n;
    Te *count; /* of the region at axis 0 */
    TeTensor weight;
} RoiSamples;

/* Where regions decide how many samples there are, they lie half a pixel apart or more: all in the image are looked at, and one or two on
 * either side, which are 0 as all beyond. */
static RoiSamples roi_samples(TeBuilder *b, const RoiAxis *s)
{
    int64_t ratio = attrs_int(b->attrs, "sample_ratio", -1);
    Te *zero = real(b, 0), *one = real(b, 1), *extent = real(b, (double)s->extent);
    Te *size = te_binary(b, TE_MAX, sub(b, s->high, s->low), one);
    size = over(b, size, real(b, (double)s->parts));
    Te *begin = add(b, s->low, mul(b, s->part, size));
    RoiSamples out = {.n = ratio, .count = real(b, (double)ratio)};
    Te *number = te_cast(b, float64_dtype, te_axis(b, 2));
    if (ratio <= 0) {
        out.n = 2 * s->extent + 6;
        out.count = te_binary(b, TE_MIN, te_unary(b, TE_CEIL, size), real(b, 1e6));
        Te *at = mul(b, over(b, sub(b, real(b, -1), begin), size), out.count);
        Te *last = te_binary(b, TE_MAX, sub(b, out.count, real(b, (double)out.n)), zero);
        at = sub(b, te_unary(b, TE_CEIL, at), real(b, 2));
        number = add(b, number, clamp(b, at, zero, last));
    }
    Te *at = mul(b, over(b, add(b, number, real(b, 0.5)), out.count), size);
    at = add(b, begin, at);
    Te *in =
        te_binary(b, TE_AND, te_binary(b, TE_GE, at, real(b, -1)), te_binary(b, TE_LE, at, extent));
    in = te_binary(b, TE_AND, in, te_binary(b, TE_LT, number, out.count));
    at = clamp(b, at, zero, sub(b, extent, one));
    Te *away = te_unary(b, TE_ABS, sub(b, at, te_cast(b, float64_dtype, te_axis(b, 3))));
    Te *weight = te_binary(b, TE_MAX, sub(b, one, away), zero);
    out.weight = te_map(b, float64_dtype, 4, (int64_t[]){s->regions, s->parts, out.n, s->extent},
                        te_select(b, in, weight, zero));
    return out;
}

/* One sample that is the mean of all. */
static void roi_mean(TeBuilder *b, const RoiAxis *s, RoiSamples *samples)
{
    Te *at[4] = {te_axis(b, 0), te_axis(b, 1), te_axis(b, 4), te_axis(b, 3)};
    samples->weight =
        te_reduce(b, TE_SUM, float64_dtype, 4, (int64_t[]){s->regions, s->parts, 1, s->extent}, 1,
                  &samples->n, over(b, te_load(b, samples->weight, at), samples->count));
    samples->n = 1;
}

/* Samples are sums over rows of sums over columns: [region, channel, j, b, y], then [region, channel, i, j, a, b]. */
static void express_roi_align(TeBuilder *b)
{
    int at[4];
    layout_positions(attrs_string(b->attrs, "layout"), "NCHW", at);
    bool most = str_is(attrs_string(b->attrs, "mode"), "max");
    RoiAxis s[2];
    RoiSamples all[2];
    for (int i = 0; i < 2; i++) {
        s[i] = roi_axis(b, i, at[2 + i]);
        all[i] = roi_samples(b, &s[i]);
        if (!most)
            roi_mean(b, &s[i], &all[i]);
    }
    int64_t channels = te_out_shape(b, 0)[at[1]], n[2] = {all[0].n, all[1].n};
    Te *x[7];
    ops_axes(b, 0, 7, x);
    Te *part = mul(b, te_load(b, all[1].weight, (Te *[]){x[0], x[2], x[3], x[5]}),
                   roi_pixel(b, at, x[4], x[5]));
    int64_t rows_shape[5] = {s[0].regions, channels, s[1].parts, n[1], s[0].extent};
    TeTensor rows = te_reduce(b, TE_SUM, float64_dtype, 5, rows_shape, 1, &s[1].extent, part);
    part = mul(b, te_load(b, all[0].weight, (Te *[]){x[0], x[2], x[4], x[6]}),
               te_load(b, rows, (Te *[]){x[0], x[1], x[3], x[5], x[6]}));
    int64_t shape[6] = {s[0].regions, channels, s[0].parts, s[1].parts, n[0], n[1]};
    TeTensor samples = te_reduce(b, TE_SUM, float64_dtype, 6, shape, 1, &s[0].extent, part);
    Te *v = te_load(b, samples, x);
    for (int i = 0; i < 2 && most; i++)
        v = te_select(b, te_binary(b, TE_LT, te_cast(b, float64_dtype, x[4 + i]), all[i].count), v,
                      te_bound(b, float64_dtype, true));
    roi_emit(b, at, te_reduce(b, TE_REDUCE_MAX, float64_dtype, 4, shape, 2, n, v));
}

/* The nearest whole number, halves away from 0. */
static Te *whole(TeBuilder *b, Te *x)
{
    Te *up = te_unary(b, TE_FLOOR, add(b, te_unary(b, TE_ABS, x), real(b, 0.5)));
    return mul(b, te_unary(b, TE_SIGN, x), up);
}

/* [region, part]: the first pixel of the part, or with 1 the one behind the last. */
static TeTensor roi_edge(TeBuilder *b, const RoiAxis *s, int end)
{
    Te *low = whole(b, s->low), *one = real(b, 1);
    Te *size = add(b, sub(b, whole(b, s->high), low), one);
    size = over(b, te_binary(b, TE_MAX, size, one), real(b, (double)s->parts));
    Te *at = mul(b, add(b, s->part, real(b, end)), size);
    at = add(b, te_unary(b, end ? TE_CEIL : TE_FLOOR, at), low);
    return te_map(b, float64_dtype, 2, (int64_t[]){s->regions, s->parts},
                  clamp(b, at, real(b, 0), real(b, (double)s->extent)));
}

/* The greatest of the part's pixels along an axis, which is axis 4: of the part at axis `part`. */
static Te *within_part(TeBuilder *b, const TeTensor *edge, int part, Te *v)
{
    Te *place[2] = {te_axis(b, 0), te_axis(b, part)};
    Te *at = te_cast(b, float64_dtype, te_axis(b, 4));
    Te *in = te_binary(b, TE_AND, te_binary(b, TE_GE, at, te_load(b, edge[0], place)),
                       te_binary(b, TE_LT, at, te_load(b, edge[1], place)));
    return te_select(b, in, v, te_bound(b, float64_dtype, true));
}

/* The greatest along rows, [region, channel, y, j], then of those; 0 where a part has no pixels. */
static void express_roi_pool(TeBuilder *b)
{
    int at[4];
    layout_positions(attrs_string(b->attrs, "layout"), "NCHW", at);
    RoiAxis s[2];
    TeTensor edge[2][2];
    for (int i = 0; i < 2; i++) {
        s[i] = roi_axis(b, i, at[2 + i]);
        for (int k = 0; k < 2; k++)
            edge[i][k] = roi_edge(b, &s[i], k);
    }
    Te *x[5];
    ops_axes(b, 0, 5, x);
    int64_t shape[4] = {s[0].regions, te_out_shape(b, 0)[at[1]], s[0].extent, s[1].parts};
    TeTensor rows = te_reduce(b, TE_REDUCE_MAX, float64_dtype, 4, shape, 1, &s[1].extent,
                              within_part(b, edge[1], 3, roi_pixel(b, at, x[2], x[4])));
    Te *v = te_load(b, rows, (Te *[]){x[0], x[1], x[4], x[3]});
    shape[2] = s[0].parts;
    TeTensor all = te_reduce(b, TE_REDUCE_MAX, float64_dtype, 4, shape, 1, &s[0].extent,
                             within_part(b, edge[0], 2, v));
    Te *most = te_load(b, all, x);
    Te *none = te_binary(b, TE_EQ, most, te_bound(b, float64_dtype, true));
    roi_emit(b, at, te_map(b, float64_dtype, 4, shape, te_select(b, none, real(b, 0), most)));
}

/* ---- rows ----------------------------------------------------------------------------------------- */

static const OpArg roi_args[] = {
    {"data", "images"}, {"rois", "regions: image, left, top, right, bottom"}, {0}};
#define ROI_SIZE                                                      \
    ATTR_MUST("pooled_size", INTS, "height and width of the result"), \
        ATTR_MUST("spatial_scale", FLOAT, "from the regions' coordinates to the data's")
static const OpAttr roi_align_attrs[] = {
    ROI_SIZE,
    ATTR_I("sample_ratio", -1, "samples along each axis of a part; -1: one a pixel"),
    ATTR_S("layout", "NCHW", "the order of the axes"),
    ATTR_ONE("mode", "avg", "\"avg\" or \"max\" of the samples", "avg", "max"),
    {0}};
static const OpAttr roi_pool_attrs[] = {
    ROI_SIZE, ATTR_S("layout", "NCHW", "the order of the axes"), {0}};

#define ROW(NAME, ATTRS, KERNEL, SAMPLES, ...)                                             \
    OP_ROW("vision." NAME, roi_args, ATTRS, OP_OUT_FUSABLE, rel_roi, SAMPLES, __VA_ARGS__, \
           .shapes = "(N, C, H, W), (R, 5) -> (R, C, pooled_size...)", KERNEL)
#define SAMPLE "(float32[1,2,6,6], float32[1,5], pooled_size=[2, 2], spatial_scale=1f)"
#define LARGE(MORE) "(float32[1,2,5,6], float32[3,5], pooled_size=[2, 3], spatial_scale=1f" MORE ")"

const Op roi_ops[] = {
    ROW("roi_align", roi_align_attrs, .kernel = kernel_roi_align,
        SAMPLE LARGE("") LARGE(", sample_ratio=2, mode=\"max\"") LARGE(", mode=\"max\""),
        "The mean of samples in each part of regions; samples lie between pixels.",
        .expression = express_roi_align),
    ROW("roi_pool", roi_pool_attrs, .kernel = kernel_roi_pool, SAMPLE LARGE(""),
        "The greatest pixel in each part of regions.", .expression = express_roi_pool),
    {0},
};
