/* Adjoints: their types, zeros, sums. */
#include "passes/vjp.h"

#include "stdlib/ops/ops.h"

/* ---- types ---------------------------------------------------------------------------------------------------------------- */

const Type *vjp_here(const Vjp *v, const Type *t)
{
    const Piece *p = v->piece;
    t = type_resolve(v->cx, t);
    return p && p->vars.n ? type_subst(v->cx, t, p->vars.n, p->vars.at, p->with) : t;
}

static unsigned find_holds(Vjp *v, const Type *t);

/* A data type that contains itself holds what its other fields do; one that does so at ever other types, what the first of them do. */
enum { FAMILY_MOST = 100 };

static unsigned data_holds(Vjp *v, const Type *t)
{
    unsigned found = 0;
    if (ptrmap_has(&v->entered, t) || v->entered.n > FAMILY_MOST) {
        v->unsure = true;
        return 0;
    }
    ptrmap_put(&v->entered, t, NULL);
    for (uint32_t i = 0; i < t->def->n_cons; i++)
        for (uint32_t k = 0; k < t->def->cons[i]->n; k++)
            found |= find_holds(
                v, type_subst(v->cx, t->def->cons[i]->fields[k], t->n, t->def->params, t->parts));
    ptrmap_remove(&v->entered, t);
    return found;
}

/* Types share parts, each of which is gone through once; but for one within a data type that is gone through, if it contains that. */
static unsigned find_holds(Vjp *v, const Type *t)
{
    if (t->kind == TYPE_TENSOR)
        return t->dtype.code == DTYPE_CODE_FLOAT || t->dtype.code == DTYPE_CODE_BFLOAT ? HOLDS_FLOAT
                                                                                       : 0;
    if (t->kind == TYPE_FUNC)
        return HOLDS_CODE;
    if (t->kind != TYPE_REF && t->kind != TYPE_ADT && t->kind != TYPE_TUPLE)
        return 0;
    unsigned found = 0, known = (unsigned)(uintptr_t)ptrmap_find(&v->holds, t);
    if (known)
        return known - 1;
    bool unsure = v->unsure;
    v->unsure = false;
    if (t->kind == TYPE_REF)
        found = find_holds(v, t->parts[0]) ? HOLDS_CODE : 0;
    else if (t->kind == TYPE_ADT)
        found = data_holds(v, t);
    for (uint32_t i = 0; t->kind == TYPE_TUPLE && i < t->n; i++)
        found |= find_holds(v, t->parts[i]);
    if (v->entered.n == 0 || !v->unsure)
        ptrmap_put(&v->holds, t, (void *)(uintptr_t)(found + 1));
    v->unsure |= unsure;
    return found;
}

unsigned vjp_holds(Vjp *v, const Type *t)
{
    return find_holds(v, vjp_here(v, t));
}

/* Data types in each other are looked into as deep as anybody writes them. */
enum { FIELDS_DEPTH_MOST = 20 };

/* The constructor with such a field; one that has it itself before one whose field is data that has. */
static const Constructor *con_with_code(Vjp *v, const Type *t, int depth)
{
    const Constructor *found = NULL;
    for (uint32_t i = 0; t->kind == TYPE_TUPLE && i < t->n && !found; i++)
        found = con_with_code(v, t->parts[i], depth);
    for (int inside = 0; t->kind == TYPE_ADT && inside < 2 && depth < FIELDS_DEPTH_MOST; inside++)
        for (uint32_t i = 0; i < t->def->n_cons && !found; i++) {
            const Constructor *con = t->def->cons[i];
            for (uint32_t k = 0; k < con->n && !found; k++) {
                const Type *field =
                    type_subst(v->cx, con->fields[k], t->n, t->def->params, t->parts);
                bool code = field->kind == TYPE_FUNC || field->kind == TYPE_REF;
                if (inside)
                    found = con_with_code(v, field, depth + 1);
                else if (code && find_holds(v, field) & HOLDS_CODE)
                    found = con;
            }
        }
    return found;
}

