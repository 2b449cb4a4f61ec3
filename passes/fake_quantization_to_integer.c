/* Computes on integers what is computed on reals between `qnn.dequantize` and `qnn.quantize`.
 *
 *     qnn.quantize(nn.relu(reshape(qnn.dequantize(%x, 0.5f, 0), newshape=[4])), 0.5f, 0, out_dtype="int8")
 *  => maximum(reshape(%x, newshape=[4]), 0 as int8)
 *
 * Each operator in such a region has a rule that says what it is on integers, and which numbers the integers stand for. A region with an
 * operator for which there is none stays, as does one that is entered but by `qnn.dequantize` and constants. */
#include "passes/fold.h"
#include "passes/types.h"

#include "stdlib/ops/ops.h"

#include "ir/equal.h"

#include <math.h>
#include <string.h>

/* Which numbers integers stand for: (q - zero) * scale, along `axis`. */
typedef struct Affine Affine;
struct Affine {
    Expr *scale, *zero;
    DType dtype;
    int64_t axis;
    uint32_t n; /* of a tuple: its fields */
    const Affine *const *fields;
};

typedef struct Integer {
    Expr *e;
    const Affine *affine; /* NULL: no integers but a constant */
} Integer;

typedef struct Region {
    Rewriter *rw;
    OpsMake m;
    Arena *scratch;
    PtrMap known;      /* node -> Integer */
    const Affine *out; /* of the result, and of what can be anything; NULL: nobody asks for any */
    Vec(const Expr *) order;
    const Op *quantize, *dequantize;
} Region;

typedef struct Site {
    Region *region;
    const char *to; /* the operator that the rule names */
    const Call *call;
    Integer args[4];
} Site;

/* Sets what the call is on integers; false: there is none. */
typedef bool Rule(Site *s, Integer *out);

static Expr *fold(Site *s, Expr *e)
{
    return fold_new(s->region->rw->cx, s->region->rw->module, e);
}

static const Type *type_of(const Site *s, Expr *e)
{
    return expr_tensor_type(expr_type_ops(s->region->rw->cx, e));
}

static const Affine *affine_of(Site *s, Expr *scale, Expr *zero, DType dtype, int64_t axis)
{
    Affine *a = arena_new(s->region->scratch, Affine);
    if (a)
        *a = (Affine){.scale = scale, .zero = zero, .dtype = dtype, .axis = axis};
    return a;
}

static bool nearly_equal(Site *s, Expr *a, Expr *b)
{
    a = fold(s, a);
    b = fold(s, b);
    const Constant *x = expr_as_constant(a), *y = expr_as_constant(b);
    TensorView u, v;
    if (!x || !y || !value_view(&x->value, &u) || !value_view(&y->value, &v))
        return a && b && ir_equal(a, b, false);
    if (u.t.size != v.t.size)
        return false;
    for (int64_t i = 0; i < u.t.size; i++) {
        double p = tensor_get_double(&u.t, i), q = tensor_get_double(&v.t, i);
        if (!(fabs(p - q) <= 1e-8 + 1e-5 * fabs(q)))
            return false;
    }
    return true;
}

static bool same_affine(Site *s, const Affine *a, const Affine *b)
{
    return dtype_eq(a->dtype, b->dtype) && nearly_equal(s, a->scale, b->scale) &&
           nearly_equal(s, a->zero, b->zero);
}

/* The same numbers by the integers of `to`, be they others or not. */
static Expr *requantize_always(Site *s, Expr *e, const Affine *from, const Affine *to)
{
    Expr *args[5] = {e, fold(s, from->scale), fold(s, from->zero), to->scale, to->zero};
    Attr attrs[2] = {ops_attr_int("axis", from->axis),
                     ops_attr_dtype(&s->region->m, "out_dtype", to->dtype)};
    return ops_call(&s->region->m, "qnn.requantize", 5, args, 2, attrs);
}

static Expr *requantize(Site *s, Expr *e, const Affine *from, const Affine *to)
{
    return same_affine(s, from, to) ? e : requantize_always(s, e, from, to);
}

/* A constant of reals by these integers. */
static Expr *quantize(Site *s, Expr *e, const Affine *to, int64_t axis)
{
    Expr *args[3] = {e, to->scale, to->zero};
    Attr attrs[2] = {ops_attr_int("axis", axis),
                     ops_attr_dtype(&s->region->m, "out_dtype", to->dtype)};
    return ops_call(&s->region->m, "qnn.quantize", 3, args, 2, attrs);
}

