/* The adjoint of an operator that is given by its tensor expression, made from that expression (te/adjoint.h). */
#include "stdlib/ops/ops.h"

#include "te/adjoint.h"

#define HELP "`grad(f)` and `vjp(f)` write such calls; `:doc adjoint` shows one"

static void compute_adjoint(TeBuilder *b);

static bool is_adjoint(const Op *op)
{
    return op->compute == compute_adjoint;
}

enum { BY_MOST = 16 };

/* What the attributes say: an operator, its attributes, and by which of its tensors it is differentiated, then by which of those and the
 * gradient that came in, and so on. */
typedef struct Derived {
    const Op *op;
    const Attrs *attrs;
    int64_t by[BY_MOST];
    int n_by;
} Derived;

/* Names, each with its value behind it, or nothing. */
static bool are_pairs(const AttrValue *v)
{
    bool ok = v->kind == ATTR_NONE || (v->kind == ATTR_LIST && v->list.n % 2 == 0);
    for (uint32_t i = 0; ok && v->kind == ATTR_LIST && i < v->list.n; i += 2)
        ok = v->list.at[i].kind == ATTR_STRING;
    return ok;
}

static const Attrs *read_attrs(Ctx *cx, const Op *op, const AttrValue *pairs, Span span)
{
    uint32_t n = pairs->kind == ATTR_LIST ? pairs->list.n / 2 : 0;
    Attrs *written = arena_alloc_must(ctx_scratch(cx), 1, sizeof *written + (n + 1) * sizeof(Attr));
    for (uint32_t i = 0; i < n; i++) {
        Str key = pairs->list.at[2 * i].s;
        written->at[written->n++] =
            (Attr){.key = arena_copy_text(ctx_scratch(cx), key.ptr, key.len),
                   .value = pairs->list.at[2 * i + 1],
                   .span = span,
                   .key_span = span};
    }
    return attrs_check(cx, ctx_scratch(cx), op->name, op->attrs, written, span);
}

/* False after a diagnostic. */
static bool read_derived(Ctx *cx, const Attrs *a, Span span, Derived *out)
{
    Str name = attrs_string(a, "of");
    out->op = op_find(cx, name);
    out->n_by = attrs_ints(a, "by", out->by, BY_MOST);
    out->attrs = NULL;
    if (!out->op || !(out->op->compute || out->op->expression) || is_adjoint(out->op) ||
        out->n_by < 1 || attrs_find(a, "by")->list.n > BY_MOST) {
        Diag *problem = diag_error(
            cx->diags, E0216_OPERATOR_ARGUMENT, span,
            "`adjoint` is of an operator that is given as loops, by one of its tensors, and "
            "not of `%.*s`",
            (int)name.len, name.ptr);
        diag_help(problem, HELP);
        return false;
    }
    const AttrValue *pairs = attrs_find(a, "attrs");
    if (!are_pairs(pairs) || (!out->op->attrs && pairs->kind == ATTR_LIST && pairs->list.n)) {
        Diag *problem = diag_error(cx->diags, E0216_OPERATOR_ARGUMENT, span,
                                   "`adjoint`: `attrs` are not names of attributes of `%s`, each "
                                   "with its value behind it",
                                   out->op->name);
        diag_help(problem, HELP);
        return false;
    }
    if (!out->op->attrs)
        return true;
    out->attrs = read_attrs(cx, out->op, pairs, span);
    return out->attrs != NULL;
}

/* The arguments of the operator from the tensors, of which `fields` says how many are a tuple. */
static uint32_t group_args(Rel *r, const Type *data, const Type **args, uint32_t most)
{
    int64_t fields[32];
    int n = attrs_ints(r->attrs, "fields", fields, 32);
    uint32_t at = 0, made = 0;
    for (int i = 0; i < n && made < most && i < 32; i++) {
        uint32_t k = fields[i] < 0 ? 1 : (uint32_t)fields[i];
        if (k > data->n - at)
            return 0;
        args[made++] = fields[i] < 0 ? data->parts[at] : type_tuple(r->cx, k, data->parts + at);
        at += k;
    }
    for (; n < 0 && at < data->n && made < most; at++)
        args[made++] = data->parts[at];
    return at == data->n ? made : 0;
}

