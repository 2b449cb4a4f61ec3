#include "interp/internal.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

Interp *interp_new(Ctx *cx)
{
    Interp *in = memory_zeroed(1, sizeof *in);
    if (!in) {
        limit_reach(&cx->limits, LIMIT_MEMORY);
        return NULL;
    }
    in->cx = cx;
    in->epoch = 1;
    arena_init(&in->scratch, &cx->limits);
    arena_init(&in->programs.arena, &cx->limits);
    ctx_root_add(cx, &in->programs.root, &in->programs.arena);
    in->programs.generation = 1;
    return in;
}

void interp_free(Interp *in)
{
    if (!in)
        return;
    interp_forget(in, NULL);
    tally_drop_all(in);
    ptrmap_deinit(&in->codes);
    module_release(in->env);
    stack_deinit(in);
    arena_deinit(&in->scratch);
    ctx_root_remove(&in->programs.root);
    arena_deinit(&in->programs.arena);
    free(in->args);
    free(in->held);
    free(in);
}

static void forget_if(Interp *in,
                      bool (*is_gone)(const Interp *in, const void *fn, const Code *code,
                                      const Module *m),
                      const Module *m)
{
    for (size_t i = 0; i < in->codes.n; i++) {
        const void *fn = in->codes.entries[i].key;
        Code *code = in->codes.entries[i].value;
        if (!fn || !is_gone(in, fn, code, m))
            continue;
        ptrmap_remove(&in->codes, fn);
        tally_end(code);
        unit_release(code->unit);
    }
    in->epoch++;
}

/* A module of NULL stands for all of them. */
static bool lies_in(const Interp *in, const void *fn, const Code *code, const Module *m)
{
    (void)in, (void)fn;
    return !m || code->unit->keep == m;
}

static bool is_replaced(const Interp *in, const void *fn, const Code *code, const Module *m)
{
    (void)m;
    const Def *def = module_find(in->env, code->name);
    return !def || def->fn != fn;
}

void interp_forget(Interp *in, const Module *m)
{
    forget_if(in, lies_in, m);
}

/* What the new environment defines differently will not be called by name again. */
static void set_env(Interp *in, Module *env)
{
    if (env == in->env)
        return;
    module_release(in->env);
    in->env = env ? module_retain(env) : NULL;
    forget_if(in, is_replaced, NULL);
}

/* ---- definitions ------------------------------------------------------------------------------- */

static const Code *def_code(Interp *in, const Def *def)
{
    Code *code = ptrmap_find(&in->codes, def->fn);
    if (code)
        return code;
    code = code_prepare(in, def->home, &def->fn->base);
    if (!code)
        return NULL;
    if (code->free_vars.n) {
        diag_bug(in->cx->diags, def->span, "the definition of `@%s` has free variables",
                 def->name->text);
        unit_release(code->unit);
        return NULL;
    }
    code->name = def->name;
    tally_init(code, def->fn);
    ptrmap_put(&in->codes, def->fn, code);
    return code;
}

static const Code *find_code(Interp *in, const Name *name, Span span)
{
    const Def *def = module_find(in->env, name);
    if (def && def->fn)
        return def_code(in, def);
    diag_error(in->cx->diags, E0211_UNDEFINED_GLOBAL, span, "nothing defines `@%s`", name->text);
    return NULL;
}

const Code *global_code(Interp *in, Step *s)
{
    if (s->epoch == in->epoch)
        return s->found;
    s->found = find_code(in, s->name, s->span);
    s->epoch = s->found ? in->epoch : 0;
    return s->found;
}

/* ---- entering ---------------------------------------------------------------------------------- */

