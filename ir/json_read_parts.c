/* Types and attributes of the graph. Both are bounded in depth, so the functions call themselves. */
#include "base/number.h"
#include "ir/dim.h"
#include "ir/json_read.h"

#include <stdlib.h>
#include <string.h>

enum { COPIES_MOST = 1 << 22, COPIES_PER_NODE = 64 };

bool graph_enter(GraphReader *r, size_t node, const char *what)
{
    if (r->depth >= TYPE_DEPTH_MOST)
        return graph_wrong(r->g, node, NULL, "%s are nested too deeply, or in a circle", what);
    if (r->copies++ >= COPIES_MOST + r->g->n * COPIES_PER_NODE)
        return graph_wrong(r->g, node, NULL, "%s share too many parts", what);
    r->depth++;
    return !limit_hit(&r->cx->limits);
}

/* ---- type variables, data types, constructors ----------------------------------------------------- */

static const TypeVar *read_typevar(GraphReader *r, size_t node)
{
    Str name;
    if (graph_kind(r->g, node) != GRAPH_TYPE_VAR) {
        graph_wrong(r->g, node, NULL, "a type variable is wanted here");
        return NULL;
    }
    if (!r->made[node] && graph_string(r->g, node, "name_hint", &name))
        r->made[node] = typevar_new(r->cx, ctx_name_str(r->cx, name), graph_span(r->g, node));
    return r->made[node];
}

bool graph_read_typevars(GraphReader *r, size_t node, TypeVarList *out)
{
    size_t n, item;
    if (!graph_list(r->g, node, &n))
        return false;
    const TypeVar **at = n ? arena_alloc_must(r->arena, n, sizeof *at) : NULL;
    for (size_t i = 0; i < n; i++)
        if (!graph_item(r->g, node, i, &item) || !(at[i] = read_typevar(r, item)))
            return false;
    *out = (TypeVarList){.at = at, .n = (uint32_t)n};
    return true;
}

const TypeDef *graph_read_typedef(GraphReader *r, size_t node)
{
    Str text;
    GraphKind kind = graph_kind(r->g, node);
    if (kind != GRAPH_GLOBAL_TYPE_VAR && kind != GRAPH_TYPE_DATA) {
        graph_wrong(r->g, node, NULL, "the name of a data type is wanted here");
        return NULL;
    }
    if (!r->made[node] && kind == GRAPH_TYPE_DATA)
        graph_wrong(r->g, node, NULL, "the program does not define this type");
    if (r->made[node] || kind == GRAPH_TYPE_DATA)
        return r->made[node];
    if (!graph_string(r->g, node, "name_hint", &text))
        return NULL;
    const Name *name = ctx_name_str(r->cx, text);
    const TypeDef *def = module_find_type(r->m, name);
    if (!def)
        graph_wrong(r->g, node, NULL, "there is no type `%s`", name->text);
    r->made[node] = (void *)(uintptr_t)def;
    return def;
}

const Constructor *graph_read_constructor(GraphReader *r, size_t node)
{
    Str text;
    size_t at;
    if (graph_kind(r->g, node) != GRAPH_CON) {
        graph_wrong(r->g, node, NULL, "a constructor is wanted here");
        return NULL;
    }
    if (!graph_string(r->g, node, "name_hint", &text) || !graph_ref(r->g, node, "belong_to", &at))
        return NULL;
    const TypeDef *def = graph_read_typedef(r, at);
    if (!def)
        return NULL;
    const Name *name = ctx_name_str(r->cx, text);
    for (uint32_t i = 0; i < def->n_cons; i++)
        if (def->cons[i]->name == name)
            return def->cons[i];
    graph_wrong(r->g, node, "name_hint", "the type `%s` has no constructor `%s`", def->name->text,
                name->text);
    return NULL;
}

/* ---- types ------------------------------------------------------------------------------------------ */

