/* What rules ask about a node and how they say what it gives. */
#include "exchange/onnx_internal.h"

#include "base/number.h"
#include "ir/print.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Lines of a row's text. */
#define STEPS_MOST 16

static const char *name_of(const OnnxNode *n)
{
    return n->proto->name && *n->proto->name ? n->proto->name
           : n->proto->n_output              ? n->proto->output[0]
                                             : "";
}

/* ---- what lines are called ---------------------------------------------------------------------------------------------------- */

/* The module in which the node stands and what it is there, `/layer1/layer1.0/conv1/Conv`: exporters name values so, or say modules in metadata. */
static const char *path_of(OnnxImport *im, const Onnx__NodeProto *node, const char *value)
{
    static const char ending[] = "_output_0";
    size_t n = strlen(value), tail = sizeof ending - 1;
    Buf scopes = {0};
    const char *path = NULL;
    if (node->n_output && value == node->output[0] &&
        onnx_metadata(&im->model, node, "pkg.torch.onnx.name_scopes", &scopes)) {
        /* `['', 'layer1', 'layer1.0', 'conv2d_1']`: the one before the last */
        const char *end = NULL, *p = buf_text(&scopes);
        Str module = {"", 0}, last = {"", 0};
        for (; (p = strchr(p, '\'')) && (end = strchr(p + 1, '\'')); p = end + 1) {
            module = last;
            last = (Str){p + 1, (size_t)(end - p - 1)};
        }
        if (module.len)
            path = import_text(im, "%.*s/%s", (int)module.len, module.ptr, node->op_type);
    }
    buf_deinit(&scopes);
    if (path)
        return path;
    if (n > tail && !strcmp(value + n - tail, ending))
        n -= tail;
    bool number = value[strspn(value, "0123456789")] == 0;
    return number && node->name && *node->name ? node->name
                                               : import_text(im, "%.*s", (int)n, value);
}

static const Name *scope_of(OnnxImport *im, const char *path)
{
    const char *slash = strrchr(path, '/');
    return ctx_name_str(im->cx, (Str){path, slash ? (size_t)(slash - path) : 0});
}

void import_scopes(OnnxImport *im, const Onnx__GraphProto *g)
{
    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__NodeProto *node = g->node[i];
        if (node->n_output == 0 || !node->op_type || !strcmp(node->op_type, "Constant"))
            continue;
        const Name *scope = scope_of(im, path_of(im, node, node->output[0]));
        uintptr_t count = (uintptr_t)ptrmap_find(&im->scopes, scope);
        ptrmap_put(&im->scopes, scope, (void *)(count + 1));
    }
}

/* A module that is one node, or is called as what it does, gives that its name. Of modules in modules that repeat how they begin (`layer1`, `layer1.0`) the last says all. */
static const char *title_of(OnnxNode *n, const char *value)
{
    const char *path = path_of(n->im, n->proto, value), *op = n->proto->op_type;
    const char *leaf = strrchr(path, '/');
    const Name *scope = scope_of(n->im, path);
    const char *inner = scope->text + strlen(scope->text);
    while (inner > scope->text && !strchr("/.", inner[-1]))
        inner--;
    bool alone = (uintptr_t)ptrmap_find(&n->im->scopes, scope) == 1;
    if (leaf && *scope->text && op && !strcmp(leaf + 1, op) && (alone || !strcasecmp(inner, op)))
        path = scope->text;
    Buf b = {0};
    for (const char *p = path, *end; *p; p = *end ? end + 1 : end) {
        size_t k = strcspn(p, "/");
        end = p + k;
        bool goes_on = *end && !strncmp(end + 1, p, k) && end[1 + k] == '.';
        if (k > 0 && !goes_on)
            buf_printf(&b, "%s%.*s", b.n ? "/" : "", (int)k, p);
    }
    return buf_keep(&b, &n->im->out->arena);
}

void onnx_refuse(OnnxNode *n, const char *format, ...)
{
    if (n->failed)
        return;
    n->failed = true;
    Buf b = {0};
    buf_printf(&b, "%s `%s`: ", n->proto->op_type ? n->proto->op_type : "", name_of(n));
    va_list args;
    va_start(args, format);
    buf_vprintf(&b, format, args);
    va_end(args);
    import_refuse(n->im, buf_text(&b));
    buf_deinit(&b);
}

