#include "jit/gpu/queue.h"

#include "base/memory.h"

#include <string.h>

/* Runs of a sequence, and sequences that are remembered: more would be a program that does not repeat itself. */
enum { RUNS_MOST = 256, KNOWN_MOST = 16, NUMBERS_LEAST = 1024 };

typedef struct Sequence {
    DeviceTaken *at;
    size_t n;
    CudaGraph *graph; /* NULL: it was not asked for again */
    uint32_t generation;
} Sequence;

typedef struct DeviceQueue DeviceQueue;
struct DeviceQueue {
    Sequence now; /* what came since the last look; room for RUNS_MOST */
    size_t launched; /* of those; the others wait */
    int following; /* the number of the sequence that begins with all of them; -1: none does */
    bool busy; /* they are being launched */
    uint64_t *numbers; /* that they are given */
    size_t room, n_numbers, brought; /* of those: on the card */
    CudaBlock place; /* of the numbers there */
    Sequence known[KNOWN_MOST];
    int next; /* of those, to be remembered anew */
};

static void release(Jit *jit, Sequence *s)
{
    for (size_t i = 0; i < s->n; i++)
        memory_free(s->at[i].given);
    memory_free(s->at);
    if (jit->cuda)
        cuda_graph_free(jit->cuda, s->graph);
    *s = (Sequence){0};
}

/* What came so far is forgotten, its room stays. */
static void begin_anew(DeviceQueue *q)
{
    for (size_t i = 0; i < q->now.n; i++)
        memory_free(q->now.at[i].given);
    q->now.n = q->launched = q->n_numbers = q->brought = 0;
    q->following = 0;
}

static bool settle(void *data)
{
    return queue_settle(data);
}

static DeviceQueue *queue_of(Jit *jit)
{
    if (!jit->gpu_queue)
        jit->gpu_queue = memory_zeroed(1, sizeof *jit->gpu_queue);
    DeviceQueue *q = jit->gpu_queue;
    if (q && !q->now.at)
        q->now.at = memory_alloc(RUNS_MOST * sizeof *q->now.at);
    if (!q || !q->now.at)
        return NULL;
    if (q->now.generation != cuda_generation(jit->cuda)) /* what came before is gone */
        begin_anew(q);
    q->now.generation = cuda_generation(jit->cuda);
    cuda_before(jit->cuda, settle, jit);
    return q;
}

static bool same(const DeviceTaken *a, const DeviceTaken *b)
{
    size_t n = device_run_program(a->r)->n_buffers;
    return a->r == b->r && !memcmp(a->given, b->given, n * sizeof *a->given);
}

static bool begins_with(Jit *jit, const Sequence *s, const Sequence *now)
{
    if (s->n < now->n || s->generation != cuda_generation(jit->cuda))
        return false;
    for (size_t i = now->n; i-- > 0;)
        if (!same(&s->at[i], &now->at[i]))
            return false;
    return true;
}

/* ---- numbers -------------------------------------------------------------------------------------------------------------- */

static size_t numbers_of(const DeviceTaken *t)
{
    const DeviceProgram *p = device_run_program(t->r);
    size_t n = 0;
    for (uint32_t i = 0; i < p->n_buffers; i++)
        n += device_is_number(&p->buffers[i]);
    return n;
}

/* Room for so many more; where there is none a sequence ends. */
static bool make_room(Jit *jit, DeviceQueue *q, size_t more)
{
    if (more > q->room - q->n_numbers && !queue_settle(jit))
        return false;
    if (more > q->room - q->n_numbers) {
        size_t room = more < NUMBERS_LEAST ? NUMBERS_LEAST : more;
        uint64_t *numbers = memory_resize(q->numbers, room * sizeof *numbers);
        if (!numbers)
            return false;
        q->numbers = numbers;
        q->room = room;
        cuda_give(jit->cuda, &q->place);
    }
    return q->place.generation == cuda_generation(jit->cuda) ||
           cuda_take(jit->cuda, q->room * sizeof *q->numbers, &q->place);
}

/* Each gets a place behind those before it. */
static bool place_numbers(Jit *jit, DeviceQueue *q, const DeviceTaken *t)
{
    const DeviceProgram *p = device_run_program(t->r);
    size_t more = numbers_of(t);
    if (more > 0 && !make_room(jit, q, more))
        return false;
    for (uint32_t i = 0; i < p->n_buffers; i++) {
        if (!device_is_number(&p->buffers[i]))
            continue;
        q->numbers[q->n_numbers] = t->given[i];
        t->given[i] = q->place.at + sizeof *q->numbers * q->n_numbers++;
    }
    return true;
}

