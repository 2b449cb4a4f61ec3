#include "base/vec.h"

#include <string.h>

void *vec_grow(Arena *a, void *at, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return at;
    size_t more = *cap ? *cap * 2 : 4;
    void *larger = arena_alloc_must(a, more, size);
    if (n > 0)
        memcpy(larger, at, n * size);
    *cap = more;
    return larger;
}
