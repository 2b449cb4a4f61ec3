/* Which reading of a slot is its last.
 *
 * Blocks are worked through from back to front. What a branch needs is collected on its own; what another branch needs and this one
 * does not is dropped at its beginning. */
#include "interp/internal.h"

typedef struct LiveFrame {
    CodeBlock *block;
    size_t steps;           /* not done yet; the last of them is at work */
    uint32_t branches;      /* done, of that step's */
    size_t log;             /* length of the log when the block began */
} LiveFrame;

typedef struct Slots {
    Vec(uint32_t) list;
} Slots;

typedef struct Lifetime {
    Unit *unit;
    Arena scratch;
    bool *live;             /* by slot: it is read further on */
    uint8_t *known;         /* by slot, of those that are read */
    uint32_t *stamps;       /* by slot, for comparing lists */
    uint32_t stamp;
    Vec(uint32_t) log;      /* slots in the order in which they became live */
    Vec(LiveFrame) stack;
    Vec(Slots) needs;       /* of the branches done, of all the steps at work */
} Lifetime;

static void slot_used(Lifetime *lt, uint32_t slot)
{
    if (lt->live[slot])
        return;
    lt->live[slot] = true;
    vec_push(&lt->log, &lt->scratch, slot);
}

static void operands_used(Lifetime *lt, Step *s)
{
    uint32_t n = s->n + (s->kind == STEP_CALL || s->kind == STEP_TAIL_CALL);
    for (uint32_t i = n; i-- > 0;) {
        Operand *o = &s->args[i];
        if (o->base != BASE_SLOTS)
            continue;
        o->last = !lt->live[o->at];
        lt->known[o->at] = o->known;
        slot_used(lt, o->at);
    }
    for (size_t i = 0; s->info && i < s->info->notes.n; i++) {
        StepNote *note = &s->info->notes.at[i];
        note->gone = note->at.base == BASE_SLOTS && !lt->live[note->at.at];
    }
}

/* The slot gets its value here; false when nobody reads it. */
static bool slot_defined(Lifetime *lt, uint32_t slot)
{
    bool live = lt->live[slot];
    lt->live[slot] = false;
    return live;
}

static void drop_first(Lifetime *lt, CodeBlock *b, const Slots *slots)
{
    if (!slots->list.n)
        return;
    Arena *a = &lt->unit->arena;
    Step *s = arena_new(a, Step);
    s->kind = STEP_DROP;
    s->run = STEP_DROP;
    s->dest = NO_SLOT;
    s->n = (uint32_t)slots->list.n;
    s->args = arena_new_array(a, Operand, s->n);
    if (!s->args)
        return;
    for (uint32_t i = 0; i < s->n; i++)
        s->args[i] = (Operand){.at = slots->list.at[i],
                               .base = BASE_SLOTS,
                               .last = true,
                               .known = lt->known[slots->list.at[i]]};
    s->next = b->first;
    b->first = s;
}

/* The slots that became live since, which are then not live any more. */
static Slots take_needs(Lifetime *lt, size_t log)
{
    Slots needs = {0};
    while (lt->log.n > log) {
        uint32_t slot = vec_pop(&lt->log);
        if (!lt->live[slot])
            continue;
        lt->live[slot] = false;
        vec_push(&needs.list, &lt->scratch, slot);
    }
    return needs;
}

static void pattern_defined(Lifetime *lt, PatternCode *pattern)
{
    for (size_t i = 0; i < pattern->binds.n; i++) {
        uint32_t *slot = &pattern->binds.at[i].slot;
        if (!slot_defined(lt, *slot))
            *slot = NO_SLOT;
    }
}

/* A block inside the step is done. */
static void branch_done(Lifetime *lt, Step *s, uint32_t branch, size_t log)
{
    if (s->patterns)
        pattern_defined(lt, &s->patterns[branch]);
    vec_push(&lt->needs, &lt->scratch, take_needs(lt, log));
}

