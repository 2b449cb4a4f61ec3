/* Sums of products over windows (convolutions), made ready for the processor by a copy of the windowed operand.
 *
 * Large ones become one matrix product: the operand is written out with an element for each position of the window and of the result
 * ("columns"). The others read a copy with its border of zeros, so that no load has to ask whether it lies inside. */
#include "sched/sched.h"

#include "te/walk.h"

#include <string.h>

#define COLUMNS_MOST ((size_t)64 << 20)
#define AXES_MOST (2 * TENSOR_RANK_MOST)

typedef struct Window {
    TeBuilder b; /* of the new program */
    const TeProgram *p;
    TeTensor *made; /* by id of the old program */
} Window;

static Te *move_load(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    const Window *w = data;
    (void)old;
    if (e->kind != TE_NODE_LOAD)
        return NULL;
    return te_load_or(b, w->made[e->tensor], e->index, e->otherwise);
}

static Te *moved(Window *w, const Te *e)
{
    return te_rewrite(&w->b, e, move_load, w);
}

static int64_t extent_of(const TeStage *s, int axis)
{
    return axis < s->rank ? s->shape[axis] : s->reduced[axis - s->rank];
}

/* The sum over the copy instead of the operand that was copied. */
static TeTensor sum_of(TeBuilder *b, const TeStage *s, Te *now, Te *other)
{
    Te *body = te_binary(b, TE_MUL, now, other);
    return te_reduce(b, TE_SUM, s->dtype, s->rank, s->shape, s->n_reduced, s->reduced, body);
}

/* ---- columns --------------------------------------------------------------------------------------------------------- */

typedef struct Columns {
    int n;
    int axis
        [AXES_MOST]; /* those of the reduction, then those of the space, that the operand steps along */
    int64_t shape[AXES_MOST];
} Columns;

static Columns columns_of(const TeStage *s, const TeAffine *at)
{
    Columns c = {0};
    for (int pass = 0; pass < 2; pass++)
        for (int a = pass ? 0 : s->rank; a < (pass ? s->rank : s->rank + s->n_reduced); a++) {
            if (at->stride[a] == 0 || extent_of(s, a) == 1)
                continue;
            c.shape[c.n] = extent_of(s, a);
            c.axis[c.n++] = a;
        }
    return c;
}

static Te *rename_axis(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    Te *const *axes = data;
    (void)b;
    (void)old;
    return e->kind == TE_NODE_AXIS ? axes[e->axis] : NULL;
}

static TeTensor with_columns(Window *w, const TeStage *s, const Columns *c, const Te *load,
                             const Te *other)
{
    TeBuilder *b = &w->b;
    Te *to_copy[AXES_MOST], *index[TENSOR_RANK_MOST], *of_sum[TENSOR_RANK_MOST];
    for (int a = 0; a < AXES_MOST; a++)
        to_copy[a] = te_int(b, 0);
    for (int i = 0; i < c->n; i++) {
        to_copy[c->axis[i]] = te_axis(b, i);
        of_sum[i] = te_axis(b, c->axis[i]);
    }
    for (int i = 0; i < load->n; i++)
        index[i] = te_rewrite(b, load->index[i], rename_axis, to_copy);
    Te *body = te_load_or(b, w->made[load->tensor], index, load->otherwise);
    TeTensor copy = te_map(b, load->dtype, c->n, c->shape, body);
    return sum_of(b, s, te_load(b, copy, of_sum), moved(w, other));
}

/* Whether the sum over columns is a product for the library. */
static bool columns_pay(Window *w, const TeStage *s, const Columns *c, const Te *load,
                        const Te *other)
{
    int64_t size;
    if (c->n == 0 || c->n > TENSOR_RANK_MOST || !shape_size(c->n, c->shape, &size) ||
        (size_t)size * dtype_size(load->dtype) > COLUMNS_MOST)
        return false;
    Window trial = *w;
    te_begin(&trial.b, w->b.cx, w->b.arena);
    trial.made = arena_alloc_must(w->b.arena, (size_t)(w->p->n_inputs + w->p->n_stages) + 1,
                                  sizeof *trial.made);
    for (int i = 0; i < w->p->n_inputs + w->p->n_stages; i++) {
        const TeStage *old = i < w->p->n_inputs ? NULL : &w->p->stages[i - w->p->n_inputs];
        trial.made[i] = old ? te_add_input(&trial.b, old->dtype, old->rank, old->shape)
                            : te_add_input(&trial.b, w->p->inputs[i].dtype, w->p->inputs[i].rank,
                                           w->p->inputs[i].shape);
    }
    TeTensor sum = with_columns(&trial, s, c, load, other);
    const TeProgram *p = te_finish(&trial.b, 1, &sum, false);
    return p && p->n_stages == 2 && product_of(w->b.arena, p, 1);
}

