#include "jit/emit.h"

#include "jit/origin.h"
#include "loop/access.h"
#include "te/walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- folding -------------------------------------------------------------------------------------------------------- */

/* The greater or lesser number where any order does; a NaN stays, for it says that the order matters. Whether the new one is a NaN is known
 * before the old one is. */
static Ssa extreme_or_nan(LLVMBuilderRef b, bool greatest, Ssa acc, Ssa v)
{
    Ssa better = LLVMBuildFCmp(b, greatest ? LLVMRealOGT : LLVMRealOLT, v, acc, "");
    Ssa is_nan = LLVMBuildFCmp(b, LLVMRealUNO, v, v, "");
    return LLVMBuildSelect(b, is_nan, v, LLVMBuildSelect(b, better, v, acc, ""), "");
}

static Ssa folded(const NestNode *s, const Lanes *l, Ssa acc, Ssa v)
{
    LLVMBuilderRef b = l->g->b;
    DType t = s->value->dtype;
    if (s->any_order)
        return extreme_or_nan(b, s->fold == TE_REDUCE_MAX, acc, v);
    switch (s->fold) {
    case TE_SUM: return lanes_binary(l, TE_ADD, t, acc, v);
    case TE_PROD: return lanes_binary(l, TE_MUL, t, acc, v);
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

static Ssa half_of(Gen *g, Ssa v, unsigned from, unsigned n)
{
    Ssa order[64];
    if (n == 1)
        return LLVMBuildExtractElement(g->b, v, gen_int(g->i32, from), "");
    for (unsigned i = 0; i < n; i++)
        order[i] = gen_int(g->i32, from + i);
    return LLVMBuildShuffleVector(g->b, v, LLVMGetPoison(LLVMTypeOf(v)), LLVMConstVector(order, n),
                                  "");
}

/* All lanes of a vector to one value. */
static Ssa fold_lanes(const NestNode *s, const Lanes *l, Ssa v)
{
    for (unsigned half = l->n / 2; half > 0; half /= 2) {
        Lanes part = {.g = l->g, .n = half};
        v = folded(s, &part, half_of(l->g, v, 0, half), half_of(l->g, v, half, half));
    }
    return v;
}

/* ---- statements -------------------------------------------------------------------------------------------------------- */

static void set_register(Emit *e, int buffer, const Te *at, Ssa v)
{
    int lane, slot = emit_slot(e, buffer, at, &lane);
    Gen *g = e->g;
    Ssa *to = &e->slots[buffer][slot];
    if (lane >= 0) {
        LLVMTypeRef t = LLVMVectorType(LLVMTypeOf(v), (unsigned)e->granule[buffer]);
        v = LLVMBuildInsertElement(g->b, *to ? *to : LLVMGetPoison(t), v, gen_int(g->i32, lane),
                                   "");
    }
    *to = v;
}

static void masked_store(Gen *g, const char *name, Ssa v, Ssa place, unsigned align, Ssa mask)
{
    LLVMTypeRef overloads[2] = {LLVMTypeOf(v), LLVMTypeOf(place)};
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    Ssa fn = LLVMGetIntrinsicDeclaration(g->m, id, overloads, 2);
    Ssa args[4] = {v, place, gen_int(g->i32, align), mask};
    LLVMBuildCall2(g->b, LLVMGlobalGetValueType(fn), fn, args, 4, "");
}

static Ssa all_lanes(Gen *g, unsigned n)
{
    Ssa ones[64];
    for (unsigned i = 0; i < n; i++)
        ones[i] = gen_int(g->i1, 1);
    return LLVMConstVector(ones, n);
}

static void store_memory(Emit *e, const NestNode *s, Ssa v)
{
    Gen *g = e->g;
    DType t = e->n->buffers.at[s->buffer].dtype;
    unsigned align = emit_alignment(e, s->buffer, s->at);
    Ssa place = emit_place(e, s->buffer, s->at), stored = gen_to_stored(g, t, v);
    if (!emit_is_vector(e, s->at)) {
        LLVMSetAlignment(LLVMBuildStore(g->b, stored, place), align);
        return;
    }
    const NestNode *loop = e->level[e->vector].node;
    Lanes l = emit_lanes_of(e, true);
    int64_t stride = nest_coefficient(emit_linear(e, s->at), loop->var);
    if (stride != 1) {
        Ssa steps[64];
        for (unsigned i = 0; i < l.n; i++)
            steps[i] = gen_int(g->i64, (int64_t)i * stride);
        Ssa by = LLVMConstVector(steps, l.n);
        place = LLVMBuildGEP2(g->b, gen_stored(g, t), place, &by, 1, "");
        masked_store(g, "llvm.masked.scatter", stored, place, align,
                     l.mask ? l.mask : all_lanes(g, l.n));
    } else if (l.mask) {
        masked_store(g, "llvm.masked.store", stored, place, align, l.mask);
    } else {
        LLVMSetAlignment(LLVMBuildStore(g->b, stored, place), align);
    }
}

/* Of data, to be read, into the first cache. */
static void prefetch(Gen *g, Ssa place)
{
    Ssa args[4] = {place, gen_int(g->i32, 0), gen_int(g->i32, 3), gen_int(g->i32, 1)};
    gen_intrinsic(g, "llvm.prefetch", LLVMTypeOf(place), args, 4);
}

static void set_place(Emit *e, const NestNode *s, Ssa v)
{
    if (e->n->buffers.at[s->buffer].place == NEST_REGISTER)
        set_register(e, s->buffer, s->at, v);
    else
        store_memory(e, s, v);
}

static Ssa place_value(Emit *e, const NestNode *s)
{
    Te *load = nest_load(e->n, s->buffer, s->at);
    return emit_is_vector(e, s->at) ? emit_lanes(e, load) : emit_value(e, load);
}

/* A product of floats is added in one rounding. */
static bool is_product(const NestNode *s)
{
    DType t = s->value->dtype;
    return s->fold == TE_SUM && s->value->kind == TE_NODE_BINARY && s->value->op == TE_MUL &&
           t.code == DTYPE_CODE_FLOAT && t.bits >= 32;
}

/* A sum of products of parts of words, which one instruction may add. */
static bool is_dots(const NestNode *s)
{
    return s->fold == TE_SUM && s->value->kind == TE_NODE_BINARY &&
           (s->value->op == TE_DOTS || s->value->op == TE_PAIRS);
}

static Ssa mask_off(Emit *e, Ssa v, Ssa otherwise)
{
    Lanes l = emit_lanes_of(e, true);
    return l.mask ? LLVMBuildSelect(e->g->b, l.mask, v, otherwise, "") : v;
}

/* The same in any order (loop/nest.h). */
static Ssa wins_anywhere(Emit *e, const NestNode *s, const Lanes *l, Ssa v, Ssa number)
{
    LLVMBuilderRef b = e->g->b;
    DType t = s->value->dtype;
    bool greatest = s->fold == TE_ARGMAX || s->fold == TE_ARGMAX_LAST;
    bool last = s->fold == TE_ARGMAX_LAST || s->fold == TE_ARGMIN_LAST;
    Ssa best = emit_register(e, s->winner, s->at), at = emit_register(e, s->buffer, s->at);
    Ssa zero = lanes_int(l, e->g->i64, 0);
    Ssa sooner = LLVMBuildICmp(b, last ? LLVMIntSGT : LLVMIntSLT, number, at, "");
    Ssa equal = LLVMBuildAnd(b, lanes_binary(l, TE_EQ, t, v, best), sooner, "");
    Ssa wins = LLVMBuildOr(b, lanes_binary(l, greatest ? TE_GT : TE_LT, t, v, best), equal, "");
    wins = LLVMBuildOr(b, wins, LLVMBuildICmp(b, LLVMIntSLT, at, zero, ""), "");
    if (dtype_is_float(t)) {
        Ssa gone = LLVMBuildAnd(b, lanes_binary(l, TE_NE, t, best, best),
                                LLVMBuildICmp(b, LLVMIntNE, at, zero, ""), "");
        Ssa first = LLVMBuildAnd(b, lanes_binary(l, TE_NE, t, v, v),
                                 LLVMBuildICmp(b, LLVMIntEQ, number, zero, ""), "");
        wins = LLVMBuildOr(b, wins, LLVMBuildOr(b, gone, first, ""), "");
    }
    return LLVMBuildAnd(b, wins, LLVMBuildICmp(b, LLVMIntSGE, number, zero, ""), "");
}

static void make_position_fold(Emit *e, const NestNode *s, const Lanes *l)
{
    Gen *g = e->g;
    bool lanes = l->n > 1;
    TeReduce r = s->fold;
    int better = r == TE_ARGMAX        ? TE_GT
                 : r == TE_ARGMIN      ? TE_LT
                 : r == TE_ARGMAX_LAST ? TE_GE
                                       : TE_LE;
    Ssa v = lanes ? emit_lanes(e, s->value) : emit_value(e, s->value);
    Ssa number = lanes ? emit_lanes(e, s->number) : emit_value(e, s->number);
    Ssa best = emit_register(e, s->winner, s->at), at = emit_register(e, s->buffer, s->at);
    Ssa zero = lanes_int(l, g->i64, 0);
    Ssa take = LLVMBuildOr(g->b, lanes_binary(l, better, s->value->dtype, v, best),
                           LLVMBuildICmp(g->b, LLVMIntSLT, at, zero, ""), "");
    if (s->any_order)
        take = wins_anywhere(e, s, l, v, number);
    set_register(e, s->winner, s->at, LLVMBuildSelect(g->b, take, v, best, ""));
    set_register(e, s->buffer, s->at, LLVMBuildSelect(g->b, take, number, at, ""));
}

/* Once for each line: not in turns that load the same again, nor for what begins within a line. */
static void fetch_ahead(Emit *e, const NestNode *s)
{
    enum { LINE = 64 };
    Gen *g = e->g;
    const Te *load = emit_is_vector(e, s->value->b) ? s->value->b : s->value->a;
    const NestLinear *l = emit_linear(e, load->index[0]);
    if (!l || emit_known_part(e, l) * (int64_t)dtype_size(load->dtype) % LINE)
        return;
    for (int i = e->depth; i > 0 && emit_is_straight(e->level[i].node); i--)
        if (e->level[i].number > 0 && nest_coefficient(l, e->level[i].node->var) == 0)
            return;
    Ssa bytes = gen_int(g->i64, s->ahead), place = emit_place(e, load->tensor, load->index[0]);
    prefetch(g, LLVMBuildGEP2(g->b, g->i8, place, &bytes, 1, ""));
}

static void make_fold(Emit *e, const NestNode *s)
{
    Gen *g = e->g;
    bool lanes = emit_is_vector(e, s->at);
    Lanes l = emit_lanes_of(e, lanes), many = emit_lanes_of(e, true), one = emit_lanes_of(e, false);
    if (nest_is_position(s->fold)) {
        make_position_fold(e, s, &l);
        return;
    }
    if (s->ahead)
        fetch_ahead(e, s);
    Ssa acc = place_value(e, s);
    if (is_product(s) && !g->jit->exact && (lanes || !e->vector)) {
        Ssa a = lanes ? emit_lanes(e, s->value->a) : emit_value(e, s->value->a);
        Ssa b = lanes ? emit_lanes(e, s->value->b) : emit_value(e, s->value->b);
        if (lanes) {
            a = mask_off(e, a, LLVMConstNull(LLVMTypeOf(a)));
            b = mask_off(e, b, LLVMConstNull(LLVMTypeOf(b)));
        }
        Ssa args[3] = {a, b, acc};
        set_place(e, s, gen_intrinsic(g, "llvm.fmuladd", LLVMTypeOf(a), args, 3));
        return;
    }
    if (is_dots(s) && (lanes || !e->vector)) {
        Ssa a = lanes ? emit_lanes(e, s->value->a) : emit_value(e, s->value->a);
        Ssa b = lanes ? emit_lanes(e, s->value->b) : emit_value(e, s->value->b);
        set_place(e, s, lanes_dots(&l, s->value->op, acc, a, b));
        return;
    }
    Ssa v = e->vector ? emit_lanes(e, s->value) : emit_value(e, s->value);
    if (many.mask) {
        const Te *start = nest_start_of(e->n, s->fold, s->value->dtype);
        v = mask_off(e, v, lanes_splat(&many, lanes_const(&one, start->value)));
    }
    if (e->vector && !lanes)
        v = fold_lanes(s, &many, v);
    set_place(e, s, folded(s, &l, acc, v));
}

static Ssa phi_of(Emit *e, Ssa start, LLVMBasicBlockRef from)
{
    Ssa phi = LLVMBuildPhi(e->g->b, LLVMTypeOf(start), "");
    LLVMAddIncoming(phi, &start, &from, 1);
    return phi;
}

/* The instruction that folds by itself; -1: there is none. */
static int atomic_of(const NestNode *s)
{
    DType t = s->value->dtype;
    bool real = dtype_is_float(t), is_signed = dtype_is_signed(t);
    if (t.bits < 32)
        return -1;
    switch ((int)s->fold) {
    case TE_SUM: return real ? LLVMAtomicRMWBinOpFAdd : LLVMAtomicRMWBinOpAdd;
    case TE_REDUCE_MAX:
        return real ? -1 : is_signed ? LLVMAtomicRMWBinOpMax : LLVMAtomicRMWBinOpUMax;
    case TE_REDUCE_MIN:
        return real ? -1 : is_signed ? LLVMAtomicRMWBinOpMin : LLVMAtomicRMWBinOpUMin;
    }
    return -1;
}

/* Puts the fold of what is there in its place until nobody was faster. */
static void fold_until_first(Emit *e, const NestNode *s, Ssa place, Ssa v)
{
    Gen *g = e->g;
    DType t = e->n->buffers.at[s->buffer].dtype;
    Lanes one = emit_lanes_of(e, false);
    unsigned align = (unsigned)dtype_size(t);
    LLVMTypeRef word = LLVMIntTypeInContext(g->c, 8 * align);
    Ssa old = LLVMBuildLoad2(g->b, word, place, "");
    LLVMSetAlignment(old, align);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    LLVMBasicBlockRef again = gen_block(g, e->fn, "again"), go = gen_block(g, e->fn, "go");
    LLVMBuildBr(g->b, again);
    LLVMPositionBuilderAtEnd(g->b, again);
    Ssa seen = phi_of(e, old, before);
    Ssa is = gen_from_stored(g, t, LLVMBuildBitCast(g->b, seen, gen_stored(g, t), ""));
    Ssa next = gen_to_stored(g, t, folded(s, &one, is, v));
    Ssa done =
        LLVMBuildAtomicCmpXchg(g->b, place, seen, LLVMBuildBitCast(g->b, next, word, ""),
                               LLVMAtomicOrderingMonotonic, LLVMAtomicOrderingMonotonic, false);
    Ssa was = LLVMBuildExtractValue(g->b, done, 0, "");
    LLVMBasicBlockRef last = LLVMGetInsertBlock(g->b);
    LLVMBuildCondBr(g->b, LLVMBuildExtractValue(g->b, done, 1, ""), go, again);
    LLVMAddIncoming(seen, &was, &last, 1);
    LLVMPositionBuilderAtEnd(g->b, go);
}

static void make_atomic(Emit *e, const NestNode *s)
{
    Gen *g = e->g;
    Ssa v = emit_value(e, s->value), place = emit_place(e, s->buffer, s->at);
    int op = atomic_of(s);
    if (op < 0)
        fold_until_first(e, s, place, v);
    else
        LLVMBuildAtomicRMW(g->b, (LLVMAtomicRMWBinOp)op, place, v, LLVMAtomicOrderingMonotonic,
                           false);
}

static void make_statement(Emit *e, const NestNode *s)
{
    e->computes = true;
    ptrmap_clear(&e->now);
    origin_at(e->g, e->span);
    origin_at(e->g, s->value->span);
    if (s->atomic)
        make_atomic(e, s);
    else if (s->kind == NEST_FOLD)
        make_fold(e, s);
    else
        set_place(e, s,
                  emit_is_vector(e, s->at) ? emit_lanes(e, s->value) : emit_value(e, s->value));
}

static void make_product(Emit *e, const NestNode *s)
{
    Gen *g = e->g;
    const NestProduct *p = &s->product;
    origin_at(g, e->span);
    origin_at(g, p->span);
    bool single = e->n->buffers.at[s->buffer].dtype.bits == 32;
    size_t size = single ? 4 : 8;
    bool ta = p->k.a != 1 && p->k.extent > 1, tb = p->n.b != 1 && p->n.extent > 1;
    GemmSite *site = arena_new(g->arena, GemmSite);
    *site = (GemmSite){.batch = p->batch.extent,
                       .m = p->m.extent,
                       .n = p->n.extent,
                       .k = p->k.extent,
                       .lda = ta ? p->k.a : p->m.a,
                       .ldb = tb ? p->n.b : p->k.b,
                       .ldc = p->m.c,
                       .step_a = p->batch.a,
                       .step_b = p->batch.b,
                       .step_c = p->batch.c,
                       .transpose_a = ta,
                       .transpose_b = tb};
    int64_t least = ta ? p->m.extent : p->k.extent;
    site->lda = site->lda < least ? least : site->lda;
    least = tb ? p->k.extent : p->n.extent;
    site->ldb = site->ldb < least ? least : site->ldb;
    Ssa args[5] = {e->state, gen_offset(g, e->base[p->a], (size_t)p->a_from * size),
                   gen_offset(g, e->base[p->b], (size_t)p->b_from * size), e->base[s->buffer],
                   gen_bytes(g, site, sizeof *site)};
    e->fails = true;
    gen_call_abi(g, single ? "relay_sgemm" : "relay_dgemm", args, 5);
}

/* ---- what stands in front of a loop -------------------------------------------------------------------------------------- */

/* Values that are kept over a loop: more would not stay in registers. */
#define HOISTED_MOST 24

typedef struct Hoist {
    uint64_t unknown; /* levels whose loops have not begun */
    int depth; /* in front of the loop */
    int n;
} Hoist;

static void hoist_expression(Emit *e, Hoist *h, const Te *x)
{
    if (!x || x->kind == TE_NODE_CONST || h->n >= HOISTED_MOST)
        return;
    if (!(emit_mask(e, x) & h->unknown) && emit_is_pure(e, x)) {
        if (x->kind != TE_NODE_AXIS) {
            emit_value(e, x);
            h->n++;
        }
        return;
    }
    bool flat = x->kind == TE_NODE_LOAD && x->n == 1 && !x->otherwise;
    if (flat)
        emit_hoist_place(e, x->tensor, x->index[0], h->depth);
    for (int i = 0; i < te_children(x); i++)
        if (!flat || !emit_linear(e, x->index[0]))
            hoist_expression(e, h, te_child(x, i));
}

static void forget(EmitLevel *l)
{
    ptrmap_clear(&l->values);
    ptrmap_clear(&l->splats);
    ptrmap_clear(&l->places);
}

static void enter(Emit *e, const NestNode *node, Ssa value, int64_t number)
{
    EmitLevel *l = &e->level[++e->depth];
    l->node = node;
    l->value = value;
    l->number = number;
    if (node->kind == NEST_LOOP && node->way == NEST_VECTOR)
        e->vector = e->depth;
    forget(l);
}

static void leave(Emit *e)
{
    if (e->vector == e->depth)
        e->vector = 0;
    e->depth--;
}

/* Statements under `node`, which is entered as unrolled and vector loops are. */
static void hoist_node(Emit *e, Hoist *h, const NestNode *node)
{
    if (node->kind == NEST_PRODUCT || node->apart || h->n >= HOISTED_MOST)
        return;
    if (node->kind == NEST_STORE || node->kind == NEST_FOLD) {
        ptrmap_clear(&e->now);
        hoist_expression(e, h, node->value);
        emit_hoist_place(e, node->buffer, node->at, h->depth);
        return;
    }
    if (node->kind == NEST_FETCH)
        emit_hoist_place(e, node->value->tensor, node->value->index[0], h->depth);
    if (node->kind != NEST_LOOP)
        return;
    int64_t turns = node->way == NEST_UNROLLED ? node->extent : 1;
    bool runs = !emit_is_straight(node);
    for (int64_t t = 0; t < turns && h->n < HOISTED_MOST; t++) {
        enter(e, node, NULL, t);
        if (runs)
            h->unknown |= (uint64_t)1 << e->depth;
        for (size_t i = 0; i < node->body.n; i++)
            hoist_node(e, h, node->body.at[i]);
        if (runs)
            h->unknown &= ~((uint64_t)1 << e->depth);
        leave(e);
    }
    if (node->way == NEST_UNROLLED)
        emit_end_columns(e);
}

static void hoist(Emit *e, const NestNode *loop)
{
    Hoist h = {.depth = e->depth};
    e->keep = e->depth + 1;
    hoist_node(e, &h, loop);
    e->keep = 0;
}

/* ---- loops ------------------------------------------------------------------------------------------------------------------- */

static void make_node(Emit *e, const NestNode *node);
static void make_block(Emit *e, const NestBlock *block);

/* A register that goes round a loop. */
typedef struct Carried {
    Ssa *slot, phi;
} Carried;

typedef Vec(Carried) Carry;

typedef struct Changed {
    Emit *e;
    bool *is;
} Changed;

static void find_changed(void *data, NestNode *node)
{
    const Changed *c = data;
    if (node->kind == NEST_LOOP || node->kind == NEST_IF || node->kind == NEST_BARRIER ||
        node->kind == NEST_WAIT || node->kind == NEST_PASS)
        return;
    c->is[node->buffer] = true;
    if (node->kind == NEST_FOLD && nest_is_position(node->fold))
        c->is[node->winner] = true;
}

/* The registers with a value now that the nodes below change. */
static Carry carried_by(Emit *e, const NestNode *node)
{
    Carry out = {0};
    Arena *arena = e->g->arena;
    Changed c = {e, arena_alloc_must(arena, e->n->buffers.n + 1, sizeof(bool))};
    nest_each((NestNode *)(uintptr_t)node, find_changed, &c);
    for (size_t i = 0; i < e->n->buffers.n; i++) {
        const NestBuffer *b = &e->n->buffers.at[i];
        for (int64_t k = 0; c.is[i] && b->place == NEST_REGISTER && k < b->size / e->granule[i];
             k++)
            if (e->slots[i][k])
                vec_push(&out, arena, ((Carried){&e->slots[i][k], NULL}));
    }
    return out;
}

/* What is computed between two looks at the interrupt flag: a hundred microseconds where nothing is far away. Code of its own looks only
 * where that is ten times as long: it would not be the same for many places. */
#define POLL_WORK ((int64_t)1 << 18)
#define POLL_WORK_APART ((int64_t)1 << 22)

/* A function of one number costs as much as some sums; no statement counts for more than this. A turn that writes so many bytes away from
 * the turn before may be the first in its page, of two megabytes of zeros, which takes milliseconds where the system is slow to give it. */
enum { WORK_UNARY = 16, WORK_MOST = 1 << 10, WORK_PAGE = POLL_WORK / 16, PAGE_APART = 1 << 20 };

static int64_t work_of_value(const Te *e, int64_t most)
{
    if (!e || most <= 0)
        return 0;
    int64_t work = e->kind == TE_NODE_UNARY ? WORK_UNARY : 1;
    if (e->kind == TE_NODE_LOAD) {
        NestLinear l;
        if (e->n == 1 && !e->otherwise && nest_linear(e->index[0], &l))
            return work;
        for (int i = 0; i < e->n; i++)
            work += work_of_value(e->index[i], most - work);
        return work + work_of_value(e->otherwise, most - work);
    }
    if (e->kind < TE_NODE_UNARY)
        return work;
    work += work_of_value(e->a, most - work);
    work += work_of_value(e->b, most - work);
    return work + work_of_value(e->c, most - work);
}

static bool writes_far(const Nest *n, const NestBlock *block, int var)
{
    bool far = false;
    for (size_t i = 0; i < block->n && !far; i++) {
        const NestNode *s = block->at[i];
        NestLinear at;
        if (s->kind == NEST_STORE && nest_linear(s->at, &at)) {
            size_t size = dtype_size(n->buffers.at[s->buffer].dtype);
            far = size > 0 && llabs(nest_coefficient(&at, var)) >= PAGE_APART / (int64_t)size;
        } else {
            far = s->body.n && writes_far(n, &s->body, var);
        }
    }
    return far;
}

static int64_t work_of(const Nest *n, const NestBlock *block)
{
    int64_t work = 1;
    for (size_t i = 0; i < block->n && work < POLL_WORK; i++) {
        const NestNode *s = block->at[i];
        int64_t inside = s->body.n ? work_of(n, &s->body) : work_of_value(s->value, WORK_MOST) + 1;
        int64_t turns = s->kind == NEST_LOOP && s->way != NEST_VECTOR ? s->extent : 1;
        if (turns > 1 && inside < WORK_PAGE && writes_far(n, &s->body, s->var))
            inside = WORK_PAGE;
        work += turns > POLL_WORK / inside ? POLL_WORK : turns * inside;
    }
    return work;
}

void emit_stop(Emit *e, LLVMBasicBlockRef go)
{
    Gen *g = e->g;
    LLVMBasicBlockRef stop = gen_block(g, e->fn, "stop");
    gen_branch(g, gen_interrupted(g, e->state), stop, go, false);
    LLVMPositionBuilderAtEnd(g->b, stop);
    e->fails = e->polls = true;
    if (!e->in_part)
        gen_call_abi(g, "relay_stopped", &e->state, 1);
    LLVMBuildRetVoid(g->b);
    LLVMPositionBuilderAtEnd(g->b, go);
}

static bool is_long(const NestNode *loop, int64_t extent, int64_t inside)
{
    int64_t most = POLL_WORK;
    for (const NestNode *in = loop; in; in = in->parent)
        most = in->apart ? POLL_WORK_APART : most;
    return extent >= most / inside;
}

/* Whether each turn of the loop looks somewhere inside. */
static bool looks_inside(const Nest *n, const NestNode *loop)
{
    for (size_t i = 0; i < loop->body.n; i++) {
        const NestNode *node = loop->body.at[i];
        if (node->kind == NEST_LOOP && node->way == NEST_SERIAL && !node->apart &&
            (looks_inside(n, node) || is_long(node, node->extent, work_of(n, &node->body))))
            return true;
    }
    return false;
}

int64_t emit_turns_unseen(Emit *e, const NestNode *loop, int64_t extent)
{
    int64_t inside = work_of(e->n, &loop->body), turns = 1;
    if (e->fault || looks_inside(e->n, loop) || !is_long(loop, extent, inside))
        return 0;
    while (turns * inside < POLL_WORK)
        turns *= 2;
    return turns;
}

static void poll(Emit *e, const NestNode *loop, int64_t extent, Ssa i)
{
    Gen *g = e->g;
    int64_t turns = emit_turns_unseen(e, loop, extent);
    if (turns == 0)
        return;
    LLVMBasicBlockRef look = gen_block(g, e->fn, "look"), go = gen_block(g, e->fn, "go");
    Ssa rest = LLVMBuildAnd(g->b, i, gen_int(g->i64, turns - 1), "");
    gen_branch(g, LLVMBuildICmp(g->b, LLVMIntEQ, rest, gen_int(g->i64, 0), ""), look, go, false);
    LLVMPositionBuilderAtEnd(g->b, look);
    emit_stop(e, go);
}

/* The innermost of the loops that threads share, or the first of several. */
static const NestNode *innermost_of(const NestNode *loop)
{
    while (nest_shares(loop) && loop->body.at[0]->kind == NEST_LOOP)
        loop = loop->body.at[0];
    return loop;
}

static void make_turn(Emit *e, const NestNode *loop, Ssa i);

/* Turn i of what threads share of the loop's body. */
static void make_share(Emit *e, const NestBlock *body, Ssa i)
{
    Gen *g = e->g;
    LLVMBasicBlockRef done = gen_block(g, e->fn, "done");
    int64_t first = 0;
    int branch = e->branch;
    e->branch = body->n > 1 ? e->depth : branch;
    for (size_t k = 0; k < body->n; k++) {
        const NestNode *node = body->at[k];
        LLVMBasicBlockRef next = done;
        Ssa here = LLVMBuildSub(g->b, i, gen_int(g->i64, first), "");
        first += nest_turns(node);
        if (k + 1 < body->n) {
            LLVMBasicBlockRef this = gen_block(g, e->fn, "share");
            next = gen_block(g, e->fn, "others");
            LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, i, gen_int(g->i64, first), ""),
                            this, next);
            LLVMPositionBuilderAtEnd(g->b, this);
        }
        if (node->way == NEST_PARALLEL)
            make_turn(e, node, here);
        else
            make_node(e, node);
        LLVMBuildBr(g->b, done);
        LLVMPositionBuilderAtEnd(g->b, next);
        forget(&e->level[e->depth]);
    }
    e->branch = branch;
}

