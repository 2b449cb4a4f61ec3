/* Values as text for people. */
#ifndef RUNTIME_SHOW_H
#define RUNTIME_SHOW_H

#include "runtime/value.h"

typedef struct ShowStyle {
    int64_t elements;       /* most elements of a tensor before the middle is left out; 0: 1000 */
    int64_t edge;           /* kept at each end of a shortened axis; 0: 3 */
    int64_t list;           /* most elements of a list or depth of nesting; 0: 1000 */
    int width;              /* columns at which rows of a tensor break; 0: 80 */
    bool exact;             /* constructors as they are: Cons(1, Nil) instead of [1, 2, 3] */
    bool bare;              /* without the type behind a tensor */
} ShowStyle;

/* `3`, `[[1, 2], [3, 4]] : Tensor[(2, 2), float32]`, `(1, 2)`, `Cons(1, Nil)` or `[1]`, `ref(3)`,
 * `<fn (int32) -> int32>`. */
void value_show(Buf *out, Value v, ShowStyle style);
/* One element as a number alone, in the shortest form that reads back. */
void element_show(Buf *out, DType dtype, const void *element);
/* The type of a tensor value: `Tensor[(2, 2), float32]`, `float32`. */
void tensor_type_show(Buf *out, const Tensor *t);
/* The statistics of a tensor in one line: min, max, mean, NaNs. */
void tensor_summary(Buf *out, const Tensor *t);

#endif
