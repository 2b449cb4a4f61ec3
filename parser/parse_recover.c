/* Going on after an error in an expression: the frames that are unfinished say where. */
#include "parser/internal.h"

TokenKind frame_closing(uint8_t kind)
{
    switch ((FrameKind)kind) {
    case FRAME_FUNCTION:
    case FRAME_BLOCK:
    case FRAME_THEN:
    case FRAME_ELSE:
    case FRAME_CLAUSE: return TOKEN_RBRACE;
    case FRAME_PAREN:
    case FRAME_ARGS:
    case FRAME_REF:
    case FRAME_COND: return TOKEN_RPAREN;
    case FRAME_TOP:
    case FRAME_ITEM:
    case FRAME_ELSE_IF:
    case FRAME_SCRUTINEE:
    case FRAME_BINARY:
    case FRAME_NEGATE:
    case FRAME_LET:
    case FRAME_CHAIN:
    case FRAME_GRAPH:
    case FRAME_ATTR: break;
    }
    return TOKEN_END;
}

/* The innermost frame that can go on at this token: its position + 1, or 0. After a `]` that closes a parenthesis (`mismatch`) a `;` is
 * one inside of it only behind a binding. */
static size_t resume_at(const Parser *p, size_t base, bool mismatch)
{
    bool binds = false;
    for (size_t i = p->frames.n; i > base; i--) {
        uint8_t kind = p->frames.at[i - 1].kind;
        TokenKind close = frame_closing(kind);
        switch (p->tok.kind) {
        case TOKEN_SEMICOLON:
            if (kind == FRAME_ITEM ||
                (frame_is_sequence(kind) && (binds || !mismatch || close != TOKEN_RPAREN)))
                return i;
            binds = binds || kind == FRAME_LET || kind == FRAME_GRAPH;
            break;
        case TOKEN_RBRACE:
            if (close == TOKEN_RBRACE)
                return i;
            break;
        case TOKEN_RPAREN:
            if (close != TOKEN_END)
                return close == TOKEN_RPAREN ? i : 0;
            break;
        case TOKEN_COMMA:
            if (close != TOKEN_END)
                return kind == FRAME_PAREN || kind == FRAME_ARGS || kind == FRAME_CLAUSE ? i : 0;
            break;
        default: return 0;
        }
    }
    return 0;
}

/* The frames stay while text is passed over, so each kind of token is looked up once. */
static size_t resume_once(const Parser *p, size_t base, bool mismatch, bool seen[4])
{
    static const TokenKind kinds[4] = {TOKEN_SEMICOLON, TOKEN_RBRACE, TOKEN_RPAREN, TOKEN_COMMA};
    for (int i = 0; i < 4; i++) {
        if (kinds[i] != p->tok.kind || seen[i])
            continue;
        seen[i] = true;
        return resume_at(p, base, mismatch);
    }
    return 0;
}

void parse_unwind(Parser *p, size_t n)
{
    while (p->frames.n > n) {
        Frame f = *frame_top(p);
        bool bound = f.kind == FRAME_LET;
        if (bound)
            f.let.symbol->own = f.let.own;
        scope_leave(p, f.undo);
        if (f.kind == FRAME_CLAUSE)
            p->clauses.n = f.clause.clauses;
        parse_frame_pop(p);
        if (bound && !f.recursive)
            scope_bind(p, f.let.symbol, f.let.var);
        if (f.kind == FRAME_GRAPH)
            graph_bind(p, token_name(p, f.graph), p->poison);
    }
}

static bool ends_definition(const Parser *p)
{
    return parse_at(p, TOKEN_END) || parse_at(p, TOKEN_DEF) || parse_at(p, TOKEN_TYPE) ||
           parse_at(p, TOKEN_EXTERN) || parse_at(p, TOKEN_HASH);
}

bool parse_recover(Parser *p, size_t base)
{
    size_t depth = 0, at = 0;
    bool mismatch = parse_at(p, TOKEN_RBRACKET), seen[4] = {false};
    while (!ends_definition(p) && p->cx->limits.hit == LIMIT_NONE) {
        at = depth == 0 ? resume_once(p, base, mismatch, seen) : 0;
        if (at)
            break;
        bool opens =
            parse_at(p, TOKEN_LPAREN) || parse_at(p, TOKEN_LBRACE) || parse_at(p, TOKEN_LBRACKET);
        bool closes =
            parse_at(p, TOKEN_RPAREN) || parse_at(p, TOKEN_RBRACE) || parse_at(p, TOKEN_RBRACKET);
        depth += opens;
        depth -= closes && depth > 0;
        /* It may be bound in what is passed over. */
        if (parse_at(p, TOKEN_LOCAL))
            symbol_get(p, token_name(p, p->tok))->reported = p->definition;
        parse_advance(p);
    }
    parse_unwind(p, at ? at : base);
    if (!at)
        return false;
    if (parse_at(p, TOKEN_SEMICOLON)) {
        p->blamed_to = p->tok.to;
        parse_advance(p);
        /* Behind an item of a cell there is another one. */
        if (frame_top(p)->kind == FRAME_ITEM) {
            parse_unwind(p, base);
            return false;
        }
        p->state = STATE_STATEMENT;
        return true;
    }
    set_value(p, p->poison, p->tok.from, p->tok.from);
    return true;
}
