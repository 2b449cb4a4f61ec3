#include "exchange/onnx_import.h"

#include "base/memory.h"
#include "exchange/onnx.h"
#include "ir/print.h"
#include "parser/parser.h"
#include "typecheck/typecheck.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Constants of up to so many elements are computed during the import; larger ones are weights. */
#define FOLD_MOST ((int64_t)1 << 16)
/* Refusals that are listed. */
#define REFUSALS_MOST 60

struct OnnxImport {
    Ctx *cx;
    Interp *in;
    const ImportWish *wish;
    Imported *out;
    OnnxModel model;
    Module *vars; /* in whose arena the variables lie; it defines nothing */
    PtrMap values; /* Name in the model -> OnnxValue */
    PtrMap taken; /* Name: variables of the program */
    PtrMap locals; /* Name -> Var: what the next line may use */
    PtrMap known; /* Var -> const Value *: of those that are constants */
    PtrMap ops; /* Name of an operator -> its number among those of the table + 1 */
    Vec(Value) held; /* what `known` points to */
    Vec(Tensor *) arrays; /* counted: of values that the graph does not name */
    Buf params, body;
    int64_t version;
    Diag *refused; /* the one message that lists what could not be said */
    size_t refusals;
    uint32_t numbers; /* of values so far */
};

/* ---- names ------------------------------------------------------------------------------------------------------------------ */

/* What is left of a name of the model when only letters, digits and `_` may stay; exporters end names of results alike. */
static const Name *clean_name(OnnxImport *im, const char *name, const char *hint)
{
    Buf b = {0};
    static const char ending[] = "_output_0";
    size_t n = strlen(name), tail = sizeof ending - 1;
    if (n > tail && !strcmp(name + n - tail, ending))
        n -= tail;
    for (size_t i = 0; i < n; i++) {
        bool word = isalnum((unsigned char)name[i]) || name[i] == '_';
        if (word || (b.n > 0 && b.at[b.n - 1] != '_'))
            buf_char(&b, word ? name[i] : '_');
    }
    while (b.n > 0 && b.at[b.n - 1] == '_')
        buf_cut(&b, b.n - 1);
    size_t from = 0;
    while (from < b.n && b.at[from] == '_')
        from++;
    Buf first = {0};
    bool letter = from < b.n && isalpha((unsigned char)b.at[from]);
    buf_printf(&first, "%s%s", letter ? "" : hint, from < b.n ? buf_text(&b) + from : "");
    const Name *found = ctx_name(im->cx, buf_text(&first));
    for (unsigned k = 1; ptrmap_has(&im->taken, found); k++) {
        Buf other = {0};
        buf_printf(&other, "%s_%u", buf_text(&first), k);
        found = ctx_name(im->cx, buf_text(&other));
        buf_deinit(&other);
    }
    ptrmap_put(&im->taken, found, im);
    buf_deinit(&first);
    buf_deinit(&b);
    return found;
}

static OnnxValue *value_of(OnnxImport *im, const char *name)
{
    return ptrmap_find(&im->values, ctx_name(im->cx, name));
}

static OnnxValue *value_new(OnnxImport *im, const char *name)
{
    void **slot = ptrmap_slot(&im->values, ctx_name(im->cx, name));
    OnnxValue *v = *slot ? *slot : arena_new(&im->out->arena, OnnxValue);
    tensor_release(v->constant);
    *v = (OnnxValue){.name = name, .number = im->numbers++};
    *slot = v;
    return v;
}

