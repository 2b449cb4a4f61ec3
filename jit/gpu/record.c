#include "jit/gpu/record.h"

#include <string.h>

typedef struct Record {
    Arena *arena;
    Ctx *cx;
    const Plan *plan;
    DeviceProgram *program;
    PtrMap index; /* Held -> its buffer's number + 1 */
    Vec(DeviceBuffer) buffers;
    Vec(DeviceKernel) kernels;
    Vec(DeviceStep) steps;
    uint32_t fault; /* the buffer's number + 1; 0: there is none */
} Record;

/* Where a view begins somewhere inside, wide accesses cannot. */
static bool is_loose(const Held *h)
{
    int64_t from = 0;
    for (; h->in; h = h->in)
        from += h->from;
    return from % 16 != 0;
}

const GpuCode *record_code(Ptx *ptx, const Step *s, const KernelOrigin *from)
{
    bool *loose = arena_alloc_must(s->b.arena, s->in.n + 1, sizeof *loose);
    for (size_t i = 0; i < s->in.n; i++)
        loose[i] = is_loose(s->in.at[i]);
    return ptx_code(ptx, s->program, from, s->known, loose);
}

/* ---- buffers ------------------------------------------------------------------------------------------------------------ */

static uint32_t add_buffer(Record *r, DeviceBuffer b)
{
    vec_push(&r->buffers, r->arena, b);
    return (uint32_t)r->buffers.n - 1;
}

/* Results are numbered as the run makes them. */
static uint32_t result_number(const Record *r, const Held *h)
{
    uint32_t n = 0;
    for (size_t i = 0; i < r->plan->helds.n && r->plan->helds.at[i] != h; i++)
        n += r->plan->helds.at[i]->wanted;
    return n;
}

static DeviceBuffer buffer_of(const Record *r, Held *h)
{
    const Type *t = h->type;
    DeviceBuffer b = {.name = "", .dtype = t->dtype, .rank = (int)t->n, .shape = t->dims};
    b.bytes = dtype_size(t->dtype);
    for (uint32_t i = 0; i < t->n; i++)
        b.bytes *= (size_t)t->dims[i];
    for (; h->in; h = h->in)
        b.offset += (size_t)h->from;
    if (h->constant) {
        b.home = DEVICE_CONSTANT;
        b.tensor = h->constant->value.tensor;
    } else if (h->input) {
        b.home = DEVICE_ARGUMENT;
        b.number = h->input - 1;
    } else if (h->wanted || h->result) {
        b.home = DEVICE_RESULT;
        b.number = result_number(r, h->wanted ? h : h->result);
    } else {
        b.home = DEVICE_BLOCK;
        b.offset += r->plan->needs.at[h->room - 1].offset;
    }
    return b;
}

static uint32_t held_buffer(Record *r, Held *h)
{
    uint32_t known = (uint32_t)(uintptr_t)ptrmap_find(&r->index, h);
    if (!known) {
        known = add_buffer(r, buffer_of(r, h)) + 1;
        ptrmap_put(&r->index, h, (void *)(uintptr_t)known);
    }
    return known - 1;
}

static void release_tensor(void *t)
{
    tensor_release(t);
}

/* A number that is known, for what runs on the host. */
static uint32_t number_buffer(Record *r, const Value *number)
{
    Tensor *t = tensor_new(&r->cx->limits, number->dtype, 0, NULL);
    if (!t)
        return 0; /* the limits know */
    memcpy(t->data, &number->bits, dtype_size(number->dtype));
    arena_on_free(r->arena, release_tensor, t);
    return add_buffer(r, (DeviceBuffer){.name = "",
                                        .home = DEVICE_CONSTANT,
                                        .tensor = t,
                                        .bytes = dtype_size(number->dtype),
                                        .dtype = number->dtype});
}

static uint32_t fault_buffer(Record *r)
{
    static const DType word = {DTYPE_CODE_UINT, 32, 1};
    if (!r->fault)
        r->fault = add_buffer(r, (DeviceBuffer){.name = "fault",
                                                .home = DEVICE_FAULT,
                                                .bytes = sizeof(uint32_t),
                                                .dtype = word}) +
                   1;
    return r->fault - 1;
}

static uint32_t operand_buffer(Record *r, const Step *s, const GpuOperand *o)
{
    switch (o->kind) {
    case GPU_INPUT: return held_buffer(r, s->in.at[o->number]);
    case GPU_OUTPUT: return held_buffer(r, s->out.at[o->number]);
    case GPU_FAULT: return fault_buffer(r);
    case GPU_SCRATCH: break;
    }
    int64_t *shape = arena_new(r->arena, int64_t);
    *shape = (int64_t)(o->bytes / dtype_size(o->dtype));
    size_t from = r->plan->needs.at[s->room - 1].offset;
    return add_buffer(r, (DeviceBuffer){.name = o->name ? o->name : "",
                                        .home = DEVICE_BLOCK,
                                        .offset = from + o->offset,
                                        .bytes = o->bytes,
                                        .dtype = o->dtype,
                                        .rank = 1,
                                        .shape = shape});
}

