/* What operators of Relay are in ONNX, beside those that the importer's table says both ways. */
#include "exchange/onnx_export.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LIST_MOST (2 * TENSOR_RANK_MOST)

typedef struct List {
    int64_t at[LIST_MOST];
    int n; /* -1: None */
} List;

static List list_of(const OutCall *c, const char *key)
{
    List l;
    l.n = attrs_ints(c->call->attrs, key, l.at, LIST_MOST);
    l.n = l.n > LIST_MOST ? LIST_MOST : l.n;
    return l;
}

static const char *list_text(OutCall *c, const List *l)
{
    return out_list(c, l->at, l->n < 0 ? 0 : l->n);
}

static bool is_text(const OutCall *c, const char *key, const char *what)
{
    Str s = out_string(c, key);
    return s.len == 0 || str_is(s, what);
}

static int64_t axis_of(OutCall *c, const char *key, int rank)
{
    int64_t axis = out_int(c, key, 0);
    return axis < 0 ? axis + rank : axis;
}

/* ---- products ------------------------------------------------------------------------------------------------------------------ */

/* Sums in another type than that of the numbers. */
static bool sums_elsewhere(const OutCall *c)
{
    const AttrValue *v = attrs_find(c->call->attrs, "out_dtype");
    DType t = v && v->kind == ATTR_STRING ? attrs_dtype(c->call->attrs, "out_dtype") : (DType){0};
    return dtype_size(t) > 0 && !dtype_eq(t, out_dtype(c, 0));
}

static OutValue *product(OutCall *c)
{
    if (sums_elsewhere(c))
        return out_refuse(c, "a sum in another element type");
    bool batch = !strcmp(c->op->name, "nn.batch_matmul");
    const char *turn[2] = {"$0", "$1"};
    for (uint32_t i = 0; i < 2; i++) {
        if (!out_int(c, i ? "transpose_b" : "transpose_a", 0))
            continue;
        int rank = batch ? 3 : out_rank(c, i);
        int64_t perm[LIST_MOST];
        for (int k = 0; k < rank && k < LIST_MOST; k++)
            perm[k] = k < rank - 2 ? k : 2 * rank - 3 - k;
        turn[i] = out_text(c, "Transpose($%u){perm=%s}", i, out_list(c, perm, rank));
    }
    return out_say(c, "MatMul(%s, %s)", turn[0], turn[1]);
}

static OutValue *dense(OutCall *c)
{
    if (sums_elsewhere(c))
        return out_refuse(c, "a sum in another element type");
    /* `Gemm` takes the weight as it is. */
    return out_say(c, out_rank(c, 0) == 2 && dtype_is_float(out_dtype(c, 0))
                          ? "Gemm($0, $1){transB=1}"
                          : "MatMul($0, Transpose($1){perm=[1, 0]})");
}

/* Whether some operators of ONNX do not take the element type: it is computed in float32. */
static bool is_narrow(DType t)
{
    return dtype_is_float(t) && dtype_size(t) < 4;
}

static OutValue *einsum(OutCall *c)
{
    DType t = out_dtype(c, 0);
    if (str_is(out_string(c, "equation"), "...ij,...jk->...ik"))
        return out_say(c, "MatMul($*)");
    if (!dtype_eq(t, dtype_of(DT_BFLOAT16)) || c->in[0]->kind != OUT_TUPLE)
        return out_say(c, "Einsum($*){equation=$equation}");
    OutCall wide = *c;
    const OutValue *given = c->in[0];
    OutValue *fields[LIST_MOST];
    for (uint32_t i = 0; i < given->n && i < LIST_MOST; i++) {
        OutCall one = *c;
        one.n = 1;
        one.in = (OutValue **)&given->fields[i];
        fields[i] = out_say(&one, "Cast($0){to=1}");
    }
    OutValue *tuple = out_tuple(c, given->n < LIST_MOST ? given->n : LIST_MOST, fields);
    wide.in = &tuple;
    return out_say(&wide, "Cast(Einsum($*){equation=$equation}){to=16}");
}

static OutValue *bias_add(OutCall *c)
{
    int rank = out_rank(c, 0);
    int64_t axis = axis_of(c, "axis", rank), after[LIST_MOST];
    int n = 0;
    for (int64_t k = axis + 1; k < rank && n < LIST_MOST; k++)
        after[n] = n + 1, n++;
    return n ? out_say(c, "Add($0, Unsqueeze($1, #%s))", out_list(c, after, n))
             : out_say(c, "Add($0, $1)");
}

/* ---- windows ------------------------------------------------------------------------------------------------------------------- */

/* Before all axes, then behind all. */
static List pads_of(OutCall *c, int axes)
{
    List p = list_of(c, "padding"), out = {.n = 2 * axes};
    for (int i = 0; i < axes; i++) {
        out.at[i] = p.n < 1 ? 0 : p.n == 1 ? p.at[0] : p.at[i];
        out.at[axes + i] = p.n == 2 * axes ? p.at[axes + i] : out.at[i];
        if (out.at[i] < 0 || out.at[axes + i] < 0)
            out_refuse(c, "a padding that takes away");
    }
    return out;
}

static List kernel_of(OutCall *c, int axes)
{
    List k = {.n = axes};
    for (int i = 0; i < axes; i++)
        k.at[i] = out_extent(c, 1, i + 2);
    return k;
}

