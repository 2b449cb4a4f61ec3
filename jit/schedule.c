/* The order of a stage's loops.
 *
 * Neighbouring axes that all addresses step through evenly become one loop. The vector axis is the one along which loads are
 * contiguous: the last of the space, or the last of the reduction. A reduction gets tiles of registers along an axis that some of its
 * loads do not depend on, so that one load serves several results. */
#include "jit/loops.h"

#include <string.h>

#define DEPTH_MOST 400

int64_t stage_extent(const TeStage *stage, int axis)
{
    return axis < stage->rank ? stage->shape[axis] : stage->reduced[axis - stage->rank];
}

TeTensor program_tensor(const TeProgram *p, int id)
{
    if (id < p->n_inputs)
        return p->inputs[id];
    const TeStage *s = &p->stages[id - p->n_inputs];
    return (TeTensor){.id = id, .dtype = s->dtype, .rank = s->rank, .shape = s->shape};
}

/* ---- linear indices ------------------------------------------------------------------------------------------------ */

static bool constant_index(const Te *e, int64_t *v)
{
    if (e->kind != TE_NODE_CONST)
        return false;
    *v = value_as_int(e->value);
    return true;
}

static bool add_linear(const Te *e, int64_t times, Linear *out, int depth)
{
    int64_t v;
    if (depth > DEPTH_MOST)
        return false;
    if (e->kind == TE_NODE_AXIS) {
        out->k[e->axis] += times;
        return true;
    }
    if (constant_index(e, &v)) {
        out->c += times * v;
        return true;
    }
    if (e->kind != TE_NODE_BINARY)
        return false;
    if (e->op == TE_ADD || e->op == TE_SUB)
        return add_linear(e->a, times, out, depth + 1) &&
               add_linear(e->b, e->op == TE_ADD ? times : -times, out, depth + 1);
    if (e->op == TE_MUL && constant_index(e->b, &v))
        return add_linear(e->a, times * v, out, depth + 1);
    if (e->op == TE_MUL && constant_index(e->a, &v))
        return add_linear(e->b, times * v, out, depth + 1);
    return false;
}

bool linear_of(const Te *e, Linear *out)
{
    memset(out, 0, sizeof *out);
    return add_linear(e, 1, out, 0);
}

void linear_range(const Linear *l, const TeStage *stage, int64_t *low, int64_t *high)
{
    *low = *high = l->c;
    for (int a = 0; a < stage->rank + stage->n_reduced; a++) {
        int64_t far = l->k[a] * (stage_extent(stage, a) - 1);
        *(far < 0 ? low : high) += far;
    }
}

/* ---- what the expression depends on ---------------------------------------------------------------------------------- */

uint64_t schedule_axes(const Schedule *s, const Te *e)
{
    return (uint64_t)(uintptr_t)ptrmap_find(&s->axes, e) >> 1;
}

typedef struct Survey {
    Schedule *s;
    Arena *arena;
    const TeProgram *p;
    uint64_t loose; /* axes whose own value is wanted, or that a load steps through unevenly */
    size_t widest; /* bytes of the largest element */
    bool ok;
} Survey;

static void note_size(Survey *v, DType t)
{
    size_t size = dtype_size(t);
    v->widest = size > v->widest ? size : v->widest;
}

static uint64_t survey(Survey *v, const Te *e, bool in_index, int depth);

static uint64_t survey_load(Survey *v, const Te *e, int depth)
{
    LoadInfo *info = arena_new(v->arena, LoadInfo);
    info->affine = te_load_affine(v->p, e, &info->at);
    ptrmap_put(&v->s->loads, e, info);
    note_size(v, program_tensor(v->p, e->tensor).dtype);
    uint64_t axes = 0;
    bool even = info->affine && !e->otherwise;
    for (int i = 0; i < e->n; i++)
        axes |= survey(v, e->index[i], even, depth + 1);
    if (e->otherwise)
        axes |= survey(v, e->otherwise, false, depth + 1);
    if (!even)
        v->loose |= axes;
    return axes;
}

