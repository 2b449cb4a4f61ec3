/* Leaving a function on failure: what it owns is let go of, and it gives zero.
 *
 * Each way that fails would release what lives there. In a long function that is the square of its length, nearly all of its code. Such a
 * function has a frame instead: an array with what it owns, in which places are filled and emptied between two calls that may fail, as
 * far as the first block goes straight ahead; a jump back to its beginning does that again, from nothing. All ways that fail there, and in
 * branches behind it, go to one end, where the runtime lets go of what stands in the frame, and let go of the rest before. Ways on which
 * the function does not own all of it any more do without.
 */
#include "jit/internal.h"
#include "jit/plan.h"

/* Lets of a function for which a frame is worth its stores. */
#define FRAME_LEAST 48

typedef struct Owned {
    const Var *var; /* in the scope, that owns it; NULL: none */
    Repr repr;
    Ssa value;
} Owned;
typedef Vec(Owned) OwnedList;

typedef Vec(uint32_t) Places;

struct Frame {
    Ssa room; /* the number of places, and then these; what is an object has its lowest bit set */
    Vec(Ssa) places; /* what stands in each now; NULL: nothing */
    /* Of the first variables of the scope, and of the first values made for operands, which are not looked at again however many ways
     * fail while they live: their places, with one added; 0: nothing is owned. */
    Places vars, made;
    Places others; /* the places of all else that stands there */
    Places free; /* places in which nothing stands */
    LLVMBasicBlockRef end; /* the block that lets go of it */
};

Ssa fn_zero(Fn *f)
{
    return LLVMConstNull(LLVMGetReturnType(LLVMGlobalGetValueType(f->fn)));
}

bool val_is_counted(const Val *v)
{
    return v->at && !v->fixed && !v->lent &&
           (v->repr.kind == REPR_TENSOR || v->repr.kind == REPR_OBJECT);
}

static void add(Fn *f, OwnedList *list, const Var *var, Repr r, Ssa v)
{
    if (r.kind != REPR_SCALAR)
        vec_push(list, f->g->arena, ((Owned){var, r, v}));
}

/* All that the function owns here, `held` included: what its variables own, and then the rest; after the first `vars` variables and the
 * first `made` values. */
static OwnedList owned(Fn *f, const SsaList *held, size_t vars, size_t made)
{
    OwnedList list = {0};
    for (size_t i = vars; i < f->scope.n; i++) {
        const Var *v = f->scope.at[i];
        Val *val = ptrmap_find(&f->vals, v);
        if (val_is_counted(val) && (live_after(f->live, f->block, f->at, v) || fn_dies(f, v)))
            add(f, &list, v, val->repr, val->at);
    }
    for (size_t i = 0; held && i < held->n; i++)
        add(f, &list, NULL, (Repr){.kind = REPR_TENSOR}, held->at[i]);
    for (size_t i = 0; i < f->waiting.n; i++) {
        Val *val = ptrmap_find(&f->vals, f->waiting.at[i]);
        add(f, &list, NULL, val->repr, val->at);
    }
    for (size_t i = made; i < f->made.n; i++)
        add(f, &list, NULL, repr_of(f->made.at[i].type), f->made.at[i].value);
    return list;
}

/* ---- what begins and ends -------------------------------------------------------------------------------------------------- */

/* What is one of the first ends: its place is one like any other, until the frame is filled again. */
static uint32_t give_up(Fn *f, Places *first, size_t i)
{
    uint32_t place = first->at[i];
    vec_remove(first, i);
    if (place > 0)
        vec_push(&f->frame->others, f->g->arena, place - 1);
    return place;
}

void made_drop(Fn *f, size_t i)
{
    vec_remove(&f->made, i);
    if (f->frame && i < f->frame->made.n)
        give_up(f, &f->frame->made, i);
}

void scope_add(Fn *f, const Var *v)
{
    vec_push(&f->scope, f->g->arena, v);
    if (f->block->parent)
        vec_push(&f->changes, f->g->arena, ((ScopeChange){.at = f->scope.n - 1}));
}

void scope_drop(Fn *f, const Var *v)
{
    size_t i = f->scope.n;
    while (i > 0 && f->scope.at[i - 1] != v)
        i--;
    if (i-- == 0)
        return;
    ScopeChange c = {.at = i, .dropped = v};
    vec_remove(&f->scope, i);
    c.stood = f->frame && i < f->frame->vars.n;
    if (c.stood)
        c.place = give_up(f, &f->frame->vars, i);
    if (f->block->parent)
        vec_push(&f->changes, f->g->arena, c);
}

