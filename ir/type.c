#include "ir/type.h"

#include "base/memory.h"
#include "ir/ctx.h"
#include "ir/dim.h"

#include <string.h>

Dim dim_symbol(Ctx *cx, DimSymbol symbol)
{
    for (size_t i = 0; i < cx->symbols.n; i++) {
        const DimSymbol *s = &cx->symbols.at[i];
        if (s->name == symbol.name && dtype_eq(s->dtype, symbol.dtype) &&
            s->is_size == symbol.is_size && s->ordinal == symbol.ordinal && s->op == symbol.op &&
            s->a == symbol.a && s->b == symbol.b)
            return INT64_MIN + (Dim)i;
    }
    vec_push(&cx->symbols, &cx->arena, symbol);
    return INT64_MIN + (Dim)cx->symbols.n - 1;
}

const DimSymbol *dim_symbol_get(const Ctx *cx, Dim dim)
{
    uint64_t at = (uint64_t)dim - (uint64_t)INT64_MIN;
    return dim_is_symbol(dim) && at < cx->symbols.n ? &cx->symbols.at[at] : NULL;
}

static uint32_t mix(uint32_t h, uint64_t v)
{
    uint64_t x = (h ^ v) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(x ^ (x >> 32));
}

static size_t n_parts(const Type *t)
{
    return t->kind == TYPE_TENSOR || t->kind == TYPE_HOLE ? 0 : t->n;
}

static uint32_t type_hash(const Type *t)
{
    uint32_t h = mix(t->kind, (uint64_t)t->n << 32 | t->n_params);
    switch ((TypeKind)t->kind) {
    case TYPE_TENSOR:
        h = mix(h, dtype_pack(t->dtype));
        for (uint32_t i = 0; i < t->n; i++)
            h = mix(h, (uint64_t)t->dims[i]);
        return h;
    case TYPE_FUNC:
        h = mix(h, (uintptr_t)t->result);
        for (uint32_t i = 0; i < t->n_params; i++)
            h = mix(h, (uintptr_t)t->params[i]);
        break;
    case TYPE_VAR: return mix(h, (uintptr_t)t->var);
    case TYPE_ADT: h = mix(h, (uintptr_t)t->def); break;
    case TYPE_TUPLE:
    case TYPE_REF:
    case TYPE_HOLE:
    case TYPE_POISON: break;
    }
    for (size_t i = 0; i < n_parts(t); i++)
        h = mix(h, (uintptr_t)t->parts[i]);
    return h;
}

static bool same_node(const Type *a, const Type *b)
{
    if (a->hash != b->hash || a->kind != b->kind || a->n != b->n || a->n_params != b->n_params)
        return false;
    switch ((TypeKind)a->kind) {
    case TYPE_TENSOR:
        return dtype_eq(a->dtype, b->dtype) &&
               (a->n == 0 || !memcmp(a->dims, b->dims, a->n * sizeof(Dim)));
    case TYPE_FUNC:
        if (a->result != b->result ||
            (a->n_params && memcmp(a->params, b->params, a->n_params * sizeof *a->params)))
            return false;
        break;
    case TYPE_VAR: return a->var == b->var;
    case TYPE_ADT:
        if (a->def != b->def)
            return false;
        break;
    case TYPE_TUPLE:
    case TYPE_REF:
    case TYPE_HOLE:
    case TYPE_POISON: break;
    }
    return n_parts(a) == 0 || !memcmp(a->parts, b->parts, n_parts(a) * sizeof *a->parts);
}

static void table_add(TypeTable *table, const Type *t)
{
    size_t k = t->hash & (table->cap - 1);
    while (table->slots[k])
        k = (k + 1) & (table->cap - 1);
    table->slots[k] = t;
    table->n++;
}

static bool table_grow(TypeTable *table)
{
    size_t cap = table->cap ? 2 * table->cap : 256;
    TypeTable now = {memory_zeroed(cap, sizeof *now.slots), 0, cap};
    if (!now.slots)
        return false;
    for (size_t i = 0; i < table->cap; i++)
        if (table->slots[i])
            table_add(&now, table->slots[i]);
    memory_free(table->slots);
    *table = now;
    return true;
}

