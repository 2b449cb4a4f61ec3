/* Recurrent layers: the products with the input once for all steps, then a function that calls itself with the state. */
#include "exchange/onnx.h"

#include <string.h>

typedef struct Layer {
    OnnxNode *n;
    int gates; /* in the weights: 4 of LSTM, 3 of GRU, 1 of RNN */
    int64_t hidden, steps; /* -1: known at run time only */
    const char *count; /* of steps: int64 */
    const char *x; /* steps, batch, features */
    DType dtype;
    int directions, now; /* the one that is being written */
} Layer;

/* ---- activations ------------------------------------------------------------------------------------------------------------ */

/* `$` is the argument, `a` and `b` the two parameters. */
static const struct Activation {
    const char *name;
    const char *text;
    double alpha, beta;
} activations[] = {
    {"Sigmoid", "sigmoid($)", 0, 0},
    {"Tanh", "tanh($)", 0, 0},
    {"Relu", "nn.relu($)", 0, 0},
    {"Affine", "add(multiply(#a, $), #b)", 1, 0},
    {"LeakyRelu", "where(less($, #0), multiply(#a, $), $)", 0.01, 0},
    {"ThresholdedRelu", "where(greater($, #a), $, zeros_like($))", 1, 0},
    {"ScaledTanh", "multiply(#a, tanh(multiply(#b, $)))", 1, 1},
    {"HardSigmoid", "clip(add(multiply(#a, $), #b), a_min=0f, a_max=1f)", 0.2, 0.5},
    {"Elu", "where(less($, #0), multiply(#a, subtract(exp($), #1)), $)", 1, 0},
    {"Softsign", "divide($, add(#1, abs($)))", 0, 0},
    {"Softplus", "add(maximum($, #0), log(add(exp(negative(abs($))), #1)))", 0, 0},
};

/* Attributes list the activations of both directions. */
static const char *activation_name(Layer *l, size_t k, const char *otherwise)
{
    const Onnx__AttributeProto *a = onnx_attr(l->n, "activations");
    if (!a || k >= a->n_strings)
        return otherwise;
    return onnx_text(l->n, "%.*s", (int)a->strings[k].len, (const char *)a->strings[k].data);
}

static double activation_number(Layer *l, const char *list, size_t k, double otherwise)
{
    const Onnx__AttributeProto *a = onnx_attr(l->n, list);
    return a && k < a->n_floats ? (double)a->floats[k] : otherwise;
}

/* Activation number `which` of `all` in a direction, applied. */
static const char *activate(Layer *l, int which, int all, const char *otherwise, const char *x)
{
    size_t k = (size_t)(l->now * all + which);
    const char *name = activation_name(l, k, otherwise);
    const struct Activation *found = NULL;
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (!strcmp(activations[i].name, name))
            found = &activations[i];
    if (!found) {
        onnx_refuse(l->n, "the activation `%s`", name);
        return x;
    }
    if (onnx_has_attr(l->n, "clip"))
        x = onnx_text(l->n, "clip(%s, a_min=%s, a_max=%s)", x,
                      onnx_literal(l->n, -onnx_attr_float(l->n, "clip", 0), dtype_of(DT_FLOAT32)),
                      onnx_literal(l->n, onnx_attr_float(l->n, "clip", 0), dtype_of(DT_FLOAT32)));
    x = strlen(found->text) > strlen("sigmoid($)") ? onnx_let(l->n, x) : x;
    Buf b = {0};
    for (const char *p = found->text; *p; p++) {
        if (*p == '$')
            buf_str(&b, x);
        else if (*p != '#')
            buf_char(&b, *p);
        else if (*++p == 'a')
            buf_str(&b,
                    onnx_literal(l->n, activation_number(l, "activation_alpha", k, found->alpha),
                                 l->dtype));
        else if (*p == 'b')
            buf_str(&b, onnx_literal(l->n, activation_number(l, "activation_beta", k, found->beta),
                                     l->dtype));
        else
            buf_str(&b, onnx_literal(l->n, *p - '0', l->dtype));
    }
    const char *y = onnx_step(l->n, "%s", buf_text(&b));
    buf_deinit(&b);
    return y;
}

