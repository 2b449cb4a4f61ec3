/* Sums of products over named axes. */
#include "stdlib/ops/ops.h"

#include <math.h>
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

/* Without `->` the result has `...` and then every label that occurs once, in alphabetical order. False when these are too many. */
static bool implicit_result(Equation *q)
{
    int count[LABELS] = {0};
    q->out = (Term){.dots = q->most_dots > 0};
    for (int i = 0; i < q->n_in; i++)
        for (int k = 0; k < q->in[i].n; k++)
            count[q->in[i].label[k]]++;
    for (int c = 'A'; c < LABELS; c++) {
        if (count[c] != 1)
            continue;
        if (q->out.n == TENSOR_RANK_MOST)
            return false;
        q->out.label[q->out.n++] = (unsigned char)c;
    }
    return true;
}

static bool is_label_twice(const Term *t)
{
    bool seen[LABELS] = {false};
    for (int k = 0; k < t->n; k++) {
        if (seen[t->label[k]])
            return true;
        seen[t->label[k]] = true;
    }
    return false;
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
        if (!read_term(&at, end, &q->out) || at < end || is_label_twice(&q->out))
            return false;
        given = true;
    }
    if (!given && !implicit_result(q))
        return false;
    if (q->out.dots && q->out.n + q->most_dots > TENSOR_RANK_MOST)
        return false;
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

/* Tensors that are multiplied, and the axes of what comes of it. */
typedef struct Factors {
    int n;
    TeTensor x[TENSOR_RANK_MOST];
    Term term[TENSOR_RANK_MOST], out;
    Dim extent[LABELS];
} Factors;

static void mark(const Term *t, bool *on)
{
    for (int k = 0; k < t->n; k++)
        on[t->label[k]] = true;
}

/* How many products the axes of two factors have together; and which of these the others or the result want. */
static double pair_cost(const Factors *f, int first, int second, Term *kept)
{
    bool here[LABELS] = {false}, wanted[LABELS] = {false};
    double cost = 1;
    *kept = (Term){0};
    mark(&f->out, wanted);
    for (int i = 0; i < f->n; i++)
        mark(&f->term[i], i == first || i == second ? here : wanted);
    for (int c = 0; c < LABELS; c++) {
        cost *= here[c] ? (double)f->extent[c] : 1;
        if (here[c] && wanted[c] && kept->n == TENSOR_RANK_MOST)
            return INFINITY;
        if (here[c] && wanted[c])
            kept->label[kept->n++] = (unsigned char)c;
    }
    return cost;
}

/* The pair that costs least, with what is kept of it. */
static double best_pair(const Factors *f, int *first, int *second, Term *kept)
{
    double least = INFINITY;
    for (int i = 0; i < f->n; i++)
        for (int k = i + 1; k < f->n; k++) {
            Term t;
            double cost = pair_cost(f, i, k, &t);
            if (cost >= least)
                continue;
            least = cost;
            *first = i;
            *second = k;
            *kept = t;
        }
    return least;
}

static void join(Factors *f, int first, int second, TeTensor x, const Term *kept)
{
    f->x[first] = x;
    f->term[first] = *kept;
    f->n--;
    f->x[second] = f->x[f->n];
    f->term[second] = f->term[f->n];
}

/* The sum of the products of some factors over the axes that the result does not have. */
static Te *products(TeBuilder *b, const Factors *f, const Term *out, int *n_reduced,
                    int64_t *reduced)
{
    Te *axis[LABELS] = {NULL}, *body = NULL;
    *n_reduced = 0;
    for (int k = 0; k < out->n; k++)
        axis[out->label[k]] = te_axis(b, k);
    for (int i = 0; i < f->n; i++) {
        Te *index[TENSOR_RANK_MOST];
        for (int k = 0; k < f->x[i].rank; k++) {
            int c = f->term[i].label[k];
            if (!axis[c]) {
                axis[c] = te_axis(b, out->n + *n_reduced);
                reduced[(*n_reduced)++] = f->extent[c];
            }
            index[k] = f->x[i].shape[k] == 1 ? te_int(b, 0) : axis[c];
        }
        Te *x = te_load(b, f->x[i], index);
        body = body ? te_binary(b, TE_MUL, body, x) : x;
    }
    return body;
}

static TeTensor product_of(TeBuilder *b, const Factors *f, const Term *out)
{
    int64_t reduced[LABELS], shape[TENSOR_RANK_MOST];
    int n_reduced;
    DType d = te_out_dtype(b, 0);
    Te *body = products(b, f, out, &n_reduced, reduced);
    for (int k = 0; k < out->n; k++)
        shape[k] = f->extent[out->label[k]];
    return n_reduced ? te_reduce(b, TE_SUM, d, out->n, shape, n_reduced, reduced, body)
                     : te_map(b, d, out->n, shape, body);
}

/* Whether two factors after the other take fewer products than all at once, or few more: two are a matrix product. */
static bool pairs_pay(const Factors *f)
{
    Factors left = *f;
    double all = 1, pairs = 0;
    int first = 0, second = 0;
    Term kept;
    for (int c = 0; c < LABELS; c++)
        all *= f->extent[c] != -2 ? (double)f->extent[c] : 1;
    while (left.n > 2) {
        pairs += best_pair(&left, &first, &second, &kept);
        join(&left, first, second, left.x[first], &kept);
    }
    return f->n > 2 && pairs + pair_cost(&left, 0, 1, &kept) < 1.5 * all;
}

static void compute_einsum(TeBuilder *b)
{
    int n = te_n_inputs(b), ranks[TENSOR_RANK_MOST] = {0}, n_reduced;
    const int64_t *shapes[TENSOR_RANK_MOST] = {NULL};
    int64_t reduced[LABELS];
    DType d = te_out_dtype(b, 0);
    Equation q;
    Factors f = {.n = n};
    for (int i = 0; i < n; i++) {
        f.x[i] = te_input(b, i);
        ranks[i] = f.x[i].rank;
        shapes[i] = f.x[i].shape;
    }
    read_equation(attrs_string(b->attrs, "equation"), n, ranks, &q);
    label_extents(&q, shapes, f.extent);
    memcpy(f.term, q.in, sizeof f.term);
    f.out = q.out;
    /* Halves would be rounded between. */
    bool wide = !dtype_is_float(d) || d.bits >= 32;
    while (wide && f.n > 2 && pairs_pay(&f)) {
        int first = 0, second = 0;
        Term kept;
        best_pair(&f, &first, &second, &kept);
        Factors two = {.n = 2, .x = {f.x[first], f.x[second]}};
        two.term[0] = f.term[first];
        two.term[1] = f.term[second];
        memcpy(two.extent, f.extent, sizeof f.extent);
        join(&f, first, second, product_of(b, &two, &kept), &kept);
    }
    Te *body = products(b, &f, &f.out, &n_reduced, reduced);
    if (n_reduced)
        te_output(b,
                  te_reduce(b, TE_SUM, d, f.out.n, te_out_shape(b, 0), n_reduced, reduced, body));
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
