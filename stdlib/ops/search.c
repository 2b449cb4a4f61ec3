/* Looking elements up in an order: kernels, for halving a range and sorting have no form as tensor expressions. */
#include "stdlib/ops/boxes.h"
#include "stdlib/ops/order.h"

#include <string.h>

static const DType int32_dtype = {DTYPE_CODE_INT, 32, 1};
static const DType int64_dtype = {DTYPE_CODE_INT, 64, 1};
static const DType uint64_dtype = {DTYPE_CODE_UINT, 64, 1};
static const DType float64_dtype = {DTYPE_CODE_FLOAT, 64, 1};

/* A type in which elements of d are compared without loss. */
static DType wide_of(DType d)
{
    return dtype_is_float(d) ? float64_dtype : dtype_is_signed(d) ? int64_dtype : uint64_dtype;
}

/* -1, 0, 1 by the elements i of x and k of y, both of one wide type; NaN behind everything. */
static int compare(const Tensor *x, int64_t i, const Tensor *y, int64_t k)
{
    if (dtype_is_float(x->dtype)) {
        double a = reals(x)[i], b = reals(y)[k];
        return a < b ? -1 : a > b ? 1 : (a != a) - (b != b);
    }
    if (dtype_is_signed(x->dtype))
        return (longs(x)[i] > longs(y)[k]) - (longs(x)[i] < longs(y)[k]);
    const uint64_t *a = (const uint64_t *)(const void *)x->data;
    const uint64_t *b = (const uint64_t *)(const void *)y->data;
    return (a[i] > b[k]) - (a[i] < b[k]);
}

/* ---- searchsorted --------------------------------------------------------------------------------- */

static RelResult rel_searchsorted(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *v = t ? rel_tensor(r, 1) : NULL;
    if (!v)
        return rel_blocked(r);
    bool fits = t->n > 0 && (t->n == 1 || t->n == v->n);
    for (uint32_t i = 0; fits && t->n > 1 && i + 1 < t->n; i++)
        fits = dim_agrees(t->dims[i], v->dims[i]);
    if (!fits) {
        rel_error(r, E0202_SHAPE, 1, "values %s do not fit sequences %s", type_str(r->cx, v),
                  type_str(r->cx, t));
        return REL_FAILED;
    }
    if (!rel_dtypes_agree(r, 0, t, 1, v))
        return REL_FAILED;
    return rel_out_tensor(r, ops_dtype(r->attrs, "dtype", int32_dtype), v->n, v->dims);
}

