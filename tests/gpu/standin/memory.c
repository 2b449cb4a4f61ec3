/* Device memory: on the host, at addresses that mean nothing to it. */
#include "tests/gpu/standin/standin.h"

#include <stdlib.h>
#include <string.h>

typedef struct Piece {
    uint64_t at;
    size_t n;
    uint8_t *bytes;
} Piece;

enum { GAP = 4096, ALIGN = 256 };

static Piece *pieces; /* by address */
static int n_pieces, room;
static uint64_t next = GLOBAL_START;
static size_t used;

uint64_t device_alloc(size_t n)
{
    if (n_pieces == room) {
        room = room ? 2 * room : 64;
        pieces = realloc(pieces, (size_t)room * sizeof *pieces);
    }
    uint8_t *bytes = pieces ? malloc(n ? n : 1) : NULL;
    if (!bytes)
        return 0;
    memset(bytes, 0xff, n); /* a NaN in every type of floats */
    Piece p = {next, n, bytes};
    pieces[n_pieces++] = p;
    next += (n + ALIGN - 1) / ALIGN * ALIGN + GAP;
    used += n;
    return p.at;
}

/* The last piece that begins at or before `at`; -1: none. */
static int piece_before(uint64_t at)
{
    static int last;
    if (last < n_pieces && pieces[last].at <= at &&
        (last + 1 == n_pieces || at < pieces[last + 1].at))
        return last;
    int low = 0, high = n_pieces;
    while (low < high) {
        int mid = (low + high) / 2;
        if (pieces[mid].at <= at)
            low = mid + 1;
        else
            high = mid;
    }
    last = low ? low - 1 : 0;
    return low - 1;
}

bool device_free(uint64_t at)
{
    int i = piece_before(at);
    if (i < 0 || pieces[i].at != at)
        return false;
    used -= pieces[i].n;
    free(pieces[i].bytes);
    memmove(pieces + i, pieces + i + 1, (size_t)(n_pieces - i - 1) * sizeof *pieces);
    n_pieces--;
    return true;
}

void *device_find(uint64_t at, size_t n)
{
    int i = piece_before(at);
    if (i < 0 || n > pieces[i].n || at - pieces[i].at > pieces[i].n - n)
        return NULL;
    return pieces[i].bytes + (at - pieces[i].at);
}

bool device_nearest(uint64_t at, uint64_t *begin, size_t *n)
{
    int i = piece_before(at);
    if (i < 0)
        return false;
    *begin = pieces[i].at;
    *n = pieces[i].n;
    return true;
}

void device_reset(void)
{
    for (int i = 0; i < n_pieces; i++)
        free(pieces[i].bytes);
    n_pieces = 0;
    used = 0;
}

size_t device_used(void)
{
    return used;
}
