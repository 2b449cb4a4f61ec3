#include "ir/decide.h"

#include "base/limit.h"

#include <string.h>

/* Patterns that look at ever other places can have ever other states: beyond so many for each clause, clauses are tried one by one. */
#define STATES_MOST 16

#define PATTERN_DEPTH_MOST 200

typedef struct Test {
    const MatchPlace *place;
    const Constructor *con;
} Test;

typedef Vec(Test) Tests;

typedef struct State {
    uint32_t n; /* clauses that the value may fit */
    uint32_t *live;
    const Constructor **known; /* by place; NULL: nothing, or it does not matter any more */
    MatchChoice *choice;
} State;

typedef struct Deciding {
    Arena *arena; /* of what is decided */
    Arena scratch;
    uint32_t n_clauses;
    Vec(MatchPlace *) places;
    Tests *tests; /* of each clause */
    Vec(State *) states;
    MatchDecision *out;
} Deciding;

uint32_t match_roots(const Match *e)
{
    const Tuple *tuple = expr_as_tuple(e->scrutinee);
    return tuple ? tuple->fields.n : 1;
}

const Pattern *match_pattern(const Match *e, uint32_t clause, uint32_t root)
{
    const Pattern *p = e->clauses.at[clause].pattern;
    if (e->scrutinee->kind != EXPR_TUPLE)
        return p;
    return p->kind == PATTERN_TUPLE ? p->fields[root] : NULL;
}

/* ---- what clauses look at ------------------------------------------------------------------------------------------ */

static const MatchPlace *place_at(Deciding *d, const MatchPlace *in, const Constructor *of,
                                  uint32_t at)
{
    for (size_t i = 0; i < d->places.n; i++) {
        const MatchPlace *p = d->places.at[i];
        if (p->in == in && p->of == of && p->at == at)
            return p;
    }
    MatchPlace *p = arena_new(d->arena, MatchPlace);
    *p = (MatchPlace){in, at, of, (uint32_t)d->places.n};
    vec_push(&d->places, &d->scratch, p);
    return p;
}

static bool is_test(const Pattern *p)
{
    return p && (p->kind == PATTERN_CON || p->kind == PATTERN_TUPLE);
}

static bool note_tests(Deciding *d, uint32_t clause, const Pattern *p, const MatchPlace *place,
                       int depth)
{
    if (depth > PATTERN_DEPTH_MOST)
        return false;
    const Constructor *con = p->kind == PATTERN_CON ? p->con : NULL;
    if (con && con->type->n_cons > 1)
        vec_push(&d->tests[clause], &d->scratch, ((Test){place, con}));
    for (uint32_t i = 0; i < p->n; i++)
        if (is_test(p->fields[i]) &&
            !note_tests(d, clause, p->fields[i], place_at(d, place, con, i), depth + 1))
            return false;
    return true;
}

/* ---- states ----------------------------------------------------------------------------------------------------------- */

/* The first of the clause's tests of which nothing is known; NULL: it takes the value. */
static const Test *open_test(const Deciding *d, const State *s, uint32_t clause)
{
    for (size_t i = 0; i < d->tests[clause].n; i++)
        if (!s->known[d->tests[clause].at[i].place->number])
            return &d->tests[clause].at[i];
    return NULL;
}

/* What the clause wants of the place; NULL: nothing. */
static const Constructor *wanted(const Deciding *d, uint32_t clause, const MatchPlace *place)
{
    for (size_t i = 0; i < d->tests[clause].n; i++)
        if (d->tests[clause].at[i].place == place)
            return d->tests[clause].at[i].con;
    return NULL;
}

/* What no clause looks at any more is forgotten, so that equal states are found to be. */
static void forget(const Deciding *d, State *s, const Constructor *const *known)
{
    for (uint32_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < d->tests[s->live[i]].n; k++) {
            uint32_t place = d->tests[s->live[i]].at[k].place->number;
            s->known[place] = known[place];
        }
}

static bool same_state(const Deciding *d, const State *a, const State *b)
{
    return a->n == b->n && memcmp(a->live, b->live, a->n * sizeof *a->live) == 0 &&
           memcmp(a->known, b->known, d->places.n * sizeof *a->known) == 0;
}

