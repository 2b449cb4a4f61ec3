/* Quantised operators: a number q stands for scale * (q - zero point). */
#include "stdlib/ops/qnn.h"

#include <math.h>

static const DType float64_dtype = {DTYPE_CODE_FLOAT, 64, 1};
static const DType float32_dtype = {DTYPE_CODE_FLOAT, 32, 1};
static const DType int64_dtype = {DTYPE_CODE_INT, 64, 1};
static const DType int32_dtype = {DTYPE_CODE_INT, 32, 1};

/* ---- relations ----------------------------------------------------------------------------------- */

/* Argument k: a scalar, or a vector along an axis of this extent. */
static bool check_parameter(Rel *r, uint32_t k, DType want, Dim extent)
{
    if (type_find(r->in[k])->kind == TYPE_HOLE)
        return rel_set_tensor(r, k, want, 0, NULL);
    const Type *t = rel_tensor(r, k);
    if (!t)
        return false;
    bool vector = t->n == 1 && (dim_agrees(t->dims[0], extent) || t->dims[0] == 1);
    if (dtype_eq(t->dtype, want) && (t->n == 0 || vector))
        return true;
    rel_error(r, E0202_SHAPE, (int)k, "`%s` of `%s` must be a scalar of type %s%s",
              r->op->args[k].name, r->op->name, dtype_eq(want, int32_dtype) ? "int32" : "float32",
              extent == 1 ? "" : ", or one for each channel");
    return false;
}

/* Scale (float32) and zero point (int32) at arguments i and i + 1. */
static bool check_parameters(Rel *r, uint32_t i, Dim extent)
{
    return check_parameter(r, i, float32_dtype, extent) &&
           (i + 1 >= r->n || check_parameter(r, i + 1, int32_dtype, extent));
}

Dim quant_extent(Rel *r, const Type *t, bool *good)
{
    int64_t axis = attrs_int(r->attrs, "axis", -1);
    *good = true;
    if (t->n == 0)
        return 1;
    int at = rel_axis(r, axis, t->n);
    *good = at >= 0;
    return at < 0 ? 1 : t->dims[at];
}

/* What real numbers are quantised to. */
static bool is_quantised(DType t)
{
    bool is_signed = t.code == DTYPE_CODE_INT, is_unsigned = t.code == DTYPE_CODE_UINT;
    return t.lanes == 1 && (((is_signed || is_unsigned) && (t.bits == 8 || t.bits == 16)) ||
                            (is_signed && t.bits == 32));
}

static bool check_out(Rel *r, DType t)
{
    if (is_quantised(t))
        return true;
    rel_error(r, E0203_DTYPE, -1, "`out_dtype` of `%s` must be int8, uint8, int16, uint16 or int32",
              r->op->name);
    return false;
}

/* Each number of `t` by a scale and a zero point becomes one of `to`. */
static RelResult by_parameters(Rel *r, const Type *t, DType to)
{
    bool good;
    Dim extent = quant_extent(r, t, &good);
    return good && check_parameters(r, 1, extent) ? rel_out_tensor(r, to, t->n, t->dims)
                                                  : REL_FAILED;
}

#define SHAPES_rel_quantize "(d...), 2 parameters -> (d...)"
static RelResult rel_quantize(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    if (!dtype_eq(t->dtype, float32_dtype)) {
        rel_error(r, E0203_DTYPE, 0, "`data` of `%s` must be of type float32", r->op->name);
        return REL_FAILED;
    }
    DType to = attrs_dtype(r->attrs, "out_dtype");
    return check_out(r, to) ? by_parameters(r, t, to) : REL_FAILED;
}

#define SHAPES_rel_dequantize "(d...), 2 parameters -> (d...)"
static RelResult rel_dequantize(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    DType to = ops_dtype(r->attrs, "out_dtype", float32_dtype);
    if (!dtype_is_int(t->dtype)) {
        rel_error(r, E0203_DTYPE, 0, "`data` of `%s` must be integers", r->op->name);
        return REL_FAILED;
    }
    if (to.code != DTYPE_CODE_FLOAT || to.bits > 32 || to.lanes != 1) {
        rel_error(r, E0203_DTYPE, -1, "`out_dtype` of `%s` must be float16 or float32",
                  r->op->name);
        return REL_FAILED;
    }
    return by_parameters(r, t, to);
}

#define SHAPES_rel_requantize "(d...), 4 parameters -> (d...)"
static RelResult rel_requantize(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    bool good;
    if (!t)
        return rel_blocked(r);
    if (!rel_is_int(r, 0, t))
        return REL_FAILED;
    Dim extent = quant_extent(r, t, &good);
    if (!good || !check_parameters(r, 1, extent) || !check_parameters(r, 3, extent))
        return REL_FAILED;
    DType out = attrs_dtype(r->attrs, "out_dtype");
    if (dtype_is_void(out))
        return rel_out_tensor(r, t->dtype, t->n, t->dims);
    return check_out(r, out) ? rel_out_tensor(r, out, t->n, t->dims) : REL_FAILED;
}

