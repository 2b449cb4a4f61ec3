/* Sparse matrices: rows of (column, element) between the numbers in `indptr`; an element may be a block. Kernels, because the length of
 * each row is data. */
#include "stdlib/ops/boxes.h"

#include "base/number.h"

#include <string.h>

static const DType int64_dtype = {DTYPE_CODE_INT, 64, 1};
static const DType float64_dtype = {DTYPE_CODE_FLOAT, 64, 1};

static DType wide_of(DType d)
{
    return dtype_is_float(d) ? float64_dtype : int64_dtype;
}

/* ---- a sparse matrix among the arguments ---------------------------------------------------------- */

typedef struct Csr {
    Limits *limits;
    Tensor *data, *indices, *indptr;
    int64_t rows, blocks, height, width; /* rows of blocks, blocks, and the extents of one */
} Csr;

/* Arguments i, i + 1 and i + 2; columns must be below `columns` (in blocks). */
static bool csr_begin(OpCall *c, uint32_t i, DType as, int64_t columns, Csr *s)
{
    *s = (Csr){.limits = &c->cx->limits,
               .data = kernel_arg_as(c, i, as),
               .indices = kernel_arg_as(c, i + 1, int64_dtype),
               .indptr = kernel_arg_as(c, i + 2, int64_dtype)};
    if (!s->data || !s->indices || !s->indptr)
        return false;
    bool block = s->data->rank == 3;
    s->rows = s->indptr->size - 1;
    s->blocks = s->indices->size;
    s->height = block ? s->data->shape[1] : 1;
    s->width = block ? s->data->shape[2] : 1;
    columns /= s->width ? s->width : 1;
    bool good = s->rows >= 0 && s->data->shape[0] == s->blocks;
    for (int64_t k = 0; good && k <= s->rows && !limit_hit_at(&c->cx->limits, k); k++)
        good = longs(s->indptr)[k] >= (k ? longs(s->indptr)[k - 1] : 0) &&
               longs(s->indptr)[k] <= s->blocks;
    for (int64_t k = 0; good && k < s->blocks && !limit_hit_at(&c->cx->limits, k); k++)
        good = longs(s->indices)[k] >= 0 && longs(s->indices)[k] < columns;
    if (!good)
        diag_error(c->cx->diags, E0304_INDEX, c->span,
                   "the sparse matrix of `%s` names a column or an element that is not there",
                   c->op->name);
    return good;
}

static void csr_end(const Csr *s)
{
    kernel_release(3, (Tensor *[]){s->data, s->indices, s->indptr});
}

/* out[row * step] += sum over the row's elements of element times x[column], for all rows. Integers wrap. */
#define PRODUCT(NAME, T)                                                          \
    static void product_##NAME(const Csr *s, const T *x, T *out, int64_t step)    \
    {                                                                             \
        const T *data = (const T *)(const void *)s->data->data;                   \
        for (int64_t r = 0; r < s->rows && !limit_hit_at(s->limits, r); r++)      \
            for (int64_t k = longs(s->indptr)[r];                                 \
                 k < longs(s->indptr)[r + 1] && !limit_hit_at(s->limits, k); k++) \
                for (int64_t i = 0; i < s->height; i++)                           \
                    for (int64_t j = 0; j < s->width; j++)                        \
                        out[(r * s->height + i) * step] +=                        \
                            data[(k * s->height + i) * s->width + j] *            \
                            x[longs(s->indices)[k] * s->width + j];               \
    }
PRODUCT(reals, double)
PRODUCT(wholes, uint64_t)
#undef PRODUCT

/* The matrix times the row `from` of x, to every `step`th element of out. */
static void csr_times(const Csr *s, const Tensor *x, int64_t from, Tensor *out, int64_t to,
                      int64_t step)
{
    if (dtype_is_float(x->dtype))
        product_reals(s, reals(x) + from, reals(out) + to, step);
    else
        product_wholes(s, (const uint64_t *)longs(x) + from, (uint64_t *)longs(out) + to, step);
}

static bool csr_types(Rel *r, uint32_t i, const Type **data, const Type **indptr)
{
    const Type *d = rel_tensor(r, i), *index = d ? rel_tensor(r, i + 1) : NULL;
    const Type *ptr = index ? rel_tensor(r, i + 2) : NULL;
    if (!ptr)
        return false;
    *data = d;
    *indptr = ptr;
    r->failed = !rel_is_int(r, i + 1, index) || !rel_is_int(r, i + 2, ptr) ||
                !rel_rank(r, i + 1, index, 1) || !rel_rank(r, i + 2, ptr, 1) ||
                (d->n != 3 && !rel_rank(r, i, d, 1));
    return !r->failed;
}

