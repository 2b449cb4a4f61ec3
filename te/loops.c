#include "te/loops.h"

#include "base/number.h"
#include "te/math.h"

#include <string.h>

void te_loop_unary(TeOp op, DTypeId id, void *out, const void *a, int64_t n)
{
    switch (id) {
#define DTYPE(ID, name, code, bits, ctype, numpy) \
    case DT_##ID: te_unary_##ID(op, out, a, n); return;
#include "runtime/dtypes.def"
#undef DTYPE
    case DTYPE_IDS: return;
    }
}

void te_loop_binary(TeOp op, DTypeId id, void *out, const void *a, const void *b, int64_t n)
{
    switch (id) {
#define DTYPE(ID, name, code, bits, ctype, numpy) \
    case DT_##ID: te_binary_##ID(op, out, a, b, n); return;
#include "runtime/dtypes.def"
#undef DTYPE
    case DTYPE_IDS: return;
    }
}

/* ---- moving elements --------------------------------------------------------------------------- */

#define BY_SIZE(size, M)        \
    switch (size) {             \
    case 1: M(uint8_t) break;   \
    case 2: M(uint16_t) break;  \
    case 4: M(uint32_t) break;  \
    default: M(uint64_t) break; \
    }

/* Every second element, and all of them backwards, are common enough to be vector code. */
#define COPY_BY(STRIDE)             \
    for (int64_t i = 0; i < n; i++) \
        to[i] = from[i * (STRIDE)];
#define STRIDED(NAME, T)                                                                     \
    CLONES static void copy_##NAME(T *restrict to, const T *from, int64_t stride, int64_t n) \
    {                                                                                        \
        if (stride == 2) {                                                                   \
            COPY_BY(2)                                                                       \
        } else if (stride == -1) {                                                           \
            COPY_BY(-1)                                                                      \
        } else {                                                                             \
            for (int64_t i = 0; i < n; i++, from += stride)                                  \
                to[i] = *from;                                                               \
        }                                                                                    \
    }
STRIDED(1, uint8_t)
STRIDED(2, uint16_t)
STRIDED(4, uint32_t)
STRIDED(8, uint64_t)

void te_loop_copy(size_t size, void *out, const void *a, int64_t stride, int64_t n)
{
    if (stride == 1)
        memcpy(out, a, (size_t)n * size);
    else if (stride == 0)
        te_loop_fill(size, out, a, n);
    else if (size == 4)
        copy_4(out, a, stride, n);
    else if (size == 8)
        copy_8(out, a, stride, n);
    else if (size == 2)
        copy_2(out, a, stride, n);
    else
        copy_1(out, a, stride, n);
}

void te_loop_turn(size_t size, void *out, const void *a, int64_t m, int64_t row, int64_t n,
                  int64_t stride)
{
#define TURN(T)                                               \
    for (int64_t k = 0; k < n; k++) {                         \
        const T *from = (const T *)a + k * stride;            \
        T *to = (T *)out + k;                                 \
        for (int64_t i = 0; i < m; i++, to += n, from += row) \
            *to = *from;                                      \
    }
    BY_SIZE(size, TURN)
#undef TURN
}

void te_loop_fill(size_t size, void *out, const void *element, int64_t n)
{
    char v[8];
    memcpy(v, element, size);
#define FILL(T)                     \
    for (int64_t i = 0; i < n; i++) \
        ((T *)out)[i] = *(const T *)v;
    BY_SIZE(size, FILL)
#undef FILL
}

CLONES void te_loop_ramp(int64_t *out, int64_t start, int64_t step, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = start + step * i;
}

CLONES void te_loop_select(size_t size, void *out, const uint8_t *cond, const void *a,
                           const void *b, int64_t n)
{
#define SELECT(T) TE_EACH((T *)out)[i] = cond[i] ? ((const T *)a)[i] : ((const T *)b)[i];
    BY_SIZE(size, SELECT)
#undef SELECT
}

void te_loop_gather(size_t size, void *out, const void *a, const int64_t *index, const uint8_t *ok,
                    const void *otherwise, int64_t n)
{
#define GATHER(T)                                 \
    for (int64_t i = 0; i < n && !ok; i++)        \
        ((T *)out)[i] = ((const T *)a)[index[i]]; \
    for (int64_t i = 0; i < n && ok; i++)         \
        ((T *)out)[i] = ok[i] ? ((const T *)a)[index[i]] : ((const T *)otherwise)[i];
    BY_SIZE(size, GATHER)
#undef GATHER
}

/* ---- faults ------------------------------------------------------------------------------------ */

static bool any_zero(size_t size, const void *b, int64_t n)
{
    bool found = false;
#define ZERO(T)                     \
    for (int64_t i = 0; i < n; i++) \
        found |= ((const T *)b)[i] == 0;
    BY_SIZE(size, ZERO)
#undef ZERO
    return found;
}

static bool any_negative(DTypeId id, const void *b, int64_t n)
{
    bool found = false;
#define NEGATIVE(T)                     \
    for (int64_t i = 0; i < n; i++)     \
        found |= ((const T *)b)[i] < 0; \
    break;
    switch ((int)id) {
    case DT_INT8: NEGATIVE(int8_t)
    case DT_INT16: NEGATIVE(int16_t)
    case DT_INT32: NEGATIVE(int32_t)
    case DT_INT64: NEGATIVE(int64_t)
    }
#undef NEGATIVE
    return found;
}

static bool any_outside(const int64_t *a, const int64_t *extent, int64_t n)
{
    bool found = false;
    for (int64_t i = 0; i < n; i++)
        found |= a[i] < -extent[i] || a[i] >= extent[i];
    return found;
}

const char *te_loop_fault(TeOp op, DTypeId id, const void *a, const void *b, int64_t n)
{
    bool divides =
        op == TE_DIV || op == TE_MOD || op == TE_FLOORDIV || op == TE_FLOORMOD || op == TE_TRUNCDIV;
    if (divides && any_zero(dtype_row(id)->size, b, n))
        return TE_FAULT_ZERO;
    if ((op == TE_SHL || op == TE_SHR) && any_negative(id, b, n))
        return TE_FAULT_SHIFT;
    if (op == TE_PLACE && any_outside(a, b, n))
        return TE_FAULT_PLACE;
    return NULL;
}
