#include "base/arena.h"

#include "base/limit.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/poison.h"

#include <assert.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Debug builds use small blocks, so that crossing from one to the next is common. */
#ifdef NDEBUG
#define BLOCK_LEAST ((size_t)4 << 10)
#define BLOCK_MOST ((size_t)1 << 20)
#else
#define BLOCK_LEAST ((size_t)256)
#define BLOCK_MOST ((size_t)16 << 10)
#endif
#define ALIGNMENT ((size_t)8)

struct ArenaBlock {
    ArenaBlock *older, *newer;
    size_t size;      /* the header included */
    bool charged;
};

struct ArenaCleanup {
    ArenaCleanup *older;
    void (*fn)(void *data);
    void *data;
};

static size_t round_up(size_t n)
{
    return (n + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
}

static const size_t header_size = (sizeof(ArenaBlock) + ALIGNMENT - 1) & ~(ALIGNMENT - 1);

static char *block_start(ArenaBlock *b)
{
    return (char *)b + header_size;
}

static void block_link(Arena *a, ArenaBlock **list, ArenaBlock *b)
{
    if (b->older)
        b->older->newer = b;
    *list = b;
    a->bytes += b->size;
}

/* A large block is about to be filled from its start: one call asks for all its pages, instead of a fault for each. Where the system
 * does not know how, the faults come as before. */
static void touch(ArenaBlock *b, size_t size)
{
#ifdef MADV_POPULATE_WRITE
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)b + page - 1) & ~(page - 1),
              to = ((uintptr_t)b + size) & ~(page - 1);
    if (to > from)
        (void)madvise((void *)from, to - from, MADV_POPULATE_WRITE);
#else
    (void)b, (void)size;
#endif
}

/* A block with room for `size` bytes, on one of the lists; NULL when memory is refused. */
static ArenaBlock *block_new(Arena *a, ArenaBlock **list, size_t size, bool zeroed)
{
    if (!size_add(size, header_size, &size))
        return NULL;
    if (a->limits && !limit_charge(a->limits, size))
        return NULL;
    ArenaBlock *b = zeroed ? memory_zeroed(1, size) : memory_alloc(size);
    if (!b) {
        if (a->limits) {
            limit_release(a->limits, size);
            limit_reach(a->limits, LIMIT_MEMORY);
        }
        return NULL;
    }
    if (!zeroed && size == BLOCK_MOST)
        touch(b, size);
    *b = (ArenaBlock){.older = *list, .size = size, .charged = a->limits != NULL};
    block_link(a, list, b);
    return b;
}

/* A block when memory has been refused: beyond the limit. */
static ArenaBlock *block_new_anyway(Arena *a, ArenaBlock **list, size_t size)
{
    size += header_size;
    ArenaBlock *b = memory_must(size);
    *b = (ArenaBlock){.older = *list, .size = size};
    block_link(a, list, b);
    return b;
}

static void block_free(Arena *a, ArenaBlock *b)
{
    a->bytes -= b->size;
    if (b->charged)
        limit_release(a->limits, b->size);
    unpoison(b, b->size);
    memory_free(b);
}

void arena_init(Arena *a, Limits *limits)
{
    *a = (Arena){.limits = limits};
}

void arena_deinit(Arena *a)
{
    arena_reset(a, (ArenaMark){0});
}

/* Makes the newest block one with room for `size` bytes. Blocks grow with the arena. */
static void next_block(Arena *a, size_t size)
{
    size_t wanted = a->bytes < BLOCK_LEAST ? BLOCK_LEAST : a->bytes;
    if (wanted > BLOCK_MOST)
        wanted = BLOCK_MOST;
    if (wanted < size + header_size)
        wanted = size + header_size;
    ArenaBlock *b = block_new(a, &a->block, wanted - header_size, false);
    if (!b)
        b = block_new_anyway(a, &a->block, size);
    a->next = block_start(b);
    a->end = (char *)b + b->size;
    poison(a->next, (size_t)(a->end - a->next));
}

static void *alloc_small(Arena *a, size_t size)
{
    size = round_up(size + !size);
    if ((size_t)(a->end - a->next) < size)
        next_block(a, size);
    char *p = a->next;
    a->next += size;
    unpoison(p, size);
    return memset(p, 0, size);
}

