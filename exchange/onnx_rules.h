/* What rules of several families use. */
#ifndef EXCHANGE_ONNX_RULES_H
#define EXCHANGE_ONNX_RULES_H

#include "exchange/onnx.h"

typedef struct OnnxWindow {
    int n; /* spatial axes; 0 after a refusal */
    OnnxInts kernel, strides, pads, dilations;
} OnnxWindow;

/* An attribute of so many integers. */
OnnxInts onnx_ints_or(OnnxNode *n, const char *name, int count, int64_t otherwise);
/* The spatial extents of a weight. */
OnnxInts onnx_kernel(OnnxNode *n, size_t weight);
/* `auto_pad` is worked out from the extents: Relay says every padding. */
OnnxWindow onnx_window(OnnxNode *n, OnnxInts kernel);
/* `, strides=…, padding=…, dilation=…`, without what is usual. */
const char *onnx_window_text(OnnxNode *n, const OnnxWindow *w);
/* The product of tensors of ranks x and y. */
const char *onnx_product(OnnxNode *n, const char *a, const char *b, int x, int y);
Tensor *onnx_int64s(OnnxNode *n, OnnxInts v);
/* Zeros for a table of the rule's own; NULL after a refusal, also of one that a small file makes large. */
Tensor *onnx_table(OnnxNode *n, DType dtype, int rank, const int64_t *shape);
Tensor *onnx_zeros(OnnxNode *n, int64_t size, DType dtype);

#endif
