/* Random expressions of a wanted type. */
#include "tests/random/internal.h"

#include "typecheck/subsume.h"

#include <string.h>

#define NOWHERE ((Span){0})

/* ---- what is in scope */

Var *fresh_var(Gen *g, const Type *annotation)
{
    static const char *const names[] = {"x",  "y",     "z",  "acc",  "a/b",
                                        "x1", "value", "_t", "True", "_"};
    const Name *name = ctx_name(g->cx, names[below(g, sizeof names / sizeof *names)]);
    return expr_var(g->arena, NOWHERE, name, annotation);
}

void learn_function(Gen *g, Known k)
{
    vec_push(&g->known, &g->scratch, k);
}

void learn(Gen *g, Expr *e, const Type *t)
{
    learn_function(g, (Known){.e = e, .type = t, .cost = 20});
}

void forget(Gen *g, size_t known)
{
    g->known.n = known;
}

/* Whether a value of type t may be this one: it is of the type, or it is more, or, seldom, it only looks like it. */
static bool will_do(Gen *g, const Type *known, const Type *t)
{
    if (!g->higher || known->kind != t->kind || known->n != t->n || t->kind == TYPE_VAR ||
        t->kind == TYPE_TENSOR)
        return type_equal(known, t);
    return type_fit(g->cx, &g->holders, known, t) != FIT_NOT || once_in(g, 60);
}

static Expr *find_known(Gen *g, const Type *t)
{
    size_t n = g->known.n, from = n ? below(g, n) : 0;
    for (size_t i = 0; i < n; i++) {
        const Known *k = &g->known.at[(from + i) % n];
        if (!k->counter && !k->hidden && will_do(g, k->type, t))
            return k->e ? k->e : expr_global(g->arena, NOWHERE, k->name);
    }
    return NULL;
}

/* ---- leaves */

Expr *make_literal(Gen *g, DType dtype, double v)
{
    return expr_constant(g->arena, NOWHERE, value_scalar_double(dtype, v));
}

static double random_number(Gen *g, DType dtype)
{
    if (dtype_is_bool(dtype))
        return once_in(g, 2);
    double v = (double)between(g, dtype_is_signed(dtype) || dtype_is_float(dtype) ? -5 : 0, 9);
    return dtype_is_float(dtype) && once_in(g, 2) ? v / 8 : v;
}

Expr *make_constant(Gen *g, const Type *t)
{
    Tensor *tensor = tensor_new(NULL, t->dtype, (int32_t)t->n, t->dims);
    size_t size = dtype_size(t->dtype);
    for (int64_t i = 0; i < tensor->size; i++)
        dtype_set_double(t->dtype, tensor->data + (size_t)i * size, random_number(g, t->dtype));
    Value v = value_tensor(tensor);
    Expr *e = expr_constant(g->arena, NOWHERE, v);
    value_release(v);
    return e;
}

Expr *make_let(Gen *g, Var *v, Expr *value, Expr *body)
{
    return expr_let(g->arena, NOWHERE, v, value, body);
}

/* The value with its type written beside it, for what says too little of its type itself. */
static Expr *annotated(Gen *g, Expr *e, const Type *t)
{
    Var *v = fresh_var(g, t);
    return make_let(g, v, e, &v->base);
}

/* Every unknown extent of a leaf is 2, so that most of them fit each other. */
static Expr *tensor_leaf(Gen *g, const Type *t)
{
    if (!has_any(t))
        return make_constant(g, t);
    Dim dims[TENSOR_RANK_MOST];
    for (uint32_t i = 0; i < t->n; i++)
        dims[i] = t->dims[i] < 0 ? 2 : t->dims[i];
    return annotated(g, make_constant(g, type_tensor(g->cx, t->dtype, t->n, dims)), t);
}