/* Symbols of one name in one document are told apart by their order. */
static bool read_symbol(GraphReader *r, size_t node, Dim *out)
{
    Str text;
    DimSymbol symbol = {.is_size = graph_kind(r->g, node) == GRAPH_SIZE_VAR};
    if (!graph_string(r->g, node, "name", &text) ||
        !graph_dtype(r->g, node, "dtype", &symbol.dtype))
        return false;
    symbol.name = ctx_name_str(r->cx, text);
    for (size_t i = 0; i < r->symbols.n && r->symbols.at[i] != node; i++) {
        Str other = {0};
        if (graph_string(r->g, r->symbols.at[i], "name", &other) && str_eq(other, text) &&
            graph_kind(r->g, node) == graph_kind(r->g, r->symbols.at[i]))
            symbol.ordinal++;
    }
    if (!r->made[node])
        vec_push(&r->symbols, &r->scratch, (uint32_t)node);
    *out = dim_symbol(r->cx, symbol);
    r->made[node] = (void *)(intptr_t)*out;
    return true;
}

/* Arithmetic on symbols; what else computes an extent is `?`. */
static bool read_arithmetic(GraphReader *r, size_t node, Dim *out)
{
    size_t at[2];
    Dim operands[2];
    DimOp op = dim_op_find(graph_key(r->g, node));
    *out = DIM_ANY;
    if (op == DIM_VAR || r->made[node]) {
        *out = r->made[node] ? (Dim)(intptr_t)r->made[node] : DIM_ANY;
        return true;
    }
    if (!graph_ref(r->g, node, "a", &at[0]) || !graph_ref(r->g, node, "b", &at[1]) ||
        !graph_enter(r, node, "extents"))
        return false;
    bool ok =
        graph_read_extent(r, at[0], &operands[0]) && graph_read_extent(r, at[1], &operands[1]);
    r->depth--;
    if (!ok)
        return false;
    *out = dim_expr(r->cx, op, operands[0], operands[1]);
    r->made[node] = (void *)(intptr_t)*out;
    return true;
}

bool graph_read_extent(GraphReader *r, size_t node, Dim *out)
{
    switch (graph_kind(r->g, node)) {
    case GRAPH_INT:
        if (!graph_int(r->g, node, "value", out))
            return false;
        return *out >= 0 || graph_wrong(r->g, node, "value", "an extent is 0 or more");
    case GRAPH_SHAPE_VAR:
    case GRAPH_SIZE_VAR:
        *out = (Dim)(intptr_t)r->made[node];
        return r->made[node] || read_symbol(r, node, out);
    case GRAPH_ANY: *out = DIM_ANY; return true;
    case GRAPH_OTHER: return read_arithmetic(r, node, out);
    default: return graph_wrong(r->g, node, NULL, "an extent is wanted here");
    }
}

static const Type *tensor_type(GraphReader *r, size_t node)
{
    size_t shape, n, item;
    DType dtype;
    Dim dims[TENSOR_RANK_MOST];
    if (!graph_ref(r->g, node, "shape", &shape) || !graph_list(r->g, shape, &n) ||
        !graph_dtype(r->g, node, "dtype", &dtype))
        return NULL;
    if (n > TENSOR_RANK_MOST)
        graph_wrong(r->g, node, "shape", "a tensor has at most %d axes", TENSOR_RANK_MOST);
    else if (dtype_is_void(dtype))
        graph_wrong(r->g, node, "dtype", "a tensor needs an element type");
    if (n > TENSOR_RANK_MOST || dtype_is_void(dtype))
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (!graph_item(r->g, shape, i, &item) || !graph_read_extent(r, item, &dims[i]))
            return NULL;
    return type_tensor(r->cx, dtype, (uint32_t)n, dims);
}

static const Type *part(GraphReader *r, size_t node, const char *field, unsigned depth)
{
    size_t at;
    const Type *t = NULL;
    if (!graph_ref(r->g, node, field, &at) || !graph_read_type(r, at, depth + 1, &t))
        return NULL;
    if (!t)
        graph_wrong(r->g, node, field, "a type is wanted here");
    return t;
}

