/* Fusion of stages: the expression of a mapping stage in place of the loads of it. */
#include "te/internal.h"

typedef struct StageUse {
    int loads;              /* nodes that read it */
    int reader;             /* a stage that does */
    bool padded;            /* one of them may leave it */
    bool by_window;         /* and belongs to a fold */
    bool whole;             /* the last of them reads every element */
    bool output;
    bool risky;             /* it may stop with an error, or what it is computed from may */
    uint64_t risky_axes;    /* those whose index in one of the loads may */
} StageUse;

typedef struct Inliner {
    TeBuilder b;
    const TeProgram *p;
    StageUse *uses;         /* by id */
    Te **bodies;            /* by stage: rewritten */
    bool *gone;             /* by stage: its readers have it */
    int *home;              /* by stage: see below */
    bool *works;            /* by stage: a function of many steps is computed there */
    int *size;              /* by stage: nodes of its expression as a tree */
    bool *faults;           /* by stage: it may stop with an error, or what goes into it may */
} Inliner;

/* ---- what is read how often ---------------------------------------------------------------------- */

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

typedef struct Reader {
    Inliner *in;
    int stage;
} Reader;

typedef struct Risk {
    const Inliner *in;
    bool found;
} Risk;

static void find_risk(void *data, Te *e)
{
    Risk *r = data;
    r->found |= te_may_fault(e) || (e->kind == TE_NODE_LOAD && r->in->uses[e->tensor].risky);
}

static bool is_risky(const Inliner *in, Te *e)
{
    PtrMap seen = {0};
    Risk r = {in, false};
    if (e->kind != TE_NODE_AXIS && e->kind != TE_NODE_CONST)
        te_each(in->b.arena, &seen, e, find_risk, &r);
    ptrmap_deinit(&seen);
    return r.found;
}

static void count_load(void *data, Te *e)
{
    const Reader *r = data;
    if (e->kind != TE_NODE_LOAD)
        return;
    StageUse *u = &r->in->uses[e->tensor];
    u->loads++;
    u->reader = r->stage;
    u->padded = u->padded || e->otherwise;
    u->by_window = u->padded && r->in->p->stages[r->stage].reduce != TE_NO_REDUCE;
    u->whole = reads_all(r->in, e, &r->in->p->stages[r->stage]);
    for (int i = 0; i < e->n; i++)
        u->risky_axes |= (uint64_t)is_risky(r->in, e->index[i]) << i;
}

static void count_uses(Inliner *in, int stage)
{
    PtrMap seen = {0};
    Reader r = {in, stage};
    const TeStage *s = &in->p->stages[stage];
    in->uses[in->p->n_inputs + stage].risky =
        is_risky(in, s->body) || (s->at && is_risky(in, s->at));
    te_each(in->b.arena, &seen, s->body, count_load, &r);
    if (s->at) {
        te_each(in->b.arena, &seen, s->at, count_load, &r);
        in->uses[s->onto].output = true; /* as a whole */
    }
    ptrmap_deinit(&seen);
}

/* ---- what may go --------------------------------------------------------------------------------- */

