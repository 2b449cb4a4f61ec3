/* Type inference (types.md): fills the `type` slot of every node, once.
 *
 * What has a type already is trusted, so that checking a module again after a pass costs what the pass changed. Functions are inferred
 * in the order of dependence, callees first, the members of a cycle together. Several errors are reported in one run, each once; what
 * depends on an error has the poison type. */
#ifndef TYPECHECK_TYPECHECK_H
#define TYPECHECK_TYPECHECK_H

#include "base/table.h"
#include "ir/ctx.h"
#include "ir/module.h"

/* Infers the definitions and `expr` of a module in place. Globals are looked up in m, then in `env` (may be NULL), whose definitions
 * have types. False after diagnostics, and for a module that was broken when it was read. */
bool typecheck_module(Ctx *cx, Module *m, const Module *env);
/* What else is wanted of a run. */
typedef struct Story Story;
typedef struct CheckWish {
    Story *
        story; /* how it came to its types (story.h). What has types already has no story: infer a copy (ir_copy) */
    bool answers; /* a note, N0201, for each `_` in a type: what it turned out to be */
    /* If given, receives the nodes whose type nothing decides, Expr -> itself, in place of messages: the first of each, for what follows is
     * decided once these say theirs. */
    PtrMap *unsaid;
} CheckWish;
bool typecheck_module_as(Ctx *cx, Module *m, const Module *env, CheckWish wish);

/* The missing cases of a match, as text patterns, one a line, at most `most`; how many there are: none is claimed of one whose patterns are
 * ill-typed. For tests and `:explain`. */
size_t match_missing(Ctx *cx, const Match *match, size_t most, Buf *out);
/* What is missing as clauses that name what the fields are, with holes for what they give: `Nil => _, Cons(%x, %y) => _`. How many; 0:
 * nothing is missing, or too much to find and write down while somebody types. */
size_t match_clauses(Ctx *cx, const Match *match, const char *between, Buf *out);
/* Whether a value may be left for this clause of a match. */
bool match_takes(Ctx *cx, const Match *match, uint32_t clause);
/* `Cons(%x, %y)`, or a tuple where there is no constructor: n fields, each a variable that the text does not use yet. */
void pattern_sketch(Buf *out, const Constructor *con, uint32_t n, const Source *text);

#endif
