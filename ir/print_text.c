/* The pieces of printed text that hold no expression below them: names, literals, attributes, heads. */
#include "ir/print_internal.h"

#include "base/number.h"
#include "ir/metadata.h"
#include "ir/walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    put_comment(p, b, &c->base);
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

/* An object that several attributes share is one item, and so is a number that is printed again. */
static bool same_item(const AttrValue *a, const AttrValue *b)
{
    return a == b || (a->kind == ATTR_RECORD && b->kind == ATTR_RECORD &&
                      a->record.fields == b->record.fields);
}

static void put_record(Printer *p, Buf *b, const AttrValue *v)
{
    const char *key = metadata_key_of_attr(v);
    size_t index = 0, i = 0;
    for (; p && i < p->records.n && !same_item(p->records.at[i], v); i++)
        index += !strcmp(metadata_key_of_attr(p->records.at[i]), key);
    if (p && i == p->records.n)
        vec_push(&p->records, &p->arena, v);
    put_item(b, key, index);
}

static const char *type_var_name(void *data, const TypeVar *v)
{
    const Printer *p = data;
    const char *other = ptrmap_find(&p->type_names, v);
    return other ? other : v->name->text;
}

bool put_type(Printer *p, Buf *b, const Type *t)
{
    return type_print_as(b, t, (TypeStyle){p->cx ? put_extent : NULL, type_var_name, p});
}

/* "span=model.rly:3:12"; nothing in the name ends the comment. */
static void put_span(Printer *p, Buf *b, Span span)
{
    Position at = span_start(&p->cx->sources, span);
    const Source *source = sources_get(&p->cx->sources, span.source);
    if (!source)
        return;
    buf_str(b, " span=");
    for (const char *c = source->name; *c; c++)
        buf_char(b, *c == '*' || (unsigned char)*c < ' ' ? '?' : *c);
    buf_printf(b, ":%u:%u", at.line, at.column);
}

void put_comment(Printer *p, Buf *b, const Expr *e)
{
    bool type = p->style.types && e->type;
    bool span = p->style.spans && p->cx && e->span.source;
    if (!type && !span)
        return;
    buf_str(b, " /*");
    if (type) {
        buf_str(b, " ty=");
        put_type(p, b, e->type);
    }
    if (span)
        put_span(p, b, e->span);
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

/* A number that float32 has not, as text would read it, says that it is a double. */
static void put_attr_float(Buf *b, const AttrValue *v, bool six_digits)
{
    bool wide = !v->dtype.bits && isfinite(v->f) && isinf((float)v->f);
    if (six_digits)
        number_print_g6(b, v->f);
    else if (dtype_id(v->dtype) == DT_FLOAT16)
        number_print_half(b, (uint16_t)value_scalar_double(v->dtype, v->f).bits);
    else
        number_print_double(b, v->f);
    buf_char(b, 'f');
    if (wide || (v->dtype.bits && v->dtype.bits != 32))
        buf_int(b, wide ? 64 : v->dtype.bits);
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
    case ATTR_STRING:
    case ATTR_TEXT: put_string(b, v->s); return;
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
    if (!op->attrs)
        put_attrs(p, b, attrs, first);
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

/* One that is too long to be written is left out, as a part of it would say something else; a reader finds it again. */
static void put_annotation(Printer *p, Buf *b, const char *lead, const Type *t)
{
    size_t start = b->n;
    if (!t || type_find(t)->kind == TYPE_HOLE)
        return;
    buf_str(b, lead);
    if (!put_type(p, b, t))
        buf_cut(b, start);
}

static void put_binder_with(Printer *p, Buf *b, const Var *v, const Attrs *attrs)
{
    PrintNode *node = name_var(p, v);
    put_var(b, node);
    if (attrs) {
        buf_str(b, " {");
        put_attrs(p, b, attrs, true);
        buf_char(b, '}');
    }
    bool inferred = p->style.types || p->style.annotations;
    put_annotation(p, b, ": ", inferred && v->base.type ? v->base.type : v->annotation);
    put_comment(p, b, &v->base);
}

/* The text has attributes of parameters alone: nothing can say where another variable lives. */
void put_binder(Printer *p, Buf *b, const Var *v)
{
    put_binder_with(p, b, v, NULL);
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

static void put_type_params(Printer *p, Buf *b, uint32_t n, const TypeVar *const *params)
{
    for (uint32_t i = 0; i < n; i++) {
        buf_str(b, i ? ", " : "[");
        buf_str(b, type_var_name(p, params[i]));
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

/* Names of type parameters where the walk is. */
typedef struct TypeNaming {
    Printer *p;
    Interner names;
    PtrMap taken; /* Names of those around, as they are called */
    PtrMap numbers; /* Name -> the last number behind it */
} TypeNaming;

static void name_type_param(TypeNaming *s, const TypeVar *v)
{
    const Name *own = name_intern(&s->names, v->name->text, strlen(v->name->text)), *name = own;
    uintptr_t number = (uintptr_t)ptrmap_find(&s->numbers, own);
    for (Buf text = {0}; name && ptrmap_has(&s->taken, name);) {
        buf_printf(&text, "%s%zu", own->text, (size_t)++number);
        name = name_intern(&s->names, buf_text(&text), text.n);
        buf_deinit(&text);
    }
    s->p->failed |= !name;
    if (!name)
        return;
    ptrmap_put(&s->taken, name, s);
    if (name == own)
        return;
    ptrmap_put(&s->numbers, own, (void *)number);
    ptrmap_put(&s->p->type_names, v, (void *)(uintptr_t)name->text);
}

static WalkNext enter_function(void *data, const Expr *e)
{
    TypeNaming *s = data;
    const Function *f = expr_as_function(e);
    for (uint32_t i = 0; f && i < f->type_params.n; i++)
        name_type_param(s, f->type_params.at[i]);
    return print_goes_on(s->p) ? WALK_ON : WALK_STOP;
}

static WalkNext leave_function(void *data, const Expr *e)
{
    TypeNaming *s = data;
    const Function *f = expr_as_function(e);
    for (uint32_t i = 0; f && i < f->type_params.n; i++) {
        const char *text = type_var_name(s->p, f->type_params.at[i]);
        const Name *name = name_find(&s->names, text, strlen(text));
        if (name)
            ptrmap_remove(&s->taken, name);
    }
    return WALK_ON;
}

void name_type_params(Printer *p, const Expr *e)
{
    if (!p->polymorphic)
        return;
    TypeNaming s = {.p = p};
    interner_init(&s.names, &p->arena);
    ir_walk(e, enter_function, leave_function, &s);
    interner_deinit(&s.names);
    ptrmap_deinit(&s.taken);
    ptrmap_deinit(&s.numbers);
}

void put_function_head(Printer *p, Buf *b, const Function *f)
{
    put_type_params(p, b, f->type_params.n, f->type_params.at);
    buf_char(b, '(');
    for (uint32_t i = 0; i < f->params.n; i++) {
        if (i)
            buf_str(b, ", ");
        put_binder_with(p, b, f->params.at[i], f->params.at[i]->attrs);
    }
    put_attrs(p, b, f->attrs, f->params.n == 0);
    buf_char(b, ')');
    put_annotation(p, b, " -> ", result_type(p, f));
}

void put_typedef(Printer *p, Buf *b, const TypeDef *def)
{
    if (def->is_extern)
        buf_str(b, "extern ");
    buf_str(b, "type ");
    buf_str(b, def->name->text);
    put_type_params(p, b, def->n_params, def->params);
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
