#include "exchange/onnx_model.h"

#include "base/memory.h"
#include "base/number.h"
#include "runtime/npy.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- messages -------------------------------------------------------------------------------------------------------------- */

/* What a message takes may be a hundred times what it took in the file, so it is charged. The size stands in front. */
#define HEAD ((size_t)16)

static void *message_alloc(void *limits, size_t size)
{
    size_t all;
    if (!size_add(size, HEAD, &all) || !limit_charge(limits, all))
        return NULL;
    char *p = memory_alloc(all);
    if (!p) {
        limit_release(limits, all);
        return NULL;
    }
    memcpy(p, &all, sizeof all);
    return p + HEAD;
}

static void message_free(void *limits, void *p)
{
    size_t all;
    if (!p)
        return;
    memcpy(&all, (char *)p - HEAD, sizeof all);
    limit_release(limits, all);
    memory_free((char *)p - HEAD);
}

/* The file up to a place in it. */
typedef struct Reader {
    FILE *file;
    uint64_t at;
} Reader;

/* The bytes that it took; 0: there is none. */
static int read_varint(Reader *r, uint64_t end, uint64_t *out)
{
    *out = 0;
    for (int k = 0; k < 10 && r->at < end; k++) {
        int byte = getc_unlocked(r->file);
        if (byte == EOF)
            return 0;
        r->at++;
        *out |= (uint64_t)(byte & 0x7f) << 7 * k;
        if (!(byte & 0x80))
            return k + 1;
    }
    return 0;
}

static void put_varint(Buf *b, uint64_t v)
{
    for (; v > 0x7f; v >>= 7)
        buf_char(b, (char)(v | 0x80));
    buf_char(b, (char)v);
}

static bool read_bytes(Reader *r, void *to, size_t n)
{
    r->at += n;
    return fread(to, 1, n, r->file) == n;
}

static bool skip(Reader *r, uint64_t n)
{
    char few[256];
    r->at += n;
    return n <= sizeof few ? fread(few, 1, n, r->file) == n
                           : fseeko(r->file, (off_t)n, SEEK_CUR) == 0;
}

static bool copy(Reader *r, Buf *to, size_t n)
{
    if (!buf_reserve(to, n) || !read_bytes(r, to->at + to->n, n))
        return false;
    to->n += n;
    to->at[to->n] = 0;
    return true;
}

/* Elements of so many bytes are read when they are asked for. Until then a field that the schema has not says where they lie: a place in the
 * file, and how many. */
#define LEFT_LEAST 1024
#define LEFT_FIELD 0x1fffffffu
enum {
    WIRE_VARINT = PROTOBUF_C_WIRE_TYPE_VARINT,
    WIRE_64 = PROTOBUF_C_WIRE_TYPE_64BIT,
    WIRE_BYTES = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
    WIRE_32 = PROTOBUF_C_WIRE_TYPE_32BIT,
    SIZE_MOST_BYTES = 5
};

static void put_left(Buf *b, uint64_t v)
{
    put_varint(b, LEFT_FIELD << 3 | WIRE_64);
    for (int k = 0; k < 8; k++)
        buf_char(b, (char)(v >> 8 * k));
}

static uint64_t left_number(const ProtobufCMessageUnknownField *f)
{
    uint64_t v = 0;
    for (size_t k = 0; k < 8 && k < f->len; k++)
        v |= (uint64_t)f->data[k] << 8 * k;
    return v;
}

