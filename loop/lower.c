/* The plain nest of a tensor program: a loop for each axis of a stage, in their order. */
#include "loop/nest.h"

#include "te/walk.h"

typedef struct Lower {
    Nest *n;
    const TeProgram *p;
    const TeStage *stage;
    int *var; /* by axis; -1: its only value is 0 */
} Lower;

static TeTensor tensor_of(const TeProgram *p, int id)
{
    if (id < p->n_inputs)
        return p->inputs[id];
    const TeStage *s = &p->stages[id - p->n_inputs];
    return (TeTensor){.id = id, .dtype = s->dtype, .rank = s->rank, .shape = s->shape};
}

static Te *lower_axis(Lower *w, int axis)
{
    return w->var[axis] < 0 ? te_int(&w->n->te, 0) : te_axis(&w->n->te, w->var[axis]);
}

/* Loads whose position is linear read that position. */
static Te *lower_node(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    Lower *w = data;
    TeAffine at;
    if (e->kind == TE_NODE_AXIS)
        return lower_axis(w, e->axis);
    if (e->kind != TE_NODE_LOAD)
        return NULL;
    if (e->otherwise || !te_load_affine(w->p, old, &at))
        return te_load_or(b, tensor_of(w->p, e->tensor), e->index, e->otherwise);
    NestLinear l = {.c = at.offset};
    for (int a = 0; a < w->stage->rank + w->stage->n_reduced; a++)
        if (w->var[a] >= 0)
            nest_add_term(&l, w->var[a], at.stride[a]);
    return nest_load(w->n, e->tensor, nest_position(w->n, &l));
}

/* Loops over axes [from, to) inside of `parent`; the innermost, or `parent`. */
static NestNode *add_loops(Lower *w, NestNode *parent, int from, int to)
{
    static const char *const names[] = {"i", "j", "k", "l", "m", "n"};
    for (int a = from; a < to; a++) {
        bool reduced = a >= w->stage->rank;
        int64_t extent = reduced ? w->stage->reduced[a - w->stage->rank] : w->stage->shape[a];
        w->var[a] = -1;
        if (extent == 1)
            continue;
        NestNode *loop = nest_loop(w->n, reduced ? "r" : names[a < 6 ? a : 5], extent);
        nest_append(w->n, parent, loop);
        w->var[a] = loop->var;
        parent = loop;
    }
    return parent;
}

/* The row-major number of axes [from, to). */
static Te *number_of(Lower *w, int from, int to)
{
    NestLinear l = {0};
    int64_t stride = 1;
    for (int a = to - 1; a >= from; a--) {
        if (w->var[a] >= 0)
            nest_add_term(&l, w->var[a], stride);
        stride *= a < w->stage->rank ? w->stage->shape[a] : w->stage->reduced[a - w->stage->rank];
    }
    return nest_position(w->n, &l);
}

static int accumulator(Lower *w, const char *name, DType dtype, NestNode *home)
{
    NestBuffer b = {.name = name, .dtype = dtype, .place = NEST_REGISTER, .size = 1, .home = home};
    return nest_buffer(w->n, b);
}

/* Sums of 16-bit floats are kept in float32 and rounded once. */
static DType folded_dtype(const TeStage *s)
{
    DType t = nest_is_position(s->reduce) ? s->body->dtype : s->dtype;
    return dtype_is_float(t) && t.bits == 16 ? (DType){DTYPE_CODE_FLOAT, 32, 1} : t;
}

static void lower_reduction(Lower *w, int id, NestNode *space, Te *out_at)
{
    Nest *n = w->n;
    const TeStage *s = w->stage;
    static const DType index = {DTYPE_CODE_INT, 64, 1};
    DType dtype = folded_dtype(s);
    int acc = accumulator(w, "acc", dtype, space), number = -1;
    Te *zero = te_int(&n->te, 0);
    nest_append(n, space, nest_store(n, acc, zero, nest_start_of(n, s->reduce, dtype)));
    if (nest_is_position(s->reduce)) {
        number = accumulator(w, "at", index, space);
        nest_append(n, space, nest_store(n, number, zero, te_int(&n->te, -1)));
    }
    NestNode *inner = add_loops(w, space, s->rank, s->rank + s->n_reduced);
    Te *value = te_cast(&n->te, dtype, te_rewrite(&n->te, s->body, lower_node, w));
    NestNode *fold = nest_fold(n, s->reduce, number < 0 ? acc : number, zero, value);
    fold->winner = acc;
    fold->number = number < 0 ? NULL : number_of(w, s->rank, s->rank + s->n_reduced);
    nest_append(n, inner, fold);
    Te *result = nest_load(n, number < 0 ? acc : number, zero);
    nest_append(n, space, nest_store(n, id, out_at, te_cast(&n->te, s->dtype, result)));
}

static bool is_empty(const TeStage *s)
{
    for (int a = 0; a < s->rank; a++)
        if (s->shape[a] == 0)
            return true;
    return false;
}

static void lower_stage(Lower *w, int id)
{
    Nest *n = w->n;
    const TeStage *s = w->stage;
    if (is_empty(s))
        return;
    w->var = arena_alloc_must(n->arena, (size_t)(s->rank + s->n_reduced) + 1, sizeof *w->var);
    NestNode *space = add_loops(w, NULL, 0, s->rank);
    Te *at = number_of(w, 0, s->rank);
    if (s->reduce != TE_NO_REDUCE)
        lower_reduction(w, id, space, at);
    else
        nest_append(n, space, nest_store(n, id, at, te_rewrite(&n->te, s->body, lower_node, w)));
}

static void add_product(Nest *n, int id, const NestProduct *product)
{
    NestNode *node = arena_new(n->arena, NestNode);
    node->kind = NEST_PRODUCT;
    node->buffer = id;
    node->product = *product;
    nest_append(n, NULL, node);
}

Nest *nest_of(Ctx *cx, Arena *arena, const TeProgram *p, const NestProduct *const *products)
{
    Nest *n = arena_new(arena, Nest);
    n->arena = arena;
    n->n_inputs = p->n_inputs;
    n->outputs = p->outputs;
    te_begin(&n->te, cx, arena);
    for (int i = 0; i < p->n_inputs + p->n_stages; i++) {
        TeTensor t = tensor_of(p, i);
        NestBuffer b = {.name = i < p->n_inputs ? NULL : p->stages[i - p->n_inputs].name,
                        .dtype = t.dtype,
                        .place = i < p->n_inputs ? NEST_GIVEN : NEST_SCRATCH,
                        .rank = t.rank,
                        .shape = t.shape};
        shape_size(t.rank, t.shape, &b.size);
        nest_buffer(n, b);
    }
    for (int i = 0; i < p->n_outputs; i++)
        n->buffers.at[p->outputs[i]].place = NEST_GIVEN;
    for (int i = 0; i < p->n_stages; i++) {
        Lower w = {.n = n, .p = p, .stage = &p->stages[i]};
        if (products && products[i])
            add_product(n, p->n_inputs + i, products[i]);
        else
            lower_stage(&w, p->n_inputs + i);
    }
    return n;
}
