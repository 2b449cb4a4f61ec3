/* Spectra. */
#include "stdlib/ops/ops.h"

#include <math.h>
#include <string.h>

/* cos or -sin of 2 pi k n / of. The product is reduced first, so that large ones lose nothing. */
static Te *wave(TeBuilder *b, DType d, Te *k, Te *n, int64_t of, bool sine)
{
    const double turn = 2 * 3.14159265358979323846;
    Te *steps = te_binary(b, TE_MOD, te_binary(b, TE_MUL, k, n), te_int(b, of ? of : 1));
    Te *angle =
        te_binary(b, TE_MUL, te_cast(b, d, steps), te_number(b, d, turn / (double)(of ? of : 1)));
    return sine ? te_unary(b, TE_NEG, te_unary(b, TE_SIN, angle)) : te_unary(b, TE_COS, angle);
}

/* Real and imaginary parts; `real`: the others are zero. */
typedef struct Parts {
    TeTensor re, im;
    bool real;
} Parts;

/* A transform of `size` elements goes in two steps of fewer terms each where that is a product: element one*twos + two and bin
 * other + ones*last share, beside terms of one and other and of two and last, no more than a turn by two*other. */
typedef struct Steps {
    DType d;
    int rank; /* of the rows that are transformed, with their own axes left out */
    const int64_t *rows;
    int64_t size, ones, twos; /* one step: `twos` is 1 */
    int64_t by; /* bin k of the result stands at k mod by, k / by */
    bool back; /* the inverse, not yet divided */
} Steps;

/* Larger transforms than its square do not fit memory, and are not searched for a better one. */
#define DIVISOR_MOST 65536

static void steps_of(Steps *s)
{
    s->by = 1;
    for (int64_t n = 2; n <= DIVISOR_MOST && n * n <= s->size; n++)
        s->by = s->size % n == 0 ? n : s->by;
    s->ones = s->by > 1 ? s->by : s->size;
    s->twos = s->by > 1 ? s->size / s->by : 1;
}

/* A table of cos or -sin of 2 pi i j / of. */
static TeTensor waves(TeBuilder *b, const Steps *s, int64_t rows, int64_t columns, int64_t of,
                      bool sine)
{
    Te *v = wave(b, s->d, te_axis(b, 0), te_axis(b, 1), of, sine);
    return te_map(b, s->d, 2, (const int64_t[]){rows, columns},
                  sine && s->back ? te_unary(b, TE_NEG, v) : v);
}

/* A part of what a number, whose imaginary part may be NULL, is when it is turned. */
static Te *turned(TeBuilder *b, Te *re, Te *im, Te *cosine, Te *sine, bool imaginary)
{
    Te *v = te_binary(b, TE_MUL, re, imaginary ? sine : cosine);
    if (!im)
        return v;
    Te *w = te_binary(b, TE_MUL, im, imaginary ? cosine : sine);
    return te_binary(b, imaginary ? TE_ADD : TE_SUB, v, w);
}

/* From [rows, n, keep] to [rows, keep, bins]: the bins of transforms of n elements. */
static Parts step(TeBuilder *b, const Steps *s, Parts from, int64_t n, int64_t keep, int64_t bins)
{
    Parts to = {.real = false};
    TeTensor cosine = waves(b, s, n, bins, n, false), sine = waves(b, s, n, bins, n, true);
    int64_t shape[TENSOR_RANK_MOST];
    int r = s->rank;
    memcpy(shape, s->rows, sizeof *shape * (size_t)r);
    shape[r] = keep;
    shape[r + 1] = bins;
    Te *index[TENSOR_RANK_MOST], *at[2] = {te_axis(b, r + 2), te_axis(b, r + 1)};
    ops_axes(b, 0, r, index);
    index[r] = at[0];
    index[r + 1] = te_axis(b, r);
    Te *re = te_load(b, from.re, index), *im = from.real ? NULL : te_load(b, from.im, index);
    for (int part = 0; part < 2; part++) {
        Te *v = turned(b, re, im, te_load(b, cosine, at), te_load(b, sine, at), part);
        *(part ? &to.im : &to.re) = te_reduce(b, TE_SUM, s->d, r + 2, shape, 1, &n, v);
    }
    return to;
}

/* Each element of [rows, twos, ones] by as much as both steps share. */
static Parts turn(TeBuilder *b, const Steps *s, Parts from)
{
    Parts to = {.real = false};
    TeTensor cosine = waves(b, s, s->twos, s->ones, s->size, false);
    TeTensor sine = waves(b, s, s->twos, s->ones, s->size, true);
    int r = s->rank;
    Te *index[TENSOR_RANK_MOST], **at = index + r;
    ops_axes(b, 0, r + 2, index);
    Te *re = te_load(b, from.re, index), *im = te_load(b, from.im, index);
    for (int part = 0; part < 2; part++) {
        Te *v = turned(b, re, im, te_load(b, cosine, at), te_load(b, sine, at), part);
        *(part ? &to.im : &to.re) = te_map(b, s->d, r + 2, from.re.shape, v);
    }
    return to;
}

