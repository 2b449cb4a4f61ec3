/* What the families of quantised operators share. */
#ifndef STDLIB_OPS_QNN_H
#define STDLIB_OPS_QNN_H

#include "stdlib/ops/ops.h"

#define CHANNELS ATTR_I("axis", -1, "the axis of scales and zero points that are vectors")

/* The extent of the axis that scales and zero points lie along; *good is false after a diagnostic. */
Dim quant_extent(Rel *r, const Type *t, bool *good);
/* Element of a scale or zero point: the only one, or the one along the axis. */
Te *quant_parameter(TeBuilder *b, TeTensor t, int axis, DType as);
/* The axis that they lie along. */
int quant_axis(const TeBuilder *b, int rank);
/* Argument i, a scalar. */
Te *quant_scalar(TeBuilder *b, int i);

#endif
