/* Questions of front ends about the history (base/history.h). */
#ifndef KERNEL_HISTORY_H
#define KERNEL_HISTORY_H

#include "base/history.h"

#include <jansson.h>
#include <stdbool.h>

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
