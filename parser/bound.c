/* What a text calls an expression, from the text alone: passes take variables away and keep places. */
#include "parser/parser.h"

#include <string.h>

#define BLANKS " \t\r\n"
#define TYPE_MOST 4096 /* bytes of the name and its type in front of the sign */

static const char *behind_blanks(const char *from, const char *at)
{
    while (at > from && strchr(BLANKS, at[-1]))
        at--;
    return at;
}

static bool is_of_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The name in `%a` or `%a: T`, which end at `end`. */
static Str name_before(const char *text, const char *end)
{
    const char *least = end - text > TYPE_MOST ? end - TYPE_MOST : text, *at = end;
    while (at > least && !strchr(";{}%", at[-1]))
        at--;
    if (at == least || at[-1] != '%')
        return (Str){0};
    size_t n = 0;
    while (at + n < end && is_of_name(at[n]))
        n++;
    const char *rest = at + n + strspn(at + n, BLANKS);
    return rest >= end || *rest == ':' ? (Str){at, n} : (Str){0};
}

/* Whether the text is one call, `f(x)` and not `f(x) + 1`, of something else. */
static bool calls_another(const char *at, const char *end, const char *callee)
{
    const char *open = at;
    while (open < end && (is_of_name(*open) || *open == '.'))
        open++;
    if (open == at || open == end || *open != '(' || str_is((Str){at, (size_t)(open - at)}, callee))
        return false;
    int depth = 0;
    for (at = open; at < end; at++) {
        depth += (*at == '(') - (*at == ')');
        if (depth == 0)
            break;
    }
    return at + 1 >= end;
}

Str parse_bound_name(const SourceMap *sources, Span span, const char *callee)
{
    const Source *s = sources_get(sources, span.source);
    if (!s || span.to > s->len || span.from >= span.to)
        return (Str){0};
    const char *from = behind_blanks(s->text, s->text + span.from), *to = s->text + span.to;
    to += strspn(to, BLANKS);
    while (from > s->text && from[-1] == '(' && *to == ')') {
        from = behind_blanks(s->text, from - 1);
        to += 1 + strspn(to + 1, BLANKS);
    }
    if (from == s->text || from[-1] != '=' || *to != ';')
        return (Str){0};
    if (calls_another(s->text + span.from, s->text + span.to, callee))
        return (Str){0};
    return name_before(s->text, from - 1);
}
