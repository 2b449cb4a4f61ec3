/* Steps of optimisers: a rate, how many steps there were, and then all tensors, all their gradients, and what is kept of each. */
#include "exchange/onnx_rules.h"

#include <string.h>

typedef struct Step {
    OnnxNode *n;
    DType t; /* of the tensor */
    const char *rate, *x, *slope; /* the gradient with what keeps the tensor small */
    const char *kept[2];
} Step;

/* An attribute as a number of the tensor's type, and 1 less it. */
static const char *number(const Step *s, const char *name, double otherwise)
{
    return onnx_literal(s->n, onnx_attr_float(s->n, name, otherwise), s->t);
}

static const char *rest(const Step *s, const char *name)
{
    return onnx_literal(s->n, 1 - onnx_attr_float(s->n, name, 0), s->t);
}

/* The first value behind the first step, else the second. */
static const char *later(const Step *s, const char *behind, const char *first)
{
    return onnx_text(s->n, "where(greater(%s, %s), %s, %s)", onnx_in(s->n, 1),
                     onnx_literal(s->n, 0, onnx_in_dtype(s->n, 1)), behind, first);
}

static const char *steps_so_far(const Step *s)
{
    return onnx_scalar_as(s->n, 1, s->t);
}

static const char *step_momentum(Step *s)
{
    OnnxNode *n = s->n;
    const char *share = later(s, number(s, "beta", 0), onnx_literal(n, 1, s->t));
    s->kept[0] = onnx_step(n, "add(multiply(%s, %s), multiply(%s, %s))", number(s, "alpha", 0),
                           s->kept[0], share, s->slope);
    const char *way = s->kept[0];
    if (!strcmp(onnx_attr_text(n, "mode", "standard"), "nesterov"))
        way = onnx_text(n, "add(%s, multiply(%s, %s))", s->slope, number(s, "alpha", 0), way);
    return onnx_text(n, "subtract(%s, multiply(%s, %s))", s->x, s->rate, way);
}

static const char *step_adagrad(Step *s)
{
    OnnxNode *n = s->n;
    const char *rate =
        onnx_text(n, "divide(%s, add(%s, multiply(%s, %s)))", s->rate, onnx_literal(n, 1, s->t),
                  steps_so_far(s), number(s, "decay_factor", 0));
    s->kept[0] = onnx_step(n, "add(%s, multiply(%s, %s))", s->kept[0], s->slope, s->slope);
    return onnx_text(n, "subtract(%s, divide(multiply(%s, %s), add(sqrt(%s), %s)))", s->x, rate,
                     s->slope, s->kept[0], number(s, "epsilon", 1e-6));
}

static const char *step_adam(Step *s)
{
    OnnxNode *n = s->n;
    const char *one = onnx_literal(n, 1, s->t), *far = steps_so_far(s);
    const char *alpha = number(s, "alpha", 0.9), *beta = number(s, "beta", 0.999);
    const char *even = onnx_text(
        n, "divide(multiply(%s, sqrt(subtract(%s, power(%s, %s)))), subtract(%s, power(%s, %s)))",
        s->rate, one, beta, far, one, alpha, far);
    s->kept[0] = onnx_step(n, "add(multiply(%s, %s), multiply(%s, %s))", alpha, s->kept[0],
                           onnx_literal(n, 1 - onnx_attr_float(n, "alpha", 0.9), s->t), s->slope);
    s->kept[1] =
        onnx_step(n, "add(multiply(%s, %s), multiply(%s, multiply(%s, %s)))", beta, s->kept[1],
                  onnx_literal(n, 1 - onnx_attr_float(n, "beta", 0.999), s->t), s->slope, s->slope);
    return onnx_text(n, "multiply(%s, subtract(%s, multiply(%s, divide(%s, add(sqrt(%s), %s)))))",
                     rest(s, "norm_coefficient_post"), s->x, later(s, even, s->rate), s->kept[0],
                     s->kept[1], number(s, "epsilon", 1e-6));
}

static const struct StepRow {
    const char *name;
    size_t keeps;
    const char *(*step)(Step *s);
} rows[] = {
    {"Momentum", 1, step_momentum},
    {"Adagrad", 1, step_adagrad},
    {"Adam", 2, step_adam},
};

void rule_optimiser(OnnxNode *n)
{
    enum { TENSORS_MOST = 256 };
    const struct StepRow *row = rows;
    while (strcmp(row->name, n->word) != 0)
        row++;
    size_t given = n->proto->n_input, each = row->keeps + 2;
    size_t count = given > 2 ? (given - 2) / each : 0;
    if (count == 0 || count > TENSORS_MOST || given != 2 + count * each) {
        onnx_refuse(n, "%zu inputs", given);
        return;
    }
    const char *out[3][TENSORS_MOST];
    for (size_t i = 0; i < count; i++) {
        Step s = {.n = n, .t = onnx_in_dtype(n, 2 + i), .x = onnx_in(n, 2 + i)};
        s.rate = onnx_scalar_as(n, 0, s.t);
        s.slope = onnx_step(n, "add(multiply(%s, %s), %s)", number(&s, "norm_coefficient", 0), s.x,
                            onnx_in(n, 2 + count + i));
        for (size_t k = 0; k < row->keeps; k++)
            s.kept[k] = onnx_in(n, 2 + (2 + k) * count + i);
        out[0][i] = onnx_step(n, "%s", row->step(&s));
        for (size_t k = 0; k < row->keeps; k++)
            out[1 + k][i] = s.kept[k];
    }
    for (size_t k = 0; k <= row->keeps; k++)
        for (size_t i = 0; i < count; i++)
            onnx_give(n, out[k][i]);
}
