/* Versions of @main for some extents of an axis, and a choice between them when it runs.
 *
 *     def @main(%x: Tensor[(1, 3), float32]) { … }                         with buckets=[1, 4]
 *  => def @main(%x: Tensor[(?, 3), float32]) {
 *       %0 = take(shape_of(%x, dtype="int32"), 0);
 *       if (equal(%0, 4)) { @main_4(reshape(%x, newshape=[4, 3])) } else { if (equal(%0, 1)) { … } else { @main_any(%x) } }
 *     }
 *
 * @main_any takes every extent. */
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
static Expr *running_extent(Dispatch *d, Var *const *params)
{
    int64_t at[64];
    attrs_ints(d->run->params, "input_indices", at, 64);
    Expr *x = &params[at[0]]->base;
    Attr dtype = ops_attr_text(&d->m, "dtype", "int32");
    Expr *shape = ops_call(&d->m, "shape_of", 1, &x, 1, &dtype);
    return shape ? ops_call2(&d->m, "take", shape, number(d, d->axis)) : NULL;
}

/* A call of a version; what it takes has the extents that it wants. */
static Expr *call_version(Dispatch *d, const Name *name, Dim extent, Var *const *params)
{
    uint32_t n = d->main->params.n;
    Expr **args = arena_new_array(&d->run->scratch, Expr *, n + 1);
    for (uint32_t i = 0; args && i < n; i++) {
        const Var *was = d->main->params.at[i];
        args[i] = &params[i]->base;
        const Type *t = is_chosen(d, was)
                            ? type_with_extent(d->run->cx, was->base.type, d->axis, extent)
                            : NULL;
        if (!t || extent == DIM_ANY)
            continue;
        Attr shape = ops_attr_ints(&d->m, "newshape", t->n, t->dims);
        args[i] = ops_call(&d->m, "reshape", 1, &args[i], 1, &shape);
    }
    return args ? expr_call(d->m.arena, d->m.span, expr_global(d->m.arena, d->m.span, name), n,
                            args, NULL)
                : NULL;
}

static const Type *with_any(void *data, const Var *param)
{
    Dispatch *d = data;
    d->extent = DIM_ANY;
    return with_extent(d, param);
}

/* The parameters of the new @main: any extent goes. */
static Var **open_params(Dispatch *d)
{
    Var **params = arena_new_array(d->m.arena, Var *, d->main->params.n + 1);
    for (uint32_t i = 0; params && i < d->main->params.n; i++) {
        const Var *was = d->main->params.at[i];
        const Type *t = with_any(d, was);
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
                  .axis = attrs_int(run->params, "axis", 0)};
    const AttrValue *buckets = attrs_find(run->params, "buckets");
    if (strcmp(def->name->text, "main") != 0 || buckets->list.n == 0)
        return def->fn;
    if (!can_dispatch(&d, buckets))
        return NULL;
    Var **params = open_params(&d);
    Expr *extent = params ? running_extent(&d, params) : NULL;
    const Name *any = make_version(&d, DIM_ANY);
    Expr *body = extent && any ? call_version(&d, any, DIM_ANY, params) : NULL;
    for (uint32_t i = 0; body && i < buckets->list.n; i++) {
        int64_t bucket = buckets->list.at[i].i;
        const Name *name = make_version(&d, bucket);
        Expr *call = name ? call_version(&d, name, bucket, params) : NULL;
        Expr *is = ops_call2(&d.m, "equal", extent, number(&d, bucket));
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
