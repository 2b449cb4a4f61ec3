/* The debugger: requests of the Debug Adapter Protocol, which come on the control channel.
 *
 * Only the shell thread uses the session. While it stands still, in a stopped evaluation or between cells, it answers what the control
 * thread asks of it; while a cell runs, nobody can be asked. What is asked may take for ever, as an expression may: meanwhile the control
 * thread answers what is no debug_request, an interrupt above all. Breakpoints are kept here and put into the session when that may be done. */
#ifndef KERNEL_DEBUG_H
#define KERNEL_DEBUG_H

#include "include/relay.h"

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct Channel Channel;

/* What the shell thread does. */
typedef enum DebugState { DEBUG_WAITS, DEBUG_RUNS, DEBUG_STOPPED, DEBUG_ENDED } DebugState;

/* How a stopped evaluation goes on. */
typedef enum DebugMode {
    MODE_CONTINUE,
    MODE_IN, /* another place */
    MODE_NEXT, /* another line, not deeper */
    MODE_OUT, /* less deep */
    MODE_BACK, /* the same as MODE_NEXT, backward */
    MODE_BACK_TO_STOP,
    MODE_LEAVE, /* the evaluation ends here */
} DebugMode;

typedef struct Debugger {
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    DebugState state;
    bool started, fresh; /* fresh: breakpoints are to be put into the session */
    bool paused; /* somebody asked for it */
    bool asks, answered; /* the control thread has a question; it has been answered */
    json_t *question, *answer; /* answer NULL: nobody could be asked */
    bool going; /* the evaluation is to go on, as `mode` says */
    DebugMode mode;
    bool fine; /* a step is a rule */
    bool carried; /* stepping went over the end of an evaluation */
    json_t *texts; /* path -> text: of cells, and of what a frame stood in */
    json_t *breaks; /* path -> [{"line", "condition"}] */
    unsigned stops; /* for relay_session_break_on */
    json_t *known; /* variables of the session, before the running cell; NULL: not asked yet */
    int wake_read,
        wake_write; /* a pipe: readable when the waiting shell thread is asked something */
    int back_read,
        back_write; /* a pipe: readable when the control thread, which waits for an answer, is to look again */
    int64_t sent; /* numbers the messages */

    /* Of the shell thread. */
    Channel *shell;
    RelaySteps *steps; /* NULL: nothing stands still */
    uint64_t at; /* the step that is shown */
    uint32_t from_line, from_depth; /* where it went on from */
    const char *from_source;
} Debugger;

bool debug_init(Debugger *d);
void debug_deinit(Debugger *d);
/* A debug_request. */
json_t *debug_request(Channel *c);

/* Of the shell thread: answers what was asked meanwhile. */
void debug_answer(Channel *shell);
/* Around a cell. */
void debug_begin(Channel *shell);
void debug_end(Channel *shell);
/* The shell thread ends. */
void debug_leave(Debugger *d);
/* An evaluation that stands still looks around: there was an interrupt, or the end is near. Any thread. */
void debug_wake(Debugger *d);

#endif
