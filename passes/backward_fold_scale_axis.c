/* Moves a factor for each channel behind a convolution or dense into the weight.
 *
 *     multiply(nn.conv2d(%x, %w, …), %s)        with one element of %s: (3, 1, 1) a channel
 *  => nn.conv2d(%x, multiply(%w, expand_dims(squeeze(%s, axis=[1, 2]), axis=1, num_newaxis=3)), …)
 *
 * Each value between the weight and the product must have no other use. First, from the inputs to the results, which factor each value
 * can take; then, back from the products, which it takes; then the weights change. */
#include "passes/facts.h"
#include "passes/fold_scale.h"
#include "passes/types.h"

/* A factor on its way. It is used before it is rewritten, so the places that use it are filled in at the end. */
typedef struct Factor {
    Expr *old;
    Channels at;
    int n_squeezed;
    int64_t squeezed[TENSOR_RANK_MOST];
    Expr *vector; /* of what stands for `old`; NULL until it is used */
    Vec(Expr **) slots;
} Factor;

typedef struct Backward {
    PassRun *run;
    Vec(const Expr *) order; /* operands first */
    bool product; /* there is one */
    Places uses; /* node -> number of uses */
    PtrMap demands; /* node -> Demand: what it can take */
    PtrMap factors; /* node -> Factor: what it takes */
    PtrMap products; /* a product that goes -> which operand stays + 1 */
    Vec(Factor *) all;
} Backward;

static WalkNext note_node(void *data, const Expr *e)
{
    Backward *b = data;
    vec_push(&b->order, &b->run->scratch, e);
    b->product |= scale_kind(e) == SCALE_PRODUCT;
    return WALK_ON;
}

/* ---- what can be taken ------------------------------------------------------------------------------------------ */

static Demand operand_demand(const Backward *b, const Call *call, uint32_t i)
{
    const Demand *d = ptrmap_find(&b->demands, call->args.at[i]);
    return d && times_used(&b->uses, call->args.at[i]) == 1 ? *d : DEMAND_NONE;
}

static bool matches(const Call *call, uint32_t i, Channels at, int64_t *squeezed, int *n)
{
    const Type *t = expr_tensor_type(call->args.at[i]);
    const Type *other = expr_tensor_type(call->args.at[1 - i]);
    return t && other && scale_matches(t, other, at, squeezed, n);
}

static Demand demand_of_sum(const Backward *b, const Call *call)
{
    Demand d[2] = {operand_demand(b, call, 0), operand_demand(b, call, 1)};
    const Type *t[2] = {expr_tensor_type(call->args.at[0]), expr_tensor_type(call->args.at[1])};
    int64_t squeezed[TENSOR_RANK_MOST];
    int n;
    for (uint32_t i = 0; i < 2; i++)
        if (d[1 - i].at.axis < 0 && matches(call, i, d[i].at, squeezed, &n))
            return d[i];
    bool both = d[0].at.axis >= 0 && d[0].at.axis == d[1].at.axis &&
                d[0].at.block == d[1].at.block && type_equal(t[0], t[1]);
    return both ? (Demand){.at = d[0].at, .positive = d[0].positive || d[1].positive} : DEMAND_NONE;
}

static Demand demand_of(const Backward *b, const Expr *e)
{
    const Call *call = expr_as_call(e);
    ScaleAxes axes;
    switch (scale_kind(e)) {
    case SCALE_WEIGHTED:
        return scale_axes(call, &axes) && scale_is_known(b->run, call->args.at[1])
                   ? (Demand){.at = axes.out}
                   : DEMAND_NONE;
    case SCALE_RELU: return (Demand){.at = operand_demand(b, call, 0).at, .positive = true};
    case SCALE_SUM: return demand_of_sum(b, call);
    case SCALE_BIAS: {
        Demand d = operand_demand(b, call, 0);
        return attrs_int(call->attrs, "axis", 1) == d.at.axis && d.at.block < 0 ? d : DEMAND_NONE;
    }
    case SCALE_PRODUCT:
    case SCALE_OTHER: break;
    }
    return DEMAND_NONE;
}

static void note_demand(Backward *b, const Expr *e)
{
    Demand d = demand_of(b, e);
    if (d.at.axis < 0)
        return;
    Demand *kept = arena_new(&b->run->scratch, Demand);
    *kept = d;
    ptrmap_put(&b->demands, e, kept);
}

/* ---- what is taken ---------------------------------------------------------------------------------------------- */

static void begin_factor(Backward *b, const Call *product)
{
    const char *why = "no weight in front of it takes a factor for each channel";
    for (uint32_t i = 0; i < 2; i++) {
        Factor f = {.old = product->args.at[1 - i]};
        Demand d = operand_demand(b, product, i);
        f.at = d.at;
        if (d.at.axis < 0 && ptrmap_has(&b->demands, product->args.at[i]))
            why = "something else needs what it multiplies";
        if (d.at.axis < 0)
            continue;
        bool fits = matches(product, i, d.at, f.squeezed, &f.n_squeezed);
        why = scale_stop(b->run, d, fits, f.old);
        if (why)
            continue;
        scale_tell_goes(b->run, product, f.old);
        if (!pass_may_change(b->run))
            return;
        Factor *kept = arena_new(&b->run->scratch, Factor);
        *kept = f;
        vec_push(&b->all, &b->run->scratch, kept);
        ptrmap_put(&b->factors, product->args.at[i], kept);
        ptrmap_put(&b->products, product, (void *)(uintptr_t)(i + 1));
        return;
    }
    scale_tell_stays(b->run, product, why);
}

