/* Reading motifs. */
#include "passes/motif.h"

#include "base/number.h"
#include "ir/op.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* A motif is looked for by functions that call themselves as deep as it is. */
enum { DEPTH_MOST = 100, NODES_MOST = 1000 };

typedef struct Named {
    Str name;
    const Motif *motif;
} Named;

typedef struct Reader {
    Ctx *cx;
    Arena *arena;
    Str text;
    size_t at;
    Span where;
    uint32_t made, nested;
    Vec(Named) names;
    const Motif *here; /* what "@" stands for; NULL outside of optional */
    bool failed;
} Reader;

static const Motif *read_motif(Reader *r);

/* ---- letters ------------------------------------------------------------------------------------------------------- */

static char peek(Reader *r)
{
    while (r->at < r->text.len && isspace((unsigned char)r->text.ptr[r->at]))
        r->at++;
    return r->at < r->text.len ? r->text.ptr[r->at] : '\0';
}

static const Motif *fail(Reader *r, const char *expected)
{
    if (r->failed)
        return NULL;
    r->failed = true;
    peek(r);
    Diag *d = diag_error(r->cx->diags, E0603_PIPELINE, r->where,
                         "a pattern cannot be read: at its character %zu %s is expected", r->at + 1,
                         expected);
    diag_note(d, "the pattern is `%.*s`", (int)r->text.len, r->text.ptr);
    diag_help(d, "for instance `nn.relu(add($x, $y:const))`; docs/patterns.md has the notation");
    return NULL;
}

static bool take(Reader *r, char c)
{
    bool is = peek(r) == c;
    r->at += is;
    return is;
}

static bool expect(Reader *r, char c, const char *what)
{
    return take(r, c) || (fail(r, what), false);
}

static Str read_word(Reader *r, const char *more)
{
    peek(r);
    size_t from = r->at;
    while (r->at < r->text.len) {
        char c = r->text.ptr[r->at];
        if (!isalnum((unsigned char)c) && c != '_' && !strchr(more, c))
            break;
        r->at++;
    }
    return (Str){r->text.ptr + from, r->at - from};
}

/* ---- values -------------------------------------------------------------------------------------------------------- */

static AttrValue read_value(Reader *r);

static AttrValue read_list(Reader *r)
{
    Vec(AttrValue) items = {0};
    while (!r->failed && peek(r) != ']') {
        AttrValue v = read_value(r);
        vec_push(&items, r->arena, v);
        if (!take(r, ','))
            break;
    }
    expect(r, ']', "`]`");
    return (AttrValue){.kind = ATTR_LIST, .list = {items.at, (uint32_t)items.n}};
}

static AttrValue read_text(Reader *r)
{
    const char *from = r->text.ptr + r->at;
    const char *end = memchr(from, '\'', r->text.len - r->at);
    if (!end)
        return fail(r, "the quote that ends the text"), (AttrValue){0};
    r->at += (size_t)(end - from) + 1;
    return (AttrValue){.kind = ATTR_STRING, .s = {from, (size_t)(end - from)}};
}

static AttrValue read_value(Reader *r)
{
    AttrValue v = {0};
    if (r->nested > DEPTH_MOST)
        return fail(r, "a list that is nested less deeply"), v;
    r->nested++;
    if (take(r, '[')) {
        v = read_list(r);
    } else if (take(r, '\'')) {
        v = read_text(r);
    } else {
        Str word = read_word(r, ".+-");
        Str digits = word;
        if (digits.len && digits.ptr[digits.len - 1] == 'f')
            digits.len--;
        if (str_is(word, "True") || str_is(word, "False"))
            v = (AttrValue){.kind = ATTR_BOOL, .b = str_is(word, "True")};
        else if (str_is(word, "None"))
            v = (AttrValue){.kind = ATTR_NONE};
        else if (number_parse_int(word, &v.i))
            v.kind = ATTR_INT;
        else if (number_parse_double(digits, &v.f))
            v.kind = ATTR_FLOAT;
        else
            fail(r, "a number, True, False, None, a text in single quotes, or a list");
    }
    r->nested--;
    return v;
}

/* `KEY=`, and nothing where none stands here. */
static const char *read_key(Reader *r)
{
    size_t from = r->at;
    Str word = read_word(r, ".");
    if (word.len && take(r, '='))
        return arena_copy_text(r->arena, word.ptr, word.len);
    r->at = from;
    return NULL;
}

