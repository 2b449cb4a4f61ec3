/* Whether the counts are right: in builds for development, a proof over the code of each function.
 *
 * Code that gains or gives up a count of a value is noted where it stands. Then every way through the function is followed over LLVM's
 * blocks. A count that is given up must be there; what an instruction reads must be counted here, or be reached through something that
 * is; where ways meet the counts must be the same, and where the function is left none may be left. What nothing is noted of, a constant
 * or a parameter that is lent, lives long enough by itself.
 *
 * A block is walked once, with the counts of the way that comes to it first; all others must come with equal ones. Ways are taken depth
 * first, so one set of counts is enough: a list of changes says how it came about, and going back undoes the last ones. */
#include "jit/internal.h"

#ifndef NDEBUG

/* A value of which counts are noted. */
typedef struct Held {
    Ssa value;
    int count; /* on the way at hand */
    bool phi; /* takes a count over from the value that comes */
    bool alone; /* nothing that it was loaded from keeps it alive */
} Held;

typedef struct Note {
    Ssa after; /* the instruction; NULL: the block begins */
    Held *held;
    int by;
} Note;

typedef struct Change {
    const struct Change *before;
    Held *held;
    int by;
} Change;

typedef struct Met {
    Vec(Note) notes;
    bool walked;
    uint64_t sum; /* of the counts at its beginning */
    const Change *counts;
} Met;

typedef struct Way {
    LLVMBasicBlockRef from, to;
    const Change *counts;
    Held *null; /* this value is known to be NULL */
} Way;

struct Own {
    Arena arena;
    Fn *f;
    PtrMap helds; /* Ssa -> Held */
    PtrMap blocks; /* LLVMBasicBlockRef -> Met */
    /* while ways are followed */
    Vec(Way) ways;
    const Change *counts;
    uint64_t sum;
    bool wrong;
};

/* ---- notes --------------------------------------------------------------------------------------------------- */

void own_begin(Fn *f)
{
    Arena arena;
    arena_init(&arena, NULL);
    f->own = arena_new(&arena, Own);
    f->own->arena = arena;
    f->own->f = f;
}

/* A tuple as its fields is owned as one value. */
static bool is_owned_type(Ssa v)
{
    LLVMTypeKind kind = LLVMGetTypeKind(LLVMTypeOf(v));
    return kind == LLVMPointerTypeKind || kind == LLVMStructTypeKind;
}

static bool is_counted(const Fn *f, Ssa v)
{
    return f->own && is_owned_type(v) && !LLVMIsConstant(v);
}

static Held *held_of(Own *o, Ssa v)
{
    void **slot = ptrmap_slot(&o->helds, v);
    if (!*slot) {
        Held *h = arena_new(&o->arena, Held);
        h->value = v;
        *slot = h;
    }
    return *slot;
}

static Met *met_of(Own *o, LLVMBasicBlockRef block)
{
    void **slot = ptrmap_slot(&o->blocks, block);
    if (!*slot)
        *slot = arena_new(&o->arena, Met);
    return *slot;
}

static void note(Fn *f, Ssa v, int by)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(f->g->b);
    vec_push(&met_of(f->own, here)->notes, &f->own->arena,
             ((Note){LLVMGetLastInstruction(here), held_of(f->own, v), by}));
}

void own_gain(Fn *f, Ssa v)
{
    if (is_counted(f, v))
        note(f, v, 1);
}

void own_make(Fn *f, Ssa v)
{
    if (!is_counted(f, v))
        return;
    held_of(f->own, v)->alone = true;
    note(f, v, 1);
}

void own_lose(Fn *f, Ssa v)
{
    if (is_counted(f, v))
        note(f, v, -1);
}

void own_phi(Fn *f, Ssa phi)
{
    if (!is_counted(f, phi))
        return;
    Held *h = held_of(f->own, phi);
    h->phi = h->alone = true;
}

/* ---- counts on the way at hand --------------------------------------------------------------------------------- */

