#include "loop/access.h"

#include "te/walk.h"

typedef struct Collect {
    Nest *n;
    NestNode *node;
    NestAccesses out;
} Collect;

static void add_access(Collect *c, int buffer, const Te *at, bool writes)
{
    NestAccess a = {.node = c->node, .buffer = buffer, .writes = writes};
    a.linear = at && nest_linear(at, &a.at);
    vec_push(&c->out, c->n->arena, a);
}

static void add_load(void *data, Te *e)
{
    Collect *c = data;
    if (e->kind == TE_NODE_LOAD)
        add_access(c, e->tensor, e->n == 1 && !e->otherwise ? e->index[0] : NULL, false);
}

static void collect(void *data, NestNode *node)
{
    Collect *c = data;
    c->node = node;
    if (node->kind == NEST_LOOP)
        return;
    if (node->kind == NEST_PRODUCT) {
        add_access(c, node->product.a, NULL, false);
        add_access(c, node->product.b, NULL, false);
    }
    PtrMap seen = {0};
    if (node->value)
        te_each(c->n->arena, &seen, node->value, add_load, c);
    ptrmap_deinit(&seen);
    bool writes = node->kind != NEST_IF_NAN;
    add_access(c, node->buffer, node->at, writes);
    if (node->kind == NEST_FOLD && nest_is_position(node->fold))
        add_access(c, node->winner, node->at, writes);
}

NestAccesses nest_accesses(Nest *n, NestNode *node)
{
    Collect c = {.n = n};
    nest_each(node, collect, &c);
    return c.out;
}

const NestNode *nest_loop_of(const NestNode *node, int var)
{
    while (node && !(node->kind == NEST_LOOP && node->var == var))
        node = node->parent;
    return node;
}

void nest_range(const NestLinear *l, const NestNode *node, const NestNode *inside, int64_t *low,
                int64_t *high)
{
    *low = *high = l->c;
    for (int i = 0; i < l->n; i++) {
        const NestNode *loop = nest_loop_of(node, l->term[i].var);
        if (!loop || (inside && !nest_holds(inside, loop)))
            continue;
        int64_t far = l->term[i].by * (loop->extent - 1);
        *(far < 0 ? low : high) += far;
    }
}

bool nest_is_private(const Nest *n, int buffer, const NestNode *loop)
{
    const NestBuffer *b = &n->buffers.at[buffer];
    return (b->place == NEST_LOCAL || b->place == NEST_REGISTER) && b->home &&
           nest_holds(loop, b->home);
}
