#include "sched/gpu_matrix.h"

const Te *gpu_narrow(const Te *factor)
{
    while (factor->kind == TE_NODE_CAST) {
        DType to = factor->dtype, from = factor->a->dtype;
        bool floats = dtype_is_float(to) && dtype_is_float(from) && from.bits == 16 && to.bits > 16;
        bool bytes = dtype_is_int(to) && to.bits == 32 && dtype_is_int(from) && from.bits == 8;
        if (!floats && !bytes)
            break;
        factor = factor->a;
    }
    return factor;
}

/* ---- how the factors lie --------------------------------------------------------------------------------------------------- */

static bool even(int64_t v, int64_t by)
{
    return v % by == 0;
}

/* The side's axes as one, where the load goes through them in even steps. */
static void merge(const GpuBuild *w, const TeAffine *at, GpuSide *side)
{
    const TeStage *st = &w->s->p->stages[w->stage];
    int64_t step = at->stride[side->axis[side->n - 1]];
    for (int i = side->n - 1; i > 0; i--) {
        int axis = side->axis[i];
        step *= axis < st->rank ? st->shape[axis] : st->reduced[axis - st->rank];
        if (at->stride[side->axis[i - 1]] != step)
            return;
    }
    /* All of the number goes along the last axis; the others stay where they begin. */
    side->axis[0] = side->axis[side->n - 1];
    side->n = 1;
}

/* Whether each row of 16 bytes of the piece lies in one place of memory, where the card can take it. */
static bool can_copy(GpuMatrix *f)
{
    GpuBuild *w = f->w;
    const Gpu *s = w->s;
    const Te *load = gpu_narrow(gpu_factor(w, f->columns));
    TeAffine at;
    if (load->kind != TE_NODE_LOAD || load->otherwise || !te_load_affine(s->p, load, &at) ||
        !dtype_eq(load->dtype, f->dtype) ||
        (load->tensor < s->p->n_inputs && s->loose && s->loose[load->tensor]) ||
        w->p->folds.extent % f->depth)
        return false;
    GpuSide side = f->side, folds = f->folds;
    merge(w, &at, &folds);
    merge(w, &at, &side);
    const GpuSide *rows = f->along ? &folds : &side;
    int last = rows->axis[rows->n - 1];
    const TeStage *st = &s->p->stages[w->stage];
    int64_t extent = rows->n == 1      ? rows->extent
                     : last < st->rank ? st->shape[last]
                                       : st->reduced[last - st->rank];
    bool fits = at.stride[last] == 1 && even(extent, f->each) && even(at.offset, f->each);
    for (int i = 0; i < st->rank + st->n_reduced && fits; i++)
        fits = i == last || even(at.stride[i], f->each);
    if (fits) {
        f->side = side;
        f->folds = folds;
    }
    return fits;
}

/* Rows of a map begin at multiples of 16 bytes and do not overlap. */
static bool add_box_axis(GpuMatrix *f, const TeAffine *at, int axis, int64_t extent, int64_t length)
{
    NestBox *b = &f->box;
    int64_t step = at->stride[axis], least = b->n ? b->axis[0].extent : 1;
    bool fits = b->n ? even(step, f->each) && step >= least && step < NEST_STEP_MOST : step == 1;
    if (b->n == NEST_BOX_AXES || extent > INT32_MAX || !fits)
        return false;
    f->axis[b->n] = axis;
    b->axis[b->n].extent = extent;
    b->axis[b->n].step = step;
    b->axis[b->n++].length = (int)length;
    return true;
}

