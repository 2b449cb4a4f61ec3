/* Texts as tokens with a colour, and whether a text is whole: for the prompt, where text is mostly unfinished. */
#include "parser/lexer.h"
#include "parser/parser.h"

#include <string.h>

/* In byte order, as the tokens' table has them. */
const char *const relay_keywords[] = {
#define KEYWORD(kind, spelling) spelling,
#include "parser/tokens.def"
    NULL,
};

static bool starts_upper(const char *p)
{
    return *p >= 'A' && *p <= 'Z';
}

static bool is_type_name(const char *p, size_t n)
{
    DType t;
    return (n == 6 && !memcmp(p, "Tensor", 6)) ||
           (n > 0 && dtype_parse((Str){p, n}, &t) && !dtype_is_void(t));
}

/* What a name is, by its spelling and by what stands before it. */
static const char *name_kind(const Lexer *lx, Token t, Token before)
{
    const char *p = lx->text + t.from;
    size_t n = t.to - t.from;
    bool type_place =
        before.kind == TOKEN_COLON || before.kind == TOKEN_ARROW || before.kind == TOKEN_TYPE;
    if (is_type_name(p, n) || type_place)
        return "type";
    return starts_upper(p) ? "constructor" : "operator";
}

static const char *token_color(const Lexer *lx, Token t, Token before)
{
    if (t.fault)
        return "error";
    switch ((TokenKind)t.kind) {
    case TOKEN_BAD: return "error";
    case TOKEN_LOCAL: return "local";
    case TOKEN_GRAPH: return "graph";
    case TOKEN_GLOBAL: return "global";
    case TOKEN_NUMBER: return "number";
    case TOKEN_STRING: return "string";
    case TOKEN_COMMENT: return "comment";
    case TOKEN_IDENT: return name_kind(lx, t, before);
    case TOKEN_MATCH_PARTIAL:
    case TOKEN_META: return "keyword";
    default: return token_is_keyword((TokenKind)t.kind) ? "keyword" : "punctuation";
    }
}

static bool first_in_line(const Lexer *lx, uint32_t at)
{
    while (at > 0 && (lx->text[at - 1] == ' ' || lx->text[at - 1] == '\t'))
        at--;
    return at == 0 || lx->text[at - 1] == '\n';
}

/* `:name` at the start of a line, outside of brackets. The rest of the line is coloured as text. */
static bool command_word(Lexer *lx, Token *t)
{
    uint32_t at = t->to;
    while (at < lx->end && ((lx->text[at] >= 'a' && lx->text[at] <= 'z') || lx->text[at] == '_'))
        at++;
    if (at == t->to && at < lx->end && lx->text[at] != '?')
        return false;
    t->to = at;
    lx->at = at;
    return true;
}

void lex_each(const char *text, size_t len, void (*token)(void *data, const LexedToken *t),
              void *data)
{
    Lexer lx = {
        .text = text, .end = len > UINT32_MAX ? UINT32_MAX : (uint32_t)len, .comments = true};
    Token before = {.kind = TOKEN_END};
    long depth = 0;
    for (Token t = lexer_next(&lx); t.kind != TOKEN_END; before = t, t = lexer_next(&lx)) {
        const char *kind = NULL;
        if (t.kind == TOKEN_COLON && depth <= 0 && first_in_line(&lx, t.from) &&
            command_word(&lx, &t))
            kind = "command";
        if (t.kind == TOKEN_COMMENT && t.fault)
            t.to = lx.end;
        depth += (t.kind == TOKEN_LPAREN || t.kind == TOKEN_LBRACE || t.kind == TOKEN_LBRACKET) -
                 (t.kind == TOKEN_RPAREN || t.kind == TOKEN_RBRACE || t.kind == TOKEN_RBRACKET);
        LexedToken out = {t.from, t.to, kind ? kind : token_color(&lx, t, before)};
        token(data, &out);
    }
}

/* ---- is it whole? --------------------------------------------------------------------------------------------------------------- */

/* Tokens that something must follow. */
static bool wants_more(TokenKind kind)
{
    switch (kind) {
    case TOKEN_FAT_ARROW:
    case TOKEN_ARROW:
    case TOKEN_ASSIGN:
    case TOKEN_COMMA:
    case TOKEN_COLON:
    case TOKEN_DOT:
    case TOKEN_DEF:
    case TOKEN_FN:
    case TOKEN_IF:
    case TOKEN_ELSE:
    case TOKEN_LET:
    case TOKEN_MATCH:
    case TOKEN_MATCH_PARTIAL:
    case TOKEN_TYPE:
    case TOKEN_EXTERN:
    case TOKEN_FREE_VAR:
    case TOKEN_REF:
    case TOKEN_REF_READ:
    case TOKEN_REF_WRITE: return true;
    default: return token_precedence(kind) > 0;
    }
}

