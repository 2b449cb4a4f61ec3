#include "sched/sched.h"

#include "loop/access.h"
#include "sched/hand.h"
#include "sched/strategy.h"
#include "te/walk.h"

/* ---- what the strategies share --------------------------------------------------------------------------------------- */

int sched_lanes(Sched *s, NestNode *node)
{
    NestAccesses all = nest_accesses(s->n, node);
    size_t widest = 1;
    for (size_t i = 0; i < all.n; i++) {
        size_t size = dtype_size(s->n->buffers.at[all.at[i].buffer].dtype);
        bool own = s->n->buffers.at[all.at[i].buffer].place == NEST_REGISTER;
        widest = size > widest && !own ? size : widest;
    }
    size_t lanes = s->m->vector_bytes / widest;
    return lanes > 16 ? 16 : (int)lanes;
}

static int lanes_for(const Sched *s, int64_t extent)
{
    int lanes = 2;
    while (lanes < s->lanes && lanes < extent)
        lanes *= 2;
    return lanes;
}

static void as_vector(Sched *s, NestNode *loop)
{
    if (nest_run_as(s->n, loop, NEST_VECTOR, lanes_for(s, loop->extent)))
        nest_jam(s->n, loop);
}

void sched_vectors(Sched *s, NestNode *loop, int unroll)
{
    NestNode *inner, *tail, *lane, *none;
    if (loop->extent < 2)
        return;
    if (unroll > 1 && loop->extent >= (int64_t)unroll * s->lanes) {
        if (nest_split(s->n, loop, (int64_t)unroll * s->lanes, &inner, &tail)) {
            if (tail)
                sched_vectors(s, tail, 1);
        } else {
            inner = loop;
        }
        nest_split(s->n, inner, s->lanes, &lane, &none);
        as_vector(s, lane);
        if (nest_run_as(s->n, inner, NEST_UNROLLED, 0))
            nest_jam(s->n, inner);
        return;
    }
    if (!nest_split(s->n, loop, s->lanes, &lane, &tail)) {
        as_vector(s, loop);
        return;
    }
    if (tail && tail->extent > 1)
        as_vector(s, tail);
    as_vector(s, lane);
}

void sched_fuse(Sched *s, NestNode *loop)
{
    for (NestNode *l = loop; l;) {
        if (nest_only_loop(l) && nest_fuse(s->n, l))
            continue;
        l = nest_only_loop(l);
    }
}

double sched_vector_cost(Sched *s, NestNode *loop)
{
    double cost = 0.5;
    NestAccesses all = nest_accesses(s->n, loop);
    for (size_t i = 0; i < all.n; i++) {
        const NestAccess *a = &all.at[i];
        if (a->writes || s->n->buffers.at[a->buffer].place == NEST_REGISTER)
            continue;
        int64_t stride = a->linear ? nest_coefficient(&a->at, loop->var) : 2;
        cost += stride == 0 ? 0 : stride == 1 || stride == -1 ? 1 : 16;
    }
    double lanes = loop->extent < s->lanes ? (double)loop->extent : (double)s->lanes;
    return cost / lanes;
}

bool sched_outgrows(const Sched *s, int buffer)
{
    const NestBuffer *b = &s->n->buffers.at[buffer];
    return b->size > s->m->second_cache / 2 / (int64_t)dtype_size(b->dtype);
}

/* ---- elements on their own --------------------------------------------------------------------------------------------- */

static NestNode *innermost(NestNode *loop)
{
    while (nest_only_loop(loop))
        loop = nest_only_loop(loop);
    return loop;
}

