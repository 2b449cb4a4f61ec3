/* Recursion over trees, a level at a time.
 *
 *     let %f = fn (%t: Tree) { match (%t) { Leaf(%x) => %x, Node(%l, %r) => tanh(nn.dense(add(%f(%l), %f(%r)), const)) } };  %f(%tree)
 *
 * reads the weights for each node anew. All nodes of one depth are independent of each other, so they are gathered first, those of the
 * level below give their results, and then four nodes at a time are one product of four rows, two one of two. The function becomes one
 * over lists of nodes, a list for each constructor:
 *
 *     let %push = fn (%t, %leaves, %nodes) { … };         // puts a node on its list
 *     let %pop = fn (%t, %leaves, %nodes) { … };          // takes the result of a node off the list of its constructor
 *     let %below = fn (%nodes, …) { … };                  // the nodes under these
 *     let %step = fn (%nodes, %results below, %done) { match (%nodes) { Row(Node(…), Row(Node(…), …)) => …, … } };
 *     let %level = fn (%leaves, %nodes) { … %level(%below(%nodes)) … };
 *
 * Lists are built by putting in front, so each is the other way round than what it was made of; a level's results are the other way
 * round than its nodes, and so in the order of the nodes above. */
#include "passes/facts.h"
#include "passes/pass.h"
#include "passes/types.h"

#include "ir/op.h"
#include "stdlib/ops/ops.h"

enum {
    FIELDS_MOST = 16, /* of a constructor, and constructors of a type */
    WEIGHTS_LEAST = 32 << 10, /* bytes: what is less stays in the nearest cache from node to node */
    STEPS_MOST = 4, /* nodes in one product: more are bound by arithmetic already */
};

/* A constructor, and what the function does with it. */
typedef struct Kind {
    const Constructor *con;
    const Expr *body; /* of the clause */
    const Var *fields[FIELDS_MOST]; /* NULL: the clause does not look at it */
    const Call *result[FIELDS_MOST]; /* the call for it; NULL: none */
    uint32_t calls;
    Var *below, *step; /* the functions made for it; `below` only where there are calls */
} Kind;

/* What stands for a node of a clause when several nodes of the tree are taken at once. */
typedef struct Lifted {
    const Expr *of;
    Expr *same; /* all have it in common */
    Expr *rows; /* one tensor with a row each, or a tuple of such */
    Expr **each;
    struct Lifted **fields; /* of a tuple */
} Lifted;

typedef struct Batcher {
    PassRun *run;
    OpsMake m;
    const Var *self;
    const Function *fn;
    int tree; /* the parameter that is taken apart */
    const Type *type, *result, *types, *results; /* of a node and its result, and lists of them */
    const TypeDef *list;
    const Constructor *row, *none;
    Kind kinds[FIELDS_MOST];
    uint32_t n;
    Var *push, *pop, *level;
    /* of the clause at hand */
    const Kind *kind;
    uint32_t steps;
    PtrMap lifted; /* Expr -> Lifted */
    PtrMap bound; /* Var of a `let` -> its value */
    bool simple; /* nothing but straight-line code was met */
    bool pays; /* a product with large weights can be one of several rows */
} Batcher;

/* ---- short forms --------------------------------------------------------------------------------------------------------- */

static Var *var_of(const Batcher *b, const char *name, const Type *type)
{
    return expr_var(b->m.arena, b->m.span, ctx_name(b->run->cx, name), type);
}

static Expr *call_of(const Batcher *b, Expr *callee, uint32_t n, Expr *const *args)
{
    return expr_call(b->m.arena, b->m.span, callee, n, args, NULL);
}

static Expr *con_of(const Batcher *b, const Constructor *con, uint32_t n, Expr *const *args)
{
    return call_of(b, expr_con(b->m.arena, b->m.span, con), n, args);
}

static Expr *field_of(const Batcher *b, Expr *tuple, uint32_t i)
{
    return expr_tuple_get(b->m.arena, b->m.span, tuple, i);
}

static Expr *row_of(const Batcher *b, Expr *first, Expr *rest)
{
    return con_of(b, b->row, 2, (Expr *[]){first, rest});
}

static Pattern *var_pattern(const Batcher *b, Var *v)
{
    return v ? pattern_var(b->m.arena, b->m.span, v) : pattern_wildcard(b->m.arena, b->m.span);
}

static Pattern *con_pattern(const Batcher *b, const Constructor *con, uint32_t n, Var *const *vars)
{
    Pattern *fields[FIELDS_MOST];
    for (uint32_t i = 0; i < n; i++)
        fields[i] = var_pattern(b, vars[i]);
    return pattern_con(b->m.arena, b->m.span, con, n, fields);
}

