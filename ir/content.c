#include "ir/content.h"

#include "ir/ctx.h"
#include "ir/walk.h"

#include <string.h>

typedef struct Reading {
    Content *c;
    const Module *m;
    Digest d;
    PtrMap numbers; /* node, type, type variable, data type, definition's name -> its number + 1 */
    PtrMap sources; /* source -> position + 1 */
    PtrMap symbols; /* symbolic extent -> its number + 1 */
    Vec(Expr *) later; /* expressions in attributes */
    bool found; /* of the node that `skip_known` looks at */
} Reading;

static void add_word(Reading *r, uint64_t v)
{
    digest_word(&r->d, v);
}

static void add_bytes(Reading *r, const char *text, size_t n)
{
    add_word(r, n);
    digest_add(&r->d, text, n);
}

static void add_name(Reading *r, const Name *name)
{
    add_bytes(r, name ? name->text : "", name ? name->len : 0);
}

/* The thing's number; true when it was not met before, and what it is follows. */
static bool is_new(Reading *r, const void *thing)
{
    void **slot = ptrmap_slot(&r->numbers, thing);
    bool new = !*slot;
    if (new)
        *slot = (void *)(uintptr_t)r->numbers.n;
    add_word(r, (uintptr_t)*slot << 1 | new);
    return new;
}

static void add_span(Reading *r, Span span)
{
    if (!span.source) {
        add_word(r, 0);
        return;
    }
    void **slot = ptrmap_slot(&r->sources, (const void *)(uintptr_t)span.source);
    if (!*slot) {
        vec_push(&r->c->sources, &r->c->arena, span.source);
        *slot = (void *)(uintptr_t)r->c->sources.n;
    }
    add_word(r, (uintptr_t)*slot);
    add_word(r, (uint64_t)span.from << 32 | span.to);
}

/* ---- types ------------------------------------------------------------------------------------------------------------------ */

/* Arithmetic on symbolic extents nests no deeper than the text that it was written in, or a relation made it of such. */
static void add_dim(Reading *r, Dim dim)
{
    const DimSymbol *s = dim_is_symbol(dim) ? dim_symbol_get(r->m->cx, dim) : NULL;
    void **slot = s ? ptrmap_slot(&r->symbols, s) : NULL;
    if (!s) {
        add_word(r, (uint64_t)dim);
        return;
    }
    bool new = !*slot;
    if (new)
        *slot = (void *)(uintptr_t)r->symbols.n;
    add_word(r, (uintptr_t)*slot);
    if (!new)
        return;
    add_name(r, s->name);
    add_word(r, s->op);
    if (!s->name) {
        add_dim(r, s->a);
        add_dim(r, s->b);
    }
}

static void add_type(Reading *r, const Type *t);

static void add_def(Reading *r, const TypeDef *def)
{
    if (!is_new(r, def))
        return;
    vec_push(&r->c->types, &r->c->arena, def);
    add_name(r, def->name);
    add_word(r, def->n_params);
    for (uint32_t i = 0; i < def->n_params; i++)
        is_new(r, def->params[i]);
    add_word(r, def->n_cons);
    for (uint32_t i = 0; i < def->n_cons; i++) {
        add_name(r, def->cons[i]->name);
        add_word(r, def->cons[i]->n);
        for (uint32_t k = 0; k < def->cons[i]->n; k++)
            add_type(r, def->cons[i]->fields[k]);
    }
}

static void add_var_of_type(Reading *r, const TypeVar *v)
{
    if (is_new(r, v) && v->op)
        add_bytes(r, v->op->name, strlen(v->op->name));
}

