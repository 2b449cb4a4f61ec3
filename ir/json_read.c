/* Expressions and modules of the graph. */
#include "ir/json_read.h"

#include "ir/equal.h"
#include "ir/walk.h"

#include <string.h>

enum { NEW, OPEN, DONE };

void graph_reader_init(GraphReader *r, Graph *g, Module *m, Arena *arena)
{
    *r = (GraphReader){.cx = g->cx, .g = g, .arena = arena, .m = m};
    arena_init(&r->scratch, &g->cx->limits);
    r->made = arena_alloc_must(&r->scratch, g->n, sizeof *r->made);
    r->state = arena_alloc_must(&r->scratch, g->n, 1);
}

void graph_reader_deinit(GraphReader *r)
{
    ptrmap_deinit(&r->placed);
    arena_deinit(&r->scratch);
}

/* ---- what an expression is made of: its children come first ------------------------------------- */

static bool want_expr(GraphReader *r, size_t from, const char *field, size_t node)
{
    if (graph_kind(r->g, node) >= GRAPH_NULL)
        return graph_wrong(r->g, from, field, "node %zu is no expression", node);
    if (r->state[node] != DONE)
        vec_push(&r->todo, &r->scratch, ((GraphWork){.node = (uint32_t)node}));
    return true;
}

static bool want_list(GraphReader *r, size_t from, const char *field, size_t list)
{
    size_t n, item;
    if (!graph_list(r->g, list, &n))
        return false;
    for (size_t i = n; i-- > 0;)
        if (!graph_item(r->g, list, i, &item) || !want_expr(r, from, field, item))
            return false;
    return true;
}

static bool want_clauses(GraphReader *r, size_t list)
{
    size_t n, item, body;
    if (!graph_list(r->g, list, &n))
        return false;
    for (size_t i = n; i-- > 0;) {
        if (!graph_item(r->g, list, i, &item))
            return false;
        if (graph_kind(r->g, item) != GRAPH_CLAUSE)
            return graph_wrong(r->g, list, "data", "node %zu is no clause", item);
        if (!graph_ref(r->g, item, "rhs", &body) || !want_expr(r, item, "rhs", body))
            return false;
    }
    return true;
}

/* A record of attributes may hold constants. */
static bool want_attrs(GraphReader *r, size_t record)
{
    const GraphRecord *row = graph_record(r->g, record);
    size_t node;
    for (const char *word = row ? row->boxed : ""; *word;) {
        size_t n = strcspn(word, " ");
        const char *field = arena_copy_text(&r->scratch, word, n);
        bool is_text = graph_has(r->g, record, field) && !graph_is_number(r->g, record, field);
        if (!is_text && !graph_ref(r->g, record, field, &node))
            return false;
        if (!is_text && graph_kind(r->g, node) < GRAPH_NULL && !want_expr(r, record, field, node))
            return false;
        word += n + (word[n] == ' ');
    }
    return true;
}

static bool want_field(GraphReader *r, size_t node, FieldKind kind, const char *field)
{
    size_t at;
    switch (kind) {
    case FIELD_EXPR:
    case FIELD_BINDER: return graph_ref(r->g, node, field, &at) && want_expr(r, node, field, at);
    case FIELD_EXPRS:
    case FIELD_BINDERS: return graph_ref(r->g, node, field, &at) && want_list(r, node, field, at);
    case FIELD_CLAUSES: return graph_ref(r->g, node, field, &at) && want_clauses(r, at);
    case FIELD_ATTRS: return graph_ref(r->g, node, field, &at) && want_attrs(r, at);
    case FIELD_TYPE:
    case FIELD_TYPES:
    case FIELD_TYPEVARS:
    case FIELD_VALUE:
    case FIELD_NAME:
    case FIELD_INT:
    case FIELD_BOOL:
    case FIELD_OP:
    case FIELD_CON: break;
    }
    return true;
}

/* ---- fields of an expression --------------------------------------------------------------------- */

