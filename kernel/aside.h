/* Answers while a cell runs.
 *
 * Whoever holds the lock owns the shell socket, the requests that wait, and the history: the shell thread, but while it runs a cell. Then
 * the aside thread reads what comes, answers completion, inspection and the like from the session's echo (include/relay.h), and
 * keeps the rest for the shell thread. A cell that ends within some milliseconds is not noticed by it. */
#ifndef KERNEL_ASIDE_H
#define KERNEL_ASIDE_H

#include "include/relay.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct Channel Channel;

typedef struct Aside {
    RelayEcho *echo;
    pthread_mutex_t lock;
    int alarm; /* a timer: readable some milliseconds after a cell began, or there was something to take over */
    atomic_bool
        set; /* the timer is; who runs many short cells is not held up by a thread that wakes for each */
    atomic_bool running; /* a cell */
    int back_read, back_write; /* a pipe: readable when the shell thread wants the socket back */
    Channel *shell;
} Aside;

bool aside_init(Aside *a);
void aside_deinit(Aside *a);
/* The aside thread; its Channel. */
void *aside_main(void *data);
/* It looks at once whether the kernel ends. Any thread. */
void aside_wake(Aside *a);

/* Of the shell thread: at its beginning and end. */
void aside_own(Aside *a);
void aside_disown(Aside *a);
/* Around a cell. */
void aside_lend(Aside *a);
void aside_take_back(Aside *a);
/* Behind a cell: what it defined becomes known aside. */
void aside_note(Channel *shell);

#endif
