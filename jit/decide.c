/* Which clause of a match takes a value, found by reading each tag once on each way.
 *
 * A state is the clauses that the value may still fit, in their order, and what is known of the places that they look at. It reads the
 * first place of its first clause that is not known, and goes on in one state for each constructor that a clause names there, and in one
 * for all others. States that come to the same are one. So the clauses behind a test that fails begin with what was found out. */
#include "jit/internal.h"

#include <string.h>

/* Patterns that look at ever other places can have ever other states: beyond so many for each clause, clauses are tried one by one. */
#define STATES_MOST 16

#define PATTERN_DEPTH_MOST 200

/* A field, of constructors or tuples that lie in each other; the outermost are the values that are matched. */
typedef struct Place {
    const struct Place *in; /* NULL: a value that is matched */
    uint32_t at; /* which field, or which value */
    const Constructor *of; /* that the field is of; NULL: a tuple */
    const Type *type;
    uint32_t number;
} Place;

typedef struct Test {
    const Place *place;
    const Constructor *con;
} Test;

typedef Vec(Test) Tests;

typedef struct State {
    uint32_t n; /* clauses that the value may fit */
    uint32_t *live;
    const Constructor **known; /* by place; NULL: nothing, or it does not matter any more */
    LLVMBasicBlockRef block;
} State;

typedef struct Decision {
    Fn *f;
    const Match *e;
    const Ssa *values;
    const LLVMBasicBlockRef *clauses;
    Vec(Place *) places;
    Tests *tests; /* of each clause */
    Vec(State *) states;
    size_t most;
} Decision;

const Type *pattern_field_type(Fn *f, const Pattern *p, const Type *type, uint32_t i)
{
    if (p->kind == PATTERN_TUPLE)
        return type->parts[i];
    const TypeDef *def = p->con->type;
    return type_subst(f->g->cx, p->con->fields[i], def->n_params, def->params, type->parts);
}

/* ---- what clauses look at ------------------------------------------------------------------------------------------ */

static const Place *place_at(Decision *d, const Place *in, const Constructor *of, uint32_t at,
                             const Type *type)
{
    for (size_t i = 0; i < d->places.n; i++) {
        const Place *p = d->places.at[i];
        if (p->in == in && p->of == of && p->at == at)
            return p;
    }
    Place *p = arena_new(d->f->g->arena, Place);
    *p = (Place){in, at, of, type, (uint32_t)d->places.n};
    vec_push(&d->places, d->f->g->arena, p);
    return p;
}

static bool is_test(const Pattern *p)
{
    return p && (p->kind == PATTERN_CON || p->kind == PATTERN_TUPLE);
}

static void note_tests(Decision *d, uint32_t clause, const Pattern *p, const Place *place,
                       int depth)
{
    if (depth > PATTERN_DEPTH_MOST) {
        gen_refuse(d->f->g, "a pattern that is nested too deeply");
        return;
    }
    const Constructor *con = p->kind == PATTERN_CON ? p->con : NULL;
    if (con && con->type->n_cons > 1)
        vec_push(&d->tests[clause], d->f->g->arena, ((Test){place, con}));
    for (uint32_t i = 0; i < p->n; i++)
        if (is_test(p->fields[i]))
            note_tests(d, clause, p->fields[i],
                       place_at(d, place, con, i, pattern_field_type(d->f, p, place->type, i)),
                       depth + 1);
}

/* ---- states ----------------------------------------------------------------------------------------------------------- */

/* The first of the clause's tests of which nothing is known; NULL: it takes the value. */
static const Test *open_test(const Decision *d, const State *s, uint32_t clause)
{
    for (size_t i = 0; i < d->tests[clause].n; i++)
        if (!s->known[d->tests[clause].at[i].place->number])
            return &d->tests[clause].at[i];
    return NULL;
}

/* What the clause wants of the place; NULL: nothing. */
static const Constructor *wanted(const Decision *d, uint32_t clause, const Place *place)
{
    for (size_t i = 0; i < d->tests[clause].n; i++)
        if (d->tests[clause].at[i].place == place)
            return d->tests[clause].at[i].con;
    return NULL;
}

/* What no clause looks at any more is forgotten, so that equal states are found to be. */
static void forget(const Decision *d, State *s, const Constructor *const *known)
{
    for (uint32_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < d->tests[s->live[i]].n; k++) {
            uint32_t place = d->tests[s->live[i]].at[k].place->number;
            s->known[place] = known[place];
        }
}

static bool same_state(const Decision *d, const State *a, const State *b)
{
    return a->n == b->n && memcmp(a->live, b->live, a->n * sizeof *a->live) == 0 &&
           memcmp(a->known, b->known, d->places.n * sizeof *a->known) == 0;
}

static State *state_new(const Decision *d)
{
    Arena *a = d->f->g->arena;
    State *s = arena_new(a, State);
    s->live = arena_new_array(a, uint32_t, d->e->clauses.n + 1);
    s->known = arena_new_array(a, const Constructor *, d->places.n + 1);
    return s;
}

