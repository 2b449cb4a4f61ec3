/* Writes operators on quantised numbers as arithmetic on integers and reals.
 *
 *     qnn.dequantize(%x, 0.5f, 3)
 *  => multiply(qnn_cast(subtract(qnn_cast(%x, dtype="int32"), 3), dtype="float32"), 0.5f)
 *
 * Products with a scale are computed in fixed point where the scales are constants, or on reals where `compute_dtype` says so. An operator
 * whose scales are not known stays, and so does one whose vectors may not fit. */
#include "passes/qnn_lower.h"
#include "passes/types.h"

#include "ir/equal.h"

#include <math.h>
#include <string.h>

typedef Expr *Rule(Lower *l);

static const DType int16_type = {DTYPE_CODE_INT, 16, 1};
const DType qnn_int32 = {DTYPE_CODE_INT, 32, 1};
static const DType int64_type = {DTYPE_CODE_INT, 64, 1};
static const DType float_type = {DTYPE_CODE_FLOAT, 32, 1};

/* ---- short forms ------------------------------------------------------------------------------------------------- */

static Expr *call1(Lower *l, const char *op, Expr *x)
{
    return ops_call1(&l->m, op, x);
}

Expr *qnn_call2(Lower *l, const char *op, Expr *x, Expr *y)
{
    return ops_call2(&l->m, op, x, y);
}

Expr *qnn_cast(Lower *l, Expr *e, DType to)
{
    return ops_cast(&l->m, e, to);
}

static Attr attr_real(const char *key, double v)
{
    return (Attr){.key = key, .value = {.kind = ATTR_FLOAT, .f = v}};
}

static bool is_int32(DType t)
{
    return dtype_eq(t, qnn_int32);
}

/* Into the range of the type, then of the type. */
static Expr *narrow(Lower *l, Expr *e, DType to)
{
    double half = ldexp(1, to.bits - 1);
    bool sign = to.code == DTYPE_CODE_INT;
    Attr attrs[2] = {attr_real("a_min", sign ? -half : 0),
                     attr_real("a_max", sign ? half - 1 : 2 * half - 1)};
    return qnn_cast(l, ops_call(&l->m, "clip", 1, &e, 2, attrs), to);
}

const Type *qnn_tensor_of(const Expr *e)
{
    return expr_tensor_type(e);
}

/* A vector of one number as that number. */
Expr *qnn_only_number(Lower *l, Expr *e)
{
    const Type *t = qnn_tensor_of(e);
    double number;
    if (!t || t->n == 0)
        return e;
    if (qnn_constant_number(e, &number))
        return ops_constant(&l->m, t->dtype, number);
    Attr attr = ops_attr_ints(&l->m, "newshape", 0, NULL);
    return ops_call(&l->m, "reshape", 1, &e, 1, &attr);
}

/* A vector for an axis, so that it broadcasts; a scalar as it is. */
static Expr *expand(Lower *l, Expr *e, const Type *t, int64_t axis)
{
    const Type *et = qnn_tensor_of(e);
    if (!et || et->n == 0)
        return e;
    if (t->n == 0)
        return qnn_only_number(l, e);
    return ops_expand_to_axis(&l->m, e, (int)t->n, (int)(axis < 0 ? axis + t->n : axis));
}

/* A zero point or another number for each channel, as a vector even if it is one for all. Then the axis may be none of the tensor's. */
Expr *qnn_expand_vector(Lower *l, Expr *e, const Type *t, int64_t axis)
{
    if (axis < -(int64_t)t->n || axis >= (int64_t)t->n)
        return expand(l, e, t, 0);
    Attr attr = ops_attr_ints(&l->m, "newshape", 1, (int64_t[]){-1});
    e = ops_call(&l->m, "reshape", 1, &e, 1, &attr);
    return ops_expand_to_axis(&l->m, e, (int)t->n, (int)(axis < 0 ? axis + t->n : axis));
}

bool qnn_constant_number(const Expr *e, double *out)
{
    const Constant *c = expr_as_constant(e);
    TensorView v;
    if (!c || !value_view(&c->value, &v) || v.t.size != 1)
        return false;
    *out = tensor_get_double(&v.t, 0);
    return true;
}

bool qnn_is_zero(const Expr *e)
{
    double d;
    return qnn_constant_number(e, &d) && d == 0;
}

