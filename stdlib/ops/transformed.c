/* Convolutions whose weight was transformed before: Winograd's, and those that are a product of matrices. */
#include "stdlib/ops/conv.h"

#include <string.h>

/* ---- Winograd's matrices --------------------------------------------------------------------------
 *
 * `size` results of a kernel of r elements come from alpha = size + r - 1 products: A^T ((G g) (B^T d)).
 * That is the evaluation of polynomials at alpha - 1 points and at infinity, and interpolation, transposed
 * in the data: G evaluates the kernel, each point's row divided by the product of its distances from the
 * others; B has the coefficients of the products of all (x - p) but the point's own; A evaluates the
 * result's powers. */

enum { ALPHA_MOST = 12 };

static const double points[] = {0, -1, 1, 0.5, -2, -0.5, 2, -0.25, 4, 0.25, -4};

typedef enum Part { PART_KERNEL, PART_DATA, PART_RESULT } Part;

typedef double Matrix[ALPHA_MOST][ALPHA_MOST];

/* The coefficients, from the constant up, of the product of all (x - p) but number `without`. */
static void product_of_roots(int n, int without, double *out)
{
    int degree = 0;
    memset(out, 0, ALPHA_MOST * sizeof *out);
    out[0] = 1;
    for (int i = 0; i < n; i++) {
        if (i == without)
            continue;
        degree++;
        for (int k = degree; k >= 0; k--)
            out[k] = (k > 0 ? out[k - 1] : 0) - points[i] * out[k];
    }
}

static void fill(Part part, int size, int r, Matrix m)
{
    int n = size + r - 2;
    for (int i = 0; i < n; i++) {
        double distances = 1;
        for (int k = 0; k < n; k++)
            distances *= k == i ? 1 : points[i] - points[k];
        double power = 1;
        for (int k = 0; k < (part == PART_KERNEL ? r : size); k++, power *= points[i])
            if (part == PART_KERNEL)
                m[i][k] = power / distances;
            else if (part == PART_RESULT)
                m[k][i] = power;
        if (part == PART_DATA)
            product_of_roots(n, i, m[i]);
    }
    if (part == PART_KERNEL)
        m[n][r - 1] = 1;
    else if (part == PART_RESULT)
        m[size - 1][n] = 1;
    else
        product_of_roots(n, n, m[n]);
}

/* The matrix as a stage: one constant for each place. */
static TeTensor matrix(TeBuilder *b, DType d, Part part, int size, int r)
{
    int64_t alpha = size + r - 1,
            shape[2] = {part == PART_RESULT ? size : alpha, part == PART_KERNEL ? r : alpha};
    Matrix m = {{0}};
    fill(part, size, r, m);
    Te *body = te_number(b, d, 0), *at[2] = {te_axis(b, 0), te_axis(b, 1)};
    for (int i = 0; i < shape[0]; i++)
        for (int k = 0; k < shape[1]; k++) {
            Te *here = te_binary(b, TE_AND, te_binary(b, TE_EQ, at[0], te_int(b, i)),
                                 te_binary(b, TE_EQ, at[1], te_int(b, k)));
            if (m[i][k] != 0)
                body = te_select(b, here, te_number(b, d, m[i][k]), body);
        }
    return te_map(b, d, 2, shape, body);
}

/* The matrix times the tensor along one axis. */
static TeTensor along(TeBuilder *b, TeTensor m, TeTensor x, int axis)
{
    int64_t shape[TENSOR_RANK_MOST];
    memcpy(shape, x.shape, sizeof *shape * (size_t)x.rank);
    shape[axis] = m.shape[0];
    Te *xi[TENSOR_RANK_MOST], *mi[2] = {te_axis(b, axis), te_axis(b, x.rank)};
    ops_axes(b, 0, x.rank, xi);
    xi[axis] = mi[1];
    Te *body = te_binary(b, TE_MUL, te_load(b, m, mi), te_load(b, x, xi));
    return te_reduce(b, TE_SUM, x.dtype, x.rank, shape, 1, &x.shape[axis], body);
}

