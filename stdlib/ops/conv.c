/* Convolutions of one, two and three spatial axes, and their transposes.
 *
 * One description serves every layout: positions of the batch, channel and spatial axes in the data,
 * the weight and the result. */
#include "stdlib/ops/ops.h"

enum { SPATIAL_MOST = 3, LETTERS_MOST = SPATIAL_MOST + 2 };

/* Where the letters stand: data N C …, weight O I …, result N C …. */
typedef struct Conv {
    int n;                                          /* spatial axes */
    int x[LETTERS_MOST], w[LETTERS_MOST], o[LETTERS_MOST];
    int64_t strides[SPATIAL_MOST], dilation[SPATIAL_MOST];
    int64_t before[SPATIAL_MOST], after[SPATIAL_MOST], more[SPATIAL_MOST];
    int64_t groups;
    bool multiplied;    /* depthwise with a weight of (channels, multiplier, …) */
} Conv;

static const char *const data_letters[] = {"NC", "NCW", "NCHW", "NCDHW"};
static const char *const weight_letters[] = {"OI", "OIW", "OIHW", "OIDHW"};

static bool conv_of_rel(Rel *r, int n, bool transposed, Conv *c)
{
    c->n = n;
    c->groups = attrs_int(r->attrs, "groups", 1);
    c->multiplied = false;
    if (!rel_layout(r, "data_layout", data_letters[n], c->x) ||
        !rel_layout(r, "kernel_layout", weight_letters[n], c->w))
        return false;
    const char *key = attrs_string(r->attrs, "out_layout").len ? "out_layout" : "data_layout";
    if (!rel_layout(r, key, data_letters[n], c->o) || !rel_ints(r, "strides", n, c->strides) ||
        !rel_ints(r, "dilation", n, c->dilation) ||
        !rel_padding(r, "padding", n, c->before, c->after))
        return false;
    for (int i = 0; i < n; i++)
        c->more[i] = 0;
    if (transposed)
        ops_ints(r->attrs, "output_padding", n, c->more);
    if (c->groups > 0)
        return true;
    rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`groups` of `%s` must be positive, not %lld",
              r->op->name, (long long)c->groups);
    return false;
}

static void conv_of_attrs(const Attrs *a, int n, bool transposed, Conv *c)
{
    *c = (Conv){.n = n, .groups = attrs_int(a, "groups", 1)};
    layout_positions(attrs_string(a, "data_layout"), data_letters[n], c->x);
    layout_positions(attrs_string(a, "kernel_layout"), weight_letters[n], c->w);
    layout_positions(ops_out_layout(a, "data_layout", "out_layout"), data_letters[n], c->o);
    ops_ints(a, "strides", n, c->strides);
    ops_ints(a, "dilation", n, c->dilation);
    ops_padding(a, "padding", n, c->before, c->after);
    if (transposed)
        ops_ints(a, "output_padding", n, c->more);
}

/* ---- relations ----------------------------------------------------------------------------------- */

/* The weight that channels and kernel_size tell; NULL when they are not given. `out` and `in` are its
 * channels. */
static const Type *told_weight(Rel *r, const Conv *c, const Type *x, bool transposed)
{
    int64_t k[SPATIAL_MOST], channels = attrs_int(r->attrs, "channels", -1);
    if (channels < 0 || attrs_find(r->attrs, "kernel_size")->kind == ATTR_NONE)
        return NULL;
    Dim in = x->dims[c->x[1]], dims[LETTERS_MOST];
    if (!rel_ints(r, "kernel_size", c->n, k))
        return type_poison(r->cx);
    dims[c->w[0]] = transposed ? channels / c->groups : channels;
    dims[c->w[1]] = transposed || in < 0 ? in : in / c->groups;
    for (int i = 0; i < c->n; i++)
        dims[c->w[2 + i]] = k[i];
    return type_tensor(r->cx, x->dtype, (uint32_t)c->n + 2, dims);
}

static RelResult weight_error(Rel *r, const char *what, Dim has, Dim wants)
{
    Diag *d = rel_error(r, E0202_SHAPE, 1, "`weight` of `%s` has %lld %s, but %lld are wanted",
                        r->op->name, (long long)has, what, (long long)wants);
    Str layout = attrs_string(r->attrs, "kernel_layout");
    Str data = attrs_string(r->attrs, "data_layout");
    diag_note(d, "data is `%s` in layout %.*s, weight is `%s` in layout %.*s",
              type_str(r->cx, r->in[0]), (int)data.len, data.ptr, type_str(r->cx, r->in[1]),
              (int)layout.len, layout.ptr);
    diag_help(d, "`data_layout` and `kernel_layout` say which axis holds the channels");
    return REL_FAILED;
}