/* ---- one step --------------------------------------------------------------------------------------------------------------- */

static const char *direction_of(Layer *l, size_t input)
{
    const char *x = onnx_in(l->n, input);
    return l->directions == 1 ? onnx_text(l->n, "squeeze(%s, axis=[0])", x)
                              : onnx_text(l->n, "take(%s, %di64, axis=0)", x, l->now);
}

/* Part `k` of what lies along the last axis. */
static const char *part(Layer *l, const char *x, int axis, int k)
{
    return onnx_text(l->n, "strided_slice(%s, begin=[%lld], end=[%lld], strides=[1], axes=[%d])", x,
                     (long long)(k * l->hidden), (long long)((k + 1) * l->hidden), axis);
}

/* Weights and biases of a direction, taken before the turns. */
typedef struct Weights {
    const char *x; /* the products with the input, and biases */
    const char *r, *reset_r, *reset_bias; /* GRU: those of the new state, apart */
    const char *peep[3];
    const char *lengths;
} Weights;

static const char *step_rnn(Layer *l, const Weights *w, const char *x, const char *h)
{
    const char *a = onnx_text(l->n, "add(%s, nn.dense(%s, %s, units=None))", x, h, w->r);
    return activate(l, 0, 1, "Tanh", a);
}

static const char *step_gru(Layer *l, const Weights *w, const char *x, const char *h)
{
    OnnxNode *n = l->n;
    const char *g = onnx_step(n, "add(%s, nn.dense(%s, %s, units=None))", part(l, x, 1, 0), h,
                              part(l, w->r, 0, 0));
    const char *z = activate(l, 0, 2, "Sigmoid", g);
    g = onnx_step(n, "add(%s, nn.dense(%s, %s, units=None))", part(l, x, 1, 1), h,
                  part(l, w->r, 0, 1));
    const char *r = activate(l, 0, 2, "Sigmoid", g);
    const char *inner;
    if (onnx_attr_int(n, "linear_before_reset", 0)) {
        inner = onnx_text(n, "nn.dense(%s, %s, units=None)", h, w->reset_r);
        inner = w->reset_bias ? onnx_text(n, "add(%s, %s)", inner, w->reset_bias) : inner;
        inner = onnx_text(n, "multiply(%s, %s)", r, inner);
    } else {
        inner = onnx_text(n, "nn.dense(multiply(%s, %s), %s, units=None)", r, h, w->reset_r);
        inner = w->reset_bias ? onnx_text(n, "add(%s, %s)", inner, w->reset_bias) : inner;
    }
    const char *c = activate(l, 1, 2, "Tanh", onnx_text(n, "add(%s, %s)", part(l, x, 1, 2), inner));
    return onnx_step(n, "add(multiply(subtract(%s, %s), %s), multiply(%s, %s))",
                     onnx_literal(n, 1, l->dtype), z, c, z, h);
}

static const char *with_peephole(Layer *l, const char *g, const char *peep, const char *c)
{
    return peep ? onnx_text(l->n, "add(%s, multiply(%s, %s))", g, peep, c) : g;
}

static const char *step_lstm(Layer *l, const Weights *w, const char *x, const char *h,
                             const char **c)
{
    OnnxNode *n = l->n;
    const char *g = onnx_step(n, "add(%s, nn.dense(%s, %s, units=None))", x, h, w->r);
    const char *i =
        activate(l, 0, 3, "Sigmoid", with_peephole(l, part(l, g, 1, 0), w->peep[0], *c));
    const char *f =
        onnx_attr_int(n, "input_forget", 0)
            ? onnx_step(n, "subtract(%s, %s)", onnx_literal(n, 1, l->dtype), i)
            : activate(l, 0, 3, "Sigmoid", with_peephole(l, part(l, g, 1, 2), w->peep[2], *c));
    const char *new_c = activate(l, 1, 3, "Tanh", part(l, g, 1, 3));
    new_c = onnx_step(n, "add(multiply(%s, %s), multiply(%s, %s))", f, *c, i, new_c);
    const char *o =
        activate(l, 0, 3, "Sigmoid", with_peephole(l, part(l, g, 1, 1), w->peep[1], new_c));
    *c = new_c;
    return onnx_step(n, "multiply(%s, %s)", o, activate(l, 2, 3, "Tanh", new_c));
}

