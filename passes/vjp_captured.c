/* What collects the adjoints of variables that a literal inside uses.
 *
 * A reference beside the variable has the sum of what the literal's pullbacks add. For a matrix W that is used again and again, as in a
 * recurrence, this would be the slowest of all: its adjoint in dense(x, W) is a product of the result's adjoint and x, as large as W, in
 * every step. So a second reference notes the factors; when there are enough of them, and at the end, they are multiplied at once:
 * %sum + concatenate(g1, g2, …)' * concatenate(x1, x2, …). */
#include "passes/vjp.h"

#include "stdlib/ops/ops.h"

#include <string.h>

/* The rows of such a product at most, and the steps. */
enum { ROWS_MOST = 64, STEPS_MOST = 32 };

static bool is_known(const Type *t)
{
    return t->kind == TYPE_TENSOR && dims_static(t->n, t->dims);
}

/* What is noted is (how many, the sum so far, the last pair, the one before, …); pairs that are missing are zeros. */
static uint32_t steps_of(const Type *pair)
{
    int64_t rows = pair->parts[0]->dims[0] > 0 ? pair->parts[0]->dims[0] : 1;
    return (uint32_t)(ROWS_MOST / rows < STEPS_MOST ? ROWS_MOST / rows : STEPS_MOST);
}

static const Type *sum_type(const Vjp *v, const Type *pair)
{
    Dim dims[2] = {pair->parts[0]->dims[1], pair->parts[1]->dims[1]};
    return type_tensor(v->cx, pair->parts[0]->dtype, 2, dims);
}

static Expr *number(const Vjp *v, int64_t n)
{
    OpsMake m = {v->cx, v->make.arena, v->make.span};
    return ops_constant(&m, dtype_of(DT_INT32), (double)n);
}

static Expr *zeros_of(const Vjp *v, const Type *t)
{
    OpsMake m = {v->cx, v->make.arena, v->make.span};
    Attr attrs[2] = {ops_attr_ints(&m, "shape", t->n, t->dims),
                     ops_attr_dtype(&m, "dtype", t->dtype)};
    return ops_call(&m, "zeros", 0, NULL, 2, attrs);
}

/* (0, sum, zeros, …) */
static Expr *nothing_noted(const Vjp *v, const Type *pair, Expr *sum)
{
    uint32_t n = steps_of(pair);
    Expr **fields = arena_alloc_must(v->make.scratch, n + 2, sizeof *fields);
    Expr *zeros[2] = {zeros_of(v, pair->parts[0]), zeros_of(v, pair->parts[1])};
    fields[0] = number(v, 0);
    fields[1] = sum;
    fields[2] = expr_tuple(v->make.arena, v->make.span, 2, zeros);
    for (uint32_t i = 1; i < n; i++)
        fields[2 + i] = fields[2];
    return expr_tuple(v->make.arena, v->make.span, n + 2, fields);
}

static Expr *joined(const Vjp *v, Expr *noted, uint32_t n, int field)
{
    OpsMake m = {v->cx, v->make.arena, v->make.span};
    Expr **parts = arena_alloc_must(v->make.scratch, n, sizeof *parts);
    for (uint32_t i = 0; i < n; i++)
        parts[i] = vjp_get(v, vjp_get(v, noted, 2 + i), field);
    Expr *all = expr_tuple(v->make.arena, v->make.span, n, parts);
    Attr axis = ops_attr_int("axis", 0);
    return ops_call(&m, "concatenate", 1, &all, 1, &axis);
}

/* The sum with the products of all pairs. */
static Expr *product_of(const Vjp *v, Expr *noted, const Type *pair)
{
    OpsMake m = {v->cx, v->make.arena, v->make.span};
    uint32_t n = steps_of(pair);
    Attr attrs[2] = {ops_attr_int("units", pair->parts[1]->dims[1]),
                     ops_attr_bool("transpose_a", true)};
    Expr *factors[2] = {joined(v, noted, n, 0), joined(v, noted, n, 1)};
    return vjp_op(v, "add", vjp_get(v, noted, 1), ops_call(&m, "nn.matmul", 2, factors, 2, attrs));
}

