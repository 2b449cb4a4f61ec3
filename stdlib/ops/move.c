/* Operators that put elements elsewhere: permutations, joins, cuts, repetition. */
#include "stdlib/ops/ops.h"

#include "base/buf.h"

/* ---- transpose ----------------------------------------------------------------------------------- */

/* The axis of the data that each axis of the result is; false when the attribute is no permutation. */
static bool permutation(const Attrs *a, int rank, int *from)
{
    int64_t axes[TENSOR_RANK_MOST];
    int n = attrs_ints(a, "axes", axes, TENSOR_RANK_MOST);
    bool seen[TENSOR_RANK_MOST] = {false};
    for (int i = 0; i < rank && n < 0; i++)
        from[i] = rank - 1 - i;
    if (n < 0)
        return true;
    for (int i = 0; i < n && n == rank; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (axis < 0 || axis >= rank || seen[axis])
            return false;
        seen[axis] = true;
        from[i] = (int)axis;
    }
    return n == rank;
}

/* An example for this rank: the last two axes change places. */
static void help_axes(Diag *d, uint32_t rank)
{
    Buf b = {0};
    for (uint32_t i = 0; i < rank; i++)
        buf_printf(&b, "%s%u", i ? ", " : "",
                   (unsigned)(i + 2 < rank || rank < 2 ? i : 2 * rank - 3 - i));
    diag_help(d, "for instance `axes=[%s]`", buf_text(&b));
    buf_deinit(&b);
}

#define SHAPES_rel_transpose "(d...) -> (permute(d, axes)...)"
static RelResult rel_transpose(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    int from[TENSOR_RANK_MOST];
    if (!permutation(r->attrs, (int)t->n, from)) {
        Diag *d = rel_error(r, E0217_AXIS, 0,
                            "`axes` of `transpose` must name each of the %d axes of `%s` once",
                            (int)t->n, type_str(r->cx, t));
        help_axes(d, t->n);
        return REL_FAILED;
    }
    Dim dims[TENSOR_RANK_MOST];
    for (uint32_t i = 0; i < t->n; i++)
        dims[i] = t->dims[from[i]];
    return rel_out_tensor(r, t->dtype, t->n, dims);
}

static void compute_transpose(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int from[TENSOR_RANK_MOST];
    Te *index[TENSOR_RANK_MOST];
    permutation(b->attrs, x.rank, from);
    for (int i = 0; i < x.rank; i++)
        index[from[i]] = te_axis(b, i);
    ops_emit(b, te_load(b, x, index));
}

/* ---- concatenate, stack -------------------------------------------------------------------------- */

static RelResult mismatch(Rel *r, const Type *first, const Type *other, uint32_t field)
{
    Diag *d = rel_error(r, dtype_eq(first->dtype, other->dtype) ? E0202_SHAPE : E0203_DTYPE, 0,
                        "`%s` cannot join field 0, `%s`, and field %u, `%s`", r->op->name,
                        type_str(r->cx, first), (unsigned)field, type_str(r->cx, other));
    diag_help(d, "the fields must have one element type and agree in every extent%s",
              first->n && r->op->name[0] == 'c' ? " but that of `axis`" : "");
    return REL_FAILED;
}