static Pattern *any_of(const Batcher *b, const Kind *k)
{
    return con_pattern(b, k->con, k->con->n, (Var *[FIELDS_MOST]){0});
}

static Pattern *row_pattern(const Batcher *b, Pattern *first, Pattern *rest)
{
    return pattern_con(b->m.arena, b->m.span, b->row, 2, (Pattern *[]){first, rest});
}

static Expr *match_of(const Batcher *b, Expr *what, uint32_t n, const Clause *clauses,
                      bool complete)
{
    return expr_match(b->m.arena, b->m.span, what, n, clauses, complete);
}

static Expr *function_of(const Batcher *b, uint32_t n, Var *const *params, const Type *result,
                         Expr *body)
{
    return &expr_function(b->m.arena, b->m.span, (TypeVarList){0}, n, params, NULL, result, body)
                ->base;
}

/* Variables of one type, a list of each constructor. */
static void lists_of(const Batcher *b, const char *name, const Type *type, Var **out)
{
    for (uint32_t i = 0; i < b->n; i++)
        out[i] = var_of(b, name, type);
}

static Expr *tuple_of_vars(const Batcher *b, Var *const *vars)
{
    Expr *fields[FIELDS_MOST];
    for (uint32_t i = 0; i < b->n; i++)
        fields[i] = &vars[i]->base;
    return expr_tuple(b->m.arena, b->m.span, b->n, fields);
}

static const Type *tuple_type(const Batcher *b, const Type *first, const Type *rest)
{
    const Type *parts[FIELDS_MOST + 1];
    uint32_t n = 0;
    if (first)
        parts[n++] = first;
    for (uint32_t i = 0; i < b->n; i++)
        parts[n++] = rest;
    return type_tuple(b->run->cx, n, parts);
}

/* Lists in an expression's place: variables first, then fields of what the last call gave. */
typedef struct Lists {
    Expr *at[FIELDS_MOST];
} Lists;

static Lists lists_from_vars(const Batcher *b, Var *const *vars)
{
    Lists l = {0};
    for (uint32_t i = 0; i < b->n; i++)
        l.at[i] = &vars[i]->base;
    return l;
}

static Lists lists_from_fields(const Batcher *b, Expr *tuple, uint32_t first)
{
    Lists l = {0};
    for (uint32_t i = 0; i < b->n; i++)
        l.at[i] = field_of(b, tuple, first + i);
    return l;
}

static Lists empty_lists(const Batcher *b)
{
    Lists l = {0};
    for (uint32_t i = 0; i < b->n; i++)
        l.at[i] = con_of(b, b->none, 0, NULL);
    return l;
}

/* `callee(first, lists…)`. */
static Expr *call_with_lists(const Batcher *b, const Var *callee, Expr *first, const Lists *l,
                             Expr *last)
{
    Expr *args[FIELDS_MOST + 2];
    uint32_t n = 0;
    if (first)
        args[n++] = first;
    for (uint32_t i = 0; i < b->n; i++)
        args[n++] = l->at[i];
    if (last)
        args[n++] = last;
    return call_of(b, (Expr *)&callee->base, n, args);
}

/* ---- reading the function -------------------------------------------------------------------------------------------------- */

static bool is_self_call(const Batcher *b, const Expr *e)
{
    const Call *call = expr_as_call(e);
    return call && call->callee == &b->self->base;
}

/* Which field of the clause's node the call is for; -1: it is another call. */
static int field_of_call(const Batcher *b, const Kind *k, const Call *call)
{
    int found = -1;
    if (call->args.n != b->fn->params.n)
        return -1;
    for (uint32_t i = 0; i < call->args.n; i++) {
        if ((int)i != b->tree) {
            if (call->args.at[i] != &b->fn->params.at[i]->base)
                return -1;
            continue;
        }
        for (uint32_t f = 0; f < k->con->n; f++)
            if (k->fields[f] && call->args.at[i] == &k->fields[f]->base)
                found = (int)f;
    }
    return found;
}

typedef struct Reading {
    Batcher *b;
    Kind *kind;
} Reading;

