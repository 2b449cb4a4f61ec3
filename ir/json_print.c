/* Nodes as text, in the original's layout. */
#include "ir/json_write.h"

#include "base/number.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbering ------------------------------------------------------------------------------------- */

typedef struct Visit {
    GraphNode *node;
    uint32_t next; /* child */
} Visit;

typedef struct Numbering {
    Arena arena;
    Vec(Visit) stack;
    Vec(GraphNode *) order;
} Numbering;

static void number(Numbering *nb, GraphNode *n)
{
    if (!n || n->number)
        return;
    vec_push(&nb->order, &nb->arena, n);
    n->number = (uint32_t)nb->order.n;
    vec_push(&nb->stack, &nb->arena, ((Visit){.node = n}));
}

static void number_all(Numbering *nb, GraphNode *root)
{
    number(nb, root);
    while (nb->stack.n) {
        Visit *top = &vec_last(&nb->stack);
        uint32_t i = top->next++;
        const GraphNode *n = top->node;
        if (i < n->n_data)
            number(nb, n->data[i]);
        else if (i - n->n_data < n->n_fields)
            number(nb, n->fields[i - n->n_data].node);
        else
            vec_pop(&nb->stack).node->end = (uint32_t)nb->order.n + 1;
    }
}

/* ---- what a reader would guess otherwise ------------------------------------------------------------ */

static void mark(GraphWriter *w, GraphField *f, char sign, Str number)
{
    Buf b = {0};
    buf_char(&b, sign);
    buf_bytes(&b, number.ptr, number.len);
    f->text = (Str){arena_copy_text(&w->arena, buf_text(&b), b.n), b.n};
    buf_deinit(&b);
}

/* What stands further back and is over there; all else that a reader takes for a reference follows. */
static bool looks_shared(const GraphNode *n, const GraphNode *to)
{
    return to->end <= n->number && graph_kind_is_shared(graph_kind_of(to->key));
}

static bool looks_like_reference(const Numbering *nb, const GraphNode *n, Str text)
{
    int64_t v;
    if (text.len > 0 && text.ptr[0] == GRAPH_REFERS)
        return true;
    if (text.len > 1 && text.ptr[0] == GRAPH_PLAIN && strchr("0123456789+", text.ptr[1]))
        return true;
    if (!number_parse_int(text, &v) || v <= 0 || (uint64_t)v > nb->order.n)
        return false;
    return v > n->number || looks_shared(n, nb->order.at[v - 1]);
}

static void mark_fields(GraphWriter *w, const Numbering *nb, GraphNode *n)
{
    for (uint32_t i = 0; i < n->n_fields; i++) {
        GraphField *f = &n->fields[i];
        char number[16];
        if (f->text.ptr && looks_like_reference(nb, n, f->text))
            mark(w, f, GRAPH_PLAIN, f->text);
        else if (!f->text.ptr && f->node && f->node->number < n->number &&
                 !looks_shared(n, f->node))
            mark(w, f, GRAPH_REFERS,
                 (Str){number, (size_t)snprintf(number, sizeof number, "%u", f->node->number)});
    }
}

/* ---- printing --------------------------------------------------------------------------------------- */

static void put_text(Buf *out, Str s)
{
    buf_char(out, '"');
    buf_json(out, s.ptr, s.len);
    buf_char(out, '"');
}

static uint32_t number_of(const GraphNode *n)
{
    return n ? n->number : 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const GraphField *)a)->name, ((const GraphField *)b)->name);
}

static void put_fields(Buf *out, GraphNode *n)
{
    qsort(n->fields, n->n_fields, sizeof *n->fields, by_name);
    buf_str(out, ", \n      \"attrs\": {");
    bool alone = n->n_fields == 1; /* on the line of the brace */
    for (uint32_t i = 0; i < n->n_fields; i++) {
        const GraphField *f = &n->fields[i];
        buf_str(out, alone ? "\"" : i ? ", \n        \"" : "\n        \"");
        buf_json(out, f->name, strlen(f->name));
        buf_str(out, "\": ");
        if (f->text.ptr)
            put_text(out, f->text);
        else
            buf_printf(out, "\"%u\"", number_of(f->node));
    }
    buf_str(out, alone ? "}" : "\n      }");
}

