/* What is said of commands, of groups of operators, and of the words of the language, in lines of `width` columns. Those that return a bool
 * say nothing and return false where the name is nothing of that kind. */
#ifndef SESSION_HELP_H
#define SESSION_HELP_H

#include "base/buf.h"
#include "base/diag.h"
#include "base/str.h"
#include "include/relay.h"

/* All commands, a line each. */
void help_overview(Buf *b, int width);
/* One command: its arguments and what their words mean, and examples. */
bool help_command(Buf *b, Str name, int width);
/* A word or sign of the language, or an element type. */
bool help_word(Buf *b, Str word, int width);
/* The operators whose names begin with this and a dot. */
bool help_group(RelaySession *s, Buf *b, Str name);
/* Names like it: of functions for `@f`, variables for `%x`, commands for `:name`, and else of all that `:help` knows. */
void topic_suggest(RelaySession *s, Diag *d, const char *wanted);

#endif
