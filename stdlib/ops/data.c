/* Writing and reading at positions that are data, and operators on sequences. */
#include "stdlib/ops/ops.h"

#include "base/number.h"

#include "te/loops.h"

#include <string.h>

static const DType int32_dtype = {DTYPE_CODE_INT, 32, 1};

/* Three tensors without gaps and a result that begins with the elements of the first. */
typedef struct Scatter {
    Tensor *data, *indices, *updates, *out;
    TeOp op;
    DTypeId id;
    size_t size; /* of an element */
    int64_t inner; /* elements that a point names */
    bool replaces, halves;
    uint64_t two; /* in the element type: what sums are divided by where it halves */
} Scatter;

static bool scatter_begin(OpCall *c, Scatter *s)
{
    *s = (Scatter){
        .data = kernel_arg(c, 0), .indices = kernel_arg(c, 1), .updates = kernel_arg(c, 2)};
    if (!s->data || !s->indices || !s->updates)
        return false;
    s->out = kernel_changed(c, s->data);
    s->id = dtype_id(s->data->dtype);
    s->size = dtype_size(s->data->dtype);
    return s->out != NULL;
}

static bool scatter_end(OpCall *c, Scatter *s, bool good)
{
    tensor_release(s->data);
    tensor_release(s->indices);
    tensor_release(s->updates);
    if (!good) {
        tensor_release(s->out);
        s->out = NULL;
    }
    return kernel_set(c, s->out);
}

/* Folds n updates from place `from` into the result at place `at`. */
static void scatter_put(const Scatter *s, int64_t at, int64_t from, int64_t n)
{
    size_t size = s->size;
    char *to = s->out->data + (size_t)at * size;
    const char *with = s->updates->data + (size_t)from * size;
    if (s->replaces)
        memcpy(to, with, (size_t)n * size);
    else
        te_loop_binary(s->op, s->id, to, to, with, n);
    for (int64_t i = 0; i < n && s->halves; i++)
        te_loop_binary(TE_DIV, s->id, to + (size_t)i * size, to + (size_t)i * size, &s->two, 1);
}

