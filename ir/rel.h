/* Type relations: what an operator's `rel` may ask and say.
 *
 * One function computes an operator's types and shapes: the checker runs it on types with holes, and runs it again when a hole is filled;
 * op_type runs it on concrete types to size a result. It returns
 *   REL_DONE    the output (and whatever else it can say) is set
 *   REL_WAIT    too little is known yet; nothing was reported
 *   REL_FAILED  it reported an error
 *
 *     RelResult rel_dense(Rel *r)
 *     {
 *         const Type *data = rel_tensor(r, 0);
 *         if (!data)
 *             return rel_blocked(r);
 *         …
 *         return rel_set_output(r, type_tensor(r->cx, dtype, rank, dims));
 *     }
 */
#ifndef IR_REL_H
#define IR_REL_H

#include "ir/ctx.h"
#include "ir/expr.h"

struct Rel {
    Ctx *cx;
    const Op *op;
    const Attrs *attrs;
    Span span;                  /* of the call */
    uint32_t n;                 /* inputs */
    const Type **in;            /* their types, resolved; an unknown one is a hole */
    const Type *out;            /* the result's type as far as known */
    const Span *in_spans;       /* where the arguments were written; may be NULL */
    const Value *const
        *values; /* the values of arguments that are known, else NULL entries; may be NULL */
    bool failed;                /* rel_tensor reported an argument that is no tensor */
    const struct Module *module, *env; /* whose types have names here, in this order; NULL: none */
    bool running; /* the types are those of values: shapes that do not fit are E0303 */
    /* Unifies input `which` (the output for -1) with the type; false after a diagnostic. Set by whoever runs the relation. */
    bool (*assign)(Rel *r, int which, const Type *t);
    void *data; /* of whoever runs it */
};

/* Input i when it is known to be a tensor; NULL when it is still a hole, poison, or, after a diagnostic, something else. */
const Type *rel_tensor(Rel *r, uint32_t i);
/* Input i when it is known to be a tuple of known tensors; likewise. */
const Type *rel_tensors(Rel *r, uint32_t i);
/* What to return after one of them gave NULL. */
RelResult rel_blocked(const Rel *r);

/* The results of a relation: set by unification, so that what is known already is checked. */
RelResult rel_set_output(Rel *r, const Type *t);
bool rel_set_input(Rel *r, uint32_t i, const Type *t);

/* Reports at the call, with the argument labelled by its type (`arg` < 0: none). The caller returns REL_FAILED. */
Diag *rel_error(Rel *r, DiagCode code, int arg, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* How what is written at `span` becomes of element type `to`: a whole number by its suffix, anything else by a cast. */
void rel_help_convert(Ctx *cx, Diag *d, Span span, DType to);

/* An axis counted from the end when negative, in [0, rank); reports E0217 and gives -1. */
int rel_axis(Rel *r, int64_t axis, uint32_t rank);
/* A type that is t, as far as is known, may be given where `needed` is. */
bool rel_agrees(const Type *t, const Type *needed);
/* Equal as far as is known: `?` agrees with everything. */
bool dim_agrees(Dim a, Dim b);
/* The value of argument i when it is a known rank-0 constant. */
const Value *rel_value(const Rel *r, uint32_t i);
/* Broadcasts two shapes as types.md section 8 says; false when they do not fit, as two symbolic extents do not that are not the same. `out` has room for TENSOR_RANK_MOST. */
bool dims_broadcast(const Ctx *cx, uint32_t na, const Dim *a, uint32_t nb, const Dim *b,
                    uint32_t *n, Dim *out);

#endif