void types_collect(Ctx *cx, void (*keep)(Ctx *cx))
{
    size_t size = cx->types.cap * sizeof *cx->types.slots;
    TypeTable now = {memory_try(size), 0, cx->types.cap};
    if (!now.slots || !type_heap_begin(&cx->heap)) {
        memory_free(now.slots);
        return;
    }
    memset(now.slots, 0, size);
    keep(cx);
    for (size_t i = 0; i < cx->types.cap; i++)
        if (cx->types.slots[i] && type_heap_kept(&cx->heap, cx->types.slots[i]))
            table_add(&now, cx->types.slots[i]);
    memory_free(cx->types.slots);
    cx->types = now;
    type_heap_end(&cx->heap);
}

/* Copies what the probe points to, which may lie on the caller's stack. */
static const Type *type_keep(Ctx *cx, const Type *probe)
{
    size_t dims = probe->kind == TYPE_TENSOR ? probe->n * sizeof(Dim) : 0,
           parts = n_parts(probe) * sizeof *probe->parts,
           params = probe->n_params * sizeof *probe->params,
           size = sizeof *probe + dims + parts + params;
    Type *t = probe->open ? arena_alloc_must(cx->open ? cx->open : &cx->arena, 1, size)
                          : type_heap_alloc(&cx->heap, size);
    *t = *probe;
    char *behind = (char *)(t + 1);
    if (t->kind == TYPE_TENSOR)
        t->dims = dims ? memcpy(behind, probe->dims, dims) : (const void *)behind;
    if (parts)
        t->parts = memcpy(behind, probe->parts, parts);
    if (params)
        t->params = memcpy(behind + parts, probe->params, params);
    return t;
}

/* Once for types that are made one from another. */
static const Type *too_deep(Ctx *cx)
{
    if (!cx->diags->last || cx->diags->last->code != E0121_TOO_DEEP)
        diag_error(cx->diags, E0121_TOO_DEEP, (Span){0},
                   "a type is nested more than %d levels deep", TYPE_DEPTH_MOST);
    return cx->poison;
}

static void type_contain(Type *t, const Type *part)
{
    if (part->depth >= t->depth)
        t->depth = (uint16_t)(part->depth + 1);
    t->open |= part->open;
    t->is_static &= part->is_static;
    t->has_unknown_extent |= part->has_unknown_extent;
}

static const Type *type_intern(Ctx *cx, Type *probe)
{
    probe->depth = 1;
    probe->open = probe->has_unknown_extent = false;
    for (uint32_t i = 0; probe->kind == TYPE_TENSOR && i < probe->n; i++)
        probe->has_unknown_extent |= probe->dims[i] < 0;
    probe->is_static =
        !probe->has_unknown_extent && probe->kind != TYPE_VAR && probe->n_params == 0;
    for (size_t i = 0; i < n_parts(probe); i++)
        type_contain(probe, probe->parts[i]);
    if (probe->kind == TYPE_FUNC)
        type_contain(probe, probe->result);
    if (probe->depth > TYPE_DEPTH_MOST)
        return too_deep(cx);
    if (probe->open)
        return type_keep(cx, probe);
    probe->hash = type_hash(probe);
    TypeTable *table = &cx->types;
    if (4 * (table->n + 1) > 3 * table->cap && !table_grow(table))
        return type_keep(cx, probe);
    size_t k = probe->hash & (table->cap - 1);
    for (; table->slots[k]; k = (k + 1) & (table->cap - 1))
        if (same_node(table->slots[k], probe))
            return table->slots[k];
    table->slots[k] = type_keep(cx, probe);
    table->n++;
    return table->slots[k];
}

const Type *type_tensor(Ctx *cx, DType dtype, uint32_t rank, const Dim *dims)
{
    Type t = {.kind = TYPE_TENSOR, .n = rank, .dims = dims, .dtype = dtype};
    return type_intern(cx, &t);
}

const Type *type_scalar(Ctx *cx, DType dtype)
{
    return type_tensor(cx, dtype, 0, NULL);
}

const Type *type_bool(Ctx *cx)
{
    if (!cx->boolean)
        cx->boolean = type_scalar(cx, dtype_of(DT_BOOL));
    return cx->boolean;
}

const Type *type_tuple(Ctx *cx, uint32_t n, const Type *const *fields)
{
    Type t = {.kind = TYPE_TUPLE, .n = n, .parts = fields};
    return type_intern(cx, &t);
}

