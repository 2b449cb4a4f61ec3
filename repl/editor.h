/* The editor of the person, for a text that has outgrown a line: $VISUAL, else $EDITOR, else vi. */
#ifndef REPL_EDITOR_H
#define REPL_EDITOR_H

#include "base/buf.h"

#include <stdbool.h>

/* Edits the text, in a file that is gone afterwards. False, and the text as it was, when that did not go well. */
bool editor_run(Buf *text);

#endif