static bool fill_list(GraphReader *r, size_t list, ExprList *out)
{
    size_t n, item;
    if (!graph_list(r->g, list, &n))
        return false;
    out->n = (uint32_t)n;
    out->at = n ? arena_alloc_must(r->arena, n, sizeof *out->at) : NULL;
    for (size_t i = 0; i < n; i++) {
        if (!graph_item(r->g, list, i, &item))
            return false;
        out->at[i] = r->made[item];
    }
    return true;
}

static bool fill_binder(GraphReader *r, size_t from, const char *field, size_t node, Var **out)
{
    *out = expr_as_var(r->made[node]);
    return *out || graph_wrong(r->g, from, field, "node %zu is no variable", node);
}

static bool fill_binders(GraphReader *r, size_t from, const char *field, size_t list, VarList *out)
{
    size_t n, item;
    if (!graph_list(r->g, list, &n))
        return false;
    out->n = (uint32_t)n;
    out->at = n ? arena_alloc_must(r->arena, n, sizeof *out->at) : NULL;
    for (size_t i = 0; i < n; i++)
        if (!graph_item(r->g, list, i, &item) || !fill_binder(r, from, field, item, &out->at[i]))
            return false;
    return true;
}

static bool fill_types(GraphReader *r, size_t list, TypeList *out)
{
    size_t n, item;
    if (!graph_list(r->g, list, &n))
        return false;
    const Type **at = n ? arena_alloc_must(r->arena, n, sizeof *at) : NULL;
    for (size_t i = 0; i < n; i++)
        if (!graph_item(r->g, list, i, &item) || !graph_read_type(r, item, 0, &at[i]))
            return false;
    *out = (TypeList){.at = at, .n = (uint32_t)n};
    return true;
}

static bool fill_pattern(GraphReader *r, size_t node, Pattern **out);

static bool fill_fields(GraphReader *r, size_t list, Pattern *p)
{
    size_t n, item;
    if (!graph_list(r->g, list, &n))
        return false;
    p->n = (uint32_t)n;
    p->fields = n ? arena_alloc_must(r->arena, n, sizeof *p->fields) : NULL;
    for (size_t i = 0; i < n; i++)
        if (!graph_item(r->g, list, i, &item) || !fill_pattern(r, item, &p->fields[i]))
            return false;
    return true;
}

static bool fill_con_pattern(GraphReader *r, size_t node, Pattern *p)
{
    size_t con, list;
    if (!graph_ref(r->g, node, "constructor", &con) || !graph_ref(r->g, node, "patterns", &list))
        return false;
    p->kind = PATTERN_CON;
    p->con = graph_read_constructor(r, con);
    return p->con && fill_fields(r, list, p);
}

/* Variables of patterns are no expressions below the clause: they are made here. */
static bool fill_var_pattern(GraphReader *r, size_t node, Pattern *p)
{
    size_t var;
    p->kind = PATTERN_VAR;
    if (!graph_ref_kind(r->g, node, "var", GRAPH_VAR, "variable", &var))
        return false;
    if (!r->made[var] && !graph_read_expr(r, var))
        return false;
    return fill_binder(r, node, "var", var, &p->var);
}

static bool fill_pattern_kind(GraphReader *r, size_t node, Pattern *p)
{
    size_t list;
    switch (graph_kind(r->g, node)) {
    case GRAPH_PATTERN_WILDCARD: return true;
    case GRAPH_PATTERN_VAR: return fill_var_pattern(r, node, p);
    case GRAPH_PATTERN_CON: return fill_con_pattern(r, node, p);
    case GRAPH_PATTERN_TUPLE:
        p->kind = PATTERN_TUPLE;
        return graph_ref(r->g, node, "patterns", &list) && fill_fields(r, list, p);
    default: return graph_wrong(r->g, node, NULL, "a pattern is wanted here");
    }
}

