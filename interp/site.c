/* Operator calls. The tensor program of an operator is built once for the types of its arguments and kept in a table that all call
 * sites share; a site keeps the latest, because what it sees mostly stays the same. */
#include "interp/internal.h"

#include "te/op_eval.h"

#include <string.h>

/* More than this is forgotten all at once. */
#define PROGRAM_BYTES_MOST ((size_t)256 << 10)

/* What is done with an element takes so much less than a step. */
#define OPERATIONS_A_STEP 16

struct OpProgram {
    OpProgram *next; /* in its bucket */
    const Op *op;
    const Attrs *attrs;
    uint32_t n;
    const Type **types; /* of the arguments */
    const TeProgram *te;
    uint64_t work; /* as tier.h counts it */
    bool scalar; /* te_run_scalar takes the arguments as they are */
};

/* ---- the types of arguments -------------------------------------------------------------------- */

static bool tensor_has_type(const Tensor *t, const Type *type)
{
    if (type->kind != TYPE_TENSOR || !dtype_eq(t->dtype, type->dtype) ||
        (uint32_t)t->rank != type->n)
        return false;
    return t->rank == 0 || memcmp(t->shape, type->dims, (size_t)t->rank * sizeof *t->shape) == 0;
}

static bool field_has_type(Value v, const Type *type)
{
    if (v.kind == VALUE_SCALAR)
        return type->kind == TYPE_TENSOR && type->n == 0 && dtype_eq(v.dtype, type->dtype);
    return v.kind == VALUE_TENSOR && tensor_has_type(v.tensor, type);
}

/* Tensors and tuples of tensors are all that an operator with a tensor program takes. */
static bool value_has_type(Value v, const Type *type)
{
    if (v.kind != VALUE_TUPLE)
        return field_has_type(v, type);
    if (type->kind != TYPE_TUPLE || object_n(v.object) != type->n)
        return false;
    for (uint32_t i = 0; i < type->n; i++)
        if (!field_has_type(object_get(v.object, i), type->parts[i]))
            return false;
    return true;
}

static bool values_have_types(uint32_t n, const Value *args, const Type *const *types)
{
    for (uint32_t i = 0; i < n; i++)
        if (!value_has_type(args[i], types[i]))
            return false;
    return true;
}

static const Type *field_type(Ctx *cx, Value v)
{
    if (v.kind == VALUE_SCALAR)
        return type_scalar(cx, v.dtype);
    return v.kind == VALUE_TENSOR ? type_of_tensor(cx, v.tensor) : NULL;
}

static const Type *value_type(Interp *in, Value v)
{
    if (v.kind != VALUE_TUPLE)
        return field_type(in->cx, v);
    uint32_t n = object_n(v.object);
    const Type **parts = arena_new_array(&in->scratch, const Type *, n);
    for (uint32_t i = 0; parts && i < n; i++)
        if (!(parts[i] = field_type(in->cx, object_get(v.object, i))))
            return NULL;
    return parts ? type_tuple(in->cx, n, parts) : NULL;
}

static const Type **value_types(Interp *in, const Step *s, const Value *args)
{
    const Type **types = arena_new_array(&in->scratch, const Type *, s->n);
    for (uint32_t i = 0; types && i < s->n; i++) {
        types[i] = value_type(in, args[i]);
        if (types[i] || limit_hit(&in->cx->limits))
            continue;
        diag_bug(in->cx->diags, s->span, "argument %u of `%s` is no tensor", i + 1, s->op->name);
        return NULL;
    }
    return types;
}

/* ---- programs ---------------------------------------------------------------------------------- */

static size_t bucket_of(const Op *op, uint32_t n, const Type *const *types)
{
    uint64_t h = hash_bytes(&op, sizeof op, 0);
    return hash_bytes(types, n * sizeof *types, h) % PROGRAM_BUCKETS;
}

static bool is_for(const OpProgram *p, const Step *s, const Type *const *types)
{
    if (p->op != s->op || p->n != s->n || memcmp(p->types, types, s->n * sizeof(Type *)) != 0)
        return false;
    return attrs_equal(p->attrs, s->attrs);
}

void programs_clear(Programs *ps)
{
    Limits *limits = ps->arena.limits;
    arena_deinit(&ps->arena);
    arena_init(&ps->arena, limits);
    memset(ps->buckets, 0, sizeof ps->buckets);
    ps->generation++;
}

static OpProgram *program_build(Interp *in, const Step *s, const Type *const *types)
{
    Arena *a = &in->programs.arena;
    if (a->bytes > PROGRAM_BYTES_MOST)
        programs_clear(&in->programs);
    OpProgram *p = arena_new(a, OpProgram);
    *p = (OpProgram){.op = s->op, .n = s->n};
    p->types = arena_copy(a, types, s->n * sizeof *types);
    p->attrs = s->attrs ? attrs_copy(a, s->attrs) : NULL;
    if (!p->types || !p->attrs != !s->attrs)
        return NULL;
    const Type *result = op_eval_type(in->cx, s->op, p->attrs, s->span, s->n, types, NULL);
    if (result)
        p->te = te_of_op(in->cx, a, s->op, p->attrs, s->span, s->n, types, result);
    if (!p->te)
        return NULL;
    p->work = (uint64_t)(te_cost(p->te).operations / OPERATIONS_A_STEP);
    p->scalar = te_is_scalar(p->te) && p->te->n_outputs == 1 && !p->te->tuple &&
                (uint32_t)p->te->n_inputs == s->n;
    for (uint32_t i = 0; i < s->n; i++) /* a tuple of one scalar is none */
        p->scalar = p->scalar && types[i]->kind == TYPE_TENSOR;
    return p;
}

