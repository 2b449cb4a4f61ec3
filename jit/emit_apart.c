/* Code of its own: a part of a nest as a function, so that its registers are not crowded out by what stands around it.
 *
 * Where all that it touches is memory at linear positions, the function is for any strides: it is given an address for all positions near
 * each other that what stands around makes alike, and as numbers how often its loops turn and their steps. So the register tiles of a
 * network's layers come to be the same code, which is made once. Small steps stay constants, for instructions hold them. */
#include "base/digest.h"
#include "jit/emit.h"
#include "jit/kernel.h"
#include "loop/access.h"
#include "te/walk.h"

#include <string.h>

/* Steps of loops, and distances of positions from the first that was met, in bytes, that are part of the code. */
enum { STEP_SMALL = 256, NEAR = 2048 };
/* So many addresses, each a step from the one before, stay in registers; more are constants away from one. */
enum { TURNS_MOST = 8 };

/* Positions in a buffer near each other that differ in constants and in the loops inside. */
typedef struct Place {
    int buffer;
    NestLinear at; /* around it, with the constant of the first that was met */
    Ssa given;
} Place;

typedef enum NumberKind {
    NUMBER_TURNS, /* of the loop of `var` */
    NUMBER_STEP, /* of that loop in `place` */
    NUMBER_TURN, /* of an unrolled loop in `place`: `most` turns of it, 2 at least */
} NumberKind;

typedef struct Number {
    NumberKind kind;
    size_t place;
    int var;
    int64_t value, most;
    Ssa *given; /* by times, from 0 on: the first is none */
} Number;

struct EmitApart {
    int depth; /* of what stands around */
    Vec(Place) places;
    Vec(Number) numbers;
};

/* ---- what it is given ------------------------------------------------------------------------------------------------- */

bool emit_is_around(const Emit *e, int depth)
{
    return e->apart && depth <= e->apart->depth;
}

static bool is_var_around(const Emit *e, const EmitApart *a, int var)
{
    return e->depth_of[var] - 1 <= a->depth;
}

static NestLinear around(const Emit *e, const EmitApart *a, const NestLinear *l)
{
    NestLinear out = {.c = l->c};
    for (int i = 0; i < l->n; i++)
        if (is_var_around(e, a, l->term[i].var))
            out.term[out.n++] = l->term[i];
    return out;
}

static int64_t bytes_of(const Emit *e, int buffer, int64_t elements)
{
    return elements * (int64_t)dtype_size(e->n->buffers.at[buffer].dtype);
}

static bool is_small(int64_t bytes, int64_t most)
{
    return bytes > -most && bytes < most;
}

static bool is_at(const Emit *e, const Place *p, int buffer, const NestLinear *at)
{
    bool same = p->buffer == buffer && p->at.n == at->n &&
                is_small(bytes_of(e, buffer, at->c - p->at.c), NEAR);
    for (int i = 0; i < at->n && same; i++)
        same = nest_coefficient(&p->at, at->term[i].var) == at->term[i].by;
    return same;
}

static size_t find_place(const Emit *e, const EmitApart *a, int buffer, const NestLinear *l)
{
    NestLinear at = around(e, a, l);
    size_t i = 0;
    while (i < a->places.n && !is_at(e, &a->places.at[i], buffer, &at))
        i++;
    return i;
}

static bool is_number(const Number *a, const Number *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case NUMBER_TURNS: return a->var == b->var;
    case NUMBER_STEP: return a->var == b->var && a->place == b->place;
    case NUMBER_TURN: return a->value == b->value && a->place == b->place;
    }
    return false;
}

static size_t find_number(const EmitApart *a, const Number *number)
{
    size_t i = 0;
    while (i < a->numbers.n && !is_number(&a->numbers.at[i], number))
        i++;
    return i;
}

static void add_number(Emit *e, EmitApart *a, Number number)
{
    size_t i = find_number(a, &number);
    if (i == a->numbers.n)
        vec_push(&a->numbers, e->g->arena, number);
    else if (a->numbers.at[i].most < number.most)
        a->numbers.at[i].most = number.most;
}

/* Whether another loop turns in it: then its own steps are added seldom, and as well from a register as from the code. */
static bool turns_inside(const NestNode *loop)
{
    bool turns = false;
    for (size_t i = 0; i < loop->body.n && !turns; i++) {
        const NestNode *node = loop->body.at[i];
        turns = node->kind == NEST_LOOP && (!emit_is_straight(node) || turns_inside(node));
    }
    return turns;
}

