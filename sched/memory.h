/* Where what lives for a while lies in one block of memory.
 *
 * Whatever is needed during the steps [first, last] gets an offset at which nothing else lies that is needed during one of them. */
#ifndef SCHED_MEMORY_H
#define SCHED_MEMORY_H

#include "base/arena.h"

#define MEMORY_ALIGN ((size_t)64)

typedef struct MemoryNeed {
    size_t size;
    int first, last; /* last < first: never needed */
    size_t offset; /* the answer, a multiple of MEMORY_ALIGN */
} MemoryNeed;

/* Fills in the offsets; gives the bytes of the block. Of what several threads write each has a part, one behind the other: parts of one thread
 * lie where it wrote others before, so that it need not fetch their lines from another's cache, where that takes little more memory. */
size_t memory_plan(Arena *scratch, MemoryNeed *needs, size_t n, int threads);

#endif
