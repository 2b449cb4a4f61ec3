/* Computes convolutions and what follows them on small integers in place of reals.
 *
 *     nn.conv2d(%x, W)
 *  => annotation.stop_fusion(annotation.cast_hint(nn.conv2d(%x, W), dtype="int8"))          (partitioned)
 *     %0 = relay.op.annotation.simulated_quantize(%x, 0.0625f, -127f, 127f, kind=1);        (annotated)
 *     %1 = nn.conv2d(%0, relay.op.annotation.simulated_quantize(W, …, kind=2)); …
 *  => %0 = cast(clip(round(%x * 16f), a_min=-127f, a_max=127f), dtype="int8");              (realised)
 *     %1 = nn.conv2d(%0, W as int8, out_dtype="int32"); %2 = right_shift(%1 + 32, 6); …
 *
 * Partitioning says where results become small and fusion ends: behind a convolution and what is done to its elements at
 * once. Annotating puts a simulated operator where reals become multiples of a scale. Realising replaces the simulated
 * operators and what stands between them. In each of the three, what has no rule takes its operands as others see them. */
#include "passes/calibrate.h"
#include "passes/conversions.h"
#include "passes/facts.h"
#include "passes/fold.h"
#include "passes/qnn_lower.h"
#include "passes/types.h"

#include <math.h>
#include <string.h>

typedef enum Kind { KIND_NONE, KIND_INPUT, KIND_WEIGHT, KIND_ACTIVATION } Kind;

/* What is known of an expression that a rule made. */
typedef struct Known {
    Expr *raw;   /* partitioning: before it was made small for others */
    Kind kind;   /* annotating */
    Expr *data;  /* realising: the integers, as reals or integers of `dtype` */
    double scale;
    DType dtype;
} Known;

typedef struct Quantizer {
    PassRun *run;
    OpsMake m;
    PtrMap known;                       /* expression -> Known */
    PtrMap simulated[KIND_ACTIVATION + 1]; /* expression -> its simulated quantisation */
    Places uses;
    int64_t convolutions; /* so far */
    bool stopped;         /* nothing more is annotated */
    const Call *old;
} Quantizer;

static const DType real = {DTYPE_CODE_FLOAT, 32, 1};

static Attr attr_float(const char *key, double v)
{
    return (Attr){.key = key, .value = {.kind = ATTR_FLOAT, .f = v}};
}

static Expr *clip(const OpsMake *m, Expr *e, double low, double high)
{
    Attr attrs[2] = {attr_float("a_min", low), attr_float("a_max", high)};
    return ops_call(m, "clip", 1, &e, 2, attrs);
}

/* The call with other arguments; without y, of x alone. */
static Expr *with_args(Quantizer *q, const Call *call, Expr *x, Expr *y)
{
    Expr *args[2] = {x, y};
    return x && (y || call->args.n == 1)
               ? expr_call(q->m.arena, q->m.span, call->callee, call->args.n, args, call->attrs)
               : NULL;
}

static Expr *note(Quantizer *q, Expr *e, Known what)
{
    Known *known = arena_new(&q->run->scratch, Known);
    *known = what;
    if (e)
        ptrmap_put(&q->known, e, known);
    return e;
}

static DType dtype_param(const Quantizer *q, const char *key)
{
    return attrs_dtype(q->run->params, key);
}

static bool is_constant(const Expr *e)
{
    return e->kind == EXPR_CONSTANT;
}

/* ---- partitioning ----------------------------------------------------------------------------------------------------- */

static Expr *small(Quantizer *q, Expr *raw)
{
    Attr attr = ops_attr_dtype(&q->m, "dtype", dtype_param(q, "dtype_input"));
    Expr *hint = ops_call(&q->m, "annotation.cast_hint", 1, &raw, 1, &attr);
    return hint ? ops_call1(&q->m, "annotation.stop_fusion", hint) : NULL;
}

/* Rules see what the part is; others see it small. */
static Expr *part(Quantizer *q, Expr *raw)
{
    return raw ? note(q, small(q, raw), (Known){.raw = raw}) : NULL;
}

static Expr *raw_of(const Quantizer *q, const Expr *e)
{
    const Known *k = ptrmap_find(&q->known, e);
    return k ? k->raw : NULL;
}

/* Made small for this place. */
static Expr *made_small(Quantizer *q, Expr *e)
{
    Expr *raw = raw_of(q, e);
    return raw ? small(q, raw) : e;
}

static Expr *partition_product(Quantizer *q, const Call *call)
{
    return part(q, with_args(q, call, made_small(q, call->args.at[0]), call->args.at[1]));
}

static Expr *partition_same(Quantizer *q, const Call *call)
{
    Expr *raw = raw_of(q, call->args.at[0]);
    return raw ? part(q, with_args(q, call, raw, NULL)) : NULL;
}

static Expr *partition_add(Quantizer *q, const Call *call)
{
    Expr *x = call->args.at[0], *y = call->args.at[1];
    Expr *raw_x = raw_of(q, x), *raw_y = raw_of(q, y);
    if (raw_x && raw_y)
        return part(q, with_args(q, call, small(q, raw_x), small(q, raw_y)));
    if (raw_x && is_constant(y))
        return part(q, with_args(q, call, raw_x, y));
    return raw_x || raw_y ? with_args(q, call, made_small(q, x), made_small(q, y)) : NULL;
}

static Expr *partition_multiply(Quantizer *q, const Call *call)
{
    Expr *x = raw_of(q, call->args.at[0]), *y = raw_of(q, call->args.at[1]);
    return x ? part(q, with_args(q, call, small(q, x), y ? y : call->args.at[1])) : NULL;
}