/* Products are summed as integers of these widths, which are powers of two. */
static bool check_sum(Rel *r, unsigned widths)
{
    DType t = attrs_dtype(r->attrs, "out_dtype");
    if (t.code == DTYPE_CODE_INT && t.lanes == 1 && (t.bits & widths))
        return true;
    Diag *d = rel_error(r, E0203_DTYPE, -1, "`out_dtype` of `%s` must be %s", r->op->name,
                        widths & 16   ? "int16, int32 or int64"
                        : widths & 64 ? "int32 or int64"
                                      : "int32");
    if (dtype_is_void(t))
        diag_help(d, "add `out_dtype=\"int32\"`: products do not fit the type of the data");
    return false;
}

/* The axis of the weight along which its zero points lie. */
static int channel_axis(const Attrs *a)
{
    int at[4] = {0};
    layout_positions(attrs_string(a, "kernel_layout"), "OIHW", at);
    return at[0];
}

/* Arguments of products: zero points come before the scales. All numbers of the data have one of each, since sums go over its channels;
 * those of the weight may have one for each of these channels of the result, unless there is only `one`. */
static RelResult rel_qnn_product(Rel *r, RelResult (*rel)(Rel *r), unsigned widths, bool one)
{
    static const DType wants[] = {{DTYPE_CODE_INT, 32, 1},
                                  {DTYPE_CODE_INT, 32, 1},
                                  {DTYPE_CODE_FLOAT, 32, 1},
                                  {DTYPE_CODE_FLOAT, 32, 1}};
    for (uint32_t i = 0; i < 2; i++) {
        const Type *t = type_find(r->in[i]);
        if (t->kind == TYPE_TENSOR && !rel_is_int(r, i, t))
            return REL_FAILED;
    }
    for (uint32_t i = 2; i < 6; i++) {
        const Type *t = type_find(r->in[i]);
        if (t->kind == TYPE_HOLE && !rel_set_tensor(r, i, wants[i - 2], 0, NULL))
            return REL_FAILED;
        t = t->kind == TYPE_HOLE ? NULL : rel_tensor(r, i);
        if (r->failed)
            return REL_FAILED;
        if (t && (t->n > 1 || !dtype_eq(t->dtype, wants[i - 2]))) {
            rel_error(r, E0203_DTYPE, (int)i, "`%s` of `%s` must be of type %s",
                      r->op->args[i].name, r->op->name, i < 4 ? "int32" : "float32");
            return REL_FAILED;
        }
    }
    RelResult done = check_sum(r, widths) ? rel(r) : REL_FAILED;
    const Type *w = done == REL_DONE ? rel_tensor(r, 1) : NULL;
    if (!w)
        return done;
    int axis = attrs_find(r->attrs, "kernel_layout") ? channel_axis(r->attrs) : 0;
    Dim rows = one || axis >= (int)w->n ? 1 : w->dims[axis];
    bool fit = check_parameter(r, 2, int32_dtype, 1) && check_parameter(r, 3, int32_dtype, rows) &&
               check_parameter(r, 4, float32_dtype, 1);
    return fit ? done : REL_FAILED;
}

#define SHAPES_rel_qnn_dense "(d..., K), (N, K), 4 parameters -> (d..., N)"
static RelResult rel_qnn_dense(Rel *r)
{
    return rel_qnn_product(r, rel_dense, 32 | 64, false);
}

#define SHAPES_rel_qnn_conv2d \
    "(N, C, d...), (O, C/groups, k...), 4 parameters -> (N, O, window(d, k)...)"
static RelResult rel_qnn_conv2d(Rel *r)
{
    return rel_qnn_product(r, rel_conv, 16 | 32 | 64, false);
}

#define SHAPES_rel_qnn_conv2d_transpose \
    "(N, C, d...), (O/groups, C, k...), 4 parameters -> (N, O, spread(d, k)...)"
static RelResult rel_qnn_conv2d_transpose(Rel *r)
{
    return rel_qnn_product(r, rel_conv_transpose, 16 | 32 | 64, false);
}

#define SHAPES_rel_qnn_batch_matmul                                                               \
    "(A, M, K), (B, K, N), 4 parameters -> (max(A, B), M, N); turned round where transpose_a or " \
    "transpose_b"
static RelResult rel_qnn_batch_matmul(Rel *r)
{
    return rel_qnn_product(r, rel_batch_matmul, 32, true);
}

static const char *const operand_axes[] = {"lhs_axis", "rhs_axis"};

#define SHAPES_rel_qnn_binary "(a...), (b...), 6 parameters -> (broadcast(a, b)...)"
static RelResult rel_qnn_binary(Rel *r)
{
    for (uint32_t i = 0; i < 2; i++) {
        const Type *t = rel_tensor(r, i);
        if (!t)
            return rel_blocked(r);
        if (!rel_is_int(r, i, t))
            return REL_FAILED;
        int64_t axis = attrs_int(r->attrs, operand_axes[i], -1), at = axis < 0 ? axis + t->n : axis;
        if (!check_parameters(r, 2 + 2 * i, at >= 0 && at < (int64_t)t->n ? t->dims[at] : 1))
            return REL_FAILED;
    }
    return check_parameters(r, 6, 1) ? rel_broadcast(r) : REL_FAILED;
}

