/* Sums of products over named axes. */
#include "stdlib/ops/ops.h"

#include <string.h>

enum {
    LABELS = 128,
    DOTS = 1
};    /* labels are letters; the axes of `...` have labels from DOTS on */

/* The axes of one operand or of the result, by label. */
typedef struct Term {
    int n;
    unsigned char label[TENSOR_RANK_MOST];
    bool dots;
    int dots_at;
} Term;

typedef struct Equation {
    Term in[TENSOR_RANK_MOST], out;
    int n_in, most_dots;
} Equation;

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool read_term(const char **at, const char *end, Term *t)
{
    *t = (Term){0};
    while (*at < end && **at != ',' && **at != '-') {
        if (end - *at >= 3 && memcmp(*at, "...", 3) == 0 && !t->dots) {
            t->dots = true;
            t->dots_at = t->n;
            *at += 3;
        } else if (is_letter(**at) && t->n < TENSOR_RANK_MOST) {
            t->label[t->n++] = (unsigned char)*(*at)++;
        } else if (**at == ' ') {
            (*at)++;
        } else {
            return false;
        }
    }
    return true;
}

/* Puts labels for the axes that `...` stands for, aligned at the right. */
static void spread_dots(Term *t, int rank, int most)
{
    int more = rank - t->n;
    if (!t->dots || more <= 0)
        return;
    memmove(t->label + t->dots_at + more, t->label + t->dots_at, (size_t)(t->n - t->dots_at));
    for (int i = 0; i < more; i++)
        t->label[t->dots_at + i] = (unsigned char)(DOTS + most - more + i);
    t->n += more;
}

/* Without `->` the result has `...` and then every label that occurs once, in alphabetical order. */
static void implicit_result(Equation *q)
{
    int count[LABELS] = {0};
    q->out = (Term){.dots = q->most_dots > 0};
    for (int i = 0; i < q->n_in; i++)
        for (int k = 0; k < q->in[i].n; k++)
            count[q->in[i].label[k]]++;
    for (int c = 'A'; c < LABELS; c++)
        if (count[c] == 1)
            q->out.label[q->out.n++] = (unsigned char)c;
}

static bool read_equation(Str text, int n_in, const int *ranks, Equation *q)
{
    const char *at = text.ptr, *end = text.ptr + text.len;
    bool given = false;
    *q = (Equation){.n_in = n_in};
    for (int i = 0; i < n_in; i++) {
        if (!read_term(&at, end, &q->in[i]) || (i + 1 < n_in && (at >= end || *at++ != ',')))
            return false;
        int more = ranks[i] - q->in[i].n;
        if (more < 0 || (more > 0 && !q->in[i].dots))
            return false;
        q->most_dots = more > q->most_dots ? more : q->most_dots;
    }
    if (at < end) {
        if (end - at < 2 || at[0] != '-' || at[1] != '>')
            return false;
        at += 2;
        if (!read_term(&at, end, &q->out) || at < end)
            return false;
        given = true;
    }
    if (!given)
        implicit_result(q);
    for (int i = 0; i < n_in; i++)
        spread_dots(&q->in[i], ranks[i], q->most_dots);
    spread_dots(&q->out, q->out.n + (q->out.dots ? q->most_dots : 0), q->most_dots);
    return true;
}

/* The extent of each label; false when two do not agree, or when there are more than a space has axes. */
static bool label_extents(const Equation *q, const int64_t *const *shapes, Dim *extent)
{
    for (int c = 0; c < LABELS; c++)
        extent[c] = -2;
    for (int i = 0; i < q->n_in; i++) {
        for (int k = 0; k < q->in[i].n; k++) {
            Dim *e = &extent[q->in[i].label[k]], d = shapes[i][k];
            if (*e == -2 || *e == 1 || (*e < 0 && d != 1))
                *e = d;
            else if (d != 1 && !dim_agrees(*e, d))
                return false;
        }
    }
    int labels = 0;
    for (int c = 0; c < LABELS; c++)
        labels += extent[c] != -2;
    for (int k = 0; k < q->out.n; k++)
        if (extent[q->out.label[k]] == -2)
            return false;
    return labels <= 2 * TENSOR_RANK_MOST;
}

