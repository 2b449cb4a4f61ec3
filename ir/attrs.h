/* Attributes of calls and functions, and the schema that an operator or a pass gives for its own. */
#ifndef IR_ATTRS_H
#define IR_ATTRS_H

#include "base/buf.h"
#include "base/diag.h"
#include "base/source.h"
#include "base/str.h"
#include "runtime/dtype.h"

typedef struct Expr Expr;
typedef struct Ctx Ctx;

typedef enum AttrKind {
    ATTR_NONE, /* None */
    ATTR_INT,
    ATTR_FLOAT,
    ATTR_BOOL,
    ATTR_STRING, /* also dtypes and layouts */
    ATTR_LIST, /* this and what follows may hold expressions */
    ATTR_EXPR, /* an expression: arange's start, stop, step; in a list, a name or a constant */
    ATTR_RECORD, /* an object of the metadata that has no other text: a device, a map */
    ATTR_TEXT, /* in such an object: what stands in the field itself, a number, a flag or a name */
} AttrKind;

typedef struct AttrValue AttrValue;
struct AttrValue {
    AttrKind kind;
    DType dtype; /* of a written int or float, when it is not int32 or float32; else void */
    union {
        int64_t i;
        double f;
        bool b;
        Str s;
        struct {
            const AttrValue *at;
            uint32_t n;
        } list;
        Expr *e;
        struct {
            const char *key; /* of the metadata: "VirtualDevice" */
            const struct Attrs *fields;
        } record;
    };
};

typedef struct Attr {
    const char *key;
    AttrValue value;
    Span span; /* of the value */
    Span key_span;
} Attr;

/* Of an operator's call: every field of its schema, in its order, with defaults filled in (operators without attributes have a NULL
 * Attrs). Of a function: what was written, in that order. */
typedef struct Attrs {
    uint32_t n;
    Attr at[];
} Attrs;

/* What a field of a schema accepts. */
typedef enum AttrType {
    ATTR_TYPE_INT,
    ATTR_TYPE_BOOL,
    ATTR_TYPE_FLOAT, /* ints are taken too */
    ATTR_TYPE_STRING,
    ATTR_TYPE_DTYPE, /* a string that names a dtype, or "" */
    ATTR_TYPE_INTS, /* list of ints */
    ATTR_TYPE_INT_OR_INTS,
    ATTR_TYPE_INT_LISTS, /* list of lists of ints */
    ATTR_TYPE_FLOATS,
    ATTR_TYPE_EXPR,
    ATTR_TYPE_INTS_OR_EXPR, /* a list of ints, or a constant that holds them */
    ATTR_TYPE_DEVICE, /* a string, "cpu:0", or a VirtualDevice of the metadata */
    ATTR_TYPE_ANY, /* what passes of the original note: kept as it is */
    ATTR_TYPE_DICT, /* parameters of passes only: {key: value}; a list of alternating keys and values */
    ATTR_TYPE_STRINGS, /* list of strings */
    ATTR_TYPE_STRING_LISTS, /* parameters of passes only: list of lists of strings */
} AttrType;

/* What the strings of a field, or the keys of a dictionary, name. */
typedef enum AttrNames {
    ATTR_NAMES_NOTHING,
    ATTR_NAMES_FUNCTIONS, /* of the program, without `@` */
    ATTR_NAMES_PARAMETERS, /* of its functions, without `%` */
    ATTR_NAMES_OPERATORS,
    ATTR_NAMES_DEVICES, /* "cuda:0" */
    ATTR_NAMES_DEVICE_KINDS, /* "cuda" */
} AttrNames;

typedef struct OpAttr {
    const char *name;
    AttrType type;
    bool required; /* no default: must be written, is always printed */
    bool or_none; /* takes None as well */
    bool shown; /* printed even with its default, which not every release has */
    AttrValue otherwise; /* the default */
    const char *doc;
    const char *const *one_of; /* the strings that it may be, NULL behind them; NULL: any */
    AttrNames names; /* what must be there where it is written: parameters of passes only */
    int64_t least, most; /* of an integer; both 0: any */
} OpAttr; /* a table of them ends with a NULL name */

