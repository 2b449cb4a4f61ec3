/* The pieces of printed text that hold no expression below them: names, literals, attributes, heads. */
#include "ir/print_internal.h"

#include "base/number.h"
#include "ir/metadata.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is known about nodes --------------------------------------------------------------------------------------------- */

/* Pages are scattered, the nodes of a page stay beside each other: they are met one after another. */
static uint64_t hash_node(const Expr *e)
{
    uintptr_t at = (uintptr_t)e;
    uint64_t h = (uint64_t)(at >> 12) * 0x9e3779b97f4a7c15u;
    return (h ^ h >> 32) + (at >> 5 & 127);
}

static uint32_t node_tag(const Expr *e)
{
    return (uint32_t)((uintptr_t)e >> 4);
}

static void slot_fill(NodeTable *t, const Expr *e, size_t at)
{
    uint64_t h = hash_node(e);
    size_t k = h & (t->cap - 1);
    while (t->slots[k].at)
        k = (k + 1) & (t->cap - 1);
    t->slots[k] = (NodeSlot){node_tag(e), (uint32_t)at + 1};
}

static bool table_grow(NodeTable *t)
{
    size_t cap = t->cap ? 2 * t->cap : 64;
    NodeSlot *slots = calloc(cap, sizeof *slots);
    PrintNode *nodes = realloc(t->nodes, cap / 2 * sizeof *nodes);
    if (nodes) {
        t->nodes = nodes;
        t->nodes_cap = cap / 2;
    }
    if (!slots || !nodes) {
        free(slots);
        return false;
    }
    free(t->slots);
    t->slots = slots;
    t->cap = cap;
    for (size_t i = 0; i < t->n; i++)
        slot_fill(t, t->nodes[i].e, i);
    return true;
}

PrintNode *node_find(Printer *p, const Expr *e)
{
    NodeTable *t = &p->nodes;
    if (!t->cap)
        return NULL;
    uint64_t h = hash_node(e);
    uint32_t tag = node_tag(e);
    for (size_t k = h & (t->cap - 1); t->slots[k].at; k = (k + 1) & (t->cap - 1)) {
        if (t->slots[k].tag == tag && t->nodes[t->slots[k].at - 1].e == e)
            return &t->nodes[t->slots[k].at - 1];
    }
    return NULL;
}

PrintNode *node_get(Printer *p, const Expr *e)
{
    NodeTable *t = &p->nodes;
    PrintNode *old = node_find(p, e);
    if (old)
        return old;
    if (t->n >= t->nodes_cap && !table_grow(t)) {
        p->nowhere = (PrintNode){.number = -1};
        p->failed = true;
        return &p->nowhere;
    }
    slot_fill(t, e, t->n);
    t->nodes[t->n] = (PrintNode){.e = e, .number = -1};
    return &t->nodes[t->n++];
}

/* ---- names of variables ------------------------------------------------------------------------------------------------------ */

static void names_grow(Printer *p)
{
    NameTable *t = &p->names;
    size_t cap = t->cap ? 2 * t->cap : 64;
    UsedName *slots = arena_alloc_must(&p->arena, cap, sizeof *slots);
    for (size_t i = 0; i < t->cap; i++) {
        if (!t->slots[i].text)
            continue;
        size_t k = t->slots[i].hash & (cap - 1);
        while (slots[k].text)
            k = (k + 1) & (cap - 1);
        slots[k] = t->slots[i];
    }
    t->slots = slots;
    t->cap = cap;
}