/* What cannot be printed goes in base64, with its length in front. */
static void put_repr(Buf *out, Str s)
{
    bool plain = true;
    for (size_t i = 0; i < s.len; i++)
        plain = plain && s.ptr[i] >= ' ' && s.ptr[i] <= '~';
    if (plain) {
        buf_str(out, ", \n      \"repr_str\": ");
        put_text(out, s);
        return;
    }
    Buf b = {0};
    for (int i = 0; i < 8; i++)
        buf_char(&b, (char)((uint64_t)s.len >> 8 * i & 255));
    buf_bytes(&b, s.ptr, s.len);
    buf_str(out, ", \n      \"repr_b64\": \"");
    base64_write(out, (const unsigned char *)buf_text(&b), b.n);
    buf_char(out, '"');
    buf_deinit(&b);
}

static void put_keys(Buf *out, const GraphNode *n)
{
    buf_str(out, ", \n      \"keys\": [");
    for (uint32_t i = 0; i < n->n_data; i++) {
        buf_str(out, i ? ", \n        " : "\n        ");
        put_text(out, n->keys[i]);
    }
    buf_str(out, "\n      ]");
}

static void put_node(Buf *out, GraphNode *n)
{
    buf_str(out, ", \n    {\n      \"type_key\": ");
    put_text(out, str_of(n->key));
    if (n->repr.len)
        put_repr(out, n->repr);
    if (n->n_fields)
        put_fields(out, n);
    if (n->keys && n->n_data)
        put_keys(out, n);
    if (n->n_data)
        buf_str(out, ", \n      \"data\": [");
    for (uint32_t i = 0; i < n->n_data; i++) {
        buf_str(out, i ? ", " : "");
        buf_uint(out, number_of(n->data[i]));
    }
    buf_str(out, n->n_data ? "]\n    }" : "\n    }");
}

static void put_array(Buf *out, bool first)
{
    buf_str(out, first ? "\n    \"" : ", \n    \"");
}

static void put_head(Buf *out, size_t root)
{
    buf_str(out, "{\n  \"root\": ");
    buf_uint(out, root);
    buf_str(out, ", \n  \"nodes\": [\n    {\n      \"type_key\": \"\"\n    }");
}

static void put_end(Buf *out, size_t arrays, const char *version)
{
    buf_str(out, arrays ? "\n  ], \n" : "], \n");
    buf_printf(out, "  \"attrs\": {\"tvm_version\": \"%s\"}\n}\n", version);
}

static const char before_arrays[] = "\n  ], \n  \"b64ndarrays\": [";

void graph_writer_print(GraphWriter *w, Buf *out, GraphNode *root)
{
    Numbering nb = {0};
    arena_init(&nb.arena, &w->cx->limits);
    number_all(&nb, root);
    for (size_t i = 0; i < nb.order.n; i++)
        if (nb.order.at[i]->guessed)
            mark_fields(w, &nb, nb.order.at[i]);
    put_head(out, number_of(root));
    for (size_t i = 0; i < nb.order.n && !out->failed; i++)
        put_node(out, nb.order.at[i]);
    buf_str(out, before_arrays);
    for (size_t i = 0; i < w->arrays.n; i++) {
        TensorView view;
        put_array(out, i == 0);
        if (value_view(&w->arrays.at[i], &view))
            tensor_write_base64(out, &view.t);
        buf_char(out, '"');
    }
    put_end(out, w->arrays.n, "0.9.0");
    arena_deinit(&nb.arena);
}

/* ---- a document as it was read -------------------------------------------------------------------- */

