/* A function with all that it reaches, as a module of its own. */
#include "ir/walk.h"
#include "session/internal.h"

typedef struct Slice {
    const Module *env;
    Module *out;
    Arena arena;
    Vec(const Name *) todo;
    Vec(const Type *) types; /* to be looked at */
    PtrMap seen; /* types */
} Slice;

static void use_parts(Slice *sl, const Type *t)
{
    if (t->kind == TYPE_ADT && !module_find_type(sl->out, t->def->name)) {
        module_define_type(sl->out, t->def);
        for (uint32_t i = 0; i < t->def->n_cons; i++)
            for (uint32_t k = 0; k < t->def->cons[i]->n; k++)
                vec_push(&sl->types, &sl->arena, t->def->cons[i]->fields[k]);
    }
    if (t->kind == TYPE_FUNC)
        vec_push(&sl->types, &sl->arena, t->result);
    for (uint32_t i = 0; i < t->n; i++)
        vec_push(&sl->types, &sl->arena, t->parts[i]);
}

/* Each type once: many nodes have the same, and types share parts. */
static void use_type(Slice *sl, const Type *t)
{
    if (!t)
        return;
    vec_push(&sl->types, &sl->arena, t);
    while (sl->types.n) {
        t = type_find(vec_pop(&sl->types));
        if (t->kind == TYPE_TENSOR || t->kind == TYPE_HOLE || ptrmap_has(&sl->seen, t))
            continue;
        ptrmap_put(&sl->seen, t, NULL);
        use_parts(sl, t);
    }
}

static WalkNext note_global(void *data, const Expr *e)
{
    Slice *sl = data;
    const GlobalVar *g = expr_as_global(e);
    if (g)
        vec_push(&sl->todo, &sl->arena, g->name);
    use_type(sl, e->type);
    return WALK_ON;
}

static void take_reached(Slice *sl, bool libraries)
{
    while (sl->todo.n) {
        const Def *def = module_find(sl->env, vec_pop(&sl->todo));
        if (!def || module_find(sl->out, def->name) || (def->imported && !libraries))
            continue;
        module_define(sl->out, def->name, def->fn, def->span, def->home);
        ir_walk(&def->fn->base, note_global, NULL, sl);
    }
}

Module *module_slice(RelaySession *s, Module *env, const Name *name)
{
    Slice sl = {.env = env, .out = module_new(&s->cx)};
    if (!sl.out)
        return NULL;
    arena_init(&sl.arena, NULL);
    vec_push(&sl.todo, &sl.arena, name);
    take_reached(&sl, true);
    module_use(sl.out, env);
    ptrmap_deinit(&sl.seen);
    arena_deinit(&sl.arena);
    return sl.out;
}

Module *module_with_reached(Module *env, Module *m)
{
    Slice sl = {.env = env, .out = module_derive(m)};
    if (!sl.out)
        return NULL;
    arena_init(&sl.arena, NULL);
    sl.out->expr = m->expr;
    ir_walk(m->expr, note_global, NULL, &sl);
    take_reached(&sl, false);
    module_use(sl.out, env);
    ptrmap_deinit(&sl.seen);
    arena_deinit(&sl.arena);
    return sl.out;
}