static Dim csr_rows(const Type *data, const Type *indptr)
{
    Dim rows = indptr->dims[0] < 0 ? DIM_ANY : indptr->dims[0] - 1;
    return dims_product(2, (Dim[]){rows, data->n == 3 ? data->dims[1] : 1});
}

/* ---- nn.sparse_dense ------------------------------------------------------------------------------ */

static RelResult rel_sparse_dense(Rel *r)
{
    const Type *data, *indptr,
        *x = type_find(r->in[0])->kind == TYPE_HOLE ? NULL : rel_tensor(r, 0);
    if (!x || !csr_types(r, 1, &data, &indptr))
        return rel_blocked(r);
    if (!rel_rank(r, 0, x, 2) || !rel_dtypes_agree(r, 0, x, 1, data))
        return REL_FAILED;
    Dim rows = csr_rows(data, indptr);
    Dim dims[2] = {x->dims[0], rows};
    if (attrs_bool(r->attrs, "sparse_lhs")) {
        dims[0] = rows;
        dims[1] = x->dims[0];
    }
    return rel_out_tensor(r, x->dtype, 2, dims);
}

static bool kernel_sparse_dense(OpCall *c)
{
    DType wide = wide_of(c->type->dtype);
    Tensor *x = kernel_arg_as(c, 0, wide), *out = NULL;
    Csr s = {0};
    bool lhs = attrs_bool(c->attrs, "sparse_lhs");
    bool good = x && csr_begin(c, 1, wide, x->shape[1], &s) &&
                (out = tensor_new(&c->cx->limits, wide, 2, c->type->dims));
    for (int64_t m = 0; good && m < x->shape[0]; m++) {
        int64_t row = lhs ? m : m * out->shape[1];
        csr_times(&s, x, m * x->shape[1], out, row, lhs ? out->shape[1] : 1);
        good = !limit_hit(&c->cx->limits);
    }
    csr_end(&s);
    tensor_release(x);
    if (good)
        return kernel_set(c, kernel_cast(c, out, c->type->dtype));
    tensor_release(out);
    return false;
}

/* ---- nn.sparse_conv2d ----------------------------------------------------------------------------- */

static RelResult rel_sparse_conv2d(Rel *r)
{
    const Type *data, *indptr, *x = rel_tensor(r, 0);
    int at[4];
    int64_t k[2];
    if (!x || !csr_types(r, 1, &data, &indptr))
        return rel_blocked(r);
    if (!rel_rank(r, 0, x, 4) || !rel_layout(r, "layout", "NCHW", at) ||
        !rel_ints(r, "kernel_size", 2, k) || !rel_dtypes_agree(r, 0, x, 1, data))
        return REL_FAILED;
    Dim dims[4];
    memcpy(dims, x->dims, sizeof dims);
    dims[at[1]] = csr_rows(data, indptr);
    return rel_out_tensor(r, x->dtype, 4, dims);
}

typedef struct Patch {
    int64_t step[4], shape[4], kernel[2]; /* of the data: N C H W */
} Patch;

/* What lies under the kernel at (y, x) of image n, in the order kernel row, kernel column, channel; 0 outside. */
static void read_patch(const Patch *p, const Tensor *x, int64_t n, int64_t y, int64_t col,
                       Tensor *row)
{
    size_t at = 0;
    memset(row->data, 0, (size_t)row->size * 8);
    for (int64_t i = 0; i < p->kernel[0]; i++)
        for (int64_t j = 0; j < p->kernel[1]; j++) {
            int64_t v = y + i - p->kernel[0] / 2, h = col + j - p->kernel[1] / 2;
            bool inside = v >= 0 && v < p->shape[2] && h >= 0 && h < p->shape[3];
            for (int64_t c = 0; c < p->shape[1]; c++, at++)
                if (inside)
                    memcpy(row->data + at * 8,
                           x->data + 8 * (size_t)(n * p->step[0] + c * p->step[1] + v * p->step[2] +
                                                  h * p->step[3]),
                           8);
        }
}

static bool sparse_conv_run(OpCall *c, const Csr *s, const Patch *p, const int64_t *step,
                            const Tensor *x, Tensor *row, Tensor *out)
{
    for (int64_t n = 0; n < p->shape[0]; n++)
        for (int64_t i = 0; i < p->shape[2]; i++) {
            for (int64_t j = 0; j < p->shape[3] && !limit_hit(&c->cx->limits); j++) {
                read_patch(p, x, n, i, j, row);
                csr_times(s, row, 0, out, n * step[0] + i * step[2] + j * step[3], step[1]);
            }
            if (limit_hit(&c->cx->limits))
                return false;
        }
    return true;
}

