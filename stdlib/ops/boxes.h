/* What the kernels on boxes share: overlap, order by score, choosing greedily. They compute in float64. */
#ifndef STDLIB_OPS_BOXES_H
#define STDLIB_OPS_BOXES_H

#include "stdlib/ops/ops.h"

typedef struct Scored {
    double score;
    int64_t at;
} Scored;

/* Greatest score first, equal ones in their order. The room is of `kernel_scored`. */
void scored_sort(Limits *limits, Scored *all, int64_t n);
/* Room for n of them and to sort them; NULL when memory is refused. It is a tensor, so that it counts. */
Tensor *kernel_scored(OpCall *c, int64_t n);

/* The common part of two boxes in what they cover together; their corners may stand in either order. `edge` is 1 where coordinates
 * name pixels that belong to the box, else 0. */
double boxes_overlap(const double *a, const double *b, double edge);
/* Goes through boxes in this order and keeps those that overlap none kept before by more than `threshold`: their numbers to `kept`,
 * at most `most` of them. How many. */
int64_t boxes_keep(Limits *limits, const double *boxes, const Scored *order, int64_t n,
                   double threshold, double edge, int64_t most, int64_t *kept);

/* The elements of tensors of these types. */
static inline double *reals(const Tensor *t)
{
    return (double *)(void *)t->data;
}

static inline int64_t *longs(const Tensor *t)
{
    return (int64_t *)(void *)t->data;
}

static inline int32_t *ints(const Tensor *t)
{
    return (int32_t *)(void *)t->data;
}

#endif
