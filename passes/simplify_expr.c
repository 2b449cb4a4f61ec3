/* Replaces calls by simpler ones, until none is left that can be.
 *
 *     %0 = reshape(%x, newshape=[3, 2]); %1 = reshape(%0, newshape=[6]); cast(multiply(%1, 1f), dtype="float64")
 *  => %0 = reshape(%x, newshape=[6]); cast(%0, dtype="float64")
 *
 * Operands that the simpler call has no use for must be free of effects. */
#include "passes/facts.h"
#include "passes/pass.h"
#include "passes/types.h"

#include "stdlib/ops/ops.h"

#include <string.h>

typedef struct Site {
    OpsMake m;
    Purity *purity;
    const Op *op;
    const Call *call;
    Expr *const *args;
    const Type *type;   /* of the result, a tensor */
} Site;

/* What stands for the call; NULL: the rule does not apply. */
typedef Expr *Rule(const Site *s);

static const Call *call_of(const Site *s, const Expr *e, const char *op)
{
    return expr_call_of_op(e) && expr_call_of_op(e) == op_find(s->m.cx, str_of(op))
               ? expr_as_call(e)
               : NULL;
}

static bool has_result_type(const Site *s, const Expr *e)
{
    const Type *t = expr_tensor_type(e);
    return t && type_is_static(t) && type_equal(t, s->type);
}

static bool same_dims(const Type *a, const Type *b)
{
    bool same = a->n == b->n;
    for (uint32_t i = 0; same && i < a->n; i++)
        same = a->dims[i] == b->dims[i] && a->dims[i] >= 0;
    return same;
}

static Attr attr_dtype(const Site *s)
{
    return ops_attr_dtype(&s->m, "dtype", s->type->dtype);
}

static Attr attr_dims(const Site *s, const char *key)
{
    return ops_attr_ints(&s->m, key, s->type->n, s->type->dims);
}

/* ---- operands that give a shape or an element type alone ----------------------------------------- */

static bool shape_known(const Site *s, const Expr *unused)
{
    return type_is_static(s->type) && purity_of(s->purity, unused);
}

static Expr *made_like(const Site *s, const char *op, uint32_t n)
{
    Attr attrs[2] = {attr_dims(s, "shape"), attr_dtype(s)};
    return shape_known(s, s->args[0]) ? ops_call(&s->m, op, n, s->args + 1, 2, attrs) : NULL;
}

static Expr *zeros_like(const Site *s)
{
    return made_like(s, "zeros", 0);
}

static Expr *ones_like(const Site *s)
{
    return made_like(s, "ones", 0);
}

static Expr *full_like(const Site *s)
{
    return made_like(s, "full", 1);
}

static Expr *shaped_like(const Site *s, const char *op, const char *key)
{
    Attr attr = attr_dims(s, key);
    return shape_known(s, s->args[1]) ? ops_call(&s->m, op, 1, s->args, 1, &attr) : NULL;
}

static Expr *reshape_like(const Site *s)
{
    return shaped_like(s, "reshape", "newshape");
}

static Expr *broadcast_to_like(const Site *s)
{
    return shaped_like(s, "broadcast_to", "shape");
}

/* A vector of int32, as a constant. */
static Expr *dims_constant(const Site *s)
{
    int64_t n = s->type->n;
    Tensor *t = tensor_new(&s->m.cx->limits, (DType){DTYPE_CODE_INT, 32, 1}, 1, &n);
    if (!t)
        return NULL;
    for (int64_t i = 0; i < n; i++)
        dtype_set_int(t->dtype, t->data + 4 * i, s->type->dims[i]);
    Value v = value_tensor(t);
    Expr *e = expr_constant(s->m.arena, s->m.span, v);
    value_release(v);
    return e;
}

static Expr *collapse_sum_like(const Site *s)
{
    if (!shape_known(s, s->args[1]))
        return NULL;
    Expr *args[2] = {s->args[0], dims_constant(s)};
    Attr attr = attr_dims(s, "shape");
    return ops_call(&s->m, "collapse_sum_to", 2, args, 1, &attr);
}

static Expr *cast_like(const Site *s)
{
    Attr attr = attr_dtype(s);
    return purity_of(s->purity, s->args[1]) ? ops_call(&s->m, "cast", 1, s->args, 1, &attr) : NULL;
}

/* ---- operands that change nothing ---------------------------------------------------------------- */

static bool is_number(const Expr *e, double number)
{
    const Constant *c = expr_as_constant(e);
    return c && c->value.kind == VALUE_SCALAR && value_as_double(c->value) == number;
}

/* Every element is the number: 0 or 1. */
static bool is_all(const Site *s, const Expr *e, int number)
{
    const Call *like = call_of(s, e, number ? "ones_like" : "zeros_like");
    return is_number(e, number) || call_of(s, e, number ? "ones" : "zeros") ||
           (like && purity_of(s->purity, like->args.at[0]));
}

