/* Where the variables of a function in A normal form are used for the last time.
 *
 * A block is a chain of lets and the atom behind it; branches are blocks of their own. Positions count the lets of a block from 0; the
 * atom has the last one. A variable dies at its last position in the block that binds it; when that is an `if` or `match`, each branch
 * ends it: a branch that uses it at its own last position, the others at their start. */
#ifndef JIT_LIVE_H
#define JIT_LIVE_H

#include "base/vec.h"
#include "ir/module.h"

typedef struct LiveBlock LiveBlock;

struct LiveBlock {
    LiveBlock *parent;
    uint32_t parent_at;             /* the position of the `if` or `match` */
    uint32_t depth;
    Expr *body;
    PtrMap last;                    /* Var -> position + 1 */
    Vec(LiveBlock *) inner;         /* in order of position */
    uint32_t next;                  /* of `inner`: for whoever walks the blocks in order */
    bool calls;                     /* functions, on most ways through it */
};

typedef struct Live {
    LiveBlock *root;
    PtrMap binder;                  /* Var -> LiveBlock */
    PtrMap groups; /* variables that are groups of operators: calling them is no call */
    PtrMap parts; /* variables that are parts of a larger function */
    bool calls; /* calls functions other than parts, in whatever position */
    bool nests; /* calls functions that it must come back from */
    uint32_t copies; /* of itself, one in the other, that may stand where it calls itself */
    uint32_t size; /* lets and blocks */
} Live;

/* `captured` are the variables that a function literal takes from outside, `parts` those of its own parts that are bound there. The
 * maps are freed with the arena. */
Live *live_make(Arena *arena, const Function *fn, uint32_t n, Var *const *captured,
                uint32_t n_parts, const Var *const *parts);

/* Whether the function is a group of operators for one kernel: nothing else is in it, and it takes nothing from outside. */
bool live_is_group(const Function *fn);

/* The position's variables belong to `block` (bound there, or handed down by the branch). */
bool live_owned(const Live *live, const LiveBlock *block, const Var *v);
/* This is the last use on this path. */
bool live_is_last(const Live *live, const LiveBlock *block, uint32_t at, const Var *v);
/* Used after this position on this path, or owned further up. */
bool live_after(const Live *live, const LiveBlock *block, uint32_t at, const Var *v);
/* Begins again with the first inner block everywhere. */
void live_rewind(LiveBlock *block);

/* The value of a let stands in tail position: the let's body is its own variable. */
static inline bool let_is_last(const Let *let)
{
    return let->body == &let->var->base;
}

#endif
