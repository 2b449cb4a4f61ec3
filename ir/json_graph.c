#include "ir/json_graph.h"

#include "base/memory.h"
#include "base/number.h"
#include "runtime/params.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const GraphInfo infos[] = {
#define GRAPH_EXPR(KIND, key, ...) {key, {__VA_ARGS__}},
#define GRAPH_KIND(KIND, key) {key, {0}},
#include "ir/json_kinds.def"
#undef GRAPH_EXPR
#undef GRAPH_KIND
};

enum { N_KINDS = sizeof infos / sizeof *infos };

const GraphInfo *graph_info(GraphKind kind)
{
    return &infos[kind];
}

/* What releases before 0.7 called otherwise, without "relay.". */
static const struct {
    const char *key;
    GraphKind kind;
} earlier[] = {
    {"Module", GRAPH_MODULE}, {"Variable", GRAPH_SHAPE_VAR}, {"SizeVar", GRAPH_SIZE_VAR},
    {"StrMap", GRAPH_MAP},    {"StringImm", GRAPH_STRING},   {"Any", GRAPH_ANY},
};

static const char *bare_key(const char *key)
{
    return strncmp(key, "relay.", 6) == 0 ? key + 6 : key;
}

GraphKind graph_kind_of(const char *key)
{
    key = bare_key(key);
    for (size_t i = 0; i < N_KINDS; i++)
        if (strcmp(bare_key(infos[i].key), key) == 0)
            return (GraphKind)i;
    for (size_t i = 0; i < sizeof earlier / sizeof *earlier; i++)
        if (strcmp(earlier[i].key, key) == 0)
            return earlier[i].kind;
    return GRAPH_OTHER;
}

/* A document has few kinds of nodes and many of each: those met last are kept by length and end. */
typedef struct KnownKind {
    const char *key;
    uint8_t kind;
} KnownKind;

enum { KNOWN_KINDS = 256 };

static uint8_t kind_of(KnownKind *known, const char *key)
{
    size_t n = strlen(key);
    KnownKind *k = &known[n ? (n * 31 + (unsigned char)key[n - 1]) % KNOWN_KINDS : 0];
    if (!k->key || strcmp(k->key, key) != 0)
        *k = (KnownKind){key, (uint8_t)graph_kind_of(key)};
    return k->kind;
}

/* ---- places ------------------------------------------------------------------------------------ */

/* Behind a string whose opening quote stands at p. */
static const char *skip_string(const char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++)
        p += *p == '\\';
    return p < end ? p + 1 : end;
}

/* Where the list of the document's key `nodes` begins. */
static const char *find_nodes(const char *p, const char *end)
{
    static const char key[] = "\"nodes\"";
    for (int depth = 0; p < end; p++) {
        depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
        if (*p != '"')
            continue;
        const char *from = p;
        p = skip_string(p, end);
        bool found = depth == 1 && (size_t)(p - from) == sizeof key - 1 &&
                     memcmp(from, key, sizeof key - 1) == 0;
        if (found)
            return memchr(p, '[', (size_t)(end - p));
        p--;
    }
    return NULL;
}

/* Jansson keeps no places, so the text, which is known to be JSON, is gone through once more. */
static void find_places(Graph *g)
{
    const Source *source = sources_get(&g->cx->sources, g->span.source);
    g->places = arena_alloc_must(g->arena, g->n, sizeof *g->places);
    if (!source)
        return;
    const char *end = source->text + g->span.to, *p = find_nodes(source->text + g->span.from, end);
    size_t at = 0;
    for (int depth = 0; p && p < end && at < g->n; p++) {
        if (depth == 1 && *p == '{')
            g->places[at++] = (uint32_t)(p - source->text);
        depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
        if (*p == '"')
            p = skip_string(p, end) - 1;
    }
}

Span graph_span(Graph *g, size_t node)
{
    if (!g->places)
        find_places(g);
    if (node >= g->n || !g->places[node])
        return g->span;
    return (Span){g->span.source, g->places[node], g->places[node] + 1};
}