static bool mentions(const Type *t, const TypeVar *v)
{
    if (t->kind == TYPE_VAR)
        return t->var == v;
    for (uint32_t i = 0; t->kind != TYPE_TENSOR && i < t->n; i++)
        if (mentions(t->parts[i], v))
            return true;
    return t->kind == TYPE_FUNC && mentions(t->result, v);
}

/* Whether the fields say what each type argument is. */
static bool says_type(const Constructor *con)
{
    for (uint32_t i = 0; i < con->type->n_params; i++) {
        bool said = false;
        for (uint32_t k = 0; k < con->n && !said; k++)
            said = mentions(con->fields[k], con->type->params[i]);
        if (!said)
            return false;
    }
    return true;
}

/* `Nil` behind a head needs no type of its own. */
static Expr *make_con(Gen *g, const Constructor *con, const Type *t, int size, bool known)
{
    Expr *args[8];
    for (uint32_t i = 0; i < con->n; i++) {
        const Type *field = field_type(g, t, con, i);
        bool end = i > 0 && field == t && t->n == 1 && con->fields[0]->kind == TYPE_VAR &&
                   t->def->cons[0]->n == 0 && once_in(g, 3);
        args[i] =
            end ? make_con(g, t->def->cons[0], t, 0, true) : make(g, field, size / (int)con->n);
    }
    Expr *callee = expr_con(g->arena, NOWHERE, con);
    Expr *e = expr_call(g->arena, NOWHERE, callee, con->n, args, NULL);
    return known || says_type(con) ? e : annotated(g, e, t);
}

static Expr *tuple_of(Gen *g, const Type *t, int size)
{
    Expr **fields = arena_new_array(g->arena, Expr *, t->n);
    for (uint32_t i = 0; i < t->n; i++)
        fields[i] = make(g, t->parts[i], size / (int)t->n);
    return expr_tuple(g->arena, NOWHERE, t->n, fields);
}

/* A value of a type parameter can only come from a variable; there is one by construction. */
Expr *make_leaf(Gen *g, const Type *t)
{
    Expr *known = t->kind == TYPE_VAR || once_in(g, 2) ? find_known(g, t) : NULL;
    if (known)
        return known;
    switch ((TypeKind)t->kind) {
    case TYPE_TENSOR: return tensor_leaf(g, t);
    case TYPE_TUPLE: return tuple_of(g, t, 0);
    case TYPE_FUNC: return &make_function(g, t, 0, NULL)->base;
    case TYPE_REF: g->effects++; return expr_ref_new(g->arena, NOWHERE, make_leaf(g, t->parts[0]));
    case TYPE_ADT: return make_con(g, t->def->cons[0], t, 0, false);
    case TYPE_VAR: return call_known(g, t, 0);
    case TYPE_HOLE:
    case TYPE_POISON: break;
    }
    return NULL;
}

/* ---- forms for any type */

static Expr *form_known(Gen *g, const Type *t, int size)
{
    (void)size;
    return find_known(g, t);
}

Expr *random_value(Gen *g, int size, const Type **t)
{
    Expr *e = g->higher || once_in(g, 3) ? NULL : random_call(g, size, t);
    if (e)
        return e;
    *t = random_type(g, 2);
    return make(g, *t, size);
}

static Expr *form_let(Gen *g, const Type *t, int size)
{
    const Type *u;
    Expr *value = random_value(g, size / 2, &u);
    Var *v = fresh_var(g, once_in(g, g->higher ? 2 : 4) ? NULL : u);
    size_t known = g->known.n;
    learn(g, &v->base, u);
    Expr *body = make(g, t, size / 2);
    forget(g, known);
    return make_let(g, v, value, body);
}