typedef struct Reading {
    Token last, before; /* comments aside */
    long depth;
    bool unfinished; /* a string or comment has no end */
    bool invalid;
    bool head; /* `def` or `fn` whose body has not begun */
    long head_depth;
    enum {
        NO_TYPE,
        A_TYPE,
        A_DEFINITION
    } types; /* what is read are types, among which a `fn` has no body, */
    long types_depth; /* and which began here */
    bool branch; /* an `if` whose `else` has not come */
    bool fragment; /* it begins with `free_var`: an expression comes last, */
    bool declares; /* and a declaration has not ended */
    bool refers, section; /* to metadata; and that has begun */
    bool hopeless; /* an `if` without its parentheses or braces: no further line makes it one */
} Reading;

/* `depth`: in front of the token. A type ends in front of what cannot stand in one; the definition of a data type behind its braces. */
static void read_types(Reading *r, TokenKind kind, long depth)
{
    bool ends = depth < r->types_depth || kind == TOKEN_SEMICOLON || kind == TOKEN_DEF ||
                kind == TOKEN_LET || kind == TOKEN_TYPE;
    if (depth == r->types_depth && r->types == A_TYPE)
        ends |= kind == TOKEN_ASSIGN || kind == TOKEN_COMMA || kind == TOKEN_LBRACE;
    else if (depth == r->types_depth)
        ends |= r->last.kind == TOKEN_RBRACE;
    if (r->types != NO_TYPE && ends)
        r->types = NO_TYPE;
    if (r->types != NO_TYPE || (kind != TOKEN_COLON && kind != TOKEN_ARROW && kind != TOKEN_TYPE))
        return;
    r->types = kind == TOKEN_TYPE ? A_DEFINITION : A_TYPE;
    r->types_depth = depth;
}

static void read_token(Reading *r, const char *text, Token t)
{
    bool opens = t.kind == TOKEN_LPAREN || t.kind == TOKEN_LBRACE || t.kind == TOKEN_LBRACKET ||
                 t.kind == TOKEN_META || t.kind == TOKEN_HASH;
    bool closes = t.kind == TOKEN_RPAREN || t.kind == TOKEN_RBRACE || t.kind == TOKEN_RBRACKET;
    r->unfinished |= t.fault == FAULT_STRING || t.fault == FAULT_COMMENT;
    r->invalid |= t.fault == FAULT_CHARACTER || t.fault == FAULT_RETURN || t.fault == FAULT_KEYWORD;
    if (r->head && r->branch && r->depth == r->head_depth)
        r->hopeless |= r->last.kind == TOKEN_IF       ? t.kind != TOKEN_LPAREN
                       : r->last.kind == TOKEN_RPAREN ? t.kind != TOKEN_LBRACE
                                                      : false;
    read_types(r, (TokenKind)t.kind, r->depth);
    r->depth += opens - closes;
    r->invalid |= r->depth < 0;
    if (t.kind == TOKEN_DEF || (t.kind == TOKEN_FN && r->types == NO_TYPE) ||
        t.kind == TOKEN_MATCH || t.kind == TOKEN_MATCH_PARTIAL || t.kind == TOKEN_IF) {
        r->head = true;
        r->head_depth = r->depth;
    }
    if (t.kind == TOKEN_LBRACE && r->head && r->depth == r->head_depth + 1)
        r->head = false;
    if (r->depth == 0 && t.kind == TOKEN_IF)
        r->branch = true;
    if (r->depth == 0 && t.kind == TOKEN_ELSE)
        r->branch = false;
    r->fragment |= r->last.kind == TOKEN_END && t.kind == TOKEN_FREE_VAR;
    r->declares = t.kind == TOKEN_FREE_VAR || (r->declares && t.kind != TOKEN_SEMICOLON);
    r->refers |= t.kind == TOKEN_META;
    r->section |=
        r->last.kind == TOKEN_HASH && str_is((Str){text + t.from, t.to - t.from}, "metadata");
    r->before = r->last;
    r->last = t;
}

/* A command is one line, whatever stands in it; its end may be there. */
static bool is_command(const char *text, size_t len)
{
    size_t at = 0;
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    while (at < len &&
           (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r'))
        at++;
    return at < len && text[at] == ':' && !memchr(text + at, '\n', len - at);
}

TextState text_state(const char *text, size_t len, int *indent)
{
    Lexer lx = {.text = text, .end = len > UINT32_MAX ? UINT32_MAX : (uint32_t)len};
    Reading r = {.last = {.kind = TOKEN_END}};
    if (indent)
        *indent = 0;
    if (is_command(text, len))
        return TEXT_COMPLETE;
    for (Token t = lexer_next(&lx); t.kind != TOKEN_END; t = lexer_next(&lx))
        read_token(&r, text, t);
    if (r.unfinished)
        return TEXT_INCOMPLETE;
    if (r.invalid || (r.hopeless && r.depth == 0))
        return TEXT_INVALID;
    if (indent)
        *indent = (int)(2 * (r.depth < 40 ? r.depth : 40));
    bool statement = r.fragment && (r.declares || r.last.kind == TOKEN_SEMICOLON),
         metadata = r.section ? r.last.kind != TOKEN_RBRACE : r.refers;
    bool open = r.depth > 0 || r.head || r.branch || wants_more((TokenKind)r.last.kind) ||
                statement || metadata;
    return open ? TEXT_INCOMPLETE : TEXT_COMPLETE;
}
