/* What is said of commands, of groups of operators, and of the words of the language; `:help` and `:doc`. */
#include "session/help.h"

#include "passes/pass.h"
#include "session/commands.h"
#include "session/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- commands --------------------------------------------------------------------------------------------------------------- */

enum { NAME_COLUMN = 13, GAP = 2 };

static void trim(Buf *b)
{
    while (b->n && strchr(" \n", buf_text(b)[b->n - 1]))
        buf_cut(b, b->n - 1);
}

/* Everything that there is, in groups, a line each. */
void help_overview(Buf *b, int width)
{
    static const char first[] =
        "Type an expression, `let %x = …;`, `def @f(…) { … }`, `type T { … }`, or a command:";
    static const char last[] = "`:help NAME` says more of a command, an operator or a word; a "
                               "command may be cut short. Tab "
                               "completes. An unfinished line goes on in the next one. Ctrl-R "
                               "searches the history, Ctrl-C "
                               "interrupts, Ctrl-D leaves.";
    size_t n;
    const RelayCommand *rows = relay_commands(&n);
    const char *group = "";
    fill_words(b, str_of(first), 0, width);
    buf_char(b, '\n');
    for (size_t i = 0; i < n; i++) {
        Buf left = {0};
        if (strcmp(group, rows[i].group) != 0)
            buf_printf(b, "\n%s\n", rows[i].group);
        group = rows[i].group;
        buf_printf(&left, "  :%s", rows[i].name);
        fill_row(b, buf_text(&left), str_of(rows[i].doc), NAME_COLUMN, width);
        buf_deinit(&left);
    }
    buf_char(b, '\n');
    fill_words(b, str_of(last), 0, width);
}

/* The column behind the longest of a command's words. */
static int behind_words(const char *command)
{
    size_t n, longest = 0;
    const RelayCommandPart *parts = relay_command_parts(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(parts[i].command, command) == 0 && strlen(parts[i].word) > longest)
            longest = strlen(parts[i].word);
    return (int)longest + 2 * GAP;
}

/* The words of a command, each with its meaning, or else its examples. */
static void list_parts(Buf *b, const char *command, bool words, int width)
{
    size_t n;
    const RelayCommandPart *parts = relay_command_parts(&n);
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(parts[i].command, command) != 0 || (*parts[i].word != 0) != words)
            continue;
        if (!any && !words)
            buf_str(b, "\nFor example\n");
        any = true;
        if (!words) {
            buf_printf(b, "  %s\n", parts[i].text);
            continue;
        }
        Buf left = {0};
        buf_printf(&left, "  %s", parts[i].word);
        fill_row(b, buf_text(&left), str_of(parts[i].text), behind_words(command), width);
        buf_deinit(&left);
    }
}

bool help_command(Buf *b, Str name, int width)
{
    const RelayCommand *row = command_find(name);
    if (!row)
        return false;
    Buf about = {0};
    buf_printf(b, ":%s ", row->name);
    fill_words(b, str_of(row->args), (int)strlen(row->name) + 2, width);
    trim(b);
    buf_char(b, '\n');
    buf_printf(&about, "%s %s", row->doc, row->more);
    fill_words(b, str_of(buf_text(&about)), 0, width);
    buf_char(b, '\n');
    buf_deinit(&about);
    list_parts(b, row->name, true, width);
    list_parts(b, row->name, false, width);
    trim(b);
    return true;
}

/* ---- the language ----------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *spelling, *form, *doc;
} words[] = {
#define WORD(spelling, form, doc) {spelling, form, doc},
#include "session/words.def"
};

bool help_word(Buf *b, Str word, int width)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (str_is(word, words[i].spelling)) {
            buf_printf(b, "%s\n", words[i].form);
            fill_words(b, str_of(words[i].doc), 0, width);
            return true;
        }
    DType dtype;
    if (word.len && dtype_parse(word, &dtype) && !dtype_is_void(dtype)) {
        buf_printf(b, "%.*s\nAn element type: a value of it is a tensor without axes.",
                   (int)word.len, word.ptr);
        return true;
    }
    return false;
}

/* ---- operators that begin alike --------------------------------------------------------------------------------------------- */

typedef struct Group {
    Buf *out;
    Str name;
    int width;
} Group;

