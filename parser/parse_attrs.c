/* Attributes: `key=value` behind the arguments of a call or the parameters of a function. */
#include "base/number.h"
#include "ir/device.h"
#include "parser/internal.h"

#include <string.h>

bool parse_at_attr(Parser *p)
{
    if (!parse_at(p, TOKEN_IDENT))
        return false;
    Lexer ahead = p->lx;
    Token t = lexer_next(&ahead);
    while (t.kind == TOKEN_DOT) {
        if (lexer_next(&ahead).kind != TOKEN_IDENT)
            return false;
        t = lexer_next(&ahead);
    }
    return t.kind == TOKEN_ASSIGN;
}

/* A number as it is written; what it becomes in the operator's record is the schema's business. */
static void number_value(Parser *p, AttrValue *out)
{
    Token t = p->tok;
    int32_t small;
    if (parse_small(p, &small)) {
        *out = (AttrValue){.kind = ATTR_INT, .i = small};
        return;
    }
    Value v = parse_number(p);
    if (dtype_is_float(v.dtype)) {
        *out = (AttrValue){.kind = ATTR_FLOAT,
                           .f = v.dtype.bits == 32 ? parse_exact(p, t) : value_as_double(v)};
        if (v.dtype.bits != 32)
            out->dtype = v.dtype;
        return;
    }
    *out = (AttrValue){.kind = ATTR_INT, .i = value_as_int(v)};
    if (v.dtype.bits != 32)
        out->dtype = v.dtype;
}

static bool list_items(Parser *p, TokenKind close, bool pairs)
{
    uint32_t open = p->tok.from;
    parse_advance(p);
    bool more = !parse_at(p, close);
    while (more) {
        AttrValue key, value;
        if (pairs) {
            if (!parse_attr_literal(p, &key) || !parse_expect(p, TOKEN_COLON))
                return false;
            vec_push(&p->values, &p->scratch, key);
        }
        if (!parse_attr_literal(p, &value) || !parse_separator(p, close, open, &more))
            return false;
        vec_push(&p->values, &p->scratch, value);
    }
    return parse_expect_close(p, close, open);
}

/* `[a, b]`; as a parameter of a pass also `{a: b}`, kept as a list of alternating keys and values. */
static bool list_value(Parser *p, TokenKind close, AttrValue *out)
{
    size_t base = p->values.n;
    if (p->depth >= TYPE_DEPTH_MOST)
        return parse_too_deep(p, "a list is");
    p->depth++;
    bool ok = list_items(p, close, close == TOKEN_RBRACE);
    p->depth--;
    *out = (AttrValue){.kind = ATTR_LIST};
    size_t n = p->values.n - base;
    AttrValue *at = n ? arena_alloc_must(p->arena, n, sizeof *at) : NULL;
    if (n)
        memcpy(at, p->values.at + base, n * sizeof *at);
    out->list.n = (uint32_t)n;
    out->list.at = at;
    p->values.n = base;
    return ok;
}

static bool paren_literal(Parser *p, AttrValue *out)
{
    uint32_t open = p->tok.from;
    if (p->depth >= TYPE_DEPTH_MOST)
        return parse_too_deep(p, "a value is");
    p->depth++;
    parse_advance(p);
    bool ok = parse_attr_literal(p, out) && parse_expect_close(p, TOKEN_RPAREN, open);
    p->depth--;
    return ok;
}

/* Whether the next token names what an attribute of a call may refer to: `[%x, %0, @f, nn.relu]`. */
static bool at_name(Parser *p)
{
    bool named = parse_at(p, TOKEN_LOCAL) || parse_at(p, TOKEN_GRAPH) || parse_at(p, TOKEN_GLOBAL);
    if (p->frames.n == 0 || frame_top(p)->kind != FRAME_ARGS)
        return false;
    if (!parse_at(p, TOKEN_IDENT))
        return named;
    Symbol *s = symbol_get(p, token_text(p, p->tok));
    return symbol_con(p, s) || symbol_op(p, s) || parse_peek(p).kind == TOKEN_DOT;
}

