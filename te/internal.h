/* What the files of the tensor expressions share. */
#ifndef TE_INTERNAL_H
#define TE_INTERNAL_H

#include "te/te.h"
#include "te/loops.h"
#include "te/walk.h"

#include <stdatomic.h>

#define TE_AXES_MOST (2 * TENSOR_RANK_MOST)

/* A sum of constants times axes. */
typedef struct TeLinear {
    int64_t c;
    int64_t k[TE_AXES_MOST];    /* by axis */
} TeLinear;

/* Whether an int64 expression is linear in the axes. */
bool te_linear(const Te *e, TeLinear *out);
/* Whether the row-major position of a load is. */
bool te_position(const TeProgram *p, const Te *load, TeLinear *out);
/* x * extent + y with 0 <= y < extent. */
Te *te_join(TeBuilder *b, Te *x, int64_t extent, Te *y);
/* Takes `flat` apart into quotient and remainder of `extent`, without dividing where it was joined from parts
 * that fit. */
void te_split(TeBuilder *b, Te *flat, int64_t extent, Te **quotient, Te **remainder);
/* Whether the operation stops on some values: an integer divisor that may be zero, a count of a shift
 * that may be negative. */
bool te_may_fault(const Te *e);
/* te_finish where the expressions of stages that are `gone` stand in their readers. */
TeProgram *te_finish_without(TeBuilder *b, int n, const TeTensor *outputs, bool tuple,
                             const bool *gone);
/* An input or stage by its id. */
TeTensor te_tensor(const TeProgram *p, int id);

/* ---- strips: an expression over consecutive positions ------------------------------------------- */

/* The axes that positions count through, the last one fastest, and those that hold still meanwhile. */
typedef struct StripSpace {
    int n, n_fixed;
    int axis[TE_AXES_MOST], fixed[TE_AXES_MOST];
    int64_t extent[TE_AXES_MOST]; /* of axis[i] */
    int64_t low[TE_AXES_MOST], high[TE_AXES_MOST]; /* by axis: where it runs, [low, high) */
} StripSpace;

typedef struct Strip Strip;

/* The steps that evaluate `body`; `data` gives the elements of each tensor by its id. */
Strip *strip_make(Arena *arena, const TeProgram *p, char *const *data, const Te *body,
                  const StripSpace *space);
/* How many elements are best evaluated at once. */
int64_t strip_length(const Strip *s);

/* One thread's evaluation. */
typedef struct StripFrame {
    const Strip *strip;
    char *memory, *slots;
    size_t slot_bytes;
    const void **at; /* by step: its elements */
    int64_t fixed[TE_AXES_MOST]; /* the values of the fixed axes, set by the caller */
    const char *fault; /* why it stopped; NULL for want of memory */
    DTypeId id; /* of the elements */
    char small[8192];
} StripFrame;

/* `most`: the longest strip that will be asked for. False when memory is refused. */
bool strip_begin(StripFrame *f, const Strip *s, int64_t most);
void strip_end(StripFrame *f);
/* The elements at positions from … from + n - 1, in `out` when it is not NULL, else lent until the next
 * call. NULL after a fault. */
const void *strip_eval(StripFrame *f, int64_t from, int64_t n, void *out);

/* ---- running ------------------------------------------------------------------------------------- */

typedef struct TeRun {
    Ctx *cx;
    const TeProgram *p;
    Span span;
    Arena arena;
    char **data; /* by tensor */
    Tensor **tensors;
    _Atomic(const char *) fault; /* of any thread */
    atomic_bool refused; /* memory */
} TeRun;

/* Runs a stage into its tensor; false when it failed (te_run reports). */
bool te_run_map(TeRun *run, const TeStage *s, char *out);
bool te_run_reduce(TeRun *run, const TeStage *s, char *out);
/* The stage as matrix products; false when it is none, then nothing was done. */
bool te_run_contraction(TeRun *run, int stage, char *out);
/* Whether the work must end. */
bool te_run_stopped(TeRun *run);
/* The same for the body of a loop, on any thread: asked before each strip. */
static inline bool te_run_waits(const TeRun *run)
{
    return limit_waits(&run->cx->limits);
}
/* pool_for; false when the work must end. */
bool te_run_loop(TeRun *run, int64_t n, int64_t grain,
                 void (*body)(void *data, int64_t from, int64_t to), void *data);

#endif
