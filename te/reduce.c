/* Reductions.
 *
 * Along: strips lie along the reduced axes and each is folded to one element; for reductions over what
 * lies together. Across: strips lie along the space, and the reduced positions are taken one after the
 * other, each folded into a strip of results; for reductions over what lies apart. How the work is cut
 * depends on the shapes alone, so results do not depend on the number of threads. */
#include "base/memory.h"
#include "base/number.h"
#include "te/internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct Fold {
    TeRun *run;
    const TeStage *s;
    const Strip *strip;
    DTypeId id, acc;            /* of the body, and of what is folded into */
    size_t acc_size;
    bool positions;
    int64_t space, reduced;     /* numbers of positions */
    int64_t chunk,
        chunks;      /* Along: positions folded into one partial result, and how many of them */
    char *parts;                /* Along: partial results */
    int64_t *places;            /* … and their positions */
    bool *nan;                  /* … and whether there was a NaN; NULL where it does not matter */
    char *out;
} Fold;

/* False where that is more than can be counted. */
static bool product(int n, const int64_t *extents, int64_t *out)
{
    bool counted = true, none = false;
    *out = 1;
    for (int i = 0; i < n; i++) {
        counted = counted && int64_mul(*out, extents[i], out);
        none = none || extents[i] == 0;
    }
    *out = none ? 0 : *out;
    return counted || none;
}

static void note_fault(TeRun *run, const StripFrame *f)
{
    if (f->fault)
        atomic_store(&run->fault, f->fault);
}

/* The strip's elements in the dtype that is folded. */
static const void *widened(const Fold *w, const void *v, int64_t n, void *room)
{
    if (!v || w->id == w->acc)
        return v;
    te_loop_cast(w->acc, w->id, room, v, n);
    return room;
}

/* Result i from its accumulator. */
static void store(const Fold *w, int64_t i, const void *acc, int64_t place)
{
    DTypeId to = dtype_id(w->s->dtype);
    char *out = w->out + (size_t)i * dtype_row(to)->size;
    if (w->positions)
        te_loop_cast(to, DT_INT64, out, &place, 1);
    else
        te_loop_cast(to, w->acc, out, acc, 1);
}

/* ---- along --------------------------------------------------------------------------------------- */

enum { ROOM = 1024 }; /* the longest strip */

/* Several whole rows of the reduced positions a strip. */
static void along_short(void *data, int64_t from, int64_t to)
{
    const Fold *w = data;
    StripFrame f;
    char room[ROOM * 8];
    int64_t r = w->reduced, rows = strip_length(w->strip) / r;
    rows = rows < to - from ? rows : to - from;
    if (!strip_begin(&f, w->strip, rows * r)) {
        atomic_store(&w->run->refused, true);
        return;
    }
    for (; from < to && !te_run_waits(w->run); from += rows) {
        rows = rows < to - from ? rows : to - from;
        const char *v = widened(w, strip_eval(&f, from * r, rows * r, NULL), rows * r, room);
        for (int64_t i = 0; v && i < rows; i++) {
            uint64_t acc = 0;
            int64_t place = -1;
            const char *row = v + (size_t)(i * r) * w->acc_size;
            te_loop_fold_start(w->s->reduce, w->acc, &acc);
            if (w->positions)
                te_loop_fold_at(w->s->reduce, w->acc, &acc, &place, row, 0, r);
            else
                te_loop_fold(w->s->reduce, w->acc, &acc, row, r);
            store(w, from + i, &acc, place);
        }
    }
    note_fault(w->run, &f);
    strip_end(&f);
}

