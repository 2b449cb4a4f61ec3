/* Scattering stages: a thread for each value that goes somewhere, not for each element that may get one, so the work is that of what is
 * written. Threads that meet at an element fold into it one after the other, in any order; sums of floats whose order is kept are left to
 * one thread. Where values replace each other the last one wins: first all note their number in the place that they go to and the
 * greatest stays, then those whose number stands there are stored. So results are the same each time, but for the roundings of sums. */
#include "sched/gpu.h"

typedef struct Scattering {
    Gpu *s;
    const TeStage *st;
    int id; /* of its buffer */
    int64_t values;
    /* of the part that is built */
    GpuChain chain;
    NestLinear *axes;
    NestNode *inside; /* the innermost loop */
} Scattering;

static Te *linear(Scattering *w, int64_t c, int var)
{
    NestLinear l = {.c = c};
    if (var >= 0)
        nest_add_term(&l, var, 1);
    return nest_position(w->s->n, &l);
}

/* A part of the root in which each element is stored in its place. */
static void add_map(Scattering *w, int buffer, bool copies)
{
    Nest *n = w->s->n;
    NestNode *loop = nest_loop(n, "i", n->buffers.at[w->id].size);
    Te *at = linear(w, 0, loop->var);
    Te *value = copies ? nest_load(n, w->st->onto, at)
                       : te_cast(&n->te, n->buffers.at[buffer].dtype, te_int(&n->te, -1));
    nest_append(n, NULL, loop);
    nest_append(n, loop, nest_store(n, buffer, at, value));
}

/* A loop inside of the others; its variable. */
static int add_loop(Scattering *w, int64_t extent)
{
    NestNode *loop = nest_loop(w->s->n, "r", extent);
    nest_append(w->s->n, w->inside, loop);
    w->chain.at[w->chain.n++] = w->inside = loop;
    w->chain.turns *= extent;
    return loop->var;
}

/* The loops over the values as another part. */
static void begin_values(Scattering *w)
{
    Nest *n = w->s->n;
    int rank = w->st->rank;
    w->chain = (GpuChain){.turns = 1};
    w->axes = arena_alloc_must(n->arena, (size_t)(rank + w->st->n_reduced) + 1, sizeof *w->axes);
    w->inside = NULL;
    for (int i = 0; i < w->st->n_reduced; i++)
        if (w->st->reduced[i] != 1)
            nest_add_term(&w->axes[rank + i], add_loop(w, w->st->reduced[i]), 1);
    if (!w->inside)
        add_loop(w, 1);
}

/* The number of a value, counted through all axes. */
static Te *number_of(Scattering *w)
{
    Nest *n = w->s->n;
    Te *number = te_int(&n->te, 0);
    for (int i = 0; i < w->st->n_reduced; i++) {
        Te *axis = nest_position(n, &w->axes[w->st->rank + i]);
        number =
            te_binary(&n->te, TE_ADD,
                      te_binary(&n->te, TE_MUL, number, te_int(&n->te, w->st->reduced[i])), axis);
    }
    return number;
}

static NestNode *add_fold(Scattering *w, TeReduce fold, int buffer, Te *value)
{
    Nest *n = w->s->n;
    NestNode *s = nest_fold(n, fold, buffer, nest_scatter_place(n, w->s->p, w->id, w->axes), value);
    nest_append(n, w->inside, s);
    return s;
}

static Te *value_of(Scattering *w)
{
    const TeProgram *p = w->s->p;
    return nest_expression(w->s->n, p, w->id - p->n_inputs, w->axes, -1, NULL);
}

static void fold_all(Scattering *w)
{
    bool ordered = dtype_is_float(w->st->dtype) && !w->s->m->reorders;
    begin_values(w);
    add_fold(w, w->st->reduce, w->id, value_of(w))->atomic = !ordered;
    if (!ordered) {
        gpu_spread(w->s, &w->chain, w->s->m->threads);
        return;
    }
    Nest *n = w->s->n;
    NestNode *grid = nest_loop(n, "block", 1), *thread = nest_loop(n, "thread", 1);
    grid->way = NEST_GRID;
    thread->way = NEST_THREADS;
    nest_remove(n, w->chain.at[0]);
    nest_append(n, NULL, grid);
    nest_append(n, grid, thread);
    nest_append(n, thread, w->chain.at[0]);
}

static void replace_all(Scattering *w)
{
    Nest *n = w->s->n;
    TeBuilder *b = &n->te;
    DType number = {DTYPE_CODE_INT, w->values > INT32_MAX ? 64 : 32, 1};
    NestBuffer last = {
        .name = "last", .dtype = number, .place = NEST_SCRATCH, .size = n->buffers.at[w->id].size};
    int noted = nest_buffer(n, last);
    add_map(w, noted, false);
    begin_values(w);
    add_fold(w, TE_REDUCE_MAX, noted, te_cast(b, number, number_of(w)))->atomic = true;
    gpu_spread(w->s, &w->chain, w->s->m->threads);
    begin_values(w);
    Te *place = nest_scatter_place(n, w->s->p, w->id, w->axes);
    Te *other = te_binary(b, TE_NE, nest_load(n, noted, place), te_cast(b, number, number_of(w)));
    NestNode *wins = nest_loop(n, "wins", 1);
    nest_bind(wins, te_cast(b, (DType){DTYPE_CODE_INT, 64, 1}, other));
    nest_append(n, w->inside, wins);
    nest_append(n, wins, nest_store(n, w->id, place, value_of(w)));
    gpu_spread(w->s, &w->chain, w->s->m->threads);
}

bool gpu_scatter(Gpu *s, int stage)
{
    Scattering w = {.s = s, .st = &s->p->stages[stage], .id = s->p->n_inputs + stage, .values = 1};
    if (!w.st->at)
        return false;
    for (int i = 0; i < w.st->n_reduced; i++)
        w.values *= w.st->reduced[i];
    add_map(&w, w.id, true);
    if (w.st->reduce == TE_NO_REDUCE)
        replace_all(&w);
    else
        fold_all(&w);
    return true;
}
