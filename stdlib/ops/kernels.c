/* What kernels and the makers of expressions share. */
#include "stdlib/ops/ops.h"

#include "te/loops.h"

#include <string.h>

Tensor *kernel_arg(OpCall *c, uint32_t i)
{
    Tensor *t = value_to_tensor(&c->cx->limits, c->args[i]);
    if (!t)
        return NULL;
    Tensor *packed = tensor_contiguous(&c->cx->limits, t);
    tensor_release(t);
    return packed;
}

bool kernel_cast_all(OpCall *c, Tensor *to, const Tensor *from)
{
    size_t size = dtype_size(from->dtype), wide = dtype_size(to->dtype);
    for (int64_t i = 0; i < from->size; i += LIMIT_EVERY) {
        int64_t n = from->size - i < LIMIT_EVERY ? from->size - i : LIMIT_EVERY;
        if (limit_hit(&c->cx->limits))
            return false;
        if (dtype_eq(to->dtype, from->dtype))
            memcpy(to->data + (size_t)i * size, from->data + (size_t)i * size, (size_t)n * size);
        else
            te_loop_cast(dtype_id(to->dtype), dtype_id(from->dtype), to->data + (size_t)i * wide,
                         from->data + (size_t)i * size, n);
    }
    return true;
}

Tensor *kernel_changed(OpCall *c, Tensor *x)
{
    bool given = c->last && c->args[0].kind == VALUE_TENSOR && c->args[0].tensor == x;
    if (tensor_is_alone(x, given ? 2 : 1))
        return tensor_retain(x);
    Tensor *out = kernel_out_raw(c, 0);
    if (out && kernel_cast_all(c, out, x))
        return out;
    tensor_release(out);
    return NULL;
}

Tensor *kernel_cast(OpCall *c, Tensor *t, DType to)
{
    if (!t || dtype_eq(t->dtype, to))
        return t;
    Tensor *out = tensor_new_raw(&c->cx->limits, to, t->rank, t->shape);
    if (out && !kernel_cast_all(c, out, t)) {
        tensor_release(out);
        out = NULL;
    }
    tensor_release(t);
    return out;
}

Tensor *kernel_arg_as(OpCall *c, uint32_t i, DType as)
{
    return kernel_cast(c, kernel_arg(c, i), as);
}

double kernel_number(OpCall *c, uint32_t i, double otherwise)
{
    Tensor *t = kernel_arg_as(c, i, (DType){DTYPE_CODE_FLOAT, 64, 1});
    double v = t && t->size ? *(const double *)(const void *)t->data : otherwise;
    tensor_release(t);
    return v;
}

bool kernel_release(uint32_t n, Tensor *const *tensors)
{
    bool all = true;
    for (uint32_t i = 0; i < n; i++) {
        all = all && tensors[i];
        tensor_release(tensors[i]);
    }
    return all;
}

bool kernel_set(OpCall *c, Tensor *t)
{
    c->out = value_tensor(t);
    return !value_is_none(c->out);
}

bool kernel_set_tuple(OpCall *c, uint32_t n, Tensor *const *tensors)
{
    bool all = true;
    for (uint32_t i = 0; i < n; i++)
        all = all && tensors[i];
    Object *o = all ? object_new(&c->cx->limits, &tuple_info, n) : NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (o)
            object_set(o, i, value_tensor(tensors[i]));
        else
            tensor_release(tensors[i]);
    }
    c->out = o ? value_object(o) : value_none();
    return o != NULL;
}

static const Type *type_of_out(const OpCall *c, uint32_t i)
{
    return c->type->kind == TYPE_TUPLE ? c->type->parts[i] : c->type;
}

Tensor *kernel_out(OpCall *c, uint32_t i)
{
    const Type *t = type_of_out(c, i);
    return tensor_new(&c->cx->limits, t->dtype, (int32_t)t->n, t->dims);
}

Tensor *kernel_out_raw(OpCall *c, uint32_t i)
{
    const Type *t = type_of_out(c, i);
    return tensor_new_raw(&c->cx->limits, t->dtype, (int32_t)t->n, t->dims);
}

int64_t kernel_span(const Tensor *t, int from, int to)
{
    int64_t n = 1;
    for (int i = from; i < to; i++)
        n *= t->shape[i];
    return n;
}

int64_t kernel_int(const Tensor *t, int64_t i)
{
    switch ((int)dtype_id(t->dtype)) {
    case DT_INT32: return ((const int32_t *)t->data)[i];
    case DT_INT64: return ((const int64_t *)t->data)[i];
    }
    int64_t v = tensor_get_int(t, i);
    return v < 0 && !dtype_is_signed(t->dtype) ? INT64_MAX : v;
}

int64_t kernel_index(OpCall *c, int64_t v, int64_t extent)
{
    if (v >= -extent && v < extent)
        return v < 0 ? v + extent : v;
    Diag *d = diag_error(c->cx->diags, E0304_INDEX, c->span,
                         "index %lld is out of range for an axis of %lld elements", (long long)v,
                         (long long)extent);
    diag_help(d, "indices go from 0 to %lld; negative ones count from the end",
              (long long)extent - 1);
    return -1;
}

