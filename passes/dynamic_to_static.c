/* Writes operators whose shape is an argument as those whose shape is an attribute, where the argument is known.
 *
 *     dyn.reshape(%x, shape_of(%y, dtype="int64"), newshape=None)  on %y: (3, 2)  =>  reshape(%x, newshape=[3, 2])
 *
 * What this makes known is folded, in turns, until nothing changes. Results that are declared with a `?` take the type that their
 * function has now. */
#include "passes/facts.h"
#include "passes/fold.h"
#include "passes/types.h"

#include "stdlib/ops/ops.h"
#include "typecheck/typecheck.h"

#include <string.h>

#define ARGS_MOST 5

/* For each argument the attribute that it becomes; NULL: it stays an argument. The operator's name is that without "dyn.". */
static const struct {
    const char *op;
    const char *attrs[ARGS_MOST];
} forms[] = {
    {"dyn.reshape", {NULL, "newshape"}},
    {"dyn.squeeze", {NULL, "axis"}},
    {"dyn.expand_dims", {NULL, "axis"}},
    {"dyn.tile", {NULL, "reps"}},
    {"dyn.broadcast_to", {NULL, "shape"}},
    {"dyn.zeros", {"shape"}},
    {"dyn.ones", {"shape"}},
    {"dyn.full", {NULL, "shape"}},
    {"dyn.one_hot", {NULL, NULL, NULL, "depth"}},
    {"dyn.topk", {NULL, "k"}},
    {"dyn.strided_slice", {NULL, "begin", "end", "strides"}},
    {"dyn.nn.pad", {NULL, "pad_width"}},
    {"dyn.nn.upsampling", {NULL, "scale_h", "scale_w"}},
    {"dyn.nn.upsampling3d", {NULL, "scale_d", "scale_h", "scale_w"}},
    {"dyn.image.resize2d", {NULL, "size", "roi"}},
    {"dyn.sparse_to_dense", {NULL, NULL, NULL, "output_shape"}},
};

#define FORMS (sizeof forms / sizeof *forms)

static const OpAttr *find_schema(const Op *op, const char *key)
{
    for (const OpAttr *a = op->attrs; a && a->name; a++)
        if (!strcmp(a->name, key))
            return a;
    return NULL;
}

static AttrValue element(const TensorView *v, int64_t i, bool floating)
{
    return floating ? (AttrValue){.kind = ATTR_FLOAT, .f = tensor_get_double(&v->t, i)}
                    : (AttrValue){.kind = ATTR_INT, .i = tensor_get_int(&v->t, i)};
}

static AttrValue list_of(Arena *arena, const TensorView *v, int64_t from, int64_t n, bool floating)
{
    AttrValue *at = arena_alloc_must(arena, (size_t)n + 1, sizeof *at);
    for (int64_t i = 0; i < n; i++)
        at[i] = element(v, from + i, floating);
    return (AttrValue){.kind = ATTR_LIST, .list = {at, (uint32_t)n}};
}

/* The constant as a value of that attribute. */
static bool attr_of_constant(Arena *arena, const OpAttr *schema, const Constant *c, AttrValue *out)
{
    TensorView v;
    if (!value_view(&c->value, &v) || v.t.size > 4 * TENSOR_RANK_MOST)
        return false;
    bool floating = schema->type == ATTR_TYPE_FLOAT || schema->type == ATTR_TYPE_FLOATS;
    if (schema->type == ATTR_TYPE_INT || schema->type == ATTR_TYPE_FLOAT) {
        if (v.t.size != 1)
            return false;
        *out = element(&v, 0, floating);
        return true;
    }
    if (schema->type != ATTR_TYPE_INT_LISTS) {
        *out = list_of(arena, &v, 0, v.t.size, floating);
        return true;
    }
    int64_t rows = v.t.rank == 2 ? v.t.shape[0] : 0, width = rows ? v.t.size / rows : 0;
    AttrValue *at = arena_alloc_must(arena, (size_t)rows + 1, sizeof *at);
    for (int64_t i = 0; i < rows; i++)
        at[i] = list_of(arena, &v, i * width, width, false);
    *out = (AttrValue){.kind = ATTR_LIST, .list = {at, (uint32_t)rows}};
    return v.t.rank == 2;
}

