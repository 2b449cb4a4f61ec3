/* What the files of the kernel share: the kernel itself and its channels.
 *
 * Threads. The main thread supervises: signals, the parent process, the end. The shell thread
 * owns the shell socket, runs cells and is the only one that uses the session; while a cell runs it
 * lends the socket to the aside thread, which answers from the session's echo what can be answered then
 * and leaves the rest for later; the stdin socket, through which a running cell asks, is its alone; the control
 * thread owns the control socket, so that interrupts arrive while a cell runs; the
 * iopub socket belongs to whoever has the publisher's lock; a thread welcomes there and reads what C
 * libraries print; one more echoes heartbeats. What they share is constant after the start, atomic, or the publisher's. */
#ifndef KERNEL_INTERNAL_H
#define KERNEL_INTERNAL_H

#include "include/relay.h"
#include "kernel/aside.h"
#include "kernel/asking.h"
#include "kernel/connection.h"
#include "kernel/debug.h"
#include "kernel/history.h"
#include "kernel/message.h"
#include "kernel/publisher.h"
#include "kernel/subshells.h"
#include "kernel/usage.h"
#include "kernel/working.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

typedef struct Kernel {
    Connection connection;
    Sender sender;
    Wire *wire;
    Socket *sockets[CHANNEL_KINDS];
    Publisher publisher;
    RelaySession *session;
    History *history; /* of who has the shell socket */
    json_t *comms; /* id -> target, of those that are open; of who has the shell socket */
    int64_t count;              /* cells of the main shell executed; of the shell thread */
    Subshells subshells;
    int log; /* file descriptor of the log: what standard error was at the start */
    int parent; /* the launcher's process, when it said so; else 0 */
    int started_by; /* the process that started this one */
    int stop_read, stop_write; /* a pipe: readable when the threads are to end */
    bool sandbox; /* no file is read */
    atomic_bool stopping;
    atomic_bool interrupted; /* since the running cell began */
    sem_t shell_ended;
    pthread_t supervisor; /* the main thread */
    Usage usage; /* of the control thread */
    Debugger debugger;
    Aside aside;
    Asking asking;
    Working working;
    Buf crash; /* what the kernel before this one left, until it was shown */
} Kernel;

/* A request that was received and waits. */
typedef struct Held {
    Packet packet;
    bool abort; /* if it is a cell of the main shell it does not run */
    bool first; /* of a subshell: it goes before those of the main shell */
    struct Held *next;
} Held;

/* One request channel, used by one thread. */
struct Channel {
    Kernel *kernel;
    ChannelKind kind;
    const char *name; /* for the log */
    Socket *socket;
    Seen seen;
    Message request; /* the one being handled */
    Packet out;
    json_t *metadata; /* of the reply, set by the handler; NULL: none */
    bool stop;                  /* set by the handler: the kernel ends after this request */
    void (*then)(Channel *c); /* set by the handler: what comes behind the reply; NULL: nothing */
    bool aside; /* of the aside thread */
    struct Channel *rest; /* where requests go that must wait; NULL: none must */
    size_t handed; /* requests that went there since somebody waits */
    struct Channel *
        beside; /* of the same socket and thread: handles what comes while a request here is being handled; NULL: nothing does */
    RelaySession *session; /* that answers */
    Held *held,
        *held_last; /* requests that came while a cell ran, or before the reply about one that failed */
    bool abort; /* the request is one of the latter: a cell does not run */
    char client[64]; /* session id of who asked last */
    double lag; /* least time between the date of one of its requests and now, in seconds */
    double failed; /* when the reply about its cell that failed left; 0: none did */
    unsigned refused; /* messages dropped so far */
    int64_t count; /* the number of the running cell in its shell */
    bool store; /* it goes into the history, */
    Buf result; /* with the text of its latest result */
    size_t sent; /* bytes that the running cell has shown */
    bool cut; /* it has shown as many as it may */
    double began; /* when it began, by clock_seconds */
};

/* Publishes to all clients, as a consequence of the request. Takes over `content`. */
void channel_publish(Channel *c, const char *type, json_t *content);
/* The same as a consequence of another request. */
void channel_publish_for(Channel *c, Str parent, const char *type, json_t *content);
/* Publishes text on a stream, "stdout" or "stderr"; pieces are put together to few messages. */
void channel_stream(Channel *c, const char *name, Str text);
/* Sends something on a socket to who made the request. Takes over `metadata` and `content`. False when nobody can take it. */
bool channel_send(Channel *c, Socket *to, const char *type, json_t *metadata, json_t *content);
/* Answers the request. Takes over `content`. */
void channel_reply(Channel *c, const char *type, json_t *content);

/* More requests than this do not wait; those that do not fit are run. */
enum { HELD_MOST = 10000 };
/* Puts what waits in the socket next behind those that are held, or `packet` if that is not NULL. False when there is nothing. */
bool channel_hold(Channel *c, Packet *packet, bool abort);
/* Handles what comes meanwhile, but for what must wait, until something can be read from `fd`, the time is over (-1: no limit), or
 * something came. */
void channel_serve_beside(Channel *c, int fd, int milliseconds);
/* The one that was held last goes before those of the main shell. */
void channel_held_goes_first(Channel *c);

/* Takes note of when the request says that it was made. */
void channel_note_date(Channel *c);
/* Marks the cells that were sent before the reply to this request can be seen as not to be run. */
void channel_abort_waiting(Channel *c);
/* Whether the request is one of those that arrived late all the same. */
bool channel_sent_before_failure(Channel *c);

/* One line on the log. Any thread. */
void kernel_log(const Kernel *k, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends the running cell. Any thread. */
void kernel_interrupt(Kernel *k);
/* Asks all threads to end. Any thread, any number of times. */
void kernel_stop(Kernel *k);

#endif
