/* What the files of the checker share.
 *
 * A definition is inferred in one sweep over its nodes with a stack of tasks (infer.c). Types of nodes may hold holes meanwhile;
 * unification (unify.c) fills them, relations of operators wait for them (solve.c). When a cycle of definitions is done, every type
 * is resolved and what is still unknown reported (module.c). */
#ifndef TYPECHECK_INTERNAL_H
#define TYPECHECK_INTERNAL_H

#include "base/vec.h"
#include "ir/rel.h"
#include "typecheck/story.h"
#include "typecheck/typecheck.h"
#include "typecheck/why.h"

typedef Vec(const Type *) TypeVec;
typedef struct Checker Checker;
typedef struct Relation Relation;

/* Why a hole was made: how to speak of it when nothing fills it. The first ones are causes, the last ones mostly effects. */
typedef enum HoleOrigin {
    HOLE_PARAM, /* a parameter without annotation */
    HOLE_WRITTEN, /* `_` in an annotation */
    HOLE_VAR, /* a free variable without annotation */
    HOLE_TYPE_ARG, /* a type argument of a polymorphic callee or constructor */
    HOLE_PATTERN, /* a part of what a pattern takes apart */
    HOLE_RESULT, /* the result of a function */
    HOLE_CALL, /* the result of a call whose callee is not known */
    HOLE_OP, /* the result of an operator, a projection */
} HoleOrigin;

typedef struct RelationLink {
    Relation *relation;
    struct RelationLink *next;
} RelationLink;

/* How to speak of a hole. */
typedef struct HoleInfo {
    HoleOrigin origin;
    Span span;
    const char *name; /* of the parameter, the function, the type argument, the operator */
    const char *
        of; /* HOLE_TYPE_ARG: whose argument; HOLE_PATTERN: the variable that is matched, or NULL */
} HoleInfo;

typedef struct Hole {
    Type type; /* its `id` is the position in Checker.holes */
    uint32_t rank; /* of the tree of holes that are bound to it */
    HoleInfo info;
    RelationLink *first, *last; /* the relations that look at it */
    bool wanted; /* somewhere a value of its type is wanted: it cannot be bound to less */
} Hole;

/* What a constraint puts on one side: the expression in a slot, a node as it is declared, or what is written at a place. */
typedef struct Side {
    Expr *const *slot;
    const Expr *e;
    Span span;
    uint32_t
        part; /* 0: its type; else part - 1 of it: a function's argument, behind them its result */
    const Call *call; /* of which `part - 1` is a parameter; else NULL */
} Side;

/* Why two types must agree, in words, and where both come from. */
typedef struct Rule {
    const char *text;
    Side needed, found;
} Rule;

/* An operator's relation between types, or, without an operator, that of a projection: out = in.index. */
struct Relation {
    const Op *op;
    const Attrs *attrs;
    int64_t index;
    Span span;
    const Call *call; /* NULL: of an operator as a value, or a projection */
    uint32_t n;
    const Type **in; /* as given: with holes */
    const Type **now; /* as far as known, for the run */
    Span *in_spans;
    const Value *const
        *values; /* of arguments that are literals, else NULL entries; NULL: none is */
    const Type *out;
    uint32_t watched; /* types looked through for holes */
    bool queued, failed;
    bool told; /* in the story */
    Relation *next; /* in the queue */
};

/* Why the last unification failed: the innermost types that differ. */
typedef enum MisfitKind {
    MISFIT_TYPES,
    MISFIT_LESS, /* functions, of which the one that is found fits fewer types than the one that is needed */
    MISFIT_RANK,
    MISFIT_DIMS,
    MISFIT_DTYPE,
    MISFIT_ARITY,
    MISFIT_INFINITE,
    MISFIT_WORK
} MisfitKind;

#define MISFIT_PATH 8

typedef struct Misfit {
    MisfitKind kind;
    const Type *a, *b;
    /* The parts that lead to them, the innermost first; a function's result comes behind its arguments. */
    uint32_t path[MISFIT_PATH], n_path;
} Misfit;

/* Whose known types may become less precise when the other side is: `Tensor[(2)]` with `Tensor[(?)]` gives the latter. */
typedef enum Widen { WIDEN_BOTH, WIDEN_LEFT, WIDEN_NONE } Widen;

/* Where values go, which says whose type parameters may be chosen: a value that can be called at each type is also one that can be called
 * at a single one, and not the other way. */
