/* Running the steps of a strip. */
#include "base/memory.h"
#include "te/strip.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- evaluation ---------------------------------------------------------------------------------- */

/* A place in the nest of a Runs. */
typedef struct Place {
    int64_t offset, left; /* of the innermost run */
    int64_t index[TE_AXES_MOST];
} Place;

static void place_at(const Runs *r, const int64_t *fixed, int n_fixed, int64_t from, Place *p)
{
    p->offset = r->base;
    for (int i = 0; i < n_fixed; i++)
        p->offset += r->fixed[i] * fixed[i];
    p->left = INT64_MAX;
    for (int i = r->n - 1; i > 0; i--) {
        p->index[i] = from % r->extent[i];
        from /= r->extent[i];
        p->offset += p->index[i] * r->stride[i];
    }
    if (r->n) {
        p->index[0] = from;
        p->offset += from * r->stride[0];
        p->left = r->extent[r->n - 1] - p->index[r->n - 1];
    }
}

/* Where an index has come to its end the one around it goes on. */
static void place_carry(const Runs *r, Place *p, int i)
{
    while (i > 0 && p->index[i] == r->extent[i]) {
        p->offset += r->stride[i - 1] - r->extent[i] * r->stride[i];
        p->index[i] = 0;
        p->index[--i]++;
    }
}

/* Moves n <= left positions on. */
static void place_on(const Runs *r, Place *p, int64_t n)
{
    int i = r->n - 1;
    p->offset += n * r->stride[i];
    p->left -= n;
    if (p->left)
        return;
    p->index[i] += n;
    place_carry(r, p, i);
    p->left = r->extent[i];
}

/* How many whole runs from here on, of which the next one begins nearer than the next element lies: 0 where that is not so. A matrix is
 * turned so, and its rows are better read one after the other than a column at a time. */
static int64_t runs_across(const Runs *r, const Place *p, int64_t n)
{
    int i = r->n - 1;
    if (i < 1 || p->left != r->extent[i] || llabs(r->stride[i - 1]) >= llabs(r->stride[i]))
        return 0;
    int64_t runs = n / r->extent[i], left = r->extent[i - 1] - p->index[i - 1];
    return runs < left ? runs : left;
}

/* From the beginning of a run to the one so many behind, at most to where the axis around it ends. */
static void place_on_runs(const Runs *r, Place *p, int64_t runs)
{
    int i = r->n - 2;
    p->offset += runs * r->stride[i];
    p->index[i] += runs;
    place_carry(r, p, i);
}

static int64_t run_stride(const Runs *r)
{
    return r->n ? r->stride[r->n - 1] : 0;
}

static const void *eval_load(const StripFrame *f, const Step *s, int64_t from, int64_t n, void *out)
{
    Place p;
    size_t size = dtype_row(s->id)->size;
    int64_t stride = run_stride(&s->runs);
    place_at(&s->runs, f->fixed, f->strip->space.n_fixed, from, &p);
    if (stride == 1 && p.left >= n)
        return s->data + (size_t)p.offset * size;
    char *to = out;
    while (n > 0) {
        const char *at = s->data + p.offset * (int64_t)size;
        int64_t now = p.left < n ? p.left : n, runs = runs_across(&s->runs, &p, n);
        if (runs > 1) {
            te_loop_turn(size, to, at, runs, s->runs.stride[s->runs.n - 2], now, stride);
            now *= runs;
        } else {
            te_loop_copy(size, to, at, stride, now);
        }
        to += (size_t)now * size;
        n -= now;
        if (n && runs > 1)
            place_on_runs(&s->runs, &p, runs);
        else if (n)
            place_on(&s->runs, &p, now);
    }
    return out;
}

static void eval_ramp(const StripFrame *f, const Step *s, int64_t from, int64_t n, int64_t *out)
{
    Place p;
    place_at(&s->runs, f->fixed, f->strip->space.n_fixed, from, &p);
    while (n > 0) {
        int64_t now = p.left < n ? p.left : n;
        te_loop_ramp(out, p.offset, run_stride(&s->runs), now);
        out += now;
        n -= now;
        if (n)
            place_on(&s->runs, &p, now);
    }
}

