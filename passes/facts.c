#include "passes/facts.h"

#include "base/vec.h"
#include "ir/op.h"
#include "ir/walk.h"

static WalkNext note_function(void *data, const Expr *e)
{
    Purity *p = data;
    const Let *let = expr_as_let(e);
    if (let && let->value->kind == EXPR_FUNCTION)
        ptrmap_put(&p->functions, let->var, let->value);
    return WALK_ON;
}

void purity_init(Purity *p, const Module *module, const Module *env, const Expr *root)
{
    *p = (Purity){.module = module, .env = env};
    ir_walk(root, note_function, NULL, p);
}

void purity_deinit(Purity *p)
{
    ptrmap_deinit(&p->functions);
    ptrmap_deinit(&p->known);
}

/* One question: the bodies that must be looked at, each once; a function is assumed pure while it is being looked at. */
typedef struct Question {
    Purity *purity;
    Arena arena;
    Vec(const Function *) todo;
    PtrMap seen;
} Question;

static const Function *called_function(const Question *q, const Expr *callee)
{
    const Purity *p = q->purity;
    const GlobalVar *g = expr_as_global(callee);
    if (g) {
        const Def *def = module_find(p->module, g->name);
        def = def ? def : module_find(p->env, g->name);
        return def ? def->fn : NULL;
    }
    const Function *f = expr_as_function(callee);
    return f ? f : expr_as_function(ptrmap_find(&p->functions, callee));
}

static bool call_is_pure(Question *q, const Call *call)
{
    const Op *op = expr_call_of_op(&call->base);
    if (op)
        return !(op->flags & OP_STATEFUL);
    if (call->callee->kind == EXPR_CON)
        return true;
    const Function *f = called_function(q, call->callee);
    if (!f || attrs_find(f->attrs, "Compiler"))
        return false;
    if (ptrmap_has(&q->purity->known, f))
        return ptrmap_find(&q->purity->known, f) != NULL;
    if (!ptrmap_has(&q->seen, f)) {
        ptrmap_put(&q->seen, f, NULL);
        vec_push(&q->todo, &q->arena, f);
    }
    return true;
}

static WalkNext look(void *data, const Expr *e)
{
    Question *q = data;
    const Call *call = expr_as_call(e);
    if (e->kind == EXPR_FUNCTION)
        return WALK_SKIP;
    if (e->kind == EXPR_REF_READ || e->kind == EXPR_REF_WRITE || (call && !call_is_pure(q, call)))
        return WALK_STOP;
    return WALK_ON;
}

bool purity_of(Purity *p, const Expr *e)
{
    Question q = {.purity = p};
    arena_init(&q.arena, NULL);
    bool pure = ir_walk(e, look, NULL, &q);
    while (pure && q.todo.n)
        pure = ir_walk(vec_pop(&q.todo)->body, look, NULL, &q);
    /* All of them are pure together; when one is not, the others may still be. */
    for (size_t i = 0; pure && i < q.seen.n; i++)
        ptrmap_put(&p->known, q.seen.entries[i].key, (void *)(uintptr_t)q.seen.entries[i].key);
    ptrmap_deinit(&q.seen);
    arena_deinit(&q.arena);
    return pure;
}

/* ---- values that may be moved ------------------------------------------------------------------------------------------- */

typedef struct TypeWalk {
    Arena arena;
    Vec(const Type *) todo;
    PtrMap defs; /* data types that were looked into */
} TypeWalk;

static void look_into_adt(TypeWalk *w, const Type *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        vec_push(&w->todo, &w->arena, t->parts[i]);
    if (ptrmap_has(&w->defs, t->def))
        return;
    ptrmap_put(&w->defs, t->def, NULL);
    for (uint32_t i = 0; i < t->def->n_cons; i++)
        for (uint32_t k = 0; k < t->def->cons[i]->n; k++)
            vec_push(&w->todo, &w->arena, t->def->cons[i]->fields[k]);
}

/* Tensors and what is built of them alone; the parameters of a data type stand for its arguments. */
static bool is_plain_data(const Type *type)
{
    TypeWalk w = {0};
    bool plain = type != NULL;
    arena_init(&w.arena, NULL);
    if (type)
        vec_push(&w.todo, &w.arena, type);
    while (plain && w.todo.n) {
        const Type *t = type_find(vec_pop(&w.todo));
        if (t->kind == TYPE_TUPLE)
            for (uint32_t i = 0; i < t->n; i++)
                vec_push(&w.todo, &w.arena, t->parts[i]);
        else if (t->kind == TYPE_ADT)
            look_into_adt(&w, t);
        else
            plain = t->kind == TYPE_TENSOR || (t->kind == TYPE_VAR && w.defs.n);
    }
    ptrmap_deinit(&w.defs);
    arena_deinit(&w.arena);
    return plain;
}

bool purity_movable(Purity *p, const Expr *e)
{
    switch ((ExprKind)e->kind) {
    case EXPR_CONSTANT:
    case EXPR_VAR:
    case EXPR_GLOBAL:
    case EXPR_OP:
    case EXPR_CON:
    case EXPR_FUNCTION: return true;
    default: return is_plain_data(e->type) && purity_of(p, e);
    }
}

static WalkNext note_global(void *data, const Expr *e)
{
    const GlobalVar *g = expr_as_global(e);
    if (g)
        ptrmap_put(data, g->name, NULL);
    return WALK_ON;
}

void note_named(const Module *m, PtrMap *named)
{
    for (size_t i = 0; i < m->defs.n; i++)
        if (m->defs.at[i].fn)
            ir_walk(&m->defs.at[i].fn->base, note_global, NULL, named);
}

static void count_use(void *data, Expr *const *slot)
{
    void **n = ptrmap_slot(data, *slot);
    if (n)
        *n = (void *)((uintptr_t)*n + 1);
}

static WalkNext count_children(void *data, const Expr *e)
{
    ir_children(e, count_use, data);
    return WALK_ON;
}

void count_uses(const Expr *root, PtrMap *uses)
{
    ir_walk(root, count_children, NULL, uses);
}
