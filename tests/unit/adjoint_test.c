/* The rules of operators for their gradients: each is read and has the types of what it is the gradient by, for all samples of its row, and
 * a mistake in one is shown where it stands. */
#include "base/render.h"
#include "check.h"
#include "parser/parser.h"
#include "passes/adjoint.h"
#include "passes/types.h"
#include "stdlib/stdlib.h"
#include "typecheck/typecheck.h"

#include <ctype.h>

static Ctx cx;
static const Op *tanh_row;

/* ---- samples as programs ----------------------------------------------------------------------------------------- */

/* `float32[2,3]` or a tuple of such, from *at on, as a type. */
static void put_type(Buf *out, const char **at)
{
    if (**at == '(') {
        buf_char(out, '(');
        for (++*at; **at != ')'; *at += strspn(*at, ", ")) {
            put_type(out, at);
            buf_str(out, ", ");
        }
        ++*at;
        buf_char(out, ')');
        return;
    }
    size_t word = strcspn(*at, "[,)"), extents = 0;
    if ((*at)[word] == '[')
        extents = strcspn(*at + word, "]") + 1;
    if (extents)
        buf_printf(out, "Tensor[(%.*s,), %.*s]", (int)extents - 2, *at + word + 1, (int)word, *at);
    else
        buf_bytes(out, *at, word);
    *at += word + extents;
}

static bool at_attribute(const char *at)
{
    while (isalnum((unsigned char)*at) || *at == '_')
        at++;
    return *at == '=';
}

/* The text up to the comma or parenthesis that ends an attribute. */
static size_t attribute_len(const char *at)
{
    size_t n = 0;
    int depth = 0;
    bool quoted = false;
    for (; quoted || depth > 0 || !strchr(",)", at[n]); n++) {
        quoted ^= at[n] == '"';
        depth += !quoted && strchr("([", at[n]) ? 1 : !quoted && strchr(")]", at[n]) ? -1 : 0;
    }
    return n;
}

/* A function that calls the operator on the sample that begins at *at, behind its parenthesis. */
static void put_program(Buf *out, const Op *op, const char **at)
{
    Buf call = {0};
    int n = 0;
    buf_printf(&call, "%s(", op->name);
    buf_str(out, "def @main(");
    for (; **at != ')'; *at += strspn(*at, ", ")) {
        bool attribute = at_attribute(*at);
        if (attribute) {
            size_t len = attribute_len(*at);
            buf_printf(&call, "%.*s, ", (int)len, *at);
            *at += len;
            continue;
        }
        buf_printf(out, "%%p%d: ", n);
        put_type(out, at);
        buf_str(out, ", ");
        buf_printf(&call, "%%p%d, ", n++);
    }
    if (out->at[out->n - 2] == ',')
        out->n -= 2;
    if (call.at[call.n - 2] == ',')
        call.n -= 2;
    ++*at;
    buf_printf(out, ") { %.*s) }\n", (int)call.n, call.at);
    buf_deinit(&call);
}