/* Turn i of the loop, and of what threads share in it. */
static void make_turn(Emit *e, const NestNode *loop, Ssa i)
{
    LLVMBuilderRef b = e->g->b;
    if (!nest_shares(loop)) {
        enter(e, loop, i, 0);
        make_block(e, &loop->body);
    } else {
        Ssa inside = gen_int(e->g->i64, nest_turns(loop) / loop->extent);
        enter(e, loop, LLVMBuildUDiv(b, i, inside, ""), 0);
        make_share(e, &loop->body, LLVMBuildURem(b, i, inside, ""));
    }
    leave(e);
}

/* A loop that counts, between its beginning and its end. */
typedef struct Counted {
    Carry carry;
    LLVMBasicBlockRef head;
    Ssa i;
} Counted;

static Counted begin_counted(Emit *e, const NestNode *loop, Ssa from)
{
    Gen *g = e->g;
    Counted c = {.carry = carried_by(e, loop)};
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    c.head = gen_block(g, e->fn, "loop");
    LLVMBuildBr(g->b, c.head);
    LLVMPositionBuilderAtEnd(g->b, c.head);
    c.i = phi_of(e, from, before);
    for (size_t k = 0; k < c.carry.n; k++)
        c.carry.at[k].phi = *c.carry.at[k].slot = phi_of(e, *c.carry.at[k].slot, before);
    return c;
}

