/* Operators in other orders of their axes, and what follows them. */
#ifndef PASSES_CONVERT_LAYOUT_H
#define PASSES_CONVERT_LAYOUT_H

#include "passes/pass.h"

/* The function with the operators of `desired` (alternately a name and its layouts) in those layouts. An operator that cannot be is
 * reported when they are `asked` for, else it stays. NULL after a diagnostic. */
Function *convert_layouts(PassRun *run, const Def *def, const AttrValue *desired, bool asked);

#endif
