/* A long answer of several parts, full-screen: one part at a time, forward and back. */
#ifndef REPL_PARTS_H
#define REPL_PARTS_H

#include "base/buf.h"
#include "repl/term.h"

/* Shows the text, in which a form feed stands in front of each part; what stands in front of the first tells what there is, and stays
 * on the other screen in the end. False, and nothing happened, where all of it fits the screen, or nothing stands in front of a part. */
bool parts_show(Term *t, const Buf *text, bool color);

/* The same text at once, its differences in two columns. False where it has none, or the terminal is too narrow for them. */
bool parts_beside(Term *t, const Buf *text, bool color, Buf *out);

#endif
