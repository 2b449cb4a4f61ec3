/* What operators of ONNX mean in Relay, one row each. A version of an operator is told apart where it says the same thing in another way:
 * an attribute that became an input. */
#include "exchange/onnx.h"

#include "base/str.h"

#include <math.h>
#include <string.h>

/* ---- element by element ----------------------------------------------------------------------------------------------------- */

static void rule_same(OnnxNode *n)
{
    onnx_give_input(n, 0);
}

static void rule_fold(OnnxNode *n)
{
    const char *x = onnx_in(n, 0);
    for (size_t i = 1; i < n->proto->n_input; i++)
        x = onnx_text(n, "%s(%s, %s)", n->word, x, onnx_in(n, i));
    if (n->proto->n_input == 1)
        onnx_give_input(n, 0);
    else
        onnx_give(n, x);
}

static void rule_mean(OnnxNode *n)
{
    const char *x = onnx_in(n, 0);
    for (size_t i = 1; i < n->proto->n_input; i++)
        x = onnx_text(n, "add(%s, %s)", x, onnx_in(n, i));
    onnx_give(n, onnx_text(n, "divide(%s, %s)", x,
                           onnx_literal(n, (double)n->proto->n_input, onnx_in_dtype(n, 0))));
}

static const char *name_of(OnnxNode *n, DType dtype)
{
    Buf b = {0};
    dtype_print(&b, dtype);
    const char *text = onnx_text(n, "%s", buf_text(&b));
    buf_deinit(&b);
    return text;
}

static void rule_cast(OnnxNode *n)
{
    int64_t to = onnx_attr_int(n, "to", 0);
    DType dtype = onnx_dtype((int32_t)to);
    if (dtype_size(dtype) == 0)
        onnx_refuse(n, "Relay has no element type `%s`", onnx_dtype_name((int32_t)to));
    else if (dtype_eq(dtype, onnx_in_dtype(n, 0)))
        onnx_give_input(n, 0);
    else
        onnx_give(n, onnx_text(n, "cast(%s, dtype=\"%s\")", onnx_in(n, 0), name_of(n, dtype)));
}

static void rule_cast_like(OnnxNode *n)
{
    onnx_give(
        n, onnx_text(n, "cast(%s, dtype=\"%s\")", onnx_in(n, 0), name_of(n, onnx_in_dtype(n, 1))));
}

/* Relay's operator takes floats of one type. */
static void rule_pow(OnnxNode *n)
{
    DType t = onnx_in_dtype(n, 0), e = onnx_in_dtype(n, 1);
    const char *x = onnx_in(n, 0), *y = onnx_in(n, 1);
    if (dtype_is_float(t) && dtype_eq(t, e))
        onnx_give(n, onnx_text(n, "power(%s, %s)", x, y));
    else
        onnx_give(n, onnx_text(n,
                               "cast(power(cast(%s, dtype=\"float64\"), cast(%s, "
                               "dtype=\"float64\")), dtype=\"%s\")",
                               x, y, name_of(n, t)));
}

static void rule_mod(OnnxNode *n)
{
    onnx_give(n, onnx_text(n, "%s(%s, %s)", onnx_attr_int(n, "fmod", 0) ? "mod" : "floor_mod",
                           onnx_in(n, 0), onnx_in(n, 1)));
}

/* Up to version 10 the bounds are attributes. */
static void rule_clip(OnnxNode *n)
{
    const char *x = onnx_in(n, 0);
    DType t = onnx_in_dtype(n, 0);
    const char *low = onnx_has(n, 1) ? onnx_in(n, 1) : NULL,
               *high = onnx_has(n, 2) ? onnx_in(n, 2) : NULL;
    if (onnx_has_attr(n, "min"))
        low = onnx_literal(n, onnx_attr_float(n, "min", 0), t);
    if (onnx_has_attr(n, "max"))
        high = onnx_literal(n, onnx_attr_float(n, "max", 0), t);
    x = low ? onnx_text(n, "maximum(%s, %s)", x, low) : x;
    x = high ? onnx_text(n, "minimum(%s, %s)", x, high) : x;
    if (low || high)
        onnx_give(n, x);
    else
        onnx_give_input(n, 0);
}

static void rule_gelu(OnnxNode *n)
{
    DType t = onnx_in_dtype(n, 0);
    const char *x = onnx_in(n, 0), *half = onnx_literal(n, 0.5, t), *one = onnx_literal(n, 1, t);
    const char *inner = onnx_text(n, "erf(divide(%s, %s))", x, onnx_literal(n, sqrt(2), t));
    if (!strcmp(onnx_attr_text(n, "approximate", "none"), "tanh"))
        inner = onnx_text(
            n, "tanh(multiply(%s, add(%s, multiply(%s, multiply(%s, multiply(%s, %s))))))",
            onnx_literal(n, sqrt(2 / M_PI), t), x, onnx_literal(n, 0.044715, t), x, x, x);
    onnx_give(n, onnx_text(n, "multiply(multiply(%s, %s), add(%s, %s))", half, x, one, inner));
}

static void rule_prelu(OnnxNode *n)
{
    const char *x = onnx_in(n, 0), *slope = onnx_in(n, 1);
    onnx_give(n, onnx_text(n, "where(less(%s, %s), multiply(%s, %s), %s)", x,
                           onnx_literal(n, 0, onnx_in_dtype(n, 0)), x, slope, x));
}

/* ---- reductions -------------------------------------------------------------------------------------------------------------- */

/* An input since version 13 or 18, an attribute before. False: nothing is reduced. */
static bool axes_of(OnnxNode *n, OnnxInts *out)
{
    *out = onnx_has(n, 1) ? onnx_ints(n, 1) : onnx_attr_ints(n, "axes");
    if (out->n <= 0 && onnx_attr_int(n, "noop_with_empty_axes", 0))
        return false;
    if (out->n > 0)
        return true;
    out->n = onnx_rank(n, 0);
    for (int i = 0; i < out->n; i++)
        out->at[i] = i;
    return out->n > 0;
}

