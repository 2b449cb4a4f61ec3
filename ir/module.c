#include "ir/module.h"

#include "base/memory.h"
#include "ir/ctx.h"

#include <stdlib.h>
#include <string.h>

Module *module_new(Ctx *cx)
{
    Module *m = memory_zeroed(1, sizeof *m);
    if (!m) {
        limit_reach(&cx->limits, LIMIT_MEMORY);
        return NULL;
    }
    m->refs = 1;
    m->cx = cx;
    arena_init(&m->arena, &cx->limits);
    ctx_root_add(cx, &m->root, &m->arena);
    return m;
}

Module *module_retain(Module *m)
{
    m->refs++;
    return m;
}

/* A chain of snapshots may be as long as a session: the dead ones are kept in a list instead of on the C stack. */
void module_release(Module *m)
{
    Module *dead = NULL;
    if (m && --m->refs == 0)
        dead = m;
    while (dead) {
        Module *now = dead;
        dead = now->next_dead;
        for (size_t i = 0; i < now->uses.n; i++) {
            Module *used = now->uses.at[i];
            if (--used->refs == 0) {
                used->next_dead = dead;
                dead = used;
            }
        }
        for (size_t i = 0; i < now->sources.n; i++)
            sources_release(&now->cx->sources, now->sources.at[i]);
        ptrmap_deinit(&now->def_index);
        ptrmap_deinit(&now->type_index);
        ptrmap_deinit(&now->con_index);
        ptrmap_deinit(&now->used);
        ptrmap_deinit(&now->use_sources);
        ctx_root_remove(&now->root);
        arena_deinit(&now->arena);
        free(now);
    }
}

void module_use(Module *m, Module *other)
{
    if (!other || other == m || ptrmap_has(&m->used, other))
        return;
    ptrmap_put(&m->used, other, other);
    vec_push(&m->uses, &m->arena, module_retain(other));
}

void module_own(Module *owner, Module *part)
{
    PtrMap seen = {0};
    Vec(Module *) todo = {0};
    Arena scratch;
    arena_init(&scratch, NULL);
    vec_push(&todo, &scratch, part);
    while (todo.n) {
        Module *m = vec_pop(&todo);
        size_t left = 0;
        for (size_t i = 0; i < m->uses.n; i++) {
            Module *used = m->uses.at[i];
            if (used == owner) {
                ptrmap_remove(&m->used, owner);
                owner->refs--;
                continue;
            }
            m->uses.at[left++] = used;
            if (!ptrmap_has(&seen, used))
                vec_push(&todo, &scratch, used);
            ptrmap_put(&seen, used, NULL);
        }
        m->uses.n = left;
    }
    ptrmap_deinit(&seen);
    arena_deinit(&scratch);
    module_use(owner, part);
}

void module_use_source(Module *m, uint32_t source)
{
    size_t at = 0, n = m->sources.n;
    for (size_t end = n; at < end;) {
        size_t middle = at + (end - at) / 2;
        if (m->sources.at[middle] < source)
            at = middle + 1;
        else
            end = middle;
    }
    if (at < n && m->sources.at[at] == source)
        return;
    sources_retain(&m->cx->sources, source);
    vec_insert(&m->sources, &m->arena, at, source);
}

/* `home` is that of definitions that have none. */
static void copy_definitions(Module *d, const Module *m, Module *home)
{
    for (size_t i = 0; i < m->defs.n; i++) {
        const Def *def = &m->defs.at[i];
        if (!def->fn)
            continue;
        module_define(d, def->name, def->fn, def->span, def->home ? def->home : home);
        Def *now = (Def *)(uintptr_t)module_find(d, def->name);
        now->imported = def->imported;
        now->written = def->written;
    }
    for (size_t i = 0; i < m->types.n; i++)
        module_define_type(d, m->types.at[i]);
    for (size_t i = 0; i < m->imported_types.n; i++)
        vec_push(&d->imported_types, &d->arena, m->imported_types.at[i]);
}

