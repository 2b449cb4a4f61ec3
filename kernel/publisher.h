/* The publisher: through it everything goes that all clients see.
 *
 * Whoever has something to say sends it, under a lock, so that a cell that ends at once wakes nobody; what one thread says keeps its order.
 * Text of streams is gathered for a moment, since front ends drop messages when there are thousands a second. A thread of the
 * publisher's own sends that in time, reads what C libraries print (file descriptors 1 and 2 are pipes that end here) and welcomes
 * those who subscribe.
 *
 *     publish_begin(&packet, "status");
 *     message_write(&packet, …);
 *     publish(&p, &packet);
 *     publish_text(&p, "stdout", parent, text);
 *
 * Before any message that follows, gathered text has left. */
#ifndef KERNEL_PUBLISHER_H
#define KERNEL_PUBLISHER_H

#include "kernel/message.h"

#include <pthread.h>

/* One of the two file descriptors that programs print to, and the pipe put in its place. */
typedef struct Capture {
    int original;               /* a copy of what it was; -1: not captured */
    int pipe;                   /* the end to read from; -1: none */
} Capture;

typedef struct Publisher {
    Sender *sender;
    pthread_t thread;
    pthread_mutex_t lock;       /* of all that follows */
    Socket *iopub;
    Capture captures[2];        /* of file descriptors 1 and 2 */
    Packet packet, out;         /* scratch */
    Buf text;                   /* gathered for the stream, not sent yet */
    const char *stream;         /* "stdout" or "stderr" */
    Buf text_parent;            /* the header of the request that the text belongs to */
    double due;                 /* when the text must leave */
    Buf parent;                 /* the header of the request that prints */
    int wake_read, wake_write;  /* a pipe: readable when the thread has to look again */
    bool ending;
} Publisher;

/* Starts the thread. `iopub` is bound and used under the lock alone from here on. False: the system refused. */
bool publisher_start(Publisher *p, Socket *iopub, Sender *sender);
/* Sends what is left, restores file descriptors 1 and 2, ends the thread. */
void publisher_end(Publisher *p);

/* What C libraries print from now on belongs to the request with header `parent`. */
void publisher_attribute(Publisher *p, Str parent);
/* Takes all that they have printed, so that it goes before what is published next. */
void publisher_settle(Publisher *p);

/* Begins a message with this topic in `packet`; message_write does the rest. */
void publish_begin(Packet *packet, const char *topic);
void publish(Publisher *p, const Packet *packet);
/* Publishes text of a stream, "stdout" or "stderr", for the request with header `parent`. */
void publish_text(Publisher *p, const char *stream, Str parent, Str text);

#endif
