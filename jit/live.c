#include "jit/live.h"

#include "ir/walk.h"
#include "jit/outline.h"

/* A function that is put in place of its own calls grows by what it has once more for each. Where that is one, the copy has its own in
 * its place: the fewer calls are nested, the more of their returns the processor foresees. */
#define FEW_CALLS 2
#define FEW_LETS 24
#define COPIES_LETS 48
#define COPIES_MOST 3

typedef struct Liveness {
    Arena *arena;
    Live *live;
    LiveBlock *block;
    uint32_t at;
    uint32_t nested; /* calls that it must come back from */
    const Var *skip; /* the variable that the function literal at hand is bound to */
} Liveness;

static void map_free(void *map)
{
    ptrmap_deinit(map);
}

static LiveBlock *block_new(Arena *arena, LiveBlock *parent, uint32_t at, Expr *body)
{
    LiveBlock *b = arena_new(arena, LiveBlock);
    b->parent = parent;
    b->parent_at = at;
    b->depth = parent ? parent->depth + 1 : 0;
    b->body = body;
    arena_on_free(arena, map_free, &b->last);
    if (parent)
        vec_push(&parent->inner, arena, b);
    return b;
}

static void bind(void *data, Var *v)
{
    Liveness *l = data;
    ptrmap_put(&l->live->binder, v, l->block);
}

static void use(Liveness *l, const Var *v)
{
    const LiveBlock *binder = ptrmap_find(&l->live->binder, v);
    uint32_t at = l->at;
    for (LiveBlock *b = l->block; binder && b; at = b->parent_at, b = b->parent) {
        ptrmap_put(&b->last, v, (void *)(uintptr_t)(at + 1));
        if (b == binder)
            break;
    }
}

static void use_slot(void *data, Expr *const *slot)
{
    const Var *v = expr_as_var(*slot);
    if (v)
        use(data, v);
}

static void use_free(void *data, Var *v)
{
    Liveness *l = data;
    if (v != l->skip)
        use(l, v);
}

static void walk_block(Liveness *l, Expr *body);

static void walk_inner(Liveness *l, Expr *body, const Pattern *pattern)
{
    LiveBlock *outer = l->block;
    uint32_t at = l->at;
    l->block = block_new(l->arena, outer, at, body);
    l->at = 0;
    l->live->size++;
    if (pattern)
        pattern_vars(pattern, bind, l);
    walk_block(l, body);
    l->block = outer;
    l->at = at;
}

static WalkNext note_other(void *data, const Expr *e)
{
    const Call *call = expr_as_call(e);
    bool plain = e->kind == EXPR_VAR || e->kind == EXPR_CONSTANT || e->kind == EXPR_OP ||
                 e->kind == EXPR_TUPLE || e->kind == EXPR_TUPLE_GET || e->kind == EXPR_LET ||
                 (call && call->callee->kind == EXPR_OP);
    *(bool *)data |= !plain;
    return plain ? WALK_ON : WALK_STOP;
}

static void note_free(void *data, Var *v)
{
    (void)v;
    *(bool *)data = true;
}

bool live_is_group(const Function *fn)
{
    bool other = !function_is_primitive(fn) || fn->type_params.n > 0;
    if (!other)
        ir_walk(fn->body, note_other, NULL, &other);
    if (!other)
        ir_free_vars(&fn->base, note_free, &other);
    return !other;
}

static void walk_call(Liveness *l, const Call *call, bool tail)
{
    if (call->callee->kind == EXPR_OP || call->callee->kind == EXPR_CON ||
        ptrmap_has(&l->live->groups, call->callee))
        return;
    l->block->calls = true;
    l->live->nests |= !tail;
    l->nested += !tail;
    if (!ptrmap_has(&l->live->parts, call->callee))
        l->live->calls = true;
}

/* Most of the last n blocks call: what is asked before a call is asked in front of them once, and what follows is not cut in two. */
static void note_calls(LiveBlock *b, uint32_t n)
{
    uint32_t calls = 0;
    for (uint32_t i = 1; i <= n && i <= b->inner.n; i++)
        calls += b->inner.at[b->inner.n - i]->calls;
    b->calls |= 2 * calls > n;
}

