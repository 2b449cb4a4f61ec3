#include "ir/expr.h"

#include "ir/op.h"

#include <stddef.h>
#include <string.h>

const NodeInfo *node_info(ExprKind kind)
{
    /* Each case sees its own struct as S, so that a field needs to be named once. */
    switch (kind) {
#define NODE(KIND, Struct, name, list)                                                             \
    case EXPR_##KIND: {                                                                            \
        typedef Struct S;                                                                          \
        static const NodeField fields[] = {list};                                                  \
        static const NodeInfo info = {#Struct, sizeof(S), fields, sizeof fields / sizeof *fields}; \
        return &info;                                                                              \
    }
#define FIELD(what, name) {FIELD_##what, offsetof(S, name), #name},
#include "ir/nodes.def"
#undef NODE
#undef FIELD
    case EXPR_KINDS: break;
    }
    return NULL;
}

static void *node_new(Arena *a, ExprKind kind, Span span, size_t size)
{
    Expr *e = arena_alloc(a, size);
    e->kind = (uint8_t)kind;
    e->span = span;
    return e;
}

#define NEW(kind, Struct) ((Struct *)node_new(a, EXPR_##kind, s, sizeof(Struct)))

static ExprList list_copy(Arena *a, uint32_t n, Expr *const *at)
{
    Expr **list = n ? arena_alloc_must(a, n, sizeof *at) : NULL;
    if (n && at)
        memcpy(list, at, n * sizeof *at);
    return (ExprList){list, n};
}

static void release_constant(void *data)
{
    value_release(((Constant *)data)->value);
}

Expr *expr_constant(Arena *a, Span s, Value value)
{
    Constant *e = NEW(CONSTANT, Constant);
    e->value = value_retain(value);
    if (value.kind > VALUE_SCALAR)
        arena_on_free(a, release_constant, e);
    return &e->base;
}

Var *expr_var(Arena *a, Span s, const Name *name, const Type *annotation)
{
    Var *e = NEW(VAR, Var);
    e->name = name;
    e->annotation = annotation;
    return e;
}

Expr *expr_global(Arena *a, Span s, const Name *name)
{
    GlobalVar *e = NEW(GLOBAL, GlobalVar);
    e->name = name;
    return &e->base;
}

Expr *expr_op(Arena *a, Span s, const Op *op)
{
    OpRef *e = NEW(OP, OpRef);
    e->op = op;
    return &e->base;
}

Expr *expr_con(Arena *a, Span s, const Constructor *con)
{
    ConRef *e = NEW(CON, ConRef);
    e->con = con;
    return &e->base;
}

Expr *expr_tuple(Arena *a, Span s, uint32_t n, Expr *const *fields)
{
    Tuple *e = NEW(TUPLE, Tuple);
    e->fields = list_copy(a, n, fields);
    return &e->base;
}

Expr *expr_tuple_get(Arena *a, Span s, Expr *tuple, int64_t index)
{
    TupleGet *e = NEW(TUPLE_GET, TupleGet);
    e->tuple = tuple;
    e->index = index;
    return &e->base;
}

Expr *expr_call(Arena *a, Span s, Expr *callee, uint32_t n, Expr *const *args, const Attrs *attrs)
{
    Call *e = NEW(CALL, Call);
    e->callee = callee;
    e->args = list_copy(a, n, args);
    e->attrs = attrs;
    return &e->base;
}

Expr *expr_call_op(Arena *a, Span s, const Op *op, uint32_t n, Expr *const *args,
                   const Attrs *attrs)
{
    return expr_call(a, s, expr_op(a, s, op), n, args, attrs);
}

Function *expr_function(Arena *a, Span s, TypeVarList type_params, uint32_t n, Var *const *params,
                        const Attrs *attrs, const Type *ret_type, Expr *body)
{
    Function *e = NEW(FUNCTION, Function);
    e->type_params = type_params;
    if (type_params.n)
        e->type_params.at = arena_copy(a, type_params.at, type_params.n * sizeof *type_params.at);
    e->params = (VarList){n ? arena_copy(a, params, n * sizeof *params) : NULL, n};
    e->attrs = attrs;
    e->ret_type = ret_type;
    e->body = body;
    return e;
}

