/* The pages of the diagnostics, docs/errors/CODE.md, which the program carries with it. */
#ifndef SESSION_EXPLAIN_H
#define SESSION_EXPLAIN_H

#include "base/buf.h"
#include "base/diag.h"

#include <stddef.h>

/* One page; `text` ends with a NUL that `len` does not count. */
typedef struct ErrorPage {
    const char *name;       /* "E0207.md" */
    const char *text;
    size_t len;
} ErrorPage;

/* All pages, sorted by name; the last row has no name. */
extern const ErrorPage error_pages[];

/* The page of a diagnostic. */
const ErrorPage *error_page(DiagCode code);

/* The page for a terminal: without the marks of Markdown, programs indented, prose in lines of `width` columns. */
void error_page_print(Buf *out, const ErrorPage *page, int width);

#endif
