/* The structural hash: nodes in the order of the walk, children by the number of their first visit. */
#include "base/vec.h"
#include "ir/ctx.h"
#include "ir/equal.h"
#include "ir/walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Hash {
    Arena arena;
    PtrMap numbers; /* node -> its number + 1 */
    Vec(Expr *) later; /* expressions in attributes */
    uint64_t h;
} Hash;

static void hash_word(Hash *hs, uint64_t v)
{
    hs->h = hash_bytes(&v, sizeof v, hs->h);
}

static void hash_text(Hash *hs, const char *text)
{
    hs->h = hash_bytes(text, strlen(text), hs->h);
}

/* Text knows one NaN. */
static void hash_value(Hash *hs, const Value *v)
{
    TensorView view;
    if (!value_view(v, &view))
        return;
    hash_word(hs, (uint64_t)view.t.size << 8 | view.t.dtype.bits);
    if (v->kind == VALUE_SCALAR && isnan(value_as_double(*v)))
        return;
    size_t size = dtype_size(view.t.dtype);
    for (int64_t i = 0; i < view.t.size; i++)
        hs->h = hash_bytes(tensor_element(&view.t, i), size, hs->h);
}

/* ---- attributes: their order does not count ------------------------------------------------------------------------------- */

static uint64_t hash_entries(const Attrs *attrs);

/* An expression is walked by itself. Lists nest as deep as the parser lets them. */
static uint64_t hash_attr(const AttrValue *v, uint64_t h)
{
    switch (v->kind) {
    case ATTR_NONE:
    case ATTR_EXPR: break;
    case ATTR_INT: return hash_bytes(&v->i, sizeof v->i, h);
    case ATTR_FLOAT: return hash_bytes(&v->f, sizeof v->f, h);
    case ATTR_BOOL: return hash_bytes(&v->b, sizeof v->b, h);
    case ATTR_STRING:
    case ATTR_TEXT: return hash_bytes(v->s.ptr, v->s.len, h);
    case ATTR_LIST:
        for (uint32_t i = 0; i < v->list.n; i++)
            h = hash_attr(&v->list.at[i], h + v->list.at[i].kind);
        return h;
    case ATTR_RECORD:
        return hash_entries(v->record.fields) + hash_bytes(v->record.key, strlen(v->record.key), h);
    }
    return h + 1;
}

static uint64_t hash_entries(const Attrs *attrs)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; attrs && i < attrs->n; i++) {
        const Attr *a = &attrs->at[i];
        sum += hash_attr(&a->value, hash_bytes(a->key, strlen(a->key), a->value.kind));
    }
    return sum;
}

static void note_later(void *data, Expr *e)
{
    Hash *hs = data;
    vec_push(&hs->later, &hs->arena, e);
}

static int by_key(const void *a, const void *b)
{
    return strcmp((*(const Attr *const *)a)->key, (*(const Attr *const *)b)->key);
}

/* The expressions of a record in an order that does not depend on how it is written. */
static void note_exprs(Hash *hs, const Attrs *attrs)
{
    size_t before = hs->later.n;
    attrs_exprs(attrs, note_later, hs);
    if (hs->later.n <= before + 1)
        return;
    hs->later.n = before;
    const Attr **sorted = arena_alloc_must(&hs->arena, attrs->n, sizeof *sorted);
    for (uint32_t i = 0; i < attrs->n; i++)
        sorted[i] = &attrs->at[i];
    qsort(sorted, attrs->n, sizeof *sorted, by_key);
    for (uint32_t i = 0; i < attrs->n; i++)
        attr_value_exprs(&sorted[i]->value, note_later, hs);
}

/* ---- nodes ----------------------------------------------------------------------------------------------------------------- */

static void hash_field(Hash *hs, const Expr *e, const NodeField *f)
{
    const char *at = (const char *)e + f->offset;
    if (f->kind == FIELD_OP)
        hash_text(hs, (*(const Op *const *)at)->name);
    else if (f->kind == FIELD_CON)
        hash_text(hs, (*(const Constructor *const *)at)->name->text);
    else if (f->kind == FIELD_NAME && e->kind == EXPR_GLOBAL)
        hash_text(hs, (*(const Name *const *)at)->text);
    else if (f->kind == FIELD_INT)
        hash_word(hs, (uint64_t)*(const int64_t *)at);
    else if (f->kind == FIELD_VALUE)
        hash_value(hs, (const Value *)at);
    else if (f->kind == FIELD_ATTRS && e->kind != EXPR_VAR)
        hash_word(hs, hash_entries(*(const Attrs *const *)at));
}

/* Everything but the children. */
static void hash_fields(Hash *hs, const Expr *e)
{
    const NodeInfo *info = node_info((ExprKind)e->kind);
    hash_word(hs, e->kind);
    for (int i = 0; i < info->n; i++)
        hash_field(hs, e, &info->fields[i]);
}

static void hash_child(void *data, Expr *const *slot)
{
    Hash *hs = data;
    if (ir_has_identity(*slot))
        hash_word(hs, (uintptr_t)ptrmap_find(&hs->numbers, *slot));
    else
        hash_fields(hs, *slot);
}

static WalkNext skip_known(void *data, const Expr *e)
{
    Hash *hs = data;
    return ir_has_identity(e) && !ptrmap_has(&hs->numbers, e) ? WALK_ON : WALK_SKIP;
}

static WalkNext hash_node(void *data, const Expr *e)
{
    Hash *hs = data;
    const Call *call = expr_as_call(e);
    hash_fields(hs, e);
    ir_children(e, hash_child, hs);
    if (call)
        note_exprs(hs, call->attrs);
    ptrmap_put(&hs->numbers, e, (void *)(uintptr_t)(hs->numbers.n + 1));
    return WALK_ON;
}

static void hash_root(Hash *hs, const Expr *e)
{
    ir_walk(e, skip_known, hash_node, hs);
    hash_child(hs, &(Expr *){(Expr *)(uintptr_t)e});
}

uint64_t ir_hash(const Expr *e)
{
    Hash hs = {.h = 1};
    arena_init(&hs.arena, NULL);
    hash_root(&hs, e);
    for (size_t i = 0; i < hs.later.n; i++)
        hash_root(&hs, hs.later.at[i]);
    ptrmap_deinit(&hs.numbers);
    arena_deinit(&hs.arena);
    return hs.h;
}

uint64_t ir_module_hash(const Module *m)
{
    Arena arena;
    Hash hs = {.h = m->expr ? ir_hash(m->expr) : 2};
    arena_init(&arena, NULL);
    const Def **defs = arena_alloc_must(&arena, m->defs.n, sizeof *defs);
    size_t n = module_sorted_defs(m, defs, false);
    for (size_t i = 0; i < n; i++) {
        hash_text(&hs, defs[i]->name->text);
        hash_word(&hs, ir_hash(&defs[i]->fn->base));
    }
    arena_deinit(&arena);
    return hs.h;
}
