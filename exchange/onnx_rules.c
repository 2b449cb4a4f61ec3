/* What operators of ONNX mean in Relay, one row each. A version of an operator is told apart where it says the same thing in another way:
 * an attribute that became an input. */
#include "exchange/onnx_rules.h"

#include "base/str.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Numbers in a table that the importer makes. */
#define TABLE_MOST ((int64_t)1 << 24)

/* ---- element by element ----------------------------------------------------------------------------------------------------- */

void rule_same(OnnxNode *n)
{
    onnx_give_input(n, 0);
}

void rule_fold(OnnxNode *n)
{
    const char *x = onnx_in(n, 0);
    for (size_t i = 1; i < n->proto->n_input; i++)
        x = onnx_text(n, "%s(%s, %s)", n->word, x, onnx_in(n, i));
    if (n->proto->n_input == 1)
        onnx_give_input(n, 0);
    else
        onnx_give(n, x);
}

/* Of two floats the greater or lesser, and a NaN where one of them is: Relay's own give the second operand. */
void rule_extreme(OnnxNode *n)
{
    if (n->proto->n_input == 1 || !dtype_is_float(onnx_in_dtype(n, 0))) {
        rule_fold(n);
        return;
    }
    const char *x = onnx_in(n, 0);
    for (size_t i = 1; i < n->proto->n_input; i++) {
        x = i > 1 ? onnx_let(n, x) : x;
        x = onnx_text(n, "where(isnan(%s), %s, %s(%s, %s))", x, x, n->word, x, onnx_in(n, i));
    }
    onnx_give(n, x);
}

void rule_sign(OnnxNode *n)
{
    const char *x = onnx_in(n, 0);
    if (dtype_is_float(onnx_in_dtype(n, 0)))
        onnx_give(n, onnx_text(n, "where(isnan(%s), %s, sign(%s))", x, x, x));
    else
        onnx_give(n, onnx_text(n, "sign(%s)", x));
}

void rule_mean(OnnxNode *n)
{
    const char *x = onnx_in(n, 0);
    for (size_t i = 1; i < n->proto->n_input; i++)
        x = onnx_text(n, "add(%s, %s)", x, onnx_in(n, i));
    onnx_give(n, onnx_text(n, "divide(%s, %s)", x,
                           onnx_literal(n, (double)n->proto->n_input, onnx_in_dtype(n, 0))));
}

static void give_cast(OnnxNode *n, DType to, int bits)
{
    const char *x = onnx_in(n, 0);
    if (dtype_eq(to, onnx_in_dtype(n, 0)) && bits == 0) {
        onnx_give_input(n, 0);
        return;
    }
    x = onnx_text(n, "cast(%s, dtype=\"%s\")", x, onnx_dtype_text(n, to));
    const char *by = onnx_literal(n, 8 - bits, to);
    if (bits && dtype_is_signed(to))
        x = onnx_text(n, "right_shift(left_shift(%s, %s), %s)", x, by, by);
    else if (bits)
        x = onnx_text(n, "bitwise_and(%s, %s)", x, onnx_literal(n, (1 << bits) - 1, to));
    onnx_give(n, x);
    if (bits)
        onnx_narrow(n, 0, bits);
}

void rule_cast(OnnxNode *n)
{
    int32_t to = (int32_t)onnx_attr_int(n, "to", 0);
    DType dtype = onnx_dtype(to);
    if (dtype_size(dtype) == 0)
        onnx_refuse(n, "Relay has no element type `%s`", onnx_dtype_name(to));
    else
        give_cast(n, dtype, onnx_dtype_bits(to));
}

/* A flag is a byte that is 0 or 1. */
void rule_bit_cast(OnnxNode *n)
{
    DType to = onnx_dtype((int32_t)onnx_attr_int(n, "to", 0)), flag = dtype_of(DT_BOOL);
    if (dtype_size(to) == 0)
        onnx_refuse(n, "Relay has no such element type");
    else if (dtype_eq(onnx_in_dtype(n, 0), flag) && dtype_size(to) == 1)
        give_cast(n, to, 0);
    else
        onnx_give(n, onnx_text(n, "reinterpret(%s, dtype=\"%s\")", onnx_in(n, 0),
                               onnx_dtype_text(n, to)));
}

void rule_cast_like(OnnxNode *n)
{
    const OnnxValue *like = onnx_value(n, 1);
    give_cast(n, onnx_in_dtype(n, 1), like ? like->bits : 0);
}

/* Relay's operator takes floats of one type. */
void rule_pow(OnnxNode *n)
{
    DType t = onnx_in_dtype(n, 0), e = onnx_in_dtype(n, 1);
    const char *x = onnx_in(n, 0), *y = onnx_in(n, 1);
    if (dtype_is_float(t) && dtype_eq(t, e))
        onnx_give(n, onnx_text(n, "power(%s, %s)", x, y));
    else
        onnx_give(n, onnx_text(n,
                               "cast(power(cast(%s, dtype=\"float64\"), cast(%s, "
                               "dtype=\"float64\")), dtype=\"%s\")",
                               x, y, onnx_dtype_text(n, t)));
}

/* Of floats the remainder of the truncated division, moved by the divisor where their signs differ: this is right for infinity too. */
void rule_mod(OnnxNode *n)
{
    DType t = onnx_in_dtype(n, 0);
    bool truncated = onnx_attr_int(n, "fmod", 0) != 0, real = dtype_is_float(t);
    const char *x = onnx_in(n, 0), *y = onnx_in(n, 1), *zero = onnx_literal(n, 0, t);
    if (truncated || !real) {
        onnx_give(n, onnx_text(n, "%s(%s, %s)", truncated ? "mod" : "floor_mod", x, y));
        return;
    }
    const char *r = onnx_step(n, "mod(%s, %s)", x, y);
    onnx_give(n, onnx_text(n,
                           "where(logical_and(not_equal(%s, %s), not_equal(less(%s, %s), less(%s, "
                           "%s))), add(%s, %s), %s)",
                           r, zero, r, zero, y, zero, r, y, r));
}

/* Up to version 10 the bounds are attributes. */
void rule_clip(OnnxNode *n)
{
    const char *x = onnx_in(n, 0);
    DType t = onnx_in_dtype(n, 0);
    const char *low = onnx_has(n, 1) ? onnx_in(n, 1) : NULL,
               *high = onnx_has(n, 2) ? onnx_in(n, 2) : NULL;
    if (onnx_has_attr(n, "min"))
        low = onnx_literal(n, onnx_attr_float(n, "min", 0), t);
    if (onnx_has_attr(n, "max"))
        high = onnx_literal(n, onnx_attr_float(n, "max", 0), t);
    /* The bounds come first: a NaN in `x`, the second operand, stays one. */
    x = low ? onnx_text(n, "maximum(%s, %s)", low, x) : x;
    x = high ? onnx_text(n, "minimum(%s, %s)", high, x) : x;
    if (low || high)
        onnx_give(n, x);
    else
        onnx_give_input(n, 0);
}

void rule_gelu(OnnxNode *n)
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

void rule_prelu(OnnxNode *n)
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

void rule_reduce(OnnxNode *n)
{
    OnnxInts axes;
    if (axes_of(n, &axes))
        onnx_give(n, reduced(n, n->word, onnx_in(n, 0)));
    else
        onnx_give_input(n, 0);
}

