#include "te/op_eval.h"

#include "te/te.h"

enum { ARGS_FEW = 8 };

static const Type *type_of_arg(Ctx *cx, const Value *v)
{
    TensorView view;
    if (v->kind == VALUE_SCALAR)
        return type_scalar(cx, v->dtype);
    if (value_view(v, &view))
        return type_of_tensor(cx, &view.t);
    if (v->kind != VALUE_TUPLE)
        return NULL;
    const Type *few[ARGS_FEW], **fields = few;
    Arena scratch;
    arena_init(&scratch, NULL);
    const Object *o = v->object;
    uint32_t n = object_n(o), i = 0;
    if (n > ARGS_FEW)
        fields = arena_alloc_must(&scratch, n, sizeof *fields);
    const Type *t = NULL;
    while (i < n) {
        Value field = object_get(o, i);
        if (!(fields[i] = type_of_arg(cx, &field)))
            break;
        i++;
    }
    if (i == n)
        t = type_tuple(cx, i, fields);
    arena_deinit(&scratch);
    return t;
}

/* The result shares the argument's elements; NONE when they do not lie without gaps. */
static Value eval_view(const Value *arg, const Type *result)
{
    TensorView view;
    int64_t strides[TENSOR_RANK_MOST];
    if (!value_view(arg, &view) || !view.t.buffer || !tensor_is_contiguous(&view.t) ||
        !type_is_static(result))
        return value_none();
    shape_strides((int32_t)result->n, result->dims, strides);
    return value_tensor(tensor_view(&view.t, (int32_t)result->n, result->dims, strides, 0));
}

static int count_tensors(Value v)
{
    if (v.kind != VALUE_TUPLE)
        return 1;
    int n = 0;
    for (uint32_t i = 0; i < object_n(v.object); i++)
        n += count_tensors(object_get(v.object, i));
    return n;
}

/* Views point into the tuples, which stay where they are. */
static void view_tuple(const Object *o, TensorView **next)
{
    for (uint32_t i = 0; i < object_n(o); i++) {
        Value field = object_get(o, i);
        if (field.kind == VALUE_TUPLE)
            view_tuple(field.object, next);
        else
            object_view(o, i, (*next)++);
    }
}

static void view_tensors(const Value *v, TensorView **next)
{
    if (v->kind == VALUE_TUPLE)
        view_tuple(v->object, next);
    else
        value_view(v, (*next)++);
}

static Value tuple_of(Ctx *cx, int n, Tensor **tensors)
{
    Object *o = object_new(&cx->limits, &tuple_info, (uint32_t)n);
    for (int i = 0; i < n; i++) {
        if (o)
            object_set(o, (uint32_t)i, value_tensor(tensors[i]));
        else
            tensor_release(tensors[i]);
    }
    return o ? value_object(o) : value_none();
}

Value te_run_values(Ctx *cx, const TeProgram *p, Span span, uint32_t n, const Value *args)
{
    bool flat = true;
    for (uint32_t i = 0; i < n; i++)
        flat = flat && args[i].kind == VALUE_SCALAR;
    if (flat && te_is_scalar(p))
        return te_run_scalar(cx, p, span, args);
    TensorView few[ARGS_FEW], *views = few, *next;
    Tensor *few_outputs[ARGS_FEW], **outputs = few_outputs;
    Arena scratch;
    int tensors = 0;
    arena_init(&scratch, NULL);
    for (uint32_t i = 0; i < n; i++)
        tensors += count_tensors(args[i]);
    if (tensors > ARGS_FEW)
        views = arena_alloc_must(&scratch, (size_t)tensors, sizeof *views);
    if (p->n_outputs > ARGS_FEW)
        outputs = arena_alloc_must(&scratch, (size_t)p->n_outputs, sizeof *outputs);
    next = views;
    for (uint32_t i = 0; i < n; i++)
        view_tensors(&args[i], &next);
    Value v = value_none();
    if (te_run(cx, p, span, views, outputs))
        v = p->tuple ? tuple_of(cx, p->n_outputs, outputs) : value_tensor(outputs[0]);
    arena_deinit(&scratch);
    return v;
}

static Value eval_kernel(OpCall *c, const Type *result)
{
    c->type = result;
    if (c->op->kernel(c) && c->cx->limits.hit == LIMIT_NONE)
        return c->out;
    value_release(c->out);
    return value_none();
}

