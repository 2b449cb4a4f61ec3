#include "te/internal.h"

#include "base/table.h"

#include <string.h>

typedef struct Counter {
    const TeProgram *p;
    const TeStage *s;
    double operations;          /* an element */
    bool *read;                 /* by tensor */
} Counter;

/* Index arithmetic costs nothing here: it is not what a roofline is about. */
static void count_node(Counter *c, const Te *e)
{
    if (e->kind == TE_NODE_LOAD) {
        c->read[e->tensor] = true;
        return;
    }
    bool index = e->dtype.code == DTYPE_CODE_INT && e->dtype.bits == 64;
    if ((e->kind == TE_NODE_UNARY || e->kind == TE_NODE_BINARY) && !index)
        c->operations++;
}

static void count_body(Counter *c, Arena *arena, const Te *body)
{
    PtrMap seen = {0};
    Vec(const Te *) work = {0};
    vec_push(&work, arena, body);
    while (work.n) {
        const Te *e = vec_pop(&work);
        if (!e || ptrmap_find(&seen, e))
            continue;
        ptrmap_put(&seen, e, (void *)(uintptr_t)e);
        count_node(c, e);
        if (e->kind == TE_NODE_LOAD) {
            for (int i = 0; i < e->n; i++)
                vec_push(&work, arena, e->index[i]);
            vec_push(&work, arena, e->otherwise);
        } else if (e->kind >= TE_NODE_UNARY) {
            vec_push(&work, arena, e->a);
            vec_push(&work, arena, e->b);
            vec_push(&work, arena, e->c);
        }
    }
    ptrmap_deinit(&seen);
}

static double elements(int rank, const int64_t *shape)
{
    double n = 1;
    for (int i = 0; i < rank; i++)
        n *= (double)shape[i];
    return n;
}

static const Te *without_casts(const Te *e)
{
    while (e && e->kind == TE_NODE_CAST)
        e = e->a;
    return e;
}

/* A sum of products of elements of two tensors. */
static bool sums_products(const TeStage *s)
{
    const Te *body = s->reduce == TE_SUM ? without_casts(s->body) : NULL;
    if (!body || body->kind != TE_NODE_BINARY || body->op != TE_MUL)
        return false;
    const Te *a = without_casts(body->a), *b = without_casts(body->b);
    return a->kind == TE_NODE_LOAD && b->kind == TE_NODE_LOAD && a->tensor != b->tensor;
}

TeCost te_cost(const TeProgram *p)
{
    TeCost cost = {0};
    Arena arena;
    arena_init(&arena, NULL);
    Counter c = {.p = p};
    c.read = arena_alloc_must(&arena, (size_t)(p->n_inputs + p->n_stages) + 1, sizeof *c.read);
    for (int i = 0; i < p->n_stages; i++) {
        const TeStage *s = &p->stages[i];
        c.s = s;
        c.operations = s->reduce == TE_NO_REDUCE ? 0 : 1;
        if (te_view_of(p, s, NULL) >= 0)
            continue;
        memset(c.read, 0, (size_t)(p->n_inputs + p->n_stages) * sizeof *c.read);
        count_body(&c, &arena, s->body);
        double space = elements(s->rank, s->shape), folded = elements(s->n_reduced, s->reduced);
        cost.operations += c.operations * space * folded;
        cost.multiply_adds += sums_products(s) ? space * folded : 0;
        cost.bytes_written += space * (double)dtype_size(s->dtype);
        for (int k = 0; k < p->n_inputs + p->n_stages; k++) {
            TeTensor t = te_tensor(p, k);
            double bytes = elements(t.rank, t.shape) * (double)dtype_size(t.dtype);
            double most = space * folded * (double)dtype_size(t.dtype);
            cost.bytes_read += !c.read[k] ? 0 : bytes < most ? bytes : most;
        }
    }
    arena_deinit(&arena);
    return cost;
}
