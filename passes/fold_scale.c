#include "passes/fold_scale.h"

#include "passes/types.h"

#include <string.h>

static const struct {
    const char *op;
    ScaleKind kind;
} kinds[] = {
    {"nn.conv2d", SCALE_WEIGHTED}, {"nn.conv3d", SCALE_WEIGHTED}, {"nn.dense", SCALE_WEIGHTED},
    {"nn.relu", SCALE_RELU},       {"nn.leaky_relu", SCALE_RELU}, {"add", SCALE_SUM},
    {"subtract", SCALE_SUM},       {"nn.bias_add", SCALE_BIAS},   {"multiply", SCALE_PRODUCT},
};

ScaleKind scale_kind(const Expr *e)
{
    const Op *op = expr_call_of_op(e);
    for (size_t i = 0; op && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].op, op->name))
            return kinds[i].kind;
    return SCALE_OTHER;
}

static int letter_at(Str layout, char letter)
{
    const char *at = memchr(layout.ptr, letter, layout.len);
    return at ? (int)(at - layout.ptr) : -1;
}

static bool is_plain(Str layout, uint32_t rank)
{
    for (size_t i = 0; i < layout.len; i++)
        if (layout.ptr[i] < 'A' || layout.ptr[i] > 'Z')
            return false;
    return layout.len == rank;
}

bool scale_axes(const Call *call, ScaleAxes *out)
{
    const Type *x = expr_tensor_type(call->args.at[0]), *w = expr_tensor_type(call->args.at[1]);
    const Type *y = expr_tensor_type(&call->base);
    if (!x || !w || !y || !dtype_is_float(y->dtype))
        return false;
    if (!strcmp(expr_call_of_op(&call->base)->name, "nn.dense")) {
        *out = (ScaleAxes){.in = 1, .out = 1, .weight_in = 1, .weight_out = 0};
        return x->n == 2 && w->n == 2;
    }
    Str data = attrs_string(call->attrs, "data_layout");
    Str kernel = attrs_string(call->attrs, "kernel_layout");
    Str result = ops_out_layout(call->attrs, "data_layout", "out_layout");
    if (!is_plain(data, x->n) || !is_plain(kernel, w->n) || !is_plain(result, y->n))
        return false;
    int o = letter_at(kernel, 'O'), i = letter_at(kernel, 'I');
    *out = (ScaleAxes){letter_at(data, 'C'), letter_at(result, 'C'), i, o};
    if (out->in < 0 || out->out < 0 || i < 0 || o < 0)
        return false;
    int64_t groups = attrs_int(call->attrs, "groups", 1);
    bool depthwise = w->dims[o] == groups && w->dims[i] == 1;
    if (depthwise)
        out->weight_in = o;
    return groups == 1 || depthwise;
}

bool scale_matches(const Type *t, const Type *operand, int axis, int64_t *squeezed, int *n)
{
    int base = (int)t->n - (int)operand->n;
    *n = 0;
    if (base < 0 || axis < base || t->dims[axis] < 0)
        return false;
    for (int i = base; i < (int)t->n; i++) {
        if (operand->dims[i - base] != (i == axis ? t->dims[i] : 1))
            return false;
        if (i != axis)
            squeezed[(*n)++] = i - base;
    }
    return true;
}

static bool only_moves(const Op *op)
{
    static const char *const names[] = {"squeeze", "expand_dims", "reshape", "transpose", "repeat"};
    for (size_t i = 0; op && i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], op->name))
            return true;
    return false;
}

bool scale_is_positive(const Expr *e)
{
    while (only_moves(expr_call_of_op(e)))
        e = expr_as_call(e)->args.at[0];
    const Constant *c = expr_as_constant(e);
    TensorView v;
    if (!c || !value_view(&c->value, &v))
        return false;
    for (int64_t i = 0; i < v.t.size; i++)
        if (!(tensor_get_double(&v.t, i) > 0))
            return false;
    return true;
}

Expr *scale_vector(const OpsMake *m, Expr *operand, int n, const int64_t *squeezed)
{
    Attr attr = ops_attr_ints(m, "axis", (uint32_t)n, squeezed);
    return n ? ops_call(m, "squeeze", 1, &operand, 1, &attr) : operand;
}
