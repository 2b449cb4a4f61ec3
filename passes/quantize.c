/* Computes convolutions and what follows them on small integers in place of reals.
 *
 *     nn.conv2d(%x, W)
 *  => %0 = relay.op.annotation.simulated_quantize(%x, 0.0625f, -127f, 127f, kind=1);   (annotated)
 *     %1 = nn.conv2d(%0, relay.op.annotation.simulated_quantize(W, …, kind=2)); …
 *  => %0 = cast(clip(round(%x * 16f), a_min=-127f, a_max=127f), dtype="int8");         (realised)
 *     %1 = nn.conv2d(%0, W as int8, out_dtype="int32"); %2 = right_shift(%1 + 32, 6); …
 *
 * Annotating puts a simulated operator where reals become multiples of a scale: in front of a convolution, and behind it, where its
 * sums become small again. Realising replaces the simulated operators and what stands between them. What has no rule works on reals. */
#include "passes/fold.h"
#include "passes/types.h"

#include "stdlib/ops/ops.h"

#include <math.h>
#include <string.h>

typedef enum Kind { KIND_NONE, KIND_INPUT, KIND_WEIGHT, KIND_ACTIVATION } Kind;

/* What is known of an expression that a rule made. */
typedef struct Quantized {
    Expr *open; /* annotating: before it was made small for others; NULL when it is the same */
    Kind kind, open_kind;
    Expr *data; /* realising: the integers, as reals or integers of `dtype` */
    double scale;
    DType dtype;
    bool input; /* from a simulated operator of an input */
} Quantized;

typedef struct Quantizer {
    PassRun *run;
    OpsMake m;
    PtrMap known; /* expression -> Quantized */
    PtrMap inputs; /* expression -> its simulated quantisation as an input */
    int64_t convolutions; /* so far */
} Quantizer;

static const DType real = {DTYPE_CODE_FLOAT, 32, 1};

static Attr attr_float(const char *key, double v)
{
    return (Attr){.key = key, .value = {.kind = ATTR_FLOAT, .f = v}};
}

static Expr *cast(const OpsMake *m, Expr *e, DType dtype)
{
    Attr attr = ops_attr_dtype(m, "dtype", dtype);
    return ops_call(m, "cast", 1, &e, 1, &attr);
}

static Expr *clip(const OpsMake *m, Expr *e, double low, double high)
{
    Attr attrs[2] = {attr_float("a_min", low), attr_float("a_max", high)};
    return ops_call(m, "clip", 1, &e, 2, attrs);
}

static Expr *with_args(Quantizer *q, const Call *call, Expr *x, Expr *y)
{
    Expr *args[2] = {x, y};
    return x && (y || call->args.n == 1)
               ? expr_call(q->m.arena, q->m.span, call->callee, call->args.n, args, call->attrs)
               : NULL;
}

static Quantized *note(Quantizer *q, const Expr *e, Quantized what)
{
    Quantized *known = arena_new(&q->run->scratch, Quantized);
    *known = what;
    if (e)
        ptrmap_put(&q->known, e, known);
    return known;
}

static DType dtype_param(const Quantizer *q, const char *key)
{
    return attrs_dtype(q->run->params, key);
}

/* ---- annotating ------------------------------------------------------------------------------------------------------- */

static double greatest(const Constant *c)
{
    TensorView v;
    double most = 0;
    if (value_view(&c->value, &v))
        for (int64_t i = 0; i < v.t.size; i++)
            most = fmax(most, fabs(tensor_get_double(&v.t, i)));
    return most;
}

static double weight_scale(const Quantizer *q, const Constant *c)
{
    double most = greatest(c);
    bool power = str_eq(attrs_string(q->run->params, "weight_scale"), str_of("power2"));
    return !(most > 0) ? 1 : power ? exp2(ceil(log2(most))) : most;
}

