/* What the files of session/ share. */
#ifndef SESSION_INTERNAL_H
#define SESSION_INTERNAL_H

#include "include/relay.h"
#include "interp/interp.h"
#include "interp/tier.h"
#include "ir/ctx.h"
#include "ir/module.h"
#include "jit/jit.h"
#include "parser/parser.h"
#include "session/html.h"
#include "typecheck/typecheck.h"

/* A variable that a cell bound; its module is kept because the variable's node lies there. */
typedef struct Local {
    Var *var;
    Value value;
    Module *module;
    bool graph;             /* %0 */
    uint64_t result; /* `%_3`: the number of what a cell gave, among all results; 0: it is none */
    uint32_t
        depth; /* modules that `module` keeps for the variables that it used, one behind the other */
} Local;

/* What no longer fits something that was defined anew: not there until its text, read again, agrees with what there is. */
typedef struct Stale Stale;
/* results.c: the state before a cell. */
typedef struct Undo Undo;
/* journal.c: the text of a result. */
typedef struct Told Told;
/* ask.c: a file that this session wrote. */
typedef struct Written Written;

typedef enum Engine { ENGINE_AUTO, ENGINE_INTERP, ENGINE_JIT, ENGINE_GPU, ENGINES } Engine;

/* Of the pipeline before compiled code, when nothing is said. */
#define OPT_LEVEL_USUAL 2

/* What took so many seconds to make is not taken back unasked. */
#define LONG_SECONDS 5.0

typedef struct Imported Imported;
typedef struct HotCode HotCode;

struct RelaySession {
    Ctx cx;
    Interp *interp;
    Tier tier; /* of the evaluator, for the engine `auto` */
    HotCode *hot; /* what is compiled for it: tier.c */
    const Name *hot_failed; /* in whose code of the JIT the evaluation failed; NULL: none */
    const JitTable *jit_table; /* NULL until the plug-in is opened */
    Jit *jit;
    bool jit_tried;
    Buf jit_why; /* why there is no JIT */
    const char
        *missing; /* what constants are that the metadata of the text lacks; NULL: an error */
    bool strict; /* the text that is being read must be one that the original reads */
    Module *env; /* the definitions so far */
    int opt_level; /* of what is compiled */
    bool exact; /* nothing in it reorders or approximates */
    bool tf32; /* factors of float32 may be rounded on a card */
    const char *steps; /* by hand, for what is compiled: `:schedule`; NULL: none */
    double peak; /* what a core computes in a second (runtime/speed.h); 0: not measured yet */
    const char *gpu_target; /* that its kernels are made for; NULL: what the card has */
    bool on_gpu; /* what is compiled or called now runs on the card */
    bool no_cache; /* compiled code is neither kept in files nor taken from them */
    bool clocked; /* what is compiled now times its kernels */
    PtrMap
        optimised[2]; /* Function -> what optimise.c made of it, for the processor and for a card */
    Module *libraries
        [16]; /* imported libraries by their position in prelude_files; NULL until asked for */
    Local *locals; /* newest binding of each name */
    size_t n_locals, cap_locals;
    PtrMap local_names, graph_names; /* Name -> Var: ParseEnv */
    PtrMap local_values; /* Var -> const Value *, which lies in `locals`: interp_eval */
    PtrMap local_places[2]; /* Name -> place in `locals`, plus one; graph variables apart */
    RelaySink sink; /* of the running call */
    RelayOptions options;
    Engine engine;
    atomic_bool running;
    atomic_uint_least64_t began; /* when the running call did, in microseconds */
    Progress progress; /* what it is at */
    bool prelude_loaded;
    bool fresh; /* everything was forgotten in this cell */
    Imported *imported; /* files, newest first */
    Module *failed; /* whose variables stand for those of bindings that failed; NULL: none did */
    PtrMap failed_old[2]; /* what their names meant before: locals, graph variables */
    PtrMap
        failed_names; /* definitions that failed: Name; they are in `env` with what is known of their types */
    Stale *stale; /* newest first */
    bool gaps; /* there may be others that failed, by names that are not known */
    int loading; /* nesting of :load */
    char *loaded; /* the file that was last; NULL: none was */
    unsigned lives; /* displays so far that replace what they showed */
    uint32_t number; /* of the running cell, if somebody typed it */
    uint32_t numbers; /* the latest of them */
    bool by_items; /* the running text has many such cells */
    bool results_gone; /* some were let go of, and that was said */
    bool undone; /* the running cell took another one back */
    Undo *undo; /* newest first */
    Undo *noting; /* to which what happens to variables is added; NULL: to none */
    bool
        journals; /* what the running cell defines and binds goes into the journal: not what a start-up file does */
    Buf journal; /* the text of all that was defined and bound */
    Told *told; /* what results were made by, oldest first */
    size_t n_told, cap_told, told_most;
    uint64_t results; /* so far */
    double journal_seconds; /* that this took */
    size_t unsaid; /* cells that are not in it, and perhaps wrote into references of variables */
    size_t untold; /* items that are not, since they use results whose text is gone */
    Buf answers; /* what a person was asked for by the running command, each behind a blank */
    uint64_t binds; /* of variables, and of what commands made definitions of, so far */
    uint64_t defines; /* environments so far: pointers to them come again */
    uint64_t world; /* contexts so far: behind `:reset` nothing of the one before is left */
    Module *
        last; /* the newest item that was no command: what commands without an argument are about; NULL: none */
    int64_t output_most; /* elements of a value that are shown; 0: the usual */
    PtrMap said; /* places of warnings that were shown */
    PtrMap uses; /* Op -> how often the cells named it, as a number; for completion */
    bool patient; /* who called waits for memory (base/memory.h), and so does its sink */
    bool
        lost; /* memory was gone for good in the middle of something: nothing here is known to be whole */
    bool quit; /* :quit was run in this cell; nothing behind it is */
    struct Stops *stops; /* breakpoints and watched variables; NULL: none */
    RelayStepper stepper;
    RelayAsker asker;
    atomic_bool asking; /* somebody thinks about an answer */
    Written *written; /* newest first */
    atomic_bool pause; /* what is watched stops behind its next step */
};

