/* Says at each call of a primitive function in @main, which is in A normal form, how many bytes are in use.
 *
 *     let %f = fn (%p, Primitive=1) { … }; let %a = %f(%x);  =>  let %f = fn (%p, Primitive=1, used_memory=[64]) { … }; …
 *
 * In use is what is live before the call or behind it. `io_used_memory` of @main is what it takes and gives. Calls in branches are
 * looked at with what is live behind the branches. */
#include "passes/pass.h"
#include "passes/storage.h"
#include "passes/types.h"

#include <string.h>

/* Branches within branches are looked at by functions that call themselves. */
enum { DEPTH_MOST = 200 };

typedef struct Used {
    PassRun *run;
    PtrMap bytes; /* function literal -> Sizes */
    PtrMap bound; /* Var -> the literal that it is bound to */
    int depth;
} Used;

typedef struct Sizes {
    Vec(int64_t) at;
} Sizes;

typedef struct Live {
    PtrMap has;
    Vec(const Var *) all; /* and some that are live no more */
    size_t n; /* live ones */
    int64_t bytes; /* that they hold */
    Arena *arena;
} Live;

static void look_at_chain(Used *u, const Expr *chain, Live *live);

static int64_t bytes_of(const Var *v)
{
    return v->base.type ? storage_bytes(v->base.type) : 0;
}

static void add_live(void *data, Var *v)
{
    Live *live = data;
    if (ptrmap_has(&live->has, v))
        return;
    ptrmap_put(&live->has, v, NULL);
    vec_push(&live->all, live->arena, v);
    live->n++;
    live->bytes += bytes_of(v);
}

/* Those that are gone leave the list when they are most of it. */
static void sweep(Live *live)
{
    size_t n = 0;
    for (size_t i = 0; i < live->all.n; i++)
        if (ptrmap_has(&live->has, live->all.at[i]))
            live->all.at[n++] = live->all.at[i];
    live->all.n = n;
}

static void end_live(Live *live, const Var *v)
{
    if (!ptrmap_has(&live->has, v))
        return;
    ptrmap_remove(&live->has, v);
    live->n--;
    live->bytes -= bytes_of(v);
    if (live->all.n > 2 * live->n + 8)
        sweep(live);
}

static void look_at_branch(Used *u, const Expr *branch, const Live *after)
{
    Live live = {.arena = &u->run->scratch};
    for (size_t i = 0; i < after->all.n; i++)
        if (ptrmap_has(&after->has, after->all.at[i]))
            add_live(&live, (Var *)(uintptr_t)after->all.at[i]);
    look_at_chain(u, branch, &live);
    ptrmap_deinit(&live.has);
}

static void look_at_branches(Used *u, const Expr *value, const Live *live)
{
    const If *i = expr_as_if(value);
    const Match *m = expr_as_match(value);
    if ((!i && !m) || u->depth >= DEPTH_MOST || limit_hit(&u->run->cx->limits))
        return;
    u->depth++;
    if (i) {
        look_at_branch(u, i->then, live);
        look_at_branch(u, i->otherwise, live);
    }
    for (uint32_t k = 0; m && k < m->clauses.n; k++)
        look_at_branch(u, m->clauses.at[k].body, live);
    u->depth--;
}

/* `live` holds what is live behind the call, its result included, and what the call uses. */
static void note_call(Used *u, const Call *call, const Live *live)
{
    const Expr *f = ptrmap_find(&u->bound, call->callee);
    void **slot = f ? ptrmap_slot(&u->bytes, f) : NULL;
    if (!slot)
        return;
    Sizes *sizes = *slot = *slot ? *slot : arena_new(&u->run->scratch, Sizes);
    vec_push(&sizes->at, &u->run->scratch, live->bytes);
}

static void look_at_chain(Used *u, const Expr *chain, Live *live)
{
    Vec(const Let *) lets = {0};
    for (const Let *let; (let = expr_as_let(chain)); chain = let->body) {
        const Function *f = expr_as_function(let->value);
        if (f && function_is_primitive(f))
            ptrmap_put(&u->bound, let->var, let->value);
        vec_push(&lets, &u->run->scratch, let);
    }
    look_at_branches(u, chain, live);
    if (!limit_hit(&u->run->cx->limits))
        ir_free_vars(chain, add_live, live);
    for (size_t i = lets.n; i-- && !limit_hit(&u->run->cx->limits);) {
        const Let *let = lets.at[i];
        look_at_branches(u, let->value, live);
        if (limit_hit(&u->run->cx->limits))
            return;
        ir_free_vars(let->value, add_live, live);
        if (expr_as_call(let->value))
            note_call(u, expr_as_call(let->value), live);
        end_live(live, let->var);
    }
}

static Expr *put_sizes(Rewriter *rw, const Expr *old, Expr *now)
{
    Used *u = rw->data;
    Arena *arena = &rw->module->arena;
    const Sizes *sizes = ptrmap_find(&u->bytes, old);
    expr_keep_type(now, old);
    if (!sizes)
        return now;
    const Function *f = expr_as_function(now);
    AttrValue *at = arena_new_array(arena, AttrValue, sizes->at.n);
    for (size_t i = 0; at && i < sizes->at.n; i++)
        at[i] = (AttrValue){.kind = ATTR_INT, .i = sizes->at.at[sizes->at.n - 1 - i]};
    AttrValue list = {.kind = ATTR_LIST, .list = {at, (uint32_t)sizes->at.n}};
    Function *with =
        expr_function(arena, now->span, f->type_params, f->params.n, f->params.at,
                      attrs_with(arena, f->attrs, "used_memory", list), f->ret_type, f->body);
    with->base.type = old->type;
    return &with->base;
}

static Function *annotate(PassRun *run, const Def *def)
{
    Used u = {.run = run};
    Live live = {.arena = &run->scratch};
    Rewriter rw;
    if (strcmp(def->name->text, "main") != 0)
        return def->fn;
    look_at_chain(&u, def->fn->body, &live);
    rewriter_init(&rw, run->cx, run->module, put_sizes, &u);
    const Function *f = expr_as_function(ir_rewrite(&rw, &def->fn->base));
    rewriter_deinit(&rw);
    ptrmap_deinit(&u.bytes);
    ptrmap_deinit(&u.bound);
    ptrmap_deinit(&live.has);
    if (!f)
        return NULL;
    AttrValue io = {.kind = ATTR_INT, .i = f->body->type ? storage_bytes(f->body->type) : 0};
    for (uint32_t i = 0; i < f->params.n; i++)
        io.i += f->params.at[i]->base.type ? storage_bytes(f->params.at[i]->base.type) : 0;
    Arena *arena = &run->module->arena;
    return expr_function(arena, f->base.span, f->type_params, f->params.n, f->params.at,
                         attrs_with(arena, f->attrs, "io_used_memory", io), f->ret_type, f->body);
}

const Pass pass_annotate_used_memory = {
    .name = "AnnotateUsedMemory",
    .doc = "Says at each call of a primitive function how many bytes are in use.",
    .opt_level = 0,
    .needs_types = true,
    .before = "ToANormalForm,InferType",
    .function = annotate,
};