/* The loop along which a load is contiguous that the vectors of `inner` take from scattered places, and the buffer; NULL: there is none. */
static NestNode *crossing(Sched *s, NestNode *node, const NestNode *inner, int *buffer)
{
    NestAccesses all = nest_accesses(s->n, node);
    for (size_t i = 0; i < all.n; i++) {
        const NestAccess *a = &all.at[i];
        int64_t along = a->linear ? nest_coefficient(&a->at, inner->var) : 0;
        if (a->writes || along == 0 || along == 1 || along == -1)
            continue;
        *buffer = a->buffer;
        for (NestNode *l = node; l != inner; l = nest_only_loop(l))
            if (nest_coefficient(&a->at, l->var) == 1)
                return l;
    }
    return NULL;
}

/* Past the loops in it. */
static NestNode *inwards(Sched *s, NestNode *loop)
{
    while (nest_only_loop(loop) && nest_only_loop(loop)->way == NEST_SERIAL &&
           nest_reorder(s->n, loop))
        loop = nest_only_loop(loop);
    return loop;
}

/* The turns of a block stand right around the vectors, as straight code: then its loads are turned in registers. */
static void turn_inside(Sched *s, NestNode *block)
{
    block = inwards(s, block);
    if (nest_only_loop(block) && nest_only_loop(block)->way == NEST_VECTOR &&
        block->extent <= s->lanes)
        nest_run_as(s->n, block, NEST_UNROLLED, 0);
}

/* What processors bring for one byte: a line and its neighbour. */
#define NEIGHBOURS_BYTES 128

/* Blocks that make use of what one of them brings. Where it does not stay in the second cache until the other's turn comes, of rows that lie
 * a power of two apart and share few places there all the sooner, they are done one after the other. */
static int64_t blocks_at_once(const Sched *s, int buffer)
{
    int64_t size = (int64_t)dtype_size(s->n->buffers.at[buffer].dtype);
    return sched_outgrows(s, buffer) ? NEIGHBOURS_BYTES / (s->lanes * size) : 1;
}

#define LINE_BYTES 64

/* Lanes of a block's vectors. Where every second row of the result begins in the middle of a line, whole lines are each stored in two halves,
 * for which processors bring what they held from memory: vectors of half a line are stored as they are. */
static int lanes_of_rows(Sched *s, NestNode *node, const NestNode *cross, int buffer)
{
    int64_t size = (int64_t)dtype_size(s->n->buffers.at[buffer].dtype), pitch = 0;
    NestAccesses all = nest_accesses(s->n, node);
    for (size_t i = 0; i < all.n; i++)
        if (all.at[i].writes && all.at[i].linear)
            pitch = nest_coefficient(&all.at[i].at, cross->var) * size;
    bool halves = s->lanes * size == LINE_BYTES && pitch % LINE_BYTES == LINE_BYTES / 2;
    return halves && sched_outgrows(s, buffer) ? s->lanes / 2 : s->lanes;
}

/* Blocks of a transposition of the buffer. */
static void sched_blocks(Sched *s, NestNode *cross, NestNode *inner, int buffer)
{
    NestNode *lane, *tail, *block = cross;
    if (nest_split(s->n, inner, s->lanes, &lane, &tail)) {
        /* What is left over is a loop of its own beside the blocks. */
        if (tail && tail->extent > 1)
            nest_run_as(s->n, tail, NEST_VECTOR, lanes_for(s, tail->extent));
        nest_run_as(s->n, lane, NEST_VECTOR, s->lanes);
    } else {
        nest_run_as(s->n, inner, NEST_VECTOR, lanes_for(s, inner->extent));
    }
    tail = NULL;
    bool several = nest_split(s->n, cross, s->lanes, &block, &tail);
    turn_inside(s, block);
    if (tail)
        turn_inside(s, tail);
    int64_t at_once = blocks_at_once(s, buffer);
    if (several && at_once > 1 && nest_split(s->n, cross, at_once, &block, &tail))
        inwards(s, block);
}

typedef struct Parted {
    const NestNode *inner;
    int64_t by; /* by which a position along it is divided */
} Parted;