void rule_reduce_l1(OnnxNode *n)
{
    onnx_give(n, reduced(n, "sum", onnx_text(n, "abs(%s)", onnx_in(n, 0))));
}

static const char *squares(OnnxNode *n)
{
    const char *x = onnx_in(n, 0);
    return reduced(n, "sum", onnx_text(n, "multiply(%s, %s)", x, x));
}

void rule_reduce_l2(OnnxNode *n)
{
    onnx_give(n, onnx_text(n, "sqrt(%s)", squares(n)));
}

void rule_reduce_squares(OnnxNode *n)
{
    onnx_give(n, squares(n));
}

void rule_reduce_log_sum(OnnxNode *n)
{
    onnx_give(n, onnx_text(n, "log(%s)", reduced(n, "sum", onnx_in(n, 0))));
}

/* Less the largest element, so that no power is too large; one that is not finite is what comes out by itself. */
void rule_reduce_log_sum_exp(OnnxNode *n)
{
    OnnxInts axes;
    const char *x = onnx_in(n, 0);
    if (!axes_of(n, &axes)) {
        onnx_give_input(n, 0);
        return;
    }
    const char *over = onnx_list(n, axes);
    const char *most = onnx_step(n, "max(%s, axis=%s, keepdims=True)", x, over);
    most = onnx_step(n, "where(isfinite(%s), %s, zeros_like(%s))", most, most, most);
    const char *y = onnx_text(n, "add(log(sum(exp(subtract(%s, %s)), axis=%s, keepdims=True)), %s)",
                              x, most, over, most);
    onnx_give(n,
              onnx_attr_int(n, "keepdims", 1) ? y : onnx_text(n, "squeeze(%s, axis=%s)", y, over));
}

void rule_arg_reduce(OnnxNode *n)
{
    onnx_give(n, onnx_text(n,
                           "cast(%s(%s, axis=[%lld], keepdims=%s, select_last_index=%s), "
                           "dtype=\"int64\")",
                           n->word, onnx_in(n, 0), (long long)onnx_attr_int(n, "axis", 0),
                           onnx_bool(onnx_attr_int(n, "keepdims", 1) != 0),
                           onnx_bool(onnx_attr_int(n, "select_last_index", 0) != 0)));
}

void rule_scan_axis(OnnxNode *n)
{
    OnnxInts axis = onnx_ints(n, 1);
    long long a = axis.n > 0 ? (long long)axis.at[0] : 0;
    bool back = onnx_attr_int(n, "reverse", 0) != 0;
    const char *x = onnx_in(n, 0);
    x = back ? onnx_text(n, "reverse(%s, axis=%lld)", x, a) : x;
    x = onnx_text(n, "%s(%s, axis=%lld, exclusive=%s)", n->word, x, a,
                  onnx_bool(onnx_attr_int(n, "exclusive", 0) != 0));
    onnx_give(n, back ? onnx_text(n, "reverse(%s, axis=%lld)", x, a) : x);
}

static const char *soft_text(OnnxNode *n, const char *x, int64_t axis, int64_t depth)
{
    if (strcmp(n->word, "hardmax") != 0)
        return onnx_text(n, "%s(%s, axis=%lld)", n->word, x, (long long)axis);
    DType t = onnx_in_dtype(n, 0);
    return onnx_text(
        n, "one_hot(argmax(%s, axis=[%lld]), %s, %s, depth=%lld, axis=%lld, dtype=\"%s\")", x,
        (long long)axis, onnx_literal(n, 1, t), onnx_literal(n, 0, t), (long long)depth,
        (long long)axis, onnx_dtype_text(n, t));
}

/* Up to version 12 what follows the axis, 1 if nothing is said, is one. */
void rule_soft(OnnxNode *n)
{
    int rank = onnx_rank(n, 0);
    int64_t axis = onnx_attr_axis(n, "axis", n->version < 13 ? 1 : -1, rank);
    bool hard = !strcmp(n->word, "hardmax");
    if (n->version >= 13 || axis == rank - 1) {
        int64_t depth = hard ? onnx_known_extent(n, 0, axis) : 0;
        onnx_give(n, soft_text(n, onnx_in(n, 0), axis, depth));
        return;
    }
    OnnxInts shape = {.n = rank}, flat = {{1, 1}, 2};
    for (int i = 0; i < rank && i < ONNX_INTS_MOST; i++) {
        shape.at[i] = onnx_known_extent(n, 0, i);
        flat.at[i >= axis] *= shape.at[i];
    }
    const char *x = onnx_text(n, "reshape(%s, newshape=%s)", onnx_in(n, 0), onnx_list(n, flat));
    onnx_give(n, onnx_text(n, "reshape(%s, newshape=%s)", soft_text(n, x, 1, flat.at[1]),
                           onnx_list(n, shape)));
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

void rule_range(OnnxNode *n)
{
    double from = n->constant ? onnx_number(n, 0, 0) : 0,
           to = n->constant ? onnx_number(n, 1, 0) : 0,
           step = n->constant ? onnx_number(n, 2, 0) : 0;
    if (step > 0 ? from >= to : step < 0 && from <= to) /* which is a mistake where it is written */
        onnx_give_constant(n, onnx_zeros(n, 0, onnx_in_dtype(n, 0)));
    else
        onnx_give(n, onnx_text(n, "arange(%s, %s, %s, dtype=\"%s\")", onnx_scalar(n, 0),
                               onnx_scalar(n, 1), onnx_scalar(n, 2),
                               onnx_dtype_text(n, onnx_in_dtype(n, 0))));
}

/* Blocks go behind the channel that they come from, or in front. */
void rule_space_to_depth(OnnxNode *n)
{
    long long b = (long long)onnx_attr_int(n, "blocksize", 1);
    if (b < 1)
        onnx_refuse(n, "blocks of %lld", b);
    else if (strcmp(onnx_attr_text(n, "mode", "DCR"), "CRD") != 0)
        onnx_give(n, onnx_text(n, "nn.space_to_depth(%s, block_size=%lld)", onnx_in(n, 0), b));
    else
        onnx_give(
            n,
            onnx_text(n,
                      "reshape(transpose(reshape(%s, newshape=[0, 0, -4, -1, %lld, -4, -1, %lld]), "
                      "axes=[0, 1, 3, 5, 2, 4]), newshape=[0, -1, %lld, %lld])",
                      onnx_in(n, 0), b, b, (long long)onnx_known_extent(n, 0, 2) / b,
                      (long long)onnx_known_extent(n, 0, 3) / b));
}

/* A count below 0 moves all bits out. */
void rule_bit_shift(OnnxNode *n)
{
    bool left = !strcmp(onnx_attr_text(n, "direction", ""), "LEFT");
    DType t = onnx_in_dtype(n, 1);
    const char *by = onnx_in(n, 1);
    int all = (int)dtype_size(t) * 8;
    if (dtype_is_signed(t))
        by = onnx_text(n, "where(less(%s, %s), %s, %s)", by, onnx_literal(n, 0, t),
                       onnx_literal(n, left ? all : all - 1, t), by);
    onnx_give(n, onnx_text(n, "%s_shift(%s, %s)", left ? "left" : "right", onnx_in(n, 0), by));
}

void rule_is_inf(OnnxNode *n)
{
    bool up = onnx_attr_int(n, "detect_positive", 1) != 0,
         down = onnx_attr_int(n, "detect_negative", 1) != 0;
    const char *x = onnx_in(n, 0), *zero = onnx_literal(n, 0, onnx_in_dtype(n, 0));
    onnx_give(n, up && down ? onnx_text(n, "isinf(%s)", x)
                            : onnx_text(n, "logical_and(isinf(%s), %s(%s, %s))", x,
                                        up     ? "greater"
                                        : down ? "less"
                                               : "not_equal",
                                        x, up || down ? zero : x));
}

/* ---- losses ------------------------------------------------------------------------------------------------------------------ */

static void give_loss(OnnxNode *n, const char *logarithms)
{
    const char *weights = onnx_has(n, 2) ? onnx_in(n, 2)
                                         : onnx_text(n, "ones(shape=[%lld], dtype=\"%s\")",
                                                     (long long)onnx_known_extent(n, 0, 1),
                                                     onnx_dtype_text(n, onnx_in_dtype(n, 0)));
    onnx_give(n,
              onnx_text(n, "nn.nll_loss(%s, %s, %s, reduction=\"%s\", ignore_index=%lld)",
                        logarithms, onnx_in(n, 1), weights, onnx_attr_text(n, "reduction", "mean"),
                        (long long)onnx_attr_int(n, "ignore_index", -100)));
}

void rule_nll_loss(OnnxNode *n)
{
    give_loss(n, onnx_in(n, 0));
}

void rule_softmax_loss(OnnxNode *n)
{
    const char *y = onnx_step(n, "nn.log_softmax(%s, axis=1)", onnx_in(n, 0));
    give_loss(n, y);
    onnx_give(n, y);
}

/* ---- products ---------------------------------------------------------------------------------------------------------------- */

const char *onnx_product(OnnxNode *n, const char *a, const char *b, int x, int y)
{
    if (x == 2 && y == 2)
        return onnx_text(n, "nn.matmul(%s, %s, units=None)", a, b);
    if (x == 3 && y == 3)
        return onnx_text(n, "nn.batch_matmul(%s, %s)", a, b);
    if (x == 1 && y == 1)
        return onnx_text(n, "einsum((%s, %s), equation=\"j,j->\")", a, b);
    return onnx_text(n, "einsum((%s, %s), equation=\"%s,%s->...%s%s\")", a, b,
                     x == 1 ? "j" : "...ij", y == 1 ? "j" : "...jk", x > 1 ? "i" : "",
                     y > 1 ? "k" : "");
}

void rule_matmul(OnnxNode *n)
{
    onnx_give(n, onnx_product(n, onnx_in(n, 0), onnx_in(n, 1), onnx_rank(n, 0), onnx_rank(n, 1)));
}

/* A product of rows with a weight of units by rows is what Relay calls dense. */
void rule_gemm(OnnxNode *n)
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
    bool bias = onnx_rank(n, 2) == 1 && onnx_extent(n, 2, 0) != 1 && beta == 1;
    c = beta == 1 ? c : onnx_text(n, "multiply(%s, %s)", onnx_literal(n, beta, t), c);
    onnx_give(n, onnx_text(n, "%s(%s, %s)", bias ? "nn.bias_add" : "add", y, c));
}

