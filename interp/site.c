/* Operator calls. A place in the program that calls an operator sees mostly the same dtypes and shapes, so it keeps the tensor
 * programs of the latest few. */
#include "interp/internal.h"

#include <stdlib.h>
#include <string.h>

#define ENTRIES_MOST 8

/* A program for arguments of certain types. */
typedef struct OpEntry OpEntry;
struct OpEntry {
    OpEntry *next;
    Arena arena;
    const Type **types; /* of the arguments */
    const TeProgram *program;
    bool scalar;
};

/* ---- the types of arguments -------------------------------------------------------------------- */

static bool tensor_has_type(const Tensor *t, const Type *type)
{
    if (type->kind != TYPE_TENSOR || !dtype_eq(t->dtype, type->dtype) ||
        (uint32_t)t->rank != type->n)
        return false;
    return t->rank == 0 || memcmp(t->shape, type->dims, (size_t)t->rank * sizeof *t->shape) == 0;
}

/* Tensors and tuples of tensors, which is all that an operator with a tensor program takes. */
static bool value_has_type(Value v, const Type *type)
{
    if (v.kind == VALUE_SCALAR)
        return type->kind == TYPE_TENSOR && type->n == 0 && dtype_eq(v.dtype, type->dtype);
    if (v.kind == VALUE_TENSOR)
        return tensor_has_type(v.tensor, type);
    if (v.kind != VALUE_TUPLE || type->kind != TYPE_TUPLE || v.object->n != type->n)
        return false;
    for (uint32_t i = 0; i < type->n; i++) {
        Value field = v.object->fields[i];
        if (field.kind == VALUE_TUPLE || !value_has_type(field, type->parts[i]))
            return false;
    }
    return true;
}

static const Type *tensor_value_type(Ctx *cx, Value v)
{
    if (v.kind == VALUE_SCALAR)
        return type_scalar(cx, v.dtype);
    return v.kind == VALUE_TENSOR ? type_of_tensor(cx, v.tensor) : NULL;
}

/* NULL for what has no tensor type. */
static const Type *value_type(Interp *in, Value v)
{
    if (v.kind != VALUE_TUPLE)
        return tensor_value_type(in->cx, v);
    const Type **parts = arena_new_array(&in->scratch, const Type *, v.object->n);
    for (uint32_t i = 0; parts && i < v.object->n; i++)
        if (!(parts[i] = tensor_value_type(in->cx, v.object->fields[i])))
            return NULL;
    return parts ? type_tuple(in->cx, v.object->n, parts) : NULL;
}

/* ---- entries ----------------------------------------------------------------------------------- */

static void entry_free(OpEntry *e)
{
    arena_deinit(&e->arena);
    free(e);
}

void site_deinit(OpSite *site)
{
    for (OpEntry *e = site->entries, *next; e; e = next) {
        next = e->next;
        entry_free(e);
    }
}

static OpEntry *entry_find(OpSite *site, uint32_t n, const Value *args)
{
    for (OpEntry **at = &site->entries; *at; at = &(*at)->next) {
        OpEntry *e = *at;
        uint32_t i = 0;
        while (i < n && value_has_type(args[i], e->types[i]))
            i++;
        if (i < n)
            continue;
        *at = e->next;
        e->next = site->entries;
        return site->entries = e;
    }
    return NULL;
}

static void entry_add(OpSite *site, OpEntry *e)
{
    e->next = site->entries;
    site->entries = e;
    if (++site->n_entries <= ENTRIES_MOST)
        return;
    OpEntry *before = e;
    while (before->next->next)
        before = before->next;
    entry_free(before->next);
    before->next = NULL;
    site->n_entries--;
}

/* What makes an operator independent of the values of its arguments. */
static bool has_program(const Op *op)
{
    return op->compute && !(op->flags & (OP_SHAPE_FROM_DATA | OP_RESHAPE | OP_NON_COMPUTATIONAL));
}

static uint64_t head_of(const Value *v)
{
    uint64_t head;
    memcpy(&head, v, sizeof head);
    return head;
}