static const char *reduced(OnnxNode *n, const char *op, const char *x)
{
    OnnxInts axes;
    if (!axes_of(n, &axes))
        return x;
    return onnx_text(n, "%s(%s, axis=%s, keepdims=%s)", op, x, onnx_list(n, axes),
                     onnx_bool(onnx_attr_int(n, "keepdims", 1) != 0));
}

static void rule_reduce(OnnxNode *n)
{
    OnnxInts axes;
    if (axes_of(n, &axes))
        onnx_give(n, reduced(n, n->word, onnx_in(n, 0)));
    else
        onnx_give_input(n, 0);
}

static void rule_reduce_l1(OnnxNode *n)
{
    onnx_give(n, reduced(n, "sum", onnx_text(n, "abs(%s)", onnx_in(n, 0))));
}

static const char *squares(OnnxNode *n)
{
    const char *x = onnx_in(n, 0);
    return reduced(n, "sum", onnx_text(n, "multiply(%s, %s)", x, x));
}

static void rule_reduce_l2(OnnxNode *n)
{
    onnx_give(n, onnx_text(n, "sqrt(%s)", squares(n)));
}

static void rule_reduce_squares(OnnxNode *n)
{
    onnx_give(n, squares(n));
}

static void rule_reduce_log_sum(OnnxNode *n)
{
    onnx_give(n, onnx_text(n, "log(%s)", reduced(n, "sum", onnx_in(n, 0))));
}

static void rule_reduce_log_sum_exp(OnnxNode *n)
{
    const char *x = onnx_text(n, "exp(%s)", onnx_in(n, 0));
    onnx_give(n, onnx_text(n, "log(%s)", reduced(n, "sum", x)));
}

static void rule_arg_reduce(OnnxNode *n)
{
    onnx_give(n, onnx_text(n,
                           "cast(%s(%s, axis=[%lld], keepdims=%s, select_last_index=%s), "
                           "dtype=\"int64\")",
                           n->word, onnx_in(n, 0), (long long)onnx_attr_int(n, "axis", 0),
                           onnx_bool(onnx_attr_int(n, "keepdims", 1) != 0),
                           onnx_bool(onnx_attr_int(n, "select_last_index", 0) != 0)));
}

static void rule_cumsum(OnnxNode *n)
{
    OnnxInts axis = onnx_ints(n, 1);
    long long a = axis.n > 0 ? (long long)axis.at[0] : 0;
    bool back = onnx_attr_int(n, "reverse", 0) != 0;
    const char *x = onnx_in(n, 0);
    x = back ? onnx_text(n, "reverse(%s, axis=%lld)", x, a) : x;
    x = onnx_text(n, "cumsum(%s, axis=%lld, exclusive=%s)", x, a,
                  onnx_bool(onnx_attr_int(n, "exclusive", 0) != 0));
    onnx_give(n, back ? onnx_text(n, "reverse(%s, axis=%lld)", x, a) : x);
}

/* Up to version 12 what follows the axis, 1 if nothing is said, is one. */
static void rule_soft(OnnxNode *n)
{
    int rank = onnx_rank(n, 0);
    int64_t axis = onnx_attr_int(n, "axis", n->version < 13 ? 1 : -1);
    axis += axis < 0 ? rank : 0;
    if (n->version >= 13 || axis == rank - 1) {
        onnx_give(n, onnx_text(n, "%s(%s, axis=%lld)", n->word, onnx_in(n, 0), (long long)axis));
        return;
    }
    OnnxInts shape = {.n = rank}, flat = {{1, 1}, 2};
    for (int i = 0; i < rank && i < ONNX_INTS_MOST; i++) {
        shape.at[i] = onnx_known_extent(n, 0, i);
        flat.at[i >= axis] *= shape.at[i];
    }
    onnx_give(n, onnx_text(n, "reshape(%s(reshape(%s, newshape=%s), axis=1), newshape=%s)", n->word,
                           onnx_in(n, 0), onnx_list(n, flat), onnx_list(n, shape)));
}

/* The inputs as a tuple. */
static const char *all_inputs(OnnxNode *n)
{
    Buf xs = {0};
    size_t count = n->proto->n_input;
    for (size_t i = 0; i < count; i++)
        buf_printf(&xs, "%s%s", i ? ", " : "", onnx_in(n, i));
    const char *text = onnx_text(n, "(%s%s)", buf_text(&xs), count == 1 ? "," : "");
    buf_deinit(&xs);
    return text;
}

/* ---- products ---------------------------------------------------------------------------------------------------------------- */

static void rule_matmul(OnnxNode *n)
{
    int x = onnx_rank(n, 0), y = onnx_rank(n, 1);
    const char *a = onnx_in(n, 0), *b = onnx_in(n, 1);
    if (x == 2 && y == 2)
        onnx_give(n, onnx_text(n, "nn.matmul(%s, %s, units=None)", a, b));
    else if (x == 3 && y == 3)
        onnx_give(n, onnx_text(n, "nn.batch_matmul(%s, %s)", a, b));
    else if (x == 1 && y == 1)
        onnx_give(n, onnx_text(n, "einsum((%s, %s), equation=\"j,j->\")", a, b));
    else
        onnx_give(n, onnx_text(n, "einsum((%s, %s), equation=\"%s,%s->...%s%s\")", a, b,
                               x == 1 ? "j" : "...ij", y == 1 ? "j" : "...jk", x > 1 ? "i" : "",
                               y > 1 ? "k" : ""));
}