static bool same_number(const Expr *a, const Expr *b)
{
    double x, y;
    if (qnn_constant_number(a, &x) && qnn_constant_number(b, &y))
        return x == y;
    return a == b || ir_equal(a, b, false);
}

/* ---- products with scales ---------------------------------------------------------------------------------------- */

/* The factor as multiplier * 2^(shift - 31). */
static void fixed_point(double factor, int64_t *multiplier, int *shift)
{
    double significand = frexp(factor, shift);
    *multiplier = (int64_t)round(ldexp(significand, 31));
    if (*multiplier == (int64_t)1 << 31) {
        *multiplier /= 2;
        ++*shift;
    }
    if (factor == 0)
        *shift = 0;
}

static Expr *number64(Lower *l, int64_t v)
{
    return expr_constant(l->m.arena, l->m.span, value_scalar_int(int64_type, v));
}

/* A scalar of int64, or a vector brought to the axis. */
static Expr *numbers64(Lower *l, int64_t n, const int64_t *v, const Type *t, int64_t axis)
{
    if (n == 1)
        return number64(l, v[0]);
    Tensor *tensor = tensor_new(&l->m.cx->limits, int64_type, 1, &n);
    if (!tensor)
        return NULL;
    for (int64_t i = 0; i < n; i++)
        dtype_set_int(int64_type, tensor->data + 8 * i, v[i]);
    Value value = value_tensor(tensor);
    Expr *e = expr_constant(l->m.arena, l->m.span, value);
    value_release(value);
    return e ? ops_expand_to_axis(&l->m, e, (int)t->n, (int)(axis < 0 ? axis + t->n : axis)) : NULL;
}

/* The numbers in the shape of the tensor, where that is known. */
static Expr *full64(Lower *l, Expr *e, const Type *t)
{
    const Constant *c = expr_as_constant(e);
    bool scalar = c && c->value.kind == VALUE_SCALAR;
    Attr attrs[2] = {ops_attr_ints(&l->m, "shape", t->n, t->dims),
                     ops_attr_dtype(&l->m, "dtype", int64_type)};
    if (!type_is_static(t))
        return e;
    if (scalar && qnn_is_zero(e))
        return ops_call(&l->m, "zeros", 0, NULL, 2, attrs);
    return ops_call(&l->m, scalar ? "full" : "broadcast_to", 1, &e, scalar ? 2 : 1, attrs);
}

/* x * factor, rounded, on int64: shifted up, multiplied, shifted down. */
static Expr *multiply_wide(Lower *l, Expr *x, const Type *t, int64_t axis, int64_t n,
                           const double *factors, bool upward)
{
    Arena *arena = l->m.arena;
    int64_t *up = arena_new_array(arena, int64_t, n), *by = arena_new_array(arena, int64_t, n);
    int64_t *half = arena_new_array(arena, int64_t, n), *down = arena_new_array(arena, int64_t, n);
    int64_t *below = arena_new_array(arena, int64_t, n);
    bool shifts = false;
    if (!up || !by || !half || !down || !below)
        return NULL;
    for (int64_t i = 0; i < n; i++) {
        int shift;
        fixed_point(factors[i], &by[i], &shift);
        up[i] = shift > 0 ? shift : 0;
        down[i] = 31 + (shift > 0 ? 0 : -shift);
        half[i] = down[i] < 63 ? (int64_t)1 << (down[i] - 1) : INT64_MAX;
        down[i] = down[i] < 63 ? down[i] : 63;
        below[i] = half[i] - 1;
        shifts |= up[i] > 0;
    }
    x = qnn_cast(l, x, int64_type);
    if (shifts)
        x = qnn_call2(l, "left_shift", x, numbers64(l, n, up, t, axis));
    x = qnn_call2(l, "multiply", x, numbers64(l, n, by, t, axis));
    Expr *rounder = numbers64(l, n, half, t, axis);
    if (!upward) {
        Expr *args[3] = {qnn_call2(l, "greater_equal", x, full64(l, number64(l, 0), t)),
                         full64(l, rounder, t), full64(l, numbers64(l, n, below, t, axis), t)};
        rounder = ops_call(&l->m, "where", 3, args, 0, NULL);
    }
    x = qnn_call2(l, "right_shift", qnn_call2(l, "add", x, rounder),
                  numbers64(l, n, down, t, axis));
    return qnn_cast(l, x, qnn_int32);
}

