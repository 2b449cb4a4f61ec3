/* Evaluates what is known when the program is compiled.
 *
 *     let %a = 2 * 3; if (%a == 6) { %x + %a } else { %x }      becomes      add(%x, 6)
 *
 * Left alone: calls without arguments (`zeros`), stateful and non-computational operators, calls of functions, primitive functions,
 * results too large to keep in a program, and work that a compilation should not do. */
#include "passes/cost.h"
#include "passes/facts.h"
#include "passes/fold.h"
#include "passes/types.h"
#include "te/op_eval.h"

/* Elements of the largest result that becomes a constant. */
#define FOLD_MOST ((int64_t)1 << 24)

/* Operations on elements that one call may take: about half a second. */
#define FOLD_OPERATIONS 0x1p30

typedef struct Fold {
    PassRun *run;
    Places lets;            /* Var -> Let */
    unsigned kept;          /* flags of operators that are not folded */
    Purity purity;
    Totality total;
    PtrMap tuples;          /* Tuple -> what it was before its fields were folded */
    PtrMap stays; /* such a one -> the one field that may not go, + 1; 0: none; or SEVERAL */
} Fold;

static bool constant_value(Ctx *cx, const Expr *e, Value *out)
{
    const Constant *c = expr_as_constant(e);
    const Tuple *t = expr_as_tuple(e);
    if (c)
        *out = value_retain(c->value);
    if (!t)
        return c != NULL;
    Object *o = object_new(&cx->limits, &tuple_info, t->fields.n);
    for (uint32_t i = 0; o && i < t->fields.n; i++) {
        const Constant *field = expr_as_constant(t->fields.at[i]);
        if (!field) {
            value_release(value_object(o));
            return false;
        }
        object_set(o, i, value_retain(field->value));
    }
    *out = o ? value_object(o) : value_none();
    return o != NULL;
}

/* Tuples of tuples of a value that somebody gave; operators give far fewer. */
#define TUPLES_MOST 64

static Expr *value_expr(Arena *arena, Span span, Value v, int depth)
{
    TensorView view;
    if (v.kind != VALUE_TUPLE)
        return value_view(&v, &view) ? expr_constant(arena, span, v) : NULL;
    uint32_t n = object_n(v.object);
    Expr **fields = arena_new_array(arena, Expr *, n);
    for (uint32_t i = 0; i < n; i++) {
        fields[i] = depth < TUPLES_MOST
                        ? value_expr(arena, span, object_get(v.object, i), depth + 1)
                        : NULL;
        if (!fields[i])
            return NULL;
    }
    return expr_tuple(arena, span, n, fields);
}

Expr *fold_value_expr(Arena *arena, Span span, Value v)
{
    return value_expr(arena, span, v, 0);
}

static bool is_small(const Type *t)
{
    int64_t size = 1;
    if (!t)
        return false;
    t = type_find(t);
    if (t->kind == TYPE_TUPLE)
        for (uint32_t i = 0; i < t->n; i++)
            if (!is_small(t->parts[i]))
                return false;
    for (uint32_t i = 0; t->kind == TYPE_TENSOR && i < t->n; i++)
        size = t->dims[i] < 0 || size > FOLD_MOST ? size
               : t->dims[i] > FOLD_MOST && size   ? FOLD_MOST + 1
                                                  : size * t->dims[i];
    return size <= FOLD_MOST && (t->kind == TYPE_TENSOR || t->kind == TYPE_TUPLE);
}

/* A tensor of that type whose elements do not matter: one element, repeated by strides of zero. */
Value fold_any_of_type(Ctx *cx, const Type *t)
{
    t = t ? type_find(t) : NULL;
    if (!t || t->kind != TYPE_TENSOR || !type_is_static(t) || t->n > TENSOR_RANK_MOST)
        return value_none();
    int64_t strides[TENSOR_RANK_MOST] = {0};
    Tensor *one = tensor_new(&cx->limits, t->dtype, 0, NULL);
    Tensor *view = one ? tensor_view(one, (int32_t)t->n, t->dims, strides, 0) : NULL;
    tensor_release(one);
    return value_tensor(view);
}

