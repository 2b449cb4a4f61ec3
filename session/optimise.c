/* What is compiled: definitions after the pipeline of the session's level.
 *
 * Each definition is optimised once, with what it calls in view, and kept for as long as neither it nor anything that it reaches is
 * defined anew. So a cell pays for its own expression alone. */
#include "session/optimise.h"

#include "base/memory.h"

#include "ir/shapes.h"
#include "ir/walk.h"
#include "passes/declared_shapes.h"
#include "passes/specialize_shapes.h"

#include <stdlib.h>

/* A definition as it was written and as it is compiled. */
typedef struct Optimised {
    const Name *name;
    const Function *source;
    Function *fn;
    Module *home; /* counted: whose arena `fn` lies in, or which keeps that alive */
    Module *written; /* counted: the same of `source`, so that no other function gets its address */
    size_t n;
    const Function **callees; /* `source` of what it calls, in order of first use */
} Optimised;

/* A definition of the slice at hand. */
typedef struct Node {
    const Def *def;
    Vec(uint32_t) callees, callers;
    bool stale;
} Node;

typedef struct Optimiser {
    RelaySession *s;
    Module *env;
    Arena arena;
    PtrMap index; /* Name -> position in nodes + 1 */
    Vec(Node) nodes;
    uint32_t at; /* whose callees are noted */
} Optimiser;

/* What was made for the processor, or for a card. */
static PtrMap *kept_for(RelaySession *s)
{
    return &s->optimised[s->on_gpu];
}

/* ---- what a definition reaches ------------------------------------------------------------------------------------------------- */

static WalkNext note_callee(void *data, const Expr *e)
{
    Optimiser *o = data;
    const GlobalVar *g = expr_as_global(e);
    const Def *def = g ? module_find(o->env, g->name) : NULL;
    if (limit_hit(&o->s->cx.limits))
        return WALK_STOP;
    if (!def || !def->fn)
        return WALK_ON;
    uint32_t i = (uint32_t)(uintptr_t)ptrmap_find(&o->index, g->name);
    if (!i) {
        vec_push(&o->nodes, &o->arena, ((Node){.def = def}));
        i = (uint32_t)o->nodes.n;
        ptrmap_put(&o->index, g->name, (void *)(uintptr_t)i);
    }
    vec_push(&o->nodes.at[o->at].callees, &o->arena, i - 1);
    return WALK_ON;
}

static void find_reached(Optimiser *o, const Def *entry)
{
    vec_push(&o->nodes, &o->arena, ((Node){.def = entry}));
    ptrmap_put(&o->index, entry->name, (void *)(uintptr_t)1);
    for (; o->at < o->nodes.n; o->at++)
        ir_walk(&o->nodes.at[o->at].def->fn->base, note_callee, NULL, o);
    for (uint32_t i = 0; i < o->nodes.n; i++)
        for (size_t k = 0; k < o->nodes.at[i].callees.n; k++)
            vec_push(&o->nodes.at[o->nodes.at[i].callees.at[k]].callers, &o->arena, i);
}

/* ---- what of it is to be made ---------------------------------------------------------------------------------------------------- */

static bool is_current(const Optimiser *o, const Node *node)
{
    const Optimised *kept = ptrmap_find(kept_for(o->s), node->def->fn);
    bool ok = kept && kept->n == node->callees.n;
    for (size_t i = 0; ok && i < kept->n; i++)
        ok = kept->callees[i] == o->nodes.at[node->callees.at[i]].def->fn;
    return ok;
}

/* A definition that was redefined makes all that reach it stale. */
static bool find_stale(Optimiser *o)
{
    Vec(uint32_t) todo = {0};
    for (uint32_t i = 0; i < o->nodes.n; i++) {
        o->nodes.at[i].stale = !is_current(o, &o->nodes.at[i]);
        if (o->nodes.at[i].stale)
            vec_push(&todo, &o->arena, i);
    }
    bool any = todo.n > 0;
    while (todo.n) {
        Node *node = &o->nodes.at[vec_pop(&todo)];
        for (size_t k = 0; k < node->callers.n; k++) {
            Node *caller = &o->nodes.at[node->callers.at[k]];
            if (!caller->stale)
                vec_push(&todo, &o->arena, node->callers.at[k]);
            caller->stale = true;
        }
    }
    return any;
}