Expr *qnn_multiply_fixed(Lower *l, Expr *x, const Type *t, int64_t axis, int64_t n,
                         const double *factors, bool upward)
{
    if (n != 1 || !upward)
        return multiply_wide(l, x, t, axis, n, factors, upward);
    int64_t multiplier;
    int shift;
    fixed_point(factors[0], &multiplier, &shift);
    Attr attrs[2] = {ops_attr_int("multiplier", multiplier), ops_attr_int("shift", shift)};
    return ops_call(&l->m, "fixed_point_multiply", 1, &x, 2, attrs);
}

/* How a value is requantised: the attributes of `qnn.requantize`, or what others mean by it. */
typedef struct Requantize {
    const Type *t; /* of the integers */
    Expr *scale, *zero, *to_scale, *to_zero;
    DType to;
    int64_t axis;
    bool upward, reals;
    DType real;
} Requantize;

/* scale / to_scale for each channel; 0 when they are not known, or no fixed-point number holds them: that fails when it runs. */
static int64_t factors_of(Lower *l, const Requantize *r, double **out)
{
    const Constant *c = expr_as_constant(r->scale);
    TensorView v;
    double to;
    if (!c || !value_view(&c->value, &v) || v.t.size < 1 || !qnn_constant_number(r->to_scale, &to))
        return 0;
    *out = arena_new_array(l->m.arena, double, v.t.size);
    bool ok = *out != NULL;
    for (int64_t i = 0; ok && i < v.t.size; i++) {
        (*out)[i] = tensor_get_double(&v.t, i) / to;
        ok = fabs((*out)[i]) < 0x1p31;
    }
    return ok ? v.t.size : 0;
}

static Expr *requantize_reals(Lower *l, Expr *x, const Requantize *r)
{
    x = qnn_cast(l, x, r->real);
    if (!qnn_is_zero(r->zero))
        x = qnn_call2(l, "subtract", x, qnn_cast(l, expand(l, r->zero, r->t, r->axis), r->real));
    if (!same_number(r->scale, r->to_scale))
        x = qnn_call2(l, "multiply", x,
                      qnn_call2(l, "divide",
                                qnn_cast(l, expand(l, r->scale, r->t, r->axis), r->real),
                                qnn_cast(l, r->to_scale, r->real)));
    if (!qnn_is_zero(r->to_zero))
        x = qnn_call2(l, "add", x, qnn_cast(l, r->to_zero, r->real));
    x = r->upward ? call1(l, "floor", qnn_call2(l, "add", x, ops_constant(&l->m, r->real, 0.5)))
                  : call1(l, "round", x);
    if (is_int32(r->to)) /* whose greatest no float32 is: the next one wraps */
        x = qnn_cast(l, x, dtype_of(DT_FLOAT64));
    return narrow(l, x, r->to);
}

static Expr *requantize_integers(Lower *l, Expr *x, const Requantize *r)
{
    double *factors = NULL;
    int64_t n = factors_of(l, r, &factors);
    if (!n)
        return NULL;
    x = qnn_cast(l, x, qnn_int32);
    if (!qnn_is_zero(r->zero))
        x = qnn_call2(l, "subtract", x,
                      qnn_cast(l, qnn_expand_vector(l, r->zero, r->t, r->axis), qnn_int32));
    if (!same_number(r->scale, r->to_scale))
        x = qnn_multiply_fixed(l, x, r->t, r->axis, n, factors, r->upward);
    if (!qnn_is_zero(r->to_zero))
        x = qnn_call2(l, "add", qnn_cast(l, r->to_zero, qnn_int32), x);
    return is_int32(r->to) ? x : narrow(l, x, r->to);
}

/* ---- rules -------------------------------------------------------------------------------------------------------- */

static int64_t axis_of(const Lower *l, const char *key)
{
    return attrs_int(l->call->attrs, key, -1);
}

static Expr *lower_quantize(Lower *l)
{
    const Type *t = qnn_tensor_of(l->args[0]);
    int64_t axis = axis_of(l, "axis");
    Expr *e = call1(l, "round", qnn_call2(l, "divide", l->args[0], expand(l, l->args[1], t, axis)));
    e = qnn_call2(l, "add", e, qnn_cast(l, expand(l, l->args[2], t, axis), t->dtype));
    if (is_int32(l->type->dtype)) /* whose greatest no float32 is: the next one wraps */
        e = qnn_cast(l, e, dtype_of(DT_FLOAT64));
    return narrow(l, e, l->type->dtype);
}

