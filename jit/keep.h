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
    const char *device_text; /* the last one */
    uint64_t key[2];
    Cache *cache;
    pthread_t thread;
    bool beside; /* which has begun */
};

void keep_put(Writing *w, uint64_t v);
void keep_put_text(Writing *w, const char *text);
void keep_put_source(Writing *w, uint32_t source);
void keep_put_span(Writing *w, Span span);
void keep_put_tensor(Writing *w, const Tensor *t);
/* Of n bytes and a 0; the runs of a module share one. */
void keep_put_device_text(Writing *w, const char *text, size_t n);
/* A data type of the program, or the one that passes gather things in. */
void keep_put_def(Writing *w, const TypeDef *def);
void keep_put_type(Writing *w, const Type *t);
void keep_put_constructor(Writing *w, const Constructor *con);

/* The digest holds off damage, not somebody who makes files; so whatever the words say is looked at. */
typedef struct Taking {
    Unit *u;
    const Content *c;
    bool compiled; /* the unit's environment has what is compiled, not what is written */
    bool other; /* the file's code was made of something else */
    const char *at, *end; /* of the body */
    char *pieces;
    size_t n_pieces;
    Str device_text; /* the last one, */
    struct DeviceCode *device_code; /* and what its runs share */
    bool wrong;
} Taking;

uint64_t keep_take(Taking *t);
/* A number of things of which each takes a word or more. */
uint64_t keep_take_count(Taking *t);
const char *keep_take_text(Taking *t);
Span keep_take_span(Taking *t);
/* Owned by the unit. NULL where something is wrong, here and below. */
const Tensor *keep_take_tensor(Taking *t);
const TypeDef *keep_take_def(Taking *t);
const Type *keep_take_type(Taking *t);
const Constructor *keep_take_constructor(Taking *t, bool nullary);
struct DeviceCode *keep_take_device_text(Taking *t, const char **text, size_t *n);

/* ---- keep_site.c: calls of operators --------------------------------------------------------------------------------- */

void keep_put_site(Writing *w, const OpSite *site);
const OpSite *keep_take_site(Taking *t);

/* ---- keep_closed.c: values that were made with the code -------------------------------------------------------------- */

void keep_put_closed(Writing *w, const Closed *c);
const Closed *keep_take_closed(Taking *t);

/* ---- keep_late.c: what more code may be made for ------------------------------------------------------------------------ */

/* The unit's sites, before its code. */
void keep_put_sites(Writing *w, const Unit *u);
/* They are as they were when the file was written, and the unit sleeps. */
void keep_take_sites(Taking *t);
/* What its code is for, and the table of addresses in it. */
void keep_put_made(Writing *w, const Unit *u, const Code *code);
/* Of code that is linked. */
void keep_take_made(Taking *t, Code *code);

/* ---- gpu/keep_run.c: runs on a card ------------------------------------------------------------------------------------ */

struct DeviceRun;
void keep_put_run(Writing *w, const struct DeviceRun *r);
struct DeviceRun *keep_take_run(Taking *t);

#endif
