/* Functions: literals, definitions, recursion, and calls of them. */
#include "tests/random/internal.h"

#define NOWHERE ((Span){0})
#define COST_MOST 2000.0

/* ---- types */

/* Names as they are printed: one within another of the same name could not be told apart. */
static const TypeVar *new_type_var(Gen *g)
{
    Buf name = {0};
    enum { LETTERS = 19 }; /* behind them come the names of data types */
    buf_char(&name, (char)('A' + g->type_vars % LETTERS));
    if (g->type_vars >= LETTERS)
        buf_int(&name, g->type_vars / LETTERS);
    g->type_vars++;
    const TypeVar *v = typevar_new(g->cx, ctx_name(g->cx, buf_text(&name)), NOWHERE);
    buf_deinit(&name);
    return v;
}

/* For each type parameter there is an argument of it, so that the body can always make one. */
const Type *random_signature(Gen *g, uint32_t type_params, bool recursive, int depth)
{
    const TypeVar *vars[3];
    const Type *args[6];
    uint32_t n = 0;
    size_t outer = g->vars.n;
    if (recursive)
        args[n++] = scalar_of(g, DT_INT32);
    for (uint32_t i = 0; i < type_params; i++) {
        vars[i] = new_type_var(g);
        vec_push(&g->vars, &g->scratch, vars[i]);
        args[n++] = type_var(g->cx, vars[i]);
    }
    for (uint32_t more = below(g, g->higher ? 2 : 3); more > 0; more--)
        args[n++] = random_type(g, depth);
    const Type *result = random_type(g, depth);
    g->vars.n = outer;
    return type_func(g->cx, type_params, vars, n, args, result);
}

/* The type with `by` wherever it has `what`. */
static const Type *replaced(Gen *g, const Type *t, const Type *what, const Type *by)
{
    if (type_equal(t, what))
        return by;
    if (t->kind == TYPE_TENSOR || t->kind == TYPE_VAR)
        return t;
    const Type *parts[8];
    for (uint32_t i = 0; i < t->n; i++)
        parts[i] = replaced(g, t->parts[i], what, by);
    switch ((TypeKind)t->kind) {
    case TYPE_TUPLE: return type_tuple(g->cx, t->n, parts);
    case TYPE_REF: return type_ref(g->cx, parts[0]);
    case TYPE_ADT: return type_adt(g->cx, t->def, t->n, parts);
    case TYPE_FUNC:
        return type_func(g->cx, t->n_params, t->params, t->n, parts,
                         replaced(g, t->result, what, by));
    default: return t;
    }
}

const Type *more_general(Gen *g, const Type *t)
{
    const TypeVar *v = new_type_var(g);
    const Type *f = replaced(g, t, t->parts[below(g, t->n)], type_var(g->cx, v));
    return type_func(g->cx, 1, &v, f->n, f->parts, f->result);
}

/* ---- literals */

static Expr *call_two(Gen *g, const char *name, Expr *a, Expr *b)
{
    return call_op(g, name, 2, (Expr *[]){a, b}, NULL);
}

static Expr *int32_literal(Gen *g, double v)
{
    return make_literal(g, dtype_of(DT_INT32), v);
}

/* Whatever the counter is at first, the function ends. */
static Expr *recursive_body(Gen *g, const Type *result, Expr *n, int size)
{
    Expr *low = call_two(g, "less", n, int32_literal(g, 1));
    Expr *high = call_two(g, "greater", n, int32_literal(g, 3));
    size_t known = g->known.n;
    int outer = g->recursions;
    g->recursions = 0;
    Expr *base = make(g, result, size / 4);
    forget(g, known);
    g->recursions = 2;
    Expr *step = make(g, result, size);
    forget(g, known);
    g->recursions = outer;
    return expr_if(g->arena, NOWHERE, call_two(g, "logical_or", low, high), base, step);
}

static const Attrs *random_marks(Gen *g)
{
    static const char *const keys[] = {"Inline", "hash", "SkipOptimization", "scale", "tags"};
    static const AttrValue tags[] = {{.kind = ATTR_INT, .i = -1},
                                     {.kind = ATTR_STRING, .s = {"x\n\\", 3}}};
    const AttrValue values[] = {{.kind = ATTR_INT, .i = 1},
                                {.kind = ATTR_STRING, .s = str_of("a \"quoted\"\tword")},
                                {.kind = ATTR_INT, .i = 1},
                                {.kind = ATTR_FLOAT, .f = 0.125},
                                {.kind = ATTR_LIST, .list = {tags, 2}}};
    const Attrs *attrs = NULL;
    for (int i = 0; i < 5; i++)
        if (once_in(g, 40))
            attrs = attrs_with(g->arena, attrs, keys[i], values[i]);
    return attrs;
}

