/* Spectra. */
#include "stdlib/ops/ops.h"

#include <math.h>

/* cos or -sin of 2 pi k n / of. The product is reduced first, so that large ones lose nothing. */
static Te *wave(TeBuilder *b, DType d, Te *k, Te *n, int64_t of, bool sine)
{
    const double turn = 2 * 3.14159265358979323846;
    Te *steps = te_binary(b, TE_MOD, te_binary(b, TE_MUL, k, n), te_int(b, of ? of : 1));
    Te *angle =
        te_binary(b, TE_MUL, te_cast(b, d, steps), te_number(b, d, turn / (double)(of ? of : 1)));
    return sine ? te_unary(b, TE_NEG, te_unary(b, TE_SIN, angle)) : te_unary(b, TE_COS, angle);
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

/* A window that is shorter than the frame lies in its middle. */
static void compute_stft(TeBuilder *b)
{
    TeTensor x = te_input(b, 0), w = te_input(b, 1);
    DType d = x.dtype;
    Frames f;
    frames_of(b->attrs, &f);
    int r = te_out_rank(b, 0), first = r - 3;
    Te *bin = te_axis(b, first), *frame = te_axis(b, first + 1), *part = te_axis(b, first + 2);
    Te *k = te_axis(b, r), *index[2] = {te_axis(b, 0), NULL};
    Te *n = te_binary(b, TE_ADD, k, te_int(b, (f.size - f.window) / 2));
    index[first] = te_binary(b, TE_ADD, te_binary(b, TE_MUL, frame, te_int(b, f.hop)), n);
    Te *v = te_binary(b, TE_MUL, te_load(b, x, index), te_load(b, w, &k));
    if (attrs_bool(b->attrs, "normalized"))
        v = te_binary(b, TE_DIV, v, te_number(b, d, sqrt((double)f.size)));
    Te *real = te_binary(b, TE_EQ, part, te_int(b, 0));
    Te *turn =
        te_select(b, real, wave(b, d, bin, n, f.size, false), wave(b, d, bin, n, f.size, true));
    te_output(b, te_reduce(b, TE_SUM, d, r, te_out_shape(b, 0), 1, &f.window,
                           te_binary(b, TE_MUL, v, turn)));
}

/* ---- dft ------------------------------------------------------------------------------------------ */

static RelResult rel_dft(Rel *r)
{
    const Type *re = rel_tensor(r, 0), *im = re ? rel_tensor(r, 1) : NULL;
    if (!im)
        return rel_blocked(r);
    bool exact = dtype_is_float(re->dtype) && re->dtype.bits >= 32;
    if (re->n > 0 && exact && re == im)
        return rel_set_output(r, type_tuple(r->cx, 2, (const Type *[]){re, im}));
    rel_error(r, E0202_SHAPE, 1,
              "real and imaginary parts must be `float32` or `float64` of one shape: `%s` and `%s`",
              type_str(r->cx, re), type_str(r->cx, im));
    return REL_FAILED;
}

static void compute_dft(TeBuilder *b)
{
    TeTensor re = te_input(b, 0), im = te_input(b, 1);
    DType d = re.dtype;
    int r = re.rank;
    int64_t n = re.shape[r - 1];
    bool inverse = attrs_bool(b->attrs, "inverse");
    Te *index[TENSOR_RANK_MOST], *k = te_axis(b, r - 1);
    ops_axes(b, 0, r, index);
    index[r - 1] = te_axis(b, r);
    Te *x = te_load(b, re, index), *y = te_load(b, im, index);
    Te *c = wave(b, d, k, index[r - 1], n, false), *s = wave(b, d, k, index[r - 1], n, true);
    s = inverse ? te_unary(b, TE_NEG, s) : s;
    for (int part = 0; part < 2; part++) {
        Te *body = te_binary(b, part ? TE_ADD : TE_SUB, te_binary(b, TE_MUL, x, part ? s : c),
                             te_binary(b, TE_MUL, y, part ? c : s));
        body = inverse ? te_binary(b, TE_DIV, body, te_number(b, d, (double)n)) : body;
        te_output(b, te_reduce(b, TE_SUM, d, r, re.shape, 1, &n, body));
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
     .samples = "(float32[8], float32[4], n_fft=4, hop_length=2, win_length=4)",
     .pattern = OP_OPAQUE,
     .rel = rel_stft,
     .compute = compute_stft},
    {.name = "dft",
     .doc = "The discrete Fourier transform along the last axis.",
     .args = dft_args,
     .attrs = dft_attrs,
     .shapes = "(d...), (d...) -> ((d...), (d...))",
     .samples = "(float32[2,4], float32[2,4])",
     .pattern = OP_OPAQUE,
     .rel = rel_dft,
     .compute = compute_dft},
    {0},
};
