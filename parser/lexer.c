#include "parser/lexer.h"

#include <string.h>

static const char *const words[] = {
#define TOKEN(kind, text) text,
#define KEYWORD(kind, spelling) "`" spelling "`",
#define PUNCT(kind, spelling) "`" spelling "`",
#include "parser/tokens.def"
};

static const char *const spellings[] = {
#define TOKEN(kind, text) NULL,
#define KEYWORD(kind, spelling) spelling,
#define PUNCT(kind, spelling) spelling,
#include "parser/tokens.def"
};

static const uint8_t precedences[TOKEN_KINDS] = {
#define INFIX(kind, precedence) [TOKEN_##kind] = (precedence),
#include "parser/tokens.def"
};

typedef struct Keyword {
    const char *text;
    uint8_t n;
    uint8_t kind;
} Keyword;

static const Keyword keywords[] = {
#define KEYWORD(kind, spelling) {spelling, sizeof(spelling) - 1, TOKEN_##kind},
#include "parser/tokens.def"
};

/* Classes of bytes. */
enum {
    LETTER = 1,
    DIGIT = 2,
    SLASH = 4,
    HIGH = 8,
    BLANK = 16,
    NUMERIC = 32,
    WORD = LETTER | DIGIT | SLASH
};

#define A (LETTER)
#define D (DIGIT | NUMERIC)
#define E (LETTER | NUMERIC)
#define N (NUMERIC)
#define B (BLANK)
#define H (HIGH)
/* clang-format off */
static const uint8_t classes[256] = {
    ['\t'] = B, ['\n'] = B, [' '] = B, ['+'] = N, ['-'] = N, ['.'] = N, ['/'] = SLASH, ['_'] = A,
    ['0'] = D, D, D, D, D, D, D, D, D, D,
    ['A'] = A, A, A, A, E, A, A, A, A, A, A, A, A, A, A, A, A, A, A, A, A, A, A, A, A, A,
    ['a'] = A, A, A, A, E, A, A, A, A, A, A, A, A, A, A, A, A, A, A, A, A, A, A, A, A, A,
    [128] = H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H,
    H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H,
    H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H,
    H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H,
};
/* clang-format on */
#undef A
#undef D
#undef E
#undef N
#undef B
#undef H

/* The characters that are a token whatever stands behind them. */
static const uint8_t singles[256] = {
    ['('] = TOKEN_LPAREN,   [')'] = TOKEN_RPAREN,   ['{'] = TOKEN_LBRACE, ['}'] = TOKEN_RBRACE,
    ['['] = TOKEN_LBRACKET, [']'] = TOKEN_RBRACKET, [','] = TOKEN_COMMA,  [';'] = TOKEN_SEMICOLON,
    [':'] = TOKEN_COLON,    ['.'] = TOKEN_DOT,      ['+'] = TOKEN_PLUS,   ['*'] = TOKEN_STAR,
    ['?'] = TOKEN_QUESTION,
};

static int byte_at(const Lexer *lx, uint32_t at)
{
    return at < lx->end ? (unsigned char)lx->text[at] : -1;
}

static bool is(const Lexer *lx, uint32_t at, int classes_wanted)
{
    return at < lx->end && (classes[(unsigned char)lx->text[at]] & classes_wanted);
}

const char *token_words(TokenKind kind)
{
    return words[kind];
}

const char *token_spelling(TokenKind kind)
{
    return spellings[kind];
}

bool token_is_keyword(TokenKind kind)
{
    return kind >= TOKEN_FALSE && kind <= TOKEN_TYPE;
}

int token_precedence(TokenKind kind)
{
    return precedences[kind];
}

TokenKind keyword_of(const char *p, size_t n)
{
    /* The letters that keywords begin with: most names begin with another. */
    const uint32_t initials =
#define KEYWORD(kind, spelling) (uint32_t)1 << (spelling[0] & 31) |
#include "parser/tokens.def"
        0;
    if (!(initials >> (p[0] & 31) & 1))
        return TOKEN_IDENT;
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (keywords[i].n == n && keywords[i].text[0] == p[0] && !memcmp(keywords[i].text, p, n))
            return keywords[i].kind;
    return TOKEN_IDENT;
}

