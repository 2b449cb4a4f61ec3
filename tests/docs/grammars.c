#include "grammars.h"

#include "parser/parser.h"
#include "runtime/dtype.h"

#include <string.h>

/* ---- the words ------------------------------------------------------------------------------------------------------- */

typedef enum WordList { NO_WORDS, KEYWORDS, CONSTANTS, TYPES } WordList;

static const char *const signs[] = {
#define PUNCT(kind, spelling) spelling,
#include "parser/tokens.def"
    NULL,
};

static bool is_constant(const char *word)
{
    return !strcmp(word, "True") || !strcmp(word, "False");
}

/* Words of a list, with `between` in front of each but the first. `import` is a keyword where a definition may stand. */
static void print_words(Buf *b, WordList list, const char *between)
{
    size_t n = 0;
    if (list == TYPES) {
        buf_str(b, "Tensor");
        for (int i = 0; i < DTYPE_IDS; i++)
            buf_printf(b, "%s%s", between, dtype_row((DTypeId)i)->name);
        return;
    }
    for (const char *const *k = relay_keywords; *k; k++)
        if (is_constant(*k) == (list == CONSTANTS))
            buf_printf(b, "%s%s", n++ ? between : "", *k);
    if (list == KEYWORDS)
        buf_printf(b, "%simport", between);
}

/* The signs that stand between operands, the longest first, as a pattern; in Vim's way where `vim`. */
static void print_signs(Buf *b, bool vim)
{
    static const char brackets[] = "(){}[],;:.#@%?_";
    size_t n = 0;
    for (size_t len = 2; len > 0; len--)
        for (const char *const *s = signs; *s; s++) {
            if (strlen(*s) != len || strchr(brackets, **s))
                continue;
            buf_str(b, n++ ? (vim ? "\\|" : "|") : "");
            for (const char *p = *s; *p; p++)
                buf_printf(b, strchr(vim ? "*" : "*+", *p) ? "\\%c" : "%c", *p);
        }
}

/* ---- the rules ------------------------------------------------------------------------------------------------------- */

/* In the order in which they are tried. Patterns are those of Oniguruma and Python, and Vim's; where `list` says so, they are its words,
 * behind which no name goes on. */
static const struct Rule {
    const char *name;
    WordList list;
    const char *pattern, *vim;
    const char *scope, *group, *token;
} rules[] = {
    {"line", NO_WORDS, "//.*", "//.*$", "comment.line.double-slash", "Comment", "Comment.Single"},
    {"mark", NO_WORDS, "#\\[[^\\]]*\\]?", "#\\[[^\\]]*\\]\\=", "meta.preprocessor", "PreProc",
     "Comment.Preproc"},
    {"command", NO_WORDS, "^\\s*:[a-z]+", "^\\s*:[a-z]\\+", "keyword.control.directive", "Macro",
     "Name.Builtin.Pseudo"},
    {"string", NO_WORDS, "\"(?:[^\"\\\\\\n]|\\\\.)*\"?",
     "\"\\%([^\"\\\\]\\|\\\\.\\)*\"\\=", "string.quoted.double", "String", "String"},
    {"variable", NO_WORDS, "%(?:[A-Za-z_][A-Za-z_0-9/]*|[0-9]+)",
     "%\\%([A-Za-z_][A-Za-z_0-9/]*\\|[0-9]\\+\\)", "variable.other", "Identifier", "Name.Variable"},
    {"function", NO_WORDS, "@[A-Za-z_][A-Za-z_0-9/]*", "@[A-Za-z_][A-Za-z_0-9/]*",
     "entity.name.function", "Function", "Name.Function"},
    {"number", NO_WORDS,
     "(?:(?:inf|nan)f(?:16|32|64)?(?![A-Za-z_0-9/])|"
     "[0-9][0-9.]*(?:[eE][-+]?[0-9]+)?(?:[fi](?:16|32|64)?)?)",
     "\\<\\%(\\%(inf\\|nan\\)f\\%(16\\|32\\|64\\)\\=\\>\\|"
     "[0-9][0-9.]*\\%([eE][-+]\\=[0-9]\\+\\)\\=\\%([fi]\\%(16\\|32\\|64\\)\\=\\)\\=\\)",
     "constant.numeric", "Number", "Number"},
    {"partial", NO_WORDS, "match\\?", "\\<match?", "keyword.control", "Keyword", "Keyword"},
    {"keyword", KEYWORDS, NULL, NULL, "keyword.control", "Keyword", "Keyword"},
    {"constant", CONSTANTS, NULL, NULL, "constant.language", "Boolean", "Keyword.Constant"},
    {"type", TYPES, NULL, NULL, "storage.type", "Type", "Keyword.Type"},
    {"constructor", NO_WORDS, "[A-Z][A-Za-z_0-9/]*", "\\<[A-Z][A-Za-z_0-9/]*", "entity.name.type",
     "Structure", "Name.Class"},
    {"operator", NO_WORDS, "[A-Za-z_][A-Za-z_0-9/]*(?:\\.[A-Za-z_][A-Za-z_0-9]*)*", NULL,
     "support.function", NULL, "Name"},
};

enum { N_RULES = sizeof rules / sizeof *rules };

