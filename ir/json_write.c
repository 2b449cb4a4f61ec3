/* From objects to nodes. */
#include "ir/json_write.h"

#include "base/number.h"
#include "ir/dim.h"
#include "ir/json_read.h"

#include <string.h>

void graph_writer_init(GraphWriter *w, Ctx *cx)
{
    *w = (GraphWriter){.cx = cx};
    arena_init(&w->arena, &cx->limits);
}

void graph_writer_deinit(GraphWriter *w)
{
    ptrmap_deinit(&w->made);
    arena_deinit(&w->arena);
}

/* ---- making nodes ---------------------------------------------------------------------------------- */

GraphNode *graph_make_node(GraphWriter *w, const char *key, uint32_t n_fields)
{
    GraphNode *n = arena_alloc_must(&w->arena, 1, sizeof *n);
    n->key = key;
    n->fields = arena_alloc_must(&w->arena, n_fields, sizeof *n->fields);
    return n;
}

static GraphNode *node_of(GraphWriter *w, GraphKind kind, uint32_t n_fields)
{
    return graph_make_node(w, graph_info(kind)->key, n_fields);
}

void graph_put_field(GraphNode *n, const char *name, GraphNode *to)
{
    n->fields[n->n_fields++] = (GraphField){.name = str_of(name), .node = to};
}

void graph_put_text(GraphWriter *w, GraphNode *n, const char *name, Str text)
{
    const char *copy = arena_copy_text(&w->arena, text.ptr, text.len);
    n->fields[n->n_fields++] = (GraphField){.name = str_of(name), .text = {copy, text.len}};
}

/* A string is a node of its own. */
void graph_put_string(GraphWriter *w, GraphNode *n, const char *name, const Name *text)
{
    graph_put_field(n, name, graph_make_string(w, (Str){text->text, text->len}));
}

void graph_put_int(GraphWriter *w, GraphNode *n, const char *name, int64_t v)
{
    Buf b = {0};
    buf_int(&b, v);
    graph_put_text(w, n, name, str_of(buf_text(&b)));
    buf_deinit(&b);
}

void graph_put_dtype(GraphWriter *w, GraphNode *n, const char *name, DType t)
{
    Buf b = {0};
    if (!dtype_is_void(t))
        dtype_print(&b, t);
    graph_put_text(w, n, name, str_of(buf_text(&b)));
    buf_deinit(&b);
}

static GraphNode *with_items(GraphWriter *w, GraphKind kind, uint32_t n)
{
    GraphNode *node = node_of(w, kind, 0);
    node->data = arena_alloc_must(&w->arena, n, sizeof *node->data);
    node->n_data = n;
    return node;
}

GraphNode *graph_make_array(GraphWriter *w, uint32_t n)
{
    return with_items(w, GRAPH_ARRAY, n);
}

GraphNode *graph_make_map(GraphWriter *w, uint32_t n)
{
    GraphNode *node = with_items(w, GRAPH_MAP, n);
    node->keys = arena_alloc_must(&w->arena, n, sizeof *node->keys);
    return node;
}

GraphNode *graph_make_string(GraphWriter *w, Str text)
{
    GraphNode *n = node_of(w, GRAPH_STRING, 0);
    n->repr = (Str){arena_copy_text(&w->arena, text.ptr, text.len), text.len};
    return n;
}

static GraphNode *device(GraphWriter *w)
{
    if (w->device)
        return w->device;
    GraphNode *n = w->device = node_of(w, GRAPH_VIRTUAL_DEVICE, 4);
    graph_put_int(w, n, "device_type_int", -1);
    graph_put_field(n, "memory_scope", graph_make_string(w, str_of("")));
    graph_put_field(n, "target", NULL);
    graph_put_int(w, n, "virtual_device_id", -1);
    return n;
}

/* ---- types ------------------------------------------------------------------------------------------- */

enum { KIND_TYPE = 0, KIND_ADT_HANDLE = 5 };

static GraphNode *of_int(GraphWriter *w, DType dtype, int64_t v)
{
    GraphNode *n = node_of(w, GRAPH_INT, 3);
    graph_put_dtype(w, n, "dtype", dtype);
    graph_put_field(n, "span", NULL);
    graph_put_int(w, n, "value", v);
    return n;
}

