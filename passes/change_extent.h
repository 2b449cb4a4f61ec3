/* A function over parameters of other extents. */
#ifndef PASSES_CHANGE_EXTENT_H
#define PASSES_CHANGE_EXTENT_H

#include "passes/pass.h"

/* A copy whose parameters have the types that `change` says (NULL: as they are), without types behind them: all is inferred anew. */
Function *change_extents(PassRun *run, const Function *f,
                         const Type *(*change)(void *data, const Var *param), void *data);
/* The tensor type with another extent along an axis; NULL when it has no such axis. */
const Type *type_with_extent(Ctx *cx, const Type *t, int64_t axis, Dim extent);

#endif
