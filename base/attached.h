/* What a program carries behind itself: a copy of its file with bytes at the end, which it finds when it is run.
 *
 *     program     as it was, but for a mark where files of its kind have nothing: something must follow
 *     bytes       at a multiple of a page
 *     folder      where the plug-ins of the program lie, a text
 *     end         what this is, and where
 *
 * A copy finds its own with attached_find. */
#ifndef BASE_ATTACHED_H
#define BASE_ATTACHED_H

#include "base/file.h"

enum { ATTACHED_PIECES = 6 };

/* The pieces of a file that carries the bytes, into `out`; they lie in the arguments and in `rest`, which is empty before. The program is
 * one that the system can run. */
void attached_pieces(const Buf *program, const Buf *bytes, const char *folder, Buf *rest,
                     FilePiece out[ATTACHED_PIECES]);

typedef struct Attached {
    const char *at; /* at the beginning of a page, as long as the process */
    size_t n; /* 0: the file was cut short, or cannot be read */
    const char *folder;
} Attached;

/* What the running program carries; false: nothing. */
bool attached_find(Attached *out);

#endif