Expr *expr_let(Arena *a, Span s, Var *var, Expr *value, Expr *body)
{
    Let *e = NEW(LET, Let);
    e->var = var;
    e->value = value;
    e->body = body;
    return &e->base;
}

Expr *expr_if(Arena *a, Span s, Expr *cond, Expr *then, Expr *otherwise)
{
    If *e = NEW(IF, If);
    e->cond = cond;
    e->then = then;
    e->otherwise = otherwise;
    return &e->base;
}

Expr *expr_match(Arena *a, Span s, Expr *scrutinee, uint32_t n, const Clause *clauses,
                 bool complete)
{
    Match *e = NEW(MATCH, Match);
    e->scrutinee = scrutinee;
    e->clauses = (ClauseList){n ? arena_copy(a, clauses, n * sizeof *clauses) : NULL, n};
    e->complete = complete;
    return &e->base;
}

Expr *expr_ref_new(Arena *a, Span s, Expr *value)
{
    RefNew *e = NEW(REF_NEW, RefNew);
    e->value = value;
    return &e->base;
}

Expr *expr_ref_read(Arena *a, Span s, Expr *ref)
{
    RefRead *e = NEW(REF_READ, RefRead);
    e->ref = ref;
    return &e->base;
}

Expr *expr_ref_write(Arena *a, Span s, Expr *ref, Expr *value)
{
    RefWrite *e = NEW(REF_WRITE, RefWrite);
    e->ref = ref;
    e->value = value;
    return &e->base;
}

static Pattern *pattern_new(Arena *a, Span s, PatternKind kind, uint32_t n, Pattern *const *fields)
{
    Pattern *p = arena_new(a, Pattern);
    *p = (Pattern){.kind = kind, .n = n, .span = s};
    p->fields = n ? arena_copy(a, fields, n * sizeof *fields) : NULL;
    return p;
}

Pattern *pattern_wildcard(Arena *a, Span s)
{
    return pattern_new(a, s, PATTERN_WILDCARD, 0, NULL);
}

Pattern *pattern_var(Arena *a, Span s, Var *var)
{
    Pattern *p = pattern_new(a, s, PATTERN_VAR, 0, NULL);
    p->var = var;
    return p;
}

Pattern *pattern_con(Arena *a, Span s, const Constructor *con, uint32_t n, Pattern *const *fields)
{
    Pattern *p = pattern_new(a, s, PATTERN_CON, n, fields);
    p->con = con;
    return p;
}

Pattern *pattern_tuple(Arena *a, Span s, uint32_t n, Pattern *const *fields)
{
    return pattern_new(a, s, PATTERN_TUPLE, n, fields);
}

const Op *expr_call_of_op(const Expr *e)
{
    const Call *call = expr_as_call(e);
    const OpRef *op = call ? expr_as_op(call->callee) : NULL;
    return op ? op->op : NULL;
}

const Constructor *expr_call_of_con(const Expr *e)
{
    const Call *call = expr_as_call(e);
    const ConRef *con = call ? expr_as_con(call->callee) : NULL;
    return con ? con->con : NULL;
}

bool function_is_primitive(const Function *f)
{
    const AttrValue *v = attrs_find(f->attrs, "Primitive");
    return v && ((v->kind == ATTR_INT && v->i != 0) || (v->kind == ATTR_BOOL && v->b));
}

/* Patterns nest as deep as their text, which the parser bounds; the stack here is the list of fields still to visit. */
void pattern_vars(const Pattern *p, void (*found)(void *data, Var *v), void *data)
{
    if (p->kind == PATTERN_VAR)
        found(data, p->var);
    for (uint32_t i = 0; i < p->n; i++)
        pattern_vars(p->fields[i], found, data);
}

bool var_is_hole(const Var *v)
{
    return v->name->len == 1 && v->name->text[0] == HOLE_NAME[0];
}
