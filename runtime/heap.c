#include "runtime/heap.h"

#include <stdlib.h>
#include <string.h>

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

#define SLAB_SIZE ((size_t)64 << 10)
#define UNIT ((size_t)8)
#define SMALL_MOST ((size_t)256)

typedef struct Slab {
    struct Slab *older;
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
    size_t live; /* small objects */
    RefLinks *refs;
};

static void slabs_free(Heap *h)
{
    while (h->slabs) {
        Slab *s = h->slabs;
        h->slabs = s->older;
        free(s);
        limit_release(h->limits, SLAB_SIZE);
    }
    h->next = h->end = NULL;
}

static void heap_delete(Heap *h)
{
    slabs_free(h);
    free(h);
}

static Heap *heap_of(Limits *limits)
{
    if (limits->heap)
        return limits->heap;
    Heap *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->limits = limits;
    limits->heap = h;
    limits->heap_free = heap_delete;
    return h;
}

static bool slab_add(Heap *h)
{
    if (!limit_charge(h->limits, SLAB_SIZE))
        return false;
    Slab *s = malloc(SLAB_SIZE);
    if (!s) {
        limit_release(h->limits, SLAB_SIZE);
        return false;
    }
    s->older = h->slabs;
    h->slabs = s;
    h->next = (char *)(s + 1);
    h->end = (char *)s + SLAB_SIZE;
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

static void small_free(Heap *h, void *p, size_t bytes)
{
    if (--h->live == 0) {
        /* Nothing is alive: all cells are free, and one slab is enough to begin again with. */
        memset(h->cells, 0, sizeof h->cells);
        while (h->slabs->older) {
            Slab *s = h->slabs;
            h->slabs = s->older;
            free(s);
            limit_release(h->limits, SLAB_SIZE);
        }
        h->next = (char *)(h->slabs + 1);
        h->end = (char *)h->slabs + SLAB_SIZE;
        return;
    }
    Cell *c = p;
    c->next = h->cells[bytes / UNIT];
    h->cells[bytes / UNIT] = c;
}

static void *large_alloc(Limits *limits, size_t bytes)
{
    if (limits && !limit_charge(limits, bytes))
        return NULL;
    void *p = malloc(bytes);
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
