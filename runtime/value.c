#include "runtime/value.h"

#include "base/memory.h"
#include "base/random.h"
#include "base/table.h"
#include "runtime/heap.h"

#include <stdlib.h>
#include <string.h>

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

/* A scalar's element stands in `bits`, elsewhere than in `v` when it is an object's. */
static bool view(Value v, const uint64_t *bits, TensorView *out)
{
    if (v.kind == VALUE_TENSOR) {
        out->t = *v.tensor;
        return true;
    }
    if (v.kind != VALUE_SCALAR)
        return false;
    out->none[0] = 0;
    out->t = (Tensor){
        .refs = 1,
        .dtype = v.dtype,
        .size = 1,
        .shape = out->none,
        .strides = out->none,
        .data = (char *)(uintptr_t)bits,
    };
    return true;
}

bool value_view(const Value *v, TensorView *out)
{
    return view(*v, &v->bits, out);
}

bool object_view(const Object *o, uint32_t i, TensorView *out)
{
    return view(object_get(o, i), &o->fields[i].bits, out);
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

static bool is_ref(const ObjectForm *form)
{
    return form->info && form->info->kind == VALUE_REF;
}

Object *object_of_form(Limits *limits, const ObjectForm *form)
{
    Object *o = form->cells ? cell_take(form->cells) : NULL;
    if (!o)
        o = heap_alloc(limits, form->bytes, is_ref(form));
    if (o)
        memcpy(o, &form->first, sizeof form->first);
    return o;
}

#define FEW_FIELDS 16

Object *object_new(Limits *limits, const ObjectInfo *info, uint32_t n)
{
    static const uint64_t none[FEW_FIELDS]; /* VALUE_NONE is 0 */
    uint64_t *many = n > FEW_FIELDS ? memory_must(n * sizeof *many) : NULL;
    if (many)
        memset(many, 0, n * sizeof *many);
    Object *o = object_of_form(limits, object_form_of(limits, info, n, many ? many : none));
    if (many)
        memory_free(many);
    if (!o)
        return NULL;
    memset(o->fields, 0, n * sizeof *o->fields);
    if (info->kind != VALUE_FUNCTION)
        return o;
    const uint64_t at = (uint64_t)(uintptr_t)info;
    object_set(o, FUNCTION_CODE, value_scalar_int(dtype_of(DT_UINT64), 0));
    object_set(o, FUNCTION_INFO, value_scalar(dtype_of(DT_UINT64), &at));
    return o;
}

/* An object that gets fields of other kinds gets another form. */
static void reform(Object *o, uint32_t i, uint64_t head)
{
    const ObjectForm *old = object_form(o);
    uint64_t few[FEW_FIELDS],
        *heads = old->n > FEW_FIELDS ? memory_must(old->n * sizeof *heads) : few;
    memcpy(heads, old->heads, old->n * sizeof *heads);
    heads[i] = head;
    const ObjectForm *now = heap_form(old->heap, old->info, old->n, heads);
    Object first;
    memcpy(&first, &now->first, sizeof now->first);
    o->form = first.form;
    if (heads != few)
        memory_free(heads);
}

void object_set(Object *o, uint32_t i, Value v)
{
    uint64_t head = value_head(&v), now = object_form(o)->heads[i];
    if (v.kind == VALUE_NONE)
        v.bits = 0;
    if (head != now && !(v.kind == VALUE_NONE && (uint32_t)now > VALUE_SCALAR))
        reform(o, i, head);
    o->fields[i].bits = v.bits;
}

Value value_object(Object *o)
{
    if (!o)
        return value_none();
    return (Value){.kind = object_info(o)->kind, .object = o};
}

/* Immortal objects are never written, so that a constant can stand for one. */
static const Object unit = {.refs = IMMORTAL, .form = FORM_UNIT};

Value value_unit(void)
{
    static const ObjectForm form = {.info = &tuple_info, .bytes = sizeof(Object)};
    __atomic_store_n(&object_forms[FORM_UNIT], &form, __ATOMIC_RELAXED);
    return (Value){.kind = VALUE_TUPLE, .object = (Object *)(uintptr_t)&unit};
}

void object_immortal(Limits *limits, const ObjectInfo *info, Object *out)
{
    const uint64_t none[1] = {0};
    memcpy(out, &object_form_of(limits, info, 0, none)->first, sizeof *out);
    out->refs = IMMORTAL;
}

const ObjectForm *object_form_of(Limits *limits, const ObjectInfo *info, uint32_t n,
                                 const uint64_t *heads)
{
    return heap_form(heap_of(limits), info->kind == VALUE_FUNCTION ? NULL : info, n, heads);
}

/* --- Counting */

/* Gives up one count; the object when that was the last. */
static Object *drop(ValueKind kind, Field held)
{
    if (kind <= VALUE_SCALAR || !held.bits)
        return NULL;
    if (kind == VALUE_TENSOR) {
        tensor_release(held.tensor);
        return NULL;
    }
    Object *o = held.object;
    if (o->refs == 1)
        return o;
    if (o->refs != IMMORTAL)
        o->refs--;
    return NULL;
}

static inline void free_of_form(Object *o, const ObjectForm *form)
{
    if (form->cells)
        cell_give(form->cells, o);
    else
        heap_free(form->heap, o, form->bytes, is_ref(form));
}

void object_free(Object *o)
{
    free_of_form(o, object_form(o));
}

/* What a function holds besides its fields. */
static inline void end_function(const ObjectForm *form, Object *o)
{
    if (!form->info && object_info(o)->destroy)
        object_info(o)->destroy(o);
}

static ValueKind field_kind(const ObjectForm *form, uint32_t i)
{
    return (ValueKind)(uint32_t)form->heads[i];
}

/* The way back from a dying object to the one that held it is kept in what dies: the holder's field
 * that led here points to the holder's own holder, and its count is the number of that field. The
 * last field needs no way back, so a list is freed cell by cell in its order. */
void object_end(Object *o)
{
    Object *holder = NULL;
    uint32_t i = 0;
    while (o) {
        Object *child = NULL;
        const ObjectForm *form = object_form(o);
        if (i == 0)
            end_function(form, o);
        while (i < form->n && !child) {
            child = drop(field_kind(form, i), o->fields[i]);
            i++;
        }
        if (child && i < form->n) {
            o->refs = i;
            o->fields[i - 1].object = holder;
            holder = o;
            o = child;
            i = 0;
            continue;
        }
        free_of_form(o, form);
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
    const ObjectInfo *info = object_info(a);
    uint32_t n = object_n(a);
    if (n != object_n(b) || info->kind == VALUE_FUNCTION || !infos_equal(info, object_info(b)))
        return false;
    if (info->kind == VALUE_REF) {
        /* Two cycles are equal when going round finds no difference. */
        if (ptrmap_find(&ps->refs, a) == b)
            return true;
        ptrmap_put(&ps->refs, a, b);
    }
    for (uint32_t i = n; i-- > 0;) {
        if (!push(ps, object_get(a, i), object_get(b, i)))
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

static void fill(Tensor *t, int64_t from, int64_t to, uint64_t seed, uint64_t first)
{
    size_t size = dtype_size(t->dtype);
    bool flags = dtype_is_bool(t->dtype), floats = dtype_id(t->dtype) == DT_FLOAT32;
    for (int64_t k = from; k < to; k++) {
        double u = (double)(random_at(seed, first + (uint64_t)k) >> 11) * 0x1p-52 - 1.0;
        char *at = t->data + (size_t)k * size;
        if (floats)
            *(float *)(void *)at = (float)u;
        else
            dtype_set_double(t->dtype, at, flags ? u < 0 : u);
    }
}

/* Elements between two looks at the limits. */
#define FILL_PART (1 << 18)

bool tensor_fill_uniform(Limits *limits, Tensor *t, uint64_t seed, uint64_t *drawn)
{
    for (int64_t k = 0; k < t->size; k += FILL_PART) {
        if (limit_hit(limits))
            return false;
        fill(t, k, t->size - k < FILL_PART ? t->size : k + FILL_PART, seed, *drawn);
    }
    *drawn += (uint64_t)t->size;
    return true;
}