/* The entry of the name; `text` is NULL in one that is new. */
static UsedName *used_name(Printer *p, const char *text, size_t n)
{
    NameTable *t = &p->names;
    if (4 * (t->n + 1) > 3 * t->cap)
        names_grow(p);
    uint32_t hash = (uint32_t)hash_bytes(text, n, 0);
    size_t k = hash & (t->cap - 1);
    for (; t->slots[k].text; k = (k + 1) & (t->cap - 1))
        if (t->slots[k].hash == hash && t->slots[k].n == n && !memcmp(t->slots[k].text, text, n))
            return &t->slots[k];
    t->slots[k].hash = hash;
    return &t->slots[k];
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Words that cannot stand behind a `%`. */
static bool is_reserved(const char *s, size_t n)
{
    static const char *const words[] = {"let",      "fn",   "def",      "if",
                                        "else",     "type", "match",    "extern",
                                        "free_var", "ref",  "ref_read", "ref_write"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == n && !memcmp(words[i], s, n))
            return true;
    return false;
}

/* The hint as a name that can be read back, with its `%`, in p->head. */
static void spell(Printer *p, const Name *hint)
{
    Buf *b = &p->head;
    buf_clear(b);
    buf_char(b, '%');
    size_t n = hint ? hint->len : 0;
    if (n == 0 || !is_letter(hint->text[0]) || is_reserved(hint->text, n))
        buf_char(b, 'v');
    for (size_t i = 0; i < n; i++) {
        char c = hint->text[i];
        bool fits = is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '/';
        buf_char(b, fits ? c : '_');
    }
}

PrintNode *name_var(Printer *p, const Var *v)
{
    spell(p, v->name);
    size_t stem = p->head.n;
    UsedName *used = used_name(p, buf_text(&p->head), stem);
    while (used->text) {
        p->head.n = stem;
        buf_uint(&p->head, ++used->next);
        UsedName *longer = used_name(p, buf_text(&p->head), p->head.n);
        if (!longer->text) {
            used = longer;
            break;
        }
        used = used_name(p, buf_text(&p->head), stem);
    }
    used->text = arena_copy_text(&p->arena, buf_text(&p->head), p->head.n);
    used->n = p->head.n;
    p->names.n++;
    PrintNode *node = node_get(p, &v->base);
    node->met = true;
    node->name.at = used->text;
    node->name.n = used->n;
    return node;
}

/* ---- literals -------------------------------------------------------------------------------------------------------------------- */

bool constant_is_literal(const Constant *c)
{
    if (c->value.kind != VALUE_SCALAR)
        return false;
    switch (dtype_id(c->value.dtype)) {
    case DT_BOOL:
    case DT_INT16:
    case DT_INT32:
    case DT_INT64:
    case DT_FLOAT16:
    case DT_FLOAT32:
    case DT_FLOAT64: return true;
    default: return false;
    }
}

static void put_float(Buf *b, Value v, bool six_digits)
{
    double d = value_as_double(v);
    if (six_digits)
        number_print_g6(b, d);
    else if (v.dtype.bits == 64)
        number_print_double(b, d);
    else if (v.dtype.bits == 32)
        number_print_float(b, (float)d);
    else
        number_print_half(b, (uint16_t)v.bits);
    buf_str(b, v.dtype.bits == 32 ? "f" : v.dtype.bits == 64 ? "f64" : "f16");
}

void put_meta(Printer *p, Buf *b, const Constant *c)
{
    PrintNode *node = node_get(p, &c->base);
    if (node->number < 0) {
        node->number = (int32_t)p->constants.n;
        vec_push(&p->constants, &p->arena, c->value);
    }
    if (!b)
        return;
    buf_str(b, "meta[relay.Constant][");
    buf_int(b, node->number);
    buf_char(b, ']');
}

void put_constant(Printer *p, Buf *b, const Constant *c)
{
    Value v = c->value;
    if (!constant_is_literal(c)) {
        put_meta(p, b, c);
    } else if (dtype_is_bool(v.dtype)) {
        buf_str(b, value_is_true(v) ? "True" : "False");
    } else if (dtype_is_float(v.dtype)) {
        put_float(b, v, p->style.six_digits);
    } else {
        buf_int(b, value_as_int(v));
        if (v.dtype.bits != 32)
            buf_str(b, v.dtype.bits == 64 ? "i64" : "i16");
    }
    /* Wherever it stands, though it may be one node. */
    if (p->style.types && c->base.type)
        put_type_comment(p, b, c->base.type);
}

/* `meta[KEY][k]` for what has no text of its own. */
static void put_item(Buf *b, const char *key, size_t index)
{
    buf_printf(b, "meta[%s][%zu]", key, index);
}

static void put_extent(void *data, Buf *b, Dim symbol)
{
    Printer *p = data;
    const char *key = metadata_key_of_symbol(p->cx, symbol);
    size_t index = 0, i = 0;
    for (; i < p->symbols.n && p->symbols.at[i] != symbol; i++)
        index += !strcmp(metadata_key_of_symbol(p->cx, p->symbols.at[i]), key);
    if (i == p->symbols.n)
        vec_push(&p->symbols, &p->arena, symbol);
    put_item(b, key, index);
}

/* The same record printed again, as for two types of it, is one item. */
static void put_record(Printer *p, Buf *b, const AttrValue *v)
{
    const char *key = metadata_key_of_attr(v);
    size_t index = 0, i = 0;
    for (; p && i < p->records.n && p->records.at[i] != v; i++)
        index += !strcmp(metadata_key_of_attr(p->records.at[i]), key);
    if (p && i == p->records.n)
        vec_push(&p->records, &p->arena, v);
    put_item(b, key, index);
}

void put_type(Printer *p, Buf *b, const Type *t)
{
    type_print_as(b, t, p->cx ? (TypeStyle){put_extent, p} : (TypeStyle){0});
}

void put_type_comment(Printer *p, Buf *b, const Type *t)
{
    if (!p->style.types || !t)
        return;
    buf_str(b, " /* ty=");
    put_type(p, b, t);
    buf_str(b, " */");
}

/* ---- attributes ------------------------------------------------------------------------------------------------------------------ */

static void put_string(Buf *b, Str s)
{
    buf_char(b, '"');
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        switch (c) {
        case '"': buf_str(b, "\\\""); break;
        case '\\': buf_str(b, "\\\\"); break;
        case '\t': buf_str(b, "\\t"); break;
        case '\n': buf_str(b, "\\n"); break;
        case '\r': buf_str(b, "\\r"); break;
        default:
            if (c < ' ' || c == 127)
                buf_printf(b, "\\x%02x", c);
            else
                buf_char(b, (char)c);
        }
    }
    buf_char(b, '"');
}