static uint64_t weight(const Held *h)
{
    uint64_t x = (uint64_t)(uintptr_t)h * 0x9e3779b97f4a7c15u;
    return (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
}

static void add(Own *o, Held *h, int by)
{
    h->count += by;
    o->sum += (uint64_t)(int64_t)by * weight(h);
}

static void change(Own *o, Held *h, int by)
{
    Change *c = arena_new(&o->arena, Change);
    *c = (Change){o->counts, h, by};
    o->counts = c;
    add(o, h, by);
}

static void go_back(Own *o, const Change *to)
{
    for (; o->counts != to; o->counts = o->counts->before)
        add(o, o->counts->held, -o->counts->by);
}

static void report(Own *o, const char *what, Ssa v, LLVMBasicBlockRef at)
{
    if (o->wrong)
        return;
    o->wrong = o->f->g->failed = true;
    char *value = LLVMPrintValueToString(v);
    char *code = LLVMPrintValueToString(LLVMBasicBlockAsValue(at));
    diag_bug(o->f->g->cx->diags, (Span){0}, "the code of `%s` %s:%s\nin %s",
             LLVMGetValueName(o->f->fn), what, value, code);
    LLVMDisposeMessage(value);
    LLVMDisposeMessage(code);
}

static void lose(Own *o, Held *h, LLVMBasicBlockRef at)
{
    change(o, h, -1);
    if (h->count < 0)
        report(o, "gives up a count that it has not", h->value, at);
}

/* The value that ways disagree about. */
static void report_difference(Own *o, const Met *to, LLVMBasicBlockRef at)
{
    PtrMap counts = {0};
    for (const Change *c = to->counts; c; c = c->before)
        *(char **)ptrmap_slot(&counts, c->held) += c->by;
    for (const Change *c = o->counts; c; c = c->before)
        *(char **)ptrmap_slot(&counts, c->held) -= c->by;
    for (size_t i = 0; i < counts.n; i++)
        if (counts.entries[i].value)
            report(o, "comes with different counts to where ways meet",
                   ((const Held *)counts.entries[i].key)->value, at);
    ptrmap_deinit(&counts);
}

/* ---- what is read ----------------------------------------------------------------------------------------------- */

static Ssa base_of(Ssa v)
{
    while (LLVMIsAGetElementPtrInst(v))
        v = LLVMGetOperand(v, 0);
    return v;
}

/* Whether it is counted here, or was loaded from something that is alive. */
static bool is_alive(Own *o, Ssa v)
{
    for (v = base_of(v);; v = base_of(LLVMGetOperand(v, 0))) {
        const Held *h = ptrmap_find(&o->helds, v);
        if (h && h->count > 0)
            return true;
        if (h && h->alone)
            return false;
        if (!LLVMIsALoadInst(v))
            return true;
    }
}

static void check_reads(Own *o, Ssa instruction, LLVMBasicBlockRef at)
{
    switch (LLVMGetInstructionOpcode(instruction)) {
    case LLVMPHI:
    case LLVMRet: /* what is returned was given up before */
    case LLVMICmp:
    case LLVMGetElementPtr: return;
    default: break;
    }
    for (int i = 0; i < LLVMGetNumOperands(instruction); i++) {
        Ssa v = LLVMGetOperand(instruction, (unsigned)i);
        if (is_owned_type(v) && !LLVMIsConstant(v) && !is_alive(o, v))
            report(o, "reads what it has given up", instruction, at);
    }
}

/* ---- ways --------------------------------------------------------------------------------------------------------- */

/* The value that is NULL when the branch takes its first way, or has such a field: all of it is so then. NULL when it asks for something
 * else. */
static Held *asked_for_null(Own *o, Ssa end)
{
    Ssa cond = LLVMIsABranchInst(end) && LLVMIsConditional(end) ? LLVMGetCondition(end) : NULL;
    bool null = cond && LLVMIsAICmpInst(cond) && LLVMGetICmpPredicate(cond) == LLVMIntEQ &&
                LLVMIsAConstantPointerNull(LLVMGetOperand(cond, 1));
    Ssa v = null ? LLVMGetOperand(cond, 0) : NULL;
    Held *held = v ? ptrmap_find(&o->helds, v) : NULL;
    bool field = v && !held && LLVMIsAExtractValueInst(v);
    return field ? ptrmap_find(&o->helds, LLVMGetOperand(v, 0)) : held;
}

static void push_ways(Own *o, LLVMBasicBlockRef from)
{
    Ssa end = LLVMGetBasicBlockTerminator(from);
    for (unsigned i = 0; i < LLVMGetNumSuccessors(end); i++)
        vec_push(&o->ways, &o->arena,
                 ((Way){from, LLVMGetSuccessor(end, i), o->counts,
                        i == 0 ? asked_for_null(o, end) : NULL}));
}

static Ssa incoming(Ssa phi, LLVMBasicBlockRef from)
{
    for (unsigned i = 0; i < LLVMCountIncoming(phi); i++)
        if (LLVMGetIncomingBlock(phi, i) == from)
            return LLVMGetIncomingValue(phi, i);
    return phi;
}

/* First everything is handed over: what one phi is may come to another. */
static void enter_phis(Own *o, const Way *way)
{
    for (int taken = 0; taken < 2; taken++)
        for (Ssa phi = LLVMGetFirstInstruction(way->to); phi && LLVMIsAPHINode(phi);
             phi = LLVMGetNextInstruction(phi)) {
            Held *h = ptrmap_find(&o->helds, phi);
            Ssa v = h && h->phi ? incoming(phi, way->from) : NULL;
            if (v && taken)
                change(o, h, 1);
            else if (v && !LLVMIsConstant(v))
                lose(o, held_of(o, v), way->to);
        }
}

static void apply_notes(Own *o, const Met *met, size_t *next, Ssa after, LLVMBasicBlockRef at)
{
    for (; *next < met->notes.n && met->notes.at[*next].after == after; ++*next) {
        const Note *n = &met->notes.at[*next];
        if (n->by < 0)
            lose(o, n->held, at);
        else
            change(o, n->held, n->by);
    }
}

static void walk(Own *o, const Met *met, LLVMBasicBlockRef block)
{
    size_t next = 0;
    apply_notes(o, met, &next, NULL, block);
    for (Ssa i = LLVMGetFirstInstruction(block); i; i = LLVMGetNextInstruction(i)) {
        check_reads(o, i, block);
        apply_notes(o, met, &next, i, block);
    }
    if (next < met->notes.n)
        report(o, "has lost its place of", met->notes.at[next].held->value, block);
    for (const Change *c = o->counts; c && LLVMIsAReturnInst(LLVMGetLastInstruction(block));
         c = c->before)
        if (c->held->count > 0)
            report(o, "is left with a count of", c->held->value, block);
}

static void follow(Own *o, const Way *way)
{
    go_back(o, way->counts);
    if (way->null && way->null->count > 0)
        change(o, way->null, -way->null->count);
    enter_phis(o, way);
    Met *met = met_of(o, way->to);
    if (met->walked) {
        if (met->sum != o->sum)
            report_difference(o, met, way->to);
        return;
    }
    met->walked = true;
    met->sum = o->sum;
    met->counts = o->counts;
    walk(o, met, way->to);
    push_ways(o, way->to);
}

void own_end(Fn *f)
{
    Own *o = f->own;
    Met *first = met_of(o, LLVMGetEntryBasicBlock(f->fn));
    first->walked = true;
    if (!f->g->failed)
        walk(o, first, LLVMGetEntryBasicBlock(f->fn));
    if (!f->g->failed)
        push_ways(o, LLVMGetEntryBasicBlock(f->fn));
    while (o->ways.n > 0 && !o->wrong) {
        Way way = vec_pop(&o->ways);
        follow(o, &way);
    }
    ptrmap_deinit(&o->helds);
    ptrmap_deinit(&o->blocks);
    f->own = NULL;
    Arena arena = o->arena;
    arena_deinit(&arena);
}

#endif
