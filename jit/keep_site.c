/* Calls of operators that run by themselves: the operator by its name, attributes, the type of the result. */
#include "jit/keep.h"

#include <string.h>

/* ---- types ------------------------------------------------------------------------------------------------------------------- */

void keep_put_def(Writing *w, const TypeDef *def)
{
    for (size_t i = 0; i < w->c->types.n; i++)
        if (w->c->types.at[i] == def) {
            keep_put(w, i);
            return;
        }
    w->here |= def != typedef_rows(w->cx);
    keep_put(w, w->c->types.n);
}

const TypeDef *keep_take_def(Taking *t)
{
    uint64_t number = keep_take(t);
    t->wrong |= number > t->c->types.n;
    if (t->wrong)
        return NULL;
    return number < t->c->types.n ? t->c->types.at[number] : typedef_rows(t->u->jit->cx);
}

/* Values of other types have no text that another process would read the same. */
void keep_put_type(Writing *w, const Type *t)
{
    keep_put(w, t->kind);
    keep_put(w, t->n);
    switch ((TypeKind)t->kind) {
    case TYPE_TENSOR:
        keep_put(w, dtype_pack(t->dtype));
        for (uint32_t i = 0; i < t->n; i++) {
            w->here |= dim_is_symbol(t->dims[i]);
            keep_put(w, (uint64_t)t->dims[i]);
        }
        return;
    case TYPE_ADT: keep_put_def(w, t->def); break;
    case TYPE_TUPLE:
    case TYPE_REF: break;
    case TYPE_FUNC:
        w->here |= t->n_params > 0;
        if (!w->here)
            keep_put_type(w, t->result);
        break;
    case TYPE_VAR:
    case TYPE_HOLE:
    case TYPE_POISON: w->here = true; return;
    }
    for (uint32_t i = 0; i < t->n && !w->here; i++)
        keep_put_type(w, t->parts[i]);
}

static const Type *take_type(Taking *t, uint32_t depth);

static const Type *take_parts(Taking *t, uint64_t kind, uint64_t n, uint32_t depth)
{
    Ctx *cx = t->u->jit->cx;
    const TypeDef *def = NULL;
    const Type *result = kind == TYPE_FUNC ? take_type(t, depth + 1) : NULL;
    if (kind == TYPE_ADT) {
        def = keep_take_def(t);
        t->wrong |= !def || def->n_params != n;
    }
    t->wrong |= kind == TYPE_REF && n != 1;
    const Type **parts = t->wrong ? NULL : arena_new_array(&t->u->arena, const Type *, n + 1);
    for (uint64_t i = 0; i < n && !t->wrong; i++)
        parts[i] = take_type(t, depth + 1);
    if (t->wrong)
        return NULL;
    if (kind == TYPE_ADT)
        return type_adt(cx, def, (uint32_t)n, parts);
    if (kind == TYPE_FUNC)
        return type_func(cx, 0, NULL, (uint32_t)n, parts, result);
    return kind == TYPE_REF ? type_ref(cx, parts[0]) : type_tuple(cx, (uint32_t)n, parts);
}

static const Type *take_type(Taking *t, uint32_t depth)
{
    Dim dims[TENSOR_RANK_MOST];
    uint64_t kind = keep_take(t), n = keep_take_count(t);
    t->wrong |= depth > TYPE_DEPTH_MOST / 2;
    if (kind == TYPE_TUPLE || kind == TYPE_REF || kind == TYPE_ADT || kind == TYPE_FUNC)
        return t->wrong ? NULL : take_parts(t, kind, n, depth);
    DType dtype = dtype_unpack(keep_take(t));
    t->wrong |= kind != TYPE_TENSOR || n > TENSOR_RANK_MOST || dtype_id(dtype) == DTYPE_IDS;
    for (uint64_t i = 0; i < n && !t->wrong; i++) {
        dims[i] = (Dim)keep_take(t);
        t->wrong |= dims[i] < DIM_ANY;
    }
    return t->wrong ? NULL : type_tensor(t->u->jit->cx, dtype, (uint32_t)n, dims);
}

const Type *keep_take_type(Taking *t)
{
    return take_type(t, 0);
}

/* ---- attributes --------------------------------------------------------------------------------------------------------------- */

