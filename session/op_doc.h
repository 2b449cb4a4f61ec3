/* What a reader is shown of an operator, made from its row: an example that runs, and its meaning as loops. */
#ifndef SESSION_OP_DOC_H
#define SESSION_OP_DOC_H

#include "ir/op.h"

/* The operator on small values, as the text of a cell: the row's own example, else one for its first sample. Empty where there is
 * neither. */
void op_example(Buf *b, const Op *op);
/* The loops of its compute for the first sample; nothing for a kernel, or where the shape is known only when it runs. */
void op_loops(Ctx *cx, Buf *b, const Op *op);

#endif
