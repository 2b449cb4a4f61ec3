#include "passes/adjoint.h"

#include "parser/parser.h"
#include "passes/fold.h"
#include "passes/types.h"
#include "stdlib/ops/ops.h"

#include <string.h>

/* ---- reading a rule ---------------------------------------------------------------------------------------------- */

/* The index of the argument of that name, the number of arguments for the result, and one more for its gradient; -1. */
static int find_arg(const Op *op, Str name)
{
    int n = op_arity(op), i = 0;
    if (str_is(name, "g") || str_is(name, "out"))
        return n + (name.len == 1);
    while (i < n && !str_is(name, op->args[i].name))
        i++;
    return i < n ? i : -1;
}

/* The same of the variable whose elements' type `%x.dtype` is. */
static int find_dtype(const Op *op, const Name *name)
{
    static const char behind[] = ".dtype";
    size_t n = sizeof behind - 1;
    bool is = name->len > n && !strcmp(name->text + name->len - n, behind);
    return is ? find_arg(op, (Str){name->text, name->len - n}) : -1;
}

/* Whether all that the rule names is there. */
static bool names_known(Ctx *cx, const Op *op, const Module *rule)
{
    bool all = true;
    for (size_t i = 0; i < rule->free_vars.n; i++) {
        const Var *v = rule->free_vars.at[i];
        const OpAttr *a = op->attrs;
        bool known = find_arg(op, str_of(v->name->text)) >= 0 || find_dtype(op, v->name) >= 0;
        for (; a && a->name && !known; a++)
            known = strcmp(a->name, v->name->text) == 0;
        if (!known)
            diag_error(cx->diags, E0110_UNDEFINED_VARIABLE, v->base.span,
                       "`%s` has neither an argument nor an attribute `%s`", op->name,
                       v->name->text);
        all &= known;
    }
    return all;
}

static void release_rule(void *m)
{
    module_release(m);
}

/* The text of a row, read when it is first needed; NULL after a diagnostic that shows the place in it. */
static Module *read_rule(Ctx *cx, const Op *op)
{
    Module *m = ptrmap_find(&cx->rules, op);
    if (m)
        return m;
    Buf title = {0};
    buf_printf(&title, "gradient of %s", op->name);
    uint32_t source = sources_add(&cx->sources, buf_text(&title), op->grad, strlen(op->grad));
    buf_deinit(&title);
    m = source ? parse_text(cx, source, &(ParseEnv){.template = true}) : NULL;
    if (m && !names_known(cx, op, m)) {
        module_release(m);
        return NULL;
    }
    if (m) {
        ptrmap_put(&cx->rules, op, m);
        arena_on_free(&cx->arena, release_rule, m);
    }
    return m;
}

/* ---- filling it in ------------------------------------------------------------------------------------------------ */

/* What a variable of the rule stands for: the value of its `let`, or the field that `each` is at. */
typedef struct Bound {
    const Var *var;
    const Expr *value;
} Bound;

/* A part of the rule, and what it became. */
typedef struct Part {
    const Expr *of;
    Expr *made;
} Part;

typedef Vec(Part) Parts;

/* A rule is a row's, so it is not deep. To know a type or a value, parts are made of variables that have the types of the call's parts
 * and nothing else, in the memory of the rule, which is taken back when all is made. */
typedef struct Maker {
    const AdjointCall *call;
    OpsMake m;
    const Op *op;
    Module *rule;
    bool asks; /* what is made is to be known, and will be no part of the program */
    bool failed; /* a message says so */
    Vec(Bound) bound;
    Parts parts[2]; /* the second where it asks */
} Maker;

static Expr *make(Maker *k, const Expr *e);
static bool attr_of(Maker *k, const Expr *e, AttrValue *out);

static void *fail(Maker *k, const Expr *e, const char *what)
{
    if (!k->failed)
        diag_error(k->m.cx->diags, E0605_NO_GRADIENT, e->span, "the gradient of `%s`: %s",
                   k->op->name, what);
    k->failed = true;
    return NULL;
}

static bool calls(const Expr *e, const char *name)
{
    const Op *op = e ? expr_call_of_op(e) : NULL;
    return op && strcmp(op->name, name) == 0;
}

