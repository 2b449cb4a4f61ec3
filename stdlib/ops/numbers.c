/* A long row of numbers is divided, by one of them, into what is less and what is not, until the parts are short enough to be sorted side by
 * side. */
#include "runtime/cpu.h"
#include "stdlib/ops/numbers.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

enum {
    SIDE = NUMBERS_LINE / 4,
    SHORT_LEAST =
        32, /* up to which parts are not divided again: of a short row, too, some lie side by side */
    SHORT_MOST = 128,
};

/* ---- parts --------------------------------------------------------------------------------------- */

INLINE uint64_t get(const char *at, int64_t i, size_t size)
{
    uint32_t narrow;
    uint64_t wide;
    if (size == 8)
        return memcpy(&wide, at + i * 8, 8), wide;
    return memcpy(&narrow, at + i * 4, 4), narrow;
}

INLINE void put(char *at, int64_t i, uint64_t number, size_t size)
{
    uint32_t narrow = (uint32_t)number;
    if (size == 8)
        memcpy(at + i * 8, &number, 8);
    else
        memcpy(at + i * 4, &narrow, 4);
}

typedef struct Sort {
    Limits *limits;
    size_t size;
    bool wide; /* by vectors of 64 bytes */
    uint64_t random;
} Sort;

/* Numbers of a row, `room` for as many, and which of the two places they are to be in order at. */
typedef struct Part {
    char *at, *room;
    int64_t n;
    bool away;
} Part;

/* A part that is being divided: what is less than the bound goes to the front of one place, the rest to that of the other. One of them is the
 * part's own; what is written there was read before. */
typedef struct Split {
    const char *at;
    char *less, *rest;
    int64_t n_less, n_rest;
    uint64_t bound;
} Split;

INLINE void split_each(Split *s, int64_t i, int64_t end, size_t size)
{
    for (; i < end; i++) {
        uint64_t v = get(s->at, i, size);
        put(s->less, s->n_less, v, size);
        put(s->rest, s->n_rest, v, size);
        s->n_less += v < s->bound;
        s->n_rest += v >= s->bound;
    }
}

