/* Documentation of operators from their rows. */
#include "session/op_doc.h"

#include "interp/interp.h"
#include "ir/print.h"
#include "te/te.h"
#include "parser/parser.h"
#include "runtime/show.h"
#include "passes/forms.h"
#include "typecheck/typecheck.h"

#include <stdio.h>
#include <string.h>

/* ---- samples: "(float32[2,3], (int32[2], bool), axis=0)" --------------------------------------------- */

/* The part of a sample up to the next comma or bracket that closes it. */
static Str next_part(const char **at)
{
    const char *from = *at += strspn(*at, " ,");
    int depth = 0;
    bool quoted = false;
    for (; **at; ++*at) {
        char c = **at;
        quoted ^= c == '"';
        if (quoted)
            continue;
        if (depth == 0 && (c == ',' || c == ')'))
            break;
        depth += c == '(' || c == '[';
        depth -= c == ')' || c == ']';
    }
    return (Str){from, (size_t)(*at - from)};
}

static bool is_attribute(Str part)
{
    const char *equal = part.len ? memchr(part.ptr, '=', part.len) : NULL;
    return equal && part.ptr[0] != '(';
}

static Str dtype_word(Str part)
{
    const char *bracket = memchr(part.ptr, '[', part.len);
    return (Str){part.ptr, bracket ? (size_t)(bracket - part.ptr) : part.len};
}

/* The extents between the brackets, with blanks behind commas; empty for a scalar. */
static void put_extents(Buf *b, Str part)
{
    Str word = dtype_word(part);
    for (size_t i = word.len + 1; i + 1 < part.len; i++) {
        buf_char(b, part.ptr[i]);
        if (part.ptr[i] == ',')
            buf_char(b, ' ');
    }
}

static int64_t elements(Str part)
{
    int64_t n = 1, d = 0;
    for (size_t i = dtype_word(part).len + 1; i < part.len; i++) {
        if (part.ptr[i] >= '0' && part.ptr[i] <= '9') {
            d = 10 * d + part.ptr[i] - '0';
            continue;
        }
        n *= d;
        d = 0;
    }
    return n;
}

/* A type of a sample in Relay's words. */
static void put_type(Buf *b, Str part)
{
    if (part.ptr[0] == '(') {
        const char *at = part.ptr + 1;
        buf_char(b, '(');
        while (*at && *at != ')') {
            put_type(b, next_part(&at));
            buf_str(b, *at == ',' ? ", " : ",)");
        }
        return;
    }
    Str word = dtype_word(part);
    buf_printf(b, word.len < part.len ? "Tensor[(" : "%.0s", "");
    if (word.len < part.len) {
        put_extents(b, part);
        buf_str(b, "), ");
    }
    buf_bytes(b, word.ptr, word.len);
    if (word.len < part.len)
        buf_char(b, ']');
}

/* A value of that type: 0, 1, 2 and so on for the first argument, ones for others that are whole numbers. */
static void put_value(Buf *b, Str part, bool first)
{
    if (part.ptr[0] == '(') {
        const char *at = part.ptr + 1;
        buf_char(b, '(');
        while (*at && *at != ')') {
            put_value(b, next_part(&at), first);
            buf_str(b, *at == ',' ? ", " : ",)");
        }
        return;
    }
    Str word = dtype_word(part);
    int w = (int)word.len;
    bool real = word.len > 5 && memcmp(word.ptr, "float", 5) == 0;
    if (word.len == part.len) {
        buf_printf(b, "cast(1, dtype=\"%.*s\")", w, word.ptr);
        return;
    }
    if (!real && !first) {
        buf_str(b, "ones(shape=[");
        put_extents(b, part);
        buf_printf(b, "], dtype=\"%.*s\")", w, word.ptr);
        return;
    }
    buf_printf(b, "cast(reshape(arange(0, %lld, 1, dtype=\"int32\"), newshape=[",
               (long long)elements(part));
    put_extents(b, part);
    buf_printf(b, "]), dtype=\"%.*s\")", w, word.ptr);
}

/* Walks over the parts of the first sample. `part` gets each argument with its name and number, each attribute with a NULL name. */
typedef void Part(Buf *b, Str text, const char *name, int number);

