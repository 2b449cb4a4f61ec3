/* relay.h: the whole library through one object, the session.
 *
 * A session holds what a person has defined so far. A face (terminal, notebook, script, test) gives it text,
 * a cell at a time, and receives a stream of outputs, each a bundle of representations of one thing under
 * their mime types; the face shows the richest it can. The session writes to no stream and knows no terminal.
 *
 *     static void show(void *data, const RelayOutput *out) {
 *         const RelayMime *text = relay_output_find(out, "text/plain");
 *         if (text) fwrite(text->data, 1, text->size, data);
 *     }
 *     RelaySession *s = relay_session_new(NULL);
 *     relay_session_eval(s, &(RelayCell){.text = "1 + 2", .len = 5, .name = "In[1]"}, (RelaySink){show, stdout});
 *     relay_session_free(s);
 *
 * Ownership: what a function returns as a pointer to `Relay…` with a `_free` is the caller's; everything handed to a
 * callback is lent for the call. All text is UTF-8. Every offset of a cursor counts bytes unless it says otherwise.
 * Threads: one thread uses a session, except for `relay_session_interrupt`, which any thread (or a signal handler) may
 * call, `relay_session_pause` and `relay_session_progress`. Who wants answers while a cell runs asks the session's echo. Two sessions never meet. */
#ifndef RELAY_H
#define RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct RelaySession RelaySession;

/* The exit codes of the command line, and the result of every call that runs something. */
typedef enum RelayStatus {
    RELAY_OK = 0,           /* done */
    RELAY_WRONG = 1,        /* the Relay program is wrong; diagnostics went to the sink */
    RELAY_USAGE = 2,        /* the request is wrong, or a file cannot be read or written */
    RELAY_LIMIT = 3,        /* a limit was hit: depth, memory, time, interrupt */
    RELAY_BUG = 70,         /* a bug in this program */
} RelayStatus;

/* One representation: `type` is a mime type; `data` has `size` bytes and a NUL behind them.
 * "application/json" and "application/vnd.*+json" hold JSON text. */
typedef struct RelayMime {
    const char *type;
    const char *data;
    size_t size;
} RelayMime;

typedef enum RelayOutputKind {
    RELAY_OUTPUT_RESULT,     /* the value of the cell's last expression */
    RELAY_OUTPUT_DISPLAY,    /* something to look at: the answer of a command, a picture */
    RELAY_OUTPUT_DIAGNOSTIC, /* an error, warning or note; text/plain, text/html, application/json (cli.md's line) */
    RELAY_OUTPUT_STREAM, /* plain text as it comes: progress, tracing; text/plain only */
    RELAY_OUTPUT_TEXT, /* the text that a stage made (fmt, check, opt, compile); text/plain is exact */
    RELAY_OUTPUT_INPUT, /* text for the person to change and to run (`:edit`); text/plain is exact */
    RELAY_OUTPUT_QUIT, /* the person asked to leave (`:quit`); no data */
    RELAY_OUTPUT_CLEAR, /* the person asked for a clear screen (`:clear`); no data */
} RelayOutputKind;

typedef enum RelaySeverity { RELAY_NOTE, RELAY_WARNING, RELAY_ERROR } RelaySeverity;

typedef struct RelayOutput {
    RelayOutputKind kind;
    RelaySeverity severity; /* of a diagnostic */
    const char *code; /* of a diagnostic: "E0207"; else NULL */
    const char *title; /* of a diagnostic: its first line without code; else NULL */
    const RelayMime *mimes; /* richest last; text/plain is always among them, at [0] */
    size_t n_mimes;
    const char *language; /* of a display that is code: as what it is coloured; else NULL */
    unsigned
        live; /* of a display: it takes the place of the one before that has the same number; 0: none does */
    bool
        more; /* another will take its place: who cannot replace what is shown leaves this one out */
} RelayOutput;

typedef struct RelaySink {
    void (*emit)(void *data, const RelayOutput *out);
    void *data;
} RelaySink;

/* The representation of type `mime`, or NULL. */
const RelayMime *relay_output_find(const RelayOutput *out, const char *mime);