/* From [rows, ones, twos] to [rows, by, last]. */
static Parts transform(TeBuilder *b, const Steps *s, Parts from, int64_t bins)
{
    if (s->by == 1)
        return step(b, s, from, s->ones, 1, bins);
    from = turn(b, s, step(b, s, from, s->ones, s->twos, s->ones));
    return step(b, s, from, s->twos, s->ones, (bins + s->ones - 1) / s->ones);
}

/* ---- stft ----------------------------------------------------------------------------------------- */

typedef struct Frames {
    int64_t size, hop, window, bins;
} Frames;

static void frames_of(const Attrs *a, Frames *f)
{
    f->size = attrs_int(a, "n_fft", -1);
    f->hop = attrs_int(a, "hop_length", -1);
    f->window = attrs_int(a, "win_length", -1);
    if (f->hop <= 0)
        f->hop = f->size / 4;
    if (f->window <= 0)
        f->window = f->size;
    f->bins = attrs_bool(a, "onesided") ? f->size / 2 + 1 : f->size;
}

static RelResult rel_stft(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *w = t ? rel_tensor(r, 1) : NULL;
    Frames f;
    if (!w)
        return rel_blocked(r);
    frames_of(r->attrs, &f);
    if (t->n != 1 && !rel_rank(r, 0, t, 2))
        return REL_FAILED;
    Dim length = t->dims[t->n - 1];
    if (!rel_rank(r, 1, w, 1) || !rel_dtypes_agree(r, 0, t, 1, w))
        return REL_FAILED;
    if (f.size < 1 || f.hop < 1 || f.window > f.size || (length >= 0 && length < f.size) ||
        !dim_agrees(w->dims[0], f.window) || !dtype_is_float(t->dtype)) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, 0,
                  "frames of `n_fft` elements must fit into the data, and the window into a frame");
        return REL_FAILED;
    }
    Dim frames = length < 0 ? DIM_ANY : (length - f.size) / f.hop + 1;
    Dim dims[4] = {t->dims[0], f.bins, frames, 2};
    return rel_out_tensor(r, t->dtype, t->n + 2, t->n == 2 ? dims : dims + 1);
}

/* Frames times the window, which lies in their middle where it is shorter. */
static TeTensor windowed(TeBuilder *b, const Steps *s, const Frames *f)
{
    TeTensor x = te_input(b, 0), w = te_input(b, 1);
    int r = s->rank;
    int64_t shape[4], before = (f->size - f->window) / 2;
    memcpy(shape, s->rows, sizeof *shape * (size_t)r);
    shape[r] = s->ones;
    shape[r + 1] = s->twos;
    Te *n = ops_affine(b, te_axis(b, r), s->twos, te_axis(b, r + 1), 1, 0);
    Te *index[2] = {te_axis(b, 0)}, *at = te_binary(b, TE_SUB, n, te_int(b, before));
    index[r - 1] =
        te_binary(b, TE_ADD, te_binary(b, TE_MUL, te_axis(b, r - 1), te_int(b, f->hop)), n);
    Te *zero = te_number(b, s->d, 0), *v = te_cast(b, s->d, te_load(b, x, index));
    if (f->window == f->size)
        return te_map(b, s->d, r + 2, shape,
                      te_binary(b, TE_MUL, v, te_cast(b, s->d, te_load(b, w, &at))));
    Te *inside = te_binary(b, TE_AND, te_binary(b, TE_LE, te_int(b, 0), at),
                           te_binary(b, TE_LT, at, te_int(b, f->window)));
    v = te_binary(b, TE_MUL, v, te_cast(b, s->d, te_load_or(b, w, &at, te_number(b, w.dtype, 0))));
    return te_map(b, s->d, r + 2, shape, te_select(b, inside, v, zero));
}

static void compute_stft(TeBuilder *b)
{
    Frames f;
    frames_of(b->attrs, &f);
    int r = te_out_rank(b, 0), first = r - 3;
    const int64_t *out = te_out_shape(b, 0);
    int64_t rows[2] = {out[0], out[first + 1]};
    DType d = te_out_dtype(b, 0), sums = {DTYPE_CODE_FLOAT, 32, 1};
    Steps s = {d.bits < 32 ? sums : d, first + 1, rows + 1 - first, f.size, 0, 0, 0, false};
    steps_of(&s);
    Parts from = {.re = windowed(b, &s, &f), .real = true};
    Parts to = transform(b, &s, from, f.bins);
    Te *bin = te_axis(b, first), *index[4] = {te_axis(b, 0)};
    index[first] = te_axis(b, first + 1);
    index[first + 1] = te_binary(b, TE_MOD, bin, te_int(b, s.by));
    index[first + 2] = te_binary(b, TE_DIV, bin, te_int(b, s.by));
    Te *v = te_select(b, te_binary(b, TE_EQ, te_axis(b, first + 2), te_int(b, 0)),
                      te_load(b, to.re, index), te_load(b, to.im, index));
    if (attrs_bool(b->attrs, "normalized"))
        v = te_binary(b, TE_DIV, v, te_number(b, s.d, sqrt((double)f.size)));
    ops_emit(b, te_cast(b, d, v));
}