static WalkNext read_node(void *data, const Expr *e)
{
    Reading *r = data;
    Batcher *b = r->b;
    Kind *k = r->kind;
    const Call *call = expr_as_call(e);
    switch (e->kind) {
    case EXPR_CALL:
        if (is_self_call(b, e)) {
            int f = field_of_call(b, k, call);
            if (f < 0 || (k->result[f] && k->result[f] != call)) {
                b->simple = false;
                return WALK_STOP;
            }
            k->calls += !k->result[f];
            k->result[f] = call;
            return WALK_SKIP;
        }
        if (!expr_call_of_con(e) &&
            (!expr_call_of_op(e) || (expr_call_of_op(e)->flags & OP_STATEFUL)))
            b->simple = false;
        return b->simple ? WALK_ON : WALK_STOP;
    case EXPR_VAR:
        if (e == &b->self->base || e == &b->fn->params.at[b->tree]->base)
            b->simple = false; /* the tree itself, or the function as a value */
        return b->simple ? WALK_ON : WALK_STOP;
    case EXPR_CONSTANT:
    case EXPR_OP:
    case EXPR_CON:
    case EXPR_TUPLE:
    case EXPR_TUPLE_GET:
    case EXPR_LET: return WALK_ON;
    default: b->simple = false; return WALK_STOP;
    }
}

/* A variable that a call was made for is used by nothing else: what is gathered is given away. */
typedef struct Uses {
    const Kind *kind;
    const Batcher *b;
    bool other;
} Uses;

static WalkNext note_use(void *data, const Expr *e)
{
    Uses *u = data;
    if (is_self_call(u->b, e))
        return WALK_SKIP;
    for (uint32_t f = 0; f < u->kind->con->n; f++)
        u->other |= u->kind->result[f] && e == &u->kind->fields[f]->base;
    return u->other ? WALK_STOP : WALK_ON;
}

static bool read_clause(Batcher *b, const Clause *c)
{
    const Pattern *p = c->pattern;
    if (p->kind != PATTERN_CON || p->n > FIELDS_MOST || b->n == FIELDS_MOST)
        return false;
    for (uint32_t i = 0; i < b->n; i++)
        if (b->kinds[i].con == p->con)
            return false;
    Kind *k = &b->kinds[b->n++];
    *k = (Kind){.con = p->con, .body = c->body};
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->fields[i]->kind != PATTERN_VAR && p->fields[i]->kind != PATTERN_WILDCARD)
            return false;
        k->fields[i] = p->fields[i]->kind == PATTERN_VAR ? p->fields[i]->var : NULL;
    }
    Reading r = {b, k};
    Uses u = {.kind = k, .b = b};
    b->simple = true;
    ir_walk(c->body, read_node, NULL, &r);
    if (b->simple)
        ir_walk(c->body, note_use, NULL, &u);
    return b->simple && !u.other;
}

/* A function that does nothing but take one of its arguments apart, calls itself for fields of it, and somewhere for more than one. */
static bool read_function(Batcher *b, const Var *self, const Function *f)
{
    const Match *match = expr_as_match(f->body);
    b->self = self;
    b->fn = f;
    b->tree = -1;
    b->n = 0;
    for (uint32_t i = 0; match && i < f->params.n; i++)
        if (match->scrutinee == &f->params.at[i]->base)
            b->tree = (int)i;
    if (b->tree < 0 || f->type_params.n || f->attrs || !f->base.type ||
        f->base.type->kind != TYPE_FUNC)
        return false;
    b->type = type_find(f->params.at[b->tree]->base.type);
    b->result = f->base.type->result;
    uint32_t most = 0;
    for (uint32_t i = 0; i < match->clauses.n; i++) {
        if (!read_clause(b, &match->clauses.at[i]))
            return false;
        most = b->kinds[i].calls > most ? b->kinds[i].calls : most;
    }
    return most > 1 && b->type->kind == TYPE_ADT && b->n == b->type->def->n_cons;
}

/* ---- several nodes at once ------------------------------------------------------------------------------------------------- */

static bool is_row(const Type *t)
{
    t = t ? type_find(t) : NULL;
    if (t && t->kind == TYPE_TUPLE) {
        bool all = t->n > 0;
        for (uint32_t i = 0; i < t->n; i++)
            all &= t->parts[i]->kind == TYPE_TENSOR && is_row(t->parts[i]);
        return all;
    }
    return t && t->kind == TYPE_TENSOR && t->n > 0 && t->dims[0] == 1;
}

static Lifted *lifted_of(Batcher *b, const Expr *e)
{
    Lifted *l;
    while (!(l = ptrmap_find(&b->lifted, e)) && e->kind == EXPR_VAR) {
        const Expr *value = ptrmap_find(&b->bound, e);
        if (!value)
            break;
        e = value;
    }
    if (!l) { /* constants, parameters, what stands outside */
        l = arena_new(&b->run->scratch, Lifted);
        *l = (Lifted){.of = e, .same = (Expr *)e};
        ptrmap_put(&b->lifted, e, l);
    }
    return l;
}

static Expr **room_for_each(Batcher *b)
{
    return arena_new_array(&b->run->scratch, Expr *, b->steps);
}

