/* Commands about values, files, help and settings. */
#include "base/vec.h"
#include "base/memory.h"
#include "ir/print.h"
#include "runtime/cuda.h"
#include "runtime/npy.h"
#include "runtime/params.h"
#include "session/commands.h"
#include "session/help.h"
#include "session/views/plot.h"
#include "session/explain.h"
#include "session/tier.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- files ------------------------------------------------------------------------------------------------------------------- */

/* Takes the path. */
static void load(CommandCall *c, char *path)
{
    RelaySession *s = c->s;
    size_t len;
    if (s->loading > 32) {
        diag_error(s->cx.diags, E0402_USAGE, c->args, "files load each other in a circle");
        free(path);
        return;
    }
    char *text = path ? file_read(&s->cx.limits, s->cx.diags, path, &len) : NULL;
    uint32_t source = text ? sources_add(&s->cx.sources, path, text, len) : 0;
    free(text);
    if (!source) {
        free(path);
        return;
    }
    if (s->loading == 0) {
        free(s->loaded);
        s->loaded = path;
    } else {
        free(path);
    }
    s->loading++;
    cell_run(s, (CellRun){.source = source});
    s->loading--;
}

void command_load(CommandCall *c)
{
    if (command_need(c, "a file"))
        load(c, command_file(c));
}

void command_reload(CommandCall *c)
{
    const char *last = c->s->loaded;
    if (c->text.len)
        load(c, command_file(c));
    else if (last)
        load(c, memory_text(last, strlen(last)));
    else
        diag_error(c->s->cx.diags, E0402_USAGE, c->args, "no file was loaded yet");
}

/* A variable of this name for the tensor, which is taken. */
static bool bind_tensor(CommandCall *c, const char *name, Tensor *t)
{
    RelaySession *s = c->s;
    Module *m = module_new(&s->cx);
    if (!m) {
        tensor_release(t);
        return false;
    }
    Var *v = expr_var(&m->arena, c->args, ctx_name(&s->cx, name), NULL);
    v->base.type = type_of_tensor(&s->cx, t);
    emit_printf(s, RELAY_OUTPUT_DISPLAY, "%%%s: %s", v->name->text, type_str(&s->cx, v->base.type));
    session_bind(s, v, value_tensor(t), m, false);
    module_release(m);
    return true;
}

typedef struct Arrays {
    CommandCall *c;
    PtrMap names; /* of the variables so far */
} Arrays;

/* The name as one of the language: `%0` and `%_1` mean something else, and no two arrays have one variable. */
static void name_of_array(Arrays *a, const char *name, Buf *out)
{
    bool word =
        isalpha((unsigned char)*name) || (*name == '_' && name[1 + strspn(name + 1, "0123456789")]);
    buf_str(out, word ? "" : *name ? "array_" : "array");
    for (const char *p = name; *p; p++)
        buf_char(out, isalnum((unsigned char)*p) ? *p : '_');
    while (!out->failed && ptrmap_has(&a->names, ctx_name(&a->c->s->cx, buf_text(out))))
        buf_char(out, '_');
    ptrmap_put(&a->names, ctx_name(&a->c->s->cx, buf_text(out)), NULL);
}

static bool bind_array(void *data, const char *name, Tensor *t)
{
    Arrays *a = data;
    Buf clean = {0};
    name_of_array(a, name, &clean);
    bool ok = bind_tensor(a->c, buf_text(&clean), t);
    buf_deinit(&clean);
    return ok;
}

void command_params(CommandCall *c)
{
    char *path = command_need(c, "a file of arrays") ? command_file(c) : NULL;
    Arrays a = {.c = c};
    if (path)
        params_read(&c->s->cx.limits, c->s->cx.diags, path, bind_array, &a);
    ptrmap_deinit(&a.names);
    free(path);
}

void command_bytes(CommandCall *c)
{
    Str word = command_need(c, "a variable and a file") ? command_word(c) : (Str){"", 0};
    char *name = memory_text(word.ptr, word.len);
    char *path = word.len && command_need(c, "a file") ? command_file(c) : NULL;
    if (path && name && !command_is_variable(name)) {
        Diag *d = diag_error(c->s->cx.diags, E0402_USAGE, c->args, "`%s` is no variable", name);
        diag_help(d, "for instance `:bytes %%text FILE`");
    } else if (path && name) {
        Tensor *t = bytes_of_file(c->s, path);
        if (t)
            bind_tensor(c, name + 1, t);
    }
    free(name);
    free(path);
}

/* ---- pictures, documentation, settings ---------------------------------------------------------------------------------- */

/* Shows the value of the argument. */
static void show_value(CommandCall *c,
                       bool (*show)(RelaySession *s, Value v, const Type *type, Span span))
{
    Module *m = command_program(c);
    Value v = m ? engine_eval(c->s, c->s->engine, c->s->env, m, m->expr) : value_none();
    if (!value_is_none(v))
        show(c->s, v, m->expr->type, c->args);
    value_release(v);
    module_release(m);
}

