/* :analyze and relay analyze: the questions of passes/analyses.def. */
#include "base/memory.h"
#include "passes/analysis.h"
#include "session/commands.h"

#include <stdlib.h>
#include <string.h>

static void list_analyses(RelaySession *s)
{
    Buf b = {0};
    for (const AnalysisRow *row = analyses; row->name; row++)
        fill_row(&b, row->name, str_of(row->doc), 31, session_width(s));
    emit_text(s, RELAY_OUTPUT_DISPLAY, &b);
    buf_deinit(&b);
}

static const AnalysisRow *find_row(RelaySession *s, Str name, Span span)
{
    const char *names[100];
    size_t n = 0;
    const AnalysisRow *row = analysis_find(name);
    for (const AnalysisRow *r = analyses; r->name && n < 100; r++)
        names[n++] = r->name;
    if (row)
        return row;
    char *wanted = memory_text(name.ptr, name.len);
    Diag *d = diag_error(s->cx.diags, E0402_USAGE, span, "there is no analysis `%s`",
                         wanted ? wanted : "");
    diag_suggest(d, wanted ? wanted : "", n, names);
    diag_help(d, "`:analyze` and `relay analyze` without a name list them");
    free(wanted);
    return NULL;
}

static void run_analysis(RelaySession *s, Analysis *a, const AnalysisRow *row)
{
    a->cx = &s->cx;
    a->env = s->env;
    if (analysis_run(a, row))
        emit_printf(s, RELAY_OUTPUT_TEXT, "%s", a->out.n ? buf_text(&a->out) : "nothing\n");
    buf_deinit(&a->out);
}

/* ---- the command line ------------------------------------------------------------------------------ */

static bool read_number(RelaySession *s, const RelayRequest *r, const AnalysisRow *row, Analysis *a)
{
    const char *number = request_find(r, "number");
    a->number = number ? strtoll(number, NULL, 10) : 0;
    if (row->takes != ANALYSIS_NUMBER || number)
        return true;
    Diag *d = diag_error(s->cx.diags, E0402_USAGE, (Span){0}, "`%s` wants a number", row->name);
    diag_help(d, "`--number K` gives it");
    return false;
}

RelayStatus stage_analyze(RelaySession *s, const RelayRequest *r)
{
    const char *name = request_find(r, "analysis"), *entry = request_find(r, "entry");
    if (!name) {
        list_analyses(s);
        return session_status(s);
    }
    const AnalysisRow *row = find_row(s, str_of(name), (Span){0});
    Module *m = row ? load_program(s, r->name, r->text, r->len, true) : NULL;
    Analysis a = {.module = m, .root = m ? m->expr : NULL};
    const Def *def = m && !a.root && row->takes != ANALYSIS_MODULE
                         ? find_entry(s, m, entry ? entry : "main")
                         : NULL;
    if (def)
        a.root = &def->fn->base;
    if (m && (a.root || row->takes == ANALYSIS_MODULE) && read_number(s, r, row, &a))
        run_analysis(s, &a, row);
    module_release(m);
    return session_status(s);
}

/* ---- cells --------------------------------------------------------------------------------------------- */

static bool command_number(CommandCall *c, Analysis *a)
{
    Str word = command_word(c);
    char digits[24] = {0};
    memcpy(digits, word.ptr, word.len < 23 ? word.len : 23);
    char *end;
    a->number = strtoll(digits, &end, 10);
    if (end != digits && !*end)
        return true;
    diag_error(c->s->cx.diags, E0402_USAGE, c->args, "a number is wanted before the expression");
    return false;
}

void command_analyze(CommandCall *c)
{
    Analysis a = {0};
    if (c->text.len == 0) {
        list_analyses(c->s);
        return;
    }
    Span span = c->args;
    Str name = command_word(c);
    span.to = span.from + (uint32_t)name.len;
    const AnalysisRow *row = find_row(c->s, name, span);
    if (!row || (row->takes == ANALYSIS_NUMBER && !command_number(c, &a)))
        return;
    const Def *def = command_global(c);
    bool all = row->takes == ANALYSIS_MODULE && c->text.len == 0;
    Module *m = all ? module_retain(c->s->env) : command_module(c);
    a.module = m;
    a.root = def ? &def->fn->base : m ? m->expr : NULL;
    if (m && (a.root || all))
        run_analysis(c->s, &a, row);
    module_release(m);
}