static void find_part(void *data, Te *e)
{
    Parted *p = data;
    NestLinear at, by;
    if (e->kind == TE_NODE_BINARY && (e->op == TE_DIV || e->op == TE_MOD) &&
        nest_linear(e->a, &at) && nest_linear(e->b, &by) && by.n == 0 &&
        nest_coefficient(&at, p->inner->var) == 1)
        p->by = by.c;
}

/* How many vectors are made one behind the other: two, or as many as make each begin where a division comes out even. */
static int even_turns(Sched *s, NestNode *node, const NestNode *inner)
{
    Parted p = {.inner = inner};
    PtrMap seen = {0};
    NestNode *store = node;
    while (store->kind == NEST_LOOP && store->body.n == 1)
        store = store->body.at[0];
    if (store->value)
        te_each(s->arena, &seen, store->value, find_part, &p);
    ptrmap_deinit(&seen);
    int turns = 1;
    while (p.by > 0 && turns < 8 && (int64_t)turns * s->lanes % p.by)
        turns++;
    return turns < 2 || turns == 8 ? 2 : turns;
}

void sched_map(Sched *s, NestNode *node)
{
    if (node->kind != NEST_LOOP)
        return;
    sched_fuse(s, node);
    int buffer = 0;
    NestNode *inner = innermost(node), *cross = crossing(s, node, inner, &buffer);
    if (!cross || inner->extent <= s->lanes) {
        sched_vectors(s, inner, even_turns(s, node, inner));
        return;
    }
    int lanes = s->lanes;
    s->lanes = lanes_of_rows(s, node, cross, buffer);
    /* Beside what is left over, a block would not stand right around its vectors. */
    int64_t left = inner->extent % s->lanes;
    NestNode *rest = left ? nest_part(s->n, node, inner, inner->extent - left) : NULL;
    sched_blocks(s, cross, inner, buffer);
    s->lanes = lanes;
    if (rest)
        sched_map(s, rest);
}

/* ---- the parts of a program ------------------------------------------------------------------------------------------------ */

static void find_fold(void *data, NestNode *node)
{
    *(bool *)data |= node->kind == NEST_FOLD;
}

static void find_other(void *data, NestNode *node)
{
    *(bool *)data |=
        node->kind != NEST_STORE && (node->kind != NEST_LOOP || node->way != NEST_SERIAL);
}

/* Whether it is loops of elements on their own, which nobody has seen to. */
static bool is_map(NestNode *node)
{
    bool other = node->kind != NEST_LOOP;
    nest_each(node, find_other, &other);
    return !other;
}

/* Whether loops over the same extents stand in both, one in the other. */
static bool same_loops(const NestNode *a, const NestNode *b)
{
    while (a && b && a->extent == b->extent) {
        bool last = !nest_only_loop(a) && !nest_only_loop(b);
        if (last)
            return a->body.at[0]->kind == NEST_STORE && b->body.at[0]->kind == NEST_STORE;
        a = nest_only_loop(a);
        b = nest_only_loop(b);
    }
    return false;
}

/* Parts of one tensor stay apart: they go through other elements each. */
static bool write_the_same(Sched *s, NestNode *a, NestNode *b)
{
    NestAccesses here = nest_accesses(s->n, a), there = nest_accesses(s->n, b);
    for (size_t i = 0; i < here.n; i++)
        for (size_t k = 0; k < there.n; k++)
            if (here.at[i].writes && there.at[k].writes && here.at[i].buffer == there.at[k].buffer)
                return true;
    return false;
}

/* The loops in the loop, which were those of two, become one as far as they may. */
static void join_inner(Sched *s, NestNode *loop)
{
    if (loop->body.n == 2 && loop->body.at[0]->kind == NEST_LOOP &&
        nest_join(s->n, loop->body.at[0]))
        join_inner(s, loop->body.at[0]);
}

/* Loops of elements, one behind the other, that read or make the same ones are one: each is read once, and what only the next one reads
 * stays in registers. */
