/* Typed forms: what stands for a program that is made from a function or a type (passes/forms.h replaces them). They have types and are written
 * like operators, so that the parser, the checker, help and completion need to know nothing of them. */
#include "stdlib/ops/ops.h"

static const DType float_dtype = {DTYPE_CODE_FLOAT, 32, 1};

/* The function that a form is asked of; NULL while it is not known to be one, or after a diagnostic. */
static const Type *form_function(Rel *r)
{
    const Type *f = type_find(r->in[0]);
    if (f->kind == TYPE_HOLE || f->kind == TYPE_POISON)
        return NULL;
    if (f->kind == TYPE_FUNC && !f->n_params)
        return f;
    Diag *d =
        rel_error(r, E0216_OPERATOR_ARGUMENT, 0,
                  f->kind == TYPE_FUNC
                      ? "`%s` takes a function of known types, and this one is polymorphic: `%s`"
                      : "`%s` takes a function, and this is `%s`",
                  r->op->name, type_str(r->cx, f));
    const char *more = r->op->attrs ? ", …" : "";
    if (f->kind == TYPE_FUNC)
        diag_help(d, "a literal that calls it says at which types: `%s(fn (%%x: float32) { … }%s)`",
                  r->op->name, more);
    else
        diag_help(d, "`%s(@f%s)` takes a definition, `%s(fn (%%x: float32) { … }%s)` a literal",
                  r->op->name, more, r->op->name, more);
    r->failed = true;
    return NULL;
}

static const Type *tuple_of_params(Rel *r, const Type *f)
{
    return type_tuple(r->cx, f->n, f->parts);
}

/* fn (T…) -> R  =>  fn (T…) -> (T…,) */
static RelResult rel_grad(Rel *r)
{
    const Type *f = form_function(r);
    return f ? rel_set_output(r, type_func(r->cx, 0, NULL, f->n, f->parts, tuple_of_params(r, f)))
             : rel_blocked(r);
}

/* =>  fn (T…) -> (R, (T…,)) */
static RelResult rel_value_and_grad(Rel *r)
{
    const Type *f = form_function(r);
    if (!f)
        return rel_blocked(r);
    const Type *both[2] = {f->result, tuple_of_params(r, f)};
    return rel_set_output(r, type_func(r->cx, 0, NULL, f->n, f->parts, type_tuple(r->cx, 2, both)));
}

/* =>  fn (T…) -> (R, fn (R) -> (T…,)) */
static RelResult rel_vjp(Rel *r)
{
    const Type *f = form_function(r);
    if (!f)
        return rel_blocked(r);
    const Type *both[2] = {f->result,
                           type_func(r->cx, 0, NULL, 1, &f->result, tuple_of_params(r, f))};
    return rel_set_output(r, type_func(r->cx, 0, NULL, f->n, f->parts, type_tuple(r->cx, 2, both)));
}

/* =>  fn (T…, T…) -> (R, R) */
static RelResult rel_jvp(Rel *r)
{
    const Type *f = form_function(r);
    if (!f)
        return rel_blocked(r);
    const Type *both[2] = {f->result, f->result};
    const Type **parts = arena_alloc_must(ctx_scratch(r->cx), 2 * (size_t)f->n + 1, sizeof *parts);
    for (uint32_t i = 0; i < 2 * f->n; i++)
        parts[i] = f->parts[i % f->n];
    return rel_set_output(r,
                          type_func(r->cx, 0, NULL, 2 * f->n, parts, type_tuple(r->cx, 2, both)));
}

static RelResult rel_pass(Rel *r)
{
    const Type *f = form_function(r);
    return f ? rel_set_output(r, f) : rel_blocked(r);
}

/* The type of the values of the tuple, of which the function takes a number each; NULL while it is not known. */
static const Type *type_of_each(Rel *r)
{
    const Type *values = type_find(r->in[1]), *one = NULL,
               *number = type_scalar(r->cx, float_dtype);
    if (values->kind == TYPE_HOLE || values->kind == TYPE_POISON)
        return NULL;
    if (values->kind != TYPE_TUPLE || !values->n) {
        Diag *d = rel_error(r, E0216_OPERATOR_ARGUMENT, 1,
                            "`%s` takes a tuple of values of one type, and this is `%s`",
                            r->op->name, type_str(r->cx, values));
        diag_help(d, "a single value is a tuple too: `%s(fn (%%x) { … }, (%%w,))`", r->op->name);
        r->failed = true;
        return NULL;
    }
    const Type **numbers = arena_alloc_must(ctx_scratch(r->cx), values->n, sizeof *numbers);
    const Type **same = arena_alloc_must(ctx_scratch(r->cx), values->n, sizeof *same);
    for (uint32_t i = 0; i < values->n && !one; i++)
        one = type_find(values->parts[i])->kind == TYPE_HOLE ? NULL : values->parts[i];
    for (uint32_t i = 0; i < values->n; i++) {
        numbers[i] = number;
        same[i] = one;
    }
    r->failed = (one && !rel_set_input(r, 1, type_tuple(r->cx, values->n, same))) ||
                !rel_set_input(r, 0, type_func(r->cx, 0, NULL, values->n, numbers, number));
    return r->failed ? NULL : one;
}

