/* From nest to nest: each primitive keeps what a nest computes (but for the order in which numbers are added), or refuses with false
 * and changes nothing.
 *
 * A loop's iterations are independent when none touches what another writes. A primitive that needs that looks at the positions; it
 * refuses what it cannot prove. */
#ifndef LOOP_PRIMITIVE_H
#define LOOP_PRIMITIVE_H

#include "loop/nest.h"

bool nest_independent(Nest *n, const NestNode *loop);
/* The same of the loops that stand in it one behind the other, within an iteration; false where something else stands there. */
bool nest_bodies_apart(Nest *n, const NestNode *loop);

/* for i in 0..e  ⇒  for o in 0..e/f: for `inner` in 0..f; what is left over is `tail`, a copy behind it (else NULL). The loop becomes
 * the outer one. Refuses factors that are not less than the extent. */
bool nest_split(Nest *n, NestNode *loop, int64_t factor, NestNode **inner, NestNode **tail);

/* The loop and the only loop in it change places. */
bool nest_reorder(Nest *n, NestNode *outer);

/* The loop and the only loop in it become one; refuses where a position steps unevenly. */
bool nest_fuse(Nest *n, NestNode *outer);

/* The same, and loads and numbers whose position steps unevenly divide the variable; refuses where one that is stored to does. */
bool nest_flatten(Nest *n, NestNode *outer);

/* A node of the root that stores elements only, as several one behind the other, in none of which it depends on a place along a loop which
 * of two values an element has; what the places of each part decide is decided. */
bool nest_cut(Nest *n, NestNode *node);

/* Of such a node, the loops along which a position is divided by a number, as two each, of which the inner one has as many turns: none
 * divides then. Innermost loops of fewer than `least` turns are not made. */
bool nest_undivide(Nest *n, NestNode *node, int64_t least);

/* A node of the root that stores elements only, as two: the turns of a loop in it up to `at`, and the rest, which stands behind and is
 * returned. Nothing else may stand in the loops around it; NULL: refused. */
NestNode *nest_part(Nest *n, NestNode *node, NestNode *loop, int64_t at);

/* How a serial loop runs. What lives in a vector loop gets a lane for each iteration, of `lanes`. */
bool nest_run_as(Nest *n, NestNode *loop, NestWay way, int lanes);

/* Moves the loop into the serial loops below it, so that each of their iterations does all of the loop's (unroll and jam):
 *     unrolled i: { a; for k: b; c }  ⇒  unrolled i: a;  for k: unrolled i: b;  unrolled i: c
 * What lives in the loop gets a place for each iteration. */
bool nest_jam(Nest *n, NestNode *loop);

/* Gives a loop that folds partial results, one for each iteration, which are folded behind it. `twins` are loops behind it, no longer
 * than it, that fold into the same and share the partial results; ends with NULL. */
bool nest_partial(Nest *n, NestNode *loop, NestNode *const *twins);

/* The loop and the one behind it, over as many iterations, become one. */
bool nest_join(Nest *n, NestNode *loop);

/* Puts the node before the one in front of it. */
bool nest_raise(Nest *n, NestNode *node);

/* A tensor between stages that each iteration of a loop has for itself becomes that: local memory of the innermost such loop. */
bool nest_narrow(Nest *n, int buffer);

/* A local buffer of whose elements a result is made in the end, each at its own place, lies where that result does. */
bool nest_settle(Nest *n, int buffer);

/* A local buffer whose positions are known when code is made lies in registers. */
bool nest_to_registers(Nest *n, int buffer);

#endif
