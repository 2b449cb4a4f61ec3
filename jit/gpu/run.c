#include "jit/gpu/run.h"

#include "base/digest.h"
#include "base/memory.h"
#include "jit/gpu/ptx.h"
#include "jit/gpu/queue.h"
#include "jit/gpu/twin.h"
#include "runtime/cuda.h"
#include "runtime/value.h"

#include <stdlib.h>
#include <string.h>

struct DeviceCode {
    Jit *jit;
    CudaModule *module;
    uint32_t generation; /* that it was loaded in; 0: not yet */
};

/* Steps that were taken with buffers at these places, as one once they were taken twice. */
typedef struct Replay {
    uint64_t *at; /* by buffer; NULL: nothing was taken yet */
    CudaGraph *graph;
} Replay;

/* Results lie in other blocks when those of the last call are still in use: two or three take turns. */
enum { REPLAYS_MOST = 4 };

struct DeviceRun {
    DeviceCode *code;
    const DeviceProgram *program;
    uint32_t generation; /* that the following were made in */
    void **kernels; /* by step */
    CudaBlock *constants; /* by buffer */
    bool straight; /* all of its steps are launches */
    Replay replays[REPLAYS_MOST];
    uint32_t next; /* of those, to be made anew */
};

/* One call. */
typedef struct Frame {
    DeviceRun *r;
    Cuda *c;
    CudaBlock *arguments, *results; /* by number */
    uint64_t *lies; /* by number of an argument: where it is */
    CudaBlock block, fault;
    DeviceTaken taken;
    const DeviceValue *values; /* arguments, then results */
} Frame;

/* ---- the card --------------------------------------------------------------------------------------------------------------- */

/* The last target that the card has all of; NULL: none. */
static const char *target_for(const CudaInfo *info)
{
    const char *best = NULL;
    for (int i = 0; ptx_target(i); i++) {
        char *end;
        long sm = strtol(ptx_target(i) + 3, &end, 10), card = 10 * info->major + info->minor;
        /* A letter stands for what this one kind of cards has. */
        if (*end ? sm == card : sm <= card)
            best = ptx_target(i);
    }
    return best;
}

bool device_open(Jit *jit, Buf *why)
{
    if (jit->cuda)
        return true;
    Cuda *c = cuda_open(&jit->cx->limits, jit->cx->diags, why);
    if (!c)
        return false;
    const CudaInfo *info = cuda_info(c);
    jit->gpu_target = target_for(info);
    if (!jit->gpu_target) {
        buf_printf(why, "the card is of the kind sm_%d%d, and code is made for %s and later",
                   info->major, info->minor, ptx_target(0));
        cuda_close(c);
        return false;
    }
    jit->gpu_boxes = info->boxes;
    jit->cuda = c;
    return true;
}

bool device_end(Jit *jit, bool ran)
{
    if (!jit->cuda || !jit->gpu_busy)
        return true;
    jit->gpu_busy = jit->running > 0;
    if (ran && !jit->gpu_leave && twins_are_owed(jit))
        return twins_home(jit);
    bool ok = cuda_wait(jit->cuda);
    if (!ran || !ok)
        twins_forget(jit);
    return ok;
}

void device_close(Jit *jit)
{
    queue_forget(jit, NULL);
    twins_drop(jit);
    cuda_close(jit->cuda);
    jit->cuda = NULL;
}

/* ---- what stays on the card ------------------------------------------------------------------------------------------------- */

static void code_end(void *data)
{
    DeviceCode *code = data;
    if (code->module)
        cuda_unload(code->jit->cuda, code->module);
}

DeviceCode *device_code_make(Jit *jit, Arena *arena)
{
    DeviceCode *code = arena_new(arena, DeviceCode);
    code->jit = jit;
    arena_on_free(arena, code_end, code);
    return code;
}

static void drop_replay(DeviceRun *r, Replay *replay)
{
    if (replay->graph)
        cuda_graph_free(r->code->jit->cuda, replay->graph);
    memory_free(replay->at);
    *replay = (Replay){0};
}

