/* The metadata section: the original's JSON object graph, as far as it holds constants (language.md section 8.1). */
#ifndef IR_METADATA_H
#define IR_METADATA_H

#include "base/vec.h"
#include "ir/ctx.h"
#include "ir/module.h"

typedef struct Metadata {
    Vec(Value) constants; /* meta[relay.Constant][k]; owned: metadata_free */
} Metadata;

/* Reads the JSON document; false after a diagnostic at `span`. */
bool metadata_read(Ctx *cx, Arena *arena, Str json, Span span, Metadata *out);
void metadata_free(Metadata *m);
/* Writes the section's JSON in the original's layout for these constants. */
void metadata_write(Buf *out, size_t n, const Value *constants);

#endif