void rule_einsum(OnnxNode *n)
{
    Buf equation = {0};
    for (const char *p = onnx_attr_text(n, "equation", ""); *p; p++)
        if (*p != ' ')
            buf_char(&equation, *p);
    onnx_give(n, onnx_text(n, "einsum(%s, equation=\"%s\")", all_inputs(n), buf_text(&equation)));
    buf_deinit(&equation);
}

/* ---- windows ------------------------------------------------------------------------------------------------------------------ */

OnnxInts onnx_ints_or(OnnxNode *n, const char *name, int count, int64_t otherwise)
{
    OnnxInts out = onnx_attr_ints(n, name);
    if (out.n > 0 && out.n != count)
        onnx_refuse(n, "`%s` has %d numbers for %d", name, out.n, count);
    for (int i = 0; out.n != count && i < count; i++)
        out.at[i] = otherwise;
    out.n = count;
    for (int i = 0; i < count; i++)
        if (out.at[i] > INT32_MAX || out.at[i] < -INT32_MAX) {
            onnx_refuse(n, "`%s` has %lld", name, (long long)out.at[i]);
            out.at[i] = 1;
        }
    return out;
}

/* `auto_pad` is worked out from the extents: Relay says every padding. */
OnnxWindow onnx_window(OnnxNode *n, OnnxInts kernel)
{
    int m = kernel.n;
    for (int i = 0; i < m; i++)
        if (kernel.at[i] > INT32_MAX || kernel.at[i] < 1) {
            onnx_refuse(n, "a window of %lld", (long long)kernel.at[i]);
            return (OnnxWindow){.n = 0};
        }
    OnnxWindow w = {.n = m, .kernel = kernel};
    if (m < 1 || m > 3 || onnx_rank(n, 0) != m + 2) {
        onnx_refuse(n, "windows over %d axes", m);
        return (OnnxWindow){.n = 0};
    }
    w.strides = onnx_ints_or(n, "strides", m, 1);
    w.dilations = onnx_ints_or(n, "dilations", m, 1);
    w.pads = onnx_ints_or(n, "pads", 2 * m, 0);
    const char *how = onnx_attr_text(n, "auto_pad", "NOTSET");
    bool upper = !strcmp(how, "SAME_UPPER"), lower = !strcmp(how, "SAME_LOWER");
    for (int i = 0; i < m; i++) {
        if (w.strides.at[i] < 1 || w.strides.at[i] > INT32_MAX)
            onnx_refuse(n, "a stride of %lld", (long long)w.strides.at[i]);
        if (w.dilations.at[i] < 1 || w.dilations.at[i] > INT32_MAX)
            onnx_refuse(n, "a dilation of %lld", (long long)w.dilations.at[i]);
    }
    for (int i = 0; i < 2 * m; i++)
        if (w.pads.at[i] < INT32_MIN || w.pads.at[i] > INT32_MAX)
            onnx_refuse(n, "a padding of %lld", (long long)w.pads.at[i]);
    for (int i = 0; i < m && (upper || lower) && !n->failed; i++) {
        int64_t d = onnx_known_extent(n, 0, i + 2), s = w.strides.at[i];
        int64_t room = ((d + s - 1) / s - 1) * s + (kernel.at[i] - 1) * w.dilations.at[i] + 1 - d;
        room = room < 0 ? 0 : room;
        w.pads.at[i] = upper ? room / 2 : room - room / 2;
        w.pads.at[m + i] = room - w.pads.at[i];
    }
    if (n->failed)
        w.n = 0;
    return w;
}

/* Paddings that are the same on both sides are said once. */
static const char *padding(OnnxNode *n, const OnnxWindow *w)
{
    OnnxInts half = w->pads;
    half.n = w->n;
    for (int i = 0; i < w->n; i++)
        if (w->pads.at[i] != w->pads.at[w->n + i])
            return onnx_list(n, w->pads);
    return onnx_list(n, half);
}

