/* What is told of the numbers of a tensor; views of values are made of this. */
#ifndef SESSION_VIEWS_FACTS_H
#define SESSION_VIEWS_FACTS_H

#include "base/buf.h"
#include "base/limit.h"
#include "runtime/value.h"

#define FACTS_BINS 24

typedef struct TensorFacts {
    int64_t n; /* elements that were looked at */
    int64_t nans, infinities, zeros;
    double least, most, mean, spread; /* of those that are finite; spread: the standard deviation */
    uint64_t bins[FACTS_BINS]; /* of equal width, from the least to the most */
    uint64_t bin_most;
} TensorFacts;

/* Of the first `most` elements. */
TensorFacts tensor_facts(const Tensor *t, int64_t most, Limits *limits);
/* `min 0, max 5, mean 2.5, spread 1.7; 1 zero, 2 NaN`. */
void facts_print(Buf *out, const TensorFacts *f);
/* The bins as blocks of eight heights; as a picture. */
void facts_bars(Buf *out, const TensorFacts *f);
void facts_svg(Buf *out, const TensorFacts *f);

#endif
