#include "runtime/tensor.h"

#include "base/memory.h"
#include "base/number.h"
#include "runtime/heap.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT ((size_t)64)

/* Stands right before the elements, in the same allocation. */
struct Buffer {
    uint32_t refs;
    Limits *limits;
    Storage storage;        /* charged to the limits */
    void (*let_go)(void *owner); /* NULL: the elements stand behind this */
    void *owner;
    TensorTwin *twin;
};

bool shape_size(int32_t rank, const int64_t *shape, int64_t *out)
{
    int64_t size = 1;
    bool empty = false, fits = true;
    for (int32_t i = 0; i < rank; i++) {
        if (shape[i] < 0)
            return false;
        empty |= shape[i] == 0;
        fits = fits && int64_mul(size, shape[i], &size);
    }
    *out = empty ? 0 : size;
    return empty || fits;
}

void shape_strides(int32_t rank, const int64_t *shape, int64_t *strides)
{
    int64_t stride = 1;
    for (int32_t i = rank - 1; i >= 0; i--) {
        strides[i] = stride;
        /* Without elements no stride is ever used; the product of the others may overflow. */
        if (!int64_mul(stride, shape[i] > 0 ? shape[i] : 1, &stride))
            stride = 1;
    }
}

static Tensor *no_memory(Limits *limits)
{
    if (limits)
        limit_reach(limits, LIMIT_MEMORY);
    return NULL;
}

/* Header, shape and strides in one piece; the buffer is left to the caller. */
static Tensor *header_new(Limits *limits, DType dtype, int32_t rank, const int64_t *shape)
{
    Tensor *t = memory_alloc(sizeof *t + 2 * (size_t)rank * sizeof(int64_t));
    if (!t)
        return no_memory(limits);
    *t = (Tensor){.refs = 1, .dtype = dtype, .rank = rank};
    t->shape = (int64_t *)(t + 1);
    t->strides = t->shape + rank;
    for (int32_t i = 0; i < rank; i++)
        t->shape[i] = shape[i];
    return t;
}