#define MEAN "mean"
static void scatter_mode(Str mode, Scatter *s)
{
    static const struct {
        const char *name;
        TeOp op;
    } modes[] = {{"update", TE_ADD}, {"add", TE_ADD}, {"mul", TE_MUL},
                 {"min", TE_MIN},    {"max", TE_MAX}, {MEAN, TE_ADD}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (str_is(mode, modes[i].name))
            s->op = modes[i].op;
    s->replaces = str_is(mode, modes[0].name);
    s->halves = str_is(mode, MEAN);
    if (s->halves && s->out)
        te_loop_cast(s->id, DT_INT32, &s->two, &(int32_t){2}, 1);
}

/* ---- scatter_elements, scatter, scatter_add ------------------------------------------------------- */

#define SHAPES_rel_scatter "(d...), (i...), (i...) -> (d...)"
static RelResult rel_scatter(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *index = t ? rel_tensor(r, 1) : NULL;
    const Type *updates = index ? rel_tensor(r, 2) : NULL;
    if (!updates)
        return rel_blocked(r);
    int axis = rel_axis(r, attrs_int(r->attrs, "axis", 0), t->n);
    if (axis < 0 || !rel_is_int(r, 1, index) || !rel_rank(r, 1, index, t->n) ||
        !rel_rank(r, 2, updates, t->n) || !rel_dtypes_agree(r, 0, t, 2, updates))
        return REL_FAILED;
    for (uint32_t i = 0; i < t->n; i++) {
        if (dim_agrees(index->dims[i], updates->dims[i]))
            continue;
        rel_error(r, E0202_SHAPE, 2, "indices `%s` and updates `%s` differ in shape",
                  type_str(r->cx, index), type_str(r->cx, updates));
        return REL_FAILED;
    }
    return ops_indices_fit(r, axis, t, index) ? rel_set_output(r, t) : REL_FAILED;
}

static void scatter_words(const Scatter *s, size_t size, int64_t from, int64_t n,
                          const int64_t *places)
{
    const char *with = s->updates->data + (size_t)from * size;
    for (int64_t i = 0; i < n && size == 4; i++)
        memcpy(s->out->data + 4 * places[i], with + 4 * i, 4);
    for (int64_t i = 0; i < n && size == 8; i++)
        memcpy(s->out->data + 8 * places[i], with + 8 * i, 8);
}

static bool scatter_some(void *data, int64_t from, int64_t n, const int64_t *places)
{
    const Scatter *s = data;
    size_t size = s->size;
    if (s->replaces && (size == 4 || size == 8)) {
        scatter_words(s, size, from, n, places);
        return true;
    }
    const char *with = s->updates->data + (size_t)from * size;
    if (!s->replaces && !s->halves && te_loop_scatter(s->op, s->id, s->out->data, places, with, n))
        return true;
    for (int64_t i = 0; i < n; i++)
        scatter_put(s, places[i], from + i, 1);
    return true;
}

static bool scatter_run(OpCall *c, Scatter *s)
{
    int axis = ops_axis(c->attrs, "axis", s->out->rank);
    return kernel_places(c, s->indices, s->out, axis, scatter_some, s);
}

static bool scatter_as(OpCall *c, Str mode)
{
    Scatter s;
    bool good = scatter_begin(c, &s);
    scatter_mode(mode, &s);
    return scatter_end(c, &s, good && scatter_run(c, &s));
}

/* Each update, by the axes behind those of the data, goes to its place there. */
static void card_scatter(TeBuilder *b, Str mode, TeTensor updates, Te **place)
{
    Scatter s = {0};
    TeTensor x = te_input(b, 0);
    Te *from[TENSOR_RANK_MOST];
    scatter_mode(mode, &s);
    TeReduce fold = s.replaces       ? TE_NO_REDUCE
                    : s.op == TE_ADD ? TE_SUM
                    : s.op == TE_MUL ? TE_PROD
                    : s.op == TE_MIN ? TE_REDUCE_MIN
                                     : TE_REDUCE_MAX;
    ops_axes(b, x.rank, updates.rank, from);
    Te *at = te_int(b, 0);
    for (int i = 0; i < x.rank; i++) /* an axis of one element is looked at too */
        at = te_binary(b, TE_ADD, te_binary(b, TE_MUL, at, te_int(b, x.shape[i])), place[i]);
    te_output(b,
              te_scatter(b, fold, x, updates.rank, updates.shape, at, te_load(b, updates, from)));
}

static void card_along(TeBuilder *b, Str mode)
{
    TeTensor x = te_input(b, 0), index = te_input(b, 1);
    int axis = ops_axis(b->attrs, "axis", x.rank);
    Te *place[TENSOR_RANK_MOST];
    ops_axes(b, x.rank, x.rank, place);
    place[axis] = ops_place(b, te_load(b, index, place), x.shape[axis]);
    card_scatter(b, mode, te_input(b, 2), place);
}

/* Each mean is of the one before it, so updates of one place cannot come in any order. */
static bool scatter_elements_on_card(const Attrs *attrs)
{
    return !str_is(attrs_string(attrs, "reduction"), MEAN);
}

static void card_scatter_elements(TeBuilder *b)
{
    card_along(b, attrs_string(b->attrs, "reduction"));
}

static void card_scatter_update(TeBuilder *b)
{
    card_along(b, str_of("update"));
}

static void card_scatter_add(TeBuilder *b)
{
    card_along(b, str_of("add"));
}

static bool kernel_scatter_elements(OpCall *c)
{
    return scatter_as(c, attrs_string(c->attrs, "reduction"));
}

static bool kernel_scatter(OpCall *c)
{
    return scatter_as(c, str_of("update"));
}

static bool kernel_scatter_add(OpCall *c)
{
    return scatter_as(c, str_of("add"));
}

/* ---- scatter_nd ----------------------------------------------------------------------------------- */

#define SHAPES_rel_scatter_nd "(d...), (m, i...), (u...) -> (d...)"
static RelResult rel_scatter_nd(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *index = t ? rel_tensor(r, 1) : NULL;
    const Type *updates = index ? rel_tensor(r, 2) : NULL;
    if (!updates)
        return rel_blocked(r);
    if (!rel_is_int(r, 1, index) || !rel_dtypes_agree(r, 0, t, 2, updates))
        return REL_FAILED;
    Dim m = index->n ? index->dims[0] : -2;
    bool fits = m >= 0 && m <= (Dim)t->n && updates->n == index->n - 1 + t->n - (uint32_t)m;
    for (uint32_t i = 1; fits && i < index->n; i++)
        fits = dim_agrees(index->dims[i], updates->dims[i - 1]);
    for (uint32_t i = (uint32_t)m; fits && i < t->n; i++)
        fits = dim_agrees(t->dims[i], updates->dims[index->n - 1 + i - (uint32_t)m]);
    if (fits)
        return rel_set_output(r, t);
    rel_error(r, E0202_SHAPE, 1, "data `%s`, indices `%s` and updates `%s` do not fit",
              type_str(r->cx, t), type_str(r->cx, index), type_str(r->cx, updates));
    return REL_FAILED;
}

static bool scatter_points(void *data, int64_t from, int64_t n, const int64_t *places)
{
    const Scatter *s = data;
    if (s->inner == 1)
        return scatter_some(data, from, n, places);
    for (int64_t i = 0; i < n; i++)
        scatter_put(s, places[i], (from + i) * s->inner, s->inner);
    return true;
}

static bool scatter_nd_run(OpCall *c, Scatter *s)
{
    s->inner = kernel_span(s->out, (int)s->indices->shape[0], s->out->rank);
    return kernel_points(c, s->indices, s->out, 0, scatter_points, s);
}

static bool kernel_scatter_nd(OpCall *c)
{
    Scatter s;
    bool good = scatter_begin(c, &s);
    scatter_mode(attrs_string(c->attrs, "mode"), &s);
    return scatter_end(c, &s, good && scatter_nd_run(c, &s));
}

static void card_scatter_nd(TeBuilder *b)
{
    TeTensor x = te_input(b, 0), index = te_input(b, 1);
    int m = (int)index.shape[0], points = index.rank - 1;
    Te *place[TENSOR_RANK_MOST], *i[TENSOR_RANK_MOST];
    ops_axes(b, x.rank, points, i + 1);
    for (int k = 0; k < m; k++) {
        i[0] = te_int(b, k);
        place[k] = ops_place(b, te_load(b, index, i), x.shape[k]);
    }
    ops_axes(b, x.rank + points, x.rank - m, place + m);
    card_scatter(b, attrs_string(b->attrs, "mode"), te_input(b, 2), place);
}

/* ---- argwhere ------------------------------------------------------------------------------------- */

#define SHAPES_rel_argwhere "(d...) -> (?, len(d))"
static RelResult rel_argwhere(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    return rel_out_tensor(r, int32_dtype, 2, (Dim[]){DIM_ANY, t->n});
}

CLONES static int64_t count_set(const char *x, int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += x[i] != 0;
    return count;
}

enum { PLACES = 256 };

/* The places of what is set among the elements [from, to) of a row, whose place is `at`; they are gathered without a branch. */
static int32_t *put_places(int32_t *out, int last, const int64_t *at, const char *row, int64_t from,
                           int64_t to)
{
    int32_t place[PLACES];
    int n = 0;
    for (int64_t j = from; j < to; j++) {
        place[n] = (int32_t)j;
        n += row[j] != 0;
    }
    int rank = last + 1;
    for (int k = 0; k < last; k++)
        for (int i = 0; i < n; i++)
            out[i * rank + k] = (int32_t)at[k];
    for (int i = 0; last >= 0 && i < n; i++)
        out[i * rank + last] = place[i];
    return out + (ptrdiff_t)n * rank;
}

static bool kernel_argwhere(OpCall *c)
{
    static const DType bits = {DTYPE_CODE_UINT, 1, 1};
    Tensor *x = kernel_arg_as(c, 0, bits);
    if (!x)
        return false;
    int last = x->rank - 1;
    int64_t n = 0, at[TENSOR_RANK_MOST] = {0}, row = last < 0 ? 1 : x->shape[last];
    for (int64_t i = 0; i < x->size && !limit_hit(&c->cx->limits); i += LIMIT_EVERY)
        n += count_set(x->data + i, x->size - i < LIMIT_EVERY ? x->size - i : LIMIT_EVERY);
    Tensor *out = tensor_new(&c->cx->limits, int32_dtype, 2, (int64_t[]){n, x->rank});
    int32_t *to = out ? (int32_t *)(void *)out->data : NULL;
    for (int64_t i = 0; out && i < x->size; i += row) {
        for (int64_t j = 0; j < row && !limit_hit_at(&c->cx->limits, j); j += PLACES)
            to = put_places(to, last, at, x->data + i, j, row - j < PLACES ? row : j + PLACES);
        for (int k = last - 1; k >= 0 && ++at[k] == x->shape[k]; k--)
            at[k] = 0;
    }
    tensor_release(x);
    return kernel_set(c, out);
}

/* ---- adv_index ------------------------------------------------------------------------------------ */

#define SHAPES_rel_adv_index "(d...) and k of (i...) in a tuple -> (broadcast(i...)..., d[k:]...)"
static RelResult rel_adv_index(Rel *r)
{
    const Type *t = rel_tensors(r, 0);
    if (!t)
        return rel_blocked(r);
    const Type *data = t->n ? type_find(t->parts[0]) : NULL;
    if (!data || t->n < 2 || t->n - 1 > data->n) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, 0,
                  "`adv_index` takes a tuple of a tensor and indices, at most one for each axis");
        return REL_FAILED;
    }
    Dim dims[2 * TENSOR_RANK_MOST], next[TENSOR_RANK_MOST];
    uint32_t n = 0;
    for (uint32_t i = 1; i < t->n; i++) {
        const Type *index = type_find(t->parts[i]);
        if (!dtype_is_int(index->dtype) ||
            !dims_broadcast(r->cx, n, dims, index->n, index->dims, &n, next)) {
            rel_error(r, E0202_SHAPE, 0, "index %u, `%s`, does not fit the others", (unsigned)i,
                      type_str(r->cx, index));
            return REL_FAILED;
        }
        memcpy(dims, next, n * sizeof *dims);
    }
    for (uint32_t i = t->n - 1; i < data->n; i++)
        dims[n++] = data->dims[i];
    return rel_out_tensor(r, data->dtype, n, dims);
}

