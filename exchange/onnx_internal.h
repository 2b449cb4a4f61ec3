/* An import under way: what onnx_import.c and onnx_node.c share. */
#ifndef EXCHANGE_ONNX_INTERNAL_H
#define EXCHANGE_ONNX_INTERNAL_H

#include "exchange/onnx.h"

/* Constants of up to so many elements are computed during the import; larger ones are weights. */
#define FOLD_MOST ((int64_t)1 << 16)

/* A call of a function of the model. */
typedef struct OnnxCall {
    const char *name;
} OnnxCall;

/* A line of the program. */
typedef struct OnnxLine {
    const Name *name; /* of its variable */
    const char *text;
    const OnnxCall *call; /* the outermost that it comes from; NULL: the graph itself */
} OnnxLine;

/* The lines of a graph, and what its names mean. */
struct OnnxBlock {
    OnnxBlock *outer;
    const OnnxNode
        *call; /* of a function: the node that calls it, and nothing around it is seen; else NULL */
    const Onnx__FunctionProto *function; /* that is called */
    int64_t version; /* of the operator set */
    PtrMap values; /* Name in the model -> OnnxValue */
    Vec(OnnxLine) lines;
};

struct OnnxImport {
    Ctx *cx;
    Interp *in;
    const ImportWish *wish;
    Imported *out;
    OnnxModel model;
    Module *vars; /* in whose arena the variables lie; it defines nothing */
    Module *prelude; /* lists and options; NULL until something needs them */
    OnnxBlock *block; /* the innermost */
    PtrMap taken; /* Name: variables of the program */
    PtrMap locals; /* Name -> Var: what the next line may use */
    PtrMap known; /* Var -> const Value *: of those that are constants */
    PtrMap ops; /* Name of an operator -> its number among those of the table + 1 */
    Vec(Value) held; /* what `known` points to */
    Vec(Tensor *) arrays; /* counted: all constants */
    Vec(Dim) symbols; /* extents with names, in the order of the metadata */
    Vec(const Name *) inputs;
    const OnnxCall *call; /* that is being read */
    Buf params;
    Buf names; /* what the model calls them: strings of a list */
    bool renamed; /* some of them */
    PtrMap origins; /* Name of a line's variable -> what the model calls its value */
    PtrMap scopes; /* Name of a module in the model -> how many nodes it has */
    Buf defs; /* functions beside the entry */
    Diag *refused; /* the one message that lists what could not be said */
    size_t refusals;
    Diag *differ; /* the one that lists types which are not what the model states */
    uint32_t numbers; /* of values so far */
    uint32_t depth; /* functions and graphs that are being read */
};

/* onnx_import.c */
const Name *import_name(OnnxImport *im, const char *name, const char *hint);
/* Attribute `values` for a function that says those lines: their variables, and what the model calls them where that differs; or nothing. */
const char *import_origins(OnnxImport *im, const char *lines);
/* Counts the nodes of each module, as far as names or metadata say modules. */
void import_scopes(OnnxImport *im, const Onnx__GraphProto *g);
OnnxValue *import_value(OnnxImport *im, const char *name);
OnnxValue *import_value_new(OnnxImport *im, const char *name);
const char *import_text(OnnxImport *im, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *import_type_text(OnnxImport *im, const Type *t);
void import_refuse(OnnxImport *im, const char *what);
/* Takes the tensor. */
void import_constant(OnnxImport *im, OnnxValue *v, Tensor *t);
/* The text of a constant for lines of the program, and the variable that stands for it while others are computed from it. */
const char *import_program_text(OnnxImport *im, OnnxValue *v);
const char *import_here_text(OnnxImport *im, OnnxValue *v);
/* A scalar as a literal; NULL: there is none of its type. */
const char *import_literal(OnnxImport *im, Value v);
/* What the line gives, under the name. */
bool import_line(OnnxNode *n, const char *text, const Name *name, OnnxValue *out);
void import_node(OnnxImport *im, const Onnx__NodeProto *proto);
/* What a graph holds besides its inputs and outputs. */
void import_graph_body(OnnxImport *im, const Onnx__GraphProto *g);
void import_push_block(OnnxImport *im, const OnnxNode *call, int64_t version);
OnnxBlock *import_pop_block(OnnxImport *im);
/* A model's type; NULL: `why` says why Relay has none such. */
const Type *import_type(OnnxImport *im, const Onnx__TypeProto *t, const char *name,
                        const char **why);
/* A variable that later lines may use; its text. */
const char *import_var(OnnxImport *im, const Name *name, const Type *type);
/* onnx_blocks.c: lines that repeat, and those of functions of the model, become functions in `defs`; the lines that are left. */
void import_outline(OnnxImport *im, OnnxLine **lines, size_t *n, const char *result);
/* onnx_extents.c: what is known of the integers that the node gives. */
void import_extents(OnnxNode *n);

#endif
