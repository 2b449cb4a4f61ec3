/* Growable arrays in an arena.
 *
 *     Vec(Expr *) parts = {0};
 *     vec_push(&parts, arena, e);
 *     for (size_t i = 0; i < parts.n; i++) use(parts.at[i]);
 *
 * Old storage stays in the arena until that goes; growth doubles, so at most as much again is
 * lost. */
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include "base/arena.h"

#define Vec(T)         \
    struct {           \
        T *at;         \
        size_t n, cap; \
    }

/* Storage for one more element of `size` bytes: `at` itself or a larger copy; `*cap` follows. Never
 * fails (arena_alloc_must). */
void *vec_grow(Arena *a, void *at, size_t n, size_t *cap, size_t size);

#define vec_push(v, arena, x)                                                  \
    ((v)->at = vec_grow((arena), (v)->at, (v)->n, &(v)->cap, sizeof *(v)->at), \
     (v)->at[(v)->n++] = (x))
#define vec_pop(v) ((v)->at[--(v)->n])
#define vec_last(v) ((v)->at[(v)->n - 1])

#endif
