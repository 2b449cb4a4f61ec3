#include "ir/equal.h"

#include "base/vec.h"
#include "ir/ctx.h"
#include "ir/walk.h"

#include <string.h>

typedef struct Pair {
    const Expr *a, *b;
} Pair;

typedef struct Equal {
    Arena arena;
    Vec(Pair) todo;
    PtrMap left, right;     /* the bijection of variables and of nodes that carry sharing */
    Vec(const TypeVar *) vars_a, vars_b;
    bool map_free;
} Equal;

static bool pair_up(Equal *eq, const void *a, const void *b)
{
    const void *known = ptrmap_find(&eq->left, a);
    if (known || ptrmap_has(&eq->right, b))
        return known == b;
    ptrmap_put(&eq->left, a, (void *)(uintptr_t)b);
    ptrmap_put(&eq->right, b, (void *)(uintptr_t)a);
    return true;
}

static bool same_type(Equal *eq, const Type *a, const Type *b)
{
    if (!a || !b)
        return a == b;
    return type_equal_under(a, b, (uint32_t)eq->vars_a.n, eq->vars_a.at, eq->vars_b.at);
}

static bool same_binder(Equal *eq, const Var *a, const Var *b)
{
    const Type *ta = a->base.type ? a->base.type : a->annotation;
    const Type *tb = b->base.type ? b->base.type : b->annotation;
    return pair_up(eq, a, b) && (!ta || !tb || same_type(eq, ta, tb));
}

static bool same_pattern(Equal *eq, const Pattern *a, const Pattern *b)
{
    if (a->kind != b->kind || a->n != b->n || a->con != b->con)
        return false;
    if (a->kind == PATTERN_VAR)
        return same_binder(eq, a->var, b->var);
    for (uint32_t i = 0; i < a->n; i++)
        if (!same_pattern(eq, a->fields[i], b->fields[i]))
            return false;
    return true;
}

static bool push_all(Equal *eq, const ExprList *a, const ExprList *b)
{
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        vec_push(&eq->todo, &eq->arena, ((Pair){a->at[i], b->at[i]}));
    return true;
}

static bool same_vars(Equal *eq, const VarList *a, const VarList *b)
{
    bool same = a->n == b->n;
    for (uint32_t i = 0; same && i < a->n; i++)
        same = same_binder(eq, a->at[i], b->at[i]);
    return same;
}

static bool same_typevars(Equal *eq, const TypeVarList *a, const TypeVarList *b)
{
    for (uint32_t i = 0; i < a->n && a->n == b->n; i++) {
        vec_push(&eq->vars_a, &eq->arena, a->at[i]);
        vec_push(&eq->vars_b, &eq->arena, b->at[i]);
    }
    return a->n == b->n;
}

static bool same_types(Equal *eq, const TypeList *a, const TypeList *b)
{
    bool same = a->n == b->n;
    for (uint32_t i = 0; same && i < a->n; i++)
        same = same_type(eq, a->at[i], b->at[i]);
    return same;
}

static bool same_clauses(Equal *eq, const ClauseList *a, const ClauseList *b)
{
    bool same = a->n == b->n;
    for (uint32_t i = 0; same && i < a->n; i++) {
        same = same_pattern(eq, a->at[i].pattern, b->at[i].pattern);
        vec_push(&eq->todo, &eq->arena, ((Pair){a->at[i].body, b->at[i].body}));
    }
    return same;
}

static bool same_field(Equal *eq, FieldKind kind, const void *a, const void *b)
{
    switch (kind) {
    case FIELD_EXPR:
        vec_push(&eq->todo, &eq->arena, ((Pair){*(Expr *const *)a, *(Expr *const *)b}));
        return true;
    case FIELD_EXPRS: return push_all(eq, a, b);
    case FIELD_BINDER: return same_binder(eq, *(Var *const *)a, *(Var *const *)b);
    case FIELD_BINDERS: return same_vars(eq, a, b);
    case FIELD_TYPE: {
        const Type *ta = *(const Type *const *)a, *tb = *(const Type *const *)b;
        return !ta || !tb || same_type(eq, ta, tb);
    }
    case FIELD_TYPES: return same_types(eq, a, b);
    case FIELD_TYPEVARS: return same_typevars(eq, a, b);
    case FIELD_ATTRS: return attrs_equal(*(const Attrs *const *)a, *(const Attrs *const *)b);
    case FIELD_CLAUSES: return same_clauses(eq, a, b);
    case FIELD_VALUE: return value_equal(*(const Value *)a, *(const Value *)b);
    case FIELD_NAME:
    case FIELD_OP:
    case FIELD_CON: return *(const void *const *)a == *(const void *const *)b;
    case FIELD_INT: return *(const int64_t *)a == *(const int64_t *)b;
    case FIELD_BOOL: return *(const bool *)a == *(const bool *)b;
    }
    return false;
}

