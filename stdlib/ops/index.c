/* Operators that pick elements by position. */
#include "stdlib/ops/ops.h"
#include "te/loops.h"

#include <string.h>

static const DType wide = {DTYPE_CODE_INT, 64, 1};

/* ---- take ---------------------------------------------------------------------------------------- */

/* The axes of the data and of the indices that count the same batches, from `from` on in the indices. */
static bool share_batches(Rel *r, const Type *t, const Type *index, uint32_t from, int64_t batch)
{
    for (uint32_t i = 0; i < (uint32_t)batch; i++) {
        Dim x = t->dims[i], at = index->dims[from + i];
        if (dim_agrees(x, at))
            continue;
        rel_error(r, E0202_SHAPE, 1, "axis %u of the indices has %lld elements, of the data %lld",
                  (unsigned)(from + i), (long long)at, (long long)x);
        return false;
    }
    return true;
}

#define SHAPES_rel_take                                                                          \
    "(d...), (i...) -> (d[:axis]..., i[batch_dims:]..., d[axis + 1:]...); (i...) where axis is " \
    "None"
static RelResult rel_take(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *index = t ? rel_tensor(r, 1) : NULL;
    if (!index)
        return rel_blocked(r);
    const AttrValue *given = attrs_find(r->attrs, "axis");
    int64_t batch = attrs_int(r->attrs, "batch_dims", 0);
    if (!rel_is_int(r, 1, index))
        return REL_FAILED;
    if (given->kind == ATTR_NONE)
        return rel_out_tensor(r, t->dtype, index->n, index->dims);
    int axis = rel_axis(r, given->i, t->n);
    if (axis < 0)
        return REL_FAILED;
    if (batch < 0)
        batch += index->n;
    if (batch < 0 || batch > axis || batch > (int64_t)index->n) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`batch_dims` of `take` cannot be %lld here",
                  (long long)batch);
        return REL_FAILED;
    }
    if (!share_batches(r, t, index, 0, batch))
        return REL_FAILED;
    Dim dims[2 * TENSOR_RANK_MOST];
    uint32_t n = 0;
    for (int i = 0; i < axis; i++)
        dims[n++] = t->dims[i];
    for (uint32_t i = (uint32_t)batch; i < index->n; i++)
        dims[n++] = index->dims[i];
    for (uint32_t i = (uint32_t)axis + 1; i < t->n; i++)
        dims[n++] = t->dims[i];
    return rel_out_tensor(r, t->dtype, n, dims);
}

/* An index brought into [0, extent). */
static Te *take_index(TeBuilder *b, Te *i, int64_t extent)
{
    if (!ops_holds_elements(b, "take", extent))
        return te_int(b, 0);
    if (str_is(attrs_string(b->attrs, "mode"), "wrap")) {
        DType d = dtype_id(i->dtype) == DT_UINT64 ? i->dtype : wide;
        i = te_binary(b, TE_FLOORMOD, te_cast(b, d, i), te_cast(b, d, te_int(b, extent)));
        return te_cast(b, wide, i);
    }
    return ops_clamp(b, ops_index(b, i), extent);
}

static void compute_take(TeBuilder *b)
{
    TeTensor x = te_input(b, 0), at = te_input(b, 1);
    Te *index[TENSOR_RANK_MOST], *i[TENSOR_RANK_MOST];
    if (ops_out_is_empty(b)) {
        ops_emit(b, ops_number(b, 0));
        return;
    }
    if (attrs_find(b->attrs, "axis")->kind == ATTR_NONE) {
        int64_t size = 1;
        for (int k = 0; k < x.rank; k++)
            size *= x.shape[k];
        TeTensor flat = ops_reshape(b, x, 1, &size);
        index[0] = take_index(b, ops_at_axes(b, at), size);
        ops_emit(b, te_load(b, flat, index));
        return;
    }
    int axis = ops_axis(b->attrs, "axis", x.rank);
    int batch = ops_axis(b->attrs, "batch_dims", at.rank), more = at.rank - batch;
    for (int k = 0; k < at.rank; k++)
        i[k] = te_axis(b, k < batch ? k : axis + k - batch);
    for (int k = 0; k < x.rank; k++)
        index[k] = te_axis(b, k < axis ? k : k - 1 + more);
    /* What several rows read at is found once. */
    bool again = false;
    for (int k = batch; k < axis; k++)
        again |= x.shape[k] > 1;
    if (again && x.shape[axis] > 0) {
        Te *place = take_index(b, ops_at_axes(b, at), x.shape[axis]);
        at = te_map(b, wide, at.rank, at.shape, place);
        index[axis] = te_load(b, at, i);
    } else {
        index[axis] = take_index(b, te_load(b, at, i), x.shape[axis]);
    }
    ops_emit(b, te_load(b, x, index));
}