/* What fails stays in the program, which says so if it ever comes there. */
Value fold_eval(Ctx *cx, const Op *op, const Attrs *attrs, Span span, uint32_t n, const Value *args)
{
    Attempt attempt;
    attempt_begin(&attempt, cx);
    Value v = op_eval(cx, op, attrs, span, n, args);
    attempt_end(&attempt, cx);
    return v;
}

static bool is_cheap(Ctx *cx, const Call *typed, const Op *op)
{
    Arena arena;
    TeCost cost;
    arena_init(&arena, &cx->limits);
    bool cheap = !call_cost(cx, &arena, typed, op, &cost) || cost.operations <= FOLD_OPERATIONS;
    arena_deinit(&arena);
    return cheap;
}

Expr *fold_op_call(Ctx *cx, Module *module, const Call *typed, Expr *now, unsigned kept)
{
    const Op *op = expr_call_of_op(now);
    const Call *call = expr_as_call(now);
    Value args[16];
    uint32_t n = op ? call->args.n : 0, have = 0;
    if (n == 0 || n > 16 || (op->flags & kept) || !is_small(typed->base.type))
        return now;
    for (; have < n; have++) {
        bool from_type = op->flags & OP_FROM_TYPE;
        if (from_type)
            args[have] = fold_any_of_type(cx, typed->args.at[have]->type);
        if (from_type ? value_is_none(args[have])
                      : !constant_value(cx, call->args.at[have], &args[have]))
            break;
    }
    Value v = have == n && is_cheap(cx, typed, op)
                  ? fold_eval(cx, op, call->attrs, now->span, n, args)
                  : value_none();
    for (uint32_t i = 0; i < have; i++)
        value_release(args[i]);
    if (value_is_none(v))
        return limit_hit(&cx->limits) ? NULL : now;
    Expr *folded = fold_value_expr(&module->arena, now->span, v);
    value_release(v);
    return folded;
}

static Expr *fold_typed(Rewriter *rw, const Expr *old, Expr *now)
{
    (void)old;
    const Call *call = expr_as_call(expr_type_ops(rw->cx, now));
    return call && now->type && expr_call_of_op(now)
               ? expr_type_ops(rw->cx, fold_op_call(rw->cx, rw->module, call, now, FOLD_NEVER))
               : now;
}

static bool skip_variables(Rewriter *rw, const Expr *old, Expr **now)
{
    (void)rw;
    *now = (Expr *)(uintptr_t)old;
    return old->kind != EXPR_CALL && old->kind != EXPR_TUPLE && old->kind != EXPR_TUPLE_GET &&
           old->kind != EXPR_CONSTANT && old->kind != EXPR_OP;
}

Expr *fold_new(Ctx *cx, Module *module, Expr *e)
{
    if (!e)
        return NULL;
    Rewriter rw;
    rewriter_init(&rw, cx, module, fold_typed, NULL);
    rw.enter = skip_variables;
    Expr *now = ir_rewrite(&rw, e);
    rewriter_deinit(&rw);
    return now;
}

/* For code an error counts as well: it comes, whatever the pipeline makes of the program. */
static bool may_go(Fold *fold, const Expr *e)
{
    return purity_of(&fold->purity, e) &&
           (!fold->run->context->for_code || total_of(&fold->total, e));
}

#define SEVERAL UINT32_MAX

/* The place + 1 of the one field that may not go; 0: all may. */
static uint32_t field_that_stays(Fold *fold, const Tuple *t)
{
    uint32_t stays = 0;
    for (uint32_t i = 0; stays != SEVERAL && i < t->fields.n; i++)
        if (!may_go(fold, t->fields.at[i]))
            stays = stays ? SEVERAL : i + 1;
    return stays;
}

/* What nobody takes from a tuple may still have to happen; one that nobody wrote is a constant. */
static bool others_may_go(Fold *fold, const Tuple *tuple, int64_t taken)
{
    const Tuple *t = ptrmap_find(&fold->tuples, tuple);
    if (!t)
        return true;
    if (!ptrmap_has(&fold->stays, t))
        ptrmap_put(&fold->stays, t, (void *)(uintptr_t)field_that_stays(fold, t));
    uint32_t stays = (uint32_t)(uintptr_t)ptrmap_find(&fold->stays, t);
    return stays == 0 || stays == taken + 1;
}

