/* Values as JSON, in the encoding of the command line (the only file of session/ that knows Jansson). */
#include "base/memory.h"
#include "base/number.h"
#include "ir/json_graph.h"
#include "runtime/npy.h"
#include "runtime/show.h"
#include "session/internal.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ------------------------------------------------------------------------------------------------------------------ */

static void encode_element(Buf *out, DType dtype, const char *at)
{
    Value v = value_scalar(dtype, at);
    if (dtype_is_bool(dtype)) {
        buf_str(out, value_is_true(v) ? "true" : "false");
        return;
    }
    if (!dtype_is_float(dtype)) {
        element_show(out, dtype, at);
        return;
    }
    double d = value_as_double(v);
    if (isnan(d))
        buf_str(out, "\"nan\"");
    else if (isinf(d))
        buf_str(out, d > 0 ? "\"inf\"" : "\"-inf\"");
    else {
        size_t from = out->n;
        element_show(out, dtype, at);
        /* A JSON reader tells floats from integers by their spelling. */
        if (!strpbrk(buf_text(out) + from, ".e"))
            buf_str(out, ".0");
    }
}

static void encode_tensor(Buf *out, const Tensor *t)
{
    buf_str(out, "{\"dtype\": \"");
    dtype_print(out, t->dtype);
    buf_str(out, "\", \"shape\": [");
    for (int32_t i = 0; i < t->rank; i++)
        buf_printf(out, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
    buf_str(out, "], \"data\": [");
    for (int64_t i = 0; i < t->size; i++) {
        buf_str(out, i ? ", " : "");
        encode_element(out, t->dtype, tensor_element(t, i));
    }
    buf_str(out, "]}");
}

/* What is left to write: a value, or the text that closes the one around it. */
typedef struct Todo {
    Value value;
    const char *text;
} Todo;

typedef struct Encoder {
    Buf *out;
    Arena arena;
    Vec(Todo) todo;
} Encoder;

static void later(Encoder *en, Value v, const char *text)
{
    vec_push(&en->todo, &en->arena, ((Todo){v, text}));
}

static void encode_fields(Encoder *en, const Object *o, const char *close)
{
    later(en, value_none(), close);
    for (uint32_t i = object_n(o); i-- > 0;) {
        later(en, object_get(o, i), NULL);
        if (i)
            later(en, value_none(), ", ");
    }
}

static void encode_one(Encoder *en, Value v)
{
    TensorView view;
    switch ((ValueKind)v.kind) {
    case VALUE_SCALAR:
    case VALUE_TENSOR:
        if (value_view(&v, &view))
            encode_tensor(en->out, &view.t);
        return;
    case VALUE_TUPLE:
        buf_str(en->out, "{\"tuple\": [");
        encode_fields(en, v.object, "]}");
        return;
    case VALUE_CON:
        buf_printf(en->out, "{\"constructor\": \"%s\", \"fields\": [", object_info(v.object)->name);
        encode_fields(en, v.object, "]}");
        return;
    case VALUE_REF:
        buf_str(en->out, "{\"ref\": ");
        encode_fields(en, v.object, "}");
        return;
    case VALUE_FUNCTION: {
        Buf type = {0};
        type_print(&type, function_kind(v.object)->type(v.object));
        buf_str(en->out, "{\"function\": \"");
        buf_json(en->out, buf_text(&type), type.n);
        buf_str(en->out, "\"}");
        buf_deinit(&type);
        return;
    }
    case VALUE_NONE: buf_str(en->out, "null"); return;
    }
}

void json_encode_value(RelaySession *s, Buf *out, Value v)
{
    Encoder en = {.out = out};
    arena_init(&en.arena, &s->cx.limits);
    later(&en, v, NULL);
    while (en.todo.n && !limit_hit(&s->cx.limits)) {
        Todo t = vec_pop(&en.todo);
        if (t.text)
            buf_str(out, t.text);
        else
            encode_one(&en, t.value);
    }
    arena_deinit(&en.arena);
}

/* ---- reading ------------------------------------------------------------------------------------------------------------------ */

typedef struct Decoder {
    RelaySession *s;
    Module *module;
    const char *path;
} Decoder;

static Value wrong(Decoder *de, const char *what)
{
    diag_error(de->s->cx.diags, E0403_FORMAT, (Span){0}, "`%s`: %s", de->path, what);
    return value_none();
}

/* A whole number, which is n, or n + 2^64 where it lies `above` what an int64 holds; false where the element type does not have it. */
static bool decode_whole(DType dtype, int64_t n, bool above, Value *v)
{
    bool wide = dtype.code == DTYPE_CODE_UINT && dtype.bits == 64;
    *v = value_scalar_int(dtype, n);
    return value_as_int(*v) == n && (wide ? above || n >= 0 : !above);
}

static bool decode_real(DType dtype, double d, Value *v)
{
    *v = value_scalar_double(dtype, d);
    return dtype_is_float(dtype) || value_as_double(*v) == d;
}

static bool decode_text(DType dtype, Str s, Value *v)
{
    uint64_t n;
    double d;
    if (!dtype_is_float(dtype) && number_parse_uint(s, &n))
        return decode_whole(dtype, (int64_t)n, n > INT64_MAX, v);
    return number_parse_double(s, &d) && decode_real(dtype, d, v);
}

static bool decode_number(DType dtype, json_t *j, char *at)
{
    Value v;
    bool good = json_is_boolean(j)      ? decode_whole(dtype, json_is_true(j), false, &v)
                : json_is_real(j)       ? decode_real(dtype, json_real_value(j), &v)
                : json_is_string(j)     ? decode_text(dtype, str_of(json_string_value(j)), &v)
                : !json_is_integer(j)   ? false
                : dtype_is_float(dtype) ? decode_real(dtype, (double)json_integer_value(j), &v)
                                        : decode_whole(dtype, json_integer_value(j), false, &v);
    if (good)
        memcpy(at, &v.bits, dtype_size(dtype));
    return good;
}

static Value decode_tensor(Decoder *de, json_t *j)
{
    DType dtype;
    json_t *shape = json_object_get(j, "shape"), *data = json_object_get(j, "data");
    const char *name = json_string_value(json_object_get(j, "dtype"));
    if (!name || !dtype_parse(str_of(name), &dtype) || dtype_size(dtype) == 0)
        return wrong(de, "a tensor needs a \"dtype\" that can be stored");
    if (!json_is_array(shape) || json_array_size(shape) > TENSOR_RANK_MOST)
        return wrong(de, "a tensor needs a \"shape\", a list of at most 32 extents");
    int64_t extents[TENSOR_RANK_MOST];
    int32_t rank = (int32_t)json_array_size(shape);
    for (int32_t i = 0; i < rank; i++) {
        json_t *extent = json_array_get(shape, (size_t)i);
        extents[i] = json_is_integer(extent) ? json_integer_value(extent) : -1;
    }
    int64_t size;
    if (!shape_size(rank, extents, &size) || !json_is_array(data) ||
        (int64_t)json_array_size(data) != size)
        return wrong(de, "the \"data\" of a tensor must have as many elements as its shape says");
    Tensor *t = tensor_new(&de->s->cx.limits, dtype, rank, extents);
    for (int64_t i = 0; t && i < size; i++)
        if (!decode_number(dtype, json_array_get(data, (size_t)i),
                           t->data + (size_t)i * dtype_size(dtype))) {
            tensor_release(t);
            return wrong(de, "an element of \"data\" is no number that the \"dtype\" has");
        }
    return value_tensor(t);
}

/* Jansson reads at most 2048 levels, so this may recurse. */
static Value decode_value(Decoder *de, json_t *j);

static Value decode_fields(Decoder *de, const ObjectInfo *info, json_t *fields)
{
    size_t n = json_array_size(fields);
    Object *o = object_new(&de->s->cx.limits, info, (uint32_t)n);
    for (size_t i = 0; o && i < n; i++) {
        Value field = decode_value(de, json_array_get(fields, i));
        object_set(o, (uint32_t)i, field);
        if (value_is_none(field)) {
            value_release(value_object(o));
            return value_none();
        }
    }
    return o ? value_object(o) : value_none();
}

static Value decode_constructor(Decoder *de, json_t *j)
{
    const char *name = json_string_value(json_object_get(j, "constructor"));
    const Constructor *con = name ? module_find_con(de->module, ctx_name(&de->s->cx, name)) : NULL;
    json_t *fields = json_object_get(j, "fields");
    if (!con)
        return wrong(de, "a \"constructor\" that the program does not define");
    if (json_array_size(fields) != con->n)
        return wrong(de, "a constructor with the wrong number of \"fields\"");
    return con->n ? decode_fields(de, con->info, fields) : value_object(con->info->nullary);
}

static Value decode_value(Decoder *de, json_t *j)
{
    if (json_is_integer(j)) {
        int64_t n = json_integer_value(j);
        return n == (int32_t)n ? value_int32((int32_t)n)
                               : value_scalar_int((DType){DTYPE_CODE_INT, 64, 1}, n);
    }
    if (json_is_real(j)) {
        float x = (float)json_real_value(j);
        return isfinite(x) ? value_float32(x) : wrong(de, "a number that is too large for float32");
    }
    if (json_is_boolean(j))
        return value_bool(json_is_true(j));
    if (json_object_get(j, "dtype"))
        return decode_tensor(de, j);
    json_t *part = json_object_get(j, "tuple");
    if (json_is_array(part))
        return json_array_size(part) ? decode_fields(de, &tuple_info, part) : value_unit();
    if (json_object_get(j, "constructor"))
        return decode_constructor(de, j);
    part = json_object_get(j, "ref");
    if (!part)
        return wrong(de, "a value must have \"dtype\", \"tuple\", \"constructor\" or \"ref\"");
    json_t *one = json_pack("[O]", part);
    Value v = one ? decode_fields(de, &ref_info, one) : value_none();
    json_decref(one);
    return v;
}

static bool names_are_params(Decoder *de, json_t *root, const Function *fn)
{
    const char *name;
    json_t *value;
    json_object_foreach(root, name, value)
    {
        if (param_index(fn, name, strlen(name)) >= 0)
            continue;
        diag_error(de->s->cx.diags, E0305_ARGUMENTS, (Span){0},
                   "`%s` names `%s`, which is no parameter of the function", de->path, name);
        return false;
    }
    return true;
}

static bool decode_args(Decoder *de, json_t *root, const Function *fn, Value *args)
{
    bool by_name = json_is_object(root);
    if (!by_name && !json_is_array(root)) {
        wrong(de, "arguments are a JSON array, or an object by parameter name");
        return false;
    }
    if (!by_name && json_array_size(root) > fn->params.n) {
        diag_error(de->s->cx.diags, E0305_ARGUMENTS, (Span){0},
                   "`%s` holds %zu arguments, the function takes %u", de->path,
                   json_array_size(root), fn->params.n);
        return false;
    }
    if (by_name && !names_are_params(de, root, fn))
        return false;
    for (uint32_t i = 0; i < fn->params.n; i++) {
        json_t *j =
            by_name ? json_object_get(root, fn->params.at[i]->name->text) : json_array_get(root, i);
        if (!j)
            continue;
        value_release(args[i]);
        args[i] = decode_value(de, j);
        if (value_is_none(args[i]))
            return false;
    }
    return true;
}

/* Memory that Jansson is refused is counted (base/memory.h): what it says then is no judgement of a text. Where the program that
 * relay is a part of gave Jansson functions of its own, these stay. */
static void count_refusals(void)
{
    json_malloc_t alloc;
    json_free_t give_back;
    json_get_alloc_funcs(&alloc, &give_back);
    if (alloc == malloc)
        json_set_alloc_funcs(memory_alloc, give_back);
}

/* The text with whole numbers that an int64 does not hold in quotes, as decode_text reads them. */
static void quote_wide(Buf *out, const char *text, size_t len)
{
    bool quoted = false;
    for (size_t i = 0, n; i < len; i += n) {
        int64_t narrow;
        uint64_t wide;
        n = quoted ? 0 : strspn(text + i, "0123456789+-.eE");
        bool quotes = n && !number_parse_int((Str){text + i, n}, &narrow) &&
                      number_parse_uint((Str){text + i, n}, &wide);
        quoted ^= n == 0 && text[i] == '"';
        if (n == 0)
            n = quoted && text[i] == '\\' && i + 1 < len ? 2 : 1;
        buf_str(out, quotes ? "\"" : "");
        buf_bytes(out, text + i, n);
        buf_str(out, quotes ? "\"" : "");
    }
}

enum { JANSSON_DEPTH_MOST = 2048 }; /* its own bound, which it names nowhere */

bool json_read_args(RelaySession *s, const char *path, Module *m, const Function *fn, Value *args)
{
    size_t len;
    char *text = file_read(&s->cx.limits, s->cx.diags, path, &len);
    if (!text)
        return false;
    json_error_t error;
    count_refusals();
    json_t *root = json_loadb(text, len, JSON_ALLOW_NUL, &error);
    if (!root && json_error_code(&error) == json_error_numeric_overflow) {
        Buf again = {0};
        quote_wide(&again, text, len);
        root = json_loadb(buf_text(&again), again.n, JSON_ALLOW_NUL, &error);
        buf_deinit(&again);
    }
    free(text);
    if (!root && limit_refused(&s->cx.limits))
        return false;
    if (!root && json_error_code(&error) == json_error_stack_overflow) {
        Diag *d = diag_error(s->cx.diags, E0403_FORMAT, (Span){0},
                             "`%s` is nested more than %d levels deep, which is not read", path,
                             JANSSON_DEPTH_MOST);
        diag_note(d, "each cell of a list takes two levels");
        diag_help(d, "give what is long as a tensor, and let the program make the list of it");
        return false;
    }
    if (!root) {
        diag_error(s->cx.diags, E0403_FORMAT, (Span){0}, "`%s` is not JSON: line %d, column %d: %s",
                   path, error.line, error.column, error.text);
        return false;
    }
    Decoder de = {s, m, path};
    bool ok = decode_args(&de, root, fn, args);
    json_decref(root);
    return ok;
}
