/* The innermost loops of the evaluator: one scalar function over n elements of one dtype.
 *
 * `out` may be the same place as an operand whose elements are as large, and never overlaps one
 * otherwise. Which loop runs is decided once a strip, so the loops themselves are plain enough for
 * the compiler to turn into vector code. */
#ifndef TE_LOOPS_H
#define TE_LOOPS_H

#include "base/clones.h"
#include "te/te.h"

/* Element i depends on element i of the operands alone, also where they are the same place. */
#if defined(__clang__)
#define TE_EACH _Pragma("clang loop vectorize(assume_safety)") for (int64_t i = 0; i < n; i++)
#else
#define TE_EACH _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)
#endif

void te_loop_unary(TeOp op, DTypeId id, void *out, const void *a, int64_t n);
/* `id` is of the operands; the result's dtype is as te/scalar.def says. */
void te_loop_binary(TeOp op, DTypeId id, void *out, const void *a, const void *b, int64_t n);
void te_loop_cast(DTypeId to, DTypeId from, void *out, const void *a, int64_t n);
/* Elements of `size` bytes. */
void te_loop_select(size_t size, void *out, const uint8_t *cond, const void *a, const void *b,
                    int64_t n);
/* n elements from `a`, each `stride` elements after the one before. */
void te_loop_copy(size_t size, void *out, const void *a, int64_t stride, int64_t n);
/* Of m rows n elements each, `row` and `stride` elements apart; read by columns. */
void te_loop_turn(size_t size, void *out, const void *a, int64_t m, int64_t row, int64_t n,
                  int64_t stride);
/* n times the same element. */
void te_loop_fill(size_t size, void *out, const void *element, int64_t n);
void te_loop_ramp(int64_t *out, int64_t start, int64_t step, int64_t n);
/* a[index[i]] where ok[i] (NULL: everywhere), else otherwise[i]. */
void te_loop_gather(size_t size, void *out, const void *a, const int64_t *index, const uint8_t *ok,
                    const void *otherwise, int64_t n);

/* out[at[i]] = out[at[i]] op a[i], one after the other: places may come again. The operator adds, multiplies or takes an extreme; false for
 * elements that it does not know. */
bool te_loop_scatter(TeOp op, DTypeId id, void *out, const int64_t *at, const void *a, int64_t n);

/* Why the operator cannot run on these operands; NULL when it can. */
const char *te_loop_fault(TeOp op, DTypeId id, const void *a, const void *b, int64_t n);

/* Folds n elements into *acc. Sums go in 16 lanes that are added as a tree. True when the kind is an extreme and an element is
 * NaN, so that the order matters. */
bool te_loop_fold(TeReduce kind, DTypeId id, void *acc, const void *a, int64_t n);
/* The same for positions: *best and *at are the winner so far (*at < 0: none), a[0] has number
 * `first`. */
bool te_loop_fold_at(TeReduce kind, DTypeId id, void *best, int64_t *at, const void *a,
                     int64_t first, int64_t n);
/* n folds side by side: acc[i] with a[i]; positions: all a[i] have number `number`. */
void te_loop_fold_many(TeReduce kind, DTypeId id, void *acc, const void *a, int64_t n);
void te_loop_fold_many_at(TeReduce kind, DTypeId id, void *best, int64_t *at, const void *a,
                          int64_t number, int64_t n);
/* Sums or products along the rows of blocks: a row has n elements, and is the one before op its own of `a`, where op adds or multiplies. The first is its
 * own, or with `exclusive` neutral, and then each takes that of `a` before its own. Blocks lie `step` elements apart. */
typedef struct TeScan {
    TeOp op;
    bool exclusive;
    int64_t n, blocks, step;
} TeScan;
/* Rows from `first` to before `end` of each block, those before being there; false for elements it does not know. */
bool te_loop_scan(const TeScan *s, DTypeId id, void *out, const void *a, int64_t first,
                  int64_t end);
/* out[i] = the sum over j below k of c[j * step] * rows[j * n + i], one term after the other; floats of 32 or 64 bits. */
void te_loop_weigh(DTypeId id, void *out, const void *rows, const void *c, int64_t step, int64_t k,
                   int64_t n);
/* What a fold of this kind starts from. */
void te_loop_fold_start(TeReduce kind, DTypeId id, void *acc);
/* The dtype that a reduction accumulates in. */
DTypeId te_fold_dtype(DTypeId id);

/* One dtype each; loops.c picks. */
#define TE_LOOPS_OF(ID)                                               \
    void te_unary_##ID(TeOp op, void *out, const void *a, int64_t n); \
    void te_binary_##ID(TeOp op, void *out, const void *a, const void *b, int64_t n);
#define DTYPE(id, name, code, bits, ctype, numpy) TE_LOOPS_OF(id)
#include "runtime/dtypes.def"
#undef DTYPE

#endif
