/* Writes a function for arguments of known extents.
 *
 *     def @main(%x: Tensor[(?, 4), float32]) { … }                 with shapes={"x": [8, 4]}
 *  => def @main(%x: Tensor[(8, 4), float32]) { … }
 *
 * Declared types that leave extents open are forgotten in its body, so that all follows from the parameters: variables, results, and
 * parameters of local functions, which have the types that they are called with. Definitions with open extents that it calls are put
 * in place first, for theirs follow from its calls. Then what decides shapes is computed (DynamicToStatic). */
#include "passes/specialize_shapes.h"

#include "ir/shapes.h"
#include "passes/types.h"
#include "typecheck/typecheck.h"

bool specialize_leaves_open(const Function *f)
{
    for (uint32_t i = 0; i < f->params.n; i++)
        if (shapes_unknown(type_find(f->params.at[i]->base.type)))
            return true;
    return false;
}

/* The definitions, of which those with open extents are marked to be put in place. */
static Module *with_marks(Module *m, const Name *entry)
{
    Module *now = module_derive(m);
    for (size_t i = 0; now && i < m->defs.n; i++) {
        const Def *def = &m->defs.at[i];
        const Function *f = def->fn;
        if (!f || def->name == entry || f->type_params.n || !specialize_leaves_open(f))
            continue;
        const Attrs *attrs =
            attrs_with(&now->arena, f->attrs, "Inline", (AttrValue){.kind = ATTR_INT, .i = 1});
        Function *marked = expr_function(&now->arena, f->base.span, f->type_params, f->params.n,
                                         f->params.at, attrs, f->ret_type, f->body);
        marked->base.type = f->base.type;
        module_define(now, def->name, marked, def->span, now);
    }
    return now;
}

typedef struct OwnCalls {
    const Def *def;
    PtrMap callees; /* of calls with the arguments that it is written for */
} OwnCalls;

/* Stops at another use of the function itself. */
static WalkNext find_other_use(void *data, const Expr *e)
{
    OwnCalls *o = data;
    const Call *call = expr_as_call(e);
    const GlobalVar *g = expr_as_global(call ? call->callee : e);
    if (!g || g->name != o->def->name)
        return WALK_ON;
    if (!call)
        return ptrmap_has(&o->callees, e) ? WALK_ON : WALK_STOP;
    for (uint32_t i = 0; i < call->args.n; i++)
        if (type_find(call->args.at[i]->type) != type_find(o->def->fn->params.at[i]->base.type))
            return WALK_STOP;
    ptrmap_put(&o->callees, call->callee, o);
    return WALK_ON;
}

/* Whether it calls itself, if at all, with arguments of its own types alone. */
static bool keeps_shapes(const Def *def)
{
    OwnCalls o = {.def = def};
    bool keeps = ir_walk(def->fn->body, find_other_use, NULL, &o);
    ptrmap_deinit(&o.callees);
    return keeps;
}

typedef struct Loosening {
    const Function *whole;
    bool functions; /* types of local functions too */
} Loosening;

static bool says_little(const Type *t)
{
    return t && !type_is_static(t);
}

static WalkNext loosen(void *data, const Expr *e)
{
    const Loosening *l = data;
    const Let *let = expr_as_let(e);
    Function *f = expr_as_function(e);
    if (let && says_little(let->var->annotation) &&
        (l->functions || shapes_unknown(type_find(let->var->annotation))))
        let->var->annotation = NULL;
    if (f && f != l->whole && l->functions && !f->type_params.n) {
        for (uint32_t i = 0; i < f->params.n; i++)
            if (says_little(f->params.at[i]->annotation))
                f->params.at[i]->annotation = NULL;
        if (says_little(f->ret_type))
            f->ret_type = NULL;
    }
    return WALK_ON;
}

/* The module with the function over those types; NULL: it does not check. */
static Module *try_types(PassContext *pc, Module *m, const Def *def, const Type *const *types,
                         bool functions)
{
    Ctx *cx = pc->cx;
    Module *now = module_derive(m);
    Function *f = now ? expr_as_function(ir_copy(cx, now, &def->fn->base)) : NULL;
    for (uint32_t i = 0; f && i < f->params.n; i++)
        if (types[i])
            f->params.at[i]->annotation = types[i];
    if (f) {
        f->ret_type = NULL;
        ir_walk(&f->base, loosen, NULL, &(Loosening){f, functions});
        module_define(now, def->name, f, def->span, now);
    }
    Attempt attempt;
    attempt_begin(&attempt, cx);
    bool good = f && typecheck_module(cx, now, pc->env);
    attempt_end(&attempt, cx);
    if (good && keeps_shapes(module_find(now, def->name)))
        return now;
    module_release(now);
    return NULL;
}