/* Off the joined axis a known extent wins over `?`; whether the joined one is known does not matter. */
RelResult rel_concatenate_of(Rel *r, const Type *t)
{
    if (t->n == 0) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, 0, "`concatenate` of no tensors");
        return REL_FAILED;
    }
    const Type *first = type_find(t->parts[0]);
    int axis = rel_axis(r, attrs_int(r->attrs, "axis", 0), first->n);
    if (axis < 0)
        return REL_FAILED;
    Dim dims[TENSOR_RANK_MOST];
    for (uint32_t i = 0; i < first->n; i++)
        dims[i] = first->dims[i];
    for (uint32_t k = 1; k < t->n; k++) {
        const Type *other = type_find(t->parts[k]);
        if (other->n != first->n || !dtype_eq(other->dtype, first->dtype))
            return mismatch(r, first, other, k);
        for (uint32_t i = 0; i < first->n; i++) {
            if ((int)i == axis) {
                dims[i] = dim_add(r->cx, dims[i], other->dims[i]);
            } else if (!dim_agrees(dims[i], other->dims[i])) {
                return mismatch(r, first, other, k);
            } else if (dims[i] < 0) {
                dims[i] = other->dims[i];
            }
        }
    }
    for (uint32_t k = 0; k < t->n && dims[axis] != DIM_ANY; k++)
        for (uint32_t i = 0; i < first->n; i++)
            if ((int)i != axis && type_find(t->parts[k])->dims[i] == DIM_ANY)
                dims[i] = DIM_ANY;
    return rel_out_tensor(r, first->dtype, first->n, dims);
}

#define SHAPES_rel_concatenate "n of (d...) in a tuple -> (d[axis := total(axis)]...)"
static RelResult rel_concatenate(Rel *r)
{
    const Type *t = rel_tensors(r, 0);
    return t ? rel_concatenate_of(r, t) : rel_blocked(r);
}

/* The last part of a chain of selects by the place along the axis; `at` counts where a part begins. */
static void compute_concatenate(TeBuilder *b)
{
    int r = te_out_rank(b, 0), axis = ops_axis(b->attrs, "axis", r), n = te_n_inputs(b);
    int64_t at = te_out_shape(b, 0)[axis];
    Te *index[TENSOR_RANK_MOST], *body = NULL;
    for (int k = n - 1; k >= 0; k--) {
        TeTensor x = te_input(b, k);
        at -= x.shape[axis];
        if (x.shape[axis] == 0)
            continue;
        ops_axes(b, 0, r, index);
        index[axis] = te_binary(b, TE_SUB, te_axis(b, axis), te_int(b, at));
        /* There is one place only, which no guard needs to find. */
        bool single = n > 1 && x.shape[axis] == 1;
        if (single)
            index[axis] = te_int(b, 0);
        Te *part =
            n == 1 || single ? te_load(b, x, index) : te_load_or(b, x, index, ops_number(b, 0));
        Te *before = te_binary(b, TE_LT, te_axis(b, axis), te_int(b, at + x.shape[axis]));
        body = body ? te_select(b, before, part, body) : part;
    }
    ops_emit(b, body ? body : ops_number(b, 0));
}

#define SHAPES_rel_stack "n of (d...) in a tuple -> (insert(d, axis, n)...)"
static RelResult rel_stack(Rel *r)
{
    const Type *t = rel_tensors(r, 0);
    if (!t)
        return rel_blocked(r);
    if (t->n == 0) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, 0, "`stack` of no tensors");
        return REL_FAILED;
    }
    const Type *first = type_find(t->parts[0]);
    int axis = rel_axis(r, attrs_int(r->attrs, "axis", 0), first->n + 1);
    if (axis < 0)
        return REL_FAILED;
    Dim dims[TENSOR_RANK_MOST + 1];
    for (uint32_t i = 0, j = 0; i <= first->n; i++)
        dims[i] = (int)i == axis ? (Dim)t->n : first->dims[j++];
    for (uint32_t k = 1; k < t->n; k++) {
        const Type *other = type_find(t->parts[k]);
        if (other->n != first->n || !dtype_eq(other->dtype, first->dtype))
            return mismatch(r, first, other, k);
        for (uint32_t i = 0; i < first->n; i++)
            if (!dim_agrees(first->dims[i], other->dims[i]))
                return mismatch(r, first, other, k);
    }
    return rel_out_tensor(r, first->dtype, first->n + 1, dims);
}