/* The program for arguments of these types: one of the table or a new one. NULL after a diagnostic. */
static const OpProgram *program_at(Interp *in, const Step *s, const Type *const *types)
{
    Programs *ps = &in->programs;
    size_t bucket = bucket_of(s->op, s->n, types);
    OpProgram *p = ps->buckets[bucket];
    while (p && !is_for(p, s, types))
        p = p->next;
    if (p || !(p = program_build(in, s, types)))
        return p;
    p->next = ps->buckets[bucket];
    return ps->buckets[bucket] = p;
}

/* The same for arguments like these, which mostly are such as the site had before. */
static const OpProgram *program_find(Interp *in, Step *s, const Value *args)
{
    OpSite *site = s->site;
    if (site->generation == in->programs.generation &&
        values_have_types(s->n, args, site->latest->types))
        return site->latest;
    const Type **types = value_types(in, s, args);
    const OpProgram *p = types ? program_at(in, s, types) : NULL;
    if (!p)
        return NULL;
    site->latest = p;
    site->generation = in->programs.generation;
    return p;
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
        for (uint32_t k = 0; k < object_n(tuple); k++)
            object_view(tuple, k, out++);
    }
}

static Value tuple_of(Interp *in, int n, Tensor **outputs)
{
    Object *o = object_new(&in->cx->limits, &tuple_info, (uint32_t)n);
    for (int i = 0; i < n; i++) {
        if (o)
            object_set(o, (uint32_t)i, value_tensor(outputs[i]));
        else
            tensor_release(outputs[i]);
    }
    return value_object(o);
}

static Value run_tensors(Interp *in, const TeProgram *te, const Step *s, const Value *args)
{
    TensorView *views = arena_new_array(&in->scratch, TensorView, (size_t)te->n_inputs);
    Tensor **outputs = arena_new_array(&in->scratch, Tensor *, (size_t)te->n_outputs);
    if (!views || !outputs)
        return value_none();
    view_inputs(s->n, args, views);
    if (!te_run(in->cx, te, s->span, views, outputs))
        return value_none();
    return te->tuple ? tuple_of(in, te->n_outputs, outputs) : value_tensor(outputs[0]);
}

/* Whether the types of the arguments say all that a program needs. */
static bool has_program(const Op *op, const Attrs *attrs)
{
    if (!op->compute || op->flags & (OP_SHAPE_FROM_DATA | OP_RESHAPE | OP_NON_COMPUTATIONAL))
        return false;
    for (uint32_t i = 0; attrs && i < attrs->n; i++)
        if (attrs->at[i].value.kind == ATTR_EXPR)
            return false;
    return true;
}

ScalarOp site_scalar(Interp *in, const Step *s, const DType *dtypes)
{
    ScalarOp none = {0};
    if (s->n == 0 || s->n > 2 || !has_program(s->op, s->attrs))
        return none;
    const Type *types[2];
    for (uint32_t i = 0; i < s->n; i++)
        types[i] = type_scalar(in->cx, dtypes[i]);
    Attempt attempt; /* a failure is reported where the evaluation comes there */
    attempt_begin(&attempt, in->cx);
    const OpProgram *found = program_at(in, s, types);
    attempt_end(&attempt, in->cx);
    const TeProgram *p = found && found->scalar ? found->te : NULL;
    if (!p || p->n_inputs != (int)s->n || p->n_stages != 1 || p->stages[0].reduce != TE_NO_REDUCE)
        return none;
    const Te *e = p->stages[0].body;
    /* What is not so is equal to zero. */
    if (s->n == 1 && e->kind == TE_NODE_UNARY && e->op == TE_NOT && dtype_is_bool(e->dtype) &&
        e->a->kind == TE_NODE_LOAD)
        return (ScalarOp){.run = scalar_find(TE_EQ, e->a->dtype),
                          .decides = true,
                          .head = value_head(&(Value){.kind = VALUE_SCALAR, .dtype = e->dtype})};
    if (s->n != 2 || e->kind != TE_NODE_BINARY || e->a->kind != TE_NODE_LOAD ||
        e->b->kind != TE_NODE_LOAD || e->a->tensor + e->b->tensor != 1 ||
        e->a->tensor * e->b->tensor != 0)
        return none;
    return (ScalarOp){.run = scalar_find((TeOp)e->op, e->a->dtype),
                      .decides = dtype_is_bool(e->dtype),
                      .swapped = e->a->tensor == 1,
                      .head = value_head(&(Value){.kind = VALUE_SCALAR, .dtype = e->dtype})};
}

Value site_run(Interp *in, Step *s)
{
    Value *args = in->args;
    for (uint32_t i = 0; i < s->n; i++)
        args[i] = *operand_at(in, s->args[i]);
    if (s->op->attrs && !s->attrs) { /* as a value it has none; only its call is wrong */
        attrs_check(in->cx, &in->scratch, s->op->name, s->op->attrs, NULL, s->span);
        return value_none();
    }
    if (!has_program(s->op, s->attrs))
        return (s->n > 0 && s->args[0].last ? op_eval_last : op_eval)(in->cx, s->op, s->attrs,
                                                                      s->span, s->n, args);
    ArenaMark mark = arena_mark(&in->scratch);
    const OpProgram *p = program_find(in, s, args);
    Value v = value_none();
    if (p && p->scalar)
        v = te_run_scalar(in->cx, p->te, s->span, args);
    else if (p)
        v = run_tensors(in, p->te, s, args);
    if (p && p->work && in->frame->tally)
        tally_work(in, in->frame->tally, p->work);
    arena_reset(&in->scratch, mark);
    return v;
}
