#include "sched/memory.h"

#include <stdint.h>
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

/* ---- by threads ------------------------------------------------------------------------------------------------------------------ */

/* Places that are looked at, of the largest needs: networks have few different ones. */
#define PLACES_MOST 64
/* The part of the memory that would do by which more may be taken. */
#define MORE_AT_MOST 4

/* Needs that have got their offsets; where they lie, each place once; those of them that live while another is looked for. */
typedef struct Placed {
    MemoryNeed *const *needs;
    size_t n;
    const MemoryNeed *places[PLACES_MOST];
    size_t n_places;
    const MemoryNeed **alive;
    size_t n_alive;
    size_t first; /* bytes of the block where each lies where it fits first */
    int threads;
} Placed;

static size_t in_both(size_t a, size_t a_end, size_t b, size_t b_end)
{
    size_t from = a > b ? a : b, to = a_end < b_end ? a_end : b_end;
    return from < to ? to - from : 0;
}

static size_t part_from(const Placed *p, size_t at, size_t size, int thread)
{
    size_t threads = (size_t)p->threads, i = (size_t)thread;
    return at + size / threads * i + size % threads * i / threads;
}

/* Bytes of the need, at the offset, that lie where another thread writes in that place. */
static size_t foreign(const Placed *p, const MemoryNeed *place, size_t size, size_t at)
{
    size_t n = in_both(at, at + size, place->offset, place->offset + place->size);
    for (int t = 0; t < p->threads && n > 0; t++)
        n -= in_both(part_from(p, at, size, t), part_from(p, at, size, t + 1),
                     part_from(p, place->offset, place->size, t),
                     part_from(p, place->offset, place->size, t + 1));
    return n;
}

/* Bytes that come from others, or are more than would do: those come from further away. SIZE_MAX: it cannot lie there. */
static size_t cost_at(const Placed *p, size_t size, size_t at)
{
    size_t cost = at + size > p->first ? at + size - p->first : 0;
    for (size_t i = 0; i < p->n_alive; i++)
        if (in_both(at, at + size, p->alive[i]->offset, p->alive[i]->offset + p->alive[i]->size))
            return SIZE_MAX;
    for (size_t i = 0; i < p->n_places; i++)
        cost += foreign(p, p->places[i], size, at);
    return cost;
}

/* Where it fits first if nowhere is better: its middle over that of some place, or behind one. */
static size_t best_fit(Placed *p, const MemoryNeed *m)
{
    p->n_alive = 0;
    for (size_t i = 0; i < p->n; i++)
        if (live_together(p->needs[i], m))
            p->alive[p->n_alive++] = p->needs[i];
    size_t best = first_fit(p->needs, p->n, m), least = cost_at(p, m->size, best);
    for (size_t i = 0; i < 2 * p->n_places && least > 0; i++) {
        const MemoryNeed *place = p->places[i / 2];
        size_t half = i % 2 ? place->size : place->size / 2, back = i % 2 ? 0 : m->size / 2;
        if (place->offset + half < back)
            continue;
        size_t at = (place->offset + half - back + MEMORY_ALIGN - 1) & ~(MEMORY_ALIGN - 1);
        size_t cost = cost_at(p, m->size, at);
        if (cost < least) {
            best = at;
            least = cost;
        }
    }
    return best;
}

static void note_place(Placed *p, const MemoryNeed *m)
{
    bool known = p->n_places == PLACES_MOST;
    for (size_t i = 0; i < p->n_places && !known; i++)
        known = p->places[i]->offset == m->offset && p->places[i]->size == m->size;
    if (!known)
        p->places[p->n_places++] = m;
}

/* ---- all ------------------------------------------------------------------------------------------------------------------------- */

/* Gives the bytes of the block. */
static size_t place_all(MemoryNeed *const *order, size_t n, Placed *p)
{
    size_t total = 0;
    for (size_t i = 0; i < n; i++) {
        MemoryNeed *m = order[i];
        if (p) {
            p->n = i;
            m->offset = best_fit(p, m);
            note_place(p, m);
        } else {
            m->offset = first_fit(order, i, m);
        }
        total = m->offset + m->size > total ? m->offset + m->size : total;
    }
    return total;
}

size_t memory_plan(Arena *scratch, MemoryNeed *needs, size_t n, int threads)
{
    MemoryNeed **order = arena_alloc_must(scratch, n + 1, sizeof *order);
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (needs[i].last >= needs[i].first && needs[i].size > 0)
            order[count++] = &needs[i];
    qsort(order, count, sizeof *order, by_size);
    size_t first = place_all(order, count, NULL);
    if (threads < 2)
        return first;
    Placed p = {.needs = order, .first = first, .threads = threads};
    p.alive = arena_alloc_must(scratch, n + 1, sizeof *p.alive);
    size_t shared = place_all(order, count, &p);
    return shared <= first + first / MORE_AT_MOST ? shared : place_all(order, count, NULL);
}