static bool parts(GraphReader *r, size_t node, const char *field, unsigned depth, TypeList *out)
{
    size_t list, n, item;
    if (!graph_ref(r->g, node, field, &list) || !graph_list(r->g, list, &n))
        return false;
    const Type **at = arena_alloc_must(&r->scratch, n, sizeof *at);
    for (size_t i = 0; i < n; i++) {
        if (!graph_item(r->g, list, i, &item) || !graph_read_type(r, item, depth + 1, &at[i]))
            return false;
        if (!at[i])
            return graph_wrong(r->g, node, field, "type %zu is missing", i);
    }
    *out = (TypeList){.at = at, .n = (uint32_t)n};
    return true;
}

static const Type *tuple_type(GraphReader *r, size_t node, unsigned depth)
{
    TypeList fields;
    return parts(r, node, "fields", depth, &fields) ? type_tuple(r->cx, fields.n, fields.at) : NULL;
}

static const Type *func_type(GraphReader *r, size_t node, unsigned depth)
{
    size_t at;
    TypeVarList vars;
    TypeList args;
    if (!graph_ref(r->g, node, "type_params", &at) || !graph_read_typevars(r, at, &vars) ||
        !parts(r, node, "arg_types", depth, &args))
        return NULL;
    const Type *result = part(r, node, "ret_type", depth);
    return result ? type_func(r->cx, vars.n, vars.at, args.n, args.at, result) : NULL;
}

static const Type *ref_type(GraphReader *r, size_t node, unsigned depth)
{
    const Type *content = part(r, node, "value", depth);
    return content ? type_ref(r->cx, content) : NULL;
}

static const Type *adt_type(GraphReader *r, size_t node, const TypeDef *def, TypeList args)
{
    if (args.n == def->n_params)
        return type_adt(r->cx, def, args.n, args.at);
    graph_wrong(r->g, node, NULL, "`%s` takes %u type arguments, not %u", def->name->text,
                def->n_params, args.n);
    return NULL;
}

static const Type *call_type(GraphReader *r, size_t node, unsigned depth)
{
    size_t at;
    TypeList args;
    if (!graph_ref(r->g, node, "func", &at) || !parts(r, node, "args", depth, &args))
        return NULL;
    const TypeDef *def = graph_read_typedef(r, at);
    return def ? adt_type(r, node, def, args) : NULL;
}

static const Type *make_type(GraphReader *r, size_t node, unsigned depth)
{
    switch (graph_kind(r->g, node)) {
    case GRAPH_TENSOR_TYPE: return tensor_type(r, node);
    case GRAPH_TUPLE_TYPE: return tuple_type(r, node, depth);
    case GRAPH_FUNC_TYPE: return func_type(r, node, depth);
    case GRAPH_REF_TYPE: return ref_type(r, node, depth);
    case GRAPH_TYPE_CALL: return call_type(r, node, depth);
    case GRAPH_INCOMPLETE_TYPE: return type_hole(r->cx, graph_span(r->g, node));
    default: graph_wrong(r->g, node, NULL, "a type is wanted here"); return NULL;
    }
}

bool graph_read_type(GraphReader *r, size_t node, unsigned depth, const Type **out)
{
    GraphKind kind = graph_kind(r->g, node);
    *out = NULL;
    if (kind == GRAPH_NULL)
        return true;
    if (kind == GRAPH_TYPE_VAR) {
        const TypeVar *var = read_typevar(r, node);
        *out = var ? type_var(r->cx, var) : NULL;
        return var != NULL;
    }
    if (kind == GRAPH_GLOBAL_TYPE_VAR) {
        const TypeDef *def = graph_read_typedef(r, node);
        *out = def ? adt_type(r, node, def, (TypeList){0}) : NULL;
        return *out != NULL;
    }
    if (kind < GRAPH_TENSOR_TYPE || kind > GRAPH_INCOMPLETE_TYPE)
        return graph_wrong(r->g, node, NULL, "a type is wanted here");
    if (depth >= TYPE_DEPTH_MOST || r->state[node] == 1)
        return graph_wrong(r->g, node, NULL, "types are nested too deeply, or in a circle");
    if (!r->made[node]) {
        r->state[node] = 1;
        r->made[node] = (void *)(uintptr_t)make_type(r, node, depth);
        r->state[node] = 0;
    }
    *out = r->made[node];
    return *out != NULL;
}

/* ---- attributes -------------------------------------------------------------------------------------- */

