/* Values as text for people. */
#ifndef RUNTIME_SHOW_H
#define RUNTIME_SHOW_H

#include "runtime/value.h"

/* What a tensor of more elements than are shown becomes. */
typedef enum ShowLarge {
    SHOW_CUT,               /* its middle is left out */
    SHOW_SUMMARY,           /* its type, first elements and statistics */
    SHOW_TYPE,              /* its type alone */
} ShowLarge;

/* What is shown of a value where nothing else is said. */
#define SHOW_MOST 1000

struct Type;

/* Functions are told by the types that they have where they stand: they know themselves only what is written, which leaves open what
 * type parameters are, or, compiled, what they came to be. */
typedef struct ShowTypes {
    void *data;
    /* The type of a field of an object that is of this type; NULL: nobody knows. */
    const struct Type *(*field)(void *data, const struct Type *of, const Object *o, uint32_t i);
    /* Writes the function; false: it shall tell of itself. */
    bool (*function)(Buf *out, const struct Type *type);
} ShowTypes;

typedef struct ShowStyle {
    int64_t elements; /* most elements of a tensor before the middle is left out; 0: SHOW_MOST */
    int64_t edge; /* kept at each end of a shortened axis; 0: 3 */
    int64_t list; /* most elements of a list or depth of nesting; 0: SHOW_MOST */
    int width; /* columns at which rows of a tensor break; 0: 80 */
    bool exact; /* constructors as they are: Cons(1, Nil) instead of [1, 2, 3] */
    bool bare; /* without the type behind a tensor */
    ShowLarge large;
    /* What stands for a reference, instead of its content; NULL: `ref(content)`. */
    void (*ref)(void *data, Buf *out, const Object *cell);
    void *data;
    const ShowTypes *types; /* NULL: functions tell of themselves */
    const struct Type *type; /* of the value; NULL: nobody knows */
    Limits *limits; /* where one is hit the text ends in the middle; NULL: it goes on */
} ShowStyle;

/* `3`, `[[1, 2], [3, 4]] : Tensor[(2, 2), float32]`, `(1, 2)`, `Cons(1, Nil)` or `[1]`, `ref(3)`,
 * `<fn (int32) -> int32>`. */
void value_show(Buf *out, Value v, ShowStyle style);
/* One element as a number alone, in the shortest form that reads back. */
void element_show(Buf *out, DType dtype, const void *element);
/* The type of a tensor value: `Tensor[(2, 2), float32]`, `float32`. */
void tensor_type_show(Buf *out, const Tensor *t);
/* A tensor in one line: its first elements; then min, max, mean, NaNs. Limits as in ShowStyle. */
void tensor_summary(Buf *out, const Tensor *t, Limits *limits);

#endif