static bool fill_pattern(GraphReader *r, size_t node, Pattern **out)
{
    Pattern *p = *out = arena_new(r->arena, Pattern);
    p->span = graph_span(r->g, node);
    if (!graph_enter(r, node, "patterns"))
        return false;
    bool ok = fill_pattern_kind(r, node, p);
    r->depth--;
    return ok;
}

static bool fill_clauses(GraphReader *r, size_t list, ClauseList *out)
{
    size_t n, item, lhs, rhs;
    if (!graph_list(r->g, list, &n))
        return false;
    out->n = (uint32_t)n;
    out->at = n ? arena_alloc_must(r->arena, n, sizeof *out->at) : NULL;
    for (size_t i = 0; i < n; i++) {
        if (!graph_item(r->g, list, i, &item) || !graph_ref(r->g, item, "lhs", &lhs) ||
            !graph_ref(r->g, item, "rhs", &rhs) || !fill_pattern(r, lhs, &out->at[i].pattern))
            return false;
        out->at[i].body = r->made[rhs];
        out->at[i].span = graph_span(r->g, item);
    }
    return true;
}

/* Of another call: one attribute without a name, which is the record. */
static bool fill_other_attrs(GraphReader *r, size_t record, const Attrs **out)
{
    *out = NULL;
    if (graph_kind(r->g, record) == GRAPH_NULL)
        return true;
    Attrs *attrs = arena_alloc_must(r->arena, sizeof *attrs + sizeof *attrs->at, 1);
    attrs->n = 1;
    attrs->at[0].key = "";
    attrs->at[0].span = attrs->at[0].key_span = graph_span(r->g, record);
    *out = attrs;
    return graph_read_attr(r, record, &attrs->at[0].value) &&
           (attrs->at[0].value.kind == ATTR_RECORD ||
            graph_wrong(r->g, record, NULL, "the attributes of a call are a record"));
}

/* Of an operator's call: the record, completed and checked as if it were written; of one without attributes what
 * passes noted. */
static bool fill_op_attrs(GraphReader *r, size_t node, size_t record, const Op *op,
                          const Attrs **out)
{
    Attrs *fields = NULL;
    const Attrs *written = NULL;
    GraphKind kind = graph_kind(r->g, record);
    bool some = op->attrs && op->attrs->name;
    if (kind == GRAPH_DICT_ATTRS && !some)
        return fill_other_attrs(r, record, out);
    if (kind == GRAPH_DICT_ATTRS && !graph_read_dict(r, record, &written))
        return false;
    if (kind == GRAPH_NULL || !some) {
        *out = some
                   ? attrs_check(r->cx, r->arena, op->name, op->attrs, NULL, graph_span(r->g, node))
                   : NULL;
        return *out || !some;
    }
    const GraphRecord *row = graph_record(r->g, record);
    if (row && !graph_has_word(row->ops, op->name))
        return graph_wrong(r->g, node, "attrs", "`%s` has no attributes of `%s`", op->name,
                           row->key);
    if (kind != GRAPH_DICT_ATTRS && !graph_read_record(r, record, op->name, op->attrs, &fields))
        return false;
    written = fields ? fields : written;
    *out = attrs_check(r->cx, r->arena, op->name, op->attrs, written, graph_span(r->g, record));
    return *out != NULL;
}

static const char device_key[] = "virtual_device";

static bool object_says(const AttrValue *object, const char *field, const char *text)
{
    const AttrValue *v = attrs_find(object->record.fields, field);
    if (!v || v->kind == ATTR_NONE)
        return !*text;
    return (v->kind == ATTR_TEXT || v->kind == ATTR_STRING) && str_is(v->s, text);
}

