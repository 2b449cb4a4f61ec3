/* What the statements of a nest touch. */
#ifndef LOOP_ACCESS_H
#define LOOP_ACCESS_H

#include "loop/nest.h"

typedef struct NestAccess {
    NestNode *node; /* the statement */
    int buffer;
    bool writes;
    bool linear; /* `at` says where; else anywhere */
    bool word; /* one of the bytes of a word */
    NestLinear at;
} NestAccess;

typedef Vec(NestAccess) NestAccesses;

/* `found` is told each of the node and below. */
void nest_each_access(Nest *n, NestNode *node, void (*found)(void *data, const NestAccess *a),
                      void *data);
/* The same, all of them: they are large, and who looks at each once does better without. */
NestAccesses nest_accesses(Nest *n, NestNode *node);
/* Those of one buffer. */
NestAccesses nest_accesses_of(Nest *n, NestNode *node, int buffer);
/* The loop of a variable around the node, itself included; NULL: none. */
const NestNode *nest_loop_of(const NestNode *node, int var);
/* The least and the greatest value of the terms whose loops `inside` holds, of loops around `node`. */
void nest_range(const NestLinear *l, const NestNode *node, const NestNode *inside, int64_t *low,
                int64_t *high);
/* Whether the buffer exists anew for each iteration of the loop. */
bool nest_is_private(const Nest *n, int buffer, const NestNode *loop);

#endif