/* Checks a known weight against data and attributes; the result's channels, or -2 after a diagnostic. */
static Dim check_weight(Rel *r, Conv *c, const Type *x, const Type *w, bool transposed)
{
    Dim in = x->dims[c->x[1]], wo = w->dims[c->w[0]], wi = w->dims[c->w[1]];
    int64_t k[SPATIAL_MOST], channels = attrs_int(r->attrs, "channels", -1);
    if (attrs_find(r->attrs, "kernel_size")->kind != ATTR_NONE) {
        if (!rel_ints(r, "kernel_size", c->n, k))
            return -2;
        for (int i = 0; i < c->n; i++)
            if (!dim_agrees(k[i], w->dims[c->w[2 + i]]))
                return weight_error(r, "elements along a spatial axis", w->dims[c->w[2 + i]], k[i]),
                       -2;
    }
    if (transposed) {
        if (!dim_agrees(in, wi))
            return weight_error(r, "input channels", wi, in), -2;
        Dim out = wo < 0 ? DIM_ANY : wo * c->groups;
        if (channels >= 0 && !dim_agrees(channels, out))
            return weight_error(r, "output channels", out, channels), -2;
        return channels >= 0 ? channels : out;
    }
    c->multiplied = c->groups > 1 && in == c->groups && wo == c->groups && wi > 1;
    Dim out = c->multiplied ? wo * wi : wo;
    if (channels >= 0 && !dim_agrees(channels, out))
        return weight_error(r, "output channels", out, channels), -2;
    if (!c->multiplied && in >= 0 && wi >= 0 && in != wi * c->groups)
        return weight_error(r, "input channels", wi, in / c->groups), -2;
    if (out >= 0 && out % c->groups)
        return weight_error(r, "output channels, no multiple of `groups`,", out, c->groups), -2;
    return channels >= 0 ? channels : out;
}

/* The extent of a spatial axis of the result; -2 when the kernel does not fit. */
static Dim conv_extent(const Conv *c, int i, Dim d, Dim k, bool transposed)
{
    if (d < 0 || k < 0)
        return DIM_ANY;
    int64_t reach = (k - 1) * c->dilation[i] + 1, pad = c->before[i] + c->after[i];
    if (transposed)
        return c->strides[i] * (d - 1) + reach - pad + c->more[i];
    return d + pad < reach ? -2 : (d + pad - reach) / c->strides[i] + 1;
}

static RelResult conv_result(Rel *r, const Conv *c, const Type *x, const Type *w, Dim channels,
                             bool transposed)
{
    Dim dims[LETTERS_MOST];
    dims[c->o[0]] = x->dims[c->x[0]];
    dims[c->o[1]] = channels;
    for (int i = 0; i < c->n; i++) {
        Dim d = x->dims[c->x[2 + i]], k = w->dims[c->w[2 + i]];
        Dim e = conv_extent(c, i, d, k, transposed);
        if (e != DIM_ANY && e < 0) {
            Diag *diag =
                rel_error(r, E0202_SHAPE, 0,
                          "the kernel is larger than the data along axis %d: %lld elements, "
                          "with padding %lld, and a kernel of %lld",
                          c->x[2 + i], (long long)d, (long long)(d + c->before[i] + c->after[i]),
                          (long long)k);
            diag_help(diag, "pad the data: `padding=[…]`");
            return REL_FAILED;
        }
        dims[c->o[2 + i]] = e;
    }
    return rel_out_tensor(r, ops_dtype(r->attrs, "out_dtype", x->dtype), (uint32_t)c->n + 2, dims);
}

static RelResult conv_rel(Rel *r, bool transposed)
{
    int n = ops_spatial(r->op);
    const Type *x = rel_tensor(r, 0);
    if (!x)
        return rel_blocked(r);
    Conv c;
    if (!rel_rank(r, 0, x, (uint32_t)n + 2) || !conv_of_rel(r, n, transposed, &c))
        return REL_FAILED;
    const Type *w = NULL;
    if (type_find(r->in[1])->kind == TYPE_HOLE) {
        w = told_weight(r, &c, x, transposed);
        if (w && (type_is_poison(w) || !rel_set_input(r, 1, w)))
            return REL_FAILED;
    }
    if (!w)
        w = rel_tensor(r, 1);
    if (!w)
        return rel_blocked(r);
    if (!rel_rank(r, 1, w, (uint32_t)n + 2))
        return REL_FAILED;
    if (dtype_is_void(attrs_dtype(r->attrs, "out_dtype")) && !rel_dtypes_agree(r, 0, x, 1, w))
        return REL_FAILED;
    Dim channels = check_weight(r, &c, x, w, transposed);
    return channels == -2 ? REL_FAILED : conv_result(r, &c, x, w, channels, transposed);
}