static const Type *tensor_at(const Type *data, const Type *grads, int64_t i)
{
    if (i < 0 || i >= (int64_t)data->n + grads->n)
        return NULL;
    const Type *t = i < data->n ? data->parts[i] : grads->parts[i - data->n];
    return dtype_is_float(t->dtype) ? t : NULL;
}

static RelResult refuse(Rel *r, const char *what)
{
    diag_help(rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`adjoint`: %s", what), HELP);
    return REL_FAILED;
}

static RelResult rel_adjoint(Rel *r)
{
    const Type *data = rel_tensors(r, 0), *grads = rel_tensors(r, 1), *args[32];
    Derived d;
    if (!data || !grads)
        return rel_blocked(r);
    if (!read_derived(r->cx, r->attrs, r->span, &d))
        return REL_FAILED;
    uint32_t n = group_args(r, data, args, 32), outs = grads->n - (uint32_t)d.n_by + 1;
    if (!n || n != (uint32_t)op_arity(d.op) ||
        attrs_int(r->attrs, "tensors", -1) != (int64_t)data->n)
        return refuse(r, "the tensors are not the arguments of the operator");
    const Type *result = op_type(r->cx, d.op, d.attrs, r->span, n, args, NULL);
    if (!result)
        return REL_FAILED;
    bool tuple = result->kind == TYPE_TUPLE;
    if (grads->n < (uint32_t)d.n_by || outs != (tuple ? result->n : 1))
        return refuse(r, "there is not one gradient for each result");
    for (uint32_t i = 0; i < outs; i++)
        if (!rel_agrees(grads->parts[i], tuple ? result->parts[i] : result))
            return refuse(r, "a gradient has not the type of the result");
    const Type *made = NULL;
    for (int i = 0; i < d.n_by; i++) {
        if (made && !rel_agrees(grads->parts[outs + (uint32_t)i - 1], made))
            return refuse(r, "a gradient has not the type of the tensor before");
        if (!(made = tensor_at(data, grads, d.by[i])) || d.by[i] >= (int64_t)(data->n + outs) + i)
            return refuse(r, "`by` names no tensor of real numbers");
    }
    return rel_set_output(r, made);
}

/* A tensor of its own where another argument is the same. */
static TeTensor apart(TeBuilder *b, TeTensor *in, int n, int64_t i)
{
    Te *at[TENSOR_RANK_MOST];
    bool twice = false;
    for (int k = 0; k < n; k++)
        twice |= k != i && in[k].id == in[i].id;
    for (int k = 0; k < in[i].rank; k++)
        at[k] = te_axis(b, k);
    if (twice)
        in[i] = te_map(b, in[i].dtype, in[i].rank, in[i].shape, te_load(b, in[i], at));
    return in[i];
}

/* in: the tensors of the arguments, then the gradients. */
static void derive(TeBuilder *b, const Derived *d, int data, int n, TeTensor *in)
{
    const TeBuilder outer = *b;
    int outs = n - data - d->n_by + 1;
    TeTensor *made = arena_alloc_must(b->arena, (size_t)outs + 1, sizeof *made);
    const Type **types = arena_alloc_must(b->arena, (size_t)outs + 1, sizeof *types);
    for (int i = 0; i < outs; i++)
        types[i] =
            type_tensor(b->cx, in[data + i].dtype, (uint32_t)in[data + i].rank, in[data + i].shape);
    for (int i = 0; i < d->n_by; i++)
        apart(b, in, n, d->by[i]);
    size_t first = b->stages.n;
    const Type *result = outs > 1 ? type_tuple(b->cx, (uint32_t)outs, types) : types[0];
    if (te_call(b, d->op, d->attrs, b->span, result, data, in, outs, made) < 0)
        return;
    const TeTensor *grads = in + data;
    for (int i = 0; i < d->n_by && !b->failed; i++) {
        *made = te_adjoint(b, first, outs, made, grads, in[d->by[i]]);
        grads += outs;
        outs = 1;
    }
    b->op = outer.op;
    b->attrs = outer.attrs;
    b->result = outer.result;
    b->args = outer.args;
    b->n_args = outer.n_args;
    b->outputs.n = 0;
    te_output(b, *made);
}

static void compute_adjoint(TeBuilder *b)
{
    Derived d;
    int64_t data = 0;
    int n = te_n_inputs(b);
    attrs_ints(b->attrs, "tensors", &data, 1);
    if (read_derived(b->cx, b->attrs, b->span, &d))
        derive(b, &d, (int)data, n, arena_copy(b->arena, b->args, (size_t)n * sizeof *b->args));
    else
        b->failed = true;
}

void ops_derive(TeBuilder *b, const char *op, TeTensor x, TeTensor grad)
{
    Derived d = {.op = op_find(b->cx, str_of(op)), .attrs = b->attrs, .n_by = 1};
    derive(b, &d, 1, 2, (TeTensor[]){x, grad});
}

static const OpArg adjoint_args[] = {
    {"data", "the arguments of the operator, tuples taken apart"},
    {"grads", "the gradients of its results, then those of the gradients that they are of"},
    {0}};

static const OpAttr adjoint_attrs[] = {
    ATTR_MUST("of", STRING, "the operator"),
    ATTR_MUST("by", INTS,
              "by which tensor; then, for the gradient of that gradient, by which of all these"),
    ATTR_MUST("tensors", INT, "how many tensors the arguments are"),
    ATTR_NONE("fields", INTS,
              "by argument, how many tensors are a tuple, -1 for a tensor; None: all are tensors"),
    ATTR_NONE("attrs", ANY, "the attributes of the operator: names, each with its value behind it"),
    {0}};

const Op adjoint_ops[] = {
    {.name = "adjoint",
     .doc = "The gradient of an operator by one of its arguments, made from the loops that "
            "compute it.",
     .args = adjoint_args,
     .attrs = adjoint_attrs,
     .shapes = "(d...), (g...) -> the shape of a tensor",
     .samples = "((float32[2,3]), (float32[2,3]), of=\"tanh\", by=[0], tensors=1)",
     .pattern = OP_OUT_FUSABLE,
     .rel = rel_adjoint,
     .compute = compute_adjoint},
    {0},
};

/* ---- calls of it ------------------------------------------------------------------------------------------------------------------ */

typedef struct Maker {
    const OpsMake *m;
    Vec(Expr *) data;
    Vec(Expr *) grads;
} Maker;

static Expr *field_of(const OpsMake *m, Expr *e, uint32_t i)
{
    const Tuple *t = expr_as_tuple(e);
    return t ? t->fields.at[i] : expr_tuple_get(m->arena, m->span, e, i);
}

/* The tensors of an expression; how many, -1 for a tensor itself. */
static int64_t take_tensors(Maker *k, bool grads, Expr *e, const Type *t)
{
    bool tuple = t->kind == TYPE_TUPLE;
    for (uint32_t i = 0; i < (tuple ? t->n : 1); i++) {
        Expr *one = tuple ? field_of(k->m, e, i) : e;
        if (grads)
            vec_push(&k->grads, k->m->arena, one);
        else
            vec_push(&k->data, k->m->arena, one);
    }
    return tuple ? (int64_t)t->n : -1;
}

static AttrValue list_value(const OpsMake *m, uint32_t n, const AttrValue *at)
{
    return (AttrValue){.kind = ATTR_LIST, .list = {arena_copy(m->arena, at, n * sizeof *at), n}};
}

static AttrValue attrs_as_list(const OpsMake *m, const Op *op, const Attrs *attrs)
{
    Vec(AttrValue) pairs = {0};
    for (uint32_t i = 0; op->attrs && attrs && i < attrs->n; i++) {
        const Attr *a = &attrs->at[i];
        if (!op->attrs[i].required && attr_value_equal(&a->value, &op->attrs[i].otherwise))
            continue;
        vec_push(&pairs, m->arena, ((AttrValue){.kind = ATTR_STRING, .s = str_of(a->key)}));
        vec_push(&pairs, m->arena, a->value);
    }
    return pairs.n ? list_value(m, (uint32_t)pairs.n, pairs.at) : (AttrValue){.kind = ATTR_NONE};
}

typedef Vec(AttrValue) Values;

/* The gradients by the tensors of an argument, which begin at `first` among all; zeros for what is not real. */
static Expr *by_argument(const Maker *k, Attr *attrs, Values *by, uint32_t first, const Type *t,
                         Expr *arg)
{
    const OpsMake *m = k->m;
    bool tuple = t->kind == TYPE_TUPLE;
    uint32_t n = tuple ? t->n : 1;
    Expr *both[2] = {
        expr_tuple(m->arena, m->span, (uint32_t)k->data.n, k->data.at),
        expr_tuple(m->arena, m->span, (uint32_t)k->grads.n, k->grads.at),
    };
    Expr **made = arena_alloc_must(m->arena, n + 1, sizeof *made);
    for (uint32_t i = 0; i < n; i++) {
        const Type *one = tuple ? type_find(t->parts[i]) : t;
        vec_last(by) = (AttrValue){.kind = ATTR_INT, .i = first + i};
        attrs[1].value = list_value(m, (uint32_t)by->n, by->at);
        made[i] = dtype_is_float(one->dtype)
                      ? ops_call(m, adjoint_ops[0].name, 2, both, 5, attrs)
                      : ops_call1(m, "zeros_like", tuple ? field_of(m, arg, i) : arg);
        if (!made[i])
            return NULL;
    }
    return tuple ? expr_tuple(m->arena, m->span, n, made) : *made;
}

bool ops_adjoints(const OpsMake *m, const Call *call, Expr *const *args, Expr *grad, Expr **out)
{
    Maker k = {.m = m};
    const Op *op = expr_call_of_op(&call->base);
    Values by = {0}, fields = {0};
    bool tuples = false, again = is_adjoint(op);
    Attr attrs[5] = {
        {.key = "of"}, {.key = "by"}, {.key = "tensors"}, {.key = "fields"}, {.key = "attrs"}};
    for (uint32_t i = 0; i < call->args.n; i++) {
        int64_t n = take_tensors(&k, again && i == 1, args[i], type_find(call->args.at[i]->type));
        tuples |= n >= 0;
        vec_push(&fields, m->arena, ((AttrValue){.kind = ATTR_INT, .i = n}));
    }
    uint32_t data = (uint32_t)k.data.n, at = 0;
    take_tensors(&k, true, grad, type_find(call->base.type));
    if (again) {
        for (int i = 0; i < 5; i++)
            attrs[i].value = *attrs_find(call->attrs, attrs[i].key);
        for (uint32_t i = 0; i < attrs[1].value.list.n; i++)
            vec_push(&by, m->arena, attrs[1].value.list.at[i]);
    } else {
        attrs[0].value = (AttrValue){.kind = ATTR_STRING, .s = str_of(op->name)};
        attrs[2].value = (AttrValue){.kind = ATTR_INT, .i = data};
        attrs[3].value =
            tuples ? list_value(m, (uint32_t)fields.n, fields.at) : (AttrValue){.kind = ATTR_NONE};
        attrs[4].value = attrs_as_list(m, op, call->attrs);
    }
    vec_push(&by, m->arena, ((AttrValue){.kind = ATTR_INT}));
    for (uint32_t i = 0; i < call->args.n; i++) {
        const Type *t = type_find(call->args.at[i]->type);
        if (!(out[i] = by_argument(&k, attrs, &by, at, t, args[i])))
            return false;
        at += t->kind == TYPE_TUPLE ? t->n : 1;
    }
    return true;
}
