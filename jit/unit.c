/* Units: made, linked, kept until nothing needs them, called.
 *
 * The cache counts a unit, and each closure that may leave it does; code is removed when no count is left and nothing runs. A unit
 * whose closures live on while what it was made from is redefined is made again for them (`renew`), so that they find what is defined
 * now, as the evaluator's do. */
#include "base/memory.h"
#include "jit/gpu/ptx.h"
#include "jit/gpu/run.h"
#include "jit/internal.h"
#include "jit/origin.h"
#include "jit/watch.h"

#include <stdlib.h>
#include <string.h>

/* ---- one module -------------------------------------------------------------------------------------------------- */

void gen_open(Gen *g, const char *name)
{
    Jit *jit = g->jit;
    Buf why = {0};
    g->number = ++jit->modules;
    g->failed = !orc_open(jit, &why);
    if (why.n > 0)
        buf_str(g->why, buf_text(&why));
    buf_deinit(&why);
    if (g->failed)
        return;
    g->c = LLVMContextCreate();
    g->m = LLVMModuleCreateWithNameInContext(name, g->c);
    LLVMSetTarget(g->m, jit->orc.triple);
    LLVMSetDataLayout(g->m, jit->orc.layout);
    g->b = LLVMCreateBuilderInContext(g->c);
    g->i1 = LLVMInt1TypeInContext(g->c);
    g->i8 = LLVMInt8TypeInContext(g->c);
    g->i16 = LLVMInt16TypeInContext(g->c);
    g->i32 = LLVMInt32TypeInContext(g->c);
    g->i64 = LLVMInt64TypeInContext(g->c);
    g->f32 = LLVMFloatTypeInContext(g->c);
    g->f64 = LLVMDoubleTypeInContext(g->c);
    g->ptr = LLVMPointerTypeInContext(g->c, 0);
    g->nothing = LLVMVoidTypeInContext(g->c);
    align_open(g);
}

void gen_turn(Gen *g)
{
    conventions_choose(g);
    fronts_choose(g);
    PtrMap *const in_module[] = {&g->abi, &g->outside, &g->bridges, &g->invokes};
    for (size_t i = 0; i < DROP_LEVELS; i++)
        ptrmap_clear(&g->drops[i]);
    for (size_t i = 0; i < sizeof in_module / sizeof *in_module; i++)
        ptrmap_clear(in_module[i]);
    for (size_t i = 0; i < g->kernels.n; i++)
        g->kernels.entries[i].value = NULL;
    LLVMDisposeBuilder(g->b);
    vec_push(&g->full, g->arena, ((OrcModule){g, g->m, g->plain}));
    g->c = NULL;
    g->instructions = 0;
    g->plain = false;
    gen_open(g, g->unit->name->text);
}

static void dispose(const Gen *g, LLVMModuleRef m)
{
    if (g->left)
        return;
    LLVMContextRef c = LLVMGetModuleContext(m);
    LLVMDisposeModule(m);
    LLVMContextDispose(c);
}

void gen_close(Gen *g)
{
    for (size_t i = 0; i < g->full.n; i++)
        dispose(g, g->full.at[i].m);
    if (g->c) {
        LLVMDisposeBuilder(g->b);
        dispose(g, g->m);
    }
    ptrmap_deinit(&g->abi);
    for (size_t i = 0; i < DROP_LEVELS; i++)
        ptrmap_deinit(&g->drops[i]);
    ptrmap_deinit(&g->outside);
    ptrmap_deinit(&g->bridges);
    ptrmap_deinit(&g->looked_at);
    ptrmap_deinit(&g->holders);
    ptrmap_deinit(&g->invokes);
    ptrmap_deinit(&g->kernels);
}

static bool making_finish(Unit *u);

static void gen_init(Gen *g, Unit *u, Buf *why)
{
    if (u->jit->beside)
        making_finish(u->jit->beside);
    *g = (Gen){.jit = u->jit,
               .cx = u->jit->cx,
               .unit = u,
               .env = u->env,
               .code = u->code,
               .arena = &u->arena,
               .out = arena_new(&u->arena, Code),
               .control = true,
               .why = why};
    gen_open(g, u->name->text);
    g->begun = g->number;
    if (u->gpu && !g->failed) {
        g->ptx = ptx_open(g, u->gpu);
        g->device_code = device_code_make(g->jit, g->arena);
        g->failed |= !g->ptx;
    }
}