static int axes_in_name(const OutCall *c)
{
    const char *d = strpbrk(c->op->name, "123");
    return d ? *d - '0' : 0;
}

static bool is_usual(const OutCall *c, int axes, const char *data_key)
{
    static const char *const data[] = {"NCW", "NCHW", "NCDHW"};
    return is_text(c, data_key, data[axes - 1]) && is_text(c, "out_layout", data[axes - 1]);
}

static OutValue *conv(OutCall *c)
{
    static const char *const weight[] = {"OIW", "OIHW", "OIDHW"};
    int axes = axes_in_name(c);
    if (!is_usual(c, axes, "data_layout") || !is_text(c, "kernel_layout", weight[axes - 1]) ||
        sums_elsewhere(c))
        return out_refuse(c, "another layout than NCHW, or another type of sums");
    List pads = pads_of(c, axes), kernel = kernel_of(c, axes);
    return out_say(c,
                   "Conv($0, $1){strides=$strides, pads=%s, dilations=$dilation, group=$groups, "
                   "kernel_shape=%s}",
                   list_text(c, &pads), list_text(c, &kernel));
}

static OutValue *conv_transpose(OutCall *c)
{
    static const char *const weight[] = {"IOW", "IOHW", "IODHW"}, *const other[] = {"OIW", "OIHW",
                                                                                    "OIDHW"};
    int axes = axes_in_name(c);
    bool turned = is_text(c, "kernel_layout", other[axes - 1]);
    if (!is_usual(c, axes, "data_layout") || sums_elsewhere(c) ||
        !(turned || is_text(c, "kernel_layout", weight[axes - 1])) ||
        (turned && out_int(c, "groups", 1) != 1))
        return out_refuse(c, "another layout than NCHW, or another type of sums");
    List pads = pads_of(c, axes), kernel = kernel_of(c, axes), perm = {.n = axes + 2};
    for (int i = 0; i < perm.n; i++)
        perm.at[i] = i < 2 ? 1 - i : i;
    const char *w = turned ? out_text(c, "Transpose($1){perm=%s}", list_text(c, &perm)) : "$1";
    return out_say(c,
                   "ConvTranspose($0, %s){strides=$strides, pads=%s, dilations=$dilation, "
                   "group=$groups, kernel_shape=%s, output_padding=$output_padding}",
                   w, list_text(c, &pads), list_text(c, &kernel));
}

static OutValue *pool(OutCall *c)
{
    int axes = axes_in_name(c);
    bool most = strstr(c->op->name, "max") != NULL;
    if (!is_usual(c, axes, "layout"))
        return out_refuse(c, "another layout than NCHW");
    List pads = pads_of(c, axes);
    return out_say(c,
                   "%s($0){kernel_shape=$pool_size, strides=$strides, pads=%s, "
                   "dilations=$dilation, ceil_mode=$ceil_mode%s}",
                   most ? "MaxPool" : "AveragePool", list_text(c, &pads),
                   most ? "" : ", count_include_pad=$count_include_pad");
}

static OutValue *global_pool(OutCall *c)
{
    List size =
        strstr(c->op->name, "adaptive") ? list_of(c, "output_size") : (List){.n = 1, .at = {1}};
    bool one = size.n > 0;
    for (int i = 0; i < size.n; i++)
        one &= size.at[i] == 1;
    if (!one || !is_usual(c, axes_in_name(c), "layout"))
        return out_refuse(c, "a result of more than one place, or another layout than NCHW");
    return out_say(c, "Global%sPool($0)", strstr(c->op->name, "max") ? "Max" : "Average");
}

/* ---- norms --------------------------------------------------------------------------------------------------------------------- */

/* What a norm scales and shifts by: the arguments $1 and $2, or ones and zeros of their shape where it does not. */
static const char *scale_of(const OutCall *c)
{
    return out_int(c, "scale", 1) ? "$1" : "Expand(~1, Shape($1))";
}

static const char *shift_of(const OutCall *c)
{
    return out_int(c, "center", 1) ? "$2" : "Expand(~0, Shape($2))";
}

static OutValue *batch_norm(OutCall *c)
{
    if (axis_of(c, "axis", out_rank(c, 0)) != 1)
        return out_refuse(c, "another axis than 1");
    const Type *out = type_find(c->out);
    OutCall one = *c;
    one.out = out->parts[0];
    OutValue *y = out_say(&one, "BatchNormalization($0, %s, %s, $3, $4){epsilon=$epsilon}",
                          scale_of(c), shift_of(c));
    return out_tuple(c, 3, (OutValue *[]){y, c->in[3], c->in[4]});
}

static OutValue *layer_norm(OutCall *c)
{
    int rank = out_rank(c, 0);
    if (axis_of(c, "axis", rank) != rank - 1)
        return out_refuse(c, "another axis than the last");
    return out_say(c, "LayerNormalization($0, %s, %s){axis=-1, epsilon=$epsilon}", scale_of(c),
                   shift_of(c));
}

static OutValue *dropout(OutCall *c)
{
    const Type *out = type_find(c->out);
    OutCall one = *c;
    one.out = out->parts[0];
    OutValue *x = out_say(&one, "Identity($0)");
    OutValue *fields[2] = {x, out_say(&one, "Expand(~1, Shape($0))")};
    return out_tuple(c, 2, fields);
}

