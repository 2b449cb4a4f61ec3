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
    bool for_code; /* what comes out is compiled here */
    Totality *total; /* NULL: what may fail may be left out */
    const Places *uses; /* node -> number of its uses */
    const Op *op;
    const Call *call;
    Expr *const *args;
    Expr *const *were;  /* the operands before they were simplified; NULL when they are others */
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

/* Nothing else uses operand i, so that it goes away with the call. */
static bool is_only_here(const Site *s, int i)
{
    return times_used(s->uses, s->args[i]) < 2 && (!s->were || times_used(s->uses, s->were[i]) < 2);
}

/* The call of that operator that operand 0 is, when it is for this call alone. */
static const Call *inner_call(const Site *s, const char *op)
{
    return is_only_here(s, 0) ? call_of(s, s->args[0], op) : NULL;
}

static bool has_result_type(const Site *s, const Expr *e)
{
    const Type *t = expr_tensor_type(e);
    return t && type_equal(t, s->type);
}

static Attr attr_dtype(const Site *s)
{
    return ops_attr_dtype(&s->m, "dtype", s->type->dtype);
}

/* The operand in the shape of the result. */
static Expr *reshaped(const Site *s, Expr *x)
{
    return ops_reshaped(&s->m, x, s->type->n, s->type->dims);
}

static Attr attr_dims(const Site *s, const char *key)
{
    return ops_attr_ints(&s->m, key, s->type->n, s->type->dims);
}

/* Nobody sees that it is left out. */
static bool leaves_nothing(const Site *s, const Expr *e)
{
    return purity_of(s->purity, e) && (!s->total || total_of(s->total, e));
}

/* ---- operands that give a shape or an element type alone ----------------------------------------- */