/* The operand on the left where the one on the right is all `number`. */
static Expr *left_alone(const Site *s, int number)
{
    return is_all(s, s->args[1], number) && has_result_type(s, s->args[0]) ? s->args[0] : NULL;
}

static Expr *either_alone(const Site *s, int number)
{
    if (is_all(s, s->args[0], number) && has_result_type(s, s->args[1]))
        return s->args[1];
    return left_alone(s, number);
}

static Expr *add_nothing(const Site *s)
{
    return either_alone(s, 0);
}

static Expr *subtract_nothing(const Site *s)
{
    return left_alone(s, 0);
}

static Expr *multiply_nothing(const Site *s)
{
    return either_alone(s, 1);
}

static Expr *divide_nothing(const Site *s)
{
    return left_alone(s, 1);
}

/* ---- pairs ----------------------------------------------------------------------------------------- */

static Expr *reshape_twice(const Site *s)
{
    const Call *inner = call_of(s, s->args[0], "reshape");
    Attr attr = attr_dims(s, "newshape");
    return inner && type_is_static(s->type)
               ? ops_call(&s->m, "reshape", 1, inner->args.at, 1, &attr)
               : NULL;
}

/* The axes of a transposition, from 0. */
static void axes_of(const Attrs *attrs, int rank, int64_t *axes)
{
    if (attrs_ints(attrs, "axes", axes, rank) != rank)
        for (int i = 0; i < rank; i++)
            axes[i] = rank - 1 - i;
    for (int i = 0; i < rank; i++)
        axes[i] += axes[i] < 0 ? rank : 0;
}

static Expr *transpose_twice(const Site *s)
{
    const Call *inner = call_of(s, s->args[0], "transpose");
    int rank = (int)s->type->n;
    int64_t outer_axes[TENSOR_RANK_MOST], inner_axes[TENSOR_RANK_MOST];
    if (!inner || rank > TENSOR_RANK_MOST)
        return NULL;
    axes_of(s->call->attrs, rank, outer_axes);
    axes_of(inner->attrs, rank, inner_axes);
    bool same = true;
    for (int i = 0; i < rank; i++) {
        outer_axes[i] = inner_axes[outer_axes[i]];
        same = same && outer_axes[i] == i;
    }
    Attr attr = ops_attr_ints(&s->m, "axes", (uint32_t)rank, outer_axes);
    return same ? inner->args.at[0] : ops_call(&s->m, "transpose", 1, inner->args.at, 1, &attr);
}

static Expr *layout_twice(const Site *s)
{
    const Call *inner = call_of(s, s->args[0], "layout_transform");
    if (!inner || !str_eq(attrs_string(inner->attrs, "dst_layout"),
                          attrs_string(s->call->attrs, "src_layout")))
        return NULL;
    if (str_eq(attrs_string(inner->attrs, "src_layout"),
               attrs_string(s->call->attrs, "dst_layout")))
        return inner->args.at[0];
    Attr attrs[2] = {{.key = "src_layout", .value = *attrs_find(inner->attrs, "src_layout")},
                     {.key = "dst_layout", .value = *attrs_find(s->call->attrs, "dst_layout")}};
    return ops_call(&s->m, "layout_transform", 1, inner->args.at, 2, attrs);
}

static Expr *cast_to_same(const Site *s)
{
    const Type *t = expr_tensor_type(s->args[0]);
    return t && dtype_eq(t->dtype, s->type->dtype) ? s->args[0] : NULL;
}

/* Integers that every value of `from` is one of. */
static bool holds_all(DType from, DType to)
{
    bool ints = (from.code == DTYPE_CODE_INT || from.code == DTYPE_CODE_UINT) &&
                (to.code == DTYPE_CODE_INT || to.code == DTYPE_CODE_UINT);
    if (!ints || from.lanes != 1 || to.lanes != 1)
        return false;
    return from.code == to.code ? from.bits <= to.bits
                                : from.code == DTYPE_CODE_UINT && from.bits < to.bits;
}

static Expr *cast_twice(const Site *s)
{
    const Call *inner = call_of(s, s->args[0], "cast");
    const Type *from = inner ? expr_tensor_type(inner->args.at[0]) : NULL,
               *mid = expr_tensor_type(s->args[0]);
    Attr attr = attr_dtype(s);
    return from && mid && holds_all(from->dtype, mid->dtype)
               ? ops_call(&s->m, "cast", 1, inner->args.at, 1, &attr)
               : NULL;
}

/* The constant of an addition, and what it is added to. */
static Expr *added_constant(const Call *add, Expr **other)
{
    for (int i = 1; add && i >= 0; i--)
        if (add->args.at[i]->kind == EXPR_CONSTANT) {
            *other = add->args.at[1 - i];
            return add->args.at[i];
        }
    return NULL;
}

