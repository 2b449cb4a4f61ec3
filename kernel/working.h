/* A line below a cell that runs for long: what it is at, and how much of that is done.
 *
 * The aside thread shows it and replaces it by its display id. Where anything else is shown, and at the end, it goes: a front end clears it
 * where nothing stands beside it, else it becomes empty and serves again. */
#ifndef KERNEL_WORKING_H
#define KERNEL_WORKING_H

#include <pthread.h>
#include <stdbool.h>

typedef struct Channel Channel;

typedef struct Working {
    pthread_mutex_t lock; /* of what follows */
    bool silent; /* nothing is to be shown */
    bool beside; /* the cell has shown something else */
    bool shown; /* the line is there */
    bool emptied; /* the line is there and says nothing */
    unsigned lines; /* so far; each has an id of its own */
    double said; /* when something else was shown, or the cell began */
} Working;

/* Of the shell thread: around a cell, */
void working_begin(Channel *shell, bool silent);
void working_end(Channel *shell);
/* and before something else is shown; `busy`: that will change by itself, and says enough. */
void working_yield(Channel *shell, bool busy);

/* Of the aside thread: shows the line, if it is due. */
void working_tell(Channel *aside);

#endif
