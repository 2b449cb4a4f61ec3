/* Leaving a function on failure: what it owns is let go of, and it gives zero.
 *
 * Each way that fails would release what lives there. In a long function that is the square of its length, nearly all of its code. Such a
 * function has a frame instead: an array with what it owns, in which places are filled and emptied between two calls that may fail, as
 * far as the first block goes straight ahead; a jump back to its beginning does that again, from nothing. All ways that fail there, and in
 * branches behind it, go to one end, where the runtime lets go of what stands in the frame, and let go of the rest before. Ways on which
 * the function does not own all of it any more do without.
 */
#include "jit/internal.h"

/* Lets of a function for which a frame is worth its stores. */
#define FRAME_LEAST 48

typedef struct Owned {
    Repr repr;
    Ssa value;
} Owned;
typedef Vec(Owned) OwnedList;

struct Frame {
    Ssa room; /* the number of places, and then these; what is an object has its lowest bit set */
    Vec(Ssa) places; /* what stands in each now; NULL: nothing */
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

static void add(Fn *f, OwnedList *list, Repr r, Ssa v)
{
    if (r.kind != REPR_SCALAR)
        vec_push(list, f->g->arena, ((Owned){r, v}));
}

/* All that the function owns here, `held` included. */
static OwnedList owned(Fn *f, const SsaList *held)
{
    OwnedList list = {0};
    for (size_t i = 0; held && i < held->n; i++)
        add(f, &list, (Repr){.kind = REPR_TENSOR}, held->at[i]);
    for (size_t i = 0; i < f->scope.n; i++) {
        const Var *v = f->scope.at[i];
        Val *val = ptrmap_find(&f->vals, v);
        if (val_is_counted(val) && (live_after(f->live, f->block, f->at, v) || fn_dies(f, v)))
            add(f, &list, val->repr, val->at);
    }
    for (size_t i = 0; i < f->waiting.n; i++) {
        Val *val = ptrmap_find(&f->vals, f->waiting.at[i]);
        add(f, &list, val->repr, val->at);
    }
    for (size_t i = 0; i < f->made.n; i++)
        add(f, &list, repr_of(f->made.at[i].type), f->made.at[i].value);
    return list;
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

static void set_place(Fn *f, size_t at, Ssa now)
{
    gen_store(f->g, now ? now : LLVMConstNull(f->g->ptr), f->frame->room,
              (at + 1) * sizeof(void *));
}

/* A place that is free, new at the end when there is none; there is room for it. */
static size_t free_place(Fn *f, size_t from)
{
    Frame *frame = f->frame;
    while (from < frame->places.n && frame->places.at[from])
        from++;
    if (from == frame->places.n) {
        vec_push(&frame->places, f->g->arena, NULL);
        LLVMSetOperand(frame->room, 0, gen_int(f->g->i32, (int64_t)frame->places.n + 1));
    }
    return from;
}

void frame_fill(Fn *f, const SsaList *held)
{
    Frame *frame = f->frame;
    bool worth = frame && (f->live->size >= FRAME_LEAST || owns_much(f));
    if (!worth || f->block->parent || f->kept.n > 0)
        return;
    OwnedList list = owned(f, held);
    if (!frame->room)
        frame->room = fn_room(f, f->g->ptr, 1);
    PtrMap counts = counts_of(&list);
    size_t places = frame->places.n, from = 0;
    bool *left = arena_new_array(f->g->arena, bool, places + 1);
    for (size_t i = 0; i < places; i++)
        if (frame->places.at[i] && !take_one(&counts, frame->places.at[i])) {
            frame->places.at[i] = NULL;
            left[i] = true;
        }
    for (size_t i = 0; i < list.n; i++) {
        Owned o = list.at[i];
        if (!take_one(&counts, o.value))
            continue;
        fn_cut(f);
        from = free_place(f, from);
        frame->places.at[from] = o.value;
        set_place(f, from, o.repr.kind == REPR_OBJECT ? gen_offset(f->g, o.value, 1) : o.value);
    }
    for (size_t i = 0; i < places; i++)
        if (left[i] && !frame->places.at[i]) {
            fn_cut(f);
            set_place(f, i, NULL);
        }
    if (frame->places.n > places || !frame->end)
        gen_store(f->g, gen_int(f->g->i64, (int64_t)frame->places.n), frame->room, 0);
    if (!frame->end)
        frame->end = gen_block(f->g, f->fn, "failed");
    ptrmap_deinit(&counts);
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

/* Whether all that stands there is in the list, of which `rest` is what does not stand there. */
static bool frame_is_owned(Fn *f, const OwnedList *list, PtrMap *rest)
{
    Frame *frame = f->frame;
    if (!frame || !frame->end || f->kept.n > 0)
        return false;
    *rest = counts_of(list);
    for (size_t i = 0; i < frame->places.n; i++)
        if (frame->places.at[i] && !take_one(rest, frame->places.at[i]))
            return false;
    return true;
}

/* ---- ways that fail -------------------------------------------------------------------------------------------------------- */

/* Only builds: the way that does not fail goes on with what there is. */
void fn_leave_holding(Fn *f, const SsaList *held)
{
    OwnedList list = owned(f, held);
    PtrMap rest = {0};
    bool framed = frame_is_owned(f, &list, &rest);
    for (size_t i = 0; i < list.n; i++)
        if (framed && !take_one(&rest, list.at[i].value)) {
            own_lose(f, list.at[i].value);
        } else {
            fn_cut(f);
            fn_release_cold(f, list.at[i].repr, list.at[i].value);
        }
    ptrmap_deinit(&rest);
    if (framed) {
        LLVMBuildBr(f->g->b, f->frame->end);
        return;
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
