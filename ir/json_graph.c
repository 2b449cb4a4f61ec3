#include "ir/json_graph.h"

#include "base/base64.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/table.h"
#include "runtime/params.h"

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

static GraphKind kind_of(const char *key)
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

/* ---- places ------------------------------------------------------------------------------------ */

static Span span_of(const Graph *g, const DocumentValue *v, uint32_t n)
{
    uint32_t from = g->span.from + v->from;
    return from < g->span.to ? (Span){g->span.source, from, from + n} : g->span;
}

Span graph_span(const Graph *g, size_t node)
{
    return node < g->n ? span_of(g, g->nodes[node], 1) : g->span;
}

/* The name of the field in the node's text. */
static Span field_span(const Graph *g, size_t node, const char *field)
{
    const Document *d = &g->document->d;
    const DocumentValue *v = NULL;
    if (field && node < g->n)
        v = document_get(d, g->fields[node], field);
    if (field && node < g->n && !v)
        v = document_get(d, g->nodes[node], field);
    return v && !v[-1].decoded ? span_of(g, v - 1, v[-1].n) : graph_span(g, node);
}

bool graph_wrong(Graph *g, size_t node, const char *field, const char *format, ...)
{
    Buf b = {0};
    va_list args;
    va_start(args, format);
    buf_vprintf(&b, format, args);
    va_end(args);
    const char *key = node < g->n ? graph_key(g, node) : "";
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

bool graph_number(const Document *d, const DocumentValue *v, int64_t *out)
{
    return document_is(v, DOCUMENT_STRING) ? number_parse_int(document_str(d, v), out)
                                           : document_int(d, v, out);
}

static bool read_int(const Graph *g, const DocumentValue *v, int64_t *out)
{
    return graph_number(&g->document->d, v, out);
}

static bool is_index(const Graph *g, const DocumentValue *v, size_t n, size_t *out)
{
    int64_t i;
    if (!read_int(g, v, &i) || i < 0 || (uint64_t)i >= n)
        return false;
    *out = (size_t)i;
    return true;
}

/* "0.6.0", "0.7.dev1" */
static bool is_before(Str version, int64_t major, int64_t minor)
{
    const char *point = memchr(version.ptr, '.', version.len);
    size_t n = point ? (size_t)(point - version.ptr) : version.len, from = point ? n + 1 : n;
    Str rest = {version.ptr + from, 0};
    while (from + rest.len < version.len && rest.ptr[rest.len] >= '0' && rest.ptr[rest.len] <= '9')
        rest.len++;
    int64_t first, second;
    if (!number_parse_int((Str){version.ptr, n}, &first))
        first = 0;
    if (!number_parse_int(rest, &second))
        second = 0;
    return first < major || (first == major && second < minor);
}

/* What the original compiled names machine code, not operators. */
static bool is_compiled(const Graph *g)
{
    const Document *d = &g->document->d;
    return document_get(d, d->at, "arg_nodes") && document_get(d, d->at, "heads");
}

static uint32_t add_key(Graph *g, const Name *name)
{
    vec_push(&g->keys, g->arena,
             ((GraphKey){name->text, graph_record_find(name->text), kind_of(name->text)}));
    return (uint32_t)g->keys.n - 1;
}

/* A document has few type keys and many nodes of each: those met last are kept by length and end. */
typedef struct KnownKeys {
    uint32_t recent[256]; /* + 1; 0: none */
    PtrMap all; /* Name -> the same */
} KnownKeys;

static uint32_t key_of(Graph *g, KnownKeys *known, Str key)
{
    unsigned end = key.len ? (unsigned char)key.ptr[key.len - 1] : 0;
    uint32_t *at = &known->recent[(key.len * 31 + end) % 256];
    if (*at && str_is(key, g->keys.at[*at - 1].text))
        return *at - 1;
    const Name *name = ctx_name_str(g->cx, key);
    void **found = ptrmap_slot(&known->all, name);
    if (!*found)
        *found = (void *)(uintptr_t)(add_key(g, name) + 1);
    *at = (uint32_t)(uintptr_t)*found;
    return *at - 1;
}

/* Nothing else stands in a field. */
static bool check_fields(Graph *g, size_t node)
{
    const DocumentValue *at = NULL;
    Str name, text;
    while (graph_next_field(g, node, &at, &name, &text))
        if (at->kind != DOCUMENT_STRING && at->kind != DOCUMENT_NUMBER)
            return graph_wrong(g, node, ctx_name_str(g->cx, name)->text,
                               "a text in quotes or the number of a node is wanted");
    return true;
}

static bool read_nodes(Graph *g, KnownKeys *known, const DocumentValue *list)
{
    const Document *d = &g->document->d;
    const DocumentValue *v = list + 1;
    for (size_t i = 0; i < g->n; i++, v = document_next(d, v)) {
        if (limit_hit(&g->cx->limits))
            return false;
        g->nodes[i] = v;
        if (!document_is(v, DOCUMENT_OBJECT))
            return wrong_document(g, span_of(g, v, 1),
                                  "a node of the graph is no object with a `type_key`");
        const DocumentValue *fields = document_get(d, v, "attrs");
        g->fields[i] = document_is(fields, DOCUMENT_OBJECT) ? fields : NULL;
        g->key_of[i] = key_of(g, known, document_str(d, document_get(d, v, "type_key")));
        if (!check_fields(g, i))
            return false;
    }
    return true;
}

static bool open_document(Graph *g)
{
    const Document *d = &g->document->d;
    const DocumentValue *nodes = document_get(d, d->at, "nodes"),
                        *root = document_get(d, d->at, "root"),
                        *attrs = document_get(d, d->at, "attrs"),
                        *version = document_get(d, attrs, "tvm_version");
    g->old = document_is(version, DOCUMENT_STRING) && is_before(document_str(d, version), 0, 7);
    if (is_compiled(g)) {
        Diag *e = diag_error(g->cx->diags, g->code, g->span,
                             "this is a compiled graph: it names kernels, not operators");
        diag_note(e, "what the kernels compute stands in the library beside it, as machine code");
        diag_help(e, "there is no way back to Relay; use the program that it was compiled from");
        return false;
    }
    if (!document_is(nodes, DOCUMENT_LIST))
        return wrong_document(g, g->span, "the JSON is no saved graph: it has no list `nodes`");
    g->n = document_count(nodes);
    g->arrays = document_get(d, d->at, "b64ndarrays");
    g->n_arrays = document_is(g->arrays, DOCUMENT_LIST) ? document_count(g->arrays) : 0;
    if (!is_index(g, root, g->n, &g->root))
        return wrong_document(g, root ? span_of(g, root, root->n) : g->span,
                              "`root` of the graph is not the number of a node");
    g->nodes = arena_alloc_must(g->arena, g->n, sizeof *g->nodes);
    g->fields = arena_alloc_must(g->arena, g->n, sizeof *g->fields);
    g->key_of = arena_alloc_must(g->arena, g->n, sizeof *g->key_of);
    g->values = arena_alloc_must(g->arena, g->n_arrays, sizeof *g->values);
    KnownKeys known = {0};
    bool ok = read_nodes(g, &known, nodes);
    ptrmap_deinit(&known.all);
    if (ok && graph_kind(g, 0) != GRAPH_NULL)
        return graph_wrong(g, 0, NULL,
                           "the first node must be the empty one, which stands for nothing");
    return ok;
}

bool graph_open(Graph *g, Ctx *cx, Arena *arena, Str text, Span span, DiagCode code)
{
    DocumentError error;
    *g = (Graph){.cx = cx, .arena = arena, .span = span, .code = code};
    g->document = memory_zeroed(1, sizeof *g->document);
    if (!g->document)
        return false;
    arena_init(&g->document->arena, &cx->limits);
    if (document_read(&g->document->d, &g->document->arena, text, &error))
        return open_document(g);
    if (!error.what || limit_refused(&cx->limits))
        return false;
    Span at = span;
    if (span.to - span.from >= text.len)
        at.from = at.to = span.from + (uint32_t)error.at;
    at.from -= at.from > span.from;
    Diag *d = diag_error(cx->diags, code, at, "this is not JSON: %s", error.what);
    diag_note(d, "in line %zu of the document", error.line);
    return false;
}

static void free_document(void *document)
{
    GraphDocument *d = document;
    if (d)
        arena_deinit(&d->arena);
    free(d);
}

void graph_close(Graph *g)
{
    for (size_t i = 0; g->values && i < g->n_arrays; i++)
        value_release(g->values[i]);
    free_document(g->document);
    g->document = NULL;
    g->values = NULL;
}

void graph_keep(Graph *g, Module *m)
{
    m->saved = g->document;
    arena_on_free(&m->arena, free_document, g->document);
    g->document = NULL;
}

/* ---- fields ------------------------------------------------------------------------------------- */

static const DocumentValue *field_of(const Graph *g, size_t node, const char *field)
{
    return document_get(&g->document->d, g->fields[node], field);
}

/* What stands in the node beside its fields. */
static const DocumentValue *part_of(const Graph *g, size_t node, const char *part)
{
    return document_get(&g->document->d, g->nodes[node], part);
}

bool graph_has(const Graph *g, size_t node, const char *field)
{
    return field_of(g, node, field) != NULL;
}

bool graph_is_number(const Graph *g, size_t node, const char *field)
{
    int64_t v;
    return read_int(g, field_of(g, node, field), &v);
}

bool graph_text(Graph *g, size_t node, const char *field, Str *out)
{
    const DocumentValue *v = field_of(g, node, field);
    if (!v)
        return graph_wrong(g, node, NULL, "the field `%s` is missing", field);
    if (!document_is(v, DOCUMENT_STRING))
        return graph_wrong(g, node, field, "a text in quotes is wanted");
    *out = document_str(&g->document->d, v);
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
    const DocumentValue *v = field_of(g, node, field);
    if (!v)
        return graph_wrong(g, node, NULL, "the field `%s` is missing", field);
    return read_int(g, v, out) || graph_wrong(g, node, field, "this is no whole number of 64 bits");
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
    const DocumentValue *v = field_of(g, node, field);
    *out = 0;
    return !v || is_index(g, v, g->n, out) ||
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

bool repr_decode(Arena *arena, Str text, Str *out)
{
    Buf b = {0};
    bool ok = base64_read(&b, text.ptr, text.len);
    if (ok) {
        uint64_t length = 0;
        for (size_t i = 0; i < 8 && i < b.n; i++)
            length |= (uint64_t)(unsigned char)b.at[i] << 8 * i;
        size_t head = b.n >= 8 && length == b.n - 8 ? 8 : 0;
        out->len = b.n - head;
        out->ptr = arena_copy_text(arena, buf_text(&b) + head, out->len);
    }
    buf_deinit(&b);
    return ok;
}

bool graph_repr(Graph *g, size_t node, Str *out)
{
    const DocumentValue *plain = part_of(g, node, g->old ? "global_key" : "repr_str"),
                        *coded = part_of(g, node, "repr_b64");
    if (g->old && !plain) /* StringImm */
        plain = field_of(g, node, "value");
    if ((plain && !document_is(plain, DOCUMENT_STRING)) ||
        (coded && !document_is(coded, DOCUMENT_STRING)))
        return graph_wrong(g, node, plain ? "repr_str" : "repr_b64", "a text in quotes is wanted");
    *out = document_str(&g->document->d, plain);
    if (plain || !coded)
        return true;
    return repr_decode(g->arena, document_str(&g->document->d, coded), out) ||
           graph_wrong(g, node, "repr_b64", "this is not base64");
}

/* ---- nodes of kinds that nobody knows -------------------------------------------------------------- */

typedef struct Open {
    uint32_t node;
    size_t next; /* item of its data */
} Open;

/* Whether the number of node `v`, the next to come, stands among the items or fields of an open one. */
static bool mentions(const Graph *g, Open *o, size_t v)
{
    const Document *d = &g->document->d;
    const DocumentValue *data = part_of(g, o->node, "data"), *item, *field = NULL;
    size_t at;
    for (; (item = document_item(d, data, o->next)); o->next++)
        if (is_index(g, item, g->n, &at) && at >= v)
            break;
    if (item && is_index(g, item, g->n, &at) && at == v)
        return true;
    Str name, text;
    while (graph_next_field(g, o->node, &field, &name, &text))
        if (is_index(g, field, g->n, &at) && at == v)
            return true;
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
    GraphKind kind = graph_kind(g, to);
    if (to >= node)
        return to > node && to < g->ends[node];
    return to > 0 && g->ends[to] <= node && (kind >= GRAPH_ANY || kind == GRAPH_CONSTANT);
}

/* A number that its writer marked, without the mark that says that it stands for itself. */
static bool is_marked(const Graph *g, Str s, char mark)
{
    return !g->old && s.len > 1 && s.ptr[0] == mark && strchr("0123456789+", s.ptr[1]);
}

size_t graph_guess(Graph *g, size_t node, Str *text)
{
    int64_t number;
    if (!g->ends)
        find_ends(g);
    if (is_marked(g, *text, GRAPH_PLAIN)) {
        *text = (Str){text->ptr + 1, text->len - 1};
        return 0;
    }
    if (!number_parse_int(*text, &number) || number < 0 || (uint64_t)number >= g->n)
        return 0;
    if (!is_marked(g, *text, GRAPH_REFERS) && !refers(g, node, (size_t)number))
        return 0;
    if (graph_kind(g, (size_t)number) != GRAPH_NULL)
        return (size_t)number;
    *text = str_of("0"); /* nothing is the same wherever it stands */
    return 0;
}

size_t graph_fields(const Graph *g, size_t node)
{
    return document_count(g->fields[node]);
}

bool graph_next_field(const Graph *g, size_t node, const DocumentValue **at, Str *name, Str *text)
{
    const Document *d = &g->document->d;
    const DocumentValue *object = g->fields[node], *key = !object ? NULL
                                                          : *at   ? document_next(d, *at)
                                                                  : object + 1;
    if (!object || key == document_next(d, object))
        return false;
    *at = key + 1;
    *name = document_str(d, key);
    *text = document_str(d, *at);
    return true;
}

/* ---- lists and maps ----------------------------------------------------------------------------- */

static const DocumentValue *data_of(const Graph *g, size_t node)
{
    const DocumentValue *data = part_of(g, node, "data");
    return document_is(data, DOCUMENT_LIST) ? data : NULL;
}

size_t graph_items(const Graph *g, size_t node)
{
    return document_count(data_of(g, node));
}

static bool item_at(Graph *g, size_t node, size_t i, size_t *out)
{
    const DocumentValue *v = document_item(&g->document->d, data_of(g, node), i);
    return is_index(g, v, g->n, out) ||
           graph_wrong(g, node, "data", "item %zu is not the number of a node; there are %zu", i,
                       g->n);
}

bool graph_list(Graph *g, size_t node, size_t *n)
{
    GraphKind kind = graph_kind(g, node);
    *n = graph_items(g, node);
    return kind == GRAPH_ARRAY || kind == GRAPH_NULL ||
           graph_wrong(g, node, NULL, "a list is wanted here");
}

bool graph_item(Graph *g, size_t node, size_t i, size_t *out)
{
    return item_at(g, node, i, out);
}

static const DocumentValue *keys_of(const Graph *g, size_t node)
{
    const DocumentValue *keys = part_of(g, node, "keys");
    return document_is(keys, DOCUMENT_LIST) ? keys : NULL;
}

bool graph_map_has_names(const Graph *g, size_t node)
{
    return keys_of(g, node) || graph_items(g, node) == 0;
}

bool graph_map(Graph *g, size_t node, size_t *n)
{
    const DocumentValue *keys = keys_of(g, node);
    size_t items = graph_items(g, node);
    GraphKind kind = graph_kind(g, node);
    *n = keys ? items : items / 2;
    if (kind != GRAPH_MAP && kind != GRAPH_NULL)
        return graph_wrong(g, node, NULL, "a map is wanted here");
    if (keys && document_count(keys) != *n)
        return graph_wrong(g, node, "keys", "there are %zu keys and %zu values",
                           document_count(keys), *n);
    if (!keys && items % 2)
        return graph_wrong(g, node, "data", "a key has no value");
    return true;
}

bool graph_pair(Graph *g, size_t node, size_t i, Str *key, size_t *key_node, size_t *value)
{
    const Document *d = &g->document->d;
    const DocumentValue *keys = keys_of(g, node);
    *key = str_of("");
    *key_node = 0;
    if (!keys) {
        if (!item_at(g, node, 2 * i, key_node) || !item_at(g, node, 2 * i + 1, value))
            return false;
        return graph_kind(g, *key_node) != GRAPH_STRING || graph_repr(g, *key_node, key);
    }
    const DocumentValue *text = document_item(d, keys, i);
    if (!document_is(text, DOCUMENT_STRING))
        return graph_wrong(g, node, "keys", "key %zu is no text", i);
    *key = document_str(d, text);
    return item_at(g, node, i, value);
}

/* ---- tensors ------------------------------------------------------------------------------------- */

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
    const DocumentValue *v = field_of(g, node, field);
    if (!is_index(g, v, g->n_arrays, &at))
        return graph_wrong(g, node, v ? field : NULL,
                           "its data must be the number of an array; there are %zu", g->n_arrays);
    Value *value = &g->values[at];
    if (value_is_none(*value)) {
        const Document *d = &g->document->d;
        const DocumentValue *text = document_item(d, g->arrays, at);
        Str s = document_str(d, text);
        Buf b = {0};
        const char *why = "is not in base64";
        if (document_is(text, DOCUMENT_STRING) && base64_read(&b, s.ptr, s.len))
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