/* A product of rows with a weight of units by rows is what Relay calls dense. */
static void rule_gemm(OnnxNode *n)
{
    DType t = onnx_in_dtype(n, 0);
    double alpha = onnx_attr_float(n, "alpha", 1), beta = onnx_attr_float(n, "beta", 1);
    bool ta = onnx_attr_int(n, "transA", 0) != 0, tb = onnx_attr_int(n, "transB", 0) != 0;
    const char *a = onnx_in(n, 0), *b = onnx_in(n, 1);
    const char *y = !ta && tb ? onnx_text(n, "nn.dense(%s, %s, units=None)", a, b)
                              : onnx_text(n,
                                          "nn.matmul(%s, %s, units=None, transpose_a=%s, "
                                          "transpose_b=%s)",
                                          a, b, onnx_bool(ta), onnx_bool(tb));
    if (alpha != 1)
        y = onnx_text(n, "multiply(%s, %s)", onnx_literal(n, alpha, t), y);
    if (!onnx_has(n, 2)) {
        onnx_give(n, y);
        return;
    }
    const char *c = onnx_in(n, 2);
    bool bias = onnx_rank(n, 2) == 1 && beta == 1;
    c = beta == 1 ? c : onnx_text(n, "multiply(%s, %s)", onnx_literal(n, beta, t), c);
    onnx_give(n, onnx_text(n, "%s(%s, %s)", bias ? "nn.bias_add" : "add", y, c));
}

static void rule_einsum(OnnxNode *n)
{
    Buf equation = {0};
    for (const char *p = onnx_attr_text(n, "equation", ""); *p; p++)
        if (*p != ' ')
            buf_char(&equation, *p);
    onnx_give(n, onnx_text(n, "einsum(%s, equation=\"%s\")", all_inputs(n), buf_text(&equation)));
    buf_deinit(&equation);
}

/* ---- windows ------------------------------------------------------------------------------------------------------------------ */

typedef struct Window {
    int n; /* spatial axes; 0 after a refusal */
    OnnxInts kernel, strides, pads, dilations;
} Window;

static OnnxInts ints_or(OnnxNode *n, const char *name, int count, int64_t otherwise)
{
    OnnxInts out = onnx_attr_ints(n, name);
    if (out.n > 0 && out.n != count)
        onnx_refuse(n, "`%s` has %d numbers for %d", name, out.n, count);
    for (int i = 0; out.n != count && i < count; i++)
        out.at[i] = otherwise;
    out.n = count;
    return out;
}

/* `auto_pad` is worked out from the extents: Relay says every padding. */
static Window window_of(OnnxNode *n, OnnxInts kernel)
{
    int m = kernel.n;
    Window w = {.n = m, .kernel = kernel};
    if (m < 1 || m > 3 || onnx_rank(n, 0) != m + 2) {
        onnx_refuse(n, "windows over %d axes", m);
        return (Window){.n = 0};
    }
    w.strides = ints_or(n, "strides", m, 1);
    w.dilations = ints_or(n, "dilations", m, 1);
    w.pads = ints_or(n, "pads", 2 * m, 0);
    const char *how = onnx_attr_text(n, "auto_pad", "NOTSET");
    bool upper = !strcmp(how, "SAME_UPPER"), lower = !strcmp(how, "SAME_LOWER");
    for (int i = 0; i < m; i++)
        if (w.strides.at[i] < 1)
            onnx_refuse(n, "a stride of %lld", (long long)w.strides.at[i]);
    for (int i = 0; i < m && (upper || lower) && !n->failed; i++) {
        int64_t d = onnx_known_extent(n, 0, i + 2), s = w.strides.at[i];
        int64_t room = ((d + s - 1) / s - 1) * s + (kernel.at[i] - 1) * w.dilations.at[i] + 1 - d;
        room = room < 0 ? 0 : room;
        w.pads.at[i] = upper ? room / 2 : room - room / 2;
        w.pads.at[m + i] = room - w.pads.at[i];
    }
    return w;
}

/* Paddings that are the same on both sides are said once. */
static const char *padding(OnnxNode *n, const Window *w)
{
    OnnxInts half = w->pads;
    half.n = w->n;
    for (int i = 0; i < w->n; i++)
        if (w->pads.at[i] != w->pads.at[w->n + i])
            return onnx_list(n, w->pads);
    return onnx_list(n, half);
}

static const char *strides_text(OnnxNode *n, const Window *w)
{
    Buf b = {0};
    bool stride = false, pad = false, dilation = false;
    for (int i = 0; i < w->n; i++) {
        stride |= w->strides.at[i] != 1;
        dilation |= w->dilations.at[i] != 1;
        pad |= w->pads.at[i] != 0 || w->pads.at[w->n + i] != 0;
    }
    if (stride)
        buf_printf(&b, ", strides=%s", onnx_list(n, w->strides));
    if (pad)
        buf_printf(&b, ", padding=%s", padding(n, w));
    if (dilation)
        buf_printf(&b, ", dilation=%s", onnx_list(n, w->dilations));
    const char *text = onnx_text(n, "%s", buf_text(&b));
    buf_deinit(&b);
    return text;
}

static OnnxInts kernel_of(OnnxNode *n, size_t weight)
{
    OnnxInts k = {.n = onnx_rank(n, weight) - 2};
    for (int i = 0; i < k.n && i < 3; i++)
        k.at[i] = onnx_known_extent(n, weight, i + 2);
    return k;
}

static void with_bias(OnnxNode *n, const char *y)
{
    onnx_give(n, onnx_has(n, 2) ? onnx_text(n, "nn.bias_add(%s, %s)", y, onnx_in(n, 2)) : y);
}

