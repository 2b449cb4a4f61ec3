/* The record of a pipeline: what each pass made of the program, and what it decided on the way.
 *
 * Every view of a pipeline (text, HTML, JSON) is made of this record alone. A node has a number of its own for as long as it lives:
 * it keeps that when a pass rebuilds it because something below it changed, and gives it on to what a rewrite puts in its place. So
 * the texts of two moments are compared node by node, and `%3` stays `%3`.
 *
 *     Trace t;
 *     trace_init(&t, s);
 *     trace_listen(&t, &pass_context);
 *     Module *now = passes_run(&pass_context, m, source);
 *     …views…
 *     trace_deinit(&t);
 *
 * A record keeps the modules of all steps. Without one a pipeline pays nothing. */
#ifndef SESSION_VIEWS_TRACE_H
#define SESSION_VIEWS_TRACE_H

#include "passes/pass.h"
#include "session/internal.h"

/* What nodes are counted as: TRACE_CATEGORY(NAME, what). */
#define TRACE_CATEGORIES                        \
    TRACE_CATEGORY(OPERATORS, "operator calls") \
    TRACE_CATEGORY(KERNELS, "fused groups")     \
    TRACE_CATEGORY(CALLS, "other calls")        \
    TRACE_CATEGORY(FUNCTIONS, "functions")      \
    TRACE_CATEGORY(LETS, "lets")                \
    TRACE_CATEGORY(CONSTANTS, "constants")      \
    TRACE_CATEGORY(TUPLES, "tuples")            \
    TRACE_CATEGORY(CHOICES, "choices")          \
    TRACE_CATEGORY(REFERENCES, "references")

typedef enum TraceCategory {
#define TRACE_CATEGORY(NAME, what) TRACE_##NAME,
    TRACE_CATEGORIES
#undef TRACE_CATEGORY
        TRACE_N_CATEGORIES
} TraceCategory;

extern const char *const trace_category_names[TRACE_N_CATEGORIES];

/* What became of a line: TRACE_CHANGE(NAME, word, sign, mark); the mark is for counts. A line that is replaced stands there as it was
 * and as it is. */
#define TRACE_CHANGES                            \
    TRACE_CHANGE(KEPT, "kept", ' ', NULL)        \
    TRACE_CHANGE(GONE, "gone", '-', "−")         \
    TRACE_CHANGE(NEW, "new", '+', "+")           \
    TRACE_CHANGE(WAS, "was", '-', NULL)          \
    TRACE_CHANGE(REPLACED, "replaced", '+', "~") \
    TRACE_CHANGE(MOVED, "moved", '>', "↕")       \
    TRACE_CHANGE(FOLD, "fold", ' ', NULL)

typedef enum TraceChange {
#define TRACE_CHANGE(NAME, word, sign, mark) TRACE_LINE_##NAME,
    TRACE_CHANGES
#undef TRACE_CHANGE
        TRACE_N_CHANGES
} TraceChange;

extern const char *const trace_change_words[TRACE_N_CHANGES];
extern const char trace_change_signs[TRACE_N_CHANGES + 1];

typedef struct TraceLine {
    TraceChange change;
    uint32_t node; /* 0: the line is of no node, as a brace */
    Str text;
    const Expr *e; /* NULL where `node` is 0 */
    size_t folded; /* FOLD: how many lines */
} TraceLine;

typedef Vec(TraceLine) TraceLines;

/* The program at a moment, as lines. */
typedef struct TraceText {
    Buf text;
    TraceLines lines;
} TraceText;

typedef struct TraceEvent {
    const PassRule *rule;
    const Expr *nodes[3]; /* at, with, made: to ask for their numbers, nothing else */
    const char *names[3]; /* what they are, in words, code in backquotes; NULL: not there */
    const char *words[2];
} TraceEvent;

typedef struct TraceStep {
    const char *pass;
    double seconds;
    bool changed;
    uint32_t nodes[TRACE_N_CATEGORIES]; /* after it */
    uint32_t counts[TRACE_N_CHANGES]; /* lines of nodes */
    Module *now; /* counted */
    const TraceText *text;
    TraceLines lines; /* of both moments; empty where nothing changed */
    Vec(TraceEvent) events;
} TraceStep;