static void add_type(Reading *r, const Type *t)
{
    t = t ? type_find(t) : NULL;
    if (!t) {
        add_word(r, 0);
        return;
    }
    if (!is_new(r, t))
        return;
    add_word(r, t->kind);
    add_word(r, t->n);
    switch ((TypeKind)t->kind) {
    case TYPE_TENSOR:
        add_word(r, dtype_pack(t->dtype));
        for (uint32_t i = 0; i < t->n; i++)
            add_dim(r, t->dims[i]);
        return;
    case TYPE_FUNC:
        add_word(r, t->n_params);
        for (uint32_t i = 0; i < t->n_params; i++)
            add_var_of_type(r, t->params[i]);
        add_type(r, t->result);
        break;
    case TYPE_ADT: add_def(r, t->def); break;
    case TYPE_VAR: add_var_of_type(r, t->var); return;
    case TYPE_TUPLE:
    case TYPE_REF: break;
    case TYPE_HOLE:
    case TYPE_POISON: return;
    }
    for (uint32_t i = 0; i < t->n; i++)
        add_type(r, t->parts[i]);
}

/* ---- values and attributes -------------------------------------------------------------------------------------------------- */

static void add_value(Reading *r, const Value *v)
{
    TensorView view;
    add_word(r, v->kind);
    if (!value_view(v, &view))
        return;
    const Tensor *t = &view.t;
    size_t size = dtype_size(t->dtype);
    add_word(r, dtype_pack(t->dtype));
    add_word(r, (uint64_t)t->rank);
    for (int32_t i = 0; i < t->rank; i++)
        add_word(r, (uint64_t)t->shape[i]);
    if (tensor_is_contiguous(t))
        digest_add(&r->d, t->data, (size_t)t->size * size);
    for (int64_t i = 0; i < t->size && !tensor_is_contiguous(t); i++)
        digest_add(&r->d, tensor_element(t, i), size);
}

static void add_attrs(Reading *r, const Attrs *attrs);

/* Lists nest as deep as the parser lets them. */
static void add_attr(Reading *r, const AttrValue *v)
{
    add_word(r, v->kind);
    add_word(r, dtype_pack(v->dtype));
    switch (v->kind) {
    case ATTR_NONE: break;
    case ATTR_INT: add_word(r, (uint64_t)v->i); break;
    case ATTR_FLOAT: digest_add(&r->d, &v->f, sizeof v->f); break;
    case ATTR_BOOL: add_word(r, v->b); break;
    case ATTR_STRING:
    case ATTR_TEXT: add_bytes(r, v->s.ptr, v->s.len); break;
    case ATTR_LIST:
        add_word(r, v->list.n);
        for (uint32_t i = 0; i < v->list.n; i++)
            add_attr(r, &v->list.at[i]);
        break;
    case ATTR_RECORD:
        add_bytes(r, v->record.key, strlen(v->record.key));
        add_attrs(r, v->record.fields);
        break;
    case ATTR_EXPR: vec_push(&r->later, &r->c->arena, v->e); break;
    }
}

