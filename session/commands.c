/* The commands of cells, `:name args`: one row each. */
#include "ir/print.h"
#include "passes/pass.h"
#include "runtime/npy.h"
#include "session/explain.h"
#include "session/internal.h"
#include "stdlib/stdlib.h"
#include "typecheck/typecheck.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* What a command works on: the argument text and where it stands. */
typedef struct CommandCall {
    RelaySession *s;
    Span args;
    Str text;
} CommandCall;

static void command_help(CommandCall *c);

/* ---- arguments -------------------------------------------------------------------------------------------------------------- */

/* The first word of the arguments; what is left stays in the call. */
static Str take_word(CommandCall *c)
{
    size_t n = 0;
    while (n < c->text.len && !isspace((unsigned char)c->text.ptr[n]))
        n++;
    Str word = {c->text.ptr, n};
    while (n < c->text.len && isspace((unsigned char)c->text.ptr[n]))
        n++;
    c->text = (Str){c->text.ptr + n, c->text.len - n};
    c->args.from += (uint32_t)n;
    return word;
}

static char *rest(const CommandCall *c)
{
    size_t n = c->text.len;
    const char *p = c->text.ptr;
    if (n >= 2 && p[0] == '"' && p[n - 1] == '"')
        return strndup(p + 1, n - 2);
    return strndup(p, n);
}

static bool need(CommandCall *c, const char *what)
{
    if (c->text.len)
        return true;
    diag_error(c->s->cx.diags, E0402_USAGE, c->args, "%s is missing", what);
    return false;
}

/* The global that the argument names as `@f`, when it is nothing else. */
static const Def *named_global(CommandCall *c)
{
    if (c->text.len < 2 || c->text.ptr[0] != '@')
        return NULL;
    for (size_t i = 1; i < c->text.len; i++)
        if (!isalnum((unsigned char)c->text.ptr[i]) && !strchr("_/", c->text.ptr[i]))
            return NULL;
    Str name = {c->text.ptr + 1, c->text.len - 1};
    return module_find(c->s->env, ctx_name_str(&c->s->cx, name));
}

/* The argument as a checked expression; the caller's, NULL after diagnostics. */
static Module *argument_expr(CommandCall *c)
{
    if (!need(c, "an expression"))
        return NULL;
    ParseEnv env = session_parse_env(c->s);
    Module *m = parse_range(&c->s->cx, c->args, &env);
    if (m && typecheck_module(&c->s->cx, m, c->s->env))
        return m;
    module_release(m);
    return NULL;
}

/* The argument as a module to transform: a function with all that it reaches, or an expression. */
static Module *argument_module(CommandCall *c)
{
    const Def *def = named_global(c);
    return def ? module_slice(c->s, c->s->env, def->name) : argument_expr(c);
}

/* ---- types ------------------------------------------------------------------------------------------------------------------- */

static void command_type(CommandCall *c)
{
    Module *m = argument_expr(c);
    if (!m)
        return;
    Buf b = {0};
    type_print(&b, m->expr->type);
    emit_text(c->s, RELAY_OUTPUT_DISPLAY, &b);
    buf_deinit(&b);
    module_release(m);
}

static void command_defs(CommandCall *c)
{
    RelaySession *s = c->s;
    Buf b = {0};
    for (size_t i = 0; i < s->env->types.n; i++)
        buf_printf(&b, "type %s\n", s->env->types.at[i]->name->text);
    const Def **defs = arena_new_array(&s->cx.arena, const Def *, s->env->defs.n);
    size_t n = module_sorted_defs(s->env, defs, true);
    for (size_t i = 0; i < n; i++) {
        if (strchr(defs[i]->name->text, '.'))
            continue;
        buf_printf(&b, "@%s: ", defs[i]->name->text);
        type_print(&b, defs[i]->fn->base.type);
        buf_str(&b, defs[i]->imported ? "    // library\n" : "\n");
    }
    for (size_t i = 0; i < s->n_locals; i++) {
        buf_printf(&b, "%%%s: ", s->locals[i].var->name->text);
        type_print(&b, s->locals[i].var->base.type);
        buf_char(&b, '\n');
    }
    emit_text(s, RELAY_OUTPUT_DISPLAY, &b);
    buf_deinit(&b);
}

/* ---- passes and code ------------------------------------------------------------------------------------------------------ */

typedef struct PassShow {
    RelaySession *s;
} PassShow;