static bool kernel_sparse_conv2d(OpCall *c)
{
    DType wide = wide_of(c->type->dtype);
    Tensor *x = kernel_arg_as(c, 0, wide), *row = NULL, *out = NULL;
    Csr s = {0};
    Patch p;
    int at[4];
    int64_t in[4], to[4], step[4], all = 0;
    layout_positions(attrs_string(c->attrs, "layout"), "NCHW", at);
    ops_ints(c->attrs, "kernel_size", 2, p.kernel);
    shape_strides(4, c->type->dims, to);
    if (x)
        shape_strides(4, x->shape, in);
    for (int i = 0; x && i < 4; i++) {
        p.shape[i] = x->shape[at[i]];
        p.step[i] = in[at[i]];
        step[i] = to[at[i]];
        all = p.kernel[0] * p.kernel[1] * p.shape[1];
    }
    bool good = x && csr_begin(c, 1, wide, all, &s) &&
                (row = tensor_new(&c->cx->limits, wide, 1, &all)) &&
                (out = tensor_new(&c->cx->limits, wide, 4, c->type->dims)) &&
                sparse_conv_run(c, &s, &p, step, x, row, out);
    csr_end(&s);
    kernel_release(2, (Tensor *[]){x, row});
    if (good)
        return kernel_set(c, kernel_cast(c, out, c->type->dtype));
    tensor_release(out);
    return false;
}

/* ---- nn.sparse_add, nn.sparse_transpose ----------------------------------------------------------- */

static RelResult rel_sparse_add(Rel *r)
{
    const Type *data, *indptr, *x = rel_tensor(r, 0);
    if (!x || !csr_types(r, 1, &data, &indptr))
        return rel_blocked(r);
    if (!rel_rank(r, 0, x, 2) || !rel_rank(r, 1, data, 1) || !rel_dtypes_agree(r, 0, x, 1, data))
        return REL_FAILED;
    if (dim_agrees(x->dims[0], csr_rows(data, indptr)))
        return rel_set_output(r, x);
    rel_error(r, E0202_SHAPE, 3, "the sparse matrix has %lld rows, `dense_data` is %s",
              (long long)csr_rows(data, indptr), type_str(r->cx, x));
    return REL_FAILED;
}

static bool kernel_sparse_add(OpCall *c)
{
    DType wide = wide_of(c->type->dtype);
    Tensor *x = kernel_arg_as(c, 0, wide), *out = NULL;
    Csr s = {0};
    bool good = x && csr_begin(c, 1, wide, x->shape[1], &s) &&
                (out = tensor_new(&c->cx->limits, wide, 2, x->shape));
    good = good && kernel_cast_all(c, out, x);
    for (int64_t r = 0; good && r < s.rows && !limit_hit_at(&c->cx->limits, r); r++)
        for (int64_t k = longs(s.indptr)[r]; k < longs(s.indptr)[r + 1]; k++) {
            if (limit_hit_at(&c->cx->limits, k))
                break;
            int64_t at = r * x->shape[1] + longs(s.indices)[k];
            if (dtype_is_float(wide))
                reals(out)[at] += reals(s.data)[k];
            else
                longs(out)[at] = (int64_t)((uint64_t)longs(out)[at] + (uint64_t)longs(s.data)[k]);
        }
    csr_end(&s);
    tensor_release(x);
    if (good)
        return kernel_set(c, kernel_cast(c, out, c->type->dtype));
    tensor_release(out);
    return false;
}

static RelResult rel_sparse_transpose(Rel *r)
{
    const Type *data, *indptr;
    if (!csr_types(r, 0, &data, &indptr))
        return rel_blocked(r);
    if (!rel_rank(r, 0, data, 1))
        return REL_FAILED;
    return rel_set_output(
        r, type_tuple(r->cx, 3, (const Type *[]){data, type_find(r->in[1]), type_find(r->in[2])}));
}

/* A square matrix: counts the elements of each column, then puts each where its column has room. */
static void transpose_run(const Csr *s, size_t size, const char *from, char *data, int64_t *indices,
                          int64_t *indptr)
{
    for (int64_t k = 0; k < s->blocks && !limit_hit_at(s->limits, k); k++)
        indptr[longs(s->indices)[k] + 1]++;
    for (int64_t r = 0; r < s->rows && !limit_hit_at(s->limits, r); r++)
        indptr[r + 1] += indptr[r];
    for (int64_t r = 0; r < s->rows && !limit_hit_at(s->limits, r); r++)
        for (int64_t k = longs(s->indptr)[r]; k < longs(s->indptr)[r + 1]; k++) {
            if (limit_hit_at(s->limits, k))
                break;
            int64_t to = indptr[longs(s->indices)[k]]++;
            memcpy(data + (size_t)to * size, from + (size_t)k * size, size);
            indices[to] = r;
        }
    for (int64_t r = s->rows; r > 0; r--)
        indptr[r] = indptr[r - 1];
    indptr[0] = 0;
}

