/* Text to tokens, one at a time.
 *
 * The lexer allocates nothing and reports nothing: what is wrong with a token stands in it, and the parser says so when it takes the
 * token. Any bytes give tokens, and every byte that is no blank lies in one; so the same lexer colours broken text. */
#ifndef PARSER_LEXER_H
#define PARSER_LEXER_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum TokenKind {
#define TOKEN(kind, words) TOKEN_##kind,
#define KEYWORD(kind, spelling) TOKEN_##kind,
#define PUNCT(kind, spelling) TOKEN_##kind,
#include "parser/tokens.def"
    TOKEN_KINDS
} TokenKind;

/* What is wrong with a token, if anything. */
typedef enum TokenFault {
    FAULT_NONE,
    FAULT_CHARACTER,        /* bytes that no token holds, alone or inside a name */
    FAULT_RETURN,           /* a carriage return without a line feed */
    FAULT_STRING,           /* a string that never ends; the token goes to the end of its line */
    FAULT_COMMENT, /* a comment that never ends; the token is the two characters that open it */
    FAULT_KEYWORD, /* a keyword behind a sigil */
} TokenFault;

typedef struct Token {
    uint32_t from, to; /* bytes [from, to) of the source */
    uint8_t kind; /* TokenKind */
    uint8_t fault; /* TokenFault */
} Token;

typedef struct Lexer {
    const char *text; /* a NUL or the bytes of a larger text may stand behind `end` */
    uint32_t end;
    uint32_t at;
    bool comments; /* give comments as tokens instead of passing over them */
    uint32_t minus_from, minus_to; /* the last run of `-` that belongs to no number */
} Lexer;

/* Reads the next token; its kind. */
TokenKind lexer_read(Lexer *lx, Token *out);
static inline Token lexer_next(Lexer *lx)
{
    Token t;
    lexer_read(lx, &t);
    return t;
}

/* The spelling in backquotes, or words: "`)`", "a number". */
const char *token_words(TokenKind kind);
/* The spelling of a keyword or of punctuation; NULL for the others. */
const char *token_spelling(TokenKind kind);
bool token_is_keyword(TokenKind kind);
/* Precedence as an infix operator; 0: it is none. */
int token_precedence(TokenKind kind);
/* The keyword of this spelling; TOKEN_IDENT when it is none. */
TokenKind keyword_of(const char *p, size_t n);

#endif
