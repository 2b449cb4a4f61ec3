#include "session/html.h"

#include "base/limit.h"
#include "base/memory.h"

#include "parser/parser.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

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

void html_tokens(Buf *out, const char *text, size_t len)
{
    HtmlText h = {out, text, 0};
    lex_each(text, len, html_token, &h);
    buf_html(out, text + h.at, len - h.at);
}

void html_code_tokens(Buf *out, CodeLanguage language, const char *text, size_t len)
{
    HtmlText h = {out, text, 0};
    code_each(language, text, len, html_token, &h);
    buf_html(out, text + h.at, len - h.at);
}

/* Colours follow the theme of the page; the second value is used where it sets none. */
static const char program_style[] =
    "<style>.relay-program{font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-"
    "code-font-size,inherit);line-height:var(--jp-code-line-height,1.4);white-space:pre;"
    "overflow-x:auto}"
    ".relay-program div{width:max-content;min-width:100%}"
    "@media print{.relay-program.relay-program.relay-program{white-space:pre-wrap;overflow:visible;"
    "max-height:none}.relay-program div{width:auto}"
    ".relay-added,.relay-removed{-webkit-print-color-adjust:exact;print-color-adjust:exact}}"
    ".relay-added{background:rgba(63,185,80,.13)}"
    ".relay-removed{background:rgba(248,81,73,.12)}"
    ".relay-keyword{color:var(--jp-mirror-editor-keyword-color,#008000);font-weight:bold}"
    ".relay-operator{color:var(--jp-mirror-editor-builtin-color,#0055aa)}"
    ".relay-local,.relay-graph{color:var(--jp-mirror-editor-variable-color,#1a1a8c)}"
    ".relay-global,.relay-constructor{color:var(--jp-mirror-editor-def-color,#7b30d0)}"
    ".relay-type{color:var(--jp-mirror-editor-variable-3-color,#00695c)}"
    ".relay-number{color:var(--jp-mirror-editor-number-color,#986801)}"
    ".relay-string{color:var(--jp-mirror-editor-string-color,#ba2121)}"
    ".relay-comment{color:var(--jp-mirror-editor-comment-color,#78808a);font-style:italic}</style>";

void html_page_begin(Buf *out, const char *title)
{
    buf_printf(
        out,
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"color-scheme\" "
        "content=\"light dark\"><title>%s</title><style>body{font-family:sans-serif;"
        "margin:2em}@media print{body{margin:0;color-scheme:light}}"
        "@media screen and (prefers-color-scheme:dark){:root{--jp-ui-font-color1:#e6edf3;"
        "--jp-ui-font-color2:#9da7b3;--jp-ui-font-color3:#7d8590;--jp-layout-color1:#161b22;"
        "--jp-layout-color2:#262c36;--jp-border-color1:#545d68;--jp-border-color2:#3d444d;"
        "--jp-brand-color1:#58a6ff;--jp-error-color1:#ff7b72;"
        "--jp-mirror-editor-keyword-color:#7ee787;--jp-mirror-editor-builtin-color:#79c0ff;"
        "--jp-mirror-editor-variable-color:#a5b4fc;--jp-mirror-editor-def-color:#d2a8ff;"
        "--jp-mirror-editor-variable-3-color:#5eead4;--jp-mirror-editor-number-color:#f0b072;"
        "--jp-mirror-editor-string-color:#ffa198;--jp-mirror-editor-comment-color:#8b949e}}"
        "</style>",
        title);
}

/* Bytes at the beginning, in whole lines, that get colours: what a page has of elements is what it costs to open. */
#define PROGRAM_COLOURED ((size_t)200 << 10)
#define CODE_COLOURED ((size_t)20 << 10)

static size_t coloured_of(const char *text, size_t len, size_t most)
{
    const char *cut = len > most ? memchr(text + most, '\n', len - most) : NULL;
    return cut ? (size_t)(cut - text) : len;
}

void html_program(Buf *out, const char *text, size_t len)
{
    size_t coloured = coloured_of(text, len, PROGRAM_COLOURED);
    buf_str(out, program_style);
    buf_str(out, "<pre class=\"relay-program\">");
    html_tokens(out, text, coloured);
    buf_html(out, text + coloured, len - coloured);
    buf_str(out, "</pre>");
}

void html_code(Buf *out, CodeLanguage language, const char *text, size_t len)
{
    size_t coloured = coloured_of(text, len, CODE_COLOURED);
    buf_str(out, program_style);
    buf_str(out, "<pre class=\"relay-program\">");
    html_code_tokens(out, language, text, coloured);
    buf_html(out, text + coloured, len - coloured);
    buf_str(out, "</pre>");
}

