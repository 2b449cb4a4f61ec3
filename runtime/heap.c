#include "runtime/heap.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* With the address sanitizer each object is an allocation of its own, so that it sees leaks and
 * late uses. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEAP_PLAIN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(HEAP_PLAIN)
#define HEAP_PLAIN 1
#endif
#ifndef HEAP_PLAIN
#define HEAP_PLAIN 0
#endif

/* Slabs grow with what lives, up to the size of a large page. */
#define SLAB_LEAST ((size_t)64 << 10)
#define SLAB_MOST ((size_t)2 << 20)
#define UNIT ((size_t)8)
#define SMALL_MOST ((size_t)256)

/* How much large storage is kept for another use. */
#define SPARE_MOST 8
#define SPARE_BYTES ((size_t)256 << 20)

typedef struct Slab {
    struct Slab *older;
    size_t size;
} Slab;

typedef struct Cell {
    struct Cell *next;
} Cell;

/* What stands before a reference, in front of its heap's word. */
typedef struct RefLinks {
    struct RefLinks *next;
    struct RefLinks **before; /* what points here */
} RefLinks;

struct Heap {
    Limits *limits;
    Cell *cells[SMALL_MOST / UNIT + 1]; /* given back, by size */
    char *next, *end; /* the part of the newest slab that was never used */
    Slab *slabs;
    size_t slab_bytes;
    size_t live; /* small objects */
    RefLinks *refs;
    Storage spare[SPARE_MOST];          /* the oldest first */
    int spares;
    size_t spare_bytes;
};

/* Frees the slabs that are newer than `last`. */
static void slabs_free(Heap *h, const Slab *last)
{
    while (h->slabs != last) {
        Slab *s = h->slabs;
        h->slabs = s->older;
        h->slab_bytes -= s->size;
        limit_release(h->limits, s->size);
        free(s);
    }
}

static void spare_free(Heap *h, int i)
{
    Storage s = h->spare[i];
    h->spares--;
    h->spare_bytes -= s.bytes;
    memmove(&h->spare[i], &h->spare[i + 1], (size_t)(h->spares - i) * sizeof s);
    free(s.at);
    limit_release(h->limits, s.bytes);
}

static void heap_delete(Heap *h)
{
    while (h->spares > 0)
        spare_free(h, h->spares - 1);
    slabs_free(h, NULL);
    free(h);
}

static Heap *heap_of(Limits *limits)
{
    if (limits->heap)
        return limits->heap;
    Heap *h = memory_zeroed(1, sizeof *h);
    if (!h)
        return NULL;
    h->limits = limits;
    limits->heap = h;
    limits->heap_free = heap_delete;
    return h;
}

/* Large storage asks for large pages: touching it for the first time costs more than most loops
 * over it otherwise. */
static void want_large_pages(void *p, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    if (bytes < SLAB_MOST)
        return;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)p + page - 1) & ~(page - 1);
    uintptr_t to = ((uintptr_t)p + bytes) & ~(page - 1);
    madvise((void *)from, to - from, MADV_HUGEPAGE);
#else
    (void)p;
    (void)bytes;
#endif
}

/* A slab as large as all so far, or as the limit still allows. */
static bool slab_add(Heap *h)
{
    size_t size = h->slab_bytes < SLAB_LEAST  ? SLAB_LEAST
                  : h->slab_bytes > SLAB_MOST ? SLAB_MOST
                                              : h->slab_bytes;
    Limits *l = h->limits;
    while (size > SLAB_LEAST && l->memory_most > 0 && l->memory + size > l->memory_most)
        size /= 2;
    if (!limit_charge(l, size))
        return false;
    Slab *s = size == SLAB_MOST ? memory_aligned(SLAB_MOST, SLAB_MOST) : memory_alloc(size);
    if (!s) {
        limit_release(l, size);
        return false;
    }
    want_large_pages(s, size);
    *s = (Slab){h->slabs, size};
    h->slabs = s;
    h->slab_bytes += size;
    h->next = (char *)(s + 1);
    h->end = (char *)s + size;
    return true;
}

static void *small_alloc(Heap *h, size_t bytes)
{
    Cell **list = &h->cells[bytes / UNIT];
    Cell *c = *list;
    if (c) {
        *list = c->next;
    } else {
        if ((size_t)(h->end - h->next) < bytes && !slab_add(h))
            return NULL;
        c = (Cell *)(void *)h->next;
        h->next += bytes;
    }
    h->live++;
    return c;
}

/* Nothing is alive: all cells are free, and the first slab is enough to begin again with. */
static void begin_again(Heap *h)
{
    memset(h->cells, 0, sizeof h->cells);
    Slab *first = h->slabs;
    while (first->older)
        first = first->older;
    slabs_free(h, first);
    h->next = (char *)(first + 1);
    h->end = (char *)first + first->size;
}