static void end_counted(Emit *e, const Counted *c, Ssa to)
{
    Gen *g = e->g;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->b), after = gen_block(g, e->fn, "after");
    Ssa next = LLVMBuildAdd(g->b, c->i, gen_int(g->i64, 1), "");
    LLVMAddIncoming(c->i, &next, &here, 1);
    for (size_t k = 0; k < c->carry.n; k++)
        LLVMAddIncoming(c->carry.at[k].phi, c->carry.at[k].slot, &here, 1);
    LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, next, to, ""), c->head, after);
    LLVMPositionBuilderAtEnd(g->b, after);
}

/* A loop from `from` to `to` around the node's body. */
static void make_counted(Emit *e, const NestNode *loop, Ssa from, Ssa to)
{
    hoist(e, loop);
    Counted c = begin_counted(e, loop, from);
    /* In front of the body: LLVM moves what stands before a branch and is needed behind it past the branch, but not its loads, which
     * then do not stay in registers. */
    poll(e, innermost_of(loop), loop->way == NEST_PARALLEL ? nest_turns(loop) : loop->extent, c.i);
    make_turn(e, loop, c.i);
    end_counted(e, &c, to);
}

/* All iterations of the loop, from turn `from` to `to` of what threads share in it. */
static void make_across(Emit *e, const NestNode *loop, Ssa from, Ssa to)
{
    hoist(e, loop);
    Counted all = begin_counted(e, loop, gen_int(e->g->i64, 0));
    enter(e, loop, all.i, 0);
    Counted c = begin_counted(e, loop, from);
    poll(e, innermost_of(loop), nest_turns(loop), c.i);
    make_share(e, &loop->body, c.i);
    end_counted(e, &c, to);
    leave(e);
    end_counted(e, &all, gen_int(e->g->i64, loop->extent));
}