/* ---- dft ------------------------------------------------------------------------------------------ */

static RelResult rel_dft(Rel *r)
{
    const Type *re = rel_tensor(r, 0), *im = re ? rel_tensor(r, 1) : NULL;
    if (!im)
        return rel_blocked(r);
    bool fit = dtype_is_float(re->dtype) && re->dtype.bits >= 32 && re->n > 0 && re->n == im->n &&
               dtype_eq(re->dtype, im->dtype);
    Dim dims[TENSOR_RANK_MOST];
    for (uint32_t i = 0; fit && i < re->n; i++) {
        fit = dim_agrees(re->dims[i], im->dims[i]);
        dims[i] = re->dims[i] < 0 ? im->dims[i] : re->dims[i];
    }
    if (fit) {
        const Type *t = type_tensor(r->cx, re->dtype, re->n, dims);
        return rel_set_output(r, type_tuple(r->cx, 2, (const Type *[]){t, t}));
    }
    rel_error(r, E0202_SHAPE, 1,
              "real and imaginary parts must be `float32` or `float64` of one shape: `%s` and `%s`",
              type_str(r->cx, re), type_str(r->cx, im));
    return REL_FAILED;
}

static void compute_dft(TeBuilder *b)
{
    TeTensor re = te_input(b, 0), im = te_input(b, 1);
    int last = re.rank - 1;
    int64_t n = re.shape[last], rows = 1;
    for (int i = 0; i < last; i++)
        rows = (int64_t)((uint64_t)rows * (uint64_t)re.shape[i]); /* more are not computed */
    Steps s = {re.dtype, 1, &rows, n, 0, 0, 0, attrs_bool(b->attrs, "inverse")};
    steps_of(&s);
    int64_t apart[3] = {rows, s.ones, s.twos};
    Parts from = {ops_reshape(b, re, 3, apart), ops_reshape(b, im, 3, apart), false};
    Parts to = transform(b, &s, from, n);
    Te *axes[TENSOR_RANK_MOST], *index[3], *bin = te_axis(b, last);
    ops_axes(b, 0, last, axes);
    index[0] = te_flatten(b, last, re.shape, axes);
    index[1] = te_binary(b, TE_MOD, bin, te_int(b, s.by));
    index[2] = te_binary(b, TE_DIV, bin, te_int(b, s.by));
    for (int part = 0; part < 2; part++) {
        Te *v = te_load(b, part ? to.im : to.re, index);
        v = s.back ? te_binary(b, TE_DIV, v, te_number(b, s.d, (double)n)) : v;
        te_output(b, te_map(b, s.d, re.rank, re.shape, v));
    }
}

/* ---- rows ----------------------------------------------------------------------------------------- */

static const OpArg stft_args[] = {
    {"data", "one signal or several"}, {"window", "what each frame is multiplied by"}, {0}};
static const OpAttr stft_attrs[] = {
    ATTR_I("n_fft", -1, "elements of a frame: must be given"),
    ATTR_I("hop_length", -1, "from frame to frame; -1: a quarter of a frame"),
    ATTR_I("win_length", -1, "elements of the window; -1: of a frame"),
    ATTR_B("normalized", 0, "the result is divided by the root of n_fft"),
    ATTR_B("onesided", 1, "only the frequencies that a real signal has"),
    {0}};

static const OpArg dft_args[] = {{"re_data", "real parts"}, {"im_data", "imaginary parts"}, {0}};
static const OpAttr dft_attrs[] = {
    ATTR_B("inverse", 0, "back from the spectrum, divided by the number of elements"), {0}};

const Op signal_ops[] = {
    {.name = "stft",
     .doc = "The spectra of overlapping parts of signals: real and imaginary parts along the last "
            "axis.",
     .args = stft_args,
     .attrs = stft_attrs,
     .shapes = "(b, n), (win_length) -> (b, n_fft/2 + 1, (n - n_fft)/hop_length + 1, 2); n_fft "
               "extents in the second where not onesided",
     .samples = "(float32[7], float32[3], n_fft=3, hop_length=2, win_length=3)",
     .pattern = OP_OPAQUE,
     .rel = rel_stft,
     .compute = compute_stft},
    {.name = "dft",
     .doc = "The discrete Fourier transform along the last axis.",
     .args = dft_args,
     .attrs = dft_attrs,
     .shapes = "(d...), (d...) -> ((d...), (d...))",
     .samples = "(float32[2,3], float32[2,3])",
     .pattern = OP_OPAQUE,
     .rel = rel_dft,
     .compute = compute_dft},
    {0},
};