void scope_return(Fn *f, size_t changes)
{
    while (f->changes.n > changes) {
        ScopeChange c = vec_pop(&f->changes);
        if (!c.dropped) {
            f->scope.n--;
            continue;
        }
        vec_insert(&f->scope, f->g->arena, c.at, c.dropped);
        if (ptrmap_find(&f->live->binder, c.dropped) != f->block)
            vec_push(&f->ended_inside, f->g->arena, c.dropped);
        if (!c.stood)
            continue;
        vec_insert(&f->frame->vars, f->g->arena, c.at, c.place);
        f->frame->others.n -= c.place > 0;
    }
}

void scope_end(Fn *f)
{
    while (f->ended_inside.n > 0) {
        const Var *v = vec_pop(&f->ended_inside);
        if (!live_after(f->live, f->block, f->at, v))
            scope_drop(f, v);
    }
}

/* ---- the frame ------------------------------------------------------------------------------------------------------------ */

/* Values of which a way that fails lets go by itself: more are worth the stores, also where hardly anything fails. */
#define OWNED_MOST 32

void frame_begin(Fn *f)
{
    f->frame = arena_new(f->g->arena, Frame);
}

static bool owns_much(const Fn *f)
{
    return f->scope.n + f->made.n > OWNED_MOST;
}

static void set_place(Fn *f, size_t at, Ssa now)
{
    gen_store(f->g, now ? now : LLVMConstNull(f->g->ptr), f->frame->room,
              (at + 1) * sizeof(void *));
}

static uint32_t fill_place(Fn *f, const Owned *o)
{
    Frame *frame = f->frame;
    fn_cut(f);
    if (frame->free.n == 0) {
        vec_push(&frame->free, f->g->arena, (uint32_t)frame->places.n);
        vec_push(&frame->places, f->g->arena, NULL);
        LLVMSetOperand(frame->room, 0, gen_int(f->g->i32, (int64_t)frame->places.n + 1));
    }
    uint32_t at = vec_pop(&frame->free);
    frame->places.at[at] = o->value;
    set_place(f, at, o->repr.kind == REPR_OBJECT ? gen_offset(f->g, o->value, 1) : o->value);
    return at;
}

/* The others' places of which the list owns what stands there: each is of one of its elements, with one added. The rest are free. */
static uint32_t *places_kept(Fn *f, const OwnedList *list)
{
    Frame *frame = f->frame;
    uint32_t *of = arena_new_array(f->g->arena, uint32_t, list->n + 1);
    uint32_t *next = arena_new_array(f->g->arena, uint32_t, list->n + 1);
    PtrMap wanted = {0}; /* value -> the elements, with one added, as a chain */
    for (size_t i = list->n; frame->others.n > 0 && i-- > 0;) {
        void **slot = ptrmap_slot(&wanted, list->at[i].value);
        next[i] = (uint32_t)(uintptr_t)*slot;
        *slot = (void *)(uintptr_t)(i + 1);
    }
    for (size_t i = 0; i < frame->others.n; i++) {
        uint32_t at = frame->others.at[i];
        uintptr_t k = (uintptr_t)ptrmap_find(&wanted, frame->places.at[at]);
        if (k > 0) {
            of[k - 1] = at + 1;
            ptrmap_put(&wanted, frame->places.at[at], (void *)(uintptr_t)next[k - 1]);
        } else {
            frame->places.at[at] = NULL;
            vec_push(&frame->free, f->g->arena, at);
        }
    }
    frame->others.n = 0;
    ptrmap_deinit(&wanted);
    return of;
}

/* Where the elements of the list stand: of variables, up to one that waits for its value and will own it later; of values made; and
 * of all else, between them. */
static void note_places(Fn *f, const OwnedList *list, const uint32_t *of)
{
    Frame *frame = f->frame;
    Arena *arena = f->g->arena;
    size_t k = 0, end = list->n;
    for (size_t i = frame->made.n; i < f->made.n; i++)
        end -= repr_of(f->made.at[i].type).kind != REPR_SCALAR;
    for (size_t i = frame->vars.n; i < f->scope.n && !plan_waits(f, &f->scope.at[i]->base); i++) {
        bool owns = k < end && list->at[k].var == f->scope.at[i];
        vec_push(&frame->vars, arena, owns ? of[k++] : 0);
    }
    for (; k < end; k++)
        vec_push(&frame->others, arena, of[k] - 1);
    for (size_t i = frame->made.n; i < f->made.n; i++)
        vec_push(&frame->made, arena,
                 repr_of(f->made.at[i].type).kind == REPR_SCALAR ? 0 : of[k++]);
}