static GraphNode *of_symbol(GraphWriter *w, const DimSymbol *s);

/* Numbers in it have the type of its symbols. */
static GraphNode *of_operand(GraphWriter *w, Dim d, DType dtype)
{
    const DimSymbol *s = dim_symbol_get(w->cx, d);
    return s ? of_symbol(w, s) : of_int(w, dtype, d);
}

static GraphNode *of_arithmetic(GraphWriter *w, const DimSymbol *s)
{
    GraphNode *n = graph_make_node(w, dim_op_key(s->op), 4);
    graph_put_field(n, "a", of_operand(w, s->a, s->dtype));
    graph_put_field(n, "b", of_operand(w, s->b, s->dtype));
    graph_put_dtype(w, n, "dtype", s->dtype);
    graph_put_field(n, "span", NULL);
    ptrmap_put(&w->made, s, n);
    return n;
}

static GraphNode *of_symbol(GraphWriter *w, const DimSymbol *s)
{
    GraphNode *known = ptrmap_find(&w->made, s);
    if (known)
        return known;
    if (s->op != DIM_VAR)
        return of_arithmetic(w, s);
    GraphNode *n = node_of(w, s->is_size ? GRAPH_SIZE_VAR : GRAPH_SHAPE_VAR, 4);
    GraphNode *annotation = graph_make_node(w, "PrimType", 1);
    graph_put_dtype(w, annotation, "dtype", s->dtype);
    graph_put_dtype(w, n, "dtype", s->dtype);
    graph_put_string(w, n, "name", s->name);
    graph_put_field(n, "span", NULL);
    graph_put_field(n, "type_annotation", annotation);
    ptrmap_put(&w->made, s, n);
    return n;
}

GraphNode *graph_of_extent(GraphWriter *w, Dim d)
{
    const DimSymbol *s = dim_symbol_get(w->cx, d);
    if (s)
        return of_symbol(w, s);
    if (d >= 0)
        return of_int(w, dtype_of(d > INT32_MAX ? DT_INT64 : DT_INT32), d);
    GraphNode *n = node_of(w, GRAPH_ANY, 2);
    graph_put_text(w, n, "dtype", str_of("int32"));
    graph_put_field(n, "span", NULL);
    return n;
}

static GraphNode *of_typevar(GraphWriter *w, const TypeVar *var)
{
    GraphNode *n = ptrmap_find(&w->made, var);
    if (n)
        return n;
    n = node_of(w, GRAPH_TYPE_VAR, 3);
    graph_put_int(w, n, "kind", KIND_TYPE);
    graph_put_string(w, n, "name_hint", var->name);
    graph_put_field(n, "span", NULL);
    ptrmap_put(&w->made, var, n);
    return n;
}

static GraphNode *of_typevars(GraphWriter *w, uint32_t count, const TypeVar *const *vars)
{
    GraphNode *n = graph_make_array(w, count);
    for (uint32_t i = 0; i < count; i++)
        n->data[i] = of_typevar(w, vars[i]);
    return n;
}

static GraphNode *of_types(GraphWriter *w, uint32_t count, const Type *const *types)
{
    GraphNode *n = graph_make_array(w, count);
    for (uint32_t i = 0; i < count; i++)
        n->data[i] = graph_of_type(w, types[i]);
    return n;
}

static GraphNode *of_type_name(GraphWriter *w, const TypeDef *def)
{
    GraphNode *n = ptrmap_find(&w->made, def->name);
    if (n)
        return n;
    n = node_of(w, GRAPH_GLOBAL_TYPE_VAR, 2);
    graph_put_int(w, n, "kind", KIND_ADT_HANDLE);
    graph_put_string(w, n, "name_hint", def->name);
    ptrmap_put(&w->made, def->name, n);
    return n;
}

static GraphNode *of_tensor_type(GraphWriter *w, const Type *t)
{
    GraphNode *n = node_of(w, GRAPH_TENSOR_TYPE, 3), *shape = graph_make_array(w, t->n);
    for (uint32_t i = 0; i < t->n; i++)
        shape->data[i] = graph_of_extent(w, t->dims[i]);
    graph_put_dtype(w, n, "dtype", t->dtype);
    graph_put_field(n, "shape", shape);
    return n;
}