static Expr *lower_dequantize(Lower *l)
{
    const Type *t = qnn_tensor_of(l->args[0]);
    int64_t axis = axis_of(l, "axis");
    Expr *e = qnn_call2(l, "subtract", qnn_cast(l, l->args[0], qnn_int32),
                        expand(l, l->args[2], t, axis));
    e = qnn_call2(l, "multiply", qnn_cast(l, e, float_type), expand(l, l->args[1], t, axis));
    return dtype_eq(l->type->dtype, float_type) ? e : qnn_cast(l, e, l->type->dtype);
}

static Expr *lower_requantize(Lower *l)
{
    Str compute = attrs_string(l->call->attrs, "compute_dtype");
    Requantize r = {.t = qnn_tensor_of(l->args[0]),
                    .scale = l->args[1],
                    .zero = l->args[2],
                    .to_scale = l->args[3],
                    .to_zero = l->args[4],
                    .to = l->type->dtype,
                    .axis = axis_of(l, "axis"),
                    .upward = !str_is(attrs_string(l->call->attrs, "rounding"), "TONEAREST")};
    if (!str_is(compute, "float32") && !str_is(compute, "float64"))
        return requantize_integers(l, l->args[0], &r);
    dtype_parse(compute, &r.real);
    return requantize_reals(l, l->args[0], &r);
}

/* An operand as int32 by the scale and zero point of the result. */
static Expr *operand(Lower *l, uint32_t i)
{
    uint32_t at = 2 + 2 * i;
    Requantize r = {.t = qnn_tensor_of(l->args[i]),
                    .scale = l->args[at],
                    .zero = l->args[at + 1],
                    .to_scale = l->args[6],
                    .to_zero = l->args[7],
                    .to = qnn_int32,
                    .axis = axis_of(l, i ? "rhs_axis" : "lhs_axis"),
                    .upward = true};
    if (same_number(r.scale, r.to_scale) && same_number(r.zero, r.to_zero))
        return qnn_cast(l, l->args[i], qnn_int32);
    return requantize_integers(l, l->args[i], &r);
}

static Expr *lower_sum(Lower *l, const char *op, const char *correct)
{
    Expr *x = operand(l, 0), *y = operand(l, 1);
    Expr *e = x && y ? qnn_call2(l, op, x, y) : NULL;
    if (e && !qnn_is_zero(l->args[7]))
        e = qnn_call2(l, correct, e, l->args[7]);
    return e ? narrow(l, e, l->type->dtype) : NULL;
}

static Expr *lower_add(Lower *l)
{
    return lower_sum(l, "add", "subtract");
}

static Expr *lower_subtract(Lower *l)
{
    return lower_sum(l, "subtract", "add");
}

static Expr *shifted(Lower *l, uint32_t i, uint32_t zero, int64_t axis, DType to)
{
    const Type *t = qnn_tensor_of(l->args[i]);
    Expr *e = qnn_cast(l, l->args[i], to), *z = expand(l, l->args[zero], t, axis);
    if (qnn_is_zero(l->args[zero]))
        return e;
    return qnn_call2(l, "subtract", e, is_int32(to) ? z : qnn_cast(l, z, to));
}

/* The product of two scales that are constants, of which one may be a vector or both; NULL otherwise. */
static Expr *product_of_scales(Lower *l, const Expr *a, const Expr *b)
{
    const Constant *x = expr_as_constant(a), *y = expr_as_constant(b);
    TensorView v, w;
    if (!x || !y || !value_view(&x->value, &v) || !value_view(&y->value, &w))
        return NULL;
    int64_t n = v.t.size > w.t.size ? v.t.size : w.t.size;
    if ((v.t.size != 1 && v.t.size != n) || (w.t.size != 1 && w.t.size != n))
        return NULL;
    if (n == 1)
        return ops_constant(&l->m, float_type,
                            tensor_get_double(&v.t, 0) * tensor_get_double(&w.t, 0));
    Tensor *all = tensor_new(&l->m.cx->limits, float_type, 1, &n);
    for (int64_t i = 0; all && i < n; i++)
        dtype_set_double(float_type, all->data + 4 * i,
                         tensor_get_double(&v.t, v.t.size == 1 ? 0 : i) *
                             tensor_get_double(&w.t, w.t.size == 1 ? 0 : i));
    if (!all)
        return NULL;
    Value value = value_tensor(all);
    Expr *e = expr_constant(l->m.arena, l->m.span, value);
    value_release(value);
    return e;
}