static void rule_conv(OnnxNode *n)
{
    Window w = window_of(n, kernel_of(n, 1));
    if (w.n == 0)
        return;
    int64_t groups = onnx_attr_int(n, "group", 1);
    const char *grouped = groups == 1 ? "" : onnx_text(n, ", groups=%lld", (long long)groups);
    with_bias(n, onnx_text(n, "nn.conv%dd(%s, %s%s%s, channels=%lld, kernel_size=%s)", w.n,
                           onnx_in(n, 0), onnx_in(n, 1), strides_text(n, &w), grouped,
                           (long long)onnx_known_extent(n, 1, 0), onnx_list(n, w.kernel)));
}

static void rule_conv_transpose(OnnxNode *n)
{
    static const char *const layouts[][2] = {{"NCW", "IOW"}, {"NCHW", "IOHW"}, {"NCDHW", "IODHW"}};
    Window w = window_of(n, kernel_of(n, 1));
    if (w.n == 0)
        return;
    OnnxInts extra = ints_or(n, "output_padding", w.n, 0), size = onnx_attr_ints(n, "output_shape");
    const char *how = onnx_attr_text(n, "auto_pad", "NOTSET");
    bool upper = !strcmp(how, "SAME_UPPER"), same = upper || !strcmp(how, "SAME_LOWER");
    for (int i = 0; i < w.n && (same || size.n >= w.n); i++) {
        int64_t d = onnx_known_extent(n, 0, i + 2), s = w.strides.at[i];
        int64_t wanted = size.n >= w.n ? size.at[size.n - w.n + i] : d * s;
        int64_t total =
            s * (d - 1) + extra.at[i] + (w.kernel.at[i] - 1) * w.dilations.at[i] + 1 - wanted;
        extra.at[i] -= total < 0 ? total : 0;
        total = total < 0 ? 0 : total;
        w.pads.at[i] = upper ? total / 2 : total - total / 2;
        w.pads.at[w.n + i] = total - w.pads.at[i];
    }
    with_bias(n, onnx_text(n,
                           "nn.conv%dd_transpose(%s, %s, strides=%s, output_padding=%s, "
                           "padding=%s, dilation=%s, groups=%lld, data_layout=\"%s\", "
                           "kernel_layout=\"%s\")",
                           w.n, onnx_in(n, 0), onnx_in(n, 1), onnx_list(n, w.strides),
                           onnx_list(n, extra), onnx_list(n, w.pads), onnx_list(n, w.dilations),
                           (long long)onnx_attr_int(n, "group", 1), layouts[w.n - 1][0],
                           layouts[w.n - 1][1]));
}

static void rule_pool(OnnxNode *n)
{
    Window w = window_of(n, onnx_attr_ints(n, "kernel_shape"));
    if (w.n == 0)
        return;
    bool ceil = onnx_attr_int(n, "ceil_mode", 0) != 0;
    bool counted = onnx_attr_int(n, "count_include_pad", 0) != 0; /* an average has it alone */
    for (int i = 0; i < w.n && ceil && !n->failed; i++) {
        int64_t d = onnx_known_extent(n, 0, i + 2), s = w.strides.at[i];
        int64_t room =
            d + w.pads.at[i] + w.pads.at[w.n + i] - (w.kernel.at[i] - 1) * w.dilations.at[i] - 1;
        if ((room + s - 1) / s * s >= d + w.pads.at[i])
            onnx_refuse(n, "a last window that begins in the padding");
    }
    onnx_give(n,
              onnx_text(n, "nn.%s_pool%dd(%s, pool_size=%s%s%s%s)", n->word, w.n, onnx_in(n, 0),
                        onnx_list(n, w.kernel), strides_text(n, &w), ceil ? ", ceil_mode=True" : "",
                        counted ? ", count_include_pad=True" : ""));
}

static void rule_global_pool(OnnxNode *n)
{
    int rank = onnx_rank(n, 0);
    OnnxInts axes = {.n = rank > 2 ? rank - 2 : 0};
    for (int i = 0; i < axes.n; i++)
        axes.at[i] = i + 2;
    if (rank == 4)
        onnx_give(n, onnx_text(n, "nn.global_%s_pool2d(%s)", n->word, onnx_in(n, 0)));
    else
        onnx_give(n, onnx_text(n, "%s(%s, axis=%s, keepdims=True)",
                               strcmp(n->word, "avg") ? n->word : "mean", onnx_in(n, 0),
                               onnx_list(n, axes)));
}

/* ---- normalising ------------------------------------------------------------------------------------------------------------- */

static void rule_batch_norm(OnnxNode *n)
{
    if (onnx_attr_int(n, "training_mode", 0))
        onnx_refuse(n, "its training mode");
    const char *y =
        onnx_text(n, "nn.batch_norm(%s, %s, %s, %s, %s, epsilon=%s)", onnx_in(n, 0), onnx_in(n, 1),
                  onnx_in(n, 2), onnx_in(n, 3), onnx_in(n, 4),
                  onnx_literal(n, onnx_attr_float(n, "epsilon", 1e-5), dtype_of(DT_FLOAT32)));
    onnx_give(n, onnx_text(n, "%s.0", y));
}

static Tensor *zeros(OnnxNode *n, int64_t size, DType dtype);

static void rule_layer_norm(OnnxNode *n)
{
    int rank = onnx_rank(n, 0);
    int64_t axis = onnx_attr_int(n, "axis", -1);
    axis += axis < 0 ? rank : 0;
    const char *eps = onnx_literal(n, onnx_attr_float(n, "epsilon", 1e-5), dtype_of(DT_FLOAT32));
    if (n->proto->n_output > 1)
        onnx_refuse(n, "its mean and deviation as results");
    if (axis == rank - 1 && onnx_has(n, 2)) {
        onnx_give(n, onnx_text(n, "nn.layer_norm(%s, %s, %s, epsilon=%s)", onnx_in(n, 0),
                               onnx_in(n, 1), onnx_in(n, 2), eps));
        return;
    }
    int64_t width = 1;
    OnnxInts shape = {.n = rank};
    for (int i = 0; i < rank; i++) {
        shape.at[i] = onnx_known_extent(n, 0, i);
        width *= i >= axis ? shape.at[i] : 1;
    }
    const char *beta = onnx_has(n, 2) ? onnx_text(n, "reshape(%s, newshape=[-1])", onnx_in(n, 2))
                                      : onnx_array(n, zeros(n, width, onnx_in_dtype(n, 0)), "beta");
    onnx_give(n, onnx_text(n,
                           "reshape(nn.layer_norm(reshape(%s, newshape=[-1, %lld]), reshape(%s, "
                           "newshape=[-1]), %s, epsilon=%s), newshape=%s)",
                           onnx_in(n, 0), (long long)width, onnx_in(n, 1), beta, eps,
                           onnx_list(n, shape)));
}

