/* Marks for passes, and the operators of explicit memory: what a program means is the same without them. */
#include "ir/module.h"
#include "stdlib/ops/ops.h"

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

/* The same tensor, where its extents are those that are known. */
static RelResult rel_expected(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    Dim want[TENSOR_RANK_MOST];
    if (!t)
        return rel_blocked(r);
    int n = attrs_ints(r->attrs, "shape", want, TENSOR_RANK_MOST);
    bool fits = n == (int)t->n;
    for (int i = 0; i < n; i++) {
        want[i] = want[i] < 0 ? DIM_ANY : want[i];
        fits = fits && (want[i] < 0 || t->dims[i] < 0 || t->dims[i] == want[i]);
    }
    if (fits)
        return rel_set_output(r, t);
    Diag *d =
        rel_error(r, E0202_SHAPE, 0, "a `%s` stands where `%s` is declared", type_str(r->cx, t),
                  type_str(r->cx, n < 0 ? t : type_tensor(r->cx, t->dtype, (uint32_t)n, want)));
    diag_help(d, "`?` in the declared type takes any extent");
    return REL_FAILED;
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

/* Storage is of the type that the module has for it, elsewhere of that of nothing: nobody looks into its values. */
static RelResult rel_storage(Rel *r)
{
    const Name *name = ctx_name(r->cx, "Storage");
    const TypeDef *def = r->module ? module_find_type(r->module, name) : NULL;
    def = def || !r->env ? def : module_find_type(r->env, name);
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    if (!rel_is_int(r, 0, t) || !rel_is_scalar(r, 0, t))
        return REL_FAILED;
    return def && def->n_params == 0 ? rel_set_output(r, type_adt(r->cx, def, 0, NULL))
                                     : rel_unit(r);
}

static int ints_of_value(const Value *v, Dim *out)
{
    TensorView view;
    int n = -1;
    if (v && value_view(v, &view))
        for (n = 0; n < view.t.size && n < TENSOR_RANK_MOST; n++)
            out[n] = tensor_get_int(&view.t, n);
    return n;
}

/* The shape as attributes say it, or the value of the argument: how many extents, or -1. */
static int shape_in_storage(const Attrs *a, const Value *given, Dim *out)
{
    const AttrValue *known = attrs_find(a, "const_shape");
    if (known->kind == ATTR_LIST)
        return attrs_ints(a, "const_shape", out, TENSOR_RANK_MOST);
    if (known->kind == ATTR_EXPR)
        return ints_of_value(&expr_as_constant(known->e)->value, out);
    int n = attrs_ints(a, "assert_shape", out, TENSOR_RANK_MOST);
    return n < 0 ? ints_of_value(given, out) : n;
}

static bool shape_is_sound(Rel *r, int n, const Dim *dims)
{
    const AttrValue *known = attrs_find(r->attrs, "const_shape");
    const Constant *c = known->kind == ATTR_EXPR ? expr_as_constant(known->e) : NULL;
    TensorView v;
    bool sound = known->kind != ATTR_EXPR ||
                 (c && value_view(&c->value, &v) && v.t.rank == 1 && dtype_is_int(v.t.dtype));
    for (int i = 0; sound && i < n; i++)
        sound = dims[i] >= 0;
    if (!sound)
        rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "the shape of `%s` must be a list of extents",
                  r->op->name);
    return sound;
}

static RelResult rel_tensor_in_storage(Rel *r)
{
    const Type *shape = rel_tensor(r, 2);
    DType d = ops_dtype(r->attrs, "dtype", float32_dtype);
    Dim dims[TENSOR_RANK_MOST];
    if (!shape)
        return rel_blocked(r);
    if (!rel_is_int(r, 2, shape) || !rel_rank(r, 2, shape, 1) || !shape_is_sound(r, 0, NULL))
        return REL_FAILED;
    int n = shape_in_storage(r->attrs, r->values ? r->values[2] : NULL, dims);
    if (n < 0)
        return rel_unknown(r, d, shape->dims[0]);
    return shape_is_sound(r, n, dims) ? rel_out_tensor(r, d, (uint32_t)n, dims) : REL_FAILED;
}