/* ---- a direction ------------------------------------------------------------------------------------------------------------ */

static Weights weights_of(Layer *l, const char *x)
{
    OnnxNode *n = l->n;
    Weights w = {.r = onnx_step(n, "%s", direction_of(l, 2))};
    const char *y = onnx_text(n, "nn.dense(%s, %s, units=None)", x, direction_of(l, 1));
    int64_t size = l->gates * l->hidden;
    bool apart = l->gates == 3;
    if (onnx_has(n, 3)) {
        const char *b = onnx_step(n, "%s", direction_of(l, 3));
        const char *mine =
            onnx_text(n, "strided_slice(%s, begin=[0], end=[%lld], strides=[1], axes=[0])", b,
                      (long long)size);
        const char *back =
            onnx_step(n, "strided_slice(%s, begin=[%lld], end=[%lld], strides=[1], axes=[0])", b,
                      (long long)size, (long long)(2 * size));
        if (apart) { /* the new state's bias stands inside what is reset */
            w.reset_bias = onnx_step(n, "%s", part(l, back, 0, 2));
            back = onnx_text(
                n,
                "concatenate((strided_slice(%s, begin=[0], end=[%lld], strides=[1], axes=[0]), "
                "zeros_like(%s)))",
                back, (long long)(2 * l->hidden), w.reset_bias);
        }
        y = onnx_text(n, "add(%s, add(%s, %s))", y, mine, back);
    }
    if (apart)
        w.reset_r = onnx_step(n, "%s", part(l, w.r, 0, 2));
    if (l->gates == 4 && onnx_has(n, 7)) {
        const char *p = onnx_step(n, "%s", direction_of(l, 7));
        for (int k = 0; k < 3; k++)
            w.peep[k] = onnx_step(n, "%s", part(l, p, 0, k));
    }
    w.x = onnx_let(n, y);
    return w;
}

static const char *turned(Layer *l, const char *x)
{
    if (!onnx_has(l->n, 4))
        return onnx_text(l->n, "reverse(%s, axis=0)", x);
    return onnx_text(l->n, "reverse_sequence(%s, %s, seq_axis=0, batch_axis=1)", x,
                     onnx_in(l->n, 4));
}

static const char *first_state(Layer *l, const Weights *w, size_t input)
{
    if (onnx_has(l->n, input))
        return onnx_step(l->n, "%s", direction_of(l, input));
    return onnx_step(l->n, "zeros_like(%s)",
                     part(l, onnx_text(l->n, "take(%s, 0i64, axis=0)", w->x), 1, 0));
}

typedef struct Direction {
    const char *y, *h, *c; /* c of LSTM */
} Direction;

