/* Pooling: the greatest or the mean element of windows. */
#include "stdlib/ops/ops.h"

#include <string.h>

/* N, C, the spatial axes, and a block of each of the first two. */
enum { SPATIAL_MOST = 3, LETTERS_MOST = SPATIAL_MOST + 2 + LAYOUT_SPLIT };

static const char *const letters[] = {"NC", "NCW", "NCHW", "NCDHW"};

typedef struct Window {
    int n;
    int at[LETTERS_MOST];               /* of N, C and the spatial axes */
    int64_t size[SPATIAL_MOST], strides[SPATIAL_MOST], dilation[SPATIAL_MOST];
    int64_t before[SPATIAL_MOST], after[SPATIAL_MOST];
    bool ceil;
} Window;

/* Distances of 1 where a list of none stands, as gradients of the original have it. */
static bool has_dilation(const Attrs *a)
{
    const AttrValue *v = attrs_find(a, "dilation");
    return v->kind != ATTR_LIST || v->list.n > 0;
}

static void no_dilation(int n, Window *w)
{
    for (int i = 0; i < n; i++)
        w->dilation[i] = 1;
}

static bool dilation_of_rel(Rel *r, int n, Window *w)
{
    no_dilation(n, w);
    return !has_dilation(r->attrs) || rel_ints(r, "dilation", n, w->dilation);
}

static bool window_of_rel(Rel *r, int n, Window *w)
{
    w->n = n;
    w->ceil = attrs_bool(r->attrs, "ceil_mode");
    return rel_ints(r, "pool_size", n, w->size) && rel_ints(r, "strides", n, w->strides) &&
           dilation_of_rel(r, n, w) && rel_padding(r, "padding", n, w->before, w->after);
}

static void window_of_attrs(const Attrs *a, int n, Window *w)
{
    w->n = n;
    w->ceil = attrs_bool(a, "ceil_mode");
    layout_places(attrs_string(a, "layout"), letters[n], w->at);
    ops_ints(a, "pool_size", n, w->size);
    ops_ints(a, "strides", n, w->strides);
    no_dilation(n, w);
    if (has_dilation(a))
        ops_ints(a, "dilation", n, w->dilation);
    ops_padding(a, "padding", n, w->before, w->after);
}

RelResult rel_pool(Rel *r)
{
    int n = ops_spatial(r->op);
    const Type *x = rel_tensor(r, 0);
    if (!x)
        return rel_blocked(r);
    Window w;
    if (!rel_places(r, 0, x, letters[n], w.at) || !window_of_rel(r, n, &w))
        return REL_FAILED;
    Dim dims[LETTERS_MOST];
    memcpy(dims, x->dims, x->n * sizeof *dims);
    for (int i = 0; i < n; i++) {
        Dim *d = &dims[w.at[2 + i]];
        int64_t reach = (w.size[i] - 1) * w.dilation[i] + 1, pad = w.before[i] + w.after[i];
        if (*d >= 0 && *d < reach - pad) {
            rel_error(r, E0202_SHAPE, 0,
                      "the window of %lld is larger than axis %d with %lld elements",
                      (long long)w.size[i], w.at[2 + i], (long long)*d);
            return REL_FAILED;
        }
        *d = dim_windows(r->cx, *d, pad + (w.ceil ? w.strides[i] - 1 : 0), reach, w.strides[i]);
    }
    return rel_out_tensor(r, x->dtype, x->n, dims);
}

/* ---- computing ----------------------------------------------------------------------------------- */

/* The position in axis i of the data: that of the window's corner plus the place in the window. */
static Te *window_at(TeBuilder *b, const Window *w, int i, Te *out, Te *place)
{
    return ops_affine(b, out, w->strides[i], place, w->dilation[i], -w->before[i]);
}

/* Whether some window leaves the data. */
static bool leaves(const Window *w, int i, int64_t extent, int64_t out)
{
    int64_t last = (out - 1) * w->strides[i] - w->before[i] + (w->size[i] - 1) * w->dilation[i];
    return w->before[i] > 0 || last >= extent;
}