/* ---- borders ----------------------------------------------------------------------------------------------------------- */

static bool linear_range(const TeStage *s, const Te *index, int64_t *low, int64_t *high)
{
    NestLinear l;
    if (!nest_linear(index, &l))
        return false;
    *low = *high = l.c;
    for (int i = 0; i < l.n; i++) {
        int64_t far = l.term[i].by * (extent_of(s, l.term[i].var) - 1);
        *(far < 0 ? low : high) += far;
    }
    return true;
}

static bool with_border(Window *w, const TeStage *s, const Te *load, const Te *other, TeTensor *out)
{
    TeBuilder *b = &w->b;
    TeTensor t = w->made[load->tensor];
    int64_t shape[TENSOR_RANK_MOST], low, high;
    Te *index[TENSOR_RANK_MOST], *of_sum[TENSOR_RANK_MOST];
    for (int i = 0; i < load->n; i++) {
        if (!linear_range(s, load->index[i], &low, &high))
            return false;
        low = low < 0 ? low : 0;
        high = high >= t.shape[i] ? high : t.shape[i] - 1;
        shape[i] = high - low + 1;
        index[i] = te_binary(b, TE_ADD, te_axis(b, i), te_int(b, low));
        of_sum[i] = te_binary(b, TE_ADD, load->index[i], te_int(b, -low));
    }
    TeTensor copy = te_map(b, load->dtype, t.rank, shape, te_load_or(b, t, index, load->otherwise));
    *out = sum_of(b, s, te_load(b, copy, of_sum), moved(w, other));
    return true;
}

/* ---- choice -------------------------------------------------------------------------------------------------------------- */

/* The stage with a copy in front of it; false when it is better left as it is. */
static bool with_copy(Window *w, int stage, TeTensor *out)
{
    const TeStage *s = &w->p->stages[stage];
    TeContraction t;
    if (!te_contraction(w->p, stage, &t) || product_of(w->b.arena, w->p, stage))
        return false;
    const Te *a = s->body->a, *b = s->body->b;
    bool first = t.a.padded || !t.b.padded;
    const Te *load = first ? a : b, *other = first ? b : a;
    if (t.a.padded && t.b.padded)
        return false;
    Columns c = columns_of(s, first ? &t.a : &t.b);
    if (columns_pay(w, s, &c, load, other)) {
        *out = with_columns(w, s, &c, load, other);
        return true;
    }
    return load->otherwise && with_border(w, s, load, other, out);
}

const TeProgram *window_program(Ctx *cx, Arena *arena, const TeProgram *p)
{
    Window w = {.p = p};
    bool any = false;
    te_begin(&w.b, cx, arena);
    w.made = arena_alloc_must(arena, (size_t)(p->n_inputs + p->n_stages) + 1, sizeof *w.made);
    for (int i = 0; i < p->n_inputs; i++)
        w.made[i] = te_add_input(&w.b, p->inputs[i].dtype, p->inputs[i].rank, p->inputs[i].shape);
    for (int i = 0; i < p->n_stages; i++) {
        const TeStage *s = &p->stages[i];
        TeTensor *out = &w.made[p->n_inputs + i];
        if (with_copy(&w, i, out))
            any = true;
        else
            *out = te_reduce(&w.b, s->reduce, s->dtype, s->rank, s->shape, s->n_reduced, s->reduced,
                             moved(&w, s->body));
        vec_last(&w.b.stages).name = s->name;
    }
    if (!any)
        return p;
    TeTensor *outputs = arena_alloc_must(arena, (size_t)p->n_outputs + 1, sizeof *outputs);
    for (int i = 0; i < p->n_outputs; i++)
        outputs[i] = w.made[p->outputs[i]];
    return te_finish(&w.b, p->n_outputs, outputs, p->tuple);
}
