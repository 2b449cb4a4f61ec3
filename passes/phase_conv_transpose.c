/* Writes a transposed convolution that steps further than by one as a plain one: each of its phases, the places of the result that lie at the
 * same distance from a step, sees its own part of the kernel, and the phases become channels that are put side by side.
 *
 *     nn.conv2d_transpose(%x, %w, strides=[2, 2], kernel_layout="IOHW")        // weights of 64 by 32 channels, 4 by 4
 *  => %0 = nn.conv2d(%x, W, padding=[1, 1, 1, 1], kernel_size=[2, 2]);         // W: 128 by 64 channels, 2 by 2
 *     reshape(transpose(reshape(%0, newshape=[1, 32, 2, 2, 29, 29]), axes=[0, 1, 4, 2, 5, 3]), newshape=[1, 32, 58, 58])
 *
 * Where phases see parts of different sizes, as of a kernel of 3 with steps of 2, or the image is so small that what is cut off of their
 * results counts, and they have channels enough to be computed one by one, each is a convolution of its own, whose results lie behind one
 * another; as channels of one they would all be as large as the largest, with zeros.
 *
 * Otherwise the steps are filled with zeros, with which most products are made. Shi et al., "Is the deconvolution layer the same as a
 * convolutional layer?", 2016. One that steps by one has one phase, with the same holes in its kernel; that is worth while where there are
 * channels enough for the strategies of plain ones. Images of one, two and three axes are the same to all of this. */
#include "passes/pass.h"
#include "passes/types.h"

#include "stdlib/ops/ops.h"

#include <string.h>

/* With fewer channels what steps by one is as good as it is. */
enum { CHANNELS_LEAST = 16 };

/* A phase that is computed alone has so many channels, and so many places in all images where its weights are not known: those are laid
 * out each time. There are no more phases than that. Phases that are alike are computed alone where together they have so many times the places. */
enum { ALONE_LEAST = 16, ALONE_PLACES_LEAST = 64, ALONE_MOST = 9 };
#define TOGETHER_LEAST 1.25

/* Axes of an image, and of it with images and channels; of a tensor that has the phases apart. */
enum { AXES_MOST = 3, RANK_MOST = 2 + AXES_MOST, APART_MOST = 2 + 2 * AXES_MOST };

typedef struct Row {
    const char *op, *plain, *data, *out_first, *in_first; /* layouts */
} Row;

static const Row rows[] = {
    {"nn.conv1d_transpose", "nn.conv1d", "NCW", "OIW", "IOW"},
    {"nn.conv2d_transpose", "nn.conv2d", "NCHW", "OIHW", "IOHW"},
    {"nn.conv3d_transpose", "nn.conv3d", "NCDHW", "OIDHW", "IODHW"},
};

typedef struct Phases {
    const Row *row;
    int axes;
    int64_t n, in, out; /* batch and channels */
    int64_t count; /* of phases */
    int64_t image[AXES_MOST];
    int64_t step[AXES_MOST], kernel[AXES_MOST], before[AXES_MOST];
    int64_t dilation[AXES_MOST]; /* of a single phase; else 1 */
    int64_t taps[AXES_MOST]; /* of the kernel that a phase sees */
    int64_t places[AXES_MOST]; /* steps that the result has, with those that are cut off */
    int64_t result[AXES_MOST];
    int64_t around[2 * AXES_MOST]; /* padding of the plain one */
    bool out_first; /* in the weight */
    bool alone; /* each phase is a convolution */
} Phases;

/* The phase of an axis that makes the result's elements d, d + step and so on. */
typedef struct Phase {
    int64_t first; /* element of the kernel that it sees */
    int64_t taps;
    int64_t before, after; /* padding */
} Phase;

static Phase phase_of(const Phases *p, int i, int64_t d)
{
    int64_t first = (d + p->before[i]) % p->step[i], place = (d + p->before[i]) / p->step[i];
    int64_t taps = (p->kernel[i] - first + p->step[i] - 1) / p->step[i];
    return (Phase){first, taps, taps - 1 - place, p->places[i] - p->image[i] + place};
}