typedef enum Flow {
    FLOW_TO_A, /* what is a b is used as an a */
    FLOW_TO_B,
    FLOW_JOIN, /* either is used as what comes out */
    FLOW_MEET, /* what comes out is used as either */
    FLOW_SAME, /* in both ways, as what a reference holds */
} Flow;

typedef enum TaskKind {
    TASK_VISIT, /* infer the node unless it has a type */
    TASK_LET_VALUE, /* the value of a let is done: type its variable */
    TASK_IF_COND,
    TASK_PATTERNS, /* the scrutinee is done: type the patterns */
    TASK_FINISH, /* all children are done */
} TaskKind;

typedef struct Task {
    Expr *e;
    TaskKind kind;
} Task;

/* A hole for a type that was written. */
typedef struct Written {
    const Type *hole, *written;
} Written;

/* Type arguments of a call, resolved at the end. */
typedef struct Instance {
    Call *call;
    Module *home;
    uint32_t n;
    const Type **types;
} Instance;

/* What a symbolic extent turned out to be. */
typedef struct DimBinding {
    Dim symbol, extent;
} DimBinding;

struct Checker {
    Vec(DimBinding) dims;
    Ctx *cx;
    Module *m;
    const Module *env;
    Module *
        home; /* of the definition in work: its arena receives type arguments, its uses have spans */
    Arena scratch;
    PtrMap functions; /* Function -> its type, from before its body is inferred */
    PtrMap
        checked; /* types that kind.c has seen: itself, or something else when it is an operator's or has one inside */
    PtrMap ill_matches; /* whose patterns do not fit their types: nothing more is said about them */
    Vec(Task) tasks;
    Vec(Expr *) open; /* nodes whose types have holes */
    Vec(Instance) instances;
    Vec(Written) asked; /* `_` */
    Vec(Written) operators; /* types of operators: which one it is, its use says */
    bool answers; /* are wanted */
    PtrMap *unsaid; /* nodes that do not say their types; NULL: they are errors */
    Vec(Hole *) holes;
    TypeVec
        blamed; /* types that errors were reported about: what stays open in them is not reported as well */
    Relation *queue_first, *queue_last;
    Span at; /* of the node in work, for relations that unification starts */
    size_t errors; /* before the definitions in work */
    bool
        polymorphic; /* types of polymorphic functions were more than called: what was found is looked at once more (proof.c) */
    const Match *match; /* whose patterns are in work */
    Misfit misfit;
    Rule rule; /* of the last unify_by */
    const Expr *root; /* of the definition in work */
    Why why; /* begun when the first error about the definition is explained */
    const Expr *why_root;
    Story *story; /* NULL: nobody wants to know */
    uint64_t work; /* of the current unification */
    uint32_t depth;
    Flow flow;
    bool lessened; /* type parameters were chosen */
    bool in_own; /* a lies in what a hole of the call in work is bound to */
    /* From which on holes are of the call in work: what they are bound to may become less as long as nobody wants it. */
    size_t own_holes;
    PtrMap holders; /* what def_only_holds found */
};

/* ---- unify.c ------------------------------------------------------------------------------------------------------- */

const Type *hole_new(Checker *ck, HoleInfo info);
/* The own record of a hole; NULL when the type is no hole of this checker. */
Hole *hole_of(const Checker *ck, const Type *t);
/* The holes without a type inside t, each once. */
TypeVec holes_inside(Checker *ck, const Type *t);
void hole_bind(Checker *ck, const Type *hole, const Type *t);
/* Makes every hole inside the poison type. */
void holes_poison(Checker *ck, const Type *t);

/* Whether two extents agree, and what both are. */
bool unify_dim(Dim a, Dim b, Dim *out);
/* The type that both are, as precise as both allow, where values go as `flow` says; NULL when there is none (then `misfit` says why, nothing
 * is reported). */
const Type *unify(Checker *ck, const Type *a, const Type *b, Widen widen, Flow flow);
/* The same for a reason, which the story tells and a message about the failure shows. */
const Type *unify_by(Checker *ck, Rule rule, const Type *a, const Type *b, Widen widen, Flow flow);
/* What to do where a function is of fewer types than the one that is needed, or of more and may not be. Both are function types. */
void help_less(Diag *d, const Type *needed, const Type *found);
/* E0201 at the span for the last failure. `what` names what has type `found`: "the condition"; `needed` comes after "expected". */
Diag *report_misfit(Checker *ck, Span span, const char *what, const Type *found,
                    const Type *needed);
