/* Walking and rewriting, for every pass. No visitors of one's own.
 *
 * Both know the fields of each node from nodes.def, keep a stack of their own, visit a shared node once, and follow long `let` chains
 * and graphs ten thousand deep without using the C stack. Children come in the order of the fields, which is the order of evaluation;
 * binders and patterns are visited as part of their owner (see WalkFn). */
#ifndef IR_WALK_H
#define IR_WALK_H

#include "base/places.h"
#include "ir/module.h"

typedef enum { WALK_ON, WALK_SKIP, WALK_STOP } WalkNext;
typedef WalkNext WalkFn(void *data, const Expr *e);

/* Visits each node below `root` once, binders included; `before` may skip the children (then `after` is not called) or stop. Either
 * function may be NULL. True unless stopped. */
bool ir_walk(const Expr *root, WalkFn *before, WalkFn *after, void *data);

/* Calls `child` with the address of each slot that holds a child of e, in order. Binders are not children; clause bodies are. */
void ir_children(const Expr *e, void (*child)(void *data, Expr *const *slot), void *data);
/* Calls `found` with each variable that e itself binds: parameters, a let's variable, the variables of patterns. */
void ir_binders(const Expr *e, void (*found)(void *data, Var *v), void *data);

typedef struct Rewriter Rewriter;
typedef Expr *RewriteFn(Rewriter *rw, const Expr *old, Expr *now);

struct Rewriter {
    Ctx *cx;
    Module *module; /* receives the new nodes and the noted uses */
    RewriteFn *fn;
    void *data;
    Places done; /* old node -> new node */
    Arena memory; /* of `done` */
    /* Optional: called before the children; returns true (and the replacement) when the node must not be entered. */
    bool (*enter)(Rewriter *rw, const Expr *old, Expr **now);
    bool copying; /* every node is made anew, changed or not */
    uint64_t *
        most; /* so many more nodes are replaced, and the others stay; NULL: as many as there are */
    /* Called with each node that the callback puts something else in place of; NULL: nobody looks. */
    void (*replaced)(void *watcher, const Expr *old, const Expr *made);
    void *watcher;
    bool failed;
};

/* Rebuilds `root` bottom up. The callback gets the old node and the same node over rewritten children, and returns what should
 * stand there: `now` to keep it, NULL after reporting. Unchanged nodes stay the same pointer and keep their types; a changed one starts
 * without. A Var whose node is replaced by the callback is replaced at its uses and, when the replacement is a Var, at its binder.
 * The map stays between calls, so that what several functions share is rewritten once. NULL after a diagnostic, or where a limit
 * is hit. */
void rewriter_init(Rewriter *rw, Ctx *cx, Module *module, RewriteFn *fn, void *data);
void rewriter_deinit(Rewriter *rw);
/* What came of a node; NULL when it was not met. */
Expr *rewriter_now(const Rewriter *rw, const void *old);
/* Says what comes of a node before it is met, which then is not entered. */
void rewriter_put(Rewriter *rw, const void *old, void *now);
Expr *ir_rewrite(Rewriter *rw, Expr *root);

/* Every definition of `m` rewritten, as a new module: what most passes are. NULL after a diagnostic. */
Module *ir_rewrite_module(Ctx *cx, Module *m, RewriteFn *fn, void *data);

/* A copy with fresh nodes and fresh bound variables (free ones stay) and without types: for inlining, and for checking again. */
Expr *ir_copy(Ctx *cx, Module *module, const Expr *root);

/* Replaces variables by expressions; `map` goes from Var to Expr. */
Expr *ir_substitute(Ctx *cx, Module *module, Expr *root, const PtrMap *map);

/* Calls `found` once with each free variable of e, in order of first use. */
void ir_free_vars(const Expr *e, void (*found)(void *data, Var *v), void *data);
/* Puts each of them into the set, a map of which nobody needs the values. */
void ir_free_set(const Expr *e, PtrMap *set);

#endif