static Expr *simulate(Quantizer *q, Expr *e, Kind kind)
{
    Expr *made = kind == KIND_INPUT ? ptrmap_find(&q->inputs, e) : NULL;
    if (made)
        return made;
    const Attrs *params = q->run->params;
    bool weight = kind == KIND_WEIGHT;
    double scale =
        weight ? weight_scale(q, expr_as_constant(e)) : attrs_float(params, "global_scale");
    double range = exp2((double)attrs_int(params, weight ? "nbit_weight" : "nbit_input", 8) - 1);
    Expr *args[4] = {e, ops_constant(&q->m, real, scale / range),
                     ops_constant(&q->m, real, -(range - 1)), ops_constant(&q->m, real, range - 1)};
    Attr attr = ops_attr_int("kind", kind);
    made = ops_call(&q->m, "relay.op.annotation.simulated_quantize", 4, args, 1, &attr);
    if (made && !weight)
        ptrmap_put(&q->inputs, e, made);
    return made;
}

/* The expression is of this kind; `open`: what follows may take it as it is, others get it small and behind a border of fusion. */
static Expr *annotated(Quantizer *q, Expr *e, Kind kind, bool open)
{
    if (!e || !open) {
        note(q, e, (Quantized){.kind = kind});
        return e;
    }
    Expr *small = e;
    Kind small_kind = kind;
    if (kind == KIND_ACTIVATION) {
        small = simulate(q, e, KIND_INPUT);
        small_kind = KIND_INPUT;
    }
    Attr attr = ops_attr_dtype(&q->m, "dtype", dtype_param(q, "dtype_input"));
    if (small_kind != KIND_NONE)
        small = ops_call(&q->m, "annotation.cast_hint", 1, &small, 1, &attr);
    small = ops_call1(&q->m, "annotation.stop_fusion", small);
    note(q, small, (Quantized){.open = e, .open_kind = kind, .kind = small_kind});
    return small;
}

typedef struct Operand {
    Expr *e;
    Kind kind;
    bool open;
} Operand;

/* Operand i, taken open or as others see it. */
static Operand operand(Quantizer *q, const Call *call, uint32_t i, bool open)
{
    const Quantized *k = ptrmap_find(&q->known, call->args.at[i]);
    if (k && k->open && open)
        return (Operand){k->open, k->open_kind, true};
    return (Operand){call->args.at[i], k ? k->kind : KIND_NONE, false};
}

static Expr *as_input(Quantizer *q, Operand x)
{
    return x.kind == KIND_NONE || x.kind == KIND_ACTIVATION ? simulate(q, x.e, KIND_INPUT) : x.e;
}

static bool is_skipped(Quantizer *q)
{
    const AttrValue *skip = attrs_find(q->run->params, "skip_conv_layers");
    int64_t at = q->convolutions++;
    for (uint32_t i = 0; i < skip->list.n; i++)
        if (skip->list.at[i].i == at)
            return true;
    return false;
}

static Expr *annotate_product(Quantizer *q, const Call *call)
{
    bool conv = expr_call_of_op(&call->base) == op_find(q->run->cx, str_of("nn.conv2d"));
    Operand x = operand(q, call, 0, false), w = operand(q, call, 1, false);
    bool skip = conv ? is_skipped(q) : attrs_bool(q->run->params, "skip_dense_layer");
    if (skip || w.e->kind != EXPR_CONSTANT)
        return conv ? annotated(q, with_args(q, call, x.e, w.e), KIND_NONE, true)
                    : with_args(q, call, x.e, w.e);
    Expr *made = with_args(q, call, as_input(q, x), simulate(q, w.e, KIND_WEIGHT));
    return annotated(q, made, KIND_ACTIVATION, conv);
}

