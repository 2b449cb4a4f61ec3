/* Documentation of operators from their rows. */
#include "session/op_doc.h"

#include "ir/te.h"
#include "parser/parser.h"
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

void op_example(Buf *b, const Op *op)
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

void op_shapes(Buf *b, const Op *op)
{
    buf_str(b, op->shapes);
    for (const ShapeWord *w = shape_words; w->word; w++) {
        size_t n = w->word[0] == '[' ? strlen("[axis :=") : strcspn(w->word, "(");
        char name[32];
        snprintf(name, sizeof name, "%.*s%s", (int)n, w->word, w->word[n] == '(' ? "(" : "");
        if (strstr(op->shapes, name))
            buf_printf(b, "\n  %s: %s", w->word, w->meaning);
    }
}

/* ---- loops ------------------------------------------------------------------------------------------ */

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
    if (p)
        te_print(b, p);
    arena_deinit(&scratch);
}

void op_loops(Ctx *cx, Buf *b, const Op *op)
{
    if (!op->compute || !has_sample(op) || op->flags & OP_SHAPE_FROM_DATA)
        return;
    Buf text = {0};
    buf_str(&text, "fn (");
    each_part(&text, op, put_parameter);
    buf_printf(&text, ") { %s(", op->name);
    each_part(&text, op, put_argument);
    buf_str(&text, ") }");
    uint32_t source = sources_add(&cx->sources, op->name, buf_text(&text), text.n);
    Module *m = parse_text(cx, source, &(ParseEnv){0});
    Function *f = m && typecheck_module(cx, m, NULL) && m->expr ? expr_as_function(m->expr) : NULL;
    Call *call = f ? expr_as_call(f->body) : NULL;
    if (call)
        put_loops(cx, b, op, call);
    module_release(m);
    buf_deinit(&text);
}