Module *module_snapshot(Module *m)
{
    Module *d = module_new(m->cx);
    if (!d)
        return NULL;
    copy_definitions(d, m, m);
    for (size_t i = 0; i < m->types.n; i++)
        module_use_source(d, m->types.at[i]->span.source);
    return d;
}

bool module_same(const Module *a, const Module *b)
{
    bool same = a->expr == b->expr && a->defs.n == b->defs.n && a->types.n == b->types.n;
    for (size_t i = 0; same && i < a->defs.n; i++)
        same = a->defs.at[i].fn == b->defs.at[i].fn && a->defs.at[i].name == b->defs.at[i].name;
    for (size_t i = 0; same && i < a->types.n; i++)
        same = a->types.at[i] == b->types.at[i];
    return same;
}

Module *module_derive(Module *m)
{
    Module *d = module_new(m->cx);
    if (!d)
        return NULL;
    copy_definitions(d, m, NULL);
    for (size_t i = 0; i < m->imports.n; i++)
        vec_push(&d->imports, &d->arena, m->imports.at[i]);
    for (size_t i = 0; i < m->free_vars.n; i++)
        vec_push(&d->free_vars, &d->arena, m->free_vars.at[i]);
    d->has_header = m->has_header;
    module_use(d, m);
    return d;
}

void module_define(Module *m, const Name *name, Function *fn, Span span, Module *home)
{
    size_t at = (size_t)(uintptr_t)ptrmap_find(&m->def_index, name);
    Def def = {.name = name, .fn = fn, .span = span, .home = home};
    module_use(m, home);
    if (at) {
        m->defs.at[at - 1] = def;
        return;
    }
    vec_push(&m->defs, &m->arena, def);
    ptrmap_put(&m->def_index, name, (void *)(uintptr_t)m->defs.n);
}

static void forget_constructors(Module *m, const TypeDef *old)
{
    for (uint32_t i = 0; i < old->n_cons; i++)
        if (ptrmap_find(&m->con_index, old->cons[i]->name) == old->cons[i])
            ptrmap_remove(&m->con_index, old->cons[i]->name);
}

void module_remove_type(Module *m, const TypeDef *def)
{
    size_t left = 0;
    for (size_t i = 0; i < m->types.n; i++)
        if (m->types.at[i] != def)
            m->types.at[left++] = m->types.at[i];
    m->types.n = left;
    forget_constructors(m, def);
    if (ptrmap_find(&m->type_index, def->name) == def)
        ptrmap_remove(&m->type_index, def->name);
}

void module_define_type(Module *m, const TypeDef *def)
{
    const TypeDef *old = ptrmap_find(&m->type_index, def->name);
    if (old) {
        forget_constructors(m, old);
        for (size_t i = 0; i < m->types.n && old != def; i++)
            if (m->types.at[i] == old)
                m->types.at[i] = def;
    } else {
        vec_push(&m->types, &m->arena, def);
    }
    ptrmap_put(&m->type_index, def->name, (void *)(uintptr_t)def);
    for (uint32_t i = 0; i < def->n_cons; i++)
        ptrmap_put(&m->con_index, def->cons[i]->name, def->cons[i]);
}

void module_import(Module *m, Module *from)
{
    for (size_t i = 0; i < from->types.n; i++) {
        if (ptrmap_has(&m->type_index, from->types.at[i]->name))
            continue;
        module_define_type(m, from->types.at[i]);
        vec_push(&m->imported_types, &m->arena, from->types.at[i]);
    }
    for (size_t i = 0; i < from->defs.n; i++) {
        const Def *def = &from->defs.at[i];
        if (!def->fn || ptrmap_has(&m->def_index, def->name))
            continue;
        module_define(m, def->name, def->fn, def->span, def->home);
        vec_last(&m->defs).imported = true;
    }
    module_use(m, from);
}