/* ---- session.c ------------------------------------------------------------------------------------------------------------ */

/* Begins a public call: diagnostics and limits start afresh, outputs go to `sink`. */
void session_begin(RelaySession *s, RelaySink sink);
/* Ends it: shows the diagnostics that are left, and says how it went. */
RelayStatus session_end(RelaySession *s);
/* How it went so far, from the diagnostics and limits. */
RelayStatus session_status(RelaySession *s);
/* Does the work of a public call. False, after a message to the sink, when memory was gone for good in it or in an earlier one. */
bool session_guard(RelaySession *s, RelaySink sink, void (*work)(void *data), void *data);
/* Since the running call began; and so many of them do not count. */
double session_seconds(RelaySession *s);
void session_skip(RelaySession *s, double seconds);
/* What text of this session may refer to. */
ParseEnv session_parse_env(RelaySession *s);
/* A whole text: Relay, or the JSON form of the original. */
Module *session_parse(RelaySession *s, uint32_t source, const ParseEnv *env);
/* `import` of a library or of a file; retained for the caller. */
Module *session_import(void *session, Str path, Span span);
/* imports.c: one of the libraries; retained for the caller. */
Module *session_library(RelaySession *s, Str name);
void session_forget_imports(RelaySession *s);
/* The prelude's definitions, unless the options say otherwise; once. */
void session_load_prelude(RelaySession *s);
/* An expression outlives the variables that it uses, whose nodes lie in other modules: those live as long. */
/* How many such modules stand one behind the other. */
uint32_t session_keep_used(const RelaySession *s, Module *m);
/* Takes the value and retains the module. */
void session_bind(RelaySession *s, Var *var, Value value, Module *module, bool graph);
/* The variable has another value of its type from here on, which is taken. */
void session_rebind(RelaySession *s, const Local *l, Value value);
/* The variable of that name; NULL for none. Lent until the next one is bound. */
Local *session_local(const RelaySession *s, const Name *name, bool graph);
/* Forgets the variable. */
void session_unbind(RelaySession *s, const Name *name, bool graph);
/* An environment with the definitions of a module; the caller's. */
Module *session_with(Module *env, Module *m);
/* Forgets everything that was defined. */
void session_reset(RelaySession *s);
/* `env`, whose ownership goes over, in place of what was defined. */
void session_set_env(RelaySession *s, Module *env);

