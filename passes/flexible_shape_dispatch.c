/* Versions of @main for some extents of an axis, and a choice between them when it runs.
 *
 *     def @main(%x: Tensor[(1, 3), float32]) { … }                         with buckets=[1, 4]
 *  => def @main(%x: Tensor[(?, 3), float32]) {
 *       %0 = take(shape_of(%x, dtype="int32"), 0);
 *       if (equal(%0, 4)) { @main_4(reshape(%x, newshape=[4, 3])) } else { if (equal(%0, 1)) { … } else { @main_any(%x) } }
 *     }
 *
 * @main_any takes every extent. With auto_pad an extent that has no version is padded to the next that has one. */
#include "passes/change_extent.h"
#include "passes/types.h"

#include "stdlib/ops/ops.h"

#include <stdio.h>
#include <string.h>

typedef struct Dispatch {
    PassRun *run;
    OpsMake m;
    const Function *main;
    int64_t axis;
    bool pads;
    Dim extent; /* of the version that is made */
} Dispatch;

static bool is_chosen(const Dispatch *d, const Var *param)
{
    int64_t at[64];
    int n = attrs_ints(d->run->params, "input_indices", at, 64);
    for (int i = 0; i < n; i++)
        if (at[i] >= 0 && at[i] < (int64_t)d->main->params.n && d->main->params.at[at[i]] == param)
            return true;
    return false;
}

static const Type *with_extent(void *data, const Var *param)
{
    const Dispatch *d = data;
    if (!is_chosen(d, param))
        return NULL;
    return type_with_extent(d->run->cx, param->base.type, d->axis, d->extent);
}

/* The version for an extent, as a function of the module. */
static const Name *make_version(Dispatch *d, Dim extent)
{
    char text[64];
    PassRun *run = d->run;
    if (extent == DIM_ANY)
        snprintf(text, sizeof text, "main_any");
    else
        snprintf(text, sizeof text, "main_%lld", (long long)extent);
    d->extent = extent;
    const Name *name = ctx_name(run->cx, text);
    Function *f = change_extents(run, d->main, with_extent, d);
    if (!f)
        return NULL;
    module_define(run->module, name, f, f->base.span, run->module);
    return name;
}

static Expr *number(Dispatch *d, int64_t v)
{
    return expr_constant(d->m.arena, d->m.span,
                         value_scalar_int((DType){DTYPE_CODE_INT, 32, 1}, v));
}

/* The extent of the first chosen parameter, when it runs. */
static Expr *running_extent(Dispatch *d, Expr *const *args)
{
    int64_t at[64];
    attrs_ints(d->run->params, "input_indices", at, 64);
    Expr *x = args[at[0]];
    Attr dtype = ops_attr_text(&d->m, "dtype", "int32");
    Expr *shape = ops_call(&d->m, "shape_of", 1, &x, 1, &dtype);
    return shape ? ops_call2(&d->m, "take", shape, number(d, d->axis)) : NULL;
}

/* A call of a version; what it takes has the extents that it wants. */
static Expr *call_version(Dispatch *d, const Name *name, Dim extent, Expr *const *given)
{
    uint32_t n = d->main->params.n;
    Expr **args = arena_alloc_must(&d->run->scratch, n + 1, sizeof *args);
    for (uint32_t i = 0; i < n; i++) {
        const Var *was = d->main->params.at[i];
        args[i] = given[i];
        const Type *t = is_chosen(d, was)
                            ? type_with_extent(d->run->cx, was->base.type, d->axis, extent)
                            : NULL;
        if (!t || extent == DIM_ANY)
            continue;
        Attr shape = ops_attr_ints(&d->m, "newshape", t->n, t->dims);
        args[i] = ops_call(&d->m, "reshape", 1, &args[i], 1, &shape);
    }
    return expr_call(d->m.arena, d->m.span, expr_global(d->m.arena, d->m.span, name), n, args,
                     NULL);
}