/* The axis, from the end, along which vectors of operand i lie. */
static int64_t axis_from_end(const Lower *l, uint32_t i)
{
    int64_t axis = axis_of(l, i ? "rhs_axis" : "lhs_axis");
    return axis < 0 ? axis : axis - qnn_tensor_of(l->args[i])->n;
}

static Expr *lower_mul(Lower *l)
{
    Expr *scale = product_of_scales(l, l->args[2], l->args[4]);
    const Type *left = qnn_tensor_of(l->args[2]);
    if (!scale)
        return NULL;
    Expr *e = qnn_call2(l, "multiply", shifted(l, 0, 3, axis_of(l, "lhs_axis"), qnn_int32),
                        shifted(l, 1, 5, axis_of(l, "rhs_axis"), qnn_int32));
    Requantize r = {.t = l->type,
                    .scale = scale,
                    .zero = ops_constant(&l->m, qnn_int32, 0),
                    .to_scale = l->args[6],
                    .to_zero = l->args[7],
                    .to = l->type->dtype,
                    .axis = axis_from_end(l, left->n == 0 || left->dims[0] == 1),
                    .upward = true};
    return requantize_integers(l, e, &r);
}

/* The attributes of the product without `qnn.`. */
uint32_t qnn_copy_attrs(const Lower *l, Attr *attrs)
{
    uint32_t n = 0;
    for (uint32_t i = 0; l->call->attrs && i < l->call->attrs->n && i < 32; i++)
        attrs[n++] = l->call->attrs->at[i];
    return n;
}

Expr *qnn_product(Lower *l, Expr *x, Expr *w)
{
    Attr attrs[32];
    Expr *args[2] = {x, w};
    uint32_t n = qnn_copy_attrs(l, attrs);
    return ops_call(&l->m, expr_call_of_op(&l->call->base)->name + 1 /* nn. */, 2, args, n, attrs);
}

Expr *qnn_sum_along(Lower *l, Expr *e, uint32_t n, const int64_t *axes, bool keep)
{
    Attr attrs[2] = {ops_attr_ints(&l->m, "axis", n, axes), ops_attr_bool("keepdims", keep)};
    e = qnn_cast(l, e, qnn_int32);
    return ops_call(&l->m, "sum", 1, &e, 2, attrs);
}

/* The terms of a product that are not 0; `fourth` holds no unknown where the others need none. */
Expr *qnn_combine(Lower *l, Expr *first, Expr *second, Expr *third, Expr *fourth)
{
    if (!second || !third)
        return second || third ? qnn_call2(l, "subtract", first, second ? second : third) : first;
    return qnn_call2(l, "add", qnn_call2(l, "subtract", first, second),
                     qnn_call2(l, "subtract", fourth, third));
}

Expr *qnn_number32(Lower *l, double v)
{
    return ops_constant(&l->m, qnn_int32, v);
}

/* zx * zw * n */
Expr *qnn_zeros_product(Lower *l, Expr *zx, Expr *zw, int64_t n)
{
    double a, b;
    if (qnn_constant_number(zx, &a) && qnn_constant_number(zw, &b))
        return qnn_number32(l, a * b * (double)n);
    return qnn_call2(l, "multiply", qnn_call2(l, "multiply", zx, zw), qnn_number32(l, (double)n));
}

/* The four terms of (x - zx) * (w - zw). */
static Expr *lower_dense(Lower *l)
{
    static const int64_t last[] = {1};
    const Type *t = qnn_tensor_of(l->args[0]);
    Expr *zx = l->args[2], *zw = l->args[3];
    if (!t || t->n != 2 || t->dims[1] < 0 || !is_int32(l->type->dtype))
        return NULL;
    Expr *second = qnn_is_zero(zw)
                       ? NULL
                       : qnn_call2(l, "multiply", zw, qnn_sum_along(l, l->args[0], 1, last, true));
    Expr *third = qnn_is_zero(zx)
                      ? NULL
                      : qnn_call2(l, "multiply", zx, qnn_sum_along(l, l->args[1], 1, last, false));
    return qnn_combine(l, qnn_product(l, l->args[0], l->args[1]), second, third,
                       qnn_zeros_product(l, zx, zw, t->dims[1]));
}

