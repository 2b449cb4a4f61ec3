/* Writes constructors and global functions that are used as values as function literals around their calls.
 *
 *     @apply(Wrap, 1)      =>      @apply(fn [A](%eta_expand_param: A) -> Box[A] { Wrap(%eta_expand_param) }, 1)
 *
 * A constructor that is called stays; a global function that is called is wrapped as well. */
#include "passes/pass.h"

typedef struct Eta {
    PassRun *run;
    bool constructors, globals;
    PtrMap callees; /* constructors that are called where they stand */
} Eta;

/* fn [A](params) -> R { callee(params) } for a callee of this type. The literal of a function has the attributes of that. */
static Expr *expand(Rewriter *rw, Expr *callee, const Type *t)
{
    Arena *arena = &rw->module->arena;
    PassRun *run = ((Eta *)rw->data)->run;
    const GlobalVar *global = expr_as_global(callee);
    const Def *def = global ? module_find(run->module, global->name) : NULL;
    uint32_t n = t->n, k = t->n_params;
    const TypeVar **vars = arena_new_array(&run->scratch, const TypeVar *, k + 1);
    const Type **with = arena_new_array(&run->scratch, const Type *, k + 1);
    Var **params = arena_new_array(&run->scratch, Var *, n + 1);
    Expr **args = arena_new_array(&run->scratch, Expr *, n + 1);
    if (!vars || !with || !params || !args)
        return NULL;
    for (uint32_t i = 0; i < k; i++) {
        vars[i] = typevar_new(rw->cx, t->params[i]->name, callee->span);
        with[i] = type_var(rw->cx, vars[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        const Type *type = type_subst(rw->cx, t->parts[i], k, t->params, with);
        params[i] = expr_var(arena, callee->span, ctx_name(rw->cx, "eta_expand_param"), type);
        args[i] = &params[i]->base;
    }
    Expr *body = expr_call(arena, callee->span, callee, n, args, NULL);
    const Type *result = type_subst(rw->cx, t->result, k, t->params, with);
    TypeVarList type_params = {arena_copy(arena, vars, k * sizeof *vars), k};
    const Attrs *attrs = def && def->fn ? def->fn->attrs : NULL;
    return &expr_function(arena, callee->span, type_params, n, params, attrs, result, body)->base;
}

static bool note_callee(Rewriter *rw, const Expr *old, Expr **now)
{
    Eta *eta = rw->data;
    const Call *call = expr_as_call(old);
    (void)now;
    if (call && call->callee->kind == EXPR_CON)
        ptrmap_put(&eta->callees, call->callee, NULL);
    return false;
}

static Expr *expand_value(Rewriter *rw, const Expr *old, Expr *now)
{
    const Eta *eta = rw->data;
    bool wanted = (old->kind == EXPR_CON && eta->constructors && !ptrmap_has(&eta->callees, old)) ||
                  (old->kind == EXPR_GLOBAL && eta->globals);
    if (!wanted)
        return now;
    const ConRef *con = expr_as_con(old);
    const Type *t = con ? type_of_constructor(rw->cx, con->con) : old->type;
    t = t ? type_find(t) : NULL;
    return t && t->kind == TYPE_FUNC && (!con || con->con->n) ? expand(rw, now, t) : now;
}

static Function *eta_expand(PassRun *run, const Def *def)
{
    Eta eta = {.run = run,
               .constructors = attrs_bool(run->params, "expand_constructor"),
               .globals = attrs_bool(run->params, "expand_global_var")};
    if (!eta.constructors && !eta.globals) {
        Diag *d = diag_error(run->cx->diags, E0603_PIPELINE, run->where,
                             "EtaExpand has nothing to expand");
        diag_help(
            d, "write `EtaExpand{expand_constructor=True}` or `EtaExpand{expand_global_var=True}`");
        return NULL;
    }
    Rewriter rw;
    pass_rewriter_init(&rw, run, expand_value, &eta);
    rw.enter = note_callee;
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    ptrmap_deinit(&eta.callees);
    return expr_as_function(now);
}

static const OpAttr params[] = {
    {"expand_constructor", ATTR_TYPE_BOOL, .otherwise = ATTR_DEFAULT_BOOL(false),
     .doc = "expands constructors"},
    {"expand_global_var", ATTR_TYPE_BOOL, .otherwise = ATTR_DEFAULT_BOOL(false),
     .doc = "expands global functions"},
    {0},
};

const Pass pass_eta_expand = {
    .name = "EtaExpand",
    .doc = "Writes constructors and global functions that are used as values as function literals.",
    .opt_level = 1,
    .needs_types = true,
    .params = params,
    .function = eta_expand,
};
