/* Attention and what stands around it in transformers. Heads are an axis of their own behind the batch: batch, heads, places, features. */
#include "exchange/onnx_rules.h"

#include <math.h>
#include <string.h>

/* ---- heads ------------------------------------------------------------------------------------------------------------------ */

/* An input of batch, places and heads * features; one of four axes is as it should be. */
static const char *with_heads(OnnxNode *n, size_t i, int64_t heads)
{
    if (onnx_rank(n, i) == 4)
        return onnx_in(n, i);
    if (heads < 1)
        onnx_refuse(n, "no number of heads");
    return onnx_step(n, "transpose(reshape(%s, newshape=[0, 0, -4, %lld, -1]), axes=[0, 2, 1, 3])",
                     onnx_in(n, i), (long long)heads);
}

static const char *without_heads(OnnxNode *n, const char *y)
{
    return onnx_text(n, "reshape(transpose(%s, axes=[0, 2, 1, 3]), newshape=[0, 0, -3])", y);
}

static Dim extent_of(OnnxNode *n, const char *x, uint32_t axis)
{
    const Type *t = onnx_type_of(n, x);
    return t->kind == TYPE_TENSOR && axis < t->n ? t->dims[axis] : DIM_ANY;
}

/* The extent as an int64. */
static const char *extent_text(OnnxNode *n, const char *x, uint32_t axis)
{
    Dim d = extent_of(n, x, axis);
    return d >= 0 ? onnx_text(n, "%lldi64", (long long)d)
                  : onnx_step(n, "take(shape_of(%s, dtype=\"int64\"), %ui64, axis=0)", x, axis);
}

static const char *numbers_below(OnnxNode *n, const char *extent)
{
    return onnx_text(n, "arange(0i64, %s, 1i64, dtype=\"int64\")", extent);
}

/* Each head as often as groups of the other side need it. */
static const char *repeated(OnnxNode *n, const char *x, int64_t times)
{
    return times <= 1 ? x : onnx_step(n, "repeat(%s, repeats=%lld, axis=1)", x, (long long)times);
}

static const char *cast_to(OnnxNode *n, const char *x, DType from, DType to)
{
    return dtype_eq(from, to) ? x
                              : onnx_text(n, "cast(%s, dtype=\"%s\")", x, onnx_dtype_text(n, to));
}

/* ---- Attention -------------------------------------------------------------------------------------------------------------- */

typedef struct Heads {
    OnnxNode *n;
    DType t;
    const char *q, *k, *v;
    const char *
        past; /* places before this block: an int64, or one for each image of the batch; NULL: none */
    bool past_each;
    const char *bias; /* what is added to scores; NULL: nothing */
    bool may_hide_all; /* a row of scores may be hidden as a whole */
} Heads;

static const char *minus_infinity(Heads *a)
{
    return onnx_literal(a->n, -INFINITY, a->t);
}

static void add_bias(Heads *a, const char *more)
{
    a->bias = a->bias ? onnx_step(a->n, "add(%s, %s)", a->bias, more) : onnx_let(a->n, more);
}

/* Adds minus infinity where a row of int64 positions does not hold. */
static void hide_unless(Heads *a, const char *allowed)
{
    add_bias(a, onnx_text(a->n, "where(%s, %s, %s)", allowed, onnx_literal(a->n, 0, a->t),
                          minus_infinity(a)));
}

static void add_mask(Heads *a)
{
    OnnxNode *n = a->n;
    if (!onnx_has(n, 3))
        return;
    const char *mask = onnx_in(n, 3);
    int rank = onnx_rank(n, 3);
    bool flags = dtype_is_bool(onnx_in_dtype(n, 3));
    Dim all = extent_of(n, a->k, 2), has = onnx_extent(n, 3, -1);
    if (all >= 0 && has >= 0 && has < all) {
        Buf width = {0};
        for (int i = 0; i < rank; i++)
            buf_printf(&width, "%s[0, %lld]", i ? ", " : "",
                       i == rank - 1 ? (long long)(all - has) : 0);
        mask = onnx_step(n, "nn.pad(%s, %s, pad_width=[%s])", mask,
                         flags ? "False" : minus_infinity(a), buf_text(&width));
        buf_deinit(&width);
    }
    a->may_hide_all = true;
    if (flags)
        hide_unless(a, mask);
    else
        add_bias(a, mask);
}

