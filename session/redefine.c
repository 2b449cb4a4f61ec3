/* Definitions of a cell. What depends on one that is replaced is read again, together with the cell, and checked. What fits moves to the
 * new definition; what does not is stale from then on (stale.c). */
#include "ir/walk.h"
#include "session/internal.h"
#include "typecheck/typecheck.h"

#include <string.h>

void redefinition_init(Redefinition *r, RelaySession *s, Module *m)
{
    *r = (Redefinition){
        .s = s, .cell = module_retain(m), .m = module_retain(m), .base = module_retain(s->env)};
    arena_init(&r->arena, &s->cx.limits);
}

void redefinition_deinit(Redefinition *r)
{
    carry_deinit(r);
    PtrMap *maps[] = {&r->names, &r->retyped, &r->types, &r->same, &r->looked};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        ptrmap_deinit(maps[i]);
    module_release(r->cell);
    module_release(r->m);
    module_release(r->base);
    module_release(r->env);
    arena_deinit(&r->arena);
}

static bool type_is_imported(const Module *m, const TypeDef *def)
{
    for (size_t i = 0; i < m->imported_types.n; i++)
        if (m->imported_types.at[i] == def)
            return true;
    return false;
}

/* ---- a name of the library that is taken over -------------------------------------------------------------------------- */

static void define_library(Module *m, const Name *name, Function *fn, const Def *def)
{
    module_define(m, name, fn, def->span, m);
    module_use(m, def->home);
    vec_last(&m->defs).imported = true;
}

/* The library keeps its own definition of a name that a cell defines: it moves to a name that no text can write (identifiers have no
 * dots), and the library's functions follow. */
static bool move_library(RelaySession *s, Module *m, const Def *def)
{
    Buf hidden = {0};
    buf_printf(&hidden, "library.%s", def->name->text);
    const Name *to = ctx_name(&s->cx, buf_text(&hidden));
    buf_deinit(&hidden);
    bool ok = true;
    for (size_t i = 0; i < s->env->defs.n && ok; i++) {
        const Def *d = &s->env->defs.at[i];
        const Def *mine = module_find(m, d->name);
        if (!d->fn || !d->imported || (mine && !mine->imported && d->name != def->name))
            continue;
        Function *fn = mine && mine->imported ? mine->fn : d->fn;
        Expr *now = rename_global(&s->cx, m, &fn->base, def->name, to);
        ok = now != NULL;
        if (ok && (now != &d->fn->base || d->name == def->name))
            define_library(m, d->name == def->name ? to : d->name, expr_as_function(now), d);
    }
    return ok;
}

static bool move_libraries(RelaySession *s, Module *m)
{
    bool ok = true;
    for (size_t i = 0, own = m->defs.n; i < own && ok; i++) {
        const Def *old = module_find(s->env, m->defs.at[i].name);
        if (old && old->fn && old->imported && !m->defs.at[i].imported)
            ok = move_library(s, m, old);
    }
    return ok;
}

/* ---- what changes ------------------------------------------------------------------------------------------------------- */

static bool same_constructors(const TypeDef *now, const TypeDef *old, const PtrMap *defs)
{
    TypeBijection under = {now->n_params, now->params, old->params, defs, false};
    for (uint32_t i = 0; i < now->n_cons; i++) {
        const Constructor *a = now->cons[i], *b = old->cons[i];
        if (a->name != b->name || a->n != b->n)
            return false;
        for (uint32_t k = 0; k < a->n; k++)
            if (!type_equal_under(a->fields[k], b->fields[k], &under))
                return false;
    }
    return true;
}

/* A type that is defined again as it was, as when a cell is run twice, is the one that is there: types that agree as long as those
 * that they mention do. */
