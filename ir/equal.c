#include "ir/equal.h"

#include "base/vec.h"
#include "ir/ctx.h"
#include "ir/print.h"
#include "ir/walk.h"

#include <math.h>
#include <string.h>

/* Two slots that hold nodes to be compared: where a shared node was written is known by its slot. Of what stands in attributes, the
 * whole attribute is shown. */
typedef struct Pair {
    Expr *const *a, *const *b;
    const Attr *attr_a, *attr_b; /* or NULL */
} Pair;

typedef struct Equal {
    Arena arena;
    Vec(Pair) todo;
    PtrMap left, right; /* the bijection of variables and of nodes that carry sharing */
    PtrMap defs; /* data types and constructors of the left side -> of the right */
    Vec(const TypeVar *) vars_a, vars_b;
    bool map_free;
    const Module *module_a, *module_b; /* for places; may be NULL */
    Span at_a, at_b; /* of the nodes that are compared now */
    IrDifference *out; /* NULL: nobody wants to know */
} Equal;

/* ---- saying what differs ------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static bool differ(Equal *eq, const char *format, ...)
{
    if (!eq->out || eq->out->why.n)
        return false;
    va_list args;
    va_start(args, format);
    buf_vprintf(&eq->out->why, format, args);
    va_end(args);
    eq->out->a = eq->at_a;
    eq->out->b = eq->at_b;
    return false;
}

static bool differ_sides(Equal *eq, const char *what, const char *a, const char *b)
{
    differ(eq, "%s", what);
    if (eq->out && eq->out->at_a.n + eq->out->at_b.n == 0) {
        buf_str(&eq->out->at_a, a);
        buf_str(&eq->out->at_b, b);
    }
    return false;
}

static bool differ_types(Equal *eq, const Type *a, const Type *b)
{
    Buf x = {0}, y = {0};
    if (!eq->out)
        return false;
    if (a)
        type_print(&x, a);
    if (b)
        type_print(&y, b);
    differ_sides(eq, "the types differ", x.n ? buf_text(&x) : "no type",
                 y.n ? buf_text(&y) : "no type");
    buf_deinit(&x);
    buf_deinit(&y);
    return false;
}

static bool differ_counts(Equal *eq, const char *what, uint32_t a, uint32_t b)
{
    return differ(eq, "the number of %s differs: %u and %u", what, a, b);
}

static void describe(Buf *b, const Expr *e)
{
    static const char *const words[] = {
        "a tuple", "a projection", "a call",          "a function", "a let",
        "an if",   "a match",      "a new reference", "a reading",  "a writing",
    };
    const Call *call = expr_as_call(e);
    if (call && call->callee->kind <= EXPR_CON) {
        buf_str(b, "a call of ");
        e = call->callee;
    }
    if (e->kind > EXPR_CON) {
        buf_str(b, words[e->kind - EXPR_TUPLE]);
        return;
    }
    buf_char(b, '`');
    ir_print_expr(b, e, (PrintStyle){0});
    buf_char(b, '`');
}

static bool differ_nodes(Equal *eq, const char *what, const Expr *a, const Expr *b)
{
    Buf x = {0}, y = {0};
    if (!eq->out)
        return false;
    describe(&x, a);
    describe(&y, b);
    differ_sides(eq, what, buf_text(&x), buf_text(&y));
    buf_deinit(&x);
    buf_deinit(&y);
    return false;
}

/* ---- the bijections --------------------------------------------------------------------------------------------------------- */

static bool pair_up(Equal *eq, const void *a, const void *b)
{
    const void *known = ptrmap_find(&eq->left, a);
    if (known || ptrmap_has(&eq->right, b))
        return known == b;
    ptrmap_put(&eq->left, a, (void *)(uintptr_t)b);
    ptrmap_put(&eq->right, b, (void *)(uintptr_t)a);
    return true;
}

