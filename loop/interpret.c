/* Nests run as they are written, one element at a time. */
#include "loop/nest.h"
#include "te/loops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Run {
    Nest *n;
    char **memory; /* by buffer */
    int64_t *var;
    bool failed;
} Run;

typedef union Element {
    uint64_t bits;
    double d;
    float f;
    int64_t i;
    char bytes[8];
} Element;

static Element eval(Run *r, const Te *e);

static int64_t eval_index(Run *r, const Te *e)
{
    return eval(r, e).i;
}

static char *element_at(const Run *r, int buffer, int64_t at)
{
    return r->memory[buffer] + (size_t)at * dtype_size(r->n->buffers.at[buffer].dtype);
}

static Element eval_load(Run *r, const Te *e)
{
    const NestBuffer *b = &r->n->buffers.at[e->tensor];
    int64_t at = 0;
    bool flat = e->n == 1 && !e->otherwise, inside = true;
    if (flat)
        at = eval_index(r, e->index[0]);
    for (int i = 0; i < e->n && !flat; i++) {
        int64_t v = eval_index(r, e->index[i]);
        inside = inside && v >= 0 && v < b->shape[i];
        at = at * b->shape[i] + v;
    }
    if (!inside && e->otherwise)
        return eval(r, e->otherwise);
    Element out = {0};
    if (!inside || at < 0 || at >= b->size)
        r->failed = true;
    else
        memcpy(out.bytes, element_at(r, e->tensor, at), dtype_size(b->dtype));
    return out;
}

static Element eval(Run *r, const Te *e)
{
    Element out = {0}, a, b;
    DTypeId id = dtype_id(e->dtype);
    switch ((TeKind)e->kind) {
    case TE_NODE_CONST: memcpy(out.bytes, &e->value.bits, dtype_size(e->dtype)); break;
    case TE_NODE_AXIS: out.i = r->var[e->axis]; break;
    case TE_NODE_LOAD: return eval_load(r, e);
    case TE_NODE_UNARY:
        a = eval(r, e->a);
        te_loop_unary((TeOp)e->op, dtype_id(e->a->dtype), out.bytes, a.bytes, 1);
        break;
    case TE_NODE_BINARY:
        a = eval(r, e->a);
        b = eval(r, e->b);
        if (te_loop_fault((TeOp)e->op, dtype_id(e->a->dtype), b.bytes, 1))
            r->failed = true;
        else
            te_loop_binary((TeOp)e->op, dtype_id(e->a->dtype), out.bytes, a.bytes, b.bytes, 1);
        break;
    case TE_NODE_CAST:
        a = eval(r, e->a);
        te_loop_cast(id, dtype_id(e->a->dtype), out.bytes, a.bytes, 1);
        break;
    case TE_NODE_SELECT: return eval(r, e->a).bytes[0] ? eval(r, e->b) : eval(r, e->c);
    }
    return out;
}

static bool is_nan(DType t, const char *at)
{
    Value v = {.kind = VALUE_SCALAR, .dtype = t};
    memcpy(&v.bits, at, dtype_size(t));
    return dtype_is_float(t) && isnan(value_as_double(v));
}

static void run_statement(Run *r, const NestNode *s)
{
    int64_t at = eval_index(r, s->at);
    if (at < 0 || at >= r->n->buffers.at[s->buffer].size) {
        r->failed = true;
        return;
    }
    Element v = eval(r, s->value);
    char *to = element_at(r, s->buffer, at);
    DTypeId id = dtype_id(s->value->dtype);
    if (s->kind == NEST_STORE)
        memcpy(to, v.bytes, dtype_size(s->value->dtype));
    else if (nest_is_position(s->fold))
        te_loop_fold_many_at(s->fold, id, element_at(r, s->winner, at), (int64_t *)(void *)to,
                             v.bytes, eval_index(r, s->number), 1);
    else if (!s->keeps_nan || !is_nan(s->value->dtype, to))
        te_loop_fold_many(s->fold, id, to, v.bytes, 1);
}

static double number_at(const Run *r, int buffer, int64_t at)
{
    DType t = r->n->buffers.at[buffer].dtype;
    Value v = {.kind = VALUE_SCALAR, .dtype = t};
    memcpy(&v.bits, element_at(r, buffer, at), dtype_size(t));
    return value_as_double(v);
}

static void run_product(const Run *r, const NestNode *s)
{
    const NestProduct *p = &s->product;
    DType t = r->n->buffers.at[s->buffer].dtype;
    for (int64_t b = 0; b < p->batch.extent; b++)
        for (int64_t i = 0; i < p->m.extent; i++)
            for (int64_t j = 0; j < p->n.extent; j++) {
                double sum = 0;
                int64_t a0 = p->a_from + b * p->batch.a + i * p->m.a;
                int64_t b0 = p->b_from + b * p->batch.b + j * p->n.b;
                for (int64_t k = 0; k < p->k.extent; k++)
                    sum +=
                        number_at(r, p->a, a0 + k * p->k.a) * number_at(r, p->b, b0 + k * p->k.b);
                Value v = value_scalar_double(t, sum);
                int64_t at = b * p->batch.c + i * p->m.c + j * p->n.c;
                memcpy(element_at(r, s->buffer, at), &v.bits, dtype_size(t));
            }
}

static void run_block(Run *r, const NestBlock *block)
{
    for (size_t i = 0; i < block->n && !r->failed; i++) {
        const NestNode *s = block->at[i];
        if (s->kind == NEST_PRODUCT) {
            run_product(r, s);
        } else if (s->kind == NEST_LOOP) {
            for (r->var[s->var] = 0; r->var[s->var] < s->extent && !r->failed; r->var[s->var]++)
                run_block(r, &s->body);
        } else if (s->kind == NEST_IF_NAN) {
            if (is_nan(r->n->buffers.at[s->buffer].dtype,
                       element_at(r, s->buffer, eval_index(r, s->at))))
                run_block(r, &s->body);
        } else {
            run_statement(r, s);
        }
    }
}

static void release_tensor(void *t)
{
    tensor_release(t);
}

/* What is known when code is made is computed now. */
static char *constant_memory(Run *r, const NestBuffer *b)
{
    TensorView *views = arena_new_array(r->n->arena, TensorView, (size_t)b->made->n_inputs + 1);
    Tensor *out = NULL;
    for (int i = 0; i < b->made->n_inputs; i++)
        views[i].t = *b->from[i];
    r->failed |= !te_run(r->n->te.cx, b->made, (Span){0}, views, &out);
    if (!out)
        return NULL;
    arena_on_free(r->n->arena, release_tensor, out);
    return out->data;
}

bool nest_run(Nest *n, char *const *memory)
{
    Run r = {.n = n};
    r.memory = arena_alloc_must(n->arena, n->buffers.n + 1, sizeof *r.memory);
    r.var = arena_alloc_must(n->arena, n->vars.n + 1, sizeof *r.var);
    for (size_t i = 0; i < n->buffers.n; i++) {
        const NestBuffer *b = &n->buffers.at[i];
        bool own = b->place == NEST_LOCAL || b->place == NEST_REGISTER;
        r.memory[i] = b->place == NEST_CONSTANT ? constant_memory(&r, b)
                      : own                     ? arena_alloc_must(n->arena, (size_t)b->size + 1, 8)
                                                : memory[i];
    }
    if (!r.failed)
        run_block(&r, &n->root);
    return !r.failed;
}
