#include "ir/metadata.h"

#include "base/number.h"

#include <jansson.h>
#include <string.h>

#define MAGIC 0xDD5E40F096B4A13Fu

/* ---- base64 ------------------------------------------------------------------------------------------------------------------- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void put_base64(Buf *out, const unsigned char *p, size_t n)
{
    for (; n >= 3; n -= 3, p += 3) {
        char four[4] = {digits[p[0] >> 2], digits[(p[0] & 3) << 4 | p[1] >> 4],
                        digits[(p[1] & 15) << 2 | p[2] >> 6], digits[p[2] & 63]};
        buf_bytes(out, four, 4);
    }
    if (n == 0)
        return;
    unsigned second = n == 2 ? p[1] : 0;
    buf_char(out, digits[p[0] >> 2]);
    buf_char(out, digits[(p[0] & 3) << 4 | second >> 4]);
    buf_char(out, n == 2 ? digits[(second & 15) << 2] : '=');
    buf_char(out, '=');
}

static int digit_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* False when a character is no digit. */
static bool get_base64(Buf *out, const char *s, size_t n)
{
    uint32_t bits = 0;
    int count = 0;
    buf_reserve(out, n / 4 * 3 + 3);
    for (size_t i = 0; i < n && s[i] != '='; i++) {
        int v = digit_value(s[i]);
        if (v < 0)
            return false;
        bits = bits << 6 | (uint32_t)v;
        count += 6;
        if (count < 8)
            continue;
        count -= 8;
        buf_char(out, (char)(bits >> count & 255));
    }
    return !out->failed;
}

/* ---- reading ---------------------------------------------------------------------------------------------------------------------- */

typedef struct Reader {
    Ctx *cx;
    Arena *arena;
    Span span;
    const json_t *nodes;
    const json_t *arrays;
    Value *values; /* of each array once it was read; owned */
    size_t n_values;
    Metadata *out;
} Reader;

static bool wrong(const Reader *r, const char *what)
{
    diag_error(r->cx->diags, E0117_METADATA, r->span, "the metadata cannot be read: %s", what);
    return false;
}

static uint64_t get_word(const char *p, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes; i-- > 0;)
        v = v << 8 | (unsigned char)p[i];
    return v;
}

enum { HEAD = 32 };

/* Magic, 8 bytes reserved, device type and id, rank, element type; shape; size; data. */
static bool read_tensor(const Reader *r, const Buf *b, Value *out)
{
    const char *p = buf_text(b);
    int64_t shape[TENSOR_RANK_MOST];
    if (b->n < HEAD || get_word(p, 8) != MAGIC)
        return wrong(r, "an array does not begin as it must");
    uint64_t rank = get_word(p + 24, 4);
    DType dtype = {
        .code = (uint8_t)p[28], .bits = (uint8_t)p[29], .lanes = (uint16_t)get_word(p + 30, 2)};
    if (rank > TENSOR_RANK_MOST || b->n < HEAD + 8 * rank + 8)
        return wrong(r, "an array has too many axes");
    for (uint64_t i = 0; i < rank; i++)
        shape[i] = (int64_t)get_word(p + HEAD + 8 * i, 8);
    const char *data = p + HEAD + 8 * rank + 8;
    size_t left = b->n - (size_t)(data - p), wanted;
    int64_t size;
    if (dtype_size(dtype) == 0)
        return wrong(r, "an array has an element type that cannot be stored");
    if (!shape_size((int32_t)rank, shape, &size) ||
        !size_mul((size_t)size, dtype_size(dtype), &wanted) || wanted > left)
        return wrong(r, "an array is shorter than its shape says");
    Tensor *t = tensor_new_raw(&r->cx->limits, dtype, (int32_t)rank, shape);
    if (!t)
        return false;
    if (wanted)
        memcpy(t->data, data, wanted);
    *out = value_tensor(t);
    return true;
}