/* ---- how the axes are transformed -------------------------------------------------------------------
 *
 * Each spatial axis has its number of results in a tile. In three dimensions a kernel that is flat, or
 * deep, is left alone along the depth: one result a tile, from as many products as the kernel has elements. */

typedef struct Tiles {
    int n, first; /* spatial axes; the first that is transformed */
    int64_t size[SPATIAL_MOST], alpha[SPATIAL_MOST], kernel[SPATIAL_MOST];
} Tiles;

static bool tiles_of(int64_t tile, int n, const int64_t *kernel, Tiles *t)
{
    *t = (Tiles){.n = n, .first = n == 3 && (kernel[0] <= 2 || kernel[0] >= 8)};
    for (int i = 0; i < n; i++) {
        t->kernel[i] = kernel[i];
        t->size[i] = i < t->first ? 1 : tile;
        if (tile < 1 || tile > ALPHA_MOST || kernel[i] < 1 || kernel[i] > OPS_MOST)
            return false;
        t->alpha[i] = t->size[i] + kernel[i] - 1;
        if (i >= t->first && t->alpha[i] > ALPHA_MOST)
            return false;
    }
    return true;
}

/* The transformed weight: places in the tile, the depth where it is left alone, then channels. */
static void weight_dims(const Tiles *t, Dim out, Dim in, Dim *dims)
{
    for (int i = 0; i < t->n; i++)
        dims[i] = t->alpha[(i + t->first) % t->n];
    dims[t->n] = out;
    dims[t->n + 1] = in;
}

static bool rel_reals(Rel *r, const Type *t)
{
    if (dtype_is_float(t->dtype))
        return true;
    rel_error(r, E0203_DTYPE, 0, "`%s` takes reals, found `%s`", r->op->name, type_str(r->cx, t));
    return false;
}

static RelResult tile_error(Rel *r, int64_t tile)
{
    rel_error(
        r, E0216_OPERATOR_ARGUMENT, 0,
        "tiles of %lld results and this kernel need more than %d products, or have no elements",
        (long long)tile, ALPHA_MOST);
    return REL_FAILED;
}

/* ---- transforming the weight ------------------------------------------------------------------------- */

static RelResult weight_rel(Rel *r, int n, int64_t tile, Tiles *t, const Type **w)
{
    *w = rel_tensor(r, 0);
    if (!*w)
        return rel_blocked(r);
    if (!rel_rank(r, 0, *w, (uint32_t)n + 2) || !rel_reals(r, *w))
        return REL_FAILED;
    int64_t kernel[SPATIAL_MOST];
    for (int i = 0; i < n; i++) /* of `?` the least */
        kernel[i] = (*w)->dims[2 + i] < 0 ? 1 : (*w)->dims[2 + i];
    return tiles_of(tile, n, kernel, t) ? REL_DONE : tile_error(r, tile);
}

#define SHAPES_rel_winograd_weight                                                                \
    "(O, I, k...) -> (k + tile_size - 1..., O, I); a flat depth stays, behind the others, where " \
    "len(k) == 3 and k[0] < 3"
static RelResult rel_winograd_weight(Rel *r)
{
    const Type *w = rel_tensor(r, 0);
    Tiles t = {0};
    RelResult result =
        weight_rel(r, w && w->n == 5 ? 3 : 2, attrs_int(r->attrs, "tile_size", 0), &t, &w);
    if (result != REL_DONE)
        return result;
    Dim dims[LETTERS_MOST];
    bool which = t.n == 2 || w->dims[2] >= 0; /* axes are transformed */
    for (int i = 0; i < t.n; i++)
        t.alpha[i] = which && w->dims[2 + i] >= 0 ? t.alpha[i] : DIM_ANY;
    weight_dims(&t, w->dims[0], w->dims[1], dims);
    return rel_out_tensor(r, w->dtype, w->n, dims);
}