/* Where the state's code begins: with a clause that takes the value, or with a test. */
static LLVMBasicBlockRef enter(Decision *d, State *s)
{
    if (s->n == 0)
        return d->clauses[d->e->clauses.n];
    if (!open_test(d, s, s->live[0]))
        return d->clauses[s->live[0]];
    for (size_t i = 0; i < d->states.n; i++)
        if (same_state(d, d->states.at[i], s))
            return d->states.at[i]->block;
    s->block = gen_block(d->f->g, d->f->fn, "decide");
    vec_push(&d->states, d->f->g->arena, s);
    return s->block;
}

/* Where it goes on when the place has the constructor (NULL: none that a clause names); NULL: no value comes there. */
static LLVMBasicBlockRef found(Decision *d, const State *s, const Place *place,
                               const Constructor *con)
{
    State *next = state_new(d);
    const Constructor *before = s->known[place->number];
    s->known[place->number] = con;
    for (uint32_t i = 0; i < s->n; i++) {
        const Constructor *want = wanted(d, s->live[i], place);
        if (want && want != con)
            continue;
        next->live[next->n++] = s->live[i];
        if (!open_test(d, s, s->live[i])) /* it takes what comes to it */
            break;
    }
    forget(d, next, s->known);
    s->known[place->number] = before;
    return enter(d, next);
}

static Ssa value_at(const Decision *d, const Place *p)
{
    return p->in ? fn_get_field(d->f, value_at(d, p->in), p->at, repr_of(p->type))
                 : d->values[p->at];
}

static void decide(Decision *d, const State *s)
{
    Gen *g = d->f->g;
    const Place *place = open_test(d, s, s->live[0])->place;
    Vec(const Constructor *) cons = {0};
    uint32_t n_cons = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const Constructor *con = wanted(d, s->live[i], place);
        bool met = !con;
        for (size_t k = 0; k < cons.n && !met; k++)
            met = cons.at[k] == con;
        if (!met) {
            vec_push(&cons, g->arena, con);
            n_cons = con->type->n_cons;
        }
    }
    LLVMBasicBlockRef other = cons.n < n_cons ? found(d, s, place, NULL) : NULL;
    size_t cases = cons.n - !other; /* the last is what the others leave */
    if (d->f->ways < cons.n)
        d->f->ways = cons.n;
    if (!other)
        other = found(d, s, place, cons.at[cases]);
    Ssa chosen =
        LLVMBuildSwitch(g->b, fn_tag(d->f, value_at(d, place), n_cons), other, (unsigned)cases);
    for (size_t i = 0; i < cases; i++)
        LLVMAddCase(chosen, gen_int(g->i32, cons.at[i]->index), found(d, s, place, cons.at[i]));
}

/* The first clause alone; what does not fit it goes on with the others, of which nothing is known. */
static void try_clause(Decision *d, const State *s)
{
    Gen *g = d->f->g;
    State *rest = state_new(d);
    for (uint32_t i = s->live[0] + 1; i < d->e->clauses.n; i++)
        rest->live[rest->n++] = i;
    LLVMBasicBlockRef next = enter(d, rest);
    for (size_t i = 0; next && i < d->tests[s->live[0]].n; i++) {
        Test t = d->tests[s->live[0]].at[i];
        LLVMBasicBlockRef fits = gen_block(g, d->f->fn, t.con->name->text);
        Ssa tag = fn_tag(d->f, value_at(d, t.place), t.con->type->n_cons);
        Ssa same = LLVMBuildICmp(g->b, LLVMIntEQ, tag, gen_int(g->i32, t.con->index), "");
        LLVMBuildCondBr(g->b, same, fits, next);
        LLVMPositionBuilderAtEnd(g->b, fits);
    }
    LLVMBuildBr(g->b, d->clauses[s->live[0]]);
}

void fn_decide(Fn *f, const Match *e, uint32_t n, const Type *const *types, const Ssa *values,
               const LLVMBasicBlockRef *clauses)
{
    Gen *g = f->g;
    uint32_t n_clauses = e->clauses.n;
    Decision d = {.f = f, .e = e, .values = values, .clauses = clauses};
    d.tests = arena_new_array(g->arena, Tests, n_clauses + 1);
    for (uint32_t i = 0; i < n_clauses; i++)
        for (uint32_t k = 0; k < n; k++) {
            const Pattern *p = match_pattern(e, i, k);
            if (is_test(p))
                note_tests(&d, i, p, place_at(&d, NULL, NULL, k, types[k]), 0);
        }
    d.most = (size_t)STATES_MOST * (n_clauses + 1);
    State *first = state_new(&d);
    while (first->n < n_clauses) {
        first->live[first->n] = first->n;
        if (!open_test(&d, first, first->n++))
            break;
    }
    LLVMBuildBr(g->b, enter(&d, first));
    for (size_t i = 0; i < d.states.n && !gen_ended(g); i++) {
        LLVMPositionBuilderAtEnd(g->b, d.states.at[i]->block);
        if (d.states.n > d.most)
            try_clause(&d, d.states.at[i]);
        else
            decide(&d, d.states.at[i]);
    }
}
