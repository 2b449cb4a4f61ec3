/* Relations that run again with one thing changed. */
#include "ir/print.h"
#include "ir/rel.h"
#include "typecheck/why.h"

#include <string.h>

/* More operands than this are not asked one by one. */
#define TRIALS_MOST 256

Trial trial_of(Why *w, const Call *call, int target)
{
    Trial t = {.w = w,
               .call = call,
               .op = expr_call_of_op(&call->base),
               .attrs = call->attrs,
               .n = call->args.n,
               .target = target};
    t.in = arena_new_array(&w->arena, const Type *, t.n ? t.n : 1);
    for (uint32_t i = 0; i < t.n; i++)
        t.in[i] =
            call->args.at[i]->type ? type_resolve(w->cx, call->args.at[i]->type) : w->cx->poison;
    return t;
}

static bool trial_assign(Rel *r, int which, const Type *type)
{
    Trial *t = r->data;
    if (which == t->target || which < 0) {
        if (which == t->target)
            t->got = type;
        if (which < 0)
            r->out = type;
        else
            r->in[which] = type;
        return true;
    }
    if (!rel_agrees(r->in[which], type))
        return false;
    if (type_find(r->in[which])->kind == TYPE_HOLE)
        r->in[which] = type;
    return true;
}

TrialEnd trial_run(Trial *t)
{
    if (!op_takes(t->op, t->n))
        return TRIAL_FAILED;
    Ctx *cx = t->w->cx;
    Diags *before = cx->diags;
    const Type **in = arena_new_array(&t->w->arena, const Type *, t->n ? t->n : 1);
    memcpy(in, t->in, t->n * sizeof *in);
    Type hole = {.kind = TYPE_HOLE, .open = true, .depth = 1}, asked = hole;
    if (t->target >= 0)
        in[t->target] = &asked;
    Rel r = {
        .cx = cx,
        .op = t->op,
        .attrs = t->attrs,
        .span = t->call->base.span,
        .n = t->n,
        .in = in,
        .out = &hole,
        .assign = trial_assign,
        .data = t,
    };
    t->got = NULL;
    cx->diags = &t->w->silent;
    RelResult result = t->op->rel(&r);
    cx->diags = before;
    diags_clear(&t->w->silent);
    if (t->got && t->got->open)
        t->got = NULL; /* what is not known has no parts to compare; and the holes above end here */
    if (result == REL_FAILED)
        return TRIAL_FAILED;
    return t->got ? TRIAL_DONE : TRIAL_OPEN;
}

/* ---- changing one thing ---------------------------------------------------------------------------------------------------------- */

static const Type *with_dim(Ctx *cx, const Type *t, uint32_t at, Dim d)
{
    Dim dims[TENSOR_RANK_MOST];
    memcpy(dims, t->dims, t->n * sizeof *dims);
    dims[at] = d;
    return type_tensor(cx, t->dtype, t->n, dims);
}

static const Type *with_all_dims(Ctx *cx, const Type *t, Dim d)
{
    Dim dims[TENSOR_RANK_MOST];
    for (uint32_t i = 0; i < t->n; i++)
        dims[i] = d;
    return type_tensor(cx, t->dtype, t->n, dims);
}

static const Type *with_rank(Ctx *cx, const Type *t)
{
    Dim dims[TENSOR_RANK_MOST] = {1};
    if (t->n + 1 > TENSOR_RANK_MOST)
        return t;
    memcpy(dims + 1, t->dims, t->n * sizeof *dims);
    return type_tensor(cx, t->dtype, t->n + 1, dims);
}

/* An element type that is another of the same sort, so that what takes floats goes on taking it. */
static DType other_dtype(DType d)
{
    if (dtype_is_float(d))
        return dtype_of(d.bits == 64 ? DT_FLOAT32 : DT_FLOAT64);
    return dtype_of(d.bits == 64 ? DT_INT32 : DT_INT64);
}

/* The operand with what is given changed: an extent to `dim`, the element type, the number of dimensions. Operands are tensors and
 * tuples of tensors. */
static const Type *with_given(Ctx *cx, const Type *operand, const Given *g, Dim dim, DType dtype)
{
    const Type *t = part_type(operand, &g->part), *now = t;
    if (g->part.kind == PART_DIM)
        now = with_dim(cx, t, g->part.dim, dim);
    if (g->part.kind == PART_DTYPE)
        now = type_tensor(cx, dtype, t->n, t->dims);
    if (g->part.kind == PART_RANK)
        now = with_rank(cx, t);
    if (g->part.n == 0)
        return now;
    const Type **parts = arena_new_array(ctx_scratch(cx), const Type *, operand->n);
    memcpy(parts, operand->parts, operand->n * sizeof *parts);
    parts[g->part.path[0]] = now;
    return type_tuple(cx, operand->n, parts);
}

