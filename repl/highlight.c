#include "repl/highlight.h"

#include "include/relay.h"

#include <string.h>

static const struct {
    const char *kind;
    unsigned char style;
} styles_of[] = {
    {"keyword", STYLE_MAGENTA},
    {"operator", STYLE_BLUE},
    {"local", STYLE_PLAIN},
    {"global", STYLE_CYAN | STYLE_BOLD},
    {"graph", STYLE_CYAN},
    {"constructor", STYLE_GREEN | STYLE_BOLD},
    {"type", STYLE_CYAN},
    {"dtype", STYLE_CYAN},
    {"attribute", STYLE_PLAIN},
    {"number", STYLE_YELLOW},
    {"string", STYLE_GREEN},
    {"comment", STYLE_DIM},
    {"command", STYLE_MAGENTA | STYLE_BOLD},
    {"pass", STYLE_BLUE},
    {"path", STYLE_GREEN},
    {"punctuation", STYLE_PLAIN},
    {"error", STYLE_RED | STYLE_UNDERLINE},
};

TermStyle highlight_style(const char *kind)
{
    for (size_t i = 0; i < sizeof styles_of / sizeof *styles_of; i++)
        if (strcmp(styles_of[i].kind, kind) == 0)
            return styles_of[i].style;
    return STYLE_PLAIN;
}

static void paint_token(void *data, const RelayToken *t)
{
    Buf *styles = data;
    TermStyle style = highlight_style(t->kind);
    for (size_t i = t->from; i < t->to && i < styles->n; i++)
        styles->at[i] = (char)style;
}

void highlight(Buf *styles, const char *language, const char *text, size_t n)
{
    buf_clear(styles);
    buf_repeat(styles, STYLE_PLAIN, n);
    if (!styles->failed)
        relay_highlight(language, text, n, paint_token, styles);
}