/* The number that is the step of a loop inside; false: a constant is, or the loop is one of vectors. */
static bool step_of(const Emit *e, size_t place, int buffer, const NestNode *loop, int64_t by,
                    Number *out)
{
    bool unrolled = loop->way == NEST_UNROLLED;
    *out = (Number){.kind = unrolled ? NUMBER_TURN : NUMBER_STEP,
                    .place = place,
                    .var = loop->var,
                    .value = bytes_of(e, buffer, by),
                    .most = unrolled && loop->extent > 2 ? loop->extent : 2};
    int64_t most = unrolled || !turns_inside(loop) ? STEP_SMALL : 0;
    return loop->way != NEST_VECTOR && !is_small(out->value, most) &&
           !(unrolled && loop->extent > TURNS_MOST);
}

/* Positions are linear, and numbers come in by no other way; a number that is given as one stands for itself. */
static bool is_given(const Emit *e, int buffer)
{
    return e->n->buffers.at[buffer].rank == 0 && buffer < e->n->n_inputs;
}

static bool value_fits(Emit *e, const Te *x)
{
    /* A word is loaded with what lies behind it, as far as its buffer goes. */
    if (x->kind == TE_NODE_LOAD)
        return !x->word && x->n == 1 && !x->otherwise && emit_linear(e, x->index[0]);
    bool fits = x->kind != TE_NODE_AXIS || e->depth_of[x->axis] - 1 > e->depth;
    for (int i = 0; i < te_children(x) && fits; i++)
        fits = value_fits(e, te_child(x, i));
    return fits;
}

static bool node_fits(Emit *e, const NestNode *node)
{
    if (node->kind == NEST_STORE || node->kind == NEST_FOLD)
        return !nest_is_position(node->fold) && !node->copies && emit_linear(e, node->at) &&
               value_fits(e, node->value);
    if (node->kind == NEST_NEAR)
        return emit_linear(e, node->at) != NULL;
    bool fits = node->kind == NEST_LOOP && (emit_is_straight(node) || node->way == NEST_SERIAL);
    for (size_t i = 0; i < node->body.n && fits; i++)
        fits = node_fits(e, node->body.at[i]);
    return fits;
}

static void add_access(Emit *e, EmitApart *a, const NestAccess *access)
{
    if (e->n->buffers.at[access->buffer].place == NEST_REGISTER || is_given(e, access->buffer))
        return;
    size_t place = find_place(e, a, access->buffer, &access->at);
    Number number;
    if (place == a->places.n)
        vec_push(&a->places, e->g->arena,
                 ((Place){access->buffer, around(e, a, &access->at), NULL}));
    for (int i = 0; i < access->at.n; i++) {
        const NestNode *loop = nest_loop_of(access->node, access->at.term[i].var);
        if (!is_var_around(e, a, loop->var) &&
            step_of(e, place, access->buffer, loop, access->at.term[i].by, &number))
            add_number(e, a, number);
    }
}

typedef struct Finding {
    Emit *e;
    EmitApart *a;
} Finding;

static void find_more(void *data, NestNode *node)
{
    const Finding *f = data;
    if (node->kind == NEST_NEAR) /* no access */
        add_access(f->e, f->a,
                   &(NestAccess){node, node->buffer, .at = *emit_linear(f->e, node->at)});
    if (node->kind == NEST_LOOP && !emit_is_straight(node))
        add_number(
            f->e, f->a,
            (Number){.kind = NUMBER_TURNS, .var = node->var, .value = node->extent, .most = 2});
}

/* NULL: the code is for the place where it stands. */
static EmitApart *find_all(Emit *e, const NestNode *node, const NestAccesses *all)
{
    if (e->fault || !node_fits(e, node))
        return NULL;
    EmitApart *a = arena_new(e->g->arena, EmitApart);
    *a = (EmitApart){.depth = e->depth};
    for (size_t i = 0; i < all->n; i++)
        add_access(e, a, &all->at[i]);
    nest_each((NestNode *)(uintptr_t)node, find_more, &(Finding){e, a});
    return a;
}

/* ---- where it is used -------------------------------------------------------------------------------------------------- */

static Ssa number_of(const EmitApart *a, const Number *number, int64_t times)
{
    return a->numbers.at[find_number(a, number)].given[times];
}

Ssa emit_turns(Emit *e, const NestNode *loop)
{
    Number turns = {.kind = NUMBER_TURNS, .var = loop->var};
    return e->apart ? number_of(e->apart, &turns, 1) : gen_int(e->g->i64, loop->extent);
}

