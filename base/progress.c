#include "base/progress.h"

#include <stddef.h>

#define LOAD(at) atomic_load_explicit(&(at), memory_order_relaxed)
#define STORE(at, value) atomic_store_explicit(&(at), value, memory_order_relaxed)

void progress_begin(Progress *p)
{
    if (p)
        STORE(p->depth, 0);
}

unsigned progress_enter(Progress *p, const char *what, const char *unit, uint64_t total)
{
    unsigned depth = p ? LOAD(p->depth) : 0;
    if (p && depth < PROGRESS_MOST) {
        ProgressPart *part = &p->parts[depth];
        STORE(part->what, what);
        STORE(part->unit, unit);
        STORE(part->step, "");
        STORE(part->done, 0);
        STORE(part->total, total);
    }
    if (p)
        atomic_store_explicit(&p->depth, depth + 1, memory_order_release);
    return depth;
}

void progress_leave(Progress *p, unsigned outer)
{
    if (p)
        STORE(p->depth, outer);
}

static ProgressPart *innermost(Progress *p)
{
    unsigned depth = p ? LOAD(p->depth) : 0;
    return depth > 0 && depth <= PROGRESS_MOST ? &p->parts[depth - 1] : NULL;
}

void progress_step(Progress *p, uint64_t done)
{
    ProgressPart *part = innermost(p);
    if (part)
        STORE(part->done, done);
}

void progress_name(Progress *p, const char *step)
{
    ProgressPart *part = innermost(p);
    if (part)
        STORE(part->step, step);
}

atomic_uint_least64_t *progress_count(Progress *p)
{
    ProgressPart *part = innermost(p);
    return part ? &part->done : NULL;
}

/* A part of one piece says no more than the piece. */
static bool says_nothing(const ProgressPart *part)
{
    return LOAD(part->total) == 1 && !*LOAD(part->unit);
}

static void print_part(const ProgressPart *part, Buf *out)
{
    const char *unit = LOAD(part->unit), *step = LOAD(part->step);
    unsigned long long done = LOAD(part->done), total = LOAD(part->total);
    buf_str(out, LOAD(part->what));
    if (total)
        buf_printf(out, " %llu of %llu", done < total ? done : total, total);
    else if (done)
        buf_printf(out, " %llu", done);
    if (*unit && (total || done))
        buf_printf(out, " %s", unit);
    if (*step)
        buf_printf(out, ", %s", step);
}

double progress_print(const Progress *p, Buf *out)
{
    unsigned depth = atomic_load_explicit(&p->depth, memory_order_acquire);
    double share = -1;
    for (unsigned i = 0, told = 0; i < depth && i < PROGRESS_MOST; i++) {
        const ProgressPart *part = &p->parts[i];
        if (says_nothing(part))
            continue;
        uint64_t done = LOAD(part->done), total = LOAD(part->total);
        if (share < 0 && total)
            share = done < total ? (double)done / (double)total : 1;
        buf_str(out, told++ ? " · " : "");
        print_part(part, out);
    }
    return share;
}
