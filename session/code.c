#include "session/code.h"

#include <ctype.h>
#include <string.h>

/* A sign in front of a name, and what that then is. */
typedef struct CodeSign {
    char sign;
    const char *kind;
} CodeSign;

typedef struct CodeRow {
    const char *type, *comment;
    CodeSign signs[4];
    const char *keywords[12];
    const char *types[8]; /* `#` stands for digits */
    const char *first; /* what the first word of a statement is; NULL: a word like others */
    const char *directive; /* the first word, where it begins with a dot */
} CodeRow;

static const CodeRow rows[CODE_LANGUAGES] = {
    [CODE_LOOPS] = {.type = "text/x-relay-loops",
                    .comment = "//",
                    .signs = {{'%', "local"}, {'@', "global"}},
                    .keywords = {"for", "in", "if", "else", "let", "fn", "vector", "unrolled",
                                 "parallel", "from"},
                    .types = {"Tensor", "float#", "int#", "uint#", "bfloat#", "bool"}},
    [CODE_LLVM] =
        {.type = "text/x-llvm",
         .comment = ";",
         .signs = {{'%', "local"}, {'@', "global"}, {'!', "attribute"}, {'#', "attribute"}},
         .keywords = {"call", "to", "label"},
         .types = {"i#", "float", "double", "half", "bfloat", "ptr", "void"},
         .first = "keyword"},
    [CODE_ASM] = {.type = "text/x-gas",
                  .comment = "#",
                  .signs = {{'%', "local"}, {'$', "number"}, {'@', "attribute"}},
                  .first = "operator",
                  .directive = "keyword"},
    [CODE_PTX] = {.type = "text/x-ptx",
                  .comment = "//",
                  .signs = {{'%', "local"}, {'$', "global"}, {'@', "attribute"}},
                  .first = "operator",
                  .directive = "keyword"},
};

const char *code_type(CodeLanguage language)
{
    return rows[language].type;
}

bool code_find(const char *type, CodeLanguage *out)
{
    for (CodeLanguage k = 0; k < CODE_LANGUAGES; k++)
        if (strcmp(rows[k].type, type) == 0) {
            *out = k;
            return true;
        }
    return false;
}

const char *code_comment(CodeLanguage language)
{
    return rows[language].comment;
}

typedef struct CodeScan {
    const CodeRow *row;
    const char *text, *end;
    void (*token)(void *data, const LexedToken *t);
    void *data;
    bool begins; /* nothing of the statement has been read */
} CodeScan;

static bool is_letter(char c)
{
    return isalpha((unsigned char)c) || c == '_' || c == '.';
}

static const char *word_end(const CodeScan *s, const char *p)
{
    while (p < s->end && (is_letter(*p) || isdigit((unsigned char)*p)))
        p++;
    return p;
}

/* Digits, and what may follow them in numbers of any base: `0x1F`, `1.5e-3`; of `0..4` the 0. */
static const char *number_end(const CodeScan *s, const char *p)
{
    const char *from = p;
    bool hex = s->end - p > 1 && p[0] == '0' && p[1] == 'x';
    while (p < s->end &&
           (isalnum((unsigned char)*p) || (*p == '.' && p + 1 < s->end && p[1] != '.') ||
            (!hex && p > from && (*p == '-' || *p == '+') && p[-1] == 'e')))
        p++;
    return p;
}

static bool fits(const char *pattern, const char *word, size_t len)
{
    size_t n = strcspn(pattern, "#");
    if (len < n || memcmp(pattern, word, n) != 0)
        return false;
    if (!pattern[n])
        return len == n;
    for (size_t i = n; i < len; i++)
        if (!isdigit((unsigned char)word[i]))
            return false;
    return len > n;
}

static bool is_one_of(const char *const *patterns, size_t n, const char *word, size_t len)
{
    for (size_t i = 0; i < n && patterns[i]; i++)
        if (fits(patterns[i], word, len))
            return true;
    return false;
}

#define ONE_OF(list, word, len) is_one_of((list), sizeof(list) / sizeof *(list), (word), (len))

static void give(CodeScan *s, const char *from, const char *to, const char *kind)
{
    s->token(s->data, &(LexedToken){(uint32_t)(from - s->text), (uint32_t)(to - s->text), kind});
}

static const char *kind_of_word(const CodeScan *s, const char *from, const char *to)
{
    size_t len = (size_t)(to - from);
    const CodeRow *row = s->row;
    if (s->begins && to < s->end && *to == ':')
        return "global";
    if (ONE_OF(row->types, from, len))
        return "type";
    if (ONE_OF(row->keywords, from, len))
        return "keyword";
    if (s->begins && row->directive && *from == '.')
        return row->directive;
    if (row->first)
        return s->begins ? row->first : NULL;
    return to < s->end && *to == '(' ? "operator" : NULL;
}

static const char *sign_kind(const CodeRow *row, char c)
{
    for (size_t i = 0; i < sizeof row->signs / sizeof *row->signs && row->signs[i].sign; i++)
        if (row->signs[i].sign == c)
            return row->signs[i].kind;
    return NULL;
}

static const char *string_end(const CodeScan *s, const char *p)
{
    for (p++; p < s->end && *p != '"' && *p != '\n'; p++)
        continue;
    return p < s->end && *p == '"' ? p + 1 : p;
}

/* One token, or a character that is none; what follows it. */
static const char *next(CodeScan *s, const char *p)
{
    size_t n = strlen(s->row->comment);
    const char *kind = sign_kind(s->row, *p), *to = p + 1;
    if ((size_t)(s->end - p) >= n && memcmp(p, s->row->comment, n) == 0) {
        to = memchr(p, '\n', (size_t)(s->end - p));
        to = to ? to : s->end;
        kind = "comment";
    } else if (kind) {
        to = p + 1 < s->end && p[1] == '"' ? string_end(s, p + 1) : word_end(s, p + 1);
        kind = to > p + 1 ? kind : NULL;
    } else if (*p == '"') {
        to = string_end(s, p);
        kind = "string";
    } else if (isdigit((unsigned char)*p)) {
        to = number_end(s, p);
        kind = "number";
    } else if (is_letter(*p)) {
        to = word_end(s, p);
        kind = kind_of_word(s, p, to);
    }
    if (kind)
        give(s, p, to, kind);
    /* What is computed stands behind `=`, and what is done behind a label. */
    s->begins = *p == '\n' || *p == '=' || (s->begins && isspace((unsigned char)*p));
    return to;
}

void code_each(CodeLanguage language, const char *text, size_t len,
               void (*token)(void *data, const LexedToken *t), void *data)
{
    CodeScan s = {&rows[language], text, text + len, token, data, true};
    for (const char *p = text; p < s.end;)
        p = next(&s, p);
}
