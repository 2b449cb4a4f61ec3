/* Boxes in kernels. */
#include "stdlib/ops/boxes.h"

#include <math.h>
#include <string.h>

static const DType float64_dtype = {DTYPE_CODE_FLOAT, 64, 1};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

double boxes_overlap(const double *a, const double *b, double edge)
{
    double inside = 1, area_a = 1, area_b = 1;
    for (int i = 0; i < 2; i++) {
        double a0 = fmin(a[i], a[i + 2]), a1 = fmax(a[i], a[i + 2]) + edge;
        double b0 = fmin(b[i], b[i + 2]), b1 = fmax(b[i], b[i + 2]) + edge;
        inside *= fmax(0, fmin(a1, b1) - fmax(a0, b0));
        area_a *= a1 - a0;
        area_b *= b1 - b0;
    }
    double both = area_a + area_b - inside;
    return both <= 0 ? 0 : inside / both;
}

static bool stands_before(const Scored *x, const Scored *y)
{
    return x->score != y->score ? x->score > y->score : x->at < y->at;
}

void scored_sort(Limits *limits, Scored *all, int64_t n)
{
    Scored *from = all, *to = all + n;
    for (int64_t run = 1; run < n; run *= 2) {
        int64_t i = 0, j = 0, mid = 0, high = 0;
        for (int64_t k = 0; k < n; k++) {
            if (limit_hit_at(limits, k))
                return;
            if (k == high) {
                i = high;
                j = mid = least(i + run, n);
                high = least(mid + run, n);
            }
            bool left = i < mid && (j >= high || stands_before(&from[i], &from[j]));
            to[k] = left ? from[i++] : from[j++];
        }
        Scored *t = from;
        from = to;
        to = t;
    }
    if (from != all)
        memcpy(all, from, (size_t)n * sizeof *all);
}

Tensor *kernel_scored(OpCall *c, int64_t n)
{
    return tensor_new(&c->cx->limits, float64_dtype, 1, (int64_t[]){4 * n + 1});
}

int64_t boxes_keep(Limits *limits, const double *boxes, const Scored *order, int64_t n,
                   double threshold, double edge, int64_t most, int64_t *kept)
{
    int64_t found = 0;
    for (int64_t i = 0; i < n && found < most; i++) {
        bool good = true;
        for (int64_t k = 0; good && k < found; k++)
            good = boxes_overlap(boxes + 4 * order[i].at, boxes + 4 * kept[k], edge) <= threshold;
        if (good)
            kept[found++] = order[i].at;
        if (((i & 0xff) == 0 || (found & 0xff) == 0) && limit_hit(limits))
            return 0;
    }
    return found;
}
