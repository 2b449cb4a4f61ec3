/* Which stages are matrix products that the library does well. */
#include "sched/strategy.h"
#include "sched/words.h"

#include <math.h>

/* Joins an axis that lies outside of what the side holds; false when they do not step evenly. Axes come innermost first. */
static bool join(NestSide *s, NestSide outer)
{
    if (s->extent == 1) {
        *s = outer;
        return true;
    }
    bool even =
        outer.a == s->a * s->extent && outer.b == s->b * s->extent && outer.c == s->c * s->extent;
    s->extent *= even ? outer.extent : 1;
    return even;
}

/* `first` is the factor of the rows. */
static bool sides_of(const TeStage *s, const TeSides *sides, const TeAffine *first,
                     const TeAffine *second, NestProduct *out, NestSide *outer)
{
    NestSide *const side[] = {[TE_SIDE_EACH] = &out->batch,
                              [TE_SIDE_ROWS] = &out->m,
                              [TE_SIDE_COLUMNS] = &out->n,
                              [TE_SIDE_FOLDS] = &out->k};
    int64_t c = 1;
    for (int i = s->rank + s->n_reduced - 1; i >= 0; i--) {
        bool reduced = i >= s->rank;
        NestSide axis = {reduced ? s->reduced[i - s->rank] : s->shape[i], first->stride[i],
                         second->stride[i], reduced ? 0 : c};
        c *= reduced ? 1 : axis.extent;
        if (sides->of[i] == TE_SIDE_NONE)
            continue;
        if (axis.a < 0 || axis.b < 0 || (axis.a == 0 && axis.b == 0) ||
            (reduced && sides->of[i] == TE_SIDE_EACH))
            return false;
        /* What does not join the rows or columns is one product for each of its values. */
        if (!join(side[sides->of[i]], axis) &&
            (reduced || (!join(&out->batch, axis) && (!outer || !join(outer, axis)))))
            return false;
    }
    return true;
}

/* Whether the library can see an operand of rows and columns with these steps: one of them is 1. */
static bool is_plain(int64_t rows, int64_t row_step, int64_t columns, int64_t column_step)
{
    bool transposed = column_step != 1 && columns > 1;
    if (transposed && row_step != 1 && rows > 1)
        return false;
    int64_t lead = transposed ? column_step : row_step;
    return lead >= (transposed ? rows : columns) || (transposed ? columns : rows) <= 1;
}

/* Small products, and those with vectors, are as fast as loops. */
static bool is_large(const NestProduct *p)
{
    return p->m.extent >= 8 && p->n.extent >= 4 && p->k.extent >= 8 &&
           p->m.extent * p->n.extent * p->k.extent >= 32768;
}

/* Multiply-adds that summing the lanes of a vector costs; rows, or columns, of a tile. */
#define FOLDS_LANES 10.0
#define FOLDS_TILE 4.0

DType product_dtype(const TeProgram *p, int id)
{
    return id < p->n_inputs ? p->inputs[id].dtype : p->stages[id - p->n_inputs].dtype;
}

static bool is_float64(DType sum, DType a, DType b)
{
    return sum.code == DTYPE_CODE_FLOAT && sum.bits == 64 && dtype_eq(sum, a) && dtype_eq(sum, b);
}

bool product_sides(const TeProgram *p, int stage, NestProduct *q, NestSide *outer)
{
    const TeStage *s = &p->stages[stage];
    TeContraction t;
    NestSide one = {.extent = 1};
    Words words;
    if (!te_contraction(p, stage, &t) || t.a.padded || t.b.padded)
        return false;
    DType a = product_dtype(p, t.a.tensor), b = product_dtype(p, t.b.tensor);
    if (!is_float64(s->dtype, a, b) && !words_of(false, s->dtype, a, b, &words))
        return false;
    const TeAffine *first = t.sides.turned ? &t.b : &t.a, *second = t.sides.turned ? &t.a : &t.b;
    *q = (NestProduct){
        one,          one, one, one, first->tensor, second->tensor, first->offset, second->offset,
        s->body->span};
    if (outer)
        *outer = one;
    return sides_of(s, &t.sides, first, second, q, outer) && q->n.c == 1 &&
           (q->m.extent == 1 || q->m.c >= q->n.extent);
}

bool product_fits(const Sched *s, int stage)
{
    NestProduct q;
    return product_sides(s->p, stage, &q, NULL) && dtype_is_float(s->p->stages[stage].dtype) &&
           is_large(&q) && is_plain(q.m.extent, q.m.a, q.k.extent, q.k.a) &&
           is_plain(q.k.extent, q.k.b, q.n.extent, q.n.b);
}

/* The library packs both operands, and is called; its vectors of columns are whole ones. */
double product_cost(const Sched *s, int stage)
{
    NestProduct q;
    product_sides(s->p, stage, &q, NULL);
    double m = (double)q.m.extent, n = (double)q.n.extent, k = (double)q.k.extent;
    int64_t size = (int64_t)dtype_size(s->p->stages[stage].dtype);
    double bytes = (double)size * (m + n) * k, lanes = (double)((int64_t)s->m->vector_bytes / size);
    return (double)q.batch.extent *
           (1.25 * m * ceil(n / lanes) * k + 0.2 * bytes + SCHED_BYTE_COST * bytes + 2000);
}

/* Vectors along the sum, tiles of results that share what they load, and at last each sum of a vector's lanes. */
double folds_cost(const Sched *s, int stage)
{
    NestProduct q;
    NestSide outer;
    DType t = s->p->stages[stage].dtype;
    if (!product_sides(s->p, stage, &q, &outer) || q.k.a != 1 || q.k.b != 1 || !dtype_is_float(t) ||
        !dtype_eq(t, product_dtype(s->p, q.a)))
        return -1;
    int64_t size = (int64_t)dtype_size(t), lanes = (int64_t)s->m->vector_bytes / size;
    /* Known columns that fill vectors are laid out once, and then nothing is summed along a vector. */
    if (sched_is_known(s, q.b) && q.n.extent >= lanes)
        return -1;
    double m = (double)q.m.extent, n = (double)q.n.extent, k = (double)q.k.extent;
    double loads = 1 / fmin(m, FOLDS_TILE) + 1 / fmin(n, FOLDS_TILE);
    /* Vectors of rows that do not begin with a line lie in two of them. */
    double least = q.k.extent % lanes ? 2 : 1.2;
    double each = fmax(least, loads) * ceil(k / (double)lanes) + FOLDS_LANES;
    return (double)(outer.extent * q.batch.extent) *
           (m * n * each + SCHED_BYTE_COST * (double)size * (m + n) * k);
}

void product_build(Sched *s, int stage, const Tail *t)
{
    NestProduct q;
    (void)t;
    product_sides(s->p, stage, &q, NULL);
    nest_append(s->n, NULL, nest_product(s->n, s->p->n_inputs + stage, &q));
}
