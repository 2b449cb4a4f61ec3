/* Evaluations that somebody watches: steps, breakpoints, watched variables. */
#ifndef SESSION_STEPS_STEPPING_H
#define SESSION_STEPS_STEPPING_H

#include "session/commands.h"
#include "session/steps/record.h"

/* Where evaluations stop. */
typedef struct Breakpoint {
    const Name *name;       /* of the function */
    bool global;
    uint32_t line;          /* of the source in which it stands; 0: the call */
    char *condition;        /* over the parameters; NULL: always */
} Breakpoint;

/* Those of one text, which has them whatever is read from it. */
typedef struct TextBreaks {
    char *text;
    size_t len;
    Breakpoint *at; /* without names */
    size_t n;
} TextBreaks;

typedef struct Stops {
    Breakpoint *breaks;
    const Name **watched;
    TextBreaks *texts;
    struct Parts *parts; /* debug.c: what somebody may ask the parts of; NULL: nothing */
    size_t n_breaks, n_watched, n_texts;
    uint32_t changes; /* of `texts`, so far */
    unsigned events; /* 1 << RelayStop for each that is a reason too, for a debugger */
    unsigned by_hand; /* likewise, by `:break` */
} Stops;

/* The session's; NULL without memory. */
Stops *stops_get(RelaySession *s);
/* `@f:3 if %n == 0` */
void breakpoint_print(Buf *out, const Breakpoint *b);
void stops_free(RelaySession *s);
/* Whether evaluations of cells must be watched. */
bool stops_any(const RelaySession *s);

struct RelaySteps {
    RelaySession *s;
    Module *env;
    Recorder rec;
    RelayGo go;
    uint64_t most; /* without a stepper: the evaluation ends behind this step; 0: at the end */
    bool asks; /* there is a stepper */
    bool asked; /* it was shown: then its end is shown too */
    bool left; /* it was ended before its end, on purpose */
    bool breaks; /* breakpoints count */
    bool full; /* without a stepper: enough is kept, and what follows is not told */
    const Breakpoint *at; /* the breakpoint that was met: last, or first without a stepper */
    bool met; /* without a stepper: a step that matters */
    uint64_t stop; /* that step */
    PtrMap watched_cells; /* Object -> Name */
    PtrMap conditions; /* Breakpoint -> Module; NULL: it cannot be told */
    PtrMap
        sources; /* number of a source -> 1 + its place in Stops.texts; 0: it has no breakpoints */
    Breakpoint place; /* of a text, which was met last */
    uint32_t changes; /* of these, when that was found out */
    uint64_t watch_lines;
    RelayStepView view;
    Buf rule, value, variables, calls, cells, why;
    RecordExpression expression;
};

/* Keeps at most `kept` steps, from step `from` on. */
bool steps_init(RelaySteps *st, RelaySession *s, size_t kept, uint64_t from);
void steps_deinit(RelaySteps *st);
/* Evaluates, told step by step. NONE after a diagnostic, or when it was left. */
Value steps_eval(RelaySteps *st, Module *env, Module *keep, Expr *e);
/* engine_eval while there are breakpoints or watched variables. */
Value stops_eval(RelaySession *s, Module *env, Module *keep, Expr *e);
/* Whether the event is that of a breakpoint; its condition may report. */
const Breakpoint *stops_match(RelaySteps *st, const Event *e);
/* What else is a reason to stand still behind the event, which is the latest step. */
RelayStop stops_why(RelaySteps *st, const Event *e);
/* debug.c: evaluates an expression over the variables of a frame; NONE after diagnostics. Its module is the
 * caller's. */
Value frame_eval(RelaySteps *st, const Activation *frame, Str text, Module **module);
/* Says so when a watched variable gets a value. */
void stops_watch(RelaySteps *st, const Event *e);

/* Lets go of the conditions. */
void stops_forget(RelaySteps *st);

/* One state, with the steps that led to it, as text. */
void steps_state(RelaySteps *st, Buf *out, uint64_t number);
/* The steps that are kept, as text (at most so many) and as HTML that begins with one of them. */
void steps_text(RelaySteps *st, Buf *out, uint64_t most);
void steps_html(RelaySteps *st, Buf *out, uint64_t start);
/* The same as JSON, with the state behind the step that the page begins with. */
void steps_json(RelaySteps *st, Buf *out, uint64_t start);
/* The lines of the function around a step. */
Span steps_region(const RelaySteps *st, const RecordStep *step);

#endif
