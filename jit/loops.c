/* The loops of one stage.
 *
 * Loops run at least once: a stage without elements is left out, and a reduction over nothing is its start value. A tile or vector axis
 * has a loop over whole blocks and, behind it, straight code for the rest, whose last vector is masked. */
#include "jit/loops.h"

/* ---- folding ------------------------------------------------------------------------------------------------------- */

static bool is_position(TeReduce r)
{
    return r == TE_ARGMAX || r == TE_ARGMIN || r == TE_ARGMAX_LAST || r == TE_ARGMIN_LAST;
}

/* The dtype that is folded: of the expression for positions, else of the stage. */
static DType folded_dtype(const Nest *n)
{
    return is_position(n->stage->reduce) ? n->stage->body->dtype : n->stage->dtype;
}

static Value extreme(DType t, bool least)
{
    if (dtype_is_float(t))
        return value_scalar_double(t, least ? -__builtin_inf() : __builtin_inf());
    if (!dtype_is_signed(t))
        return value_scalar_int(t, least ? 0 : dtype_is_bool(t) ? 1 : -1);
    int64_t low = t.bits == 64 ? INT64_MIN : -((int64_t)1 << (t.bits - 1));
    return value_scalar_int(t, least ? low : -(low + 1));
}

static Ssa start_value(const Nest *n, const Lanes *l)
{
    DType t = folded_dtype(n);
    switch (n->stage->reduce) {
    case TE_NO_REDUCE:
    case TE_SUM:
    case TE_ANY: return lanes_const(l, value_scalar_int(t, 0));
    case TE_PROD:
    case TE_ALL: return lanes_const(l, value_scalar_int(t, 1));
    case TE_REDUCE_MAX:
    case TE_ARGMAX:
    case TE_ARGMAX_LAST: return lanes_const(l, extreme(t, true));
    case TE_REDUCE_MIN:
    case TE_ARGMIN:
    case TE_ARGMIN_LAST: return lanes_const(l, extreme(t, false));
    }
    return NULL;
}

/* The greater or lesser number where any order does; a NaN stays, for it says that the order matters. */
static Ssa extreme_or_nan(const Nest *n, Ssa acc, Ssa v)
{
    LLVMBuilderRef b = n->k->g->b;
    bool greatest = n->stage->reduce == TE_REDUCE_MAX;
    Ssa better = LLVMBuildFCmp(b, greatest ? LLVMRealOGT : LLVMRealOLT, acc, v, "");
    Ssa stays = LLVMBuildOr(b, better, LLVMBuildFCmp(b, LLVMRealUNO, acc, acc, ""), "");
    return LLVMBuildSelect(b, stays, acc, v, "");
}

static Ssa folded(const Nest *n, const Lanes *l, Ssa acc, Ssa v)
{
    LLVMBuilderRef b = n->k->g->b;
    DType t = n->stage->dtype;
    /* Sums of 16-bit floats are kept in float32 and rounded once. */
    bool plain_float = dtype_is_float(t);
    if (n->doubt)
        return extreme_or_nan(n, acc, v);
    switch (n->stage->reduce) {
    case TE_SUM:
        return plain_float ? LLVMBuildFAdd(b, acc, v, "") : lanes_binary(l, TE_ADD, t, acc, v);
    case TE_PROD:
        return plain_float ? LLVMBuildFMul(b, acc, v, "") : lanes_binary(l, TE_MUL, t, acc, v);
    case TE_REDUCE_MAX: return lanes_binary(l, TE_MAX, t, acc, v);
    case TE_REDUCE_MIN: return lanes_binary(l, TE_MIN, t, acc, v);
    case TE_ALL: return LLVMBuildAnd(b, acc, v, "");
    case TE_ANY: return LLVMBuildOr(b, acc, v, "");
    case TE_NO_REDUCE:
    case TE_ARGMAX:
    case TE_ARGMIN:
    case TE_ARGMAX_LAST:
    case TE_ARGMIN_LAST: break;
    }
    return v;
}

/* The number of a copy's accumulator, whatever rest is being made. */
static int acc_of(int tile, int vector)
{
    return tile * VECTORS_MOST + vector;
}