static bool kernel_sparse_transpose(OpCall *c)
{
    Tensor *x = kernel_arg(c, 0), *out[3] = {NULL};
    Csr s = {0};
    bool sound = x && csr_begin(c, 0, x->dtype, INT64_MAX, &s), square = sound;
    for (int64_t k = 0; square && k < s.blocks && !limit_hit_at(&c->cx->limits, k); k++)
        square = longs(s.indices)[k] < s.rows;
    if (sound && !square)
        diag_error(c->cx->diags, E0304_INDEX, c->span, "`%s` takes a square matrix", c->op->name);
    if (square && (out[0] = kernel_out(c, 0)) &&
        (out[1] = tensor_new(&c->cx->limits, int64_dtype, 1, &s.blocks)) &&
        (out[2] = tensor_new(&c->cx->limits, int64_dtype, 1, s.indptr->shape)))
        transpose_run(&s, dtype_size(x->dtype), x->data, out[0]->data, longs(out[1]),
                      longs(out[2]));
    csr_end(&s);
    tensor_release(x);
    for (uint32_t i = 1; i < 3; i++)
        out[i] = kernel_cast(c, out[i], c->type->parts[i]->dtype);
    return kernel_set_tuple(c, 3, out);
}

/* ---- coordinates ---------------------------------------------------------------------------------- */

static RelResult rel_sparse_reshape(Rel *r)
{
    const Type *index = rel_tensor(r, 0), *from = index ? rel_tensor(r, 1) : NULL;
    const Type *to = from ? rel_tensor(r, 2) : NULL;
    if (!to)
        return rel_blocked(r);
    if (!rel_is_int(r, 0, index) || !rel_is_int(r, 1, from) || !rel_is_int(r, 2, to) ||
        !rel_rank(r, 0, index, 2) || !rel_rank(r, 1, from, 1) || !rel_rank(r, 2, to, 1))
        return REL_FAILED;
    Dim dims[2] = {index->dims[0], to->dims[0]};
    return rel_set_output(
        r, type_tuple(r->cx, 2, (const Type *[]){type_tensor(r->cx, index->dtype, 2, dims), to}));
}

/* The new extents, of which one may be -1: what remains. False when they are none for as many elements, or one of these counts has no
 * number. */
static bool resolve(const Tensor *from, Tensor *to)
{
    int64_t all = 1, rest = 1, open = -1;
    for (int64_t i = 0; i < from->size; i++)
        if (longs(from)[i] < 0 || !int64_mul(all, longs(from)[i], &all))
            return false;
    for (int64_t i = 0; i < to->size; i++) {
        if (longs(to)[i] == -1 && open < 0)
            open = i;
        else if (longs(to)[i] < 0 || !int64_mul(rest, longs(to)[i], &rest))
            return false;
    }
    if (open >= 0)
        longs(to)[open] = rest ? all / rest : 0;
    return open >= 0 && rest ? all % rest == 0 : all == rest;
}

static bool kernel_sparse_reshape(OpCall *c)
{
    Tensor *index = kernel_arg_as(c, 0, int64_dtype), *from = kernel_arg_as(c, 1, int64_dtype);
    Tensor *given = kernel_arg_as(c, 2, int64_dtype), *out[2] = {NULL};
    if (index && from && given && index->shape[1] == from->size) {
        out[0] =
            tensor_new(&c->cx->limits, int64_dtype, 2, (int64_t[]){index->shape[0], given->size});
        out[1] = tensor_new(&c->cx->limits, int64_dtype, 1, given->shape);
    } else if (index && from && given) {
        diag_error(c->cx->diags, E0303_RUNTIME_SHAPE, c->span,
                   "coordinates and the shape before differ in rank");
    }
    bool good = out[0] && out[1];
    if (good) {
        memcpy(out[1]->data, given->data, (size_t)given->size * 8);
        good = resolve(from, out[1]);
        if (!good)
            diag_error(c->cx->diags, E0303_RUNTIME_SHAPE, c->span,
                       "the new shape has not as many elements as the shape before");
    }
    for (int64_t p = 0; good && p < index->shape[0]; p++) {
        if (limit_hit_at(&c->cx->limits, p))
            break;
        int64_t flat = 0;
        for (int64_t i = 0; good && i < from->size; i++) {
            int64_t at = kernel_index(c, longs(index)[p * from->size + i], longs(from)[i]);
            good = at >= 0;
            flat = flat * longs(from)[i] + at;
        }
        for (int64_t i = given->size - 1; i >= 0; i--) {
            int64_t extent = longs(out[1])[i] > 0 ? longs(out[1])[i] : 1;
            longs(out[0])[p * given->size + i] = flat % extent;
            flat /= extent;
        }
    }
    kernel_release(3, (Tensor *[]){index, from, given});
    if (!good) {
        tensor_release(out[0]);
        out[0] = NULL;
    }
    for (uint32_t i = 0; i < 2; i++)
        out[i] = kernel_cast(c, out[i], c->type->parts[i]->dtype);
    return kernel_set_tuple(c, 2, out);
}

