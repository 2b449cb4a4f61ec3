/* `if` and `match`.
 *
 * Switches go to the clause that takes the value (decide.c). Its variables are loaded from the value's fields; when the value ends with
 * the match and nobody else holds it, its fields move out of it, and its memory becomes the next object of its size that the clause makes
 * (cell.c): what maps, sorts or turns a list around makes no cells. A tuple that is made for the match alone is not made: each of its
 * fields is a value that is matched. */
#include "ir/walk.h"
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
    LLVMTypeRef held = f->wants_fields ? fields_type(g, type) : gen_type(g, repr_of(type));
    j->phi = LLVMBuildPhi(g->b, held, "");
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
    frame_fill_much(f);
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

/* One of the values that are matched. */
typedef struct Root {
    const Pattern *pattern; /* of the clause at hand; NULL: anything */
    const Var *var; /* NULL when it is no variable */
    const Type *type;
    Ssa value;
    bool made; /* a function that was made for the match: the clause has it */
    bool twice; /* another one is the same variable */
} Root;

/* What is known of whether somebody else holds the value that a clause takes apart. */
typedef enum Sharing { SHARING_ASKED, SHARING_NONE, SHARING_SOME } Sharing;

typedef struct Roots {
    uint32_t n;
    Root *at;
    const Root *split; /* for which `sharing` is; NULL: for none */
    Sharing sharing;
} Roots;

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
        const Type *t = pattern_field_type(f, p, type, i);
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
        all.types[i] = pattern_field_type(f, p, type, i);
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

/* The fields leave a value that nobody else holds. Gives the block in which that ends. */
static LLVMBasicBlockRef move_out(Fn *f, const Parts *all, Ssa v, bool kept)
{
    const Pattern *p = all->pattern;
    for (uint32_t i = 0; i < p->n; i++)
        if (all->used[i] || !is_leaf(p->fields[i]))
            own_gain(f, all->fields[i]);
    for (uint32_t i = 0; i < p->n; i++)
        if (!all->used[i] && !is_leaf(p->fields[i]))
            fn_release_as(f, all->types[i], all->fields[i]);
    if (!kept)
        fn_free_cell(f, v, p->n);
    return LLVMGetInsertBlock(f->g->b);
}

static Ssa is_alone(Fn *f, Ssa refs)
{
    return LLVMBuildICmp(f->g->b, LLVMIntEQ, refs, gen_int(f->g->i32, 1), "");
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
    LLVMBuildCondBr(g->b, is_alone(f, refs), alone, shared);
    LLVMPositionBuilderAtEnd(g->b, alone);
    alone = move_out(f, all, v, kept);
    LLVMBuildBr(g->b, go);
    LLVMPositionBuilderAtEnd(g->b, shared);
    share_parts(f, all);
    fn_release_shared(f, (Repr){.kind = REPR_OBJECT, .mortal = true}, v, refs);
    shared = LLVMGetInsertBlock(g->b);
    LLVMBuildBr(g->b, go);
    LLVMPositionBuilderAtEnd(g->b, go);
    if (kept)
        fn_keep_moved(f, v, p->n, alone, shared);
}

/* The variable may have been lent its value outside this block. */
static void bind_own(Fn *f, const Var *v, const Type *type, Ssa at)
{
    Val *before = ptrmap_find(&f->vals, v);
    if (before)
        vec_push(&f->rebound, f->g->arena, ((Rebound){v, before}));
    fn_bind(f, v, type, at);
}

static void take_apart(Fn *f, const Pattern *p, const Type *type, Ssa v);

/* The fields have an owner: the variables. */
static void take_parts(Fn *f, const Parts *all)
{
    const Pattern *p = all->pattern;
    for (uint32_t i = 0; i < p->n; i++) {
        if (!all->used[i])
            continue;
        if (p->fields[i]->kind == PATTERN_VAR)
            bind_own(f, p->fields[i]->var, all->types[i], all->fields[i]);
        else
            take_apart(f, p->fields[i], all->types[i], all->fields[i]);
    }
}

/* The value, which is the clause's, ends here. */
static void take_apart(Fn *f, const Pattern *p, const Type *type, Ssa v)
{
    Parts all = parts_of(f, p, type, v);
    if (pattern_uses(f, p) || fn_wants_cell(f, p->n))
        move_parts(f, &all, v);
    else
        fn_release_as(f, type, v);
    take_parts(f, &all);
}

