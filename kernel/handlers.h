/* What the kernel answers: a table with a row for each type of message. */
#ifndef KERNEL_HANDLERS_H
#define KERNEL_HANDLERS_H

#include "kernel/internal.h"

/* Handles the packet in `c->request`: nothing if it is no message; otherwise busy, what the row
 * of its type does, the reply, idle. */
void channel_handle(Channel *c);

/* Closes what is open towards all clients, at the end. */
void comms_close(Channel *c);

/* The content of a reply that says what went wrong. */
json_t *error_content(const char *name, const char *value);

/* The representations of an output by their mime types, as displays and results carry them. */
json_t *bundle_of(const RelayOutput *out);

#endif