static bool same_node(Equal *eq, const Expr *a, const Expr *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == EXPR_VAR && !ptrmap_has(&eq->left, a))
        return (eq->map_free || a == b) && pair_up(eq, a, b);
    bool names = a->kind == EXPR_GLOBAL || a->kind == EXPR_OP || a->kind == EXPR_CON;
    bool seen = ptrmap_has(&eq->left, a);
    if (!names && !pair_up(eq, a, b))
        return false;
    if (seen)
        return true;
    /* The type arguments of operator calls follow from the arguments. */
    bool skip_types = expr_call_of_op(a) != NULL;
    const NodeInfo *info = node_info((ExprKind)a->kind);
    for (int i = 0; i < info->n; i++) {
        const NodeField *f = &info->fields[i];
        if (skip_types && f->kind == FIELD_TYPES)
            continue;
        if (!same_field(eq, f->kind, (const char *)a + f->offset, (const char *)b + f->offset))
            return false;
    }
    return true;
}

bool ir_equal(const Expr *a, const Expr *b, bool map_free_vars)
{
    Equal eq = {.map_free = map_free_vars};
    arena_init(&eq.arena, NULL);
    vec_push(&eq.todo, &eq.arena, ((Pair){a, b}));
    bool same = true;
    while (same && eq.todo.n) {
        Pair p = vec_pop(&eq.todo);
        same = same_node(&eq, p.a, p.b);
    }
    ptrmap_deinit(&eq.left);
    ptrmap_deinit(&eq.right);
    arena_deinit(&eq.arena);
    return same;
}

static bool same_typedef(const TypeDef *a, const TypeDef *b)
{
    if (a == b)
        return true;
    if (a->name != b->name || a->n_params != b->n_params || a->n_cons != b->n_cons ||
        a->is_extern != b->is_extern)
        return false;
    for (uint32_t i = 0; i < a->n_cons; i++) {
        const Constructor *x = a->cons[i], *y = b->cons[i];
        if (x->name != y->name || x->n != y->n)
            return false;
    }
    return true;
}

bool ir_module_equal(const Module *a, const Module *b)
{
    size_t na = 0, nb = 0;
    for (size_t i = 0; i < a->defs.n; i++) {
        const Def *d = &a->defs.at[i];
        const Def *other = module_find(b, d->name);
        if (!d->fn || d->imported)
            continue;
        if (!other || !ir_equal(&d->fn->base, &other->fn->base, true))
            return false;
        na++;
    }
    for (size_t i = 0; i < b->defs.n; i++)
        nb += b->defs.at[i].fn && !b->defs.at[i].imported;
    for (size_t i = 0; i < a->types.n; i++) {
        const TypeDef *other = module_find_type(b, a->types.at[i]->name);
        if (!other || !same_typedef(a->types.at[i], other))
            return false;
    }
    if (na != nb || a->types.n != b->types.n || !a->expr != !b->expr)
        return false;
    return !a->expr || ir_equal(a->expr, b->expr, true);
}

/* ---- hash: nodes in the order of the walk, children by the number of their first visit ------------------------------ */

typedef struct Hash {
    PtrMap numbers; /* node -> its number + 1 */
    uint64_t h;
} Hash;

static void hash_word(Hash *hs, uint64_t v)
{
    hs->h = hash_bytes(&v, sizeof v, hs->h);
}

static void hash_child(void *data, Expr *const *slot)
{
    Hash *hs = data;
    hash_word(hs, (uintptr_t)ptrmap_find(&hs->numbers, *slot));
}

static void hash_value(Hash *hs, const Value *v)
{
    TensorView view;
    if (!value_view(v, &view))
        return;
    hash_word(hs, (uint64_t)view.t.size << 8 | view.t.dtype.bits);
    size_t size = dtype_size(view.t.dtype);
    for (int64_t i = 0; i < view.t.size; i++)
        hs->h = hash_bytes(tensor_element(&view.t, i), size, hs->h);
}

static WalkNext hash_node(void *data, const Expr *e)
{
    Hash *hs = data;
    hash_word(hs, e->kind);
    const NodeInfo *info = node_info((ExprKind)e->kind);
    for (int i = 0; i < info->n; i++) {
        const char *at = (const char *)e + info->fields[i].offset;
        FieldKind kind = info->fields[i].kind;
        if (kind == FIELD_OP || kind == FIELD_CON || (kind == FIELD_NAME && e->kind == EXPR_GLOBAL))
            hash_word(hs, (uintptr_t)*(const void *const *)at);
        else if (kind == FIELD_INT)
            hash_word(hs, (uint64_t)*(const int64_t *)at);
        else if (kind == FIELD_VALUE)
            hash_value(hs, (const Value *)at);
    }
    ir_children(e, hash_child, hs);
    ptrmap_put(&hs->numbers, e, (void *)(uintptr_t)(hs->numbers.n + 1));
    return WALK_ON;
}

uint64_t ir_hash(const Expr *e)
{
    Hash hs = {.h = 1};
    ir_walk(e, NULL, hash_node, &hs);
    ptrmap_deinit(&hs.numbers);
    return hs.h;
}
