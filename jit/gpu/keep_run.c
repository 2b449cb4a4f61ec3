/* Runs on a card in files: their text once, their buffers and steps as words. */
#include "jit/gpu/run.h"
#include "jit/keep.h"

static void put_buffer(Writing *w, const DeviceBuffer *b)
{
    keep_put(w, b->home);
    keep_put(w, b->number);
    keep_put(w, b->offset);
    keep_put(w, b->bytes);
    keep_put(w, dtype_pack(b->dtype));
    keep_put(w, (uint64_t)b->rank);
    for (int i = 0; i < b->rank; i++)
        keep_put(w, (uint64_t)b->shape[i]);
    if (b->home == DEVICE_CONSTANT)
        keep_put_tensor(w, b->tensor);
}

static void put_box(Writing *w, const DeviceBox *b)
{
    keep_put(w, b->parameter);
    keep_put(w, b->box.offset);
    keep_put(w, b->box.element);
    keep_put(w, b->box.n);
    for (uint32_t i = 0; i < b->box.n; i++) {
        keep_put(w, b->box.extent[i]);
        keep_put(w, b->box.step[i]);
        keep_put(w, b->box.length[i]);
    }
}

static void put_step(Writing *w, const DeviceStep *s)
{
    const DeviceKernel *k = s->kernel;
    keep_put_text(w, k->name);
    keep_put_span(w, s->span);
    for (int i = 0; i < 3; i++) {
        keep_put(w, k->grid[i]);
        keep_put(w, k->block[i]);
    }
    keep_put(w, k->shared);
    keep_put(w, s->n);
    for (uint32_t i = 0; i < s->n; i++)
        keep_put(w, s->buffers[i]);
    keep_put(w, k->n_boxes);
    for (uint32_t i = 0; i < k->n_boxes; i++)
        put_box(w, &k->boxes[i]);
}

void keep_put_run(Writing *w, const DeviceRun *r)
{
    const DeviceProgram *p = device_run_program(r);
    keep_put_text(w, p->target);
    keep_put_device_text(w, p->ptx, p->ptx_bytes);
    keep_put(w, p->n_arguments);
    keep_put(w, p->n_results);
    keep_put(w, p->block);
    keep_put(w, p->n_buffers);
    for (uint32_t i = 0; i < p->n_buffers; i++)
        put_buffer(w, &p->buffers[i]);
    keep_put(w, p->n_steps);
    for (uint32_t i = 0; i < p->n_steps && !w->here; i++) {
        w->here |= p->steps[i].action != DEVICE_LAUNCH; /* programs of tensors have no text */
        if (!w->here)
            put_step(w, &p->steps[i]);
    }
    keep_put(w, p->n_messages);
    for (uint32_t i = 0; i < p->n_messages; i++) {
        keep_put_text(w, p->messages[i].fault);
        keep_put_span(w, p->messages[i].span);
    }
}

/* ---- reading ---------------------------------------------------------------------------------------------------------------- */

static bool is_inside(const DeviceProgram *p, const DeviceBuffer *b)
{
    size_t room = SIZE_MAX;
    switch (b->home) {
    case DEVICE_ARGUMENT:
        if (b->number >= p->n_arguments)
            return false;
        break;
    case DEVICE_RESULT:
        if (b->number >= p->n_results)
            return false;
        break;
    case DEVICE_CONSTANT:
        room = b->tensor ? (size_t)b->tensor->size * dtype_size(b->tensor->dtype) : 0;
        break;
    case DEVICE_BLOCK: room = p->block; break;
    case DEVICE_FAULT: break;
    default: return false;
    }
    return b->bytes > 0 && b->offset <= room && b->bytes <= room - b->offset;
}

static void take_buffer(Taking *t, const DeviceProgram *p, DeviceBuffer *b)
{
    *b = (DeviceBuffer){.name = "", .home = (DeviceHome)keep_take(t)};
    b->number = (uint32_t)keep_take(t);
    b->offset = (size_t)keep_take(t);
    b->bytes = (size_t)keep_take(t);
    b->dtype = dtype_unpack(keep_take(t));
    uint64_t rank = keep_take(t);
    t->wrong |= rank > TENSOR_RANK_MOST || dtype_id(b->dtype) == DTYPE_IDS;
    int64_t *shape = t->wrong ? NULL : arena_new_array(&t->u->arena, int64_t, rank + 1);
    for (uint64_t i = 0; i < rank && !t->wrong; i++)
        shape[i] = (int64_t)keep_take(t);
    b->rank = t->wrong ? 0 : (int)rank;
    b->shape = shape;
    if (b->home == DEVICE_CONSTANT && !t->wrong)
        b->tensor = keep_take_tensor(t);
    t->wrong = t->wrong || !is_inside(p, b);
}