RelResult rel_conv(Rel *r)
{
    return conv_rel(r, false);
}

RelResult rel_conv_transpose(Rel *r)
{
    return conv_rel(r, true);
}

/* ---- computing ----------------------------------------------------------------------------------- */

/* The axes of the space: the result's, with its channels split in groups where there are several. */
typedef struct ConvAxes {
    int rank;
    int64_t shape[LETTERS_MOST + 1];
    Te *n, *g, *o, *at[SPATIAL_MOST]; /* batch, group, channel in the group, position */
    Te *i, *k[SPATIAL_MOST]; /* reduced: input channel in the group, place in the kernel */
    int64_t reduced[LETTERS_MOST];
    int n_reduced;
} ConvAxes;

static void conv_axes(TeBuilder *b, const Conv *c, int64_t in_channels, const int64_t *kernel,
                      ConvAxes *a)
{
    const int64_t *out = te_out_shape(b, 0);
    Te *axis[LETTERS_MOST];
    a->rank = 0;
    a->g = te_int(b, 0);
    for (int p = 0; p < c->n + 2; p++) {
        if (p == c->o[1] && c->groups > 1) {
            a->g = te_axis(b, a->rank);
            a->shape[a->rank++] = c->groups;
            axis[p] = te_axis(b, a->rank);
            a->shape[a->rank++] = out[p] / c->groups;
        } else {
            axis[p] = te_axis(b, a->rank);
            a->shape[a->rank++] = out[p];
        }
    }
    a->n = axis[c->o[0]];
    a->o = axis[c->o[1]];
    /* The reduced axes follow the order of the data, so that they are read as they lie. */
    a->n_reduced = 0;
    for (int p = 0; p < c->n + 2; p++) {
        if (p == c->x[1]) {
            a->i = te_axis(b, a->rank + a->n_reduced);
            a->reduced[a->n_reduced++] = in_channels;
        }
        for (int s = 0; s < c->n; s++) {
            if (p != c->x[2 + s])
                continue;
            a->at[s] = axis[c->o[2 + s]];
            a->k[s] = te_axis(b, a->rank + a->n_reduced);
            a->reduced[a->n_reduced++] = kernel[s];
        }
    }
}

static Te *scaled(TeBuilder *b, Te *x, int64_t by, Te *y, int64_t times, int64_t plus)
{
    Te *sum = te_binary(b, TE_ADD, te_binary(b, TE_MUL, x, te_int(b, by)),
                        te_binary(b, TE_MUL, y, te_int(b, times)));
    return te_binary(b, TE_ADD, sum, te_int(b, plus));
}

static void conv_emit(TeBuilder *b, const Conv *c, const ConvAxes *a, Te *x, Te *w)
{
    DType d = te_out_dtype(b, 0);
    Te *body = te_binary(b, TE_MUL, te_cast(b, d, x), te_cast(b, d, w));
    TeTensor sum = te_reduce(b, TE_SUM, d, a->rank, a->shape, a->n_reduced, a->reduced, body);
    if (c->groups > 1)
        sum = ops_reshape(b, sum, te_out_rank(b, 0), te_out_shape(b, 0));
    te_output(b, sum);
}

static Te *group_channel(TeBuilder *b, const ConvAxes *a, int64_t in_group, Te *channel)
{
    return te_binary(b, TE_ADD, te_binary(b, TE_MUL, a->g, te_int(b, in_group)), channel);
}