bool vjp_holds_code(Ctx *cx, const Type *t, const Constructor **con)
{
    Vjp v = {.cx = cx};
    t = type_resolve(cx, t);
    bool holds = find_holds(&v, t) & HOLDS_CODE;
    if (con)
        *con = holds ? con_with_code(&v, t, 0) : NULL;
    ptrmap_deinit(&v.holds);
    ptrmap_deinit(&v.entered);
    return holds;
}

static const Type *dual(Vjp *v, const Type *t);

/* By a function, or a reference to numbers, there is no derivative. */
static bool has_none(Vjp *v, const Type *t)
{
    return (t->kind == TYPE_FUNC || t->kind == TYPE_REF) && find_holds(v, t);
}

static const Type *adjoint(Vjp *v, const Type *t)
{
    if (has_none(v, t))
        return type_unit(v->cx);
    if (t->kind != TYPE_TUPLE || !(find_holds(v, t) & HOLDS_CODE))
        return t;
    const Type **parts = arena_new_array(v->make.scratch, const Type *, t->n + 1);
    for (uint32_t i = 0; parts && i < t->n; i++)
        parts[i] = adjoint(v, t->parts[i]);
    return parts ? type_tuple(v->cx, t->n, parts) : t;
}

/* fn (T…) -> R  =>  fn (T'…, T^…) -> (R', R^), those that are numbers */
static const Type *forward_function(Vjp *v, const Type *t)
{
    const Type **args = arena_alloc_must(v->make.scratch, 2 * (size_t)t->n + 1, sizeof *args);
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n; i++)
        args[n++] = dual(v, t->parts[i]);
    for (uint32_t i = 0; i < t->n; i++)
        if (find_holds(v, t->parts[i]) & HOLDS_FLOAT)
            args[n++] = adjoint(v, t->parts[i]);
    const Type *both[2] = {dual(v, t->result), adjoint(v, t->result)};
    bool numbers = find_holds(v, t->result) & HOLDS_FLOAT;
    return type_func(v->cx, 0, NULL, n, args, numbers ? type_tuple(v->cx, 2, both) : both[0]);
}

/* fn (T…) -> R  =>  fn (T'…) -> (R', fn (R^) -> (T^…,)) */
static const Type *dual_function(Vjp *v, const Type *t)
{
    const Type **args = arena_new_array(v->make.scratch, const Type *, t->n + 1);
    const Type **adjoints = arena_new_array(v->make.scratch, const Type *, t->n + 1);
    if (!args || !adjoints)
        return t;
    for (uint32_t i = 0; i < t->n; i++) {
        args[i] = dual(v, t->parts[i]);
        adjoints[i] = adjoint(v, t->parts[i]);
    }
    const Type *back = adjoint(v, t->result);
    const Type *both[2] = {dual(v, t->result),
                           type_func(v->cx, 0, NULL, 1, &back, type_tuple(v->cx, t->n, adjoints))};
    return type_func(v->cx, 0, NULL, t->n, args, type_tuple(v->cx, 2, both));
}

static const Type *dual(Vjp *v, const Type *t)
{
    if (!(find_holds(v, t) & HOLDS_CODE) || t->kind == TYPE_ADT)
        return t;
    if (t->kind == TYPE_FUNC)
        return v->forward ? forward_function(v, t) : dual_function(v, t);
    if (t->kind == TYPE_REF) {
        const Type *both[2] = {type_ref(v->cx, dual(v, t->parts[0])),
                               type_ref(v->cx, adjoint(v, t->parts[0]))};
        return type_tuple(v->cx, 2, both);
    }
    const Type **parts = arena_new_array(v->make.scratch, const Type *, t->n + 1);
    for (uint32_t i = 0; parts && i < t->n; i++)
        parts[i] = dual(v, t->parts[i]);
    return parts ? type_tuple(v->cx, t->n, parts) : t;
}

const Type *vjp_dual_type(Vjp *v, const Type *t)
{
    return dual(v, vjp_here(v, t));
}

const Type *vjp_adjoint_type(Vjp *v, const Type *t)
{
    return adjoint(v, vjp_here(v, t));
}

/* ---- short forms ------------------------------------------------------------------------------------------------------------ */

Expr *vjp_get(const Vjp *v, Expr *tuple, int64_t i)
{
    const Tuple *known = expr_as_tuple(tuple);
    return known ? known->fields.at[i] : expr_tuple_get(v->make.arena, v->make.span, tuple, i);
}

