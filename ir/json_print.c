/* Nodes as text, in the original's layout. */
#include "ir/json_write.h"

#include "base/base64.h"
#include "base/number.h"

#include <stdio.h>
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

static int by_name(const void *a, const void *b)
{
    Str x = ((const GraphField *)a)->name, y = ((const GraphField *)b)->name;
    int order = memcmp(x.ptr, y.ptr, x.len < y.len ? x.len : y.len);
    return order ? order : (x.len > y.len) - (x.len < y.len);
}

/* Fields go in the order in which they were made, and those of a kind that nobody knows by name, as its
 * reader has them (read_object). */
static void number(Numbering *nb, GraphNode *n)
{
    if (!n || n->number)
        return;
    if (n->guessed)
        qsort(n->fields, n->n_fields, sizeof *n->fields, by_name);
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
            nb->stack.n--;
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

/* A number that could be that of a node, though never of the root; or one that looks marked. */
static bool looks_like_reference(const Numbering *nb, Str text)
{
    int64_t v;
    if (text.len > 0 && text.ptr[0] == GRAPH_REFERS)
        return true;
    if (text.len > 1 && text.ptr[0] == GRAPH_PLAIN && strchr("0123456789+", text.ptr[1]))
        return true;
    return number_parse_int(text, &v) && v > 1 && (uint64_t)v <= nb->order.n;
}

static void mark_fields(GraphWriter *w, const Numbering *nb, GraphNode *n)
{
    for (uint32_t i = 0; i < n->n_fields; i++) {
        GraphField *f = &n->fields[i];
        char number[16];
        if (f->text.ptr && looks_like_reference(nb, f->text))
            mark(w, f, GRAPH_PLAIN, f->text);
        else if (!f->text.ptr && f->node && f->node->number < n->number)
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

static void put_fields(Buf *out, GraphNode *n)
{
    qsort(n->fields, n->n_fields, sizeof *n->fields, by_name);
    buf_str(out, ", \n      \"attrs\": {");
    bool alone = n->n_fields == 1; /* on the line of the brace */
    for (uint32_t i = 0; i < n->n_fields; i++) {
        const GraphField *f = &n->fields[i];
        buf_str(out, alone ? "\"" : i ? ", \n        \"" : "\n        \"");
        buf_json(out, f->name.ptr, f->name.len);
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
    buf_str(out, first ? "\n    " : ", \n    ");
}

static void put_head(Buf *out, size_t root)
{
    buf_str(out, "{\n  \"root\": ");
    buf_uint(out, root);
    buf_str(out, ", \n  \"nodes\": [\n    {\n      \"type_key\": \"\"\n    }");
}

static void put_end(Buf *out, size_t arrays, Str version)
{
    buf_str(out, arrays ? "\n  ], \n" : "], \n");
    buf_str(out, "  \"attrs\": {\"tvm_version\": ");
    put_text(out, version);
    buf_str(out, "}\n}\n");
}

static const char graph_version[] = "0.9.0", before_arrays[] = "\n  ], \n  \"b64ndarrays\": [";

void graph_writer_print(GraphWriter *w, Buf *out, GraphNode *root)
{
    Numbering nb = {0};
    arena_init(&nb.arena, &w->cx->limits);
    number_all(&nb, root);
    for (size_t i = 0; i < nb.order.n && !limit_hit(&w->cx->limits); i++)
        if (nb.order.at[i]->guessed)
            mark_fields(w, &nb, nb.order.at[i]);
    put_head(out, number_of(root));
    for (size_t i = 0; i < nb.order.n && !out->failed && !limit_hit(&w->cx->limits); i++)
        put_node(out, nb.order.at[i]);
    buf_str(out, before_arrays);
    for (size_t i = 0; i < w->arrays.n; i++) {
        TensorView view;
        put_array(out, i == 0);
        buf_char(out, '"');
        if (value_view(&w->arrays.at[i], &view))
            tensor_write_base64(out, &view.t);
        buf_char(out, '"');
    }
    put_end(out, w->arrays.n, str_of(graph_version));
    arena_deinit(&nb.arena);
}

/* ---- a document as it was read -------------------------------------------------------------------- */

static GraphNode *item_of(const Document *d, GraphNode *nodes, size_t n, const DocumentValue *v)
{
    int64_t i;
    return graph_number(d, v, &i) && i > 0 && (uint64_t)i < n ? &nodes[i] : NULL;
}

static void saved_repr(GraphWriter *w, GraphNode *n, const Document *d, const DocumentValue *object)
{
    const DocumentValue *plain = document_get(d, object, "repr_str"),
                        *coded = document_get(d, object, "repr_b64");
    n->repr = document_str(d, plain);
    if (!plain && coded)
        repr_decode(&w->arena, document_str(d, coded), &n->repr);
}

static void saved_fields(GraphWriter *w, GraphNode *n, const Document *d,
                         const DocumentValue *attrs)
{
    size_t count = document_is(attrs, DOCUMENT_OBJECT) ? document_count(attrs) : 0;
    n->fields = arena_alloc_must(&w->arena, count, sizeof *n->fields);
    const DocumentValue *key = count ? attrs + 1 : NULL;
    for (; n->n_fields < count; key = document_next(d, key + 1)) {
        n->fields[n->n_fields++] =
            (GraphField){.name = document_str(d, key), .text = document_str(d, key + 1)};
    }
}

/* The node of number `n - nodes`; what it refers to has its place already. */
static void saved_node(GraphWriter *w, GraphNode *n, GraphNode *nodes, size_t count,
                       const Document *d, const DocumentValue *object)
{
    const DocumentValue *data = document_get(d, object, "data"),
                        *keys = document_get(d, object, "keys");
    n->number = (uint32_t)(n - nodes);
    n->key = ctx_name_str(w->cx, document_str(d, document_get(d, object, "type_key")))->text;
    n->n_data = document_is(data, DOCUMENT_LIST) ? (uint32_t)document_count(data) : 0;
    n->data = arena_alloc_must(&w->arena, n->n_data, sizeof *n->data);
    n->keys = document_is(keys, DOCUMENT_LIST)
                  ? arena_alloc_must(&w->arena, n->n_data, sizeof *n->keys)
                  : NULL;
    for (uint32_t i = 0; i < n->n_data; i++) {
        n->data[i] = item_of(d, nodes, count, document_item(d, data, i));
        if (n->keys)
            n->keys[i] = document_str(d, document_item(d, keys, i));
    }
    saved_repr(w, n, d, object);
    saved_fields(w, n, d, document_get(d, object, "attrs"));
}

void graph_print_saved(Buf *out, Ctx *cx, const Module *m)
{
    GraphWriter w;
    const Document *d = &m->saved->d;
    const DocumentValue *list = document_get(d, d->at, "nodes"), *object = list + 1,
                        *arrays = document_get(d, d->at, "b64ndarrays"),
                        *attrs = document_get(d, d->at, "attrs"),
                        *version = document_get(d, attrs, "tvm_version");
    size_t n = document_count(list), n_arrays = document_count(arrays);
    graph_writer_init(&w, cx);
    GraphNode *nodes = arena_alloc_must(&w.arena, n, sizeof *nodes);
    for (size_t i = 0; i < n && !limit_hit(&cx->limits); i++, object = document_next(d, object))
        saved_node(&w, &nodes[i], nodes, n, d, object);
    put_head(out, number_of(item_of(d, nodes, n, document_get(d, d->at, "root"))));
    for (size_t i = 1; i < n && !out->failed && !limit_hit(&cx->limits); i++)
        put_node(out, &nodes[i]);
    buf_str(out, before_arrays);
    for (size_t i = 0; i < n_arrays; i++) {
        put_array(out, i == 0);
        put_text(out, document_str(d, document_item(d, arrays, i)));
    }
    put_end(out, n_arrays, version ? document_str(d, version) : str_of(graph_version));
    graph_writer_deinit(&w);
}