/* The same for a value that nobody else holds. */
static void take_apart_alone(Fn *f, const Pattern *p, const Type *type, Ssa v)
{
    Parts all = parts_of(f, p, type, v);
    bool kept = fn_wants_cell(f, p->n);
    move_out(f, &all, v, kept);
    if (kept)
        fn_keep_cell(f, v, p->n, true);
    take_parts(f, &all);
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
    fn_release_val(f, val);
}

/* Whether the value is ours, and the match the last to use it outside its clauses. */
static bool is_ours(Fn *f, const Root *c)
{
    const LiveBlock *b = f->block;
    const Val *val = c->var ? ptrmap_find(&f->vals, c->var) : NULL;
    return val && !val->fixed && !val->lent && val->at &&
           live_is_last(f->live, b->parent, b->parent_at, c->var);
}

/* ---- fields that are lent: no counts for what lives no longer than the value ------------------------------------- */

/* What no kernel takes and no plan has. */
static bool is_control(const Type *t)
{
    return t->kind == TYPE_ADT || t->kind == TYPE_FUNC || repr_of(t).kind == REPR_SCALAR;
}

bool match_may_wait(const Type *t)
{
    bool waits = t->kind != TYPE_TUPLE && !is_control(t);
    for (uint32_t i = 0; t->kind == TYPE_TUPLE && i < t->n && !waits; i++)
        waits = !is_control(t->parts[i]);
    return waits;
}