static void compute_stack(TeBuilder *b)
{
    int r = te_out_rank(b, 0), axis = ops_axis(b->attrs, "axis", r), n = te_n_inputs(b);
    Te *index[TENSOR_RANK_MOST], *body = NULL;
    for (int i = 0, j = 0; i < r; i++)
        if (i != axis)
            index[j++] = te_axis(b, i);
    for (int k = n - 1; k >= 0; k--) {
        Te *part = te_load(b, te_input(b, k), index);
        Te *before = te_binary(b, TE_LT, te_axis(b, axis), te_int(b, k + 1));
        body = body ? te_select(b, before, part, body) : part;
    }
    ops_emit(b, body);
}

/* ---- split --------------------------------------------------------------------------------------- */

/* The borders of the parts along an axis of this extent; how many parts, -1 when they do not fit. */
static int split_parts(const Attrs *a, Dim extent, int most, Dim *sizes, int64_t *starts)
{
    const AttrValue *v = attrs_find(a, "indices_or_sections");
    if (v->kind == ATTR_INT) {
        if (v->i < 1 || v->i > most || (extent >= 0 && extent % v->i))
            return -1;
        for (int i = 0; i < v->i; i++) {
            sizes[i] = extent < 0 ? DIM_ANY : extent / v->i;
            starts[i] = extent < 0 ? 0 : i * sizes[i];
        }
        return (int)v->i;
    }
    if (v->kind != ATTR_LIST || (int64_t)v->list.n >= most)
        return -1;
    int64_t at = 0;
    for (uint32_t i = 0; i <= v->list.n; i++) {
        int64_t to = i < v->list.n ? v->list.at[i].i : extent;
        starts[i] = at;
        sizes[i] = to < 0 && i == v->list.n ? DIM_ANY : to - at;
        bool unknown = to < 0 && i == v->list.n;
        if (!unknown && (to < at || (extent >= 0 && to > extent)))
            return -1;
        at = to;
    }
    return (int)v->list.n + 1;
}

enum { SPLIT_MOST = 4096 };

#define SHAPES_rel_split                                                                       \
    "(d...) -> a tuple of parts along axis, each (d[axis := d[axis]/indices_or_sections]...) " \
    "where that is a number"
static RelResult rel_split(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    int axis = rel_axis(r, attrs_int(r->attrs, "axis", 0), t->n);
    if (axis < 0)
        return REL_FAILED;
    Dim sizes[SPLIT_MOST], dims[TENSOR_RANK_MOST];
    int64_t starts[SPLIT_MOST];
    const Type *parts[SPLIT_MOST];
    int n = split_parts(r->attrs, t->dims[axis], SPLIT_MOST, sizes, starts);
    if (n < 0) {
        Diag *d = t->dims[axis] < 0
                      ? rel_error(r, E0202_SHAPE, 0, "axis %d cannot be split like this", axis)
                      : rel_error(r, E0202_SHAPE, 0,
                                  "axis %d with %lld elements cannot be split like this", axis,
                                  (long long)t->dims[axis]);
        diag_help(d,
                  "a number of parts must divide the extent; a list holds rising positions in it");
        return REL_FAILED;
    }
    for (uint32_t i = 0; i < t->n; i++)
        dims[i] = t->dims[i];
    const AttrValue *sections = attrs_find(r->attrs, "indices_or_sections");
    for (int k = 0; k < n; k++) {
        dims[axis] = sizes[k];
        if (dims[axis] == DIM_ANY)
            dims[axis] = sections->kind == ATTR_INT ? dim_floor_div(r->cx, t->dims[axis], n)
                                                    : dim_offset(r->cx, t->dims[axis], -starts[k]);
        parts[k] = type_tensor(r->cx, t->dtype, t->n, dims);
    }
    return rel_set_output(r, type_tuple(r->cx, (uint32_t)n, parts));
}