static bool has_style(const Str *known, size_t n, Str style)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(known[i], style))
            return true;
    return false;
}

void html_one_sheet(Buf *page)
{
    static const char begin[] = "<style>", end[] = "</style>";
    enum { KNOWN = 32 }; /* a view consists of fewer */
    Buf sheet = {0}, rest = {0};
    Str known[KNOWN];
    size_t place = 0, n_known = 0;
    const char *at = buf_text(page), *last = at + page->n;
    for (const char *style; (style = strstr(at, begin));) {
        const char *body = style + strlen(begin), *stop = strstr(body, end);
        size_t n = stop ? (size_t)(stop - body) : 0;
        if (!stop)
            break;
        buf_bytes(&rest, at, (size_t)(style - at));
        place = sheet.n ? place : rest.n;
        Str own = {body, n};
        if (!has_style(known, n_known, own))
            buf_bytes(&sheet, body, n);
        if (n_known < KNOWN)
            known[n_known++] = own;
        at = stop + strlen(end);
    }
    buf_bytes(&rest, at, (size_t)(last - at));
    if (sheet.n && !sheet.failed && !rest.failed) {
        buf_clear(page);
        buf_bytes(page, buf_text(&rest), place);
        buf_printf(page, "%s%s%s", begin, buf_text(&sheet), end);
        buf_bytes(page, buf_text(&rest) + place, rest.n - place);
    }
    buf_deinit(&sheet);
    buf_deinit(&rest);
}

void html_as_text(Buf *out, const Buf *text)
{
    buf_str(out, "<details class=\"relay-as-text\"><summary>as text</summary><pre>");
    buf_html(out, buf_text(text), text->n);
    buf_str(out, "</pre></details>");
}

/* ---- marked text ------------------------------------------------------------------------------------------------------------- */

static const char mark_style[] =
    "<style>.relay-line{color:var(--jp-ui-font-color3,#8a8f98);user-select:none}"
    ".relay-program mark{color:inherit;border-radius:2px;padding:1px 0}"
    "mark.relay-mark-numbered{background:none}"
    "mark.relay-mark-at{background:var(--relay-mark-at,rgba(255,193,7,.38))}"
    /* On these grounds the colours of tokens are hard to read in a dark theme. */
    "mark.relay-mark-at span,mark.relay-mark-wrong span{color:inherit}"
    "mark.relay-mark-other{background:var(--relay-mark-other,rgba(33,150,243,.24))}"
    "mark.relay-mark-wrong{background:var(--relay-mark-wrong,rgba(244,67,54,.32))}</style>";

static const char *const mark_names[] = {
    [HTML_MARK_AT] = "at",         [HTML_MARK_OTHER] = "other",       [HTML_MARK_WRONG] = "wrong",
    [HTML_MARK_CHOICE] = "choice", [HTML_MARK_NUMBERED] = "numbered",
};

typedef struct MarkedText {
    Buf *out;
    const char *text;
    size_t from, to; /* what is shown */
    size_t at;
    uint32_t line; /* the number of the line that `at` is in */
    int digits;
    size_t n, next; /* the marks, and the first that has not begun */
    const HtmlMark **marks; /* in the order of their begin */
    size_t n_open;
    const HtmlMark **open; /* those around `at`, outer ones first */
    uint32_t changes, written; /* of `open`: so far, and when the element began */
    const HtmlMark *inside; /* whose element is written; NULL: no element */
} MarkedText;

static void open_line(MarkedText *m)
{
    buf_printf(m->out, "<span class=\"relay-line\">%*u  </span>", m->digits, (unsigned)m->line);
}

static int by_begin(const void *a, const void *b)
{
    const HtmlMark *x = *(const HtmlMark *const *)a, *y = *(const HtmlMark *const *)b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to > y->to ? -1 : 1;
    return (x > y) - (x < y);
}

/* The narrowest mark around the byte that is next, and where that may change. Bytes come in their order, so each mark is opened and
 * closed once. */
static const HtmlMark *mark_at(MarkedText *m, size_t *until)
{
    const HtmlMark *best = NULL;
    size_t kept = 0;
    for (; m->next < m->n && m->marks[m->next]->from <= m->at; m->changes++)
        m->open[m->n_open++] = m->marks[m->next++];
    if (m->next < m->n && m->marks[m->next]->from < *until)
        *until = m->marks[m->next]->from;
    for (size_t i = 0; i < m->n_open; i++) {
        const HtmlMark *k = m->open[i];
        if (k->to <= m->at)
            continue;
        m->open[kept++] = k;
        if (k->to < *until)
            *until = k->to;
        if (!best || k->to - k->from < best->to - best->from)
            best = k;
    }
    m->changes += kept != m->n_open;
    m->n_open = kept;
    return best;
}

