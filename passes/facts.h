/* Facts about programs that several passes ask for. */
#ifndef PASSES_FACTS_H
#define PASSES_FACTS_H

#include "base/places.h"
#include "ir/walk.h"

/* What evaluating has no effect and depends on none (passes.md section 5.6). */
typedef struct Purity {
    const Module *module, *env;     /* where globals are found; env may be NULL */
    const Expr *root; /* NULL: its `let`s are in `values` */
    PtrMap values; /* ask purity_value: Var of a `let` -> what it is bound to */
    PtrMap
        known; /* what is called, a global by its name -> NULL, or something if that may have an effect */
    const Expr *whole; /* NULL: its literals are in `ties` */
    PtrMap ties; /* ask purity_of: function literal -> a LiteralTie; others have none */
} Purity;

/* What a function literal uses of a graph that is used around it too: it is evaluated there, before the literal. */
typedef enum LiteralTie {
    TIE_HELD = 1, /* a value with references or closures in it, of which a copy is another one */
    TIE_EFFECT, /* a value with an effect */
} LiteralTie;

/* What the `let`s of `root` bind is learned when it is first asked. */
void purity_init(Purity *p, const Module *module, const Module *env, const Expr *root);
void purity_deinit(Purity *p);
/* What a `let` of the root binds the variable to; NULL: none does. */
const Expr *purity_value(Purity *p, const Expr *var);
/* Evaluating e neither reads nor writes a reference, and calls nothing unknown. A function literal is pure, whatever its body does, unless
 * what it shares with the places around it has an effect. */
bool purity_of(Purity *p, const Expr *e);
/* Neither does calling what e gives. */
bool purity_of_call(Purity *p, const Expr *callee);
/* Whether a copy of the literal, a part of the root, does what it does. */
bool purity_copyable(Purity *p, const Expr *literal);
/* Nobody can tell where and how often e is evaluated: it is pure, and its value holds no reference and no closure over one. */
bool purity_movable(Purity *p, const Expr *e);

/* What cannot stop with an error: it may be left out where nobody asks for its value, or computed where it was not. LLVM calls it speculatable. */
typedef struct Totality {
    Ctx *cx;
    bool data; /* constructors and function literals count as operators do */
    PtrMap weighed; /* Expr -> this, or NULL when it may fail or holds more than operators */
    bool partial; /* what is weighed is such */
} Totality;

void totality_deinit(Totality *t);
/* Operators alone compute the typed expression, of which none can fail, or it is a constant; with `data` also a variable or a name. */
bool total_of(Totality *t, const Expr *e);

/* What does not say its type, such as `Nil`: it stands where something else does, be it the variable that it is bound to. */
typedef struct Vagueness {
    Ctx *cx;
    const Module *module, *env; /* where globals are found; env may be NULL */
    PtrMap looked; /* Expr -> itself when it is vague, else NULL */
    bool vague;
} Vagueness;

void vagueness_deinit(Vagueness *v);
bool vague_of(Vagueness *v, const Expr *e);

/* Notes what the `let`s of root bind: Var -> its value. */
void note_lets(const Expr *root, PtrMap *values);
/* The definition of the name in the module, else in `env` (may be NULL); NULL where neither has one with a body. */
const Def *find_global(const Module *module, const Module *env, const Name *name);

/* The uses of each node below root: node -> number. What was there is forgotten; the memory is the arena's. */
void count_uses(const Expr *root, Arena *arena, Places *uses);
uintptr_t times_used(const Places *uses, const Expr *e);

/* Whether the call can be part of a kernel: its operator says each element by an expression, over not too many tensors. */
bool call_has_elements(const Call *call);

/* Notes the name of every function that something in the module names, itself perhaps: name -> NULL. */
void note_named(const Module *m, PtrMap *named);

/* For a rewriter's `enter`: what became a kernel stays as it is. */
bool enter_past_kernel(Rewriter *rw, const Expr *old, Expr **now);

#endif