static bool bring_numbers(Jit *jit, DeviceQueue *q)
{
    size_t from = q->brought, n = q->n_numbers - from;
    q->brought = q->n_numbers;
    return n == 0 || cuda_write(jit->cuda, q->place.at + from * sizeof *q->numbers,
                                q->numbers + from, n * sizeof *q->numbers);
}

/* ---- launching ------------------------------------------------------------------------------------------------------------ */

/* One after the other. */
static bool launch_waiting(Jit *jit, DeviceQueue *q)
{
    q->busy = true;
    bool ok = bring_numbers(jit, q);
    for (; ok && q->launched < q->now.n; q->launched++) {
        const DeviceTaken *t = &q->now.at[q->launched];
        cuda_place(jit->cuda, t->span);
        ok = device_run_take(t);
    }
    q->busy = false;
    return ok;
}

static bool note_all(void *data)
{
    const Sequence *s = data;
    bool ok = true;
    for (size_t i = 0; ok && i < s->n; i++)
        ok = device_run_launch(&s->at[i]);
    return ok;
}

static bool play(Jit *jit, DeviceQueue *q, Sequence *s)
{
    Cuda *c = jit->cuda;
    q->busy = true;
    if (!s->graph)
        s->graph = cuda_record(c, note_all, s);
    bool ok = s->graph && bring_numbers(jit, q) && cuda_clock_begin(c) &&
              cuda_replay(c, s->graph) && cuda_clock_end(c);
    q->busy = false;
    begin_anew(q);
    return ok;
}

/* What came is remembered, and something new begins. A single run is nothing to remember: it is one graph already. */
static void remember(Jit *jit, DeviceQueue *q)
{
    Sequence *s = &q->known[q->next];
    DeviceTaken *at = q->now.n > 1 ? memory_alloc(q->now.n * sizeof *at) : NULL;
    if (!at) {
        begin_anew(q);
        return;
    }
    release(jit, s);
    memcpy(at, q->now.at, q->now.n * sizeof *at);
    *s = (Sequence){.at = at, .n = q->now.n, .generation = cuda_generation(jit->cuda)};
    q->next = (q->next + 1) % KNOWN_MOST;
    q->now.n = 0;
    begin_anew(q);
}

bool queue_take(Jit *jit, const DeviceTaken *t)
{
    DeviceQueue *q = queue_of(jit);
    if (!q || !place_numbers(jit, q, t)) {
        memory_free(t->given);
        return false;
    }
    bool follows = q->following >= 0;
    q->now.at[q->now.n++] = *t;
    for (; follows && q->following < KNOWN_MOST; q->following++) {
        Sequence *s = &q->known[q->following];
        if (!begins_with(jit, s, &q->now))
            continue;
        if (q->now.n < s->n)
            return true;
        return play(jit, q, s);
    }
    q->following = -1;
    bool ok = launch_waiting(jit, q);
    if (!ok)
        begin_anew(q);
    else if (q->now.n == RUNS_MOST)
        remember(jit, q);
    return ok;
}

bool queue_settle(Jit *jit)
{
    DeviceQueue *q = jit->gpu_queue;
    if (!q || q->busy || q->now.n == 0)
        return true;
    bool ok = launch_waiting(jit, q);
    if (ok)
        remember(jit, q);
    else
        begin_anew(q);
    return ok;
}

bool queue_numbers(Jit *jit, const DeviceTaken *t)
{
    DeviceQueue *q = queue_of(jit);
    if (!q || !queue_settle(jit))
        return false;
    begin_anew(q);
    bool ok = place_numbers(jit, q, t) && bring_numbers(jit, q);
    begin_anew(q);
    return ok;
}

static bool has_run(const Sequence *s, const DeviceRun *r)
{
    bool has = !r;
    for (size_t i = 0; i < s->n && !has; i++)
        has = s->at[i].r == r;
    return has;
}

void queue_forget(Jit *jit, const DeviceRun *r)
{
    DeviceQueue *q = jit->gpu_queue;
    if (!q)
        return;
    if (has_run(&q->now, r))
        begin_anew(q);
    for (int i = 0; i < KNOWN_MOST; i++)
        if (has_run(&q->known[i], r))
            release(jit, &q->known[i]);
    if (r)
        return;
    release(jit, &q->now);
    if (jit->cuda)
        cuda_give(jit->cuda, &q->place);
    memory_free(q->numbers);
    memory_free(q);
    jit->gpu_queue = NULL;
}
