#include "session/explain.h"

#include "session/internal.h"

#include <string.h>

const ErrorPage *error_page(DiagCode code)
{
    const char *wanted = diag_info(code)->code;
    size_t n = strlen(wanted);
    for (const ErrorPage *p = error_pages; p->name; p++)
        if (strncmp(p->name, wanted, n) == 0 && strcmp(p->name + n, ".md") == 0)
            return p;
    return NULL;
}

typedef enum LineKind { LINE_PROSE, LINE_PROGRAM, LINE_HIDDEN } LineKind;

/* What the line is; `inside` says what the lines around it are, and changes at the marks of programs and comments, which are hidden
   themselves. */
static LineKind line_kind(const char *line, LineKind *inside)
{
    static const char fence[] = "```", open[] = "<!--", close[] = "-->";
    LineKind was = *inside;
    if (strncmp(line, fence, sizeof fence - 1) == 0)
        *inside = was == LINE_PROGRAM ? LINE_PROSE : LINE_PROGRAM;
    else if (was == LINE_PROSE && strncmp(line, open, sizeof open - 1) == 0)
        *inside = LINE_HIDDEN;
    else if (was == LINE_HIDDEN && strncmp(line, close, sizeof close - 1) == 0)
        *inside = LINE_PROSE;
    else
        return was;
    return LINE_HIDDEN;
}

/* Bytes of the paragraph that begins here: to the next line that is empty, no prose, or an item of its own. */
static size_t paragraph(const char *line)
{
    size_t n = strcspn(line, "\n");
    while (line[0] != '#' && line[n] && line[n + 1] && !strchr("\n#`<-|", line[n + 1]))
        n += 1 + strcspn(line + n + 1, "\n");
    return n;
}

/* Prose without the sign of a heading; a row of a table stays as it is. */
static void print_prose(Buf *out, const char *line, size_t n, int width)
{
    size_t at = 0;
    while (at < n && line[at] == '#')
        at++;
    if (at && at < n && line[at] == ' ')
        at++;
    if (line[0] == '|')
        buf_bytes(out, line, n);
    else
        fill_words(out, (Str){line + at, n - at}, 0, width);
}

void error_page_print(Buf *out, const ErrorPage *page, int width)
{
    LineKind inside = LINE_PROSE;
    for (const char *line = page->text; *line;) {
        size_t n = strcspn(line, "\n");
        LineKind kind = line_kind(line, &inside);
        if (kind == LINE_PROSE && n)
            n = paragraph(line);
        if (kind != LINE_HIDDEN && line > page->text)
            buf_char(out, '\n');
        if (kind == LINE_PROGRAM && n)
            buf_str(out, "    ");
        if (kind == LINE_PROGRAM)
            buf_bytes(out, line, n);
        if (kind == LINE_PROSE)
            print_prose(out, line, n, width);
        line += n + (line[n] == '\n');
    }
}