/* The weight with its spatial axes transformed, still behind its channels. */
static TeTensor transformed_weight(TeBuilder *b, const Tiles *t)
{
    TeTensor w = te_input(b, 0);
    for (int i = t->first; i < t->n; i++)
        w = along(b, matrix(b, w.dtype, PART_KERNEL, (int)t->size[i], (int)t->kernel[i]), w, 2 + i);
    return w;
}

static void compute_winograd_weight(TeBuilder *b)
{
    TeTensor w = te_input(b, 0);
    Tiles t;
    tiles_of(attrs_int(b->attrs, "tile_size", 0), w.rank - 2, w.shape + 2, &t);
    w = transformed_weight(b, &t);
    Te *index[LETTERS_MOST];
    ops_axes(b, t.n, 2, index);
    for (int i = 0; i < t.n; i++)
        index[2 + (i + t.first) % t.n] = te_axis(b, i);
    ops_emit(b, te_load(b, w, index));
}

/* Tiles of six results of a kernel of three. */
static RelResult rel_nnpack_weight(Rel *r)
{
    const Type *w;
    Tiles t = {0};
    RelResult result = weight_rel(r, 2, 6, &t, &w);
    if (result != REL_DONE)
        return result;
    if (!dim_agrees(w->dims[2], 3) || !dim_agrees(w->dims[3], 3)) {
        rel_error(r, E0202_SHAPE, 0, "the kernel must have 3 x 3 elements, found `%s`",
                  type_str(r->cx, w));
        return REL_FAILED;
    }
    return rel_out_tensor(r, ops_dtype(r->attrs, "out_dtype", w->dtype), 4,
                          (Dim[]){w->dims[0], w->dims[1], 6 + 3 - 1, 6 + 3 - 1});
}

static void compute_nnpack_weight(TeBuilder *b)
{
    Tiles t;
    tiles_of(6, 2, te_input(b, 0).shape + 2, &t);
    ops_emit(b, te_cast(b, te_out_dtype(b, 0), ops_at_axes(b, transformed_weight(b, &t))));
}

/* ---- Winograd's convolution ---------------------------------------------------------------------------- */

/* The extents of the kernel and the channels, which must be told, as the weight no longer shows them. */
static bool told_kernel(Rel *r, int n, int64_t *kernel, Dim *channels)
{
    *channels = attrs_int(r->attrs, "channels", -1);
    if (*channels >= 0 && attrs_find(r->attrs, "kernel_size")->kind != ATTR_NONE)
        return rel_ints(r, "kernel_size", n, kernel);
    Diag *d = rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`%s` needs `channels` and `kernel_size`",
                        r->op->name);
    diag_help(d, "the transformed weight does not show them");
    return false;
}

/* Data, in the plain order, and attributes; REL_DONE when all is known. */
static RelResult begin_rel(Rel *r, int n, Conv *c, const Type **x, int64_t *kernel, Dim *channels)
{
    *x = rel_tensor(r, 0);
    if (!*x)
        return rel_blocked(r);
    if (!conv_of_rel(r, n, false, c) || !(*x = conv_data(r, n, *x)) ||
        !told_kernel(r, n, kernel, channels))
        return REL_FAILED;
    if (c->groups == 1)
        return REL_DONE;
    rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`%s` has no groups", r->op->name);
    return REL_FAILED;
}

/* Unifies argument 1 with what the weight must be. */
static RelResult end_rel(Rel *r, const Conv *c, const Type *x, const int64_t *kernel, Dim channels,
                         uint32_t rank, const Dim *weight)
{
    if (!rel_set_tensor(r, 1, x->dtype, rank, weight))
        return REL_FAILED;
    return conv_result(r, c, x, kernel, channels, false);
}

