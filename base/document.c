#include "base/document.h"

#include "base/buf.h"
#include "base/limit.h"
#include "base/number.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

typedef struct Reader {
    Document *d;
    Arena *arena;
    const char *p, *end;
    Vec(DocumentValue) values;
    Buf decoded;
    const char *what;
    unsigned depth;
    uint32_t open[DOCUMENT_DEPTH_MOST]; /* lists and objects around the next value */
} Reader;

static bool wrong(Reader *r, const char *what)
{
    r->what = what;
    return false;
}

static void skip_blanks(Reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\r' || *r->p == '\t'))
        r->p++;
}

/* The next character that is no blank; 0 at the end, where no text has one. */
static char next_char(Reader *r)
{
    skip_blanks(r);
    return r->p < r->end ? *r->p : 0;
}

static DocumentValue *push(Reader *r, DocumentKind kind)
{
    uint32_t at = (uint32_t)r->values.n;
    vec_push(&r->values, r->arena,
             ((DocumentValue){.from = (uint32_t)(r->p - r->d->text),
                              .end = at + 1,
                              .kind = (uint8_t)kind,
                              .flat = true}));
    return &r->values.at[at];
}

/* ---- strings and numbers --------------------------------------------------------------------------- */

/* Bytes that stand for themselves alone: neither a quote, a backslash, a control character nor part of a
 * longer character. */
static bool is_plain(char c)
{
    return (unsigned char)c >= ' ' && (unsigned char)c < 0x80 && c != '"' && c != '\\';
}

static bool hex4(Reader *r, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++, r->p++) {
        char c = r->p < r->end ? *r->p : 0;
        int v = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (v < 0)
            return wrong(r, "four hexadecimal digits are wanted behind `\\u`");
        *out = *out << 4 | (uint32_t)v;
    }
    return true;
}

/* Behind `\u`; what lies beyond 16 bits is written as a pair. */
static bool read_code(Reader *r)
{
    uint32_t code, low;
    char bytes[4];
    if (!hex4(r, &code))
        return false;
    if (code >= 0xd800 && code < 0xdc00 && r->end - r->p >= 2 && r->p[0] == '\\' &&
        r->p[1] == 'u') {
        r->p += 2;
        if (!hex4(r, &low))
            return false;
        if (low < 0xdc00 || low > 0xdfff)
            return wrong(r, "half of a pair of `\\u` stands alone");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code >= 0xd800 && code <= 0xdfff)
        return wrong(r, "half of a pair of `\\u` stands alone");
    if (code == 0)
        return wrong(r, "a string cannot hold `\\u0000`");
    buf_bytes(&r->decoded, bytes, utf8_encode(code, bytes));
    return true;
}

static bool read_escape(Reader *r)
{
    static const char letters[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    char c = r->p < r->end ? *r->p++ : 0;
    const char *found = c ? strchr(letters, c) : NULL;
    if (c == 'u')
        return read_code(r);
    if (!found)
        return wrong(r, "there is no such escape");
    buf_char(&r->decoded, means[found - letters]);
    return true;
}

/* The rest of a string from its first escape, at `r->p`; what came before begins at `from`. */
static bool read_decoded(Reader *r, const char *from, DocumentValue *v)
{
    uint32_t code;
    v->decoded = true;
    v->from = (uint32_t)r->decoded.n;
    buf_bytes(&r->decoded, from, (size_t)(r->p - from));
    while (r->p < r->end && *r->p != '"') {
        if (*r->p == '\\') {
            r->p++;
            if (!read_escape(r))
                return false;
            continue;
        }
        if ((unsigned char)*r->p < ' ')
            return wrong(r, "a control character stands in a string");
        size_t n = utf8_decode(r->p, (size_t)(r->end - r->p), &code);
        if (code == 0xfffd && n == 1)
            return wrong(r, "a string is not UTF-8");
        buf_bytes(&r->decoded, r->p, n);
        r->p += n;
    }
    v->n = (uint32_t)(r->decoded.n - v->from);
    if (r->p >= r->end)
        return wrong(r, "a string does not end");
    r->p++;
    return true;
}

/* At the quote. */
static bool read_string(Reader *r)
{
    uint32_t code;
    r->p++;
    const char *from = r->p;
    DocumentValue *v = push(r, DOCUMENT_STRING);
    for (;;) {
        while (r->p < r->end && is_plain(*r->p))
            r->p++;
        if (r->p >= r->end)
            return wrong(r, "a string does not end");
        if (*r->p == '"')
            break;
        if (*r->p == '\\')
            return read_decoded(r, from, v);
        size_t n = utf8_decode(r->p, (size_t)(r->end - r->p), &code);
        if ((unsigned char)*r->p < ' ')
            return wrong(r, "a control character stands in a string");
        if (code == 0xfffd && n == 1)
            return wrong(r, "a string is not UTF-8");
        r->p += n;
    }
    v->n = (uint32_t)(r->p++ - from);
    return true;
}

static bool digits(Reader *r)
{
    const char *from = r->p;
    while (r->p < r->end && *r->p >= '0' && *r->p <= '9')
        r->p++;
    return r->p > from;
}

static bool at_char(const Reader *r, const char *any)
{
    return r->p < r->end && *r->p && strchr(any, *r->p);
}

static bool read_number(Reader *r)
{
    static const char no_number[] = "this is no number";
    const char *from = r->p;
    DocumentValue *v = push(r, DOCUMENT_NUMBER);
    r->p += *r->p == '-';
    bool zero = at_char(r, "0");
    const char *first = r->p;
    if (!digits(r) || (zero && r->p - first > 1))
        return wrong(r, no_number);
    if (at_char(r, ".")) {
        r->p++;
        if (!digits(r))
            return wrong(r, no_number);
    }
    if (at_char(r, "eE")) {
        r->p++;
        r->p += at_char(r, "+-");
        if (!digits(r))
            return wrong(r, no_number);
    }
    v->n = (uint32_t)(r->p - from);
    return true;
}

static bool read_word(Reader *r, const char *word, DocumentKind kind)
{
    size_t n = strlen(word);
    if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0)
        return wrong(r, "a value is wanted here");
    push(r, kind)->n = (uint32_t)n;
    r->p += n;
    return true;
}

