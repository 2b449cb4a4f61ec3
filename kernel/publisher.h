/* The publisher: one thread through which everything goes that all clients see.
 *
 * Other threads hand it packets through a queue; the order of each of them is kept. Text of
 * streams is gathered for a moment, since front ends drop messages when there are thousands a
 * second. It also reads what C libraries print (file descriptors 1 and 2 are pipes that end
 * here) and welcomes those who subscribe.
 *
 *     Socket *hand = publisher_hand(&p);              // for one thread
 *     publish_begin(&packet, "status");
 *     message_write(&packet, …);
 *     publish(hand, &packet);
 *     publish_text(hand, &packet, "stdout", parent, text);
 *
 * Before any message that follows, gathered text and what was printed before have left. */
#ifndef KERNEL_PUBLISHER_H
#define KERNEL_PUBLISHER_H

#include "kernel/message.h"

#include <pthread.h>
#include <semaphore.h>

/* One of the two file descriptors that programs print to, and the pipe put in its place. */
typedef struct Capture {
    int original;               /* a copy of what it was; -1: not captured */
    int pipe;                   /* the end to read from; -1: none */
} Capture;

typedef struct Publisher {
    Sender *sender;
    Socket *iopub, *queue;
    Wire *wire;
    pthread_t thread;
    Capture captures[2];        /* of file descriptors 1 and 2 */
    Packet packet, out;         /* scratch */
    Buf text;                   /* gathered for the stream, not sent yet */
    const char *stream;         /* "stdout" or "stderr" */
    Buf text_parent;            /* the header of the request that the text belongs to */
    double due;                 /* when the text must leave */
    sem_t passed;               /* posted when it comes by a mark */
    pthread_mutex_t lock;       /* of reading the pipes and of `parent` */
    Buf parent;                 /* the header of the request that prints */
} Publisher;

/* Starts the thread. `iopub` is bound and used by the thread alone from here on. False: the
 * system refused. */
bool publisher_start(Publisher *p, Wire *wire, Socket *iopub, Sender *sender);
/* Sends what was handed over so far, restores file descriptors 1 and 2, ends the thread. */
void publisher_end(Publisher *p);

/* The socket through which one thread hands over; NULL when the system refuses. */
Socket *publisher_hand(Publisher *p);

/* What C libraries print from now on belongs to the request with header `parent`. */
void publisher_attribute(Publisher *p, Str parent);
/* Waits until all that they have printed was read, so that it goes before what is handed over
 * next. */
void publisher_settle(Publisher *p);

/* Begins a message with this topic in `packet`; message_write does the rest. */
void publish_begin(Packet *packet, const char *topic);
void publish(Socket *hand, const Packet *packet);
/* Hands over text of a stream for the request with header `parent`; `packet` is scratch. */
void publish_text(Socket *hand, Packet *packet, const char *stream, Str parent, Str text);
/* Waits until what this thread handed over has left. One thread alone may call it. */
void publish_wait(Publisher *p, Socket *hand, Packet *packet);

#endif