/* Bytes of storage for the elements: whole vectors, at least one. */
static bool storage_size(DType dtype, int64_t elements, size_t *out)
{
    size_t bytes;
    if (!size_mul((size_t)elements, dtype_size(dtype), &bytes))
        return false;
    if (bytes >= (SIZE_MAX >> 2))
        return false;
    *out = bytes == 0 ? ALIGNMENT : (bytes + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    return true;
}

/* False when a limit was hit: filling gigabytes takes long. */
static bool clear(Limits *limits, Storage s)
{
    size_t part = (size_t)1 << 24;
    for (size_t at = 0; at < s.bytes; at += part) {
        if (limit_hit(limits))
            return false;
        memset((char *)s.at + at, 0, s.bytes - at < part ? s.bytes - at : part);
    }
    return true;
}

static Storage storage_new(Limits *limits, size_t bytes, bool zeroed)
{
    Storage s = {.bytes = bytes};
    if (limits && bytes >= STORAGE_LARGE) {
        s = heap_storage_take(limits, bytes);
        if (!s.at || !zeroed || clear(limits, s))
            return s;
        heap_storage_give(limits, s);
        return (Storage){0};
    }
    if (limits && !limit_charge(limits, bytes))
        return s;
    s.at = zeroed ? memory_zeroed(1, bytes) : memory_alloc(bytes);
    if (!s.at && limits)
        limit_release(limits, bytes);
    return s;
}

/* Large buffers do not all begin at the same place of a page: processors take a load for one of what was stored a moment ago where the two
 * places in their pages are the same, and wait; and lines at the same place share few sets of the first cache. Those that are made one
 * after the other, which are likely to be used together, never do. */
#define PLACES 16
#define PLACE_BYTES ((size_t)256)

static Buffer *buffer_new(Limits *limits, size_t bytes, bool zeroed, char **data)
{
    bool large = bytes >= STORAGE_LARGE;
    size_t more = large ? PLACES * PLACE_BYTES : 0;
    Storage s = storage_new(limits, bytes + more + sizeof(Buffer) + ALIGNMENT, zeroed);
    if (!s.at)
        return NULL;
    uintptr_t at = ((uintptr_t)s.at + sizeof(Buffer) + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    at += large ? s.number % PLACES * PLACE_BYTES : 0;
    *data = (char *)at;
    Buffer *b = (Buffer *)at - 1;
    *b = (Buffer){.refs = 1, .limits = limits, .storage = s};
    return b;
}

static void buffer_release(Buffer *b)
{
    if (!b || --b->refs > 0)
        return;
    Limits *limits = b->limits;
    Storage s = b->storage;
    if (b->twin)
        b->twin->let_go(b->twin);
    if (b->let_go) {
        b->let_go(b->owner);
        memory_free(b);
        return;
    }
    if (limits && s.bytes >= STORAGE_LARGE) {
        heap_storage_give(limits, s);
        return;
    }
    if (limits)
        limit_release(limits, s.bytes);
    free(s.at);
}

static Tensor *tensor_make(Limits *limits, DType dtype, int32_t rank, const int64_t *shape,
                           bool zeroed)
{
    int64_t size;
    size_t bytes;
    if (rank < 0 || rank > TENSOR_RANK_MOST || dtype_size(dtype) == 0)
        return NULL;
    if (!shape_size(rank, shape, &size) || !storage_size(dtype, size, &bytes))
        return no_memory(limits);
    Tensor *t = header_new(limits, dtype, rank, shape);
    if (!t)
        return NULL;
    t->size = size;
    shape_strides(rank, shape, t->strides);
    t->buffer = buffer_new(limits, bytes, zeroed, &t->data);
    if (t->buffer)
        return t;
    free(t);
    return no_memory(limits);
}

Tensor *tensor_new(Limits *limits, DType dtype, int32_t rank, const int64_t *shape)
{
    return tensor_make(limits, dtype, rank, shape, true);
}

Tensor *tensor_new_raw(Limits *limits, DType dtype, int32_t rank, const int64_t *shape)
{
    return tensor_make(limits, dtype, rank, shape, false);
}

Tensor *tensor_over(DType dtype, int32_t rank, const int64_t *shape, const void *data,
                    void (*let_go)(void *owner), void *owner)
{
    int64_t size;
    size_t bytes;
    if (rank < 0 || rank > TENSOR_RANK_MOST || dtype_size(dtype) == 0 ||
        !shape_size(rank, shape, &size) || !storage_size(dtype, size, &bytes))
        return NULL;
    Tensor *t = header_new(NULL, dtype, rank, shape);
    Buffer *b = t ? memory_alloc(sizeof *b) : NULL;
    if (!b) {
        memory_free(t);
        return NULL;
    }
    *b = (Buffer){.refs = 1, .let_go = let_go, .owner = owner};
    t->size = size;
    shape_strides(rank, shape, t->strides);
    t->buffer = b;
    t->data = (char *)(uintptr_t)data;
    return t;
}

Tensor *tensor_view(const Tensor *t, int32_t rank, const int64_t *shape, const int64_t *strides,
                    int64_t offset)
{
    Limits *limits = t->buffer ? t->buffer->limits : NULL;
    int64_t size;
    if (rank < 0 || rank > TENSOR_RANK_MOST || !shape_size(rank, shape, &size))
        return NULL;
    Tensor *view = header_new(limits, t->dtype, rank, shape);
    if (!view)
        return NULL;
    view->size = size;
    if (rank > 0)
        memcpy(view->strides, strides, (size_t)rank * sizeof *strides);
    view->data = t->data + offset * (int64_t)dtype_size(t->dtype);
    view->buffer = t->buffer;
    if (view->buffer)
        view->buffer->refs++;
    return view;
}

TensorTwin *tensor_twin(const Tensor *t)
{
    return t->buffer ? t->buffer->twin : NULL;
}

bool tensor_set_twin(const Tensor *t, TensorTwin *twin)
{
    if (!t->buffer)
        return false;
    if (t->buffer->twin)
        t->buffer->twin->let_go(t->buffer->twin);
    t->buffer->twin = twin;
    return true;
}

bool tensor_is_alone(const Tensor *t, uint32_t counts)
{
    const Buffer *b = t->buffer;
    return t->refs == counts && b && b->refs == 1 && !b->let_go && !b->twin;
}

bool tensor_is_contiguous(const Tensor *t)
{
    if (t->size <= 1)
        return true;
    int64_t stride = 1;
    for (int32_t i = t->rank - 1; i >= 0; i--) {
        if (t->shape[i] != 1 && t->strides[i] != stride)
            return false;
        stride *= t->shape[i];
    }
    return true;
}

/* Copies `n` elements that are `stride` apart to where they are neighbours. */
static char *copy_row(char *to, const char *from, int64_t n, int64_t stride, size_t size)
{
    if (stride == 1) {
        memcpy(to, from, (size_t)n * size);
        return to + (size_t)n * size;
    }
    int64_t step = stride * (int64_t)size;
    switch (size) {
#define COPY(bytes)                                                \
    case bytes:                                                    \
        for (int64_t i = 0; i < n; i++, from += step, to += bytes) \
            memcpy(to, from, bytes);                               \
        return to;
        COPY(1)
        COPY(2)
        COPY(4)
        COPY(8)
#undef COPY
    default: return to;
    }
}

/* False when a limit (NULL: none) was hit. */
static bool copy_elements(Limits *limits, char *to, const Tensor *t)
{
    size_t size = dtype_size(t->dtype);
    int64_t at[TENSOR_RANK_MOST] = {0};
    int32_t last = t->rank - 1;
    const char *from = t->data;
    if (t->size == 0)
        return true;
    if (t->rank == 0) {
        memcpy(to, from, size);
        return true;
    }
    for (int64_t since = 0;; since += t->shape[last]) {
        if (since >= LIMIT_EVERY && limits && limit_hit(limits))
            return false;
        since %= LIMIT_EVERY;
        to = copy_row(to, from, t->shape[last], t->strides[last], size);
        int32_t axis = last - 1;
        for (; axis >= 0; axis--) {
            from += t->strides[axis] * (int64_t)size;
            if (++at[axis] < t->shape[axis])
                break;
            from -= t->strides[axis] * (int64_t)size * t->shape[axis];
            at[axis] = 0;
        }
        if (axis < 0)
            return true;
    }
}

Tensor *tensor_contiguous(Limits *limits, const Tensor *t)
{
    if (tensor_is_contiguous(t))
        return tensor_retain(t);
    Tensor *copy = tensor_new_raw(limits, t->dtype, t->rank, t->shape);
    if (!copy || copy_elements(limits, copy->data, t))
        return copy;
    tensor_release(copy);
    return NULL;
}

/* Counts are no part of what `const` promises. */
Tensor *tensor_retain(const Tensor *t)
{
    Tensor *counted = (Tensor *)t;
    counted->refs++;
    return counted;
}

void tensor_release(Tensor *t)
{
    if (!t || --t->refs > 0)
        return;
    buffer_release(t->buffer);
    free(t);
}

const char *tensor_element(const Tensor *t, int64_t i)
{
    int64_t offset = 0;
    for (int32_t axis = t->rank - 1; axis >= 0; axis--) {
        offset += i % t->shape[axis] * t->strides[axis];
        i /= t->shape[axis];
    }
    return t->data + offset * (int64_t)dtype_size(t->dtype);
}

double tensor_get_double(const Tensor *t, int64_t i)
{
    return dtype_get_double(t->dtype, tensor_element(t, i));
}

int64_t tensor_get_int(const Tensor *t, int64_t i)
{
    return dtype_get_int(t->dtype, tensor_element(t, i));
}
