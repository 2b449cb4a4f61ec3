/* The machine code of a GPU's kernels. */
#ifndef SESSION_SASS_H
#define SESSION_SASS_H

#include "session/internal.h"

/* The text, PTX that says its target, becomes what NVIDIA's tools show of its machine code; false after a diagnostic, also when there are no
 * tools. */
bool sass_of(RelaySession *s, Buf *text);

/* Gives where NVIDIA's program of that name is: in the PATH, or in a toolkit beside it; false: nowhere. */
bool sass_tool(const char *name, Buf *out);

#endif