/* ---- strided_slice ------------------------------------------------------------------------------- */

bool slice_axis(int64_t d, bool sizes, const int64_t *begin, const int64_t *end, int64_t step,
                Slice *out)
{
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? d : d - 1;
    int64_t b = begin ? *begin : step > 0 ? 0 : d - 1;
    b = begin && b < 0 ? b + d : b;
    int64_t e = end ? *end : step > 0 ? d : -1;
    if (sizes && end)
        e = *end < 0 || __builtin_add_overflow(b, *end, &e) ? d : e;
    else if (end && e < 0)
        e += d;
    b = b < low ? low : b > high ? high : b;
    e = e < low ? low : e > high ? high : e;
    int64_t way = step > 0 ? e - b : b - e;
    uint64_t stride = step > 0 ? (uint64_t)step : -(uint64_t)step;
    int64_t count = way > 0 ? (int64_t)(((uint64_t)way - 1) / stride) + 1 : 0;
    /* How far it is to a second element that is not there matters to nobody, and may be further than can be counted. */
    *out = (Slice){b, count > 1 ? step : step > 0 ? 1 : -1, count};
    return way >= 0;
}

typedef struct Slicing {
    int64_t begin[TENSOR_RANK_MOST], end[TENSOR_RANK_MOST], strides[TENSOR_RANK_MOST];
    int64_t axes[TENSOR_RANK_MOST];
    int n_begin, n_end, n_strides, n_axes; /* -1: None */
    bool sizes;
} Slicing;

static void slicing_of(const Attrs *a, Slicing *s)
{
    s->n_begin = attrs_ints(a, "begin", s->begin, TENSOR_RANK_MOST);
    s->n_end = attrs_ints(a, "end", s->end, TENSOR_RANK_MOST);
    s->n_strides = attrs_ints(a, "strides", s->strides, TENSOR_RANK_MOST);
    s->n_axes = attrs_ints(a, "axes", s->axes, TENSOR_RANK_MOST);
    s->sizes = str_is(attrs_string(a, "slice_mode"), "size");
}

/* The number of the attribute entry for an axis, from 0; -1: the axis is whole. */
static int slicing_entry(const Slicing *s, int rank, int axis)
{
    if (s->n_axes < 0)
        return axis;
    for (int i = 0; i < s->n_axes; i++)
        if ((s->axes[i] < 0 ? s->axes[i] + rank : s->axes[i]) == axis)
            return i;
    return -1;
}

/* The stride of entry k. */
static int64_t slicing_step(const Slicing *s, int k)
{
    return k >= 0 && k < s->n_strides && !s->sizes ? s->strides[k] : 1;
}

static bool slicing_axis(const Slicing *s, int rank, int axis, int64_t d, Slice *out)
{
    int k = slicing_entry(s, rank, axis);
    int64_t step = slicing_step(s, k);
    return slice_axis(d, s->sizes, k >= 0 && k < s->n_begin ? &s->begin[k] : NULL,
                      k >= 0 && k < s->n_end ? &s->end[k] : NULL, step, out);
}

/* Of an extent that is not known: the axis whole, or in steps. What begins or ends inside is clamped to
 * the extent, so nothing is known of it. */