static Expr *add_twice(const Site *s)
{
    Expr *inner = NULL, *x = NULL;
    Expr *second = added_constant(s->call, &inner);
    Expr *first = second ? added_constant(call_of(s, inner, "add"), &x) : NULL;
    return first && x->kind != EXPR_CONSTANT
               ? ops_call2(&s->m, "add", x, ops_call2(&s->m, "add", first, second))
               : NULL;
}

/* ---- tensors of one number in a broadcast ----------------------------------------------------------- */

static Expr *number_of(const Site *s, const Expr *e)
{
    const Call *full = call_of(s, e, "full");
    const Type *t = expr_tensor_type(e);
    if (full)
        return full->args.at[0]->kind == EXPR_CONSTANT ? full->args.at[0] : NULL;
    if (!t || !(call_of(s, e, "zeros") || call_of(s, e, "ones")))
        return NULL;
    return ops_constant(&s->m, t->dtype, call_of(s, e, "ones") ? 1 : 0);
}

static Expr *broadcast_number(const Site *s)
{
    for (int i = 0; i < 2; i++) {
        const Type *other = expr_tensor_type(s->args[1 - i]), *t = expr_tensor_type(s->args[i]);
        if (!other || !t || t->n == 0 || !same_dims(other, s->type))
            continue;
        Expr *number = number_of(s, s->args[i]);
        const Type *dtype = number ? expr_tensor_type(expr_type_ops(s->m.cx, number)) : NULL;
        if (!dtype || !dtype_eq(dtype->dtype, t->dtype))
            continue;
        Expr *args[2] = {i ? s->args[0] : number, i ? number : s->args[1]};
        return expr_call_op(s->m.arena, s->m.span, s->op, 2, args, s->call->attrs);
    }
    return NULL;
}

/* ---- the pass --------------------------------------------------------------------------------------- */

static const struct {
    const char *op;
    Rule *rule;
} rules[] = {
    {"zeros_like", zeros_like},
    {"ones_like", ones_like},
    {"full_like", full_like},
    {"reshape_like", reshape_like},
    {"broadcast_to_like", broadcast_to_like},
    {"collapse_sum_like", collapse_sum_like},
    {"cast_like", cast_like},
    {"add", add_nothing},
    {"subtract", subtract_nothing},
    {"multiply", multiply_nothing},
    {"divide", divide_nothing},
    {"reshape", reshape_twice},
    {"transpose", transpose_twice},
    {"layout_transform", layout_twice},
    {"cast", cast_to_same},
    {"cast", cast_twice},
    {"add", add_twice},
};

#define RULES (sizeof rules / sizeof *rules)

typedef struct Simplify {
    Purity purity;
    const Op *ops[RULES];
} Simplify;

static Expr *simpler(Rewriter *rw, Expr *e, const Type *type)
{
    Simplify *s = rw->data;
    const Op *op = expr_call_of_op(e);
    const Type *t = op && type ? type_find(type) : NULL;
    if (!t || t->kind != TYPE_TENSOR)
        return NULL;
    const Call *call = expr_as_call(e);
    Site site = {.m = {rw->cx, &rw->module->arena, e->span},
                 .purity = &s->purity,
                 .op = op,
                 .call = call,
                 .args = call->args.at,
                 .type = t};
    Expr *now = NULL;
    for (size_t i = 0; i < RULES && !now; i++)
        now = s->ops[i] == op ? rules[i].rule(&site) : NULL;
    if (!now && op->pattern == OP_BROADCAST && call->args.n == 2)
        now = broadcast_number(&site);
    return now ? expr_type_ops(rw->cx, now) : NULL;
}

static Expr *simplify_node(Rewriter *rw, const Expr *old, Expr *now)
{
    expr_keep_type(now, old);
    for (Expr *next = simpler(rw, now, old->type); next; next = simpler(rw, now, old->type))
        now = next;
    return now;
}

static bool enter_node(Rewriter *rw, const Expr *old, Expr **now)
{
    (void)rw;
    const Function *f = expr_as_function(old);
    *now = (Expr *)(uintptr_t)old;
    return f && function_is_primitive(f);
}

static Function *simplify(PassRun *run, const Def *def)
{
    Simplify s = {0};
    Rewriter rw;
    for (size_t i = 0; i < RULES; i++)
        s.ops[i] = op_find(run->cx, str_of(rules[i].op));
    purity_init(&s.purity, run->module, run->context->env, &def->fn->base);
    rewriter_init(&rw, run->cx, run->module, simplify_node, &s);
    rw.enter = enter_node;
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    purity_deinit(&s.purity);
    return expr_as_function(now);
}

const Pass pass_simplify_expr = {
    .name = "SimplifyExpr",
    .doc = "Replaces calls of operators by simpler ones with the same result.",
    .opt_level = 0,
    .needs_types = true,
    .function = simplify,
};
