/* What was entered, kept across runs.
 *
 * The file has one entry a line, the newest last; inside an entry a line end is written `\n` and a
 * backslash `\\`. Several programs may add to it at once: each entry is one write under a lock. It
 * is read when the first old entry is asked for, so that a start costs nothing.
 *
 *     LineHistory *h = line_history_new(NULL);
 *     line_history_add(h, "1 + 2", 5);
 *     size_t n = line_history_count(h);
 *     const char *newest = line_history_entry(h, n - 1); */
#ifndef REPL_HISTORY_H
#define REPL_HISTORY_H

#include <stddef.h>

typedef struct LineHistory LineHistory;

/* `path` NULL: $XDG_STATE_HOME/relay/history, or ~/.local/state/relay/history; "": kept in memory
 * alone. NULL only without memory. */
LineHistory *line_history_new(const char *path);
void line_history_free(LineHistory *h);

/* Adds an entry, here and to the file, unless it equals the newest. */
void line_history_add(LineHistory *h, const char *text, size_t n);

size_t line_history_count(LineHistory *h);
/* Entry `i`, from 0, the oldest; lent until the next addition. */
const char *line_history_entry(LineHistory *h, size_t i);

/* The nearest entry before `from` (after it, with step 1) that contains the text; `*at` receives
 * the place of its last occurrence there. `line_history_count` when there is none. */
size_t line_history_search(LineHistory *h, size_t from, int step, const char *text, size_t *at);
/* The same for entries that begin with the first n bytes of the text. */
size_t line_history_match(LineHistory *h, size_t from, int step, const char *text, size_t n);

#endif