static void rule_lp_norm(OnnxNode *n)
{
    const char *x = onnx_in(n, 0), *zero = onnx_literal(n, 0, onnx_in_dtype(n, 0));
    long long axis = (long long)onnx_attr_int(n, "axis", -1);
    const char *norm =
        onnx_attr_int(n, "p", 2) == 1
            ? onnx_text(n, "sum(abs(%s), axis=[%lld], keepdims=True)", x, axis)
            : onnx_text(n, "sqrt(sum(multiply(%s, %s), axis=[%lld], keepdims=True))", x, x, axis);
    norm = onnx_let(n, norm);
    onnx_give(n, onnx_text(n, "where(equal(%s, %s), zeros_like(%s), divide(%s, %s))", norm, zero, x,
                           x, norm));
}

/* Of inference it is the input itself. */
static void rule_dropout(OnnxNode *n)
{
    if (onnx_has(n, 2) && onnx_number(n, 2, 0) != 0)
        onnx_refuse(n, "its training mode");
    onnx_give_input(n, 0);
}

/* ---- shapes ------------------------------------------------------------------------------------------------------------------- */

static Tensor *int64s(OnnxNode *n, OnnxInts v)
{
    Tensor *t = tensor_new(onnx_limits(n), dtype_of(DT_INT64), 1, &(int64_t){v.n});
    if (t)
        memcpy(t->data, v.at, (size_t)v.n * sizeof *v.at);
    return t;
}

static Tensor *zeros(OnnxNode *n, int64_t size, DType dtype)
{
    return tensor_new(onnx_limits(n), dtype, 1, &size);
}

static void rule_shape(OnnxNode *n)
{
    int rank = onnx_rank(n, 0);
    int64_t from = onnx_attr_int(n, "start", 0), to = onnx_attr_int(n, "end", rank);
    from += from < 0 ? rank : 0;
    to += to < 0 ? rank : 0;
    from = from < 0 ? 0 : from > rank ? rank : from;
    to = to < from ? from : to > rank ? rank : to;
    OnnxInts shape = {.n = 0};
    bool known = true;
    for (int64_t i = from; i < to; i++) {
        int64_t d = onnx_extent(n, 0, i);
        known &= d >= 0;
        shape.at[shape.n++] = d;
    }
    const char *x = onnx_text(n, "shape_of(%s, dtype=\"int64\")", onnx_in(n, 0));
    if (n->failed)
        return;
    if (known)
        onnx_give_constant(n, int64s(n, shape));
    else if (from == 0 && to == rank)
        onnx_give(n, x);
    else
        onnx_give(
            n, onnx_text(n, "strided_slice(%s, begin=[%lld], end=[%lld], strides=[1], axes=None)",
                         x, (long long)from, (long long)to));
}

static void rule_size(OnnxNode *n)
{
    onnx_give(n, onnx_text(n, "ndarray_size(%s, dtype=\"int64\")", onnx_in(n, 0)));
}

static void rule_reshape(OnnxNode *n)
{
    const OnnxInts shape = n->version < 5 ? onnx_attr_ints(n, "shape") : onnx_ints(n, 1);
    onnx_give(n, onnx_text(n, "reshape(%s, newshape=%s%s)", onnx_in(n, 0), onnx_list(n, shape),
                           onnx_attr_int(n, "allowzero", 0) ? ", allowzero=True" : ""));
}

static void rule_flatten(OnnxNode *n)
{
    int rank = onnx_rank(n, 0);
    int64_t axis = onnx_attr_int(n, "axis", 1), before = 1;
    axis += axis < 0 ? rank : 0;
    if (axis == 1 && rank > 1) {
        onnx_give(n, onnx_text(n, "nn.batch_flatten(%s)", onnx_in(n, 0)));
        return;
    }
    for (int i = 0; i < axis && i < rank; i++)
        before *= onnx_known_extent(n, 0, i);
    onnx_give(n,
              onnx_text(n, "reshape(%s, newshape=[%lld, -1])", onnx_in(n, 0), (long long)before));
}

static void rule_transpose(OnnxNode *n)
{
    OnnxInts perm = onnx_attr_ints(n, "perm");
    onnx_give(n, onnx_text(n, "transpose(%s, axes=%s)", onnx_in(n, 0),
                           perm.n < 0 ? "None" : onnx_list(n, perm)));
}

static OnnxInts axes_input(OnnxNode *n)
{
    return onnx_has(n, 1) ? onnx_ints(n, 1) : onnx_attr_ints(n, "axes");
}

static void rule_squeeze(OnnxNode *n)
{
    OnnxInts axes = axes_input(n);
    onnx_give(n, onnx_text(n, "squeeze(%s, axis=%s)", onnx_in(n, 0),
                           axes.n < 0 ? "None" : onnx_list(n, axes)));
}