static void small_free(Heap *h, void *p, size_t bytes)
{
    Cell *c = p;
    c->next = h->cells[bytes / UNIT];
    h->cells[bytes / UNIT] = c;
    if (--h->live == 0 && h->slabs->older)
        begin_again(h);
}

static void *large_alloc(Limits *limits, size_t bytes)
{
    if (limits && !limit_charge(limits, bytes))
        return NULL;
    void *p = memory_alloc(bytes);
    if (!p && limits)
        limit_release(limits, bytes);
    return p;
}

static bool is_small(const Heap *h, size_t bytes)
{
    return h && bytes <= SMALL_MOST && !HEAP_PLAIN;
}

static size_t front_size(bool is_ref)
{
    return sizeof(Heap *) + (is_ref ? sizeof(RefLinks) : 0);
}

static Heap **heap_word(Object *o)
{
    return (Heap **)(void *)o - 1;
}

static RefLinks *links_of(Object *o)
{
    return (RefLinks *)(void *)heap_word(o) - 1;
}

static Object *object_of(RefLinks *r)
{
    return (Object *)(void *)((char *)r + front_size(true));
}

static void link_in(RefLinks **list, RefLinks *r)
{
    r->next = *list;
    r->before = list;
    if (r->next)
        r->next->before = &r->next;
    *list = r;
}

static void link_out(RefLinks *r)
{
    *r->before = r->next;
    if (r->next)
        r->next->before = r->before;
}

Object *heap_alloc(Limits *limits, size_t bytes, bool is_ref)
{
    Heap *h = limits ? heap_of(limits) : NULL;
    bytes = (bytes + front_size(is_ref) + UNIT - 1) & ~(UNIT - 1);
    char *p = NULL;
    if (h || !limits)
        p = is_small(h, bytes) ? small_alloc(h, bytes) : large_alloc(limits, bytes);
    if (!p) {
        if (limits)
            limit_reach(limits, LIMIT_MEMORY);
        return NULL;
    }
    Object *o = (Object *)(void *)(p + front_size(is_ref));
    *heap_word(o) = h;
    if (h && is_ref)
        link_in(&h->refs, links_of(o));
    return o;
}

void heap_free(Object *o, size_t bytes, bool is_ref)
{
    Heap *h = *heap_word(o);
    if (h && is_ref)
        link_out(links_of(o));
    bytes = (bytes + front_size(is_ref) + UNIT - 1) & ~(UNIT - 1);
    char *p = (char *)o - front_size(is_ref);
    if (is_small(h, bytes)) {
        small_free(h, p, bytes);
        return;
    }
    if (h)
        limit_release(h->limits, bytes);
    free(p);
}

/* A reference that has been emptied moves to a list of its own before its value goes, which may
 * free any of them. */
void heap_break_cycles(Limits *limits)
{
    Heap *h = limits ? limits->heap : NULL;
    RefLinks *emptied = NULL;
    while (h && h->refs) {
        RefLinks *r = h->refs;
        link_out(r);
        link_in(&emptied, r);
        Object *o = object_of(r);
        Value held = o->fields[0];
        o->fields[0] = value_none();
        value_release(held);
    }
    while (emptied) {
        RefLinks *r = emptied;
        link_out(r);
        link_in(&h->refs, r);
    }
}

/* --- Large storage */

static Storage storage_new(Limits *limits, size_t bytes)
{
    Storage none = {0};
    size_t most = limits->memory_most;
    Heap *h = limits->heap;
    /* What is kept gives way before the limit is reached. */
    while (h && h->spares > 0 && most > 0 && (bytes > most || limits->memory > most - bytes))
        spare_free(h, 0);
    if (!limit_charge(limits, bytes))
        return none;
    void *at = memory_try(bytes);
    while (!at && h && h->spares > 0) {
        spare_free(h, 0);
        at = memory_try(bytes);
    }
    if (!at) {
        memory_refused();
        limit_release(limits, bytes);
        return none;
    }
    want_large_pages(at, bytes);
    return (Storage){at, bytes};
}

Storage heap_storage_take(Limits *limits, size_t bytes)
{
    Heap *h = heap_of(limits);
    for (int i = h ? h->spares - 1 : -1; i >= 0; i--) {
        Storage s = h->spare[i];
        if (s.bytes < bytes || s.bytes - bytes > bytes / 4)
            continue;
        h->spares--;
        h->spare_bytes -= s.bytes;
        memmove(&h->spare[i], &h->spare[i + 1], (size_t)(h->spares - i) * sizeof s);
        return s;
    }
    return storage_new(limits, bytes);
}

void heap_storage_give(Limits *limits, Storage s)
{
    Heap *h = limits->heap;
    if (!h || s.bytes > SPARE_BYTES || HEAP_PLAIN) {
        free(s.at);
        limit_release(limits, s.bytes);
        return;
    }
    while (h->spares == SPARE_MOST || h->spare_bytes + s.bytes > SPARE_BYTES)
        spare_free(h, 0);
    h->spare[h->spares++] = s;
    h->spare_bytes += s.bytes;
}
