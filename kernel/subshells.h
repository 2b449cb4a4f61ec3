/* Subshells: further rows of requests, beside the main shell (JEP 91).
 *
 * Definitions and variables are the session's, which is one: a cell of a subshell runs when the running one is over, and before the cells
 * that wait in the main shell. All else is answered at once, whatever shell it is asked in (kernel/aside.h). Each subshell counts its own
 * cells, which are a session of the history, and an error in one aborts nothing in another. */
#ifndef KERNEL_SUBSHELLS_H
#define KERNEL_SUBSHELLS_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct Channel Channel;
typedef struct History History;

typedef struct Subshells {
    pthread_mutex_t lock;
    json_t *counts; /* id -> cells executed */
    json_t *sessions; /* id -> its number in the history, for those that were asked for it */
    unsigned made; /* so far */
} Subshells;

bool subshells_init(Subshells *s);
void subshells_deinit(Subshells *s);

/* Requests on the control channel. */
json_t *subshell_create(Channel *c);
json_t *subshell_delete(Channel *c);
json_t *subshell_list(Channel *c);

/* The subshell that the request is for; NULL: the main shell. Lent from the request. */
const char *subshell_of(const Channel *c);
bool subshell_exists(Subshells *s, const char *id);
/* Its cells so far, after `more` further ones. */
int64_t subshell_count(Subshells *s, const char *id, int more);
/* Its session in the history, for who has the shell socket; 0 when it is gone or without a history. */
int64_t subshell_session(Subshells *s, const char *id, History *history);

#endif