static int arg_of(const Maker *k, const Expr *var)
{
    const Name *name = expr_as_var(var)->name;
    return find_arg(k->op, (Str){name->text, name->len});
}

static const Type *type_of_arg(const Maker *k, int i)
{
    const Call *typed = k->call->typed;
    return type_find(i < (int)typed->args.n ? typed->args.at[i]->type : typed->base.type);
}

static Expr *arg_at(Maker *k, int i)
{
    int n = (int)k->call->typed->args.n;
    if (!k->asks)
        return i < n ? k->call->args[i] : i == n ? k->call->out : k->call->grad;
    Var *typed = expr_var(k->m.arena, k->m.span, ctx_name(k->m.cx, ""), NULL);
    typed->base.type = type_of_arg(k, i);
    return &typed->base;
}

/* What e is once names are followed and conditions, which have to be known, are met; NULL where one is not known. */
static const Expr *settle(Maker *k, const Expr *e)
{
    for (;;) {
        const Let *let = expr_as_let(e);
        const If *choice = expr_as_if(e);
        AttrValue known;
        size_t i = e->kind == EXPR_VAR ? k->bound.n : 0;
        while (i > 0 && &k->bound.at[i - 1].var->base != e)
            i--;
        if (i > 0) {
            e = k->bound.at[i - 1].value;
        } else if (let) {
            vec_push(&k->bound, &k->rule->arena, ((Bound){let->var, let->value}));
            e = let->body;
        } else if (choice) {
            if (!attr_of(k, choice->cond, &known))
                return NULL;
            e = known.b ? choice->then : choice->otherwise;
        } else {
            return e;
        }
    }
}

/* ---- what is known while the gradient is made -------------------------------------------------------------------- */

/* The part, of variables that have types, with its own; NULL where it has none. */
static Expr *asked(Maker *k, const Expr *e)
{
    OpsMake m = k->m;
    bool asks = k->asks;
    k->m.arena = &k->rule->arena;
    k->asks = true;
    Expr *made = make(k, e);
    bool typed = made && (k->call->check ? expr_type_ops(m.cx, made)->type != NULL
                                         : expr_try_type_ops(m.cx, made));
    k->m = m;
    k->asks = asks;
    return typed ? made : NULL;
}

/* The type of a part that is a tensor; NULL where it is none, or not known. */
static const Type *tensor_type_of(Maker *k, const Expr *e)
{
    const Expr *typed = asked(k, e);
    return typed ? expr_tensor_type(typed) : NULL;
}

/* An attribute of the call, `%x.dtype`, a text or None. */
static bool attr_named(Maker *k, const Var *var, AttrValue *out)
{
    Str name = {var->name->text, var->name->len};
    const AttrValue *v = attrs_find(k->call->typed->attrs, name.ptr);
    int i = find_dtype(k->op, var->name);
    const Type *t = i < 0 ? NULL : type_of_arg(k, i);
    *out = (AttrValue){.kind = ATTR_NONE};
    if (v)
        *out = *v;
    else if (name.ptr[0] == '"')
        *out = (AttrValue){.kind = ATTR_STRING, .s = {name.ptr + 1, name.len - 2}};
    else if (t && t->kind == TYPE_TENSOR)
        *out = ops_attr_dtype(&k->m, "", t->dtype).value;
    return arg_of(k, &var->base) < 0 && (!t || t->kind == TYPE_TENSOR);
}

/* Whole numbers; NULL where one is too large. */
static Expr *ints_constant(Maker *k, uint32_t n, const AttrValue *at)
{
    const int64_t extent = n;
    Tensor *t = tensor_new(&k->m.cx->limits, dtype_of(DT_INT32), 1, &extent);
    bool good = t != NULL;
    for (uint32_t i = 0; good && i < n; i++) {
        ((int32_t *)t->data)[i] = (int32_t)at[i].i;
        good = at[i].kind == ATTR_INT && at[i].i == (int32_t)at[i].i;
    }
    Value v = value_tensor(t);
    Expr *e = good ? expr_constant(k->m.arena, k->m.span, v) : NULL;
    value_release(v);
    return e;
}