/* The name of the field in the node's text. */
static Span field_span(Graph *g, size_t node, const char *field)
{
    Span s = graph_span(g, node);
    const Source *source = sources_get(&g->cx->sources, s.source);
    if (!field || !source || s.from == g->span.from)
        return s;
    size_t n = strlen(field);
    const char *end = source->text + g->span.to, *p = source->text + s.from;
    for (int depth = 0; p < end; p++) {
        depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
        if (depth == 0)
            return s;
        if (*p != '"')
            continue;
        const char *from = p + 1;
        p = skip_string(p, end) - 1;
        if ((size_t)(p - from) == n && memcmp(from, field, n) == 0) {
            uint32_t at = (uint32_t)(from - source->text);
            return (Span){s.source, at, at + (uint32_t)n};
        }
    }
    return s;
}

bool graph_wrong(Graph *g, size_t node, const char *field, const char *format, ...)
{
    Buf b = {0};
    va_list args;
    va_start(args, format);
    buf_vprintf(&b, format, args);
    va_end(args);
    const char *key = graph_key(g, node);
    diag_error(g->cx->diags, g->code, field_span(g, node, field), "node %zu%s%s%s%s%s%s: %s", node,
               *key ? " (" : "", key, *key ? ")" : "", field ? ", field `" : "", field ? field : "",
               field ? "`" : "", buf_text(&b));
    buf_deinit(&b);
    return false;
}

/* ---- opening ----------------------------------------------------------------------------------- */

static bool wrong_document(Graph *g, Span span, const char *what)
{
    diag_error(g->cx->diags, g->code, span, "%s", what);
    return false;
}

/* Indices come as numbers in lists and as decimal strings in fields. */
static bool read_int(const json_t *v, int64_t *out)
{
    if (json_is_integer(v))
        *out = json_integer_value(v);
    else if (!json_is_string(v) ||
             !number_parse_int((Str){json_string_value(v), json_string_length(v)}, out))
        return false;
    return true;
}

static bool is_index(const json_t *v, size_t n, size_t *out)
{
    int64_t i;
    if (!read_int(v, &i) || i < 0 || (uint64_t)i >= n)
        return false;
    *out = (size_t)i;
    return true;
}

/* "0.6.0", "0.7.dev1" */
static bool is_before(const char *version, int major, int minor)
{
    char *end;
    long first = strtol(version, &end, 10), second = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
    return first < major || (first == major && second < minor);
}

/* What the original compiled names machine code, not operators. */
static bool is_compiled(const Graph *g)
{
    return json_object_get(g->document, "arg_nodes") && json_object_get(g->document, "heads");
}

static bool open_document(Graph *g)
{
    const char *version =
        json_string_value(json_object_get(json_object_get(g->document, "attrs"), "tvm_version"));
    g->old = version && is_before(version, 0, 7);
    if (is_compiled(g)) {
        Diag *d = diag_error(g->cx->diags, g->code, g->span,
                             "this is a compiled graph: it names kernels, not operators");
        diag_note(d, "what the kernels compute stands in the library beside it, as machine code");
        diag_help(d, "there is no way back to Relay; use the program that it was compiled from");
        return false;
    }
    g->nodes = json_object_get(g->document, "nodes");
    g->arrays = json_object_get(g->document, "b64ndarrays");
    g->n = json_array_size(g->nodes);
    g->n_arrays = json_array_size(g->arrays);
    if (!json_is_object(g->document) || !json_is_array(g->nodes))
        return wrong_document(g, g->span, "the JSON is no saved graph: it has no list `nodes`");
    if (!is_index(json_object_get(g->document, "root"), g->n, &g->root))
        return wrong_document(g, g->span, "`root` of the graph is not the number of a node");
    KnownKind known[KNOWN_KINDS] = {0};
    g->kinds = arena_alloc_must(g->arena, g->n, 1);
    g->fields = arena_alloc_must(g->arena, g->n, sizeof *g->fields);
    g->values = arena_alloc_must(g->arena, g->n_arrays, sizeof *g->values);
    for (size_t i = 0; i < g->n; i++) {
        if (limit_hit(&g->cx->limits))
            return false;
        const json_t *node = json_array_get(g->nodes, i);
        if (!json_is_object(node))
            return graph_wrong(g, i, NULL, "it is no object with a `type_key`");
        g->kinds[i] = kind_of(known, graph_key(g, i));
        g->fields[i] = json_object_get(node, "attrs");
    }
    return true;
}

void json_count_refusals(void)
{
    json_malloc_t alloc;
    json_free_t give_back;
    json_get_alloc_funcs(&alloc, &give_back);
    if (alloc == malloc)
        json_set_alloc_funcs(memory_alloc, give_back);
}