Expr *vjp_op(const Vjp *v, const char *op, Expr *a, Expr *b)
{
    OpsMake m = {v->cx, v->make.arena, v->make.span};
    return b ? ops_call2(&m, op, a, b) : ops_call1(&m, op, a);
}

Expr *vjp_call_piece(Vjp *v, PieceKind kind, const Type *t, uint32_t n, Expr *const *args)
{
    Piece *p = vjp_piece(v, (Piece){.kind = kind, .type = t});
    return p ? expr_call(v->make.arena, v->make.span, &p->var->base, n, args, NULL) : NULL;
}

static Expr *tuple_of(Vjp *v, uint32_t n, Expr *const *fields)
{
    return expr_tuple(v->make.arena, v->make.span, n, fields);
}

/* ---- zeros and sums; of types at hand --------------------------------------------------------------------------------------- */

/* Parts of values that are gone over, which no program comes near whose types somebody wrote. */
enum { PARTS_MOST = 4000000 };

/* Types share parts, and what is made of them does not: it may be too much. What is made then is never used. */
static bool is_too_much(Vjp *v)
{
    if (v->parts < PARTS_MOST)
        v->parts++;
    else
        vjp_no_end(v, "goes over", PARTS_MOST, "parts of values");
    return v->failed || limit_hit(&v->cx->limits);
}

static Expr *zeros(Vjp *v, const Type *t, Expr *like)
{
    if (has_none(v, t))
        return tuple_of(v, 0, NULL);
    if (t->kind == TYPE_REF || t->kind == TYPE_VAR || is_too_much(v))
        return like; /* nothing comes of what is outside */
    if (t->kind == TYPE_ADT)
        return find_holds(v, t) & HOLDS_FLOAT ? vjp_call_piece(v, PIECE_ZEROS, t, 1, &like) : like;
    if (t->kind != TYPE_TUPLE)
        return vjp_op(v, "zeros_like", like, NULL);
    Expr **fields = arena_new_array(v->make.scratch, Expr *, t->n + 1);
    for (uint32_t i = 0; fields && i < t->n; i++)
        fields[i] = zeros(v, t->parts[i], vjp_get(v, like, i));
    return fields ? tuple_of(v, t->n, fields) : NULL;
}

Expr *vjp_zeros(Vjp *v, const Type *t, Expr *like)
{
    return zeros(v, vjp_here(v, t), like);
}

static Expr *sum(Vjp *v, Lets *l, const Type *t, Expr *a, Expr *b)
{
    if (!(find_holds(v, t) & HOLDS_FLOAT) || is_too_much(v))
        return a;
    if (t->kind == TYPE_ADT)
        return lets_push(l, vjp_call_piece(v, PIECE_SUM, t, 2, (Expr *[]){a, b}));
    if (t->kind != TYPE_TUPLE)
        return lets_push(l, vjp_op(v, "add", a, b));
    Expr **fields = arena_new_array(v->make.scratch, Expr *, t->n + 1);
    for (uint32_t i = 0; fields && i < t->n; i++)
        fields[i] = sum(v, l, t->parts[i], vjp_get(v, a, i), vjp_get(v, b, i));
    return fields ? tuple_of(v, t->n, fields) : a;
}

Expr *vjp_sum(Vjp *v, Lets *l, const Type *t, Expr *a, Expr *b)
{
    return sum(v, l, vjp_here(v, t), a, b);
}

/* ---- adjoints ----------------------------------------------------------------------------------------------------------------- */

bool adj_is_zero(const Adj *a)
{
    return !a || (!a->e && !a->fields);
}

Adj *adj_field(Vjp *v, Adj *a, const Type *t, uint32_t i)
{
    if (!a->fields)
        a->fields = arena_alloc_must(v->make.scratch, type_find(t)->n + 1, sizeof *a->fields);
    return &a->fields[i];
}

static void add(Vjp *v, Lets *l, Adj *a, const Type *t, Expr *x)
{
    if (!x || !(find_holds(v, t) & HOLDS_FLOAT) || is_too_much(v))
        return;
    if (t->kind == TYPE_TENSOR || t->kind == TYPE_ADT)
        a->e = a->e ? sum(v, l, t, a->e, x) : x;
    else if (t->kind == TYPE_TUPLE)
        for (uint32_t i = 0; i < t->n; i++)
            add(v, l, adj_field(v, a, t, i), t->parts[i], vjp_get(v, x, i));
}

