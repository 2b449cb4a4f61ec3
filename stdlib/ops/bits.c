/* Operators on the single bits of whole numbers. */
#include "stdlib/ops/ops.h"

#include <string.h>

static const DType wide = {DTYPE_CODE_INT, 64, 1};

/* ---- nn.bitpack ----------------------------------------------------------------------------------- */

static bool pack_axes(const Attrs *a, int rank, int *pack, int *bit)
{
    int64_t p = attrs_int(a, "pack_axis", 1), b = attrs_int(a, "bit_axis", -1);
    *pack = (int)(p < 0 ? p + rank : p);
    *bit = (int)(b < 0 ? b + rank + 1 : b);
    return *pack >= 0 && *pack < rank && *bit >= 0 && *bit <= rank;
}

static RelResult rel_bitpack(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    Dim dims[TENSOR_RANK_MOST + 1];
    int pack, bit;
    if (!t)
        return rel_blocked(r);
    DType d = ops_dtype(r->attrs, "pack_type", (DType){DTYPE_CODE_UINT, 32, 1});
    int64_t bits = attrs_int(r->attrs, "bits", 1);
    if (!rel_is_int(r, 0, t))
        return REL_FAILED;
    if (!pack_axes(r->attrs, (int)t->n, &pack, &bit) || dtype_is_float(d) || bits < 1 ||
        bits > 64 || (t->dims[pack] >= 0 && t->dims[pack] % d.bits)) {
        rel_error(
            r, E0216_OPERATOR_ARGUMENT, 0,
            "`nn.bitpack` packs the elements along an axis, of which there must be a multiple "
            "of the bits of `pack_type`");
        return REL_FAILED;
    }
    for (int i = 0, k = 0; i <= (int)t->n; i++) {
        dims[i] = i == bit ? bits : t->dims[k];
        if (i != bit && k++ == pack)
            dims[i] = dim_floor_div(r->cx, dims[i], d.bits);
    }
    return rel_out_tensor(r, d, t->n + 1, dims);
}

/* Bit b of as many elements as a word has bits, the first of them uppermost. */
static void compute_bitpack(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int pack, bit, r = x.rank + 1;
    pack_axes(b->attrs, x.rank, &pack, &bit);
    DType d = te_out_dtype(b, 0);
    int64_t word = d.bits;
    Te *index[TENSOR_RANK_MOST], *k = te_axis(b, r);
    for (int i = 0; i < x.rank; i++)
        index[i] = te_axis(b, i < bit ? i : i + 1);
    index[pack] = te_binary(b, TE_ADD, te_binary(b, TE_MUL, index[pack], te_int(b, word)), k);
    Te *v = te_cast(b, wide, te_load(b, x, index));
    v = te_binary(b, TE_AND, te_binary(b, TE_SHR, v, te_axis(b, bit)), te_int(b, 1));
    v = te_binary(b, TE_SHL, v, te_binary(b, TE_SUB, te_int(b, word - 1), k));
    te_output(b, te_reduce(b, TE_SUM, d, r, te_out_shape(b, 0), 1, &word, te_cast(b, d, v)));
}

/* ---- bit-serial products -------------------------------------------------------------------------- */

/* The lowest bits of the data as a whole number. */
static TeTensor low_bits(TeBuilder *b, TeTensor x, int64_t bits)
{
    Te *mask = te_int(b, bits < 63 ? ((int64_t)1 << bits) - 1 : -1);
    Te *v = te_binary(b, TE_AND, te_cast(b, wide, ops_at_axes(b, x)), mask);
    DType d = te_out_dtype(b, 0);
    return te_map(b, d, x.rank, x.shape, te_cast(b, d, v));
}

/* In a unipolar product each bit of the weight stands for 1 or -1, so that n of them are 2 w - (2^n - 1). */
static TeTensor weight_bits(TeBuilder *b, TeTensor w)
{
    int64_t bits = attrs_int(b->attrs, "weight_bits", 1);
    TeTensor low = low_bits(b, w, bits);
    if (!attrs_bool(b->attrs, "unipolar"))
        return low;
    Te *v = ops_at_axes(b, low), *all = te_number(b, v->dtype, (double)(((int64_t)1 << bits) - 1));
    v = te_binary(b, TE_SUB, te_binary(b, TE_ADD, v, v), all);
    return te_map(b, low.dtype, w.rank, w.shape, v);
}

static DType product_dtype(const Rel *r)
{
    return ops_dtype(r->attrs, "out_dtype", (DType){DTYPE_CODE_INT, 16, 1});
}

