#include "interp/internal.h"
#include "base/memory.h"

#include <stdlib.h>

#ifdef NDEBUG
#define SEGMENT_LEAST ((size_t)64 << 10)
#else
#define SEGMENT_LEAST ((size_t)1 << 10)
#endif
#define SEGMENT_MOST ((size_t)8 << 20)

struct Segment {
    Segment *older, *newer;
    size_t size;
    char *saved_next;       /* where the frames of the older segment end */
    _Alignas(16) char memory[];
};

/* Endless recursion must end before the machine suffers: frames get a quarter of the memory there is to use, and at most this. */
#define STACK_MOST ((size_t)1 << 30)

static bool may_grow(const Interp *in, size_t size)
{
    size_t most = in->cx->limits.memory_most / 4;
    if (most == 0 || most > STACK_MOST)
        most = STACK_MOST;
    return size <= most && in->stack.bytes <= most - size;
}

static Segment *segment_new(Interp *in, size_t size)
{
    Limits *l = &in->cx->limits;
    if (!may_grow(in, size)) {
        limit_reach(l, LIMIT_DEPTH);
        return NULL;
    }
    if (!limit_charge(l, size))
        return NULL;
    Segment *s = memory_alloc(size);
    if (!s) {
        limit_release(l, size);
        limit_reach(l, LIMIT_DEPTH);
        return NULL;
    }
    in->stack.bytes += size;
    *s = (Segment){.size = size};
    return s;
}

static void segment_free(Interp *in, Segment *s)
{
    if (!s)
        return;
    limit_release(&in->cx->limits, s->size);
    in->stack.bytes -= s->size;
    free(s);
}

/* Makes the spare segment the newest, or a new one that is large enough. */
bool stack_grow(Interp *in, size_t bytes)
{
    Stack *st = &in->stack;
    Segment *top = st->segment, *s = top ? top->newer : NULL;
    if (s && s->size - sizeof *s < bytes) {
        segment_free(in, s);
        top->newer = s = NULL;
    }
    if (!s) {
        size_t size = top ? top->size * 2 : SEGMENT_LEAST;
        size = size > SEGMENT_MOST ? SEGMENT_MOST : size;
        while (size - sizeof *s < bytes)
            size *= 2;
        s = segment_new(in, size);
        if (!s)
            return false;
        s->older = top;
        if (top)
            top->newer = s;
    }
    s->saved_next = st->next;
    st->segment = s;
    st->first = st->next = s->memory;
    st->end = (char *)s + s->size;
    return true;
}

void stack_shrink(Interp *in)
{
    Stack *st = &in->stack;
    Segment *s = st->segment;
    if (!s->older)
        return;
    segment_free(in, s->newer);
    s->newer = NULL;
    st->segment = s->older;
    st->first = s->older->memory;
    st->next = s->saved_next;
    st->end = (char *)s->older + s->older->size;
}

void stack_deinit(Interp *in)
{
    Segment *s = in->stack.segment;
    if (s)
        segment_free(in, s->newer);
    while (s) {
        Segment *older = s->older;
        segment_free(in, s);
        s = older;
    }
    in->stack = (Stack){0};
}