/* ---- lists and objects ------------------------------------------------------------------------------- */

static DocumentValue *around(Reader *r)
{
    return r->depth ? &r->values.at[r->open[r->depth - 1]] : NULL;
}

static bool open_parts(Reader *r, DocumentKind kind)
{
    DocumentValue *in = around(r);
    if (in)
        in->flat = false;
    if (r->depth == DOCUMENT_DEPTH_MOST)
        return wrong(r, "it is nested too deeply");
    r->open[r->depth++] = (uint32_t)r->values.n;
    push(r, kind);
    r->p++;
    return true;
}

static int by_text(const void *a, const void *b)
{
    const Str *x = a, *y = b;
    if (x->len != y->len)
        return x->len < y->len ? -1 : 1;
    return memcmp(x->ptr, y->ptr, x->len);
}

static Str str_of_value(const Reader *r, const DocumentValue *v)
{
    return (Str){(v->decoded ? buf_text(&r->decoded) : r->d->text) + v->from, v->n};
}

enum { KEYS_FEW = 12 };

/* Few keys are compared each with each, many are sorted. */
static bool has_twice(Reader *r, const DocumentValue *object)
{
    Arena scratch;
    Str few[KEYS_FEW], *keys = few;
    bool found = false;
    arena_init(&scratch, r->arena->limits);
    if (object->n > KEYS_FEW)
        keys = arena_alloc_must(&scratch, object->n, sizeof *keys);
    const DocumentValue *v = object + 1;
    for (uint32_t i = 0; i < object->n; i++) {
        keys[i] = str_of_value(r, v);
        v = r->values.at + v[1].end;
    }
    if (object->n > KEYS_FEW)
        qsort(keys, object->n, sizeof *keys, by_text);
    for (uint32_t i = 0; i < object->n; i++) {
        uint32_t last = object->n > KEYS_FEW ? i + 2 : object->n;
        for (uint32_t k = i + 1; k < last && k < object->n; k++)
            found |= keys[i].len == keys[k].len && by_text(&keys[i], &keys[k]) == 0;
    }
    arena_deinit(&scratch);
    return found;
}

static bool close_parts(Reader *r)
{
    DocumentValue *v = around(r);
    r->p++;
    r->depth--;
    v->end = (uint32_t)r->values.n;
    return v->kind == DOCUMENT_LIST || v->n < 2 || !has_twice(r, v) ||
           wrong(r, "an object has a key twice");
}

static bool read_key(Reader *r)
{
    if (next_char(r) != '"')
        return wrong(r, "a key in quotes is wanted here");
    if (!read_string(r))
        return false;
    if (next_char(r) != ':')
        return wrong(r, "a colon is wanted behind a key");
    r->p++;
    return true;
}

