/* `if` and `match`.
 *
 * A switch goes to the first clause that the value's constructor may fit; where the fields do not fit, the next such clause is tried. A clause's variables are loaded from the value's fields; when the value ends with the match and nobody
 * else holds it, its fields move out of it, and its memory becomes the next object of its size that the clause makes (cell.c): what maps,
 * sorts or turns a list around makes no cells. */
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
    own_phi(f, j->phi);
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
    fn_cells_branch(f, &e->base, tail);
    LLVMPositionBuilderAtEnd(g->b, then);
    join_from(f, &join, fn_block(f, next_inner(f), type, tail, NULL, NULL));
    LLVMPositionBuilderAtEnd(g->b, otherwise);
    join_from(f, &join, fn_block(f, next_inner(f), type, tail, NULL, NULL));
    fn_cells_join(f);
    return join_end(f, &join, tail);
}

/* ---- patterns --------------------------------------------------------------------------------------------------- */

#define PATTERN_DEPTH_MOST 200

typedef struct Clausing {
    const Pattern *pattern;
    const Var *scrutinee; /* NULL when it is no variable */
    const Type *type;
    Ssa value;
    bool made; /* a function that was made for the match: the clause has it */
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

/* Whether the clause uses something of what the pattern names. */
static bool pattern_uses(const Fn *f, const Pattern *p)
{
    bool used = p->kind == PATTERN_VAR && is_used(f, p->var);
    for (uint32_t i = 0; i < p->n && !used; i++)
        used = pattern_uses(f, p->fields[i]);
    return used;
}

/* What it fits is immortal. */
static bool is_leaf(const Pattern *p)
{
    return p->kind == PATTERN_CON && p->con->n == 0;
}

typedef struct Parts {
    const Pattern *pattern;
    const Type **types;
    Ssa *fields;
    bool *used;
} Parts;

static Parts parts_of(Fn *f, const Pattern *p, const Type *type, Ssa v)
{
    Arena *a = f->g->arena;
    Parts all = {p, arena_new_array(a, const Type *, p->n + 1), arena_new_array(a, Ssa, p->n + 1),
                 arena_new_array(a, bool, p->n + 1)};
    for (uint32_t i = 0; i < p->n; i++) {
        all.types[i] = field_type(f, p, type, i);
        all.fields[i] = fn_get_field(f, v, i, repr_of(all.types[i]));
        all.used[i] = pattern_uses(f, p->fields[i]);
    }
    return all;
}

/* The fields that are used get an owner of their own. */
static void share_parts(Fn *f, const Parts *all)
{
    for (uint32_t i = 0; i < all->pattern->n; i++)
        if (all->used[i])
            fn_retain(f, repr_of(all->types[i]), all->fields[i]);
}

/* When nobody else holds the value, its fields move out, and its cell goes or is what the next object of this size is made of; else
 * they are shared. */
static void move_parts(Fn *f, const Parts *all, Ssa v)
{
    Gen *g = f->g;
    const Pattern *p = all->pattern;
    bool kept = fn_wants_cell(f, p->n);
    LLVMBasicBlockRef alone = gen_block(g, f->fn, "alone"), shared = gen_block(g, f->fn, "shared");
    LLVMBasicBlockRef go = gen_block(g, f->fn, "go");
    Ssa refs = gen_load(g, g->i32, v, offsetof(Object, refs));
    LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntEQ, refs, gen_int(g->i32, 1), ""), alone,
                    shared);
    LLVMPositionBuilderAtEnd(g->b, alone);
    for (uint32_t i = 0; i < p->n; i++)
        if (all->used[i] || !is_leaf(p->fields[i]))
            own_gain(f, all->fields[i]);
    for (uint32_t i = 0; i < p->n; i++)
        if (!all->used[i] && !is_leaf(p->fields[i]))
            fn_release(f, repr_of(all->types[i]), all->fields[i]);
    if (!kept)
        fn_free_cell(f, v, p->n);
    alone = LLVMGetInsertBlock(g->b);
    LLVMBuildBr(g->b, go);
    LLVMPositionBuilderAtEnd(g->b, shared);
    share_parts(f, all);
    fn_release_shared(f, v, refs);
    shared = LLVMGetInsertBlock(g->b);
    LLVMBuildBr(g->b, go);
    LLVMPositionBuilderAtEnd(g->b, go);
    if (!kept)
        return;
    Ssa cell = LLVMBuildPhi(g->b, g->ptr, ""), none = LLVMConstNull(g->ptr);
    LLVMAddIncoming(cell, &v, &alone, 1);
    LLVMAddIncoming(cell, &none, &shared, 1);
    own_phi(f, cell);
    fn_keep_cell(f, cell, p->n);
}