/* Whether the elements without the zero point are numbers of 16 bits, whatever they are. */
static bool fits_half(const Lower *l, uint32_t i, uint32_t zero)
{
    double z;
    return qnn_tensor_of(l->args[i])->dtype.bits == 8 && qnn_constant_number(l->args[zero], &z) &&
           z >= UINT8_MAX - INT16_MAX && z <= INT8_MIN - INT16_MIN;
}

/* Zero points are taken off before; where there are none, the integers go in as they are. */
Expr *qnn_lower_product(Lower *l)
{
    if (!is_int32(l->type->dtype))
        return NULL;
    if (qnn_is_zero(l->args[2]) && qnn_is_zero(l->args[3]))
        return qnn_product(l, l->args[0], l->args[1]);
    const Type *x = qnn_tensor_of(l->args[0]), *w = qnn_tensor_of(l->args[1]);
    bool plain = qnn_tensor_of(l->args[2]) && qnn_tensor_of(l->args[2])->n == 0 && x && w &&
                 qnn_tensor_of(l->args[3]) && qnn_tensor_of(l->args[3])->n == 0;
    if (!plain)
        return NULL;
    DType to = fits_half(l, 0, 2) && fits_half(l, 1, 3) ? int16_type : qnn_int32;
    return qnn_product(l, shifted(l, 0, 2, -1, to), shifted(l, 1, 3, -1, to));
}

static Expr *lower_batch_matmul(Lower *l)
{
    static const int64_t last[] = {2};
    const Type *x = qnn_tensor_of(l->args[0]), *y = qnn_tensor_of(l->args[1]);
    Expr *zx = l->args[2], *zy = l->args[3];
    bool known = x && y && type_is_static(x) && type_is_static(y) && is_int32(l->type->dtype) &&
                 qnn_tensor_of(zx)->n == 0 && qnn_tensor_of(zy)->n == 0;
    if (!known || attrs_bool(l->call->attrs, "transpose_a") ||
        !attrs_bool(l->call->attrs, "transpose_b"))
        return qnn_lower_product(l);
    Expr *second = qnn_is_zero(zy)
                       ? NULL
                       : qnn_call2(l, "multiply", zy, qnn_sum_along(l, l->args[0], 1, last, true));
    Expr *third = NULL;
    if (!qnn_is_zero(zx)) {
        Attr shape = ops_attr_ints(&l->m, "newshape", 3, (int64_t[]){y->dims[0], 1, y->dims[1]});
        third = qnn_call2(l, "multiply", zx, qnn_sum_along(l, l->args[1], 1, last, true));
        third = ops_call(&l->m, "reshape", 1, &third, 1, &shape);
    }
    return qnn_combine(l, qnn_product(l, l->args[0], l->args[1]), second, third,
                       qnn_zeros_product(l, zx, zy, x->dims[2]));
}

/* What is put together, one by one. */
static Expr *part(Lower *l, Expr *e, uint32_t i)
{
    const Tuple *t = expr_as_tuple(e);
    return t ? t->fields.at[i]
             : expr_type_ops(l->m.cx, expr_tuple_get(l->m.arena, l->m.span, e, i));
}