static bool join_maps(Sched *s, NestNode *node)
{
    const NestBlock *root = nest_block(s->n, NULL);
    bool any = false;
    for (size_t next = nest_index(s->n, node) + 1; next < root->n;) {
        NestNode *other = root->at[next];
        if (!is_map(other) || !same_loops(node, other) || write_the_same(s, node, other) ||
            !nest_join(s->n, node))
            break;
        join_inner(s, node);
        any = true;
    }
    return any;
}

/* Each loop that holds no others, or one alone. */
static void sched_maps(Sched *s, NestNode *node)
{
    NestBlock parts = {0};
    if (node->body.n < 2 || node->body.at[0]->kind != NEST_LOOP) {
        sched_map(s, node);
        return;
    }
    for (size_t i = 0; i < node->body.n; i++)
        vec_push(&parts, s->arena, node->body.at[i]);
    for (size_t i = 0; i < parts.n; i++)
        sched_maps(s, parts.at[i]);
}

static void schedule(Sched *s, NestNode *node)
{
    bool folds = false;
    if (node->kind != NEST_LOOP)
        return;
    s->lanes = sched_lanes(s, node);
    if (sched_rows(s, node))
        return;
    nest_each(node, find_fold, &folds);
    if (folds) {
        sched_reduction(s, node);
    } else if (is_map(node) && join_maps(s, node)) {
        sched_narrow(s, node);
        s->lanes = sched_lanes(s, node);
        sched_maps(s, node);
    } else {
        sched_map(s, node);
    }
}

/* ---- threads --------------------------------------------------------------------------------------------------------------- */

/* Products that are worth the start of a loop on several threads; what a stored element costs, and a function of one number. */
#define PARALLEL_WORK 65536.0
#define STORE_WORK 4
#define FUNCTION_WORK 16
/* Turns for each thread: one that is late then holds up little. */
#define TURNS_EACH 8

static void count_functions(void *data, Te *e)
{
    *(double *)data += e->kind == TE_NODE_UNARY ? FUNCTION_WORK : 0;
}

static double work_of(const Sched *s, const NestNode *node)
{
    double work = node->kind == NEST_LOOP ? 0 : node->kind == NEST_STORE ? STORE_WORK : 1;
    if (node->kind == NEST_MATRIX)
        work = sched_matrix_cost(node->matrix) * NEST_MATRIX_SIDE;
    else if (node->value) {
        PtrMap seen = {0};
        te_each(s->arena, &seen, node->value, count_functions, &work);
        ptrmap_deinit(&seen);
    }
    for (size_t i = 0; i < node->body.n; i++)
        work += work_of(s, node->body.at[i]);
    return node->kind == NEST_LOOP ? work * (double)node->extent : work;
}

typedef struct Faults {
    Sched *s;
    bool any;
} Faults;

static void find_fault(void *data, NestNode *node)
{
    Faults *f = data;
    f->any |= node->value && te_holds_fault(f->s->n->arena, node->value);
}

/* The loop, of `outside` turns, and those in it until there are turns enough. What stands in a few of these may be turns enough by itself:
 * then threads share that alone, as of the channels of an image the rows, which those who make and read it share too. */
static void share(Sched *s, NestNode *loop, int64_t outside)
{
    int64_t enough = (int64_t)s->m->threads * TURNS_EACH;
    if ((outside >= enough && !loop->parent->across) || !nest_run_as(s->n, loop, NEST_PARALLEL, 0))
        return;
    for (size_t i = 0; i < loop->body.n; i++)
        if (loop->body.at[i]->kind == NEST_LOOP)
            share(s, loop->body.at[i], outside * loop->extent);
    const NestNode *inner = nest_only_loop(loop);
    bool few = loop->extent < enough && inner && inner->extent >= enough;
    loop->across = !loop->parent && nest_shares(loop) && (loop->across || few);
}

/* Whether it is worth the start; what may stop with an error runs on the thread that reports it. */
static bool spreads(Sched *s, NestNode *node)
{
    Faults f = {.s = s};
    if (s->m->threads < 2 || node->kind != NEST_LOOP || work_of(s, node) < PARALLEL_WORK)
        return false;
    nest_each(node, find_fault, &f);
    return !f.any;
}