Ssa emit_apart_base(Emit *e, int buffer, const NestLinear *l)
{
    return e->apart->places.at[find_place(e, e->apart, buffer, l)].given;
}

Ssa emit_apart_step(Emit *e, int buffer, const NestLinear *l, const NestNode *loop)
{
    Number step;
    if (!e->apart || !step_of(e, find_place(e, e->apart, buffer, l), buffer, loop,
                              nest_coefficient(l, loop->var), &step))
        return NULL;
    return number_of(e->apart, &step, 1);
}

static Ssa go_on(Emit *e, Ssa at, Ssa bytes)
{
    return LLVMBuildGEP2(e->g->b, e->g->i8, at, &bytes, 1, "");
}

Ssa emit_apart_place(Emit *e, int buffer, const NestLinear *l, Ssa base)
{
    EmitApart *a = e->apart;
    size_t place = find_place(e, a, buffer, l);
    int64_t more = bytes_of(e, buffer, l->c - a->places.at[place].at.c);
    Number number;
    for (int i = 0; i < l->n; i++) {
        const EmitLevel *level = &e->level[e->depth_of[l->term[i].var] - 1];
        if (is_var_around(e, a, l->term[i].var) || level->node->way != NEST_UNROLLED)
            continue;
        if (!step_of(e, place, buffer, level->node, l->term[i].by, &number))
            more += number.value * level->number;
        else if (level->number > 0)
            base = go_on(e, base, number_of(a, &number, level->number));
    }
    return more ? go_on(e, base, gen_int(e->g->i64, more)) : base;
}

/* ---- the function ------------------------------------------------------------------------------------------------------- */

/* What a function is handed, and where the values stand while code is made. */
typedef struct Handed {
    Ssa *value;
    Ssa **slot;
    LLVMTypeRef *type;
    unsigned n;
} Handed;

static void hand(Handed *h, Ssa v, Ssa *slot)
{
    h->value[h->n] = v;
    h->type[h->n] = LLVMTypeOf(v);
    h->slot[h->n++] = slot;
}

static void hand_value(Handed *h, Ssa *slot)
{
    if (*slot && !LLVMIsConstant(*slot))
        hand(h, *slot, slot);
}

/* The state; of code for one place the buffers that are touched and the turns of the loops around, of other code the places and numbers. */
static Handed hand_all(Emit *e, EmitApart *a, const NestAccesses *all)
{
    Arena *arena = e->g->arena;
    size_t most = e->n->buffers.n + (size_t)e->depth + 2 + (a ? a->places.n + a->numbers.n : 0);
    Handed h = {arena_new_array(arena, Ssa, most), arena_new_array(arena, Ssa *, most),
                arena_new_array(arena, LLVMTypeRef, most), 0};
    bool *seen = arena_alloc_must(arena, e->n->buffers.n + 1, sizeof *seen);
    hand_value(&h, &e->state);
    for (size_t i = 0; i < all->n; i++) {
        int buffer = all->at[i].buffer;
        if (!seen[buffer] && (!a || is_given(e, buffer)))
            hand_value(&h, &e->base[buffer]);
        seen[buffer] = true;
    }
    for (int i = 1; i <= e->depth && !a; i++)
        hand_value(&h, &e->level[i].value);
    for (size_t i = 0; a && i < a->places.n; i++) {
        Place *p = &a->places.at[i];
        hand(&h, emit_place_of(e, p->buffer, &p->at), &p->given);
    }
    for (size_t i = 0; a && i < a->numbers.n; i++) {
        Number *number = &a->numbers.at[i];
        number->given = arena_new_array(arena, Ssa, (size_t)number->most);
        hand(&h, gen_int(e->g->i64, number->value), &number->given[1]);
    }
    return h;
}

/* What an unrolled loop adds in each of its turns. */
static void make_times(Emit *e, EmitApart *a)
{
    for (size_t i = 0; i < a->numbers.n; i++)
        for (int64_t k = 2; k < a->numbers.at[i].most; k++)
            a->numbers.at[i].given[k] =
                LLVMBuildMul(e->g->b, a->numbers.at[i].given[1], gen_int(e->g->i64, k), "");
}

/* The buffers that the code writes, in place of those that the part around it does; gives these. */
static bool *set_written(Emit *e, const NestAccesses *all)
{
    bool *outer = e->written;
    e->written = arena_alloc_must(e->g->arena, e->n->buffers.n + 1, sizeof *e->written);
    for (size_t i = 0; i < all->n; i++)
        e->written[all->at[i].buffer] |= all->at[i].writes;
    ptrmap_clear(&e->impure);
    return outer;
}

