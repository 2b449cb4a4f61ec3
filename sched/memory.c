#include "sched/memory.h"

#include <stdlib.h>

/* The largest first, since what is small fits into the gaps that they leave. */
static int by_size(const void *a, const void *b)
{
    const MemoryNeed *x = *(MemoryNeed *const *)a, *y = *(MemoryNeed *const *)b;
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    return x < y ? -1 : x > y;
}

static bool live_together(const MemoryNeed *a, const MemoryNeed *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The least offset that is free among those placed before. */
static size_t first_fit(MemoryNeed *const *placed, size_t n, const MemoryNeed *m)
{
    size_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t i = 0; i < n; i++) {
            const MemoryNeed *p = placed[i];
            if (live_together(p, m) && at < p->offset + p->size && p->offset < at + m->size) {
                at = (p->offset + p->size + MEMORY_ALIGN - 1) & ~(MEMORY_ALIGN - 1);
                moved = true;
            }
        }
    }
    return at;
}

size_t memory_plan(Arena *scratch, MemoryNeed *needs, size_t n)
{
    MemoryNeed **order = arena_alloc_must(scratch, n + 1, sizeof *order);
    size_t total = 0, count = 0;
    for (size_t i = 0; i < n; i++)
        if (needs[i].last >= needs[i].first && needs[i].size > 0)
            order[count++] = &needs[i];
    qsort(order, count, sizeof *order, by_size);
    for (size_t i = 0; i < count; i++) {
        order[i]->offset = first_fit(order, i, order[i]);
        if (order[i]->offset + order[i]->size > total)
            total = order[i]->offset + order[i]->size;
    }
    return total;
}