static double positions(const TeStage *s)
{
    double n = 1;
    for (int i = 0; i < s->rank && !s->at; i++)
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

static bool is_linear_load(const Te *e)
{
    TeLinear l;
    for (int i = 0; e->kind == TE_NODE_LOAD && i < e->n; i++)
        if (!te_linear(e->index[i], &l))
            return false;
    return e->kind == TE_NODE_LOAD && !e->otherwise;
}

/* A part of another tensor as it lies. What that is itself a part of is read instead when it goes; what else goes leaves no load. */
static bool is_part(const Inliner *in, const TeStage *s)
{
    while (is_linear_load(s->body)) {
        int of = s->body->tensor - in->p->n_inputs;
        if (of < 0 || !in->gone[of])
            return true;
        s = &in->p->stages[of];
    }
    return false;
}

static Te *copy_expression(Inliner *in, const Te *body, Te *const *axes);

/* Each index is an axis, or a place. */
static bool reads_along_axes(const Te *load)
{
    for (int i = 0; i < load->n; i++)
        if (load->index[i]->kind != TE_NODE_AXIS && load->index[i]->kind != TE_NODE_CONST)
            return false;
    return true;
}

/* A factor that is another tensor with its axes in another order is read as that lies, unless what lies side by side there is of different
 * products: matrices are as well read the other way round. */
static bool is_turned_factor(Inliner *in, int stage, int reader, const TeContraction *c)
{
    const TeAffine *was = c->a.tensor == in->p->n_inputs + stage ? &c->a : &c->b;
    const TeStage *s = &in->p->stages[reader];
    TeAffine now;
    if (in->bodies[stage]->kind != TE_NODE_LOAD || !reads_along_axes(was->load))
        return false;
    const Te *load = copy_expression(in, in->bodies[stage], was->load->index);
    bool beside = false;
    if (!te_load_affine(in->p, load, &now) || now.padded)
        return false;
    for (int i = 0; i < s->rank + s->n_reduced; i++) {
        if (now.stride[i] < 0 || (now.stride[i] == 0) != (was->stride[i] == 0))
            return false;
        beside |= now.stride[i] == 1 && c->sides.of[i] > TE_SIDE_EACH;
    }
    return beside;
}

static void note_axis(void *data, Te *e)
{
    uint64_t *axes = data;
    if (e->kind == TE_NODE_AXIS)
        *axes |= (uint64_t)1 << e->axis;
}

/* Whether the indices that may stop with an error are still there when the expression stands in place of the load. */
static bool keeps_faults(const Inliner *in, int stage)
{
    uint64_t risky = in->uses[in->p->n_inputs + stage].risky_axes, axes = 0;
    PtrMap seen = {0};
    if (risky)
        te_each(in->b.arena, &seen, in->bodies[stage], note_axis, &axes);
    ptrmap_deinit(&seen);
    return !(risky & ~axes);
}

/* A stage goes into its reader when nothing is computed more often than before, or costs next to
 * nothing. Contractions keep their factors: they are worth more as matrix products. What may stop with
 * an error goes only where all of it is computed. */
static bool may_go(Inliner *in, int stage)
{
    TeContraction c;
    const TeStage *s = &in->p->stages[stage];
    const StageUse *u = &in->uses[in->p->n_inputs + stage];
    if (s->reduce != TE_NO_REDUCE || s->at || u->output || u->loads != 1)
        return false;
    /* Windows know their borders by what they read. */
    if (u->padded && (u->by_window || !is_part(in, s) || in->p->stages[u->reader].at))
        return false;
    if (te_contraction(in->p, u->reader, &c))
        return is_turned_factor(in, stage, u->reader, &c);
    if (!keeps_faults(in, stage))
        return false;
    if (in->faults[stage] && !(u->whole && positions(&in->p->stages[u->reader]) > 0))
        return false;
    return is_cheap(s->body) || positions(&in->p->stages[u->reader]) <= positions(s);
}

/* ---- rewriting ----------------------------------------------------------------------------------- */

/* One copy of an expression: axes become `axes` where that is not NULL. */
typedef struct Copy {
    Inliner *in;
    Te *const *axes;
} Copy;

static Te *copy_node(void *data, TeBuilder *b, const Te *e, const Te *old);

/* `body` was rewritten already, so a load in it of a stage that is gone does not occur: the nesting of
 * copies is two deep. */
static Te *copy_expression(Inliner *in, const Te *body, Te *const *axes)
{
    Copy c = {in, axes};
    return te_rewrite(&in->b, body, copy_node, &c);
}

/* Divisions of positions are taken apart again, now that more is known about them. */
static Te *copy_binary(TeBuilder *b, const Te *e)
{
    Te *x = e->a, *y = e->b, *quotient, *remainder;
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

/* Each element is read at its own place: then no copy is needed, and long chains take no more than their length. */
static bool reads_in_place(const Te *load)
{
    for (int i = 0; i < load->n; i++)
        if (load->index[i]->kind != TE_NODE_AXIS || load->index[i]->axis != i)
            return false;
    return true;
}

/* The value where each index lies inside, else what the load has outside: as single comparisons, by which loops are cut. */
static Te *within(Inliner *in, const Te *load, Te *value)
{
    TeBuilder *b = &in->b;
    TeTensor t = te_tensor(in->p, load->tensor);
    for (int i = load->n - 1; i >= 0; i--) {
        Te *at = load->index[i];
        value =
            te_select(b, te_binary(b, TE_LT, at, te_int(b, t.shape[i])), value, load->otherwise);
        value = te_select(b, te_binary(b, TE_GE, at, te_int(b, 0)), value, load->otherwise);
    }
    return value;
}

static Te *copy_node(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    const Copy *c = data;
    (void)old;
    if (e->kind == TE_NODE_AXIS && c->axes)
        return c->axes[e->axis];
    if (e->kind == TE_NODE_BINARY)
        return copy_binary(b, e);
    if (e->kind != TE_NODE_LOAD)
        return NULL;
    int stage = e->tensor - c->in->p->n_inputs;
    if (stage >= 0 && c->in->gone[stage] && e->otherwise) {
        const Te *from = copy_expression(c->in, c->in->bodies[stage], e->index);
        TeTensor t = te_tensor(c->in->p, from->tensor);
        return within(c->in, e, te_load_or(b, t, from->index, e->otherwise));
    }
    if (stage >= 0 && c->in->gone[stage])
        return reads_in_place(e) ? c->in->bodies[stage]
                                 : copy_expression(c->in, c->in->bodies[stage], e->index);
    return te_load_or(b, te_tensor(c->in->p, e->tensor), e->index, e->otherwise);
}

/* ---- stages that are read several times ---------------------------------------------------------- */

/* Nodes of an expression as a tree, from which on it is not shared: whoever prints one writes trees. */
#define SHARED_MOST 256

/* The home of a stage is the one that has all that reads it, each element at its own place. */
enum { HOME_NONE = -1, HOME_OPEN = -2 };

static int add_size(int a, int b)
{
    return a + b < SHARED_MOST ? a + b : SHARED_MOST;
}

static bool is_function(const Te *e)
{
    return (e->kind == TE_NODE_UNARY && e->op >= TE_EXP && e->op <= TE_ATANH) ||
           (e->kind == TE_NODE_BINARY && e->op == TE_POW);
}

static void count_size(void *data, Te *e)
{
    const Reader *r = data;
    int of = e->kind == TE_NODE_LOAD ? e->tensor - r->in->p->n_inputs : -1;
    int *size = &r->in->size[r->stage];
    r->in->works[r->stage] |= is_function(e) || (of >= 0 && r->in->gone[of] && r->in->works[of]);
    *size = add_size(*size, of < 0 || r->in->size[of] == SHARED_MOST ? 1 : r->in->size[of]);
}

/* What a load says of the home of the stage that it reads: `home` is that of the stage in which it stands. */
typedef struct Home {
    Inliner *in;
    int stage, home;
} Home;

/* Each element is read once: at its own place, or by a fold of all of them in whatever order. */
static bool reads_once(const Inliner *in, const Te *load, const TeStage *reader)
{
    bool folds = reader->reduce != TE_NO_REDUCE && reader->body == load;
    return !load->otherwise && (reads_in_place(load) || (folds && reads_all(in, load, reader)));
}

static void meet_home(void *data, Te *e)
{
    const Home *h = data;
    int of = e->kind == TE_NODE_LOAD ? e->tensor - h->in->p->n_inputs : -1;
    if (of < 0)
        return;
    int *home = &h->in->home[of];
    bool same = *home == HOME_OPEN || *home == h->home;
    *home = same && reads_once(h->in, e, &h->in->p->stages[h->stage]) ? h->home : HOME_NONE;
}

/* Whether the stage has a place for each element of another, or folds them all, each once. Contractions keep their factors. */
static bool goes_over(const Inliner *in, int stage, const TeStage *of)
{
    TeContraction c;
    const TeStage *s = &in->p->stages[stage];
    if (s->at || te_contraction(in->p, stage, &c))
        return false;
    if (s->reduce != TE_NO_REDUCE)
        return positions(s) == positions(of);
    bool alike = s->rank == of->rank;
    for (int i = 0; alike && i < s->rank; i++)
        alike = s->shape[i] == of->shape[i];
    return alike;
}

/* All that reads it is computed for one element of another stage at a time, and so it may be. But functions of functions had better go over a
 * tensor that is near: steps that wait for each other leave little to be done beside them. */
static bool may_share(const Inliner *in, int stage)
{
    const TeStage *s = &in->p->stages[stage];
    return in->home[stage] >= 0 && goes_over(in, in->home[stage], s) && s->reduce == TE_NO_REDUCE &&
           !s->at && !in->works[stage] && in->size[stage] < SHARED_MOST &&
           !in->uses[in->p->n_inputs + stage].output;
}

/* Homes are found from the last stage on. A stage that stays is the home of what it reads, and one that goes to its only reader has that
 * reader's home. */
static void find_shared(Inliner *in)
{
    const TeProgram *p = in->p;
    Reader r = {.in = in};
    for (r.stage = 0; r.stage < p->n_stages; r.stage++) {
        PtrMap seen = {0};
        te_each(in->b.arena, &seen, p->stages[r.stage].body, count_size, &r);
        ptrmap_deinit(&seen);
        in->home[r.stage] = HOME_OPEN;
    }
    for (int i = p->n_stages - 1; i >= 0; i--) {
        PtrMap seen = {0};
        Home h = {in, i, in->home[i]};
        if (!in->gone[i]) {
            in->gone[i] = may_share(in, i);
            h.home = in->gone[i] ? h.home : i;
        }
        te_each(in->b.arena, &seen, p->stages[i].body, meet_home, &h);
        if (p->stages[i].at)
            te_each(in->b.arena, &seen, p->stages[i].at, meet_home, &(Home){in, i, HOME_NONE});
        ptrmap_deinit(&seen);
    }
}

static void find_gone(Inliner *in)
{
    const TeProgram *p = in->p;
    for (int i = 0; i < p->n_stages; i++)
        in->faults[i] = te_stage_faults(in->b.arena, &p->stages[i]);
    for (int i = 0; i < p->n_stages; i++) {
        in->bodies[i] = copy_expression(in, p->stages[i].body, NULL);
        in->gone[i] = may_go(in, i);
        if (in->gone[i] && in->faults[i])
            in->faults[in->uses[p->n_inputs + i].reader] = true;
    }
    find_shared(in);
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
    in.home = arena_alloc_must(arena, (size_t)n + 1, sizeof *in.home);
    in.works = arena_alloc_must(arena, (size_t)n + 1, sizeof *in.works);
    in.size = arena_alloc_must(arena, (size_t)n + 1, sizeof *in.size);
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
        vec_last(&in.b.stages).at = s->at ? copy_expression(&in, s->at, NULL) : NULL;
        vec_last(&in.b.stages).onto = s->onto;
    }
    for (int i = 0; i < p->n_outputs; i++)
        made[i] = te_tensor(p, p->outputs[i]);
    return te_finish_without(&in.b, p->n_outputs, made, p->tuple, in.gone);
}

/* ---- in place ------------------------------------------------------------------------------------ */

typedef struct InPlace {
    const TeProgram *p;
    int input;
    bool ok;
} InPlace;

static void look_at_load(void *data, Te *e)
{
    InPlace *in = data;
    if (e->kind != TE_NODE_LOAD || e->tensor != in->input)
        return;
    const TeStage *s = &in->p->stages[0];
    bool same = e->n == s->rank && !e->otherwise;
    for (int i = 0; same && i < s->rank; i++)
        same = e->index[i]->kind == TE_NODE_AXIS && e->index[i]->axis == i &&
               in->p->inputs[in->input].shape[i] == s->shape[i];
    in->ok = in->ok && same;
}

bool te_in_place(const TeProgram *p, int input)
{
    InPlace in = {p, input, true};
    if (p->n_stages != 1 || p->n_outputs != 1 || p->stages[0].reduce != TE_NO_REDUCE ||
        p->stages[0].at || dtype_size(p->stages[0].dtype) != dtype_size(p->inputs[input].dtype))
        return false;
    Arena arena;
    PtrMap seen = {0};
    arena_init(&arena, NULL);
    te_each(&arena, &seen, p->stages[0].body, look_at_load, &in);
    ptrmap_deinit(&seen);
    arena_deinit(&arena);
    return in.ok;
}