static uint64_t survey(Survey *v, const Te *e, bool in_index, int depth)
{
    if (ptrmap_has(&v->s->axes, e))
        return schedule_axes(v->s, e);
    if (depth > DEPTH_MOST) {
        v->ok = false;
        return 0;
    }
    uint64_t axes = 0;
    if (e->kind == TE_NODE_AXIS)
        axes = (uint64_t)1 << e->axis;
    else if (e->kind == TE_NODE_LOAD)
        axes = survey_load(v, e, depth);
    else if (e->kind != TE_NODE_CONST) {
        axes = survey(v, e->a, in_index, depth + 1);
        axes |= e->b ? survey(v, e->b, in_index, depth + 1) : 0;
        axes |= e->c ? survey(v, e->c, in_index, depth + 1) : 0;
    }
    if (e->kind == TE_NODE_AXIS && !in_index)
        v->loose |= axes;
    /* Shifted, so that an expression without axes is told from one that was not seen. */
    ptrmap_put(&v->s->axes, e, (void *)(uintptr_t)(axes << 1 | 1));
    return axes;
}

/* An axis node may be shared between an index and a place that wants its value, so uses outside are looked for apart. */
static void find_loose(Survey *v, PtrMap *seen, const Te *e)
{
    if (!e || ptrmap_has(seen, e))
        return;
    ptrmap_put(seen, e, v);
    if (e->kind == TE_NODE_AXIS)
        v->loose |= (uint64_t)1 << e->axis;
    if (e->kind >= TE_NODE_UNARY) {
        find_loose(v, seen, e->a);
        find_loose(v, seen, e->b);
        find_loose(v, seen, e->c);
    }
    if (e->kind != TE_NODE_LOAD)
        return;
    find_loose(v, seen, e->otherwise);
    const LoadInfo *info = ptrmap_find(&v->s->loads, e);
    for (int i = 0; i < e->n && !(info->affine && !e->otherwise); i++)
        find_loose(v, seen, e->index[i]);
}

/* ---- loops -------------------------------------------------------------------------------------------------------- */

static bool steps_evenly(const Survey *v, int outer, int inner, int64_t inner_extent)
{
    const PtrMap *loads = &v->s->loads;
    for (size_t i = 0; i < loads->n; i++) {
        const LoadInfo *info = loads->entries[i].value;
        if (info->affine && info->at.stride[outer] != info->at.stride[inner] * inner_extent)
            return false;
    }
    return true;
}

/* The loops over axes [from, to), neighbours joined; axes of one element have none. */
static void add_loops(const Survey *v, const TeStage *stage, int from, int to)
{
    Schedule *s = v->s;
    int first = s->n;
    for (int a = from; a < to; a++) {
        int64_t extent = stage_extent(stage, a);
        if (extent == 1)
            continue;
        Loop *last = s->n > first ? &s->loops[s->n - 1] : NULL;
        uint64_t both = last ? (uint64_t)1 << a | (uint64_t)1 << last->axis : 0;
        if (last && !(v->loose & both) && steps_evenly(v, last->axis, a, extent)) {
            last->axis = a;
            last->extent *= extent;
            continue;
        }
        s->loops[s->n++] = (Loop){LOOP_SERIAL, a, extent, 1};
    }
}

/* How dear the loads are for a vector along the loop: nothing for what stays, 1 for contiguous elements, 16 for scattered ones, over
 * the lanes that are of use. */
static double vector_cost(const Schedule *s, const Loop *loop)
{
    double cost = 0.5;
    for (size_t i = 0; i < s->loads.n; i++) {
        const LoadInfo *info = s->loads.entries[i].value;
        bool depends = schedule_axes(s, s->loads.entries[i].key) >> loop->axis & 1;
        int64_t stride = info->affine ? info->at.stride[loop->axis] : depends ? 2 : 0;
        cost += stride == 0 ? 0 : stride == 1 ? 1 : 16;
    }
    double lanes = loop->extent < (int64_t)s->lanes ? (double)loop->extent : (double)s->lanes;
    return cost / lanes;
}

static bool is_position(TeReduce r)
{
    return r == TE_ARGMAX || r == TE_ARGMIN || r == TE_ARGMAX_LAST || r == TE_ARGMIN_LAST;
}

static int vector_loop(const Schedule *s, const TeStage *stage, bool in_order)
{
    int space = s->n_space - 1, reduced = s->n > s->n_space ? s->n - 1 : -1;
    /* Results are stored along the space's last axis alone. */
    if (space >= 0 && s->loops[space].axis != stage->rank - 1) {
        int a = stage->rank - 1;
        while (a > s->loops[space].axis && stage_extent(stage, a) == 1)
            a--;
        if (a != s->loops[space].axis)
            space = -1;
    }
    if (reduced < 0 || in_order || is_position(stage->reduce))
        return space;
    if (space < 0)
        return reduced;
    bool better = vector_cost(s, &s->loops[reduced]) < vector_cost(s, &s->loops[space]);
    return better ? reduced : space;
}