static void put_attr(Writing *w, const AttrValue *v)
{
    keep_put(w, v->kind);
    keep_put(w, dtype_pack(v->dtype));
    switch (v->kind) {
    case ATTR_NONE: return;
    case ATTR_INT:
    case ATTR_FLOAT: keep_put(w, (uint64_t)v->i); return;
    case ATTR_BOOL: keep_put(w, v->b); return;
    case ATTR_STRING: {
        const char *text = arena_copy_text(&w->arena, v->s.ptr, v->s.len);
        w->here |= strlen(text) != v->s.len;
        keep_put_text(w, text);
        return;
    }
    case ATTR_LIST:
        keep_put(w, v->list.n);
        for (uint32_t i = 0; i < v->list.n; i++)
            put_attr(w, &v->list.at[i]);
        return;
    case ATTR_EXPR:
    case ATTR_RECORD:
    case ATTR_TEXT: w->here = true; return;
    }
}

static AttrValue take_attr(Taking *t, uint32_t depth)
{
    Arena *arena = &t->u->arena;
    uint64_t kind = keep_take(t);
    AttrValue v = {.kind = (AttrKind)kind, .dtype = dtype_unpack(keep_take(t))};
    t->wrong |= depth > 64;
    switch (kind) {
    case ATTR_NONE: break;
    case ATTR_INT:
    case ATTR_FLOAT: v.i = (int64_t)keep_take(t); break;
    case ATTR_BOOL: v.b = keep_take(t) != 0; break;
    case ATTR_STRING: v.s = str_of(keep_take_text(t)); break;
    case ATTR_LIST: {
        uint64_t n = keep_take_count(t);
        AttrValue *at = arena_new_array(arena, AttrValue, n + 1);
        for (uint64_t i = 0; i < n && !t->wrong; i++)
            at[i] = take_attr(t, depth + 1);
        v.list.at = at;
        v.list.n = (uint32_t)n;
        break;
    }
    default: t->wrong = true;
    }
    return v;
}

/* ---- places ---- */

void keep_put_span(Writing *w, Span span)
{
    keep_put(w, span.source != 0);
    if (span.source)
        keep_put_source(w, span.source);
    keep_put(w, (uint64_t)span.from << 32 | span.to);
}

Span keep_take_span(Taking *t)
{
    uint64_t number = 0, some = keep_take(t);
    if (some) {
        number = keep_take(t);
        t->wrong |= number >= t->c->sources.n;
    }
    uint64_t at = keep_take(t);
    if (t->wrong || !some)
        return (Span){0};
    return (Span){t->c->sources.at[number], (uint32_t)(at >> 32), (uint32_t)at};
}

/* ---- sites --------------------------------------------------------------------------------------------------------------------- */

/* The values in the order of the operator's schema, which has their names. */
static const Attrs *take_attrs(Taking *t, const Op *op)
{
    uint64_t n = keep_take_count(t);
    if (n == 0 || t->wrong)
        return NULL;
    Attrs *attrs = arena_alloc(&t->u->arena, sizeof *attrs + (n - 1) * sizeof attrs->at[0]);
    attrs->n = (uint32_t)(n - 1);
    for (uint64_t i = 0; i < n - 1 && !t->wrong; i++) {
        const char *key = keep_take_text(t);
        bool known = op->attrs != NULL;
        for (uint64_t k = 0; known && k <= i; k++)
            known = op->attrs[k].name != NULL;
        t->wrong |= !known || strcmp(op->attrs[i].name, key) != 0;
        attrs->at[i] = (Attr){.key = t->wrong ? "" : op->attrs[i].name};
        if (!t->wrong)
            attrs->at[i].value = take_attr(t, 0);
        attrs->at[i].span = keep_take_span(t);
        attrs->at[i].key_span = keep_take_span(t);
    }
    return attrs;
}

void keep_put_site(Writing *w, const OpSite *site)
{
    keep_put_text(w, site->op->name);
    keep_put(w, site->n);
    keep_put(w, site->last);
    keep_put(w, site->attrs ? site->attrs->n + 1 : 0);
    for (uint32_t i = 0; site->attrs && i < site->attrs->n; i++) {
        keep_put_text(w, site->attrs->at[i].key);
        put_attr(w, &site->attrs->at[i].value);
        keep_put_span(w, site->attrs->at[i].span);
        keep_put_span(w, site->attrs->at[i].key_span);
    }
    keep_put_type(w, site->result);
    keep_put_span(w, site->span);
}

const OpSite *keep_take_site(Taking *t)
{
    OpSite *site = arena_new(&t->u->arena, OpSite);
    site->op = op_find(t->u->jit->cx, str_of(keep_take_text(t)));
    t->wrong |= !site->op;
    site->n = (uint32_t)keep_take(t);
    site->last = keep_take(t) != 0;
    if (!t->wrong)
        site->attrs = take_attrs(t, site->op);
    if (!t->wrong)
        site->result = keep_take_type(t);
    site->span = keep_take_span(t);
    return t->wrong ? NULL : site;
}
