/* Convolutions of one, two and three spatial axes, and their transposes. */
#include "stdlib/ops/conv.h"

#include "base/number.h"

#include <string.h>

const char *const conv_data_letters[] = {"NC", "NCW", "NCHW", "NCDHW"};
static const char *const weight_letters[] = {"OI", "OIW", "OIHW", "OIDHW"};

/* The places of the letters; with blocks, those after they are brought to the plain order. */
static void places_of(Str layout, const char *letters, int *at)
{
    if (layout_positions(layout, letters, at))
        return;
    for (int i = 0; letters[i]; i++)
        at[i] = i;
}

static bool conv_layout(Rel *r, const char *key, const char *letters, int *at)
{
    Str layout = attrs_string(r->attrs, key);
    bool blocked = layout_is_blocked(layout, letters);
    if (blocked)
        places_of(layout, letters, at);
    return blocked || rel_layout(r, key, letters, at);
}

/* In transposes of one and three axes the first channel letter of the weight is the data's, whichever it is: the
 * original writes "OIW" for (channels of the data, of the result, …), and knows no other order. */
static void order_channels(int n, bool transposed, int *at)
{
    if (transposed && n != 2 && at[0] < at[1]) {
        int first = at[0];
        at[0] = at[1];
        at[1] = first;
    }
}

/* The type of argument i with its blocks joined; `t` where there are none; NULL after a diagnostic. */
static const Type *joined(Rel *r, uint32_t i, const Type *t, const char *key, const char *letters)
{
    int at[LETTERS_MOST];
    Str layout = attrs_string(r->attrs, key);
    if (!layout_positions(layout, letters, at))
        return rel_layout_type(r, (int)i, t, layout, str_of(letters));
    return rel_rank(r, i, t, (uint32_t)strlen(letters)) ? t : NULL;
}

const Type *conv_data(Rel *r, int n, const Type *t)
{
    return joined(r, 0, t, "data_layout", conv_data_letters[n]);
}

bool conv_of_rel(Rel *r, int n, bool transposed, Conv *c)
{
    c->n = n;
    c->groups = attrs_int(r->attrs, "groups", 1);
    c->multiplied = false;
    if (!conv_layout(r, "data_layout", conv_data_letters[n], c->x) ||
        !conv_layout(r, "kernel_layout", weight_letters[n], c->w))
        return false;
    order_channels(n, transposed, c->w);
    const char *key = attrs_string(r->attrs, "out_layout").len ? "out_layout" : "data_layout";
    if (!conv_layout(r, key, conv_data_letters[n], c->o) ||
        !rel_ints(r, "strides", n, c->strides) || !rel_ints(r, "dilation", n, c->dilation) ||
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
    places_of(attrs_string(a, "data_layout"), conv_data_letters[n], c->x);
    places_of(attrs_string(a, "kernel_layout"), weight_letters[n], c->w);
    order_channels(n, transposed, c->w);
    places_of(ops_out_layout(a, "data_layout", "out_layout"), conv_data_letters[n], c->o);
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
        Dim out = dim_mul(r->cx, wo, c->groups);
        if (channels >= 0 && !dim_agrees(channels, out))
            return weight_error(r, "output channels", out, channels), -2;
        return channels >= 0 ? channels : out;
    }
    c->multiplied = c->groups > 1 && in == c->groups && wo == c->groups && wi > 1;
    /* A filter for each channel, several times: where that is not known, neither is how many. */
    bool either = c->groups > 1 && (in < 0 || wo < 0 || wi < 0) && dim_agrees(in, c->groups) &&
                  dim_agrees(wo, c->groups) && (wi < 0 || wi > 1);
    Dim out = c->multiplied ? dim_mul(r->cx, wo, wi) : either ? DIM_ANY : wo;
    if (channels >= 0 && !dim_agrees(channels, out))
        return weight_error(r, "output channels", out, channels), -2;
    if (!c->multiplied && in >= 0 && wi >= 0 && (in % c->groups || in / c->groups != wi))
        return weight_error(r, "input channels", wi, in / c->groups), -2;
    if (out >= 0 && out % c->groups)
        return weight_error(r, "output channels, no multiple of `groups`,", out, c->groups), -2;
    return channels >= 0 ? channels : out;
}