/* ---- reductions ---------------------------------------------------------------------------------------------------------------- */

/* The axes that are folded. */
static List folded(OutCall *c)
{
    int rank = out_rank(c, 0);
    List given = list_of(c, "axis"), out = {.n = 0};
    bool others = out_int(c, "exclude", 0) != 0;
    for (int a = 0; a < rank; a++) {
        bool in = given.n < 0;
        for (int k = 0; k < given.n; k++)
            in |= given.at[k] + (given.at[k] < 0 ? rank : 0) == a;
        if (in != (others && given.n >= 0))
            out.at[out.n++] = a;
    }
    return out;
}

static const char *reduced(OutCall *c, const char *op, const char *x)
{
    List axes = folded(c);
    if (axes.n == 0)
        return x;
    return out_text(c, "%s(%s, #%s){keepdims=%lld}", op, x, list_text(c, &axes),
                    (long long)out_int(c, "keepdims", 0));
}

static OutValue *reduce(OutCall *c)
{
    static const char *const names[][2] = {
        {"sum", "ReduceSum"}, {"mean", "ReduceMean"}, {"max", "ReduceMax"},
        {"min", "ReduceMin"}, {"prod", "ReduceProd"}, {"logsumexp", "ReduceLogSumExp"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(c->op->name, names[i][0])) {
            const char *text = reduced(c, names[i][1], "$0");
            return out_say(c, *text == '$' ? "Identity(%s)" : "%s", text);
        }
    const char *fold = !strcmp(c->op->name, "any") ? "ReduceMax" : "ReduceMin";
    return out_say(c, "Cast(%s){to=9}", reduced(c, fold, "Cast($0){to=6}"));
}

static OutValue *variance(OutCall *c)
{
    if (out_int(c, "unbiased", 0))
        return out_refuse(c, "an unbiased one");
    return out_say(c, "%s", reduced(c, "ReduceMean", "Mul(Sub($0, $1), Sub($0, $1))"));
}

static OutValue *arg_reduce(OutCall *c)
{
    List axes = folded(c);
    if (axes.n != 1)
        return out_refuse(c, "several axes");
    return out_say(c, "Cast(%s($0){axis=%lld, keepdims=$keepdims, select_last_index=%lld}){to=6}",
                   strstr(c->op->name, "max") ? "ArgMax" : "ArgMin", (long long)axes.at[0],
                   (long long)out_int(c, "select_last_index", 0));
}

static OutValue *scan_axis(OutCall *c)
{
    const AttrValue *axis = attrs_find(c->call->attrs, "axis");
    if (!axis || axis->kind != ATTR_INT)
        return out_refuse(c, "all elements as one row");
    return out_say(c, "CumSum($0, #%lld){exclusive=%lld}", (long long)axis->i,
                   (long long)out_int(c, "exclusive", 0));
}

/* ---- shapes ---------------------------------------------------------------------------------------------------------------------- */

static OutValue *reshape(OutCall *c)
{
    const Type *t = type_find(c->out);
    List codes = list_of(c, "newshape");
    bool plain = codes.n >= 0, known = t->kind == TYPE_TENSOR;
    for (int i = 0; i < codes.n; i++)
        plain &= codes.at[i] >= -1;
    for (uint32_t i = 0; known && i < t->n; i++)
        known = t->dims[i] >= 0;
    if (!plain && !known)
        return out_refuse(c, "joined and split extents that are known only at run time");
    if (!plain)
        return out_say(c, "Reshape($0, #%s)", out_list(c, t->dims, (int)t->n));
    return out_say(c, "Reshape($0, #%s){allowzero=%lld}", list_text(c, &codes),
                   (long long)out_int(c, "allowzero", 0));
}

static OutValue *transpose(OutCall *c)
{
    List axes = list_of(c, "axes");
    int rank = out_rank(c, 0);
    for (int i = 0; axes.n < 0 && i < rank; i++)
        axes.at[i] = rank - 1 - i;
    axes.n = rank;
    for (int i = 0; i < rank; i++)
        axes.at[i] += axes.at[i] < 0 ? rank : 0;
    return out_say(c, "Transpose($0){perm=%s}", list_text(c, &axes));
}

static OutValue *squeeze(OutCall *c)
{
    List axes = list_of(c, "axis");
    return axes.n < 0 ? out_say(c, "Squeeze($0)")
                      : out_say(c, "Squeeze($0, #%s)", list_text(c, &axes));
}

static OutValue *expand_dims(OutCall *c)
{
    List axes = {.n = (int)out_int(c, "num_newaxis", 1)};
    if (axes.n < 1 || axes.n > TENSOR_RANK_MOST)
        return out_refuse(c, "%d new axes", axes.n);
    int64_t axis = axis_of(c, "axis", out_rank(c, 0) + 1);
    for (int i = 0; i < axes.n; i++)
        axes.at[i] = axis + i;
    return out_say(c, "Unsqueeze($0, #%s)", list_text(c, &axes));
}

static OutValue *stack(OutCall *c)
{
    const OutValue *in = c->in[0];
    int64_t axis = axis_of(c, "axis", out_rank(c, 0) + 1);
    if (in->kind != OUT_TUPLE || in->n == 0)
        return out_refuse(c, "what is no tuple");
    OutValue **parts = in->fields;
    OutValue *one = NULL;
    for (uint32_t i = 0; i < in->n; i++) {
        OutCall each = *c;
        each.n = 2;
        each.in = (OutValue *[]){parts[i], one};
        OutValue *row = out_say(&each, "Unsqueeze($0, #[%lld])", (long long)axis);
        each.in = (OutValue *[]){one, row};
        one = i ? out_say(&each, "Concat($0, $1){axis=%lld}", (long long)axis) : row;
    }
    return one;
}

static OutValue *split(OutCall *c)
{
    const Type *t = type_find(c->out);
    int64_t axis = axis_of(c, "axis", out_rank(c, 0)), sizes[LIST_MOST];
    uint32_t n = t->kind == TYPE_TUPLE ? t->n : 0;
    if (n < 1 || n > LIST_MOST)
        return out_refuse(c, "%u parts", n);
    for (uint32_t i = 0; i < n; i++) {
        const Type *part = type_find(t->parts[i]);
        sizes[i] = part->kind == TYPE_TENSOR && axis < (int64_t)part->n ? part->dims[axis] : -1;
        if (sizes[i] < 0)
            return out_refuse(c, "parts whose extents are known only at run time");
    }
    return out_say_several(c, n, "Split($0, #%s){axis=%lld}", out_list(c, sizes, (int)n),
                           (long long)axis);
}

static OutValue *strided_slice(OutCall *c)
{
    List from = list_of(c, "begin"), to = list_of(c, "end"), steps = list_of(c, "strides"),
         axes = list_of(c, "axes");
    if (!is_text(c, "slice_mode", "end") || from.n < 1 || to.n != from.n)
        return out_refuse(c, "sizes in place of ends");
    for (int i = 0; i < from.n; i++) {
        steps.at[i] = i < steps.n ? steps.at[i] : 1;
        axes.at[i] = i < axes.n ? axes.at[i] : i;
    }
    steps.n = axes.n = from.n;
    return out_say(c, "Slice($0, #%s, #%s, #%s, #%s)", list_text(c, &from), list_text(c, &to),
                   list_text(c, &axes), list_text(c, &steps));
}

/* The second argument as numbers of a type that ONNX looks up with. */
static const char *positions(const OutCall *c)
{
    DType t = out_dtype(c, 1);
    bool taken = dtype_eq(t, dtype_of(DT_INT64)) || dtype_eq(t, dtype_of(DT_INT32));
    return taken ? "$1" : "Cast($1){to=7}";
}

/* An index out of range means the nearest; ONNX has none such. */
static OutValue *take(OutCall *c)
{
    const AttrValue *axis = attrs_find(c->call->attrs, "axis");
    bool flat = !axis || axis->kind != ATTR_INT;
    if (out_int(c, "batch_dims", 0) != 0)
        return out_refuse(c, "axes that data and indices share");
    int64_t a = flat ? 0 : axis_of(c, "axis", out_rank(c, 0));
    const char *data = flat ? "Reshape($0, #[-1])" : "$0", *at = positions(c);
    if (is_text(c, "mode", "clip"))
        at = out_text(c,
                      "Cast(Max(Min(Cast(%s){to=7}, Sub(Gather(Shape(%s), #%lld), #1)), #0)){to=7}",
                      at, data, (long long)a);
    return out_say(c, "Gather(%s, %s){axis=%lld}", data, at, (long long)a);
}

/* Relay has the axis of coordinates in front. */
static const char *trailing(OutCall *c, uint32_t i)
{
    int rank = out_rank(c, i);
    List axes = {.n = rank};
    for (int k = 0; k < rank; k++)
        axes.at[k] = (k + 1) % rank;
    return out_text(c, "Cast(Transpose($%u){perm=%s}){to=7}", i, list_text(c, &axes));
}

static OutValue *gather_nd(OutCall *c)
{
    return out_say(c, "GatherND($0, %s){batch_dims=$batch_dims}", trailing(c, 1));
}

static const char *reduction(const OutCall *c, const char *key)
{
    Str s = out_string(c, key);
    return str_is(s, "add")   ? "add"
           : str_is(s, "mul") ? "mul"
           : str_is(s, "max") ? "max"
           : str_is(s, "min") ? "min"
                              : "none";
}

static OutValue *scatter_nd(OutCall *c)
{
    return out_say(c, "ScatterND($0, %s, $2){reduction=\"%s\"}", trailing(c, 1),
                   reduction(c, "mode"));
}

static OutValue *scatter_elements(OutCall *c)
{
    if (str_is(out_string(c, "reduction"), "mean"))
        return out_refuse(c, "the mean of what is there and the updates");
    return out_say(c, "ScatterElements($0, %s, $2){axis=$axis, reduction=\"%s\"}", positions(c),
                   reduction(c, "reduction"));
}

static OutValue *pad(OutCall *c)
{
    const AttrValue *widths = attrs_find(c->call->attrs, "pad_width");
    List out = {.n = 0};
    int rank = out_rank(c, 0);
    for (int side = 0; side < 2; side++)
        for (int i = 0; widths && i < rank && i < (int)widths->list.n; i++) {
            const AttrValue *pair = &widths->list.at[i];
            out.at[out.n++] =
                pair->kind == ATTR_LIST && pair->list.n == 2 ? pair->list.at[side].i : 0;
        }
    Str mode = out_string(c, "pad_mode");
    return out_say(c, "Pad($0, #%s, $1){mode=\"%.*s\"}", list_text(c, &out), (int)mode.len,
                   mode.ptr);
}

static OutValue *broadcast_to(OutCall *c)
{
    const Type *t = type_find(c->out);
    bool known = t->kind == TYPE_TENSOR;
    for (uint32_t i = 0; known && i < t->n; i++)
        known = t->dims[i] >= 0;
    return known ? out_say(c, "Expand($0, #%s)", out_list(c, t->dims, (int)t->n))
                 : out_refuse(c, "a shape that is known only at run time");
}

/* The element type may be another than that of any argument. */
static OutValue *filled(OutCall *c)
{
    const Type *t = type_find(c->out);
    bool known = t->kind == TYPE_TENSOR;
    for (uint32_t i = 0; known && i < t->n; i++)
        known = t->dims[i] >= 0;
    if (!known)
        return out_refuse(c, "a shape that is known only at run time");
    const char *value = c->n ? "$0" : !strcmp(c->op->name, "ones") ? "~1" : "~0";
    return out_say(c, "Expand(Cast(%s){to=%d}, #%s)", value, onnx_dtype_number(t->dtype),
                   out_list(c, t->dims, (int)t->n));
}

static OutValue *arange(OutCall *c)
{
    return out_say(c, is_narrow(out_dtype(c, 0))
                          ? "Cast(Range(Cast($0){to=1}, Cast($1){to=1}, Cast($2){to=1})){to=$dtype}"
                          : "Cast(Range($0, $1, $2)){to=$dtype}");
}

static OutValue *repeat(OutCall *c)
{
    const Type *t = type_find(c->out);
    int rank = out_rank(c, 0);
    const AttrValue *axis = attrs_find(c->call->attrs, "axis");
    List reps = {.n = rank + 1};
    int64_t a = axis_of(c, "axis", rank);
    for (int i = 0; i <= rank; i++)
        reps.at[i] = i == a + 1 ? out_int(c, "repeats", 1) : 1;
    bool known = t->kind == TYPE_TENSOR && axis && axis->kind == ATTR_INT;
    for (uint32_t i = 0; known && i < t->n; i++)
        known = t->dims[i] >= 0;
    if (!known)
        return out_refuse(c, "a shape that is known only at run time");
    return out_say(c, "Reshape(Tile(Unsqueeze($0, #[%lld]), #%s), #%s)", (long long)a + 1,
                   list_text(c, &reps), out_list(c, t->dims, (int)t->n));
}

static OutValue *grid_sample(OutCall *c)
{
    Str method = out_string(c, "method"), pads = out_string(c, "padding_mode");
    const char *mode = str_is(method, "nearest")   ? "nearest"
                       : str_is(method, "bicubic") ? "cubic"
                                                   : "linear";
    List axes = {.n = out_rank(c, 1)};
    for (int i = 0; i < axes.n; i++)
        axes.at[i] = i == 0 ? 0 : i == axes.n - 1 ? 1 : i + 1;
    return out_say(c,
                   "GridSample($0, Transpose($1){perm=%s}){mode=\"%s\", padding_mode=\"%.*s\", "
                   "align_corners=$align_corners}",
                   list_text(c, &axes), mode, (int)pads.len, pads.ptr);
}

static OutValue *dyn_zeros(OutCall *c)
{
    const AttrValue *dtype = attrs_find(c->call->attrs, "dtype");
    DType t =
        dtype && dtype->kind == ATTR_STRING ? attrs_dtype(c->call->attrs, "dtype") : (DType){0};
    return out_say(c, "Expand(Cast(#0){to=%d}, Cast($0){to=7})", onnx_dtype_number(t));
}

/* ONNX counts negative indices from the end; Relay has no such row. */
static OutValue *one_hot(OutCall *c)
{
    int rank = out_rank(c, 0), n = 0;
    int64_t axis = axis_of(c, "axis", rank + 1), after[LIST_MOST];
    for (int64_t k = axis; k < rank && n < LIST_MOST; k++)
        after[n] = n + 1, n++;
    return out_say(
        c,
        "Where(Equal(Unsqueeze(Cast($0){to=7}, #[%lld]), Unsqueeze(Range(#0, #%lld, #1), "
        "#%s)), $1, $2)",
        (long long)axis, (long long)out_int(c, "depth", 0), out_list(c, after, n));
}

static OutValue *topk(OutCall *c)
{
    const AttrValue *k = attrs_find(c->call->attrs, "k");
    if (!is_text(c, "ret_type", "both") || !k || k->kind != ATTR_INT)
        return out_refuse(c, "a number that is known only at run time, or one result of two");
    const Type *t = type_find(c->out);
    OutValue *both = out_say_several(c, 2, "TopK($0, #[%lld]){axis=$axis, largest=%d}",
                                     (long long)k->i, !out_int(c, "is_ascend", 0));
    OutCall second = *c;
    second.n = 1;
    second.in = &both->fields[1];
    second.out = t->parts[1];
    OutValue *fields[2] = {
        both->fields[0],
        out_say(&second, "Cast($0){to=%d}", onnx_dtype_number(type_find(t->parts[1])->dtype))};
    return out_tuple(c, 2, fields);
}

/* Of batch, channels and what is wanted of the others. Numbers where they are known: ONNX's checker does not look out of a branch for them. */
static const char *all_extents(OutCall *c, const List *wanted)
{
    const Type *t = type_find(c->in[0]->type);
    List all = {.n = 2 + wanted->n};
    if (wanted->n < 0 || t->dims[0] < 0 || t->dims[1] < 0)
        return out_text(c, "Concat(Slice(Shape($0), #[0], #[2]), #%s){axis=0}",
                        list_text(c, wanted));
    all.at[0] = t->dims[0];
    all.at[1] = t->dims[1];
    memcpy(all.at + 2, wanted->at, (size_t)wanted->n * sizeof *all.at);
    return out_text(c, "#%s", list_text(c, &all));
}

/* Batch and channels stay what they are; the other extents are an attribute, or the second argument. */
static OutValue *resize(OutCall *c)
{
    Str method = out_string(c, "method"), way = out_string(c, "coordinate_transformation_mode"),
        round = out_string(c, "rounding_method");
    static const char *const layouts[] = {"NCW", "NCHW", "NCDHW"};
    List size = list_of(c, "size");
    int spatial = out_rank(c, 0) - 2;
    if (sums_elsewhere(c))
        return out_refuse(c, "a result in another element type");
    if (spatial < 1 || spatial > 3 || !is_text(c, "layout", layouts[spatial - 1]) ||
        str_is(way, "tf_crop_and_resize"))
        return out_refuse(c, "another layout than NCHW, or a part of the image");
    const char *to = "Concat(Slice(Shape($0), #[0], #[2]), Cast($1){to=7}){axis=0}";
    if (c->n == 1) {
        for (; size.n > 0 && size.n < spatial; size.n++)
            size.at[size.n] = size.at[0];
        to = all_extents(c, &size);
    }
    bool near = str_is(method, "nearest_neighbor");
    const char *nearest = str_is(round, "floor")                ? "floor"
                          : str_is(round, "ceil")               ? "ceil"
                          : str_is(round, "round_prefer_ceil")  ? "round_prefer_ceil"
                          : str_is(round, "round_prefer_floor") ? "round_prefer_floor"
                          : str_is(way, "asymmetric")           ? "floor"
                                                                : "round_prefer_floor";
    return out_say(c,
                   "Resize($0, _, _, %s)"
                   "{mode=\"%s\", coordinate_transformation_mode=\"%.*s\", nearest_mode=\"%s\", "
                   "cubic_coeff_a=$cubic_alpha, exclude_outside=$cubic_exclude}",
                   to,
                   near                      ? "nearest"
                   : str_is(method, "cubic") ? "cubic"
                                             : "linear",
                   (int)way.len, way.ptr, nearest);
}

/* Of each axis the places of all windows, as a matrix; extents of windows stand behind those of their number. */
static OutValue *windows(OutCall *c)
{
    List shape = list_of(c, "window_shape"), strides = list_of(c, "strides"), perm = {.n = 0};
    int rank = out_rank(c, 0), first = (int)axis_of(c, "axis", rank);
    const char *y = "$0";
    for (int i = 0; i < first; i++)
        perm.at[perm.n++] = i;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < shape.n; i++)
            perm.at[perm.n++] = first + 2 * i + k;
    for (int i = 0; i < shape.n; i++) {
        int64_t d = out_extent(c, 0, first + i);
        if (d < 0)
            return out_refuse(c, "an extent that is known only at run time");
        y = out_text(c,
                     "Gather(%s, Add(Unsqueeze(Mul(Range(#0, #%lld, #1), #%lld), #[1]), "
                     "Range(#0, #%lld, #1))){axis=%d}",
                     y, (long long)((d - shape.at[i]) / strides.at[i] + 1),
                     (long long)strides.at[i], (long long)shape.at[i], first + 2 * i);
    }
    return out_say(c, "Transpose(%s){perm=%s}", y, list_text(c, &perm));
}

