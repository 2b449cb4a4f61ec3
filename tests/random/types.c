/* Random types. */
#include "tests/random/internal.h"

const Type *scalar_of(Gen *g, DTypeId id)
{
    return type_scalar(g->cx, dtype_of(id));
}

static DTypeId random_dtype(Gen *g)
{
    static const DTypeId often[] = {DT_FLOAT32, DT_FLOAT32, DT_FLOAT32, DT_INT32,
                                    DT_INT32,   DT_BOOL,    DT_FLOAT64, DT_INT64};
    return once_in(g, 6) ? (DTypeId)below(g, DTYPE_IDS)
                         : often[below(g, sizeof often / sizeof *often)];
}

const Type *random_scalar(Gen *g)
{
    static const DTypeId often[] = {DT_INT32, DT_INT32, DT_BOOL, DT_FLOAT32};
    return scalar_of(g, often[below(g, 4)]);
}

uint32_t random_shape(Gen *g, uint32_t any, Dim *dims)
{
    bool high = once_in(g, 12);
    uint32_t rank = high ? (uint32_t)between(g, 4, SHAPE_MOST) : below(g, 4);
    int64_t least = once_in(g, 12) ? 0 : 1; /* one without elements */
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = any && once_in(g, any) ? DIM_ANY : between(g, least, high ? 2 : 4);
    return rank;
}

static const Type *tensor_with(Gen *g, bool any)
{
    Dim dims[SHAPE_MOST];
    uint32_t rank = random_shape(g, any ? 2 : 0, dims);
    return type_tensor(g->cx, dtype_of(random_dtype(g)), rank, dims);
}

const Type *random_tensor(Gen *g)
{
    return tensor_with(g, false);
}

const Type *random_real(Gen *g)
{
    Dim dims[SHAPE_MOST];
    uint32_t rank = random_shape(g, 0, dims);
    return type_tensor(g->cx, dtype_of(once_in(g, 6) ? DT_FLOAT64 : DT_FLOAT32), rank, dims);
}

static const Type *random_adt(Gen *g, int depth)
{
    if (g->types.n == 0)
        return type_unit(g->cx);
    const TypeDef *def = g->types.at[below(g, g->types.n)];
    const Type *args[4];
    for (uint32_t i = 0; i < def->n_params; i++)
        args[i] = depth > 0 ? random_type(g, depth - 1) : random_scalar(g);
    return type_adt(g->cx, def, def->n_params, args);
}

static const Type *random_tuple(Gen *g, int depth)
{
    const Type *fields[3];
    uint32_t n = once_in(g, 8) ? below(g, 2) : 2 + below(g, 2);
    for (uint32_t i = 0; i < n; i++)
        fields[i] = random_type(g, depth - 1);
    return type_tuple(g->cx, n, fields);
}

const Type *random_sum(Gen *g, int depth)
{
    return once_in(g, 3) ? random_tuple(g, depth) : random_adt(g, depth);
}

/* What a constructor is as a function. */
static const Type *con_func(Gen *g)
{
    const Type *t = random_adt(g, 1), *args[8];
    if (t->kind != TYPE_ADT)
        return NULL;
    const Constructor *con = t->def->cons[t->def->n_cons - 1];
    for (uint32_t i = 0; i < con->n; i++)
        args[i] = field_type(g, t, con, i);
    return con->n > 0 ? type_func(g->cx, 0, NULL, con->n, args, t) : NULL;
}

/* What many an operator is as a function. */
static const Type *op_func(Gen *g)
{
    const Type *t = random_tensor(g);
    return type_func(g->cx, 0, NULL, 1 + below(g, 2), (const Type *[]){t, t}, t);
}

static const Type *random_func(Gen *g, int depth)
{
    const Type *args[3];
    const Type *known = once_in(g, 5) ? con_func(g) : NULL;
    if (known || once_in(g, 5))
        return known ? known : op_func(g);
    if (depth > 1 && once_in(g, 6)) {
        count_form(g, "a polymorphic function type");
        return random_signature(g, 1, false, 2);
    }
    uint32_t n = below(g, 3);
    for (uint32_t i = 0; i < n; i++)
        args[i] = random_type(g, depth - 1);
    return type_func(g->cx, 0, NULL, n, args, random_type(g, depth - 1));
}

/* What comes in place of tensors where programs are of data. */
static const Type *random_data(Gen *g, int depth)
{
    uint32_t k = depth > 0 ? below(g, 20) : 0;
    if (k < 8)
        return random_scalar(g);
    if (k < 9)
        return random_tensor(g);
    if (k < 12)
        return random_tuple(g, depth);
    if (k < 17)
        return random_adt(g, depth);
    return k < 19 ? random_func(g, depth) : type_ref(g->cx, random_type(g, depth - 1));
}

