/* Element-wise operators of one tensor. */
#include "stdlib/ops/ops.h"

#include <string.h>

static void unary(TeBuilder *b, TeOp op)
{
    ops_emit(b, te_unary(b, op, ops_at_axes(b, te_input(b, 0))));
}

/* Relay name, C name, scalar function, relation, gradient, documentation. */
/* clang-format off */
#define BY_ROOT "let %ones = ones_like(%data); let %root = sqrt(subtract(%ones, multiply(%data, %data))); "
#define LOG_OF(BASE) \
    "divide(multiply(%g, ones_like(%data)), multiply(log(cast_like(" BASE ", %data)), %data))"
#define ERF_GRAD \
    "multiply(multiply(cast_like(1.1283791670955126f64, %data), exp(multiply(negative(%data), %data))), %g)"
#define UNARY(X)                                                                                   \
    X("exp", exp, EXP, float, "multiply(%g, exp(%data))", "e to the power of each element.")       \
    X("log", log, LOG, float, "divide(multiply(%g, ones_like(%data)), %data)",                     \
      "The natural logarithm of each element.")                                                    \
    X("log2", log2, LOG2, float, LOG_OF("2f"), "The logarithm to base 2 of each element.")         \
    X("log10", log10, LOG10, float, LOG_OF("10f"), "The logarithm to base 10 of each element.")    \
    X("sqrt", sqrt, SQRT, float,                                                                   \
      "let %half = cast_like(0.5f, %data); "                                                       \
      "multiply(multiply(%g, %half), power(%data, negative(%half)))",                              \
      "The square root of each element.")                                                          \
    X("rsqrt", rsqrt, RSQRT, float,                                                                \
      "divide(multiply(%g, multiply(cast_like(-0.5f, %data), %out)), %data)",                      \
      "One over the square root of each element.")                                                 \
    X("tanh", tanh, TANH, float, "multiply(%g, subtract(ones_like(%out), multiply(%out, %out)))",  \
      "The hyperbolic tangent of each element.")                                                   \
    X("sigmoid", sigmoid, SIGMOID, float,                                                          \
      "multiply(multiply(%g, %out), subtract(ones_like(%out), %out))",                             \
      "1 / (1 + e^-x) of each element x.")                                                         \
    X("erf", erf, ERF, float, ERF_GRAD, "The error function of each element.")                     \
    X("sin", sin, SIN, float, "multiply(%g, cos(%data))", "The sine of each element, in radians.") \
    X("cos", cos, COS, float, "multiply(%g, multiply(negative(ones_like(%data)), sin(%data)))",    \
      "The cosine of each element, in radians.")                                                   \
    X("tan", tan, TAN, float, "let %cos = cos(%data); divide(%g, multiply(%cos, %cos))",           \
      "The tangent of each element, in radians.")                                                  \
    X("sinh", sinh, SINH, float, "multiply(%g, cosh(%data))",                                      \
      "The hyperbolic sine of each element.")                                                      \
    X("cosh", cosh, COSH, float, "multiply(%g, sinh(%data))",                                      \
      "The hyperbolic cosine of each element.")                                                    \
    X("asin", asin, ASIN, float, BY_ROOT "divide(multiply(%g, %ones), %root)",                     \
      "The angle whose sine each element is.")                                                     \
    X("acos", acos, ACOS, float, BY_ROOT "multiply(%g, divide(negative(%ones), %root))",           \
      "The angle whose cosine each element is.")                                                   \
    X("atan", atan, ATAN, float,                                                                   \
      "let %ones = ones_like(%data); "                                                             \
      "divide(multiply(%g, %ones), add(%ones, multiply(%data, %data)))",                           \
      "The angle whose tangent each element is.")                                                  \
    X("asinh", asinh, ASINH, float,                                                                \
      "let %ones = ones_like(%data); "                                                             \
      "divide(multiply(%g, %ones), sqrt(add(%ones, multiply(%data, %data))))",                     \
      "The inverse of sinh of each element.")                                                      \
    X("acosh", acosh, ACOSH, float,                                                                \
      "let %ones = ones_like(%data); "                                                             \
      "divide(multiply(%g, %ones), sqrt(subtract(multiply(%data, %data), %ones)))",                \
      "The inverse of cosh of each element.")                                                      \
    X("atanh", atanh, ATANH, float,                                                                \
      "let %ones = ones_like(%data); "                                                             \
      "divide(multiply(%g, %ones), subtract(%ones, multiply(%data, %data)))",                      \
      "The inverse of tanh of each element.")                                                      \
    X("negative", negative, NEG, number, "negative(%g)", "Each element with its sign changed.")    \
    X("abs", abs, ABS, number,                                                                     \
      "let %ones = ones_like(%data); where(less(%data, zeros_like(%data)), "                       \
      "multiply(negative(%ones), %g), multiply(%ones, %g))",                                       \
      "The absolute value of each element.")                                                       \
    X("floor", floor, FLOOR, number, "zeros_like(%data)",                                          \
      "The greatest integer that is not above each element.")                                      \
    X("ceil", ceil, CEIL, number, "zeros_like(%data)",                                             \
      "The least integer that is not below each element.")                                         \
    X("trunc", trunc, TRUNC, number, "zeros_like(%data)", "Each element without its fraction.")    \
    X("round", round, ROUND, number, "zeros_like(%data)",                                          \
      "The integer nearest to each element; halves go away from zero.")                            \
    X("sign", sign, SIGN, number, "zeros_like(%data)",                                             \
      "-1, 0 or 1 as each element is negative, zero or positive.")                                 \
    X("fast_exp", fast_exp, EXP, float, "multiply(%g, exp(%data))",                                \
      "`exp`, where some precision may be given up.")                                              \
    X("fast_tanh", fast_tanh, TANH, float,                                                         \
      "multiply(%g, subtract(ones_like(%out), multiply(%out, %out)))",                             \
      "`tanh`, where some precision may be given up.")                                             \
    X("fast_erf", fast_erf, ERF, float, ERF_GRAD, "`erf`, where some precision may be given up.")  \
    X("logical_not", logical_not, NOT, bool, NULL, "True where the element is False.")             \
    X("bitwise_not", bitwise_not, NOT, int, NULL, "Each bit of each element changed.")