typedef struct TraceNameUse {
    const Var *var; /* that had the name last */
    uint32_t moment;
    uint32_t next, counted; /* the number to try behind it, and at which moment */
} TraceNameUse;

typedef struct Trace {
    RelaySession *s;
    Arena arena;
    Module *first; /* counted; NULL before the first pass */
    uint32_t nodes[TRACE_N_CATEGORIES]; /* of the program as it was */
    const TraceText *text; /* likewise */
    Vec(TraceStep) steps;
    double seconds;
    bool rewrites; /* the steps are those inside one pass, which are not timed */
    bool untimed; /* nor are these, for who reads them */
    Places ids; /* Expr -> the node's number */
    Vec(int32_t) numbers; /* by node: of its line, -1: it has none yet */
    int32_t next_number;
    uint32_t moment; /* that is looked at, from 1 */
    Places names; /* Var -> the Name that it goes by */
    Places keys; /* of this moment, in its memory: Var -> what binds it, and as which */
    PtrMap binders; /* that -> the Name of the variable */
    Vec(TraceNameUse) users; /* by the number of a name */
    Interner words; /* all names */
    Vec(uint32_t) seen; /* by node: the last moment at which it was there, from 1 */
    Vec(const Expr *) now; /* the nodes of the newest moment, operands before what uses them */
    Vec(TraceEvent) events; /* of the pass that runs */
} Trace;

void trace_init(Trace *t, RelaySession *s);
void trace_deinit(Trace *t);
/* From now on the passes that run in this context are recorded. Who has more to hear calls the two functions, `data` being the record. */
void trace_listen(Trace *t, PassContext *pc);
void trace_after(void *data, const char *pass, double seconds, const Module *before,
                 const Module *now);
void trace_decided(void *data, const PassEvent *event);

/* The node's number; 0: it was never seen in a program. */
uint32_t trace_node(const Trace *t, const Expr *e);
/* The lines of a step that changed, or of the program before all steps (`k` is steps.n: after them), with at most `context` lines around
 * each change and at most `most` in all; the rest is folded. The list lies in the record. */
TraceLines trace_fold(Trace *t, const TraceLines *lines, size_t context, size_t most);
/* The text of a line that is longer without its middle. */
Str trace_elide(Trace *t, const TraceLine *line, size_t most);
/* Of the steps, how many changed something. */
size_t trace_changed(const Trace *t);
uint32_t trace_count(const uint32_t *nodes);
/* `+2 −1 ~3`: how many lines are new, gone, replaced, moved. */
void trace_counts_print(Buf *out, const TraceStep *step);
/* Whether it is told how long steps took. */
bool trace_is_timed(const Trace *t);
/* `, 0.10 ms`, where that is told. */
void trace_time_print(const Trace *t, Buf *out, double seconds);
/* `3 passes, 2 of them change something, 0.10 ms`. */
void trace_summary_print(const Trace *t, Buf *out);
/* The decision in words, code in backquotes. */
void trace_event_print(const Trace *t, Buf *out, const TraceEvent *e);
/* Where the node was written, `In[3]:1:5`; nothing where that is not known. */
void trace_origin_print(const Trace *t, Buf *out, const Expr *e);

/* ---- views ----------------------------------------------------------------------------------------------------------------- */

#define TRACE_LAST SIZE_MAX

typedef struct TraceView {
    const char *pipeline;
    size_t step; /* only this one, whole, counted from 1, or the last one; 0: all, folded */
    bool why; /* what was decided is told of passes that changed nothing, too */
    bool parts; /* in the text a form feed stands in front of each step */
    bool whole; /* its text says every change and every decision, however many */
    bool by_itself; /* on its page: that is the same for the same program, but for the times */
} TraceView;

/* The step that is seen alone, counted from 1; 0: all are seen. */
size_t trace_alone(const Trace *t, TraceView view);
/* Whether there is something to see of a step, where all are seen. */
bool trace_is_seen(const TraceStep *step, TraceView view);
void trace_text(Trace *t, Buf *out, TraceView view);
void trace_html(Trace *t, Buf *out, TraceView view);
void trace_json(Trace *t, Buf *out, TraceView view);
/* The text, for a terminal. */
void trace_emit_text(Trace *t, TraceView view);
/* All three, to look at. */
void trace_emit(Trace *t, TraceView view);

#endif
