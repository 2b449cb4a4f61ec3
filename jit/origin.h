/* What code was made of, for readers: lines of debug information, whose numbers stand for ranges of the text.
 *
 * Code that is made to be shown says with each instruction which expression it belongs to. LLVM hands that on to the machine code; the
 * text of either has the numbers in it, which are taken out again line by line. Code that runs carries nothing of it: then there is
 * no Origins, and all of these do nothing. */
#ifndef JIT_ORIGIN_H
#define JIT_ORIGIN_H

#include "jit/internal.h"

/* Begins to note; in the arena of `g`. */
Origins *origins_open(Gen *g, JitPlaces *places);
void origins_close(Origins *o);
/* What is made from here on is of the expression; none: that stays as it is. Gives what was before. */
Span origin_at(Gen *g, Span span);
/* Each function gets a scope of its own, behind all that is made. */
void origins_settle(Gen *g);
/* Appends a text of LLVM's without the debug information in it, and notes the places of its lines. */
void origins_read(Gen *g, JitText kind, const Buf *text, Buf *out);
/* Notes that the line of g->lowered that is written next is made of the expression. */
void origin_of_line(Gen *g, Span span);

#endif