static void spread(Sched *s, NestNode *node)
{
    if (spreads(s, node))
        share(s, node, 1);
}

/* Work that is done soon enough for each thread to have one turn, of which none can be handed on. */
#define JOINED_WORK_MOST 4194304.0

/* The products of a batch, and before each what is laid out for it: a thread that does both need not wait for the others in between, nor
 * fetch what they made. */
static void join_turns(Sched *s)
{
    for (size_t i = 0; i + 1 < s->n->root.n;) {
        NestNode *loop = s->n->root.at[i], *next = s->n->root.at[i + 1];
        bool joins = spreads(s, loop) && spreads(s, next) && loop->extent % s->m->threads == 0 &&
                     (loop->extent >= (int64_t)s->m->threads * TURNS_EACH ||
                      work_of(s, loop) + work_of(s, next) <= JOINED_WORK_MOST) &&
                     nest_independent(s->n, loop) && nest_independent(s->n, next);
        i += !joins || !nest_join(s->n, loop);
    }
}

static bool has_home(const Nest *n, const NestNode *loop)
{
    bool has = false;
    for (size_t i = 0; i < n->buffers.n; i++)
        has |= n->buffers.at[i].home == loop;
    return has;
}

/* A loop of one turn around several is none: threads share each of those. */
static void open_wrappers(Sched *s)
{
    Nest *n = s->n;
    for (size_t i = 0; i < n->root.n && s->m->threads > 1;) {
        NestNode *loop = n->root.at[i];
        bool opens = loop->kind == NEST_LOOP && loop->way == NEST_SERIAL && loop->extent == 1 &&
                     loop->body.n > 1 && !has_home(n, loop);
        for (size_t k = 0; k < loop->body.n; k++)
            opens &= loop->body.at[k]->kind == NEST_LOOP;
        if (!opens) {
            i++;
            continue;
        }
        nest_remove(n, loop);
        for (size_t at = i; loop->body.n > 0; at++) {
            NestNode *inner = loop->body.at[0];
            nest_remove(n, inner);
            nest_substitute(n, inner, loop->var, &(NestLinear){0});
            nest_insert(n, NULL, at, inner);
        }
    }
}

/* ---- loops of few turns ---------------------------------------------------------------------------------------------- */

#define TURNS_FEW 8

typedef struct Turns {
    int var; /* of the loop of few turns */
    bool guarded; /* a load has something in place of what lies outside */
    bool scattered; /* a load's elements do not lie side by side */
} Turns;

static void look_at_turn(void *data, Te *e)
{
    Turns *t = data;
    NestLinear l;
    if (e->kind != TE_NODE_LOAD)
        return;
    t->guarded |= e->otherwise != NULL;
    bool even = e->n == 1 && nest_linear(e->index[0], &l);
    t->scattered |= !even || (nest_coefficient(&l, t->var) & ~(int64_t)1);
}

/* Elements side by side that an innermost loop of few turns stores become one loop, of which whole vectors are made. Where a good part of a
 * vector is loaded at once that stays: each lane would be on its own. */
static void flatten(Sched *s, NestNode *node)
{
    NestNode *inner = node;
    while (nest_only_loop(inner))
        inner = nest_only_loop(inner);
    NestNode *outer = inner->parent, *store = inner->body.n == 1 ? inner->body.at[0] : NULL;
    NestLinear at;
    PtrMap seen = {0};
    Turns turns = {.var = inner->var};
    if (store && store->value)
        te_each(s->arena, &seen, store->value, look_at_turn, &turns);
    ptrmap_deinit(&seen);
    if (turns.guarded || !outer || outer->kind != NEST_LOOP || !store ||
        store->kind != NEST_STORE || inner->extent < 2 || inner->extent > TURNS_FEW ||
        outer->extent * inner->extent < 2 * (int64_t)s->lanes || !nest_linear(store->at, &at) ||
        nest_coefficient(&at, inner->var) != 1 ||
        nest_coefficient(&at, outer->var) != inner->extent || nest_fuse(s->n, outer))
        return;
    if (turns.scattered || inner->extent < s->lanes / 4)
        nest_flatten(s->n, outer);
}

