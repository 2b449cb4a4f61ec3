/* Arithmetic on extents.
 *
 *     Dim out = dim_floor_div(cx, dim_add(cx, d, 1), 2);    // of 7: 4; of `n`: (n + 1) // 2; of `?`: `?`
 *
 * Of numbers it gives numbers. Of symbolic extents it gives an expression, which is a symbolic extent of its
 * own: the same one wherever the same is computed, since sums of products stand in one order and what
 * divides without rest is divided. What leaves the range of 64 bits, or would be below 0, is `?`, and so
 * is an expression of more than DIM_SIZE_MOST operations. */
#ifndef IR_DIM_H
#define IR_DIM_H

#include "ir/type.h"

enum { DIM_SIZE_MOST = 100, DIM_SYMBOLS_MOST = 4096 };

Dim dim_add(Ctx *cx, Dim a, Dim b);
Dim dim_sub(Ctx *cx, Dim a, Dim b);
Dim dim_mul(Ctx *cx, Dim a, Dim b);
Dim dim_floor_div(Ctx *cx, Dim a, Dim b);
/* d + by, where by may be below 0. */
Dim dim_offset(Ctx *cx, Dim d, int64_t by);
Dim dim_product(Ctx *cx, uint32_t n, const Dim *dims);
/* How often a window fits: (d + pad - window) // stride + 1. */
Dim dim_windows(Ctx *cx, Dim d, int64_t pad, int64_t window, int64_t stride);

/* The expression as it is written somewhere, which may not be in the order above. */
Dim dim_expr(Ctx *cx, DimOp op, Dim a, Dim b);
/* Whether both are the same wherever they stand: equal numbers, or expressions that come to the same. */
bool dim_same(const Ctx *cx, Dim a, Dim b);
/* What the extent is where symbols have values: `value` gives that of a symbol, or false. False when one has none, or
 * when the result is no number of 64 bits. */
bool dim_value(const Ctx *cx, Dim d, bool (*value)(void *data, Dim symbol, int64_t *out),
               void *data, int64_t *out);

/* The name of a symbol, or the expression: "(n + 1) // 2". */
void dim_print(Buf *b, const Ctx *cx, Dim d);
const char *dim_op_key(DimOp op);
/* DIM_VAR when the key is of no operation. */
DimOp dim_op_find(const char *key);

#endif
