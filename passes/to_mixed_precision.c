/* Computes in a smaller floating type where that does little harm.
 *
 *     nn.softmax(nn.dense(%x, %w, units=4))
 *  => %0 = cast(%x, dtype="float16"); %1 = cast(%w, dtype="float16");
 *     %2 = nn.dense(%0, %1, units=4, out_dtype="float16"); nn.softmax(cast(%2, dtype="float32"))
 *
 * An operator always takes the low type, never does, or follows: it does where each operand has it already or is a variable or
 * constant. What has types that are written or needed elsewhere (functions that something names, parameters of functions, fields of
 * constructors, contents of references, what is matched) keeps them. */
#include "passes/facts.h"
#include "passes/pass.h"
#include "passes/types.h"

#include "stdlib/ops/ops.h"

#include <string.h>

typedef enum Category { FOLLOW, ALWAYS, NEVER, UNKNOWN } Category;

/* A star stands for any end of a name. */
static const char *const always[] = {"nn.conv1d",
                                     "nn.conv2d",
                                     "nn.conv3d",
                                     "nn.conv1d_transpose",
                                     "nn.conv2d_transpose",
                                     "nn.conv3d_transpose",
                                     "nn.dense",
                                     "nn.batch_matmul",
                                     NULL};
static const char *const never[] = {"exp",
                                    "power",
                                    "nn.cross_entropy",
                                    "nn.cross_entropy_with_logits",
                                    "nn.softmax",
                                    "nn.l2_normalize",
                                    "erf",
                                    "arange",
                                    "nn.global_avg_pool2d",
                                    "nn.adaptive_avg_pool1d",
                                    "nn.adaptive_avg_pool2d",
                                    "nn.adaptive_avg_pool3d",
                                    "sum",
                                    "mean",
                                    "variance",
                                    "nn.layer_norm",
                                    NULL};
static const char *const follow[] = {"nn.pad",
                                     "nn.batch_flatten",
                                     "concatenate",
                                     "zeros",
                                     "split",
                                     "squeeze",
                                     "transpose",
                                     "expand_dims",
                                     "reshape",
                                     "dyn.reshape",
                                     "broadcast_to_like",
                                     "dyn.broadcast_to",
                                     "strided_slice",
                                     "dyn.strided_slice",
                                     "take",
                                     "argwhere",
                                     "where",
                                     "tile",
                                     "dyn.tile",
                                     "scatter*",
                                     "full",
                                     "dyn.full",
                                     "nn.depth_to_space",
                                     "less",
                                     "greater",
                                     "less_equal",
                                     "greater_equal",
                                     "copy",
                                     "cast",
                                     "cast_like",
                                     "add",
                                     "subtract",
                                     "multiply",
                                     "divide",
                                     "nn.bias_add",
                                     "nn.batch_norm",
                                     "sqrt",
                                     "shape_of",
                                     "max",
                                     "min",
                                     "maximum",
                                     "minimum",
                                     "argmax",
                                     "argmin",
                                     "nn.relu",
                                     "nn.leaky_relu",
                                     "nn.prelu",
                                     "nn.dropout",
                                     "sigmoid",
                                     "tanh",
                                     "fast_tanh",
                                     "fast_exp",
                                     "fast_erf",
                                     "clip",
                                     "nn.max_pool*",
                                     "nn.avg_pool*",
                                     "nn.global_max_pool2d",
                                     "nn.adaptive_max_pool*",
                                     "image.resize2d",
                                     NULL};
/* Operators that make a tensor of the type in `dtype`. */
static const char *const makers[] = {"zeros",    "ones",     "full",         "dyn.zeros",
                                     "dyn.ones", "dyn.full", "broadcast_to", "dyn.broadcast_to",
                                     NULL};

static bool is_listed(const char *const *list, const char *name)
{
    for (; *list; list++) {
        size_t n = strcspn(*list, "*");
        if (!strncmp(*list, name, n) && ((*list)[n] == '*' || !name[n]))
            return true;
    }
    return false;
}

