/* Whether the value of a let is a function literal. That has to be known before the value is read, since it decides what
 * the let's own name means there.
 *
 * One look over the text of a literal notes where each literal inside it ends too: then nesting costs nothing more. */
#include "parser/internal.h"

#include <string.h>

/* Notes the literals that begin in the text from `fn` up to the end of the one that begins there. */
static void look_ahead(Parser *p, Lexer ahead, Token t)
{
    uint32_t taken = 0;
    p->literals.n = p->opened.n = 0;
    vec_push(&p->opened, &p->scratch, (Opened){0});
    for (; t.kind != TOKEN_END; lexer_read(&ahead, &t)) {
        Opened *top = &vec_last(&p->opened);
        if (++taken % TOKENS_TO_ASK == 0 && limit_hit(&p->cx->limits))
            break;
        switch (t.kind) {
        case TOKEN_FN: /* one behind another without a body between is a part of its result type */
            if (!top->head)
                *top = (Opened){.head = true, .from = t.from, .literal = top->literal};
            break;
        case TOKEN_ASSIGN:
        case TOKEN_COMMA:
        case TOKEN_FAT_ARROW:
        case TOKEN_SEMICOLON: top->head = false; break; /* it was a type */
        case TOKEN_LBRACE:
            if (top->head) {
                top->head = false;
                vec_push(&p->literals, &p->scratch, ((Literal){top->from, 0}));
                vec_push(&p->opened, &p->scratch, ((Opened){.literal = p->literals.n}));
                break;
            }
            vec_push(&p->opened, &p->scratch, (Opened){0});
            break;
        case TOKEN_LPAREN:
        case TOKEN_LBRACKET: vec_push(&p->opened, &p->scratch, (Opened){0}); break;
        case TOKEN_RPAREN:
        case TOKEN_RBRACKET:
        case TOKEN_RBRACE:
            if (top->literal)
                p->literals.at[top->literal - 1].to = t.to;
            p->opened.n--;
            break;
        default: break;
        }
        if (p->opened.n == 0 || (p->opened.n == 1 && !p->opened.at[0].head))
            break;
    }
    p->ahead_to = t.to;
}

/* Where the literal ends that begins at the token; 0 when its text is broken. */
static uint32_t literal_end(Parser *p, const Lexer *ahead, Token t)
{
    if (t.from >= p->ahead_to)
        look_ahead(p, *ahead, t);
    size_t low = 0, high = p->literals.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->literals.at[middle].from < t.from)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->literals.n && p->literals.at[low].from == t.from ? p->literals.at[low].to : 0;
}

/* Whether what stands from `end` on calls the value before it. In a cell, an item may begin there instead. */
static bool is_called(const Parser *p, uint32_t end, Token t)
{
    bool item =
        p->lines && p->frames.n == 0 && memchr(p->lx.text + end, '\n', t.from - end) != NULL;
    return t.kind == TOKEN_LPAREN && !item;
}

bool parse_at_literal(Parser *p)
{
    Lexer ahead = p->lx;
    Token t = p->tok;
    uint32_t open = 0;
    for (; t.kind == TOKEN_LPAREN; open++)
        lexer_read(&ahead, &t);
    if (t.kind != TOKEN_FN)
        return false;
    uint32_t end = literal_end(p, &ahead, t);
    if (end == 0)
        return true;
    ahead.at = end;
    lexer_read(&ahead, &t);
    for (; open > 0 && t.kind == TOKEN_RPAREN; open--) {
        end = t.to;
        lexer_read(&ahead, &t);
    }
    return open == 0 && !is_called(p, end, t);
}
