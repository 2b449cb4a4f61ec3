/* Cells: item by item through parser, checker and engine. */
#include "ir/print.h"
#include "ir/walk.h"
#include "passes/facts.h"
#include "session/internal.h"
#include "typecheck/typecheck.h"

#include <string.h>

/* ---- definitions ----------------------------------------------------------------------------------------------------------- */

/* Whether a name that the item defines meant something before. */
static bool defines_anew(RelaySession *s, const Module *m)
{
    bool anew = false;
    for (size_t i = 0; i < m->types.n && !anew; i++) {
        const TypeDef *def = m->types.at[i];
        anew = module_find_type(s->env, def->name) || stale_find(s, 0, def->name);
        for (uint32_t k = 0; k < def->n_cons && !anew; k++)
            anew = module_find_con(s->env, def->cons[k]->name) != NULL;
    }
    for (size_t i = 0; i < m->defs.n && !anew; i++) {
        const Name *name = m->defs.at[i].name;
        anew = module_find(s->env, name) || stale_find(s, '@', name);
    }
    return anew;
}

/* A definition that uses one that failed has failed too, and nothing more is said. */
static void fail_dependents(RelaySession *s, const Module *m)
{
    for (bool again = s->failed_names.n > 0 || s->gaps; again;) {
        again = false;
        for (size_t i = 0; i < m->defs.n; i++) {
            const Def *d = &m->defs.at[i];
            if (!d->fn || ptrmap_has(&s->failed_names, d->name) ||
                !session_uses_failed(s, &d->fn->base))
                continue;
            ptrmap_put(&s->failed_names, d->name, NULL);
            again = true;
        }
    }
}

/* What failed and is defined anew, or uses what is, is right now, unless it uses something else that failed. Gives the names. */
static void revive(RelaySession *s, const Module *m, PtrMap *names)
{
    for (size_t i = 0; i < m->defs.n; i++) {
        const Def *d = &m->defs.at[i];
        if (!d->fn || d->imported || !ptrmap_has(&s->failed_names, d->name))
            continue;
        ptrmap_remove(&s->failed_names, d->name);
        ptrmap_put(names, d->name, NULL);
    }
    fail_dependents(s, m);
}

static void note_text(RelaySession *s, Span text)
{
    const Source *source = sources_get(&s->cx.sources, text.source);
    while (source && text.from < text.to && strchr(" \t\r\n", source->text[text.from]))
        text.from++;
    while (source && text.from < text.to && strchr(" \t\r\n", source->text[text.to - 1]))
        text.to--;
    if (text.from < text.to)
        journal_add(s, text);
}

/* The text of the item without the definitions that failed with those that they use, and that of older ones that are right now. */
static void note_definitions(RelaySession *s, const CellItem *item, const Module *now,
                             const PtrMap *revived)
{
    Span rest = item->span;
    for (size_t i = 0; i < item->module->defs.n; i++) {
        const Def *d = &item->module->defs.at[i];
        if (!d->fn || d->imported || !ptrmap_has(&s->failed_names, d->name))
            continue;
        Span text = d->fn->base.span;
        note_text(s, (Span){rest.source, rest.from, text.from});
        rest.from = text.to;
    }
    note_text(s, rest);
    for (size_t i = 0; i < now->defs.n; i++) {
        const Def *d = &now->defs.at[i];
        if (ptrmap_has(revived, d->name) && !ptrmap_has(&s->failed_names, d->name) &&
            !module_find(item->module, d->name))
            note_text(s, d->fn->base.span);
    }
}

static void note_same_types(RelaySession *s, const Redefinition *r)
{
    for (size_t i = 0; i < r->same.n; i++) {
        const TypeDef *def = r->same.entries[i].key;
        if (def)
            undo_note_type(s, def->name);
    }
}

static bool run_definitions(RelaySession *s, const CellItem *item, bool silent)
{
    Redefinition r;
    PtrMap revived = {0};
    bool anew = defines_anew(s, item->module);
    redefinition_init(&r, s, item->module);
    bool ok = redefinition_check(&r, !silent) && redefinition_commit(&r);
    if (ok && !silent)
        redefinition_show(&r);
    if (ok && anew)
        journal_part(s);
    if (ok) {
        note_same_types(s, &r);
        revive(s, r.m, &revived);
        note_definitions(s, item, r.m, &revived);
    }
    ptrmap_deinit(&revived);
    redefinition_deinit(&r);
    return ok;
}

