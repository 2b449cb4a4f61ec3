/* Moves a factor for each channel in front of a convolution or dense into the weight.
 *
 *     nn.conv2d(multiply(%x, %s), %w, …)        with one element of %s: (2, 1, 1) a channel
 *  => nn.conv2d(%x, multiply(%w, expand_dims(squeeze(%s, axis=[1, 2]), axis=1, num_newaxis=2)), …)
 *
 * First, from the results to the inputs, what each value may leave out: what all its uses can do without. Then the factors move. */
#include "passes/fold_scale.h"
#include "passes/types.h"

typedef struct Forward {
    PassRun *run;
    Vec(const Expr *) order; /* operands first */
    bool product; /* there is one */
    PtrMap demands;          /* node -> Demand */
    PtrMap scales;           /* node whose factor was left out -> the factor, a vector */
} Forward;

/* ---- what may be left out ------------------------------------------------------------------------------------- */

static WalkNext note_node(void *data, const Expr *e)
{
    Forward *f = data;
    vec_push(&f->order, &f->run->scratch, e);
    f->product |= scale_kind(e) == SCALE_PRODUCT;
    return WALK_ON;
}

static void demand(Forward *f, const Expr *e, Demand d)
{
    void **slot = ptrmap_slot(&f->demands, e);
    if (!slot)
        return;
    Demand *had = *slot;
    if (!had) {
        *slot = had = arena_new(&f->run->scratch, Demand);
        *had = d;
    } else {
        if (had->at.axis != d.at.axis || had->at.block != d.at.block)
            had->at = DEMAND_NONE.at;
        had->positive |= d.positive;
        had->divides |= d.divides;
    }
}

static Demand demanded(const Forward *f, const Expr *e)
{
    const Demand *d = ptrmap_find(&f->demands, e);
    return d ? *d : DEMAND_NONE;
}

static void demand_nothing(void *data, Expr *const *slot)
{
    demand(data, *slot, DEMAND_NONE);
}

/* Which operand of a sum has the factor; the other is the same along the other axes. -1: none. */
static int scaled_operand(const Call *sum, Channels at)
{
    int64_t squeezed[TENSOR_RANK_MOST];
    int n;
    const Type *t[2] = {expr_tensor_type(sum->args.at[0]), expr_tensor_type(sum->args.at[1])};
    for (int i = 0; t[0] && t[1] && i < 2; i++)
        if (scale_matches(t[i], t[1 - i], at, squeezed, &n))
            return i;
    return -1;
}

static void demand_of_operands(Forward *f, const Expr *e)
{
    const Call *call = expr_as_call(e);
    ScaleKind kind = scale_kind(e);
    Demand d = demanded(f, e);
    ScaleAxes axes;
    if (kind == SCALE_WEIGHTED && scale_axes(call, &axes)) {
        bool known = scale_is_known(f->run, call->args.at[1]);
        demand(f, call->args.at[0], known ? (Demand){.at = axes.in} : DEMAND_NONE);
        demand(f, call->args.at[1], DEMAND_NONE);
    } else if (kind == SCALE_RELU && d.at.axis >= 0) {
        demand(f, call->args.at[0], (Demand){d.at, true, d.divides});
    } else if (kind == SCALE_SUM && d.at.axis >= 0) {
        int i = scaled_operand(call, d.at);
        d.divides = true;
        demand(f, call->args.at[0], i == 0 ? d : DEMAND_NONE);
        demand(f, call->args.at[1], i == 1 ? d : DEMAND_NONE);
    } else {
        ir_children(e, demand_nothing, f);
    }
}

/* ---- moving ---------------------------------------------------------------------------------------------------- */

static Expr *with_arg(const OpsMake *m, const Call *call, uint32_t i, Expr *arg)
{
    Expr **args = arena_copy(m->arena, call->args.at, call->args.n * sizeof *args);
    if (!args || !arg)
        return NULL;
    args[i] = arg;
    return expr_call(m->arena, m->span, call->callee, call->args.n, args, call->attrs);
}