static void walk_value(Liveness *l, const Var *var, Expr *e, bool tail)
{
    switch ((ExprKind)e->kind) {
    case EXPR_IF:
        use_slot(l, &expr_as_if(e)->cond);
        walk_inner(l, expr_as_if(e)->then, NULL);
        walk_inner(l, expr_as_if(e)->otherwise, NULL);
        note_calls(l->block, 2);
        return;
    case EXPR_MATCH: {
        Match *m = expr_as_match(e);
        if (m->scrutinee->kind == EXPR_TUPLE)
            ir_children(m->scrutinee, use_slot, l);
        use_slot(l, &m->scrutinee);
        for (uint32_t i = 0; i < m->clauses.n; i++)
            walk_inner(l, m->clauses.at[i].body, m->clauses.at[i].pattern);
        note_calls(l->block, m->clauses.n);
        return;
    }
    case EXPR_FUNCTION:
        if (live_is_group(expr_as_function(e)))
            ptrmap_put(&l->live->groups, var, l);
        if (function_is_part(expr_as_function(e)))
            ptrmap_put(&l->live->parts, var, l);
        l->skip = var;
        ir_free_vars(e, use_free, l);
        return;
    case EXPR_VAR: use(l, expr_as_var(e)); return;
    case EXPR_CALL:
        walk_call(l, expr_as_call(e), tail);
        ir_children(e, use_slot, l);
        return;
    case EXPR_CONSTANT:
    case EXPR_GLOBAL:
    case EXPR_OP:
    case EXPR_CON:
    case EXPR_TUPLE:
    case EXPR_TUPLE_GET:
    case EXPR_LET:
    case EXPR_REF_NEW:
    case EXPR_REF_READ:
    case EXPR_REF_WRITE:
    case EXPR_KINDS: ir_children(e, use_slot, l); return;
    }
}

/* Whether the block's result is the function's. */
static bool block_is_tail(const LiveBlock *b)
{
    for (; b->parent; b = b->parent) {
        Expr *e = b->parent->body;
        for (uint32_t i = 0; i < b->parent_at; i++)
            e = expr_as_let(e)->body;
        if (!let_is_last(expr_as_let(e)))
            return false;
    }
    return true;
}

static void walk_block(Liveness *l, Expr *e)
{
    bool tail = block_is_tail(l->block);
    for (Let *let = expr_as_let(e); let; let = expr_as_let(e)) {
        l->live->size++;
        walk_value(l, let->var, let->value, tail && let_is_last(let));
        bind(l, let->var);
        l->at++;
        e = let->body;
    }
    use_slot(l, &e);
}

static uint32_t copies_of(const Liveness *l)
{
    uint32_t size = l->live->size;
    if (l->nested > FEW_CALLS || size > FEW_LETS)
        return 0;
    uint32_t fit = l->nested == 1 ? COPIES_LETS / size : 1;
    return fit < COPIES_MOST ? fit : COPIES_MOST;
}

Live *live_make(Arena *arena, const Function *fn, uint32_t n, Var *const *captured,
                uint32_t n_parts, const Var *const *parts)
{
    Live *live = arena_new(arena, Live);
    arena_on_free(arena, map_free, &live->binder);
    arena_on_free(arena, map_free, &live->groups);
    arena_on_free(arena, map_free, &live->parts);
    live->root = block_new(arena, NULL, 0, fn->body);
    Liveness l = {.arena = arena, .live = live, .block = live->root};
    for (uint32_t i = 0; i < fn->params.n; i++)
        bind(&l, fn->params.at[i]);
    for (uint32_t i = 0; i < n; i++)
        bind(&l, captured[i]);
    for (uint32_t i = 0; i < n_parts; i++)
        ptrmap_put(&live->parts, parts[i], live);
    walk_block(&l, fn->body);
    live->copies = copies_of(&l);
    return live;
}

static uint32_t last_in(const LiveBlock *b, const Var *v)
{
    return (uint32_t)(uintptr_t)ptrmap_find(&b->last, v);
}

bool live_owned(const Live *live, const LiveBlock *block, const Var *v)
{
    const LiveBlock *binder = ptrmap_find(&live->binder, v);
    if (!binder)
        return false;
    for (; block && block != binder; block = block->parent) {
        if (!block->parent || last_in(block->parent, v) != block->parent_at + 1)
            return false;
    }
    return block != NULL;
}

bool live_is_last(const Live *live, const LiveBlock *block, uint32_t at, const Var *v)
{
    return last_in(block, v) == at + 1 && live_owned(live, block, v);
}

bool live_after(const Live *live, const LiveBlock *block, uint32_t at, const Var *v)
{
    for (; block; at = block->parent_at, block = block->parent) {
        if (last_in(block, v) > at + 1)
            return true;
        if (ptrmap_find(&live->binder, v) == block)
            return false;
    }
    return false;
}

void live_rewind(LiveBlock *block)
{
    /* Blocks nest no deeper than outline.c leaves them. */
    block->next = 0;
    for (size_t i = 0; i < block->inner.n; i++)
        live_rewind(block->inner.at[i]);
}
