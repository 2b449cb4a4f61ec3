/* Where the value of each node of a graph belongs.
 *
 * A block is a stretch of straight-line code: the root itself, the body of a function literal, a branch of an `if`, a clause of a
 * `match`. The body of a `let` goes on in the block of the `let`. A node belongs to the innermost block that all its uses have in
 * common, and is evaluated there once, at the place of its first use. Where one asks for it, the body of each `let` is a block as well,
 * part of the stretch around it: then a node's block is also where all that its uses see is in scope.
 *
 *     Scopes s;
 *     if (scopes_init(&s, root))
 *         for (size_t i = 0; i < s.steps.n; i++)      // in the order of evaluation
 *             if (s.steps.at[i].event == SCOPE_DONE) use(s.steps.at[i].node->block);
 *     scopes_deinit(&s);
 *
 * Atoms (variables, globals, operators, constructors) have no value of their own to place and are not listed. A function literal
 * with the attribute Primitive is listed but not entered. Time and space are linear but for a logarithm in the depth of blocks. */
#ifndef PASSES_SCOPE_H
#define PASSES_SCOPE_H

#include "base/places.h"
#include "ir/module.h"

typedef struct Block Block;
struct Block {
    Block *parent;          /* NULL for the root's */
    Block *stretch;         /* itself, or for the body of a `let` the block that goes on there */
    Block *jump;            /* an ancestor further up, for the search of common ones */
    uint32_t depth;
    void *data;             /* the user's */
};

typedef struct ScopeNode {
    Expr *e;
    Block *block;           /* where it belongs */
    Block *
        inner; /* the blocks of its children that open one, in order: body; then, otherwise; clauses */
    bool spread; /* it is used in more than one stretch */
    void *data; /* the user's */
} ScopeNode;

typedef enum ScopeEvent {
    SCOPE_DONE, /* the node's children are done, it is its turn */
    SCOPE_BIND, /* the node is a `let`, whose value is done; its body follows */
} ScopeEvent;

typedef struct ScopeStep {
    ScopeNode *node;
    ScopeEvent event;
} ScopeStep;

typedef struct Scopes {
    Arena arena;
    Places nodes; /* Expr -> ScopeNode */
    Vec(ScopeStep) steps;
    Block root;
    bool lets_open; /* the bodies of `let`s are blocks */
} Scopes;

/* Looks at everything below `root` (for a function: at its body, as `root`). False when memory ran out: the limit was reached. */
bool scopes_init(Scopes *s, Ctx *cx, Expr *root);
bool scopes_init_with_lets(Scopes *s, Ctx *cx, Expr *root);
void scopes_deinit(Scopes *s);

/* What stands in `outer` itself is also in scope in b. */
bool block_encloses(Block *outer, Block *b);

bool expr_is_atom(const Expr *e);
/* NULL for an atom. */
ScopeNode *scopes_node(const Scopes *s, const Expr *e);

#endif
