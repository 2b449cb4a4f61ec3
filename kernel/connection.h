/* The connection file: where a kernel listens and the key of its messages.
 *
 *     Connection c;
 *     if (!connection_load(&c, path, &why)) ...
 *     connection_endpoint(&c, CHANNEL_SHELL, &endpoint);
 *     connection_deinit(&c);
 *
 * A launcher writes it. Without one the kernel makes its own, in Jupyter's runtime folder; ports
 * that the file leaves open are chosen when binding, and the file is written again. A launcher
 * may give a registration file instead: then all ports are chosen, told to the launcher
 * (handshake.h), and written to a connection file. */
#ifndef KERNEL_CONNECTION_H
#define KERNEL_CONNECTION_H

#include "base/buf.h"
#include "base/str.h"
#include "kernel/wire.h"

#include <jansson.h>
#include <stdbool.h>

typedef enum ChannelKind {
    CHANNEL_SHELL,
    CHANNEL_CONTROL,
    CHANNEL_STDIN,
    CHANNEL_IOPUB,
    CHANNEL_HEARTBEAT,
    CHANNEL_KINDS,
} ChannelKind;

typedef struct Connection {
    json_t *fields;             /* the file, with the fields that the kernel does not know */
    char *path;                 /* where it is; for a registration, where it will be written */
    bool ours;                  /* the kernel made the file and removes it */
    bool changed;               /* ports were chosen */
    int ports[CHANNEL_KINDS];   /* 0: any */
    const char *transport, *ip; /* lent from `fields` */
    Str key;                    /* lent from `fields` */
    bool encrypted;
    WireCurve curve;            /* lent from `fields`; only if encrypted */
    int registration_port;      /* 0: not a registration file */
} Connection;

/* "shell_port": what the port of a channel is called in the file. */
const char *connection_port_name(ChannelKind kind);

/* Reads the file; a NULL path makes a new connection. False: `why` says in one line what is
 * wrong. */
bool connection_load(Connection *c, const char *path, Buf *why);
void connection_deinit(Connection *c);

/* Where to bind a channel: "tcp://127.0.0.1:57503"; port 0 is written as `*`. */
void connection_endpoint(const Connection *c, ChannelKind kind, Buf *out);
/* Takes note of the endpoint that a channel got. */
void connection_bound(Connection *c, ChannelKind kind, const char *endpoint);
/* Writes the file again when ports were chosen. */
bool connection_save(Connection *c, Buf *why);

#endif