/* Two definitions of one name print alike: says so, and what to do. False for others. */
bool note_type_namesakes(Diag *d, const TypeDef *needed, const TypeDef *found);
/* Names the constructors of the data type. */
void help_constructors(Diag *d, const TypeDef *def);
/* A polymorphic function type with holes for its parameters, which `holes` (room for n_params, may be NULL) receives; other types as
 * they are. */
const Type *instantiate(Checker *ck, const Type *f, HoleInfo info, const Type **holes);

/* ---- solve.c ------------------------------------------------------------------------------------------------------- */

/* The result's type of an operator on these types. The arrays are the relation's from now on. */
const Type *relation_apply(Checker *ck, const Call *call, const Op *op, const Type **in,
                           Span *in_spans);
const Type *relation_project(Checker *ck, const Type *tuple, int64_t index, Span span,
                             Span tuple_span);
/* Something that relations of the hole see has changed. */
void relations_wake(Checker *ck, Hole *hole);
/* The relations of `from` look at every open hole inside t as well. */
void relations_follow(Checker *ck, Hole *from, const Type *t);
void solve(Checker *ck);
/* A function type for an operator as a value, polymorphic in its arguments and its result. */
const Type *type_of_op(Ctx *cx, const Op *op);
/* The relation behind the type of an operator as a value, between these types; nothing for other functions' variables. */
void relation_of_params(Checker *ck, const Type *f, const Type *const *with);

/* ---- story.c: what is recorded; each does nothing without a story ---------------------------------------------------- */

/* True when an event begins here: constraints until story_end are a part of it. */
bool story_begin(Checker *ck);
void story_bound(Checker *ck, const Type *hole);
/* Adds the event with what was decided since its beginning. */
void story_end(Checker *ck, StoryEvent e);
/* Text that lives as long as the story. */
const char *story_text(Checker *ck, const char *format, ...) __attribute__((format(printf, 2, 3)));
StoryPlace story_side(Checker *ck, Side side, const Type *t);
void story_unknown(Checker *ck, const Type *hole, HoleInfo info);
void story_instance(Checker *ck, const char *whole, HoleInfo info, uint32_t n,
                    const TypeVar *const *params, const Type *const *with);
void story_unsolved(Checker *ck, const Type *hole, HoleInfo info);
/* The last event failed, and this was reported about it. */
void story_failed(Checker *ck, const Diag *d);

/* ---- blame.c ---------------------------------------------------------------------------------------------------------- */

/* Where both sides of the last failed unification come from, as notes and labels. */
void blame_misfit(Checker *ck, Diag *d);
/* Where the operands come from that a relation cannot take; the place of a message about an attribute is the attribute. */
void blame_relation(Checker *ck, const Relation *r, Diag *d);
/* The place of a side. */
Span side_span(const Checker *ck, Side side);

/* ---- infer.c, call.c ---------------------------------------------------------------------------------------------- */

void infer(Checker *ck, Expr *root);
/* A limit was hit, or no further error would be shown: what has no type yet gets none. */
bool checker_ends(Checker *ck);
void set_type(Checker *ck, Expr *e, const Type *t);
/* The type of a function before its body is known; it is made once. */
const Type *function_begin(Checker *ck, Function *fn, const char *name, Span span);
const Type *infer_call(Checker *ck, Call *call);
/* The constructor's data type with these arguments, or with holes when `args` is NULL. */
const Type *infer_constructor(Checker *ck, const Constructor *con, Span span, const Type **args);

/* ---- match.c ------------------------------------------------------------------------------------------------------- */

void infer_patterns(Checker *ck, Match *match);

/* ---- cover.c ------------------------------------------------------------------------------------------------------- */

/* E0209 for missing cases, W0201 for clauses that can never match. */
void match_check(Checker *ck, Match *match);

/* ---- proof.c -------------------------------------------------------------------------------------------------------- */

/* Looks at a finished definition once more: E0215 where a type mentions a type parameter that is not known there, E0201 where a value is used
 * as what it is not. The latter is not asked where something has been reported about it. */
void check_proof(Checker *ck, const Expr *root);

/* ---- kind.c -------------------------------------------------------------------------------------------------------- */

/* A written type: its data types are applied to the right number of arguments; each `_` becomes a hole. The poison type after a
 * diagnostic. */
const Type *written_type(Checker *ck, const Type *t, HoleInfo info);
/* The fields of a data type's constructors. */
void check_typedef(Checker *ck, const TypeDef *def);

#endif
