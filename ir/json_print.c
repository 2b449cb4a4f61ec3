/* Nodes as text, in the original's layout. */
#include "ir/json_write.h"

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
            nb->stack.n--;
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
    for (uint32_t i = 0; i < n->n_fields; i++) {
        const GraphField *f = &n->fields[i];
        buf_str(out, i ? ", \n        \"" : "\n        \"");
        buf_str(out, f->name);
        buf_str(out, "\": ");
        if (f->text.ptr)
            put_text(out, f->text);
        else
            buf_printf(out, "\"%u\"", number_of(f->node));
    }
    buf_str(out, "\n      }");
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

static void put_arrays(GraphWriter *w, Buf *out)
{
    for (size_t i = 0; i < w->arrays.n; i++) {
        TensorView view;
        buf_str(out, i ? ", \n    \"" : "\n    \"");
        if (value_view(&w->arrays.at[i], &view))
            tensor_write_base64(out, &view.t);
        buf_char(out, '"');
    }
}

void graph_writer_print(GraphWriter *w, Buf *out, GraphNode *root)
{
    Numbering nb = {0};
    arena_init(&nb.arena, &w->cx->limits);
    number_all(&nb, root);
    buf_str(out, "{\n  \"root\": ");
    buf_uint(out, number_of(root));
    buf_str(out, ", \n  \"nodes\": [\n    {\n      \"type_key\": \"\"\n    }");
    for (size_t i = 0; i < nb.order.n && !out->failed; i++)
        put_node(out, nb.order.at[i]);
    buf_str(out, "\n  ], \n  \"b64ndarrays\": [");
    put_arrays(w, out);
    buf_str(out, "\n  ], \n  \"attrs\": {\"tvm_version\": \"0.9.0\"}\n}\n");
    arena_deinit(&nb.arena);
}