static void compute_split(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int axis = ops_axis(b->attrs, "axis", x.rank);
    int64_t at = 0;
    for (int k = 0; k < te_n_outputs(b); k++) {
        Te *index[TENSOR_RANK_MOST];
        ops_axes(b, 0, x.rank, index);
        index[axis] = te_binary(b, TE_ADD, index[axis], te_int(b, at));
        te_output(b, te_map(b, x.dtype, x.rank, te_out_shape(b, k), te_load(b, x, index)));
        at += te_out_shape(b, k)[axis];
    }
}

/* ---- tile, repeat, reverse ------------------------------------------------------------------------ */

#define SHAPES_rel_tile "(d...) -> (front(d)*front(reps)...)"
static RelResult rel_tile(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    int64_t reps[TENSOR_RANK_MOST];
    int n = attrs_ints(r->attrs, "reps", reps, TENSOR_RANK_MOST);
    uint32_t rank = (uint32_t)n > t->n ? (uint32_t)n : t->n;
    Dim dims[TENSOR_RANK_MOST];
    for (uint32_t k = 1; k <= rank; k++) {
        Dim d = k <= t->n ? t->dims[t->n - k] : 1;
        int64_t times = (int)k <= n ? reps[n - (int)k] : 1;
        if (times < 1) {
            rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`reps` of `tile` must be positive, not %lld",
                      (long long)times);
            return REL_FAILED;
        }
        dims[rank - k] = dims_product(2, (Dim[]){d, times});
    }
    return rel_out_tensor(r, t->dtype, rank, dims);
}

void compute_tile(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int r = te_out_rank(b, 0);
    const int64_t *shape = te_out_shape(b, 0);
    Te *index[TENSOR_RANK_MOST];
    for (int i = 0; i < x.rank; i++) {
        int at = r - x.rank + i;
        index[i] = te_axis(b, at);
        if (shape[at] != x.shape[i])
            index[i] = te_binary(b, TE_MOD, index[i], te_int(b, x.shape[i] ? x.shape[i] : 1));
    }
    ops_emit(b, te_load(b, x, index));
}

#define SHAPES_rel_repeat "(d...) -> (d[axis := d[axis]*repeats]...)"
static RelResult rel_repeat(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    const AttrValue *given = attrs_find(r->attrs, "axis");
    int64_t times = attrs_int(r->attrs, "repeats", 0);
    if (times < 1 || given->kind == ATTR_NONE) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, -1,
                  "`repeat` needs an `axis` and a positive `repeats`");
        return REL_FAILED;
    }
    int axis = rel_axis(r, given->i, t->n);
    if (axis < 0)
        return REL_FAILED;
    Dim dims[TENSOR_RANK_MOST];
    for (uint32_t i = 0; i < t->n; i++)
        dims[i] = (int)i == axis ? dim_mul(r->cx, t->dims[i], times) : t->dims[i];
    return rel_out_tensor(r, t->dtype, t->n, dims);
}

static void compute_repeat(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int axis = ops_axis(b->attrs, "axis", x.rank);
    Te *index[TENSOR_RANK_MOST];
    ops_axes(b, 0, x.rank, index);
    index[axis] = te_binary(b, TE_DIV, index[axis], te_int(b, attrs_int(b->attrs, "repeats", 1)));
    ops_emit(b, te_load(b, x, index));
}

#define SHAPES_rel_reverse "(d...) -> (d...)"
static RelResult rel_reverse(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    const AttrValue *given = attrs_find(r->attrs, "axis");
    if (given->kind == ATTR_NONE) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`reverse` needs an `axis`");
        return REL_FAILED;
    }
    if (rel_axis(r, given->i, t->n) < 0)
        return REL_FAILED;
    return rel_set_output(r, t);
}

static void compute_reverse(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int axis = ops_axis(b->attrs, "axis", x.rank);
    Te *index[TENSOR_RANK_MOST];
    ops_axes(b, 0, x.rank, index);
    index[axis] = te_binary(b, TE_SUB, te_int(b, x.shape[axis] - 1), index[axis]);
    ops_emit(b, te_load(b, x, index));
}