void adj_add(Vjp *v, Lets *l, Adj *a, const Type *t, Expr *x)
{
    add(v, l, a, vjp_here(v, t), x);
}

static void join(Vjp *v, Lets *l, Adj *to, const Type *t, const Adj *from)
{
    if (from->e)
        add(v, l, to, t, from->e);
    if (is_too_much(v))
        return;
    for (uint32_t i = 0; from->fields && i < t->n; i++)
        join(v, l, adj_field(v, to, t, i), t->parts[i], &from->fields[i]);
}

void adj_join(Vjp *v, Lets *l, Adj *to, const Type *t, const Adj *from)
{
    join(v, l, to, vjp_here(v, t), from);
}

static Expr *whole(Vjp *v, const Adj *a, const Type *t, Expr *like)
{
    if (a && a->e)
        return a->e;
    if (is_too_much(v))
        return like;
    if (!a || !a->fields)
        return zeros(v, t, like);
    Expr **fields = arena_new_array(v->make.scratch, Expr *, t->n + 1);
    for (uint32_t i = 0; fields && i < t->n; i++)
        fields[i] = whole(v, &a->fields[i], t->parts[i], vjp_get(v, like, i));
    return fields ? tuple_of(v, t->n, fields) : NULL;
}

Expr *adj_expr(Vjp *v, const Adj *a, const Type *t, Expr *like)
{
    return whole(v, a, vjp_here(v, t), like);
}

/* ---- data types ------------------------------------------------------------------------------------------------------------------ */

static Expr *clause_of(Vjp *v, const Type *t, const Constructor *con, Var *const *a, Var *const *b)
{
    Lets l = {.make = &v->make};
    Expr **fields = arena_new_array(v->make.scratch, Expr *, con->n + 1);
    for (uint32_t i = 0; fields && i < con->n; i++) {
        const Type *field = type_subst(v->cx, con->fields[i], t->n, t->def->params, t->parts);
        fields[i] = b ? sum(v, &l, field, &a[i]->base, &b[i]->base) : zeros(v, field, &a[i]->base);
    }
    return fields ? lets_close(&l, lets_construct(&v->make, con, fields)) : NULL;
}

/* fn (%a: T) -> T { match (%a) { C(%p, …) => C(zeros of %p, …), … } }, and of two values alike their sum. */
static Function *make_data(Vjp *v, const Type *t, bool two)
{
    Arena *arena = v->make.arena;
    Span at = v->make.span;
    uint32_t n = t->def->n_cons;
    Clause *clauses = arena_new_array(v->make.scratch, Clause, n + 1);
    Var *params[2];
    for (uint32_t i = 0; i < 2; i++) {
        params[i] = lets_var(&v->make);
        params[i]->annotation = t;
    }
    for (uint32_t i = 0; clauses && i < n; i++) {
        const Constructor *con = t->def->cons[i];
        Var **a = arena_new_array(v->make.scratch, Var *, con->n + 1);
        Var **b = arena_new_array(v->make.scratch, Var *, con->n + 1);
        if (!a || !b)
            return NULL;
        Pattern *both[2] = {lets_pattern(&v->make, con, a),
                            two ? lets_pattern(&v->make, con, b) : NULL};
        clauses[i] = (Clause){two ? pattern_tuple(arena, at, 2, both) : both[0],
                              clause_of(v, t, con, a, two ? b : NULL), at};
    }
    Expr *values[2] = {&params[0]->base, &params[1]->base};
    Expr *scrutinee = two ? tuple_of(v, 2, values) : values[0];
    return expr_function(arena, at, (TypeVarList){0}, two ? 2 : 1, params, NULL, t,
                         expr_match(arena, at, scrutinee, n, clauses, !two || n < 2));
}

Function *vjp_make_zeros(Vjp *v, const Type *t)
{
    return make_data(v, t, false);
}

Function *vjp_make_sum(Vjp *v, const Type *t)
{
    return make_data(v, t, true);
}