#define NAME_ENDS "(?![A-Za-z_0-9./])"

static void print_pattern(Buf *b, const struct Rule *r)
{
    if (r->list == NO_WORDS) {
        buf_str(b, r->pattern);
        return;
    }
    buf_str(b, "(?:");
    print_words(b, r->list, "|");
    buf_str(b, ")" NAME_ENDS);
}

static void sign_pattern(Buf *b)
{
    buf_str(b, "(?:");
    print_signs(b, false);
    buf_char(b, ')');
}

/* ---- TextMate -------------------------------------------------------------------------------------------------------- */

static void textmate_match(Buf *b, const Buf *pattern, const char *scope)
{
    buf_str(b, ",\n    {\"match\": \"");
    buf_json(b, buf_text(pattern), pattern->n);
    buf_printf(b, "\", \"name\": \"%s.relay\"}", scope);
}

void textmate_grammar(Buf *b)
{
    Buf pattern = {0};
    buf_str(b, "{\n  \"name\": \"Relay\",\n  \"scopeName\": \"source.relay\",\n"
               "  \"fileTypes\": [\"rly\"],\n  \"patterns\": [\n    {\"include\": \"#comment\"}");
    for (size_t i = 0; i < N_RULES; i++) {
        buf_clear(&pattern);
        print_pattern(&pattern, &rules[i]);
        textmate_match(b, &pattern, rules[i].scope);
    }
    buf_clear(&pattern);
    sign_pattern(&pattern);
    textmate_match(b, &pattern, "keyword.operator");
    buf_str(b, "\n  ],\n  \"repository\": {\n    \"comment\": {\n"
               "      \"begin\": \"/\\\\*\", \"end\": \"\\\\*/\", \"name\": "
               "\"comment.block.relay\",\n"
               "      \"patterns\": [{\"include\": \"#comment\"}]\n    }\n  }\n}\n");
    buf_deinit(&pattern);
}

/* ---- Vim ------------------------------------------------------------------------------------------------------------- */

void vim_grammar(Buf *b)
{
    buf_str(b, "\" Relay. Made from the token table of relay.\nif exists('b:current_syntax')\n"
               "  finish\nendif\n\nsyntax case match\nsyntax iskeyword @,48-57,_,/,.\n");
    buf_str(b, "syntax match relayOperator \"");
    print_signs(b, true);
    buf_str(b, "\"\nhighlight default link relayOperator Operator\n");
    /* Of patterns that begin at one place Vim takes the last. */
    for (size_t i = N_RULES; i-- > 0;) {
        const struct Rule *r = &rules[i];
        if (!r->group)
            continue;
        buf_printf(b, "syntax %s relay_%s ", r->list == NO_WORDS ? "match" : "keyword", r->name);
        if (r->list == NO_WORDS)
            buf_printf(b, "+%s+", r->vim);
        else
            print_words(b, r->list, " ");
        buf_printf(b, "\nhighlight default link relay_%s %s\n", r->name, r->group);
    }
    buf_str(b, "syntax region relay_block start=+/\\*+ end=+\\*/+ contains=relay_block\n"
               "highlight default link relay_block Comment\n\n"
               "let b:current_syntax = 'relay'\n");
}

/* ---- Pygments -------------------------------------------------------------------------------------------------------- */

static void pygments_match(Buf *b, const Buf *pattern, const char *token)
{
    bool quoted = strchr(buf_text(pattern), '"') != NULL;
    buf_printf(b, "            (r%c%s%c, %s),\n", quoted ? '\'' : '"', buf_text(pattern),
               quoted ? '\'' : '"', token);
}

void pygments_lexer(Buf *b)
{
    Buf pattern = {0};
    buf_str(b,
            "\"\"\"Colours for Relay in what is made of notebooks (nbconvert), and wherever else "
            "Pygments is used.\n\nMade from the token table of relay.\"\"\"\n\n"
            "from pygments.lexer import RegexLexer\n"
            "from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, "
            "String, Text\n\n\n"
            "class RelayLexer(RegexLexer):\n    name = \"Relay\"\n"
            "    aliases = [\"relay\", \"rly\"]\n    filenames = [\"*.rly\", \"*.relay\"]\n"
            "    mimetypes = [\"text/x-relay\"]\n\n    tokens = {\n        \"root\": [\n"
            "            (r\"/\\*\", Comment.Multiline, \"comment\"),\n");
    for (size_t i = 0; i < N_RULES; i++) {
        buf_clear(&pattern);
        print_pattern(&pattern, &rules[i]);
        pygments_match(b, &pattern, rules[i].token);
    }
    buf_clear(&pattern);
    sign_pattern(&pattern);
    pygments_match(b, &pattern, "Operator");
    buf_str(b, "            (r\"\\s+\", Text),\n            (r\".\", Punctuation),\n        ],\n"
               "        \"comment\": [\n            (r\"[^*/]+\", Comment.Multiline),\n"
               "            (r\"/\\*\", Comment.Multiline, \"#push\"),\n"
               "            (r\"\\*/\", Comment.Multiline, \"#pop\"),\n"
               "            (r\"[*/]\", Comment.Multiline),\n        ],\n    }\n");
    buf_deinit(&pattern);
}
