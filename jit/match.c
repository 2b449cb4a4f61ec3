/* `if` and `match`.
 *
 * A switch goes to the first clause that the value's constructor may fit; where the fields do not fit, the next such clause is tried. A clause's variables are loaded from the value's fields; when the value ends with the match and nobody
 * else holds it, its fields move out of it and its memory goes back, so that a list that is consumed is freed on the way. */
#include "jit/internal.h"

typedef struct Join {
    LLVMBasicBlockRef block;
    Ssa phi;
    bool reached;
} Join;

static void join_start(Fn *f, Join *j, const Type *type, bool tail)
{
    Gen *g = f->g;
    *j = (Join){0};
    if (tail)
        return;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->b);
    j->block = gen_block(g, f->fn, "join");
    LLVMPositionBuilderAtEnd(g->b, j->block);
    j->phi = LLVMBuildPhi(g->b, gen_type(g, repr_of(type)), "");
    LLVMPositionBuilderAtEnd(g->b, here);
}

static void join_from(Fn *f, Join *j, Ssa v)
{
    if (!v || f->g->failed)
        return;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(f->g->b);
    LLVMAddIncoming(j->phi, &v, &here, 1);
    LLVMBuildBr(f->g->b, j->block);
    j->reached = true;
}

static Ssa join_end(Fn *f, Join *j, bool tail)
{
    f->ended = tail || !j->reached;
    if (f->ended)
        return NULL;
    LLVMPositionBuilderAtEnd(f->g->b, j->block);
    return j->phi;
}

static LiveBlock *next_inner(Fn *f)
{
    return f->block->inner.at[f->block->next++];
}

Ssa fn_if(Fn *f, const If *e, const Type *type, bool tail)
{
    Gen *g = f->g;
    Join join;
    Ssa cond = fn_borrow(f, e->cond);
    join_start(f, &join, type, tail);
    LLVMBasicBlockRef then = gen_block(g, f->fn, "then"), otherwise = gen_block(g, f->fn, "else");
    LLVMBuildCondBr(g->b, cond, then, otherwise);
    LLVMPositionBuilderAtEnd(g->b, then);
    join_from(f, &join, fn_block(f, next_inner(f), type, tail, NULL, NULL));
    LLVMPositionBuilderAtEnd(g->b, otherwise);
    join_from(f, &join, fn_block(f, next_inner(f), type, tail, NULL, NULL));
    return join_end(f, &join, tail);
}

/* ---- patterns --------------------------------------------------------------------------------------------------- */

#define PATTERN_DEPTH_MOST 200

typedef struct Clausing {
    const Pattern *pattern;
    const Var *scrutinee; /* NULL when it is no variable */
    const Type *type;
    Ssa value;
    LLVMBasicBlockRef next; /* where to go when the fields do not fit; NULL: they must fit */
} Clausing;

static const Type *field_type(Fn *f, const Pattern *p, const Type *type, uint32_t i)
{
    if (p->kind == PATTERN_TUPLE)
        return type->parts[i];
    const TypeDef *def = p->con->type;
    return type_subst(f->g->cx, p->con->fields[i], def->n_params, def->params, type->parts);
}

static bool has_choice(const Pattern *p)
{
    return p->kind == PATTERN_CON && p->con->type->n_cons > 1;
}

static void test_fields(Fn *f, const Pattern *p, const Type *type, Ssa v, LLVMBasicBlockRef next,
                        int depth);

/* Jumps away unless the value has the pattern's constructors. */
static void test(Fn *f, const Pattern *p, const Type *type, Ssa v, LLVMBasicBlockRef next,
                 int depth)
{
    Gen *g = f->g;
    if (p->kind == PATTERN_WILDCARD || p->kind == PATTERN_VAR)
        return;
    if (depth > PATTERN_DEPTH_MOST) {
        gen_refuse(g, "a pattern that is nested too deeply");
        return;
    }
    if (has_choice(p)) {
        LLVMBasicBlockRef fits = gen_block(g, f->fn, p->con->name->text);
        Ssa tag = fn_tag(f, v, p->con->type->n_cons);
        Ssa same = LLVMBuildICmp(g->b, LLVMIntEQ, tag, gen_int(g->i32, p->con->index), "");
        LLVMBuildCondBr(g->b, same, fits, next);
        LLVMPositionBuilderAtEnd(g->b, fits);
    }
    test_fields(f, p, type, v, next, depth);
}