static bool show_image(RelaySession *s, Value v, const Type *type, Span span)
{
    (void)type;
    return display_image(s, v, span);
}

static bool show_text(RelaySession *s, Value v, const Type *type, Span span)
{
    (void)type;
    return display_text(s, v, span);
}

void command_image(CommandCall *c)
{
    show_value(c, show_image);
}

void command_plot(CommandCall *c)
{
    show_value(c, plot_value);
}

void command_text(CommandCall *c)
{
    show_value(c, show_text);
}

/* What was typed as the definition; nothing when it was made, as by a pass. */
static Str written_as(const RelaySession *s, const Def *def)
{
    Span span = def->fn->base.span;
    const Source *source = sources_get(&s->cx.sources, span.source);
    bool inside = source && def->span.source == span.source && span.from <= def->span.from &&
                  def->span.to <= span.to && span.to <= source->len;
    Str name = {inside ? source->text + def->span.from : "",
                inside ? def->span.to - def->span.from : 0};
    if (name.len < 2 || name.ptr[0] != '@' ||
        !str_is((Str){name.ptr + 1, name.len - 1}, def->name->text))
        return (Str){"", 0};
    return (Str){source->text + span.from, span.to - span.from};
}

static void edit_definition(CommandCall *c, const Def *def)
{
    Str written = written_as(c->s, def);
    Buf b = {0};
    if (written.len) {
        buf_bytes(&b, written.ptr, written.len);
    } else {
        Buf fn = {0};
        ir_print_expr(&fn, &def->fn->base, (PrintStyle){0});
        buf_printf(&b, "def @%s%s", def->name->text, buf_text(&fn) + strlen("fn "));
        buf_deinit(&fn);
    }
    emit_text(c->s, RELAY_OUTPUT_INPUT, &b);
    buf_deinit(&b);
}

/* Who types a cell can use no more. */
#define EDIT_MOST (1 << 20)

static void edit_file(CommandCall *c)
{
    char *path = command_file(c);
    size_t n = 0;
    char *text = path ? file_read(&c->s->cx.limits, c->s->cx.diags, path, &n) : NULL;
    if (text && (n > EDIT_MOST || memchr(text, 0, n)))
        diag_error(c->s->cx.diags, E0402_USAGE, c->args, "`%s` is no text of at most %d KiB", path,
                   EDIT_MOST >> 10);
    else if (text)
        emit_mimes(c->s, RELAY_OUTPUT_INPUT, 1, &(RelayMime){"text/plain", text, n});
    free(text);
    free(path);
}

void command_edit(CommandCall *c)
{
    const Def *def = command_global(c);
    if (!command_need(c, "a function or a file"))
        return;
    if (def) {
        edit_definition(c, def);
    } else if (c->text.ptr[0] != '@') {
        edit_file(c);
    } else {
        char *name = command_rest(c);
        if (name)
            topic_suggest(
                c->s,
                diag_error(c->s->cx.diags, E0402_USAGE, c->args, "there is no function `%s`", name),
                name);
        free(name);
    }
}

static void unknown_code(CommandCall *c, const char *name)
{
    const char *names[DIAG_CODES];
    for (int i = 0; i < DIAG_CODES; i++)
        names[i] = diag_info((DiagCode)i)->code;
    Diag *d = diag_error(c->s->cx.diags, E0402_USAGE, c->args, "there is no diagnostic `%s`", name);
    if (strlen(name) > 4)
        diag_suggest(d, name, DIAG_CODES, names);
    diag_help(d, "a code is a letter and four digits, as the messages show it in brackets");
}

void page_display(RelaySession *s, DiagCode code)
{
    const ErrorPage *page = error_page(code);
    if (!page) {
        emit_printf(s, RELAY_OUTPUT_DISPLAY, "%s: %s", diag_info(code)->code,
                    diag_info(code)->title);
        return;
    }
    Buf text = {0};
    error_page_print(&text, page, session_width(s));
    RelayMime mimes[] = {
        {"text/plain", buf_text(&text), text.n},
        {"text/markdown", page->text, page->len},
    };
    emit_mimes(s, RELAY_OUTPUT_DISPLAY, 2, mimes);
    buf_deinit(&text);
}

void command_explain(CommandCall *c)
{
    CommandCall rest = *c;
    Str word = command_word(&rest);
    if (str_is(word, "types")) {
        explain_types(&rest);
        return;
    }
    if (str_is(word, "pass")) {
        explain_pass(&rest);
        return;
    }
    char *name =
        command_need(c, "a code, such as E0207, or `types`, or `pass`") ? command_rest(c) : NULL;
    if (!name)
        return;
    DiagCode code = diag_find(name);
    if (code == DIAG_CODES)
        unknown_code(c, name);
    else
        page_display(c->s, code);
    free(name);
}

typedef struct SettingRow {
    const char *name, *values, *instance, *doc;
} SettingRow;

