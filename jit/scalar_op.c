/* Operators on rank-0 tensors: the operator's tensor expression, whose stages have one element each, as code in registers. */
#include "te/te.h"
#include "jit/internal.h"

typedef struct ScalarOp {
    Fn *f;
    Span span;
    Ssa *tensors; /* by id */
    PtrMap done; /* Te -> Ssa */
    Lanes lanes;
} ScalarOp;

static void fault(void *data, Ssa bad, const char *report)
{
    ScalarOp *s = data;
    Fn *f = s->f;
    Gen *g = f->g;
    LLVMBasicBlockRef fail = gen_block(g, f->fn, "fault"), go = gen_block(g, f->fn, "go");
    gen_branch(g, bad, fail, go, false);
    LLVMPositionBuilderAtEnd(g->b, fail);
    Ssa args[4] = {f->state};
    gen_span(g, s->span, args + 1);
    gen_call_abi(g, report, args, 4);
    fn_leave(f);
    LLVMPositionBuilderAtEnd(g->b, go);
}

/* Expressions of one operator on scalars are a few nodes deep. */
static Ssa expression(ScalarOp *s, const Te *e)
{
    Ssa v = ptrmap_find(&s->done, e);
    if (v)
        return v;
    const Lanes *l = &s->lanes;
    switch ((TeKind)e->kind) {
    case TE_NODE_CONST: v = lanes_const(l, e->value); break;
    case TE_NODE_AXIS: v = gen_int(l->g->i64, 0); break;
    case TE_NODE_LOAD: v = s->tensors[e->tensor]; break;
    case TE_NODE_UNARY: v = lanes_unary(l, e->op, e->a->dtype, expression(s, e->a)); break;
    case TE_NODE_BINARY: {
        Ssa a = expression(s, e->a);
        v = lanes_binary(l, e->op, e->a->dtype, a, expression(s, e->b));
        break;
    }
    case TE_NODE_CAST: v = lanes_cast(l, e->dtype, e->a->dtype, expression(s, e->a)); break;
    case TE_NODE_SELECT: {
        Ssa a = expression(s, e->a), b = expression(s, e->b);
        v = LLVMBuildSelect(l->g->b, a, b, expression(s, e->c), "");
        break;
    }
    }
    ptrmap_put(&s->done, e, v);
    return v;
}

/* Whether the program is code in registers: every tensor of rank 0, no reduction. */
static bool is_plain(const TeProgram *p)
{
    for (int i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].rank > 0)
            return false;
    for (int i = 0; i < p->n_stages; i++)
        if (p->stages[i].rank > 0 || p->stages[i].reduce != TE_NO_REDUCE)
            return false;
    return p->n_outputs == 1 && !p->tuple;
}

Ssa fn_scalar_op(Fn *f, const Op *op, const Attrs *attrs, Span span, uint32_t n,
                 const Type *const *types, Ssa *args, const Type *result)
{
    Gen *g = f->g;
    bool scalars = op->compute && repr_of(result).kind == REPR_SCALAR;
    for (uint32_t i = 0; i < n; i++)
        scalars &= repr_of(types[i]).kind == REPR_SCALAR;
    if (!scalars)
        return NULL;
    TeProgram *p = te_of_op(g->cx, g->arena, op, attrs, span, n, types, result);
    if (!p) {
        g->failed = true;
        return NULL;
    }
    if (!is_plain(p))
        return NULL;
    ScalarOp s = {.f = f, .span = span, .lanes = {.g = g, .n = 1, .fault = fault}};
    s.lanes.data = &s;
    s.tensors = arena_new_array(g->arena, Ssa, (size_t)(p->n_inputs + p->n_stages) + 1);
    for (uint32_t i = 0; i < n; i++)
        s.tensors[i] = args[i];
    for (int i = 0; i < p->n_stages; i++)
        s.tensors[p->n_inputs + i] = expression(&s, p->stages[i].body);
    Ssa v = s.tensors[p->outputs[0]];
    ptrmap_deinit(&s.done);
    return v;
}
