/* Programs as ONNX models: the entry is walked as it would be evaluated, with functions put in place of their calls, `if` as `If`, and a function
 * that calls itself at its end as `Loop`. Everything that ONNX cannot say is listed first; then nothing is written. */
#include "exchange/onnx_export.h"

#include "base/memory.h"
#include "exchange/onnx.h"
#include "ir/module.h"
#include "ir/print.h"
#include "ir/walk.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPSET 21
#define IR_VERSION 10
#define REFUSALS_MOST 60
/* Calls in calls, and bodies in bodies. */
#define DEPTH_MOST 200
#define NODES_MOST 1000000

/* What variables mean in a function that is being walked. */
typedef struct Frame Frame;
struct Frame {
    Frame *outer;
    PtrMap values; /* Expr -> OutValue: variables, and nodes that were said */
};

/* A graph that is being made. */
typedef struct OutGraph {
    struct OutGraph *outer;
    Vec(Onnx__NodeProto *) nodes;
} OutGraph;

struct Export {
    Ctx *cx;
    const Module *m;
    const ExportWish *wish;
    Arena arena;
    OutGraph *graph;
    Vec(Onnx__TensorProto *) arrays;
    Vec(Frame *) frames; /* all of them */
    PtrMap taken; /* names */
    PtrMap inverse; /* Name of an operator -> the row of the importer that is turned round */
    PtrMap open; /* functions that are being walked */
    PtrMap said; /* refusals, as names */
    PtrMap nothings; /* Type of tuples -> what stands for values of it that were refused */
    Diag *refused;
    uint32_t depth;
    size_t n_nodes;
    bool stuck; /* there is no end to it: nothing more is said */
};

/* ---- refusals and names ------------------------------------------------------------------------------------------------------ */