static bool read_array(Reader *r, size_t index, Value *out)
{
    if (index >= r->n_values)
        return wrong(r, "a constant refers to an array that is not there");
    Value *value = &r->values[index];
    if (value_is_none(*value)) {
        const json_t *text = json_array_get(r->arrays, index);
        Buf b = {0};
        bool ok = json_is_string(text) &&
                  get_base64(&b, json_string_value(text), json_string_length(text));
        ok = ok ? read_tensor(r, &b, value) : wrong(r, "an array is not in base64");
        buf_deinit(&b);
        if (!ok)
            return false;
    }
    *out = value_retain(*value);
    return true;
}

/* Indices come as decimal strings inside attrs. */
static bool read_index(const json_t *v, size_t *out)
{
    int64_t i;
    if (json_is_integer(v))
        i = json_integer_value(v);
    else if (!json_is_string(v) || !number_parse_int(str_of(json_string_value(v)), &i))
        return false;
    *out = (size_t)i;
    return i >= 0;
}

static bool read_constant(Reader *r, size_t index)
{
    const json_t *node = json_array_get(r->nodes, index);
    const char *key = json_string_value(json_object_get(node, "type_key"));
    size_t array;
    Value value;
    if (!key || strcmp(key, "relay.Constant") != 0)
        return wrong(r, "one of its constants is none");
    if (!read_index(json_object_get(json_object_get(node, "attrs"), "data"), &array))
        return wrong(r, "a constant has no data");
    if (!read_array(r, array, &value))
        return false;
    vec_push(&r->out->constants, r->arena, value);
    return true;
}

static bool read_constants(Reader *r, size_t index)
{
    const json_t *data = json_object_get(json_array_get(r->nodes, index), "data");
    for (size_t i = 0; i < json_array_size(data); i++) {
        size_t node;
        if (!read_index(json_array_get(data, i), &node))
            return wrong(r, "a list holds something that is no index");
        if (!read_constant(r, node))
            return false;
    }
    return true;
}

/* A map has its keys in `keys`, or keys and values alternate in `data`. */
static bool read_map(Reader *r, const json_t *map)
{
    const json_t *keys = json_object_get(map, "keys"), *data = json_object_get(map, "data");
    size_t step = keys ? 1 : 2;
    for (size_t i = 0; (i + 1) * step <= json_array_size(data); i++) {
        size_t key_at, at;
        const json_t *key = json_array_get(keys, i);
        if (!keys && read_index(json_array_get(data, 2 * i), &key_at))
            key = json_object_get(json_array_get(r->nodes, key_at), "repr_str");
        const char *name = json_string_value(key);
        if (!name || !read_index(json_array_get(data, i * step + step - 1), &at))
            return wrong(r, "its map is broken");
        if (!strcmp(name, "relay.Constant") && !read_constants(r, at))
            return false;
    }
    return true;
}

static bool read_document(Reader *r, const json_t *json)
{
    size_t root;
    r->nodes = json_object_get(json, "nodes");
    r->arrays = json_object_get(json, "b64ndarrays");
    if (!json_is_array(r->nodes) || !read_index(json_object_get(json, "root"), &root))
        return wrong(r, "it has no `root` and `nodes`");
    r->n_values = json_array_size(r->arrays);
    r->values = arena_alloc_must(r->arena, r->n_values, sizeof *r->values);
    return read_map(r, json_array_get(r->nodes, root));
}

bool metadata_read(Ctx *cx, Arena *arena, Str json, Span span, Metadata *out)
{
    Reader r = {.cx = cx, .arena = arena, .span = span, .out = out};
    json_error_t error;
    json_t *document = json_loadb(json.ptr, json.len, 0, &error);
    if (!document) {
        Diag *d =
            diag_error(cx->diags, E0117_METADATA, span, "the metadata is not JSON: %s", error.text);
        diag_note(d, "in line %d of the section", error.line);
        return false;
    }
    bool ok = read_document(&r, document);
    for (size_t i = 0; i < r.n_values; i++)
        value_release(r.values[i]);
    json_decref(document);
    return ok;
}

