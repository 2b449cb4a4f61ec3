/* Pooling over regions of images. Kernels in C touch the pixels of each region alone; the gradients are those of tensor expressions that
 * say the same over all pixels. */
#include "stdlib/ops/boxes.h"

#include <math.h>

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
    Dim dims[4];
    dims[at[0]] = rois->dims[0];
    dims[at[1]] = t->dims[at[1]];
    dims[at[2]] = size[0];
    dims[at[3]] = size[1];
    return rel_out_tensor(r, t->dtype, 4, dims);
}

typedef struct Roi {
    Limits *limits;
    Tensor *x, *rois, *out; /* in float64 */
    int64_t n, c, h, w; /* of the data */
    int64_t step[4]; /* from one to the next along N, C, H and W */
    int64_t ph, pw, ostep[4];
    double scale;
    int64_t ratio;
    bool max;
} Roi;

static double pixel(const Roi *s, const double *plane, int64_t y, int64_t x)
{
    return plane[y * s->step[2] + x * s->step[3]];
}

/* Between the four pixels around a place; 0 more than a pixel outside. */
static double sample(const Roi *s, const double *plane, double y, double x)
{
    if (!(y >= -1 && y <= (double)s->h && x >= -1 && x <= (double)s->w))
        return 0;
    y = fmin(fmax(y, 0), (double)(s->h - 1));
    x = fmin(fmax(x, 0), (double)(s->w - 1));
    int64_t y0 = (int64_t)y, x0 = (int64_t)x;
    int64_t y1 = y0 + 1 < s->h ? y0 + 1 : y0, x1 = x0 + 1 < s->w ? x0 + 1 : x0;
    double dy = y - (double)y0, dx = x - (double)x0;
    return (pixel(s, plane, y0, x0) * (1 - dx) + pixel(s, plane, y0, x1) * dx) * (1 - dy) +
           (pixel(s, plane, y1, x0) * (1 - dx) + pixel(s, plane, y1, x1) * dx) * dy;
}

/* Samples on a grid in each part of the region: their mean or the greatest. */
static double align_bin(const Roi *s, const double *plane, const double *roi, int64_t i, int64_t k)
{
    double y0 = roi[2] * s->scale, x0 = roi[1] * s->scale;
    double high = fmax(roi[4] * s->scale - y0, 1) / (double)s->ph;
    double wide = fmax(roi[3] * s->scale - x0, 1) / (double)s->pw;
    int64_t ny = s->ratio > 0 ? s->ratio : (int64_t)fmin(ceil(high), 1e6);
    int64_t nx = s->ratio > 0 ? s->ratio : (int64_t)fmin(ceil(wide), 1e6);
    double sum = 0, most = -INFINITY;
    for (int64_t a = 0; a < ny && !limit_hit(s->limits); a++)
        for (int64_t b = 0; b < nx; b++) {
            double v = sample(s, plane, y0 + ((double)i + ((double)a + 0.5) / (double)ny) * high,
                              x0 + ((double)k + ((double)b + 0.5) / (double)nx) * wide);
            sum += v;
            most = fmax(most, v);
        }
    return s->max ? most : sum / (double)(ny * nx);
}

/* Of no number, 0. */
static int64_t within(double v, int64_t most)
{
    return !(v > 0) ? 0 : v < (double)most ? (int64_t)v : most;
}

/* The greatest pixel of each part of the region, whose corners are whole pixels; 0 where there is none. */
static double pool_bin(const Roi *s, const double *plane, const double *roi, int64_t i, int64_t k)
{
    double y0 = round(roi[2] * s->scale), x0 = round(roi[1] * s->scale);
    double high = fmax(round(roi[4] * s->scale) - y0 + 1, 1) / (double)s->ph;
    double wide = fmax(round(roi[3] * s->scale) - x0 + 1, 1) / (double)s->pw;
    int64_t top = within(floor((double)i * high) + y0, s->h);
    int64_t end = within(ceil((double)(i + 1) * high) + y0, s->h);
    int64_t left = within(floor((double)k * wide) + x0, s->w);
    int64_t right = within(ceil((double)(k + 1) * wide) + x0, s->w);
    double most = top < end && left < right ? -INFINITY : 0;
    for (int64_t y = top; y < end; y++)
        for (int64_t x = left; x < right; x++)
            most = fmax(most, pixel(s, plane, y, x));
    return most;
}

typedef double RoiBin(const Roi *s, const double *plane, const double *roi, int64_t i, int64_t k);

static bool roi_one(OpCall *c, const Roi *s, RoiBin *bin, int64_t r)
{
    const double *roi = reals(s->rois) + 5 * r;
    double *out = reals(s->out) + r * s->ostep[0];
    if (!(roi[0] >= 0 && roi[0] < (double)s->n)) {
        diag_error(c->cx->diags, E0304_INDEX, c->span,
                   "region %lld is of image %g, but there are %lld", (long long)r, roi[0],
                   (long long)s->n);
        return false;
    }
    const double *image = reals(s->x) + (int64_t)roi[0] * s->step[0];
    for (int64_t k = 0; k < s->c; k++)
        for (int64_t i = 0; i < s->ph && !limit_hit(&c->cx->limits); i++)
            for (int64_t j = 0; j < s->pw; j++)
                out[k * s->ostep[1] + i * s->ostep[2] + j * s->ostep[3]] =
                    bin(s, image + k * s->step[1], roi, i, j);
    return !limit_hit(&c->cx->limits);
}

static bool roi_begin(OpCall *c, Roi *s)
{
    s->x = kernel_arg_as(c, 0, float64_dtype);
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

static bool roi_run(OpCall *c, Roi *s, RoiBin *bin)
{
    bool good = roi_begin(c, s);
    for (int64_t r = 0; good && r < s->rois->shape[0]; r++)
        good = roi_one(c, s, bin, r);
    kernel_release(2, (Tensor *[]){s->x, s->rois});
    if (good)
        return kernel_set(c, kernel_cast(c, s->out, c->type->dtype));
    tensor_release(s->out);
    return false;
}

static bool kernel_roi_align(OpCall *c)
{
    Roi s = {.limits = &c->cx->limits,
             .ratio = attrs_int(c->attrs, "sample_ratio", -1),
             .max = str_is(attrs_string(c->attrs, "mode"), "max")};
    return roi_run(c, &s, align_bin);
}

static bool kernel_roi_pool(OpCall *c)
{
    return roi_run(c, &(Roi){0}, pool_bin);
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