/* fn (float32, …) -> float32, (W, …)  =>  W */
static RelResult rel_each(Rel *r)
{
    const Type *one = type_of_each(r);
    return one ? rel_set_output(r, one) : rel_blocked(r);
}

/* fn (float32, …) -> float32, (W, …)  =>  float32 */
static RelResult rel_total(Rel *r)
{
    bool known = type_of_each(r);
    return known ? rel_set_output(r, type_scalar(r->cx, float_dtype)) : rel_blocked(r);
}

/* key, W  =>  W */
static RelResult rel_initial(Rel *r)
{
    const Type *like = type_find(r->in[1]);
    const Type *key = type_tensor(r->cx, (DType){DTYPE_CODE_UINT, 64, 1}, 1, (Dim[]){10});
    if (!rel_set_input(r, 0, key))
        return REL_FAILED;
    bool known = like->kind != TYPE_HOLE && like->kind != TYPE_POISON;
    return known ? rel_set_output(r, like) : rel_blocked(r);
}

static const OpArg form_args[] = {
    {"f", "a function: a definition, a literal, or a variable that is bound to one"}, {0}};
static const OpAttr pass_attrs[] = {ATTR_MUST("passes", STRING, "a pipeline, as `opt -p` takes it"),
                                    {0}};

static const OpArg each_args[] = {
    {"f", "what becomes of a number, in operators that work element by element"},
    {"values", "a tuple of values of one type"},
    {0}};
static const OpArg initial_args[] = {
    {"key", "of the random numbers"}, {"like", "a value of the type"}, {0}};
static const OpAttr initial_attrs[] = {ATTR_S("scheme", "he",
                                              "`he`, `xavier` or `lecun`: the numbers' variance, "
                                              "by what goes into a layer and comes out"),
                                       {0}};

/* An example is a cell by itself. */
#define FORM(NAME, ARGS, ATTRS, REL, SHAPES, EXAMPLE, DOC) \
    {.name = NAME,                                         \
     .doc = DOC,                                           \
     .args = ARGS,                                         \
     .attrs = ATTRS,                                       \
     .shapes = SHAPES,                                     \
     .samples = "",                                        \
     .example = EXAMPLE,                                   \
     .pattern = OP_OPAQUE,                                 \
     .flags = OP_FORM | OP_STATEFUL,                       \
     .no_grad = "it stands for a program, which has one",  \
     .rel = REL}

const Op forms_ops[] = {
    FORM("grad", form_args, NULL, rel_grad, "fn (T...) -> R => fn (T...) -> (T...,)",
         "grad(fn (%x: Tensor[(3), float32]) { sum(%x * %x) })(1f * ones(shape=[3]))",
         "The derivatives of the result, the sum of it where it is no scalar, by each parameter."),
    FORM("value_and_grad", form_args, NULL, rel_value_and_grad,
         "fn (T...) -> R => fn (T...) -> (R, (T...,))",
         "value_and_grad(fn (%x: float32) { exp(%x) * %x })(2f)",
         "The result and its derivatives by each parameter."),
    FORM("vjp", form_args, NULL, rel_vjp, "fn (T...) -> R => fn (T...) -> (R, fn (R) -> (T...,))",
         "let %r = vjp(fn (%x: float32) { (%x, %x * %x) })(3f);\n(%r.1)((1f, 10f))",
         "The result and the function that makes the adjoints of the parameters out of that of the "
         "result (reverse mode)."),
    FORM("jvp", form_args, NULL, rel_jvp, "fn (T...) -> R => fn (T..., T...) -> (R, R)",
         "jvp(fn (%x: float32) { sin(%x) })(0f, 1f)",
         "The result and how it changes when the parameters change by the second half of the "
         "arguments (forward mode)."),
    FORM("pass", form_args, pass_attrs, rel_pass, "function -> the same type",
         "pass(fn (%x: float32) { %x + (1f + 2f) }, passes=\"FoldConstant\")(1f)",
         "The function after a pipeline of passes."),
    FORM("each", each_args, NULL, rel_each, "fn (float32, ...) -> float32, (W, ...) => W",
         "each(fn (%m, %g) { 0.9f * %m + %g }, ((1f, ones(shape=[2])), (2f, ones(shape=[2]))))",
         "The function of all numbers of a value, or of several of one type, in their places: "
         "those of "
         "floating tensors in tuples and data; what else is in them is that of the first."),
    FORM("total", each_args, NULL, rel_total, "fn (float32, ...) -> float32, (W, ...) => float32",
         "total(fn (%x) { %x * %x }, ((3f, ones(shape=[2])),))",
         "The sum of a function of all numbers of a value, or of several of one type, as `each` "
         "takes "
         "it."),
    FORM(
        "initial", initial_args, initial_attrs, rel_initial, "key, W => W",
        "initial(zeros(shape=[10], dtype=\"uint64\"), (zeros(shape=[2, 3]), zeros(shape=[2]))).1",
        "Random numbers in place of the floating tensors of a value that have two axes or more, as "
        "many go into each of the first: weights. The others stay as they are."),
    {0},
};