/* Runs the code on arguments (lent) with the closure (lent; may be NULL). */
static Value enter(Interp *in, const Code *code, Object *closure, uint32_t n, const Value *args,
                   Span span)
{
    if (n != code->n_params) {
        diag_error(in->cx->diags, E0305_ARGUMENTS, span, "the function takes %u argument%s, not %u",
                   code->n_params, code->n_params == 1 ? "" : "s", n);
        return value_none();
    }
    Tally *tally = code->n_vars == 0 ? code->tally : NULL;
    if (!closure && tally_add(in, tally, code)) {
        values_retain(n, args);
        return tally_call(in, tally, n, args, span);
    }
    uint64_t deepest = in->cx->limits.depth_most;
    in->stack.depth_most = deepest > 0 ? deepest : UINT64_MAX;
    eval_ask_soon(in);
    Frame *f = eval_frame_push(in, code);
    if (!f)
        return value_none();
    f->caller = NULL;
    f->call = NULL;
    f->tally = closure ? tally_closure(in, code) : tally;
    for (uint32_t i = 0; i < n; i++)
        f->slots[i] = value_retain(args[i]);
    f->closure = closure ? value_retain(value_object(closure)).object : NULL;
    return eval_frame_run(in, f);
}

/* A closure over the code of an expression with the values of its free variables. */
static Value expression_closure(Interp *in, const Code *code, const PtrMap *locals)
{
    Value v = closure_new(in, code, (uint32_t)code->free_vars.n);
    for (size_t i = 0; i < code->free_vars.n && !value_is_none(v); i++) {
        const Var *var = code->free_vars.at[i];
        const Value *local = locals ? ptrmap_find(locals, var) : NULL;
        if (local) {
            object_set(v.object, FUNCTION_CAPTURED + (uint32_t)i, value_retain(*local));
            continue;
        }
        diag_error(in->cx->diags, E0110_UNDEFINED_VARIABLE, var->base.span, "`%%%s` has no value",
                   var->name->text);
        value_release(v);
        v = value_none();
    }
    return v;
}

void adopt_function(Interp *in, Value *fn)
{
    const FunctionKind *kind = fn->kind == VALUE_FUNCTION ? function_kind(fn->object) : NULL;
    Module *m = kind && kind->source ? module_new(in->cx) : NULL;
    if (!m)
        return;
    const Observer *observer = in->observer;
    PtrMap locals = {0};
    Expr *e = kind->source(fn->object, m, &locals);
    in->observer = NULL;
    Value v = e ? interp_eval(in, in->env, m, e, &locals) : value_none();
    in->observer = observer;
    ptrmap_deinit(&locals);
    module_release(m);
    if (value_is_none(v))
        return;
    value_release(*fn);
    *fn = v;
}

void interp_count(Interp *in, atomic_uint_least64_t *steps)
{
    in->counted = steps;
}

void interp_set_env(Interp *in, Module *env)
{
    set_env(in, env);
}

Value interp_eval(Interp *in, Module *env, Module *keep, Expr *e, const PtrMap *locals)
{
    set_env(in, env);
    Code *code = code_prepare(in, keep, e);
    if (!code)
        return value_none();
    Value v = expression_closure(in, code, locals);
    if (!value_is_none(v) && !expr_as_function(e)) {
        Value closure = v;
        v = enter(in, code, closure.object, 0, NULL, e->span);
        value_release(closure);
    }
    unit_release(code->unit);
    return v;
}

Value foreign_call(Interp *in, Value fn, uint32_t n, const Value *args, Span span)
{
    const FunctionKind *kind = fn.kind == VALUE_FUNCTION ? function_kind(fn.object) : NULL;
    if (kind)
        return kind->call(fn.object, n, args);
    diag_error(in->cx->diags, E0205_NOT_A_FUNCTION, span, "the value is no function");
    return value_none();
}

Value interp_call(Interp *in, Module *env, Value fn, uint32_t n, const Value *args, Span span)
{
    set_env(in, env);
    const Code *code = closure_code(fn);
    return code ? enter(in, code, fn.object, n, args, span) : foreign_call(in, fn, n, args, span);
}

Value interp_call_global(Interp *in, Module *env, const Name *name, uint32_t n, const Value *args,
                         Span span)
{
    set_env(in, env);
    const Code *code = find_code(in, name, span);
    return code ? enter(in, code, NULL, n, args, span) : value_none();
}
