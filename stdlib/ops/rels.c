/* Relations and helpers that several families share. */
#include "stdlib/ops/ops.h"

#include <string.h>

const OpArg args_data[] = {{"data", "the tensor"}, {0}};
const OpArg args_pair[] = {{"lhs", "the left operand"}, {"rhs", "the right operand"}, {0}};
const OpArg args_like[] = {{"data", "the tensor"}, {"shape_like", "gives the shape"}, {0}};
const OpArg args_tuple[] = {{"data", "a tuple of tensors"}, {0}};

#define N_INTS 6
const AttrValue ops_zeros[N_INTS] = {{.kind = ATTR_INT}, {.kind = ATTR_INT}, {.kind = ATTR_INT},
                                     {.kind = ATTR_INT}, {.kind = ATTR_INT}, {.kind = ATTR_INT}};
const AttrValue ops_ones[N_INTS] = {{.kind = ATTR_INT, .i = 1}, {.kind = ATTR_INT, .i = 1},
                                    {.kind = ATTR_INT, .i = 1}, {.kind = ATTR_INT, .i = 1},
                                    {.kind = ATTR_INT, .i = 1}, {.kind = ATTR_INT, .i = 1}};

/* ---- identity ---------------------------------------------------------------------------------- */

static bool is_tensor(const Type *t)
{
    return t && type_find(t)->kind == TYPE_TENSOR;
}

RelResult rel_same(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (t)
        return rel_set_output(r, t);
    if (!r->failed && is_tensor(r->out) && type_find(r->in[0])->kind == TYPE_HOLE)
        return rel_set_input(r, 0, type_find(r->out)) ? REL_DONE : REL_FAILED;
    return rel_blocked(r);
}

typedef enum Elements { FLOATS, NUMBERS, INTS, BOOLS } Elements;

/* Reports unless the operator takes elements of this dtype. */
static bool takes(Rel *r, const Type *t, Elements want)
{
    DType d = t->dtype;
    const char *wanted = NULL, *to = NULL;
    if (want == FLOATS && !dtype_is_float(d))
        wanted = "floating-point elements", to = "float32";
    else if (want == NUMBERS && dtype_is_bool(d))
        wanted = "numbers", to = "int32";
    else if (want == INTS && dtype_is_float(d))
        wanted = "integers", to = "int32";
    else if (want == BOOLS && !dtype_is_bool(d))
        wanted = "elements of type bool", to = "bool";
    if (!wanted)
        return true;
    Diag *e = rel_error(r, E0203_DTYPE, 0, "`%s` takes %s, not `%s`", r->op->name, wanted,
                        type_str(r->cx, type_scalar(r->cx, d)));
    diag_help(e, "convert the argument first: `cast(…, dtype=\"%s\")`", to);
    return false;
}

static RelResult same_of(Rel *r, Elements want)
{
    const Type *t = rel_tensor(r, 0);
    if (t && !takes(r, t, want))
        return REL_FAILED;
    return rel_same(r);
}

RelResult rel_same_float(Rel *r)
{
    return same_of(r, FLOATS);
}

RelResult rel_same_number(Rel *r)
{
    return same_of(r, NUMBERS);
}

RelResult rel_same_int(Rel *r)
{
    return same_of(r, INTS);
}

RelResult rel_same_bool(Rel *r)
{
    return same_of(r, BOOLS);
}

RelResult rel_test(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    return rel_set_output(r, type_tensor(r->cx, type_bool(r->cx)->dtype, t->n, t->dims));
}

/* ---- broadcasting ------------------------------------------------------------------------------ */

static const char *arg_name(const Rel *r, uint32_t i)
{
    return r->op->args[i].name;
}

/* Nothing is converted silently. The argument that loses least is to be converted to the other's type. */
static void help_convert(const Rel *r, Diag *d, uint32_t i, DType a, uint32_t j, DType b)
{
    if (dtype_is_bool(a) || dtype_is_bool(b)) {
        diag_help(d, "a bool is no number: `logical_and(…, …)` combines two comparisons, "
                     "`where(…, …, …)` chooses a number");
        return;
    }
    bool second = dtype_is_float(a) || !dtype_is_float(b);
    DType to = second ? a : b;
    uint32_t arg = second ? j : i;
    rel_help_convert(r->cx, d, r->in_spans ? r->in_spans[arg] : (Span){0}, to);
}