/* Where a parameter lives; mostly nothing is said of it. */
static bool fill_device(GraphReader *r, size_t node, size_t device, const Attrs **out)
{
    AttrValue v;
    *out = NULL;
    if (graph_kind(r->g, device) == GRAPH_NULL)
        return true;
    GraphKind kind = graph_kind(r->g, device);
    if (kind != GRAPH_VIRTUAL_DEVICE && kind != GRAPH_STRING)
        return graph_wrong(r->g, node, "virtual_device_", "node %zu is no device", device);
    if (!graph_read_attr(r, device, &v))
        return false;
    if (kind == GRAPH_VIRTUAL_DEVICE && object_says(&v, "device_type_int", "-1") &&
        object_says(&v, "virtual_device_id", "-1") && object_says(&v, "target", "") &&
        object_says(&v, "memory_scope", ""))
        return true;
    *out = attrs_with(r->arena, NULL, device_key, v);
    return true;
}

/* The text of another call names the record that its attributes are of. */
static bool fill_other_dict(GraphReader *r, size_t record, const Attrs **out)
{
    static const char key[] = "attrs_type_key";
    if (!graph_read_dict(r, record, out))
        return false;
    if (*out && !attrs_find(*out, key))
        *out = attrs_with(r->arena, *out, key,
                          (AttrValue){.kind = ATTR_STRING, .s = str_of(graph_key(r->g, record))});
    return true;
}

static bool fill_attrs(GraphReader *r, size_t node, size_t record, Expr *e, const Attrs **out)
{
    if (e->kind == EXPR_VAR)
        return fill_device(r, node, record, out);
    const OpRef *op = e->kind == EXPR_CALL ? expr_as_op(expr_as_call(e)->callee) : NULL;
    if (op)
        return fill_op_attrs(r, node, record, op->op, out);
    if (e->kind == EXPR_FUNCTION) {
        r->closed++;
        bool ok = graph_read_dict(r, record, out);
        r->closed--;
        return ok;
    }
    return graph_kind(r->g, record) == GRAPH_DICT_ATTRS ? fill_other_dict(r, record, out)
                                                        : fill_other_attrs(r, record, out);
}

static bool fill_name(GraphReader *r, size_t node, const char *field, const Name **out)
{
    Str text;
    size_t id = node;
    const char *from = field;
    if (graph_kind(r->g, node) == GRAPH_VAR) {
        if (!graph_ref_kind(r->g, node, field, GRAPH_ID, "relay.Id", &id))
            return false;
        from = "name_hint";
    }
    if (!graph_string(r->g, id, from, &text))
        return false;
    *out = ctx_name_str(r->cx, text);
    return true;
}

static bool fill_op(GraphReader *r, size_t node, const Op **out)
{
    Str name;
    if (!graph_repr(r->g, node, &name))
        return false;
    *out = op_find(r->cx, name);
    return *out || graph_wrong(r->g, node, "repr_str", "there is no operator `%.*s`",
                               (int)(name.len < 80 ? name.len : 80), name.ptr);
}

static bool fill_value(GraphReader *r, size_t node, const char *field, Expr **e)
{
    Value v;
    if (!graph_tensor(r->g, node, field, &v))
        return false;
    *e = expr_constant(r->arena, (*e)->span, v);
    value_release(v);
    return true;
}

static bool fill_index(GraphReader *r, size_t node, const char *field, int64_t *out)
{
    if (!graph_int(r->g, node, field, out))
        return false;
    return (*out >= 0 && *out <= INT32_MAX) ||
           graph_wrong(r->g, node, field, "no tuple has a field %lld", (long long)*out);
}

static bool fill_bool(GraphReader *r, size_t node, const char *field, bool *out)
{
    int64_t v;
    if (!graph_int(r->g, node, field, &v))
        return false;
    *out = v != 0;
    return true;
}