void emit_straight(Emit *e, const NestNode *loop)
{
    int64_t turns = loop->way == NEST_UNROLLED ? loop->extent : 1;
    for (int64_t t = 0; t < turns; t++) {
        enter(e, loop, NULL, t);
        make_block(e, &loop->body);
        leave(e);
    }
    if (loop->way == NEST_UNROLLED)
        emit_end_columns(e);
}

/* The body where the condition holds; `value` is that of a bound variable. */
static void make_if(Emit *e, const NestNode *node, Ssa condition, bool likely, Ssa value)
{
    Gen *g = e->g;
    Carry carry = carried_by(e, node);
    for (size_t k = 0; k < carry.n; k++)
        carry.at[k].phi = *carry.at[k].slot;
    LLVMBasicBlockRef body = gen_block(g, e->fn, "then"), go = gen_block(g, e->fn, "go");
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    gen_branch(g, condition, body, go, likely);
    LLVMPositionBuilderAtEnd(g->b, body);
    enter(e, node, value, 0);
    make_block(e, &node->body);
    leave(e);
    LLVMBasicBlockRef end = LLVMGetInsertBlock(g->b);
    LLVMBuildBr(g->b, go);
    LLVMPositionBuilderAtEnd(g->b, go);
    for (size_t k = 0; k < carry.n; k++) {
        Ssa phi = phi_of(e, carry.at[k].phi, before);
        LLVMAddIncoming(phi, carry.at[k].slot, &end, 1);
        *carry.at[k].slot = phi;
    }
}

