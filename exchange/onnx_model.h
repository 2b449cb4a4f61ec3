/* ONNX files: the messages of a model, and the arrays in them.
 *
 * The schema is the one that the system's ONNX library carries, made into C when relay is built; fields that a newer file has beyond it
 * are passed over by protobuf-c, operators and element types beyond it are met by name where they are used. Nothing that a file says is
 * believed: nesting, sizes and paths of external data are checked here. */
#ifndef EXCHANGE_ONNX_MODEL_H
#define EXCHANGE_ONNX_MODEL_H

#include "ir/ctx.h"
#include "onnx.pb-c.h"

#include <stdio.h>

/* Messages inside messages. */
#define ONNX_DEPTH_MOST 64

typedef struct OnnxModel {
    Onnx__ModelProto *model;
    char *folder; /* of the file, in which external data lies */
    FILE *file; /* large arrays are read from it when they are asked for */
    char *bytes; /* of what is no file on a disk */
    Ctx *cx;
} OnnxModel;

/* False after a diagnostic. */
bool onnx_read(OnnxModel *m, Ctx *cx, const char *path);
void onnx_free(OnnxModel *m);

/* The element type of ONNX's number; void for one that Relay has not. Its name for a message. */
DType onnx_dtype(int32_t type);
/* The number of an element type; 0: ONNX has none such. */
int32_t onnx_dtype_number(DType dtype);
const char *onnx_dtype_name(int32_t type);
/* How many bits integers of less than 8 have; 0: it is none such. They are kept in 8. */
int onnx_dtype_bits(int32_t type);
/* The array, the caller's; NULL: `why` says why not. */
Tensor *onnx_tensor(const OnnxModel *m, const Onnx__TensorProto *t, Buf *why);
/* What the message holds of the elements goes: the array has them. */
void onnx_forget(const OnnxModel *m, Onnx__TensorProto *t);

#endif