/* "inff", "nanf64": literals without digits. */
static bool is_named_float(const char *p, size_t n)
{
    if (n < 4 || (memcmp(p, "inff", 4) != 0 && memcmp(p, "nanf", 4) != 0))
        return false;
    return n == 4 || (n == 6 && (!memcmp(p + 4, "16", 2) || !memcmp(p + 4, "32", 2) ||
                                 !memcmp(p + 4, "64", 2)));
}

/* Comments nest. The stars of a comment that ends in two of them belong to it. */
static bool block_comment(Lexer *lx, uint32_t at, uint32_t *to)
{
    size_t depth = 1;
    for (at += 2; at < lx->end; at++) {
        char c = lx->text[at];
        if (c == '*' && byte_at(lx, at + 1) == '/') {
            at++;
            if (--depth == 0) {
                *to = at + 1;
                return true;
            }
        } else if (c == '/' && byte_at(lx, at + 1) == '*') {
            at++;
            depth++;
        }
    }
    return false;
}

static uint32_t line_end(const Lexer *lx, uint32_t at)
{
    const char *end = memchr(lx->text + at, '\n', lx->end - at);
    return end ? (uint32_t)(end - lx->text) : lx->end;
}

static TokenKind token(Lexer *lx, Token *out, TokenKind kind, uint32_t from, uint32_t to)
{
    lx->at = to;
    *out = (Token){.from = from, .to = to, .kind = (uint8_t)kind};
    return kind;
}

static TokenKind faulty(Lexer *lx, Token *out, TokenKind kind, TokenFault fault, uint32_t from,
                        uint32_t to)
{
    lx->at = to;
    *out = (Token){.from = from, .to = to, .kind = (uint8_t)kind, .fault = (uint8_t)fault};
    return kind;
}

/* A comment, if one begins at the slash or return where the lexer stands: passed over, or a token when comments are to be tokens or
 * it does not end. */
typedef enum Gap { GAP_NONE, GAP_PASSED, GAP_TOKEN } Gap;

static __attribute__((noinline)) Gap comment(Lexer *lx, Token *out)
{
    int c = byte_at(lx, lx->at), next = byte_at(lx, lx->at + 1);
    uint32_t to;
    if (c == '\r' && next == '\n') {
        lx->at += 2;
        return GAP_PASSED;
    }
    if (c != '/' || (next != '/' && next != '*'))
        return GAP_NONE;
    if (next == '/') {
        to = line_end(lx, lx->at);
    } else if (!block_comment(lx, lx->at, &to)) {
        faulty(lx, out, TOKEN_COMMENT, FAULT_COMMENT, lx->at, lx->at + 2);
        lx->at = lx->end;
        return GAP_TOKEN;
    }
    if (lx->comments) {
        token(lx, out, TOKEN_COMMENT, lx->at, to);
        return GAP_TOKEN;
    }
    lx->at = to;
    return GAP_PASSED;
}

/* The end of the bytes of these classes. The NUL behind a text is of none, so only the end of a piece has to be looked at. */
static inline uint32_t run_end(const Lexer *lx, uint32_t at, int wanted)
{
    const char *p = lx->text + at;
    while (classes[(unsigned char)*p] & wanted)
        p++;
    at = (uint32_t)(p - lx->text);
    return at < lx->end ? at : lx->end;
}

/* Whether the name, which ends at `*to`, goes on with bytes beyond ASCII; then `*to` is the end of it all. */
static bool is_high(const Lexer *lx, uint32_t from, uint32_t *to)
{
    if (!is(lx, *to, HIGH) && !is(lx, from, HIGH))
        return false;
    *to = run_end(lx, *to, WORD | HIGH);
    return true;
}