/* The same call on these arguments. */
static Expr *again(Site *s, uint32_t n, Expr *const *args)
{
    return expr_call(s->region->m.arena, s->call->base.span, s->call->callee, n, args,
                     s->call->attrs);
}

static Expr *cast_to(Site *s, Expr *e, DType to)
{
    const Type *t = type_of(s, e);
    return t && dtype_eq(t->dtype, to) ? e : ops_cast(&s->region->m, e, to);
}

static const DType int32_type = {DTYPE_CODE_INT, 32, 1};

static int64_t axis_of(const Affine *a, const Type *t)
{
    return a->axis < 0 ? a->axis + t->n : a->axis;
}

static uint32_t numbers_of(Site *s, Expr *e)
{
    const Type *t = type_of(s, e);
    return !t || t->n != 1 || t->dims[0] == 1 ? 1
           : t->dims[0] > 0                   ? (uint32_t)t->dims[0]
                                              : UINT32_MAX;
}

/* How many scales or zero points there are. */
static uint32_t channels_of(Site *s, const Affine *a)
{
    uint32_t scales = numbers_of(s, a->scale), zeros = numbers_of(s, a->zero);
    return scales > zeros ? scales : zeros;
}

/* Whether what the call gives has the scales of its operand along the same axis: there is one, or the call leaves that axis alone. */
static bool keeps_scales(Site *s, const Affine *a)
{
    const Type *t = type_of(s, s->args[0].e), *out = type_find(s->call->base.type);
    const Attrs *attrs = s->call->attrs;
    const AttrValue *axes = attrs_find(attrs, "axis");
    if (!t || a->fields || channels_of(s, a) == 1)
        return t && !a->fields;
    if (out->kind == TYPE_TUPLE && out->n)
        out = type_find(out->parts[0]);
    int64_t axis = axis_of(a, t);
    if (out->kind != TYPE_TENSOR || out->n != t->n || axis < 0 || axis >= t->n ||
        out->dims[axis] != t->dims[axis] || attrs_bool(attrs, "exclude"))
        return false;
    Str layout = attrs_string(attrs, "layout");
    if (layout.len)
        return (size_t)axis < layout.len && (layout.ptr[axis] == 'C' || layout.ptr[axis] == 'N');
    axes = axes ? axes : attrs_find(attrs, "axes");
    uint32_t n = !axes                     ? 0
                 : axes->kind == ATTR_INT  ? 1
                 : axes->kind == ATTR_LIST ? axes->list.n
                                           : 0;
    for (uint32_t i = 0; i < n; i++) {
        int64_t at = axes->kind == ATTR_INT ? axes->i : axes->list.at[i].i;
        if (at == axis || at + t->n == axis)
            return false;
    }
    return n > 0;
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

static bool rule_same(Site *s, Integer *out)
{
    *out = (Integer){again(s, 1, &s->args[0].e), s->args[0].affine};
    return out->affine && keeps_scales(s, out->affine);
}

static bool rule_take(Site *s, Integer *out)
{
    Expr *args[2] = {s->args[0].e, s->args[1].e};
    *out = (Integer){again(s, 2, args), s->args[0].affine};
    return out->affine && !s->args[1].affine && keeps_scales(s, out->affine);
}

static bool rule_split(Site *s, Integer *out)
{
    const Type *t = s->call->base.type ? type_find(s->call->base.type) : NULL;
    const Affine *a = s->args[0].affine;
    if (!a || !t || t->kind != TYPE_TUPLE || !keeps_scales(s, a))
        return false;
    const Affine **fields = arena_new_array(s->region->scratch, const Affine *, t->n);
    Affine *tuple = arena_new(s->region->scratch, Affine);
    for (uint32_t i = 0; i < t->n; i++)
        fields[i] = a;
    *tuple = (Affine){.n = t->n, .fields = fields};
    *out = (Integer){again(s, 1, &s->args[0].e), tuple};
    return true;
}

static bool rule_topk(Site *s, Integer *out)
{
    return str_is(attrs_string(s->call->attrs, "ret_type"), "values") && rule_same(s, out);
}

/* Means of integers are computed on wider ones. */
static bool rule_mean(Site *s, Integer *out)
{
    const Affine *a = s->args[0].affine;
    if (!a || !keeps_scales(s, a))
        return false;
    Expr *wide = cast_to(s, s->args[0].e, int32_type);
    *out = (Integer){cast_to(s, again(s, 1, &wide), a->dtype), a};
    return true;
}

static bool all_zero(Site *s, Expr *e)
{
    const Constant *c = expr_as_constant(fold(s, e));
    TensorView v;
    if (!c || !value_view(&c->value, &v))
        return false;
    for (int64_t i = 0; i < v.t.size; i++)
        if (tensor_get_double(&v.t, i) != 0)
            return false;
    return true;
}

/* Integers are added as they are where 0 is 0, and where the sums have room: behind products. */
static bool adds_bias(Site *s)
{
    const Affine *x = s->args[0].affine;
    const Type *t = type_of(s, s->args[0].e);
    int64_t axis = attrs_int(s->call->attrs, "axis", 1);
    if (!t || !dtype_eq(x->dtype, int32_type) || !all_zero(s, x->zero))
        return false;
    return channels_of(s, x) == 1 || axis_of(x, t) == (axis < 0 ? axis + t->n : axis);
}

static bool rule_bias_add(Site *s, Integer *out)
{
    const Affine *x = s->args[0].affine, *b = s->args[1].affine;
    if (!x || !b || x->fields || b->fields || !adds_bias(s))
        return false;
    Expr *args[2] = {s->args[0].e, s->args[1].e};
    const Affine folded = {fold(s, x->scale), fold(s, x->zero), x->dtype, x->axis, 0, NULL};
    const Affine from = {b->scale, b->zero, b->dtype, 0, 0, NULL};
    args[1] = requantize(s, args[1], &from, &folded);
    *out = (Integer){again(s, 2, args), x};
    return true;
}

/* The numbers that products of integers stand for. */
static const Affine *product_affine(Site *s, int64_t axis)
{
    OpsMake *m = &s->region->m;
    Expr *scale =
        fold(s, ops_call2(m, "multiply", s->args[0].affine->scale, s->args[1].affine->scale));
    Expr *zero = fold(s, ops_cast(m, ops_call1(m, "zeros_like", scale), int32_type));
    return affine_of(s, scale, zero, int32_type, axis);
}

/* A sum of products has a scale where all numbers that go into it have one: the data, and the part of the weight for that channel. */
static bool sums_alike(Site *s, int64_t axis)
{
    const Type *out = expr_tensor_type(&s->call->base), *t = type_of(s, s->args[1].e);
    const Affine *w = s->args[1].affine;
    uint32_t n = channels_of(s, w);
    int at[4] = {0};
    if (!out || !t || channels_of(s, s->args[0].affine) != 1)
        return false;
    if (n == 1)
        return true;
    if (!strcmp(s->to, "qnn.batch_matmul"))
        return false;
    if (attrs_find(s->call->attrs, "kernel_layout") &&
        !layout_positions(attrs_string(s->call->attrs, "kernel_layout"), "OIHW", at))
        return false;
    return axis_of(w, t) == at[0] && axis < out->n && out->dims[axis] == (Dim)n;
}

static bool rule_product(Site *s, Integer *out)
{
    const Affine *x = s->args[0].affine, *w = s->args[1].affine;
    if (!x || !w || x->fields || w->fields)
        return false;
    Expr *args[6] = {s->args[0].e, s->args[1].e, x->zero, w->zero, x->scale, w->scale};
    Attr attrs[32];
    uint32_t n = 0;
    int64_t axis = 1;
    const Attrs *was = s->call->attrs;
    for (uint32_t i = 0; was && i < was->n && n < 31; i++)
        if (strcmp(was->at[i].key, "out_dtype") != 0)
            attrs[n++] = was->at[i];
    attrs[n++] = ops_attr_dtype(&s->region->m, "out_dtype", int32_type);
    int at[4];
    if (was && attrs_find(was, "data_layout")) {
        if (!layout_positions(ops_out_layout(was, "data_layout", "out_layout"), "NCHW", at))
            return false;
        axis = at[1];
    }
    const Type *t = expr_tensor_type(&s->call->base);
    if (!strcmp(s->to, "qnn.dense") && t)
        axis = (int64_t)t->n - 1;
    if (!strcmp(s->to, "qnn.batch_matmul"))
        axis = x->axis;
    if (!sums_alike(s, axis))
        return false;
    *out = (Integer){ops_call(&s->region->m, s->to, 6, args, n, attrs), product_affine(s, axis)};
    return out->e != NULL;
}

static bool rule_concatenate(Site *s, Integer *out)
{
    const Affine *tuple = s->args[0].affine, *to = s->region->out;
    if (!tuple || !tuple->fields || !to)
        return false;
    Expr **scales = arena_new_array(s->region->scratch, Expr *, tuple->n + 1);
    Expr **zeros = arena_new_array(s->region->scratch, Expr *, tuple->n + 1);
    for (uint32_t i = 0; i < tuple->n; i++) {
        if (!tuple->fields[i] || channels_of(s, tuple->fields[i]) != 1)
            return false;
        scales[i] = tuple->fields[i]->scale;
        zeros[i] = tuple->fields[i]->zero;
    }
    OpsMake *m = &s->region->m;
    Expr *args[5] = {s->args[0].e, expr_tuple(m->arena, m->span, tuple->n, scales),
                     expr_tuple(m->arena, m->span, tuple->n, zeros), to->scale, to->zero};
    *out = (Integer){ops_call(m, "qnn.concatenate", 5, args, 1,
                              &(Attr){.key = "axis", .value = *attrs_find(s->call->attrs, "axis")}),
                     to};
    return out->e != NULL;
}

/* A scale or a zero point of one number. */
static bool one_number(Site *s, Expr *e, double *number)
{
    const Constant *c = expr_as_constant(fold(s, e));
    TensorView v;
    if (!c || !value_view(&c->value, &v) || v.t.size != 1)
        return false;
    *number = tensor_get_double(&v.t, 0);
    return true;
}

/* A vector with one element for each channel, as it broadcasts along them. */
static Expr *along_channels(Site *s, Expr *e, const Affine *a, const Type *t)
{
    const Type *et = type_of(s, e);
    if (!et || et->n != 1 || et->dims[0] == 1)
        return e;
    int64_t shape[TENSOR_RANK_MOST];
    int64_t axis = a->axis < 0 ? a->axis + t->n : a->axis;
    for (uint32_t i = 0; i < t->n; i++)
        shape[i] = i == axis ? -1 : 1;
    Attr attr = ops_attr_ints(&s->region->m, "newshape", t->n, shape);
    return ops_call(&s->region->m, "reshape", 1, &e, 1, &attr);
}

/* The real as the integers of each channel. */
static Expr *bound(Site *s, double real, const Affine *a, const Type *t)
{
    OpsMake *m = &s->region->m;
    Expr *number = ops_constant(m, (DType){DTYPE_CODE_FLOAT, 32, 1}, real);
    Expr *vector = ops_call2(m, "multiply", ops_call1(m, "ones_like", a->scale), number);
    return fold(s, along_channels(s, quantize(s, vector, a, 0), a, t));
}

static bool rule_clip(Site *s, Integer *out)
{
    const Affine *a = s->args[0].affine;
    double scale, zero, least = attrs_float(s->call->attrs, "a_min");
    double most = attrs_float(s->call->attrs, "a_max");
    OpsMake *m = &s->region->m;
    if (!a)
        return false;
    out->affine = a;
    if (one_number(s, a->scale, &scale) && one_number(s, a->zero, &zero)) {
        Attr attrs[2] = {
            {.key = "a_min", .value = {.kind = ATTR_FLOAT, .f = trunc(least / scale + zero)}},
            {.key = "a_max", .value = {.kind = ATTR_FLOAT, .f = trunc(most / scale + zero)}}};
        out->e = ops_call(m, "clip", 1, &s->args[0].e, 2, attrs);
        return out->e != NULL;
    }
    const Type *t = type_of(s, s->args[0].e);
    if (!t)
        return false;
    out->e = ops_call2(m, "minimum", ops_call2(m, "maximum", s->args[0].e, bound(s, least, a, t)),
                       bound(s, most, a, t));
    return out->e != NULL;
}

static bool rule_relu(Site *s, Integer *out)
{
    const Affine *a = s->args[0].affine;
    const Type *t = a ? type_of(s, s->args[0].e) : NULL;
    if (!t)
        return false;
    Expr *zero = along_channels(s, a->zero, a, t);
    *out = (Integer){
        ops_call2(&s->region->m, "maximum", s->args[0].e, fold(s, cast_to(s, zero, a->dtype))), a};
    return out->e != NULL;
}

static bool rule_leaky_relu(Site *s, Integer *out)
{
    const Affine *a = s->args[0].affine;
    if (!a)
        return false;
    Expr *args[5] = {s->args[0].e, a->scale, a->zero, a->scale, a->zero};
    int arity = op_arity(op_find(s->region->rw->cx, str_of("qnn.leaky_relu")));
    *out =
        (Integer){ops_call(&s->region->m, "qnn.leaky_relu", (uint32_t)arity, args, 1,
                           &(Attr){.key = "alpha", .value = *attrs_find(s->call->attrs, "alpha")}),
                  a};
    return out->e != NULL;
}

static bool rule_pad(Site *s, Integer *out)
{
    const Affine *a = s->args[0].affine, *p = s->args[1].affine;
    if (!a)
        return false;
    Expr *args[2] = {s->args[0].e,
                     p ? requantize(s, s->args[1].e, p, a) : quantize(s, s->args[1].e, a, -1)};
    *out = (Integer){again(s, 2, args), a};
    return true;
}

/* An operand that is a constant has the numbers of the other. What the result has: those of the region's, where nothing speaks against
 * it. NULL: no operand has any. */
static const Affine *binary_operands(Site *s)
{
    const Affine *to = s->region->out;
    for (int i = 0; i < 2; i++) {
        const Affine *other = s->args[1 - i].affine;
        if (s->args[i].affine)
            continue;
        if (!other || other->fields || channels_of(s, other) != 1)
            return NULL;
        s->args[i] = (Integer){quantize(s, s->args[i].e, other, -1), other};
        to = other;
    }
    if (!to)
        return NULL;
    return dtype_eq(s->args[0].affine->dtype, to->dtype) ? to : s->args[0].affine;
}

static bool rule_binary(Site *s, Integer *out)
{
    const Affine *to = binary_operands(s);
    if (!to)
        return false;
    const Affine *l = s->args[0].affine, *r = s->args[1].affine;
    Expr *args[8] = {s->args[0].e, s->args[1].e, l->scale,  l->zero,
                     r->scale,     r->zero,      to->scale, to->zero};
    Attr attrs[2] = {ops_attr_int("lhs_axis", l->axis), ops_attr_int("rhs_axis", r->axis)};
    *out = (Integer){ops_call(&s->region->m, s->to, 8, args, 2, attrs), to};
    return out->e != NULL;
}

static bool rule_choice(Site *s, Integer *out)
{
    const Affine *to = binary_operands(s);
    Expr *args[2];
    if (to && channels_of(s, to) != 1)
        return false;
    for (int i = 0; i < 2 && to; i++)
        args[i] = s->args[i].affine == to
                      ? s->args[i].e
                      : requantize_always(s, s->args[i].e, s->args[i].affine, to);
    if (!to || !args[0] || !args[1])
        return false;
    *out = (Integer){again(s, 2, args), to};
    return true;
}

static bool rule_unary(Site *s, Integer *out)
{
    const Affine *a = s->args[0].affine, *to = s->region->out;
    if (!a || !to || !op_find(s->region->rw->cx, str_of(s->to)))
        return false;
    Expr *args[5] = {s->args[0].e, a->scale, a->zero, to->scale, to->zero};
    *out = (Integer){ops_call(&s->region->m, s->to, 5, args, 0, NULL), to};
    return out->e != NULL;
}

/* Where 0 is 0; the least integer has no opposite, so the one above it stands for it. */
static bool rule_abs(Site *s, Integer *out)
{
    const Affine *a = s->args[0].affine;
    double zero;
    if (!a || a->fields)
        return false;
    if (!one_number(s, a->zero, &zero) || zero != 0 || a->dtype.code != DTYPE_CODE_INT)
        return rule_unary(s, out);
    OpsMake *m = &s->region->m;
    Expr *least = ops_constant(m, a->dtype, -ldexp(1, a->dtype.bits - 1));
    Expr *where[3] = {ops_call2(m, "equal", least, s->args[0].e),
                      ops_call2(m, "add", s->args[0].e, ops_constant(m, a->dtype, 1)),
                      s->args[0].e};
    *out = (Integer){ops_call1(m, "abs", ops_call(m, "where", 3, where, 0, NULL)), a};
    return out->e != NULL;
}

static const struct {
    const char *op;
    Rule *rule;
    const char *to;
} rules[] = {
    {"reshape", rule_same, NULL},
    {"squeeze", rule_same, NULL},
    {"strided_slice", rule_same, NULL},
    {"transpose", rule_same, NULL},
    {"expand_dims", rule_same, NULL},
    {"nn.max_pool2d", rule_same, NULL},
    {"nn.batch_flatten", rule_same, NULL},
    {"nn.depth_to_space", rule_same, NULL},
    {"max", rule_same, NULL},
    {"min", rule_same, NULL},
    {"image.resize2d", rule_same, NULL},
    {"broadcast_to", rule_same, NULL},
    {"take", rule_take, NULL},
    {"split", rule_split, NULL},
    {"topk", rule_topk, NULL},
    {"nn.avg_pool2d", rule_mean, NULL},
    {"nn.adaptive_avg_pool1d", rule_mean, NULL},
    {"nn.global_avg_pool2d", rule_mean, NULL},
    {"mean", rule_mean, NULL},
    {"nn.bias_add", rule_bias_add, NULL},
    {"nn.conv2d", rule_product, "qnn.conv2d"},
    {"nn.conv2d_transpose", rule_product, "qnn.conv2d_transpose"},
    {"nn.dense", rule_product, "qnn.dense"},
    {"nn.batch_matmul", rule_product, "qnn.batch_matmul"},
    {"concatenate", rule_concatenate, NULL},
    {"clip", rule_clip, NULL},
    {"nn.relu", rule_relu, NULL},
    {"nn.leaky_relu", rule_leaky_relu, NULL},
    {"nn.pad", rule_pad, NULL},
    {"add", rule_binary, "qnn.add"},
    {"subtract", rule_binary, "qnn.subtract"},
    {"multiply", rule_binary, "qnn.mul"},
    {"minimum", rule_choice, NULL},
    {"maximum", rule_choice, NULL},
    {"sqrt", rule_unary, "qnn.sqrt"},
    {"rsqrt", rule_unary, "qnn.rsqrt"},
    {"exp", rule_unary, "qnn.exp"},
    {"erf", rule_unary, "qnn.erf"},
    {"sigmoid", rule_unary, "qnn.sigmoid"},
    {"hardswish", rule_unary, "qnn.hardswish"},
    {"tanh", rule_unary, "qnn.tanh"},
    {"abs", rule_abs, "qnn.abs"},
    {"log", rule_unary, "qnn.log"},
};

/* ---- regions ----------------------------------------------------------------------------------------------------- */

static int find_rule(const Op *op)
{
    for (size_t i = 0; op && i < sizeof rules / sizeof *rules; i++)
        if (!strcmp(rules[i].op, op->name))
            return (int)i;
    return -1;
}

typedef struct Gather {
    Region *region;
    const Expr *odd; /* an operator without a rule */
    bool open; /* reals come in otherwise */
    bool entered; /* by a qnn.dequantize */
} Gather;

static WalkNext enter_node(void *data, const Expr *e)
{
    Gather *g = data;
    const Op *op = expr_call_of_op(e);
    const Type *t = expr_tensor_type(e);
    bool integers = e->kind == EXPR_VAR && t && !dtype_is_float(t->dtype);
    if (op == g->region->dequantize && op) {
        g->entered = true;
        vec_push(&g->region->order, g->region->scratch, e);
        return WALK_SKIP;
    }
    bool fits = find_rule(op) >= 0 || e->kind == EXPR_TUPLE || e->kind == EXPR_TUPLE_GET ||
                e->kind == EXPR_CONSTANT || e->kind == EXPR_OP || integers;
    if (!fits && op)
        g->odd = e;
    g->open |= !fits && !op;
    return fits || op ? WALK_ON : WALK_SKIP;
}

static WalkNext leave_node(void *data, const Expr *e)
{
    Gather *g = data;
    if (e->kind != EXPR_OP)
        vec_push(&g->region->order, g->region->scratch, e);
    return WALK_ON;
}

static bool note(Region *r, const Expr *e, Integer v)
{
    Integer *kept = arena_new(r->scratch, Integer);
    if (!kept || !v.e)
        return false;
    *kept = v;
    ptrmap_put(&r->known, e, kept);
    return true;
}

static Integer integer_of(const Region *r, Expr *e)
{
    const Integer *v = ptrmap_find(&r->known, e);
    return v ? *v : (Integer){e, NULL};
}

static bool note_tuple(Region *r, const Tuple *t)
{
    Expr **fields = arena_new_array(r->scratch, Expr *, t->fields.n + 1);
    const Affine **types = arena_new_array(r->scratch, const Affine *, t->fields.n + 1);
    Affine *a = arena_new(r->scratch, Affine);
    for (uint32_t i = 0; i < t->fields.n; i++) {
        Integer v = integer_of(r, t->fields.at[i]);
        fields[i] = v.e;
        types[i] = v.affine;
    }
    *a = (Affine){.n = t->fields.n, .fields = types};
    return note(r, &t->base,
                (Integer){expr_tuple(r->m.arena, t->base.span, t->fields.n, fields), a});
}

static bool note_call(Region *r, const Call *call)
{
    if (expr_call_of_op(&call->base) == r->dequantize) {
        const Type *t = expr_tensor_type(call->args.at[0]);
        Site s = {.region = r};
        return t && note(r, &call->base,
                         (Integer){call->args.at[0],
                                   affine_of(&s, call->args.at[1], call->args.at[2], t->dtype,
                                             attrs_int(call->attrs, "axis", -1))});
    }
    int rule = find_rule(expr_call_of_op(&call->base));
    Site s = {.region = r, .call = call, .to = rules[rule].to};
    Integer v = {0};
    bool any = false;
    for (uint32_t i = 0; i < call->args.n && i < 4; i++) {
        s.args[i] = integer_of(r, call->args.at[i]);
        any |= s.args[i].affine != NULL;
    }
    r->m.span = call->base.span;
    /* What is made of constants alone stays as it is. */
    return !any || (rules[rule].rule(&s, &v) && note(r, &call->base, v));
}

static bool note_node(Region *r, const Expr *e)
{
    const TupleGet *get = expr_as_tuple_get(e);
    if (e->kind == EXPR_CALL)
        return note_call(r, expr_as_call(e));
    if (e->kind == EXPR_TUPLE)
        return note_tuple(r, expr_as_tuple(e));
    if (!get)
        return true;
    Integer tuple = integer_of(r, get->tuple);
    return tuple.affine && tuple.affine->fields &&
           note(r, e,
                (Integer){expr_tuple_get(r->m.arena, e->span, tuple.e, get->index),
                          tuple.affine->fields[get->index]});
}

static bool along_one_axis(Site *s, const Affine *a, const Affine *b, const Call *call)
{
    const Type *t = expr_tensor_type(&call->base);
    return channels_of(s, a) == 1 || channels_of(s, b) == 1 ||
           (t && axis_of(a, t) == axis_of(b, t));
}

static Expr *to_integers(Region *r, const Call *quantize_call)
{
    Site s = {.region = r, .call = quantize_call};
    DType dtype = attrs_dtype(quantize_call->attrs, "out_dtype");
    r->out = affine_of(&s, quantize_call->args.at[1], quantize_call->args.at[2], dtype,
                       attrs_int(quantize_call->attrs, "axis", -1));
    for (size_t i = 0; i < r->order.n; i++)
        if (!note_node(r, r->order.at[i]))
            return NULL;
    Integer v = integer_of(r, quantize_call->args.at[0]);
    if (!v.affine || v.affine->fields || !along_one_axis(&s, v.affine, r->out, quantize_call))
        return NULL;
    return expr_type_ops(r->rw->cx, requantize(&s, v.e, v.affine, r->out));
}

/* A region for which the operators on integers have no type stays. */
static Expr *to_integers_quietly(Region *r, const Call *call)
{
    Ctx *cx = r->rw->cx;
    Attempt attempt;
    attempt_begin(&attempt, cx);
    Expr *made = to_integers(r, call);
    bool good = made && made->type && type_equal(made->type, call->base.type);
    attempt_end(&attempt, cx);
    return good ? made : NULL;
}

static Expr *convert(Rewriter *rw, const Expr *old, Expr *now)
{
    PassRun *run = rw->data;
    expr_keep_type(now, old);
    Region r = {.rw = rw, .scratch = &run->scratch, .m = {rw->cx, &rw->module->arena, now->span}};
    r.quantize = op_find(rw->cx, str_of("qnn.quantize"));
    r.dequantize = op_find(rw->cx, str_of("qnn.dequantize"));
    if (!r.quantize || expr_call_of_op(now) != r.quantize)
        return now;
    const Call *call = expr_as_call(now);
    Gather g = {.region = &r};
    Expr *made = NULL;
    ir_walk(call->args.at[0], enter_node, leave_node, &g);
    if (!g.odd && !g.open && g.entered)
        made = to_integers_quietly(&r, call);
    ptrmap_deinit(&r.known);
    if (!made && g.entered && !g.open && attrs_bool(run->params, "hard_fail")) {
        Span at = g.odd ? g.odd->span : now->span;
        Diag *d =
            diag_error(rw->cx->diags, E0606_NO_INTEGERS, at, "this cannot be computed on integers");
        diag_label(d, now->span, "what is computed here would be");
        return NULL;
    }
    return made ? made : now;
}

/* A call of an operator with a rule whose operands are `qnn.dequantize` of integers and constants, as such a `qnn.dequantize` itself:
 * what training prepared for integers is on integers up to where none are known. NULL: it stays. */
static Expr *by_itself(Region *r, Expr *now)
{
    const Call *call = expr_as_call(now);
    if (find_rule(expr_call_of_op(now)) < 0 || call->args.n > 4)
        return NULL;
    bool any = false;
    for (uint32_t i = 0; i < call->args.n; i++) {
        const Expr *arg = call->args.at[i];
        bool integers = expr_call_of_op(arg) == r->dequantize;
        if ((!integers && arg->kind != EXPR_CONSTANT) || (integers && !note_node(r, arg)))
            return NULL;
        any |= integers;
    }
    if (!any || !note_call(r, call))
        return NULL;
    Integer v = integer_of(r, now);
    if (!v.affine || v.affine->fields)
        return NULL;
    Site s = {.region = r};
    Expr *args[3] = {v.e, fold(&s, v.affine->scale), fold(&s, v.affine->zero)};
    Attr axis = ops_attr_int("axis", v.affine->axis);
    return expr_type_ops(r->rw->cx, ops_call(&r->m, "qnn.dequantize", 3, args, 1, &axis));
}

static Expr *convert_alone(Rewriter *rw, const Expr *old, Expr *now)
{
    Ctx *cx = rw->cx;
    PassRun *run = rw->data;
    expr_keep_type(now, old);
    Region r = {.rw = rw, .scratch = &run->scratch, .m = {cx, &rw->module->arena, now->span}};
    r.dequantize = op_find(cx, str_of("qnn.dequantize"));
    if (!r.dequantize || !expr_call_of_op(now))
        return now;
    Attempt attempt;
    attempt_begin(&attempt, cx);
    Expr *made = by_itself(&r, now);
    bool good = made && made->type && old->type && type_equal(made->type, old->type);
    attempt_end(&attempt, cx);
    ptrmap_deinit(&r.known);
    return good ? made : now;
}

static const Pass alone = {
    .name = "FakeQuantizationToInteger", .needs_types = true, .rewrite = convert_alone};
static const Pass regions = {
    .name = "FakeQuantizationToInteger", .needs_types = true, .rewrite = convert};

static bool to_integer(PassRun *run, Module *old)
{
    Module *m = pass_run_row(run, old, &regions);
    if (m && attrs_bool(run->params, "use_qat")) {
        Module *more = pass_run_row(run, m, &alone);
        module_release(m);
        m = more;
    }
    if (m)
        pass_take(run, m);
    module_release(m);
    return m != NULL;
}

static const OpAttr params[] = {
    {"use_qat", ATTR_TYPE_BOOL, .otherwise = ATTR_DEFAULT_BOOL(false),
     .doc = "operators on dequantised integers go on integers too where no `qnn.quantize` follows"},
    {"hard_fail", ATTR_TYPE_BOOL, .otherwise = ATTR_DEFAULT_BOOL(false),
     .doc = "an operator without integers is an error"},
    {0},
};

const Pass pass_fake_quantization_to_integer = {
    .name = "FakeQuantizationToInteger",
    .doc = "Computes on integers what is computed on reals between `qnn.dequantize` and "
           "`qnn.quantize`.",
    .opt_level = 0,
    .needs_types = true,
    .other_values = true,
    .before = "DivToMul",
    .params = params,
    .module = to_integer,
};
