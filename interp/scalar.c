/* Operations on two scalars without a loop around them. They say what te/scalar.def means for the commonest dtypes; where there
 * is something to check or to report they decline, and the general way is taken. */
#include "interp/internal.h"

#include <string.h>

/* The result's bytes are put together in a register: a word in memory that was written in parts is slow to read at once. */
#define BINARY(name, T, R, expression)               \
    static ScalarResult name(uint64_t a, uint64_t b) \
    {                                                \
        T x, y;                                      \
        memcpy(&x, &a, sizeof x);                    \
        memcpy(&y, &b, sizeof y);                    \
        R r = (R)(expression);                       \
        ScalarResult out = {.done = true};           \
        memcpy(&out.bits, &r, sizeof r);             \
        return out;                                  \
    }

/* Division leaves a zero divisor, and the overflow of the least number by -1, to the general way. */
#define DIVISION(name, T, expression)                   \
    static ScalarResult name(uint64_t a, uint64_t b)    \
    {                                                   \
        T x, y;                                         \
        memcpy(&x, &a, sizeof x);                       \
        memcpy(&y, &b, sizeof y);                       \
        ScalarResult out = {.done = y != 0 && y != -1}; \
        T r = out.done ? (T)(expression) : 0;           \
        memcpy(&out.bits, &r, sizeof r);                \
        return out;                                     \
    }

#define COMPARISONS(suffix, T)              \
    BINARY(eq_##suffix, T, uint8_t, x == y) \
    BINARY(ne_##suffix, T, uint8_t, x != y) \
    BINARY(lt_##suffix, T, uint8_t, x < y)  \
    BINARY(le_##suffix, T, uint8_t, x <= y) \
    BINARY(gt_##suffix, T, uint8_t, x > y)  \
    BINARY(ge_##suffix, T, uint8_t, x >= y)

/* Integers wrap, which C says for unsigned ones only. */
#define INTEGERS(suffix, T, U)            \
    BINARY(add_##suffix, U, U, x + y)     \
    BINARY(sub_##suffix, U, U, x - y)     \
    BINARY(mul_##suffix, U, U, (x) * (y)) \
    DIVISION(div_##suffix, T, x / y)      \
    DIVISION(mod_##suffix, T, x % y)      \
    COMPARISONS(suffix, T)

#define FLOATS(suffix, T)                 \
    BINARY(add_##suffix, T, T, x + y)     \
    BINARY(sub_##suffix, T, T, x - y)     \
    BINARY(mul_##suffix, T, T, (x) * (y)) \
    BINARY(div_##suffix, T, T, x / y)     \
    COMPARISONS(suffix, T)

INTEGERS(i32, int32_t, uint32_t)
INTEGERS(i64, int64_t, uint64_t)
FLOATS(f32, float)
FLOATS(f64, double)
BINARY(and_bool, uint8_t, uint8_t, x &y)
BINARY(or_bool, uint8_t, uint8_t, x | y)

typedef struct ScalarRow {
    TeOp op;
    DTypeId dtype;
    ScalarFn *fn;
} ScalarRow;

/* clang-format off */
#define COMMON(ID, suffix)                                                                         \
    {TE_ADD, DT_##ID, add_##suffix}, {TE_SUB, DT_##ID, sub_##suffix}, {TE_MUL, DT_##ID, mul_##suffix}, \
    {TE_DIV, DT_##ID, div_##suffix},                                                               \
    {TE_EQ, DT_##ID, eq_##suffix}, {TE_NE, DT_##ID, ne_##suffix}, {TE_LT, DT_##ID, lt_##suffix},    \
    {TE_LE, DT_##ID, le_##suffix}, {TE_GT, DT_##ID, gt_##suffix}, {TE_GE, DT_##ID, ge_##suffix}

static const ScalarRow rows[] = {
    COMMON(INT32, i32),   {TE_MOD, DT_INT32, mod_i32}, {TE_TRUNCDIV, DT_INT32, div_i32},
    COMMON(INT64, i64),   {TE_MOD, DT_INT64, mod_i64}, {TE_TRUNCDIV, DT_INT64, div_i64},
    COMMON(FLOAT32, f32),
    COMMON(FLOAT64, f64),
    {TE_AND, DT_BOOL, and_bool}, {TE_OR, DT_BOOL, or_bool},
};
/* clang-format on */

ScalarFn *scalar_find(TeOp op, DType dtype)
{
    DTypeId id = dtype_id(dtype);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].op == op && rows[i].dtype == id)
            return rows[i].fn;
    return NULL;
}