/* ---- meshgrid ------------------------------------------------------------------------------------- */

/* The axis of the results that argument i runs along: "xy" has the first two the other way round. */
static int mesh_axis(const Attrs *a, int n, int i)
{
    bool swap = str_is(attrs_string(a, "indexing"), "xy") && n >= 2;
    return swap && i < 2 ? 1 - i : i;
}

static RelResult rel_meshgrid(Rel *r)
{
    const Type *t = rel_tensors(r, 0), *all[TENSOR_RANK_MOST];
    Dim dims[TENSOR_RANK_MOST];
    if (!t)
        return rel_blocked(r);
    bool good = t->n > 0 && t->n <= TENSOR_RANK_MOST;
    for (uint32_t i = 0; good && i < t->n; i++) {
        const Type *x = type_find(t->parts[i]);
        good = x->n < 2 && dtype_eq(x->dtype, type_find(t->parts[0])->dtype);
        dims[mesh_axis(r->attrs, (int)t->n, (int)i)] = x->n ? x->dims[0] : 1;
    }
    if (!good) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, 0,
                  "`meshgrid` takes a tuple of scalars and vectors of one type");
        return REL_FAILED;
    }
    for (uint32_t i = 0; i < t->n; i++)
        all[i] = type_tensor(r->cx, type_find(t->parts[0])->dtype, t->n, dims);
    return rel_set_output(r, type_tuple(r->cx, t->n, all));
}

static void compute_meshgrid(TeBuilder *b)
{
    int n = te_n_inputs(b);
    for (int i = 0; i < n; i++) {
        TeTensor x = te_input(b, i);
        Te *at = te_axis(b, mesh_axis(b->attrs, n, i));
        te_output(b, te_map(b, x.dtype, n, te_out_shape(b, i), te_load(b, x, &at)));
    }
}

/* ---- nn.fifo_buffer ------------------------------------------------------------------------------- */

static RelResult rel_fifo_buffer(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *old = t ? rel_tensor(r, 1) : NULL;
    if (!old)
        return rel_blocked(r);
    int axis = rel_axis(r, attrs_int(r->attrs, "axis", 0), old->n);
    if (axis < 0 || !rel_rank(r, 0, t, old->n) || !rel_dtypes_agree(r, 0, t, 1, old))
        return REL_FAILED;
    bool fits = t->dims[axis] <= old->dims[axis];
    for (int i = 0; fits && i < (int)t->n; i++)
        fits = i == axis || dim_agrees(t->dims[i], old->dims[i]);
    if (fits)
        return rel_set_output(r, old);
    rel_error(r, E0202_SHAPE, 0, "%s does not fit into the buffer %s", type_str(r->cx, t),
              type_str(r->cx, old));
    return REL_FAILED;
}

static void compute_fifo_buffer(TeBuilder *b)
{
    TeTensor x = te_input(b, 0), old = te_input(b, 1);
    int axis = ops_axis(b->attrs, "axis", x.rank);
    Te *index[TENSOR_RANK_MOST], *zero = te_number(b, x.dtype, 0);
    ops_axes(b, 0, x.rank, index);
    Te *at = index[axis], *rest = te_int(b, old.shape[axis] - x.shape[axis]);
    index[axis] = te_binary(b, TE_ADD, at, te_int(b, x.shape[axis]));
    Te *kept = te_load_or(b, old, index, zero);
    index[axis] = te_binary(b, TE_SUB, at, rest);
    ops_emit(b, te_select(b, te_binary(b, TE_LT, at, rest), kept, te_load_or(b, x, index, zero)));
}

/* ---- strided_set ---------------------------------------------------------------------------------- */

