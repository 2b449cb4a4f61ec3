/* Groups operator calls into primitive functions, the units of code generation.
 *
 *     exp(negative(%x))      becomes      fn (%p0: T, Primitive=1) -> T { %0 = negative(%p0); exp(%0) }(%x)
 *
 * Which calls belong together is worked out in fuse_graph.c; here each group becomes a function around its root. What comes from
 * other groups becomes a parameter, in the order of first use. */
#include "passes/facts.h"
#include "passes/fuse_graph.h"
#include "passes/pass.h"

#include "ir/op.h"

typedef struct Group {
    Vec(Var *) params;
    Vec(Expr *) args;
    bool decided, made;     /* whether it becomes a function, which is asked once */
    Buf names;              /* of its calls, with their categories, where somebody listens */
    uint32_t n;
    bool reshapes, others;  /* what its calls are */
    bool tensors;           /* one of them takes or gives more than numbers */
} Group;

typedef struct Fuse {
    PassRun *run;
    FuseGraph graph;
    PtrMap groups;          /* leader -> Group */
    bool link_params;       /* constants stay inside */
} Fuse;

static Group *group_of(Fuse *fuse, const FuseNode *lead)
{
    Group *group = ptrmap_find(&fuse->groups, lead);
    if (!group) {
        group = arena_new(&fuse->run->scratch, Group);
        ptrmap_put(&fuse->groups, lead, group);
    }
    return group;
}

static void tell_group(Fuse *fuse, const FuseNode *lead, const Group *group);

/* What code is made of: numbers are computed in registers, and operators without an expression by functions of their own. */
static bool is_kernel(Fuse *fuse, const FuseNode *lead)
{
    const Call *call = expr_as_call(lead->e);
    Group *group = group_of(fuse, lead);
    if (group->decided)
        return group->made;
    if (fuse->run->context->decided)
        tell_group(fuse, lead, group);
    bool kernel =
        !fuse->run->context->for_code || (group->tensors && (!call || call_has_elements(call)));
    group->decided = true;
    group->made = kernel && pass_may_change(fuse->run);
    return group->made;
}

static bool is_number(const Type *t)
{
    return t && t->kind == TYPE_TENSOR && t->n == 0;
}

static void note_tensors(Fuse *fuse)
{
    for (size_t i = 0; i < fuse->graph.nodes.n; i++) {
        const Expr *e = fuse->graph.nodes.at[i]->e;
        const Call *call = expr_as_call(e);
        bool numbers = is_number(e->type);
        for (uint32_t k = 0; call && k < call->args.n; k++)
            numbers &= is_number(call->args.at[k]->type);
        const FuseNode *lead = fuse_leader(&fuse->graph, e);
        if (!numbers)
            group_of(fuse, lead)->tensors = true;
    }
}

static Expr *param_for(Fuse *fuse, Group *group, Expr *arg, const Type *type)
{
    Arena *arena = &fuse->run->module->arena;
    for (size_t i = 0; i < group->args.n; i++)
        if (group->args.at[i] == arg)
            return &group->params.at[i]->base;
    Buf name = {0};
    buf_printf(&name, "p%zu", group->params.n);
    Var *v = expr_var(arena, arg->span, ctx_name(fuse->run->cx, buf_text(&name)), type);
    buf_deinit(&name);
    vec_push(&group->params, &fuse->run->scratch, v);
    vec_push(&group->args, &fuse->run->scratch, arg);
    return &v->base;
}

/* An operand as the group sees it: what belongs to it in place, the rest through a parameter. */
static Expr *operand(Rewriter *rw, const FuseNode *lead, const Expr *old)
{
    Fuse *fuse = rw->data;
    Expr *now = rewriter_now(rw, old);
    const FuseNode *from = fuse_leader(&fuse->graph, old);
    if (from == lead || (fuse->link_params && now->kind == EXPR_CONSTANT))
        return now;
    return param_for(fuse, group_of(fuse, lead), now, old->type);
}

/* The same elements of its only tensor: what reads another for its shape is not what later passes leave out. */
static bool is_reshape(const Op *op)
{
    return op->flags & OP_RESHAPE && (op_arity(op) == 1 || op->flags & OP_SHAPE_FROM_DATA);
}