static void each_part(Buf *b, const Op *op, Part *put)
{
    const char *at = op->samples + 1;
    const OpArg *arg = op->args;
    for (int number = 0; *at && *at != ')'; number++) {
        Str text = next_part(&at);
        bool value = !is_attribute(text);
        put(b, text, value ? arg->name : NULL, number);
        arg += value && arg->name;
    }
}

static void put_parameter(Buf *b, Str text, const char *name, int number)
{
    if (!name)
        return;
    buf_printf(b, "%s%%%s: ", number ? ", " : "", name);
    put_type(b, text);
}

static void put_argument(Buf *b, Str text, const char *name, int number)
{
    buf_printf(b, "%s%s%s", number ? ", " : "", name ? "%" : "", name ? name : "");
    if (!name)
        buf_bytes(b, text.ptr, text.len);
}

static void put_binding(Buf *b, Str text, const char *name, int number)
{
    if (!name)
        return;
    buf_printf(b, "let %%%s = ", name);
    put_value(b, text, number == 0);
    buf_str(b, ";\n");
}

static bool has_sample(const Op *op)
{
    return op->samples && op->samples[0] == '(';
}

/* The operator on small values, as the text of a cell: the row's own example, else one for its first sample. Empty where there is
 * neither. */
static void op_example(Buf *b, const Op *op)
{
    if (op->example) {
        buf_str(b, op->example);
        return;
    }
    if (!has_sample(op))
        return;
    each_part(b, op, put_binding);
    buf_printf(b, "%s(", op->name);
    each_part(b, op, put_argument);
    buf_char(b, ')');
}

/* ---- shapes ----------------------------------------------------------------------------------------- */

const ShapeWord shape_words[] = {
    {"broadcast(a, b)", "aligned at the last axis; an extent of 1 becomes the other's"},
    {"window(d, k)", "(d + padding - dilation*(k - 1) - 1)/strides + 1"},
    {"spread(d, k)", "strides*(d - 1) + dilation*(k - 1) + 1 - padding + output_padding"},
    {"insert(d, axis, v)",
     "d with an axis of extent v put in at axis, or as many as a fourth number says"},
    {"without(d, axis)", "d without these axes; without any where axis is None"},
    {"ones(d)", "the axes of extent 1"},
    {"permute(d, axes)", "d in this order; turned round where axes is None"},
    {"total(axis)", "the sum of the tensors' extents along axis"},
    {"front(d)", "d with as many axes of extent 1 in front as the other has more"},
    {"[axis := v]", "with extent v at axis"},
    {"parameters", "scales and zero points"},
    {NULL, NULL},
};

/* For each of these words in the shapes, a line. */
static void shape_lines(Buf *b, const Op *op)
{
    for (const ShapeWord *w = shape_words; w->word; w++) {
        size_t n = w->word[0] == '[' ? strlen("[axis :=") : strcspn(w->word, "(");
        char name[32];
        snprintf(name, sizeof name, "%.*s%s", (int)n, w->word, w->word[n] == '(' ? "(" : "");
        if (strstr(op->shapes, name))
            buf_printf(b, "  %s: %s\n", w->word, w->meaning);
    }
}

/* ---- loops ------------------------------------------------------------------------------------------ */

/* The names of inputs in loops: those of the arguments, and `data.0` for a field of a tuple. */
static const char *const *input_names(Arena *arena, const Op *op, uint32_t n,
                                      const Type *const *args)
{
    Vec(const char *) names = {0};
    for (uint32_t i = 0; i < n; i++) {
        const char *name = op->args[i].name;
        uint32_t fields = args[i]->kind == TYPE_TUPLE ? args[i]->n : 0;
        if (args[i]->kind != TYPE_TUPLE)
            vec_push(&names, arena, name);
        for (uint32_t k = 0; k < fields; k++) {
            char field[64];
            int len = snprintf(field, sizeof field, "%s.%u", name, k);
            vec_push(&names, arena, arena_copy_text(arena, field, (size_t)len));
        }
    }
    return names.at;
}

static void put_loops(Ctx *cx, Buf *b, const Op *op, const Call *call)
{
    const Type *args[32];
    uint32_t n = call->args.n;
    for (uint32_t i = 0; i < n && i < 32; i++)
        if (!type_is_static(args[i] = call->args.at[i]->type))
            return;
    const Type *result = call->base.type;
    if (n > 32 || !result || !type_is_static(result))
        return;
    Arena scratch;
    arena_init(&scratch, &cx->limits);
    TeProgram *p = te_of_op(cx, &scratch, op, call->attrs, call->base.span, n, args, result);
    const char *const *names = input_names(&scratch, op, n, args);
    if (p && names)
        te_print(b, p, names);
    arena_deinit(&scratch);
}

