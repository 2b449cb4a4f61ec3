/* Quantised operators. Those of one scale and zero point are Relay's own; others are said by their arithmetic. Integers of less than 8 bits
 * are kept in 8, and stay in their range. */
#include "exchange/onnx_rules.h"

#include <math.h>
#include <string.h>

/* A scale or zero point for each part of x along its axis, as a tensor that broadcasts to x; one for all as a scalar. */
static const char *spread(OnnxNode *n, size_t i, const char *text)
{
    int rank = onnx_rank(n, 0), have = onnx_rank(n, i);
    int64_t block = onnx_attr_int(n, "block_size", 0);
    if (have == 0 || (have == 1 && onnx_extent(n, i, 0) == 1 && block == 0))
        return have == 0 ? text : onnx_text(n, "reshape(%s, newshape=[])", text);
    int64_t axis = onnx_attr_axis(n, "axis", 1, rank);
    if (have > 1)
        return block > 1 ? onnx_text(n, "repeat(%s, repeats=%lld, axis=%lld)", text,
                                     (long long)block, (long long)axis)
                         : text;
    OnnxInts shape = {.n = rank};
    for (int k = 0; k < rank; k++)
        shape.at[k] = k == axis ? -1 : 1;
    return onnx_text(n, "reshape(%s, newshape=%s)", text, onnx_list(n, shape));
}

static bool is_single(OnnxNode *n, size_t i)
{
    return onnx_rank(n, i) == 0 || (onnx_rank(n, i) == 1 && onnx_extent(n, i, 0) == 1);
}

static const char *cast_text(OnnxNode *n, const char *x, DType to)
{
    return onnx_text(n, "cast(%s, dtype=\"%s\")", x, onnx_dtype_text(n, to));
}

/* The nearest integers, halves to the even one. */
static const char *rounded(OnnxNode *n, const char *x, DType f)
{
    const char *half = onnx_literal(n, 0.5, f), *near = onnx_step(n, "round(%s)", x);
    return onnx_text(n,
                     "where(equal(abs(subtract(%s, %s)), %s), multiply(%s, "
                     "trunc(multiply(%s, %s))), %s)",
                     near, x, half, onnx_literal(n, 2, f), near, half, near);
}

void rule_round(OnnxNode *n)
{
    onnx_give(n, rounded(n, onnx_in(n, 0), onnx_in_dtype(n, 0)));
}

/* The nearest integers in the range of the type. */
static const char *to_integers(OnnxNode *n, const char *x, const char *zero, DType to, int bits)
{
    const char *y = onnx_step(n, "%s", rounded(n, x, onnx_type_of(n, x)->dtype));
    bool is_signed = dtype_is_signed(to);
    double top = ldexp(1, is_signed ? bits - 1 : bits), low = is_signed ? -top : 0;
    DType wide = dtype_of(DT_INT32);
    y = onnx_text(n, "cast(%s, dtype=\"int32\")", y);
    y = zero ? onnx_text(n, "add(%s, %s)", y, zero) : y;
    return cast_text(n,
                     onnx_text(n, "minimum(maximum(%s, %s), %s)", y, onnx_literal(n, low, wide),
                               onnx_literal(n, top - 1, wide)),
                     to);
}

static int bits_of(OnnxNode *n, int32_t type, size_t zero)
{
    const OnnxValue *v = zero && onnx_has(n, zero) ? onnx_value(n, zero) : NULL;
    if (v && v->bits)
        return v->bits;
    return onnx_dtype_bits(v ? 0 : type);
}