static void compute_adv_index(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int k = te_n_inputs(b) - 1, r = te_out_rank(b, 0), lead = r - (x.rank - k);
    Te *index[TENSOR_RANK_MOST], *at[TENSOR_RANK_MOST];
    if (ops_out_is_empty(b)) {
        ops_emit(b, ops_number(b, 0));
        return;
    }
    for (int i = 0; i < k && ops_holds_elements(b, "adv_index", x.shape[i]); i++) {
        TeTensor t = te_input(b, i + 1);
        for (int d = 0; d < t.rank; d++)
            at[d] = t.shape[d] == 1 ? te_int(b, 0) : te_axis(b, lead - t.rank + d);
        index[i] = ops_place(b, te_load(b, t, at), x.shape[i]);
    }
    for (int i = k; i < x.rank; i++)
        index[i] = te_axis(b, lead + i - k);
    if (!b->failed)
        ops_emit(b, te_load(b, x, index));
}

/* ---- unravel_index, invert_permutation ------------------------------------------------------------ */

#define SHAPES_rel_unravel_index "(n...), (r) -> (r, n...)"
static RelResult rel_unravel_index(Rel *r)
{
    const Type *i = rel_tensor(r, 0), *shape = i ? rel_tensor(r, 1) : NULL;
    if (!shape)
        return rel_blocked(r);
    if (!rel_is_int(r, 0, i) || !rel_is_int(r, 1, shape) || !rel_rank(r, 1, shape, 1))
        return REL_FAILED;
    if (i->n > 1) {
        rel_error(r, E0202_SHAPE, 0, "`indices` must be a scalar or have one axis, not `%s`",
                  type_str(r->cx, i));
        return REL_FAILED;
    }
    Dim dims[2] = {shape->dims[0], i->n ? i->dims[0] : 0};
    return rel_out_tensor(r, i->dtype, i->n ? 2 : 1, dims);
}

/* The number without its sign; of uint64 with all its bits. */
static uint64_t without_sign(const Tensor *t, int64_t i, bool *negative)
{
    int64_t v = tensor_get_int(t, i);
    *negative = v < 0 && dtype_is_signed(t->dtype);
    return *negative ? -(uint64_t)v : (uint64_t)v;
}

static bool kernel_unravel_index(OpCall *c)
{
    Tensor *index = kernel_arg(c, 0), *shape = kernel_arg(c, 1), *out = kernel_out(c, 0);
    for (int64_t i = 0; index && shape && out && i < index->size; i++) {
        if (limit_hit_at(&c->cx->limits, i))
            break;
        bool negative, below;
        uint64_t rest = without_sign(index, i, &negative);
        for (int64_t k = shape->size - 1; k >= 0; k--) {
            uint64_t extent = without_sign(shape, k, &below);
            extent = below ? 0 : extent;
            uint64_t place = extent > 0 ? rest % extent : 0;
            Value v = value_scalar_int(out->dtype, (int64_t)(negative ? -place : place));
            size_t size = dtype_size(out->dtype);
            memcpy(out->data + (size_t)(k * index->size + i) * size, &v.bits, size);
            rest = extent > 0 ? rest / extent : 0;
        }
    }
    tensor_release(index);
    tensor_release(shape);
    return kernel_set(c, out);
}