/* Functions, what holds them, and few numbers. */
static const Type *random_higher(Gen *g, int depth)
{
    uint32_t k = depth > 0 ? below(g, 20) : 0;
    if (k < 4)
        return random_scalar(g);
    if (k < 6)
        return random_tuple(g, depth);
    if (k < 7)
        return random_adt(g, depth);
    if (k < 10)
        return type_ref(g->cx, random_type(g, depth - 1));
    if (k < 16)
        return random_func(g, depth);
    count_form(g, "a polymorphic function type");
    return random_signature(g, 1 + once_in(g, 4), false, depth - 1);
}

const Type *random_type(Gen *g, int depth)
{
    if (g->vars.n && once_in(g, 3))
        return type_var(g->cx, g->vars.at[below(g, g->vars.n)]);
    if (g->higher)
        return random_higher(g, depth);
    if (g->data)
        return random_data(g, depth);
    uint32_t k = depth > 0 ? below(g, 20) : 0;
    if (k < 5)
        return random_scalar(g);
    if (k < 10)
        return random_tensor(g);
    if (k < 11)
        return tensor_with(g, true);
    if (k < 13)
        return random_tuple(g, depth);
    if (k < 16)
        return random_adt(g, depth);
    if (k < 18)
        return random_func(g, depth);
    return type_ref(g->cx, random_type(g, depth - 1));
}

static bool holds_functions(const TypeDef *def);

/* A data type that stands in its own field says nothing new of it. */
static bool field_holds_functions(const TypeDef *def, const Type *t)
{
    if (t->kind == TYPE_FUNC || t->kind == TYPE_REF)
        return true;
    if (t->kind == TYPE_ADT && t->def != def && holds_functions(t->def))
        return true;
    for (uint32_t i = 0; (t->kind == TYPE_TUPLE || t->kind == TYPE_ADT) && i < t->n; i++)
        if (field_holds_functions(def, t->parts[i]))
            return true;
    return false;
}

static bool holds_functions(const TypeDef *def)
{
    for (uint32_t i = 0; i < def->n_cons; i++)
        for (uint32_t k = 0; k < def->cons[i]->n; k++)
            if (field_holds_functions(def, def->cons[i]->fields[k]))
                return true;
    return false;
}

/* Data types are tested by their fields and their arguments. */
bool is_data(const Type *t)
{
    if (t->kind == TYPE_ADT && holds_functions(t->def))
        return false;
    if (t->kind == TYPE_FUNC || t->kind == TYPE_REF || t->kind == TYPE_VAR)
        return false;
    for (uint32_t i = 0; t->kind != TYPE_TENSOR && i < t->n; i++)
        if (!is_data(t->parts[i]))
            return false;
    return true;
}

bool has_any(const Type *t)
{
    if (t->kind == TYPE_VAR)
        return false;
    for (uint32_t i = 0; i < t->n; i++)
        if (t->kind == TYPE_TENSOR ? t->dims[i] < 0 : has_any(t->parts[i]))
            return true;
    return t->kind == TYPE_FUNC && has_any(t->result);
}

const Type *field_type(Gen *g, const Type *adt, const Constructor *con, uint32_t i)
{
    return type_subst(g->cx, con->fields[i], adt->def->n_params, adt->def->params, adt->parts);
}

static bool bind_var(const Type *pattern, const Type *t, uint32_t n, const TypeVar *const *vars,
                     const Type **with, bool *found)
{
    for (uint32_t i = 0; i < n; i++)
        if (vars[i] == pattern->var) {
            *found = true;
            if (!with[i])
                with[i] = t;
            return type_equal(with[i], t);
        }
    *found = false;
    return true;
}

bool match_type(Gen *g, const Type *pattern, const Type *t, uint32_t n, const TypeVar *const *vars,
                const Type **with)
{
    bool found = false;
    if (pattern->kind == TYPE_VAR) {
        bool good = bind_var(pattern, t, n, vars, with, &found);
        return found ? good : pattern == t;
    }
    if (n == 0 || pattern->kind == TYPE_TENSOR)
        return type_equal(pattern, t);
    if (pattern->kind != t->kind || pattern->n != t->n)
        return false;
    if (t->kind == TYPE_FUNC && (t->n_params || pattern->n_params ||
                                 !match_type(g, pattern->result, t->result, n, vars, with)))
        return false;
    if (t->kind == TYPE_ADT && t->def != pattern->def)
        return false;
    for (uint32_t i = 0; i < t->n; i++)
        if (!match_type(g, pattern->parts[i], t->parts[i], n, vars, with))
            return false;
    return true;
}