/* Folds the windows of `x`; `out` is the shape of the result. */
static TeTensor fold_windows(TeBuilder *b, const Window *w, TeTensor x, const int64_t *out,
                             TeReduce kind, DType dtype, Te *outside)
{
    Te *index[LETTERS_MOST];
    bool padded = false;
    ops_axes(b, 0, x.rank, index);
    for (int i = 0; i < w->n; i++) {
        int p = w->at[2 + i];
        index[p] = window_at(b, w, i, index[p], te_axis(b, x.rank + i));
        padded = padded || leaves(w, i, x.shape[p], out[p]);
    }
    Te *v = padded ? te_load_or(b, x, index, outside) : te_load(b, x, index);
    return te_reduce(b, kind, dtype, x.rank, out, w->n, w->size, te_cast(b, dtype, v));
}

/* How many places of each window lie in the data, or, with `pad`, in the padded data: a tensor over the
 * spatial axes of the result. */
static TeTensor count_places(TeBuilder *b, const Window *w, TeTensor x, const int64_t *out,
                             DType dtype, bool pad)
{
    int64_t shape[SPATIAL_MOST];
    Te *inside = NULL;
    for (int i = 0; i < w->n; i++) {
        int p = w->at[2 + i];
        shape[i] = out[p];
        Te *at = window_at(b, w, i, te_axis(b, i), te_axis(b, w->n + i));
        int64_t low = pad ? -w->before[i] : 0, high = x.shape[p] + (pad ? w->after[i] : 0);
        Te *in = te_binary(b, TE_AND, te_binary(b, TE_GE, at, te_int(b, low)),
                           te_binary(b, TE_LT, at, te_int(b, high)));
        inside = inside ? te_binary(b, TE_AND, inside, in) : in;
    }
    TeTensor n = te_reduce(b, TE_SUM, dtype, w->n, shape, w->n, w->size, te_cast(b, dtype, inside));
    Te *index[SPATIAL_MOST];
    ops_axes(b, 0, w->n, index);
    return te_map(b, dtype, w->n, shape,
                  te_binary(b, TE_MAX, te_load(b, n, index), te_number(b, dtype, 1)));
}

static void compute_max_pool(TeBuilder *b)
{
    Window w;
    window_of_attrs(b->attrs, ops_spatial(b->op), &w);
    DType d = te_out_dtype(b, 0);
    /* The original pads floats with the least that is finite. */
    Te *least = dtype_is_float(d) ? te_number(b, d, -dtype_largest(d)) : te_bound(b, d, true);
    te_output(b, fold_windows(b, &w, te_input(b, 0), te_out_shape(b, 0), TE_REDUCE_MAX, d, least));
}

static DType mean_dtype(DType d)
{
    return dtype_is_float(d) && d.bits == 16 ? (DType){DTYPE_CODE_FLOAT, 32, 1} : d;
}

/* What the sum over each window is divided by: a number, or an element for the result's place at `at`. */
static Te *divisor(TeBuilder *b, const Window *w, TeTensor x, const int64_t *out, DType d,
                   Te *const *at)
{
    bool some = false;
    int64_t places = 1;
    for (int i = 0; i < w->n; i++) {
        int p = w->at[2 + i];
        some = some || leaves(w, i, x.shape[p], out[p]);
        places *= w->size[i];
    }
    if (!some)
        return te_number(b, d, places);
    return te_load(b, count_places(b, w, x, out, d, attrs_bool(b->attrs, "count_include_pad")), at);
}

TeTensor ops_avg_pool(TeBuilder *b, TeTensor x)
{
    Window w;
    window_of_attrs(b->attrs, ops_spatial(b->op), &w);
    const int64_t *out = te_out_shape(b, 0);
    DType d = mean_dtype(x.dtype);
    TeTensor sum = fold_windows(b, &w, x, out, TE_SUM, d, te_number(b, x.dtype, 0));
    Te *at[SPATIAL_MOST];
    for (int i = 0; i < w.n; i++)
        at[i] = te_axis(b, w.at[2 + i]);
    Te *mean = te_binary(b, TE_DIV, ops_at_axes(b, sum), divisor(b, &w, x, out, d, at));
    return te_map(b, x.dtype, x.rank, out, te_cast(b, x.dtype, mean));
}