const char *onnx_window_text(OnnxNode *n, const OnnxWindow *w)
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

OnnxInts onnx_kernel(OnnxNode *n, size_t weight)
{
    OnnxInts k = {.n = onnx_rank(n, weight) - 2};
    for (int i = 0; i < k.n && i < 3; i++)
        k.at[i] = onnx_known_extent(n, weight, i + 2);
    return k;
}

static void give_with_bias(OnnxNode *n, const char *y)
{
    onnx_give(n, onnx_has(n, 2) ? onnx_text(n, "nn.bias_add(%s, %s)", y, onnx_in(n, 2)) : y);
}

void rule_conv(OnnxNode *n)
{
    OnnxWindow w = onnx_window(n, onnx_kernel(n, 1));
    if (w.n == 0)
        return;
    int64_t groups = onnx_attr_int(n, "group", 1);
    const char *grouped = groups == 1 ? "" : onnx_text(n, ", groups=%lld", (long long)groups);
    give_with_bias(n, onnx_text(n, "nn.conv%dd(%s, %s%s%s, channels=%lld, kernel_size=%s)", w.n,
                                onnx_in(n, 0), onnx_in(n, 1), onnx_window_text(n, &w), grouped,
                                (long long)onnx_known_extent(n, 1, 0), onnx_list(n, w.kernel)));
}

void rule_conv_transpose(OnnxNode *n)
{
    static const char *const layouts[][2] = {{"NCW", "IOW"}, {"NCHW", "IOHW"}, {"NCDHW", "IODHW"}};
    OnnxWindow w = onnx_window(n, onnx_kernel(n, 1));
    if (w.n == 0)
        return;
    OnnxInts extra = onnx_ints_or(n, "output_padding", w.n, 0),
             size = onnx_attr_ints(n, "output_shape");
    const char *how = onnx_attr_text(n, "auto_pad", "NOTSET");
    bool upper = !strcmp(how, "SAME_UPPER"), same = upper || !strcmp(how, "SAME_LOWER");
    for (int i = 0; i < w.n && (same || size.n >= w.n); i++) {
        int64_t d = onnx_known_extent(n, 0, i + 2), s = w.strides.at[i];
        bool fits = d <= INT32_MAX && llabs(extra.at[i]) <= INT32_MAX;
        int64_t wanted = size.n >= w.n ? size.at[size.n - w.n + i] : fits ? d * s : -1;
        if (!fits || wanted < 0 || wanted >= (int64_t)1 << 62) {
            onnx_refuse(n, "a result of %lld along an axis", (long long)wanted);
            return;
        }
        int64_t total =
            s * (d - 1) + extra.at[i] + (w.kernel.at[i] - 1) * w.dilations.at[i] + 1 - wanted;
        extra.at[i] -= total < 0 ? total : 0;
        total = total < 0 ? 0 : total;
        w.pads.at[i] = upper ? total / 2 : total - total / 2;
        w.pads.at[w.n + i] = total - w.pads.at[i];
    }
    give_with_bias(n, onnx_text(n,
                                "nn.conv%dd_transpose(%s, %s, strides=%s, output_padding=%s, "
                                "padding=%s, dilation=%s, groups=%lld, data_layout=\"%s\", "
                                "kernel_layout=\"%s\")",
                                w.n, onnx_in(n, 0), onnx_in(n, 1), onnx_list(n, w.strides),
                                onnx_list(n, extra), onnx_list(n, w.pads),
                                onnx_list(n, w.dilations), (long long)onnx_attr_int(n, "group", 1),
                                layouts[w.n - 1][0], layouts[w.n - 1][1]));
}

/* How many windows there are along spatial axis i, without one that begins in the padding behind the data. */
static int64_t windows(OnnxNode *n, const OnnxWindow *w, int i, bool ceil, bool *cut)
{
    int64_t d = onnx_known_extent(n, 0, i + 2), s = w->strides.at[i];
    int64_t room =
        d + w->pads.at[i] + w->pads.at[w->n + i] - (w->kernel.at[i] - 1) * w->dilations.at[i] - 1;
    int64_t last = ceil ? (room + s - 1) / s : room / s;
    bool beyond = ceil && last * s >= d + w->pads.at[i];
    *cut |= beyond;
    return last + !beyond;
}

/* For each place of a box of these extents, where the element stands in its image that is so many steps of each axis from a first one. */
static const char *places_of(OnnxNode *n, const OnnxInts *box, const OnnxInts *steps,
                             const OnnxInts *before, const char *name)
{
    bool columns = onnx_attr_int(n, "storage_order", 0) != 0;
    int64_t shape[TENSOR_RANK_MOST] = {0}, size = 1;
    for (int i = 0; i < box->n; i++) {
        shape[i] = box->at[i];
        size *= box->at[i] > 0 && size < INT32_MAX ? box->at[i] : 1;
    }
    Tensor *t = onnx_table(n, dtype_of(DT_INT64), box->n, shape);
    for (int64_t k = 0; t && k < size; k++) {
        int64_t place = k, at = 0, step[TENSOR_RANK_MOST], by = 1;
        for (int j = 0; j < box->n; j++) {
            int i = columns ? j : box->n - 1 - j;
            step[i] = by;
            by *= onnx_extent(n, 0, i + 2);
        }
        for (int i = box->n; i-- > 0; place /= box->at[i])
            at += step[i] * (place % box->at[i] * steps->at[i] - before->at[i]);
        ((int64_t *)t->data)[k] = at;
    }
    return t ? onnx_array(n, t, name) : "";
}

/* Which element of all each window has taken: the first that is as large as its maximum. */
static void give_places(OnnxNode *n, const OnnxWindow *w, const OnnxInts *out)
{
    OnnxInts shape = {{onnx_known_extent(n, 0, 0), onnx_known_extent(n, 0, 1)}, 2};
    OnnxInts images = shape, ones = {.n = w->n}, none = {.n = w->n};
    int64_t image = 1;
    Buf widths = {0};
    buf_str(&widths, "[[0, 0], [0, 0]");
    for (int i = 0; i < w->n; i++) {
        int64_t d = onnx_known_extent(n, 0, i + 2);
        int64_t wanted = (out->at[i] - 1) * w->strides.at[i] + w->kernel.at[i] - w->pads.at[i] - d;
        if (w->dilations.at[i] != 1 || w->kernel.at[i] < 1 || out->at[i] < 1)
            onnx_refuse(n, "the places of elements of windows with gaps");
        buf_printf(&widths, ", [%lld, %lld]", (long long)w->pads.at[i],
                   (long long)(wanted > 0 ? wanted : 0));
        shape.at[shape.n++] = out->at[i];
        images.at[images.n++] = ones.at[i] = 1;
        image *= d > 0 && image < INT32_MAX ? d : 1;
    }
    shape.at[shape.n++] = -1;
    if (n->failed) {
        buf_deinit(&widths);
        return;
    }
    DType t = onnx_in_dtype(n, 0);
    const char *lowest =
        dtype_is_float(t) ? onnx_literal(n, -INFINITY, t) : onnx_text(n, "min(%s)", onnx_in(n, 0));
    const char *padded =
        onnx_step(n, "nn.pad(%s, %s, pad_width=%s])", onnx_in(n, 0), lowest, buf_text(&widths));
    buf_deinit(&widths);
    const char *seen = onnx_step(
        n, "reshape(sliding_window(%s, axis=2, window_shape=%s, strides=%s), newshape=%s)", padded,
        onnx_list(n, w->kernel), onnx_list(n, w->strides), onnx_list(n, shape));
    const char *best = onnx_step(n, "argmax(%s, axis=[-1])", seen);
    const char *inside = places_of(n, &w->kernel, &ones, &none, "places");
    const char *corners = places_of(n, out, &w->strides, &w->pads, "corners");
    const char *first = onnx_step(
        n, "reshape(multiply(arange(0i64, %lldi64, 1i64, dtype=\"int64\"), %lldi64), newshape=%s)",
        (long long)(shape.at[0] * shape.at[1]), (long long)image, onnx_list(n, images));
    onnx_give(n, onnx_text(n, "add(add(take(reshape(%s, newshape=[-1]), %s), %s), %s)", inside,
                           best, corners, first));
}