static RelResult rel_fill_rows(Rel *r)
{
    const Type *index = rel_tensor(r, 0), *v = index ? rel_tensor(r, 1) : NULL;
    const Type *shape = v ? rel_tensor(r, 2) : NULL, *rest = shape ? rel_tensor(r, 3) : NULL;
    if (!rest)
        return rel_blocked(r);
    if (!rel_is_int(r, 0, index) || !rel_is_int(r, 2, shape) || !rel_rank(r, 0, index, 2) ||
        !rel_has_shape(r, 1, v, 1, index->dims) ||
        !rel_has_shape(r, 2, shape, 1, index->dims + 1) || !rel_is_scalar(r, 3, rest) ||
        !rel_dtypes_agree(r, 1, v, 3, rest))
        return REL_FAILED;
    if (index->dims[1] == 0 || shape->dims[0] == 0) {
        Diag *d = rel_error(r, E0202_SHAPE, 2, "`%s` needs an axis of rows", r->op->name);
        diag_help(d, "the first number of `dense_shape` says how many rows there are");
        return REL_FAILED;
    }
    Dim open[2] = {DIM_ANY, index->dims[1]};
    const Type *row = type_tensor(r->cx, int64_dtype, 1, open);
    return rel_set_output(r,
                          type_tuple(r->cx, 3,
                                     (const Type *[]){type_tensor(r->cx, int64_dtype, 2, open),
                                                      type_tensor(r->cx, v->dtype, 1, open), row}));
}

/* Entries row by row; a row without any gets one in its first column. */
static void fill_rows(Limits *limits, const Tensor *index, const Tensor *v, const Tensor *rest,
                      int64_t rows, Tensor *const out[3])
{
    int64_t k = index->shape[1], to = 0;
    size_t size = dtype_size(v->dtype);
    for (int64_t row = 0; row < rows && !limit_hit_at(limits, row); row++) {
        int64_t first = to;
        for (int64_t p = 0; p < v->size && !limit_hit_at(limits, p); p++) {
            if (longs(index)[p * k] != row)
                continue;
            memcpy(longs(out[0]) + to * k, longs(index) + p * k, (size_t)k * 8);
            memcpy(out[1]->data + (size_t)to++ * size, v->data + (size_t)p * size, size);
        }
        longs(out[2])[row] = to == first;
        if (to > first)
            continue;
        longs(out[0])[to * k] = row;
        memcpy(out[1]->data + (size_t)to++ * size, rest->data, size);
    }
}

/* How many entries there will be; -1 when one lies in no row. */
static int64_t filled_entries(Limits *limits, const Tensor *index, int64_t n, int64_t rows,
                              uint8_t *seen)
{
    int64_t more = rows;
    for (int64_t p = 0; p < n && !limit_hit_at(limits, p); p++) {
        int64_t row = longs(index)[p * index->shape[1]];
        if (row < 0 || row >= rows)
            return -1;
        more -= !seen[row];
        seen[row] = 1;
    }
    return n + more;
}

static bool kernel_fill_rows(OpCall *c)
{
    Tensor *in[4] = {kernel_arg_as(c, 0, int64_dtype), kernel_arg(c, 1),
                     kernel_arg_as(c, 2, int64_dtype), kernel_arg(c, 3)};
    Tensor *seen = NULL, *out[3] = {NULL};
    bool good = in[0] && in[1] && in[2] && in[3];
    int64_t rows = good ? longs(in[2])[0] : 0, n = -1;
    if (rows < 0)
        diag_error(c->cx->diags, E0303_RUNTIME_SHAPE, c->span, "`dense_shape` has %lld rows",
                   (long long)rows);
    else if (good && (seen = tensor_new(&c->cx->limits, (DType){DTYPE_CODE_UINT, 8, 1}, 1, &rows)))
        n = filled_entries(&c->cx->limits, in[0], in[1]->size, rows, (uint8_t *)seen->data);
    if (seen && n < 0)
        diag_error(c->cx->diags, E0304_INDEX, c->span, "an entry lies outside the %lld rows",
                   (long long)rows);
    if (n >= 0 &&
        (out[0] = tensor_new(&c->cx->limits, int64_dtype, 2, (int64_t[]){n, in[0]->shape[1]})) &&
        (out[1] = tensor_new(&c->cx->limits, in[1]->dtype, 1, &n)) &&
        (out[2] = tensor_new(&c->cx->limits, int64_dtype, 1, &rows)))
        fill_rows(&c->cx->limits, in[0], in[1], in[3], rows, out);
    kernel_release(4, in);
    tensor_release(seen);
    return kernel_set_tuple(c, 3, out);
}