/* check.c: gives a module its types, as typecheck_module_as does, and replaces the forms in it (passes/forms.h). False after diagnostics. */
bool session_check(RelaySession *s, Module *m, const Module *env, CheckWish wish);
/* Whether the variables of the session that the expression uses are still bound to what they were. */
bool session_is_current(const RelaySession *s, const Expr *e);
/* What was written behind `let %x =`, with types; NULL where that is not known, or would mean something else by now. */
const Expr *session_written(void *session, const Var *v);
/* What was written for a variable that holds a function, whichever variables it goes through, and the last of these; else e itself, and
 * *last, where that is asked for, is left alone. */
Expr *session_behind(RelaySession *s, Expr *e, Var **last);

/* ---- results.c ------------------------------------------------------------------------------------------------------------ */

/* What the result of the cell with that number is called, without its sigil. */
typedef struct ResultName {
    char text[16];
} ResultName;
ResultName result_name(uint32_t number);

/* Keeps the result of an item of the running cell, which is lent. */
void results_keep(RelaySession *s, Value v, const Type *t, const CellItem *item);
/* Unbinds a result, which `:undo` does not bring back. */
void results_drop(RelaySession *s, const Local *l);
/* Those that hold functions may call what is there no more. */
void results_forget_code(RelaySession *s);
/* A cell begins: what it changes is noted; NULL without memory. And what becomes of that behind it: a step, if anything changed. */
Undo *undo_take(RelaySession *s);
void undo_keep(RelaySession *s, Undo *u);
void undo_forget(RelaySession *s);
/* The variable of that name becomes another, or none; NULL: there was none. */
void undo_note(RelaySession *s, const Name *name, bool graph, const Local *was);
/* The type of that name is defined again as it was. */
void undo_note_type(RelaySession *s, const Name *name);
/* How many functions and variables were made here, in words; false for none. */
bool session_possessions(const RelaySession *s, Buf *out);
/* cell.c: whether a value of the type may hold a function or a reference. */
bool type_holds_code(const Type *t);

/* ---- journal.c ------------------------------------------------------------------------------------------------------------ */

/* Adds definitions to the text that `:save` writes; then a command, whose variables may be results. */
void journal_add(RelaySession *s, Span span);
void journal_text(RelaySession *s, const char *text, size_t len);
/* The same of a binding, whose text is made before it runs, since it may bind the name of a result. */
void journal_tell(RelaySession *s, const CellItem *item, Buf *out);
void journal_put(RelaySession *s, const Buf *told);
void journal_part(RelaySession *s);
/* The newest result is what the item gave, for what comes to use it. */
void journal_result(RelaySession *s, const CellItem *item);
/* Nothing behind this place is there any more. */
void journal_cut(RelaySession *s, size_t place);
void journal_free(RelaySession *s);

/* ---- ask.c ----------------------------------------------------------------------------------------------------------------- */

/* Asks the person who typed the cell. False when nobody did, or can answer, or the cell was interrupted meanwhile. */
bool session_ask(RelaySession *s, const char *question, Buf *answer);
/* Whether they mean it; the words go before "? [y/N]". A script does, and where nobody can answer a note says that it was done. */
__attribute__((format(printf, 2, 3))) bool session_confirm(RelaySession *s, const char *format,
                                                           ...);
/* Whether a file may be written that may be there already: not unasked, if it was not this session that wrote it. */
bool session_may_write(RelaySession *s, const char *path);
void written_forget(RelaySession *s);

/* ---- emit.c ---------------------------------------------------------------------------------------------------------------- */

void emit_mimes(RelaySession *s, RelayOutputKind kind, size_t n, const RelayMime *mimes);
void emit_text(RelaySession *s, RelayOutputKind kind, const Buf *text);
/* A display that takes the place of the one before with the same number; `more`: another will. */
void emit_live(RelaySession *s, unsigned live, bool more, size_t n, const RelayMime *mimes);
/* Something to look at: as text, as HTML for faces that show it, which gets one style sheet, and what programs read. */
void emit_bundle(RelaySession *s, const Buf *text, Buf *html, const Buf *json);
/* The same of code; which, stands in RelayOutput.language. */
void emit_code(RelaySession *s, const char *language, const Buf *text, Buf *html, const Buf *json);
/* The same with the text in parts, for faces that asked for it; NULL: it has none. */
void emit_in_parts(RelaySession *s, const Buf *text, const Buf *parts, Buf *html, const Buf *json);
__attribute__((format(printf, 3, 4))) void emit_printf(RelaySession *s, RelayOutputKind kind,
                                                       const char *format, ...);