const Type *type_unit(Ctx *cx)
{
    if (!cx->unit)
        cx->unit = type_tuple(cx, 0, NULL);
    return cx->unit;
}

const Type *type_func(Ctx *cx, uint32_t n_params, const TypeVar *const *params, uint32_t n,
                      const Type *const *args, const Type *result)
{
    Type t = {.kind = TYPE_FUNC,
              .n = n,
              .n_params = n_params,
              .parts = args,
              .result = result,
              .params = params};
    return type_intern(cx, &t);
}

const Type *type_ref(Ctx *cx, const Type *content)
{
    Type t = {.kind = TYPE_REF, .n = 1, .parts = &content};
    return type_intern(cx, &t);
}

const Type *type_var(Ctx *cx, const TypeVar *var)
{
    Type t = {.kind = TYPE_VAR, .var = var};
    return type_intern(cx, &t);
}

const Type *type_adt(Ctx *cx, const TypeDef *def, uint32_t n, const Type *const *args)
{
    Type t = {.kind = TYPE_ADT, .n = n, .parts = args, .def = def};
    return type_intern(cx, &t);
}

Type *type_hole(Ctx *cx, Span span)
{
    Type *t = arena_new(ctx_scratch(cx), Type);
    *t = (Type){.kind = TYPE_HOLE, .open = true, .depth = 1, .id = cx->holes++, .span = span};
    return t;
}

const Type *type_poison(Ctx *cx)
{
    if (!cx->poison) {
        Type *t = type_heap_alloc(&cx->heap, sizeof *t);
        *t = (Type){.kind = TYPE_POISON, .depth = 1};
        cx->poison = t;
    }
    return cx->poison;
}

const Type *type_of_tensor(Ctx *cx, const Tensor *t)
{
    return type_tensor(cx, t->dtype, (uint32_t)t->rank, t->shape);
}

const Type *type_of_constant(Ctx *cx, Value v)
{
    if (v.kind == VALUE_SCALAR)
        return type_scalar(cx, v.dtype);
    return v.kind == VALUE_TENSOR ? type_of_tensor(cx, v.tensor) : type_poison(cx);
}

const Type *type_of_constructor(Ctx *cx, const Constructor *con)
{
    const TypeDef *def = con->type;
    const Type **args = arena_new_array(ctx_scratch(cx), const Type *, def->n_params);
    for (uint32_t i = 0; i < def->n_params; i++)
        args[i] = type_var(cx, def->params[i]);
    return type_func(cx, def->n_params, def->params, con->n, con->fields,
                     type_adt(cx, def, def->n_params, args));
}

const Type *type_find(const Type *t)
{
    while (t->kind == TYPE_HOLE && t->bound)
        t = t->bound;
    return t;
}

/* A function over types from the leaves up. A type may be exponentially larger than what is stored, because parts are shared: beyond
 * some steps each node is looked at once. */
typedef struct Mapping Mapping;
struct Mapping {
    /* Whether `t` becomes *out as a whole; else its parts are mapped. May follow *t through a hole. */
    bool (*leaf)(Ctx *cx, const Mapping *m, const Type **t, const Type **out);
    uint32_t n;
    const TypeVar *const *vars;
    const Type *const *with;
    const PtrMap *defs;
    PtrMap done;
    uint32_t steps, depth;
};

#define STEPS_BEFORE_MEMO 100

static const Type *type_map(Ctx *cx, const Type *t, Mapping *m);

static const Type *map_parts(Ctx *cx, const Type *t, Mapping *m)
{
    /* Holes that were filled one in another nest deeper than the depth of their types tells. */
    if (m->depth > TYPE_DEPTH_MOST)
        return too_deep(cx);
    m->depth++;
    const Type *few[8];
    const Type **parts = t->n <= 8 ? few : arena_new_array(ctx_scratch(cx), const Type *, t->n);
    bool changed = false;
    for (uint32_t i = 0; i < t->n; i++) {
        parts[i] = type_map(cx, t->parts[i], m);
        changed |= parts[i] != t->parts[i];
    }
    Type probe = *t;
    probe.parts = parts;
    const TypeDef *def = t->kind == TYPE_ADT && m->defs ? ptrmap_find(m->defs, t->def) : NULL;
    if (def)
        probe.def = def;
    changed |= def != NULL;
    if (t->kind == TYPE_FUNC) {
        probe.result = type_map(cx, t->result, m);
        changed |= probe.result != t->result;
    }
    m->depth--;
    return changed ? type_intern(cx, &probe) : t;
}