/* Positions of queries (down) and keys (across), with those before this block counted. */
static void add_order(Heads *a)
{
    OnnxNode *n = a->n;
    bool causal = onnx_attr_int(n, "is_causal", 0) != 0;
    int64_t left = onnx_attr_int(n, "left_window_size", -1),
            right = onnx_attr_int(n, "right_window_size", -1);
    if (!causal && left < 0 && right < 0)
        return;
    const char *i =
        onnx_step(n, "expand_dims(%s, axis=1)", numbers_below(n, extent_text(n, a->q, 2)));
    const char *j = onnx_let(n, numbers_below(n, extent_text(n, a->k, 2)));
    if (a->past_each)
        i = onnx_step(n, "add(%s, reshape(%s, newshape=[-1, 1, 1, 1]))", i, a->past);
    else if (a->past)
        i = onnx_step(n, "add(%s, %s)", i, a->past);
    if (causal)
        hide_unless(a, onnx_text(n, "less_equal(%s, %s)", j, i));
    if (left >= 0)
        hide_unless(a,
                    onnx_text(n, "less_equal(subtract(%s, %s), %lldi64)", i, j, (long long)left));
    if (right >= 0)
        hide_unless(a,
                    onnx_text(n, "less_equal(subtract(%s, %s), %lldi64)", j, i, (long long)right));
    a->may_hide_all |= a->past_each || left >= 0 || right >= 0;
}

static void add_padding(Heads *a)
{
    OnnxNode *n = a->n;
    if (!onnx_has(n, 6))
        return;
    const char *j = numbers_below(n, extent_text(n, a->k, 2));
    hide_unless(a, onnx_text(n, "less(%s, reshape(%s, newshape=[-1, 1, 1, 1]))", j,
                             onnx_text(n, "cast(%s, dtype=\"int64\")", onnx_in(n, 6))));
    a->may_hide_all = true;
}

static const char *softmax(Heads *a, const char *scores)
{
    OnnxNode *n = a->n;
    int64_t to = onnx_attr_int(n, "softmax_precision", 0);
    DType t = to ? onnx_dtype((int32_t)to) : a->t;
    const char *p = onnx_step(n, "nn.softmax(%s)", cast_to(n, scores, a->t, t));
    p = dtype_eq(t, a->t) ? p : onnx_let(n, cast_to(n, p, t, a->t));
    if (!a->may_hide_all)
        return p;
    return onnx_step(n, "where(equal(max(%s, axis=[-1], keepdims=True), %s), %s, %s)", a->bias,
                     minus_infinity(a), onnx_literal(n, 0, a->t), p);
}

static void read_heads(Heads *a)
{
    OnnxNode *n = a->n;
    a->t = onnx_in_dtype(n, 0);
    a->q = with_heads(n, 0, onnx_attr_int(n, "q_num_heads", 0));
    a->k = with_heads(n, 1, onnx_attr_int(n, "kv_num_heads", 0));
    a->v = with_heads(n, 2, onnx_attr_int(n, "kv_num_heads", 0));
    if (onnx_has(n, 4)) {
        a->past = extent_text(n, onnx_in(n, 4), 2);
        a->k = onnx_step(n, "concatenate((%s, %s), axis=2)", onnx_in(n, 4), a->k);
        a->v = onnx_step(n, "concatenate((%s, %s), axis=2)", onnx_in(n, 5), a->v);
    } else if (onnx_has(n, 6)) {
        a->past_each = true;
        a->past = onnx_step(n, "subtract(cast(%s, dtype=\"int64\"), %s)", onnx_in(n, 6),
                            extent_text(n, a->q, 2));
    }
}

