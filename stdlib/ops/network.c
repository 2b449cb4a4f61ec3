/* Rows of numbers, side by side, through a network: it compares in an order that does not depend on the numbers, so it works in vectors. */
#include "stdlib/ops/numbers.h"
#include "te/loops.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum {
    NEAR = NUMBERS_STEP,
    BLOCK = 256, /* lines that the first cache holds */
};

INLINE void pair32(uint32_t *a, uint32_t *b)
{
    uint32_t x = *a, y = *b;
    *a = x < y ? x : y;
    *b = x < y ? y : x;
}

INLINE void pair64(uint64_t *a, uint64_t *b)
{
    uint64_t x = *a, y = *b;
    *a = x < y ? x : y;
    *b = x < y ? y : x;
}

/* Of two numbers the lesser goes to the first place; of lines a and b of v in column i. */
#define ORDER(a, b) _Generic(a, uint32_t *: pair32, uint64_t *: pair64)(a, b)
#define PAIR(a, b) ORDER(v + (a) * n + i, v + (b) * n + i)

/* Batcher's merges of neighbours: of blocks of `least` lines, which are in order, until those of `most` are. A merge compares lines that are a
 * block apart, then half as far and so on; the last three distances are done in one reading, and so are the first three merges. */
#define NETWORK(NAME, TYPE)                                                                             \
    INLINE void NAME##_eight(TYPE *v)                                                                   \
    {                                                                                                   \
        enum { n = NUMBERS_LINE / sizeof(TYPE) };                                                       \
        TE_EACH                                                                                         \
        {                                                                                               \
            PAIR(0, 1), PAIR(2, 3), PAIR(4, 5), PAIR(6, 7);                                             \
            PAIR(0, 2), PAIR(1, 3), PAIR(4, 6), PAIR(5, 7), PAIR(1, 2), PAIR(5, 6);                     \
            PAIR(0, 4), PAIR(1, 5), PAIR(2, 6), PAIR(3, 7), PAIR(2, 4), PAIR(3, 5);                     \
            PAIR(1, 2), PAIR(3, 4), PAIR(5, 6);                                                         \
        }                                                                                               \
    }                                                                                                   \
    /* Distances 4, 2 and 1, of lines from v on with the next, unless these belong to another merge. */ \
    INLINE void NAME##_near(TYPE *v, bool last)                                                         \
    {                                                                                                   \
        enum { n = NUMBERS_LINE / sizeof(TYPE) };                                                       \
        TE_EACH                                                                                         \
        {                                                                                               \
            if (!last)                                                                                  \
                PAIR(4, 8), PAIR(5, 9), PAIR(6, 10), PAIR(7, 11);                                       \
            PAIR(2, 4), PAIR(3, 5);                                                                     \
            if (!last)                                                                                  \
                PAIR(6, 8), PAIR(7, 9);                                                                 \
            PAIR(1, 2), PAIR(3, 4), PAIR(5, 6);                                                         \
            if (!last)                                                                                  \
                PAIR(7, 8);                                                                             \
        }                                                                                               \
    }                                                                                                   \
    CLONES static void NAME(TYPE *v, int64_t lines, int64_t least, int64_t most)                        \
    {                                                                                                   \
        enum { side = NUMBERS_LINE / sizeof(TYPE) };                                                    \
        for (int64_t i = 0; least == NEAR && i < lines; i += NEAR)                                      \
            NAME##_eight(v + i * side);                                                                 \
        for (int64_t p = least; p < lines && p < most; p *= 2) {                                        \
            for (int64_t k = p; k >= NEAR; k /= 2)                                                      \
                for (int64_t j = k & (p - 1); j + k < lines; j += 2 * k) {                              \
                    TYPE *a = v + j * side, *b = a + k * side;                                          \
                    bool here = k == p || ((j + k) & (2 * p - 1));                                      \
                    int64_t n = here ? (lines - j - k < k ? lines - j - k : k) * side : 0;              \
                    TE_EACH ORDER(a + i, b + i);                                                        \
                }                                                                                       \
            for (int64_t i = 0; i < lines; i += NEAR)                                                   \
                if (i + NEAR == lines || !((i + NEAR) & (2 * p - 1)))                                   \
                    NAME##_near(v + i * side, true);                                                    \
                else                                                                                    \
                    NAME##_near(v + i * side, false);                                                   \
        }                                                                                               \
    }