/* ---- values ---------------------------------------------------------------------------------------------------------------- */

/* An expression with free variables is the function of them. */
static void close_expr(Module *m)
{
    if (m->free_vars.n == 0)
        return;
    Function *fn = expr_function(&m->arena, m->expr->span, (TypeVarList){0},
                                 (uint32_t)m->free_vars.n, m->free_vars.at, NULL, NULL, m->expr);
    m->expr = &fn->base;
    m->free_vars.n = 0;
}

static Value run_expr(RelaySession *s, const CellItem *item, uint32_t *depth)
{
    close_expr(item->module);
    *depth = session_keep_used(s, item->module);
    bool ok = session_check(s, item->module, s->env, (CheckWish){.answers = true});
    if (!ok)
        return value_none();
    return engine_eval(s, s->engine, s->env, item->module, item->module->expr);
}

typedef struct DataSearch {
    PtrMap seen;
    bool found;
} DataSearch;

/* Whether a value of the type may hold a function or a reference, and with it code. */
static void search_code(DataSearch *f, const Type *t)
{
    t = type_find(t);
    f->found |= t->kind == TYPE_FUNC || t->kind == TYPE_REF || t->kind == TYPE_VAR;
    if (f->found || t->kind == TYPE_TENSOR || ptrmap_has(&f->seen, t))
        return;
    ptrmap_put(&f->seen, t, NULL);
    for (uint32_t i = 0; i < t->n; i++)
        search_code(f, t->parts[i]);
    if (t->kind != TYPE_ADT || ptrmap_has(&f->seen, t->def))
        return;
    ptrmap_put(&f->seen, t->def, NULL);
    for (uint32_t i = 0; i < t->def->n_cons; i++)
        for (uint32_t k = 0; k < t->def->cons[i]->n; k++) {
            const Type *field = type_find(t->def->cons[i]->fields[k]);
            if (field->kind != TYPE_VAR)
                search_code(f, field);
        }
}

bool type_holds_code(const Type *t)
{
    DataSearch f = {0};
    search_code(&f, t);
    ptrmap_deinit(&f.seen);
    return f.found;
}

/* So many cells back one can ask where a variable comes from. */
enum { STORY_MOST = 8 };

/* What `let %x = f(%x);` binds again and again does not keep all that went before: beyond some cells, data is bound to a variable that
 * stands alone. */
static void bind_result(RelaySession *s, const CellItem *item, Value v, uint32_t depth)
{
    Var *var = item->var;
    Module *alone = NULL;
    if (depth > STORY_MOST && !type_holds_code(var->base.type))
        alone = module_new(&s->cx);
    if (alone) {
        var = expr_var(&alone->arena, var->base.span, var->name, NULL);
        var->base.type = item->var->base.type;
    }
    session_bind(s, var, v, alone ? alone : item->module, item->graph);
    Local *l = session_local(s, var->name, item->graph);
    if (l)
        l->depth = alone ? 0 : depth;
    module_release(alone);
}

/* The binding is checked and evaluated as `let %x = e; %x`, so that annotations and recursion mean what they mean in a program. */
static bool run_let(RelaySession *s, const CellItem *item, bool silent)
{
    Module *m = item->module;
    m->expr = expr_let(&m->arena, item->span, item->var, m->expr, &item->var->base);
    uint32_t depth;
    Value v = run_expr(s, item, &depth);
    if (value_is_none(v))
        return false;
    bind_result(s, item, v, depth);
    const Local *l = session_local(s, item->var->name, item->graph);
    if (l && !silent)
        display_binding(s, l);
    return true;
}

static bool run_item_as_is(RelaySession *s, const CellItem *item, bool silent)
{
    if (item->kind != CELL_COMMAND && item->module) {
        module_release(s->last);
        s->last = module_retain(item->module);
    }
    switch (item->kind) {
    case CELL_DEFINITIONS: return run_definitions(s, item, silent);
    case CELL_LET: return run_let(s, item, silent);
    case CELL_EXPR: {
        uint32_t depth;
        Value v = run_expr(s, item, &depth);
        if (value_is_none(v))
            return false;
        if (!silent)
            display_value(s, RELAY_OUTPUT_RESULT, v, item->module->expr->type);
        if (!silent)
            results_keep(s, v, type_find(item->module->expr->type), item);
        value_release(v);
        return true;
    }
    case CELL_COMMAND: command_run(s, item); return s->cx.diags->errors == 0;
    case CELL_END:
    case CELL_ERROR: break;
    }
    return false;
}