/* The same by a call. */
static Expr *sum_of(Vjp *v, Expr *noted, const Type *pair)
{
    return vjp_call_piece(v, PIECE_NOTED, pair, 1, &noted);
}

/* ---- while code is written ---------------------------------------------------------------------------------------------- */

/* A reference that is perhaps made: that is known when all that adds to it stands. Until then places are kept for it, and for what it
 * begins with. */
typedef struct Cell {
    Expr *first, *ref;
    bool used;
} Cell;

typedef struct Sum {
    Lets *lets;
    size_t at; /* the four places */
    Cell sum, noted;
    const Type *pair; /* of factors; NULL: none were noted */
    uint32_t depth; /* the variable is bound in so many literals */
} Sum;

static Cell kept_place(const Vjp *v, Lets *l)
{
    Expr *later = expr_tuple(v->make.arena, v->make.span, 0, NULL);
    Expr *first = lets_push(l, later);
    return (Cell){first, lets_push(l, later), false};
}

void captured_bound(Vjp *v, Lets *l, const Var *old)
{
    Sum *s = arena_alloc_must(v->make.scratch, 1, sizeof *s);
    *s = (Sum){.lets = l, .at = l->bindings.n, .depth = v->functions};
    s->sum = kept_place(v, l);
    s->noted = kept_place(v, l);
    ptrmap_put(&v->sums, old, s);
}

static void write_cell(const Vjp *v, Lets *l, Cell *c, Expr *value)
{
    lets_push(l, expr_ref_write(v->make.arena, v->make.span, c->ref, value));
}

/* What it held, which nothing else holds then: so it is added to in place. */
static Expr *take_cell(const Vjp *v, Lets *l, Cell *c)
{
    Expr *value = lets_push(l, expr_ref_read(v->make.arena, v->make.span, c->ref));
    write_cell(v, l, c, c->first);
    c->used = true;
    return value;
}

/* Takes it for the last time, and makes it what begins with this. */
static Expr *make_cell(const Vjp *v, Lets *l, Cell *c, LetBinding *places, Expr *first)
{
    places[0].value = first;
    places[1].value = expr_ref_new(v->make.arena, v->make.span, c->first);
    return take_cell(v, l, c);
}

void captured_add(Vjp *v, Lets *l, const Var *old, const Adj *a)
{
    Sum *s = ptrmap_find(&v->sums, old);
    if (!s)
        return;
    const Type *t = old->base.type;
    Expr *more = adj_expr(v, a, t, ptrmap_find(&v->now, old));
    write_cell(v, l, &s->sum, vjp_sum(v, l, t, take_cell(v, l, &s->sum), more));
}

static Expr *as_rows(const Vjp *v, Expr *x, const Type *t)
{
    OpsMake m = {v->cx, v->make.arena, v->make.span};
    int64_t shape[2] = {-1, t->dims[t->n - 1]};
    Attr attr = ops_attr_ints(&m, "newshape", 2, shape);
    return t->n == 2 ? x : ops_call(&m, "reshape", 1, &x, 1, &attr);
}

static const Type *rows_type(const Vjp *v, const Type *t)
{
    Dim dims[2] = {dim_product(v->cx, t->n - 1, t->dims), t->dims[t->n - 1]};
    return type_tensor(v->cx, t->dtype, 2, dims);
}

bool captured_note(Vjp *v, Lets *l, const Call *e, Expr *const *args, Expr *adjoint)
{
    const Op *op = expr_call_of_op(&e->base);
    bool dense = !strcmp(op->name, "nn.dense"), matmul = !strcmp(op->name, "nn.matmul");
    Sum *s = dense || matmul ? ptrmap_find(&v->sums, e->args.at[1]) : NULL;
    if (!s || s->depth == v->functions || (matmul && attrs_bool(e->attrs, "transpose_a")))
        return false;
    const Type *x = vjp_here(v, e->args.at[0]->type), *g = vjp_here(v, e->base.type);
    const Type *w = vjp_here(v, e->args.at[1]->type);
    if (!is_known(x) || !is_known(g) || !is_known(w) || x->n < 2 || !dtype_eq(x->dtype, w->dtype) ||
        !dtype_eq(g->dtype, w->dtype))
        return false;
    int left = dense || attrs_bool(e->attrs, "transpose_b") ? 0 : 1;
    Expr *factors[2];
    const Type *types[2] = {rows_type(v, left ? x : g), rows_type(v, left ? g : x)};
    factors[left] = as_rows(v, adjoint, g);
    factors[!left] = as_rows(v, args[0], x);
    const Type *pair = type_tuple(v->cx, 2, types);
    if (types[0]->dims[0] * 2 > ROWS_MOST || (s->pair && s->pair != pair))
        return false;
    s->pair = pair;
    Expr *both[2] = {take_cell(v, l, &s->noted),
                     lets_push(l, expr_tuple(v->make.arena, v->make.span, 2, factors))};
    write_cell(v, l, &s->noted, lets_push(l, vjp_call_piece(v, PIECE_NOTE, pair, 2, both)));
    return true;
}