/* One chunk of one row; `place` is NULL where positions do not matter. */
static void along_chunk(const Fold *w, StripFrame *f, int64_t item, void *room, void *acc,
                        int64_t *place)
{
    int64_t row = item / w->chunks, from = item % w->chunks * w->chunk;
    int64_t to = from + w->chunk < w->reduced ? from + w->chunk : w->reduced;
    int64_t length = strip_length(w->strip);
    te_loop_fold_start(w->s->reduce, w->acc, acc);
    if (place)
        *place = -1;
    while (from < to && !te_run_waits(w->run)) {
        int64_t n = to - from < length ? to - from : length;
        const void *v = widened(w, strip_eval(f, row * w->reduced + from, n, NULL), n, room);
        if (!v)
            return;
        bool nan = place ? te_loop_fold_at(w->s->reduce, w->acc, acc, place, v, from, n)
                         : te_loop_fold(w->s->reduce, w->acc, acc, v, n);
        if (nan && w->nan)
            w->nan[item] = true;
        from += n;
    }
}

static void along_long(void *data, int64_t from, int64_t to)
{
    const Fold *w = data;
    StripFrame f;
    char room[ROOM * 8];
    if (!strip_begin(&f, w->strip, strip_length(w->strip))) {
        atomic_store(&w->run->refused, true);
        return;
    }
    for (; from < to && !f.fault && !te_run_waits(w->run); from++) {
        uint64_t acc = 0;
        int64_t place = -1;
        if (w->chunks > 1) {
            along_chunk(w, &f, from, room, w->parts + (size_t)from * w->acc_size,
                        w->positions ? &w->places[from] : NULL);
            continue;
        }
        along_chunk(w, &f, from, room, &acc, w->positions ? &place : NULL);
        store(w, from, &acc, place);
    }
    note_fault(w->run, &f);
    strip_end(&f);
}

/* The result of row i from those of its chunks, in order. */
static void join_chunks(const Fold *w, int64_t i)
{
    char *first = w->parts + (size_t)(i * w->chunks) * w->acc_size;
    int64_t place = w->positions ? w->places[i * w->chunks] : -1;
    for (int64_t k = 1; k < w->chunks; k++) {
        char *part = first + (size_t)k * w->acc_size;
        if (!w->positions) {
            te_loop_fold(w->s->reduce, w->acc, first, part, 1);
            continue;
        }
        int64_t at = w->places[i * w->chunks + k];
        if (at >= 0)
            te_loop_fold_at(w->s->reduce, w->acc, first, &place, part, at, 1);
    }
    store(w, i, first, place);
}

/* Where the order of extremes matters, because one is NaN, a row is taken from its beginning again. */
static void again_whole(const Fold *w, int64_t row)
{
    Fold whole = *w;
    whole.chunks = 1;
    whole.chunk = w->reduced;
    whole.nan = NULL;
    along_long(&whole, row, row + 1);
}

static bool join_rows(const Fold *w)
{
    for (int64_t i = 0; i < w->space; i++) {
        if (limit_hit_at(&w->run->cx->limits, i))
            return false;
        join_chunks(w, i);
    }
    for (int64_t i = 0; i < w->space && w->nan; i++)
        if (memchr(w->nan + i * w->chunks, true, (size_t)w->chunks))
            again_whole(w, i);
    return !te_run_stopped(w->run);
}

/* Whether the order of the elements matters where one is NaN. */
static bool is_extreme(TeReduce kind)
{
    return kind == TE_REDUCE_MAX || kind == TE_REDUCE_MIN || kind >= TE_ARGMAX;
}

