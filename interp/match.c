#include "interp/internal.h"

#include "runtime/show.h"

typedef struct Node {
    const Pattern *pattern;
    uint32_t parent, field;
} Node;

/* Fields are tested left to right, each after the node it lies in; what matches anything is left out. */
void pattern_compile(Unit *u, const Pattern *p, PatternCode *out,
                     uint32_t (*slot_of)(void *data, Var *v), void *data)
{
    Arena scratch;
    Vec(Node) nodes = {0};
    arena_init(&scratch, u->arena.limits);
    vec_push(&nodes, &scratch, ((Node){p, 0, 0}));
    while (nodes.n) {
        Node at = vec_pop(&nodes);
        if (at.pattern->kind == PATTERN_WILDCARD)
            continue;
        PatternTest test = {.parent = at.parent, .field = at.field, .bind = NO_SLOT};
        if (at.pattern->kind == PATTERN_CON)
            test.con = at.pattern->con->info;
        if (at.pattern->kind == PATTERN_VAR)
            test.bind = slot_of(data, at.pattern->var);
        uint32_t number = (uint32_t)out->tests.n;
        vec_push(&out->tests, &u->arena, test);
        bool inner = at.pattern->kind == PATTERN_CON || at.pattern->kind == PATTERN_TUPLE;
        for (uint32_t i = inner ? at.pattern->n : 0; i-- > 0;)
            vec_push(&nodes, &scratch, ((Node){at.pattern->fields[i], number, i}));
    }
    if (u->most_tests < out->tests.n)
        u->most_tests = (uint32_t)out->tests.n;
    arena_deinit(&scratch);
}

/* Where each tested value stands goes to `places`. */
static bool fits(const PatternCode *pattern, const Value *scrutinee, const Value **places)
{
    for (size_t i = 0; i < pattern->tests.n; i++) {
        const PatternTest *t = &pattern->tests.at[i];
        const Value *v = i == 0 ? scrutinee : &places[t->parent]->object->fields[t->field];
        if (t->con && v->object->info != t->con)
            return false;
        places[i] = v;
    }
    return true;
}

static void bind(Interp *in, const PatternCode *pattern)
{
    for (size_t i = 0; i < pattern->tests.n; i++) {
        uint32_t slot = pattern->tests.at[i].bind;
        if (slot != NO_SLOT)
            in->bases[BASE_SLOTS][slot] = value_retain(*in->places[i]);
    }
}

static void report(Interp *in, const Step *s, Value v)
{
    Buf text = {0};
    value_show(&text, v, (ShowStyle){.elements = 20, .list = 20, .exact = true});
    Diag *d =
        diag_error(in->cx->diags, E0301_NO_MATCH, s->span, "no clause of the match fits the value");
    diag_note(d, "the value is %s", buf_text(&text));
    buf_deinit(&text);
}

const Step *match_run(Interp *in, const Step *s)
{
    const Value *v = operand_at(in, s->args[0]);
    for (uint32_t i = 0; i < s->n_blocks; i++) {
        if (!fits(&s->patterns[i], v, in->places))
            continue;
        bind(in, &s->patterns[i]);
        operand_done(in, s->args[0]);
        return s->blocks[i].first;
    }
    report(in, s, *v);
    return NULL;
}
