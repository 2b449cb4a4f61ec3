/* Slices and interned names. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include "base/arena.h"
#include "base/vec.h"

#include <stdint.h>

/* A piece of somebody's text; not ended by a NUL. */
typedef struct Str {
    const char *ptr;
    size_t len;
} Str;

Str str_of(const char *text);
bool str_eq(Str a, Str b);
bool str_is(Str a, const char *text);
uint64_t hash_bytes(const void *p, size_t n, uint64_t seed);

/* A name, stored once: equal names are the same pointer. `text` ends in a NUL. */
typedef struct Name {
    uint32_t id; /* names of an interner count from 0 */
    uint32_t len;
    char text[];
} Name;

/* The hash stands beside the name's number, so that a search reads only the name it finds. */
typedef struct NameSlot {
    uint32_t number; /* the name's id + 1; 0: free */
    uint32_t hash;
} NameSlot;

typedef struct Interner {
    Arena *arena; /* names live as long as it */
    NameSlot *slots;
    size_t cap;
    size_t longest; /* of the names */
    Vec(const Name *) names; /* by their ids */
} Interner;

void interner_init(Interner *in, Arena *arena);
void interner_deinit(Interner *in);
const Name *name_intern(Interner *in, const char *text, size_t len);
/* NULL: there is none. A text that is longer than every name is not read. */
const Name *name_find(const Interner *in, const char *text, size_t len);

/* The edit distance between two texts, at most `most` + 1 (Levenshtein, with neighbours swapped as
 * one edit). */
int str_distance(Str a, Str b, int most);

#endif