/* A sum is larger than its operands: it is made small again before it is an input. */
static Expr *annotate_add(Quantizer *q, const Call *call)
{
    bool constant = call->args.at[1]->kind == EXPR_CONSTANT;
    Operand x = operand(q, call, 0, constant), y = operand(q, call, 1, false);
    bool both = operand(q, call, 0, true).open && operand(q, call, 1, true).open;
    if (x.kind == KIND_NONE && y.kind == KIND_NONE)
        return annotated(q, with_args(q, call, x.e, y.e), KIND_NONE, x.open || both);
    if (x.kind == KIND_NONE)
        x.e = simulate(q, x.e, KIND_INPUT);
    if (y.kind == KIND_NONE)
        y.e = simulate(q, y.e, constant ? KIND_WEIGHT : KIND_INPUT);
    else if (y.kind == KIND_ACTIVATION && x.kind == KIND_ACTIVATION)
        y.e = simulate(q, y.e, KIND_INPUT);
    return annotated(q, with_args(q, call, x.e, y.e), KIND_ACTIVATION, x.open || both);
}

static Expr *annotate_multiply(Quantizer *q, const Call *call)
{
    Operand x = operand(q, call, 0, true), y = operand(q, call, 1, false);
    if (x.kind == KIND_NONE || y.kind != KIND_NONE || y.e->kind != EXPR_CONSTANT)
        return annotated(q, with_args(q, call, x.e, y.e), KIND_NONE, x.open);
    Expr *made = with_args(q, call, as_input(q, x), simulate(q, y.e, KIND_WEIGHT));
    return annotated(q, made, KIND_ACTIVATION, x.open);
}

static Expr *annotate_same(Quantizer *q, const Call *call)
{
    Operand x = operand(q, call, 0, true);
    return annotated(q, with_args(q, call, x.e, NULL), x.kind, x.open);
}

static Expr *annotate_moved(Quantizer *q, const Call *call)
{
    Operand x = operand(q, call, 0, false);
    return annotated(q, with_args(q, call, x.e, NULL), x.kind, false);
}

static Expr *annotate_max(Quantizer *q, const Call *call)
{
    Operand x = operand(q, call, 0, true);
    Expr *e = x.kind == KIND_ACTIVATION ? simulate(q, x.e, KIND_INPUT) : x.e;
    return annotated(q, with_args(q, call, e, NULL), x.kind ? KIND_INPUT : KIND_NONE, x.open);
}

/* ---- realising -------------------------------------------------------------------------------------------------------- */

/* The reals that the integers stand for, which knows them; rules go on with the integers. */
static Expr *realised(Quantizer *q, Expr *data, double scale, DType dtype, bool input)
{
    if (!data)
        return NULL;
    Expr *e = ops_call2(&q->m, "multiply", dtype_eq(dtype, real) ? data : cast(&q->m, data, real),
                        ops_constant(&q->m, real, scale));
    note(q, e, (Quantized){.data = data, .scale = scale, .dtype = dtype, .input = input});
    return e;
}

static Quantized *integers(Quantizer *q, const Call *call, uint32_t i)
{
    return ptrmap_find(&q->known, call->args.at[i]);
}

static Expr *in_dtype(Quantizer *q, const Quantized *k, DType dtype)
{
    return dtype_eq(k->dtype, dtype) ? k->data : cast(&q->m, k->data, dtype);
}

/* Integers of one scale as those of another. */
static Expr *rescale(Quantizer *q, Expr *e, DType dtype, double from, double to)
{
    double shift = log2(to / from), whole = from / to;
    if (from == to)
        return e;
    if (dtype_eq(dtype, real))
        return ops_call2(&q->m, "multiply", e, ops_constant(&q->m, real, whole));
    if (shift == floor(shift) && shift > 0) {
        if (attrs_bool(q->run->params, "round_for_shift"))
            e = ops_call2(&q->m, "add", e, ops_constant(&q->m, dtype, exp2(shift - 1)));
        return ops_call2(&q->m, "right_shift", e, ops_constant(&q->m, dtype, shift));
    }
    if (shift == floor(shift))
        return ops_call2(&q->m, "left_shift", e, ops_constant(&q->m, dtype, -shift));
    if (whole == floor(whole))
        return ops_call2(&q->m, "multiply", e, ops_constant(&q->m, dtype, whole));
    int exponent;
    double mantissa = frexp(whole, &exponent);
    Attr attrs[2] = {
        ops_attr_int("multiplier", (int64_t)fmin(round(ldexp(mantissa, 31)), INT32_MAX)),
        ops_attr_int("shift", exponent)};
    return ops_call(&q->m, "fixed_point_multiply", 1, &e, 2, attrs);
}

