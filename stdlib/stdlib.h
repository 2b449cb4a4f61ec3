/* The operators and the prelude. */
#ifndef STDLIB_STDLIB_H
#define STDLIB_STDLIB_H

#include "ir/op.h"
#include "stdlib/prelude.h"

/* Every operator there is. */
extern const OpTable stdlib_ops;

/* A library written in Relay by its file name ("prelude.rly"); NULL when there is none. */
const PreludeFile *stdlib_text(Str name);

#endif