static void drop_constants(void *data)
{
    DeviceRun *r = data;
    for (int i = 0; i < REPLAYS_MOST; i++)
        drop_replay(r, &r->replays[i]);
    for (uint32_t i = 0; i < r->program->n_buffers; i++)
        cuda_give(r->code->jit->cuda, &r->constants[i]);
}

static void end_run(void *data)
{
    DeviceRun *r = data;
    queue_forget(r->code->jit, r);
    drop_constants(r);
}

DeviceRun *device_run_make(DeviceCode *code, Arena *arena, const DeviceProgram *p)
{
    DeviceRun *r = arena_new(arena, DeviceRun);
    r->code = code;
    r->program = p;
    r->kernels = arena_new_array(arena, void *, p->n_steps + 1);
    r->constants = arena_new_array(arena, CudaBlock, p->n_buffers + 1);
    r->straight = p->n_steps > 0;
    for (uint32_t i = 0; i < p->n_steps; i++)
        r->straight &= p->steps[i].action == DEVICE_LAUNCH;
    arena_on_free(arena, end_run, r);
    return r;
}

const DeviceProgram *device_run_program(const DeviceRun *r)
{
    return r->program;
}

/* In files of their own lies what the driver makes of text: this, and the machine code. */
typedef struct Assembled {
    uint64_t digest[2]; /* of the code */
    uint64_t n; /* its bytes */
} Assembled;

static void digest_of(const void *bytes, size_t n, uint64_t out[2])
{
    Digest d;
    digest_begin(&d);
    digest_add(&d, bytes, n);
    digest_end(&d, out);
}

/* The same text becomes other code with another driver, and on another kind of card. */
static void assembled_key(const Cuda *c, const char *ptx, uint64_t key[2])
{
    const CudaInfo *info = cuda_info(c);
    Digest d;
    digest_begin(&d);
    digest_add(&d, "cubin", 5);
    digest_word(&d, (uint64_t)info->driver);
    digest_word(&d, (uint64_t)info->major);
    digest_word(&d, (uint64_t)info->minor);
    digest_add(&d, ptx, strlen(ptx));
    digest_end(&d, key);
}

static bool is_whole(const CacheFile *f)
{
    Assembled head;
    uint64_t digest[2];
    if (f->n < sizeof head)
        return false;
    memcpy(&head, f->at, sizeof head);
    if (head.n != f->n - sizeof head)
        return false;
    digest_of(f->at + sizeof head, head.n, digest);
    return !memcmp(digest, head.digest, sizeof digest);
}

static CudaModule *assemble(Jit *jit, Cuda *c, const char *ptx, const uint64_t key[2])
{
    Buf code = {0};
    CudaModule *m = cuda_assemble(c, ptx, &code) ? cuda_load(c, code.at) : NULL;
    if (m) {
        Assembled head = {.n = code.n};
        digest_of(code.at, code.n, head.digest);
        cache_write(&jit->cache, key, 2,
                    (Str[]){{(const char *)&head, sizeof head}, {code.at, code.n}});
    }
    buf_deinit(&code);
    return m;
}

static CudaModule *load_text(Jit *jit, Cuda *c, const char *ptx)
{
    uint64_t key[2];
    if (!cuda_assembles(c) || !cache_open(&jit->cache, jit->cx->diags))
        return cuda_load(c, ptx);
    assembled_key(c, ptx, key);
    CacheFile *kept = cache_read(&jit->cache, key);
    CudaModule *m = kept && is_whole(kept) ? cuda_load(c, kept->at + sizeof(Assembled))
                                           : assemble(jit, c, ptx, key);
    cache_release(kept);
    return m;
}

static bool load_code(DeviceRun *r, Cuda *c)
{
    DeviceCode *code = r->code;
    if (code->generation != cuda_generation(c)) {
        cuda_unload(c, code->module);
        code->generation = 0;
        code->module = load_text(code->jit, c, r->program->ptx);
        if (!code->module)
            return false;
        code->generation = cuda_generation(c);
    }
    for (uint32_t i = 0; i < r->program->n_steps; i++) {
        const DeviceKernel *k = r->program->steps[i].kernel;
        r->kernels[i] = k ? cuda_kernel(c, code->module, k->name, k->shared) : NULL;
        if (k && !r->kernels[i])
            return false;
    }
    return true;
}

