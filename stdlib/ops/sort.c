/* Sorting, and scans along an axis. They have no form as tensor expressions. */
#include "stdlib/ops/ops.h"

#include "base/number.h"

#include <stdlib.h>
#include <string.h>

static const DType int32_dtype = {DTYPE_CODE_INT, 32, 1};

static RelResult rel_sort(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (t && rel_axis(r, attrs_int(r->attrs, "axis", -1), t->n) < 0)
        return REL_FAILED;
    return rel_same(r);
}

static RelResult rel_argsort(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    if (rel_axis(r, attrs_int(r->attrs, "axis", -1), t->n) < 0)
        return REL_FAILED;
    return rel_out_tensor(r, ops_dtype(r->attrs, "dtype", int32_dtype), t->n, t->dims);
}

static RelResult rel_topk(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    int axis = rel_axis(r, attrs_int(r->attrs, "axis", -1), t->n);
    int64_t k = attrs_int(r->attrs, "k", 0);
    if (axis < 0)
        return REL_FAILED;
    if (k > 0 && t->dims[axis] >= 0 && k > t->dims[axis]) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, 0, "`k` is %lld, but axis %d has %lld elements",
                  (long long)k, axis, (long long)t->dims[axis]);
        return REL_FAILED;
    }
    Dim dims[TENSOR_RANK_MOST];
    for (uint32_t i = 0; i < t->n; i++)
        dims[i] = (int)i == axis && k > 0 ? k : t->dims[i];
    const Type *values = type_tensor(r->cx, t->dtype, t->n, dims);
    const Type *indices = type_tensor(r->cx, ops_dtype(r->attrs, "dtype", int32_dtype), t->n, dims);
    Str ret = attrs_string(r->attrs, "ret_type");
    if (str_is(ret, "values"))
        return rel_set_output(r, values);
    if (str_is(ret, "indices"))
        return rel_set_output(r, indices);
    if (str_is(ret, "both"))
        return rel_set_output(r, type_tuple(r->cx, 2, (const Type *[]){values, indices}));
    rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`ret_type` of `topk` is \"both\", \"values\" or \"indices\"");
    return REL_FAILED;
}

/* One element as the sort sees it: by key, then by place. */
typedef struct Item {
    double key;
    int64_t wide;       /* the key of integers, which double cannot hold */
    int64_t at;
} Item;

static int by_place(const Item *x, const Item *y)
{
    return x->at < y->at ? -1 : x->at > y->at;
}

/* NaN goes behind everything in both directions. */
static int compare(const Item *x, const Item *y)
{
    if (x->key != x->key || y->key != y->key)
        return x->key == x->key ? -1 : y->key == y->key ? 1 : 0;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->wide < y->wide ? -1 : x->wide > y->wide;
}

static int ascending(const void *a, const void *b)
{
    int c = compare(a, b);
    return c ? c : by_place(a, b);
}

static int descending(const void *a, const void *b)
{
    const Item *x = a, *y = b;
    bool nan = x->key != x->key || y->key != y->key;
    int c = nan ? compare(x, y) : compare(y, x);
    return c ? c : by_place(x, y);
}

typedef struct Sort {
    Tensor *x, *values, *indices;   /* of the results one may be NULL */
    int axis;
    int64_t k;
    bool ascend;
} Sort;

static void sort_row(const Sort *s, Item *items, int64_t outer, int64_t inner)
{
    int64_t n = s->x->shape[s->axis], stride = kernel_span(s->x, s->axis + 1, s->x->rank);
    int64_t base = outer * n * stride + inner, to = outer * s->k * stride + inner;
    bool real = dtype_is_float(s->x->dtype), big = dtype_id(s->x->dtype) == DT_UINT64;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = base + i * stride, wide = real ? 0 : tensor_get_int(s->x, at);
        double key = real ? tensor_get_double(s->x, at) : big ? (double)(uint64_t)wide : (double)wide;
        items[i] = (Item){key, big ? (int64_t)((uint64_t)wide >> 1) : wide, i};
    }
    qsort(items, (size_t)n, sizeof *items, s->ascend ? ascending : descending);
    size_t size = dtype_size(s->x->dtype);
    for (int64_t i = 0; i < s->k; i++) {
        int64_t from = base + items[i].at * stride, at = to + i * stride;
        if (s->values)
            memcpy(s->values->data + (size_t)at * size, s->x->data + (size_t)from * size, size);
        if (s->indices) {
            Value v = dtype_is_float(s->indices->dtype)
                          ? value_scalar_double(s->indices->dtype, (double)items[i].at)
                          : value_scalar_int(s->indices->dtype, items[i].at);
            memcpy(s->indices->data + (size_t)at * dtype_size(s->indices->dtype), &v.bits,
                   dtype_size(s->indices->dtype));
        }
    }
}

