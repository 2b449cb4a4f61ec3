/* Programs in the JSON form of the original: its saved object graph (language.md section 8.1).
 *
 * The root is a module, a function or another expression. A node used twice is one node of the
 * program. What a node points to must lie below it: cycles, wrong kinds, numbers of nodes that are
 * not there and fields that are missing are reported with the node's number and place. */
#ifndef IR_JSON_READ_H
#define IR_JSON_READ_H

#include "ir/json_graph.h"
#include "ir/module.h"

/* What a module of the graph says that it imports: as ParseEnv.import. */
typedef struct GraphImport {
    Module *(*import)(void *data, Str path, Span span);
    void *data;
} GraphImport;

/* Whether the text is such a document: no Relay text begins with a brace and a quotation mark. */
bool graph_is_json(const char *text, size_t len);
/* The program in a source; the caller's, without types. NULL after diagnostics. */
Module *graph_read_module(Ctx *cx, uint32_t source, GraphImport import);

/* ---- parts of a graph, for the metadata section ---------------------------------------------- */

typedef struct GraphReader GraphReader;
typedef struct GraphWork {
    uint32_t node;
    bool finish; /* all below is made */
} GraphWork;

typedef struct GraphValue {
    AttrValue value;
    size_t size; /* with all that it is made of */
} GraphValue;

struct GraphReader {
    Ctx *cx;
    Graph *g;
    Arena *arena; /* of what is made */
    Arena scratch;
    Module *m; /* NULL: there are no definitions to refer to */
    void **made; /* of each node: Expr, Type, TypeVar or TypeDef, as its kind says */
    uint8_t *state;
    GraphValue *
        *values; /* of nodes that are values of attributes: what shares a node shares its value */
    PtrMap placed; /* functions that are definitions */
    Vec(GraphWork) todo;
    Vec(uint32_t) symbols; /* nodes of the symbolic extents met so far */
    unsigned depth; /* of the value or pattern that is being read */
    unsigned closed; /* not 0: what is read depends on no variable */
    size_t copies; /* of values and patterns */
};

void graph_reader_init(GraphReader *r, Graph *g, Module *m, Arena *arena);
void graph_reader_deinit(GraphReader *r);
/* The expression of a node with all below it. */
Expr *graph_read_expr(GraphReader *r, size_t node);
/* `*out` is NULL for the null node. */
bool graph_read_type(GraphReader *r, size_t node, unsigned depth, const Type **out);
bool graph_read_extent(GraphReader *r, size_t node, Dim *out);
bool graph_read_typevars(GraphReader *r, size_t node, TypeVarList *out);
const TypeDef *graph_read_typedef(GraphReader *r, size_t node);
/* The constructor that a node names. */
const Constructor *graph_read_constructor(GraphReader *r, size_t node);
/* Whether the parts of a value or pattern may be read, one level down; then the caller lowers
 * `depth` again. A part that many share is gone through for each of them, so a short text could ask
 * for more than any time or memory allows. `what` they are is said in the message. */
bool graph_enter(GraphReader *r, size_t node, const char *what);
/* What a node is as the value of an attribute. */
bool graph_read_attr(GraphReader *r, size_t node, AttrValue *out);
/* The keys of what an object has beside fields, which is told by their addresses: its items, and its
 * compact representation. */
extern const char object_data[], object_repr[];
/* The fields of a record as written attributes: what the schema has and the node says. Those of an operator `op` (NULL: it stands by
 * itself) may have the names of earlier releases. */
bool graph_read_record(GraphReader *r, size_t node, const char *op, const OpAttr *schema,
                       Attrs **out);
/* The entries of a dictionary. */
bool graph_read_dict(GraphReader *r, size_t node, const Attrs **out);

#endif