static GraphNode *of_func_type(GraphWriter *w, const Type *t)
{
    GraphNode *n = node_of(w, GRAPH_FUNC_TYPE, 5);
    graph_put_field(n, "arg_types", of_types(w, t->n, t->parts));
    graph_put_field(n, "ret_type", graph_of_type(w, t->result));
    graph_put_field(n, "type_constraints", graph_make_array(w, 0));
    graph_put_field(n, "type_params", of_typevars(w, t->n_params, t->params));
    return n;
}

static GraphNode *make_type(GraphWriter *w, const Type *t)
{
    GraphNode *n = NULL;
    switch ((TypeKind)t->kind) {
    case TYPE_TENSOR: return of_tensor_type(w, t);
    case TYPE_FUNC: return of_func_type(w, t);
    case TYPE_TUPLE:
        n = node_of(w, GRAPH_TUPLE_TYPE, 2);
        graph_put_field(n, "fields", of_types(w, t->n, t->parts));
        return n;
    case TYPE_REF:
        n = node_of(w, GRAPH_REF_TYPE, 2);
        graph_put_field(n, "value", graph_of_type(w, t->parts[0]));
        return n;
    case TYPE_ADT:
        n = node_of(w, GRAPH_TYPE_CALL, 3);
        graph_put_field(n, "args", of_types(w, t->n, t->parts));
        graph_put_field(n, "func", of_type_name(w, t->def));
        return n;
    case TYPE_VAR:
    case TYPE_HOLE:
    case TYPE_POISON: break;
    }
    n = node_of(w, GRAPH_INCOMPLETE_TYPE, 2);
    graph_put_int(w, n, "kind", KIND_TYPE);
    return n;
}

GraphNode *graph_of_type(GraphWriter *w, const Type *t)
{
    if (!t)
        return NULL;
    t = type_find(t);
    if (t->kind == TYPE_VAR)
        return of_typevar(w, t->var);
    GraphNode *n = ptrmap_find(&w->made, t);
    if (n)
        return n;
    n = make_type(w, t);
    graph_put_field(n, "span", NULL);
    ptrmap_put(&w->made, t, n);
    return n;
}

GraphNode *graph_of_con(GraphWriter *w, const Constructor *con)
{
    GraphNode *n = ptrmap_find(&w->made, con);
    if (n)
        return n;
    n = node_of(w, GRAPH_CON, 6);
    ptrmap_put(&w->made, con, n);
    graph_put_field(n, "_checked_type_", NULL);
    graph_put_field(n, "belong_to", of_type_name(w, con->type));
    graph_put_field(n, "inputs", of_types(w, con->n, con->fields));
    graph_put_string(w, n, "name_hint", con->name);
    graph_put_field(n, "span", NULL);
    graph_put_int(w, n, "tag", con->index);
    return n;
}

GraphNode *graph_of_typedef(GraphWriter *w, const TypeDef *def)
{
    GraphNode *n = node_of(w, GRAPH_TYPE_DATA, 5), *cons = graph_make_array(w, def->n_cons);
    for (uint32_t i = 0; i < def->n_cons; i++)
        cons->data[i] = graph_of_con(w, def->cons[i]);
    graph_put_field(n, "constructors", cons);
    graph_put_field(n, "header", of_type_name(w, def));
    if (def->is_extern)
        graph_put_int(w, n, "is_extern", 1);
    graph_put_field(n, "span", NULL);
    graph_put_field(n, "type_vars", of_typevars(w, def->n_params, def->params));
    return n;
}

/* ---- attributes --------------------------------------------------------------------------------------- */

static GraphNode *of_dict(GraphWriter *w, const Attrs *attrs)
{
    GraphNode *map = graph_make_map(w, attrs ? attrs->n : 0);
    for (uint32_t i = 0; i < map->n_data; i++) {
        map->keys[i] = str_of(attrs->at[i].key);
        map->data[i] = graph_of_attr(w, &attrs->at[i].value);
    }
    return map;
}

static GraphNode *of_dict_attrs(GraphWriter *w, const Attrs *attrs)
{
    GraphNode *n = node_of(w, GRAPH_DICT_ATTRS, 1);
    graph_put_field(n, "__dict__", of_dict(w, attrs));
    return n;
}