void emit_diags(RelaySession *s);
/* The same for those behind the mark alone, which are taken back. */
void emit_diags_behind(RelaySession *s, DiagsMark mark);
/* That memory was refused, without any memory. */
void emit_refused(RelaySession *s);
/* The same, where the session is lost. */
void emit_lost(RelaySession *s);

/* ---- stale.c ---------------------------------------------------------------------------------------------------------------- */

struct Stale {
    const Name *name;
    char sigil; /* '@', '%', or 0 for a type */
    bool graph; /* %0 */
    Span span; /* its name */
    Span text; /* of the definition or binding; none: a value that cannot be made anew */
    Span where; /* what does not fit */
    char *why;
    Span since; /* the definition that it no longer fits */
    const Name *changed;
    char changed_sigil;
    Module
        *home; /* counted: of a variable, whose name means a node in it that has the poison type */
    Stale *next;
};

/* Copies `why`; takes over the rest. */
void stale_add(RelaySession *s, Stale what);
/* It is defined again, or it is gone. */
void stale_forget(RelaySession *s, char sigil, bool graph, const Name *name);
void stale_forget_all(RelaySession *s);
/* The definition that something no longer fits; where nothing defines it any more it has no place. */
typedef struct Renewed {
    const Name *name;
    char sigil;
    Span span;
} Renewed;
/* One warning for the n newest of them, each with what is wrong with it. */
void stale_warn(RelaySession *s, size_t n, Renewed changed);
/* A copy of the list, for later; it is given back, or put in place of the list that there is. */
Stale *stale_copy(RelaySession *s);
void stale_free_list(RelaySession *s, Stale *list);
void stale_restore(RelaySession *s, Stale *list);
const Stale *stale_find(const RelaySession *s, char sigil, const Name *name);
/* Reads again what is stale, if the item (NULL: whatever it is) uses some of it. True when something fits again: then the item's text is
 * to be read again too. */
bool stale_refresh(RelaySession *s, const Module *item);
/* False after a diagnostic: the item, whose text is `whole`, uses something that is stale. */
bool stale_unused(RelaySession *s, const Module *item, Span whole);

/* The columns for prose that is laid out here: no more than is easily read. */
int session_width(const RelaySession *s);
/* The words of a text, in lines of at most `width` columns; behind the first, which has begun at `column`, each begins there. */
void fill_words(Buf *b, Str text, int column, int width);
/* A row of a list: what it is called, and beside it from that column on, or below where the name is too long, what it does. */
void fill_row(Buf *b, const char *name, Str text, int column, int width);

/* ---- redefine.c, carry.c ---------------------------------------------------------------------------------------------------- */

/* Something of the session that is read again because it uses what is redefined. */
typedef struct Dependent {
    const Name *name;
    char sigil; /* '@', '%', or 0 for a type */
    Span text;
} Dependent;

/* What a variable becomes. */
typedef struct Carried {
    Var *old, *var; /* var NULL: the old one with its value stays */
    Value value; /* of the new type; NONE: `item` is to be evaluated */
    CellItem item; /* its binding, read again */
    const char *why; /* it becomes stale; else NULL */
    Span where, text;
} Carried;

/* What a definition loses that no longer fits. */
typedef struct Dropped {
    Dependent what;
    Span span, where;
    const char *why;
} Dropped;

