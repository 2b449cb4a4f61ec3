/* Images, boxes and windows. */
#include "exchange/onnx_rules.h"

#include <math.h>
#include <string.h>

static const char *const layouts[] = {"NCW", "NCHW", "NCDHW"};

/* By so much an image may become smaller; so large it may become, and from so far outside an element may come. */
#define SCALE_LEAST 1e-4
#define PLACE_MOST 1e12

/* ---- sizes ------------------------------------------------------------------------------------------------------------------ */

typedef struct Sizes {
    int rank;
    int64_t to[TENSOR_RANK_MOST];
    double scale[TENSOR_RANK_MOST]; /* 0: the quotient of the sizes */
    double roi[2][TENSOR_RANK_MOST];
} Sizes;

/* Up to version 9 scales are an attribute, up to 10 an input; sizes, a part of the image and axes came later. */
static bool read_sizes(OnnxNode *n, Sizes *s)
{
    bool attribute = onnx_has_attr(n, "scales"), early = attribute || n->version < 11;
    size_t scales_at = early ? 1 : 2;
    OnnxInts axes = onnx_attr_ints(n, "axes"), sizes = {.n = -1};
    bool by_sizes = !early && onnx_has(n, 3);
    if (by_sizes)
        sizes = onnx_ints(n, 3);
    int count = axes.n >= 0 ? axes.n : s->rank;
    const char *policy = onnx_attr_text(n, "keep_aspect_ratio_policy", "stretch");
    const Onnx__AttributeProto *list = onnx_attr(n, "scales");
    double ratio = 0;
    for (int i = 0; i < s->rank; i++) {
        s->to[i] = onnx_known_extent(n, 0, i);
        s->roi[1][i] = 1;
    }
    for (int k = 0; k < count && by_sizes && strcmp(policy, "stretch") != 0; k++) {
        int64_t a = axes.n >= 0 ? axes.at[k] + (axes.at[k] < 0 ? s->rank : 0) : k;
        double r =
            k < sizes.n && a >= 0 && a < s->rank ? (double)sizes.at[k] / (double)s->to[a] : 1;
        bool less = !strcmp(policy, "not_larger") ? r < ratio : r > ratio;
        ratio = k == 0 || less ? r : ratio;
    }
    for (int k = 0; k < count && !n->failed; k++) {
        int64_t a = axes.n >= 0 ? axes.at[k] + (axes.at[k] < 0 ? s->rank : 0) : k;
        if (a < 0 || a >= s->rank || (by_sizes && k >= sizes.n)) {
            onnx_refuse(n, "there is no axis %lld", (long long)a);
            return false;
        }
        double d = (double)s->to[a];
        double scale = by_sizes    ? ratio
                       : attribute ? (k < (int)list->n_floats ? (double)list->floats[k] : 1)
                                   : onnx_number(n, scales_at, k);
        double to = !by_sizes    ? floor(d * scale)
                    : ratio != 0 ? floor(d * ratio + 0.5)
                                 : (double)sizes.at[k];
        if (!(to >= 0) || to > PLACE_MOST) {
            onnx_refuse(n, "an extent of %g", to);
            return false;
        }
        s->to[a] = (int64_t)to;
        s->scale[a] = scale;
        if (!early && onnx_has(n, 1) && onnx_value(n, 1) && onnx_value(n, 1)->constant &&
            onnx_value(n, 1)->constant->size == 2 * count) {
            s->roi[0][a] = onnx_number(n, 1, k);
            s->roi[1][a] = onnx_number(n, 1, count + k);
        }
    }
    return !n->failed;
}

/* Where each element of the result lies in the input, and how much of which inputs it takes: a matrix for each axis. */
typedef struct Resize {
    const char *mode, *coordinates, *rounding;
    double cubic, outside;
    bool antialias, exclude;
} Resize;

static double source_of(const Resize *r, const Sizes *s, int axis, int64_t i, double from,
                        double scale)
{
    double x = (double)i, to = (double)s->to[axis], length = from * scale;
    if (!strcmp(r->coordinates, "align_corners"))
        return length == 1 ? 0 : x * (from - 1) / (length - 1);
    if (!strcmp(r->coordinates, "asymmetric"))
        return x / scale;
    if (!strcmp(r->coordinates, "pytorch_half_pixel"))
        return length == 1 ? -0.5 : (x + 0.5) / scale - 0.5;
    if (!strcmp(r->coordinates, "tf_crop_and_resize")) {
        double a = s->roi[0][axis], b = s->roi[1][axis];
        return to > 1 ? a * (from - 1) + x * (b - a) * (from - 1) / (length - 1)
                      : 0.5 * (a + b) * (from - 1);
    }
    if (!strcmp(r->coordinates, "half_pixel_symmetric")) {
        double adjust = to / length, centre = from / 2;
        return centre * (1 - adjust) + (x + 0.5) / scale - 0.5;
    }
    return (x + 0.5) / scale - 0.5;
}

static int64_t nearest(const Resize *r, double x)
{
    if (!strcmp(r->rounding, "floor"))
        return (int64_t)floor(x);
    if (!strcmp(r->rounding, "ceil"))
        return (int64_t)ceil(x);
    if (!strcmp(r->rounding, "round_prefer_ceil"))
        return (int64_t)floor(x + 0.5);
    return (int64_t)ceil(x - 0.5);
}