/* The part of j in [*low, *high) where base + k j lies in [0, extent). */
static void clip_run(int64_t base, int64_t k, int64_t extent, int64_t *low, int64_t *high)
{
    int64_t first, end;
    if (k == 0) {
        first = 0;
        end = base < 0 || base >= extent ? 0 : *high;
    } else if (k == 1) {
        first = -base;
        end = base < extent ? extent - base : 0;
    } else {
        if (k < 0) {
            base = extent - 1 - base;
            k = -k;
        }
        first = base >= 0 ? 0 : (-base + k - 1) / k;
        end = base >= extent ? 0 : (extent - 1 - base) / k + 1;
    }
    if (first > *low)
        *low = first;
    if (end < *high)
        *high = end;
    /* The first element inside may lie behind the run. */
    if (*low > *high)
        *low = *high;
}

/* A row of a padded load along the innermost axis, and where the next one is. */
typedef struct Row {
    int64_t index[TE_AXES_MOST]; /* of the inner axes; the last one: where the row begins */
    int64_t offset; /* of the element with a last index of 0 */
    int64_t border[TENSOR_RANK_MOST]; /* likewise, what each border checks */
} Row;

static void row_at(const StripFrame *f, const Step *s, int64_t from, Row *r)
{
    const StripSpace *space = &f->strip->space;
    int last = space->n - 1;
    r->offset = s->runs.base;
    for (int i = 0; i < space->n_fixed; i++)
        r->offset += s->runs.fixed[i] * f->fixed[i];
    for (int b = 0; b < s->n_borders; b++) {
        r->border[b] = s->borders[b].c;
        for (int i = 0; i < space->n_fixed; i++)
            r->border[b] += s->borders[b].fixed[i] * f->fixed[i];
    }
    for (int i = last; i >= 0; i--) {
        r->index[i] = from % space->extent[i];
        from /= space->extent[i];
        if (i == last)
            continue;
        r->offset += s->window[i] * r->index[i];
        for (int b = 0; b < s->n_borders; b++)
            r->border[b] += s->borders[b].k[i] * r->index[i];
    }
}

static void row_next(const StripFrame *f, const Step *s, Row *r)
{
    const StripSpace *space = &f->strip->space;
    int i = space->n - 1;
    r->index[i] = 0;
    for (i--; i >= 0; i--) {
        int64_t step = 1;
        if (++r->index[i] == space->extent[i]) {
            r->index[i] = 0;
            step = 1 - space->extent[i];
        }
        r->offset += s->window[i] * step;
        for (int b = 0; b < s->n_borders; b++)
            r->border[b] += s->borders[b].k[i] * step;
        if (step == 1)
            return;
    }
}

/* Row by row: what stands outside, the elements inside, what stands outside. */
static void eval_window(const StripFrame *f, const Step *s, int64_t from, int64_t n, char *out)
{
    const StripSpace *space = &f->strip->space;
    size_t size = dtype_row(s->id)->size;
    const char *other = f->at[s->c];
    int last = space->n - 1;
    int64_t stride = last >= 0 ? s->window[last] : 0;
    Row r;
    row_at(f, s, from, &r);
    while (n > 0) {
        int64_t start = last >= 0 ? r.index[last] : 0;
        int64_t length = last >= 0 ? space->extent[last] - start : 1, low = 0, high;
        length = high = length < n ? length : n;
        for (int b = 0; b < s->n_borders; b++) {
            int64_t k = last >= 0 ? s->borders[b].k[last] : 0;
            clip_run(r.border[b] + k * start, k, s->borders[b].extent, &low, &high);
        }
        if (low)
            memcpy(out, other, (size_t)low * size);
        if (high > low)
            te_loop_copy(size, out + (size_t)low * size,
                         s->data + (r.offset + (start + low) * stride) * (int64_t)size, stride,
                         high - low);
        if (high < length)
            memcpy(out + (size_t)high * size, other + (size_t)high * size,
                   (size_t)(length - high) * size);
        out += (size_t)length * size;
        other += (size_t)length * size;
        n -= length;
        if (n)
            row_next(f, s, &r);
    }
}

