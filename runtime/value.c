#include "runtime/value.h"

#include "base/memory.h"
#include "base/table.h"
#include "runtime/heap.h"

#include <stdlib.h>
#include <string.h>

#define IMMORTAL UINT32_MAX

const ObjectInfo tuple_info = {.kind = VALUE_TUPLE};
const ObjectInfo ref_info = {.kind = VALUE_REF, .arity = 1};

/* --- Scalars */

Value value_scalar(DType dtype, const void *element)
{
    Value v = {.kind = VALUE_SCALAR, .dtype = dtype};
    memcpy(&v.bits, element, dtype_size(dtype));
    return v;
}

Value value_int32(int32_t v)
{
    return value_scalar(dtype_of(DT_INT32), &v);
}

Value value_int64(int64_t v)
{
    return value_scalar(dtype_of(DT_INT64), &v);
}

Value value_float32(float v)
{
    return value_scalar(dtype_of(DT_FLOAT32), &v);
}

Value value_float64(double v)
{
    return value_scalar(dtype_of(DT_FLOAT64), &v);
}

Value value_bool(bool v)
{
    uint8_t element = v;
    return value_scalar(dtype_of(DT_BOOL), &element);
}

Value value_scalar_int(DType dtype, int64_t v)
{
    Value s = {.kind = VALUE_SCALAR, .dtype = dtype};
    dtype_set_int(dtype, &s.bits, v);
    return s;
}

Value value_scalar_double(DType dtype, double v)
{
    Value s = {.kind = VALUE_SCALAR, .dtype = dtype};
    dtype_set_double(dtype, &s.bits, v);
    return s;
}

bool value_is_true(Value v)
{
    return v.kind == VALUE_SCALAR && v.bits != 0;
}

int64_t value_as_int(Value v)
{
    return v.kind == VALUE_SCALAR ? dtype_get_int(v.dtype, &v.bits) : 0;
}

double value_as_double(Value v)
{
    return v.kind == VALUE_SCALAR ? dtype_get_double(v.dtype, &v.bits) : 0;
}

/* --- Tensors */

Value value_tensor(Tensor *t)
{
    if (!t)
        return value_none();
    if (t->rank > 0)
        return (Value){.kind = VALUE_TENSOR, .dtype = t->dtype, .tensor = t};
    Value v = value_scalar(t->dtype, t->data);
    tensor_release(t);
    return v;
}

bool value_view(const Value *v, TensorView *out)
{
    if (v->kind == VALUE_TENSOR) {
        out->t = *v->tensor;
        return true;
    }
    if (v->kind != VALUE_SCALAR)
        return false;
    out->none[0] = 0;
    out->t = (Tensor){
        .refs = 1,
        .dtype = v->dtype,
        .size = 1,
        .shape = out->none,
        .strides = out->none,
        .data = (char *)(uintptr_t)&v->bits,
    };
    return true;
}

Tensor *value_to_tensor(Limits *limits, Value v)
{
    if (v.kind == VALUE_TENSOR)
        return tensor_retain(v.tensor);
    if (v.kind != VALUE_SCALAR)
        return NULL;
    Tensor *t = tensor_new(limits, v.dtype, 0, NULL);
    if (t)
        memcpy(t->data, &v.bits, dtype_size(v.dtype));
    return t;
}

/* --- Objects */

static size_t object_bytes(uint32_t n)
{
    return sizeof(Object) + (size_t)n * sizeof(Value);
}

Object *object_new(Limits *limits, const ObjectInfo *info, uint32_t n)
{
    Object *o = heap_alloc(limits, object_bytes(n), info->kind == VALUE_REF);
    if (!o)
        return NULL;
    o->refs = 1;
    o->n = n;
    o->info = info;
    for (uint32_t i = 0; i < n; i++)
        o->fields[i] = value_none();
    return o;
}

Value value_object(Object *o)
{
    if (!o)
        return value_none();
    return (Value){.kind = o->info->kind, .object = o};
}

/* Immortal objects are never written, so that a constant can stand for one. */
static const Object unit = {.refs = IMMORTAL, .info = &tuple_info};

Value value_unit(void)
{
    return (Value){.kind = VALUE_TUPLE, .object = (Object *)(uintptr_t)&unit};
}

/* --- Counting */

Value value_retain_object(Value v)
{
    if (v.kind == VALUE_TENSOR)
        tensor_retain(v.tensor);
    else if (v.object->refs != IMMORTAL)
        v.object->refs++;
    return v;
}