/* clang-format on */

#define COMPUTE(name, id, OP, rel, grad, doc) \
    static void compute_##id(TeBuilder *b)    \
    {                                         \
        unary(b, TE_##OP);                    \
    }
UNARY(COMPUTE)
#undef COMPUTE

static void compute_isnan(TeBuilder *b)
{
    unary(b, TE_ISNAN);
}

static void compute_isinf(TeBuilder *b)
{
    unary(b, TE_ISINF);
}

static void compute_isfinite(TeBuilder *b)
{
    unary(b, TE_ISFINITE);
}

static void compute_same(TeBuilder *b)
{
    te_output(b, te_input(b, 0));
}

/* NaN becomes 0: the second operand of a maximum wins. */
static void compute_relu(TeBuilder *b)
{
    ops_emit(b, te_binary(b, TE_MAX, ops_at_axes(b, te_input(b, 0)), ops_number(b, 0)));
}

static void compute_leaky_relu(TeBuilder *b)
{
    Te *x = ops_at_axes(b, te_input(b, 0));
    Te *scaled = te_binary(b, TE_MUL, x, ops_number(b, attrs_float(b->attrs, "alpha")));
    ops_emit(b, te_select(b, te_binary(b, TE_GT, x, ops_number(b, 0)), x, scaled));
}

static void compute_clip(TeBuilder *b)
{
    Te *x = ops_at_axes(b, te_input(b, 0));
    x = te_binary(b, TE_MIN, x, ops_number(b, attrs_float(b->attrs, "a_max")));
    ops_emit(b, te_binary(b, TE_MAX, x, ops_number(b, attrs_float(b->attrs, "a_min"))));
}

/* x * multiplier * 2^(shift - 31) in 64 bits, rounded half up. */
static void compute_fixed_point_multiply(TeBuilder *b)
{
    DType wide = {DTYPE_CODE_INT, 64, 1};
    int64_t shift = attrs_int(b->attrs, "shift", 0);
    int64_t down = shift < -OPS_MOST ? OPS_MOST : 31 - shift;
    Te *x = te_cast(b, wide, ops_at_axes(b, te_input(b, 0)));
    x = te_binary(b, TE_MUL, x, te_int(b, attrs_int(b->attrs, "multiplier", 0)));
    if (down > 0 && down < 63) {
        x = te_binary(b, TE_ADD, x, te_int(b, (int64_t)1 << (down - 1)));
        x = te_binary(b, TE_SHR, x, te_int(b, down));
    } else if (down < 0 && down > -63) {
        x = te_binary(b, TE_SHL, x, te_int(b, -down));
    } else if (down != 0) {
        x = te_int(b, 0); /* all of it is shifted out */
    }
    ops_emit(b, te_cast(b, te_out_dtype(b, 0), x));
}

/* Multiplier and shifts along the axes. */
static RelResult rel_fixed_point_axes(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    int64_t axes[TENSOR_RANK_MOST];
    Dim dims[TENSOR_RANK_MOST];
    if (!t)
        return rel_blocked(r);
    int n = attrs_ints(r->attrs, "axes", axes, TENSOR_RANK_MOST);
    if (!rel_is_int(r, 0, t))
        return REL_FAILED;
    for (int i = 0; i < n; i++) {
        int axis = rel_axis(r, axes[i], t->n);
        if (axis < 0)
            return REL_FAILED;
        dims[i] = t->dims[axis];
    }
    for (uint32_t i = 1; i < 4; i++)
        if (!rel_set_tensor(r, i, (DType){DTYPE_CODE_INT, 32, 1}, (uint32_t)(n < 0 ? 0 : n), dims))
            return REL_FAILED;
    return rel_set_output(r, t);
}

/* ((x << left) m + half) >> (31 + right), where half rounds up. */
static void compute_fixed_point_axes(TeBuilder *b)
{
    DType wide = {DTYPE_CODE_INT, 64, 1};
    TeTensor x = te_input(b, 0);
    int64_t axes[TENSOR_RANK_MOST];
    Te *index[TENSOR_RANK_MOST], *part[3];
    int n = attrs_ints(b->attrs, "axes", axes, TENSOR_RANK_MOST);
    for (int i = 0; i < n; i++)
        index[i] = te_axis(b, (int)(axes[i] < 0 ? axes[i] + x.rank : axes[i]));
    for (int i = 0; i < 3; i++)
        part[i] = te_cast(b, wide, te_load(b, te_input(b, i + 1), index));
    Te *v = te_cast(b, wide, ops_at_axes(b, x)), *right = te_int(b, 31);
    if (attrs_bool(b->attrs, "is_lshift_required"))
        v = te_binary(b, TE_SHL, v, part[1]);
    if (attrs_bool(b->attrs, "is_rshift_required"))
        right = te_binary(b, TE_ADD, right, part[2]);
    Te *half = te_binary(b, TE_SHL, te_int(b, 1), te_binary(b, TE_SUB, right, te_int(b, 1)));
    v = te_binary(b, TE_ADD, te_binary(b, TE_MUL, v, part[0]), half);
    ops_emit(b, te_cast(b, x.dtype, te_binary(b, TE_SHR, v, right)));
}

/* ---- the bits as another dtype ------------------------------------------------------------------ */

#define SHAPES_rel_reinterpret "(d...) -> (d...)"
static RelResult rel_reinterpret(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    DType to = attrs_dtype(r->attrs, "dtype");
    if (to.bits != t->dtype.bits || dtype_is_bool(to) != dtype_is_bool(t->dtype)) {
        rel_error(r, E0203_DTYPE, 0, "`reinterpret` needs element types of the same size");
        return REL_FAILED;
    }
    return rel_set_output(r, type_tensor(r->cx, to, t->n, t->dims));
}

static bool kernel_reinterpret(OpCall *c)
{
    Tensor *from = kernel_arg(c, 0), *to = from ? kernel_out_raw(c, 0) : NULL;
    if (to)
        memcpy(to->data, from->data, (size_t)to->size * dtype_size(to->dtype));
    tensor_release(from);
    return kernel_set(c, to);
}

static const OpAttr clip_attrs[] = {
    ATTR_MUST("a_min", FLOAT, "the least value of the result"),
    ATTR_MUST("a_max", FLOAT, "the greatest value of the result"),
    {0},
};
static const OpArg fixed_point_axes_args[] = {
    {"data", "whole numbers"},
    {"fp_multiplier", "31 bits behind the point: int32"},
    {"left_shift", "by how many bits to shift before: int32"},
    {"right_shift", "by how many bits to shift behind: int32"},
    {0}};
static const OpAttr fixed_point_axes_attrs[] = {
    ATTR_B("is_lshift_required", 0, "`left_shift` counts"),
    ATTR_B("is_rshift_required", 0, "`right_shift` counts"),
    ATTR_MUST("axes", INTS, "the axes of multiplier and shifts"),
    {0}};
static const OpAttr fixed_point_attrs[] = {
    ATTR_MUST("multiplier", INT, "a number of 31 bits behind the point"),
    ATTR_MUST("shift", INT, "the power of two"),
    {0},
};
static const OpAttr leaky_attrs[] = {ATTR_F("alpha", 0.25, "the slope below zero"), {0}};
static const OpAttr reinterpret_attrs[] = {ATTR_MUST("dtype", DTYPE, "the type of the result"),
                                           {0}};

/* clang-format off */
#define SAMPLES_float "(float32[2,3]) (float64[4]) (float16[3]) (float32)"
#define SAMPLES_number "(float32[2,3]) (int32[4]) (int8[3]) (float64)"
#define SAMPLES_int "(int32[2,3]) (uint8[4]) (bool[3])"
#define SAMPLES_bool "(bool[2,3]) (bool)"
#define ROW(NAME, id, OP, REL, GRAD, DOC)                                                  \
    {.name = NAME, .doc = DOC, .args = args_data, .samples = SAMPLES_##REL,                \
     .pattern = OP_ELEMWISE, OP_REL(rel_same_##REL), .compute = compute_##id, .grad = GRAD},
/* clang-format on */

const Op unary_ops[] = {
    UNARY(ROW){.name = "isnan",
               .doc = "True where the element is not a number.",
               .args = args_data,
               .samples = SAMPLES_number,
               .pattern = OP_ELEMWISE,
               OP_REL(rel_test),
               .compute = compute_isnan},
    {.name = "isinf",
     .doc = "True where the element is an infinity.",
     .args = args_data,
     .samples = SAMPLES_number,
     .pattern = OP_ELEMWISE,
     OP_REL(rel_test),
     .compute = compute_isinf},
    {.name = "isfinite",
     .doc = "True where the element is neither an infinity nor NaN.",
     .args = args_data,
     .samples = SAMPLES_number,
     .pattern = OP_ELEMWISE,
     OP_REL(rel_test),
     .compute = compute_isfinite},
    {.name = "copy",
     .doc = "The same tensor.",
     .args = args_data,
     .samples = SAMPLES_number,
     .pattern = OP_ELEMWISE,
     OP_REL(rel_same),
     .compute = compute_same,
     .grad = "%g"},
    {.name = "nn.relu",
     .doc = "Each element, or 0 where it is negative.",
     .args = args_data,
     .samples = SAMPLES_number,
     .pattern = OP_ELEMWISE,
     OP_REL(rel_same_number),
     .compute = compute_relu,
     .grad = "let %zeros = zeros_like(%data); "
             "where(less(%data, %zeros), %zeros, multiply(ones_like(%data), %g))"},
    {.name = "nn.leaky_relu",
     .doc = "Each element, or `alpha` times it where it is not positive.",
     .args = args_data,
     .attrs = leaky_attrs,
     .samples = SAMPLES_float,
     .pattern = OP_ELEMWISE,
     OP_REL(rel_same_number),
     .compute = compute_leaky_relu,
     .grad = "where(greater(%data, zeros_like(%data)), %g, multiply(%g, "
             "negative(nn.leaky_relu(negative(ones_like(%data)), alpha=%alpha))))"},
    {.name = "clip",
     .doc = "Each element, moved into the range from `a_min` to `a_max`.",
     .args = args_data,
     .attrs = clip_attrs,
     .samples = "(float32[2,3], a_min=-1f, a_max=1f) (int32[4], a_min=0f, a_max=3f)",
     .pattern = OP_ELEMWISE,
     OP_REL(rel_same_number),
     .compute = compute_clip,
     .grad = "let %zeros = zeros_like(%data); "
             "let %least = broadcast_to_like(cast_like(%a_min, %data), %data); "
             "let %most = broadcast_to_like(cast_like(%a_max, %data), %data); "
             "where(less(%data, %least), %zeros, where(less(%most, %data), %zeros, "
             "multiply(ones_like(%data), %g)))"},
    {.name = "fixed_point_multiply",
     .doc = "Integers times multiplier * 2^(shift - 31), rounded half up.",
     .args = args_data,
     .attrs = fixed_point_attrs,
     .samples = "(int32[4], multiplier=1073741824, shift=1)",
     .pattern = OP_ELEMWISE,
     OP_REL(rel_same_int),
     .compute = compute_fixed_point_multiply},
    {.name = "fixed_point_multiply_per_axis",
     .doc = "Each element times a fixed-point number of its own axis, rounded half up.",
     .args = fixed_point_axes_args,
     .attrs = fixed_point_axes_attrs,
     .shapes = "(d...), (d of axes...) three times -> (d...)",
     .samples = "(int32[2,3], int32[3], int32[3], int32[3], axes=[1])",
     .pattern = OP_BROADCAST,
     .rel = rel_fixed_point_axes,
     .compute = compute_fixed_point_axes},
    {.name = "reinterpret",
     .doc = "The bits of each element, read as another type of the same size.",
     .args = args_data,
     .attrs = reinterpret_attrs,
     .samples = "(float32[2,3], dtype=\"int32\")",
     .pattern = OP_ELEMWISE,
     OP_REL(rel_reinterpret),
     .kernel = kernel_reinterpret,
     .no_grad = "it reads bits"},
    {0},
};