/* Fields of newer files that the schema has not. Those without `kept` say nothing of what is computed. */
static const struct LaterField {
    const ProtobufCMessageDescriptor *of;
    unsigned tag;
    bool kept;
    const ProtobufCMessageDescriptor *what; /* a message; NULL: a text */
} later_fields[] = {
    {&onnx__node_proto__descriptor, ONNX_NODE_OVERLOAD, true, NULL},
    {&onnx__node_proto__descriptor, ONNX_NODE_METADATA, true,
     &onnx__string_string_entry_proto__descriptor},
    {&onnx__node_proto__descriptor, 10, false, NULL}, /* devices */
    {&onnx__function_proto__descriptor, ONNX_FUNCTION_DEFAULT, true,
     &onnx__attribute_proto__descriptor},
    {&onnx__function_proto__descriptor, 12, false, NULL}, /* types of values in it */
    {&onnx__function_proto__descriptor, ONNX_FUNCTION_OVERLOAD, true, NULL},
    {&onnx__function_proto__descriptor, 14, false, NULL}, /* metadata, here and below */
    {&onnx__graph_proto__descriptor, 16, false, NULL},
    {&onnx__tensor_proto__descriptor, 16, false, NULL},
    {&onnx__value_info_proto__descriptor, 4, false, NULL},
    {&onnx__model_proto__descriptor, 26, false, NULL}, /* devices */
};

static const struct LaterField *later_field(const ProtobufCMessageDescriptor *of, uint64_t tag)
{
    for (size_t i = 0; i < sizeof later_fields / sizeof *later_fields; i++)
        if (later_fields[i].of == of && later_fields[i].tag == tag)
            return &later_fields[i];
    return NULL;
}

/* What is passed over and may matter is named, each once. */
static void note_beyond(Buf *beyond, const ProtobufCMessageDescriptor *of, uint64_t tag)
{
    Buf name = {0};
    buf_printf(&name, " %s %llu,", of->short_name, (unsigned long long)tag);
    if (beyond->n < 200 && !strstr(buf_text(beyond), buf_text(&name)))
        buf_str(beyond, buf_text(&name));
    buf_deinit(&name);
}

/* A message in the file, and where its size stands in the copy, in as many bytes. */
typedef struct Inside {
    uint64_t end;
    const ProtobufCMessageDescriptor *what;
    size_t size_at;
    int size_bytes;
} Inside;

static void put_size(Buf *b, const Inside *m)
{
    uint64_t size = b->n - m->size_at - (size_t)m->size_bytes;
    for (int k = 0; k < m->size_bytes; k++, size >>= 7)
        b->at[m->size_at + (size_t)k] = (char)((size & 0x7f) | (k + 1 < m->size_bytes ? 0x80 : 0));
}

/* The value of a field that is no message. */
static bool copy_field(Reader *r, Buf *to, const Inside *in, uint64_t tag, bool known,
                       uint64_t value)
{
    uint64_t size = (tag & 7) == WIRE_64 ? 8 : (tag & 7) == WIRE_32 ? 4 : value;
    if ((tag & 7) == WIRE_VARINT) {
        if (known)
            put_varint(to, tag), put_varint(to, value);
        return true;
    }
    if (!known)
        return skip(r, size);
    const ProtobufCFieldDescriptor *raw =
        in->what == &onnx__tensor_proto__descriptor
            ? protobuf_c_message_descriptor_get_field_by_name(in->what, "raw_data")
            : NULL;
    bool elements = raw && raw->id == tag >> 3;
    if (elements && (tag & 7) == WIRE_BYTES && size >= LEFT_LEAST) {
        put_left(to, r->at);
        put_left(to, size);
        return skip(r, size);
    }
    put_varint(to, tag);
    if ((tag & 7) == WIRE_BYTES)
        put_varint(to, size);
    return copy(r, to, size);
}

/* The file without what nobody knows and without large arrays. False: it is no such file, or its messages nest deeper than is
 * allowed, which protobuf-c reads by calls of itself. */