static RelResult rel_strided_set(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *v = t ? rel_tensor(r, 1) : NULL;
    if (!v)
        return rel_blocked(r);
    if (!rel_rank(r, 1, v, t->n) || !rel_dtypes_agree(r, 0, t, 1, v))
        return REL_FAILED;
    const Type *begin = rel_tensor(r, 2);
    for (uint32_t i = 2; i < 5; i++) {
        const Type *p = begin ? rel_tensor(r, i) : NULL;
        if (!p)
            return rel_blocked(r);
        if (!rel_rank(r, 2, begin, 1) || !rel_is_int(r, i, p) ||
            !rel_has_shape(r, i, p, 1, begin->dims))
            return REL_FAILED;
    }
    bool fits = begin->dims[0] <= (Dim)t->n;
    for (uint32_t i = 0; fits && i < t->n;
         i++) /* where the slice is not all of the axis, it is less */
        fits = dim_agrees(t->dims[i], v->dims[i]) ||
               (v->dims[i] < t->dims[i] && (begin->dims[0] < 0 || (Dim)i < begin->dims[0]));
    if (fits)
        return rel_set_output(r, t);
    Diag *d = rel_error(r, E0202_SHAPE, 1, "`%s` is no slice of `%s`", type_str(r->cx, v),
                        type_str(r->cx, t));
    diag_help(d, "it is part of axes that `begin` has a position for, and all of those behind");
    return REL_FAILED;
}

/* Element i of a vector of begins or strides; `otherwise` behind its end. */
static Te *slice_part(TeBuilder *b, TeTensor t, int i, int64_t otherwise)
{
    if (i >= t.shape[0])
        return te_int(b, otherwise);
    return te_cast(b, (DType){DTYPE_CODE_INT, 64, 1}, te_load(b, t, (Te *[]){te_int(b, i)}));
}

/* Where the slice begins or ends on axis i, which goes `down` or up: from 0 to the extent, or from the last place to before the first. */
static Te *slice_place(TeBuilder *b, TeTensor t, int i, int64_t otherwise, int64_t extent, Te *down)
{
    Te *at = slice_part(b, t, i, otherwise), *zero = te_int(b, 0);
    Te *low = te_select(b, down, te_int(b, -1), zero);
    Te *high = te_select(b, down, te_int(b, extent - 1), te_int(b, extent));
    Te *from_end = te_binary(b, TE_ADD, at, te_int(b, extent));
    at = te_select(b, te_binary(b, TE_LT, at, zero), from_end, at);
    return te_binary(b, TE_MAX, te_binary(b, TE_MIN, at, high), low);
}

/*
 * The slice is what begins, ends and strides say; an element of it that `v` has none for is an index out of range. A stride of 0 is
 * divided by, which is the error that it is.
 */
static void compute_strided_set(TeBuilder *b)
{
    TeTensor x = te_input(b, 0), v = te_input(b, 1);
    Te *index[TENSOR_RANK_MOST], *inside = NULL, *zero = te_int(b, 0);
    for (int i = 0; i < x.rank; i++) {
        Te *at = te_axis(b, i), *step = slice_part(b, te_input(b, 4), i, 1);
        Te *down = te_binary(b, TE_LT, step, zero);
        Te *begin = slice_place(b, te_input(b, 2), i, 0, x.shape[i], down);
        Te *end = slice_place(b, te_input(b, 3), i, x.shape[i], x.shape[i], down);
        Te *far = te_binary(b, TE_SUB, at, begin);
        Te *on = te_binary(b, TE_EQ, te_binary(b, TE_MOD, far, step), zero);
        Te *taken = te_binary(b, TE_DIV, far, step);
        on = te_binary(b, TE_AND, on, te_binary(b, TE_GE, taken, zero));
        on = te_binary(
            b, TE_AND, on,
            te_select(b, down, te_binary(b, TE_GT, at, end), te_binary(b, TE_LT, at, end)));
        /* Outside of the slice any place will do. Where `v` has none, nothing is loaded, and the slice is what asks. */
        int64_t has = v.shape[i];
        taken = te_select(b, on, has ? taken : te_int(b, 1), zero);
        index[i] = te_binary(b, TE_PLACE, taken, te_int(b, has ? has : 1));
        if (!has)
            on = te_binary(b, TE_NE, index[i], zero);
        inside = inside ? te_binary(b, TE_AND, inside, on) : on;
    }
    Te *old = ops_at_axes(b, x), *fresh = te_load(b, v, index);
    ops_emit(b, inside ? te_select(b, inside, fresh, old) : fresh);
}