/* Places of indices, which may stand where they are put; false: one is out of range. */
CLONES static bool find_places(int64_t n, int64_t extent, int64_t base, int64_t by, int64_t step,
                               const int64_t *indices, int64_t *places)
{
    int wrong = 0;
    for (int64_t j = 0; j < n; j++) {
        int64_t v = indices[j] + (indices[j] < 0 ? extent : 0);
        wrong |= (uint64_t)v >= (uint64_t)extent;
        places[j] = (int64_t)((uint64_t)base + (uint64_t)v * (uint64_t)by + (uint64_t)(j * step));
    }
    return !wrong;
}

/* As int64; of uint64, what is beyond that is the greatest. */
static void read_indices(DTypeId id, int64_t *out, const void *in, int64_t n)
{
    te_loop_cast(DT_INT64, id, out, in, n);
    for (int64_t i = 0; id == DT_UINT64 && i < n; i++)
        out[i] = out[i] < 0 ? INT64_MAX : out[i];
}

/* The places of n elements of a row that begins at `base`, from the one at `j` on. */
static bool row_places(OpCall *c, const Tensor *index, int64_t from, int64_t n, int64_t extent,
                       int64_t base, int64_t by, int64_t step, int64_t *places)
{
    DTypeId id = dtype_id(index->dtype);
    const char *indices = index->data + (size_t)from * dtype_row(id)->size;
    bool wide = id == DT_INT64;
    if (!wide)
        read_indices(id, places, indices, n);
    if (find_places(n, extent, base, by, step,
                    wide ? (const int64_t *)(const void *)indices : places, places))
        return true;
    read_indices(id, places, indices, n);
    for (int64_t j = 0; kernel_index(c, places[j], extent) >= 0;)
        j++;
    return false;
}

bool kernel_places(OpCall *c, const Tensor *index, const Tensor *in, int axis,
                   bool (*use)(void *data, int64_t from, int64_t n, const int64_t *places),
                   void *data)
{
    int64_t places[KERNEL_PLACES], place[TENSOR_RANK_MOST] = {0};
    int last = index->rank - 1;
    int64_t row = index->shape[last], by = kernel_span(in, axis + 1, in->rank);
    int64_t step = axis == last ? 0 : 1;
    for (int64_t from = 0; from < index->size; from += row) {
        int64_t base = 0;
        for (int k = 0; k < in->rank; k++)
            base = base * in->shape[k] + (k == axis ? 0 : place[k]);
        for (int64_t j = 0; j < row; j += KERNEL_PLACES) {
            int64_t n = row - j < KERNEL_PLACES ? row - j : KERNEL_PLACES;
            if (limit_hit(&c->cx->limits) ||
                !row_places(c, index, from + j, n, in->shape[axis], base + j * step, by, step,
                            places) ||
                !use(data, from + j, n, places))
                return false;
        }
        for (int k = last - 1; k >= 0 && ++place[k] == index->shape[k]; k--)
            place[k] = 0;
    }
    return true;
}

bool kernel_points(OpCall *c, const Tensor *index, const Tensor *in, int batch,
                   bool (*use)(void *data, int64_t from, int64_t n, const int64_t *places),
                   void *data)
{
    int64_t places[KERNEL_PLACES], along[KERNEL_PLACES];
    int m = (int)index->shape[0];
    int64_t points = kernel_span(index, 1, index->rank);
    int64_t batches = kernel_span(in, 0, batch), whole = kernel_span(in, batch, in->rank);
    int64_t per_batch = batches ? points / batches : 0, n;
    int64_t most = kernel_span(in, batch + m, in->rank) > 4096 ? 1 : KERNEL_PLACES;
    for (int64_t p = 0; p < points; p += n) {
        n = points - p < most ? points - p : most;
        for (int64_t j = 0; j < n; j++)
            places[j] = batch ? (p + j) / per_batch * whole : 0;
        for (int k = 0; k < m; k++) {
            if (!row_places(c, index, k * points + p, n, in->shape[batch + k], 0,
                            kernel_span(in, batch + k + 1, in->rank), 0, along))
                return false;
            for (int64_t j = 0; j < n; j++)
                places[j] += along[j];
        }
        if (limit_hit(&c->cx->limits) || !use(data, p, n, places))
            return false;
    }
    return true;
}

/* ---- building expressions ---------------------------------------------------------------------- */