void ops_conv(TeBuilder *b, TeTensor x, TeTensor w)
{
    int n = x.rank - 2;
    Conv c;
    ConvAxes a;
    conv_of_attrs(b->attrs, n, false, &c);
    int64_t in = x.shape[c.x[1]] / c.groups, kernel[SPATIAL_MOST];
    int64_t out = te_out_shape(b, 0)[c.o[1]] / c.groups;
    c.multiplied = c.groups > 1 && in == 1 && w.shape[c.w[0]] == c.groups && w.shape[c.w[1]] > 1;
    for (int i = 0; i < n; i++)
        kernel[i] = w.shape[c.w[2 + i]];
    conv_axes(b, &c, in, kernel, &a);
    Te *xi[LETTERS_MOST], *wi[LETTERS_MOST];
    bool inside = true;
    xi[c.x[0]] = a.n;
    xi[c.x[1]] = group_channel(b, &a, in, a.i);
    wi[c.w[0]] = c.multiplied ? a.g : group_channel(b, &a, out, a.o);
    wi[c.w[1]] = c.multiplied ? a.o : a.i;
    for (int i = 0; i < n; i++) {
        xi[c.x[2 + i]] = scaled(b, a.at[i], c.strides[i], a.k[i], c.dilation[i], -c.before[i]);
        wi[c.w[2 + i]] = a.k[i];
        inside = inside && c.before[i] <= 0 && c.after[i] <= 0;
    }
    Te *zero = te_number(b, x.dtype, 0);
    conv_emit(b, &c, &a, inside ? te_load(b, x, xi) : te_load_or(b, x, xi, zero),
              te_load(b, w, wi));
}

/* The data with strides - 1 zeros between its elements and zeros around it, so that a plain
 * convolution with the kernel turned round gives the transposed one. */
static TeTensor spread(TeBuilder *b, const Conv *c, TeTensor x, const int64_t *kernel)
{
    int64_t shape[LETTERS_MOST];
    Te *index[LETTERS_MOST], *hit = NULL;
    ops_axes(b, 0, x.rank, index);
    shape[c->x[0]] = x.shape[c->x[0]];
    shape[c->x[1]] = x.shape[c->x[1]];
    for (int i = 0; i < c->n; i++) {
        int p = c->x[2 + i];
        int64_t reach = (kernel[i] - 1) * c->dilation[i];
        shape[p] = te_out_shape(b, 0)[c->o[2 + i]] + reach;
        Te *t = te_binary(b, TE_ADD, index[p], te_int(b, c->before[i] - reach));
        index[p] = t;
        if (c->strides[i] == 1)
            continue;
        Te *s = te_int(b, c->strides[i]);
        Te *even = te_binary(b, TE_EQ, te_binary(b, TE_FLOORMOD, t, s), te_int(b, 0));
        index[p] = te_binary(b, TE_FLOORDIV, t, s);
        hit = hit ? te_binary(b, TE_AND, hit, even) : even;
    }
    Te *zero = te_number(b, x.dtype, 0), *body = te_load_or(b, x, index, zero);
    return te_map(b, x.dtype, x.rank, shape, hit ? te_select(b, hit, body, zero) : body);
}

void ops_conv_transpose(TeBuilder *b, TeTensor x, TeTensor w)
{
    int n = x.rank - 2;
    Conv c;
    ConvAxes a;
    conv_of_attrs(b->attrs, n, true, &c);
    int64_t in = x.shape[c.x[1]] / c.groups, kernel[SPATIAL_MOST];
    for (int i = 0; i < n; i++)
        kernel[i] = w.shape[c.w[2 + i]];
    TeTensor wide = spread(b, &c, x, kernel);
    conv_axes(b, &c, in, kernel, &a);
    Te *xi[LETTERS_MOST], *wi[LETTERS_MOST];
    xi[c.x[0]] = a.n;
    xi[c.x[1]] = wi[c.w[1]] = group_channel(b, &a, in, a.i);
    wi[c.w[0]] = a.o;
    for (int i = 0; i < n; i++) {
        int64_t d = c.dilation[i];
        xi[c.x[2 + i]] = scaled(b, a.at[i], 1, a.k[i], -d, (kernel[i] - 1) * d);
        wi[c.w[2 + i]] = a.k[i];
    }
    conv_emit(b, &c, &a, te_load(b, wide, xi), te_load(b, w, wi));
}

static void compute_conv_transpose(TeBuilder *b)
{
    ops_conv_transpose(b, te_input(b, 0), te_input(b, 1));
}

static void compute_conv(TeBuilder *b)
{
    ops_conv(b, te_input(b, 0), te_input(b, 1));
}

/* ---- nn.conv2d_backward_weight -------------------------------------------------------------------- */

/* Attributes name the layouts of gradient, data and weight; a layout of a weight names the same axes of the data. */
static bool backward_layouts(const Attrs *a, Conv *c)
{
    Str data = attrs_string(a, "kernel_layout"), weight = attrs_string(a, "out_layout");
    return layout_positions(attrs_string(a, "data_layout"), "NCHW", c->o) &&
           (layout_positions(data, "NCHW", c->x) || layout_positions(data, "OIHW", c->x)) &&
           layout_positions(weight.len ? weight : str_of("OIHW"), "OIHW", c->w);
}

