/* NumPy files: .npy, and .npz, which libzip reads. */
#ifndef RUNTIME_NPY_H
#define RUNTIME_NPY_H

#include "base/diag.h"
#include "base/file.h"
#include "runtime/tensor.h"

/* Reads an array; NULL after a diagnostic. Fortran order and big endian are converted. */
Tensor *npy_read(Limits *limits, Diags *diags, const char *path);
bool npy_write(Limits *limits, Diags *diags, const char *path, const Tensor *t);

/* Calls `found` with each array of the archive, in its order; the tensor is the callee's. False
 * after a diagnostic, or when `found` returns false. */
bool npz_read(Limits *limits, Diags *diags, const char *path,
              bool (*found)(void *data, const char *name, Tensor *t), void *data);
bool npz_write(Limits *limits, Diags *diags, const char *path, size_t n, const char *const *names,
               Tensor *const *tensors);

/* A whole file, NUL behind it; the caller frees. "-" is standard input. NULL after a diagnostic. It asks the limits while nothing comes. */
char *file_read(Limits *limits, Diags *diags, const char *path, size_t *len);
/* base/file.h; nothing is written when memory was refused to what made it. */
bool file_write(Limits *limits, Diags *diags, const char *path, const void *bytes, size_t n);
bool file_write_pieces(Limits *limits, Diags *diags, const char *path, const FilePiece *pieces,
                       size_t n, FilePrivacy privacy);

#endif