static const Type *type_map(Ctx *cx, const Type *t, Mapping *m)
{
    const Type *out;
    if (m->leaf(cx, m, &t, &out))
        return out;
    if (t->kind == TYPE_TENSOR || t->kind == TYPE_VAR || t->kind == TYPE_HOLE ||
        t->kind == TYPE_POISON)
        return t;
    if (++m->steps < STEPS_BEFORE_MEMO)
        return map_parts(cx, t, m);
    out = ptrmap_find(&m->done, t);
    if (!out) {
        out = map_parts(cx, t, m);
        ptrmap_put(&m->done, t, (void *)(uintptr_t)out);
    }
    return out;
}

static const Type *type_mapped(Ctx *cx, const Type *t, Mapping m)
{
    const Type *out = type_map(cx, t, &m);
    ptrmap_deinit(&m.done);
    return out;
}

static bool resolve_leaf(Ctx *cx, const Mapping *m, const Type **t, const Type **out)
{
    (void)cx, (void)m;
    *t = *out = type_find(*t);
    return !(*t)->open || (*t)->kind == TYPE_HOLE;
}

const Type *type_resolve(Ctx *cx, const Type *t)
{
    return t->open ? type_mapped(cx, t, (Mapping){.leaf = resolve_leaf}) : t;
}

const Type *type_resolve_known(Ctx *cx, const Type *t, PtrMap *known)
{
    if (!t->open)
        return t;
    Mapping m = {.leaf = resolve_leaf, .done = *known, .steps = STEPS_BEFORE_MEMO};
    const Type *out = type_map(cx, t, &m);
    *known = m.done;
    return out;
}

static bool refresh_leaf(Ctx *cx, const Mapping *m, const Type **t, const Type **out)
{
    (void)m;
    *out = (*t)->kind == TYPE_HOLE ? type_hole(cx, (*t)->span) : *t;
    return !(*t)->open || (*t)->kind == TYPE_HOLE;
}

const Type *type_refresh(Ctx *cx, const Type *t)
{
    return t->open ? type_mapped(cx, t, (Mapping){.leaf = refresh_leaf}) : t;
}

/* Whether it holds of a type or one inside; each is asked once, however often it is used. */
typedef struct Search {
    bool (*holds)(const Type *t, const void *data);
    const void *data;
    PtrMap seen;
} Search;

static bool search(const Type *t, Search *s)
{
    t = type_find(t);
    if (s->holds(t, s->data))
        return true;
    bool leaf = n_parts(t) == 0 && t->kind != TYPE_FUNC;
    if (leaf || ptrmap_has(&s->seen, t))
        return false;
    ptrmap_put(&s->seen, t, NULL);
    bool found = t->kind == TYPE_FUNC && search(t->result, s);
    for (size_t i = 0; i < n_parts(t) && !found; i++)
        found = search(t->parts[i], s);
    return found;
}

static bool type_any(const Type *t, bool (*holds)(const Type *t, const void *data),
                     const void *data)
{
    Search s = {.holds = holds, .data = data};
    bool found = search(t, &s);
    ptrmap_deinit(&s.seen);
    return found;
}

/* Where the variable stands among those that are bound together, which mostly were made one after the other; n where it does not stand
 * there by its number. */
static uint32_t place_by_number(uint32_t n, const TypeVar *const *vars, const TypeVar *v)
{
    uint32_t at = n > 0 ? v->number - vars[0]->number : 0;
    return at < n && vars[at] == v ? at : n;
}

/* What stands for the variable; NULL: itself. */
static const Type *put_for(const Mapping *m, const TypeVar *v)
{
    uint32_t at = place_by_number(m->n, m->vars, v);
    if (at < m->n)
        return m->with[at];
    for (uint32_t i = 0; i < m->n; i++)
        if (m->vars[i] == v)
            return m->with[i];
    return NULL;
}

