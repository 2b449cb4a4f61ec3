/* Cells: item by item through parser, checker and engine. */
#include "ir/print.h"
#include "ir/walk.h"
#include "session/internal.h"
#include "typecheck/typecheck.h"

/* ---- definitions ----------------------------------------------------------------------------------------------------------- */

static void show_definitions(const Redefinition *r)
{
    Buf b = {0};
    for (size_t i = 0; i < r->own_types.n; i++)
        buf_printf(&b, "%stype %s", b.n ? "\n" : "", r->own_types.at[i]->text);
    for (size_t i = 0; i < r->own_defs.n; i++) {
        const Def *d = module_find(r->m, r->own_defs.at[i]);
        if (!d || !d->fn || !d->fn->base.type)
            continue;
        buf_printf(&b, "%s@%s: ", b.n ? "\n" : "", d->name->text);
        type_print(&b, d->fn->base.type);
    }
    if (b.n)
        emit_text(r->s, RELAY_OUTPUT_DISPLAY, &b);
    buf_deinit(&b);
}

static bool run_definitions(RelaySession *s, const CellItem *item, bool silent)
{
    Redefinition r;
    redefinition_init(&r, s, item->module);
    bool ok = redefinition_check(&r, !silent) && redefinition_commit(&r);
    if (ok && !silent)
        show_definitions(&r);
    redefinition_deinit(&r);
    return ok;
}

/* ---- values ---------------------------------------------------------------------------------------------------------------- */

static void note_poison(void *data, Var *v)
{
    bool *found = data;
    *found = *found || type_is_poison(v->base.type);
}

/* Whether the expression uses a variable whose own binding failed: that was reported, and nothing more is said. */
static bool uses_failed(const Expr *e)
{
    bool found = false;
    ir_free_vars(e, note_poison, &found);
    return found;
}

static Value run_expr(RelaySession *s, const CellItem *item)
{
    bool ok = typecheck_module_as(&s->cx, item->module, s->env, (CheckWish){.answers = true});
    if (!ok || uses_failed(item->module->expr))
        return value_none();
    return engine_eval(s, s->engine, s->env, item->module, item->module->expr);
}

/* The binding is checked and evaluated as `let %x = e; %x`, so that annotations and recursion mean what they mean in a program. */
static bool run_let(RelaySession *s, const CellItem *item, bool silent)
{
    Module *m = item->module;
    m->expr = expr_let(&m->arena, item->span, item->var, m->expr, &item->var->base);
    Value v = run_expr(s, item);
    if (value_is_none(v))
        return false;
    session_bind(s, item->var, v, item->module, item->graph);
    for (size_t i = 0; i < s->n_locals && !silent; i++)
        if (s->locals[i].var == item->var)
            display_binding(s, &s->locals[i]);
    return true;
}

/* A function that was made inside a polymorphic one knows only the type that is written there; the expression knows what it is here. */
static void display_result(RelaySession *s, Value v, const Type *t)
{
    if (v.kind != VALUE_FUNCTION || t->kind != TYPE_FUNC) {
        display_value(s, RELAY_OUTPUT_RESULT, v);
        return;
    }
    Buf b = {0};
    buf_char(&b, '<');
    type_print(&b, t);
    buf_char(&b, '>');
    emit_text(s, RELAY_OUTPUT_RESULT, &b);
    buf_deinit(&b);
}

static bool run_item(RelaySession *s, const CellItem *item, bool silent)
{
    switch (item->kind) {
    case CELL_DEFINITIONS: return run_definitions(s, item, silent);
    case CELL_LET: return run_let(s, item, silent);
    case CELL_EXPR: {
        Value v = run_expr(s, item);
        if (value_is_none(v))
            return false;
        if (!silent)
            display_result(s, v, item->module->expr->type);
        value_release(v);
        return true;
    }
    case CELL_COMMAND: command_run(s, item); return s->cx.diags->errors == 0;
    case CELL_END:
    case CELL_ERROR: break;
    }
    return false;
}

/* In what runs on after an item that fails, a script, the variables that it would have bound are known by the poison type, so that one
 * mistake gives one message. */
static void bind_failed(RelaySession *s, const CellItem *item)
{
    if (!s->failed)
        s->failed = module_new(&s->cx);
    if (!s->failed)
        return;
    PtrMap *names = item->graph ? &s->graph_names : &s->local_names;
    PtrMap *old = &s->failed_old[item->graph];
    const Name *name = item->var->name;
    Var *v = expr_var(&s->failed->arena, item->var->base.span, name, NULL);
    v->base.type = s->cx.poison;
    if (!ptrmap_has(old, name))
        ptrmap_put(old, name, ptrmap_find(names, name));
    ptrmap_put(names, name, v);
}

/* The names mean again what they did; those that were bound since keep that. */
static void forget_failed(RelaySession *s)
{
    for (int k = 0; k < 2 && s->failed; k++) {
        PtrMap *names = k ? &s->graph_names : &s->local_names, *old = &s->failed_old[k];
        for (size_t i = 0; i < old->n; i++) {
            const Var *now = ptrmap_find(names, old->entries[i].key);
            if (!now || !type_is_poison(now->base.type))
                continue;
            if (old->entries[i].value)
                ptrmap_put(names, old->entries[i].key, old->entries[i].value);
            else
                ptrmap_remove(names, old->entries[i].key);
        }
        ptrmap_clear(old);
    }
    module_release(s->failed);
    s->failed = NULL;
}

/* What one item has to say is shown before the next one runs. A syntax error ends the cell in any case, because nobody knows where
 * the next item begins. */
RelayStatus cell_run(RelaySession *s, CellRun run)
{
    RelayStatus worst = RELAY_OK;
    CellParser p;
    if (!run.go_on)
        forget_failed(s);
    cell_parser_init(&p, &s->cx, run.source);
    for (;;) {
        CellItem item = {0};
        ParseEnv env = session_parse_env(s);
        cell_parser_next(&p, &env, &item);
        bool there = item.kind != CELL_END && item.kind != CELL_ERROR;
        bool good = there && run_item(s, &item, run.silent);
        if (!good && run.go_on && item.kind == CELL_LET)
            bind_failed(s, &item);
        module_release(item.module);
        RelayStatus status = session_status(s);
        worst = status > worst ? status : worst;
        if (!there || (!good && !run.go_on) || s->quit || s->cx.limits.hit != LIMIT_NONE)
            return worst;
        emit_diags(s);
    }
}

RelayStatus relay_session_eval(RelaySession *s, const RelayCell *cell, RelaySink sink)
{
    session_begin(s, sink);
    session_load_prelude(s);
    uint32_t source =
        sources_add(&s->cx.sources, cell->name ? cell->name : "input", cell->text, cell->len);
    sources_set_first_line(&s->cx.sources, source, cell->line);
    RelayStatus worst = RELAY_OK;
    if (source)
        worst =
            cell_run(s, (CellRun){.source = source, .silent = cell->silent, .go_on = cell->go_on});
    else
        diag_error(s->cx.diags, E0402_USAGE, (Span){0}, "the text cannot be kept: it is too large");
    RelayStatus end = session_end(s);
    return end > worst ? end : worst;
}

RelayComplete relay_session_is_complete(RelaySession *s, const char *text, size_t len, int *indent)
{
    (void)s;
    int blanks = 0;
    TextState state = text_state(text, len, &blanks);
    if (indent)
        *indent = blanks;
    switch (state) {
    case TEXT_COMPLETE: return RELAY_COMPLETE;
    case TEXT_INCOMPLETE: return RELAY_INCOMPLETE;
    case TEXT_INVALID: break;
    }
    return RELAY_INVALID;
}