/* An attribute where an expression stands; NULL where it cannot be one. */
static Expr *attr_constant(Maker *k, const AttrValue *v)
{
    switch (v->kind) {
    case ATTR_LIST: return ints_constant(k, v->list.n, v->list.at);
    case ATTR_INT:
        return v->i == (int32_t)v->i ? ops_constant(&k->m, dtype_of(DT_INT32), (double)v->i) : NULL;
    case ATTR_FLOAT: return ops_constant(&k->m, dtype_of(DT_FLOAT64), v->f);
    case ATTR_BOOL: return ops_constant(&k->m, dtype_of(DT_BOOL), v->b);
    default: return NULL;
    }
}

/* A number, or a list of whole ones. */
static bool constant_attr(Maker *k, const Constant *c, AttrValue *out)
{
    TensorView view;
    const Value v = c->value;
    if (!value_view(&v, &view) || view.t.rank > 1 || (view.t.rank && !dtype_is_int(view.t.dtype)))
        return false;
    if (dtype_is_float(view.t.dtype)) {
        *out = (AttrValue){.kind = ATTR_FLOAT, .f = value_as_double(v)};
        return true;
    }
    AttrValue *at = arena_alloc_must(k->m.arena, (size_t)view.t.size + 1, sizeof *at);
    for (int64_t i = 0; i < view.t.size; i++)
        at[i] = (AttrValue){.kind = ATTR_INT, .i = tensor_get_int(&view.t, i)};
    if (view.t.rank)
        *out = (AttrValue){.kind = ATTR_LIST, .list = {at, (uint32_t)view.t.size}};
    else
        *out = dtype_is_bool(view.t.dtype) ? (AttrValue){.kind = ATTR_BOOL, .b = at->i != 0} : *at;
    return true;
}

/* The extents of a part, -1 for those that are not known; how many these are is added up. False where it is no tensor. */
static bool extents_of(Maker *k, const Expr *e, AttrValue *out, int *unknown)
{
    const Type *t = tensor_type_of(k, e);
    uint32_t n = t ? t->n : 0;
    AttrValue *at = arena_alloc_must(k->m.arena, n + 1, sizeof *at);
    for (uint32_t i = 0; i < n; i++) {
        *unknown += t->dims[i] < 0;
        at[i] = (AttrValue){.kind = ATTR_INT, .i = t->dims[i] < 0 ? -1 : t->dims[i]};
    }
    *out = (AttrValue){.kind = ATTR_LIST, .list = {at, n}};
    return t != NULL;
}

/* What an attribute or a condition comes to; false where it is not known, as an extent may be. */
static bool attr_of(Maker *k, const Expr *e, AttrValue *out)
{
    AttrValue a, b;
    int unknown = 0;
    if (!(e = settle(k, e)))
        return false;
    if (e->kind == EXPR_VAR)
        return attr_named(k, expr_as_var(e), out);
    const Call *call = expr_as_call(e);
    if (calls(e, "shape_of")) /* -1 is what remains, as `reshape` has it */
        return extents_of(k, call->args.at[0], out, &unknown) && unknown < 2;
    if (calls(e, "equal") && attr_of(k, call->args.at[0], &a) && attr_of(k, call->args.at[1], &b)) {
        *out = (AttrValue){.kind = ATTR_BOOL, .b = attr_value_equal(&a, &b)};
        return true;
    }
    const Expr *known = fold_new(k->m.cx, k->rule, asked(k, e));
    return known && known->kind == EXPR_CONSTANT && constant_attr(k, expr_as_constant(known), out);
}

static bool value_known(Maker *k, AttrValue *v)
{
    if (v->kind == ATTR_EXPR)
        return attr_of(k, v->e, v);
    if (v->kind != ATTR_LIST || !v->list.n)
        return true;
    AttrValue *at = arena_copy(k->m.arena, v->list.at, v->list.n * sizeof *at);
    bool known = true;
    for (uint32_t i = 0; known && i < v->list.n; i++)
        known = value_known(k, &at[i]);
    v->list.at = at;
    return known;
}