static Expr *make_function(Rewriter *rw, const FuseNode *lead, const Expr *old, Expr *body)
{
    Fuse *fuse = rw->data;
    Arena *arena = &rw->module->arena;
    Group *group = group_of(fuse, lead);
    AttrValue one = {.kind = ATTR_INT, .i = 1};
    const Attrs *attrs = attrs_with(arena, NULL, "Primitive", one);
    if (group->reshapes && !group->others)
        attrs = attrs_with(arena, attrs, "relay.reshape_only", one);
    Function *f = expr_function(arena, old->span, (TypeVarList){0}, (uint32_t)group->params.n,
                                group->params.at, attrs, old->type, body);
    return expr_call(arena, old->span, &f->base, (uint32_t)group->args.n, group->args.at, NULL);
}

static Expr *fuse_call(Rewriter *rw, const Expr *old, Expr *now)
{
    Fuse *fuse = rw->data;
    const Call *call = expr_as_call(old);
    const Op *op = expr_call_of_op(old);
    if (!op)
        return now;
    if (op->flags & OP_NON_COMPUTATIONAL)
        return now;
    if (op == op_find(rw->cx, str_of("annotation.stop_fusion")))
        return expr_as_call(now)->args.at[0];
    const FuseNode *lead = fuse_leader(&fuse->graph, old);
    if (!is_kernel(fuse, lead))
        return now;
    Expr **args = arena_new_array(&rw->module->arena, Expr *, call->args.n);
    for (uint32_t i = 0; i < call->args.n; i++)
        args[i] = operand(rw, lead, call->args.at[i]);
    Group *group = group_of(fuse, lead);
    group->reshapes |= is_reshape(op);
    group->others |= !is_reshape(op);
    Expr *made =
        expr_call(&rw->module->arena, old->span, call->callee, call->args.n, args, call->attrs);
    return lead->e == old ? make_function(rw, lead, old, made) : made;
}

static Expr *fuse_tuple(Rewriter *rw, const Expr *old, Expr *now)
{
    Fuse *fuse = rw->data;
    const Tuple *t = expr_as_tuple(old);
    const FuseNode *lead = fuse_leader(&fuse->graph, old);
    if (lead->e == old || !is_kernel(fuse, lead))
        return now;
    Expr **fields = arena_new_array(&rw->module->arena, Expr *, t->fields.n);
    for (uint32_t i = 0; i < t->fields.n; i++)
        fields[i] = operand(rw, lead, t->fields.at[i]);
    return expr_tuple(&rw->module->arena, old->span, t->fields.n, fields);
}

static Expr *fuse_tuple_get(Rewriter *rw, const Expr *old, Expr *now)
{
    Fuse *fuse = rw->data;
    const TupleGet *t = expr_as_tuple_get(old);
    const FuseNode *lead = fuse_leader(&fuse->graph, old);
    bool inside = fuse_leader(&fuse->graph, t->tuple) == lead;
    if ((lead->e == old && !inside) || !is_kernel(fuse, lead))
        return now;
    Expr *made =
        expr_tuple_get(&rw->module->arena, old->span, operand(rw, lead, t->tuple), t->index);
    return lead->e == old ? make_function(rw, lead, old, made) : made;
}

static Expr *fuse_node(Rewriter *rw, const Expr *old, Expr *now)
{
    if (old->kind == EXPR_CALL)
        return fuse_call(rw, old, now);
    if (old->kind == EXPR_TUPLE)
        return fuse_tuple(rw, old, now);
    if (old->kind == EXPR_TUPLE_GET)
        return fuse_tuple_get(rw, old, now);
    return now;
}

static bool enter_node(Rewriter *rw, const Expr *old, Expr **now)
{
    (void)rw;
    const Function *f = expr_as_function(old);
    *now = (Expr *)(uintptr_t)old;
    return f && (function_is_primitive(f) || attrs_find(f->attrs, "Compiler"));
}

/* ---- what was decided ------------------------------------------------------------------------------------------------------ */

enum { RULE_GROUP = FUSE_STOP_FULL + 1 };