static bool shape_known(const Site *s, const Expr *unused)
{
    return type_is_static(s->type) && leaves_nothing(s, unused);
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

static Expr *reshape_like(const Site *s)
{
    return shape_known(s, s->args[1]) ? reshaped(s, s->args[0]) : NULL;
}

static Expr *broadcast_to_like(const Site *s)
{
    Attr attr = attr_dims(s, "shape");
    return shape_known(s, s->args[1]) ? ops_call(&s->m, "broadcast_to", 1, s->args, 1, &attr)
                                      : NULL;
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

/* ---- operands that change nothing ---------------------------------------------------------------- */

/* Operand i, of whatever rank, is one number, which is this one. */
static bool is_number(const Site *s, int i, double number)
{
    const Constant *c = expr_as_constant(s->args[i]);
    TensorView v;
    return c && value_view(&c->value, &v) && v.t.size == 1 && tensor_get_double(&v.t, 0) == number;
}

/* Every element of operand i is the number: 0 or 1. */
static bool is_all(const Site *s, int i, int number)
{
    const Call *like = call_of(s, s->args[i], number ? "ones_like" : "zeros_like");
    bool made = call_of(s, s->args[i], number ? "ones" : "zeros") ||
                (like && leaves_nothing(s, like->args.at[0]));
    return is_number(s, i, number) || (made && is_only_here(s, i));
}

/* The left operand has the type of the result, and the right one is all `number`; of unknown extents only one number is sure to change
 * none. */
static Expr *left_alone(const Site *s, int left, int number)
{
    int right = 1 - left;
    bool known = type_is_static(s->type) || s->args[right]->kind == EXPR_CONSTANT;
    return known && is_all(s, right, number) && has_result_type(s, s->args[left]) ? s->args[left]
                                                                                  : NULL;
}

static Expr *either_alone(const Site *s, int number)
{
    Expr *left = left_alone(s, 0, number);
    return left ? left : left_alone(s, 1, number);
}

static Expr *add_nothing(const Site *s)
{
    return either_alone(s, 0);
}

static Expr *subtract_nothing(const Site *s)
{
    return left_alone(s, 0, 0);
}

static Expr *multiply_nothing(const Site *s)
{
    return either_alone(s, 1);
}

static Expr *divide_nothing(const Site *s)
{
    return left_alone(s, 0, 1);
}

/* ---- pairs ----------------------------------------------------------------------------------------- */

static Expr *reshape_twice(const Site *s)
{
    const Call *inner = inner_call(s, "reshape");
    inner = inner ? inner : inner_call(s, "contrib_reverse_reshape");
    return inner && type_is_static(s->type) ? reshaped(s, inner->args.at[0]) : NULL;
}

/* Which axis of its operand each axis of a transposition's result is; a change of layout is one when no axis is split. */
static bool axes_of(const Site *s, const Call *call, int rank, int64_t *axes)
{
    const Attrs *attrs = call->attrs;
    if (!call_of(s, &call->base, "layout_transform")) {
        if (attrs_ints(attrs, "axes", axes, rank) != rank)
            for (int i = 0; i < rank; i++)
                axes[i] = rank - 1 - i;
        for (int i = 0; i < rank; i++)
            axes[i] += axes[i] < 0 ? rank : 0;
        return true;
    }
    Str src = attrs_string(attrs, "src_layout"), dst = attrs_string(attrs, "dst_layout");
    bool plain = src.len == (size_t)rank && dst.len == (size_t)rank;
    for (int i = 0; i < rank && plain; i++) {
        const char *at = memchr(src.ptr, dst.ptr[i], src.len);
        plain = at && *at >= 'A' && *at <= 'Z';
        axes[i] = plain ? at - src.ptr : 0;
    }
    return plain;
}

static Attr attr_layout(const Site *s, const char *key, Str layout)
{
    return ops_attr_text(&s->m, key, arena_copy_text(s->m.arena, layout.ptr, layout.len));
}

static Expr *change_layout(const Site *s, Expr *x, Str src, Str dst)
{
    Attr attrs[2] = {attr_layout(s, "src_layout", src), attr_layout(s, "dst_layout", dst)};
    return str_eq(src, dst) ? x : ops_call(&s->m, "layout_transform", 1, &x, 2, attrs);
}

/* A layout that splits axes and a transposition before or behind it; or two layouts. */
static Expr *split_twice(const Site *s, const Call *inner, int rank)
{
    bool first = call_of(s, &inner->base, "layout_transform") != NULL;
    bool second = call_of(s, &s->call->base, "layout_transform") != NULL;
    const Attrs *attrs = first ? inner->attrs : s->call->attrs;
    Str src = attrs_string(attrs, "src_layout"), dst = attrs_string(attrs, "dst_layout");
    Str plain = first ? dst : src;
    int64_t axes[TENSOR_RANK_MOST];
    char moved[TENSOR_RANK_MOST];
    if (first && second)
        return str_eq(dst, attrs_string(s->call->attrs, "src_layout"))
                   ? change_layout(s, inner->args.at[0], src,
                                   attrs_string(s->call->attrs, "dst_layout"))
                   : NULL;
    rank = first ? rank : (int)plain.len;
    if (plain.len != (size_t)rank || rank > TENSOR_RANK_MOST ||
        !axes_of(s, first ? s->call : inner, rank, axes))
        return NULL;
    for (int i = 0; i < rank; i++)
        moved[first ? i : axes[i]] = plain.ptr[first ? axes[i] : i];
    Str now = {moved, (size_t)rank};
    return change_layout(s, inner->args.at[0], first ? src : now, first ? now : dst);
}

static Expr *transpose_twice(const Site *s)
{
    const Call *inner = inner_call(s, "transpose");
    int rank = (int)s->type->n;
    int64_t outer_axes[TENSOR_RANK_MOST], inner_axes[TENSOR_RANK_MOST];
    inner = inner ? inner : inner_call(s, "layout_transform");
    if (!inner || rank > TENSOR_RANK_MOST)
        return NULL;
    if (!axes_of(s, s->call, rank, outer_axes) || !axes_of(s, inner, rank, inner_axes))
        return split_twice(s, inner, rank);
    bool same = true;
    for (int i = 0; i < rank; i++) {
        outer_axes[i] = inner_axes[outer_axes[i]];
        same = same && outer_axes[i] == i;
    }
    Attr attr = ops_attr_ints(&s->m, "axes", (uint32_t)rank, outer_axes);
    return same ? inner->args.at[0] : ops_call(&s->m, "transpose", 1, inner->args.at, 1, &attr);
}

/* What the call is a transposition of, where that exchanges the last two axes of matrices of this rank; NULL: of nothing. */
static Expr *turned_matrix(const Site *s, Expr *e, int rank)
{
    const Call *turn = call_of(s, e, "transpose");
    const Type *t = turn ? expr_tensor_type(e) : NULL;
    int64_t axes[TENSOR_RANK_MOST];
    if (!t || (int)t->n != rank || !axes_of(s, turn, rank, axes))
        return NULL;
    for (int i = 0; i < rank - 2; i++)
        if (axes[i] != i)
            return NULL;
    return axes[rank - 1] == rank - 2 ? turn->args.at[0] : NULL;
}

/* A product of transposed matrices reads them the other way round. Code alone gains by that. */
static Expr *product_of_turned(const Site *s)
{
    bool batch = !strcmp(s->op->name, "nn.batch_matmul"), dense = !strcmp(s->op->name, "nn.dense");
    const Attrs *attrs = s->call->attrs;
    int rank = batch ? 3 : 2;
    bool turned[2] = {attrs_bool(attrs, "transpose_a"), dense || attrs_bool(attrs, "transpose_b")};
    Expr *args[2] = {s->args[0], s->args[1]};
    if (!s->for_code)
        return NULL;
    for (int i = 0; i < 2; i++) {
        Expr *of = turned_matrix(s, args[i], rank);
        args[i] = of ? of : args[i];
        turned[i] ^= of != NULL;
    }
    if (args[0] == s->args[0] && args[1] == s->args[1])
        return NULL;
    Attr now[4] = {{.key = "out_dtype", .value = *attrs_find(attrs, "out_dtype")}};
    uint32_t n = 1;
    if (!batch)
        now[n++] = (Attr){.key = "units", .value = *attrs_find(attrs, "units")};
    if (!turned[0] && turned[1] && !batch)
        return ops_call(&s->m, "nn.dense", 2, args, n, now);
    now[n++] = ops_attr_bool("transpose_a", turned[0]);
    now[n++] = ops_attr_bool("transpose_b", turned[1]);
    return ops_call(&s->m, batch ? s->op->name : "nn.matmul", 2, args, n, now);
}

static Expr *cast_to_same(const Site *s)
{
    const Type *t = expr_tensor_type(s->args[0]);
    return t && dtype_eq(t->dtype, s->type->dtype) ? s->args[0] : NULL;
}

static Expr *cast_like_to_same(const Site *s)
{
    return leaves_nothing(s, s->args[1]) ? cast_to_same(s) : NULL;
}

static bool is_integer(DType t)
{
    return t.code == DTYPE_CODE_INT || t.code == DTYPE_CODE_UINT;
}

/* Each number of `from` is one of `to`. */
static bool holds_all(DType to, DType from)
{
    int sign = from.code == DTYPE_CODE_INT;
    if (is_integer(to))
        return is_integer(from) &&
               (from.code == to.code ? from.bits <= to.bits : !sign && from.bits < to.bits);
    int digits = to.bits == 64 ? 53 : to.bits == 32 ? 24 : to.code == DTYPE_CODE_BFLOAT ? 8 : 11;
    return is_integer(from)       ? from.bits - sign <= digits
           : from.code == to.code ? from.bits <= to.bits
                                  : from.bits < to.bits;
}

/* Casting through `mid` gives what casting at once does: nothing is lost on the way there, or what is lost would be anyway. An integer
 * that is too large wraps, a float stays at the end. */
static bool casts_at_once(DType from, DType mid, DType to)
{
    if (from.lanes != 1 || mid.lanes != 1)
        return false;
    if (!is_integer(mid) && is_integer(from) && is_integer(to))
        return holds_all(mid, from) && (holds_all(to, from) || dtype_is_bool(to));
    return holds_all(mid, from) || (is_integer(from) && is_integer(mid) && is_integer(to) &&
                                    from.bits <= mid.bits && to.bits <= mid.bits);
}

static Expr *cast_twice(const Site *s)
{
    const Call *inner = inner_call(s, "cast");
    if (s->call->args.n > 1 && !leaves_nothing(s, s->args[1]))
        return NULL;
    inner = inner ? inner : inner_call(s, "cast_like");
    const Type *from = inner ? expr_tensor_type(inner->args.at[0]) : NULL,
               *mid = expr_tensor_type(s->args[0]);
    Attr attr = attr_dtype(s);
    return from && mid && casts_at_once(from->dtype, mid->dtype, s->type->dtype)
               ? ops_call(&s->m, "cast", 1, inner->args.at, 1, &attr)
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
        const Type *t = expr_tensor_type(s->args[i]);
        if (!t || t->n == 0 || !type_is_static(s->type) || !has_result_type(s, s->args[1 - i]) ||
            !is_only_here(s, i))
            continue;
        Expr *number = number_of(s, s->args[i]);
        Expr *args[2] = {i ? s->args[0] : number, i ? number : s->args[1]};
        Expr *now =
            number ? expr_call_op(s->m.arena, s->m.span, s->op, 2, args, s->call->attrs) : NULL;
        /* Of a bias, for instance, one number is no operand. */
        if (now && expr_try_type_ops(s->m.cx, now))
            return now;
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
    {"add", add_nothing},
    {"subtract", subtract_nothing},
    {"multiply", multiply_nothing},
    {"divide", divide_nothing},
    {"reshape", reshape_twice},
    {"transpose", transpose_twice},
    {"contrib_reverse_reshape", reshape_twice},
    {"layout_transform", transpose_twice},
    {"nn.dense", product_of_turned},
    {"nn.matmul", product_of_turned},
    {"nn.batch_matmul", product_of_turned},
    {"cast", cast_to_same},
    {"cast_like", cast_like_to_same},
    {"cast", cast_twice},
    {"cast_like", cast_twice},
};

#define RULES (sizeof rules / sizeof *rules)

typedef struct Simplify {
    PassRun *run;
    Purity purity;
    Totality total;
    Places uses; /* node, before and after -> number of its uses */
    const Op *ops[RULES];
} Simplify;

static Expr *simpler(Rewriter *rw, const Expr *old, Expr *e)
{
    Simplify *s = rw->data;
    const Op *op = expr_call_of_op(e);
    const Type *t = op && old->type ? type_find(old->type) : NULL;
    if (!t || t->kind != TYPE_TENSOR)
        return NULL;
    const Call *call = expr_as_call(e), *was = expr_as_call(old);
    Site site = {.m = {rw->cx, &rw->module->arena, e->span},
                 .purity = &s->purity,
                 .for_code = s->run->context->for_code,
                 .total = s->run->context->for_code ? &s->total : NULL,
                 .uses = &s->uses,
                 .op = op,
                 .call = call,
                 .args = call->args.at,
                 .type = t};
    Expr *now = NULL;
    site.were = times_used(&s->uses, e) || was->callee != call->callee ? NULL : was->args.at;
    for (size_t i = 0; i < RULES && !now; i++)
        now = s->ops[i] == op ? rules[i].rule(&site) : NULL;
    if (!now && op->pattern == OP_BROADCAST && call->args.n == 2)
        now = broadcast_number(&site);
    return now ? expr_type_ops(rw->cx, now) : NULL;
}

enum { RULE_SIMPLER, RULE_SUM };

static const PassRule told[] = {
    [RULE_SIMPLER] = {"simpler", "{at} becomes {made}, which is the same"},
    [RULE_SUM] = {"sum", "{at} becomes {made}: the constants of the sum are together"},
    {0},
};

static Expr *simplify_node(Rewriter *rw, const Expr *old, Expr *now)
{
    Simplify *s = rw->data;
    expr_keep_type(now, old);
    for (Expr *next = simpler(rw, old, now); next; next = simpler(rw, old, now)) {
        pass_decides(s->run, (PassEvent){.rule = &told[RULE_SIMPLER], .at = old, .made = next});
        now = next;
    }
    if (now != old && !times_used(&s->uses, now))
        *places_slot(&s->uses, &s->run->scratch, now) = places_value(&s->uses, old);
    return now;
}

static Expr *rewrite(PassRun *run, Expr *root, RewriteFn *fn, void *data)
{
    Rewriter rw;
    pass_rewriter_init(&rw, run, fn, data);
    rw.enter = enter_past_kernel;
    Expr *now = ir_rewrite(&rw, root);
    rewriter_deinit(&rw);
    return now;
}

/* ---- sums of constants ------------------------------------------------------------------------------ */

/* (x + c) + d as x + (c + d), from the results on: of three constants the last two are brought together. */
typedef struct Sums {
    PassRun *run;
    const Op *add;
    Places uses;
    PtrMap pairs; /* the outer sum -> itself; the inner one -> NULL */
    Vec(const Expr *) order; /* operands first */
} Sums;

static WalkNext note_sum(void *data, const Expr *e)
{
    Sums *s = data;
    if (expr_call_of_op(e) == s->add)
        vec_push(&s->order, &s->run->scratch, e);
    return WALK_ON;
}

/* The constant of a sum, and what it is added to. */
static Expr *added_constant(const Expr *e, Expr **other)
{
    const Call *add = expr_as_call(e);
    for (int i = 1; i >= 0; i--)
        if (add->args.at[i]->kind == EXPR_CONSTANT) {
            *other = add->args.at[1 - i];
            return add->args.at[i];
        }
    return NULL;
}

static void find_pairs(Sums *s)
{
    for (size_t i = s->order.n; i-- > 0;) {
        const Expr *e = s->order.at[i];
        Expr *inner = NULL, *x = NULL;
        if (ptrmap_has(&s->pairs, e) || !added_constant(e, &inner) ||
            expr_call_of_op(inner) != s->add || !added_constant(inner, &x) ||
            x->kind == EXPR_CONSTANT || times_used(&s->uses, inner) > 1)
            continue;
        ptrmap_put(&s->pairs, e, (void *)(uintptr_t)e);
        ptrmap_put(&s->pairs, inner, NULL);
    }
}

static Expr *join_sum(Rewriter *rw, const Expr *old, Expr *now)
{
    Sums *s = rw->data;
    if (!ptrmap_find(&s->pairs, old))
        return now;
    OpsMake m = {rw->cx, &rw->module->arena, old->span};
    Expr *inner = NULL, *x = NULL;
    Expr *second = added_constant(now, &inner), *first = added_constant(inner, &x);
    Expr *made = ops_call2(&m, "add", x, ops_call2(&m, "add", first, second));
    pass_decides(s->run, (PassEvent){.rule = &told[RULE_SUM], .at = old, .made = made});
    return made;
}

static Expr *join_sums(PassRun *run, Expr *root)
{
    Sums s = {.run = run, .add = op_find(run->cx, str_of("add"))};
    ir_walk(root, NULL, note_sum, &s);
    if (s.order.n < 2)
        return root;
    count_uses(root, &run->scratch, &s.uses);
    find_pairs(&s);
    Expr *now = s.pairs.n ? rewrite(run, root, join_sum, &s) : root;
    ptrmap_deinit(&s.pairs);
    return now;
}

static Function *simplify(PassRun *run, const Def *def)
{
    Simplify s = {.run = run, .total = {.cx = run->cx, .data = true}};
    for (size_t i = 0; i < RULES; i++)
        s.ops[i] = op_find(run->cx, str_of(rules[i].op));
    purity_init(&s.purity, run->module, run->context->env, &def->fn->base);
    count_uses(&def->fn->base, &run->scratch, &s.uses);
    Expr *now = rewrite(run, &def->fn->base, simplify_node, &s);
    now = now ? join_sums(run, now) : NULL;
    purity_deinit(&s.purity);
    totality_deinit(&s.total);
    return expr_as_function(now);
}

const Pass pass_simplify_expr = {
    .name = "SimplifyExpr",
    .doc = "Replaces calls of operators by simpler ones with the same result.",
    .opt_level = 0,
    .reorders = true,
    .needs_types = true,
    .rules = told,
    .function = simplify,
};
