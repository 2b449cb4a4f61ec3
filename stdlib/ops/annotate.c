/* Marks for passes, and the operators of explicit memory: what a program means is the same without them. */
#include "stdlib/ops/ops.h"

static const DType byte_dtype = {DTYPE_CODE_UINT, 8, 1};
static const DType float32_dtype = {DTYPE_CODE_FLOAT, 32, 1};

/* ---- marks ---------------------------------------------------------------------------------------- */

static void compute_same(TeBuilder *b)
{
    te_output(b, te_input(b, 0));
}

/* The same value, of whatever type: the tensor itself, a tuple, a reference. */
static RelResult rel_any(Rel *r)
{
    return rel_set_output(r, r->in[0]);
}

static bool kernel_any(OpCall *c)
{
    c->out = value_retain(c->args[0]);
    return true;
}

static RelResult rel_unit(Rel *r)
{
    return rel_set_output(r, type_tuple(r->cx, 0, NULL));
}

static bool kernel_unit(OpCall *c)
{
    return kernel_set_tuple(c, 0, NULL);
}

/* A call of argument 0 on the fields of argument 1: the result of the function. */
static RelResult rel_called(Rel *r)
{
    const Type *f = type_find(r->in[0]);
    if (f->kind == TYPE_FUNC)
        return rel_set_output(r, f->result);
    if (f->kind == TYPE_HOLE)
        return REL_WAIT;
    rel_error(r, E0216_OPERATOR_ARGUMENT, 0, "`%s` calls a function, but this is %s", r->op->name,
              type_str(r->cx, f));
    return REL_FAILED;
}

/* ---- memory --------------------------------------------------------------------------------------- */

/* Storage is a vector of bytes whose length is known when the program runs. */
static RelResult rel_storage(Rel *r)
{
    Dim bytes = DIM_ANY;
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    if (!rel_is_int(r, 0, t) || !rel_is_scalar(r, 0, t))
        return REL_FAILED;
    if (rel_ints_of(r, 0, &bytes, 1) == 1 && bytes < 0)
        bytes = 0;
    return rel_out_tensor(r, byte_dtype, 1, &bytes);
}

/* The shape is argument 2, or, where it is known before, `const_shape`. */
static RelResult rel_tensor_in_storage(Rel *r)
{
    const Type *shape = rel_tensor(r, 2);
    DType d = ops_dtype(r->attrs, "dtype", float32_dtype);
    Dim dims[TENSOR_RANK_MOST];
    if (!shape)
        return rel_blocked(r);
    if (!rel_is_int(r, 2, shape) || !rel_rank(r, 2, shape, 1))
        return REL_FAILED;
    int n = rel_ints_of(r, 2, dims, TENSOR_RANK_MOST);
    if (n < 0)
        n = attrs_ints(r->attrs, "const_shape", dims, TENSOR_RANK_MOST);
    return n < 0 ? rel_unknown(r, d, shape->dims[0]) : rel_out_tensor(r, d, (uint32_t)n, dims);
}

/* ---- rows ----------------------------------------------------------------------------------------- */

#define DEVICE(NAME, DOC) ATTR_NONE(NAME, STRING, DOC)
static const OpAttr compiler_attrs[] = {ATTR_MUST("compiler", STRING, "who compiles the region"),
                                        {0}};
static const OpAttr hint_attrs[] = {ATTR_MUST("dtype", DTYPE, "the type to quantise to"), {0}};
static const OpAttr device_attrs[] = {DEVICE("virtual_device", "where the value is to be"),
                                      ATTR_B("constrain_result", 0, "the result is there, too"),
                                      ATTR_B("constrain_body", 1, "the value is computed there"),
                                      {0}};
static const OpAttr copy_attrs[] = {DEVICE("src_virtual_device", "where the value is"),
                                    DEVICE("dst_virtual_device", "where it is to be"),
                                    {0}};
static const OpAttr funcid_attrs[] = {ATTR_I("fid", -1, "the number"), {0}};
static const OpAttr debug_attrs[] = {
    ATTR_NONE("debug_func", STRING, "what is told about the value"), {0}};
static const OpAttr storage_attrs[] = {ATTR_D("dtype", "float32", "the type of the elements"),
                                       DEVICE("virtual_device", "where the memory is"),
                                       {0}};
static const OpAttr tensor_attrs[] = {
    ATTR_D("dtype", "float32", "the type of the elements"),
    ATTR_NONE("const_shape", INTS, "the shape, where it is known before"),
    ATTR_NONE("assert_shape", INTS, "the shape that a type was given"),
    {0}};
static const OpAttr lowered_attrs[] = {ATTR_NONE("metadata", STRING, "what passes note"), {0}};

static const OpArg value_args[] = {{"data", "a value"}, {0}};
static const OpArg storage_args[] = {{"size", "how many bytes: a scalar"},
                                     {"shape", "the extents of the tensor it is for"},
                                     {"alignment", "what its address is a multiple of: a scalar"},
                                     {0}};
static const OpArg tensor_args[] = {{"storage", "from `memory.alloc_storage`"},
                                    {"offset", "where in it the tensor begins: a scalar"},
                                    {"shape", "the extents"},
                                    {0}};
static const OpArg kill_args[] = {{"to_free", "what nobody needs any more"}, {0}};
static const OpArg invoke_args[] = {{"func", "a primitive function"},
                                    {"inputs", "a tuple of its arguments"},
                                    {"outputs", "a tuple of tensors that get its results"},
                                    {0}};
static const OpArg lowered_args[] = {
    {"func", "a primitive function"}, {"inputs", "a tuple of its arguments"}, {0}};