static bool run_along(Fold *w)
{
    TeRun *run = w->run;
    int64_t length = strip_length(w->strip);
    if (w->reduced <= length / 2)
        return te_run_loop(run, w->space, 1 + 16384 / w->reduced, along_short, w);
    w->chunk = (int64_t)1 << 16;
    w->chunks = w->reduced > 2 * w->chunk && w->space < 16 ? (w->reduced - 1) / w->chunk + 1 : 1;
    if (w->chunks == 1)
        w->chunk = w->reduced;
    size_t items = (size_t)(w->space * w->chunks);
    if (w->chunks == 1)
        return te_run_loop(run, w->space, 1 + 16384 / w->chunk, along_long, w);
    w->parts = arena_alloc_array(&run->arena, items, 8);
    w->places = w->positions ? arena_alloc_array(&run->arena, items, 8) : NULL;
    if (!w->parts || (w->positions && !w->places))
        return false;
    if (is_extreme(w->s->reduce) && dtype_is_float(w->s->body->dtype)) {
        w->nan = arena_alloc_array(&run->arena, items, sizeof *w->nan);
        if (!w->nan)
            return false;
        memset(w->nan, false, items * sizeof *w->nan);
    }
    if (!te_run_loop(run, (int64_t)items, 1 + 16384 / w->chunk, along_long, w))
        return false;
    return join_rows(w);
}

/* ---- across -------------------------------------------------------------------------------------- */

/* Long sums are taken in blocks, so that a small element meets a small sum. */
enum { SUM_BLOCK = 256 };

typedef struct Across {
    const Fold *w;
    StripFrame f;
    int64_t n;
    char *acc, *block, *wide;
    int64_t *place;
} Across;

static void start_strip(const Fold *w, char *acc, int64_t n)
{
    uint64_t start = 0;
    te_loop_fold_start(w->s->reduce, w->acc, &start);
    te_loop_fill(w->acc_size, acc, &start, n);
}

static bool across_strip(Across *a, int64_t from, int64_t n)
{
    const Fold *w = a->w;
    TeReduce kind = w->s->reduce;
    bool blocks = kind == TE_SUM && w->reduced > 2 * SUM_BLOCK;
    start_strip(w, a->acc, n);
    if (blocks)
        start_strip(w, a->block, n);
    for (int64_t i = 0; i < n && w->positions; i++)
        a->place[i] = -1;
    memset(a->f.fixed, 0, sizeof *a->f.fixed * (size_t)(w->s->n_reduced ? w->s->n_reduced : 1));
    for (int64_t r = 0; r < w->reduced; r++) {
        const void *v = widened(w, strip_eval(&a->f, from, n, NULL), n, a->wide);
        if (!v || te_run_waits(w->run))
            return false;
        if (w->positions)
            te_loop_fold_many_at(kind, w->acc, a->acc, a->place, v, r, n);
        else
            te_loop_fold_many(kind, w->acc, blocks ? a->block : a->acc, v, n);
        if (blocks && (r % SUM_BLOCK == SUM_BLOCK - 1 || r == w->reduced - 1)) {
            te_loop_fold_many(kind, w->acc, a->acc, a->block, n);
            start_strip(w, a->block, n);
        }
        for (int i = w->s->n_reduced - 1; i >= 0 && ++a->f.fixed[i] == w->s->reduced[i]; i--)
            a->f.fixed[i] = 0;
    }
    return true;
}

static void across_store(const Across *a, int64_t from, int64_t n)
{
    const Fold *w = a->w;
    DTypeId to = dtype_id(w->s->dtype);
    char *out = w->out + (size_t)from * dtype_row(to)->size;
    if (w->positions)
        te_loop_cast(to, DT_INT64, out, a->place, n);
    else
        te_loop_cast(to, w->acc, out, a->acc, n);
}

static void across_range(void *data, int64_t from, int64_t to)
{
    Across a = {.w = data};
    int64_t length = strip_length(a.w->strip);
    length = length < to - from ? length : to - from;
    /* Reduced axes are fixed here, and fixed axes must have values before the first strip. */
    memset(a.f.fixed, 0, sizeof a.f.fixed);
    char *room = memory_alloc((size_t)length * 8 * 4);
    if (!room || !strip_begin(&a.f, a.w->strip, length)) {
        atomic_store(&a.w->run->refused, true);
        free(room);
        return;
    }
    a.acc = room;
    a.block = room + length * 8;
    a.wide = room + length * 16;
    a.place = (int64_t *)(void *)(room + length * 24);
    for (; from < to; from += length) {
        int64_t n = to - from < length ? to - from : length;
        if (!across_strip(&a, from, n))
            break;
        across_store(&a, from, n);
    }
    note_fault(a.w->run, &a.f);
    strip_end(&a.f);
    free(room);
}