static Direction run_direction(Layer *l, bool backwards)
{
    OnnxNode *n = l->n;
    bool lstm = l->gates == 4;
    Weights w = weights_of(l, backwards ? turned(l, l->x) : l->x);
    OnnxFold f = {.hint = n->proto->n_output ? n->proto->output[0] : "state",
                  .count = l->count,
                  .n = lstm ? 3 : 2};
    const char *h0 = first_state(l, &w, 5), *c0 = lstm ? first_state(l, &w, 6) : NULL;
    const char *y0 =
        onnx_step(n, "zeros_like(strided_slice(%s, begin=[0], end=[%lld], strides=[1], axes=[2]))",
                  w.x, (long long)l->hidden);
    f.states[0] = (OnnxState){y0, "outputs", NULL, onnx_type_of(n, y0)};
    f.states[1] = (OnnxState){h0, "h", NULL, onnx_type_of(n, h0)};
    if (lstm)
        f.states[2] = (OnnxState){c0, "c", NULL, onnx_type_of(n, c0)};
    onnx_fold_begin(n, &f);
    const char *x = onnx_step(n, "take(%s, %s, axis=0)", w.x, f.index), *h = f.states[1].param,
               *c = f.states[2].param;
    const char *new_h = lstm            ? step_lstm(l, &w, x, h, &c)
                        : l->gates == 3 ? step_gru(l, &w, x, h)
                                        : step_rnn(l, &w, x, h);
    const char *y = new_h;
    if (onnx_has(n, 4)) { /* behind the end of its sequence a state stays, and nothing comes out */
        const char *lives = onnx_step(n, "expand_dims(less(%s, cast(%s, dtype=\"int64\")), axis=1)",
                                      f.index, onnx_in(n, 4));
        y = onnx_text(n, "where(%s, %s, zeros_like(%s))", lives, new_h, new_h);
        new_h = onnx_step(n, "where(%s, %s, %s)", lives, new_h, h);
        c = lstm ? onnx_step(n, "where(%s, %s, %s)", lives, c, f.states[2].param) : NULL;
    }
    f.states[0].next = onnx_text(
        n, "scatter_nd(%s, reshape(%s, newshape=[1, 1]), expand_dims(%s, axis=0), mode=\"update\")",
        f.states[0].param, f.index, y);
    f.states[1].next = new_h;
    f.states[2].next = c;
    const char *out = onnx_fold_end(n, &f);
    const char *ys = onnx_text(n, "%s.0", out);
    return (Direction){backwards ? turned(l, ys) : ys, onnx_text(n, "%s.1", out),
                       onnx_text(n, "%s.2", out)};
}

static const char *joined(OnnxNode *n, const char *a, const char *b, int axis)
{
    return b ? onnx_text(n, "stack((%s, %s), axis=%d)", a, b, axis)
             : onnx_text(n, "expand_dims(%s, axis=%d)", a, axis);
}

void rule_recurrent(OnnxNode *n)
{
    bool lstm = !strcmp(n->word, "LSTM"), batch_first = onnx_attr_int(n, "layout", 0) != 0;
    const char *way = onnx_attr_text(n, "direction", "forward");
    bool both = !strcmp(way, "bidirectional");
    Layer l = {.n = n,
               .gates = lstm                      ? 4
                        : !strcmp(n->word, "GRU") ? 3
                                                  : 1,
               .dtype = onnx_in_dtype(n, 0)};
    n->constant = false;
    l.directions = both ? 2 : 1;
    l.hidden = onnx_known_extent(n, 2, 2);
    l.steps = onnx_extent(n, 0, batch_first ? 1 : 0);
    if (batch_first && (onnx_has(n, 5) || onnx_has(n, 6)))
        onnx_refuse(n, "a first state with the batch in front");
    l.x =
        batch_first ? onnx_step(n, "transpose(%s, axes=[1, 0, 2])", onnx_in(n, 0)) : onnx_in(n, 0);
    l.count = l.steps >= 0 ? onnx_text(n, "%lldi64", (long long)l.steps)
                           : onnx_step(n, "take(shape_of(%s, dtype=\"int64\"), 0i64, axis=0)", l.x);
    Direction d[2] = {run_direction(&l, !strcmp(way, "reverse")), {0}};
    l.now = 1;
    if (both)
        d[1] = run_direction(&l, true);
    onnx_give(
        n,
        joined(n, batch_first ? onnx_text(n, "transpose(%s, axes=[1, 0, 2])", d[0].y) : d[0].y,
               both && batch_first ? onnx_text(n, "transpose(%s, axes=[1, 0, 2])", d[1].y) : d[1].y,
               batch_first ? 2 : 1));
    onnx_give(n, joined(n, d[0].h, d[1].h, batch_first ? 1 : 0));
    if (lstm)
        onnx_give(n, joined(n, d[0].c, d[1].c, batch_first ? 1 : 0));
}
