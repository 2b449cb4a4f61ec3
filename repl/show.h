/* Shows what a session emits on standard output and standard error.
 *
 *     Show show;
 *     show_init(&show, COLOR_AUTO);
 *     relay_session_eval(s, &cell, show_sink(&show));
 *     if (show.failed) … what was to be shown could not be written */
#ifndef REPL_SHOW_H
#define REPL_SHOW_H

#include "base/buf.h"
#include "include/relay.h"

typedef enum ColorMode { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER } ColorMode;

typedef struct Show {
    int out, err;
    int columns; /* of what shows the text; 0: as the terminal has, if it is one */
    int stream; /* where progress and traces go: `out` in a session, `err` beside a stage's text */
    bool out_color,
        err_color; /* whether each may have colours; the session's are taken out where not */
    bool pictures; /* the terminal draws them */
    bool json; /* diagnostics as the JSON lines of cli.md */
    bool quit, clear; /* the person asked for it; whoever reads this resets it */
    bool open_line; /* what was shown last does not end in a line end */
    unsigned live; /* what was shown last and may be replaced, and its lines */
    int live_rows;
    struct Status *status; /* of a terminal; NULL: none */
    int failed; /* errno of the first write to `out` that failed; 0: none */
    void (*before)(void *data); /* is told that something will be shown; NULL: nobody is */
    bool (*page)(void *data, const Buf *text); /* may show an answer itself; NULL: nobody does */
    bool (*parts)(void *data, const Buf *text); /* the same of an answer of several parts */
    void (*input)(void *data, const char *text,
                  size_t n); /* takes text to change; NULL: it is shown */
    void *data;
} Show;

void show_init(Show *show, ColorMode mode);
RelaySink show_sink(Show *show);
/* Writes to `out`; false once that has failed. */
bool show_text(Show *show, const char *text, size_t n);
/* "relay: …" and a line end, on `err`; about a file, where diagnostics are JSON lines. */
void show_error(const Show *show, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* That memory was refused, without any memory. */
void show_refused(void);
/* The status of a run: RELAY_USAGE, with a message, when its output could not be written. */
RelayStatus show_status(const Show *show, RelayStatus status);

#endif
