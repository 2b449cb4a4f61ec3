/* Takes out of a derivative what changes nothing, so that it is short before anybody reads, compiles or differentiates it.
 *
 *     let %a = exp(%x); let %b = %a; %0 = ones_like(%b); %1 = multiply(%0, %a); collapse_sum_like(%1, %x)
 *  => let %a = exp(%x); %a
 *
 * Other than SimplifyExpr it looks behind variables. Results are the same to the bit, but that a sum of zeros and minus zero is zero:
 * what it drops are factors of one, transposes in front of products, zeros that are added, changes to the shape that is there already, names for names, and fields of
 * tuples that are written out. DeadCodeElimination takes what nothing uses then. */
#include "passes/facts.h"
#include "passes/pass.h"
#include "passes/types.h"

#include "stdlib/ops/ops.h"

#include <string.h>

/* So many operators on top of each other are looked through. */
enum { SPREADS_MOST = 8 };

typedef struct Derivative {
    Purity purity;
    PtrMap lets; /* Var -> its value as it was */
} Derivative;

typedef struct Site {
    OpsMake m;
    Rewriter *rw;
    Derivative *of;
    const Call *call;
    Expr *const *args;
    const Type *type; /* of the result, a tensor of known extents */
} Site;

/* What stands for the call; NULL: the rule does not apply. */
typedef Expr *Rule(const Site *s);

/* The value that a variable is bound to, which is no variable: those have been replaced. Else the expression itself. */
static Expr *behind(Rewriter *rw, const Derivative *d, Expr *e)
{
    const Expr *was = e->kind == EXPR_VAR ? ptrmap_find(&d->lets, e) : NULL;
    Expr *value = was ? rewriter_now(rw, was) : NULL;
    return value ? value : e;
}

static bool is_one_of(const Op *op, const char *const *names)
{
    for (; *names; names++)
        if (!strcmp(op->name, *names))
            return true;
    return false;
}

static bool has_result_type(const Site *s, const Expr *e)
{
    const Type *t = expr_tensor_type(e);
    return t && type_equal(t, s->type);
}

static bool is_droppable(const Site *s, uint32_t i)
{
    return i >= s->call->args.n || purity_of(&s->of->purity, s->args[i]);
}

/* ---- shapes --------------------------------------------------------------------------------------------------------- */

/* The operand of one of the operators; NULL: e is something else. */
static Expr *operand_of(const Site *s, Expr *e, const char *const *names)
{
    e = behind(s->rw, s->of, e);
    const Op *op = expr_call_of_op(e);
    return op && is_one_of(op, names) ? expr_as_call(e)->args.at[0] : NULL;
}

/* Behind operators that only place the elements anew, or repeat them. */
static Expr *spread_of(const Site *s, Expr *e)
{
    static const char *const names[] = {
        "broadcast_to", "broadcast_to_like", "expand_dims", "reshape",
        "reshape_like", "squeeze",           "transpose",   NULL};
    Expr *below = operand_of(s, e, names);
    for (int i = 0; below && i < SPREADS_MOST; i++) {
        e = below;
        below = operand_of(s, e, names);
    }
    return behind(s->rw, s->of, e);
}

/* The shape that the operand has already. */
static Expr *same_shape(const Site *s)
{
    return has_result_type(s, s->args[0]) && is_droppable(s, 1) ? s->args[0] : NULL;
}

/* One number, as rank 0, below axes of extent 1. */
static Expr *number_below(const Site *s, Expr *e)
{
    static const char *const names[] = {"broadcast_to", "broadcast_to_like", "expand_dims", NULL};
    for (int i = 0; e && i < SPREADS_MOST; i++) {
        e = operand_of(s, e, names);
        const Type *t = e ? expr_tensor_type(e) : NULL;
        if (t && t->n == 0)
            return e;
    }
    return NULL;
}

static Expr *broadcast_like(const Site *s)
{
    Expr *same = same_shape(s), *number = same ? NULL : number_below(s, s->args[0]);
    if (!number || number == s->args[0])
        return same;
    Expr *args[2] = {number, s->call->args.n > 1 ? s->args[1] : NULL};
    return expr_call(s->m.arena, s->m.span, s->call->callee, s->call->args.n, args, s->call->attrs);
}

