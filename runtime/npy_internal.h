/* What .npy and .npz share: an array read from, or described for, any stream of bytes. */
#ifndef RUNTIME_NPY_INTERNAL_H
#define RUNTIME_NPY_INTERNAL_H

#include "base/diag.h"
#include "runtime/tensor.h"

typedef struct NpyStream {
    /* Reads exactly n bytes; false when there are fewer or reading failed. */
    bool (*read)(void *from, void *to, size_t n);
    void *from;
    const char *name;       /* for messages: "weights.npz, `w1`" */
    Limits *limits;
    Diags *diags;
} NpyStream;

Tensor *npy_read_stream(NpyStream *s);
/* The header of a row-major array, padded as the format wants it. */
void npy_print_header(Buf *out, const Tensor *t);
bool npy_error(Diags *diags, const char *name, const char *what);

#endif
