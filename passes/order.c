#include "passes/order.h"

#include "passes/facts.h"
#include "passes/to_a_normal_form.h"

typedef struct Effects {
    PassOrder wanted;
    Purity purity;
    PtrMap found; /* what has an effect, or a part of which has one -> NULL */
    bool inside; /* a part of the node at hand is such */
    bool any; /* there is a call of the kind that is looked for */
} Effects;

/* Operators neither read nor write references. */
static bool is_plain_call(const Expr *e)
{
    const Call *call = expr_as_call(e);
    return call && (call->callee->kind == EXPR_OP || call->callee->kind == EXPR_CON);
}

/* Evaluating the node has an effect, whatever its parts do. */
static bool acts(Effects *f, const Expr *e)
{
    const Call *call = expr_as_call(e);
    return e->kind == EXPR_REF_READ || e->kind == EXPR_REF_WRITE ||
           (call && !is_plain_call(e) && !purity_of_call(&f->purity, call->callee));
}

static WalkNext find_action(void *data, const Expr *e)
{
    return acts(data, e) ? WALK_STOP : WALK_ON;
}

static bool has_effect(const Effects *f, const Expr *e)
{
    return ptrmap_has(&f->found, e);
}

static void find_inside(void *data, Expr *const *slot)
{
    Effects *f = data;
    f->inside |= has_effect(f, *slot);
}

/* Of the operand, or of the fields of one that is a tuple: each may go another way. */
static uint32_t effects_in(const Effects *f, const Expr *e)
{
    const Tuple *t = expr_as_tuple(e);
    uint32_t n = 0;
    for (uint32_t i = 0; t && i < t->fields.n; i++)
        n += has_effect(f, t->fields.at[i]);
    return t ? n : has_effect(f, e);
}

static bool is_of_kind(const Effects *f, const Expr *e)
{
    const Call *call = expr_as_call(e);
    const TupleGet *get = expr_as_tuple_get(e);
    bool of_op = expr_call_of_op(e) != NULL;
    bool callees = f->wanted == ORDER_CALLEES;
    bool moves = callees ? call && !of_op && has_effect(f, call->callee) : of_op;
    uint32_t n = get && !callees ? effects_in(f, get->tuple) : 0;
    for (uint32_t i = 0; moves && i < call->args.n; i++)
        n += effects_in(f, call->args.at[i]);
    return n >= (f->wanted == ORDER_SEVERAL ? 2 : 1);
}

static WalkNext note_effect(void *data, const Expr *e)
{
    Effects *f = data;
    f->inside = false;
    if (e->kind == EXPR_FUNCTION)
        f->inside = f->found.n && !purity_of(&f->purity, e);
    else
        ir_children(e, find_inside, f);
    if (f->inside || acts(f, e))
        ptrmap_put(&f->found, e, NULL);
    f->any |= f->inside && is_of_kind(f, e);
    return WALK_ON;
}

/* What only holds such values stays a graph. */
static bool is_bound(void *data, const Expr *e)
{
    return has_effect(data, e) && !is_plain_call(e) && e->kind != EXPR_TUPLE &&
           e->kind != EXPR_TUPLE_GET && e->kind != EXPR_FUNCTION && e->kind != EXPR_LET &&
           e->kind != EXPR_REF_NEW;
}

Expr *order_effects(PassRun *run, PassOrder wanted, Expr *root)
{
    Effects f = {.wanted = wanted};
    Expr *now = root;
    purity_init(&f.purity, run->module, run->context->env, root);
    f.purity.known = run->purity;
    if (wanted && !ir_walk(root, find_action, NULL, &f)) {
        ir_walk(root, NULL, note_effect, &f);
        if (f.any)
            now = to_anf_where(run->cx, run->module, root, is_bound, &f);
    }
    run->purity = f.purity.known;
    f.purity.known = (PtrMap){0};
    purity_deinit(&f.purity);
    ptrmap_deinit(&f.found);
    return now;
}