static bool scalar_of(const Expr *e, double *out)
{
    const Constant *c = expr_as_constant(e);
    TensorView v;
    if (!c || !value_view(&c->value, &v) || v.t.size != 1)
        return false;
    *out = tensor_get_double(&v.t, 0);
    return true;
}

static Expr *realise_simulated(Quantizer *q, const Call *call)
{
    double scale, low, high;
    if (!scalar_of(call->args.at[1], &scale) || !scalar_of(call->args.at[2], &low) ||
        !scalar_of(call->args.at[3], &high))
        return NULL;
    const Quantized *k = integers(q, call, 0);
    bool input = attrs_int(call->attrs, "kind", 0) == KIND_INPUT;
    DType dtype = k ? k->dtype : real;
    Expr *data = k ? rescale(q, k->data, dtype, k->scale, scale)
                   : ops_call1(&q->m, "round",
                               ops_call2(&q->m, "multiply", call->args.at[0],
                                         ops_constant(&q->m, real, 1 / scale)));
    return realised(q, clip(&q->m, data, low, high), scale, dtype, input);
}

static Expr *realise_product(Quantizer *q, const Call *call)
{
    const Quantized *x = integers(q, call, 0), *w = integers(q, call, 1);
    if (!x || !w)
        return (Expr *)(uintptr_t)&call->base;
    DType sums = dtype_param(q, "dtype_activation");
    Call now = *call;
    now.attrs = attrs_with(q->m.arena, call->attrs, "out_dtype",
                           ops_attr_dtype(&q->m, "out_dtype", sums).value);
    Expr *made = with_args(q, &now, in_dtype(q, x, dtype_param(q, "dtype_input")),
                           in_dtype(q, w, dtype_param(q, "dtype_weight")));
    return realised(q, made, x->scale * w->scale, sums, false);
}

/* Both operands as sums; an input that comes from elsewhere stays on its side of a border of fusion. */
static Expr *as_sum(Quantizer *q, const Quantized *k, double scale)
{
    DType sums = dtype_param(q, "dtype_activation");
    Expr *e = in_dtype(q, k, sums);
    if (k->input)
        e = ops_call1(&q->m, "annotation.stop_fusion", e);
    return rescale(q, e, sums, k->scale, scale);
}

static Expr *realise_add(Quantizer *q, const Call *call)
{
    const Quantized *x = integers(q, call, 0), *y = integers(q, call, 1);
    if (!x || !y)
        return (Expr *)(uintptr_t)&call->base;
    double scale = fmin(x->scale, y->scale);
    Expr *sum = with_args(q, call, as_sum(q, x, scale), as_sum(q, y, scale));
    return realised(q, sum, scale, dtype_param(q, "dtype_activation"), false);
}

static Expr *realise_multiply(Quantizer *q, const Call *call)
{
    const Quantized *x = integers(q, call, 0), *y = integers(q, call, 1);
    DType sums = dtype_param(q, "dtype_activation");
    if (!x || !y)
        return (Expr *)(uintptr_t)&call->base;
    Expr *made = with_args(q, call, in_dtype(q, x, sums), in_dtype(q, y, sums));
    return realised(q, made, x->scale * y->scale, sums, false);
}

static Expr *realise_same(Quantizer *q, const Call *call)
{
    const Quantized *x = integers(q, call, 0);
    return x ? realised(q, with_args(q, call, x->data, NULL), x->scale, x->dtype, false)
             : (Expr *)(uintptr_t)&call->base;
}

static Expr *realise_clip(Quantizer *q, const Call *call)
{
    const Quantized *x = integers(q, call, 0);
    if (!x)
        return (Expr *)(uintptr_t)&call->base;
    Expr *made = clip(&q->m, x->data, attrs_float(call->attrs, "a_min") / x->scale,
                      attrs_float(call->attrs, "a_max") / x->scale);
    return realised(q, made, x->scale, x->dtype, false);
}

