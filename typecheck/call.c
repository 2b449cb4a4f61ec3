/* Calls: of operators, of constructors, of functions. */
#include "typecheck/internal.h"

#include <stdio.h>
#include <string.h>

/* How messages speak of the callee, and where it is defined. */
typedef struct Callee {
    const char *sigil, *name;
    Span defined;
} Callee;

static Callee callee_of(const Checker *ck, const Call *call)
{
    const GlobalVar *g = expr_as_global(call->callee);
    const Var *v = expr_as_var(call->callee);
    const ConRef *con = expr_as_con(call->callee);
    const OpRef *op = expr_as_op(call->callee);
    if (g) {
        const Def *def = module_find(ck->m, g->name);
        return (Callee){"@", g->name->text, def ? def->span : (Span){0}};
    }
    if (v)
        return (Callee){"%", v->name->text, v->base.span};
    if (con)
        return (Callee){"", con->con->name->text, con->con->span};
    if (op)
        return (Callee){"", op->op->name, {0}};
    return (Callee){"", NULL, {0}};
}

static const char *callee_text(Checker *ck, const Call *call, const char *before)
{
    Callee c = callee_of(ck, call);
    Buf b = {0};
    if (c.name)
        buf_printf(&b, "%s`%s%s`", before, c.sigil, c.name);
    else
        buf_printf(&b, "%sthe function", before);
    return buf_keep(&b, &ck->scratch);
}

/* `concatenate(%x, %y)`: what follows was meant for the tuple that the one argument is. */
static bool takes_tuple(const Op *op)
{
    return op->args[0].name && !op->args[1].name && strcmp(op->args[0].name, "data") == 0 &&
           strstr(op->args[0].doc, "tuple");
}

static const char *meant_of_two(const Op *op)
{
#define MEANT_OF_TWO(word, meant)    \
    if (strcmp(op->name, word) == 0) \
        return meant;
#include "typecheck/meant.def"
#undef MEANT_OF_TWO
    return NULL;
}

static void help_operator_arity(Diag *d, const Call *call, const Op *op)
{
    uint32_t needed = (uint32_t)op_arity(op);
    Buf b = {0};
    if (call->args.n > needed && takes_tuple(op)) {
        diag_help(d, "`%s` takes one tuple: write `%s((…, …))`", op->name, op->name);
        return;
    }
    /* `sum(%x, 1)` means an axis. */
    bool two = call->args.n == 2 && needed == 1 &&
               (!expr_as_constant(call->args.at[1]) || expr_as_constant(call->args.at[0]));
    const char *of_two = two ? meant_of_two(op) : NULL;
    if (of_two) {
        diag_help(d, "of two tensors it is `%s(…, …)`; `%s` is of one", of_two, op->name);
        return;
    }
    if (call->args.n > needed && op->attrs && op->attrs->name) {
        diag_help(d, "attributes are given by name: `%s=…`", op->attrs->name);
        return;
    }
    for (uint32_t i = 0; i < needed; i++)
        buf_printf(&b, "%s%%%s", i ? ", " : "", op->args[i].name);
    diag_help(d, "write `%s(%s%s)`", op->name, buf_text(&b),
              op->attrs && op->attrs->name ? ", …" : "");
    buf_deinit(&b);
}

static void help_arity(Checker *ck, Diag *d, const Call *call, uint32_t needed)
{
    const ConRef *con = expr_as_con(call->callee);
    const Type *only = call->args.n == 1 ? type_find(call->args.at[0]->type) : NULL;
    if (only && only->kind == TYPE_TUPLE && only->n == needed)
        diag_help(d, "a tuple is one argument: give its fields one by one, `%%t.0` and so on");
    else if (con && needed == 0)
        diag_help(d, "`%s` has no fields and stands alone", con->con->name->text);
    else if (call->callee->type)
        diag_help(d, "its type is `%s`",
                  type_str(ck->cx, type_resolve(ck->cx, call->callee->type)));
}

static void wrong_arity(Checker *ck, const Call *call, uint32_t needed)
{
    Diag *d =
        diag_error(ck->cx->diags, E0204_ARITY, call->base.span, "%s takes %u argument%s, found %u",
                   callee_text(ck, call, ""), needed, needed == 1 ? "" : "s", call->args.n);
    const Op *op = expr_call_of_op(&call->base);
    Buf names = {0};
    for (uint32_t i = 0; op && i < needed; i++)
        buf_printf(&names, "%s`%s`", i ? ", " : "", op->args[i].name);
    if (names.n)
        diag_note(d, "%s: %s", needed == 1 ? "the argument" : "the arguments", buf_text(&names));
    buf_deinit(&names);
    Span defined = callee_of(ck, call).defined;
    if (!span_is_none(defined))
        diag_label(d, defined, "defined here");
    if (op)
        help_operator_arity(d, call, op);
    else
        help_arity(ck, d, call, needed);
}