static bool bits_good(Rel *r, const char *key)
{
    int64_t n = attrs_int(r->attrs, key, 1);
    if (n >= 1 && n <= 16)
        return true;
    rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`%s` of `%s` is from 1 to 16, not %lld", key,
              r->op->name, (long long)n);
    return false;
}

static RelResult rel_serial_dense(Rel *r)
{
    const Type *x = rel_tensor(r, 0), *w = x ? rel_tensor(r, 1) : NULL;
    Dim dims[TENSOR_RANK_MOST];
    if (!w)
        return rel_blocked(r);
    if (!rel_is_int(r, 0, x) || !rel_is_int(r, 1, w) || !rel_rank(r, 1, w, 2) ||
        !bits_good(r, "data_bits") || !bits_good(r, "weight_bits"))
        return REL_FAILED;
    if (x->n == 0 || !dim_agrees(x->dims[x->n - 1], w->dims[1])) {
        rel_error(r, E0202_SHAPE, 1, "data %s and weight %s do not fit", type_str(r->cx, x),
                  type_str(r->cx, w));
        return REL_FAILED;
    }
    memcpy(dims, x->dims, x->n * sizeof *dims);
    dims[x->n - 1] = w->dims[0];
    return rel_out_tensor(r, product_dtype(r), x->n, dims);
}

static void compute_serial_dense(TeBuilder *b)
{
    TeTensor x = low_bits(b, te_input(b, 0), attrs_int(b->attrs, "data_bits", 1));
    TeTensor w = weight_bits(b, te_input(b, 1));
    int r = x.rank;
    Te *xi[TENSOR_RANK_MOST], *wi[2] = {te_axis(b, r - 1), te_axis(b, r)};
    ops_axes(b, 0, r - 1, xi);
    xi[r - 1] = wi[1];
    Te *body = te_binary(b, TE_MUL, te_load(b, x, xi), te_load(b, w, wi));
    te_output(b, te_reduce(b, TE_SUM, body->dtype, r, te_out_shape(b, 0), 1, &w.shape[1], body));
}

static RelResult rel_serial_conv(Rel *r)
{
    const Type *x = rel_tensor(r, 0), *w = x ? rel_tensor(r, 1) : NULL;
    int xa[4], wa[4];
    int64_t strides[2], before[2], after[2];
    Dim dims[4];
    if (!w)
        return rel_blocked(r);
    if (!rel_is_int(r, 0, x) || !rel_is_int(r, 1, w) || !rel_rank(r, 0, x, 4) ||
        !rel_rank(r, 1, w, 4) || !rel_layout(r, "data_layout", "NCHW", xa) ||
        !rel_layout(r, "kernel_layout", "OIHW", wa) || !rel_ints(r, "strides", 2, strides) ||
        !rel_padding(r, "padding", 2, before, after) || !bits_good(r, "activation_bits") ||
        !bits_good(r, "weight_bits"))
        return REL_FAILED;
    bool fits = dim_agrees(x->dims[xa[1]], w->dims[wa[1]]);
    dims[xa[0]] = x->dims[xa[0]];
    dims[xa[1]] = w->dims[wa[0]];
    for (int i = 0; i < 2; i++) {
        Dim d = x->dims[xa[2 + i]], k = w->dims[wa[2 + i]];
        bool known = d >= 0 && k >= 0;
        Dim room = known ? d + before[i] + after[i] - k : 0;
        fits = fits && room >= 0;
        dims[xa[2 + i]] = known ? room / strides[i] + 1 : DIM_ANY;
    }
    if (fits)
        return rel_out_tensor(r, product_dtype(r), 4, dims);
    rel_error(r, E0202_SHAPE, 1, "data %s and weight %s do not fit", type_str(r->cx, x),
              type_str(r->cx, w));
    return REL_FAILED;
}