/* What was not made is made when it is wanted again. */
static void gen_deinit(Gen *g, bool ok)
{
    for (size_t i = 0; i < g->todo.n && !ok; i++)
        g->todo.at[i]->symbol = NULL;
    g->unit->counts.kernels += (uint32_t)g->kernels.n;
    orc_drop(&g->work);
    /* An interrupt may come between the objects and their linking. */
    if (!g->out->image)
        code_drop_objects(g->out);
    if (g->ptx) {
        g->unit->counts.kernels += ptx_kernels(g->ptx);
        g->unit->counts.made += ptx_kernels(g->ptx);
        ptx_close(g->ptx);
    }
    kernels_drop(g);
    gen_close(g);
}

static void give_full(Gen *g)
{
    kernels_give(g);
    for (size_t i = 0; i < g->full.n; i++)
        orc_give(&g->work, g->full.at[i]);
}

bool gen_empty(Gen *g)
{
    give_full(g);
    bool ok = orc_finish(&g->work);
    while (g->full.n > 0)
        dispose(g, vec_pop(&g->full).m);
    return ok || !(g->failed = true);
}

/* Those of the kernels are under way. */
static void give_modules(Gen *g)
{
    give_full(g);
    orc_give(&g->work, (OrcModule){g, g->m, g->plain});
}

static bool link_objects(Gen *g)
{
    Unit *u = g->unit;
    if (limit_hit(&g->cx->limits) || !kernels_link(g))
        return false;
    vec_push(&u->codes, &u->arena, g->out);
    g->out->epoch = u->epoch;
    if (!code_finish(u, g->out) || !closure_addresses(u, g->out))
        return false;
    if (!g->entry)
        return true;
    u->entry_name = g->entry;
    u->entry = (UnitEntry *)(uintptr_t)image_find(g->out->image, g->entry);
    return u->entry != NULL;
}

static bool link_module(Gen *g)
{
    if (limit_hit(&g->cx->limits))
        return false;
    give_modules(g);
    return orc_finish(&g->work) && link_objects(g);
}

/* ---- beside what the session does ---------------------------------------------------------------------------------------- */

/* A unit whose objects are being made. One at a time: what others are made of may be its kernels. */
typedef struct Making {
    Gen g;
    Buf why;
} Making;

static void making_end(Unit *u, bool ok)
{
    Making *m = u->making;
    u->making = NULL;
    if (u->jit->beside == u)
        u->jit->beside = NULL;
    gen_deinit(&m->g, ok);
    buf_deinit(&m->why);
    free(m);
}

static bool making_begin(Unit *u, const Function *fn)
{
    Making *m = memory_zeroed(1, sizeof *m);
    if (!m)
        return false;
    gen_init(&m->g, u, &m->why);
    m->g.beside = true;
    u->making = m;
    u->jit->beside = u;
    bool ok = !m->g.failed && gen_unit(&m->g, fn);
    if (ok)
        give_modules(&m->g);
    if (ok && orc_leave(m->g.work))
        return true;
    ok = ok && orc_finish(&m->g.work) && link_objects(&m->g);
    if (!ok)
        u->why = arena_copy_text(&u->arena, buf_text(&m->why), m->why.n);
    making_end(u, ok);
    return ok;
}

/* Its code is there, or `why` says why it cannot be made; false when a limit was hit: it goes on, or is gone. */
static bool making_finish(Unit *u)
{
    Making *m = u->making;
    if (!m)
        return true;
    if (!orc_wait(m->g.work))
        return false;
    bool ok = orc_finish(&m->g.work) && link_objects(&m->g);
    bool limited = !ok && limit_hit(&u->jit->cx->limits);
    if (!ok)
        u->why = arena_copy_text(&u->arena, buf_text(&m->why), m->why.n);
    making_end(u, ok);
    if (ok)
        keep_store(u);
    return !limited;
}

/* Nobody wants it any more. */
static void making_drop(Unit *u)
{
    if (!u->making)
        return;
    making_end(u, false);
}

/* ---- units ---------------------------------------------------------------------------------------------------------- */