typedef struct RelayOptions {
    bool no_prelude; /* start without the lists, options and trees of the prelude */
    bool color; /* text/plain of diagnostics and displays carries ANSI colours */
    bool pixels; /* pictures come as image/x-portable-graymap too, for terminals that draw */
    bool
        parts; /* answers of several parts come as text/x-relay-parts too: a form feed stands in front of each */
    int width; /* columns for text/plain; 0: 80 */
    const char *engine; /* "auto", "interp", "jit", "gpu"; NULL: "auto" */
    int threads; /* 0: as many as there are cores */
    size_t memory_limit; /* bytes; 0: three quarters of the machine's memory */
    double time_limit; /* seconds a cell; 0: none */
    uint64_t depth_limit; /* calls; 0: what the memory limit allows */
} RelayOptions;

/* A new session. NULL only when memory for it cannot be had. `options` may be NULL. */
RelaySession *relay_session_new(const RelayOptions *options);
void relay_session_free(RelaySession *s);

/* Changes an option of a living session by name ("color", "width", "engine", "threads", "time_limit",
 * "memory_limit" in MiB, "depth_limit", "output_limit", "hot": the steps after which the engine "auto" compiles a definition). */
bool relay_session_set(RelaySession *s, const char *option, const char *value);

/* ---- cells ---------------------------------------------------------------------------------------------------- */

typedef struct RelayCell {
    const char *text;
    size_t len;
    const char *name; /* what diagnostics call it: "In[4]", "tour.rly"; NULL: "input" */
    bool silent; /* evaluate, but emit no result */
    bool go_on; /* after an item that fails run the next one, as if each were a cell of its own */
    bool
        items; /* each item is a cell of its own, as if somebody typed them, with the numbers behind the latest one */
    uint32_t line; /* the line of the file `name` at which the text begins; 0: 1 */
    uint32_t
        number; /* somebody typed it as this one: its result is kept as `%_` and `%_<number>`, and `:undo` can take it back; 0: no */
} RelayCell;

/* Runs one cell: definitions, `let`s, graph bindings, expressions and `:commands`, in order. Results, displays and
 * diagnostics reach `sink` as they come. After an error the session is as before the item that failed. */
RelayStatus relay_session_eval(RelaySession *s, const RelayCell *cell, RelaySink sink);

/* Reads a text to its end, "-" from standard input, within the limits of the session. The caller frees it. After RELAY_USAGE errno says what
 * went wrong, and of what ended by a limit the sink was told. */
RelayStatus relay_session_read(RelaySession *s, const char *path, char **text, size_t *len,
                               RelaySink sink);

/* Runs what a person wants of every session: the settings that were kept and the start-up file. Only mistakes are shown. */
void relay_session_start(RelaySession *s, RelaySink sink);

/* Asks the running cell to end with a diagnostic. Safe in any thread and in a signal handler; without a running
 * cell it does nothing. */
void relay_session_interrupt(RelaySession *s);

/* What is over sooner, in seconds, needs no word. */
#define RELAY_PROGRESS_SOON 0.5

/* What the running cell is at, for who waits for it. */
typedef struct RelayProgress {
    char line[140]; /* "2 s  12 %  passes 3 of 26, FuseOps" */
    double share; /* of the work that is done, from 0 to 1; negative: nobody knows */
    double seconds; /* since the cell began */
} RelayProgress;

/* Safe in any thread. False when nothing runs. */
bool relay_session_progress(RelaySession *s, RelayProgress *out);

typedef enum RelayComplete { RELAY_COMPLETE, RELAY_INCOMPLETE, RELAY_INVALID } RelayComplete;

/* Whether the text is a whole cell, wants more lines (`indent` receives the blanks of the next one, if not NULL), or is
 * wrong beyond hope. */
RelayComplete relay_session_is_complete(RelaySession *s, const char *text, size_t len, int *indent);

typedef struct RelayCompletion {
    const char *text; /* replaces the bytes [from, to) of the completion list */
    const char *
        kind; /* "keyword", "operator", "local", "global", "constructor", "type", "dtype", "attribute",
                                "command", "argument", "pass", "analysis", "diagnostic", "field", "path" */
    const char *detail; /* type or one-line description; may be "" */
} RelayCompletion;

typedef struct RelayCompletions {
    size_t from, to;
    RelayCompletion *items;
    size_t n;
} RelayCompletions;

