/* Values of the running program, shared by both engines.
 *
 * A Value is two words passed by value. A rank-0 tensor is an immediate: its element's bytes stand
 * in `bits` as they would in memory; no allocation. All else points to something counted. Every
 * Value that a function returns is the caller's (to `value_release`), every accessor lends,
 * arguments are lent unless a comment says "takes".
 *
 * ADT values, tuples and references are Objects: a word and a word for each field. What the fields are
 * stands once, in the ObjectForm that objects of one constructor with fields of the same kinds share,
 * so that a cell of a list takes 24 bytes and polymorphic code finds every field at the same place. A
 * constructor without fields is the one immortal Object inside its ObjectInfo. What a lower layer
 * cannot know (a closure) is an Object whose info has a destructor. Release never recurses: a list of
 * a million cells is freed in a loop. Cycles arise only through `ref`; the heap of the limits lists
 * the live references so that their owner can break the cycles at the end. */
#ifndef RUNTIME_VALUE_H
#define RUNTIME_VALUE_H

#include "base/table.h"
#include "runtime/tensor.h"

#include <string.h>

struct Expr;
struct Module;
struct Type;

typedef enum ValueKind {
    VALUE_NONE,             /* no value: an error was reported */
    VALUE_SCALAR,           /* rank-0 tensor, immediate */
    VALUE_TENSOR,           /* rank 0 never stands here */
    VALUE_TUPLE,
    VALUE_CON,              /* constructor with its fields */
    VALUE_REF,              /* one mutable field */
    VALUE_FUNCTION,         /* closure, operator or constructor used as a value: opaque here */
} ValueKind;

typedef struct Object Object;

typedef struct Value {
    uint32_t kind;          /* ValueKind */
    DType dtype;            /* of a scalar */
    union {
        uint64_t bits;      /* of a scalar: the element in the low bytes, the others zero */
        Tensor *tensor;
        Object *object;
    };
} Value;

typedef struct ObjectInfo ObjectInfo;
typedef struct FunctionKind FunctionKind;

/* The bits of a Value whose kind and dtype the object's form knows. */
typedef union Field {
    uint64_t bits;
    Tensor *tensor;
    Object *object;
} Field;

struct Object {
    uint32_t refs;          /* UINT32_MAX: immortal */
    uint32_t
        form; /* the number of its ObjectForm; its tag in the top byte, if that is large enough */
    Field fields[];
};

typedef struct ObjectForm {
    uint64_t first; /* the first word of a new object: its count, 1, and its form */
    const ObjectInfo *info; /* NULL: a function, which names its own */
    struct Heap *heap; /* of its objects; NULL: immortal ones */
    uint32_t n; /* fields */
    uint32_t bytes; /* of an object */
    struct FreeCell *
        *cells; /* the list that its objects come from and go to; NULL: none (heap.h) */
    struct ObjectForm *next; /* in the heap's table */
    uint64_t heads[]; /* kind and dtype of each field, as in a Value */
} ObjectForm;

#define FORM_BITS 20 /* of a number */
#define FORM_TAG_SHIFT 24
#define FORM_TAG_MOST 254u /* above it the byte says 255 */

/* By number; numbers are the process's, forms the heaps'. */
extern const ObjectForm *object_forms[1 << FORM_BITS];

struct ObjectInfo {
    ValueKind kind;
    uint32_t tag; /* of a constructor: its index in its type */
    uint32_t arity; /* of a constructor */
    const char *name; /* of a constructor; lives as long as the info */
    const char *type_name;
    /* For VALUE_FUNCTION: lets go of what the object holds besides its fields; and prints it. May
     * be NULL. Values that may be long chains (a captured list) belong in the fields, because
     * `destroy` is called on the C stack. */
    void (*destroy)(Object *o);
    void (*print)(Buf *out, const Object *o);
    const FunctionKind *function; /* for a VALUE_FUNCTION that may leave its engine */
    Object *nullary; /* of a constructor without fields: its immortal object */
};

/* What an engine must know of the function values that another one made. The first field of a function belongs to compiled code: the
 * bits are the address of the function's code, 0 when there is none, and then it is called through here. The second is its ObjectInfo;
 * what it captured comes after. */
enum { FUNCTION_CODE, FUNCTION_INFO, FUNCTION_CAPTURED };
struct FunctionKind {
    /* Calls it on arguments of the right types (lent). The result is the caller's; VALUE_NONE after a diagnostic, which has no place
     * where only the caller knows one. */
    Value (*call)(Object *fn, uint32_t n, const Value *args);
    const struct Type *(*type)(const Object *fn); /* NULL when it is not known */
    /* One of the names (keys) that its code looks up; NULL for none. */
    const Name *(*uses)(const Object *fn, const PtrMap *names);
    /* A name that its code looks up, and in `env` is nothing or of another type than it was checked with; NULL for none. */
    const Name *(*misfit)(const Object *fn, const struct Module *env);
    /* An expression for it, in the module, and the values of its free variables; NULL when there is none. */
    struct Expr *(*source)(const Object *fn, struct Module *into, PtrMap *locals);
    /* Definitions that its code looks up have others in `env`; NULL when the engine looks them up at each use. */
    bool (*renew)(Object *fn, struct Module *env);
};

static inline const ObjectForm *object_form(const Object *o)
{
    return object_forms[o->form & ((1u << FORM_BITS) - 1)];
}

static inline uint32_t object_n(const Object *o)
{
    return object_form(o)->n;
}

