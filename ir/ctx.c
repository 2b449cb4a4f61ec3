#include "ir/ctx.h"

#include <string.h>

bool ctx_init(Ctx *cx, const OpTable *ops)
{
    *cx = (Ctx){.ops = ops};
    limits_init(&cx->limits, NULL);
    diags_init(&cx->own_diags, NULL);
    cx->diags = &cx->own_diags;
    cx->limits.diags = cx->diags;
    arena_init(&cx->arena, &cx->limits);
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
    ptrmap_deinit(&cx->stand_ins);
    interner_deinit(&cx->names);
    arena_deinit(&cx->arena);
    sources_deinit(&cx->sources);
    diags_deinit(&cx->own_diags);
    limits_deinit(&cx->limits);
}

const Name *ctx_name(Ctx *cx, const char *text)
{
    return name_intern(&cx->names, text, strlen(text));
}

const Name *ctx_name_str(Ctx *cx, Str text)
{
    return name_intern(&cx->names, text.ptr, text.len);
}

TypeVar *typevar_new(Ctx *cx, const Name *name, Span span)
{
    TypeVar *v = arena_new(&cx->arena, TypeVar);
    *v = (TypeVar){.name = name, .span = span};
    return v;
}

TypeDef *typedef_new(Ctx *cx, const Name *name, uint32_t n_params, const TypeVar *const *params,
                     Span span)
{
    TypeDef *def = arena_new(&cx->arena, TypeDef);
    *def = (TypeDef){
        .name = name,
        .params = arena_copy(&cx->arena, params, n_params * sizeof *params),
        .n_params = n_params,
        .span = span,
    };
    return def;
}

/* The object of a constructor without fields lives as long as the context and is never counted. */
static Object *nullary_object(Ctx *cx, const ObjectInfo *info)
{
    Object *o = arena_new(&cx->arena, Object);
    *o = (Object){.refs = UINT32_MAX, .n = 0, .info = info};
    return o;
}

Constructor *typedef_con(Ctx *cx, TypeDef *def, const Name *name, uint32_t n,
                         const Type *const *fields, Span span)
{
    ObjectInfo *info = arena_new(&cx->arena, ObjectInfo);
    *info = (ObjectInfo){
        .kind = VALUE_CON,
        .tag = def->n_cons,
        .arity = n,
        .name = name->text,
        .type_name = def->name->text,
    };
    if (n == 0)
        info->nullary = nullary_object(cx, info);
    Constructor *con = arena_new(&cx->arena, Constructor);
    *con = (Constructor){
        .name = name,
        .type = def,
        .fields = arena_copy(&cx->arena, fields, n * sizeof *fields),
        .n = n,
        .index = def->n_cons,
        .span = span,
        .info = info,
    };
    /* The list has room for as many as the next power of two. */
    if ((def->n_cons & (def->n_cons - 1)) == 0) {
        size_t room = def->n_cons ? 2 * (size_t)def->n_cons : 1;
        Constructor **cons = arena_alloc_must(&cx->arena, room, sizeof *cons);
        if (def->n_cons)
            memcpy(cons, def->cons, def->n_cons * sizeof *cons);
        def->cons = cons;
    }
    def->cons[def->n_cons++] = con;
    return con;
}
