/* Folds: what reductions do with a strip of elements. The 16-bit floats never arrive here, they are
 * folded as float32. */
#include "te/loops.h"

#include <math.h>
#include <string.h>

enum {
    LANES = 16,
    COLUMNS_MANY = 64, /* from here on rows are added to rows */
};

/* Into each clone, so that it is compiled for that processor. */
#define INTO_CLONES static inline __attribute__((always_inline))

DTypeId te_fold_dtype(DTypeId id)
{
    return id == DT_FLOAT16 || id == DT_BFLOAT16 ? DT_FLOAT32 : id;
}

/* Element types that are folded: id, C type, a type in which integers wrap, least, greatest. */
#define FOLD_DTYPES(X)                                \
    X(BOOL, uint8_t, uint32_t, 0, 1)                  \
    X(INT8, int8_t, uint32_t, INT8_MIN, INT8_MAX)     \
    X(INT16, int16_t, uint32_t, INT16_MIN, INT16_MAX) \
    X(INT32, int32_t, uint32_t, INT32_MIN, INT32_MAX) \
    X(INT64, int64_t, uint64_t, INT64_MIN, INT64_MAX) \
    X(UINT8, uint8_t, uint32_t, 0, UINT8_MAX)         \
    X(UINT16, uint16_t, uint32_t, 0, UINT16_MAX)      \
    X(UINT32, uint32_t, uint32_t, 0, UINT32_MAX)      \
    X(UINT64, uint64_t, uint64_t, 0, UINT64_MAX)      \
    X(FLOAT32, float, float, -INFINITY, INFINITY)     \
    X(FLOAT64, double, double, -INFINITY, INFINITY)

void te_loop_fold_start(TeReduce kind, DTypeId id, void *acc)
{
    double one = 0;
    switch (kind) {
    case TE_PROD:
    case TE_ALL: one = 1; break;
    case TE_REDUCE_MAX:
    case TE_REDUCE_MIN:
    case TE_NO_REDUCE:
    case TE_SUM:
    case TE_ANY:
    case TE_ARGMAX:
    case TE_ARGMIN:
    case TE_ARGMAX_LAST:
    case TE_ARGMIN_LAST: break;
    }
#define START(DT, T, W, least, greatest)                                                         \
    case DT_##DT:                                                                                \
        *(T *)acc =                                                                              \
            kind == TE_REDUCE_MAX || kind == TE_ARGMAX || kind == TE_ARGMAX_LAST   ? (T)least    \
            : kind == TE_REDUCE_MIN || kind == TE_ARGMIN || kind == TE_ARGMIN_LAST ? (T)greatest \
                                                                                   : (T)one;     \
        return;
    switch ((int)id) {
        FOLD_DTYPES(START)
    }
#undef START
}

/* Sixteen sums side by side, then a tree: the order depends on n alone. */
#define LANED(DT, T, W, OP, FIRST)                         \
    INTO_CLONES T lanes_##OP##_##DT(const T *a, int64_t n) \
    {                                                      \
        W lane[LANES];                                     \
        for (int k = 0; k < LANES; k++)                    \
            lane[k] = FIRST;                               \
        int64_t i = 0;                                     \
        for (; i + LANES <= n; i += LANES)                 \
            for (int k = 0; k < LANES; k++)                \
                lane[k] = OP(lane[k], (W)a[i + k]);        \
        for (int k = 0; i + k < n; k++)                    \
            lane[k] = OP(lane[k], (W)a[i + k]);            \
        for (int half = LANES / 2; half; half /= 2)        \
            for (int k = 0; k < half; k++)                 \
                lane[k] = OP(lane[k], lane[k + half]);     \
        return (T)lane[0];                                 \
    }
#define sum(x, y) ((x) + (y))
#define prod(x, y) ((x) * (y))
#define LANED_BOTH(DT, T, W, least, greatest) LANED(DT, T, W, sum, 0) LANED(DT, T, W, prod, 1)
FOLD_DTYPES(LANED_BOTH)

