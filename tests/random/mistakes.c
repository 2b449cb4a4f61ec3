#include "tests/random/mistakes.h"

#include "base/random.h"
#include "base/vec.h"
#include "parser/parser.h"

#include <string.h>

typedef struct Tokens {
    Arena arena;
    const char *text;
    Vec(LexedToken) at; /* without comments, up to the metadata */
} Tokens;

static void keep(void *data, const LexedToken *t)
{
    Tokens *all = data;
    if (strcmp(t->kind, "comment") != 0)
        vec_push(&all->at, &all->arena, *t);
}

static bool is(const Tokens *all, size_t i, const char *word)
{
    if (i >= all->at.n)
        return false;
    size_t n = all->at.at[i].to - all->at.at[i].from;
    return strlen(word) == n && !memcmp(all->text + all->at.at[i].from, word, n);
}

static bool is_kind(const Tokens *all, size_t i, const char *kind)
{
    return i < all->at.n && !strcmp(all->at.at[i].kind, kind);
}

/* ---- where each kind of mistake can stand */

/* A variable where it is used: behind its name stands no type. */
static bool local_use(const Tokens *all, size_t i)
{
    return is_kind(all, i, "local") && i > 0 && !is(all, i - 1, "let") && !is(all, i + 1, ":") &&
           !is(all, i + 1, "=") && (is(all, i + 1, ")") || is(all, i + 1, "(")) &&
           !is(all, i + 2, "=>") && !is(all, i + 2, "{") && !is(all, i + 2, "->") &&
           is(all, i - 1, "(") && i > 1 && is_kind(all, i - 2, "operator");
}

static bool operator_name(const Tokens *all, size_t i)
{
    return is_kind(all, i, "operator") && is(all, i + 1, "(");
}

static bool graph_use(const Tokens *all, size_t i)
{
    return is_kind(all, i, "graph") && !is(all, i + 1, "=");
}

static bool closing(const Tokens *all, size_t i)
{
    return is(all, i, ")") || is(all, i, "}") || is(all, i, "]");
}

static bool opening(const Tokens *all, size_t i)
{
    return is(all, i, "(") || is(all, i, "{");
}

static bool arrow(const Tokens *all, size_t i)
{
    return is(all, i, "=>");
}

static bool semicolon(const Tokens *all, size_t i)
{
    return is(all, i, ";") && (is(all, i + 1, "let") || is_kind(all, i + 1, "graph"));
}

static bool else_word(const Tokens *all, size_t i)
{
    return is(all, i, "else");
}

static bool attribute(const Tokens *all, size_t i)
{
    return is(all, i + 1, "=") && is(all, i, "newshape");
}

static bool condition(const Tokens *all, size_t i)
{
    return (is(all, i, "True") || is(all, i, "False")) && i > 1 && is(all, i - 2, "if");
}

/* The only argument of an operator that takes one. */
static bool argument(const Tokens *all, size_t i)
{
    return is_kind(all, i, "graph") && i > 1 && is(all, i - 1, "(") && is(all, i + 1, ")") &&
           is_kind(all, i - 2, "operator");
}

static bool global_use(const Tokens *all, size_t i)
{
    return is_kind(all, i, "global") && i > 0 && !is(all, i - 1, "def");
}

static bool type_name(const Tokens *all, size_t i)
{
    return (is(all, i, "List") || is(all, i, "Option")) && is(all, i + 1, "[") && i > 0 &&
           is(all, i - 1, ":");
}

static bool element_type(const Tokens *all, size_t i)
{
    return is(all, i, "float32") && i > 1 && is(all, i - 1, ",") && is(all, i - 2, ")");
}

static bool version(const Tokens *all, size_t i)
{
    return is(all, i, "\"0.0.5\"");
}

static bool projection(const Tokens *all, size_t i)
{
    return is_kind(all, i, "number") && i > 1 && is(all, i - 1, ".") &&
           is_kind(all, i - 2, "graph");
}

static bool constructor_pattern(const Tokens *all, size_t i)
{
    return is_kind(all, i, "constructor") && is(all, i + 1, "=>");
}

typedef struct Mistake {
    const char *name;
    bool (*fits)(const Tokens *all, size_t i);
    const char *with; /* in place of the token */
} Mistake;

static const Mistake mistakes[] = {
    {"a variable that nothing binds", local_use, "%nobody"},
    {"an operator that there is not", operator_name, "nn.nothing"},
    {"a graph variable that nothing binds", graph_use, "%99999"},
    {"a closing bracket too few", closing, " "},
    {"an opening bracket too few", opening, " "},
    {"no arrow in a clause", arrow, " "},
    {"no semicolon", semicolon, " "},
    {"no else", else_word, " "},
    {"an attribute that there is not", attribute, "nwshape"},
    {"a condition that is no bool", condition, "1"},
    {"no argument", argument, " "},
    {"an argument too many", argument, "1, 2, 3, 4, 5, 6, 7, 8, 9"},
    {"a function that there is not", global_use, "@nobody"},
    {"a type that there is not", type_name, "Lisst"},
    {"an element type that there is not", element_type, "floot32"},
    {"another version", version, "\"0.0.3\""},
    {"a projection out of range", projection, "77"},
    {"a constructor that there is not", constructor_pattern, "Nobody"},
    {"a number without its letter", projection, "1.5"},
};

static void replace(Buf *text, LexedToken t, const char *with)
{
    Buf now = {0};
    buf_bytes(&now, text->at, t.from);
    buf_str(&now, with);
    buf_bytes(&now, text->at + t.to, text->n - t.to);
    buf_deinit(text);
    *text = now;
}

const char *make_mistake(Buf *text, uint64_t seed)
{
    const Mistake *m = &mistakes[random_at(seed, 0) % (sizeof mistakes / sizeof *mistakes)];
    const char *end = strstr(buf_text(text), "\n#[metadata]");
    size_t n = end ? (size_t)(end - text->at) : text->n;
    Tokens all = {.text = buf_text(text)};
    arena_init(&all.arena, NULL);
    lex_each(text->at, n, keep, &all);
    size_t from = all.at.n ? random_at(seed, 1) % all.at.n : 0, found = all.at.n;
    for (size_t i = 0; i < all.at.n && found == all.at.n; i++)
        if (m->fits(&all, (from + i) % all.at.n))
            found = (from + i) % all.at.n;
    bool there = found < all.at.n;
    if (there)
        replace(text, all.at.at[found], m->with);
    arena_deinit(&all.arena);
    return there ? m->name : NULL;
}
