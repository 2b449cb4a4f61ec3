/* What a message says about text that belongs to another language: rows of habits.def. */
#include "parser/internal.h"

#include <ctype.h>
#include <string.h>

typedef struct Habit {
    const char *before, *found, *wanted, *help;
} Habit;

static const Habit habits[] = {
#define HABIT(before, found, wanted, help) {before, found, wanted, help},
#include "parser/habits.def"
};

static bool fits(const char *wanted, Str text)
{
    return !*wanted || str_is(text, wanted);
}

bool hint_habit(const Parser *p, Diag *d, Str found, const char *wanted)
{
    char last = p->last_to ? p->lx.text[p->last_to - 1] : '\0';
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++) {
        const Habit *h = &habits[i];
        if ((*h->before && *h->before != last) || !fits(h->found, found) ||
            !strstr(wanted, h->wanted))
            continue;
        diag_help(d, "%s", h->help);
        return true;
    }
    return false;
}

void hint_token(const Parser *p, Diag *d, const char *wanted)
{
    Str text = token_text(p, p->tok);
    if (parse_at(p, TOKEN_NUMBER))
        hint_habit(p, d, str_of("0"), wanted);
    else if (parse_at(p, TOKEN_STRING) && strcmp(wanted, "an expression") != 0)
        hint_habit(p, d, str_of("\""), wanted);
    else if (parse_at(p, TOKEN_COLON) && p->lx.text[p->tok.to] == '=')
        hint_habit(p, d, str_of(":="), wanted);
    else if (parse_at(p, TOKEN_IDENT) && p->tok.from == p->last_to && p->last_to &&
             isdigit((unsigned char)p->lx.text[p->last_to - 1]))
        hint_habit(p, d, str_of("0x"), wanted);
    else
        hint_habit(p, d, text, wanted);
}

static size_t add_cons(Parser *p, const Module *m, size_t n, size_t most, const char **names)
{
    for (size_t i = 0; m && i < m->con_index.n && n < most; i++) {
        const Constructor *con = m->con_index.entries[i].value;
        if (con && m->con_index.entries[i].key && !con_replaced(p, con))
            names[n++] = con->name->text;
    }
    return n;
}

size_t hint_constructors(Parser *p, size_t most, const char **names)
{
    size_t n = 0;
    for (size_t i = 0; i < symbols_most(p) && n < most / 2; i++) {
        const Symbol *s = symbol_at(p, i);
        if (s && s->meaning && s->meaning->con)
            names[n++] = s->name->text;
    }
    n = add_cons(p, p->env->globals, n, most, names);
    return add_cons(p, p->m, n, most, names);
}

bool hint_replaced(Parser *p, Diag *d, const Name *name)
{
    const Constructor *con = module_find_con(p->env->globals, name);
    const TypeDef *now = con ? con_replaced(p, con) : NULL;
    if (now && d)
        diag_label(d, now->span, "`%s` is defined again without it", now->name->text);
    return now != NULL;
}

bool hint_import(Parser *p, Diag *d, const Name *name)
{
    static const char prelude[] = "prelude.rly";
    Module *m = p->env->import ? p->env->import(p->env->data, str_of(prelude), d->span) : NULL;
    bool found = m && (module_find_con(m, name) || module_find_type(m, name));
    p->import_missing |= found;
    p->m->gaps |= found;
    if (found)
        diag_help(d, "the prelude defines it: write `import \"%s\"` behind the version", prelude);
    module_release(m);
    return found;
}