static bool binds(const Type *t, const TypeVar *v)
{
    for (uint32_t i = 0; t->kind == TYPE_FUNC && i < t->n_params; i++)
        if (t->params[i] == v)
            return true;
    return false;
}

/* By name: in a text that is all there is. */
static bool is_bound_by(const Type *t, const void *function)
{
    const Type *f = function;
    for (uint32_t i = 0; t->kind == TYPE_VAR && i < f->n_params; i++)
        if (f->params[i]->name == t->var->name)
            return true;
    return false;
}

static bool is_replaced(const Type *t, const void *mapping)
{
    return t->kind == TYPE_VAR && put_for(mapping, t->var);
}

static bool is_named(const Type *t, const void *name)
{
    return t->kind == TYPE_VAR && t->var->name == name;
}

static bool any_put(const Mapping *m, bool (*holds)(const Type *t, const void *data),
                    const void *data)
{
    for (uint32_t i = 0; i < m->n; i++)
        if (type_any(m->with[i], holds, data))
            return true;
    return false;
}

/* The same function type, whose variables are others than those of what is put in, and have other names. */
static const Type *rename_bound(Ctx *cx, const Mapping *m, const Type *t)
{
    const TypeVar **vars = arena_new_array(ctx_scratch(cx), const TypeVar *, t->n_params);
    const Type **with = arena_new_array(ctx_scratch(cx), const Type *, t->n_params);
    for (uint32_t i = 0; i < t->n_params; i++) {
        Buf text = {0};
        const Name *name = t->params[i]->name;
        for (buf_str(&text, name->text); any_put(m, is_named, name) && !text.failed;) {
            buf_str(&text, "_");
            name = ctx_name(cx, buf_text(&text));
        }
        buf_deinit(&text);
        vars[i] = typevar_new(cx, name, t->params[i]->span);
        with[i] = type_var(cx, vars[i]);
    }
    return type_func_with(cx, t, with, t->n_params, vars);
}

/* A function type that binds a variable again, as one that was put into itself: inside it is another. And one that binds a variable of what
 * is put in would take that for its own, unless its variables were others. */
static bool subst_beneath(Ctx *cx, const Mapping *m, const Type *t, const Type **out)
{
    bool again = false;
    for (uint32_t i = 0; i < t->n_params && !again; i++)
        again = put_for(m, t->params[i]) != NULL;
    if (!again && (!any_put(m, is_bound_by, t) || !type_any(t, is_replaced, m)))
        return false;
    const TypeVar **vars = arena_new_array(ctx_scratch(cx), const TypeVar *, m->n);
    const Type **with = arena_new_array(ctx_scratch(cx), const Type *, m->n);
    Mapping rest = {.leaf = m->leaf, .vars = vars, .with = with, .depth = m->depth};
    for (uint32_t i = 0; i < m->n; i++)
        if (!binds(t, m->vars[i])) {
            vars[rest.n] = m->vars[i];
            with[rest.n++] = m->with[i];
        }
    *out = !rest.n ? t : type_mapped(cx, again ? t : rename_bound(cx, &rest, t), rest);
    return true;
}

static bool subst_leaf(Ctx *cx, const Mapping *m, const Type **t, const Type **out)
{
    *t = *out = type_find(*t);
    if ((*t)->kind == TYPE_FUNC && (*t)->n_params)
        return subst_beneath(cx, m, *t, out);
    const Type *with = (*t)->kind == TYPE_VAR ? put_for(m, (*t)->var) : NULL;
    if (with)
        *out = with;
    return (*t)->kind == TYPE_VAR;
}

const Type *type_subst(Ctx *cx, const Type *t, uint32_t n, const TypeVar *const *vars,
                       const Type *const *with)
{
    return n ? type_mapped(cx, t, (Mapping){.leaf = subst_leaf, .n = n, .vars = vars, .with = with})
             : t;
}

const Type *type_func_with(Ctx *cx, const Type *f, const Type *const *with, uint32_t n,
                           const TypeVar *const *params)
{
    const Type **parts = arena_new_array(ctx_scratch(cx), const Type *, f->n);
    for (uint32_t i = 0; i < f->n; i++)
        parts[i] = type_subst(cx, f->parts[i], f->n_params, f->params, with);
    return type_func(cx, n, params, f->n, parts,
                     type_subst(cx, f->result, f->n_params, f->params, with));
}