/* What the field takes, in words: "a list of integers". */
const char *attr_type_words(const OpAttr *schema);

#define ATTR_DEFAULT_INT(v) {.kind = ATTR_INT, .i = (v)}
#define ATTR_DEFAULT_BOOL(v) {.kind = ATTR_BOOL, .b = (v)}
#define ATTR_DEFAULT_FLOAT(v) {.kind = ATTR_FLOAT, .f = (v)}
#define ATTR_DEFAULT_STRING(v) {.kind = ATTR_STRING, .s = {(v), sizeof(v) - 1}}
#define ATTR_DEFAULT_NONE {.kind = ATTR_NONE}
/* A list of n AttrValues in a static array: ATTR_DEFAULT_LIST(ones2). */
#define ATTR_DEFAULT_LIST(array)                                               \
    {                                                                          \
        .kind = ATTR_LIST, .list = {(array), sizeof(array) / sizeof *(array) } \
    }

/* The attribute of that name; NULL when absent. */
const AttrValue *attrs_find(const Attrs *a, const char *key);
/* The same with its places, looked for at `first` first: two records mostly have one order. */
const Attr *attrs_get(const Attrs *a, const char *key, uint32_t first);
/* By contract present and of that kind; a None gives the last argument. */
int64_t attrs_int(const Attrs *a, const char *key, int64_t none);
bool attrs_bool(const Attrs *a, const char *key);
double attrs_float(const Attrs *a, const char *key);
Str attrs_string(const Attrs *a, const char *key);
DType attrs_dtype(const Attrs *a, const char *key); /* void for "" */
/* The ints of a list (a lone int counts as a list of one): how many, copied to `out` up to `most`; -1 for None. */
int attrs_ints(const Attrs *a, const char *key, int64_t *out, int most);

/* What a release before 0.9 calls the operator's attribute; NULL: it had that name, or none. */
const char *attrs_earlier(const char *owner, const char *now);
/* Whether a call of the operator has to write some. */
bool attrs_are_needed(const char *op, const OpAttr *schema);
/* The record in the schema's order with defaults, made in `arena` from what was written in any order (NULL: nothing); reports unknown,
 * missing and wrong ones. `op` names the operator or pass in messages; `span` is the call's. NULL after a diagnostic, and for a NULL
 * schema with nothing written (then nothing was reported). A key `attrs_type_key` is accepted and dropped. */
const Attrs *attrs_check(Ctx *cx, Arena *arena, const char *op, const OpAttr *schema,
                         const Attrs *written, Span span);
/* The same where more was written that could not be read: nothing is said to be missing. */
const Attrs *attrs_check_some(Ctx *cx, Arena *arena, const char *op, const OpAttr *schema,
                              const Attrs *written, Span span);
/* attrs_check for a pass, whose attributes are called parameters. */
const Attrs *attrs_check_params(Ctx *cx, Arena *arena, const char *pass, const OpAttr *schema,
                                const Attrs *written, Span span);
/* A copy with one value replaced (or, for functions, added). */
const Attrs *attrs_with(Arena *arena, const Attrs *a, const char *key, AttrValue value);
/* A copy that shares nothing with the attributes but the keys. NULL when a value is an expression, which cannot be copied so. */
const Attrs *attrs_copy(Arena *arena, const Attrs *a);
/* Calls `found` with each expression that is a value or stands in a list, in order. Records are data of their own. */
void attrs_exprs(const Attrs *a, void (*found)(void *data, Expr *e), void *data);
void attr_value_exprs(const AttrValue *v, void (*found)(void *data, Expr *e), void *data);
bool attrs_equal(const Attrs *a, const Attrs *b);
bool attr_value_equal(const AttrValue *a, const AttrValue *b);

#endif
