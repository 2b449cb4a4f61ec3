/* Expressions: immutable nodes in arenas.
 *
 * A node's identity is its address: used twice it is computed once, and two equal `ref(0)` are two cells. The `type` slot is written
 * once, by the checker; a node made by a rewrite takes its span from the node it replaces and starts without a type. The structs and
 * the table of their fields both come from nodes.def. */
#ifndef IR_EXPR_H
#define IR_EXPR_H

#include "ir/attrs.h"
#include "ir/type.h"

typedef struct Op Op;
typedef struct Var Var;

typedef enum ExprKind {
#define NODE(KIND, Struct, name, fields) EXPR_##KIND,
#define FIELD(what, name)
#include "ir/nodes.def"
#undef NODE
#undef FIELD
    EXPR_KINDS
} ExprKind;

struct Expr {
    uint8_t kind;           /* ExprKind */
    Span span;
    const Type *type;       /* NULL until the checker ran */
};

typedef struct ExprList {
    Expr **at;
    uint32_t n;
} ExprList;
typedef struct VarList {
    Var **at;
    uint32_t n;
} VarList;
typedef struct TypeList {
    const Type *const *at;
    uint32_t n;
} TypeList;
typedef struct TypeVarList {
    const TypeVar *const *at;
    uint32_t n;
} TypeVarList;

typedef enum PatternKind { PATTERN_WILDCARD, PATTERN_VAR, PATTERN_CON, PATTERN_TUPLE } PatternKind;

typedef struct Pattern {
    PatternKind kind;
    uint32_t n;             /* fields of a constructor or tuple */
    Span span;
    Var *var;               /* PATTERN_VAR */
    const Constructor *con; /* PATTERN_CON */
    struct Pattern **fields;
} Pattern;

typedef struct Clause {
    Pattern *pattern;
    Expr *body;
    Span span;
} Clause;

typedef struct ClauseList {
    Clause *at;
    uint32_t n;
} ClauseList;

#define IR_FIELD_EXPR Expr *
#define IR_FIELD_EXPRS ExprList
#define IR_FIELD_BINDER Var *
#define IR_FIELD_BINDERS VarList
#define IR_FIELD_TYPE const Type *
#define IR_FIELD_TYPES TypeList
#define IR_FIELD_TYPEVARS TypeVarList
#define IR_FIELD_ATTRS const Attrs *
#define IR_FIELD_CLAUSES ClauseList
#define IR_FIELD_VALUE Value
#define IR_FIELD_NAME const Name *
#define IR_FIELD_INT int64_t
#define IR_FIELD_BOOL bool
#define IR_FIELD_OP const Op *
#define IR_FIELD_CON const Constructor *

#define NODE(KIND, Struct, name, fields) \
    typedef struct Struct Struct;        \
    struct Struct {                      \
        Expr base;                       \
        fields                           \
    };
#define FIELD(what, name) IR_FIELD_##what name;
#include "ir/nodes.def"
#undef NODE
#undef FIELD

/* expr_as_call(e): the node as its struct, or NULL when it is of another kind. */
#define NODE(KIND, Struct, name, fields)                                    \
    static inline Struct *expr_as_##name(const Expr *e)                     \
    {                                                                       \
        return e && e->kind == EXPR_##KIND ? (Struct *)(uintptr_t)e : NULL; \
    }
#define FIELD(what, name)
#include "ir/nodes.def"
#undef NODE
#undef FIELD

/* ---- the table of fields, which traversals read ------------------------------------------------------------------- */

typedef enum FieldKind {
    FIELD_EXPR,
    FIELD_EXPRS,
    FIELD_BINDER,
    FIELD_BINDERS,
    FIELD_TYPE,
    FIELD_TYPES,
    FIELD_TYPEVARS,
    FIELD_ATTRS,
    FIELD_CLAUSES,
    FIELD_VALUE,
    FIELD_NAME,
    FIELD_INT,
    FIELD_BOOL,
    FIELD_OP,
    FIELD_CON,
} FieldKind;

typedef struct NodeField {
    FieldKind kind;
    uint16_t offset;
    const char *name;
} NodeField;

typedef struct NodeInfo {
    const char *name; /* "TupleGet" */
    size_t size;
    const NodeField *fields;
    int n;
} NodeInfo;

const NodeInfo *node_info(ExprKind kind);

/* ---- making nodes --------------------------------------------------------------------------------------------------- */

/* The lists are copied into the arena; a list that is NULL has room for its n nodes, to be put there at once. A constant retains its value until the arena goes. */
Expr *expr_constant(Arena *a, Span s, Value value);
Var *expr_var(Arena *a, Span s, const Name *name, const Type *annotation);
Expr *expr_global(Arena *a, Span s, const Name *name);
Expr *expr_op(Arena *a, Span s, const Op *op);
Expr *expr_con(Arena *a, Span s, const Constructor *con);
Expr *expr_tuple(Arena *a, Span s, uint32_t n, Expr *const *fields);
Expr *expr_tuple_get(Arena *a, Span s, Expr *tuple, int64_t index);
Expr *expr_call(Arena *a, Span s, Expr *callee, uint32_t n, Expr *const *args, const Attrs *attrs);
/* A call of an operator; attrs already in the schema's order (attrs_check) or NULL. */
Expr *expr_call_op(Arena *a, Span s, const Op *op, uint32_t n, Expr *const *args,
                   const Attrs *attrs);
Function *expr_function(Arena *a, Span s, TypeVarList type_params, uint32_t n, Var *const *params,
                        const Attrs *attrs, const Type *ret_type, Expr *body);
Expr *expr_let(Arena *a, Span s, Var *var, Expr *value, Expr *body);
Expr *expr_if(Arena *a, Span s, Expr *cond, Expr *then, Expr *otherwise);
Expr *expr_match(Arena *a, Span s, Expr *scrutinee, uint32_t n, const Clause *clauses,
                 bool complete);
Expr *expr_ref_new(Arena *a, Span s, Expr *value);
Expr *expr_ref_read(Arena *a, Span s, Expr *ref);
Expr *expr_ref_write(Arena *a, Span s, Expr *ref, Expr *value);

Pattern *pattern_wildcard(Arena *a, Span s);
Pattern *pattern_var(Arena *a, Span s, Var *var);
Pattern *pattern_con(Arena *a, Span s, const Constructor *con, uint32_t n, Pattern *const *fields);
Pattern *pattern_tuple(Arena *a, Span s, uint32_t n, Pattern *const *fields);

/* Of the variable that stands for a hole in an expression; no text can name it. */
#define HOLE_NAME "?"
bool var_is_hole(const Var *v);

/* ---- asking ------------------------------------------------------------------------------------------------------------ */

/* The operator or constructor that a call calls; NULL when it calls something else, or `e` is no call. */
const Op *expr_call_of_op(const Expr *e);
const Constructor *expr_call_of_con(const Expr *e);
/* A function that FuseOps made (attribute Primitive not 0). */
bool function_is_primitive(const Function *f);
/* Calls `found` with each variable that a pattern binds, left to right. */
void pattern_vars(const Pattern *p, void (*found)(void *data, Var *v), void *data);

#endif