static void make_condition(Emit *e, const NestNode *node)
{
    ptrmap_clear(&e->now);
    make_if(e, node, emit_value(e, node->value), false, NULL);
}

/* ---- threads of a GPU -------------------------------------------------------------------------------------------------------------- */

/* The number of a block or thread along the loop: the innermost loop counts x. */
static void make_number(Emit *e, const NestNode *loop)
{
    static const char *const names[2][3] = {
        {"llvm.nvvm.read.ptx.sreg.tid.x", "llvm.nvvm.read.ptx.sreg.tid.y",
         "llvm.nvvm.read.ptx.sreg.tid.z"},
        {"llvm.nvvm.read.ptx.sreg.ctaid.x", "llvm.nvvm.read.ptx.sreg.ctaid.y",
         "llvm.nvvm.read.ptx.sreg.ctaid.z"}};
    Gen *g = e->g;
    int axis = 0;
    for (const NestNode *l = nest_only_loop(loop); l && l->way == loop->way; l = nest_only_loop(l))
        axis++;
    Ssa v = loop->extent > 1 ? gen_intrinsic(g, names[loop->way == NEST_GRID][axis], NULL, NULL, 0)
                             : gen_int(g->i32, 0);
    enter(e, loop, LLVMBuildZExt(g->b, v, g->i64, ""), 0);
    make_block(e, &loop->body);
    leave(e);
}

static void make_bound(Emit *e, const NestNode *loop)
{
    Gen *g = e->g;
    ptrmap_clear(&e->now);
    Ssa v = emit_index(e, loop->value);
    if (nest_may_leave(loop)) {
        Ssa most = gen_int(g->i64, loop->extent);
        make_if(e, loop, LLVMBuildICmp(g->b, LLVMIntULT, v, most, ""), true, v);
        return;
    }
    enter(e, loop, v, 0);
    make_block(e, &loop->body);
    leave(e);
}

/* A word of 32 bits from the thread of the warp whose number differs in these bits. */
static Ssa shuffled_word(Gen *g, Ssa word, int lanes)
{
    Ssa args[4] = {gen_int(g->i32, -1), word, gen_int(g->i32, lanes),
                   gen_int(g->i32, NEST_WARP - 1)};
    return gen_intrinsic(g, "llvm.nvvm.shfl.sync.bfly.i32", NULL, args, 4);
}

static void make_shuffle(Emit *e, const NestNode *s)
{
    Gen *g = e->g;
    ptrmap_clear(&e->now);
    Ssa v = emit_value(e, s->value);
    LLVMTypeRef type = LLVMTypeOf(v);
    unsigned bits = dtype_is_bool(s->value->dtype) ? 1 : (unsigned)s->value->dtype.bits;
    bits = type == g->f32 ? 32 : bits;
    v = LLVMBuildBitCast(g->b, v, LLVMIntTypeInContext(g->c, bits), "");
    if (bits == 64) {
        Ssa low = LLVMBuildTrunc(g->b, v, g->i32, "");
        Ssa high =
            LLVMBuildTrunc(g->b, LLVMBuildLShr(g->b, v, gen_int(g->i64, 32), ""), g->i32, "");
        low = LLVMBuildZExt(g->b, shuffled_word(g, low, s->lanes), g->i64, "");
        high = LLVMBuildZExt(g->b, shuffled_word(g, high, s->lanes), g->i64, "");
        v = LLVMBuildOr(g->b, low, LLVMBuildShl(g->b, high, gen_int(g->i64, 32), ""), "");
    } else {
        v = bits < 32 ? LLVMBuildZExt(g->b, v, g->i32, "") : v;
        v = shuffled_word(g, v, s->lanes);
        v = bits < 32 ? LLVMBuildTrunc(g->b, v, LLVMIntTypeInContext(g->c, bits), "") : v;
    }
    set_place(e, s, LLVMBuildBitCast(g->b, v, type, ""));
}

/* A place some words behind. */
static Te *word_place(Emit *e, const Te *at, int more)
{
    NestLinear l = *emit_linear(e, at);
    l.c += more;
    return nest_position(e->n, &l);
}