/* Whether phases see parts of different sizes, each of them some, or together have many places that are cut off, and can be computed one by
 * one. */
static bool are_alone(Phases *p, bool known)
{
    bool differ = false, fits = p->out >= ALONE_LEAST && p->count <= ALONE_MOST;
    int64_t places = p->n, together = p->n;
    Phases q = *p;
    for (int i = 0; i < p->axes && fits; i++) {
        differ |= p->kernel[i] % p->step[i] != 0;
        q.places[i] = (p->result[i] + p->step[i] - 1) / p->step[i];
        places *= q.places[i];
        together *= p->places[i];
        fits = p->kernel[i] >= p->step[i];
        for (int64_t d = 0; d < p->step[i] && fits; d++) {
            Phase f = phase_of(&q, i, d);
            fits = f.before >= 0 && f.after >= 0;
        }
    }
    if (!differ && (double)together < TOGETHER_LEAST * (double)places)
        return false;
    if (!fits || (!known && places < ALONE_PLACES_LEAST))
        return false;
    *p = q;
    return true;
}

static const Row *row_of(const Op *op)
{
    for (size_t i = 0; op && i < sizeof rows / sizeof *rows; i++)
        if (strcmp(op->name, rows[i].op) == 0)
            return &rows[i];
    return NULL;
}

/* What a single phase has too much is not computed. */
static bool fit_single(Phases *p)
{
    bool fits = true;
    for (int i = 0; i < p->axes; i++) {
        int64_t *after = &p->around[p->axes + i];
        p->around[i] = p->dilation[i] * (p->taps[i] - 1) - p->before[i];
        *after = p->result[i] - p->image[i] + p->before[i];
        fits &= p->around[i] >= 0 && *after >= 0;
        p->places[i] = p->result[i];
        p->before[i] = 0;
    }
    return fits;
}

static bool find_phases(const Call *call, Phases *p)
{
    const Attrs *a = call->attrs;
    const Type *x = expr_tensor_type(call->args.at[0]), *w = expr_tensor_type(call->args.at[1]);
    const Type *out = expr_tensor_type(&call->base);
    int64_t after[AXES_MOST];
    Str layout = attrs_string(a, "data_layout"), kernel = attrs_string(a, "kernel_layout");
    int axes = p->axes = (int)(p->row - rows) + 1;
    uint32_t rank = 2 + (uint32_t)axes;
    /* Over one axis and over three both names are those of one order (stdlib/ops/conv.c). */
    bool as_out = str_is(kernel, p->row->out_first);
    p->out_first = as_out && axes == 2;
    if (!type_has_extents(x, rank) || !type_has_extents(w, rank) || !type_has_extents(out, rank) ||
        !str_is(layout, p->row->data) ||
        !str_is(ops_out_layout(a, "data_layout", "out_layout"), p->row->data) ||
        (!as_out && !str_is(kernel, p->row->in_first)) || attrs_int(a, "groups", 1) != 1 ||
        !dtype_is_float(x->dtype) || !dtype_eq(x->dtype, w->dtype) ||
        !dtype_eq(x->dtype, out->dtype))
        return false;
    ops_ints(a, "strides", axes, p->step);
    ops_ints(a, "dilation", axes, p->dilation);
    ops_padding(a, "padding", axes, p->before, after);
    p->n = x->dims[0];
    p->in = x->dims[1];
    p->out = out->dims[1];
    p->count = 1;
    bool fits = true, dilated = false;
    for (int i = 0; i < axes; i++) {
        p->image[i] = x->dims[2 + i];
        p->kernel[i] = w->dims[2 + i];
        p->result[i] = out->dims[2 + i];
        p->taps[i] = (p->kernel[i] + p->step[i] - 1) / p->step[i];
        p->places[i] = p->image[i] + p->dilation[i] * (p->taps[i] - 1);
        fits &= p->before[i] >= 0 && p->before[i] + p->result[i] <= p->places[i] * p->step[i];
        dilated |= p->dilation[i] != 1;
        p->around[i] = p->around[axes + i] = p->taps[i] - 1;
        p->count *= p->step[i];
    }
    if (p->count == 1)
        return fits && p->in >= CHANNELS_LEAST && p->out >= CHANNELS_LEAST && fit_single(p);
    p->alone = fits && !dilated && are_alone(p, expr_as_constant(call->args.at[1]) != NULL);
    return fits && !dilated;
}