/* ---- operators ----------------------------------------------------------------------------------------------------------- */

static const Type *call_op(Checker *ck, Call *call, const Op *op)
{
    uint32_t n = call->args.n;
    if (!op_takes(op, n)) {
        wrong_arity(ck, call, (uint32_t)op_arity(op));
        return ck->cx->poison;
    }
    const Type **in = arena_new_array(&ck->scratch, const Type *, n);
    Span *spans = arena_new_array(&ck->scratch, Span, n);
    for (uint32_t i = 0; i < n; i++) {
        in[i] = call->args.at[i]->type;
        spans[i] = ir_use_span(ck->home, &call->args.at[i]);
    }
    return relation_apply(ck, call, op, in, spans);
}

/* ---- functions and constructors ---------------------------------------------------------------------------------------- */

/* Whether a parameter's type is what other arguments make of it, so that a misfit is the fault of none of them alone. */
static bool mentions(const Type *t, uint32_t n, const TypeVar *const *vars)
{
    t = type_find(t);
    for (uint32_t i = 0; t->kind == TYPE_VAR && i < n; i++)
        if (t->var == vars[i])
            return true;
    if (t->kind == TYPE_TENSOR || t->kind == TYPE_VAR || t->kind == TYPE_HOLE ||
        t->kind == TYPE_POISON)
        return false;
    for (uint32_t i = 0; i < t->n; i++)
        if (mentions(t->parts[i], n, vars))
            return true;
    return t->kind == TYPE_FUNC && mentions(t->result, n, vars);
}

static void wrong_argument(Checker *ck, Call *call, uint32_t i, const Type *needed, bool shared)
{
    char before[40];
    snprintf(before, sizeof before, "argument %u of ", i + 1);
    const char *what = callee_text(ck, call, call->args.n == 1 ? "the argument of " : before);
    Span where = ir_use_span(ck->home, &call->args.at[i]);
    const Type *found = call->args.at[i]->type;
    Diag *d = report_misfit(ck, shared ? call->base.span : where, what, found, needed);
    Span defined = callee_of(ck, call).defined;
    if (shared)
        diag_label(d, where, "this is `%s`", type_str(ck->cx, type_resolve(ck->cx, found)));
    else if (!span_is_none(defined))
        diag_label(d, defined, "defined here");
    if (shared || needed->kind != TYPE_HOLE || !expr_as_var(call->callee))
        return;
    d->helps = NULL; /* what follows is the cause */
    diag_help(d, "a parameter without a type has one type for all calls; "
                 "`fn [A](%%x: A) -> A { … }` takes any");
}

/* Unifies the arguments with the parameters; what is known of an argument stays as precise as it is. False after a diagnostic. */
static bool pass_arguments(Checker *ck, Call *call, const Type *f, const Type *poly, size_t own)
{
    bool ok = true;
    ck->own_holes = own;
    for (uint32_t i = 0; i < call->args.n; i++) {
        Rule rule = {"an argument has the type of its parameter",
                     {.slot = &call->callee, .part = i + 1, .call = call},
                     {.slot = &call->args.at[i]}};
        if (unify_by(ck, rule, f->parts[i], call->args.at[i]->type, WIDEN_LEFT, FLOW_TO_A))
            continue;
        wrong_argument(ck, call, i, f->parts[i],
                       poly && mentions(poly->parts[i], poly->n_params, poly->params));
        ok = false;
    }
    ck->own_holes = SIZE_MAX;
    return ok;
}

static void record_instance(Checker *ck, Call *call, uint32_t n, const Type **types)
{
    if (n)
        vec_push(&ck->instances, &ck->scratch, ((Instance){call, ck->home, n, types}));
}

/* The constructor's type arguments, in the scratch arena. */
static const Type **type_arguments(Checker *ck, const Constructor *con, Span span)
{
    const TypeDef *def = con->type;
    const Type **with = arena_new_array(&ck->scratch, const Type *, def->n_params);
    for (uint32_t i = 0; i < def->n_params; i++)
        with[i] = hole_new(
            ck, (HoleInfo){HOLE_TYPE_ARG, span, def->params[i]->name->text, con->name->text});
    if (ck->story && def->n_params)
        story_instance(ck, type_str(ck->cx, type_of_constructor(ck->cx, con)),
                       (HoleInfo){HOLE_TYPE_ARG, span, NULL, con->name->text}, def->n_params,
                       def->params, with);
    return with;
}

const Type *infer_constructor(Checker *ck, const Constructor *con, Span span, const Type **args)
{
    const TypeDef *def = con->type;
    return type_adt(ck->cx, def, def->n_params, args ? args : type_arguments(ck, con, span));
}

