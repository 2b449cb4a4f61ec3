/* A line at the bottom of the terminal that says what the running cell is at, once it has run for half a second.
 *
 * A thread of its own looks and writes. Whoever writes to the terminal meanwhile holds the status: the line is gone then, and comes back
 * later. All functions accept NULL, which is where output goes elsewhere. */
#ifndef REPL_STATUS_H
#define REPL_STATUS_H

#include "include/relay.h"

typedef struct Status Status;

/* NULL where the descriptor is no terminal that can clear a line, or without memory. The session must outlive it. */
Status *status_new(RelaySession *session, int fd, bool color);
void status_free(Status *s);

/* Around every piece of work. */
void status_begin(Status *s);
void status_end(Status *s);

/* Around what is written, or asked, while work is under way; `open`: the cursor stays behind text of a line. */
void status_hold(Status *s);
void status_release(Status *s, bool open);

#endif