static Expr *reversed(const OpsMake *m, Expr *x, int64_t axis)
{
    Attr attr = ops_attr_int("axis", axis);
    return ops_call(m, "reverse", 1, &x, 1, &attr);
}

/* The kernel with zeros behind it, to whole steps. */
static Expr *filled_up(const OpsMake *m, const Phases *p, Expr *w, DType dtype)
{
    int64_t none[RANK_MOST] = {0}, more[RANK_MOST] = {0};
    for (int i = 0; i < p->axes; i++)
        more[2 + i] = p->taps[i] * p->step[i] - p->kernel[i];
    return ops_padded(m, w, ops_constant(m, dtype, 0), 2 + (uint32_t)p->axes, none, more);
}

static Expr *plain(const OpsMake *m, const Phases *p, Expr *x, Expr *w, const int64_t *around,
                   int64_t channels, const int64_t *taps)
{
    uint32_t axes = (uint32_t)p->axes;
    Attr attrs[4] = {ops_attr_ints(m, "padding", 2 * axes, around),
                     ops_attr_int("channels", channels),
                     ops_attr_ints(m, "kernel_size", axes, taps),
                     ops_attr_ints(m, "dilation", axes, p->dilation)};
    return ops_call(m, p->row->plain, 2, (Expr *[]){x, w}, 4, attrs);
}

static Expr *phased_weight(const OpsMake *m, const Phases *p, Expr *w, DType dtype)
{
    uint32_t axes = (uint32_t)p->axes;
    int64_t o = p->out_first ? 0 : 1;
    int64_t apart[APART_MOST] = {p->in, p->in}, order[APART_MOST] = {o};
    int64_t whole[RANK_MOST] = {p->out * p->count, p->in};
    apart[o] = p->out;
    order[1 + axes] = 1 - o;
    for (int i = 0; i < p->axes; i++) {
        apart[2 + 2 * i] = whole[2 + i] = p->taps[i];
        apart[3 + 2 * i] = p->step[i];
        order[1 + i] = 3 + 2 * i;
        order[2 + p->axes + i] = 2 + 2 * i;
    }
    w = ops_call_ints(m, "reshape", filled_up(m, p, w, dtype), "newshape", 2 + 2 * axes, apart);
    for (int i = 0; i < p->axes; i++)
        if (p->taps[i] > 1)
            w = reversed(m, w, 2 + 2 * i);
    return ops_call_ints(m, "reshape",
                         ops_call_ints(m, "transpose", w, "axes", 2 + 2 * axes, order), "newshape",
                         2 + axes, whole);
}

static Expr *cut_out(const OpsMake *m, const Phases *p, Expr *x, const int64_t *begin,
                     const int64_t *end, const int64_t *steps)
{
    uint32_t rank = 2 + (uint32_t)p->axes;
    Attr part[3] = {ops_attr_ints(m, "begin", rank, begin), ops_attr_ints(m, "end", rank, end),
                    ops_attr_ints(m, "strides", rank, steps)};
    return ops_call(m, "strided_slice", 1, &x, 3, part);
}

/* The phase of these elements of the result. */
static Expr *phase_alone(const OpsMake *m, const Phases *p, const Call *call, const int64_t *d)
{
    static const int64_t turned[RANK_MOST] = {1, 0, 2, 3, 4};
    int64_t begin[RANK_MOST] = {0}, end[RANK_MOST] = {p->out, p->in}, steps[RANK_MOST] = {1, 1};
    int64_t around[2 * AXES_MOST], taps[AXES_MOST];
    if (!p->out_first) {
        end[0] = p->in;
        end[1] = p->out;
    }
    for (int i = 0; i < p->axes; i++) {
        Phase f = phase_of(p, i, d[i]);
        begin[2 + i] = f.first;
        end[2 + i] = p->kernel[i];
        steps[2 + i] = p->step[i];
        taps[i] = f.taps;
        around[i] = f.before;
        around[p->axes + i] = f.after;
    }
    Expr *w = cut_out(m, p, call->args.at[1], begin, end, steps);
    for (int i = 0; i < p->axes; i++)
        if (taps[i] > 1)
            w = reversed(m, w, 2 + i);
    if (!p->out_first)
        w = ops_call_ints(m, "transpose", w, "axes", 2 + (uint32_t)p->axes, turned);
    return plain(m, p, call->args.at[0], w, around, p->out, taps);
}

