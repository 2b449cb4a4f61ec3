/* How large a pass that copies may make a program.
 *
 *     SizeBudget b = size_budget(run, old);
 *     if (!size_spend(&b, nodes)) leave the call as it is;
 *     size_report(&b, run, "calls");
 *
 * The parameter `size_most` of the pass gives the number of nodes; without it the size of the program decides, so that what is made
 * stays in proportion. What does not fit is left as it was, which is counted and told (W0603). */
#ifndef PASSES_BUDGET_H
#define PASSES_BUDGET_H

#include "passes/pass.h"

typedef struct SizeBudget {
    uint64_t most, made;
    uint64_t left; /* what did not fit */
} SizeBudget;

#define SIZE_MOST_PARAM                                                              \
    {"size_most", ATTR_TYPE_INT, .otherwise = {.kind = ATTR_INT}, .most = INT64_MAX, \
     .doc = "how many nodes it may make; 0: eight times the program's, and 65,536"}

/* The nodes below `root`, each once. */
uint64_t count_nodes(const Expr *root);
/* Whether there are no more of them, which takes no longer than to count so many. */
bool has_at_most(const Expr *root, uint64_t most);
SizeBudget size_budget(PassRun *run, const Module *old);
/* Whether so many nodes more fit; counts them. */
bool size_spend(SizeBudget *b, uint64_t nodes);
/* Says that something was left, where it was. */
void size_report(const SizeBudget *b, PassRun *run, const char *what);

#endif