#define SHAPES_rel_winograd "(N, C, d...), (a..., O, C) -> (N, O, window(d, kernel_size)...)"
static RelResult rel_winograd(Rel *r)
{
    int n = ops_spatial(r->op);
    int64_t kernel[SPATIAL_MOST], tile = attrs_int(r->attrs, "tile_size", 0);
    Dim channels = -1, dims[LETTERS_MOST];
    const Type *x;
    Conv c;
    Tiles t = {0};
    RelResult result = begin_rel(r, n, &c, &x, kernel, &channels);
    if (result != REL_DONE)
        return result;
    if (!rel_reals(r, x))
        return REL_FAILED;
    if (!tiles_of(tile, n, kernel, &t))
        return tile_error(r, tile);
    for (int i = 0; i < n; i++)
        if (c.strides[i] != 1 || c.dilation[i] != 1) {
            rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`%s` has no strides and no dilation",
                      r->op->name);
            return REL_FAILED;
        }
    weight_dims(&t, channels, x->dims[c.x[1]], dims);
    return end_rel(r, &c, x, kernel, channels, (uint32_t)n + 2, dims);
}

/* The data in overlapping tiles, transformed: N, C, tiles, places in the tile. */
static TeTensor transformed_data(TeBuilder *b, const Conv *c, const Tiles *t, TeTensor x)
{
    int64_t shape[2 + 2 * SPATIAL_MOST] = {x.shape[c->x[0]], x.shape[c->x[1]]};
    Te *xi[LETTERS_MOST];
    xi[c->x[0]] = te_axis(b, 0);
    xi[c->x[1]] = te_axis(b, 1);
    for (int i = 0; i < t->n; i++) {
        shape[2 + i] = (c->out[c->o[2 + i]] + t->size[i] - 1) / t->size[i];
        shape[2 + t->n + i] = t->alpha[i];
        xi[c->x[2 + i]] = ops_affine(b, te_axis(b, 2 + i), t->size[i], te_axis(b, 2 + t->n + i), 1,
                                     -c->before[i]);
    }
    TeTensor d =
        te_map(b, x.dtype, 2 + 2 * t->n, shape, te_load_or(b, x, xi, te_number(b, x.dtype, 0)));
    for (int i = t->first; i < t->n; i++)
        d = along(b, matrix(b, x.dtype, PART_DATA, (int)t->size[i], (int)t->kernel[i]), d,
                  2 + t->n + i);
    return d;
}

/* At each place of the tiles the sum over channels of products: places, O, N, tiles. Along a depth that is
 * left alone, the sum is over its places too. */
static TeTensor multiplied(TeBuilder *b, const Tiles *t, TeTensor u, TeTensor d)
{
    int n = t->n, places = n - t->first, rank = places + 2 + n;
    int64_t shape[TENSOR_RANK_MOST], reduced[2] = {d.shape[1], t->alpha[0]};
    Te *ui[LETTERS_MOST], *di[2 + 2 * SPATIAL_MOST], *depth = te_axis(b, rank + 1);
    for (int i = 0; i < places; i++) {
        shape[i] = u.shape[i];
        ui[i] = di[2 + n + t->first + i] = te_axis(b, i);
    }
    if (t->first)
        ui[n - 1] = di[2 + n] = depth;
    shape[places] = u.shape[n];
    shape[places + 1] = d.shape[0];
    ui[n] = te_axis(b, places);
    ui[n + 1] = di[1] = te_axis(b, rank);
    di[0] = te_axis(b, places + 1);
    for (int i = 0; i < n; i++) {
        shape[places + 2 + i] = d.shape[2 + i];
        di[2 + i] = te_axis(b, places + 2 + i);
    }
    Te *body = te_binary(b, TE_MUL, te_load(b, u, ui), te_load(b, d, di));
    return te_reduce(b, TE_SUM, d.dtype, rank, shape, 1 + t->first, reduced, body);
}

