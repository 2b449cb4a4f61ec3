/* What the kernels on boxes share: overlap, order by score, choosing greedily. They compute in float64. */
#ifndef STDLIB_OPS_BOXES_H
#define STDLIB_OPS_BOXES_H

#include "stdlib/ops/ops.h"

typedef struct Scored {
    double score;
    int64_t at;
} Scored;

/* Greatest score first, equal ones in their order, what is no number last. The room is of `kernel_scored`. */
void scored_sort(Limits *limits, Scored *all, int64_t n);
/* Room for n of them and to sort them; NULL when memory is refused. It is a tensor, so that it counts. */
Tensor *kernel_scored(OpCall *c, int64_t n);

/* A box: its corners in order, and what else must agree for two to overlap. */
typedef struct Box {
    double low[2], high[2], area, kind;
} Box;

/* Boxes that were kept, and when others overlap them too much: when the common part of two in what they cover together is above the
 * threshold, or is no number. */
enum { BOX_BLOCK = 16 };
typedef struct BoxSet {
    double threshold;
    bool at_threshold; /* it is too much already */
    double edge; /* 1 where coordinates name pixels that belong to the box, else 0 */
    double bound; /* the greatest number that is not too much, where the threshold is positive */
    Tensor *room;
    double *column[6]; /* of a Box's numbers */
    int64_t n;
} BoxSet;

/* With the threshold and the edge set: makes room for n boxes, which tensor_release gives back. */
bool box_set_begin(OpCall *c, BoxSet *s, int64_t n);
/* Of corners in either order. */
Box box_of(const BoxSet *s, const double *corners, double kind);
void box_set_add(BoxSet *s, const Box *b);
/* Whether one of the set is of the kind of b and overlaps it too much. */
bool box_set_meets(const BoxSet *s, const Box *b);
/* Goes through boxes in this order and keeps those that overlap none kept before too much: their numbers to `kept`, at most `most` of
 * them. How many. */
int64_t boxes_keep(Limits *limits, BoxSet *s, const double *boxes, const Scored *order, int64_t n,
                   int64_t most, int64_t *kept);

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
