/* The machine code of a GPU's kernels. */
#ifndef SESSION_SASS_H
#define SESSION_SASS_H

#include "session/internal.h"

/* The text, PTX for the target, becomes what NVIDIA's tools show of its machine code; false after a diagnostic, also when there are no
 * tools. */
bool sass_of(RelaySession *s, const char *target, Buf *text);

#endif