static bool same_type(Equal *eq, const Type *a, const Type *b)
{
    TypeBijection under = {(uint32_t)eq->vars_a.n, eq->vars_a.at, eq->vars_b.at, &eq->defs,
                           eq->module_a != eq->module_b};
    if (!a || !b)
        return a == b || differ_types(eq, a, b);
    return type_equal_under(a, b, &under) || differ_types(eq, a, b);
}

static bool same_con(Equal *eq, const Constructor *a, const Constructor *b)
{
    const void *mapped = ptrmap_find(&eq->defs, a);
    return (mapped ? mapped : a) == b ||
           differ(eq, "the constructors differ: `%s` and `%s`", a->name->text, b->name->text);
}

static bool same_attrs(Equal *eq, const Attrs *a, const Attrs *b);

static bool same_binder(Equal *eq, const Var *a, const Var *b)
{
    const Type *ta = a->base.type ? a->base.type : a->annotation;
    const Type *tb = b->base.type ? b->base.type : b->annotation;
    Span at_a = eq->at_a, at_b = eq->at_b;
    eq->at_a = a->base.span;
    eq->at_b = b->base.span;
    bool same = (pair_up(eq, a, b) || differ(eq, "one of the variables is bound elsewhere too")) &&
                (!ta || !tb || same_type(eq, ta, tb)) && same_attrs(eq, a->attrs, b->attrs);
    eq->at_a = at_a;
    eq->at_b = at_b;
    return same;
}

/* ---- fields ------------------------------------------------------------------------------------------------------------------- */

static bool same_pattern(Equal *eq, const Pattern *a, const Pattern *b)
{
    eq->at_a = a->span;
    eq->at_b = b->span;
    if (a->kind != b->kind)
        return differ(eq, "the patterns are of different kinds");
    if (a->kind == PATTERN_CON && !same_con(eq, a->con, b->con))
        return false;
    if (a->n != b->n)
        return differ_counts(eq, "fields of the pattern", a->n, b->n);
    if (a->kind == PATTERN_VAR)
        return same_binder(eq, a->var, b->var);
    for (uint32_t i = 0; i < a->n; i++)
        if (!same_pattern(eq, a->fields[i], b->fields[i]))
            return false;
    return true;
}

static void push(Equal *eq, Expr *const *a, Expr *const *b)
{
    vec_push(&eq->todo, &eq->arena, ((Pair){a, b, NULL, NULL}));
}

static bool push_all(Equal *eq, const char *what, const ExprList *a, const ExprList *b)
{
    if (a->n != b->n)
        return differ_counts(eq, what, a->n, b->n);
    for (uint32_t i = 0; i < a->n; i++)
        push(eq, &a->at[i], &b->at[i]);
    return true;
}

static bool same_vars(Equal *eq, const VarList *a, const VarList *b)
{
    bool same = a->n == b->n || differ_counts(eq, "parameters", a->n, b->n);
    for (uint32_t i = 0; same && i < a->n; i++)
        same = same_binder(eq, a->at[i], b->at[i]);
    return same;
}

static bool same_typevars(Equal *eq, const TypeVarList *a, const TypeVarList *b)
{
    for (uint32_t i = 0; i < a->n && a->n == b->n; i++) {
        vec_push(&eq->vars_a, &eq->arena, a->at[i]);
        vec_push(&eq->vars_b, &eq->arena, b->at[i]);
    }
    return a->n == b->n || differ_counts(eq, "type parameters", a->n, b->n);
}

static bool same_types(Equal *eq, const TypeList *a, const TypeList *b)
{
    bool same = a->n == b->n || differ_counts(eq, "type arguments", a->n, b->n);
    for (uint32_t i = 0; same && i < a->n; i++)
        same = same_type(eq, a->at[i], b->at[i]);
    return same;
}