static bool name_value(Parser *p, AttrValue *out)
{
    ParseState state = p->state;
    bool ok = step_operand(p);
    *out = (AttrValue){.kind = ATTR_EXPR, .e = p->value.e};
    p->state = state;
    return ok;
}

static bool none_value(Parser *p, AttrValue *out)
{
    Str word = token_text(p, p->tok);
    if (!str_is(word, "None") && !str_is(word, "nullptr"))
        return false;
    parse_advance(p);
    *out = (AttrValue){.kind = ATTR_NONE};
    return true;
}

static bool no_attr_value(Parser *p)
{
    static const char wanted[] = "the value of an attribute";
    Str text = token_text(p, p->tok);
    bool string = parse_at(p, TOKEN_IDENT) && parse_peek(p).kind != TOKEN_STRING;
    Diag *d = parse_expected(p, E0116_ATTRIBUTE_VALUE, wanted);
    if (d && !d->helps && string)
        diag_help(d, "a string stands in double quotes: `\"%.*s\"`", (int)text.len, text.ptr);
    else if (d && !d->helps)
        diag_help(d, "values are numbers, `True`, `False`, `None`, strings in double quotes and "
                     "lists of them");
    return false;
}

/* ---- devices as texts for people have them: VirtualDevice(device_type=1, virtual_device_id=0, target=Target(…)) ---------- */

static bool at_device(const Parser *p)
{
    return parse_at(p, TOKEN_IDENT) && str_is(token_text(p, p->tok), "VirtualDevice") &&
           p->lx.text[p->tok.to] == '(';
}

/* Behind what opens at `at`; 0: it does not close. Quotes are not those of Relay, so these are no tokens. */
static uint32_t close_of(const Parser *p, uint32_t at)
{
    long depth = 0;
    char quote = 0;
    for (; at < p->lx.end && p->lx.text[at] != '\n'; at++) {
        char c = p->lx.text[at];
        if (quote || c == '\'' || c == '"')
            quote = !quote ? c : c == quote ? 0 : quote;
        else if (strchr("([{", c))
            depth++;
        else if (strchr(")]}", c) && --depth == 0)
            return at + 1;
    }
    return 0;
}

/* What stands behind "key=" among the fields of [from, to), not deeper; empty: nothing. */
static Str device_field(const Parser *p, uint32_t from, uint32_t to, const char *key)
{
    size_t n = strlen(key);
    const char *text = p->lx.text;
    while (from < to) {
        uint32_t end = from;
        while (end < to && text[end] != ',') {
            uint32_t behind = strchr("([{'", text[end]) ? close_of(p, end) : 0;
            end = behind > end ? behind : end + 1;
        }
        while (from < end && text[from] == ' ')
            from++;
        if (end - from > n && text[from + n] == '=' && !memcmp(text + from, key, n))
            return (Str){text + from + n + 1, end - from - n - 1};
        from = end + 1;
    }
    return (Str){"", 0};
}

static int64_t device_number(const Parser *p, uint32_t from, uint32_t to, const char *key)
{
    int64_t n;
    return number_parse_int(device_field(p, from, to, key), &n) ? n : -1;
}

/* The target, which says for what code is made, has no meaning here. */
static bool device_value(Parser *p, AttrValue *out)
{
    uint32_t from = p->tok.to, end = close_of(p, from);
    if (!end) {
        parse_error(p, E0104_EXPECTED_TOKEN, parse_span(p, from, from + 1),
                    "the `(` of the device is not closed");
        return false;
    }
    parse_wider(p, parse_span(p, p->tok.from, end), "a device that is written out",
                "write it as `meta[VirtualDevice][0]`");
    Str scope = device_field(p, from + 1, end - 1, "memory_scope");
    if (scope.len >= 2)
        scope = (Str){scope.ptr + 1, scope.len - 2};
    Str device = device_print(p->arena, device_number(p, from + 1, end - 1, "device_type"),
                              device_number(p, from + 1, end - 1, "virtual_device_id"), scope);
    *out = (AttrValue){.kind = ATTR_NONE};
    if (device.len) {
        out->kind = ATTR_STRING;
        out->s = device;
    }
    p->lx.at = end;
    parse_advance(p);
    p->last_to = end;
    return true;
}

