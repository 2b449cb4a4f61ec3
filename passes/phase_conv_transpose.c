/* Writes a transposed convolution that steps further than by one as a plain one: each of its phases, the places of the result that lie at the
 * same distance from a step, sees its own part of the kernel, and the phases become channels that are put side by side.
 *
 *     nn.conv2d_transpose(%x, %w, strides=[2, 2], kernel_layout="IOHW")        // weights of 64 by 32 channels, 4 by 4
 *  => %0 = nn.conv2d(%x, W, padding=[1, 1, 1, 1], kernel_size=[2, 2]);         // W: 128 by 64 channels, 2 by 2
 *     reshape(transpose(reshape(%0, newshape=[1, 32, 2, 2, 29, 29]), axes=[0, 1, 4, 2, 5, 3]), newshape=[1, 32, 58, 58])
 *
 * Where phases see parts of different sizes, as of a kernel of 3 with steps of 2, and have channels enough to be computed one by one, each is
 * a convolution of its own, whose results lie behind one another; as channels of one they would all be as large as the largest, with zeros.
 *
 * Otherwise the steps are filled with zeros, with which most products are made. Shi et al., "Is the deconvolution layer the same as a
 * convolutional layer?", 2016. One that steps by one has one phase; that is worth while where there are channels enough for the transforms
 * of plain ones, as in the gradient of a network by its images. */
#include "passes/pass.h"
#include "passes/types.h"

#include "stdlib/ops/ops.h"

#include <string.h>

/* With fewer channels the strategies for what steps by one are as good. */
enum { CHANNELS_LEAST = 64 };

/* A phase that is computed alone has so many channels, and so many places in all images: weights that are given are laid out each time. There
 * are no more phases than that. */
enum { ALONE_LEAST = 16, ALONE_PLACES_LEAST = 64, ALONE_MOST = 9 };