/* What could stand at the cursor. NULL only without memory; free with relay_completions_free. */
RelayCompletions *relay_session_complete(RelaySession *s, const char *text, size_t len,
                                         size_t cursor);
void relay_completions_free(RelayCompletions *c);

/* What is at the cursor: type, documentation. Emits one RELAY_OUTPUT_DISPLAY, or nothing (and false). `detail` 0 is
 * short, 1 is everything. */
bool relay_session_inspect(RelaySession *s, const char *text, size_t len, size_t cursor, int detail,
                           RelaySink sink);

/* ---- answers while a cell runs ---------------------------------------------------------------------------------- */

/* The echo of a session knows what that has defined, and the types of its variables, and runs nothing. It is a session of its own, for
 * another thread: it takes over what was noted between cells, and answers what is asked while the next one runs. */
typedef struct RelayEcho RelayEcho;

/* NULL only without memory. */
RelayEcho *relay_echo_new(void);
void relay_echo_free(RelayEcho *e);
/* In the thread of the session, between cells: notes what has changed since the last time. Whether anything has. */
bool relay_echo_note(RelayEcho *e, RelaySession *s);
/* In the thread of the echo: a session that knows all that was noted, for completion and inspection; lent until the next call. NULL
 * when there is no memory for it. */
RelaySession *relay_echo_session(RelayEcho *e);

/* One span of text and what it is, for colouring: kinds are "keyword", "operator", "local", "global", "graph",
 * "constructor", "type", "number", "string", "comment", "command", "punctuation", "error". */
typedef struct RelayToken {
    size_t from, to;
    const char *kind;
} RelayToken;

/* Calls `token` for each coloured span of the text, in order. Works on any text, however broken. `language` is of a RelayOutput;
 * NULL: it is Relay text. */
void relay_highlight(const char *language, const char *text, size_t len,
                     void (*token)(void *data, const RelayToken *t), void *data);

/* ---- documents: texts that somebody edits --------------------------------------------------------------------- */

/* A text that is read and checked as a whole and never run: a module when it begins with its version, or is the saved graph of one; else
 * a script, as if it were typed. Several documents may share a session, whose own definitions they see; all places are bytes of the
 * newest text. */
typedef struct RelayDocument RelayDocument;

typedef struct RelayRange {
    size_t from, to;
} RelayRange;

typedef struct RelayLabel {
    RelayRange range;
    const char *text;
} RelayLabel;

/* A change of the text: `text` instead of what stands in the range. */
typedef struct RelayFix {
    RelayRange range;
    const char *text;
} RelayFix;

typedef struct RelayFinding {
    RelaySeverity severity;
    const char *code, *message;
    RelayRange range;
    const RelayLabel *labels;
    size_t n_labels;
    const char *more; /* notes and helps, a line each; "" */
    const RelayFix *fixes; /* one of which may be what was meant */
    size_t n_fixes;
} RelayFinding;

/* `name` is the path, from which imports count. NULL only without memory. */
RelayDocument *relay_document_new(RelaySession *s, const char *name);
/* The session must still be there. NULL is nothing. */
void relay_document_free(RelayDocument *d);
/* Reads and checks the text, of which it keeps a copy. False when memory was gone: nothing is known of the text. */
bool relay_document_set(RelayDocument *d, const char *text, size_t len);
/* What is wrong with the text, and what is to be said about it; lent until the next text. */
const RelayFinding *relay_document_findings(const RelayDocument *d, size_t *n);
/* Whether it is a module: what `relay check`, `opt` and `run` take. */
bool relay_document_is_module(const RelayDocument *d);

typedef struct RelaySymbol {
    const char *name; /* with its sigil; "" for an expression */
    const char *kind; /* "global", "type", "constructor", "local", "graph", "expression" */
    char *detail; /* its type; "" where that is not known */
    RelayRange whole, at; /* all of it; its name */
    uint32_t depth; /* 1: a part of the one before it of depth 0 */
    uint32_t params; /* of a function */
} RelaySymbol;

/* What the text defines, in order; free with relay_symbols_free. */
RelaySymbol *relay_document_symbols(RelayDocument *d, size_t *n);
void relay_symbols_free(RelaySymbol *symbols, size_t n);

typedef struct RelayUse {
    RelayRange range;
    bool binds; /* it is defined there */
} RelayUse;

