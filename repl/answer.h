/* Reads the answer to what a cell asks: one line, with the keys of the line editor.
 *
 *     RelayAskEnd end = answer_read(term, "forget 2 functions? [y/N] ", color, &answer); */
#ifndef REPL_ANSWER_H
#define REPL_ANSWER_H

#include "base/buf.h"
#include "include/relay.h"
#include "repl/term.h"

/* The answer goes to `out`. The terminal is in its usual mode again when this returns. */
RelayAskEnd answer_read(Term *term, const char *question, bool color, Buf *out);

#endif