static void rule_unsqueeze(OnnxNode *n)
{
    OnnxInts axes = axes_input(n);
    int rank = onnx_rank(n, 0) + (axes.n > 0 ? axes.n : 0);
    const char *x = onnx_in(n, 0);
    bool new_axis[ONNX_INTS_MOST + TENSOR_RANK_MOST] = {0};
    for (int i = 0; i < axes.n; i++) {
        int64_t a = axes.at[i] + (axes.at[i] < 0 ? rank : 0);
        if (a < 0 || a >= rank)
            onnx_refuse(n, "there is no axis %lld", (long long)axes.at[i]);
        else
            new_axis[a] = true;
    }
    for (int i = 0; i < rank; i++)
        if (new_axis[i])
            x = onnx_text(n, "expand_dims(%s, axis=%d)", x, i);
    onnx_give(n, x);
}

static void rule_concat(OnnxNode *n)
{
    if (n->proto->n_input == 1)
        onnx_give_input(n, 0);
    else
        onnx_give(n, onnx_text(n, "concatenate(%s, axis=%lld)", all_inputs(n),
                               (long long)onnx_attr_int(n, "axis", 0)));
}

/* Sizes are an input since version 13, an attribute before; without them the parts are equal. */
static void rule_split(OnnxNode *n)
{
    int64_t axis = onnx_attr_int(n, "axis", 0), at = 0;
    OnnxInts parts =
        axes_input(n).n >= 0 && onnx_has(n, 1) ? onnx_ints(n, 1) : onnx_attr_ints(n, "split");
    int count = (int)n->proto->n_output;
    OnnxInts cuts = {.n = count - 1};
    int64_t equal =
        parts.n < 0 ? (onnx_known_extent(n, 0, axis) + count - 1) / (count ? count : 1) : 0;
    if (count < 1 || count > ONNX_INTS_MOST || (parts.n >= 0 && parts.n < count)) {
        onnx_refuse(n, "%d parts", count);
        return;
    }
    for (int i = 0; i < cuts.n; i++)
        cuts.at[i] = at += parts.n >= 0 ? parts.at[i] : equal;
    if (count == 1) {
        onnx_give_input(n, 0);
        return;
    }
    const char *y = onnx_text(n, "split(%s, indices_or_sections=%s, axis=%lld)", onnx_in(n, 0),
                              onnx_list(n, cuts), (long long)axis);
    y = n->constant ? y : onnx_let(n, y);
    for (int i = 0; i < count; i++)
        onnx_give(n, onnx_text(n, "%s.%d", y, i));
}

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

/* Attributes up to version 9, inputs since. The end of a whole backward slice may lie anywhere before the first element. */
static void rule_slice(OnnxNode *n)
{
    bool old = n->version < 10;
    OnnxInts from = old ? onnx_attr_ints(n, "starts") : onnx_ints(n, 1),
             to = old ? onnx_attr_ints(n, "ends") : onnx_ints(n, 2),
             axes = old ? onnx_attr_ints(n, "axes") : onnx_ints(n, 3),
             steps = old ? (OnnxInts){.n = -1} : onnx_ints(n, 4);
    int count = from.n < 0 ? 0 : from.n;
    if (to.n != count || (axes.n >= 0 && axes.n != count) || (steps.n >= 0 && steps.n != count))
        onnx_refuse(n, "bounds of different numbers");
    for (int i = 0; i < count && !n->failed; i++) {
        if (axes.n < 0)
            axes.at[i] = i;
        if (steps.n < 0)
            steps.at[i] = 1;
        from.at[i] = clamp(from.at[i], -INT32_MAX, INT32_MAX);
        to.at[i] = clamp(to.at[i], -INT32_MAX, INT32_MAX);
        int64_t d = onnx_extent(n, 0, axes.at[i]);
        if (d < 0)
            continue;
        int64_t b = from.at[i] + (from.at[i] < 0 ? d : 0), e = to.at[i] + (to.at[i] < 0 ? d : 0);
        b = clamp(b, 0, d);
        e = clamp(e, steps.at[i] < 0 ? -1 : 0, d);
        if ((e - b) * steps.at[i] <= 0)
            from.at[i] = to.at[i] = 0, steps.at[i] = 1;
        else if (to.at[i] > d)
            to.at[i] = d;
    }
    axes.n = steps.n = count;
    onnx_give(n, onnx_text(n, "strided_slice(%s, begin=%s, end=%s, strides=%s, axes=%s)",
                           onnx_in(n, 0), onnx_list(n, from), onnx_list(n, to), onnx_list(n, steps),
                           onnx_list(n, axes)));
}

static void rule_expand(OnnxNode *n)
{
    OnnxInts shape = onnx_ints(n, 1);
    int rank = onnx_rank(n, 0), most = shape.n > rank ? shape.n : rank;
    OnnxInts out = {.n = most};
    for (int i = 0; i < most; i++) {
        int a = rank - most + i, b = shape.n - most + i;
        int64_t x = a >= 0 ? onnx_known_extent(n, 0, a) : 1, y = b >= 0 ? shape.at[b] : 1;
        out.at[i] = y == 1 ? x : y;
    }
    onnx_give(n, onnx_text(n, "broadcast_to(%s, shape=%s)", onnx_in(n, 0), onnx_list(n, out)));
}

static void rule_tile(OnnxNode *n)
{
    onnx_give(n, onnx_text(n, "tile(%s, reps=%s)", onnx_in(n, 0), onnx_list(n, onnx_ints(n, 1))));
}

/* An index that is known and not negative needs no wrapping around. */
static void rule_gather(OnnxNode *n)
{
    onnx_give(n, onnx_text(n, "take(%s, %s, axis=%lld, mode=\"wrap\")", onnx_in(n, 0),
                           onnx_in(n, 1), (long long)onnx_attr_int(n, "axis", 0)));
}

/* Relay has the axis of coordinates in front. */
static const char *leading(OnnxNode *n, size_t i)
{
    int rank = onnx_rank(n, i);
    OnnxInts axes = {.n = rank};
    for (int k = 0; k < rank; k++)
        axes.at[k] = k == 0 ? rank - 1 : k - 1;
    return onnx_text(n, "transpose(%s, axes=%s)", onnx_in(n, i), onnx_list(n, axes));
}