static void compute_winograd(TeBuilder *b)
{
    int n = ops_spatial(b->op);
    TeTensor x = te_input(b, 0);
    int64_t kernel[SPATIAL_MOST];
    Conv c;
    Tiles t;
    conv_begin(b, n, false, &x, NULL, &c);
    ops_ints(b->attrs, "kernel_size", n, kernel);
    tiles_of(attrs_int(b->attrs, "tile_size", 0), n, kernel, &t);
    TeTensor y = multiplied(b, &t, te_input(b, 1), transformed_data(b, &c, &t, x));
    int places = n - t.first;
    for (int i = 0; i < places; i++) {
        int axis = t.first + i;
        y = along(b, matrix(b, x.dtype, PART_RESULT, (int)t.size[axis], (int)t.kernel[axis]), y, i);
    }
    Te *yi[TENSOR_RANK_MOST];
    yi[places] = te_axis(b, c.o[1]);
    yi[places + 1] = te_axis(b, c.o[0]);
    for (int i = 0; i < n; i++) {
        Te *at = te_axis(b, c.o[2 + i]), *size = te_int(b, t.size[i]);
        yi[places + 2 + i] = te_binary(b, TE_DIV, at, size);
        if (i >= t.first)
            yi[i - t.first] = te_binary(b, TE_MOD, at, size);
    }
    DType out = te_out_dtype(b, 0);
    conv_end(b, &c, te_map(b, out, n + 2, c.out, te_cast(b, out, te_load(b, y, yi))));
}

/* ---- as a product of matrices ----------------------------------------------------------------------------
 *
 * The kernels are the columns of a matrix with a row for each of its elements (place, then channel); blocks
 * of columns and rows lie together, and what is missing of the last block is 0. */

static Dim blocks_in(Dim extent, int64_t block)
{
    return extent < 0 ? DIM_ANY : (extent + block - 1) / block;
}

#define SHAPES_rel_gemm_weight \
    "(kh, kw, I, O) -> (ceil(O/tile_rows), ceil(kh*kw*I/tile_cols), tile_rows, tile_cols)"
static RelResult rel_gemm_weight(Rel *r)
{
    const Type *w = rel_tensor(r, 0);
    int64_t rows = attrs_int(r->attrs, "tile_rows", 1),
            columns = attrs_int(r->attrs, "tile_cols", 1);
    if (!w)
        return rel_blocked(r);
    if (!rel_rank(r, 0, w, 4))
        return REL_FAILED;
    if (rows < 1 || columns < 1 || rows > OPS_MOST || columns > OPS_MOST) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "a block has at least one row and one column");
        return REL_FAILED;
    }
    Dim dims[4] = {blocks_in(w->dims[3], rows), blocks_in(dims_product(3, w->dims), columns), rows,
                   columns};
    return rel_out_tensor(r, w->dtype, 4, dims);
}

static void compute_gemm_weight(TeBuilder *b)
{
    TeTensor w = te_input(b, 0);
    const int64_t *out = te_out_shape(b, 0);
    Te *o = ops_affine(b, te_axis(b, 0), out[2], te_axis(b, 2), 1, 0),
       *index[4] = {NULL, NULL, NULL, o};
    Te *k = ops_affine(b, te_axis(b, 1), out[3], te_axis(b, 3), 1, 0);
    /* The first index is not reduced by its extent: past the last row it leaves the weight. */
    te_unflatten(b, 3, (int64_t[]){out[1] * out[3] + 1, w.shape[1], w.shape[2]}, k, index);
    ops_emit(b, te_load_or(b, w, index, ops_number(b, 0)));
}

#define SHAPES_rel_gemm \
    "(N, H, W, C), (o, i, tile_rows, tile_cols) -> (N, h, w, channels), as nn.conv2d"
