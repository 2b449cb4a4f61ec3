/* What was entered, in this run and in earlier ones: one database for the terminal and the kernel, for any number of them at once.
 *
 * It lies in the state folder of this person ($XDG_STATE_HOME/relay, else ~/.local/state/relay) and is opened when it is first asked or
 * added to. An entry is there whole or not at all, and each run has a session number of its own, greater than those before it. What
 * the files of earlier versions have is taken over when the database is made. Where nothing can be kept, or no more, as on a full disk,
 * the history goes on in memory, for this run alone, and history_trouble says why. SQLite is opened when it is first needed; without it
 * there is no history.
 *
 *     History *h = history_new(NULL);
 *     history_add(h, 1, str_of("1 + 2"), str_of("3"));
 *     history_each(h, (HistoryRange){.step = -1}, show, NULL);
 *     history_free(h); */
#ifndef BASE_HISTORY_H
#define BASE_HISTORY_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct History History;

/* `path` NULL: the database of this person; "": in memory alone. NULL only without memory. */
History *history_new(const char *path);
void history_free(History *h);
/* Opens SQLite, for who cannot do so later; why there is no history, or NULL. */
const char *history_ready(History *h);

/* The number of this run's session; 0 without a history. */
int64_t history_session(History *h);
/* The number of a further session of this run; 0 without a history. */
int64_t history_another(History *h);
/* Adds what entry `line` of this run was and gave, which may be empty. */
void history_add(History *h, int64_t line, Str input, Str output);
/* The same in a further session; 0: it is not kept. */
void history_add_to(History *h, int64_t session, int64_t line, Str input, Str output);

/* The same, but written with what else waits: by history_write, before the next question, or at the end. So many short cells one behind
 * the other do not wait for as many writes. */
void history_add_soon(History *h, int64_t session, int64_t line, Str input, Str output);
/* What history_add_soon is about to be told is not lost from here on, should the process be killed (base/history_log.h); takes some
 * microseconds. `other`: of a further session. */
void history_note(History *h, bool other, int64_t line, Str input, Str output);
/* Whether something is still to be written. */
bool history_waits(const History *h);
void history_write(History *h);

/* Once, since when entries are no longer kept for later runs: why. Else NULL. */
const char *history_trouble(History *h);

typedef struct HistoryRow {
    int64_t id; /* newer entries have greater ones */
    int64_t session, line;
    const char *input, *output; /* lent for the call; output NULL: none */
} HistoryRow;

typedef struct HistoryRange {
    int step; /* 1: the oldest first; -1: the newest first */
    int64_t from; /* behind the entry with this id in that direction; 0: from the end */
    int64_t session; /* of this one alone; 0: of all */
    bool known; /* without what other runs have added since this one began */
    /* Whether an entry with this input is asked for; NULL: each is. Of the others nothing else is read, so that a hundred thousand are
     * passed over in some milliseconds. */
    bool (*wants)(void *data, Str input);
} HistoryRange;

/* Calls `row` until it returns false; `data` is that of `wants`, too. */
void history_each(History *h, HistoryRange range, bool (*row)(void *data, const HistoryRow *row),
                  void *data);

#endif