static Expr *lower_concatenate(Lower *l)
{
    const Tuple *scales = expr_as_tuple(l->args[1]), *zeros = expr_as_tuple(l->args[2]);
    if (!scales || !zeros)
        return NULL;
    uint32_t n_parts = scales->fields.n;
    Expr **fields = arena_new_array(l->m.arena, Expr *, n_parts + 1);
    for (uint32_t i = 0; fields && i < n_parts; i++) {
        Expr *e = part(l, l->args[0], i);
        Requantize r = {.t = qnn_tensor_of(e),
                        .scale = scales->fields.at[i],
                        .zero = zeros->fields.at[i],
                        .to_scale = l->args[3],
                        .to_zero = l->args[4],
                        .to = l->type->dtype,
                        .axis = -1,
                        .upward = true};
        bool same = same_number(r.scale, r.to_scale) && same_number(r.zero, r.to_zero);
        fields[i] = same ? e : requantize_integers(l, e, &r);
        if (!fields[i])
            return NULL;
    }
    Attr attrs[32];
    Expr *all = expr_tuple(l->m.arena, l->m.span, n_parts, fields);
    uint32_t n = qnn_copy_attrs(l, attrs);
    return ops_call(&l->m, "concatenate", 1, &all, n, attrs);
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

/* Whether parameter i is sure to be what the operator asks for: one number, or one for each along the axis of t. With `?` that is found when
 * the program runs, by the operator and not by what broadcasts. */
static bool is_parameter(const Lower *l, uint32_t i, const Type *t, int64_t axis)
{
    const Type *p = qnn_tensor_of(l->args[i]);
    int64_t rank = t ? t->n : 0;
    axis += axis < 0 ? rank : 0;
    return p && (p->n == 0 || p->dims[0] == 1 ||
                 (axis >= 0 && axis < rank && ops_is_along(l->m.cx, l->args[i], t, (int)axis)));
}

static bool are_numbers(const Lower *l, uint32_t i)
{
    return is_parameter(l, i, NULL, 0) && is_parameter(l, i + 1, NULL, 0);
}

static bool fits_tensor(const Lower *l)
{
    const Type *t = qnn_tensor_of(l->args[0]);
    int64_t axis = axis_of(l, "axis");
    return is_parameter(l, 1, t, axis) && is_parameter(l, 2, t, axis) &&
           (l->call->args.n < 5 || are_numbers(l, 3));
}

static bool fits_operands(const Lower *l)
{
    bool fits = are_numbers(l, 6);
    for (uint32_t i = 0; fits && i < 2; i++) {
        const Type *t = qnn_tensor_of(l->args[i]);
        int64_t axis = axis_of(l, i ? "rhs_axis" : "lhs_axis");
        fits = is_parameter(l, 2 + 2 * i, t, axis) && is_parameter(l, 3 + 2 * i, t, axis);
    }
    return fits;
}

/* Where the extents of the weight and of its zero points are numbers, they were compared with one another. */
static bool fits_product(const Lower *l)
{
    const Type *w = qnn_tensor_of(l->args[1]), *zw = qnn_tensor_of(l->args[3]);
    return is_parameter(l, 2, NULL, 0) && is_parameter(l, 4, NULL, 0) &&
           (is_parameter(l, 3, NULL, 0) || (w && zw && type_is_static(w) && type_is_static(zw)));
}

static bool fits_parts(const Lower *l)
{
    return are_numbers(l, 3);
}

static const struct {
    const char *op;
    Rule *rule;
    bool (*fits)(const Lower *l);
} rules[] = {
    {"qnn.quantize", lower_quantize, fits_tensor},
    {"qnn.dequantize", lower_dequantize, fits_tensor},
    {"qnn.requantize", lower_requantize, fits_tensor},
    {"qnn.add", lower_add, fits_operands},
    {"qnn.subtract", lower_subtract, fits_operands},
    {"qnn.mul", lower_mul, fits_operands},
    {"qnn.dense", lower_dense, fits_product},
    {"qnn.conv2d", qnn_lower_conv2d, fits_product},
    {"qnn.conv2d_transpose", qnn_lower_product, fits_product},
    {"qnn.batch_matmul", lower_batch_matmul, fits_product},
    {"qnn.concatenate", lower_concatenate, fits_parts},
};

static Expr *lower(Rewriter *rw, const Expr *old, Expr *now)
{
    const Op *op = expr_call_of_op(now);
    expr_keep_type(now, old);
    const Type *t = old->type ? type_find(old->type) : NULL;
    if (!op || !t || t->kind != TYPE_TENSOR)
        return now;
    const Call *call = expr_as_call(now);
    Lower l = {{rw->cx, &rw->module->arena, now->span}, rw->module, call, call->args.at, t};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        bool is_for = !strcmp(rules[i].op, op->name) && rules[i].fits(&l);
        Expr *e = is_for ? rules[i].rule(&l) : NULL;
        if (e)
            return expr_type_ops(rw->cx, e);
    }
    return now;
}

const Pass pass_qnn_canonicalize_ops = {
    .name = "qnn.CanonicalizeOps",
    .doc = "Writes operators on quantised numbers as arithmetic on integers and reals.",
    .opt_level = 1,
    .needs_types = true,
    .order = ORDER_ALL,
    .rewrite = lower,
};
