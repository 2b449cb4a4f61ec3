/* Puts the bodies of function literals in place of their calls: what FuseOps made comes apart again.
 *
 *     fn (%p0: T, Primitive=1) -> T { %0 = negative(%p0); exp(%0) }(%x)
 *  => %0 = negative(%x); exp(%0)
 *
 * A literal whose body has an effect stays, unless it is primitive. */
#include "passes/beta.h"
#include "passes/pass.h"

typedef struct Defuse {
    Purity purity;
} Defuse;

static Expr *unfold(Rewriter *rw, const Expr *old, Expr *now)
{
    Defuse *d = rw->data;
    const Call *was = expr_as_call(old);
    const Function *f = was ? expr_as_function(was->callee) : NULL;
    if (!f || f->type_params.n ||
        !(function_is_primitive(f) || purity_movable(&d->purity, f->body)))
        return now;
    const Call *call = expr_as_call(now);
    return beta(rw->cx, rw->module, &d->purity, NULL, expr_as_function(call->callee), call->args.n,
                call->args.at, was->args.at);
}

static Function *defuse(PassRun *run, const Def *def)
{
    Defuse d = {0};
    Rewriter rw;
    purity_init(&d.purity, run->module, run->context->env, &def->fn->base);
    pass_rewriter_init(&rw, run, unfold, &d);
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    purity_deinit(&d.purity);
    return expr_as_function(now);
}

const Pass pass_defuse_ops = {
    .name = "DefuseOps",
    .doc = "Puts the bodies of function literals in place of their calls: undoes FuseOps.",
    .opt_level = 3,
    .needs_types = true,
    .function = defuse,
};