/* A register of elements, and what comparing two of them gives: all bits or none in each lane. */
enum { REGISTER = 32, SIDE_BY_SIDE = 8, ONE_BY_ONE_MOST = 32 };
#define MASK(T)                          \
    __typeof__(_Generic((T)0,            \
                   uint8_t: (int8_t)0,   \
                   int8_t: (int8_t)0,    \
                   int16_t: (int16_t)0,  \
                   uint16_t: (int16_t)0, \
                   default: (int32_t)0,  \
                   int64_t: (int64_t)0,  \
                   uint64_t: (int64_t)0, \
                   double: (int64_t)0))
#define VECTORS(DT, T, W, least, greatest)                            \
    typedef T Vector##DT __attribute__((vector_size(REGISTER)));      \
    typedef MASK(T) Lanes##DT __attribute__((vector_size(REGISTER))); \
    enum { PER_##DT = REGISTER / sizeof(T), BLOCK_##DT = SIDE_BY_SIDE * PER_##DT };
FOLD_DTYPES(VECTORS)
#undef VECTORS

/* Whether a bit is set anywhere in a register. */
INTO_CLONES bool any_bit(const void *lanes)
{
    uint64_t words[REGISTER / 8];
    memcpy(words, lanes, sizeof words);
    return (words[0] | words[1] | words[2] | words[3]) != 0;
}

/* `into` where it is better, else x. */
#define PICK(DT, into, BETTER, x)                                                 \
    {                                                                             \
        Lanes##DT keeps = (Lanes##DT)(into BETTER x);                             \
        into = (Vector##DT)((keeps & (Lanes##DT)into) | (~keeps & (Lanes##DT)x)); \
    }

/* The best of acc and n elements; several registers side by side. With a NaN the result depends on the order, so then
 * they are taken one by one; `nan` says whether one of the elements is a NaN. */
#define EXTREME(DT, T, NAME, BETTER)                                              \
    INTO_CLONES T extreme_##NAME##_##DT(T acc, const T *a, int64_t n, bool *nan)  \
    {                                                                             \
        Vector##DT v[SIDE_BY_SIDE], x;                                            \
        Lanes##DT odd = {0};                                                      \
        T best = acc;                                                             \
        int64_t i = 0;                                                            \
        bool some = false;                                                        \
        for (int k = 0; k < SIDE_BY_SIDE; k++)                                    \
            v[k] = acc - (Vector##DT){0};                                         \
        for (; i + BLOCK_##DT <= n; i += BLOCK_##DT)                              \
            _Pragma("GCC unroll 8") for (int k = 0; k < SIDE_BY_SIDE; k++)        \
            {                                                                     \
                memcpy(&x, a + i + k * PER_##DT, sizeof x);                       \
                odd |= (Lanes##DT)(x != x);                                       \
                PICK(DT, v[k], BETTER, x)                                         \
            }                                                                     \
        _Pragma("GCC unroll 8") for (int k = 1; k < SIDE_BY_SIDE; k++)            \
            PICK(DT, v[0], BETTER, v[k]) for (; i + PER_##DT <= n; i += PER_##DT) \
        {                                                                         \
            memcpy(&x, a + i, sizeof x);                                          \
            odd |= (Lanes##DT)(x != x);                                           \
            PICK(DT, v[0], BETTER, x)                                             \
        }                                                                         \
        for (int j = 0; i && j < PER_##DT; j++)                                   \
            best = best BETTER v[0][j] ? best : v[0][j];                          \
        for (; i < n; i++) {                                                      \
            some |= a[i] != a[i];                                                 \
            best = best BETTER a[i] ? best : a[i];                                \
        }                                                                         \
        *nan = some || any_bit(&odd);                                             \
        if (*nan || acc != acc)                                                   \
            for (best = acc, i = 0; i < n; i++)                                   \
                best = best BETTER a[i] ? best : a[i];                            \
        return best;                                                              \
    }
#define EXTREMES(DT, T, W, least, greatest) EXTREME(DT, T, max, >) EXTREME(DT, T, min, <)
FOLD_DTYPES(EXTREMES)

static bool all_or_any(TeReduce kind, const uint8_t *a, int64_t n)
{
    bool all = true, any = false;
    for (int64_t i = 0; i < n; i++) {
        all &= a[i] != 0;
        any |= a[i] != 0;
    }
    return kind == TE_ALL ? all : any;
}

CLONES bool te_loop_fold(TeReduce kind, DTypeId id, void *acc, const void *a, int64_t n)
{
    if (kind == TE_ALL || kind == TE_ANY || (kind == TE_SUM && id == DT_BOOL)) {
        bool v = all_or_any(kind, a, n), was = *(uint8_t *)acc;
        *(uint8_t *)acc = kind == TE_ALL ? was && v : was || v;
        return false;
    }
    bool nan = false;
#define FOLD(DT, T, W, least, greatest)                     \
    case DT_##DT: {                                         \
        T *to = acc;                                        \
        if (kind == TE_SUM)                                 \
            *to = (T)((W) * to + (W)lanes_sum_##DT(a, n));  \
        else if (kind == TE_PROD)                           \
            *to = (T)((W) * to * (W)lanes_prod_##DT(a, n)); \
        else if (kind == TE_REDUCE_MAX)                     \
            *to = extreme_max_##DT(*to, a, n, &nan);        \
        else                                                \
            *to = extreme_min_##DT(*to, a, n, &nan);        \
        break;                                              \
    }
    switch ((int)id) {
        FOLD_DTYPES(FOLD)
    }
#undef FOLD
    return nan;
}

/* Where v, which is there, stands first or last: registers side by side are looked through at once, then each. */
#define FIND(DT, T, W, least, greatest)                                           \
    INTO_CLONES bool has_##DT(const T *a, T v, int registers)                     \
    {                                                                             \
        Vector##DT all = v - (Vector##DT){0}, x;                                  \
        Lanes##DT found = {0};                                                    \
        _Pragma("GCC unroll 8") for (int k = 0; k < registers; k++)               \
        {                                                                         \
            memcpy(&x, a + k * PER_##DT, sizeof x);                               \
            found |= (Lanes##DT)(x == all);                                       \
        }                                                                         \
        return any_bit(&found);                                                   \
    }                                                                             \
    INTO_CLONES int64_t first_of_##DT(const T *a, T v, int64_t n)                 \
    {                                                                             \
        int64_t i = 0;                                                            \
        while (i + BLOCK_##DT <= n && !has_##DT(a + i, v, SIDE_BY_SIDE))          \
            i += BLOCK_##DT;                                                      \
        while (i + PER_##DT <= n && !has_##DT(a + i, v, 1))                       \
            i += PER_##DT;                                                        \
        while (a[i] != v)                                                         \
            i++;                                                                  \
        return i;                                                                 \
    }                                                                             \
    INTO_CLONES int64_t last_of_##DT(const T *a, T v, int64_t n)                  \
    {                                                                             \
        int64_t i = n;                                                            \
        while (i >= BLOCK_##DT && !has_##DT(a + i - BLOCK_##DT, v, SIDE_BY_SIDE)) \
            i -= BLOCK_##DT;                                                      \
        while (i >= PER_##DT && !has_##DT(a + i - PER_##DT, v, 1))                \
            i -= PER_##DT;                                                        \
        while (a[i - 1] != v)                                                     \
            i--;                                                                  \
        return i - 1;                                                             \
    }
FOLD_DTYPES(FIND)
#undef FIND

/* One by one, without a branch on the elements. */
#define ONE_BY_ONE(DT, T, W, least, greatest)                                               \
    INTO_CLONES bool one_by_one_##DT(bool max, bool last, T *best, int64_t *at, const T *a, \
                                     int64_t first, int64_t n)                              \
    {                                                                                       \
        bool nan = false;                                                                   \
        T v = *at < 0 ? a[0] : *best;                                                       \
        int64_t place = *at < 0 ? first : *at;                                              \
        for (int64_t i = 0; i < n; i++) {                                                   \
            bool wins = ((max ? a[i] > v : a[i] < v) | (last & (a[i] == v))) != 0;          \
            nan |= a[i] != a[i];                                                            \
            v = wins ? a[i] : v;                                                            \
            place = wins ? first + i : place;                                               \
        }                                                                                   \
        *best = v;                                                                          \
        *at = place;                                                                        \
        return nan;                                                                         \
    }
FOLD_DTYPES(ONE_BY_ONE)
#undef ONE_BY_ONE

/* The winner of the strip is found in lanes, and its place only when it wins over those before. A NaN
 * wins nothing and loses to nothing, so strips with one are taken element by element, as are short ones. */
#define FOLD_AT(DT, T, W, least, greatest)                                                   \
    INTO_CLONES bool at_##DT(TeReduce kind, T *best, int64_t *at, const T *a, int64_t first, \
                             int64_t n)                                                      \
    {                                                                                        \
        bool max = kind == TE_ARGMAX || kind == TE_ARGMAX_LAST, nan;                         \
        bool last = kind == TE_ARGMAX_LAST || kind == TE_ARGMIN_LAST;                        \
        if (n < ONE_BY_ONE_MOST)                                                             \
            return one_by_one_##DT(max, last, best, at, a, first, n);                        \
        T v = max ? extreme_max_##DT(a[0], a, n, &nan) : extreme_min_##DT(a[0], a, n, &nan); \
        if (nan)                                                                             \
            return one_by_one_##DT(max, last, best, at, a, first, n);                        \
        if (*at >= 0 && !(max ? v > *best : v < *best) && !(last && v == *best))             \
            return false;                                                                    \
        int64_t i = last ? last_of_##DT(a, v, n) : first_of_##DT(a, v, n);                   \
        *best = v;                                                                           \
        *at = first + i;                                                                     \
        return false;                                                                        \
    }
FOLD_DTYPES(FOLD_AT)
#undef FOLD_AT

CLONES bool te_loop_fold_at(TeReduce kind, DTypeId id, void *best, int64_t *at, const void *a,
                            int64_t first, int64_t n)
{
    if (n <= 0)
        return false;
#define FOLD_AT(DT, T, W, least, greatest) \
    case DT_##DT: return at_##DT(kind, best, at, a, first, n);
    switch ((int)id) {
        FOLD_DTYPES(FOLD_AT)
    }
#undef FOLD_AT
    return false;
}

void te_loop_fold_many(TeReduce kind, DTypeId id, void *acc, const void *a, int64_t n)
{
    switch (kind) {
    case TE_SUM: te_loop_binary(TE_ADD, id, acc, acc, a, n); return;
    case TE_PROD: te_loop_binary(TE_MUL, id, acc, acc, a, n); return;
    case TE_REDUCE_MAX: te_loop_binary(TE_MAX, id, acc, acc, a, n); return;
    case TE_REDUCE_MIN: te_loop_binary(TE_MIN, id, acc, acc, a, n); return;
    case TE_ALL: te_loop_binary(TE_AND, id, acc, acc, a, n); return;
    case TE_ANY: te_loop_binary(TE_OR, id, acc, acc, a, n); return;
    case TE_NO_REDUCE:
    case TE_ARGMAX:
    case TE_ARGMIN:
    case TE_ARGMAX_LAST:
    case TE_ARGMIN_LAST: return;
    }
}

#define MANY_AT_LOOP(better)                        \
    for (int64_t i = 0; i < n; i++) {               \
        bool wins = at[i] < 0 || v[i] better to[i]; \
        to[i] = wins ? v[i] : to[i];                \
        at[i] = wins ? number : at[i];              \
    }

CLONES void te_loop_fold_many_at(TeReduce kind, DTypeId id, void *best, int64_t *at, const void *a,
                                 int64_t number, int64_t n)
{
#define MANY_AT(DT, T, W, least, greatest)   \
    case DT_##DT: {                          \
        const T *v = a;                      \
        T *to = best;                        \
        if (kind == TE_ARGMAX) {             \
            MANY_AT_LOOP(>)                  \
        } else if (kind == TE_ARGMIN) {      \
            MANY_AT_LOOP(<)                  \
        } else if (kind == TE_ARGMAX_LAST) { \
            MANY_AT_LOOP(>=)                 \
        } else {                             \
            MANY_AT_LOOP(<=)                 \
        }                                    \
        return;                              \
    }
    switch ((int)id) {
        FOLD_DTYPES(MANY_AT)
    }
#undef MANY_AT
}

/* A sum of whole numbers is there when the next is due. Rows are often a power of two apart, where more of them than four drive each other
 * out of the first cache. */
#define SUMS_AT_ONCE(T) _Generic((T)0, float: 4, double: 4, default: 1)

/* An element as a number that wraps around. */
#define WRAPS(T)                         \
    __typeof__(_Generic((T)0,            \
                   int8_t: (uint8_t)0,   \
                   int16_t: (uint16_t)0, \
                   int32_t: (uint32_t)0, \
                   int64_t: (uint64_t)0, \
                   default: (T)0))

/* So many columns side by side, which stay in registers; what is left over of a row goes with columns that are done again. */
#define SCAN_COLUMNS(DT, T, W, OP, NAME, SIDE)                                                 \
    INTO_CLONES void columns##SIDE##_##NAME##_##DT(T *to, const T *a, int64_t rows, int64_t n) \
    {                                                                                          \
        typedef WRAPS(T) Columns __attribute__((vector_size(SIDE * sizeof(T))));               \
        for (int64_t j = 0; j < n; j += SIDE) {                                                \
            int64_t from = j + SIDE <= n ? j : n - SIDE;                                       \
            Columns now, next;                                                                 \
            memcpy(&now, to + from - n, sizeof now);                                           \
            for (int64_t r = 0; r < rows; r++) {                                               \
                memcpy(&next, a + r * n + from, sizeof next);                                  \
                now = now OP next;                                                             \
                memcpy(to + r * n + from, &now, sizeof now);                                   \
            }                                                                                  \
        }                                                                                      \
    }
/* A row after another, which are read and written as they lie. */
#define SCAN_LONG(DT, T, W, OP, NAME)                                               \
    INTO_CLONES void long_##NAME##_##DT(T *to, const T *a, int64_t rows, int64_t n) \
    {                                                                               \
        typedef WRAPS(T) Columns __attribute__((vector_size(64)));                  \
        enum { SIDE = sizeof(Columns) / sizeof(T) };                                \
        for (int64_t r = 0; r < rows; r++, to += n, a += n)                         \
            for (int64_t j = 0; j < n; j += SIDE) {                                 \
                int64_t at = j + SIDE <= n ? j : n - SIDE;                          \
                Columns now, next;                                                  \
                memcpy(&now, to + at - n, sizeof now);                              \
                memcpy(&next, a + at, sizeof next);                                 \
                now = now OP next;                                                  \
                memcpy(to + at, &now, sizeof now);                                  \
            }                                                                       \
    }
/* Blocks of rows of one element, some side by side: no sum waits for that of another block. */
#define SCAN_BLOCKS(DT, T, W, OP, NAME, SCANS)                                              \
    INTO_CLONES void blocks_##NAME##_##DT(const TeScan *s, T *to, const T *a, int64_t rows) \
    {                                                                                       \
        int64_t b = 0, step = s->step;                                                      \
        for (; b + SCANS <= s->blocks; b += SCANS, to += SCANS * step, a += SCANS * step) { \
            W sum[SCANS];                                                                   \
            for (int k = 0; k < SCANS; k++)                                                 \
                sum[k] = (W)to[k * step - 1];                                               \
            for (int64_t i = 0; i < rows; i++)                                              \
                _Pragma("GCC unroll 4") for (int k = 0; k < SCANS; k++) to[k * step + i] =  \
                    (T)(sum[k] = sum[k] OP(W) a[k * step + i]);                             \
        }                                                                                   \
        for (; b < s->blocks; b++, to += step, a += step) {                                 \
            W sum = (W)to[-1];                                                              \
            for (int64_t i = 0; i < rows; i++)                                              \
                to[i] = (T)(sum = sum OP(W) a[i]);                                          \
        }                                                                                   \
    }                                                                                       \
    INTO_CLONES void few_##NAME##_##DT(T *to, const T *a, int64_t rows, int64_t n)          \
    {                                                                                       \
        for (int64_t i = 0; i < rows * n; i++)                                              \
            to[i] = (T)((W)to[i - n] OP(W) a[i]);                                           \
    }                                                                                       \
    SCAN_COLUMNS(DT, T, W, OP, NAME, 16)                                                    \
    SCAN_COLUMNS(DT, T, W, OP, NAME, 4)                                                     \
    SCAN_LONG(DT, T, W, OP, NAME)                                                           \
    INTO_CLONES void scan_##NAME##_##DT(const TeScan *s, T *to, const T *a, int64_t rows)   \
    {                                                                                       \
        if (s->n == 1)                                                                      \
            blocks_##NAME##_##DT(s, to, a, rows);                                           \
        for (int64_t b = 0; s->n > 1 && b < s->blocks; b++, to += s->step, a += s->step)    \
            if (s->n >= COLUMNS_MANY)                                                       \
                long_##NAME##_##DT(to, a, rows, s->n);                                      \
            else if (s->n >= 16)                                                            \
                columns16_##NAME##_##DT(to, a, rows, s->n);                                 \
            else if (s->n >= 4)                                                             \
                columns4_##NAME##_##DT(to, a, rows, s->n);                                  \
            else                                                                            \
                few_##NAME##_##DT(to, a, rows, s->n);                                       \
    }
#define SCAN_ROWS(DT, T, W, least, greatest)                                       \
    INTO_CLONES void start_##DT(const TeScan *s, T *to, const T *a)                \
    {                                                                              \
        T neutral = s->op == TE_MUL;                                               \
        for (int64_t b = 0; b < s->blocks; b++)                                    \
            for (int64_t j = 0; j < s->n; j++)                                     \
                to[b * s->step + j] = s->exclusive ? neutral : a[b * s->step + j]; \
    }                                                                              \
    SCAN_BLOCKS(DT, T, W, +, sums, SUMS_AT_ONCE(T)) SCAN_BLOCKS(DT, T, W, *, products, 4)
FOLD_DTYPES(SCAN_ROWS)

CLONES bool te_loop_scan(const TeScan *s, DTypeId id, void *out, const void *a, int64_t first,
                         int64_t end)
{
    int64_t from = first > 1 ? first : 1, at = from * s->n, behind = s->exclusive ? s->n : 0;
#define SCAN(DT, T, W, least, greatest)                                  \
    case DT_##DT: {                                                      \
        T *to = out;                                                     \
        const T *v = a;                                                  \
        if (first == 0)                                                  \
            start_##DT(s, to, v);                                        \
        if (s->op == TE_ADD)                                             \
            scan_sums_##DT(s, to + at, v + at - behind, end - from);     \
        else                                                             \
            scan_products_##DT(s, to + at, v + at - behind, end - from); \
        return true;                                                     \
    }
    if (id == DT_BOOL)
        return false;
    switch ((int)id) {
        FOLD_DTYPES(SCAN)
    }
#undef SCAN
    return false;
}

bool te_loop_scatter(TeOp op, DTypeId id, void *out, const int64_t *at, const void *a, int64_t n)
{
#define SCATTER(DT, T, W, least, greatest)                \
    case DT_##DT: {                                       \
        T *to = out;                                      \
        const T *v = a;                                   \
        for (int64_t i = 0; i < n; i++) {                 \
            const T x = to[at[i]], y = v[i];              \
            to[at[i]] = op == TE_ADD   ? (T)((W)x + (W)y) \
                        : op == TE_MUL ? (T)((W)x * (W)y) \
                        : op == TE_MAX ? x > y ? x : y    \
                        : x < y        ? x                \
                                       : y;                      \
        }                                                 \
        return true;                                      \
    }
    if (id == DT_BOOL || (op != TE_ADD && op != TE_MUL && op != TE_MAX && op != TE_MIN))
        return false;
    switch ((int)id) {
        FOLD_DTYPES(SCATTER)
    }
#undef SCATTER
    return false;
}