/* The text as a checked expression, the caller's; NULL where it is none. */
static Module *read_text(Ctx *cx, const Op *op, const Buf *text)
{
    uint32_t source = sources_add(&cx->sources, op->name, text->at, text->n);
    Module *m = parse_text(cx, source, &(ParseEnv){0});
    if (m && m->expr && typecheck_module(cx, m, NULL) && forms_expand(cx, m, NULL, (FormsWish){0}))
        return m;
    module_release(m);
    return NULL;
}

/* The loops of its compute for the first sample; nothing for a kernel, or where the shape is known only when it runs. */
static void op_loops(Ctx *cx, Buf *b, const Op *op)
{
    if (!op->compute || !has_sample(op) || op->flags & OP_SHAPE_FROM_DATA)
        return;
    Buf text = {0};
    buf_str(&text, "fn (");
    each_part(&text, op, put_parameter);
    buf_printf(&text, ") { %s(", op->name);
    each_part(&text, op, put_argument);
    buf_str(&text, ") }");
    Module *m = read_text(cx, op, &text);
    Function *f = m ? expr_as_function(m->expr) : NULL;
    Call *call = f ? expr_as_call(f->body) : NULL;
    if (call)
        put_loops(cx, b, op, call);
    module_release(m);
    buf_deinit(&text);
}

/* The value of the example. */
static void op_result(Ctx *cx, Buf *b, const Op *op, const Buf *example)
{
    Module *m = read_text(cx, op, example), *env = module_new(cx);
    Interp *in = m && env ? interp_new(cx) : NULL;
    Value v = in ? interp_eval(in, env, m, m->expr, NULL) : value_none();
    if (!value_is_none(v))
        value_show(b, v, (ShowStyle){.elements = 100, .large = SHOW_SUMMARY});
    value_release(v);
    interp_free(in);
    module_release(m);
    module_release(env);
}

/* ---- all of it -------------------------------------------------------------------------------------- */

void doc_attributes(Buf *b, const OpAttr *schema)
{
    for (const OpAttr *a = schema; a && a->name; a++) {
        buf_printf(b, "- `%s`, %s%s, ", a->name, attr_type_words(a), a->or_none ? " or None" : "");
        if (a->required) {
            buf_str(b, "must be given");
        } else {
            buf_str(b, "default `");
            ir_print_attr(b, &a->otherwise);
            buf_char(b, '`');
        }
        buf_printf(b, ": %s\n", a->doc);
    }
}

static const char *fusion(OpPattern p)
{
    switch (p) {
    case OP_ELEMWISE: return "element by element";
    case OP_BROADCAST: return "broadcasting";
    case OP_INJECTIVE: return "moves elements";
    case OP_REDUCE: return "reduces";
    case OP_OUT_FUSABLE: return "takes element-wise operators in behind it";
    case OP_TUPLE: return "a tuple";
    case OP_OPAQUE: return "never fused";
    }
    return "";
}

/* What follows the lists: titles and blocks of text, as Markdown or with blanks in front of each line. */
static void block(Buf *b, bool markdown, const char *language, const Buf *text)
{
    size_t n = text->n;
    const char *at = buf_text(text);
    while (n && at[n - 1] == '\n')
        n--;
    if (markdown) {
        buf_printf(b, "```%s\n%.*s\n```\n\n", language, (int)n, at);
        return;
    }
    for (const char *end = at + n; at < end;) {
        size_t line = strcspn(at, "\n");
        buf_printf(b, "%s%.*s\n", line ? "  " : "", (int)line, at);
        at += line + 1;
    }
}

static void title(Buf *b, bool markdown, const char *text)
{
    buf_printf(b, markdown ? "%s\n\n" : "%s\n", text);
}