static const char *text_of(OnnxImport *im, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static const char *text_of(OnnxImport *im, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = buf_vkeep(&im->out->arena, format, args);
    va_end(args);
    return text;
}

/* A variable that later lines may use; its text. */
static const char *add_var(OnnxImport *im, const Name *name, const Type *type)
{
    Var *v = expr_var(&im->vars->arena, (Span){0}, name, NULL);
    v->base.type = type;
    ptrmap_put(&im->locals, name, v);
    return text_of(im, "%%%s", name->text);
}

/* ---- refusals --------------------------------------------------------------------------------------------------------------- */

static void refuse(OnnxImport *im, const char *what)
{
    if (!im->refused)
        im->refused = diag_error(im->cx->diags, E0406_IMPORT, (Span){0},
                                 "%s has operators that Relay cannot say", im->wish->path);
    if (im->refusals++ < REFUSALS_MOST)
        diag_note(im->refused, "%s", what);
}

static const char *op_of(const OnnxNode *n)
{
    return n->proto->op_type ? n->proto->op_type : "";
}

void onnx_refuse(OnnxNode *n, const char *format, ...)
{
    if (n->failed)
        return;
    n->failed = true;
    Buf b = {0};
    const char *name = n->proto->name && *n->proto->name ? n->proto->name
                       : n->proto->n_output              ? n->proto->output[0]
                                                         : "";
    buf_printf(&b, "%s `%s`: ", op_of(n), name);
    va_list args;
    va_start(args, format);
    buf_vprintf(&b, format, args);
    va_end(args);
    refuse(n->im, buf_text(&b));
    buf_deinit(&b);
}

/* ---- parameters and constants ----------------------------------------------------------------------------------------------- */

static const char *add_array(OnnxImport *im, const OnnxValue *v)
{
    const Name *var = clean_name(im, v->name, "w_");
    vec_push(&im->out->arrays, &im->out->arena,
             ((ImportedArray){var->text, v->number, tensor_retain(v->constant)}));
    return add_var(im, var, v->type);
}

static const char *literal(OnnxImport *im, Value v)
{
    Buf b = {0};
    ir_print_expr(&b, expr_constant(&im->vars->arena, (Span){0}, v), (PrintStyle){0});
    const char *text = buf_keep(&b, &im->out->arena);
    return strncmp(text, "meta", 4) ? text : NULL;
}

/* The text of a constant for lines of the program. */
static const char *program_text(OnnxImport *im, OnnxValue *v)
{
    if (!v->text && v->constant->rank == 0)
        v->text = literal(im, value_scalar(v->constant->dtype, v->constant->data));
    if (!v->text)
        v->text = add_array(im, v);
    return v->text;
}

/* The variable that stands for a constant while others are computed from it. */
static const char *here_text(OnnxImport *im, OnnxValue *v)
{
    if (v->here)
        return v->here;
    const Name *name = clean_name(im, "constant", "");
    v->here = add_var(im, name, v->type);
    Value *value = arena_new(&im->out->arena, Value);
    *value = value_tensor(tensor_retain(v->constant));
    vec_push(&im->held, &im->out->arena, *value);
    ptrmap_put(&im->known, ptrmap_find(&im->locals, name), value);
    return v->here;
}

static void set_constant(OnnxImport *im, OnnxValue *v, Tensor *t)
{
    v->constant = t;
    v->type = type_of_tensor(im->cx, t);
}

/* ---- lines ------------------------------------------------------------------------------------------------------------------ */

/* The expression with its type; NULL after a refusal. */
static Module *read_line(OnnxNode *n, const char *text)
{
    OnnxImport *im = n->im;
    Ctx *cx = im->cx;
    DiagsMark mark = diags_mark(cx->diags);
    ParseEnv env = {.locals = &im->locals};
    uint32_t source = sources_add(&cx->sources, op_of(n), text, strlen(text));
    Module *m = source ? parse_text(cx, source, &env) : NULL;
    if (m && m->expr && typecheck_module(cx, m, NULL))
        return m;
    const Diag *why = mark.last ? mark.last->next : cx->diags->first;
    const char *message = why ? text_of(im, "%s", why->message) : "it has no type";
    module_release(m);
    if (!limit_hit(&cx->limits)) {
        diags_back(cx->diags, mark);
        onnx_refuse(n, "%s, in %s", message, text);
    }
    n->failed = true;
    return NULL;
}

/* The value of the line, which depends on constants alone. */
static Tensor *compute(OnnxNode *n, Module *m)
{
    OnnxImport *im = n->im;
    Value v = interp_eval(im->in, im->vars, m, m->expr, &im->known);
    Tensor *t = value_to_tensor(&im->cx->limits, v);
    value_release(v);
    if (!t)
        onnx_refuse(n, "it cannot be computed");
    return t;
}

/* What the line gives, under a name like the hint. */
static bool add_line(OnnxNode *n, const char *text, const char *hint, OnnxValue *out)
{
    OnnxImport *im = n->im;
    Module *m = n->failed ? NULL : read_line(n, text);
    if (!m)
        return false;
    out->type = m->expr->type;
    if (n->constant && out->type->kind == TYPE_TENSOR) {
        Tensor *t = compute(n, m);
        if (t)
            set_constant(im, out, t);
    } else {
        const Name *name = clean_name(im, hint, "v_");
        buf_printf(&im->body, "  let %%%s = %s;\n", name->text, text);
        out->text = add_var(im, name, out->type);
    }
    interp_forget(im->in, m);
    module_release(m);
    return !n->failed;
}

/* ---- what rules ask --------------------------------------------------------------------------------------------------------- */

Limits *onnx_limits(OnnxNode *n)
{
    return &n->im->cx->limits;
}

bool onnx_has(const OnnxNode *n, size_t i)
{
    return i < n->proto->n_input && *n->proto->input[i];
}

static OnnxValue *input(OnnxNode *n, size_t i)
{
    OnnxValue *v = onnx_has(n, i) ? value_of(n->im, n->proto->input[i]) : NULL;
    if (!v)
        onnx_refuse(n, "input %zu is not there", i);
    return v && (v->type || v->constant) ? v : NULL;
}

const char *onnx_in(OnnxNode *n, size_t i)
{
    OnnxValue *v = input(n, i);
    if (!v)
        return "0";
    if (v->constant)
        return n->constant ? here_text(n->im, v) : program_text(n->im, v);
    return v->text;
}

static const Type *in_type(OnnxNode *n, size_t i)
{
    OnnxValue *v = input(n, i);
    if (v && v->type->kind == TYPE_TENSOR)
        return v->type;
    onnx_refuse(n, "input %zu is no tensor", i);
    return NULL;
}

int onnx_rank(OnnxNode *n, size_t i)
{
    const Type *t = in_type(n, i);
    return t ? (int)t->n : 0;
}

int64_t onnx_extent(OnnxNode *n, size_t i, int64_t axis)
{
    const Type *t = in_type(n, i);
    axis += t && axis < 0 ? (int64_t)t->n : 0;
    if (!t || axis < 0 || axis >= (int64_t)t->n) {
        onnx_refuse(n, "input %zu has no axis %lld", i, (long long)axis);
        return 1;
    }
    return t->dims[axis] < 0 ? -1 : t->dims[axis];
}

int64_t onnx_known_extent(OnnxNode *n, size_t i, int64_t axis)
{
    int64_t d = onnx_extent(n, i, axis);
    if (d >= 0)
        return d;
    onnx_refuse(n, "the extent of axis %lld of input %zu is not known (`--shape` can say it)",
                (long long)axis, i);
    return 1;
}

DType onnx_in_dtype(OnnxNode *n, size_t i)
{
    const Type *t = in_type(n, i);
    return t ? t->dtype : dtype_of(DT_FLOAT32);
}

OnnxInts onnx_ints(OnnxNode *n, size_t i)
{
    OnnxInts out = {.n = -1};
    if (!onnx_has(n, i))
        return out;
    OnnxValue *v = input(n, i);
    if (!v || !v->constant) {
        onnx_refuse(n, "input %zu is known only when the program runs", i);
        return out;
    }
    if (v->constant->size > ONNX_INTS_MOST) {
        onnx_refuse(n, "input %zu has %lld numbers", i, (long long)v->constant->size);
        return out;
    }
    out.n = (int)v->constant->size;
    for (int k = 0; k < out.n; k++)
        out.at[k] = tensor_get_int(v->constant, k);
    return out;
}

double onnx_number(OnnxNode *n, size_t i, int64_t k)
{
    OnnxValue *v = input(n, i);
    if (v && v->constant && v->constant->size > k)
        return tensor_get_double(v->constant, k);
    onnx_refuse(n, "input %zu is known only when the program runs", i);
    return 0;
}

static const Onnx__AttributeProto *attr(const OnnxNode *n, const char *name)
{
    for (size_t i = 0; i < n->proto->n_attribute; i++)
        if (n->proto->attribute[i]->name && !strcmp(n->proto->attribute[i]->name, name))
            return n->proto->attribute[i];
    return NULL;
}

bool onnx_has_attr(const OnnxNode *n, const char *name)
{
    return attr(n, name) != NULL;
}

int64_t onnx_attr_int(const OnnxNode *n, const char *name, int64_t otherwise)
{
    const Onnx__AttributeProto *a = attr(n, name);
    return a && a->has_i ? a->i : otherwise;
}

double onnx_attr_float(const OnnxNode *n, const char *name, double otherwise)
{
    const Onnx__AttributeProto *a = attr(n, name);
    return a && a->has_f ? (double)a->f : otherwise;
}

const char *onnx_attr_text(OnnxNode *n, const char *name, const char *otherwise)
{
    const Onnx__AttributeProto *a = attr(n, name);
    if (!a || !a->has_s)
        return otherwise;
    return arena_copy_text(&n->im->out->arena, (const char *)a->s.data, a->s.len);
}

OnnxInts onnx_attr_ints(OnnxNode *n, const char *name)
{
    const Onnx__AttributeProto *a = attr(n, name);
    OnnxInts out = {.n = -1};
    if (!a)
        return out;
    if (a->n_ints > ONNX_INTS_MOST) {
        onnx_refuse(n, "attribute `%s` has %zu numbers", name, a->n_ints);
        return out;
    }
    out.n = (int)a->n_ints;
    for (size_t i = 0; i < a->n_ints; i++)
        out.at[i] = a->ints[i];
    return out;
}

const Onnx__TensorProto *onnx_attr_tensor(const OnnxNode *n, const char *name)
{
    const Onnx__AttributeProto *a = attr(n, name);
    return a ? a->t : NULL;
}

/* ---- what they say ---------------------------------------------------------------------------------------------------------- */

const char *onnx_text(OnnxNode *n, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = buf_vkeep(&n->im->out->arena, format, args);
    va_end(args);
    return text;
}

const char *onnx_list(OnnxNode *n, OnnxInts ints)
{
    Buf b = {0};
    buf_char(&b, '[');
    for (int i = 0; i < ints.n; i++)
        buf_printf(&b, "%s%lld", i ? ", " : "", (long long)ints.at[i]);
    buf_char(&b, ']');
    return buf_keep(&b, &n->im->out->arena);
}

const char *onnx_bool(bool b)
{
    return b ? "True" : "False";
}

const char *onnx_literal(OnnxNode *n, double v, DType dtype)
{
    const char *text = literal(n->im, value_scalar_double(dtype, v));
    if (text)
        return text;
    Buf b = {0};
    dtype_print(&b, dtype);
    text = onnx_text(n, "cast(%s, dtype=\"%s\")",
                     literal(n->im, value_scalar_double(dtype_of(DT_FLOAT32), v)), buf_text(&b));
    buf_deinit(&b);
    return text;
}

static void hold_constant(OnnxNode *n, OnnxValue *v, Tensor *t)
{
    if (t)
        set_constant(n->im, v, t);
    else
        onnx_refuse(n, "there is no memory for a constant");
}

const char *onnx_array(OnnxNode *n, Tensor *t, const char *hint)
{
    OnnxValue *v = arena_new(&n->im->out->arena, OnnxValue);
    v->number = n->im->numbers++;
    v->name = onnx_text(n, "%s_%s", n->proto->n_output ? n->proto->output[0] : op_of(n), hint);
    hold_constant(n, v, t);
    if (!v->constant)
        return "0";
    vec_push(&n->im->arrays, &n->im->out->arena, t);
    return n->constant ? here_text(n->im, v) : program_text(n->im, v);
}

const char *onnx_let(OnnxNode *n, const char *text)
{
    OnnxValue *v = arena_new(&n->im->out->arena, OnnxValue);
    v->name = n->proto->n_output ? n->proto->output[0] : op_of(n);
    if (!add_line(n, text, onnx_text(n, "%s_part", v->name), v))
        return "0";
    if (!v->constant)
        return v->text;
    vec_push(&n->im->arrays, &n->im->out->arena, v->constant);
    return here_text(n->im, v);
}

/* The value of the next output; NULL when the node has no such, or nobody wants it. */
static OnnxValue *next_output(OnnxNode *n)
{
    uint32_t i = n->given++;
    bool wanted = i < n->proto->n_output && *n->proto->output[i];
    return wanted ? value_new(n->im, n->proto->output[i]) : NULL;
}

void onnx_give(OnnxNode *n, const char *text)
{
    OnnxValue *v = next_output(n);
    if (v)
        add_line(n, text, v->name, v);
}

void onnx_give_constant(OnnxNode *n, Tensor *t)
{
    OnnxValue *v = next_output(n);
    if (v)
        hold_constant(n, v, t);
    else
        tensor_release(t);
}

static Tensor *tensor_of(OnnxNode *n, const Onnx__TensorProto *t)
{
    Buf why = {0};
    Tensor *out = onnx_tensor(&n->im->model, t, &why);
    if (!out)
        onnx_refuse(n, "a constant: %s", buf_text(&why));
    buf_deinit(&why);
    return out;
}

void onnx_give_tensor(OnnxNode *n, const Onnx__TensorProto *t)
{
    Tensor *out = tensor_of(n, t);
    if (out)
        onnx_give_constant(n, out);
}

const char *onnx_tensor_literal(OnnxNode *n, const Onnx__TensorProto *t)
{
    Tensor *v = tensor_of(n, t);
    const char *text = NULL;
    if (v && v->size == 1)
        text = literal(n->im, value_scalar(v->dtype, v->data));
    tensor_release(v);
    if (!text)
        onnx_refuse(n, "a constant that is no single number");
    return text ? text : "0";
}

void onnx_give_input(OnnxNode *n, size_t i)
{
    OnnxValue *from = input(n, i), *to = next_output(n);
    if (!from || !to || n->failed)
        return;
    const char *name = to->name;
    *to = *from;
    to->name = from->text || !from->constant ? from->name : name;
    if (to->constant)
        tensor_retain(to->constant);
}

/* ---- rules that are texts --------------------------------------------------------------------------------------------------- */

static void put_attr(OnnxNode *n, Buf *b, char kind, const char *inner)
{
    const char *eq = strchr(inner, '=');
    const char *name = text_of(n->im, "%.*s", (int)(eq - inner), inner), *otherwise = eq + 1;
    switch (kind) {
    case 'i':
        buf_printf(b, "%lld", (long long)onnx_attr_int(n, name, strtoll(otherwise, NULL, 10)));
        return;
    case 'b':
        buf_str(b, onnx_bool(onnx_attr_int(n, name, strtoll(otherwise, NULL, 10)) != 0));
        return;
    case 'f':
    case 'a':
        buf_str(b, onnx_literal(n, onnx_attr_float(n, name, strtod(otherwise, NULL)),
                                kind == 'f' ? dtype_of(DT_FLOAT32) : onnx_in_dtype(n, 0)));
        return;
    default: buf_str(b, onnx_attr_text(n, name, otherwise)); return;
    }
}

static const char *expand(OnnxNode *n, const char *text)
{
    Buf b = {0};
    for (const char *p = text; *p; p++) {
        if (*p != '$') {
            buf_char(&b, *p);
            continue;
        }
        char kind = *++p;
        if (kind >= '0' && kind <= '9') {
            buf_str(&b, onnx_in(n, (size_t)(kind - '0')));
        } else if (kind == '*') {
            for (size_t i = 0; i < n->proto->n_input; i++)
                buf_printf(&b, "%s%s", i ? ", " : "", onnx_in(n, i));
        } else if (kind == 't') {
            dtype_print(&b, onnx_in_dtype(n, 0));
        } else {
            const char *close = strchr(p, '}');
            const char *inner = text_of(n->im, "%.*s", (int)(close - p - 2), p + 2);
            if (kind == 'n')
                buf_str(&b, onnx_literal(n, strtod(inner, NULL), onnx_in_dtype(n, 0)));
            else
                put_attr(n, &b, kind, inner);
            p = close;
        }
    }
    return buf_keep(&b, &n->im->out->arena);
}

/* ---- the graph -------------------------------------------------------------------------------------------------------------- */

static const OnnxRule *rule_of(const Onnx__NodeProto *node)
{
    bool usual = !node->domain || !*node->domain || !strcmp(node->domain, "ai.onnx");
    for (const OnnxRule *r = onnx_rules; usual && node->op_type && r->op; r++)
        if (!strcmp(r->op, node->op_type))
            return r;
    return NULL;
}

/* Whether the outputs are to be computed now: everything that they need is known, and small. */
static bool is_constant(OnnxImport *im, const Onnx__NodeProto *node)
{
    for (size_t i = 0; i < node->n_input; i++) {
        const OnnxValue *v = *node->input[i] ? value_of(im, node->input[i]) : NULL;
        if (*node->input[i] && (!v || !v->constant || v->constant->size > FOLD_MOST))
            return false;
    }
    return true;
}

/* Whether something that the node needs could not be said: then that was said. */
static bool lacks_input(OnnxImport *im, const Onnx__NodeProto *node)
{
    for (size_t i = 0; i < node->n_input; i++) {
        const OnnxValue *v = *node->input[i] ? value_of(im, node->input[i]) : NULL;
        if (*node->input[i] && (!v || (!v->type && !v->constant)))
            return true;
    }
    return false;
}

static void count_op(OnnxImport *im, const OnnxNode *n)
{
    const Name *name = ctx_name(im->cx, op_of(n));
    size_t at = (size_t)(uintptr_t)ptrmap_find(&im->ops, name);
    if (at == 0) {
        vec_push(&im->out->ops, &im->out->arena, ((ImportedOp){.name = name->text}));
        at = im->out->ops.n;
        ptrmap_put(&im->ops, name, (void *)(uintptr_t)at);
    }
    im->out->ops.at[at - 1].nodes++;
    im->out->ops.at[at - 1].folded += n->constant;
}

static void import_node(OnnxImport *im, const Onnx__NodeProto *proto)
{
    OnnxNode n = {.im = im, .proto = proto, .version = im->version};
    const OnnxRule *rule = rule_of(proto);
    if (!rule) {
        bool usual = !proto->domain || !*proto->domain;
        onnx_refuse(&n, "version %lld of `%s%s%s` has no counterpart", (long long)im->version,
                    usual ? "" : proto->domain, usual ? "" : ".", op_of(&n));
    } else if (lacks_input(im, proto)) {
        n.failed = true;
    } else {
        n.constant = is_constant(im, proto);
        n.word = rule->text;
        if (rule->rule)
            rule->rule(&n);
        else
            onnx_give(&n, expand(&n, rule->text));
        count_op(im, &n);
    }
    for (uint32_t i = 0; i < proto->n_output; i++) {
        const char *name = proto->output[i];
        if (*name && !n.failed && i >= n.given)
            onnx_refuse(&n, "its output %u has no counterpart", i);
        if (*name && (n.failed || i >= n.given))
            value_new(im, name);
    }
}

static bool read_arrays(OnnxImport *im)
{
    const Onnx__GraphProto *g = im->model.model->graph;
    for (size_t i = 0; i < g->n_initializer; i++) {
        const Onnx__TensorProto *t = g->initializer[i];
        Buf why = {0};
        OnnxValue *v = t->name ? value_new(im, t->name) : NULL;
        Tensor *array = v ? onnx_tensor(&im->model, t, &why) : NULL;
        if (array)
            set_constant(im, v, array);
        else if (v && !limit_hit(&im->cx->limits))
            refuse(im, text_of(im, "the array `%s`: %s", t->name, buf_text(&why)));
        buf_deinit(&why);
        if (limit_hit(&im->cx->limits))
            return false;
    }
    return true;
}

static const ImportShape *shape_wish(const OnnxImport *im, const char *name)
{
    for (size_t i = 0; i < im->wish->n_shapes; i++)
        if (str_eq(im->wish->shapes[i].name, str_of(name)))
            return &im->wish->shapes[i];
    return NULL;
}

static void read_input(OnnxImport *im, const Onnx__ValueInfoProto *in)
{
    const Onnx__TypeProto__Tensor *t =
        in->type && in->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
            ? in->type->tensor_type
            : NULL;
    DType dtype = onnx_dtype(t ? t->elem_type : 0);
    const ImportShape *wish = shape_wish(im, in->name);
    size_t rank = wish ? (size_t)wish->rank : t && t->shape ? t->shape->n_dim : 0;
    OnnxValue *v = value_new(im, in->name);
    if (!t || dtype_size(dtype) == 0 || rank > TENSOR_RANK_MOST || (!t->shape && !wish)) {
        refuse(im,
               text_of(im, "the input `%s`: %s", in->name,
                       !t                       ? "it is no tensor"
                       : dtype_size(dtype) == 0 ? "Relay has no such element type"
                                                : "its rank is not known (`--shape` can say it)"));
        return;
    }
    Dim dims[TENSOR_RANK_MOST];
    for (size_t i = 0; i < rank; i++) {
        const Onnx__TensorShapeProto__Dimension *d = wish ? NULL : t->shape->dim[i];
        bool known = d && d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        dims[i] = wish ? wish->dims[i] : known && d->dim_value >= 0 ? d->dim_value : DIM_ANY;
    }
    v->type = type_tensor(im->cx, dtype, (uint32_t)rank, dims);
    const Name *name = clean_name(im, in->name, "x_");
    buf_printf(&im->params, "%s%%%s: ", im->params.n ? ", " : "", name->text);
    type_print(&im->params, v->type);
    v->text = add_var(im, name, v->type);
    im->out->inputs++;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = ((const ImportedArray *)a)->number, y = ((const ImportedArray *)b)->number;
    return (x > y) - (x < y);
}

/* Behind the inputs, in the model's order and not in that of their use. */
static void put_arrays(OnnxImport *im)
{
    if (im->out->arrays.n)
        qsort(im->out->arrays.at, im->out->arrays.n, sizeof *im->out->arrays.at, by_number);
    for (size_t i = 0; i < im->out->arrays.n; i++) {
        const ImportedArray *a = &im->out->arrays.at[i];
        buf_printf(&im->params, "%s%%%s: ", im->params.n ? ", " : "", a->name);
        type_print(&im->params, type_of_tensor(im->cx, a->value));
    }
}

static void write_program(OnnxImport *im)
{
    const Onnx__GraphProto *g = im->model.model->graph;
    Buf results = {0};
    for (size_t i = 0; i < g->n_output; i++) {
        OnnxValue *v = g->output[i]->name ? value_of(im, g->output[i]->name) : NULL;
        if (!v) {
            refuse(im, text_of(im, "the result `%s` is given by no node",
                               g->output[i]->name ? g->output[i]->name : ""));
            continue;
        }
        if (v->type || v->constant)
            buf_printf(&results, "%s%s", i ? ", " : "",
                       v->constant ? program_text(im, v) : v->text);
    }
    put_arrays(im);
    buf_printf(&im->out->text, "#[version = \"0.0.5\"]\ndef @main(%s) {\n%s  %s%s%s\n}\n",
               buf_text(&im->params), buf_text(&im->body), g->n_output == 1 ? "" : "(",
               buf_text(&results), g->n_output == 1 ? "" : ")");
    buf_deinit(&results);
}

static void import_graph(OnnxImport *im)
{
    const Onnx__ModelProto *m = im->model.model;
    const Onnx__GraphProto *g = m->graph;
    for (size_t i = 0; i < m->n_opset_import; i++) {
        const char *domain = m->opset_import[i]->domain;
        if (!domain || !*domain || !strcmp(domain, "ai.onnx"))
            im->version = m->opset_import[i]->version;
    }
    if (!read_arrays(im))
        return;
    for (size_t i = 0; i < g->n_input; i++)
        if (g->input[i]->name && !value_of(im, g->input[i]->name))
            read_input(im, g->input[i]);
    for (size_t i = 0; i < g->n_node && !limit_hit(&im->cx->limits); i++)
        import_node(im, g->node[i]);
    if (!limit_hit(&im->cx->limits))
        write_program(im);
    if (im->refusals > REFUSALS_MOST)
        diag_note(im->refused, "and %zu more", im->refusals - REFUSALS_MOST);
}

bool onnx_import(Ctx *cx, Interp *in, const ImportWish *wish, Imported *out)
{
    OnnxImport im = {.cx = cx, .in = in, .wish = wish, .out = out};
    *out = (Imported){0};
    arena_init(&out->arena, &cx->limits);
    im.vars = module_new(cx);
    if (im.vars && onnx_read(&im.model, cx, wish->path))
        import_graph(&im);
    for (size_t i = 0; i < im.values.n; i++)
        tensor_release(((OnnxValue *)im.values.entries[i].value)->constant);
    for (size_t i = 0; i < im.held.n; i++)
        value_release(im.held.at[i]);
    for (size_t i = 0; i < im.arrays.n; i++)
        tensor_release(im.arrays.at[i]);
    onnx_free(&im.model);
    module_release(im.vars);
    ptrmap_deinit(&im.values);
    ptrmap_deinit(&im.taken);
    ptrmap_deinit(&im.locals);
    ptrmap_deinit(&im.known);
    ptrmap_deinit(&im.ops);
    buf_deinit(&im.params);
    buf_deinit(&im.body);
    return !im.refused && !limit_hit(&cx->limits) && out->text.n > 0 && !out->text.failed;
}