/* The command with its arguments, also those that a person was asked for: these stand behind all that was typed. */
static void note_command(RelaySession *s, const CellItem *item)
{
    const Source *source = sources_get(&s->cx.sources, item->span.source);
    Buf b = {0};
    if (source)
        buf_printf(&b, "%.*s%s", (int)(item->span.to - item->span.from),
                   source->text + item->span.from, buf_text(&s->answers));
    journal_text(s, buf_text(&b), b.n);
    buf_deinit(&b);
}

typedef struct Writing {
    RelaySession *s;
    const Module *m;
    PtrMap seen; /* what names and variables stand for */
    Vec(const Expr *) todo;
    Arena arena;
    bool outside; /* a variable of the session holds code or references */
    bool writes;
} Writing;

static void note_outside(void *data, Var *v)
{
    Writing *w = data;
    w->outside |= v->base.type && type_holds_code(v->base.type);
}

static WalkNext note_writing(void *data, const Expr *e)
{
    Writing *w = data;
    const GlobalVar *g = expr_as_global(e);
    const Def *def = g ? find_global(w->m, w->s->env, g->name) : NULL;
    const Expr *code = def && def->fn        ? def->fn->body
                       : e->kind == EXPR_VAR ? session_written(w->s, expr_as_var(e))
                                             : NULL;
    w->writes |= e->kind == EXPR_REF_WRITE;
    if (code && !ptrmap_has(&w->seen, code)) {
        ptrmap_put(&w->seen, code, NULL);
        vec_push(&w->todo, &w->arena, code);
    }
    return w->writes ? WALK_STOP : WALK_ON;
}

/* Whether the expression may have written into a reference that a variable has. */
static bool may_write(RelaySession *s, const Module *m)
{
    Writing w = {.s = s, .m = m};
    ir_free_vars(m->expr, note_outside, &w);
    if (!w.outside)
        return false;
    arena_init(&w.arena, NULL);
    vec_push(&w.todo, &w.arena, m->expr);
    while (w.todo.n && !w.writes)
        ir_walk(vec_pop(&w.todo), note_writing, NULL, &w);
    ptrmap_deinit(&w.seen);
    arena_deinit(&w.arena);
    return w.writes;
}

/* A command that binds variables is noted as such, unless it noted something itself. */
static bool run_item(RelaySession *s, const CellItem *item, bool silent)
{
    uint64_t binds = s->binds;
    size_t noted = s->journal.n;
    Buf told = {0};
    buf_clear(&s->answers);
    if (item->kind == CELL_LET)
        journal_tell(s, item, &told);
    bool ok = run_item_as_is(s, item, silent);
    if (ok && item->kind == CELL_LET)
        journal_put(s, &told);
    buf_deinit(&told);
    if (!ok || s->journal.n != noted)
        return ok;
    if (item->kind == CELL_COMMAND && s->binds != binds && !s->undone)
        note_command(s, item);
    else if (item->kind == CELL_EXPR && s->journals && may_write(s, item->module))
        s->unsaid++;
    return ok;
}

/* ---- what fails ------------------------------------------------------------------------------------------------------------ */

static void fail_binding(RelaySession *s, const CellItem *item)
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

/* Whether an error lies in the definition. */
static bool is_wrong(const RelaySession *s, const Function *fn)
{
    Span whole = fn->base.span;
    for (const Diag *d = s->cx.diags->first; d; d = d->next)
        if (d->severity == SEVERITY_ERROR && d->span.source == whole.source &&
            d->span.from >= whole.from && d->span.to <= whole.to)
            return true;
    return false;
}

/* Which of the item's definitions failed. When its text could not be read as a whole, or an error lies in none of them, all of them. */
static void note_failed_names(RelaySession *s, const Module *m, const Module *next)
{
    bool all = m->broken || diags_full(s->cx.diags), any = false;
    for (int round = 0; round < 2 && !any; round++, all = true)
        for (size_t i = 0; i < m->defs.n; i++) {
            const Def *d = &m->defs.at[i];
            const Def *kept = d->fn ? module_find(next, d->name) : NULL;
            if (!kept || kept->fn != d->fn || (!all && !is_wrong(s, d->fn)))
                continue;
            ptrmap_put(&s->failed_names, d->name, NULL);
            any = true;
        }
    fail_dependents(s, m);
}

