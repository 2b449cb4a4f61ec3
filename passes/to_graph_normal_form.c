/* Puts the values of `let`s in place of their variables: sharing says what is computed once.
 *
 *     let %a = add(%x, 1); let %b = multiply(%a, %a); subtract(%b, %a)
 *  => %0 = add(%x, 1); %1 = multiply(%0, %0); subtract(%1, %0)
 *
 * Functions that call themselves keep their `let`, and so do values that have an effect or may hold references: where and how often
 * they are evaluated can be told. So does a value that does not say what type it has, as in `let %l: List[int32] = Nil`, or is one of more
 * types than the variable, as in `let %f: fn (int32) -> int32 = negative`: the variable's type is written, and a graph variable has none.
 *
 * For code, only what operators compute and cannot fail moves, and only where there are uses, which all stand in the stretch of code in
 * which the `let` does: a value that a loop's body uses, or one branch, is computed where it was written. */
#include "ir/walk.h"
#include "passes/facts.h"
#include "passes/pass.h"
#include "passes/scope.h"
#include "passes/types.h"

typedef struct Graph {
    PassRun *run;
    Ctx *cx;
    Purity purity;
    Vagueness vague;
    PtrMap values;  /* Var -> value of its `let`, when that may be moved */
    bool for_code;
    PtrMap
        stretches; /* for code: Var -> the stretch in which its `let` and all of its uses stand */
    PtrMap used; /* for code: these variables */
    Totality total; /* for code */
    const Block *at; /* for code: where what is looked at belongs */
} Graph;

static void note_use(void *data, Expr *const *slot)
{
    Graph *g = data;
    if ((*slot)->kind != EXPR_VAR)
        return;
    ptrmap_put(&g->used, *slot, *slot);
    if (ptrmap_find(&g->stretches, *slot) != g->at)
        ptrmap_remove(&g->stretches, *slot);
}

static bool opens_blocks(const Expr *e)
{
    return e->kind == EXPR_IF || e->kind == EXPR_MATCH || e->kind == EXPR_FUNCTION;
}

static bool note_stretches(Graph *g, const Function *fn)
{
    Scopes s;
    bool ok = scopes_init(&s, g->cx, fn->body);
    for (size_t i = 0; ok && i < s.steps.n; i++) {
        const ScopeNode *node = s.steps.at[i].node;
        const Let *let = expr_as_let(node->e);
        if (let && s.steps.at[i].event == SCOPE_BIND)
            ptrmap_put(&g->stretches, let->var, node->block->stretch);
    }
    for (size_t i = 0; ok && i < s.steps.n; i++) {
        const ScopeNode *node = s.steps.at[i].node;
        g->at = opens_blocks(node->e) ? NULL : node->block->stretch;
        if (s.steps.at[i].event == SCOPE_DONE)
            ir_children(node->e, note_use, g);
    }
    scopes_deinit(&s);
    return ok;
}

static bool may_move(Graph *g, const Let *let)
{
    bool here =
        !g->for_code || (ptrmap_has(&g->used, let->var) && ptrmap_has(&g->stretches, let->var));
    return here && purity_movable(&g->purity, let->value) && !vague_of(&g->vague, let->value) &&
           types_as_it_is(g->cx, let->value->type, let->var->base.type) &&
           (!g->for_code || total_of(&g->total, let->value));
}

static bool note_let(Rewriter *rw, const Expr *old, Expr **now)
{
    Graph *g = rw->data;
    const Let *let = expr_as_let(old);
    const Function *f = expr_as_function(old);
    if (let && may_move(g, let))
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
        return ptrmap_has(&g->values, let->var) && rewriter_now(rw, let->var) != &let->var->base
                   ? expr_as_let(now)->body
                   : now;
    const Expr *value = old->kind == EXPR_VAR ? ptrmap_find(&g->values, old) : NULL;
    Expr *moved = value ? rewriter_now(rw, value) : NULL;
    return moved ? moved : now;
}

static Function *to_graph(PassRun *run, const Def *def)
{
    Graph g = {.run = run,
               .cx = run->cx,
               .vague = {.cx = run->cx, .module = run->module, .env = run->context->env},
               .for_code = run->context->for_code,
               .total = {.cx = run->cx}};
    Rewriter rw;
    if (g.for_code && !note_stretches(&g, def->fn)) {
        ptrmap_deinit(&g.stretches);
        ptrmap_deinit(&g.used);
        return NULL;
    }
    purity_init(&g.purity, run->module, run->context->env, &def->fn->base);
    rewriter_init(&rw, run->cx, run->module, put_value, &g);
    rw.enter = note_let;
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    purity_deinit(&g.purity);
    ptrmap_deinit(&g.values);
    vagueness_deinit(&g.vague);
    ptrmap_deinit(&g.stretches);
    ptrmap_deinit(&g.used);
    totality_deinit(&g.total);
    return expr_as_function(now);
}

const Pass pass_to_graph_normal_form = {
    .name = "ToGraphNormalForm",
    .doc = "Puts the values of `let`s in place of their variables.",
    .opt_level = 1,
    .needs_types = true,
    .function = to_graph,
};
