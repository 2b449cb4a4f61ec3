/* Types: hash-consed, so that equal types are the same pointer.
 *
 * Types live in the heap of their context (type_heap.h) as long as something alive refers to them. A type variable is its binder (a TypeVar), compared by address; a data type is its
 * definition (a TypeDef), compared by address, so that two definitions of one name never mix. A hole stands for a type that
 * inference has to find; types that hold one are `open`, are never interned and are replaced when inference ends. The poison type
 * stands where an error was reported and agrees with everything. Nesting is bounded by TYPE_DEPTH_MOST, so functions over types may
 * recurse. */
#ifndef IR_TYPE_H
#define IR_TYPE_H

#include "base/source.h"
#include "base/str.h"
#include "runtime/value.h"

typedef struct Ctx Ctx;
typedef struct Type Type;
typedef struct TypeDef TypeDef;

#define TYPE_DEPTH_MOST 1000

/* An extent: 0 or more, or DIM_ANY for one that is known only at run time. The least values are symbolic extents: known only at run
 * time too, but the same wherever one stands. Whoever computes with extents takes all that are below 0 for unknown. */
typedef int64_t Dim;
#define DIM_ANY ((Dim) - 1)
static inline bool dim_is_symbol(Dim d)
{
    return d < INT64_MIN / 2;
}

typedef enum DimOp {
    DIM_VAR,
#define DIM_OP(OP, key, sign) DIM_##OP,
#include "ir/dims.def"
#undef DIM_OP
} DimOp;

/* A symbolic extent is known by what the metadata of a text says of it; two of one name in one text are told apart by `ordinal`. Or it is
 * arithmetic on others (dim.h). */
typedef struct DimSymbol {
    const Name *name; /* NULL: arithmetic */
    DType dtype;
    bool is_size; /* tir.SizeVar: 0 or more */
    uint32_t ordinal;
    DimOp op;
    Dim a, b;
    Dim normal; /* the same in the order that all such expressions have; 0: this one */
    uint32_t size; /* operations in it */
} DimSymbol;

Dim dim_symbol(Ctx *cx, DimSymbol symbol);
const DimSymbol *dim_symbol_get(const Ctx *cx, Dim dim);

typedef enum TypeKind {
    TYPE_TENSOR,
    TYPE_TUPLE,
    TYPE_FUNC,
    TYPE_REF,
    TYPE_VAR,
    TYPE_ADT,
    TYPE_HOLE,
    TYPE_POISON,
} TypeKind;

/* A type parameter of a function or a data type. */
typedef struct TypeVar {
    const Name *name;
    uint32_t number; /* those of one context are counted as they are made */
    Span span;
    const struct Op *
        op; /* of an operator used as a value: its relation holds between the parameters; else NULL */
} TypeVar;

struct Type {
    uint8_t kind; /* TypeKind */
    bool open : 1; /* a hole is inside */
    bool is_static : 1,
        has_unknown_extent : 1; /* as type_is_static() and its neighbour say; of an open type, outside of its holes */
    uint16_t depth; /* 1 for a leaf */
    uint32_t hash;
    uint32_t n; /* tensor: rank; tuple: fields; function and ADT: arguments; reference: 1 */
    uint32_t n_params; /* function: type parameters */
    union {
        const Dim *dims; /* tensor */
        const Type *const
            *parts; /* tuple fields, function arguments, ADT arguments, content of a reference */
        const Type
            *bound; /* hole: what it turned out to be, else NULL; changed by the checker alone */
    };
    union {
        DType dtype; /* tensor */
        const Type *result; /* function */
        const TypeVar *var; /* type variable */
        const TypeDef *def; /* ADT */
        uint32_t id; /* hole: its number; holes of one context are numbered from 0 */
    };
    const TypeVar *const *params; /* function */
    Span span; /* hole: where it was written, if it was */
};

typedef struct Constructor {
    const Name *name;
    const TypeDef *type;
    const Type *const *fields;
    uint32_t n;
    uint32_t index; /* in its type */
    Span span;
    const ObjectInfo *
        info; /* its run-time identity; lives as long as the context, and is the same for all of one name, type name, place and arity */
} Constructor;

/* `type List[A] { Cons(A, List[A]), Nil }`. Lives as types do. */
struct TypeDef {
    const Name *name;
    const TypeVar *const *params;
    uint32_t n_params;
    Constructor **cons;
    uint32_t n_cons;
    bool is_extern;
    bool broken; /* it could not be read to its end: what mentions it is not judged */
    Span span; /* of the name */
    Span text; /* from `type` to the end; none of one that was not read from text */
};

/* ---- making; all return an interned type unless a part is open ---------------------------------------------------- */