static void put_attr_float(Buf *b, const AttrValue *v, bool six_digits)
{
    if (six_digits)
        number_print_g6(b, v->f);
    else
        number_print_double(b, v->f);
    buf_char(b, 'f');
    if (v->dtype.bits && v->dtype.bits != 32)
        buf_int(b, v->dtype.bits);
}

/* Text writes integers of 16, 32 and 64 bits. */
static bool number_has_literal(DType t)
{
    DTypeId id = dtype_id(t);
    return t.bits == 0 || id == DT_INT16 || id == DT_INT32 || id == DT_INT64;
}

/* Without `p`, an expression is only named. Lists nest as deep as the parser lets them. */
static void put_value(Printer *p, Buf *b, const AttrValue *v)
{
    switch (v->kind) {
    case ATTR_NONE: buf_str(b, "None"); return;
    case ATTR_RECORD: put_record(p, b, v); return;
    case ATTR_INT:
        if (!number_has_literal(v->dtype)) {
            put_record(p, b, v);
            return;
        }
        buf_int(b, v->i);
        if (v->dtype.bits && v->dtype.bits != 32)
            buf_printf(b, "i%d", v->dtype.bits);
        return;
    case ATTR_FLOAT: put_attr_float(b, v, p && p->style.six_digits); return;
    case ATTR_BOOL: buf_str(b, v->b ? "True" : "False"); return;
    case ATTR_STRING: put_string(b, v->s); return;
    case ATTR_LIST: break;
    case ATTR_EXPR:
        if (!p)
            buf_str(b, "meta[relay.Constant]");
        else if (v->e->kind == EXPR_CONSTANT)
            put_meta(p, b, expr_as_constant(v->e));
        else
            put_atom(p, b, v->e);
        return;
    }
    buf_char(b, '[');
    for (uint32_t i = 0; i < v->list.n; i++) {
        if (i)
            buf_str(b, ", ");
        put_value(p, b, &v->list.at[i]);
    }
    buf_char(b, ']');
}

void ir_print_attr(Buf *out, const AttrValue *v)
{
    put_value(NULL, out, v);
}

static void put_attr(Printer *p, Buf *b, const Attr *a, bool *first)
{
    if (!*first)
        buf_str(b, ", ");
    *first = false;
    if (*a->key) {
        buf_str(b, a->key);
        buf_char(b, '=');
    }
    put_value(p, b, &a->value);
}

/* An element type by its whole name: "int" is "int32". */
static void put_dtype_attr(Buf *b, const Attr *a, bool *first)
{
    DType t;
    if (!*first)
        buf_str(b, ", ");
    *first = false;
    buf_str(b, a->key);
    buf_str(b, "=\"");
    if (dtype_parse(a->value.s, &t) && !dtype_is_void(t))
        dtype_print(b, t);
    buf_char(b, '"');
}

