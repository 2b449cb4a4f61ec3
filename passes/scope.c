#include "passes/scope.h"

#include "ir/ctx.h"
#include "ir/walk.h"

bool expr_is_atom(const Expr *e)
{
    return e->kind == EXPR_VAR || e->kind == EXPR_GLOBAL || e->kind == EXPR_OP ||
           e->kind == EXPR_CON;
}

ScopeNode *scopes_node(const Scopes *s, const Expr *e)
{
    return places_value(&s->nodes, e);
}

/* ---- the order of evaluation ------------------------------------------------------------------- */

typedef enum TaskKind { TASK_VISIT, TASK_DONE, TASK_BIND } TaskKind;

typedef struct Task {
    TaskKind kind;
    Expr *e; /* VISIT */
    ScopeNode *node; /* DONE, BIND */
} Task;

typedef struct Order {
    Scopes *s;
    Arena arena;
    Vec(Task) tasks;
} Order;

static void push_child(void *data, Expr *const *slot)
{
    Order *o = data;
    vec_push(&o->tasks, &o->arena, ((Task){TASK_VISIT, *slot, NULL}));
}

/* The children go onto the stack last one first. */
static void push_children(Order *o, ScopeNode *node)
{
    size_t from = o->tasks.n;
    ir_children(node->e, push_child, o);
    /* The callee of a call stands first and is evaluated last. */
    size_t first = from + (node->e->kind == EXPR_CALL);
    for (size_t i = first, k = o->tasks.n; i + 1 < k; i++) {
        Task t = o->tasks.at[--k];
        o->tasks.at[k] = o->tasks.at[i];
        o->tasks.at[i] = t;
    }
}

static void visit(Order *o, Expr *e)
{
    if (expr_is_atom(e))
        return;
    void **slot = places_slot(&o->s->nodes, &o->s->arena, e);
    if (*slot)
        return;
    ScopeNode *node = *slot = arena_new(&o->s->arena, ScopeNode);
    node->e = e;
    vec_push(&o->tasks, &o->arena, ((Task){TASK_DONE, NULL, node}));
    const Function *f = expr_as_function(e);
    if (f && function_is_primitive(f))
        return;
    const Let *let = expr_as_let(e);
    if (!let) {
        push_children(o, node);
        return;
    }
    push_child(o, &let->body);
    vec_push(&o->tasks, &o->arena, ((Task){TASK_BIND, NULL, node}));
    push_child(o, &let->value);
}

static void order_steps(Scopes *s, Limits *limits, Expr *root)
{
    Order o = {.s = s};
    arena_init(&o.arena, NULL);
    push_child(&o, &root);
    while (o.tasks.n && !limit_hit(limits)) {
        Task t = vec_pop(&o.tasks);
        if (t.kind == TASK_VISIT) {
            visit(&o, t.e);
            continue;
        }
        ScopeEvent event = t.kind == TASK_DONE ? SCOPE_DONE : SCOPE_BIND;
        vec_push(&s->steps, &s->arena, ((ScopeStep){t.node, event}));
    }
    arena_deinit(&o.arena);
}

/* ---- blocks ------------------------------------------------------------------------------------ */

/* Jumps of lengths that double reach any ancestor in a logarithmic number of moves. */
static void block_open(Block *b, Block *parent)
{
    const Block *up = parent->jump;
    bool equal = parent->depth - up->depth == up->depth - up->jump->depth;
    *b = (Block){.parent = parent,
                 .stretch = b,
                 .depth = parent->depth + 1,
                 .jump = equal ? up->jump : parent};
}

static Block *block_at_depth(Block *b, uint32_t depth)
{
    while (b->depth > depth)
        b = b->jump->depth >= depth ? b->jump : b->parent;
    return b;
}

static Block *common_block(Block *a, Block *b)
{
    uint32_t depth = a->depth < b->depth ? a->depth : b->depth;
    a = block_at_depth(a, depth);
    b = block_at_depth(b, depth);
    while (a != b) {
        bool far = a->jump != b->jump;
        a = far ? a->jump : a->parent;
        b = far ? b->jump : b->parent;
    }
    return a;
}

bool block_encloses(Block *outer, Block *b)
{
    return common_block(outer, b) == outer;
}

typedef struct Placing {
    Scopes *s;
    ScopeNode *node;
    uint32_t opened; /* blocks of `inner` so far */
} Placing;

/* The number of blocks that the node opens: those of all its children but the first few. */
static uint32_t node_opens(const Scopes *s, const Expr *e)
{
    if (e->kind == EXPR_FUNCTION || (e->kind == EXPR_LET && s->lets_open))
        return 1;
    if (e->kind == EXPR_IF)
        return 2;
    const Match *match = expr_as_match(e);
    return match ? match->clauses.n : 0;
}

static bool child_opens(const Scopes *s, const Expr *e, Expr *const *slot)
{
    const Let *let = expr_as_let(e);
    if (let)
        return s->lets_open && slot == &let->body;
    const If *branches = expr_as_if(e);
    const Match *match = expr_as_match(e);
    return e->kind == EXPR_FUNCTION || (branches && slot != &branches->cond) ||
           (match && slot != &match->scrutinee);
}

static void place_child(void *data, Expr *const *slot)
{
    Placing *p = data;
    Block *block = p->node->block;
    if (child_opens(p->s, p->node->e, slot))
        block = &p->node->inner[p->opened++];
    ScopeNode *child = scopes_node(p->s, *slot);
    if (!child)
        return;
    child->spread |= child->block && child->block->stretch != block->stretch;
    child->block = child->block ? common_block(child->block, block) : block;
}

/* In the reverse order of evaluation every use of a node comes before it. */
static bool place_nodes(Scopes *s)
{
    for (size_t i = s->steps.n; i-- > 0;) {
        ScopeNode *node = s->steps.at[i].node;
        if (s->steps.at[i].event == SCOPE_BIND)
            continue;
        if (!node->block)
            node->block = &s->root;
        uint32_t n = node_opens(s, node->e);
        if (n && !(node->inner = arena_new_array(&s->arena, Block, n)))
            return false;
        for (uint32_t k = 0; k < n; k++)
            block_open(&node->inner[k], node->block);
        if (node->e->kind == EXPR_LET && n)
            node->inner->stretch = node->block->stretch;
        const Function *f = expr_as_function(node->e);
        if (!f || !function_is_primitive(f))
            ir_children(node->e, place_child, &(Placing){s, node, 0});
    }
    return true;
}

static bool scopes_fill(Scopes *s, Ctx *cx, Expr *root)
{
    arena_init(&s->arena, &cx->limits);
    s->root.jump = s->root.stretch = &s->root;
    order_steps(s, &cx->limits, root);
    return !limit_hit(&cx->limits) && place_nodes(s);
}

bool scopes_init(Scopes *s, Ctx *cx, Expr *root)
{
    *s = (Scopes){0};
    return scopes_fill(s, cx, root);
}

bool scopes_init_with_lets(Scopes *s, Ctx *cx, Expr *root)
{
    *s = (Scopes){.lets_open = true};
    return scopes_fill(s, cx, root);
}

void scopes_deinit(Scopes *s)
{
    arena_deinit(&s->arena);
}
