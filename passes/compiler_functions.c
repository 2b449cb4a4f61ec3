/* Functions for other compilers: as functions of the module by their symbols, and as what others bring along. */
#include "passes/pass.h"
#include "passes/types.h"

#include <string.h>

/* Whether another compiler is given the function, and the filter has nothing against it. */
static bool is_for(PassRun *run, const Function *f)
{
    const AttrValue *compiler = attrs_find(f->attrs, "Compiler");
    Str filter = attrs_string(run->params, "compiler_filter");
    return compiler && compiler->kind == ATTR_STRING &&
           (!filter.len || str_eq(filter, compiler->s));
}

static bool mark_extern(PassRun *run, Module *old)
{
    Arena *arena = &run->module->arena;
    AttrValue one = {.kind = ATTR_INT, .i = 1};
    for (size_t i = 0; i < old->defs.n; i++) {
        const Def *def = &old->defs.at[i];
        const Function *f = def->fn;
        if (!f || def->imported || !is_for(run, f))
            continue;
        Function *now =
            expr_function(arena, f->base.span, f->type_params, f->params.n, f->params.at,
                          attrs_with(arena, NULL, "Extern", one), f->ret_type, f->body);
        now->base.type = f->base.type;
        module_define(run->module, def->name, now, def->span, run->module);
    }
    return true;
}

/* ---- OutlineCompilerFunctionsWithExistingGlobalSymbols ----------------------------------------------------------------- */

static void note_free(void *data, Var *v)
{
    (void)v;
    *(bool *)data = true;
}

/* A literal with a symbol becomes the function of the module of that name. One that uses variables around it stays. */
static Expr *outline(Rewriter *rw, const Expr *old, Expr *now)
{
    PassRun *run = rw->data;
    const Call *call = expr_as_call(now);
    const Function *f = call ? expr_as_function(call->callee) : NULL;
    const AttrValue *symbol = f && is_for(run, f) ? attrs_find(f->attrs, "global_symbol") : NULL;
    bool uses = false;
    expr_keep_type(now, old);
    if (!symbol || symbol->kind != ATTR_STRING || !symbol->s.len)
        return now;
    const Name *name = ctx_name_str(run->cx, symbol->s);
    ir_free_vars(&f->base, note_free, &uses);
    if (uses || module_find(rw->module, name))
        return now;
    Function *copy = expr_as_function(ir_copy(run->cx, rw->module, &f->base));
    if (!copy)
        return NULL;
    module_define(rw->module, name, copy, f->base.span, rw->module);
    Expr *global = expr_global(&rw->module->arena, call->callee->span, name);
    return expr_call(&rw->module->arena, now->span, global, call->args.n, call->args.at,
                     call->attrs);
}

static Function *outline_all(PassRun *run, const Def *def)
{
    Rewriter rw;
    if (def->name->len == 0)
        return def->fn;
    rewriter_init(&rw, run->cx, run->module, outline, run);
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    return expr_as_function(now);
}

static const OpAttr params[] = {
    {"compiler_filter", ATTR_TYPE_STRING, .otherwise = ATTR_DEFAULT_STRING(""),
     .doc = "whose functions; \"\": everybody's"},
    {0},
};

const Pass pass_mark_compiler_functions_as_extern = {
    .name = "MarkCompilerFunctionsAsExtern",
    .doc = "Says of functions for other compilers that they are compiled elsewhere.",
    .opt_level = 0,
    .needs_types = true,
    .params = params,
    .module = mark_extern,
};

const Pass pass_outline_compiler_functions = {
    .name = "OutlineCompilerFunctionsWithExistingGlobalSymbols",
    .doc = "Makes literals for other compilers functions of the module by their symbols.",
    .opt_level = 0,
    .needs_types = true,
    .params = params,
    .function = outline_all,
};