static void show_pass(void *data, const char *pass, double seconds, const Module *before,
                      const Module *now)
{
    RelaySession *s = ((PassShow *)data)->s;
    PrintStyle style = {.no_header = true, .no_metadata = true};
    Buf old = {0}, text = {0}, title = {0};
    ir_print_module(&old, before, style);
    ir_print_module(&text, now, style);
    bool same = strcmp(buf_text(&old), buf_text(&text)) == 0;
    buf_printf(&title, "%s, %.2f ms%s", pass, seconds * 1e3, same ? ": no change" : "");
    if (same)
        display_program(s, buf_text(&title), &text);
    else
        display_diff(s, buf_text(&title), &old, &text);
    buf_deinit(&old);
    buf_deinit(&text);
    buf_deinit(&title);
}

static void list_passes(CommandCall *c)
{
    Buf b = {0};
    for (const Pass *const *p = passes; *p; p++)
        buf_printf(&b, "%-26s level %d  %s\n", (*p)->name, (*p)->opt_level, (*p)->doc);
    emit_text(c->s, RELAY_OUTPUT_DISPLAY, &b);
    buf_deinit(&b);
}

static void command_pass(CommandCall *c)
{
    if (c->text.len == 0) {
        list_passes(c);
        return;
    }
    /* The pipeline ends at the first blank outside brackets. */
    size_t n = 0;
    for (int depth = 0; n < c->text.len && (depth || !isspace((unsigned char)c->text.ptr[n])); n++)
        depth += (strchr("{[(", c->text.ptr[n]) != NULL) - (strchr("}])", c->text.ptr[n]) != NULL);
    Str pipeline = {c->text.ptr, n};
    CommandCall target = *c;
    target.text = (Str){c->text.ptr + n, c->text.len - n};
    target.args.from += (uint32_t)n;
    while (target.text.len && isspace((unsigned char)target.text.ptr[0])) {
        target.text.ptr++;
        target.text.len--;
        target.args.from++;
    }
    if (!need(&target, "what the passes are to run on (`@f`, or an expression)"))
        return;
    Module *m = argument_module(&target);
    PassShow show = {c->s};
    PassContext pc = {
        .cx = &c->s->cx, .opt_level = 4, .env = c->s->env, .after = show_pass, .data = &show};
    uint32_t source =
        m ? sources_add(&c->s->cx.sources, "pipeline", pipeline.ptr, pipeline.len) : 0;
    Module *now = source ? passes_run(&pc, m, source) : NULL;
    module_release(now);
    module_release(m);
}

/* ---- stages of one program ------------------------------------------------------------------------------------------------- */

static bool show_text(RelaySession *s, Module *m, PrintStyle style, const char *title)
{
    Buf text = {0};
    style.no_header = style.no_metadata = true;
    ir_print_module(&text, m, style);
    display_program(s, title, &text);
    buf_deinit(&text);
    return true;
}

static bool show_code(RelaySession *s, Module *env, const Name *name, JitText kind)
{
    Buf why = {0}, text = {0};
    if (!session_jit(s)) {
        diag_error(s->cx.diags, E0404_LIBRARY, (Span){0}, "there is no JIT: %s",
                   buf_text(&s->jit_why));
        return false;
    }
    bool ok = s->jit_table->prepare(s->jit, env, name, &why);
    if (!ok && s->cx.diags->errors == 0)
        diag_error(s->cx.diags, E0701_CANNOT_COMPILE, (Span){0}, "`@%s` cannot be compiled: %s",
                   name->text, buf_text(&why));
    ok = ok && s->jit_table->text(s->jit, env, name, kind, &text);
    if (ok && text.n == 0)
        buf_str(&text, "no loops: everything here is scalar code, which `:show llvm` shows");
    if (ok)
        emit_text(s, RELAY_OUTPUT_DISPLAY, &text);
    buf_deinit(&why);
    buf_deinit(&text);
    return ok;
}

/* A function literal stands for itself; anything else becomes the body of a function. */
static bool code_thunk(RelaySession *s, Module *m, Thunk *out)
{
    Function *fn = expr_as_function(m->expr);
    if (!fn)
        return thunk_make(s, s->env, m, m->expr, out);
    *out = (Thunk){.module = module_derive(s->env), .name = ctx_name(&s->cx, THUNK_NAME)};
    if (out->module)
        module_define(out->module, out->name, fn, fn->base.span, m);
    return out->module != NULL;
}

