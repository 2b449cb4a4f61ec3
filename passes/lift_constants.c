/* Binds the constants of a function in front of its body, each once.
 *
 *     def @main(%x: float32) { add(%x, 2f) }  =>  def @main(%x: float32) { let %const0 = 2f; add(%x, %const0) }
 *
 * Primitive functions keep theirs. The program gets a type `Storage`, for the passes that plan memory. */
#include "passes/pass.h"
#include "passes/storage.h"
#include "passes/types.h"

#include <stdio.h>

typedef struct Lift {
    PassRun *run;
    Vec(Var *) vars;
    Vec(Expr *) values;
    unsigned *number; /* of the next one in the module */
} Lift;

static Expr *lift_constant(Rewriter *rw, const Expr *old, Expr *now)
{
    Lift *l = rw->data;
    expr_keep_type(now, old);
    if (now->kind != EXPR_CONSTANT)
        return now;
    char text[32];
    snprintf(text, sizeof text, "const%u", (*l->number)++);
    Var *v = expr_var(&rw->module->arena, now->span, ctx_name(rw->cx, text), old->type);
    v->base.type = old->type;
    vec_push(&l->vars, &l->run->scratch, v);
    vec_push(&l->values, &l->run->scratch, now);
    return &v->base;
}

static bool leave_primitive(Rewriter *rw, const Expr *old, Expr **now)
{
    (void)rw;
    const Function *f = expr_as_function(old);
    *now = (Expr *)(uintptr_t)old;
    return f && function_is_primitive(f);
}

static Function *lift(PassRun *run, const Function *f, unsigned *number)
{
    Lift l = {.run = run, .number = number};
    Arena *arena = &run->module->arena;
    Rewriter rw;
    rewriter_init(&rw, run->cx, run->module, lift_constant, &l);
    rw.enter = leave_primitive;
    Expr *body = ir_rewrite(&rw, f->body);
    rewriter_deinit(&rw);
    if (!body || !l.vars.n)
        return body ? (Function *)(uintptr_t)f : NULL;
    for (size_t i = l.vars.n; i--;)
        body = expr_let(arena, body->span, l.vars.at[i], l.values.at[i], body);
    return expr_function(arena, f->base.span, f->type_params, f->params.n, f->params.at, f->attrs,
                         f->ret_type, body);
}

static bool lift_all(PassRun *run, Module *old)
{
    unsigned number = 0;
    /* A bare expression stays: its text has no place for types. */
    if (old->expr)
        return true;
    storage_type(run);
    for (size_t i = 0; i < old->defs.n; i++) {
        const Def *def = &old->defs.at[i];
        if (!def->fn || def->imported || function_is_skipped(def->fn) ||
            function_is_primitive(def->fn))
            continue;
        Function *now = lift(run, def->fn, &number);
        if (!now)
            return false;
        if (now != def->fn)
            module_define(run->module, def->name, now, def->span, run->module);
    }
    return true;
}

const Pass pass_lift_constants = {
    .name = "LiftConstants",
    .doc = "Binds the constants of each function in front of its body.",
    .opt_level = 0,
    .needs_types = true,
    .module = lift_all,
};
