/* A convolution of quantised numbers as one of integers: (x - zx) * (w - zw), term by term, so that what depends on the weights alone is
 * known before the program runs. */
#include "passes/qnn_lower.h"

#include <string.h>

/* Where the axes of a kernel are, output channels first. */
static const struct {
    const char *layout;
    int o, h, w, i;
} kernels[] = {
    {"OIHW", 0, 2, 3, 1}, {"HWIO", 3, 0, 1, 2}, {"HWOI", 2, 0, 1, 3}, {"OHWI", 0, 1, 2, 3}};

typedef struct Conv {
    Expr *x, *w, *zx, *zw; /* x with its padding */
    const Type *wt;
    int kernel; /* row of `kernels` */
    int64_t channel; /* axis of the data */
    int64_t kh, kw, in, out,
        each; /* channels, and output channels for each when each channel has its own kernel */
    bool depthwise, unknown; /* zero points are not known, or one for each channel */
    int64_t strides[2], dilation[2], before[2], after[2];
} Conv;

/* Whether the padding can hold the zero point: a number that is no element of the data would become another one there, and one that is
 * known only when the program runs may be no element. */
static bool pads_with(const Conv *c, DType dtype)
{
    double z;
    if (!(c->before[0] | c->before[1] | c->after[0] | c->after[1]))
        return true;
    return qnn_constant_number(c->zx, &z) && value_as_double(value_scalar_double(dtype, z)) == z;
}

static bool conv_of(Lower *l, Conv *c)
{
    const Attrs *a = l->call->attrs;
    const Type *t = qnn_tensor_of(l->args[0]);
    Str layout = attrs_string(a, "data_layout"), kernel = attrs_string(a, "kernel_layout");
    *c = (Conv){.x = l->args[0],
                .w = l->args[1],
                .zx = qnn_only_number(l, l->args[2]),
                .zw = l->args[3],
                .wt = qnn_tensor_of(l->args[1]),
                .kernel = -1,
                .channel = str_is(layout, "NHWC") ? 3 : 1};
    for (int i = 0; i < 4; i++)
        if (str_is(kernel, kernels[i].layout))
            c->kernel = i;
    ops_padding(a, "padding", 2, c->before, c->after);
    if (c->kernel < 0 || !t || !pads_with(c, t->dtype) || !c->wt || c->wt->n != 4 ||
        !type_is_static(c->wt) || t->dims[c->channel] < 0 ||
        (c->channel == 1 && !str_is(layout, "NCHW")) || attrs_string(a, "out_layout").len)
        return false;
    int64_t groups = attrs_int(a, "groups", 1);
    double z;
    c->kh = c->wt->dims[kernels[c->kernel].h];
    c->kw = c->wt->dims[kernels[c->kernel].w];
    c->in = t->dims[c->channel];
    c->out = c->wt->dims[kernels[c->kernel].o];
    c->each = c->wt->dims[kernels[c->kernel].i];
    c->depthwise = groups != 1 && attrs_int(a, "channels", c->out * c->each) == groups;
    c->unknown = !qnn_constant_number(c->zx, &z) || !qnn_constant_number(c->zw, &z);
    ops_ints(a, "strides", 2, c->strides);
    ops_ints(a, "dilation", 2, c->dilation);
    return groups == 1 || c->depthwise;
}

/* Zero points stand for 0 in the padding. */
static Expr *padded(Lower *l, const Conv *c)
{
    int64_t before[4] = {0}, after[4] = {0};
    for (int k = 0; k < 2; k++) {
        int axis = k + (c->channel == 1 ? 2 : 1);
        before[axis] = c->before[k];
        after[axis] = c->after[k];
    }
    return ops_padded(&l->m, c->x, c->zx, 4, before, after);
}

static Expr *conv_first(Lower *l, const Conv *c)
{
    Attr attrs[32];
    Expr *args[2] = {c->x, c->w};
    uint32_t n = qnn_copy_attrs(l, attrs);
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(attrs[i].key, "padding"))
            attrs[i] = ops_attr_ints(&l->m, "padding", 4, (int64_t[]){0, 0, 0, 0});
    return ops_call(&l->m, "nn.conv2d", 2, args, n, attrs);
}

static Expr *repeat(Lower *l, Expr *e, int64_t n, int64_t axis)
{
    Attr attrs[2] = {ops_attr_int("repeats", n), ops_attr_int("axis", axis)};
    return ops_call(&l->m, "repeat", 1, &e, 2, attrs);
}

