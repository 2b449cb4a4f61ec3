/* The commands of cells, `:name args`: finding the row and its arguments. */
#include "session/commands.h"
#include "parser/lexer.h"

#include "base/memory.h"
#include "typecheck/typecheck.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- arguments -------------------------------------------------------------------------------------------------------------- */

Str command_word(CommandCall *c)
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

char *command_rest(const CommandCall *c)
{
    size_t n = c->text.len;
    const char *p = c->text.ptr;
    const char *home = getenv("HOME");
    if (n >= 2 && p[0] == '"' && p[n - 1] == '"') {
        p++;
        n -= 2;
    }
    if (n < 2 || p[0] != '~' || p[1] != '/' || !home)
        return memory_text(p, n);
    Buf path = {0};
    buf_printf(&path, "%s%.*s", home, (int)n - 1, p + 1);
    return buf_take(&path);
}

char *command_file(const CommandCall *c)
{
    char *path = command_rest(c);
    if (!path || strcmp(path, "-") != 0)
        return path;
    free(path);
    Diag *d = diag_error(c->s->cx.diags, E0402_USAGE, c->args,
                         "`-` is no file here: a session reads its cells from the standard input");
    diag_help(d, "`./-` is a file of that name");
    return NULL;
}

bool command_is_variable(const char *text)
{
    bool ok = text[0] == '%' && (isalpha((unsigned char)text[1]) || text[1] == '_');
    for (const char *p = text + 1; *p; p++)
        ok = ok && (isalnum((unsigned char)*p) || *p == '_');
    return ok;
}

static const double setting_most = 10000000;

/* False: what stands behind `name=` is no number between 0 and the most. */
static bool read_setting(CommandCall *c, const char *name, bool whole, double *value)
{
    size_t n = strlen(name);
    if (c->text.len <= n || strncmp(c->text.ptr, name, n) != 0 || c->text.ptr[n] != '=')
        return true;
    Span at = c->args;
    Str word = command_word(c);
    const char *digits = whole ? "0123456789" : "0123456789.", *end = word.ptr + word.len;
    char *read;
    *value = strtod(word.ptr + n + 1, &read);
    if (read == end && strspn(word.ptr + n + 1, digits) >= (size_t)(end - word.ptr) - n - 1 &&
        *value > 0 && *value <= setting_most)
        return true;
    at.to = at.from + (uint32_t)word.len;
    diag_error(c->s->cx.diags, E0402_USAGE, at, "`%s=` wants a %s to %.0f", name,
               whole ? "whole number from 1" : "number above 0, up", setting_most);
    return false;
}

bool command_setting(CommandCall *c, const char *name, uint64_t *value)
{
    double number = 0;
    if (!read_setting(c, name, true, &number))
        return false;
    if (number > 0)
        *value = (uint64_t)number;
    return true;
}

bool command_real_setting(CommandCall *c, const char *name, double *value)
{
    return read_setting(c, name, false, value);
}

/* The answer takes the place of the arguments: a text of its own, to which messages point. */
static bool ask_for(CommandCall *c, const char *what)
{
    Buf question = {0}, answer = {0};
    buf_printf(&question, "%s, as in `:%s %s`: ", what, c->row->name, c->row->args);
    bool any = session_ask(c->s, buf_text(&question), &answer);
    Str text = {buf_text(&answer), answer.n};
    while (text.len && isspace((unsigned char)text.ptr[text.len - 1]))
        text.len--;
    while (text.len && isspace((unsigned char)text.ptr[0]))
        text = (Str){text.ptr + 1, text.len - 1};
    uint32_t source =
        any && text.len ? sources_add(&c->s->cx.sources, "answer", text.ptr, text.len) : 0;
    const Source *added = source ? sources_get(&c->s->cx.sources, source) : NULL;
    if (added) {
        c->args = (Span){.source = source, .from = 0, .to = (uint32_t)added->len};
        c->text = (Str){added->text, added->len};
        buf_printf(&c->s->answers, " %.*s", (int)added->len, added->text);
    }
    buf_deinit(&question);
    buf_deinit(&answer);
    return added != NULL;
}

void command_word_setting(CommandCall *c, const char *name, Str *value)
{
    size_t n = strlen(name);
    if (c->text.len <= n || strncmp(c->text.ptr, name, n) != 0 || c->text.ptr[n] != '=')
        return;
    Str word = command_word(c);
    *value = (Str){word.ptr + n + 1, word.len - n - 1};
}

bool command_need(CommandCall *c, const char *what)
{
    if (c->text.len || ask_for(c, what))
        return true;
    if (c->s->cx.limits.hit != LIMIT_NONE)
        return false;
    Diag *d = diag_error(c->s->cx.diags, E0402_USAGE, c->args, "%s is missing", what);
    diag_help(d, "write `:%s %s`", c->row->name, c->row->args);
    return false;
}

const Def *command_global(CommandCall *c)
{
    if (c->text.len < 2 || c->text.ptr[0] != '@')
        return NULL;
    for (size_t i = 1; i < c->text.len; i++)
        if (!isalnum((unsigned char)c->text.ptr[i]) && !strchr("_/", c->text.ptr[i]))
            return NULL;
    Str name = {c->text.ptr + 1, c->text.len - 1};
    const Name *global = ctx_name_str(&c->s->cx, name);
    if (stale_find(c->s, '@', global))
        stale_refresh(c->s, NULL);
    return module_find(c->s->env, global);
}