/* A field whose value stands in the record itself. */
static void plain_field(GraphWriter *w, GraphNode *n, const Attr *a, bool is_dtype)
{
    Buf b = {0};
    DType t;
    int64_t number;
    switch (a->value.kind) {
    case ATTR_INT: buf_int(&b, a->value.i); break;
    case ATTR_BOOL: buf_char(&b, a->value.b ? '1' : '0'); break;
    case ATTR_FLOAT: number_print_double(&b, a->value.f); break;
    case ATTR_TEXT:
    case ATTR_STRING:
        /* A number in the field would be read as that of a node. */
        if (!is_dtype && number_parse_int(a->value.s, &number)) {
            graph_put_field(n, a->key, graph_make_string(w, a->value.s));
            return;
        }
        if (is_dtype && dtype_parse(a->value.s, &t) && !dtype_is_void(t))
            dtype_print(&b, t);
        else if (!is_dtype)
            buf_bytes(&b, a->value.s.ptr, a->value.s.len);
        break;
    case ATTR_NONE:
    case ATTR_LIST:
    case ATTR_EXPR:
    case ATTR_RECORD: graph_put_field(n, a->key, graph_of_attr(w, &a->value)); return;
    }
    graph_put_text(w, n, a->key, (Str){buf_text(&b), b.n});
    buf_deinit(&b);
}

static void record_field(GraphWriter *w, GraphNode *n, const GraphRecord *row, const Attr *a,
                         bool is_dtype)
{
    if (row && graph_has_word(row->boxed, a->key))
        graph_put_field(n, a->key, graph_of_attr(w, &a->value));
    else
        plain_field(w, n, a, is_dtype);
}

/* What stands in the object as it is, and what is a node of its own. */
static void object_field(GraphWriter *w, GraphNode *n, const Attr *a)
{
    const AttrValue *v = &a->value;
    if (a->key == object_data) {
        GraphNode *items = graph_of_attr(w, v);
        n->data = items->data;
        n->n_data = items->n_data;
    } else if (a->key == object_repr) {
        n->repr = (Str){arena_copy_text(&w->arena, v->s.ptr, v->s.len), v->s.len};
    } else if (v->kind == ATTR_TEXT) {
        graph_put_text(w, n, a->key, v->s);
    } else {
        graph_put_field(n, a->key, graph_of_attr(w, v));
    }
}

static GraphNode *of_record(GraphWriter *w, const char *key, const Attrs *fields)
{
    bool is_map = strcmp(key, graph_info(GRAPH_MAP)->key) == 0;
    if (is_map && (fields->n != 1 || fields->at[0].key != object_data))
        return of_dict(w, fields);
    const GraphRecord *row = graph_record_find(key);
    GraphNode *n = graph_make_node(w, key, fields->n);
    n->guessed = !row;
    for (uint32_t i = 0; i < fields->n; i++)
        if (row && *row->ops)
            record_field(w, n, row, &fields->at[i], !strcmp(fields->at[i].key, "dtype"));
        else
            object_field(w, n, &fields->at[i]);
    return n;
}

static GraphNode *of_list(GraphWriter *w, const AttrValue *v)
{
    GraphNode *n = graph_make_array(w, v->list.n);
    for (uint32_t i = 0; i < v->list.n; i++)
        n->data[i] = graph_of_attr(w, &v->list.at[i]);
    return n;
}

/* Where the parts of a value lie; NULL for what has no parts. Defaults lie in tables, and are not
 * shared. */
static const void *place_of(const AttrValue *v)
{
    if (v->kind == ATTR_RECORD)
        return v->record.fields;
    if (v->kind == ATTR_LIST && v->list.n)
        return v->list.at;
    return v->kind == ATTR_STRING ? v->s.ptr : NULL;
}

/* An object that several attributes refer to is one node, and so is what several objects refer to. */
static GraphNode *of_shared(GraphWriter *w, const AttrValue *v)
{
    const void *place = place_of(v);
    GraphNode *n = place ? ptrmap_find(&w->made, place) : NULL;
    if (n)
        return n;
    w->objects++;
    n = v->kind == ATTR_RECORD ? of_record(w, v->record.key, v->record.fields)
        : v->kind == ATTR_LIST ? of_list(w, v)
                               : graph_make_string(w, v->s);
    w->objects--;
    if (place)
        ptrmap_put(&w->made, place, n);
    return n;
}

