/* Which positions are linear in the axes, and which stages are contractions. */
#include "te/internal.h"

#include "base/number.h"

#include <string.h>

TeTensor te_tensor(const TeProgram *p, int id)
{
    if (id < p->n_inputs)
        return p->inputs[id];
    const TeStage *s = &p->stages[id - p->n_inputs];
    return (TeTensor){.id = id, .dtype = s->dtype, .rank = s->rank, .shape = s->shape};
}

static bool const_of(const Te *e, int64_t *v)
{
    if (e->kind != TE_NODE_CONST)
        return false;
    *v = value_as_int(e->value);
    return true;
}

enum { LINEAR_DEPTH = 64 };

/* Adds factor * e. Expressions of indices are shallow; deeper ones simply do not count as linear, nor do those whose numbers are too large. */
static bool add_linear(const Te *e, int64_t factor, TeLinear *out, int depth)
{
    int64_t v;
    if (depth == LINEAR_DEPTH)
        return false;
    if (e->kind == TE_NODE_AXIS)
        return int64_add(out->k[e->axis], factor, &out->k[e->axis]);
    if (const_of(e, &v))
        return int64_mul(factor, v, &v) && int64_add(out->c, v, &out->c);
    if (e->kind != TE_NODE_BINARY)
        return false;
    if (e->op == TE_ADD)
        return add_linear(e->a, factor, out, depth + 1) && add_linear(e->b, factor, out, depth + 1);
    if (e->op == TE_SUB)
        return add_linear(e->a, factor, out, depth + 1) && int64_sub(0, factor, &v) &&
               add_linear(e->b, v, out, depth + 1);
    if (e->op == TE_MUL && const_of(e->b, &v))
        return int64_mul(factor, v, &v) && add_linear(e->a, v, out, depth + 1);
    if (e->op == TE_MUL && const_of(e->a, &v))
        return int64_mul(factor, v, &v) && add_linear(e->b, v, out, depth + 1);
    return false;
}

bool te_linear(const Te *e, TeLinear *out)
{
    memset(out, 0, sizeof *out);
    return e->dtype.code == DTYPE_CODE_INT && e->dtype.bits == 64 && add_linear(e, 1, out, 0);
}

static bool is_op(const Te *e, TeOp op, int64_t by)
{
    int64_t v;
    return e->kind == TE_NODE_BINARY && e->op == op && const_of(e->b, &v) && v == by;
}

/* The index is `rest` and the quotient, or the quotient alone. */
static bool is_quotient(const Te *e, const Te *quotient, int64_t by, const Te **rest)
{
    bool sum = e->kind == TE_NODE_BINARY && e->op == TE_ADD;
    const Te *found = sum ? e->b : e;
    *rest = sum ? e->a : NULL;
    return is_op(found, TE_DIV, by) && found->a == quotient;
}

/* Indices [first, last] are one number taken apart by the extents, and `rest` more of the first (NULL: no more): te_unflatten without what
 * te_split could cancel. Gives `first` and the number; NULL when index `last` is no remainder. */
static const Te *unflattened(const TeTensor *t, Te *const *index, int last, int *first,
                             const Te **rest)
{
    if (!is_op(index[last], TE_MOD, t->shape[last]))
        return NULL;
    const Te *flat = index[last]->a, *quotient = flat;
    int64_t by = t->shape[last];
    for (int i = last - 1; i >= 0; i--) {
        if (t->shape[i] == 1)
            continue;
        if (is_quotient(index[i], quotient, by, rest)) {
            *first = i;
            return flat;
        }
        if (!is_op(index[i], TE_MOD, t->shape[i]) || !is_op(index[i]->a, TE_DIV, by) ||
            index[i]->a->a != quotient)
            return NULL;
        quotient = index[i]->a;
        by = t->shape[i];
    }
    return NULL;
}

bool te_position(const TeProgram *p, const Te *load, TeLinear *out)
{
    TeTensor t = te_tensor(p, load->tensor);
    memset(out, 0, sizeof *out);
    int64_t stride = 1;
    for (int i = t.rank - 1; i >= 0; i--) {
        int first = i;
        const Te *rest = NULL;
        const Te *flat = load->otherwise ? NULL : unflattened(&t, load->index, i, &first, &rest);
        if (!add_linear(flat ? flat : load->index[i], stride, out, 0))
            return false;
        for (; i > first; i--)
            if (!int64_mul(stride, t.shape[i], &stride))
                return false;
        if (flat && rest && !add_linear(rest, stride, out, 0))
            return false;
        if (i > 0 && !int64_mul(stride, t.shape[i], &stride))
            return false;
    }
    return true;
}