/* Old definitions stay; new ones are known by their types, as far as those are. */
static void fail_definitions(RelaySession *s, Module *m)
{
    Module *next = module_snapshot(s->env);
    if (!next)
        return;
    for (size_t i = 0; i < m->types.n; i++) {
        TypeDef *def = (TypeDef *)(uintptr_t)m->types.at[i];
        if (module_find_type(next, def->name))
            continue;
        def->broken = true;
        module_define_type(next, def);
    }
    for (size_t i = 0; i < m->defs.n; i++) {
        const Def *d = &m->defs.at[i];
        if (!d->fn || d->imported || module_find(next, d->name))
            continue;
        if (!d->fn->base.type)
            d->fn->base.type = s->cx.poison;
        module_define(next, d->name, d->fn, d->span, m);
    }
    s->gaps |= m->gaps;
    session_set_env(s, next);
    note_failed_names(s, m, next);
}

/* In what runs on after an item that fails, a script, what it would have bound or defined is known by its type or by the poison type,
 * so that one mistake gives one message. */
static void fail_item(RelaySession *s, const CellItem *item)
{
    if (item->var)
        fail_binding(s, item);
    if (item->module && (item->module->defs.n || item->module->types.n || item->module->gaps))
        fail_definitions(s, item->module);
}

static void forget_failed_names(RelaySession *s)
{
    Module *next = s->failed_names.n || s->gaps ? module_snapshot(s->env) : NULL;
    if (!next)
        return;
    for (size_t i = 0; i < s->failed_names.n; i++)
        if (s->failed_names.entries[i].key)
            module_remove(next, s->failed_names.entries[i].key);
    for (size_t i = next->types.n; i-- > 0;)
        if (next->types.at[i]->broken)
            module_remove_type(next, next->types.at[i]);
    ptrmap_clear(&s->failed_names);
    s->gaps = false;
    session_set_env(s, next);
}

