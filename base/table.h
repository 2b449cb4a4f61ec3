/* Hash tables by pointer, iterated in the order of insertion, so that nothing printed depends on an
 * address.
 *
 *     PtrMap seen = {0};
 *     ptrmap_put(&seen, node, value);          // replaces an older value
 *     void *v = ptrmap_find(&seen, node);      // NULL when absent
 *     for (size_t i = 0; i < seen.n; i++) use(seen.entries[i].key, seen.entries[i].value);
 *     ptrmap_deinit(&seen);
 *
 * Storage is on the heap; a map of zeroes is an empty one. It never fails (base/memory.h). */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct PtrEntry {
    const void *key; /* NULL: removed */
    void *value;
} PtrEntry;

/* A part of the key stands beside the position, so that a search reads only the entry that it finds. */
typedef struct PtrIndex {
    uint32_t at; /* position in `entries` + 1; 0: free */
    uint32_t tag;
} PtrIndex;

typedef struct PtrMap {
    PtrEntry *entries; /* in order of insertion; removed ones have a NULL key */
    size_t n, cap; /* entries, the removed ones included */
    PtrIndex *index; /* open addressing */
    size_t index_cap;
    size_t removed;
} PtrMap;

void ptrmap_deinit(PtrMap *m);
void ptrmap_clear(PtrMap *m);
void ptrmap_put(PtrMap *m, const void *key, void *value);
void *ptrmap_find(const PtrMap *m, const void *key);
bool ptrmap_has(const PtrMap *m, const void *key);
/* The place of the key's value, made with NULL when absent; valid until the next change. */
void **ptrmap_slot(PtrMap *m, const void *key);
void ptrmap_remove(PtrMap *m, const void *key);

#endif