/* Like all that is made they stand where the call does, whose text is the program's. */
static const Attrs *stand_at_call(Maker *k, const Attrs *a)
{
    if (k->asks || !a)
        return a;
    Attrs *at_call = arena_copy(k->m.arena, a, sizeof *a + a->n * sizeof a->at[0]);
    for (uint32_t i = 0; i < a->n; i++)
        at_call->at[i].span = at_call->at[i].key_span = k->m.span;
    return at_call;
}

/* The attributes of a call in the rule; false when one is not known, or after a diagnostic, which is about the rule's text. */
static bool attrs_of(Maker *k, const Call *call, const Attrs **out)
{
    const Op *op = expr_call_of_op(&call->base);
    uint32_t n = call->attrs ? call->attrs->n : 0;
    size_t size = sizeof(Attrs) + n * sizeof(Attr);
    Attrs *written = arena_alloc_must(&k->rule->arena, 1, size);
    if (n)
        memcpy(written, call->attrs, size);
    for (uint32_t i = 0; i < n; i++)
        if (!value_known(k, &written->at[i].value))
            return false;
    *out = op->attrs || n
               ? attrs_check(k->m.cx, k->m.arena, op->name, op->attrs, written, call->base.span)
               : NULL;
    k->failed |= !*out && (op->attrs || n);
    *out = stand_at_call(k, *out);
    return !k->failed;
}

