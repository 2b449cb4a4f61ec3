/* How values of each type are held by generated code. */
#include "jit/internal.h"

static bool all_have_fields(const TypeDef *def)
{
    bool all = def->n_cons > 0;
    for (uint32_t i = 0; i < def->n_cons && all; i++)
        all = def->cons[i]->n > 0;
    return all;
}

Repr repr_of(const Type *t)
{
    switch ((TypeKind)t->kind) {
    case TYPE_TENSOR: {
        if (dtype_id(t->dtype) == DTYPE_IDS)
            return (Repr){0};
        ReprKind kind = t->n == 0 ? REPR_SCALAR : REPR_TENSOR;
        ValueKind value = t->n == 0 ? VALUE_SCALAR : VALUE_TENSOR;
        return (Repr){.kind = kind, .dtype = t->dtype, .value = value};
    }
    case TYPE_TUPLE: return (Repr){.kind = REPR_OBJECT, .value = VALUE_TUPLE, .mortal = t->n > 0};
    case TYPE_FUNC: return (Repr){.kind = REPR_OBJECT, .value = VALUE_FUNCTION, .mortal = true};
    case TYPE_REF: return (Repr){.kind = REPR_OBJECT, .value = VALUE_REF, .mortal = true};
    case TYPE_ADT:
        return (Repr){.kind = REPR_OBJECT, .value = VALUE_CON, .mortal = all_have_fields(t->def)};
    case TYPE_VAR:
    case TYPE_HOLE:
    case TYPE_POISON: break;
    }
    return (Repr){0};
}

typedef struct Search {
    PtrMap seen; /* types and definitions: a data type may contain itself */
    Vec(const Type *) work;
    Arena arena;
} Search;

static void search_push(Search *s, const Type *t)
{
    if (ptrmap_has(&s->seen, t))
        return;
    ptrmap_put(&s->seen, t, (void *)(uintptr_t)t);
    vec_push(&s->work, &s->arena, t);
}

/* The fields of a data type's constructors, as they are written: its arguments are looked at apart. */
static void search_def(Search *s, const TypeDef *def)
{
    if (ptrmap_has(&s->seen, def))
        return;
    ptrmap_put(&s->seen, def, (void *)(uintptr_t)def);
    for (uint32_t i = 0; i < def->n_cons; i++)
        for (uint32_t k = 0; k < def->cons[i]->n; k++)
            search_push(s, def->cons[i]->fields[k]);
}

static bool holds(const Type *t, bool polymorphic)
{
    Search s = {0};
    bool found = false;
    arena_init(&s.arena, NULL);
    search_push(&s, t);
    while (s.work.n && !found) {
        const Type *now = vec_pop(&s.work);
        found = now->kind == TYPE_FUNC && (!polymorphic || now->n_params > 0);
        if (now->kind == TYPE_ADT)
            search_def(&s, now->def);
        if (now->kind == TYPE_FUNC)
            search_push(&s, now->result);
        if (now->kind != TYPE_TENSOR)
            for (uint32_t i = 0; i < now->n; i++)
                search_push(&s, now->parts[i]);
    }
    ptrmap_deinit(&s.seen);
    arena_deinit(&s.arena);
    return found;
}

bool type_holds_function(const Type *t)
{
    return holds(t, false);
}

bool type_holds_polymorphic(const Type *t)
{
    return holds(t, true);
}
