/* Where the objects and tensors of a running program lie; only value.c, tensor.c, the evaluator's steps and
 * generated code need to know.
 *
 * Objects are small, many and short-lived, so they come from slabs with one free list for each
 * size, which generated code takes from and gives back to by itself. Slabs are kept: those on which
 * nothing lives go when a limit is near, or with the heap. Before a reference stand its links in the
 * list of live references. A heap belongs to one Limits and one thread. */
#ifndef RUNTIME_HEAP_H
#define RUNTIME_HEAP_H

#include "runtime/value.h"

typedef struct Heap Heap;

/* A cell that was given back. */
typedef struct FreeCell {
    struct FreeCell *next;
} FreeCell;

/* Objects of more bytes are allocated one by one. */
#define HEAP_SMALL_MOST ((size_t)256)
#define HEAP_UNIT ((size_t)8)

/* NULL when the list is empty. */
static inline void *cell_take(FreeCell **list)
{
    FreeCell *c = *list;
    if (c)
        *list = c->next;
    return c;
}

static inline void cell_give(FreeCell **list, void *p)
{
    FreeCell *c = p;
    c->next = *list;
    *list = c;
}

/* Whether objects of so many bytes come from the lists; references do not. */
bool heap_is_listed(size_t bytes);

/* The limits' heap, which is made when it is first asked for. */
Heap *heap_of(Limits *limits);

/* Storage of `bytes`, at a multiple of 8, not zeroed; NULL when memory is refused (limit reached). */
Object *heap_alloc(Limits *limits, size_t bytes, bool is_ref);
void heap_free(Heap *h, Object *o, size_t bytes, bool is_ref);

/* object_of_form and object_free without a call where a list has a cell or takes one. */
static inline Object *object_take(Limits *limits, const ObjectForm *form)
{
    Object *o = form->cells ? cell_take(form->cells) : NULL;
    if (!o)
        return object_of_form(limits, form);
    memcpy(o, &form->first, sizeof form->first);
    return o;
}

static inline void object_give(Object *o, const ObjectForm *form)
{
    if (form->cells)
        cell_give(form->cells, o);
    else
        object_free(o);
}

/* Between evaluations: programs give cells back in another order than that in which they take them, and after some rounds the lists
 * of a large heap lead all over the memory. Then they are put in order. */
void heap_settle(Limits *limits);

/* The form of objects in the heap, made when it is first asked for; `info` NULL: of functions. */
const ObjectForm *heap_form(Heap *h, const ObjectInfo *info, uint32_t n, const uint64_t *heads);

/* The number of every object without fields that is a tuple; its form is nobody's. */
#define FORM_UNIT 1

/* How much lives, 0: nothing; false when a cell was given back twice. Walks through all that is free. */
bool heap_check(Limits *limits, size_t *live);

/* Large storage of tensors: what was given back last is kept for the next of about its size,
 * because memory new from the system is slow to touch. What is kept stays charged, and goes as soon
 * as a charge is refused. NULL: refused, nothing reported. */
typedef struct Storage {
    void *at;
    size_t bytes;
    unsigned number; /* of the heap's; neighbours differ */
} Storage;

#define STORAGE_LARGE ((size_t)128 << 10)

Storage heap_storage_take(Limits *limits, size_t bytes);
void heap_storage_give(Limits *limits, Storage s);

#endif
