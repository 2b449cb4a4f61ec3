/* Definitions that are hot: somebody else may have code for them.
 *
 * What a definition has done is counted in steps of the evaluator and elements that its operators computed, for each choice of its type
 * parameters. Time plays no part in it, so the same cells make the same calls run on the same engine, and give the same bits. At the
 * first count code is wanted, and may be made beside; from the second on calls of the definition are somebody else's, who is waited for.
 * Nothing is counted while somebody watches the steps. */
#ifndef INTERP_TIER_H
#define INTERP_TIER_H

#include "interp/interp.h"

/* A definition at types for its parameters. */
typedef struct HotDef {
    Module *env; /* where it is found */
    const Name *name;
    uint32_t n_types;
    const Type *const *types;
} HotDef;

typedef struct Tier {
    /* Code will be wanted; NULL when there can be none. */
    void *(*begin)(void *data, const HotDef *hot);
    /* Calls go to this code from now on. When it was made for other definitions than there are in `hot->env`, it is made again. NULL,
     * and then it is gone, when it cannot be made or after a diagnostic. */
    void *(*take)(void *data, const HotDef *hot, void *code);
    /* Arguments are taken; VALUE_NONE after a diagnostic. */
    Value (*call)(void *data, void *code, uint32_t n, const Value *args, Span span);
    void (*drop)(void *data, void *code);
    void *data;
} Tier;

/* The tier is lent for the evaluator's life; evaluations ask it while it is on. */
void interp_set_tier(Interp *in, const Tier *tier);
/* The counts at which code is wanted and at which calls go to it. */
void interp_tier_counts(Interp *in, uint64_t begin, uint64_t take);
/* Returns whether it was. */
bool interp_tier_on(Interp *in, bool on);
/* Making code takes as long as some hundred thousand steps. */
#define TIER_BEGIN ((uint64_t)20000)
#define TIER_TAKE ((uint64_t)200000)

/* Code that was taken was made for settings that have changed. */
void interp_tier_renew(Interp *in);

#endif