static bool kernel_tensor_in_storage(OpCall *c)
{
    Dim dims[TENSOR_RANK_MOST];
    int n = shape_in_storage(c->attrs, &c->args[2], dims);
    for (int i = 0; i < n; i++)
        if (dims[i] < 0) {
            diag_error(c->cx->diags, E0303_RUNTIME_SHAPE, c->span,
                       "`%s` gives an extent below zero", c->op->name);
            return false;
        }
    return kernel_set(
        c, tensor_new(&c->cx->limits, ops_dtype(c->attrs, "dtype", float32_dtype), n, dims));
}

/* ---- rows ----------------------------------------------------------------------------------------- */

#define DEVICE(NAME, DOC) ATTR_NONE(NAME, DEVICE, DOC)
#define SHOWN(NAME, TYPE, DOC)       \
    {.name = NAME,                   \
     .type = ATTR_TYPE_##TYPE,       \
     .or_none = true,                \
     .shown = true,                  \
     .otherwise = ATTR_DEFAULT_NONE, \
     .doc = DOC}
static const OpAttr compiler_attrs[] = {ATTR_MUST("compiler", STRING, "who compiles the region"),
                                        {0}};
static const OpAttr hint_attrs[] = {ATTR_MUST("dtype", DTYPE, "the type to quantise to"), {0}};
static const OpAttr expected_attrs[] = {
    ATTR_MUST("shape", INTS, "an extent for each axis; -1 is any"), {0}};
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
    SHOWN("const_shape", INTS_OR_EXPR, "the shape, where it is known before"),
    SHOWN("assert_shape", INTS, "the shape that a type was given"),
    {0}};
static const OpAttr lowered_attrs[] = {ATTR_NONE("metadata", ANY, "what passes note"), {0}};

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

#define IS_CODE "it calls code that was made before"

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
    {.name = "annotation.expect_shape",
     .doc = "The same tensor; one of another shape is an error when it comes here.",
     .args = args_data,
     .attrs = expected_attrs,
     .shapes = "(d...) -> (d...)",
     .samples = "(float32[2,3], shape=[2, -1])",
     .pattern = OP_OPAQUE,
     .rel = rel_expected,
     .kernel = kernel_any,
     .grad = "%g"},
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
     .doc = "Memory for tensors, of type `Storage` where the module has one.",
     .args = storage_args,
     .attrs = storage_attrs,
     .shapes = "(), (r), () -> Storage[]",
     .samples = "(int64, int64[1], int64)",
     .pattern = OP_OPAQUE,
     .flags = OP_NON_COMPUTATIONAL | OP_ANY_VALUE | OP_ONE_FEWER,
     .rel = rel_storage,
     .kernel = kernel_unit},
    {.name = "memory.alloc_tensor",
     .doc = "A tensor in memory that was asked for; its elements are 0.",
     .args = tensor_args,
     .attrs = tensor_attrs,
     .shapes = "Storage[], (), (r) -> (shape...)",
     .samples = "(int64, int64, int64[2])",
     .pattern = OP_OPAQUE,
     .flags = OP_NON_COMPUTATIONAL | OP_SHAPE_FROM_DATA | OP_ANY_VALUE,
     .rel = rel_tensor_in_storage,
     .kernel = kernel_tensor_in_storage},
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
     .rel = rel_unit,
     .no_grad = IS_CODE},
    {.name = "call_lowered",
     .doc = "Calls a primitive function that was compiled before.",
     .args = lowered_args,
     .attrs = lowered_attrs,
     .shapes = "function, arguments -> the function's result",
     .samples = "",
     .pattern = OP_OPAQUE,
     .flags = OP_NON_COMPUTATIONAL,
     .rel = rel_called,
     .no_grad = IS_CODE},
    {0},
};