#define SHAPES_rel_einsum "as equation says: (2, 3), (3, 4) -> (2, 4) by \"ij,jk->ik\""
static RelResult rel_einsum(Rel *r)
{
    const Type *t = rel_tensors(r, 0);
    int ranks[TENSOR_RANK_MOST] = {0};
    const int64_t *shapes[TENSOR_RANK_MOST] = {NULL};
    Equation q;
    Dim extent[LABELS], dims[TENSOR_RANK_MOST];
    if (!t)
        return rel_blocked(r);
    if (t->n == 0 || t->n > TENSOR_RANK_MOST) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, 0, "`einsum` of %u tensors", (unsigned)t->n);
        return REL_FAILED;
    }
    const Type *first = type_find(t->parts[0]);
    for (uint32_t i = 0; i < t->n; i++) {
        const Type *x = type_find(t->parts[i]);
        ranks[i] = (int)x->n;
        shapes[i] = x->dims;
        if (!dtype_eq(x->dtype, first->dtype)) {
            rel_error(r, E0203_DTYPE, 0, "field %u of `einsum` is `%s`, field 0 is `%s`",
                      (unsigned)i, type_str(r->cx, x), type_str(r->cx, first));
            return REL_FAILED;
        }
    }
    Str text = attrs_string(r->attrs, "equation");
    if (!read_equation(text, (int)t->n, ranks, &q)) {
        Diag *d =
            rel_error(r, E0216_OPERATOR_ARGUMENT, 0, "the equation \"%.*s\" does not fit `%s`",
                      (int)text.len, text.ptr, type_str(r->cx, t));
        diag_help(d, "one letter an axis, one term a tensor, such as \"ij,jk->ik\"");
        return REL_FAILED;
    }
    if (!label_extents(&q, shapes, extent)) {
        rel_error(r, E0202_SHAPE, 0, "the axes of \"%.*s\" do not agree in `%s`", (int)text.len,
                  text.ptr, type_str(r->cx, t));
        return REL_FAILED;
    }
    for (int k = 0; k < q.out.n; k++)
        dims[k] = extent[q.out.label[k]];
    return rel_out_tensor(r, first->dtype, (uint32_t)q.out.n, dims);
}

static void compute_einsum(TeBuilder *b)
{
    int n = te_n_inputs(b), ranks[TENSOR_RANK_MOST] = {0}, n_reduced = 0;
    const int64_t *shapes[TENSOR_RANK_MOST] = {NULL};
    int64_t reduced[LABELS], extent[LABELS];
    Te *axis[LABELS] = {NULL}, *body = NULL;
    Equation q;
    for (int i = 0; i < n; i++) {
        ranks[i] = te_input(b, i).rank;
        shapes[i] = te_input(b, i).shape;
    }
    read_equation(attrs_string(b->attrs, "equation"), n, ranks, &q);
    label_extents(&q, shapes, extent);
    for (int k = 0; k < q.out.n; k++)
        axis[q.out.label[k]] = te_axis(b, k);
    for (int i = 0; i < n; i++) {
        Te *index[TENSOR_RANK_MOST];
        for (int k = 0; k < ranks[i]; k++) {
            int c = q.in[i].label[k];
            if (!axis[c]) {
                axis[c] = te_axis(b, q.out.n + n_reduced);
                reduced[n_reduced++] = extent[c];
            }
            index[k] = shapes[i][k] == 1 ? te_int(b, 0) : axis[c];
        }
        Te *x = te_load(b, te_input(b, i), index);
        body = body ? te_binary(b, TE_MUL, body, x) : x;
    }
    if (n_reduced)
        te_output(b, te_reduce(b, TE_SUM, te_out_dtype(b, 0), q.out.n, te_out_shape(b, 0),
                               n_reduced, reduced, body));
    else
        ops_emit(b, body);
}

static const OpAttr einsum_attrs[] = {
    ATTR_MUST("equation", STRING, "the axes of each tensor and of the result: \"ij,jk->ik\""), {0}};

const Op einsum_ops[] = {
    {.name = "einsum",
     .doc = "The sum of products over the axes that the result does not have.",
     .args = args_tuple,
     .attrs = einsum_attrs,
     .samples = "((float32[2,3], float32[3,4]), equation=\"ij,jk->ik\")",
     .pattern = OP_INJECTIVE,
     OP_REL(rel_einsum),
     .compute = compute_einsum},
    {0},
};