static Unit *unit_new(Jit *jit, Module *env, const Name *name)
{
    Unit *u = memory_zeroed(1, sizeof *u);
    Module *code = u ? module_new(jit->cx) : NULL;
    if (!code) {
        free(u);
        limit_reach(&jit->cx->limits, LIMIT_MEMORY);
        return NULL;
    }
    arena_init(&u->arena, &jit->cx->limits);
    ctx_root_add(jit->cx, &u->root, &u->arena);
    u->jit = jit;
    u->name = name;
    u->exact = jit->exact;
    u->tf32 = jit->tf32;
    u->clocked = jit->clocked;
    u->level = jit->level;
    u->gpu = jit->gpu;
    u->env = module_retain(env);
    u->code = code;
    u->refs = 1;
    u->next = jit->all;
    jit->all = u;
    return u;
}

static void unit_free(Unit *u)
{
    making_drop(u);
    keep_last(u);
    for (size_t i = 0; i < u->codes.n; i++)
        code_free(u->codes.at[i]);
    for (size_t i = 0; i < u->batches.n; i++)
        batch_release(u->jit, u->batches.at[i]);
    ptrmap_deinit(&u->anf);
    ptrmap_deinit(&u->signatures);
    ptrmap_deinit(&u->values);
    ptrmap_deinit(&u->closed);
    ptrmap_deinit(&u->by_function);
    ptrmap_deinit(&u->handling);
    ptrmap_deinit(&u->makes);
    ctx_root_remove(&u->root);
    arena_deinit(&u->arena);
    cache_release(u->file);
    module_release(u->code);
    module_release(u->env);
    free(u);
}

/* Those that nothing counts, unless their code may be running. */
static void units_sweep(Jit *jit)
{
    for (Unit **at = &jit->all; *at && jit->running == 0;) {
        Unit *u = *at;
        if (u->refs > 0) {
            at = &u->next;
            continue;
        }
        *at = u->next;
        unit_free(u);
    }
}

void unit_release(Unit *u)
{
    Jit *jit = u->jit;
    jit->unused |= --u->refs == 0;
    if (jit->unused && jit->running == 0) {
        jit->unused = false;
        units_sweep(jit);
    }
}

void units_free(Jit *jit)
{
    while (jit->all) {
        Unit *u = jit->all;
        jit->all = u->next;
        unit_free(u);
    }
    ptrmap_deinit(&jit->units);
    keep_forget(jit, NULL);
    batches_free(jit);
}

/* The units of a definition without those that are to go. */
static void keep_units(Jit *jit, const Function *fn, bool (*keep)(const Unit *u, const void *data),
                       const void *data)
{
    Unit *kept = NULL, *next;
    for (Unit *u = ptrmap_find(&jit->units, fn); u; u = next) {
        next = u->sibling;
        if (keep(u, data)) {
            u->sibling = kept;
            kept = u;
        } else {
            unit_release(u);
        }
    }
    if (kept)
        ptrmap_put(&jit->units, fn, kept);
    else
        ptrmap_remove(&jit->units, fn);
}

static bool lies_elsewhere(const Unit *u, const void *module)
{
    return u->env != module;
}

void units_forget(Jit *jit, const Module *m)
{
    for (size_t i = 0; i < jit->units.n; i++)
        if (jit->units.entries[i].key)
            keep_units(jit, jit->units.entries[i].key, lies_elsewhere, m);
    keep_forget(jit, m);
}

/* Nothing that the unit was made from has been redefined. */
static bool is_current(const Unit *u, const Module *env)
{
    for (size_t i = 0; i < u->needs.n; i++) {
        const Def *def = module_find(env, u->needs.at[i].name);
        if (!def || def->fn != u->needs.at[i].fn)
            return false;
    }
    return true;
}

static bool make(Unit *u, const Function *fn, Buf *why)
{
    Gen g;
    gen_init(&g, u, why);
    bool ok = !g.failed && gen_unit(&g, fn) && link_module(&g);
    gen_deinit(&g, ok);
    return ok;
}

static bool is_current_in(const Unit *u, const void *env)
{
    return is_current(u, env);
}

static bool is_other(const Unit *u, const void *unit)
{
    return u != unit;
}

static bool has_shapes(const Unit *u, uint32_t n, const Type *const *shapes)
{
    if (u->exact != u->jit->exact || u->level != u->jit->level || u->gpu != u->jit->gpu ||
        u->clocked != u->jit->clocked || (u->gpu && u->tf32 != u->jit->tf32))
        return false;
    if (!u->shapes || !shapes)
        return u->shapes == shapes;
    return memcmp(u->shapes, shapes, n * sizeof *shapes) == 0;
}