static const SettingRow settings[] = {
    {"opt", "the levels are 0 to 5", "3",
     "the level of the pipeline before code is made; 0: as written"},
    {"exact", "`:set exact` is `on` or `off`", "on",
     "whether code takes no sum in another order than written and approximates nothing"},
    {"tf32", "`:set tf32` is `on` or `off`", "on",
     "whether products of float32 on a card round their factors to TF32"},
    {"cache", "`:set cache` is `on` or `off`", "off",
     "whether compiled code is kept in files and taken from there"},
};
#define SETTINGS (sizeof settings / sizeof *settings)

static void setting_print(const RelaySession *s, const SettingRow *row, Buf *out)
{
    char level[2] = {(char)('0' + s->opt_level), '\0'};
    const char *const values[SETTINGS] = {level, s->exact ? "on" : "off", s->tf32 ? "on" : "off",
                                          s->no_cache ? "off" : "on"};
    buf_printf(out, "%s%-5s %-3s   %s", out->n ? "\n" : "", row->name, values[row - settings],
               row->doc);
}

static void display_settings(RelaySession *s, const SettingRow *only)
{
    Buf text = {0};
    for (size_t i = 0; i < SETTINGS; i++)
        if (!only || only == &settings[i])
            setting_print(s, &settings[i], &text);
    emit_text(s, RELAY_OUTPUT_DISPLAY, &text);
    buf_deinit(&text);
}

static void unknown_setting(CommandCall *c, Str word, Span at)
{
    const char *names[SETTINGS];
    char *name = memory_text(word.ptr, word.len);
    for (size_t i = 0; i < SETTINGS; i++)
        names[i] = settings[i].name;
    Diag *d = diag_error(c->s->cx.diags, E0402_USAGE, at, "there is no setting `%.*s`",
                         (int)word.len, word.ptr);
    if (name)
        diag_suggest(d, name, SETTINGS, names);
    diag_help(d, "there are opt, exact, tf32 and cache, and `:set keep`");
    free(name);
}

void command_set(CommandCall *c)
{
    RelaySession *s = c->s;
    Span at = c->args;
    Str word = command_word(c);
    char *value = command_rest(c);
    const SettingRow *row = NULL;
    for (size_t i = 0; i < SETTINGS; i++)
        if (str_is(word, settings[i].name))
            row = &settings[i];
    if (str_is(word, "keep")) {
        settings_keep(c);
    } else if (word.len && !row) {
        unknown_setting(c, word, at);
    } else if (value && *value && row && !relay_session_set(s, row->name, value)) {
        Diag *d = diag_error(s->cx.diags, E0402_USAGE, at, "%s", row->values);
        diag_help(d, "for instance `:set %s %s`", row->name, row->instance);
    } else {
        display_settings(s, row);
    }
    free(value);
}

void command_engine(CommandCall *c)
{
    RelaySession *s = c->s;
    char *name = command_rest(c);
    Engine wanted = s->engine;
    if (name && *name && !engine_parse(name, &wanted)) {
        Diag *d = diag_error(s->cx.diags, E0402_USAGE, c->args, "there is no engine `%s`", name);
        diag_help(d, "there are auto, interp, jit and gpu");
    } else if (engine_ready(s, wanted, c->args)) {
        Buf b = {0};
        s->engine = wanted;
        buf_printf(&b, "cells run on: %s", engine_names[wanted]);
        if (wanted == ENGINE_AUTO)
            tier_describe(s, &b);
        emit_text(s, RELAY_OUTPUT_DISPLAY, &b);
        buf_deinit(&b);
    }
    free(name);
}

void command_device(CommandCall *c)
{
    RelaySession *s = c->s;
    CudaInfo card;
    Buf b = {0}, why = {0};
    JitDevice d = {0};
    if (cuda_find(&card, &why)) {
        if (s->jit)
            d = s->jit_table->gpu_memory(s->jit);
        buf_printf(&b, "%s, sm_%d%d, %.1f GiB\n", card.name, card.major, card.minor,
                   (double)card.memory / (1 << 30));
        buf_printf(&b, "values     %zu, %.1f KiB: they lie in the machine's memory too\n", d.twins,
                   (double)d.twin_bytes / 1024);
        buf_printf(&b, "constants  %.1f KiB of compiled code\n",
                   (double)(d.used - d.twin_bytes) / 1024);
        buf_printf(&b, "kept       %.1f KiB for what comes next", (double)d.kept / 1024);
    } else {
        buf_printf(&b, "no card: %s", buf_text(&why));
    }
    emit_text(s, RELAY_OUTPUT_DISPLAY, &b);
    buf_deinit(&b);
    buf_deinit(&why);
}

void command_reset(CommandCall *c)
{
    Buf what = {0};
    bool any = session_possessions(c->s, &what);
    bool go = !any || session_confirm(c->s, "forget %s", buf_text(&what));
    buf_deinit(&what);
    if (!go)
        return;
    session_reset(c->s);
    session_load_prelude(c->s);
}

void command_clear(CommandCall *c)
{
    emit_mimes(c->s, RELAY_OUTPUT_CLEAR, 0, NULL);
}

void command_quit(CommandCall *c)
{
    c->s->quit = true;
    emit_mimes(c->s, RELAY_OUTPUT_QUIT, 0, NULL);
}
