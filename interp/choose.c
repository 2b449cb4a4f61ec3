/* What a step is run by, where its operands' types tell: chosen last of all, when every value has its place. A step that is watched is
 * run as its kind says, from the same operands. */
#include "interp/internal.h"

typedef struct Choosing {
    Interp *in;
    Unit *unit;
    Code *code;
    Arena scratch;
    Vec(CodeBlock *) blocks; /* that are still to be worked through */
} Choosing;

/* What was captured stands behind the slots, whose number is known now. */
static void place_captured(const Code *code, Operand *o)
{
    if (o->base == BASE_CAPTURED)
        o->at += captured_at(code);
}

static void place_operands(const Code *code, Step *s)
{
    uint32_t n = s->n + (s->kind == STEP_CALL || s->kind == STEP_TAIL_CALL);
    for (uint32_t i = 0; i < n; i++)
        place_captured(code, &s->args[i]);
    for (size_t i = 0; s->info && i < s->info->notes.n; i++)
        place_captured(code, &s->info->notes.at[i].at);
}

/* Where the bits of a value stand, in words of the frame. */
static uint32_t word_of(uint32_t at)
{
    return 2 * at + 1;
}

/* The first step of the block, without what need not be dropped. */
static const Step *front(CodeBlock *b)
{
    for (Step *s = b->first; s && s->kind == STEP_DROP; s = b->first) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < s->n; i++)
            if (s->args[i].known < KNOWN_SCALAR)
                s->args[n++] = s->args[i];
        s->n = n;
        if (n > 0)
            break;
        b->first = s->next;
    }
    return b->first;
}

static void set_branches(Step *s, const Step *branching)
{
    s->to[0] = front(&branching->blocks[0]);
    s->to[1] = front(&branching->blocks[1]);
}

/* ---- operations on two scalars ------------------------------------------------------------------- */

static bool is_constant(Operand o)
{
    return o.base == BASE_CONSTANTS;
}

static void choose_operation(Choosing *c, Step *s)
{
    DType dtypes[2];
    for (uint32_t i = 0; i < 2; i++) {
        if (s->n != 2 || s->args[i].known < KNOWN_SCALAR)
            return;
        dtypes[i] = dtype_of((DTypeId)(s->args[i].known - KNOWN_SCALAR));
    }
    ScalarOp op = site_scalar(c->in, s, dtypes);
    Operand a = s->args[op.swapped], b = s->args[!op.swapped];
    bool branches = s->kind == STEP_OP_IF;
    if (!op.run || (is_constant(a) && is_constant(b)) || (!branches && s->dest == NO_SLOT) ||
        (branches && !op.decides))
        return;
    uint16_t form = is_constant(b) ? FORM_SECOND : is_constant(a) ? FORM_FIRST : FORM_SLOTS;
    s->run = (uint16_t)(op.run + form + (branches ? SCALAR_FORMS : 0));
    s->a = word_of(a.at);
    s->b = word_of(b.at);
    if (form != FORM_SLOTS)
        s->constant = c->unit->constants.at[(form == FORM_SECOND ? b : a).at].bits;
    if (branches) {
        set_branches(s, s->next);
        return;
    }
    s->out = word_of(s->dest);
    s->head = op.head;
}

static void choose_if(Step *s)
{
    set_branches(s, s);
    if (is_constant(s->args[0]))
        return;
    s->a = word_of(s->args[0].at);
    s->run = RUN_IF;
}

/* ---- objects ------------------------------------------------------------------------------------- */

static void choose_object(Step *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->args[i].known == KNOWN_NOTHING)
            return;
    if (s->n == 0 || s->dest == NO_SLOT)
        return;
    s->head = known_head(s->kind == STEP_CON ? KNOWN_CON : KNOWN_TUPLE);
    s->run = RUN_OBJECT;
}

/* The fields that the clause names, and those that somebody must let go of. */
static void choose_fields(Choosing *c, const PatternCode *pattern, MatchCase *out)
{
    const PatternTest *t = &pattern->tests.at[0];
    out->fields = arena_new_array(&c->unit->arena, MatchField, t->n);
    for (uint32_t i = 0; out->fields && i < t->n; i++) {
        MatchField f = {.slot = NO_SLOT, .field = i};
        uint8_t known = t->con ? known_of(t->con->fields[i]) : KNOWN_NOTHING;
        for (size_t k = 0; k < pattern->binds.n; k++)
            if (pattern->binds.at[k].field == i) {
                known = pattern->binds.at[k].known;
                f.slot = pattern->binds.at[k].slot;
            }
        f.head = known_head(known);
        if (f.slot != NO_SLOT || known < KNOWN_SCALAR)
            out->fields[out->n++] = f;
    }
}

/* The most constructors that are told apart by the tag in an object's first word. */
#define CASES_MOST FORM_TAG_MOST

/* How many constructors there are, when each clause looks at one object or none; 0 otherwise. */
static uint32_t count_cases(const Step *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_blocks; i++) {
        const PatternCode *p = &s->patterns[i];
        if (p->is_var)
            continue;
        const Constructor *con = p->tests.at[0].con;
        if (p->tests.n > 1 || (con && con->type->n_cons > CASES_MOST))
            return 0;
        n = con ? con->type->n_cons : 1;
    }
    return n;
}