enum { RULE_CALL, RULE_LARGE, RULE_COSTLY, RULE_KEPT, RULE_USE, RULE_IF, RULE_FIELD };

static const PassRule rules[] = {
    [RULE_CALL] = {"call", "{at} is {made}: its operands are known"},
    [RULE_LARGE] = {"large",
                    "{at} stays, though its operands are known: the result has too many elements"},
    [RULE_COSTLY] = {"costly",
                     "{at} stays, though its operands are known: it takes too long, or fails"},
    [RULE_KEPT] =
        {"kept", "{at} stays, though its operands are known: operators of its kind are not folded"},
    [RULE_USE] = {"use", "each use of {at} is {made}"},
    [RULE_IF] = {"if", "the condition of {at} is known: {made} stays"},
    [RULE_FIELD] = {"field", "{at} is {made}, a field of a tuple that is known"},
    {0},
};

static bool operands_known(Ctx *cx, const Expr *now)
{
    const Call *call = expr_as_call(now);
    bool known = call && expr_call_of_op(now) && call->args.n > 0;
    for (uint32_t i = 0; known && i < call->args.n; i++) {
        Value v = value_none();
        known = constant_value(cx, call->args.at[i], &v);
        value_release(v);
    }
    return known;
}

/* What was done with a call, or why nothing was. */
static void tell_call(Fold *fold, const Expr *old, Expr *now, Expr *made)
{
    PassEvent e = {.rule = &rules[RULE_CALL], .at = old, .made = made};
    if (!fold->run->context->decided || !made)
        return;
    if (made == now) {
        if (!operands_known(fold->run->cx, now))
            return;
        bool kept = expr_call_of_op(now)->flags & fold->kept;
        e.rule = &rules[kept ? RULE_KEPT : is_small(old->type) ? RULE_COSTLY : RULE_LARGE];
        e.made = NULL;
    }
    pass_decides(fold->run, e);
}

static void tell(Fold *fold, int rule, const Expr *old, const Expr *now, const Expr *made)
{
    if (made != now)
        pass_decides(fold->run, (PassEvent){.rule = &rules[rule], .at = old, .made = made});
}

/* `zeros(…)` and the like; `typed` is it with its type. */
static bool is_creation(const Fold *fold, const Expr *e, const Expr *typed)
{
    const Op *op = expr_call_of_op(e);
    return op && expr_as_call(e)->args.n == 0 && !(op->flags & fold->kept) && is_small(typed->type);
}

/* For code, what is computed of constants and of zeros or ones alone is a constant too: alone, `zeros(…)` stays, since kernels make it in
 * passing. NULL where there are no such operands. */
static Expr *with_created(Rewriter *rw, const Call *old, Expr *now)
{
    const Fold *fold = rw->data;
    const Call *call = expr_as_call(now);
    bool known = fold->run->context->for_code && expr_call_of_op(now), any = false;
    for (uint32_t i = 0; known && i < call->args.n; i++) {
        bool made = is_creation(fold, call->args.at[i], old->args.at[i]);
        known = made || call->args.at[i]->kind == EXPR_CONSTANT;
        any |= made;
    }
    if (!known || !any)
        return NULL;
    Arena *arena = &rw->module->arena;
    Expr **args = arena_copy(arena, call->args.at, call->args.n * sizeof *args);
    for (uint32_t i = 0; i < call->args.n; i++) {
        const Call *made = expr_as_call(args[i]);
        Value v =
            made ? fold_eval(rw->cx, expr_call_of_op(args[i]), made->attrs, args[i]->span, 0, NULL)
                 : value_none();
        if (made && value_is_none(v))
            return NULL;
        args[i] = made ? fold_value_expr(arena, now->span, v) : args[i];
        value_release(v);
    }
    return expr_call(arena, now->span, call->callee, call->args.n, args, call->attrs);
}