static bool read_items(GraphReader *r, size_t node, size_t n, AttrValue *out)
{
    size_t item;
    AttrValue *at = arena_alloc_must(r->arena, n, sizeof *at);
    for (size_t i = 0; i < n; i++)
        if (!graph_item(r->g, node, i, &item) || !graph_read_attr(r, item, &at[i]))
            return false;
    *out = (AttrValue){.kind = ATTR_LIST, .list = {.at = at, .n = (uint32_t)n}};
    return true;
}

static bool read_attr_list(GraphReader *r, size_t node, AttrValue *out)
{
    size_t n;
    return graph_list(r->g, node, &n) && read_items(r, node, n, out);
}

static Attrs *new_attrs(GraphReader *r, size_t n)
{
    return arena_alloc_must(r->arena, sizeof(Attrs) + n * sizeof(Attr), 1);
}

static bool read_map(GraphReader *r, size_t node, Attrs **out)
{
    size_t n, key_node, value;
    Str key;
    if (!graph_map(r->g, node, &n))
        return false;
    Attrs *attrs = *out = new_attrs(r, n);
    for (size_t i = 0; i < n; i++) {
        Attr *a = &attrs->at[attrs->n++];
        if (!graph_pair(r->g, node, i, &key, &key_node, &value))
            return false;
        if (key_node && graph_kind(r->g, key_node) != GRAPH_STRING)
            return graph_wrong(r->g, node, "data", "the keys of this map must be texts");
        a->key = ctx_name_str(r->cx, key)->text;
        a->span = a->key_span = graph_span(r->g, value);
        if (!graph_read_attr(r, value, &a->value))
            return false;
    }
    return true;
}

static bool read_int(GraphReader *r, size_t node, AttrValue *out)
{
    DType dtype;
    int64_t v;
    if (!graph_dtype(r->g, node, "dtype", &dtype) || !graph_int(r->g, node, "value", &v))
        return false;
    if (dtype_is_bool(dtype))
        *out = (AttrValue){.kind = ATTR_BOOL, .b = v != 0};
    else
        *out = (AttrValue){.kind = ATTR_INT, .i = v};
    if (dtype_id(dtype) != DT_INT32 && !dtype_is_bool(dtype))
        out->dtype = dtype;
    return true;
}

static bool read_double(GraphReader *r, size_t node, const char *field, double *out)
{
    Str text;
    return graph_text(r->g, node, field, &text) &&
           (number_parse_double(text, out) || graph_wrong(r->g, node, field, "this is no number"));
}

static bool read_float(GraphReader *r, size_t node, AttrValue *out)
{
    DType dtype;
    *out = (AttrValue){.kind = ATTR_FLOAT};
    if (!graph_dtype(r->g, node, "dtype", &dtype) || !read_double(r, node, "value", &out->f))
        return false;
    if (dtype_id(dtype) != DT_FLOAT32)
        out->dtype = dtype;
    return true;
}

static bool read_string(GraphReader *r, size_t node, AttrValue *out)
{
    Str s;
    if (!graph_repr(r->g, node, &s))
        return false;
    *out = (AttrValue){.kind = ATTR_STRING};
    out->s = (Str){arena_copy_text(r->arena, s.ptr, s.len), s.len};
    return true;
}

static bool wrap_record(GraphReader *r, size_t node, const Attrs *fields, AttrValue *out)
{
    *out = (AttrValue){.kind = ATTR_RECORD};
    out->record.key = graph_key(r->g, node); /* a name */
    out->record.fields = fields;
    return true;
}

/* A record that stands by itself has the fields of the operators that it belongs to. */
static const OpAttr *schema_of(GraphReader *r, size_t node)
{
    const GraphRecord *row = graph_record(r->g, node);
    size_t n = row ? strcspn(row->ops, " ") : 0;
    const Op *op = n ? op_find(r->cx, (Str){row->ops, n}) : NULL;
    return op ? op->attrs : NULL;
}

/* ---- objects: what has no meaning here is kept whole ------------------------------------------------- */

const char object_data[] = "data", object_repr[] = "repr";

