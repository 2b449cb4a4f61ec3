/* Sums of products of small integers. Processors multiply and add several of them at once, which lie side by side in words of 32 bits: four
 * bytes of which one operand has no sign and the other has one (TE_DOTS), or two numbers of 16 bits (TE_PAIRS). Strategies lay out both
 * operands in words along the sum, or read those of the data where they lie side by side, and what is left of the last word is zero in the
 * weights. Everything is exact, for sums wrap.
 *
 * Where both operands have a sign, or none has, the highest bit of the data's bytes is flipped: they are 128 more, or less, and sums start
 * from what that makes with the weights. */
#ifndef SCHED_WORDS_H
#define SCHED_WORDS_H

#include "loop/nest.h"

typedef struct Words {
    int each; /* factors in a word; 1: there are no words, elements are multiplied as they are */
    bool flips; /* the data's highest bits */
    bool turned; /* weights are the operand without a sign */
} Words;

/* Whether products of elements of these types, summed in `sum`, can be computed so; `dots`: the processor has TE_DOTS. */
bool words_of(bool dots, DType sum, DType data, DType weights, Words *out);
/* What lies in a buffer of words, or of elements. */
DType words_dtype(const Words *w, DType element);
int64_t words_along(const Words *w, int64_t extent);
/* The word of `n` elements, at most w->each; the others are zero. Data is flipped. */
Te *words_pack(TeBuilder *b, const Words *w, Te *const *elements, int n, bool data);
/* What stands for zero in words of data. */
double words_zero(const Words *w);
/* The product of words, or of elements. */
Te *words_product(TeBuilder *b, const Words *w, Te *data, Te *weights);
/* What a word of weights adds to where its sums start. */
Te *words_start(TeBuilder *b, const Words *w, Te *weights);

#endif