/* Of a value that has no parts; what has some is opened. */
static bool read_value(Reader *r)
{
    char c = next_char(r);
    switch (c) {
    case '{': return open_parts(r, DOCUMENT_OBJECT);
    case '[': return open_parts(r, DOCUMENT_LIST);
    case '"': return read_string(r);
    case 't': return read_word(r, "true", DOCUMENT_BOOL);
    case 'f': return read_word(r, "false", DOCUMENT_BOOL);
    case 'n': return read_word(r, "null", DOCUMENT_NULL);
    default: break;
    }
    if (c == '-' || (c >= '0' && c <= '9'))
        return read_number(r);
    return wrong(r, r->p < r->end ? "a value is wanted here" : "it ends too early");
}

/* A part of the innermost open value: the next one, or its end. */
static bool read_part(Reader *r)
{
    DocumentValue *in = around(r);
    bool object = in->kind == DOCUMENT_OBJECT;
    char c = next_char(r), close = object ? '}' : ']';
    if (c == close)
        return close_parts(r);
    if (in->n > 0) {
        if (c != ',')
            return wrong(r, r->p >= r->end ? "it ends too early"
                            : object       ? "`,` or `}` is wanted here"
                                           : "`,` or `]` is wanted here");
        r->p++;
    }
    in->n++;
    return (!object || read_key(r)) && read_value(r);
}

static bool read_all(Reader *r, Limits *limits)
{
    if (!read_value(r))
        return false;
    for (int64_t i = 1; r->depth; i++)
        if ((limits && limit_hit_at(limits, i)) || !read_part(r))
            return false;
    skip_blanks(r);
    return r->p >= r->end || wrong(r, "the end is wanted here");
}

static void free_decoded(void *text)
{
    Buf b = {.at = text};
    buf_deinit(&b);
}

bool document_read(Document *d, Arena *arena, Str text, DocumentError *error)
{
    Reader r = {.d = d, .arena = arena, .p = text.ptr, .end = text.ptr + text.len};
    *d = (Document){.text = text.ptr};
    bool ok = text.len < UINT32_MAX ? read_all(&r, arena->limits) : wrong(&r, "it is too large");
    ok = ok && !r.decoded.failed;
    *error = (DocumentError){.what = r.what, .at = (size_t)(r.p - text.ptr), .line = 1};
    for (const char *p = text.ptr; !ok && p < r.p && (p = memchr(p, '\n', (size_t)(r.p - p))); p++)
        error->line++;
    d->at = r.values.at;
    d->decoded = buf_text(&r.decoded);
    if (r.decoded.at)
        arena_on_free(arena, free_decoded, r.decoded.at);
    return ok;
}

/* ---- pairs -------------------------------------------------------------------------------------------------- */

static bool read_unit(const char *p, const char *end, uint32_t *unit)
{
    Reader r = {.p = p + 2, .end = end};
    return end - p >= 6 && p[0] == '\\' && p[1] == 'u' && hex4(&r, unit);
}

bool document_mend(char *text, size_t n)
{
    const char *end = text + n;
    bool mended = false;
    for (char *p = text; n && (p = memchr(p, '\\', (size_t)(end - p)));) {
        uint32_t unit, low;
        if (!read_unit(p, end, &unit)) {
            p += end - p > 1 ? 2 : 1;
            continue;
        }
        bool half = unit >= 0xd800 && unit <= 0xdfff;
        bool pair =
            half && unit < 0xdc00 && read_unit(p + 6, end, &low) && low >= 0xdc00 && low <= 0xdfff;
        if (half && !pair) {
            memcpy(p, "\\ufffd", 6);
            mended = true;
        }
        p += pair ? 12 : 6;
    }
    return mended;
}

/* ---- what is in it -------------------------------------------------------------------------------------- */

Str document_str(const Document *d, const DocumentValue *v)
{
    if (!v || (v->kind != DOCUMENT_STRING && v->kind != DOCUMENT_NUMBER))
        return str_of("");
    return (Str){(v->decoded ? d->decoded : d->text) + v->from, v->n};
}

bool document_int(const Document *d, const DocumentValue *v, int64_t *out)
{
    return document_is(v, DOCUMENT_NUMBER) && number_parse_int(document_str(d, v), out);
}

const DocumentValue *document_get(const Document *d, const DocumentValue *object, const char *key)
{
    if (!document_is(object, DOCUMENT_OBJECT))
        return NULL;
    size_t n = strlen(key);
    const DocumentValue *v = object + 1;
    for (uint32_t i = 0; i < object->n; i++) {
        if (v->n == n && memcmp(document_str(d, v).ptr, key, n) == 0)
            return v + 1;
        v = document_next(d, v + 1);
    }
    return NULL;
}

const DocumentValue *document_item(const Document *d, const DocumentValue *list, size_t i)
{
    (void)d;
    return document_is(list, DOCUMENT_LIST) && list->flat && i < list->n ? list + 1 + i : NULL;
}
