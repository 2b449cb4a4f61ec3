#include "runtime/speed.h"

#include "base/clones.h"
#include "base/limit.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Compilers make of these the widest registers that each processor has. */
typedef float Sums __attribute__((vector_size(64)));

#define TIMES 5
#define TURNS 20000
/* As many sums side by side as hide how long one takes, in the registers of any of them. */
enum { SIDE_BY_SIDE = 8, OPERATIONS = 2 * SIDE_BY_SIDE * 16 };

CLONES static float sums(int turns, float by, float plus)
{
    Sums b = {0}, p = {0}, r[SIDE_BY_SIDE];
    b += by;
    p += plus;
    for (int i = 0; i < SIDE_BY_SIDE; i++)
        r[i] = b + (float)i;
    for (int t = 0; t < turns; t++)
#pragma GCC unroll 8
        for (int i = 0; i < SIDE_BY_SIDE; i++)
            r[i] = r[i] * b + p;
    for (int i = 1; i < SIDE_BY_SIDE; i++)
        r[0] += r[i];
    return r[0][0];
}

double speed_of_sums(void)
{
    double least = 0;
    volatile float kept = 0.5f;
    /* Of a number that is known a compiler makes a copy of the function for it, which is for every processor. */
    volatile int turns = TURNS;
    for (int i = 0; i < TIMES; i++) {
        double start = clock_seconds();
        kept = sums(turns, 0.5f + 0 * kept, 0.25f);
        double seconds = clock_seconds() - start;
        least = i == 0 || seconds < least ? seconds : least;
    }
    return (double)TURNS * OPERATIONS / least;
}

/* More shows nothing new, less is lost in the clock. */
#define COPY_MOST ((size_t)64 << 20)
#define COPY_LEAST ((size_t)1 << 12)
/* Less is copied by one thread: that takes no longer than the others need to come. */
#define COPY_SHARED ((size_t)1 << 17)

typedef struct Copies {
    char *from, *to;
    int turns;
} Copies;

/* Each time from another place, or a compiler would see that once is enough. */
static void copy_part(void *data, int64_t first, int64_t behind)
{
    const Copies *c = data;
    for (int t = 0; t < c->turns; t++)
        memcpy(c->to + first, c->from + first + (t & 1), (size_t)(behind - first) - 1);
}

double speed_of_copies(Pool *pool, double bytes)
{
    size_t half = bytes / 2 > (double)COPY_MOST    ? COPY_MOST
                  : bytes / 2 < (double)COPY_LEAST ? COPY_LEAST
                                                   : (size_t)(bytes / 2);
    char *from = memory_zeroed(2, half);
    double least = 0;
    if (!from)
        return 0;
    memset(from, 1, 2 * half);
    int turns = (int)(((size_t)1 << 20) / half) + 1;
    Copies all = {from, from + half, turns};
    int64_t n = (int64_t)half, threads = half < COPY_SHARED ? 1 : pool_threads(pool);
    for (int i = 0; i < TIMES; i++) {
        double start = clock_seconds();
        pool_for(pool, n, (n + threads - 1) / threads, copy_part, &all);
        double seconds = clock_seconds() - start;
        least = i == 0 || seconds < least ? seconds : least;
    }
    free(from);
    return least > 0 ? 2.0 * (double)half * turns / least : 0;
}
