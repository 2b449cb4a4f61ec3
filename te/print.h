/* Expressions as text, whatever their axes and tensors are called. */
#ifndef TE_PRINT_H
#define TE_PRINT_H

#include "te/te.h"

typedef struct TeNames TeNames;
struct TeNames {
    void (*axis)(const TeNames *names, Buf *out, int axis);
    void (*tensor)(const TeNames *names, Buf *out, int id);
    bool (*is_number)(const TeNames *names,
                      int id); /* it has no indices; NULL: each has those it is read with */
};

/* What occurs in several places is written once, on lines of its own behind it. */
void te_print_expr(Buf *out, const Te *e, const TeNames *names, int indent);
/* What te_print calls a tensor of the program. */
void te_print_tensor(Buf *out, const TeProgram *p, const char *const *inputs, int id);
/* "sum", "argmax" and so on. */
const char *te_reduce_name(TeReduce kind);

#endif