/* The extent of a spatial axis of the result; -2 when the kernel does not fit, -3 when that is more than can be counted. */
static Dim conv_extent(Ctx *cx, const Conv *c, int i, Dim d, Dim k, bool transposed)
{
    if (k < 0)
        return DIM_ANY;
    int64_t reach, pad = c->before[i] + c->after[i], more, given = d;
    bool counted = int64_mul(k - 1, c->dilation[i], &reach) && int64_add(reach, 1, &reach) &&
                   int64_sub(reach, pad, &more) && int64_add(more, c->more[i], &more) &&
                   int64_sub(more, c->strides[i], &more);
    if (counted && d >= 0)
        counted = (!transposed || int64_mul(d, c->strides[i], &given)) &&
                  int64_add(given, transposed ? more : pad, &given);
    if (!counted)
        return d < 0 ? DIM_ANY : -3;
    if (d >= 0 && given < (transposed ? 0 : reach))
        return -2;
    return transposed ? dim_offset(cx, dim_mul(cx, d, c->strides[i]), more)
                      : dim_windows(cx, d, pad, reach, c->strides[i]);
}

static void report_extent(Rel *r, const Conv *c, int i, Dim d, Dim k, bool transposed)
{
    int axis = c->x[2 + i];
    int64_t pad = c->before[i] + c->after[i];
    if (transposed) {
        Diag *diag =
            rel_error(r, E0202_SHAPE, 0,
                      "nothing is left along axis %d: %lld elements, a kernel of %lld, and "
                      "padding that takes %lld away",
                      axis, (long long)d, (long long)k, (long long)pad);
        diag_help(diag, "the padding of a transposed convolution makes its result smaller");
        return;
    }
    Diag *diag = rel_error(r, E0202_SHAPE, 0,
                           "the kernel is larger than the data along axis %d: %lld elements, "
                           "with padding %lld, and a kernel of %lld",
                           axis, (long long)d, (long long)(d + pad), (long long)k);
    diag_help(diag, "pad the data: `padding=[…]`");
}

RelResult conv_result(Rel *r, const Conv *c, const Type *x, const Dim *kernel, Dim channels,
                      bool transposed)
{
    Dim dims[LETTERS_MOST];
    dims[c->o[0]] = x->dims[c->x[0]];
    dims[c->o[1]] = channels;
    for (int i = 0; i < c->n; i++) {
        Dim d = x->dims[c->x[2 + i]], k = kernel[i];
        Dim e = conv_extent(r->cx, c, i, d, k, transposed);
        if (e == -3)
            return rel_uncounted(r, c->x[2 + i]);
        if (e == -2) {
            report_extent(r, c, i, d, k, transposed);
            return REL_FAILED;
        }
        dims[c->o[2 + i]] = e;
    }
    DType dtype = ops_dtype(r->attrs, "out_dtype", x->dtype);
    Str layout = ops_out_layout(r->attrs, "data_layout", "out_layout");
    if (layout_positions(layout, conv_data_letters[c->n], (int[LETTERS_MOST]){0}))
        return rel_out_tensor(r, dtype, (uint32_t)c->n + 2, dims);
    const Type *out = type_tensor(r->cx, dtype, (uint32_t)c->n + 2, dims);
    out = rel_layout_type(r, -1, out, str_of(conv_data_letters[c->n]), layout);
    return out ? rel_set_output(r, out) : REL_FAILED;
}

