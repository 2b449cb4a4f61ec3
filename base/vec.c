#include "base/vec.h"

#include "base/memory.h"
#include "base/number.h"

void *vec_grow(Arena *a, void *at, size_t *cap, size_t size)
{
    size_t more = *cap ? *cap * 2 : 4, bytes;
    if (!size_mul(more, size, &bytes) || bytes > SIZE_MAX / 2)
        memory_gone();
    at = arena_grow(a, at, *cap * size, bytes);
    *cap = more;
    return at;
}