static bool sort_run(OpCall *c, const Sort *s)
{
    int64_t n = s->x->shape[s->axis], inner = kernel_span(s->x, s->axis + 1, s->x->rank);
    int64_t outer = kernel_span(s->x, 0, s->axis);
    size_t bytes;
    if (!size_mul((size_t)n + 1, sizeof(Item), &bytes) || !limit_charge(&c->cx->limits, bytes))
        return false;
    Item *items = malloc(bytes);
    bool good = items || !limit_reach(&c->cx->limits, LIMIT_MEMORY);
    for (int64_t i = 0; good && i < outer * inner; i++) {
        sort_row(s, items, i / inner, i % inner);
        good = !limit_hit(&c->cx->limits);
    }
    free(items);
    limit_release(&c->cx->limits, bytes);
    return good;
}

static bool sort_kernel(OpCall *c, bool values, bool indices)
{
    Tensor *x = kernel_arg(c, 0);
    if (!x)
        return false;
    Sort s = {.x = x,
              .values = values ? kernel_out(c, 0) : NULL,
              .indices = indices ? kernel_out(c, values ? 1 : 0) : NULL,
              .axis = ops_axis(c->attrs, "axis", x->rank),
              .ascend = attrs_bool(c->attrs, "is_ascend")};
    bool good = (!values || s.values) && (!indices || s.indices);
    if (good) {
        s.k = (values ? s.values : s.indices)->shape[s.axis];
        good = sort_run(c, &s);
    }
    tensor_release(x);
    if (!good) {
        tensor_release(s.values);
        tensor_release(s.indices);
        return false;
    }
    if (values && indices)
        return kernel_set_tuple(c, 2, (Tensor *[]){s.values, s.indices});
    return kernel_set(c, values ? s.values : s.indices);
}

static bool kernel_sort(OpCall *c)
{
    return sort_kernel(c, true, false);
}

static bool kernel_argsort(OpCall *c)
{
    return sort_kernel(c, false, true);
}

bool kernel_topk(OpCall *c)
{
    Str ret = attrs_string(c->attrs, "ret_type");
    return sort_kernel(c, !str_is(ret, "indices"), !str_is(ret, "values"));
}

/* ---- cumsum, cumprod ----------------------------------------------------------------------------- */

static RelResult rel_scan(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    DType dtype = ops_dtype(r->attrs, "dtype", t->dtype);
    const AttrValue *axis = attrs_find(r->attrs, "axis");
    if (axis->kind == ATTR_NONE) {
        Dim n = dims_product(t->n, t->dims);
        return rel_out_tensor(r, dtype, 1, &n);
    }
    if (rel_axis(r, axis->i, t->n) < 0)
        return REL_FAILED;
    return rel_out_tensor(r, dtype, t->n, t->dims);
}

/* Integers of any width go through uint64, where they wrap alike; floats through double, rounded at
 * each step. */
static void scan_row(const Tensor *x, Tensor *out, int64_t base, int64_t n, int64_t stride, bool product,
                     bool exclusive)
{
    bool real = dtype_is_float(out->dtype);
    Value acc = value_scalar_int(out->dtype, product);
    size_t size = dtype_size(out->dtype);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = base + i * stride;
        Value before = acc;
        if (real) {
            double v = tensor_get_double(x, at), a = value_as_double(acc);
            acc = value_scalar_double(out->dtype, product ? a * v : a + v);
        } else {
            uint64_t v = dtype_is_float(x->dtype) ? (uint64_t)(int64_t)tensor_get_double(x, at)
                                                  : (uint64_t)tensor_get_int(x, at);
            uint64_t a = (uint64_t)value_as_int(acc);
            acc = value_scalar_int(out->dtype, (int64_t)(product ? a * v : a + v));
        }
        memcpy(out->data + (size_t)at * size, exclusive ? &before.bits : &acc.bits, size);
    }
}

