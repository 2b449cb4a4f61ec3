#include "base/table.h"

#include "base/memory.h"

#include <string.h>

#ifdef NDEBUG
#define LEAST 16
#else
#define LEAST 4
#endif

/* What stands close together in memory stays so in the index: it is mostly asked for in that order. */
static size_t hash(const void *key)
{
    uintptr_t at = (uintptr_t)key;
    uint64_t h = (uint64_t)(at >> 10) * 0x9e3779b97f4a7c15u;
    return (size_t)(h >> 32 ^ h) + (at >> 4 & 63);
}

static uint32_t tag_of(const void *key)
{
    return (uint32_t)((uintptr_t)key >> 3);
}

static void ptrmap_free(PtrMap *m)
{
    memory_free(m->entries);
    memory_free(m->index);
}

void ptrmap_deinit(PtrMap *m)
{
    ptrmap_free(m);
    *m = (PtrMap){0};
}

void ptrmap_clear(PtrMap *m)
{
    m->n = m->removed = 0;
    if (m->index_cap > 0)
        memset(m->index, 0, m->index_cap * sizeof *m->index);
}

/* The entry of the key; NULL when absent. A removed entry keeps its place in the index and its key
 * is NULL, which no key equals, so that the search goes on behind it. */
static PtrEntry *find(const PtrMap *m, const void *key)
{
    if (m->n == 0 || !key)
        return NULL;
    size_t mask = m->index_cap - 1;
    uint32_t tag = tag_of(key);
    for (size_t i = hash(key) & mask; m->index[i].at; i = (i + 1) & mask) {
        if (m->index[i].tag != tag)
            continue;
        PtrEntry *e = &m->entries[m->index[i].at - 1];
        if (e->key == key)
            return e;
    }
    return NULL;
}

static void index_add(PtrMap *m, size_t at)
{
    size_t mask = m->index_cap - 1;
    size_t i = hash(m->entries[at].key) & mask;
    while (m->index[i].at)
        i = (i + 1) & mask;
    m->index[i] = (PtrIndex){(uint32_t)at + 1, tag_of(m->entries[at].key)};
}

/* Closes the gaps of the removed entries, keeping the order. */
static void compact(PtrMap *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++) {
        if (m->entries[i].key)
            m->entries[n++] = m->entries[i];
    }
    m->n = n;
    m->removed = 0;
}

/* Room for one more entry; the index stays at most two thirds full. */
static void make_room(PtrMap *m)
{
    if (m->n < m->cap)
        return;
    size_t live = m->n - m->removed;
    size_t cap = live < m->n / 2 ? m->cap : m->cap * 2;
    if (cap < LEAST)
        cap = LEAST;
    size_t index_cap = 8;
    while (index_cap < cap + cap / 2)
        index_cap *= 2;
    if (cap > UINT32_MAX)
        memory_gone();
    PtrIndex *index = memory_must(index_cap * sizeof *index);
    memset(index, 0, index_cap * sizeof *index);
    PtrEntry *entries = memory_must(cap * sizeof *entries);
    if (m->n > 0)
        memcpy(entries, m->entries, m->n * sizeof *entries);
    ptrmap_free(m);
    m->index = index;
    m->index_cap = index_cap;
    m->entries = entries;
    m->cap = cap;
    compact(m);
    for (size_t i = 0; i < m->n; i++)
        index_add(m, i);
}

void **ptrmap_slot(PtrMap *m, const void *key)
{
    PtrEntry *e = find(m, key);
    if (e)
        return &e->value;
    make_room(m);
    m->entries[m->n] = (PtrEntry){.key = key};
    index_add(m, m->n);
    return &m->entries[m->n++].value;
}

void ptrmap_put(PtrMap *m, const void *key, void *value)
{
    if (key)
        *ptrmap_slot(m, key) = value;
}

void *ptrmap_find(const PtrMap *m, const void *key)
{
    PtrEntry *e = find(m, key);
    return e ? e->value : NULL;
}

bool ptrmap_has(const PtrMap *m, const void *key)
{
    return find(m, key) != NULL;
}

void ptrmap_remove(PtrMap *m, const void *key)
{
    PtrEntry *e = find(m, key);
    if (!e)
        return;
    *e = (PtrEntry){0};
    m->removed++;
}