/* A cell's definitions and all that depends on them. What does not fit them is dropped: it becomes stale. */
typedef struct Redefinition {
    RelaySession *s;
    Module *cell; /* counted: what the cell defines */
    Module *m; /* counted: the same with what depends on it */
    Module *base; /* counted: the session's environment without what was dropped */
    Module *env; /* counted: the environment as it will be; NULL before that is known */
    Arena arena;
    PtrMap names; /* the functions that change */
    PtrMap retyped; /* those of them whose type does */
    PtrMap types; /* the data types that change: the old one -> the new one, once it was read */
    PtrMap same; /* data types of the cell that are there already */
    PtrMap looked; /* types in which no changed one was found */
    Vec(Dependent) dependents;
    Vec(Dropped) dropped;
    Vec(Carried) carried;
    Vec(const Name *) own_types, own_defs;
} Redefinition;

/* Retains m. */
void redefinition_init(Redefinition *r, RelaySession *s, Module *m);
void redefinition_deinit(Redefinition *r);
/* Finds and checks everything; false after diagnostics, when the cell itself is wrong. */
bool redefinition_check(Redefinition *r, bool answers);
/* The same for nothing but what is stale. */
bool redefinition_of_stale(Redefinition *r);
/* What is wrong with a text that does not fit; `others`: what it does not find may be something else that is stale. */
const char *stale_reason(RelaySession *s, Arena *a, const Diag *wrong, bool others);
/* The item that stands there, read and checked with these definitions; its module is the caller's. False after diagnostics. */
bool read_binding(RelaySession *s, Module *globals, Span text, CellItem *out);
/* Then: what was checked becomes the session's. False when a limit was hit. */
bool redefinition_commit(Redefinition *r);
/* The types of what the cell defined. */
void redefinition_show(const Redefinition *r);
bool redefinition_mentions(Redefinition *r, const Type *t);
/* Whether the expression names something that changes. */
bool redefinition_depends(Redefinition *r, const Expr *e);
/* carry.c: what becomes of the variables; false after diagnostics. */
bool carry_check(Redefinition *r);
bool carry_commit(Redefinition *r);
void carry_deinit(Redefinition *r);
/* After definitions were taken back: what holds a function that calls another one than it was checked with is stale. */
void carry_back(RelaySession *s);
/* Functions in variables look up what they call in the environment as it is now. */
void carry_renew(RelaySession *s);

/* ---- display.c ------------------------------------------------------------------------------------------------------------- */

/* `t`: its type; NULL: nobody knows. */
void display_value(RelaySession *s, RelayOutputKind kind, Value v, const Type *t);
/* `%x: int32 = 3`; of a large tensor its statistics. */
void display_binding(RelaySession *s, const Local *local);
/* A program's text, coloured for HTML. */
void display_program(RelaySession *s, const char *title, const Buf *text);
/* The same of what a program becomes. */
void display_code(RelaySession *s, CodeLanguage language, const Buf *text);
/* A matrix or a stack of them as pictures; false after a diagnostic. */
bool display_image(RelaySession *s, Value v, Span span);
/* Code points, a vector or a list of integers, as text; false after a diagnostic. */
bool display_text(RelaySession *s, Value v, Span span);

/* ---- work.c ----------------------------------------------------------------------------------------------------------------- */

/* The operators and calls that the evaluator runs for the expression; 0 where that depends on values. */
uint64_t work_steps(const Module *env, const Expr *e);

/* ---- engine.c -------------------------------------------------------------------------------------------------------------- */

/* The JIT, opened when first asked for; false when there is none (jit_why says why). */
bool session_jit(RelaySession *s);
/* What runs again and again runs where that is fastest: the session's engine, and for `auto` the JIT. */
Engine session_steady_engine(RelaySession *s);
/* By number: "auto", "interp", "jit", "gpu". */
extern const char *const engine_names[ENGINES];
/* Parses one of them; false when it is none. */
bool engine_parse(const char *text, Engine *out);
static inline bool engine_compiles(Engine e)
{
    return e == ENGINE_JIT || e == ENGINE_GPU;
}
/* From here on, what is compiled is for this engine. Gives what was before, which is to be set again. */
bool engine_on_gpu(RelaySession *s, bool on);
/* False, with a diagnostic at `asked`, for an engine that nothing runs on here. */
bool engine_ready(RelaySession *s, Engine engine, Span asked);
/* Whether the definition failed, in a script that ran on, or may be one whose name could not be read. */
bool session_failed(const RelaySession *s, const Name *name);
/* Whether an expression or definition uses a variable or definition that failed: that was reported, and nothing is run or said. */
bool session_uses_failed(const RelaySession *s, const Expr *e);
/* Takes what failed in a script out of the environment, of which those names (keys) are wrong definitions. */
void session_forget_failed(RelaySession *s, const PtrMap *names);
/* Runs a checked expression; what the JIT cannot compile the evaluator runs, with a warning. NONE after a diagnostic. */
Value engine_eval(RelaySession *s, Engine engine, Module *env, Module *keep, Expr *e);