/* Sums over windows are means of what is multiplied before. */
static Expr *window_sums(Lower *l, const Conv *c, Expr *e)
{
    int64_t size = c->kh * c->kw;
    Attr attrs[4] = {ops_attr_ints(&l->m, "pool_size", 2, (int64_t[]){c->kh, c->kw}),
                     ops_attr_ints(&l->m, "strides", 2, c->strides),
                     ops_attr_ints(&l->m, "dilation", 2, c->dilation),
                     {.key = "layout", .value = *attrs_find(l->call->attrs, "data_layout")}};
    if (size == 1 && c->strides[0] * c->strides[1] == 1)
        return e;
    e = size == 1 ? e : qnn_call2(l, "multiply", e, qnn_number32(l, (double)size));
    return ops_call(&l->m, "nn.avg_pool2d", 1, &e, 4, attrs);
}

static bool is_one(const Expr *e)
{
    double d;
    return qnn_constant_number(e, &d) && d == 1;
}

static Expr *conv_second(Lower *l, const Conv *c)
{
    Expr *e =
        c->depthwise ? qnn_cast(l, c->x, qnn_int32) : qnn_sum_along(l, c->x, 1, &c->channel, true);
    e = window_sums(l, c, e);
    if (c->depthwise) {
        Expr *zw = c->unknown ? repeat(l, c->zw, c->each, 0) : c->zw;
        e = is_one(c->zw) ? e : qnn_call2(l, "multiply", zw, e);
        return c->each == 1 ? e : repeat(l, e, c->each, c->channel);
    }
    if (is_one(c->zw))
        return e;
    return qnn_call2(l, "multiply", c->zw, c->unknown ? repeat(l, e, c->out, c->channel) : e);
}

static Expr *conv_third(Lower *l, const Conv *c)
{
    int64_t axes[4], shape[4] = {1, 1, 1, 1};
    uint32_t n = 0;
    for (int i = 0; i < 4; i++)
        if (i != kernels[c->kernel].o && !(c->depthwise && i == kernels[c->kernel].i))
            axes[n++] = i;
    shape[c->channel] = c->depthwise ? c->out * c->each : c->out;
    Attr attr = ops_attr_ints(&l->m, "newshape", 4, shape);
    Expr *e = qnn_sum_along(l, c->w, n, axes, false);
    e = ops_call(&l->m, "reshape", 1, &e, 1, &attr);
    return is_one(c->zx) ? e : qnn_call2(l, "multiply", c->zx, e);
}

/* Groups and gaps within windows: the zero points are taken off before. */
static Expr *conv_shifted(Lower *l, const Conv *c)
{
    const Type *zw = qnn_tensor_of(c->zw);
    Expr *x = qnn_cast(l, c->x, qnn_int32), *w = qnn_cast(l, c->w, qnn_int32);
    if (!zw || (zw->n && c->kernel < 0))
        return NULL;
    if (!qnn_is_zero(c->zx))
        x = qnn_call2(l, "subtract", x, qnn_cast(l, c->zx, qnn_int32));
    if (!qnn_is_zero(c->zw)) {
        Expr *z =
            c->unknown || zw->n ? qnn_expand_vector(l, c->zw, c->wt, kernels[c->kernel].o) : c->zw;
        w = qnn_call2(l, "subtract", w, qnn_cast(l, z, qnn_int32));
    }
    return qnn_product(l, x, w);
}

Expr *qnn_lower_conv2d(Lower *l)
{
    Conv c;
    if (!dtype_eq(l->type->dtype, qnn_int32))
        return NULL;
    bool plain = conv_of(l, &c);
    if (!c.wt || c.wt->n != 4 || c.kernel < 0)
        return qnn_lower_product(l);
    if (!plain || (!qnn_is_zero(c.zw) && c.dilation[0] * c.dilation[1] != 1))
        return conv_shifted(l, &c);
    c.x = padded(l, &c);
    if (c.unknown)
        c.zw = qnn_expand_vector(l, c.zw, qnn_tensor_of(l->args[0]), c.channel);
    Expr *second = !c.unknown && qnn_is_zero(c.zw) ? NULL : conv_second(l, &c);
    Expr *third = !c.unknown && qnn_is_zero(c.zx) ? NULL : conv_third(l, &c);
    int64_t window = c.kh * c.kw * (c.depthwise ? 1 : c.in);
    Expr *fourth = c.unknown ? qnn_call2(l, "multiply", qnn_number32(l, (double)window),
                                         qnn_call2(l, "multiply", c.zx, c.zw))
                             : qnn_zeros_product(l, c.zx, c.zw, window);
    return qnn_combine(l, conv_first(l, &c), second, third, fourth);
}