static __attribute__((noinline)) TokenKind word(Lexer *lx, Token *out, uint32_t from)
{
    uint32_t to = run_end(lx, from, WORD);
    const char *p = lx->text + from;
    if (is_high(lx, from, &to))
        return faulty(lx, out, TOKEN_IDENT, FAULT_CHARACTER, from, to);
    size_t n = to - from;
    if (n == 1 && *p == '_')
        return token(lx, out, TOKEN_UNDERSCORE, from, to);
    if (n < 2 || n > 9)
        return token(lx, out, TOKEN_IDENT, from, to);
    TokenKind kind = keyword_of(p, n);
    if (kind == TOKEN_MATCH && byte_at(lx, to) == '?')
        return token(lx, out, TOKEN_MATCH_PARTIAL, from, to + 1);
    if (kind != TOKEN_IDENT)
        return token(lx, out, kind, from, to);
    if (n == 4 && byte_at(lx, to) == '[' && !memcmp(p, "meta", 4))
        return token(lx, out, TOKEN_META, from, to + 1);
    return token(lx, out, is_named_float(p, n) ? TOKEN_NUMBER : TOKEN_IDENT, from, to);
}

/* A sign belongs to a number behind the letter of an exponent only: `1-2` is a difference. */
static uint32_t number_end(const Lexer *lx, uint32_t at)
{
    for (uint32_t from = at; is(lx, at, NUMERIC); at++) {
        char c = lx->text[at], before = at > from ? lx->text[at - 1] : 0;
        if ((c == '+' || c == '-') && before != 'e' && before != 'E')
            break;
    }
    return at;
}

/* Greedy: all characters that a number may hold, then a suffix of the same. What it means is decided later. */
static TokenKind number(Lexer *lx, Token *out, uint32_t from, uint32_t at)
{
    at = number_end(lx, at);
    int c = byte_at(lx, at);
    if (c == 'f' || c == 'i')
        at = number_end(lx, at + 1);
    return token(lx, out, TOKEN_NUMBER, from, at);
}

/* A run of signs that belongs to the number directly behind it. */
static bool signed_number(Lexer *lx, Token *out, uint32_t from)
{
    uint32_t at = from;
    while (byte_at(lx, at) == '-')
        at++;
    if (is(lx, at, DIGIT)) {
        number(lx, out, from, at);
        return true;
    }
    if (is(lx, at, LETTER)) {
        uint32_t to = run_end(lx, at, WORD);
        if (is_named_float(lx->text + at, to - at)) {
            token(lx, out, TOKEN_NUMBER, from, to);
            return true;
        }
    }
    lx->minus_from = from;
    lx->minus_to = at;
    return false;
}

/* A single sign may open an arrow. */
static TokenKind minus(Lexer *lx, Token *out, uint32_t from)
{
    bool known = from >= lx->minus_from && from < lx->minus_to;
    if (!known && signed_number(lx, out, from))
        return out->kind;
    uint32_t next = from + 1;
    while (is(lx, next, BLANK))
        next++;
    if (byte_at(lx, next) == '>')
        return token(lx, out, TOKEN_ARROW, from, next + 1);
    return token(lx, out, TOKEN_MINUS, from, from + 1);
}

/* Where a name of a value of another framework goes on: `%onnx::Conv_0`, `%fc.weight`, `%layer1.0.bias`; the same place where it does
 * not. A number at the end may be a projection: who binds names knows (parse_atom.c). */
static uint32_t name_goes_on(const Lexer *lx, uint32_t at)
{
    uint32_t to = at;
    if (byte_at(lx, at) == ':' && byte_at(lx, at + 1) == ':')
        return is(lx, at + 2, LETTER) ? at + 2 : at;
    while (byte_at(lx, to) == '.' && is(lx, to + 1, DIGIT))
        to = run_end(lx, to + 1, DIGIT);
    return byte_at(lx, to) == '.' && is(lx, to + 1, LETTER) ? to + 1 : at;
}

static TokenKind sigil(Lexer *lx, Token *out, uint32_t from)
{
    char c = lx->text[from];
    TokenKind kind = c == '@' ? TOKEN_GLOBAL : TOKEN_LOCAL;
    uint32_t at = from + 1;
    if (c == '%' && is(lx, at, DIGIT))
        return token(lx, out, TOKEN_GRAPH, from, run_end(lx, at, DIGIT));
    if (!is(lx, at, LETTER | HIGH))
        return token(lx, out, c == '@' ? TOKEN_AT : TOKEN_PERCENT, from, at);
    uint32_t to = run_end(lx, at, WORD), next;
    while (kind == TOKEN_LOCAL && (next = name_goes_on(lx, to)) > to)
        to = run_end(lx, next, WORD);
    if (is_high(lx, at, &to))
        return faulty(lx, out, kind, FAULT_CHARACTER, from, to);
    TokenKind keyword = to - at < 10 ? keyword_of(lx->text + at, to - at) : TOKEN_IDENT;
    if (keyword != TOKEN_IDENT && keyword != TOKEN_TRUE && keyword != TOKEN_FALSE)
        return faulty(lx, out, kind, FAULT_KEYWORD, from, to);
    return token(lx, out, kind, from, to);
}