void rule_quantize(OnnxNode *n)
{
    int32_t asked = (int32_t)onnx_attr_int(n, "output_dtype", 2);
    DType to = onnx_has(n, 2) ? onnx_in_dtype(n, 2) : onnx_dtype(asked), t = onnx_in_dtype(n, 0);
    int bits = bits_of(n, asked, 2);
    bits = bits ? bits : (int)dtype_size(to) * 8;
    if (dtype_size(to) == 0 || dtype_is_float(to)) {
        onnx_refuse(n, "Relay has no element type `%s`", onnx_dtype_name(asked));
        return;
    }
    bool f32 = dtype_eq(t, dtype_of(DT_FLOAT32)) && dtype_eq(onnx_in_dtype(n, 1), t);
    if (f32 && is_single(n, 1) && bits == (int)dtype_size(to) * 8) {
        const char *zero = onnx_has(n, 2) ? onnx_scalar_as(n, 2, dtype_of(DT_INT32)) : "0";
        onnx_give(n, onnx_text(n, "qnn.quantize(%s, %s, %s, out_dtype=\"%s\")", onnx_in(n, 0),
                               onnx_scalar(n, 1), zero, onnx_dtype_text(n, to)));
        return;
    }
    int64_t precision = onnx_attr_int(n, "precision", 0);
    DType at = precision ? onnx_dtype((int32_t)precision) : t;
    n->constant = false;
    const char *x = dtype_eq(at, t) ? onnx_in(n, 0) : cast_text(n, onnx_in(n, 0), at);
    const char *s = spread(
        n, 1, dtype_eq(at, onnx_in_dtype(n, 1)) ? onnx_in(n, 1) : cast_text(n, onnx_in(n, 1), at));
    const char *zero =
        onnx_has(n, 2) ? spread(n, 2, cast_text(n, onnx_in(n, 2), dtype_of(DT_INT32))) : NULL;
    onnx_give(n, to_integers(n, onnx_step(n, "divide(%s, %s)", x, s), zero, to, bits));
    onnx_narrow(n, 0, bits);
}

void rule_dequantize(OnnxNode *n)
{
    DType t = onnx_in_dtype(n, 1), f32 = dtype_of(DT_FLOAT32);
    int64_t asked = onnx_attr_int(n, "output_dtype", 0);
    DType to = asked ? onnx_dtype((int32_t)asked) : t;
    if (dtype_eq(t, f32) && dtype_eq(to, f32) && is_single(n, 1) &&
        !dtype_is_float(onnx_in_dtype(n, 0))) {
        const char *zero = onnx_has(n, 2) ? onnx_scalar_as(n, 2, dtype_of(DT_INT32)) : "0";
        onnx_give(
            n, onnx_text(n, "qnn.dequantize(%s, %s, %s)", onnx_in(n, 0), onnx_scalar(n, 1), zero));
        return;
    }
    const char *x = cast_text(n, onnx_in(n, 0), f32);
    if (onnx_has(n, 2))
        x = onnx_text(n, "subtract(%s, %s)", x, spread(n, 2, cast_text(n, onnx_in(n, 2), f32)));
    const char *s =
        spread(n, 1, dtype_eq(t, f32) ? onnx_in(n, 1) : cast_text(n, onnx_in(n, 1), f32));
    const char *y = onnx_text(n, "multiply(%s, %s)", x, s);
    onnx_give(n, dtype_eq(to, f32) ? y : cast_text(n, y, to));
}

/* ---- products --------------------------------------------------------------------------------------------------------------- */

/* An input less its zero point, as int32; a zero point for each row or channel stands where `shape` says. */
static const char *centred(OnnxNode *n, size_t i, size_t zero, const char *shape)
{
    const char *x = cast_text(n, onnx_in(n, i), dtype_of(DT_INT32));
    if (!onnx_has(n, zero))
        return x;
    const char *z = is_single(n, zero) || !shape || onnx_rank(n, zero) > 1
                        ? (is_single(n, zero) ? onnx_scalar(n, zero) : onnx_in(n, zero))
                        : onnx_text(n, "reshape(%s, newshape=%s)", onnx_in(n, zero), shape);
    return onnx_text(n, "subtract(%s, %s)", x, cast_text(n, z, dtype_of(DT_INT32)));
}

void rule_matmul_integer(OnnxNode *n)
{
    onnx_give(n, onnx_product(n, centred(n, 0, 2, "[-1, 1]"), centred(n, 1, 3, NULL),
                              onnx_rank(n, 0), onnx_rank(n, 1)));
}