static bool fill_field(GraphReader *r, size_t node, const NodeField *f, const char *field, Expr **e)
{
    size_t at = 0;
    void *to = (char *)*e + f->offset;
    bool refers = f->kind != FIELD_VALUE && f->kind != FIELD_NAME && f->kind != FIELD_INT &&
                  f->kind != FIELD_BOOL && f->kind != FIELD_OP && f->kind != FIELD_CON;
    if (refers && !graph_ref(r->g, node, field, &at))
        return false;
    switch (f->kind) {
    case FIELD_EXPR: *(Expr **)to = r->made[at]; return true;
    case FIELD_EXPRS: return fill_list(r, at, to);
    case FIELD_BINDER: return fill_binder(r, node, field, at, to);
    case FIELD_BINDERS: return fill_binders(r, node, field, at, to);
    case FIELD_TYPE: return graph_read_type(r, at, 0, to);
    case FIELD_TYPES: return fill_types(r, at, to);
    case FIELD_TYPEVARS: return graph_read_typevars(r, at, to);
    case FIELD_ATTRS: return fill_attrs(r, node, at, *e, to);
    case FIELD_CLAUSES: return fill_clauses(r, at, to);
    case FIELD_VALUE: return fill_value(r, node, field, e);
    case FIELD_NAME: return fill_name(r, node, field, to);
    case FIELD_INT: return fill_index(r, node, field, to);
    case FIELD_BOOL: return fill_bool(r, node, field, to);
    case FIELD_OP: return fill_op(r, node, to);
    case FIELD_CON:
        *(const Constructor **)to = graph_read_constructor(r, node);
        return *(const Constructor **)to != NULL;
    }
    return false;
}

/* ---- the machine ---------------------------------------------------------------------------------- */

static bool begin(GraphReader *r, size_t node)
{
    GraphKind kind = graph_kind(r->g, node);
    const NodeInfo *info = node_info((ExprKind)kind);
    if (r->state[node] == DONE)
        return true;
    if (r->state[node] == OPEN)
        return graph_wrong(r->g, node, NULL, "it is a part of itself");
    r->state[node] = OPEN;
    vec_push(&r->todo, &r->scratch, ((GraphWork){.node = (uint32_t)node, .finish = true}));
    for (int i = info->n; i-- > 0;)
        if (!want_field(r, node, info->fields[i].kind, graph_info(kind)->fields[i]))
            return false;
    return true;
}

static bool finish(GraphReader *r, size_t node)
{
    GraphKind kind = graph_kind(r->g, node);
    const NodeInfo *info = node_info((ExprKind)kind);
    Expr *e = arena_alloc_must(r->arena, 1, info->size);
    e->kind = (uint8_t)kind;
    e->span = graph_span(r->g, node);
    for (int i = 0; i < info->n; i++)
        if (!fill_field(r, node, &info->fields[i], graph_info(kind)->fields[i], &e))
            return false;
    r->made[node] = e;
    r->state[node] = DONE;
    return true;
}

Expr *graph_read_expr(GraphReader *r, size_t node)
{
    size_t bottom = r->todo.n;
    if (graph_kind(r->g, node) >= GRAPH_NULL) {
        graph_wrong(r->g, node, NULL, "an expression is wanted here");
        return NULL;
    }
    vec_push(&r->todo, &r->scratch, ((GraphWork){.node = (uint32_t)node}));
    while (r->todo.n > bottom) {
        GraphWork work = vec_pop(&r->todo);
        if (limit_hit(&r->cx->limits) ||
            !(work.finish ? finish(r, work.node) : begin(r, work.node))) {
            r->todo.n = bottom;
            return NULL;
        }
    }
    return r->made[node];
}

/* ---- modules -------------------------------------------------------------------------------------- */

static bool read_imports(GraphReader *r, size_t root, GraphImport import)
{
    size_t at, n = 0, item;
    const Attrs *attrs;
    Str path;
    if (!graph_ref(r->g, root, "attrs", &at) || !graph_read_dict(r, at, &attrs))
        return false;
    const AttrValue *list = attrs_find(attrs, "imports");
    n = list && list->kind == ATTR_LIST ? list->list.n : 0;
    for (item = 0; item < n; item++) {
        path = list->list.at[item].kind == ATTR_STRING ? list->list.at[item].s : str_of("");
        Module *from =
            import.import ? import.import(import.data, path, graph_span(r->g, at)) : NULL;
        if (!from)
            return graph_wrong(r->g, at, NULL, "`%.*s` cannot be imported", (int)path.len,
                               path.ptr);
        module_import(r->m, from);
        module_release(from);
        vec_push(&r->m->imports, r->arena, path);
    }
    return true;
}

