/* Boxes in kernels. */
#include "stdlib/ops/boxes.h"

#include "base/clones.h"
#include "stdlib/ops/order.h"

#include <math.h>
#include <string.h>

static const DType float64_dtype = {DTYPE_CODE_FLOAT, 64, 1};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The lesser and the greater, where one is no number the other. */
static double lesser(double a, double b)
{
    return a < b || b != b ? a : b;
}

static double greater(double a, double b)
{
    return a > b || b != b ? a : b;
}

Box box_of(const BoxSet *s, const double *corners, double kind)
{
    Box out = {.area = 1, .kind = kind};
    for (int i = 0; i < 2; i++) {
        out.low[i] = lesser(corners[i], corners[i + 2]);
        out.high[i] = greater(corners[i], corners[i + 2]) + s->edge;
        out.area *= out.high[i] - out.low[i];
    }
    return out;
}

bool box_set_begin(OpCall *c, BoxSet *s, int64_t n)
{
    int64_t room = (n / BOX_BLOCK + 1) * BOX_BLOCK;
    s->bound = s->at_threshold ? nextafter(s->threshold, -INFINITY) : s->threshold;
    s->room = tensor_new(&c->cx->limits, float64_dtype, 2, (int64_t[]){6, room});
    for (int i = 0; s->room && i < 6; i++)
        s->column[i] = reals(s->room) + i * room;
    return s->room != NULL;
}

void box_set_add(BoxSet *s, const Box *b)
{
    double v[6] = {b->low[0], b->low[1], b->high[0], b->high[1], b->area, b->kind};
    for (int i = 0; i < 6; i++)
        s->column[i][s->n] = v[i];
    s->n++;
}

/* The first block from `at` on in which a box may overlap b too much; s->n when there is none. None is missed: what lies below the rounded
 * product lies below the product, and then the quotient, rounded, is at most the bound; what is no number lies below nothing. */
CLONES static int64_t next_block(const BoxSet *s, const Box *b, int64_t at)
{
    double bound = s->bound, low0 = b->low[0], low1 = b->low[1], high0 = b->high[0];
    double high1 = b->high[1], area = b->area, kind = b->kind;
    for (; at < s->n; at += BOX_BLOCK) {
        const double *x0 = s->column[0] + at, *y0 = s->column[1] + at, *x1 = s->column[2] + at;
        const double *y1 = s->column[3] + at, *areas = s->column[4] + at,
                     *kinds = s->column[5] + at;
        int64_t far = 0;
        for (int k = 0; k < BOX_BLOCK; k++) {
            double w = (x1[k] < high0 ? x1[k] : high0) - (x0[k] > low0 ? x0[k] : low0);
            double h = (y1[k] < high1 ? y1[k] : high1) - (y0[k] > low1 ? y0[k] : low1);
            double inside = (w > 0 ? w : 0) * (h > 0 ? h : 0);
            far += (inside < bound * (areas[k] + area - inside)) | (kinds[k] != kind);
        }
        if (far < BOX_BLOCK)
            return at;
    }
    return s->n;
}

/* The common part of b and box k in what they cover together. */
static double overlap(const BoxSet *s, const Box *b, int64_t k)
{
    double inside = 1;
    for (int i = 0; i < 2; i++)
        inside *= greater(0, lesser(s->column[2 + i][k], b->high[i]) -
                                 greater(s->column[i][k], b->low[i]));
    double both = s->column[4][k] + b->area - inside;
    return both <= 0 ? 0 : inside / both;
}

bool box_set_meets(const BoxSet *s, const Box *b)
{
    for (int64_t at = 0; (at = next_block(s, b, at)) < s->n; at += BOX_BLOCK)
        for (int64_t k = at; k < least(at + BOX_BLOCK, s->n); k++) {
            double v = overlap(s, b, k);
            if (s->column[5][k] == b->kind &&
                !(s->at_threshold ? v < s->threshold : v <= s->threshold))
                return true;
        }
    return false;
}

/* A key that is the less the greater the score; both zeros alike, what is no number behind everything. */
static uint64_t key_of(double score)
{
    uint64_t bits = 0, sign = (uint64_t)1 << 63;
    if (score != score)
        return UINT64_MAX;
    if (score != 0)
        memcpy(&bits, &score, sizeof bits);
    return bits & sign ? bits : ~bits & ~sign;
}

void scored_sort(Limits *limits, Scored *all, int64_t n)
{
    Item *items = (Item *)(void *)(all + n), *room = items + n;
    for (int64_t i = 0; i < n && !limit_hit_at(limits, i); i++)
        items[i] = (Item){key_of(all[i].score), i};
    const Item *order = limit_hit(limits) ? NULL : order_sort(limits, items, room, n, 64);
    Scored *sorted = (Scored *)(void *)(order == items ? room : items);
    for (int64_t i = 0; order && i < n && !limit_hit_at(limits, i); i++)
        sorted[i] = all[order[i].at];
    if (order)
        memcpy(all, sorted, (size_t)n * sizeof *all);
}

Tensor *kernel_scored(OpCall *c, int64_t n)
{
    return tensor_new(&c->cx->limits, float64_dtype, 1, (int64_t[]){6 * n + 1});
}

int64_t boxes_keep(Limits *limits, BoxSet *s, const double *boxes, const Scored *order, int64_t n,
                   int64_t most, int64_t *kept)
{
    s->n = 0;
    for (int64_t i = 0; i < n && s->n < most; i++) {
        Box b = box_of(s, boxes + 4 * order[i].at, 0);
        if (!box_set_meets(s, &b)) {
            kept[s->n] = order[i].at;
            box_set_add(s, &b);
        }
        if (limit_hit(limits))
            return 0;
    }
    return s->n;
}