void rule_attention(OnnxNode *n)
{
    Heads a = {.n = n};
    n->constant = false;
    read_heads(&a);
    const char *present[] = {a.k, a.v};
    add_mask(&a);
    add_order(&a);
    add_padding(&a);
    Dim mine = extent_of(n, a.q, 1), theirs = extent_of(n, a.k, 1), size = extent_of(n, a.q, 3);
    if (mine < 1 || theirs < 1 || size < 1)
        onnx_refuse(n, "heads of unknown number or size");
    if (n->failed)
        return;
    const char *k = repeated(n, a.k, mine / theirs), *v = repeated(n, a.v, mine / theirs);
    const char *scale =
        onnx_literal(n, sqrt(onnx_attr_float(n, "scale", 1 / sqrt((double)size))), a.t);
    const char *scores = onnx_step(
        n, "einsum((multiply(%s, %s), multiply(%s, %s)), equation=\"...id,...jd->...ij\")", a.q,
        scale, k, scale);
    double cap = onnx_attr_float(n, "softcap", 0);
    if (cap > 0)
        scores = onnx_step(n, "multiply(%s, tanh(divide(%s, %s)))", onnx_literal(n, cap, a.t),
                           scores, onnx_literal(n, cap, a.t));
    const char *biased = a.bias ? onnx_step(n, "add(%s, %s)", scores, a.bias) : scores;
    const char *p = softmax(&a, biased);
    const char *shown[] = {scores, scores, biased, p};
    int64_t mode = onnx_attr_int(n, "qk_matmul_output_mode", 0);
    const char *y = onnx_step(n, "einsum((%s, %s), equation=\"...ij,...jd->...id\")", p, v);
    onnx_give(n, onnx_rank(n, 0) == 3 ? without_heads(n, y) : y);
    onnx_give(n, present[0]);
    onnx_give(n, present[1]);
    onnx_give(n, shown[mode >= 0 && mode < 4 ? mode : 0]);
}

/* A graph of one value. */
static const char *modified(OnnxNode *n, const char *attribute, const char *x)
{
    const Onnx__AttributeProto *a = onnx_attr(n, attribute);
    if (!a || !a->g)
        return x;
    if (a->g->n_input != 1 || a->g->n_output != 1) {
        onnx_refuse(n, "a `%s` that is no function of one value", attribute);
        return x;
    }
    onnx_block_begin(n);
    onnx_block_bind(n, a->g->input[0]->name, (OnnxValue){.text = x, .type = onnx_type_of(n, x)});
    onnx_block_graph(n, a->g);
    const OnnxValue *y = onnx_block_result(n, a->g->output[0]->name);
    const char *text = y ? y->text : x;
    onnx_block_splice(n);
    return text;
}

void rule_flex_attention(OnnxNode *n)
{
    n->constant = false;
    int64_t mine = onnx_known_extent(n, 0, 1), theirs = onnx_known_extent(n, 1, 1);
    int64_t to = onnx_attr_int(n, "softmax_precision", 0);
    DType t = onnx_in_dtype(n, 0), wide = to                  ? onnx_dtype((int32_t)to)
                                          : dtype_size(t) < 4 ? dtype_of(DT_FLOAT32)
                                                              : t;
    double scale = onnx_attr_float(n, "scale", 1 / sqrt((double)onnx_known_extent(n, 0, 3)));
    const char *root = onnx_literal(n, sqrt(scale), t);
    const char *k = repeated(n, onnx_in(n, 1), theirs > 0 ? mine / theirs : 1);
    const char *v = repeated(n, onnx_in(n, 2), theirs > 0 ? mine / theirs : 1);
    const char *scores = onnx_text(
        n, "einsum((multiply(%s, %s), multiply(%s, %s)), equation=\"...id,...jd->...ij\")",
        onnx_in(n, 0), root, k, root);
    scores = modified(n, "score_mod", onnx_let(n, cast_to(n, scores, t, wide)));
    const char *p = modified(n, "prob_mod", onnx_step(n, "nn.softmax(%s)", scores));
    onnx_give(n, cast_to(n,
                         onnx_text(n, "einsum((%s, %s), equation=\"...ij,...jd->...id\")", p,
                                   cast_to(n, v, t, wide)),
                         wide, t));
}

/* ---- the state of linear attention ------------------------------------------------------------------------------------------ */