/* Gives up one count; the object when that was the last. */
static Object *drop(Value v)
{
    if (v.kind <= VALUE_SCALAR)
        return NULL;
    if (v.kind == VALUE_TENSOR) {
        tensor_release(v.tensor);
        return NULL;
    }
    Object *o = v.object;
    if (o->refs == IMMORTAL || --o->refs > 0)
        return NULL;
    if (o->info->destroy)
        o->info->destroy(o);
    return o;
}

static void object_delete(Object *o)
{
    heap_free(o, object_bytes(o->n), o->info->kind == VALUE_REF);
}

/* The way back from a dying object to the one that held it is kept in what dies: the holder's field
 * that led here points to the holder's own holder, and its count is the number of that field. The
 * last field needs no way back, so a list is freed cell by cell in its order. */
void value_release_object(Value v)
{
    Object *o = drop(v);
    Object *holder = NULL;
    uint32_t i = 0;
    while (o) {
        Object *child = NULL;
        while (i < o->n && !child)
            child = drop(o->fields[i++]);
        if (child && i < o->n) {
            o->refs = i;
            o->fields[i - 1].object = holder;
            holder = o;
            o = child;
            i = 0;
            continue;
        }
        object_delete(o);
        o = child;
        i = 0;
        if (!o && holder) {
            o = holder;
            i = o->refs;
            holder = o->fields[i - 1].object;
        }
    }
}

/* --- Equality */

typedef struct Pair {
    Value a, b;
} Pair;

typedef struct Pairs {
    Pair *at;
    size_t n, cap;
    PtrMap refs; /* references seen on the left, with what they were compared to */
} Pairs;

static bool push(Pairs *ps, Value a, Value b)
{
    if (ps->n == ps->cap) {
        size_t cap = ps->cap ? ps->cap * 2 : 16;
        Pair *at = memory_resize(ps->at, cap * sizeof *at);
        if (!at)
            return false;
        ps->at = at;
        ps->cap = cap;
    }
    ps->at[ps->n++] = (Pair){a, b};
    return true;
}

static bool tensors_equal(const Tensor *a, const Tensor *b)
{
    if (a == b)
        return true;
    if (!dtype_eq(a->dtype, b->dtype) || a->rank != b->rank)
        return false;
    if (a->rank > 0 && memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) != 0)
        return false;
    size_t size = dtype_size(a->dtype);
    if (tensor_is_contiguous(a) && tensor_is_contiguous(b))
        return a->size == 0 || memcmp(a->data, b->data, (size_t)a->size * size) == 0;
    for (int64_t i = 0; i < a->size; i++) {
        if (memcmp(tensor_element(a, i), tensor_element(b, i), size) != 0)
            return false;
    }
    return true;
}

static bool infos_equal(const ObjectInfo *a, const ObjectInfo *b)
{
    if (a == b)
        return true;
    if (a->kind != b->kind || a->tag != b->tag || !a->name || !b->name)
        return false;
    return strcmp(a->name, b->name) == 0 && a->type_name && b->type_name &&
           strcmp(a->type_name, b->type_name) == 0;
}

/* Compares the heads and leaves the fields to be compared, the first on top. */
static bool objects_equal(Pairs *ps, Object *a, Object *b)
{
    if (a == b)
        return true;
    if (a->n != b->n || a->info->kind == VALUE_FUNCTION || !infos_equal(a->info, b->info))
        return false;
    if (a->info->kind == VALUE_REF) {
        /* Two cycles are equal when going round finds no difference. */
        if (ptrmap_find(&ps->refs, a) == b)
            return true;
        ptrmap_put(&ps->refs, a, b);
    }
    for (uint32_t i = a->n; i-- > 0;) {
        if (!push(ps, a->fields[i], b->fields[i]))
            return false;
    }
    return true;
}

static bool pair_equal(Pairs *ps, Value a, Value b)
{
    if (a.kind != b.kind)
        return false;
    switch ((ValueKind)a.kind) {
    case VALUE_NONE: return true;
    case VALUE_SCALAR: return dtype_eq(a.dtype, b.dtype) && a.bits == b.bits;
    case VALUE_TENSOR: return tensors_equal(a.tensor, b.tensor);
    case VALUE_TUPLE:
    case VALUE_CON:
    case VALUE_REF:
    case VALUE_FUNCTION: return objects_equal(ps, a.object, b.object);
    }
    return false;
}

bool value_equal(Value a, Value b)
{
    Pairs ps = {0};
    bool equal = push(&ps, a, b);
    while (equal && ps.n > 0) {
        Pair p = ps.at[--ps.n];
        equal = pair_equal(&ps, p.a, p.b);
    }
    free(ps.at);
    ptrmap_deinit(&ps.refs);
    return equal;
}
