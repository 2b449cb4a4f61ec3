/* Writes products and convolutions of 16-bit floats as such of float32, for which a processor has strategies:
 *
 *     nn.dense(%x, %w, units=None)
 *  => %0 = nn.dense(cast(%x, dtype="float32"), cast(%w, dtype="float32"), units=None);
 *     cast(%0, dtype="float16")
 *
 * As they are written each product is rounded to 16 bits, too, before it is added in 32. Cards have such strategies of their own. */
#include "passes/pass.h"
#include "passes/types.h"

#include "stdlib/ops/ops.h"

#include <string.h>

#define OPERANDS_MOST 4

static bool is_product(const char *op)
{
    static const char *const names[] = {
        "nn.dense",           "nn.matmul", "nn.batch_matmul",     "nn.conv1d",
        "nn.conv2d",          "nn.conv3d", "nn.conv1d_transpose", "nn.conv2d_transpose",
        "nn.conv3d_transpose"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(op, names[i]) == 0)
            return true;
    return false;
}

static bool is_half(const Type *t)
{
    return t && dtype_is_float(t->dtype) && t->dtype.bits == 16;
}

static const DType wide = {DTYPE_CODE_FLOAT, 32, 1};

/* The operands as float32; false where one of them is not of 16 bits. */
static bool widen_all(const OpsMake *m, const ExprList *from, Expr **to)
{
    for (uint32_t i = 0; i < from->n; i++)
        if (!is_half(expr_tensor_type(from->at[i])))
            return false;
    for (uint32_t i = 0; i < from->n; i++)
        to[i] = ops_cast(m, from->at[i], wide);
    return true;
}

/* Operands of an `einsum` that stand there; NULL: it has some of which nothing more is known than their types. */
static const ExprList *operands_of(const Op *op, const Call *call)
{
    if (is_product(op->name))
        return &call->args;
    const Tuple *t = strcmp(op->name, "einsum") == 0 ? expr_as_tuple(call->args.at[0]) : NULL;
    return t ? &t->fields : NULL;
}

static Expr *widen(Rewriter *rw, const Expr *old, Expr *now)
{
    const PassRun *run = rw->data;
    const Op *op = expr_call_of_op(now);
    const Call *call = op ? expr_as_call(now) : NULL;
    const ExprList *operands = op && !run->context->for_card ? operands_of(op, call) : NULL;
    expr_keep_type(now, old);
    const Type *out = operands ? expr_tensor_type(now) : NULL;
    OpsMake m = {rw->cx, &rw->module->arena, now->span};
    Expr *args[OPERANDS_MOST], *y;
    if (!out || !dtype_is_float(out->dtype) || operands->n < 2 || operands->n > OPERANDS_MOST ||
        !widen_all(&m, operands, args))
        return now;
    if (operands == &call->args) {
        AttrValue dtype = ops_attr_dtype(&m, "out_dtype", wide).value;
        y = expr_call_op(m.arena, m.span, op, 2, args,
                         attrs_with(m.arena, call->attrs, "out_dtype", dtype));
    } else {
        Expr *all = expr_tuple(m.arena, m.span, operands->n, args);
        y = expr_call_op(m.arena, m.span, op, 1, &all, call->attrs);
    }
    if (!dtype_eq(out->dtype, wide))
        y = ops_cast(&m, y, out->dtype);
    return y ? expr_type_ops(rw->cx, y) : now;
}

const Pass pass_widen_halves = {
    .name = "WidenHalves",
    .doc = "Writes products and convolutions of 16-bit floats as such of float32 between casts.",
    .opt_level = 2,
    .reorders = true,
    .needs_types = true,
    .rewrite = widen,
};
