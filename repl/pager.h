/* Text that is longer than the screen, a page at a time. */
#ifndef REPL_PAGER_H
#define REPL_PAGER_H

#include "base/buf.h"
#include "repl/term.h"

/* The lines of a text; the last one need not end. */
size_t pager_lines(const Buf *text);
/* Whether the text takes more rows than the screen has. */
bool pager_needed(const Term *t, const Buf *text);
/* Shows the text, whose lines fit the screen, and waits at the end of each page: a blank shows the
 * next one, Enter a line, `q` leaves the rest out. */
void pager_show(Term *t, const Buf *text, bool color);

#endif