typedef struct RelayUses {
    RelayRange at; /* the name that was asked for, with its sigil */
    const char *kind; /* as of completions */
    RelayUse *uses; /* in the text, in order */
    size_t n;
    bool defined; /* in the text */
    char *file; /* else, where that is known: the file that defines it, */
    uint32_t line, column; /* and its place there, from 1 and in code points */
} RelayUses;

/* All places of what the name at the offset means; NULL when that is no name of anything. Free with relay_uses_free. */
RelayUses *relay_document_uses(RelayDocument *d, size_t offset);
void relay_uses_free(RelayUses *uses);

/* What is at the offset: text/plain, and text/markdown with code in it; false: nothing is. */
bool relay_document_inspect(RelayDocument *d, size_t offset, RelayRange *range, RelaySink sink);
/* What could stand at the offset, which sees what the text binds before it. Free with relay_completions_free. */
RelayCompletions *relay_document_complete(RelayDocument *d, size_t offset);
/* From the next text on its items are cells, as those of a file that is run: `%_2` is what the second one gives. */
void relay_document_be_script(RelayDocument *d);
/* Calls `hint` for each name in the range that was bound without its type, with the place behind it and that type. */
void relay_document_types(RelayDocument *d, RelayRange range,
                          void (*hint)(void *data, size_t offset, const char *type), void *data);

/* The text with its lines indented and its tokens spaced as usual: the same tokens, comments and lines, `*n` bytes. The caller frees it;
 * NULL when it cannot be laid out so. */
char *relay_layout(const char *text, size_t len, size_t *n);

/* ---- asking ----------------------------------------------------------------------------------------------------- */

typedef enum RelayAskEnd {
    RELAY_ASK_ANSWERED,
    RELAY_ASK_NOBODY, /* there is nobody who could answer now */
    RELAY_ASK_ENDED, /* end of file: somebody is there and gives no answer */
    RELAY_ASK_INTERRUPTED, /* the cell is to end */
} RelayAskEnd;

/* Who answers what a cell asks while it runs: what a command lacks, and whether what it would do is meant. The answer is a line without
 * its end, lent until the next call. */
typedef struct RelayAsker {
    RelayAskEnd (*ask)(void *data, const char *question, const char **answer);
    void *data;
} RelayAsker;

/* Without one, cells are a script: nothing is asked. */
void relay_session_set_asker(RelaySession *s, RelayAsker asker);

/* ---- stepping --------------------------------------------------------------------------------------------------- */

/* An evaluation that stands still, and all of its steps that are kept. A step is one rule applied to one expression. */
typedef struct RelaySteps RelaySteps;

/* How it goes on from the latest step. */
typedef enum RelayGoKind {
    RELAY_GO_TO, /* to the next step with at least this number, at most this deep, that begins on this line */
    RELAY_GO_ON, /* to a breakpoint, or the end */
    RELAY_GO_LEAVE, /* the evaluation ends here, without a value */
} RelayGoKind;

typedef struct RelayGo {
    RelayGoKind kind;
    uint64_t number;
    uint32_t depth; /* UINT32_MAX: any */
    uint32_t line; /* of the source that the latest step shows; 0: any */
} RelayGo;

typedef struct RelayStepper {
    RelayGo (*stopped)(void *data, RelaySteps *steps);
    void *data;
} RelayStepper;

/* Who is asked, while a cell runs, how an evaluation is to go on. Without one, `:step` shows its first steps, and a breakpoint ends
 * the evaluation. */
void relay_session_set_stepper(RelaySession *s, RelayStepper stepper);

/* The steps [first, end) are kept; the numbers begin with 0. */
uint64_t relay_steps_first(const RelaySteps *steps);
uint64_t relay_steps_end(const RelaySteps *steps);
/* The evaluation is over: there is nothing to go on to. */
bool relay_steps_done(const RelaySteps *steps);