/* A definition that is ready to be called. */
typedef struct Runnable {
    Engine engine; /* that runs it */
    Module *written,
        *env; /* counted: the program, and what the engine runs: that, or what the optimiser made of it */
    const Name *name;
    Span span; /* of the definition */
} Runnable;

/* Makes `name` of env ready for the engine; what the JIT cannot compile falls to the evaluator, with a warning. False after a
 * diagnostic, and then there is nothing to release. */
bool engine_prepare(RelaySession *s, Engine engine, Module *env, const Name *name, Runnable *out);
/* The same for calls with these arguments: the engine runs what is written for their extents where the types leave some open. */
bool engine_prepare_for(RelaySession *s, Engine engine, Module *env, const Name *name,
                        const Value *args, Runnable *out);
/* What is kept in files can be run; it does not say what the optimiser made of the program. What is made beside goes on while others run,
 * until the JIT prepares it. */
typedef enum CompileFor { COMPILE_TO_RUN, COMPILE_TO_SHOW, COMPILE_BESIDE } CompileFor;
/* The same for the JIT alone: false also when it cannot compile it, which `why` says. */
bool engine_compile(RelaySession *s, Module *env, const Name *name, CompileFor use, Runnable *out,
                    Buf *why);
/* Calls code of the JIT, which takes the arguments, or, where it has none for these and `why` says so, the evaluator. */
Value engine_call_code(RelaySession *s, const Runnable *r, uint32_t n, const Value *args, Span span,
                       Buf *why);
/* Calls it; the arguments are lent. NONE after a diagnostic. */
Value engine_call(RelaySession *s, const Runnable *r, uint32_t n, const Value *args);
/* Whether the optimiser knew the value that it will have. */
bool runnable_is_constant(const Runnable *r);
/* Lets go of it and of its code, unless the session's definitions use that too. */
void engine_release(RelaySession *s, Runnable *r);
/* No text can name it: identifiers have no dots. */
#define THUNK_NAME "cell.it"

/* ---- thunk.c: an expression as a function, which is what the JIT compiles ------------------------------------------------------ */

/* Which functions that variables hold become code of the thunk, with what they captured as constants; others are called as values. */
typedef enum Closures {
    CLOSURES_UNCOMPILED, /* those that the evaluator made: a call would go back to it */
    CLOSURES_ALL, /* for views and measurements: what they have in them is to be seen */
} Closures;

/* A function without free variables that evaluates `e`: a module over `env` with it as THUNK_NAME, whose parameters are the session's
 * variables that e uses; their values go to `args` (lent). A function is known by the text that a cell gave it, as long as what it uses is
 * current. False after a diagnostic. */
typedef struct Thunk {
    Module *module;
    const Name *name;
    Value *args;
    uint32_t n;
} Thunk;
bool thunk_make(RelaySession *s, Module *env, Module *keep, Expr *e, Closures closures, Thunk *out);
/* The same of a function: its parameters are the thunk's. What it captured of the session are constants, or parameters too where that is known
 * as a value alone. */
bool thunk_of_function(RelaySession *s, Module *keep, Function *fn, Thunk *out);
/* What the session keeps of it as it was compiled goes too. */
void thunk_free(RelaySession *s, Thunk *t);

/* ---- trail.c ---------------------------------------------------------------------------------------------------------------- */

/* Items of a text that are checked one after the other and not run, in a world of their own. */
typedef struct Seen {
    Module *module;
    Span span;
} Seen;

typedef struct Trail {
    RelaySession *s;
    Module *env;
    PtrMap locals, graph;
    Vec(Seen) seen; /* in the arena of `env` */
    bool script; /* each item is a cell with a number of its own */
    uint32_t number; /* of the item that was read last */
} Trail;

