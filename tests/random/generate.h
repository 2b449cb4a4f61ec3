/* Random well-typed programs, for tests.
 *
 * A program follows from its seed alone. Expressions are made for a wanted type: `make` picks one of
 * the rows of `forms` that can give a value of that type, and each row makes its parts the same way.
 * Calls of operators start from the samples of the operator's row, with other extents, element types
 * and attributes; op_type says what comes out, and whether the call is right at all. Programs end:
 * a recursive function counts down from at most 3, and only calls what was made before it.
 *
 *     Module *m = random_program(&cx, (RandomOptions){.seed = 7, .size = 60}, &stats); */
#ifndef TESTS_RANDOM_GENERATE_H
#define TESTS_RANDOM_GENERATE_H

#include "ir/ctx.h"
#include "ir/module.h"

typedef struct RandomOptions {
    uint64_t seed;
    int size; /* of a function: about so many nodes */
    bool data; /* of data types, functions and numbers rather than tensors */
    bool derivatives; /* with forms of derivatives, which are to be expanded (passes/forms.h) */
    /* Of functions of higher rank, which are used as less than they are, with few annotations and now and then as what they are not: types
     * may be refused. */
    bool higher;
} RandomOptions;

/* How often each form of expression, type and operator was made. */
typedef struct RandomStats {
    PtrMap forms, ops; /* name, operator -> count */
    PtrMap negative; /* operator -> how often its type had an extent below zero: a fault */
    size_t programs, nodes;
} RandomStats;

/* The caller's; without types. `stats` may be NULL. */
Module *random_program(Ctx *cx, RandomOptions options, RandomStats *stats);

/* Calls of each operator with symbolic extents for numbers (symbolic.c): what their types say must hold for every number
 * in the symbols' place. Prints what does not, and how many calls there were; the number of calls that are wrong. */
long check_symbolic(Ctx *cx, uint64_t seed);
/* Calls of each operator with a tensor expression (NULL), or of one, as kernels of a GPU (gpu.c): how many give other values than the
 * evaluator. */
long check_gpu(Ctx *cx, uint64_t seed, const char *only);

void stats_deinit(RandomStats *stats);
void stats_print(const RandomStats *stats);

#endif