/* Sums in the scales of both operands, as integers of the result's scale. */
static void give_scaled(OnnxNode *n, const char *y, const size_t inputs[3],
                        const char *const shapes[2], size_t zero)
{
    DType to = onnx_in_dtype(n, zero);
    if (is_single(n, inputs[0]) && is_single(n, inputs[1]) && is_single(n, inputs[2]) &&
        dtype_eq(onnx_in_dtype(n, inputs[0]), dtype_of(DT_FLOAT32))) {
        onnx_give(n,
                  onnx_text(n, "qnn.requantize(%s, multiply(%s, %s), 0, %s, %s, out_dtype=\"%s\")",
                            y, onnx_scalar(n, inputs[0]), onnx_scalar(n, inputs[1]),
                            onnx_scalar(n, inputs[2]), onnx_scalar_as(n, zero, dtype_of(DT_INT32)),
                            onnx_dtype_text(n, to)));
        return;
    }
    n->constant = false;
    const char *scales[3];
    for (int i = 0; i < 3; i++) {
        const char *s = is_single(n, inputs[i]) ? onnx_scalar(n, inputs[i]) : onnx_in(n, inputs[i]);
        s = cast_text(n, s, dtype_of(DT_FLOAT32));
        bool shaped =
            i < 2 && shapes[i] && onnx_rank(n, inputs[i]) == 1 && !is_single(n, inputs[i]);
        scales[i] = shaped ? onnx_text(n, "reshape(%s, newshape=%s)", s, shapes[i]) : s;
    }
    const char *real =
        onnx_step(n, "multiply(cast(%s, dtype=\"float32\"), divide(multiply(%s, %s), %s))", y,
                  scales[0], scales[1], scales[2]);
    const char *z = is_single(n, zero) ? onnx_scalar(n, zero) : onnx_in(n, zero);
    onnx_give(
        n, to_integers(n, real, cast_text(n, z, dtype_of(DT_INT32)), to, (int)dtype_size(to) * 8));
}

void rule_qlinear_matmul(OnnxNode *n)
{
    const char *y = onnx_product(n, centred(n, 0, 2, "[-1, 1]"), centred(n, 3, 5, NULL),
                                 onnx_rank(n, 0), onnx_rank(n, 3));
    give_scaled(n, y, (const size_t[]){1, 4, 6}, (const char *const[]){"[-1, 1]", NULL}, 7);
}

static const char *convolved(OnnxNode *n, size_t weight, const char *x, const char *w)
{
    OnnxWindow window = onnx_window(n, onnx_kernel(n, weight));
    int64_t groups = onnx_attr_int(n, "group", 1);
    return onnx_text(n, "nn.conv%dd(%s, %s%s, groups=%lld, channels=%lld, kernel_size=%s)",
                     window.n, x, w, onnx_window_text(n, &window), (long long)groups,
                     (long long)onnx_known_extent(n, weight, 0), onnx_list(n, window.kernel));
}

/* What stands for each channel of a weight, and of a result. */
static const char *per_channel(OnnxNode *n, size_t weight, bool front)
{
    OnnxInts shape = {.n = onnx_rank(n, weight) - (front ? 0 : 1)};
    for (int i = 0; i < shape.n; i++)
        shape.at[i] = i == 0 ? -1 : 1;
    return onnx_list(n, shape);
}

void rule_conv_integer(OnnxNode *n)
{
    onnx_give(n,
              convolved(n, 1, centred(n, 0, 2, NULL), centred(n, 1, 3, per_channel(n, 1, true))));
}

void rule_qlinear_conv(OnnxNode *n)
{
    const char *y =
        convolved(n, 3, centred(n, 0, 2, NULL), centred(n, 3, 5, per_channel(n, 3, true)));
    y = onnx_has(n, 8) ? onnx_text(n, "nn.bias_add(%s, %s)", y, onnx_in(n, 8)) : y;
    give_scaled(n, y, (const size_t[]){1, 4, 6},
                (const char *const[]){NULL, per_channel(n, 3, false)}, 7);
}
