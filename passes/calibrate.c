#include "passes/calibrate.h"

#include "passes/facts.h"
#include "runtime/params.h"
#include "te/op_eval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of one input that are kept, of all samples; of more, every so manieth of each. */
enum { KEPT_MOST = 1 << 20, SAMPLES_MOST = 1 << 16, ARGS_MOST = 16, BINS = 2048 };

typedef struct Input {
    const Expr *at; /* the simulated quantisation */
    Vec(float) seen; /* sizes of its numbers */
} Input;

typedef struct Sampled {
    const char *name;
    Tensor *all;
} Sampled;

typedef struct Calibrator {
    PassRun *run;
    const Def *def;
    const CalibrateWish *wish;
    Vec(Input *) inputs;
    PtrMap input_of; /* Expr -> Input */
    PtrMap lets; /* Var -> what it is bound to */
    Vec(Sampled) samples;
    int64_t n_samples;
    Vec(const Expr *) order; /* the nodes, operands first */
    PtrMap values; /* Expr -> Value *, of one sample */
    Vec(Value *) made;
} Calibrator;

static Diag *refuse(const Calibrator *c, const char *what, const char *which)
{
    Diag *d = diag_error(c->run->cx->diags, E0603_PIPELINE, c->run->where, "the samples %s `%s`",
                         what, which);
    diag_help(d,
              "`samples` names a file of arrays, each named as a parameter of `@%s` and of its "
              "shape, or with an "
              "axis in front: one sample after the other",
              c->def->name->text);
    return d;
}

/* ---- evaluating --------------------------------------------------------------------------------------------------------------- */

static const Value *value_at(const Calibrator *c, const Expr *e)
{
    for (const Expr *to; e->kind == EXPR_VAR && (to = ptrmap_find(&c->lets, e));)
        e = to;
    return ptrmap_find(&c->values, e);
}

/* Takes the value. */
static void put_value(Calibrator *c, const Expr *e, Value v)
{
    Value *kept = arena_new(&c->run->scratch, Value);
    *kept = v;
    vec_push(&c->made, &c->run->scratch, kept);
    ptrmap_put(&c->values, e, kept);
}

static void collect(Calibrator *c, Input *in, const Value *v)
{
    TensorView view;
    if (!value_view(v, &view))
        return;
    int64_t most = KEPT_MOST / c->n_samples + 1, step = view.t.size / most + 1;
    for (int64_t i = 0; i < view.t.size && !limit_hit_at(&c->run->cx->limits, i); i += step) {
        float x = (float)fabs(tensor_get_double(&view.t, i));
        if (isfinite(x))
            vec_push(&in->seen, &c->run->scratch, x);
    }
}

static Value eval_call(Calibrator *c, const Call *call, const Op *op)
{
    Value args[ARGS_MOST];
    Input *in = ptrmap_find(&c->input_of, call);
    bool simulated = !strcmp(op->name, "relay.op.annotation.simulated_quantize");
    for (uint32_t i = 0; i < call->args.n; i++) {
        const Value *v = i < ARGS_MOST ? value_at(c, call->args.at[i]) : NULL;
        if (!v)
            return value_none();
        args[i] = *v;
    }
    if (in)
        collect(c, in, &args[0]);
    return simulated ? value_retain(args[0])
                     : op_eval(c->run->cx, op, call->attrs, call->base.span, call->args.n, args);
}

static Value eval_tuple(Calibrator *c, const Tuple *t)
{
    Object *o = object_new(&c->run->cx->limits, &tuple_info, t->fields.n);
    for (uint32_t i = 0; o && i < t->fields.n; i++) {
        const Value *v = value_at(c, t->fields.at[i]);
        object_set(o, i, v ? value_retain(*v) : value_none());
    }
    return o ? value_object(o) : value_none();
}

static Value eval_node(Calibrator *c, const Expr *e)
{
    const Op *op = expr_call_of_op(e);
    const TupleGet *get = expr_as_tuple_get(e);
    const Let *let = expr_as_let(e);
    const Value *inside = get ? value_at(c, get->tuple) : let ? value_at(c, let->body) : NULL;
    if (op)
        return eval_call(c, expr_as_call(e), op);
    if (e->kind == EXPR_CONSTANT)
        return value_retain(expr_as_constant(e)->value);
    if (e->kind == EXPR_TUPLE && expr_as_tuple(e)->fields.n)
        return eval_tuple(c, expr_as_tuple(e));
    if (get && inside && inside->kind == VALUE_TUPLE)
        return value_retain(object_get(inside->object, (uint32_t)get->index));
    return let && inside ? value_retain(*inside) : value_none();
}