/* The type with the type parameters of the literal in place of those of `t`. */
static const Type *rename_params(Gen *g, const Type *t, const TypeVar **vars)
{
    const Type *with[3], *args[8];
    for (uint32_t i = 0; i < t->n_params; i++) {
        vars[i] = new_type_var(g);
        with[i] = type_var(g->cx, vars[i]);
    }
    for (uint32_t i = 0; i < t->n; i++)
        args[i] = type_subst(g->cx, t->parts[i], t->n_params, t->params, with);
    return type_func(g->cx, 0, NULL, t->n, args,
                     type_subst(g->cx, t->result, t->n_params, t->params, with));
}

static Expr *function_body(Gen *g, const Type *t, Var **params, int size, Known *self)
{
    if (!self)
        return make(g, t->result, size);
    self->counter = &params[0]->base;
    learn_function(g, *self);
    return recursive_body(g, t->result, self->counter, size);
}

Function *make_function(Gen *g, const Type *t, int size, Known *self)
{
    const TypeVar *vars[3];
    Var *params[8];
    size_t known = g->known.n, outer = g->vars.n;
    int recursions = g->recursions;
    double cost = g->cost;
    const Type *own = rename_params(g, t, vars);
    for (uint32_t i = 0; i < t->n_params; i++)
        vec_push(&g->vars, &g->scratch, vars[i]);
    for (uint32_t i = 0; i < t->n; i++) {
        params[i] = fresh_var(g, g->higher && once_in(g, 25) ? NULL : own->parts[i]);
        learn(g, &params[i]->base, own->parts[i]);
    }
    g->level++;
    g->recursions = 0;
    Expr *body = function_body(g, own, params, size, self);
    g->level--;
    g->recursions = recursions;
    if (self)
        self->cost = (g->cost - cost) * 8;
    forget(g, known);
    g->vars.n = outer;
    const TypeVar **kept = arena_new_array(g->arena, const TypeVar *, t->n_params);
    for (uint32_t i = 0; i < t->n_params; i++)
        kept[i] = vars[i];
    /* A polymorphic function that comes out of another is of one type, unless that is written. */
    bool many = own->result->kind == TYPE_FUNC && own->result->n_params > 0;
    bool result = (self && !g->higher) || (many && !(g->higher && once_in(g, 4))) ||
                  has_any(own->result) || !once_in(g, 3);
    return expr_function(g->arena, NOWHERE, (TypeVarList){kept, t->n_params}, t->n, params,
                         random_marks(g), result ? own->result : NULL, body);
}

/* ---- calls */

/* Which may be called here: a function from inside itself only with a smaller counter. */
static bool may_call(const Gen *g, const Known *k)
{
    if (k->hidden || k->type->kind != TYPE_FUNC || g->cost + k->cost > COST_MOST)
        return false;
    return !k->counter || (g->recursions > 0 && k->level == g->level);
}

/* A known extent may stand where an unknown one is declared. */
static const Type *less_general(Gen *g, const Type *t)
{
    if (t->kind != TYPE_TENSOR || !has_any(t) || once_in(g, 2))
        return t;
    Dim dims[TENSOR_RANK_MOST];
    for (uint32_t i = 0; i < t->n; i++)
        dims[i] = t->dims[i] < 0 ? 2 : t->dims[i];
    return type_tensor(g->cx, t->dtype, t->n, dims);
}

static bool says(const Type *f, const TypeVar *v)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (f->parts[i]->kind == TYPE_VAR && f->parts[i]->var == v)
            return true;
    return false;
}

/* Attributes that a call of a function carries along. */
static const Attrs *random_record(Gen *g)
{
    static const AttrValue list[] = {{.kind = ATTR_NONE}, {.kind = ATTR_BOOL, .b = true}};
    if (!once_in(g, 20))
        return NULL;
    count_form(g, "attributes of a call of a function");
    const Attrs *attrs =
        attrs_with(g->arena, NULL, "a.list", (AttrValue){.kind = ATTR_LIST, .list = {list, 2}});
    return attrs_with(g->arena, attrs, "attrs_type_key",
                      (AttrValue){.kind = ATTR_STRING, .s = str_of("attrs.Test")});
}

