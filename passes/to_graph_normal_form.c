/* Puts the values of `let`s in place of their variables: sharing says what is computed once.
 *
 *     let %a = add(%x, 1); let %b = multiply(%a, %a); subtract(%b, %a)
 *  => %0 = add(%x, 1); %1 = multiply(%0, %0); subtract(%1, %0)
 *
 * Functions that call themselves keep their `let`, and so do values that have an effect or may hold references: where and how often
 * they are evaluated can be told. */
#include "passes/facts.h"
#include "passes/pass.h"

typedef struct Graph {
    Purity purity;
    PtrMap values;  /* Var -> value of its `let`, when that may be moved */
} Graph;

static bool note_let(Rewriter *rw, const Expr *old, Expr **now)
{
    Graph *g = rw->data;
    const Let *let = expr_as_let(old);
    const Function *f = expr_as_function(old);
    if (let && purity_movable(&g->purity, let->value))
        ptrmap_put(&g->values, let->var, let->value);
    *now = (Expr *)(uintptr_t)old;
    return f && function_is_primitive(f);
}

/* The value is not done yet where the variable stands in it: then the variable stays. */
static Expr *put_value(Rewriter *rw, const Expr *old, Expr *now)
{
    const Graph *g = rw->data;
    const Let *let = expr_as_let(old);
    if (let)
        return ptrmap_has(&g->values, let->var) && ptrmap_find(&rw->done, let->var) != let->var
                   ? expr_as_let(now)->body
                   : now;
    const Expr *value = old->kind == EXPR_VAR ? ptrmap_find(&g->values, old) : NULL;
    Expr *moved = value ? ptrmap_find(&rw->done, value) : NULL;
    return moved ? moved : now;
}

static Function *to_graph(PassRun *run, const Def *def)
{
    Graph g = {0};
    Rewriter rw;
    purity_init(&g.purity, run->module, run->context->env, &def->fn->base);
    rewriter_init(&rw, run->cx, run->module, put_value, &g);
    rw.enter = note_let;
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    purity_deinit(&g.purity);
    ptrmap_deinit(&g.values);
    return expr_as_function(now);
}

const Pass pass_to_graph_normal_form = {
    .name = "ToGraphNormalForm",
    .doc = "Puts the values of `let`s in place of their variables.",
    .opt_level = 1,
    .needs_types = true,
    .function = to_graph,
};