static bool defs_leaf(Ctx *cx, const Mapping *m, const Type **t, const Type **out)
{
    (void)cx, (void)m;
    *t = *out = type_find(*t);
    return false;
}

const Type *type_with_defs(Ctx *cx, const Type *t, const PtrMap *defs)
{
    return type_mapped(cx, t, (Mapping){.leaf = defs_leaf, .defs = defs});
}

static bool is_of_def(const Type *t, const void *defs)
{
    return t->kind == TYPE_ADT && ptrmap_has(defs, t->def);
}

bool type_mentions(const Type *t, const PtrMap *defs)
{
    return type_any(t, is_of_def, defs);
}

bool type_is_poison(const Type *t)
{
    return type_find(t)->kind == TYPE_POISON;
}

bool type_is_scalar(const Type *t, DType dtype)
{
    t = type_find(t);
    return t->kind == TYPE_TENSOR && t->n == 0 && dtype_eq(t->dtype, dtype);
}

static bool is_hole(const Type *t, const void *none)
{
    (void)none;
    return t->kind == TYPE_HOLE;
}

bool type_is_found(const Type *t)
{
    return !t->open || !type_any(t, is_hole, NULL);
}

/* What an open type says of itself leaves out what its holes are bound to. */
static bool is_not_static(const Type *t, const void *none)
{
    (void)none;
    return t->open ? t->kind == TYPE_HOLE || t->n_params : !t->is_static;
}

bool type_is_static(const Type *t)
{
    t = type_find(t);
    return t->open ? !type_any(t, is_not_static, NULL) : t->is_static;
}

static bool is_of_unknown_extent(const Type *t, const void *none)
{
    (void)none;
    return t->has_unknown_extent;
}

bool type_has_unknown_extent(const Type *t)
{
    t = type_find(t);
    return t->open ? type_any(t, is_of_unknown_extent, NULL) : t->has_unknown_extent;
}

/* Bound type variables of both sides, paired from the outside in. */
typedef struct Pairs {
    const Type *a, *b;
    const struct Pairs *outer;
    const struct PtrMap *defs;
    bool by_name;
} Pairs;

static bool defs_pair(const TypeDef *a, const TypeDef *b, const Pairs *pairs)
{
    const TypeDef *mapped = pairs && pairs->defs ? ptrmap_find(pairs->defs, a) : NULL;
    return (mapped ? mapped : a) == b;
}

static bool vars_pair(const TypeVar *a, const TypeVar *b, const Pairs *pairs)
{
    bool by_name = false;
    for (; pairs; pairs = pairs->outer) {
        uint32_t n = pairs->a->n_params, at = place_by_number(n, pairs->a->params, a);
        if (at < n && at == place_by_number(n, pairs->b->params, b))
            return true;
        for (uint32_t i = n; i-- > 0;)
            if (pairs->a->params[i] == a || pairs->b->params[i] == b)
                return pairs->a->params[i] == a && pairs->b->params[i] == b;
        by_name = pairs->by_name;
    }
    return a == b || (by_name && a->name == b->name);
}

/* A comparison: beyond some steps each type outside of binders is compared once. */
typedef struct Equality {
    const Pairs *outer;
    PtrMap seen; /* type -> the equal one */
    uint32_t steps;
} Equality;

static bool equal_in(Equality *q, const Type *a, const Type *b, const Pairs *pairs);

static bool equal_parts(Equality *q, const Type *a, const Type *b, const Pairs *pairs)
{
    bool seen = pairs == q->outer && ++q->steps > STEPS_BEFORE_MEMO;
    if (seen && ptrmap_find(&q->seen, a) == b)
        return true;
    Pairs inner = {a, b, pairs, pairs ? pairs->defs : NULL, pairs && pairs->by_name};
    if (a->kind == TYPE_FUNC && a->n_params)
        pairs = &inner;
    if (a->kind == TYPE_FUNC && !equal_in(q, a->result, b->result, pairs))
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (!equal_in(q, a->parts[i], b->parts[i], pairs))
            return false;
    if (seen)
        ptrmap_put(&q->seen, a, (void *)(uintptr_t)b);
    return true;
}

