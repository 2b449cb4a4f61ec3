/* The original's saved object graph as a document: numbered nodes with a type key and fields.
 *
 *     Graph g;
 *     if (graph_open(&g, cx, &arena, text, span, E0122_JSON) && graph_ref(&g, g.root, "op", &at)) …
 *     graph_close(&g);
 *
 * What a node means is said by json_read.c. Every function that gives false has reported what is
 * wrong, with the node, the field, and the place in the text. Nothing here follows the references
 * between nodes, so cycles and depth are the reader's concern. */
#ifndef IR_JSON_GRAPH_H
#define IR_JSON_GRAPH_H

#include "base/document.h"
#include "ir/ctx.h"
#include "ir/module.h"

typedef enum GraphKind {
#define GRAPH_EXPR(KIND, ...) GRAPH_##KIND,
#define GRAPH_KIND(KIND, key) GRAPH_##KIND,
#include "ir/json_kinds.def"
#undef GRAPH_EXPR
#undef GRAPH_KIND
    GRAPH_OTHER, /* of no row: records of attributes and what is only passed on */
} GraphKind;

/* The names of an expression's fields in the graph, as nodes.def orders them; NULL: it has none. */
typedef struct GraphInfo {
    const char *key;
    const char *fields[6];
} GraphInfo;
const GraphInfo *graph_info(GraphKind kind);

/* The record of an operator. `boxed` names the fields that are nodes of their own, in one text with
 * blanks between. */
typedef struct GraphRecord {
    const char *key; /* "relay.attrs.Conv2DAttrs" */
    const char *ops; /* names with blanks between */
    const char *boxed;
} GraphRecord;
/* NULL when none is known. */
const GraphRecord *graph_record_of_op(const char *name);
const GraphRecord *graph_record_find(const char *key);
/* Where the word stands among words with blanks between; NULL: nowhere. */
const char *graph_find_word(const char *words, const char *word);
static inline bool graph_has_word(const char *words, const char *word)
{
    return graph_find_word(words, word) != NULL;
}

/* A type key of the document, of which there are few. */
typedef struct GraphKey {
    const char *text;
    const GraphRecord *row;
    GraphKind kind;
} GraphKey;

/* A document as it was read, with its own memory. */
typedef struct GraphDocument {
    Arena arena;
    Document d;
} GraphDocument;

typedef struct Graph {
    Ctx *cx;
    Arena *arena;
    Span span; /* of the document */
    DiagCode code; /* of what is wrong with it */
    GraphDocument *document;
    const DocumentValue **nodes, *arrays;
    size_t n, n_arrays, root;
    bool old; /* of a release before 0.7: texts stand in the fields themselves */
    Vec(GraphKey) keys;
    uint32_t *key_of; /* the key of each node, among those */
    const DocumentValue **fields; /* the object `attrs` of each node, or NULL */
    uint32_t *ends; /* behind the last node below each; NULL until asked for */
    Value *values; /* of each array once it was read; owned */
} Graph;

bool graph_open(Graph *g, Ctx *cx, Arena *arena, Str text, Span span, DiagCode code);
void graph_close(Graph *g);
/* The module holds the document from here on, and its source: while nothing of the module changes, it is written as it
 * was read, with all that its nodes share and with what nobody here knows. */
void graph_keep(Graph *g, Module *m);

/* "node 7 (relay.Call), field `args`: …"; a NULL field is left out. Returns false. */
bool graph_wrong(Graph *g, size_t node, const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Where the node stands in the text. */
Span graph_span(const Graph *g, size_t node);
static inline const char *graph_key(const Graph *g, size_t node)
{
    return g->keys.at[g->key_of[node]].text;
}
/* The row of the node's key, or NULL. */
static inline const GraphRecord *graph_record(const Graph *g, size_t node)
{
    return g->keys.at[g->key_of[node]].row;
}
static inline GraphKind graph_kind(const Graph *g, size_t node)
{
    return g->keys.at[g->key_of[node]].kind;
}

/* Indices come as numbers in lists and as decimal strings in fields. */
bool graph_number(const Document *d, const DocumentValue *v, int64_t *out);
bool graph_has(const Graph *g, size_t node, const char *field);
/* Whether a whole number stands in the field. */
bool graph_is_number(const Graph *g, size_t node, const char *field);
/* What stands in the field itself: the name of an element type, a number that is no integer. */
bool graph_text(Graph *g, size_t node, const char *field, Str *out);
/* A string, such as the name of a variable: the text of the node that the field refers to. Before 0.7
 * it stands in the field itself, and a text that is no number can be nothing else. */
bool graph_string(Graph *g, size_t node, const char *field, Str *out);
bool graph_int(Graph *g, size_t node, const char *field, int64_t *out);
bool graph_dtype(Graph *g, size_t node, const char *field, DType *out);
/* How many fields a node of any kind has. */
size_t graph_fields(const Graph *g, size_t node);
/* The field behind `*at`, at first NULL, which becomes its place; false: no more. */
bool graph_next_field(const Graph *g, size_t node, const DocumentValue **at, Str *name, Str *text);
/* Of a node of a kind that nobody knows: the node that the field refers to, or 0. Whether it refers to
 * one is not said, and follows from the numbers of the nodes, which go depth first: what lies below a
 * node follows it, and what stands further back it can only share. So a number that is by chance that of
 * an object further back is taken for a reference. What is written here leaves nothing to a guess: a
 * number behind GRAPH_PLAIN is no reference, one behind GRAPH_REFERS is, and both are the same numbers to
 * the original. `*text` is then without the first of these. */
enum { GRAPH_PLAIN = '0', GRAPH_REFERS = '+' };
size_t graph_guess(Graph *g, size_t node, Str *text);
/* The node that a field refers to; node 0 when the field is absent. */
bool graph_ref(Graph *g, size_t node, const char *field, size_t *out);
/* The same, of a certain kind; `what` names it in messages: "a type variable". */
bool graph_ref_kind(Graph *g, size_t node, const char *field, GraphKind kind, const char *what,
                    size_t *out);
/* The text of a string, an operator, or another node with a compact representation. */
bool graph_repr(Graph *g, size_t node, Str *out);
/* The tensor that a field refers to; retained for the caller. */
bool graph_tensor(Graph *g, size_t node, const char *field, Value *out);

/* How many items a node of any kind has; whether the keys of a map are texts. */
size_t graph_items(const Graph *g, size_t node);
bool graph_map_has_names(const Graph *g, size_t node);
/* Items of an Array, or of a Map as pairs. The null node has none. */
bool graph_list(Graph *g, size_t node, size_t *n);
bool graph_item(Graph *g, size_t node, size_t i, size_t *out);
bool graph_map(Graph *g, size_t node, size_t *n);
/* The key as text (of a map by strings) or as a node; the other is empty or 0. */
bool graph_pair(Graph *g, size_t node, size_t i, Str *key, size_t *key_node, size_t *value);

/* ---- texts and tensors, for both directions ------------------------------------------------- */

/* Text that cannot be printed stands in base64 with its length in front; false when it is no base64. */
bool repr_decode(Arena *arena, Str text, Str *out);
void tensor_write_base64(Buf *out, const Tensor *t);

#endif