/* The scales are multiplied with one another: of two vectors both lie along one axis of the result. */
#define SHAPES_rel_qnn_mul SHAPES_rel_qnn_binary
static RelResult rel_qnn_mul(Rel *r)
{
    RelResult done = rel_qnn_binary(r);
    int64_t at[2];
    bool vectors = done == REL_DONE;
    for (uint32_t i = 0; i < 2 && vectors; i++) {
        const Type *scale = rel_tensor(r, 2 + 2 * i);
        at[i] = attrs_int(r->attrs, operand_axes[i], -1);
        at[i] -= at[i] < 0 ? 0 : type_find(r->in[i])->n;
        vectors = scale && scale->n == 1 && scale->dims[0] != 1;
    }
    if (!vectors || at[0] == at[1])
        return done;
    rel_error(r, E0216_OPERATOR_ARGUMENT, 4,
              "scales of `%s` that are vectors must lie along one axis of the result", r->op->name);
    return REL_FAILED;
}

#define SHAPES_rel_qnn_unary "(d...), 4 parameters -> (d...)"
static RelResult rel_qnn_unary(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    if (!rel_is_int(r, 0, t))
        return REL_FAILED;
    if (!check_parameters(r, 1, 1) || !check_parameters(r, 3, 1))
        return REL_FAILED;
    return rel_set_output(r, t);
}

#define SHAPES_rel_qnn_softmax "(d...), 4 parameters -> (d...)"
static RelResult rel_qnn_softmax(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (t && rel_axis(r, attrs_int(r->attrs, "axis", -1), t->n) < 0)
        return REL_FAILED;
    return rel_qnn_unary(r);
}

#define SHAPES_rel_qnn_concatenate                                                     \
    "n of (d...), of scales and of zero points in tuples, 2 parameters -> (d[axis := " \
    "total(axis)]...)"
static RelResult rel_qnn_concatenate(Rel *r)
{
    const Type *t = rel_tensors(r, 0), *scales = t ? rel_tensors(r, 1) : NULL;
    const Type *zeros = scales ? rel_tensors(r, 2) : NULL;
    if (!zeros)
        return rel_blocked(r);
    for (uint32_t i = 0; i < t->n; i++)
        if (!rel_is_int(r, 0, type_find(t->parts[i])))
            return REL_FAILED;
    if (scales->n != t->n || zeros->n != t->n) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, 1, "%u tensors need as many scales and zero points",
                  (unsigned)t->n);
        return REL_FAILED;
    }
    if (!check_parameters(r, 3, 1))
        return REL_FAILED;
    return rel_concatenate_of(r, t);
}

/* ---- computing ----------------------------------------------------------------------------------- */

Te *quant_parameter(TeBuilder *b, TeTensor t, int axis, DType as)
{
    Te *index[1] = {t.rank && t.shape[0] != 1 ? te_axis(b, axis) : te_int(b, 0)};
    return te_cast(b, as, te_load(b, t, index));
}

static Te *clamped(TeBuilder *b, Te *v, DType to)
{
    Te *low = te_cast(b, v->dtype, te_bound(b, to, true));
    Te *high = te_cast(b, v->dtype, te_bound(b, to, false));
    return te_cast(b, to, te_binary(b, TE_MAX, te_binary(b, TE_MIN, v, high), low));
}

typedef struct Rounding {
    bool away; /* halves go away from zero, else up */
    DType real; /* the floats to compute in; of no bits: by a fixed-point number of 31 bits */
} Rounding;

/* What to multiply by, over the channels or of rank 0: a real, or a whole number below 2^31 and how many bits to shift left. */
typedef struct Ratio {
    TeTensor real, mantissa, shift;
} Ratio;

/* Element of a scale where a stage of rank `rank` goes over the channels. */
static Te *scale_at(TeBuilder *b, TeTensor t, int rank)
{
    Te *index[1] = {rank && t.shape[0] != 1 ? te_axis(b, 0) : te_int(b, 0)};
    return te_load(b, t, index);
}