/* The example, what it gives where that is asked for, and what it computes. */
static void op_shown(Ctx *cx, Buf *b, const Op *op, bool markdown, bool run)
{
    Buf example = {0}, result = {0}, loops = {0};
    op_example(&example, op);
    if (example.n) {
        if (run)
            op_result(cx, &result, op, &example);
        title(b, markdown, "For example");
        block(b, markdown, "relay", &example);
    }
    if (result.n) {
        title(b, markdown, "gives");
        block(b, markdown, "text", &result);
    }
    op_loops(cx, &loops, op);
    if (loops.n) {
        title(b, markdown, run ? "which is computed as" : "is computed as");
        block(b, markdown, "text", &loops);
        if (!markdown && strstr(buf_text(&loops), "] or "))
            buf_str(b, "  (`x[i] or v` is v where the index lies outside x)\n");
    } else if (op->kernel) {
        buf_printf(b, "%sA function in C computes it: it has no form as loops over elements.\n%s",
                   markdown ? "" : "\n", markdown ? "\n" : "");
    }
    Buf *texts[] = {&example, &result, &loops};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        buf_deinit(texts[i]);
}

static void op_gradient(Buf *b, const Op *op, bool markdown)
{
    const char *item = markdown ? "- " : "", *quote = markdown ? "`" : "";
    if (op->grad)
        buf_printf(b, "%sgradient: %s%s%s\n", item, quote, op->grad, quote);
    else if (op->no_grad)
        buf_printf(b, "%sno gradient: %s\n", item, op->no_grad);
    else
        buf_printf(b, "%sgradient: %s\n", item,
                   op->compute      ? "from the loops; zero where nothing is real"
                   : op->expression ? "from what it computes, as loops"
                                    : "zero");
}

void op_page(Ctx *cx, Buf *b, const Op *op, bool run)
{
    buf_printf(b, "### %s\n\n%s", op->name, op->doc);
    if (op->symbol)
        buf_printf(b, " Written `%%a %s %%b`.", op->symbol);
    buf_str(b, "\n\n");
    for (const OpArg *a = op->args; a->name; a++)
        buf_printf(b, "- `%%%s`: %s\n", a->name, a->doc);
    doc_attributes(b, op->attrs);
    const char *how = op->compute ? "loops" : op->card ? "a kernel; on a card loops" : "a kernel";
    buf_printf(b, "- %s; fusion: %s\n", how, fusion(op->pattern));
    buf_printf(b, "- shapes: `%s`\n", op->shapes);
    op_gradient(b, op, true);
    buf_char(b, '\n');
    op_shown(cx, b, op, true, run);
}

void op_signature(Buf *b, const Op *op)
{
    buf_printf(b, "%s(", op->name);
    for (const OpArg *a = op->args; a && a->name; a++)
        buf_printf(b, "%s%%%s", a == op->args ? "" : ", ", a->name);
    for (const OpAttr *a = op->attrs; a && a->name; a++) {
        buf_printf(b, "%s%s=", a == op->attrs && op_arity(op) == 0 ? "" : ", ", a->name);
        if (a->required)
            buf_char(b, '_');
        else
            ir_print_attr(b, &a->otherwise);
    }
    buf_printf(b, ")\n%s", op->doc);
    if (op->symbol)
        buf_printf(b, " Written `%%a %s %%b`.", op->symbol);
}

#define NAME_COLUMNS 20

void op_text(Ctx *cx, Buf *b, const Op *op)
{
    size_t width = 0;
    for (const OpArg *a = op->args; a && a->name; a++)
        width = strlen(a->name) + 1 > width ? strlen(a->name) + 1 : width;
    for (const OpAttr *a = op->attrs; a && a->name; a++)
        width = strlen(a->name) > width ? strlen(a->name) : width;
    int columns = (int)(width < NAME_COLUMNS ? width : NAME_COLUMNS);
    op_signature(b, op);
    buf_char(b, '\n');
    for (const OpArg *a = op->args; a && a->name; a++)
        buf_printf(b, "  %%%-*s  %s\n", columns - 1, a->name, a->doc);
    for (const OpAttr *a = op->attrs; a && a->name; a++)
        buf_printf(b, "  %-*s  %s (%s%s%s)\n", columns, a->name, a->doc, attr_type_words(a),
                   a->or_none ? " or None" : "", a->required ? ", must be given" : "");
    buf_printf(b, "shapes: %s\n", op->shapes);
    shape_lines(b, op);
    buf_char(b, '\n');
    op_shown(cx, b, op, false, true);
    buf_char(b, '\n');
    op_gradient(b, op, false);
    while (b->n && buf_text(b)[b->n - 1] == '\n')
        buf_cut(b, b->n - 1);
}