/* ---- steps ---------------------------------------------------------------------------------------------------------------- */

static void add_launch(Record *r, const Step *s, const GpuLaunch *l)
{
    uint32_t *buffers = arena_new_array(r->arena, uint32_t, l->kernel.n + 1);
    for (uint32_t i = 0; i < l->kernel.n; i++)
        buffers[i] = operand_buffer(r, s, &l->operands[i]);
    vec_push(&r->kernels, r->arena, l->kernel);
    DeviceStep step = {.action = DEVICE_LAUNCH,
                       .name = l->kernel.name,
                       .span = s->w->let->value->span,
                       .kernel = &l->kernel,
                       .n = l->kernel.n,
                       .buffers = buffers};
    vec_push(&r->steps, r->arena, step);
}

static void add_on_host(Record *r, const Step *s)
{
    uint32_t n = 0, *buffers = arena_new_array(r->arena, uint32_t, s->in.n + s->out.n + 1);
    for (size_t i = 0; i < s->in.n; i++)
        buffers[n++] =
            s->known[i].number ? number_buffer(r, s->known[i].number) : held_buffer(r, s->in.at[i]);
    for (size_t i = 0; i < s->out.n; i++)
        buffers[n++] = held_buffer(r, s->out.at[i]);
    DeviceStep step = {.action = DEVICE_ON_HOST,
                       .name = "",
                       .span = s->w->let->value->span,
                       .program = s->program,
                       .why = s->device->why,
                       .n = n,
                       .buffers = buffers};
    vec_push(&r->steps, r->arena, step);
}

const DeviceProgram *record_run(Ptx *ptx, const Plan *p, size_t bytes)
{
    Arena *arena = ptx_arena(ptx);
    Record r = {.arena = arena, .cx = ptx_ctx(ptx), .plan = p};
    DeviceProgram *out = arena_new(arena, DeviceProgram);
    for (size_t i = 0; i < p->steps.n; i++) {
        const Step *s = p->steps.at[i];
        if (s->device && s->device->why)
            add_on_host(&r, s);
        for (size_t k = 0; s->device && !s->device->why && k < s->device->launches.n; k++)
            add_launch(&r, s, &s->device->launches.at[k]);
    }
    ptrmap_deinit(&r.index);
    *out = (DeviceProgram){.target = ptx_target_of(ptx),
                           .n_kernels = (uint32_t)r.kernels.n,
                           .kernels = r.kernels.at,
                           .n_buffers = (uint32_t)r.buffers.n,
                           .buffers = r.buffers.at,
                           .n_steps = (uint32_t)r.steps.n,
                           .steps = r.steps.at,
                           .n_arguments = (uint32_t)p->inputs.n,
                           .n_results = result_number(&r, NULL),
                           .block = bytes};
    ptx_add_run(ptx, out);
    return out;
}

/* ---- for readers ------------------------------------------------------------------------------------------------------------ */

static void print_buffer(Buf *out, const DeviceBuffer *b)
{
    static const char *const homes[] = {"argument", "result", "constant", "block", "fault"};
    buf_str(out, homes[b->home]);
    if (b->home == DEVICE_ARGUMENT || b->home == DEVICE_RESULT)
        buf_printf(out, " %u", b->number);
    if (b->offset || b->home == DEVICE_BLOCK)
        buf_printf(out, "+%zu", b->offset);
}

static void print_step(Buf *out, const DeviceProgram *p, const DeviceStep *s)
{
    const DeviceKernel *k = s->kernel;
    if (k)
        buf_printf(out, "//   %s, grid %u %u %u, block %u %u %u, shared %u: ", k->name, k->grid[0],
                   k->grid[1], k->grid[2], k->block[0], k->block[1], k->block[2], k->shared);
    else
        buf_printf(out, "//   on the host, because %s: ", s->why);
    for (uint32_t i = 0; i < s->n; i++) {
        buf_str(out, i ? ", " : "");
        print_buffer(out, &p->buffers[s->buffers[i]]);
    }
    buf_char(out, '\n');
}

bool record_text(Ptx *ptx, Buf *out)
{
    size_t n;
    DeviceProgram *const *runs = ptx_runs(ptx, &n);
    for (size_t i = 0; i < n; i++) {
        const DeviceProgram *p = runs[i];
        buf_printf(out, "// run %zu: %u arguments, %u results, %zu bytes for itself\n", i + 1,
                   p->n_arguments, p->n_results, p->block);
        for (uint32_t k = 0; k < p->n_steps; k++)
            print_step(out, p, &p->steps[k]);
    }
    return ptx_text(ptx, out);
}
