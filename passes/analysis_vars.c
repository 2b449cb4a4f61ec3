/* Variables, type variables, kinds and element types. */
#include "ir/walk.h"
#include "passes/analysis.h"

static void put_var(void *data, Var *v)
{
    Analysis *a = data;
    buf_printf(&a->out, "%%%s", v->name->text);
    const Type *t = v->base.type ? v->base.type : v->annotation;
    if (t) {
        buf_str(&a->out, ": ");
        type_print(&a->out, t);
    }
    buf_char(&a->out, '\n');
}

void analyze_free_vars(Analysis *a)
{
    ir_free_vars(a->root, put_var, a);
}

static WalkNext put_binders(void *data, const Expr *e)
{
    ir_binders(e, put_var, data);
    return WALK_ON;
}

void analyze_bound_vars(Analysis *a)
{
    ir_walk(a->root, put_binders, NULL, a);
}

void analyze_all_vars(Analysis *a)
{
    analyze_free_vars(a);
    analyze_bound_vars(a);
}

/* ---- everything that types mention ----------------------------------------------------------------- */

typedef struct TypeWalk {
    Analysis *a;
    PtrMap seen; /* types */
    PtrMap bound, used; /* type variables */
    PtrMap defs; /* data types */
    bool dtypes[DTYPE_IDS];
} TypeWalk;

static void note_type(TypeWalk *w, const Type *t)
{
    t = t ? type_find(t) : NULL;
    if (!t || ptrmap_has(&w->seen, t))
        return;
    ptrmap_put(&w->seen, t, w);
    if (t->kind == TYPE_TENSOR && dtype_id(t->dtype) < DTYPE_IDS)
        w->dtypes[dtype_id(t->dtype)] = true;
    if (t->kind == TYPE_VAR)
        ptrmap_put(&w->used, t->var, w);
    if (t->kind == TYPE_ADT)
        ptrmap_put(&w->defs, t->def, w);
    for (uint32_t i = 0; i < t->n_params; i++)
        ptrmap_put(&w->bound, t->params[i], w);
    if (t->kind == TYPE_FUNC)
        note_type(w, t->result);
    for (uint32_t i = 0; t->kind != TYPE_TENSOR && t->kind != TYPE_HOLE && i < t->n; i++)
        note_type(w, t->parts[i]);
}

static void note_binder(void *data, Var *v)
{
    TypeWalk *w = data;
    note_type(w, v->annotation);
    note_type(w, v->base.type);
}

static WalkNext note_node(void *data, const Expr *e)
{
    TypeWalk *w = data;
    const Function *f = expr_as_function(e);
    /* The type of an operator as a value has type variables of its own. */
    if (e->kind != EXPR_OP)
        note_type(w, e->type);
    for (uint32_t i = 0; f && i < f->type_params.n; i++)
        ptrmap_put(&w->bound, f->type_params.at[i], w);
    ir_binders(e, note_binder, w);
    return WALK_ON;
}

static void walk_types(Analysis *a, TypeWalk *w)
{
    *w = (TypeWalk){.a = a};
    ir_walk(a->root, note_node, NULL, w);
}

static void end_types(TypeWalk *w)
{
    ptrmap_deinit(&w->seen);
    ptrmap_deinit(&w->bound);
    ptrmap_deinit(&w->used);
    ptrmap_deinit(&w->defs);
}

static void put_type_vars(Analysis *a, bool free_ones, bool bound_ones)
{
    TypeWalk w;
    walk_types(a, &w);
    for (size_t i = 0; free_ones && i < w.used.n; i++)
        if (!ptrmap_has(&w.bound, w.used.entries[i].key))
            buf_printf(&a->out, "%s\n", ((const TypeVar *)w.used.entries[i].key)->name->text);
    for (size_t i = 0; bound_ones && i < w.bound.n; i++)
        buf_printf(&a->out, "%s\n", ((const TypeVar *)w.bound.entries[i].key)->name->text);
    end_types(&w);
}

void analyze_free_type_vars(Analysis *a)
{
    put_type_vars(a, true, false);
}

void analyze_bound_type_vars(Analysis *a)
{
    put_type_vars(a, false, true);
}

void analyze_all_type_vars(Analysis *a)
{
    put_type_vars(a, true, true);
}

void analyze_kind(Analysis *a)
{
    TypeWalk w;
    walk_types(a, &w);
    type_print(&a->out, a->root->type);
    buf_str(&a->out, ": Type\n");
    for (size_t i = 0; i < w.defs.n; i++)
        buf_printf(&a->out, "%s: AdtHandle\n",
                   ((const TypeDef *)w.defs.entries[i].key)->name->text);
    end_types(&w);
}

void analyze_dtypes(Analysis *a)
{
    TypeWalk w;
    walk_types(a, &w);
    for (int i = 0; i < DTYPE_IDS; i++)
        if (w.dtypes[i])
            buf_printf(&a->out, "%s\n", dtype_row((DTypeId)i)->name);
    end_types(&w);
}