/* All blocks inside the step are done: what any of them needs is live before it. */
static void branches_joined(Lifetime *lt, Step *s)
{
    Slots *needs = &lt->needs.at[lt->needs.n - s->n_blocks];
    size_t log = lt->log.n;
    for (uint32_t i = 0; i < s->n_blocks; i++)
        for (size_t k = 0; k < needs[i].list.n; k++)
            slot_used(lt, needs[i].list.at[k]);
    for (uint32_t i = 0; i < s->n_blocks; i++) {
        Slots others = {0};
        lt->stamp++;
        for (size_t k = 0; k < needs[i].list.n; k++)
            lt->stamps[needs[i].list.at[k]] = lt->stamp;
        for (size_t k = log; k < lt->log.n; k++)
            if (lt->stamps[lt->log.at[k]] != lt->stamp)
                vec_push(&others.list, &lt->scratch, lt->log.at[k]);
        drop_first(lt, &s->blocks[i], &others);
    }
    lt->needs.n -= s->n_blocks;
}

static void enter(Lifetime *lt, CodeBlock *b)
{
    vec_push(&lt->stack, &lt->scratch, ((LiveFrame){b, b->steps.n, 0, lt->log.n}));
}

static bool step_branches(const Step *s)
{
    return s->kind == STEP_IF || s->kind == STEP_MATCH;
}

/* A scalar that is read by the `if` behind it and nowhere else need not be stored. */
static void mark_decision(Step *s)
{
    const Step *next = s->next;
    if (s->kind == STEP_OP && next && next->kind == STEP_IF && s->dest != NO_SLOT &&
        next->args[0].base == BASE_SLOTS && next->args[0].last && next->args[0].at == s->dest)
        s->kind = STEP_OP_IF;
}

static void one_step(Lifetime *lt, LiveFrame *f, Step *s)
{
    if (f->branches == 0 && s->dest != NO_SLOT && !slot_defined(lt, s->dest))
        s->dest = NO_SLOT;
    if (step_branches(s) && f->branches < s->n_blocks) {
        enter(lt, &s->blocks[f->branches]);
        return;
    }
    if (step_branches(s))
        branches_joined(lt, s);
    operands_used(lt, s);
    mark_decision(s);
    f->steps--;
    f->branches = 0;
}

/* The block on top of the stack is done. */
static void leave(Lifetime *lt)
{
    size_t log = vec_pop(&lt->stack).log;
    if (!lt->stack.n)
        return;
    LiveFrame *f = &vec_last(&lt->stack);
    branch_done(lt, f->block->steps.at[f->steps - 1], f->branches++, log);
}

static void drop_parameters(Lifetime *lt, Code *code)
{
    Slots unused = {0};
    for (uint32_t i = 0; i < code->n_params; i++)
        if (!lt->live[i])
            vec_push(&unused.list, &lt->scratch, i);
    drop_first(lt, &code->body, &unused);
    if (code->self_slot != NO_SLOT && !lt->live[code->self_slot])
        code->self_slot = NO_SLOT;
}

void code_mark_last(Unit *u, Code *code)
{
    Lifetime lt = {.unit = u};
    arena_init(&lt.scratch, u->arena.limits);
    lt.live = arena_new_array(&lt.scratch, bool, code->n_slots);
    lt.known = arena_new_array(&lt.scratch, uint8_t, code->n_slots);
    lt.stamps = arena_new_array(&lt.scratch, uint32_t, code->n_slots);
    if (lt.live && lt.known && lt.stamps) {
        enter(&lt, &code->body);
        while (lt.stack.n) {
            LiveFrame *f = &vec_last(&lt.stack);
            if (f->steps)
                one_step(&lt, f, f->block->steps.at[f->steps - 1]);
            else
                leave(&lt);
        }
        drop_parameters(&lt, code);
    }
    arena_deinit(&lt.scratch);
}