typedef struct RelayStepView {
    const char *source_name, *source; /* the text that the step lies in, and its bytes [from, to) */
    size_t source_len, from, to;
    size_t begin, end; /* the lines of the function around it */
    uint32_t first_line; /* of the text, in the file that it is a part of */
    uint32_t depth; /* nested calls */
    uint32_t line; /* on which it begins */
    const char *why; /* why it stands still here: a breakpoint; "" */
    const char
        *expression; /* the statement before the step, with values in place of what was known */
    size_t own_from, own_to; /* the step's own expression in it */
    const char *becomes; /* what takes its place; "": nothing yet */
    const char *rule; /* in words */
    const char *value; /* that the rule gave; "" */
    const char *
        variables; /* a line each; a line of a new one begins with `*`, of the others with a blank */
    const char *calls; /* a line each, newest first */
    const char *cells; /* the references and what they hold, a line each */
} RelayStepView;

/* What step `number` shows; lent until the next call. */
const RelayStepView *relay_steps_view(RelaySteps *steps, uint64_t number);
uint32_t relay_steps_depth(const RelaySteps *steps, uint64_t number);
uint32_t relay_steps_line(const RelaySteps *steps, uint64_t number);

/* ---- debugging: what a debugger adds to stepping ----------------------------------------------------------------- */

/* A breakpoint in a text. On the line where a function or an item begins it is its call; else what begins on the line. */
typedef struct RelayBreak {
    uint32_t line; /* of the text, from 1 */
    const char *condition; /* over the variables there; NULL: always */
} RelayBreak;

/* The breakpoints of all that is read from this very text, instead of those that it had. False without memory. What evaluates with
 * breakpoints in the session runs on the evaluator. May be called while the session is asked how to go on. */
bool relay_session_break_text(RelaySession *s, const char *text, size_t len,
                              const RelayBreak *breaks, size_t n);

/* Why an evaluation stands still behind a step. */
typedef enum RelayStop {
    RELAY_STOP_NONE, /* it came as far as it was told to go */
    RELAY_STOP_BREAK, /* a breakpoint */
    RELAY_STOP_NAN, /* a NaN or an infinity comes of numbers */
    RELAY_STOP_ERROR, /* the evaluation fails here */
    RELAY_STOP_PAUSE, /* somebody asked for it */
} RelayStop;

/* Evaluations stop there too: a sum of 1 << RELAY_STOP_NAN and 1 << RELAY_STOP_ERROR. */
bool relay_session_break_on(RelaySession *s, unsigned stops);
/* An evaluation that is watched stops behind its next step. Safe in any thread. */
void relay_session_pause(RelaySession *s);
/* Of a step that is kept. */
RelayStop relay_steps_stop(const RelaySteps *steps, uint64_t number);

/* One of the calls that are under way behind a step, and where it stands. */
typedef struct RelayFrame {
    const char *name; /* `@f`, `%f`, `fn`; of the expression itself the name of its text */
    const char *source_name, *source;
    size_t source_len;
    uint32_t line, column, end_line, end_column; /* of the text, from 1 */
} RelayFrame;

/* The frame `at`, 0 the innermost; false when there are not as many. Lent until the next call. */
bool relay_steps_frame(RelaySteps *steps, uint64_t number, uint32_t at, RelayFrame *out);

/* Something with a value, or a fact about one. Lent for the call. */
typedef struct RelayVariable {
    const char *name; /* with its sigil; "[3]", ".1", "mean" */
    const char *type; /* of a fact "str" */
    const char *value;
    uint32_t parts; /* to ask for what it consists of; 0: it has no parts */
} RelayVariable;

typedef struct RelayVariables {
    void (*variable)(void *data, const RelayVariable *v);
    void *data;
} RelayVariables;

/* The variables of a frame behind a step, oldest first. */
void relay_steps_variables(RelaySteps *steps, uint64_t number, uint32_t frame, RelayVariables to);
/* Those of the session; between cells, or while it is asked how to go on. */
void relay_session_variables(RelaySession *s, RelayVariables to);
/* What something consists of: the numbers of a tensor told and its rows, fields, what a reference holds. */
void relay_session_parts(RelaySession *s, uint32_t parts, RelayVariables to);
/* Lets go of all that parts can be asked of. */
void relay_session_forget_parts(RelaySession *s);
/* Evaluates an expression over the variables of a frame: a RELAY_OUTPUT_RESULT or diagnostics go to `sink`, and what the result is to
 * `to`. False when it is wrong. */
bool relay_steps_evaluate(RelaySteps *steps, uint64_t number, uint32_t frame, const char *text,
                          size_t len, RelayVariables to, RelaySink sink);