static inline const ObjectInfo *object_info(const Object *o)
{
    const ObjectInfo *info = object_form(o)->info;
    return info ? info : (const ObjectInfo *)(uintptr_t)o->fields[FUNCTION_INFO].bits;
}

static inline const FunctionKind *function_kind(const Object *o)
{
    return object_info(o)->function;
}

extern const ObjectInfo tuple_info, ref_info;

static inline Value value_none(void)
{
    return (Value){.kind = VALUE_NONE};
}
static inline bool value_is_none(Value v)
{
    return v.kind == VALUE_NONE;
}
static inline bool value_is_object(Value v)
{
    return v.kind >= VALUE_TUPLE;
}

Value value_int32(int32_t v);
Value value_int64(int64_t v);
Value value_float32(float v);
Value value_float64(double v);
Value value_bool(bool v);
/* A scalar from an element in memory. */
Value value_scalar(DType dtype, const void *element);
/* An integer or a float converted to the dtype (wrapped, rounded). */
Value value_scalar_int(DType dtype, int64_t v);
Value value_scalar_double(DType dtype, double v);
/* Takes the tensor; one of rank 0 becomes an immediate. NULL gives value_none(). */
Value value_tensor(Tensor *t);
Value value_object(Object *o); /* takes the object; the kind is its info's */

/* Kind and dtype in one word. */
static inline uint64_t value_head(const Value *v)
{
    uint64_t head;
    memcpy(&head, v, sizeof head);
    return head;
}

/* Word by word, as values are read: a store and a load of different widths wait for each other. */
static inline void value_put(Value *at, uint64_t head, uint64_t bits)
{
    memcpy(at, &head, sizeof head);
    at->bits = bits;
}

/* The form of objects with such fields; `info` is that of any function for all of them. */
const ObjectForm *object_form_of(Limits *limits, const ObjectInfo *info, uint32_t n,
                                 const uint64_t *heads);
/* New objects with fields of kind VALUE_NONE, to be filled by the caller; a function has its first two.
 * NULL when memory is refused (limit reached). */
Object *object_new(Limits *limits, const ObjectInfo *info, uint32_t n);
/* The same when the form is known: its fields are not set. */
Object *object_of_form(Limits *limits, const ObjectForm *form);
/* Gives the memory of an object back whose fields were moved out. */
void object_free(Object *o);
/* An immortal object without fields. */
void object_immortal(Limits *limits, const ObjectInfo *info, Object *out);
/* A field, lent; and a field's new value, which is taken, while what it held is not let go of. */
static inline Value object_get(const Object *o, uint32_t i)
{
    Value v;
    value_put(&v, object_form(o)->heads[i], o->fields[i].bits);
    return v.kind > VALUE_SCALAR && v.bits == 0 ? (Value){.kind = VALUE_NONE} : v;
}
void object_set(Object *o, uint32_t i, Value v);
Value value_unit(void); /* () : immortal */
/* Empties every reference that is still alive, which frees what only cycles hold. At the end of a
 * session, before limits_deinit. */
void heap_break_cycles(Limits *limits);

/* The count of what nobody lets go of. */
#define IMMORTAL UINT32_MAX

static inline void object_retain(Object *o)
{
    if (o->refs != IMMORTAL)
        o->refs++;
}

static inline Value value_retain(Value v)
{
    if (v.kind == VALUE_TENSOR)
        tensor_retain(v.tensor);
    else if (v.kind > VALUE_TENSOR)
        object_retain(v.object);
    return v;
}

/* The object's last count is given up, and with it what its fields hold. */
void object_end(Object *o);

static inline void object_release(Object *o)
{
    if (o->refs == 1)
        object_end(o);
    else if (o->refs != IMMORTAL)
        o->refs--;
}

static inline void value_release(Value v)
{
    if (v.kind == VALUE_TENSOR)
        tensor_release(v.tensor);
    else if (v.kind > VALUE_TENSOR && v.object)
        object_release(v.object);
}

static inline void values_retain(uint32_t n, const Value *values)
{
    for (uint32_t i = 0; i < n; i++)
        value_retain(values[i]);
}

static inline void values_release(uint32_t n, const Value *values)
{
    for (uint32_t i = 0; i < n; i++)
        value_release(values[i]);
}

/* A tensor's view of any tensor value, scalars included: what kernels and printers read. `t` is
 * filled in and lends `v`'s storage; for a scalar its data points into *v, so `v` must stay where
 * it is. False when `v` is no tensor. */
typedef struct TensorView {
    Tensor t;
    int64_t none[1];
} TensorView;
bool value_view(const Value *v, TensorView *out);
/* The same of an object's field. */
bool object_view(const Object *o, uint32_t i, TensorView *out);
/* A tensor of its own (rank 0 allowed), owned by the caller, for a scalar or tensor value; NULL
 * when it is none or memory is refused. */
Tensor *value_to_tensor(Limits *limits, Value v);

bool value_is_true(Value v); /* of a bool scalar */
int64_t value_as_int(Value v); /* of a scalar of any dtype */
double value_as_double(Value v);

/* Equal kinds, dtypes, shapes, constructors and elements (bitwise; NaN equals NaN of the same
 * bits). No recursion. */
bool value_equal(Value a, Value b);

/* Numbers of [-1, 1) as the elements of a tensor without gaps: the stream of the seed from its number `*drawn` on. False where a limit
 * was hit. */
bool tensor_fill_uniform(Limits *limits, Tensor *t, uint64_t seed, uint64_t *drawn);

#endif