/* What both operators call by the same name. */
static uint32_t copy_attrs(const Op *to, const Attrs *from, const char *const *made, Attr *attrs)
{
    uint32_t n = 0;
    for (uint32_t i = 0; from && i < from->n; i++) {
        bool taken = !find_schema(to, from->at[i].key);
        for (int k = 0; k < ARGS_MOST && !taken; k++)
            taken = made[k] && !strcmp(made[k], from->at[i].key);
        if (!taken)
            attrs[n++] = from->at[i];
    }
    return n;
}

static Expr *to_static(Ctx *cx, Module *module, const Call *call, const char *const *keys)
{
    OpsMake m = {cx, &module->arena, call->base.span};
    const char *name = expr_call_of_op(&call->base)->name + strlen("dyn.");
    const Op *op = op_find(cx, str_of(name));
    Expr *args[ARGS_MOST];
    Attr attrs[16];
    if (!op || call->args.n > ARGS_MOST || (call->attrs && call->attrs->n > 16 - ARGS_MOST))
        return NULL;
    uint32_t n = 0, n_attrs = copy_attrs(op, call->attrs, keys, attrs);
    for (uint32_t i = 0; i < call->args.n; i++) {
        const OpAttr *schema = keys[i] ? find_schema(op, keys[i]) : NULL;
        const Constant *c = schema ? expr_as_constant(call->args.at[i]) : NULL;
        if (!keys[i])
            args[n++] = call->args.at[i];
        else if (c && attr_of_constant(m.arena, schema, c, &attrs[n_attrs].value))
            attrs[n_attrs++].key = keys[i];
        else
            return NULL;
    }
    Expr *made = ops_call(&m, name, n, args, n_attrs, attrs);
    bool good = made && expr_try_type_ops(cx, made) && rel_agrees(made->type, call->base.type);
    return good ? made : NULL;
}

Expr *fold_shape_argument(Ctx *cx, Module *module, const Call *call)
{
    const Op *op = expr_call_of_op(&call->base);
    Expr *known = NULL;
    for (size_t i = 0; i < FORMS && op && !known; i++)
        if (!strcmp(forms[i].op, op->name))
            known = to_static(cx, module, call, forms[i].attrs);
    return known;
}

/* What a `let` binds to a constant is known where its variable is used. */
static Expr *known_variable(Rewriter *rw, const Expr *old)
{
    const Expr *value = ptrmap_find(rw->data, old);
    Expr *now = value ? rewriter_now(rw, value) : NULL;
    return now && now->kind == EXPR_CONSTANT ? now : NULL;
}

static Expr *make_static(Rewriter *rw, const Expr *old, Expr *now)
{
    Expr *known = NULL;
    if (now->kind == EXPR_VAR)
        known = known_variable(rw, old);
    else if (now->kind == EXPR_CALL && expr_try_type_ops(rw->cx, now))
        known = fold_shape_argument(rw->cx, rw->module, expr_as_call(now));
    now = known ? known : now;
    if (now->kind != EXPR_CALL || !expr_try_type_ops(rw->cx, now))
        return now;
    return fold_op_call(rw->cx, rw->module, expr_as_call(now), now, FOLD_NEVER | OP_QUANTISED);
}

static Function *static_function(PassRun *run, const Def *def)
{
    PtrMap lets = {0};
    Rewriter rw;
    note_lets(&def->fn->base, &lets);
    rewriter_init(&rw, run->cx, run->module, make_static, &lets);
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    ptrmap_deinit(&lets);
    return expr_as_function(now);
}

static const Pass one_turn = {
    .name = "DynamicToStatic", .order = ORDER_ALL, .function = static_function};

/* One turn: the operators, then what they made known. Takes m. */
static Module *turn(PassRun *run, Module *m)
{
    Module *now = pass_run_row(run, m, &one_turn);
    Module *folded = now ? pass_run_inner(run, now, "FoldConstant") : NULL;
    module_release(now);
    module_release(m);
    return folded;
}

/* ---- declared results ------------------------------------------------------------------------------------------------------------ */

/* A type variable is not dynamic, and a polymorphic function that calls itself needs what it declares. */
static bool has_unknown_extents(const Type *t)
{
    return t && type_has_unknown_extent(t);
}