static Expr *realise_mean(Quantizer *q, const Call *call)
{
    const Quantized *x = integers(q, call, 0);
    DType sums = dtype_param(q, "dtype_activation");
    if (!x)
        return (Expr *)(uintptr_t)&call->base;
    return realised(q, with_args(q, call, in_dtype(q, x, sums), NULL), x->scale, sums, false);
}

static Expr *realise_hint(Quantizer *q, const Call *call)
{
    const Quantized *x = integers(q, call, 0);
    DType dtype = attrs_dtype(call->attrs, "dtype");
    return x ? realised(q, in_dtype(q, x, dtype), x->scale, dtype, false) : call->args.at[0];
}

/* ---- the rules -------------------------------------------------------------------------------------------------------- */

/* An operator without a rule works on reals. */
typedef struct QuantizeRule {
    const char *op;
    Expr *(*annotate)(Quantizer *q, const Call *call);
    Expr *(*realise)(Quantizer *q, const Call *call);
} QuantizeRule;

static const QuantizeRule rules[] = {
    {"nn.conv2d", annotate_product, realise_product},
    {"nn.dense", annotate_product, realise_product},
    {"add", annotate_add, realise_add},
    {"multiply", annotate_multiply, realise_multiply},
    {"nn.relu", annotate_same, realise_same},
    {"clip", annotate_same, realise_clip},
    {"nn.max_pool2d", annotate_max, realise_same},
    {"nn.avg_pool2d", annotate_moved, realise_mean},
    {"strided_slice", annotate_moved, realise_same},
    {"nn.batch_flatten", annotate_moved, realise_same},
    {"transpose", annotate_moved, realise_same},
    {"annotation.stop_fusion", annotate_moved, realise_same},
    {"annotation.cast_hint", NULL, realise_hint},
    {"relay.op.annotation.simulated_quantize", NULL, realise_simulated},
};

static const QuantizeRule *rule_of(const Expr *old, const Expr *now)
{
    const Op *op = expr_call_of_op(now);
    const Type *t = op ? expr_tensor_type(old) : NULL;
    for (size_t i = 0; t && dtype_eq(t->dtype, real) && i < sizeof rules / sizeof *rules; i++)
        if (!strcmp(op->name, rules[i].op) && expr_as_call(now)->args.n <= 4)
            return &rules[i];
    return NULL;
}

static Expr *annotate_node(Rewriter *rw, const Expr *old, Expr *now)
{
    Quantizer *q = rw->data;
    const QuantizeRule *rule = rule_of(old, now);
    q->m = (OpsMake){rw->cx, &rw->module->arena, now->span};
    expr_keep_type(now, old);
    return rule && rule->annotate ? rule->annotate(q, expr_as_call(now)) : now;
}

static Expr *realise_node(Rewriter *rw, const Expr *old, Expr *now)
{
    Quantizer *q = rw->data;
    const QuantizeRule *rule = rule_of(old, now);
    q->m = (OpsMake){rw->cx, &rw->module->arena, now->span};
    return rule ? rule->realise(q, expr_as_call(now)) : now;
}

static Function *rewrite_function(PassRun *run, const Def *def, RewriteFn *fn)
{
    Quantizer q = {.run = run};
    Rewriter rw;
    rewriter_init(&rw, run->cx, run->module, fn, &q);
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    ptrmap_deinit(&q.known);
    ptrmap_deinit(&q.inputs);
    return expr_as_function(now);
}

static Function *annotate(PassRun *run, const Def *def)
{
    return rewrite_function(run, def, annotate_node);
}

static Function *realise(PassRun *run, const Def *def)
{
    return rewrite_function(run, def, realise_node);
}

static bool one_of(const PassRun *run, const char *key, const char *a, const char *b)
{
    Str written = attrs_string(run->params, key);
    if (str_eq(written, str_of(a)) || str_eq(written, str_of(b)))
        return true;
    diag_error(run->cx->diags, E0603_PIPELINE, run->where, "`%s` cannot be `%.*s`", key,
               (int)written.len, written.ptr);
    return false;
}