typedef struct ObjectField {
    const char *name; /* as a name */
    Str text; /* what stands in the field itself */
    size_t to; /* the node that it refers to, or 0 */
    size_t place; /* among the fields that refer to nodes, as the row of the object has them */
    bool refers;
} ObjectField;

/* In the order in which the original visits what they refer to. Of kinds that nobody knows it is not
 * known: these go by name, so that the nodes have the same numbers wherever the object stands. */
static int by_place(const void *a, const void *b)
{
    const ObjectField *x = a, *y = b;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return strcmp(x->name, y->name);
}

static bool list_fields(GraphReader *r, size_t node, ObjectField *fields, size_t n)
{
    const GraphRecord *row = graph_record(r->g, node);
    const DocumentValue *at = NULL;
    Str name;
    for (size_t i = 0; i < n; i++) {
        ObjectField *f = &fields[i];
        graph_next_field(r->g, node, &at, &name, &f->text);
        f->name = ctx_name_str(r->cx, name)->text;
        f->to = row ? 0 : graph_guess(r->g, node, &f->text);
        const char *word = row ? graph_find_word(row->boxed, f->name) : NULL;
        f->refers = row ? word != NULL : f->to != 0;
        f->place = word ? (size_t)(word - row->boxed) : 0;
        if (row && f->refers && !graph_ref(r->g, node, f->name, &f->to))
            return false;
    }
    qsort(fields, n, sizeof *fields, by_place);
    return true;
}

static void put_text_field(GraphReader *r, Attrs *out, const char *name, Str text)
{
    Attr *a = &out->at[out->n++];
    a->key = name;
    a->value = (AttrValue){.kind = ATTR_TEXT};
    a->value.s = (Str){arena_copy_text(r->arena, text.ptr, text.len), text.len};
}

static bool read_object_field(GraphReader *r, const ObjectField *f, Attrs *out)
{
    if (strcmp(f->name, "span") == 0)
        return true;
    if (!f->refers) {
        put_text_field(r, out, f->name, f->text);
        return true;
    }
    Attr *a = &out->at[out->n++];
    a->key = f->name;
    return graph_read_attr(r, f->to, &a->value);
}

static bool read_object(GraphReader *r, size_t node, AttrValue *out)
{
    size_t n = graph_fields(r->g, node), items = graph_items(r->g, node);
    Str text;
    Attrs *attrs = new_attrs(r, n + 2);
    ObjectField *fields = arena_alloc_must(&r->scratch, n, sizeof *fields);
    if (!list_fields(r, node, fields, n) || !graph_repr(r->g, node, &text))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!read_object_field(r, &fields[i], attrs))
            return false;
    if (text.len)
        put_text_field(r, attrs, object_repr, text);
    if (items) {
        Attr *a = &attrs->at[attrs->n++];
        a->key = object_data;
        if (!read_items(r, node, items, &a->value))
            return false;
    }
    return wrap_record(r, node, attrs, out);
}

static bool read_record(GraphReader *r, size_t node, AttrValue *out)
{
    Attrs *fields;
    const OpAttr *schema = schema_of(r, node);
    if (graph_kind(r->g, node) == GRAPH_MAP && graph_map_has_names(r->g, node))
        return read_map(r, node, &fields) && wrap_record(r, node, fields, out);
    if (schema)
        return graph_read_record(r, node, NULL, schema, &fields) &&
               wrap_record(r, node, fields, out);
    return read_object(r, node, out);
}

static bool read_value(GraphReader *r, size_t node, AttrValue *out)
{
    switch (graph_kind(r->g, node)) {
    case GRAPH_NULL: return true;
    case GRAPH_INT: return read_int(r, node, out);
    case GRAPH_FLOAT: return read_float(r, node, out);
    case GRAPH_STRING: return read_string(r, node, out);
    case GRAPH_ARRAY: return read_attr_list(r, node, out);
    default: break;
    }
    if (graph_kind(r->g, node) < GRAPH_NULL) {
        if (r->closed && graph_kind(r->g, node) != GRAPH_CONSTANT &&
            graph_kind(r->g, node) != GRAPH_GLOBAL)
            return graph_wrong(r->g, node, NULL,
                               "only a constant or the name of a function can stand here");
        *out = (AttrValue){.kind = ATTR_EXPR, .e = graph_read_expr(r, node)};
        return out->e != NULL;
    }
    r->closed++; /* the text has the record in its metadata */
    bool ok = read_record(r, node, out);
    r->closed--;
    return ok;
}