static bool read_thin(Reader *r, uint64_t n, Buf *to, Buf *beyond)
{
    Inside stack[ONNX_DEPTH_MOST] = {{n, &onnx__model_proto__descriptor, 0, 0}};
    int depth = 1;
    while (depth > 0) {
        const Inside *top = &stack[depth - 1];
        uint64_t tag, value = 0;
        if (r->at == top->end) {
            put_size(to, top);
            depth--;
            continue;
        }
        if (to->failed || !read_varint(r, top->end, &tag))
            return false;
        int kind = (int)(tag & 7), bytes = 1;
        if (kind == WIRE_VARINT || kind == WIRE_BYTES)
            bytes = read_varint(r, top->end, &value);
        else if (kind != WIRE_64 && kind != WIRE_32)
            return false;
        uint64_t size = kind == WIRE_BYTES ? value : kind == WIRE_64 ? 8 : kind == WIRE_32 ? 4 : 0;
        if (bytes == 0 || size > top->end - r->at)
            return false;
        const ProtobufCFieldDescriptor *field =
            tag >> 3 <= UINT32_MAX
                ? protobuf_c_message_descriptor_get_field(top->what, (unsigned)(tag >> 3))
                : NULL;
        const struct LaterField *later = field ? NULL : later_field(top->what, tag >> 3);
        if (!field && !later)
            note_beyond(beyond, top->what, tag >> 3);
        const ProtobufCMessageDescriptor *what = field && field->type == PROTOBUF_C_TYPE_MESSAGE
                                                     ? field->descriptor
                                                 : later ? later->what
                                                         : NULL;
        if (kind != WIRE_BYTES || !what) {
            if (!copy_field(r, to, top, tag, field || (later && later->kept), value))
                return false;
            continue;
        }
        if (depth == ONNX_DEPTH_MOST || bytes > SIZE_MOST_BYTES)
            return false;
        put_varint(to, tag);
        stack[depth++] = (Inside){r->at + size, what, to->n, bytes};
        buf_repeat(to, 0, (size_t)bytes);
    }
    return !to->failed;
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? memory_text(path, (size_t)(slash - path) + 1) : memory_text("./", 2);
}

/* A file that can be read again at any place; what comes through a pipe is held. */
static bool open_model(OnnxModel *m, const char *path, size_t *n)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
        m->file = fopen(path, "rbe");
        *n = (size_t)st.st_size;
    }
    if (!m->file && (m->bytes = file_read(&m->cx->limits, m->cx->diags, path, n)))
        m->file = fmemopen(m->bytes, *n, "rb");
    return m->file != NULL;
}

/* ---- fields beyond the schema ------------------------------------------------------------------------------------------------ */

/* The next field of that number, from field `*at` on: its bytes without their size. */
static bool next_later(const ProtobufCMessage *m, unsigned tag, unsigned *at, Str *out)
{
    for (; *at < m->n_unknown_fields; ++*at) {
        const ProtobufCMessageUnknownField *f = &m->unknown_fields[*at];
        size_t head = 0;
        if (f->tag != tag || f->wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED)
            continue;
        while (head < f->len && f->data[head] & 0x80)
            head++;
        *out = (Str){(const char *)f->data + head + 1, f->len > head ? f->len - head - 1 : 0};
        ++*at;
        return true;
    }
    return false;
}

Str onnx_later_text(const ProtobufCMessage *m, unsigned tag)
{
    Str text = {"", 0};
    next_later(m, tag, &(unsigned){0}, &text);
    return text;
}

bool onnx_metadata(const OnnxModel *m, const Onnx__NodeProto *node, const char *key, Buf *out)
{
    ProtobufCAllocator alloc = {message_alloc, message_free, &m->cx->limits};
    unsigned at = 0;
    Str bytes;
    bool found = false;
    while (!found && next_later(&node->base, ONNX_NODE_METADATA, &at, &bytes)) {
        Onnx__StringStringEntryProto *e =
            onnx__string_string_entry_proto__unpack(&alloc, bytes.len, (const uint8_t *)bytes.ptr);
        found = e && e->key && e->value && !strcmp(e->key, key);
        if (found)
            buf_str(out, e->value);
        if (e)
            onnx__string_string_entry_proto__free_unpacked(e, &alloc);
    }
    return found;
}

/* What attributes of functions are where a call does not say it. */
static bool read_defaults(OnnxModel *m)
{
    ProtobufCAllocator alloc = {message_alloc, message_free, &m->cx->limits};
    for (size_t i = 0; i < m->model->n_functions; i++) {
        const Onnx__FunctionProto *f = m->model->functions[i];
        unsigned at = 0;
        Str bytes;
        while (next_later(&f->base, ONNX_FUNCTION_DEFAULT, &at, &bytes)) {
            OnnxDefault *d = memory_zeroed(1, sizeof *d);
            Onnx__AttributeProto *a =
                d ? onnx__attribute_proto__unpack(&alloc, bytes.len, (const uint8_t *)bytes.ptr)
                  : NULL;
            if (!a) {
                memory_free(d);
                return false;
            }
            *d = (OnnxDefault){m->defaults, f, a};
            m->defaults = d;
        }
    }
    return true;
}

