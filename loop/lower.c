/* The plain nest of a tensor program: a loop for each axis of a stage, in their order. */
#include "loop/nest.h"

#include "te/walk.h"

typedef struct Lower {
    Nest *n;
    const TeProgram *p;
    const TeStage *stage;
    NestLinear *axis; /* the value of each axis */
    int instead; /* loads of this tensor are `with`; -1: none */
    Te *with;
    bool loops; /* each part is a loop */
} Lower;

static TeTensor tensor_of(const TeProgram *p, int id)
{
    if (id < p->n_inputs)
        return p->inputs[id];
    const TeStage *s = &p->stages[id - p->n_inputs];
    return (TeTensor){.id = id, .dtype = s->dtype, .rank = s->rank, .shape = s->shape};
}

static void add_scaled(NestLinear *to, const NestLinear *l, int64_t by)
{
    to->c += l->c * by;
    for (int i = 0; i < l->n; i++)
        nest_add_term(to, l->term[i].var, l->term[i].by * by);
}

/* Loads whose position is linear read that position, and those whose indices are made of one number read at that. */
static Te *lower_node(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    Lower *w = data;
    TeAffine at;
    if (e->kind == TE_NODE_AXIS)
        return nest_position(w->n, &w->axis[e->axis]);
    if (e->kind != TE_NODE_LOAD)
        return NULL;
    if (e->tensor == w->instead)
        return w->with;
    if (e->otherwise || !te_load_affine(w->p, old, &at)) {
        const Te *number = te_load_number(w->p, e);
        if (number)
            return nest_load_like(w->n, e, e->tensor, (Te *)(uintptr_t)number);
        return te_load_or(b, tensor_of(w->p, e->tensor), e->index, e->otherwise);
    }
    NestLinear l = {.c = at.offset};
    for (int a = 0; a < w->stage->rank + w->stage->n_reduced; a++)
        add_scaled(&l, &w->axis[a], at.stride[a]);
    return nest_load_like(w->n, e, e->tensor, nest_position(w->n, &l));
}

Te *nest_expression(Nest *n, const TeProgram *p, int stage, NestLinear *axes, int instead, Te *with)
{
    Lower w = {
        .n = n, .p = p, .stage = &p->stages[stage], .axis = axes, .instead = instead, .with = with};
    return te_rewrite(&n->te, w.stage->body, lower_node, &w);
}

Te *nest_scatter_place(Nest *n, const TeProgram *p, int buffer, NestLinear *axes)
{
    Lower w = {
        .n = n, .p = p, .stage = &p->stages[buffer - p->n_inputs], .axis = axes, .instead = -1};
    return te_rewrite(&n->te, w.stage->at, lower_node, &w);
}

/* Loops over axes [from, to) inside of `parent`; the innermost, or `parent`. */
static NestNode *add_loops(Lower *w, NestNode *parent, int from, int to)
{
    static const char *const names[] = {"i", "j", "k", "l", "m", "n"};
    for (int a = from; a < to; a++) {
        bool reduced = a >= w->stage->rank;
        int64_t extent = reduced ? w->stage->reduced[a - w->stage->rank] : w->stage->shape[a];
        if (extent == 1)
            continue;
        NestNode *loop = nest_loop(w->n, reduced ? "r" : names[a < 6 ? a : 5], extent);
        nest_append(w->n, parent, loop);
        nest_add_term(&w->axis[a], loop->var, 1);
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
        add_scaled(&l, &w->axis[a], stride);
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

/* Another tensor's elements, and then the values one after the other. */
static void lower_scatter(Lower *w, int id, NestNode *space, Te *at)
{
    Nest *n = w->n;
    const TeStage *s = w->stage;
    nest_append(n, space, nest_store(n, id, at, nest_load(n, s->onto, at)));
    NestNode *inner = add_loops(w, NULL, s->rank, s->rank + s->n_reduced);
    Te *place = nest_scatter_place(n, w->p, id, w->axis);
    Te *value = te_rewrite(&n->te, s->body, lower_node, w);
    nest_append(n, inner,
                s->reduce == TE_NO_REDUCE ? nest_store(n, id, place, value)
                                          : nest_fold(n, s->reduce, id, place, value));
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
    w->axis = arena_alloc_must(n->arena, (size_t)(s->rank + s->n_reduced) + 1, sizeof *w->axis);
    NestNode *space = add_loops(w, NULL, 0, s->rank);
    if (!space && w->loops)
        nest_append(n, NULL, space = nest_loop(n, "i", 1));
    Te *at = number_of(w, 0, s->rank);
    if (s->at)
        lower_scatter(w, id, space, at);
    else if (s->reduce != TE_NO_REDUCE)
        lower_reduction(w, id, space, at);
    else
        nest_append(n, space, nest_store(n, id, at, te_rewrite(&n->te, s->body, lower_node, w)));
}

Nest *nest_of(Ctx *cx, Arena *arena, const TeProgram *p, const NestParts *parts)
{
    Nest *n = arena_new(arena, Nest);
    n->arena = arena;
    n->n_inputs = p->n_inputs;
    n->p = p;
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
        Lower w = {.n = n, .p = p, .stage = &p->stages[i], .instead = -1};
        w.loops = parts && parts->loops;
        n->te.span = p->stages[i].body->span;
        if (!parts || !parts->build || !parts->build(parts->data, n, i))
            lower_stage(&w, p->n_inputs + i);
    }
    n->te.span = (Span){0};
    return n;
}
