/* Sorts of plain numbers, without a sign and of 4 or 8 bytes, which are all that is to be in order. */
#ifndef STDLIB_OPS_NUMBERS_H
#define STDLIB_OPS_NUMBERS_H

#include "base/limit.h"

enum {
    NUMBERS_LINE = 64, /* bytes of numbers that lie side by side, one of each row */
    NUMBERS_STEP = 8, /* of what the number of lines is a multiple */
    NUMBERS_SPARE = 64, /* bytes behind rows that are read and written, too */
};

/* Each of the rows that lie side by side in order: some thousand lines at most, since no limit is asked. */
void numbers_beside(void *lines, int64_t n, size_t size);
/* The same for as many rows of n numbers one behind the other, of which the first k of each then lie one behind the other. `lines` has
 * room for them side by side. */
void numbers_rows(void *rows, void *lines, int64_t n, int64_t k, size_t size);
/* One row in order. What stood in `room`, which is as large, is lost. False when a limit was hit. */
bool numbers_sort(Limits *l, void *row, void *room, int64_t n, size_t size);

#endif