static RelResult rel_backward_weight(Rel *r)
{
    const Type *g = rel_tensor(r, 0), *x = g ? rel_tensor(r, 1) : NULL;
    Conv c = {.n = 2, .groups = attrs_int(r->attrs, "groups", 1)};
    int64_t k[2];
    if (!x)
        return rel_blocked(r);
    if (!rel_rank(r, 0, g, 4) || !rel_rank(r, 1, x, 4) || !rel_ints(r, "kernel_size", 2, k) ||
        !rel_ints(r, "strides", 2, c.strides) || !rel_ints(r, "dilation", 2, c.dilation) ||
        !rel_padding(r, "padding", 2, c.before, c.after) || !rel_dtypes_agree(r, 0, g, 1, x))
        return REL_FAILED;
    Dim in = -1, out = -1, dims[4];
    if (backward_layouts(r->attrs, &c)) {
        in = x->dims[c.x[1]];
        out = g->dims[c.o[1]];
    }
    if (c.groups < 1 || in < 0 || out < 0 || in % c.groups || out % c.groups) {
        rel_error(r, E0202_SHAPE, 1,
                  "gradient %s and data %s do not fit in these groups and layouts",
                  type_str(r->cx, g), type_str(r->cx, x));
        return REL_FAILED;
    }
    bool depthwise = c.groups > 1 && in == c.groups;
    dims[c.w[0]] = depthwise ? in : out;
    dims[c.w[1]] = depthwise ? out / c.groups : in / c.groups;
    dims[c.w[2]] = k[0];
    dims[c.w[3]] = k[1];
    return rel_out_tensor(r, ops_dtype(r->attrs, "out_dtype", g->dtype), 4, dims);
}

/* The sum over batch and places of the gradient times the data that this element of the kernel lay on. */
static void compute_backward_weight(TeBuilder *b)
{
    TeTensor g = te_input(b, 0), x = te_input(b, 1);
    const int64_t *shape = te_out_shape(b, 0);
    DType d = te_out_dtype(b, 0);
    Conv c = {.groups = attrs_int(b->attrs, "groups", 1)};
    backward_layouts(b->attrs, &c);
    ops_ints(b->attrs, "strides", 2, c.strides);
    ops_ints(b->attrs, "dilation", 2, c.dilation);
    ops_padding(b->attrs, "padding", 2, c.before, c.after);
    bool depthwise = c.groups > 1 && x.shape[c.x[1]] == c.groups;
    Te *o = te_axis(b, c.w[0]), *i = te_axis(b, c.w[1]), *gi[4], *xi[4];
    int64_t reduced[3] = {g.shape[c.o[0]], g.shape[c.o[2]], g.shape[c.o[3]]};
    gi[c.o[0]] = xi[c.x[0]] = te_axis(b, 4);
    Te *each = te_int(b, shape[c.w[1]]);
    gi[c.o[1]] = depthwise ? te_binary(b, TE_ADD, te_binary(b, TE_MUL, o, each), i) : o;
    Te *group = te_binary(b, TE_DIV, o, te_int(b, g.shape[c.o[1]] / c.groups));
    xi[c.x[1]] = depthwise ? o : te_binary(b, TE_ADD, te_binary(b, TE_MUL, group, each), i);
    for (int s = 0; s < 2; s++) {
        gi[c.o[2 + s]] = te_axis(b, 5 + s);
        xi[c.x[2 + s]] = scaled(b, te_axis(b, 5 + s), c.strides[s], te_axis(b, c.w[2 + s]),
                                c.dilation[s], -c.before[s]);
    }
    Te *v = te_load_or(b, x, xi, te_number(b, x.dtype, 0));
    Te *body = te_binary(b, TE_MUL, te_cast(b, d, te_load(b, g, gi)), te_cast(b, d, v));
    te_output(b, te_reduce(b, TE_SUM, d, 4, shape, 3, reduced, body));
}

/* ---- nn.dilate ------------------------------------------------------------------------------------ */