/* ---- rows ---------------------------------------------------------------------------------------- */

static const OpAttr transpose_attrs[] = {
    ATTR_MUST_NONE("axes", INTS,
                   "the axis of `data` that each axis of the result is; None: reversed"),
    {0},
};
static const OpAttr concatenate_attrs[] = {ATTR_I("axis", 0, "the axis along which to join"), {0}};
static const OpAttr stack_attrs[] = {ATTR_I("axis", 0, "where the new axis stands"), {0}};
static const OpAttr split_attrs[] = {
    ATTR_MUST("indices_or_sections", INT_OR_INTS,
              "how many equal parts, or where to cut; two cuts at one "
              "place have an empty part between them"),
    ATTR_I("axis", 0, "the axis to cut"),
    {0},
};
static const OpAttr tile_attrs[] = {
    ATTR_MUST("reps", INTS, "how often the tensor is put beside itself along each axis"), {0}};
static const OpAttr repeat_attrs[] = {
    ATTR_MUST("repeats", INT, "how often each element comes"),
    ATTR_NONE("axis", INT, "the axis along which elements are repeated; it must be given"),
    {0},
};
static const OpAttr reverse_attrs[] = {
    ATTR_NONE("axis", INT, "the axis to reverse; it must be given"), {0}};

static const OpArg mesh_args[] = {{"data", "a tuple of scalars and vectors"}, {0}};
static const OpAttr mesh_attrs[] = {
    ATTR_ONE("indexing", "ij",
             "\"ij\": argument i runs along axis i; \"xy\": the first two swapped", "ij", "xy"),
    {0}};
static const OpArg fifo_args[] = {{"data", "what comes in"}, {"buffer", "what was there"}, {0}};
static const OpAttr fifo_attrs[] = {ATTR_I("axis", 0, "the axis that moves on"), {0}};
static const OpArg strided_set_args[] = {{"data", "the tensor"},
                                         {"v", "what to write: all of the slice"},
                                         {"begin", "the first positions: integers"},
                                         {"end", "the positions behind the last"},
                                         {"strides", "from one position to the next; not 0"},
                                         {0}};