static Expr *call_one(Gen *g, Known k, const Type *const *with, int size)
{
    const Type *f = k.type;
    Expr *args[8];
    g->cost += k.cost;
    g->recursions -= k.counter != NULL;
    for (uint32_t i = 0; i < f->n; i++) {
        const Type *arg = type_subst(g->cx, f->parts[i], f->n_params, f->params, with);
        if (i == 0 && k.whole && k.counter)
            args[i] = k.counter;
        else if (i == 0 && k.counter)
            args[i] = call_two(g, "subtract", k.counter, int32_literal(g, 1));
        else
            args[i] = make(g, less_general(g, arg), size / (int)f->n);
    }
    g->effects += !k.pure;
    Expr *callee = k.e ? k.e : expr_global(g->arena, NOWHERE, k.name);
    return expr_call(g->arena, NOWHERE, callee, f->n, args, random_record(g));
}

Expr *call_known(Gen *g, const Type *t, int size)
{
    size_t n = g->known.n, from = n ? below(g, n) : 0;
    for (size_t i = 0; i < n; i++) {
        Known k = g->known.at[(from + i) % n];
        const Type *with[3] = {0};
        if (!may_call(g, &k) ||
            !match_type(g, k.type->result, t, k.type->n_params, k.type->params, with))
            continue;
        bool said = true;
        for (uint32_t v = 0; v < k.type->n_params; v++) {
            said &= says(k.type, k.type->params[v]);
            with[v] = with[v] ? with[v] : random_type(g, 1);
            /* An argument may have an extent that its type here does not tell, and so may the result then. */
            said &= !has_any(with[v]);
        }
        if (said)
            return call_one(g, k, with, size);
    }
    return NULL;
}

/* ---- definitions */

static void define(Gen *g, const Name *name, Function *fn)
{
    module_define(g->m, name, fn, NOWHERE, g->m);
}

static void start_function(Gen *g, int size)
{
    g->fuel = size;
    g->cost = 0;
    g->effects = 0;
}

static Known new_definition(Gen *g, const Type *type, int number)
{
    Buf text = {0};
    buf_printf(&text, "%s%d", once_in(g, 5) ? "lib/f" : "f", number);
    Known k = {.name = ctx_name(g->cx, buf_text(&text)), .type = type, .cost = 20, .level = 1};
    buf_deinit(&text);
    return k;
}

static void define_plain(Gen *g, int number, int size)
{
    Known k = new_definition(g, random_signature(g, once_in(g, 2) ? 1 + below(g, 2) : 0, false, 2),
                             number);
    start_function(g, size);
    define(g, k.name, make_function(g, k.type, size, NULL));
    k.cost = g->cost;
    k.pure = g->effects == 0;
    learn_function(g, k);
}

/* Functions that call each other, and themselves, with a counter that gets smaller. */
static void define_group(Gen *g, int number, int size)
{
    uint32_t n = 1 + below(g, 3);
    Known group[3];
    double cost = 0;
    for (uint32_t i = 0; i < n; i++)
        group[i] = new_definition(g, random_signature(g, 0, true, 2), number + (int)i);
    size_t effects = 0, known = g->known.n;
    for (uint32_t i = 0; i < n; i++) {
        start_function(g, size);
        /* The others count down from the parameter of the function around. */
        Known self = group[i];
        const Type *t = self.type;
        Var *params[8];
        for (uint32_t p = 0; p < t->n; p++) {
            params[p] = fresh_var(g, t->parts[p]);
            learn(g, &params[p]->base, t->parts[p]);
        }
        for (uint32_t k = 0; k < n; k++) {
            group[k].counter = &params[0]->base;
            learn_function(g, group[k]);
        }
        g->level++;
        Expr *body = recursive_body(g, t->result, &params[0]->base, size);
        g->level--;
        forget(g, known);
        define(g, self.name,
               expr_function(g->arena, NOWHERE, (TypeVarList){0}, t->n, params, random_marks(g),
                             t->result, body));
        cost += g->cost;
        effects += g->effects;
    }
    for (uint32_t i = 0; i < n; i++) {
        group[i].counter = NULL;
        group[i].cost = cost * 8;
        group[i].pure = effects == 0;
        learn_function(g, group[i]);
    }
}

void make_definitions(Gen *g, int size)
{
    int n = (int)below(g, 4);
    for (int i = 0; i < n; i++) {
        if (once_in(g, 2))
            define_group(g, 10 * i, size / 2);
        else
            define_plain(g, 10 * i, size / 2);
    }
}