bool gpu_matrix_box(GpuMatrix *f)
{
    GpuBuild *w = f->w;
    const Gpu *s = w->s;
    const TeStage *st = &s->p->stages[w->stage];
    const Te *load = gpu_narrow(gpu_factor(w, f->columns));
    GpuMatrix made = *f;
    TeAffine at;
    if (load->kind != TE_NODE_LOAD || load->otherwise || !te_load_affine(s->p, load, &at) ||
        !dtype_eq(load->dtype, f->dtype) || !even(at.offset, f->each) ||
        (load->tensor < s->p->n_inputs && s->loose && s->loose[load->tensor]))
        return false;
    merge(w, &at, &made.folds);
    merge(w, &at, &made.side);
    made.box = (NestBox){.from = load->tensor, .offset = at.offset};
    int side = made.side.axis[made.side.n - 1], fold = made.folds.axis[made.folds.n - 1];
    bool fits = made.folds.n == 1 && made.side.n == 1 &&
                add_box_axis(&made, &at, fold, made.folds.extent, f->depth) &&
                add_box_axis(&made, &at, side, made.side.extent, f->tile);
    /* What all products share has no axis. */
    for (int i = 0; fits && i < w->p->batch.n; i++) {
        int axis = w->p->batch.axis[i];
        fits = at.stride[axis] == 0 || add_box_axis(&made, &at, axis, st->shape[axis], 1);
    }
    if (!fits)
        return false;
    *f = made;
    f->copied = f->grouped = f->boxed = true;
    f->size = nest_box_size(&f->box);
    return true;
}

void gpu_matrix_plan(GpuMatrix *f, GpuBuild *w, bool columns, DType dtype, int64_t tile,
                     int64_t depth)
{
    *f = (GpuMatrix){.w = w,
                     .side = columns ? w->p->columns : w->p->rows,
                     .folds = w->p->folds,
                     .dtype = dtype,
                     .tile = tile,
                     .depth = depth,
                     .each = NEST_ROW_BYTES / (int64_t)dtype_size(dtype),
                     .columns = columns};
    /* Only elements of 16 bits can be turned on their way to the fragments. */
    f->along = gpu_along_folds(w, columns) || dtype.bits != 16;
    f->copied = can_copy(f);
    /* A row of a matrix more, so that eight rows begin in different banks. */
    f->pitch = (f->along ? depth : tile) + f->each;
    f->size = f->pitch * (f->along ? tile : depth);
}

bool gpu_matrix_can_group(const GpuMatrix *f)
{
    return f->copied && f->along && f->dtype.bits == 16 && dtype_is_float(f->dtype) &&
           f->side.extent % f->tile == 0;
}

void gpu_matrix_group(GpuMatrix *f)
{
    f->grouped = true;
    /* Sixteen bytes more, so that copies of a row go to different banks. */
    f->pitch = f->tile * f->each + f->each;
    f->size = f->pitch * (f->depth / f->each);
}

void gpu_matrix_room(GpuMatrix *f, int64_t stages)
{
    GpuBuild *w = f->w;
    f->shared = gpu_buffer(w, f->columns ? "columns" : "rows", f->dtype, NEST_SHARED,
                           stages * f->size, w->grid);
    w->n->buffers.at[f->shared].boxed = f->boxed;
    if (!f->copied)
        f->taken = gpu_buffer(w, "taken", f->dtype, NEST_REGISTER, f->tile * f->depth / w->threads,
                              w->body);
}

/* ---- to shared memory -------------------------------------------------------------------------------------------------------- */

/* The number, or the last one that there is. */
static Te *at_most(GpuBuild *w, Te *number, int64_t extent, bool may_leave)
{
    return may_leave ? te_binary(w->b, TE_MIN, number, te_int(w->b, extent - 1)) : number;
}

/* A place of the piece, or several side by side, as the program's axes. */
static NestNode *bind_place(const GpuMatrix *f, NestNode *in, Te *tile, Te *step, Te *place,
                            Te *fold, const GpuLanes *lanes, NestLinear *axes)
{
    GpuBuild *w = f->w;
    int64_t n = lanes ? lanes->n : 1, across = f->along ? 1 : n, along = f->along ? n : 1;
    Te *first = gpu_by(w, TE_MUL, tile, f->tile / across);
    Te *number = at_most(w, gpu_plus(w, first, place), f->side.extent / across,
                         !even(f->side.extent, f->tile));
    in = gpu_bind_side(w, in, &w->p->batch, w->batch, NULL, axes);
    in = gpu_bind_side(w, in, &f->side, number, f->along ? NULL : lanes, axes);
    Te *from = gpu_by(w, TE_MUL, step, f->depth / along);
    return gpu_bind_side(w, in, &f->folds, gpu_plus(w, from, fold), f->along ? lanes : NULL, axes);
}

