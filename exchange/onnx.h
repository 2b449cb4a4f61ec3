/* What the rules of ONNX operators share: a node, what is known of its inputs, and the lines that say it in Relay. */
#ifndef EXCHANGE_ONNX_H
#define EXCHANGE_ONNX_H

#include "exchange/import.h"
#include "exchange/onnx_model.h"

typedef struct OnnxImport OnnxImport;
typedef struct OnnxBlock OnnxBlock;

/* A value of the graph. */
typedef struct OnnxValue {
    const char *name; /* in the model */
    uint32_t number; /* in the order in which the model names them */
    const char *
        text; /* in the program: a variable or a literal; NULL: a constant that no line names yet */
    const Type *type; /* NULL: what it comes from could not be said, or it is open */
    bool open; /* `Nil`, `None`: what is put in later says the type */
    Tensor *constant; /* NULL: known when the program runs */
    uint8_t bits; /* of integers that have less than 8, which their type has; 0: as the type */
    const Dim *extents; /* of integers in a row, or one: what each is; NULL: not known */
    uint32_t n_extents;
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
    bool large; /* what would be computed now is too large: lines are to say it */
    uint32_t given; /* outputs so far */
} OnnxNode;

typedef struct OnnxRule {
    const char *op;
    /* The text of the outputs, ` | ` between them; lines `let %a = …;` may stand in front. `$0` is an input, `$*` all, `$t` the first one's
     * element type and `$t1` the second's, `$T` that of the attribute `to` or `dtype`, `$n{0.5}` a number of the first one's type,
     * `$i{axis=1}`, `$f{…}`, `$b{…}`, `$s{…}` an attribute with its default as integer, float, flag and word, `$a{…}` as such a number, `$l{…}` as list,
     * `$d{1}` an extent of the first input. */
    const char *text;
    void (*rule)(OnnxNode *n); /* where a text does not suffice; it is given `text` as `word` */
} OnnxRule;

extern const OnnxRule onnx_rules[]; /* ends with a NULL op */

#define TEXT(op, text)
#define RULE(op, rule) void rule(OnnxNode *n);
#define RULE_OF(op, rule, word) void rule(OnnxNode *n);
#include "exchange/onnx_rules.def"
#undef TEXT
#undef RULE
#undef RULE_OF

/* ---- what a rule asks ------------------------------------------------------------------------------------------------------- */

/* Asking for what is not there or not known notes a refusal, after which whatever the rule does is without effect. */

Ctx *onnx_ctx(OnnxNode *n);
Limits *onnx_limits(OnnxNode *n);
bool onnx_has(const OnnxNode *n, size_t i);
/* The input; NULL after a refusal. */
OnnxValue *onnx_value(OnnxNode *n, size_t i);
/* The input in the program. */
const char *onnx_in(OnnxNode *n, size_t i);
/* The same as a scalar, and of an element type. */
const char *onnx_scalar(OnnxNode *n, size_t i);
const char *onnx_scalar_as(OnnxNode *n, size_t i, DType dtype);
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
/* Whether they are known now, or there are none. */
bool onnx_is_known(OnnxNode *n, size_t i);
/* Element k of it. */
double onnx_number(OnnxNode *n, size_t i, int64_t k);
/* The first element, as an integer that fits when others of its size are added: what is beyond 2^40 is 2^40. */
long long onnx_integer(OnnxNode *n, size_t i);
/* What is known of the element of a row of integers: a number, a symbolic extent, or DIM_ANY. */
Dim onnx_element(const OnnxValue *v, uint32_t k);

bool onnx_has_attr(const OnnxNode *n, const char *name);
int64_t onnx_attr_int(const OnnxNode *n, const char *name, int64_t otherwise);
/* The same as an axis of so many. */
int64_t onnx_attr_axis(OnnxNode *n, const char *name, int64_t otherwise, int rank);
double onnx_attr_float(const OnnxNode *n, const char *name, double otherwise);
const char *onnx_attr_text(OnnxNode *n, const char *name, const char *otherwise);
OnnxInts onnx_attr_ints(OnnxNode *n, const char *name);
const Onnx__AttributeProto *onnx_attr(const OnnxNode *n, const char *name);

/* ---- what it says ----------------------------------------------------------------------------------------------------------- */