/* Where the elements of the axis end: [axis, 1] of what is added before and behind each axis. */
static Expr *end_of_axis(Dispatch *d)
{
    int64_t two = 2;
    Tensor *t = tensor_new(&d->run->cx->limits, (DType){DTYPE_CODE_INT, 32, 1}, 1, &two);
    if (!t)
        return NULL;
    ((int32_t *)t->data)[0] = (int32_t)d->axis;
    ((int32_t *)t->data)[1] = 1;
    Value v = value_tensor(t);
    Expr *e = expr_constant(d->m.arena, d->m.span, v);
    value_release(v);
    return e;
}

/* x, padded to the bucket where its extent lies above the bucket before (0: there is none) and not above this one. */
static Expr *padded(Dispatch *d, Expr *x, const Type *t, Expr *extent, int64_t before,
                    int64_t bucket)
{
    const OpsMake *m = &d->m;
    double value = attrs_float(d->run->params, "pad_value");
    Expr *fits = ops_call2(m, "less_equal", extent, number(d, bucket));
    if (before)
        fits =
            ops_call2(m, "logical_and", fits, ops_call2(m, "greater", extent, number(d, before)));
    Attr zeros[2] = {ops_attr_ints(m, "shape", 2, (int64_t[]){t->n, 2}),
                     ops_attr_text(m, "dtype", "int32")};
    Expr *end = end_of_axis(d);
    Expr *parts[3] = {ops_call(m, "zeros", 0, NULL, 2, zeros), end,
                      ops_call2(m, "subtract", number(d, bucket), extent)};
    if (!end || !fits || !parts[0] || !parts[2])
        return NULL;
    Attr update = ops_attr_text(m, "mode", "update"),
         width = ops_attr_ints(m, "pad_width", 0, NULL);
    bool whole = value == (double)(int32_t)value;
    Expr *pad[3] = {x, ops_call(m, "scatter_nd", 3, parts, 1, &update),
                    whole ? number(d, (int64_t)value)
                          : ops_constant(m, (DType){DTYPE_CODE_FLOAT, 32, 1}, value)};
    Expr *now = ops_call(m, "dyn.nn.pad", 3, pad, 1, &width);
    return now ? expr_if(d->m.arena, d->m.span, fits, now, x) : NULL;
}

/* The arguments for a bucket. */
static Expr **args_for(Dispatch *d, Expr *const *args, Expr *extent, int64_t before, int64_t bucket)
{
    uint32_t n = d->main->params.n;
    Expr **now = arena_alloc_must(&d->run->scratch, n + 1, sizeof *now);
    for (uint32_t i = 0; i < n; i++) {
        const Var *was = d->main->params.at[i];
        now[i] = args[i];
        if (d->pads && is_chosen(d, was))
            now[i] = padded(d, args[i], type_find(was->base.type), extent, before, bucket);
        if (!now[i])
            return NULL;
    }
    return now;
}

static const Type *with_any(void *data, const Var *param)
{
    Dispatch *d = data;
    d->extent = DIM_ANY;
    return with_extent(d, param);
}

/* The parameters of the new @main: any extent goes; of what is padded nobody knows one. */
static Var **open_params(Dispatch *d)
{
    Var **params = arena_new_array(d->m.arena, Var *, d->main->params.n + 1);
    for (uint32_t i = 0; params && i < d->main->params.n; i++) {
        const Var *was = d->main->params.at[i];
        const Type *t = with_any(d, was);
        Dim any[TENSOR_RANK_MOST];
        for (uint32_t k = 0; t && d->pads && k < t->n; k++)
            any[k] = DIM_ANY;
        if (t && d->pads)
            t = type_tensor(d->run->cx, t->dtype, t->n, any);
        params[i] = expr_var(d->m.arena, was->base.span, was->name, t ? t : was->annotation);
    }
    return params;
}