static void rule_gather_nd(OnnxNode *n)
{
    onnx_give(n, onnx_text(n, "gather_nd(%s, %s, batch_dims=%lld)", onnx_in(n, 0), leading(n, 1),
                           (long long)onnx_attr_int(n, "batch_dims", 0)));
}

static const char *reduction(OnnxNode *n)
{
    const char *how = onnx_attr_text(n, "reduction", "none");
    return strcmp(how, "none") ? how : "update";
}

static void rule_scatter_nd(OnnxNode *n)
{
    onnx_give(n, onnx_text(n, "scatter_nd(%s, %s, %s, mode=\"%s\")", onnx_in(n, 0), leading(n, 1),
                           onnx_in(n, 2), reduction(n)));
}

static void rule_scatter_elements(OnnxNode *n)
{
    onnx_give(n, onnx_text(n, "scatter_elements(%s, %s, %s, axis=%lld, reduction=\"%s\")",
                           onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2),
                           (long long)onnx_attr_int(n, "axis", 0), reduction(n)));
}

static void rule_pad(OnnxNode *n)
{
    int rank = onnx_rank(n, 0);
    bool old = n->version < 11;
    OnnxInts pads = old ? onnx_attr_ints(n, "pads") : onnx_ints(n, 1), axes = onnx_ints(n, 3);
    const char *mode = onnx_attr_text(n, "mode", "constant");
    int count = axes.n >= 0 ? axes.n : rank;
    int64_t width[TENSOR_RANK_MOST][2] = {{0}};
    if (pads.n != 2 * count)
        onnx_refuse(n, "%d paddings for %d axes", pads.n, count);
    for (int i = 0; i < count && !n->failed; i++) {
        int64_t a = axes.n >= 0 ? axes.at[i] + (axes.at[i] < 0 ? rank : 0) : i;
        if (a < 0 || a >= rank)
            onnx_refuse(n, "there is no axis %lld", (long long)a);
        else
            width[a][0] = pads.at[i], width[a][1] = pads.at[count + i];
    }
    if (!strcmp(mode, "wrap"))
        onnx_refuse(n, "the mode `wrap`");
    DType t = onnx_in_dtype(n, 0);
    const char *value = onnx_has(n, 2) && !old
                            ? onnx_rank(n, 2) == 0
                                  ? onnx_in(n, 2)
                                  : onnx_text(n, "reshape(%s, newshape=[])", onnx_in(n, 2))
                            : onnx_literal(n, onnx_attr_float(n, "value", 0), t);
    Buf b = {0};
    for (int i = 0; i < rank; i++)
        buf_printf(&b, "%s[%lld, %lld]", i ? ", " : "", (long long)width[i][0],
                   (long long)width[i][1]);
    onnx_give(n, onnx_text(n, "nn.pad(%s, %s, pad_width=[%s], pad_mode=\"%s\")", onnx_in(n, 0),
                           value, buf_text(&b), mode));
    buf_deinit(&b);
}

static void rule_trilu(OnnxNode *n)
{
    long long k = onnx_has(n, 1) ? (long long)onnx_number(n, 1, 0) : 0;
    onnx_give(n, onnx_text(n, "trilu(%s, %lld, upper=%s)", onnx_in(n, 0), k,
                           onnx_bool(onnx_attr_int(n, "upper", 1) != 0)));
}

/* ---- creating ---------------------------------------------------------------------------------------------------------------- */

static void rule_constant(OnnxNode *n)
{
    const Onnx__TensorProto *t = onnx_attr_tensor(n, "value");
    OnnxInts ints = onnx_attr_ints(n, "value_ints");
    if (t)
        onnx_give_tensor(n, t);
    else if (ints.n >= 0)
        onnx_give_constant(n, int64s(n, ints));
    else if (onnx_has_attr(n, "value_int"))
        onnx_give(n, onnx_literal(n, (double)onnx_attr_int(n, "value_int", 0), dtype_of(DT_INT64)));
    else if (onnx_has_attr(n, "value_float"))
        onnx_give(n, onnx_literal(n, onnx_attr_float(n, "value_float", 0), dtype_of(DT_FLOAT32)));
    else
        onnx_refuse(n, "constants that are no tensors");
}

static void rule_constant_of_shape(OnnxNode *n)
{
    const Onnx__TensorProto *t = onnx_attr_tensor(n, "value");
    const char *value = t ? onnx_tensor_literal(n, t) : "0f";
    DType dtype = t ? onnx_dtype(t->data_type) : dtype_of(DT_FLOAT32);
    onnx_give(n, onnx_text(n, "full(%s, shape=%s, dtype=\"%s\")", value,
                           onnx_list(n, onnx_ints(n, 0)), name_of(n, dtype)));
}

static void rule_one_hot(OnnxNode *n)
{
    OnnxInts depth = onnx_ints(n, 1);
    int64_t axis = onnx_attr_int(n, "axis", -1);
    long long d = depth.n > 0 ? (long long)depth.at[0] : 0;
    axis += axis < 0 ? onnx_rank(n, 0) + 1 : 0;
    const char *ids = onnx_let(n, onnx_text(n, "cast(%s, dtype=\"int64\")", onnx_in(n, 0)));
    onnx_give(
        n, onnx_text(n,
                     "one_hot(where(less(%s, 0i64), add(%s, %lldi64), %s), take(%s, 1i64, axis=0), "
                     "take(%s, 0i64, axis=0), depth=%lld, axis=%lld, dtype=\"%s\")",
                     ids, ids, d, ids, onnx_in(n, 2), onnx_in(n, 2), d, (long long)axis,
                     name_of(n, onnx_in_dtype(n, 2))));
}