static GraphNode *of_float(GraphWriter *w, const AttrValue *v)
{
    Buf b = {0};
    GraphNode *n = node_of(w, GRAPH_FLOAT, 3);
    graph_put_dtype(w, n, "dtype", v->dtype.bits ? v->dtype : dtype_of(DT_FLOAT32));
    graph_put_field(n, "span", NULL);
    number_print_double(&b, v->f);
    graph_put_text(w, n, "value", str_of(buf_text(&b)));
    buf_deinit(&b);
    return n;
}

GraphNode *graph_of_attr(GraphWriter *w, const AttrValue *v)
{
    bool shares = v->kind == ATTR_RECORD || (w->objects && place_of(v));
    if (shares)
        return of_shared(w, v);
    switch (v->kind) {
    case ATTR_NONE: return NULL;
    case ATTR_INT: return of_int(w, v->dtype.bits ? v->dtype : dtype_of(DT_INT32), v->i);
    case ATTR_BOOL: return of_int(w, dtype_of(DT_BOOL), v->b);
    case ATTR_FLOAT: return of_float(w, v);
    case ATTR_TEXT:
    case ATTR_STRING: return graph_make_string(w, v->s);
    case ATTR_LIST: return of_list(w, v);
    case ATTR_EXPR: return graph_of_expr(w, v->e);
    case ATTR_RECORD: break;
    }
    return NULL;
}

static GraphNode *of_op_attrs(GraphWriter *w, const Op *op, const Attrs *attrs)
{
    const GraphRecord *row = graph_record_of_op(op->name);
    if (!row)
        return of_dict_attrs(w, attrs);
    GraphNode *n = graph_make_node(w, row->key, attrs->n);
    for (uint32_t i = 0; i < attrs->n; i++)
        record_field(w, n, row, &attrs->at[i], op->attrs[i].type == ATTR_TYPE_DTYPE);
    return n;
}

GraphNode *graph_of_attrs(GraphWriter *w, const Expr *owner, const Attrs *attrs)
{
    const Op *op = expr_call_of_op(owner);
    const AttrValue *where = owner->kind == EXPR_VAR ? attrs_find(attrs, "virtual_device") : NULL;
    if (owner->kind == EXPR_VAR)
        return where ? graph_of_attr(w, where) : device(w);
    if (!attrs)
        return NULL;
    if (attrs->n == 1 && !*attrs->at[0].key)
        return graph_of_attr(w, &attrs->at[0].value);
    return op ? of_op_attrs(w, op, attrs) : of_dict_attrs(w, attrs);
}

/* ---- expressions ---------------------------------------------------------------------------------------- */

static GraphNode *of_pattern(GraphWriter *w, const Pattern *p)
{
    static const GraphKind kinds[] = {GRAPH_PATTERN_WILDCARD, GRAPH_PATTERN_VAR, GRAPH_PATTERN_CON,
                                      GRAPH_PATTERN_TUPLE};
    GraphNode *n = node_of(w, kinds[p->kind], 3);
    if (p->kind == PATTERN_CON)
        graph_put_field(n, "constructor", graph_of_con(w, p->con));
    if (p->kind == PATTERN_CON || p->kind == PATTERN_TUPLE) {
        GraphNode *list = graph_make_array(w, p->n);
        for (uint32_t i = 0; i < p->n; i++)
            list->data[i] = of_pattern(w, p->fields[i]);
        graph_put_field(n, "patterns", list);
    }
    graph_put_field(n, "span", NULL);
    if (p->kind == PATTERN_VAR)
        graph_put_field(n, "var", graph_of_expr(w, &p->var->base));
    return n;
}

static GraphNode *of_clauses(GraphWriter *w, const ClauseList *list)
{
    GraphNode *n = graph_make_array(w, list->n);
    for (uint32_t i = 0; i < list->n; i++) {
        GraphNode *clause = n->data[i] = node_of(w, GRAPH_CLAUSE, 2);
        graph_put_field(clause, "lhs", of_pattern(w, list->at[i].pattern));
        graph_put_field(clause, "rhs", graph_of_expr(w, list->at[i].body));
    }
    return n;
}

static GraphNode *of_exprs(GraphWriter *w, uint32_t count, Expr *const *at)
{
    GraphNode *n = graph_make_array(w, count);
    for (uint32_t i = 0; i < count; i++)
        n->data[i] = graph_of_expr(w, at[i]);
    return n;
}