/* The weight, from its own type or from what the attributes tell; NULL: it is unknown, or after a diagnostic. */
static const Type *conv_weight(Rel *r, const Conv *c, const Type *x, bool transposed, bool *failed)
{
    const char *letters = weight_letters[c->n];
    Str layout = attrs_string(r->attrs, "kernel_layout");
    const Type *w = NULL;
    if (type_find(r->in[1])->kind == TYPE_HOLE)
        w = told_weight(r, c, x, transposed);
    if (w) {
        const Type *set = w;
        if (!type_is_poison(w) && !layout_positions(layout, letters, (int[LETTERS_MOST]){0}))
            set = rel_layout_type(r, 1, w, str_of(letters), layout);
        *failed = !set || type_is_poison(w) || !rel_set_input(r, 1, set);
        return *failed ? NULL : w;
    }
    w = rel_tensor(r, 1);
    if (!w)
        return NULL;
    w = joined(r, 1, w, "kernel_layout", letters);
    *failed = !w;
    return w;
}

static RelResult conv_rel(Rel *r, bool transposed)
{
    int n = ops_spatial(r->op);
    const Type *x = rel_tensor(r, 0);
    if (!x)
        return rel_blocked(r);
    Conv c;
    bool failed = false;
    if (!conv_of_rel(r, n, transposed, &c) || !(x = conv_data(r, n, x)))
        return REL_FAILED;
    const Type *w = conv_weight(r, &c, x, transposed, &failed);
    if (!w)
        return failed ? REL_FAILED : rel_blocked(r);
    if (dtype_is_void(attrs_dtype(r->attrs, "out_dtype")) && !rel_dtypes_agree(r, 0, x, 1, w))
        return REL_FAILED;
    Dim channels = check_weight(r, &c, x, w, transposed);
    if (channels == -2)
        return REL_FAILED;
    Dim kernel[SPATIAL_MOST];
    for (int i = 0; i < n; i++)
        kernel[i] = w->dims[c.w[2 + i]];
    return conv_result(r, &c, x, kernel, channels, transposed);
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
    const int64_t *out = c->out;
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

static void conv_emit(TeBuilder *b, const Conv *c, const ConvAxes *a, Te *x, Te *w)
{
    DType d = te_out_dtype(b, 0);
    Te *body = te_binary(b, TE_MUL, te_cast(b, d, x), te_cast(b, d, w));
    TeTensor sum = te_reduce(b, TE_SUM, d, a->rank, a->shape, a->n_reduced, a->reduced, body);
    if (c->groups > 1)
        sum = ops_reshape(b, sum, c->n + 2, c->out);
    conv_end(b, c, sum);
}

void conv_end(TeBuilder *b, const Conv *c, TeTensor sum)
{
    Str layout = ops_out_layout(b->attrs, "data_layout", "out_layout");
    if (te_out_rank(b, 0) != c->n + 2)
        sum = ops_layout(b, sum, str_of(conv_data_letters[c->n]), layout);
    te_output(b, sum);
}

/* An argument with its blocks joined. */
static TeTensor join_blocks(TeBuilder *b, TeTensor t, const char *key, const char *letters)
{
    Str layout = attrs_string(b->attrs, key);
    return t.rank == (int)strlen(letters) ? t : ops_layout(b, t, layout, str_of(letters));
}

void conv_begin(TeBuilder *b, int n, bool transposed, TeTensor *x, TeTensor *w, Conv *c)
{
    conv_of_attrs(b->attrs, n, transposed, c);
    *x = join_blocks(b, *x, "data_layout", conv_data_letters[n]);
    if (w)
        *w = join_blocks(b, *w, "kernel_layout", weight_letters[n]);
    Str layout = ops_out_layout(b->attrs, "data_layout", "out_layout");
    if (te_out_rank(b, 0) == n + 2)
        memcpy(c->out, te_out_shape(b, 0), sizeof *c->out * (size_t)(n + 2));
    else
        layout_extents(b->cx, layout, te_out_shape(b, 0), str_of(conv_data_letters[n]), c->out);
}

static Te *group_channel(TeBuilder *b, const ConvAxes *a, int64_t in_group, Te *channel)
{
    return te_binary(b, TE_ADD, te_binary(b, TE_MUL, a->g, te_int(b, in_group)), channel);
}

/* ---- blocks ----------------------------------------------------------------------------------------
 *
 * Where the channels lie in blocks, "NCHW16c" with weights "OIHW16i16o", the sum goes over them as they lie: a block is an axis like
 * others. What has blocks otherwise is brought to the plain order first. */

typedef struct Blocks {
    int64_t in, out; /* channels in a block of the data, 0: it has none; and of the result */
    bool packed, inputs; /* the weight has blocks of the result's channels; and of the data's */
    bool each; /* channel is on its own */
} Blocks;

/* The layout is these axes in their order, and behind them these blocks. */
static bool layout_reads(Str layout, const char *axes, const char *blocks)
{
    size_t n = strlen(axes), m = strlen(blocks);
    bool same = layout_rank(layout) == n + m;
    for (size_t i = 0; same && i < n + m; i++)
        same = layout_letter(layout, (int64_t)i) == (i < n ? axes[i] : blocks[i - n]);
    return same;
}

static bool blocks_of(const TeBuilder *b, int n, const TeTensor *x, const TeTensor *w, Blocks *k)
{
    const char *letters = conv_data_letters[n], *of_weight = weight_letters[n];
    const int64_t *to = te_out_shape(b, 0);
    Str data = attrs_string(b->attrs, "data_layout"),
        kernel = attrs_string(b->attrs, "kernel_layout");
    int64_t groups = attrs_int(b->attrs, "groups", 1);
    if (!layout_reads(ops_out_layout(b->attrs, "data_layout", "out_layout"), letters, "c"))
        return false;
    *k = (Blocks){.out = to[n + 2], .each = groups > 1};
    k->in = layout_reads(data, letters, "c") ? x->shape[n + 2] : 0;
    k->inputs = layout_reads(kernel, of_weight, "io");
    k->packed = k->inputs || layout_reads(kernel, of_weight, "o");
    if ((!k->in && !layout_reads(data, letters, "")) ||
        (!k->packed && !layout_reads(kernel, of_weight, "")) ||
        (k->packed && w->shape[w->rank - 1] != k->out))
        return false;
    int64_t taken = k->inputs ? w->shape[n + 2] : 1;
    if (k->each)
        return k->in == k->out && taken * w->shape[1] == 1 && groups == k->in * x->shape[1] &&
               groups == to[1] * k->out;
    return !k->packed || taken == (k->in ? k->in : 1);
}

/* A place along an axis that is whole. */
static Te *joined_place(TeBuilder *b, Te *outer, int64_t block, Te *inner)
{
    return te_binary(b, TE_ADD, te_binary(b, TE_MUL, outer, te_int(b, block)), inner);
}

static void conv_blocks(TeBuilder *b, int n, TeTensor x, TeTensor w, Blocks k)
{
    Conv c;
    DType d = te_out_dtype(b, 0);
    int rank = n + 3, reduced = 0;
    int64_t extent[LETTERS_MOST + 1];
    Te *out[LETTERS_MOST + 1], *xi[LETTERS_MOST + 1], *wi[LETTERS_MOST + 2];
    bool inside = true;
    conv_of_attrs(b->attrs, n, false, &c);
    ops_axes(b, 0, rank, out);
    Te *in = out[1], *lane = out[n + 2];
    if (!k.each) {
        in = te_axis(b, rank);
        extent[reduced++] = x.shape[1];
    }
    for (int i = 0; i < n; i++) {
        wi[2 + i] = te_axis(b, rank + reduced);
        extent[reduced++] = w.shape[2 + i];
        xi[2 + i] = ops_affine(b, out[2 + i], c.strides[i], wi[2 + i], c.dilation[i], -c.before[i]);
        inside = inside && c.before[i] <= 0 && c.after[i] <= 0;
    }
    if (!k.each && k.in) {
        lane = te_axis(b, rank + reduced);
        extent[reduced++] = k.in;
    }
    xi[0] = out[0];
    xi[1] = in;
    if (k.in)
        xi[n + 2] = lane;
    wi[0] = k.packed ? out[1] : joined_place(b, out[1], k.out, out[n + 2]);
    wi[1] = k.each ? te_int(b, 0) : k.in && !k.packed ? joined_place(b, in, k.in, lane) : in;
    if (k.inputs)
        wi[n + 2] = k.each || !k.in ? te_int(b, 0) : lane;
    if (k.packed)
        wi[w.rank - 1] = out[n + 2];
    Te *from = inside ? te_load(b, x, xi) : te_load_or(b, x, xi, te_number(b, x.dtype, 0));
    Te *product = te_binary(b, TE_MUL, te_cast(b, d, from), te_cast(b, d, te_load(b, w, wi)));
    te_output(b, te_reduce(b, TE_SUM, d, rank, te_out_shape(b, 0), reduced, extent, product));
}

void ops_conv(TeBuilder *b, TeTensor x, TeTensor w)
{
    int n = ops_spatial(b->op);
    Conv c;
    ConvAxes a;
    Blocks blocks;
    if (blocks_of(b, n, &x, &w, &blocks)) {
        conv_blocks(b, n, x, w, blocks);
        return;
    }
    conv_begin(b, n, false, &x, &w, &c);
    int64_t in = x.shape[c.x[1]] / c.groups, kernel[SPATIAL_MOST];
    int64_t out = c.out[c.o[1]] / c.groups;
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
        xi[c.x[2 + i]] = ops_affine(b, a.at[i], c.strides[i], a.k[i], c.dilation[i], -c.before[i]);
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
        shape[p] = c->out[c->o[2 + i]] + reach;
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
    int n = ops_spatial(b->op);
    Conv c;
    ConvAxes a;
    conv_begin(b, n, true, &x, &w, &c);
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
        xi[c.x[2 + i]] = ops_affine(b, a.at[i], 1, a.k[i], -d, (kernel[i] - 1) * d);
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
    bool known = backward_layouts(r->attrs, &c);
    Dim in = known ? x->dims[c.x[1]] : 0, out = known ? g->dims[c.o[1]] : 0, dims[4];
    if (!known || c.groups < 1 || (in >= 0 && in % c.groups) || (out >= 0 && out % c.groups)) {
        rel_error(r, E0202_SHAPE, 1,
                  "gradient %s and data %s do not fit in these groups and layouts",
                  type_str(r->cx, g), type_str(r->cx, x));
        return REL_FAILED;
    }
    bool depthwise = c.groups > 1 && in == c.groups;
    dims[c.w[0]] = depthwise ? in : out;
    dims[c.w[1]] = dim_floor_div(r->cx, depthwise ? out : in, c.groups);
    if (c.groups > 1 && in < 0) /* each channel may have its own kernel */
        dims[c.w[0]] = dims[c.w[1]] = DIM_ANY;
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
    Te *group = c.groups == 1 ? te_int(b, 0)
                              : te_binary(b, TE_DIV, o, te_int(b, g.shape[c.o[1]] / c.groups));
    xi[c.x[1]] = depthwise ? o : te_binary(b, TE_ADD, te_binary(b, TE_MUL, group, each), i);
    for (int s = 0; s < 2; s++) {
        gi[c.o[2 + s]] = te_axis(b, 5 + s);
        xi[c.x[2 + s]] = ops_affine(b, te_axis(b, 5 + s), c.strides[s], te_axis(b, c.w[2 + s]),
                                    c.dilation[s], -c.before[s]);
    }
    Te *v = te_load_or(b, x, xi, te_number(b, x.dtype, 0));
    Te *body = te_binary(b, TE_MUL, te_cast(b, d, te_load(b, g, gi)), te_cast(b, d, v));
    te_output(b, te_reduce(b, TE_SUM, d, 4, shape, 3, reduced, body));
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
/* clang-format off */
/* Gradients are made in the plain layouts. */
#define PLAIN(NAME, X, LAYOUT, LETTERS) \
    "let " NAME " = layout_transform(" X ", src_layout=" LAYOUT ", dst_layout=\"" LETTERS "\"); "
#define LAID(X, LETTERS, LAYOUT) \
    "layout_transform(" X ", src_layout=\"" LETTERS "\", dst_layout=" LAYOUT ")"
#define GIVEN(NAME, LAYOUT, NONE, ELSE) \
    "let " NAME " = if (" LAYOUT " == \"" NONE "\") { " ELSE " } else { " LAYOUT " }; "
#define WINDOWS "strides=%strides, padding=%padding, dilation=%dilation, groups=%groups"
#define EXTENT(X, AXIS) "take(shape_of(" X "), " AXIS ")"
#define KERNEL "let %high = " EXTENT("%w", "2") "; let %wide = " EXTENT("%w", "3") "; "
/* %rows: the weight with a row for each channel of %y, which it makes of %x; one of a channel by itself may have a row for each channel of
 * %x. %down and %right: the elements at the end of the axes of %x that no window reaches. */
#define SPREAD \
    KERNEL "let %many = " EXTENT("%y", "1") "; let %deep = " EXTENT("%x", "1") " / %groups; " \
    "let %rows = reshape(%w, newshape=[%many, %deep, %high, %wide]); " \
    "let %reached = nn.conv2d_transpose(%y, %rows, " WINDOWS ", kernel_layout=\"IOHW\"); " \
    "let %down = " EXTENT("%x", "2") " - " EXTENT("%reached", "2") "; " \
    "let %right = " EXTENT("%x", "3") " - " EXTENT("%reached", "3") "; "
#define SPREAD_Y(MORE) \
    "nn.conv2d_transpose(%y, %rows, output_padding=[%down, %right], " WINDOWS ", kernel_layout=\"IOHW\"" MORE ")"
#define WEIGHT_OF(Y, X) "nn.conv2d_backward_weight(" Y ", " X ", kernel_size=[%high, %wide], " WINDOWS ")"
#define CONV_GRAD \
    GIVEN("%laid", "%out_layout", "", "%data_layout") PLAIN("%y", "%g", "%laid", "NCHW") \
    PLAIN("%x", "%data", "%data_layout", "NCHW") PLAIN("%w", "%weight", "%kernel_layout", "OIHW") SPREAD \
    "(" LAID(SPREAD_Y(", out_dtype=%out.dtype"), "NCHW", "%data_layout") ", " \
    LAID("reshape_like(" WEIGHT_OF("%y", "%x") ", %w)", "OIHW", "%kernel_layout") ")"
/* What was spread is gathered by the convolution; its weight has the channels the other way round. */
#define GATHERED_GRAD \
    GIVEN("%laid", "%out_layout", "", "%data_layout") PLAIN("%y", "%g", "%laid", "NCHW") \
    PLAIN("%x", "%data", "%data_layout", "NCHW") PLAIN("%w", "%weight", "%kernel_layout", "IOHW") KERNEL \
    "(" LAID("nn.conv2d(%y, %w, " WINDOWS ")", "NCHW", "%data_layout") ", " \
    LAID("reshape_like(" WEIGHT_OF("%x", "%y") ", %w)", "IOHW", "%kernel_layout") ")"
/* What the weight's gradient says of the two that it is the product of. */
#define WEIGHED_GRAD \
    GIVEN("%laid", "%out_layout", "", "\"OIHW\"") GIVEN("%lies", "%kernel_layout", "OIHW", "\"NCHW\"") \
    PLAIN("%w", "%g", "%laid", "OIHW") PLAIN("%y", "%grad", "%data_layout", "NCHW") \
    PLAIN("%x", "%data", "%lies", "NCHW") SPREAD \
    "(" LAID("nn.conv2d(%x, %rows, " WINDOWS ")", "NCHW", "%data_layout") ", " LAID(SPREAD_Y(""), "NCHW", "%lies") ")"
/* clang-format on */

/* The last argument is its doc, and whatever else the row has. */
#define CONV(NAME, KIND, ATTRS, SAMPLES, ...) \
    {.name = NAME,                            \
     .args = conv_args,                       \
     .attrs = ATTRS##_attrs,                  \
     .samples = SAMPLES,                      \
     .pattern = OP_OUT_FUSABLE,               \
     OP_REL(rel_##KIND),                      \
     .compute = compute_##KIND,               \
     .doc = __VA_ARGS__}

const Op conv_ops[] = {
    CONV("nn.conv1d", conv, conv1d, "(float32[1,2,5], float32[3,2,3], padding=[1, 1])",
         "Slides kernels over one axis; at each place the sum of products with the data under it."),
    CONV("nn.conv2d", conv, conv2d,
         "(float32[1,2,5,5], float32[3,2,3,3], padding=[1, 1, 1, 1]) "
         "(float32[1,4,5,5], float32[4,1,3,3], groups=4) "
         "(float32[1,6,6,2], float32[3,3,2,4], strides=[2, 2], data_layout=\"NHWC\", "
         "kernel_layout=\"HWIO\")",
         "Slides kernels over two axes; at each place the sum of products with the data under it.",
         .grad = CONV_GRAD),
    CONV("nn.conv3d", conv, conv3d, "(float32[1,2,4,4,4], float32[3,2,2,2,2])",
         "Slides kernels over three axes; at each place the sum of products with the data under "
         "it."),
    CONV("nn.conv1d_transpose", conv_transpose, conv1d_transpose,
         "(float32[1,2,4], float32[2,3,3], strides=[2])",
         "The gradient of `nn.conv1d` by its data: spreads each element over a kernel's places."),
    CONV("nn.conv2d_transpose", conv_transpose, conv2d_transpose,
         "(float32[1,2,4,4], float32[3,2,3,3], strides=[2, 2], padding=[1, 1, 1, 1]) "
         "(float32[1,4,3,3], float32[4,1,2,2], groups=2, kernel_layout=\"IOHW\")",
         "The gradient of `nn.conv2d` by its data: spreads each element over a kernel's places.",
         .grad = GATHERED_GRAD),
    CONV("nn.conv3d_transpose", conv_transpose, conv3d_transpose,
         "(float32[1,2,3,3,3], float32[2,3,2,2,2])",
         "The gradient of `nn.conv3d` by its data: spreads each element over a kernel's places."),
    CONV("nn.contrib_conv2d_NCHWc", conv, conv2d,
         "(float32[1,2,5,5,4], float32[3,2,3,3,4,2], padding=[1, 1, 1, 1], data_layout=\"NCHW4c\", "
         "kernel_layout=\"OIHW4i2o\", out_layout=\"NCHW2c\")",
         "`nn.conv2d` of data and weight whose channels are split in blocks."),
    CONV("nn.contrib_depthwise_conv2d_NCHWc", conv, conv2d,
         "(float32[1,2,5,5,4], float32[2,1,3,3,1,4], groups=8, data_layout=\"NCHW4c\", "
         "kernel_layout=\"OIHW1i4o\", out_layout=\"NCHW4c\")",
         "`nn.conv2d` of each channel alone, where the channels are split in blocks."),
    {.name = "nn.conv2d_backward_weight",
     .doc = "The gradient of `nn.conv2d` by its weight.",
     .args = backward_args,
     .attrs = backward_attrs,
     .shapes = "(N, O, h, w), (N, C, H, W) -> (O, C/groups, kernel_size...); (C, O/groups, "
               "kernel_size...) where groups == C and C > 1",
     .samples = "(float32[1,3,3,3], float32[1,2,5,5], kernel_size=[3, 3])",
     .pattern = OP_OUT_FUSABLE,
     .rel = rel_backward_weight,
     .compute = compute_backward_weight,
     .grad = WEIGHED_GRAD},
    {0},
};