static const Te *value_at(const GpuMatrix *f, NestLinear *axes)
{
    GpuBuild *w = f->w;
    Te *body = nest_expression(w->n, w->s->p, w->stage, axes, -1, NULL);
    return gpu_narrow(f->columns != w->p->turned ? body->b : body->a);
}

static Te *in_stage(const GpuMatrix *f, Te *stage, Te *row, Te *at)
{
    GpuBuild *w = f->w;
    Te *from = gpu_by(w, TE_MUL, stage, f->size);
    return gpu_plus(w, gpu_plus(w, from, gpu_by(w, TE_MUL, row, f->pitch)), at);
}

void gpu_matrix_copy(const GpuMatrix *f, NestNode *in, Te *tile, Te *step, Te *stage)
{
    GpuBuild *w = f->w;
    int64_t length = (f->along ? f->depth : f->tile) / f->each;
    int64_t rows = f->along ? f->tile : f->depth, all = rows * length;
    NestNode *turn = gpu_loop(w, in, "turn", NEST_UNROLLED, (all + w->threads - 1) / w->threads);
    Te *number = gpu_plus(w, gpu_by(w, TE_MUL, gpu_var(w, turn), w->threads), w->thread);
    NestNode *row = gpu_let(w, turn, "row", rows, gpu_by(w, TE_DIV, number, length));
    NestNode *at = gpu_let(w, row, "at", length, gpu_by(w, TE_MOD, number, length));
    NestNode *lane = nest_loop(w->n, "lane", f->each);
    GpuLanes lanes = {f->each, lane->var};
    NestLinear *axes = gpu_axes(w);
    Te *place = gpu_var(w, f->along ? row : at), *fold = gpu_var(w, f->along ? at : row);
    NestNode *inner = bind_place(f, at, tile, step, place, fold, &lanes, axes);
    lane->way = NEST_VECTOR;
    lane->lanes = (int)f->each;
    nest_append(w->n, inner, lane);
    Te *side_by_side = gpu_by(w, TE_MUL, gpu_var(w, f->grouped ? row : at), f->each);
    side_by_side = gpu_plus(w, side_by_side, gpu_var(w, lane));
    Te *to = in_stage(f, stage, gpu_var(w, f->grouped ? at : row), side_by_side);
    NestNode *store = nest_store(w->n, f->shared, to, (Te *)(uintptr_t)value_at(f, axes));
    store->copies = true;
    nest_append(w->n, lane, store);
}

void gpu_matrix_ask(const GpuMatrix *f, NestNode *in, Te *tile, Te *step, Te *stage, int gates)
{
    GpuBuild *w = f->w;
    NestBox box = f->box;
    NestLinear *axes = gpu_axes(w);
    in = gpu_bind_side(w, in, &w->p->batch, w->batch, NULL, axes);
    box.axis[0].first = gpu_by(w, TE_MUL, step, f->depth);
    box.axis[1].first = gpu_by(w, TE_MUL, tile, f->tile);
    for (int i = 2; i < box.n; i++)
        box.axis[i].first = nest_position(w->n, &axes[f->axis[i]]);
    Te *to = gpu_by(w, TE_MUL, stage, f->size);
    nest_append(w->n, in, nest_bulk(w->n, f->shared, to, &box, gates, stage));
}

/* The thread's turns over a piece that is not copied: where each is in the tile. */
static NestNode *over_piece(const GpuMatrix *f, NestNode *in, NestNode **turn, NestNode **place,
                            NestNode **fold)
{
    GpuBuild *w = f->w;
    bool along = gpu_along_folds(w, f->columns);
    int64_t inner = along ? f->depth : f->tile;
    *turn = gpu_loop(w, in, "turn", NEST_UNROLLED, f->tile * f->depth / w->threads);
    Te *number = gpu_plus(w, gpu_by(w, TE_MUL, gpu_var(w, *turn), w->threads), w->thread);
    *place = gpu_let(w, *turn, "place", f->tile, gpu_by(w, along ? TE_DIV : TE_MOD, number, inner));
    *fold = gpu_let(w, *place, "fold", f->depth, gpu_by(w, along ? TE_MOD : TE_DIV, number, inner));
    return *fold;
}

