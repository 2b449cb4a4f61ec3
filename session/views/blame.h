/* Who changed the value: the first pass of a pipeline after which a program gives something else, has another type or takes longer, the
 * first rewrite inside that pass, and the smallest program that still shows it. The parameters of a function get random values by a seed;
 * the evaluator runs the program after each pass.
 * With engines in place of a pipeline the evaluator, on the program as written, is compared with the JIT. */
#ifndef SESSION_VIEWS_BLAME_H
#define SESSION_VIEWS_BLAME_H

#include "session/commands.h"

/* What the program is, and what is done with it. */
typedef struct BlameWish {
    Module *m; /* a definition with what it reaches, or an expression */
    const Name *entry; /* the definition; NULL: the expression */
    Str pipeline; /* empty: the engines are compared */
    bool time; /* how long compiled code takes is compared, not what it gives */
    uint64_t seed;
} BlameWish;

/* Finds it and shows it. */
void blame(RelaySession *s, const BlameWish *wish);

/* Time travel inside the last pass of the pipeline: a record with a step for each of its rewrites, with the result after it, and the first
 * after which that differs marked. Of passes that make their changes one by one. */
void rewrites(RelaySession *s, const BlameWish *wish);

#endif
