/* Scalar functions of floating-point dtypes. The 16-bit ones compute in float32 and round each
 * result. */
#include "te/loops.h"

#include "te/math.h"

#include <math.h>

/* id, expression of x; F(name) is the C function of the width. */
#define FLOAT_UNARY(X, F)               \
    X(NEG, -x)                          \
    X(ABS, F(fabs)(x))                  \
    X(EXP, F(te_exp)(x))                \
    X(LOG, F(te_log)(x))                \
    X(LOG2, F(log2)(x))                 \
    X(LOG10, F(log10)(x))               \
    X(SQRT, F(sqrt)(x))                 \
    X(RSQRT, 1 / F(sqrt)(x))            \
    X(TANH, F(te_tanh)(x))              \
    X(SIGMOID, 1 / (1 + F(te_exp)(-x))) \
    X(ERF, F(te_erf)(x))                \
    X(SIN, F(sin)(x))                   \
    X(COS, F(cos)(x))                   \
    X(TAN, F(tan)(x))                   \
    X(SINH, F(sinh)(x))                 \
    X(COSH, F(cosh)(x))                 \
    X(ASIN, F(asin)(x))                 \
    X(ACOS, F(acos)(x))                 \
    X(ATAN, F(atan)(x))                 \
    X(ASINH, F(asinh)(x))               \
    X(ACOSH, F(acosh)(x))               \
    X(ATANH, F(atanh)(x))               \
    X(FLOOR, F(floor)(x))               \
    X(CEIL, F(ceil)(x))                 \
    X(TRUNC, F(trunc)(x))               \
    X(ROUND, F(round)(x))               \
    X(SIGN, x > 0 ? 1 : x < 0 ? -1 : 0)

#define FLOAT_TESTS(X, F)            \
    X(ISNAN, x != x)                 \
    X(ISINF, F(fabs)(x) == INFINITY) \
    X(ISFINITE, F(fabs)(x) < INFINITY)

/* maximum and minimum give the second operand when one is NaN. */
#define FLOAT_BINARY(X, F)               \
    X(ADD, x + y)                        \
    X(SUB, x - y)                        \
    X(MUL, x *y)                         \
    X(DIV, x / y)                        \
    X(FLOORDIV, F(floor)(x / y))         \
    X(MOD, F(fmod)(x, y))                \
    X(FLOORMOD, x - F(floor)(x / y) * y) \
    X(TRUNCDIV, F(trunc)(x / y))         \
    X(POW, F(pow)(x, y))                 \
    X(MAX, x > y ? x : y)                \
    X(MIN, x < y ? x : y)

#define FLOAT_COMPARE(X, F) \
    X(EQ, x == y)           \
    X(NE, x != y)           \
    X(LT, x < y)            \
    X(LE, x <= y)           \
    X(GT, x > y)            \
    X(GE, x >= y)

#define UNARY_CASE(ID, expression)           \
    case TE_##ID:                            \
        TE_EACH                              \
        {                                    \
            const Wide x = GET(pa[i]);       \
            po[i] = PUT((Wide)(expression)); \
        }                                    \
        return;
#define TEST_CASE(ID, expression)          \
    case TE_##ID:                          \
        TE_EACH                            \
        {                                  \
            const Wide x = GET(pa[i]);     \
            pb[i] = (uint8_t)(expression); \
        }                                  \
        return;
#define BINARY_CASE(ID, expression)                    \
    case TE_##ID:                                      \
        TE_EACH                                        \
        {                                              \
            const Wide x = GET(pa[i]), y = GET(pc[i]); \
            po[i] = PUT((Wide)(expression));           \
        }                                              \
        return;
#define COMPARE_CASE(ID, expression)                   \
    case TE_##ID:                                      \
        TE_EACH                                        \
        {                                              \
            const Wide x = GET(pa[i]), y = GET(pc[i]); \
            pb[i] = (uint8_t)(expression);             \
        }                                              \
        return;

#define FLOAT_LOOPS(DT, Store, F)                                                           \
    CLONES void te_unary_##DT(TeOp op, void *out, const void *a, int64_t n)                 \
    {                                                                                       \
        Store *po = out;                                                                    \
        uint8_t *restrict pb = out;                                                         \
        const Store *pa = a;                                                                \
        switch ((int)op) {                                                                  \
            FLOAT_UNARY(UNARY_CASE, F)                                                      \
            FLOAT_TESTS(TEST_CASE, F)                                                       \
        }                                                                                   \
    }                                                                                       \
    CLONES void te_binary_##DT(TeOp op, void *out, const void *a, const void *b, int64_t n) \
    {                                                                                       \
        Store *po = out;                                                                    \
        uint8_t *restrict pb = out;                                                         \
        const Store *pa = a, *pc = b;                                                       \
        switch ((int)op) {                                                                  \
            FLOAT_BINARY(BINARY_CASE, F)                                                    \
            FLOAT_COMPARE(COMPARE_CASE, F)                                                  \
        }                                                                                   \
    }

#define F32(name) name##f
#define F64(name) name
#define GET(v) (v)
#define PUT(v) (v)
#define Wide float
FLOAT_LOOPS(FLOAT32, float, F32)
#undef Wide
#define Wide double
FLOAT_LOOPS(FLOAT64, double, F64)
#undef Wide
#undef GET
#undef PUT

#define Wide float
#define GET(v) te_float_of_half(v)
#define PUT(v) te_half_of_float(v)
FLOAT_LOOPS(FLOAT16, uint16_t, F32)
#undef GET
#undef PUT
#define GET(v) te_float_of_bfloat(v)
#define PUT(v) te_bfloat_of_float(v)
FLOAT_LOOPS(BFLOAT16, uint16_t, F32)

/* ---- weighted sums of rows --------------------------------------------------------------------------------------------- */

/* Four rows at a time: the sums so far are loaded and stored a fourth as often. */
#define WEIGH(NAME, T)                                                                   \
    CLONES static void weigh_##NAME(T *restrict out, const T *restrict rows, const T *c, \
                                    int64_t step, int64_t k, int64_t n)                  \
    {                                                                                    \
        int64_t j = 0;                                                                   \
        for (int64_t i = 0; i < n; i++)                                                  \
            out[i] = 0;                                                                  \
        for (; j + 4 <= k; j += 4) {                                                     \
            const T *a = rows + j * n, *b = a + n, *d = b + n, *e = d + n;               \
            T ca = c[j * step], cb = c[(j + 1) * step], cd = c[(j + 2) * step],          \
              ce = c[(j + 3) * step];                                                    \
            for (int64_t i = 0; i < n; i++)                                              \
                out[i] = (((out[i] + ca * a[i]) + cb * b[i]) + cd * d[i]) + ce * e[i];   \
        }                                                                                \
        for (; j < k; j++) {                                                             \
            const T *a = rows + j * n;                                                   \
            const T ca = c[j * step];                                                    \
            for (int64_t i = 0; i < n; i++)                                              \
                out[i] += ca * a[i];                                                     \
        }                                                                                \
    }
WEIGH(32, float)
WEIGH(64, double)

void te_loop_weigh(DTypeId id, void *out, const void *rows, const void *c, int64_t step, int64_t k,
                   int64_t n)
{
    if (id == DT_FLOAT32)
        weigh_32(out, rows, c, step, k, n);
    else
        weigh_64(out, rows, c, step, k, n);
}
