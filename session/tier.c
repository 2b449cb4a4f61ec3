/* The engine `auto`: the evaluator begins, and definitions that are hot (interp/tier.h) go to the JIT.
 *
 * What is asked for at types of its own, because it is polymorphic, is compiled as a function of such arguments that calls it. */
#include "session/tier.h"

#include "base/memory.h"
#include "interp/tier.h"
#include "session/optimise.h"

#include <stdlib.h>
#include <string.h>

/* The code for arguments of these extents. */
typedef struct HotShapes {
    struct HotShapes *next;
    Runnable code; /* without an `env` the code for all extents serves them */
    const Type *types[]; /* of the arguments (optimise_find_types) */
} HotShapes;

/* So many of a definition; calls with others run the code for all. */
#define SHAPES_MOST 8
/* And of parameters. */
#define PARAMS_MOST 64

struct HotCode {
    HotCode *next;
    const Name *name; /* of the definition */
    Module *env; /* counted: which defines it */
    Module *
        at_types; /* counted: the same with the function at these types; NULL: it is not polymorphic */
    Runnable code;
    HotShapes *shapes; /* the latest first */
    const Function *fn; /* as it was compiled */
    int level; /* at these settings */
    bool exact;
    bool taken; /* calls go to it */
};

/* ---- at types ----------------------------------------------------------------------------------------------------------------- */

/* `fn (%a: T, …) -> R { @f(%a, …) }` over hot->env, with all its types. */
static Module *at_types(RelaySession *s, const HotDef *hot, const Def *def)
{
    Module *m = module_derive(hot->env);
    if (!m)
        return NULL;
    Arena *a = &m->arena;
    Span span = def->span;
    const Function *fn = def->fn;
    uint32_t n = fn->params.n, n_types = hot->n_types;
    Var **params = arena_alloc_must(a, n + 1, sizeof(Var *));
    Expr **args = arena_alloc_must(a, n + 1, sizeof(Expr *));
    const Type **types = arena_alloc_must(a, n + 1, sizeof(Type *));
    const TypeVar *const *vars = fn->type_params.at;
    const Type *own = type_resolve(&s->cx, fn->base.type);
    for (uint32_t i = 0; i < n; i++) {
        const Var *p = fn->params.at[i];
        types[i] =
            type_subst(&s->cx, type_resolve(&s->cx, p->base.type), n_types, vars, hot->types);
        params[i] = expr_var(a, span, p->name, NULL);
        params[i]->base.type = types[i];
        args[i] = &params[i]->base;
    }
    const Type *result = type_subst(&s->cx, own->result, own->n_params, own->params, hot->types);
    Expr *callee = expr_global(a, span, def->name);
    callee->type = own;
    Expr *call = expr_call(a, span, callee, n, args, NULL);
    call->type = result;
    expr_as_call(call)->type_args =
        (TypeList){arena_copy(a, hot->types, n_types * sizeof(Type *)), n_types};
    Function *out = expr_function(a, span, (TypeVarList){0}, n, params, NULL, NULL, call);
    out->base.type = type_func(&s->cx, 0, NULL, n, types, result);
    module_define(m, ctx_name(&s->cx, THUNK_NAME), out, span, m);
    return m;
}

/* ---- the tier ------------------------------------------------------------------------------------------------------------------- */

/* ---- for extents -------------------------------------------------------------------------------------------------------------- */

static HotShapes *find_shapes(const HotCode *h, uint32_t n, const Type *const *types, size_t *count)
{
    for (HotShapes *f = h->shapes; f; f = f->next, ++*count)
        if (memcmp(f->types, types, n * sizeof *types) == 0)
            return f;
    return NULL;
}

static HotShapes *make_shapes(RelaySession *s, HotCode *h, uint32_t n, const Type *const *types,
                              const Value *args)
{
    HotShapes *f = memory_zeroed(1, sizeof *f + n * sizeof *types);
    if (!f)
        return NULL;
    const Runnable *r = &h->code;
    memcpy(f->types, types, n * sizeof *types);
    f->next = h->shapes;
    h->shapes = f;
    Module *at = optimise_for_shapes(s, r->written, r->name, args);
    Buf why = {0};
    if (at && at != r->written)
        engine_compile(s, at, r->name, COMPILE_TO_RUN, &f->code, &why);
    buf_deinit(&why);
    module_release(at);
    return f;
}

/* What serves a call with these arguments: code for their extents where the types leave some open. */
static const Runnable *code_for(RelaySession *s, HotCode *h, uint32_t n, const Value *args)
{
    const Type *types[PARAMS_MOST];
    const Runnable *r = &h->code;
    const Def *def = r->written ? module_find(r->written, r->name) : NULL;
    if (!def || !def->fn || n > PARAMS_MOST || n != def->fn->params.n ||
        !optimise_find_types(s, def->fn, args, types))
        return r;
    size_t count = 0;
    const HotShapes *f = find_shapes(h, n, types, &count);
    if (!f && count < SHAPES_MOST)
        f = make_shapes(s, h, n, types, args);
    return f && f->code.env ? &f->code : r;
}

