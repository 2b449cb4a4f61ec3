/* Tensors: counted, strided views of counted buffers.
 *
 * A tensor is immutable from when whoever made it has filled it. Shape and
 * strides are counted in elements, row-major unless strides say otherwise. Storage starts at a
 * multiple of 64 bytes and is rounded up to 64, so that whole vectors may be read and written over
 * the end. Counts are not atomic: values belong to one thread, and the worker threads of a loop
 * touch elements only. bool takes one byte, 0 or 1. */
#ifndef RUNTIME_TENSOR_H
#define RUNTIME_TENSOR_H

#include "base/limit.h"
#include "runtime/dtype.h"

#define TENSOR_RANK_MOST 32

typedef struct Buffer Buffer;

typedef struct Tensor {
    uint32_t refs;
    DType dtype;
    int32_t rank;
    int64_t size;           /* elements: product of the shape */
    int64_t *shape;         /* rank of them */
    int64_t *strides;       /* rank of them, in elements */
    char *data;             /* the first element */
    Buffer *buffer;         /* what `data` lies in; counted */
} Tensor;

/* A new tensor with zeroed elements, owned by the caller. NULL when the extents overflow or memory
 * is refused: then the limit was reached or, without `limits`, nothing is reported. The limits must
 * outlive the tensor. */
Tensor *tensor_new(Limits *limits, DType dtype, int32_t rank, const int64_t *shape);
/* The same without zeroing the elements. */
Tensor *tensor_new_raw(Limits *limits, DType dtype, int32_t rank, const int64_t *shape);
/* A tensor over elements that belong to `owner`, row-major, 64 bytes from which whole vectors may be read over the end; they are not
 * written. `let_go` is called once, when no tensor needs them any more; not where the result is NULL, as tensor_new's. */
Tensor *tensor_over(DType dtype, int32_t rank, const int64_t *shape, const void *data,
                    void (*let_go)(void *owner), void *owner);
/* A view of `t`'s buffer with another shape and strides, starting `offset` elements after t's
 * first. Owned by the caller. */
Tensor *tensor_view(const Tensor *t, int32_t rank, const int64_t *shape, const int64_t *strides,
                    int64_t offset);
/* `t` itself, retained, when it is row-major without gaps; else a copy that is. NULL as
 * tensor_new. */
Tensor *tensor_contiguous(Limits *limits, const Tensor *t);

Tensor *tensor_retain(const Tensor *t);
void tensor_release(Tensor *t); /* NULL is nothing */

/* What stays with a tensor's storage, shared by its views: a copy of it elsewhere. Called once, when nobody needs the storage any more or
 * another takes its place. */
typedef struct TensorTwin TensorTwin;
struct TensorTwin {
    void (*let_go)(TensorTwin *twin);
};
TensorTwin *tensor_twin(const Tensor *t); /* NULL: there is none */
/* False where the tensor has no storage of its own. */
bool tensor_set_twin(const Tensor *t, TensorTwin *twin);

bool tensor_is_contiguous(const Tensor *t);
/* Whoever holds so many counts of it is alone with the elements, and may write them. */
bool tensor_is_alone(const Tensor *t, uint32_t counts);
/* Product of the extents; false on overflow or a negative extent. */
bool shape_size(int32_t rank, const int64_t *shape, int64_t *out);
/* Row-major strides. */
void shape_strides(int32_t rank, const int64_t *shape, int64_t *strides);

/* Element `i` in row-major order as a double or integer, whatever the strides; for printing and
 * tests, not for loops. */
double tensor_get_double(const Tensor *t, int64_t i);
int64_t tensor_get_int(const Tensor *t, int64_t i);
const char *tensor_element(const Tensor *t, int64_t i); /* its address */

#endif