/* The variable may have been lent its value outside this block. */
static void bind_own(Fn *f, const Var *v, const Type *type, Ssa at)
{
    Val *before = ptrmap_find(&f->vals, v);
    if (before)
        vec_push(&f->rebound, f->g->arena, ((Rebound){v, before}));
    fn_bind(f, v, type, at);
}

/* The value, which is the clause's, ends here. */
static void take_apart(Fn *f, const Pattern *p, const Type *type, Ssa v)
{
    Parts all = parts_of(f, p, type, v);
    if (pattern_uses(f, p) || fn_wants_cell(f, p->n)) {
        move_parts(f, &all, v);
    } else {
        fn_release(f, repr_of(type), v);
    }
    for (uint32_t i = 0; i < p->n; i++) {
        if (!all.used[i])
            continue;
        if (p->fields[i]->kind == PATTERN_VAR)
            bind_own(f, p->fields[i]->var, all.types[i], all.fields[i]);
        else
            take_apart(f, p->fields[i], all.types[i], all.fields[i]);
    }
}

void fn_end_value(Fn *f, const Var *v)
{
    const Val *val = ptrmap_find(&f->vals, v);
    for (size_t i = f->opened.n; i-- > 0;) {
        const Opened *o = &f->opened.at[i];
        if (o->var == v) {
            take_apart(f, o->pattern, o->type, val->at);
            return;
        }
    }
    fn_release(f, val->repr, val->at);
}

/* Whether the value is ours, and the match the last to use it outside its clauses. */
static bool is_ours(Fn *f, const Clausing *c)
{
    const LiveBlock *b = f->block;
    const Val *val = c->scrutinee ? ptrmap_find(&f->vals, c->scrutinee) : NULL;
    return val && !val->fixed && !val->lent && val->at &&
           live_is_last(f->live, b->parent, b->parent_at, c->scrutinee);
}

/* ---- fields that are lent: no counts for what lives no longer than the value ------------------------------------- */

/* What waits in the plan of kernels may be read later. */
static bool may_wait(const Type *t)
{
    return t->kind != TYPE_ADT && t->kind != TYPE_FUNC && repr_of(t).kind != REPR_SCALAR;
}

static bool holds_waiting(Fn *f, const Pattern *p, const Type *type)
{
    bool waits = p->kind == PATTERN_VAR && is_used(f, p->var) && may_wait(type);
    for (uint32_t i = 0; i < p->n && !waits; i++)
        waits = holds_waiting(f, p->fields[i], field_type(f, p, type, i));
    return waits;
}

static uint32_t last_use(const LiveBlock *b, const Var *v)
{
    return (uint32_t)(uintptr_t)ptrmap_find(&b->last, v);
}

/* Whether a variable of the pattern is used in the block behind this use. */
static bool used_behind(const LiveBlock *b, const Pattern *p, uint32_t use)
{
    bool behind = p->kind == PATTERN_VAR && last_use(b, p->var) > use;
    for (uint32_t i = 0; i < p->n && !behind; i++)
        behind = used_behind(b, p->fields[i], use);
    return behind;
}

static const Expr *value_at(const LiveBlock *b, uint32_t at)
{
    const Expr *e = b->body;
    for (uint32_t i = 0; i < at; i++)
        e = expr_as_let(e)->body;
    return e->kind == EXPR_LET ? expr_as_let(e)->value : e;
}