static bool show_code_of(CommandCall *c, JitText kind)
{
    const Def *def = named_global(c);
    if (def)
        return show_code(c->s, c->s->env, def->name, kind);
    Module *m = argument_expr(c);
    Thunk t;
    if (!m || !code_thunk(c->s, m, &t)) {
        module_release(m);
        return false;
    }
    bool ok = show_code(c->s, t.module, t.name, kind);
    if (c->s->jit)
        c->s->jit_table->forget(c->s->jit, t.module);
    thunk_free(&t);
    module_release(m);
    return ok;
}

typedef struct ShowRow {
    const char *name, *doc;
    bool code;
    JitText kind;
    PrintStyle style;
} ShowRow;

static const ShowRow show_rows[] = {
    {"text", "canonical text", false, JIT_TEXT_LOWERED, {0}},
    {"types", "canonical text with every inferred type", false, JIT_TEXT_LOWERED, {.types = true}},
    {"lowered", "the loop nests", true, JIT_TEXT_LOWERED, {0}},
    {"llvm", "LLVM IR", true, JIT_TEXT_LLVM, {0}},
    {"asm", "machine code", true, JIT_TEXT_ASM, {0}},
};

static void command_show(CommandCall *c)
{
    const char *names[sizeof show_rows / sizeof *show_rows];
    Str word = take_word(c);
    for (size_t i = 0; i < sizeof show_rows / sizeof *show_rows; i++) {
        const ShowRow *row = &show_rows[i];
        names[i] = row->name;
        if (!str_is(word, row->name))
            continue;
        if (!need(c, "what to show (`@f`, or an expression)"))
            return;
        if (row->code) {
            show_code_of(c, row->kind);
            return;
        }
        Module *m = argument_module(c);
        if (m)
            show_text(c->s, m, row->style, NULL);
        module_release(m);
        return;
    }
    Diag *d = diag_error(c->s->cx.diags, E0402_USAGE, c->args,
                         "`:show` wants to know what: text, types, lowered, llvm "
                         "or asm");
    char *wanted = strndup(word.ptr, word.len);
    diag_suggest(d, wanted ? wanted : "", sizeof names / sizeof *names, names);
    diag_help(d, "for instance `:show llvm @f`");
    free(wanted);
}

/* ---- time -------------------------------------------------------------------------------------------------------------------- */

/* Runs for a fifth of a second, at least once; the least time of a run. */
static bool time_engine(RelaySession *s, Engine engine, Thunk *t, double *least, double *first,
                        int *runs)
{
    double begin = clock_seconds();
    for (*runs = 0; *runs < 1 || (clock_seconds() - begin < 0.2 && *runs < 100000); ++*runs) {
        double start = clock_seconds();
        Value v = engine_call(s, engine, t->module, t->name, t->n, t->args);
        double seconds = clock_seconds() - start;
        if (value_is_none(v))
            return false;
        value_release(v);
        *first = *runs ? *first : seconds;
        *least = *runs && *least < seconds ? *least : seconds;
    }
    return true;
}

static void print_time(Buf *b, double seconds)
{
    if (seconds < 1e-3)
        buf_printf(b, "%8.2f µs", seconds * 1e6);
    else if (seconds < 1)
        buf_printf(b, "%8.2f ms", seconds * 1e3);
    else
        buf_printf(b, "%8.2f s ", seconds);
}

static void time_row(Buf *b, const char *name, double least, double first, int runs)
{
    buf_printf(b, "%-10s", name);
    print_time(b, least);
    buf_str(b, "   first ");
    print_time(b, first);
    buf_printf(b, "   %6d run%s\n", runs, runs == 1 ? "" : "s");
}

static void command_time(CommandCall *c)
{
    RelaySession *s = c->s;
    Module *m = argument_expr(c);
    Thunk t;
    if (!m || !thunk_make(s, s->env, m, m->expr, &t)) {
        module_release(m);
        return;
    }
    Buf b = {0}, why = {0};
    double least[2] = {0}, first[2] = {0};
    int runs;
    bool ok = time_engine(s, ENGINE_INTERP, &t, &least[0], &first[0], &runs);
    if (ok)
        time_row(&b, "evaluator", least[0], first[0], runs);
    double start = clock_seconds();
    bool jit = ok && session_jit(s) && s->jit_table->prepare(s->jit, t.module, t.name, &why);
    double compile = clock_seconds() - start;
    if (jit && time_engine(s, ENGINE_JIT, &t, &least[1], &first[1], &runs)) {
        time_row(&b, "JIT", least[1], first[1] + compile, runs);
        buf_printf(&b, "%-10s%8.1f times as fast; compiled in %.1f ms", "", least[0] / least[1],
                   compile * 1e3);
    } else if (ok && s->cx.diags->errors == 0) {
        buf_printf(&b, "JIT       %s", why.n ? buf_text(&why) : buf_text(&s->jit_why));
    }
    if (ok && s->cx.diags->errors == 0)
        emit_text(s, RELAY_OUTPUT_DISPLAY, &b);
    if (s->jit)
        s->jit_table->forget(s->jit, t.module);
    interp_forget(s->interp, t.module);
    buf_deinit(&b);
    buf_deinit(&why);
    thunk_free(&t);
    module_release(m);
}

