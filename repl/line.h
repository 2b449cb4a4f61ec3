/* The line editor: reads one cell, of as many lines as it takes.
 *
 * Enter ends the cell when the session says that it is whole, and begins a new line, indented,
 * when it is not. The keys are those of emacs and readline; line.c has them in one table.
 *
 *     Line *l = line_new(term, session, history, color);
 *     Buf cell = {0};
 *     while (line_read(l, &cell) != LINE_LEFT)
 *         run(buf_text(&cell), cell.n);
 *     line_free(l); */
#ifndef REPL_LINE_H
#define REPL_LINE_H

#include "base/buf.h"
#include "include/relay.h"
#include "repl/history.h"
#include "repl/term.h"

typedef struct Line Line;

typedef enum LineEnd {
    LINE_ENTERED,
    LINE_CANCELLED,         /* Ctrl-C: nothing is to be run */
    LINE_LEFT,              /* Ctrl-D on an empty line, or the terminal is gone */
} LineEnd;

/* Everything given is lent for the life of the editor. Without a session and a history it reads one line of whatever text. NULL only
 * without memory. */
Line *line_new(Term *term, RelaySession *session, LineHistory *history, bool color);
void line_free(Line *l);

/* `idle(data)` is called once, after the next prompt has been drawn and while nobody types. */
void line_on_idle(Line *l, void (*idle)(void *data), void *data);

/* The next cell begins with this text. */
void line_offer(Line *l, const char *text, size_t n);

/* Reads a cell into `out`. The terminal is in its usual mode again when this returns. */
LineEnd line_read(Line *l, Buf *out);

#endif