static void compute_avg_pool(TeBuilder *b)
{
    te_output(b, ops_avg_pool(b, te_input(b, 0)));
}

/* ---- gradients ----------------------------------------------------------------------------------- */

static RelResult rel_pool_grad(Rel *r)
{
    const Type *g = rel_tensor(r, 0), *x = g ? rel_tensor(r, 1) : NULL;
    Window w;
    if (!x)
        return rel_blocked(r);
    if (!rel_places(r, 1, x, letters[2], w.at) || !rel_rank(r, 0, g, x->n) ||
        !rel_dtypes_agree(r, 0, g, 1, x) || !rel_is_float(r, x) || !window_of_rel(r, 2, &w))
        return REL_FAILED;
    return rel_set_output(r, x);
}

static void compute_max_pool_grad(TeBuilder *b)
{
    ops_derive(b, "nn.max_pool2d", te_input(b, 1), te_input(b, 0));
}

static void compute_avg_pool_grad(TeBuilder *b)
{
    ops_derive(b, "nn.avg_pool2d", te_input(b, 1), te_input(b, 0));
}

/* ---- global and adaptive ------------------------------------------------------------------------- */

#define SHAPES_rel_global "(N, C, H, W) -> (N, C, 1, 1)"
static RelResult rel_global(Rel *r)
{
    const Type *x = rel_tensor(r, 0);
    int at[LETTERS_MOST];
    if (!x)
        return rel_blocked(r);
    if (!rel_places(r, 0, x, "NCHW", at))
        return REL_FAILED;
    Dim dims[LETTERS_MOST];
    memcpy(dims, x->dims, x->n * sizeof *dims);
    dims[at[2]] = dims[at[3]] = 1;
    return rel_out_tensor(r, x->dtype, x->n, dims);
}

/* Folds axes of the data whole: the spatial ones. */
static TeTensor fold_spatial(TeBuilder *b, int n, const int *at, TeReduce kind, DType dtype,
                             double *places)
{
    TeTensor x = te_input(b, 0);
    Te *index[LETTERS_MOST];
    int64_t extents[SPATIAL_MOST];
    *places = 1;
    ops_axes(b, 0, x.rank, index);
    for (int i = 0; i < n; i++) {
        extents[i] = x.shape[at[2 + i]];
        index[at[2 + i]] = te_axis(b, x.rank + i);
        *places *= (double)extents[i];
    }
    return te_reduce(b, kind, dtype, x.rank, te_out_shape(b, 0), n, extents,
                     te_cast(b, dtype, te_load(b, x, index)));
}

static void compute_global_max_pool2d(TeBuilder *b)
{
    int at[LETTERS_MOST];
    double places;
    layout_places(attrs_string(b->attrs, "layout"), "NCHW", at);
    te_output(b, fold_spatial(b, 2, at, TE_REDUCE_MAX, te_out_dtype(b, 0), &places));
}

static void compute_global_avg_pool2d(TeBuilder *b)
{
    int at[LETTERS_MOST];
    double places;
    DType d = mean_dtype(te_out_dtype(b, 0));
    layout_places(attrs_string(b->attrs, "layout"), "NCHW", at);
    TeTensor sum = fold_spatial(b, 2, at, TE_SUM, d, &places);
    Te *mean = te_binary(b, TE_DIV, ops_at_axes(b, sum), te_number(b, d, places));
    ops_emit(b, te_cast(b, te_out_dtype(b, 0), mean));
}

#define SHAPES_rel_adaptive                                                                       \
    "(N, C, d...) -> (N, C, output_size...); (N, C, d...) where output_size == []; the same for " \
    "each where len(output_size) < len(d)"