bool rel_dtypes_agree(Rel *r, uint32_t i, const Type *a, uint32_t j, const Type *b)
{
    if (dtype_eq(a->dtype, b->dtype))
        return true;
    const char *ta = type_str(r->cx, type_scalar(r->cx, a->dtype));
    const char *tb = type_str(r->cx, type_scalar(r->cx, b->dtype));
    Diag *d = rel_error(r, E0203_DTYPE, (int)j,
                        "`%s` takes elements of one type, but `%s` has `%s` and `%s` has `%s`",
                        r->op->name, arg_name(r, i), ta, arg_name(r, j), tb);
    help_convert(r, d, i, a->dtype, j, b->dtype);
    return false;
}

static void explain_broadcast(Rel *r, Diag *d, const Type *a, const Type *b)
{
    /* The checker shows both shapes, and where they come from. */
    uint32_t n = !r->running ? 0 : a->n < b->n ? a->n : b->n;
    for (uint32_t k = 1; k <= n; k++) {
        Dim p = a->dims[a->n - k], q = b->dims[b->n - k];
        if (p == q || p == 1 || q == 1 || p < 0 || q < 0)
            continue;
        diag_note(d, "axis %d of `%s` has %lld elements, axis %d of `%s` has %lld", (int)(a->n - k),
                  arg_name(r, 0), (long long)p, (int)(b->n - k), arg_name(r, 1), (long long)q);
        break;
    }
    diag_help(d, "shapes are aligned at their last axes; extents must be equal, or one of them 1");
}

static RelResult broadcast_of(Rel *r, Elements want, bool compare)
{
    const Type *a = rel_tensor(r, 0), *b = a ? rel_tensor(r, 1) : NULL;
    if (!a || !b)
        return rel_blocked(r);
    Dim dims[TENSOR_RANK_MOST];
    uint32_t n;
    if (!rel_dtypes_agree(r, 0, a, 1, b) || !takes(r, a, want))
        return REL_FAILED;
    if (!dims_broadcast(r->cx, a->n, a->dims, b->n, b->dims, &n, dims)) {
        Diag *d = rel_error(r, E0202_SHAPE, 1, "`%s` cannot broadcast `%s` and `%s` to one shape",
                            r->op->name, type_str(r->cx, a), type_str(r->cx, b));
        explain_broadcast(r, d, a, b);
        return REL_FAILED;
    }
    DType dtype = compare ? type_bool(r->cx)->dtype : a->dtype;
    return rel_set_output(r, type_tensor(r->cx, dtype, n, dims));
}

#define ANY_ELEMENTS ((Elements)(BOOLS + 1))

RelResult rel_broadcast(Rel *r)
{
    return broadcast_of(r, ANY_ELEMENTS, false);
}

RelResult rel_broadcast_float(Rel *r)
{
    return broadcast_of(r, FLOATS, false);
}

RelResult rel_broadcast_int(Rel *r)
{
    return broadcast_of(r, INTS, false);
}

RelResult rel_broadcast_bool(Rel *r)
{
    return broadcast_of(r, BOOLS, false);
}

RelResult rel_compare(Rel *r)
{
    return broadcast_of(r, ANY_ELEMENTS, true);
}

/* ---- pieces of relations ----------------------------------------------------------------------- */

DType ops_dtype(const Attrs *a, const char *key, DType otherwise)
{
    DType d = attrs_dtype(a, key);
    return dtype_is_void(d) ? otherwise : d;
}

bool ops_pairs(const Attrs *a, const char *key, uint32_t n, int64_t *before, int64_t *after)
{
    const AttrValue *v = attrs_find(a, key);
    if (v->kind != ATTR_LIST || v->list.n != n)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const AttrValue *pair = &v->list.at[i];
        if (pair->kind != ATTR_LIST || pair->list.n != 2)
            return false;
        before[i] = pair->list.at[0].i;
        after[i] = pair->list.at[1].i;
        if (before[i] > OPS_MOST || before[i] < -OPS_MOST || after[i] > OPS_MOST ||
            after[i] < -OPS_MOST)
            return false;
    }
    return true;
}