/* ---- files ------------------------------------------------------------------------------------------------------------------- */

static void command_load(CommandCall *c)
{
    RelaySession *s = c->s;
    if (!need(c, "a file"))
        return;
    char *path = rest(c);
    size_t len;
    if (s->loading > 32) {
        diag_error(s->cx.diags, E0402_USAGE, c->args, "files load each other in a circle");
        free(path);
        return;
    }
    char *text = path ? file_read(s->cx.diags, path, &len) : NULL;
    uint32_t source = text ? sources_add(&s->cx.sources, path, text, len) : 0;
    free(text);
    free(path);
    if (!source)
        return;
    s->loading++;
    cell_run(s, (CellRun){.source = source});
    s->loading--;
}

static bool bind_array(void *data, const char *name, Tensor *t)
{
    CommandCall *c = data;
    RelaySession *s = c->s;
    Module *m = module_new(&s->cx);
    if (!m) {
        tensor_release(t);
        return false;
    }
    char *clean = strdup(name);
    for (char *p = clean; p && *p; p++)
        if (!isalnum((unsigned char)*p))
            *p = '_';
    Var *v = expr_var(&m->arena, c->args, ctx_name(&s->cx, clean ? clean : "v"), NULL);
    v->base.type = type_of_tensor(&s->cx, t);
    emit_printf(s, RELAY_OUTPUT_DISPLAY, "%%%s: %s", v->name->text, type_str(&s->cx, v->base.type));
    session_bind(s, v, value_tensor(t), m, false);
    module_release(m);
    free(clean);
    return true;
}

static void command_params(CommandCall *c)
{
    char *path = need(c, "an .npz file") ? rest(c) : NULL;
    if (path)
        npz_read(&c->s->cx.limits, c->s->cx.diags, path, bind_array, c);
    free(path);
}

/* ---- pictures, documentation, settings ---------------------------------------------------------------------------------- */

static void command_image(CommandCall *c)
{
    Module *m = argument_expr(c);
    Value v = m ? engine_eval(c->s, c->s->engine, c->s->env, m, m->expr) : value_none();
    if (!value_is_none(v))
        display_image(c->s, v, c->args);
    value_release(v);
    module_release(m);
}

static void command_doc(CommandCall *c)
{
    if (!need(c, "the name of an operator, a function or a command"))
        return;
    char *name = rest(c);
    if (name && !relay_session_inspect(c->s, name, strlen(name), strlen(name), 1, c->s->sink))
        diag_error(c->s->cx.diags, E0402_USAGE, c->args, "there is nothing to say about `%s`",
                   name);
    free(name);
}

/* The page of a diagnostic. */
static void display_page(RelaySession *s, DiagCode code)
{
    const ErrorPage *page = error_page(code);
    if (!page) {
        emit_printf(s, RELAY_OUTPUT_DISPLAY, "%s: %s", diag_info(code)->code,
                    diag_info(code)->title);
        return;
    }
    Buf text = {0};
    error_page_print(&text, page);
    RelayMime mimes[] = {
        {"text/plain", buf_text(&text), text.n},
        {"text/markdown", page->text, page->len},
    };
    emit_mimes(s, RELAY_OUTPUT_DISPLAY, 2, mimes);
    buf_deinit(&text);
}

static void command_explain(CommandCall *c)
{
    char *name = need(c, "a code, such as E0207") ? rest(c) : NULL;
    if (!name)
        return;
    DiagCode code = diag_find(name);
    if (code == DIAG_CODES)
        diag_error(c->s->cx.diags, E0402_USAGE, c->args, "there is no diagnostic `%s`", name);
    else
        display_page(c->s, code);
    free(name);
}