bool parse_attr_literal(Parser *p, AttrValue *out)
{
    *out = (AttrValue){0};
    switch (p->tok.kind) {
    case TOKEN_NUMBER: number_value(p, out); return true;
    case TOKEN_TRUE:
    case TOKEN_FALSE:
        *out = (AttrValue){.kind = ATTR_BOOL, .b = parse_at(p, TOKEN_TRUE)};
        parse_advance(p);
        return true;
    case TOKEN_STRING: {
        bool unfinished = p->tok.fault != 0;
        *out = (AttrValue){.kind = ATTR_STRING, .s = parse_string(p)};
        p->after_fault |= unfinished;
        return true;
    }
    case TOKEN_META: return parse_meta_value(p, out);
    case TOKEN_LBRACKET: return list_value(p, TOKEN_RBRACKET, out);
    case TOKEN_LBRACE: return list_value(p, TOKEN_RBRACE, out);
    case TOKEN_LPAREN: return paren_literal(p, out);
    case TOKEN_IDENT:
        if (none_value(p, out))
            return true;
        if (at_device(p))
            return device_value(p, out);
        break;
    default: break;
    }
    return at_name(p) ? name_value(p, out) : no_attr_value(p);
}

/* Whether a value that begins here is written out, or is an expression. */
static bool at_literal(Parser *p)
{
    switch (p->tok.kind) {
    case TOKEN_LOCAL:
    case TOKEN_GLOBAL:
    case TOKEN_GRAPH: return false;
    case TOKEN_META: return !parse_at_meta_expr(p);
    case TOKEN_IDENT: {
        Str word = token_text(p, p->tok);
        return str_is(word, "None") || str_is(word, "nullptr") || at_device(p) ||
               parse_peek(p).kind != TOKEN_LPAREN;
    }
    case TOKEN_LPAREN: break;
    default: return true;
    }
    Lexer ahead = p->lx;
    Token inner = lexer_next(&ahead);
    return (inner.kind == TOKEN_NUMBER || inner.kind == TOKEN_STRING || inner.kind == TOKEN_TRUE ||
            inner.kind == TOKEN_FALSE || inner.kind == TOKEN_LBRACKET) &&
           (inner.kind == TOKEN_LBRACKET || lexer_next(&ahead).kind == TOKEN_RPAREN);
}

bool parse_attr(Parser *p, bool *expr)
{
    Str key;
    uint32_t from = p->tok.from;
    *expr = false;
    if (!parse_dotted(p, &key))
        return false;
    Attr attr = {.key = symbol_get(p, key)->name->text,
                 .key_span = parse_span(p, from, p->last_to)};
    if (!parse_expect(p, TOKEN_ASSIGN))
        return false;
    from = p->tok.from;
    *expr = !at_literal(p);
    if (!*expr) {
        if (!parse_attr_literal(p, &attr.value))
            return false;
        attr.span = parse_span(p, from, p->last_to);
    }
    vec_push(&p->attrs, &p->scratch, attr);
    return true;
}

static Attrs *take_into(Parser *p, uint32_t base, Attrs *record)
{
    record->n = (uint32_t)(p->attrs.n - base);
    memcpy(record->at, p->attrs.at + base, record->n * sizeof *record->at);
    p->attrs.n = base;
    return record;
}

static Attrs *record_new(Arena *arena, size_t n)
{
    Attrs *record;
    return arena_alloc_must(arena, sizeof *record + n * sizeof *record->at, 1);
}

const Attrs *parse_attrs_take(Parser *p, uint32_t base)
{
    size_t n = p->attrs.n - base;
    return n ? take_into(p, base, record_new(p->arena, n)) : NULL;
}

Attrs *parse_attrs_lend(Parser *p, uint32_t base)
{
    size_t n = p->attrs.n - base;
    if (n == 0)
        return NULL;
    if (p->lent_most < n) {
        p->lent_most = 2 * n;
        p->lent = record_new(&p->scratch, p->lent_most);
    }
    return take_into(p, base, p->lent);
}
