/* Values of the running program, shared by both engines.
 *
 * A Value is two words passed by value. A rank-0 tensor is an immediate: its element's bytes stand
 * in `bits` as they would in memory; no allocation. All else points to something counted. Every
 * Value that a function returns is the caller's (to `value_release`), every accessor lends,
 * arguments are lent unless a comment says "takes".
 *
 * ADT values, tuples and references are Objects: a header and fields. A constructor without fields
 * is the one immortal Object inside its ObjectInfo. What a lower layer cannot know (a closure) is
 * an Object whose info has a destructor. Release never recurses: a list of a million cells is freed
 * in a loop. Cycles arise only through `ref`; the heap of the limits lists the live references so
 * that their owner can break the cycles at the end. */
#ifndef RUNTIME_VALUE_H
#define RUNTIME_VALUE_H

#include "base/table.h"
#include "runtime/tensor.h"

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

struct Object {
    uint32_t refs;          /* UINT32_MAX: immortal */
    uint32_t n;             /* fields */
    const ObjectInfo *info;
    Value fields[];
};

struct ObjectInfo {
    ValueKind kind;
    uint32_t tag;           /* of a constructor: its index in its type */
    uint32_t arity;         /* of a constructor */
    const char *name;       /* of a constructor; lives as long as the info */
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
 * bits are the address of the function's code, 0 when there is none, and then it is called through here. */
struct FunctionKind {
    /* Calls it on arguments of the right types (lent). The result is the caller's; VALUE_NONE after a diagnostic, which has no place
     * where only the caller knows one. */
    Value (*call)(Object *fn, uint32_t n, const Value *args);
    const struct Type *(*type)(const Object *fn); /* NULL when it is not known */
    /* One of the names (keys) that its code looks up; NULL for none. */
    const Name *(*uses)(const Object *fn, const PtrMap *names);
    /* An expression for it, in the module, and the values of its free variables; NULL when there is none. */
    struct Expr *(*source)(const Object *fn, struct Module *into, PtrMap *locals);
    /* Definitions that its code looks up have others in `env`; NULL when the engine looks them up at each use. */
    bool (*renew)(Object *fn, struct Module *env);
};

static inline const FunctionKind *function_kind(const Object *o)
{
    return o->info->function;
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

/* New objects with fields of kind VALUE_NONE, to be filled by the caller. NULL when memory is
 * refused (limit reached). */
Object *object_new(Limits *limits, const ObjectInfo *info, uint32_t n);
Value value_unit(void); /* () : immortal */
/* Empties every reference that is still alive, which frees what only cycles hold. At the end of a
 * session, before limits_deinit. */
void heap_break_cycles(Limits *limits);

Value value_retain_object(Value v);
void value_release_object(Value v);
static inline Value value_retain(Value v)
{
    return v.kind <= VALUE_SCALAR ? v : value_retain_object(v);
}
static inline void value_release(Value v)
{
    if (v.kind > VALUE_SCALAR)
        value_release_object(v);
}

/* A tensor's view of any tensor value, scalars included: what kernels and printers read. `t` is
 * filled in and lends `v`'s storage; for a scalar its data points into *v, so `v` must stay where
 * it is. False when `v` is no tensor. */
typedef struct TensorView {
    Tensor t;
    int64_t none[1];
} TensorView;
bool value_view(const Value *v, TensorView *out);
/* A tensor of its own (rank 0 allowed), owned by the caller, for a scalar or tensor value; NULL
 * when it is none or memory is refused. */
Tensor *value_to_tensor(Limits *limits, Value v);

bool value_is_true(Value v); /* of a bool scalar */
int64_t value_as_int(Value v); /* of a scalar of any dtype */
double value_as_double(Value v);

/* Equal kinds, dtypes, shapes, constructors and elements (bitwise; NaN equals NaN of the same
 * bits). No recursion. */
bool value_equal(Value a, Value b);

#endif