const Onnx__AttributeProto *onnx_default(const OnnxModel *m, const Onnx__FunctionProto *f,
                                         const char *name)
{
    for (const OnnxDefault *d = m->defaults; d; d = d->next)
        if (d->of == f && d->is->name && !strcmp(d->is->name, name))
            return d->is;
    return NULL;
}

/* ---- a file ------------------------------------------------------------------------------------------------------------------ */

bool onnx_read(OnnxModel *m, Ctx *cx, const char *path)
{
    size_t n = 0;
    Buf thin = {0}, beyond = {0};
    *m = (OnnxModel){.cx = cx, .folder = folder_of(path)};
    bool opened = open_model(m, path, &n);
    if (!opened && cx->diags->errors > 0)
        return false;
    ProtobufCAllocator alloc = {message_alloc, message_free, &cx->limits};
    if (opened && read_thin(&(Reader){.file = m->file}, n, &thin, &beyond))
        m->model = onnx__model_proto__unpack(&alloc, thin.n, (const uint8_t *)buf_text(&thin));
    buf_deinit(&thin);
    bool ok = m->model && m->model->graph && read_defaults(m);
    if (ok && beyond.n > 0) {
        Diag *d = diag_error(cx->diags, W0401_NEWER, (Span){0},
                             "%s has fields that are newer than the schema it is read by", path);
        diag_note(d, "passed over:%.*s", (int)beyond.n - 1, buf_text(&beyond));
    }
    buf_deinit(&beyond);
    if (ok)
        return true;
    if (!limit_hit(&cx->limits))
        diag_error(cx->diags, E0403_FORMAT, (Span){0}, "%s is no model in the format of ONNX",
                   path);
    return false;
}

void onnx_free(OnnxModel *m)
{
    ProtobufCAllocator alloc = {message_alloc, message_free, m->cx ? &m->cx->limits : NULL};
    while (m->defaults) {
        OnnxDefault *d = m->defaults;
        m->defaults = d->next;
        onnx__attribute_proto__free_unpacked(d->is, &alloc);
        memory_free(d);
    }
    if (m->model)
        onnx__model_proto__free_unpacked(m->model, &alloc);
    if (m->file)
        fclose(m->file);
    free(m->bytes);
    free(m->folder);
}

/* ---- arrays ----------------------------------------------------------------------------------------------------------------- */

static const struct ElementRow {
    const char *name;
    DTypeId id; /* DTYPE_IDS: Relay has none such */
    int bits; /* of integers that are packed; 0 */
} element_rows[] = {
    {"undefined", DTYPE_IDS, 0},
    {"float32", DT_FLOAT32, 0},
    {"uint8", DT_UINT8, 0},
    {"int8", DT_INT8, 0},
    {"uint16", DT_UINT16, 0},
    {"int16", DT_INT16, 0},
    {"int32", DT_INT32, 0},
    {"int64", DT_INT64, 0},
    {"string", DTYPE_IDS, 0},
    {"bool", DT_BOOL, 0},
    {"float16", DT_FLOAT16, 0},
    {"float64", DT_FLOAT64, 0},
    {"uint32", DT_UINT32, 0},
    {"uint64", DT_UINT64, 0},
    {"complex64", DTYPE_IDS, 0},
    {"complex128", DTYPE_IDS, 0},
    {"bfloat16", DT_BFLOAT16, 0},
    {"float8e4m3fn", DTYPE_IDS, 0},
    {"float8e4m3fnuz", DTYPE_IDS, 0},
    {"float8e5m2", DTYPE_IDS, 0},
    {"float8e5m2fnuz", DTYPE_IDS, 0},
    {"uint4", DT_UINT8, 4},
    {"int4", DT_INT8, 4},
    {"float4e2m1", DTYPE_IDS, 0},
    {"float8e8m0", DTYPE_IDS, 0},
    {"uint2", DT_UINT8, 2},
    {"int2", DT_INT8, 2},
};

