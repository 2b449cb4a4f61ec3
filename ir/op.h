/* Operators: one row each, in stdlib/ops.
 *
 * A row holds one relation (types and shapes, static or at run time) and one meaning: `compute`, a tensor expression (ir/te.h)
 * from which both engines, the cost and the loops shown to a reader derive, or `kernel`, a C function that every engine calls,
 * for what has no such form on a processor. A row never has both. te/op_eval.h runs an operator on values. */
#ifndef IR_OP_H
#define IR_OP_H

#include "ir/attrs.h"
#include "ir/type.h"

typedef struct Op Op;
typedef struct Call Call;
typedef struct Rel Rel;
typedef struct TeBuilder TeBuilder;
typedef struct OpCall OpCall;

/* What FuseOps may do with a call; the numbers order them. */
typedef enum OpPattern {
    OP_ELEMWISE = 0,
    OP_BROADCAST = 1,
    OP_INJECTIVE = 2,
    OP_REDUCE = 3,
    OP_OUT_FUSABLE = 4,
    OP_TUPLE = 7,
    OP_OPAQUE = 8,
} OpPattern;

typedef enum OpFlags {
    OP_STATEFUL = 1,            /* never folded, merged or dropped */
    OP_NON_COMPUTATIONAL = 2,   /* an annotation: never run by itself */
    OP_RESHAPE = 4,             /* the elements in the same order: a view */
    OP_SHAPE_FROM_DATA = 8,     /* the result's shape needs the values of arguments */
    OP_FROM_TYPE = 16,          /* the result depends on the types of the arguments alone */
    OP_QUANTISED = 32, /* on quantised numbers: lowered before it is compiled, folded on request */
    OP_ANY_VALUE =
        64, /* arguments may be anything, functions and references too; its kernel is given no type */
    OP_ONE_FEWER = 256, /* one argument may be left out: an earlier release had none */
    OP_FORM = 128, /* stands for a program: replaced once it has types, and nothing runs it */
} OpFlags;

typedef enum RelResult { REL_DONE, REL_WAIT, REL_FAILED } RelResult;

typedef struct OpArg {
    const char *name;
    const char *doc;
} OpArg; /* a table of them ends with a NULL name */

struct Op {
    const char *name; /* "nn.softmax" */
    const char *doc; /* one or two sentences */
    const OpArg *args; /* in order; their number is the arity */
    const OpAttr *attrs; /* NULL: none */
    const char *
        shapes; /* "(M, K), (N, K) -> (M, N)": for readers what `rel` computes; a test evaluates it */
    const char *
        samples; /* argument types and attributes that generated tests start from: one sample a parenthesis */
    const char
        *example; /* the text of a cell that shows it; NULL: one is made from the first sample */
    OpPattern pattern;
    unsigned flags;
    RelResult (*rel)(Rel *r);
    void (*compute)(TeBuilder *b);
    bool (*kernel)(OpCall *c);
    /* What a kernel computes, as a tensor expression for a card, so that nothing goes to the host and back; no extent is 0. NULL: there is
     * none, or `compute` is that. */
    void (*card)(TeBuilder *b);
    bool (*on_card)(const Attrs *attrs); /* whether `card` is for these; NULL: for all */
    /* What a kernel computes, as a tensor expression whose adjoint is the operator's; it costs more than the kernel, and nobody runs it. */
    void (*expression)(TeBuilder *b);
    /* The adjoints as Relay: of several arguments a tuple. %g is that of the result %out; arguments and attributes of the call have their
     * names, %data.dtype is the type of elements, and a `let` names what is computed once. Attributes in it, and conditions of an `if`,
     * come from types and attributes alone; where one is not known the rule is not taken (passes/adjoint.h).
     * NULL: zero where no argument or no result is real, else what follows from `compute` or `expression`. */
    const char *grad;
    const char *no_grad; /* why there is none: "it …"; NULL: it follows as above */
    /* What the operator means at inference (SimplifyInference); `index` is the field of the result that is used, -1: all of it.
     * Returns NULL when it stays. */
    Expr *(*inference)(Ctx *cx, Arena *arena, const Call *call, int64_t index);
    const char *symbol; /* the infix form: "+" */
};

/* All families in one list; each family is an array that ends with a NULL name. */
typedef struct OpTable {
    const Op *const *families; /* ends with NULL */
} OpTable;

/* By name, in constant time after the first call for a context (the index lies in the context). */
const Op *op_find(Ctx *cx, Str name);
/* Calls `found` with each operator, in the order of the table, until it returns false. */
void op_each(const OpTable *table, bool (*found)(void *data, const Op *op), void *data);
int op_arity(const Op *op);
/* Whether a call of so many arguments is one. */
bool op_takes(const Op *op, uint32_t n);
/* Whether it has an expression for a card, for these attributes. */
bool op_is_for_card(const Op *op, const Attrs *attrs);
/* The operator of an infix symbol ("+"). */
const Op *op_find_symbol(Ctx *cx, Str symbol);

/* One run of a kernel. Arguments are lent; the kernel sets `out`, which becomes the caller's. Its loops over elements ask
 * `limit_hit_at` and end when it says so, also those that come later: then the result is dropped, whatever it is. */
struct OpCall {
    Ctx *cx;
    const Op *op;
    const Attrs *attrs;
    Span span;
    uint32_t n;
    const Value *args;
    bool last; /* whoever calls gives up a count of the first argument behind the call */
    const Type *type; /* of the result; concrete unless the shape comes from data */
    Value out;
};

/* The result's type for arguments of these types, `values[i]` known ones or NULL. NULL after a diagnostic. */
const Type *op_type(Ctx *cx, const Op *op, const Attrs *attrs, Span span, uint32_t n,
                    const Type *const *args, const Value *const *values);

#endif