/* What is known of the levels around is known in their function. */
static EmitLevel *set_levels_aside(Emit *e)
{
    EmitLevel *aside = arena_copy(e->g->arena, e->level, ((size_t)e->depth + 1) * sizeof *aside);
    for (int i = 0; i <= e->depth; i++)
        e->level[i].values = e->level[i].splats = e->level[i].places = (PtrMap){0};
    return aside;
}

static void take_levels_back(Emit *e, const EmitLevel *aside)
{
    for (int i = 0; i <= e->depth; i++) {
        ptrmap_deinit(&e->level[i].values);
        ptrmap_deinit(&e->level[i].splats);
        ptrmap_deinit(&e->level[i].places);
        e->level[i] = aside[i];
    }
}

static void make_body(Emit *e, EmitApart *a, const NestNode *node, const Handed *h)
{
    EmitLevel *aside = set_levels_aside(e);
    bool in_part = e->in_part;
    for (unsigned i = 0; i < h->n; i++)
        *h->slot[i] = LLVMGetParam(e->fn, i);
    e->in_part = true;
    if (a)
        make_times(e, a);
    e->apart = a;
    emit_straight(e, node);
    e->apart = NULL;
    LLVMBuildRetVoid(e->g->b);
    take_levels_back(e, aside);
    for (unsigned i = 0; i < h->n; i++)
        *h->slot[i] = h->value[i];
    e->in_part = in_part;
}

static void make_function(Emit *e, EmitApart *a, const NestNode *node, const Handed *h,
                          const NestAccesses *all, Shared *out)
{
    Gen *g = e->g;
    Ssa outer = e->fn;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    bool *written = set_written(e, all), computes = e->computes;
    out->name = orc_name(g->jit, g->arena, "apart");
    e->fn = LLVMAddFunction(g->m, out->name, LLVMFunctionType(g->nothing, h->type, h->n, false));
    emit_attributes(g, e->fn);
    if (a && !g->alone) {
        LLVMSetLinkage(e->fn, LLVMExternalLinkage);
        LLVMSetVisibility(e->fn, LLVMHiddenVisibility);
    }
    e->polls = e->fails = false;
    LLVMPositionBuilderAtEnd(g->b, gen_block(g, e->fn, ""));
    make_body(e, a, node, h);
    out->polls = e->polls;
    out->fails = e->fails;
    e->fn = outer;
    e->computes = computes;
    e->written = written;
    ptrmap_clear(&e->impure);
    LLVMPositionBuilderAtEnd(g->b, before);
}

/* ---- what it is -------------------------------------------------------------------------------------------------------------- */

typedef struct Key {
    Emit *e;
    const EmitApart *a;
    Buf out;
    Vec(int) buffers; /* registers and given numbers, as they are met */
} Key;

static void put(Key *k, int64_t v)
{
    buf_bytes(&k->out, (const char *)&v, sizeof v);
}

static void put_dtype(Key *k, DType t)
{
    put(k, (int64_t)t.code << 32 | (int64_t)t.bits << 16 | t.lanes);
}

static void put_loop(Key *k, int var)
{
    put(k, k->e->depth_of[var] - k->a->depth);
}

static void put_met(Key *k, int buffer)
{
    size_t i = 0;
    while (i < k->buffers.n && k->buffers.at[i] != buffer)
        i++;
    if (i == k->buffers.n)
        vec_push(&k->buffers, k->e->g->arena, buffer);
    put(k, (int64_t)i);
}

static void put_steps(Key *k, int buffer, const NestLinear *l, const NestNode *node)
{
    bool memory = k->e->n->buffers.at[buffer].place != NEST_REGISTER;
    size_t place = memory ? find_place(k->e, k->a, buffer, l) : 0;
    Number step;
    for (int i = 0; i < l->n; i++) {
        int var = l->term[i].var;
        if (is_var_around(k->e, k->a, var))
            continue;
        put_loop(k, var);
        bool given =
            memory && step_of(k->e, place, buffer, nest_loop_of(node, var), l->term[i].by, &step);
        put(k, given);
        put(k, given ? (int64_t)find_number(k->a, &step) : l->term[i].by);
    }
}

static void put_given(Key *k, int buffer)
{
    Ssa v = k->e->base[buffer];
    bool known = LLVMIsConstant(v);
    LLVMBool lost;
    put(k, known);
    if (!known) {
        put_met(k, buffer);
    } else if (LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMIntegerTypeKind) {
        put(k, (int64_t)LLVMConstIntGetZExtValue(v));
    } else {
        double number = LLVMConstRealGetDouble(v, &lost);
        buf_bytes(&k->out, (const char *)&number, sizeof number);
    }
}