static TrialEnd run_given(const Trial *t, const Given *g, Dim dim, DType dtype, const Type **got)
{
    Trial now = *t;
    now.in = arena_copy(&t->w->arena, t->in, t->n * sizeof *t->in);
    now.in[g->arg] = with_given(t->w->cx, t->in[g->arg], g, dim, dtype);
    TrialEnd end = trial_run(&now);
    *got = now.got;
    return end;
}

/* Calls `each` for a given of every tensor among the operands, the asked one left out. */
typedef Vec(Given) Givens;

static void add_tensor(const Trial *t, Givens *out, uint32_t arg, int field, const Type *tensor,
                       PartKind kind)
{
    Given g = {.arg = arg, .attr = -1, .part = {.kind = kind}};
    if (field >= 0) {
        g.part.n = 1;
        g.part.path[0] = (uint32_t)field;
    }
    uint32_t n = kind == PART_DIM ? tensor->n : 1;
    for (uint32_t i = 0; i < n && out->n < TRIALS_MOST; i++) {
        g.part.dim = i;
        vec_push(out, &t->w->arena, g);
    }
}

/* A tensor of as many axes as values can have. */
static bool is_small(const Type *t)
{
    return t->kind == TYPE_TENSOR && t->n <= TENSOR_RANK_MOST;
}

static Givens givens(const Trial *t, PartKind kind)
{
    Givens out = {0};
    for (uint32_t i = 0; i < t->n; i++) {
        const Type *in = type_find(t->in[i]);
        if ((int)i == t->target)
            continue;
        if (is_small(in))
            add_tensor(t, &out, i, -1, in, kind);
        for (uint32_t k = 0; in->kind == TYPE_TUPLE && k < in->n; k++)
            if (is_small(in->parts[k]))
                add_tensor(t, &out, i, (int)k, in->parts[k], kind);
    }
    return out;
}

/* ---- attributes --------------------------------------------------------------------------------------------------------------------- */

/* Whether the text gives this attribute; the others have the place of the call. */
static bool attr_written(const Trial *t, uint32_t i)
{
    Span a = t->attrs->at[i].key_span, call = t->call->base.span;
    return t->op->attrs && !span_is_none(a) && a.source == call.source &&
           (a.from != call.from || a.to != call.to);
}

WhySource trial_attr_source(const Trial *t, int attr)
{
    const Attr *a = &t->attrs->at[attr];
    Buf b = {0};
    buf_printf(&b, "`%s` has `%s=", t->op->name, a->key);
    ir_print_attr(&b, &a->value);
    buf_char(&b, '`');
    return (WhySource){.span = span_join(a->key_span, a->span), .text = buf_keep(&b, &t->w->arena)};
}

typedef Vec(AttrValue) Values;

static int64_t next(int64_t v)
{
    return v == INT64_MAX ? v - 1 : v + 1;
}

/* Other values of the same kind: neighbours, and what stands in `dims`. */
static Values other_values(const Trial *t, uint32_t i, const Values *dims)
{
    Arena *arena = &t->w->arena;
    const AttrValue *v = &t->attrs->at[i].value;
    Values out = {0};
    if (t->op->attrs[i].or_none && v->kind != ATTR_NONE)
        vec_push(&out, arena, (AttrValue){.kind = ATTR_NONE});
    if (v->kind == ATTR_BOOL)
        vec_push(&out, arena, ((AttrValue){.kind = ATTR_BOOL, .b = !v->b}));
    if (v->kind == ATTR_STRING && t->op->attrs[i].type == ATTR_TYPE_DTYPE)
        for (int k = 0; k < 2; k++)
            vec_push(&out, arena,
                     ((AttrValue){.kind = ATTR_STRING, .s = str_of(k ? "float64" : "int64")}));
    for (size_t k = 0; v->kind == ATTR_INT && k < dims->n; k++)
        vec_push(&out, arena, dims->at[k]);
    if (v->kind == ATTR_INT)
        vec_push(&out, arena, ((AttrValue){.kind = ATTR_INT, .i = next(v->i)}));
    for (uint32_t at = 0; v->kind == ATTR_LIST && at < v->list.n && at < 8; at++) {
        if (v->list.at[at].kind != ATTR_INT)
            continue;
        for (size_t k = 0; k <= dims->n; k++) {
            AttrValue *list = arena_copy(arena, v->list.at, v->list.n * sizeof *list);
            list[at].i = k < dims->n ? dims->at[k].i : next(list[at].i);
            AttrValue changed = *v;
            changed.list.at = list;
            vec_push(&out, arena, changed);
        }
    }
    return out;
}