static RelResult rel_dilate(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    int64_t strides[TENSOR_RANK_MOST];
    Dim dims[TENSOR_RANK_MOST];
    if (!t)
        return rel_blocked(r);
    if (!rel_ints(r, "strides", (int)t->n, strides))
        return REL_FAILED;
    for (uint32_t i = 0; i < t->n; i++)
        dims[i] = t->dims[i] <= 0 ? t->dims[i] : (t->dims[i] - 1) * strides[i] + 1;
    return rel_out_tensor(r, t->dtype, t->n, dims);
}

static void compute_dilate(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int64_t strides[TENSOR_RANK_MOST];
    Te *index[TENSOR_RANK_MOST], *hit = NULL;
    ops_ints(b->attrs, "strides", x.rank, strides);
    for (int i = 0; i < x.rank; i++) {
        Te *s = te_int(b, strides[i]);
        Te *on = te_binary(b, TE_EQ, te_binary(b, TE_MOD, te_axis(b, i), s), te_int(b, 0));
        index[i] = te_binary(b, TE_DIV, te_axis(b, i), s);
        hit = hit ? te_binary(b, TE_AND, hit, on) : on;
    }
    Te *v = te_load(b, x, index), *fill = ops_number(b, attrs_float(b->attrs, "dilation_value"));
    ops_emit(b, hit ? te_select(b, hit, v, fill) : v);
}

/* ---- nn.correlation ------------------------------------------------------------------------------- */

static RelResult rel_correlation(Rel *r)
{
    const Type *x = rel_tensor(r, 0), *y = x ? rel_tensor(r, 1) : NULL;
    int64_t before[2], after[2], k = attrs_int(r->attrs, "kernel_size", 1);
    int64_t reach = attrs_int(r->attrs, "max_displacement", 1);
    int64_t s1 = attrs_int(r->attrs, "stride1", 1), s2 = attrs_int(r->attrs, "stride2", 1);
    if (!y)
        return rel_blocked(r);
    if (!rel_rank(r, 0, x, 4) || !rel_set_input(r, 1, x) ||
        !rel_padding(r, "padding", 2, before, after))
        return REL_FAILED;
    if (!dtype_is_float(x->dtype)) {
        rel_error(r, E0203_DTYPE, 0, "`nn.correlation` takes reals, found `%s`",
                  type_str(r->cx, x));
        return REL_FAILED;
    }
    Dim dims[4] = {x->dims[0], 0, x->dims[2], x->dims[3]};
    bool good = k > 0 && k % 2 && reach >= 0 && s1 > 0 && s2 > 0;
    for (int i = 0; good && i < 2; i++) {
        int64_t room = dims[2 + i] + before[i] + after[i] - 2 * (reach + (k - 1) / 2);
        good = dims[2 + i] >= 0 && room > 0;
        dims[2 + i] = good ? (room + s1 - 1) / s1 : 0;
    }
    if (!good) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, 0,
                  "an odd kernel and its displacements must fit into the data");
        return REL_FAILED;
    }
    dims[1] = (2 * (reach / s2) + 1) * (2 * (reach / s2) + 1);
    return rel_out_tensor(r, x->dtype, 4, dims);
}

/* Channel q is a displacement: the mean, over kernel and channels, of products (or distances) of both data. */
static void compute_correlation(TeBuilder *b)
{
    TeTensor t[2] = {te_input(b, 0), te_input(b, 1)};
    int64_t before[2], after[2], k = attrs_int(b->attrs, "kernel_size", 1);
    int64_t reach = attrs_int(b->attrs, "max_displacement", 1);
    int64_t s1 = attrs_int(b->attrs, "stride1", 1), s2 = attrs_int(b->attrs, "stride2", 1);
    int64_t side = 2 * (reach / s2) + 1, reduced[3] = {t[0].shape[1], k, k};
    DType d = t[0].dtype;
    ops_padding(b->attrs, "padding", 2, before, after);
    Te *q = te_axis(b, 1), *wide = te_int(b, side), *v[2];
    Te *moved[2] = {te_binary(b, TE_DIV, q, wide), te_binary(b, TE_MOD, q, wide)};
    for (int i = 0; i < 2; i++) {
        Te *at[4] = {te_axis(b, 0), te_axis(b, 4)};
        for (int a = 0; a < 2; a++) {
            at[2 + a] = scaled(b, te_axis(b, 2 + a), s1, te_axis(b, 5 + a), 1, reach - before[a]);
            if (i)
                at[2 + a] = scaled(b, at[2 + a], 1, moved[a], s2, -(reach / s2) * s2);
        }
        v[i] = te_load_or(b, t[i], at, te_number(b, d, 0));
    }
    Te *body = attrs_bool(b->attrs, "is_multiply")
                   ? te_binary(b, TE_MUL, v[0], v[1])
                   : te_unary(b, TE_ABS, te_binary(b, TE_SUB, v[0], v[1]));
    body = te_binary(b, TE_DIV, body, te_number(b, d, (double)(k * k * reduced[0])));
    te_output(b, te_reduce(b, TE_SUM, d, 4, te_out_shape(b, 0), 3, reduced, body));
}