static void compute_serial_conv(TeBuilder *b)
{
    TeTensor x = low_bits(b, te_input(b, 0), attrs_int(b->attrs, "activation_bits", 1));
    TeTensor w = weight_bits(b, te_input(b, 1));
    int xa[4], wa[4];
    int64_t strides[2], before[2], after[2], reduced[3];
    layout_positions(attrs_string(b->attrs, "data_layout"), "NCHW", xa);
    layout_positions(attrs_string(b->attrs, "kernel_layout"), "OIHW", wa);
    ops_ints(b->attrs, "strides", 2, strides);
    ops_padding(b->attrs, "padding", 2, before, after);
    Te *xi[4], *wi[4];
    xi[xa[0]] = te_axis(b, xa[0]);
    wi[wa[0]] = te_axis(b, xa[1]);
    xi[xa[1]] = wi[wa[1]] = te_axis(b, 4);
    reduced[0] = w.shape[wa[1]];
    for (int i = 0; i < 2; i++) {
        Te *k = wi[wa[2 + i]] = te_axis(b, 5 + i);
        Te *from = te_binary(b, TE_MUL, te_axis(b, xa[2 + i]), te_int(b, strides[i]));
        xi[xa[2 + i]] = te_binary(b, TE_ADD, te_binary(b, TE_ADD, from, k), te_int(b, -before[i]));
        reduced[1 + i] = w.shape[wa[2 + i]];
    }
    Te *body =
        te_binary(b, TE_MUL, te_load_or(b, x, xi, te_number(b, x.dtype, 0)), te_load(b, w, wi));
    te_output(b, te_reduce(b, TE_SUM, body->dtype, 4, te_out_shape(b, 0), 3, reduced, body));
}

/* ---- rows ----------------------------------------------------------------------------------------- */

static const OpArg product_args[] = {{"data", "whole numbers"}, {"weight", "whole numbers"}, {0}};
#define LIST(NAME, ARRAY, DOC)                               \
    {.name = NAME,                                           \
     .type = ATTR_TYPE_INTS,                                 \
     .otherwise = {.kind = ATTR_LIST, .list = {(ARRAY), 2}}, \
     .doc = DOC}
static const AttrValue threes[] = {{.kind = ATTR_INT, .i = 3}, {.kind = ATTR_INT, .i = 3}};
#define SERIAL(BITS)                                    \
    ATTR_I(BITS, 1, "how many bits of the data count"), \
        ATTR_I("weight_bits", 1, "how many bits of the weight count")
#define PACKING                                                               \
    ATTR_D("pack_dtype", "uint32", "unused: what bits may be packed in"),     \
        ATTR_D("out_dtype", "int16", "the type to sum in and of the result"), \
        ATTR_B("unipolar", 1, "a bit of the weight is 1 or -1, else 1 or 0")
static const OpAttr bitpack_attrs[] = {
    ATTR_I("bits", 1, "how many bits of each element"),
    ATTR_I("pack_axis", 1, "the axis along which to pack"),
    ATTR_I("bit_axis", -1, "where the axis of the bits stands in the result"),
    ATTR_D("pack_type", "", "the type to pack in; \"\": uint32"),
    ATTR_S("name", "BitPack", "unused"),
    {0}};
static const OpAttr conv_attrs[] = {
    LIST("strides", ops_ones, "steps of the kernel"),
    LIST("padding", ops_zeros, "zeros around the data"),
    LIST("kernel_size", threes, "unused: as the weight has"),
    ATTR_NONE("channels", INT, "unused: as the weight has"),
    SERIAL("activation_bits"),
    ATTR_S("data_layout", "NCHW", "the order of the data's axes"),
    ATTR_S("kernel_layout", "OIHW", "the order of the weight's axes"),
    PACKING,
    {0}};
static const OpAttr serial_attrs[] = {
    ATTR_MUST_NONE("units", INT, "rows of the weight"), SERIAL("data_bits"), PACKING, {0}};

#define ROW(NAME, ID, ARGS, ATTRS, PATTERN, SHAPES, SAMPLES, DOC)                \
    OP_ROW(NAME, ARGS, ATTRS, PATTERN, rel_##ID, SAMPLES, DOC, .shapes = SHAPES, \
           .compute = compute_##ID)

const Op bits_ops[] = {
    ROW("nn.bitpack", bitpack, args_data, bitpack_attrs, OP_INJECTIVE,
        "(N, C, d...) -> (N, C/word, d..., bits)", "(int32[1,16], bits=2, pack_type=\"uint8\")",
        "The bits of elements along an axis as words."),
    ROW("nn.bitserial_conv2d", serial_conv, product_args, conv_attrs, OP_OUT_FUSABLE,
        "(N, C, H, W), (O, C, kh, kw) -> (N, O, h, w)",
        "(uint8[1,2,4,4], uint8[3,2,2,2], kernel_size=[2, 2], activation_bits=2)",
        "A convolution of the lowest bits of whole numbers."),
    ROW("nn.bitserial_dense", serial_dense, product_args, serial_attrs, OP_OUT_FUSABLE,
        "(..., K), (units, K) -> (..., units)", "(uint8[2,3], uint8[4,3], units=4, data_bits=2)",
        "The product of the lowest bits of whole numbers."),
    {0},
};
