#include "session/views/facts.h"

#include "base/number.h"

#include <math.h>

static void first_look(TensorFacts *f, const Tensor *t, Limits *limits)
{
    double sum = 0, squares = 0, origin = 0;
    int64_t finite = 0;
    f->least = INFINITY;
    f->most = -INFINITY;
    for (int64_t i = 0; i < f->n && !limit_hit_at(limits, i); i++) {
        double v = tensor_get_double(t, i);
        f->nans += isnan(v);
        f->infinities += isinf(v) != 0;
        f->zeros += v == 0;
        if (!isfinite(v))
            continue;
        origin = finite ? origin : v; /* what lies far from zero would lose its spread */
        finite++;
        f->least = v < f->least ? v : f->least;
        f->most = v > f->most ? v : f->most;
        sum += v - origin;
        squares += (v - origin) * (v - origin);
    }
    double mean = finite ? sum / (double)finite : 0;
    f->mean = finite ? origin + mean : NAN;
    f->spread = finite ? sqrt(fmax(0, squares / (double)finite - mean * mean)) : NAN;
}

TensorFacts tensor_facts(const Tensor *t, int64_t most, Limits *limits)
{
    TensorFacts f = {.n = t->size < most ? t->size : most};
    first_look(&f, t, limits);
    double width = f.most - f.least;
    for (int64_t i = 0; i < f.n && width > 0 && isfinite(width) && !limit_hit_at(limits, i); i++) {
        double v = tensor_get_double(t, i);
        int bin = isfinite(v) ? (int)((v - f.least) / width * FACTS_BINS) : -1;
        bin = bin == FACTS_BINS ? bin - 1 : bin;
        if (bin >= 0 && ++f.bins[bin] > f.bin_most)
            f.bin_most = f.bins[bin];
    }
    return f;
}

static void put_count(Buf *out, const char *between, int64_t n, const char *one, const char *many)
{
    if (n)
        buf_printf(out, "%s%lld %s", between, (long long)n, n == 1 ? one : many);
}

void facts_print(Buf *out, const TensorFacts *f)
{
    static const char *const names[] = {"min ", ", max ", ", mean ", ", spread "};
    const double numbers[] = {f->least, f->most, f->mean, f->spread};
    bool any = f->least <= f->most;
    for (size_t i = 0; any && i < sizeof numbers / sizeof *numbers; i++) {
        buf_str(out, names[i]);
        number_print_g6(out, numbers[i]);
    }
    const char *between = any ? "; " : "";
    put_count(out, between, f->zeros, "zero", "zeros");
    between = any && !f->zeros ? "; " : f->zeros ? ", " : "";
    put_count(out, between, f->nans, "NaN", "NaN");
    between = f->nans ? ", " : between;
    put_count(out, between, f->infinities, "infinity", "infinities");
    if (!any && !f->nans && !f->infinities)
        buf_str(out, "empty");
}

void facts_bars(Buf *out, const TensorFacts *f)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    for (size_t i = 0; f->bin_most && i < FACTS_BINS; i++) {
        size_t height = (size_t)((double)f->bins[i] / (double)f->bin_most * 8);
        buf_str(out, blocks[f->bins[i] && !height ? 1 : height]);
    }
}

void facts_svg(Buf *out, const TensorFacts *f)
{
    enum { WIDE = 5, HIGH = 24 };
    if (!f->bin_most)
        return;
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" role=\"img\" "
               "aria-label=\"histogram\"><path fill=\"currentColor\" fill-opacity=\"0.55\" d=\"",
               WIDE * FACTS_BINS, HIGH);
    for (int i = 0; i < FACTS_BINS; i++) {
        double high = (double)f->bins[i] / (double)f->bin_most * HIGH;
        if (f->bins[i])
            buf_printf(out, "M%d %dh%dv-%.1fh-%dz", i * WIDE, HIGH, WIDE - 1, high < 1 ? 1 : high,
                       WIDE - 1);
    }
    buf_str(out, "\"/></svg>");
}