NETWORK(network32, uint32_t)
NETWORK(network64, uint64_t)

void numbers_beside(void *lines, int64_t n, size_t size)
{
    for (int64_t i = 0; i < n; i += BLOCK) {
        char *block = (char *)lines + i * NUMBERS_LINE;
        int64_t some = n - i < BLOCK ? n - i : BLOCK;
        if (size == 4)
            network32((uint32_t *)(void *)block, some, NEAR, BLOCK);
        else
            network64((uint64_t *)(void *)block, some, NEAR, BLOCK);
    }
    if (size == 4)
        network32(lines, n, BLOCK, n);
    else
        network64(lines, n, BLOCK, n);
}

/* ---- rows one behind the other ------------------------------------------------------------------- */

typedef uint32_t Four __attribute__((vector_size(16)));
typedef uint64_t Two __attribute__((vector_size(16)));

/* A square of numbers, whose rows lie so far apart, by columns. */
INLINE void turn32(const uint32_t *from, int64_t from_step, uint32_t *to, int64_t to_step)
{
    Four v[4], w[4];
    for (int i = 0; i < 4; i++)
        memcpy(&v[i], from + i * from_step, sizeof *v);
    for (int i = 0; i < 2; i++) {
        w[2 * i] = __builtin_shufflevector(v[i], v[i + 2], 0, 4, 1, 5);
        w[2 * i + 1] = __builtin_shufflevector(v[i], v[i + 2], 2, 6, 3, 7);
    }
    for (int i = 0; i < 2; i++) {
        v[2 * i] = __builtin_shufflevector(w[i], w[i + 2], 0, 4, 1, 5);
        v[2 * i + 1] = __builtin_shufflevector(w[i], w[i + 2], 2, 6, 3, 7);
    }
    for (int i = 0; i < 4; i++)
        memcpy(to + i * to_step, &v[i], sizeof *v);
}

INLINE void turn64(const uint64_t *from, int64_t from_step, uint64_t *to, int64_t to_step)
{
    Two v[2], w[2];
    for (int i = 0; i < 2; i++)
        memcpy(&v[i], from + i * from_step, sizeof *v);
    w[0] = __builtin_shufflevector(v[0], v[1], 0, 2);
    w[1] = __builtin_shufflevector(v[0], v[1], 1, 3);
    for (int i = 0; i < 2; i++)
        memcpy(to + i * to_step, &w[i], sizeof *w);
}

/* From rows, each of `n` numbers, lines; the last columns are not theirs. Back from the last column on, so that what is written behind the
 * end of a row is written again. */
#define TURN(NAME, T, SQUARE)                                            \
    static void NAME##_to_lines(const T *rows, int64_t n, T *lines)      \
    {                                                                    \
        enum { side = NUMBERS_LINE / sizeof(T), step = 16 / sizeof(T) }; \
        for (int64_t i = 0; i < n; i += step)                            \
            for (int r = 0; r < side; r += step)                         \
                SQUARE(rows + r * n + i, n, lines + i * side + r, side); \
    }                                                                    \
    static void NAME##_to_rows(const T *lines, int64_t n, T *rows)       \
    {                                                                    \
        enum { side = NUMBERS_LINE / sizeof(T), step = 16 / sizeof(T) }; \
        for (int64_t i = (n - 1) & -step; i >= 0; i -= step)             \
            for (int r = 0; r < side; r += step)                         \
                SQUARE(lines + i * side + r, side, rows + r * n + i, n); \
    }
TURN(turned32, uint32_t, turn32)
TURN(turned64, uint64_t, turn64)

void numbers_rows(void *rows, void *lines, int64_t n, int64_t k, size_t size)
{
    int64_t all = (n + NEAR - 1) & -NEAR;
    if (size == 4)
        turned32_to_lines(rows, n, lines);
    else
        turned64_to_lines(rows, n, lines);
    memset((char *)lines + n * NUMBERS_LINE, 0xff, (size_t)(all - n) * NUMBERS_LINE);
    numbers_beside(lines, all, size);
    if (size == 4)
        turned32_to_rows(lines, k, rows);
    else
        turned64_to_rows(lines, k, rows);
}
