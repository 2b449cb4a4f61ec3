#include "session/explain.h"

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

/* A line of prose without the sign of a heading. */
static void print_prose(Buf *out, const char *line, size_t n)
{
    size_t at = 0;
    while (at < n && line[at] == '#')
        at++;
    if (at && at < n && line[at] == ' ')
        at++;
    buf_bytes(out, line + at, n - at);
}

void error_page_print(Buf *out, const ErrorPage *page)
{
    static const char fence[] = "```";
    bool code = false;
    for (const char *line = page->text; *line;) {
        size_t n = strcspn(line, "\n");
        bool mark = strncmp(line, fence, strlen(fence)) == 0;
        if (mark)
            code = !code;
        if (!mark && code && n)
            buf_str(out, "    ");
        if (!mark && code)
            buf_bytes(out, line, n);
        else if (!mark)
            print_prose(out, line, n);
        line += n + (line[n] == '\n');
        if (!mark && *line)
            buf_char(out, '\n');
    }
}
