/* What the rules of ONNX operators share: a node, what is known of its inputs, and the lines that say it in Relay. */
#ifndef EXCHANGE_ONNX_H
#define EXCHANGE_ONNX_H

#include "exchange/import.h"
#include "exchange/onnx_model.h"

typedef struct OnnxImport OnnxImport;

/* A value of the graph. */
typedef struct OnnxValue {
    const char *name; /* in the model */
    uint32_t number; /* in the order in which the model names them */
    const char *
        text; /* in the program: a variable or a literal; NULL: a constant that no line names yet */
    const Type *type; /* NULL: what it comes from could not be said */
    Tensor *constant; /* NULL: known when the program runs */
    const char *
        here; /* of a constant: the variable that stands for it while lines are computed; NULL: none yet */
} OnnxValue;

typedef struct OnnxNode {
    OnnxImport *im;
    const Onnx__NodeProto *proto;
    const char *word; /* what the row gives to a rule that several share */
    int64_t version; /* of the operator set */
    bool constant; /* all inputs are, so the outputs are computed now */
    bool failed; /* a refusal was noted */
    uint32_t given; /* outputs so far */
} OnnxNode;

typedef struct OnnxRule {
    const char *op;
    /* The text of the one output; `$0` an input, `$*` all, `$t` the first one's element type, `$n{0.5}` a number of that type,
     * `$i{axis=1}`, `$f{…}`, `$b{…}`, `$s{…}` an attribute with its default as integer, float, flag and word, `$a{…}` as such a number. */
    const char *text;
    void (*rule)(OnnxNode *n); /* where a text does not suffice; it is given `text` as `word` */
} OnnxRule;

extern const OnnxRule onnx_rules[]; /* ends with a NULL op */

/* ---- what a rule asks ------------------------------------------------------------------------------------------------------- */

/* Asking for what is not there or not known notes a refusal, after which whatever the rule does is without effect. */

Limits *onnx_limits(OnnxNode *n);
bool onnx_has(const OnnxNode *n, size_t i);
/* The input in the program. */
const char *onnx_in(OnnxNode *n, size_t i);
int onnx_rank(OnnxNode *n, size_t i);
/* The extent of an axis, which may count from the end; -1: known at run time only. */
int64_t onnx_extent(OnnxNode *n, size_t i, int64_t axis);
/* The same where it must be known. */
int64_t onnx_known_extent(OnnxNode *n, size_t i, int64_t axis);
DType onnx_in_dtype(OnnxNode *n, size_t i);
/* The integers of an input that Relay takes as an attribute. */
#define ONNX_INTS_MOST 64
typedef struct OnnxInts {
    int64_t at[ONNX_INTS_MOST];
    int n; /* -1: absent */
} OnnxInts;
OnnxInts onnx_ints(OnnxNode *n, size_t i);
/* Element k of it. */
double onnx_number(OnnxNode *n, size_t i, int64_t k);

bool onnx_has_attr(const OnnxNode *n, const char *name);
int64_t onnx_attr_int(const OnnxNode *n, const char *name, int64_t otherwise);
double onnx_attr_float(const OnnxNode *n, const char *name, double otherwise);
const char *onnx_attr_text(OnnxNode *n, const char *name, const char *otherwise);
OnnxInts onnx_attr_ints(OnnxNode *n, const char *name);
const Onnx__TensorProto *onnx_attr_tensor(const OnnxNode *n, const char *name);

/* ---- what it says ----------------------------------------------------------------------------------------------------------- */

/* Text that lives as long as the import. */
const char *onnx_text(OnnxNode *n, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *onnx_list(OnnxNode *n, OnnxInts ints);
const char *onnx_bool(bool b);
/* A number as a literal of the element type. */
const char *onnx_literal(OnnxNode *n, double v, DType dtype);
/* An array of the rule's own as a parameter. Takes the tensor. */
const char *onnx_array(OnnxNode *n, Tensor *t, const char *hint);
/* A line for a part of the result. */
const char *onnx_let(OnnxNode *n, const char *text);
/* The next output. */
void onnx_give(OnnxNode *n, const char *text);
/* The array's only element as a literal. */
const char *onnx_tensor_literal(OnnxNode *n, const Onnx__TensorProto *t);
/* The next output is that array. Takes the tensor. */
void onnx_give_constant(OnnxNode *n, Tensor *t);
void onnx_give_tensor(OnnxNode *n, const Onnx__TensorProto *t);
/* The next output is the input itself. */
void onnx_give_input(OnnxNode *n, size_t i);
void onnx_refuse(OnnxNode *n, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