const Op move_ops[] = {
    {.name = "transpose",
     .doc = "The axes in another order.",
     .args = args_data,
     .attrs = transpose_attrs,
     .samples = "(float32[2,3], axes=None) (float32[2,3,4], axes=[0, 2, 1])",
     .pattern = OP_INJECTIVE,
     OP_REL(rel_transpose),
     .compute = compute_transpose,
     .grad = "if (%axes == None) { transpose(%g, axes=None) } else { transpose(%g, "
             "axes=argsort(floor_mod(%axes, ndarray_size(%axes)))) }"},
    {.name = "concatenate",
     .doc = "The tensors of a tuple, joined along an axis.",
     .args = args_tuple,
     .attrs = concatenate_attrs,
     .samples = "((float32[2,3], float32[2,3]), axis=1) ((int32[2], int32[4]))",
     .pattern = OP_INJECTIVE,
     OP_REL(rel_concatenate),
     .compute = compute_concatenate,
     /* Where each ends but the last. */
     .grad =
         "let %extents = each(fn (%x) { take(shape_of(%x), %axis, mode=\"wrap\") }, %data); "
         "let %ends = cumsum(stack(%extents, axis=0), axis=0); split(%g, axis=%axis, "
         "indices_or_sections=strided_slice(%ends, begin=[0], end=[-1], strides=[1], axes=None))"},
    {.name = "stack",
     .doc = "The tensors of a tuple, joined along a new axis.",
     .args = args_tuple,
     .attrs = stack_attrs,
     .samples = "((float32[2,3], float32[2,3]), axis=1)",
     .pattern = OP_INJECTIVE,
     OP_REL(rel_stack),
     .compute = compute_stack,
     .grad = "let %parts = split(%g, indices_or_sections=take(shape_of(%out), %axis, "
             "mode=\"wrap\"), axis=%axis); each(fn (%x) { squeeze(%x, axis=[%axis]) }, %parts)"},
    {.name = "split",
     .doc = "A tuple of the parts of a tensor along an axis.",
     .args = args_data,
     .attrs = split_attrs,
     .samples = "(float32[4,3], indices_or_sections=2) "
                "(float32[2,5], indices_or_sections=[1, 3], axis=1)",
     .pattern = OP_INJECTIVE,
     OP_REL(rel_split),
     .compute = compute_split,
     .grad = "concatenate(%g, axis=%axis)"},
    {.name = "tile",
     .doc = "The tensor put beside itself.",
     .args = args_data,
     .attrs = tile_attrs,
     .samples = "(float32[2,3], reps=[2, 1])",
     .pattern = OP_BROADCAST,
     OP_REL(rel_tile),
     .compute = compute_tile},
    {.name = "repeat",
     .doc = "Each element several times, one behind the other.",
     .args = args_data,
     .attrs = repeat_attrs,
     .samples = "(float32[2,3], repeats=2, axis=1)",
     .pattern = OP_BROADCAST,
     OP_REL(rel_repeat),
     .compute = compute_repeat},
    {.name = "reverse",
     .doc = "The elements along an axis in reverse order.",
     .args = args_data,
     .attrs = reverse_attrs,
     .samples = "(float32[2,3], axis=1)",
     .pattern = OP_INJECTIVE,
     OP_REL(rel_reverse),
     .compute = compute_reverse,
     .grad = "reverse(%g, axis=%axis)"},
    {.name = "meshgrid",
     .doc = "Tensors that repeat each vector along the axes of the others.",
     .args = mesh_args,
     .attrs = mesh_attrs,
     .shapes = "((a), (b), ...) -> ((a, b, ...), (a, b, ...), ...)",
     .samples = "((float32[2], float32[3]))",
     .pattern = OP_INJECTIVE,
     .rel = rel_meshgrid,
     .compute = compute_meshgrid},
    {.name = "nn.fifo_buffer",
     .doc = "A buffer moved on along an axis by what comes in, which stands at its end.",
     .args = fifo_args,
     .attrs = fifo_attrs,
     .shapes = "(k, d...), (n, d...) -> (n, d...)",
     .samples = "(float32[1,3], float32[4,3])",
     .pattern = OP_OPAQUE,
     .rel = rel_fifo_buffer,
     .compute = compute_fifo_buffer},
    {.name = "strided_set",
     .doc = "A tensor with part of it replaced.",
     .args = strided_set_args,
     .shapes = "(d...), (e...), (r), (r), (r) -> (d...)",
     .samples = "(float32[4,3], float32[2,3], int64[2], int64[2], int64[2])",
     .example = "let %data = cast(reshape(arange(0, 12, 1, dtype=\"int32\"), newshape=[4, 3]), "
                "dtype=\"float32\");\n"
                "strided_set(%data, ones(shape=[2, 3], dtype=\"float32\"), stack((1i64, 0i64)), "
                "stack((3i64, 3i64)), ones(shape=[2], dtype=\"int64\"))",
     .pattern = OP_INJECTIVE,
     .rel = rel_strided_set,
     .compute = compute_strided_set},
    {0},
};