/* Whether on each way through the block that uses the value no variable of the pattern is used behind it; where the value ends at the
 * beginning of a block, they become that block's own. */
static bool outlives(const LiveBlock *b, const Var *v, const Pattern *p)
{
    uint32_t use = last_use(b, v);
    if (use == 0)
        return true;
    const Match *again = expr_as_match(value_at(b, use - 1));
    if (used_behind(b, p, use) || (again && again->scrutinee == &v->base))
        return false;
    for (size_t i = 0; i < b->inner.n; i++)
        if (b->inner.at[i]->parent_at == use - 1 && !outlives(b->inner.at[i], v, p))
            return false;
    return true;
}

static bool may_lend(Fn *f, const Clausing *c)
{
    const Val *val = c->scrutinee ? ptrmap_find(&f->vals, c->scrutinee) : NULL;
    if (!val || val->fixed || (val->lent && !val->stays) || !val->at ||
        holds_waiting(f, c->pattern, c->type))
        return false;
    return !is_ours(f, c) || outlives(f->block, c->scrutinee, c->pattern);
}

static void lend_fields(Fn *f, const Pattern *p, const Type *type, Ssa v, bool stays)
{
    if (p->kind == PATTERN_VAR && is_used(f, p->var)) {
        Val *val = fn_bind(f, p->var, type, v);
        val->lent = true;
        val->stays = stays;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        const Type *t = field_type(f, p, type, i);
        if (pattern_uses(f, p->fields[i]))
            lend_fields(f, p->fields[i], t, fn_get_field(f, v, i, repr_of(t)), stays);
    }
}

static void start_clause(Fn *f, void *data)
{
    Clausing *c = data;
    const Pattern *p = c->pattern;
    if (c->made && p->kind == PATTERN_VAR) {
        fn_bind(f, p->var, c->type, c->value);
    } else if (c->made) {
        fn_release(f, repr_of(c->type), c->value);
    } else if (p->kind == PATTERN_VAR || p->kind == PATTERN_WILDCARD) {
        bind_fields(f, p, c->type, c->value);
    } else if (is_ours(f, c) && !is_used(f, c->scrutinee)) {
        fn_moved(f, c->scrutinee);
        if (p->n > 0)
            take_apart(f, p, c->type, c->value);
        else
            own_lose(f, c->value); /* what has no fields is immortal */
    } else if (may_lend(f, c)) {
        const Val *val = ptrmap_find(&f->vals, c->scrutinee);
        lend_fields(f, p, c->type, c->value, val->stays);
        if (is_ours(f, c) && p->n > 0)
            vec_push(&f->opened, f->g->arena, ((Opened){c->scrutinee, p, c->type}));
    } else {
        bind_fields(f, p, c->type, c->value);
    }
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
    PtrMap met = {0};
    Ssa cases = LLVMBuildSwitch(g->b, fn_tag(f, c->value, n_cons),
                                rest < e->clauses.n ? clauses[rest] : none, rest);
    for (uint32_t i = 0; i < rest; i++) {
        con = choice_of(&e->clauses.at[i]);
        if (!ptrmap_has(&met, con))
            LLVMAddCase(cases, gen_int(g->i32, con->index), clauses[i]);
        ptrmap_put(&met, con, NULL);
    }
    ptrmap_deinit(&met);
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
    size_t made = f->made.n;
    c.value = fn_borrow(f, e->scrutinee);
    c.made = f->made.n > made;
    if (c.made)
        fn_unhold(f, c.value);
    Join join;
    join_start(f, &join, type, tail);
    uint32_t n = e->clauses.n;
    LLVMBasicBlockRef *clauses = arena_new_array(g->arena, LLVMBasicBlockRef, n + 1);
    for (uint32_t i = 0; i < n; i++)
        clauses[i] = gen_block(g, f->fn, "clause");
    LLVMBasicBlockRef none = e->complete && n > 0 ? NULL : gen_block(g, f->fn, "none");
    clauses[n] = none;
    dispatch(f, e, &c, clauses, none);
    fn_cells_branch(f, &e->base, tail);
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
    fn_cells_join(f);
    return join_end(f, &join, tail);
}