bool graph_open(Graph *g, Ctx *cx, Arena *arena, Str text, Span span, DiagCode code)
{
    json_error_t error;
    *g = (Graph){.cx = cx, .arena = arena, .span = span, .code = code};
    json_count_refusals();
    g->document = json_loadb(text.ptr, text.len, 0, &error);
    if (g->document)
        return open_document(g);
    if (limit_refused(&cx->limits))
        return false;
    Span at = span;
    if (error.position >= 0 && (size_t)error.position <= text.len &&
        span.to - span.from >= text.len)
        at.from = at.to = span.from + (uint32_t)error.position;
    at.from -= at.from > span.from;
    Diag *d = diag_error(cx->diags, code, at, "this is not JSON: %s", error.text);
    diag_note(d, "in line %d of the document", error.line);
    return false;
}

void graph_close(Graph *g)
{
    for (size_t i = 0; g->values && i < g->n_arrays; i++)
        value_release(g->values[i]);
    json_decref(g->document);
    g->document = NULL;
    g->values = NULL;
}

static void forget_document(void *document)
{
    json_decref(document);
}

void graph_keep(Graph *g, Module *m)
{
    m->saved = json_incref(g->document);
    arena_on_free(&m->arena, forget_document, g->document);
}

/* ---- fields ------------------------------------------------------------------------------------- */

const char *graph_key(const Graph *g, size_t node)
{
    const char *key =
        json_string_value(json_object_get(json_array_get(g->nodes, node), "type_key"));
    return key ? key : "";
}

static const json_t *field_of(const Graph *g, size_t node, const char *field)
{
    return json_object_get(g->fields[node], field);
}

bool graph_has(const Graph *g, size_t node, const char *field)
{
    return field_of(g, node, field) != NULL;
}

bool graph_is_number(const Graph *g, size_t node, const char *field)
{
    int64_t v;
    return read_int(field_of(g, node, field), &v);
}

bool graph_text(Graph *g, size_t node, const char *field, Str *out)
{
    const json_t *v = field_of(g, node, field);
    if (!v)
        return graph_wrong(g, node, NULL, "the field `%s` is missing", field);
    if (!json_is_string(v))
        return graph_wrong(g, node, field, "a text in quotes is wanted");
    *out = (Str){json_string_value(v), json_string_length(v)};
    return true;
}

bool graph_string(Graph *g, size_t node, const char *field, Str *out)
{
    size_t at;
    if (!graph_text(g, node, field, out))
        return false;
    if (g->old || !graph_is_number(g, node, field))
        return true;
    return graph_ref_kind(g, node, field, GRAPH_STRING, "string", &at) && graph_repr(g, at, out);
}

bool graph_int(Graph *g, size_t node, const char *field, int64_t *out)
{
    const json_t *v = field_of(g, node, field);
    if (!v)
        return graph_wrong(g, node, NULL, "the field `%s` is missing", field);
    return read_int(v, out) || graph_wrong(g, node, field, "this is no whole number of 64 bits");
}

bool graph_dtype(Graph *g, size_t node, const char *field, DType *out)
{
    Str s;
    if (!graph_text(g, node, field, &s))
        return false;
    if (s.len == 0)
        *out = (DType){0};
    return s.len == 0 || dtype_parse(s, out) ||
           graph_wrong(g, node, field, "`%.*s` is no element type", (int)(s.len < 80 ? s.len : 80),
                       s.ptr);
}

bool graph_ref(Graph *g, size_t node, const char *field, size_t *out)
{
    const json_t *v = field_of(g, node, field);
    *out = 0;
    return !v || is_index(v, g->n, out) ||
           graph_wrong(g, node, field, "this is not the number of a node; there are %zu", g->n);
}

bool graph_ref_kind(Graph *g, size_t node, const char *field, GraphKind kind, const char *what,
                    size_t *out)
{
    if (!graph_ref(g, node, field, out))
        return false;
    return graph_kind(g, *out) == kind ||
           graph_wrong(g, node, field, "node %zu is no %s", *out, what);
}

/* Text that cannot be printed is written with its length in front. */
static bool decode_repr(Graph *g, size_t node, Str text, Str *out)
{
    Buf b = {0};
    bool ok = base64_read(&b, text.ptr, text.len);
    if (ok) {
        uint64_t length = 0;
        for (size_t i = 0; i < 8 && i < b.n; i++)
            length |= (uint64_t)(unsigned char)b.at[i] << 8 * i;
        size_t head = b.n >= 8 && length == b.n - 8 ? 8 : 0;
        out->len = b.n - head;
        out->ptr = arena_copy_text(g->arena, buf_text(&b) + head, out->len);
    }
    buf_deinit(&b);
    return ok || graph_wrong(g, node, "repr_b64", "this is not base64");
}