/* ---- rows ---------------------------------------------------------------------------------------- */

static const OpArg conv_args[] = {{"data", "batches of channels of positions"},
                                  {"weight", "one kernel for each pair of channels"},
                                  {0}};

/* Lists of n ones or zeros: the first n of six. */
#define DEFAULT_LIST(ARRAY, N)                     \
    {                                              \
        .kind = ATTR_LIST, .list = {(ARRAY), (N) } \
    }
#define STRIDES(N) \
    ATTR("strides", INTS, DEFAULT_LIST(ops_ones, N), "steps of the kernel, one an axis")
#define PADDING(N)                                    \
    ATTR("padding", INTS, DEFAULT_LIST(ops_zeros, N), \
         "zeros around the data: all sides, or before and after")
#define DILATION(N)                                   \
    ATTR("dilation", INTS, DEFAULT_LIST(ops_ones, N), \
         "distance of the kernel's elements, one an axis")
#define OUTPUT_PADDING(N)                                    \
    ATTR("output_padding", INTS, DEFAULT_LIST(ops_zeros, N), \
         "extra elements at the end of each axis")
#define GROUPS ATTR_I("groups", 1, "parts of the channels that do not see each other")
#define CHANNELS ATTR_NONE("channels", INT, "channels of the result; None: as the weight has")
#define KERNEL_SIZE ATTR_NONE("kernel_size", INTS, "extents of the kernel; None: as the weight has")
#define LAYOUTS(DATA, KERNEL)                                                         \
    ATTR_S("data_layout", DATA, "the order of the data's axes"),                      \
        ATTR_S("kernel_layout", KERNEL, "the order of the weight's axes"),            \
        ATTR_S("out_layout", "", "the order of the result's axes; \"\": the data's"), \
        ATTR_D("out_dtype", "", "the type to sum in and of the result")

static const OpAttr conv1d_attrs[] = {STRIDES(1), PADDING(2),  DILATION(1),           GROUPS,
                                      CHANNELS,   KERNEL_SIZE, LAYOUTS("NCW", "OIW"), {0}};
const OpAttr conv2d_attrs[] = {
    STRIDES(2), PADDING(2), DILATION(2), GROUPS, CHANNELS, KERNEL_SIZE, LAYOUTS("NCHW", "OIHW"),
    {0}};
static const OpAttr conv3d_attrs[] = {
    STRIDES(3), PADDING(3), DILATION(3), GROUPS, CHANNELS, KERNEL_SIZE, LAYOUTS("NCDHW", "OIDHW"),
    {0}};
static const OpAttr conv1d_transpose_attrs[] = {
    CHANNELS, KERNEL_SIZE,           STRIDES(1), OUTPUT_PADDING(1), PADDING(1), DILATION(1),
    GROUPS,   LAYOUTS("NCW", "OIW"), {0}};
const OpAttr conv2d_transpose_attrs[] = {
    CHANNELS,   KERNEL_SIZE, STRIDES(2), OUTPUT_PADDING(2),
    PADDING(2), DILATION(2), GROUPS,     LAYOUTS("NCHW", "OIHW"),
    {0}};
static const OpAttr conv3d_transpose_attrs[] = {
    CHANNELS,   KERNEL_SIZE, STRIDES(3), OUTPUT_PADDING(3),
    PADDING(3), DILATION(3), GROUPS,     LAYOUTS("NCDHW", "OIDHW"),
    {0}};

static const OpArg backward_args[] = {
    {"grad", "the gradient of the convolution"}, {"data", "what was convolved"}, {0}};
static const OpAttr backward_attrs[] = {
    STRIDES(2),
    PADDING(2),
    DILATION(2),
    GROUPS,
    CHANNELS,
    ATTR_NONE("kernel_size", INTS, "extents of the kernel: must be given"),
    ATTR_S("data_layout", "NCHW", "the order of the gradient's axes"),
    ATTR_S("kernel_layout", "OIHW", "the order of the data's axes"),
    ATTR_S("out_layout", "", "the order of the weight's axes; \"\": OIHW"),
    ATTR_D("out_dtype", "", "the type to sum in and of the result"),
    {0}};
