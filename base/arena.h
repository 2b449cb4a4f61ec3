/* Bump memory that is given back all at once.
 *
 * An arena owns every byte it hands out; nothing is freed on its own. What an arena's memory refers
 * to outside (a counted tensor) is let go by a cleanup entry. Memory is zeroed and aligned to 8
 * bytes, which is what its structs need: programs are made of many small ones.
 *
 *     Arena a;
 *     arena_init(&a, limits);
 *     Node *n = arena_new(&a, Node);
 *     arena_deinit(&a);
 *
 * Small allocations (up to ARENA_BIG) never fail for the caller: when the system refuses or the
 * memory limit is reached, they come from beyond the limit or from what was put by, and the next
 * `limit_hit` ends the work (base/limit.h, base/memory.h). */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#define ARENA_BIG ((size_t)64 << 10)

typedef struct Limits Limits;
typedef struct ArenaBlock ArenaBlock;
typedef struct ArenaCleanup ArenaCleanup;

typedef struct Arena {
    ArenaBlock *block;      /* the newest; each points to the one before */
    ArenaBlock *big;        /* blocks of one allocation above ARENA_BIG, newest first */
    char *next, *end;       /* the free part of `block` */
    ArenaCleanup *cleanups; /* newest first */
    Limits *limits;         /* charged for every block; may be NULL */
    size_t bytes;           /* held in blocks */
} Arena;

/* A place to go back to. */
typedef struct ArenaMark {
    ArenaBlock *block, *big;
    char *next;
    ArenaCleanup *cleanups;
} ArenaMark;

void arena_init(Arena *a, Limits *limits);
/* Runs the cleanups, newest first, and gives all memory back. */
void arena_deinit(Arena *a);

/* `size` zeroed bytes; a size of 0 gives a valid pointer. Sizes above ARENA_BIG may fail: NULL,
 * already reported. */
void *arena_alloc(Arena *a, size_t size);
/* `n` elements of `size` bytes; the product is checked: overflow or refusal gives NULL, already
 * reported. */
void *arena_alloc_array(Arena *a, size_t n, size_t size);
/* The same, but it never fails: an allocation of any size is treated as a small one. For what grows
 * by small steps. */
void *arena_alloc_must(Arena *a, size_t n, size_t size);
/* `n` bytes from `at` (NULL: none yet) as a part of `size` bytes: in place where the memory behind is free, else moved. What
 * is added is not zeroed. Never fails, as arena_alloc_must; `at` is as old as the newest mark, or younger. */
void *arena_grow(Arena *a, void *at, size_t n, size_t size);
/* Copies; NULL as arena_alloc. */
void *arena_copy(Arena *a, const void *from, size_t size);
/* A copy with a NUL behind it. */
char *arena_copy_text(Arena *a, const char *text, size_t len);

#define arena_new(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define arena_new_array(a, T, n) ((T *)arena_alloc_array((a), (n), sizeof(T)))

/* `fn(data)` is called when the arena (or the part since a mark) is given back. */
void arena_on_free(Arena *a, void (*fn)(void *data), void *data);

/* Everything allocated after the mark is given back by the reset. */
ArenaMark arena_mark(const Arena *a);
void arena_reset(Arena *a, ArenaMark mark);

/* Calls fn for what the arena holds: all that was handed out, and perhaps what lies between. */
void arena_words(const Arena *a, void (*fn)(void *data, const void *from, size_t size), void *data);

#endif
