/* The layout of a text as people write it: lines indented by their brackets, tokens spaced as usual. Unlike the canonical text, which is
 * printed from the program, it keeps names, comments and lines, and it is there for texts with errors. */
#include "include/relay.h"

#include "base/buf.h"
#include "base/memory.h"
#include "parser/lexer.h"

#include <stdlib.h>

enum { INDENT = 2 };

typedef struct Layout {
    Buf out;
    Lexer lx;
    long depth;
    Token before; /* END: none yet */
    bool spaced; /* blanks stood before the token that is written */
} Layout;

static bool is_open(TokenKind k)
{
    return k == TOKEN_LPAREN || k == TOKEN_LBRACKET || k == TOKEN_LBRACE || k == TOKEN_META ||
           k == TOKEN_HASH;
}

static bool is_close(TokenKind k)
{
    return k == TOKEN_RPAREN || k == TOKEN_RBRACKET || k == TOKEN_RBRACE;
}

/* Whether something ends with the token that an operator or a bracket may follow. */
static bool is_operand(TokenKind k)
{
    return k == TOKEN_IDENT || k == TOKEN_LOCAL || k == TOKEN_GRAPH || k == TOKEN_GLOBAL ||
           k == TOKEN_NUMBER || k == TOKEN_STRING || k == TOKEN_TRUE || k == TOKEN_FALSE ||
           k == TOKEN_UNDERSCORE || k == TOKEN_QUESTION || is_close(k);
}

/* Blanks between two tokens of a line: 0, 1, or as it was (-1). */
static int blanks(const Layout *l, Token t)
{
    TokenKind a = (TokenKind)l->before.kind, b = (TokenKind)t.kind;
    if (b == TOKEN_COMMENT || a == TOKEN_COMMENT || t.fault || l->before.fault)
        return -1;
    if (b == TOKEN_COMMA || b == TOKEN_SEMICOLON)
        return 0;
    if (a == TOKEN_COMMA || a == TOKEN_SEMICOLON)
        return 1;
    if (a == TOKEN_LPAREN || a == TOKEN_LBRACKET || b == TOKEN_RPAREN || b == TOKEN_RBRACKET)
        return 0;
    if (a == TOKEN_FAT_ARROW || b == TOKEN_FAT_ARROW || a == TOKEN_ARROW || b == TOKEN_ARROW)
        return 1;
    if (b == TOKEN_LBRACE || (a == TOKEN_RBRACE && b == TOKEN_ELSE))
        return 1;
    /* `-1` is one token or two, and `axis=1` has no blanks where `let %x = 1` has: what was written stays. */
    return -1;
}

/* A word that could run into the one before it keeps its blank. */
static bool runs_together(TokenKind a, TokenKind b)
{
    return (is_operand(a) || token_is_keyword(a)) && (is_operand(b) || token_is_keyword(b)) &&
           !is_close(a) && !is_close(b);
}

static void put_gap(Layout *l, Token t)
{
    int n = blanks(l, t);
    bool gap = n > 0 || (n < 0 && l->spaced) ||
               (n == 0 && l->spaced && runs_together((TokenKind)l->before.kind, (TokenKind)t.kind));
    if (gap)
        buf_char(&l->out, ' ');
}

/* Line ends between two places; more than one empty line becomes one. */
static size_t lines_between(const char *text, uint32_t from, uint32_t to)
{
    size_t n = 0;
    for (uint32_t i = from; i < to; i++)
        n += text[i] == '\n';
    return n;
}

static bool begins_command(const Layout *l, Token t)
{
    return t.kind == TOKEN_COLON && l->depth == 0;
}

static void put_line_ends(Layout *l, Token t, size_t lines)
{
    bool first = l->before.kind == TOKEN_END;
    if (!first)
        buf_repeat(&l->out, '\n', lines > 2 ? 2 : lines);
    long depth = l->depth - is_close((TokenKind)t.kind);
    if (!begins_command(l, t))
        buf_repeat(&l->out, ' ', (size_t)(depth > 0 ? INDENT * depth : 0));
}

/* A command is one line, whatever stands in it. */
static void put_command(Layout *l, Token *t)
{
    uint32_t end = t->from;
    while (end < l->lx.end && l->lx.text[end] != '\n')
        end++;
    t->to = end;
    while (t->to > t->from && strchr(" \t\r", l->lx.text[t->to - 1]))
        t->to--;
    l->lx.at = end;
}

static void put_token(Layout *l, Token t)
{
    uint32_t gap = l->before.kind == TOKEN_END ? 0 : l->before.to;
    size_t lines = lines_between(l->lx.text, gap, t.from);
    bool first = l->before.kind == TOKEN_END;
    l->spaced = t.from > gap;
    if (lines > 0 || first) {
        put_line_ends(l, t, lines);
        if (begins_command(l, t))
            put_command(l, &t);
    } else {
        put_gap(l, t);
    }
    buf_bytes(&l->out, l->lx.text + t.from, t.to - t.from);
    l->depth += is_open((TokenKind)t.kind);
    l->depth -= is_close((TokenKind)t.kind) && l->depth > 0;
    l->before = t;
}

/* Whether both texts are the same tokens, comments included: the layout may change nothing else. */
static bool same_tokens(const char *a, size_t n_a, const char *b, size_t n_b)
{
    Lexer x = {.text = a, .end = (uint32_t)n_a, .comments = true};
    Lexer y = {.text = b, .end = (uint32_t)n_b, .comments = true};
    for (;;) {
        Token s = lexer_next(&x), t = lexer_next(&y);
        if (s.kind != t.kind || s.to - s.from != t.to - t.from ||
            memcmp(a + s.from, b + t.from, s.to - s.from) != 0)
            return false;
        if (s.kind == TOKEN_END)
            return true;
    }
}

char *relay_layout(const char *text, size_t len, size_t *n)
{
    if (len > UINT32_MAX / 2)
        return NULL;
    Layout l = {.lx = {.text = text, .end = (uint32_t)len, .comments = true},
                .before = {.kind = TOKEN_END}};
    for (Token t = lexer_next(&l.lx); t.kind != TOKEN_END; t = lexer_next(&l.lx)) {
        /* What never ends may hold anything. */
        if (t.fault == FAULT_COMMENT || t.fault == FAULT_STRING) {
            buf_deinit(&l.out);
            return NULL;
        }
        put_token(&l, t);
    }
    if (l.out.n)
        buf_char(&l.out, '\n');
    if (!l.out.failed && same_tokens(text, len, buf_text(&l.out), l.out.n)) {
        *n = l.out.n;
        char *out = buf_take(&l.out);
        return out ? out : memory_text("", 0);
    }
    buf_deinit(&l.out);
    return NULL;
}