/* ---- making it ---------------------------------------------------------------------------------------------------------------- */

static void optimised_free(Optimised *kept)
{
    module_release(kept->home);
    module_release(kept->written);
    free(kept->callees);
    free(kept);
}

/* Lets go of what the session has defined anew. */
static void drop_old(RelaySession *s)
{
    PtrMap *all = kept_for(s);
    for (size_t i = 0; i < all->n; i++) {
        PtrEntry *e = &all->entries[i];
        Optimised *kept = e->key ? e->value : NULL;
        const Def *def = kept ? module_find(s->env, kept->name) : NULL;
        if (!def || def->fn == kept->source)
            continue;
        ptrmap_remove(all, e->key);
        optimised_free(kept);
    }
}

static void keep(Optimiser *o, const Node *node, Module *now)
{
    RelaySession *s = o->s;
    const Def *made = module_find(now, node->def->name);
    Optimised *kept = memory_zeroed(1, sizeof *kept),
              *old = ptrmap_find(kept_for(s), node->def->fn);
    const Function **callees = memory_zeroed(node->callees.n + 1, sizeof *callees);
    if (!kept || !callees) {
        free(kept);
        free(callees);
        limit_reach(&s->cx.limits, LIMIT_MEMORY);
        return;
    }
    for (size_t i = 0; i < node->callees.n; i++)
        callees[i] = o->nodes.at[node->callees.at[i]].def->fn;
    *kept = (Optimised){.name = node->def->name,
                        .source = node->def->fn,
                        .fn = made && made->fn ? made->fn : node->def->fn,
                        .home = module_retain(now),
                        .written = module_retain(node->def->home),
                        .n = node->callees.n,
                        .callees = callees};
    if (old)
        optimised_free(old);
    ptrmap_put(kept_for(s), node->def->fn, kept);
}

/* The definitions of the slice that are wanted, as a module; NULL after a limit. */
static Module *written_of(const Optimiser *o, bool stale_alone)
{
    Module *m = module_new(&o->s->cx);
    for (size_t i = 0; m && i < o->nodes.n; i++) {
        const Def *def = o->nodes.at[i].def;
        if (!stale_alone || o->nodes.at[i].stale)
            module_define(m, def->name, def->fn, def->span, def->home);
    }
    return m;
}

static PassContext context_of(RelaySession *s, const Module *env)
{
    return (PassContext){.cx = &s->cx,
                         .opt_level = s->opt_level,
                         .exact = s->exact,
                         .for_card = s->on_gpu,
                         .env = env};
}

static bool make_stale(Optimiser *o)
{
    RelaySession *s = o->s;
    drop_old(s);
    Module *todo = written_of(o, true);
    if (!todo)
        return false;
    PassContext pc = context_of(s, o->env);
    Module *now = passes_run_for_code(&pc, todo);
    for (size_t i = 0; now && i < o->nodes.n; i++)
        if (o->nodes.at[i].stale)
            keep(o, &o->nodes.at[i], now);
    module_release(todo);
    module_release(now);
    return now && session_status(s) == RELAY_OK;
}

static Module *gather(Optimiser *o)
{
    Module *out = module_new(&o->s->cx);
    if (!out)
        return NULL;
    for (size_t i = 0; i < o->nodes.n; i++) {
        const Def *def = o->nodes.at[i].def;
        const Optimised *kept = ptrmap_find(kept_for(o->s), def->fn);
        if (kept)
            module_define(out, def->name, kept->fn, def->span, kept->home);
    }
    return out;
}

Module *optimise(RelaySession *s, Module *env, const Name *name)
{
    const Def *def = module_find(env, name);
    if (s->opt_level == 0 || !def || !def->fn)
        return module_retain(env);
    Optimiser o = {.s = s, .env = env};
    arena_init(&o.arena, &s->cx.limits);
    find_reached(&o, def);
    bool ok = !limit_hit(&s->cx.limits) && (!find_stale(&o) || make_stale(&o));
    Module *out = ok ? gather(&o) : NULL;
    ptrmap_deinit(&o.index);
    arena_deinit(&o.arena);
    return out;
}