/* ---- inputs ----------------------------------------------------------------------------------------------------------------- */

Ctx *onnx_ctx(OnnxNode *n)
{
    return n->im->cx;
}

Limits *onnx_limits(OnnxNode *n)
{
    return &n->im->cx->limits;
}

bool onnx_has(const OnnxNode *n, size_t i)
{
    return i < n->proto->n_input && *n->proto->input[i];
}

OnnxValue *onnx_value(OnnxNode *n, size_t i)
{
    OnnxValue *v = onnx_has(n, i) ? import_value(n->im, n->proto->input[i]) : NULL;
    if (!v)
        onnx_refuse(n, "input %zu is not there", i);
    return v && (v->type || v->constant || v->open) ? v : NULL;
}

const char *onnx_in(OnnxNode *n, size_t i)
{
    OnnxValue *v = onnx_value(n, i);
    if (!v)
        return "0";
    if (v->constant)
        return n->constant ? import_here_text(n->im, v) : import_program_text(n->im, v);
    return v->text;
}

static const Type *in_type(OnnxNode *n, size_t i)
{
    OnnxValue *v = onnx_value(n, i);
    if (v && v->type && v->type->kind == TYPE_TENSOR)
        return v->type;
    onnx_refuse(n, "input %zu is no tensor", i);
    return NULL;
}

const char *onnx_scalar(OnnxNode *n, size_t i)
{
    const char *x = onnx_in(n, i);
    return onnx_rank(n, i) == 0 ? x : onnx_text(n, "reshape(%s, newshape=[])", x);
}

