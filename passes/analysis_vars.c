/* Variables, type variables, kinds and element types. */
#include "ir/walk.h"
#include "passes/analysis.h"
#include "passes/types.h"

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

static void put_type_vars(Analysis *a, bool free_ones, bool bound_ones)
{
    TypesOf w;
    types_of(a->root, NULL, &w);
    for (size_t i = 0; free_ones && i < w.used.n; i++)
        if (!ptrmap_has(&w.bound, w.used.entries[i].key))
            buf_printf(&a->out, "%s\n", ((const TypeVar *)w.used.entries[i].key)->name->text);
    for (size_t i = 0; bound_ones && i < w.bound.n; i++)
        buf_printf(&a->out, "%s\n", ((const TypeVar *)w.bound.entries[i].key)->name->text);
    types_of_free(&w);
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
    TypesOf w;
    types_of(a->root, NULL, &w);
    type_print(&a->out, a->root->type);
    buf_str(&a->out, ": Type\n");
    for (size_t i = 0; i < w.defs.n; i++)
        buf_printf(&a->out, "%s: AdtHandle\n",
                   ((const TypeDef *)w.defs.entries[i].key)->name->text);
    types_of_free(&w);
}

void analyze_dtypes(Analysis *a)
{
    TypesOf w;
    types_of(a->root, NULL, &w);
    for (int i = 0; i < DTYPE_IDS; i++)
        if (w.dtypes[i])
            buf_printf(&a->out, "%s\n", dtype_row((DTypeId)i)->name);
    types_of_free(&w);
}