/* Loads that do not depend on the loop, so that tiles share them. */
static int shared_loads(const Schedule *s, const Loop *loop)
{
    int n = 0;
    for (size_t i = 0; i < s->loads.n; i++)
        n += !(schedule_axes(s, s->loads.entries[i].key) >> loop->axis & 1);
    return n;
}

static int tile_loop(const Schedule *s, int vector)
{
    int best = -1;
    for (int i = s->n_space - 1; i >= 0 && s->loads.n > 1; i--) {
        if (i == vector || s->loops[i].extent < 2)
            continue;
        int n = shared_loads(s, &s->loops[i]);
        if (n > 0 && (best < 0 || n > shared_loads(s, &s->loops[best])))
            best = i;
    }
    return best;
}

static int tile_block(int64_t extent, int most)
{
    for (int b = most; b >= 4; b--)
        if (extent % b == 0)
            return b;
    return extent < most ? (int)extent : most;
}

static void move_loop(Schedule *s, int from, int to)
{
    Loop moved = s->loops[from];
    for (int i = from; i < to; i++)
        s->loops[i] = s->loops[i + 1];
    s->loops[to] = moved;
}

/* Tiles and vectors: 8 to 12 accumulators keep the multipliers busy and fit the registers. */
static void choose_tiles(Schedule *s, const TeStage *stage, bool in_order)
{
    int vector = vector_loop(s, stage, in_order);
    if (vector >= 0) {
        Loop *v = &s->loops[vector];
        v->kind = LOOP_VECTOR;
        s->vector_axis = v->axis;
        bool long_enough = v->extent >= 2 * (int64_t)s->lanes;
        v->block = long_enough ? 2 : 1;
    }
    int tile = stage->reduce != TE_NO_REDUCE && vector >= 0 ? tile_loop(s, vector) : -1;
    if (tile >= 0) {
        Loop *t = &s->loops[tile];
        bool folds = vector >= s->n_space;
        t->kind = LOOP_TILE;
        t->block = tile_block(t->extent, folds || s->loops[vector].block > 1 ? 4 : 8);
        s->tile_axis = t->axis;
    } else if (vector >= 0 && stage->reduce != TE_NO_REDUCE && !is_position(stage->reduce)) {
        Loop *v = &s->loops[vector];
        v->block = v->extent >= 4 * (int64_t)s->lanes ? 4 : v->block;
    }
    if (tile >= 0)
        move_loop(s, tile, vector < s->n_space && vector > tile ? vector - 1 : s->n_space - 1);
    if (vector >= 0 && vector < s->n_space && tile > vector)
        move_loop(s, vector, s->n_space - 1);
}

/* One register of the widest elements; bytes are worked on sixteen at a time. */
static unsigned lanes_for(size_t vector_bytes, size_t widest)
{
    size_t lanes = vector_bytes / widest;
    return lanes > 16 ? 16 : (unsigned)lanes;
}

bool schedule_make(Schedule *s, Arena *arena, size_t vector_bytes, const TeProgram *p,
                   const TeStage *stage, bool in_order)
{
    *s = (Schedule){.vector_axis = -1, .tile_axis = -1};
    Survey v = {.s = s, .arena = arena, .p = p, .ok = true};
    note_size(&v, stage->dtype);
    survey(&v, stage->body, false, 0);
    if (!v.ok)
        return false;
    PtrMap seen = {0};
    find_loose(&v, &seen, stage->body);
    ptrmap_deinit(&seen);
    if (is_position(stage->reduce))
        v.loose |= ~(uint64_t)0 << stage->rank;
    s->lanes = lanes_for(vector_bytes, v.widest);
    add_loops(&v, stage, 0, stage->rank);
    s->n_space = s->n;
    add_loops(&v, stage, stage->rank, stage->rank + stage->n_reduced);
    choose_tiles(s, stage, in_order);
    for (int i = 0; i < s->n; i++)
        s->level[s->loops[i].axis] = i + 1;
    return true;
}

void schedule_deinit(Schedule *s)
{
    ptrmap_deinit(&s->loads);
    ptrmap_deinit(&s->axes);
}

bool schedule_folds_lanes(const Schedule *s, const TeStage *stage)
{
    return s->vector_axis >= stage->rank;
}
