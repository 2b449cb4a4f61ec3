#include "ir/shapes.h"

#include "ir/ctx.h"

/* Tuples in tuples: a type may hold itself twice in each level, and is looked at as a tree. */
#define DEPTH_MOST 6

bool shapes_unknown(const Type *t)
{
    if (t->kind == TYPE_TENSOR)
        return !type_is_static(t);
    bool unknown = false;
    for (uint32_t i = 0; t->kind == TYPE_TUPLE && t->depth <= DEPTH_MOST && i < t->n && !unknown;
         i++)
        unknown = shapes_unknown(t->parts[i]);
    return unknown;
}

static bool refines(const Type *t, const Type *more)
{
    if (t == more)
        return true;
    if (t->kind != more->kind || t->n != more->n || t->depth > DEPTH_MOST)
        return false;
    bool ok = t->kind == TYPE_TUPLE || (t->kind == TYPE_TENSOR && dtype_eq(t->dtype, more->dtype));
    for (uint32_t i = 0; i < t->n && ok; i++)
        ok = t->kind == TYPE_TUPLE ? refines(t->parts[i], more->parts[i])
                                   : t->dims[i] == more->dims[i] || t->dims[i] < 0;
    return ok;
}

const Type *shapes_refined(const Type *t, const Type *more)
{
    return refines(t, more) ? more : t;
}

const Type *shapes_of_value(Ctx *cx, const Type *t, Value v)
{
    if (t->kind == TYPE_TENSOR)
        return v.kind == VALUE_TENSOR ? shapes_refined(t, type_of_tensor(cx, v.tensor)) : t;
    if (t->kind != TYPE_TUPLE || !shapes_unknown(t) || v.kind != VALUE_TUPLE)
        return t;
    const Type **fields = arena_new_array(&cx->arena, const Type *, t->n);
    for (uint32_t i = 0; fields && i < t->n; i++)
        fields[i] = shapes_of_value(cx, t->parts[i], object_get(v.object, i));
    return fields ? type_tuple(cx, t->n, fields) : t;
}
