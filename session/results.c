/* What a session keeps of its cells: their results as variables, and what each changed. */
#include "base/memory.h"
#include "runtime/npy.h"
#include "session/commands.h"
#include "session/optimise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of results and of steps so many are kept, and fewer where they hold half of the memory that may be used up. */
enum { KEPT_MOST = 100 };

static bool is_scarce(RelaySession *s)
{
    return s->cx.limits.memory_most > 0 &&
           atomic_load(&s->cx.limits.memory) > s->cx.limits.memory_most / 2;
}

/* ---- results ---------------------------------------------------------------------------------------------------------------- */

static void bind(RelaySession *s, const char *text, Value v, const Type *t, Module *home)
{
    const Name *name = ctx_name(&s->cx, text);
    const Local *old = session_local(s, name, false);
    Module *m = old && !old->result ? NULL : module_new(&s->cx);
    if (!m)
        return;
    Var *var = expr_var(&m->arena, (Span){0}, name, NULL);
    var->base.type = t;
    if (type_holds_code(t))
        module_use(m, home);
    session_bind(s, var, value_retain(v), m, false);
    Local *l = session_local(s, name, false);
    if (l)
        l->result = s->results;
    module_release(m);
}

/* The oldest one but `%_`, which is the newest. */
static const Local *oldest(const RelaySession *s, size_t *n)
{
    const Local *first = NULL;
    *n = 0;
    for (size_t i = 0; i < s->n_locals; i++) {
        const Local *l = &s->locals[i];
        if (!l->result || l->var->name->len == 1)
            continue;
        first = first ? first : l;
        ++*n;
    }
    return first;
}

ResultName result_name(uint32_t number)
{
    ResultName name;
    snprintf(name.text, sizeof name.text, "_%u", number);
    return name;
}

void results_keep(RelaySession *s, Value v, const Type *t, const CellItem *item)
{
    size_t n;
    if (!s->number || (t->kind == TYPE_TUPLE && t->n == 0))
        return;
    Undo *noting = s->noting;
    s->noting = NULL; /* a result is no change */
    s->results++;
    journal_result(s, item);
    bind(s, result_name(s->number).text, v, t, item->module);
    bind(s, "_", v, t, item->module);
    for (const Local *l = oldest(s, &n); l && (n > KEPT_MOST || (n > 1 && is_scarce(s)));
         l = oldest(s, &n)) {
        if (!s->results_gone && !s->by_items)
            emit_printf(s, RELAY_OUTPUT_STREAM,
                        "note: `%%%s` and older results are let go of: %s\n", l->var->name->text,
                        n > KEPT_MOST ? "the newest 100 are kept" : "memory is scarce");
        s->results_gone = true;
        session_unbind(s, l->var->name, false);
    }
    s->noting = noting;
}

void results_drop(RelaySession *s, const Local *l)
{
    Undo *noting = s->noting;
    s->noting = NULL; /* a result is no change */
    session_unbind(s, l->var->name, l->graph);
    s->noting = noting;
}

void results_forget_code(RelaySession *s)
{
    for (size_t i = s->n_locals; i-- > 0;) {
        const Local *l = &s->locals[i];
        if (l->result && type_holds_code(l->var->base.type))
            results_drop(s, l);
    }
}

/* ---- undo ------------------------------------------------------------------------------------------------------------------- */

/* A variable before it became another: `was.var` is NULL where there was none. */
typedef struct Changed {
    const Name *name;
    bool graph;
    Local was; /* counted */
} Changed;

/* The definitions before a cell, and what happened to variables since, up to the next step. */
struct Undo {
    Undo *older;
    Module *env;
    PtrMap failed; /* names of definitions among these that are wrong, as keys */
    PtrMap same; /* names of types that were defined again as they were, as keys */
    Changed *changed;
    size_t n, cap;
    Stale *stale;
    size_t journal;
    double journal_seconds;
    double began; /* in seconds of the running call */
    double seconds; /* that the cell behind it took */
};

static void undo_free(RelaySession *s, Undo *u)
{
    for (size_t i = 0; i < u->n; i++) {
        value_release(u->changed[i].was.value);
        module_release(u->changed[i].was.module);
    }
    free(u->changed);
    ptrmap_deinit(&u->failed);
    ptrmap_deinit(&u->same);
    stale_free_list(s, u->stale);
    module_release(u->env);
    free(u);
}

static void free_list(RelaySession *s, Undo *u)
{
    while (u) {
        Undo *older = u->older;
        undo_free(s, u);
        u = older;
    }
}

void undo_forget(RelaySession *s)
{
    free_list(s, s->undo);
    s->undo = s->noting = NULL;
}

Undo *undo_take(RelaySession *s)
{
    Undo *u = memory_zeroed(1, sizeof *u);
    if (u) {
        u->began = session_seconds(s);
        u->env = module_retain(s->env);
        for (size_t i = 0; i < s->failed_names.n; i++)
            if (s->failed_names.entries[i].key)
                ptrmap_put(&u->failed, s->failed_names.entries[i].key, NULL);
        u->stale = stale_copy(s);
        u->journal = s->journal.n;
        u->journal_seconds = s->journal_seconds;
    }
    s->noting = u;
    return u;
}

void undo_note(RelaySession *s, const Name *name, bool graph, const Local *was)
{
    Undo *u = s->noting;
    if (!u)
        return;
    if (u->n == u->cap) {
        size_t cap = u->cap ? 2 * u->cap : 4;
        Changed *grown = memory_resize(u->changed, cap * sizeof *grown);
        if (!grown) {
            limit_reach(&s->cx.limits, LIMIT_MEMORY);
            return;
        }
        u->changed = grown;
        u->cap = cap;
    }
    Changed *c = &u->changed[u->n++];
    *c = (Changed){.name = name, .graph = graph, .was = {.value = value_none()}};
    if (!was)
        return;
    c->was = *was;
    value_retain(was->value);
    module_retain(was->module);
}