void metadata_free(Metadata *m)
{
    for (size_t i = 0; i < m->constants.n; i++)
        value_release(m->constants.at[i]);
    m->constants.n = 0;
}

/* ---- writing ----------------------------------------------------------------------------------------------------------------------- */

static void put_word(Buf *b, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        buf_char(b, (char)(v >> 8 * i & 255));
}

static void put_tensor(Buf *out, const Tensor *t)
{
    Buf b = {0};
    size_t element = dtype_size(t->dtype);
    put_word(&b, MAGIC, 8);
    put_word(&b, 0, 8);
    put_word(&b, 1, 4);
    put_word(&b, 0, 4);
    put_word(&b, (uint64_t)t->rank, 4);
    put_word(&b, t->dtype.code, 1);
    put_word(&b, t->dtype.bits, 1);
    put_word(&b, t->dtype.lanes, 2);
    for (int32_t i = 0; i < t->rank; i++)
        put_word(&b, (uint64_t)t->shape[i], 8);
    put_word(&b, (uint64_t)t->size * element, 8);
    if (tensor_is_contiguous(t)) {
        buf_bytes(&b, t->data, (size_t)t->size * element);
    } else {
        for (int64_t i = 0; i < t->size; i++)
            buf_bytes(&b, tensor_element(t, i), element);
    }
    put_base64(out, (const unsigned char *)buf_text(&b), b.n);
    buf_deinit(&b);
}

/* The first constant is node 3; its device and the name of its memory, which the others share, are nodes 4 and 5. */
static size_t node_of(size_t constant)
{
    return constant == 0 ? 3 : constant + 5;
}

static void put_constant(Buf *out, size_t index)
{
    buf_str(out, ", \n    {\n      \"type_key\": \"relay.Constant\", \n      \"attrs\": {\n"
                 "        \"_checked_type_\": \"0\", \n        \"data\": \"");
    buf_uint(out, index);
    buf_str(out,
            "\", \n        \"span\": \"0\", \n        \"virtual_device_\": \"4\"\n      }\n    }");
}

void metadata_write(Buf *out, size_t n, const Value *constants)
{
    buf_str(
        out,
        "{\n  \"root\": 1, \n  \"nodes\": [\n    {\n      \"type_key\": \"\"\n    }, \n"
        "    {\n      \"type_key\": \"Map\", \n      \"keys\": [\n        \"relay.Constant\"\n     "
        " ], \n"
        "      \"data\": [2]\n    }, \n    {\n      \"type_key\": \"Array\", \n      \"data\": [");
    for (size_t i = 0; i < n; i++) {
        buf_str(out, i ? ", " : "");
        buf_uint(out, node_of(i));
    }
    buf_str(out, "]\n    }");
    for (size_t i = 0; i < n; i++) {
        put_constant(out, i);
        if (i == 0)
            buf_str(out,
                    ", \n    {\n      \"type_key\": \"VirtualDevice\", \n      \"attrs\": {\n"
                    "        \"device_type_int\": \"-1\", \n        \"memory_scope\": \"5\", \n"
                    "        \"target\": \"0\", \n        \"virtual_device_id\": \"-1\"\n      }\n "
                    "   }, \n"
                    "    {\n      \"type_key\": \"runtime.String\"\n    }");
    }
    buf_str(out, "\n  ], \n  \"b64ndarrays\": [\n");
    for (size_t i = 0; i < n; i++) {
        TensorView view;
        buf_str(out, i ? ", \n    \"" : "    \"");
        if (value_view(&constants[i], &view))
            put_tensor(out, &view.t);
        buf_char(out, '"');
    }
    buf_str(out, "\n  ], \n  \"attrs\": {\"tvm_version\": \"0.9.0\"}\n}\n");
}