/* The code may run for the last time now, and what is written may be what the evaluator runs: that stays prepared. */
static void release_runnable(RelaySession *s, Runnable *r)
{
    if (s->jit && r->env && r->env != s->env)
        s->jit_table->forget(s->jit, r->env);
    module_release(r->env);
    module_release(r->written);
    *r = (Runnable){0};
}

static void release_shapes(RelaySession *s, HotCode *h)
{
    for (HotShapes *f = h->shapes, *next; f; f = next) {
        next = f->next;
        if (f->code.written)
            optimise_forget(s, f->code.written);
        release_runnable(s, &f->code);
        free(f);
    }
    h->shapes = NULL;
}

static void release_code(RelaySession *s, HotCode *h)
{
    release_shapes(s, h);
    if (h->at_types)
        optimise_forget(s, h->at_types);
    release_runnable(s, &h->code);
    module_release(h->at_types);
    module_release(h->env);
    h->env = h->at_types = NULL;
}

static void hot_free(RelaySession *s, HotCode *h)
{
    HotCode **at = &s->hot;
    while (*at != h)
        at = &(*at)->next;
    *at = h->next;
    release_code(s, h);
    free(h);
}

static bool compile(RelaySession *s, HotCode *h, const HotDef *hot, CompileFor use)
{
    const Def *def = module_find(hot->env, hot->name);
    if (!def || !def->fn)
        return false;
    h->at_types = hot->n_types ? at_types(s, hot, def) : NULL;
    if (hot->n_types && !h->at_types)
        return false;
    Module *env = hot->n_types ? h->at_types : hot->env;
    const Name *name = hot->n_types ? ctx_name(&s->cx, THUNK_NAME) : hot->name;
    Buf why = {0};
    bool ok = engine_compile(s, env, name, use, &h->code, &why);
    buf_deinit(&why);
    h->env = module_retain(hot->env);
    h->fn = ok ? module_find(h->code.env, name)->fn : NULL;
    h->level = s->opt_level;
    h->exact = s->exact;
    return ok;
}

static void *hot_begin(void *data, const HotDef *hot)
{
    RelaySession *s = data;
    HotCode *h = memory_zeroed(1, sizeof *h);
    if (!h)
        return NULL;
    h->name = hot->name;
    h->next = s->hot;
    s->hot = h;
    if (compile(s, h, hot, COMPILE_BESIDE))
        return h;
    hot_free(s, h);
    return NULL;
}

/* Whether it was made of what the environment defines, at the settings that there are. */
static bool is_current(RelaySession *s, HotCode *h, const HotDef *hot)
{
    if (h->level != s->opt_level || h->exact != s->exact)
        return false;
    if (h->env != hot->env && (h->at_types || optimised_as(s, hot->env, hot->name) != h->fn))
        return false;
    module_retain(hot->env);
    module_release(h->env);
    h->env = hot->env;
    return true;
}

static void *hot_take(void *data, const HotDef *hot, void *code)
{
    RelaySession *s = data;
    HotCode *h = code;
    bool ok;
    if (is_current(s, h, hot)) {
        Buf why = {0};
        ok = h->taken || (session_jit(s) &&
                          s->jit_table->prepare(s->jit, h->code.env, h->code.name, NULL, &why));
        buf_deinit(&why);
    } else {
        release_code(s, h);
        ok = compile(s, h, hot, COMPILE_TO_RUN);
    }
    h->taken = true;
    if (ok)
        return h;
    hot_free(s, h);
    return NULL;
}

static Value hot_call(void *data, void *code, uint32_t n, const Value *args, Span span)
{
    RelaySession *s = data;
    HotCode *h = code;
    const Runnable *r = code_for(s, h, n, args);
    size_t reported = s->cx.diags->n;
    Buf why = {0};
    Value v = engine_call_code(s, r, n, args, span, &why);
    if (why.n > 0)
        interp_set_env(s->interp, h->env);
    buf_deinit(&why);
    Diag *d = value_is_none(v) && s->cx.diags->n > reported ? s->cx.diags->last : NULL;
    if (d && span_is_none(d->span))
        d->span = span;
    s->hot_failed = d ? h->name : NULL;
    return v;
}

static void hot_drop(void *data, void *code)
{
    hot_free(data, code);
}

void tier_start(RelaySession *s)
{
    s->tier = (Tier){hot_begin, hot_take, hot_call, hot_drop, s};
    interp_set_tier(s->interp, &s->tier);
}

static bool is_listed(const HotCode *newer, const HotCode *h)
{
    while (newer != h && !(newer->taken && newer->name == h->name))
        newer = newer->next;
    return newer != h;
}

void tier_describe(const RelaySession *s, Buf *out)
{
    const char *before = "\nhot, and compiled: ";
    for (const HotCode *h = s->hot; h; h = h->next) {
        if (!h->taken || is_listed(s->hot, h))
            continue;
        buf_printf(out, "%s`@%s`", before, h->name->text);
        before = ", ";
    }
}