/* ---- nodes --------------------------------------------------------------------------------------------------------- */

static Motif *make(Reader *r, MotifKind kind, uint32_t n, const Motif *const *parts)
{
    Motif *m = arena_new(r->arena, Motif);
    *m = (Motif){.kind = kind, .index = r->made++, .n = n, .depth = 1};
    m->parts = arena_copy(r->arena, parts, n * sizeof *parts);
    for (uint32_t i = 0; i < n; i++)
        m->depth = parts[i]->depth >= m->depth ? parts[i]->depth + 1 : m->depth;
    if (m->depth > DEPTH_MOST || r->made > NODES_MOST)
        fail(r, "the end of a pattern that is no larger");
    return m;
}

static const Motif *with_attrs(Reader *r, const Motif *of, const char *key, char end)
{
    const Attrs *attrs = NULL;
    while (!r->failed && (key || (key = read_key(r)))) {
        attrs = attrs_with(r->arena, attrs, key, read_value(r));
        key = NULL;
        if (!take(r, ','))
            break;
    }
    expect(r, end, end == '}' ? "`}`" : "`)`");
    if (r->failed || !attrs)
        return of;
    Motif *m = make(r, MOTIF_ATTRS, 1, &of);
    m->attrs = attrs;
    return m;
}

/* Behind the parenthesis: the arguments of a call. */
static const Motif *read_call(Reader *r, const Motif *callee)
{
    Vec(const Motif *) parts = {0};
    const char *key = NULL;
    vec_push(&parts, r->arena, callee);
    if (r->text.len - r->at >= 3 && !memcmp(r->text.ptr + r->at, "...", 3)) {
        r->at += 3;
        Motif *m = make(r, MOTIF_CALL, 1, parts.at);
        m->open = true;
        return expect(r, ')', "`)`") ? m : NULL;
    }
    while (!r->failed && peek(r) != ')' && !(key = read_key(r))) {
        const Motif *arg = read_motif(r);
        if (!arg)
            return NULL;
        vec_push(&parts, r->arena, arg);
        if (!take(r, ','))
            break;
    }
    return with_attrs(r, make(r, MOTIF_CALL, (uint32_t)parts.n, parts.at), key, ')');
}

static const Motif *read_optional(Reader *r, const Motif *of)
{
    const Motif *around = r->here;
    if (!expect(r, '(', "`(`"))
        return NULL;
    r->here = of;
    const Motif *with = read_motif(r);
    r->here = around;
    if (!with || !expect(r, ')', "`)`"))
        return NULL;
    return make(r, MOTIF_EITHER, 2, (const Motif *[]){with, of});
}

static const Motif *read_type(Reader *r, const Motif *of, MotifKind kind)
{
    if (!expect(r, '(', "`(`"))
        return NULL;
    AttrValue v = read_value(r);
    DType dtype;
    bool good = kind == MOTIF_SHAPE ? v.kind == ATTR_LIST
                                    : v.kind == ATTR_STRING && dtype_parse(v.s, &dtype);
    if (!good)
        return fail(r, kind == MOTIF_SHAPE ? "a list of extents" : "an element type in quotes");
    if (!expect(r, ')', "`)`"))
        return NULL;
    Motif *m = make(r, kind, 1, &of);
    m->attrs = attrs_with(r->arena, NULL, "", v);
    return m;
}

/* Behind a point. */
static const Motif *read_member(Reader *r, const Motif *of)
{
    Str word = read_word(r, "");
    int64_t field = -1;
    if (str_is(word, "optional"))
        return read_optional(r, of);
    if (str_is(word, "dtype"))
        return read_type(r, of, MOTIF_DTYPE);
    if (str_is(word, "shape"))
        return read_type(r, of, MOTIF_SHAPE);
    if (!str_is(word, "any") && !number_parse_int(word, &field))
        return fail(r, "a number, `any`, `optional`, `dtype` or `shape`");
    Motif *m = make(r, MOTIF_GET, 1, &of);
    m->field = field;
    return m;
}

