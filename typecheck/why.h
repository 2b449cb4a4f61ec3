/* Where a type came from: for each part of it (an extent, the number of dimensions, the element type) the places of the source that
 * decided it.
 *
 * Nothing is recorded for this while types are inferred, and no operator says anything about it. A question is followed backwards
 * through the nodes, down to literals, annotations and attributes. At the call of an operator its relation is run again with one
 * thing changed at a time, an extent of an operand or a value of an attribute: what changes the part that was asked for is where
 * that part comes from.
 *
 *     Why w;
 *     why_init(&w, cx, m, env);
 *     why_add(&w, root);
 *     WhySource sources[4];
 *     size_t n = why_part(&w, e, (Part){.kind = PART_DIM, .dim = 1}, sources, 4);
 *     why_deinit(&w);
 */
#ifndef TYPECHECK_WHY_H
#define TYPECHECK_WHY_H

#include "base/vec.h"
#include "ir/ctx.h"
#include "ir/module.h"

typedef enum PartKind { PART_DIM, PART_RANK, PART_DTYPE, PART_WHOLE } PartKind;

#define PART_PATH 8

/* A part of a type. The path leads to the inner type that is meant: fields of tuples, arguments of data types and of functions (the
 * result comes behind them), the content of a reference. */
typedef struct Part {
    PartKind kind;
    uint32_t dim; /* PART_DIM */
    uint32_t n;
    uint32_t path[PART_PATH];
} Part;

/* What decided a part: a place, and in words why. */
typedef struct WhySource {
    Span span;
    const char *text; /* "`%w` is declared so" */
    const Expr **through; /* the calls on the way, from the question on */
    uint32_t n_through;
} WhySource;

typedef struct WhyStep {
    const Expr *e;
    Part part;
    uint32_t from; /* the step that led here; its own number for the first */
    uint32_t older; /* another about the same expression, from 1; 0: none */
} WhyStep;

typedef struct Why {
    Ctx *cx;
    const Module *m, *env;
    Arena arena;
    Diags silent; /* what relations report that run for a question */
    PtrMap binders; /* Var -> Binder */
    PtrMap roots; /* what why_add has seen */
    Vec(const Call *) calls;
    Vec(const Let *) aliases; /* `let %y: T = %x` */
    Vec(WhyStep) steps; /* of the question in work */
    PtrMap asked; /* expression -> the newest of them about it, from 1 */
    WhySource *out;
    size_t n_out, most;
} Why;

/* Globals are looked up in m, then in env; both may be NULL. */
void why_init(Why *w, Ctx *cx, const Module *m, const Module *env);
void why_deinit(Why *w);
/* What is bound inside can be followed. */
void why_add(Why *w, const Expr *root);
/* The sources of a part of e's type, at most `most`; texts live as long as w. */
size_t why_part(Why *w, const Expr *e, Part part, WhySource *out, size_t most);

/* Why parameter `i` of a call wants what it wants: its own type says so or, where a type variable stands, the argument in front of it that
 * decided the variable. */
size_t why_parameter(Why *w, const Call *call, uint32_t i, Part part, WhySource *out, size_t most);

/* The inner type that the part is about; NULL when the type has no such part. */
const Type *part_type(const Type *t, const Part *part);
/* `part` inside field `i` of something: the path grows at its front. False when it is too long. */
bool part_inside(Part *part, uint32_t i);

/* "(line 4)" for a place; the name of the source too where it is not that of `near`. */
void why_print_place(Buf *b, Ctx *cx, Span at, Span near);
/* "`%x` is declared so (line 2), and `nn.dense` has `units=128` (line 4)". */
void why_print_sources(Buf *b, Ctx *cx, const WhySource *sources, size_t n, Span near);

/* Both tensor types above each other, axes aligned at the last, the axes of the two sets of bits marked (below each, or once when
 * they face each other). */
void why_draw_shapes(Buf *b, const Type *p, uint32_t p_axes, const Type *q, uint32_t q_axes);

/* What is written of a function before its body, on the first line: `fn (%x: int32) -> int32`. */
Span function_head_span(Ctx *cx, const Function *fn);

/* ---- trial.c: relations that run for a question ------------------------------------------------------------------------ */

typedef enum TrialEnd { TRIAL_FAILED, TRIAL_OPEN, TRIAL_DONE } TrialEnd;

/* An operator on these types. With target >= 0 that operand is the unknown and `got` what the relation says of it, else the result. */
typedef struct Trial {
    Why *w;
    const Call *call;
    const Op *op;
    const Attrs *attrs;
    const Type **in;
    uint32_t n;
    int target;
    const Type *got;
} Trial;

/* The call's operands as far as they are known. */
Trial trial_of(Why *w, const Call *call, int target);
TrialEnd trial_run(Trial *t);

/* Something that a call is given: a part of an operand (attr < 0), or an attribute. */
typedef struct Given {
    uint32_t arg;
    Part part;
    int attr;
} Given;

/* What decides a part of the trial's result; at most `most`. None: the operator alone does. */
size_t trial_causes(Trial *t, const Part *part, Given *out, size_t most);
/* Of a trial that fails: what would make it succeed if it alone were different. */
size_t trial_conflict(Trial *t, Given *out, size_t most);
/* "`nn.dense` has `units=128`", at the place of the attribute. */
WhySource trial_attr_source(const Trial *t, int attr);

#endif
