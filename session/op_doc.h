/* What a reader is shown of an operator, made from its row: an example that runs, and its meaning as loops. */
#ifndef SESSION_OP_DOC_H
#define SESSION_OP_DOC_H

#include "ir/op.h"

/* The operator on small values, as the text of a cell: the row's own example, else one for its first sample. Empty where there is
 * neither. */
void op_example(Buf *b, const Op *op);
/* What a word in rows' `shapes` means: "window(d, k)" and its formula. */
typedef struct ShapeWord {
    const char *word, *meaning; /* a table of them ends with a NULL word */
} ShapeWord;

extern const ShapeWord shape_words[];
/* The shapes of its arguments and result, then a line for each of these words in it. */
void op_shapes(Buf *b, const Op *op);
/* The loops of its compute for the first sample; nothing for a kernel, or where the shape is known only when it runs. */
void op_loops(Ctx *cx, Buf *b, const Op *op);

#endif