#define SHAPES_rel_invert_permutation "(n) -> (n)"
static RelResult rel_invert_permutation(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (t && (!rel_rank(r, 0, t, 1) || !rel_is_int(r, 0, t)))
        return REL_FAILED;
    return rel_same(r);
}

static bool kernel_invert_permutation(OpCall *c)
{
    Tensor *x = kernel_arg(c, 0), *out = x ? kernel_out(c, 0) : NULL;
    int64_t first = 0;
    for (int64_t i = 0; out && i < x->size && !limit_hit_at(&c->cx->limits, i); i++) {
        int64_t at = kernel_index(c, kernel_int(x, i), x->size);
        first = i == 0 ? at : first;
        bool again = at >= 0 && i > 0 && (at == first || kernel_int(out, at) != 0);
        if (again)
            diag_error(c->cx->diags, E0304_INDEX, c->span, "%lld stands twice in a permutation",
                       (long long)at);
        if (at < 0 || again) {
            tensor_release(out);
            out = NULL;
            break;
        }
        Value v = value_scalar_int(out->dtype, i);
        size_t size = dtype_size(out->dtype);
        memcpy(out->data + (size_t)at * size, &v.bits, size);
    }
    tensor_release(x);
    return kernel_set(c, out);
}

/* ---- sequences ------------------------------------------------------------------------------------ */

#define SHAPES_rel_sequence_mask "(d...), (n) -> (d...)"
static RelResult rel_sequence_mask(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    int64_t axis = attrs_int(r->attrs, "axis", 0);
    if (t->n < 2 || (axis != 0 && axis != 1)) {
        rel_error(r, E0217_AXIS, 0,
                  "`sequence_mask` takes a tensor of rank 2 or more and axis 0 or 1");
        return REL_FAILED;
    }
    const Type *n = type_find(r->in[1])->kind == TYPE_HOLE ? NULL : rel_tensor(r, 1);
    if (!rel_set_tensor(r, 1, n ? n->dtype : int32_dtype, 1, &t->dims[1 - axis]))
        return REL_FAILED;
    return rel_set_output(r, t);
}

static void compute_sequence_mask(TeBuilder *b)
{
    TeTensor x = te_input(b, 0), n = te_input(b, 1);
    int time = (int)attrs_int(b->attrs, "axis", 0);
    Te *batch[1] = {te_axis(b, 1 - time)};
    Te *valid = te_binary(b, TE_LT, te_axis(b, time), ops_index(b, te_load(b, n, batch)));
    ops_emit(b, te_select(b, valid, ops_at_axes(b, x),
                          ops_number(b, attrs_float(b->attrs, "mask_value"))));
}

#define SHAPES_rel_reverse_sequence "(d...), (n) -> (d...)"
static RelResult rel_reverse_sequence(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *n = t ? rel_tensor(r, 1) : NULL;
    if (!n)
        return rel_blocked(r);
    int time = rel_axis(r, attrs_int(r->attrs, "seq_axis", 1), t->n);
    int batch = rel_axis(r, attrs_int(r->attrs, "batch_axis", 0), t->n);
    if (time < 0 || batch < 0 || !rel_is_int(r, 1, n) || !rel_rank(r, 1, n, 1))
        return REL_FAILED;
    if (!dim_agrees(n->dims[0], t->dims[batch])) {
        rel_error(r, E0202_SHAPE, 1, "there are %lld lengths for %lld sequences",
                  (long long)n->dims[0], (long long)t->dims[batch]);
        return REL_FAILED;
    }
    return rel_set_output(r, t);
}

static void compute_reverse_sequence(TeBuilder *b)
{
    TeTensor x = te_input(b, 0), n = te_input(b, 1);
    int time = ops_axis(b->attrs, "seq_axis", x.rank);
    Te *batch[1] = {te_axis(b, ops_axis(b->attrs, "batch_axis", x.rank))}, *index[TENSOR_RANK_MOST];
    ops_axes(b, 0, x.rank, index);
    Te *length = ops_index(b, te_load(b, n, batch)), *t = index[time];
    length = te_binary(b, TE_MIN, length, te_int(b, x.shape[time])); /* no more than there is */
    Te *turned = te_binary(b, TE_SUB, te_binary(b, TE_SUB, length, te_int(b, 1)), t);
    index[time] = te_select(b, te_binary(b, TE_LT, t, length), turned, t);
    ops_emit(b, te_load(b, x, index));
}

/* ---- sliding_window, sparse_to_dense, matrix_set_diag ---------------------------------------------- */

#define SHAPES_rel_sliding_window \
    "(d...) -> (d[:axis]..., window(d[axis:], window_shape)..., window_shape...)"
static RelResult rel_sliding_window(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    int axis = rel_axis(r, attrs_int(r->attrs, "axis", 0), t->n),
        n = axis < 0 ? 0 : (int)t->n - axis;
    int64_t window[TENSOR_RANK_MOST], strides[TENSOR_RANK_MOST];
    Dim dims[2 * TENSOR_RANK_MOST];
    if (axis < 0 || !rel_ints(r, "window_shape", n, window) || !rel_ints(r, "strides", n, strides))
        return REL_FAILED;
    for (int i = 0; i < axis; i++)
        dims[i] = t->dims[i];
    for (int i = 0; i < n; i++) {
        Dim d = t->dims[axis + i];
        if (d >= 0 && d < window[i]) {
            rel_error(r, E0202_SHAPE, 0,
                      "the window of %lld is larger than axis %d with %lld elements",
                      (long long)window[i], axis + i, (long long)d);
            return REL_FAILED;
        }
        dims[axis + i] = dim_windows(r->cx, d, 0, window[i], strides[i]);
        dims[axis + n + i] = window[i];
    }
    return rel_out_tensor(r, t->dtype, (uint32_t)(axis + 2 * n), dims);
}

