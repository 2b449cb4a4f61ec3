/* What units in files are written and read with: words, and what is made of words. */
#ifndef JIT_KEEP_H
#define JIT_KEEP_H

#include "jit/internal.h"

#include <pthread.h>

typedef struct Writing Writing;
struct Writing {
    const Content *c;
    Ctx *cx;
    Arena arena;
    Buf body;
    Vec(Str) pieces;
    uint64_t at; /* where the next piece lies, from the first one */
    bool here; /* something cannot be said to others */
    uint64_t key[2];
    Cache *cache;
    pthread_t thread;
};

void keep_put(Writing *w, uint64_t v);
void keep_put_text(Writing *w, const char *text);
void keep_put_source(Writing *w, uint32_t source);
/* A data type of the program, or the one that passes gather things in. */
void keep_put_def(Writing *w, const TypeDef *def);

/* The digest holds off damage, not somebody who makes files; so whatever the words say is looked at. */
typedef struct Taking {
    Unit *u;
    const Content *c;
    const char *at, *end; /* of the body */
    char *pieces;
    size_t n_pieces;
    bool wrong;
} Taking;

uint64_t keep_take(Taking *t);
/* A number of things of which each takes a word or more. */
uint64_t keep_take_count(Taking *t);
const char *keep_take_text(Taking *t);
const TypeDef *keep_take_def(Taking *t); /* NULL where something is wrong */

/* ---- keep_site.c: calls of operators --------------------------------------------------------------------------------- */

void keep_put_site(Writing *w, const OpSite *site);
/* NULL where something is wrong. */
const OpSite *keep_take_site(Taking *t);

#endif
