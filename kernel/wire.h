/* ZeroMQ, and what a message looks like on the wire: frames, delimiter, signature.
 *
 * The only file that knows ZeroMQ is wire.c. A Packet is one multipart message, copied out of or
 * into ZeroMQ's own storage, so that nothing here has to be given back frame by frame. A Socket
 * belongs to one thread at a time; it may be made in one and handed to another.
 *
 *     Wire *wire = wire_new();
 *     Socket *shell = socket_new(wire, SOCKET_REQUESTS, NULL);
 *     if (!socket_bind(shell, "tcp://127.0.0.1:*", &why)) ...
 *     Packet packet = {0};
 *     while (socket_receive(shell, &packet)) ...
 *     packet_deinit(&packet);
 *     socket_free(shell);
 *     wire_free(wire);
 *
 * All calls are repeated when a signal interrupts them. */
#ifndef KERNEL_WIRE_H
#define KERNEL_WIRE_H

#include "base/buf.h"
#include "base/str.h"
#include "kernel/sha256.h"

#include <stdbool.h>
#include <stddef.h>

/* ---- packets ---- */

/* A message with more frames is not one of Jupyter's. */
enum { PACKET_FRAMES = 1024 };

/* The frames of a message, one behind the other. A Packet of zeroes is an empty one. */
typedef struct Packet {
    Buf bytes;
    size_t n;
    size_t ends[PACKET_FRAMES];
    bool overflow;          /* frames were left out: too many of them, or no memory */
} Packet;

void packet_deinit(Packet *p);
void packet_clear(Packet *p);
void packet_add(Packet *p, Str frame);
/* The bytes of frame i < n, lent until the next change. */
Str packet_frame(const Packet *p, size_t i);

/* What stands before the signature of every message. */
#define WIRE_DELIMITER "<IDS|MSG>"

/* The position of the delimiter; `n` of the packet when there is none. */
size_t packet_delimiter(const Packet *p);

/* ---- signatures ---- */

enum { SIGNATURE_SIZE = 2 * SHA256_SIZE };

/* The key of a connection; without one, signatures are empty and not looked at. */
typedef struct Signer {
    bool signs;
    HmacKey key;
} Signer;

void signer_init(Signer *s, Str key);
/* The signature of the frames in lower-case hexadecimal with a NUL; "" without a key. */
void signer_sign(const Signer *s, const Str *frames, size_t n, char out[SIGNATURE_SIZE + 1]);
/* Whether `signature` is theirs, in a time that does not depend on where it differs. */
bool signer_verify(const Signer *s, const Str *frames, size_t n, Str signature);

/* ---- sockets ---- */

typedef struct Wire Wire;
typedef struct Socket Socket;

typedef enum SocketRole {
    SOCKET_REQUESTS,        /* ROUTER: requests of clients, answered to whoever asked */
    SOCKET_BROADCAST,       /* XPUB: to every client; receives their subscriptions */
    SOCKET_ECHO,            /* ROUTER for socket_echo */
    SOCKET_DEALER,          /* one end of a conversation, for the handshake */
} SocketRole;

/* Keys of an encrypted connection, 40 characters of Z85 each. */
typedef struct WireCurve {
    const char *public_key, *secret_key;
} WireCurve;

/* NULL when the system refuses. */
Wire *wire_new(void);
/* Ends every wait in the sockets of this context, so that their threads can leave. */
void wire_shutdown(Wire *w);
/* Waits until the last messages have left, a second at most. All sockets must have been freed. */
void wire_free(Wire *w);
/* Whether the library can encrypt. */
bool wire_has_curve(void);

/* `curve` may be NULL. NULL when the system refuses or a key is none. */
Socket *socket_new(Wire *w, SocketRole role, const WireCurve *curve);
void socket_free(Socket *s);

/* What is bound next takes this socket of the system, which listens already. */
bool socket_take(Socket *s, int fd);
/* Binds, trying for two seconds while the address is in use. False: `why` says so in one line. */
bool socket_bind(Socket *s, const char *endpoint, Buf *why);
bool socket_connect(Socket *s, const char *endpoint, Buf *why);
/* The endpoint that a bound socket got. */
void socket_endpoint(Socket *s, Buf *out);

/* The next message that is waiting; false when there is none or the context was shut down. */
bool socket_receive(Socket *s, Packet *p);
/* Sends the frames as one message. False when nobody can take it. */
bool socket_send(Socket *s, const Packet *p);
/* A descriptor that becomes readable when something may have come, for a thread that does not own the socket. Whoever sends has to look
 * whether something can be received, since that takes note of it, too. Below 0: the system refuses. */
int socket_descriptor(const Socket *s);
/* Sends every message back unchanged until the context is shut down. */
void socket_echo(Socket *s);

/* A socket, or else a file descriptor, that may have something to read. */
typedef struct Watch {
    Socket *socket; /* NULL: `fd` */
    int fd; /* below 0 and no socket: nothing is watched here */
    bool ready;
} Watch;

enum { WATCH_MOST = 8 };

/* Waits until one of n <= WATCH_MOST is ready or the time is over (-1: no limit). False when the
 * context was shut down. */
bool wire_wait(Watch *watches, size_t n, int milliseconds);

#endif