/* For each constructor its first clause, unless that takes any value. */
static void choose_match(Choosing *c, Step *s)
{
    uint32_t n = count_cases(s);
    MatchCase *cases = n > 0 ? arena_new_array(&c->unit->arena, MatchCase, n) : NULL;
    bool any = false;
    for (uint32_t i = 0; i < s->n_blocks; i++)
        front(&s->blocks[i]);
    for (uint32_t i = 0; cases && i < s->n_blocks && !any; i++) {
        const PatternCode *p = &s->patterns[i];
        any = p->is_var;
        MatchCase *at = any ? NULL : &cases[p->tests.at[0].con ? p->tests.at[0].con->index : 0];
        if (!at || at->first)
            continue;
        at->first = s->blocks[i].first;
        choose_fields(c, p, at);
    }
    if (!cases || is_constant(s->args[0]))
        return;
    s->cases = cases;
    s->a = word_of(s->args[0].at);
    s->run = RUN_MATCH;
}

/* ---- tail calls ------------------------------------------------------------------------------------ */

/* Whether another of the arguments that still wait is to be read in the slot. */
static bool is_read(const Step *s, const bool *waits, uint32_t slot)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (waits[i] && i != slot && s->args[i].base == BASE_SLOTS && s->args[i].at == slot)
            return true;
    return false;
}

/* The order in which the arguments can go to the first slots, none overwriting what another one needs; none for those that stand there
 * already. When two would change places they go the long way. */
static void choose_again(Choosing *c, Step *s)
{
    bool *waits = arena_new_array(&c->scratch, bool, s->n + 1);
    Move *moves = arena_new_array(&c->unit->arena, Move, s->n + 1);
    uint32_t n = 0, left = 0;
    for (uint32_t i = 0; waits && moves && i < s->n; i++) {
        Operand o = s->args[i];
        bool stays = o.base == BASE_SLOTS && o.at == i;
        if (stays && !o.last && o.known < KNOWN_SCALAR)
            return;
        waits[i] = !stays;
        left += !stays;
    }
    for (bool found = true; found && left > 0;) {
        found = false;
        for (uint32_t i = 0; i < s->n; i++) {
            if (!waits[i] || is_read(s, waits, i))
                continue;
            moves[n++] = (Move){s->args[i], i};
            waits[i] = false;
            left--;
            found = true;
        }
    }
    if (left > 0 || !waits || !moves)
        return;
    s->moves = moves;
    s->a = n;
    s->run = RUN_AGAIN;
}

static void choose_return(Step *s)
{
    Operand o = s->args[0];
    if (o.known < KNOWN_SCALAR || is_constant(o))
        return;
    s->a = word_of(o.at);
    s->head = known_head(o.known);
    s->run = RUN_RETURN;
}

/* ---- the whole ------------------------------------------------------------------------------------- */

static void note_counted(Code *code, uint32_t slot, uint8_t known)
{
    if (slot != NO_SLOT && known < KNOWN_SCALAR && code->n_counted <= slot)
        code->n_counted = slot + 1;
}

static void note_results(Code *code, const Step *s)
{
    note_counted(code, s->dest, s->known);
    for (uint32_t i = 0; s->kind == STEP_MATCH && i < s->n_blocks; i++)
        for (size_t k = 0; k < s->patterns[i].binds.n; k++)
            note_counted(code, s->patterns[i].binds.at[k].slot, s->patterns[i].binds.at[k].known);
}

static void choose(Choosing *c, Step *s)
{
    s->run = s->kind;
    place_operands(c->code, s);
    note_results(c->code, s);
    for (uint32_t i = 0; i < s->n_blocks && (s->kind == STEP_IF || s->kind == STEP_MATCH); i++)
        vec_push(&c->blocks, &c->scratch, &s->blocks[i]);
    switch ((StepKind)s->kind) {
    case STEP_OP:
    case STEP_OP_IF: choose_operation(c, s); break;
    case STEP_IF: choose_if(s); break;
    case STEP_MATCH: choose_match(c, s); break;
    case STEP_CON:
    case STEP_TUPLE: choose_object(s); break;
    case STEP_TAIL_GLOBAL: choose_again(c, s); break;
    case STEP_RETURN: choose_return(s); break;
    default: break;
    }
}

void code_choose_runs(Interp *in, Unit *u, Code *code)
{
    Choosing c = {.in = in, .unit = u, .code = code};
    code->constants = u->constants.at;
    if (code == u->codes.at[0])
        code->cost = u->steps;
    code->n_counted = code->n_params;
    note_counted(code, code->self_slot, KNOWN_FUNCTION);
    code->frame_bytes =
        (uint32_t)(sizeof(Frame) + (captured_at(code) + code->captured.n) * sizeof(Value));
    arena_init(&c.scratch, u->arena.limits);
    vec_push(&c.blocks, &c.scratch, &code->body);
    while (c.blocks.n) {
        CodeBlock *b = vec_pop(&c.blocks);
        front(b);
        for (Step *s = b->first; s; s = s->next)
            choose(&c, s);
    }
    arena_deinit(&c.scratch);
}
