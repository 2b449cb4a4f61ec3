/* `if` and `match`.
 *
 * Clauses are tried in order. A clause's variables are loaded from the value's fields; when the value ends with the match and nobody
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
    Ssa tag; /* the value's constructor; NULL when nobody asks */
    LLVMBasicBlockRef next; /* where to go when it does not fit; NULL: it must fit */
} Clausing;

static const Type *field_type(Fn *f, const Pattern *p, const Type *type, uint32_t i)
{
    if (p->kind == PATTERN_TUPLE)
        return type->parts[i];
    const TypeDef *def = p->con->type;
    return type_subst(f->g->cx, p->con->fields[i], def->n_params, def->params, type->parts);
}

static Ssa tag_of(Fn *f, Ssa object)
{
    Ssa info = gen_load(f->g, f->g->ptr, object, offsetof(Object, info));
    return gen_load(f->g, f->g->i32, info, offsetof(ObjectInfo, tag));
}

static bool has_choice(const Pattern *p)
{
    return p->kind == PATTERN_CON && p->con->type->n_cons > 1;
}

/* Jumps away unless the value has the pattern's constructors. */
static void test(Fn *f, const Pattern *p, const Type *type, Ssa v, Ssa tag, LLVMBasicBlockRef next,
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
        Ssa index = gen_int(g->i32, p->con->index);
        Ssa same = LLVMBuildICmp(g->b, LLVMIntEQ, tag ? tag : tag_of(f, v), index, "");
        LLVMBuildCondBr(g->b, same, fits, next);
        LLVMPositionBuilderAtEnd(g->b, fits);
    }
    for (uint32_t i = 0; i < p->n; i++) {
        const Pattern *field = p->fields[i];
        if (field->kind == PATTERN_WILDCARD || field->kind == PATTERN_VAR)
            continue;
        const Type *t = field_type(f, p, type, i);
        test(f, field, t, fn_get_field(f, v, i, repr_of(t)), NULL, next, depth + 1);
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

/* The value ends here: when it is ours alone, its fields move out and the cell goes; else they are shared. */
static void consume(Fn *f, const Clausing *c)
{
    Gen *g = f->g;
    const Pattern *p = c->pattern;
    Ssa *fields = arena_new_array(g->arena, Ssa, p->n);
    const Type **types = arena_new_array(g->arena, const Type *, p->n);
    for (uint32_t i = 0; i < p->n; i++) {
        types[i] = field_type(f, p, c->type, i);
        fields[i] = fn_get_field(f, c->value, i, repr_of(types[i]));
    }
    LLVMBasicBlockRef alone = gen_block(g, f->fn, "alone"), shared = gen_block(g, f->fn, "shared");
    LLVMBasicBlockRef go = gen_block(g, f->fn, "go");
    Ssa refs = gen_load(g, g->i32, c->value, offsetof(Object, refs));
    LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntEQ, refs, gen_int(g->i32, 1), ""), alone,
                    shared);
    LLVMPositionBuilderAtEnd(g->b, alone);
    for (uint32_t i = 0; i < p->n; i++)
        if (!field_is_used(f, p->fields[i]))
            fn_release(f, repr_of(types[i]), fields[i]);
    Ssa cell = c->value;
    gen_call_abi(g, "relay_free_cell", &cell, 1);
    LLVMBuildBr(g->b, go);
    LLVMPositionBuilderAtEnd(g->b, shared);
    for (uint32_t i = 0; i < p->n; i++)
        if (field_is_used(f, p->fields[i]))
            fn_retain(f, repr_of(types[i]), fields[i]);
    fn_release(f, repr_of(c->type), c->value);
    LLVMBuildBr(g->b, go);
    LLVMPositionBuilderAtEnd(g->b, go);
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
    Ssa args[5] = {f->state, room, gen_int(g->i32, span.source), gen_int(g->i32, span.from),
                   gen_int(g->i32, span.to)};
    gen_call_abi(g, "relay_no_match", args, 5);
    fn_leave(f);
}

static void add_clause(Fn *f, Clausing *c, Join *join, const Type *type, bool tail)
{
    Gen *g = f->g;
    if (c->next)
        test(f, c->pattern, c->type, c->value, c->tag, c->next, 0);
    if (g->failed)
        return;
    join_from(f, join, fn_block(f, next_inner(f), type, tail, start_clause, c));
    if (c->next)
        LLVMPositionBuilderAtEnd(g->b, c->next);
}

Ssa fn_match(Fn *f, const Match *e, const Type *type, bool tail)
{
    Clausing c = {.scrutinee = expr_as_var(e->scrutinee), .type = fn_type(f, e->scrutinee)};
    Val *val = c.scrutinee ? fn_val(f, e->scrutinee) : NULL;
    if (val)
        c.type = val->type;
    c.value = fn_borrow(f, e->scrutinee);
    Join join;
    join_start(f, &join, type, tail);
    for (uint32_t i = 0; i < e->clauses.n; i++)
        if (!c.tag && has_choice(e->clauses.at[i].pattern))
            c.tag = tag_of(f, c.value);
    for (uint32_t i = 0; i < e->clauses.n && !f->g->failed; i++) {
        bool must_fit = e->complete && i + 1 == e->clauses.n;
        c.next = must_fit ? NULL : gen_block(f->g, f->fn, "next");
        c.pattern = e->clauses.at[i].pattern;
        add_clause(f, &c, &join, type, tail);
    }
    if (f->g->failed)
        return NULL;
    if (c.next)
        no_match(f, &c, e->base.span);
    return join_end(f, &join, tail);
}