static const Type *call_constructor(Checker *ck, Call *call, const Constructor *con)
{
    if (!call->callee->type)
        set_type(ck, call->callee, type_of_constructor(ck->cx, con));
    size_t own = ck->holes.n;
    const Type **with = type_arguments(ck, con, call->base.span);
    const TypeDef *def = con->type;
    const Type *result = infer_constructor(ck, con, call->base.span, with);
    record_instance(ck, call, def->n_params, with);
    if (call->args.n != con->n) {
        wrong_arity(ck, call, con->n);
        holes_poison(ck, result);
        return result;
    }
    ck->own_holes = own;
    for (uint32_t i = 0; i < con->n; i++) {
        const Type *field = type_subst(ck->cx, con->fields[i], def->n_params, def->params, with);
        Rule rule = {"an argument of a constructor has the type of its field",
                     {.slot = &call->callee, .part = i + 1, .call = call},
                     {.slot = &call->args.at[i]}};
        if (unify_by(ck, rule, field, call->args.at[i]->type, WIDEN_LEFT, FLOW_TO_A))
            continue;
        wrong_argument(ck, call, i, field, mentions(con->fields[i], def->n_params, def->params));
        holes_poison(ck, result);
    }
    ck->own_holes = SIZE_MAX;
    return result;
}

/* A callee of unknown type becomes a function of these arguments. */
static const Type *call_unknown(Checker *ck, Call *call, const Type *callee)
{
    const Type **args = arena_new_array(&ck->scratch, const Type *, call->args.n);
    for (uint32_t i = 0; i < call->args.n; i++)
        args[i] = call->args.at[i]->type;
    const Type *result = hole_new(ck, (HoleInfo){HOLE_CALL, call->base.span, NULL, NULL});
    const Type *f = type_func(ck->cx, 0, NULL, call->args.n, args, result);
    Rule rule = {"what is called is a function of these arguments",
                 {.slot = &call->callee},
                 {.span = call->base.span}};
    if (unify_by(ck, rule, callee, f, WIDEN_BOTH, FLOW_TO_A))
        return result;
    report_misfit(ck, call->base.span, "the callee", callee, f);
    return ck->cx->poison;
}

static const Type *call_function(Checker *ck, Call *call, const Type *f)
{
    const Type *poly = f->n_params ? f : NULL;
    size_t own = ck->holes.n;
    if (poly) {
        const Type **with = arena_new_array(&ck->scratch, const Type *, f->n_params);
        f = instantiate(ck, f,
                        (HoleInfo){HOLE_TYPE_ARG, call->base.span, NULL, callee_of(ck, call).name},
                        with);
        record_instance(ck, call, poly->n_params, with);
    }
    if (call->args.n != f->n) {
        wrong_arity(ck, call, f->n);
        /* What missing arguments would decide stays unsaid. */
        holes_poison(ck, poly ? f : f->result);
        return f->result;
    }
    bool fits = pass_arguments(ck, call, f, poly, own);
    if (!fits && poly)
        holes_poison(ck, f);
    else if (!fits) /* what it returns may be unknown for that reason */
        vec_push(&ck->blamed, &ck->scratch, f->result);
    return f->result;
}

const Type *infer_call(Checker *ck, Call *call)
{
    const OpRef *op = expr_as_op(call->callee);
    if (op)
        return call_op(ck, call, op->op);
    const ConRef *con = expr_as_con(call->callee);
    if (con)
        return call_constructor(ck, call, con->con);
    const Type *callee = type_find(call->callee->type);
    switch ((TypeKind)callee->kind) {
    case TYPE_FUNC: return call_function(ck, call, callee);
    case TYPE_HOLE: return call_unknown(ck, call, callee);
    case TYPE_POISON:
        /* What only the callee could have told of the arguments stays unsaid. */
        for (uint32_t i = 0; i < call->args.n; i++)
            vec_push(&ck->blamed, &ck->scratch, call->args.at[i]->type);
        return callee;
    case TYPE_TENSOR:
    case TYPE_TUPLE:
    case TYPE_REF:
    case TYPE_VAR:
    case TYPE_ADT: break;
    }
    Diag *d = diag_error(ck->cx->diags, E0205_NOT_A_FUNCTION, call->base.span,
                         "`%s` cannot be called", type_str(ck->cx, type_resolve(ck->cx, callee)));
    diag_label(d, ir_use_span(ck->home, &call->callee), "this is no function");
    if (callee->kind == TYPE_TENSOR)
        diag_help(d, "a product is written `… * (…)`, an element of a tensor `take(…, 0)`");
    else if (callee->kind == TYPE_REF)
        diag_help(d, "`ref_read(…)` gives what a reference holds");
    else if (callee->kind == TYPE_TUPLE)
        diag_help(d, "fields of a tuple are `.0`, `.1` and so on");
    else
        diag_help(d, "what is called is a function: `@f`, `%%f`, an operator or a constructor");
    return ck->cx->poison;
}