uint32_t captured_settle(Vjp *v, Lets *l, const Var *old, Expr *parts[2])
{
    Sum *s = ptrmap_find(&v->sums, old);
    LetBinding *places = s ? s->lets->bindings.at + s->at : NULL;
    uint32_t n = 0;
    if (s && s->sum.used)
        parts[n++] = make_cell(v, l, &s->sum, places,
                               vjp_zeros(v, old->base.type, ptrmap_find(&v->now, old)));
    if (s && s->noted.used) {
        Expr *first = nothing_noted(v, s->pair, zeros_of(v, sum_type(v, s->pair)));
        parts[n++] =
            lets_push(l, sum_of(v, make_cell(v, l, &s->noted, places + 2, first), s->pair));
    }
    return n;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------------------ */

static Var *noted_param(Vjp *v, const Type *pair)
{
    uint32_t n = steps_of(pair);
    const Type **types = arena_alloc_must(v->make.scratch, n + 2, sizeof *types);
    types[0] = type_scalar(v->cx, dtype_of(DT_INT32));
    types[1] = sum_type(v, pair);
    for (uint32_t i = 0; i < n; i++)
        types[2 + i] = pair;
    Var *noted = lets_var(&v->make);
    noted->annotation = type_tuple(v->cx, n + 2, types);
    return noted;
}

Function *vjp_make_noted(Vjp *v, const Piece *p)
{
    Var *noted = noted_param(v, p->type);
    return expr_function(v->make.arena, v->make.span, (TypeVarList){0}, 1, &noted, NULL,
                         sum_type(v, p->type), product_of(v, &noted->base, p->type));
}

/* fn (%noted, %pair) { if (%noted.0 == all) { (1, sum of %noted, %pair, zeros, …) } else { (%noted.0 + 1, %noted.1, %pair, %noted.2, …) } } */
Function *vjp_make_note(Vjp *v, const Piece *p)
{
    Arena *arena = v->make.arena;
    Span at = v->make.span;
    uint32_t n = steps_of(p->type);
    Var *params[2] = {noted_param(v, p->type), lets_var(&v->make)};
    params[1]->annotation = p->type;
    Expr *noted = &params[0]->base;
    Tuple *full = expr_as_tuple(nothing_noted(v, p->type, sum_of(v, noted, p->type)));
    Expr **first = arena_alloc_must(v->make.scratch, n + 2, sizeof *first);
    Expr **next = arena_alloc_must(v->make.scratch, n + 2, sizeof *next);
    memcpy(first, full->fields.at, (n + 2) * sizeof *first);
    first[0] = number(v, 1);
    next[0] = vjp_op(v, "add", vjp_get(v, noted, 0), number(v, 1));
    next[1] = vjp_get(v, noted, 1);
    first[2] = next[2] = &params[1]->base;
    for (uint32_t i = 1; i < n; i++)
        next[2 + i] = vjp_get(v, noted, 1 + i);
    Expr *all = vjp_op(v, "equal", vjp_get(v, noted, 0), number(v, n));
    Expr *body = expr_if(arena, at, all, expr_tuple(arena, at, n + 2, first),
                         expr_tuple(arena, at, n + 2, next));
    return expr_function(arena, at, (TypeVarList){0}, 2, params, NULL, params[0]->annotation, body);
}
