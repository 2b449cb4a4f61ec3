/* What a reader is shown of an operator, made from its row: an example that runs, and its meaning as loops. */
#ifndef SESSION_OP_DOC_H
#define SESSION_OP_DOC_H

#include "ir/op.h"

/* What a word in rows' `shapes` means: "window(d, k)" and its formula. */
typedef struct ShapeWord {
    const char *word, *meaning; /* a table of them ends with a NULL word */
} ShapeWord;

extern const ShapeWord shape_words[];
/* An item of a list for each attribute: its type, default and meaning. */
void doc_attributes(Buf *b, const OpAttr *schema);
/* How it is called, and what it does. */
void op_signature(Buf *b, const Op *op);
/* All about it: arguments, attributes, shapes, an example with its value, that as loops. As plain text that ends without a line end, and
 * as Markdown; there the value is left out unless it is to be computed: its last digits depend on the machine. */
void op_page(Ctx *cx, Buf *b, const Op *op, bool run);
void op_text(Ctx *cx, Buf *b, const Op *op);

#endif