void module_adopt_imports(Module *m, const Module *from)
{
    for (size_t i = 0; i < from->imported_types.n; i++) {
        module_define_type(m, from->imported_types.at[i]);
        vec_push(&m->imported_types, &m->arena, from->imported_types.at[i]);
    }
    for (size_t i = 0; i < from->defs.n; i++) {
        const Def *def = &from->defs.at[i];
        if (!def->fn || !def->imported)
            continue;
        module_define(m, def->name, def->fn, def->span, def->home);
        vec_last(&m->defs).imported = true;
    }
    for (size_t i = 0; i < from->imports.n; i++)
        vec_push(&m->imports, &m->arena, from->imports.at[i]);
}

/* The place stays, so that the positions behind it do; a definition without a function is none. */
void module_remove(Module *m, const Name *name)
{
    size_t at = (size_t)(uintptr_t)ptrmap_find(&m->def_index, name);
    if (!at)
        return;
    m->defs.at[at - 1].fn = NULL;
    ptrmap_remove(&m->def_index, name);
}

const Def *module_find(const Module *m, const Name *name)
{
    size_t at = m ? (size_t)(uintptr_t)ptrmap_find(&m->def_index, name) : 0;
    return at ? &m->defs.at[at - 1] : NULL;
}

bool module_defines(const Module *m, const Name *name, const Type *type)
{
    const Def *def = module_find(m, name);
    const Type *now = def && def->fn ? def->fn->base.type : NULL;
    return def && def->fn && (!type || !now || type_equal(type, now));
}

const Def *module_find_text(const Module *m, const char *name)
{
    return module_find(m, ctx_name(m->cx, name));
}

const TypeDef *module_find_type(const Module *m, const Name *name)
{
    return m ? ptrmap_find(&m->type_index, name) : NULL;
}

const Constructor *module_find_con(const Module *m, const Name *name)
{
    return m ? ptrmap_find(&m->con_index, name) : NULL;
}

void module_note_use(Module *m, Expr *const *slot, Span span)
{
    UseSpan use = {slot, span.from, span.to};
    if (m->use_spans.n == 0)
        m->use_source = span.source;
    else if (span.source != m->use_source)
        ptrmap_put(&m->use_sources, slot, (void *)(uintptr_t)span.source);
    vec_push(&m->use_spans, &m->arena, use);
    m->use_spans_sorted = false;
}

static int by_slot(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const UseSpan *)a)->slot, y = (uintptr_t)((const UseSpan *)b)->slot;
    return (x > y) - (x < y);
}

/* Places are asked for when something is wrong, so they are put in order only then. */
Span ir_use_span(const Module *m, Expr *const *slot)
{
    Module *sorted = (Module *)(uintptr_t)m;
    if (!m || m->use_spans.n == 0)
        return (*slot)->span;
    if (!m->use_spans_sorted)
        qsort(sorted->use_spans.at, m->use_spans.n, sizeof *m->use_spans.at, by_slot);
    sorted->use_spans_sorted = true;
    UseSpan key = {.slot = slot};
    const UseSpan *noted = bsearch(&key, m->use_spans.at, m->use_spans.n, sizeof key, by_slot);
    if (!noted)
        return (*slot)->span;
    uint32_t other = (uint32_t)(uintptr_t)ptrmap_find(&m->use_sources, slot);
    return (Span){other ? other : m->use_source, noted->from, noted->to};
}

static int by_name(const void *a, const void *b)
{
    const Def *x = *(const Def *const *)a, *y = *(const Def *const *)b;
    return strcmp(x->name->text, y->name->text);
}

size_t module_sorted_defs(const Module *m, const Def **out, bool imported)
{
    size_t n = 0;
    for (size_t i = 0; i < m->defs.n; i++)
        if (m->defs.at[i].fn && (imported || !m->defs.at[i].imported))
            out[n++] = &m->defs.at[i];
    if (n)
        qsort(out, n, sizeof *out, by_name);
    return n;
}