const Te *te_load_number(const TeProgram *p, const Te *load)
{
    TeTensor t = te_tensor(p, load->tensor);
    int first = 0;
    const Te *rest = NULL, *number = NULL;
    if (t.rank > 1 && !load->otherwise)
        number = unflattened(&t, load->index, t.rank - 1, &first, &rest);
    while (first > 0 && t.shape[first - 1] == 1)
        first--;
    return first == 0 && !rest ? number : NULL;
}

bool te_load_affine(const TeProgram *p, const Te *load, TeAffine *out)
{
    TeLinear at;
    if (load->kind != TE_NODE_LOAD || !te_position(p, load, &at))
        return false;
    *out = (TeAffine){
        .tensor = load->tensor, .offset = at.c, .padded = load->otherwise != NULL, .load = load};
    memcpy(out->stride, at.k, sizeof at.k);
    return true;
}

int te_view_of(const TeProgram *p, const TeStage *s, int64_t *from)
{
    TeLinear at;
    const Te *e = s->body;
    if (s->reduce != TE_NO_REDUCE || s->at || e->kind != TE_NODE_LOAD || e->otherwise)
        return -1;
    TeTensor t = te_tensor(p, e->tensor);
    int64_t size, others, stride = 1;
    if (!dtype_eq(t.dtype, s->dtype) || !shape_size(t.rank, t.shape, &size) ||
        !shape_size(s->rank, s->shape, &others) || !te_position(p, e, &at) ||
        (!from && (size != others || at.c)))
        return -1;
    for (int i = s->rank - 1; i >= 0; i--) {
        if (s->shape[i] != 1 && at.k[i] != stride)
            return -1;
        stride *= s->shape[i];
    }
    if (from)
        *from = at.c;
    return e->tensor;
}

/* A factor of a contraction: a load whose position is affine and which reads 0 outside; or of a narrower integer that is widened. */
static bool factor(const TeProgram *p, const Te *e, TeAffine *out)
{
    if (e->kind == TE_NODE_CAST && e->dtype.code == DTYPE_CODE_INT && dtype_is_int(e->a->dtype) &&
        e->a->dtype.bits < e->dtype.bits)
        e = e->a;
    if (e->kind != TE_NODE_LOAD || !te_load_affine(p, e, out))
        return false;
    const Te *o = e->otherwise;
    return !o || (o->kind == TE_NODE_CONST && value_as_double(o->value) == 0);
}

TeSides te_sides(const TeStage *s, uint64_t first, uint64_t second)
{
    TeSides out = {0};
    int last = s->rank - 1;
    while (last > 0 && s->shape[last] == 1)
        last--;
    out.turned = last >= 0 && first >> last & 1;
    for (int i = 0; i < s->rank + s->n_reduced; i++) {
        bool reduced = i >= s->rank, a = first >> i & 1, b = second >> i & 1;
        bool rows = out.turned ? b : a;
        if ((reduced ? s->reduced[i - s->rank] : s->shape[i]) != 1)
            out.of[i] = reduced  ? a && b ? TE_SIDE_FOLDS : TE_SIDE_EACH
                        : a == b ? TE_SIDE_EACH
                        : rows   ? TE_SIDE_ROWS
                                 : TE_SIDE_COLUMNS;
    }
    return out;
}

static uint64_t axes_of(const TeStage *s, const TeAffine *f)
{
    uint64_t axes = 0;
    for (int i = 0; i < s->rank + s->n_reduced; i++)
        axes |= (uint64_t)(f->stride[i] != 0) << i;
    return axes;
}

bool te_contraction(const TeProgram *p, int stage, TeContraction *out)
{
    const TeStage *s = &p->stages[stage];
    if (s->reduce != TE_SUM || s->at || s->body->kind != TE_NODE_BINARY || s->body->op != TE_MUL)
        return false;
    if (!factor(p, s->body->a, &out->a) || !factor(p, s->body->b, &out->b))
        return false;
    out->sides = te_sides(s, axes_of(s, &out->a), axes_of(s, &out->b));
    return true;
}

static bool reads_axes(const TeAffine *f)
{
    bool axes = !f->padded;
    for (int i = 0; i < f->load->n; i++)
        axes &= f->load->index[i]->kind == TE_NODE_AXIS;
    return axes;
}

bool te_product(const TeProgram *p, int stage, TeContraction *out)
{
    return te_contraction(p, stage, out) && reads_axes(&out->a) && reads_axes(&out->b);
}
