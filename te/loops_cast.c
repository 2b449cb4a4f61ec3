/* Casts between all dtypes. Floats become integers through int64 and then wrap; what int64 cannot
 * hold becomes its least value, as the processor does it, but for what uint64 holds where that is asked for. */
#include "te/loops.h"

#include "base/number.h"
#include "te/math.h"

static inline int64_t int_of_float(float v)
{
    return v >= -9223372036854775808.0f && v < 9223372036854775808.0f ? (int64_t)v : INT64_MIN;
}

static inline int64_t int_of_double(double v)
{
    return v >= -9223372036854775808.0 && v < 9223372036854775808.0 ? (int64_t)v : INT64_MIN;
}

/* What is too much for int64 by no more than its range is above that. */
static inline uint64_t word_of_float(float v)
{
    float off = v - 9223372036854775808.0f;
    return off >= 0 && off < 9223372036854775808.0f ? (uint64_t)(int64_t)off + ((uint64_t)1 << 63)
                                                    : (uint64_t)int_of_float(v);
}

static inline uint64_t word_of_double(double v)
{
    double off = v - 9223372036854775808.0;
    return off >= 0 && off < 9223372036854775808.0 ? (uint64_t)(int64_t)off + ((uint64_t)1 << 63)
                                                   : (uint64_t)int_of_double(v);
}

/* Integers above 2^53 leave what they lose in the last bit that a double keeps. */
static inline uint16_t bfloat_of_int(int64_t v)
{
    bool big = v >= (int64_t)1 << 53 || v <= -((int64_t)1 << 53);
    return bfloat_from_double((double)(big ? (v & ~(int64_t)0x7ff) | (v & 0x7ff ? 0x800 : 0) : v));
}

static inline uint16_t bfloat_of_uint64(uint64_t v)
{
    return v <= INT64_MAX
               ? bfloat_of_int((int64_t)v)
               : bfloat_from_double((double)((v & ~(uint64_t)0x7ff) | (v & 0x7ff ? 0x800 : 0)));
}

#define BFLOAT_OF_INT(v) _Generic((v), uint64_t: bfloat_of_uint64, default: bfloat_of_int)(v)

#define SAME(v) (v)
#define NONZERO(v) ((v) != 0)

/* To one dtype from all: INTS(v) of an integer, FLOATS(v) of a float, DOUBLES(v) of a double. */
#define CAST_TO(DT, To, INTS, FLOATS, DOUBLES)                                         \
    CLONES static void cast_to_##DT(DTypeId from, void *out, const void *a, int64_t n) \
    {                                                                                  \
        To *restrict po = out;                                                         \
        switch (from) {                                                                \
            CAST_FROM(BOOL, uint8_t, To, INTS, SAME)                                   \
            CAST_FROM(INT8, int8_t, To, INTS, SAME)                                    \
            CAST_FROM(INT16, int16_t, To, INTS, SAME)                                  \
            CAST_FROM(INT32, int32_t, To, INTS, SAME)                                  \
            CAST_FROM(INT64, int64_t, To, INTS, SAME)                                  \
            CAST_FROM(UINT8, uint8_t, To, INTS, SAME)                                  \
            CAST_FROM(UINT16, uint16_t, To, INTS, SAME)                                \
            CAST_FROM(UINT32, uint32_t, To, INTS, SAME)                                \
            CAST_FROM(UINT64, uint64_t, To, INTS, SAME)                                \
            CAST_FROM(FLOAT16, uint16_t, To, FLOATS, te_float_of_half)                 \
            CAST_FROM(FLOAT32, float, To, FLOATS, SAME)                                \
            CAST_FROM(FLOAT64, double, To, DOUBLES, SAME)                              \
            CAST_FROM(BFLOAT16, uint16_t, To, FLOATS, te_float_of_bfloat)              \
        case DTYPE_IDS: return;                                                        \
        }                                                                              \
    }
#define CAST_FROM(DT, From, To, CONVERT, GET) \
    case DT_##DT:                             \
        for (int64_t i = 0; i < n; i++) {     \
            const From *pa = a;               \
            po[i] = (To)CONVERT(GET(pa[i]));  \
        }                                     \
        return;

CAST_TO(BOOL, uint8_t, NONZERO, NONZERO, NONZERO)
CAST_TO(INT8, int8_t, SAME, int_of_float, int_of_double)
CAST_TO(INT16, int16_t, SAME, int_of_float, int_of_double)
CAST_TO(INT32, int32_t, SAME, int_of_float, int_of_double)
CAST_TO(INT64, int64_t, SAME, int_of_float, int_of_double)
CAST_TO(UINT8, uint8_t, SAME, int_of_float, int_of_double)
CAST_TO(UINT16, uint16_t, SAME, int_of_float, int_of_double)
CAST_TO(UINT32, uint32_t, SAME, int_of_float, int_of_double)
CAST_TO(UINT64, uint64_t, SAME, word_of_float, word_of_double)
CAST_TO(FLOAT16, uint16_t, half_from_double, te_half_of_float, half_from_double)
CAST_TO(FLOAT32, float, SAME, SAME, SAME)
CAST_TO(FLOAT64, double, SAME, SAME, SAME)
CAST_TO(BFLOAT16, uint16_t, BFLOAT_OF_INT, te_bfloat_of_float, bfloat_from_double)

/* Floats that int32 can hold need no detour through int64. */
CLONES static bool cast_small(DTypeId to, void *out, const float *a, int64_t n)
{
    int32_t outside = 0;
    for (int64_t i = 0; i < n; i++)
        outside |= a[i] > -2147483648.0f && a[i] < 2147483648.0f ? 0 : 1;
#define SMALL(DT, To)                           \
    case DT_##DT:                               \
        for (int64_t i = 0; i < n; i++)         \
            ((To *)out)[i] = (To)(int32_t)a[i]; \
        return true;
    switch (outside ? -1 : (int)to) {
        SMALL(INT8, int8_t)
        SMALL(INT16, int16_t)
        SMALL(INT32, int32_t)
        SMALL(INT64, int64_t)
        SMALL(UINT8, uint8_t)
        SMALL(UINT16, uint16_t)
    }
#undef SMALL
    return false;
}

void te_loop_cast(DTypeId to, DTypeId from, void *out, const void *a, int64_t n)
{
    if (from == DT_FLOAT32 && cast_small(to, out, a, n))
        return;
    switch (to) {
#define DTYPE(ID, name, code, bits, ctype, numpy) \
    case DT_##ID: cast_to_##ID(from, out, a, n); return;
#include "runtime/dtypes.def"
#undef DTYPE
    case DTYPE_IDS: return;
    }
}