static void put_access(Key *k, int buffer, const Te *at, const NestNode *node)
{
    Emit *e = k->e;
    const NestLinear *l = emit_linear(e, at);
    const NestBuffer *b = &e->n->buffers.at[buffer];
    put(k, b->place == NEST_REGISTER ? 0 : is_given(e, buffer) ? 1 : 2);
    put_dtype(k, b->dtype);
    if (is_given(e, buffer)) {
        put_given(k, buffer);
        return;
    }
    if (b->place == NEST_REGISTER) {
        put_met(k, buffer);
        put(k, l->c);
    } else {
        size_t place = find_place(e, k->a, buffer, l);
        put(k, (int64_t)place);
        put(k, l->c - k->a->places.at[place].at.c);
    }
    put_steps(k, buffer, l, node);
    put(k, -1);
}

static void put_value(Key *k, const Te *x, const NestNode *node)
{
    put(k, (int64_t)x->kind << 16 | (int64_t)x->op << 8 | te_children(x));
    put_dtype(k, x->dtype);
    if (x->kind == TE_NODE_CONST)
        put(k, (int64_t)x->value.bits);
    if (x->kind == TE_NODE_AXIS)
        put_loop(k, x->axis);
    if (x->kind == TE_NODE_LOAD) {
        put_access(k, x->tensor, x->index[0], node);
        return;
    }
    for (int i = 0; i < te_children(x); i++)
        put_value(k, te_child(x, i), node);
}

static void put_node(Key *k, const NestNode *node)
{
    put(k, node->kind);
    if (node->kind != NEST_LOOP) {
        put(k, (int64_t)node->fold << 1 | node->any_order);
        put(k, node->ahead);
        put_access(k, node->buffer, node->at, node);
        if (node->kind == NEST_NEAR)
            return;
        put_value(k, node->value, node);
        if (te_fault_places(k->e->g->arena, node->value, &k->out))
            buf_bytes(&k->out, (const char *)&k->e->span, sizeof k->e->span);
        return;
    }
    Number turns = {.kind = NUMBER_TURNS, .var = node->var};
    bool straight = emit_is_straight(node);
    put(k, node->way);
    put(k, node->lanes);
    put(k, straight ? node->extent : (int64_t)find_number(k->a, &turns));
    put(k, straight ? 0 : emit_turns_unseen(k->e, node, node->extent));
    put(k, (int64_t)node->body.n);
    for (size_t i = 0; i < node->body.n; i++)
        put_node(k, node->body.at[i]);
}

/* All that decides what the code does with what it is given. */
static void digest_of(Emit *e, const EmitApart *a, const NestNode *node, uint64_t out[2])
{
    Key k = {.e = e, .a = a};
    Digest d;
    put_node(&k, node);
    digest_begin(&d);
    digest_add(&d, k.out.at, k.out.n);
    digest_end(&d, out);
    buf_deinit(&k.out);
}

/* ---- its call ------------------------------------------------------------------------------------------------------------ */

static Ssa declare(Gen *g, const char *name, LLVMTypeRef type)
{
    Ssa fn = LLVMGetNamedFunction(g->m, name);
    if (!fn) {
        fn = LLVMAddFunction(g->m, name, type);
        LLVMSetVisibility(fn, LLVMHiddenVisibility);
    }
    return fn;
}

void emit_apart(Emit *e, const NestNode *node)
{
    Gen *g = e->g;
    if (e->apart) {
        emit_straight(e, node);
        return;
    }
    NestAccesses all = nest_accesses(e->n, (NestNode *)(uintptr_t)node);
    EmitApart *a = find_all(e, node, &all);
    Handed h = hand_all(e, a, &all);
    LLVMTypeRef type = LLVMFunctionType(g->nothing, h.type, h.n, false);
    uint64_t digest[2];
    Shared *shared = NULL, own = {0};
    if (a && !g->origins) {
        digest_of(e, a, node, digest);
        shared = kernel_shared(g, digest);
    }
    bool polls = e->polls, fails = e->fails;
    if (!shared || !shared->name)
        make_function(e, a, node, &h, &all, shared ? shared : &own);
    shared = shared ? shared : &own;
    LLVMBuildCall2(g->b, type, declare(g, shared->name, type), h.value, h.n, "");
    if (shared->polls)
        emit_stop(e, gen_block(g, e->fn, "go"));
    e->polls = polls || shared->polls;
    e->fails = fails || shared->fails || shared->polls;
}