bool graph_read_attr(GraphReader *r, size_t node, AttrValue *out)
{
    size_t before = r->copies;
    *out = (AttrValue){.kind = ATTR_NONE};
    if (!r->values)
        r->values = arena_alloc_must(&r->scratch, r->g->n, sizeof *r->values);
    GraphValue *known = r->values[node];
    r->copies += known ? known->size : 0;
    if (!graph_enter(r, node, "values"))
        return false;
    bool ok = true;
    if (known)
        *out = known->value;
    else
        ok = read_value(r, node, out);
    r->depth--;
    if (known || !ok)
        return ok;
    known = r->values[node] = arena_new(&r->scratch, GraphValue);
    *known = (GraphValue){*out, r->copies - before};
    return true;
}

/* A string of an attribute stands in the record, or is a node of its own: releases differ. */
static bool read_text_field(GraphReader *r, size_t node, const OpAttr *field, AttrValue *out)
{
    Str s;
    int64_t at;
    if (!graph_text(r->g, node, field->name, &s))
        return false;
    if (!r->g->old && number_parse_int(s, &at) && at >= 0 && (uint64_t)at < r->g->n &&
        (graph_kind(r->g, (size_t)at) == GRAPH_STRING ||
         (field->or_none && graph_kind(r->g, (size_t)at) == GRAPH_NULL)))
        return graph_read_attr(r, (size_t)at, out);
    *out = (AttrValue){.kind = ATTR_STRING};
    out->s = (Str){arena_copy_text(r->arena, s.ptr, s.len), s.len};
    return true;
}

static bool read_dtype_field(GraphReader *r, size_t node, const OpAttr *field, AttrValue *out)
{
    DType t;
    if (!read_text_field(r, node, field, out))
        return false;
    bool named = out->kind != ATTR_STRING || out->s.len == 0 || dtype_parse(out->s, &t);
    return named || graph_wrong(r->g, node, field->name, "this is no element type");
}

static bool read_plain_field(GraphReader *r, size_t node, const OpAttr *field, AttrValue *out)
{
    int64_t v = 0;
    switch (field->type) {
    case ATTR_TYPE_INT:
        *out = (AttrValue){.kind = ATTR_INT};
        return graph_int(r->g, node, field->name, &out->i);
    case ATTR_TYPE_BOOL:
        if (!graph_int(r->g, node, field->name, &v))
            return false;
        *out = (AttrValue){.kind = ATTR_BOOL, .b = v != 0};
        return true;
    case ATTR_TYPE_FLOAT:
        *out = (AttrValue){.kind = ATTR_FLOAT};
        if (!read_double(r, node, field->name, &out->f))
            return false;
        /* Text of a number has no None: what need not be set is 0, where the original has nothing else to write. */
        if (field->otherwise.kind == ATTR_NONE && field->or_none && out->f == 0)
            out->kind = ATTR_NONE;
        return true;
    case ATTR_TYPE_STRING: return read_text_field(r, node, field, out);
    case ATTR_TYPE_DTYPE: return read_dtype_field(r, node, field, out);
    case ATTR_TYPE_INTS:
    case ATTR_TYPE_INT_OR_INTS:
    case ATTR_TYPE_INT_LISTS:
    case ATTR_TYPE_FLOATS:
    case ATTR_TYPE_EXPR:
    case ATTR_TYPE_INTS_OR_EXPR:
    case ATTR_TYPE_DEVICE:
    case ATTR_TYPE_ANY:
    case ATTR_TYPE_DICT:
    case ATTR_TYPE_STRING_LISTS:
    case ATTR_TYPE_STRINGS: break;
    }
    size_t at;
    if (!graph_ref(r->g, node, field->name, &at) || !graph_read_attr(r, at, out))
        return false;
    bool list = out->kind == ATTR_LIST || out->kind == ATTR_NONE || out->kind == ATTR_EXPR;
    return list ||
           graph_wrong(r->g, node, field->name, "%s is wanted here", attr_type_words(field));
}