/* The phases behind one another, as channels; they are put side by side of one tensor, for lanes that
 * choose among several load from each. */
static Expr *each_alone(const OpsMake *m, const Phases *p, const Call *call)
{
    Expr *phase[ALONE_MOST];
    for (int64_t k = 0; k < p->count; k++) {
        int64_t d[AXES_MOST], left = k;
        for (int i = p->axes - 1; i >= 0; i--) {
            d[i] = left % p->step[i];
            left /= p->step[i];
        }
        phase[k] = phase_alone(m, p, call, d);
    }
    Expr *all = expr_tuple(m->arena, m->span, (uint32_t)p->count, phase);
    Attr axis = ops_attr_int("axis", 1);
    Expr *planes = ops_call(m, "concatenate", 1, &all, 1, &axis);
    return ops_call(m, "annotation.stop_fusion", 1, &planes, 0, NULL);
}

static Expr *side_by_side(const OpsMake *m, const Phases *p, Expr *y)
{
    static const int64_t ones[RANK_MOST] = {1, 1, 1, 1, 1};
    int64_t apart[APART_MOST] = {p->n}, order[APART_MOST] = {0}, whole[RANK_MOST] = {p->n, p->out};
    int64_t begin[RANK_MOST] = {0}, end[RANK_MOST] = {p->n, p->out};
    uint32_t axes = (uint32_t)p->axes;
    bool all = true;
    if (p->count == 1)
        return y;
    /* The phases stand behind their channel, or in front of it. */
    int channel = p->alone ? 1 + p->axes : 1, phases = p->alone ? 1 : 2;
    apart[channel] = p->out;
    order[1] = channel;
    for (int i = 0; i < p->axes; i++) {
        apart[phases + i] = p->step[i];
        apart[2 + p->axes + i] = p->places[i];
        order[2 + 2 * i] = 2 + p->axes + i;
        order[3 + 2 * i] = phases + i;
        whole[2 + i] = p->places[i] * p->step[i];
        begin[2 + i] = p->alone ? 0 : p->before[i];
        end[2 + i] = begin[2 + i] + p->result[i];
        all &= p->result[i] == whole[2 + i];
    }
    y = ops_call_ints(m, "reshape", y, "newshape", 2 + 2 * axes, apart);
    y = ops_call_ints(m, "reshape", ops_call_ints(m, "transpose", y, "axes", 2 + 2 * axes, order),
                      "newshape", 2 + axes, whole);
    return all ? y : cut_out(m, p, y, begin, end, ones);
}

static Expr *to_phases(Rewriter *rw, const Expr *old, Expr *now)
{
    Phases p = {.row = row_of(expr_call_of_op(now))};
    expr_keep_type(now, old);
    if (!p.row || !find_phases(expr_as_call(now), &p))
        return now;
    const Call *call = expr_as_call(now);
    OpsMake m = {rw->cx, &rw->module->arena, now->span};
    DType dtype = expr_tensor_type(call->args.at[0])->dtype;
    Expr *y = p.alone
                  ? each_alone(&m, &p, call)
                  : plain(&m, &p, call->args.at[0], phased_weight(&m, &p, call->args.at[1], dtype),
                          p.around, p.out * p.count, p.taps);
    Expr *whole = side_by_side(&m, &p, y);
    return whole ? expr_type_ops(rw->cx, whole) : now;
}

const Pass pass_phase_conv_transpose = {
    .name = "PhaseConvTranspose",
    .doc = "Writes transposed convolutions that step further than by one as plain ones of their "
           "phases.",
    .opt_level = 2,
    .reorders = true,
    .needs_types = true,
    .rewrite = to_phases,
};