static Category category_of(const Op *op)
{
    return is_listed(always, op->name)   ? ALWAYS
           : is_listed(never, op->name)  ? NEVER
           : is_listed(follow, op->name) ? FOLLOW
                                         : UNKNOWN;
}

typedef struct CastKey {
    DType dtype;
    Expr *e;
    struct CastKey *next;
} CastKey;

typedef struct Mixed {
    PassRun *run;
    DType low;
    const char *low_name;
    int64_t missing; /* 0: an error, 1: a warning, 2: nothing */
    PtrMap named;    /* names of functions that something uses */
    PtrMap told;     /* operators that were reported */
    /* of the definition at hand */
    PtrMap casts;  /* node -> CastKey: what it was cast to */
    PtrMap lets;   /* Var -> its Let */
    PtrMap
        called; /* function literals that are called where they stand -> NULL; values -> themselves */
} Mixed;

static bool is_float(DType t)
{
    return dtype_is_float(t) || t.code == DTYPE_CODE_BFLOAT;
}

/* ---- casts ------------------------------------------------------------------------------------------------------- */

static void note_cast(Mixed *x, Expr *from, DType dtype, Expr *to)
{
    void **slot = ptrmap_slot(&x->casts, from);
    CastKey *key = arena_new(&x->run->scratch, CastKey);
    if (!slot || !key)
        return;
    *key = (CastKey){dtype, to, *slot};
    *slot = key;
}

static Expr *cast_tensor(Rewriter *rw, Expr *e, DType to)
{
    Mixed *x = rw->data;
    const Type *t = expr_tensor_type(e);
    if (!t || dtype_eq(t->dtype, to))
        return e;
    for (const CastKey *key = ptrmap_find(&x->casts, e); key; key = key->next)
        if (dtype_eq(key->dtype, to))
            return key->e;
    OpsMake m = {rw->cx, &rw->module->arena, e->span};
    Expr *made = expr_type_ops(rw->cx, ops_cast(&m, e, to));
    if (made) {
        note_cast(x, e, to, made);
        note_cast(x, made, t->dtype, e);
    }
    return made;
}

static Expr *field_of(Rewriter *rw, Expr *e, uint32_t i)
{
    const Tuple *t = expr_as_tuple(e);
    return t ? t->fields.at[i]
             : expr_type_ops(rw->cx, expr_tuple_get(&rw->module->arena, e->span, e, i));
}

/* How the floating types in a value shall be. */
typedef enum Wanted { LOW, HIGH, AS_BEFORE } Wanted;

