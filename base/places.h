/* What is known about things by their addresses, for things that lie close together and are met in that order, as the nodes of a
 * program: a page of addresses is looked for, and in it each thing has its place.
 *
 *     Places seen = {0};
 *     uint32_t *page = places_get(&seen, arena, node, PLACES * sizeof *page);   // zeroes at first
 *     page[place_of(node)] = 1;
 *
 * No two things may begin in the same PLACE_BYTES bytes. All memory is of the arena. */
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

static inline size_t place_of(const void *p)
{
    return (uintptr_t)p / PLACE_BYTES % PLACES;
}

/* The page of p; NULL when there is none. */
void *places_find(Places *t, const void *p);
/* Made when there is none, of `size` bytes, which are the same for all pages of a table. Never fails. */
void *places_get(Places *t, Arena *a, const void *p, size_t size);

/* A set: true when p is new in it. */
bool places_add(Places *t, Arena *a, const void *p);

#endif