bool rel_rank(Rel *r, uint32_t i, const Type *t, uint32_t rank)
{
    if (t->n == rank)
        return true;
    Diag *d = rel_error(r, E0202_SHAPE, (int)i, "`%s` takes a `%s` of rank %d, but this is `%s`",
                        r->op->name, arg_name(r, i), (int)rank, type_str(r->cx, t));
    if (t->n + 1 == rank)
        diag_help(d, "`expand_dims(…, axis=0)` adds an axis in front");
    return false;
}

bool rel_is_scalar(Rel *r, uint32_t i, const Type *t)
{
    if (t->n == 0)
        return true;
    Diag *d = rel_error(r, E0202_SHAPE, (int)i, "`%s` takes a scalar `%s`, but this is `%s`",
                        r->op->name, arg_name(r, i), type_str(r->cx, t));
    diag_help(d,
              "pick an element of it: `take(…, 0)`; or drop the axes of one element: `squeeze(…)`");
    return false;
}

bool rel_is_int(Rel *r, uint32_t i, const Type *t)
{
    if (dtype_is_int(t->dtype))
        return true;
    Diag *d = rel_error(r, E0203_DTYPE, (int)i, "`%s` takes integers as `%s`, but this is `%s`",
                        r->op->name, arg_name(r, i), type_str(r->cx, t));
    diag_help(d, "convert the argument first: `cast(…, dtype=\"int32\")`");
    return false;
}

bool rel_is_float(Rel *r, const Type *t)
{
    if (dtype_is_float(t->dtype))
        return true;
    rel_error(r, E0203_DTYPE, 0, "`%s` takes floating-point elements, not `%s`", r->op->name,
              type_str(r->cx, type_scalar(r->cx, t->dtype)));
    return false;
}

bool rel_has_shape(Rel *r, uint32_t i, const Type *t, uint32_t rank, const Dim *dims)
{
    const Type *wanted = type_tensor(r->cx, t->dtype, rank, dims);
    if (rel_agrees(t, wanted))
        return true;
    Diag *d = rel_error(r, E0202_SHAPE, (int)i, "`%s` takes `%s` as `%s`, but this is `%s`",
                        r->op->name, type_str(r->cx, wanted), arg_name(r, i), type_str(r->cx, t));
    diag_help(d, "these shapes belong together: %s", r->op->shapes);
    return false;
}

RelResult rel_are_scalars(Rel *r, uint32_t from)
{
    for (uint32_t i = from; i < r->n; i++) {
        const Type *t = rel_tensor(r, i);
        if (!t)
            return rel_blocked(r);
        if (!rel_is_scalar(r, i, t))
            return REL_FAILED;
    }
    return REL_DONE;
}

bool rel_set_tensor(Rel *r, uint32_t i, DType dtype, uint32_t rank, const Dim *dims)
{
    return rel_set_input(r, i, type_tensor(r->cx, dtype, rank, dims));
}

RelResult rel_out_tensor(Rel *r, DType dtype, uint32_t rank, const Dim *dims)
{
    if (rank > TENSOR_RANK_MOST) {
        rel_error(r, E0202_SHAPE, -1, "the result of `%s` would have rank %u; %d is the most",
                  r->op->name, (unsigned)rank, TENSOR_RANK_MOST);
        return REL_FAILED;
    }
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] >= DIM_ANY || dim_is_symbol(dims[i]))
            continue;
        rel_error(r, E0202_SHAPE, -1, "axis %u of the result of `%s` would have an extent below 0",
                  (unsigned)i, r->op->name);
        return REL_FAILED;
    }
    return rel_set_output(r, type_tensor(r->cx, dtype, rank, dims));
}

bool dims_static(uint32_t n, const Dim *dims)
{
    for (uint32_t i = 0; i < n; i++)
        if (dims[i] < 0)
            return false;
    return true;
}

Dim dims_product(uint32_t n, const Dim *dims)
{
    Dim p = 1;
    for (uint32_t i = 0; i < n; i++)
        if (dims[i] < 0 || __builtin_mul_overflow(p, dims[i], &p))
            return DIM_ANY;
    return p;
}

static bool padding_of(const Attrs *a, const char *key, int n, int64_t *before, int64_t *after)
{
    int64_t v[2 * TENSOR_RANK_MOST];
    int given = attrs_ints(a, key, v, 2 * TENSOR_RANK_MOST);
    if (given != 1 && given != n && given != 2 * n)
        return false;
    for (int i = 0; i < given; i++)
        if (v[i] > OPS_MOST || v[i] < -OPS_MOST)
            return false;
    for (int i = 0; i < n; i++) {
        before[i] = v[given == 1 ? 0 : i];
        after[i] = given == 2 * n ? v[n + i] : before[i];
    }
    return true;
}