/* ---- files: the verbs of the command line ------------------------------------------------------------------- */

typedef struct RelayParam {
    const char *key, *value;
} RelayParam;

typedef struct RelayRequest {
    const char *stage; /* "fmt", "check", "opt", "compile", "run", "bench", "doctor", "version" */
    const char *text; /* the program */
    size_t len;
    const char *name; /* its file name in diagnostics */
    const RelayParam *
        params; /* the options of the verb by the names of cli.md without dashes: {"pipeline", "FuseOps"},
                                {"emit", "asm"}, {"entry", "main"}, {"exec", "jit"}, {"args", FILE}, {"arg", "x=FILE"},
                                {"params", FILE}, {"random", "7"}, {"out", FILE}, {"json", "1"}, {"O", "3"},
                                {"disable", "A,B"}, {"require", …}, {"config", "k=v"}, {"print-after-all", "1"},
                                {"diff", "1"}, {"time", "1"}, {"html", FILE}, {"bench", DIR}, {"threads", "1"},
                                {"seconds", "2"}, {"runs", "10"}, {"workload", NAME}; a key may occur several times. The
                                program of "call" is compiled code, and "args", "arg", "params", "random" its arguments */
    size_t n_params;
} RelayRequest;

/* Takes a whole program through the stages up to the named one. The result is one RELAY_OUTPUT_TEXT (or, for
 * "run", one RELAY_OUTPUT_RESULT); diagnostics come as RELAY_OUTPUT_DIAGNOSTIC. */
RelayStatus relay_session_stage(RelaySession *s, const RelayRequest *request, RelaySink sink);

/* ---- compiled libraries: what `relay compile --emit lib` makes ---------------------------------------------------- */

/* A tensor, laid out as DLPack's DLTensor: who has one of these passes it as it is. */
typedef struct RelayTensor {
    void *data;
    int32_t device_type, device_id; /* 1 and 0: the memory of the processor */
    int32_t rank;
    uint8_t code; /* of an element: 0 signed, 1 unsigned, 2 float, 4 bfloat, 6 bool */
    uint8_t bits; /* of an element; 8 of a bool */
    uint16_t lanes; /* 1 */
    int64_t *shape; /* `rank` extents */
    int64_t *strides; /* in elements; NULL: row by row, without gaps */
    uint64_t byte_offset; /* of the first element behind `data` */
} RelayTensor;

/* What a function of a compiled library is; the header that `--emit header` makes says how many tensors each takes and gives.
 *
 * Arguments are lent for the call. A result whose `data` is NULL is given memory, which `free(result.data)` gives back; its shape lies
 * in the same memory. A result with `data` says its own dtype and shape, lies row by row, and is written there. After any status but
 * RELAY_OK the results are as they were. Any thread may call; calls of one library wait for each other. */
typedef RelayStatus RelayFunction(const RelayTensor *args, RelayTensor *results);

/* Calls function number `function` of `code`; what the functions of a compiled library consist of. */
RelayStatus relay_compiled_call(const RelayTensor *args, RelayTensor *results, const void *code,
                                uint32_t function);
/* What went wrong in this thread's last call: the diagnostics, or "". Lent until the next call. */
const char *relay_compiled_error(void);

/* ---- tables, for help and for faces ---------------------------------------------------------------------------- */

typedef struct RelayCommand {
    const char *name; /* without the colon */
    const char *args; /* "EXPR", "[PASS] EXPR", "" */
    const char *doc; /* one sentence */
    const char *more; /* further sentences, or "" */
    const char *group; /* the title of those that it stands with, or "" */
} RelayCommand;

/* A word that stands for itself in the arguments of a command, `steps=` and what it means; or, without a word, an example. */
typedef struct RelayCommandPart {
    const char *command, *word, *text;
} RelayCommandPart;

/* What `relay compile` makes, in the order of the help text: name and doc; `n` receives their number. */
const RelayCommand *relay_kinds(size_t *n);

/* The commands of cells, in the order of the help text; `n` receives their number. */
const RelayCommand *relay_commands(size_t *n);

/* Their words, and their examples, in the order of the commands. */
const RelayCommandPart *relay_command_parts(size_t *n);

/* "0.1.0". */
const char *relay_version(void);

#ifdef __cplusplus
}
#endif
#endif