static Dim slicing_unknown(Ctx *cx, const Slicing *s, int rank, int axis, Dim d)
{
    int k = slicing_entry(s, rank, axis);
    int64_t step = slicing_step(s, k);
    bool from_start = k < 0 || k >= s->n_begin || (s->begin[k] == 0 && step > 0);
    bool to_end = k < 0 || k >= s->n_end;
    if (!from_start || !to_end)
        return DIM_ANY;
    return dim_windows(cx, d, 0, 1, step >= 0 ? step : step < -INT64_MAX ? INT64_MAX : -step);
}

static bool check_slicing(Rel *r, const Type *t, const Slicing *s)
{
    int n = s->n_begin > s->n_end ? s->n_begin : s->n_end;
    bool lengths = s->n_axes < 0 || ((s->n_begin < 0 || s->n_begin == s->n_axes) &&
                                     (s->n_end < 0 || s->n_end == s->n_axes) &&
                                     (s->n_strides < 0 || s->sizes || s->n_strides == s->n_axes));
    if (!lengths || n > (int)t->n) {
        Diag *d = rel_error(r, E0216_OPERATOR_ARGUMENT, 0,
                            "`begin`, `end`, `strides` and `axes` of `strided_slice` do not fit");
        diag_help(d, "give one number for each sliced axis, and at most as many as there are axes");
        return false;
    }
    for (int i = 0; i < s->n_axes; i++)
        if (rel_axis(r, s->axes[i], t->n) < 0)
            return false;
    for (int i = 0; i < s->n_strides; i++)
        if (s->strides[i] == 0) {
            rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "a stride of 0 in `strided_slice`");
            return false;
        }
    return true;
}

#define SHAPES_rel_strided_slice \
    "(d...) -> (ceil((end - begin)/strides)...), whole axes behind them"
static RelResult rel_strided_slice(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    Slicing s;
    slicing_of(r->attrs, &s);
    if (!check_slicing(r, t, &s))
        return REL_FAILED;
    Dim dims[TENSOR_RANK_MOST];
    for (uint32_t i = 0; i < t->n; i++) {
        Slice part;
        if (t->dims[i] < 0) {
            dims[i] = slicing_unknown(r->cx, &s, (int)t->n, (int)i, t->dims[i]);
            continue;
        }
        if (!slicing_axis(&s, (int)t->n, (int)i, t->dims[i], &part)) {
            Diag *d = rel_error(r, E0216_OPERATOR_ARGUMENT, 0,
                                "the slice of axis %d with %lld elements ends before it begins",
                                (int)i, (long long)t->dims[i]);
            diag_help(d, "`end` must not lie before `begin` in the direction of the stride");
            return REL_FAILED;
        }
        dims[i] = part.extent;
    }
    return rel_out_tensor(r, t->dtype, t->n, dims);
}

static void compute_strided_slice(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    Te *index[TENSOR_RANK_MOST];
    Slicing s;
    slicing_of(b->attrs, &s);
    for (int i = 0; i < x.rank; i++) {
        Slice part;
        slicing_axis(&s, x.rank, i, x.shape[i], &part);
        Te *step = te_binary(b, TE_MUL, te_axis(b, i), te_int(b, part.step));
        index[i] = te_binary(b, TE_ADD, step, te_int(b, part.begin));
    }
    ops_emit(b, te_load(b, x, index));
}

/* ---- slice_like ---------------------------------------------------------------------------------- */