static void add_sibling(Unit *u, const Def *def)
{
    u->sibling = ptrmap_find(&u->jit->units, def->fn);
    ptrmap_put(&u->jit->units, def->fn, u);
}

static Unit *unit_make(Jit *jit, Module *env, const Def *def, const Type *const *shapes,
                       JitKey *key)
{
    uint32_t n = def->fn->params.n;
    Unit *u = unit_new(jit, env, def->name);
    if (!u)
        return NULL;
    const Type **own = arena_new_array(&u->arena, const Type *, n + 1);
    if (shapes)
        memcpy(own, shapes, n * sizeof *own);
    u->shapes = shapes ? own : NULL;
    keep_as(u, key, shapes, n);
    Buf reason = {0};
    if (!make(u, def->fn, &reason))
        u->why = arena_copy_text(&u->arena, buf_text(&reason), reason.n);
    buf_deinit(&reason);
    if (limit_hit(&jit->cx->limits)) { /* another time it may be made */
        unit_release(u);
        return NULL;
    }
    if (!u->why)
        keep_store(u);
    add_sibling(u, def);
    return u;
}

static void take_params(Unit *u, const Function *fn, const Type *const *shapes)
{
    u->n = fn->params.n;
    const Type **params = arena_new_array(&u->arena, const Type *, u->n + 1);
    for (uint32_t i = 0; i < u->n; i++)
        params[i] = shapes ? shapes[i] : type_resolve(u->jit->cx, fn->params.at[i]->base.type);
    u->params = params;
    u->shapes = shapes ? params : NULL;
}

/* Filled with the code that was made of such contents, for these shapes; NULL when there is none. What it calls is looked up in `env`,
 * as when it is made; that may be the program as it is written, or as it is compiled. */
static Unit *load(Jit *jit, Module *env, const Def *def, JitKey *key, const Type *const *shapes,
                  bool compiled)
{
    const Function *fn = def->fn;
    Unit *u = unit_new(jit, env, def->name);
    if (u)
        keep_as(u, key, shapes, fn->params.n);
    if (!u || !keep_load(u, compiled)) {
        if (u)
            unit_release(u);
        return NULL;
    }
    take_params(u, fn, shapes);
    for (size_t i = 0; i < key->content.defs.n; i++) {
        const Def *needed = module_find(env, key->content.defs.at[i]->name);
        if (needed && needed->fn)
            vec_push(&u->needs, &u->arena, ((Dependency){needed->name, needed->fn}));
    }
    add_sibling(u, def);
    return u;
}

Unit *unit_kept(Jit *jit, Module *env, const Def *def, JitKey *key)
{
    const Function *fn = def->fn;
    keep_units(jit, fn, is_current_in, env);
    for (Unit *u = ptrmap_find(&jit->units, fn); u; u = u->sibling)
        if (u->file && has_shapes(u, fn->params.n, NULL))
            return u;
    return load(jit, env, def, key, NULL, false);
}

/* What waits for its shapes, and what was not looked for in all that was kept because only the program as it is compiled says whether it
 * is that, is looked for now. */
static Unit *load_or_make(Jit *jit, Module *env, const Def *def, const Type *const *shapes)
{
    JitKey *waiting = keep_waiting(jit, def->fn), *key = waiting ? waiting : jit->key;
    Unit *u = key ? load(jit, env, def, key, shapes, true) : NULL;
    return u ? u : unit_make(jit, env, def, shapes, key);
}

/* A definition is compiled for so many shapes, of which those least used are dropped; for all other shapes at once when more than the
 * second number came. */
#define SHAPES_KEPT 16
#define SHAPES_TRIED 64

/* Whether the definition may be compiled for one more. */
static bool make_room(Jit *jit, const Function *fn)
{
    uint32_t kept = 0;
    Unit *least = NULL;
    for (Unit *u = ptrmap_find(&jit->units, fn); u; u = u->sibling) {
        if (!u->shapes)
            continue;
        if (++kept > SHAPES_TRIED)
            return false;
        if (!least || u->used < least->used)
            least = u;
    }
    if (kept < SHAPES_KEPT)
        return true;
    uint32_t dropped = least->dropped + 1;
    if (dropped + SHAPES_KEPT > SHAPES_TRIED)
        return false;
    keep_units(jit, fn, is_other, least);
    for (Unit *u = ptrmap_find(&jit->units, fn); u; u = u->sibling)
        u->dropped = dropped;
    return true;
}

