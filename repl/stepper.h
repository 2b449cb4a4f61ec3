/* The view in which one steps through an evaluation: it takes the whole screen, and gives it back as it was.
 *
 *     relay_session_set_stepper(session, (RelayStepper){stepper_stopped, stepper});
 *
 * The session asks `stepper_stopped` whenever an evaluation stands still. It shows the latest step, goes through those that are kept as
 * long as the keys lead there, and returns when there is something to evaluate. */
#ifndef REPL_STEPPER_H
#define REPL_STEPPER_H

#include "include/relay.h"
#include "repl/term.h"

typedef struct Stepper Stepper;

/* NULL without memory. The terminal is lent. */
Stepper *stepper_new(Term *term, bool color);
void stepper_free(Stepper *s);
RelayGo stepper_stopped(void *stepper, RelaySteps *steps);
/* After a cell: gives the screen back, when it was taken. */
void stepper_close(Stepper *s);

#endif
