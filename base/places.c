#include "base/places.h"

static uintptr_t number_of(const void *p)
{
    return (uintptr_t)p / ((size_t)PLACES * PLACE_BYTES);
}

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

void *places_find(Places *t, const void *p)
{
    uintptr_t number = number_of(p);
    if (t->last.at && t->last.number == number)
        return t->last.at;
    const PlacePage *page = t->cap ? slot_of(t, number) : NULL;
    if (!page || !page->at)
        return NULL;
    t->last = *page;
    return page->at;
}

void *places_get(Places *t, Arena *a, const void *p, size_t size)
{
    void *at = places_find(t, p);
    if (at)
        return at;
    if (4 * (t->n + 1) > 3 * t->cap)
        grow(t, a);
    PlacePage *page = slot_of(t, number_of(p));
    *page = (PlacePage){number_of(p), arena_alloc_must(a, size, 1)};
    t->n++;
    t->last = *page;
    return page->at;
}

bool places_add(Places *t, Arena *a, const void *p)
{
    uint64_t *bits = places_get(t, a, p, PLACES / 8);
    uint64_t bit = (uint64_t)1 << place_of(p) % 64;
    uint64_t *word = &bits[place_of(p) / 64];
    bool is_new = !(*word & bit);
    *word |= bit;
    return is_new;
}