bool trail_init(Trail *t, RelaySession *s);
void trail_deinit(Trail *t);
ParseEnv trail_env(const Trail *t);
/* Takes the item's module. What could not be read or checked has the poison type from here on. */
void trail_check(Trail *t, const CellItem *item);
/* The same for what was checked already. */
void trail_define(Trail *t, const CellItem *item);
/* Checks the items of a text, those with errors as far as they go, up to the one that `until` lies in. Arguments of commands are
 * expressions too. */
void trail_read(Trail *t, uint32_t source, size_t until);

/* ---- around.c --------------------------------------------------------------------------------------------------------------- */

/* `%x + 1: int32` for the innermost expression at the cursor, whatever it is; or, when that is what a call calls, the type of the
 * call. False when there is none whose type is known. */
typedef enum AroundWhat { AROUND_ALL, AROUND_CALLEE } AroundWhat;
bool describe_around(RelaySession *s, Buf *b, const char *text, size_t len, size_t cursor,
                     AroundWhat what);
/* The same in items that were read; where that expression lies goes to `at`. */
bool describe_seen(Buf *b, const Trail *t, const char *text, uint32_t source, size_t cursor,
                   AroundWhat what, Span *at);
/* The token around the cursor, no comment; of names and numbers also the one that ends there, where no other begins, and no punctuation. */
bool lexed_at(const char *text, size_t len, size_t cursor, bool named, LexedToken *token);
/* What the call calls in whose parentheses the cursor stands; false when it stands in none. */
bool callee_before(const char *text, size_t cursor, LexedToken *callee);
/* Appends what closes the brackets that are open in the text; `filler` stands where that wants an expression. */
void close_brackets(Buf *out, const char *text, size_t len, const char *filler);
/* Whether what is written behind the text is a pattern: of a clause of a `match`, or of a field in one. */
typedef enum PatternPlace { PATTERN_NOWHERE, PATTERN_CLAUSE, PATTERN_FIELD } PatternPlace;
PatternPlace pattern_place(const char *text, size_t len);
/* How something fits: here; here too, but other clauses take all that it would; as all clauses that are missing. */
typedef enum Fits { FITS_NOW, FITS_ELSEWHERE, FITS_ALL } Fits;
/* What is wanted where [from, to) stands in a text that is being typed: the answer of the checker to a hole in its place. `type` NULL:
 * nobody knows. `fits` calls back for each name that fits, as one would write it. */
typedef struct Wanted {
    const Type *type;
    PatternPlace place;
    void (*fits)(void *data, const char *text, Fits how);
    void *data;
} Wanted;
/* Behind the hole `more` others stand, as further arguments, where nothing does yet. */
void find_wanted(RelaySession *s, Wanted *w, Str text, RelayRange at, int more);
/* inspect.c: an operator, a constructor, a type or a pass; `detail` 0 is short. */
bool describe_name(RelaySession *s, Buf *b, Str name, int detail);
/* complete.c: what could stand at the cursor, in the session as it is. */
void complete_at(RelaySession *s, const char *text, size_t len, size_t cursor,
                 RelayCompletions *out);

/* ---- json.c ---------------------------------------------------------------------------------------------------------------- */

/* A value in the encoding of cli.md, without recursion over its depth. */
void json_encode_value(RelaySession *s, Buf *out, Value v);
/* The arguments of an entry: a JSON array or object from a file, into args (n of them, by position or parameter name). */
bool json_read_args(RelaySession *s, const char *path, Module *m, const Function *fn, Value *args);

/* ---- bind.c ---------------------------------------------------------------------------------------------------------------- */

/* The program in which the parameters of the entry that are `known` are constants, by their values; a value that cannot stand in a
 * program stays an argument. The values that became constants are let go of, the others move to the front, which they are the
 * arguments of. The caller's; NULL after a diagnostic. */
Module *bind_params(RelaySession *s, Module *m, const Name *entry, const bool *known,
                    Value *values);

/* The expression with `@to` in place of each `@from`; new nodes lie in m. NULL after a diagnostic. */
Expr *rename_global(Ctx *cx, Module *m, Expr *e, const Name *from, const Name *to);

/* ---- args.c ---------------------------------------------------------------------------------------------------------------- */