static RelResult rel_gemm(Rel *r)
{
    int64_t kernel[SPATIAL_MOST];
    Dim channels = -1;
    const Type *x, *w;
    Conv c;
    RelResult result = begin_rel(r, 2, &c, &x, kernel, &channels);
    if (result != REL_DONE)
        return result;
    w = rel_tensor(r, 1);
    if (!w)
        return rel_blocked(r);
    if (!rel_rank(r, 1, w, 4))
        return REL_FAILED;
    if (!dims_static(4, w->dims) || w->dims[2] < 1 || w->dims[3] < 1) {
        rel_error(r, E0202_SHAPE, 1, "the blocks of the weight must have known extents");
        return REL_FAILED;
    }
    Dim in = dims_product(3, (Dim[]){kernel[0], kernel[1], x->dims[c.x[1]]});
    Dim dims[4] = {blocks_in(channels, w->dims[2]), blocks_in(in, w->dims[3]), w->dims[2],
                   w->dims[3]};
    return end_rel(r, &c, x, kernel, channels, 4, dims);
}

/* The convolution with the kernels that the matrix holds. */
static void compute_gemm(TeBuilder *b)
{
    TeTensor w = te_input(b, 1), x = te_input(b, 0), plain = x;
    int64_t kernel[2], shape[4];
    Conv c;
    conv_begin(b, 2, false, &plain, NULL, &c);
    ops_ints(b->attrs, "kernel_size", 2, kernel);
    shape[c.w[0]] = c.out[c.o[1]];
    shape[c.w[1]] = plain.shape[c.x[1]];
    shape[c.w[2]] = kernel[0];
    shape[c.w[3]] = kernel[1];
    Te *o = te_axis(b, c.w[0]),
       *at[3] = {te_axis(b, c.w[2]), te_axis(b, c.w[3]), te_axis(b, c.w[1])};
    Te *k = te_flatten(b, 3, (int64_t[]){kernel[0], kernel[1], shape[c.w[1]]}, at);
    Te *rows = te_int(b, w.shape[2]), *columns = te_int(b, w.shape[3]);
    Te *index[4] = {te_binary(b, TE_DIV, o, rows), te_binary(b, TE_DIV, k, columns),
                    te_binary(b, TE_MOD, o, rows), te_binary(b, TE_MOD, k, columns)};
    ops_conv(b, x, te_map(b, w.dtype, 4, shape, te_load(b, w, index)));
}

/* ---- rows -------------------------------------------------------------------------------------------------- */

static const OpArg weight_args[] = {
    {"weight", "the kernels: output channels, input channels, places"}, {0}};
static const OpArg hwio_args[] = {
    {"weight", "the kernels: places, input channels, output channels"}, {0}};
static const OpArg conv_args[] = {
    {"data", "batches of channels of positions"}, {"weight", "the kernels, transformed"}, {0}};

static const OpAttr tile_attrs[] = {
    ATTR_MUST("tile_size", INT, "results of a tile along each axis"), {0}};
static const OpAttr nnpack_attrs[] = {ATTR_MUST("convolution_algorithm", INT, "unused"),
                                      ATTR_D("out_dtype", "", "the type of the result"),
                                      {0}};
static const OpAttr block_attrs[] = {ATTR_MUST("tile_rows", INT, "output channels of a block"),
                                     ATTR_MUST("tile_cols", INT, "elements of a kernel in a block"),
                                     {0}};

#define LIST(NAME, ARRAY, N, DOC)                          \
    {.name = NAME,                                         \
     .type = ATTR_TYPE_INTS,                               \
     .otherwise = {.kind = ATTR_LIST, .list = {ARRAY, N}}, \
     .doc = DOC}
#define WINOGRAD_ATTRS(N, DATA, KERNEL)                                                      \
    {ATTR_MUST("tile_size", INT, "results of a tile along each axis"),                       \
     LIST("strides", ops_ones, N, "must be 1"),                                              \
     LIST("padding", ops_zeros, N, "zeros around the data: all sides, or before and after"), \
     LIST("dilation", ops_ones, N, "must be 1"),                                             \
     ATTR_I("groups", 1, "must be 1"),                                                       \
     ATTR_NONE("channels", INT, "channels of the result: must be given"),                    \
     ATTR_NONE("kernel_size", INTS, "extents of the kernel: must be given"),                 \
     ATTR_S("data_layout", DATA, "the order of the data's axes"),                            \
     ATTR_S("kernel_layout", KERNEL, "the order of the weight's axes before"),               \
     ATTR_S("out_layout", "", "the order of the result's axes; \"\": the data's"),           \
     ATTR_D("out_dtype", "", "the type of the result"),                                      \
     {0}}