static bool bits_in_range(const PassRun *run, const char *key)
{
    int64_t bits = attrs_int(run->params, key, 8);
    if (bits >= 2 && bits <= 16)
        return true;
    diag_error(run->cx->diags, E0603_PIPELINE, run->where, "`%s` is from 2 to 16", key);
    return false;
}

static bool quantize(PassRun *run, Module *old)
{
    if (!one_of(run, "calibrate_mode", "global_scale", "global_scale") ||
        !one_of(run, "weight_scale", "power2", "max") || !bits_in_range(run, "nbit_input") ||
        !bits_in_range(run, "nbit_weight"))
        return false;
    static const Pass annotating = {.name = "quantize", .needs_types = true, .function = annotate};
    static const Pass realising = {.name = "quantize", .needs_types = true, .function = realise};
    Module *m = pass_run_inner(
        run, old, "SimplifyInference,FoldConstant,FoldScaleAxis,CanonicalizeOps,FoldConstant");
    const Pass *rows[] = {&annotating, &realising};
    size_t n = attrs_bool(run->params, "do_simulation") ? 1 : 2;
    for (size_t i = 0; m && i < n; i++) {
        Module *now = pass_run_row(run, m, rows[i]);
        module_release(m);
        m = now;
    }
    Module *folded = m ? pass_run_inner(run, m, "FoldConstant") : NULL;
    module_release(m);
    if (folded)
        pass_take(run, folded);
    module_release(folded);
    return folded != NULL;
}

static const AttrValue first_layer[] = {{.kind = ATTR_INT, .i = 0}};

static const OpAttr params[] = {
    {"nbit_input", ATTR_TYPE_INT, .otherwise = ATTR_DEFAULT_INT(8), .doc = "bits of an input"},
    {"nbit_weight", ATTR_TYPE_INT, .otherwise = ATTR_DEFAULT_INT(8), .doc = "bits of a weight"},
    {"dtype_input", ATTR_TYPE_DTYPE, .otherwise = ATTR_DEFAULT_STRING("int8"),
     .doc = "the type that holds inputs"},
    {"dtype_weight", ATTR_TYPE_DTYPE, .otherwise = ATTR_DEFAULT_STRING("int8"),
     .doc = "the type that holds weights"},
    {"dtype_activation", ATTR_TYPE_DTYPE, .otherwise = ATTR_DEFAULT_STRING("int32"),
     .doc = "the type that holds sums"},
    {"calibrate_mode", ATTR_TYPE_STRING, .otherwise = ATTR_DEFAULT_STRING("global_scale"),
     .doc = "where scales of inputs come from: `global_scale`"},
    {"global_scale", ATTR_TYPE_FLOAT, .otherwise = ATTR_DEFAULT_FLOAT(8),
     .doc = "the largest number that inputs can be"},
    {"weight_scale", ATTR_TYPE_STRING, .otherwise = ATTR_DEFAULT_STRING("power2"),
     .doc = "the largest number that weights can be: `power2`, the next power of two, or `max`"},
    {"skip_dense_layer", ATTR_TYPE_BOOL, .otherwise = ATTR_DEFAULT_BOOL(true),
     .doc = "`nn.dense` stays on reals"},
    {"skip_conv_layers", ATTR_TYPE_INTS, .otherwise = ATTR_DEFAULT_LIST(first_layer),
     .doc = "the convolutions that stay on reals, counted from 0"},
    {"do_simulation", ATTR_TYPE_BOOL, .otherwise = ATTR_DEFAULT_BOOL(false),
     .doc = "annotates alone"},
    {"round_for_shift", ATTR_TYPE_BOOL, .otherwise = ATTR_DEFAULT_BOOL(true),
     .doc = "shifts to the right round"},
    {0},
};

const Pass pass_quantize = {
    .name = "quantize",
    .doc = "Computes convolutions and what follows them on small integers.",
    .opt_level = 0,
    .needs_types = true,
    .other_values = true,
    .params = params,
    .module = quantize,
};
