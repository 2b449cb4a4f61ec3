/* Fusion of stages: the expression of a mapping stage in place of the loads of it. */
#include "te/internal.h"

#include "base/table.h"

typedef struct StageUse {
    int loads;              /* nodes that read it */
    int reader;             /* a stage that does */
    bool padded;            /* one of them may leave it */
    bool whole;             /* the last of them reads every element */
    bool output;
} StageUse;

typedef struct Inliner {
    TeBuilder b;
    const TeProgram *p;
    StageUse *uses;         /* by id */
    Te **bodies;            /* by stage: rewritten */
    bool *gone;             /* by stage: its readers have it */
    bool *faults;           /* by stage: it may stop with an error, or what goes into it may */
} Inliner;

/* ---- what is read how often ---------------------------------------------------------------------- */

typedef Vec(Te *) TeVec;

static void push_below(Inliner *in, TeVec *work, const Te *e)
{
    Arena *arena = in->b.arena;
    if (e->kind == TE_NODE_LOAD) {
        for (int i = 0; i < e->n; i++)
            vec_push(work, arena, e->index[i]);
        if (e->otherwise)
            vec_push(work, arena, e->otherwise);
    } else if (e->kind >= TE_NODE_UNARY) {
        Te *children[3] = {e->a, e->b, e->c};
        for (int i = 0; i < 3; i++)
            if (children[i])
                vec_push(work, arena, children[i]);
    }
}

/* Each index is an axis of its own that runs over the whole extent. */
static bool reads_all(const Inliner *in, const Te *load, const TeStage *reader)
{
    uint64_t seen = 0;
    TeTensor t = te_tensor(in->p, load->tensor);
    for (int i = 0; i < load->n; i++) {
        const Te *e = load->index[i];
        if (e->kind != TE_NODE_AXIS || seen >> e->axis & 1)
            return false;
        int64_t extent = e->axis < reader->rank ? reader->shape[e->axis]
                                                : reader->reduced[e->axis - reader->rank];
        if (extent != t.shape[i])
            return false;
        seen |= (uint64_t)1 << e->axis;
    }
    return true;
}

static void count_uses(Inliner *in, int stage)
{
    PtrMap seen = {0};
    TeVec work = {0};
    vec_push(&work, in->b.arena, in->p->stages[stage].body);
    while (work.n) {
        Te *e = vec_pop(&work);
        if (ptrmap_find(&seen, e))
            continue;
        ptrmap_put(&seen, e, e);
        push_below(in, &work, e);
        if (e->kind != TE_NODE_LOAD)
            continue;
        StageUse *u = &in->uses[e->tensor];
        u->loads++;
        u->reader = stage;
        u->padded = u->padded || e->otherwise;
        u->whole = reads_all(in, e, &in->p->stages[stage]);
    }
    ptrmap_deinit(&seen);
}

/* ---- what may go --------------------------------------------------------------------------------- */

static double positions(const TeStage *s)
{
    double n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= (double)s->shape[i];
    for (int i = 0; i < s->n_reduced; i++)
        n *= (double)s->reduced[i];
    return n;
}

static bool is_cheap(const Te *e)
{
    return e->kind == TE_NODE_CONST || (e->kind == TE_NODE_LOAD && !e->otherwise) ||
           (e->kind == TE_NODE_CAST && is_cheap(e->a));
}

/* A stage goes into its reader when nothing is computed more often than before, or costs next to
 * nothing. Contractions keep their factors: they are worth more as matrix products. What may stop with
 * an error goes only where all of it is computed. */
static bool may_go(const Inliner *in, int stage)
{
    TeContraction c;
    const TeStage *s = &in->p->stages[stage];
    const StageUse *u = &in->uses[in->p->n_inputs + stage];
    if (s->reduce != TE_NO_REDUCE || u->output || u->padded || u->loads != 1)
        return false;
    if (te_contraction(in->p, u->reader, &c))
        return false;
    if (in->faults[stage] && !(u->whole && positions(&in->p->stages[u->reader]) > 0))
        return false;
    return is_cheap(s->body) || positions(&in->p->stages[u->reader]) <= positions(s);
}

/* ---- rewriting ----------------------------------------------------------------------------------- */

/* One copy of an expression: axes become `axes` where that is not NULL. */
typedef struct Copy {
    Inliner *in;
    PtrMap done;
    Te *const *axes;
} Copy;

static Te *copied(Copy *c, const Te *e)
{
    return e ? ptrmap_find(&c->done, e) : NULL;
}

static Te *copy_expression(Inliner *in, const Te *body, Te *const *axes);

static Te *copy_load(Copy *c, const Te *e)
{
    Inliner *in = c->in;
    Te *index[TENSOR_RANK_MOST];
    for (int i = 0; i < e->n; i++)
        index[i] = copied(c, e->index[i]);
    int stage = e->tensor - in->p->n_inputs;
    if (stage >= 0 && in->gone[stage])
        return copy_expression(in, in->bodies[stage], index);
    return te_load_or(&in->b, te_tensor(in->p, e->tensor), index, copied(c, e->otherwise));
}