static bool bring_constant(Cuda *c, Limits *limits, const DeviceBuffer *b, CudaBlock *out)
{
    Tensor *t = tensor_contiguous(limits, b->tensor);
    size_t bytes = t ? (size_t)t->size * dtype_size(t->dtype) : 0;
    bool ok = t && cuda_take(c, bytes, out) && cuda_write(c, out->at, t->data, bytes);
    tensor_release(t);
    return ok;
}

static bool prepare(DeviceRun *r, Cuda *c)
{
    const DeviceProgram *p = r->program;
    if (r->generation == cuda_generation(c))
        return true;
    drop_constants(r);
    if (p->n_kernels > 0 && !load_code(r, c))
        return false;
    for (uint32_t i = 0; i < p->n_buffers; i++)
        if (p->buffers[i].home == DEVICE_CONSTANT &&
            !bring_constant(c, &r->code->jit->cx->limits, &p->buffers[i], &r->constants[i])) {
            drop_constants(r);
            return false;
        }
    r->generation = cuda_generation(c);
    return true;
}

/* ---- one call --------------------------------------------------------------------------------------------------------------- */

/* So many bytes of the argument or result, or of what else has this home, are touched. */
static size_t touched(const DeviceProgram *p, DeviceHome home, uint32_t number)
{
    size_t most = 0;
    for (uint32_t i = 0; i < p->n_buffers; i++) {
        const DeviceBuffer *b = &p->buffers[i];
        if (b->home == home && b->number == number && b->offset + b->bytes > most)
            most = b->offset + b->bytes;
    }
    return most;
}

/* An argument lies on the card already, or goes there now and stays. */
static bool bring_argument(Frame *f, uint32_t number, size_t bytes)
{
    Jit *jit = f->r->code->jit;
    const DeviceValue *v = &f->values[number];
    CudaBlock *to = &f->arguments[number];
    if (!v->tensor) /* a number, which queue.c brings */
        return true;
    f->lies[number] = twin_find(jit, v->tensor, bytes);
    if (f->lies[number])
        return true;
    if (twin_is_owed(jit, v->tensor) && !twins_home(jit))
        return false;
    if (!twin_take(jit, bytes, to) || !cuda_write(f->c, to->at, v->at, bytes))
        return false;
    f->lies[number] = to->at;
    twin_keep(jit, v->tensor, bytes, to, false);
    return true;
}

static bool take_all(Frame *f)
{
    const DeviceProgram *p = f->r->program;
    Jit *jit = f->r->code->jit;
    size_t fault = touched(p, DEVICE_FAULT, 0);
    for (uint32_t i = 0; i < p->n_arguments; i++) {
        size_t n = touched(p, DEVICE_ARGUMENT, i);
        if (n && !bring_argument(f, i, n))
            return false;
    }
    for (uint32_t i = 0; i < p->n_results; i++) {
        size_t n = touched(p, DEVICE_RESULT, i);
        if (n && !twin_take(jit, n, &f->results[i]))
            return false;
    }
    if (p->block && !twin_take(jit, p->block, &f->block))
        return false;
    return !fault || (cuda_take(f->c, fault, &f->fault) && cuda_fill(f->c, f->fault.at, 0, fault));
}

static uint64_t address(const Frame *f, uint32_t buffer)
{
    const DeviceBuffer *b = &f->r->program->buffers[buffer];
    switch (b->home) {
    case DEVICE_ARGUMENT: return f->lies[b->number] + b->offset;
    case DEVICE_RESULT: return f->results[b->number].at + b->offset;
    case DEVICE_CONSTANT: return f->r->constants[buffer].at + b->offset;
    case DEVICE_BLOCK: return f->block.at + b->offset;
    case DEVICE_FAULT: break;
    }
    return f->fault.at;
}

