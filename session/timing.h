/* How long calls take: the one measurement behind `relay bench`, `:bench`, `:time` and `:schedule`.
 *
 *     Timing t;
 *     if (time_calls(s, &code, n, args, (TimeWish){.seconds = 0.2}, &t)) … t.least, t.median … */
#ifndef SESSION_TIMING_H
#define SESSION_TIMING_H

#include "session/internal.h"

/* It goes on for at least so long, and for at least so many runs. With no runs asked for, a call that takes seconds is made once. */
typedef struct TimeWish {
    double seconds;
    int runs;
    Value *result; /* gets what the first call gives; NULL: nobody wants it */
} TimeWish;

/* Seconds of a call. A call shorter than 100 microseconds is timed several at a time: a run is that many calls. The first call, which may
 * compile for the shapes that it sees, is a run only when there is no other. */
typedef struct Timing {
    double first, least, low, median, high, most; /* half of the runs lie from low to high */
    CudaWork card; /* of a call; nothing where no card did anything */
    int runs;
} Timing;

/* False after a diagnostic. */
bool time_calls(RelaySession *s, const Runnable *code, uint32_t n, const Value *args, TimeWish wish,
                Timing *out);
void print_time(Buf *b, double seconds);

#endif