static Expr *transposed_twice(const Site *s)
{
    Expr *inner = behind(s->rw, s->of, s->args[0]);
    const Op *op = expr_call_of_op(inner);
    int64_t axes[2][TENSOR_RANK_MOST];
    int rank = (int)s->type->n;
    if (op != expr_call_of_op(&s->call->base) || rank > TENSOR_RANK_MOST)
        return NULL;
    const Attrs *attrs[2] = {s->call->attrs, expr_as_call(inner)->attrs};
    for (int k = 0; k < 2; k++) {
        bool given = attrs_ints(attrs[k], "axes", axes[k], rank) == rank;
        for (int i = 0; i < rank; i++)
            axes[k][i] = given ? (axes[k][i] + rank) % rank : rank - 1 - i;
    }
    for (int i = 0; i < rank; i++)
        if (axes[1][axes[0][i]] != i)
            return NULL;
    return expr_as_call(inner)->args.at[0];
}

/* ---- zeros and ones ---------------------------------------------------------------------------------------------------- */

static Expr *scalar_like(const Site *s, int number)
{
    return s->type->n == 0 && is_droppable(s, 0) ? ops_constant(&s->m, s->type->dtype, number)
                                                 : NULL;
}

static Expr *zeros_like(const Site *s)
{
    return scalar_like(s, 0);
}

static Expr *ones_like(const Site *s)
{
    return scalar_like(s, 1);
}

static bool is_all(const Site *s, uint32_t i, int number)
{
    static const char *const names[2][3] = {{"zeros", "zeros_like", NULL},
                                            {"ones", "ones_like", NULL}};
    const Expr *e = spread_of(s, s->args[i]);
    const Constant *c = expr_as_constant(e);
    const Op *op = expr_call_of_op(e);
    TensorView v;
    if (c && value_view(&c->value, &v))
        return v.t.size == 1 && tensor_get_double(&v.t, 0) == number;
    return op && is_one_of(op, names[number]) && is_droppable(s, i);
}

/* Operand `left` is the result when the other one is all `number`. */
static Expr *alone(const Site *s, uint32_t left, int number)
{
    bool same = has_result_type(s, s->args[left]) && is_all(s, 1 - left, number);
    return same ? s->args[left] : NULL;
}

/* Where the other operand has all extents, one number is as good as a tensor full of it. */
static Expr *with_number(const Site *s)
{
    for (uint32_t i = 0; i < 2; i++) {
        Expr *number = has_result_type(s, s->args[1 - i]) ? number_below(s, s->args[i]) : NULL;
        Expr *args[2] = {i ? s->args[0] : number, i ? number : s->args[1]};
        if (number && number != s->args[i])
            return expr_call(s->m.arena, s->m.span, s->call->callee, 2, args, s->call->attrs);
    }
    return NULL;
}

static Expr *sum_or_product(const Site *s, int number, bool commutes)
{
    Expr *left = alone(s, 0, number);
    left = left || !commutes ? left : alone(s, 1, number);
    return left ? left : with_number(s);
}

static Expr *add(const Site *s)
{
    return sum_or_product(s, 0, true);
}

static Expr *subtract(const Site *s)
{
    return sum_or_product(s, 0, false);
}

static Expr *multiply(const Site *s)
{
    return sum_or_product(s, 1, true);
}

static Expr *divide(const Site *s)
{
    return sum_or_product(s, 1, false);
}

/* What a matrix is the transpose of; NULL: it is none. */
static Expr *untransposed(const Site *s, Expr *e)
{
    static const char *const names[] = {"transpose", NULL};
    Expr *below = operand_of(s, e, names);
    const Type *t = below ? expr_tensor_type(below) : NULL;
    const Attrs *attrs = below ? expr_as_call(behind(s->rw, s->of, e))->attrs : NULL;
    int64_t axes[2];
    bool turned =
        t && t->n == 2 && (attrs_ints(attrs, "axes", axes, 2) != 2 || (axes[0] + 2) % 2 == 1);
    return turned && dtype_eq(t->dtype, s->type->dtype) ? below : NULL;
}