static WalkNext drop_result(void *data, const Expr *e)
{
    (void)data;
    Function *f = expr_as_function(e);
    if (f && has_unknown_extents(f->ret_type))
        f->ret_type = NULL;
    return WALK_ON;
}

static Expr *copy_loosened(Ctx *cx, Module *to, const Expr *e)
{
    Expr *copy = ir_copy(cx, to, e);
    if (copy)
        ir_walk(copy, drop_result, NULL, NULL);
    return copy;
}

/* Whether that module, whose functions declare no result, found one for this definition; without one there is no doubt. */
static bool result_is_found(const Module *tried, const Def *def)
{
    const Def *found = tried ? module_find(tried, def->name) : NULL;
    const Type *t = found && found->fn->base.type ? type_find(found->fn->base.type) : NULL;
    return !tried || (t && t->kind == TYPE_FUNC && !t->open && !type_is_poison(t->result));
}

static bool copy_functions(Ctx *cx, Module *to, const Module *from, const Module *tried)
{
    for (size_t i = 0; i < from->defs.n; i++) {
        const Def *def = &from->defs.at[i];
        if (!def->fn || def->imported)
            continue;
        const Expr *e = &def->fn->base;
        bool keep = function_is_skipped(def->fn) || !result_is_found(tried, def);
        Expr *now = keep ? ir_copy(cx, to, e) : copy_loosened(cx, to, e);
        if (!now)
            return false;
        module_define(to, def->name, expr_as_function(now), def->span, to);
    }
    to->expr = from->expr ? copy_loosened(cx, to, from->expr) : NULL;
    return !to->expr == !from->expr;
}

/* A copy whose functions declare results only where `tried` found none; whether all types are found says `good`. */
static Module *try_types(PassRun *run, Module *m, const Module *tried, bool *good)
{
    Ctx *cx = run->cx;
    Attempt attempt;
    Module *now = module_derive(m);
    attempt_begin(&attempt, cx);
    *good =
        now && copy_functions(cx, now, m, tried) && typecheck_module(cx, now, run->context->env);
    attempt_end(&attempt, cx);
    return now;
}

/* The module with its types found anew, those of results as well: a declared `?` would go on to all who call. What needs its
 * declaration keeps it. Takes m; NULL after a diagnostic. */
static Module *with_found_types(PassRun *run, Module *m)
{
    bool good;
    Module *now = try_types(run, m, NULL, &good);
    if (now && !good && !limit_hit(&run->cx->limits)) {
        Module *tried = now;
        now = try_types(run, m, tried, &good);
        module_release(tried);
    }
    Module *taken = good ? now : limit_hit(&run->cx->limits) ? NULL : module_retain(m);
    if (!good)
        module_release(now);
    module_release(m);
    return taken;
}

static bool declares_dynamic(const Module *m)
{
    for (size_t i = 0; i < m->defs.n; i++) {
        const Function *f = m->defs.at[i].fn;
        if (f && !m->defs.at[i].imported && has_unknown_extents(f->ret_type))
            return true;
    }
    return false;
}

static bool has_changed(const Module *before, const Module *now)
{
    bool changed = before->expr != now->expr;
    for (size_t i = 0; i < now->defs.n && !changed; i++) {
        const Def *was = module_find(before, now->defs.at[i].name);
        changed = now->defs.at[i].fn && (!was || was->fn != now->defs.at[i].fn);
    }
    return changed;
}

static bool dynamic_to_static(PassRun *run, Module *old)
{
    Module *now = module_retain(old);
    if (declares_dynamic(now))
        now = with_found_types(run, now);
    for (bool more = true; more && now;) {
        Module *before = module_retain(now);
        now = turn(run, now);
        more = now && has_changed(before, now);
        if (more)
            now = with_found_types(run, now);
        module_release(before);
    }
    if (now)
        pass_take(run, now);
    module_release(now);
    return now != NULL;
}

const Pass pass_dynamic_to_static = {
    .name = "DynamicToStatic",
    .doc = "Writes operators whose shape is an argument with a shape that is known.",
    .opt_level = 2,
    .needs_types = true,
    .module = dynamic_to_static,
};