/* The name of a definition: of the GlobalVar or GlobalTypeVar that is the key of a map. */
static bool key_name(GraphReader *r, size_t map, size_t i, size_t *key, size_t *value,
                     const Name **out)
{
    Str text;
    if (!graph_pair(r->g, map, i, &text, key, value))
        return false;
    if (*key && graph_kind(r->g, *key) != GRAPH_STRING &&
        !graph_string(r->g, *key, "name_hint", &text))
        return false;
    if (text.len == 0)
        return graph_wrong(r->g, map, NULL, "a definition needs a name");
    *out = ctx_name_str(r->cx, text);
    return true;
}

/* The head of a data type; one of the name that was imported is that one. */
static bool declare_type(GraphReader *r, size_t key, size_t node, const Name *name)
{
    size_t at, header;
    TypeVarList vars;
    int64_t external = 0;
    if (graph_kind(r->g, node) != GRAPH_TYPE_DATA)
        return graph_wrong(r->g, node, NULL, "the definition of a type is wanted here");
    if (!graph_ref(r->g, node, "type_vars", &at) || !graph_read_typevars(r, at, &vars) ||
        !graph_ref_kind(r->g, node, "header", GRAPH_GLOBAL_TYPE_VAR, "name of a data type",
                        &header))
        return false;
    if (graph_has(r->g, node, "is_extern") && !graph_int(r->g, node, "is_extern", &external))
        return false;
    const TypeDef *def = module_find_type(r->m, name);
    bool imported = def != NULL;
    for (size_t i = 0; imported && i < r->m->imported_types.n; i++)
        if (r->m->imported_types.at[i] == def)
            imported = false;
    if (imported)
        return graph_wrong(r->g, node, NULL, "the type `%s` is defined twice", name->text);
    if (!def) {
        TypeDef *fresh = typedef_new(r->cx, name, vars.n, vars.at, graph_span(r->g, node));
        fresh->is_extern = external != 0;
        def = fresh;
    }
    r->made[node] = r->made[header] = (void *)(uintptr_t)def;
    if (graph_kind(r->g, key) == GRAPH_GLOBAL_TYPE_VAR)
        r->made[key] = r->made[header];
    return true;
}

static bool define_constructor(GraphReader *r, size_t node, TypeDef *def)
{
    Str name;
    size_t list, n, item;
    if (graph_kind(r->g, node) != GRAPH_CON)
        return graph_wrong(r->g, node, NULL, "a constructor is wanted here");
    if (!graph_string(r->g, node, "name_hint", &name) || !graph_ref(r->g, node, "inputs", &list) ||
        !graph_list(r->g, list, &n))
        return false;
    const Type **fields = arena_alloc_must(&r->scratch, n, sizeof *fields);
    for (size_t i = 0; i < n; i++) {
        if (!graph_item(r->g, list, i, &item) || !graph_read_type(r, item, 0, &fields[i]))
            return false;
        if (!fields[i])
            return graph_wrong(r->g, node, "inputs", "field %zu has no type", i);
    }
    const Name *interned = ctx_name_str(r->cx, name);
    bool twice = module_find_con(r->m, interned) != NULL;
    for (uint32_t i = 0; i < def->n_cons; i++)
        twice |= def->cons[i]->name == interned;
    if (twice)
        return graph_wrong(r->g, node, "name_hint", "the constructor `%s` is defined twice",
                           interned->text);
    typedef_con(r->cx, def, interned, (uint32_t)n, fields, graph_span(r->g, node));
    return true;
}