static const OpAttr winograd2d_attrs[] = WINOGRAD_ATTRS(2, "NCHW", "OIHW");
static const OpAttr winograd3d_attrs[] = WINOGRAD_ATTRS(3, "NCDHW", "OIDHW");

const Op transformed_ops[] = {
    OP_ROW("nn.contrib_conv2d_winograd_weight_transform", weight_args, tile_attrs, OP_OUT_FUSABLE,
           rel_winograd_weight, "(float32[3,2,3,3], tile_size=2) (float32[3,2,3,3], tile_size=4)",
           "The weight of `nn.conv2d` as Winograd's algorithm multiplies it.",
           .shapes = SHAPES_rel_winograd_weight, .compute = compute_winograd_weight),
    OP_ROW("nn.contrib_conv2d_winograd_without_weight_transform", conv_args, winograd2d_attrs,
           OP_OUT_FUSABLE, rel_winograd,
           "(float32[1,2,5,6], float32[4,4,3,2], tile_size=2, padding=[1, 1], channels=3, "
           "kernel_size=[3, 3])",
           "`nn.conv2d` by Winograd's algorithm, with a weight that was transformed.",
           .shapes = SHAPES_rel_winograd, .compute = compute_winograd),
    OP_ROW("nn.contrib_conv2d_winograd_nnpack_weight_transform", weight_args, nnpack_attrs,
           OP_OUT_FUSABLE, rel_nnpack_weight, "(float32[3,2,3,3], convolution_algorithm=0)",
           "The weight of `nn.conv2d` for tiles of 6 x 6 results, its channels in front.",
           .shapes = "(O, I, 3, 3) -> (O, I, 8, 8)", .compute = compute_nnpack_weight),
    OP_ROW("nn.contrib_conv3d_winograd_weight_transform", weight_args, tile_attrs, OP_OUT_FUSABLE,
           rel_winograd_weight,
           "(float32[3,2,3,3,3], tile_size=2) (float32[3,2,1,3,3], tile_size=4)",
           "The weight of `nn.conv3d` as Winograd's algorithm multiplies it.",
           .shapes = SHAPES_rel_winograd_weight, .compute = compute_winograd_weight),
    OP_ROW(
        "nn.contrib_conv3d_winograd_without_weight_transform", conv_args, winograd3d_attrs,
        OP_OUT_FUSABLE, rel_winograd,
        "(float32[1,2,4,5,6], float32[4,4,4,3,2], tile_size=2, channels=3, kernel_size=[3, 3, 3])",
        "`nn.conv3d` by Winograd's algorithm, with a weight that was transformed.",
        .shapes = SHAPES_rel_winograd, .compute = compute_winograd),
    OP_ROW("nn.contrib_conv2d_gemm_weight_transform", hwio_args, block_attrs, OP_OUT_FUSABLE,
           rel_gemm_weight, "(float32[3,3,2,5], tile_rows=4, tile_cols=16)",
           "The weight of `nn.conv2d` as a matrix in blocks, filled up with zeros.",
           .shapes = SHAPES_rel_gemm_weight, .compute = compute_gemm_weight),
    OP_ROW("nn.contrib_conv2d_gemm_without_weight_transform", conv_args, conv2d_attrs,
           OP_OUT_FUSABLE, rel_gemm,
           "(float32[1,5,6,2], float32[2,2,4,16], channels=5, kernel_size=[3, 3], "
           "data_layout=\"NHWC\", "
           "kernel_layout=\"HWIO\")",
           "`nn.conv2d` as a product of matrices, with a weight that was transformed.",
           .shapes = SHAPES_rel_gemm, .compute = compute_gemm),
    {0},
};