/* A backslash keeps the quote behind it from ending the string. */
static TokenKind string(Lexer *lx, Token *out, uint32_t from)
{
    for (uint32_t at = from + 1; at < lx->end; at++) {
        char c = lx->text[at];
        if (c == '"')
            return token(lx, out, TOKEN_STRING, from, at + 1);
        if (c == '\\')
            at++;
    }
    uint32_t to = line_end(lx, from);
    if (to > from + 1 && lx->text[to - 1] == '\r')
        to--;
    return faulty(lx, out, TOKEN_STRING, FAULT_STRING, from, to);
}

/* A run of bytes that nothing begins with. */
static TokenKind bad(Lexer *lx, Token *out, uint32_t from)
{
    uint32_t to = from + 1;
    if (lx->text[from] == '\r')
        return faulty(lx, out, TOKEN_BAD, FAULT_RETURN, from, to);
    while (is(lx, to, HIGH))
        to++;
    return faulty(lx, out, TOKEN_BAD, FAULT_CHARACTER, from, to);
}

/* One of two kinds, as the next byte is `second` or not. */
static TokenKind either(Lexer *lx, Token *out, uint32_t from, char second, TokenKind two,
                        TokenKind one)
{
    if (byte_at(lx, from + 1) == second)
        return token(lx, out, two, from, from + 2);
    return token(lx, out, one, from, from + 1);
}

static TokenKind hash(Lexer *lx, Token *out, uint32_t from)
{
    if (byte_at(lx, from + 1) == '[')
        return token(lx, out, TOKEN_HASH, from, from + 2);
    return bad(lx, out, from);
}

/* What begins with a sign, apart from a variable. */
static __attribute__((noinline)) TokenKind sign(Lexer *lx, Token *out, uint32_t from)
{
    switch (lx->text[from]) {
    case '@': return sigil(lx, out, from);
    case '"': return string(lx, out, from);
    case '-': return minus(lx, out, from);
    case '#': return hash(lx, out, from);
    case '<': return either(lx, out, from, '=', TOKEN_LESS_EQUAL, TOKEN_LESS);
    case '>': return either(lx, out, from, '=', TOKEN_GREATER_EQUAL, TOKEN_GREATER);
    case '!': return either(lx, out, from, '=', TOKEN_NOT_EQUAL, TOKEN_BANG);
    case '=':
        if (byte_at(lx, from + 1) == '>')
            return token(lx, out, TOKEN_FAT_ARROW, from, from + 2);
        return either(lx, out, from, '=', TOKEN_EQUAL, TOKEN_ASSIGN);
    case '/': return token(lx, out, TOKEN_SLASH, from, from + 1);
    default: return bad(lx, out, from);
    }
}

/* Most tokens are found here; what is seldom is a call away, so that they need few registers. */
TokenKind lexer_read(Lexer *lx, Token *out)
{
    for (;;) {
        uint32_t from = run_end(lx, lx->at, BLANK);
        if (from >= lx->end)
            return token(lx, out, TOKEN_END, lx->end, lx->end);
        unsigned char c = (unsigned char)lx->text[from];
        if (singles[c])
            return token(lx, out, (TokenKind)singles[c], from, from + 1);
        if (classes[c] & LETTER)
            return word(lx, out, from);
        if (classes[c] & DIGIT)
            return number(lx, out, from, from);
        if (c == '%')
            return sigil(lx, out, from);
        lx->at = from;
        Gap gap = c == '/' || c == '\r' ? comment(lx, out) : GAP_NONE;
        if (gap == GAP_TOKEN)
            return TOKEN_COMMENT;
        if (gap == GAP_NONE)
            return sign(lx, out, from);
    }
}
