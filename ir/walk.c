#include "ir/walk.h"

#include "base/places.h"
#include "ir/ctx.h"

#include <string.h>

/* Where a traversal stands among the children of a node. */
typedef struct Cursor {
    uint32_t field;
    uint32_t item;
} Cursor;

static void *field_at(const Expr *e, const NodeField *f)
{
    return (char *)(uintptr_t)e + f->offset;
}

/* The next child's slot in the order of the fields; NULL when there are no more. */
static Expr **next_child(const Expr *e, Cursor *c)
{
    const NodeInfo *info = node_info((ExprKind)e->kind);
    for (; c->field < (uint32_t)info->n; c->field++, c->item = 0) {
        void *at = field_at(e, &info->fields[c->field]);
        uint32_t k = c->item++;
        switch (info->fields[c->field].kind) {
        case FIELD_EXPR:
            if (k == 0)
                return at;
            break;
        case FIELD_EXPRS:
            if (k < ((ExprList *)at)->n)
                return &((ExprList *)at)->at[k];
            break;
        case FIELD_CLAUSES:
            if (k < ((ClauseList *)at)->n)
                return &((ClauseList *)at)->at[k].body;
            break;
        case FIELD_BINDER:
        case FIELD_BINDERS:
        case FIELD_TYPE:
        case FIELD_TYPES:
        case FIELD_TYPEVARS:
        case FIELD_ATTRS:
        case FIELD_VALUE:
        case FIELD_NAME:
        case FIELD_INT:
        case FIELD_BOOL:
        case FIELD_OP:
        case FIELD_CON: break;
        }
    }
    return NULL;
}

void ir_children(const Expr *e, void (*child)(void *data, Expr *const *slot), void *data)
{
    Cursor c = {0};
    for (Expr **slot; (slot = next_child(e, &c));)
        child(data, slot);
}

void ir_binders(const Expr *e, void (*found)(void *data, Var *v), void *data)
{
    const NodeInfo *info = node_info((ExprKind)e->kind);
    for (int i = 0; i < info->n; i++) {
        void *at = field_at(e, &info->fields[i]);
        if (info->fields[i].kind == FIELD_BINDER)
            found(data, *(Var **)at);
        VarList *vars = info->fields[i].kind == FIELD_BINDERS ? at : NULL;
        for (uint32_t k = 0; vars && k < vars->n; k++)
            found(data, vars->at[k]);
        ClauseList *clauses = info->fields[i].kind == FIELD_CLAUSES ? at : NULL;
        for (uint32_t k = 0; clauses && k < clauses->n; k++)
            pattern_vars(clauses->at[k].pattern, found, data);
    }
}

/* ---- walking ---------------------------------------------------------------------------------------------------- */

typedef struct WalkFrame {
    Expr *e;
    Cursor at;
} WalkFrame;

typedef struct Walk {
    WalkFn *before, *after;
    void *data;
    Places seen;
    Arena arena;
    Vec(WalkFrame) stack;
    bool stopped;
} Walk;

/* Marks a node as seen and calls `before`; true when its children come next. */
static bool walk_enter(Walk *w, const Expr *e)
{
    if (w->stopped || !places_add(&w->seen, &w->arena, e))
        return false;
    WalkNext next = w->before ? w->before(w->data, e) : WALK_ON;
    w->stopped |= next == WALK_STOP;
    return next == WALK_ON;
}

static void walk_leave(Walk *w, const Expr *e)
{
    if (w->after && !w->stopped)
        w->stopped |= w->after(w->data, e) == WALK_STOP;
}

static void walk_binder(void *data, Var *v)
{
    Walk *w = data;
    if (walk_enter(w, &v->base))
        walk_leave(w, &v->base);
}

static void walk_push(Walk *w, Expr *e)
{
    if (!walk_enter(w, e))
        return;
    ir_binders(e, walk_binder, w);
    vec_push(&w->stack, &w->arena, ((WalkFrame){e, {0, 0}}));
}

bool ir_walk(const Expr *root, WalkFn *before, WalkFn *after, void *data)
{
    Walk w = {.before = before, .after = after, .data = data};
    arena_init(&w.arena, NULL);
    walk_push(&w, (Expr *)(uintptr_t)root);
    while (w.stack.n && !w.stopped) {
        Expr *e = vec_last(&w.stack).e;
        Expr **child = next_child(e, &vec_last(&w.stack).at);
        if (child) {
            walk_push(&w, *child);
            continue;
        }
        w.stack.n--;
        walk_leave(&w, e);
    }
    arena_deinit(&w.arena);
    return !w.stopped;
}

/* ---- free variables ---------------------------------------------------------------------------------------------- */

typedef struct FreeVars {
    PtrMap vars; /* every variable met, in order */
    PtrMap bound;
} FreeVars;

static void note_bound(void *data, Var *v)
{
    ptrmap_put(&((FreeVars *)data)->bound, v, NULL);
}

static WalkNext note_var(void *data, const Expr *e)
{
    FreeVars *fv = data;
    if (e->kind == EXPR_VAR)
        ptrmap_put(&fv->vars, e, NULL);
    else
        ir_binders(e, note_bound, fv);
    return WALK_ON;
}

void ir_free_vars(const Expr *e, void (*found)(void *data, Var *v), void *data)
{
    FreeVars fv = {0};
    ir_walk(e, note_var, NULL, &fv);
    for (size_t i = 0; i < fv.vars.n; i++)
        if (!ptrmap_has(&fv.bound, fv.vars.entries[i].key))
            found(data, expr_as_var(fv.vars.entries[i].key));
    ptrmap_deinit(&fv.vars);
    ptrmap_deinit(&fv.bound);
}

static void put_var(void *set, Var *v)
{
    ptrmap_put(set, v, NULL);
}

void ir_free_set(const Expr *e, PtrMap *set)
{
    ir_free_vars(e, put_var, set);
}