#define SHAPES_rel_slice_like "(d...), (e...) -> d with the extents of e along axes"
static RelResult rel_slice_like(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *like = t ? rel_tensor(r, 1) : NULL;
    if (!like)
        return rel_blocked(r);
    int64_t axes[TENSOR_RANK_MOST];
    int n = attrs_ints(r->attrs, "axes", axes, TENSOR_RANK_MOST);
    bool all = n <= 0;
    if (all)
        n = (int)(t->n < like->n ? t->n : like->n);
    Dim dims[TENSOR_RANK_MOST];
    for (uint32_t i = 0; i < t->n; i++)
        dims[i] = t->dims[i];
    for (int k = 0; k < n; k++) {
        int axis = rel_axis(r, all ? k : axes[k], t->n);
        if (axis < 0)
            return REL_FAILED;
        Dim to = axis < (int)like->n ? like->dims[axis] : 0;
        if (axis >= (int)like->n || (to >= 0 && dims[axis] >= 0 && to > dims[axis])) {
            rel_error(r, E0202_SHAPE, 1, "axis %d of `%s` cannot be cut to that of `%s`", axis,
                      type_str(r->cx, t), type_str(r->cx, like));
            return REL_FAILED;
        }
        dims[axis] = to;
    }
    return rel_out_tensor(r, t->dtype, t->n, dims);
}

/* The leading corner of the data. */
static void compute_corner(TeBuilder *b)
{
    ops_emit(b, ops_at_axes(b, te_input(b, 0)));
}

/* ---- gather -------------------------------------------------------------------------------------- */

bool ops_indices_fit(Rel *r, int axis, const Type *data, const Type *index)
{
    for (uint32_t i = 0; i < data->n; i++) {
        if ((int)i == axis || data->dims[i] < 0 || index->dims[i] <= data->dims[i])
            continue;
        rel_error(r, E0202_SHAPE, 1, "axis %u of the indices has %lld elements, of the data %lld",
                  (unsigned)i, (long long)index->dims[i], (long long)data->dims[i]);
        return false;
    }
    return true;
}

#define SHAPES_rel_gather "(d...), (i...) -> (i...)"
static RelResult rel_gather(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *index = t ? rel_tensor(r, 1) : NULL;
    if (!index)
        return rel_blocked(r);
    const AttrValue *given = attrs_find(r->attrs, "axis");
    if (given->kind == ATTR_NONE) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`gather` needs an `axis`");
        return REL_FAILED;
    }
    int axis = rel_axis(r, given->i, t->n);
    if (axis < 0 || !rel_is_int(r, 1, index) || !rel_rank(r, 1, index, t->n))
        return REL_FAILED;
    return ops_indices_fit(r, axis, t, index) ? rel_out_tensor(r, t->dtype, index->n, index->dims)
                                              : REL_FAILED;
}

/* What is read, and where it goes. */
typedef struct Gather {
    const char *from;
    char *to;
    size_t size;
    int64_t inner; /* elements that an index names */
} Gather;

static bool gather_some(void *data, int64_t from, int64_t n, const int64_t *places)
{
    const Gather *g = data;
    te_loop_gather(g->size, g->to + (size_t)from * g->size, g->from, places, NULL, NULL, n);
    return true;
}

static bool gather_run(OpCall *c, const Tensor *x, const Tensor *index, Tensor *out)
{
    Gather g = {x->data, out->data, dtype_size(x->dtype), 1};
    return kernel_places(c, index, x, ops_axis(c->attrs, "axis", x->rank), gather_some, &g);
}

static bool kernel_two(OpCall *c,
                       bool (*run)(OpCall *c, const Tensor *x, const Tensor *y, Tensor *out))
{
    Tensor *x = kernel_arg(c, 0), *y = x ? kernel_arg(c, 1) : NULL;
    Tensor *out = y ? kernel_out_raw(c, 0) : NULL;
    if (out && !run(c, x, y, out)) {
        tensor_release(out);
        out = NULL;
    }
    tensor_release(x);
    tensor_release(y);
    return kernel_set(c, out);
}

static bool kernel_gather(OpCall *c)
{
    return kernel_two(c, gather_run);
}

static void card_gather(TeBuilder *b)
{
    TeTensor x = te_input(b, 0), at = te_input(b, 1);
    int axis = ops_axis(b->attrs, "axis", x.rank);
    Te *index[TENSOR_RANK_MOST];
    ops_axes(b, 0, x.rank, index);
    index[axis] = ops_place(b, ops_at_axes(b, at), x.shape[axis]);
    ops_emit(b, te_load(b, x, index));
}

/* ---- gather_nd ----------------------------------------------------------------------------------- */