/* The index of the parameter of that name; -1: there is none. */
int param_index(const Function *fn, const char *name, size_t len);
/* The arrays of `--params` that are named as parameters, as arguments; `args` has room for all, and keeps the others. False after a
 * diagnostic. */
bool request_arrays(RelaySession *s, const RelayRequest *r, const Function *fn, Value *args);
/* The program whose entry has the arrays of --params as constants (bind_params), by parameter name; the caller's, NULL after a
 * diagnostic. */
Module *request_bound(RelaySession *s, const RelayRequest *r, Module *m, const Name *entry);
/* Fills args[0 … fn->params.n) from the request: args, arg, random. The values are the caller's. */
bool request_args(RelaySession *s, const RelayRequest *r, Module *m, const Function *fn,
                  Value *args);
/* A value of the type with random numbers, which go on from `*drawn`; NONE where there is none, or where a limit is hit. */
Value value_random(Limits *limits, const Type *type, uint64_t seed, uint64_t *drawn);
const char *request_find(const RelayRequest *r, const char *key);
bool request_flag(const RelayRequest *r, const char *key);
/* The bytes of a file as a vector of uint8; NULL after a diagnostic. */
Tensor *bytes_of_file(RelaySession *s, const char *path);
/* What symbolic extents are in this run. */
typedef struct DimValue {
    Dim symbol;
    int64_t extent;
} DimValue;
typedef Vec(DimValue) DimValues;
/* Whether a value has a type. Symbolic extents that are not in the list yet go there; NULL: they agree with everything. */
bool value_has_type(Ctx *cx, Value v, const Type *t, DimValues *symbols);
/* The result's tensors by name into a file of arrays: .npz, or .params. */
bool write_result(RelaySession *s, const char *path, Value v);

/* ---- others ------------------------------------------------------------------------------------------------------------------ */

/* stages.c: parses, imports and checks a whole text; the caller's, NULL after diagnostics. `up_to` "fmt" leaves types out. */
Module *load_program(RelaySession *s, const char *name, const char *text, size_t len, bool check);
/* stages.c: a module whose bare expression is `@main` over the variables that it declares free; the caller's. */
Module *with_main(RelaySession *s, Module *m);
/* The same with the entry's parameters bound as the request says; NULL after a diagnostic, also when there is no such function. */
Module *with_entry(RelaySession *s, const RelayRequest *r, Module *text, const char *entry);
/* bench.c, model.c, summary.c, doctor.c */
RelayStatus stage_analyze(RelaySession *s, const RelayRequest *r);
/* stages.c: the definition of that name; NULL after a diagnostic. */
const Def *find_entry(RelaySession *s, const Module *m, const char *entry);
RelayStatus stage_compile(RelaySession *s, const RelayRequest *r);
RelayStatus stage_equal(RelaySession *s, const RelayRequest *r);
/* The GPU of this name, of which the JIT is there; NULL after a diagnostic. */
const char *stage_target(RelaySession *s, const char *target);
RelayStatus stage_bench(RelaySession *s, const RelayRequest *r);
RelayStatus stage_summary(RelaySession *s, const RelayRequest *r);
RelayStatus stage_new(RelaySession *s, const RelayRequest *r);
/* import.c */
RelayStatus stage_import(RelaySession *s, const RelayRequest *r);
RelayStatus stage_export(RelaySession *s, const RelayRequest *r);
RelayStatus stage_doctor(RelaySession *s, const RelayRequest *r);
RelayStatus stage_version(RelaySession *s, const RelayRequest *r);
/* complete.c: notes which operators a cell names. */
void complete_note_uses(RelaySession *s, const char *text, size_t len);
/* commands.c: runs `:name args`. */
void command_run(RelaySession *s, const CellItem *item);
/* cell.c: the items of a source, one after the other, up to one that fails. */
typedef struct CellRun {
    uint32_t source;
    bool silent, go_on, items; /* as of RelayCell */
} CellRun;
RelayStatus cell_run(RelaySession *s, CellRun run);
/* The functions of env that `names` reach, as a module of their own. */
Module *module_slice(RelaySession *s, Module *env, const Name *name);
/* The module's expression with the functions that it reaches and no library has; the caller's, NULL without memory. */
Module *module_with_reached(Module *env, Module *m);

#endif