static void compute_sliding_window(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int axis = ops_axis(b->attrs, "axis", x.rank), n = x.rank - axis;
    int64_t strides[TENSOR_RANK_MOST];
    Te *index[TENSOR_RANK_MOST];
    ops_ints(b->attrs, "strides", n, strides);
    for (int i = 0; i < x.rank; i++) {
        index[i] = te_axis(b, i);
        if (i >= axis)
            index[i] =
                te_binary(b, TE_ADD, te_binary(b, TE_MUL, index[i], te_int(b, strides[i - axis])),
                          te_axis(b, i + n));
    }
    ops_emit(b, te_load(b, x, index));
}

#define SHAPES_rel_sparse_to_dense "(n, r), (n), () -> (output_shape...)"
static RelResult rel_sparse_to_dense(Rel *r)
{
    const Type *index = rel_tensor(r, 0), *v = index ? rel_tensor(r, 1) : NULL;
    const Type *rest = v ? rel_tensor(r, 2) : NULL;
    Dim dims[TENSOR_RANK_MOST];
    if (!rest)
        return rel_blocked(r);
    bool known = true;
    int n = attrs_ints(r->attrs, "output_shape", dims, TENSOR_RANK_MOST);
    if (r->n == 4) {
        const Type *shape = rel_tensor(r, 3);
        if (!shape)
            return rel_blocked(r);
        if (!rel_is_int(r, 3, shape) || !rel_rank(r, 3, shape, 1))
            return REL_FAILED;
        n = rel_ints_of(r, 3, dims, TENSOR_RANK_MOST);
        known = n >= 0;
        if (known && !ops_extents_good(r, 3, n, dims))
            return REL_FAILED;
        n = known ? n : dim_is_symbol(shape->dims[0]) ? -1 : (int)shape->dims[0];
    }
    if (!rel_is_int(r, 0, index) || !rel_is_scalar(r, 2, rest) ||
        !rel_dtypes_agree(r, 1, v, 2, rest))
        return REL_FAILED;
    if (index->n > 2 || v->n > 1 || (index->n < 2 && n >= 0 && n != 1) ||
        (index->n == 2 && !dim_agrees(index->dims[1], n)) ||
        (v->n == 1 && !dim_agrees(v->dims[0], index->n ? index->dims[0] : 1))) {
        Diag *d = rel_error(r, E0202_SHAPE, 0,
                            "indices `%s` and values `%s` do not fit a result of rank %d",
                            type_str(r->cx, index), type_str(r->cx, v), n);
        diag_help(d, "each row of the indices names one place; there is a value for each, or one");
        return REL_FAILED;
    }
    return known ? rel_out_tensor(r, v->dtype, (uint32_t)n, dims) : rel_unknown(r, v->dtype, n);
}

static bool kernel_sparse_to_dense(OpCall *c)
{
    Tensor *index = kernel_arg(c, 0), *values = kernel_arg(c, 1), *rest = kernel_arg(c, 2);
    Tensor *out = index && values && rest ? kernel_out(c, 0) : NULL;
    bool good = out != NULL;
    size_t size = out ? dtype_size(out->dtype) : 1;
    if (out)
        te_loop_fill(size, out->data, rest->data, out->size);
    int64_t points = out && out->rank ? index->size / out->rank : 0;
    for (int64_t p = 0; good && p < points && !limit_hit_at(&c->cx->limits, p); p++) {
        int64_t at = 0;
        for (int k = 0; good && k < out->rank; k++) {
            int64_t v = kernel_index(c, kernel_int(index, p * out->rank + k), out->shape[k]);
            good = v >= 0;
            at = at * out->shape[k] + v;
        }
        if (good)
            memcpy(out->data + (size_t)at * size,
                   values->data + (values->rank ? (size_t)p * size : 0), size);
    }
    tensor_release(index);
    tensor_release(values);
    tensor_release(rest);
    if (!good) {
        tensor_release(out);
        out = NULL;
    }
    return kernel_set(c, out);
}

/* Whether extents that are known are these diagonals of these matrices. */
static bool diagonals_fit(const Type *t, const Type *d, int64_t k1, int64_t k2)
{
    if (t->n < 2 || k1 > k2 || d->n + (k1 == k2) != t->n)
        return false;
    for (uint32_t i = 0; i + 2 < t->n; i++)
        if (!dim_agrees(t->dims[i], d->dims[i]))
            return false;
    Dim rows = t->dims[t->n - 2], columns = t->dims[t->n - 1], bands;
    if (!int64_sub(k2, k1, &bands) || !int64_add(bands, 1, &bands) || (rows >= 0 && k1 <= -rows) ||
        (columns >= 0 && columns <= k2) || (k1 != k2 && !dim_agrees(d->dims[d->n - 2], bands)))
        return false;
    if (rows < 0 || columns < 0)
        return true;
    Dim below = rows + (k2 < 0 ? k2 : 0), beside = columns - (k1 > 0 ? k1 : 0);
    return dim_agrees(d->dims[d->n - 1], below < beside ? below : beside);
}

#define SHAPES_rel_matrix_set_diag "(d...), (e...) -> (d...)"
static RelResult rel_matrix_set_diag(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *d = t ? rel_tensor(r, 1) : NULL;
    if (!d)
        return rel_blocked(r);
    int64_t k1 = attrs_int(r->attrs, "k1", 0), k2 = attrs_int(r->attrs, "k2", 0);
    if (!diagonals_fit(t, d, k1, k2)) {
        rel_error(r, E0202_SHAPE, 1, "diagonals `%s` do not fit `%s`", type_str(r->cx, d),
                  type_str(r->cx, t));
        return REL_FAILED;
    }
    return rel_dtypes_agree(r, 0, t, 1, d) ? rel_set_output(r, t) : REL_FAILED;
}