static void print_diags(void)
{
    for (const Diag *d = cx.diags->first; d; d = d->next) {
        Buf b = {0};
        render_text(&b, &cx.sources, d, (RenderStyle){0});
        printf("%s\n", buf_text(&b));
        buf_deinit(&b);
    }
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

static bool holds_real(const Type *t)
{
    bool real = t->kind == TYPE_TENSOR && dtype_is_float(t->dtype);
    for (uint32_t i = 0; t->kind == TYPE_TUPLE && i < t->n; i++)
        real |= holds_real(type_find(t->parts[i]));
    return real;
}

static Expr *typed_var(Module *m, const Type *t)
{
    Var *v = expr_var(&m->arena, (Span){0}, ctx_name(&cx, "v"), NULL);
    v->base.type = t;
    return &v->base;
}

/* Whether the call in the program has gradients with the types of its arguments. */
static bool has_gradients(Module *m, const Op *op)
{
    const Def *def = module_find_text(m, "main");
    const Call *call = expr_as_call(def->fn->body);
    Expr *out[16];
    AdjointCall adjoint = {.cx = &cx,
                           .arena = &m->arena,
                           .typed = call,
                           .args = call->args.at,
                           .out = typed_var(m, call->base.type),
                           .grad = typed_var(m, call->base.type),
                           .check = true};
    bool good = adjoints(&adjoint, out) && !cx.diags->first;
    for (uint32_t i = 0; good && i < call->args.n; i++) {
        const Type *t = type_find(call->args.at[i]->type);
        expr_type_ops(&cx, out[i]);
        good = out[i]->type && (!holds_real(t) || type_equal(t, out[i]->type));
        if (!good)
            printf("the gradient of %s by argument %u has another type\n", op->name, i + 1);
    }
    return good;
}

static bool check_sample(const Op *op, const char **at)
{
    Buf text = {0};
    put_program(&text, op, at);
    diags_clear(cx.diags);
    limits_start(&cx.limits);
    uint32_t source = sources_add(&cx.sources, "sample", buf_text(&text), text.n);
    Module *m = parse_text(&cx, source, NULL);
    bool good = m && typecheck_module(&cx, m, NULL) && has_gradients(m, op);
    if (!good) {
        printf("%s: %s", op->name, buf_text(&text));
        print_diags();
    }
    module_release(m);
    buf_deinit(&text);
    return good;
}

static bool check_rule(void *data, const Op *op)
{
    int *n = data;
    tanh_row = strcmp(op->name, "tanh") == 0 ? op : tanh_row;
    const char *at = op->grad ? op->samples : "";
    CHECK(!op->grad || strchr(at, '('));
    while ((at = strchr(at, '('))) {
        at++;
        CHECK(check_sample(op, &at));
        ++*n;
    }
    return true;
}

/* ---- mistakes ---------------------------------------------------------------------------------------------------- */

typedef struct Mistake {
    const char *rule, *said;
} Mistake;

static const Mistake mistakes[] = {
    {"multiply(%g, exp(%dat))",
     "error[E0110]: `wrong` has neither an argument nor an attribute `dat`\n"
     "  --> gradient of wrong:1:18\n   |\n"
     " 1 | multiply(%g, exp(%dat))\n   |                  ^^^^\n"},
    {"multiply(%g, %data",
     "error[E0104]: expected `,` or `)`, found the end of the text\n"
     "  --> gradient of wrong:1:19\n   |\n"
     " 1 | multiply(%g, %data\n   |         -         ^\n   |         opened here\n"
     "help: each `(` needs its own `)`\n"},
    {"reverse(%g, axis=1, ax=0)", "error[E0114]: `reverse` has no attribute `ax`\n"
                                  "  --> gradient of wrong:1:21\n   |\n"
                                  " 1 | reverse(%g, axis=1, ax=0)\n   |                     ^^\n"
                                  "help: the attributes of `reverse` are `axis`\n"},
    {"multiply(%g, cast(%data, dtype=\"int32\"))",
     "error[E0203]: `multiply` takes elements of one type, but `lhs` has `float32` and `rhs` has "
     "`int32`\n"},
    {"let %f = fn (%x) { %x }; %f(%g)",
     "error[E0605]: the gradient of `wrong`: a rule calls operators only\n"
     "  --> gradient of wrong:1:26\n   |\n"
     " 1 | let %f = fn (%x) { %x }; %f(%g)\n   |                          ^^^^^^\n"},
};

/* What is said of a rule, by a context that has an operator with it. */
static void said_of(const char *rule, Buf *out)
{
    Op rows[2] = {*tanh_row};
    const Op *families[64] = {rows};
    for (size_t i = 0; stdlib_ops.families[i] && i < 62; i++)
        families[i + 1] = stdlib_ops.families[i];
    const OpTable table = {families};
    rows[0].name = "wrong";
    rows[0].grad = rule;
    const char *at = strchr(tanh_row->samples, '(') + 1;
    Buf text = {0};
    CHECK(ctx_init(&cx, &table));
    limits_start(&cx.limits);
    put_program(&text, rows, &at);
    Module *m = parse_text(&cx, sources_add(&cx.sources, "sample", buf_text(&text), text.n), NULL);
    CHECK(m && typecheck_module(&cx, m, NULL) && !has_gradients(m, rows));
    if (cx.diags->first)
        render_text(out, &cx.sources, cx.diags->first, (RenderStyle){0});
    module_release(m);
    buf_deinit(&text);
    ctx_deinit(&cx);
}

static void test_mistakes(void)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        Buf said = {0};
        said_of(mistakes[i].rule, &said);
        size_t n = strlen(mistakes[i].said);
        bool begins = strncmp(buf_text(&said), mistakes[i].said, n) == 0;
        if (!begins)
            CHECK_TEXT(buf_text(&said), mistakes[i].said);
        CHECK(strstr(buf_text(&said), "--> gradient of wrong:1:"));
        buf_deinit(&said);
    }
}

int main(void)
{
    int n = 0;
    CHECK(ctx_init(&cx, &stdlib_ops));
    limits_start(&cx.limits);
    op_each(&stdlib_ops, check_rule, &n);
    CHECK(n > 150);
    ctx_deinit(&cx);
    test_mistakes();
    return check_done();
}