/* ---- rows ----------------------------------------------------------------------------------------- */

#define CSR                                                 \
    {"sparse_data", "the elements, or blocks"},             \
        {"sparse_indices", "the column of each: integers"}, \
        {"sparse_indptr", "where each row begins, and the end: integers"}
static const OpArg dense_args[] = {{"dense_data", "a matrix"}, CSR, {0}};
static const OpArg conv_args[] = {{"dense_data", "images"}, CSR, {0}};
static const OpArg csr_args[] = {CSR, {0}};
static const OpArg reshape_args[] = {{"sparse_indices", "coordinates: integers"},
                                     {"prev_shape", "the extents before"},
                                     {"new_shape", "the new extents; -1: what remains"},
                                     {0}};
static const OpArg fill_args[] = {{"sparse_indices", "coordinates: integers"},
                                  {"sparse_values", "the elements there"},
                                  {"dense_shape", "the extents"},
                                  {"default_value", "the element of rows without any: a scalar"},
                                  {0}};
static const OpAttr dense_sparse_attrs[] = {
    ATTR_B("sparse_lhs", 0, "the sparse matrix is the left one"), {0}};
static const OpAttr conv_attrs[] = {ATTR_S("layout", "NHWC", "the order of the axes"),
                                    {.name = "kernel_size",
                                     .type = ATTR_TYPE_INTS,
                                     .otherwise = {.kind = ATTR_LIST, .list = {ops_ones, 2}},
                                     .doc = "extents of the kernel, which lies in the middle"},
                                    {0}};

/* clang-format off */
/* Where the elements of a sparse matrix of N rows lie, in the order of `sparse_data`, blocks taken apart: %row is the row of each and one
 * more, since what no row has lies before the first or behind the last. */
#define EXTENT(X, AXIS) "take(shape_of(" X ", dtype=\"int64\"), " AXIS ", axis=0)"
#define COUNT(X) "maximum(ndarray_size(" X ", dtype=\"int64\"), 1i64)"
#define PLACES(N)                                                                                                                       \
    "let %number = cumsum(reshape(ones_like(%sparse_data), newshape=[-1]), axis=0, dtype=\"int64\", exclusive=True); "                  \
    "let %size = maximum(divide(" COUNT("%sparse_data") ", " COUNT("%sparse_indices") "), 1i64); "                                      \
    "let %block = divide(%number, %size); "                                                                                             \
    "let %inside = mod(%number, %size); "                                                                                               \
    "let %height = maximum(divide(" N ", maximum(subtract(" COUNT("%sparse_indptr") ", 1i64), 1i64)), 1i64); "                          \
    "let %width = maximum(divide(%size, %height), 1i64); "                                                                              \
    "let %behind = searchsorted(cast(%sparse_indptr, dtype=\"int64\"), %block, right=True, dtype=\"int64\"); "                          \
    "let %row = add(multiply(subtract(%behind, 1i64), %height), add(divide(%inside, %width), 1i64)); "                                  \
    "let %first = multiply(take(cast(%sparse_indices, dtype=\"int64\"), %block, axis=0), %width); "                                     \
    "let %column = add(%first, mod(%inside, %width)); "

/* Of a product with the transpose: what of the gradient comes to each element, times what the element was multiplied by. */
#define TURNED(X) "transpose(" X ", axes=[1, 0])"
#define PRODUCT_GRAD                                                                                                                    \
    "let %slope = if (%sparse_lhs) { " TURNED("%g") " } else { %g }; "                                                                            \
    PLACES(EXTENT("%slope", "1"))                                                                                                       \
    "let %reached = take(nn.pad(%slope, cast_like(0f, %dense_data), pad_width=[[0, 0], [1, 1]]), %row, axis=1); "                               \
    "let %more = multiply(%reached, reshape(%sparse_data, newshape=[-1])); "                                                            \
    "(" TURNED("scatter_nd(" TURNED("zeros_like(%dense_data)") ", expand_dims(%column, axis=0), " TURNED("%more") ", mode=\"add\")")    \
    ", reshape_like(sum(multiply(%reached, take(%dense_data, %column, axis=1)), axis=[0]), %sparse_data), "                             \
    "zeros_like(%sparse_indices), zeros_like(%sparse_indptr))"
