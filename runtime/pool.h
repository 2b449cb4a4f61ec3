/* Worker threads that run the bodies of loops, and nothing else. */
#ifndef RUNTIME_POOL_H
#define RUNTIME_POOL_H

#include <stdint.h>

typedef struct Pool Pool;

/* `threads` counts the caller; 0: the cores this process may use. Threads start at the first loop.
 * NULL out of memory. */
Pool *pool_new(int threads);
void pool_free(Pool *p);
int pool_threads(const Pool *p);
/* That this process may use. */
int pool_cores(void);

/* Calls body(data, from, to) over parts of [0, n) of at least `grain`, on all threads; returns when
 * all are done. The parts depend on n, grain and nothing else, so that reductions split the same
 * way on every machine. A NULL pool runs in the caller. */
void pool_for(Pool *p, int64_t n, int64_t grain, void (*body)(void *data, int64_t from, int64_t to),
              void *data);
/* The same where several parts that lie side by side may come as one: each thread begins with large ones. */
void pool_share(Pool *p, int64_t n, int64_t grain,
                void (*body)(void *data, int64_t from, int64_t to), void *data);

#endif
