#include "ir/type_heap.h"

#include "base/memory.h"
#include "base/poison.h"

#include <string.h>

#define PAGE_BYTES ((size_t)16 << 10)
/* A collection waits until this much came since the last one, and at least half as much as stayed then. In debug builds each is due, so
 * that what is kept by nothing that a collection sees is found out. */
#ifdef NDEBUG
#define DUE_LEAST ((size_t)64 << 10)
#else
#define DUE_LEAST ((size_t)0)
#endif

enum { BLOCK_FREE, BLOCK_USED, BLOCK_KEPT };

struct TypePage {
    size_t size; /* of a block */
    uint32_t n, used; /* blocks */
    uint32_t next; /* no free block is before it */
    bool charged;
    TypePage *more; /* another with free blocks of this size */
    uint8_t *state; /* of each block */
    char *blocks;
};

void type_heap_init(TypeHeap *h, Limits *limits)
{
    *h = (TypeHeap){.limits = limits, .due = DUE_LEAST};
}

static size_t page_bytes(const TypePage *p)
{
    return sizeof *p + p->n * (p->size + 1);
}

static void page_free(TypeHeap *h, TypePage *p)
{
    unpoison(p->blocks, p->n * p->size);
    if (p->charged)
        limit_release(h->limits, page_bytes(p));
    memory_free(p);
}

void type_heap_deinit(TypeHeap *h)
{
    for (size_t i = 0; i < h->n; i++)
        page_free(h, h->pages[i]);
    memory_free(h->pages);
    *h = (TypeHeap){0};
}