void *arena_alloc(Arena *a, size_t size)
{
    if (size <= ARENA_BIG)
        return alloc_small(a, size);
    ArenaBlock *b = block_new(a, &a->big, size, true);
    if (b)
        return block_start(b);
    if (a->limits)
        limit_reach(a->limits, LIMIT_MEMORY);
    return NULL;
}

void *arena_alloc_array(Arena *a, size_t n, size_t size)
{
    size_t bytes;
    if (size_mul(n, size, &bytes))
        return arena_alloc(a, bytes);
    if (a->limits)
        limit_reach(a->limits, LIMIT_MEMORY);
    return NULL;
}

void *arena_alloc_must(Arena *a, size_t n, size_t size)
{
    size_t bytes;
    if (!size_mul(n, size, &bytes) || bytes > SIZE_MAX / 2)
        memory_gone();
    void *p = arena_alloc(a, bytes);
    if (p)
        return p;
    return memset(block_start(block_new_anyway(a, &a->big, bytes)), 0, bytes);
}

/* The big block of `at` with room for `size` bytes; NULL when it cannot have it. */
static void *grow_big(Arena *a, void *at, size_t size)
{
    ArenaBlock *b = (ArenaBlock *)((char *)at - header_size);
    size_t old = b->size;
    if (memory_is_stock(b) || (b->charged && !limit_charge(a->limits, size + header_size - old)))
        return NULL;
    ArenaBlock *larger = memory_resize(b, size + header_size);
    if (!larger) {
        if (b->charged)
            limit_release(a->limits, size + header_size - old);
        return NULL;
    }
    larger->size = size + header_size;
    a->bytes += larger->size - old;
    *(larger->newer ? &larger->newer->older : &a->big) = larger;
    if (larger->older)
        larger->older->newer = larger;
    return block_start(larger);
}

void *arena_grow(Arena *a, void *at, size_t n, size_t size)
{
    size_t old = round_up(n + !n), wanted = round_up(size);
    if (at && n > ARENA_BIG) {
        void *larger = grow_big(a, at, size);
        if (larger)
            return larger;
    } else if (at && size <= ARENA_BIG && (char *)at + old == a->next &&
               (size_t)(a->end - a->next) >= wanted - old) {
        unpoison(a->next, wanted - old);
        a->next += wanted - old;
        return at;
    }
    void *p = arena_alloc_must(a, size, 1);
    if (n > 0)
        memcpy(p, at, n);
    return p;
}

void *arena_copy(Arena *a, const void *from, size_t size)
{
    void *p = arena_alloc(a, size);
    if (p && size > 0)
        memcpy(p, from, size);
    return p;
}

char *arena_copy_text(Arena *a, const char *text, size_t len)
{
    char *p = arena_alloc_must(a, len + 1, 1);
    if (len > 0)
        memcpy(p, text, len);
    return p;
}

void arena_on_free(Arena *a, void (*fn)(void *data), void *data)
{
    ArenaCleanup *c = arena_new(a, ArenaCleanup);
    *c = (ArenaCleanup){a->cleanups, fn, data};
    a->cleanups = c;
}

ArenaMark arena_mark(const Arena *a)
{
    return (ArenaMark){a->block, a->big, a->next, a->cleanups};
}

void arena_reset(Arena *a, ArenaMark mark)
{
    /* A cleanup may add none, but the entry's own memory goes only below. */
    while (a->cleanups != mark.cleanups) {
        ArenaCleanup *c = a->cleanups;
        a->cleanups = c->older;
        c->fn(c->data);
    }
    while (a->big != mark.big) {
        ArenaBlock *b = a->big;
        a->big = b->older;
        if (a->big)
            a->big->newer = NULL;
        block_free(a, b);
    }
    while (a->block != mark.block) {
        ArenaBlock *b = a->block;
        a->block = b->older;
        block_free(a, b);
    }
    a->next = mark.next;
    a->end = mark.block ? (char *)mark.block + mark.block->size : NULL;
    if (a->next)
        poison(a->next, (size_t)(a->end - a->next));
}

void arena_words(const Arena *a, void (*fn)(void *data, const void *from, size_t size), void *data)
{
    for (ArenaBlock *b = a->block; b; b = b->older) {
        const char *end = b == a->block ? a->next : (char *)b + b->size;
        fn(data, block_start(b), (size_t)(end - block_start(b)));
    }
    for (ArenaBlock *b = a->big; b; b = b->older)
        fn(data, block_start(b), b->size - header_size);
}