static const struct ElementRow *element_row(int32_t type)
{
    size_t n = sizeof element_rows / sizeof *element_rows;
    return &element_rows[type >= 0 && (size_t)type < n ? type : 0];
}

DType onnx_dtype(int32_t type)
{
    const struct ElementRow *row = element_row(type);
    return row->id == DTYPE_IDS ? (DType){0} : dtype_of(row->id);
}

int32_t onnx_dtype_number(DType dtype)
{
    for (size_t i = 0; i < sizeof element_rows / sizeof *element_rows; i++)
        if (element_rows[i].id != DTYPE_IDS && element_rows[i].bits == 0 &&
            dtype_eq(dtype_of(element_rows[i].id), dtype))
            return (int32_t)i;
    return 0;
}

const char *onnx_dtype_name(int32_t type)
{
    return element_row(type)->name;
}

int onnx_dtype_bits(int32_t type)
{
    return element_row(type)->bits;
}

/* Reads `n` bytes of a file that lies in the model's folder, or below. */
static bool read_external(const OnnxModel *m, const Onnx__TensorProto *t, void *to, size_t n,
                          Buf *why)
{
    const char *location = NULL;
    uint64_t offset = 0, length = n;
    for (size_t i = 0; i < t->n_external_data; i++) {
        const char *key = t->external_data[i]->key, *value = t->external_data[i]->value;
        if (!key || !value)
            continue;
        if (!strcmp(key, "location"))
            location = value;
        else if (!strcmp(key, "offset"))
            offset = strtoull(value, NULL, 10);
        else if (!strcmp(key, "length"))
            length = strtoull(value, NULL, 10);
    }
    char folder[PATH_MAX], file[PATH_MAX];
    Buf path = {0};
    buf_printf(&path, "%s%s", m->folder, location ? location : "");
    bool in = location && realpath(m->folder, folder) && realpath(buf_text(&path), file);
    buf_deinit(&path);
    size_t deep = in ? strlen(folder) : 0;
    if (!in || strncmp(file, folder, deep) != 0 || (file[deep] != '/' && deep > 1)) {
        buf_printf(why, "its elements lie in `%s`, which is not in the model's folder",
                   location ? location : "");
        return false;
    }
    int fd =
        length == n && offset <= INT64_MAX ? open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    size_t got = 0;
    for (ssize_t k = 1; fd >= 0 && got < n && k > 0; got += k > 0 ? (size_t)k : 0)
        k = pread(fd, (char *)to + got, n - got, (off_t)(offset + got));
    if (fd >= 0)
        close(fd);
    if (got < n)
        buf_printf(why, "`%s` does not hold its elements", location);
    return got == n;
}

/* Elements in lists of wider numbers, as the lesser types are kept. */
static bool copy_numbers(Tensor *out, const Onnx__TensorProto *t)
{
    size_t n = (size_t)out->size, size = dtype_size(out->dtype);
    char *to = out->data;
    if (dtype_eq(out->dtype, dtype_of(DT_FLOAT32)))
        return t->n_float_data == n && (n == 0 || memcpy(to, t->float_data, n * size));
    if (dtype_eq(out->dtype, dtype_of(DT_FLOAT64)))
        return t->n_double_data == n && (n == 0 || memcpy(to, t->double_data, n * size));
    if (dtype_eq(out->dtype, dtype_of(DT_INT64)))
        return t->n_int64_data == n && (n == 0 || memcpy(to, t->int64_data, n * size));
    bool wide =
        dtype_eq(out->dtype, dtype_of(DT_UINT64)) || dtype_eq(out->dtype, dtype_of(DT_UINT32));
    if (wide ? t->n_uint64_data != n : t->n_int32_data != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        uint64_t v = wide ? t->uint64_data[i] : (uint64_t)(int64_t)t->int32_data[i];
        if (dtype_is_bool(out->dtype))
            v = v != 0;
        memcpy(to + i * size, &v, size);
    }
    return true;
}