/* `take(shape_of(E), I)`: an extent, which may be known though others are not; NULL where it is not. */
static Expr *extent(Maker *k, const Call *call)
{
    AttrValue at, all;
    const Attrs *attrs;
    int unknown = 0;
    const Expr *shape = calls(&call->base, "take") ? settle(k, call->args.at[0]) : NULL;
    const Call *of = calls(shape, "shape_of") ? expr_as_call(shape) : NULL;
    if (!of || !attrs_of(k, of, &attrs) || !attr_of(k, call->args.at[1], &at) ||
        at.kind != ATTR_INT || !extents_of(k, of->args.at[0], &all, &unknown))
        return NULL;
    at.i += at.i < 0 ? all.list.n : 0;
    if (at.i < 0 || at.i >= all.list.n || all.list.at[at.i].i < 0)
        return NULL;
    return ops_constant(&k->m, ops_dtype(attrs, "dtype", dtype_of(DT_INT32)),
                        (double)all.list.at[at.i].i);
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* A tuple of E for each field, in each(fn (%x) { E }, TUPLE). */
static Expr *make_each(Maker *k, const Call *call)
{
    const Function *f = expr_as_function(call->args.at[0]);
    const Expr *of = f ? asked(k, call->args.at[1]) : NULL;
    const Type *t = of ? type_find(of->type) : NULL;
    if (!t || t->kind != TYPE_TUPLE || f->params.n != 1)
        return fail(k, &call->base, "`each` is of a function of one parameter and of a tuple");
    if (!make(k, call->args.at[1]))
        return NULL;
    size_t parts[2] = {k->parts[0].n, k->parts[1].n}, bound = k->bound.n;
    Expr **fields = arena_alloc_must(k->m.arena, t->n + 1, sizeof *fields);
    for (uint32_t i = 0; i < t->n; i++) {
        Expr *field = expr_tuple_get(&k->rule->arena, call->base.span, call->args.at[1], i);
        vec_push(&k->bound, &k->rule->arena, ((Bound){f->params.at[0], field}));
        if (!(fields[i] = make(k, f->body)))
            return NULL;
        k->parts[0].n = parts[0];
        k->parts[1].n = parts[1];
        k->bound.n = bound;
    }
    return expr_tuple(k->m.arena, k->m.span, t->n, fields);
}

/* x with the axes of one element that `to` has more; NULL where it is not that. */
static Expr *with_axes(Maker *k, Expr *x, const Type *from, const Type *to)
{
    uint32_t at = 0, unknown = 0;
    for (uint32_t i = 0; i < to->n; i++) {
        if (at < from->n && from->dims[at] == to->dims[i])
            unknown += from->dims[at++] < 0;
        else if (to->dims[i] == 1)
            x = ops_call(&k->m, "expand_dims", 1, &x, 1, (Attr[]){ops_attr_int("axis", i)});
        else
            return NULL;
    }
    return at == from->n && unknown < 2 ? x : NULL;
}

/* What says that nothing changes is left out: a change to the same layout or element type, a reshape to the shape that is there. */
static Expr *simpler(Maker *k, const Call *call, const Attrs *attrs)
{
    const Expr *e = &call->base, *first = call->args.n ? call->args.at[0] : NULL;
    if (calls(e, "layout_transform"))
        return str_eq(attrs_string(attrs, "src_layout"), attrs_string(attrs, "dst_layout"))
                   ? make(k, first)
                   : NULL;
    if (calls(e, "cast")) {
        const Type *t = tensor_type_of(k, first);
        return t && dtype_eq(t->dtype, attrs_dtype(attrs, "dtype")) ? make(k, first) : NULL;
    }
    if (k->asks || !calls(e, "reshape"))
        return NULL;
    const Type *from = tensor_type_of(k, first), *to = from ? tensor_type_of(k, e) : NULL;
    return to ? with_axes(k, make(k, first), from, to) : NULL;
}

/* Whether no element of an argument or of the result is asked for. */
static bool is_of_types(Maker *k, const Expr *e)
{
    if (!(e = settle(k, e)))
        return false;
    const Call *call = expr_as_call(e);
    const Op *op = expr_call_of_op(e);
    bool known = op || e->kind == EXPR_CONSTANT || (e->kind == EXPR_VAR && arg_of(k, e) < 0);
    for (uint32_t i = 0; op && known && !(op->flags & OP_FROM_TYPE) && i < call->args.n; i++)
        known = is_of_types(k, call->args.at[i]);
    return known;
}

/* `cast_like(C, X)` of a number that is known: a constant. NULL where it is none. */
static Expr *scalar_like(Maker *k, const Call *call)
{
    AttrValue v;
    if (!is_of_types(k, call->args.at[0]) || !attr_of(k, call->args.at[0], &v))
        return NULL;
    const Type *t = tensor_type_of(k, call->args.at[1]);
    bool number = v.kind == ATTR_INT || v.kind == ATTR_FLOAT;
    return t && number ? ops_constant(&k->m, t->dtype, v.kind == ATTR_INT ? (double)v.i : v.f)
                       : NULL;
}

static Expr *make_call(Maker *k, const Call *call)
{
    const Op *op = expr_call_of_op(&call->base);
    const Attrs *attrs;
    if (!op)
        return fail(k, &call->base, "a rule calls operators only");
    if (calls(&call->base, "each"))
        return make_each(k, call);
    Expr *done = k->asks ? extent(k, call) : NULL;
    if (!done && calls(&call->base, "cast_like"))
        done = scalar_like(k, call);
    if (done || !attrs_of(k, call, &attrs) || (done = simpler(k, call, attrs)))
        return done;
    Expr **args = arena_alloc_must(&k->rule->arena, call->args.n + 1, sizeof *args);
    for (uint32_t i = 0; i < call->args.n; i++)
        if (!(args[i] = make(k, call->args.at[i])))
            return NULL;
    return expr_call_op(k->m.arena, k->m.span, op, call->args.n, args, attrs);
}

static Expr *make_new(Maker *k, const Expr *e)
{
    k->m.span = k->asks ? e->span : k->m.span;
    const Var *var = expr_as_var(e);
    const Tuple *tuple = expr_as_tuple(e);
    const TupleGet *get = expr_as_tuple_get(e);
    AttrValue known;
    if (var && arg_of(k, e) >= 0)
        return arg_at(k, arg_of(k, e));
    if (var)
        return attr_named(k, var, &known) ? attr_constant(k, &known) : NULL;
    if (e->kind == EXPR_CONSTANT)
        return expr_constant(k->m.arena, k->m.span, expr_as_constant(e)->value);
    if (get) {
        Expr *of = make(k, get->tuple);
        return of ? expr_tuple_get(k->m.arena, k->m.span, of, get->index) : NULL;
    }
    if (!tuple)
        return e->kind == EXPR_CALL ? make_call(k, expr_as_call(e))
                                    : fail(k, e, "this is no part of a rule");
    Expr **fields = arena_alloc_must(k->m.arena, tuple->fields.n + 1, sizeof *fields);
    for (uint32_t i = 0; i < tuple->fields.n; i++)
        if (!(fields[i] = make(k, tuple->fields.at[i])))
            return NULL;
    return expr_tuple(k->m.arena, k->m.span, tuple->fields.n, fields);
}

/* What a part of the rule is of this call; NULL where something is not known, or after a diagnostic. */
static Expr *make(Maker *k, const Expr *e)
{
    Parts *parts = &k->parts[k->asks];
    if (!(e = settle(k, e)))
        return NULL;
    size_t i = 0;
    while (i < parts->n && parts->at[i].of != e)
        i++;
    if (i < parts->n)
        return parts->at[i].made;
    Expr *made = make_new(k, e);
    if (made)
        vec_push(parts, &k->rule->arena, ((Part){e, made}));
    return made;
}

/* The gradients by the arguments: a tuple for several. */
static bool make_all(Maker *k, Expr **out)
{
    uint32_t n = k->call->typed->args.n;
    const Expr *all = settle(k, k->rule->expr);
    const Tuple *several = all && n > 1 ? expr_as_tuple(all) : NULL;
    if (n > 1 && all && (!several || several->fields.n != n))
        return fail(k, all, "of several arguments it is a tuple with one for each");
    for (uint32_t i = 0; all && i < n; i++)
        if (!(out[i] = make(k, several ? several->fields.at[i] : all)) ||
            (k->call->check && !asked(k, several ? several->fields.at[i] : all)))
            return false;
    return all != NULL;
}

/* False where something in the rule is not known, or after a diagnostic. */
static bool by_rule(const AdjointCall *call, const Op *op, Expr **out, bool *failed)
{
    Maker k = {.call = call, .m = {call->cx, call->arena, call->typed->base.span}, .op = op};
    if (!(k.rule = read_rule(call->cx, op)))
        return !(*failed = true);
    ArenaMark mark = arena_mark(&k.rule->arena);
    bool made = make_all(&k, out);
    arena_reset(&k.rule->arena, mark);
    *failed = k.failed || limit_hit(&call->cx->limits);
    return made && !*failed;
}

static bool holds_real(const Type *t)
{
    t = type_find(t);
    bool real = t->kind == TYPE_TENSOR && dtype_is_float(t->dtype);
    for (uint32_t i = 0; t->kind == TYPE_TUPLE && i < t->n; i++)
        real |= holds_real(t->parts[i]);
    return real;
}

static Expr *zeros_of(const OpsMake *m, const Type *t, Expr *e)
{
    t = type_find(t);
    if (t->kind != TYPE_TUPLE)
        return ops_call1(m, "zeros_like", e);
    Expr **fields = arena_alloc_must(m->arena, t->n + 1, sizeof *fields);
    for (uint32_t i = 0; i < t->n; i++)
        fields[i] = zeros_of(m, t->parts[i], expr_tuple_get(m->arena, m->span, e, i));
    return expr_tuple(m->arena, m->span, t->n, fields);
}

static bool has_none(const AdjointCall *call, const Op *op)
{
    Diag *d = diag_error(call->cx->diags, E0605_NO_GRADIENT, call->typed->base.span,
                         op->no_grad ? "`%s` has no gradient: %s" : "`%s` has no gradient",
                         op->name, op->no_grad);
    diag_help(d, "`:doc %s` shows what the operator is", op->name);
    return false;
}

bool adjoints(const AdjointCall *call, Expr **out)
{
    const Call *typed = call->typed;
    const Op *op = expr_call_of_op(&typed->base);
    OpsMake m = {call->cx, call->arena, typed->base.span};
    bool real = false, failed = false;
    if (op->grad && (by_rule(call, op, out, &failed) || failed))
        return !failed;
    for (uint32_t i = 0; i < typed->args.n; i++)
        real |= holds_real(typed->args.at[i]->type);
    if (real && holds_real(typed->base.type))
        return (op->compute || op->expression) && !op->no_grad
                   ? ops_adjoints(&m, typed, call->args, call->grad, out)
                   : has_none(call, op);
    for (uint32_t i = 0; i < typed->args.n; i++)
        out[i] = zeros_of(&m, typed->args.at[i]->type, call->args[i]);
    return true;
}