static Expr *split_rows(Batcher *b, Expr *rows)
{
    Attr attrs[2] = {ops_attr_int("indices_or_sections", b->steps), ops_attr_int("axis", 0)};
    return ops_call(&b->m, "split", 1, &rows, 2, attrs);
}

/* One expression for each of the nodes. */
static Expr **each_of(Batcher *b, Lifted *l)
{
    if (l->each)
        return l->each;
    Expr **each = l->each = room_for_each(b);
    const Type *t = type_find(l->of->type);
    if (l->same) {
        for (uint32_t i = 0; i < b->steps; i++)
            each[i] = l->same;
        return each;
    }
    if (l->rows && t->kind == TYPE_TENSOR) {
        Expr *parts = b->steps > 1 ? split_rows(b, l->rows) : NULL;
        for (uint32_t i = 0; i < b->steps; i++)
            each[i] = parts ? field_of(b, parts, i) : l->rows;
        return each;
    }
    uint32_t n = t->n;
    Expr ***fields = arena_new_array(&b->run->scratch, Expr **, n + 1);
    for (uint32_t f = 0; f < n; f++) {
        if (l->fields) {
            fields[f] = each_of(b, l->fields[f]);
            continue;
        }
        Expr *rows = field_of(b, l->rows, f), *parts = b->steps > 1 ? split_rows(b, rows) : NULL;
        fields[f] = room_for_each(b);
        for (uint32_t i = 0; i < b->steps; i++)
            fields[f][i] = parts ? field_of(b, parts, i) : rows;
    }
    for (uint32_t i = 0; i < b->steps; i++) {
        Expr **args = arena_new_array(&b->run->scratch, Expr *, n + 1);
        for (uint32_t f = 0; f < n; f++)
            args[f] = fields[f][i];
        each[i] = expr_tuple(b->m.arena, l->of->span, n, args);
    }
    return each;
}

/* One expression with a row for each, where the type of a single one is a row. */
static Expr *rows_of(Batcher *b, Lifted *l)
{
    if (l->rows)
        return l->rows;
    if (l->fields) {
        uint32_t n = type_find(l->of->type)->n;
        Expr **args = arena_new_array(&b->run->scratch, Expr *, n + 1);
        for (uint32_t f = 0; f < n; f++)
            args[f] = rows_of(b, l->fields[f]);
        return l->rows = expr_tuple(b->m.arena, l->of->span, n, args);
    }
    const Type *t = type_find(l->of->type);
    Expr **each = each_of(b, l);
    if (b->steps == 1)
        return l->rows = each[0];
    if (t->kind == TYPE_TUPLE) {
        Expr **args = arena_new_array(&b->run->scratch, Expr *, t->n + 1);
        for (uint32_t f = 0; f < t->n; f++) {
            Expr **of = room_for_each(b);
            for (uint32_t i = 0; i < b->steps; i++)
                of[i] = field_of(b, each[i], f);
            Expr *parts = expr_tuple(b->m.arena, l->of->span, b->steps, of);
            Attr axis = ops_attr_int("axis", 0);
            args[f] = ops_call(&b->m, "concatenate", 1, &parts, 1, &axis);
        }
        return l->rows = expr_tuple(b->m.arena, l->of->span, t->n, args);
    }
    Expr *parts = expr_tuple(b->m.arena, l->of->span, b->steps, each);
    Attr axis = ops_attr_int("axis", 0);
    return l->rows = ops_call(&b->m, "concatenate", 1, &parts, 1, &axis);
}

static bool is_op(const Batcher *b, const Op *op, const char *name)
{
    return op == op_find(b->run->cx, str_of(name));
}

static bool has_lists(const Attrs *a)
{
    for (uint32_t i = 0; a && i < a->n; i++)
        if (a->at[i].value.kind == ATTR_LIST)
            return true;
    return false;
}

/* Whether the operator does with each row the same, and with what all have in common too; `attrs` receives those of the call of
 * several rows. */
