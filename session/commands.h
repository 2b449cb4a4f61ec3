/* What the commands of cells share: their arguments. */
#ifndef SESSION_COMMANDS_H
#define SESSION_COMMANDS_H

#include "session/internal.h"
#include "session/timing.h"

/* What a command works on: the argument text and where it stands. */
typedef struct CommandCall {
    RelaySession *s;
    Span args;
    Str text;
    const RelayCommand *row;
} CommandCall;

#define COMMAND(name, group, args, doc, more, fn) void fn(CommandCall *c);
#include "session/commands.def"

/* The row of the name, or the only one that begins so; NULL for none. */
const RelayCommand *command_find(Str name);
/* Whether there is the command; false after E0405. */
bool command_known(RelaySession *s, const CellItem *item);
/* The page of a diagnostic. */
void page_display(RelaySession *s, DiagCode code);
/* The first word of the arguments; what is left stays in the call. */
Str command_word(CommandCall *c);
/* `name=number` in front of the other arguments, which it takes off; `value` stays when it is not there. False after a diagnostic. */
bool command_setting(CommandCall *c, const char *name, uint64_t *value);
/* The same for a number that need not be whole. */
bool command_real_setting(CommandCall *c, const char *name, double *value);
/* The same of `name=word`. */
void command_word_setting(CommandCall *c, const char *name, Str *value);
/* The arguments as text, without quotation marks around them, and with the home folder for a `~` in front of a path; the caller's. */
char *command_rest(const CommandCall *c);
/* The same where it is a file to read: NULL after a diagnostic where it is the standard input, which is the session's own. */
char *command_file(const CommandCall *c);
/* Whether it is the name of a variable alone, `%x`. */
bool command_is_variable(const char *text);
/* False after E0402 when there are no arguments; `what` names them: "an expression". */
bool command_need(CommandCall *c, const char *what);
/* The global that the argument names as `@f`, when it is nothing else. */
const Def *command_global(CommandCall *c);
/* The argument as a checked expression; the caller's, NULL after diagnostics. */
Module *command_expr(CommandCall *c);
/* The same to be run or compiled: NULL also when it uses something that failed before, which is said. */
Module *command_program(CommandCall *c);
/* The argument as a module to transform, likewise: a function with all that it reaches, or an expression. */
Module *command_module(CommandCall *c);

/* person.c: `:set keep`. */
void settings_keep(CommandCall *c);

/* The passes in front of the other arguments, which it takes off. */
Str command_pipeline(CommandCall *c);
/* Where the last pass of a pipeline begins. */
size_t pipeline_last(Str pipeline);
/* `:explain pass`: what passes decided. */
void explain_pass(CommandCall *c);

/* What stands where loops would. */
#define NO_LOOPS                                                                                \
    "no loops: what is here is scalar code, which `:show llvm` shows, or waits for the shapes " \
    "that a call gives, such as `@f(%x)`"
/* A function literal stands for itself; anything else becomes the body of a function. */
bool code_thunk(RelaySession *s, Module *m, Thunk *out);

/* `:explain types`: the story of the arguments' types. */
void explain_types(CommandCall *c);
/* Infers the module's types and shows how, step by step; false after diagnostics. */
bool explain_module(RelaySession *s, Module *m, const Module *env);

/* limits.c: three quarters of the machine's memory. */
size_t limit_default_memory(void);
/* Sets "time_limit" (seconds), "memory_limit" (MiB), "depth_limit" or "output_limit"; "none" or "0": there is none. False for another
 * option or no amount. */
bool limit_set(RelaySession *s, const char *option, const char *amount);

#endif
