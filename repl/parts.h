/* A long answer of several parts, full-screen: one part at a time, forward and back. */
#ifndef REPL_PARTS_H
#define REPL_PARTS_H

#include "base/buf.h"
#include "repl/term.h"

/* Shows the text, in which a form feed stands in front of each part; what stands in front of the first tells what there is, and stays
 * on the other screen in the end. False, and nothing happened, where all of it fits the screen, or nothing stands in front of a part. */
bool parts_show(Term *t, const Buf *text, bool color);

/* The same text at once for a screen of so many columns, its differences in two. False where it has none, or the screen is too narrow
 * for them. */
bool parts_beside(const Buf *text, int columns, bool color, Buf *out);

#endif
