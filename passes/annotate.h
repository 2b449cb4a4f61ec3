/* Regions of a program that other compilers are given, and the marks on their borders.
 *
 * `annotation.compiler_begin(%x, compiler="acc")` is a value that enters a region, `annotation.compiler_end(%y, compiler="acc")`
 * one that leaves it. A region is all that hangs together between such marks: a call whose arguments enter or stand in a region
 * stands in it as well. All of it lies in one block, so that it is evaluated together. AnnotateTarget makes marks,
 * MergeCompilerRegions takes those between regions of one target away, and PartitionGraph makes functions of regions. */
#ifndef PASSES_ANNOTATE_H
#define PASSES_ANNOTATE_H

#include "passes/pass.h"
#include "passes/scope.h"

/* The target of what nobody supports. */
#define ANNOTATE_DEFAULT "default"

typedef enum Mark { MARK_NONE, MARK_BEGIN, MARK_END } Mark;

/* Whether e is a mark; `target` may be NULL. */
Mark annotate_mark(const Expr *e, Str *target);
/* e behind a new mark, with its type. */
Expr *annotate_with(PassRun *run, Mark mark, Expr *e, Str target);

/* Marks, in a list that can be put behind another. */
typedef struct MarkList MarkList;
struct MarkList {
    const Call *mark;
    MarkList *next;
};

typedef struct Region Region;
struct Region {
    uint32_t id;
    Str target;
    Region *into; /* what it was merged into; NULL: it stands */
    Block *block; /* NULL while it has but marks */
    MarkList *ins, *last_in; /* the marks that begin it; some may have become inner ones */
    MarkList *outs, *last_out; /* those that end it */
    void *data; /* the pass's */
};

typedef struct Regions {
    PassRun *run;
    Scopes scopes;
    PtrMap of; /* node -> Region, perhaps merged */
    Vec(Region *) all; /* by id */
    Vec(const Expr *) order; /* all nodes, operands first */
    bool failed;
} Regions;

/* Finds the regions of a function; false after a diagnostic. The lists lie in the run's scratch. */
bool regions_init(Regions *r, PassRun *run, const Function *f);
void regions_deinit(Regions *r);
/* The region in which e stands; NULL: none. */
Region *regions_of(const Regions *r, const Expr *e);
/* Whether they are one target's and lie in one block. */
bool regions_fit(const Region *a, const Region *b);
/* Puts what is in `from` behind what is in `into`. */
void regions_merge(Region *from, Region *into);

#endif
