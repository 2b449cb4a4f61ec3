/* What a program costs, from types and from the operators' tensor expressions. */
#include "ir/walk.h"
#include "passes/analysis.h"
#include "passes/cost.h"

#include <stdlib.h>
#include <string.h>

/* ---- sizes ---------------------------------------------------------------------------------------- */

static void put_size(Analysis *a, const char *what, const TypeSize *s)
{
    buf_printf(&a->out, "%s: %.0f elements, %.0f bytes%s\n", what, s->elements, s->bytes,
               s->unknown ? ", and what is known only at run time" : "");
}

static WalkNext add_constant(void *data, const Expr *e)
{
    if (e->kind == EXPR_CONSTANT)
        type_size_add(data, e->type);
    return WALK_ON;
}

void analyze_params(Analysis *a)
{
    TypeSize params = {0}, constants = {0};
    const Function *f = expr_as_function(a->root);
    for (uint32_t i = 0; f && i < f->params.n; i++)
        type_size_add(&params, f->params.at[i]->base.type);
    ir_walk(a->root, add_constant, NULL, &constants);
    put_size(a, "parameters", &params);
    put_size(a, "constants", &constants);
}

static WalkNext add_result(void *data, const Expr *e)
{
    if (expr_call_of_op(e))
        type_size_add(data, e->type);
    return WALK_ON;
}

void analyze_activations(Analysis *a)
{
    TypeSize sum = {0};
    ir_walk(a->root, add_result, NULL, &sum);
    put_size(a, "results", &sum);
}

/* ---- operations --------------------------------------------------------------------------------------- */

typedef struct Costs {
    Analysis *a;
    bool each; /* a line for each call */
    double operations, multiply_adds;
    size_t unknown;
} Costs;

static WalkNext add_cost(void *data, const Expr *e)
{
    Costs *c = data;
    const Op *op = expr_call_of_op(e);
    TeCost cost;
    if (limit_hit(&c->a->cx->limits))
        return WALK_STOP;
    if (!op)
        return WALK_ON;
    bool known = call_cost(c->a->cx, &c->a->arena, expr_as_call(e), op, &cost);
    c->unknown += !known;
    c->operations += cost.operations;
    c->multiply_adds += cost.multiply_adds;
    if (c->each && known)
        buf_printf(&c->a->out, "%s: %.0f\n", op->name, cost.operations);
    else if (c->each)
        buf_printf(&c->a->out, "%s: not known\n", op->name);
    return WALK_ON;
}

static void put_unknown(const Costs *c)
{
    if (c->unknown)
        buf_printf(&c->a->out, "without %zu call%s whose cost is not known\n", c->unknown,
                   c->unknown == 1 ? "" : "s");
}

void analyze_macs(Analysis *a)
{
    Costs c = {.a = a};
    ir_walk(a->root, NULL, add_cost, &c);
    buf_printf(&a->out, "%.0f\n", c.multiply_adds);
    put_unknown(&c);
}

void analyze_flops(Analysis *a)
{
    Costs c = {.a = a, .each = true};
    ir_walk(a->root, NULL, add_cost, &c);
    buf_printf(&a->out, "all: %.0f\n", c.operations);
    put_unknown(&c);
}

/* ---- operators ------------------------------------------------------------------------------------------ */

static WalkNext count_op(void *data, const Expr *e)
{
    PtrMap *counts = data;
    const Op *op = expr_call_of_op(e);
    if (op)
        ptrmap_put(counts, op, (void *)((uintptr_t)ptrmap_find(counts, op) + 1));
    return WALK_ON;
}

static int most_first(const void *a, const void *b)
{
    const PtrEntry *x = a, *y = b;
    uintptr_t nx = (uintptr_t)x->value, ny = (uintptr_t)y->value;
    if (nx != ny)
        return nx < ny ? 1 : -1;
    return strcmp(((const Op *)x->key)->name, ((const Op *)y->key)->name);
}

void analyze_op_freqs(Analysis *a)
{
    PtrMap counts = {0};
    ir_walk(a->root, NULL, count_op, &counts);
    if (counts.n)
        qsort(counts.entries, counts.n, sizeof *counts.entries, most_first);
    for (size_t i = 0; i < counts.n; i++)
        buf_printf(&a->out, "%s: %zu\n", ((const Op *)counts.entries[i].key)->name,
                   (size_t)(uintptr_t)counts.entries[i].value);
    ptrmap_deinit(&counts);
}

/* ---- chains ------------------------------------------------------------------------------------------------ */

typedef struct Chain {
    Analysis *a;
    PtrMap depth; /* node, or variable of a let -> its longest chain */
    PtrMap bound; /* value of a let -> its variable */
    bool products; /* only calls that sum products count */
    uintptr_t here, most;
} Chain;

static void longest(void *data, Expr *const *slot)
{
    Chain *c = data;
    uintptr_t n = (uintptr_t)ptrmap_find(&c->depth, *slot);
    c->here = n > c->here ? n : c->here;
}

/* What a let binds is as deep as its value. */
static WalkNext note_let(void *data, const Expr *e)
{
    Chain *c = data;
    const Let *let = expr_as_let(e);
    if (let)
        ptrmap_put(&c->bound, let->value, let->var);
    return WALK_ON;
}

static bool counts(Chain *c, const Expr *e)
{
    const Op *op = expr_call_of_op(e);
    TeCost cost;
    if (!op || !c->products)
        return op != NULL;
    return call_cost(c->a->cx, &c->a->arena, expr_as_call(e), op, &cost) && cost.multiply_adds > 0;
}

static WalkNext measure(void *data, const Expr *e)
{
    Chain *c = data;
    if (limit_hit(&c->a->cx->limits))
        return WALK_STOP;
    if (e->kind == EXPR_VAR)
        return WALK_ON;
    c->here = 0;
    ir_children(e, longest, c);
    c->here += counts(c, e);
    ptrmap_put(&c->depth, e, (void *)c->here);
    const void *var = ptrmap_find(&c->bound, e);
    if (var)
        ptrmap_put(&c->depth, var, (void *)c->here);
    c->most = c->here > c->most ? c->here : c->most;
    return WALK_ON;
}

static void put_chain(Analysis *a, bool products)
{
    Chain c = {.a = a, .products = products};
    ir_walk(a->root, note_let, measure, &c);
    buf_printf(&a->out, "%zu\n", (size_t)c.most);
    ptrmap_deinit(&c.depth);
    ptrmap_deinit(&c.bound);
}

void analyze_layers(Analysis *a)
{
    put_chain(a, true);
}

void analyze_chain(Analysis *a)
{
    put_chain(a, false);
}
