/* Gives each operator that can be fused with a widening cast a cast of its own, so that the narrow value is what goes between kernels.
 *
 *     %1 = cast(%0, dtype="int32"); (add(%1, 1), multiply(%1, 2))      on int8
 *  => %1 = cast(%0, dtype="int32"); %2 = cast(%0, dtype="int32"); (add(%1, 1), multiply(%2, 2)) */
#include "passes/pass.h"
#include "passes/types.h"

#include "ir/op.h"

typedef struct Casts {
    const Op *cast;
    PtrMap used; /* widening casts that a broadcasting call uses already */
} Casts;

static bool is_widening(const Casts *c, const Expr *e)
{
    if (expr_call_of_op(e) != c->cast)
        return false;
    const Type *from = expr_tensor_type(expr_as_call(e)->args.at[0]), *to = expr_tensor_type(e);
    return from && to && from->dtype.bits < to->dtype.bits;
}

/* The cast itself for its first use; a copy for each further one. */
static Expr *cast_for(Rewriter *rw, const Expr *old, Expr *now)
{
    Casts *c = rw->data;
    if (!ptrmap_has(&c->used, old)) {
        ptrmap_put(&c->used, old, NULL);
        return now;
    }
    const Call *cast = expr_as_call(now);
    Expr *copy = expr_call(&rw->module->arena, now->span, cast->callee, cast->args.n, cast->args.at,
                           cast->attrs);
    copy->type = now->type;
    return copy;
}

static Expr *own_casts(Rewriter *rw, const Expr *old, Expr *now)
{
    const Casts *c = rw->data;
    const Op *op = expr_call_of_op(old);
    expr_keep_type(now, old);
    if (!op || op->pattern > OP_BROADCAST)
        return now;
    const ExprList was = expr_as_call(old)->args;
    const Call *call = expr_as_call(now);
    Expr **args = arena_copy(&rw->module->arena, call->args.at, call->args.n * sizeof *args);
    bool changed = false;
    for (uint32_t i = 0; args && i < was.n; i++) {
        if (is_widening(c, was.at[i]) && expr_call_of_op(args[i]) == c->cast)
            args[i] = cast_for(rw, was.at[i], args[i]);
        changed |= args[i] != call->args.at[i];
    }
    if (!changed)
        return now;
    Expr *call_now =
        expr_call(&rw->module->arena, now->span, call->callee, call->args.n, args, call->attrs);
    expr_keep_type(call_now, old);
    return call_now;
}

static Function *canonicalize(PassRun *run, const Def *def)
{
    Casts c = {.cast = op_find(run->cx, str_of("cast"))};
    Rewriter rw;
    pass_rewriter_init(&rw, run, own_casts, &c);
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    ptrmap_deinit(&c.used);
    return expr_as_function(now);
}

const Pass pass_canonicalize_cast = {
    .name = "CanonicalizeCast",
    .doc = "Gives each operator that can be fused with a widening cast a cast of its own.",
    .opt_level = 3,
    .needs_types = true,
    .function = canonicalize,
};