/* A program that is one operation on its two inputs, both scalars, runs without the program. */
static void note_fast(OpSite *site, const TeProgram *p, const Value *args)
{
    if (p->n_inputs != 2 || p->n_stages != 1 || p->stages[0].reduce != TE_NO_REDUCE)
        return;
    const Te *e = p->stages[0].body;
    if (e->kind != TE_NODE_BINARY || e->a->kind != TE_NODE_LOAD || e->b->kind != TE_NODE_LOAD ||
        e->a->tensor + e->b->tensor != 1 || e->a->tensor * e->b->tensor != 0)
        return;
    site->fast = scalar_find((TeOp)e->op, e->a->dtype);
    site->swapped = e->a->tensor == 1;
    site->heads[0] = head_of(&args[0]);
    site->heads[1] = head_of(&args[1]);
    site->out_head = head_of(&(Value){.kind = VALUE_SCALAR, .dtype = e->dtype});
}

static OpEntry *entry_build(Interp *in, Step *s, uint32_t n, const Value *args)
{
    OpEntry *e = calloc(1, sizeof *e);
    if (!e) {
        limit_reach(&in->cx->limits, LIMIT_MEMORY);
        return NULL;
    }
    arena_init(&e->arena, &in->cx->limits);
    const Type *result = NULL;
    e->types = arena_new_array(&e->arena, const Type *, n);
    uint32_t i = 0;
    while (e->types && i < n && (e->types[i] = value_type(in, args[i])))
        i++;
    if (e->types && i < n)
        diag_bug(in->cx->diags, s->span, "argument %u of `%s` is no tensor", i + 1, s->op->name);
    else if (e->types)
        result = op_type(in->cx, s->op, s->attrs, s->span, n, e->types, NULL);
    if (result)
        e->program = te_of_op(in->cx, &e->arena, s->op, s->attrs, s->span, n, e->types, result);
    if (!e->program) {
        entry_free(e);
        return NULL;
    }
    e->scalar = te_is_scalar(e->program) && e->program->n_outputs == 1 && !e->program->tuple;
    if (e->scalar && n == 2)
        note_fast(s->site, e->program, args);
    return e;
}

/* ---- running ----------------------------------------------------------------------------------- */

/* Tuples are flattened. */
static void view_inputs(uint32_t n, const Value *args, TensorView *out)
{
    for (uint32_t i = 0; i < n; i++) {
        if (args[i].kind != VALUE_TUPLE) {
            value_view(&args[i], out++);
            continue;
        }
        const Object *tuple = args[i].object;
        for (uint32_t k = 0; k < tuple->n; k++)
            value_view(&tuple->fields[k], out++);
    }
}

static Value tuple_of(Interp *in, int n, Tensor **outputs)
{
    Object *o = object_new(&in->cx->limits, &tuple_info, (uint32_t)n);
    for (int i = 0; i < n; i++) {
        if (o)
            o->fields[i] = value_tensor(outputs[i]);
        else
            tensor_release(outputs[i]);
    }
    return value_object(o);
}

static Value program_run(Interp *in, const TeProgram *p, Span span, uint32_t n, const Value *args)
{
    TensorView *views = arena_new_array(&in->scratch, TensorView, (size_t)p->n_inputs);
    Tensor **outputs = arena_new_array(&in->scratch, Tensor *, (size_t)p->n_outputs);
    if (!views || !outputs)
        return value_none();
    view_inputs(n, args, views);
    if (!te_run(in->cx, p, span, views, outputs))
        return value_none();
    return p->tuple ? tuple_of(in, p->n_outputs, outputs) : value_tensor(outputs[0]);
}

Value site_run(Interp *in, Step *s)
{
    Value *args = in->args;
    for (uint32_t i = 0; i < s->n; i++)
        args[i] = *operand_at(in, s->args[i]);
    if (!has_program(s->op))
        return op_eval(in->cx, s->op, s->attrs, s->span, s->n, args);
    OpEntry *e = entry_find(s->site, s->n, args);
    ArenaMark mark = arena_mark(&in->scratch);
    if (!e && (e = entry_build(in, s, s->n, args)))
        entry_add(s->site, e);
    Value v = value_none();
    if (e && e->scalar && s->n == (uint32_t)e->program->n_inputs)
        v = te_run_scalar(in->cx, e->program, s->span, args);
    else if (e)
        v = program_run(in, e->program, s->span, s->n, args);
    arena_reset(&in->scratch, mark);
    return v;
}