static bool goes_by_rows(Batcher *b, const Call *call, const Attrs **attrs)
{
    const Op *op = expr_call_of_op(&call->base);
    const Type *out = type_find(call->base.type), *first;
    uint32_t varying = 0;
    *attrs = call->attrs;
    if (!op || !call->args.n || !is_row(out) || !(first = type_find(call->args.at[0]->type)))
        return false;
    for (uint32_t i = 0; i < call->args.n; i++) {
        const Lifted *l = lifted_of(b, call->args.at[i]);
        if (!l->same && !is_row(l->of->type))
            return false;
        varying += !l->same;
    }
    if (!varying)
        return false;
    bool only_first = varying == 1 && !lifted_of(b, call->args.at[0])->same;
    if (is_op(b, op, "nn.dense"))
        return only_first && first->n == 2;
    if (is_op(b, op, "nn.bias_add") || is_op(b, op, "split"))
        return only_first && ops_axis(call->attrs, "axis", (int)first->n) != 0;
    if (is_op(b, op, "concatenate"))
        return first->kind == TYPE_TUPLE && first->n &&
               ops_axis(call->attrs, "axis", (int)out->n) != 0;
    if (is_op(b, op, "reshape")) {
        int64_t shape[TENSOR_RANK_MOST];
        for (uint32_t i = 0; i < out->n; i++)
            shape[i] = i ? out->dims[i] : b->steps;
        Attr newshape = ops_attr_ints(&b->m, "newshape", out->n, shape);
        *attrs = attrs_with(b->m.arena, call->attrs, "newshape", newshape.value);
        return only_first && type_is_static(out);
    }
    if (op->pattern > OP_BROADCAST || out->kind != TYPE_TENSOR || has_lists(call->attrs))
        return false;
    for (uint32_t i = 0; i < call->args.n; i++) {
        const Type *t = type_find(call->args.at[i]->type);
        bool same = lifted_of(b, call->args.at[i])->same != NULL;
        if (t->kind != TYPE_TENSOR || (!same && t->n != out->n) || t->n > out->n ||
            (t->n == out->n && t->dims[0] != 1))
            return false;
    }
    return true;
}

static void note_weights(Batcher *b, const Call *call)
{
    const Op *op = expr_call_of_op(&call->base);
    const Constant *w = is_op(b, op, "nn.dense") ? expr_as_constant(call->args.at[1]) : NULL;
    const Type *t = w ? type_find(w->base.type) : NULL;
    int64_t size;
    if (t && t->kind == TYPE_TENSOR && shape_size((int)t->n, t->dims, &size))
        b->pays |= size * dtype_size(t->dtype) >= WEIGHTS_LEAST;
}

static Lifted *lift_call(Batcher *b, const Call *call, Lifted *l)
{
    Arena *scratch = &b->run->scratch;
    const Attrs *attrs;
    uint32_t n = call->args.n;
    bool by_rows = goes_by_rows(b, call, &attrs);
    Expr **args = arena_new_array(scratch, Expr *, n + 1);
    if (by_rows) {
        for (uint32_t i = 0; i < n; i++) {
            Lifted *arg = lifted_of(b, call->args.at[i]);
            args[i] = arg->same ? arg->same : rows_of(b, arg);
        }
        note_weights(b, call);
        l->rows = expr_call(b->m.arena, call->base.span, call->callee, n, args, attrs);
        return l;
    }
    l->each = room_for_each(b);
    for (uint32_t i = 0; i < b->steps; i++) {
        for (uint32_t k = 0; k < n; k++)
            args[k] = each_of(b, lifted_of(b, call->args.at[k]))[i];
        l->each[i] = expr_call(b->m.arena, call->base.span, call->callee, n, args, call->attrs);
    }
    return l;
}

static WalkNext lift_enters(void *data, const Expr *e)
{
    const Batcher *b = data;
    return is_self_call(b, e) ? WALK_SKIP : WALK_ON;
}

static WalkNext lift(void *data, const Expr *e)
{
    Batcher *b = data;
    if (ptrmap_find(&b->lifted, e) || e->kind == EXPR_VAR || e->kind == EXPR_CONSTANT ||
        e->kind == EXPR_OP || e->kind == EXPR_CON)
        return WALK_ON;
    Lifted *l = arena_new(&b->run->scratch, Lifted);
    *l = (Lifted){.of = e};
    switch (e->kind) {
    case EXPR_LET: l = lifted_of(b, expr_as_let(e)->body); break;
    case EXPR_CALL: lift_call(b, expr_as_call(e), l); break;
    case EXPR_TUPLE: {
        const Tuple *t = expr_as_tuple(e);
        l->fields = arena_new_array(&b->run->scratch, Lifted *, t->fields.n + 1);
        for (uint32_t i = 0; i < t->fields.n; i++)
            l->fields[i] = lifted_of(b, t->fields.at[i]);
        break;
    }
    default: {
        const TupleGet *get = expr_as_tuple_get(e);
        Lifted *of = lifted_of(b, get->tuple);
        if (of->fields) {
            l = of->fields[get->index];
        } else if (of->same) {
            l->same = (Expr *)e;
        } else if (of->rows) {
            l->rows = field_of(b, of->rows, (uint32_t)get->index);
        } else {
            l->each = room_for_each(b);
            for (uint32_t i = 0; i < b->steps; i++)
                l->each[i] = field_of(b, of->each[i], (uint32_t)get->index);
        }
    }
    }
    ptrmap_put(&b->lifted, e, l);
    return WALK_ON;
}