/* e with other floating types, where it is a tensor or a tuple of them; `was` is what it had before the pass. */
static Expr *convert(Rewriter *rw, Expr *e, const Type *was, Wanted wanted)
{
    const Mixed *x = rw->data;
    const Type *t = e && e->type ? type_find(e->type) : NULL;
    if (!t || !was)
        return e;
    was = type_find(was);
    if (t->kind == TYPE_TENSOR) {
        DType to = wanted == LOW                ? x->low
                   : wanted == AS_BEFORE        ? was->dtype
                   : dtype_eq(t->dtype, x->low) ? (DType){DTYPE_CODE_FLOAT, 32, 1}
                                                : t->dtype;
        return is_float(t->dtype) ? cast_tensor(rw, e, to) : e;
    }
    if (t->kind != TYPE_TUPLE || was->kind != TYPE_TUPLE ||
        (wanted == AS_BEFORE && type_equal(t, was)))
        return e;
    Expr **fields = arena_new_array(&x->run->scratch, Expr *, t->n + 1);
    bool changed = false;
    for (uint32_t i = 0; fields && i < t->n; i++) {
        Expr *field = field_of(rw, e, i);
        fields[i] = convert(rw, field, was->parts[i], wanted);
        changed |= fields[i] != field;
    }
    return changed ? expr_type_ops(rw->cx, expr_tuple(&rw->module->arena, e->span, t->n, fields))
                   : e;
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

static bool holds_float(const Type *t, const DType *but)
{
    t = t ? type_find(t) : NULL;
    if (!t)
        return false;
    if (t->kind == TYPE_TENSOR)
        return is_float(t->dtype) && (!but || !dtype_eq(t->dtype, *but));
    bool found = false;
    for (uint32_t i = 0; t->kind == TYPE_TUPLE && i < t->n && !found; i++)
        found = holds_float(t->parts[i], but);
    return found;
}

static bool has_floats(const Call *call)
{
    bool floats = holds_float(call->base.type, NULL);
    for (uint32_t i = 0; i < call->args.n; i++)
        floats |= holds_float(call->args.at[i]->type, NULL);
    return floats;
}

static bool report_unknown(Mixed *x, const Op *op, const Call *call)
{
    if (x->missing == 2 || !has_floats(call) || ptrmap_has(&x->told, op))
        return true;
    ptrmap_put(&x->told, op, NULL);
    DiagCode code = x->missing == 0 ? E0604_MIXED_PRECISION : W0601_MIXED_PRECISION;
    Diag *d = diag_error(x->run->cx->diags, code, call->base.span,
                         "whether `%s` may be computed in %s is not known", op->name, x->low_name);
    diag_help(d, "it takes %s where all its operands have it", x->low_name);
    return x->missing != 0;
}

static bool is_too_wide(const Mixed *x, const Call *call)
{
    double most = dtype_largest(x->low);
    return !strcmp(expr_call_of_op(&call->base)->name, "clip") &&
           (attrs_float(call->attrs, "a_min") < -most || attrs_float(call->attrs, "a_max") > most);
}

/* Every floating operand has the low type, or is a variable or constant. */
static bool can_follow(const Mixed *x, const Call *call)
{
    for (uint32_t i = 0; i < call->args.n; i++) {
        const Expr *arg = call->args.at[i];
        if (arg->kind != EXPR_VAR && arg->kind != EXPR_CONSTANT && holds_float(arg->type, &x->low))
            return false;
    }
    return true;
}

/* The attribute with the low type, where it says that the result has a floating one. */
static const Attrs *low_attr(const Mixed *x, Arena *arena, const Attrs *attrs, const char *key)
{
    const AttrValue *v = attrs ? attrs_find(attrs, key) : NULL;
    if (!v || v->kind != ATTR_STRING)
        return attrs;
    DType now = attrs_dtype(attrs, key);
    if (!dtype_is_void(now) && !is_float(now))
        return attrs;
    AttrValue low = {.kind = ATTR_STRING, .s = str_of(x->low_name)};
    return attrs_with(arena, attrs, key, low);
}

static const Attrs *low_attrs(const Mixed *x, Arena *arena, const Call *old, const Attrs *attrs)
{
    if (!holds_float(old->base.type, NULL))
        return attrs;
    attrs = low_attr(x, arena, attrs, "out_dtype");
    return is_listed(makers, expr_call_of_op(&old->base)->name) ? low_attr(x, arena, attrs, "dtype")
                                                                : attrs;
}

/* The call with operands of that kind of floating types; NULL after an error. */
static Expr *convert_operands(Rewriter *rw, const Call *old, const Call *now, Wanted wanted)
{
    const Mixed *x = rw->data;
    Arena *arena = &rw->module->arena;
    Expr **args = arena_new_array(&x->run->scratch, Expr *, now->args.n + 1);
    bool changed = false;
    for (uint32_t i = 0; args && i < now->args.n; i++) {
        args[i] = convert(rw, now->args.at[i], old->args.at[i]->type, wanted);
        if (!args[i])
            return NULL;
        changed |= args[i] != now->args.at[i];
    }
    const Attrs *attrs = wanted == LOW ? low_attrs(x, arena, old, now->attrs) : now->attrs;
    if (!changed && attrs == now->attrs)
        return (Expr *)(uintptr_t)&now->base;
    return expr_call(arena, now->base.span, now->callee, now->args.n, args, attrs);
}

enum { RULE_LOW, RULE_NEVER, RULE_OPERANDS, RULE_RANGE, RULE_TYPE };

static const PassRule rules[] = {
    [RULE_LOW] = {"low", "{at} is computed in {a}: it is {b}"},
    [RULE_NEVER] = {"never", "{at} is not computed in {a}: it would lose too much"},
    [RULE_OPERANDS] = {"operands", "{at} is not computed in {a}: an operand has another type"},
    [RULE_RANGE] = {"range", "{at} is not computed in {a}: its bounds lie outside that"},
    [RULE_TYPE] = {"type", "{at} is not computed in {a}: it takes its own types only"},
    {0},
};

static void tell(const Mixed *x, const Call *old, Category category, bool low, bool fits)
{
    int rule = low && !fits          ? RULE_TYPE
               : low                 ? RULE_LOW
               : category == NEVER   ? RULE_NEVER
               : is_too_wide(x, old) ? RULE_RANGE
                                     : RULE_OPERANDS;
    const char *why = category == ALWAYS ? "one of those that gain most" : "as its operands are";
    if (holds_float(old->base.type, NULL))
        pass_decides(
            x->run,
            (PassEvent){.rule = &rules[rule], .at = &old->base, .a = x->low_name, .b = why});
}

static Expr *convert_op(Rewriter *rw, const Call *old, const Call *now)
{
    Mixed *x = rw->data;
    const Op *op = expr_call_of_op(&old->base);
    Category category = category_of(op);
    if (category == UNKNOWN && !report_unknown(x, op, old))
        return NULL;
    bool low = category == ALWAYS || (category != NEVER && can_follow(x, now));
    low = low && !is_too_wide(x, old);
    bool done = pass_is_done(x->run);
    Expr *e = convert_operands(rw, old, now, done ? AS_BEFORE : low ? LOW : HIGH);
    /* Some operators take one floating type only, such as the scales of quantised ones. */
    bool fits = !e || expr_try_type_ops(rw->cx, e);
    if (x->run->context->decided)
        tell(x, old, category, low, fits);
    if (!fits)
        return convert_operands(rw, old, now, AS_BEFORE);
    if (low && has_floats(old))
        pass_may_change(x->run);
    return e;
}

/* ---- everything else --------------------------------------------------------------------------------------------- */

static Expr *as_before(Rewriter *rw, Expr *now, const Expr *old)
{
    return convert(rw, now, old->type, AS_BEFORE);
}

/* Functions and constructors that are called get what they take. */
static Expr *convert_call(Rewriter *rw, const Call *old, Call *now)
{
    const Mixed *x = rw->data;
    Expr **args = arena_new_array(&x->run->scratch, Expr *, now->args.n + 1);
    bool changed = now != old;
    for (uint32_t i = 0; args && i < now->args.n; i++) {
        args[i] = as_before(rw, now->args.at[i], old->args.at[i]);
        changed |= args[i] != now->args.at[i];
    }
    if (!changed)
        return &now->base;
    Expr *call =
        expr_call(&rw->module->arena, now->base.span, now->callee, now->args.n, args, now->attrs);
    const Function *f = expr_as_function(now->callee);
    call->type = f && !f->type_params.n ? f->body->type : old->base.type;
    return call;
}

static const Type *with_result(Ctx *cx, const Type *t, const Type *result)
{
    t = t ? type_find(t) : NULL;
    return t && t->kind == TYPE_FUNC && result
               ? type_func(cx, t->n_params, t->params, t->n, t->parts, result)
               : NULL;
}

/* A function that is a value keeps its type; the result of one that is called may change. */
static Expr *convert_function(Rewriter *rw, const Function *old, Function *now)
{
    const Mixed *x = rw->data;
    Expr *body = ptrmap_find(&x->called, old) ? as_before(rw, now->body, old->body) : now->body;
    if (body == old->body)
        return &now->base;
    bool keeps = type_equal(body->type, old->body->type);
    Expr *f = &expr_function(&rw->module->arena, now->base.span, now->type_params, now->params.n,
                             now->params.at, now->attrs, keeps ? now->ret_type : NULL, body)
                   ->base;
    f->type = keeps ? old->base.type : with_result(rw->cx, old->base.type, body->type);
    return f;
}

static Expr *convert_if(Rewriter *rw, const If *old, If *now)
{
    if (now == old)
        return &now->base;
    Expr *then = now->then, *otherwise = now->otherwise;
    if (!then->type || !otherwise->type || !type_equal(then->type, otherwise->type)) {
        then = as_before(rw, then, old->then);
        otherwise = as_before(rw, otherwise, old->otherwise);
    }
    Expr *e = expr_if(&rw->module->arena, now->base.span, now->cond, then, otherwise);
    e->type = then->type;
    return e;
}

static Expr *convert_match(Rewriter *rw, const Match *old, Match *now)
{
    if (now == old)
        return &now->base;
    Arena *arena = &rw->module->arena;
    Clause *clauses = arena_copy(arena, now->clauses.at, now->clauses.n * sizeof *clauses);
    bool same = true;
    for (uint32_t i = 1; i < now->clauses.n; i++)
        same = same && clauses[i].body->type && clauses[0].body->type &&
               type_equal(clauses[i].body->type, clauses[0].body->type);
    for (uint32_t i = 0; !same && i < now->clauses.n; i++)
        clauses[i].body = as_before(rw, clauses[i].body, old->clauses.at[i].body);
    Expr *e = expr_match(arena, now->base.span, as_before(rw, now->scrutinee, old->scrutinee),
                         now->clauses.n, clauses, now->complete);
    e->type = now->clauses.n ? clauses[0].body->type : old->base.type;
    return e;
}

/* A variable has the type of its value, where that is known when it is used. */
static Expr *convert_var(Rewriter *rw, const Expr *old)
{
    const Mixed *x = rw->data;
    const Let *let = ptrmap_find(&x->lets, old);
    const Expr *value = let ? rewriter_now(rw, let->value) : NULL;
    Expr *same = (Expr *)(uintptr_t)old;
    if (!value || !value->type || !let->value->type || type_equal(value->type, let->value->type))
        return same;
    Expr *v = &expr_var(&rw->module->arena, old->span, expr_as_var(old)->name, NULL)->base;
    v->type = value->type;
    return v;
}

static Expr *convert_ref(Rewriter *rw, const Expr *old, Expr *now)
{
    Arena *arena = &rw->module->arena;
    const RefNew *fresh = expr_as_ref_new(now);
    const RefWrite *write = expr_as_ref_write(now);
    if (fresh) {
        Expr *value = as_before(rw, fresh->value, expr_as_ref_new(old)->value);
        now = value == fresh->value ? now : expr_ref_new(arena, now->span, value);
    }
    if (write) {
        Expr *value = as_before(rw, write->value, expr_as_ref_write(old)->value);
        now = value == write->value ? now : expr_ref_write(arena, now->span, write->ref, value);
    }
    now->type = old->type;
    return now;
}

static Expr *convert_node(Rewriter *rw, const Expr *old, Expr *now)
{
    switch ((ExprKind)old->kind) {
    case EXPR_CALL: {
        const Op *op = expr_call_of_op(old);
        Expr *e = op ? convert_op(rw, expr_as_call(old), expr_as_call(now))
                     : convert_call(rw, expr_as_call(old), expr_as_call(now));
        return expr_type_ops(rw->cx, e);
    }
    case EXPR_TUPLE:
    case EXPR_TUPLE_GET: return expr_type_ops(rw->cx, now);
    case EXPR_VAR: return convert_var(rw, old);
    case EXPR_FUNCTION: return convert_function(rw, expr_as_function(old), expr_as_function(now));
    case EXPR_IF: return convert_if(rw, expr_as_if(old), expr_as_if(now));
    case EXPR_MATCH: return convert_match(rw, expr_as_match(old), expr_as_match(now));
    case EXPR_LET: {
        Let *let = expr_as_let(now);
        let->base.type = let->base.type ? let->base.type : let->body->type;
        return now;
    }
    case EXPR_REF_NEW:
    case EXPR_REF_READ:
    case EXPR_REF_WRITE: return convert_ref(rw, old, now);
    case EXPR_CONSTANT:
    case EXPR_GLOBAL:
    case EXPR_OP:
    case EXPR_CON:
    case EXPR_KINDS: break;
    }
    return now;
}

/* ---- the pass ------------------------------------------------------------------------------------------------------ */

static void note_value(void *data, Expr *const *slot)
{
    Mixed *x = data;
    if ((*slot)->kind == EXPR_FUNCTION)
        ptrmap_put(&x->called, *slot, *slot);
}

static WalkNext note_node(void *data, const Expr *e)
{
    Mixed *x = data;
    const Call *call = expr_as_call(e);
    const Let *let = expr_as_let(e);
    if (let)
        ptrmap_put(&x->lets, let->var, (void *)(uintptr_t)let);
    void *known = call ? ptrmap_find(&x->called, call->callee) : NULL;
    ir_children(e, note_value, x);
    /* The callee is no value, unless it is one elsewhere. */
    if (call && call->callee->kind == EXPR_FUNCTION && !known)
        ptrmap_put(&x->called, call->callee, NULL);
    return WALK_ON;
}

static bool keeps_result(const Mixed *x, const Def *def)
{
    const AttrValue *keep =
        x->run->context->config
            ? attrs_find(x->run->context->config, "relay.ToMixedPrecision.keep_orig_output_dtype")
            : NULL;
    return ptrmap_has(&x->named, def->name) || (keep && keep->kind == ATTR_BOOL && keep->b);
}

static Function *convert_def(PassRun *run, Mixed *x, const Def *def)
{
    Rewriter rw;
    ir_walk(&def->fn->base, note_node, NULL, x);
    if (keeps_result(x, def))
        ptrmap_put(&x->called, def->fn, def->fn);
    rewriter_init(&rw, run->cx, run->module, convert_node, x);
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    PtrMap *maps[] = {&x->casts, &x->lets, &x->called};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        ptrmap_clear(maps[i]);
    return expr_as_function(now);
}

/* Functions that only their own text names are called by nobody in it. */
static bool convert_defs(PassRun *run, Mixed *x, Module *old)
{
    note_named(old, &x->named);
    for (size_t i = 0; i < old->defs.n; i++) {
        const Def *def = &old->defs.at[i];
        if (!def->fn || def->imported || function_is_skipped(def->fn))
            continue;
        Function *f = convert_def(run, x, def);
        if (!f)
            return false;
        if (f != def->fn)
            module_define(run->module, def->name, f, def->span, run->module);
    }
    if (!old->expr)
        return true;
    Def def = {.name = ctx_name(run->cx, "")};
    def.fn = expr_function(&run->module->arena, old->expr->span, (TypeVarList){0}, 0, NULL, NULL,
                           NULL, old->expr);
    Function *f = convert_def(run, x, &def);
    run->module->expr = f ? f->body : NULL;
    return f != NULL;
}

static bool to_mixed_precision(PassRun *run, Module *old)
{
    Mixed x = {.run = run, .missing = attrs_int(run->params, "missing_op_mode", 1)};
    Str name = attrs_string(run->params, "mixed_precision_type");
    x.low_name = arena_copy_text(&run->module->arena, name.ptr, name.len);
    if (!dtype_parse(name, &x.low) || !is_float(x.low) || dtype_id(x.low) == DTYPE_IDS) {
        diag_help(diag_error(run->cx->diags, E0603_PIPELINE, run->where,
                             "`%s` is no floating type to compute in", x.low_name),
                  "it is \"float16\" or \"bfloat16\"");
        return false;
    }
    bool ok = convert_defs(run, &x, old);
    PtrMap *maps[] = {&x.named, &x.told, &x.casts, &x.lets, &x.called};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        ptrmap_deinit(maps[i]);
    return ok;
}

static const OpAttr params[] = {
    {"mixed_precision_type", ATTR_TYPE_STRING, .otherwise = ATTR_DEFAULT_STRING("float16"),
     .doc = "the low type"},
    {"missing_op_mode", ATTR_TYPE_INT, .otherwise = ATTR_DEFAULT_INT(1), .most = 2,
     .doc =
         "an operator that no list names is 0: an error, 1: a warning, 2: like those that follow"},
    {0},
};

const Pass pass_to_mixed_precision = {
    .name = "ToMixedPrecision",
    .doc = "Computes in a smaller floating type where that does little harm.",
    .opt_level = 0,
    .needs_types = true,
    .other_values = true,
    .params = params,
    .rules = rules,
    .module = to_mixed_precision,
};
