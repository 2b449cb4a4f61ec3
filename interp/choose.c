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
    if (s->n == 0 || s->n > 2)
        return;
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->args[i].known < KNOWN_SCALAR)
            return;
        dtypes[i] = dtype_of((DTypeId)(s->args[i].known - KNOWN_SCALAR));
    }
    ScalarOp op = site_scalar(c->in, s, dtypes);
    bool alone = s->n == 1; /* with zero */
    Operand a = s->args[op.swapped], b = s->args[alone ? 0 : !op.swapped];
    bool branches = s->kind == STEP_OP_IF, second = alone || is_constant(b);
    if (!op.run || (is_constant(a) && second) || (!branches && s->dest == NO_SLOT) ||
        (branches && !op.decides))
        return;
    uint16_t form = second ? FORM_SECOND : is_constant(a) ? FORM_FIRST : FORM_SLOTS;
    s->run = (uint16_t)(op.run + form + (branches ? SCALAR_FORMS : 0));
    s->a = word_of(a.at);
    s->b = word_of(b.at);
    if (form != FORM_SLOTS)
        s->constant = alone ? 0 : c->unit->constants.at[(form == FORM_SECOND ? b : a).at].bits;
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

static bool are_known(const Step *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->args[i].known == KNOWN_NOTHING)
            return false;
    return s->dest != NO_SLOT;
}

/* Whether the step behind it returns what it makes. */
static bool is_returned(const Step *s)
{
    const Step *r = s->next;
    return r && r->kind == STEP_RETURN && r->args[0].base == BASE_SLOTS &&
           r->args[0].at == s->dest && r->args[0].last;
}

static void choose_object(Step *s)
{
    if (!are_known(s) || s->n == 0)
        return;
    s->head = known_head(s->kind == STEP_CON ? KNOWN_CON : KNOWN_TUPLE);
    s->run = is_returned(s) ? RUN_RETURN_OBJECT : RUN_OBJECT;
}

static void choose_closure(Step *s)
{
    if (!are_known(s))
        return;
    s->head = known_head(KNOWN_FUNCTION);
    s->run = is_returned(s) ? RUN_RETURN_CLOSURE : RUN_CLOSURE;
}

/* ---- matches ------------------------------------------------------------------------------------- */

/* What the clause wants of each field of the objects that it takes apart, by the tests of these; NULL: memory is refused. */
static MatchField **wanted_fields(Choosing *c, const PatternCode *p)
{
    MatchField **wanted = arena_new_array(&c->scratch, MatchField *, p->tests.n);
    for (size_t k = 0; wanted && k < p->tests.n; k++) {
        const PatternTest *t = &p->tests.at[k];
        wanted[k] = arena_new_array(&c->scratch, MatchField, t->n);
        if (!wanted[k])
            return NULL;
        for (uint32_t i = 0; i < t->n; i++) {
            uint8_t known = t->con ? known_of(t->con->fields[i]) : KNOWN_NOTHING;
            wanted[k][i] = (MatchField){.slot = NO_SLOT, .field = i, .head = known_head(known)};
        }
        if (k > 0)
            wanted[t->parent][t->field].part = (uint32_t)k;
    }
    for (size_t k = 0; wanted && k < p->binds.n; k++) {
        const PatternBind *b = &p->binds.at[k];
        wanted[b->parent][b->field].slot = b->slot;
        wanted[b->parent][b->field].head = known_head(b->known);
    }
    return wanted;
}

typedef enum FieldGroup {
    FIELD_PART,
    FIELD_SCALAR,
    FIELD_BOUND,
    FIELD_LEFT,
    FIELD_NOTHING
} FieldGroup;

static FieldGroup group_of(const MatchField *f)
{
    bool scalar = (uint32_t)f->head == VALUE_SCALAR;
    if (f->part > 0)
        return FIELD_PART;
    if (f->slot == NO_SLOT)
        return scalar ? FIELD_NOTHING : FIELD_LEFT;
    return scalar ? FIELD_SCALAR : FIELD_BOUND;
}

/* The fields that the clause names, and those that somebody must let go of. */
static MatchPart part_of(Choosing *c, const MatchField *wanted, uint32_t n)
{
    MatchPart part = {.fields = arena_new_array(&c->unit->arena, MatchField, n)};
    uint32_t *ends[] = {&part.parts, &part.scalars, &part.bound, &part.n};
    for (uint32_t group = FIELD_PART; part.fields && group < FIELD_NOTHING; group++) {
        for (uint32_t i = 0; i < n; i++)
            if (group_of(&wanted[i]) == group)
                part.fields[part.n++] = wanted[i];
        *ends[group] = part.n;
    }
    return part;
}

