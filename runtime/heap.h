/* Where the objects and tensors of a running program lie; only value.c, tensor.c and generated
 * code need to know.
 *
 * Objects are small, many and short-lived, so they come from slabs with one free list for each
 * size. Before each object stands a word that names its heap; before that of a reference stand
 * its links in the list of live references. When the last object goes, the slabs go too. A heap
 * belongs to one Limits and one thread. */
#ifndef RUNTIME_HEAP_H
#define RUNTIME_HEAP_H

#include "runtime/value.h"

typedef struct Heap Heap;

/* Storage of `bytes`, at a multiple of 8, not zeroed; NULL when memory is refused (limit reached).
 * NULL limits: plain malloc. */
Object *heap_alloc(Limits *limits, size_t bytes, bool is_ref);
void heap_free(Object *o, size_t bytes, bool is_ref);

/* Large storage of tensors: what was given back last is kept for the next of about its size,
 * because memory new from the system is slow to touch. What is kept stays charged, and goes as soon
 * as a charge is refused. NULL: refused, nothing reported. */
typedef struct Storage {
    void *at;
    size_t bytes;
} Storage;

#define STORAGE_LARGE ((size_t)1 << 20)

Storage heap_storage_take(Limits *limits, size_t bytes);
void heap_storage_give(Limits *limits, Storage s);

#endif
