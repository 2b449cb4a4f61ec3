#include "loop/access.h"

#include "te/walk.h"

typedef struct Collect {
    Nest *n;
    NestNode *node;
    void (*found)(void *data, const NestAccess *a);
    void *data;
    PtrMap seen;
    bool word;
} Collect;

static void add_place(Collect *c, int buffer, const Te *at, int64_t behind, bool writes)
{
    NestAccess a;
    a.node = c->node;
    a.buffer = buffer;
    a.writes = writes;
    a.word = c->word;
    a.at.c = a.at.n = 0;
    a.linear = at && nest_linear(at, &a.at);
    a.at.c += behind;
    c->found(c->data, &a);
}

static void add_access(Collect *c, int buffer, const Te *at, bool writes)
{
    add_place(c, buffer, at, 0, writes);
}

static void add_load(void *data, Te *e)
{
    Collect *c = data;
    if (e->kind != TE_NODE_LOAD)
        return;
    c->word = e->word;
    for (int i = 0; i < (e->word ? NEST_WORD : 1); i++)
        add_place(c, e->tensor, e->n == 1 && !e->otherwise ? e->index[0] : NULL, i * e->word,
                  false);
    c->word = false;
}

static void add_loads(Collect *c, Te *e)
{
    ptrmap_clear(&c->seen);
    if (e)
        te_each(c->n->arena, &c->seen, e, add_load, c);
}

/* The first and the last of `n` places that are touched together. */
static void add_span(Collect *c, int buffer, const Te *at, int64_t n, bool writes)
{
    add_place(c, buffer, at, 0, writes);
    add_place(c, buffer, at, n - 1, writes);
}

static void collect_matrices(Collect *c)
{
    const NestNode *s = c->node;
    const Te *a = s->value, *b = s->number;
    if (s->kind == NEST_FETCH) {
        int row = NEST_ROW_BYTES / (int)dtype_size(a->dtype);
        add_span(c, a->tensor, a->index[0], row, false);
        add_span(c, s->buffer, s->at, s->lanes, true);
        return;
    }
    if (s->kind == NEST_GROUP && s->boxed) {
        int row = NEST_BOX_ROW / (int)dtype_size(a->dtype);
        add_span(c, a->tensor, a->index[0], NEST_GROUP_ROWS * row, false);
        add_span(c, b->tensor, b->index[0], s->lanes * row, false);
        add_span(c, s->buffer, s->at, s->lanes / 2, true);
        return;
    }
    if (s->kind == NEST_GROUP) {
        int64_t last = s->folds / 8 - 1;
        add_span(c, a->tensor, a->index[0], (int)(last * s->pitch[0] + NEST_GROUP_ROWS * 8), false);
        add_span(c, b->tensor, b->index[0], (int)(last * s->pitch[1] + s->lanes * 8), false);
        add_span(c, s->buffer, s->at, s->lanes / 2, true);
        return;
    }
    add_span(c, a->tensor, a->index[0], NEST_TILE_FIRST, false);
    add_span(c, b->tensor, b->index[0], NEST_TILE_SECOND, false);
    add_span(c, s->buffer, s->at, NEST_TILE_SUMS, true);
}

static void collect_matrix(Collect *c)
{
    const NestNode *s = c->node;
    int64_t span[3];
    nest_matrix_spans(s->matrix, span);
    add_span(c, s->value->tensor, s->value->index[0], span[0], false);
    add_span(c, s->number->tensor, s->number->index[0], span[1], false);
    add_span(c, s->buffer, s->at, span[2], true);
}