/* How many pages begin at the address or before it. */
static size_t pages_before(const TypeHeap *h, const void *address)
{
    size_t from = 0, to = h->n;
    while (from < to) {
        size_t mid = (from + to) / 2;
        if ((uintptr_t)h->pages[mid] <= (uintptr_t)address)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

static void list_page(TypeHeap *h, TypePage *p)
{
    if (h->n == h->cap) {
        size_t cap = h->cap ? 2 * h->cap : 16;
        TypePage **pages = memory_must(cap * sizeof(TypePage *));
        if (h->n)
            memcpy(pages, h->pages, h->n * sizeof *pages);
        memory_free(h->pages);
        h->pages = pages;
        h->cap = cap;
    }
    size_t at = pages_before(h, p);
    memmove(h->pages + at + 1, h->pages + at, (h->n - at) * sizeof *h->pages);
    h->pages[at] = p;
    h->n++;
}

static TypePage *page_new(TypeHeap *h, size_t size, uint32_t n)
{
    TypePage head = {.size = size, .n = n};
    size_t bytes = page_bytes(&head);
    head.charged = limit_charge(h->limits, bytes);
    TypePage *p = memory_must(bytes);
    *p = head;
    p->blocks = (char *)(p + 1);
    p->state = (uint8_t *)p->blocks + n * size;
    memset(p->state, BLOCK_FREE, n);
    poison(p->blocks, n * size);
    list_page(h, p);
    return p;
}

static TypePage *page_with_room(TypeHeap *h, size_t size)
{
    TypePage **room = &h->room[size / 16 - 1];
    if (!*room)
        *room = page_new(h, size, (uint32_t)((PAGE_BYTES - sizeof(TypePage)) / (size + 1)));
    return *room;
}

void *type_heap_alloc(TypeHeap *h, size_t size)
{
    size = (size + 15 + (size == 0)) & ~(size_t)15;
    TypePage *p = size <= TYPE_BLOCK_MOST ? page_with_room(h, size) : page_new(h, size, 1);
    while (p->state[p->next] != BLOCK_FREE)
        p->next++;
    char *block = p->blocks + p->next * size;
    p->state[p->next] = BLOCK_USED;
    if (++p->used == p->n && size <= TYPE_BLOCK_MOST)
        h->room[size / 16 - 1] = p->more;
    h->used += size;
    unpoison(block, size);
    return memset(block, 0, size);
}

void *type_heap_copy(TypeHeap *h, const void *from, size_t size)
{
    void *to = type_heap_alloc(h, size);
    return size ? memcpy(to, from, size) : to;
}

/* ---- collections ----------------------------------------------------------------------------------------------------------- */

bool type_heap_begin(TypeHeap *h)
{
    size_t blocks = 0;
    for (size_t i = 0; i < h->n; i++)
        blocks += h->pages[i]->used;
    h->n_grey = 0;
    h->given_up = false;
    h->grey = memory_try((blocks + 1) * sizeof *h->grey);
    return h->grey != NULL;
}

/* Sets *block to the number of the block at the address; NULL when there is none, or a free one. */
static TypePage *find_block(const TypeHeap *h, const void *address, size_t *block)
{
    size_t before = pages_before(h, address);
    TypePage *p = before ? h->pages[before - 1] : NULL;
    if (!p || (uintptr_t)address < (uintptr_t)p->blocks)
        return NULL;
    *block = ((uintptr_t)address - (uintptr_t)p->blocks) / p->size;
    return *block < p->n && p->state[*block] != BLOCK_FREE ? p : NULL;
}

static void mark(TypeHeap *h, const void *address)
{
    size_t i;
    TypePage *p = find_block(h, address, &i);
    if (!p || p->state[i] == BLOCK_KEPT)
        return;
    p->state[i] = BLOCK_KEPT;
    h->grey[h->n_grey++] = p->blocks + i * p->size;
}

/* What the words hold may never have been written: only as addresses are they looked at. */
UNWATCHED static void mark_words(TypeHeap *h, const void *from, size_t size)
{
    const char *at = from;
    for (size_t i = 0; i + sizeof(void *) <= size && !h->given_up; i += sizeof(void *)) {
        const void *word;
        if (i % (LIMIT_EVERY * sizeof word) == 0)
            h->given_up = limit_waits(h->limits);
        memcpy(&word, at + i, sizeof word);
        if (word)
            mark(h, word);
    }
}

static void mark_through(TypeHeap *h)
{
    while (h->n_grey && !h->given_up) {
        void *block = h->grey[--h->n_grey];
        size_t i;
        TypePage *p = find_block(h, block, &i);
        mark_words(h, block, p->size);
    }
}

void type_heap_keep(TypeHeap *h, const void *address)
{
    mark(h, address);
    mark_through(h);
}

void type_heap_keep_words(TypeHeap *h, const void *from, size_t size)
{
    mark_words(h, from, size);
    mark_through(h);
}

static bool is_kept(const TypeHeap *h, const TypePage *p, size_t i)
{
    return p->state[i] == BLOCK_KEPT || (h->given_up && p->state[i] == BLOCK_USED);
}

bool type_heap_kept(const TypeHeap *h, const void *block)
{
    size_t i;
    const TypePage *p = find_block(h, block, &i);
    return p && is_kept(h, p, i);
}

/* Frees the blocks that were not kept; false when the page has none left. */
static bool sweep(TypeHeap *h, TypePage *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        bool kept = is_kept(h, p, i);
        if (!kept && p->state[i] == BLOCK_USED) {
            poison(p->blocks + i * p->size, p->size);
            p->used--;
            h->used -= p->size;
        }
        p->state[i] = kept ? BLOCK_USED : BLOCK_FREE;
    }
    p->next = 0;
    return p->used > 0;
}

void type_heap_end(TypeHeap *h)
{
    size_t left = 0;
    memset(h->room, 0, sizeof h->room);
    for (size_t i = 0; i < h->n; i++) {
        TypePage *p = h->pages[i];
        if (!sweep(h, p)) {
            page_free(h, p);
            continue;
        }
        h->pages[left++] = p;
        if (p->size <= TYPE_BLOCK_MOST && p->used < p->n) {
            p->more = h->room[p->size / 16 - 1];
            h->room[p->size / 16 - 1] = p;
        }
    }
    h->n = left;
    memory_free(h->grey);
    h->grey = NULL;
    if (!h->given_up)
        h->due = h->used + (DUE_LEAST && h->used / 2 > DUE_LEAST ? h->used / 2 : DUE_LEAST);
}