static void add_attrs(Reading *r, const Attrs *attrs)
{
    add_word(r, attrs ? attrs->n + 1 : 0);
    for (uint32_t i = 0; attrs && i < attrs->n; i++) {
        add_bytes(r, attrs->at[i].key, strlen(attrs->at[i].key));
        add_attr(r, &attrs->at[i].value);
    }
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------------- */

static void add_var(Reading *r, const Var *v)
{
    if (!is_new(r, v))
        return;
    add_name(r, v->name);
    add_span(r, v->base.span);
    add_type(r, v->base.type);
    add_attrs(r, v->attrs);
}

static void add_con(Reading *r, const Constructor *con)
{
    add_def(r, con->type);
    add_word(r, con->index);
}

/* Patterns nest as deep as the parser lets them. */
static void add_pattern(Reading *r, const Pattern *p)
{
    add_word(r, p->kind);
    add_word(r, p->n);
    if (p->var)
        add_var(r, p->var);
    if (p->con)
        add_con(r, p->con);
    for (uint32_t i = 0; i < p->n; i++)
        add_pattern(r, p->fields[i]);
}

static void add_clause(Reading *r, Clause c)
{
    add_pattern(r, c.pattern);
}

static void add_global(Reading *r, const Name *name)
{
    const Def *def = module_find(r->m, name);
    add_name(r, name);
    if (def && def->fn && is_new(r, name))
        vec_push(&r->c->defs, &r->c->arena, def);
}

/* A list's length and what stands in it. */
#define ADD_LIST(List, add)                                \
    do {                                                   \
        const List *list = (const List *)(const void *)at; \
        add_word(r, list->n);                              \
        for (uint32_t i = 0; i < list->n; i++)             \
            add(r, list->at[i]);                           \
    } while (0)

static void add_field(Reading *r, const Expr *e, const NodeField *f)
{
    const char *at = (const char *)e + f->offset;
    switch (f->kind) {
    case FIELD_BINDER: add_var(r, *(const Var *const *)at); break;
    case FIELD_BINDERS: ADD_LIST(VarList, add_var); break;
    case FIELD_TYPE: add_type(r, *(const Type *const *)at); break;
    case FIELD_TYPES: ADD_LIST(TypeList, add_type); break;
    case FIELD_TYPEVARS: ADD_LIST(TypeVarList, add_var_of_type); break;
    case FIELD_ATTRS: add_attrs(r, *(const Attrs *const *)at); break;
    case FIELD_CLAUSES: ADD_LIST(ClauseList, add_clause); break;
    case FIELD_VALUE: add_value(r, (const Value *)(const void *)at); break;
    case FIELD_NAME: add_global(r, *(const Name *const *)at); break;
    case FIELD_INT: add_word(r, (uint64_t)*(const int64_t *)(const void *)at); break;
    case FIELD_BOOL: add_word(r, *(const bool *)at); break;
    case FIELD_OP: {
        const Op *op = *(const Op *const *)at;
        add_bytes(r, op->name, strlen(op->name));
        break;
    }
    case FIELD_CON: add_con(r, *(const Constructor *const *)at); break;
    case FIELD_EXPR:
    case FIELD_EXPRS: break;
    }
}

static void add_child(void *data, Expr *const *slot)
{
    Reading *r = data;
    if (expr_as_var(*slot))
        add_var(r, expr_as_var(*slot));
    else
        add_word(r, (uintptr_t)ptrmap_find(&r->numbers, *slot));
}

static WalkNext skip_known(void *data, const Expr *e)
{
    Reading *r = data;
    return e->kind == EXPR_VAR || ptrmap_has(&r->numbers, e) ? WALK_SKIP : WALK_ON;
}

static WalkNext add_node(void *data, const Expr *e)
{
    Reading *r = data;
    const NodeInfo *info = node_info((ExprKind)e->kind);
    is_new(r, e);
    add_word(r, e->kind);
    add_span(r, e->span);
    add_type(r, e->type);
    for (int i = 0; i < info->n; i++)
        add_field(r, e, &info->fields[i]);
    ir_children(e, add_child, r);
    return WALK_ON;
}

static void add_root(Reading *r, const Expr *e)
{
    ir_walk(e, skip_known, add_node, r);
    add_child(r, &(Expr *){(Expr *)(uintptr_t)e});
    while (r->later.n) {
        Expr *next = vec_pop(&r->later);
        add_root(r, next);
    }
}

void content_init(Content *c, const Module *m, const Def *def, const Buf *how)
{
    Reading r = {.c = c, .m = m};
    *c = (Content){0};
    arena_init(&c->arena, NULL);
    digest_begin(&r.d);
    if (how)
        add_bytes(&r, how->at, how->n);
    add_global(&r, def->name);
    for (size_t i = 0; i < c->defs.n; i++) {
        add_name(&r, c->defs.at[i]->name);
        add_root(&r, &c->defs.at[i]->fn->base);
    }
    ptrmap_deinit(&r.numbers);
    ptrmap_deinit(&r.sources);
    ptrmap_deinit(&r.symbols);
    digest_end(&r.d, c->key);
}

void content_deinit(Content *c)
{
    arena_deinit(&c->arena);
}

void content_key_with(const Content *c, const char *text, uint64_t out[2])
{
    Digest d;
    digest_begin(&d);
    digest_add(&d, c->key, sizeof c->key);
    digest_add(&d, text, strlen(text));
    digest_end(&d, out);
}