void undo_note_type(RelaySession *s, const Name *name)
{
    if (s->noting)
        ptrmap_put(&s->noting->same, name, NULL);
}

/* The function of that name; NULL: there is none, or it failed. */
static const Function *find_right(const Module *env, const PtrMap *failed, const Name *name)
{
    const Def *d = module_find(env, name);
    return d && !ptrmap_has(failed, name) ? d->fn : NULL;
}

/* How many definitions and variables are others than they were in the step, or were made again, and their names. */
static size_t differences(const RelaySession *s, const Undo *u, Buf *names)
{
    size_t n = 0;
    const Module *env = s->env;
    for (size_t i = 0; i < env->types.n; i++) {
        const TypeDef *t = env->types.at[i];
        bool anew = module_find_type(u->env, t->name) != t || ptrmap_has(&u->same, t->name);
        if (anew && !t->broken)
            buf_printf(names, "%s%s", n++ ? ", " : "", t->name->text);
    }
    for (size_t i = 0; env != u->env && i < env->defs.n; i++) {
        const Def *d = &env->defs.at[i];
        if (d->fn && !d->imported &&
            find_right(env, &s->failed_names, d->name) != find_right(u->env, &u->failed, d->name))
            buf_printf(names, "%s@%s", n++ ? ", " : "", d->name->text);
    }
    PtrMap seen[2] = {{0}, {0}};
    for (size_t i = 0; i < u->n; i++) {
        const Changed *c = &u->changed[i];
        const Local *now = session_local(s, c->name, c->graph);
        if (ptrmap_has(&seen[c->graph], c->name))
            continue;
        ptrmap_put(&seen[c->graph], c->name, NULL);
        if ((now ? now->var : NULL) != c->was.var)
            buf_printf(names, "%s%%%s", n++ ? ", " : "", c->name->text);
    }
    ptrmap_deinit(&seen[0]);
    ptrmap_deinit(&seen[1]);
    return n;
}

void undo_keep(RelaySession *s, Undo *u)
{
    Buf names = {0};
    if (!u)
        return;
    /* Else another one was taken back, or all was forgotten. */
    bool whole = s->noting == u;
    bool keep = whole && differences(s, u, &names) > 0;
    buf_deinit(&names);
    s->noting = keep ? u : s->undo;
    if (!keep) {
        undo_free(s, u);
        return;
    }
    u->older = s->undo;
    u->seconds = session_seconds(s) - u->began;
    s->journal_seconds += u->seconds;
    s->undo = u;
    size_t n = 1;
    for (Undo *last = u; last; last = last->older)
        if (n++ >= KEPT_MOST || is_scarce(s)) {
            free_list(s, last->older);
            last->older = NULL;
        }
}

/* The variables become what they were, the last change first; results stay. */
static void put_back(RelaySession *s, const Undo *u)
{
    s->noting = NULL;
    for (size_t i = u->n; i-- > 0;) {
        const Changed *c = &u->changed[i];
        if (!c->was.var) {
            session_unbind(s, c->name, c->graph);
            continue;
        }
        session_bind(s, c->was.var, value_retain(c->was.value), c->was.module, c->graph);
        Local *l = session_local(s, c->name, c->graph);
        if (l) {
            l->result = c->was.result;
            l->depth = c->was.depth;
        }
    }
}

bool session_possessions(const RelaySession *s, Buf *out)
{
    size_t functions = 0, variables = 0;
    for (size_t i = 0; i < s->env->defs.n; i++)
        functions += s->env->defs.at[i].fn && !s->env->defs.at[i].imported;
    for (size_t i = 0; i < s->n_locals; i++)
        variables += !s->locals[i].result;
    if (functions)
        buf_printf(out, "%zu function%s", functions, functions == 1 ? "" : "s");
    if (variables)
        buf_printf(out, "%s%zu variable%s", functions ? " and " : "", variables,
                   variables == 1 ? "" : "s");
    return functions + variables > 0;
}

void command_undo(CommandCall *c)
{
    RelaySession *s = c->s;
    Undo *u = s->undo;
    if (!u) {
        Diag *d = diag_error(s->cx.diags, E0402_USAGE, c->args, "there is nothing to take back");
        diag_help(d, "of the cells that defined or bound something the last 100 can be");
        return;
    }
    Buf names = {0};
    differences(s, u, &names);
    if (u->seconds >= LONG_SECONDS &&
        !session_confirm(s, "take %s back, which took %.0f s", buf_text(&names), u->seconds)) {
        buf_deinit(&names);
        return;
    }
    s->undo = u->older;
    interp_forget(s->interp, s->env);
    if (s->jit)
        s->jit_table->forget(s->jit, s->env);
    optimise_forget(s, NULL);
    session_set_env(s, module_retain(u->env));
    session_forget_failed(s, &u->failed);
    if (s->noting && s->noting != u)
        put_back(s, s->noting); /* what this cell did before */
    put_back(s, u);
    stale_restore(s, u->stale);
    u->stale = NULL;
    s->noting = s->undo;
    carry_back(s);
    carry_renew(s);
    journal_cut(s, u->journal);
    s->journal_seconds = u->journal_seconds;
    s->undone = true;
    emit_printf(s, RELAY_OUTPUT_DISPLAY, "taken back: %s", buf_text(&names));
    buf_deinit(&names);
    undo_free(s, u);
}