static void pass_factor(Backward *b, const Expr *e)
{
    Factor *f = ptrmap_find(&b->factors, e);
    const Call *call = expr_as_call(e);
    ScaleKind kind = scale_kind(e);
    if (kind == SCALE_PRODUCT)
        begin_factor(b, call);
    if (!f || kind == SCALE_WEIGHTED)
        return;
    for (uint32_t i = 0; i < call->args.n; i++)
        if (operand_demand(b, call, i).at.axis >= 0)
            ptrmap_put(&b->factors, call->args.at[i], f);
}

/* ---- changing the weights --------------------------------------------------------------------------------------- */

/* e times the factor, brought to the channels of a tensor of type t. */
static Expr *times(Backward *b, const OpsMake *m, Expr *e, Factor *f, const Type *t, Channels at)
{
    Arena *arena = &b->run->scratch;
    if (!f->vector) {
        f->vector = scale_vector(m, f->old, f->n_squeezed, f->squeezed);
        if (f->n_squeezed && f->vector)
            vec_push(&f->slots, arena, &expr_as_call(f->vector)->args.at[0]);
    }
    Expr *factor = scale_spread(m, f->vector, t, at);
    Expr *product = factor ? ops_call2(m, "multiply", e, factor) : NULL;
    if (product && !f->n_squeezed)
        vec_push(&f->slots, arena,
                 factor == f->vector ? &expr_as_call(product)->args.at[1]
                                     : &expr_as_call(factor)->args.at[0]);
    return product;
}

/* The other operand of a sum or a bias. */
static Expr *scale_other(Backward *b, const OpsMake *m, const Call *old, const Call *now, Factor *f)
{
    bool bias = scale_kind(&old->base) == SCALE_BIAS;
    uint32_t i = bias || operand_demand(b, old, 0).at.axis >= 0 ? 1 : 0;
    if (!bias && operand_demand(b, old, i).at.axis >= 0)
        return NULL;
    const Type *t = expr_tensor_type(old->args.at[bias ? i : 1 - i]);
    Expr *args[2] = {now->args.at[0], now->args.at[1]};
    args[i] = times(b, m, args[i], f, t, bias ? (Channels){0, -1} : f->at);
    return args[i] ? expr_call(m->arena, m->span, now->callee, 2, args, now->attrs) : NULL;
}

static Expr *take_factor(Rewriter *rw, const Expr *old, Expr *now)
{
    Backward *b = rw->data;
    uintptr_t stays = (uintptr_t)ptrmap_find(&b->products, old);
    Factor *f = ptrmap_find(&b->factors, old);
    if (stays)
        return expr_as_call(now)->args.at[stays - 1];
    if (!f)
        return now;
    const Call *was = expr_as_call(old), *call = expr_as_call(now);
    OpsMake m = {rw->cx, &rw->module->arena, old->span};
    if (scale_kind(old) == SCALE_RELU)
        return now;
    if (scale_kind(old) != SCALE_WEIGHTED) {
        Expr *sum = scale_other(b, &m, was, call, f);
        return sum ? sum : now;
    }
    ScaleAxes axes;
    scale_axes(was, &axes);
    const Type *w = expr_tensor_type(was->args.at[1]);
    Expr *args[2] = {call->args.at[0], times(b, &m, call->args.at[1], f, w, axes.weight_out)};
    scale_tell_weight(b->run, was, f->old);
    return args[1] ? expr_call(m.arena, m.span, call->callee, 2, args, call->attrs) : NULL;
}

static Expr *change(Backward *b, Expr *root)
{
    Rewriter rw;
    rewriter_init(&rw, b->run->cx, b->run->module, take_factor, b);
    Expr *now = ir_rewrite(&rw, root);
    for (size_t i = 0; i < b->all.n && now; i++) {
        const Factor *f = b->all.at[i];
        for (size_t k = 0; k < f->slots.n; k++)
            *f->slots.at[k] = rewriter_now(&rw, f->old);
    }
    rewriter_deinit(&rw);
    return now;
}

static Function *fold(PassRun *run, const Def *def)
{
    Backward b = {.run = run};
    ir_walk(&def->fn->base, NULL, note_node, &b);
    if (!b.product)
        return def->fn;
    count_uses(&def->fn->base, &run->scratch, &b.uses);
    for (size_t i = 0; i < b.order.n; i++)
        note_demand(&b, b.order.at[i]);
    for (size_t i = b.order.n; i-- > 0;)
        pass_factor(&b, b.order.at[i]);
    Expr *now = change(&b, &def->fn->base);
    PtrMap *maps[] = {&b.demands, &b.factors, &b.products};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        ptrmap_deinit(maps[i]);
    return expr_as_function(now);
}

const Pass pass_backward_fold_scale_axis = {
    .name = "BackwardFoldScaleAxis",
    .doc = "Moves a factor for each channel behind a convolution or dense into the weight.",
    .opt_level = 3,
    .reorders = true,
    .needs_types = true,
    .order = ORDER_ALL,
    .rules = scale_rules,
    .function = fold,
};
