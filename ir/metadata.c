#include "ir/metadata.h"

#include "ir/dim.h"
#include "ir/json_write.h"

#include <string.h>

/* ---- reading ----------------------------------------------------------------------------------- */

bool metadata_open(Metadata *md, Ctx *cx, Arena *scratch, Module *m, Str json, Span span)
{
    bool ok = graph_open(&md->graph, cx, scratch, json, span, E0117_METADATA);
    graph_reader_init(&md->reader, &md->graph, m, &m->arena);
    if (ok && graph_kind(&md->graph, md->graph.root) != GRAPH_MAP)
        ok = graph_wrong(&md->graph, md->graph.root, NULL, "the section must be a map of lists");
    return ok;
}

void metadata_close(Metadata *md)
{
    graph_reader_deinit(&md->reader);
    graph_close(&md->graph);
}

static bool wrong_reference(Metadata *md, Span span, Str key, const char *what, size_t n)
{
    Diag *d = diag_error(md->graph.cx->diags, E0117_METADATA, span, "the metadata has no %s `%.*s`",
                         what, (int)key.len, key.ptr);
    if (n)
        diag_note(d, "it holds %zu, counted from 0", n);
    return false;
}

bool metadata_find(Metadata *md, Str key, int64_t index, Span span, size_t *node)
{
    size_t n, items, list, key_node;
    Graph *g = &md->graph;
    Str name;
    if (!graph_map(g, g->root, &n))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!graph_pair(g, g->root, i, &name, &key_node, &list))
            return false;
        if (!str_eq(name, key))
            continue;
        if (!graph_list(g, list, &items))
            return false;
        if ((uint64_t)index < items)
            return graph_item(g, list, (size_t)index, node);
        return wrong_reference(md, span, key, "such item of", items);
    }
    return wrong_reference(md, span, key, "list", 0);
}

/* ---- writing ------------------------------------------------------------------------------------- */

const char *metadata_key_of_symbol(const Ctx *cx, Dim symbol)
{
    const DimSymbol *s = dim_symbol_get(cx, symbol);
    if (s && s->op != DIM_VAR)
        return dim_op_key(s->op);
    return graph_info(s && s->is_size ? GRAPH_SIZE_VAR : GRAPH_SHAPE_VAR)->key;
}

const char *metadata_key_of_attr(const AttrValue *v)
{
    if (v->kind == ATTR_RECORD)
        return v->record.key;
    return graph_info(v->kind == ATTR_FLOAT ? GRAPH_FLOAT : GRAPH_INT)->key;
}

typedef struct Section {
    const char *key;
    Vec(GraphNode *) items;
} Section;

typedef Vec(Section) Sections;

static void add(GraphWriter *w, Sections *all, const char *key, GraphNode *node)
{
    size_t i = 0;
    while (i < all->n && strcmp(all->at[i].key, key) != 0)
        i++;
    if (i == all->n)
        vec_push(all, &w->arena, ((Section){.key = key}));
    vec_push(&all->at[i].items, &w->arena, node);
}

void metadata_write(Buf *out, Ctx *cx, MetadataItems items)
{
    GraphWriter w;
    Sections all = {0};
    graph_writer_init(&w, cx);
    for (size_t i = 0; i < items.n_constants; i++)
        add(&w, &all, graph_info(GRAPH_CONSTANT)->key, graph_of_constant(&w, items.constants[i]));
    for (size_t i = 0; i < items.n_symbols; i++)
        add(&w, &all, metadata_key_of_symbol(cx, items.symbols[i]),
            graph_of_extent(&w, items.symbols[i]));
    for (size_t i = 0; i < items.n_records; i++)
        add(&w, &all, metadata_key_of_attr(items.records[i]), graph_of_attr(&w, items.records[i]));
    GraphNode *root = graph_make_map(&w, (uint32_t)all.n);
    for (size_t i = 0; i < all.n; i++) {
        GraphNode *list = root->data[i] = graph_make_array(&w, (uint32_t)all.at[i].items.n);
        root->keys[i] = str_of(all.at[i].key);
        memcpy(list->data, all.at[i].items.at, list->n_data * sizeof *list->data);
    }
    graph_writer_settle(&w);
    graph_writer_print(&w, out, root);
    graph_writer_deinit(&w);
}