void optimise_watched(RelaySession *s, Module *env, const Name *name, const PassContext *listener)
{
    const Def *def = module_find(env, name);
    if (!s->opt_level || !def || !def->fn)
        return;
    Optimiser o = {.s = s, .env = env};
    arena_init(&o.arena, &s->cx.limits);
    find_reached(&o, def);
    Module *todo = written_of(&o, false);
    PassContext pc = context_of(s, env);
    pc.after = listener->after;
    pc.decided = listener->decided;
    pc.data = listener->data;
    if (todo)
        module_release(passes_run_for_code(&pc, todo));
    module_release(todo);
    ptrmap_deinit(&o.index);
    arena_deinit(&o.arena);
}

bool optimise_find_types(RelaySession *s, const Function *f, const Value *args, const Type **types)
{
    bool any = false;
    for (uint32_t i = 0; i < f->params.n; i++) {
        const Type *t = type_resolve(&s->cx, f->params.at[i]->base.type);
        const Type *now = shapes_of_value(&s->cx, t, args[i]);
        types[i] = now != t ? now : NULL;
        any |= now != t;
    }
    return any;
}

/* Whether a definition that it calls leaves extents open. */
static bool calls_open(const Optimiser *o)
{
    for (size_t i = 1; i < o->nodes.n; i++)
        if (specialize_leaves_open(o->nodes.at[i].def->fn))
            return true;
    return false;
}

Module *optimise_for_shapes(RelaySession *s, Module *env, const Name *name, const Value *args)
{
    const Def *def = module_find(env, name);
    if (s->opt_level == 0 || !def || !def->fn || def->fn->type_params.n)
        return module_retain(env);
    Optimiser o = {.s = s, .env = env};
    arena_init(&o.arena, &s->cx.limits);
    find_reached(&o, def);
    const Type **types = arena_alloc_must(&o.arena, def->fn->params.n + 1, sizeof *types);
    bool open = optimise_find_types(s, def->fn, args, types) || calls_open(&o);
    Module *slice = open ? written_of(&o, false) : NULL;
    PassContext pc = context_of(s, env);
    Module *checked = slice ? declared_shapes_of_module(&s->cx, slice, env) : NULL;
    Module *made = checked ? specialize_shapes(&pc, checked, name, types) : NULL;
    Module *out = made ? module_derive(env) : NULL;
    if (out) {
        module_define(out, name, module_find(made, name)->fn, def->span, out);
        module_use(out, made);
    }
    module_release(slice);
    module_release(checked);
    module_release(made);
    ptrmap_deinit(&o.index);
    arena_deinit(&o.arena);
    return out ? out : module_retain(env);
}

bool optimised_already(RelaySession *s, Module *env, const Name *name)
{
    const Def *def = module_find(env, name);
    if (s->opt_level == 0 || !def || !def->fn || !ptrmap_has(kept_for(s), def->fn))
        return false;
    Optimiser o = {.s = s, .env = env};
    arena_init(&o.arena, &s->cx.limits);
    find_reached(&o, def);
    bool already = !find_stale(&o);
    ptrmap_deinit(&o.index);
    arena_deinit(&o.arena);
    return already;
}

const Function *optimised_as(RelaySession *s, Module *env, const Name *name)
{
    const Optimised *kept = optimised_already(s, env, name)
                                ? ptrmap_find(kept_for(s), module_find(env, name)->fn)
                                : NULL;
    return kept ? kept->fn : NULL;
}

void optimise_forget(RelaySession *s, const Module *home)
{
    for (int gpu = 0; gpu < 2; gpu++) {
        PtrMap *all = &s->optimised[gpu];
        for (size_t i = 0; i < all->n; i++) {
            PtrEntry *e = &all->entries[i];
            Optimised *kept = e->key ? e->value : NULL;
            if (!kept || (home && kept->written != home))
                continue;
            ptrmap_remove(all, e->key);
            optimised_free(kept);
        }
    }
}