static bool launch(const DeviceTaken *t, uint32_t step)
{
    const DeviceRun *r = t->r;
    const DeviceStep *s = &r->program->steps[step];
    const DeviceKernel *k = s->kernel;
    CudaMap maps[DEVICE_BOXES_MOST];
    Cuda *c = r->code->jit->cuda;
    void **values = memory_alloc((s->n + 1) * sizeof *values);
    bool ok = values != NULL;
    for (uint32_t i = 0; ok && i < s->n; i++)
        values[i] = &t->given[s->buffers[i]];
    for (uint32_t i = 0; ok && i < k->n_boxes; i++) {
        uint32_t p = k->boxes[i].parameter;
        ok = cuda_map(c, t->given[s->buffers[p]], &k->boxes[i].box, &maps[i]);
        values[p] = &maps[i];
    }
    CudaLaunch l = {
        .kernel = r->kernels[step], .name = k->name, .shared = k->shared, .values = values};
    memcpy(l.grid, k->grid, sizeof l.grid);
    memcpy(l.block, k->block, sizeof l.block);
    ok = ok && cuda_launch(c, &l);
    memory_free(values);
    return ok;
}

static Tensor *fetch(Frame *f, uint32_t buffer)
{
    const DeviceBuffer *b = &f->r->program->buffers[buffer];
    Tensor *t = tensor_new_raw(&f->r->code->jit->cx->limits, b->dtype, b->rank, b->shape);
    if (t && b->bytes && !cuda_read(f->c, t->data, f->taken.given[buffer], b->bytes)) {
        tensor_release(t);
        return NULL;
    }
    return t;
}

static bool bring(Frame *f, uint32_t buffer, const Tensor *t)
{
    size_t bytes = f->r->program->buffers[buffer].bytes;
    Tensor *flat = tensor_contiguous(&f->r->code->jit->cx->limits, t);
    bool ok = flat && (!bytes || cuda_write(f->c, f->taken.given[buffer], flat->data, bytes));
    tensor_release(flat);
    return ok;
}

/* What it reads goes to the host, what it makes comes back. */
static bool on_host(Frame *f, const DeviceStep *s)
{
    const TeProgram *p = s->program;
    uint32_t n_in = (uint32_t)p->n_inputs, n_out = (uint32_t)p->n_outputs;
    Tensor **all = memory_zeroed(n_in + n_out + 1, sizeof *all);
    TensorView *views = memory_zeroed(n_in + 1, sizeof *views);
    bool ok = all && views;
    for (uint32_t i = 0; ok && i < n_in; i++) {
        all[i] = fetch(f, s->buffers[i]);
        ok = all[i] && value_view(&(Value){.kind = VALUE_TENSOR, .tensor = all[i]}, &views[i]);
    }
    ok = ok && te_run(f->r->code->jit->cx, p, s->span, views, all + n_in);
    for (uint32_t i = n_in; ok && i < n_in + n_out; i++)
        ok = bring(f, s->buffers[i], all[i]);
    for (uint32_t i = 0; all && i < n_in + n_out; i++)
        tensor_release(all[i]);
    memory_free(all);
    memory_free(views);
    return ok;
}

static bool launch_steps(void *data)
{
    const DeviceTaken *t = data;
    bool ok = true;
    for (uint32_t i = 0; ok && i < t->r->program->n_steps; i++)
        ok = launch(t, i);
    return ok;
}

bool device_run_launch(const DeviceTaken *t)
{
    return launch_steps((void *)(uintptr_t)t);
}

/* What was done before with all buffers where they are now; NULL: nothing was, but that is known the next time. */
static Replay *replay_of(const DeviceTaken *t)
{
    DeviceRun *r = t->r;
    size_t n = r->program->n_buffers;
    for (int i = 0; i < REPLAYS_MOST; i++)
        if (r->replays[i].at && !memcmp(r->replays[i].at, t->given, n * sizeof *t->given))
            return &r->replays[i];
    Replay *replay = &r->replays[r->next];
    drop_replay(r, replay);
    replay->at = memory_alloc((n + 1) * sizeof *replay->at);
    if (replay->at)
        memcpy(replay->at, t->given, n * sizeof *replay->at);
    r->next = (r->next + 1) % REPLAYS_MOST;
    return NULL;
}