static void eval_range(const int64_t *a, const uint8_t *b, int64_t extent, int64_t n, uint8_t *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (uint64_t)a[i] < (uint64_t)extent && (!b || b[i]);
}

#ifndef NDEBUG
static bool stay_inside(const Step *s, const int64_t *at, const uint8_t *ok, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if ((!ok || ok[i]) && (at[i] < 0 || at[i] >= s->extent))
            return false;
    return true;
}
#endif

/* The elements of a step; NULL after a fault. */
static const void *eval_step(StripFrame *f, const Step *s, int64_t from, int64_t n, void *out)
{
    const void *a = s->a < 0 ? NULL : f->at[s->a], *b = s->b < 0 ? NULL : f->at[s->b];
    const void *c = s->c < 0 ? NULL : f->at[s->c];
    size_t size = dtype_row(s->id)->size;
    switch ((StepKind)s->kind) {
    case STEP_CONST: te_loop_fill(size, out, &s->bits, n); break;
    case STEP_RAMP: eval_ramp(f, s, from, n, out); break;
    case STEP_LOAD: return eval_load(f, s, from, n, out);
    case STEP_WINDOW: eval_window(f, s, from, n, out); break;
    case STEP_GATHER:
        assert(stay_inside(s, a, b, n));
        te_loop_gather(size, out, s->data, a, b, c, n);
        break;
    case STEP_RANGE: eval_range(a, b, s->extent, n, out); break;
    case STEP_UNARY: te_loop_unary((TeOp)s->op, s->from, out, a, n); break;
    case STEP_BINARY:
        if (s->checked && (f->fault = te_loop_fault((TeOp)s->op, s->from, a, b, n)))
            return NULL;
        te_loop_binary((TeOp)s->op, s->from, out, a, b, n);
        break;
    case STEP_CAST: te_loop_cast(s->id, s->from, out, a, n); break;
    case STEP_SELECT: te_loop_select(size, out, a, b, c, n); break;
    }
    return out;
}

/* ---- frames -------------------------------------------------------------------------------------- */

bool strip_begin(StripFrame *f, const Strip *s, int64_t most)
{
    int n = (int)s->steps.n;
    size_t strip = (size_t)(most < s->length ? most : s->length);
    strip = (strip + 7) & ~(size_t)7;
    size_t pointers = ((size_t)n * sizeof *f->at + 63) & ~(size_t)63;
    size_t bytes = pointers + (size_t)s->n_slots * strip * 8 + 64;
    f->strip = s;
    f->fault = NULL;
    f->memory = bytes <= sizeof f->small ? NULL : memory_alloc(bytes);
    if (bytes > sizeof f->small && !f->memory)
        return false;
    char *base = f->memory ? f->memory : f->small;
    f->at = (const void **)(((uintptr_t)base + 63) & ~(uintptr_t)63);
    f->slots = (char *)f->at + pointers;
    f->slot_bytes = strip * 8;
    f->id = s->steps.at[n - 1].id;
    for (int i = 0; i < n; i++) {
        const Step *step = &s->steps.at[i];
        void *slot = f->slots + (size_t)step->slot * f->slot_bytes;
        if (step->invariant && !(f->at[i] = eval_step(f, step, 0, (int64_t)strip, slot)))
            return true; /* the fault is found by the first strip */
    }
    return true;
}

const void *strip_eval(StripFrame *f, int64_t from, int64_t n, void *out)
{
    const Strip *s = f->strip;
    int last = (int)s->steps.n - 1;
    if (f->fault)
        return NULL;
    for (int i = 0; i <= last; i++) {
        const Step *step = &s->steps.at[i];
        if (step->invariant)
            continue;
        /* The slot of a step is where its elements were put, unless they are used where they lie. */
        void *slot = f->slots + (size_t)step->slot * f->slot_bytes;
        f->at[i] = eval_step(f, step, from, n, i == last && out ? out : slot);
        if (!f->at[i])
            return NULL;
    }
    if (!out || f->at[last] == out)
        return f->at[last];
    memcpy(out, f->at[last], (size_t)n * dtype_row(f->id)->size);
    return out;
}

void strip_end(StripFrame *f)
{
    free(f->memory);
    f->memory = NULL;
}