/* A call of an intrinsic, of those for the address when there is one. */
static Ssa call_pointed(Gen *g, const char *name, LLVMTypeRef address, Ssa *args, unsigned n)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    Ssa fn = LLVMGetIntrinsicDeclaration(g->m, id, &address, address ? 1 : 0);
    return LLVMBuildCall2(g->b, LLVMGlobalGetValueType(fn), fn, args, n, "");
}

static void set_words(Emit *e, const NestNode *s, Ssa words, int n)
{
    for (int i = 0; i < n; i++) {
        Ssa v = n == 1 ? words : LLVMBuildExtractValue(e->g->b, words, (unsigned)i, "");
        set_register(e, s->buffer, word_place(e, s->at, i), v);
    }
}

static void make_fetch(Emit *e, const NestNode *s)
{
    char name[64];
    Ssa at = emit_place(e, s->value->tensor, s->value->index[0]);
    snprintf(name, sizeof name, "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x%d%s.b16", s->lanes,
             s->turned ? ".trans" : "");
    set_words(e, s, call_pointed(e->g, name, LLVMTypeOf(at), &at, 1), s->lanes);
}

/* The factors' names in an instruction's, and how many of them it adds. */
static void tile_name(const DType factors[2], char *out, size_t room)
{
    static const char *const bytes[2][2] = {{"s8", "s8.u8"}, {"u8.s8", "u8"}};
    DType a = factors[0], b = factors[1];
    const char *name = a.bits == 32                  ? "tf32"
                       : a.code == DTYPE_CODE_BFLOAT ? "bf16"
                       : a.bits == 16                ? "f32.f32"
                                      : bytes[!dtype_is_signed(a)][!dtype_is_signed(b)];
    snprintf(out, room, "llvm.nvvm.mma.m16n8k%d.row.col.%s", 8 * nest_in_word(a), name);
}

static void make_tile(Emit *e, const NestNode *s)
{
    Gen *g = e->g;
    char name[64];
    Ssa args[NEST_TILE_FIRST + NEST_TILE_SECOND + NEST_TILE_SUMS];
    unsigned n = 0;
    bool halves = s->factors[0].code == DTYPE_CODE_FLOAT && s->factors[0].bits == 16;
    LLVMTypeRef word = halves ? LLVMVectorType(LLVMHalfTypeInContext(g->c), 2) : g->i32;
    for (int i = 0; i < NEST_TILE_FIRST + NEST_TILE_SECOND; i++) {
        const Te *x = i < NEST_TILE_FIRST ? s->value : s->number;
        int at = i < NEST_TILE_FIRST ? i : i - NEST_TILE_FIRST;
        Ssa v = emit_register(e, x->tensor, word_place(e, x->index[0], at));
        args[n++] = LLVMBuildBitCast(g->b, v, word, "");
    }
    for (int i = 0; i < NEST_TILE_SUMS; i++)
        args[n++] = emit_register(e, s->buffer, word_place(e, s->at, i));
    tile_name(s->factors, name, sizeof name);
    set_words(e, s, call_pointed(g, name, NULL, args, n), NEST_TILE_SUMS);
}

static void make_pair(Emit *e, const NestNode *s)
{
    Gen *g = e->g;
    const Te *halves[2] = {s->value, s->number};
    Ssa words[2];
    ptrmap_clear(&e->now);
    for (int i = 0; i < 2; i++) {
        Ssa v = gen_to_stored(g, s->value->dtype, emit_value(e, halves[i]));
        words[i] = LLVMBuildZExt(g->b, v, g->i32, "");
    }
    Ssa high = LLVMBuildShl(g->b, words[1], gen_int(g->i32, 16), "");
    set_place(e, s, LLVMBuildOr(g->b, words[0], high, ""));
}

