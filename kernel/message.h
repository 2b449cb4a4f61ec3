/* Messages of the Jupyter protocol: taking a packet apart, putting one together.
 *
 *     Message m = {0};
 *     const char *fault = message_read(&m, sender, &seen);       // m.packet was received before
 *     if (!fault) ... m.type, m.content ...
 *     message_done(&m);
 *
 *     packet_clear(&out);
 *     packet_add(&out, topic);
 *     message_write(&out, sender, "status", m.header_text, NULL, content);
 *
 * A message says who sent it: a Sender is the kernel's own name, key and count, shared by all
 * threads. */
#ifndef KERNEL_MESSAGE_H
#define KERNEL_MESSAGE_H

#include "kernel/wire.h"

#include <jansson.h>
#include <stdatomic.h>

#define PROTOCOL_VERSION "5.5"

typedef struct Sender {
    Signer signer;
    char session[33];               /* new in each process */
    char username[64];
    atomic_uint_least64_t sent;     /* numbers the messages, which makes each of them unique */
} Sender;

/* False when the system gives no random numbers. */
bool sender_init(Sender *s, Str key);

/* The signatures that came last on one channel: a message that comes again is somebody's replay. */
typedef struct Seen {
    char signatures[1024][16]; /* their beginnings; empty ones are zero */
    size_t next;
} Seen;

typedef struct Message {
    Packet packet;
    size_t prefix; /* frames before the delimiter: whom to answer */
    Str header_text; /* the bytes of the header, for the answers' parent; lent from `packet` */
    json_t *header, *metadata, *content;
    const char *type; /* lent from `header` */
    const char *broken; /* what else is no JSON object, and was read as an empty one */
} Message;

/* Takes the packet apart. NULL when it is a message that can be answered, otherwise what is wrong with it. `seen` may
 * be NULL. */
const char *message_read(Message *m, const Sender *sender, Seen *seen);
/* Lets go of what message_read made; the packet's storage stays for the next one. */
void message_done(Message *m);
void message_deinit(Message *m);

/* Appends delimiter, signature, header, parent, metadata and content to the prefix in `out`.
 * Takes over `metadata` and `content`; NULL stands for an empty object. An empty `parent` stands
 * for one, too. */
void message_write(Packet *out, Sender *sender, const char *type, Str parent, json_t *metadata,
                   json_t *content);

/* The time now, and that of a header's date, in seconds since 1970; NAN for a date that is none. */
double message_now(void);
double message_time(const json_t *header);

/* The time now as ISO 8601 in UTC with microseconds: "2024-05-01T12:34:56.123456Z". */
enum { DATE_SIZE = 28 };
void message_date(char out[DATE_SIZE]);

/* A JSON string of any bytes: what is not UTF-8 becomes U+FFFD. Never NULL but for lack of
 * memory. */
json_t *json_text(const char *bytes, size_t n);

#endif