static const Motif *read_name(Reader *r)
{
    Str name = read_word(r, "");
    if (!name.len)
        return fail(r, "a name");
    for (size_t i = 0; i < r->names.n && !str_is(name, "_"); i++) {
        if (!str_eq(r->names.at[i].name, name))
            continue;
        if (peek(r) == ':')
            return fail(r, "no suffix, since the name has stood before,");
        return r->names.at[i].motif;
    }
    MotifKind kind = MOTIF_ANY;
    if (take(r, ':')) {
        Str suffix = read_word(r, "");
        if (!str_is(suffix, "const") && !str_is(suffix, "var"))
            return fail(r, "`const` or `var`");
        kind = str_is(suffix, "const") ? MOTIF_CONSTANT : MOTIF_VAR;
    }
    const Motif *m = make(r, kind, 0, NULL);
    vec_push(&r->names, r->arena, ((Named){name, m}));
    return m;
}

/* The longest name of an operator that stands here: what follows its points may be no part of it. */
static const Motif *read_operator(Reader *r)
{
    size_t from = r->at;
    Str word = read_word(r, ".");
    const Op *op = NULL;
    for (Str s = word; s.len && !op; s.len--) {
        if (s.len < word.len && word.ptr[s.len] != '.')
            continue;
        op = op_find(r->cx, s);
        r->at = from + s.len;
    }
    if (!op) {
        r->at = from;
        return fail(r, word.len ? "the name of an operator, and there is none like this,"
                                : "`$name`, an operator, or `(`");
    }
    Motif *m = make(r, MOTIF_OP, 0, NULL);
    m->op = op;
    return m;
}

static const Motif *read_dominates(Reader *r)
{
    const Motif *parts[3];
    for (int i = 0; i < 3; i++) {
        if (!expect(r, i ? ',' : '(', i ? "`,`" : "`(`") || !(parts[i] = read_motif(r)))
            return NULL;
    }
    return expect(r, ')', "`)`") ? make(r, MOTIF_DOMINATES, 3, parts) : NULL;
}

/* Behind a parenthesis: a part by itself, or the fields of a tuple. */
static const Motif *read_group(Reader *r)
{
    Vec(const Motif *) fields = {0};
    bool tuple = peek(r) == ')';
    while (!r->failed && peek(r) != ')') {
        const Motif *field = read_motif(r);
        if (!field)
            return NULL;
        vec_push(&fields, r->arena, field);
        if (!take(r, ','))
            break;
        tuple = true;
    }
    if (!expect(r, ')', "`)`"))
        return NULL;
    return tuple ? make(r, MOTIF_TUPLE, (uint32_t)fields.n, fields.at) : fields.at[0];
}

static const Motif *read_primary(Reader *r)
{
    static const char dominates[] = "dominates";
    if (take(r, '$'))
        return read_name(r);
    if (take(r, '('))
        return read_group(r);
    if (take(r, '@'))
        return r->here ? r->here : fail(r, "no `@` outside of `.optional(…)`");
    Str rest = {r->text.ptr + r->at, r->text.len - r->at};
    size_t n = sizeof dominates - 1;
    if (rest.len > n && !memcmp(rest.ptr, dominates, n) && strchr(" (", rest.ptr[n])) {
        r->at += n;
        return read_dominates(r);
    }
    return read_operator(r);
}

static const Motif *read_alternative(Reader *r)
{
    const Motif *m = read_primary(r);
    while (m && !r->failed) {
        if (take(r, '('))
            m = read_call(r, m);
        else if (take(r, '{'))
            m = with_attrs(r, m, NULL, '}');
        else if (take(r, '.'))
            m = read_member(r, m);
        else
            break;
    }
    return r->failed ? NULL : m;
}

static const Motif *read_motif(Reader *r)
{
    if (r->nested++ > DEPTH_MOST)
        return fail(r, "a pattern that is nested less deeply");
    const Motif *m = read_alternative(r);
    while (m && take(r, '|')) {
        const Motif *other = read_alternative(r);
        m = other ? make(r, MOTIF_EITHER, 2, (const Motif *[]){m, other}) : NULL;
    }
    r->nested--;
    return r->failed ? NULL : m;
}

const Motif *motif_parse(Ctx *cx, Arena *arena, Str text, Span where)
{
    Reader r = {.cx = cx, .arena = arena, .text = text, .where = where};
    const Motif *m = read_motif(&r);
    if (m && peek(&r) != '\0')
        return fail(&r, "the end");
    return m;
}