/* The sample of that number as a tensor of the parameter's type. */
static Value sample_of(Calibrator *c, const Var *param, int64_t number)
{
    for (size_t i = 0; i < c->samples.n; i++) {
        Tensor *all = c->samples.at[i].all;
        if (strcmp(c->samples.at[i].name, param->name->text) != 0)
            continue;
        const Type *t = type_find(param->base.type);
        if (all->rank == (int)t->n)
            return value_tensor(tensor_retain(all));
        Tensor *one = tensor_view(all, all->rank - 1, all->shape + 1, all->strides + 1,
                                  number * all->strides[0]);
        return one ? value_tensor(one) : value_none();
    }
    return value_none();
}

static bool run_sample(Calibrator *c, int64_t number)
{
    const Function *fn = c->def->fn;
    for (uint32_t i = 0; i < fn->params.n; i++)
        put_value(c, &fn->params.at[i]->base, sample_of(c, fn->params.at[i], number));
    for (size_t i = 0; i < c->order.n && !limit_hit(&c->run->cx->limits); i++) {
        Value v = eval_node(c, c->order.at[i]);
        if (!value_is_none(v))
            put_value(c, c->order.at[i], v);
    }
    for (size_t i = 0; i < c->made.n; i++)
        value_release(*c->made.at[i]);
    c->made.n = 0;
    ptrmap_clear(&c->values);
    return !limit_hit(&c->run->cx->limits);
}

/* ---- samples ---------------------------------------------------------------------------------------------------------------------- */

static bool take_array(void *data, const char *name, Tensor *t)
{
    Calibrator *c = data;
    vec_push(&c->samples, &c->run->scratch,
             ((Sampled){arena_copy_text(&c->run->scratch, name, strlen(name)), t}));
    return true;
}

static const Tensor *array_for(const Calibrator *c, const Var *param)
{
    for (size_t i = 0; i < c->samples.n; i++)
        if (!strcmp(c->samples.at[i].name, param->name->text))
            return c->samples.at[i].all;
    return NULL;
}

/* Each parameter has an array of its shape, or of that and an axis in front, as long for all. */
static bool samples_fit(Calibrator *c)
{
    c->n_samples = 0;
    for (uint32_t i = 0; i < c->def->fn->params.n; i++) {
        const Var *param = c->def->fn->params.at[i];
        const Type *t = type_find(param->base.type);
        const Tensor *all = array_for(c, param);
        uint32_t extra = all && t->kind == TYPE_TENSOR ? (uint32_t)all->rank - t->n : 2;
        bool ok = extra <= 1 && dtype_eq(all->dtype, t->dtype);
        for (uint32_t k = 0; ok && k < t->n; k++)
            ok = t->dims[k] < 0 || t->dims[k] == all->shape[k + extra];
        int64_t n = ok && extra ? all->shape[0] : 1;
        if (!ok || n < 1 || n > SAMPLES_MOST || (c->n_samples && extra && c->n_samples != n)) {
            refuse(c, "hold nothing that fits the parameter", param->name->text);
            return false;
        }
        c->n_samples = extra || !c->n_samples ? n : c->n_samples;
    }
    c->n_samples = c->n_samples ? c->n_samples : 1;
    return true;
}

/* ---- how far integers shall reach -------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double by_percentile(const Calibrator *c, const float *at, size_t n)
{
    size_t i = (size_t)ceil(c->wish->percentile * (double)n);
    return at[i < 1 ? 0 : i > n ? n - 1 : i - 1];
}

/* How much is lost when the first `width` bins, with what lies beyond in the last, are told by `levels` numbers: the divergence of S. Kullback and R. Leibler. */
static double divergence(const double *bins, int width, int levels, double beyond)
{
    double sum = 0, from = 0, to = 0;
    for (int i = 0; i < width; i++)
        from += bins[i];
    from += beyond;
    for (int level = 0; level < levels; level++) {
        int first = (int)((int64_t)level * width / levels),
            end = (int)((int64_t)(level + 1) * width / levels);
        double mass = 0, used = 0;
        for (int i = first; i < end; i++) {
            mass += bins[i];
            used += bins[i] > 0;
        }
        to += mass;
        for (int i = first; i < end; i++) {
            double p = bins[i] + (i == width - 1 ? beyond : 0);
            double q = bins[i] > 0 ? mass / used : 0;
            /* Where the integers have nothing, a little: the original is as careful. */
            if (p > 0)
                sum += p / from * log((p / from) / fmax(q, 1e-4));
        }
    }
    return to > 0 ? sum + log(to) : INFINITY;
}