static double weight_of(const Resize *r, double d)
{
    double x = fabs(d), a = r->cubic;
    if (!strcmp(r->mode, "linear"))
        return x < 1 ? 1 - x : 0;
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* One row of the matrix: `from` weights. */
static void fill_row(const Resize *r, float *row, int64_t from, double x, double scale)
{
    if (!strcmp(r->mode, "nearest")) {
        int64_t k = nearest(r, x);
        row[k < 0 ? 0 : k >= from ? from - 1 : k] = 1;
        return;
    }
    double wide = r->antialias && scale < 1 ? 1 / scale : 1,
           reach = (strcmp(r->mode, "cubic") ? 1 : 2) * wide, sum = 0;
    for (int64_t k = (int64_t)floor(x - reach); k <= (int64_t)ceil(x + reach); k++)
        if (!r->exclude || (k >= 0 && k < from))
            sum += weight_of(r, ((double)k - x) / wide);
    for (int64_t k = (int64_t)floor(x - reach); k <= (int64_t)ceil(x + reach); k++)
        if ((!r->exclude || (k >= 0 && k < from)) && sum != 0)
            row[k < 0       ? 0
                : k >= from ? from - 1
                            : k] += (float)(weight_of(r, ((double)k - x) / wide) / sum);
}

/* The result outside the image is the number given for it. */
static Tensor *weights_of_axis(OnnxNode *n, const Resize *r, const Sizes *s, int axis,
                               Tensor **inside)
{
    int64_t from = onnx_known_extent(n, 0, axis), shape[] = {s->to[axis], from};
    double scale = s->scale[axis] != 0 ? s->scale[axis] : (double)shape[0] / (double)from;
    Tensor *t = onnx_table(n, dtype_of(DT_FLOAT32), 2, shape);
    *inside = onnx_table(n, dtype_of(DT_BOOL), 1, shape);
    if (!(scale >= SCALE_LEAST) || !(scale <= 1 / SCALE_LEAST))
        onnx_refuse(n, "a scale of %g", scale);
    for (int64_t i = 0; i < shape[0] && !n->failed; i++) {
        double x = source_of(r, s, axis, i, (double)from, scale);
        if (!(fabs(x) <= PLACE_MOST)) {
            onnx_refuse(n, "it takes an element from place %g", x);
            break;
        }
        ((bool *)(*inside)->data)[i] = x >= 0 && x <= (double)(from - 1);
        fill_row(r, (float *)t->data + i * from, from, x, scale);
    }
    if (!n->failed)
        return t;
    tensor_release(t);
    tensor_release(*inside);
    return NULL;
}

/* Any axis in any way: products with matrices, one an axis. */
static void resize_by_products(OnnxNode *n, const Resize *r, const Sizes *s)
{
    n->constant = false;
    DType t = onnx_in_dtype(n, 0), f32 = dtype_of(DT_FLOAT32);
    const char *x = dtype_eq(t, f32) ? onnx_in(n, 0)
                                     : onnx_step(n, "cast(%s, dtype=\"float32\")", onnx_in(n, 0));
    bool crop = !strcmp(r->coordinates, "tf_crop_and_resize");
    const char *keep = NULL;
    for (int a = 0; a < s->rank && !n->failed; a++) {
        if (s->to[a] == onnx_known_extent(n, 0, a) && (s->scale[a] == 0 || s->scale[a] == 1) &&
            !crop)
            continue;
        Tensor *inside, *w = weights_of_axis(n, r, s, a, &inside);
        if (!w)
            return;
        char letters[] = "abcdefgh", to[] = "abcdefgh";
        letters[s->rank] = to[s->rank] = 0;
        to[a] = 'z';
        x = onnx_step(n, "einsum((%s, %s), equation=\"%s,z%c->%s\")", x,
                      onnx_array(n, w, "weights"), letters, letters[a], to);
        const char *in = onnx_array(n, inside, "inside");
        for (int k = a + 1; k < s->rank && crop; k++)
            in = onnx_text(n, "expand_dims(%s, axis=%d)", in, k - a);
        keep = !crop ? NULL : keep ? onnx_text(n, "logical_and(%s, %s)", keep, in) : in;
    }
    if (crop && keep)
        x = onnx_step(n, "where(%s, %s, %s)", keep, x, onnx_literal(n, r->outside, f32));
    onnx_give(
        n, dtype_eq(t, f32) ? x : onnx_text(n, "cast(%s, dtype=\"%s\")", x, onnx_dtype_text(n, t)));
}

/* What Relay's own operator says: spatial axes, by the quotient of the sizes. */
static bool is_plain(OnnxNode *n, const Resize *r, const Sizes *s)
{
    bool plain = s->rank >= 3 && s->rank <= 5 && !r->antialias &&
                 strcmp(r->coordinates, "half_pixel_symmetric") &&
                 strcmp(r->coordinates, "tf_crop_and_resize") &&
                 !dtype_is_bool(onnx_in_dtype(n, 0));
    for (int i = 0; i < s->rank; i++) {
        double d = (double)onnx_known_extent(n, 0, i), to = (double)s->to[i];
        plain &= i >= 2 || d == to;
        plain &= s->scale[i] == 0 || fabs(d * s->scale[i] - to) <= 1e-6 * to;
    }
    return plain;
}

/* Images whose extents, or those of the result, are known only when the program runs: of batch and channels it must be known that they stay,
 * and of a factor that it is whole, so that it is the quotient of the extents. */
static bool is_open_resize(OnnxNode *n, const Resize *r)
{
    if (n->version < 11 || onnx_rank(n, 0) != 4 || onnx_has_attr(n, "axes") || r->antialias ||
        !strcmp(r->coordinates, "half_pixel_symmetric") ||
        !strcmp(r->coordinates, "tf_crop_and_resize") ||
        strcmp(onnx_attr_text(n, "keep_aspect_ratio_policy", "stretch"), "stretch") != 0)
        return false;
    const OnnxValue *x = onnx_value(n, 0), *sizes = onnx_has(n, 3) ? onnx_value(n, 3) : NULL;
    bool known = onnx_is_known(n, 3);
    for (int i = 0; i < 4; i++)
        known &= onnx_extent(n, 0, i) >= 0;
    if (known || !x || (!sizes && !onnx_is_known(n, 2)))
        return false;
    for (int i = 0; i < 4; i++) {
        double scale = sizes ? 1 : onnx_number(n, 2, i);
        if (scale != floor(scale) || scale < 1 || scale > INT32_MAX || (i < 2 && scale != 1) ||
            (i < 2 && sizes &&
             (x->type->dims[i] == DIM_ANY || onnx_element(sizes, (uint32_t)i) != x->type->dims[i])))
            return false;
    }
    return true;
}

static void resize_at_run_time(OnnxNode *n, const Resize *r)
{
    const char *size, *x = onnx_in(n, 0);
    n->constant = false;
    if (onnx_has(n, 3))
        size = onnx_step(
            n, "strided_slice(cast(%s, dtype=\"int64\"), begin=[2], end=[4], strides=None)",
            onnx_in(n, 3));
    else
        size = onnx_step(n,
                         "stack((multiply(take(shape_of(%s, dtype=\"int64\"), 2i64, axis=0), "
                         "%lldi64), multiply(take(shape_of(%s, dtype=\"int64\"), 3i64, axis=0), "
                         "%lldi64)), axis=0)",
                         x, (long long)onnx_number(n, 2, 2), x, (long long)onnx_number(n, 2, 3));
    onnx_give(n, onnx_text(n,
                           "dyn.image.resize2d(%s, %s, zeros(shape=[4], dtype=\"float32\"), "
                           "method=\"%s\", coordinate_transformation_mode=\"%s\", "
                           "rounding_method=\"%s\", cubic_alpha=%s, cubic_exclude=%d)",
                           x, size, strcmp(r->mode, "nearest") ? r->mode : "nearest_neighbor",
                           r->coordinates, r->rounding,
                           onnx_literal(n, r->cubic, dtype_of(DT_FLOAT32)), r->exclude));
}

void rule_resize(OnnxNode *n)
{
    bool old = !strcmp(n->proto->op_type, "Upsample") || n->version < 11;
    Sizes s = {.rank = onnx_rank(n, 0)};
    Resize r = {.mode = onnx_attr_text(n, "mode", "nearest"),
                .coordinates =
                    old ? "asymmetric"
                        : onnx_attr_text(n, "coordinate_transformation_mode", "half_pixel"),
                .rounding = old ? "floor" : onnx_attr_text(n, "nearest_mode", "round_prefer_floor"),
                .cubic = onnx_attr_float(n, "cubic_coeff_a", -0.75),
                .outside = onnx_attr_float(n, "extrapolation_value", 0),
                .antialias = onnx_attr_int(n, "antialias", 0) != 0,
                .exclude = onnx_attr_int(n, "exclude_outside", 0) != 0};
    if (!strcmp(r.mode, "bilinear"))
        r.mode = "linear";
    if (is_open_resize(n, &r)) {
        resize_at_run_time(n, &r);
        return;
    }
    if (s.rank > 8 || !read_sizes(n, &s)) {
        onnx_refuse(n, "a tensor of rank %d", s.rank);
        return;
    }
    if (!is_plain(n, &r, &s)) {
        resize_by_products(n, &r, &s);
        return;
    }
    OnnxInts size = {.n = s.rank - 2};
    Buf roi = {0};
    for (int i = 0; i < size.n; i++)
        size.at[i] = s.to[i + 2];
    for (int i = 0; i < 2 * size.n; i++)
        buf_str(&roi, i ? ", 0f" : "0f");
    onnx_give(n, onnx_text(n,
                           "image.resize%dd(%s, size=%s, roi=[%s], layout=\"%s\", method=\"%s\", "
                           "coordinate_transformation_mode=\"%s\", rounding_method=\"%s\", "
                           "cubic_alpha=%s, cubic_exclude=%d)",
                           s.rank - 2, onnx_in(n, 0), onnx_list(n, size), buf_text(&roi),
                           layouts[s.rank - 3],
                           strcmp(r.mode, "nearest") ? r.mode : "nearest_neighbor", r.coordinates,
                           r.rounding, onnx_literal(n, r.cubic, dtype_of(DT_FLOAT32)), r.exclude));
    buf_deinit(&roi);
}

/* Axes that are made larger get zeros on both sides, others are cut on both. */
void rule_center_crop_pad(OnnxNode *n)
{
    int rank = onnx_rank(n, 0);
    OnnxInts shape = onnx_ints(n, 1), axes = onnx_attr_ints(n, "axes");
    int64_t width[TENSOR_RANK_MOST][2] = {{0}};
    for (int k = 0; k < shape.n && !n->failed; k++) {
        int64_t a = axes.n > k ? axes.at[k] + (axes.at[k] < 0 ? rank : 0) : k;
        if (a < 0 || a >= rank) {
            onnx_refuse(n, "there is no axis %lld", (long long)a);
            return;
        }
        int64_t more = shape.at[k] - onnx_known_extent(n, 0, a),
                before = more >= 0 ? more / 2 : -(-more / 2);
        width[a][0] = before;
        width[a][1] = more - before;
    }
    Buf b = {0};
    for (int i = 0; i < rank; i++)
        buf_printf(&b, "%s[%lld, %lld]", i ? ", " : "", (long long)width[i][0],
                   (long long)width[i][1]);
    onnx_give(n, onnx_text(n, "nn.pad(%s, %s, pad_width=[%s])", onnx_in(n, 0),
                           onnx_literal(n, 0, onnx_in_dtype(n, 0)), buf_text(&b)));
    buf_deinit(&b);
}

/* ---- sampling --------------------------------------------------------------------------------------------------------------- */

void rule_grid_sample(OnnxNode *n)
{
    int rank = onnx_rank(n, 0);
    const char *mode = onnx_attr_text(n, "mode", "linear");
    if (rank < 4 || rank > 5) {
        onnx_refuse(n, "a tensor of rank %d", rank);
        return;
    }
    onnx_give(
        n, onnx_text(n,
                     "image.grid_sample(%s, transpose(%s, axes=%s), method=\"%s\", layout=\"%s\", "
                     "padding_mode=\"%s\", align_corners=%s)",
                     onnx_in(n, 0), onnx_in(n, 1), rank == 4 ? "[0, 3, 1, 2]" : "[0, 4, 1, 2, 3]",
                     strstr(mode, "cubic")    ? "bicubic"
                     : strstr(mode, "linear") ? "bilinear"
                                              : mode,
                     layouts[rank - 3], onnx_attr_text(n, "padding_mode", "zeros"),
                     onnx_bool(onnx_attr_int(n, "align_corners", 0) != 0)));
}

/* The grid of a whole image as rows (x, y, 1), times the maps. */
void rule_affine_grid(OnnxNode *n)
{
    OnnxInts size = onnx_ints(n, 1);
    int axes = size.n - 2;
    bool corners = onnx_attr_int(n, "align_corners", 0) != 0;
    int64_t all = 1;
    for (int i = 2; i < size.n; i++)
        all = size.at[i] < 1 || all > (1 << 24) / size.at[i] ? 0 : all * size.at[i];
    if (axes < 2 || axes > 3 || all == 0) {
        onnx_refuse(n, "a grid of %d axes", axes);
        return;
    }
    if (!dtype_eq(onnx_in_dtype(n, 0), dtype_of(DT_FLOAT32)))
        onnx_refuse(n, "a grid of another type than float32");
    Tensor *grid = onnx_table(n, dtype_of(DT_FLOAT32), 2, (int64_t[]){all, axes + 1});
    if (!grid)
        return;
    float *to = (float *)grid->data;
    for (int64_t i = 0; i < all; i++) {
        int64_t rest = i;
        for (int a = 0; a < axes; a++) { /* x, the last axis of the image, stands first */
            int64_t d = size.at[size.n - 1 - a], k = rest % d;
            rest /= d;
            *to++ = (float)(corners ? (d > 1 ? -1 + 2.0 * (double)k / (double)(d - 1) : -1)
                                    : (2.0 * (double)k + 1) / (double)d - 1);
        }
        *to++ = 1;
    }
    OnnxInts shape = {.n = size.n};
    shape.at[0] = -1;
    for (int i = 1; i <= axes; i++)
        shape.at[i] = size.at[i + 1];
    shape.at[axes + 1] = axes;
    onnx_give(n, onnx_text(n, "reshape(einsum((%s, %s), equation=\"nij,kj->nki\"), newshape=%s)",
                           onnx_in(n, 0), onnx_array(n, grid, "grid"), onnx_list(n, shape)));
}

/* Where regions are sampled along one axis. */
typedef struct RoiAxis {
    const char *at,
        *weight; /* of each sample the elements below and above, and their part: [regions, bins * samples * 2] */
    const char *live; /* the samples that there are; NULL: all */
    const char *count; /* samples of a bin, by region; NULL: `ratio` */
} RoiAxis;

/* `boxes` are coordinates of the data, from column `from` to two columns on. */
static RoiAxis sample_axis(OnnxNode *n, const char *boxes, int from, int axis, int64_t bins,
                           int64_t ratio, bool half)
{
    RoiAxis r = {0};
    DType t = onnx_in_dtype(n, 0);
    int64_t extent = onnx_known_extent(n, 0, axis);
    const char *type = onnx_dtype_text(n, t), *zero = onnx_literal(n, 0, t),
               *one = onnx_literal(n, 1, t);
    const char *start = onnx_step(n, "take(%s, %di64, axis=1)", boxes, from);
    const char *size =
        onnx_step(n, "subtract(take(%s, %di64, axis=1), %s)", boxes, from + 2, start);
    if (!half) /* regions are no smaller than an element */
        size = onnx_step(n, "maximum(%s, %s)", size, one);
    const char *bin = onnx_step(n, "divide(%s, %s)", size, onnx_literal(n, (double)bins, t));
    const char *turn = onnx_text(n, "arange(%s, %s, %s, dtype=\"%s\")", zero,
                                 onnx_literal(n, (double)ratio, t), one, type);
    const char *every = onnx_literal(n, (double)ratio, t);
    if (ratio == 0) { /* as many as a bin has elements */
        r.count = onnx_step(n, "ceil(%s)", bin);
        turn = onnx_text(n, "arange(%s, max(maximum(%s, %s)), %s, dtype=\"%s\")", zero, r.count,
                         one, one, type);
        every = onnx_text(n, "expand_dims(maximum(%s, %s), axis=1, num_newaxis=2)", r.count, one);
    }
    turn = onnx_step(n, "%s", turn);
    const char *place = onnx_step(
        n,
        "add(expand_dims(%s, axis=1, num_newaxis=2), multiply(expand_dims(%s, axis=1, "
        "num_newaxis=2), "
        "add(expand_dims(arange(%s, %s, %s, dtype=\"%s\"), axis=1), divide(add(%s, %s), %s))))",
        start, bin, zero, onnx_literal(n, (double)bins, t), one, type, turn,
        onnx_literal(n, 0.5, t), every);
    const char *inside =
        onnx_text(n, "logical_and(greater_equal(%s, %s), less_equal(%s, %s))", place,
                  onnx_literal(n, -1, t), place, onnx_literal(n, (double)extent, t));
    if (r.count) {
        r.live = onnx_step(n,
                           "logical_and(equal(%s, %s), less(%s, expand_dims(%s, axis=1, "
                           "num_newaxis=2)))",
                           place, place, turn, r.count);
        inside = onnx_text(n, "logical_and(%s, %s)", inside, r.live);
    }
    const char *last = onnx_literal(n, (double)extent - 1, t);
    const char *near = onnx_step(n, "minimum(maximum(%s, %s), %s)", place, zero, last);
    const char *low = onnx_step(n, "floor(%s)", near);
    const char *part = onnx_step(n, "subtract(%s, %s)", near, low);
    const char *row = "newshape=[0, -1]";
    r.at = onnx_step(n,
                     "reshape(cast(stack((%s, minimum(add(%s, %s), %s)), axis=3), "
                     "dtype=\"int64\"), %s)",
                     low, low, one, last, row);
    r.weight = onnx_step(n,
                         "reshape(where(expand_dims(%s, axis=3), stack((subtract(%s, %s), %s), "
                         "axis=3), %s), %s)",
                         inside, one, part, part, zero, row);
    if (r.live)
        r.live = onnx_step(n, "reshape(stack((%s, %s), axis=3), %s)", r.live, r.live, row);
    return r;
}

/* Every sample is the sum, or the largest, of four elements times their parts; a bin is the mean, or the largest, of its samples. */
static void sample_regions(OnnxNode *n, const char *boxes, bool half, bool most)
{
    DType t = onnx_in_dtype(n, 0);
    int64_t bins[2] = {onnx_attr_int(n, "output_height", 1), onnx_attr_int(n, "output_width", 1)};
    int64_t ratio = onnx_attr_int(n, "sampling_ratio", 0);
    if (bins[0] < 1 || bins[0] > 4096 || bins[1] < 1 || bins[1] > 4096 || ratio > 4096) {
        onnx_refuse(n, "%lld by %lld bins", (long long)bins[0], (long long)bins[1]);
        return;
    }
    ratio = ratio < 0 ? 0 : ratio;
    n->constant = false;
    boxes = onnx_step(n, "subtract(multiply(%s, %s), %s)", boxes,
                      onnx_literal(n, onnx_attr_float(n, "spatial_scale", 1), t),
                      onnx_literal(n, half ? 0.5 : 0, t));
    RoiAxis y = sample_axis(n, boxes, 1, 2, bins[0], ratio, half),
            x = sample_axis(n, boxes, 0, 3, bins[1], ratio, half);
    const char *v = onnx_step(
        n,
        "adv_index((transpose(%s, axes=[0, 2, 3, 1]), expand_dims(cast(%s, dtype=\"int64\"), "
        "axis=1, num_newaxis=2), expand_dims(%s, axis=2), expand_dims(%s, axis=1)))",
        onnx_in(n, 0), onnx_in(n, 2), y.at, x.at);
    v = onnx_step(n,
                  "multiply(%s, expand_dims(multiply(expand_dims(%s, axis=2), expand_dims(%s, "
                  "axis=1)), axis=3))",
                  v, y.weight, x.weight);
    if (most && y.live)
        v = onnx_step(n,
                      "where(expand_dims(logical_and(expand_dims(%s, axis=2), expand_dims(%s, "
                      "axis=1)), axis=3), %s, %s)",
                      y.live, x.live, v, onnx_literal(n, -INFINITY, t));
    v = onnx_step(n, "%s(reshape(%s, newshape=[0, -4, %lld, -1, -4, %lld, -1, 0]), axis=[2, 4])",
                  most ? "max" : "sum", v, (long long)bins[0], (long long)bins[1]);
    if (!most && y.count)
        v = onnx_step(n,
                      "divide(%s, expand_dims(maximum(multiply(%s, %s), %s), axis=1, "
                      "num_newaxis=3))",
                      v, y.count, x.count, onnx_literal(n, 1, t));
    else if (!most)
        v = onnx_step(n, "multiply(%s, %s)", v, onnx_literal(n, 1.0 / (double)(ratio * ratio), t));
    onnx_give(n, onnx_text(n, "transpose(%s, axes=[0, 3, 1, 2])", v));
}

void rule_roi_align(OnnxNode *n)
{
    bool half = !strcmp(onnx_attr_text(n, "coordinate_transformation_mode",
                                       n->version < 16 ? "output_half_pixel" : "half_pixel"),
                        "half_pixel");
    const char *mode = onnx_attr_text(n, "mode", "avg");
    double scale = onnx_attr_float(n, "spatial_scale", 1);
    DType f32 = dtype_of(DT_FLOAT32);
    const char *boxes = onnx_in(n, 1);
    if (half || !strcmp(mode, "max")) {
        sample_regions(n, boxes, half, !strcmp(mode, "max"));
        return;
    }
    int64_t ratio = onnx_attr_int(n, "sampling_ratio", 0);
    onnx_give(
        n,
        onnx_text(
            n,
            "vision.roi_align(%s, concatenate((expand_dims(cast(%s, dtype=\"float32\"), axis=1), "
            "%s), "
            "axis=1), pooled_size=[%lld, %lld], spatial_scale=%s, sample_ratio=%lld, mode=\"%s\")",
            onnx_in(n, 0), onnx_in(n, 2), boxes, (long long)onnx_attr_int(n, "output_height", 1),
            (long long)onnx_attr_int(n, "output_width", 1), onnx_literal(n, scale, f32),
            (long long)(ratio ? ratio : -1), mode));
}

void rule_nms(OnnxNode *n)
{
    const char *boxes = onnx_in(n, 0);
    DType f32 = dtype_of(DT_FLOAT32), i64 = dtype_of(DT_INT64);
    n->constant = false;
    if (onnx_attr_int(n, "center_point_box", 0)) {
        const char *p = onnx_step(n, "split(%s, indices_or_sections=4, axis=2)", boxes);
        boxes =
            onnx_step(n,
                      "concatenate((subtract(%s.1, multiply(0.5f, %s.3)), subtract(%s.0, "
                      "multiply(0.5f, %s.2)), "
                      "add(%s.1, multiply(0.5f, %s.3)), add(%s.0, multiply(0.5f, %s.2))), axis=2)",
                      p, p, p, p, p, p, p, p);
    }
    const char *y = onnx_step(
        n, "vision.all_class_non_max_suppression(%s, %s, %s, %s, %s, output_format=\"onnx\")",
        boxes, onnx_in(n, 1), onnx_has(n, 2) ? onnx_scalar_as(n, 2, i64) : "0i64",
        onnx_has(n, 3) ? onnx_scalar_as(n, 3, f32) : "0f",
        onnx_has(n, 4) ? onnx_scalar_as(n, 4, f32) : "-1e30f");
    onnx_give(
        n,
        onnx_text(
            n, "take(%s.0, arange(0i64, squeeze(%s.1, axis=[0]), 1i64, dtype=\"int64\"), axis=0)",
            y, y));
}

/* ---- windows ---------------------------------------------------------------------------------------------------------------- */

/* Samples between elements, each weighed by the mask: all of a window's places below each other, and then a product with the weights. */
static const char *masked_samples(OnnxNode *n, const OnnxWindow *w)
{
    DType t = onnx_in_dtype(n, 0);
    int64_t each = onnx_attr_int(n, "offset_group", 1), groups = onnx_attr_int(n, "group", 1);
    int64_t places = w->kernel.at[0] * w->kernel.at[1], channels = onnx_known_extent(n, 0, 1),
            out = onnx_known_extent(n, 1, 0), of[2], to[2];
    for (int i = 0; i < 2; i++) {
        of[i] = onnx_known_extent(n, 0, 2 + i);
        to[i] = onnx_known_extent(n, 2, 2 + i);
    }
    if (each < 1 || groups < 1 || channels % each || channels % groups || out % groups)
        onnx_refuse(n, "groups that do not divide the channels");
    int64_t shape[] = {places, 2, to[0], to[1]};
    Tensor *grid =
        n->failed || !dtype_eq(t, dtype_of(DT_FLOAT32)) ? NULL : onnx_table(n, t, 4, shape);
    if (!grid) {
        onnx_refuse(n, "a mask of another type than float32");
        return "0";
    }
    float *p = (float *)grid->data;
    for (int64_t k = 0; k < places; k++)
        for (int i = 0; i < 2; i++)
            for (int64_t y = 0; y < to[0]; y++)
                for (int64_t x = 0; x < to[1]; x++) {
                    int64_t in_window = i ? k % w->kernel.at[1] : k / w->kernel.at[1];
                    *p++ = (float)((i ? x : y) * w->strides.at[i] - w->pads.at[i] +
                                   in_window * w->dilations.at[i]);
                }
    Tensor *size = onnx_table(n, t, 3, (int64_t[]){2, 1, 1});
    for (int i = 0; size && i < 2; i++)
        ((float *)size->data)[i] = (float)of[i];
    if (!size) {
        tensor_release(grid);
        return "0";
    }
    n->constant = false;
    const char *at = onnx_step(n, "add(reshape(%s, newshape=[-1, %lld, 2, %lld, %lld]), %s)",
                               onnx_in(n, 2), (long long)places, (long long)to[0], (long long)to[1],
                               onnx_array(n, grid, "places"));
    /* As `grid_sample` counts: from -1 to 1, x in front. */
    at = onnx_step(n,
                   "reshape(transpose(reverse(subtract(divide(add(multiply(%s, 2f), 1f), %s), 1f), "
                   "axis=2), axes=[0, 2, 1, 3, 4]), newshape=[-1, 2, %lld, %lld])",
                   at, onnx_array(n, size, "size"), (long long)(places * to[0]), (long long)to[1]);
    const char *v = onnx_step(
        n,
        "image.grid_sample(reshape(%s, newshape=[-1, %lld, %lld, %lld]), %s, method=\"bilinear\", "
        "padding_mode=\"zeros\", align_corners=False)",
        onnx_in(n, 0), (long long)(channels / each), (long long)of[0], (long long)of[1], at);
    v = onnx_step(n,
                  "multiply(reshape(%s, newshape=[-1, %lld, %lld, %lld]), reshape(%s, "
                  "newshape=[-1, 1, %lld, %lld]))",
                  v, (long long)(channels / each), (long long)places, (long long)(to[0] * to[1]),
                  onnx_in(n, 4), (long long)places, (long long)(to[0] * to[1]));
    return onnx_step(n,
                     "reshape(einsum((reshape(%s, newshape=[-1, %lld, %lld, %lld]), reshape(%s, "
                     "newshape=[%lld, %lld, %lld])), equation=\"ngkp,gok->ngop\"), newshape=[-1, "
                     "%lld, %lld, %lld])",
                     v, (long long)groups, (long long)(channels / groups * places),
                     (long long)(to[0] * to[1]), onnx_in(n, 1), (long long)groups,
                     (long long)(out / groups), (long long)(channels / groups * places),
                     (long long)out, (long long)to[0], (long long)to[1]);
}

void rule_deform_conv(OnnxNode *n)
{
    OnnxWindow w = onnx_window(n, onnx_kernel(n, 1));
    if (w.n != 2) {
        onnx_refuse(n, "windows over %d axes", w.n);
        return;
    }
    const char *y =
        onnx_has(n, 4)
            ? masked_samples(n, &w)
            : onnx_text(n,
                        "nn.deformable_conv2d(%s, %s, %s%s, deformable_groups=%lld, groups=%lld, "
                        "channels=%lld, kernel_size=%s)",
                        onnx_in(n, 0), onnx_in(n, 2), onnx_in(n, 1), onnx_window_text(n, &w),
                        (long long)onnx_attr_int(n, "offset_group", 1),
                        (long long)onnx_attr_int(n, "group", 1),
                        (long long)onnx_known_extent(n, 1, 0), onnx_list(n, w.kernel));
    onnx_give(n, onnx_has(n, 3) ? onnx_text(n, "nn.bias_add(%s, %s)", y, onnx_in(n, 3)) : y);
}

/* The mean over all places of a window times their number is the sum. */
void rule_lp_pool(OnnxNode *n)
{
    OnnxInts kernel = onnx_attr_ints(n, "kernel_shape");
    OnnxWindow w = onnx_window(n, kernel);
    DType t = onnx_in_dtype(n, 0);
    double p = (double)onnx_attr_int(n, "p", 2), places = 1;
    for (int i = 0; i < kernel.n; i++)
        places *= (double)kernel.at[i];
    if (onnx_attr_int(n, "ceil_mode", 0))
        onnx_refuse(n, "windows that reach beyond the end");
    onnx_give(n, onnx_text(n,
                           "power(multiply(nn.avg_pool%dd(power(abs(%s), %s), pool_size=%s%s, "
                           "count_include_pad=True), "
                           "%s), %s)",
                           w.n, onnx_in(n, 0), onnx_literal(n, p, t), onnx_list(n, kernel),
                           onnx_window_text(n, &w), onnx_literal(n, places, t),
                           onnx_literal(n, 1 / p, t)));
}

void rule_global_lp_pool(OnnxNode *n)
{
    OnnxInts axes = {.n = 0};
    DType t = onnx_in_dtype(n, 0);
    double p = (double)onnx_attr_int(n, "p", 2);
    for (int i = 2; i < onnx_rank(n, 0); i++)
        axes.at[axes.n++] = i;
    onnx_give(n, onnx_text(n, "power(sum(power(abs(%s), %s), axis=%s, keepdims=True), %s)",
                           onnx_in(n, 0), onnx_literal(n, p, t), onnx_list(n, axes),
                           onnx_literal(n, 1 / p, t)));
}

/* Each element goes where its index says, in a result of zeros. */
void rule_max_unpool(OnnxNode *n)
{
    OnnxInts kernel = onnx_attr_ints(n, "kernel_shape"),
             strides = onnx_ints_or(n, "strides", kernel.n, 1),
             pads = onnx_ints_or(n, "pads", 2 * kernel.n, 0), given = onnx_ints(n, 2),
             shape = {.n = kernel.n + 2};
    if (onnx_rank(n, 0) != kernel.n + 2)
        onnx_refuse(n, "windows over %d axes", kernel.n);
    int64_t size = 1;
    for (int i = 0; i < shape.n && !n->failed; i++) {
        int64_t d = onnx_known_extent(n, 0, i);
        shape.at[i] = i < 2 ? d
                            : (d - 1) * strides.at[i - 2] - pads.at[i - 2] -
                                  pads.at[kernel.n + i - 2] + kernel.at[i - 2];
        if (shape.at[i] < 1 || size > INT32_MAX / shape.at[i])
            onnx_refuse(n, "a result of %lld elements along axis %d", (long long)shape.at[i], i);
        size *= n->failed ? 1 : shape.at[i];
    }
    const char *type = onnx_dtype_text(n, onnx_in_dtype(n, 0));
    const char *y = onnx_text(
        n,
        "reshape(scatter_elements(zeros(shape=[%lld], dtype=\"%s\"), reshape(%s, newshape=[-1]), "
        "reshape(%s, newshape=[-1]), axis=0), newshape=%s)",
        (long long)size, type, onnx_in(n, 1), onnx_in(n, 0), onnx_list(n, shape));
    if (given.n == shape.n) {
        Buf width = {0};
        for (int i = 0; i < shape.n; i++)
            buf_printf(&width, "%s[0, %lld]", i ? ", " : "",
                       (long long)(given.at[i] - shape.at[i]));
        y = onnx_text(n, "nn.pad(%s, %s, pad_width=[%s])", y,
                      onnx_literal(n, 0, onnx_in_dtype(n, 0)), buf_text(&width));
        buf_deinit(&width);
    }
    onnx_give(n, y);
}

/* Columns of blocks, added where the blocks lie: a convolution turned round, whose kernels are single ones. */
void rule_col2im(OnnxNode *n)
{
    OnnxInts image = onnx_ints(n, 1), block = onnx_ints(n, 2);
    int m = image.n;
    OnnxInts strides = onnx_ints_or(n, "strides", m, 1), pads = onnx_ints_or(n, "pads", 2 * m, 0),
             dilations = onnx_ints_or(n, "dilations", m, 1), count = {.n = 0}, out = {.n = 0};
    int64_t places = 1, channels = onnx_known_extent(n, 0, 1), all = 1;
    if (m < 1 || m > 4 || block.n != m) {
        onnx_refuse(n, "blocks over %d axes", m);
        return;
    }
    for (int i = 0; i < m; i++) {
        bool fits = block.at[i] >= 1 && block.at[i] <= 4096 && dilations.at[i] >= 1 &&
                    dilations.at[i] <= 4096;
        places *= fits ? block.at[i] : 0;
        if (!fits)
            break;
        out.at[i] = image.at[i] + pads.at[i] + pads.at[m + i];
        count.at[i] =
            strides.at[i] > 0
                ? (out.at[i] - dilations.at[i] * (block.at[i] - 1) - 1) / strides.at[i] + 1
                : 0;
        all *= out.at[i] < 1 || all > INT32_MAX / out.at[i] ? 0 : out.at[i];
    }
    if (places == 0 || all == 0 || places > 65536 || channels % places != 0) {
        onnx_refuse(n, "blocks that do not fit the image");
        return;
    }
    int64_t blocks = onnx_known_extent(n, 0, 2);
    int64_t each = blocks > INT32_MAX ? INT32_MAX : blocks;
    Tensor *where = onnx_table(n, dtype_of(DT_INT64), 1, &(int64_t){places * each});
    int64_t *to = where ? (int64_t *)where->data : NULL;
    for (int64_t p = 0; to && p < places; p++)
        for (int64_t b = 0; b < blocks; b++) {
            int64_t at = 0, in_block = p, which = b, factor = 1;
            for (int i = m; i-- > 0; factor *= out.at[i]) {
                int64_t k = count.at[i] > 0 ? which % count.at[i] : 0;
                which = count.at[i] > 0 ? which / count.at[i] : 0;
                at += (k * strides.at[i] + in_block % block.at[i] * dilations.at[i]) * factor;
                in_block /= block.at[i];
            }
            *to++ = at < all ? at : 0;
        }
    if (!where)
        return;
    OnnxInts shape = {{-1, channels / places}, 2};
    Buf width = {0};
    buf_str(&width, "[0, 0], [0, 0]");
    for (int i = 0; i < m; i++) {
        shape.at[shape.n++] = out.at[i];
        buf_printf(&width, ", [%lld, %lld]", (long long)-pads.at[i], (long long)-pads.at[m + i]);
    }
    DType t = onnx_in_dtype(n, 0);
    const char *x = onnx_text(n, "reshape(%s, newshape=[-1, %lld])", onnx_in(n, 0),
                              (long long)(places * blocks));
    const char *y = onnx_text(
        n,
        "scatter_nd(zeros(shape=[%lld, %lld], dtype=\"%s\"), reshape(%s, newshape=[1, -1]), "
        "transpose(%s, axes=[1, 0]), mode=\"add\")",
        (long long)all, (long long)(onnx_known_extent(n, 0, 0) * channels / places),
        onnx_dtype_text(n, t), onnx_array(n, where, "places"), x);
    y = onnx_text(n, "reshape(transpose(%s, axes=[1, 0]), newshape=%s)", y, onnx_list(n, shape));
    onnx_give(n, onnx_text(n, "nn.pad(%s, %s, pad_width=[%s])", y, onnx_literal(n, 0, t),
                           buf_text(&width)));
    buf_deinit(&width);
}