static void find_same(Redefinition *r)
{
    for (size_t i = 0; i < r->m->types.n; i++) {
        const TypeDef *now = r->m->types.at[i], *old = module_find_type(r->s->env, now->name);
        bool may = old && old != now && !type_is_imported(r->m, now) &&
                   old->n_params == now->n_params && old->n_cons == now->n_cons &&
                   old->is_extern == now->is_extern && !span_is_none(old->text);
        if (may)
            ptrmap_put(&r->same, now, (void *)(uintptr_t)old);
    }
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < r->m->types.n; i++) {
            const TypeDef *now = r->m->types.at[i], *old = ptrmap_find(&r->same, now);
            if (!old || same_constructors(now, old, &r->same))
                continue;
            ptrmap_remove(&r->same, now);
            again = true;
        }
    }
}

static void find_changes(Redefinition *r)
{
    find_same(r);
    for (size_t i = 0; i < r->m->types.n; i++) {
        const TypeDef *now = r->m->types.at[i], *old = module_find_type(r->s->env, now->name);
        if (!type_is_imported(r->m, now))
            vec_push(&r->own_types, &r->arena, now->name);
        if (old && old != now && !ptrmap_has(&r->same, now))
            ptrmap_put(&r->types, old, (void *)(uintptr_t)now);
    }
    for (size_t i = 0; i < r->m->defs.n; i++) {
        const Def *now = &r->m->defs.at[i], *old = module_find(r->s->env, now->name);
        if (!now->imported)
            vec_push(&r->own_defs, &r->arena, now->name);
        if (old && old->fn != now->fn)
            ptrmap_put(&r->names, now->name, NULL);
    }
}

/* ---- what depends on it -------------------------------------------------------------------------------------------------- */

bool redefinition_mentions(Redefinition *r, const Type *t)
{
    if (!t || r->types.n == 0 || ptrmap_has(&r->looked, t))
        return false;
    if (type_mentions(t, &r->types))
        return true;
    ptrmap_put(&r->looked, t, NULL);
    return false;
}

typedef struct Mentions {
    Redefinition *r;
    bool found;
} Mentions;

static WalkNext mentions_changed(void *data, const Expr *e)
{
    Mentions *m = data;
    const GlobalVar *g = expr_as_global(e);
    m->found = (g && ptrmap_has(&m->r->names, g->name)) || redefinition_mentions(m->r, e->type);
    return m->found ? WALK_STOP : WALK_ON;
}

bool redefinition_depends(Redefinition *r, const Expr *e)
{
    Mentions m = {.r = r};
    ir_walk(e, mentions_changed, NULL, &m);
    return m.found;
}

static bool function_depends(Redefinition *r, const Def *d)
{
    return redefinition_depends(r, &d->fn->base) ||
           (d->written && redefinition_depends(r, &d->written->base));
}

static bool type_depends(Redefinition *r, const TypeDef *def)
{
    for (uint32_t i = 0; i < def->n_cons; i++)
        for (uint32_t k = 0; k < def->cons[i]->n; k++)
            if (redefinition_mentions(r, def->cons[i]->fields[k]))
                return true;
    return false;
}

static void add_dependent(Redefinition *r, Dependent d)
{
    vec_push(&r->dependents, &r->arena, d);
    ptrmap_clear(&r->looked);
}

/* One round: false when nothing more depends on what was found. */
static bool find_dependents(Redefinition *r)
{
    const Module *env = r->s->env;
    size_t before = r->dependents.n;
    for (size_t i = 0; i < env->types.n; i++) {
        const TypeDef *def = env->types.at[i];
        if (module_find_type(r->m, def->name) || ptrmap_has(&r->types, def) ||
            type_is_imported(env, def) || !type_depends(r, def))
            continue;
        ptrmap_put(&r->types, def, NULL);
        add_dependent(r, (Dependent){def->name, 0, def->text});
    }
    for (size_t i = 0; i < env->defs.n; i++) {
        const Def *d = &env->defs.at[i];
        if (!d->fn || d->imported || module_find(r->m, d->name) || ptrmap_has(&r->names, d->name) ||
            !function_depends(r, d))
            continue;
        ptrmap_put(&r->names, d->name, NULL);
        add_dependent(r, (Dependent){d->name, '@', d->fn->base.span});
    }
    return r->dependents.n > before;
}