static bool can_dispatch(const Dispatch *d, const AttrValue *buckets)
{
    bool good = d->main->params.n > 0;
    for (uint32_t i = 0; i < buckets->list.n; i++)
        good = good && buckets->list.at[i].i > 0;
    const AttrValue *inputs = attrs_find(d->run->params, "input_indices");
    good = good && inputs->list.n > 0 && inputs->list.n <= 64;
    for (uint32_t i = 0; good && i < inputs->list.n; i++) {
        int64_t at = inputs->list.at[i].i;
        good = at >= 0 && at < (int64_t)d->main->params.n &&
               type_with_extent(d->run->cx, d->main->params.at[at]->base.type, d->axis, 1);
    }
    if (good && d->pads && attrs_bool(d->run->params, "affects_output")) {
        Diag *cut = diag_error(d->run->cx->diags, E0603_PIPELINE, d->run->where,
                               "a result that the padding shows in is not cut");
        diag_help(cut, "`affects_output=False` says that it does not");
        return false;
    }
    if (good)
        return true;
    Diag *diag = diag_error(d->run->cx->diags, E0603_PIPELINE, d->run->where,
                            "`@main` has no such parameters with such an axis");
    diag_help(diag,
              "`buckets` are extents, `axis` an axis of each parameter whose number stands in "
              "`input_indices`");
    return false;
}

static Function *dispatch(PassRun *run, const Def *def)
{
    Dispatch d = {.run = run,
                  .m = {run->cx, &run->module->arena, def->fn->base.span},
                  .main = def->fn,
                  .axis = attrs_int(run->params, "axis", 0),
                  .pads = attrs_bool(run->params, "auto_pad")};
    const AttrValue *buckets = attrs_find(run->params, "buckets");
    if (strcmp(def->name->text, "main") != 0 || buckets->list.n == 0)
        return def->fn;
    if (!can_dispatch(&d, buckets))
        return NULL;
    Var **params = open_params(&d);
    if (!params)
        return NULL;
    Expr **args = arena_alloc_must(&run->scratch, def->fn->params.n + 1, sizeof *args);
    for (uint32_t i = 0; i < def->fn->params.n; i++)
        args[i] = &params[i]->base;
    Expr *extent = running_extent(&d, args);
    const Name *any = make_version(&d, DIM_ANY);
    Expr *body = extent && any ? call_version(&d, any, DIM_ANY, args) : NULL;
    for (uint32_t i = 0; body && i < buckets->list.n; i++) {
        int64_t bucket = buckets->list.at[i].i, before = i ? buckets->list.at[i - 1].i : 0;
        const Name *name = make_version(&d, bucket);
        Expr **now = args_for(&d, args, extent, before, bucket);
        Expr *call = name && now ? call_version(&d, name, bucket, now) : NULL;
        Expr *found = d.pads && now ? running_extent(&d, now) : extent;
        Expr *is = ops_call2(&d.m, "equal", found, number(&d, bucket));
        body = call && is ? expr_if(d.m.arena, d.m.span, is, call, body) : NULL;
    }
    return body ? expr_function(d.m.arena, d.m.span, def->fn->type_params, def->fn->params.n,
                                params, def->fn->attrs, NULL, body)
                : NULL;
}

static const AttrValue first_input[] = {{.kind = ATTR_INT, .i = 0}};

static const OpAttr params[] = {
    {"buckets", ATTR_TYPE_INTS, .otherwise = {.kind = ATTR_LIST},
     .doc = "the extents that have a version"},
    {"axis", ATTR_TYPE_INT, .otherwise = ATTR_DEFAULT_INT(0), .doc = "the axis that varies"},
    {"input_indices", ATTR_TYPE_INTS, .otherwise = ATTR_DEFAULT_LIST(first_input),
     .doc = "the numbers of the parameters of `@main` that have it"},
    {"auto_pad", ATTR_TYPE_BOOL, .otherwise = ATTR_DEFAULT_BOOL(false),
     .doc = "extents without a version are padded to the next that has one"},
    {"pad_value", ATTR_TYPE_FLOAT, .otherwise = ATTR_DEFAULT_FLOAT(0),
     .doc = "what they are padded with"},
    {"affects_output", ATTR_TYPE_BOOL, .otherwise = ATTR_DEFAULT_BOOL(true),
     .doc = "the result has the axis, too; matters only where inputs are padded"},
    {0},
};

const Pass pass_flexible_shape_dispatch = {
    .name = "FlexibleShapeDispatch",
    .doc = "Makes versions of `@main` for some extents, and chooses between them when it runs.",
    .opt_level = 0,
    .needs_types = true,
    .params = params,
    .function = dispatch,
};