/* Of a convolution: %reached is the gradient at each pixel (of all images, by rows) of the channel that an element makes, %seen the place in
 * the data of what it is multiplied by there, which lies beyond the border where not %within. */
#define CONV_GRAD                                                                                                                       \
    "let %data = layout_transform(%dense_data, src_layout=%layout, dst_layout=\"NHWC\"); "                                               \
    "let %slope = " TURNED("nn.batch_flatten(layout_transform(%g, src_layout=%layout, dst_layout=\"CNHW\"))") "; "                       \
    PLACES(EXTENT("%slope", "1"))                                                                                                       \
    "let %kernel = shape_of(ones(shape=%kernel_size, dtype=\"int8\"), dtype=\"int64\"); "                                                \
    "let %high = take(%kernel, 0, axis=0); "                                                                                            \
    "let %wide = take(%kernel, 1, axis=0); "                                                                                            \
    "let %shape = shape_of(%data, dtype=\"int64\"); "                                                                                   \
    "let %rows = take(%shape, 1, axis=0); "                                                                                            \
    "let %columns = take(%shape, 2, axis=0); "                                                                                         \
    "let %channels = take(%shape, 3, axis=0); "                                                                                        \
    "let %down = subtract(divide(%column, multiply(%wide, %channels)), divide(%high, 2i64)); "                                          \
    "let %right = subtract(mod(divide(%column, %channels), %wide), divide(%wide, 2i64)); "                                              \
    "let %ones = reshape(take(ones_like(%data), 0, axis=3), newshape=[-1, 1]); "                                                        \
    "let %pixel = cumsum(%ones, axis=0, dtype=\"int64\", exclusive=True); "                                                             \
    "let %y = add(mod(divide(%pixel, %columns), %rows), %down); "                                                                       \
    "let %x = add(mod(%pixel, %columns), %right); "                                                                                     \
    "let %within = logical_and(logical_and(greater_equal(%y, 0i64), less(%y, %rows)), "                                                 \
    "logical_and(greater_equal(%x, 0i64), less(%x, %columns))); "                                                                       \
    "let %at = add(multiply(add(%pixel, add(multiply(%down, %columns), %right)), %channels), mod(%column, %channels)); "                \
    "let %seen = where(%within, %at, 0i64); "                                                                                           \
    "let %reached = take(nn.pad(%slope, cast_like(0f, %dense_data), pad_width=[[0, 0], [1, 1]]), %row, axis=1); "                               \
    "let %counts = multiply(%reached, cast_like(%within, %dense_data)); "                                                               \
    "let %flat = reshape(%data, newshape=[-1]); "                                                                                       \
    "let %more = reshape(multiply(%counts, reshape(%sparse_data, newshape=[-1])), newshape=[-1]); "                                     \
    "let %back = scatter_elements(zeros_like(%flat), reshape(%seen, newshape=[-1]), %more, axis=0, reduction=\"add\"); "                \
    "(layout_transform(reshape_like(%back, %data), src_layout=\"NHWC\", dst_layout=%layout), "                                           \
    "reshape_like(sum(multiply(%counts, take(%flat, %seen, axis=0)), axis=[0]), %sparse_data), "                                        \
    "zeros_like(%sparse_indices), zeros_like(%sparse_indptr))"
#define SUM_GRAD                                                                                                                        \
    PLACES(EXTENT("%g", "0"))                                                                                                           \
    "let %wide = reshape(nn.pad(%g, cast_like(0f, %dense_data), pad_width=[[1, 1], [0, 0]]), newshape=[-1]); "                                  \
    "(%g, take(%wide, add(multiply(%row, " EXTENT("%g", "1") "), %column), axis=0), "                                                   \
    "zeros_like(%sparse_indices), zeros_like(%sparse_indptr))"

/* What takes elements from one place to another takes their numbers too; TO has what each got, and behind 0 what none of them has. */
#define NUMBERED(X) "cumsum(ones_like(" X "), axis=0, dtype=\"int64\")"
#define TO(NONE, X, AT, G)                                                                                                              \
    "let %got = scatter_elements(zeros_like(concatenate((reshape(" NONE ", newshape=[-1]), " X "), axis=0)), " AT ", " G                \
    ", axis=0, reduction=\"add\"); "
#define PIECE(X, BEGIN, END) "strided_slice(" X ", begin=[" BEGIN "], end=[" END "], strides=[1], axes=None)"
#define TRANSPOSE_GRAD                                                                                                                  \
    TO("cast_like(0f, %sparse_data)", "%sparse_data",                                                                                           \
       "nn.sparse_transpose(" NUMBERED("%sparse_data") ", %sparse_indices, %sparse_indptr).0", "%g.0")                                  \
    "(" PIECE("%got", "1", "2147483647") ", zeros_like(%sparse_indices), zeros_like(%sparse_indptr))"