void rule_pool(OnnxNode *n)
{
    OnnxWindow w = onnx_window(n, onnx_attr_ints(n, "kernel_shape"));
    if (w.n == 0)
        return;
    bool ceil = onnx_attr_int(n, "ceil_mode", 0) != 0, cut = false;
    bool placed = onnx_wants(n, 1);
    bool counted = onnx_attr_int(n, "count_include_pad", 0) != 0; /* an average has it alone */
    OnnxInts out = {.n = w.n}, axes = {.n = w.n};
    for (int i = 0; i < w.n && (ceil || placed) && !n->failed; i++) {
        out.at[i] = windows(n, &w, i, ceil, &cut);
        axes.at[i] = i + 2;
    }
    const char *y =
        onnx_text(n, "nn.%s_pool%dd(%s, pool_size=%s%s%s%s)", n->word, w.n, onnx_in(n, 0),
                  onnx_list(n, w.kernel), onnx_window_text(n, &w), ceil ? ", ceil_mode=True" : "",
                  counted ? ", count_include_pad=True" : "");
    if (cut)
        y = onnx_text(n, "strided_slice(%s, begin=%s, end=%s, strides=None, axes=%s)", y,
                      onnx_list(n, (OnnxInts){.n = w.n}), onnx_list(n, out), onnx_list(n, axes));
    onnx_give(n, y);
    if (placed)
        give_places(n, &w, &out);
}

void rule_global_pool(OnnxNode *n)
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

/* The batch's own mean and variance, and what the running ones become. */
static void batch_norm_training(OnnxNode *n)
{
    int rank = onnx_rank(n, 0);
    OnnxInts axes = {{0}, 1}, shape = {.n = rank};
    for (int i = 2; i < rank; i++)
        axes.at[axes.n++] = i;
    for (int i = 0; i < rank; i++)
        shape.at[i] = i == 1 ? -1 : 1;
    DType t = onnx_in_dtype(n, 0);
    double keep = onnx_attr_float(n, "momentum", 0.9);
    const char *over = onnx_list(n, axes), *column = onnx_list(n, shape), *x = onnx_in(n, 0);
    const char *mean = onnx_step(n, "mean(%s, axis=%s, keepdims=True)", x, over);
    const char *var = onnx_step(n, "variance(%s, %s, axis=%s, keepdims=True)", x, mean, over);
    onnx_give(
        n,
        onnx_text(
            n,
            "add(multiply(divide(subtract(%s, %s), sqrt(add(%s, %s))), reshape(%s, newshape=%s)), "
            "reshape(%s, newshape=%s))",
            x, mean, var, onnx_literal(n, onnx_attr_float(n, "epsilon", 1e-5), t), onnx_in(n, 1),
            column, onnx_in(n, 2), column));
    for (size_t i = 3; i < 5; i++)
        onnx_give(n, onnx_text(n, "add(multiply(%s, %s), multiply(reshape(%s, newshape=[-1]), %s))",
                               onnx_in(n, i), onnx_literal(n, keep, t), i == 3 ? mean : var,
                               onnx_literal(n, 1 - keep, t)));
}

void rule_batch_norm(OnnxNode *n)
{
    if (onnx_attr_int(n, "training_mode", 0)) {
        batch_norm_training(n);
        return;
    }
    const char *y =
        onnx_text(n, "nn.batch_norm(%s, %s, %s, %s, %s, epsilon=%s)", onnx_in(n, 0), onnx_in(n, 1),
                  onnx_in(n, 2), onnx_in(n, 3), onnx_in(n, 4),
                  onnx_literal(n, onnx_attr_float(n, "epsilon", 1e-5), dtype_of(DT_FLOAT32)));
    onnx_give(n, onnx_text(n, "%s.0", y));
}

static OnnxInts axes_from(int64_t axis, int rank)
{
    OnnxInts axes = {.n = 0};
    for (int64_t i = axis; i < rank; i++)
        axes.at[axes.n++] = i;
    return axes;
}

/* Halves are folded as floats. */
static const char *as_float(OnnxNode *n, const char *x)
{
    return dtype_size(onnx_in_dtype(n, 0)) >= 4 ? x
                                                : onnx_step(n, "cast(%s, dtype=\"float32\")", x);
}

static const char *back_from_float(OnnxNode *n, const char *x)
{
    DType t = onnx_in_dtype(n, 0);
    return dtype_size(t) >= 4 ? x
                              : onnx_text(n, "cast(%s, dtype=\"%s\")", x, onnx_dtype_text(n, t));
}

void rule_layer_norm(OnnxNode *n)
{
    int rank = onnx_rank(n, 0);
    int64_t axis = onnx_attr_axis(n, "axis", -1, rank);
    double eps = onnx_attr_float(n, "epsilon", 1e-5);
    if (axis == rank - 1 && onnx_has(n, 2) && !onnx_wants(n, 1) && !onnx_wants(n, 2) &&
        onnx_rank(n, 1) == 1 && onnx_rank(n, 2) == 1) {
        onnx_give(n, onnx_text(n, "nn.layer_norm(%s, %s, %s, epsilon=%s)", onnx_in(n, 0),
                               onnx_in(n, 1), onnx_in(n, 2),
                               onnx_literal(n, eps, dtype_of(DT_FLOAT32))));
        return;
    }
    const char *axes = onnx_list(n, axes_from(axis, rank)), *x = as_float(n, onnx_in(n, 0));
    DType t = dtype_size(onnx_in_dtype(n, 0)) >= 4 ? onnx_in_dtype(n, 0) : dtype_of(DT_FLOAT32);
    const char *mean = onnx_step(n, "mean(%s, axis=%s, keepdims=True)", x, axes);
    const char *scale = onnx_step(n, "rsqrt(add(variance(%s, %s, axis=%s, keepdims=True), %s))", x,
                                  mean, axes, onnx_literal(n, eps, t));
    const char *y =
        back_from_float(n, onnx_text(n, "multiply(subtract(%s, %s), %s)", x, mean, scale));
    y = onnx_text(n, "multiply(%s, %s)", y, onnx_in(n, 1));
    onnx_give(n, onnx_has(n, 2) ? onnx_text(n, "add(%s, %s)", y, onnx_in(n, 2)) : y);
    onnx_give(n, mean);
    onnx_give(n, scale);
}