/* ---- the functions of a constructor ---------------------------------------------------------------------------------------- */

/* Binds one after the other and closes the body. */
typedef struct Binds {
    Vec(Var *) vars;
    Vec(Expr *) values;
} Binds;

static Expr *bind(const Batcher *b, Binds *binds, const char *name, Expr *value)
{
    Var *v = var_of(b, name, NULL);
    vec_push(&binds->vars, &b->run->scratch, v);
    vec_push(&binds->values, &b->run->scratch, value);
    return &v->base;
}

static Expr *close_binds(const Batcher *b, Binds *binds, Expr *body)
{
    while (binds->vars.n) {
        Var *v = vec_pop(&binds->vars);
        body = expr_let(b->m.arena, b->m.span, v, vec_pop(&binds->values), body);
    }
    return body;
}

/* The clause for so many nodes at the front of the list. */
static Clause step_clause(Batcher *b, const Kind *k, uint32_t steps, Var *const *lists, Var *done)
{
    Var *rest = var_of(b, "rest", NULL), *fields[STEPS_MOST][FIELDS_MOST] = {{0}};
    Pattern *pattern = var_pattern(b, rest);
    Binds binds = {0};
    Lists below = lists_from_vars(b, lists);
    b->steps = steps;
    b->kind = k;
    ptrmap_clear(&b->lifted);
    for (uint32_t i = steps; i-- > 0;) {
        for (uint32_t f = 0; f < k->con->n; f++)
            fields[i][f] = k->fields[f] ? var_of(b, k->fields[f]->name->text, NULL) : NULL;
        pattern = row_pattern(b, con_pattern(b, k->con, k->con->n, fields[i]), pattern);
    }
    for (uint32_t f = 0; f < k->con->n; f++) {
        if (!k->fields[f])
            continue;
        const Expr *of = k->result[f] ? &k->result[f]->base : &k->fields[f]->base;
        Lifted *l = arena_new(&b->run->scratch, Lifted);
        *l = (Lifted){.of = of, .each = room_for_each(b)};
        ptrmap_put(&b->lifted, of, l);
    }
    for (uint32_t i = 0; i < steps; i++)
        for (uint32_t f = 0; f < k->con->n; f++) {
            if (!k->fields[f])
                continue;
            Expr *value = &fields[i][f]->base;
            if (k->result[f]) {
                Expr *popped =
                    bind(b, &binds, "popped", call_with_lists(b, b->pop, value, &below, NULL));
                below = lists_from_fields(b, popped, 1);
                value = field_of(b, popped, 0);
            }
            const Expr *of = k->result[f] ? &k->result[f]->base : &k->fields[f]->base;
            lifted_of(b, of)->each[i] = value;
        }
    ir_walk(k->body, lift_enters, lift, b);
    Expr **each = each_of(b, lifted_of(b, k->body)), *acc = &done->base;
    for (uint32_t i = 0; i < steps; i++)
        acc = row_of(b, each[i], acc);
    Expr *next = call_with_lists(b, k->step, &rest->base, &below, acc);
    return (Clause){.pattern = pattern, .body = close_binds(b, &binds, next)};
}

/* `%step(nodes, results below…, done)` gives what is left of the results and all that is done. */
static Expr *step_function(Batcher *b, Kind *k)
{
    Var *params[FIELDS_MOST + 2], **lists = params + 1;
    Clause clauses[4];
    uint32_t n = 0;
    params[0] = var_of(b, "nodes", b->types);
    lists_of(b, "below", b->results, lists);
    Var *done = params[b->n + 1] = var_of(b, "done", b->results);
    b->pays = false;
    Clause one = step_clause(b, k, 1, lists, done);
    for (uint32_t steps = b->pays ? STEPS_MOST : 1; steps > 1; steps /= 2)
        clauses[n++] = step_clause(b, k, steps, lists, done);
    clauses[n++] = one;
    Expr *fields[FIELDS_MOST + 1] = {&done->base};
    for (uint32_t i = 0; i < b->n; i++)
        fields[i + 1] = &lists[i]->base;
    clauses[n++] = (Clause){.pattern = con_pattern(b, b->none, 0, NULL),
                            .body = expr_tuple(b->m.arena, b->m.span, b->n + 1, fields)};
    Expr *body = match_of(b, &params[0]->base, n, clauses, false);
    return function_of(b, b->n + 2, params, tuple_type(b, b->results, b->results), body);
}