static bool same_clauses(Equal *eq, const ClauseList *a, const ClauseList *b)
{
    bool same = a->n == b->n || differ_counts(eq, "clauses", a->n, b->n);
    for (uint32_t i = 0; same && i < a->n; i++) {
        same = same_pattern(eq, a->at[i].pattern, b->at[i].pattern);
        push(eq, &a->at[i].body, &b->at[i].body);
    }
    return same;
}

/* Text knows one NaN. */
static bool same_value(Value a, Value b)
{
    if (value_equal(a, b))
        return true;
    return a.kind == VALUE_SCALAR && b.kind == VALUE_SCALAR && dtype_eq(a.dtype, b.dtype) &&
           isnan(value_as_double(a)) && isnan(value_as_double(b));
}

static bool differ_attr(Equal *eq, const char *key, const AttrValue *a, const AttrValue *b)
{
    Buf what = {0}, x = {0}, y = {0};
    if (!eq->out)
        return false;
    buf_printf(&what, "the attribute `%s` differs", key);
    for (int side = 0; side < 2; side++) {
        const AttrValue *v = side ? b : a;
        Buf *text = side ? &y : &x;
        buf_printf(text, v ? "`%s=" : "no `%s", key);
        if (v)
            ir_print_attr(text, v);
        buf_char(text, '`');
    }
    differ_sides(eq, buf_text(&what), buf_text(&x), buf_text(&y));
    buf_deinit(&what);
    buf_deinit(&x);
    buf_deinit(&y);
    return false;
}

typedef struct AttrPair {
    const Attr *a, *b;
} AttrPair;

static bool same_items(Equal *eq, AttrPair in, const AttrValue *a, const AttrValue *b);
static bool same_entries(Equal *eq, AttrPair in, const Attrs *a, const Attrs *b);

/* The variables of an expression are those around it. Lists nest as deep as the parser lets them. */
static bool same_attr(Equal *eq, AttrPair in, const AttrValue *a, const AttrValue *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case ATTR_NONE:
    case ATTR_INT:
    case ATTR_FLOAT:
    case ATTR_BOOL:
    case ATTR_STRING:
    case ATTR_TEXT: return attr_value_equal(a, b);
    case ATTR_LIST: return same_items(eq, in, a, b);
    case ATTR_RECORD:
        return !strcmp(a->record.key, b->record.key) &&
               same_entries(eq, in, a->record.fields, b->record.fields);
    case ATTR_EXPR: break;
    }
    vec_push(&eq->todo, &eq->arena, ((Pair){&a->e, &b->e, in.a, in.b}));
    return true;
}

static bool same_items(Equal *eq, AttrPair in, const AttrValue *a, const AttrValue *b)
{
    if (a->list.n != b->list.n)
        return false;
    for (uint32_t i = 0; i < a->list.n; i++)
        if (!same_attr(eq, in, &a->list.at[i], &b->list.at[i]))
            return false;
    return true;
}

static bool same_entries(Equal *eq, AttrPair in, const Attrs *a, const Attrs *b)
{
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++) {
        const AttrValue *other = attrs_find(b, a->at[i].key);
        if (!other || !same_attr(eq, in, &a->at[i].value, other))
            return false;
    }
    return true;
}

static bool same_attrs(Equal *eq, const Attrs *a, const Attrs *b)
{
    for (uint32_t i = 0; a && i < a->n; i++) {
        const Attr *x = &a->at[i], *y = attrs_get(b, x->key, i);
        if (!y || !same_attr(eq, (AttrPair){x, y}, &x->value, &y->value))
            return differ_attr(eq, x->key, &x->value, y ? &y->value : NULL);
    }
    for (uint32_t i = 0; b && i < b->n; i++)
        if (!attrs_get(a, b->at[i].key, i))
            return differ_attr(eq, b->at[i].key, NULL, &b->at[i].value);
    return true;
}

