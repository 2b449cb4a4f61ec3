/* Several calls of one operator on the same data, and what follows each of them alike, as one call on more.
 *
 *     (nn.relu(nn.dense(%x, %a, units=4)), nn.relu(nn.dense(%x, %b, units=2)))
 *  => %2 = nn.relu(nn.dense(%x, concatenate((%a, %b)), units=6));
 *     (strided_slice(%2, begin=[0, 0], end=[-1, 4], …), strided_slice(%2, begin=[0, 4], end=[-1, 2], …))
 *
 * A branch is such a call and the broadcasting operators behind it, as long as each is used once. Branches go together that stand in
 * one stretch of code and need nothing of each other. What is joined lies behind one another along an axis, or, stacked, along a new
 * one in front. */
#ifndef PASSES_COMBINE_PARALLEL_H
#define PASSES_COMBINE_PARALLEL_H

#include "passes/pass.h"

#include "stdlib/ops/ops.h"

typedef struct Combiner {
    const char *op;
    bool stacked;
    bool from_end; /* operands of what follows are joined along axis -1 */
    bool repeats; /* operands of what follows are written out along their last axis */
    /* The calls may go together; asked with one call twice: it may with others. */
    bool (*alike)(const Call *a, const Call *b);
    int (*weight_axis)(const Call *call);
    int (*out_axis)(const Call *call);
    /* The call of everything; `size` is the extent of its result along the axis. */
    Expr *(*whole)(const OpsMake *m, const Call *first, Expr *data, Expr *weight, int64_t size);
} Combiner;

/* The function with branches combined where there are `least` of them, at least 2. */
Function *combine_parallel(PassRun *run, const Def *def, const Combiner *how, int64_t least);
/* Attributes of both calls that must agree. */
bool combine_same_attrs(const Call *a, const Call *b, const char *const *keys);

extern const OpAttr combine_params[];

#endif
