/* Operators in other orders of their axes, and what follows them. */
#ifndef PASSES_CONVERT_LAYOUT_H
#define PASSES_CONVERT_LAYOUT_H

#include "passes/pass.h"

/* Of a call's data, kernel ("": it has none) and result. */
typedef struct Layouts {
    Str data, kernel, out;
} Layouts;

typedef struct LayoutWishes {
    /* The layouts of one call as it was; false: those of `desired`. NULL: nobody has any. */
    bool (*of_call)(void *data, const Call *call, Layouts *out);
    void *data;
    const AttrValue *desired; /* alternately the name of an operator and its layouts */
    bool asked; /* an operator that cannot have them is reported, else it stays */
} LayoutWishes;

/* What is told of them. */
extern const PassRule layout_rules[];

/* The order of its operands' axes does not matter to the operator, as long as it is the same. */
bool layout_is_free(const Op *op);
/* The function with operators in the layouts that are wished for. NULL after a diagnostic. */
Function *convert_layouts(PassRun *run, const Def *def, const LayoutWishes *wishes);

#endif