static void open_mark(const MarkedText *m, const HtmlMark *mark)
{
    bool choice = mark->kind == HTML_MARK_CHOICE;
    if (choice)
        buf_printf(m->out, "<label for=\"%s%016llx-%u\" class=\"relay-choice h%u", mark->prefix,
                   (unsigned long long)mark->id, (unsigned)mark->number, (unsigned)mark->hue);
    else
        buf_printf(m->out, "<mark class=\"relay-mark-%s", mark_names[mark->kind]);
    for (size_t i = 0; i < m->n_open && (choice || mark->kind == HTML_MARK_NUMBERED); i++)
        buf_printf(m->out, " k%u", m->open[i]->number);
    buf_str(m->out, "\">");
}

/* Tokens in a row that have the same marks stand in one element. */
static void change_mark(MarkedText *m, const HtmlMark *mark)
{
    if (mark == m->inside && m->changes == m->written)
        return;
    if (m->inside)
        buf_str(m->out, m->inside->kind == HTML_MARK_CHOICE ? "</label>" : "</mark>");
    if (mark)
        open_mark(m, mark);
    m->inside = mark;
    m->written = m->changes;
}

/* Text of one kind of token (NULL: none), up to `to`. */
static void marked_piece(MarkedText *m, size_t to, const char *kind)
{
    while (m->at < to) {
        size_t until = to;
        const HtmlMark *mark = mark_at(m, &until);
        const char *newline = memchr(m->text + m->at, '\n', until - m->at);
        size_t stop = newline ? (size_t)(newline - m->text) : until;
        if (stop > m->at) {
            change_mark(m, mark);
            if (kind)
                buf_printf(m->out, "<span class=\"relay-%s\">", kind);
            buf_html(m->out, m->text + m->at, stop - m->at);
            buf_str(m->out, kind ? "</span>" : "");
        }
        m->at = newline ? stop + 1 : stop;
        if (!newline)
            continue;
        change_mark(m, NULL);
        m->line++;
        buf_char(m->out, '\n');
        if (m->at < m->to)
            open_line(m);
    }
}

static void marked_token(void *data, const LexedToken *t)
{
    MarkedText *m = data;
    marked_piece(m, m->from + t->from, NULL);
    marked_piece(m, m->from + t->to, t->kind);
}

/* The byte where line `line` begins, counted from 1; the end of the text behind the last. */
static size_t line_start(const char *text, size_t len, uint32_t line)
{
    size_t at = 0;
    for (uint32_t k = 1; k < line && at < len; k++) {
        const char *newline = memchr(text + at, '\n', len - at);
        at = newline ? (size_t)(newline - text) + 1 : len;
    }
    return at;
}

void html_source_style(Buf *out)
{
    buf_str(out, program_style);
    buf_str(out, mark_style);
}

void html_source(Buf *out, const char *text, size_t len, HtmlLines lines, size_t n,
                 const HtmlMark *marks)
{
    uint32_t first = lines.from ? lines.from : 1;
    MarkedText m = {.out = out, .text = text, .digits = 1};
    m.marks = n ? memory_alloc(2 * n * sizeof *m.marks) : NULL;
    if (m.marks) {
        m.n = n;
        m.open = m.marks + n;
        for (size_t i = 0; i < n; i++)
            m.marks[i] = &marks[i];
        qsort(m.marks, n, sizeof *m.marks, by_begin);
    }
    m.from = m.at = line_start(text, len, first);
    m.to = lines.to ? line_start(text, len, lines.to + 1) : len;
    m.line = lines.before + first;
    uint32_t last = m.line;
    for (size_t i = m.from; i < m.to; i++)
        last += text[i] == '\n';
    for (; last >= 10; last /= 10)
        m.digits++;
    buf_str(out, "<pre class=\"relay-program\">");
    open_line(&m);
    lex_each(text + m.from, m.to - m.from, marked_token, &m);
    marked_piece(&m, m.to, NULL);
    change_mark(&m, NULL);
    buf_str(out, "</pre>");
    free(m.marks);
}

/* ---- steps ------------------------------------------------------------------------------------------------------------------- */

/* Each step is a hidden radio button with a section behind it, which is seen while the button is on; what leads to another step is a
 * label of that step's button. */