/* The cell and what depends on it as one text, so that types may lead from one to the other and back. What the cell defines as it was
 * is left out. NULL after diagnostics. */
static Module *read_again(Redefinition *r)
{
    Vec(Span) texts = {0};
    const Module *cell = r->cell;
    for (size_t i = 0; i < r->dependents.n; i++)
        vec_push(&texts, &r->arena, r->dependents.at[i].text);
    for (size_t i = 0; i < cell->types.n; i++) {
        const TypeDef *def = cell->types.at[i];
        if (!type_is_imported(cell, def) && !ptrmap_has(&r->same, def))
            vec_push(&texts, &r->arena, def->text);
    }
    for (size_t i = 0; i < cell->defs.n; i++)
        if (cell->defs.at[i].fn && !cell->defs.at[i].imported)
            vec_push(&texts, &r->arena, cell->defs.at[i].fn->base.span);
    ParseEnv env = session_parse_env(r->s);
    env.globals = r->base;
    if (texts.n)
        return parse_definitions(&r->s->cx, texts.n, texts.at, cell, &env);
    Module *m = module_new(&r->s->cx);
    if (m)
        module_adopt_imports(m, cell);
    return m;
}

static void find_new_types(Redefinition *r)
{
    for (size_t i = 0; i < r->types.n; i++)
        if (r->types.entries[i].key) {
            const TypeDef *old = r->types.entries[i].key;
            r->types.entries[i].value = (void *)(uintptr_t)module_find_type(r->m, old->name);
        }
}

static bool check_again(Redefinition *r, bool answers)
{
    bool again = r->dependents.n || r->dropped.n || r->same.n;
    Module *m = again ? read_again(r) : module_retain(r->cell);
    if (!m)
        return false;
    module_release(r->m);
    r->m = m;
    if (again)
        find_new_types(r);
    return move_libraries(r->s, r->m) &&
           session_check(r->s, r->m, r->base, (CheckWish){.answers = answers});
}

static Span name_span(const Redefinition *r, const Dependent *d)
{
    const Def *def = d->sigil == '@' ? module_find(r->s->env, d->name) : NULL;
    const TypeDef *type = d->sigil ? NULL : module_find_type(r->s->env, d->name);
    const Stale *stale = stale_find(r->s, d->sigil, d->name);
    return def ? def->span : type ? type->span : stale ? stale->span : d->text;
}

/* Whatever uses what was dropped finds nothing of that name. */
static void leave_out(Redefinition *r, const Dependent *d)
{
    Module *left = module_derive(r->base);
    const TypeDef *type = d->sigil ? NULL : module_find_type(r->base, d->name);
    if (!left)
        return;
    if (type)
        module_remove_type(left, type);
    else if (d->sigil)
        module_remove(left, d->name);
    module_release(r->base);
    r->base = left;
}

static bool is_missing(const Diag *wrong)
{
    return wrong->code == E0211_UNDEFINED_GLOBAL || wrong->code == E0212_UNDEFINED_TYPE ||
           wrong->code == E0112_UNDEFINED_CONSTRUCTOR;
}

const char *stale_reason(RelaySession *s, Arena *a, const Diag *wrong, bool others)
{
    const Source *source = sources_get(&s->cx.sources, wrong->span.source);
    if (!source || !others || !is_missing(wrong))
        return arena_copy_text(a, wrong->message, strlen(wrong->message));
    Buf b = {0};
    buf_char(&b, '`');
    buf_bytes(&b, source->text + wrong->span.from, wrong->span.to - wrong->span.from);
    buf_str(&b, "` no longer fits");
    return buf_keep(&b, a);
}

/* What failed before in this script never fitted, and enough was said of it: it stays as what says nothing more. */
static bool failed_before(Redefinition *r, const Dependent *d)
{
    const Def *old = d->sigil == '@' && ptrmap_has(&r->s->failed_names, d->name)
                         ? module_find(r->base, d->name)
                         : NULL;
    if (!old || !old->fn)
        return false;
    old->fn->base.type = r->s->cx.poison;
    return true;
}

