/* Sharing of slots: a value takes the place of one that is not read any more, so that frames are small.
 *
 * Blocks are worked through from front to back with the list of free slots. Lists share their tails, so that each branch begins with
 * the list as it was at its step. After the step the free slots are those at the end of the last branch: all branches come back where
 * something follows, and the same values are alive at the end of each. */
#include "interp/internal.h"

typedef struct FreeSlot {
    uint32_t slot;
    const struct FreeSlot *next;
} FreeSlot;

typedef struct FreeSlots {
    const FreeSlot *list; /* below `next` */
    uint32_t next; /* this slot and all after it are free too */
} FreeSlots;

typedef struct SlotFrame {
    CodeBlock *block;
    size_t step;
    uint32_t branches; /* entered so far, of the step */
    FreeSlots before; /* the branches of the step */
} SlotFrame;

typedef struct Sharing {
    Arena scratch;
    uint32_t *now; /* by old slot: the new one */
    FreeSlots free;
    uint32_t most;
    Vec(SlotFrame) stack;
} Sharing;

static uint32_t take(Sharing *sh, uint32_t old)
{
    const FreeSlot *first = sh->free.list;
    uint32_t slot = first ? first->slot : sh->free.next++;
    if (first)
        sh->free.list = first->next;
    if (sh->most < sh->free.next)
        sh->most = sh->free.next;
    return sh->now[old] = slot;
}

static void give(Sharing *sh, uint32_t slot)
{
    FreeSlot *f = arena_new(&sh->scratch, FreeSlot);
    *f = (FreeSlot){slot, sh->free.list};
    sh->free.list = f;
}

static void notes_now(const Sharing *sh, StepInfo *info)
{
    for (size_t i = 0; i < info->notes.n; i++) {
        StepNote *note = &info->notes.at[i];
        if (note->at.base == BASE_SLOTS && !note->gone)
            note->at.at = sh->now[note->at.at];
    }
}

static void operands_now(Sharing *sh, Step *s)
{
    if (s->info)
        notes_now(sh, s->info);
    uint32_t n = s->n + (s->kind == STEP_CALL || s->kind == STEP_TAIL_CALL);
    for (uint32_t i = 0; i < n; i++) {
        Operand *o = &s->args[i];
        if (o->base != BASE_SLOTS)
            continue;
        o->at = sh->now[o->at];
        /* The variables of a pattern are bound before the scrutinee goes. */
        if (o->last && s->kind != STEP_MATCH)
            give(sh, o->at);
    }
}

static void enter_block(Sharing *sh, CodeBlock *b)
{
    for (Step *s = b->first; s && s->kind == STEP_DROP; s = s->next)
        operands_now(sh, s);
    vec_push(&sh->stack, &sh->scratch, ((SlotFrame){.block = b}));
}

static void enter_branch(Sharing *sh, Step *s, uint32_t i)
{
    PatternCode *pattern = s->patterns ? &s->patterns[i] : NULL;
    for (size_t k = 0; pattern && k < pattern->binds.n; k++)
        if (pattern->binds.at[k].slot != NO_SLOT)
            pattern->binds.at[k].slot = take(sh, pattern->binds.at[k].slot);
    if (pattern && s->args[0].base == BASE_SLOTS && s->args[0].last)
        give(sh, s->args[0].at);
    enter_block(sh, &s->blocks[i]);
}

static void one_step(Sharing *sh, SlotFrame *f, Step *s)
{
    bool branching = s->kind == STEP_IF || s->kind == STEP_MATCH;
    if (f->branches == 0) {
        operands_now(sh, s);
        if (s->dest != NO_SLOT)
            s->dest = take(sh, s->dest);
        f->before = sh->free;
    }
    if (branching && f->branches < s->n_blocks) {
        sh->free = f->before;
        enter_branch(sh, s, f->branches++);
        return;
    }
    f->branches = 0;
    f->step++;
}

void code_share_slots(Unit *u, Code *code)
{
    Sharing sh = {.free.next = code->n_params};
    arena_init(&sh.scratch, u->arena.limits);
    sh.now = arena_new_array(&sh.scratch, uint32_t, code->n_slots);
    for (uint32_t i = 0; sh.now && i < code->n_slots; i++)
        sh.now[i] = i;
    if (code->self_slot != NO_SLOT)
        code->self_slot = sh.free.next++;
    sh.most = sh.free.next;
    if (sh.now)
        enter_block(&sh, &code->body);
    while (sh.stack.n) {
        SlotFrame *f = &vec_last(&sh.stack);
        if (f->step < f->block->steps.n)
            one_step(&sh, f, f->block->steps.at[f->step]);
        else
            sh.stack.n--;
    }
    if (sh.now)
        code->n_slots = sh.most;
    arena_deinit(&sh.scratch);
}