static bool holds_waiting(Fn *f, const Pattern *p, const Type *type)
{
    bool waits = p->kind == PATTERN_VAR && is_used(f, p->var) && match_may_wait(type);
    for (uint32_t i = 0; i < p->n && !waits; i++)
        waits = holds_waiting(f, p->fields[i], pattern_field_type(f, p, type, i));
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

bool match_looks_at(const Match *e, const Var *v)
{
    const Tuple *tuple = expr_as_tuple(e->scrutinee);
    bool looks = e->scrutinee == &v->base;
    for (uint32_t i = 0; tuple && i < tuple->fields.n && !looks; i++)
        looks = tuple->fields.at[i] == &v->base;
    return looks;
}

/* Whether on each way through the block that uses the value no variable of the pattern is used behind it; where the value ends at the
 * beginning of a block, they become that block's own. */
static bool outlives(const LiveBlock *b, const Var *v, const Pattern *p)
{
    uint32_t use = last_use(b, v);
    if (use == 0)
        return true;
    const Match *again = expr_as_match(value_at(b, use - 1));
    if (used_behind(b, p, use) || (again && match_looks_at(again, v)))
        return false;
    for (size_t i = 0; i < b->inner.n; i++)
        if (b->inner.at[i]->parent_at == use - 1 && !outlives(b->inner.at[i], v, p))
            return false;
    return true;
}

static bool may_lend(Fn *f, const Root *c)
{
    const Val *val = c->var ? ptrmap_find(&f->vals, c->var) : NULL;
    if (!val || val->fixed || (val->lent && !val->stays && !val->held) || !val->at ||
        holds_waiting(f, c->pattern, c->type))
        return false;
    return !is_ours(f, c) || outlives(f->block, c->var, c->pattern);
}

static void lend_fields(Fn *f, const Pattern *p, const Type *type, Ssa v, const Val *by)
{
    if (p->kind == PATTERN_VAR && is_used(f, p->var)) {
        Val *val = fn_bind(f, p->var, type, v);
        val->lent = true;
        val->stays = by->stays;
        val->held = by->held;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        const Type *t = pattern_field_type(f, p, type, i);
        if (pattern_uses(f, p->fields[i]))
            lend_fields(f, p->fields[i], t, fn_get_field(f, v, i, repr_of(t)), by);
    }
}

static void start_root(Fn *f, const Root *c, Sharing sharing)
{
    const Pattern *p = c->pattern;
    if (sharing == SHARING_NONE) {
        fn_moved(f, c->var);
        take_apart_alone(f, p, c->type, c->value);
    } else if (sharing == SHARING_SOME) {
        fn_moved(f, c->var);
        fn_hold_value(f, c->type, c->value);
        lend_fields(f, p, c->type, c->value, &(Val){.held = true});
    } else if (c->made && p->kind == PATTERN_VAR) {
        fn_bind(f, p->var, c->type, c->value);
    } else if (c->made) {
        fn_release(f, repr_of(c->type), c->value);
    } else if (p->kind == PATTERN_VAR || p->kind == PATTERN_WILDCARD || c->twice) {
        bind_fields(f, p, c->type, c->value);
    } else if (is_ours(f, c) && !is_used(f, c->var)) {
        fn_moved(f, c->var);
        if (p->n > 0)
            take_apart(f, p, c->type, c->value);
        else
            own_lose(f, c->value); /* what has no fields is immortal */
    } else if (may_lend(f, c)) {
        const Val *val = ptrmap_find(&f->vals, c->var);
        lend_fields(f, p, c->type, c->value, val);
        if (is_ours(f, c) && p->n > 0)
            vec_push(&f->opened, f->g->arena, ((Opened){c->var, p, c->type}));
    } else {
        bind_fields(f, p, c->type, c->value);
    }
}

static void start_clause(Fn *f, void *data)
{
    const Roots *roots = data;
    for (uint32_t i = 0; i < roots->n; i++)
        if (roots->at[i].pattern)
            start_root(f, &roots->at[i],
                       &roots->at[i] == roots->split ? roots->sharing : SHARING_ASKED);
}

static void no_match(Fn *f, const Root *c, Span span)
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

static Root root_of(Fn *f, const Expr *e)
{
    Root root = {.var = expr_as_var(e), .type = fn_type(f, e)};
    const Val *val = root.var ? fn_val(f, e) : NULL;
    if (val)
        root.type = val->type;
    size_t made = f->made.n;
    root.value = fn_borrow(f, e);
    root.made = f->made.n > made;
    if (root.made)
        fn_unhold(f, root.value);
    return root;
}

/* The values that the match looks at. */
static Roots roots_of(Fn *f, const Match *e)
{
    const Tuple *tuple = expr_as_tuple(e->scrutinee);
    Roots roots = {.n = match_roots(e)};
    roots.at = arena_new_array(f->g->arena, Root, roots.n + 1);
    for (uint32_t i = 0; i < roots.n; i++) {
        roots.at[i] = root_of(f, tuple ? tuple->fields.at[i] : e->scrutinee);
        for (uint32_t k = 0; k < i; k++)
            if (roots.at[i].var && roots.at[k].var == roots.at[i].var)
                roots.at[i].twice = roots.at[k].twice = true;
    }
    return roots;
}

/* Code that goes to the clause that takes the values. */
static void choose(Fn *f, const Match *e, const Roots *roots, const LLVMBasicBlockRef *clauses)
{
    const Type **types = arena_new_array(f->g->arena, const Type *, roots->n + 1);
    Ssa *values = arena_new_array(f->g->arena, Ssa, roots->n + 1);
    for (uint32_t i = 0; i < roots->n; i++) {
        types[i] = roots->at[i].type;
        values[i] = roots->at[i].value;
    }
    fn_decide(f, e, types, values, clauses);
}

/* ---- clauses that are made twice ------------------------------------------------------------------------------------ */

/* Lets of such a clause, and fields that are lent. */
#define SPLIT_LETS_MOST 24
#define SPLIT_LENT_LEAST 2

typedef struct SplitSearch {
    Fn *f;
    const Pattern *pattern;
    uint32_t lets;
    uint32_t lent; /* fields that calls which are not the last take and may be lent */
    bool other; /* something of which one copy is enough */
} SplitSearch;

static bool names_field(const Pattern *p, const Expr *e)
{
    bool names = p->kind == PATTERN_VAR && e == &p->var->base;
    for (uint32_t i = 0; i < p->n && !names; i++)
        names = names_field(p->fields[i], e);
    return names;
}

static WalkNext note_lends(void *data, const Expr *e)
{
    SplitSearch *s = data;
    const Let *let = expr_as_let(e);
    if (!let)
        return WALK_ON;
    const Call *call = expr_as_call(let->value);
    const GlobalVar *global = call ? expr_as_global(call->callee) : NULL;
    for (uint32_t i = 0; global && !let_is_last(let) && i < call->args.n; i++)
        s->lent += names_field(s->pattern, call->args.at[i]) &&
                   instance_takes_lent(s->f->g, global->name, i);
    Repr r = repr_of(fn_type(s->f, &let->var->base));
    s->other |=
        let->value->kind == EXPR_FUNCTION || r.kind == REPR_TENSOR || ++s->lets > SPLIT_LETS_MOST;
    return s->other ? WALK_STOP : WALK_ON;
}

/* A value that ends with the clause, and of which the clause hands several fields to calls that need no counts of their own while the value
 * lives. When others hold it, that is cheaper than to count each field. */
static const Root *split_root(Fn *f, const Roots *roots, const LiveBlock *clause)
{
    for (uint32_t i = 0; i < roots->n; i++) {
        const Root *c = &roots->at[i];
        const Pattern *p = c->pattern;
        const Val *val = c->var ? ptrmap_find(&f->vals, c->var) : NULL;
        if (c->made || c->twice || !val || val->fixed || val->lent || !val->at || !p || p->n == 0 ||
            c->type->kind != TYPE_ADT || !live_is_last(f->live, f->block, f->at, c->var) ||
            ptrmap_has(&clause->last, c->var))
            continue;
        SplitSearch s = {.f = f, .pattern = p};
        ir_walk(clause->body, note_lends, NULL, &s);
        if (s.lent >= SPLIT_LENT_LEAST && !s.other)
            return c;
    }
    return NULL;
}

/* The clause once for a value that nobody else holds, which is taken apart, and once for one that lives on, which lends its fields. */
static void make_twice(Fn *f, Join *join, LiveBlock *clause, const Type *type, bool tail,
                       Roots *roots)
{
    Gen *g = f->g;
    LLVMBasicBlockRef alone = gen_block(g, f->fn, "alone"), shared = gen_block(g, f->fn, "shared");
    Ssa refs = gen_load(g, g->i32, roots->split->value, offsetof(Object, refs));
    LLVMBuildCondBr(g->b, is_alone(f, refs), alone, shared);
    f->split = true;
    LLVMPositionBuilderAtEnd(g->b, alone);
    roots->sharing = SHARING_NONE;
    join_from(f, join, fn_block(f, clause, type, tail, start_clause, roots));
    live_rewind(clause);
    LLVMPositionBuilderAtEnd(g->b, shared);
    roots->sharing = SHARING_SOME;
    join_from(f, join, fn_block(f, clause, type, tail, start_clause, roots));
    f->split = false;
}

Ssa fn_match(Fn *f, const Match *e, const Type *type, bool tail)
{
    Gen *g = f->g;
    frame_fill_much(f);
    Roots roots = roots_of(f, e);
    Join join;
    join_start(f, &join, type, tail);
    uint32_t n = e->clauses.n;
    LLVMBasicBlockRef *clauses = arena_new_array(g->arena, LLVMBasicBlockRef, n + 1);
    for (uint32_t i = 0; i < n; i++)
        clauses[i] = gen_block(g, f->fn, "clause");
    LLVMBasicBlockRef none = e->complete && n > 0 ? NULL : gen_block(g, f->fn, "none");
    clauses[n] = none;
    bool whole = !f->block->parent, one = whole && f->in->front;
    if (one)
        LLVMBuildBr(g->b, clauses[f->in->clause]);
    else
        choose(f, e, &roots, clauses);
    fn_cells_branch(f, &e->base, tail);
    for (uint32_t i = 0; i < n && !g->failed; i++) {
        for (uint32_t k = 0; k < roots.n; k++)
            roots.at[k].pattern = match_pattern(e, i, k);
        LLVMPositionBuilderAtEnd(g->b, clauses[i]);
        LiveBlock *inner = next_inner(f);
        roots.split = f->split ? NULL : split_root(f, &roots, inner);
        if (one && i != f->in->clause)
            LLVMBuildUnreachable(g->b);
        else if (whole && f->front && instance_stands_behind(f->in, i))
            fn_go_behind(f, i);
        else if (roots.split)
            make_twice(f, &join, inner, type, tail, &roots);
        else
            join_from(f, &join, fn_block(f, inner, type, tail, start_clause, &roots));
    }
    if (g->failed)
        return NULL;
    if (none) {
        LLVMPositionBuilderAtEnd(g->b, none);
        no_match(f, &roots.at[0], e->base.span);
    }
    fn_cells_join(f);
    return join_end(f, &join, tail);
}
