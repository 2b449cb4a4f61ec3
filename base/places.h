/* What is known about things by their addresses, for things that lie close together and are met in that order, as the nodes of a
 * program: a page of addresses is looked for, and in it each thing has its place.
 *
 *     Places seen = {0};
 *     uint32_t *page = places_get(&seen, arena, node, PLACES * sizeof *page);   // zeroes at first
 *     page[places_index(node)] = 1;
 *
 * No two things may begin in the same PLACE_BYTES bytes. All memory is of the arena. One thread asks at a time: what was found last is
 * remembered. */
#ifndef BASE_PLACES_H
#define BASE_PLACES_H

#include "base/arena.h"

#include <stdint.h>

#define PLACES 256
#define PLACE_BYTES 16

typedef struct PlacePage {
    uintptr_t number;
    void *at;
} PlacePage;

typedef struct Places {
    PlacePage *pages; /* open addressing */
    size_t n, cap;
    PlacePage last; /* the one that was asked for last is asked for again more often than not */
} Places;

/* The place of p in its page, and the number of that. */
static inline size_t places_index(const void *p)
{
    return (uintptr_t)p / PLACE_BYTES % PLACES;
}

static inline uintptr_t places_number(const void *p)
{
    return (uintptr_t)p / ((size_t)PLACES * PLACE_BYTES);
}

/* The page of this number, in the table; NULL when there is none. */
void *places_search(const Places *t, uintptr_t number);

/* The page of p; NULL when there is none. */
static inline void *places_find(const Places *t, const void *p)
{
    uintptr_t number = places_number(p);
    return t->last.at && t->last.number == number ? t->last.at : places_search(t, number);
}

/* Made when there is none, of `size` bytes, which are the same for all pages of a table. Never fails. */
void *places_get(Places *t, Arena *a, const void *p, size_t size);

/* A set: true when p is new in it. */
bool places_add(Places *t, Arena *a, const void *p);

/* Whether p is in the set. */
bool places_has(const Places *t, const void *p);

/* A map: where the value of p stands, NULL at first. Never fails. */
static inline void **places_slot(Places *t, Arena *a, const void *p)
{
    void **page = places_get(t, a, p, PLACES * sizeof *page);
    return &page[places_index(p)];
}

/* The value of p; NULL when it has none. */
static inline void *places_value(const Places *t, const void *p)
{
    void **page = places_find(t, p);
    return page ? page[places_index(p)] : NULL;
}

#endif