/* Text that lives as long as the import. */
const char *onnx_text(OnnxNode *n, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *onnx_list(OnnxNode *n, OnnxInts ints);
const char *onnx_bool(bool b);
const char *onnx_dtype_text(OnnxNode *n, DType dtype);
/* A type as it stands in the program. */
const char *onnx_type_text(OnnxNode *n, const Type *t);
/* A number as a literal of the element type. */
const char *onnx_literal(OnnxNode *n, double v, DType dtype);
/* An array of the rule's own as a parameter. Takes the tensor. */
const char *onnx_array(OnnxNode *n, Tensor *t, const char *hint);
/* A line for a part of the result, and the type of what it gives. */
const char *onnx_let(OnnxNode *n, const char *text);
const char *onnx_step(OnnxNode *n, const char *format, ...) __attribute__((format(printf, 2, 3)));
const Type *onnx_type_of(OnnxNode *n, const char *variable);
/* A name that nothing has yet, and the line that gives it a value: for a function that calls itself. */
const char *onnx_name(OnnxNode *n, const char *hint);
void onnx_define(OnnxNode *n, const char *name, const char *text);
/* The next output. */
void onnx_give(OnnxNode *n, const char *text);
/* The outputs, from the text of a row. */
void onnx_recipe(OnnxNode *n, const char *text);
/* The array's only element as a literal. */
const char *onnx_tensor_literal(OnnxNode *n, const Onnx__TensorProto *t);
/* The next output is that array. Takes the tensor. */
void onnx_give_constant(OnnxNode *n, Tensor *t);
void onnx_give_tensor(OnnxNode *n, const Onnx__TensorProto *t);
/* The next output is the input itself, another value, or one whose type is open. */
void onnx_give_input(OnnxNode *n, size_t i);
void onnx_give_value(OnnxNode *n, const OnnxValue *v);
void onnx_give_open(OnnxNode *n, const char *text);
/* Nobody wants the next output, or the program has no use for it. */
bool onnx_wants(const OnnxNode *n, size_t output);
/* What is known of the integers that output i holds. */
void onnx_know(OnnxNode *n, size_t i, uint32_t count, const Dim *extents);
/* Output i holds integers of so many bits. */
void onnx_narrow(OnnxNode *n, size_t i, int bits);
void onnx_refuse(OnnxNode *n, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- graphs in nodes -------------------------------------------------------------------------------------------------------- */

/* From here on lines go into a block of their own, in which the names of the blocks around mean what they mean there. */
OnnxBlock *onnx_block_begin(OnnxNode *n);
/* A name of the block means the value; a parameter of the function that the block is. */
void onnx_block_bind(OnnxNode *n, const char *name, OnnxValue value);
const char *onnx_param(OnnxNode *n, const char *hint, const Type *type);
/* Reads arrays and nodes of a graph. False after a refusal. */
bool onnx_block_graph(OnnxNode *n, const Onnx__GraphProto *g);
/* What the name means; NULL after a refusal. A constant has a text then. */
OnnxValue *onnx_block_result(OnnxNode *n, const char *name);
/* Its end: `lines… result`; its lines go to the block around it; or nothing remains of it, not even names. */
const char *onnx_block_end(OnnxNode *n, const char *result);
void onnx_block_splice(OnnxNode *n);
void onnx_block_drop(OnnxNode *n);
/* A function that calls itself at the end of each turn, and what it gives behind the last: the states, as a tuple where there are several.
 * Between begin and end lines compute what `next` says. */
typedef struct OnnxState {
    const char *first, *param, *next; /* before begin `param` is what it is to be called */
    const Type *type;
} OnnxState;
#define ONNX_STATES_MOST 192
typedef struct OnnxFold {
    const char *hint;
    const char *count; /* of turns; NULL: `keep` alone says when they end */
    const char *index; /* of the turn: int64 */
    OnnxState keep; /* whether there is another turn; without a `param`: the count says it */
    size_t n;
    OnnxState states[ONNX_STATES_MOST];
} OnnxFold;
void onnx_fold_begin(OnnxNode *n, OnnxFold *f);
const char *onnx_fold_end(OnnxNode *n, OnnxFold *f);
/* The part of the type that both are, with `?` for extents that differ; NULL: none. */
const Type *onnx_join(OnnxNode *n, const Type *a, const Type *b);
/* The program may use lists and options. */
void onnx_need_prelude(OnnxNode *n);

#endif