static GraphNode *of_binders(GraphWriter *w, const VarList *list)
{
    GraphNode *n = graph_make_array(w, list->n);
    for (uint32_t i = 0; i < list->n; i++)
        n->data[i] = graph_of_expr(w, &list->at[i]->base);
    return n;
}

static GraphNode *of_id(GraphWriter *w, const Name *name)
{
    GraphNode *n = node_of(w, GRAPH_ID, 1);
    graph_put_string(w, n, "name_hint", name);
    return n;
}

/* The number of the tensor among the arrays; one that constants share is there once. */
static size_t array_of(GraphWriter *w, Value v)
{
    void **known = v.kind == VALUE_TENSOR ? ptrmap_slot(&w->made, v.tensor) : NULL;
    if (known && *known)
        return (size_t)(uintptr_t)*known - 1;
    vec_push(&w->arrays, &w->arena, v);
    if (known)
        *known = (void *)(uintptr_t)w->arrays.n;
    return w->arrays.n - 1;
}

GraphNode *graph_of_constant(GraphWriter *w, Value v)
{
    GraphNode *n = node_of(w, GRAPH_CONSTANT, 4);
    graph_put_int(w, n, "data", (int64_t)array_of(w, v));
    graph_put_field(n, "virtual_device_", device(w));
    graph_put_field(n, "span", NULL);
    graph_put_field(n, "_checked_type_", NULL);
    return n;
}

static void expr_field(GraphWriter *w, GraphNode *n, const Expr *e, const NodeField *f,
                       const char *name)
{
    const void *at = (const char *)e + f->offset;
    const TypeList *types = at;
    const TypeVarList *vars = at;
    const ExprList *list = at;
    switch (f->kind) {
    case FIELD_EXPR: graph_put_field(n, name, graph_of_expr(w, *(Expr *const *)at)); return;
    case FIELD_EXPRS: graph_put_field(n, name, of_exprs(w, list->n, list->at)); return;
    case FIELD_BINDER:
        graph_put_field(n, name, graph_of_expr(w, &(*(Var *const *)at)->base));
        return;
    case FIELD_BINDERS: graph_put_field(n, name, of_binders(w, at)); return;
    case FIELD_TYPE: graph_put_field(n, name, graph_of_type(w, *(const Type *const *)at)); return;
    case FIELD_TYPES: graph_put_field(n, name, of_types(w, types->n, types->at)); return;
    case FIELD_TYPEVARS: graph_put_field(n, name, of_typevars(w, vars->n, vars->at)); return;
    case FIELD_ATTRS:
        graph_put_field(n, name, graph_of_attrs(w, e, *(const Attrs *const *)at));
        return;
    case FIELD_CLAUSES: graph_put_field(n, name, of_clauses(w, at)); return;
    case FIELD_INT: graph_put_int(w, n, name, *(const int64_t *)at); return;
    case FIELD_BOOL: graph_put_int(w, n, name, *(const bool *)at); return;
    case FIELD_NAME: {
        const Name *text = *(const Name *const *)at;
        if (e->kind == EXPR_VAR)
            graph_put_field(n, name, of_id(w, text));
        else
            graph_put_string(w, n, name, text);
        return;
    }
    case FIELD_VALUE:
    case FIELD_OP:
    case FIELD_CON: return;
    }
}

/* What does not depend on the place of the node: nodes of a name are one. */
static GraphNode *of_atom(GraphWriter *w, const Expr *e, const void **key)
{
    *key = e;
    if (e->kind == EXPR_CON)
        return graph_of_con(w, expr_as_con(e)->con);
    if (e->kind == EXPR_OP)
        *key = expr_as_op(e)->op;
    if (e->kind == EXPR_GLOBAL)
        *key = expr_as_global(e)->name->text; /* the name itself is a data type's */
    return ptrmap_find(&w->made, *key);
}

GraphNode *graph_of_expr(GraphWriter *w, const Expr *e)
{
    const void *key;
    GraphNode *n = of_atom(w, e, &key);
    if (n)
        return n;
    if (e->kind == EXPR_CONSTANT) {
        n = graph_of_constant(w, expr_as_constant(e)->value);
    } else {
        n = node_of(w, (GraphKind)e->kind, 10);
        vec_push(&w->todo, &w->arena, ((GraphWriteWork){e, n}));
    }
    ptrmap_put(&w->made, key, n);
    return n;
}