#define FILLED_GRAD                                                                                                                     \
    TO("%default_value", "%sparse_values",                                                                                              \
       "sparse_fill_empty_rows(%sparse_indices, " NUMBERED("%sparse_values") ", %dense_shape, 0i64).1", "%g.1")                         \
    "(zeros_like(%sparse_indices), " PIECE("%got", "1", "2147483647") ", zeros_like(%dense_shape), "                                    \
    "reshape_like(" PIECE("%got", "0", "1") ", %default_value))"
/* clang-format on */

#define ROW(NAME, ID, ARGS, ATTRS, PATTERN, SHAPES, SAMPLES, ...)                        \
    OP_ROW(NAME, ARGS, ATTRS, PATTERN, rel_##ID, SAMPLES, __VA_ARGS__, .shapes = SHAPES, \
           .kernel = kernel_##ID)
#define DENSE(NAME, DOC)                                                                  \
    OP_ROW(NAME, dense_args, dense_sparse_attrs, OP_OUT_FUSABLE, rel_sparse_dense,        \
           "(float32[2,3], float32[2], int32[2], int32[5]) "                              \
           "(float32[2,4], float32[2,3,2], int32[2], int32[3]) "                          \
           "(float32[2,3], float32[2], int32[2], int32[5], sparse_lhs=True)",             \
           DOC, .kernel = kernel_sparse_dense, .grad = PRODUCT_GRAD,                      \
           .shapes = "(M, K), (e), (e), (N + 1) -> (M, N); blocks (e, h, w): (M, N*h)",   \
           .example = "let %dense_data = cast(reshape(arange(1, 7, 1, dtype=\"int32\"), " \
                      "newshape=[2, 3]), dtype=\"float32\");\n"                           \
                      "let %sparse_data = stack((10f, 20f), axis=0);\n"                   \
                      "let %sparse_indices = stack((0, 2), axis=0);\n"                    \
                      "let %sparse_indptr = stack((0, 1, 1, 2, 2), axis=0);\n" NAME       \
                      "(%dense_data, %sparse_data, %sparse_indices, %sparse_indptr)")

const Op sparse_ops[] = {
    DENSE("nn.sparse_dense", "`nn.dense` with a sparse weight."),
    DENSE("nn.internal.sparse_dense_padded",
          "`nn.sparse_dense` with rows that were padded to one length."),
    ROW("nn.sparse_conv2d", sparse_conv2d, conv_args, conv_attrs, OP_OUT_FUSABLE,
        "(N, H, W, C), (e), (e), (O + 1) -> (N, H, W, O)",
        "(float32[1,2,2,3], float32[2], int32[2], int32[5])",
        "A convolution whose weight, a matrix of channels by kernel places and channels, is "
        "sparse.",
        .grad = CONV_GRAD),
    ROW("nn.sparse_add", sparse_add, dense_args, NULL, OP_OPAQUE,
        "(M, N), (e), (e), (M + 1) -> (M, N)", "(float32[2,3], float32[2], int32[2], int32[3])",
        "The sum of a matrix and a sparse one.", .grad = SUM_GRAD),
    ROW("nn.sparse_transpose", sparse_transpose, csr_args, NULL, OP_OUT_FUSABLE,
        "(e), (e), (N + 1) -> ((e), (e), (N + 1))", "(float32[2], int32[2], int32[4])",
        "The transpose of a square sparse matrix.", .grad = TRANSPOSE_GRAD),
    ROW("sparse_reshape", sparse_reshape, reshape_args, NULL, OP_INJECTIVE,
        "(n, k), (k), (m) -> ((n, m), (m))", "(int64[2,2], int64[2], int64[1])",
        "Coordinates of the same elements in another shape, and that shape.",
        .example = "let %sparse_indices = reshape(stack((0, 2, 1, 0), axis=0), newshape=[2, 2]);\n"
                   "let %prev_shape = stack((2, 3), axis=0);\n"
                   "let %new_shape = stack((3, -1), axis=0);\n"
                   "sparse_reshape(%sparse_indices, %prev_shape, %new_shape)"),
    {.name = "sparse_fill_empty_rows",
     .doc =
         "Coordinates and elements with one for each row that had none, and which rows these are.",
     .args = fill_args,
     .shapes = "(n, k), (n), (k), () -> ((?, k), (?), (?))",
     .samples = "(int64[1,2], float32[1], int64[2], float32)",
     .pattern = OP_OPAQUE,
     .flags = OP_SHAPE_FROM_DATA,
     .rel = rel_fill_rows,
     .kernel = kernel_fill_rows,
     .grad = FILLED_GRAD},
    {0},
};