/* A text that is no number stands in the field itself, as all did before 0.7. */
static bool is_boxed(GraphReader *r, size_t node, const char *boxed, const OpAttr *field)
{
    if (!graph_has_word(boxed, field->name))
        return false;
    if (field->type != ATTR_TYPE_STRING && field->type != ATTR_TYPE_DTYPE)
        return true;
    return !r->g->old && graph_is_number(r->g, node, field->name);
}

static bool read_field(GraphReader *r, size_t node, const char *boxed, const OpAttr *field,
                       AttrValue *out)
{
    size_t at;
    if (!is_boxed(r, node, boxed, field))
        return read_plain_field(r, node, field, out);
    return graph_ref(r->g, node, field->name, &at) && graph_read_attr(r, at, out);
}

/* The field as an earlier release has it, where the record has that: devices were numbers. */
static OpAttr field_there(GraphReader *r, size_t node, const char *op, const OpAttr *field)
{
    const char *key = op ? attrs_earlier(op, field->name) : NULL;
    OpAttr there = *field;
    if (graph_has(r->g, node, field->name) || !key || !graph_has(r->g, node, key))
        return there;
    there.name = key;
    if (there.type == ATTR_TYPE_DEVICE)
        there.type = ATTR_TYPE_INT;
    return there;
}

bool graph_read_record(GraphReader *r, size_t node, const char *op, const OpAttr *schema,
                       Attrs **out)
{
    size_t n = 0;
    const GraphRecord *row = graph_record(r->g, node);
    while (schema && schema[n].name)
        n++;
    Attrs *attrs = *out = new_attrs(r, n);
    for (size_t i = 0; i < n; i++) {
        OpAttr field = field_there(r, node, op, &schema[i]);
        if (!graph_has(r->g, node, field.name))
            continue;
        Attr *a = &attrs->at[attrs->n++];
        a->key = field.name;
        a->span = a->key_span = graph_span(r->g, node);
        if (!read_field(r, node, row ? row->boxed : "", &field, &a->value))
            return false;
    }
    return true;
}

/* DictAttrs holds a map. A boolean among them is kept as 0 or 1, as in text. */
bool graph_read_dict(GraphReader *r, size_t node, const Attrs **out)
{
    size_t map;
    Attrs *attrs;
    *out = NULL;
    if (graph_kind(r->g, node) == GRAPH_NULL)
        return true;
    if (graph_kind(r->g, node) != GRAPH_DICT_ATTRS)
        return graph_wrong(r->g, node, NULL, "a dictionary of attributes is wanted here");
    if (!graph_ref(r->g, node, "__dict__", &map) || !read_map(r, map, &attrs))
        return false;
    for (uint32_t i = 0; i < attrs->n; i++)
        if (attrs->at[i].value.kind == ATTR_BOOL)
            attrs->at[i].value = (AttrValue){.kind = ATTR_INT, .i = attrs->at[i].value.b};
    *out = attrs->n ? attrs : NULL;
    return true;
}

/* ---- the table of records ----------------------------------------------------------------------------- */

static const GraphRecord records[] = {
#define RECORD(key, ops, boxed) {"relay.attrs." key, ops, boxed},
#define OBJECT(key, boxed) {key, "", boxed},
#include "ir/records.def"
#undef OBJECT
#undef RECORD
};

enum { N_RECORDS = sizeof records / sizeof *records };

const char *graph_find_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    if (n == 0 || strchr(word, ' '))
        return NULL;
    for (const char *p = strstr(words, word); p; p = strstr(p + 1, word))
        if ((p == words || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
            return p;
    return NULL;
}

const GraphRecord *graph_record_of_op(const char *name)
{
    for (size_t i = 0; i < N_RECORDS; i++)
        if (graph_has_word(records[i].ops, name))
            return &records[i];
    return NULL;
}

const GraphRecord *graph_record_find(const char *key)
{
    for (size_t i = 0; i < N_RECORDS; i++)
        if (strcmp(records[i].key, key) == 0)
            return &records[i];
    return NULL;
}