static OutValue *spectra(OutCall *c)
{
    int64_t n = out_int(c, "n_fft", -1), hop = out_int(c, "hop_length", -1);
    bool one = out_rank(c, 0) == 1;
    if (out_extent(c, 1, 0) != n)
        return out_refuse(c, "a window of another length than a frame");
    const char *signal = one ? "Unsqueeze($0, #[0, 2])" : "Unsqueeze($0, #[2])";
    const char *y = out_text(c,
                             "Transpose(STFT(%s, #%lld, $1, #%lld){onesided=$onesided})"
                             "{perm=[0, 2, 1, 3]}",
                             signal, (long long)(hop > 0 ? hop : n / 4), (long long)n);
    if (out_int(c, "normalized", 0))
        y = out_text(c, "Div(%s, ~%.17g)", y, sqrt((double)n));
    return out_say(c, one ? "Squeeze(%s, #[0])" : "%s", y);
}

static OutValue *reverse(OutCall *c)
{
    return out_say(c, "Slice($0, #[-1], #[%lld], #[%lld], #[-1])", (long long)-INT64_MAX,
                   (long long)axis_of(c, "axis", out_rank(c, 0)));
}

static OutValue *tile(OutCall *c)
{
    List reps = list_of(c, "reps");
    if (reps.n != out_rank(c, 0))
        return out_refuse(c, "repetitions for another number of axes");
    return out_say(c, "Tile($0, #%s)", list_text(c, &reps));
}