#define SHAPES_rel_gather_nd "(d...), (m, i...) -> (i..., d[m + batch_dims:]...)"
static RelResult rel_gather_nd(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *index = t ? rel_tensor(r, 1) : NULL;
    if (!index)
        return rel_blocked(r);
    int64_t batch = attrs_int(r->attrs, "batch_dims", 0);
    if (!rel_is_int(r, 1, index))
        return REL_FAILED;
    int64_t m = index->n ? index->dims[0] : -2;
    if (m == DIM_ANY || dim_is_symbol(m))
        m = attrs_int(r->attrs, "index_rank", -2);
    int64_t declared = attrs_int(r->attrs, "index_rank", m);
    if (m < 0 || declared != m || batch < 0 || m > (int64_t)t->n - batch ||
        batch >= (int64_t)index->n) {
        Diag *d = rel_error(r, E0202_SHAPE, 1, "the indices `%s` do not fit the data, `%s`",
                            type_str(r->cx, index), type_str(r->cx, t));
        diag_help(d, "the first axis of the indices counts axes of the data");
        return REL_FAILED;
    }
    if (!share_batches(r, t, index, 1, batch))
        return REL_FAILED;
    Dim dims[2 * TENSOR_RANK_MOST];
    uint32_t n = 0;
    for (uint32_t i = 1; i < index->n; i++)
        dims[n++] = index->dims[i];
    for (uint32_t i = (uint32_t)(m + batch); i < t->n; i++)
        dims[n++] = t->dims[i];
    return rel_out_tensor(r, t->dtype, n, dims);
}

static bool gather_points(void *data, int64_t from, int64_t n, const int64_t *places)
{
    const Gather *g = data;
    if (g->inner == 1)
        return gather_some(data, from, n, places);
    size_t row = (size_t)g->inner * g->size;
    for (int64_t i = 0; i < n; i++)
        memcpy(g->to + (size_t)(from + i) * row, g->from + (size_t)places[i] * g->size, row);
    return true;
}

static bool gather_nd_run(OpCall *c, const Tensor *x, const Tensor *index, Tensor *out)
{
    int batch = (int)attrs_int(c->attrs, "batch_dims", 0);
    int64_t inner = kernel_span(x, (int)index->shape[0] + batch, x->rank);
    Gather g = {x->data, out->data, dtype_size(x->dtype), inner};
    return kernel_points(c, index, x, batch, gather_points, &g);
}

static bool kernel_gather_nd(OpCall *c)
{
    return kernel_two(c, gather_nd_run);
}

static void card_gather_nd(TeBuilder *b)
{
    TeTensor x = te_input(b, 0), at = te_input(b, 1);
    int batch = (int)attrs_int(b->attrs, "batch_dims", 0), m = (int)at.shape[0];
    Te *index[TENSOR_RANK_MOST], *i[TENSOR_RANK_MOST];
    ops_axes(b, 0, at.rank - 1, i + 1);
    ops_axes(b, 0, batch, index);
    for (int k = 0; k < m; k++) {
        i[0] = te_int(b, k);
        index[batch + k] = ops_place(b, te_load(b, at, i), x.shape[batch + k]);
    }
    ops_axes(b, at.rank - 1, x.rank - batch - m, index + batch + m);
    ops_emit(b, te_load(b, x, index));
}

/* ---- rows ---------------------------------------------------------------------------------------- */

static const OpArg indexed_args[] = {
    {"data", "the tensor"}, {"indices", "positions: integers"}, {0}};