/* A second name for what is in scope, once or twice; often the first name or the second is not used behind it. */
static Expr *form_alias(Gen *g, const Type *t, int size)
{
    size_t n = g->known.n, from = n ? below(g, n) : 0, at = n;
    for (size_t i = 0; i < n && at == n; i++) {
        const Known *k = &g->known.at[(from + i) % n];
        if (k->e && expr_as_var(k->e) && !k->counter && !k->hidden && k->type->kind != TYPE_VAR)
            at = (from + i) % n;
    }
    if (at == n)
        return NULL;
    Known was = g->known.at[at];
    Expr *before = make(g, random_scalar(g), size / 4);
    Var *v = fresh_var(g, once_in(g, 2) ? was.type : NULL), *first = fresh_var(g, NULL);
    Known second = was;
    second.e = &v->base;
    size_t known = g->known.n;
    if (once_in(g, 2))
        learn_function(g, second);
    g->known.at[at].hidden = once_in(g, 2);
    Expr *body = make(g, t, size / 2);
    forget(g, known);
    g->known.at[at] = was;
    Expr *e = make_let(g, v, was.e, body);
    return once_in(g, 2) ? make_let(g, first, before, e) : e;
}

/* What stands in a tuple that stands in a tuple, which may be bound first. */
static Expr *form_tuple_of_tuples(Gen *g, const Type *t, int size)
{
    const Type *inner = type_tuple(g->cx, 2, (const Type *[]){t, random_type(g, 1)});
    const Type *outer = type_tuple(g->cx, 2, (const Type *[]){random_tensor(g), inner});
    Expr *tuple = make(g, outer, size);
    if (once_in(g, 2))
        return expr_tuple_get(g->arena, NOWHERE, expr_tuple_get(g->arena, NOWHERE, tuple, 1), 0);
    Var *v = fresh_var(g, NULL), *w = fresh_var(g, NULL);
    Expr *body = expr_tuple_get(g->arena, NOWHERE, &w->base, 0);
    Expr *part = expr_tuple_get(g->arena, NOWHERE, &v->base, 1);
    return make_let(g, v, tuple, make_let(g, w, part, body));
}

/* `let` of a function that calls itself, or that has type parameters. */
static Expr *let_function(Gen *g, const Type *t, int size, uint32_t type_params, bool recursive)
{
    const Type *f = random_signature(g, type_params, recursive, 2);
    Var *v = fresh_var(g, g->higher && once_in(g, 2) ? NULL : f);
    Known self = {.e = &v->base, .type = f, .cost = 20, .level = g->level + 1};
    size_t effects = g->effects;
    Function *fn = make_function(g, f, size / 2, recursive ? &self : NULL);
    self.pure = g->effects == effects;
    self.counter = NULL;
    size_t known = g->known.n;
    learn_function(g, self);
    Expr *body = make(g, t, size / 2);
    forget(g, known);
    return make_let(g, v, &fn->base, body);
}

static Expr *form_let_recursive(Gen *g, const Type *t, int size)
{
    return size < 10 ? NULL : let_function(g, t, size, 0, true);
}

static Expr *form_let_polymorphic(Gen *g, const Type *t, int size)
{
    return size < 10 ? NULL : let_function(g, t, size, 1 + below(g, 2), false);
}

/* An operator as a value, called on the spot. */
static Expr *form_operator_value(Gen *g, const Type *t, int size)
{
    bool rarely = g->higher && !once_in(g, 10);
    return t->kind == TYPE_TENSOR && !has_any(t) && !rarely ? make_value_call(g, t, size) : NULL;
}

static Expr *form_if(Gen *g, const Type *t, int size)
{
    Expr *cond = make(g, scalar_of(g, DT_BOOL), size / 3), *arms[2];
    for (int i = 0; i < 2; i++) {
        size_t known = g->known.n;
        arms[i] = make(g, t, size / 3);
        forget(g, known);
    }
    return expr_if(g->arena, NOWHERE, cond, arms[0], arms[1]);
}

static Expr *form_project(Gen *g, const Type *t, int size)
{
    const Type *fields[4];
    uint32_t n = 1 + below(g, 3), at = below(g, n);
    for (uint32_t i = 0; i < n; i++)
        fields[i] = i == at ? t : random_type(g, 1);
    Expr *tuple = make(g, type_tuple(g->cx, n, fields), size);
    return expr_tuple_get(g->arena, NOWHERE, tuple, at);
}

