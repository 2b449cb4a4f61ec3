/* Models of other frameworks as Relay programs. */
#ifndef EXCHANGE_IMPORT_H
#define EXCHANGE_IMPORT_H

#include "base/buf.h"
#include "interp/interp.h"

typedef struct ImportedArray {
    const char *name; /* of the parameter of the function */
    uint32_t number; /* orders them */
    Tensor *value; /* owned */
    const char *from; /* what the model calls it; NULL: the same */
} ImportedArray;

/* What became of the operators of one name. */
typedef struct ImportedOp {
    const char *name;
    uint32_t nodes, folded; /* all of them; computed during the import */
} ImportedOp;

typedef struct Imported {
    Arena arena;
    Buf text; /* the program */
    Vec(ImportedArray) arrays; /* its weights */
    Vec(ImportedOp) ops; /* by first use */
    uint32_t inputs; /* parameters that are no weights: the first ones */
    uint32_t compared; /* types that the model states and the program has too */
} Imported;

/* `--shape NAME=1,3,224,224`. */
typedef struct ImportShape {
    Str name;
    int rank;
    int64_t dims[TENSOR_RANK_MOST];
} ImportShape;

typedef struct ImportWish {
    const char *path;
    const char *entry; /* what the function is called; NULL: main */
    size_t n_shapes;
    const ImportShape *shapes;
    bool check; /* the types that the model states are compared with those of the program */
} ImportWish;

typedef struct ExportArray {
    const char *name; /* of the parameter */
    const Tensor *value; /* lent */
} ExportArray;

typedef struct ExportWish {
    const Name *entry;
    size_t n_arrays;
    const ExportArray *arrays; /* weights: the other parameters are inputs */
} ExportWish;

typedef struct ExchangeTable {
    /* An ONNX file. False after diagnostics, which list everything that Relay cannot say; `out` is the caller's either way. */
    bool (*onnx)(Ctx *cx, Interp *in, const ImportWish *wish, Imported *out);
    /* A typed module as an ONNX file. False after diagnostics, which list everything that ONNX cannot say. */
    bool (*to_onnx)(Ctx *cx, const Module *m, const ExportWish *wish, Buf *out);
} ExchangeTable;

/* The plug-in's entry. */
const ExchangeTable *relay_exchange_table(void);

#endif
