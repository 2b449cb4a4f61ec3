/* What no longer fits something that was defined anew. It is named when that happens, stays out of the way, and is read again when it is
 * used: then it either fits what there is now, or the error says what does not. */
#include "base/memory.h"
#include "ir/walk.h"
#include "session/internal.h"
#include "typecheck/typecheck.h"

#include <stdlib.h>
#include <string.h>

/* ---- the list -------------------------------------------------------------------------------------------------------------- */

static PtrMap *names_of(RelaySession *s, bool graph)
{
    return graph ? &s->graph_names : &s->local_names;
}

static void stale_free(RelaySession *s, Stale *old)
{
    sources_release(&s->cx.sources, old->span.source);
    sources_release(&s->cx.sources, old->since.source);
    free(old->why);
    module_release(old->home);
    free(old);
}

/* The name of a variable means a node that nothing can be done with. */
static void stand_in(RelaySession *s, Stale *one)
{
    one->home = module_new(&s->cx);
    if (!one->home)
        return;
    Var *v = expr_var(&one->home->arena, one->span, one->name, NULL);
    v->base.type = s->cx.poison;
    ptrmap_put(names_of(s, one->graph), one->name, v);
}

void stale_add(RelaySession *s, Stale what)
{
    Stale *one = memory_alloc(sizeof *one);
    char *why = memory_text(what.why, strlen(what.why));
    if (!one || !why) {
        limit_reach(&s->cx.limits, LIMIT_MEMORY);
        free(one);
        free(why);
        return;
    }
    *one = what;
    one->why = why;
    one->home = NULL;
    one->next = s->stale;
    sources_retain(&s->cx.sources, one->span.source);
    sources_retain(&s->cx.sources, one->since.source);
    s->stale = one;
    if (one->sigil == '%') {
        session_unbind(s, one->name, one->graph);
        stand_in(s, one);
    }
}

void stale_forget(RelaySession *s, char sigil, bool graph, const Name *name)
{
    for (Stale **at = &s->stale; *at; at = &(*at)->next) {
        Stale *old = *at;
        if (old->sigil != sigil || old->graph != graph || old->name != name)
            continue;
        *at = old->next;
        stale_free(s, old);
        return;
    }
}

void stale_forget_all(RelaySession *s)
{
    while (s->stale) {
        Stale *old = s->stale;
        s->stale = old->next;
        stale_free(s, old);
    }
}

Stale *stale_copy(RelaySession *s)
{
    Stale *list = NULL, **end = &list;
    for (const Stale *old = s->stale; old; old = old->next) {
        Stale *one = memory_alloc(sizeof *one);
        char *why = memory_text(old->why, strlen(old->why));
        if (!one || !why) {
            free(one);
            free(why);
            break;
        }
        *one = *old;
        one->why = why;
        one->next = NULL;
        if (one->home)
            module_retain(one->home);
        sources_retain(&s->cx.sources, one->span.source);
        sources_retain(&s->cx.sources, one->since.source);
        *end = one;
        end = &one->next;
    }
    return list;
}

void stale_free_list(RelaySession *s, Stale *list)
{
    while (list) {
        Stale *next = list->next;
        stale_free(s, list);
        list = next;
    }
}

void stale_restore(RelaySession *s, Stale *list)
{
    stale_forget_all(s);
    s->stale = list;
    for (Stale *one = list; one; one = one->next)
        if (one->sigil == '%' && one->home) {
            module_release(one->home);
            stand_in(s, one);
        }
}

const Stale *stale_find(const RelaySession *s, char sigil, const Name *name)
{
    const Stale *old = s->stale;
    while (old && (old->sigil != sigil || old->name != name))
        old = old->next;
    return old;
}

static void name_stale(Buf *b, const Stale *old)
{
    buf_printf(b, "%s`", old->sigil ? "" : "the type ");
    if (old->sigil)
        buf_char(b, old->sigil);
    buf_printf(b, "%s`", old->name->text);
}

void stale_warn(RelaySession *s, size_t n, Renewed changed)
{
    Buf names = {0};
    const Stale *old = s->stale;
    for (size_t i = 0; i < n; i++, old = old->next) {
        buf_str(&names, i == 0 ? "" : i + 1 < n ? ", " : " and ");
        name_stale(&names, old);
    }
    const char sigil[2] = {changed.sigil, 0};
    Diag *d = diag_error(s->cx.diags, W0203_STALE, changed.span, "%s no longer %s `%s%s`",
                         buf_text(&names), n == 1 ? "fits" : "fit", sigil, changed.name->text);
    old = s->stale;
    bool again = false; /* what was written can be read again */
    for (size_t i = 0; i < n; i++, old = old->next) {
        diag_label(d, old->where, "%s", old->why);
        again |= !span_is_none(old->text);
    }
    if (again)
        diag_note(d, "%s checked again when %s used", n == 1 ? "it is" : "they are",
                  n == 1 ? "it is" : "they are");
    else
        diag_help(d, "bind %s again", n == 1 ? "it" : "them");
    buf_deinit(&names);
}

