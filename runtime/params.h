/* Named arrays in a file: NumPy's archive (.npz), or the original's parameter file (.params).
 *
 *     params_read(&limits, diags, path, found, data);
 *
 * Which of the two a file is, its first bytes say. A parameter file holds a list of names and then one
 * record for each array; the same record, in base64, is an array of a saved graph (language.md 8.1). */
#ifndef RUNTIME_PARAMS_H
#define RUNTIME_PARAMS_H

#include "base/diag.h"
#include "runtime/tensor.h"

/* Calls `found` with each array of the file, in its order; the tensor is the callee's. False after a
 * diagnostic, or when `found` returns false. */
bool params_read(Limits *limits, Diags *diags, const char *path,
                 bool (*found)(void *data, const char *name, Tensor *t), void *data);
/* A parameter file where the path ends in `.params`, else an archive; false after a diagnostic where it ends otherwise. */
bool params_can_write(Diags *diags, const char *path);
bool params_write(Limits *limits, Diags *diags, const char *path, size_t n,
                  const char *const *names, Tensor *const *tensors);

/* The record of one array at the start of `n` bytes. NULL: `*why` says what is wrong with it, or is NULL
 * when there is no memory, which is reported. `*used` is how long it is. */
Tensor *tensor_record_read(Limits *limits, const char *p, size_t n, size_t *used, const char **why);
void tensor_record_write(Buf *out, const Tensor *t);

#endif
