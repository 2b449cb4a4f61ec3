/* The metadata section of a text: a saved graph (ir/json_graph.h) whose root is a map from kinds of
 * nodes to lists of them (language.md section 8.1). `meta[K][k]` is the k-th of kind K. */
#ifndef IR_METADATA_H
#define IR_METADATA_H

#include "ir/json_read.h"

typedef struct Metadata {
    Graph graph;
    GraphReader reader;
} Metadata;

/* Opens the JSON document. What is read from it goes into the module's arena; data types are those
 * of the module. False after a diagnostic; metadata_close in any case. */
bool metadata_open(Metadata *md, Ctx *cx, Arena *scratch, Module *m, Str json, Span span);
void metadata_close(Metadata *md);
/* The node behind meta[key][index], which stands at `span`; false after a diagnostic there. */
bool metadata_find(Metadata *md, Str key, int64_t index, Span span, size_t *node);

/* What a printed text refers to. */
typedef struct MetadataItems {
    size_t n_constants, n_symbols, n_records;
    const Value *constants;
    const Dim *symbols;
    const AttrValue *const *records; /* numbers, maps and other objects */
} MetadataItems;

/* "tir.Var", "IntImm", …: where such an item stands. */
const char *metadata_key_of_symbol(const Ctx *cx, Dim symbol);
const char *metadata_key_of_attr(const AttrValue *v);
void metadata_write(Buf *out, Ctx *cx, MetadataItems items);

#endif