static Value eval_typed(OpCall *c, const Type *const *types, const Type *result)
{
    Ctx *cx = c->cx;
    const Op *op = c->op;
    if (op->flags & OP_RESHAPE) {
        Value v = eval_view(&c->args[0], result);
        if (!value_is_none(v))
            return v;
    }
    if (op->kernel)
        return eval_kernel(c, result);
    Arena scratch;
    arena_init(&scratch, &cx->limits);
    TeProgram *p = te_of_op(cx, &scratch, op, c->attrs, c->span, c->n, types, result);
    Value v = p ? te_run_values(cx, p, c->span, c->n, c->args) : value_none();
    arena_deinit(&scratch);
    return v;
}

static bool is_below(const Type *t, Dim least)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (t->kind == TYPE_TENSOR  ? t->dims[i] < least
            : t->kind == TYPE_TUPLE ? is_below(t->parts[i], least)
                                    : false)
            return true;
    return false;
}

/* The first element type of the result that no memory can hold; NULL: there is none. */
static const Type *not_stored(const Type *t)
{
    if (t->kind == TYPE_TENSOR)
        return dtype_id(t->dtype) == DTYPE_IDS ? t : NULL;
    const Type *found = NULL;
    for (uint32_t i = 0; t->kind == TYPE_TUPLE && i < t->n && !found; i++)
        found = not_stored(t->parts[i]);
    return found;
}

/* Where data does not decide, `?` is an extent that cannot be counted: no memory has room for it. */
static bool is_sound(Ctx *cx, const Op *op, Span span, const Type *result)
{
    const Type *t = not_stored(result);
    if (t) {
        Diag *d = diag_error(cx->diags, E0306_NOT_IMPLEMENTED, span,
                             "`%s` gives elements of type `%s`, which cannot be stored", op->name,
                             type_str(cx, type_scalar(cx, t->dtype)));
        diag_help(d, "`:explain E0118` lists the element types that can be");
        return false;
    }
    if (is_below(result, DIM_ANY)) {
        diag_error(cx->diags, E0303_RUNTIME_SHAPE, span, "`%s` gives an extent below zero",
                   op->name);
        return false;
    }
    if (op->flags & OP_SHAPE_FROM_DATA || !is_below(result, 0))
        return true;
    Diag *d = diag_error(cx->diags, E0503_MEMORY, span,
                         "`%s` gives an extent that cannot be counted", op->name);
    diag_help(d, "is a shape larger than it should be?");
    return false;
}

const Type *op_eval_type(Ctx *cx, const Op *op, const Attrs *attrs, Span span, uint32_t n,
                         const Type *const *types, const Value *const *values)
{
    const Type *result = op_type(cx, op, attrs, span, n, types, values);
    return result && is_sound(cx, op, span, result) ? result : NULL;
}

static Value eval_call(OpCall *c)
{
    Ctx *cx = c->cx;
    const Op *op = c->op;
    const Value *args = c->args;
    uint32_t n = c->n;
    if (!op->kernel && !op->compute) {
        diag_error(cx->diags, E0306_NOT_IMPLEMENTED, c->span, "`%s` cannot be evaluated", op->name);
        return value_none();
    }
    if (op->flags & OP_ANY_VALUE)
        return eval_kernel(c, NULL);
    const Type *few_types[ARGS_FEW], **types = few_types;
    const Value *few_values[ARGS_FEW], **values = few_values;
    Arena scratch;
    arena_init(&scratch, NULL);
    if (n > ARGS_FEW) {
        types = arena_alloc_must(&scratch, n, sizeof *types);
        values = arena_alloc_must(&scratch, n, sizeof *values);
    }
    Value v = value_none();
    uint32_t i = 0;
    for (; i < n && (types[i] = type_of_arg(cx, &args[i])); i++)
        values[i] = &args[i];
    if (i < n) {
        diag_error(cx->diags, E0305_ARGUMENTS, c->span, "argument %u of `%s` is no tensor",
                   (unsigned)i, op->name);
    } else {
        const Type *result = op_eval_type(cx, op, c->attrs, c->span, n, types, values);
        if (result)
            v = eval_typed(c, types, result);
    }
    arena_deinit(&scratch);
    return v;
}

static OpCall call_of(Ctx *cx, const Op *op, const Attrs *attrs, Span span, uint32_t n,
                      const Value *args)
{
    return (OpCall){.cx = cx,
                    .op = op,
                    .attrs = attrs,
                    .span = span,
                    .n = n,
                    .args = args,
                    .out = value_none()};
}

Value op_eval(Ctx *cx, const Op *op, const Attrs *attrs, Span span, uint32_t n, const Value *args)
{
    OpCall c = call_of(cx, op, attrs, span, n, args);
    return eval_call(&c);
}

Value op_eval_last(Ctx *cx, const Op *op, const Attrs *attrs, Span span, uint32_t n,
                   const Value *args)
{
    OpCall c = call_of(cx, op, attrs, span, n, args);
    c.last = true;
    return eval_call(&c);
}
