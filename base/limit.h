/* What a program may use up, and how it is stopped.
 *
 * Loops and recursion ask `limit_hit`, which reports once and stays true until the next
 * `limits_start`. Between two questions lies work of a few milliseconds at most: a loop over elements asks once in
 * LIMIT_EVERY of them. The interrupt flag may be set from any thread or signal handler. Memory counts
 * arena blocks and tensors. Memory that the system refused, to whomever in the process, ends the work too: what came of it may not be
 * whole (base/memory.h). */
#ifndef BASE_LIMIT_H
#define BASE_LIMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef struct Diags Diags;

typedef enum LimitKind {
    LIMIT_NONE,
    LIMIT_INTERRUPT,
    LIMIT_TIME,
    LIMIT_MEMORY,
    LIMIT_DEPTH
} LimitKind;

/* What compiled code reads and writes. It stops where the address of its stack lies below the first word: an interrupt, which may come from
 * any thread, makes that the greatest. Then come words of the JIT, and by size the heap's free cells (runtime/heap.h). */
#define LIMIT_LISTS 33
typedef struct LimitWords {
    atomic_uintptr_t guard;
    uint64_t others[7];
    struct FreeCell *cells[LIMIT_LISTS];
} LimitWords;

typedef struct Limits {
    LimitWords words;
    atomic_bool interrupted;
    atomic_size_t memory; /* bytes in use */
    size_t memory_most; /* 0: no limit */
    double seconds_most; /* for one piece of work; 0: none */
    double started; /* monotonic seconds */
    uint64_t depth_most; /* nested calls of the running program; 0: what memory allows */
    LimitKind hit; /* the limit that ended this piece of work */
    size_t refused; /* bytes that the limit forbade; 0: it was not asked for more */
    Diags *diags; /* where the one report goes; may be NULL */
    uint64_t refusals; /* of the system, when the work began */
    uint64_t charges; /* how often memory was asked for */
    uint64_t refuse; /* for tests: the charge with this number is refused; 0: none */
    /* Small objects of the running program (runtime/heap.h); NULL until there is one. */
    struct Heap *heap;
    void (*heap_free)(struct Heap *heap);
    void (*heap_trim)(struct Heap *heap); /* lets go of what it keeps for later use */
} Limits;

void limits_init(Limits *l, Diags *diags);
void limits_deinit(Limits *l);
/* Begins a piece of work: clears the interrupt and what was hit, starts the clock, puts by a stock
 * of memory. */
void limits_start(Limits *l);

/* Begins the next piece of the same work, which has limits of its own: an interrupt that came is still to be answered. */
void limits_next(Limits *l);

/* Interrupts the work, from any thread or signal handler. */
void limit_interrupt(Limits *l);

/* Whether the work must end; cheap enough for inner loops. The first true reports E0501 to
 * E0504. */
bool limit_hit(Limits *l);
/* The same for a loop over elements, whose turn `i` it is: asks once in LIMIT_EVERY turns. */
#define LIMIT_EVERY ((int64_t)1 << 14)
static inline bool limit_hit_at(Limits *l, int64_t i)
{
    return (i & (LIMIT_EVERY - 1)) == 0 && limit_hit(l);
}
/* Whether the time, which is limited, is over. */
bool limit_is_late(const Limits *l);
/* Whether the time is over or an interrupt came. Any thread may ask and nothing is reported: whoever waits for that thread asks
 * limit_hit. */
static inline bool limit_waits(const Limits *l)
{
    return atomic_load_explicit(&l->interrupted, memory_order_relaxed) ||
           (l->seconds_most > 0 && limit_is_late(l));
}
/* Ends the work for this reason; the first call reports. Always true, so that one may write `return
 * limit_reach(…)`. */
bool limit_reach(Limits *l, LimitKind kind);

/* Whether the system refused memory since the work began; the first true is reported. Whoever shows
 * a result, says that something succeeded or puts a file in place asks this first. */
bool limit_refused(Limits *l);

/* Charges or gives back bytes. False (and LIMIT_MEMORY is reached) when the limit forbids it; then
 * nothing is charged. */
bool limit_charge(Limits *l, size_t bytes);
void limit_release(Limits *l, size_t bytes);

double clock_seconds(void); /* monotonic */
/* The moment so many seconds from now, by the clock that conditions and semaphores wait by. */
struct timespec clock_after(double seconds);

#endif
