/* Numbers, strings and metadata references. */
#include "parser/internal.h"

#include "base/number.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct Number {
    Str body;                   /* without sign and suffix */
    bool negative;
    char kind;                  /* 'f', 'i', or 0 without a suffix */
    Str width;                  /* behind the suffix */
} Number;

static Number number_split(Str text)
{
    Number n = {.body = text};
    while (n.body.len && n.body.ptr[0] == '-') {
        n.negative = !n.negative;
        n.body.ptr++;
        n.body.len--;
    }
    bool named = n.body.ptr[0] == 'i' || n.body.ptr[0] == 'n';
    for (size_t i = named ? 3 : 0; i < n.body.len; i++) {
        char c = n.body.ptr[i];
        if (c != 'f' && c != 'i')
            continue;
        n.kind = c;
        n.width = (Str){n.body.ptr + i + 1, n.body.len - i - 1};
        n.body.len = i;
        return n;
    }
    return n;
}

static bool all_digits(Str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
    return s.len > 0;
}

static Value malformed(Parser *p, Token t, Number n)
{
    Str s = token_text(p, t);
    Diag *d = parse_error(p, E0102_BAD_NUMBER, token_span(p, t), "`%.*s` is not a number",
                          (int)s.len, s.ptr);
    double v;
    if (n.kind == 'i' && number_parse_double(n.body, &v))
        diag_help(d, "this is a float: `%.*sf`", (int)(n.body.ptr + n.body.len - s.ptr), s.ptr);
    else
        diag_help(d, "numbers look like `1`, `7i64`, `1.5`, `1f`, `2e-3f64`");
    return value_int32(0);
}

static Value out_of_range(Parser *p, Token t, const char *type, const char *help)
{
    Str s = token_text(p, t);
    Diag *d = parse_error(p, E0103_NUMBER_RANGE, token_span(p, t), "`%.*s` does not fit %s",
                          (int)s.len, s.ptr, type);
    if (help)
        diag_help(d, "%s", help);
    return value_int32(0);
}

static Value bad_width(Parser *p, Token t, Number n)
{
    bool is_float = n.kind == 'f';
    Diag *d = parse_error(p, E0102_BAD_NUMBER, token_span(p, t), "%s has no width `%.*s`",
                          is_float ? "a float" : "an integer", (int)n.width.len, n.width.ptr);
    diag_help(d, "the widths are 16, 32 and 64%s",
              is_float ? "" : "; other integers are made by `cast`");
    return value_int32(0);
}

static Value integer(Parser *p, Token t, Number n)
{
    uint64_t magnitude;
    int64_t width = 32;
    if (!all_digits(n.body) || (n.width.len && !all_digits(n.width)))
        return malformed(p, t, n);
    if (n.width.len &&
        (!number_parse_int(n.width, &width) || (width != 16 && width != 32 && width != 64)))
        return bad_width(p, t, n);
    if (!number_parse_uint(n.body, &magnitude) || magnitude > (uint64_t)INT64_MAX + n.negative)
        return out_of_range(p, t, "int64", NULL);
    int64_t v = n.negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    if (width == 16) {
        if (v != (int16_t)v)
            return out_of_range(p, t, "int16", "its values are -32768 to 32767");
        return value_scalar_int(dtype_of(DT_INT16), v);
    }
    if (width == 32 && v == (int32_t)v)
        return value_int32((int32_t)v);
    if (width == 32 && n.width.len)
        return out_of_range(p, t, "int32", "without the `i32` it is an int64");
    return value_int64(v);
}

/* The body may be a float's, "inf" or "nan". */
static Value floating(Parser *p, Token t, Number n)
{
    int64_t width = 32;
    double v = 0;
    bool named = n.body.ptr[0] == 'i' || n.body.ptr[0] == 'n';
    if (n.width.len && !all_digits(n.width))
        return malformed(p, t, n);
    if (n.width.len &&
        (!number_parse_int(n.width, &width) || (width != 16 && width != 32 && width != 64)))
        return bad_width(p, t, n);
    float f = 0;
    bool well = width == 32 ? number_parse_float(n.body, &f) : number_parse_double(n.body, &v);
    if (!well)
        return malformed(p, t, n);
    double sign = n.negative ? -1.0 : 1.0;
    if (width == 64)
        return !named && isinf(v) ? out_of_range(p, t, "float64", NULL)
                                  : value_float64(copysign(v, sign));
    if (width == 16) {
        if (!named && v > 65504.0)
            return out_of_range(p, t, "float16", "its largest value is 65504");
        return value_scalar_double(dtype_of(DT_FLOAT16), copysign(v, sign));
    }
    if (!named && isinf(f))
        return out_of_range(p, t, "float32", "its largest value is 3.4028235e+38");
    return value_float32(copysignf(f, (float)sign));
}