static Expr *partition_mean(Quantizer *q, const Call *call)
{
    Expr *raw = raw_of(q, call->args.at[0]);
    return with_args(q, call, small(q, raw ? raw : call->args.at[0]), NULL);
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

/* Where no samples say it, inputs reach as far as `global_scale`. */
static bool calibrates(const PassRun *run)
{
    return calibrate_is_mode(attrs_string(run->params, "calibrate_mode"));
}

static const PassRule decisions[] = {
    {"quantised", "{at} is taken as {a}: {b}"},
    {0},
};

static int64_t bits_of(const PassRun *run, Kind kind)
{
    static const char *const bits[] = {NULL, "nbit_input", "nbit_weight", "nbit_activation"};
    return attrs_int(run->params, bits[kind], 8);
}

static double range_of(const PassRun *run, Kind kind)
{
    return exp2((double)bits_of(run, kind) - 1);
}

static void tell(const PassRun *run, const Expr *e, Kind kind, double scale, int64_t bits)
{
    static const char *const kinds[] = {NULL, "an input", "a weight", "a sum"};
    Buf words = {0};
    if (!run->context->decided)
        return;
    double range = exp2((double)bits - 1);
    buf_printf(&words, "%lld bits, from %g to %g, in steps of %g", (long long)bits,
               -(range - 1) * scale / range, (range - 1) * scale / range, scale / range);
    pass_decides(
        run, (PassEvent){.rule = &decisions[0], .at = e, .a = kinds[kind], .b = buf_text(&words)});
    buf_deinit(&words);
}

/* An expression is simulated once as each kind. */
static Expr *simulate(Quantizer *q, Expr *e, Kind kind)
{
    const Op *op = expr_call_of_op(e);
    if (op && !strcmp(op->name, "relay.op.annotation.simulated_quantize") &&
        attrs_int(expr_as_call(e)->attrs, "kind", 0) == (int64_t)kind)
        return e;
    Expr *made = ptrmap_find(&q->simulated[kind], e);
    if (made)
        return made;
    const Attrs *params = q->run->params;
    double scale = kind == KIND_WEIGHT ? weight_scale(q, expr_as_constant(e))
                                       : attrs_float(params, "global_scale");
    double range = range_of(q->run, kind);
    Expr *args[4] = {e, ops_constant(&q->m, real, scale / range),
                     ops_constant(&q->m, real, -(range - 1)), ops_constant(&q->m, real, range - 1)};
    if (kind == KIND_WEIGHT || !calibrates(q->run))
        tell(q->run, e, kind, scale, bits_of(q->run, kind));
    Attr attr = ops_attr_int("kind", kind);
    made = ops_call(&q->m, "relay.op.annotation.simulated_quantize", 4, args, 1, &attr);
    if (made)
        ptrmap_put(&q->simulated[kind], e, made);
    return made;
}

typedef struct Operand {
    Expr *e;
    Kind kind;
} Operand;

/* A child of `old` that became e. What several places take is an input to each. */
static Operand operand_of(Quantizer *q, const Expr *old, Expr *e)
{
    const Known *k = ptrmap_find(&q->known, e);
    Kind kind = k ? k->kind : KIND_NONE;
    if (kind == KIND_NONE || times_used(&q->uses, old) < 2)
        return (Operand){e, kind};
    return (Operand){simulate(q, e, KIND_INPUT), KIND_INPUT};
}

static Operand operand(Quantizer *q, const Call *call, uint32_t i)
{
    return operand_of(q, q->old->args.at[i], call->args.at[i]);
}

static Expr *annotated(Quantizer *q, Expr *e, Kind kind)
{
    return note(q, e, (Known){.kind = kind});
}

static Expr *as_input(Quantizer *q, Operand x)
{
    return x.kind == KIND_NONE || x.kind == KIND_ACTIVATION ? simulate(q, x.e, KIND_INPUT) : x.e;
}

static Expr *as_constant_or_input(Quantizer *q, Expr *e)
{
    return simulate(q, e, is_constant(e) ? KIND_WEIGHT : KIND_INPUT);
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

/* A halving of the steps, seven times at most, keeps 7 bits of room in sums. */
enum { HALVINGS = 7 };

/* The halving of the steps with which the squares of what is lost of these numbers are least. */
static int halvings_of(const float *at, int64_t n, double step, double range)
{
    double least = INFINITY;
    int best = 0;
    for (int k = 0; k <= HALVINGS; k++) {
        double unit = ldexp(step, -k), lost = 0;
        for (int64_t i = 0; i < n; i++) {
            double units = fmax(-(range - 1), fmin(round(at[i] / unit), range - 1));
            lost += (at[i] - units * unit) * (at[i] - units * unit);
        }
        if (lost < least) {
            least = lost;
            best = k;
        }
    }
    return best;
}

/* The weights of each channel times the power of two that makes the most of the integers, and in `back` what undoes that behind the
 * product, broadcast over the `behind` axes behind the channels. NULL: the weights stay as they are. */
static Expr *by_channel(Quantizer *q, const Constant *w, int behind, Expr **back)
{
    TensorView v;
    Limits *limits = &q->run->cx->limits;
    if (!str_is(attrs_string(q->run->params, "calibrate_mode"), "mean_square") ||
        !value_view(&w->value, &v) || v.t.rank < 2 || !dtype_eq(v.t.dtype, real) ||
        v.t.shape[0] < 1)
        return NULL;
    int64_t shape[4] = {v.t.shape[0], 1, 1, 1}, each = v.t.size / v.t.shape[0];
    double range = range_of(q->run, KIND_WEIGHT), step = weight_scale(q, w) / range;
    Tensor *given = value_to_tensor(limits, w->value), *own = NULL;
    Tensor *scaled = given ? tensor_contiguous(limits, given) : NULL;
    if (scaled)
        own = tensor_new_raw(limits, real, v.t.rank, v.t.shape);
    Tensor *undo = tensor_new_raw(limits, real, behind + 1, shape);
    for (int64_t c = 0; own && undo && c < shape[0]; c++) {
        const float *from = (const float *)(void *)scaled->data + c * each;
        int k = halvings_of(from, each, step, range);
        for (int64_t i = 0; i < each; i++)
            ((float *)(void *)own->data)[c * each + i] = ldexpf(from[i], k);
        ((float *)(void *)undo->data)[c] = ldexpf(1, -k);
    }
    Expr *made = NULL;
    if (own && undo) {
        Value values[2] = {value_tensor(tensor_retain(own)), value_tensor(tensor_retain(undo))};
        made = expr_constant(q->m.arena, w->base.span, values[0]);
        *back = expr_constant(q->m.arena, w->base.span, values[1]);
        value_release(values[0]);
        value_release(values[1]);
    }
    Tensor *all[] = {given, scaled, own, undo};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_release(all[i]);
    return made;
}

/* How many axes of the result lie behind the channels that the weights have first; below 0: they do not have them there. */
static int axes_behind_channels(const Call *call)
{
    const char *op = expr_call_of_op(&call->base)->name;
    const AttrValue *data = attrs_find(call->attrs, "data_layout"),
                    *kernel = attrs_find(call->attrs, "kernel_layout");
    if (!strcmp(op, "nn.dense"))
        return 0;
    bool plain = data && kernel && data->kind == ATTR_STRING && kernel->kind == ATTR_STRING;
    if (plain && str_is(data->s, "NCHW") && str_is(kernel->s, "OIHW"))
        return 2;
    return plain && str_is(data->s, "NCW") && str_is(kernel->s, "OIW") ? 1 : -1;
}

static Expr *annotate_product(Quantizer *q, const Call *call)
{
    Operand x = operand(q, call, 0), w = operand(q, call, 1);
    if (w.kind != KIND_NONE || !is_constant(w.e))
        return NULL;
    int behind = axes_behind_channels(call);
    Expr *back = NULL,
         *scaled = behind >= 0 ? by_channel(q, expr_as_constant(w.e), behind, &back) : NULL;
    Expr *data = as_input(q, x), *weight = simulate(q, scaled ? scaled : w.e, KIND_WEIGHT);
    Expr *made = with_args(q, call, data, weight);
    if (made && scaled)
        made = ops_call2(&q->m, "multiply", made, back);
    return annotated(q, made, KIND_ACTIVATION);
}

static Expr *annotate_conv2d(Quantizer *q, const Call *call)
{
    return is_skipped(q) ? NULL : annotate_product(q, call);
}

static Expr *annotate_dense(Quantizer *q, const Call *call)
{
    return attrs_bool(q->run->params, "skip_dense_layer") ? NULL : annotate_product(q, call);
}

static Expr *as_factor(Quantizer *q, Operand x)
{
    return x.kind == KIND_INPUT ? x.e : as_constant_or_input(q, x.e);
}

static Expr *annotate_batch_matmul(Quantizer *q, const Call *call)
{
    Expr *x = as_factor(q, operand(q, call, 0)), *y = as_factor(q, operand(q, call, 1));
    return annotated(q, with_args(q, call, x, y), KIND_ACTIVATION);
}

/* A sum is larger than its operands: it is made small again before it is an input. */
static Expr *annotate_add(Quantizer *q, const Call *call)
{
    Operand x = operand(q, call, 0), y = operand(q, call, 1);
    Kind kind = KIND_ACTIVATION;
    if (x.kind == KIND_NONE && y.kind == KIND_NONE)
        return NULL;
    if (x.kind == KIND_NONE) {
        x.e = simulate(q, x.e, KIND_INPUT);
        kind = KIND_INPUT;
    } else if (y.kind == KIND_NONE) {
        y.e = as_constant_or_input(q, y.e);
    } else if (y.kind == KIND_ACTIVATION && x.kind == KIND_ACTIVATION) {
        y.e = simulate(q, y.e, KIND_INPUT);
    } else if (y.kind == KIND_INPUT && x.kind == KIND_INPUT) {
        kind = KIND_INPUT;
    }
    return annotated(q, with_args(q, call, x.e, y.e), kind);
}

static Expr *annotate_multiply(Quantizer *q, const Call *call)
{
    Operand x = operand(q, call, 0), y = operand(q, call, 1);
    if (x.kind == KIND_NONE || y.kind != KIND_NONE)
        return NULL;
    Expr *data = as_input(q, x), *factor = as_constant_or_input(q, y.e);
    return annotated(q, with_args(q, call, data, factor), KIND_ACTIVATION);
}

static Expr *annotate_same(Quantizer *q, const Call *call)
{
    Operand x = operand(q, call, 0);
    return x.kind ? annotated(q, with_args(q, call, x.e, NULL), x.kind) : NULL;
}

static Expr *annotate_max(Quantizer *q, const Call *call)
{
    Operand x = operand(q, call, 0);
    return x.kind ? annotated(q, with_args(q, call, as_input(q, x), NULL), KIND_INPUT) : NULL;
}

static Expr *annotate_hint(Quantizer *q, const Call *call)
{
    return operand(q, call, 0).kind ? annotate_max(q, call) : call->args.at[0];
}

static Expr *annotate_concatenate(Quantizer *q, const Call *call)
{
    const Tuple *tuple = expr_as_tuple(call->args.at[0]), *old = expr_as_tuple(q->old->args.at[0]);
    bool any = false;
    if (!tuple || !old)
        return NULL;
    Expr **fields = arena_alloc_must(q->m.arena, tuple->fields.n + 1, sizeof *fields);
    for (uint32_t i = 0; i < tuple->fields.n; i++) {
        const Known *k = ptrmap_find(&q->known, tuple->fields.at[i]);
        any |= k != NULL;
        fields[i] = tuple->fields.at[i];
    }
    for (uint32_t i = 0; any && i < tuple->fields.n; i++)
        if (!ptrmap_find(&q->known, fields[i]))
            fields[i] = simulate(q, fields[i], KIND_ACTIVATION);
    Expr *joined = expr_tuple(q->m.arena, q->m.span, tuple->fields.n, fields);
    return any ? annotated(q, with_args(q, call, joined, NULL), KIND_ACTIVATION) : NULL;
}

/* What follows a mean over all places works on reals. */
static Expr *annotate_stop(Quantizer *q, const Call *call)
{
    Operand x = operand(q, call, 0);
    if (!x.kind)
        return NULL;
    q->stopped = true;
    return with_args(q, call, x.e, NULL);
}

/* Without a rule: the operands, those with several users as inputs. */
static Expr *annotate_plain(Quantizer *q, const Expr *old, Expr *now)
{
    const ExprList *was = old->kind == EXPR_CALL    ? &expr_as_call(old)->args
                          : old->kind == EXPR_TUPLE ? &expr_as_tuple(old)->fields
                                                    : NULL;
    if (!was || now->kind != old->kind)
        return now;
    const Call *call = expr_as_call(now);
    const ExprList *list = call ? &call->args : &expr_as_tuple(now)->fields;
    Expr **at = arena_alloc_must(q->m.arena, list->n + 1, sizeof *at);
    bool changed = false;
    for (uint32_t i = 0; i < list->n; i++) {
        Operand x = operand_of(q, was->at[i], list->at[i]);
        at[i] = x.e;
        changed |= x.e != list->at[i];
        if (x.e != list->at[i] && !call)
            annotated(q, x.e, x.kind);
    }
    if (!changed)
        return now;
    return call ? expr_call(q->m.arena, q->m.span, call->callee, list->n, at, call->attrs)
                : expr_tuple(q->m.arena, q->m.span, list->n, at);
}

/* ---- realising -------------------------------------------------------------------------------------------------------- */

/* The reals that the integers stand for, which knows them; rules go on with the integers. */
static Expr *realised(Quantizer *q, Expr *data, double scale, DType dtype)
{
    if (!data)
        return NULL;
    Expr *e =
        ops_call2(&q->m, "multiply", ops_cast(&q->m, data, real), ops_constant(&q->m, real, scale));
    return note(q, e, (Known){.data = data, .scale = scale, .dtype = dtype});
}

static const Known *integers(Quantizer *q, const Call *call, uint32_t i)
{
    return ptrmap_find(&q->known, call->args.at[i]);
}

static Expr *in_dtype(Quantizer *q, const Known *k, DType dtype)
{
    return dtype_eq(k->dtype, dtype) ? k->data : ops_cast(&q->m, k->data, dtype);
}

static Expr *times(Quantizer *q, Expr *e, double factor)
{
    Lower l = {.m = q->m};
    bool upward = str_eq(attrs_string(q->run->params, "rounding"), str_of("UPWARD"));
    return qnn_multiply_fixed(&l, e, expr_tensor_type(&q->old->base), 0, 1, &factor, upward);
}

static bool is_whole(double v)
{
    return v == trunc(v);
}

/* Sums of one scale as those of another, that is not above it. */
static Expr *finer(Quantizer *q, Expr *e, double from, double to)
{
    DType sums = dtype_param(q, "dtype_activation");
    double factor = (float)from / (float)to, shift = log2f((float)factor);
    if ((float)from == (float)to)
        return e;
    if (is_whole(shift))
        return ops_call2(&q->m, "left_shift", e, ops_constant(&q->m, sums, shift));
    if (is_whole(factor))
        return ops_call2(&q->m, "multiply", e, ops_constant(&q->m, sums, factor));
    return ops_cast(&q->m, times(q, e, factor), sums);
}

/* Integers of one scale as those of another, and no greater than a bound. */
static Expr *rescale(Quantizer *q, const Known *k, double to, double low, double high)
{
    DType sums = dtype_param(q, "dtype_activation");
    float shift = log2f((float)to / (float)k->scale);
    Expr *e = k->data;
    if ((float)k->scale == (float)to)
        return clip(&q->m, e, low, high);
    if (!is_whole(shift)) {
        e = times(q, ops_cast(&q->m, e, (DType){DTYPE_CODE_INT, 64, 1}),
                  (float)k->scale / (float)to);
        return ops_cast(&q->m, clip(&q->m, e, low, high), k->dtype);
    }
    if (shift > 0 && attrs_bool(q->run->params, "round_for_shift"))
        e = ops_call2(&q->m, "add", e, ops_constant(&q->m, sums, exp2(shift - 1)));
    e = ops_call2(&q->m, shift > 0 ? "right_shift" : "left_shift", e,
                  ops_constant(&q->m, sums, fabsf(shift)));
    return clip(&q->m, e, low, high);
}

static bool scalar_of(const Expr *e, double *out)
{
    return qnn_constant_number(e, out);
}

static Expr *realise_simulated(Quantizer *q, const Call *call)
{
    double scale, low, high;
    if (!scalar_of(call->args.at[1], &scale) || !scalar_of(call->args.at[2], &low) ||
        !scalar_of(call->args.at[3], &high))
        return NULL;
    const Known *k = integers(q, call, 0);
    if (k && !dtype_eq(k->dtype, real))
        return realised(q, rescale(q, k, scale, low, high), scale, k->dtype);
    Expr *data = k && (float)k->scale == (float)scale
                     ? k->data
                     : ops_call1(&q->m, "round",
                                 ops_call2(&q->m, "multiply", call->args.at[0],
                                           ops_constant(&q->m, real, 1 / scale)));
    return realised(q, clip(&q->m, data, low, high), scale, real);
}

static Expr *realise_product(Quantizer *q, const Call *call)
{
    const Known *x = integers(q, call, 0), *w = integers(q, call, 1);
    if (!x || !w)
        return NULL;
    DType sums = dtype_param(q, "dtype_activation");
    Call now = *call;
    now.attrs = attrs_with(q->m.arena, call->attrs, "out_dtype",
                           ops_attr_dtype(&q->m, "out_dtype", sums).value);
    Expr *made = with_args(q, &now, in_dtype(q, x, dtype_param(q, "dtype_input")),
                           in_dtype(q, w, dtype_param(q, "dtype_weight")));
    return realised(q, made, x->scale * w->scale, sums);
}

static bool is_input(const Expr *e)
{
    const Op *op = expr_call_of_op(e);
    return op && !strcmp(op->name, "relay.op.annotation.simulated_quantize") &&
           attrs_int(expr_as_call(e)->attrs, "kind", 0) == KIND_INPUT;
}

/* In the type of its neighbours; what was an input stays on its side of a border of fusion. */
static Expr *unified(Quantizer *q, const Expr *old, const Known *k, DType dtype)
{
    if (!dtype_eq(k->dtype, dtype) || !is_input(old))
        return in_dtype(q, k, dtype);
    Expr *e = ops_cast(&q->m, k->data, dtype_param(q, "dtype_input"));
    return ops_cast(&q->m, ops_call1(&q->m, "annotation.stop_fusion", e), dtype);
}

static Expr *realise_add(Quantizer *q, const Call *call)
{
    DType sums = dtype_param(q, "dtype_activation");
    const Known *k[2] = {integers(q, call, 0), integers(q, call, 1)};
    Expr *args[2];
    if (!k[0] || !k[1])
        return NULL;
    double scale = fmin(k[0]->scale, k[1]->scale);
    for (uint32_t i = 0; i < 2; i++) {
        args[i] = finer(q, unified(q, q->old->args.at[i], k[i], sums), k[i]->scale, scale);
        if (dtype_eq(k[i]->dtype, real))
            args[i] = ops_call1(&q->m, "annotation.stop_fusion", args[i]);
    }
    return realised(q, with_args(q, call, args[0], args[1]), scale, sums);
}

/* Sums times powers of two, none above 1: shifts to the left of what is told in steps as fine as the least of them. NULL: they are none. */
static Expr *realise_halvings(Quantizer *q, const Known *x, const Constant *by)
{
    TensorView v;
    DType sums = dtype_param(q, "dtype_activation");
    if (!by || !value_view(&by->value, &v) || v.t.rank > TENSOR_RANK_MOST)
        return NULL;
    int most = 0, exponent;
    for (int64_t i = 0; i < v.t.size; i++) {
        double factor = tensor_get_double(&v.t, i);
        if (!(factor > 0) || frexp(factor, &exponent) != 0.5 || exponent > 1 ||
            1 - exponent > HALVINGS)
            return NULL;
        most = 1 - exponent > most ? 1 - exponent : most;
    }
    Tensor *shifts = tensor_new_raw(&q->run->cx->limits, real, v.t.rank, v.t.shape);
    for (int64_t i = 0; shifts && i < v.t.size; i++) {
        frexp(tensor_get_double(&v.t, i), &exponent);
        ((float *)(void *)shifts->data)[i] = (float)(most - (1 - exponent));
    }
    if (!shifts)
        return NULL;
    Value value = value_tensor(shifts);
    Expr *by_these = ops_cast(&q->m, expr_constant(q->m.arena, by->base.span, value), sums);
    value_release(value);
    return realised(q, ops_call2(&q->m, "left_shift", x->data, by_these), ldexp(x->scale, -most),
                    sums);
}

static Expr *realise_multiply(Quantizer *q, const Call *call)
{
    const Known *x = integers(q, call, 0), *y = integers(q, call, 1);
    DType sums = dtype_param(q, "dtype_activation");
    if (x && !y && dtype_eq(x->dtype, sums))
        return realise_halvings(q, x, expr_as_constant(call->args.at[1]));
    if (!x || !y)
        return NULL;
    Expr *made = with_args(q, call, in_dtype(q, x, sums), in_dtype(q, y, sums));
    return realised(q, made, x->scale * y->scale, sums);
}

static Expr *realise_same(Quantizer *q, const Call *call)
{
    const Known *x = integers(q, call, 0);
    return x ? realised(q, with_args(q, call, x->data, NULL), x->scale, x->dtype) : NULL;
}

static Expr *realise_clip(Quantizer *q, const Call *call)
{
    const Known *x = integers(q, call, 0);
    if (!x)
        return NULL;
    Expr *made = clip(&q->m, x->data, attrs_float(call->attrs, "a_min") / x->scale,
                      attrs_float(call->attrs, "a_max") / x->scale);
    return realised(q, made, x->scale, x->dtype);
}

static Expr *realise_max(Quantizer *q, const Call *call)
{
    const Known *x = integers(q, call, 0);
    DType dtype = dtype_param(q, "dtype_input");
    if (!x)
        return NULL;
    return realised(q, with_args(q, call, ops_cast(&q->m, x->data, dtype), NULL), x->scale, dtype);
}

static Expr *realise_mean(Quantizer *q, const Call *call)
{
    const Known *x = integers(q, call, 0);
    DType sums = dtype_param(q, "dtype_activation");
    return x ? realised(q, with_args(q, call, in_dtype(q, x, sums), NULL), x->scale, sums) : NULL;
}

static Expr *realise_hint(Quantizer *q, const Call *call)
{
    const Known *x = integers(q, call, 0);
    DType dtype = attrs_dtype(call->attrs, "dtype");
    return x ? realised(q, ops_cast(&q->m, x->data, dtype), x->scale, dtype) : NULL;
}

/* Of two, the finer scale; of another number, that of sums. */
static double joined_scale(const Quantizer *q, uint32_t n, const Known *const *k)
{
    const Attrs *a = q->run->params;
    return n == 2 ? fmin(k[0]->scale, k[1]->scale)
                  : attrs_float(a, "global_scale") /
                        exp2((double)attrs_int(a, "nbit_activation", 32) - 1);
}

static Expr *realise_concatenate(Quantizer *q, const Call *call)
{
    const Tuple *tuple = expr_as_tuple(call->args.at[0]), *old = expr_as_tuple(q->old->args.at[0]);
    uint32_t n = tuple && old ? tuple->fields.n : 0;
    const Known **k = arena_alloc_must(&q->run->scratch, n + 1, sizeof *k);
    Expr **fields = arena_alloc_must(&q->run->scratch, n + 1, sizeof *fields);
    for (uint32_t i = 0; i < n; i++) {
        k[i] = ptrmap_find(&q->known, tuple->fields.at[i]);
        if (!k[i])
            return NULL;
    }
    if (!n)
        return NULL;
    DType in = dtype_param(q, "dtype_input"), dtype = dtype_param(q, "dtype_activation");
    double scale = joined_scale(q, n, k);
    /* The finer scale of two would not fit the small type. */
    if (n == 2 && dtype_eq(k[0]->dtype, in) && dtype_eq(k[1]->dtype, in) &&
        (float)k[0]->scale == (float)k[1]->scale)
        dtype = in;
    for (uint32_t i = 0; i < n; i++)
        fields[i] = finer(q, unified(q, old->fields.at[i], k[i], dtype), k[i]->scale, scale);
    Expr *all = expr_tuple(q->m.arena, q->m.span, n, fields);
    return realised(q, with_args(q, call, all, NULL), scale, dtype);
}

/* ---- the rules -------------------------------------------------------------------------------------------------------- */

/* NULL: the operator has no rule, or the rule does not hold there. */
typedef Expr *QuantizeFn(Quantizer *q, const Call *call);

enum { PARTITION, ANNOTATE, REALISE, STEPS };

typedef struct QuantizeRule {
    const char *op;
    QuantizeFn *step[STEPS];
} QuantizeRule;

static const QuantizeRule rules[] = {
    {"nn.conv2d", {partition_product, annotate_conv2d, realise_product}},
    {"nn.conv1d", {NULL, annotate_product, realise_product}},
    {"nn.dense", {NULL, annotate_dense, realise_product}},
    {"nn.batch_matmul", {NULL, annotate_batch_matmul, realise_product}},
    {"add", {partition_add, annotate_add, realise_add}},
    {"multiply", {partition_multiply, annotate_multiply, realise_multiply}},
    {"nn.relu", {partition_same, annotate_same, realise_same}},
    {"clip", {partition_same, annotate_same, realise_clip}},
    {"nn.max_pool2d", {partition_same, annotate_max, realise_max}},
    {"nn.max_pool1d", {NULL, annotate_max, realise_max}},
    {"nn.avg_pool2d", {NULL, annotate_same, realise_mean}},
    {"nn.global_avg_pool2d", {partition_mean, annotate_stop, realise_mean}},
    {"concatenate", {NULL, annotate_concatenate, realise_concatenate}},
    {"reshape", {NULL, annotate_same, realise_same}},
    {"strided_slice", {NULL, annotate_same, realise_same}},
    {"nn.batch_flatten", {NULL, annotate_same, realise_same}},
    {"transpose", {NULL, annotate_same, realise_same}},
    {"annotation.stop_fusion", {NULL, annotate_same, realise_same}},
    {"annotation.cast_hint", {NULL, annotate_hint, realise_hint}},
    {"relay.op.annotation.simulated_quantize", {NULL, NULL, realise_simulated}},
};

static QuantizeFn *rule_of(const Expr *old, const Expr *now, int step)
{
    const Op *op = expr_call_of_op(now);
    const Type *t = op ? expr_tensor_type(old) : NULL;
    for (size_t i = 0; t && dtype_eq(t->dtype, real) && i < sizeof rules / sizeof *rules; i++)
        if (!strcmp(op->name, rules[i].op) && expr_as_call(now)->args.n <= 4)
            return rules[i].step[step];
    return NULL;
}

static Expr *by_rule(Rewriter *rw, const Expr *old, Expr *now, int step)
{
    Quantizer *q = rw->data;
    q->m = (OpsMake){rw->cx, &rw->module->arena, now->span};
    q->old = expr_as_call(old);
    QuantizeFn *rule = rule_of(old, now, step);
    return rule ? rule(q, expr_as_call(now)) : NULL;
}

static Expr *partition_node(Rewriter *rw, const Expr *old, Expr *now)
{
    expr_keep_type(now, old);
    Expr *made = by_rule(rw, old, now, PARTITION);
    return made ? made : now;
}

static Expr *annotate_node(Rewriter *rw, const Expr *old, Expr *now)
{
    Quantizer *q = rw->data;
    expr_keep_type(now, old);
    q->m = (OpsMake){rw->cx, &rw->module->arena, now->span};
    const Op *op = expr_call_of_op(now);
    bool hint = op && !strcmp(op->name, "annotation.cast_hint");
    if (q->stopped)
        return hint ? expr_as_call(now)->args.at[0] : annotate_plain(q, old, now);
    Expr *made = by_rule(rw, old, now, ANNOTATE);
    return made ? made : annotate_plain(q, old, now);
}

static Expr *realise_node(Rewriter *rw, const Expr *old, Expr *now)
{
    Expr *made = by_rule(rw, old, now, REALISE);
    return made ? made : now;
}

static Function *rewrite_function(PassRun *run, const Def *def, RewriteFn *fn)
{
    Quantizer q = {.run = run};
    Rewriter rw;
    count_uses(&def->fn->base, &run->scratch, &q.uses);
    rewriter_init(&rw, run->cx, run->module, fn, &q);
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    for (Kind kind = KIND_NONE; kind <= KIND_ACTIVATION; kind++)
        ptrmap_deinit(&q.simulated[kind]);
    ptrmap_deinit(&q.known);
    return expr_as_function(now);
}

static Function *partition(PassRun *run, const Def *def)
{
    return rewrite_function(run, def, partition_node);
}

static Function *annotate(PassRun *run, const Def *def)
{
    return rewrite_function(run, def, annotate_node);
}

static Function *realise(PassRun *run, const Def *def)
{
    return rewrite_function(run, def, realise_node);
}

/* Inputs reach as far as the samples say. */
static Expr *reach(Rewriter *rw, const Expr *old, Expr *now)
{
    Quantizer *q = rw->data;
    const double *most = ptrmap_find(&q->known, old);
    const Call *call = expr_as_call(now);
    if (!most)
        return now;
    Kind kind = (Kind)attrs_int(call->attrs, "kind", KIND_INPUT);
    OpsMake m = {rw->cx, &rw->module->arena, now->span};
    Expr *args[4] = {call->args.at[0], ops_constant(&m, real, *most / range_of(q->run, kind)),
                     call->args.at[2], call->args.at[3]};
    tell(q->run, expr_as_call(old)->args.at[0], kind, *most, bits_of(q->run, kind));
    return expr_call(m.arena, m.span, call->callee, 4, args, call->attrs);
}

static Function *reach_samples(PassRun *run, const Def *def)
{
    const Attrs *params = run->params;
    Str path = attrs_string(params, "samples");
    CalibrateWish wish = {.mode = attrs_string(params, "calibrate_mode"),
                          .samples = arena_copy_text(&run->scratch, path.ptr, path.len),
                          .percentile = attrs_float(params, "percentile"),
                          .bits = attrs_int(params, "nbit_input", 8)};
    Quantizer q = {.run = run};
    Expr *now = NULL;
    if (calibrate(run, def, &wish, &q.known)) {
        Rewriter rw;
        rewriter_init(&rw, run->cx, run->module, reach, &q);
        now = ir_rewrite(&rw, &def->fn->base);
        rewriter_deinit(&rw);
    }
    ptrmap_deinit(&q.known);
    return expr_as_function(now);
}

static bool mode_is_known(const PassRun *run)
{
    Str mode = attrs_string(run->params, "calibrate_mode");
    bool samples = attrs_string(run->params, "samples").len > 0, known = calibrates(run);
    if (samples && run->context->written) {
        Diag *file = diag_error(run->cx->diags, E0603_PIPELINE, run->where,
                                "`samples` is a file, and a program opens none");
        diag_help(file, "write this pipeline behind `relay opt -p` or `:pass`");
        return false;
    }
    if (known == samples && (known || str_is(mode, "global_scale")))
        return true;
    Diag *d =
        known     ? diag_error(run->cx->diags, E0603_PIPELINE, run->where,
                               "`%.*s` asks for `samples`, a file of arrays", (int)mode.len, mode.ptr)
        : samples ? diag_error(run->cx->diags, E0603_PIPELINE, run->where,
                               "`samples` say nothing where `calibrate_mode` is `%.*s`",
                               (int)mode.len, mode.ptr)
                  : diag_error(run->cx->diags, E0603_PIPELINE, run->where,
                               "`calibrate_mode` cannot be `%.*s`", (int)mode.len, mode.ptr);
    diag_help(d,
              "`global_scale`, or with `samples` `percentile`, `kl_divergence` or `mean_square`");
    return false;
}

static bool numbers_are_possible(const PassRun *run)
{
    double percentile = attrs_float(run->params, "percentile");
    double scale = attrs_float(run->params, "global_scale");
    if (!(percentile > 0 && percentile <= 1))
        diag_error(run->cx->diags, E0603_PIPELINE, run->where,
                   "`percentile` is more than 0 and at most 1, and this is %g", percentile);
    else if (!(scale > 0 && isfinite(scale)))
        diag_error(run->cx->diags, E0603_PIPELINE, run->where,
                   "`global_scale`, the largest number that inputs can be, is a number above 0, "
                   "and this is %g",
                   scale);
    else
        return true;
    return false;
}

/* What is rounded to some bits, one of which is the sign, would become another number in a type that does not hold them. */
static bool types_hold_bits(const PassRun *run)
{
    static const char *const settings[][2] = {{"nbit_input", "dtype_input"},
                                              {"nbit_weight", "dtype_weight"},
                                              {"nbit_activation", "dtype_activation"}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        DType held = attrs_dtype(run->params, settings[i][1]);
        int bits = (int)attrs_int(run->params, settings[i][0], 0);
        if (dtype_is_int(held) && dtype_is_signed(held) && held.bits >= bits)
            continue;
        Buf type = {0};
        dtype_print(&type, held);
        Diag *d = diag_error(run->cx->diags, E0603_PIPELINE, run->where,
                             "`%s` is %d, and `%s` has no room for signed integers of %d bits",
                             settings[i][0], bits, buf_text(&type), bits);
        diag_help(d, "for instance `%s=\"int%d\"`", settings[i][1],
                  bits > 32   ? 64
                  : bits > 16 ? 32
                  : bits > 8  ? 16
                              : 8);
        buf_deinit(&type);
        return false;
    }
    return true;
}

static bool quantize(PassRun *run, Module *old)
{
    if (!numbers_are_possible(run) || !types_hold_bits(run) || !mode_is_known(run))
        return false;
    static const Pass partitioning = {
        .name = "quantize", .needs_types = true, .function = partition};
    static const Pass annotating = {.name = "quantize", .needs_types = true, .function = annotate};
    static const Pass realising = {.name = "quantize", .needs_types = true, .function = realise};
    Module *m = pass_run_inner(
        run, old, "SimplifyInference,FoldConstant,FoldScaleAxis,CanonicalizeOps,FoldConstant");
    static const Pass reaching = {
        .name = "quantize", .needs_types = true, .function = reach_samples};
    const Pass *rows[] = {&partitioning, &annotating, calibrates(run) ? &reaching : NULL,
                          attrs_bool(run->params, "do_simulation") ? NULL : &realising};
    for (size_t i = 0; m && i < sizeof rows / sizeof *rows; i++) {
        if (!rows[i])
            continue;
        Module *now = pass_run_row(run, m, rows[i]);
        module_release(m);
        m = now;
    }
    Module *folded = m ? pass_run_inner(run, m, "FoldConstant") : NULL;
    module_release(m);
    Str apart = attrs_string(run->params, "partition_conversions");
    if (folded && !str_is(apart, "disabled")) {
        m = folded;
        folded = conversions_apart(run, m, str_is(apart, "fully_integral"));
        module_release(m);
    }
    if (folded)
        pass_take(run, folded);
    module_release(folded);
    return folded != NULL;
}

static const AttrValue first_layer[] = {{.kind = ATTR_INT, .i = 0}};

static const OpAttr params[] = {
    {"nbit_input", ATTR_TYPE_INT, .otherwise = ATTR_DEFAULT_INT(8), .least = 2, .most = 16,
     .doc = "bits of an input"},
    {"nbit_weight", ATTR_TYPE_INT, .otherwise = ATTR_DEFAULT_INT(8), .least = 2, .most = 16,
     .doc = "bits of a weight"},
    {"nbit_activation", ATTR_TYPE_INT, .otherwise = ATTR_DEFAULT_INT(32), .least = 2, .most = 64,
     .doc = "bits of a sum"},
    {"dtype_input", ATTR_TYPE_DTYPE, .otherwise = ATTR_DEFAULT_STRING("int8"),
     .doc = "the type that holds inputs"},
    {"dtype_weight", ATTR_TYPE_DTYPE, .otherwise = ATTR_DEFAULT_STRING("int8"),
     .doc = "the type that holds weights"},
    {"dtype_activation", ATTR_TYPE_DTYPE, .otherwise = ATTR_DEFAULT_STRING("int32"),
     .doc = "the type that holds sums"},
    {"calibrate_mode", ATTR_TYPE_STRING, .otherwise = ATTR_DEFAULT_STRING("global_scale"),
     .doc =
         "how far inputs reach: to `global_scale`, or by samples as far as a `percentile` of their "
         "numbers, where least is lost of their distribution (`kl_divergence`), or of their "
         "squares, of "
         "weights for each channel (`mean_square`)"},
    {"samples", ATTR_TYPE_STRING, .otherwise = ATTR_DEFAULT_STRING(""),
     .doc = "a file of arrays named as the parameters, with an axis in front of the samples"},
    {"percentile", ATTR_TYPE_FLOAT, .otherwise = ATTR_DEFAULT_FLOAT(0.99999),
     .doc = "the share of the numbers that inputs reach"},
    {"global_scale", ATTR_TYPE_FLOAT, .otherwise = ATTR_DEFAULT_FLOAT(8),
     .doc = "the largest number that inputs can be"},
    {"weight_scale", ATTR_TYPE_STRING, .otherwise = ATTR_DEFAULT_STRING("power2"),
     .one_of = (const char *const[]){"power2", "max", NULL},
     .doc = "the largest number that weights can be: `power2`, the next power of two, or `max`"},
    {"skip_dense_layer", ATTR_TYPE_BOOL, .otherwise = ATTR_DEFAULT_BOOL(true),
     .doc = "`nn.dense` stays on reals"},
    {"skip_conv_layers", ATTR_TYPE_INTS, .otherwise = ATTR_DEFAULT_LIST(first_layer),
     .doc = "the convolutions that stay on reals, counted from 0"},
    {"do_simulation", ATTR_TYPE_BOOL, .otherwise = ATTR_DEFAULT_BOOL(false),
     .doc = "annotates alone"},
    {"partition_conversions", ATTR_TYPE_STRING, .otherwise = ATTR_DEFAULT_STRING("disabled"),
     .one_of = (const char *const[]){"disabled", "enabled", "fully_integral", NULL},
     .doc = "`enabled`: `@quantize_inputs`, `@quantized_main` and `@dequantize_outputs` are "
            "functions of their "
            "own; `fully_integral`: and the middle one works on integers alone"},
    {"round_for_shift", ATTR_TYPE_BOOL, .otherwise = ATTR_DEFAULT_BOOL(true),
     .doc = "shifts to the right round"},
    {"rounding", ATTR_TYPE_STRING, .otherwise = ATTR_DEFAULT_STRING("UPWARD"),
     .one_of = (const char *const[]){"UPWARD", "TONEAREST", NULL},
     .doc =
         "how products with other factors round: `UPWARD`, or `TONEAREST`, halves away from zero"},
    {0},
};

const Pass pass_quantize = {
    .name = "quantize",
    .doc = "Computes convolutions and what follows them on small integers.",
    .opt_level = 0,
    .needs_types = true,
    .other_values = true,
    .params = params,
    .rules = decisions,
    .module = quantize,
};