/* Divisions of positions are taken apart again, now that more is known about them. */
static Te *copy_binary(Copy *c, const Te *e)
{
    TeBuilder *b = &c->in->b;
    Te *x = copied(c, e->a), *y = copied(c, e->b), *quotient, *remainder;
    if ((e->op == TE_DIV || e->op == TE_MOD) && x->kind == TE_NODE_BINARY && x->n == 1 &&
        y->kind == TE_NODE_CONST && value_as_int(y->value) > 0) {
        te_split(b, x, value_as_int(y->value), &quotient, &remainder);
        return e->op == TE_DIV ? quotient : remainder;
    }
    Te *made = te_binary(b, (TeOp)e->op, x, y);
    if (e->n == 1 && made->kind == TE_NODE_BINARY && made->op == TE_ADD && made->b == y &&
        made->a->kind == TE_NODE_BINARY && made->a->op == TE_MUL)
        made->n = 1;
    return made;
}

static Te *copy_node(Copy *c, const Te *e)
{
    TeBuilder *b = &c->in->b;
    switch ((TeKind)e->kind) {
    case TE_NODE_CONST: {
        Te *made = te_int(b, 0);
        made->dtype = e->dtype;
        made->value = e->value;
        return made;
    }
    case TE_NODE_AXIS: return c->axes ? c->axes[e->axis] : te_axis(b, e->axis);
    case TE_NODE_LOAD: return copy_load(c, e);
    case TE_NODE_UNARY: return te_unary(b, (TeOp)e->op, copied(c, e->a));
    case TE_NODE_BINARY: return copy_binary(c, e);
    case TE_NODE_CAST: return te_cast(b, e->dtype, copied(c, e->a));
    case TE_NODE_SELECT: return te_select(b, copied(c, e->a), copied(c, e->b), copied(c, e->c));
    }
    return NULL;
}

/* `body` was rewritten already, so a load in it of a stage that is gone does not occur: the nesting of
 * copies is two deep. */
static Te *copy_expression(Inliner *in, const Te *body, Te *const *axes)
{
    Copy c = {.in = in, .axes = axes};
    PtrMap entered = {0};
    TeVec work = {0};
    vec_push(&work, in->b.arena, (Te *)(uintptr_t)body);
    while (work.n) {
        Te *e = vec_last(&work);
        if (ptrmap_find(&c.done, e)) {
            work.n--;
        } else if (ptrmap_find(&entered, e)) {
            work.n--;
            ptrmap_put(&c.done, e, copy_node(&c, e));
        } else {
            ptrmap_put(&entered, e, e);
            push_below(in, &work, e);
        }
    }
    Te *made = copied(&c, body);
    ptrmap_deinit(&entered);
    ptrmap_deinit(&c.done);
    return made;
}

static void find_gone(Inliner *in)
{
    const TeProgram *p = in->p;
    for (int i = 0; i < p->n_stages; i++)
        in->faults[i] = te_holds_fault(in->b.arena, p->stages[i].body);
    for (int i = 0; i < p->n_stages; i++) {
        in->gone[i] = may_go(in, i);
        if (in->gone[i] && in->faults[i])
            in->faults[in->uses[p->n_inputs + i].reader] = true;
    }
}

TeProgram *te_inline(Ctx *cx, Arena *arena, const TeProgram *p)
{
    Inliner in = {.p = p};
    int n = p->n_inputs + p->n_stages;
    te_begin(&in.b, cx, arena);
    in.uses = arena_alloc_must(arena, (size_t)n + 1, sizeof *in.uses);
    in.bodies = arena_alloc_must(arena, (size_t)n + 1, sizeof *in.bodies);
    in.faults = arena_alloc_must(arena, (size_t)n + 1, sizeof *in.faults);
    in.gone = arena_alloc_must(arena, (size_t)n + 1, sizeof *in.gone);
    for (int i = 0; i < p->n_inputs; i++)
        te_add_input(&in.b, p->inputs[i].dtype, p->inputs[i].rank, p->inputs[i].shape);
    for (int i = 0; i < p->n_stages; i++)
        count_uses(&in, i);
    for (int i = 0; i < p->n_outputs; i++)
        in.uses[p->outputs[i]].output = true;
    find_gone(&in);
    TeTensor *made = arena_alloc_must(arena, (size_t)n + 1, sizeof *made);
    for (int i = 0; i < p->n_stages; i++) {
        const TeStage *s = &p->stages[i];
        in.bodies[i] = copy_expression(&in, s->body, NULL);
        te_reduce(&in.b, s->reduce, s->dtype, s->rank, s->shape, s->n_reduced, s->reduced,
                  in.bodies[i]);
        vec_last(&in.b.stages).name = s->name;
    }
    for (int i = 0; i < p->n_outputs; i++)
        made[i] = te_tensor(p, p->outputs[i]);
    return te_finish_without(&in.b, p->n_outputs, made, p->tuple, in.gone);
}
