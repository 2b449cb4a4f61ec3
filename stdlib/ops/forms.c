/* Typed forms: what stands for a program that is made from a function (passes/forms.h replaces them). They have types and are written
 * like operators, so that the parser, the checker, help and completion need to know nothing of them. */
#include "stdlib/ops/ops.h"

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
    diag_help(d, "`%s(@f)` takes a definition, `%s(fn (%%x: float32) { … })` a literal",
              r->op->name, r->op->name);
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

static const OpArg form_args[] = {
    {"f", "a function: a definition, a literal, or a variable that is bound to one"}, {0}};
static const OpAttr pass_attrs[] = {ATTR_MUST("passes", STRING, "a pipeline, as `opt -p` takes it"),
                                    {0}};

/* An example is a cell by itself. */
#define FORM(NAME, ATTRS, REL, SHAPES, EXAMPLE, DOC)      \
    {.name = NAME,                                        \
     .doc = DOC,                                          \
     .args = form_args,                                   \
     .attrs = ATTRS,                                      \
     .shapes = SHAPES,                                    \
     .samples = "",                                       \
     .example = EXAMPLE,                                  \
     .pattern = OP_OPAQUE,                                \
     .flags = OP_FORM | OP_STATEFUL,                      \
     .no_grad = "it stands for a program, which has one", \
     .rel = REL}

const Op forms_ops[] = {
    FORM("grad", NULL, rel_grad, "fn (T...) -> R => fn (T...) -> (T...,)",
         "grad(fn (%x: Tensor[(3), float32]) { sum(%x * %x) })(1f * ones(shape=[3]))",
         "The derivatives of the result, the sum of it where it is no scalar, by each parameter."),
    FORM("value_and_grad", NULL, rel_value_and_grad, "fn (T...) -> R => fn (T...) -> (R, (T...,))",
         "value_and_grad(fn (%x: float32) { exp(%x) * %x })(2f)",
         "The result and its derivatives by each parameter."),
    FORM("vjp", NULL, rel_vjp, "fn (T...) -> R => fn (T...) -> (R, fn (R) -> (T...,))",
         "let %r = vjp(fn (%x: float32) { (%x, %x * %x) })(3f);\n(%r.1)((1f, 10f))",
         "The result and the function that makes the adjoints of the parameters out of that of the "
         "result (reverse mode)."),
    FORM("jvp", NULL, rel_jvp, "fn (T...) -> R => fn (T..., T...) -> (R, R)",
         "jvp(fn (%x: float32) { sin(%x) })(0f, 1f)",
         "The result and how it changes when the parameters change by the second half of the "
         "arguments (forward mode)."),
    FORM("pass", pass_attrs, rel_pass, "function -> the same type",
         "pass(fn (%x: float32) { %x + (1f + 2f) }, passes=\"FoldConstant\")(1f)",
         "The function after a pipeline of passes."),
    {0},
};
