/* Signals, on a thread of their own: Ctrl-C interrupts the cell that runs.
 *
 * No handler is installed and no state is global: the signals are blocked everywhere (so make this
 * before anything that starts threads) and one thread waits for them. */
#ifndef REPL_SIGNALS_H
#define REPL_SIGNALS_H

#include "include/relay.h"

typedef struct Signals Signals;

typedef enum SignalsUse {
    SIGNALS_SCRIPT, /* Ctrl-C interrupts; without work, or a second time, it ends the process */
    SIGNALS_TERMINAL, /* also the size of the window, and being asked to end */
} SignalsUse;

/* NULL without memory or threads; everything then works but the interrupt. All functions accept
 * NULL. */
Signals *signals_new(SignalsUse use);
void signals_free(Signals *s);

/* The session that is interrupted from now on. It must outlive the Signals. */
void signals_attach(Signals *s, RelaySession *session);
/* Around every piece of work: between the two an interrupt goes to the session. */
void signals_begin(Signals *s);
void signals_end(Signals *s);
/* A descriptor with a byte for each event: 'w' the window's size, 'i' Ctrl-C, 't' the process
 * shall end; -1: none. */
int signals_fd(const Signals *s);
/* Nothing more is to be run. */
bool signals_ended(const Signals *s);

#endif