/* `%below(nodes, lists…)` puts what is under the nodes on the lists. */
static Expr *below_function(Batcher *b, Kind *k)
{
    Var *params[FIELDS_MOST + 1], **lists = params + 1, *fields[FIELDS_MOST];
    params[0] = var_of(b, "nodes", b->types);
    lists_of(b, "found", b->types, lists);
    Var *rest = var_of(b, "rest", NULL);
    Lists l = lists_from_vars(b, lists);
    Binds binds = {0};
    for (uint32_t f = 0; f < k->con->n; f++) {
        fields[f] = k->result[f] ? var_of(b, "node", NULL) : NULL;
        if (fields[f])
            l = lists_from_fields(
                b,
                bind(b, &binds, "found", call_with_lists(b, b->push, &fields[f]->base, &l, NULL)),
                0);
    }
    Expr *next = close_binds(b, &binds, call_with_lists(b, k->below, &rest->base, &l, NULL));
    Clause clauses[2] = {
        {.pattern = con_pattern(b, b->none, 0, NULL), .body = tuple_of_vars(b, lists)},
        {.pattern = row_pattern(b, con_pattern(b, k->con, k->con->n, fields), var_pattern(b, rest)),
         .body = next}};
    return function_of(b, b->n + 1, params, tuple_type(b, NULL, b->types),
                       match_of(b, &params[0]->base, 2, clauses, false));
}

/* ---- the functions of all -------------------------------------------------------------------------------------------------- */

static Expr *push_function(Batcher *b)
{
    Var *params[FIELDS_MOST + 1];
    Clause clauses[FIELDS_MOST];
    params[0] = var_of(b, "node", b->type);
    lists_of(b, "found", b->types, params + 1);
    for (uint32_t k = 0; k < b->n; k++) {
        Lists l = lists_from_vars(b, params + 1);
        l.at[k] = row_of(b, &params[0]->base, l.at[k]);
        clauses[k] = (Clause){.pattern = any_of(b, &b->kinds[k]),
                              .body = expr_tuple(b->m.arena, b->m.span, b->n, l.at)};
    }
    return function_of(b, b->n + 1, params, tuple_type(b, NULL, b->types),
                       match_of(b, &params[0]->base, b->n, clauses, true));
}

static Expr *pop_function(Batcher *b)
{
    Var *params[FIELDS_MOST + 1];
    Clause clauses[FIELDS_MOST];
    params[0] = var_of(b, "node", b->type);
    lists_of(b, "results", b->results, params + 1);
    for (uint32_t k = 0; k < b->n; k++) {
        Var *first = var_of(b, "result", NULL), *rest = var_of(b, "rest", NULL);
        Expr *fields[FIELDS_MOST + 1] = {&first->base};
        for (uint32_t i = 0; i < b->n; i++)
            fields[i + 1] = i == k ? &rest->base : &params[i + 1]->base;
        Clause some = {.pattern = row_pattern(b, var_pattern(b, first), var_pattern(b, rest)),
                       .body = expr_tuple(b->m.arena, b->m.span, b->n + 1, fields)};
        clauses[k] = (Clause){.pattern = any_of(b, &b->kinds[k]),
                              .body = match_of(b, &params[k + 1]->base, 1, &some, false)};
    }
    return function_of(b, b->n + 1, params, tuple_type(b, b->result, b->results),
                       match_of(b, &params[0]->base, b->n, clauses, true));
}

static Expr *truth(const Batcher *b, bool v)
{
    return expr_constant(b->m.arena, b->m.span, value_bool(v));
}

/* `%level(lists…)`: the results of these nodes. */
static Expr *level_function(Batcher *b)
{
    Var *lists[FIELDS_MOST];
    Expr *more = truth(b, false), *results[FIELDS_MOST];
    Binds down = {0}, up = {0};
    lists_of(b, "nodes", b->types, lists);
    Lists below = empty_lists(b);
    for (uint32_t k = 0; k < b->n; k++) {
        if (!b->kinds[k].below)
            continue;
        Clause clauses[2] = {
            {.pattern = con_pattern(b, b->none, 0, NULL), .body = more},
            {.pattern = con_pattern(b, b->row, 2, (Var *[2]){0}), .body = truth(b, true)}};
        more = match_of(b, &lists[k]->base, 2, clauses, true);
        below = lists_from_fields(
            b,
            bind(b, &down, "found",
                 call_with_lists(b, b->kinds[k].below, &lists[k]->base, &below, NULL)),
            0);
    }
    Expr *go = close_binds(b, &down, call_with_lists(b, b->level, NULL, &below, NULL));
    Expr *stop = expr_tuple(b->m.arena, b->m.span, b->n, empty_lists(b).at);
    Lists given = lists_from_fields(
        b, bind(b, &up, "below", expr_if(b->m.arena, b->m.span, more, go, stop)), 0);
    for (uint32_t k = 0; k < b->n; k++) {
        Expr *step = call_with_lists(b, b->kinds[k].step, &lists[k]->base, &given,
                                     con_of(b, b->none, 0, NULL));
        step = bind(b, &up, "done", step);
        results[k] = field_of(b, step, 0);
        given = lists_from_fields(b, step, 1);
    }
    return function_of(b, b->n, lists, tuple_type(b, NULL, b->results),
                       close_binds(b, &up, expr_tuple(b->m.arena, b->m.span, b->n, results)));
}