/* Diagonal j - i = d stands in row k2 - d of the diagonals; shorter ones lie at one end of theirs. */
static void compute_matrix_set_diag(TeBuilder *b)
{
    TeTensor x = te_input(b, 0), diag = te_input(b, 1);
    int64_t k1 = attrs_int(b->attrs, "k1", 0), k2 = attrs_int(b->attrs, "k2", 0);
    int64_t rows = x.shape[x.rank - 2], columns = x.shape[x.rank - 1],
            most = diag.shape[diag.rank - 1];
    Te *i = te_axis(b, x.rank - 2), *j = te_axis(b, x.rank - 1), *zero = te_int(b, 0);
    Te *d = te_binary(b, TE_SUB, j, i), *above = te_binary(b, TE_GE, d, zero);
    Te *length =
        te_binary(b, TE_MIN, te_binary(b, TE_ADD, te_int(b, rows), te_binary(b, TE_MIN, d, zero)),
                  te_binary(b, TE_SUB, te_int(b, columns), te_binary(b, TE_MAX, d, zero)));
    Te *gap = te_binary(b, TE_SUB, te_int(b, most), length);
    Te *right = attrs_bool(b->attrs, "super_diag_right_align") ? gap : zero;
    Te *left = attrs_bool(b->attrs, "sub_diag_right_align") ? gap : zero;
    Te *at = te_binary(b, TE_ADD, te_select(b, above, i, j), te_select(b, above, right, left));
    Te *index[TENSOR_RANK_MOST];
    ops_axes(b, 0, x.rank - 2, index);
    if (k1 != k2)
        index[diag.rank - 2] = ops_clamp(b, te_binary(b, TE_SUB, te_int(b, k2), d), k2 - k1 + 1);
    index[diag.rank - 1] = ops_clamp(b, at, most ? most : 1);
    Te *on = te_binary(b, TE_AND, te_binary(b, TE_GE, d, te_int(b, k1)),
                       te_binary(b, TE_LE, d, te_int(b, k2)));
    ops_emit(b, te_select(b, on, te_load(b, diag, index), ops_at_axes(b, x)));
}

/* ---- rows ----------------------------------------------------------------------------------------- */

static const OpArg scatter_args[] = {{"data", "the tensor"},
                                     {"indices", "where to write: integers"},
                                     {"updates", "what to write"},
                                     {0}};
static const OpArg condition_args[] = {{"condition", "the tensor; numbers count as True unless 0"},
                                       {0}};
static const OpArg adv_index_args[] = {
    {"inputs", "a tuple of the tensor and an index for each of its first axes"}, {0}};
static const OpArg unravel_args[] = {
    {"indices", "positions: integers"}, {"shape", "the extents"}, {0}};
static const OpArg mask_args[] = {
    {"data", "the tensor"}, {"valid_length", "the length of each sequence"}, {0}};
static const OpArg reverse_args[] = {
    {"data", "the tensor"}, {"seq_lengths", "the length of each sequence"}, {0}};
static const OpArg sparse_args[] = {{"sparse_indices", "positions: integers"},
                                    {"sparse_values", "the elements there"},
                                    {"default_value", "the elements elsewhere: a scalar"},
                                    {0}};
static const OpArg dyn_sparse_args[] = {{"sparse_indices", "positions: integers"},
                                        {"sparse_values", "the elements there"},
                                        {"default_value", "the elements elsewhere: a scalar"},
                                        {"output_shape", "the extents of the result: integers"},
                                        {0}};
static const OpArg diag_args[] = {
    {"input", "matrices in the last two axes"}, {"diagonal", "the new diagonals"}, {0}};

#define SCATTER_AXIS ATTR_I("axis", 0, "the axis that the indices are for")
#define SCATTER_DOC "\"update\", \"add\", \"mul\", \"min\" or \"max\""
#define SCATTER_MODES "update", "add", "mul", "min", "max"
static const OpAttr scatter_elements_attrs[] = {
    SCATTER_AXIS,
    ATTR_ONE(
        "reduction", "update",
        "\"update\", \"add\", \"mul\", \"min\", \"max\" or \"mean\": half of what is there and the "
        "update, one after the other",
        SCATTER_MODES, MEAN),
    {0}};
static const OpAttr scatter_attrs[] = {SCATTER_AXIS, {0}};
static const OpAttr scatter_nd_attrs[] = {{.name = "mode",
                                           .type = ATTR_TYPE_STRING,
                                           .shown = true,
                                           .otherwise = ATTR_DEFAULT_STRING("update"),
                                           .doc = SCATTER_DOC,
                                           .one_of = (const char *const[]){SCATTER_MODES, NULL}},
                                          {0}};
static const OpAttr mask_attrs[] = {ATTR_F("mask_value", 0, "stands behind the end of a sequence"),
                                    ATTR_I("axis", 0, "the axis of time: 0 or 1"),
                                    {0}};
static const OpAttr reverse_attrs[] = {ATTR_I("seq_axis", 1, "the axis of time"),
                                       ATTR_I("batch_axis", 0, "the axis of the sequences"),
                                       {0}};
static const OpAttr window_attrs[] = {ATTR_MUST("axis", INT, "the first axis that windows cover"),
                                      ATTR_MUST("window_shape", INTS, "extents of the window"),
                                      ATTR_MUST("strides", INTS, "steps of the window"),
                                      {0}};
static const OpAttr sparse_attrs[] = {ATTR_MUST("output_shape", INTS, "the extents of the result"),
                                      {0}};
static const OpAttr dyn_sparse_attrs[] = {
    ATTR_NONE("output_shape", INTS, "unused: the argument gives it"), {0}};
static const OpAttr diag_attrs[] = {
    ATTR_I("k1", 0, "the lowest diagonal"),
    ATTR_I("k2", 0, "the highest diagonal"),
    ATTR_B("super_diag_right_align", 1, "short diagonals above lie at the end"),
    ATTR_B("sub_diag_right_align", 0, "short diagonals below lie at the end"),
    {0}};