/* The record stands in the schema's order; what has its default is left out, what has none is always shown. */
void put_op_attrs(Printer *p, Buf *b, const Op *op, const Attrs *attrs, bool first)
{
    for (uint32_t i = 0; attrs && op->attrs && i < attrs->n; i++) {
        const Attr *a = &attrs->at[i];
        const OpAttr *field = &op->attrs[i];
        if (!field->required && !field->shown && attr_value_equal(&a->value, &field->otherwise))
            continue;
        if (field->type == ATTR_TYPE_DTYPE && a->value.kind == ATTR_STRING)
            put_dtype_attr(b, a, &first);
        else
            put_attr(p, b, a, &first);
    }
}

void put_attrs(Printer *p, Buf *b, const Attrs *attrs, bool first)
{
    const Attr *type_key = NULL;
    for (uint32_t i = 0; attrs && i < attrs->n; i++) {
        if (!strcmp(attrs->at[i].key, "attrs_type_key"))
            type_key = &attrs->at[i];
        else
            put_attr(p, b, &attrs->at[i], &first);
    }
    if (type_key)
        put_attr(p, b, type_key, &first);
}

/* ---- binders and heads ------------------------------------------------------------------------------------------------------------- */

void put_binder(Printer *p, Buf *b, const Var *v)
{
    PrintNode *node = name_var(p, v);
    buf_bytes(b, node->name.at, node->name.n);
    bool inferred = p->style.types || p->style.annotations;
    const Type *annotation = inferred && v->base.type ? v->base.type : v->annotation;
    if (annotation && type_find(annotation)->kind != TYPE_HOLE) {
        buf_str(b, ": ");
        put_type(p, b, annotation);
    }
    put_type_comment(p, b, v->base.type);
}

void put_pattern(Printer *p, Buf *b, const Pattern *pattern)
{
    switch (pattern->kind) {
    case PATTERN_WILDCARD: buf_char(b, '_'); return;
    case PATTERN_VAR: put_binder(p, b, pattern->var); return;
    case PATTERN_CON: buf_str(b, pattern->con->name->text); break;
    case PATTERN_TUPLE: break;
    }
    if (pattern->kind == PATTERN_CON && pattern->n == 0)
        return;
    buf_char(b, '(');
    for (uint32_t i = 0; i < pattern->n; i++) {
        if (i)
            buf_str(b, ", ");
        put_pattern(p, b, pattern->fields[i]);
    }
    buf_str(b, pattern->kind == PATTERN_TUPLE && pattern->n == 1 ? ",)" : ")");
}

static void put_type_params(Buf *b, uint32_t n, const TypeVar *const *params)
{
    for (uint32_t i = 0; i < n; i++) {
        buf_str(b, i ? ", " : "[");
        buf_str(b, params[i]->name->text);
    }
    if (n)
        buf_char(b, ']');
}

static const Type *result_type(const Printer *p, const Function *f)
{
    if (!(p->style.types || p->style.annotations) || !f->base.type)
        return f->ret_type;
    const Type *t = type_find(f->base.type);
    return t->kind == TYPE_FUNC ? t->result : f->ret_type;
}

void put_function_head(Printer *p, Buf *b, const Function *f)
{
    put_type_params(b, f->type_params.n, f->type_params.at);
    buf_char(b, '(');
    for (uint32_t i = 0; i < f->params.n; i++) {
        if (i)
            buf_str(b, ", ");
        put_binder(p, b, f->params.at[i]);
    }
    put_attrs(p, b, f->attrs, f->params.n == 0);
    buf_char(b, ')');
    const Type *result = result_type(p, f);
    if (!result || type_find(result)->kind == TYPE_HOLE)
        return;
    buf_str(b, " -> ");
    put_type(p, b, result);
}

void put_typedef(Printer *p, Buf *b, const TypeDef *def)
{
    if (def->is_extern)
        buf_str(b, "extern ");
    buf_str(b, "type ");
    buf_str(b, def->name->text);
    put_type_params(b, def->n_params, def->params);
    if (def->is_extern) {
        buf_char(b, '\n');
        return;
    }
    buf_str(b, def->n_cons ? " {\n" : " {\n  \n");
    for (uint32_t i = 0; i < def->n_cons; i++) {
        const Constructor *con = def->cons[i];
        buf_str(b, "  ");
        buf_str(b, con->name->text);
        for (uint32_t k = 0; k < con->n; k++) {
            buf_str(b, k ? ", " : "(");
            put_type(p, b, con->fields[k]);
        }
        buf_str(b, con->n ? "),\n" : ",\n");
    }
    buf_str(b, "}\n");
}