bool device_run_take(const DeviceTaken *t)
{
    Cuda *c = t->r->code->jit->cuda;
    Replay *again = t->r->program->n_steps > 1 ? replay_of(t) : NULL;
    if (again && !again->graph) {
        again->graph = cuda_record(c, launch_steps, (void *)(uintptr_t)t);
        if (!again->graph)
            return false;
    }
    return cuda_clock_begin(c) &&
           (again ? cuda_replay(c, again->graph) : launch_steps((void *)(uintptr_t)t)) &&
           cuda_clock_end(c);
}

/* Among launches are steps on the host, and nothing waits for others. */
static bool take_steps(Frame *f)
{
    const DeviceProgram *p = f->r->program;
    bool ok = queue_numbers(f->r->code->jit, &f->taken) && cuda_clock_begin(f->c);
    for (uint32_t i = 0; ok && i < p->n_steps; i++)
        ok = p->steps[i].action == DEVICE_LAUNCH ? launch(&f->taken, i) : on_host(f, &p->steps[i]);
    return ok && cuda_clock_end(f->c);
}

static bool run_steps(Frame *f)
{
    const DeviceProgram *p = f->r->program;
    Jit *jit = f->r->code->jit;
    uint64_t *given = memory_zeroed(p->n_buffers + 1, sizeof *given);
    f->taken = (DeviceTaken){f->r, given, p->n_steps ? p->steps[0].span : (Span){0}};
    for (uint32_t i = 0; given && i < p->n_buffers; i++) {
        const DeviceBuffer *b = &p->buffers[i];
        if (device_is_number(b))
            memcpy(&given[i], f->values[b->number].at, b->bytes);
        else
            given[i] = address(f, i);
    }
    if (given && f->r->straight)
        return queue_take(jit, &f->taken);
    bool ok = given && take_steps(f);
    memory_free(given);
    return ok;
}

/* What a kernel noted that arithmetic does not define. */
static bool is_faultless(Frame *f)
{
    const DeviceProgram *p = f->r->program;
    uint32_t fault = 0;
    if (!f->fault.at)
        return true;
    if (!cuda_read(f->c, &fault, f->fault.at, sizeof fault))
        return false;
    if (fault == 0 || fault > p->n_messages)
        return true;
    const DeviceMessage *m = &p->messages[fault - 1];
    te_fault(f->r->code->jit->cx->diags, m->span, m->fault);
    return false;
}

/* Numbers come at once, tensors when somebody reads them. */
static bool take_results(Frame *f)
{
    const DeviceProgram *p = f->r->program;
    bool waits = false;
    if (!is_faultless(f))
        return false;
    for (uint32_t i = 0; i < p->n_results; i++) {
        size_t n = touched(p, DEVICE_RESULT, i);
        const DeviceValue *v = &f->values[p->n_arguments + i];
        if (!n || (v->tensor && twin_keep(f->r->code->jit, v->tensor, n, &f->results[i], true)))
            continue;
        if ((!waits && !cuda_wait(f->c)) || !cuda_copy_out(f->c, v->at, f->results[i].at, n))
            return false;
        waits = true;
    }
    return !waits || cuda_wait(f->c);
}

bool device_run(DeviceRun *r, const DeviceValue *values)
{
    const DeviceProgram *p = r->program;
    Jit *jit = r->code->jit;
    uint32_t n = p->n_arguments + p->n_results;
    CudaBlock *blocks = memory_zeroed(n + 1, sizeof *blocks);
    uint64_t *lies = memory_zeroed(n + 1, sizeof *lies);
    Frame f = {.r = r,
               .c = jit->cuda,
               .arguments = blocks,
               .results = blocks + p->n_arguments,
               .lies = lies,
               .values = values};
    Span span = p->n_steps ? p->steps[0].span : (Span){0};
    jit->gpu_busy = true;
    bool ok = blocks && lies && cuda_begin(f.c, jit->cx->diags, span) && prepare(r, f.c) &&
              take_all(&f) && run_steps(&f) && take_results(&f);
    for (uint32_t i = 0; blocks && i < n; i++)
        cuda_give(f.c, &blocks[i]);
    cuda_give(f.c, &f.block);
    cuda_give(f.c, &f.fault);
    twins_rest(jit);
    memory_free(blocks);
    memory_free(lies);
    return ok;
}
