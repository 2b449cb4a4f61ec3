/* Removes the functions that no entry reaches through calls or as values.
 *
 *     def @f(%x: int32) -> int32 { %x }  def @main(%x: int32) -> int32 { %x }
 *  => def @main(%x: int32) -> int32 { %x }
 *
 * The value of a bare expression is an entry too. Where no entry is there at all, everything stays. */
#include "passes/pass.h"

typedef struct Reach {
    PassRun *run;
    const Module *old;
    PtrMap names;   /* of the functions that are reached */
    Vec(const Function *) todo;
} Reach;

static void reach(Reach *r, const Name *name)
{
    const Def *def = module_find(r->old, name);
    if (!def || !def->fn || ptrmap_has(&r->names, name))
        return;
    ptrmap_put(&r->names, name, NULL);
    vec_push(&r->todo, &r->run->scratch, def->fn);
}

static WalkNext note_global(void *data, const Expr *e)
{
    const GlobalVar *g = expr_as_global(e);
    if (g)
        reach(data, g->name);
    return WALK_ON;
}

static void reach_entries(Reach *r)
{
    const AttrValue *entries = attrs_find(r->run->params, "entry_functions");
    for (uint32_t i = 0; i < entries->list.n; i++)
        reach(r, ctx_name_str(r->run->cx, entries->list.at[i].s));
    if (r->old->expr)
        ir_walk(r->old->expr, note_global, NULL, r);
}

static bool remove_unused(PassRun *run, Module *old)
{
    Reach r = {.run = run, .old = old};
    reach_entries(&r);
    bool any = r.todo.n > 0 || old->expr;
    while (r.todo.n)
        ir_walk(&vec_pop(&r.todo)->base, note_global, NULL, &r);
    for (size_t i = 0; any && i < old->defs.n; i++) {
        const Def *def = &old->defs.at[i];
        if (def->fn && !def->imported && !ptrmap_has(&r.names, def->name))
            module_remove(run->module, def->name);
    }
    ptrmap_deinit(&r.names);
    return true;
}

static const AttrValue entries_default[] = {{.kind = ATTR_STRING, .s = {"main", 4}}};

static const OpAttr params[] = {
    {"entry_functions", ATTR_TYPE_STRINGS, .otherwise = ATTR_DEFAULT_LIST(entries_default),
     .names = ATTR_NAMES_FUNCTIONS, .doc = "the functions that are called from outside"},
    {0},
};

const Pass pass_remove_unused_functions = {
    .name = "RemoveUnusedFunctions",
    .doc = "Removes the functions that `@main` does not reach.",
    .opt_level = 1,
    .params = params,
    .module = remove_unused,
};