static Module *quietly(PassContext *pc, Module *m, const char *pipeline)
{
    Attempt attempt;
    attempt_begin(&attempt, pc->cx);
    Module *now = m ? passes_run_text(pc, m, pipeline) : NULL;
    attempt_end(&attempt, pc->cx);
    module_release(m);
    return now;
}

static WalkNext find_use_of(void *data, const Expr *e)
{
    const GlobalVar *g = expr_as_global(e);
    return g && g->name == data ? WALK_STOP : WALK_ON;
}

/* Whether what it calls calls it, which would go on with the types that are declared. */
static bool is_used_elsewhere(const Module *m, const Name *name)
{
    for (size_t i = 0; i < m->defs.n; i++)
        if (m->defs.at[i].fn && m->defs.at[i].name != name &&
            !ir_walk(&m->defs.at[i].fn->base, find_use_of, NULL, (void *)name))
            return true;
    return false;
}

Module *specialize_shapes(PassContext *pc, Module *m, const Name *name, const Type *const *types)
{
    PassContext own = {.cx = pc->cx, .any_level = true, .exact = pc->exact, .env = pc->env};
    Module *placed = quietly(&own, with_marks(m, name), "InferType,Inline");
    const Def *def = placed ? module_find(placed, name) : NULL;
    Module *now = NULL;
    if (def && !is_used_elsewhere(placed, name)) {
        now = try_types(&own, placed, def, types, true);
        now = now ? now : try_types(&own, placed, def, types, false);
    }
    module_release(placed);
    return quietly(&own, now, "DynamicToStatic");
}

/* The parameter's type with the extents of the list; NULL where it is no tensor of such a shape. */
static const Type *type_of_list(Ctx *cx, const Type *t, const AttrValue *list)
{
    Dim dims[TENSOR_RANK_MOST];
    if (t->kind != TYPE_TENSOR || list->kind != ATTR_LIST || list->list.n != t->n)
        return NULL;
    for (uint32_t i = 0; i < t->n; i++) {
        if (list->list.at[i].kind != ATTR_INT || list->list.at[i].i < 0)
            return NULL;
        dims[i] = list->list.at[i].i;
    }
    const Type *now = type_tensor(cx, t->dtype, t->n, dims);
    return shapes_refined(t, now) == now ? now : NULL;
}

static bool types_of_params(PassRun *run, const Function *f, const Type **types)
{
    const AttrValue *wanted = attrs_find(run->params, "shapes");
    for (uint32_t i = 0; i + 1 < wanted->list.n; i += 2)
        for (uint32_t k = 0; k < f->params.n; k++) {
            const Var *p = f->params.at[k];
            if (!str_is(wanted->list.at[i].s, p->name->text))
                continue;
            const Type *t = type_find(p->base.type);
            types[k] = type_of_list(run->cx, t, &wanted->list.at[i + 1]);
            if (types[k])
                continue;
            diag_error(run->cx->diags, E0603_PIPELINE, run->where,
                       "`%%%s` is `%s`, which has no such shape", p->name->text,
                       type_str(run->cx, t));
            return false;
        }
    return true;
}

static bool specialize(PassRun *run, Module *old)
{
    const Name *name = run->context->meant ? run->context->meant : ctx_name(run->cx, "main");
    const Def *def = module_find(old, name);
    if (!def || !def->fn || attrs_find(run->params, "shapes")->list.n == 0) {
        pass_take(run, old);
        return true;
    }
    const Type **types = arena_new_array(&run->scratch, const Type *, def->fn->params.n + 1);
    if (!types || !types_of_params(run, def->fn, types))
        return false;
    Module *now = specialize_shapes(run->context, old, name, types);
    if (!now && !limit_hit(&run->cx->limits)) {
        Diag *d = diag_error(run->cx->diags, E0603_PIPELINE, run->where,
                             "`@%s` is not written for these shapes", name->text);
        diag_help(d,
                  "it is called with other shapes in turn, or its types do not go together then");
    }
    if (now)
        pass_take(run, now);
    module_release(now);
    return now != NULL;
}

static const OpAttr params[] = {
    {"shapes", ATTR_TYPE_DICT, .otherwise = {.kind = ATTR_LIST}, .names = ATTR_NAMES_PARAMETERS,
     .doc = "parameter of `@main` -> its extents"},
    {0},
};

const Pass pass_specialize_shapes = {
    .name = "SpecializeShapes",
    .doc = "Writes `@main` for arguments of these shapes, where its types leave extents open.",
    .opt_level = 0,
    .needs_types = true,
    .params = params,
    .module = specialize,
};
