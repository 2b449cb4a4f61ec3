/* Scalar functions of integers, which wrap, and of bool. */
#include "te/loops.h"

/* A zero divisor and a negative count never arrive here: te_loop_fault is asked before. */

static inline uint32_t dots(uint32_t x, uint32_t y)
{
    int32_t sum = 0;
    for (int i = 0; i < 32; i += 8)
        sum += (uint8_t)(x >> i) * (int8_t)(y >> i);
    return (uint32_t)sum;
}

static inline uint32_t pairs(uint32_t x, uint32_t y)
{
    return (uint32_t)((int16_t)x * (int16_t)y) +
           (uint32_t)((int16_t)(x >> 16) * (int16_t)(y >> 16));
}

#define INT_UNARY(X)                                   \
    X(NEG, 0 - (Wrap)x)                                \
    X(ABS, NEGATIVE(x) ? 0 - (Wrap)x : (Wrap)x)        \
    X(FLOOR, x)                                        \
    X(CEIL, x)                                         \
    X(TRUNC, x)                                        \
    X(ROUND, x)                                        \
    X(SIGN, x > 0 ? 1 : NEGATIVE(x) ? (Wrap)0 - 1 : 0) \
    X(NOT, ~(Wrap)x)

#define INT_TESTS(X) \
    X(ISNAN, x != x) \
    X(ISINF, x != x) \
    X(ISFINITE, x == x)

/* The least value divided by -1 wraps to itself. */
#define INT_BINARY(X)                                                                            \
    X(ADD, (Wrap)x + (Wrap)y)                                                                    \
    X(SUB, (Wrap)x - (Wrap)y)                                                                    \
    X(MUL, (Wrap)x *(Wrap)y)                                                                     \
    X(DIV, MINUS_ONE(y) ? 0 - (Wrap)x : (Wrap)(x / y))                                           \
    X(TRUNCDIV, MINUS_ONE(y) ? 0 - (Wrap)x : (Wrap)(x / y))                                      \
    X(FLOORDIV, MINUS_ONE(y)                               ? 0 - (Wrap)x                         \
                : x % y != 0 && NEGATIVE(x) != NEGATIVE(y) ? (Wrap)(x / y) - 1                   \
                                                           : (Wrap)(x / y))                      \
    X(MOD, MINUS_ONE(y) ? 0 : x % y)                                                             \
    X(FLOORMOD, MINUS_ONE(y) ? 0 : x % y != 0 && NEGATIVE(x) != NEGATIVE(y) ? x % y + y : x % y) \
    X(MAX, x > y ? x : y)                                                                        \
    X(MIN, x < y ? x : y)                                                                        \
    X(SHL, (uint64_t)y >= 8 * sizeof(x) ? 0 : (Wrap)x << y)                                      \
    X(SHR, (uint64_t)y >= 8 * sizeof(x) ? NEGATIVE(x) ? (Wrap)0 - 1 : 0 : (Wrap)(x >> y))        \
    X(AND, (Wrap)x &(Wrap)y)                                                                     \
    X(OR, (Wrap)x | (Wrap)y)                                                                     \
    X(XOR, (Wrap)x ^ (Wrap)y)                                                                    \
    X(PLACE, NEGATIVE(x) ? (Wrap)x + (Wrap)y : (Wrap)x)                                          \
    X(DOTS, dots((uint32_t)x, (uint32_t)y))                                                      \
    X(PAIRS, pairs((uint32_t)x, (uint32_t)y))

/* One bit: addition is `or`, as sums of truth values are. */
#define BOOL_UNARY(X) \
    X(NEG, x)         \
    X(ABS, x)         \
    X(FLOOR, x)       \
    X(CEIL, x)        \
    X(TRUNC, x)       \
    X(ROUND, x)       \
    X(SIGN, x)        \
    X(NOT, !x)

