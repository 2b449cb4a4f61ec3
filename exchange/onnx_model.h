/* ONNX files: the messages of a model, and the arrays in them.
 *
 * The schema is the one that the system's ONNX library carries, made into C when relay is built. Of fields that a newer file has beyond it
 * those that matter are kept as they are and read here, others are known to say nothing of what is computed, and what nobody knows is
 * reported; operators and element types beyond it are met by name where they are used. Nothing that a file says is
 * believed: nesting, sizes and paths of external data are checked here. */
#ifndef EXCHANGE_ONNX_MODEL_H
#define EXCHANGE_ONNX_MODEL_H

#include "ir/ctx.h"
#include "onnx.pb-c.h"

#include <stdio.h>

/* Messages inside messages. */
#define ONNX_DEPTH_MOST 64

/* Fields beyond the schema that are read. */
enum {
    ONNX_NODE_OVERLOAD = 8,
    ONNX_NODE_METADATA = 9,
    ONNX_FUNCTION_DEFAULT = 11,
    ONNX_FUNCTION_OVERLOAD = 13
};

/* What an attribute of a function is where a call does not say it. */
typedef struct OnnxDefault {
    struct OnnxDefault *next;
    const Onnx__FunctionProto *of;
    Onnx__AttributeProto *is;
} OnnxDefault;

typedef struct OnnxModel {
    Onnx__ModelProto *model;
    char *folder; /* of the file, in which external data lies */
    FILE *file; /* large arrays are read from it when they are asked for */
    char *bytes; /* of what is no file on a disk */
    OnnxDefault *defaults;
    Ctx *cx;
} OnnxModel;

/* False after a diagnostic. */
bool onnx_read(OnnxModel *m, Ctx *cx, const char *path);
void onnx_free(OnnxModel *m);

/* A text that the schema does not know; empty: it is not there. */
Str onnx_later_text(const ProtobufCMessage *m, unsigned tag);
/* What an exporter noted of a node under that key. */
bool onnx_metadata(const OnnxModel *m, const Onnx__NodeProto *node, const char *key, Buf *out);
/* The attribute of a function where a call does not give it; NULL: it has no default. */
const Onnx__AttributeProto *onnx_default(const OnnxModel *m, const Onnx__FunctionProto *f,
                                         const char *name);

/* The element type of ONNX's number; void for one that Relay has not. Its name for a message. */
DType onnx_dtype(int32_t type);
/* The number of an element type; 0: ONNX has none such. */
int32_t onnx_dtype_number(DType dtype);
const char *onnx_dtype_name(int32_t type);
/* How many bits integers of less than 8 have; 0: it is none such. They are kept in 8. */
int onnx_dtype_bits(int32_t type);
/* The array, the caller's; NULL: `why` says why not. */
Tensor *onnx_tensor(const OnnxModel *m, const Onnx__TensorProto *t, Buf *why);

#endif