/* A product of transposed matrices takes them as they lie. */
static Expr *dense(const Site *s)
{
    Expr *x = untransposed(s, s->args[0]), *w = untransposed(s, s->args[1]);
    const Type *t = expr_tensor_type(s->args[0]);
    if (!w || !t || t->n != 2 || !dtype_eq(t->dtype, s->type->dtype))
        return NULL;
    Expr *args[2] = {x ? x : s->args[0], w};
    Attr attrs[2] = {ops_attr_int("units", s->type->dims[1]),
                     ops_attr_bool("transpose_a", x != NULL)};
    return ops_call(&s->m, "nn.matmul", 2, args, 2, attrs);
}

static Expr *negative(const Site *s)
{
    Expr *inner = behind(s->rw, s->of, s->args[0]);
    return expr_call_of_op(inner) == expr_call_of_op(&s->call->base)
               ? expr_as_call(inner)->args.at[0]
               : NULL;
}

/* ---- the pass ------------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *op;
    Rule *rule;
} rules[] = {
    {"collapse_sum_like", same_shape},
    {"collapse_sum_to", same_shape},
    {"reshape_like", same_shape},
    {"reshape", same_shape},
    {"cast", same_shape},
    {"broadcast_to_like", broadcast_like},
    {"broadcast_to", broadcast_like},
    {"transpose", transposed_twice},
    {"zeros_like", zeros_like},
    {"ones_like", ones_like},
    {"add", add},
    {"subtract", subtract},
    {"multiply", multiply},
    {"divide", divide},
    {"negative", negative},
    {"nn.dense", dense},
};

static Expr *simpler_call(Rewriter *rw, Derivative *d, const Expr *old, Expr *e)
{
    const Op *op = expr_call_of_op(e);
    const Type *t = op && old->type ? type_find(old->type) : NULL;
    if (!t || t->kind != TYPE_TENSOR || !type_is_static(t))
        return NULL;
    const Call *call = expr_as_call(e);
    Site site = {{rw->cx, &rw->module->arena, e->span}, rw, d, call, call->args.at, t};
    Expr *now = NULL;
    for (size_t i = 0; i < sizeof rules / sizeof *rules && !now; i++)
        now = strcmp(rules[i].op, op->name) ? NULL : rules[i].rule(&site);
    return now ? expr_type_ops(rw->cx, now) : NULL;
}

static bool is_name(const Expr *e)
{
    const Constant *c = expr_as_constant(e);
    return e->kind == EXPR_VAR || (c && c->value.kind == VALUE_SCALAR);
}

/* A field of a tuple that is written out. */
static Expr *known_field(Rewriter *rw, const Derivative *d, Expr *now)
{
    const TupleGet *get = expr_as_tuple_get(now);
    const Tuple *tuple = get ? expr_as_tuple(behind(rw, d, get->tuple)) : NULL;
    Expr *field = tuple ? tuple->fields.at[get->index] : NULL;
    return field && is_name(field) ? field : now;
}

static Expr *simplify_node(Rewriter *rw, const Expr *old, Expr *now)
{
    Derivative *d = rw->data;
    const Let *let = expr_as_let(now);
    const Expr *was = old->kind == EXPR_VAR ? ptrmap_find(&d->lets, old) : NULL;
    Expr *value = was ? rewriter_now(rw, was) : NULL;
    if (value && is_name(value))
        return value;
    if (let && is_name(let->value))
        return let->body;
    expr_keep_type(now, old);
    for (Expr *next = simpler_call(rw, d, old, now); next; next = simpler_call(rw, d, old, now))
        now = next;
    return known_field(rw, d, now);
}

static Function *simplify(PassRun *run, const Def *def)
{
    Derivative d = {0};
    Rewriter rw;
    note_lets(&def->fn->base, &d.lets);
    purity_init(&d.purity, run->module, run->context->env, &def->fn->base);
    rewriter_init(&rw, run->cx, run->module, simplify_node, &d);
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    purity_deinit(&d.purity);
    ptrmap_deinit(&d.lets);
    return expr_as_function(now);
}

const Pass pass_simplify_gradient = {
    .name = "SimplifyGradient",
    .doc = "Takes out of derivatives what changes nothing.",
    .opt_level = 0,
    .needs_types = true,
    .order = ORDER_ALL,
    .function = simplify,
};
