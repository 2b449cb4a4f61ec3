/* A measurement: how long calls took, and what others need for the same work, where a file says so.
 *
 * The file has a JSON object for each peer and workload, one after the other or in a list: `workload`, `peer`, and `min_ms` and
 * `median_ms` or `skipped`, a reason; `threads` may be there. That is what tests/bench/compare.py writes. */
#ifndef SESSION_VIEWS_BENCH_H
#define SESSION_VIEWS_BENCH_H

#include "session/timing.h"

typedef struct Peer {
    const char *name;
    const char *skipped; /* why there are no times; NULL: there are */
    double least, median; /* seconds */
    int64_t threads; /* 0: nobody said */
} Peer;

typedef struct Peers {
    const char *file, *workload;
    Vec(Peer) all;
} Peers;

/* Figures of the workload, or, with an empty name, of the only one that the file has. False after a diagnostic. What it holds lies in the
 * arena. */
bool peers_read(RelaySession *s, Arena *arena, const char *path, Str workload, Peers *out);
/* The peer's least time by ours: above 1 we are faster. */
double peer_ratio(const Peer *p, const Timing *ours);
/* `"peers": [{…}, …]`, and a row for each, of ours too. */
void peers_json(const Peers *peers, const Timing *ours, Buf *out);
void peers_text(const Peers *peers, const Timing *ours, Buf *out);

typedef struct BenchView {
    const Runnable *code;
    const Timing *timing;
    const Peers *peers; /* NULL: there is no file */
    int opt_level;
    bool constant; /* nothing was left to run */
    bool function; /* what was made is a function, which nobody called */
} BenchView;

/* What is said of a time that is none of the program's. */
#define TIME_KNOWN                                                                             \
    "The optimiser knew the value: nothing was left to run. What is to be measured has to be " \
    "an argument: `let %x = …;` before it."
#define TIME_FUNCTION \
    "The value is a function, which was not called: a call of it is measured, as in `@f(%x)`."

/* As text, as a page and as JSON, to look at. */
void bench_emit(RelaySession *s, const BenchView *v);

#endif