void rule_linear_attention(OnnxNode *n)
{
    const char *how = onnx_attr_text(n, "update_rule", "gated_delta");
    bool gated = strstr(how, "gated") != NULL, delta = strstr(how, "delta") != NULL;
    int64_t mine = onnx_attr_int(n, "q_num_heads", 0), theirs = onnx_attr_int(n, "kv_num_heads", 0);
    DType t = onnx_in_dtype(n, 0), f32 = dtype_of(DT_FLOAT32);
    if (mine < 1 || theirs < 1 || (gated && !onnx_has(n, 4)) || (delta && !onnx_has(n, 5))) {
        onnx_refuse(n, "heads, decay or beta are missing");
        return;
    }
    n->constant = false;
    const char *parts[5] = {0};
    for (size_t i = 0; i < 5; i++) {
        size_t input = i < 3 ? i : i + 1;
        if ((i == 3 && !gated) || (i == 4 && !delta))
            continue;
        int64_t heads = i == 0 ? mine : i < 4 ? theirs : onnx_known_extent(n, 5, 2);
        parts[i] =
            onnx_let(n, cast_to(n, with_heads(n, input, heads), onnx_in_dtype(n, input), f32));
    }
    const char *q = parts[0], *k = parts[1], *v = parts[2];
    Dim steps = extent_of(n, q, 2), size = extent_of(n, q, 3);
    double scale = onnx_attr_float(n, "scale", 0);
    scale = scale == 0 ? 1 / sqrt((double)(size > 0 ? size : 1)) : scale;
    const char *first = onnx_has(n, 3)
                            ? onnx_let(n, cast_to(n, onnx_in(n, 3), onnx_in_dtype(n, 3), f32))
                            : onnx_step(n,
                                        "zeros_like(einsum((take(%s, 0i64, axis=2), take(%s, 0i64, "
                                        "axis=2)), equation=\"bhd,bhm->bhdm\"))",
                                        k, v);
    const char *outputs =
        onnx_step(n, "zeros_like(%s)",
                  onnx_text(n, "transpose(%s, axes=[2, 0, 1, 3])", repeated(n, v, mine / theirs)));
    if (steps < 0)
        onnx_refuse(n, "a number of places that is not known");
    OnnxFold f = {.hint = n->proto->output[0], .count = extent_text(n, q, 2), .n = 2};
    f.states[0] = (OnnxState){outputs, "outputs", NULL, onnx_type_of(n, outputs)};
    f.states[1] = (OnnxState){first, "state", NULL, onnx_type_of(n, first)};
    onnx_fold_begin(n, &f);
    const char *now[5] = {0}, *state = f.states[1].param;
    for (size_t i = 0; i < 5; i++)
        now[i] = parts[i] ? onnx_step(n, "take(%s, %s, axis=2)", parts[i], f.index) : NULL;
    if (gated)
        state = onnx_step(n, "multiply(%s, expand_dims(exp(%s), axis=3))", state, now[3]);
    if (delta)
        now[2] =
            onnx_step(n, "multiply(%s, subtract(%s, einsum((%s, %s), equation=\"bhdm,bhd->bhm\")))",
                      now[4], now[2], state, now[1]);
    state = onnx_step(n, "add(%s, multiply(expand_dims(%s, axis=3), expand_dims(%s, axis=2)))",
                      state, now[1], now[2]);
    const char *y =
        onnx_step(n, "multiply(%s, einsum((%s, %s), equation=\"bhd,bhdm->bhm\"))",
                  onnx_literal(n, scale, f32), now[0], repeated(n, state, mine / theirs));
    f.states[0].next = onnx_text(
        n, "scatter_nd(%s, reshape(%s, newshape=[1, 1]), expand_dims(%s, axis=0), mode=\"update\")",
        f.states[0].param, f.index, y);
    f.states[1].next = state;
    const char *out = onnx_fold_end(n, &f);
    y = onnx_text(n, "reshape(transpose(%s.0, axes=[1, 0, 2, 3]), newshape=[0, 0, -3])", out);
    onnx_give(n, cast_to(n, y, f32, t));
    onnx_give(n,
              cast_to(n, onnx_text(n, "%s.1", out), f32, onnx_has(n, 3) ? onnx_in_dtype(n, 3) : t));
}

/* ---- around it -------------------------------------------------------------------------------------------------------------- */