static RelResult rel_adaptive(Rel *r)
{
    int n = ops_spatial(r->op);
    const Type *x = rel_tensor(r, 0);
    int at[LETTERS_MOST];
    int64_t size[SPATIAL_MOST];
    if (!x)
        return rel_blocked(r);
    if (!rel_places(r, 0, x, letters[n], at))
        return REL_FAILED;
    Dim dims[LETTERS_MOST];
    memcpy(dims, x->dims, x->n * sizeof *dims);
    const AttrValue *wanted = attrs_find(r->attrs, "output_size");
    bool keep = wanted->kind == ATTR_NONE || wanted->list.n == 0;
    if (!keep && !rel_ints(r, "output_size", n, size))
        return REL_FAILED;
    for (int i = 0; i < n && !keep; i++)
        dims[at[2 + i]] = size[i];
    return rel_out_tensor(r, x->dtype, x->n, dims);
}

/* Output o covers [floor(o d / O), ceil((o + 1) d / O)): windows differ in size by at most one, so all
 * are folded over the largest and what lies behind the end of a smaller one counts as nothing. */
static void adaptive(TeBuilder *b, bool mean)
{
    TeTensor x = te_input(b, 0);
    int n = ops_spatial(b->op);
    int at[LETTERS_MOST];
    layout_places(attrs_string(b->attrs, "layout"), letters[n], at);
    DType out = te_out_dtype(b, 0), d = mean ? mean_dtype(out) : out;
    Te *index[LETTERS_MOST], *inside = NULL, *count = NULL;
    int64_t most[SPATIAL_MOST];
    ops_axes(b, 0, x.rank, index);
    for (int i = 0; i < n; i++) {
        int p = at[2 + i];
        int64_t extent = x.shape[p], to = te_out_shape(b, 0)[p];
        to = to ? to : 1;
        Te *o = index[p], *e = te_int(b, extent), *t = te_int(b, to);
        Te *from = te_binary(b, TE_DIV, te_binary(b, TE_MUL, o, e), t);
        Te *next = te_binary(b, TE_MUL, te_binary(b, TE_ADD, o, te_int(b, 1)), e);
        Te *end = te_binary(b, TE_DIV, te_binary(b, TE_ADD, next, te_int(b, to - 1)), t);
        /* No window is larger; where `to` divides the extent all are equal. */
        most[i] = extent % to == 0 ? extent / to : extent / to + 2;
        Te *place = te_binary(b, TE_ADD, from, te_axis(b, x.rank + i));
        Te *in = te_binary(b, TE_LT, place, end);
        index[p] = te_binary(b, TE_MIN, place, te_int(b, extent - 1));
        inside = inside ? te_binary(b, TE_AND, inside, in) : in;
        Te *size = te_cast(b, d, te_binary(b, TE_SUB, end, from));
        count = count ? te_binary(b, TE_MUL, count, size) : size;
    }
    Te *nothing = mean ? te_number(b, d, 0) : te_bound(b, d, true);
    Te *body = te_select(b, inside, te_cast(b, d, te_load(b, x, index)), nothing);
    TeTensor fold =
        te_reduce(b, mean ? TE_SUM : TE_REDUCE_MAX, d, x.rank, te_out_shape(b, 0), n, most, body);
    if (mean)
        ops_emit(b, te_cast(b, out, te_binary(b, TE_DIV, ops_at_axes(b, fold), count)));
    else
        te_output(b, fold);
}

static void compute_adaptive_max_pool(TeBuilder *b)
{
    adaptive(b, false);
}

static void compute_adaptive_avg_pool(TeBuilder *b)
{
    adaptive(b, true);
}

/* ---- rows ---------------------------------------------------------------------------------------- */

#define DEFAULT_LIST(ARRAY, N)                     \
    {                                              \
        .kind = ATTR_LIST, .list = {(ARRAY), (N) } \
    }