/* What each element of the result was taken from, the value elsewhere in front, and what of the gradient goes there. */
#define SPARSE_GRAD(OP, SHAPE)                                                                 \
    "let %values = reshape(%sparse_values, newshape=[-1]); "                                   \
    "let %number = reshape_like(cumsum(ones_like(%values), axis=0, dtype=\"int32\"), "         \
    "%sparse_values); "                                                                        \
    "let %all = concatenate((reshape(%default_value, newshape=[-1]), %values), axis=0); "      \
    "let %at = reshape(" OP "(%sparse_indices, %number, 0i32, " SHAPE "), newshape=[-1]); "    \
    "let %got = scatter_elements(zeros_like(%all), %at, reshape(%g, newshape=[-1]), axis=0, "  \
    "reduction=\"add\"); "                                                                     \
    "let %rest = strided_slice(%got, begin=[1], end=[2147483647], strides=[1], axes=None); "   \
    "let %first = strided_slice(%got, begin=[0], end=[1], strides=[1], axes=None); "           \
    "(zeros_like(%sparse_indices), reshape_like(%rest, %sparse_values), reshape_like(%first, " \
    "%default_value)"

/* What the updates of a scattering get: PUT(A, U, HOW) is the call that puts U into A, GET(E) what of E stands at the indices.
 * Of updates of one place the last one counts ("update"), or all do. A factor gets the product of the others, in which one that is 0
 * stands out as in `prod`; the greatest or least of a place share what comes. */
#define PUT_AXIS(A, U, HOW) \
    "scatter_elements(" A ", %indices, " U ", axis=%axis, reduction=" HOW ")"
#define GET_AXIS(E) "gather(" E ", %indices, axis=%axis)"
#define PUT_ND(A, U, HOW) "scatter_nd(" A ", %indices, " U ", mode=" HOW ")"
#define GET_ND(E) "gather_nd(" E ", %indices)"
/* clang-format off */
#define UPDATE_GRAD(PUT, GET)                                                                                                           \
    "let %number = reshape_like(cumsum(ones_like(reshape(%updates, newshape=[-1])), axis=0, dtype=\"int64\"), %updates); "              \
    "let %last = equal(" GET(PUT("cast(zeros_like(%data), dtype=\"int64\")", "%number", "\"update\"")) ", %number); "                   \
    "let %zeros = zeros_like(%updates); "                                                                                               \
    "(" PUT("%g", "%zeros", "\"update\"") ", zeros_like(%indices), where(%last, " GET("%g") ", %zeros))"
#define ADD_GRAD(GET) "(%g, zeros_like(%indices), " GET("%g") ")"
#define MUL_GRAD(PUT, GET)                                                                                                              \
    "let %ones = ones_like(%updates); let %zeros = zeros_like(%updates); "                                                              \
    "let %null = equal(%updates, %zeros); let %full = where(%null, %ones, %updates); "                                                  \
    "let %alone = equal(" GET(PUT("zeros_like(%data)", "cast_like(%null, %updates)", "\"add\"")) ", %ones); "                           \
    "let %others = " GET("multiply(%g, " PUT("%data", "%full", "\"mul\"") ")") "; "                                                     \
    "(multiply(%g, " PUT("ones_like(%data)", "%updates", "\"mul\"") "), zeros_like(%indices), "                                         \
    "where(%null, where(%alone, %others, %zeros), divide(" GET("multiply(%g, %out)") ", %full)))"
#define BEST_GRAD(PUT, GET)                                                                                                             \
    "let %here = cast_like(equal(%data, %out), %data); "                                                                                \
    "let %there = cast_like(equal(%updates, " GET("%out") "), %updates); "                                                              \
    "let %share = divide(%g, " PUT("%here", "%there", "\"add\"") "); "                                                                  \
    "(multiply(%here, %share), zeros_like(%indices), multiply(%there, " GET("%share") "))"
/* An update counts half as much with each that comes to its place after it: places in order tell how many these are. */
#define MEAN_GRAD(PUT, GET)                                                                                                             \
    "let %numbers = reshape_like(cumsum(ones_like(reshape(%data, newshape=[-1])), axis=0, dtype=\"int64\"), %data); "                   \
    "let %places = reshape(" GET("%numbers") ", newshape=[-1]); "                                                                       \
    "let %order = argsort(%places, axis=0, dtype=\"int64\"); let %sorted = take(%places, %order, axis=0); "                             \
    "let %left = subtract(searchsorted(%sorted, %sorted, right=True, dtype=\"int64\"), "                                                \
    "cumsum(ones_like(%sorted), axis=0, exclusive=True)); "                                                                             \
    "let %share = power(cast_like(0.5f, %updates), cast_like(%left, %updates)); "                                                       \
    "let %shares = reshape_like(scatter_elements(zeros_like(%share), %order, %share, axis=0), %updates); "                              \
    "(multiply(%g, " PUT("ones_like(%data)", "zeros_like(%updates)", "\"mean\"") "), zeros_like(%indices), "                            \
    "multiply(" GET("%g") ", %shares))"
#define FOLD_GRAD(HOW, PUT, GET)                                                                                                        \
    "if (" HOW " == \"add\") { " ADD_GRAD(GET) " } else if (" HOW " == \"update\") { " UPDATE_GRAD(PUT, GET)                            \
    " } else if (" HOW " == \"mul\") { " MUL_GRAD(PUT, GET) " } else { " BEST_GRAD(PUT, GET) " }"
/* clang-format on */

#define SCATTER_SAMPLES "(float32[3,2], int32[1,2], float32[1,2])"
#define FOLD_SAMPLES(TYPES, HOW)                                                  \
    " (" TYPES ", " HOW "=\"add\") (" TYPES ", " HOW "=\"mul\") (" TYPES ", " HOW \
    "=\"min\") (" TYPES ", " HOW "=\"max\")"
