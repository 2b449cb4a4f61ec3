/* What was executed, in this run and in earlier ones.
 *
 * Entries are kept in a file of JSON lines, `[session, line, input, output]`, in the user's state
 * folder ($XDG_STATE_HOME/relay, else ~/.local/state/relay), which is read for each question: a
 * kernel that runs for a month holds none of them. Those that cannot be written, or all without such
 * a folder, are kept in memory, the newest ones. Each run has a session number of its own, greater
 * than those before it; kernels that run at the same time share the file. */
#ifndef KERNEL_HISTORY_H
#define KERNEL_HISTORY_H

#include "base/str.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct HistoryEntry {
    int64_t session, line;
    char *input, *output;       /* output may be NULL */
} HistoryEntry;

typedef struct HistoryEntries {
    HistoryEntry *at;           /* oldest first */
    size_t n, cap;
    int64_t session;            /* the greatest that was read */
} HistoryEntries;

typedef struct History {
    HistoryEntries unwritten;   /* what the file does not have */
    int64_t session;            /* of this run; 0: the file was not read yet */
    int file;                   /* open for appending; -1: none */
} History;

void history_init(History *h);
void history_deinit(History *h);

/* Adds what cell `line` was and gave; an empty `output` for none. */
void history_add(History *h, int64_t line, Str input, Str output);

typedef struct HistoryQuery {
    enum { HISTORY_TAIL, HISTORY_RANGE, HISTORY_SEARCH } access;
    bool output;                /* items are [session, line, [input, output]] */
    int64_t session; /* range: 0 this run, negative: back from it, positive: that one */
    int64_t start, stop; /* range: start <= line < stop */
    int64_t n; /* tail, search: the last n; negative: all */
    const char *pattern; /* search: a glob for whole inputs */
    bool unique; /* search: of equal inputs the latest only */
} HistoryQuery;

/* The entries asked for, oldest first, as history_reply lists them. */
json_t *history_find(History *h, const HistoryQuery *query);

#endif
