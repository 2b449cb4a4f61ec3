/* What must hold of every well-typed program. */
#ifndef TESTS_RANDOM_EXAMINE_H
#define TESTS_RANDOM_EXAMINE_H

#include "interp/interp.h"
#include "ir/module.h"
#include "jit/jit.h"

#define PASSES_MOST 16

typedef struct Examiner {
    Ctx cx;
    Interp *interp;
    const JitTable *jit_table; /* NULL: values are not compared with the JIT's */
    Jit *jit;
    const char *passes[PASSES_MOST]; /* pipelines, one after the other */
    size_t n_passes;
    bool compiled; /* the last program was, and gave the same value */
    bool valued; /* it has a value */
    bool fails; /* it ran, and has none */
    bool may_refuse; /* types of the program may be refused */
    bool passed; /* what is examined went through a pass */
    bool metadata; /* its text has some */
    bool narrow; /* it has floats of 16 bits, which code may keep in more where it fuses */
    bool differs; /* the property that failed is a value's */
    bool
        exact; /* what is compared is computed so: other orders may give other values (docs/language.md) */
    size_t exactly; /* programs that were compared so */
    size_t refused; /* programs with a derivative that there is not, or whose types were refused */
    size_t lost; /* texts behind a pass that lack an annotation to be typed again */
    size_t went; /* pipelines that programs went through */
    Buf what; /* about the property that failed */
} Examiner;

bool examiner_init(Examiner *x, const JitTable *jit_table);
/* False when objects of the programs are left behind, or were let go of twice. */
bool examiner_deinit(Examiner *x);

/* The first property that the module lacks, in few words; NULL when it has all. The module gets its types. */
const char *examine(Examiner *x, Module *m);

/* Whether a program, which gets metadata by the seed (metadata.h), has the same text, metadata and all, when it went from its text
 * through a saved graph; what does not hold, or NULL. */
const char *examine_graph(Examiner *x, Module *m, uint64_t seed);

/* The same program entered in sessions cell by cell, behind the cells of the other program too, on both engines; what does not hold, or
 * NULL. */
const char *examine_cells(Examiner *x, Module *m, Module *other, bool jit);

/* Whether a program's text with one mistake, made by the seed, is refused at a place in it; false: `what` says why not. `*made` false: the
 * text had no place for the mistake. */
bool examine_mistake(Examiner *x, const Module *m, uint64_t seed, bool *made);

/* Leaves out pipelines without which `examine` says the same. */
void shrink_passes(Examiner *x, Module *m, const char *property);
/* A smaller module of which `examine` says the same; the caller's. */
Module *shrink(Examiner *x, Module *m, const char *property);

#endif
