#include "interp/internal.h"

#include "runtime/show.h"

typedef struct Node {
    const Pattern *pattern;
    uint32_t parent, field;
} Node;

/* Fields are tested left to right, each after the node it lies in. */
void pattern_compile(Unit *u, const Pattern *p, PatternCode *out,
                     uint32_t (*slot_of)(void *data, Var *v), void *data)
{
    Arena scratch;
    Vec(Node) nodes = {0};
    arena_init(&scratch, u->arena.limits);
    out->span = p->span;
    out->is_var = p->kind == PATTERN_VAR || p->kind == PATTERN_WILDCARD;
    vec_push(&nodes, &scratch, ((Node){p, 0, 0}));
    while (nodes.n) {
        Node at = vec_pop(&nodes);
        if (at.pattern->kind == PATTERN_WILDCARD)
            continue;
        if (at.pattern->kind == PATTERN_VAR) {
            Var *v = at.pattern->var;
            PatternBind bind = {v, slot_of(data, v), at.parent, at.field, known_of(v->base.type)};
            vec_push(&out->binds, &u->arena, bind);
            continue;
        }
        const Constructor *con = at.pattern->kind == PATTERN_CON ? at.pattern->con : NULL;
        uint32_t number = (uint32_t)out->tests.n;
        vec_push(&out->tests, &u->arena, ((PatternTest){con, at.pattern->n, at.parent, at.field}));
        for (uint32_t i = at.pattern->n; i-- > 0;)
            vec_push(&nodes, &scratch, ((Node){at.pattern->fields[i], number, i}));
    }
    if (u->most_tests < out->tests.n)
        u->most_tests = (uint32_t)out->tests.n;
    arena_deinit(&scratch);
}

/* The most tests and clauses of a match by the tags: finding out takes the square of that. */
#define DECIDED_MOST 256

const MatchDecision *pattern_decide(Unit *u, const Match *e, const PatternCode *patterns)
{
    size_t tests = 0;
    for (uint32_t i = 0; i < e->clauses.n; i++)
        tests += patterns[i].tests.n;
    if (e->clauses.n > DECIDED_MOST || tests > DECIDED_MOST)
        return NULL;
    MatchDecision *d = arena_new(&u->arena, MatchDecision);
    return match_decide(&u->arena, e, d) ? d : NULL;
}

/* The objects that were tested go to `held`. */
static inline bool fits(const PatternCode *pattern, Object *scrutinee, Held *held)
{
    const PatternTest *t = pattern->tests.at;
    for (size_t i = 0; i < pattern->tests.n; i++, t++) {
        Object *o = i == 0 ? scrutinee : held[t->parent].object->fields[t->field].object;
        if (t->con && object_form(o)->info != t->con->info)
            return false;
        held[i].object = o;
    }
    return true;
}

/* A field of an object of the form, lent. */
static inline Value field_of(const Object *o, const ObjectForm *form, uint32_t i)
{
    Value v;
    value_put(&v, form->heads[i], o->fields[i].bits);
    return v.kind > VALUE_SCALAR && v.bits == 0 ? value_none() : v;
}

/* The scrutinee's own fields need not be retained when it goes at once and with it what held them. */
static inline void bind(Interp *in, const PatternCode *pattern, bool dies)
{
    const PatternBind *b = pattern->binds.at;
    const Object *last = NULL;
    const ObjectForm *form = NULL;
    for (size_t i = 0; i < pattern->binds.n; i++, b++) {
        if (b->slot == NO_SLOT)
            continue;
        Object *o = in->held[b->parent].object;
        form = o == last ? form : object_form(o);
        last = o;
        Value field = field_of(o, form, b->field);
        if (dies && b->parent == 0)
            o->fields[b->field].bits = 0;
        else
            value_retain(field);
        in->frame->slots[b->slot] = field;
    }
}

static void report(Interp *in, const Step *s, Value v)
{
    Buf text = {0};
    value_show(&text, v, (ShowStyle){.elements = 20, .list = 20, .exact = true});
    Diag *d =
        diag_error(in->cx->diags, E0301_NO_MATCH, s->span, "no clause of the match fits the value");
    diag_note(d, "the value is %s", buf_text(&text));
    diag_help(d, "add a clause for it: `match` without `?` is checked for missing ones");
    buf_deinit(&text);
}

const Step *match_run(Interp *in, const Step *s)
{
    const Value v = *operand_at(in, s->args[0]);
    for (uint32_t i = 0; i < s->n_blocks; i++) {
        const PatternCode *pattern = &s->patterns[i];
        if (pattern->is_var) {
            if (pattern->binds.n && pattern->binds.at[0].slot != NO_SLOT)
                in->frame->slots[pattern->binds.at[0].slot] = value_retain(v);
        } else if (fits(pattern, v.object, in->held)) {
            bind(in, pattern, s->args[0].last && v.object->refs == 1);
        } else {
            continue;
        }
        operand_done(in->frame, s->args[0]);
        return s->blocks[i].first;
    }
    report(in, s, v);
    return NULL;
}