static const char *text_of(Export *x, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static const char *text_of(Export *x, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = buf_vkeep(&x->arena, format, args);
    va_end(args);
    return text;
}

static void refuse(Export *x, const char *what)
{
    const Name *key = ctx_name(x->cx, what);
    if (ptrmap_has(&x->said, key))
        return;
    ptrmap_put(&x->said, key, x);
    if (!x->refused)
        x->refused = diag_error(x->cx->diags, E0406_IMPORT, (Span){0},
                                "`@%s` says what ONNX cannot say", x->wish->entry->text);
    if (x->said.n <= REFUSALS_MOST)
        diag_note(x->refused, "%s", what);
}

static OutValue *tensor_value(Export *x, const char *name, const Type *type)
{
    OutValue *v = arena_new(&x->arena, OutValue);
    *v = (OutValue){.kind = OUT_TENSOR, .name = name, .type = type};
    return v;
}

static OutValue *tuple_value(Export *x, uint32_t n, OutValue **fields)
{
    OutValue *v = arena_new(&x->arena, OutValue);
    *v = (OutValue){.kind = OUT_TUPLE, .n = n, .fields = fields};
    return v;
}

/* In place of what was refused: the walk goes on with its type. */
static OutValue *nothing(Export *x, const Type *t)
{
    t = t ? type_find(t) : NULL;
    if (!t || t->kind != TYPE_TUPLE)
        return tensor_value(x, "", t);
    if (ptrmap_has(&x->nothings, t))
        return ptrmap_find(&x->nothings, t);
    OutValue **fields = arena_new_array(&x->arena, OutValue *, t->n + 1);
    for (uint32_t i = 0; i < t->n; i++)
        fields[i] = nothing(x, t->parts[i]);
    OutValue *made = tuple_value(x, t->n, fields);
    ptrmap_put(&x->nothings, t, made);
    return made;
}

static const char *fresh(Export *x, const char *hint)
{
    const Name *name = ctx_name(x->cx, hint);
    for (unsigned k = 1; ptrmap_has(&x->taken, name); k++)
        name = ctx_name(x->cx, text_of(x, "%s_%u", hint, k));
    ptrmap_put(&x->taken, name, x);
    return name->text;
}

OutValue *out_refuse(OutCall *c, const char *format, ...)
{
    if (!c->refused) {
        va_list args;
        va_start(args, format);
        const char *why = buf_vkeep(&c->x->arena, format, args);
        va_end(args);
        refuse(c->x, text_of(c->x, "`%s`: %s", c->op->name, why));
    }
    c->refused = true;
    return nothing(c->x, c->out);
}

/* ---- arrays and types --------------------------------------------------------------------------------------------------------- */

/* The elements are lent. */
static const char *add_array(Export *x, const char *hint, const TensorView *v)
{
    Onnx__TensorProto *t = arena_new(&x->arena, Onnx__TensorProto);
    onnx__tensor_proto__init(t);
    t->name = (char *)fresh(x, hint);
    t->has_data_type = true;
    t->data_type = onnx_dtype_number(v->t.dtype);
    t->n_dims = (size_t)v->t.rank;
    t->dims = arena_copy(&x->arena, v->t.shape, (size_t)v->t.rank * sizeof *t->dims);
    t->has_raw_data = true;
    t->raw_data.len = (size_t)v->t.size * dtype_size(v->t.dtype);
    t->raw_data.data = (uint8_t *)v->t.data;
    if (v->t.rank == 0) /* may lie in the view itself */
        t->raw_data.data = arena_copy(&x->arena, v->t.data, t->raw_data.len);
    if (t->data_type == 0)
        refuse(x, text_of(x, "the array `%s`: ONNX has not its element type", hint));
    vec_push(&x->arrays, &x->arena, t);
    return t->name;
}

static const char *add_numbers(Export *x, const char *hint, const int64_t *at, int n, bool row)
{
    Tensor t = {.dtype = dtype_of(DT_INT64), .rank = row, .size = n, .shape = &(int64_t){n}};
    t.data = arena_copy(&x->arena, at, (size_t)n * sizeof *at);
    return add_array(x, hint, &(TensorView){.t = t});
}

static Onnx__TypeProto *type_proto(Export *x, const Type *t)
{
    Onnx__TypeProto *out = arena_new(&x->arena, Onnx__TypeProto);
    Onnx__TypeProto__Tensor *tensor = arena_new(&x->arena, Onnx__TypeProto__Tensor);
    Onnx__TensorShapeProto *shape = arena_new(&x->arena, Onnx__TensorShapeProto);
    onnx__type_proto__init(out);
    onnx__type_proto__tensor__init(tensor);
    onnx__tensor_shape_proto__init(shape);
    out->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    out->tensor_type = tensor;
    tensor->has_elem_type = true;
    tensor->elem_type = onnx_dtype_number(t->dtype);
    tensor->shape = shape;
    shape->n_dim = t->n;
    shape->dim = arena_new_array(&x->arena, Onnx__TensorShapeProto__Dimension *, t->n + 1);
    for (uint32_t i = 0; i < t->n; i++) {
        Onnx__TensorShapeProto__Dimension *d =
            arena_new(&x->arena, Onnx__TensorShapeProto__Dimension);
        onnx__tensor_shape_proto__dimension__init(d);
        const DimSymbol *symbol =
            t->dims[i] < 0 && t->dims[i] != DIM_ANY ? dim_symbol_get(x->cx, t->dims[i]) : NULL;
        if (t->dims[i] >= 0) {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            d->dim_value = t->dims[i];
        } else if (symbol && symbol->name) {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            d->dim_param = (char *)symbol->name->text;
        }
        shape->dim[i] = d;
    }
    if (tensor->elem_type == 0)
        refuse(x, text_of(x, "ONNX has no element type as in `%s`", type_str(x->cx, t)));
    return out;
}

static Onnx__ValueInfoProto *value_info(Export *x, const char *name, const Type *type)
{
    Onnx__ValueInfoProto *v = arena_new(&x->arena, Onnx__ValueInfoProto);
    onnx__value_info_proto__init(v);
    v->name = (char *)name;
    type = type ? type_find(type) : NULL;
    if (type && type->kind == TYPE_TENSOR)
        v->type = type_proto(x, type);
    else
        refuse(x, text_of(x, "`%s` is no tensor: `%s`", name,
                          type ? type_str(x->cx, type) : "of no known type"));
    return v;
}

/* ---- nodes -------------------------------------------------------------------------------------------------------------------- */

static Onnx__NodeProto *add_node(Export *x, const char *op, size_t n, char **inputs)
{
    Onnx__NodeProto *node = arena_new(&x->arena, Onnx__NodeProto);
    onnx__node_proto__init(node);
    node->op_type = (char *)op;
    node->n_input = n;
    node->input = inputs;
    vec_push(&x->graph->nodes, &x->arena, node);
    if (++x->n_nodes == NODES_MOST) {
        refuse(x, text_of(x, "more than %d nodes", NODES_MOST));
        x->stuck = true;
    }
    return node;
}

static void name_outputs(Export *x, Onnx__NodeProto *node, uint32_t n, const char *hint)
{
    node->n_output = n;
    node->output = arena_new_array(&x->arena, char *, n + 1);
    for (uint32_t i = 0; i < n; i++)
        node->output[i] = (char *)fresh(x, hint);
}

static Onnx__AttributeProto *add_attr(Export *x, Onnx__NodeProto *node, const char *name)
{
    enum { ATTRS_MOST = 16 };
    Onnx__AttributeProto *a = arena_new(&x->arena, Onnx__AttributeProto);
    onnx__attribute_proto__init(a);
    a->name = (char *)name;
    a->has_type = true;
    if (!node->attribute)
        node->attribute = arena_new_array(&x->arena, Onnx__AttributeProto *, ATTRS_MOST);
    if (node->n_attribute < ATTRS_MOST)
        node->attribute[node->n_attribute++] = a;
    return a;
}

static void set_int(Onnx__AttributeProto *a, int64_t v)
{
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    a->has_i = true;
    a->i = v;
}

static void set_float(Onnx__AttributeProto *a, double v)
{
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
    a->has_f = true;
    a->f = (float)v;
}

static void set_string(Export *x, Onnx__AttributeProto *a, Str s)
{
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
    a->has_s = true;
    a->s = (ProtobufCBinaryData){s.len, (uint8_t *)arena_copy_text(&x->arena, s.ptr, s.len)};
}

static void set_graph(Onnx__AttributeProto *a, Onnx__GraphProto *g)
{
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH;
    a->g = g;
}

/* An attribute of the call; of a list its integers. */
static void set_value(OutCall *c, Onnx__AttributeProto *a, const AttrValue *v)
{
    if (v && v->kind == ATTR_INT)
        set_int(a, v->i);
    else if (v && v->kind == ATTR_BOOL)
        set_int(a, v->b);
    else if (v && v->kind == ATTR_FLOAT)
        set_float(a, v->f);
    else if (v && v->kind == ATTR_STRING) {
        const Type *out = c->out ? type_find(c->out) : NULL;
        DType t;
        if (dtype_parse(v->s, &t) && dtype_size(t) > 0)
            set_int(a, onnx_dtype_number(t));
        else if (!strcmp(a->name, "to") && out && out->kind == TYPE_TENSOR) /* the usual one */
            set_int(a, onnx_dtype_number(out->dtype));
        else
            set_string(c->x, a, v->s);
    } else if (v && v->kind == ATTR_LIST) {
        a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
        a->ints = arena_new_array(&c->x->arena, int64_t, v->list.n + 1);
        for (uint32_t i = 0; i < v->list.n; i++)
            if (v->list.at[i].kind == ATTR_INT)
                a->ints[a->n_ints++] = v->list.at[i].i;
    } else {
        out_refuse(c, "the attribute `%s` has no value", a->name);
    }
}

/* ---- texts -------------------------------------------------------------------------------------------------------------------- */

typedef struct Reader {
    OutCall *c;
    const char *p;
} Reader;

static bool eat(Reader *r, const char *what)
{
    while (*r->p == ' ')
        r->p++;
    size_t n = strlen(what);
    if (strncmp(r->p, what, n) != 0)
        return false;
    r->p += n;
    return true;
}

static const char *eat_word(Reader *r)
{
    const char *from = r->p;
    while (isalnum((unsigned char)*r->p) || *r->p == '_')
        r->p++;
    return text_of(r->c->x, "%.*s", (int)(r->p - from), from);
}

static int eat_ints(Reader *r, int64_t *to, int most)
{
    int n = 0;
    while (!eat(r, "]")) {
        char *end;
        long long v = strtoll(r->p, &end, 10);
        if (end == r->p || n == most) {
            out_refuse(r->c, "a list that is too long");
            return n;
        }
        to[n++] = v;
        r->p = end;
        eat(r, ",");
    }
    return n;
}

#define INTS_MOST (2 * TENSOR_RANK_MOST + 64)

static void read_attr(Reader *r, Onnx__NodeProto *node)
{
    Export *x = r->c->x;
    Onnx__AttributeProto *a = add_attr(x, node, eat_word(r));
    eat(r, "=");
    if (eat(r, "$")) {
        set_value(r->c, a, attrs_find(r->c->call->attrs, eat_word(r)));
    } else if (eat(r, "[")) {
        int64_t ints[INTS_MOST];
        int n = eat_ints(r, ints, INTS_MOST);
        a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
        a->n_ints = (size_t)n;
        a->ints = arena_copy(&x->arena, ints, (size_t)n * sizeof *ints);
    } else if (eat(r, "\"")) {
        const char *end = strchr(r->p, '"');
        set_string(x, a, (Str){r->p, (size_t)(end - r->p)});
        r->p = end + 1;
    } else {
        char *end;
        const char *from = r->p;
        double v = strtod(from, &end);
        bool real = false;
        for (const char *p = from; p < end; p++)
            real |= *p == '.' || *p == 'e' || *p == 'n';
        if (real)
            set_float(a, v);
        else
            set_int(a, strtoll(from, NULL, 10));
        r->p = end;
    }
    eat(r, ",");
}

static const char *number_of(OutCall *c, double v)
{
    Value value = value_scalar_double(out_dtype(c, 0), v);
    TensorView view;
    return value_view(&value, &view) ? add_array(c->x, "number", &view) : "";
}

static const char *read_value(Reader *r);

/* `Name(arguments){attributes}` with so many outputs. */
static Onnx__NodeProto *read_node(Reader *r, uint32_t outputs, const char *hint)
{
    OutCall *c = r->c;
    enum { INPUTS_MOST = 4096 };
    Vec(char *) inputs = {0};
    const char *op = eat_word(r);
    eat(r, "(");
    while (!eat(r, ")") && *r->p && !c->refused) {
        if (eat(r, "$*")) {
            bool tuple = c->n == 1 && c->in[0]->kind == OUT_TUPLE;
            for (uint32_t i = 0; i < (tuple ? c->in[0]->n : c->n); i++)
                vec_push(&inputs, &c->x->arena,
                         (char *)(tuple ? c->in[0]->fields[i] : c->in[i])->name);
        } else {
            const char *v = read_value(r);
            vec_push(&inputs, &c->x->arena, (char *)v);
        }
        eat(r, ",");
    }
    if (inputs.n > INPUTS_MOST)
        out_refuse(c, "%zu inputs", inputs.n);
    Onnx__NodeProto *node = add_node(c->x, op, inputs.n, inputs.at);
    if (eat(r, "{"))
        while (!eat(r, "}") && *r->p)
            read_attr(r, node);
    name_outputs(c->x, node, outputs, hint ? hint : op);
    return node;
}

static const char *read_value(Reader *r)
{
    OutCall *c = r->c;
    if (eat(r, "$")) {
        unsigned i = (unsigned)(*r->p++ - '0');
        if (i < c->n && c->in[i]->kind == OUT_TENSOR)
            return c->in[i]->name;
        out_refuse(c, "argument %u is no tensor", i + 1);
        return "";
    }
    if (eat(r, "_"))
        return "";
    if (eat(r, "#[")) {
        int64_t ints[INTS_MOST];
        int n = eat_ints(r, ints, INTS_MOST);
        return add_numbers(c->x, "ints", ints, n, true);
    }
    char *end;
    if (eat(r, "#")) {
        int64_t v = strtoll(r->p, &end, 10);
        r->p = end;
        return add_numbers(c->x, "int", &v, 1, false);
    }
    if (eat(r, "~")) {
        double v = strtod(r->p, &end);
        r->p = end;
        return number_of(c, v);
    }
    return read_node(r, 1, NULL)->output[0];
}

/* ---- element types that operators do not take ---------------------------------------------------------------------------------- */

/* Of what an operator takes, where it is not everything: half, bfloat16, other floats, integers of 32 and 64 bits, unsigned ones, int16,
 * uint16, int8, uint8. */
enum { H = 1, B = 2, F = 4, I = 8, U = 16, S = 32, US = 64, C = 128, UC = 256, O = 512 };
#define NUMBERS (H | B | F | I | U | S | US | C | UC)

static const struct TakenRow {
    const char *ops;
    int types;
} taken_rows[] = {
    {" Acos Acosh Asin Asinh Atan Atanh Cos Cosh Sin Sinh Tan Round Elu Selu HardSigmoid HardSwish "
     "Softplus Softsign ThresholdedRelu Mish AveragePool GlobalAveragePool GlobalMaxPool Conv "
     "ConvTranspose InstanceNormalization GridSample LpNormalization Celu Det "
     "NegativeLogLikelihoodLoss ",
     H | F},
    {" Ceil Floor Exp Log Sqrt Sigmoid Tanh Reciprocal Softmax LogSoftmax LayerNormalization "
     "BatchNormalization GroupNormalization LRN IsNaN IsInf LeakyRelu Gelu ",
     H | B | F},
    {" MaxPool ", H | F | C | UC},
    {" Relu Neg ", H | B | F | I | S | C},
    {" PRelu MatMul Gemm ReduceSum ReduceMean ReduceProd ReduceL1 ReduceL2 ReduceSumSquare "
     "ReduceLogSum ReduceLogSumExp CumSum ",
     H | B | F | I | U},
    {" ReduceMax ReduceMin ", H | B | F | I | U | C | UC | O},
    {" BitwiseAnd BitwiseOr BitwiseXor BitShift ", I | U | S | US | C | UC},
    {" Pow ", H | B | F | I},
    {" TopK Einsum ", NUMBERS & ~B},
    {" ReverseSequence ", (NUMBERS & ~B) | O},
    {" Add Sub Mul Div Mod Max Min Abs Sign Erf Clip ArgMax ArgMin Greater Less GreaterOrEqual "
     "LessOrEqual ",
     NUMBERS},
};

static int type_bit(DType t)
{
    static const struct {
        DTypeId id;
        int bit;
    } bits[] = {
        {DT_FLOAT16, H}, {DT_BFLOAT16, B}, {DT_FLOAT32, F}, {DT_FLOAT64, F}, {DT_INT32, I},
        {DT_INT64, I},   {DT_UINT32, U},   {DT_UINT64, U},  {DT_INT16, S},   {DT_UINT16, US},
        {DT_INT8, C},    {DT_UINT8, UC},   {DT_BOOL, O},
    };
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
        if (dtype_eq(t, dtype_of(bits[i].id)))
            return bits[i].bit;
    return 0;
}

/* What the operator of a name takes. */
static int taken_by(const char *op, size_t n)
{
    for (size_t i = 0; i < sizeof taken_rows / sizeof *taken_rows; i++)
        for (const char *p = taken_rows[i].ops; (p = strchr(p, ' ')) && p[1]; p++)
            if (!strncmp(p + 1, op, n) && p[1 + n] == ' ')
                return taken_rows[i].types;
    return -1;
}

/* What all operators of the text take. */
static int taken_by_all(const char *text)
{
    int all = -1;
    for (const char *p = text; *p; p++) {
        size_t n = strspn(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
        if (n > 0 && p[n] == '(')
            all &= taken_by(p, n);
        p += n > 0 ? n - 1 : 0;
    }
    return all;
}

static OutValue *say(OutCall *c, uint32_t several, const char *text);

static OutValue *cast_to(OutCall *c, OutValue *v, const Type *t)
{
    OutCall one = *c;
    one.n = 1;
    one.in = arena_new(&c->x->arena, OutValue *);
    one.in[0] = v;
    one.out = t;
    return say(&one, 0, text_of(c->x, "Cast($0){to=%d}", onnx_dtype_number(t->dtype)));
}

static const Type *type_with(OutCall *c, const Type *t, DType dtype)
{
    return type_tensor(c->x->cx, dtype, t->n, t->dims);
}

static OutValue *not_for(OutCall *c, DType dtype)
{
    Buf name = {0};
    dtype_print(&name, dtype);
    return out_refuse(c, "it is for no %s there", buf_keep(&name, &c->x->arena));
}

/* In a type that is taken, and the result in its own again. */
static OutValue *say_wide(OutCall *c, const char *text, DType narrow, int taken)
{
    bool whole = !dtype_is_float(narrow);
    DType wide = dtype_of(!whole                                  ? DT_FLOAT32
                          : dtype_eq(narrow, dtype_of(DT_UINT32)) ? DT_INT64
                                                                  : DT_INT32);
    if (!(taken & (whole ? I : F)) || dtype_eq(narrow, wide) ||
        dtype_size(narrow) > dtype_size(wide) || dtype_eq(narrow, dtype_of(DT_INT64)))
        return not_for(c, narrow);
    OutCall of = *c;
    of.in = arena_new_array(&c->x->arena, OutValue *, c->n + 1);
    for (uint32_t i = 0; i < c->n; i++) {
        const Type *t = c->in[i]->kind == OUT_TENSOR ? type_find(c->in[i]->type) : NULL;
        bool turned = t && t->kind == TYPE_TENSOR && dtype_eq(t->dtype, narrow);
        of.in[i] = turned ? cast_to(c, c->in[i], type_with(c, t, wide)) : c->in[i];
    }
    const Type *t = c->out ? type_find(c->out) : NULL;
    bool turned = t && t->kind == TYPE_TENSOR && dtype_eq(t->dtype, narrow);
    of.out = turned ? type_with(c, t, wide) : t;
    OutValue *v = say(&of, 0, text);
    c->refused |= of.refused;
    return turned && !c->refused ? cast_to(c, v, t) : v;
}

static OutValue *say(OutCall *c, uint32_t several, const char *text)
{
    Reader r = {c, text};
    DType given = out_dtype(c, 0);
    int taken = c->n > 0 && c->in[0]->kind == OUT_TENSOR ? taken_by_all(text) : -1;
    if (taken != -1 && !(taken & type_bit(given)))
        return several ? not_for(c, given) : say_wide(c, text, given, taken);
    const Type *t = c->out ? type_find(c->out) : NULL;
    if (*text == '$') {
        OutValue *v = c->in[text[1] - '0'];
        return v;
    }
    Onnx__NodeProto *node = read_node(&r, several ? several : 1, "v");
    if (c->refused)
        return nothing(c->x, c->out);
    if (!several)
        return tensor_value(c->x, node->output[0], t);
    OutValue **fields = arena_new_array(&c->x->arena, OutValue *, several);
    for (uint32_t i = 0; i < several; i++)
        fields[i] =
            tensor_value(c->x, node->output[i],
                         t && t->kind == TYPE_TUPLE && i < t->n ? type_find(t->parts[i]) : t);
    return tuple_value(c->x, several, fields);
}

OutValue *out_say(OutCall *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = buf_vkeep(&c->x->arena, format, args);
    va_end(args);
    return c->refused ? nothing(c->x, c->out) : say(c, 0, text);
}

OutValue *out_say_several(OutCall *c, uint32_t n, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = buf_vkeep(&c->x->arena, format, args);
    va_end(args);
    return c->refused ? nothing(c->x, c->out) : say(c, n, text);
}

const char *out_text(OutCall *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = buf_vkeep(&c->x->arena, format, args);
    va_end(args);
    return text;
}

OutValue *out_tuple(OutCall *c, uint32_t n, OutValue *const *fields)
{
    return tuple_value(c->x, n, arena_copy(&c->x->arena, fields, n * sizeof *fields));
}

const char *out_list(OutCall *c, const int64_t *at, int n)
{
    Buf b = {0};
    buf_char(&b, '[');
    for (int i = 0; i < n; i++)
        buf_printf(&b, "%s%lld", i ? ", " : "", (long long)at[i]);
    buf_char(&b, ']');
    return buf_keep(&b, &c->x->arena);
}

/* ---- what rules ask ------------------------------------------------------------------------------------------------------------ */

static const Type *tensor_type(const OutCall *c, uint32_t i)
{
    const OutValue *v = i < c->n ? c->in[i] : NULL;
    if (v && v->kind == OUT_TUPLE && v->n > 0)
        v = v->fields[0];
    const Type *t = v && v->kind == OUT_TENSOR && v->type ? type_find(v->type) : NULL;
    return t && t->kind == TYPE_TENSOR ? t : NULL;
}

int out_rank(OutCall *c, uint32_t i)
{
    const Type *t = tensor_type(c, i);
    if (!t)
        out_refuse(c, "the rank of argument %u is not known", i + 1);
    return t ? (int)t->n : 0;
}

int64_t out_extent(OutCall *c, uint32_t i, int axis)
{
    const Type *t = tensor_type(c, i);
    if (!t || axis < 0 || axis >= (int)t->n) {
        out_refuse(c, "argument %u has no axis %d", i + 1, axis);
        return -1;
    }
    return t->dims[axis] < 0 ? -1 : t->dims[axis];
}

DType out_dtype(const OutCall *c, uint32_t i)
{
    const Type *t = tensor_type(c, i);
    return t ? t->dtype : dtype_of(DT_FLOAT32);
}

int64_t out_int(const OutCall *c, const char *key, int64_t none)
{
    const AttrValue *v = attrs_find(c->call->attrs, key);
    return v && v->kind == ATTR_INT ? v->i : v && v->kind == ATTR_BOOL ? v->b : none;
}

Str out_string(const OutCall *c, const char *key)
{
    const AttrValue *v = attrs_find(c->call->attrs, key);
    return v && v->kind == ATTR_STRING ? v->s : (Str){"", 0};
}

/* ---- rows of the importer, turned round ----------------------------------------------------------------------------------------- */

/* Whether the row's text is one call of an operator with the node's inputs in order: then the operator is that node. Its name. */
static const Name *inverse_name(Export *x, const OnnxRule *rule)
{
    const char *open = rule->text && !rule->rule ? strchr(rule->text, '(') : NULL;
    if (!open || strncmp(open + 1, "$0", 2) != 0 || strchr(rule->text, ';') ||
        strstr(rule->text, " | ") || strstr(rule->text, "$T"))
        return NULL;
    const char *p = open + 1;
    for (char next = '0'; p[0] == '$' && p[1] == next; next++)
        p += p[2] == ',' ? 4 : 2;
    for (; *p && *p != ')'; p++) /* attributes alone */
        if (*p == '(')
            return NULL;
    return *p == ')' && p[1] == 0
               ? ctx_name_str(x->cx, (Str){rule->text, (size_t)(open - rule->text)})
               : NULL;
}

static void turn_round(Export *x)
{
    for (const OnnxRule *r = onnx_rules; r->op; r++) {
        const Name *name = inverse_name(x, r);
        if (name && !ptrmap_has(&x->inverse, name))
            ptrmap_put(&x->inverse, name, (void *)r);
    }
}

static bool is_default(const OutCall *c, const Attr *a)
{
    for (const OpAttr *s = c->op->attrs; s && s->name; s++)
        if (!strcmp(s->name, a->key)) {
            const Attrs *both[2];
            for (int k = 0; k < 2; k++) {
                Attrs *one = arena_alloc(&c->x->arena, sizeof *one + sizeof(Attr));
                one->n = 1;
                one->at[0] = (Attr){.key = a->key, .value = k ? s->otherwise : a->value};
                both[k] = one;
            }
            return attrs_equal(both[0], both[1]);
        }
    return true;
}

/* The node that the row is for: its attributes are those of the call that the row takes from it. */
static OutValue *say_inverse(OutCall *c, const OnnxRule *rule)
{
    Buf text = {0};
    const Attrs *attrs = c->call->attrs;
    buf_printf(&text, "%s(", rule->op);
    for (uint32_t i = 0; i < c->n; i++)
        buf_printf(&text, "%s$%u", i ? ", " : "", i);
    buf_str(&text, "){");
    for (uint32_t i = 0; attrs && i < attrs->n && !c->refused; i++) {
        const char *key = attrs->at[i].key, *p = rule->text;
        char after = 0;
        for (p = strstr(p, key); p; p = strstr(p + 1, key)) {
            after = p[strlen(key)];
            if (p[-1] == ' ' && after == '=')
                break;
        }
        p = p ? p + strlen(key) + 1 : NULL;
        if (p && *p == '"')
            p++;
        if (p && *p == '$' && p[2] == '{') {
            const char *eq = strchr(p, '=');
            buf_printf(&text, "%.*s=$%s, ", (int)(eq - p - 3), p + 3, key);
        } else if (!is_default(c, &attrs->at[i])) {
            out_refuse(c, "the attribute `%s`", key);
        }
    }
    buf_char(&text, '}');
    OutValue *out = out_say(c, "%s", buf_text(&text));
    buf_deinit(&text);
    return out;
}

static OutValue *say_call(Export *x, const Call *call, const Op *op, uint32_t n, OutValue **in)
{
    OutCall c = {.x = x, .call = call, .op = op, .n = n, .in = in, .out = call->base.type};
    for (const ExportRule *r = export_rules; r->op; r++)
        if (!strcmp(r->op, op->name))
            return r->rule ? r->rule(&c) : out_say(&c, "%s", r->text);
    const OnnxRule *rule = ptrmap_find(&x->inverse, ctx_name(x->cx, op->name));
    return rule ? say_inverse(&c, rule) : out_refuse(&c, "no operator of ONNX is it");
}

/* ---- the walk ------------------------------------------------------------------------------------------------------------------ */

static Frame *new_frame(Export *x, Frame *outer)
{
    Frame *f = arena_new(&x->arena, Frame);
    *f = (Frame){.outer = outer};
    vec_push(&x->frames, &x->arena, f);
    return f;
}

static OutValue *found(const Frame *f, const void *e)
{
    OutValue *v = NULL;
    for (; f && !v; f = f->outer)
        v = ptrmap_find(&f->values, e);
    return v;
}

static OutValue *walk(Export *x, Frame *f, const Expr *e);

static OutValue *refuse_expr(Export *x, const Expr *e, const char *why)
{
    refuse(x, why);
    return nothing(x, e->type);
}

/* Whether what a let gives, under other names, is all that stands behind it. */
static bool is_last(const Let *let)
{
    const Expr *named = (const Expr *)let->var, *e = let->body;
    for (; e->kind == EXPR_LET && ((const Let *)e)->value == named; e = ((const Let *)e)->body)
        named = (const Expr *)((const Let *)e)->var;
    return e == named;
}

/* The lets in front of an expression, and that. */
static const Expr *walk_lets(Export *x, Frame *f, const Expr *e)
{
    while (e->kind == EXPR_LET) {
        const Let *let = (const Let *)e;
        if (is_last(let))
            return let->value;
        OutValue *v;
        if (let->value->kind == EXPR_FUNCTION) {
            v = arena_new(&x->arena, OutValue);
            *v = (OutValue){.kind = OUT_FUNCTION,
                            .fn = (const Function *)let->value,
                            .frame = f,
                            .self = let->var};
        } else {
            v = walk(x, f, let->value);
        }
        ptrmap_put(&f->values, let->var, v);
        e = let->body;
    }
    return e;
}

/* Tensors in a row. Tuples share parts, and a row has each as often as it is meant: it may be too long, and ends in the middle then. */
typedef Vec(OutValue *) OutValues;

static void put_tensors(Export *x, OutValue *v, OutValues *out)
{
    if (v->kind == OUT_TENSOR)
        vec_push(out, &x->arena, v);
    for (uint32_t i = 0; v->kind == OUT_TUPLE && i < v->n && !limit_hit(&x->cx->limits); i++)
        put_tensors(x, v->fields[i], out);
    if (v->kind == OUT_FUNCTION)
        refuse(x, "a function as a value");
}

/* The value of the same form whose tensors have other names, in order. */
static OutValue *with_names(Export *x, const OutValue *like, char **names, size_t *at)
{
    if (like->kind != OUT_TUPLE)
        return tensor_value(x, names[(*at)++], like->type);
    if (limit_hit(&x->cx->limits)) /* then there are too few names */
        return (OutValue *)(uintptr_t)like;
    OutValue **fields = arena_new_array(&x->arena, OutValue *, like->n + 1);
    for (uint32_t i = 0; i < like->n; i++)
        fields[i] = with_names(x, like->fields[i], names, at);
    return tuple_value(x, like->n, fields);
}

static void open_graph(Export *x, OutGraph *g)
{
    *g = (OutGraph){.outer = x->graph};
    x->graph = g;
}

/* A result of a graph is given by a node of it. */
static const char *own_name(Export *x, OutValue *v)
{
    char **input = arena_new_array(&x->arena, char *, 1);
    input[0] = (char *)v->name;
    Onnx__NodeProto *node = add_node(x, "Identity", 1, input);
    name_outputs(x, node, 1, "result");
    return node->output[0];
}

static Onnx__GraphProto *close_graph(Export *x, OutValues *results)
{
    Onnx__GraphProto *g = arena_new(&x->arena, Onnx__GraphProto);
    onnx__graph_proto__init(g);
    g->name = (char *)fresh(x, "graph");
    g->n_output = results->n;
    g->output = arena_new_array(&x->arena, Onnx__ValueInfoProto *, results->n + 1);
    for (size_t i = 0; i < results->n; i++) {
        const char *name = own_name(x, results->at[i]);
        g->output[i] = value_info(x, name, results->at[i]->type);
        if (g->output[i]->type) /* turns may give other extents */
            g->output[i]->type->tensor_type->shape = NULL;
    }
    g->n_node = x->graph->nodes.n;
    g->node = x->graph->nodes.at;
    x->graph = x->graph->outer;
    return g;
}

static OutValue *walk_if(Export *x, Frame *f, const If *e)
{
    OutValue *cond = walk(x, f, e->cond), *like = NULL;
    Onnx__GraphProto *graphs[2];
    size_t n = 0;
    for (int k = 0; k < 2; k++) {
        OutGraph g;
        OutValues results = {0};
        open_graph(x, &g);
        OutValue *v = walk(x, new_frame(x, f), k ? e->otherwise : e->then);
        put_tensors(x, v, &results);
        graphs[k] = close_graph(x, &results);
        like = like ? like : v;
        n = results.n;
    }
    if (n == 0 && like->kind == OUT_TUPLE)
        return like; /* nothing comes out: there is nothing to choose */
    if (graphs[0]->n_output != graphs[1]->n_output || cond->kind != OUT_TENSOR)
        return refuse_expr(x, &e->base, "branches of different forms");
    char **input = arena_new_array(&x->arena, char *, 1);
    input[0] = (char *)cond->name;
    Onnx__NodeProto *node = add_node(x, "If", 1, input);
    set_graph(add_attr(x, node, "then_branch"), graphs[0]);
    set_graph(add_attr(x, node, "else_branch"), graphs[1]);
    name_outputs(x, node, (uint32_t)n, "chosen");
    size_t at = 0;
    OutValue *out = with_names(x, like, node->output, &at);
    if (out->kind == OUT_TENSOR && e->base.type)
        out->type = type_find(e->base.type);
    return out;
}

/* ---- functions that call themselves ---------------------------------------------------------------------------------------------- */

typedef struct Wanted {
    const Var *var;
    bool found;
} Wanted;

static void is_wanted(void *data, Var *v)
{
    Wanted *w = data;
    w->found |= v == w->var;
}

static bool mentions(const Expr *e, const Var *v)
{
    Wanted w = {.var = v};
    ir_free_vars(e, is_wanted, &w);
    return w.found;
}

static Frame *bind(Export *x, const OutValue *fn, OutValue **args)
{
    Frame *f = new_frame(x, fn->frame);
    for (uint32_t i = 0; i < fn->fn->params.n; i++)
        ptrmap_put(&f->values, fn->fn->params.at[i], args[i]);
    if (fn->self)
        ptrmap_put(&f->values, fn->self, (void *)fn);
    return f;
}

/* Its end after the lets in front: `if`, of whose branches one is the call of itself at its end. NULL: it is no such function. */
static const If *turn_of(Export *x, Frame *f, const OutValue *fn, bool *goes)
{
    const Expr *end = walk_lets(x, f, fn->fn->body);
    const If *branch = end->kind == EXPR_IF ? (const If *)end : NULL;
    if (!branch)
        return NULL;
    *goes = mentions(branch->then, fn->self);
    return *goes != mentions(branch->otherwise, fn->self) ? branch : NULL;
}

/* Whether there is another turn. */
static const char *going(Export *x, Frame *f, const If *branch, bool goes)
{
    OutValue *cond = walk(x, f, branch->cond);
    if (goes || cond->kind != OUT_TENSOR)
        return cond->kind == OUT_TENSOR ? cond->name : "";
    char **input = arena_new_array(&x->arena, char *, 1);
    input[0] = (char *)cond->name;
    Onnx__NodeProto *node = add_node(x, "Not", 1, input);
    name_outputs(x, node, 1, "more");
    return node->output[0];
}

/* What the parameters are in the next turn; NULL: the function does not end in a call of itself. */
static OutValue *next_turn(Export *x, Frame *f, const OutValue *fn, const If *branch, bool goes)
{
    Frame *inner = new_frame(x, f);
    const Expr *end = walk_lets(x, inner, goes ? branch->then : branch->otherwise);
    const Call *call = end->kind == EXPR_CALL ? (const Call *)end : NULL;
    if (!call || call->callee != (const Expr *)fn->self)
        return NULL;
    OutValue **next = arena_new_array(&x->arena, OutValue *, call->args.n + 1);
    for (uint32_t i = 0; i < call->args.n; i++) {
        if (mentions(call->args.at[i], fn->self))
            return NULL;
        next[i] = walk(x, inner, call->args.at[i]);
    }
    return tuple_value(x, call->args.n, next);
}

static OutValue *walk_loop(Export *x, const OutValue *fn, OutValue **args, const Expr *e)
{
    static const char why[] = "a function that calls itself otherwise than at its end";
    bool goes;
    OutValue *first = tuple_value(x, fn->fn->params.n, args);
    Frame *f = bind(x, fn, args);
    const If *branch = turn_of(x, f, fn, &goes);
    if (!branch)
        return refuse_expr(x, e, why);
    const char *go = going(x, f, branch, goes);
    OutValues states = {0};
    put_tensors(x, first, &states);

    OutGraph g;
    open_graph(x, &g);
    char **names = arena_new_array(&x->arena, char *, states.n + 3);
    names[0] = (char *)fresh(x, "turn");
    names[1] = (char *)fresh(x, "go");
    for (size_t i = 0; i < states.n; i++)
        names[i + 2] = (char *)fresh(x, "state");
    size_t at = 2;
    const OutValue *params = with_names(x, first, names, &at);
    for (uint32_t i = 0; i < params->n; i++) /* extents may differ from turn to turn */
        if (params->fields[i]->kind == OUT_TENSOR && fn->fn->params.at[i]->base.type)
            params->fields[i]->type = type_find(fn->fn->params.at[i]->base.type);
    Frame *body = bind(x, fn, params->fields);
    OutValue *next = turn_of(x, body, fn, &goes) ? next_turn(x, body, fn, branch, goes) : NULL;
    OutValues results = {0};
    if (next) {
        Frame *after = bind(x, fn, next->fields);
        turn_of(x, after, fn, &goes);
        OutValue *more = tensor_value(x, going(x, after, branch, goes), branch->cond->type);
        vec_push(&results, &x->arena, more);
        put_tensors(x, next, &results);
    }
    Onnx__GraphProto *graph = close_graph(x, &results);
    if (!next || results.n != states.n + 1)
        return refuse_expr(x, e, why);
    graph->n_input = states.n + 2;
    graph->input = arena_new_array(&x->arena, Onnx__ValueInfoProto *, graph->n_input);
    graph->input[0] = value_info(x, names[0], type_scalar(x->cx, dtype_of(DT_INT64)));
    graph->input[1] = value_info(x, names[1], type_scalar(x->cx, dtype_of(DT_BOOL)));
    for (size_t i = 0; i < states.n; i++) {
        graph->input[i + 2] = value_info(x, names[i + 2], results.at[i + 1]->type);
        if (graph->input[i + 2]->type)
            graph->input[i + 2]->type->tensor_type->shape = NULL;
    }

    char **inputs = arena_new_array(&x->arena, char *, states.n + 2);
    inputs[0] = (char *)"";
    inputs[1] = (char *)go;
    for (size_t i = 0; i < states.n; i++)
        inputs[i + 2] = (char *)states.at[i]->name;
    Onnx__NodeProto *node = add_node(x, "Loop", states.n + 2, inputs);
    set_graph(add_attr(x, node, "body"), graph);
    name_outputs(x, node, (uint32_t)states.n, "last");
    at = 0;
    const OutValue *last = with_names(x, params, node->output, &at);
    Frame *end = bind(x, fn, last->fields);
    turn_of(x, end, fn, &goes);
    return walk(x, end, goes ? branch->otherwise : branch->then);
}

static OutValue *walk_function(Export *x, const OutValue *fn, uint32_t n, OutValue **args,
                               const Expr *e)
{
    if (fn->fn->params.n != n)
        return refuse_expr(x, e, "a call with arguments of another number");
    if (ptrmap_has(&x->open, fn->fn))
        return refuse_expr(x, e, "a function that calls itself otherwise than at its end");
    ptrmap_put(&x->open, fn->fn, x);
    OutValue *out = fn->self && mentions(fn->fn->body, fn->self)
                        ? walk_loop(x, fn, args, e)
                        : walk(x, bind(x, fn, args), fn->fn->body);
    ptrmap_remove(&x->open, fn->fn);
    return out;
}

static OutValue *walk_call(Export *x, Frame *f, const Call *call)
{
    const Expr *callee = call->callee;
    OutValue **args = arena_new_array(&x->arena, OutValue *, call->args.n + 1);
    for (uint32_t i = 0; i < call->args.n; i++)
        args[i] = walk(x, f, call->args.at[i]);
    if (callee->kind == EXPR_OP)
        return say_call(x, call, ((const OpRef *)callee)->op, call->args.n, args);
    if (callee->kind == EXPR_GLOBAL) {
        const Name *name = ((const GlobalVar *)callee)->name;
        const Def *def = module_find(x->m, name);
        if (!def || !def->fn || def->fn->type_params.n > 0)
            return refuse_expr(x, &call->base,
                               text_of(x, "`@%s`: a function for any type", name->text));
        return walk_function(x, &(OutValue){.kind = OUT_FUNCTION, .fn = def->fn}, call->args.n,
                             args, &call->base);
    }
    const OutValue *fn = callee->kind == EXPR_CON ? NULL : walk(x, f, callee);
    if (!fn || fn->kind != OUT_FUNCTION)
        return refuse_expr(x, &call->base, "a call of what is no function of the program");
    return walk_function(x, fn, call->args.n, args, &call->base);
}

static OutValue *walk_new(Export *x, Frame *f, const Expr *e)
{
    switch (e->kind) {
    case EXPR_CONSTANT: {
        TensorView view;
        if (!value_view(&((const Constant *)e)->value, &view))
            return refuse_expr(x, e, "a constant that is no tensor");
        return tensor_value(x, add_array(x, "constant", &view), e->type);
    }
    case EXPR_TUPLE: {
        const Tuple *t = (const Tuple *)e;
        OutValue **fields = arena_new_array(&x->arena, OutValue *, t->fields.n + 1);
        for (uint32_t i = 0; i < t->fields.n; i++)
            fields[i] = walk(x, f, t->fields.at[i]);
        return tuple_value(x, t->fields.n, fields);
    }
    case EXPR_TUPLE_GET: {
        const TupleGet *t = (const TupleGet *)e;
        const OutValue *v = walk(x, f, t->tuple);
        return v->kind == OUT_TUPLE && t->index < v->n ? v->fields[t->index] : nothing(x, e->type);
    }
    case EXPR_FUNCTION: {
        OutValue *v = arena_new(&x->arena, OutValue);
        *v = (OutValue){.kind = OUT_FUNCTION, .fn = (const Function *)e, .frame = f};
        return v;
    }
    case EXPR_LET: {
        Frame *inner = new_frame(x, f);
        return walk(x, inner, walk_lets(x, inner, e));
    }
    case EXPR_IF: return walk_if(x, f, (const If *)e);
    case EXPR_CALL: return walk_call(x, f, (const Call *)e);
    case EXPR_MATCH: return refuse_expr(x, e, "`match`, and values of data types");
    default: return refuse_expr(x, e, "references, and functions and constructors as values");
    }
}

static OutValue *walk(Export *x, Frame *f, const Expr *e)
{
    OutValue *v = found(f, e);
    if (v || x->stuck || limit_hit(&x->cx->limits))
        return v ? v : nothing(x, e->type);
    x->stuck = x->depth >= DEPTH_MOST;
    if (x->stuck)
        return refuse_expr(x, e, "calls in calls are too deep");
    x->depth++;
    v = walk_new(x, f, e);
    x->depth--;
    ptrmap_put(&f->values, e, v);
    return v;
}

/* ---- the model ------------------------------------------------------------------------------------------------------------------ */

static const ExportArray *array_of(const Export *x, const Name *name)
{
    for (size_t i = 0; i < x->wish->n_arrays; i++)
        if (!strcmp(x->wish->arrays[i].name, name->text))
            return &x->wish->arrays[i];
    return NULL;
}

static void add_params(Export *x, const Function *fn, Frame *f, Onnx__GraphProto *g)
{
    g->input = arena_new_array(&x->arena, Onnx__ValueInfoProto *, fn->params.n + 1);
    for (uint32_t i = 0; i < fn->params.n; i++) {
        const Var *p = fn->params.at[i];
        const ExportArray *given = array_of(x, p->name);
        const char *name;
        const Type *type = p->base.type ? type_find(p->base.type) : NULL;
        if (given && type && !type_equal(type, type_of_tensor(x->cx, given->value)))
            refuse(x, text_of(x, "the array for `%%%s` is no `%s`", p->name->text,
                              type_str(x->cx, type)));
        if (given) {
            name = add_array(x, p->name->text, &(TensorView){.t = *given->value});
        } else {
            name = fresh(x, p->name->text);
            g->input[g->n_input++] = value_info(x, name, p->base.type);
        }
        ptrmap_put(&f->values, p, tensor_value(x, name, p->base.type));
    }
}

typedef struct OutBuffer {
    ProtobufCBuffer base;
    Buf *out;
} OutBuffer;

static void append(ProtobufCBuffer *b, size_t n, const uint8_t *data)
{
    buf_bytes(((OutBuffer *)b)->out, (const char *)data, n);
}

static void write_model(Export *x, Onnx__GraphProto *g, Buf *out)
{
    Onnx__ModelProto model;
    Onnx__OperatorSetIdProto set, *sets[] = {&set};
    onnx__model_proto__init(&model);
    onnx__operator_set_id_proto__init(&set);
    set.has_version = true;
    set.version = OPSET;
    set.domain = (char *)"";
    model.has_ir_version = true;
    model.ir_version = IR_VERSION;
    model.producer_name = (char *)"relay";
    model.n_opset_import = 1;
    model.opset_import = sets;
    model.graph = g;
    size_t size = onnx__model_proto__get_packed_size(&model);
    if (size > INT32_MAX) {
        refuse(x, "arrays of more than 2 GiB in one file");
        return;
    }
    OutBuffer buffer = {{append}, out};
    if (buf_reserve(out, size))
        onnx__model_proto__pack_to_buffer(&model, &buffer.base);
}

static void export_graph(Export *x, const Function *fn, Buf *out)
{
    Onnx__GraphProto g;
    OutGraph top = {0};
    OutValues results = {0};
    Frame *f = new_frame(x, NULL);
    onnx__graph_proto__init(&g);
    x->graph = &top;
    g.name = (char *)x->wish->entry->text;
    add_params(x, fn, f, &g);
    put_tensors(x, walk(x, f, fn->body), &results);
    g.n_output = results.n;
    g.output = arena_new_array(&x->arena, Onnx__ValueInfoProto *, results.n + 1);
    for (size_t i = 0; i < results.n && !limit_hit(&x->cx->limits); i++)
        g.output[i] = value_info(x, own_name(x, results.at[i]), results.at[i]->type);
    g.n_node = top.nodes.n;
    g.node = top.nodes.at;
    g.n_initializer = x->arrays.n;
    g.initializer = x->arrays.at;
    if (!x->refused && !limit_hit(&x->cx->limits))
        write_model(x, &g, out);
}

bool onnx_export(Ctx *cx, const Module *m, const ExportWish *wish, Buf *out)
{
    Export x = {.cx = cx, .m = m, .wish = wish};
    const Def *def = module_find(m, wish->entry);
    arena_init(&x.arena, &cx->limits);
    turn_round(&x);
    if (def && def->fn)
        export_graph(&x, def->fn, out);
    else
        diag_error(cx->diags, E0406_IMPORT, (Span){0}, "there is no function `@%s`",
                   wish->entry->text);
    if (x.said.n > REFUSALS_MOST)
        diag_note(x.refused, "and %zu more", (size_t)x.said.n - REFUSALS_MOST);
    bool ok = def && def->fn && !x.refused && !limit_hit(&cx->limits) && !out->failed;
    for (size_t i = 0; i < x.frames.n; i++)
        ptrmap_deinit(&x.frames.at[i]->values);
    ptrmap_deinit(&x.taken);
    ptrmap_deinit(&x.inverse);
    ptrmap_deinit(&x.open);
    ptrmap_deinit(&x.said);
    ptrmap_deinit(&x.nothings);
    arena_deinit(&x.arena);
    return ok;
}