static void take_box(Taking *t, const DeviceKernel *k, DeviceBox *b)
{
    CudaBox *box = &b->box;
    *b = (DeviceBox){.parameter = (uint32_t)keep_take(t)};
    box->offset = keep_take(t);
    box->element = keep_take(t);
    box->n = (uint32_t)keep_take(t);
    t->wrong |= b->parameter >= k->n || box->n > CUDA_BOX_AXES;
    for (uint32_t i = 0; i < box->n && !t->wrong; i++) {
        box->extent[i] = keep_take(t);
        box->step[i] = keep_take(t);
        box->length[i] = (uint32_t)keep_take(t);
    }
}

static void take_boxes(Taking *t, DeviceKernel *k)
{
    uint64_t n = keep_take(t);
    t->wrong |= n > DEVICE_BOXES_MOST;
    DeviceBox *boxes = t->wrong ? NULL : arena_new_array(&t->u->arena, DeviceBox, n + 1);
    for (uint64_t i = 0; i < n && !t->wrong; i++)
        take_box(t, k, &boxes[i]);
    k->boxes = boxes;
    k->n_boxes = t->wrong ? 0 : (uint32_t)n;
}

static void take_step(Taking *t, const DeviceProgram *p, DeviceKernel *k, DeviceStep *s)
{
    *k = (DeviceKernel){.name = keep_take_text(t)};
    Span span = keep_take_span(t);
    for (int i = 0; i < 3; i++) {
        k->grid[i] = (uint32_t)keep_take(t);
        k->block[i] = (uint32_t)keep_take(t);
    }
    k->shared = (uint32_t)keep_take(t);
    uint64_t n = keep_take_count(t);
    uint32_t *buffers = arena_new_array(&t->u->arena, uint32_t, n + 1);
    for (uint64_t i = 0; i < n && !t->wrong; i++) {
        buffers[i] = (uint32_t)keep_take(t);
        t->wrong |= buffers[i] >= p->n_buffers;
    }
    k->n = (uint32_t)n;
    take_boxes(t, k);
    *s = (DeviceStep){.action = DEVICE_LAUNCH,
                      .name = k->name,
                      .span = span,
                      .kernel = k,
                      .n = k->n,
                      .buffers = buffers};
}

static void take_messages(Taking *t, DeviceProgram *p)
{
    uint64_t n = keep_take_count(t);
    DeviceMessage *messages = arena_new_array(&t->u->arena, DeviceMessage, n + 1);
    for (uint64_t i = 0; i < n && !t->wrong; i++) {
        messages[i].fault = keep_take_text(t);
        messages[i].span = keep_take_span(t);
    }
    p->messages = messages;
    p->n_messages = (uint32_t)n;
}

DeviceRun *keep_take_run(Taking *t)
{
    Arena *arena = &t->u->arena;
    DeviceProgram *p = arena_new(arena, DeviceProgram);
    p->target = keep_take_text(t);
    DeviceCode *code = keep_take_device_text(t, &p->ptx, &p->ptx_bytes);
    p->n_arguments = (uint32_t)keep_take_count(t);
    p->n_results = (uint32_t)keep_take_count(t);
    p->block = (size_t)keep_take(t);
    uint64_t n = keep_take_count(t);
    DeviceBuffer *buffers = arena_new_array(arena, DeviceBuffer, n + 1);
    for (uint64_t i = 0; i < n && !t->wrong; i++)
        take_buffer(t, p, &buffers[i]);
    p->buffers = buffers;
    p->n_buffers = (uint32_t)n;
    n = keep_take_count(t);
    DeviceKernel *kernels = arena_new_array(arena, DeviceKernel, n + 1);
    DeviceStep *steps = arena_new_array(arena, DeviceStep, n + 1);
    for (uint64_t i = 0; i < n && !t->wrong; i++)
        take_step(t, p, &kernels[i], &steps[i]);
    p->kernels = kernels;
    p->steps = steps;
    p->n_kernels = p->n_steps = (uint32_t)n;
    take_messages(t, p);
    return t->wrong ? NULL : device_run_make(code, arena, p);
}