/* v = m 2^e with m from 1/2 to 1, or their negatives. The logarithm may be off by one bit next to a power of two, hence the correction. */
static void fixed_point(TeBuilder *b, int rank, const int64_t *shape, Ratio *r)
{
    Te *axis = te_axis(b, 0), *one = te_number(b, float64_dtype, 1),
       *half = te_number(b, float64_dtype, 0.5);
    Te *given = te_load(b, r->real, &axis), *two = te_number(b, float64_dtype, 2);
    Te *v = te_unary(b, TE_ABS, given);
    Te *e = te_binary(b, TE_ADD, te_unary(b, TE_FLOOR, te_unary(b, TE_LOG2, v)), one);
    e = te_select(b, te_binary(b, TE_GT, v, te_number(b, float64_dtype, 0)), e, one);
    Te *m = te_binary(b, TE_DIV, v, te_binary(b, TE_POW, two, e));
    Te *large = te_binary(b, TE_GE, m, one), *small = te_binary(b, TE_LT, m, half);
    e = te_binary(b, TE_ADD, e, te_cast(b, float64_dtype, large));
    e = te_binary(b, TE_SUB, e, te_cast(b, float64_dtype, small));
    m = te_select(b, large, te_binary(b, TE_MUL, m, half),
                  te_select(b, small, te_binary(b, TE_MUL, m, two), m));
    Te *bits = te_number(b, float64_dtype, 2147483648.0);
    m = te_unary(b, TE_ROUND, te_binary(b, TE_MUL, m, bits));
    Te *full = te_binary(b, TE_GE, m, bits);
    m = te_select(b, full, te_binary(b, TE_MUL, m, half), m);
    m = te_select(b, te_binary(b, TE_LT, given, te_number(b, float64_dtype, 0)),
                  te_unary(b, TE_NEG, m), m);
    e = te_binary(b, TE_ADD, e, te_cast(b, float64_dtype, full));
    r->mantissa = te_map(b, int64_dtype, rank, shape, te_cast(b, int64_dtype, m));
    r->shift = te_map(b, int64_dtype, rank, shape, te_cast(b, int64_dtype, e));
}

/* from / to; with `times` the product of the first two, in float32, / to. */
static Ratio ratio_of(TeBuilder *b, TeTensor from, const TeTensor *times, TeTensor to)
{
    TeTensor all[3] = {from, to, times ? *times : from};
    int64_t channels = 1;
    int rank = 0;
    for (int i = 0; i < 3; i++)
        if (all[i].rank && all[i].shape[0] != 1) {
            rank = 1;
            channels = all[i].shape[0];
        }
    Te *v = scale_at(b, from, rank);
    if (times)
        v = te_binary(b, TE_MUL, v, scale_at(b, *times, rank));
    v = te_binary(b, TE_DIV, te_cast(b, float64_dtype, v),
                  te_cast(b, float64_dtype, scale_at(b, to, rank)));
    Ratio r = {.real = te_map(b, float64_dtype, rank, &channels, v)};
    fixed_point(b, rank, &channels, &r);
    return r;
}

/* On reals the new zero point comes before rounding, so that halves go by what the result is. */
static Te *requantized_reals(TeBuilder *b, Te *q, const Ratio *r, Te *zero, Te *out_zero, int axis,
                             Rounding how, DType to)
{
    Te *v = te_binary(b, TE_SUB, te_cast(b, how.real, q), te_cast(b, how.real, zero));
    v = te_binary(b, TE_MUL, v, quant_parameter(b, r->real, axis, how.real));
    v = te_binary(b, TE_ADD, v, te_cast(b, how.real, out_zero));
    v = how.away ? te_unary(b, TE_ROUND, v)
                 : te_unary(b, TE_FLOOR, te_binary(b, TE_ADD, v, te_number(b, how.real, 0.5)));
    return clamped(b, te_cast(b, float64_dtype, v), to);
}

/* A product of 64 bits, shifted right by 31 and, for ratios below 1/2, more; half of what is lost is added before. */
static Te *fixed_times(TeBuilder *b, Te *v, const Ratio *r, int axis, Rounding how)
{
    Te *e = quant_parameter(b, r->shift, axis, int64_dtype), *zero = te_int(b, 0);
    Te *left = te_binary(b, TE_MIN, te_binary(b, TE_MAX, e, zero), te_int(b, 62));
    Te *right = te_binary(b, TE_SUB, te_int(b, 31), te_binary(b, TE_MIN, e, zero));
    right = te_binary(b, TE_MIN, right, te_int(b, 62));
    Te *half = te_binary(b, TE_SHL, te_int(b, 1), te_binary(b, TE_SUB, right, te_int(b, 1)));
    v = te_binary(b, TE_MUL, te_binary(b, TE_SHL, v, left),
                  quant_parameter(b, r->mantissa, axis, int64_dtype));
    if (how.away)
        half = te_binary(b, TE_SUB, half, te_cast(b, int64_dtype, te_binary(b, TE_LT, v, zero)));
    return te_binary(b, TE_SHR, te_binary(b, TE_ADD, v, half), right);
}

/* (q - zero) times the ratio, rounded, plus the new zero point. */
static Te *requantized(TeBuilder *b, Te *q, const Ratio *r, Te *zero, Te *out_zero, int axis,
                       Rounding how, DType to)
{
    if (how.real.bits)
        return requantized_reals(b, q, r, zero, out_zero, axis, how, to);
    Te *v = te_binary(b, TE_SUB, te_cast(b, int64_dtype, q), te_cast(b, int64_dtype, zero));
    v = fixed_times(b, v, r, axis, how);
    return clamped(b, te_binary(b, TE_ADD, v, te_cast(b, v->dtype, out_zero)), to);
}

int quant_axis(const TeBuilder *b, int rank)
{
    return rank ? ops_axis(b->attrs, "axis", rank) : 0;
}