static bool has_acc(const Nest *n, int i)
{
    return i / VECTORS_MOST < n->tiles && i % VECTORS_MOST < n->acc_vectors;
}

static const Lanes *acc_lanes(const Nest *n)
{
    return n->s.vector_axis >= 0 ? &n->many : &n->one;
}

/* The results are vectors: the vector axis is one of the space. */
static bool results_are_vectors(const Nest *n)
{
    return n->s.vector_axis >= 0 && n->s.vector_axis < n->stage->rank;
}

/* A product is added in one rounding. */
static bool fold_product(Nest *n, int at, int vector, int tile)
{
    const Te *e = n->stage->body;
    DType t = n->stage->dtype;
    bool fits = n->stage->reduce == TE_SUM && e->kind == TE_NODE_BINARY && e->op == TE_MUL &&
                t.code == DTYPE_CODE_FLOAT && t.bits >= 32;
    if (!fits)
        return false;
    bool lanes = n->s.vector_axis >= 0;
    Ssa a = lanes ? element_vector(n, e->a, vector, tile) : element_value(n, e->a, vector, tile);
    Ssa b = lanes ? element_vector(n, e->b, vector, tile) : element_value(n, e->b, vector, tile);
    Gen *g = n->k->g;
    Ssa mask = schedule_folds_lanes(&n->s, n->stage) ? element_mask(n, vector) : NULL;
    if (mask)
        a = LLVMBuildSelect(g->b, mask, a, LLVMConstNull(LLVMTypeOf(a)), "");
    if (mask)
        b = LLVMBuildSelect(g->b, mask, b, LLVMConstNull(LLVMTypeOf(b)), "");
    Ssa args[3] = {a, b, n->acc[at]};
    n->acc[at] = gen_intrinsic(g, "llvm.fmuladd", LLVMTypeOf(a), args, 3);
    return true;
}

/* Row-major number of the reduced axes. */
static Ssa reduced_position(Nest *n)
{
    Gen *g = n->k->g;
    Ssa at = gen_int(g->i64, 0);
    for (int a = n->stage->rank; a < n->stage->rank + n->stage->n_reduced; a++) {
        at = LLVMBuildMul(g->b, at, gen_int(g->i64, stage_extent(n->stage, a)), "");
        if (n->s.level[a])
            at = LLVMBuildAdd(g->b, at, n->axis[a], "");
    }
    return at;
}

static void fold_position(Nest *n, int at, Ssa v)
{
    LLVMBuilderRef b = n->k->g->b;
    const Lanes *l = acc_lanes(n);
    TeReduce r = n->stage->reduce;
    int better = r == TE_ARGMAX        ? TE_GT
                 : r == TE_ARGMIN      ? TE_LT
                 : r == TE_ARGMAX_LAST ? TE_GE
                                       : TE_LE;
    Ssa none = LLVMBuildICmp(b, LLVMIntSLT, n->pos[at], lanes_int(l, n->k->g->i64, 0), "");
    Ssa take = lanes_binary(l, better, folded_dtype(n), v, n->acc[at]);
    take = LLVMBuildOr(b, take, none, "");
    n->acc[at] = LLVMBuildSelect(b, take, v, n->acc[at], "");
    n->pos[at] = LLVMBuildSelect(b, take, lanes_splat(l, reduced_position(n)), n->pos[at], "");
}

static void fold_copy(Nest *n, int at, int vector, int tile)
{
    if (fold_product(n, at, vector, tile))
        return;
    bool lanes = n->s.vector_axis >= 0;
    const Te *e = n->stage->body;
    Ssa v = lanes ? element_vector(n, e, vector, tile) : element_value(n, e, vector, tile);
    if (is_position(n->stage->reduce)) {
        fold_position(n, at, v);
        return;
    }
    Ssa mask = schedule_folds_lanes(&n->s, n->stage) ? element_mask(n, vector) : NULL;
    if (mask)
        v = LLVMBuildSelect(n->k->g->b, mask, v, start_value(n, acc_lanes(n)), "");
    n->acc[at] = folded(n, acc_lanes(n), n->acc[at], v);
}