/* The lists of this program; false where it has something of that name itself. */
static bool make_lists(Batcher *b)
{
    Ctx *cx = b->run->cx;
    const Module *in[] = {b->run->module, b->run->context->env};
    b->list = typedef_rows(cx);
    b->row = b->list->cons[0];
    b->none = b->list->cons[1];
    for (size_t i = 0; i < 2; i++) {
        if (!in[i])
            continue;
        const TypeDef *def = module_find_type(in[i], b->list->name);
        if ((def && def != b->list) || (!def && (module_find_con(in[i], b->row->name) ||
                                                 module_find_con(in[i], b->none->name))))
            return false;
    }
    b->types = type_adt(cx, b->list, 1, &b->type);
    b->results = type_adt(cx, b->list, 1, &b->result);
    return true;
}

static void add_function(Batcher *b, Binds *binds, Var *self, Expr *fn)
{
    vec_push(&binds->vars, &b->run->scratch, self);
    vec_push(&binds->values, &b->run->scratch, fn);
}

/* The body of the function; NULL where nothing is gained. */
static Expr *batched(Batcher *b)
{
    Binds binds = {0};
    bool pays = false;
    b->push = var_of(b, "push", NULL);
    b->pop = var_of(b, "pop", NULL);
    b->level = var_of(b, "level", NULL);
    add_function(b, &binds, b->push, push_function(b));
    add_function(b, &binds, b->pop, pop_function(b));
    for (uint32_t i = 0; i < b->n; i++) {
        Kind *k = &b->kinds[i];
        k->below = k->calls ? var_of(b, "below", NULL) : NULL;
        k->step = var_of(b, "step", NULL);
        if (k->below)
            add_function(b, &binds, k->below, below_function(b, k));
        add_function(b, &binds, k->step, step_function(b, k));
        pays |= b->pays;
    }
    add_function(b, &binds, b->level, level_function(b));
    Lists none = empty_lists(b);
    Expr *tree = &b->fn->params.at[b->tree]->base;
    Lists found = lists_from_fields(
        b, bind(b, &binds, "found", call_with_lists(b, b->push, tree, &none, NULL)), 0);
    Lists done = lists_from_fields(
        b, bind(b, &binds, "done", call_with_lists(b, b->level, NULL, &found, NULL)), 0);
    Expr *popped = call_with_lists(b, b->pop, tree, &done, NULL);
    Expr *body = close_binds(b, &binds, field_of(b, popped, 0));
    return pays ? body : NULL;
}

static Expr *look_at_let(Rewriter *rw, const Expr *old, Expr *now)
{
    Batcher *b = rw->data;
    const Let *let = expr_as_let(old);
    const Function *f = let ? expr_as_function(let->value) : NULL;
    if (!f || !read_function(b, let->var, f) || !make_lists(b))
        return now;
    b->m.span = f->base.span;
    ptrmap_clear(&b->bound);
    note_lets(f->body, &b->bound);
    Expr *body = batched(b);
    if (!body)
        return now;
    Function *made = expr_function(b->m.arena, f->base.span, (TypeVarList){0}, f->params.n,
                                   f->params.at, NULL, b->result, body);
    /* Nothing in it is shared with the function. */
    Expr *fresh = ir_copy(b->run->cx, b->run->module, &made->base);
    const Let *kept = expr_as_let(now);
    if (!module_find_type(b->run->module, b->list->name))
        module_define_type(b->run->module, b->list);
    return fresh ? expr_let(b->m.arena, old->span, kept->var, fresh, kept->body) : NULL;
}

static Function *batch(PassRun *run, const Def *def)
{
    Batcher b = {.run = run, .m = {run->cx, &run->module->arena, def->span}};
    Rewriter rw;
    pass_rewriter_init(&rw, run, look_at_let, &b);
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    ptrmap_deinit(&b.lifted);
    ptrmap_deinit(&b.bound);
    return expr_as_function(now);
}

const Pass pass_batch_recursion = {
    .name = "BatchRecursion",
    .doc = "Functions that go through a tree and multiply with known weights at each node take all "
           "nodes of one depth "
           "together, several at a time in one product.",
    .opt_level = 2,
    .needs_types = true,
    .reorders = true,
    .function = batch,
};