static void command_engine(CommandCall *c)
{
    static const char *const names[] = {"interp", "jit", "gpu"};
    char *name = rest(c);
    if (name && *name && !engine_parse(name, &c->s->engine)) {
        Diag *d = diag_error(c->s->cx.diags, E0402_USAGE, c->args, "there is no engine `%s`", name);
        diag_help(d, "there are interp, jit and gpu");
    } else {
        emit_printf(c->s, RELAY_OUTPUT_DISPLAY, "cells run on: %s", names[c->s->engine]);
    }
    free(name);
}

static void command_reset(CommandCall *c)
{
    session_reset(c->s);
    session_load_prelude(c->s);
}

static void command_clear(CommandCall *c)
{
    emit_mimes(c->s, RELAY_OUTPUT_CLEAR, 0, NULL);
}

static void command_quit(CommandCall *c)
{
    c->s->quit = true;
    emit_mimes(c->s, RELAY_OUTPUT_QUIT, 0, NULL);
}

/* ---- the table --------------------------------------------------------------------------------------------------------------- */

/* X-macro: a command must become a public row and a function. */
#define COMMANDS(X)                                                                            \
    X("help", "", "What can be typed here.", command_help)                                     \
    X("type", "EXPR", "The type of an expression, which is not evaluated.", command_type)      \
    X("doc", "NAME", "What an operator, a function or a command does.", command_doc)           \
    X("defs", "", "Everything that is defined, with its type.", command_defs)                  \
    X("pass", "[PASS,… @f | EXPR]",                                                            \
      "The program after each pass, with what changed; without arguments, the passes.",        \
      command_pass)                                                                            \
    X("show", "text|types|lowered|llvm|asm @f | EXPR",                                         \
      "A function or expression at a stage of compilation.", command_show)                     \
    X("time", "EXPR", "The time that evaluator and JIT take for an expression, side by side.", \
      command_time)                                                                            \
    X("image", "EXPR", "A matrix, or a stack of them, as pictures.", command_image)            \
    X("load", "FILE", "Runs a file as if it were typed here.", command_load)                   \
    X("params", "FILE.npz", "Binds each array of a NumPy archive to a variable of its name.",  \
      command_params)                                                                          \
    X("engine", "[interp|jit]", "Which engine evaluates cells; without argument, says which.", \
      command_engine)                                                                          \
    X("explain", "CODE", "What a diagnostic means.", command_explain)                          \
    X("reset", "", "Forgets all definitions.", command_reset)                                  \
    X("clear", "", "Clears the screen.", command_clear)                                        \
    X("quit", "", "Leaves.", command_quit)

#define PUBLIC_ROW(name, args, doc, fn) {name, args, doc},
static const RelayCommand rows[] = {COMMANDS(PUBLIC_ROW)};
#define FUNCTION_ROW(name, args, doc, fn) fn,
static void (*const functions[])(CommandCall *c) = {COMMANDS(FUNCTION_ROW)};

#define N_ROWS (sizeof rows / sizeof *rows)

static void command_help(CommandCall *c)
{
    Buf b = {0};
    buf_str(
        &b,
        "Type an expression, `let %x = …;`, `def @f(…) { … }`, `type T { … }`, or a command:\n\n");
    for (size_t i = 0; i < N_ROWS; i++)
        buf_printf(&b, "  :%-8s %-40s %s\n", rows[i].name, rows[i].args, rows[i].doc);
    buf_str(&b, "\nTab completes. An unfinished line goes on in the next one. Ctrl-C interrupts, "
                "Ctrl-D leaves.");
    emit_text(c->s, RELAY_OUTPUT_DISPLAY, &b);
    buf_deinit(&b);
}

const RelayCommand *relay_commands(size_t *n)
{
    *n = N_ROWS;
    return rows;
}

void command_run(RelaySession *s, const CellItem *item)
{
    const char *names[N_ROWS];
    CommandCall c = {.s = s, .args = item->args};
    const Source *source = sources_get(&s->cx.sources, item->args.source);
    c.text = (Str){source ? source->text + item->args.from : "",
                   source ? item->args.to - item->args.from : 0};
    for (size_t i = 0; i < N_ROWS; i++) {
        names[i] = rows[i].name;
        if (str_is(item->command, names[i])) {
            functions[i](&c);
            return;
        }
    }
    char *wanted = strndup(item->command.ptr, item->command.len);
    Diag *d = diag_error(s->cx.diags, E0405_UNKNOWN_COMMAND, item->span,
                         "there is no command `:%s`", wanted ? wanted : "");
    diag_suggest(d, wanted ? wanted : "", N_ROWS, names);
    diag_help(d, "`:help` lists the commands");
    free(wanted);
}
