/* Folds of very many elements into few results: each result is folded from partial ones, which threads make at once. How many parts there are
 * depends on what is folded alone, so that results are the same on any number of threads. */
#include "sched/strategy.h"

#include "te/walk.h"

/* Elements from which on it pays; results from which on threads share those instead; how many parts there are. */
#define ELEMENTS_LEAST ((int64_t)1 << 17)
#define RESULTS_MOST 16
enum { PARTS_LEAST = 8, PARTS_MOST = 32 };

typedef struct Partial {
    TeBuilder b; /* of the new program */
    TeTensor *made; /* by id of the old program */
    Te *axes[2 * TENSOR_RANK_MOST]; /* of the stage that is made of parts, by its own axes */
} Partial;

/* Whether partial results may be folded. A NaN makes extremes of floats depend on the order, and products of floats that leave the range would
 * do so slowly once in each part. */
static bool is_free(const Sched *s, const TeStage *t)
{
    if (t->reduce == TE_NO_REDUCE || t->at || t->reduce >= TE_ARGMAX)
        return false;
    return !dtype_is_float(t->dtype) ||
           (t->reduce == TE_SUM && s->m->reorders && t->dtype.bits >= 32);
}

static bool is_large(const TeStage *t)
{
    int64_t results, folds;
    return shape_size(t->rank, t->shape, &results) &&
           shape_size(t->n_reduced, t->reduced, &folds) && results > 0 && results < RESULTS_MOST &&
           folds >= ELEMENTS_LEAST / results;
}

/* The greatest number of parts of one size. */
static int64_t parts_of(int64_t extent)
{
    int64_t parts = PARTS_MOST;
    while (extent % parts)
        parts--;
    return parts;
}

/* The outermost reduced axis that comes apart, so that each part lies as much in one piece as there is; -1: the stage stays whole. */
static int parted_axis(const Sched *s, int stage)
{
    const TeStage *t = &s->p->stages[stage];
    if (!is_free(s, t) || !is_large(t) || t->rank == TENSOR_RANK_MOST || strategy_of(s, stage) ||
        te_stage_faults(s->arena, t))
        return -1;
    for (int i = 0; i < t->n_reduced; i++)
        if (parts_of(t->reduced[i]) >= PARTS_LEAST)
            return i;
    return -1;
}

static Te *in_part(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    const Partial *w = data;
    (void)old;
    if (e->kind == TE_NODE_LOAD)
        return te_load_or(b, w->made[e->tensor], e->index, e->otherwise);
    return e->kind == TE_NODE_AXIS ? w->axes[e->axis] : NULL;
}

/* The parts are the outermost axis of what is made of them. */
static TeTensor of_parts(Partial *w, const TeStage *t, int axis)
{
    TeBuilder *b = &w->b;
    int64_t parts = parts_of(t->reduced[axis]), reduced[TENSOR_RANK_MOST], shape[TENSOR_RANK_MOST];
    Te *index[TENSOR_RANK_MOST];
    memcpy(reduced, t->reduced, (size_t)t->n_reduced * sizeof *reduced);
    reduced[axis] /= parts;
    for (int a = 0; a < t->rank + t->n_reduced; a++)
        w->axes[a] = te_axis(b, a + 1);
    Te *first = te_binary(b, TE_MUL, te_axis(b, 0), te_int(b, reduced[axis]));
    w->axes[t->rank + axis] = te_binary(b, TE_ADD, first, w->axes[t->rank + axis]);
    shape[0] = parts;
    index[0] = te_axis(b, t->rank);
    for (int a = 0; a < t->rank; a++) {
        shape[a + 1] = t->shape[a];
        index[a + 1] = te_axis(b, a);
    }
    TeTensor part = te_reduce(b, t->reduce, t->dtype, t->rank + 1, shape, t->n_reduced, reduced,
                              te_rewrite(b, t->body, in_part, w));
    vec_last(&b->stages).name = t->name;
    return te_reduce(b, t->reduce, t->dtype, t->rank, t->shape, 1, &parts, te_load(b, part, index));
}

const TeProgram *partial_program(const Sched *s)
{
    const TeProgram *p = s->p;
    bool any = false;
    for (int i = 0; i < p->n_stages && !any; i++)
        any = parted_axis(s, i) >= 0;
    if (!any)
        return p;
    Partial w = {0};
    w.made = te_begin_from(&w.b, s->cx, s->arena, p);
    for (int i = 0; i < p->n_stages; i++) {
        const TeStage *t = &p->stages[i];
        int axis = parted_axis(s, i);
        for (int a = 0; a < t->rank + t->n_reduced; a++)
            w.axes[a] = te_axis(&w.b, a);
        w.made[p->n_inputs + i] =
            axis >= 0 ? of_parts(&w, t, axis)
                      : te_add_stage(&w.b, t, te_rewrite(&w.b, t->body, in_part, &w));
        vec_last(&w.b.stages).name = t->name;
    }
    return te_finish_from(&w.b, p, w.made);
}
