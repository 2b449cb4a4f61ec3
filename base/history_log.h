/* What was entered and is not in the database yet, kept for when the process is killed before it is: a file beside the database for
 * each process that has such entries, locked while it lives. Whoever opens the database next takes over what the dead have left. */
#ifndef BASE_HISTORY_LOG_H
#define BASE_HISTORY_LOG_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct HistoryLog {
    char *path; /* NULL: there is no file yet */
    int fd;
    bool used; /* something is in it */
} HistoryLog;

typedef struct HistoryEntry {
    int64_t session; /* 0: it has no number yet */
    int64_t line;
    Str input, output;
} HistoryEntry;

/* Adds one; what cannot be written is not kept. It is safe from here on from all but the loss of the machine's power. */
void history_log_add(HistoryLog *log, const char *database, HistoryEntry entry);
/* All of them are in the database. */
void history_log_clear(HistoryLog *log);
void history_log_end(HistoryLog *log);

/* Calls `take` with each entry that a dead process left, in its order, and removes its file where all were taken. Entries without a number
 * come with the number that the first of their file returned. */
void history_logs_take(const char *database, int64_t (*take)(void *data, HistoryEntry entry),
                       void *data);

#endif