static Expr *fold_call(Rewriter *rw, const Expr *old, Expr *now)
{
    Fold *fold = rw->data;
    const Call *was = expr_as_call(old);
    const Op *op = expr_call_of_op(now);
    bool drops = fold->run->context->for_code && op && op->flags & OP_FROM_TYPE;
    for (uint32_t i = 0; drops && i < was->args.n; i++)
        if (!total_of(&fold->total, was->args.at[i]))
            return now;
    Expr *created = with_created(rw, was, now);
    Expr *made = fold_op_call(rw->cx, rw->module, was, created ? created : now, fold->kept);
    return made == created ? now : made;
}

static Expr *fold_any(Rewriter *rw, const Expr *old, Expr *now)
{
    Fold *fold = rw->data;
    switch ((ExprKind)now->kind) {
    case EXPR_CALL: return fold_call(rw, old, now);
    case EXPR_VAR: {
        const Let *let = places_value(&fold->lets, old);
        Expr *value = let ? rewriter_now(rw, let->value) : NULL;
        return value && value->kind == EXPR_CONSTANT ? value : now;
    }
    case EXPR_LET: {
        const Let *let = expr_as_let(now);
        return let->value->kind == EXPR_CONSTANT ? let->body : now;
    }
    case EXPR_IF: {
        const If *e = expr_as_if(now);
        const Constant *cond = expr_as_constant(e->cond);
        return !cond ? now : value_is_true(cond->value) ? e->then : e->otherwise;
    }
    case EXPR_TUPLE: ptrmap_put(&fold->tuples, now, (void *)(uintptr_t)old); return now;
    case EXPR_TUPLE_GET: {
        const TupleGet *e = expr_as_tuple_get(now);
        const Tuple *t = expr_as_tuple(e->tuple);
        return t && e->index < t->fields.n && others_may_go(fold, t, e->index)
                   ? t->fields.at[e->index]
                   : now;
    }
    default: return now;
    }
}

static Expr *fold_node(Rewriter *rw, const Expr *old, Expr *now)
{
    Expr *made = fold_any(rw, old, now);
    switch ((ExprKind)old->kind) {
    case EXPR_CALL: tell_call(rw->data, old, now, made); break;
    case EXPR_VAR: tell(rw->data, RULE_USE, old, now, made); break;
    case EXPR_IF: tell(rw->data, RULE_IF, old, now, made); break;
    case EXPR_TUPLE_GET: tell(rw->data, RULE_FIELD, old, now, made); break;
    default: break;
    }
    return made;
}

static bool enter_node(Rewriter *rw, const Expr *old, Expr **now)
{
    Fold *fold = rw->data;
    const Let *let = expr_as_let(old);
    if (let)
        *places_slot(&fold->lets, &fold->run->scratch, let->var) = (void *)(uintptr_t)let;
    return enter_past_kernel(rw, old, now);
}

static Function *fold_function(PassRun *run, const Def *def)
{
    Fold fold = {.run = run, .kept = FOLD_NEVER, .total = {.cx = run->cx, .data = true}};
    purity_init(&fold.purity, run->module, run->context->env, &def->fn->base);
    if (!attrs_bool(run->params, "fold_qnn"))
        fold.kept |= OP_QUANTISED;
    Rewriter rw;
    pass_rewriter_init(&rw, run, fold_node, &fold);
    rw.enter = enter_node;
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    purity_deinit(&fold.purity);
    totality_deinit(&fold.total);
    ptrmap_deinit(&fold.tuples);
    ptrmap_deinit(&fold.stays);
    return expr_as_function(now);
}

static const OpAttr params[] = {
    {"fold_qnn", ATTR_TYPE_BOOL, .otherwise = ATTR_DEFAULT_BOOL(false),
     .doc = "folds operators on quantised values too"},
    {0},
};

const Pass pass_fold_constant = {
    .name = "FoldConstant",
    .doc = "Evaluates what is known when the program is compiled.",
    .opt_level = 2,
    .needs_types = true,
    .order = ORDER_ALL,
    .params = params,
    .rules = rules,
    .function = fold_function,
};
