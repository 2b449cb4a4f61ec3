/* The operators and the prelude. */
#ifndef STDLIB_STDLIB_H
#define STDLIB_STDLIB_H

#include "ir/op.h"

/* Every operator there is. */
extern const OpTable stdlib_ops;

/* A library written in Relay, embedded when the program is built. */
typedef struct StdlibText {
    const char *name;       /* "prelude.rly" */
    const char *text;
    size_t len;
} StdlibText;

/* Ends with a NULL name. Generated from stdlib/prelude. */
extern const StdlibText stdlib_texts[];
const StdlibText *stdlib_text(Str name);

#endif