#define WINDOW(N, LAYOUT)                                                                      \
    ATTR_MUST("pool_size", INTS, "extents of the window"),                                     \
        ATTR("strides", INTS, DEFAULT_LIST(ops_ones, N), "steps of the window, one an axis"),  \
        ATTR("dilation", INTS, DEFAULT_LIST(ops_ones, N), "distance of the window's places"),  \
        ATTR("padding", INTS, DEFAULT_LIST(ops_zeros, N),                                      \
             "places around the data: all sides, or before and after"),                        \
        ATTR_S("layout", LAYOUT, "the order of the axes"), ATTR_S("out_layout", "", "unused"), \
        ATTR_B("ceil_mode", 0, "windows may begin where they do not fit")
#define COUNT_PAD ATTR_B("count_include_pad", 0, "padding counts in the number to divide by")

static const OpAttr max1d_attrs[] = {WINDOW(1, "NCW"), {0}};
static const OpAttr max2d_attrs[] = {WINDOW(2, "NCHW"), {0}};
static const OpAttr max3d_attrs[] = {WINDOW(3, "NCDHW"), {0}};
static const OpAttr avg1d_attrs[] = {WINDOW(1, "NCW"), COUNT_PAD, {0}};
const OpAttr avg2d_attrs[] = {WINDOW(2, "NCHW"), COUNT_PAD, {0}};
static const OpAttr avg3d_attrs[] = {WINDOW(3, "NCDHW"), COUNT_PAD, {0}};
static const OpAttr global_attrs[] = {
    ATTR_S("layout", "NCHW", "the order of the axes"), ATTR_S("out_layout", "", "unused"), {0}};
#define ADAPTIVE(LAYOUT)                                            \
    {.name = "output_size",                                         \
     .type = ATTR_TYPE_INTS,                                        \
     .or_none = true,                                               \
     .otherwise = DEFAULT_LIST(NULL, 0),                            \
     .doc = "spatial extents of the result; [] or None: the same"}, \
        ATTR_S("layout", LAYOUT, "the order of the axes"), ATTR_S("out_layout", "", "unused")
static const OpAttr adaptive1d_attrs[] = {ADAPTIVE("NCW"), {0}};
static const OpAttr adaptive2d_attrs[] = {ADAPTIVE("NCHW"), {0}};
static const OpAttr adaptive3d_attrs[] = {ADAPTIVE("NCDHW"), {0}};

/* The last argument is its doc, and whatever else the row has. */
#define ROW(NAME, ID, REL, ATTRS, SAMPLES, ...) \
    {.name = NAME,                              \
     .args = args_data,                         \
     .attrs = ATTRS,                            \
     .samples = SAMPLES,                        \
     .pattern = OP_OUT_FUSABLE,                 \
     OP_REL(REL),                               \
     .compute = compute_##ID,                   \
     .doc = __VA_ARGS__}
static const OpArg grad_args[] = {
    {"out_grad", "the gradient of the pooled tensor"}, {"data", "what was pooled"}, {0}};
#define GRAD(NAME, ID, ATTRS, ...)                                                        \
    {.name = NAME,                                                                        \
     .args = grad_args,                                                                   \
     .attrs = ATTRS,                                                                      \
     .shapes = "(N, C, h, w), (N, C, H, W) -> (N, C, H, W)",                              \
     .samples = "(float32[1,2,2,2], float32[1,2,4,4], pool_size=[2, 2], strides=[2, 2])", \
     .pattern = OP_OUT_FUSABLE,                                                           \
     .rel = rel_pool_grad,                                                                \
     .compute = compute_##ID,                                                             \
     .doc = __VA_ARGS__}
#define SAMPLE1 \
    "(float32[1,2,6], pool_size=[2], strides=[2]) (float32[1,2,5], pool_size=[3], padding=[1, 1])"
#define SAMPLE2                                             \
    "(float32[1,2,6,6], pool_size=[2, 2], strides=[2, 2]) " \
    "(float32[1,2,5,5], pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1], ceil_mode=True)"
#define SAMPLE3 "(float32[1,1,4,4,4], pool_size=[2, 2, 2], strides=[2, 2, 2])"

#define WINDOWED                                                                     \
    "pool_size=%pool_size, strides=%strides, dilation=%dilation, padding=%padding, " \
    "layout=%layout, "                                                               \
    "ceil_mode=%ceil_mode"