/* Drops what errors behind the mark are in. False when there is no such text, so that the cell itself is wrong. */
static bool drop_failed(Redefinition *r, DiagsMark before)
{
    size_t left = 0, n = r->dependents.n;
    bool again = r->dropped.n > 0;
    for (size_t i = 0; i < n; i++) {
        Dependent d = r->dependents.at[i];
        const Diag *wrong = diags_within(r->s->cx.diags, before, d.text);
        if (!wrong) {
            r->dependents.at[left++] = d;
            continue;
        }
        if (failed_before(r, &d))
            continue;
        const char *why = stale_reason(r->s, &r->arena, wrong, again);
        vec_push(&r->dropped, &r->arena, ((Dropped){d, name_span(r, &d), wrong->span, why}));
        leave_out(r, &d);
    }
    r->dependents.n = left;
    return left < n;
}

/* Errors of the cell that come from what depends on it say so. */
static void blame(Redefinition *r, DiagsMark before)
{
    for (size_t i = 0; i < r->dependents.n; i++) {
        const Dependent *d = &r->dependents.at[i];
        Diag *found = diags_within(r->s->cx.diags, before, d->text);
        const char sigil[2] = {d->sigil, 0};
        if (found)
            diag_note(found,
                      "%s`%s%s` and what is defined here use each other, so the old definitions "
                      "stay; one cell can define both anew",
                      d->sigil ? "" : "the type ", sigil, d->name->text);
    }
}

/* When nothing of the session is to blame the messages are those of the first attempt. */
static bool check_as_before(Redefinition *r, bool answers, DiagsMark before)
{
    if (r->dropped.n) {
        diags_back(r->s->cx.diags, before);
        for (size_t i = 0; i < r->dropped.n; i++)
            vec_push(&r->dependents, &r->arena, r->dropped.at[i].what);
        r->dropped.n = 0;
        module_release(r->base);
        r->base = module_retain(r->s->env);
        check_again(r, answers);
    }
    blame(r, before);
    return false;
}

/* Until what is left fits together. */
static bool settle(Redefinition *r, bool answers)
{
    DiagsMark before = diags_mark(r->s->cx.diags);
    while (!check_again(r, answers)) {
        if (limit_hit(&r->s->cx.limits))
            return false;
        if (!drop_failed(r, before))
            return check_as_before(r, answers, before);
        diags_back(r->s->cx.diags, before);
    }
    return true;
}

static void find_retyped(Redefinition *r)
{
    for (size_t i = 0; i < r->names.n; i++) {
        const Name *name = r->names.entries[i].key;
        const Def *old = name ? module_find(r->s->env, name) : NULL;
        const Def *now = name ? module_find(r->m, name) : NULL;
        bool typed = old && old->fn && old->fn->base.type && now && now->fn && now->fn->base.type;
        if (typed && !type_equal(old->fn->base.type, now->fn->base.type))
            ptrmap_put(&r->retyped, name, NULL);
    }
}

static void find_gone(Redefinition *r)
{
    for (size_t i = 0; i < r->dropped.n; i++)
        if (r->dropped.at[i].what.sigil == '@')
            ptrmap_put(&r->retyped, r->dropped.at[i].what.name, NULL);
}

bool redefinition_check(Redefinition *r, bool answers)
{
    find_changes(r);
    while ((r->names.n || r->types.n) && find_dependents(r))
        ;
    if (!settle(r, answers))
        return false;
    find_retyped(r);
    find_gone(r);
    r->env = session_with(r->base, r->m);
    return r->env && carry_check(r);
}

bool redefinition_of_stale(Redefinition *r)
{
    for (const Stale *old = r->s->stale; old; old = old->next)
        if (old->sigil != '%')
            add_dependent(r, (Dependent){old->name, old->sigil, old->text});
    if (r->dependents.n && !settle(r, false))
        return false;
    r->env = session_with(r->base, r->m);
    return r->env != NULL;
}