Module *command_expr(CommandCall *c)
{
    if (!command_need(c, "an expression"))
        return NULL;
    ParseEnv env = session_parse_env(c->s);
    Module *m = parse_range(&c->s->cx, c->args, &env);
    if (m && stale_refresh(c->s, m)) {
        module_release(m);
        env = session_parse_env(c->s);
        m = parse_range(&c->s->cx, c->args, &env);
    }
    if (m && stale_unused(c->s, m, c->args) &&
        session_check(c->s, m, c->s->env, (CheckWish){.answers = true}))
        return m;
    module_release(m);
    return NULL;
}

/* The first definition in what the command is to run or to transform that failed before, in a script that ran on; NULL for none. */
static const char *failed_part(const RelaySession *s, const Module *m)
{
    for (size_t i = 0; i < m->defs.n; i++)
        if (ptrmap_has(&s->failed_names, m->defs.at[i].name))
            return m->defs.at[i].name->text;
    return NULL;
}

static Module *unless_failed(CommandCall *c, Module *m)
{
    const char *part = m ? failed_part(c->s, m) : NULL;
    if (!part && (!m || !m->expr || !session_uses_failed(c->s, m->expr)))
        return m;
    if (part)
        emit_printf(c->s, RELAY_OUTPUT_DISPLAY, "nothing is done with `@%s`, which has an error",
                    part);
    else
        emit_printf(c->s, RELAY_OUTPUT_DISPLAY, "nothing is done with what has an error");
    module_release(m);
    return NULL;
}

Module *command_program(CommandCall *c)
{
    return unless_failed(c, command_expr(c));
}

Module *command_module(CommandCall *c)
{
    const Def *def = command_global(c);
    if (def)
        return unless_failed(c, module_slice(c->s, c->s->env, def->name));
    Module *m = command_program(c);
    if (m && m->expr)
        m->expr = session_behind(c->s, m->expr, NULL);
    return m;
}

/* ---- the table --------------------------------------------------------------------------------------------------------------- */

#define GROUP(id, title) static const char title_##id[] = title;
#include "session/commands.def"

static const RelayCommand rows[] = {
#define COMMAND(name, group, args, doc, more, fn) {name, args, doc, more, title_##group},
#include "session/commands.def"
};

static const RelayCommandPart parts[] = {
#define CHOICE(command, word, doc) {command, word, doc},
#define EXAMPLE(command, cell) {command, "", cell},
#include "session/commands.def"
};

static void (*const functions[])(CommandCall *c) = {
#define COMMAND(name, group, args, doc, more, fn) fn,
#include "session/commands.def"
};

#define N_ROWS (sizeof rows / sizeof *rows)

const RelayCommand *relay_commands(size_t *n)
{
    *n = N_ROWS;
    return rows;
}

const RelayCommandPart *relay_command_parts(size_t *n)
{
    *n = sizeof parts / sizeof *parts;
    return parts;
}

/* The row of the name, or the only one that begins so; N_ROWS for none. */
static size_t find_row(Str name)
{
    size_t found = N_ROWS, n = 0;
    for (size_t i = 0; i < N_ROWS; i++) {
        if (str_is(name, rows[i].name))
            return i;
        if (name.len && !strncmp(rows[i].name, name.ptr, name.len)) {
            found = i;
            n++;
        }
    }
    return n == 1 ? found : N_ROWS;
}

const RelayCommand *command_find(Str name)
{
    size_t found = find_row(name);
    return found < N_ROWS ? &rows[found] : NULL;
}

/* "`:save` or `:set`": those that begin so. */
static void help_prefix(Diag *d, Str name)
{
    Buf b = {0};
    size_t n = 0;
    for (size_t i = 0; i < N_ROWS; i++)
        if (name.len && !strncmp(rows[i].name, name.ptr, name.len))
            buf_printf(&b, "%s`:%s`", n++ ? ", " : "", rows[i].name);
    if (n > 1)
        diag_help(d, "it may be %s", buf_text(&b));
    buf_deinit(&b);
}

bool command_known(RelaySession *s, const CellItem *item)
{
    if (find_row(item->command) < N_ROWS)
        return true;
    char *wanted = memory_text(item->command.ptr, item->command.len);
    Span span = item->span;
    span.to = span.from + 1 + (uint32_t)item->command.len;
    Diag *d = diag_error(s->cx.diags, E0405_UNKNOWN_COMMAND, span, "there is no command `:%s`",
                         wanted ? wanted : "");
    help_prefix(d, item->command);
    const char *names[N_ROWS];
    for (size_t i = 0; i < N_ROWS; i++)
        names[i] = rows[i].name;
    if (!d->helps)
        diag_suggest_as(d, ":", wanted ? wanted : "", N_ROWS, names);
    diag_help(d, "`:help` lists the commands");
    free(wanted);
    return false;
}

/* Whoever gives arguments to a command that has none means something else: `:undo 3`. */
static bool takes_them(CommandCall *c)
{
    Lexer lx = {.text = c->text.ptr, .end = (uint32_t)c->text.len};
    TokenKind first = (TokenKind)lexer_next(&lx).kind;
    if (*c->row->args || first == TOKEN_END || first == TOKEN_SEMICOLON)
        return true;
    Diag *d =
        diag_error(c->s->cx.diags, E0402_USAGE, c->args, "`:%s` takes no argument", c->row->name);
    diag_help(d, "`:help %s` says what it does", c->row->name);
    return false;
}

void command_run(RelaySession *s, const CellItem *item)
{
    if (!command_known(s, item))
        return;
    size_t found = find_row(item->command);
    CommandCall c = {.s = s, .args = item->args, .row = &rows[found]};
    const Source *source = sources_get(&s->cx.sources, item->args.source);
    c.text = (Str){source ? source->text + item->args.from : "",
                   source ? item->args.to - item->args.from : 0};
    if (takes_them(&c))
        functions[found](&c);
}
