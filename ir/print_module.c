/* Whole texts: a module with its parts in order, or one expression. */
#include "ir/print_internal.h"

#include "ir/metadata.h"

#include <stdlib.h>
#include <string.h>

static void printer_init(Printer *p, PrintStyle style, PrintOrder *order)
{
    *p = (Printer){.style = style, .order = order};
    arena_init(&p->arena, NULL);
    interner_init(&p->names, &p->arena);
}

static void printer_deinit(Printer *p)
{
    buf_deinit(&p->text);
    buf_deinit(&p->lines);
    buf_deinit(&p->head);
    buf_deinit(&p->bound);
    ptrmap_deinit(&p->type_names);
    arena_deinit(&p->arena);
}

static void print_def(Printer *p, Buf *out, const Def *def)
{
    doc_begin(p, NULL);
    p->open = 0;
    p->def++;
    name_type_params(p, &def->fn->base);
    put_mark(p, &def->fn->base);
    buf_str(&p->text, "def @");
    buf_str(&p->text, def->name->text);
    put_function_head(p, &p->text, def->fn);
    buf_str(&p->text, " {\n");
    p->indent = 1;
    print_body(p, out, def->fn->body, "\n}\n");
}

static void print_expr(Printer *p, Buf *out, const Expr *e, const char *tail)
{
    doc_begin(p, NULL);
    p->open = 0;
    p->def++;
    p->indent = 0;
    print_count_uses(p, e);
    name_type_params(p, e);
    print_body(p, out, e, tail);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const TypeDef *const *)a)->name->text,
                  (*(const TypeDef *const *)b)->name->text);
}

static bool type_is_imported(const Module *m, const TypeDef *def)
{
    for (size_t i = 0; i < m->imported_types.n; i++)
        if (m->imported_types.at[i] == def)
            return true;
    return false;
}

static void print_types(Printer *p, Buf *out, const Module *m, bool *blank)
{
    const TypeDef **types = arena_alloc_must(&p->arena, m->types.n, sizeof *types);
    size_t n = 0;
    for (size_t i = 0; i < m->types.n; i++)
        if (p->style.imported || !type_is_imported(m, m->types.at[i]))
            types[n++] = m->types.at[i];
    if (n)
        qsort(types, n, sizeof *types, by_name);
    for (size_t i = 0; i < n; i++, *blank = true) {
        if (*blank)
            buf_char(out, '\n');
        put_typedef(p, out, types[i]);
    }
}

static void print_imports(Buf *out, const Module *m, bool *blank)
{
    for (size_t i = 0; i < m->imports.n; i++, *blank = true) {
        AttrValue path = {.kind = ATTR_STRING, .s = m->imports.at[i]};
        buf_str(out, "import ");
        ir_print_attr(out, &path);
        buf_char(out, '\n');
    }
}

static void print_defs(Printer *p, Buf *out, const Module *m, bool *blank)
{
    const Def **defs = arena_alloc_must(&p->arena, m->defs.n, sizeof *defs);
    size_t n = module_sorted_defs(m, defs, p->style.imported);
    for (size_t i = 0; i < n; i++)
        print_count_uses(p, defs[i]->fn->body);
    for (size_t i = 0; i < n && print_goes_on(p); i++, *blank = true) {
        if (*blank)
            buf_char(out, '\n');
        print_def(p, out, defs[i]);
    }
}

static void print_module(Printer *p, Buf *out, const Module *m)
{
    bool blank = false;
    p->declare = true;
    p->cx = m->cx;
    p->limits = p->arena.limits = &m->cx->limits;
    if (!p->style.no_header)
        buf_str(out, "#[version = \"0.0.5\"]\n");
    if (!p->style.imported)
        print_imports(out, m, &blank);
    print_types(p, out, m, &blank);
    print_defs(p, out, m, &blank);
    if (m->expr)
        print_expr(p, out, m->expr, "\n");
    if (p->constants.n + p->symbols.n + p->records.n && !p->style.no_metadata && print_goes_on(p)) {
        buf_str(out, "\n#[metadata]\n");
        metadata_write(out, m->cx,
                       (MetadataItems){p->constants.n, p->symbols.n, p->records.n, p->constants.at,
                                       p->symbols.at, p->records.at});
    }
}

/* A module, or without one an expression. */
static void print_all(Buf *out, const Module *m, const Expr *e, PrintStyle style, PrintOrder *order)
{
    Printer p;
    printer_init(&p, style, order);
    if (m)
        print_module(&p, out, m);
    else
        print_expr(&p, out, e, "");
    out->failed |= p.failed;
    printer_deinit(&p);
}

/* Once, and again while lines have to move. */
static void print_ordered(Buf *out, const Module *m, const Expr *e, PrintStyle style)
{
    PrintOrder order;
    size_t from = out->n;
    order_init(&order);
    do {
        buf_cut(out, from);
        print_all(out, m, e, style, &order);
    } while (order_again(&order) && !out->failed);
    order_deinit(&order);
}

void ir_print_expr(Buf *out, const Expr *e, PrintStyle style)
{
    print_ordered(out, NULL, e, style);
}

void ir_print_module(Buf *out, const Module *m, PrintStyle style)
{
    print_ordered(out, m, NULL, style);
}