static void collect(void *data, NestNode *node)
{
    Collect *c = data;
    c->node = node;
    if (node->kind == NEST_IF || (node->kind == NEST_LOOP && node->way == NEST_BOUND))
        add_loads(c, node->value);
    if (node->kind == NEST_LOOP || node->kind == NEST_IF || node->kind == NEST_BARRIER ||
        node->kind == NEST_WAIT || node->kind == NEST_NEAR)
        return;
    if (node->kind == NEST_FETCH || node->kind == NEST_TILE || node->kind == NEST_GROUP) {
        collect_matrices(c);
        return;
    }
    if (node->kind == NEST_MATRIX) {
        collect_matrix(c);
        return;
    }
    if (node->kind == NEST_PRODUCT) {
        add_access(c, node->product.a, NULL, false);
        add_access(c, node->product.b, NULL, false);
    }
    if (node->kind == NEST_BULK) {
        add_access(c, node->box->from, NULL, false);
        add_access(c, node->gate, node->number, true);
        add_span(c, node->buffer, node->at, (int)nest_box_size(node->box), true);
        return;
    }
    add_loads(c, node->value);
    add_loads(c, node->number);
    add_loads(c, node->at);
    add_access(c, node->buffer, node->at, true);
    if (node->kind == NEST_FOLD && nest_is_position(node->fold))
        add_access(c, node->winner, node->at, true);
}

void nest_each_access(Nest *n, NestNode *node, void (*found)(void *data, const NestAccess *a),
                      void *data)
{
    Collect c = {.n = n, .found = found, .data = data};
    nest_each(node, collect, &c);
    ptrmap_deinit(&c.seen);
}

typedef struct Gather {
    Nest *n;
    int buffer; /* -1: any */
    NestAccesses out;
} Gather;

static void gather(void *data, const NestAccess *a)
{
    Gather *g = data;
    if (g->buffer < 0 || a->buffer == g->buffer)
        vec_push(&g->out, g->n->arena, *a);
}

NestAccesses nest_accesses_of(Nest *n, NestNode *node, int buffer)
{
    Gather g = {.n = n, .buffer = buffer};
    nest_each_access(n, node, gather, &g);
    return g.out;
}

NestAccesses nest_accesses(Nest *n, NestNode *node)
{
    return nest_accesses_of(n, node, -1);
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

static bool bounds_of_binary(const Te *e, const NestNode *node, int64_t *low, int64_t *high)
{
    int64_t a, b, c, d;
    if (!nest_bounds(e->a, node, &a, &b) || !nest_bounds(e->b, node, &c, &d))
        return false;
    switch (e->op) {
    case TE_ADD: return !__builtin_add_overflow(a, c, low) && !__builtin_add_overflow(b, d, high);
    case TE_SUB: return !__builtin_sub_overflow(a, d, low) && !__builtin_sub_overflow(b, c, high);
    case TE_MUL:
        return a >= 0 && c >= 0 && !__builtin_mul_overflow(a, c, low) &&
               !__builtin_mul_overflow(b, d, high);
    case TE_DIV:
        *low = d > 0 ? a / d : 0;
        *high = c > 0 ? b / c : 0;
        return a >= 0 && c > 0;
    case TE_MOD:
        *low = 0;
        *high = b < d - 1 ? b : d - 1;
        return a >= 0 && c > 0;
    case TE_MIN:
        *low = a < c ? a : c;
        *high = b < d ? b : d;
        return true;
    default: return false;
    }
}

bool nest_bounds(const Te *e, const NestNode *node, int64_t *low, int64_t *high)
{
    const NestNode *loop = e->kind == TE_NODE_AXIS ? nest_loop_of(node, e->axis) : NULL;
    if (loop) {
        *low = 0;
        *high = loop->extent - 1;
        return true;
    }
    if (e->kind == TE_NODE_CONST && e->dtype.code == DTYPE_CODE_INT) {
        *low = *high = value_as_int(e->value);
        return true;
    }
    return e->kind == TE_NODE_BINARY && bounds_of_binary(e, node, low, high);
}

bool nest_may_leave(const NestNode *bound)
{
    int64_t low, high;
    return !nest_bounds(bound->value, bound->parent, &low, &high) || high >= bound->extent;
}

bool nest_is_private(const Nest *n, int buffer, const NestNode *loop)
{
    const NestBuffer *b = &n->buffers.at[buffer];
    return (b->place == NEST_LOCAL || b->place == NEST_REGISTER) && b->home &&
           nest_holds(loop, b->home);
}