static bool same_field(Equal *eq, const NodeField *f, const Expr *x, const Expr *y)
{
    const void *a = (const char *)x + f->offset, *b = (const char *)y + f->offset;
    switch (f->kind) {
    case FIELD_EXPR: push(eq, a, b); return true;
    case FIELD_EXPRS: return push_all(eq, x->kind == EXPR_CALL ? "arguments" : "fields", a, b);
    case FIELD_BINDER: return same_binder(eq, *(Var *const *)a, *(Var *const *)b);
    case FIELD_BINDERS: return same_vars(eq, a, b);
    case FIELD_TYPE: {
        const Type *ta = *(const Type *const *)a, *tb = *(const Type *const *)b;
        return !ta || !tb || same_type(eq, ta, tb);
    }
    case FIELD_TYPES: return same_types(eq, a, b);
    case FIELD_TYPEVARS: return same_typevars(eq, a, b);
    case FIELD_ATTRS: return same_attrs(eq, *(const Attrs *const *)a, *(const Attrs *const *)b);
    case FIELD_CLAUSES: return same_clauses(eq, a, b);
    case FIELD_VALUE:
        return same_value(*(const Value *)a, *(const Value *)b) ||
               differ_nodes(eq, "the constants differ", x, y);
    case FIELD_CON:
        return same_con(eq, *(const Constructor *const *)a, *(const Constructor *const *)b);
    case FIELD_NAME:
    case FIELD_OP:
        return *(const void *const *)a == *(const void *const *)b ||
               differ_nodes(eq, "the names differ", x, y);
    case FIELD_INT:
        return *(const int64_t *)a == *(const int64_t *)b ||
               differ(eq, "the fields that are taken differ: %lld and %lld",
                      (long long)*(const int64_t *)a, (long long)*(const int64_t *)b);
    case FIELD_BOOL:
        return *(const bool *)a == *(const bool *)b ||
               differ(eq, "one must be complete, `match`, the other need not, `match?`");
    }
    return false;
}

/* ---- nodes -------------------------------------------------------------------------------------------------------------------- */

static bool is_name(const Expr *e)
{
    return e->kind == EXPR_GLOBAL || e->kind == EXPR_OP || e->kind == EXPR_CON;
}

bool ir_has_identity(const Expr *e)
{
    return !is_name(e) &&
           !(e->kind == EXPR_CONSTANT && expr_as_constant(e)->value.kind == VALUE_SCALAR);
}

/* In two texts, variables of one name are taken for the same. */
static bool same_free_var(Equal *eq, const Expr *a, const Expr *b)
{
    bool same =
        a == b || (eq->module_a != eq->module_b && expr_as_var(a)->name == expr_as_var(b)->name);
    if (!eq->map_free && !same)
        return differ_nodes(eq, "free variables are the same only by themselves", a, b);
    return pair_up(eq, a, b) || differ_nodes(eq, "the variables differ", a, b);
}

static bool differ_sharing(Equal *eq, const Expr *a, const Expr *b)
{
    bool known = ptrmap_has(&eq->left, a);
    if (a->kind == EXPR_VAR)
        return differ_nodes(eq, "the variables differ", a, b);
    return differ_sides(
        eq, "what is shared differs", known ? "a node that was met before" : "a node by itself",
        ptrmap_has(&eq->right, b) ? "a node that was met before" : "a node by itself");
}

static bool same_fields(Equal *eq, const Expr *a, const Expr *b)
{
    /* The type arguments of operator calls follow from the arguments. */
    bool skip_types = expr_call_of_op(a) != NULL;
    size_t first = eq->todo.n;
    const NodeInfo *info = node_info((ExprKind)a->kind);
    for (int i = 0; i < info->n; i++) {
        if (skip_types && info->fields[i].kind == FIELD_TYPES)
            continue;
        if (!same_field(eq, &info->fields[i], a, b))
            return false;
    }
    /* What was pushed first is to be compared first. */
    for (size_t i = first, k = eq->todo.n; i + 1 < k; i++) {
        Pair p = eq->todo.at[i];
        eq->todo.at[i] = eq->todo.at[--k];
        eq->todo.at[k] = p;
    }
    return true;
}