/* The first place of the row from `base` that value i would stand before; behind equals with `right`. */
static int64_t place_of(const Tensor *rows, int64_t base, int64_t n, const Tensor *v, int64_t i,
                        bool right)
{
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        int c = compare(rows, base + mid, v, i);
        if (c < 0 || (c == 0 && right))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool kernel_searchsorted(OpCall *c)
{
    Tensor *rows = kernel_arg(c, 0);
    DType wide = wide_of(rows ? rows->dtype : int32_dtype);
    rows = kernel_cast(c, rows, wide);
    Tensor *v = kernel_arg_as(c, 1, wide);
    Tensor *out = rows && v ? tensor_new(&c->cx->limits, int64_dtype, v->rank, v->shape) : NULL;
    int64_t n = rows ? rows->shape[rows->rank - 1] : 0;
    int64_t each = v && v->rank ? v->shape[v->rank - 1] : 1;
    for (int64_t i = 0; out && i < v->size && !limit_hit_at(&c->cx->limits, i); i++) {
        int64_t row = rows->rank > 1 ? i / each : 0;
        longs(out)[i] = place_of(rows, row * n, n, v, i, attrs_bool(c->attrs, "right"));
    }
    kernel_release(2, (Tensor *[]){rows, v});
    return kernel_set(c, kernel_cast(c, out, c->type->dtype));
}

/* ---- unique --------------------------------------------------------------------------------------- */

static RelResult rel_unique(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    if (!rel_rank(r, 0, t, 1))
        return REL_FAILED;
    const Type *n = type_tensor(r->cx, int32_dtype, 1, t->dims);
    const Type *all[5] = {t, n, n, type_tensor(r->cx, int32_dtype, 1, (Dim[]){1}), n};
    uint32_t outputs = attrs_bool(r->attrs, "return_counts") ? 5 : 4;
    return rel_set_output(r, type_tuple(r->cx, outputs, all));
}

/* The items of all elements in order; NULL when a limit was hit. */
static Item *items_in_order(Limits *l, const Order *o, int64_t n, Item *items)
{
    uint64_t keys[SHORT_ROW];
    for (int64_t i = 0; i < n; i += SHORT_ROW) {
        int64_t some = n - i < SHORT_ROW ? n - i : SHORT_ROW;
        if (limit_hit_at(l, i))
            return NULL;
        order_keys(o, i, some, keys);
        for (int64_t k = 0; k < some; k++)
            items[i + k] = (Item){keys[k], i + k};
    }
    return order_sort(l, items, items + n, n, o->bits);
}

/* Different elements in order get numbers; without `sorted` the numbers follow where each comes first. `first[k]` is the place of the
 * first element of number k, `number[i]` of element i. How many. */
static int64_t number_elements(Limits *l, const Item *order, int64_t all, bool sorted,
                               int32_t *first, int32_t *number)
{
    int32_t n = 0;
    for (int64_t i = 0; i < all && !limit_hit_at(l, i); i++) {
        if (i == 0 || order[i - 1].key != order[i].key)
            first[n++] = (int32_t)order[i].at;
        number[order[i].at] = sorted ? n - 1 : first[n - 1];
    }
    if (sorted)
        return n;
    n = 0;
    for (int32_t i = 0; i < all && !limit_hit_at(l, i); i++) {
        bool fresh = number[i] == i;
        if (fresh)
            first[n] = i;
        number[i] = fresh ? n++ : number[number[i]];
    }
    return n;
}

static void set_unique(Limits *l, const Tensor *x, int64_t n, Tensor *const out[5])
{
    size_t size = dtype_size(x->dtype);
    const int32_t *first = ints(out[1]), *number = ints(out[2]);
    for (int64_t k = 0; k < n && !limit_hit_at(l, k); k++)
        memcpy(out[0]->data + (size_t)k * size, x->data + (size_t)first[k] * size, size);
    for (int64_t i = 0; out[4] && i < x->size && !limit_hit_at(l, i); i++)
        ints(out[4])[number[i]]++;
    ints(out[3])[0] = (int32_t)n;
}

static bool unique_run(OpCall *c, Tensor *x, Tensor *const out[5])
{
    Limits *l = &c->cx->limits;
    Order o = order_of(x, true);
    Tensor *room = tensor_new(l, int64_dtype, 2, (int64_t[]){2 * (x->size + 1), 2});
    const Item *items = room ? items_in_order(l, &o, x->size, (Item *)(void *)room->data) : NULL;
    if (items)
        set_unique(l, x,
                   number_elements(l, items, x->size, attrs_bool(c->attrs, "sorted"), ints(out[1]),
                                   ints(out[2])),
                   out);
    tensor_release(room);
    return items != NULL;
}

static bool kernel_unique(OpCall *c)
{
    Tensor *x = kernel_arg(c, 0), *out[5] = {NULL};
    bool good = x != NULL;
    for (uint32_t i = 0; good && i < c->type->n; i++)
        good = (out[i] = kernel_out(c, i)) != NULL;
    good = good && unique_run(c, x, out);
    tensor_release(x);
    if (good)
        return kernel_set_tuple(c, c->type->n, out);
    kernel_release(5, out);
    return false;
}

/* ---- rows ----------------------------------------------------------------------------------------- */

static const OpArg searchsorted_args[] = {
    {"sorted_sequence", "elements in order: rows of them"}, {"values", "what to look up"}, {0}};
static const OpAttr searchsorted_attrs[] = {
    ATTR_B("right", 0, "the place is behind equal elements, not before them"),
    ATTR_D("dtype", "int32", "the type of the places"),
    {0}};
static const OpAttr unique_attrs[] = {
    ATTR_B("sorted", 1, "in order, else as they come"),
    ATTR_B("return_counts", 0, "a fifth field says how often each element occurs"),
    {0}};

const Op search_ops[] = {
    {.name = "searchsorted",
     .doc = "The places at which values would be inserted into sorted elements.",
     .args = searchsorted_args,
     .attrs = searchsorted_attrs,
     .shapes = "(s..., n), (d...) -> (d...)",
     .samples = "(float32[5], float32[2,3])",
     .pattern = OP_OPAQUE,
     .rel = rel_searchsorted,
     .kernel = kernel_searchsorted},
    {.name = "unique",
     .doc = "The different elements; where each comes first; of each element the number; how many. "
            "What stands behind that many means nothing.",
     .args = args_data,
     .attrs = unique_attrs,
     .shapes = "(n) -> ((n), (n), (n), (1)), with return_counts one (n) more",
     .samples = "(int32[5])",
     .pattern = OP_OPAQUE,
     .rel = rel_unique,
     .kernel = kernel_unique,
     .no_grad = "which elements are equal changes by jumps"},
    {0},
};
