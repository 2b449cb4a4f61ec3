/* Which clause of a match takes a value, found by reading each tag once on each way.
 *
 * A state is the clauses that the value may still fit, in their order, and what is known of the places that they look at. It reads the
 * first place of its first clause that is not known, and goes on in one state for each constructor that a clause names there, and in one
 * for all others. States that come to the same are one. So the clauses behind a test that fails begin with what was found out. */
#ifndef IR_DECIDE_H
#define IR_DECIDE_H

#include "base/arena.h"
#include "base/vec.h"
#include "ir/expr.h"

/* A field, of constructors or tuples that lie in each other; the outermost are the values that are matched. */
typedef struct MatchPlace {
    const struct MatchPlace *in; /* NULL: a value that is matched */
    uint32_t at; /* which field, or which value */
    const Constructor *of; /* that the field is of; NULL: a tuple */
    uint32_t number;
} MatchPlace;

/* Where it goes on: with another test, or in a clause. */
typedef struct MatchGoal {
    const struct MatchChoice *choice; /* NULL: the clause */
    uint32_t clause; /* as many as there are clauses: none takes the value */
} MatchGoal;

typedef struct MatchWay {
    const Constructor *con;
    MatchGoal to;
} MatchWay;

/* A test: the tag at the place is read. */
typedef struct MatchChoice {
    uint32_t number;
    const MatchPlace *place;
    Vec(MatchWay) ways;
    MatchGoal other; /* where all other constructors go, if there are any */
} MatchChoice;

typedef struct MatchDecision {
    Vec(MatchChoice *) choices; /* by number, each behind one that goes to it */
    MatchGoal first;
} MatchDecision;

/* How many values the match looks at: of a tuple that the scrutinee writes each field is one. */
uint32_t match_roots(const Match *e);
/* What the clause wants of one of them. NULL: anything. */
const Pattern *match_pattern(const Match *e, uint32_t clause, uint32_t root);

/* False when patterns are nested too deeply. Ended early when a limit is hit. */
bool match_decide(Arena *a, const Match *e, MatchDecision *out);

#endif
