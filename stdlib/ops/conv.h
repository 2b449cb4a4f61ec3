/* What the files about convolutions share.
 *
 * One description serves every layout: positions of the batch, channel and spatial axes in the data,
 * the weight and the result. A relation makes it with conv_of_rel, a compute function with conv_begin. */
#ifndef STDLIB_OPS_CONV_H
#define STDLIB_OPS_CONV_H

#include "stdlib/ops/ops.h"

enum { SPATIAL_MOST = 3, LETTERS_MOST = SPATIAL_MOST + 2 };

/* Where the letters stand: data N C …, weight O I …, result N C …. What has blocks ("NCHW16c") is
 * brought to that very order first. */
typedef struct Conv {
    int n; /* spatial axes */
    int x[LETTERS_MOST], w[LETTERS_MOST], o[LETTERS_MOST];
    int64_t out[LETTERS_MOST]; /* extents of the result without blocks, for computing */
    int64_t strides[SPATIAL_MOST], dilation[SPATIAL_MOST];
    int64_t before[SPATIAL_MOST], after[SPATIAL_MOST], more[SPATIAL_MOST];
    int64_t groups;
    bool multiplied; /* depthwise with a weight of (channels, multiplier, …) */
} Conv;

/* The letters of data with n spatial axes: "NCHW" for 2. */
extern const char *const conv_data_letters[];

/* False after a diagnostic. */
bool conv_of_rel(Rel *r, int n, bool transposed, Conv *c);
/* The type of the data with its blocks joined; NULL after a diagnostic. */
const Type *conv_data(Rel *r, int n, const Type *t);
/* Sets the result of the convolution of such data with a kernel of these extents. */
RelResult conv_result(Rel *r, const Conv *c, const Type *x, const Dim *kernel, Dim channels,
                      bool transposed);

/* What the attributes say; joins the blocks of x and, unless it is NULL, of w. */
void conv_begin(TeBuilder *b, int n, bool transposed, TeTensor *x, TeTensor *w, Conv *c);
/* The output, from the result in the plain layout. */
void conv_end(TeBuilder *b, const Conv *c, TeTensor plain);

#endif
