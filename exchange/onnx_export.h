/* A Relay program as an ONNX graph: what the rules of operators share. */
#ifndef EXCHANGE_ONNX_EXPORT_H
#define EXCHANGE_ONNX_EXPORT_H

#include "exchange/import.h"
#include "exchange/onnx_model.h"
#include "ir/op.h"

typedef struct Export Export;

/* What an expression means in the graph. */
typedef enum OutKind { OUT_TENSOR, OUT_TUPLE, OUT_FUNCTION } OutKind;
typedef struct OutValue OutValue;
struct OutValue {
    OutKind kind;
    const char *name; /* of a tensor */
    const Type *type; /* of a tensor */
    uint32_t n; /* fields of a tuple */
    OutValue **fields;
    const Function *fn;
    struct Frame *frame; /* that the function sees */
    const Var *self; /* what the function is called in itself; NULL: nothing */
};

/* A call of an operator. */
typedef struct OutCall {
    Export *x;
    const Call *call;
    const Op *op;
    uint32_t n;
    OutValue **in;
    const Type *out;
    bool refused;
} OutCall;

typedef struct ExportRule {
    const char *op;
    /* The result as nodes: `Add($0, Neg($1))`. `$0` is an argument, `$*` all, or the fields of the first; `#[1, 2]` and `#3` are int64, `~0.5` is
     * a number of the first one's type, `_` is left out. Attributes stand behind in braces: `{axis=1, mode="linear", perm=[1, 0], to=$dtype}`, where
     * `$` names one of the call. */
    const char *text;
    OutValue *(*rule)(OutCall *c); /* where a text does not suffice */
} ExportRule;

extern const ExportRule export_rules[]; /* ends with a NULL op */

/* The nodes of the text; with several results as a tuple. */
OutValue *out_say(OutCall *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
OutValue *out_say_several(OutCall *c, uint32_t n, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
OutValue *out_tuple(OutCall *c, uint32_t n, OutValue *const *fields);
const char *out_text(OutCall *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Notes why ONNX cannot say it. */
OutValue *out_refuse(OutCall *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Rank, extent (-1: known at run time only) and element type of an argument. */
int out_rank(OutCall *c, uint32_t i);
int64_t out_extent(OutCall *c, uint32_t i, int axis);
DType out_dtype(const OutCall *c, uint32_t i);
/* Attributes of the call; lists have at most `TENSOR_RANK_MOST * 2` integers. */
int64_t out_int(const OutCall *c, const char *key, int64_t none);
Str out_string(const OutCall *c, const char *key);
/* `[1, 2]` */
const char *out_list(OutCall *c, const int64_t *at, int n);

/* ExchangeTable.to_onnx. */
bool onnx_export(Ctx *cx, const Module *m, const ExportWish *wish, Buf *out);

#endif