static double by_divergence(const Calibrator *c, const float *at, size_t n)
{
    double *bins = arena_alloc_must(&c->run->scratch, BINS, sizeof *bins);
    double most = at[n - 1], best = INFINITY, reach = most, beyond = 0;
    int levels = 1 << (c->wish->bits - 1);
    memset(bins, 0, BINS * sizeof *bins);
    /* What is nothing is told exactly by all of them, and would hide the others behind a rectifier. */
    for (size_t i = 0; i < n; i++) {
        int k = (int)(at[i] / most * BINS);
        bins[k < BINS ? k : BINS - 1] += at[i] > 0;
    }
    for (int width = BINS; width >= levels && !limit_hit(&c->run->cx->limits); width--) {
        double lost = divergence(bins, width, levels, beyond);
        if (lost < best) {
            best = lost;
            reach = most * width / BINS;
        }
        beyond += bins[width - 1];
    }
    return reach;
}

static double by_mean_square(const Calibrator *c, const float *at, size_t n)
{
    enum { TRIES = 60 };
    double most = at[n - 1], best = INFINITY, reach = most, range = exp2((double)c->wish->bits - 1);
    size_t step = n / 20000 + 1;
    for (int k = TRIES; k > TRIES / 10 && !limit_hit(&c->run->cx->limits); k--) {
        double tried = most * k / TRIES, unit = tried / range, lost = 0;
        for (size_t i = 0; i < n; i += step) {
            double d = at[i] - fmin(round(at[i] / unit), range - 1) * unit;
            lost += d * d;
        }
        if (lost < best) {
            best = lost;
            reach = tried;
        }
    }
    return reach;
}

static const struct {
    const char *name;
    /* Of sizes from the least to the greatest, which is not 0. */
    double (*reach)(const Calibrator *c, const float *at, size_t n);
} modes[] = {{"percentile", by_percentile},
             {"kl_divergence", by_divergence},
             {"mean_square", by_mean_square}};

bool calibrate_is_mode(Str name)
{
    bool found = false;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        found |= str_is(name, modes[i].name);
    return found;
}

/* ---- all of it -------------------------------------------------------------------------------------------------------------------- */

static WalkNext note_node(void *data, const Expr *e)
{
    Calibrator *c = data;
    const Op *op = expr_call_of_op(e);
    if (e->kind != EXPR_VAR && e->kind != EXPR_OP)
        vec_push(&c->order, &c->run->scratch, e);
    if (!op || strcmp(op->name, "relay.op.annotation.simulated_quantize") != 0 ||
        attrs_int(expr_as_call(e)->attrs, "kind", 0) == 2)
        return WALK_ON;
    Input *in = arena_new(&c->run->scratch, Input);
    *in = (Input){.at = e};
    vec_push(&c->inputs, &c->run->scratch, in);
    ptrmap_put(&c->input_of, e, in);
    return WALK_ON;
}

static bool settle(Calibrator *c, PtrMap *out)
{
    for (size_t i = 0; i < c->inputs.n; i++) {
        Input *in = c->inputs.at[i];
        double *reach = arena_new(&c->run->scratch, double);
        if (!in->seen.n) {
            Diag *d = refuse(c, "do not say what is computed everywhere in", c->def->name->text);
            diag_label(d, in->at->span, "no finite number of this is known");
            return false;
        }
        qsort(in->seen.at, in->seen.n, sizeof *in->seen.at, by_size);
        *reach = 1;
        for (size_t k = 0; in->seen.at[in->seen.n - 1] > 0 && k < sizeof modes / sizeof *modes; k++)
            if (str_is(c->wish->mode, modes[k].name))
                *reach = modes[k].reach(c, in->seen.at, in->seen.n);
        /* Most of it is nothing: what there is counts. */
        if (!(*reach > 0))
            *reach = in->seen.at[in->seen.n - 1] > 0 ? in->seen.at[in->seen.n - 1] : 1;
        ptrmap_put(out, in->at, reach);
    }
    return !limit_hit(&c->run->cx->limits);
}

bool calibrate(PassRun *run, const Def *def, const CalibrateWish *wish, PtrMap *out)
{
    Calibrator c = {.run = run, .def = def, .wish = wish};
    Ctx *cx = run->cx;
    note_lets(def->fn->body, &c.lets);
    ir_walk(def->fn->body, NULL, note_node, &c);
    bool ok = true;
    if (c.inputs.n) {
        ok = params_read(&cx->limits, cx->diags, wish->samples, take_array, &c) && samples_fit(&c);
        for (int64_t i = 0; ok && i < c.n_samples; i++)
            ok = run_sample(&c, i);
        ok = ok && settle(&c, out);
    }
    for (size_t i = 0; i < c.samples.n; i++)
        tensor_release(c.samples.at[i].all);
    PtrMap *maps[] = {&c.input_of, &c.lets, &c.values};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        ptrmap_deinit(maps[i]);
    return ok;
}