static OutValue *bitwise_not(OutCall *c)
{
    return out_say(c, dtype_eq(out_dtype(c, 0), dtype_of(DT_BOOL)) ? "Not($0)" : "BitwiseNot($0)");
}

/* That of a scalar has a rank of its own here. */
static OutValue *shape_of(OutCall *c)
{
    return out_rank(c, 0) == 0 ? out_refuse(c, "the shape of a scalar")
                               : out_say(c, "Cast(Shape($0)){to=$dtype}");
}

/* The rows that were chosen, zeros behind them, and how many they are. */
static OutValue *suppress(OutCall *c)
{
    const Type *t = type_find(c->out);
    const Type *rows = t->kind == TYPE_TUPLE && t->n == 2 ? type_find(t->parts[0]) : NULL;
    if (!str_is(out_string(c, "output_format"), "onnx") || !rows || rows->dims[0] < 0)
        return out_refuse(
            c, "another form of the result than ONNX's, or extents known only at run time");
    if (!dtype_eq(out_dtype(c, 0), dtype_of(DT_FLOAT32)))
        return out_refuse(c, "boxes in another element type than float32");
    OutCall part = *c;
    OutValue *found = out_say(&part, "NonMaxSuppression($0, $1, $2, $3, $4)");
    part.n = 1;
    part.in = &found;
    OutValue *count = out_say(&part, "Gather(Shape($0), #[0])");
    part.n = 2;
    part.in = (OutValue *[]){found, count};
    part.out = rows;
    OutValue *all =
        out_say(&part, "Concat($0, Expand(#0, Concat(Sub(#[%lld], $1), #[3]){axis=0})){axis=0}",
                (long long)rows->dims[0]);
    count->type = type_find(t->parts[1]);
    OutValue *fields[2] = {all, count};
    return out_tuple(c, 2, fields);
}