/* The number is an attribute up to version 9. */
static void rule_topk(OnnxNode *n)
{
    long long k =
        onnx_has(n, 1) ? (long long)onnx_number(n, 1, 0) : (long long)onnx_attr_int(n, "k", 1);
    const char *y = onnx_text(
        n, "topk(%s, k=%lld, axis=%lld, ret_type=\"both\", is_ascend=%s, dtype=\"int64\")",
        onnx_in(n, 0), k, (long long)onnx_attr_int(n, "axis", -1),
        onnx_bool(onnx_attr_int(n, "largest", 1) == 0));
    y = n->constant ? y : onnx_let(n, y);
    onnx_give(n, onnx_text(n, "%s.0", y));
    onnx_give(n, onnx_text(n, "%s.1", y));
}

/* ---- images ------------------------------------------------------------------------------------------------------------------ */

static void rule_resize(OnnxNode *n)
{
    static const char *const layouts[] = {"NCW", "NCHW", "NCDHW"};
    bool old = !strcmp(n->proto->op_type, "Upsample"), early = !old && n->version < 11;
    int rank = onnx_rank(n, 0);
    size_t scales_at = old || early ? 1 : 2;
    const char *mode = onnx_attr_text(n, "mode", "nearest");
    const char *coordinates =
        old || early ? "asymmetric"
                     : onnx_attr_text(n, "coordinate_transformation_mode", "half_pixel");
    if (rank < 3 || rank > 5 || onnx_has_attr(n, "axes")) {
        onnx_refuse(n, "resizing of a tensor of rank %d by axes", rank);
        return;
    }
    OnnxInts size = {.n = rank - 2}, sizes = {.n = -1};
    bool by_sizes = !old && !early && onnx_has(n, 3);
    if (by_sizes)
        sizes = onnx_ints(n, 3);
    for (int i = 0; i < rank; i++) {
        int64_t d = onnx_known_extent(n, 0, i);
        double scale = by_sizes ? 0 : onnx_number(n, scales_at, i);
        int64_t to = by_sizes ? (i < sizes.n ? sizes.at[i] : d) : (int64_t)floor((double)d * scale);
        if (i < 2 && to != d)
            onnx_refuse(n, "resizing of axes that are not spatial");
        if (!by_sizes && fabs((double)d * scale - (double)to) > 1e-3 * (double)to)
            onnx_refuse(n, "resizing by a scale that is no quotient of the sizes");
        if (i >= 2)
            size.at[i - 2] = to;
    }
    if (onnx_attr_int(n, "antialias", 0) || !strcmp(coordinates, "tf_crop_and_resize"))
        onnx_refuse(n, "resizing with antialiasing or of a part");
    const char *rounding =
        old || early ? "floor" : onnx_attr_text(n, "nearest_mode", "round_prefer_floor");
    Buf roi = {0};
    for (int i = 0; i < 2 * (rank - 2); i++)
        buf_str(&roi, i ? ", 0f" : "0f");
    onnx_give(
        n,
        onnx_text(n,
                  "image.resize%dd(%s, size=%s, roi=[%s], layout=\"%s\", method=\"%s\", "
                  "coordinate_transformation_mode=\"%s\", rounding_method=\"%s\", "
                  "cubic_alpha=%s, cubic_exclude=%lld)",
                  rank - 2, onnx_in(n, 0), onnx_list(n, size), buf_text(&roi), layouts[rank - 3],
                  strcmp(mode, "nearest") ? mode : "nearest_neighbor", coordinates, rounding,
                  onnx_literal(n, onnx_attr_float(n, "cubic_coeff_a", -0.75), dtype_of(DT_FLOAT32)),
                  (long long)onnx_attr_int(n, "exclude_outside", 0)));
    buf_deinit(&roi);
}

/* ---- quantised --------------------------------------------------------------------------------------------------------------- */

static void rule_quantise(OnnxNode *n)
{
    bool many = onnx_rank(n, 1) == 1 && onnx_known_extent(n, 1, 0) > 1;
    if (onnx_rank(n, 1) > 1 || onnx_has_attr(n, "block_size"))
        onnx_refuse(n, "quantisation in blocks");
    int64_t axis = onnx_rank(n, 0) > 1 ? onnx_attr_int(n, "axis", 1) : 0;
    const char *s = onnx_rank(n, 1) == 0 || many
                        ? onnx_in(n, 1)
                        : onnx_text(n, "reshape(%s, newshape=[])", onnx_in(n, 1));
    const char *z = "0";
    bool back = !strcmp(n->word, "dequantize");
    DType to = dtype_of(back ? DT_FLOAT32 : DT_UINT8);
    if (onnx_has(n, 2)) {
        z = onnx_in(n, 2);
        to = back ? to : onnx_in_dtype(n, 2);
        z = onnx_rank(n, 2) == 0 || many ? z : onnx_text(n, "reshape(%s, newshape=[])", z);
        z = onnx_text(n, "cast(%s, dtype=\"int32\")", z);
    } else if (many) {
        z = onnx_array(n, zeros(n, onnx_known_extent(n, 1, 0), dtype_of(DT_INT32)), "zero");
    }
    onnx_give(n, onnx_text(n, "qnn.%s(%s, %s, %s, out_dtype=\"%s\", axis=%lld)", n->word,
                           onnx_in(n, 0), s, z, name_of(n, to), (long long)axis));
}

/* ---- the table --------------------------------------------------------------------------------------------------------------- */

const OnnxRule onnx_rules[] = {
#define TEXT(op, text) {op, text, NULL},
#define RULE(op, rule) {op, NULL, rule},
#define RULE_OF(op, rule, word) {op, word, rule},
#include "exchange/onnx_rules.def"
#undef TEXT
#undef RULE
#undef RULE_OF
    {0},
};