static const PassRule rules[] = {
    [FUSE_STOP_NONE] = {"unused", "{at} is a group by itself: nothing uses it"},
    [FUSE_STOP_OPAQUE] = {"opaque", "{at} is a group by itself: its category is opaque"},
    [FUSE_STOP_RESULT] = {"result", "the group of {at} ends there: it is the result"},
    [FUSE_STOP_NEEDED] = {"needed",
                          "the group of {at} ends there: {with} needs its value, and is no call of "
                          "an operator"},
    [FUSE_STOP_SPLIT] = {"split",
                         "the group of {at} ends there: its uses do not come together again"},
    [FUSE_STOP_KIND] = {"kind",
                        "the group of {at} ends there: it is {a}, and what leads to {with} is {b}"},
    [FUSE_STOP_PATH] = {"path",
                        "the group of {at}, {a}, ends there: {with} behind it is in a group that "
                        "is {b}"},
    [FUSE_STOP_FULL] = {"full",
                        "the group of {at} ends there: together with {with} it would have too "
                        "many calls"},
    [RULE_GROUP] = {"group", "one group of {b}: {a}"},
    {0},
};

static bool is_member(const FuseNode *n)
{
    const Op *op = expr_call_of_op(n->e);
    return op && !(op->flags & OP_NON_COMPUTATIONAL);
}

/* The calls of each group, in order. */
static void name_members(Fuse *fuse)
{
    for (size_t i = 0; i < fuse->graph.nodes.n && !limit_hit(&fuse->run->cx->limits); i++) {
        const FuseNode *n = fuse->graph.nodes.at[i];
        if (!is_member(n))
            continue;
        Group *group = group_of(fuse, fuse_leader(&fuse->graph, n->e));
        buf_printf(&group->names, "%s`%s` (%s)", group->n++ ? ", " : "",
                   expr_call_of_op(n->e)->name, fuse_pattern_name(n->pattern));
    }
}

static void tell_group(Fuse *fuse, const FuseNode *lead, const Group *group)
{
    Buf count = {0};
    PassEvent one = {.rule = &rules[RULE_GROUP], .at = lead->e, .a = buf_text(&group->names)};
    buf_printf(&count, "%u calls", (unsigned)group->n);
    one.b = buf_text(&count);
    if (group->n > 1)
        pass_decides(fuse->run, one);
    PassEvent stop = {.at = lead->e, .a = fuse_pattern_name(lead->group)};
    stop.rule = &rules[fuse_stop(&fuse->graph, lead, &stop.with)];
    const FuseNode *met = stop.with ? fuse_leader(&fuse->graph, stop.with) : NULL;
    stop.b = fuse_pattern_name(stop.rule == &rules[FUSE_STOP_PATH] && met ? met->group
                                                                          : lead->dom_pattern);
    pass_decides(fuse->run, stop);
    buf_deinit(&count);
}

static Function *fuse_function(PassRun *run, const Def *def)
{
    const PassContext *pc = run->context;
    int64_t level = attrs_int(run->params, "fuse_opt_level", -1);
    Fuse fuse = {.run = run, .link_params = attrs_bool(pc->config, "relay.FuseOps.link_params")};
    Rewriter rw;
    if (function_is_primitive(def->fn))
        return def->fn;
    fuse_graph_init(
        &fuse.graph, def->fn,
        (FuseWish){.limits = &run->cx->limits,
                   .cx = run->cx,
                   .fuse = (level < 0 ? pc->opt_level : level) > 0,
                   .for_code = pc->for_code,
                   .for_card = pc->for_card,
                   .most = (uint32_t)attrs_int(pc->config, "relay.FuseOps.max_depth", 256)});
    if (pc->for_code)
        note_tensors(&fuse);
    if (pc->decided)
        name_members(&fuse);
    rewriter_init(&rw, run->cx, run->module, fuse_node, &fuse);
    rw.enter = enter_node;
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    fuse_graph_deinit(&fuse.graph);
    for (size_t i = 0; i < fuse.groups.n; i++)
        buf_deinit(&((Group *)fuse.groups.entries[i].value)->names);
    ptrmap_deinit(&fuse.groups);
    return expr_as_function(now);
}

static const OpAttr params[] = {
    {"fuse_opt_level", ATTR_TYPE_INT, .otherwise = ATTR_DEFAULT_INT(-1), .least = -1,
     .most = OPT_LEVEL_MOST,
     .doc = "0: every call by itself; more: together; -1: as the context's opt_level"},
    {0},
};

const Pass pass_fuse_ops = {
    .name = "FuseOps",
    .doc = "Groups operator calls into the functions that become kernels.",
    .opt_level = 0,
    .needs_types = true,
    .order = ORDER_SEVERAL,
    .params = params,
    .rules = rules,
    .function = fuse_function,
};