#define ROW(NAME, ARGS, ATTRS, PATTERN, REL, COMPUTE, SAMPLES, ...) \
    OP_ROW(NAME, ARGS, ATTRS, PATTERN, REL, SAMPLES, __VA_ARGS__, .shapes = SHAPES_##REL, COMPUTE)

const Op data_ops[] = {
    ROW("scatter_elements", scatter_args, scatter_elements_attrs, OP_OPAQUE, rel_scatter,
        .kernel = kernel_scatter_elements,
        SCATTER_SAMPLES " (float32[3,2], int32[4,2], float32[4,2])" FOLD_SAMPLES(
            "float32[3,2], int32[4,2], float32[4,2]",
            "reduction") " (float32[3,2], int32[4,2], float32[4,2], reduction=\"mean\")",
        "Writes updates at indices along an axis.", .card = card_scatter_elements,
        .on_card = scatter_elements_on_card,
        .grad = "if (%reduction == \"mean\") { " MEAN_GRAD(PUT_AXIS, GET_AXIS) " } else " FOLD_GRAD(
            "%reduction", PUT_AXIS, GET_AXIS)),
    ROW("scatter", scatter_args, scatter_attrs, OP_OPAQUE, rel_scatter, .kernel = kernel_scatter,
        SCATTER_SAMPLES " (float32[3,2], int32[4,2], float32[4,2])",
        "Writes updates at indices along an axis.", .card = card_scatter_update,
        .grad = UPDATE_GRAD(PUT_AXIS, GET_AXIS)),
    ROW("scatter_add", scatter_args, scatter_attrs, OP_OPAQUE, rel_scatter,
        .kernel = kernel_scatter_add, SCATTER_SAMPLES, "Adds updates at indices along an axis.",
        .card = card_scatter_add, .grad = ADD_GRAD(GET_AXIS)),
    ROW("scatter_nd", scatter_args, scatter_nd_attrs, OP_OPAQUE, rel_scatter_nd,
        .kernel = kernel_scatter_nd,
        "(float32[4], int32[1,2], float32[2])" FOLD_SAMPLES("float32[4], int32[1,5], float32[5]",
                                                            "mode"),
        "Writes updates at positions whose coordinates stand along the first axis.",
        .card = card_scatter_nd, .grad = FOLD_GRAD("%mode", PUT_ND, GET_ND)),
    {.name = "argwhere",
     .doc = "The coordinates of the elements that are True, in order.",
     .args = condition_args,
     .samples = "(bool[2,3])",
     .pattern = OP_OPAQUE,
     .flags = OP_SHAPE_FROM_DATA,
     OP_REL(rel_argwhere),
     .kernel = kernel_argwhere},
    ROW("adv_index", adv_index_args, NULL, OP_INJECTIVE, rel_adv_index,
        .compute = compute_adv_index, "((float32[3,4], int32[2], int32[2]))",
        "The elements at positions given axis by axis."),
    ROW("unravel_index", unravel_args, NULL, OP_INJECTIVE, rel_unravel_index,
        .kernel = kernel_unravel_index, "(int32[3], int32[2])",
        "Positions of a flat tensor as coordinates in a shape."),
    ROW("invert_permutation", args_data, NULL, OP_INJECTIVE, rel_invert_permutation,
        .kernel = kernel_invert_permutation, "(int32[4])", "The permutation that undoes another."),
    ROW("sequence_mask", mask_args, mask_attrs, OP_INJECTIVE, rel_sequence_mask,
        .compute = compute_sequence_mask, "(float32[2,3], int32[2], axis=1)",
        "Sequences with what stands behind their end replaced.",
        .grad = "(multiply(%g, sequence_mask(ones_like(%data), %valid_length, axis=%axis)), "
                "zeros_like(%valid_length))"),
    ROW("reverse_sequence", reverse_args, reverse_attrs, OP_INJECTIVE, rel_reverse_sequence,
        .compute = compute_reverse_sequence, "(float32[2,4], int32[2])",
        "The first elements of each sequence in reverse order.",
        .grad = "(reverse_sequence(%g, %seq_lengths, seq_axis=%seq_axis, batch_axis=%batch_axis), "
                "zeros_like(%seq_lengths))"),
    ROW("sliding_window", args_data, window_attrs, OP_OPAQUE, rel_sliding_window,
        .compute = compute_sliding_window,
        "(float32[3,3], axis=0, window_shape=[2, 2], strides=[1, 1])", "All windows of a tensor."),
    ROW("sparse_to_dense", sparse_args, sparse_attrs, OP_OPAQUE, rel_sparse_to_dense,
        .kernel = kernel_sparse_to_dense, "(int32[2], float32[2], float32, output_shape=[5])",
        "A tensor from positions and the elements there.",
        .grad = SPARSE_GRAD("sparse_to_dense", "output_shape=%output_shape") ")"),
    {.name = "dyn.sparse_to_dense",
     .doc = "`sparse_to_dense` in a shape that is an argument.",
     .args = dyn_sparse_args,
     .attrs = dyn_sparse_attrs,
     .shapes = "(n, r), (n), (), (r) -> output_shape",
     .samples = "(int32[1,1], float32[1], float32, int64[1])",
     .pattern = OP_OPAQUE,
     .flags = OP_SHAPE_FROM_DATA,
     .rel = rel_sparse_to_dense,
     .kernel = kernel_sparse_to_dense,
     .grad = SPARSE_GRAD("dyn.sparse_to_dense",
                         "%output_shape, output_shape=None") ", zeros_like(%output_shape))"},
    ROW("matrix_set_diag", diag_args, diag_attrs, OP_INJECTIVE, rel_matrix_set_diag,
        .compute = compute_matrix_set_diag, "(float32[3,3], float32[3])",
        "Matrices with other diagonals."),
    {0},
};