bool graph_repr(Graph *g, size_t node, Str *out)
{
    const json_t *object = json_array_get(g->nodes, node);
    const json_t *plain = json_object_get(object, g->old ? "global_key" : "repr_str"),
                 *coded = json_object_get(object, "repr_b64");
    if (g->old && !plain) /* StringImm */
        plain = field_of(g, node, "value");
    if ((plain && !json_is_string(plain)) || (coded && !json_is_string(coded)))
        return graph_wrong(g, node, plain ? "repr_str" : "repr_b64", "a text in quotes is wanted");
    *out = str_of("");
    if (plain)
        *out = (Str){json_string_value(plain), json_string_length(plain)};
    if (plain || !coded)
        return true;
    return decode_repr(g, node, (Str){json_string_value(coded), json_string_length(coded)}, out);
}

/* ---- nodes of kinds that nobody knows -------------------------------------------------------------- */

typedef struct Open {
    uint32_t node;
    size_t next; /* item of its data */
} Open;

/* Whether the number of node `v`, the next to come, stands among the items or fields of an open one. */
static bool mentions(const Graph *g, Open *o, size_t v)
{
    const json_t *data = json_object_get(json_array_get(g->nodes, o->node), "data"), *item;
    for (; (item = json_array_get(data, o->next)); o->next++) {
        size_t at;
        if (is_index(item, g->n, &at) && at >= v)
            break;
    }
    size_t at;
    if (item && is_index(item, g->n, &at) && at == v)
        return true;
    const char *name;
    json_t *field;
    json_object_foreach(g->fields[o->node], name, field)
    {
        if (is_index(field, g->n, &at) && at == v)
            return true;
    }
    return false;
}

static void find_ends(Graph *g)
{
    Arena scratch;
    Vec(Open) stack = {0};
    arena_init(&scratch, &g->cx->limits);
    g->ends = arena_alloc_must(g->arena, g->n, sizeof *g->ends);
    vec_push(&stack, &scratch, ((Open){.node = (uint32_t)g->root}));
    for (size_t v = g->root + 1; v < g->n; v++) {
        while (stack.n > 1 && !mentions(g, &vec_last(&stack), v))
            g->ends[vec_pop(&stack).node] = (uint32_t)v;
        vec_push(&stack, &scratch, ((Open){.node = (uint32_t)v}));
    }
    while (stack.n)
        g->ends[vec_pop(&stack).node] = (uint32_t)g->n;
    arena_deinit(&scratch);
}

/* What stands further back is shared: an object or a constant, and none of the nodes around it. */
static bool refers(const Graph *g, size_t node, size_t to)
{
    if (to >= node)
        return to > node && to < g->ends[node];
    return to > 0 && g->ends[to] <= node && graph_kind_is_shared(graph_kind(g, to));
}

/* A number that its writer marked, without the mark that says that it stands for itself. */
static bool is_marked(const Graph *g, Str s, char mark)
{
    return !g->old && s.len > 1 && s.ptr[0] == mark && strchr("0123456789+", s.ptr[1]);
}

static void guess(const Graph *g, size_t node, const json_t *v, Str *text, size_t *to)
{
    size_t number;
    *to = 0;
    if (is_marked(g, *text, GRAPH_PLAIN))
        *text = (Str){text->ptr + 1, text->len - 1};
    else if (is_index(v, g->n, &number) &&
             (is_marked(g, *text, GRAPH_REFERS) || refers(g, node, number)))
        *to = number;
}

const char *graph_field(Graph *g, size_t node, size_t i, Str *text, size_t *to)
{
    if (to && !g->ends)
        find_ends(g);
    json_t *attrs = g->fields[node];
    void *at = json_object_iter(attrs);
    for (; at && i > 0; i--)
        at = json_object_iter_next(attrs, at);
    if (!at)
        return NULL;
    const json_t *v = json_object_iter_value(at);
    const char *s = json_string_value(v);
    *text = (Str){s ? s : "", s ? json_string_length(v) : 0};
    if (to)
        guess(g, node, v, text, to);
    return json_object_iter_key(at);
}

/* ---- lists and maps ----------------------------------------------------------------------------- */

