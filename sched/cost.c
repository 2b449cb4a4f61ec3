/* What a nest costs, counted: an operation on a vector is the unit, and a scalar one as dear. */
#include "sched/sched.h"

#include "loop/access.h"
#include "te/walk.h"

/* A function of one number is a polynomial. */
#define FUNCTION_WORK 16

typedef struct Work {
    const Nest *n;
    const NestNode *node, *vector; /* the statement, and the vector loop around it */
    double work;
} Work;

static void count_node(void *data, Te *e)
{
    Work *w = data;
    bool index = e->dtype.code == DTYPE_CODE_INT && e->dtype.bits == 64;
    NestLinear l;
    if (e->kind != TE_NODE_LOAD) {
        w->work += index || e->kind < TE_NODE_UNARY ? 0
                   : e->kind == TE_NODE_UNARY       ? FUNCTION_WORK
                                                    : 1;
        return;
    }
    const NestBuffer *b = &w->n->buffers.at[e->tensor];
    if (b->place == NEST_REGISTER || b->size == 1)
        return;
    if (e->word) {
        w->work += 1; /* loaded and put in order */
        return;
    }
    bool even = e->n == 1 && nest_linear(e->index[0], &l);
    int64_t stride = !w->vector ? 1 : even ? nest_coefficient(&l, w->vector->var) : 2;
    w->work += stride >= -1 && stride <= 1 ? 0.5 : w->vector->lanes;
}

static double work_of(Sched *s, const NestNode *node, const NestNode *vector)
{
    if (node->kind == NEST_PRODUCT) {
        const NestProduct *p = &node->product;
        return (double)p->batch.extent * (double)p->m.extent * (double)p->n.extent *
               (double)p->k.extent / (double)s->lanes;
    }
    if (node->kind == NEST_MATRIX)
        return sched_matrix_cost(node->matrix);
    bool memory = node->kind == NEST_STORE && s->n->buffers.at[node->buffer].place != NEST_REGISTER;
    Work w = {.n = s->n, .node = node, .vector = vector, .work = memory ? 1 : 0};
    /* A product is added in one operation. */
    bool fused = node->kind == NEST_FOLD && node->value->kind == TE_NODE_BINARY;
    w.work += node->kind == NEST_FOLD && !fused;
    if (node->value) {
        PtrMap seen = {0};
        te_each(s->arena, &seen, node->value, count_node, &w);
        ptrmap_deinit(&seen);
    }
    if (node->kind == NEST_IF)
        return 1;
    vector = node->kind == NEST_LOOP && node->way == NEST_VECTOR ? node : vector;
    for (size_t i = 0; i < node->body.n; i++)
        w.work += work_of(s, node->body.at[i], vector);
    bool turns = node->kind == NEST_LOOP && node->way != NEST_VECTOR;
    return turns ? w.work * (double)node->extent : w.work;
}

SchedCost sched_cost(Arena *arena, const Machine *m, const TeProgram *p, Nest *n)
{
    Sched s = {.arena = arena, .n = n, .m = m, .lanes = (int)m->vector_bytes / 4};
    SchedCost cost = {.operations = te_cost(p).operations};
    for (size_t i = 0; i < n->root.n; i++) {
        bool spread = n->root.at[i]->kind == NEST_LOOP && n->root.at[i]->way == NEST_PARALLEL;
        cost.work += work_of(&s, n->root.at[i], NULL) / (spread ? m->threads : 1);
    }
    bool *seen = arena_alloc_must(arena, n->buffers.n + 1, sizeof *seen);
    for (size_t i = 0; i < n->root.n; i++) {
        NestAccesses all = nest_accesses(n, n->root.at[i]);
        for (size_t k = 0; k < all.n; k++) {
            const NestBuffer *b = &n->buffers.at[all.at[k].buffer];
            bool outside = b->place == NEST_GIVEN || b->place == NEST_CONSTANT;
            if (outside && !seen[all.at[k].buffer])
                cost.bytes += (double)b->size * (double)dtype_size(b->dtype);
            seen[all.at[k].buffer] = true;
        }
    }
    return cost;
}
