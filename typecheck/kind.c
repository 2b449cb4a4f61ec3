/* Kinds: what is written as a type is one. */
#include "typecheck/internal.h"

/* `fn [A, B, C](A, B) -> C` is the type of no function that gives something back, only that of an operator: its relation, which the text does
 * not say, decides the result. */
static bool is_of_operator(const Type *t)
{
    if (t->kind != TYPE_FUNC || t->n_params != t->n + 1 || t->params[t->n]->op)
        return false;
    for (uint32_t i = 0; i < t->n; i++)
        if (t->parts[i]->kind != TYPE_VAR || t->parts[i]->var != t->params[i])
            return false;
    return t->result->kind == TYPE_VAR && t->result->var == t->params[t->n];
}

/* Whether written_type leaves the type as it is: it was checked, has no holes and is no operator's anywhere inside. */
static bool is_settled(const Checker *ck, const Type *t)
{
    return t->kind == TYPE_TENSOR || t->kind == TYPE_VAR || t->kind == TYPE_POISON ||
           ptrmap_find(&ck->checked, t) == t;
}

static bool parts_are_settled(const Checker *ck, const Type *t)
{
    bool settled = t->kind != TYPE_FUNC || is_settled(ck, t->result);
    for (uint32_t i = 0; i < t->n && settled; i++)
        settled = is_settled(ck, t->parts[i]);
    return settled;
}

static bool kind_ok(Checker *ck, const Type *t, Span span)
{
    if (t->kind == TYPE_TENSOR || t->kind == TYPE_VAR || t->kind == TYPE_HOLE ||
        t->kind == TYPE_POISON || ptrmap_has(&ck->checked, t))
        return true;
    bool ok = t->kind != TYPE_FUNC || kind_ok(ck, t->result, span);
    for (uint32_t i = 0; i < t->n; i++)
        ok = kind_ok(ck, t->parts[i], span) && ok;
    if (t->kind == TYPE_ADT && t->n != t->def->n_params) {
        Diag *d = diag_error(ck->cx->diags, E0213_TYPE_ARGUMENTS, span,
                             "`%s` takes %u type argument%s, found %u", t->def->name->text,
                             t->def->n_params, t->def->n_params == 1 ? "" : "s", t->n);
        diag_label(d, t->def->span, "defined here");
        ok = false;
    }
    if (ok && !t->open) {
        bool settled = !is_of_operator(t) && parts_are_settled(ck, t);
        ptrmap_put(&ck->checked, t, settled ? (void *)(uintptr_t)t : ck);
    }
    return ok;
}

/* A hole in place of a written one, so that relations can wait for it. */
static const Type *own_hole(Checker *ck, const Type *t, const HoleInfo *info)
{
    HoleInfo written = *info;
    if (!span_is_none(t->span) && info->origin != HOLE_PARAM)
        written.span = t->span;
    const Type *hole = hole_new(ck, written);
    story_unknown(ck, hole, written);
    if (ck->answers && !span_is_none(t->span))
        vec_push(&ck->asked, &ck->scratch, ((Written){hole, t}));
    return hole;
}

/* A hole in place of what is written as an operator's type, for that operator's. */
static const Type *operator_hole(Checker *ck, const Type *t, const HoleInfo *info)
{
    const Type *hole = hole_new(ck, *info);
    story_unknown(ck, hole, *info);
    vec_push(&ck->operators, &ck->scratch, ((Written){hole, t}));
    return hole;
}

/* The type with holes of ours for what its text leaves open. */
static const Type *own_holes(Checker *ck, const Type *t, const HoleInfo *info)
{
    if (is_settled(ck, t) || checker_ends(ck))
        return t;
    if (t->kind == TYPE_HOLE)
        return own_hole(ck, t, info);
    if (is_of_operator(t))
        return operator_hole(ck, t, info);
    const Type **parts = arena_new_array(&ck->scratch, const Type *, t->n);
    for (uint32_t i = 0; i < t->n; i++)
        parts[i] = own_holes(ck, t->parts[i], info);
    switch ((TypeKind)t->kind) {
    case TYPE_TUPLE: return type_tuple(ck->cx, t->n, parts);
    case TYPE_REF: return type_ref(ck->cx, parts[0]);
    case TYPE_ADT: return type_adt(ck->cx, t->def, t->n, parts);
    case TYPE_FUNC:
        return type_func(ck->cx, t->n_params, t->params, t->n, parts,
                         own_holes(ck, t->result, info));
    case TYPE_TENSOR:
    case TYPE_VAR:
    case TYPE_HOLE:
    case TYPE_POISON: break;
    }
    return t;
}

const Type *written_type(Checker *ck, const Type *t, HoleInfo info)
{
    return kind_ok(ck, t, info.span) ? own_holes(ck, t, &info) : ck->cx->poison;
}

void check_typedef(Checker *ck, const TypeDef *def)
{
    for (uint32_t i = 0; i < def->n_cons; i++)
        for (uint32_t k = 0; k < def->cons[i]->n; k++)
            kind_ok(ck, def->cons[i]->fields[k], def->cons[i]->span);
}