static const char steps_style[] =
    "<style>.relay-steps{color:var(--jp-ui-font-color1,inherit);font-family:var(--jp-ui-font-"
    "family,sans-serif);font-size:var(--jp-ui-font-size1,13px);border:1px solid "
    "var(--jp-border-color2,#d0d4da);border-radius:4px;padding:8px 12px;max-width:100%}"
    ".relay-steps>input{position:absolute;opacity:0;width:0;height:0;margin:0}"
    ".relay-steps>section{display:none}"
    ".relay-steps>input:checked+section{display:block}"
    /* Nobody can go forward on paper. */
    "@media print{.relay-steps>section{display:block;margin-bottom:12px}"
    ".relay-steps nav{break-after:avoid}.relay-steps nav label{display:none}}"
    ".relay-steps nav{display:flex;gap:8px;align-items:baseline;margin-bottom:6px;"
    "padding-bottom:6px;border-bottom:1px solid var(--jp-border-color2,#d0d4da)}"
    ".relay-steps nav b{flex:1;font-weight:600}"
    ".relay-steps nav label{cursor:pointer;padding:1px 9px;border:1px solid "
    "var(--jp-border-color1,#b8bec8);border-radius:3px;user-select:none}"
    ".relay-steps nav label:hover{background:var(--jp-layout-color2,rgba(128,128,128,.16))}"
    ".relay-steps nav label.relay-none{opacity:.35;cursor:default}"
    ".relay-steps>input:focus-visible+section nav{outline:2px solid "
    "var(--jp-brand-color1,#1976d2);outline-offset:2px}"
    ".relay-steps .relay-wrong nav b{color:var(--jp-error-color1,#d32f2f)}"
    ".relay-steps nav code{font:inherit;font-family:var(--jp-code-font-family,monospace);"
    "background:none;padding:0;color:inherit}"
    ".relay-steps.relay-steps pre{margin:8px 0 0;white-space:pre-wrap;background:none;"
    "color:inherit;"
    "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,inherit)}"
    ".relay-steps.relay-steps pre.relay-program{margin:0;white-space:pre-wrap}"
    "</style>";

void html_steps_begin(HtmlSteps *steps, Buf *out, size_t n)
{
    uint64_t id = 0;
    if (getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id)
        id = (uint64_t)(clock_seconds() * 1e9);
    *steps = (HtmlSteps){.out = out, .n = n, .id = id, .start = 1};
    html_source_style(out);
    buf_str(out, steps_style);
    buf_str(out, "<div class=\"relay-steps\">");
}

void html_step_link(const HtmlSteps *steps, size_t to, const char *text)
{
    if (to >= 1 && to <= steps->n)
        buf_printf(steps->out, "<label for=\"rs%016llx-%zu\">%s</label> ",
                   (unsigned long long)steps->id, to, text);
    else
        buf_printf(steps->out, "<label class=\"relay-none\">%s</label> ", text);
}

void html_words(Buf *out, const char *text)
{
    bool code = false;
    while (*text) {
        size_t n = strcspn(text, "`");
        buf_html(out, text, n);
        text += n;
        if (!*text)
            break;
        buf_str(out, code ? "</code>" : "<code>");
        code = !code;
        text++;
    }
    buf_str(out, code ? "</code>" : "");
}

void html_step_begin(HtmlSteps *steps, const char *title, HtmlStepKind kind)
{
    Buf *out = steps->out;
    steps->at++;
    buf_printf(out, "<input type=\"radio\" name=\"rs%016llx\" id=\"rs%016llx-%zu\"%s",
               (unsigned long long)steps->id, (unsigned long long)steps->id, steps->at,
               steps->at == steps->start ? " checked" : "");
    if (steps->classes)
        buf_printf(out, " class=\"%s\"", steps->classes);
    buf_char(out, '>');
    buf_printf(out, "<section%s><nav>", kind == HTML_STEP_WRONG ? " class=\"relay-wrong\"" : "");
    buf_printf(out, "<span>%zu of %zu</span> <b>", steps->at, steps->n);
    html_words(out, title);
    buf_str(out, "</b> ");
    html_step_link(steps, 1, "\u21e4");
    html_step_link(steps, steps->at - 1, "\u2190 back");
    html_step_link(steps, steps->at + 1, "forward \u2192");
    html_step_link(steps, steps->n, "\u21e5");
    buf_str(out, "</nav>");
}

void html_step_end(HtmlSteps *steps)
{
    buf_str(steps->out, "</section>");
}

void html_steps_end(HtmlSteps *steps)
{
    buf_str(steps->out, "</div>");
}
