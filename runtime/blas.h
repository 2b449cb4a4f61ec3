/* OpenBLAS, opened on first use.
 *
 * The library picks its kernels when it is loaded, from a list of processors that may be older than
 * this one; so the core type is told it through OPENBLAS_CORETYPE before dlopen, by our own look at
 * the processor. Without the library, or the memory that it takes, a plain loop does the same. */
#ifndef RUNTIME_BLAS_H
#define RUNTIME_BLAS_H

#include "base/limit.h"

typedef struct Blas Blas;

/* Opens nothing yet. A product in whose midst the limits (NULL: none) are reached ends, and its result is worth nothing: the caller
 * asks limit_hit. */
Blas *blas_new(int threads, const Limits *limits);
void blas_free(Blas *b);
/* More than there is memory for are not taken. */
void blas_set_threads(Blas *b, int threads);

/* C[m,n] = alpha * op(A) op(B) + beta * C, row-major, leading dimensions in elements. op is the
 * transpose when told so. */
void blas_sgemm(Blas *b, bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha,
                const float *a, int64_t lda, const float *bb, int64_t ldb, float beta, float *c,
                int64_t ldc);
void blas_dgemm(Blas *b, bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha,
                const double *a, int64_t lda, const double *bb, int64_t ldb, double beta, double *c,
                int64_t ldc);

/* For `relay doctor`: the core in use ("SkylakeX"), the core that was asked for (NULL: left to the
 * library), the library's version line; NULL when it cannot be opened (then `blas_error` says why).
 * Opens the library. */
const char *blas_core(Blas *b);
const char *blas_core_asked(Blas *b);
const char *blas_config(Blas *b);
const char *blas_error(Blas *b);

#endif