static const json_t *data_of(const Graph *g, size_t node)
{
    return json_object_get(json_array_get(g->nodes, node), "data");
}

size_t graph_items(const Graph *g, size_t node)
{
    return json_array_size(data_of(g, node));
}

static bool item_at(Graph *g, size_t node, size_t i, size_t *out)
{
    const json_t *v = json_array_get(data_of(g, node), i);
    return is_index(v, g->n, out) ||
           graph_wrong(g, node, "data", "item %zu is not the number of a node; there are %zu", i,
                       g->n);
}

bool graph_list(Graph *g, size_t node, size_t *n)
{
    GraphKind kind = graph_kind(g, node);
    *n = json_array_size(data_of(g, node));
    return kind == GRAPH_ARRAY || kind == GRAPH_NULL ||
           graph_wrong(g, node, NULL, "a list is wanted here");
}

bool graph_item(Graph *g, size_t node, size_t i, size_t *out)
{
    return item_at(g, node, i, out);
}

static const json_t *keys_of(const Graph *g, size_t node)
{
    return json_object_get(json_array_get(g->nodes, node), "keys");
}

bool graph_map_has_names(const Graph *g, size_t node)
{
    return keys_of(g, node) || graph_items(g, node) == 0;
}

bool graph_map(Graph *g, size_t node, size_t *n)
{
    const json_t *keys = keys_of(g, node), *data = data_of(g, node);
    GraphKind kind = graph_kind(g, node);
    *n = keys ? json_array_size(data) : json_array_size(data) / 2;
    if (kind != GRAPH_MAP && kind != GRAPH_NULL)
        return graph_wrong(g, node, NULL, "a map is wanted here");
    if (keys && json_array_size(keys) != *n)
        return graph_wrong(g, node, "keys", "there are %zu keys and %zu values",
                           json_array_size(keys), *n);
    if (!keys && json_array_size(data) % 2)
        return graph_wrong(g, node, "data", "a key has no value");
    return true;
}

bool graph_pair(Graph *g, size_t node, size_t i, Str *key, size_t *key_node, size_t *value)
{
    const json_t *keys = keys_of(g, node);
    *key = str_of("");
    *key_node = 0;
    if (!keys) {
        if (!item_at(g, node, 2 * i, key_node) || !item_at(g, node, 2 * i + 1, value))
            return false;
        return graph_kind(g, *key_node) != GRAPH_STRING || graph_repr(g, *key_node, key);
    }
    const json_t *text = json_array_get(keys, i);
    if (!json_is_string(text))
        return graph_wrong(g, node, "keys", "key %zu is no text", i);
    *key = (Str){json_string_value(text), json_string_length(text)};
    return item_at(g, node, i, value);
}

/* ---- tensors ------------------------------------------------------------------------------------- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_write(Buf *out, const unsigned char *p, size_t n)
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

bool base64_read(Buf *out, const char *s, size_t n)
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
    return !out->failed && count < 6;
}

/* What is wrong with the array, "" when that is reported, or NULL. */
static const char *read_tensor(Graph *g, const Buf *b, Value *out)
{
    size_t used;
    const char *why;
    Tensor *t = tensor_record_read(&g->cx->limits, buf_text(b), b->n, &used, &why);
    if (t)
        *out = value_tensor(t);
    return t ? NULL : why ? why : "";
}

bool graph_tensor(Graph *g, size_t node, const char *field, Value *out)
{
    size_t at;
    const json_t *v = field_of(g, node, field);
    if (!is_index(v, g->n_arrays, &at))
        return graph_wrong(g, node, v ? field : NULL,
                           "its data must be the number of an array; there are %zu", g->n_arrays);
    Value *value = &g->values[at];
    if (value_is_none(*value)) {
        const json_t *text = json_array_get(g->arrays, at);
        Buf b = {0};
        const char *why = "is not in base64";
        if (json_is_string(text) &&
            base64_read(&b, json_string_value(text), json_string_length(text)))
            why = read_tensor(g, &b, value);
        buf_deinit(&b);
        if (why)
            return *why && graph_wrong(g, node, field, "array %zu %s", at, why);
    }
    *out = value_retain(*value);
    return true;
}

void tensor_write_base64(Buf *out, const Tensor *t)
{
    Buf b = {0};
    tensor_record_write(&b, t);
    base64_write(out, (const unsigned char *)buf_text(&b), b.n);
    buf_deinit(&b);
}
