/* Structural equality and hash of whole programs and of expressions. */
#include "ir/equal.h"
#include "runtime/npy.h"
#include "session/commands.h"

#include <stdlib.h>
#include <string.h>

static void report(RelaySession *s, const IrDifference *d)
{
    bool only_b = span_is_none(d->a);
    bool sides = d->at_a.n > 0;
    Diag *diag = diag_error(s->cx.diags, E0123_DIFFERENT, only_b ? d->b : d->a,
                            "the programs differ: %s", buf_text(&d->why));
    if (only_b || span_is_none(d->b))
        return;
    diag_label(diag, d->a, "the first has %s", sides ? buf_text(&d->at_a) : "this");
    diag_label(diag, d->b, "the second has %s", sides ? buf_text(&d->at_b) : "this");
}

static void compare(RelaySession *s, const Module *a, const Module *b, bool map_free)
{
    IrDifference d = {0};
    if (!ir_module_compare(a, b, map_free, &d))
        report(s, &d);
    ir_difference_free(&d);
}

static Module *load_other(RelaySession *s, const char *path)
{
    size_t len = 0;
    bool input = strcmp(path, "-") == 0;
    char *text = file_read(&s->cx.limits, s->cx.diags, input ? "/dev/stdin" : path, &len);
    Module *m = text ? load_program(s, input ? "input" : path, text, len, false) : NULL;
    free(text);
    return m;
}

/* What annotations leave out counts as what inference finds; bare expressions are taken as they are. */
static bool checked(RelaySession *s, Module *m)
{
    return m && (m->expr || session_check(s, m, NULL, (CheckWish){0}));
}

RelayStatus stage_equal(RelaySession *s, const RelayRequest *r)
{
    const char *path = request_find(r, "other");
    Module *a = load_program(s, r->name, r->text, r->len, false);
    Module *b = a && path ? load_other(s, path) : NULL;
    bool ready = checked(s, a) && (!path || checked(s, b));
    if (ready && path)
        compare(s, a, b, request_flag(r, "map-free-vars"));
    if (ready && request_flag(r, "hash"))
        emit_printf(s, RELAY_OUTPUT_TEXT, "%016llx\n", (unsigned long long)ir_module_hash(a));
    module_release(b);
    module_release(a);
    return session_status(s);
}

/* ---- commands ---------------------------------------------------------------------------------- */

/* A global stands for its definition, a variable for the function that it holds. */
static Expr *definition(RelaySession *s, Expr *e)
{
    e = session_behind(s, e, NULL);
    const GlobalVar *g = expr_as_global(e);
    const Def *def = g ? module_find(s->env, g->name) : NULL;
    return def && def->fn ? &def->fn->base : e;
}

static void help_pair(Diag *d)
{
    diag_help(d, "write them as a pair: `:equal (@f, @g)`");
}

static void equal_fields(CommandCall *c, Module *m)
{
    const Tuple *pair = expr_as_tuple(m->expr);
    if (!pair || pair->fields.n != 2) {
        help_pair(diag_error(c->s->cx.diags, E0402_USAGE, c->args, "two expressions are wanted"));
        return;
    }
    Module a = *m, b = *m;
    a.expr = definition(c->s, pair->fields.at[0]);
    b.expr = definition(c->s, pair->fields.at[1]);
    size_t errors = c->s->cx.diags->errors;
    compare(c->s, &a, &b, false);
    if (c->s->cx.diags->errors == errors)
        emit_printf(c->s, RELAY_OUTPUT_DISPLAY, "equal");
}

/* One behind the other, as `:equal @f @g`, they are no text of an expression. */
void command_equal(CommandCall *c)
{
    DiagsMark mark = diags_mark(c->s->cx.diags);
    Module *m = command_expr(c);
    Diag *error = m ? NULL : diags_within(c->s->cx.diags, mark, c->args);
    if (m)
        equal_fields(c, m);
    else if (error && error->code == E0104_EXPECTED_TOKEN)
        help_pair(error);
    module_release(m);
}

void command_hash(CommandCall *c)
{
    Module *m = command_expr(c);
    if (m)
        emit_printf(c->s, RELAY_OUTPUT_DISPLAY, "%016llx",
                    (unsigned long long)ir_hash(definition(c->s, m->expr)));
    module_release(m);
}