static bool add_member(void *data, const Op *op)
{
    Group *g = data;
    if (strncmp(op->name, g->name.ptr, g->name.len) == 0 && op->name[g->name.len] == '.') {
        enum { COLUMN = 28 };
        buf_str(g->out, g->out->n ? "" : "Operators\n");
        Buf left = {0};
        buf_printf(&left, "  %s", op->name);
        fill_row(g->out, buf_text(&left), str_of(op->doc), COLUMN, g->width);
        buf_deinit(&left);
    }
    return true;
}

bool help_group(RelaySession *s, Buf *b, Str name)
{
    Group g = {b, name, session_width(s)};
    if (name.len)
        op_each(s->cx.ops, add_member, &g);
    trim(b);
    return b->n > 0;
}

/* ---- questions -------------------------------------------------------------------------------------------------------------- */

void command_help(CommandCall *c)
{
    if (c->text.len) {
        command_doc(c);
        return;
    }
    Buf b = {0};
    help_overview(&b, session_width(c->s));
    emit_text(c->s, RELAY_OUTPUT_DISPLAY, &b);
    buf_deinit(&b);
}

typedef Vec(const char *) Names;

typedef struct Topics {
    Names names;
    Arena *arena;
} Topics;

static bool add_op(void *data, const Op *op)
{
    Topics *t = data;
    vec_push(&t->names, t->arena, op->name);
    return true;
}

/* What the session and its libraries define, the words, the passes and the operators. */
static void add_names(RelaySession *s, Topics *t)
{
    for (size_t i = 0; i < s->env->types.n; i++) {
        const TypeDef *def = s->env->types.at[i];
        vec_push(&t->names, t->arena, def->name->text);
        for (uint32_t k = 0; k < def->n_cons; k++)
            vec_push(&t->names, t->arena, def->cons[k]->name->text);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        vec_push(&t->names, t->arena, words[i].spelling);
    for (const Pass *const *p = passes; *p; p++)
        vec_push(&t->names, t->arena, (*p)->name);
    op_each(s->cx.ops, add_op, t);
}

void topic_suggest(RelaySession *s, Diag *d, const char *wanted)
{
    Topics t = {.arena = &s->cx.own_diags.arena};
    char sign[2] = {strchr("@%:", wanted[0]) ? wanted[0] : '\0', '\0'};
    size_t n;
    const RelayCommand *rows = relay_commands(&n);
    for (size_t i = 0; *sign == '@' && i < s->env->defs.n; i++)
        vec_push(&t.names, t.arena, s->env->defs.at[i].name->text);
    for (size_t i = 0; *sign == '%' && i < s->n_locals; i++)
        vec_push(&t.names, t.arena, s->locals[i].var->name->text);
    for (size_t i = 0; (!*sign || *sign == ':') && i < n; i++)
        vec_push(&t.names, t.arena, rows[i].name);
    if (!*sign)
        add_names(s, &t);
    diag_suggest_as(d, sign, wanted + strlen(sign), t.names.n, t.names.at);
}

/* By its whole name: what is cut short may be meant otherwise. */
static bool is_command(Str name)
{
    const RelayCommand *row = command_find(name);
    return row && str_is(name, row->name);
}

/* A code of a message, a sign of the language, what has a name, those whose names begin so. */
static bool say(RelaySession *s, Str name)
{
    Buf b = {0}, group = {0};
    DiagCode code = diag_find(name.ptr);
    bool coded = code != DIAG_CODES;
    if (coded)
        page_display(s, code);
    const Op *infix = op_find_symbol(&s->cx, name);
    Str asked = infix ? str_of(infix->name) : name;
    bool inspected =
        !coded && relay_session_inspect(s, asked.ptr, asked.len, asked.len, 1, s->sink);
    bool found = coded || inspected || help_word(&b, name, session_width(s));
    bool colon = name.ptr[0] == ':';
    if (!colon && is_command(name)) {
        buf_str(&b, b.n ? "\n\n" : "");
        found = help_command(&b, name, session_width(s));
    }
    found |= help_group(s, &group, name);
    if (group.n)
        buf_printf(&b, "%s%s", b.n ? "\n\n" : "", buf_text(&group));
    if (b.n)
        emit_text(s, RELAY_OUTPUT_DISPLAY, &b);
    buf_deinit(&group);
    buf_deinit(&b);
    return found;
}

void command_doc(CommandCall *c)
{
    if (!command_need(c, "a name"))
        return;
    char *name = command_rest(c);
    if (name && !say(c->s, str_of(name)))
        topic_suggest(c->s,
                      diag_error(c->s->cx.diags, E0402_USAGE, c->args,
                                 "there is nothing to say about `%s`", name),
                      name);
    free(name);
}
