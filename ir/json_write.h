/* Programs in the JSON form of the original (ir/json_read.h), and the nodes of a metadata section.
 *
 * First every object becomes a GraphNode, each once; then they are numbered in the order of the first
 * visit, depth first from the root, and written in the original's layout. */
#ifndef IR_JSON_WRITE_H
#define IR_JSON_WRITE_H

#include "ir/json_graph.h"
#include "ir/module.h"

/* The module, or its expression. */
void graph_write_module(Buf *out, Ctx *cx, const Module *m);

typedef struct GraphNode GraphNode;

typedef struct GraphField {
    Str name;
    GraphNode *node; /* NULL: `text`, or the null node when that is empty too */
    Str text;
} GraphField;

struct GraphNode {
    const char *key;
    Str repr; /* the compact representation; a NULL ptr: none */
    GraphField *fields;
    GraphNode **data;
    Str *keys; /* of a map by strings: as many as data; else NULL */
    uint32_t n_fields, n_data;
    uint32_t number; /* 0: not yet */
    bool guessed; /* nobody knows the kind: which fields refer to nodes, the reader guesses */
};

typedef struct GraphWriteWork {
    const Expr *e;
    GraphNode *node;
} GraphWriteWork;

typedef struct GraphWriter {
    Ctx *cx;
    Arena arena;
    PtrMap made; /* Expr, Type, TypeVar, TypeDef, Constructor, Name -> GraphNode */
    Vec(GraphWriteWork) todo;
    Vec(Value) arrays; /* lent */
    unsigned objects; /* not 0: what is written is a part of an object that passes through */
    GraphNode *device; /* that of everything, which nothing constrains */
} GraphWriter;

void graph_writer_init(GraphWriter *w, Ctx *cx);
void graph_writer_deinit(GraphWriter *w);
/* A node that is complete once graph_writer_settle was called. */
GraphNode *graph_of_expr(GraphWriter *w, const Expr *e);
GraphNode *graph_of_type(GraphWriter *w, const Type *t); /* NULL for NULL */
GraphNode *graph_of_extent(GraphWriter *w, Dim d);
GraphNode *graph_of_attr(GraphWriter *w, const AttrValue *v);
GraphNode *graph_of_constant(GraphWriter *w, Value v);
GraphNode *graph_of_con(GraphWriter *w, const Constructor *con);
GraphNode *graph_of_typedef(GraphWriter *w, const TypeDef *def);
/* The record of a call, the dictionary of a function; NULL for none. */
GraphNode *graph_of_attrs(GraphWriter *w, const Expr *owner, const Attrs *attrs);
void graph_writer_settle(GraphWriter *w);
void graph_writer_print(GraphWriter *w, Buf *out, GraphNode *root);
/* The document that the module was read from. */
void graph_print_saved(Buf *out, Ctx *cx, const Module *m);

/* ---- making nodes ------------------------------------------------------------------------------ */

GraphNode *graph_make_node(GraphWriter *w, const char *key, uint32_t n_fields);
void graph_put_field(GraphNode *n, const char *name, GraphNode *to);
void graph_put_text(GraphWriter *w, GraphNode *n, const char *name, Str text);
void graph_put_string(GraphWriter *w, GraphNode *n, const char *name, const Name *text);
void graph_put_int(GraphWriter *w, GraphNode *n, const char *name, int64_t v);
void graph_put_dtype(GraphWriter *w, GraphNode *n, const char *name, DType t);
/* Room for n items; of a map by strings also for keys. */
GraphNode *graph_make_array(GraphWriter *w, uint32_t n);
GraphNode *graph_make_map(GraphWriter *w, uint32_t n);
GraphNode *graph_make_string(GraphWriter *w, Str text);

#endif