void rule_rms_norm(OnnxNode *n)
{
    int rank = onnx_rank(n, 0);
    const char *axes = onnx_list(n, axes_from(onnx_attr_axis(n, "axis", -1, rank), rank));
    const char *x = as_float(n, onnx_in(n, 0));
    DType t = dtype_size(onnx_in_dtype(n, 0)) >= 4 ? onnx_in_dtype(n, 0) : dtype_of(DT_FLOAT32);
    const char *y =
        onnx_text(n, "divide(%s, sqrt(add(mean(multiply(%s, %s), axis=%s, keepdims=True), %s)))", x,
                  x, x, axes, onnx_literal(n, onnx_attr_float(n, "epsilon", 1e-5), t));
    onnx_give(n, onnx_text(n, "multiply(%s, %s)", back_from_float(n, y), onnx_in(n, 1)));
}

void rule_lp_norm(OnnxNode *n)
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

/* A window of even size reaches one channel further to the back, in Relay to the front: then the channels are turned round. */
void rule_lrn(OnnxNode *n)
{
    DType f32 = dtype_of(DT_FLOAT32);
    long long size = (long long)onnx_attr_int(n, "size", 1);
    const char *x = size % 2 ? onnx_in(n, 0) : onnx_text(n, "reverse(%s, axis=1)", onnx_in(n, 0));
    x = onnx_text(n, "nn.lrn(%s, size=%lld, bias=%s, alpha=%s, beta=%s)", x, size,
                  onnx_literal(n, onnx_attr_float(n, "bias", 1), f32),
                  onnx_literal(n, onnx_attr_float(n, "alpha", 1e-4), f32),
                  onnx_literal(n, onnx_attr_float(n, "beta", 0.75), f32));
    onnx_give(n, size % 2 ? x : onnx_text(n, "reverse(%s, axis=1)", x));
}

/* Of inference it is the input itself. */
void rule_dropout(OnnxNode *n)
{
    bool drops = onnx_has(n, 2) && onnx_number(n, 2, 0) != 0;
    if (drops && (onnx_has(n, 1) ? onnx_number(n, 1, 0) : 0.5) != 0)
        onnx_refuse(n, "random numbers, which come out otherwise everywhere");
    onnx_give_input(n, 0);
    onnx_give(n, onnx_text(n, "cast(ones_like(%s), dtype=\"bool\")", onnx_in(n, 0)));
}

/* ---- shapes ------------------------------------------------------------------------------------------------------------------- */

Tensor *onnx_int64s(OnnxNode *n, OnnxInts v)
{
    Tensor *t = tensor_new(onnx_limits(n), dtype_of(DT_INT64), 1, &(int64_t){v.n});
    if (t)
        memcpy(t->data, v.at, (size_t)v.n * sizeof *v.at);
    return t;
}

Tensor *onnx_table(OnnxNode *n, DType dtype, int rank, const int64_t *shape)
{
    int64_t size;
    bool fits = shape_size(rank, shape, &size) && size <= TABLE_MOST;
    Tensor *t = fits ? tensor_new(onnx_limits(n), dtype, rank, shape) : NULL;
    if (t)
        memset(t->data, 0, (size_t)size * dtype_size(dtype));
    else
        onnx_refuse(n, fits ? "there is no memory for a constant"
                            : "it needs a table of more than 2^24 numbers");
    return t;
}

Tensor *onnx_zeros(OnnxNode *n, int64_t size, DType dtype)
{
    return tensor_new(onnx_limits(n), dtype, 1, &size);
}

void rule_shape(OnnxNode *n)
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
        onnx_give_constant(n, onnx_int64s(n, shape));
    else if (from == 0 && to == rank)
        onnx_give(n, x);
    else
        onnx_give(
            n, onnx_text(n, "strided_slice(%s, begin=[%lld], end=[%lld], strides=[1], axes=None)",
                         x, (long long)from, (long long)to));
}

void rule_size(OnnxNode *n)
{
    onnx_give(n, onnx_text(n, "ndarray_size(%s, dtype=\"int64\")", onnx_in(n, 0)));
}

/* What is known of the shape stays known where the program computes it: a reshape that changes nothing says it. */
static const char *with_extents(OnnxNode *n, const char *x, OnnxInts extents)
{
    bool some = false;
    for (int i = 0; i < extents.n; i++) {
        some |= extents.at[i] > 0;
        extents.at[i] = extents.at[i] > 0 ? extents.at[i] : 0;
    }
    return some ? onnx_text(n, "reshape(%s, newshape=%s)", x, onnx_list(n, extents)) : x;
}

/* Numbers, extents of the input at their own place, and one that is what is left can be written; other shapes are computed. */
void rule_reshape(OnnxNode *n)
{
    const OnnxValue *shape = n->version < 5 ? NULL : onnx_value(n, 1);
    bool zero = onnx_attr_int(n, "allowzero", 0) != 0;
    OnnxInts to = {.n = 0};
    if (n->version < 5 || (shape && shape->constant)) {
        to = n->version < 5 ? onnx_attr_ints(n, "shape") : onnx_ints(n, 1);
    } else if (shape) {
        int left = 0;
        bool empty = false;
        to.n = (int)onnx_known_extent(n, 1, 0);
        const Type *x = onnx_value(n, 0) ? onnx_value(n, 0)->type : NULL;
        for (int i = 0; x && i < to.n && i < ONNX_INTS_MOST; i++) {
            Dim d = onnx_element(shape, (uint32_t)i);
            bool same = dim_is_symbol(d) && (uint32_t)i < x->n && x->dims[i] == d;
            to.at[i] = same ? 0 : d > 0 ? d : -1;
            left += to.at[i] < 0;
            empty |= d == 0;
        }
        if (left > 1 || empty) {
            const char *y = onnx_text(n, "dyn.reshape(%s, %s, newshape=None%s)", onnx_in(n, 0),
                                      onnx_in(n, 1), zero ? ", allowzero=True" : "");
            onnx_give(n, with_extents(n, y, to));
            return;
        }
        zero = false; /* what is copied is what the shape says */
    }
    onnx_give(n, onnx_text(n, "reshape(%s, newshape=%s%s)", onnx_in(n, 0), onnx_list(n, to),
                           zero ? ", allowzero=True" : ""));
}

void rule_flatten(OnnxNode *n)
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

void rule_transpose(OnnxNode *n)
{
    OnnxInts perm = onnx_attr_ints(n, "perm");
    onnx_give(n, onnx_text(n, "transpose(%s, axes=%s)", onnx_in(n, 0),
                           perm.n < 0 ? "None" : onnx_list(n, perm)));
}

static OnnxInts axes_input(OnnxNode *n)
{
    return onnx_has(n, 1) ? onnx_ints(n, 1) : onnx_attr_ints(n, "axes");
}

void rule_squeeze(OnnxNode *n)
{
    OnnxInts axes = axes_input(n);
    onnx_give(n, onnx_text(n, "squeeze(%s, axis=%s)", onnx_in(n, 0),
                           axes.n < 0 ? "None" : onnx_list(n, axes)));
}

void rule_unsqueeze(OnnxNode *n)
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