/* ---- numbers -------------------------------------------------------------------------------------------------------------------- */

static OutValue *floor_mod(OutCall *c)
{
    return dtype_is_float(out_dtype(c, 0)) ? out_say(c, "Sub($0, Mul($1, Floor(Div($0, $1))))")
                                           : out_say(c, "Mod($0, $1)");
}

static OutValue *floor_divide(OutCall *c)
{
    return dtype_is_float(out_dtype(c, 0)) ? out_say(c, "Floor(Div($0, $1))")
                                           : out_refuse(c, "of integers");
}

static OutValue *shift(OutCall *c)
{
    if (dtype_is_signed(out_dtype(c, 0)))
        return out_refuse(c, "of integers with a sign");
    return out_say(c, "BitShift($0, $1){direction=\"%s\"}",
                   !strcmp(c->op->name, "left_shift") ? "LEFT" : "RIGHT");
}

static OutValue *clip(OutCall *c)
{
    return out_say(c, "Min(Max($0, ~%.9g), ~%.9g)", attrs_float(c->call->attrs, "a_min"),
                   attrs_float(c->call->attrs, "a_max"));
}

static OutValue *quantize(OutCall *c)
{
    DType t = attrs_dtype(c->call->attrs, "out_dtype");
    return out_say(c, "QuantizeLinear($0, $1, Cast($2){to=%d}){axis=$axis}", onnx_dtype_number(t));
}