void gpu_matrix_take(const GpuMatrix *f, NestNode *in, Te *tile, Te *step)
{
    GpuBuild *w = f->w;
    NestNode *turn, *place, *fold, *inner = over_piece(f, in, &turn, &place, &fold);
    NestLinear *axes = gpu_axes(w);
    Te *none = te_number(w->b, f->dtype, 0);
    nest_append(w->n, fold, nest_store(w->n, f->taken, gpu_var(w, turn), none));
    inner = bind_place(f, fold, tile, step, gpu_var(w, place), gpu_var(w, fold), NULL, axes);
    Te *value = (Te *)(uintptr_t)value_at(f, axes);
    nest_append(w->n, inner, nest_store(w->n, f->taken, gpu_var(w, turn), value));
}

void gpu_matrix_put(const GpuMatrix *f, NestNode *in, Te *stage)
{
    GpuBuild *w = f->w;
    NestNode *turn, *place, *fold, *inner = over_piece(f, in, &turn, &place, &fold);
    Te *row = gpu_var(w, f->along ? place : fold), *at = gpu_var(w, f->along ? fold : place);
    Te *value = nest_load(w->n, f->taken, gpu_var(w, turn));
    nest_append(w->n, inner, nest_store(w->n, f->shared, in_stage(f, stage, row, at), value));
}

Te *gpu_matrix_place(const GpuMatrix *f, Te *stage, Te *place)
{
    if (f->boxed) {
        Te *from = gpu_by(f->w, TE_MUL, stage, f->size);
        return gpu_plus(f->w, from, gpu_by(f->w, TE_MUL, place, f->depth));
    }
    return in_stage(f, stage, te_int(f->w->b, 0), gpu_by(f->w, TE_MUL, place, f->each));
}

/* ---- from there to registers ----------------------------------------------------------------------------------------------------- */

GpuLane gpu_open_lanes(GpuBuild *w)
{
    NestNode *lane =
        gpu_let(w, w->body, "lane", NEST_WARP, gpu_by(w, TE_MOD, w->thread, NEST_WARP));
    GpuLane l = {.lane = gpu_var(w, lane)};
    NestNode *low = gpu_let(w, lane, "low", 8, gpu_by(w, TE_MOD, l.lane, 8));
    NestNode *part = gpu_let(w, low, "part", 2, gpu_by(w, TE_DIV, l.lane, 16));
    w->body = gpu_let(w, part, "group", 2, gpu_by(w, TE_MOD, gpu_by(w, TE_DIV, l.lane, 8), 2));
    l.low = gpu_var(w, low);
    l.part = gpu_var(w, part);
    l.group = gpu_var(w, w->body);
    return l;
}

/* Each thread says where a row of one of four matrices begins. The matrices of the rows come place by place, those of the columns fold by
 * fold. */
void gpu_matrix_fetch(const GpuMatrix *f, const GpuLane *lane, NestNode *in, Te *stage, Te *place,
                      Te *fold, int words, Te *at)
{
    GpuBuild *w = f->w;
    Te *eight = f->columns ? lane->part : lane->group,
       *other = f->columns ? lane->group : lane->part;
    place = gpu_plus(w, place, gpu_by(w, TE_MUL, eight, 8));
    fold = gpu_plus(w, fold, gpu_by(w, TE_MUL, other, f->each));
    Te *row = gpu_plus(w, f->along ? place : fold, lane->low);
    Te *from = in_stage(f, stage, row, f->along ? fold : place);
    NestNode *fetch = nest_fetch(w->n, words, at, 4, nest_load(w->n, f->shared, from));
    fetch->turned = !f->along;
    nest_append(w->n, in, fetch);
}