void rule_concat(OnnxNode *n)
{
    if (n->proto->n_input == 1)
        onnx_give_input(n, 0);
    else
        onnx_give(n, onnx_text(n, "concatenate(%s, axis=%lld)", all_inputs(n),
                               (long long)onnx_attr_int(n, "axis", 0)));
}

/* Sizes are an input since version 13, an attribute before; without them the parts are equal. */
void rule_split(OnnxNode *n)
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
    int64_t all = parts.n < 0 ? onnx_known_extent(n, 0, axis) : INT64_MAX;
    for (int i = 0; i < cuts.n; i++) {
        if (parts.n >= 0 && (parts.at[i] < 0 || parts.at[i] > (int64_t)1 << 47)) {
            onnx_refuse(n, "a part of %lld", (long long)parts.at[i]);
            return;
        }
        at += parts.n >= 0 ? parts.at[i] : equal;
        cuts.at[i] = at < all ? at : all;
    }
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

/* Bounds that are known only when the program runs, put among those of the axes that stay whole. */
static void slice_at_run_time(OnnxNode *n)
{
    int rank = onnx_rank(n, 0);
    OnnxInts axes = onnx_ints(n, 3);
    const char *row[3] = {NULL, NULL, NULL};
    int count = (int)onnx_extent(n, 1, 0);
    if (count < 0 && axes.n >= 0)
        count = axes.n;
    bool open =
        count < 0; /* it is known at run time how many bounds there are, for the first axes */
    count = open ? rank : count;
    if (axes.n >= 0 && axes.n != count)
        onnx_refuse(n, "bounds of different numbers");
    n->constant = false;
    const char *given =
        open ? onnx_step(n, "take(shape_of(%s, dtype=\"int64\"), 0i64, axis=0)", onnx_in(n, 1))
             : NULL;
    for (int k = 0; k < 3 && !n->failed; k++) {
        Buf b = {0};
        size_t input = k < 2 ? (size_t)k + 1 : 4;
        const char *x = k < 2 || onnx_has(n, 4)
                            ? onnx_step(n, "cast(%s, dtype=\"int64\")", onnx_in(n, input))
                            : NULL;
        if (open && x)
            x = onnx_step(n, "concatenate((%s, %s(shape=[%d], dtype=\"int64\")), axis=0)", x,
                          k == 2 ? "ones" : "zeros", rank);
        for (int i = 0; i < rank; i++) {
            int at = -1;
            for (int j = 0; j < count; j++)
                at = (axes.n < 0 ? j : axes.at[j] + (axes.at[j] < 0 ? rank : 0)) == i ? j : at;
            const char *bound =
                at >= 0 && x ? onnx_text(n, "take(%s, %di64, axis=0)", x, at) : NULL;
            const char *whole =
                k == 1   ? onnx_text(n, "take(shape_of(%s, dtype=\"int64\"), %di64, axis=0)",
                                     onnx_in(n, 0), i)
                : k == 0 ? "0i64"
                         : "1i64";
            if (bound && open && k == 1)
                bound = onnx_text(n, "where(less(%di64, %s), %s, %s)", i, given, bound, whole);
            buf_printf(&b, "%s%s", i ? ", " : "", bound ? bound : whole);
        }
        row[k] =
            onnx_step(n, rank == 1 ? "stack((%s,), axis=0)" : "stack((%s), axis=0)", buf_text(&b));
        buf_deinit(&b);
    }
    if (!n->failed)
        onnx_give(
            n,
            onnx_text(
                n,
                "dyn.strided_slice(%s, %s, %s, %s, begin=None, end=None, strides=None, axes=None)",
                onnx_in(n, 0), row[0], row[1], row[2]));
}

/* Whether a slice of an axis of any extent has no elements; of others `e` may still lie before `b` where the extent is small. */
static bool slice_is_empty(int64_t b, int64_t e, int64_t step)
{
    return (b < 0) == (e < 0) && (step > 0 ? e <= b : e >= b);
}

static bool slice_may_cross(int64_t b, int64_t e, int64_t step)
{
    bool whole = step > 0 ? b == 0 || e == INT32_MAX : b == -1 || e == -INT32_MAX;
    return (b < 0) != (e < 0) && !whole;
}

/* Attributes up to version 9, inputs since. The end of a whole backward slice may lie anywhere before the first element. */
void rule_slice(OnnxNode *n)
{
    bool old = n->version < 10;
    if (!old && (!onnx_is_known(n, 1) || !onnx_is_known(n, 2) || !onnx_is_known(n, 4))) {
        slice_at_run_time(n);
        return;
    }
    OnnxInts from = old ? onnx_attr_ints(n, "starts") : onnx_ints(n, 1),
             to = old ? onnx_attr_ints(n, "ends") : onnx_ints(n, 2),
             axes = old ? onnx_attr_ints(n, "axes") : onnx_ints(n, 3),
             steps = old ? (OnnxInts){.n = -1} : onnx_ints(n, 4);
    int count = from.n < 0 ? 0 : from.n;
    if (to.n != count || (axes.n >= 0 && axes.n != count) || (steps.n >= 0 && steps.n != count))
        onnx_refuse(n, "bounds of different numbers");
    const char *x = onnx_in(n, 0);
    for (int i = 0; i < count && !n->failed; i++) {
        if (axes.n < 0)
            axes.at[i] = i;
        if (steps.n < 0)
            steps.at[i] = 1;
        from.at[i] = clamp(from.at[i], -INT32_MAX, INT32_MAX);
        to.at[i] = clamp(to.at[i], -INT32_MAX, INT32_MAX);
        int64_t d = onnx_extent(n, 0, axes.at[i]), b = from.at[i], e = to.at[i];
        if (d >= 0) {
            b = clamp(b + (b < 0 ? d : 0), 0, d);
            e = clamp(e + (e < 0 ? d : 0), steps.at[i] < 0 ? -1 : 0, d);
        }
        if (steps.at[i] == 0 || slice_is_empty(b, e, steps.at[i])) {
            from.at[i] = to.at[i] = 0, steps.at[i] = 1;
        } else if (d >= 0) {
            to.at[i] = to.at[i] > d ? d : to.at[i];
        } else if (slice_may_cross(b, e, steps.at[i]) && steps.at[i] > 0 && b > 0) {
            x = onnx_step(n, "strided_slice(%s, begin=[%lld], end=[%d], strides=[1], axes=[%lld])",
                          x, (long long)b, INT32_MAX, (long long)axes.at[i]);
            from.at[i] = 0;
        } else if (slice_may_cross(b, e, steps.at[i]) && !old) {
            slice_at_run_time(n);
            return;
        }
    }
    axes.n = steps.n = count;
    onnx_give(n, onnx_text(n, "strided_slice(%s, begin=%s, end=%s, strides=%s, axes=%s)", x,
                           onnx_list(n, from), onnx_list(n, to), onnx_list(n, steps),
                           onnx_list(n, axes)));
}