typedef struct Phases {
    int64_t n, in, out; /* batch and channels */
    int64_t image[2];
    int64_t step[2], kernel[2], before[2];
    int64_t taps[2]; /* of the kernel that a phase sees */
    int64_t places[2]; /* steps that the result has, with those that are cut off */
    int64_t result[2];
    int64_t around[4]; /* padding of the plain one */
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

/* Whether phases see parts of different sizes, each of them some, and can be computed one by one. */
static bool are_alone(Phases *p)
{
    bool differ = false, fits = p->out >= ALONE_LEAST && p->step[0] * p->step[1] <= ALONE_MOST;
    Phases q = *p;
    for (int i = 0; i < 2 && fits; i++) {
        differ |= p->kernel[i] % p->step[i] != 0;
        q.places[i] = (p->result[i] + p->step[i] - 1) / p->step[i];
        fits = p->kernel[i] >= p->step[i];
        for (int64_t d = 0; d < p->step[i] && fits; d++) {
            Phase f = phase_of(&q, i, d);
            fits = f.before >= 0 && f.after >= 0;
        }
    }
    if (!differ || !fits || p->n * q.places[0] * q.places[1] < ALONE_PLACES_LEAST)
        return false;
    *p = q;
    return true;
}

static bool is_static(const Type *t, uint32_t rank)
{
    bool known = t && t->n == rank;
    for (uint32_t i = 0; i < rank && known; i++)
        known = t->dims[i] > 0;
    return known;
}

static bool find_phases(const Call *call, Phases *p)
{
    const Attrs *a = call->attrs;
    const Type *x = expr_tensor_type(call->args.at[0]), *w = expr_tensor_type(call->args.at[1]);
    const Type *out = expr_tensor_type(&call->base);
    int64_t after[2], dilation[2];
    Str layout = attrs_string(a, "data_layout"), kernel = attrs_string(a, "kernel_layout");
    p->out_first = str_is(kernel, "OIHW");
    if (!is_static(x, 4) || !is_static(w, 4) || !is_static(out, 4) || !str_is(layout, "NCHW") ||
        !str_is(ops_out_layout(a, "data_layout", "out_layout"), "NCHW") ||
        (!p->out_first && !str_is(kernel, "IOHW")) || attrs_int(a, "groups", 1) != 1 ||
        !dtype_is_float(x->dtype) || !dtype_eq(x->dtype, w->dtype) ||
        !dtype_eq(x->dtype, out->dtype))
        return false;
    ops_ints(a, "strides", 2, p->step);
    ops_ints(a, "dilation", 2, dilation);
    ops_padding(a, "padding", 2, p->before, after);
    p->n = x->dims[0];
    p->in = x->dims[1];
    p->out = out->dims[1];
    bool many = p->in >= CHANNELS_LEAST && p->out >= CHANNELS_LEAST;
    bool fits = (p->step[0] * p->step[1] > 1 || many) && dilation[0] == 1 && dilation[1] == 1;
    for (int i = 0; i < 2; i++) {
        p->image[i] = x->dims[2 + i];
        p->kernel[i] = w->dims[2 + i];
        p->result[i] = out->dims[2 + i];
        p->taps[i] = (p->kernel[i] + p->step[i] - 1) / p->step[i];
        p->places[i] = x->dims[2 + i] + p->taps[i] - 1;
        fits &= p->before[i] >= 0 && p->before[i] + p->result[i] <= p->places[i] * p->step[i];
        p->around[i] = p->around[2 + i] = p->taps[i] - 1;
    }
    /* What a single phase has too much is not computed. */
    bool single = p->step[0] * p->step[1] == 1;
    for (int i = 0; single && i < 2; i++) {
        p->around[i] = p->taps[i] - 1 - p->before[i];
        p->around[2 + i] = p->result[i] - x->dims[2 + i] + p->before[i];
        fits &= p->around[i] >= 0 && p->around[2 + i] >= 0;
        p->places[i] = p->result[i];
        p->before[i] = 0;
    }
    p->alone = fits && are_alone(p);
    return fits;
}

static Expr *with_ints(const OpsMake *m, const char *op, Expr *x, const char *key, uint32_t n,
                       const int64_t *v)
{
    Attr attr = ops_attr_ints(m, key, n, v);
    return ops_call(m, op, 1, &x, 1, &attr);
}

static Expr *reversed(const OpsMake *m, Expr *x, int64_t axis)
{
    Attr attr = ops_attr_int("axis", axis);
    return ops_call(m, "reverse", 1, &x, 1, &attr);
}

static AttrValue list_of(const OpsMake *m, uint32_t n, const AttrValue *at)
{
    return (AttrValue){.kind = ATTR_LIST, .list = {arena_copy(m->arena, at, n * sizeof *at), n}};
}

/* The kernel with zeros behind it, to whole steps. */
static Expr *filled_up(const OpsMake *m, const Phases *p, Expr *w, DType dtype)
{
    AttrValue width[4], side[4][2];
    Expr *args[2] = {w, ops_constant(m, dtype, 0)};
    int64_t more[4] = {0, 0, p->taps[0] * p->step[0] - p->kernel[0],
                       p->taps[1] * p->step[1] - p->kernel[1]};
    if (more[2] == 0 && more[3] == 0)
        return w;
    for (int i = 0; i < 4; i++) {
        side[i][0] = (AttrValue){.kind = ATTR_INT};
        side[i][1] = (AttrValue){.kind = ATTR_INT, .i = more[i]};
        width[i] = list_of(m, 2, side[i]);
    }
    Attr attr = {.key = "pad_width", .value = list_of(m, 4, width)};
    return ops_call(m, "nn.pad", 2, args, 1, &attr);
}

static Expr *plain(const OpsMake *m, Expr *x, Expr *w, const int64_t around[4], int64_t channels,
                   const int64_t taps[2])
{
    Attr attrs[3] = {ops_attr_ints(m, "padding", 4, around), ops_attr_int("channels", channels),
                     ops_attr_ints(m, "kernel_size", 2, taps)};
    return ops_call(m, "nn.conv2d", 2, (Expr *[]){x, w}, 3, attrs);
}

static Expr *phased_weight(const OpsMake *m, const Phases *p, Expr *w, DType dtype)
{
    int64_t o = p->out_first ? 0 : 1;
    int64_t apart[6] = {p->in, p->in, p->taps[0], p->step[0], p->taps[1], p->step[1]};
    int64_t order[6] = {o, 3, 5, 1 - o, 2, 4};
    int64_t whole[4] = {p->out * p->step[0] * p->step[1], p->in, p->taps[0], p->taps[1]};
    apart[o] = p->out;
    w = with_ints(m, "reshape", filled_up(m, p, w, dtype), "newshape", 6, apart);
    for (int i = 0; i < 2; i++)
        if (p->taps[i] > 1)
            w = reversed(m, w, 2 + 2 * i);
    return with_ints(m, "reshape", with_ints(m, "transpose", w, "axes", 6, order), "newshape", 4,
                     whole);
}

/* The phase of these elements of the result. */
static Expr *phase_alone(const OpsMake *m, const Phases *p, const Call *call, const int64_t d[2])
{
    static const int64_t turned[4] = {1, 0, 2, 3};
    int64_t begin[4] = {0}, end[4] = {p->out, p->in, p->kernel[0], p->kernel[1]}, around[4],
            taps[2];
    int64_t steps[4] = {1, 1, p->step[0], p->step[1]};
    if (!p->out_first) {
        end[0] = p->in;
        end[1] = p->out;
    }
    for (int i = 0; i < 2; i++) {
        Phase f = phase_of(p, i, d[i]);
        begin[2 + i] = f.first;
        taps[i] = f.taps;
        around[i] = f.before;
        around[2 + i] = f.after;
    }
    Attr part[3] = {ops_attr_ints(m, "begin", 4, begin), ops_attr_ints(m, "end", 4, end),
                    ops_attr_ints(m, "strides", 4, steps)};
    Expr *w = ops_call(m, "strided_slice", 1, &call->args.at[1], 3, part);
    for (int i = 0; i < 2; i++)
        if (taps[i] > 1)
            w = reversed(m, w, 2 + i);
    if (!p->out_first)
        w = with_ints(m, "transpose", w, "axes", 4, turned);
    return plain(m, call->args.at[0], w, around, p->out, taps);
}

/* The phases behind one another, as channels; they are put side by side of one tensor, for lanes that
 * choose among several load from each. */
static Expr *each_alone(const OpsMake *m, const Phases *p, const Call *call)
{
    Expr *phase[ALONE_MOST];
    uint32_t n = 0;
    for (int64_t d = 0; d < p->step[0]; d++)
        for (int64_t e = 0; e < p->step[1]; e++)
            phase[n++] = phase_alone(m, p, call, (int64_t[]){d, e});
    Expr *all = expr_tuple(m->arena, m->span, n, phase);
    Attr axis = ops_attr_int("axis", 1);
    Expr *planes = ops_call(m, "concatenate", 1, &all, 1, &axis);
    return ops_call(m, "annotation.stop_fusion", 1, &planes, 0, NULL);
}

static Expr *side_by_side(const OpsMake *m, const Phases *p, Expr *y)
{
    static const int64_t inside[6] = {0, 1, 4, 2, 5, 3}, outside[6] = {0, 3, 4, 1, 5, 2};
    const int64_t *order = p->alone ? outside : inside;
    if (p->step[0] * p->step[1] == 1)
        return y;
    int64_t apart[6] = {p->n, p->out, p->step[0], p->step[1], p->places[0], p->places[1]};
    if (p->alone) {
        apart[1] = p->step[0];
        apart[2] = p->step[1];
        apart[3] = p->out;
    }
    int64_t whole[4] = {p->n, p->out, p->places[0] * p->step[0], p->places[1] * p->step[1]};
    int64_t begin[4] = {0, 0, p->alone ? 0 : p->before[0], p->alone ? 0 : p->before[1]};
    int64_t end[4] = {p->n, p->out, begin[2] + p->result[0], begin[3] + p->result[1]};
    y = with_ints(m, "reshape", y, "newshape", 6, apart);
    y = with_ints(m, "reshape", with_ints(m, "transpose", y, "axes", 6, order), "newshape", 4,
                  whole);
    if (p->result[0] == whole[2] && p->result[1] == whole[3])
        return y;
    static const int64_t ones[4] = {1, 1, 1, 1};
    Attr cut[3] = {ops_attr_ints(m, "begin", 4, begin), ops_attr_ints(m, "end", 4, end),
                   ops_attr_ints(m, "strides", 4, ones)};
    return ops_call(m, "strided_slice", 1, &y, 3, cut);
}

static Expr *to_phases(Rewriter *rw, const Expr *old, Expr *now)
{
    const Op *op = expr_call_of_op(now);
    Phases p;
    expr_keep_type(now, old);
    if (!op || strcmp(op->name, "nn.conv2d_transpose") != 0 || !find_phases(expr_as_call(now), &p))
        return now;
    const Call *call = expr_as_call(now);
    OpsMake m = {rw->cx, &rw->module->arena, now->span};
    DType dtype = expr_tensor_type(call->args.at[0])->dtype;
    Expr *y = p.alone ? each_alone(&m, &p, call)
                      : plain(&m, call->args.at[0], phased_weight(&m, &p, call->args.at[1], dtype),
                              p.around, p.out * p.step[0] * p.step[1], p.taps);
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
