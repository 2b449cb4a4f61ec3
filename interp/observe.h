/* What the evaluator does, told to somebody who watches.
 *
 * While nobody does it costs nothing: a watched program runs in a loop of its own over the same steps. Each event is one rule applied
 * to one expression of the text, told when the rule has been applied; what the evaluator adds to the program, such as the names of a
 * normal form, is never mentioned.
 *
 *     static bool print(void *data, const Event *e) { printf("%s\n", e->what ? e->what : ""); return true; }
 *     interp_observe(in, &(Observer){print, NULL});
 *     value_release(interp_eval(in, env, keep, e, locals));
 *     interp_observe(in, NULL); */
#ifndef INTERP_OBSERVE_H
#define INTERP_OBSERVE_H

#include "interp/interp.h"

typedef enum EventKind {
    EVENT_START,            /* the evaluation begins; bound: what it sees from outside */
    EVENT_OP,               /* args give value */
    EVENT_CON,
    EVENT_TUPLE,
    EVENT_GET,              /* args: the tuple; choice: which field */
    EVENT_CLOSURE,          /* bound: what it captures */
    EVENT_GLOBAL,           /* a function as a value */
    EVENT_REF_NEW,          /* args: the content */
    EVENT_REF_READ,         /* args: the cell */
    EVENT_REF_WRITE,        /* args: the cell, its content now, its content before */
    EVENT_LET,              /* a variable for a value that is there already */
    EVENT_IF,               /* args: the condition; choice: 0 for the first branch */
    EVENT_MATCH, /* args: the value; choice: the clause; bound: the variables of its pattern */
    EVENT_JOIN, /* the branch is done; the value is that of the `if` or `match` with its id */
    EVENT_CALL, /* a frame begins; bound: parameters, then captured variables */
    EVENT_TAIL_CALL, /* the same in place of the frame that calls */
    EVENT_RETURN, /* the frame ends; the value is that of the call */
    EVENT_FAIL, /* a diagnostic was reported, or a limit hit */
} EventKind;

typedef struct Binding {
    const Name *name; /* NULL: none */
    const Type *type; /* may have type variables; may be NULL */
    Value value;
} Binding;

/* All that it points to is lent for the call. */
typedef struct Event {
    EventKind kind;
    uint32_t choice;
    Span span; /* of the expression */
    Span body; /* START, calls: the definition or expression in which that stands which runs now */
    Span pattern; /* MATCH: of the clause that was chosen */
    const void *id; /* IF, MATCH, JOIN: tells one from another */
    const char *
        what; /* the operator, constructor or function (NULL: one without a name); JOIN: `if` or `match` */
    bool global; /* calls: `what` is a definition's name */
    uint32_t n, n_bound;
    const Value *args;
    const Binding *bound;
    Binding
        result; /* the value, and the variable of the `let` that receives it; VALUE_NONE where there is none */
} Event;

typedef struct Observer {
    bool (*event)(void *data, const Event *e); /* false: the evaluation is to end here */
    void *data;
} Observer;

/* From now on evaluations tell the observer, which is lent; NULL ends that. */
void interp_observe(Interp *in, const Observer *observer);

#endif
