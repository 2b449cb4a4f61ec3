/* What the files of the generator share. */
#ifndef TESTS_RANDOM_INTERNAL_H
#define TESTS_RANDOM_INTERNAL_H

#include "tests/random/generate.h"

/* A variable, a node that can be used again, or a function of the module. */
typedef struct Known {
    Expr *e; /* NULL: a function of the module, `name` */
    const Name *name;
    const Type *type;
    double cost; /* about how many nodes a call evaluates */
    Expr *counter; /* from inside a recursive function it is called with one less than this */
    bool whole; /* with this itself: a part of the data that the function got */
    int level; /* and only at this depth of function literals */
    bool pure; /* calls of it have no effects */
    bool hidden; /* nothing uses it here: it has another name */
} Known;

typedef struct Gen {
    Ctx *cx;
    Module *m;
    Arena *arena; /* the module's */
    Arena scratch;
    Diags quiet; /* what op_type has to say about calls that are tried */
    RandomStats *stats;
    bool data, derivatives, higher; /* as RandomOptions says */
    PtrMap holders; /* data types that type_fit has looked at */
    uint64_t seed, drawn;
    int fuel; /* nodes that may still be made in this function */
    double cost; /* of what was made so far in this function */
    size_t effects; /* references made, read and written so far */
    bool in_turns; /* the next expression is one of operands with effects (make_turns) */
    Var *turns; /* operands note in this reference when they are evaluated; NULL: they do not */
    int turn; /* of the last operand that does */
    double noted; /* what the reference holds behind it */
    Vec(Known) known; /* what is in scope, the innermost last */
    Vec(const TypeDef *) types;
    Vec(const Op *) ops;
    Vec(const TypeVar *) vars; /* type parameters in scope */
    int type_vars; /* made so far */
    int depth; /* of `make` in itself */
    int level; /* of function literals around */
    int derived; /* of derivatives around */
    int recursions; /* calls of itself that a recursive function may still make */
} Gen;

/* ---- numbers (program.c) */

uint64_t draw(Gen *g);
/* In [0, n), [from, to], and true once in n. */
uint32_t below(Gen *g, size_t n);
int64_t between(Gen *g, int64_t from, int64_t to);
bool once_in(Gen *g, uint32_t n);
void count_form(Gen *g, const char *form);

/* ---- types (types.c) */

const Type *random_type(Gen *g, int depth);
#define SHAPE_MOST 7
/* Up to three small dimensions, seldom up to seven; with `any`, one in so many is unknown. The rank. */
uint32_t random_shape(Gen *g, uint32_t any, Dim *dims);
/* Static tensors: of any element type; of float32 or float64; and scalars of one of few. */
const Type *random_tensor(Gen *g);
const Type *random_real(Gen *g);
const Type *random_scalar(Gen *g);
/* A type with values of few constructors: a data type or a tuple. */
const Type *random_sum(Gen *g, int depth);
/* Whether values of the type are compared, printed and passed to @main: no functions and references inside. */
bool is_data(const Type *t);
bool has_any(const Type *t);
const Type *scalar_of(Gen *g, DTypeId id);
/* The instance of the field's type for the type's arguments. */
const Type *field_type(Gen *g, const Type *adt, const Constructor *con, uint32_t i);
/* Binds the variables so that `pattern` becomes `t`; those that it leaves open stay NULL. */
bool match_type(Gen *g, const Type *pattern, const Type *t, uint32_t n, const TypeVar *const *vars,
                const Type **with);

/* ---- expressions (make.c) */

/* An expression of exactly this type. */
Expr *make(Gen *g, const Type *t, int size);
/* The smallest: constants, Nil, functions that ignore their arguments. */
Expr *make_leaf(Gen *g, const Type *t);
Expr *make_literal(Gen *g, DType dtype, double v);
Expr *make_constant(Gen *g, const Type *t);
Var *fresh_var(Gen *g, const Type *annotation);
void learn(Gen *g, Expr *e, const Type *t);
void learn_function(Gen *g, Known k);
void forget(Gen *g, size_t known);
Expr *make_let(Gen *g, Var *v, Expr *value, Expr *body);
Expr *random_value(Gen *g, int size, const Type **t);

/* ---- functions (functions.c) */

/* A literal of this function type, perhaps with type parameters. A recursive one counts its first
 * parameter down; `self` then says what it is called by. */
Function *make_function(Gen *g, const Type *t, int size, Known *self);
const Type *random_signature(Gen *g, uint32_t type_params, bool recursive, int depth);
/* A polymorphic function type of which t, that of a function with arguments and without type parameters, is one. */
const Type *more_general(Gen *g, const Type *t);
/* A call of something known that gives t; NULL when there is none. */
Expr *call_known(Gen *g, const Type *t, int size);
/* The definitions of the program. */
void make_definitions(Gen *g, int size);

/* ---- clauses (match.c) */

Expr *make_match(Gen *g, const Type *t, int size);
/* A function that calls itself for the parts of its data, called with some. */
Expr *make_fold(Gen *g, const Type *t, int size);

/* ---- operators (calls.c) */

#define ARGS_MOST 12

typedef struct Sample {
    const Op *op;
    uint32_t n;
    const Type *args[ARGS_MOST];
    const Attrs *written;
    const Attrs *attrs; /* the whole record */
} Sample;

/* A sample of the operator's row: 0 changes: as it stands, 1: other attributes and element types, 2: other extents too. The type of the
 * call; NULL when it is wrong. */
const Type *draw_sample(Gen *g, const Op *op, int changes, Sample *s);
/* A call of some operator; its type goes to *t. NULL when nothing could be made. */
Expr *random_call(Gen *g, int size, const Type **t);
/* An operator that gives a tensor of this static type. */
Expr *make_operator_call(Gen *g, const Type *t, int size);
/* An operator without attributes that is a function of this type; NULL: none was found. */
Expr *operator_value(Gen *g, const Type *t);
/* The same where each operand notes in a reference when it is evaluated, which the value tells. */
Expr *make_turns(Gen *g, const Type *t, int size);
/* The same with an operator that is a value first, where it has no attributes. */
Expr *make_value_call(Gen *g, const Type *t, int size);
/* Turns any tensor or tuple of tensors into a tensor of the static type t. */
Expr *adapt(Gen *g, Expr *e, const Type *from, const Type *t);
Expr *call_op(Gen *g, const char *name, uint32_t n, Expr *const *args, const Attrs *attrs);

#endif