/* All lanes of a vector to one value. */
static Ssa fold_lanes(Nest *n, Ssa v)
{
    Gen *g = n->k->g;
    Ssa order[64];
    for (unsigned half = n->many.n / 2; half > 0; half /= 2) {
        Lanes l = {.g = g, .n = half};
        Ssa undef = LLVMGetPoison(LLVMTypeOf(v));
        for (unsigned i = 0; i < 2 * half; i++)
            order[i] = gen_int(g->i32, i);
        Ssa low = LLVMBuildShuffleVector(g->b, v, undef, LLVMConstVector(order, half), "");
        Ssa high = LLVMBuildShuffleVector(g->b, v, undef, LLVMConstVector(order + half, half), "");
        if (half == 1) {
            low = LLVMBuildExtractElement(g->b, low, gen_int(g->i32, 0), "");
            high = LLVMBuildExtractElement(g->b, high, gen_int(g->i32, 0), "");
        }
        v = folded(n, &l, low, high);
    }
    return v;
}

/* ---- storing -------------------------------------------------------------------------------------------------------- */

/* The row-major position of the result of a copy, without its lanes. */
static Ssa result_place(Nest *n, int vector, int tile)
{
    Gen *g = n->k->g;
    int64_t stride = 1, more = 0;
    Ssa at = NULL;
    for (int a = n->stage->rank - 1; a >= 0; a--) {
        if (n->s.level[a] && n->axis[a]) {
            Ssa v = LLVMBuildMul(g->b, n->axis[a], gen_int(g->i64, stride), "");
            at = at ? LLVMBuildAdd(g->b, at, v, "") : v;
        }
        more += a == n->s.tile_axis ? tile * stride : 0;
        more += a == n->s.vector_axis ? vector * stride * (int64_t)n->many.n : 0;
        stride *= n->stage->shape[a];
    }
    LLVMTypeRef t = gen_stored(g, n->stage->dtype);
    Ssa base = at ? LLVMBuildGEP2(g->b, t, n->out, &at, 1, "") : n->out;
    Ssa steps = gen_int(g->i64, more);
    return more ? LLVMBuildGEP2(g->b, t, base, &steps, 1, "") : base;
}

static void store_result(Nest *n, Ssa v, int vector, int tile)
{
    Gen *g = n->k->g;
    DType t = n->stage->dtype;
    unsigned align = (unsigned)dtype_size(t);
    Ssa place = result_place(n, vector, tile), stored = gen_to_stored(g, t, v);
    Ssa mask = results_are_vectors(n) ? element_mask(n, vector) : NULL;
    if (!mask) {
        LLVMSetAlignment(LLVMBuildStore(g->b, stored, place), align);
        return;
    }
    LLVMTypeRef overloads[2] = {LLVMTypeOf(stored), g->ptr};
    unsigned id = LLVMLookupIntrinsicID("llvm.masked.store", 17);
    Ssa fn = LLVMGetIntrinsicDeclaration(g->m, id, overloads, 2);
    Ssa args[4] = {stored, place, gen_int(g->i32, align), mask};
    LLVMBuildCall2(g->b, LLVMGlobalGetValueType(fn), fn, args, 4, "");
}

static Ssa position_result(Nest *n, int at)
{
    Gen *g = n->k->g;
    LLVMTypeRef t = lanes_type(acc_lanes(n), gen_dtype(g, n->stage->dtype));
    return n->stage->dtype.bits == 64 ? n->pos[at] : LLVMBuildTrunc(g->b, n->pos[at], t, "");
}

/* Notes a result that is NaN. */
static void note_doubt(Nest *n, Ssa v)
{
    LLVMBuilderRef b = n->k->g->b;
    Ssa before = LLVMBuildLoad2(b, n->k->g->i1, n->doubt, "");
    LLVMBuildStore(b, LLVMBuildOr(b, before, LLVMBuildFCmp(b, LLVMRealUNO, v, v, ""), ""),
                   n->doubt);
}

/* The accumulators of a tile to results. */
static void store_folded(Nest *n)
{
    bool folds = schedule_folds_lanes(&n->s, n->stage);
    for (int t = 0; t < n->tiles; t++) {
        Ssa sum = NULL;
        for (int v = 0; v < n->acc_vectors; v++) {
            int at = acc_of(t, v);
            Ssa acc = is_position(n->stage->reduce) ? position_result(n, at) : n->acc[at];
            if (!folds)
                store_result(n, acc, v, t);
            else
                sum = sum ? folded(n, &n->many, sum, acc) : acc;
        }
        if (!folds)
            continue;
        sum = fold_lanes(n, sum);
        if (n->doubt)
            note_doubt(n, sum);
        store_result(n, sum, 0, t);
    }
}