/* ---- choice -------------------------------------------------------------------------------------- */

typedef struct Loads {
    const TeProgram *p;
    int along, across; /* the axes that run fastest either way */
    int cost_along, cost_across;
} Loads;

/* Counts loads that would be read with gaps either way. */
static void count_loads(Loads *l, const Te *e, int depth)
{
    if (!e || depth > 64)
        return;
    if (e->kind == TE_NODE_LOAD) {
        TeLinear at;
        if (!te_position(l->p, e, &at))
            return;
        l->cost_along += at.k[l->along] != 0 && at.k[l->along] != 1;
        l->cost_across += at.k[l->across] != 0 && at.k[l->across] != 1;
    } else if (e->kind >= TE_NODE_UNARY) {
        count_loads(l, e->a, depth + 1);
        count_loads(l, e->b, depth + 1);
        count_loads(l, e->c, depth + 1);
    }
}

static int last_axis(int from, int n, const int64_t *extents)
{
    for (int i = n - 1; i >= 0; i--)
        if (extents[i] != 1)
            return from + i;
    return -1;
}

static bool goes_across(const Fold *w)
{
    const TeStage *s = w->s;
    Loads l = {.p = w->run->p,
               .along = last_axis(s->rank, s->n_reduced, s->reduced),
               .across = last_axis(0, s->rank, s->shape)};
    if (w->space < 16 || l.across < 0 || l.along < 0)
        return false;
    count_loads(&l, s->body, 0);
    if (l.cost_across != l.cost_along)
        return l.cost_across < l.cost_along || s->reduced[l.along - s->rank] <= 4;
    return w->reduced <= 32;
}

static bool too_many(TeRun *run)
{
    Diag *d = diag_error(run->cx->diags, E0503_MEMORY, run->span,
                         "a reduction goes through more elements than can be counted");
    diag_help(d, "is a shape larger than it should be?");
    return false;
}

bool te_run_reduce(TeRun *run, const TeStage *s, char *out)
{
    Fold w = {.run = run, .s = s, .out = out};
    w.id = dtype_id(s->body->dtype);
    w.acc = te_fold_dtype(w.id);
    w.acc_size = dtype_row(w.acc)->size;
    w.positions = s->reduce >= TE_ARGMAX;
    int64_t positions;
    if (!product(s->rank, s->shape, &w.space) || !product(s->n_reduced, s->reduced, &w.reduced) ||
        !int64_mul(w.space, w.reduced, &positions))
        return too_many(run);
    if (w.reduced == 0) {
        uint64_t acc = 0;
        te_loop_fold_start(s->reduce, w.acc, &acc);
        for (int64_t i = 0; i < w.space; i++) {
            if (limit_hit_at(&run->cx->limits, i))
                return false;
            store(&w, i, &acc, 0);
        }
        return true;
    }
    bool across = goes_across(&w);
    StripSpace space = {.n = s->rank + (across ? 0 : s->n_reduced),
                        .n_fixed = across ? s->n_reduced : 0};
    for (int i = 0; i < s->rank + s->n_reduced; i++) {
        space.high[i] = i < s->rank ? s->shape[i] : s->reduced[i - s->rank];
        if (i < space.n)
            space.axis[i] = i, space.extent[i] = space.high[i];
        else
            space.fixed[i - s->rank] = i;
    }
    w.strip = strip_make(&run->arena, run->p, run->data, s->body, &space);
    if (!across)
        return run_along(&w);
    int64_t grain = strip_length(w.strip), heavy = 16384 / w.reduced;
    return te_run_loop(run, w.space, grain < heavy ? heavy : grain, across_range, &w);
}