/* A product that need not be made: its value without the factor. */
static Expr *leave_out(Forward *f, const OpsMake *m, const Call *old, const Call *now)
{
    Demand d = demanded(f, &old->base);
    const Type *t[2] = {expr_tensor_type(old->args.at[0]), expr_tensor_type(old->args.at[1])};
    int64_t squeezed[TENSOR_RANK_MOST];
    int n;
    const char *why = "not all that uses it has a weight that takes a factor for each channel";
    for (int i = 0; d.at.axis >= 0 && t[0] && t[1] && i < 2; i++) {
        bool fits = scale_matches(t[i], t[1 - i], d.at, squeezed, &n);
        why = scale_stop(f->run, d, fits, now->args.at[1 - i]);
        if (why)
            continue;
        scale_tell_goes(f->run, old, old->args.at[1 - i]);
        if (!pass_may_change(f->run))
            return NULL;
        ptrmap_put(&f->scales, old, scale_vector(m, now->args.at[1 - i], n, squeezed));
        return now->args.at[i];
    }
    scale_tell_stays(f->run, old, why);
    return NULL;
}

static Expr *scale_weight(const OpsMake *m, const Call *old, const Call *now, Expr *scale)
{
    ScaleAxes axes;
    scale_axes(old, &axes);
    const Type *w = expr_tensor_type(old->args.at[1]);
    Expr *factor = scale_spread(m, scale, w, axes.weight_in);
    return with_arg(m, now, 1, ops_call2(m, "multiply", now->args.at[1], factor));
}

/* x * s + b = (x + b / s) * s */
static Expr *divide_other(const OpsMake *m, const Call *old, const Call *now, uint32_t i,
                          Channels at, Expr *scale)
{
    Expr *factor = scale_spread(m, scale, expr_tensor_type(old->args.at[i]), at);
    return with_arg(m, now, 1 - i, ops_call2(m, "divide", now->args.at[1 - i], factor));
}

static Expr *move(Rewriter *rw, const Expr *old, Expr *now)
{
    Forward *f = rw->data;
    ScaleKind kind = scale_kind(old);
    if (kind == SCALE_OTHER || kind == SCALE_BIAS)
        return now;
    const Call *was = expr_as_call(old), *call = expr_as_call(now);
    OpsMake m = {rw->cx, &rw->module->arena, old->span};
    if (kind == SCALE_PRODUCT) {
        Expr *value = leave_out(f, &m, was, call);
        return value ? value : now;
    }
    for (uint32_t i = 0; i < was->args.n; i++) {
        Expr *scale = ptrmap_find(&f->scales, was->args.at[i]);
        if (!scale)
            continue;
        if (kind == SCALE_WEIGHTED) {
            scale_tell_weight(f->run, was, scale);
            return scale_weight(&m, was, call, scale);
        }
        ptrmap_put(&f->scales, old, scale);
        return kind == SCALE_RELU ? now
                                  : divide_other(&m, was, call, i, demanded(f, old).at, scale);
    }
    return now;
}

static Function *fold(PassRun *run, const Def *def)
{
    Forward f = {.run = run};
    Rewriter rw;
    ir_walk(&def->fn->base, NULL, note_node, &f);
    if (!f.product)
        return def->fn;
    for (size_t i = f.order.n; i-- > 0;)
        demand_of_operands(&f, f.order.at[i]);
    rewriter_init(&rw, run->cx, run->module, move, &f);
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    ptrmap_deinit(&f.demands);
    ptrmap_deinit(&f.scales);
    return expr_as_function(now);
}

const Pass pass_forward_fold_scale_axis = {
    .name = "ForwardFoldScaleAxis",
    .doc = "Moves a factor for each channel in front of a convolution or dense into the weight.",
    .opt_level = 3,
    .reorders = true,
    .needs_types = true,
    .order = ORDER_ALL,
    .rules = scale_rules,
    .function = fold,
};