static Trial with_attr(const Trial *t, uint32_t i, AttrValue v)
{
    Trial now = *t;
    now.attrs = attrs_with(&t->w->arena, t->attrs, t->attrs->at[i].key, v);
    return now;
}

/* ---- what decides a part ---------------------------------------------------------------------------------------------------------- */

/* Whether the part is the same in both; unknown extents are the same as nothing. */
static bool same_part(const Type *a, const Type *b, const Part *part)
{
    a = a ? part_type(a, part) : NULL;
    b = b ? part_type(b, part) : NULL;
    if (!a || !b)
        return false;
    switch (part->kind) {
    case PART_DIM:
        return a->kind == TYPE_TENSOR && b->kind == TYPE_TENSOR && a->n == b->n &&
               part->dim < a->n && a->dims[part->dim] == b->dims[part->dim];
    case PART_RANK: return a->kind == b->kind && a->n == b->n;
    case PART_DTYPE:
        return a->kind == b->kind && a->kind == TYPE_TENSOR && dtype_eq(a->dtype, b->dtype);
    case PART_WHOLE: return a == b;
    }
    return false;
}

static bool changes(const Trial *t, TrialEnd end, const Type *got, const Part *part)
{
    return end == TRIAL_OPEN || (end == TRIAL_DONE && !same_part(t->got, got, part));
}

/* The same call with every extent unknown. */
static Trial all_unknown(const Trial *t)
{
    Trial now = *t;
    now.in = arena_copy(&t->w->arena, t->in, t->n * sizeof *t->in);
    Ctx *cx = t->w->cx;
    for (uint32_t i = 0; i < t->n; i++) {
        const Type *in = type_find(t->in[i]);
        if (is_small(in))
            now.in[i] = with_all_dims(cx, in, DIM_ANY);
        if (in->kind != TYPE_TUPLE)
            continue;
        const Type **parts = arena_new_array(&t->w->arena, const Type *, in->n);
        for (uint32_t k = 0; k < in->n; k++)
            parts[k] =
                is_small(in->parts[k]) ? with_all_dims(cx, in->parts[k], DIM_ANY) : in->parts[k];
        now.in[i] = type_tuple(cx, in->n, parts);
    }
    return now;
}

static bool attr_decides(const Trial *t, const Trial *unknown, uint32_t i, const Part *part)
{
    Values none = {0}, others = other_values(t, i, &none);
    for (size_t k = 0; k < others.n; k++) {
        Trial now = with_attr(t, i, others.at[k]);
        TrialEnd end = trial_run(&now);
        if (end == TRIAL_DONE && !same_part(t->got, now.got, part))
            return true;
        if (end != TRIAL_FAILED || part->kind != PART_DIM || !unknown->got)
            continue;
        /* The operands hold the attribute to its value: without them it decides. */
        now = with_attr(unknown, i, others.at[k]);
        if (trial_run(&now) == TRIAL_DONE && !same_part(unknown->got, now.got, part))
            return true;
    }
    return false;
}

/* Extents that alone, all others unknown, are enough to know the part. */
static size_t sufficient(const Trial *t, const Trial *unknown, const Givens *all, const Part *part,
                         Given *out, size_t most)
{
    size_t n = 0;
    for (size_t i = 0; i < all->n && n < most; i++) {
        const Given *g = &all->at[i];
        Dim d = part_type(t->in[g->arg], &g->part)->dims[g->part.dim];
        const Type *got;
        if (run_given(unknown, g, d, (DType){0}, &got) == TRIAL_DONE &&
            same_part(t->got, got, part))
            out[n++] = *g;
    }
    return n;
}

/* Operands whose element types must agree decide together. */
static size_t together(const Trial *t, const Givens *all, const Part *part, Given *out, size_t most)
{
    Trial now = *t;
    const Type *target = part_type(t->got, part);
    now.in = arena_copy(&t->w->arena, t->in, t->n * sizeof *t->in);
    size_t n = 0;
    for (size_t i = 0; i < all->n; i++) {
        const Given *g = &all->at[i];
        const Type *in = part_type(t->in[g->arg], &g->part);
        if (target->kind != TYPE_TENSOR || !dtype_eq(in->dtype, target->dtype))
            continue;
        now.in[g->arg] = with_given(t->w->cx, now.in[g->arg], g, 0, other_dtype(in->dtype));
        if (n < most)
            out[n++] = *g;
    }
    return trial_run(&now) == TRIAL_DONE && !same_part(t->got, now.got, part) ? n : 0;
}

