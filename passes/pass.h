/* Passes: a row each, one driver.
 *
 * The driver owns what is common: order and requirements, opt_level, enabling and disabling, parameters, timing, printing, diffs,
 * verification. A pass takes a module and returns a new one; it prints nothing and changes nothing. */
#ifndef PASSES_PASS_H
#define PASSES_PASS_H

#include "ir/ctx.h"
#include "ir/module.h"
#include "ir/walk.h"

typedef struct Pass Pass;

/* A kind of decision that a pass takes. In `says`, {at}, {with} and {made} are the nodes of the event, {a} and {b} its words. */
typedef struct PassRule {
    const char *name; /* "joins" */
    const char *says;
} PassRule;

/* One decision. Nodes are of the module before the pass, but for `made`; what is NULL is not there. */
typedef struct PassEvent {
    const char *pass;
    const PassRule *rule;
    const Expr *at, *with, *made;
    const char *a, *b;
} PassEvent;

enum { OPT_LEVEL_MOST = 5 };

/* Before which calls values with effects are bound by `let`s, in the order of evaluation (passes/order.h), since the pass moves operands. */
typedef enum PassOrder {
    ORDER_NONE,
    ORDER_CALLEES, /* of what has an effect itself */
    ORDER_SEVERAL, /* of operators, where several operands have one, and fields of such tuples */
    ORDER_ALL, /* the same, where any has one */
} PassOrder;

/* What a pass may read: its parameters in the schema's order, and the context of the pipeline. */
typedef struct PassContext {
    Ctx *cx;
    int opt_level; /* -O; default 2 */
    bool any_level; /* nobody gave the level: what the pipeline names runs */
    const char *disable; /* "A,B" or NULL */
    const char *require; /* likewise */
    const Attrs *config; /* relay.FuseOps.max_depth and the like; NULL: none */
    const Module *env; /* where globals that the module does not define are found; NULL: none */
    const Name *meant; /* what a pass on @main works on instead; NULL: @main */
    bool typed_prints; /* print snapshots with types */
    bool exact; /* passes after which results may round otherwise do not run */
    bool written; /* the pipeline stands in a program, which names no file */
    bool for_card; /* a card runs it: images stay planes, and attention is one group */
    bool
        for_code; /* what comes out is compiled here: groups are made for that, beyond the rules of the original */
    uint64_t *
        rewrites; /* so many more changes are made, by every pass in an order of its own; NULL: all */
    /* Called after each pass with the module as it is now; NULL: nobody looks. The module is lent. */
    void (*after)(void *data, const char *pass, double seconds, const Module *before,
                  const Module *now);
    /* Called for each decision of a pass that has rules; what the event leads to is lent. NULL: nobody listens. */
    void (*decided)(void *data, const PassEvent *event);
    void *data;
} PassContext;

typedef struct PassRun {
    PassContext *context;
    Ctx *cx;
    const Pass *pass;
    const Attrs *params; /* NULL when the pass has none */
    Span where; /* of its name in the pipeline */
    Module *module; /* the new snapshot that the pass fills */
    Arena scratch; /* reset after the pass */
    PtrMap purity; /* of what functions call: Purity.known, of all functions */
} PassRun;

struct Pass {
    const char *name; /* "FuseOps" */
    const char *doc;
    int opt_level;
    bool needs_types; /* InferType runs before it */
    bool reorders; /* results may round otherwise afterwards */
    bool other_values; /* programs compute something else afterwards: a gradient, a rounded value */
    PassOrder order; /* of a pass on functions */
    const OpAttr *params; /* NULL: none */
    const PassRule *rules; /* of the decisions that it tells, ends with {0}; NULL: it tells none */
    const char
        *before; /* passes that run first, whatever the level: "CanonicalizeOps"; NULL: none */
    /* One of four: */
    const char *parts; /* a pipeline that stands for it */
    Function *(*function)(
        PassRun *run,
        const Def *def); /* every function that is not skipped; NULL after a diagnostic */
    RewriteFn *rewrite; /* the same, node by node; data is the PassRun */
    bool (*module)(PassRun *run, Module *old); /* fills run->module (made by module_derive) */
};

/* Tells a decision, where somebody listens. */
static inline void pass_decides(const PassRun *run, PassEvent event)
{
    event.pass = run->pass->name;
    if (run->context->decided)
        run->context->decided(run->context->data, &event);
}

/* Whether no more changes are to be made (PassContext.rewrites). */
static inline bool pass_is_done(const PassRun *run)
{
    return run->context->rewrites && !*run->context->rewrites;
}

/* Counts a change, of passes that decide what to change before they do, and tells whether it may be made; what they say of it they say
 * before. A pass that counts nothing, and whose rewriter does not, makes its changes to a definition in one piece. */
static inline bool pass_may_change(const PassRun *run)
{
    if (pass_is_done(run))
        return false;
    if (run->context->rewrites)
        --*run->context->rewrites;
    return true;
}

/* A rewriter whose replacements are counted, and told where the pass has no rules: for callbacks that look at each node by itself. */
void pass_rewriter_init(Rewriter *rw, PassRun *run, RewriteFn *fn, void *data);

/* The passes, in the order of passes.def; ends with NULL. */
extern const Pass *const passes[];
const Pass *pass_find(Str name);
/* What is a pass of the original and none here, and why; ends with a NULL name. */
typedef struct PassAbsent {
    const char *name, *why;
} PassAbsent;
extern const PassAbsent passes_absent[];
/* The context's configuration from what was written; NULL after a diagnostic. */
const Attrs *pass_config(Ctx *cx, Arena *arena, const Attrs *written);
/* Functions for other compilers, and those that asked for it (SkipOptimization), stay as they are. */
bool function_is_skipped(const Function *f);
/* What a pass needs before or behind its own work: the passes of the text on `m`, whatever the level, unseen and uncounted. The module
 * is the caller's; NULL after a diagnostic. */
Module *pass_run_inner(PassRun *run, Module *m, const char *pipeline);
/* A part of the pass as a row, which need not be in the list; its changes are counted. */
Module *pass_run_row(PassRun *run, Module *m, const Pass *row);
/* Fills run->module with what `now`, made from run's module, defines. */
void pass_take(PassRun *run, Module *now);

/* Passes that work on functions, named in a list that ends with NULL, on a typed expression of `m`, which receives the nodes. What it
 * gives is to be checked again. NULL after a diagnostic. */
Expr *passes_on_expr(PassContext *pc, Module *m, Expr *e, const char *const *names);

/* Whether a list "A,B" (NULL: an empty one) names passes only; reports those that there are not, with the option they stand in. */
bool passes_known(Ctx *cx, const char *option, const char *list);
/* Runs a pipeline: `InferType,FoldConstant,FuseOps{fuse_opt_level=2}`, `-O2`, which also sets the level for its passes. Returns a new module, typed, the caller's; NULL after
 * diagnostics at `where` (the pipeline's text in a source). `m` is lent. A pass that is named
 * there and stands above the context's opt_level is left out with the warning W0602; those behind -O2 are left out in silence. */
Module *passes_run(PassContext *pc, Module *m, uint32_t pipeline_source);
/* The same for a text that is no source of its own. */
Module *passes_run_text(PassContext *pc, Module *m, const char *pipeline);

/* What runs before code is made: the default pipeline at the context's level, and what else makes good code; every definition stays. Of
 * the context the level, `exact`, `for_card`, `env` and who listens count. The result is the caller's; NULL after a diagnostic. */
Module *passes_run_for_code(PassContext *pc, Module *m);

/* The pipeline behind -O0 … -O3, as text. */
const char *passes_default(int level);

#endif