/* ---- what is known beforehand ------------------------------------------------------------------------------------------ */

static void release_tensor(void *t)
{
    tensor_release(t);
}

bool sched_is_known(const Sched *s, int id)
{
    return id < s->p->n_inputs && s->known && s->known[id];
}

static bool is_known(const Sched *s, const Tensor *t)
{
    bool is = false;
    for (int i = 0; i < s->p->n_inputs && s->known; i++)
        is |= s->known[i] == t;
    return is;
}

/* What is known has an owner; other tensors live as long as the nest. */
int sched_constant(Sched *s, const char *name, const TeProgram *p, const Tensor *const *inputs)
{
    s->failed |= !p;
    if (s->failed)
        return -1;
    const TeStage *t = &p->stages[p->outputs[0] - p->n_inputs];
    const Tensor **from = arena_copy(s->n->arena, inputs, (size_t)p->n_inputs * sizeof *inputs);
    for (int i = 0; i < p->n_inputs; i++)
        if (!is_known(s, from[i]))
            arena_on_free(s->n->arena, release_tensor, tensor_retain((Tensor *)(uintptr_t)from[i]));
    int64_t *size = arena_new(s->n->arena, int64_t);
    *size = 1;
    for (int i = 0; i < t->rank; i++)
        *size *= t->shape[i];
    return nest_buffer(s->n, (NestBuffer){.name = name,
                                          .dtype = t->dtype,
                                          .place = NEST_CONSTANT,
                                          .size = *size,
                                          .rank = 1,
                                          .shape = size,
                                          .made = p,
                                          .from = from});
}

/* ---- which parts are built otherwise than from plain loops ------------------------------------------------------------ */

typedef struct Use {
    int stage; /* that reads it last */
    int loads;
    bool plainly; /* each element at its own place */
} Use;

typedef struct Parts {
    Sched s;
    Use *uses; /* by stage */
    int reading; /* the stage that is looked at */
    int *behind; /* by stage: the one that it is the tail of, + 1 */
    NestBlock done; /* parts of the root that are scheduled */
} Parts;

/* Whether the elements are read in their order. */
static bool reads_plainly(const TeProgram *p, const Te *load, const TeStage *to)
{
    TeAffine at;
    const TeStage *from = &p->stages[load->tensor - p->n_inputs];
    int64_t step = 1, size;
    if (to->reduce != TE_NO_REDUCE || load->otherwise || !te_load_affine(p, load, &at) || at.offset)
        return false;
    for (int i = to->rank - 1; i >= 0; i--) {
        if (to->shape[i] > 1 && at.stride[i] != step)
            return false;
        step *= to->shape[i];
    }
    return shape_size(from->rank, from->shape, &size) && size == step;
}

static void note_use(void *data, Te *e)
{
    Parts *parts = data;
    const TeProgram *p = parts->s.p;
    if (e->kind != TE_NODE_LOAD || e->tensor < p->n_inputs)
        return;
    Use *u = &parts->uses[e->tensor - p->n_inputs];
    u->stage = parts->reading;
    u->loads++;
    u->plainly = reads_plainly(p, e, &p->stages[parts->reading]);
}

static void find_uses(Parts *parts)
{
    const TeProgram *p = parts->s.p;
    parts->uses = arena_alloc_must(parts->s.arena, (size_t)p->n_stages + 1, sizeof *parts->uses);
    for (int i = 0; i < p->n_stages; i++) {
        PtrMap seen = {0};
        parts->reading = i;
        te_each(parts->s.arena, &seen, p->stages[i].body, note_use, parts);
        ptrmap_deinit(&seen);
    }
    for (int i = 0; i < p->n_outputs; i++)
        if (p->outputs[i] >= p->n_inputs)
            parts->uses[p->outputs[i] - p->n_inputs].loads = 2;
}