/* The unit for these shapes if there is one. */
static Unit *unit_there(Jit *jit, Module *env, const Def *def, const Type *const *shapes)
{
    keep_units(jit, def->fn, is_current_in, env);
    Unit *u = ptrmap_find(&jit->units, def->fn);
    while (u && !has_shapes(u, def->fn->params.n, shapes))
        u = u->sibling;
    return u;
}

/* The unit for these shapes (NULL: for all); one that cannot be compiled says why. NULL after a diagnostic. */
static Unit *unit_for(Jit *jit, Module *env, const Def *def, const Type *const *shapes)
{
    Unit *u = unit_there(jit, env, def, shapes);
    if (u && !making_finish(u)) {
        if (!u->making) /* another time it may be made */
            keep_units(jit, def->fn, is_other, u);
        return NULL;
    }
    if (!u && shapes && !make_room(jit, def->fn))
        return unit_for(jit, env, def, NULL);
    if (!u)
        u = load_or_make(jit, env, def, shapes);
    if (u && u->why && shapes)
        return unit_for(jit, env, def, NULL);
    if (u)
        u->used = ++jit->calls;
    return u;
}

static const Def *find_def(Module *env, const Name *name, Buf *why)
{
    const Def *def = module_find(env, name);
    if (def && def->fn)
        return def;
    buf_printf(why, "`@%s` is not defined", name->text);
    return NULL;
}

static Unit *unit_or_why(Unit *u, Buf *why)
{
    if (u && u->why)
        buf_str(why, u->why);
    return u && u->why ? NULL : u;
}

bool unit_begin(Jit *jit, Module *env, const Name *name, JitKey *key, Buf *why)
{
    const Def *def = find_def(env, name, why);
    bool free = !jit->beside || making_finish(jit->beside);
    Unit *u = def ? unit_there(jit, env, def, NULL) : NULL;
    if (def && free && !u && key)
        u = load(jit, env, def, key, NULL, true);
    if (def && free && !u && (u = unit_new(jit, env, def->name))) {
        keep_as(u, key, NULL, 0);
        bool ok = making_begin(u, def->fn);
        if (!ok && limit_hit(&jit->cx->limits)) {
            unit_release(u);
            u = NULL;
        }
        if (u)
            add_sibling(u, def);
        if (u && !u->making && !u->why)
            keep_store(u);
    }
    keep_free_key(key);
    return u && unit_or_why(u, why);
}

Unit *unit_of(Jit *jit, Module *env, const Name *name, Buf *why)
{
    const Def *def = find_def(env, name, why);
    return def ? unit_or_why(unit_for(jit, env, def, NULL), why) : NULL;
}

/* ---- code that goes elsewhere ------------------------------------------------------------------------------------------------ */

bool unit_save(Jit *jit, Module *env, const Name *name, const Content *c, Buf *out, Buf *why)
{
    const Def *def = find_def(env, name, why);
    Unit *u = def ? unit_new(jit, env, name) : NULL;
    if (!u)
        return false;
    u->whole = true;
    bool ok = make(u, def->fn, why);
    if (ok && !keep_save(u, c, out)) {
        buf_str(why, "code of it is made while it runs, for types that only its calls say, or a "
                     "function of it leaves it");
        ok = false;
    }
    unit_release(u);
    return ok;
}

bool unit_open(Jit *jit, Module *env, const Name *name, const Content *c, Str bytes)
{
    const Def *def = module_find(env, name);
    Unit *u = unit_new(jit, env, name);
    if (!u)
        return false;
    if (!keep_open(u, c, bytes)) {
        unit_release(u);
        return false;
    }
    u->given = true;
    take_params(u, def->fn, NULL);
    add_sibling(u, def);
    return true;
}

#define PARAMS_MOST 64

bool unit_waits(Module *env, const Name *name)
{
    const Def *def = module_find(env, name);
    bool waits = false;
    for (uint32_t i = 0; def && def->fn && i < def->fn->params.n; i++)
        waits |= shapes_unknown(type_resolve(env->cx, def->fn->params.at[i]->base.type));
    return waits && def->fn->params.n <= PARAMS_MOST;
}