#define BOOL_BINARY(X)    \
    X(ADD, x | y)         \
    X(SUB, x ^ y)         \
    X(MUL, x &y)          \
    X(DIV, x)             \
    X(TRUNCDIV, x)        \
    X(FLOORDIV, x)        \
    X(MOD, 0)             \
    X(FLOORMOD, 0)        \
    X(MAX, x > y ? x : y) \
    X(MIN, x < y ? x : y) \
    X(SHL, y ? 0 : x)     \
    X(SHR, y ? 0 : x)     \
    X(AND, x &y)          \
    X(OR, x | y)          \
    X(XOR, x ^ y)

#define INT_COMPARE(X) \
    X(EQ, x == y)      \
    X(NE, x != y)      \
    X(LT, x < y)       \
    X(LE, x <= y)      \
    X(GT, x > y)       \
    X(GE, x >= y)

#define UNARY_CASE(ID, expression)     \
    case TE_##ID:                      \
        TE_EACH                        \
        {                              \
            const Int x = pa[i];       \
            po[i] = (Int)(expression); \
        }                              \
        return;
#define TEST_CASE(ID, expression)          \
    case TE_##ID:                          \
        TE_EACH                            \
        {                                  \
            const Int x = pa[i];           \
            pb[i] = (uint8_t)(expression); \
        }                                  \
        return;
#define BINARY_CASE(ID, expression)         \
    case TE_##ID:                           \
        TE_EACH                             \
        {                                   \
            const Int x = pa[i], y = pc[i]; \
            (void)x, (void)y;               \
            po[i] = (Int)(expression);      \
        }                                   \
        return;
#define COMPARE_CASE(ID, expression)        \
    case TE_##ID:                           \
        TE_EACH                             \
        {                                   \
            const Int x = pa[i], y = pc[i]; \
            pb[i] = (uint8_t)(expression);  \
        }                                   \
        return;

#define LOOPS(DT, UNARY, BINARY)                                                            \
    CLONES void te_unary_##DT(TeOp op, void *out, const void *a, int64_t n)                 \
    {                                                                                       \
        Int *po = out;                                                                      \
        uint8_t *pb = out;                                                                  \
        const Int *pa = a;                                                                  \
        switch ((int)op) {                                                                  \
            UNARY(UNARY_CASE)                                                               \
            INT_TESTS(TEST_CASE)                                                            \
        }                                                                                   \
    }                                                                                       \
    CLONES void te_binary_##DT(TeOp op, void *out, const void *a, const void *b, int64_t n) \
    {                                                                                       \
        Int *po = out;                                                                      \
        uint8_t *pb = out;                                                                  \
        const Int *pa = a, *pc = b;                                                         \
        switch ((int)op) {                                                                  \
            BINARY(BINARY_CASE)                                                             \
            INT_COMPARE(COMPARE_CASE)                                                       \
        }                                                                                   \
    }

#define Wrap uint32_t
#define MINUS_ONE(y) ((y) == -1)
#define NEGATIVE(x) ((x) < 0)
#define Int int8_t
LOOPS(INT8, INT_UNARY, INT_BINARY)
#undef Int
#define Int int16_t
LOOPS(INT16, INT_UNARY, INT_BINARY)
#undef Int
#define Int int32_t
LOOPS(INT32, INT_UNARY, INT_BINARY)
#undef Int
#undef MINUS_ONE
#undef NEGATIVE
#define MINUS_ONE(y) 0
#define NEGATIVE(x) 0
#define Int uint8_t
LOOPS(BOOL, BOOL_UNARY, BOOL_BINARY)
LOOPS(UINT8, INT_UNARY, INT_BINARY)
#undef Int
#define Int uint16_t
LOOPS(UINT16, INT_UNARY, INT_BINARY)
#undef Int
#define Int uint32_t
LOOPS(UINT32, INT_UNARY, INT_BINARY)
#undef Int
#undef Wrap
#define Wrap uint64_t
#define Int uint64_t
LOOPS(UINT64, INT_UNARY, INT_BINARY)
#undef Int
#undef MINUS_ONE
#undef NEGATIVE
#define MINUS_ONE(y) ((y) == -1)
#define NEGATIVE(x) ((x) < 0)
#define Int int64_t
LOOPS(INT64, INT_UNARY, INT_BINARY)