/* A convolution along a row that sees nothing behind its place; what it has seen last is passed on. */
void rule_causal_conv(OnnxNode *n)
{
    int64_t channels = onnx_known_extent(n, 1, 0), k = onnx_known_extent(n, 1, 2);
    const char *x = onnx_in(n, 0);
    DType t = onnx_in_dtype(n, 0);
    x = onnx_has(n, 3) ? onnx_step(n, "concatenate((%s, %s), axis=2)", onnx_in(n, 3), x)
                       : onnx_step(n, "nn.pad(%s, %s, pad_width=[[0, 0], [0, 0], [%lld, 0]])", x,
                                   onnx_literal(n, 0, t), (long long)k - 1);
    const char *y =
        onnx_text(n, "nn.conv1d(%s, %s, groups=%lld, channels=%lld, kernel_size=[%lld])", x,
                  onnx_in(n, 1), (long long)channels, (long long)channels, (long long)k);
    y = onnx_has(n, 2) ? onnx_text(n, "nn.bias_add(%s, %s)", y, onnx_in(n, 2)) : y;
    if (strcmp(onnx_attr_text(n, "activation", "none"), "none") != 0) {
        DType f32 = dtype_of(DT_FLOAT32);
        y = onnx_let(n, cast_to(n, onnx_let(n, y), t, f32));
        y = cast_to(n, onnx_text(n, "multiply(%s, sigmoid(%s))", y, y), f32, t);
    }
    onnx_give(n, y);
    Dim all = n->constant ? onnx_extent(n, 0, 2) + k - 1 : extent_of(n, x, 2);
    if (!onnx_wants(n, 1) || all >= 0)
        onnx_give(n,
                  onnx_text(n, "strided_slice(%s, begin=[%lld], end=[%lld], strides=[1], axes=[2])",
                            x, (long long)(all - k + 1), (long long)all));
    else
        onnx_give(
            n,
            onnx_text(n, "strided_slice(%s, begin=[%lld], end=[2147483647], strides=[1], axes=[2])",
                      x, (long long)(1 - k)));
}

/* Pairs of features turned by an angle that grows with the place. */
void rule_rotary(OnnxNode *n)
{
    bool flat = onnx_rank(n, 0) == 3, mixed = onnx_attr_int(n, "interleaved", 0) != 0;
    n->constant = false;
    const char *x = flat ? onnx_step(n, "reshape(%s, newshape=[0, 0, -4, %lld, -1])", onnx_in(n, 0),
                                     (long long)onnx_attr_int(n, "num_heads", 0))
                         : onnx_step(n, "transpose(%s, axes=[0, 2, 1, 3])", onnx_in(n, 0));
    Dim size = extent_of(n, x, 3);
    int64_t turned = onnx_attr_int(n, "rotary_embedding_dim", 0);
    turned = turned ? turned : size;
    if (size < 0) {
        onnx_refuse(n, "how many features a head has is known only when the program runs");
        return;
    }
    if (size < 1 || turned > size || turned % 2 != 0) {
        onnx_refuse(n, "%lld of %lld features turned", (long long)turned, (long long)size);
        return;
    }
    const char *angles[2];
    for (size_t i = 0; i < 2; i++) {
        const char *a = onnx_in(n, i + 1);
        a = onnx_has(n, 3) ? onnx_text(n, "take(%s, %s, axis=0)", a, onnx_in(n, 3)) : a;
        angles[i] = onnx_step(n, "expand_dims(%s, axis=2)", a);
    }
    const char *halves[2];
    for (int i = 0; i < 2; i++)
        halves[i] =
            mixed
                ? onnx_step(n, "strided_slice(%s, begin=[%d], end=[%lld], strides=[2], axes=[3])",
                            x, i, (long long)turned)
                : onnx_step(n, "strided_slice(%s, begin=[%lld], end=[%lld], strides=[1], axes=[3])",
                            x, (long long)(i * turned / 2), (long long)((i + 1) * turned / 2));
    const char *re = onnx_step(n, "subtract(multiply(%s, %s), multiply(%s, %s))", angles[0],
                               halves[0], angles[1], halves[1]);
    const char *im = onnx_step(n, "add(multiply(%s, %s), multiply(%s, %s))", angles[1], halves[0],
                               angles[0], halves[1]);
    const char *y =
        mixed ? onnx_text(n, "reshape(stack((%s, %s), axis=4), newshape=[0, 0, 0, -3])", re, im)
              : onnx_text(n, "concatenate((%s, %s), axis=3)", re, im);
    if (turned < size)
        y = onnx_text(n,
                      "concatenate((%s, strided_slice(%s, begin=[%lld], end=[%lld], strides=[1], "
                      "axes=[3])), axis=3)",
                      y, x, (long long)turned, (long long)size);
    onnx_give(n, flat ? onnx_text(n, "reshape(%s, newshape=[0, 0, -3])", y)
                      : onnx_text(n, "transpose(%s, axes=[0, 2, 1, 3])", y));
}