#if defined(__x86_64__)
#define WIDE __attribute__((target("avx512f,popcnt")))
#define SPLIT_WIDE(NAME, T, BITS, MASK)                                                       \
    WIDE static int64_t NAME(Split *s, int64_t i, int64_t end)                                \
    {                                                                                         \
        const __m512i bound = _mm512_set1_epi##BITS((long long)s->bound);                     \
        T *less = (T *)(void *)s->less + s->n_less, *rest = (T *)(void *)s->rest + s->n_rest; \
        for (; i + 512 / BITS <= end; i += 512 / BITS) {                                      \
            __m512i v = _mm512_loadu_si512((const T *)(const void *)s->at + i);               \
            MASK is_less = _mm512_cmplt_epu##BITS##_mask(v, bound);                           \
            MASK is_rest = (MASK)~is_less;                                                    \
            _mm512_storeu_si512(less, _mm512_maskz_compress_epi##BITS(is_less, v));           \
            _mm512_storeu_si512(rest, _mm512_maskz_compress_epi##BITS(is_rest, v));           \
            less += __builtin_popcount(is_less);                                              \
            rest += __builtin_popcount(is_rest);                                              \
        }                                                                                     \
        s->n_less = less - (T *)(void *)s->less;                                              \
        s->n_rest = rest - (T *)(void *)s->rest;                                              \
        return i;                                                                             \
    }
SPLIT_WIDE(split_wide32, uint32_t, 32, __mmask16)
SPLIT_WIDE(split_wide64, uint64_t, 64, __mmask8)
#endif

static void split(const Sort *s, Split *to, int64_t i, int64_t end)
{
#if defined(__x86_64__)
    if (s->wide)
        i = s->size == 4 ? split_wide32(to, i, end) : split_wide64(to, i, end);
#endif
    if (s->size == 4)
        split_each(to, i, end, 4);
    else
        split_each(to, i, end, 8);
}

/* How many of the part are less than the bound; -1 when a limit was hit. */
static int64_t divide(const Sort *s, const Part *p, uint64_t bound)
{
    Split to = {.at = p->at,
                .less = p->away ? p->room : p->at,
                .rest = p->away ? p->at : p->room,
                .bound = bound};
    for (int64_t i = 0; i < p->n; i += LIMIT_EVERY) {
        if (limit_hit(s->limits))
            return -1;
        split(s, &to, i, p->n - i < LIMIT_EVERY ? p->n : i + LIMIT_EVERY);
    }
    return to.n_less;
}

/* ---- short parts, side by side ------------------------------------------------------------------- */

typedef struct Beside {
    _Alignas(NUMBERS_LINE) char lines[SHORT_MOST * NUMBERS_LINE + NUMBERS_SPARE];
    char rows[SHORT_MOST * NUMBERS_LINE + NUMBERS_SPARE];
    struct {
        char *to;
        size_t bytes;
    } parts[SIDE];
    int n;
    size_t step; /* bytes of a row */
} Beside;

static void sort_beside(Beside *b, size_t size)
{
    int64_t n = (int64_t)(b->step / size);
    numbers_rows(b->rows, b->lines, n, n, size);
    for (int r = 0; r < b->n; r++)
        memcpy(b->parts[r].to, b->rows + (size_t)r * b->step, b->parts[r].bytes);
    b->n = 0;
}

static void lay_beside(Beside *b, const Part *p, size_t size)
{
    size_t bytes = (size_t)p->n * size;
    char *row = b->rows + (size_t)b->n * b->step;
    memcpy(row, p->at, bytes);
    memset(row + bytes, 0xff, b->step - bytes);
    b->parts[b->n].to = p->away ? p->room : p->at;
    b->parts[b->n++].bytes = bytes;
    if ((size_t)b->n * size == NUMBERS_LINE)
        sort_beside(b, size);
}

/* ---- a row --------------------------------------------------------------------------------------- */

INLINE uint64_t middle(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

/* A number of the part, about as many of which are less as are not: of nine from anywhere, so that no order of the numbers is a bad one. */
static uint64_t bound_of(Sort *s, const Part *p)
{
    uint64_t of[3], v[3];
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) {
            s->random = s->random * 6364136223846793005U + 1442695040888963407U;
            v[k] = get(p->at, (int64_t)((s->random >> 33) % (uint64_t)p->n), s->size);
        }
        of[i] = middle(v[0], v[1], v[2]);
    }
    return middle(of[0], of[1], of[2]);
}

/* A part of which none is less than the bound: those that are equal to it are in order, the others are what is left of it. */
static bool leave_equal(const Sort *s, Part *p, uint64_t bound)
{
    bool all = bound == (s->size == 4 ? UINT32_MAX : UINT64_MAX);
    int64_t equal = all ? p->n : divide(s, p, bound + 1);
    for (int64_t i = 0; i < equal; i++) {
        if (limit_hit_at(s->limits, i))
            return false;
        put(p->room, i, bound, s->size);
    }
    p->room += equal * (int64_t)s->size;
    p->n -= equal;
    return equal >= 0;
}

bool numbers_sort(Limits *l, void *row, void *room, int64_t n, size_t size)
{
    Sort s = {l, size, cpu_vector_bytes() == 64, (uint64_t)n};
    Part p = {row, room, n, false};
    Part waits[64]; /* the larger of two parts waits, so each is half of the one before at most */
    int waiting = 0;
    int64_t most = n / SIDE;
    most = most < SHORT_LEAST ? SHORT_LEAST : most > SHORT_MOST ? SHORT_MOST : most & -NUMBERS_STEP;
    Beside beside;
    beside.n = 0;
    beside.step = (size_t)most * size;
    for (;;) {
        if (p.n <= most) {
            lay_beside(&beside, &p, size);
            if (!waiting)
                break;
            p = waits[--waiting];
            continue;
        }
        uint64_t bound = bound_of(&s, &p);
        int64_t less = divide(&s, &p, bound), rest = p.n - less;
        char *home = p.away ? p.room : p.at, *other = p.away ? p.at : p.room;
        Part low = {home, other + rest * (int64_t)size, less, false};
        Part high = {other, home + less * (int64_t)size, rest, true};
        if (less < 0 || (less == 0 && !leave_equal(&s, &high, bound)))
            return false;
        if (less > 0)
            waits[waiting++] = less < rest ? high : low;
        p = less > 0 && less < rest ? low : high;
    }
    sort_beside(&beside, size);
    return true;
}