/* Text for the assembler, which touches memory. */
static Ssa call_text(Gen *g, LLVMTypeRef result, Ssa *args, unsigned n, const char *text,
                     const char *operands)
{
    LLVMTypeRef types[3 + NEST_GROUP_COLUMNS_MOST / 2];
    for (unsigned i = 0; i < n; i++)
        types[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef type = LLVMFunctionType(result, types, n, false);
    Ssa fn = LLVMGetInlineAsm(type, text, strlen(text), operands, strlen(operands), true, false,
                              LLVMInlineAsmDialectATT, false);
    return LLVMBuildCall2(g->b, type, fn, args, n, "");
}

/* What tensor cores are told of a factor: where it begins, and how far its matrices are apart along the folds and beside them, in units of
 * 16 bytes; of boxes, whose rows have 128 bytes with their parts exchanged, that, and how far eight of them are from the next ones. */
static Ssa group_factor(Emit *e, const NestNode *s, int which)
{
    Gen *g = e->g;
    const Te *x = which ? s->number : s->value;
    int64_t apart = s->boxed ? 1 : s->pitch[which] * 2 / NEST_ROW_BYTES;
    int64_t beside = s->boxed ? 8 * NEST_BOX_ROW / NEST_ROW_BYTES : 8;
    int64_t form = apart << 16 | beside << 32 | (int64_t)s->boxed << 62;
    Ssa at = LLVMBuildPtrToInt(g->b, emit_place(e, x->tensor, x->index[0]), g->i64, "");
    at = LLVMBuildAnd(g->b, LLVMBuildLShr(g->b, at, gen_int(g->i64, 4), ""),
                      gen_int(g->i64, 0x3fff), "");
    return LLVMBuildOr(g->b, at, gen_int(g->i64, form), "");
}

/* The name of a group's product of so many bytes of folds, and what stands behind its factors. */
static void group_name(const NestNode *s, Buf *out, const char **behind)
{
    static const char *const bytes[2] = {"s8", "u8"};
    const DType *f = s->factors;
    bool whole = f[0].bits == 8;
    const char *type = f[0].bits == 32 ? "tf32" : f[0].code == DTYPE_CODE_BFLOAT ? "bf16" : "f16";
    buf_printf(out, "wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s", s->lanes,
               NEST_GROUP_BYTES / (int)dtype_size(f[0]), whole ? "s32" : "f32",
               whole ? bytes[!dtype_is_signed(f[0])] : type,
               whole ? bytes[!dtype_is_signed(f[1])] : type);
    *behind = whole ? "" : f[0].bits == 32 ? ", 1, 1" : ", 1, 1, 0, 0";
}

/* From one product to the next, in units of 16 bytes. */
static int64_t group_step(const NestNode *s, int which)
{
    return s->boxed ? NEST_GROUP_BYTES / NEST_ROW_BYTES : 2 * s->pitch[which] * 2 / NEST_ROW_BYTES;
}

/* The sums are in the tensor cores' hands from the fence to the wait, so that all is one text. */
static void make_group(Emit *e, const NestNode *s)
{
    Gen *g = e->g;
    Buf text = {0}, operands = {0}, name = {0};
    const char *behind;
    int n = s->lanes / 2;
    bool whole = s->factors[0].bits == 8;
    int64_t folds = NEST_GROUP_BYTES / (int64_t)dtype_size(s->factors[0]);
    group_name(s, &name, &behind);
    Ssa args[2 + NEST_GROUP_COLUMNS_MOST / 2];
    LLVMTypeRef sums[NEST_GROUP_COLUMNS_MOST / 2];
    for (int i = 0; i < 2; i++)
        args[i] = group_factor(e, s, i);
    for (int i = 0; i < n; i++) {
        args[2 + i] = emit_register(e, s->buffer, word_place(e, s->at, i));
        sums[i] = whole ? g->i32 : g->f32;
        buf_str(&operands, whole ? "=r," : "=f,");
    }
    buf_str(&operands, "l,l");
    for (int i = 0; i < n; i++)
        buf_printf(&operands, ",%d", i);
    buf_str(&operands, ",~{memory}");
    buf_str(&text, "{\n.reg .pred p;\n.reg .b64 a, b;\nsetp.ne.b32 p, 1, 0;\n");
    buf_str(&text, "wgmma.fence.sync.aligned;\n");
    for (int64_t k = 0; k < s->folds / folds; k++) {
        for (int i = 0; i < 2; i++)
            buf_printf(&text, "add.s64 %c, $%d, %lld;\n", i ? 'b' : 'a', n + i,
                       (long long)(k * group_step(s, i)));
        buf_printf(&text, "%s {", buf_text(&name));
        for (int i = 0; i < n; i++)
            buf_printf(&text, "%s$%d", i ? ", " : "", i);
        buf_printf(&text, "}, a, b, p%s;\n", behind);
    }
    buf_str(&text, "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n}");
    LLVMTypeRef result = LLVMStructTypeInContext(g->c, sums, (unsigned)n, false);
    Ssa words = call_text(g, result, args, (unsigned)n + 2, buf_text(&text), buf_text(&operands));
    set_words(e, s, words, n);
    buf_deinit(&text);
    buf_deinit(&operands);
    buf_deinit(&name);
}

/* ---- boxes that come by themselves ----------------------------------------------------------------------------------------------- */

/* An address of shared memory as a number of 32 bits. */
static Ssa shared_address(Emit *e, int buffer, const Te *at)
{
    return LLVMBuildPtrToInt(e->g->b, emit_place(e, buffer, at), e->g->i32, "");
}

/* The unit for copies sees the gate behind the fence, other threads behind a barrier. */
static void make_open(Emit *e, const NestNode *s)
{
    Ssa args[2] = {shared_address(e, s->buffer, s->at), gen_int(e->g->i32, s->lanes)};
    ptrmap_clear(&e->now);
    call_text(e->g, e->g->nothing, args, 2,
              "mbarrier.init.shared::cta.b64 [$0], $1;\nfence.proxy.async.shared::cta;",
              "r,r,~{memory}");
}

/* The box counts at the gate, with the bytes that will come. The map is a parameter of the kernel, which is known by its name. */
static void make_bulk(Emit *e, const NestNode *s)
{
    Gen *g = e->g;
    const NestBox *box = s->box;
    Buf text = {0};
    Ssa args[2 + NEST_BOX_AXES];
    size_t name, bytes = (size_t)nest_box_size(box) * dtype_size(e->n->buffers.at[s->buffer].dtype);
    unsigned map = (unsigned)(uintptr_t)ptrmap_find(&e->boxes, box) - 1;
    ptrmap_clear(&e->now);
    args[0] = shared_address(e, s->buffer, s->at);
    args[1] = shared_address(e, s->gate, s->number);
    buf_printf(&text, "{\n.reg .b64 map;\nmov.b64 map, %s_param_%u;\n",
               LLVMGetValueName2(e->fn, &name), map);
    buf_str(&text, "cvta.param.u64 map, map;\n");
    buf_printf(&text, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$1], %zu;\n", bytes);
    buf_printf(&text,
               "cp.async.bulk.tensor.%dd.shared::cluster.global.tile.mbarrier"
               "::complete_tx::bytes [$0], [map, {",
               box->n);
    for (int i = 0; i < box->n; i++) {
        args[2 + i] = LLVMBuildTrunc(g->b, emit_index(e, box->axis[i].first), g->i32, "");
        buf_printf(&text, "%s$%d", i ? ", " : "", 2 + i);
    }
    buf_str(&text, "}], [$1];\n}");
    static const char operands[] = "r,r,r,r,r,r,r,~{memory}";
    call_text(g, g->nothing, args, 2 + (unsigned)box->n, buf_text(&text),
              operands + 2 * (NEST_BOX_AXES - box->n));
    buf_deinit(&text);
}

/* Until the turn has ended: gates tell turns apart by whether they are even. */
static void make_pass(Emit *e, const NestNode *s)
{
    Gen *g = e->g;
    ptrmap_clear(&e->now);
    Ssa args[2] = {shared_address(e, s->buffer, s->at),
                   LLVMBuildTrunc(g->b, emit_index(e, s->value), g->i32, "")};
    args[1] = LLVMBuildAnd(g->b, args[1], gen_int(g->i32, 1), "");
    call_text(g, g->nothing, args, 2,
              "{\n.reg .pred there;\nwait_${:uid}:\n"
              "mbarrier.try_wait.parity.shared::cta.b64 there, [$0], $1;\n"
              "@!there bra wait_${:uid};\n}",
              "r,r,~{memory}");
}

static void make_wait(Emit *e, const NestNode *s)
{
    Ssa groups = gen_int(e->g->i32, s->lanes);
    call_pointed(e->g, "llvm.nvvm.cp.async.commit.group", NULL, NULL, 0);
    call_pointed(e->g, "llvm.nvvm.cp.async.wait.group", NULL, &groups, 1);
    if (s->shown)
        call_text(e->g, e->g->nothing, NULL, 0, "fence.proxy.async.shared::cta;", "~{memory}");
}

/* All lanes of the vector loop at once. */
static void make_copy(Emit *e, const NestNode *s)
{
    Ssa args[2] = {emit_place(e, s->buffer, s->at),
                   emit_place(e, s->value->tensor, s->value->index[0])};
    call_pointed(e->g, "llvm.nvvm.cp.async.cg.shared.global.16", NULL, args, 2);
}

static void make_parallel(Emit *e, const NestNode *loop);

static void make_node(Emit *e, const NestNode *node)
{
    Gen *g = e->g;
    if (e->depth >= EMIT_DEPTH_MOST - 1) {
        gen_refuse(g, "a loop nest is too deep");
        return;
    }
    if (node->kind == NEST_IF)
        make_condition(e, node);
    else if (node->kind == NEST_PRODUCT)
        make_product(e, node);
    else if (node->kind == NEST_MATRIX)
        emit_matrix(e, node);
    else if (node->kind == NEST_BARRIER)
        gen_intrinsic(g, "llvm.nvvm.barrier0", NULL, NULL, 0);
    else if (node->kind == NEST_SHUFFLE)
        make_shuffle(e, node);
    else if (node->kind == NEST_FETCH)
        make_fetch(e, node);
    else if (node->kind == NEST_TILE)
        make_tile(e, node);
    else if (node->kind == NEST_GROUP)
        make_group(e, node);
    else if (node->kind == NEST_PAIR)
        make_pair(e, node);
    else if (node->kind == NEST_WAIT)
        make_wait(e, node);
    else if (node->kind == NEST_NEAR)
        prefetch(g, emit_place(e, node->buffer, node->at)); /* of the first lane */
    else if (node->kind == NEST_OPEN)
        make_open(e, node);
    else if (node->kind == NEST_BULK)
        make_bulk(e, node);
    else if (node->kind == NEST_PASS)
        make_pass(e, node);
    else if (node->copies)
        make_copy(e, node);
    else if (node->kind != NEST_LOOP)
        make_statement(e, node);
    else if (node->apart)
        emit_apart(e, node);
    else if (emit_is_straight(node))
        emit_straight(e, node);
    else if (node->way == NEST_PARALLEL)
        make_parallel(e, node);
    else if (node->way == NEST_GRID || node->way == NEST_THREADS)
        make_number(e, node);
    else if (node->way == NEST_BOUND)
        make_bound(e, node);
    else
        make_counted(e, node, gen_int(g->i64, 0), emit_turns(e, node));
}

static void make_block(Emit *e, const NestBlock *block)
{
    for (size_t i = 0; i < block->n && !e->g->failed; i++)
        make_node(e, block->at[i]);
}

/* ---- parts for threads --------------------------------------------------------------------------------------------------------- */

static void make_rooms(Emit *e, NestNode *node);

void emit_attributes(Gen *g, Ssa fn)
{
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    gen_attribute(g, fn, "nounwind");
    LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(g->c, "prefer-vector-width", 19, "512", 3));
}

