/* Relay text as HTML: a span with a class for each token, in the colours of the page. */
#include "session/internal.h"

#include <string.h>

typedef struct HtmlText {
    Buf *out;
    const char *text;
    size_t at;
} HtmlText;

static void html_token(void *data, const LexedToken *t)
{
    HtmlText *h = data;
    buf_html(h->out, h->text + h->at, t->from - h->at);
    buf_printf(h->out, "<span class=\"relay-%s\">", t->kind);
    buf_html(h->out, h->text + t->from, t->to - t->from);
    buf_str(h->out, "</span>");
    h->at = t->to;
}

static void html_tokens(Buf *out, const char *text, size_t len)
{
    HtmlText h = {out, text, 0};
    lex_each(text, len, html_token, &h);
    buf_html(out, text + h.at, len - h.at);
}

/* Colours follow the theme of the page; the second value is used where it sets none. */
static const char program_style[] =
    "<style>.relay-program{font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-"
    "code-font-size,inherit);line-height:var(--jp-code-line-height,1.4);white-space:pre;"
    "overflow-x:auto}"
    ".relay-program div{width:max-content;min-width:100%}"
    ".relay-added{background:rgba(63,185,80,.18)}"
    ".relay-removed{background:rgba(248,81,73,.16)}"
    ".relay-keyword{color:var(--jp-mirror-editor-keyword-color,#008000);font-weight:bold}"
    ".relay-operator{color:var(--jp-mirror-editor-builtin-color,#0055aa)}"
    ".relay-local,.relay-graph{color:var(--jp-mirror-editor-variable-color,#1a1a8c)}"
    ".relay-global,.relay-constructor{color:var(--jp-mirror-editor-def-color,#7b30d0)}"
    ".relay-type{color:var(--jp-mirror-editor-variable-3-color,#00695c)}"
    ".relay-number{color:var(--jp-mirror-editor-number-color,#986801)}"
    ".relay-string{color:var(--jp-mirror-editor-string-color,#ba2121)}"
    ".relay-comment{color:var(--jp-mirror-editor-comment-color,#78808a);font-style:italic}</style>";

static void open_program(Buf *out)
{
    buf_str(out, program_style);
    buf_str(out, "<div class=\"relay-program\">");
}

void html_program(Buf *out, const char *text, size_t len)
{
    open_program(out);
    html_tokens(out, text, len);
    buf_str(out, "</div>");
}

void html_diff(Buf *out, const char *text, size_t len)
{
    open_program(out);
    const char *end = text + len;
    for (const char *line = text; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *stop = newline ? newline : end;
        const char *class = *line == '+'   ? " class=\"relay-added\""
                            : *line == '-' ? " class=\"relay-removed\""
                                           : "";
        buf_printf(out, "<div%s>", class);
        size_t sign = line < stop;
        buf_html(out, line, sign);
        html_tokens(out, line + sign, (size_t)(stop - line) - sign);
        buf_str(out, "\n</div>");
        line = newline ? newline + 1 : end;
    }
    buf_str(out, "</div>");
}