/* ---- what uses it ---------------------------------------------------------------------------------------------------------- */

typedef struct Use {
    const RelaySession *s;
    const Module *m;
    const Stale *what;
    Span span;
} Use;

static void look_at(void *data, Expr *const *slot)
{
    Use *u = data;
    const GlobalVar *g = expr_as_global(*slot);
    const Var *v = expr_as_var(*slot);
    const Stale *old = u->what ? NULL : u->s->stale;
    for (; old; old = old->next) {
        bool named = g && old->sigil == '@' && old->name == g->name && !module_find(u->m, g->name);
        bool bound =
            v && old->sigil == '%' && old->name == v->name &&
            ptrmap_find(old->graph ? &u->s->graph_names : &u->s->local_names, v->name) == v;
        if (!named && !bound)
            continue;
        u->what = old;
        u->span = ir_use_span(u->m, slot);
        return;
    }
}

static WalkNext look_below(void *data, const Expr *e)
{
    Use *u = data;
    ir_children(e, look_at, u);
    return u->what ? WALK_STOP : WALK_ON;
}

static void look_from(Use *u, Expr *const *root)
{
    if (!u->what && *root)
        look_at(u, root);
    if (!u->what && *root)
        ir_walk(*root, look_below, NULL, u);
}

/* The first use of something stale in the item; `what` NULL for none. */
static Use find_use(const RelaySession *s, const Module *m)
{
    Use u = {.s = s, .m = m};
    if (!s->stale || !m)
        return u;
    look_from(&u, &m->expr);
    for (size_t i = 0; i < m->defs.n; i++) {
        Expr *fn = m->defs.at[i].fn ? &m->defs.at[i].fn->base : NULL;
        look_from(&u, &fn);
    }
    return u;
}

/* ---- reading again --------------------------------------------------------------------------------------------------------- */

/* Those that still do not fit, with what is wrong now. */
static void note_reasons(RelaySession *s, const Redefinition *r)
{
    for (size_t i = 0; i < r->dropped.n; i++) {
        const Dropped *d = &r->dropped.at[i];
        Stale *old = (Stale *)(uintptr_t)stale_find(s, d->what.sigil, d->what.name);
        char *why = old ? memory_text(d->why, strlen(d->why)) : NULL;
        if (!why)
            continue;
        free(old->why);
        old->why = why;
        old->where = d->where;
    }
}

static bool refresh_definitions(RelaySession *s)
{
    Module *nothing = module_new(&s->cx);
    if (!nothing)
        return false;
    Redefinition r;
    DiagsMark before = diags_mark(s->cx.diags);
    redefinition_init(&r, s, nothing);
    bool any = redefinition_of_stale(&r) && r.dependents.n > 0;
    diags_back(s->cx.diags, before);
    note_reasons(s, &r);
    if (any)
        redefinition_commit(&r);
    redefinition_deinit(&r);
    module_release(nothing);
    return any;
}

static bool refresh_variable(RelaySession *s, const Stale *old)
{
    DiagsMark before = diags_mark(s->cx.diags);
    CellItem item;
    bool ok = read_binding(s, s->env, old->text, &item);
    if (ok)
        session_keep_used(s, item.module);
    Value v =
        ok ? engine_eval(s, ENGINE_INTERP, s->env, item.module, item.module->expr) : value_none();
    ok = !value_is_none(v);
    if (ok)
        session_bind(s, item.var, v, item.module, old->graph);
    else
        diags_back(s->cx.diags, before);
    module_release(item.module);
    return ok;
}

/* One at a time, since binding it takes it out of the list. */
static bool refresh_a_variable(RelaySession *s)
{
    for (const Stale *old = s->stale; old; old = old->next)
        if (old->sigil == '%' && !span_is_none(old->text) && refresh_variable(s, old))
            return true;
    return false;
}

bool stale_refresh(RelaySession *s, const Module *item)
{
    if (!s->stale || (item && !find_use(s, item).what))
        return false;
    bool any = refresh_definitions(s);
    while (s->stale && !limit_hit(&s->cx.limits) && refresh_a_variable(s))
        any = true;
    return any;
}

bool stale_unused(RelaySession *s, const Module *item, Span whole)
{
    Use u = find_use(s, item);
    if (!u.what)
        return true;
    if (item->expr && expr_as_var(item->expr))
        u.span = whole;
    const Stale *old = u.what;
    const char sigil[2] = {old->sigil, 0}, by[2] = {old->changed_sigil, 0};
    Diag *d = diag_error(s->cx.diags, E0218_STALE, u.span, "`%s%s` no longer fits `%s%s`", sigil,
                         old->name->text, by, old->changed->text);
    diag_label(d, old->where, "%s", old->why);
    if (!span_is_none(old->since))
        diag_label(d, old->since, "defined again");
    diag_help(d, "%s `%s%s` again", old->sigil == '%' ? "bind" : "define", sigil, old->name->text);
    return false;
}
