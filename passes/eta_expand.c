/* Writes constructors and global functions that are used as values as function literals around their calls.
 *
 *     @apply(Wrap, 1)      =>      @apply(fn [A](%eta_expand_param: A) -> Box[A] { Wrap(%eta_expand_param) }, 1)
 *
 * A constructor that is called stays; a global function that is called is wrapped as well. */
#include "passes/beta.h"
#include "passes/pass.h"

typedef struct Eta {
    PassRun *run;
    bool constructors, globals;
    PtrMap callees; /* constructors that are called where they stand */
} Eta;

/* The literal of a function has the attributes of that. */
static Expr *expand(Rewriter *rw, Expr *callee, const Type *t)
{
    PassRun *run = ((Eta *)rw->data)->run;
    const GlobalVar *global = expr_as_global(callee);
    const Def *def = global ? module_find(run->module, global->name) : NULL;
    const Attrs *attrs = def && def->fn ? def->fn->attrs : NULL;
    Function *f = eta(rw->cx, rw->module, &run->scratch, callee, t, attrs);
    return f ? &f->base : NULL;
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