static bool same_node(Equal *eq, const Expr *a, const Expr *b)
{
    if (a->kind != b->kind)
        return differ_nodes(eq, "the expressions are of different kinds", a, b);
    if (a->kind == EXPR_VAR && !ptrmap_has(&eq->left, a))
        return same_free_var(eq, a, b);
    bool seen = ptrmap_has(&eq->left, a);
    if (ir_has_identity(a) && !pair_up(eq, a, b))
        return differ_sharing(eq, a, b);
    if (seen)
        return true;
    /* Different operators explain different attributes, so that they are told first. */
    const Call *x = expr_as_call(a), *y = expr_as_call(b);
    if (x && is_name(x->callee) && !same_node(eq, x->callee, y->callee))
        return false;
    return same_fields(eq, a, b);
}

static bool compare(Equal *eq, Expr *const *a, Expr *const *b)
{
    bool same = true;
    push(eq, a, b);
    while (same && eq->todo.n) {
        Pair p = vec_pop(&eq->todo);
        if (eq->out) {
            eq->at_a = p.attr_a ? p.attr_a->span : ir_use_span(eq->module_a, p.a);
            eq->at_b = p.attr_b ? p.attr_b->span : ir_use_span(eq->module_b, p.b);
        }
        same = same_node(eq, *p.a, *p.b);
    }
    return same;
}

static void equal_init(Equal *eq)
{
    arena_init(&eq->arena, NULL);
}

static void equal_deinit(Equal *eq)
{
    ptrmap_deinit(&eq->left);
    ptrmap_deinit(&eq->right);
    ptrmap_deinit(&eq->defs);
    arena_deinit(&eq->arena);
}

bool ir_equal(const Expr *a, const Expr *b, bool map_free_vars)
{
    Equal eq = {.map_free = map_free_vars};
    Expr *x = (Expr *)(uintptr_t)a, *y = (Expr *)(uintptr_t)b;
    equal_init(&eq);
    bool same = compare(&eq, &x, &y);
    equal_deinit(&eq);
    return same;
}

/* ---- modules --------------------------------------------------------------------------------------------------------------------- */

/* Data types of one name stand for each other, and so do their constructors; whether they agree is seen afterwards. */
static void pair_types(Equal *eq, const Module *a, const Module *b)
{
    for (size_t i = 0; i < a->types.n; i++) {
        const TypeDef *x = a->types.at[i], *y = module_find_type(b, x->name);
        if (!y || x == y)
            continue;
        ptrmap_put(&eq->defs, x, (void *)(uintptr_t)y);
        for (uint32_t k = 0; k < x->n_cons && k < y->n_cons; k++)
            ptrmap_put(&eq->defs, x->cons[k], y->cons[k]);
    }
}

static bool same_constructor(Equal *eq, const TypeDef *x, const TypeDef *y, uint32_t at)
{
    const Constructor *a = x->cons[at], *b = y->cons[at];
    TypeBijection under = {x->n_params, x->params, y->params, &eq->defs,
                           eq->module_a != eq->module_b};
    eq->at_a = a->span;
    eq->at_b = b->span;
    if (a->name != b->name)
        return differ(eq, "the constructors differ: `%s` and `%s`", a->name->text, b->name->text);
    if (a->n != b->n)
        return differ_counts(eq, "fields of the constructor", a->n, b->n);
    for (uint32_t i = 0; i < a->n; i++)
        if (!type_equal_under(a->fields[i], b->fields[i], &under))
            return differ_types(eq, a->fields[i], b->fields[i]);
    return true;
}