/* The names mean again what they did; those that were bound since keep that. */
static void forget_failed(RelaySession *s)
{
    forget_failed_names(s);
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

void session_forget_failed(RelaySession *s, const PtrMap *names)
{
    ptrmap_clear(&s->failed_names);
    for (size_t i = 0; i < names->n; i++)
        if (names->entries[i].key)
            ptrmap_put(&s->failed_names, names->entries[i].key, NULL);
    s->gaps = true; /* types, too */
    forget_failed(s);
}

/* ---- cells ------------------------------------------------------------------------------------------------------------------ */

typedef struct Cell {
    RelaySession *s;
    CellRun run;
    CellParser parser;
    bool checking; /* something failed: the rest is checked and not run */
    Trail trail;
} Cell;

/* Whether what was reported last is about the text or its types, and not about what happened when it ran. */
static bool is_judgement(const RelaySession *s)
{
    const Diag *d = s->cx.diags->last;
    const char *code = d ? diag_info(d->code)->code : "";
    return s->cx.limits.hit == LIMIT_NONE && !s->quit &&
           (!strncmp(code, "E01", 3) || !strncmp(code, "E02", 3) || !strncmp(code, "W02", 3));
}

/* The other errors of an item that could not be read as a whole. */
static void check_broken(RelaySession *s, const CellItem *item)
{
    Module *m = item->module;
    if (item->var && m->expr)
        m->expr = expr_let(&m->arena, item->span, item->var, m->expr, &item->var->base);
    typecheck_module(&s->cx, m, s->env);
}

/* False when nothing of the cell is looked at any more. Takes the item's module. */
static bool cell_failed(Cell *c, const CellItem *item)
{
    RelaySession *s = c->s;
    bool error = item->kind == CELL_ERROR;
    if (error ? s->cx.limits.hit != LIMIT_NONE : !c->run.go_on && !is_judgement(s)) {
        module_release(item->module);
        return false;
    }
    if (error && item->module)
        check_broken(s, item);
    if (c->run.go_on)
        fail_item(s, item);
    if (c->run.go_on && !item->lost) {
        module_release(item->module);
        return true;
    }
    c->checking = trail_init(&c->trail, s);
    if (c->checking && item->module)
        trail_define(&c->trail, item);
    return c->checking;
}

/* The next item; where it uses what is stale and fits again, as that is now. */
static CellItem next_item(Cell *c)
{
    RelaySession *s = c->s;
    uint32_t at = c->parser.at;
    DiagsMark before = diags_mark(s->cx.diags);
    CellItem item = {0};
    ParseEnv env = c->checking ? trail_env(&c->trail) : session_parse_env(s);
    cell_parser_next(&c->parser, &env, &item);
    bool names = item.kind == CELL_ERROR || item.module;
    if (c->checking || !names || !stale_refresh(s, item.kind == CELL_ERROR ? NULL : item.module))
        return item;
    module_release(item.module);
    diags_back(s->cx.diags, before);
    item = (CellItem){0};
    c->parser.at = at;
    env = session_parse_env(s);
    cell_parser_next(&c->parser, &env, &item);
    return item;
}

/* False at the end. */
static bool cell_item(Cell *c)
{
    RelaySession *s = c->s;
    CellItem item = next_item(c);
    if (item.kind == CELL_END)
        return false;
    if (c->checking && item.module)
        trail_check(&c->trail, &item);
    if (c->checking)
        return true;
    if (item.kind == CELL_ERROR || !stale_unused(s, item.module, item.span) ||
        !run_item(s, &item, c->run.silent))
        return cell_failed(c, &item);
    module_release(item.module);
    return true;
}

/* The same as a cell of its own. */
static bool typed_item(Cell *c)
{
    RelaySession *s = c->s;
    session_load_prelude(s);
    limits_next(&s->cx.limits);
    s->number = s->numbers + 1;
    s->undone = false;
    Undo *before = undo_take(s);
    bool more = cell_item(c);
    undo_keep(s, before);
    s->numbers += more;
    return more;
}

/* A limit ends the cell. The items of a script are cells, so the next one runs, unless somebody wants no more of them, or the
 * system refused memory: then nobody knows what of the item is there. */
static bool limit_ends(RelaySession *s, CellRun run)
{
    Limits *l = &s->cx.limits;
    bool refused = limit_refused(l);
    return l->hit != LIMIT_NONE && (!run.items || l->hit == LIMIT_INTERRUPT || refused);
}

/* What one item has to say is shown before the next one runs. Behind an item that fails, the rest of a cell is checked and not run; a
 * script runs on, unless nobody knows where its next item begins. */
RelayStatus cell_run(RelaySession *s, CellRun run)
{
    RelayStatus worst = RELAY_OK;
    Cell c = {.s = s, .run = run};
    if (!run.go_on)
        forget_failed(s);
    cell_parser_init(&c.parser, &s->cx, run.source);
    for (bool more = true; more;) {
        more = run.items ? typed_item(&c) : cell_item(&c);
        RelayStatus status = session_status(s);
        worst = status > worst ? status : worst;
        more = more && !s->quit && !limit_ends(s, run);
        if (more)
            emit_diags(s);
    }
    trail_deinit(&c.trail);
    return worst;
}

typedef struct EvalCall {
    RelaySession *s;
    const RelayCell *cell;
    RelaySink sink;
    RelayStatus status;
} EvalCall;

static void eval(void *data)
{
    EvalCall *call = data;
    RelaySession *s = call->s;
    const RelayCell *cell = call->cell;
    session_begin(s, call->sink);
    session_load_prelude(s);
    s->number = cell->number;
    s->numbers = cell->number ? cell->number : s->numbers;
    s->by_items = cell->items;
    s->journals = cell->number || !cell->silent;
    s->undone = false;
    Undo *before = cell->number ? undo_take(s) : NULL;
    complete_note_uses(s, cell->text, cell->len);
    uint32_t source =
        sources_add(&s->cx.sources, cell->name ? cell->name : "input", cell->text, cell->len);
    sources_set_first_line(&s->cx.sources, source, cell->line);
    RelayStatus worst = RELAY_OK;
    if (source)
        worst = cell_run(s, (CellRun){.source = source,
                                      .silent = cell->silent,
                                      .go_on = cell->go_on,
                                      .items = cell->items});
    else if (!limit_refused(&s->cx.limits))
        diag_error(s->cx.diags, E0402_USAGE, (Span){0}, "the text cannot be kept: it is too large");
    undo_keep(s, before);
    s->number = 0;
    RelayStatus end = session_end(s);
    call->status = end > worst ? end : worst;
}

RelayStatus relay_session_eval(RelaySession *s, const RelayCell *cell, RelaySink sink)
{
    EvalCall call = {.s = s, .cell = cell, .sink = sink};
    return session_guard(s, sink, eval, &call) ? call.status : RELAY_LIMIT;
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