/* The field of some tuple in scope. */
static Expr *form_project_known(Gen *g, const Type *t, int size)
{
    (void)size;
    for (size_t i = g->known.n; i-- > 0;) {
        const Known *k = &g->known.at[i];
        for (uint32_t f = 0; k->e && !k->hidden && k->type->kind == TYPE_TUPLE && f < k->type->n;
             f++)
            if (will_do(g, k->type->parts[f], t))
                return expr_tuple_get(g->arena, NOWHERE, k->e, f);
    }
    return NULL;
}

/* The call tells what the parameters of a literal are. One that is called at several places may have lost them already. */
static void drop_annotations(Gen *g, const Function *f)
{
    for (uint32_t i = 0; f && f->type_params.n == 0 && i < f->params.n; i++)
        if (once_in(g, 3) && f->params.at[i]->annotation && !has_any(f->params.at[i]->annotation)) {
            f->params.at[i]->annotation = NULL;
            count_form(g, "a parameter without a type");
        }
}

/* The callee may be anything that makes a function; a function of a function gives curried calls. */
static Expr *form_call(Gen *g, const Type *t, int size)
{
    const Type *types[3];
    Expr *args[3];
    uint32_t n = below(g, 3);
    for (uint32_t i = 0; i < n; i++)
        types[i] = random_type(g, 1);
    const Type *f = type_func(g->cx, 0, NULL, n, types, t);
    Expr *callee = make(g, g->higher && n && once_in(g, 2) ? more_general(g, f) : f, size / 2);
    for (uint32_t i = 0; i < n; i++)
        args[i] = make(g, types[i], size / 2 / (int)n);
    drop_annotations(g, expr_as_function(callee));
    g->effects++;
    return expr_call(g->arena, NOWHERE, callee, n, args, NULL);
}

/* A polymorphic function whose code nobody knows where it is called, with functions of more types than it takes there; the result of one in between
 * is of a single type, and its branches are of more. */
static Expr *form_call_at_one(Gen *g, const Type *t, int size)
{
    if (!g->higher)
        return NULL;
    const Type *s = random_scalar(g), *f = type_func(g->cx, 0, NULL, 1, &s, s);
    const Type *args[2] = {f, once_in(g, 2) ? f : random_type(g, 1)}, *branch[2];
    const Type *taken = type_func(g->cx, 0, NULL, 2, args, t), *many = more_general(g, taken);
    g->effects++;
    Expr *callee = make(g, type_ref(g->cx, many), size / 2);
    callee = expr_ref_read(g->arena, NOWHERE, callee);
    Expr *values[2] = {NULL, make(g, args[1], size / 4)}, *arms[2];
    for (int i = 0; i < 2; i++) {
        branch[i] = more_general(g, f);
        arms[i] = &make_function(g, branch[i], size / 8, NULL)->base;
    }
    Expr *either = expr_if(g->arena, NOWHERE, make(g, scalar_of(g, DT_BOOL), 2), arms[0], arms[1]);
    Function *given = expr_function(g->arena, NOWHERE, (TypeVarList){0}, 0, NULL, NULL, f, either);
    Var *v = fresh_var(g, NULL);
    values[0] = once_in(g, 2) ? arms[0] : expr_call(g->arena, NOWHERE, &v->base, 0, NULL, NULL);
    Expr *call = expr_call(g->arena, NOWHERE, callee, 2, values, NULL);
    return values[0] == arms[0] ? call : make_let(g, v, &given->base, call);
}

static Expr *form_ref_read(Gen *g, const Type *t, int size)
{
    Expr *ref = make(g, type_ref(g->cx, t), size);
    g->effects++;
    return expr_ref_read(g->arena, NOWHERE, ref);
}