static MatchCase clause_case(Choosing *c, const Step *s, uint32_t clause)
{
    const PatternCode *p = &s->patterns[clause];
    MatchCase to = {.first = s->blocks[clause].first, .slot = NO_SLOT, .any = p->is_var};
    if (p->is_var) {
        to.slot = p->binds.n > 0 ? p->binds.at[0].slot : NO_SLOT;
        return to;
    }
    MatchField **wanted = wanted_fields(c, p);
    if (!wanted)
        return to;
    to.whole = part_of(c, wanted[0], p->tests.at[0].n);
    to.n_others = (uint32_t)p->tests.n - 1;
    to.others = arena_new_array(&c->unit->arena, MatchPart, to.n_others);
    for (uint32_t i = 0; to.others && i < to.n_others; i++)
        to.others[i] = part_of(c, wanted[i + 1], p->tests.at[i + 1].n);
    return to;
}

typedef struct MatchChoosing {
    Choosing *c;
    const Step *tuple; /* which is not made; NULL: there is a value */
    MatchCase *reads; /* by choice */
    MatchCase *clauses; /* behind the last: none */
    bool failed;
} MatchChoosing;

/* The way from the value that is matched to the place. */
static void set_path(MatchChoosing *m, MatchCase *read, const MatchPlace *place)
{
    uint32_t depth = 0;
    for (const MatchPlace *p = place; p->in; p = p->in) {
        if (p->in->in || !m->tuple) {
            depth++;
            continue;
        }
        Operand o = m->tuple->args[p->at];
        m->failed |= is_constant(o);
        read->from = word_of(o.at);
    }
    m->failed |= depth > PATH_MOST;
    if (m->failed)
        return;
    read->depth = (uint8_t)depth;
    for (const MatchPlace *p = place; depth > 0; p = p->in) {
        m->failed |= p->at > UINT8_MAX;
        read->path[--depth] = (uint8_t)p->at;
    }
}

static MatchCase case_of(const MatchChoosing *m, MatchGoal to)
{
    return to.choice ? m->reads[to.choice->number] : m->clauses[to.clause];
}

/* The most constructors that are told apart by the tag in an object's first word. */
#define CASES_MOST FORM_TAG_MOST

/* The most cases of all the tags that one match reads. */
#define CASES_ALL_MOST 4096

/* So many tags are compared one by one: a processor guesses how that ends and goes on, where it would wait for what stands in a table. */
#define COMPARED_MOST 8

static uint32_t count_constructors(const MatchChoice *choice)
{
    return choice->ways.at[0].con->type->n_cons;
}

static bool is_by_tag(const MatchChoice *choice)
{
    return choice->ways.n > COMPARED_MOST;
}

static size_t count_cases(const MatchChoice *choice)
{
    return is_by_tag(choice) ? count_constructors(choice) : choice->ways.n + 1;
}

static bool is_small(const MatchDecision *d)
{
    size_t all = 0;
    for (size_t i = 0; i < d->choices.n; i++) {
        all += count_cases(d->choices.at[i]);
        if (count_constructors(d->choices.at[i]) > CASES_MOST || all > CASES_ALL_MOST)
            return false;
    }
    return true;
}

static void set_cases(const MatchChoosing *m, const MatchChoice *choice, MatchCase *cases)
{
    size_t n = choice->ways.n;
    bool by_tag = is_by_tag(choice);
    for (size_t i = 0; by_tag && i < count_cases(choice); i++)
        cases[i] = case_of(m, choice->other);
    for (size_t i = 0; i < n; i++) {
        const MatchWay *way = &choice->ways.at[i];
        MatchCase *to = &cases[by_tag ? way->con->index : i];
        *to = case_of(m, way->to);
        to->tag = (uint8_t)way->con->index;
        to->more = i + 1 < n || n < count_constructors(choice);
    }
    if (!by_tag && n < count_constructors(choice))
        cases[n] = case_of(m, choice->other);
}

/* Where a match of the value, or of the operands of the tuple, begins; NULL: it goes as its kind says. */
static const MatchCase *match_case(Choosing *c, const Step *s, const Step *tuple)
{
    const MatchDecision *d = s->decision;
    if (!d || !is_small(d) || (!d->first.choice && s->patterns[d->first.clause].is_var))
        return NULL;
    Arena *a = &c->unit->arena;
    size_t n = d->choices.n;
    MatchChoosing m = {.c = c,
                       .tuple = tuple,
                       .reads = arena_new_array(&c->scratch, MatchCase, n + 1),
                       .clauses = arena_new_array(&c->scratch, MatchCase, s->n_blocks + 1)};
    MatchCase **cases = arena_new_array(&c->scratch, MatchCase *, n + 1);
    MatchCase *first = arena_new(a, MatchCase);
    m.failed = !m.reads || !m.clauses || !cases;
    for (size_t i = 0; i < n && !m.failed; i++) {
        cases[i] = arena_new_array(a, MatchCase, count_cases(d->choices.at[i]));
        m.failed = !cases[i];
        m.reads[i].cases = cases[i];
        m.reads[i].by_tag = is_by_tag(d->choices.at[i]);
        set_path(&m, &m.reads[i], d->choices.at[i]->place);
    }
    if (m.failed)
        return NULL;
    for (uint32_t i = 0; i < s->n_blocks; i++)
        m.clauses[i] = clause_case(c, s, i);
    for (size_t i = 0; i < n; i++)
        set_cases(&m, d->choices.at[i], cases[i]);
    *first = case_of(&m, d->first);
    return first;
}

