/* Gives parameters of @main another extent along the axis of the batch, and infers all types anew.
 *
 *     def @main(%x: Tensor[(1, 4), float32]) { … }            with data={"x": 0}, batch_size=8
 *  => def @main(%x: Tensor[(8, 4), float32]) { … } */
#include "passes/change_extent.h"

#include <string.h>

Function *change_extents(PassRun *run, const Function *f,
                         const Type *(*change)(void *data, const Var *param), void *data)
{
    Function *now = expr_as_function(ir_copy(run->cx, run->module, &f->base));
    for (uint32_t i = 0; now && i < f->params.n; i++) {
        const Type *t = change(data, f->params.at[i]);
        if (t)
            now->params.at[i]->annotation = t;
    }
    if (now)
        now->ret_type = NULL;
    return now;
}

const Type *type_with_extent(Ctx *cx, const Type *t, int64_t axis, Dim extent)
{
    Dim dims[TENSOR_RANK_MOST];
    t = t ? type_find(t) : NULL;
    if (!t || t->kind != TYPE_TENSOR)
        return NULL;
    axis += axis < 0 ? t->n : 0;
    if (axis < 0 || axis >= (int64_t)t->n)
        return NULL;
    memcpy(dims, t->dims, t->n * sizeof *dims);
    dims[axis] = extent;
    return type_tensor(cx, t->dtype, t->n, dims);
}

static const Type *batch_of(void *data, const Var *param)
{
    PassRun *run = data;
    const AttrValue *wanted = attrs_find(run->params, "data");
    for (uint32_t i = 0; i + 1 < wanted->list.n; i += 2) {
        const AttrValue *name = &wanted->list.at[i], *axis = &wanted->list.at[i + 1];
        if (name->kind == ATTR_STRING && axis->kind == ATTR_INT &&
            str_is(name->s, param->name->text))
            return type_with_extent(run->cx, param->base.type, axis->i,
                                    attrs_int(run->params, "batch_size", 16));
    }
    return NULL;
}

static Function *change_batch(PassRun *run, const Def *def)
{
    if (strcmp(def->name->text, "main") != 0)
        return def->fn;
    return change_extents(run, def->fn, batch_of, run);
}

static const OpAttr params[] = {
    {"data", ATTR_TYPE_DICT, .otherwise = {.kind = ATTR_LIST}, .names = ATTR_NAMES_PARAMETERS,
     .doc = "parameter of `@main` -> the axis of the batch"},
    {"batch_size", ATTR_TYPE_INT, .otherwise = ATTR_DEFAULT_INT(16), .most = INT64_MAX,
     .doc = "the new extent"},
    {0},
};

const Pass pass_change_batch = {
    .name = "ChangeBatch",
    .doc = "Gives parameters of `@main` another batch size.",
    .opt_level = 0,
    .needs_types = true,
    .other_values = true,
    .params = params,
    .function = change_batch,
};
