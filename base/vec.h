/* Growable arrays in an arena.
 *
 *     Vec(Expr *) parts = {0};
 *     vec_push(&parts, arena, e);
 *     for (size_t i = 0; i < parts.n; i++) use(parts.at[i]);
 *
 * Storage doubles. Where it cannot grow in place, the old one stays in the arena until that goes: at most as much
 * again, and nothing of a large array. */
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include <string.h>

#include "base/arena.h"

#define Vec(T)         \
    struct {           \
        T *at;         \
        size_t n, cap; \
    }

/* Storage for twice as many elements of `size` bytes; `*cap` follows. Never fails (arena_grow). */
void *vec_grow(Arena *a, void *at, size_t *cap, size_t size);

/* Room for one more element. */
#define vec_room(v, arena)       \
    ((void)((v)->n < (v)->cap || \
            ((v)->at = vec_grow((arena), (v)->at, &(v)->cap, sizeof *(v)->at)) != NULL))
#define vec_push(v, arena, x) (vec_room((v), (arena)), (v)->at[(v)->n++] = (x))
#define vec_pop(v) ((v)->at[--(v)->n])
#define vec_last(v) ((v)->at[(v)->n - 1])
/* The elements from `i` on move up by one for `x`, or down by one. */
#define vec_insert(v, arena, i, x)                                                \
    (vec_room((v), (arena)),                                                      \
     memmove(&(v)->at[(i) + 1], &(v)->at[i], ((v)->n++ - (i)) * sizeof *(v)->at), \
     (v)->at[i] = (x))
#define vec_remove(v, i) \
    ((void)memmove(&(v)->at[i], &(v)->at[(i) + 1], (--(v)->n - (i)) * sizeof *(v)->at))

#endif