/* The types of these arguments into `out`, which has PARAMS_MOST of them; NULL where the declared ones say as much. */
static const Type *const *shapes_of_call(Jit *jit, Module *env, const Def *def, uint32_t n,
                                         const Value *args, const Type **out)
{
    bool special = false;
    if (n != def->fn->params.n || !unit_waits(env, def->name))
        return NULL;
    for (uint32_t i = 0; i < n; i++) {
        const Type *t = type_resolve(jit->cx, def->fn->params.at[i]->base.type);
        out[i] = shapes_of_value(jit->cx, t, args[i]);
        special |= out[i] != t;
    }
    return special ? out : NULL;
}

Unit *unit_of_call(Jit *jit, Module *env, const Name *name, uint32_t n, const Value *args, Buf *why)
{
    const Def *def = find_def(env, name, why);
    const Type *types[PARAMS_MOST];
    if (!def)
        return NULL;
    Unit *given = ptrmap_find(&jit->units, def->fn);
    if (given && given->given)
        return given;
    return unit_or_why(unit_for(jit, env, def, shapes_of_call(jit, env, def, n, args, types)), why);
}

void units_settle(Jit *jit)
{
    for (Unit *u = jit->all; u; u = u->next)
        keep_end(u);
}

static const Unit *last_used(const Jit *jit, Module *env, const Name *name)
{
    const Def *def = module_find(env, name);
    const Unit *last = NULL;
    for (const Unit *u = def ? ptrmap_find(&jit->units, def->fn) : NULL; u; u = u->sibling)
        if (!last || u->used > last->used)
            last = u;
    return last;
}

JitCounts unit_counts(Jit *jit, Module *env, const Name *name)
{
    const Unit *u = last_used(jit, env, name);
    return u ? u->counts : (JitCounts){0};
}

const JitClock *const *unit_clocks(Jit *jit, Module *env, const Name *name, size_t *n)
{
    const Unit *u = last_used(jit, env, name);
    *n = u ? u->clocks.n : 0;
    return u ? (const JitClock *const *)u->clocks.at : NULL;
}

bool unit_module(Jit *jit, Module *env, const Name *name, const UnitWish *wish, Buf *why,
                 bool (*use)(Gen *g, void *data), void *data)
{
    const Def *def = find_def(env, name, why);
    const Type *types[PARAMS_MOST];
    Unit *u = def ? unit_new(jit, env, name) : NULL;
    if (!u)
        return false;
    Gen g;
    uint32_t names =
        jit->orc.numbers; /* texts of one program say the same names: nobody else sees them */
    u->gpu = NULL;
    u->shapes = wish->args ? shapes_of_call(jit, env, def, wish->n, wish->args, types) : NULL;
    gen_init(&g, u, why);
    g.lowered = wish->lowered;
    g.alone = true;
    g.elsewhere = wish->elsewhere;
    if (wish->places && !g.failed)
        g.origins = origins_open(&g, wish->places);
    if (wish->target && !g.failed)
        g.ptx = ptx_open(&g, wish->target);
    bool ok = !g.failed && gen_unit(&g, def->fn);
    origins_settle(&g);
    ok = ok && use(&g, data);
    origins_close(g.origins);
    gen_deinit(&g, ok);
    jit->orc.numbers = names;
    unit_release(u);
    return ok;
}

void *unit_late(Unit *u, LateWish wish)
{
    Gen g;
    Buf why = {0};
    const Diag *before = u->jit->cx->diags->last;
    gen_init(&g, u, &why);
    bool ok = !g.failed && gen_late(&g, wish) && link_module(&g);
    gen_deinit(&g, ok);
    /* What was begun has changed what a unit that wakes would find. */
    if (!ok)
        keep_not(u);
    Diag *last = u->jit->cx->diags->last;
    bool deep = last && last->code == E0121_TOO_DEEP;
    if (deep && last != before) {
        diag_note(last,
                  "compiled code has a copy of a function for each type that it is called at");
        diag_help(last, "`--exec interp` (or `:engine interp`) has one for all");
    } else if (!deep && why.n > 0 && !wish.shapes) {
        diag_error(u->jit->cx->diags, E0701_CANNOT_COMPILE, (Span){0}, "%s", buf_text(&why));
    }
    buf_deinit(&why);
    return ok ? late_found(u, wish) : NULL;
}

/* ---- waking ------------------------------------------------------------------------------------------------------------ */

/* Goes through the making of a module whose code is there. Its functions count as made until the epoch ends. */
static bool make_again(Unit *u, const Code *code, Buf *why)
{
    const Def *def = module_find(u->env, u->name);
    Gen g;
    u->epoch = code->epoch;
    gen_init(&g, u, why);
    g.again = true;
    bool ok = !g.failed && def && def->fn &&
              (code->wish.kind == LATE_ENTRY ? gen_unit(&g, def->fn) : gen_late(&g, code->wish));
    gen_deinit(&g, true);
    return ok;
}

