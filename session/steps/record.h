/* A recording of an evaluation, step by step: what :step shows, forward and backward.
 *
 * A step is one rule applied to one expression of the text, and the state after it. States share what they have in common: the
 * variables are a list that grows at its head, and a call holds the state of its caller, so that each step costs the same however
 * many variables and calls there are. Values are retained, not copied. A recording keeps the latest steps, as many as it may. */
#ifndef SESSION_STEPS_RECORD_H
#define SESSION_STEPS_RECORD_H

#include "interp/observe.h"
#include "session/internal.h"

/* A variable and its value; counted. */
typedef struct Bound Bound;
struct Bound {
    uint32_t refs;
    Binding is;
    Bound *older;
};

/* The variables as they were before a branch; counted. */
typedef struct Branch Branch;
struct Branch {
    uint32_t refs;
    const void *id;
    Bound *bound;
    Branch *outer;
};

/* One call and those that wait for it, at one moment; counted. */
typedef struct Activation Activation;
struct Activation {
    uint32_t refs, depth;
    uint64_t last; /* 1 + the number of the latest step in it that gave a value; 0: there is none */
    const char *what; /* NULL: a function without a name, or the expression itself at depth 0 */
    bool global;
    Span body, call; /* the whole function; the expression that called it */
    uint32_t n_params;
    Bound *params; /* as they were at the call: the oldest n_params of the list */
    Bound *bound;
    Branch *branches;
    Activation *caller;
};

#define RECORD_ARGS 4

typedef struct RecordStep {
    EventKind kind;
    RelayStop stop; /* why an evaluation would stand still behind it */
    uint32_t choice, n_args, n_new; /* n_new: variables that the step bound, newest first */
    Span span, pattern, region; /* region: the function that the span lies in */
    const char *what;
    bool global;
    Value args[RECORD_ARGS]; /* the first of n_args */
    Value value;
    const Name *name; /* the variable that has the value now; NULL: none */
    char *message; /* FAIL */
    uint64_t
        before; /* 1 + the number of the step in this call that gave a value before; 0: none did */
    Activation *now; /* after the step */
} RecordStep;

typedef struct RecordCell {
    Object *cell;
    uint64_t born; /* the step that made it; 0: it was there before */
} RecordCell;

typedef struct RecordTokens RecordTokens;

typedef struct Recorder {
    RelaySession *s;
    RecordStep *steps; /* step k stands at [k % cap] */
    size_t cap;
    uint64_t first, n; /* the steps [first, n) are kept */
    uint64_t keep_from; /* earlier steps are not kept */
    Activation *now;
    RecordCell *cells;
    size_t n_cells, cap_cells;
    PtrMap cell_numbers; /* Object -> its number */
    Arena texts; /* the tokens of what was asked for */
    Vec(RecordTokens) tokens;
    bool done; /* the evaluation has ended */
    bool handed_over; /* the last thing in the expression was a call, which is shown as any other */
} Recorder;

/* Keeps at most `most` steps. False without memory. */
bool recorder_init(Recorder *r, RelaySession *s, size_t most);
void recorder_deinit(Recorder *r);
/* Takes an event over. */
void recorder_add(Recorder *r, const Event *e);
/* Notes on the latest step, if it is kept, why an evaluation stands still there. */
void recorder_mark(Recorder *r, RelayStop stop);
/* Forgets the n oldest steps. */
void recorder_drop(Recorder *r, uint64_t n);
/* Step k, which is kept. */
const RecordStep *recorder_step(const Recorder *r, uint64_t k);

/* ---- what a step shows --------------------------------------------------------------------------- */

/* A value in few characters: tensors of more than a few elements as their type, references as cells. */
void record_brief(Recorder *r, Buf *out, Value v);
/* A value in a line: tensors with statistics. */
void record_value(Recorder *r, Buf *out, Value v);
/* The same beside its type. */
void record_content(Recorder *r, Buf *out, Value v);
/* The type of a binding's value, as far as it is known. */
void record_type(RelaySession *s, Buf *out, const Binding *b);
/* Text without what does not fit; it says so. */
void record_clip(Buf *out, const char *text, size_t n, size_t columns);
/* The text of a span on one line. */
void record_text(Recorder *r, Buf *out, Span span, size_t columns);
/* The statement of a step as it stood before it, with values in place of what was known; bytes [from, to) are the step's own
 * expression, and `value` is what that becomes, empty where it gives none. */
typedef struct RecordExpression {
    Buf text, value;
    size_t from, to;
} RecordExpression;

/* The expression of step k, which is kept; into buffers that are the caller's. */
void record_expression(Recorder *r, uint64_t k, RecordExpression *out);
void record_expression_deinit(RecordExpression *e);
/* `@fact(%n = 2)`. */
void record_call(Recorder *r, Buf *out, const Activation *a);
/* The newest variables in the list, at most so many, oldest first, each name once; the caller frees. */
const Bound **record_variables(const Bound *list, size_t most, size_t *n);
/* Whether the step bound it. */
bool record_is_fresh(const RecordStep *step, const Bound *b);
/* What the cell held after step k; false when it did not exist then. */
bool record_cell(const Recorder *r, uint64_t k, size_t cell, Value *out);
/* The rule, in words. */
void record_rule(Recorder *r, Buf *out, const RecordStep *step);
/* Whether the step completes what began at its span in the frame that it is in: steps of calls inside come before. */
uint32_t record_depth(const RecordStep *step);

#endif