static void compute_quantize(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int axis = quant_axis(b, x.rank);
    Te *scale = quant_parameter(b, te_input(b, 1), axis, float32_dtype);
    Te *zero = quant_parameter(b, te_input(b, 2), axis, float32_dtype);
    Te *v = te_unary(b, TE_ROUND,
                     te_binary(b, TE_DIV, te_cast(b, float32_dtype, ops_at_axes(b, x)), scale));
    v = te_cast(b, float64_dtype, te_binary(b, TE_ADD, v, zero));
    ops_emit(b, clamped(b, v, te_out_dtype(b, 0)));
}

static void compute_dequantize(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int axis = quant_axis(b, x.rank);
    Te *scale = quant_parameter(b, te_input(b, 1), axis, float32_dtype);
    Te *zero = quant_parameter(b, te_input(b, 2), axis, int32_dtype);
    Te *q = te_binary(b, TE_SUB, te_cast(b, int32_dtype, ops_at_axes(b, x)), zero);
    ops_emit(b, te_cast(b, te_out_dtype(b, 0),
                        te_binary(b, TE_MUL, te_cast(b, float32_dtype, q), scale)));
}

static Rounding rounding_of(const TeBuilder *b)
{
    Str compute = attrs_string(b->attrs, "compute_dtype");
    Rounding how = {.away = str_is(attrs_string(b->attrs, "rounding"), "TONEAREST")};
    if (str_is(compute, "float32") || str_is(compute, "float64"))
        dtype_parse(compute, &how.real);
    return how;
}

static void compute_requantize(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int axis = quant_axis(b, x.rank);
    Ratio r = ratio_of(b, te_input(b, 1), NULL, te_input(b, 3));
    ops_emit(b, requantized(b, ops_at_axes(b, x), &r,
                            quant_parameter(b, te_input(b, 2), axis, int64_dtype),
                            quant_parameter(b, te_input(b, 4), axis, int64_dtype), axis,
                            rounding_of(b), te_out_dtype(b, 0)));
}

/* The tensor minus its zero point, as a stage in int32. A vector of zero points goes along `axis`. */
static TeTensor centred(TeBuilder *b, TeTensor t, TeTensor zero, int axis)
{
    Te *v = te_binary(b, TE_SUB, te_cast(b, int32_dtype, ops_at_axes(b, t)),
                      quant_parameter(b, zero, axis, int32_dtype));
    return te_map(b, int32_dtype, t.rank, t.shape, v);
}

/* The data and the weight, each less its zero point. */
typedef struct Centred {
    TeTensor data, weight;
} Centred;

static Centred centred_inputs(TeBuilder *b, int weight_axis)
{
    Centred c = {.data = centred(b, te_input(b, 0), te_input(b, 2), 0)};
    c.weight = centred(b, te_input(b, 1), te_input(b, 3), weight_axis);
    return c;
}

static void compute_qnn_dense(TeBuilder *b)
{
    Centred c = centred_inputs(b, 0);
    ops_dense(b, c.data, c.weight);
}

/* Padding stands for 0, which the centred data holds as 0. */
static void compute_qnn_conv2d(TeBuilder *b)
{
    Centred c = centred_inputs(b, channel_axis(b->attrs));
    ops_conv(b, c.data, c.weight);
}

static void compute_qnn_conv2d_transpose(TeBuilder *b)
{
    Centred c = centred_inputs(b, channel_axis(b->attrs));
    ops_conv_transpose(b, c.data, c.weight);
}

static void compute_qnn_batch_matmul(TeBuilder *b)
{
    Centred c = centred_inputs(b, 0);
    ops_batch_matmul(b, c.data, c.weight);
}

Te *quant_scalar(TeBuilder *b, int i)
{
    return quant_parameter(b, te_input(b, i), 0, int64_dtype);
}

/* The axis of the result along which an operand's vectors lie. */
static int operand_axis(const TeBuilder *b, TeTensor t, int i, int out_rank)
{
    int64_t axis = attrs_int(b->attrs, operand_axes[i], -1);
    axis += axis < 0 ? out_rank : out_rank - t.rank;
    return axis < 0 || axis >= out_rank ? 0 : (int)axis;
}

/* Each operand is rounded to the scale of the result before they meet. */
static void add_or_subtract(TeBuilder *b, TeOp op)
{
    Te *v[2];
    int rank = te_out_rank(b, 0);
    for (int i = 0; i < 2; i++) {
        int axis = operand_axis(b, te_input(b, i), i, rank);
        Ratio r = ratio_of(b, te_input(b, 2 + 2 * i), NULL, te_input(b, 6));
        v[i] = requantized(b, te_load_broadcast(b, te_input(b, i), rank), &r,
                           quant_parameter(b, te_input(b, 3 + 2 * i), axis, int64_dtype),
                           te_int(b, 0), axis, (Rounding){0}, int32_dtype);
    }
    Te *sum = te_binary(b, op, te_cast(b, int64_dtype, v[0]), te_cast(b, int64_dtype, v[1]));
    ops_emit(b, clamped(b, te_binary(b, TE_ADD, sum, quant_scalar(b, 7)), te_out_dtype(b, 0)));
}

static void compute_qnn_add(TeBuilder *b)
{
    add_or_subtract(b, TE_ADD);
}

