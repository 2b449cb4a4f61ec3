#include "ir/ctx.h"

#include "base/memory.h"

#include <string.h>

bool ctx_init(Ctx *cx, const OpTable *ops)
{
    *cx = (Ctx){.ops = ops};
    limits_init(&cx->limits, NULL);
    diags_init(&cx->own_diags, NULL);
    cx->diags = &cx->own_diags;
    cx->limits.diags = cx->diags;
    arena_init(&cx->arena, &cx->limits);
    type_heap_init(&cx->heap, &cx->limits);
    interner_init(&cx->names, &cx->arena);
    sources_init(&cx->sources);
    cx->blas = blas_new(1, &cx->limits);
    type_poison(cx);
    type_unit(cx);
    type_bool(cx);
    return cx->blas != NULL && cx->poison && cx->unit && cx->boolean;
}

void ctx_deinit(Ctx *cx)
{
    pool_free(cx->pool);
    blas_free(cx->blas);
    ptrmap_deinit(&cx->op_index);
    ptrmap_deinit(&cx->op_types);
    ptrmap_deinit(&cx->rules);
    ptrmap_deinit(&cx->stand_ins);
    ptrmap_deinit(&cx->con_infos);
    interner_deinit(&cx->names);
    memory_free(cx->types.slots);
    type_heap_deinit(&cx->heap);
    arena_deinit(&cx->arena);
    sources_deinit(&cx->sources);
    diags_deinit(&cx->own_diags);
    limits_deinit(&cx->limits);
}

void attempt_begin(Attempt *a, Ctx *cx)
{
    a->before = cx->diags;
    diags_init(&a->found, &cx->limits);
    cx->diags = &a->found;
}

void attempt_end(Attempt *a, Ctx *cx)
{
    cx->diags = a->before;
    diags_deinit(&a->found);
}

const Name *ctx_name(Ctx *cx, const char *text)
{
    return name_intern(&cx->names, text, strlen(text));
}

const Name *ctx_name_str(Ctx *cx, Str text)
{
    return name_intern(&cx->names, text.ptr, text.len);
}

void ctx_root_add(Ctx *cx, TypeRoot *root, const Arena *arena)
{
    *root = (TypeRoot){.cx = cx, .arena = arena, .older = cx->roots};
    if (cx->roots)
        cx->roots->newer = root;
    cx->roots = root;
}

void ctx_root_remove(TypeRoot *root)
{
    if (root->older)
        root->older->newer = root->newer;
    if (root->newer)
        root->newer->older = root->older;
    else
        root->cx->roots = root->older;
}

static void keep_words(void *cx, const void *from, size_t size)
{
    type_heap_keep_words(&((Ctx *)cx)->heap, from, size);
}

static void keep_all(Ctx *cx)
{
    const Type *const made[] = {cx->poison, cx->unit, cx->boolean};
    type_heap_keep_words(&cx->heap, made, sizeof made);
    type_heap_keep_words(&cx->heap, &cx->rows, sizeof cx->rows);
    const PtrMap *maps[] = {&cx->op_types, &cx->stand_ins};
    for (size_t i = 0; i < 2; i++)
        type_heap_keep_words(&cx->heap, maps[i]->entries, maps[i]->n * sizeof *maps[i]->entries);
    arena_words(&cx->arena, keep_words, cx);
    for (const TypeRoot *s = cx->roots; s; s = s->older)
        arena_words(s->arena, keep_words, cx);
}

void ctx_collect(Ctx *cx)
{
    if (cx->heap.used >= cx->heap.due)
        types_collect(cx, keep_all);
}

TypeVar *typevar_new(Ctx *cx, const Name *name, Span span)
{
    TypeVar *v = type_heap_alloc(&cx->heap, sizeof *v);
    *v = (TypeVar){.name = name, .number = cx->vars++, .span = span};
    return v;
}

TypeDef *typedef_new(Ctx *cx, const Name *name, uint32_t n_params, const TypeVar *const *params,
                     Span span)
{
    TypeDef *def = type_heap_alloc(&cx->heap, sizeof *def);
    *def = (TypeDef){
        .name = name,
        .params = type_heap_copy(&cx->heap, params, n_params * sizeof *params),
        .n_params = n_params,
        .span = span,
    };
    return def;
}

/* What values of a constructor share, in a list of those of one name. */
typedef struct ConInfo ConInfo;
struct ConInfo {
    ObjectInfo info;
    ConInfo *next;
};

/* The object of a constructor without fields lives as long as the context and is never counted. */
static Object *nullary_object(Ctx *cx, const ObjectInfo *info)
{
    Object *o = arena_new(&cx->arena, Object);
    object_immortal(&cx->limits, info, o);
    return o;
}

/* There are as many as different constructors: definitions that come again, or differ in their fields alone, share them. */
static const ObjectInfo *con_info(Ctx *cx, const ObjectInfo *wanted)
{
    const uintptr_t key[] = {(uintptr_t)wanted->name, (uintptr_t)wanted->type_name, wanted->tag,
                             wanted->arity};
    uint64_t hash = hash_bytes(key, sizeof key, 0) | 1;
    void **slot = ptrmap_slot(&cx->con_infos, (const void *)(uintptr_t)hash);
    for (ConInfo *c = *slot; c; c = c->next)
        if (c->info.name == wanted->name && c->info.type_name == wanted->type_name &&
            c->info.tag == wanted->tag && c->info.arity == wanted->arity)
            return &c->info;
    ConInfo *c = arena_new(&cx->arena, ConInfo);
    *c = (ConInfo){.info = *wanted, .next = *slot};
    if (wanted->arity == 0)
        c->info.nullary = nullary_object(cx, &c->info);
    *slot = c;
    return &c->info;
}

Constructor *typedef_con(Ctx *cx, TypeDef *def, const Name *name, uint32_t n,
                         const Type *const *fields, Span span)
{
    const ObjectInfo info = {
        .kind = VALUE_CON,
        .tag = def->n_cons,
        .arity = n,
        .name = name->text,
        .type_name = def->name->text,
    };
    Constructor *con = type_heap_alloc(&cx->heap, sizeof *con);
    *con = (Constructor){
        .name = name,
        .type = def,
        .fields = type_heap_copy(&cx->heap, fields, n * sizeof *fields),
        .n = n,
        .index = def->n_cons,
        .span = span,
        .info = con_info(cx, &info),
    };
    /* The list has room for as many as the next power of two. */
    if ((def->n_cons & (def->n_cons - 1)) == 0) {
        size_t room = def->n_cons ? 2 * (size_t)def->n_cons : 1;
        Constructor **cons = type_heap_alloc(&cx->heap, room * sizeof *cons);
        if (def->n_cons)
            memcpy(cons, def->cons, def->n_cons * sizeof *cons);
        def->cons = cons;
    }
    def->cons[def->n_cons++] = con;
    return con;
}

const TypeDef *typedef_rows(Ctx *cx)
{
    if (cx->rows)
        return cx->rows;
    const Span none = {0};
    const TypeVar *a = typevar_new(cx, ctx_name(cx, "A"), none);
    TypeDef *def = typedef_new(cx, ctx_name(cx, "Rows"), 1, &a, none);
    const Type *of = type_var(cx, a);
    const Type *fields[2] = {of, type_adt(cx, def, 1, &of)};
    typedef_con(cx, def, ctx_name(cx, "Row"), 2, fields, none);
    typedef_con(cx, def, ctx_name(cx, "NoRow"), 0, NULL, none);
    return cx->rows = def;
}