bool parse_small(Parser *p, int32_t *out)
{
    Str text = token_text(p, p->tok);
    if (text.len > 9)
        return false;
    int32_t v = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        v = v * 10 + (text.ptr[i] - '0');
    }
    *out = v;
    parse_advance(p);
    return true;
}

Value parse_number(Parser *p)
{
    int32_t small;
    if (!p->minus && parse_small(p, &small))
        return value_int32(small);
    Token t = p->tok;
    parse_advance(p);
    Number n = number_split(token_text(p, t));
    n.negative ^= p->minus;
    p->minus = false;
    if (!n.kind && !all_digits(n.body)) {
        parse_wider(p, token_span(p, t), "a float without its suffix", "write `f` behind it");
        return floating(p, t, n);
    }
    return n.kind == 'f' ? floating(p, t, n) : integer(p, t, n);
}

double parse_exact(const Parser *p, Token t)
{
    double v = 0;
    Number n = number_split(token_text(p, t));
    number_parse_double(n.body, &v);
    return n.negative ? -v : v;
}

static uint32_t digits_end(const Parser *p, uint32_t at)
{
    while (at < p->lx.end && p->lx.text[at] >= '0' && p->lx.text[at] <= '9')
        at++;
    return at;
}

/* The digits are a token by themselves: `%t.0.1` is two projections and holds no number 0.1, and a thousand projections
 * in a row are no number a thousand digits long for each. */
bool parse_index_behind(Parser *p, int64_t *out, uint32_t *to)
{
    uint32_t at = p->lx.at, end = digits_end(p, at);
    if (end == at) {
        parse_advance(p);
        return parse_index(p, true, out, to);
    }
    p->last_to = p->tok.to;
    p->tok = (Token){.kind = TOKEN_NUMBER, .from = at, .to = end};
    return parse_index(p, true, out, to);
}

bool parse_index(Parser *p, bool field, int64_t *out, uint32_t *to)
{
    uint32_t from = p->tok.from, at = digits_end(p, from);
    if (!parse_at(p, TOKEN_NUMBER) || at == from) {
        Diag *d = parse_expected(p, E0104_EXPECTED_TOKEN,
                                 field ? "the number of a field" : "the number of an object");
        Str text = token_text(p, p->tok);
        if (parse_at(p, TOKEN_IDENT) && symbol_op(p, symbol_get(p, text)))
            diag_help(d, "an operator stands before its arguments: `%.*s(…)`", (int)text.len,
                      text.ptr);
        else if (d && !d->helps && !field)
            diag_help(d, "the objects of a kind count from 0: `[0]`, `[1]`");
        else if (d && !d->helps)
            diag_help(d, "fields of a tuple count from 0: `.0`, `.1`");
        return false;
    }
    *to = at;
    bool fits = number_parse_int((Str){p->lx.text + from, at - from}, out) && *out <= INT32_MAX;
    if (!fits) {
        parse_error(p, E0103_NUMBER_RANGE, parse_span(p, from, at), "no tuple has so many fields");
        *out = 0;
    }
    p->lx.at = at;
    p->tok.to = at;
    parse_advance(p);
    return true;
}

/* ---- strings ------------------------------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One escape at p (behind its backslash), of at most n bytes; returns how many were read, 0 when it is none. */
static size_t escape(const char *p, size_t n, char *out)
{
    if (n == 0)
        return 0;
    switch (*p) {
    case '"': *out = '"'; return 1;
    case '\\': *out = '\\'; return 1;
    case 't': *out = '\t'; return 1;
    case 'n': *out = '\n'; return 1;
    case 'r': *out = '\r'; return 1;
    case 'x': break;
    default: return 0;
    }
    if (n < 3 || hex_digit(p[1]) < 0 || hex_digit(p[2]) < 0)
        return 0;
    *out = (char)(hex_digit(p[1]) * 16 + hex_digit(p[2]));
    return 3;
}

Str parse_string(Parser *p)
{
    Token t = p->tok;
    Str text = token_text(p, t);
    size_t n = text.len - 1 - (t.fault ? 0 : 1);
    const char *in = text.ptr + 1;
    char *out = arena_alloc_must(p->arena, n + 1, 1);
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        size_t taken = in[i] == '\\' ? escape(in + i + 1, n - i - 1, &out[k]) : 0;
        if (!taken)
            out[k] = in[i];
        i += taken;
        k++;
    }
    out[k] = '\0';
    parse_advance(p);
    return (Str){out, k};
}