static State *state_new(Deciding *d)
{
    State *s = arena_new(&d->scratch, State);
    s->live = arena_alloc_must(&d->scratch, d->n_clauses + 1, sizeof *s->live);
    s->known = arena_alloc_must(&d->scratch, d->places.n + 1, sizeof *s->known);
    return s;
}

static MatchChoice *choice_new(Deciding *d)
{
    MatchChoice *c = arena_new(d->arena, MatchChoice);
    c->number = (uint32_t)d->out->choices.n;
    vec_push(&d->out->choices, d->arena, c);
    return c;
}

/* Where the state begins: with a clause that takes the value, or with a test. */
static MatchGoal enter(Deciding *d, State *s)
{
    if (s->n == 0)
        return (MatchGoal){.clause = d->n_clauses};
    if (!open_test(d, s, s->live[0]))
        return (MatchGoal){.clause = s->live[0]};
    for (size_t i = 0; i < d->states.n; i++)
        if (same_state(d, d->states.at[i], s))
            return (MatchGoal){.choice = d->states.at[i]->choice};
    s->choice = choice_new(d);
    vec_push(&d->states, &d->scratch, s);
    return (MatchGoal){.choice = s->choice};
}

/* Where it goes on when the place has the constructor; NULL: none that a clause names. */
static MatchGoal found(Deciding *d, const State *s, const MatchPlace *place, const Constructor *con)
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

static void decide(Deciding *d, const State *s)
{
    MatchChoice *c = s->choice;
    c->place = open_test(d, s, s->live[0])->place;
    for (uint32_t i = 0; i < s->n; i++) {
        const Constructor *con = wanted(d, s->live[i], c->place);
        bool met = !con;
        for (size_t k = 0; k < c->ways.n && !met; k++)
            met = c->ways.at[k].con == con;
        if (!met)
            vec_push(&c->ways, d->arena, ((MatchWay){.con = con}));
    }
    if (c->ways.n < c->ways.at[0].con->type->n_cons)
        c->other = found(d, s, c->place, NULL);
    for (size_t i = 0; i < c->ways.n; i++)
        c->ways.at[i].to = found(d, s, c->place, c->ways.at[i].con);
}

/* The first clause alone, one test after the other; what does not fit it goes on with the others, of which nothing is known. */
static void try_clause(Deciding *d, const State *s)
{
    State *rest = state_new(d);
    for (uint32_t i = s->live[0] + 1; i < d->n_clauses; i++)
        rest->live[rest->n++] = i;
    MatchGoal next = enter(d, rest);
    MatchChoice *c = s->choice;
    for (size_t i = 0; i < d->tests[s->live[0]].n; i++) {
        Test t = d->tests[s->live[0]].at[i];
        if (i > 0) {
            MatchChoice *behind = choice_new(d);
            c->ways.at[0].to.choice = behind;
            c = behind;
        }
        c->place = t.place;
        c->other = next;
        vec_push(&c->ways, d->arena, ((MatchWay){t.con, {.clause = s->live[0]}}));
    }
}

static bool note_all(Deciding *d, const Match *e)
{
    uint32_t n = match_roots(e);
    for (uint32_t i = 0; i < d->n_clauses; i++)
        for (uint32_t k = 0; k < n; k++) {
            const Pattern *p = match_pattern(e, i, k);
            if (is_test(p) && !note_tests(d, i, p, place_at(d, NULL, NULL, k), 0))
                return false;
        }
    return true;
}

static void decide_all(Deciding *d)
{
    size_t most = (size_t)STATES_MOST * (d->n_clauses + 1);
    State *first = state_new(d);
    while (first->n < d->n_clauses) {
        first->live[first->n] = first->n;
        if (!open_test(d, first, first->n++))
            break;
    }
    d->out->first = enter(d, first);
    for (size_t i = 0; i < d->states.n && !limit_hit(d->arena->limits); i++) {
        if (d->states.n > most)
            try_clause(d, d->states.at[i]);
        else
            decide(d, d->states.at[i]);
    }
}

bool match_decide(Arena *a, const Match *e, MatchDecision *out)
{
    Deciding d = {.arena = a, .n_clauses = e->clauses.n, .out = out};
    arena_init(&d.scratch, a->limits);
    d.tests = arena_alloc_must(&d.scratch, d.n_clauses + 1, sizeof *d.tests);
    bool shallow = note_all(&d, e);
    if (shallow)
        decide_all(&d);
    arena_deinit(&d.scratch);
    return shallow;
}