#define MARK(NAME, ATTRS, SAMPLES, DOC) \
    {.name = NAME,                      \
     .doc = DOC,                        \
     .args = args_data,                 \
     .attrs = ATTRS,                    \
     .shapes = "(d...) -> (d...)",      \
     .samples = SAMPLES,                \
     .pattern = OP_OPAQUE,              \
     .rel = rel_same,                   \
     .compute = compute_same,           \
     .grad = "%g"}

#define MARK_ANY(NAME, ATTRS, SAMPLES, DOC) \
    {.name = NAME,                          \
     .doc = DOC,                            \
     .args = value_args,                    \
     .attrs = ATTRS,                        \
     .shapes = "(d...) -> (d...)",          \
     .samples = SAMPLES,                    \
     .pattern = OP_OPAQUE,                  \
     .flags = OP_ANY_VALUE,                 \
     .rel = rel_any,                        \
     .kernel = kernel_any,                  \
     .grad = "%g"}

const Op annotate_ops[] = {
    MARK("annotation.stop_fusion", NULL, "(float32[2,3])",
         "The same tensor; operators on its two sides are never fused."),
    MARK_ANY("annotation.checkpoint", NULL, "(float32[2,3]) ((float32[2], int32))",
             "The same value, of any type; the gradient computes it again rather than keep it."),
    MARK_ANY("annotation.compiler_begin", compiler_attrs, "(float32[2,3], compiler=\"other\")",
             "The same value, of any type; here a region begins that another compiler is given."),
    MARK_ANY("annotation.compiler_end", compiler_attrs, "(float32[2,3], compiler=\"other\")",
             "The same value, of any type; here a region ends that another compiler is given."),
    MARK("annotation.cast_hint", hint_attrs, "(float32[2,3], dtype=\"int8\")",
         "The same tensor, which quantisation should hold in another type."),
    MARK("annotation.bitpack_start", NULL, "(float32[2,3])",
         "The same tensor; here a region of packed bits begins."),
    MARK("annotation.bitpack_end", NULL, "(float32[2,3])",
         "The same tensor; here a region of packed bits ends."),
    MARK("device_copy", copy_attrs, "(float32[2,3])", "The same tensor, on another device."),
    {.name = "on_device",
     .doc = "The same value, which is to be on a device.",
     .args = value_args,
     .attrs = device_attrs,
     .shapes = "the same type",
     .samples = "(float32[2,3])",
     .pattern = OP_OPAQUE,
     .flags = OP_NON_COMPUTATIONAL | OP_ANY_VALUE,
     .rel = rel_any,
     .kernel = kernel_any,
     .grad = "%g"},
    {.name = "annotation.with_funcid",
     .doc = "The same value: a function with the number under which partial evaluation knows it.",
     .args = value_args,
     .attrs = funcid_attrs,
     .shapes = "the same type",
     .samples = "(float32[2,3])",
     .pattern = OP_OPAQUE,
     .flags = OP_ANY_VALUE,
     .rel = rel_any,
     .kernel = kernel_any,
     .grad = "%g"},
    {.name = "debug",
     .doc = "The same value; a place where a host can look at it.",
     .args = value_args,
     .attrs = debug_attrs,
     .shapes = "the same type",
     .samples = "(float32[2,3])",
     .pattern = OP_OPAQUE,
     .flags = OP_ANY_VALUE,
     .rel = rel_any,
     .kernel = kernel_any,
     .grad = "%g"},
    {.name = "memory.alloc_storage",
     .doc = "Memory for tensors: a vector of bytes.",
     .args = storage_args,
     .attrs = storage_attrs,
     .shapes = "(), (r), () -> (size)",
     .samples = "(int64, int64[1], int64)",
     .pattern = OP_OPAQUE,
     .flags = OP_NON_COMPUTATIONAL | OP_SHAPE_FROM_DATA,
     .rel = rel_storage,
     .compute = compute_zeros},
    {.name = "memory.alloc_tensor",
     .doc = "A tensor in memory that was asked for; its elements are 0.",
     .args = tensor_args,
     .attrs = tensor_attrs,
     .shapes = "(size), (), (r) -> (shape...)",
     .samples = "(uint8[64], int64, int64[2])",
     .pattern = OP_OPAQUE,
     .flags = OP_NON_COMPUTATIONAL | OP_SHAPE_FROM_DATA,
     .rel = rel_tensor_in_storage,
     .compute = compute_zeros},
    {.name = "memory.kill",
     .doc = "Says that nobody needs a value any more.",
     .args = kill_args,
     .shapes = "any type -> ()",
     .samples = "(float32[2,3])",
     .pattern = OP_OPAQUE,
     .flags = OP_NON_COMPUTATIONAL | OP_STATEFUL | OP_ANY_VALUE,
     .rel = rel_unit,
     .kernel = kernel_unit},
    {.name = "vm.invoke_tvm_op",
     .doc = "Calls a primitive function that writes its results into tensors.",
     .args = invoke_args,
     .shapes = "function, arguments, results -> ()",
     .samples = "",
     .pattern = OP_OPAQUE,
     .flags = OP_NON_COMPUTATIONAL | OP_STATEFUL,
     .rel = rel_unit},
    {.name = "call_lowered",
     .doc = "Calls a primitive function that was compiled before.",
     .args = lowered_args,
     .attrs = lowered_attrs,
     .shapes = "function, arguments -> the function's result",
     .samples = "",
     .pattern = OP_OPAQUE,
     .flags = OP_NON_COMPUTATIONAL,
     .rel = rel_called},
    {0},
};