static bool equal_in(Equality *q, const Type *a, const Type *b, const Pairs *pairs)
{
    a = type_find(a);
    b = type_find(b);
    if (a == b && !pairs)
        return true;
    if (a->kind != b->kind || a->n != b->n || a->n_params != b->n_params)
        return false;
    switch ((TypeKind)a->kind) {
    case TYPE_TENSOR:
        return dtype_eq(a->dtype, b->dtype) &&
               (a->n == 0 || !memcmp(a->dims, b->dims, a->n * sizeof(Dim)));
    case TYPE_VAR: return vars_pair(a->var, b->var, pairs);
    case TYPE_HOLE: return a == b || (pairs && pairs->defs); /* of two programs */
    case TYPE_POISON: return true;
    case TYPE_ADT: return defs_pair(a->def, b->def, pairs) && equal_parts(q, a, b, pairs);
    case TYPE_FUNC:
    case TYPE_TUPLE:
    case TYPE_REF: break;
    }
    return equal_parts(q, a, b, pairs);
}

static bool equal(const Type *a, const Type *b, const Pairs *pairs)
{
    Equality q = {.outer = pairs};
    bool same = equal_in(&q, a, b, pairs);
    ptrmap_deinit(&q.seen);
    return same;
}

bool type_equal(const Type *a, const Type *b)
{
    return a == b || equal(a, b, NULL);
}

bool type_equal_under(const Type *a, const Type *b, const TypeBijection *under)
{
    Type binder_a = {.kind = TYPE_FUNC, .n_params = under->n, .params = under->a};
    Type binder_b = {.kind = TYPE_FUNC, .n_params = under->n, .params = under->b};
    Pairs pairs = {&binder_a, &binder_b, NULL, under->defs, under->by_name};
    return equal(a, b, under->n || under->defs ? &pairs : NULL);
}

/* A type may be exponentially larger than what is stored, because parts are shared: its text ends with `...` where the buffer
 * reaches a length. */
#define TYPE_TEXT_MOST ((size_t)256 << 10)
#define TYPE_TEXT_MOST_IN_MESSAGE 1000

/* A type parameter that has another name in the text. */
typedef struct Called {
    const TypeVar *var;
    char *name;
    const struct Called *outer;
} Called;

typedef struct TypeText {
    size_t end; /* of the buffer: what lies behind is left out */
    TypeStyle style;
    const Called *called;
} TypeText;

static const char *called(const TypeText *x, const TypeVar *v)
{
    for (const Called *c = x->called; c; c = c->outer)
        if (c->var == v)
            return c->name;
    return x->style.var ? x->style.var(x->style.data, v) : v->name->text;
}

/* What a function type says of type parameters that are not its own, beside those that are. */
typedef struct Clash {
    const TypeText *x;
    PtrMap params, names; /* its own */
    const char *name; /* that one of them could have */
} Clash;

static bool is_of_another(const Clash *c, const Type *t)
{
    return t->kind == TYPE_VAR && !ptrmap_has(&c->params, t->var);
}

static bool may_clash(const Type *t, const void *data)
{
    const Clash *c = data;
    return is_of_another(c, t) &&
           (ptrmap_has(&c->names, t->var->name) || called(c->x, t->var) != t->var->name->text);
}

static bool is_called_so(const Type *t, const void *data)
{
    const Clash *c = data;
    return is_of_another(c, t) && strcmp(called(c->x, t->var), c->name) == 0;
}

/* A name that stands for no other one in the text; NULL: its own. */
static char *other_name(Clash *c, const Type *t, const TypeVar *v)
{
    Buf name = {0};
    c->name = v->name->text;
    for (unsigned i = 1; type_any(t, is_called_so, c) && !name.failed; i++) {
        buf_clear(&name);
        buf_printf(&name, "%s%u", v->name->text, i);
        c->name = buf_text(&name);
    }
    char *other = name.n && !name.failed ? memory_try(name.n + 1) : NULL;
    if (other)
        memcpy(other, buf_text(&name), name.n + 1);
    buf_deinit(&name);
    return other;
}

