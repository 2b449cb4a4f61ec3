/* The handshake: telling a launcher that gave a registration file which ports were chosen. */
#ifndef KERNEL_HANDSHAKE_H
#define KERNEL_HANDSHAKE_H

#include "kernel/connection.h"

/* Tells and waits for the acknowledgement, five seconds at most. Nothing to do for an ordinary
 * connection file. False: `why` says what went wrong. */
bool handshake(const Connection *c, Wire *wire, const Signer *signer, Buf *why);

#endif