const char *onnx_scalar_as(OnnxNode *n, size_t i, DType dtype)
{
    const char *x = onnx_scalar(n, i);
    return dtype_eq(onnx_in_dtype(n, i), dtype)
               ? x
               : onnx_text(n, "cast(%s, dtype=\"%s\")", x, onnx_dtype_text(n, dtype));
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

/* What lies beyond is as good as endless, and rules may add to it. */
static int64_t within(int64_t v)
{
    const int64_t most = (int64_t)1 << 53;
    return v > most ? most : v < -most ? -most : v;
}

Dim onnx_element(const OnnxValue *v, uint32_t k)
{
    if (v->constant && k < v->constant->size && !dtype_is_float(v->constant->dtype))
        return tensor_get_int(v->constant, k);
    return v->extents && k < v->n_extents ? v->extents[k] : DIM_ANY;
}

bool onnx_is_known(OnnxNode *n, size_t i)
{
    OnnxValue *v = onnx_has(n, i) ? onnx_value(n, i) : NULL;
    return !v || v->constant;
}

OnnxInts onnx_ints(OnnxNode *n, size_t i)
{
    OnnxInts out = {.n = -1};
    if (!onnx_has(n, i))
        return out;
    OnnxValue *v = onnx_value(n, i);
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
        out.at[k] = within(tensor_get_int(v->constant, k));
    return out;
}

double onnx_number(OnnxNode *n, size_t i, int64_t k)
{
    OnnxValue *v = onnx_value(n, i);
    if (v && v->constant && v->constant->size > k)
        return tensor_get_double(v->constant, k);
    onnx_refuse(n, "input %zu is known only when the program runs", i);
    return 0;
}

long long onnx_integer(OnnxNode *n, size_t i)
{
    const double most = (double)((int64_t)1 << 40);
    double v = onnx_number(n, i, 0);
    return (long long)(v >= most ? most : v > -most ? v : -most);
}

/* ---- attributes ------------------------------------------------------------------------------------------------------------- */

/* In a function an attribute may stand for one of the call. */
const Onnx__AttributeProto *onnx_attr(const OnnxNode *n, const char *name)
{
    const Onnx__NodeProto *proto = n->proto;
    const OnnxBlock *b = n->im->block;
    const Onnx__FunctionProto *of = NULL; /* whose call `proto` is */
    for (size_t i = 0; i < proto->n_attribute; i++) {
        const Onnx__AttributeProto *a = proto->attribute[i];
        if (!a->name || strcmp(a->name, name) != 0)
            continue;
        if (!a->ref_attr_name || !*a->ref_attr_name)
            return a;
        while (b && !b->call)
            b = b->outer;
        if (!b)
            return NULL;
        proto = b->call->proto;
        of = b->function;
        name = a->ref_attr_name;
        b = b->outer;
        i = (size_t)-1;
    }
    return of ? onnx_default(&n->im->model, of, name) : NULL;
}

bool onnx_has_attr(const OnnxNode *n, const char *name)
{
    return onnx_attr(n, name) != NULL;
}

int64_t onnx_attr_int(const OnnxNode *n, const char *name, int64_t otherwise)
{
    const Onnx__AttributeProto *a = onnx_attr(n, name);
    return a && a->has_i ? within(a->i) : otherwise;
}

int64_t onnx_attr_axis(OnnxNode *n, const char *name, int64_t otherwise, int rank)
{
    int64_t axis = onnx_attr_int(n, name, otherwise);
    axis += axis < 0 ? rank : 0;
    if (axis >= 0 && axis < rank)
        return axis;
    onnx_refuse(n, "there is no axis %lld", (long long)axis);
    return 0;
}

double onnx_attr_float(const OnnxNode *n, const char *name, double otherwise)
{
    const Onnx__AttributeProto *a = onnx_attr(n, name);
    return a && a->has_f ? (double)a->f : otherwise;
}

const char *onnx_attr_text(OnnxNode *n, const char *name, const char *otherwise)
{
    const Onnx__AttributeProto *a = onnx_attr(n, name);
    if (!a || !a->has_s)
        return otherwise;
    return arena_copy_text(&n->im->out->arena, (const char *)a->s.data, a->s.len);
}

OnnxInts onnx_attr_ints(OnnxNode *n, const char *name)
{
    const Onnx__AttributeProto *a = onnx_attr(n, name);
    OnnxInts out = {.n = -1};
    if (!a)
        return out;
    if (a->n_ints > ONNX_INTS_MOST) {
        onnx_refuse(n, "attribute `%s` has %zu numbers", name, a->n_ints);
        return out;
    }
    out.n = (int)a->n_ints;
    for (size_t i = 0; i < a->n_ints; i++)
        out.at[i] = within(a->ints[i]);
    return out;
}

/* ---- texts ------------------------------------------------------------------------------------------------------------------ */

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

const char *onnx_dtype_text(OnnxNode *n, DType dtype)
{
    Buf b = {0};
    dtype_print(&b, dtype);
    return buf_keep(&b, &n->im->out->arena);
}

const char *onnx_type_text(OnnxNode *n, const Type *t)
{
    return import_type_text(n->im, t);
}

const char *onnx_literal(OnnxNode *n, double v, DType dtype)
{
    const char *text = import_literal(n->im, value_scalar_double(dtype, v));
    if (text)
        return text;
    return onnx_text(n, "cast(%s, dtype=\"%s\")",
                     import_literal(n->im, value_scalar_double(dtype_of(DT_FLOAT32), v)),
                     onnx_dtype_text(n, dtype));
}

/* ---- what they say ---------------------------------------------------------------------------------------------------------- */

static void hold_constant(OnnxNode *n, OnnxValue *v, Tensor *t)
{
    if (t)
        import_constant(n->im, v, t);
    else
        onnx_refuse(n, "there is no memory for a constant");
}

const char *onnx_array(OnnxNode *n, Tensor *t, const char *hint)
{
    OnnxValue *v = arena_new(&n->im->out->arena, OnnxValue);
    v->number = n->im->numbers++;
    v->name = onnx_text(n, "%s_%s", n->proto->n_output ? n->proto->output[0] : "", hint);
    hold_constant(n, v, t);
    if (!v->constant)
        return "0";
    return n->constant ? import_here_text(n->im, v) : import_program_text(n->im, v);
}

const char *onnx_let(OnnxNode *n, const char *text)
{
    OnnxValue *v = arena_new(&n->im->out->arena, OnnxValue);
    v->name = name_of(n);
    if (!import_line(n, text,
                     import_name(n->im, onnx_text(n, "%s_part", title_of(n, v->name)), "v_"), v))
        return "0";
    return v->constant ? import_here_text(n->im, v) : v->text;
}

const char *onnx_step(OnnxNode *n, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = buf_vkeep(&n->im->out->arena, format, args);
    va_end(args);
    return onnx_let(n, text);
}

const Type *onnx_type_of(OnnxNode *n, const char *variable)
{
    const Var *v =
        *variable == '%' ? ptrmap_find(&n->im->locals, ctx_name(n->im->cx, variable + 1)) : NULL;
    if (v)
        return v->base.type;
    n->failed |= n->large; /* without effect: the rule runs again */
    return type_scalar(n->im->cx, dtype_of(DT_FLOAT32));
}

const char *onnx_name(OnnxNode *n, const char *hint)
{
    return import_name(n->im, hint, "v_")->text;
}

void onnx_define(OnnxNode *n, const char *name, const char *text)
{
    OnnxValue v = {0};
    import_line(n, text, ctx_name(n->im->cx, name), &v);
}

bool onnx_wants(const OnnxNode *n, size_t output)
{
    return output < n->proto->n_output && *n->proto->output[output];
}

/* The value of the next output; NULL when the node has no such, or nobody wants it. */
static OnnxValue *next_output(OnnxNode *n)
{
    uint32_t i = n->given++;
    return onnx_wants(n, i) ? import_value_new(n->im, n->proto->output[i]) : NULL;
}

void onnx_give(OnnxNode *n, const char *text)
{
    OnnxValue *v = next_output(n);
    if (!v)
        return;
    const char *value = n->proto->output[n->given - 1];
    const Name *name = import_name(n->im, title_of(n, value), "v_");
    ptrmap_put(&n->im->origins, name, (void *)(uintptr_t)v->name);
    import_line(n, text, name, v);
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
        text = onnx_literal(n, tensor_get_double(v, 0), v->dtype);
    tensor_release(v);
    if (!text)
        onnx_refuse(n, "a constant that is no single number");
    return text ? text : "0";
}

void onnx_give_value(OnnxNode *n, const OnnxValue *from)
{
    OnnxValue *to = next_output(n);
    if (!from || !to || n->failed)
        return;
    const char *name = to->name;
    *to = *from;
    to->name = from->text || !from->constant ? from->name : name;
}

void onnx_give_input(OnnxNode *n, size_t i)
{
    onnx_give_value(n, onnx_value(n, i));
}

void onnx_give_open(OnnxNode *n, const char *text)
{
    OnnxValue *to = next_output(n);
    if (to)
        to->open = true, to->text = text;
}

void onnx_know(OnnxNode *n, size_t i, uint32_t count, const Dim *extents)
{
    OnnxValue *v = onnx_wants(n, i) ? import_value(n->im, n->proto->output[i]) : NULL;
    if (!v || v->constant || !v->type || v->type->kind != TYPE_TENSOR || v->type->n > 1)
        return;
    bool all = true;
    for (uint32_t k = 0; k < count; k++)
        all &= extents[k] >= 0;
    if (!all) {
        v->extents = arena_copy(&n->im->out->arena, extents, (count + 1) * sizeof *extents);
        v->n_extents = count;
        return;
    }
    Tensor *t = tensor_new(onnx_limits(n), v->type->dtype, (int32_t)v->type->n, &(int64_t){count});
    if (!t)
        return;
    for (uint32_t k = 0; k < count; k++)
        memcpy((char *)t->data + k * dtype_size(t->dtype), &extents[k], dtype_size(t->dtype));
    v->text = NULL;
    import_constant(n->im, v, t);
}

void onnx_narrow(OnnxNode *n, size_t i, int bits)
{
    OnnxValue *v = onnx_wants(n, i) ? import_value(n->im, n->proto->output[i]) : NULL;
    if (v && bits < 8)
        v->bits = (uint8_t)bits;
}

/* ---- rules that are texts --------------------------------------------------------------------------------------------------- */

static void put_attr(OnnxNode *n, Buf *b, char kind, const char *inner)
{
    const char *eq = strchr(inner, '=');
    const char *name = onnx_text(n, "%.*s", (int)(eq - inner), inner), *otherwise = eq + 1;
    switch (kind) {
    case 'i':
        buf_printf(b, "%lld", (long long)onnx_attr_int(n, name, strtoll(otherwise, NULL, 10)));
        return;
    case 'b':
        buf_str(b, onnx_bool(onnx_attr_int(n, name, strtoll(otherwise, NULL, 10)) != 0));
        return;
    case 'l': {
        OnnxInts ints = onnx_attr_ints(n, name);
        buf_str(b, ints.n < 0 ? otherwise : onnx_list(n, ints));
        return;
    }
    case 'f':
    case 'a':
        buf_str(b, onnx_literal(n, onnx_attr_float(n, name, strtod(otherwise, NULL)),
                                kind == 'f' ? dtype_of(DT_FLOAT32) : onnx_in_dtype(n, 0)));
        return;
    default: buf_str(b, onnx_attr_text(n, name, otherwise)); return;
    }
}

/* An element type that an attribute names; the first input's where none does. */
static DType chosen_dtype(OnnxNode *n)
{
    int64_t to = onnx_attr_int(n, onnx_has_attr(n, "to") ? "to" : "dtype", 0);
    DType dtype = to == 0 ? onnx_in_dtype(n, 0) : onnx_dtype((int32_t)to);
    if (dtype_size(dtype) == 0)
        onnx_refuse(n, "Relay has no element type `%s`", onnx_dtype_name((int32_t)to));
    return dtype_size(dtype) == 0 ? dtype_of(DT_FLOAT32) : dtype;
}

static void put_inputs(OnnxNode *n, Buf *b)
{
    for (size_t i = 0; i < n->proto->n_input; i++)
        buf_printf(b, "%s%s", i ? ", " : "", onnx_in(n, i));
}

/* What stands behind a `$`; gives its last character. */
static const char *put_part(OnnxNode *n, Buf *b, const char *p)
{
    char kind = *p;
    if (kind >= '0' && kind <= '9') {
        buf_str(b, onnx_in(n, (size_t)(kind - '0')));
        return p;
    }
    if (kind == '*') {
        put_inputs(n, b);
        return p;
    }
    if (kind == 'T') {
        dtype_print(b, chosen_dtype(n));
        return p;
    }
    if (kind == 't') {
        bool which = p[1] >= '0' && p[1] <= '9';
        dtype_print(b, onnx_in_dtype(n, which ? (size_t)(p[1] - '0') : 0));
        return which ? p + 1 : p;
    }
    const char *close = strchr(p, '}');
    const char *inner = onnx_text(n, "%.*s", (int)(close - p - 2), p + 2);
    if (kind == 'n')
        buf_str(b, onnx_literal(n, strtod(inner, NULL), onnx_in_dtype(n, 0)));
    else if (kind == 'd')
        buf_printf(b, "%lld", (long long)onnx_known_extent(n, 0, strtoll(inner, NULL, 10)));
    else
        put_attr(n, b, kind, inner);
    return close;
}

/* `%a` of the lines so far stands for the variable that its line got. */
typedef struct Steps {
    int n;
    Str names[STEPS_MOST];
    const char *texts[STEPS_MOST];
} Steps;

static const char *expand(OnnxNode *n, Str text, const Steps *steps)
{
    Buf b = {0};
    const char *end = text.ptr + text.len;
    for (const char *p = text.ptr; p < end; p++) {
        if (*p == '$') {
            p = put_part(n, &b, p + 1);
            continue;
        }
        int found = -1;
        for (int i = 0; *p == '%' && i < steps->n; i++)
            if (!strncmp(p + 1, steps->names[i].ptr, steps->names[i].len))
                found = i;
        if (found >= 0) {
            buf_str(&b, steps->texts[found]);
            p += steps->names[found].len;
        } else {
            buf_char(&b, *p);
        }
    }
    return buf_keep(&b, &n->im->out->arena);
}

void onnx_recipe(OnnxNode *n, const char *text)
{
    Steps steps = {0};
    for (const char *end; !strncmp(text, "let %", 5) && (end = strstr(text, "; "));
         text = end + 2) {
        const char *is = strstr(text, " = ");
        const char *line = onnx_let(n, expand(n, (Str){is + 3, (size_t)(end - is - 3)}, &steps));
        steps.names[steps.n] = (Str){text + 5, (size_t)(is - text - 5)};
        steps.texts[steps.n++] = line;
    }
    for (const char *end = text; end; text = end + 3) {
        end = strstr(text, " | ");
        onnx_give(n, expand(n, (Str){text, end ? (size_t)(end - text) : strlen(text)}, &steps));
        if (!end)
            return;
    }
}