/* Broadcasting to a shape is adding to what has it. */
void rule_expand(OnnxNode *n)
{
    int rank = onnx_rank(n, 0), count = (int)onnx_known_extent(n, 1, 0),
        most = count > rank ? count : rank;
    const OnnxValue *shape = onnx_value(n, 1);
    OnnxInts out = {.n = most};
    bool known = true;
    for (int i = 0; i < most && shape && most < ONNX_INTS_MOST; i++) {
        int a = rank - most + i, b = count - most + i;
        int64_t x = a >= 0 ? onnx_extent(n, 0, a) : 1;
        Dim y = b >= 0 ? onnx_element(shape, (uint32_t)b) : 1;
        out.at[i] = y == 1 ? x : y;
        known &= out.at[i] >= 0;
    }
    if (known) {
        onnx_give(n, onnx_text(n, "broadcast_to(%s, shape=%s)", onnx_in(n, 0), onnx_list(n, out)));
        return;
    }
    DType t = onnx_in_dtype(n, 0);
    bool flag = dtype_is_bool(t);
    const char *like = onnx_text(n, "dyn.zeros(%s, shape=None, dtype=\"%s\")", onnx_in(n, 1),
                                 onnx_dtype_text(n, t));
    const char *y = onnx_text(n, "%s(%s, %s)", flag ? "logical_or" : "add", onnx_in(n, 0), like);
    onnx_give(n, out.n <= ONNX_INTS_MOST ? with_extents(n, y, out) : y);
}

/* No element of an axis, and all of the others. */
static const char *nothing_of(OnnxNode *n, const char *x, int64_t axis)
{
    return onnx_text(n, "strided_slice(%s, begin=[0], end=[0], strides=[1], axes=[%lld])", x,
                     (long long)axis);
}

/* Relay repeats an axis at least once. */
void rule_tile(OnnxNode *n)
{
    const char *x = onnx_in(n, 0);
    if (!onnx_is_known(n, 1)) {
        onnx_give(n, onnx_text(n, "dyn.tile(%s, %s, reps=None)", x, onnx_in(n, 1)));
        return;
    }
    OnnxInts times = onnx_ints(n, 1);
    for (int i = 0; i < times.n; i++)
        if (times.at[i] == 0) {
            x = nothing_of(n, x, i);
            times.at[i] = 1;
        }
    onnx_give(n, onnx_text(n, "tile(%s, reps=%s)", x, onnx_list(n, times)));
}

/* An index that is known and not negative needs no wrapping around. */
void rule_gather(OnnxNode *n)
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

void rule_gather_nd(OnnxNode *n)
{
    onnx_give(n, onnx_text(n, "gather_nd(%s, %s, batch_dims=%lld)", onnx_in(n, 0), leading(n, 1),
                           (long long)onnx_attr_int(n, "batch_dims", 0)));
}

static const char *reduction(OnnxNode *n)
{
    const char *how = onnx_attr_text(n, "reduction", "none");
    return strcmp(how, "none") ? how : "update";
}

void rule_scatter_nd(OnnxNode *n)
{
    onnx_give(n, onnx_text(n, "scatter_nd(%s, %s, %s, mode=\"%s\")", onnx_in(n, 0), leading(n, 1),
                           onnx_in(n, 2), reduction(n)));
}

void rule_scatter_elements(OnnxNode *n)
{
    onnx_give(n, onnx_text(n, "scatter_elements(%s, %s, %s, axis=%lld, reduction=\"%s\")",
                           onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2),
                           (long long)onnx_attr_int(n, "axis", 0), reduction(n)));
}

void rule_pad(OnnxNode *n)
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
    if (!strcmp(mode, "wrap")) {
        const char *x = onnx_in(n, 0);
        for (int i = 0; i < rank; i++)
            if (width[i][0] || width[i][1])
                x = onnx_text(n,
                              "take(%s, arange(%lldi64, %lldi64, 1i64, dtype=\"int64\"), axis=%d, "
                              "mode=\"wrap\")",
                              x, (long long)-width[i][0],
                              (long long)(onnx_known_extent(n, 0, i) + width[i][1]), i);
        onnx_give(n, x);
        return;
    }
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

void rule_trilu(OnnxNode *n)
{
    long long k = onnx_has(n, 1) ? onnx_integer(n, 1) : 0;
    onnx_give(n, onnx_text(n, "trilu(%s, %lld, upper=%s)", onnx_in(n, 0), k,
                           onnx_bool(onnx_attr_int(n, "upper", 1) != 0)));
}

/* ---- creating ---------------------------------------------------------------------------------------------------------------- */

void rule_constant(OnnxNode *n)
{
    const Onnx__AttributeProto *value = onnx_attr(n, "value");
    const Onnx__TensorProto *t = value ? value->t : NULL;
    OnnxInts ints = onnx_attr_ints(n, "value_ints");
    if (t)
        onnx_give_tensor(n, t);
    else if (ints.n >= 0)
        onnx_give_constant(n, onnx_int64s(n, ints));
    else if (onnx_has_attr(n, "value_int"))
        onnx_give(n, onnx_literal(n, (double)onnx_attr_int(n, "value_int", 0), dtype_of(DT_INT64)));
    else if (onnx_has_attr(n, "value_float"))
        onnx_give(n, onnx_literal(n, onnx_attr_float(n, "value_float", 0), dtype_of(DT_FLOAT32)));
    else
        onnx_refuse(n, "constants that are no tensors");
}

void rule_constant_of_shape(OnnxNode *n)
{
    const Onnx__AttributeProto *value = onnx_attr(n, "value");
    const Onnx__TensorProto *t = value ? value->t : NULL;
    const char *text = t ? onnx_tensor_literal(n, t) : "0f";
    if (!onnx_is_known(n, 0)) {
        onnx_give(
            n, onnx_text(n, "dyn.full(%s, %s, shape=None, dtype=\"%s\")", text, onnx_in(n, 0),
                         onnx_dtype_text(n, t ? onnx_dtype(t->data_type) : dtype_of(DT_FLOAT32))));
        return;
    }
    DType dtype = t ? onnx_dtype(t->data_type) : dtype_of(DT_FLOAT32);
    onnx_give(n, onnx_text(n, "full(%s, shape=%s, dtype=\"%s\")", text,
                           onnx_list(n, onnx_ints(n, 0)), onnx_dtype_text(n, dtype)));
}

void rule_one_hot(OnnxNode *n)
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
                     onnx_dtype_text(n, onnx_in_dtype(n, 2))));
}

/* The number is an attribute up to version 9. Of none Relay's operator gives all. */
void rule_topk(OnnxNode *n)
{
    long long k = onnx_has(n, 1) ? onnx_integer(n, 1) : (long long)onnx_attr_int(n, "k", 1);
    if (k < 0)
        onnx_refuse(n, "%lld elements", k);
    if (k <= 0) {
        const char *none = nothing_of(n, onnx_in(n, 0), onnx_attr_int(n, "axis", -1));
        onnx_give(n, none);
        onnx_give(n, onnx_text(n, "cast(%s, dtype=\"int64\")", none));
        return;
    }
    const char *y = onnx_text(
        n, "topk(%s, k=%lld, axis=%lld, ret_type=\"both\", is_ascend=%s, dtype=\"int64\")",
        onnx_in(n, 0), k, (long long)onnx_attr_int(n, "axis", -1),
        onnx_bool(onnx_attr_int(n, "largest", 1) == 0));
    y = n->constant ? y : onnx_let(n, y);
    onnx_give(n, onnx_text(n, "%s.0", y));
    onnx_give(n, onnx_text(n, "%s.1", y));
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
