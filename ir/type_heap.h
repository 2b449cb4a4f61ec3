/* Where types lie, their variables and the definitions of data types: memory that is given back when nothing speaks of them.
 *
 * Nobody counts who refers to a type: every node of every program does. So now and then, when no work is under way, the memory of what is
 * alive (arenas, see ctx.h) is looked through: a word that is an address inside a block of this heap keeps the block, and so do the words
 * of such a block. What nothing leads to is free. This is the marking of a conservative collector (H. Boehm, M. Weiser: Garbage
 * Collection in an Uncooperative Environment, 1988); nothing moves, and a number that looks like an address keeps a block at worst. */
#ifndef IR_TYPE_HEAP_H
#define IR_TYPE_HEAP_H

#include "base/limit.h"

/* Blocks of up to this many bytes share pages with others of their size. */
#define TYPE_BLOCK_MOST ((size_t)512)

typedef struct TypePage TypePage;

typedef struct TypeHeap {
    Limits *limits; /* charged for each page */
    TypePage **pages; /* by address */
    size_t n, cap;
    TypePage *room[TYPE_BLOCK_MOST / 16]; /* by size: pages with free blocks */
    size_t used; /* bytes in blocks */
    size_t due; /* how many make a collection worth its while */
    void **grey; /* marked, and not looked through yet */
    size_t n_grey;
    bool given_up; /* the collection under way keeps everything */
} TypeHeap;

void type_heap_init(TypeHeap *h, Limits *limits);
void type_heap_deinit(TypeHeap *h);

/* Zeroed; never fails (base/memory.h). */
void *type_heap_alloc(TypeHeap *h, size_t size);
void *type_heap_copy(TypeHeap *h, const void *from, size_t size);

/* A collection: begin (false: not enough memory for one), keep what is alive, ask what was kept, end. One that is interrupted keeps
 * everything, and is due again. */
bool type_heap_begin(TypeHeap *h);
/* Keeps the block in which the address lies, if there is one, and all that it leads to. */
void type_heap_keep(TypeHeap *h, const void *address);
/* The same for each word of the memory. */
void type_heap_keep_words(TypeHeap *h, const void *from, size_t size);
/* Whether the block, which is one of this heap, is kept. */
bool type_heap_kept(const TypeHeap *h, const void *block);
void type_heap_end(TypeHeap *h);

#endif
