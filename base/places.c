#include "base/places.h"

/* The slot of the page, or the free one where it belongs. */
static PlacePage *slot_of(const Places *t, uintptr_t number)
{
    uint64_t h = number * 0x9e3779b97f4a7c15u;
    size_t k = (h ^ h >> 32) & (t->cap - 1);
    while (t->pages[k].at && t->pages[k].number != number)
        k = (k + 1) & (t->cap - 1);
    return &t->pages[k];
}

static void grow(Places *t, Arena *a)
{
    Places old = *t;
    t->cap = old.cap ? 2 * old.cap : 16;
    t->pages = arena_alloc_must(a, t->cap, sizeof *t->pages);
    for (size_t i = 0; i < old.cap; i++)
        if (old.pages[i].at)
            *slot_of(t, old.pages[i].number) = old.pages[i];
}

void *places_search(const Places *t, uintptr_t number)
{
    const PlacePage *page = t->cap ? slot_of(t, number) : NULL;
    if (!page || !page->at)
        return NULL;
    ((Places *)(uintptr_t)t)->last = *page;
    return page->at;
}

void *places_get(Places *t, Arena *a, const void *p, size_t size)
{
    void *at = places_find(t, p);
    if (at)
        return at;
    if (4 * (t->n + 1) > 3 * t->cap)
        grow(t, a);
    PlacePage *page = slot_of(t, places_number(p));
    *page = (PlacePage){places_number(p), arena_alloc_must(a, size, 1)};
    t->n++;
    t->last = *page;
    return page->at;
}

bool places_add(Places *t, Arena *a, const void *p)
{
    uint64_t *bits = places_get(t, a, p, PLACES / 8);
    uint64_t bit = (uint64_t)1 << places_index(p) % 64;
    uint64_t *word = &bits[places_index(p) / 64];
    bool is_new = !(*word & bit);
    *word |= bit;
    return is_new;
}

bool places_has(const Places *t, const void *p)
{
    const uint64_t *bits = places_find(t, p);
    return bits && (bits[places_index(p) / 64] >> places_index(p) % 64 & 1);
}