Expr *ops_call(const OpsMake *m, const char *op, uint32_t n, Expr *const *args, uint32_t n_attrs,
               const Attr *attrs)
{
    for (uint32_t i = 0; i < n; i++)
        if (!args[i])
            return NULL;
    const Op *row = op_find(m->cx, str_of(op));
    if (!row) {
        diag_bug(m->cx->diags, m->span, "there is no operator `%s`", op);
        return NULL;
    }
    const Attrs *checked = NULL;
    if (row->attrs) {
        Attrs *written = arena_alloc(m->arena, sizeof(Attrs) + (n_attrs + 1) * sizeof(Attr));
        written->n = n_attrs;
        if (n_attrs)
            memcpy(written->at, attrs, n_attrs * sizeof(Attr));
        checked = attrs_check(m->cx, m->arena, op, row->attrs, written, m->span);
        if (!checked)
            return NULL;
    }
    return expr_call_op(m->arena, m->span, row, n, args, checked);
}

Expr *ops_call1(const OpsMake *m, const char *op, Expr *x)
{
    return ops_call(m, op, 1, &x, 0, NULL);
}

Expr *ops_call2(const OpsMake *m, const char *op, Expr *x, Expr *y)
{
    Expr *args[2] = {x, y};
    return ops_call(m, op, 2, args, 0, NULL);
}

Expr *ops_cast(const OpsMake *m, Expr *x, DType to)
{
    Attr attr = ops_attr_dtype(m, "dtype", to);
    return ops_call(m, "cast", 1, &x, 1, &attr);
}

Expr *ops_call_ints(const OpsMake *m, const char *op, Expr *x, const char *key, uint32_t n,
                    const int64_t *v)
{
    Attr attr = ops_attr_ints(m, key, n, v);
    return ops_call(m, op, 1, &x, 1, &attr);
}

Expr *ops_reshaped(const OpsMake *m, Expr *x, uint32_t n, const int64_t *shape)
{
    Attr attrs[2] = {ops_attr_ints(m, "newshape", n, shape), ops_attr_bool("allowzero", true)};
    bool zero = false;
    for (uint32_t i = 0; i < n; i++)
        zero |= shape[i] == 0;
    return ops_call(m, "reshape", 1, &x, zero ? 2 : 1, attrs);
}

Expr *ops_padded(const OpsMake *m, Expr *x, Expr *value, uint32_t rank, const int64_t *before,
                 const int64_t *after)
{
    AttrValue *sides = arena_alloc_must(m->arena, rank, sizeof *sides);
    bool any = false;
    for (uint32_t i = 0; i < rank; i++) {
        sides[i] = ops_attr_ints(m, "", 2, (int64_t[]){before[i], after[i]}).value;
        any |= before[i] || after[i];
    }
    Attr attr = {.key = "pad_width", .value = {.kind = ATTR_LIST, .list = {sides, rank}}};
    return any ? ops_call(m, "nn.pad", 2, (Expr *[]){x, value}, 1, &attr) : x;
}

Attr ops_attr_int(const char *key, int64_t v)
{
    return (Attr){.key = key, .value = {.kind = ATTR_INT, .i = v}};
}

Attr ops_attr_bool(const char *key, bool v)
{
    return (Attr){.key = key, .value = {.kind = ATTR_BOOL, .b = v}};
}

Attr ops_attr_ints(const OpsMake *m, const char *key, uint32_t n, const int64_t *v)
{
    AttrValue *at = arena_alloc_must(m->arena, n + 1, sizeof *at);
    for (uint32_t i = 0; i < n; i++)
        at[i] = (AttrValue){.kind = ATTR_INT, .i = v[i]};
    return (Attr){.key = key, .value = {.kind = ATTR_LIST, .list = {at, n}}};
}

Attr ops_attr_text(const OpsMake *m, const char *key, const char *text)
{
    size_t n = strlen(text);
    return (Attr){.key = key,
                  .value = {.kind = ATTR_STRING, .s = {arena_copy_text(m->arena, text, n), n}}};
}

Attr ops_attr_dtype(const OpsMake *m, const char *key, DType dtype)
{
    Buf name = {0};
    dtype_print(&name, dtype);
    Attr attr = ops_attr_text(m, key, buf_text(&name));
    buf_deinit(&name);
    return attr;
}

Expr *ops_constant(const OpsMake *m, DType dtype, double v)
{
    if (dtype_size(dtype) == 0)
        return ops_cast(m, ops_constant(m, dtype_of(DT_FLOAT64), v), dtype);
    return expr_constant(m->arena, m->span, value_scalar_double(dtype, v));
}

Expr *ops_expand_to_axis(const OpsMake *m, Expr *x, int rank, int axis)
{
    int behind = rank - axis - 1;
    if (behind <= 0 || !x)
        return x;
    Attr attrs[2] = {ops_attr_int("axis", 1), ops_attr_int("num_newaxis", behind)};
    return ops_call(m, "expand_dims", 1, &x, 2, attrs);
}

bool ops_is_along(const Ctx *cx, const Expr *v, const Type *t, int axis)
{
    const Type *vt = v->type ? type_find(v->type) : NULL;
    return vt && vt->kind == TYPE_TENSOR && vt->n == 1 && vt->dims[0] != DIM_ANY &&
           dim_same(cx, vt->dims[0], t->dims[axis]);
}