static void test_fields(Fn *f, const Pattern *p, const Type *type, Ssa v, LLVMBasicBlockRef next,
                        int depth)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const Pattern *field = p->fields[i];
        if (field->kind == PATTERN_WILDCARD || field->kind == PATTERN_VAR)
            continue;
        const Type *t = field_type(f, p, type, i);
        test(f, field, t, fn_get_field(f, v, i, repr_of(t)), next, depth + 1);
    }
}

static bool is_used(const Fn *f, const Var *v)
{
    return ptrmap_find(&f->block->last, v) != NULL;
}

/* Variables that nobody uses are bound without a value; the others get one of their own. */
static void bind_fields(Fn *f, const Pattern *p, const Type *type, Ssa v)
{
    if (p->kind == PATTERN_VAR && is_used(f, p->var)) {
        fn_retain(f, repr_of(type), v);
        fn_bind(f, p->var, type, v);
    }
    for (uint32_t i = 0; i < p->n; i++) {
        const Type *t = field_type(f, p, type, i);
        bind_fields(f, p->fields[i], t, fn_get_field(f, v, i, repr_of(t)));
    }
}

static bool is_flat(const Pattern *p)
{
    if (p->kind != PATTERN_CON && p->kind != PATTERN_TUPLE)
        return false;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->fields[i]->kind != PATTERN_WILDCARD && p->fields[i]->kind != PATTERN_VAR)
            return false;
    return p->n > 0;
}

static bool field_is_used(const Fn *f, const Pattern *p)
{
    return p->kind == PATTERN_VAR && is_used(f, p->var);
}

/* The fields that are used get an owner of their own, and the value goes. */
static void share_fields(Fn *f, const Clausing *c, const Type *const *types, const Ssa *fields)
{
    const Pattern *p = c->pattern;
    for (uint32_t i = 0; i < p->n; i++)
        if (field_is_used(f, p->fields[i]))
            fn_retain(f, repr_of(types[i]), fields[i]);
    fn_release(f, repr_of(c->type), c->value);
}

/* When nobody else holds the value, its fields move out and the cell goes; else they are shared. */
static void move_fields(Fn *f, const Clausing *c, const Type *const *types, const Ssa *fields)
{
    Gen *g = f->g;
    const Pattern *p = c->pattern;
    LLVMBasicBlockRef alone = gen_block(g, f->fn, "alone"), shared = gen_block(g, f->fn, "shared");
    LLVMBasicBlockRef go = gen_block(g, f->fn, "go");
    Ssa refs = gen_load(g, g->i32, c->value, offsetof(Object, refs));
    LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntEQ, refs, gen_int(g->i32, 1), ""), alone,
                    shared);
    LLVMPositionBuilderAtEnd(g->b, alone);
    for (uint32_t i = 0; i < p->n; i++)
        if (!field_is_used(f, p->fields[i]))
            fn_release(f, repr_of(types[i]), fields[i]);
    fn_free_cell(f, c->value, p->n);
    LLVMBuildBr(g->b, go);
    LLVMPositionBuilderAtEnd(g->b, shared);
    share_fields(f, c, types, fields);
    LLVMBuildBr(g->b, go);
    LLVMPositionBuilderAtEnd(g->b, go);
}

/* The value ends here. */
static void consume(Fn *f, const Clausing *c)
{
    const Pattern *p = c->pattern;
    Ssa *fields = arena_new_array(f->g->arena, Ssa, p->n);
    const Type **types = arena_new_array(f->g->arena, const Type *, p->n);
    for (uint32_t i = 0; i < p->n; i++) {
        types[i] = field_type(f, p, c->type, i);
        fields[i] = fn_get_field(f, c->value, i, repr_of(types[i]));
    }
    if (fn_is_large(f))
        share_fields(f, c, types, fields);
    else
        move_fields(f, c, types, fields);
    for (uint32_t i = 0; i < p->n; i++)
        if (field_is_used(f, p->fields[i]))
            fn_bind(f, p->fields[i]->var, types[i], fields[i]);
}

/* Whether the value is ours and this clause does not use it. */
static bool ends_here(Fn *f, const Clausing *c)
{
    const LiveBlock *b = f->block;
    Val *val = c->scrutinee ? ptrmap_find(&f->vals, c->scrutinee) : NULL;
    return val && !val->fixed && val->at && !is_used(f, c->scrutinee) &&
           live_is_last(f->live, b->parent, b->parent_at, c->scrutinee);
}