void frame_fill(Fn *f, const SsaList *held)
{
    Frame *frame = f->frame;
    bool worth = frame && (f->live->size >= FRAME_LEAST || owns_much(f));
    if (!worth || f->block->parent || f->kept.n > 0)
        return;
    if (!frame->room)
        frame->room = fn_room(f, f->g->ptr, 1);
    OwnedList list = owned(f, held, frame->vars.n, frame->made.n);
    size_t places = frame->places.n, empty = frame->free.n;
    uint32_t *of = places_kept(f, &list);
    for (size_t i = 0; i < list.n; i++)
        if (of[i] == 0)
            of[i] = fill_place(f, &list.at[i]) + 1;
    for (size_t i = empty; i < frame->free.n; i++) {
        fn_cut(f);
        set_place(f, frame->free.at[i], NULL);
    }
    note_places(f, &list, of);
    if (frame->places.n > places || !frame->end)
        gen_store(f->g, gen_int(f->g->i64, (int64_t)frame->places.n), frame->room, 0);
    if (!frame->end)
        frame->end = gen_block(f->g, f->fn, "failed");
}

void frame_fill_much(Fn *f)
{
    if (owns_much(f))
        frame_fill(f, NULL);
}

void frame_end(Fn *f)
{
    Gen *g = f->g;
    if (!f->frame || !f->frame->end)
        return;
    LLVMPositionBuilderAtEnd(g->b, f->frame->end);
    gen_call_rare(g, "relay_leave", &f->frame->room, 1);
    LLVMBuildRet(g->b, fn_zero(f));
}

/* ---- ways that fail -------------------------------------------------------------------------------------------------------- */

/* How many counts of each value are in the list. */
static PtrMap counts_of(const OwnedList *list)
{
    PtrMap counts = {0};
    for (size_t i = 0; i < list->n; i++)
        ++*(uintptr_t *)ptrmap_slot(&counts, list->at[i].value);
    return counts;
}

static bool take_one(PtrMap *counts, Ssa v)
{
    uintptr_t *n = v && ptrmap_has(counts, v) ? (uintptr_t *)ptrmap_slot(counts, v) : NULL;
    return n && *n > 0 && (*n)--;
}

static void lose_first(Fn *f, const Places *first)
{
    for (size_t i = 0; i < first->n; i++)
        if (first->at[i] > 0)
            own_lose(f, f->frame->places.at[first->at[i] - 1]);
}

/* The same when all that stands in the frame is owned here: false, and nothing is done, when it is not. */
static bool leave_by_frame(Fn *f, const SsaList *held)
{
    Frame *frame = f->frame;
    if (!frame || !frame->end || f->kept.n > 0)
        return false;
    OwnedList list = owned(f, held, frame->vars.n, frame->made.n);
    PtrMap rest = counts_of(&list);
    bool all = true;
    for (size_t i = 0; all && i < frame->others.n; i++)
        all = take_one(&rest, frame->places.at[frame->others.at[i]]);
    for (size_t i = 0; all && i < list.n; i++)
        if (take_one(&rest, list.at[i].value)) {
            fn_cut(f);
            fn_release_cold(f, list.at[i].repr, list.at[i].value);
        } else
            own_lose(f, list.at[i].value);
    if (all && f->own) {
        lose_first(f, &frame->vars);
        lose_first(f, &frame->made);
    }
    if (all)
        LLVMBuildBr(f->g->b, frame->end);
    ptrmap_deinit(&rest);
    return all;
}

/* Only builds: the way that does not fail goes on with what there is. */
void fn_leave_holding(Fn *f, const SsaList *held)
{
    if (leave_by_frame(f, held))
        return;
    OwnedList list = owned(f, held, 0, 0);
    for (size_t i = 0; i < list.n; i++) {
        fn_cut(f);
        fn_release_cold(f, list.at[i].repr, list.at[i].value);
    }
    fn_cells_leave(f);
    LLVMBuildRet(f->g->b, fn_zero(f));
}

void fn_leave(Fn *f)
{
    fn_leave_holding(f, NULL);
}

void fn_fail_if(Fn *f, Ssa bad)
{
    Gen *g = f->g;
    LLVMBasicBlockRef fail = gen_block(g, f->fn, "fail"), go = gen_block(g, f->fn, "go");
    gen_branch(g, bad, fail, go, false);
    LLVMPositionBuilderAtEnd(g->b, fail);
    fn_leave(f);
    LLVMPositionBuilderAtEnd(g->b, go);
}

void fn_fail_if_failed(Fn *f)
{
    Gen *g = f->g;
    Ssa failed = gen_load(g, g->i32, f->state, offsetof(JitState, failed));
    fn_fail_if(f, LLVMBuildICmp(g->b, LLVMIntNE, failed, gen_int(g->i32, 0), ""));
}

void fn_fail_if_null(Fn *f, Ssa pointer)
{
    fn_fail_if(f, LLVMBuildIsNull(f->g->b, pointer, ""));
}