static bool same_typedef(Equal *eq, const TypeDef *a, const TypeDef *b)
{
    if (a == b)
        return true;
    eq->at_a = a->span;
    eq->at_b = b->span;
    if (a->is_extern != b->is_extern)
        return differ(eq, "one of the types is `extern`");
    if (a->n_params != b->n_params)
        return differ_counts(eq, "type parameters", a->n_params, b->n_params);
    if (a->n_cons != b->n_cons)
        return differ_counts(eq, "constructors", a->n_cons, b->n_cons);
    for (uint32_t i = 0; i < a->n_cons; i++)
        if (!same_constructor(eq, a, b, i))
            return false;
    return true;
}

static bool missing(Equal *eq, const char *what, const char *name, Span a, Span b)
{
    eq->at_a = a;
    eq->at_b = b;
    return differ(eq, "only one of the programs defines %s%s`", what, name);
}

static bool same_typedefs(Equal *eq, const Module *a, const Module *b)
{
    for (size_t i = 0; i < a->types.n; i++) {
        const TypeDef *x = a->types.at[i], *y = module_find_type(b, x->name);
        if (!y)
            return missing(eq, "the type `", x->name->text, x->span, (Span){0});
        if (!same_typedef(eq, x, y))
            return false;
    }
    for (size_t i = 0; i < b->types.n; i++)
        if (!module_find_type(a, b->types.at[i]->name))
            return missing(eq, "the type `", b->types.at[i]->name->text, (Span){0},
                           b->types.at[i]->span);
    return true;
}

static bool has_def(const Module *m, const Name *name)
{
    const Def *d = module_find(m, name);
    return d && d->fn && !d->imported;
}

/* Each function is compared by itself: variables of different ones have nothing to do with each other. */
static bool same_def(Equal *eq, const Def *a, const Def *b)
{
    Expr *x = &a->fn->base, *y = &b->fn->base;
    Equal one = {.map_free = true, .out = eq->out, .module_a = a->home, .module_b = b->home};
    equal_init(&one);
    one.defs = eq->defs;
    bool same = compare(&one, &x, &y);
    one.defs = (PtrMap){0};
    equal_deinit(&one);
    return same;
}

static bool same_defs(Equal *eq, const Module *a, const Module *b)
{
    const Def **defs = arena_alloc_must(&eq->arena, a->defs.n, sizeof *defs);
    size_t n = module_sorted_defs(a, defs, false);
    for (size_t i = 0; i < n; i++) {
        if (!has_def(b, defs[i]->name))
            return missing(eq, "`@", defs[i]->name->text, defs[i]->span, (Span){0});
        if (!same_def(eq, defs[i], module_find(b, defs[i]->name)))
            return false;
    }
    for (size_t i = 0; i < b->defs.n; i++)
        if (has_def(b, b->defs.at[i].name) && !has_def(a, b->defs.at[i].name))
            return missing(eq, "`@", b->defs.at[i].name->text, (Span){0}, b->defs.at[i].span);
    return true;
}

static bool same_modules(Equal *eq, Module *a, Module *b)
{
    pair_types(eq, a, b);
    if (!same_typedefs(eq, a, b) || !same_defs(eq, a, b))
        return false;
    if (!a->expr != !b->expr)
        return differ(eq, "one is an expression, the other a module");
    return !a->expr || compare(eq, &a->expr, &b->expr);
}

bool ir_module_compare(const Module *a, const Module *b, bool map_free_vars, IrDifference *out)
{
    Equal eq = {.map_free = map_free_vars, .out = out, .module_a = a, .module_b = b};
    equal_init(&eq);
    bool same = same_modules(&eq, (Module *)(uintptr_t)a, (Module *)(uintptr_t)b);
    equal_deinit(&eq);
    return same;
}

bool ir_module_equal(const Module *a, const Module *b)
{
    return ir_module_compare(a, b, true, NULL);
}

void ir_difference_free(IrDifference *d)
{
    buf_deinit(&d->why);
    buf_deinit(&d->at_a);
    buf_deinit(&d->at_b);
}
