/* Marks what the back ends of a list support.
 *
 *     exp(nn.relu(%x))                         with targets=["acc"], supported={"acc": ["nn.relu"]}
 *  => %0 = annotation.compiler_begin(%x, compiler="acc");
 *     %1 = annotation.compiler_end(nn.relu(%0), compiler="acc");
 *     %2 = annotation.compiler_begin(%1, compiler="default");
 *     annotation.compiler_end(exp(%2), compiler="default")
 *
 * A call goes to the first target that supports its operator, or whose name its composite function has in front of a point, else to
 * `default`; so do calls of other functions. Tuples, projections and references go where all their parts go. What was marked for a
 * target before stays with it. */
#include "passes/annotate.h"
#include "passes/motif.h"
#include "passes/types.h"

#include "ir/op.h"

#include <string.h>

typedef struct Rule {
    Str target;
    MotifSearch *search; /* for the operator, or for the call */
} Rule;

typedef struct Annotate {
    PassRun *run;
    Vec(Str) targets;
    Vec(Rule) rules;
    PtrMap target; /* new node -> index of its target + 1; the default's is that of none */
    bool others;   /* tuples and the like are marked too */
} Annotate;

enum { NOT_KNOWN = 0, FIRST = 2 }; /* 1 is the default */

static Str name_of(const Annotate *a, uintptr_t target)
{
    return target < FIRST ? str_of(ANNOTATE_DEFAULT) : a->targets.at[target - FIRST];
}

static uintptr_t target_named(Annotate *a, Str name)
{
    if (str_is(name, ANNOTATE_DEFAULT))
        return FIRST - 1;
    for (size_t i = 0; i < a->targets.n; i++)
        if (str_eq(a->targets.at[i], name))
            return FIRST + i;
    vec_push(&a->targets, &a->run->scratch, name);
    return FIRST + a->targets.n - 1;
}

static uintptr_t target_of(const Annotate *a, const Expr *e)
{
    return (uintptr_t)ptrmap_find(&a->target, e);
}

static void set_target(Annotate *a, const Expr *e, uintptr_t target)
{
    ptrmap_put(&a->target, e, (void *)target);
}

static Expr *mark(Annotate *a, Mark kind, Expr *e, uintptr_t target)
{
    return annotate_with(a->run, kind, e, name_of(a, target));
}

/* ---- which target ----------------------------------------------------------------------------------------------------- */

static uintptr_t supporting(Annotate *a, const Expr *call, const Expr *callee, size_t n_targets)
{
    const Function *f = expr_as_function(callee);
    const AttrValue *name = f ? attrs_find(f->attrs, "Composite") : NULL;
    const char *point =
        name && name->kind == ATTR_STRING ? memchr(name->s.ptr, '.', name->s.len) : NULL;
    for (size_t i = 0; i < n_targets; i++) {
        Str target = a->targets.at[i];
        if (point && str_eq(target, (Str){name->s.ptr, (size_t)(point - name->s.ptr)}))
            return FIRST + i;
        for (size_t k = 0; k < a->rules.n && callee->kind == EXPR_OP; k++)
            if (str_eq(a->rules.at[k].target, target) &&
                (motif_matches(a->rules.at[k].search, callee) ||
                 motif_matches(a->rules.at[k].search, call)))
                return FIRST + i;
    }
    return FIRST - 1;
}

/* ---- marks around arguments ------------------------------------------------------------------------------------------- */

/* The argument behind the end of its own region, ready for the beginning of another; false when it begins one that stays. */
static bool end_arg(Annotate *a, Expr **arg, uintptr_t *target)
{
    Str name;
    const Call *call = expr_as_call(*arg);
    *target = FIRST - 1;
    if (annotate_mark(*arg, &name) == MARK_BEGIN) {
        bool stays = !str_is(name, ANNOTATE_DEFAULT);
        if (annotate_mark(call->args.at[0], &name) == MARK_END)
            *target = target_named(a, name);
        if (!stays)
            *arg = call->args.at[0];
        return !stays;
    }
    if (target_of(a, *arg) == NOT_KNOWN)
        return true;
    *target = target_of(a, *arg);
    /* A call without arguments is no region but a value like a variable. */
    if (!call || call->args.n)
        *arg = mark(a, MARK_END, *arg, *target);
    return true;
}

/* Marks n arguments for the target, or, where that is not known, for the one that all of them have. */
static uintptr_t mark_args(Annotate *a, uint32_t n, Expr **args, uintptr_t target)
{
    uintptr_t common = NOT_KNOWN, own;
    bool *open = arena_new_array(&a->run->scratch, bool, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        open[i] = end_arg(a, &args[i], &own);
        common = common == NOT_KNOWN || common == own ? own : FIRST - 1;
    }
    target = target == NOT_KNOWN ? common : target;
    for (uint32_t i = 0; i < n; i++)
        if (open[i])
            args[i] = mark(a, MARK_BEGIN, args[i], target);
    return target == NOT_KNOWN ? FIRST - 1 : target;
}