static bool define_type(GraphReader *r, size_t node)
{
    size_t list, n, item;
    TypeDef *def = r->made[node];
    const TypeDef *found = module_find_type(r->m, def->name);
    if (found)
        return found == def ||
               graph_wrong(r->g, node, NULL, "the type `%s` is defined twice", def->name->text);
    if (!graph_ref(r->g, node, "constructors", &list) || !graph_list(r->g, list, &n))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!graph_item(r->g, list, i, &item) || !define_constructor(r, item, def))
            return false;
    module_define_type(r->m, def);
    return true;
}

static bool read_type_definitions(GraphReader *r, size_t root)
{
    size_t map, n, key, value;
    const Name *name;
    if (!graph_ref(r->g, root, "type_definitions", &map) || !graph_map(r->g, map, &n))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!key_name(r, map, i, &key, &value, &name) || !declare_type(r, key, value, name))
            return false;
    for (size_t i = 0; i < n; i++)
        if (!key_name(r, map, i, &key, &value, &name) || !define_type(r, value))
            return false;
    return true;
}

static bool read_function(GraphReader *r, size_t node, const Name *name)
{
    const Def *old = module_find(r->m, name);
    if (graph_kind(r->g, node) != GRAPH_FUNCTION)
        return graph_wrong(r->g, node, NULL, "`@%s` must be a function", name->text);
    Function *fn = expr_as_function(graph_read_expr(r, node));
    if (!fn)
        return false;
    if (old && !old->imported)
        return graph_wrong(r->g, node, NULL, "`@%s` is defined twice", name->text);
    /* One function under two names has variables that are bound twice. */
    if (!ptrmap_has(&r->placed, fn))
        ptrmap_put(&r->placed, fn, NULL);
    else if (!(fn = expr_as_function(ir_copy(r->cx, r->m, &fn->base))))
        return false;
    if (!old || !ir_equal(&old->fn->base, &fn->base, true))
        module_define(r->m, name, fn, fn->base.span, r->m);
    return true;
}

static bool read_module(GraphReader *r, size_t root, GraphImport import)
{
    size_t map, n, key, value;
    const Name *name;
    if (!read_imports(r, root, import) || !read_type_definitions(r, root) ||
        !graph_ref(r->g, root, "functions", &map) || !graph_map(r->g, map, &n))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!key_name(r, map, i, &key, &value, &name) || !read_function(r, value, name))
            return false;
    return true;
}

static void declare_free(void *data, Var *v)
{
    Module *m = data;
    vec_push(&m->free_vars, &m->arena, v);
}

static bool read_root(GraphReader *r, GraphImport import)
{
    r->m->has_header = true;
    r->m->scopes_open = true;
    if (graph_kind(r->g, r->g->root) == GRAPH_MODULE)
        return read_module(r, r->g->root, import);
    r->m->expr = graph_read_expr(r, r->g->root);
    if (r->m->expr)
        ir_free_vars(r->m->expr, declare_free, r->m);
    return r->m->expr != NULL;
}

Module *graph_read_module(Ctx *cx, uint32_t source, GraphImport import)
{
    Graph g;
    GraphReader r;
    const Source *text = sources_get(&cx->sources, source);
    Module *m = module_new(cx);
    if (!m)
        return NULL;
    module_use_source(m, source);
    Str all = {text->text, text->len};
    bool ok =
        graph_open(&g, cx, &m->arena, all, (Span){source, 0, (uint32_t)text->len}, E0122_JSON);
    if (ok) {
        graph_reader_init(&r, &g, m, &m->arena);
        ok = read_root(&r, import);
        graph_reader_deinit(&r);
    }
    if (ok && !g.old)
        graph_keep(&g, m);
    graph_close(&g);
    if (ok && !limit_hit(&cx->limits))
        return m;
    module_release(m);
    return NULL;
}

bool graph_is_json(const char *text, size_t len)
{
    size_t i = 0;
    while (i < len && strchr(" \t\r\n", text[i]) && text[i])
        i++;
    if (i >= len || text[i] != '{')
        return false;
    for (i++; i < len && text[i] && strchr(" \t\r\n", text[i]); i++)
        ;
    return i < len && text[i] == '"';
}
