/* Values that a program writes without variables, such as `Cons((1, 2), Nil)`: they are made once, with the code, and constants from then
 * on. The unit holds one count, so whoever takes one apart finds that others hold it.
 *
 * A tuple on its own stays as it is written: its fields go in registers where nobody wants it as a whole. */
#include "ir/walk.h"
#include "jit/internal.h"
#include "passes/types.h"

/* Of what one consists, what stands in several places each time. */
#define CLOSED_MOST 1024

typedef struct Closing {
    Gen *g;
    PtrMap vars; /* Var -> Closed */
    PtrMap constants; /* Call, as it is written -> Constant */
    PtrMap used; /* Var that something still reads, as entries */
} Closing;

const Closed *closed_scalar(Arena *a, Value v)
{
    if (v.kind != VALUE_SCALAR)
        return NULL;
    Closed *c = arena_new(a, Closed);
    *c = (Closed){.value = v, .size = 1};
    return c;
}

const Closed *closed_nullary(Arena *a, const Constructor *con)
{
    if (!con->info->nullary)
        return NULL;
    Closed *c = arena_new(a, Closed);
    *c = (Closed){.con = con, .value = value_object(con->info->nullary), .size = 1};
    return c;
}

static void release_object(void *o)
{
    object_release(o);
}

const Closed *closed_object(Ctx *cx, Arena *a, const Constructor *con, uint32_t n,
                            const Closed *const *fields)
{
    Closed *c = arena_new(a, Closed);
    *c = (Closed){.con = con, .n = n, .fields = fields, .size = 1};
    uint64_t *heads = arena_new_array(a, uint64_t, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        heads[i] = value_head(&fields[i]->value);
        c->size += fields[i]->size;
    }
    if (c->size > CLOSED_MOST)
        return NULL;
    ValueKind kind = con ? VALUE_CON : VALUE_TUPLE;
    Object *o = object_of_form(&cx->limits, import_form(cx, kind, con, n, heads));
    if (!o)
        return NULL;
    for (uint32_t i = 0; i < n; i++)
        o->fields[i].bits = value_retain(fields[i]->value).bits;
    arena_on_free(a, release_object, o);
    c->value = value_object(o);
    return c;
}

/* ---- what is closed ---------------------------------------------------------------------------------------------- */

static const Closed *closed_atom(const Closing *c, const Expr *e)
{
    const ConRef *con = expr_as_con(e);
    return con ? closed_nullary(c->g->arena, con->con) : ptrmap_find(&c->vars, e);
}

static Expr *constant_of(Closing *c, const Closed *closed, const Expr *e)
{
    Expr *constant = expr_constant(&c->g->code->arena, e->span, closed->value);
    constant->type = e->type;
    ptrmap_put(&c->g->unit->closed, closed->value.object, (void *)(uintptr_t)closed);
    return constant;
}

static const Closed *closed_fields(Closing *c, const Constructor *con, ExprList list)
{
    const Closed **fields = arena_new_array(c->g->arena, const Closed *, list.n + 1);
    for (uint32_t i = 0; i < list.n; i++) {
        fields[i] = closed_atom(c, list.at[i]);
        if (!fields[i])
            return NULL;
    }
    return list.n > 0 ? closed_object(c->g->cx, c->g->arena, con, list.n, fields) : NULL;
}

static const Closed *closed_value(Closing *c, const Expr *e)
{
    const Constant *constant = expr_as_constant(e);
    const Call *call = expr_as_call(e);
    const Tuple *tuple = expr_as_tuple(e);
    const ConRef *con = call ? expr_as_con(call->callee) : expr_as_con(e);
    if (constant)
        return closed_scalar(c->g->arena, constant->value);
    if (con && con->con->n == 0) /* called with no arguments or by its name */
        return closed_nullary(c->g->arena, con->con);
    if (call && con)
        return closed_fields(c, con->con, call->args);
    return tuple ? closed_fields(c, NULL, tuple->fields) : NULL;
}

static WalkNext note_closed(void *data, const Expr *e)
{
    Closing *c = data;
    const Let *let = expr_as_let(e);
    const Closed *closed = let ? closed_value(c, let->value) : NULL;
    if (!closed)
        return WALK_ON;
    ptrmap_put(&c->vars, let->var, (void *)(uintptr_t)closed);
    if (let->value->kind == EXPR_CALL && closed->n > 0)
        ptrmap_put(&c->constants, let->value, constant_of(c, closed, let->value));
    return WALK_ON;
}

/* ---- in their places --------------------------------------------------------------------------------------------- */

static void note_used(void *data, Expr *const *slot)
{
    if (expr_as_var(*slot))
        ptrmap_put(&((Closing *)data)->used, *slot, data);
}

/* What was written for a constant alone is wanted no more. A let comes after all that may read its variable. */
static Expr *node_now(Rewriter *rw, const Expr *old, Expr *now)
{
    Closing *c = rw->data;
    Expr *constant = ptrmap_find(&c->constants, old);
    const Let *let = expr_as_let(now);
    if (constant)
        return constant;
    ir_children(now, note_used, c);
    if (let && ptrmap_has(&c->vars, let->var) && !ptrmap_has(&c->used, let->var))
        return let->body;
    expr_keep_type(now, old);
    return now;
}

Function *closed_once(Gen *g, Function *fn)
{
    Closing c = {.g = g};
    ir_walk(&fn->base, note_closed, NULL, &c);
    if (c.constants.n > 0) {
        Rewriter rw;
        rewriter_init(&rw, g->cx, g->code, node_now, &c);
        fn = expr_as_function(ir_rewrite(&rw, &fn->base));
        rewriter_deinit(&rw);
    }
    ptrmap_deinit(&c.vars);
    ptrmap_deinit(&c.constants);
    ptrmap_deinit(&c.used);
    return fn;
}