/* The function's parameters that have other names, the last of them; `room` is for all. */
static const Called *rename_params(const TypeText *x, const Type *t, Called *room)
{
    Clash c = {.x = x};
    const Called *last = x->called;
    for (uint32_t i = 0; i < t->n_params; i++) {
        ptrmap_put(&c.params, t->params[i], room);
        ptrmap_put(&c.names, t->params[i]->name, room);
    }
    bool any = type_any(t, may_clash, &c);
    for (uint32_t i = 0; i < t->n_params && any; i++) {
        char *name = other_name(&c, t, t->params[i]);
        if (name) {
            room[i] = (Called){t->params[i], name, last};
            last = &room[i];
        }
    }
    ptrmap_deinit(&c.params);
    ptrmap_deinit(&c.names);
    return last;
}

static void print_type(Buf *b, const Type *t, const TypeText *end);

static void print_list(Buf *b, uint32_t n, const Type *const *parts, const TypeText *end)
{
    bool whole = true;
    for (uint32_t i = 0; i < n && whole; i++) {
        buf_str(b, i ? ", " : "");
        whole = b->n < end->end;
        print_type(b, parts[i], end);
    }
}

static void print_tensor(Buf *b, const Type *t, const TypeStyle *style)
{
    if (t->n == 0) {
        dtype_print(b, t->dtype);
        return;
    }
    buf_str(b, "Tensor[(");
    for (uint32_t i = 0; i < t->n; i++) {
        buf_str(b, i ? ", " : "");
        if (dim_is_symbol(t->dims[i]) && style->extent)
            style->extent(style->data, b, t->dims[i]);
        else if (t->dims[i] < 0)
            buf_char(b, '?');
        else
            buf_int(b, t->dims[i]);
    }
    buf_str(b, "), ");
    dtype_print(b, t->dtype);
    buf_char(b, ']');
}

static void print_func(Buf *b, const Type *t, const TypeText *end)
{
    TypeText inside = *end;
    Called *room = t->n_params ? memory_zeroed(t->n_params, sizeof *room) : NULL;
    b->failed |= t->n_params && !room;
    if (room)
        inside.called = rename_params(end, t, room);
    buf_str(b, "fn ");
    for (uint32_t i = 0; i < t->n_params; i++)
        buf_printf(b, "%s%s", i ? ", " : "[", called(&inside, t->params[i]));
    buf_str(b, t->n_params ? "](" : "(");
    print_list(b, t->n, t->parts, &inside);
    buf_str(b, ") -> ");
    print_type(b, t->result, &inside);
    for (uint32_t i = 0; i < t->n_params && room; i++)
        memory_free(room[i].name);
    memory_free(room);
}

static void print_type(Buf *b, const Type *t, const TypeText *end)
{
    if (b->n >= end->end) {
        buf_str(b, "...");
        return;
    }
    t = type_find(t);
    switch ((TypeKind)t->kind) {
    case TYPE_TENSOR: print_tensor(b, t, &end->style); return;
    case TYPE_TUPLE:
        buf_char(b, '(');
        print_list(b, t->n, t->parts, end);
        buf_str(b, t->n == 1 ? ",)" : ")");
        return;
    case TYPE_FUNC: print_func(b, t, end); return;
    case TYPE_REF:
        buf_str(b, "ref(");
        print_type(b, t->parts[0], end);
        buf_char(b, ')');
        return;
    case TYPE_VAR: buf_str(b, called(end, t->var)); return;
    case TYPE_ADT:
        buf_str(b, t->def->name->text);
        buf_char(b, '[');
        print_list(b, t->n, t->parts, end);
        buf_char(b, ']');
        return;
    case TYPE_HOLE:
    case TYPE_POISON: buf_char(b, '_'); return;
    }
}

bool type_print_as(Buf *b, const Type *t, TypeStyle style)
{
    size_t end = b->n + TYPE_TEXT_MOST;
    print_type(b, t, &(TypeText){end, style, NULL});
    return b->n <= end;
}

void type_print(Buf *b, const Type *t)
{
    type_print_as(b, t, (TypeStyle){0});
}

/* In messages a symbolic extent is called by its name. */
static void name_extent(void *data, Buf *b, Dim symbol)
{
    dim_print(b, data, symbol);
}

const char *type_str(Ctx *cx, const Type *t)
{
    Buf b = {0};
    print_type(&b, t, &(TypeText){TYPE_TEXT_MOST_IN_MESSAGE, {name_extent, NULL, cx}, NULL});
    return buf_keep(&b, &cx->own_diags.arena);
}