static void build_stage(Parts *parts, int stage, int tail)
{
    Sched *s = &parts->s;
    size_t first = s->n->root.n;
    Tail t = {.stage = tail, .of = s->p->n_inputs + stage};
    Span outer = s->n->te.span;
    s->n->te.span = s->p->stages[stage].body->span;
    strategy_of(s, stage)->build(s, stage, &t);
    s->n->te.span = outer;
    for (size_t i = first; i < s->n->root.n; i++)
        vec_push(&parts->done, parts->s.arena, s->n->root.at[i]);
}

static bool build_part(void *data, Nest *n, int stage)
{
    Parts *parts = data;
    Sched *s = &parts->s;
    s->n = n;
    if (s->failed)
        return true;
    if (parts->behind[stage]) {
        build_stage(parts, parts->behind[stage] - 1, stage);
        return true;
    }
    const Strategy *row = strategy_of(s, stage);
    const Use *u = &parts->uses[stage];
    if (!row)
        return false;
    if (u->loads == 1 && u->plainly && !parts->behind[u->stage] && row->takes &&
        row->takes(s, stage, u->stage))
        parts->behind[u->stage] = stage + 1;
    else
        build_stage(parts, stage, -1);
    return true;
}

/* Whether the part still stands in the root and has not been seen to. */
static bool is_open(const Parts *parts, const NestNode *node)
{
    const Nest *n = parts->s.n;
    bool stands = false;
    for (size_t i = 0; i < n->root.n; i++)
        stands |= n->root.at[i] == node;
    for (size_t i = 0; i < parts->done.n; i++)
        stands &= parts->done.at[i] != node;
    return stands;
}

Nest *sched_by_hand(Ctx *cx, Arena *arena, const TeProgram *p, const char *steps, Buf *why)
{
    Nest *n = nest_of(cx, arena, p, NULL);
    return n && hand_apply(n, steps, why) ? n : NULL;
}

Nest *sched_program(Ctx *cx, Arena *arena, const Machine *m, const TeProgram *p,
                    const Tensor *const *known)
{
    Parts parts = {.s = {.cx = cx, .arena = arena, .m = m, .p = p, .known = known}};
    Sched *s = &parts.s;
    s->lanes = (int)m->vector_bytes / 4;
    s->p = table_program(s);
    s->p = s->p && m->reorders ? root_program(s) : s->p;
    s->p = s->p ? window_program(s) : NULL;
    s->p = s->p ? partial_program(s) : NULL;
    if (!s->p)
        return NULL;
    find_uses(&parts);
    parts.behind = arena_alloc_must(arena, (size_t)s->p->n_stages + 1, sizeof(int));
    s->n = nest_of(cx, arena, s->p, &(NestParts){.build = build_part, .data = &parts});
    if (s->failed)
        return NULL;
    for (size_t i = 0; i < s->n->root.n; i++)
        if (is_open(&parts, s->n->root.at[i])) {
            if (s->n->root.at[i]->kind == NEST_LOOP)
                flatten(s, s->n->root.at[i]);
            nest_cut(s->n, s->n->root.at[i]);
            nest_undivide(s->n, s->n->root.at[i], 2 * (int64_t)s->lanes);
        }
    /* Strategies change what stands in the root. */
    NestBlock all = {0};
    for (size_t i = 0; i < s->n->root.n; i++)
        vec_push(&all, arena, s->n->root.at[i]);
    for (size_t i = 0; i < all.n; i++)
        if (is_open(&parts, all.at[i]))
            schedule(s, all.at[i]);
    open_wrappers(s);
    join_turns(s);
    for (size_t i = 0; i < s->n->root.n; i++)
        spread(s, s->n->root.at[i]);
    return s->n;
}