const Op pool_ops[] = {
    ROW("nn.max_pool1d", max_pool, rel_pool, max1d_attrs, SAMPLE1,
        "The greatest element of each window over one axis."),
    ROW("nn.max_pool2d", max_pool, rel_pool, max2d_attrs, SAMPLE2,
        "The greatest element of each window over two axes.",
        .grad = "nn.max_pool2d_grad(%g, %data, " WINDOWED ")"),
    ROW("nn.max_pool3d", max_pool, rel_pool, max3d_attrs, SAMPLE3,
        "The greatest element of each window over three axes."),
    ROW("nn.avg_pool1d", avg_pool, rel_pool, avg1d_attrs, SAMPLE1,
        "The mean element of each window over one axis."),
    ROW("nn.avg_pool2d", avg_pool, rel_pool, avg2d_attrs, SAMPLE2,
        "The mean element of each window over two axes.",
        .grad =
            "nn.avg_pool2d_grad(%g, %data, " WINDOWED ", count_include_pad=%count_include_pad)"),
    ROW("nn.avg_pool3d", avg_pool, rel_pool, avg3d_attrs, SAMPLE3,
        "The mean element of each window over three axes."),
    GRAD("nn.max_pool2d_grad", max_pool_grad, max2d_attrs,
         "The gradient of `nn.max_pool2d`: each window's goes to its first greatest element."),
    GRAD("nn.avg_pool2d_grad", avg_pool_grad, avg2d_attrs,
         "The gradient of `nn.avg_pool2d`: each window's is shared by its elements.",
         .grad = "(nn.avg_pool2d(%g, " WINDOWED
                 ", count_include_pad=%count_include_pad), zeros_like(%data))"),
    ROW("nn.global_max_pool2d", global_max_pool2d, rel_global, global_attrs, "(float32[1,2,4,4])",
        "The greatest element of each channel.",
        .grad = "let %widest = cast_like(equal(%data, broadcast_to_like(%out, %data)), %data); "
                "multiply(%widest, broadcast_to_like(divide(%g, collapse_sum_like(%widest, "
                "%out)), %data))"),
    ROW("nn.global_avg_pool2d", global_avg_pool2d, rel_global, global_attrs, "(float32[1,2,4,4])",
        "The mean element of each channel.",
        .grad = "multiply(broadcast_to_like(%g, %data), cast_like(divide(ndarray_size(%out, "
                "dtype=\"float64\"), ndarray_size(%data, dtype=\"float64\")), %data))"),
    ROW("nn.adaptive_max_pool1d", adaptive_max_pool, rel_adaptive, adaptive1d_attrs,
        "(float32[1,2,7], output_size=[3])",
        "The greatest elements of windows that are laid out for a given number of results."),
    ROW("nn.adaptive_max_pool2d", adaptive_max_pool, rel_adaptive, adaptive2d_attrs,
        "(float32[1,2,7,5], output_size=[3, 2])",
        "The greatest elements of windows that are laid out for a given number of results."),
    ROW("nn.adaptive_max_pool3d", adaptive_max_pool, rel_adaptive, adaptive3d_attrs,
        "(float32[1,2,4,4,4], output_size=[2, 2, 2])",
        "The greatest elements of windows that are laid out for a given number of results."),
    ROW("nn.adaptive_avg_pool1d", adaptive_avg_pool, rel_adaptive, adaptive1d_attrs,
        "(float32[1,2,7], output_size=[3])",
        "The mean elements of windows that are laid out for a given number of results."),
    ROW("nn.adaptive_avg_pool2d", adaptive_avg_pool, rel_adaptive, adaptive2d_attrs,
        "(float32[1,2,7,5], output_size=[3, 2])",
        "The mean elements of windows that are laid out for a given number of results."),
    ROW("nn.adaptive_avg_pool3d", adaptive_avg_pool, rel_adaptive, adaptive3d_attrs,
        "(float32[1,2,4,4,4], output_size=[2, 2, 2])",
        "The mean elements of windows that are laid out for a given number of results."),
    {0},
};