/* ---- loops ----------------------------------------------------------------------------------------------------------- */

static void make_level(Nest *n, int level);

typedef struct Counter {
    LLVMBasicBlockRef head;
    Ssa i;
    Ssa acc[COPIES_MOST], pos[COPIES_MOST];
    bool folds;
    int64_t step, end;
} Counter;

static Ssa phi_of(Nest *n, Ssa start, LLVMBasicBlockRef from)
{
    Ssa phi = LLVMBuildPhi(n->k->g->b, LLVMTypeOf(start), "");
    LLVMAddIncoming(phi, &start, &from, 1);
    return phi;
}

/* Begins a loop from 0 to `end`; accumulators go round with it when the loop is one of the reduction. */
static void counter_begin(Nest *n, Counter *c, int64_t end, int64_t step, bool folds)
{
    Gen *g = n->k->g;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    c->step = step;
    c->end = end;
    c->folds = folds;
    c->head = gen_block(g, n->k->fn, "loop");
    LLVMBuildBr(g->b, c->head);
    LLVMPositionBuilderAtEnd(g->b, c->head);
    c->i = phi_of(n, gen_int(g->i64, 0), before);
    for (int i = 0; i < COPIES_MOST && folds; i++)
        if (has_acc(n, i))
            c->acc[i] = n->acc[i] = phi_of(n, n->acc[i], before);
    for (int i = 0; i < COPIES_MOST && folds && is_position(n->stage->reduce); i++)
        if (has_acc(n, i))
            c->pos[i] = n->pos[i] = phi_of(n, n->pos[i], before);
}

/* Elements that are computed between two looks at the interrupt flag. */
#define POLL_WORK ((int64_t)1 << 20)

/* Elements that the loops inside of this level compute, at most as many as matter. */
static int64_t work_inside(const Nest *n, int level)
{
    int64_t work = 1;
    for (int i = level + 1; i < n->s.n && work < POLL_WORK; i++)
        work *= n->s.loops[i].extent;
    return work;
}

/* A loop with much to do looks now and then whether it is to stop; short loops pay nothing. */
static void poll(const Nest *n, const Counter *c, int level)
{
    const Kernel *k = n->k;
    Gen *g = k->g;
    int64_t inside = work_inside(n, level), turns = 1;
    if (c->end < POLL_WORK / inside)
        return;
    while (turns * inside * c->step < POLL_WORK)
        turns *= 2;
    LLVMBasicBlockRef look = gen_block(g, k->fn, "look"), stop = gen_block(g, k->fn, "stop");
    LLVMBasicBlockRef go = gen_block(g, k->fn, "go");
    Ssa rest = LLVMBuildAnd(g->b, c->i, gen_int(g->i64, turns - 1), "");
    gen_branch(g, LLVMBuildICmp(g->b, LLVMIntEQ, rest, gen_int(g->i64, 0), ""), look, go, false);
    LLVMPositionBuilderAtEnd(g->b, look);
    gen_branch(g, gen_interrupted(g, k->state), stop, go, false);
    LLVMPositionBuilderAtEnd(g->b, stop);
    gen_call_abi(g, "relay_stopped", (Ssa *)&k->state, 1);
    LLVMBuildRetVoid(g->b);
    LLVMPositionBuilderAtEnd(g->b, go);
}

static void counter_end(Nest *n, Counter *c, int level)
{
    Gen *g = n->k->g;
    poll(n, c, level);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->b), after = gen_block(g, n->k->fn, "after");
    Ssa next = LLVMBuildAdd(g->b, c->i, gen_int(g->i64, c->step), "");
    LLVMAddIncoming(c->i, &next, &here, 1);
    for (int i = 0; i < COPIES_MOST && c->folds; i++)
        if (has_acc(n, i))
            LLVMAddIncoming(c->acc[i], &n->acc[i], &here, 1);
    for (int i = 0; i < COPIES_MOST && c->folds && is_position(n->stage->reduce); i++)
        if (has_acc(n, i))
            LLVMAddIncoming(c->pos[i], &n->pos[i], &here, 1);
    Ssa more = LLVMBuildICmp(g->b, LLVMIntSLT, next, gen_int(g->i64, c->end), "");
    LLVMBuildCondBr(g->b, more, c->head, after);
    LLVMPositionBuilderAtEnd(g->b, after);
}

