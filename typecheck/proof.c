/* What inference found is proved, where polymorphic functions are more than called.
 *
 * Unification takes two types for one as it goes, and what stands for what turns out later: that each value is what it is used as is looked
 * at when all types are known, and rests on nothing that unification believed (subsume.c). And type parameters stay inside the function that
 * introduces them. Inside they agree with nothing but themselves; but a hole made outside may be filled with one, as that of %r in
 *
 *     fn (%r) { let %f = fn [A](%x: A) { ref_write(%r, %x) }; … } */
#include "typecheck/internal.h"
#include "ir/walk.h"
#include "typecheck/subsume.h"

typedef struct Scope {
    Checker *ck;
    PtrMap known;           /* type parameters in scope */
    PtrMap fine;            /* types that have been looked through since the scope changed */
} Scope;

static void set_known(Scope *s, uint32_t n, const TypeVar *const *vars, bool known)
{
    for (uint32_t i = 0; i < n; i++) {
        if (known)
            ptrmap_put(&s->known, vars[i], s);
        else
            ptrmap_remove(&s->known, vars[i]);
    }
    if (n)
        ptrmap_clear(&s->fine);
}

/* A type parameter inside t that is not in scope; NULL when there is none. */
static const TypeVar *escaped(Scope *s, const Type *t)
{
    if (t->kind == TYPE_VAR)
        return t->var->op || ptrmap_has(&s->known, t->var) ? NULL : t->var;
    if (t->kind == TYPE_TENSOR || t->kind == TYPE_HOLE || t->kind == TYPE_POISON ||
        ptrmap_has(&s->fine, t))
        return NULL;
    /* The type of a local polymorphic function brings the function's own parameters. */
    bool own = t->n_params && !ptrmap_has(&s->known, t->params[0]);
    if (own)
        set_known(s, t->n_params, t->params, true);
    const TypeVar *found = t->kind == TYPE_FUNC ? escaped(s, t->result) : NULL;
    for (uint32_t i = 0; i < t->n && !found; i++)
        found = escaped(s, t->parts[i]);
    if (own)
        set_known(s, t->n_params, t->params, false);
    if (!found)
        ptrmap_put(&s->fine, t, s);
    return found;
}

static bool proved(void *data, const Use *use)
{
    Scope *s = data;
    Ctx *cx = s->ck->cx;
    if (cx->diags->errors > s->ck->errors)
        return true;
    Fit fit = type_fit(cx, &s->ck->holders, use->found, use->needed);
    if (fit != FIT_NOT && fit != FIT_TOO_LARGE)
        return true;
    Span span = use->slot ? ir_use_span(s->ck->home, use->slot) : use->value->span;
    if (fit == FIT_TOO_LARGE) {
        if (!limit_hit(&cx->limits))
            diag_error(cx->diags, E0121_TOO_DEEP, span,
                       "this has a type that is nested too deep, or too large, to be compared");
        return false;
    }
    Diag *d = diag_error(cx->diags, E0201_MISMATCH, span, "this is `%s`, but `%s` is needed",
                         type_str(cx, use->found), type_str(cx, use->needed));
    const Type *found = type_find(use->found), *needed = type_find(use->needed);
    if (found->kind == TYPE_FUNC && needed->kind == TYPE_FUNC && !found->n_params)
        help_less(d, needed, found);
    else
        diag_help(d, "`:why` and `:explain types` in a session show where a type comes from");
    return false;
}

static WalkNext enter(void *data, const Expr *e)
{
    Scope *s = data;
    const Function *fn = expr_as_function(e);
    if (checker_ends(s->ck))
        return WALK_STOP;
    if (fn)
        set_known(s, fn->type_params.n, fn->type_params.at, true);
    const TypeVar *v = e->type ? escaped(s, e->type) : NULL;
    if (!v)
        return expr_uses(s->ck->cx, e, proved, s) ? WALK_ON : WALK_STOP;
    Diag *d = diag_error(s->ck->cx->diags, E0215_SCOPE, e->span,
                         "the type of this is `%s`, but `%s` is known only inside its function",
                         type_str(s->ck->cx, e->type), v->name->text);
    diag_label(d, v->span, "introduced here");
    return WALK_STOP;
}

static WalkNext leave(void *data, const Expr *e)
{
    const Function *fn = expr_as_function(e);
    if (fn)
        set_known(data, fn->type_params.n, fn->type_params.at, false);
    return WALK_ON;
}

void check_proof(Checker *ck, const Expr *root)
{
    Scope s = {.ck = ck};
    ir_walk(root, enter, leave, &s);
    ptrmap_deinit(&s.known);
    ptrmap_deinit(&s.fine);
}