static void compute_qnn_subtract(TeBuilder *b)
{
    add_or_subtract(b, TE_SUB);
}

static void compute_qnn_mul(TeBuilder *b)
{
    int rank = te_out_rank(b, 0), scaled = 0;
    TeTensor times = te_input(b, 4);
    Ratio r = ratio_of(b, te_input(b, 2), &times, te_input(b, 6));
    Te *v[2];
    for (int i = 0; i < 2; i++) {
        TeTensor scale = te_input(b, 2 + 2 * i);
        int axis = operand_axis(b, te_input(b, i), i, rank);
        scaled = scale.rank && scale.shape[0] != 1 ? axis : scaled;
        v[i] = te_binary(b, TE_SUB,
                         te_cast(b, int64_dtype, te_load_broadcast(b, te_input(b, i), rank)),
                         quant_parameter(b, te_input(b, 3 + 2 * i), axis, int64_dtype));
    }
    ops_emit(b, requantized(b, te_binary(b, TE_MUL, v[0], v[1]), &r, te_int(b, 0),
                            quant_scalar(b, 7), scaled, (Rounding){0}, te_out_dtype(b, 0)));
}

static void compute_qnn_concatenate(TeBuilder *b)
{
    int n = (te_n_inputs(b) - 2) / 3, rank = te_out_rank(b, 0);
    int axis = ops_axis(b->attrs, "axis", rank);
    int64_t at = te_out_shape(b, 0)[axis];
    Te *body = NULL, *index[TENSOR_RANK_MOST];
    for (int k = n - 1; k >= 0; k--) {
        TeTensor x = te_input(b, k);
        Ratio r = ratio_of(b, te_input(b, n + k), NULL, te_input(b, 3 * n));
        at -= x.shape[axis];
        ops_axes(b, 0, rank, index);
        index[axis] = te_binary(b, TE_SUB, te_axis(b, axis), te_int(b, at));
        Te *q = te_load_or(b, x, index, te_number(b, x.dtype, 0));
        q = requantized(b, q, &r, quant_scalar(b, 2 * n + k), quant_scalar(b, 3 * n + 1), 0,
                        (Rounding){0}, te_out_dtype(b, 0));
        Te *before = te_binary(b, TE_LT, te_axis(b, axis), te_int(b, at + x.shape[axis]));
        body = body ? te_select(b, before, q, body) : q;
    }
    ops_emit(b, body);
}

#define SHAPES_rel_qnn_avg_pool2d \
    "(N, C, d...), 4 parameters -> (N, C, window(d, pool_size)...); rounded up where ceil_mode"
static RelResult rel_qnn_avg_pool2d(Rel *r)
{
    const Type *t = type_find(r->in[0]);
    if (t->kind == TYPE_TENSOR && !rel_is_int(r, 0, t))
        return REL_FAILED;
    return check_parameters(r, 1, 1) && check_parameters(r, 3, 1) ? rel_pool(r) : REL_FAILED;
}

/* In the scale of the result first, so that what is summed and divided are integers. */
static void compute_qnn_avg_pool2d(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    Ratio r = ratio_of(b, te_input(b, 1), NULL, te_input(b, 3));
    Te *v = requantized(b, ops_at_axes(b, x), &r, quant_scalar(b, 2), quant_scalar(b, 4), 0,
                        (Rounding){0}, int32_dtype);
    TeTensor mean = ops_avg_pool(b, te_map(b, int32_dtype, x.rank, x.shape, v));
    ops_emit(b, clamped(b, te_cast(b, int64_dtype, ops_at_axes(b, mean)), te_out_dtype(b, 0)));
}

/* ---- element-wise: to reals, the function, and back ----------------------------------------------- */

static Te *hardswish(TeBuilder *b, Te *x)
{
    Te *up = te_binary(b, TE_ADD, x, te_number(b, x->dtype, 3)), *six = te_number(b, x->dtype, 6);
    Te *gate = te_binary(b, TE_MAX, te_binary(b, TE_MIN, up, six), te_number(b, x->dtype, 0));
    return te_binary(b, TE_DIV, te_binary(b, TE_MUL, x, gate), six);
}

static void emit_quantized(TeBuilder *b, Te *v)
{
    Te *scale = quant_parameter(b, te_input(b, 3), 0, float32_dtype);
    Te *zero = quant_parameter(b, te_input(b, 4), 0, float32_dtype);
    v = te_unary(b, TE_ROUND, te_binary(b, TE_DIV, v, scale));
    ops_emit(b, clamped(b, te_binary(b, TE_ADD, v, zero), te_out_dtype(b, 0)));
}

static Te *dequantized(TeBuilder *b)
{
    Te *q = te_cast(b, float32_dtype, ops_at_axes(b, te_input(b, 0)));
    Te *zero = quant_parameter(b, te_input(b, 2), 0, float32_dtype);
    return te_binary(b, TE_MUL, te_binary(b, TE_SUB, q, zero),
                     quant_parameter(b, te_input(b, 1), 0, float32_dtype));
}