static void make_body(Nest *n)
{
    const Te *e = n->stage->body;
    bool reduces = n->stage->reduce != TE_NO_REDUCE;
    for (int t = 0; t < n->tiles; t++) {
        for (int v = 0; v < n->vectors; v++) {
            if (reduces)
                fold_copy(n, acc_of(t, v), v, t);
            else if (results_are_vectors(n))
                store_result(n, element_vector(n, e, v, t), v, t);
            else
                store_result(n, element_value(n, e, v, t), v, t);
        }
    }
}

/* The accumulators exist for every vector of a block, however many a rest of it fills. */
static void start_folding(Nest *n)
{
    const Lanes *l = acc_lanes(n);
    bool folds = schedule_folds_lanes(&n->s, n->stage);
    n->acc_vectors = folds ? n->s.loops[n->s.n - 1].block : n->vectors;
    for (int i = 0; i < COPIES_MOST; i++) {
        n->acc[i] = start_value(n, l);
        n->pos[i] = lanes_int(l, n->k->g->i64, -1);
    }
}

/* With the axis at `value`: the loops inside. */
static void make_inside(Nest *n, int level, Ssa value)
{
    n->axis[n->s.loops[level].axis] = value;
    element_enter(n);
    element_hoist(n, n->stage->body);
    make_level(n, level + 1);
    element_leave(n);
}

static void make_serial(Nest *n, int level)
{
    Counter c;
    counter_begin(n, &c, n->s.loops[level].extent, 1, level >= n->s.n_space);
    make_inside(n, level, c.i);
    counter_end(n, &c, level);
}

static void set_copies(Nest *n, const Loop *loop, int copies)
{
    *(loop->kind == LOOP_TILE ? &n->tiles : &n->vectors) = copies;
}

static Ssa rest_mask(const Nest *n, int64_t lanes)
{
    Ssa bits[64];
    for (unsigned i = 0; i < n->many.n; i++)
        bits[i] = gen_int(n->k->g->i1, i < (uint64_t)lanes);
    return LLVMConstVector(bits, n->many.n);
}

/* A reduction along the vector axis keeps its accumulators from the whole blocks to the rest. */
static void make_blocks(Nest *n, int level)
{
    const Loop *loop = &n->s.loops[level];
    bool is_vector = loop->kind == LOOP_VECTOR, folds = level >= n->s.n_space;
    int64_t unit = is_vector ? n->many.n : 1, block = unit * loop->block;
    int64_t whole = loop->extent / block * block, rest = loop->extent - whole;
    if (whole > 0) {
        set_copies(n, loop, loop->block);
        if (whole == block) {
            make_inside(n, level, gen_int(n->k->g->i64, 0));
        } else {
            Counter c;
            counter_begin(n, &c, whole, block, folds);
            make_inside(n, level, c.i);
            counter_end(n, &c, level);
        }
    }
    if (rest > 0) {
        set_copies(n, loop, (int)((rest + unit - 1) / unit));
        n->mask = is_vector && rest % unit ? rest_mask(n, rest % unit) : n->mask;
        make_inside(n, level, gen_int(n->k->g->i64, whole));
        n->mask = is_vector ? NULL : n->mask;
    }
    if (is_vector)
        n->vectors = 1;
}

static void make_level(Nest *n, int level)
{
    bool reduces = n->stage->reduce != TE_NO_REDUCE;
    bool begins = reduces && level == n->s.n_space;
    if (begins)
        start_folding(n);
    if (level == n->s.n)
        make_body(n);
    else if (n->s.loops[level].kind == LOOP_SERIAL)
        make_serial(n, level);
    else
        make_blocks(n, level);
    if (begins)
        store_folded(n);
}

