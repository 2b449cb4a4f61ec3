/* Questions of a running cell to the person who sent it, through the stdin channel.
 *
 * The shell thread owns the stdin socket. What comes there while no cell asks answers nothing and is dropped. A question ends with its
 * answer, an interrupt, or the kernel. */
#ifndef KERNEL_ASKING_H
#define KERNEL_ASKING_H

#include "base/buf.h"
#include "include/relay.h"

typedef struct Channel Channel;
typedef struct Kernel Kernel;

typedef struct Asking {
    Kernel *kernel;
    Channel *shell; /* of the running cell, if it may ask; else NULL */
    Buf answer; /* the latest */
    int wake_read, wake_write; /* a pipe: readable when there was an interrupt */
} Asking;

bool asking_init(Asking *a, Kernel *k);
void asking_deinit(Asking *a);
/* Around a cell: `shell` NULL when it may not ask. */
void asking_begin(Asking *a, Channel *shell);
/* For relay_session_set_asker; its Asking. */
RelayAskEnd asking_ask(void *data, const char *question, const char **answer);
/* Drops what waits in the socket. */
void asking_drop(Asking *a);
/* A question ends: there was an interrupt. Any thread. */
void asking_wake(Asking *a);

#endif