static const OpAttr take_attrs[] = {
    ATTR_I("batch_dims", 0, "leading axes that data and indices share"),
    ATTR_NONE("axis", INT, "the axis that is indexed; None: all elements in one row"),
    ATTR_ONE("mode", "clip", "what an index out of range means: the nearest (clip), modulo (wrap)",
             "clip", "wrap", "fast"),
    {0},
};
static const OpAttr strided_slice_attrs[] = {
    ATTR_MUST_NONE("begin", INTS,
                   "the first position of each axis; negative ones count from the end"),
    ATTR_MUST_NONE("end", INTS, "the position behind the last"),
    ATTR_MUST_NONE("strides", INTS, "from one position to the next; 1 where it is not given"),
    ATTR_ONE("slice_mode", "end", "\"size\": `end` holds sizes, negative ones reach to the end",
             "end", "size"),
    ATTR_MUST_NONE("axes", INTS, "the axes that the lists are for; None: the first ones"),
    {0},
};
static const OpAttr slice_like_attrs[] = {
    ATTR_MUST_NONE("axes", INTS, "the axes that are cut; None: all common leading ones"), {0}};
static const OpAttr gather_attrs[] = {
    ATTR_NONE("axis", INT, "the axis that is indexed; it must be given"), {0}};
static const OpAttr gather_nd_attrs[] = {
    ATTR_I("batch_dims", 0, "leading axes that data and indices share"),
    ATTR_NONE("index_rank", INT, "the extent of the indices' first axis, where it is unknown"),
    {0},
};

const Op index_ops[] = {
    {.name = "take",
     .doc = "The parts of `data` at the indices along an axis.",
     .args = indexed_args,
     .attrs = take_attrs,
     .samples = "(float32[4,3], int32[2], axis=0) (float32[2,3], int32[4])",
     .pattern = OP_INJECTIVE,
     OP_REL(rel_take),
     .compute = compute_take,
     /* Rows, as of a table of words, go back as rows. */
     .grad = "let %back = if (%axis == 0) { "
             "let %rows = ones_like(sum(%data, axis=[0], exclude=True)); "
             "let %number = cumsum(%rows, axis=0, dtype=\"int64\", exclusive=True); "
             "let %at = take(%number, %indices, axis=0, mode=%mode); "
             "scatter_nd(zeros_like(%data), expand_dims(%at, axis=0), %g, mode=\"add\") } else "
             "{ " GRAD_BACK("take(" GRAD_PLACES
                            ", %indices, batch_dims=%batch_dims, axis=%axis, mode=%mode)",
                            "%g") " }; (%back, zeros_like(%indices))"},
    {.name = "strided_slice",
     .doc = "Every so many elements between two positions of each axis.",
     .args = args_data,
     .attrs = strided_slice_attrs,
     .samples = "(float32[4,6], begin=[1, 0], end=[3, 5], strides=[1, 2], axes=None)",
     .pattern = OP_INJECTIVE,
     OP_REL(rel_strided_slice),
     .compute = compute_strided_slice},
    {.name = "slice_like",
     .doc = "The leading part of a tensor, cut to the extents of another.",
     .args = args_like,
     .attrs = slice_like_attrs,
     .samples = "(float32[4,6], float32[2,3], axes=None)",
     .pattern = OP_INJECTIVE,
     OP_REL(rel_slice_like),
     .compute = compute_corner},
    {.name = "gather",
     .doc = "For each index the element of the data at that position of the axis.",
     .args = indexed_args,
     .attrs = gather_attrs,
     .samples = "(float32[2,3], int32[2,4], axis=1)",
     .pattern = OP_INJECTIVE,
     OP_REL(rel_gather),
     .kernel = kernel_gather,
     .card = card_gather,
     .grad = "(scatter_elements(zeros_like(%data), %indices, %g, axis=%axis, reduction=\"add\"), "
             "zeros_like(%indices))"},
    {.name = "gather_nd",
     .doc = "The parts of the data at positions whose coordinates stand along the first axis.",
     .args = indexed_args,
     .attrs = gather_nd_attrs,
     .samples = "(float32[2,3], int32[2,4])",
     .pattern = OP_INJECTIVE,
     OP_REL(rel_gather_nd),
     .kernel = kernel_gather_nd,
     .card = card_gather_nd,
     .grad = "(" GRAD_BACK("gather_nd(" GRAD_PLACES
                           ", %indices, batch_dims=%batch_dims, index_rank=%index_rank)",
                           "%g") ", zeros_like(%indices))"},
    {0},
};