static void fault(void *data, Ssa bad, const char *report)
{
    Nest *n = data;
    Gen *g = n->k->g;
    LLVMBasicBlockRef fail = gen_block(g, n->k->fn, "fault"), go = gen_block(g, n->k->fn, "go");
    gen_branch(g, bad, fail, go, false);
    LLVMPositionBuilderAtEnd(g->b, fail);
    Ssa args[4] = {n->k->state, gen_int(g->i32, n->k->span.source),
                   gen_int(g->i32, n->k->span.from), gen_int(g->i32, n->k->span.to)};
    gen_call_abi(g, report, args, 4);
    LLVMBuildRetVoid(g->b);
    LLVMPositionBuilderAtEnd(g->b, go);
}

static bool is_empty(const TeStage *stage, int from, int to)
{
    for (int a = from; a < to; a++)
        if (stage_extent(stage, a) == 0)
            return true;
    return false;
}

static void nest_deinit(Nest *n)
{
    for (int i = 0; i <= AXES_MOST; i++) {
        ptrmap_deinit(&n->values[i]);
        ptrmap_deinit(&n->places[i]);
    }
    schedule_deinit(&n->s);
}

/* Extremes of floats: `a > b ? a : b` step by step, so a NaN makes the order matter. */
static bool may_doubt(const Nest *n)
{
    TeReduce r = n->stage->reduce;
    return (r == TE_REDUCE_MAX || r == TE_REDUCE_MIN) && dtype_is_float(n->stage->dtype) &&
           schedule_folds_lanes(&n->s, n->stage);
}

static Ssa doubt_new(Gen *g, Ssa fn)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->b), entry = LLVMGetEntryBasicBlock(fn);
    Ssa first = LLVMGetFirstInstruction(entry);
    if (first)
        LLVMPositionBuilderBefore(g->b, first);
    else
        LLVMPositionBuilderAtEnd(g->b, entry);
    Ssa doubt = LLVMBuildAlloca(g->b, g->i1, "");
    LLVMPositionBuilderAtEnd(g->b, here);
    LLVMBuildStore(g->b, gen_int(g->i1, 0), doubt);
    return doubt;
}

/* Makes the loops; `doubt` is set where results that are NaN are to be made again, in order. */
static bool nest_loops(Kernel *k, const TeStage *stage, Ssa out, bool in_order, Ssa *doubt)
{
    Nest *n = arena_new(k->g->arena, Nest);
    n->k = k;
    n->p = k->p;
    n->stage = stage;
    n->out = out;
    n->tiles = n->vectors = 1;
    size_t bytes = orc_vector_bytes(&k->g->jit->orc);
    bool ok = schedule_make(&n->s, k->g->arena, bytes, k->p, stage, in_order);
    n->one = (Lanes){.g = k->g, .n = 1, .fault = fault, .data = n};
    n->many = (Lanes){.g = k->g, .n = n->s.lanes, .fault = fault, .data = n};
    if (!ok)
        gen_refuse(k->g, "`%s` computes an expression that is too large", stage->name);
    else if (is_empty(stage, stage->rank, stage->rank + stage->n_reduced)) {
        gen_refuse(k->g, "`%s` reduces over nothing", stage->name);
    } else {
        n->doubt = *doubt = may_doubt(n) ? doubt_new(k->g, k->fn) : NULL;
        element_hoist(n, stage->body);
        make_level(n, 0);
    }
    nest_deinit(n);
    return !k->g->failed;
}

bool nest_make(Kernel *k, const TeStage *stage, Ssa out)
{
    Gen *g = k->g;
    Ssa doubt = NULL, none;
    if (is_empty(stage, 0, stage->rank))
        return true;
    bool ok = nest_loops(k, stage, out, false, &doubt);
    if (!ok || !doubt)
        return ok;
    LLVMBasicBlockRef again = gen_block(g, k->fn, "again"), go = gen_block(g, k->fn, "go");
    gen_branch(g, LLVMBuildLoad2(g->b, g->i1, doubt, ""), again, go, false);
    LLVMPositionBuilderAtEnd(g->b, again);
    ok = nest_loops(k, stage, out, true, &none);
    LLVMBuildBr(g->b, go);
    LLVMPositionBuilderAtEnd(g->b, go);
    return ok;
}
