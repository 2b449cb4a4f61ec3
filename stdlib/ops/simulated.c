/* Quantisation told by reals: what whole numbers of a scale would lose. */
#include "stdlib/ops/qnn.h"

static const DType float32_dtype = {DTYPE_CODE_FLOAT, 32, 1};

#define SHAPES_rel_simulated "(d...), 3 parameters -> (d...)"
/* Like data; the code of the type is an int32, scale and zero point are float32 and int32 or stay reals. */
static RelResult rel_simulated(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    bool good;
    if (!t)
        return rel_blocked(r);
    Dim extent = quant_extent(r, t, &good);
    for (uint32_t i = 2; good && i < 4; i++) {
        const Type *p = rel_tensor(r, i);
        if (!p)
            return rel_blocked(r);
        good = p->n == 0 || (p->n == 1 && (p->dims[0] == 1 || dim_agrees(p->dims[0], extent)));
        if (!good)
            rel_error(r, E0202_SHAPE, (int)i,
                      "`%s` of `%s` must be a scalar, or one for each channel", r->op->args[i].name,
                      r->op->name);
    }
    return good ? rel_set_output(r, t) : REL_FAILED;
}

/* The code says which integers are meant: 0 none (the data stay as they are), 1 int8, 2 uint8, 3 int32. */
static void compute_simulated_quantize(TeBuilder *b)
{
    static const double ends[][2] = {{-128, 127}, {0, 255}, {-2147483648.0, 2147483647.0}};
    TeTensor x = te_input(b, 0);
    int axis = quant_axis(b, x.rank);
    Te *v = ops_at_axes(b, x), *code = quant_scalar(b, 1);
    Te *q = te_unary(b, TE_ROUND,
                     te_binary(b, TE_DIV, v, quant_parameter(b, te_input(b, 2), axis, x.dtype)));
    q = te_binary(b, TE_ADD, q, quant_parameter(b, te_input(b, 3), axis, x.dtype));
    Te *body = v;
    for (int i = 0; i < 3; i++) {
        Te *in = te_binary(b, TE_MAX, te_binary(b, TE_MIN, q, te_number(b, x.dtype, ends[i][1])),
                           te_number(b, x.dtype, ends[i][0]));
        body = te_select(b, te_binary(b, TE_EQ, code, te_int(b, i + 1)), in, body);
    }
    ops_emit(b, body);
}

static void compute_simulated_dequantize(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int axis = quant_axis(b, x.rank);
    Te *v = ops_at_axes(b, x);
    Te *real = te_binary(b, TE_SUB, v, quant_parameter(b, te_input(b, 3), axis, x.dtype));
    real = te_binary(b, TE_MUL, real, quant_parameter(b, te_input(b, 2), axis, x.dtype));
    ops_emit(b, te_select(b, te_binary(b, TE_EQ, quant_scalar(b, 1), te_int(b, 0)), v, real));
}

/* To the nearest multiple of the scale within the bounds; kind 0 means that the data stay as they are. */
static void compute_annotated(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    Te *p[3], *v = ops_at_axes(b, x);
    for (int i = 0; i < 3; i++)
        p[i] = te_cast(b, x.dtype, ops_scalar(b, te_input(b, i + 1)));
    Te *q = te_unary(b, TE_ROUND, te_binary(b, TE_DIV, v, p[0]));
    q = te_binary(b, TE_MAX, te_binary(b, TE_MIN, q, p[2]), p[1]);
    ops_emit(b, attrs_int(b->attrs, "kind", 0) ? te_binary(b, TE_MUL, q, p[0]) : v);
}

static RelResult rel_annotated(Rel *r)
{
    for (uint32_t i = 1; i < 4; i++)
        if (!rel_set_tensor(r, i, float32_dtype, 0, NULL))
            return REL_FAILED;
    return rel_same_float(r);
}

/* ---- rows ---------------------------------------------------------------------------------------- */

static const OpArg simulated_args[] = {{"data", "reals"},
                                       {"dtype", "0: none, 1: int8, 2: uint8, 3: int32"},
                                       {"scale", "a scalar, or one for each channel"},
                                       {"zero_point", "a scalar, or one for each channel"},
                                       {0}};

static const OpArg annotated_args[] = {{"data", "reals"},
                                       {"dom_scale", "what a unit stands for: a scalar"},
                                       {"clip_min", "the least whole number: a scalar"},
                                       {"clip_max", "the greatest whole number: a scalar"},
                                       {0}};
static const OpAttr annotated_attrs[] = {
    ATTR_MUST("kind", INT, "0: nothing, 1: input, 2: weight, 3: activation"),
    ATTR_B("sign", 1, "whole numbers have a sign"),
    ATTR_S("rounding", "round", "unused"),
    {0}};

static const OpAttr simulated_attrs[] = {CHANNELS, {0}};

#define ROW(NAME, ID, DOC)                                                    \
    OP_ROW(NAME, simulated_args, simulated_attrs, OP_ELEMWISE, rel_simulated, \
           "(float32[4], int32, float32, int32)", DOC, .flags = OP_QUANTISED, \
           .shapes = SHAPES_rel_simulated, .compute = compute_##ID)

const Op simulated_ops[] = {
    ROW("qnn.simulated_quantize", simulated_quantize,
        "What `qnn.quantize` does, with reals that are whole numbers."),
    ROW("qnn.simulated_dequantize", simulated_dequantize,
        "What `qnn.dequantize` does, of reals that are whole numbers."),
    {.name = "relay.op.annotation.simulated_quantize",
     .doc = "What quantisation would make of reals: multiples of a scale within bounds.",
     .args = annotated_args,
     .attrs = annotated_attrs,
     .shapes = "(d...), (), (), () -> (d...)",
     .samples = "(float32[4], float32, float32, float32, kind=1)",
     .pattern = OP_ELEMWISE,
     .rel = rel_annotated,
     .compute = compute_annotated},
    {0},
};