/* A value that something which is no part of a region uses. */
static Expr *close_value(Annotate *a, Expr *e)
{
    const Call *call = expr_as_call(e);
    uintptr_t target = target_of(a, e);
    if (target == NOT_KNOWN || (call && !call->args.n))
        return e;
    e = mark(a, MARK_END, e, target);
    set_target(a, e, target);
    return e;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------ */

static Expr *typed(Expr *e, const Expr *old)
{
    Call *call = expr_as_call(e);
    e->type = old->type;
    if (call)
        call->type_args = expr_as_call(old)->type_args;
    return e;
}

static Expr *again(Annotate *a, const Expr *e, Expr *const *parts)
{
    Arena *arena = &a->run->module->arena;
    const Tuple *tuple = expr_as_tuple(e);
    const TupleGet *get = expr_as_tuple_get(e);
    const Call *call = expr_as_call(e);
    if (tuple)
        return expr_tuple(arena, e->span, tuple->fields.n, parts);
    if (get)
        return expr_tuple_get(arena, e->span, parts[0], get->index);
    if (call)
        return expr_call(arena, e->span, call->callee, call->args.n, parts, call->attrs);
    if (e->kind == EXPR_REF_NEW)
        return expr_ref_new(arena, e->span, parts[0]);
    if (e->kind == EXPR_REF_READ)
        return expr_ref_read(arena, e->span, parts[0]);
    return expr_ref_write(arena, e->span, parts[0], parts[1]);
}

/* A tuple, a projection, or something with references. */
static Expr *put_value(Annotate *a, const Expr *old, const Expr *now, uint32_t n,
                       Expr *const *parts)
{
    Expr **args = arena_copy(&a->run->scratch, parts, n * sizeof *args);
    uintptr_t target = NOT_KNOWN;
    if (a->others)
        target = mark_args(a, n, args, NOT_KNOWN);
    for (uint32_t i = 0; i < n && !a->others; i++)
        args[i] = close_value(a, args[i]);
    Expr *e = typed(again(a, now, args), old);
    if (a->others && n)
        set_target(a, e, target);
    return e;
}

static Expr *put_mark(Annotate *a, const Call *now, Mark kind, Str target)
{
    Expr *of = now->args.at[0];
    if (kind == MARK_BEGIN)
        return (Expr *)(uintptr_t)&now->base;
    if (target_of(a, of) == NOT_KNOWN)
        set_target(a, of, target_named(a, target));
    return mark(a, MARK_END, of, target_of(a, of));
}

static Expr *put_call(Annotate *a, const Call *old, const Call *now)
{
    Str name;
    Mark kind = annotate_mark(&now->base, &name);
    if (kind)
        return put_mark(a, now, kind, name);
    bool marked = now->args.n && annotate_mark(now->args.at[0], &name) == MARK_BEGIN;
    if (marked && !str_is(name, ANNOTATE_DEFAULT))
        return (Expr *)(uintptr_t)&now->base;
    Expr **args = arena_copy(&a->run->scratch, now->args.at, now->args.n * sizeof *args);
    uintptr_t target =
        supporting(a, &old->base, old->callee, attrs_find(a->run->params, "targets")->list.n);
    if (now->callee->kind == EXPR_VAR && !a->others)
        for (uint32_t i = 0; i < now->args.n; i++)
            args[i] = close_value(a, args[i]);
    else
        mark_args(a, now->args.n, args, target);
    Expr *e = typed(again(a, &now->base, args), &old->base);
    if (now->callee->kind != EXPR_VAR || a->others)
        set_target(a, e, target);
    return e;
}

static Expr *put_let(Annotate *a, const Let *now)
{
    Arena *arena = &a->run->module->arena;
    Expr *value = now->value, *body = close_value(a, now->body);
    if (value->kind != EXPR_FUNCTION)
        mark_args(a, 1, &value, NOT_KNOWN);
    return expr_let(arena, now->base.span, now->var, value, body);
}

static Expr *put_match(Annotate *a, const Match *now)
{
    Arena *arena = &a->run->module->arena;
    Clause *clauses = arena_copy(arena, now->clauses.at, now->clauses.n * sizeof *clauses);
    for (uint32_t i = 0; i < now->clauses.n; i++)
        clauses[i].body = close_value(a, clauses[i].body);
    return expr_match(arena, now->base.span, close_value(a, now->scrutinee), now->clauses.n,
                      clauses, now->complete);
}

static Expr *put_function(Annotate *a, const Function *now)
{
    return &expr_function(&a->run->module->arena, now->base.span, now->type_params, now->params.n,
                          now->params.at, now->attrs, now->ret_type, close_value(a, now->body))
                ->base;
}

static Expr *put_marks(Rewriter *rw, const Expr *old, Expr *now)
{
    Annotate *a = rw->data;
    Arena *arena = &rw->module->arena;
    expr_keep_type(now, old);
    switch ((ExprKind)now->kind) {
    case EXPR_CALL: return put_call(a, expr_as_call(old), expr_as_call(now));
    case EXPR_TUPLE: {
        const Tuple *t = expr_as_tuple(now);
        return put_value(a, old, now, t->fields.n, t->fields.at);
    }
    case EXPR_TUPLE_GET: return put_value(a, old, now, 1, &expr_as_tuple_get(now)->tuple);
    case EXPR_REF_NEW: return put_value(a, old, now, 1, &expr_as_ref_new(now)->value);
    case EXPR_REF_READ: return put_value(a, old, now, 1, &expr_as_ref_read(now)->ref);
    case EXPR_REF_WRITE: {
        const RefWrite *w = expr_as_ref_write(now);
        return put_value(a, old, now, 2, (Expr *[]){w->ref, w->value});
    }
    case EXPR_LET: return typed(put_let(a, expr_as_let(now)), old);
    case EXPR_IF: {
        const If *i = expr_as_if(now);
        return typed(expr_if(arena, now->span, close_value(a, i->cond), close_value(a, i->then),
                             close_value(a, i->otherwise)),
                     old);
    }
    case EXPR_MATCH: return typed(put_match(a, expr_as_match(now)), old);
    case EXPR_FUNCTION: return typed(put_function(a, expr_as_function(now)), old);
    case EXPR_CONSTANT:
    case EXPR_VAR:
    case EXPR_GLOBAL:
    case EXPR_OP:
    case EXPR_CON:
    case EXPR_KINDS: break;
    }
    return now;
}

/* What is one operator of a back end is not looked into. */
static bool leave_composite(Rewriter *rw, const Expr *old, Expr **now)
{
    (void)rw;
    const Function *f = expr_as_function(old);
    *now = (Expr *)(uintptr_t)old;
    return f && (attrs_find(f->attrs, "Composite") || function_is_primitive(f));
}

/* ---- the pass --------------------------------------------------------------------------------------------------------- */

/* The operators of one target: a list of strings. */
static bool read_rules_of(Annotate *a, const AttrValue *target, const AttrValue *all, Span where)
{
    PassRun *run = a->run;
    bool good = target->kind == ATTR_STRING && all->kind == ATTR_LIST;
    for (uint32_t k = 0; good && k < all->list.n; k++) {
        good = all->list.at[k].kind == ATTR_STRING;
        const Motif *motif =
            good ? motif_parse(run->cx, &run->scratch, all->list.at[k].s, where) : NULL;
        if (good && !motif)
            return false;
        if (good)
            vec_push(&a->rules, &run->scratch,
                     ((Rule){target->s, motif_search(run->cx, &run->scratch, motif)}));
    }
    if (good)
        return true;
    Diag *d = diag_error(run->cx->diags, E0603_PIPELINE, where,
                         "`supported` gives a list of operators and patterns for each target");
    diag_help(d, "for instance `supported={\"acc\": [\"nn.relu\"]}`");
    return false;
}

static bool read_rules(Annotate *a)
{
    PassRun *run = a->run;
    const AttrValue *targets = attrs_find(run->params, "targets");
    const AttrValue *table = attrs_find(run->params, "supported");
    Span where = attrs_get(run->params, "supported", 1)->span;
    for (uint32_t i = 0; i < targets->list.n; i++)
        vec_push(&a->targets, &run->scratch, targets->list.at[i].s);
    for (uint32_t i = 0; i + 1 < table->list.n; i += 2) {
        if (!read_rules_of(a, &table->list.at[i], &table->list.at[i + 1], where))
            return false;
    }
    return true;
}

static Function *annotate(PassRun *run, const Def *def)
{
    Annotate a = {.run = run, .others = attrs_bool(run->params, "include_non_call_ops")};
    Expr *now = NULL;
    if (read_rules(&a)) {
        Rewriter rw;
        rewriter_init(&rw, run->cx, run->module, put_marks, &a);
        rw.enter = leave_composite;
        now = ir_rewrite(&rw, &def->fn->base);
        rewriter_deinit(&rw);
    }
    ptrmap_deinit(&a.target);
    return expr_as_function(now);
}

static const OpAttr params[] = {
    {"targets", ATTR_TYPE_STRINGS, .otherwise = {.kind = ATTR_LIST},
     .doc = "back ends, the preferred ones first"},
    {"supported", ATTR_TYPE_DICT, .otherwise = {.kind = ATTR_LIST},
     .doc = "target -> operators and patterns of calls that it supports"},
    {"include_non_call_ops", ATTR_TYPE_BOOL, .otherwise = ATTR_DEFAULT_BOOL(true),
     .doc = "tuples, projections and references are marked as well"},
    {0},
};

const Pass pass_annotate_target = {
    .name = "AnnotateTarget",
    .doc = "Marks the operators that external back ends support.",
    .opt_level = 0,
    .needs_types = true,
    .params = params,
    .function = annotate,
};