/* `ref_write(r, v); e`: the value is dropped, or bound and perhaps used. */
static Expr *form_sequence(Gen *g, const Type *t, int size)
{
    const Type *content = random_type(g, 1);
    for (size_t i = g->known.n; i-- > 0 && !once_in(g, 4);)
        if (g->known.at[i].type->kind == TYPE_REF)
            content = g->known.at[i].type->parts[0];
    Expr *ref = make(g, type_ref(g->cx, content), size / 4);
    Expr *write = expr_ref_write(g->arena, NOWHERE, ref, make(g, content, size / 4));
    g->effects++;
    Var *v = expr_var(g->arena, NOWHERE, ctx_name(g->cx, "_"), NULL);
    return make_let(g, v, write, make(g, t, size / 2));
}

/* ---- forms for some types */

static Expr *form_operator(Gen *g, const Type *t, int size)
{
    bool rarely = g->higher && !once_in(g, 10);
    return t->kind == TYPE_TENSOR && !rarely ? make_operator_call(g, t, size) : NULL;
}

/* An operator whose operands have effects. */
static Expr *form_turns(Gen *g, const Type *t, int size)
{
    bool fits = t->kind == TYPE_TENSOR && !has_any(t) && size > 4 && !g->turns;
    return fits ? make_turns(g, t, size) : NULL;
}

static Expr *form_tuple(Gen *g, const Type *t, int size)
{
    return t->kind == TYPE_TUPLE && t->n ? tuple_of(g, t, size) : NULL;
}

static Expr *form_constructor(Gen *g, const Type *t, int size)
{
    if (t->kind != TYPE_ADT)
        return NULL;
    return make_con(g, t->def->cons[below(g, t->def->n_cons)], t, size, false);
}

/* A constructor that takes what the wanted function takes. */
static Expr *constructor_value(Gen *g, const Type *t)
{
    const TypeDef *def = t->result->kind == TYPE_ADT && !t->n_params ? t->result->def : NULL;
    for (uint32_t i = 0; def && i < def->n_cons; i++) {
        const Constructor *con = def->cons[i];
        bool fits = con->n == t->n && t->n > 0;
        for (uint32_t k = 0; fits && k < t->n; k++)
            fits = type_equal(field_type(g, t->result, con, k), t->parts[k]);
        if (fits)
            return expr_con(g->arena, NOWHERE, con);
    }
    return NULL;
}

static Expr *form_function(Gen *g, const Type *t, int size)
{
    if (t->kind != TYPE_FUNC)
        return NULL;
    Expr *con = once_in(g, 2) ? constructor_value(g, t) : NULL;
    Expr *op = !con && once_in(g, 2) ? operator_value(g, t) : NULL;
    if (con || op)
        count_form(g, op ? "an operator as a function" : "a constructor as a function");
    if (con || op)
        return g->higher && once_in(g, 2) ? (con ? con : op) : annotated(g, con ? con : op, t);
    bool more = g->higher && t->n && !t->n_params && once_in(g, 3);
    if (more)
        count_form(g, "a function of more types than are wanted");
    return &make_function(g, more ? more_general(g, t) : t, size, NULL)->base;
}