bool rel_padding(Rel *r, const char *key, int n, int64_t *before, int64_t *after)
{
    if (padding_of(r->attrs, key, n, before, after))
        return true;
    Diag *d =
        rel_error(r, E0216_OPERATOR_ARGUMENT, -1,
                  "`%s` of `%s` must hold 1, %d or %d small numbers", key, r->op->name, n, 2 * n);
    diag_help(d, "one for all sides, one an axis, or all before and then all after");
    return false;
}

void ops_padding(const Attrs *a, const char *key, int n, int64_t *before, int64_t *after)
{
    padding_of(a, key, n, before, after);
}

static bool ints_of(const Attrs *a, const char *key, int n, int64_t *out)
{
    int64_t v[TENSOR_RANK_MOST];
    int given = attrs_ints(a, key, v, TENSOR_RANK_MOST);
    if (given != 1 && given != n)
        return false;
    for (int i = 0; i < n; i++)
        out[i] = v[given == 1 ? 0 : i];
    return true;
}

static bool positive_ints(Rel *r, const char *key, int n, int64_t *out, bool good)
{
    if (!good) {
        Diag *d = rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`%s` of `%s` must hold %d numbers",
                            key, r->op->name, n);
        diag_help(d, "give a list with one number for each axis");
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (out[i] > 0 && out[i] <= OPS_MOST)
            continue;
        rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`%s` of `%s` cannot be %lld", key, r->op->name,
                  (long long)out[i]);
        return false;
    }
    return true;
}

bool rel_ints(Rel *r, const char *key, int n, int64_t *out)
{
    return positive_ints(r, key, n, out, ints_of(r->attrs, key, n, out));
}

bool rel_extents(Rel *r, const char *key, int n, int64_t *out)
{
    int64_t all[TENSOR_RANK_MOST];
    bool good = attrs_ints(r->attrs, key, all, TENSOR_RANK_MOST) == n;
    return positive_ints(r, key, n, out, good && ints_of(r->attrs, key, n, out));
}

RelResult rel_uncounted(Rel *r, int axis)
{
    Diag *d = rel_error(r, E0202_SHAPE, 0, "axis %d would get more than can be counted", axis);
    diag_help(d, "is an extent larger than it should be?");
    return REL_FAILED;
}

void ops_ints(const Attrs *a, const char *key, int n, int64_t *out)
{
    ints_of(a, key, n, out);
}

/* ---- layouts ----------------------------------------------------------------------------------- */

bool layout_positions(Str layout, const char *letters, int *at)
{
    size_t n = strlen(letters);
    if (layout.len != n)
        return false;
    for (size_t i = 0; i < n; i++)
        at[i] = -1;
    for (size_t i = 0; i < n; i++) {
        const char *letter = memchr(letters, layout.ptr[i], n);
        if (!letter || at[letter - letters] >= 0)
            return false;
        at[letter - letters] = (int)i;
    }
    return true;
}

uint32_t layout_places(Str layout, const char *letters, int *at)
{
    size_t n = strlen(letters), found = 0;
    uint32_t rank = 0;
    bool split[LAYOUT_SPLIT] = {false};
    int64_t block = 0;
    for (size_t i = 0; i < n; i++)
        at[i] = -1;
    for (size_t i = 0; i < layout.len; i++) {
        char c = layout.ptr[i];
        if (c >= '0' && c <= '9') {
            block = block < OPS_MOST ? 10 * block + (c - '0') : OPS_MOST;
            continue;
        }
        bool inner = c >= 'a' && c <= 'z';
        const char *letter = memchr(letters, inner ? c - 'a' + 'A' : c, n);
        size_t k = letter ? (size_t)(letter - letters) : n;
        bool known =
            k < n && (inner ? k < LAYOUT_SPLIT && block && !split[k] : !block && at[k] < 0);
        if (!known)
            return 0;
        if (inner)
            split[k] = true;
        else
            at[k] = (int)rank;
        found += !inner;
        rank++;
        block = 0;
    }
    return found == n && !block ? rank : 0;
}