#define UNARY(X)  \
    X(tanh, TANH) \
    X(exp, EXP)   \
    X(sqrt, SQRT) X(rsqrt, RSQRT) X(erf, ERF) X(sigmoid, SIGMOID) X(log, LOG) X(abs, ABS)
#define COMPUTE(name, OP)                                        \
    static void compute_qnn_##name(TeBuilder *b)                 \
    {                                                            \
        emit_quantized(b, te_unary(b, TE_##OP, dequantized(b))); \
    }
UNARY(COMPUTE)
#undef COMPUTE

static void compute_qnn_hardswish(TeBuilder *b)
{
    emit_quantized(b, hardswish(b, dequantized(b)));
}

static void compute_qnn_leaky_relu(TeBuilder *b)
{
    Te *x = dequantized(b);
    Te *low = te_binary(b, TE_MUL, x, te_number(b, x->dtype, attrs_float(b->attrs, "alpha")));
    emit_quantized(b, te_select(b, te_binary(b, TE_GT, x, te_number(b, x->dtype, 0)), x, low));
}

/* ---- softmax ---------------------------------------------------------------------------- */

static void compute_qnn_softmax(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    TeTensor real = te_map(b, float32_dtype, x.rank, x.shape, dequantized(b));
    emit_quantized(b, ops_at_axes(b, ops_softmax(b, real, ops_axis(b->attrs, "axis", x.rank))));
}

/* ---- rows ---------------------------------------------------------------------------------------- */

#define SCALE(WHO) {WHO "_scale", "a float32"}
#define ZERO(WHO) {WHO "_zero_point", "an int32"}
static const OpArg quantize_args[] = {{"data", "reals"}, SCALE("output"), ZERO("output"), {0}};
static const OpArg dequantize_args[] = {{"data", "integers"}, SCALE("input"), ZERO("input"), {0}};
static const OpArg requantize_args[] = {{"data", "integers"}, SCALE("input"), ZERO("input"),
                                        SCALE("output"),      ZERO("output"), {0}};
static const OpArg product_args[] = {{"data", "integers"},
                                     {"weight", "integers"},
                                     ZERO("input"),
                                     ZERO("kernel"),
                                     SCALE("input"),
                                     SCALE("kernel"),
                                     {0}};
static const OpArg binary_args[] = {{"lhs", "the left operand"},
                                    {"rhs", "the right operand"},
                                    SCALE("lhs"),
                                    ZERO("lhs"),
                                    SCALE("rhs"),
                                    ZERO("rhs"),
                                    SCALE("output"),
                                    ZERO("output"),
                                    {0}};
static const OpArg concatenate_args[] = {{"data", "a tuple of tensors"},
                                         {"input_scales", "a tuple of float32"},
                                         {"input_zero_points", "a tuple of int32"},
                                         SCALE("output"),
                                         ZERO("output"),
                                         {0}};
static const OpArg unary_args[] = {
    {"x", "integers"}, {"scale", "a float32"}, {"zero_point", "an int32"},
    SCALE("output"),   ZERO("output"),         {0}};

static const OpArg pool_args[] = {{"data", "integers"}, SCALE("input"), ZERO("input"),
                                  SCALE("output"),      ZERO("output"), {0}};
static const OpArg matmul_args[] = {{"x", "integers"}, {"y", "integers"}, ZERO("x"), ZERO("y"),
                                    SCALE("x"),        SCALE("y"),        {0}};
static const OpAttr quantize_attrs[] = {
    ATTR_MUST("out_dtype", DTYPE, "the type of the result"), CHANNELS, {0}};
static const OpAttr dequantize_attrs[] = {
    ATTR_D("out_dtype", "float32", "the type of the result"), CHANNELS, {0}};
static const OpAttr requantize_attrs[] = {
    CHANNELS,
    ATTR_ONE("rounding", "None", "where halves go: UPWARD or TONEAREST (away from zero)", "None",
             "UPWARD", "TONEAREST"),
    ATTR_ONE("compute_dtype", "None", "int64: fixed-point; float32 or float64: real numbers",
             "None", "int64", "float32", "float64"),
    ATTR_D("out_dtype", "", "the type of the result"),
    {0}};
static const OpAttr binary_attrs[] = {
    ATTR_I("lhs_axis", -1, "the axis of vectors of the left operand"),
    ATTR_I("rhs_axis", -1, "the axis of vectors of the right operand"),
    {0}};
static const OpAttr concatenate_attrs[] = {ATTR_I("axis", 0, "the axis along which to join"), {0}};
static const OpAttr softmax_attrs[] = {
    ATTR_I("axis", -1, "the axis along which the result sums to one"), {0}};
static const OpAttr leaky_attrs[] = {ATTR_F("alpha", 0.25, "the slope below zero"), {0}};

#define ROW(NAME, ID, ARGS, ATTRS, PATTERN, REL, SAMPLES, DOC)                   \
    OP_ROW(NAME, ARGS, ATTRS, PATTERN, REL, SAMPLES, DOC, .flags = OP_QUANTISED, \
           .shapes = SHAPES_##REL, .compute = compute_##ID)
#define UNARY_ROW(NAME, OP)                                                   \
    ROW("qnn." #NAME, qnn_##NAME, unary_args, NULL, OP_OPAQUE, rel_qnn_unary, \
        "(int8[4], float32, int32, float32, int32)", "`" #NAME "` of quantised numbers."),
#define BINARY_SAMPLES "(uint8[4], uint8[4], float32, int32, float32, int32, float32, int32)"

const Op qnn_ops[] = {
    ROW("qnn.quantize", quantize, quantize_args, quantize_attrs, OP_OPAQUE, rel_quantize,
        "(float32[4], float32, int32, out_dtype=\"int8\")", "Reals as integers of a scale."),
    ROW("qnn.dequantize", dequantize, dequantize_args, dequantize_attrs, OP_OPAQUE, rel_dequantize,
        "(int8[4], float32, int32)", "Integers of a scale as reals."),
    ROW("qnn.requantize", requantize, requantize_args, requantize_attrs, OP_OPAQUE, rel_requantize,
        "(int32[4], float32, int32, float32, int32, out_dtype=\"int8\")",
        "Integers of one scale in another."),
    ROW("qnn.dense", qnn_dense, product_args, dense_attrs, OP_OPAQUE, rel_qnn_dense,
        "(int8[2,3], int8[4,3], int32, int32, float32, float32, units=4, out_dtype=\"int32\")",
        "`nn.dense` of quantised numbers, summed as integers."),
    ROW("qnn.contrib_dense_pack", qnn_dense, product_args, dense_pack_attrs, OP_OPAQUE,
        rel_qnn_dense,
        "(int8[2,3], int8[2,3,4], int32, int32, float32, float32, units=8, out_dtype=\"int32\", "
        "weight_layout=\"NC4n\")",
        "`nn.contrib_dense_pack` of quantised numbers, summed as integers."),
    ROW("qnn.conv2d", qnn_conv2d, product_args, conv2d_attrs, OP_OPAQUE, rel_qnn_conv2d,
        "(uint8[1,1,3,3], uint8[2,1,2,2], int32, int32, float32, float32, out_dtype=\"int32\")",
        "`nn.conv2d` of quantised numbers, summed as integers."),
    ROW("qnn.add", qnn_add, binary_args, binary_attrs, OP_BROADCAST, rel_qnn_binary, BINARY_SAMPLES,
        "The sum of quantised numbers."),
    ROW("qnn.subtract", qnn_subtract, binary_args, binary_attrs, OP_BROADCAST, rel_qnn_binary,
        BINARY_SAMPLES, "The difference of quantised numbers."),
    ROW("qnn.mul", qnn_mul, binary_args, binary_attrs, OP_BROADCAST, rel_qnn_mul, BINARY_SAMPLES,
        "The product of quantised numbers."),
    ROW("qnn.concatenate", qnn_concatenate, concatenate_args, concatenate_attrs, OP_OPAQUE,
        rel_qnn_concatenate,
        "((uint8[2], uint8[2]), (float32, float32), (int32, int32), float32, int32)",
        "Quantised tensors joined along an axis, in one scale."),
    UNARY(UNARY_ROW) ROW("qnn.hardswish", qnn_hardswish, unary_args, NULL, OP_OPAQUE, rel_qnn_unary,
                         "(int8[4], float32, int32, float32, int32)",
                         "x clip(x + 3, 0, 6) / 6 of quantised numbers."),
    ROW("qnn.leaky_relu", qnn_leaky_relu, unary_args, leaky_attrs, OP_OPAQUE, rel_qnn_unary,
        "(int8[4], float32, int32, float32, int32)", "`nn.leaky_relu` of quantised numbers."),
    ROW("qnn.softmax", qnn_softmax, unary_args, softmax_attrs, OP_OPAQUE, rel_qnn_softmax,
        "(int8[2,3], float32, int32, float32, int32)", "`nn.softmax` of quantised numbers."),
    ROW("qnn.conv2d_transpose", qnn_conv2d_transpose, product_args, conv2d_transpose_attrs,
        OP_OPAQUE, rel_qnn_conv2d_transpose,
        "(uint8[1,1,3,3], uint8[2,1,2,2], int32, int32, float32, float32, out_dtype=\"int32\")",
        "`nn.conv2d_transpose` of quantised numbers, summed as integers."),
    ROW("qnn.batch_matmul", qnn_batch_matmul, matmul_args, batch_matmul_attrs, OP_OPAQUE,
        rel_qnn_batch_matmul,
        "(int8[1,2,3], int8[1,3,2], int32, int32, float32, float32, out_dtype=\"int32\")",
        "`nn.batch_matmul` of quantised numbers, summed as integers."),
    ROW("qnn.avg_pool2d", qnn_avg_pool2d, pool_args, avg2d_attrs, OP_OUT_FUSABLE,
        rel_qnn_avg_pool2d, "(uint8[1,1,4,4], float32, int32, float32, int32, pool_size=[2, 2])",
        "`nn.avg_pool2d` of quantised numbers, divided as integers."),
    {0},
};
