/* Colours for Relay text while it is typed. */
#ifndef REPL_HIGHLIGHT_H
#define REPL_HIGHLIGHT_H

#include "base/buf.h"
#include "repl/term.h"

/* Puts one byte, a TermStyle, into `styles` for each byte of the text; `language` as relay_highlight has it. */
void highlight(Buf *styles, const char *language, const char *text, size_t n);
/* The style of one kind of token, by the names of include/relay.h; plain for an unknown one. */
TermStyle highlight_style(const char *kind);

#endif