const Type *type_tensor(Ctx *cx, DType dtype, uint32_t rank, const Dim *dims);
const Type *type_scalar(Ctx *cx, DType dtype);
const Type *type_bool(Ctx *cx);
const Type *type_tuple(Ctx *cx, uint32_t n, const Type *const *fields);
const Type *type_unit(Ctx *cx);
const Type *type_func(Ctx *cx, uint32_t n_params, const TypeVar *const *params, uint32_t n,
                      const Type *const *args, const Type *result);
const Type *type_ref(Ctx *cx, const Type *content);
const Type *type_var(Ctx *cx, const TypeVar *var);
const Type *type_adt(Ctx *cx, const TypeDef *def, uint32_t n, const Type *const *args);
Type *type_hole(Ctx *cx, Span span);
const Type *type_poison(Ctx *cx);

/* The type of a value's tensor; of any tensor. */
const Type *type_of_tensor(Ctx *cx, const Tensor *t);
/* Of a constant: a scalar or tensor value. */
const Type *type_of_constant(Ctx *cx, Value v);
/* `fn [A…](fields…) -> T[A…]`, or `T[A…]` alone (inside `fn [A…]() -> …`) for one without fields. */
const Type *type_of_constructor(Ctx *cx, const Constructor *con);

/* ---- asking ------------------------------------------------------------------------------------------------------------ */

/* What a hole is bound to, followed to the end; other types as they are. Only the outermost node. */
const Type *type_find(const Type *t);
/* Whether no hole inside is without a type. */
bool type_is_found(const Type *t);
/* The type with every bound hole inside replaced. */
const Type *type_resolve(Ctx *cx, const Type *t);
/* The same for many types one after the other, between which no hole is filled: `known` keeps what was found. */
const Type *type_resolve_known(Ctx *cx, const Type *t, PtrMap *known);
bool type_is_poison(const Type *t);
bool type_is_scalar(const Type *t, DType dtype); /* Tensor[(), dtype] */
bool type_is_static(const Type *t); /* no `?`, hole or variable inside; tensors, tuples of them … */
bool type_has_unknown_extent(const Type *t); /* a `?` or a symbolic extent is inside */
/* Equal up to the names of bound type variables. */
bool type_equal(const Type *a, const Type *b);
/* The type with a new hole for each hole that was written in it, bound or not. */
const Type *type_refresh(Ctx *cx, const Type *t);
/* As type_equal, with the n variables `a` standing for `b`, and data types for those that `defs` maps them to (NULL: themselves).
 * Variables that nothing binds are themselves alone, or `by_name` those of one name. */
typedef struct TypeBijection {
    uint32_t n;
    const TypeVar *const *a, *const *b;
    const struct PtrMap *defs;
    bool by_name;
} TypeBijection;
bool type_equal_under(const Type *a, const Type *b, const TypeBijection *under);
/* Replaces the n variables by the types `with`, in which no function type inside takes a variable for one that it binds. */
const Type *type_subst(Ctx *cx, const Type *t, uint32_t n, const TypeVar *const *vars,
                       const Type *const *with);
/* The same function type between other types: these stand for its parameters, and it binds the n `params` instead. */
const Type *type_func_with(Ctx *cx, const Type *f, const Type *const *with, uint32_t n,
                           const TypeVar *const *params);
/* Replaces data types: TypeDef -> TypeDef, with as many parameters; others stay. */
const Type *type_with_defs(Ctx *cx, const Type *t, const struct PtrMap *defs);
bool type_mentions(const Type *t, const struct PtrMap *defs); /* keys: TypeDef */

/* As Relay text: `Tensor[(2, ?), float32]`, `fn [A](A) -> A`, `List[int32]`, `Colour[]`; holes print `_`. */
void type_print(Buf *b, const Type *t);
/* The same with symbolic extents as `extent` writes them, instead of `?`, and variables called as `var` says; whether it is written to its end,
 * and not cut for its length. */
typedef struct TypeStyle {
    void (*extent)(void *data, Buf *b, Dim symbol);
    const char *(*var)(void *data, const TypeVar *v);
    void *data;
} TypeStyle;
bool type_print_as(Buf *b, const Type *t, TypeStyle style);
/* The same in the context's scratch text: lent until the context ends. For messages. */
const char *type_str(Ctx *cx, const Type *t);

/* The table behind the constructors. It keeps no type alive. */
typedef struct TypeTable {
    const Type **slots;
    size_t n, cap;
} TypeTable;

/* Gives back the types, variables and definitions that nothing leads to from what `keep` keeps in the heap. */
void types_collect(Ctx *cx, void (*keep)(Ctx *cx));

#endif