static Str text_of(const json_t *v)
{
    return (Str){json_is_string(v) ? json_string_value(v) : "", json_string_length(v)};
}

/* Numbers of nodes are numbers in lists and texts in fields. */
static GraphNode *item_of(GraphNode *nodes, size_t n, const json_t *v)
{
    json_int_t i = json_is_integer(v) ? json_integer_value(v) : 0;
    return i > 0 && (uint64_t)i < n ? &nodes[i] : NULL;
}

static void saved_repr(GraphWriter *w, GraphNode *n, const json_t *object)
{
    Buf b = {0};
    Str plain = text_of(json_object_get(object, "repr_str")),
        coded = text_of(json_object_get(object, "repr_b64"));
    n->repr = plain;
    if (coded.len && base64_read(&b, coded.ptr, coded.len) && b.n > 8)
        n->repr = (Str){arena_copy_text(&w->arena, buf_text(&b) + 8, b.n - 8), b.n - 8};
    buf_deinit(&b);
}

static void saved_fields(GraphWriter *w, GraphNode *n, json_t *attrs)
{
    const char *name;
    json_t *v;
    n->fields = arena_alloc_must(&w->arena, json_object_size(attrs), sizeof *n->fields);
    json_object_foreach(attrs, name, v)
    {
        Buf number = {0};
        buf_int(&number, json_is_integer(v) ? json_integer_value(v) : 0);
        graph_put_text(w, n, name, json_is_string(v) ? text_of(v) : str_of(buf_text(&number)));
        buf_deinit(&number);
    }
}

/* The node of number `n - nodes`; what it refers to has its place already. */
static void saved_node(GraphWriter *w, GraphNode *n, GraphNode *nodes, size_t count,
                       const json_t *object)
{
    const json_t *data = json_object_get(object, "data"), *keys = json_object_get(object, "keys");
    n->number = (uint32_t)(n - nodes);
    n->key = text_of(json_object_get(object, "type_key")).ptr;
    n->n_data = (uint32_t)json_array_size(data);
    n->data = arena_alloc_must(&w->arena, n->n_data, sizeof *n->data);
    n->keys = keys ? arena_alloc_must(&w->arena, n->n_data, sizeof *n->keys) : NULL;
    for (uint32_t i = 0; i < n->n_data; i++) {
        n->data[i] = item_of(nodes, count, json_array_get(data, i));
        if (keys)
            n->keys[i] = text_of(json_array_get(keys, i));
    }
    saved_repr(w, n, object);
    saved_fields(w, n, json_object_get(object, "attrs"));
}

void graph_print_saved(Buf *out, Ctx *cx, const Module *m)
{
    GraphWriter w;
    const json_t *list = json_object_get(m->saved, "nodes"),
                 *arrays = json_object_get(m->saved, "b64ndarrays");
    const json_t *attrs = json_object_get(m->saved, "attrs"),
                 *root = json_object_get(m->saved, "root");
    const char *version = json_string_value(json_object_get(attrs, "tvm_version"));
    size_t n = json_array_size(list), i;
    graph_writer_init(&w, cx);
    GraphNode *nodes = arena_alloc_must(&w.arena, n, sizeof *nodes);
    for (i = 0; i < n && !limit_hit(&cx->limits); i++)
        saved_node(&w, &nodes[i], nodes, n, json_array_get(list, i));
    put_head(out, number_of(item_of(nodes, n, root)));
    for (i = 1; i < n && !out->failed; i++)
        put_node(out, &nodes[i]);
    buf_str(out, before_arrays);
    for (i = 0; i < json_array_size(arrays); i++) {
        put_array(out, i == 0);
        buf_str(out, text_of(json_array_get(arrays, i)).ptr);
        buf_char(out, '"');
    }
    put_end(out, json_array_size(arrays), version ? version : "0.9.0");
    graph_writer_deinit(&w);
}