static OutValue *dequantize(OutCall *c)
{
    return out_say(c, "DequantizeLinear($0, $1, Cast($2){to=%d}){axis=$axis}",
                   onnx_dtype_number(out_dtype(c, 0)));
}

/* ---- the table ------------------------------------------------------------------------------------------------------------------ */

const ExportRule export_rules[] = {
    {"all", NULL, reduce},
    {"any", NULL, reduce},
    {"arange", NULL, arange},
    {"argmax", NULL, arg_reduce},
    {"argmin", NULL, arg_reduce},
    {"argwhere", "Cast(Transpose(NonZero($0)){perm=[1, 0]}){to=6}", NULL},
    {"broadcast_to", NULL, broadcast_to},
    {"broadcast_to_like", "Expand($0, Shape($1))", NULL},
    {"cast", "Cast($0){to=$dtype}", NULL},
    {"cast_like", "CastLike($0, $1)", NULL},
    {"clip", NULL, clip},
    {"concatenate", "Concat($*){axis=$axis}", NULL},
    {"copy", "Identity($0)", NULL},
    {"cumsum", NULL, scan_axis},
    {"dyn.full", "Expand($0, Cast($1){to=7})", NULL},
    {"dyn.reshape", "Reshape($0, Cast($1){to=7})", NULL},
    {"dyn.strided_slice", "Slice($0, $1, $2, Range(#0, Gather(Shape($1), #0), #1), $3)", NULL},
    {"dyn.zeros", NULL, dyn_zeros},
    {"dyn.tile", "Tile($0, Cast($1){to=7})", NULL},
    {"einsum", NULL, einsum},
    {"expand_dims", NULL, expand_dims},
    {"floor_divide", NULL, floor_divide},
    {"floor_mod", NULL, floor_mod},
    {"full", NULL, filled},
    {"full_like", "Expand($1, Shape($0))", NULL},
    {"gather_nd", NULL, gather_nd},
    {"dyn.image.resize2d", NULL, resize},
    {"image.resize1d", NULL, resize},
    {"image.resize2d", NULL, resize},
    {"image.resize3d", NULL, resize},
    {"image.grid_sample", NULL, grid_sample},
    {"isfinite", "Not(Or(IsInf($0), IsNaN($0)))", NULL},
    {"isinf", "IsInf($0)", NULL},
    {"left_shift", NULL, shift},
    {"log10", "Div(Log($0), ~2.302585092994046)", NULL},
    {"log2", "Div(Log($0), ~0.6931471805599453)", NULL},
    {"logsumexp", NULL, reduce},
    {"max", NULL, reduce},
    {"maximum", "Max($0, $1)", NULL},
    {"mean", NULL, reduce},
    {"min", NULL, reduce},
    {"minimum", "Min($0, $1)", NULL},
    {"mod", "Mod($0, $1){fmod=1}", NULL},
    {"nn.adaptive_avg_pool1d", NULL, global_pool},
    {"nn.adaptive_avg_pool2d", NULL, global_pool},
    {"nn.adaptive_avg_pool3d", NULL, global_pool},
    {"nn.adaptive_max_pool1d", NULL, global_pool},
    {"nn.adaptive_max_pool2d", NULL, global_pool},
    {"nn.adaptive_max_pool3d", NULL, global_pool},
    {"nn.avg_pool1d", NULL, pool},
    {"nn.avg_pool2d", NULL, pool},
    {"nn.avg_pool3d", NULL, pool},
    {"nn.batch_flatten", "Flatten($0){axis=1}", NULL},
    {"nn.batch_matmul", NULL, product},
    {"nn.batch_norm", NULL, batch_norm},
    {"nn.bias_add", NULL, bias_add},
    {"nn.conv1d", NULL, conv},
    {"nn.conv1d_transpose", NULL, conv_transpose},
    {"nn.conv2d", NULL, conv},
    {"nn.conv2d_transpose", NULL, conv_transpose},
    {"nn.conv3d", NULL, conv},
    {"nn.conv3d_transpose", NULL, conv_transpose},
    {"bitwise_not", NULL, bitwise_not},
    {"reverse_sequence",
     "ReverseSequence($0, Cast($1){to=7}){time_axis=$seq_axis, batch_axis=$batch_axis}", NULL},
    {"nn.dense", NULL, dense},
    {"nn.dropout", NULL, dropout},
    {"nn.global_avg_pool2d", NULL, global_pool},
    {"nn.global_max_pool2d", NULL, global_pool},
    {"nn.layer_norm", NULL, layer_norm},
    {"nn.log_softmax", "LogSoftmax($0){axis=$axis}", NULL},
    {"nn.matmul", NULL, product},
    {"nn.max_pool1d", NULL, pool},
    {"nn.max_pool2d", NULL, pool},
    {"nn.max_pool3d", NULL, pool},
    {"nn.nll_loss",
     "NegativeLogLikelihoodLoss($0, $1, $2){reduction=$reduction, ignore_index=$ignore_index}",
     NULL},
    {"nn.pad", NULL, pad},
    {"ndarray_size", "Cast(Size($0)){to=$dtype}", NULL},
    {"nn.softmax", "Softmax($0){axis=$axis}", NULL},
    {"not_equal", "Not(Equal($0, $1))", NULL},
    {"one_hot", NULL, one_hot},
    {"ones", NULL, filled},
    {"ones_like", "Expand(~1, Shape($0))", NULL},
    {"power", "Pow($0, $1)", NULL},
    {"prod", NULL, reduce},
    {"qnn.dequantize", NULL, dequantize},
    {"qnn.quantize", NULL, quantize},
    {"repeat", NULL, repeat},
    {"reshape", NULL, reshape},
    {"reshape_like", "Reshape($0, Shape($1))", NULL},
    {"reverse", NULL, reverse},
    {"right_shift", NULL, shift},
    {"round", "Mul(Sign($0), Floor(Add(Abs($0), ~0.5)))", NULL},
    {"rsqrt", "Reciprocal(Sqrt($0))", NULL},
    {"scatter_elements", NULL, scatter_elements},
    {"scatter_nd", NULL, scatter_nd},
    {"shape_of", NULL, shape_of},
    {"split", NULL, split},
    {"squeeze", NULL, squeeze},
    {"stack", NULL, stack},
    {"strided_slice", NULL, strided_slice},
    {"sum", NULL, reduce},
    {"take", NULL, take},
    {"sliding_window", NULL, windows},
    {"stft", NULL, spectra},
    {"tile", NULL, tile},
    {"topk", NULL, topk},
    {"transpose", NULL, transpose},
    {"trunc", "Mul(Sign($0), Floor(Abs($0)))", NULL},
    {"trilu", "Trilu($0, Cast($1){to=7}){upper=$upper}", NULL},
    {"variance", NULL, variance},
    {"vision.all_class_non_max_suppression", NULL, suppress},
    {"zeros", NULL, filled},
    {"zeros_like", "Expand(~0, Shape($0))", NULL},
    {0},
};