static void start_clause(Fn *f, void *data)
{
    Clausing *c = data;
    const Pattern *p = c->pattern;
    bool ends = ends_here(f, c);
    if (ends && p->kind == PATTERN_CON && p->con->n == 0) {
        fn_moved(f, c->scrutinee); /* it is immortal */
        return;
    }
    if (!ends || !is_flat(p)) {
        bind_fields(f, p, c->type, c->value);
        return;
    }
    fn_moved(f, c->scrutinee);
    consume(f, c);
}

static void no_match(Fn *f, const Clausing *c, Span span)
{
    Gen *g = f->g;
    Repr r = repr_of(c->type);
    Ssa room = fn_room(f, LLVMArrayType2(g->i64, 2), 1);
    gen_store(g, gen_head(g, r), room, 0);
    gen_store(g, gen_bits(g, r, c->value), room, 8);
    Ssa args[5] = {f->state, room};
    gen_span(g, span, args + 2);
    gen_call_abi(g, "relay_no_match", args, 5);
    fn_leave(f);
}

static const Constructor *choice_of(const Clause *clause)
{
    return has_choice(clause->pattern) ? clause->pattern->con : NULL;
}

/* The first clause from the i-th on that a value of the constructor may fit (NULL: a value without choice); their number when there is none. */
static uint32_t clause_for(const Match *e, uint32_t i, const Constructor *con)
{
    for (; i < e->clauses.n; i++) {
        const Constructor *other = choice_of(&e->clauses.at[i]);
        if (!other || other == con)
            break;
    }
    return i;
}

/* Goes to the first clause that the value may fit, or to `none`. */
static void dispatch(Fn *f, const Match *e, const Clausing *c, const LLVMBasicBlockRef *clauses,
                     LLVMBasicBlockRef none)
{
    Gen *g = f->g;
    const Constructor *con = e->clauses.n ? choice_of(&e->clauses.at[0]) : NULL;
    if (!con) {
        LLVMBuildBr(g->b, clauses[0]);
        return;
    }
    /* What no case names is what the others leave: a clause without constructor, or the last of a match that misses nothing. */
    uint32_t rest = clause_for(e, 0, NULL), n_cons = con->type->n_cons;
    if (rest == e->clauses.n && e->complete)
        rest--;
    bool *known = arena_new_array(g->arena, bool, n_cons);
    Ssa cases = LLVMBuildSwitch(g->b, fn_tag(f, c->value, n_cons),
                                rest < e->clauses.n ? clauses[rest] : none, n_cons);
    for (uint32_t i = 0; i < rest; i++) {
        con = choice_of(&e->clauses.at[i]);
        if (!known[con->index])
            LLVMAddCase(cases, gen_int(g->i32, con->index), clauses[i]);
        known[con->index] = true;
    }
}

static void add_clause(Fn *f, Clausing *c, Join *join, const Type *type, bool tail)
{
    if (c->next)
        test_fields(f, c->pattern, c->type, c->value, c->next, 0);
    if (!f->g->failed)
        join_from(f, join, fn_block(f, next_inner(f), type, tail, start_clause, c));
}

Ssa fn_match(Fn *f, const Match *e, const Type *type, bool tail)
{
    Gen *g = f->g;
    Clausing c = {.scrutinee = expr_as_var(e->scrutinee), .type = fn_type(f, e->scrutinee)};
    Val *val = c.scrutinee ? fn_val(f, e->scrutinee) : NULL;
    if (val)
        c.type = val->type;
    c.value = fn_borrow(f, e->scrutinee);
    Join join;
    join_start(f, &join, type, tail);
    uint32_t n = e->clauses.n;
    LLVMBasicBlockRef *clauses = arena_new_array(g->arena, LLVMBasicBlockRef, n + 1);
    for (uint32_t i = 0; i < n; i++)
        clauses[i] = gen_block(g, f->fn, "clause");
    LLVMBasicBlockRef none = e->complete && n > 0 ? NULL : gen_block(g, f->fn, "none");
    clauses[n] = none;
    dispatch(f, e, &c, clauses, none);
    for (uint32_t i = 0; i < n && !g->failed; i++) {
        c.next = clauses[clause_for(e, i + 1, choice_of(&e->clauses.at[i]))];
        c.pattern = e->clauses.at[i].pattern;
        LLVMPositionBuilderAtEnd(g->b, clauses[i]);
        add_clause(f, &c, &join, type, tail);
    }
    if (g->failed)
        return NULL;
    if (none) {
        LLVMPositionBuilderAtEnd(g->b, none);
        no_match(f, &c, e->base.span);
    }
    return join_end(f, &join, tail);
}