void emit_settle(Emit *e)
{
    if (e->computes)
        return;
    gen_attribute(e->g, e->fn, "optnone");
    gen_attribute(e->g, e->fn, "noinline");
}

/* Room in the function's frame. */
static Ssa emit_room(Gen *g, Ssa fn, LLVMTypeRef type)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->b), entry = LLVMGetEntryBasicBlock(fn);
    Ssa first = LLVMGetFirstInstruction(entry);
    if (first)
        LLVMPositionBuilderBefore(g->b, first);
    else
        LLVMPositionBuilderAtEnd(g->b, entry);
    Ssa at = LLVMBuildAlloca(g->b, type, "");
    LLVMSetAlignment(at, 64);
    LLVMPositionBuilderAtEnd(g->b, here);
    return at;
}

/* The first base. */
#define WORD_BASES 2

/* What a part needs, as 64-bit words (PartWords): the state, itself, and the bases of the buffers. */
static Ssa words_of(Emit *e, Ssa part)
{
    Gen *g = e->g;
    unsigned n = (unsigned)e->n->buffers.n;
    Ssa words = emit_room(g, e->fn, LLVMArrayType2(g->i64, n + WORD_BASES));
    gen_store(g, e->state, words, 0);
    gen_store(g, part, words, 8);
    for (unsigned i = 0; i < n; i++)
        if (e->base[i] && !LLVMIsConstant(e->base[i]))
            gen_store(g, e->base[i], words, 8 * (size_t)(i + WORD_BASES));
    return words;
}

/* void part(words, from, to): the iterations [from, to) of the loop. */
static Ssa make_part(Emit *e, NestNode *loop)
{
    Gen *g = e->g;
    LLVMTypeRef params[3] = {g->ptr, g->i64, g->i64};
    LLVMTypeRef type = LLVMFunctionType(g->nothing, params, 3, false);
    Ssa fn = LLVMAddFunction(g->m, orc_name(g->jit, g->arena, "part"), type);
    emit_attributes(g, fn);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    Ssa *base = arena_alloc_must(g->arena, e->n->buffers.n + 1, sizeof *base), *outer = e->base;
    Ssa outer_fn = e->fn, outer_state = e->state;
    LLVMPositionBuilderAtEnd(g->b, gen_block(g, fn, ""));
    Ssa words = LLVMGetParam(fn, 0);
    for (size_t i = 0; i < e->n->buffers.n; i++)
        if (outer[i])
            base[i] = LLVMIsConstant(outer[i])
                          ? outer[i]
                          : gen_load(g, LLVMTypeOf(outer[i]), words, 8 * (i + WORD_BASES));
    e->fn = fn;
    e->base = base;
    e->state = gen_load(g, g->ptr, words, 0);
    bool computes = e->computes;
    e->in_part = true;
    e->computes = false;
    make_rooms(e, loop);
    (loop->across ? make_across : make_counted)(e, loop, LLVMGetParam(fn, 1), LLVMGetParam(fn, 2));
    LLVMBuildRetVoid(g->b);
    emit_settle(e);
    e->in_part = false;
    e->computes = computes;
    e->fn = outer_fn;
    e->state = outer_state;
    e->base = outer;
    LLVMPositionBuilderAtEnd(g->b, before);
    return fn;
}

static void make_parallel(Emit *e, const NestNode *loop)
{
    Gen *g = e->g;
    Ssa part = make_part(e, (NestNode *)(uintptr_t)loop), words = words_of(e, part);
    Ssa args[3] = {e->state, gen_int(g->i64, nest_turns(loop)), words};
    gen_call_abi(g, "relay_parts", args, 3);
    /* A part that was to stop has only returned. */
    emit_stop(e, gen_block(g, e->fn, "go"));
}

/* ---- the nest ------------------------------------------------------------------------------------------------------------------- */

static void note_depths(Emit *e, const NestNode *node, int depth)
{
    if (node->kind == NEST_LOOP)
        e->depth_of[node->var] = depth + 1;
    for (size_t i = 0; i < node->body.n; i++)
        note_depths(e, node->body.at[i], depth + 1);
}

/* A register's slot is as wide as the vectors that are put there. */
static void note_granule(void *data, const NestAccess *a)
{
    Emit *e = data;
    if (a->writes)
        e->written[a->buffer] = true;
    if (e->n->buffers.at[a->buffer].place != NEST_REGISTER)
        return;
    for (int k = 0; k < a->at.n; k++) {
        const NestNode *loop = nest_loop_of(a->node, a->at.term[k].var);
        if (loop->way == NEST_VECTOR)
            e->granule[a->buffer] = loop->lanes;
    }
}

/* Memory for the local buffers that live below the node, and slots for the registers. */
static void make_rooms(Emit *e, NestNode *node)
{
    Gen *g = e->g;
    for (size_t i = 0; i < e->n->buffers.n; i++) {
        const NestBuffer *b = &e->n->buffers.at[i];
        if (b->place == NEST_REGISTER && !e->slots[i])
            e->slots[i] = arena_alloc_must(g->arena, (size_t)b->size + 1, sizeof(Ssa));
        if (b->place != NEST_LOCAL || (b->home ? !nest_holds(node, b->home) : e->base[i] != NULL))
            continue;
        size_t bytes = (size_t)b->size * dtype_size(b->dtype);
        e->base[i] = emit_room(g, e->fn, LLVMArrayType2(g->i8, bytes + 64));
    }
}

bool emit_root(Emit *e, NestNode *node)
{
    memset(e->written, 0, e->n->buffers.n * sizeof *e->written);
    ptrmap_clear(&e->impure);
    /* What one part of the nest writes the next one reads as given. */
    ptrmap_clear(&e->level[0].values);
    ptrmap_clear(&e->level[0].splats);
    note_depths(e, node, 1);
    nest_each_access(e->n, node, note_granule, e);
    if (node->kind != NEST_LOOP || node->way != NEST_PARALLEL)
        make_rooms(e, node);
    else
        make_rooms(e, NULL);
    make_node(e, node);
    return !e->g->failed;
}

void emit_begin(Emit *e, Gen *g, Nest *n, Span span)
{
    Arena *a = g->arena;
    *e = (Emit){.g = g, .n = n, .span = span};
    e->slots = arena_alloc_must(a, n->buffers.n + 1, sizeof *e->slots);
    e->granule = arena_alloc_must(a, n->buffers.n + 1, sizeof *e->granule);
    e->written = arena_alloc_must(a, n->buffers.n + 1, sizeof *e->written);
    e->depth_of = arena_alloc_must(a, n->vars.n + 1, sizeof *e->depth_of);
    e->base = arena_alloc_must(a, n->buffers.n + 1, sizeof *e->base);
    for (size_t i = 0; i < n->buffers.n; i++)
        e->granule[i] = 1;
}

void emit_end(Emit *e)
{
    for (int i = 0; i <= EMIT_DEPTH_MOST; i++) {
        ptrmap_deinit(&e->level[i].values);
        ptrmap_deinit(&e->level[i].splats);
        ptrmap_deinit(&e->level[i].places);
    }
    ptrmap_deinit(&e->masks);
    ptrmap_deinit(&e->impure);
    ptrmap_deinit(&e->linear);
    ptrmap_deinit(&e->positions);
    ptrmap_deinit(&e->now);
    ptrmap_deinit(&e->boxes);
    ptrmap_deinit(&e->columns);
}