static const OpAttr dilate_attrs[] = {
    STRIDES(2), ATTR_F("dilation_value", 0, "the new elements"), {0}};
static const OpArg dilate_args[] = {{"x", "the tensor"}, {0}};

static const OpArg correlation_args[] = {{"data1", "images"}, {"data2", "images"}, {0}};
static const OpAttr correlation_attrs[] = {
    ATTR_I("kernel_size", 1, "extent of what is compared: odd"),
    ATTR_I("max_displacement", 1, "the farthest displacement"),
    ATTR_I("stride1", 1, "from one result to the next"),
    ATTR_I("stride2", 1, "from one displacement to the next"),
    PADDING(2),
    ATTR_B("is_multiply", 1, "products, else distances"),
    ATTR_S("layout", "NCHW", "the order of the axes"),
    {0}};

#define CONV(NAME, KIND, ATTRS, SAMPLES, DOC) \
    {.name = NAME,                            \
     .doc = DOC,                              \
     .args = conv_args,                       \
     .attrs = ATTRS##_attrs,                  \
     .samples = SAMPLES,                      \
     .pattern = OP_OUT_FUSABLE,               \
     .rel = rel_##KIND,                       \
     .compute = compute_##KIND}

const Op conv_ops[] = {
    CONV("nn.conv1d", conv, conv1d, "(float32[1,2,5], float32[3,2,3], padding=[1, 1])",
         "Slides kernels over one axis; at each place the sum of products with the data under it."),
    CONV("nn.conv2d", conv, conv2d,
         "(float32[1,2,5,5], float32[3,2,3,3], padding=[1, 1, 1, 1]) "
         "(float32[1,4,5,5], float32[4,1,3,3], groups=4) "
         "(float32[1,6,6,2], float32[3,3,2,4], strides=[2, 2], data_layout=\"NHWC\", "
         "kernel_layout=\"HWIO\")",
         "Slides kernels over two axes; at each place the sum of products with the data under it."),
    CONV("nn.conv3d", conv, conv3d, "(float32[1,2,4,4,4], float32[3,2,2,2,2])",
         "Slides kernels over three axes; at each place the sum of products with the data under "
         "it."),
    CONV("nn.conv1d_transpose", conv_transpose, conv1d_transpose,
         "(float32[1,2,4], float32[3,2,3], strides=[2])",
         "The gradient of `nn.conv1d` by its data: spreads each element over a kernel's places."),
    CONV("nn.conv2d_transpose", conv_transpose, conv2d_transpose,
         "(float32[1,2,4,4], float32[3,2,3,3], strides=[2, 2], padding=[1, 1, 1, 1])",
         "The gradient of `nn.conv2d` by its data: spreads each element over a kernel's places."),
    CONV("nn.conv3d_transpose", conv_transpose, conv3d_transpose,
         "(float32[1,2,3,3,3], float32[3,2,2,2,2])",
         "The gradient of `nn.conv3d` by its data: spreads each element over a kernel's places."),
    {.name = "nn.conv2d_backward_weight",
     .doc = "The gradient of `nn.conv2d` by its weight.",
     .args = backward_args,
     .attrs = backward_attrs,
     .shapes = "(N, O, h, w), (N, C, H, W) -> (O, C/groups, kh, kw)",
     .samples = "(float32[1,3,3,3], float32[1,2,5,5], kernel_size=[3, 3])",
     .pattern = OP_OUT_FUSABLE,
     .rel = rel_backward_weight,
     .compute = compute_backward_weight},
    {.name = "nn.dilate",
     .doc = "A tensor with new elements between its own.",
     .args = dilate_args,
     .attrs = dilate_attrs,
     .shapes = "(d...) -> ((d - 1)*strides + 1...)",
     .samples = "(float32[2,3], strides=[2, 2])",
     .pattern = OP_INJECTIVE,
     .rel = rel_dilate,
     .compute = compute_dilate},
    {.name = "nn.correlation",
     .doc = "How alike two images are at each place, for each displacement of the second.",
     .args = correlation_args,
     .attrs = correlation_attrs,
     .shapes = "(N, C, H, W), (N, C, H, W) -> (N, (2*(max_displacement/stride2) + 1)^2, h, w)",
     .samples = "(float32[1,2,4,4], float32[1,2,4,4])",
     .pattern = OP_OUT_FUSABLE,
     .rel = rel_correlation,
     .compute = compute_correlation},
    {0},
};
