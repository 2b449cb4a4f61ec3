/* What the rules of qnn.CanonicalizeOps have in common. */
#ifndef PASSES_QNN_LOWER_H
#define PASSES_QNN_LOWER_H

#include "passes/pass.h"

#include "stdlib/ops/ops.h"

/* A call that is written anew. */
typedef struct Lower {
    OpsMake m;
    Module *module;
    const Call *call;
    Expr *const *args;
    const Type *type; /* of the result */
} Lower;

extern const DType qnn_int32;

Expr *qnn_call2(Lower *l, const char *op, Expr *x, Expr *y);
Expr *qnn_cast(Lower *l, Expr *e, DType to);
Expr *qnn_number32(Lower *l, double v);
Expr *qnn_only_number(Lower *l, Expr *e); /* a vector of one number as that number */
const Type *qnn_tensor_of(const Expr *e);
/* The one number that a constant is. */
bool qnn_constant_number(const Expr *e, double *out);
bool qnn_is_zero(const Expr *e);
/* A zero point or another number for each channel, as a vector even if it is one for all. */
Expr *qnn_expand_vector(Lower *l, Expr *e, const Type *t, int64_t axis);
/* x times a factor, or one for each place of an axis; x is of type t. Halves go up, or away from zero. */
Expr *qnn_multiply_fixed(Lower *l, Expr *x, const Type *t, int64_t axis, int64_t n,
                         const double *factors, bool upward);
/* The attributes of the product without `qnn.`. */
uint32_t qnn_copy_attrs(const Lower *l, Attr *attrs);
Expr *qnn_product(Lower *l, Expr *x, Expr *w);
Expr *qnn_sum_along(Lower *l, Expr *e, uint32_t n, const int64_t *axes, bool keep);
/* The terms of (x - zx) * (w - zw) that are not 0. */
Expr *qnn_combine(Lower *l, Expr *first, Expr *second, Expr *third, Expr *fourth);
/* zx * zw * n */
Expr *qnn_zeros_product(Lower *l, Expr *zx, Expr *zw, int64_t n);
/* Zero points are taken off before; where there are none, the integers go in as they are. */
Expr *qnn_lower_product(Lower *l);
Expr *qnn_lower_conv2d(Lower *l);

#endif