static void forget_functions(Unit *u)
{
    PtrMap *const of_functions[] = {&u->by_function, &u->handling, &u->makes, &u->signatures,
                                    &u->values};
    for (size_t i = 0; i < sizeof of_functions / sizeof *of_functions; i++)
        ptrmap_clear(of_functions[i]);
    u->instances.n = 0;
    u->rounds = 0;
    u->results = false;
    u->infos_woken = u->lates_woken = u->variants_woken = 0;
}

bool unit_wake(Unit *u)
{
    if (!u->asleep)
        return true;
    JitCounts counts = u->counts;
    Buf why = {0};
    bool ok = true;
    uint32_t epoch = u->epoch;
    forget_functions(u);
    for (size_t i = 0; i < u->codes.n && ok; i++)
        if (u->codes.at[i]->wish.kind != LATE_NOTHING)
            ok = make_again(u, u->codes.at[i], &why);
    u->counts = counts;
    /* Code that is made from here on calls none of the file's but through sites: these symbols are not its. */
    u->epoch = epoch + 1;
    if (limit_hit(&u->jit->cx->limits)) {
        buf_deinit(&why);
        return false;
    }
    ok = ok && u->infos_woken == u->infos.n && u->lates_woken == u->lates.n &&
         u->variants_woken == u->variants.n;
    u->asleep = !ok;
    if (!ok && why.n == 0) {
        cache_remove(&u->jit->cache, u->key_for);
        buf_printf(&why, "the kept code of `@%s` is not what is made of it now; it is forgotten",
                   u->name->text);
    }
    if (!ok)
        diag_error(u->jit->cx->diags, E0701_CANNOT_COMPILE, (Span){0}, "%s", buf_text(&why));
    buf_deinit(&why);
    return ok;
}

/* ---- calls ------------------------------------------------------------------------------------------------------------ */

Value unit_call(Unit *u, UnitEntry *entry, uint32_t n, const Value *args)
{
    Jit *jit = u->jit;
    Value out = value_none();
    JitState *s = jit->state;
    uint32_t failed = s->failed;
    s->failed = 0;
    jit->running++;
    Watch *watch = jit->watch;
    if (!watch)
        jit->watch = watch_begin(&jit->cx->limits);
    bool ran = true;
    if (u->nests) {
        ran = stack_run(jit, entry, n, args, &out);
    } else {
        stack_guard_here(jit);
        entry(s, args, &out);
    }
    if (!watch)
        watch_end(jit->watch);
    jit->watch = watch;
    jit->running--;
    ran &= s->failed == 0;
    ran &= device_end(jit, ran);
    keep_begin(u);
    s->failed = failed;
    stack_guard_here(jit);
    if (jit->unused && jit->running == 0) {
        jit->unused = false;
        units_sweep(jit);
    }
    if (ran)
        return out;
    if (out.kind > VALUE_SCALAR && out.bits) /* code went on behind the failure */
        value_release(out);
    return value_none();
}

/* What was made late was made for what was defined then. */
static void forget_code(Instance *in)
{
    if (in->late)
        in->late->code = NULL;
    if (in->variants) {
        in->variants->generic = NULL;
        in->variants->n = 0;
    }
}

bool unit_renew(Unit *u, Module *env)
{
    if (is_current(u, env))
        return true;
    if (!unit_wake(u))
        return false;
    keep_not(u);
    Module *old = u->env;
    u->env = module_retain(env);
    module_use(u->code, old);
    module_release(old);
    u->epoch++;
    u->needs.n = 0;
    for (size_t i = 0; i < u->infos.n; i++)
        ptrmap_clear(&u->infos.at[i]->at);
    for (size_t i = 0; i < u->instances.n; i++)
        forget_code(u->instances.at[i]);
    Gen g;
    Buf why = {0};
    gen_init(&g, u, &why);
    bool ok = !g.failed && gen_again(&g) && link_module(&g);
    gen_deinit(&g, ok);
    if (why.n > 0)
        diag_error(u->jit->cx->diags, E0701_CANNOT_COMPILE, (Span){0}, "%s", buf_text(&why));
    buf_deinit(&why);
    return ok;
}