/* `grad(fn (…) { … })(…).0` and its like. */
static Expr *form_derivative(Gen *g, const Type *t, int size)
{
    enum { GRAD, VALUE_AND_GRAD, VJP, JVP, KINDS };
    static const char *const names[] = {"grad", "value_and_grad", "vjp", "jvp"};
    if (!g->derivatives || g->derived > 1 || t->kind != TYPE_TENSOR || has_any(t) ||
        !dtype_is_float(t->dtype) || t->dtype.bits < 32)
        return NULL;
    uint32_t kind = below(g, KINDS), n = 1 + below(g, 2);
    const Type *types[2] = {kind == JVP ? random_real(g) : t, random_real(g)};
    const Type *result = kind == JVP ? t : random_real(g);
    Expr *args[4];
    g->derived++;
    Function *f = make_function(g, type_func(g->cx, 0, NULL, n, types, result), size / 2, NULL);
    g->derived--;
    uint32_t n_args = kind == JVP ? 2 * n : n;
    for (uint32_t i = 0; i < n_args; i++)
        args[i] = make(g, types[i % n], size / 2 / (int)n_args);
    Expr *form = call_op(g, names[kind], 1, (Expr *[]){&f->base}, NULL);
    Expr *e = expr_call(g->arena, NOWHERE, form, n_args, args, NULL);
    g->effects++;
    if (kind == JVP)
        return expr_tuple_get(g->arena, NOWHERE, e, once_in(g, 4) ? 0 : 1);
    if (kind != GRAD)
        e = expr_tuple_get(g->arena, NOWHERE, e, 1);
    if (kind == VJP) {
        Expr *adjoint = make(g, result, size / 4);
        e = expr_call(g->arena, NOWHERE, e, 1, &adjoint, NULL);
    }
    return expr_tuple_get(g->arena, NOWHERE, e, 0);
}

static Expr *form_reference(Gen *g, const Type *t, int size)
{
    if (t->kind != TYPE_REF)
        return NULL;
    g->effects++;
    return expr_ref_new(g->arena, NOWHERE, make(g, t->parts[0], size));
}

/* ---- the table */

typedef struct Form {
    const char *name;
    uint32_t weight;
    Expr *(*make)(Gen *g, const Type *t, int size);
} Form;

static const Form forms[] = {
    {"something in scope", 4, form_known},
    {"let", 8, form_let},
    {"let of a recursive function", 1, form_let_recursive},
    {"let of a polymorphic function", 1, form_let_polymorphic},
    {"an operator as a value", 2, form_operator_value},
    {"another name", 4, form_alias},
    {"a tuple of tuples", 1, form_tuple_of_tuples},
    {"if", 3, form_if},
    {"match", 4, make_match},
    {"a function over data", 2, make_fold},
    {"projection", 1, form_project},
    {"projection of something in scope", 2, form_project_known},
    {"call of something in scope", 4, call_known},
    {"call of an expression", 2, form_call},
    {"a call of a polymorphic value", 3, form_call_at_one},
    {"ref_read", 1, form_ref_read},
    {"ref_write and a sequence", 1, form_sequence},
    {"operator", 14, form_operator},
    {"operands with effects", 2, form_turns},
    {"tuple", 6, form_tuple},
    {"constructor", 6, form_constructor},
    {"function", 6, form_function},
    {"ref", 6, form_reference},
    {"a derivative", 6, form_derivative},
};

static const Form *draw_form(Gen *g)
{
    uint32_t total = 0, i = 0;
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
        total += forms[k].weight;
    for (uint32_t at = below(g, total); at >= forms[i].weight; i++)
        at -= forms[i].weight;
    return &forms[i];
}

/* A node without effects may be used again, as `%0` is in a text. */
static void share(Gen *g, Expr *e, const Type *t, size_t effects)
{
    bool atom = e->kind <= EXPR_CON && e->kind != EXPR_TUPLE;
    if (!atom && g->effects == effects)
        learn(g, e, t);
}

Expr *make(Gen *g, const Type *t, int size)
{
    if (size <= 1 || g->fuel <= 0 || g->depth > 60)
        return make_leaf(g, t);
    g->fuel--;
    g->cost++;
    g->depth++;
    Expr *e = NULL;
    for (int tries = 0; tries < 8 && !e; tries++) {
        const Form *form = draw_form(g);
        size_t effects = g->effects;
        bool turns = g->in_turns;
        g->in_turns = false;
        e = turns ? form_turns(g, t, size) : form->make(g, t, size);
        if (!e)
            continue;
        count_form(g, form->name);
        share(g, e, t, effects);
    }
    g->depth--;
    return e ? e : make_leaf(g, t);
}