bool rel_places(Rel *r, uint32_t i, const Type *t, const char *letters, int *at)
{
    uint32_t rank = layout_places(attrs_string(r->attrs, "layout"), letters, at);
    return rel_rank(r, i, t, rank ? rank : (uint32_t)strlen(letters)) &&
           (rank || rel_layout(r, "layout", letters, at));
}

int ops_spatial(const Op *op)
{
    for (const OpAttr *a = op->attrs; a && a->name; a++)
        if (str_is(str_of(a->name), "layout") || str_is(str_of(a->name), "data_layout"))
            return (int)a->otherwise.s.len - 2;
    return 0;
}

bool rel_layout(Rel *r, const char *key, const char *letters, int *at)
{
    Str layout = attrs_string(r->attrs, key);
    if (layout_positions(layout, letters, at))
        return true;
    Diag *d = rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`%s` of `%s` cannot be \"%.*s\"", key,
                        r->op->name, (int)layout.len, layout.ptr);
    diag_help(d, "it must hold each letter of %s once", letters);
    return false;
}

Str ops_out_layout(const Attrs *a, const char *data_key, const char *out_key)
{
    Str out = attrs_string(a, out_key);
    return out.len ? out : attrs_string(a, data_key);
}

/* ---- computing --------------------------------------------------------------------------------- */

void ops_emit(TeBuilder *b, Te *body)
{
    te_output(b, te_map(b, te_out_dtype(b, 0), te_out_rank(b, 0), te_out_shape(b, 0), body));
}

void ops_axes(TeBuilder *b, int first, int n, Te **out)
{
    for (int i = 0; i < n; i++)
        out[i] = te_axis(b, first + i);
}

Te *ops_at_axes(TeBuilder *b, TeTensor t)
{
    Te *index[TENSOR_RANK_MOST];
    ops_axes(b, 0, t.rank, index);
    return te_load(b, t, index);
}

Te *ops_number(TeBuilder *b, double v)
{
    return te_number(b, te_out_dtype(b, 0), v);
}

int ops_axis(const Attrs *a, const char *key, int rank)
{
    int64_t axis = attrs_int(a, key, 0);
    return (int)(axis < 0 ? axis + rank : axis);
}

TeTensor ops_reshape(TeBuilder *b, TeTensor t, int rank, const int64_t *shape)
{
    Te *axes[TENSOR_RANK_MOST], *index[TENSOR_RANK_MOST];
    ops_axes(b, 0, rank, axes);
    te_unflatten(b, t.rank, t.shape, te_flatten(b, rank, shape, axes), index);
    return te_map(b, t.dtype, rank, shape, te_load(b, t, index));
}

Te *ops_clamp(TeBuilder *b, Te *x, int64_t extent)
{
    return te_binary(b, TE_MIN, te_binary(b, TE_MAX, x, te_int(b, 0)), te_int(b, extent - 1));
}

bool ops_out_is_empty(const TeBuilder *b)
{
    for (int i = 0; i < te_out_rank(b, 0); i++)
        if (te_out_shape(b, 0)[i] == 0)
            return true;
    return false;
}

bool ops_holds_elements(TeBuilder *b, const char *op, int64_t extent)
{
    if (extent > 0)
        return true;
    diag_error(b->cx->diags, E0304_INDEX, b->span, "`%s` from an axis without elements", op);
    b->failed = true;
    return false;
}

Te *ops_index(TeBuilder *b, Te *index)
{
    Te *i = te_cast(b, (DType){DTYPE_CODE_INT, 64, 1}, index);
    if (dtype_id(index->dtype) != DT_UINT64)
        return i;
    return te_select(b, te_binary(b, TE_LT, i, te_int(b, 0)), te_int(b, INT64_MAX), i);
}

Te *ops_place(TeBuilder *b, Te *index, int64_t extent)
{
    return te_binary(b, TE_PLACE, ops_index(b, index), te_int(b, extent));
}

Te *ops_scalar(TeBuilder *b, TeTensor t)
{
    return te_load(b, t, NULL);
}

Te *ops_affine(TeBuilder *b, Te *x, int64_t by, Te *y, int64_t times, int64_t plus)
{
    Te *sum = te_binary(b, TE_ADD, te_binary(b, TE_MUL, x, te_int(b, by)),
                        te_binary(b, TE_MUL, y, te_int(b, times)));
    return te_binary(b, TE_ADD, sum, te_int(b, plus));
}