void graph_writer_settle(GraphWriter *w)
{
    while (w->todo.n && !limit_hit(&w->cx->limits)) {
        GraphWriteWork work = vec_pop(&w->todo);
        const Expr *e = work.e;
        const NodeInfo *info = node_info((ExprKind)e->kind);
        if (e->kind == EXPR_OP) {
            work.node->repr = str_of(expr_as_op(e)->op->name);
            continue;
        }
        for (int i = 0; i < info->n; i++)
            expr_field(w, work.node, e, &info->fields[i],
                       graph_info((GraphKind)e->kind)->fields[i]);
        if (e->kind != EXPR_VAR)
            graph_put_field(work.node, "virtual_device_",
                            e->kind == EXPR_GLOBAL || e->kind == EXPR_MATCH ? NULL : device(w));
        graph_put_field(work.node, "span", NULL);
        graph_put_field(work.node, "_checked_type_", NULL);
    }
}

/* ---- modules --------------------------------------------------------------------------------------------- */

static GraphNode *of_imports(GraphWriter *w, const Module *m)
{
    if (m->imports.n == 0)
        return NULL;
    Attrs *attrs = arena_alloc_must(&w->arena, sizeof *attrs + sizeof *attrs->at, 1);
    AttrValue *paths = arena_alloc_must(&w->arena, m->imports.n, sizeof *paths);
    for (size_t i = 0; i < m->imports.n; i++)
        paths[i] = (AttrValue){.kind = ATTR_STRING, .s = m->imports.at[i]};
    attrs->n = 1;
    attrs->at[0].key = "imports";
    attrs->at[0].value.kind = ATTR_LIST;
    attrs->at[0].value.list.at = paths;
    attrs->at[0].value.list.n = (uint32_t)m->imports.n;
    return of_dict_attrs(w, attrs);
}

static GraphNode *of_module(GraphWriter *w, const Module *m)
{
    GraphNode *n = node_of(w, GRAPH_MODULE, 6), *source_map = node_of(w, GRAPH_SOURCE_MAP, 1);
    const Def **defs = arena_alloc_must(&w->arena, m->defs.n, sizeof *defs);
    uint32_t count = (uint32_t)module_sorted_defs(m, defs, true), types = (uint32_t)m->types.n;
    GraphNode *functions = with_items(w, GRAPH_MAP, 2 * count), *globals = graph_make_map(w, count);
    GraphNode *data = with_items(w, GRAPH_MAP, 2 * types), *names = graph_make_map(w, types);
    graph_put_field(source_map, "source_map", with_items(w, GRAPH_MAP, 0));
    for (uint32_t i = 0; i < count; i++) {
        const Name *name = defs[i]->name;
        Expr *var = expr_global(&w->arena, (Span){0}, name);
        globals->keys[i] = (Str){name->text, name->len};
        globals->data[i] = functions->data[2 * i] = graph_of_expr(w, var);
        functions->data[2 * i + 1] = graph_of_expr(w, &defs[i]->fn->base);
    }
    for (uint32_t i = 0; i < types; i++) {
        const TypeDef *def = m->types.at[i];
        names->keys[i] = (Str){def->name->text, def->name->len};
        names->data[i] = data->data[2 * i] = of_type_name(w, def);
        data->data[2 * i + 1] = graph_of_typedef(w, def);
    }
    graph_put_field(n, "functions", functions);
    graph_put_field(n, "type_definitions", data);
    graph_put_field(n, "global_var_map_", globals);
    graph_put_field(n, "global_type_var_map_", names);
    graph_put_field(n, "source_map", source_map);
    graph_put_field(n, "attrs", of_imports(w, m));
    return n;
}

void graph_write_module(Buf *out, Ctx *cx, const Module *m)
{
    GraphWriter w;
    if (m->saved) {
        graph_print_saved(out, cx, m);
        return;
    }
    graph_writer_init(&w, cx);
    GraphNode *root = m->expr ? graph_of_expr(&w, m->expr) : of_module(&w, m);
    graph_writer_settle(&w);
    graph_writer_print(&w, out, root);
    graph_writer_deinit(&w);
}