/* ---- what was dropped ---------------------------------------------------------------------------------------------------- */

typedef struct Called {
    const Redefinition *r;
    const Name *name;
} Called;

static WalkNext find_retyped_call(void *data, const Expr *e)
{
    Called *c = data;
    const GlobalVar *g = expr_as_global(e);
    if (g && module_find(c->r->cell, g->name) && ptrmap_has(&c->r->retyped, g->name))
        c->name = g->name;
    return c->name ? WALK_STOP : WALK_ON;
}

/* The definition of the cell that the others no longer fit: what the first of them calls, if its type is another one now; else the first
 * whose type is. */
static Renewed what_changed(const Redefinition *r)
{
    const Module *cell = r->cell;
    Called c = {.r = r};
    for (size_t i = 0; i < r->dropped.n && !c.name; i++) {
        const Dependent *d = &r->dropped.at[i].what;
        const Def *old = d->sigil == '@' ? module_find(r->s->env, d->name) : NULL;
        if (old)
            ir_walk(&old->fn->base, find_retyped_call, NULL, &c);
    }
    const Def *called = c.name ? module_find(r->m, c.name) : NULL;
    if (called)
        return (Renewed){called->name, '@', called->span};
    for (size_t i = 0; i < cell->types.n; i++) {
        const TypeDef *now = module_find_type(r->m, cell->types.at[i]->name);
        const TypeDef *old = now ? module_find_type(r->s->env, now->name) : NULL;
        if (old && old != now)
            return (Renewed){now->name, 0, now->span};
    }
    const Def *first = NULL;
    for (size_t i = 0; i < cell->defs.n; i++) {
        const Def *now = module_find(r->m, cell->defs.at[i].name);
        if (now && ptrmap_has(&r->retyped, now->name))
            return (Renewed){now->name, '@', now->span};
        first = first ? first : now;
    }
    return first ? (Renewed){first->name, '@', first->span} : (Renewed){0};
}

static void mark_stale(Redefinition *r)
{
    Renewed changed = what_changed(r);
    size_t n = 0;
    Stale common = {.since = changed.span, .changed = changed.name, .changed_sigil = changed.sigil};
    for (size_t i = r->carried.n; i-- > 0;) {
        const Carried *c = &r->carried.at[i];
        Stale one = common;
        if (!c->why)
            continue;
        one.name = c->old->name;
        one.sigil = '%';
        one.graph = c->item.graph;
        one.span = c->old->base.span;
        one.text = c->text;
        one.where = c->where;
        one.why = (char *)(uintptr_t)c->why;
        stale_add(r->s, one);
        n++;
    }
    for (size_t i = r->dropped.n; i-- > 0; n++) {
        const Dropped *d = &r->dropped.at[i];
        Stale one = common;
        one.name = d->what.name;
        one.sigil = d->what.sigil;
        one.span = d->span;
        one.text = d->what.text;
        one.where = d->where;
        one.why = (char *)(uintptr_t)d->why;
        stale_add(r->s, one);
    }
    if (n)
        stale_warn(r->s, n, changed);
}

static void forget_defined(Redefinition *r)
{
    for (size_t i = 0; r->s->stale && i < r->m->defs.n; i++)
        if (r->m->defs.at[i].fn)
            stale_forget(r->s, '@', false, r->m->defs.at[i].name);
    for (size_t i = 0; r->s->stale && i < r->m->types.n; i++)
        stale_forget(r->s, 0, false, r->m->types.at[i]->name);
}

bool redefinition_commit(Redefinition *r)
{
    forget_defined(r);
    if (r->cell->defs.n || r->cell->types.n)
        mark_stale(r);
    session_set_env(r->s, module_retain(r->env));
    return carry_commit(r);
}

void redefinition_show(const Redefinition *r)
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