static bool scan_kernel(OpCall *c, bool product)
{
    Tensor *x = kernel_arg(c, 0), *out = x ? kernel_out(c, 0) : NULL;
    if (!out) {
        tensor_release(x);
        return false;
    }
    bool flat = attrs_find(c->attrs, "axis")->kind == ATTR_NONE;
    bool exclusive = attrs_bool(c->attrs, "exclusive");
    int axis = flat ? 0 : ops_axis(c->attrs, "axis", x->rank);
    int64_t n = flat ? x->size : x->shape[axis];
    int64_t inner = flat ? 1 : kernel_span(x, axis + 1, x->rank);
    int64_t rows = n ? x->size / n : 0;
    bool good = true;
    for (int64_t i = 0; good && i < rows; i++) {
        scan_row(x, out, i / inner * n * inner + i % inner, n, inner, product, exclusive);
        good = !limit_hit(&c->cx->limits);
    }
    tensor_release(x);
    if (good)
        return kernel_set(c, out);
    tensor_release(out);
    return false;
}

static bool kernel_cumsum(OpCall *c)
{
    return scan_kernel(c, false);
}

static bool kernel_cumprod(OpCall *c)
{
    return scan_kernel(c, true);
}

/* ---- rows ---------------------------------------------------------------------------------------- */

#define SORT_ATTRS(ASCEND)                                          \
    ATTR_I("axis", -1, "the axis along which to sort"),             \
        ATTR_B("is_ascend", ASCEND, "the least element first")
static const OpAttr sort_attrs[] = {SORT_ATTRS(1), ATTR_D("dtype", "", "unused"), {0}};
static const OpAttr argsort_attrs[] = {SORT_ATTRS(1), ATTR_D("dtype", "", "the type of the positions"), {0}};
static const OpAttr topk_attrs[] = {
    ATTR_MUST_NONE("k", INT, "how many elements; less than 1 or None: all"),
    ATTR_I("axis", -1, "the axis along which to sort"),
    ATTR_S("ret_type", "both", "\"both\", \"values\" or \"indices\""),
    ATTR_B("is_ascend", 0, "the least element first"),
    ATTR_D("dtype", "", "the type of the positions"),
    {0},
};
static const OpAttr scan_attrs[] = {
    ATTR_NONE("axis", INT, "the axis; None: all elements in one row"),
    ATTR_D("dtype", "", "the type to fold in and of the result"),
    ATTR_B("exclusive", 0, "each result leaves out its own element"),
    {0},
};

const Op sort_ops[] = {
    {.name = "sort",
     .doc = "The elements along an axis in order; equal ones keep theirs.",
     .args = args_data,
     .attrs = sort_attrs,
     .samples = "(float32[2,5]) (int32[3,2], axis=0, is_ascend=False)",
     .pattern = OP_OPAQUE,
     .rel = rel_sort,
     .kernel = kernel_sort},
    {.name = "argsort",
     .doc = "The positions that sort the elements along an axis.",
     .args = args_data,
     .attrs = argsort_attrs,
     .samples = "(float32[2,5], dtype=\"int32\")",
     .pattern = OP_OPAQUE,
     .rel = rel_argsort,
     .kernel = kernel_argsort},
    {.name = "topk",
     .doc = "The greatest (or least) elements along an axis, and their positions.",
     .args = args_data,
     .attrs = topk_attrs,
     .samples = "(float32[2,5], k=2, dtype=\"int32\")",
     .pattern = OP_OPAQUE,
     .rel = rel_topk,
     .kernel = kernel_topk},
    {.name = "cumsum",
     .doc = "The sums of the elements up to each place of an axis.",
     .args = args_data,
     .attrs = scan_attrs,
     .samples = "(float32[2,3], axis=1) (int32[2,3])",
     .pattern = OP_OPAQUE,
     .rel = rel_scan,
     .kernel = kernel_cumsum},
    {.name = "cumprod",
     .doc = "The products of the elements up to each place of an axis.",
     .args = args_data,
     .attrs = scan_attrs,
     .samples = "(float32[2,3], axis=1)",
     .pattern = OP_OPAQUE,
     .rel = rel_scan,
     .kernel = kernel_cumprod},
    {0},
};