size_t trial_causes(Trial *t, const Part *part, Given *out, size_t most)
{
    size_t n = 0;
    if (part->kind == PART_WHOLE || trial_run(t) != TRIAL_DONE || !part_type(t->got, part))
        return 0;
    Trial unknown = all_unknown(t);
    trial_run(&unknown);
    for (uint32_t i = 0; t->attrs && i < t->attrs->n && n < most; i++)
        if (attr_written(t, i) && attr_decides(t, &unknown, i, part))
            out[n++] = (Given){.attr = (int)i};
    Givens all = givens(t, part->kind);
    for (size_t i = 0; i < all.n && n < most; i++) {
        const Given *g = &all.at[i];
        const Type *in = part_type(t->in[g->arg], &g->part), *got;
        TrialEnd end = run_given(t, g, DIM_ANY, other_dtype(in->dtype), &got);
        if (changes(t, end, got, part))
            out[n++] = *g;
    }
    if (n == 0 && part->kind == PART_DIM)
        n = sufficient(t, &unknown, &all, part, out, most);
    if (n == 0 && part->kind == PART_DTYPE)
        n = together(t, &all, part, out, most);
    return n;
}

/* ---- what a failure is about -------------------------------------------------------------------------------------------------------- */

static Values extents(const Trial *t, const Givens *all)
{
    Values out = {0};
    for (size_t i = 0; i < all->n && out.n < 32; i++) {
        const Given *g = &all->at[i];
        Dim d = part_type(t->in[g->arg], &g->part)->dims[g->part.dim];
        if (d >= 0)
            vec_push(&out, &t->w->arena, ((AttrValue){.kind = ATTR_INT, .i = d}));
    }
    for (int k = 0; k < 2; k++)
        vec_push(&out, &t->w->arena, ((AttrValue){.kind = ATTR_INT, .i = k}));
    return out;
}

static bool attr_mends(const Trial *t, uint32_t i, const Values *dims)
{
    Values others = other_values(t, i, dims);
    for (size_t k = 0; k < others.n; k++) {
        Trial now = with_attr(t, i, others.at[k]);
        if (trial_run(&now) != TRIAL_FAILED)
            return true;
    }
    return false;
}

/* Whether the operand with the element type of another would fit. */
static bool dtype_mends(const Trial *t, const Given *g, const Givens *all)
{
    DType mine = part_type(t->in[g->arg], &g->part)->dtype;
    for (size_t i = 0; i < all->n; i++) {
        DType d = part_type(t->in[all->at[i].arg], &all->at[i].part)->dtype;
        const Type *got;
        if (!dtype_eq(d, mine) && run_given(t, g, 0, d, &got) != TRIAL_FAILED)
            return true;
    }
    return false;
}

static bool same_tensor(const Given *a, const Given *b)
{
    return a->arg == b->arg && a->part.n == b->part.n &&
           (a->part.n == 0 || a->part.path[0] == b->part.path[0]);
}

/* The extents [from, to) are those of one tensor. Which of them cannot be as they are: with none of them known the relation holds, and
 * each that can be known again without harm is not among them. */
static size_t dims_at_odds(const Trial *t, const Givens *all, size_t from, size_t to, Given *out,
                           size_t most)
{
    Ctx *cx = t->w->cx;
    Trial now = *t;
    uint32_t arg = all->at[from].arg;
    size_t n = 0;
    now.in = arena_copy(&t->w->arena, t->in, t->n * sizeof *t->in);
    for (size_t i = from; i < to; i++)
        now.in[arg] = with_given(cx, now.in[arg], &all->at[i], DIM_ANY, (DType){0});
    if (trial_run(&now) == TRIAL_FAILED)
        return 0;
    for (size_t i = from; i < to && n < most; i++) {
        const Given *g = &all->at[i];
        const Type *before = now.in[arg];
        Dim d = part_type(t->in[arg], &g->part)->dims[g->part.dim];
        now.in[arg] = with_given(cx, before, g, d, (DType){0});
        if (trial_run(&now) != TRIAL_FAILED)
            continue;
        now.in[arg] = before;
        out[n++] = *g;
    }
    return n;
}

size_t trial_conflict(Trial *t, Given *out, size_t most)
{
    size_t n = 0;
    Givens dims = givens(t, PART_DIM), dtypes = givens(t, PART_DTYPE);
    Values values = extents(t, &dims);
    for (uint32_t i = 0; t->attrs && i < t->attrs->n && n < most; i++)
        if (attr_written(t, i) && attr_mends(t, i, &values))
            out[n++] = (Given){.attr = (int)i};
    for (size_t i = 0, to; i < dims.n && n < most; i = to) {
        for (to = i; to < dims.n && same_tensor(&dims.at[i], &dims.at[to]);)
            to++;
        n += dims_at_odds(t, &dims, i, to, out + n, most - n);
    }
    for (size_t i = 0; i < dtypes.n && n < most; i++)
        if (dtype_mends(t, &dtypes.at[i], &dtypes))
            out[n++] = dtypes.at[i];
    return n;
}