static bool copy_packed(Tensor *out, const Onnx__TensorProto *t, size_t bytes)
{
    for (size_t i = 0; i < bytes && i < t->n_int32_data; i++)
        ((uint8_t *)out->data)[i] = (uint8_t)t->int32_data[i];
    return t->n_int32_data == bytes;
}

/* Several elements a byte, the first in its lowest bits, from the end to the front of `data`, which begins with the packed bytes. */
static void unpack(uint8_t *data, int64_t n, int bits, bool is_signed)
{
    int each = 8 / bits, mask = (1 << bits) - 1;
    for (int64_t i = n; i-- > 0;) {
        int v = data[i / each] >> (int)(i % each) * bits & mask;
        data[i] = (uint8_t)(is_signed && v >> (bits - 1) ? v - (1 << bits) : v);
    }
}

static bool find_left(const Onnx__TensorProto *t, uint64_t *place, uint64_t *size)
{
    if (t->base.n_unknown_fields < 2)
        return false;
    *place = left_number(&t->base.unknown_fields[t->base.n_unknown_fields - 2]);
    *size = left_number(&t->base.unknown_fields[t->base.n_unknown_fields - 1]);
    return true;
}

static bool read_left(const OnnxModel *m, uint64_t place, void *to, size_t n, Buf *why)
{
    if (fseeko(m->file, (off_t)place, SEEK_SET) == 0 && fread(to, 1, n, m->file) == n)
        return true;
    buf_str(why, "the file does not hold its elements any more");
    return false;
}

Tensor *onnx_tensor(const OnnxModel *m, const Onnx__TensorProto *t, Buf *why)
{
    DType dtype = onnx_dtype(t->data_type);
    int64_t size;
    if (dtype_size(dtype) == 0) {
        buf_printf(why, "Relay has no element type `%s`", onnx_dtype_name(t->data_type));
        return NULL;
    }
    bool shaped = t->n_dims <= TENSOR_RANK_MOST;
    for (size_t i = 0; i < t->n_dims && shaped; i++)
        shaped = t->dims[i] >= 0;
    if (!shaped || !shape_size((int32_t)t->n_dims, t->dims, &size)) {
        buf_str(why, "its shape is none that a tensor can have");
        return NULL;
    }
    size_t bytes;
    if (!size_mul((size_t)size, dtype_size(dtype), &bytes)) {
        buf_str(why, "its shape is none that a tensor can have");
        return NULL;
    }
    bool external =
        t->has_data_location && t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    int bits = onnx_dtype_bits(t->data_type);
    if (bits)
        bytes = (bytes * (size_t)bits + 7) / 8;
    uint64_t place, given = t->raw_data.len;
    bool left = !external && find_left(t, &place, &given);
    if ((left || (!external && t->has_raw_data)) && given != bytes) {
        buf_printf(why, "it has %llu bytes of elements, not %zu", (unsigned long long)given, bytes);
        return NULL;
    }
    Tensor *out = tensor_new(&m->cx->limits, dtype, (int32_t)t->n_dims, t->dims);
    if (!out) {
        buf_str(why, "there is no memory for it");
        return NULL;
    }
    bool ok = true;
    if (external)
        ok = read_external(m, t, out->data, bytes, why);
    else if (left)
        ok = read_left(m, place, out->data, bytes, why);
    else if (t->has_raw_data)
        bytes > 0 ? memcpy(out->data, t->raw_data.data, bytes) : NULL;
    else if (bits ? !copy_packed(out, t, bytes) : !copy_numbers(out, t)) {
        buf_str(why, "it has too few elements, or too many");
        ok = false;
    }
    if (ok && bits)
        unpack((uint8_t *)out->data, out->size, bits, dtype_eq(dtype, dtype_of(DT_INT8)));
    if (ok)
        return out;
    tensor_release(out);
    return NULL;
}
