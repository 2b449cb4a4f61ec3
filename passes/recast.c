/* Computes some operators of @main on another element type.
 *
 *     nn.conv2d(%x, %w)                                        with dtype="int8", out_dtype="int32"
 *  => cast(nn.conv2d(cast(%x, dtype="int8"), cast(%w, dtype="int8"), out_dtype="int32"), dtype="float32") */
#include "passes/pass.h"
#include "passes/types.h"

#include "stdlib/ops/ops.h"

#include <string.h>

typedef struct Recast {
    PassRun *run;
    int64_t at, n; /* the number of the layer, and how many there are */
} Recast;

static bool is_layer(PassRun *run, const Expr *e)
{
    const Op *op = expr_call_of_op(e);
    const AttrValue *ops = attrs_find(run->params, "ops");
    for (uint32_t i = 0; op && i < ops->list.n; i++)
        if (str_is(ops->list.at[i].s, op->name))
            return true;
    return false;
}

static WalkNext count_layer(void *data, const Expr *e)
{
    Recast *r = data;
    r->n += is_layer(r->run, e);
    return WALK_ON;
}

static bool is_skipped(const Recast *r, int64_t layer)
{
    const AttrValue *skipped = attrs_find(r->run->params, "skip_layers");
    for (uint32_t i = 0; i < skipped->list.n; i++) {
        int64_t v = skipped->list.at[i].i;
        if (layer == (v < 0 ? v + r->n : v))
            return true;
    }
    return false;
}

static Expr *recast(Rewriter *rw, const Expr *old, Expr *now)
{
    Recast *r = rw->data;
    const Type *t = expr_tensor_type(old);
    expr_keep_type(now, old);
    if (!is_layer(r->run, old) || !t || is_skipped(r, r->at++))
        return now;
    OpsMake m = {rw->cx, &rw->module->arena, now->span};
    const Call *call = expr_as_call(now);
    DType to = attrs_dtype(r->run->params, "dtype");
    Expr **args = arena_copy(m.arena, call->args.at, call->args.n * sizeof *args);
    for (uint32_t i = 0; i < call->args.n; i++)
        if (expr_tensor_type(expr_as_call(old)->args.at[i]))
            args[i] = ops_cast(&m, args[i], to);
    const Attrs *attrs = call->attrs;
    if (attrs_find(attrs, "out_dtype"))
        attrs = attrs_with(m.arena, attrs, "out_dtype",
                           ops_attr_dtype(&m, "", attrs_dtype(r->run->params, "out_dtype")).value);
    Expr *e = expr_call(m.arena, now->span, call->callee, call->args.n, args, attrs);
    return ops_cast(&m, e, t->dtype);
}

static Function *recast_main(PassRun *run, const Def *def)
{
    Recast r = {.run = run};
    Rewriter rw;
    if (strcmp(def->name->text, "main") != 0)
        return def->fn;
    ir_walk(&def->fn->base, NULL, count_layer, &r);
    rewriter_init(&rw, run->cx, run->module, recast, &r);
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    return expr_as_function(now);
}

static const AttrValue ops_default[] = {{.kind = ATTR_STRING, .s = {"nn.conv2d", 9}}};

static const OpAttr params[] = {
    {"dtype", ATTR_TYPE_DTYPE, .required = true, .doc = "the type of the arguments"},
    {"out_dtype", ATTR_TYPE_DTYPE, .required = true, .doc = "the type to sum in"},
    {"ops", ATTR_TYPE_STRINGS, .otherwise = ATTR_DEFAULT_LIST(ops_default),
     .names = ATTR_NAMES_OPERATORS, .doc = "which operators"},
    {"skip_layers", ATTR_TYPE_INTS, .otherwise = {.kind = ATTR_LIST},
     .doc = "numbers of calls of them that stay; negative ones count from the end"},
    {0},
};

const Pass pass_recast = {
    .name = "recast",
    .doc = "Computes some operators of `@main` on another element type.",
    .opt_level = 0,
    .needs_types = true,
    .other_values = true,
    .params = params,
    .function = recast_main,
};