static void front_blocks(Step *s)
{
    for (uint32_t i = 0; i < s->n_blocks; i++)
        front(&s->blocks[i]);
}

static void choose_match(Choosing *c, Step *s)
{
    front_blocks(s);
    const MatchCase *first = is_constant(s->args[0]) ? NULL : match_case(c, s, NULL);
    if (!first)
        return;
    s->cases = first;
    s->a = word_of(s->args[0].at);
    s->run = RUN_MATCH;
}

/* The most fields of a tuple that is not made. */
#define FIELDS_MOST 16

/* No slot is among the operands twice: what one of them gives up another would lend. */
static bool are_different(const Step *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (s->args[i].base == BASE_SLOTS && s->args[k].base == BASE_SLOTS &&
                s->args[i].at == s->args[k].at)
                return false;
    return true;
}

/* Whether the tuple is only made to be matched, by the step behind it. */
static bool is_for_match(const Step *s)
{
    const Step *m = s->next;
    if (s->n > FIELDS_MOST || !are_different(s))
        return false;
    if (!m || m->kind != STEP_MATCH || s->dest == NO_SLOT || m->args[0].base != BASE_SLOTS ||
        m->args[0].at != s->dest || !m->args[0].last)
        return false;
    for (uint32_t i = 0; i < m->n_blocks; i++)
        if (m->patterns[i].is_var && m->patterns[i].binds.n > 0 &&
            m->patterns[i].binds.at[0].slot != NO_SLOT)
            return false;
    return true;
}

static void choose_tuple(Choosing *c, Step *s)
{
    if (!is_for_match(s)) {
        choose_object(s);
        return;
    }
    front_blocks(s->next);
    const MatchCase *first = match_case(c, s->next, s);
    if (!first) {
        choose_object(s);
        return;
    }
    s->cases = first;
    s->run = RUN_MATCH_FIELDS;
}

static void choose_get(Step *s)
{
    if (s->known == KNOWN_NOTHING || s->dest == NO_SLOT || is_constant(s->args[0]))
        return;
    s->head = known_head(s->known);
    s->run = RUN_GET;
}

/* ---- tail calls ------------------------------------------------------------------------------------ */

/* Whether the argument stands already where it goes. */
static bool stays(const Step *s, uint32_t i)
{
    return s->args[i].base == BASE_SLOTS && s->args[i].at == i;
}

/* Of several that read one slot the last takes what is in it, in the order that they have now. */
static void order_last(Choosing *c, Move *moves, uint32_t n)
{
    bool *taken = arena_new_array(&c->scratch, bool, captured_at(c->code));
    for (uint32_t i = 0; taken && i < n; i++)
        if (moves[i].from.base == BASE_SLOTS)
            taken[moves[i].from.at] |= moves[i].from.last;
    for (uint32_t i = n; taken && i-- > 0;) {
        Operand *o = &moves[i].from;
        if (o->base != BASE_SLOTS)
            continue;
        o->last = taken[o->at];
        taken[o->at] = false;
    }
}

/* The order in which the arguments can go to the first slots, none overwriting what another one needs; none for those that stand there
 * already. When two would change places they go the long way. */
static void choose_again(Choosing *c, Step *s)
{
    uint32_t *readers = arena_new_array(&c->scratch, uint32_t, captured_at(c->code)); /* by slot */
    uint32_t *ready = arena_new_array(&c->scratch, uint32_t, s->n + 1);
    Move *moves = arena_new_array(&c->unit->arena, Move, s->n + 1);
    uint32_t n = 0, n_ready = 0, left = 0;
    if (!readers || !ready || !moves)
        return;
    for (uint32_t i = 0; i < s->n; i++) {
        Operand o = s->args[i];
        if (stays(s, i) && !o.last && o.known < KNOWN_SCALAR)
            return;
        if (stays(s, i))
            continue;
        left++;
        if (o.base == BASE_SLOTS)
            readers[o.at]++;
    }
    for (uint32_t i = s->n; i-- > 0;)
        if (!stays(s, i) && readers[i] == 0)
            ready[n_ready++] = i;
    while (n_ready > 0) {
        uint32_t to = ready[--n_ready];
        Operand o = s->args[to];
        moves[n++] = (Move){o, to};
        if (o.base == BASE_SLOTS && --readers[o.at] == 0 && o.at < s->n && !stays(s, o.at))
            ready[n_ready++] = o.at;
    }
    if (n < left)
        return;
    order_last(c, moves, n);
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
    case STEP_CON: choose_object(s); break;
    case STEP_TUPLE: choose_tuple(c, s); break;
    case STEP_CLOSURE: choose_closure(s); break;
    case STEP_GET: choose_get(s); break;
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
