/* The history as the line editor goes through it: the entries of earlier runs, of the terminal and of the kernel, and those of this one
 * (base/history.h). A place in it is a number; greater ones are newer, and not every number is an entry.
 *
 *     LineHistory *h = line_history_new(NULL);
 *     line_history_add(h, "1 + 2", 5);
 *     size_t end = line_history_end(h);
 *     const char *newest = line_history_entry(h, line_history_match(h, end, -1, "", 0)); */
#ifndef REPL_HISTORY_H
#define REPL_HISTORY_H

#include <stddef.h>

typedef struct LineHistory LineHistory;

/* As history_new. NULL only without memory. */
LineHistory *line_history_new(const char *path);
void line_history_free(LineHistory *h);

/* Adds an entry, unless it equals the newest. Why it and those behind it are not kept for later, the first time; else NULL. */
const char *line_history_add(LineHistory *h, const char *text, size_t n);

/* Behind the newest entry: no place of one. */
size_t line_history_end(LineHistory *h);
/* The entry at a place; lent until the next question. */
const char *line_history_entry(LineHistory *h, size_t i);

/* The nearest entry before `from` (after it, with step 1) that contains the text; `*at` receives
 * the place of its last occurrence there. `line_history_end` when there is none. */
size_t line_history_search(LineHistory *h, size_t from, int step, const char *text, size_t *at);
/* The newest of the last thousand entries that begins with the first n bytes of the text and goes on. */
size_t line_history_recent(LineHistory *h, const char *text, size_t n);
/* The same for entries that begin with the first n bytes of the text. */
size_t line_history_match(LineHistory *h, size_t from, int step, const char *text, size_t n);

#endif
