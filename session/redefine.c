/* Definitions of a cell. What depends on one that is replaced is read again, together with the cell, and checked: either all of it
 * moves to the new definition, or the old one stays. */
#include "ir/walk.h"
#include "session/internal.h"
#include "typecheck/typecheck.h"

void redefinition_init(Redefinition *r, RelaySession *s, Module *m)
{
    *r = (Redefinition){.s = s, .m = module_retain(m)};
    arena_init(&r->arena, &s->cx.limits);
}

void redefinition_deinit(Redefinition *r)
{
    carry_deinit(r);
    PtrMap *maps[] = {&r->names, &r->retyped, &r->types, &r->same, &r->looked};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        ptrmap_deinit(maps[i]);
    module_release(r->m);
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

typedef struct Renaming {
    const Name *from, *to;
} Renaming;

static Expr *rename_global(Rewriter *rw, const Expr *old, Expr *now)
{
    const Renaming *r = rw->data;
    const GlobalVar *g = expr_as_global(old);
    return g && g->name == r->from ? expr_global(&rw->module->arena, now->span, r->to) : now;
}

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
    Renaming r = {def->name, ctx_name(&s->cx, buf_text(&hidden))};
    buf_deinit(&hidden);
    bool ok = true;
    for (size_t i = 0; i < s->env->defs.n && ok; i++) {
        const Def *d = &s->env->defs.at[i];
        const Def *mine = module_find(m, d->name);
        if (!d->fn || !d->imported || (mine && !mine->imported && d->name != r.from))
            continue;
        Rewriter rw;
        rewriter_init(&rw, &s->cx, m, rename_global, &r);
        Expr *now = ir_rewrite(&rw, mine && mine->imported ? &mine->fn->base : &d->fn->base);
        rewriter_deinit(&rw);
        ok = now != NULL;
        if (ok && (now != &d->fn->base || d->name == r.from))
            define_library(m, d->name == r.from ? r.to : d->name, expr_as_function(now), d);
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

static bool function_depends(Redefinition *r, const Function *fn)
{
    Mentions m = {.r = r};
    ir_walk(&fn->base, mentions_changed, NULL, &m);
    return m.found;
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
            !function_depends(r, d->fn))
            continue;
        ptrmap_put(&r->names, d->name, NULL);
        add_dependent(r, (Dependent){d->name, '@', d->fn->base.span});
    }
    return r->dependents.n > before;
}

/* The cell and what depends on it as one text, so that types may lead from one to the other and back. What the cell defines as it was
 * is left out. */
static bool read_again(Redefinition *r)
{
    Vec(Span) texts = {0};
    for (size_t i = 0; i < r->dependents.n; i++)
        vec_push(&texts, &r->arena, r->dependents.at[i].text);
    for (size_t i = 0; i < r->m->types.n; i++) {
        const TypeDef *def = r->m->types.at[i];
        if (!type_is_imported(r->m, def) && !ptrmap_has(&r->same, def))
            vec_push(&texts, &r->arena, def->text);
    }
    for (size_t i = 0; i < r->m->defs.n; i++)
        if (r->m->defs.at[i].fn && !r->m->defs.at[i].imported)
            vec_push(&texts, &r->arena, r->m->defs.at[i].fn->base.span);
    Module *m;
    ParseEnv env = session_parse_env(r->s);
    if (texts.n) {
        m = parse_definitions(&r->s->cx, texts.n, texts.at, r->m, &env);
    } else {
        m = module_new(&r->s->cx);
        if (m)
            module_adopt_imports(m, r->m);
    }
    if (!m)
        return false;
    module_release(r->m);
    r->m = m;
    for (size_t i = 0; i < r->types.n; i++)
        if (r->types.entries[i].key) {
            const TypeDef *old = r->types.entries[i].key;
            r->types.entries[i].value = (void *)(uintptr_t)module_find_type(m, old->name);
        }
    return true;
}

/* Errors in the text of what depends on the cell say so. */
static void blame(Redefinition *r, const Diag *before)
{
    Diags *ds = r->s->cx.diags;
    for (size_t i = 0; i < r->dependents.n; i++) {
        const Dependent *d = &r->dependents.at[i];
        Diag *found = before ? before->next : ds->first;
        while (found &&
               (found->severity != SEVERITY_ERROR || found->span.source != d->text.source ||
                found->span.from < d->text.from || found->span.to > d->text.to))
            found = found->next;
        const char sigil[2] = {d->sigil, 0};
        if (found)
            diag_note(found,
                      "%s`%s%s` uses what is redefined here, so the old definitions stay; one cell "
                      "can define both anew",
                      d->sigil ? "" : "the type ", sigil, d->name->text);
    }
}

static bool check_again(Redefinition *r, bool answers)
{
    const Diag *before = r->s->cx.diags->last;
    bool ok = (r->dependents.n == 0 && r->same.n == 0) || read_again(r);
    ok = ok && move_libraries(r->s, r->m) &&
         typecheck_module_as(&r->s->cx, r->m, r->s->env, (CheckWish){.answers = answers});
    if (!ok)
        blame(r, before);
    return ok;
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

bool redefinition_check(Redefinition *r, bool answers)
{
    find_changes(r);
    while ((r->names.n || r->types.n) && find_dependents(r))
        ;
    if (!check_again(r, answers))
        return false;
    find_retyped(r);
    r->env = session_with(r->s, r->m);
    return r->env && carry_check(r);
}

bool redefinition_commit(Redefinition *r)
{
    module_release(r->s->env);
    r->s->env = module_retain(r->env);
    return carry_commit(r);
}
