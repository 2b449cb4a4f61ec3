/* Products of the same data with several weights as one.
 *
 *     (nn.dense(%x, %a, units=4), nn.dense(%x, %b, units=4))
 *  => %0 = split(nn.batch_matmul(stack((%x, %x)), stack((%a, %b)), transpose_b=True), indices_or_sections=2);
 *     (squeeze(%0.0, axis=[0]), squeeze(%0.1, axis=[0]))
 *
 * With to_batch=False as one product with all units. */
#include "passes/combine_parallel.h"
#include "passes/types.h"

static bool same_dtypes(const Call *a, const Call *b)
{
    static const char *const keys[] = {"out_dtype", NULL};
    const Type *ta = expr_tensor_type(a->args.at[1]), *tb = expr_tensor_type(b->args.at[1]);
    return combine_same_attrs(a, b, keys) && dtype_eq(ta->dtype, tb->dtype) && ta->n == 2 &&
           ta->dims[1] == tb->dims[1];
}

static bool same_weights(const Call *a, const Call *b)
{
    const Type *ta = expr_tensor_type(a->args.at[1]), *tb = expr_tensor_type(b->args.at[1]);
    const Type *out = expr_tensor_type(&a->base);
    return same_dtypes(a, b) && out->n == 2 && ta->dims[0] == tb->dims[0];
}

static int units_axis(const Call *call)
{
    (void)call;
    return -1;
}

static int weight_axis(const Call *call)
{
    (void)call;
    return 0;
}

static Expr *whole_batch(const OpsMake *m, const Call *first, Expr *data, Expr *weight,
                         int64_t size)
{
    (void)size;
    Expr *args[2] = {data, weight};
    Attr attrs[2] = {{.key = "out_dtype", .value = *attrs_find(first->attrs, "out_dtype")},
                     ops_attr_bool("transpose_b", true)};
    return ops_call(m, "nn.batch_matmul", 2, args, 2, attrs);
}

static Expr *whole(const OpsMake *m, const Call *first, Expr *data, Expr *weight, int64_t size)
{
    Expr *args[2] = {data, weight};
    const Attrs *attrs =
        attrs_with(m->arena, first->attrs, "units", (AttrValue){.kind = ATTR_INT, .i = size});
    return expr_call(m->arena, m->span, first->callee, 2, args, attrs);
}

static const Combiner joined = {.op = "nn.dense",
                                .repeats = true,
                                .alike = same_dtypes,
                                .weight_axis = weight_axis,
                                .out_axis = units_axis,
                                .whole = whole};
static const Combiner stacked = {.op = "nn.dense",
                                 .stacked = true,
                                 .alike = same_weights,
                                 .weight_axis = weight_axis,
                                 .out_axis = units_axis,
                                 .whole = whole_batch};

static Function *combine(PassRun *run, const Def *def)
{
    const Combiner *how = attrs_bool(run->params, "to_batch") ? &stacked : &joined;
    return combine_parallel(run, def, how, attrs_int(run->params, "min_num_branches", 3));
}

static const OpAttr params[] = {
    {"min_num_branches", ATTR_TYPE_INT, .otherwise = ATTR_DEFAULT_INT(3), .most = INT64_MAX,
     .doc = "how many branches there must be"},
    {"to_batch", ATTR_TYPE_BOOL, .otherwise = ATTR_DEFAULT_BOOL(true),
     .doc = "makes a product of batches; else one of more units"},
    {0},
};

const Pass pass_combine_parallel_dense = {
    .name = "CombineParallelDense",
    .doc = "Makes one product of several of the same data with weights.",
    .opt_level = 4,
    .needs_types = true,
    .order = ORDER_ALL,
    .params = params,
    .function = combine,
};
