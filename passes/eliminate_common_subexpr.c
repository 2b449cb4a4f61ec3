/* Merges equal calls of operators and equal projections.
 *
 *     %0 = exp(%x); %1 = exp(%x); add(%0, %1)      =>      %0 = exp(%x); add(%0, %0)
 *
 * Equal are calls of one operator with equal attributes and the same arguments, in order; scalar constants count as the same when
 * their values are. Stateful operators, calls of functions and what is inside primitive functions stay. */
#include "passes/pass.h"
#include "passes/types.h"

#include "ir/equal.h"
#include "ir/op.h"

typedef struct Known {
    Expr *e;
    struct Known *next;
} Known;

typedef struct Cse {
    PassRun *run;
    PtrMap
        known; /* an operand, or an operator -> Known: what was met with it as the first that is no scalar */
} Cse;

static bool is_scalar(const Expr *e)
{
    const Constant *c = expr_as_constant(e);
    return c && c->value.kind == VALUE_SCALAR;
}

static bool same_operand(const Expr *a, const Expr *b)
{
    return a == b || (is_scalar(a) && is_scalar(b) && ir_equal(a, b, false));
}

static bool same(const Expr *a, const Expr *b)
{
    const TupleGet *p = expr_as_tuple_get(a), *q = expr_as_tuple_get(b);
    if (p || q)
        return p && q && p->tuple == q->tuple && p->index == q->index;
    const Call *f = expr_as_call(a), *g = expr_as_call(b);
    if (expr_call_of_op(a) != expr_call_of_op(b) || f->args.n != g->args.n ||
        !attrs_equal(f->attrs, g->attrs))
        return false;
    for (uint32_t i = 0; i < f->args.n; i++)
        if (!same_operand(f->args.at[i], g->args.at[i]))
            return false;
    return true;
}

/* Equal nodes have equal keys. */
static const void *key_of(const Expr *e)
{
    const TupleGet *get = expr_as_tuple_get(e);
    if (get)
        return get->tuple;
    const Call *call = expr_as_call(e);
    for (uint32_t i = 0; i < call->args.n; i++)
        if (!is_scalar(call->args.at[i]))
            return call->args.at[i];
    return expr_call_of_op(e);
}

static Expr *merge(Rewriter *rw, const Expr *old, Expr *now)
{
    Cse *cse = rw->data;
    const Op *op = expr_call_of_op(now);
    expr_keep_type(now, old);
    /* What has no arguments costs nothing, and each user may take it in. */
    if (now->kind != EXPR_TUPLE_GET &&
        (!op || (op->flags & OP_STATEFUL) || expr_as_call(now)->args.n == 0))
        return now;
    void **first = ptrmap_slot(&cse->known, key_of(now));
    for (const Known *k = first ? *first : NULL; k; k = k->next)
        if (same(k->e, now))
            return k->e;
    Known *known = first ? arena_new(&cse->run->scratch, Known) : NULL;
    if (known) {
        *known = (Known){now, *first};
        *first = known;
    }
    return now;
}

static bool enter_node(Rewriter *rw, const Expr *old, Expr **now)
{
    (void)rw;
    const Function *f = expr_as_function(old);
    *now = (Expr *)(uintptr_t)old;
    return f && function_is_primitive(f);
}

static Function *eliminate(PassRun *run, const Def *def)
{
    Cse cse = {.run = run};
    Rewriter rw;
    rewriter_init(&rw, run->cx, run->module, merge, &cse);
    rw.enter = enter_node;
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    ptrmap_deinit(&cse.known);
    return expr_as_function(now);
}

const Pass pass_eliminate_common_subexpr = {
    .name = "EliminateCommonSubexpr",
    .doc = "Merges equal calls of operators and equal projections.",
    .opt_level = 3,
    .needs_types = true,
    .function = eliminate,
};
